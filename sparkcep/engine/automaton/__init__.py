"""Automata with registers, and arcs that are rows (AFA, VLDB 2010). Chunks go in. Matches with their registers and EMIT values come
out."""
