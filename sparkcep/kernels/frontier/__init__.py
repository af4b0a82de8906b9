"""Breadth-first searches: all runs advance side by side, row by row.

For each last row they give the number of its matches, the graph of them, or the cheapest one. Runs that no future row can
distinguish form one run class.
"""
