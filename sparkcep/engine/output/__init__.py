"""Output rows: matches go in, and tables come out with the value of each leaf of a measure."""
