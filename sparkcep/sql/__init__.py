"""From SQL text to clause and back: lexer, expression and clause parsers, the rewriter."""
