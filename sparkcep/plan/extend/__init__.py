"""The parts of the clause beyond the standard: APPROX and BUDGET (ACEP, VLDB 2016), TOP k and PREF (CPR), AUTOMATON, ARCS FROM and
CHANGES IN (AFA), and the time of an output over a stream. A part of the tree goes in; its records come out."""
