"""Depth-first searches. A program or a net and rows go in, matches come out one by one.

:mod:`sparkcep.kernels.match.backtrack` takes adjacent rows and remembers failures. :mod:`sparkcep.kernels.match.walk` may skip rows
between those of a match.
"""
