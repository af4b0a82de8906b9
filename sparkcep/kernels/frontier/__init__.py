"""Searches that keep all runs side by side. Rows and a net go in; for each last row its number of matches, the graph of them, or
the cheapest one comes out. Runs that no future row can distinguish are one class."""
