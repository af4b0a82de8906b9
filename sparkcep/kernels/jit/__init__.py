"""Compiles and caches kernels: a Python function goes in, machine code comes out.

The code is loaded from disk, compiled now, or compiled by another process while the kernel is interpreted. Only this package uses
numba's private interface.
"""
