"""The k best matches of each window without a list of all (CPR). Chunks go in; ranked matches come out."""
