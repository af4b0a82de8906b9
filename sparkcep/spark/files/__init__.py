"""Files of the command line: reads paths as tables, and writes results as files or text."""
