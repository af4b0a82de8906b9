"""Rows that were exchanged as blocks of columns, in any order: blocks go in, sorted batches come out, partition by partition."""
