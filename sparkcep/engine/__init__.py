"""The engine. Sorted Arrow batches go in; tables of output rows come out, in bounded memory. ``factory`` puts a search and its
output together as the strategy says."""
