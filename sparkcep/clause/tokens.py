"""Tokens of Spark SQL text, with their offsets.

The parser and the rewriter read them. sqlglot cuts the text (``clause/tokenizer``, imported for the first text), and this module
maps its tokens to five kinds. Each operator character is a token of its own, so that ``A??`` or ``A||B`` in a row pattern and ``a
|| b`` in an expression need no lexer modes. The expression parser joins neighbours itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sparkcep.clause.opaque_text import islands

WORD, QUOTED, STRING, NUMBER, OP, END = "word", "quoted", "string", "number", "op", "end"


class Token(NamedTuple):
    """A token.

    Attributes:
        kind: one of the constants above.
        text: the source text.
        upper: the source text, in upper case for words.
        start, end: its offsets.
    """

    kind: str
    text: str
    upper: str
    start: int
    end: int


_DECIMAL = r"(?:[dDfF]|[bB][dD])?"  # suffix of a number with a fraction or an exponent
_NUMBER = (
    rf"(?:\d+[eE][+-]\d+{_DECIMAL}|(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?{_DECIMAL}(?![A-Za-z0-9_])|\d+(?:[eE]\d+)?{_DECIMAL}(?!\w)|\d+[lLsSyY](?!\w))"
)
_IS_NUMBER = re.compile(_NUMBER).fullmatch
_TOUCHING = re.compile(r"(?:[\w.]|(?<=[eE])[+-](?=\d))*").match
_PIECES = re.compile(rf"(?P<number>{_NUMBER})|(?P<word>\w+)|(?P<op>\S)")
_QUOTES = frozenset("'\"`")
_BLOCK = re.compile(r"\bBEGIN\b", re.I)
_BEFORE_STATEMENTS = ("BEGIN", "DO", "LOOP", "REPEAT")  # so do THEN and ELSE, but expressions may follow these, too
_STRETCH = re.compile(r";|[^\s;]+")
_COMMENTS = ("--", "/*")


def tokenize(text: str, read: str = "") -> list[Token]:
    """All tokens of ``text``, closed by one END token. Comments and blanks are dropped.

    ``read``: the name of the text's SQL, "" for Spark's. Raises ClauseError for an unterminated string, quoted identifier or
    comment.
    """
    from sparkcep.clause.tokenizer import cut

    out: list[Token] = []
    end = 0
    for token, stretch, offset in cut(text, read):
        start = token.start + offset
        if start < end:  # skip the type that sqlglot adds for a number's suffix
            continue
        end = token.end + offset + 1
        piece = text[start:end]
        first = piece[0]
        if first in _QUOTES or (read and token.token_type.name.endswith("STRING")):
            quoted = first == "`" or (first == '"' and token.token_type.name == "IDENTIFIER")
            if not quoted and out and out[-1].end == start and out[-1].upper in ("R", "X") and (first == "'" or out[-1].upper == "R"):
                start = out.pop().start  # after "1." sqlglot does not recognize the prefix
            out.append(Token(QUOTED if quoted else STRING, text[start:end], text[start:end], start, end))
        elif first.isalpha() or first == "_":
            if piece[-1] in "'\"":  # r'...', X'...'; n'...' is a word and a string
                prefix = start + 1 if first in "nN" else start
                if prefix > start:
                    out.append(Token(WORD, first, first.upper(), start, prefix))
                out.append(Token(STRING, text[prefix:end], text[prefix:end], prefix, end))
            elif piece.isalnum() or piece.replace("_", "").isalnum():
                out.append(Token(WORD, piece, piece.upper(), start, end))
            else:
                out += _pieces(stretch, start, end, offset)
        elif len(piece) == 1 and not first.isdigit():
            out.append(Token(OP, piece, piece, start, end))
        else:
            if out and out[-1].end == start and out[-1].text == "." and first.isdigit():
                start = out.pop().start
            if first.isdigit() and not _IS_NUMBER(piece):  # for example, sqlglot reads 1e3-2 in 1e3-2.5 as a number
                end = _TOUCHING(stretch, end - offset).end() + offset
            out += _pieces(stretch, start, end, offset)
    out.append(Token(END, "", "", len(text), len(text)))
    return out


def _pieces(stretch: str, start: int, end: int, offset: int) -> list[Token]:
    """The tokens inside one sqlglot token: ORDER BY, an operator of several signs, or a number that Spark ends elsewhere.

    ``stretch`` contains the token. It begins at ``offset`` and has blanks for comments.
    """
    out = []
    for m in _PIECES.finditer(stretch, start - offset, end - offset):
        piece = m.group()
        out.append(Token(m.lastgroup, piece, piece.upper() if m.lastgroup == WORD else piece, m.start() + offset, m.end() + offset))
    return out


def name_of(token: Token) -> str:
    """The identifier in a word or a quoted token."""
    return unquoted(token.text) if token.kind == QUOTED else token.text


def unquoted(text: str) -> str:
    """The name in ``text``, which may be quoted."""
    return text[1:-1].replace(text[0] * 2, text[0]) if text[0] in _QUOTES else text


def quote(name: str) -> str:
    """``name`` as a backtick identifier."""
    return "`" + name.replace("`", "``") + "`"


def matching(tokens: list[Token], opening: str = "(", closing: str = ")") -> dict[int, int]:
    """Maps the index of each opening bracket to that of its closing bracket."""
    out, stack = {}, []
    for i, t in enumerate(tokens):
        if t.kind == OP and t.text == opening:
            stack.append(i)
        elif t.kind == OP and t.text == closing and stack:
            out[stack.pop()] = i
    return out


def one_line(text: str) -> str:
    """The text without comments and with one blank for several. Strings and quoted names stay as they are."""
    parts: list[str] = []
    end = 0
    for token in tokenize(text):
        if token.start > end:
            between = text[end : token.start].strip()
            parts.append(" " if not between or between.startswith(_COMMENTS) else between)
        parts.append(text[token.start : token.end])
        end = token.end
    return "".join(parts).strip()


def split_statements(text: str) -> list[str]:
    """The statements of ``text``, separated by ``;`` outside strings, comments and BEGIN ... END blocks."""
    return [span.of(text) for span in statement_spans(text)]


def statement_spans(text: str) -> list[Span]:
    """The places of the statements of ``text``, see :func:`split_statements`. Raises ClauseError."""
    return _spans_by_tokens(text) if _BLOCK.search(text) else _spans_by_semicolons(text)


def _spans_by_semicolons(text: str) -> list[Span]:
    """The statements of a text without BEGIN ... END blocks, which need not be cut into tokens."""
    out, start, pos, empty = [], 0, 0, True
    for begin, end in (*islands(text), (len(text), len(text))):
        for found in _STRETCH.finditer(text, pos, begin):
            if found[0] != ";":
                empty = False
                continue
            if not empty:
                out.append(_stripped(text, start, found.start()))
            start, empty = found.end(), True
        empty = empty and (begin == end or text.startswith(_COMMENTS, begin))
        pos = end
    return out if empty else [*out, _stripped(text, start, len(text))]


def _spans_by_tokens(text: str) -> list[Span]:
    out, start, depth, empty = [], 0, 0, True
    tokens = tokenize(text)
    for i, token in enumerate(tokens):
        if token.upper == "BEGIN":
            depth += 1
        elif depth and token.upper in ("CASE", "IF", "LOOP", "WHILE", "REPEAT", "FOR") and token.kind == WORD:
            # END IF and END CASE close the opening word
            if i and tokens[i - 1].upper != "END" and not (token.upper == "IF" and _is_call(tokens, i)):
                depth += token.upper not in ("WHILE", "FOR")
        elif depth and token.upper == "END":
            if tokens[i + 1].upper not in ("WHILE", "FOR"):
                depth -= 1
        ends = token.kind == END or (token.text == ";" and depth == 0)
        if ends and not empty:
            out.append(_stripped(text, start, token.start))
        start, empty = (token.end, True) if ends else (start, False)
    return out


def _is_call(tokens: Sequence[Token], at: int) -> bool:
    """Whether IF in a block calls the function: ``THEN if(a, b, c)`` in contrast to the statement ``IF (a) THEN``."""
    if tokens[at + 1].text != "(" or tokens[at - 1].text == ";" or tokens[at - 1].upper in _BEFORE_STATEMENTS:
        return False
    if tokens[at - 1].upper not in ("THEN", "ELSE"):
        return True
    depth = 0
    for token in tokens[at + 1 :]:
        depth += (token.text == "(") - (token.text == ")")
        if not depth or (token.text == "," and depth == 1):
            return token.text == ","
    return False


def _stripped(text: str, start: int, end: int) -> Span:
    body = text[start:end].strip()
    start = text.index(body, start)
    return Span(start, start + len(body))


@dataclass(frozen=True)
class Span:
    """Half-open character range in the statement text."""

    start: int
    end: int

    def of(self, text: str) -> str:
        return text[self.start : self.end]

    def holds(self, other: Span) -> bool:
        """Whether the other span lies inside."""
        return self.start <= other.start and other.end <= self.end
