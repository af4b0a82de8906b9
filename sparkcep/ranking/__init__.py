"""Ranking of matches without enumerating them (CPR, Wang's thesis 2011): arrays in, arrays out; no SQL, no Spark."""
