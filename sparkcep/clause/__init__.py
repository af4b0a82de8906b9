"""Lexer and parser of the clause: from text to tokens, expressions, the row pattern, and the clause as a tree with spans.

Names are not resolved here.
"""
