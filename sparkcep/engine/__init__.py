"""Engines: matching kernels over arrays, and the rows of their matches."""
