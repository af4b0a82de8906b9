"""The program of a row pattern for the exact search. A pattern goes in; instructions come out (CHAR, RUN, SPLIT, MATCH), as in
Thompson's and Pike's machines."""
