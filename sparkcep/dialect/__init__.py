"""The clause for tools built on sqlglot (docs/sqlglot.md).

It reads statements of Spark or another engine. It returns sqlglot trees, lineage through clauses, and Spark statements.
"""
