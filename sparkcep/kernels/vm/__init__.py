"""The virtual machine of conditions. Bytecode, columns and the match so far go in; whether a condition holds comes out."""
