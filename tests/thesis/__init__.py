"""Algorithms of CPR (Wang's thesis, 2011; docs/bibliography.md) that sparkcep does not run: tests and benchmarks compare with
them."""
