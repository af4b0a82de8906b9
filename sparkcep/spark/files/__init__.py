"""Files of the command line. Paths go in; tables come out, and results as files or text."""
