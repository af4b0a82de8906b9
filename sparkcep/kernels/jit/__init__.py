"""Compiles and caches kernels. A Python function goes in; machine code comes out: from disk, compiled now, compiled by another
process, or interpreted meanwhile. This package alone uses numba's private interface."""
