"""The clause for tools that stand on sqlglot: a dialect, and lineage through clauses (docs/sqlglot.md)."""
