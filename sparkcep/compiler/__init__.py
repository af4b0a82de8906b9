"""Compiler of plans: turns a plan into read-only arrays and chooses the strategy, the search that answers the clause, with reasons.

The engine runs the arrays. The rules of streams are here too, because EXPLAIN, the engine and Spark read both.
"""
