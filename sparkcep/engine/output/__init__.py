"""Output rows. Matches go in; tables come out, with the values that each leaf of a measure has."""
