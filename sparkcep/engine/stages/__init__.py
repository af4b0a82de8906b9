"""Stages after a search. Matches go in; matches with their errors and missing variables come out, or bundles of them (ACEP,
Definition 3)."""
