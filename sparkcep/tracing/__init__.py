"""Explains matches (``sparkcep.why``): why a match starts at a row or not, and why rows are in a match with their variables.

A trace of the search over the rows of one partition gives the answers. The package needs no Spark: a frozen table has the truth
and the sides of each comparison as columns. The engine searches these rows, too, so a wrong trace is found
(:mod:`sparkcep.tracing.rows`).
"""
