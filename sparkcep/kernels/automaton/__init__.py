"""Automata with registers (AFA). Rows and arcs go in, runs and their matches come out, also while rows are inserted and deleted."""
