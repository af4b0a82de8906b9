"""Answers for clauses beyond the standard: ranked matches, approximate matches and automata."""
