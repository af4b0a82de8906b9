"""TOP k without enumerating all matches (CPR): chunks go in, and the ranked k best matches of each window come out."""
