"""Depth-first searches. Rows and a program or a net go in; matches come out, one by one: by backtracking that remembers failures,
or by a walk that may pass over rows."""
