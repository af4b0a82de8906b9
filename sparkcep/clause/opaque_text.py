"""Opaque stretches of SQL text: literals, quoted names and comments, which Spark's lexer reads as a whole; and text without
comments, in stretches of bounded length.

``clause/tokenizer`` reads the stretches. The rewriter uses :func:`mentions` to skip statements without the clause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkcep.errors import SYNTAX, error_at

_STRETCH = 65_536  # characters; a longer stretch ends at the next blank
_LONG = 1_000  # characters; the inside of a longer literal becomes zeros
_BLANK = re.compile(r"\s")
LINE_COMMENT = r"--(?:[^\r\n\\]++|\\\n?)*+"  # a backslash at the line's end continues it
_COMMENT_EDGE = re.compile(r"/\*(?!\+)|\*/")
_ISLAND = re.compile(
    rf"""(?P<comment>{LINE_COMMENT}|/\*)
    |(?P<literal>(?<!\w)(?:[rR]'[^']*'|[rR]"[^"]*")|(?:(?<!\w)[xX])?'(?:[^'\\]++|\\.|'')*+'|"(?:[^"\\]++|\\.|"")*+")
    |`(?:[^`]++|``)*+`
    |(?P<open>['"`])""",
    re.X | re.S,
)


def stretches(text: str) -> Iterator[tuple[int, str]]:
    """Splits a text into stretches, each with its offset. A stretch has bounded length, unless it contains no blank.

    Comments become blanks. The insides of long literals, and of literals with a prefix, become zeros. Raises ClauseError for a
    literal, a quoted name or a comment without an end.
    """
    out: list[str] = []
    begin = pos = 0
    for start, end, instead in _islands(text):
        while blank := _BLANK.search(text, max(pos, begin + _STRETCH), start):
            yield begin, "".join([*out, text[pos : blank.start()]])
            begin = pos = blank.start()
            out = []
        out += [text[pos:start], instead]
        pos = end
    yield begin, "".join(out)


def mentions(text: str, word: str) -> bool:
    """Whether ``word``, in any case, is in the text outside of literals, quoted names and comments.

    Takes linear time and little memory. Raises ClauseError for a literal, a quoted name or a comment without an end before the
    word.
    """
    named = re.compile(rf"(?<!\w){word}(?!\w)", re.I)
    at = named.search(text)
    if at is None:
        return False
    for start, end in islands(text):
        if at.start() < start:
            return True
        if at.start() < end:
            at = named.search(text, end)
            if at is None:
                return False
    return True


def islands(text: str) -> Iterator[tuple[int, int]]:
    """The places of literals, quoted names and comments. Raises ClauseError for an unterminated one."""
    yield from ((start, end) for start, end, _ in _islands(text) if start < end)


def _islands(text: str) -> Iterator[tuple[int, int, str]]:
    """The places of literals, quoted names and comments, each with its replacement. The last item is the text's end."""
    pos = 0
    while m := _ISLAND.search(text, pos):
        start, pos = m.span()
        instead = m.group()
        if m["open"]:
            what = "quoted identifier" if instead == "`" else "string literal"
            raise error_at(text, start, start + 20, "UNTERMINATED_LITERAL", f"the {what} that starts here is not closed by {instead}")
        if m["comment"]:
            if instead == "/*":
                pos = comment_end(text, start)
            instead = " " * (pos - start)
        elif m["literal"] and (pos - start > _LONG or instead[0] in "xXrR"):
            head = 1 if instead[0] in "'\"" else 2
            instead = instead[:head] + "0" * (pos - start - head - 1) + instead[-1]
        yield start, pos, instead
    yield len(text), len(text), ""


def comment_end(text: str, start: int) -> int:
    """The offset after the comment that begins with ``/*`` at ``start``. A hint inside it does not nest, as in Spark."""
    depth, pos = 1, start + 2
    while depth:
        m = _COMMENT_EDGE.search(text, pos)
        if m is None:
            message = "the comment that starts here is not closed by */"
            raise error_at(text, start, start + 20, "UNTERMINATED_COMMENT", message, SYNTAX)
        depth += 1 if m.group() == "/*" else -1
        pos = m.end()
    return pos
