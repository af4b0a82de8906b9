"""Reads the rewritten text of a stored view, and prints its clauses from their plans."""
