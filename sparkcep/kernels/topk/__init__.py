"""The k best matches (CPR, 2011): rows, a net and scores go in, the best k of each window come out. Also score bounds for walks."""
