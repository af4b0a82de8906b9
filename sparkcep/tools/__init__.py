"""Tools for those who write clauses. Text goes in; findings, formatted text and proposals come out."""
