"""EXPLAIN. A plan goes in; its search, its cost and who computes what come out, in words or as an AUTOMATON."""
