"""Columns of Arrow as the arrays of kernels. Arrow arrays go in; values, NULL marks, ranks and partition boundaries come out, and
rows as bytes."""
