"""Spark SQL text cut into sqlglot's tokens. The tokenizer is sqlglot's with Spark's rules; comments, which Spark ends in a way of
its own, are blanks before it reads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from sqlglot import tokens
from sqlglot.dialects.databricks import Databricks
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType

from sparkcep.clause.opaque_text import stretches
from sparkcep.errors import error_at


class Tokenizer(Databricks.Tokenizer):
    """No statement is a command whose rest is one string, no word has a sign in it, and a quote may be doubled inside its
    literal."""

    COMMANDS = set()
    KEYWORDS = {word: kind for word, kind in Databricks.Tokenizer.KEYWORDS.items() if not (word[0].isalpha() and "-" in word)}
    SINGLE_TOKENS = {**Databricks.Tokenizer.SINGLE_TOKENS, "$": TokenType.UNKNOWN, "@": TokenType.UNKNOWN}  # else a number behind them has no fraction
    STRING_ESCAPES = ["\\", "'", '"']


Tokenizer._COMMENTS = {}  # there are none left; and "{#", where a row pattern may begin an exclusion, is none to Spark
_DIALECT = Databricks()


class _Flink(Dialect):
    """Flink's SQL, of which sqlglot has no dialect."""

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS = ["`"]


class _Spark(Databricks):
    """Spark's own SQL, in which a quote may be doubled inside its literal."""

    class Tokenizer(Databricks.Tokenizer):
        STRING_ESCAPES = ["\\", "'", '"']


@cache
def dialect_of(read: str) -> Dialect:
    """sqlglot's dialect of a SQL's name."""
    own = {"flink": _Flink, "spark": _Spark}.get(read)
    return own() if own else Dialect.get_or_raise(read)


@cache
def _tokenizer(read: type[Dialect]) -> type[tokens.Tokenizer]:
    made = type("Tokenizer", (read.tokenizer_class,), {"COMMANDS": set()})
    made._COMMENTS = {begin: end for begin, end in made._COMMENTS.items() if begin != "{#"}
    return made


def sqlglot_tokens(text: str, read: Dialect) -> list[Token]:
    """The tokens of a text in another engine's SQL. Raises ClauseError."""
    try:
        return _tokenizer(type(read))(dialect=read).tokenize(text)
    except TokenError:
        raise error_at(text, 0, 20, "SYNTAX", "a literal, a quoted name or a comment of this text has no end in the SQL of that engine") from None


def cut(text: str, read: str = "") -> Iterator[tuple[Token, str, int]]:
    """The tokens, each with the stretch of text that was cut, in which its ``start`` and ``end`` count, and that one's offset;
    ``read``: the SQL's name where it is not Spark's. Raises ClauseError."""
    if read:
        yield from ((token, text, 0) for token in sqlglot_tokens(text, dialect_of(read)))
        return
    for offset, stretch in stretches(text):
        try:
            found = Tokenizer(dialect=_DIALECT).tokenize(stretch)
        except TokenError:
            raise error_at(text, offset, offset + 20, "SYNTAX", "the text that begins here cannot be read as SQL") from None
        for token in found:
            yield token, stretch, offset
