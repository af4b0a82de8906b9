"""The matching algorithms as numba kernels: arrays in, arrays out. No kernel knows Arrow, Spark or SQL."""
