"""Drops rows before the exchange: turns a plan and estimates from a sample into the SQL of a filter or of time slices."""
