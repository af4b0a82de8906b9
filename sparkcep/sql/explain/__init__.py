"""EXPLAIN: describes a plan's search, its cost and who computes what, in words or as an AUTOMATON."""
