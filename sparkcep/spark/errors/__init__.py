"""Errors in the user's words: maps Spark's errors to positions in the user's statement."""
