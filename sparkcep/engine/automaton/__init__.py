"""Automata with registers, and arcs that are rows (AFA). Chunks go in; matches with their registers and EMIT come out."""
