"""The parts that all searches of the engine share.

Batches of rows go in. Chunks, their predicates, match batches, windows and saved state come out.
"""
