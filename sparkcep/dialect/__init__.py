"""The clause for tools built on sqlglot (docs/sqlglot.md). Statements of Spark or of another engine go in; trees of sqlglot,
lineage through clauses and statements of Spark come out."""
