"""Explains matches: why a match starts at a row or not, why a row is in a match or not, and why rows have their variables.

A trace of the search over the rows of one partition gives the answers. The package needs no Spark: a frozen table has the truth and
the sides of each comparison as columns. The engine searches the same rows, so a wrong trace is found (:mod:`sparkcep.why.verify`).
"""
