"""Advice for clauses that cannot be read. A clause's tokens and an error go in; the likely slip, its place and the corrected text
come out."""
