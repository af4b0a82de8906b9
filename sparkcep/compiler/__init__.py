"""Compiles plans. A plan goes in; read-only arrays come out, and the strategy: which search answers the clause, and why. The rules
of streams lie beside it, since EXPLAIN, the engine and Spark read both."""
