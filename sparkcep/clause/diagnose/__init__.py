"""Diagnosis of syntax errors: from a clause's tokens and an error to the likely slip, its place and the corrected text."""
