"""Rewrites statements. A statement with clauses goes in; plain Spark SQL comes out, and the way back from its places to the
user's."""
