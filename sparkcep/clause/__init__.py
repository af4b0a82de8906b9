"""The clause as text and as a tree: tokens, expressions, the row pattern, the clause; nothing is resolved here."""
