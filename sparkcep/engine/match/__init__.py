"""Exact matches, one by one. Chunks go in; the preferred match of each start row comes out, or every match, or the k best of those
listed."""
