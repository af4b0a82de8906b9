"""Conditions taken apart into comparisons, and the columns that a trace needs."""
