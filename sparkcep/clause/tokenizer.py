"""Lexer: cuts Spark SQL text into sqlglot's tokens, with sqlglot's tokenizer and Spark's rules.

``clause/tokens`` calls it. Comments are replaced by blanks before the tokenizer reads, because Spark ends them by its own rules.
"""

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
    """sqlglot's tokenizer with Spark's rules.

    No statement is a command whose rest is one string, no word contains a sign, and a quote may be doubled inside its literal.
    """

    COMMANDS = set()
    KEYWORDS = {word: kind for word, kind in Databricks.Tokenizer.KEYWORDS.items() if not (word[0].isalpha() and "-" in word)}
    SINGLE_TOKENS = {**Databricks.Tokenizer.SINGLE_TOKENS, "$": TokenType.UNKNOWN, "@": TokenType.UNKNOWN}  # otherwise a number after them loses its fraction
    STRING_ESCAPES = ["\\", "'", '"']


Tokenizer._COMMENTS = {}  # Comments are blanked before. Also, "{#" does not begin a comment in Spark, and a row pattern may contain it.
_DIALECT = Databricks()


class _Flink(Dialect):
    """Flink's SQL, because sqlglot lacks a dialect for it."""

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS = ["`"]


class _Spark(Databricks):
    """Spark's own SQL, where a quote may be doubled inside its literal."""

    class Tokenizer(Databricks.Tokenizer):
        STRING_ESCAPES = ["\\", "'", '"']


@cache
def dialect_of(read: str) -> Dialect:
    """sqlglot's dialect for the name of an SQL."""
    own = {"flink": _Flink, "spark": _Spark}.get(read)
    found = own() if own else Dialect.get_or_raise(read)
    if read == "trino":
        found.NUMBERS_CAN_BE_UNDERSCORE_SEPARATED = True  # 1_000 is a number
    return found


@cache
def _tokenizer(read: type[Dialect]) -> type[tokens.Tokenizer]:
    made = type("Tokenizer", (read.tokenizer_class,), {"COMMANDS": set()})
    made._COMMENTS = {begin: end for begin, end in made._COMMENTS.items() if begin != "{#"}
    return made


def sqlglot_tokens(text: str, read: Dialect) -> list[Token]:
    """The tokens of a text in another engine's SQL. Raises ClauseError for a literal, a quoted name or a comment without an end."""
    try:
        return _tokenizer(type(read))(dialect=read).tokenize(text)
    except TokenError:
        raise error_at(text, 0, 20, "SYNTAX", "a literal, a quoted name or a comment in this text is not closed in the SQL of that engine") from None


def cut(text: str, read: str = "") -> Iterator[tuple[Token, str, int]]:
    """Cuts a text into sqlglot's tokens.

    Args:
        text: the text.
        read: the name of another SQL, "" for Spark's.

    Yields:
        Each token, with the stretch of text that its ``start`` and ``end`` refer to, and the stretch's offset.

    Raises:
        ClauseError: for a text that cannot be read.
    """
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
