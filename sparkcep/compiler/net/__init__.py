"""Nets: automata over (node, row) for searches that skip rows (event selection).

Each module turns a pattern into nodes and edges, as arrays. Edges that skip variables are those of ACEP (VLDB 2016).
"""
