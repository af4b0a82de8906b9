"""Algorithms of papers beside the thesis (docs/bibliography.md) that sparkcep does not run: benchmarks compare with them."""
