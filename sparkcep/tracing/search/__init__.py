"""The traced search: the pattern as a program, runs, and the search from each start row."""
