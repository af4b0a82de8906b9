"""Arrow columns as the arrays of kernels: values, NULL marks, ranks and partition boundaries. Also rows as bytes."""
