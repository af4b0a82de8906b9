"""Stages around an operator. Matches go in. Matches with their errors and missing variables, bundles of matches, rows in no match,
or changes of matches come out (ACEP, Definition 3)."""
