"""The rows of a partition with the values of comparisons, and the engine's own search over them."""
