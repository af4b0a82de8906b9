"""Rewrites statements: finds clauses, puts subqueries in their place, explains them, and finds places again."""
