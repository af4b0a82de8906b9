"""Forms of an answer beside its text: the blocks of a page, and timelines of rows with their variables."""
