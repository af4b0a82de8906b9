"""Numbers rows by their keys, and orders the rows of each key."""
