"""Approximate matches under a budget (ACEP, VLDB 2016). Chunks and a history go in; the matches come out that the checks of each
row find, and counts of those checks."""
