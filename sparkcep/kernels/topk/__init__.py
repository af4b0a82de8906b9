"""The k best matches. Rows, a net and scores go in; the best k of each window come out (CPR), and bounds of scores."""
