"""The sqlglot dialect ``sparkcep``: Databricks SQL with the whole clause.

It is registered as a sqlglot plugin. It only subclasses Dialect and Tokenizer, and changes no table that other dialects share, so
it works with both builds of sqlglot, in Python and compiled.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.dialects.databricks import Databricks
from sqlglot.errors import ParseError
from sqlglot.tokens import Token

from sparkcep.clause.parser import parse_between
from sparkcep.dialect.building import delimited
from sparkcep.dialect.clauses import clause_text, node_of
from sparkcep.dialect.composed import Trees, print_around, read_around
from sparkcep.errors import ClauseError
from sparkcep.sql.rewrite.occurrences import KEYWORD, Statement

NAME = "sparkcep"


class Sparkcep(Databricks):
    """``parse_one(sql, read="sparkcep")``: a clause becomes a subquery whose query has ``match``, like sqlglot's own queries."""

    class Tokenizer(Databricks.Tokenizer):
        KEYWORDS = {word: kind for word, kind in Databricks.Tokenizer.KEYWORDS.items() if word != KEYWORD}  # elsewhere it is a name
        STRING_ESCAPES = ["\\", "'", '"']  # a doubled quote is a quote

    def parse(self, sql: str, **options) -> Trees:
        return self._read(sql, lambda tokens: _delimited(self.parser(**options).parse(tokens, sql)))

    def parse_into(self, expression_type, sql: str, **options) -> Trees:
        return self._read(sql, lambda tokens: _delimited(self.parser(**options).parse_into(expression_type, tokens, sql)))

    def generate(self, expression: exp.Expr, copy: bool = True, **options) -> str:
        return print_around(expression, lambda tree: self.generator(**options).generate(tree), clause_text)

    def _read(self, sql: str, read: Callable[[list[Token]], Trees]) -> Trees:
        tokens = self.tokenize(sql)
        if KEYWORD not in sql.upper():
            return read(tokens)
        try:
            statement = Statement(sql)
            return read_around(statement, self, tokens, lambda word, close: node_of(parse_between(sql, statement.tokens, word + 1, close)), read)
        except ClauseError as error:
            raise ParseError.new(str(error), description=error.message, line=error.line, col=error.column, highlight=error.fragment) from error


def _delimited(trees: Trees) -> Trees:
    return [delimited(tree, exp.null()) if tree is not None else None for tree in trees]
