"""Matches of rows that are inserted and deleted (AFA, section 5). Changes of rows go in; changes of matches come out."""
