"""Tokens of Spark SQL text with their offsets.

Spark's lexical rules: ``'...'`` and ``"..."`` strings with backslash escapes, raw strings, backtick
identifiers, nested block comments, ``--`` comments, identifiers that may start with a digit. Operators come
one character a token, so that ``A??`` or ``A||B`` in a row pattern and ``a || b`` in an expression need no
modes; the expression parser joins neighbours itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from sparkcep.errors import SYNTAX, error_at

WORD, QUOTED, STRING, NUMBER, OP, END = "word", "quoted", "string", "number", "op", "end"


class Token(NamedTuple):
    """``kind`` is one of the constants above; ``text`` the source text; ``upper`` it in upper case for words."""

    kind: str
    text: str
    upper: str
    start: int
    end: int


LINE_COMMENT = r"--(?:[^\r\n\\]++|\\\n?)*+"  # a backslash at the line's end continues it
_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:[lLsSyYdDfF]|[bB][dD])?(?!\w)"
_TOKEN = re.compile(
    rf"""(?P<space>\s+|{LINE_COMMENT})
    |(?P<comment>/\*)
    |(?P<string>[rR]'[^']*'|[rR]"[^"]*"|[xX]'[^']*'|'(?:[^'\\]++|\\.|'')*+'|"(?:[^"\\]++|\\.|"")*+")
    |(?P<quoted>`(?:[^`]++|``)*+`)
    |(?P<number>{_NUMBER})
    |(?P<word>\w+)
    |(?P<op>.)""",
    re.X | re.S,
)
_COMMENT_EDGE = re.compile(r"/\*(?!\+)|\*/")


def tokenize(text: str) -> list[Token]:
    """All tokens of ``text``, closed by one END token. Comments and blanks are dropped.

    Raises ClauseError for an unterminated string, quoted identifier or comment.
    """
    out: list[Token] = []
    pos, size = 0, len(text)
    scan = _TOKEN.match
    while pos < size:
        m = scan(text, pos)
        kind = m.lastgroup
        end = m.end()
        if kind == "space":
            pos = end
            continue
        if kind == "comment":
            pos = comment_end(text, pos)
            continue
        piece = m.group()
        if kind == "op" and piece in "'\"`":
            what = "quoted identifier" if piece == "`" else "string literal"
            raise error_at(text, pos, pos + 20, "UNTERMINATED_LITERAL", f"the {what} that starts here has no closing {piece}")
        out.append(Token(kind, piece, piece.upper() if kind == "word" else piece, pos, end))
        pos = end
    out.append(Token(END, "", "", size, size))
    return out


def comment_end(text: str, start: int) -> int:
    """The offset behind the comment that begins with ``/*`` at ``start``; a hint inside it does not nest, as in Spark."""
    depth, pos = 1, start + 2
    while depth:
        m = _COMMENT_EDGE.search(text, pos)
        if m is None:
            message = "the comment that starts here has no closing */"
            raise error_at(text, start, start + 20, "UNTERMINATED_COMMENT", message, SYNTAX)
        depth += 1 if m.group() == "/*" else -1
        pos = m.end()
    return pos


def name_of(token: Token) -> str:
    """The identifier a word or backtick token stands for."""
    if token.kind == QUOTED:
        return token.text[1:-1].replace("``", "`")
    return token.text


def quote(name: str) -> str:
    """``name`` as a backtick identifier."""
    return "`" + name.replace("`", "``") + "`"


def matching(tokens: list[Token], opening: str = "(", closing: str = ")") -> dict[int, int]:
    """The index of the closing bracket for that of each opening one."""
    out, stack = {}, []
    for i, t in enumerate(tokens):
        if t.kind == OP and t.text == opening:
            stack.append(i)
        elif t.kind == OP and t.text == closing and stack:
            out[stack.pop()] = i
    return out


def split_statements(text: str) -> list[str]:
    """The statements of ``text``, separated by ``;`` outside strings, comments and BEGIN ... END blocks."""
    return [span.of(text) for span in statement_spans(text)]


def statement_spans(text: str) -> list[Span]:
    """The places of those statements. Raises ClauseError."""
    out, start, depth = [], 0, 0
    tokens = tokenize(text)
    for i, token in enumerate(tokens):
        if token.upper == "BEGIN":
            depth += 1
        elif depth and token.upper in ("CASE", "IF", "LOOP", "WHILE", "REPEAT", "FOR") and token.kind == WORD:
            # END IF / END CASE close what the opening word opened
            if i and tokens[i - 1].upper != "END" and not (token.upper == "IF" and tokens[i + 1].text == "("):
                depth += token.upper not in ("WHILE", "FOR")
        elif depth and token.upper == "END":
            if tokens[i + 1].upper not in ("WHILE", "FOR"):
                depth -= 1
        elif token.kind == OP and token.text == ";" and depth == 0:
            out.append(_stripped(text, start, token.start))
            start = token.end
    out.append(_stripped(text, start, len(text)))
    return [span for span in out if len(tokenize(span.of(text))) > 1]


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
        """Whether the other lies inside."""
        return self.start <= other.start and other.end <= self.end
