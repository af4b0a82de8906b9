"""Errors in the user's words. An error of Spark's goes in; one with a place in the user's statement comes out."""
