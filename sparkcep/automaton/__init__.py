"""The program a row pattern compiles to: read-only arrays for the matching kernel."""
