"""Benchmarks: ratios inside one interleaved run. ``python -m tests.benchmarks`` prints tables and writes JSON."""
