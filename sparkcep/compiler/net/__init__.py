"""Nets: automata over (node, row) for searches that pass over rows. A pattern goes in; nodes and edges come out, as arrays. Edges
that skip variables are those of ACEP (VLDB 2016)."""
