"""Parts that several kernels share: array layouts, hash tables, persistent run chains, partition cursors and window ends."""
