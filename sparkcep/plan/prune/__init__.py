"""Rows that cannot matter. A plan goes in; the conditions come out that a row, a partition or a slice of time has to meet."""
