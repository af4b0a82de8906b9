"""Parts that several searches share: the layout of their arrays, hash tables, persistent lists of runs, cursors over partitions,
and the ends of windows."""
