"""Planner for the clause's extensions beyond the standard, one module each: from a part of the parse tree to its records.

They are APPROX and BUDGET (ACEP, VLDB 2016), TOP k and PREF (CPR), AUTOMATON, ARCS FROM and CHANGES IN (AFA), and the event time of
a stream's output.
"""
