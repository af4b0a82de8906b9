"""The virtual machine of conditions. Bytecode, columns and the match so far go in, the truth of a condition comes out."""
