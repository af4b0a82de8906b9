"""Arrow columns to kernel arrays, and conditions to bytecode over them."""
