"""Answers for each last row: the number of matches, their graph, and the cheapest approximate match (ACEP, VLDB 2016).

Chunks go in, and match batches come out.
"""
