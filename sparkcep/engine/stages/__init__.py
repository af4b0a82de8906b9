"""Stages after a search. Matches go in. Matches with their errors and missing variables, or bundles of matches, come out (ACEP,
Definition 3)."""
