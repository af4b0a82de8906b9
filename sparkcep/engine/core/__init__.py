"""The parts that all searches of the engine share. Batches of rows go in; chunks, the predicates of their rows, matches, windows
and saved state come out."""
