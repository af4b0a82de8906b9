"""Pruning: derives from a plan the conditions that a row, a partition or a time slice must meet to matter."""
