"""Pattern compiler for the exact search: turns a row pattern into a program.

The instructions (CHAR, RUN, SPLIT, MATCH and so on) are those of Thompson's and Pike's machines, extended.
"""
