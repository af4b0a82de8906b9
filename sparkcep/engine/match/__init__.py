"""Exact matches, one by one: the preferred match of each start row, every match, or the k best of the listed matches.

Chunks go in, and match batches come out.
"""
