"""Tools for authors of clauses: lint, formatting and completion of text."""
