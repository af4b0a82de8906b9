"""Language server: diagnostics, completion and navigation for clauses in an editor."""
