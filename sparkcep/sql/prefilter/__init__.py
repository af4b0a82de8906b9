"""Drops rows before the exchange. A plan and estimates of a sample go in; the SQL of a filter or of slices of time comes out."""
