"""Compiler of automata with registers (AFA).

It turns an AUTOMATON, or a PATTERN whose matches may change, into states, arcs and the bytecode of fences, assignments and EMIT.
"""
