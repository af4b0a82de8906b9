"""Statements: rewrites a statement to the one that Spark runs, and explains it."""
