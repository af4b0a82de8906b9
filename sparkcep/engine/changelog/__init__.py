"""Changelogs of matches over rows that are inserted and deleted (AFA, section 5). Changes of rows go in. Changes of matches come
out."""
