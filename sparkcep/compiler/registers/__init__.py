"""Automata with registers (AFA). An AUTOMATON goes in, or a PATTERN whose matches may change; states, arcs and the bytecode of
fences, assignments and EMIT come out."""
