"""The clause as text and as a tree. Text goes in; tokens, expressions, the row pattern and the clause with its spans come out.
Names are not resolved here."""
