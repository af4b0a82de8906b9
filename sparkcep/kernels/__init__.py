"""The searches as kernels: arrays go in, arrays come out. Nothing here knows of Arrow, of Spark or of SQL."""
