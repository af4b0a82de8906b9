"""The searches as kernels: arrays in, arrays out. Nothing here knows of Arrow, of Spark or of SQL."""
