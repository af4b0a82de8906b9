"""The rewriter: turns statements with clauses into plain Spark SQL, and maps positions back to the user's text."""
