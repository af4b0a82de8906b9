"""Masks Jinja in SQL text, as in a dbt model, and ``${variables}``, so that the text can be read before they are replaced.

Lint, formatter and the language server use it. The masked text keeps its length and its line breaks, so every position stays valid.
An expression in double braces, or a variable, becomes a name, because it usually renders as a table, a column or a value.
Statements and comments of Jinja become blanks, so both branches of an ``{% if %}`` stay. The text of a ``{% raw %}`` block stays.

Example: ``FROM {{ ref('t') }}`` becomes ``FROM jjjjjjjjjjjjjj``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from sparkcep.clause.opaque_text import islands
from sparkcep.clause.tokens import Span
from sparkcep.errors import ClauseError

_BEGIN = re.compile(
    r"""(?P<comment>\{\#.*?\#\})
    |(?P<raw>\{%[-+]?\s*raw\s*[-+]?%\}).*?(?P<endraw>\{%[-+]?\s*endraw\s*[-+]?%\})
    |(?P<variable>\$\{[^{}\n]*\})|(?P<block>\{%)|(?P<expression>\{\{)""",
    re.X | re.S,
)
_INSIDE = re.compile(r"""'(?:[^'\\]++|\\.)*+'|"(?:[^"\\]++|\\.)*+"|%\}|[(\[{}\])]""", re.S)
_NAME = re.compile(r"j{2,}\d*")


@dataclass(frozen=True)
class Masked:
    """A text without its Jinja.

    Attributes:
        source: the text as written.
        text: the masked text.
        spans: the places of all masks, in order.
        blocks: the places of ``{% ... %}`` among them.
        names: the name in ``text`` of each distinct ``{{ ... }}`` and ``${...}``, with the source that it masks.
    """

    source: str
    text: str
    spans: tuple[Span, ...] = ()
    blocks: tuple[Span, ...] = ()
    names: tuple[tuple[str, str], ...] = ()

    def any_in(self, start: int, end: int) -> bool:
        """Whether a mask overlaps or touches ``text[start:end]``."""
        return any(span.start <= end and start <= span.end for span in self.spans)

    def block_in(self, start: int, end: int) -> bool:
        """Whether a ``{% ... %}`` overlaps ``text[start:end]``."""
        return any(span.start < end and start < span.end for span in self.blocks)

    def restored(self, message: str) -> str:
        """Returns a message about ``text`` with the source instead of each name, also of a name that the message cuts."""
        return _NAME.sub(self._source_of, message) if self.names else message

    def _source_of(self, found: re.Match) -> str:
        name = found[0]
        for known, source in self.names:
            if known == name:
                return source
        whole = next((source for known, source in self.names if known.startswith(name)), None)
        if whole is not None:
            return whole.split("\n", 1)[0][: len(name)]
        return name if name in self.source else "{{ ... }}"


def jinja_mask(text: str) -> Masked:
    """Returns ``text`` with its Jinja and variables masked. An unclosed ``{{``, ``{%`` or ``{#`` stays."""
    if not any(begin in text for begin in ("{{", "{%", "{#", "${")):
        return Masked(text, text)
    out: list[str] = []
    pos = 0
    spans: list[Span] = []
    blocks: list[Span] = []
    names: dict[str, str] = {}  # source -> name
    for kind, span in _named(text, list(_jinja(text))):
        source = span.of(text)
        spans.append(span)
        if kind in ("expression", "variable"):
            name = names.setdefault(source, _name(source.split("\n", 1)[0].rstrip("\r"), len(names)))
            instead = name + _blank(source[len(name) :])
        else:
            instead = _blank(source)
            blocks += [span] if kind == "block" else []
        out += [text[pos : span.start], instead]
        pos = span.end
    known = tuple((name, source) for source, name in names.items())
    return Masked(text, "".join([*out, text[pos:]]), tuple(spans), tuple(blocks), known)


def _jinja(text: str) -> Iterator[tuple[str, Span]]:
    """Yields the kind and the place of each comment, statement, expression and variable, and of the ends of raw text."""
    pos = 0
    while begin := _BEGIN.search(text, pos):
        kind = begin.lastgroup or ""
        pos = begin.end()
        if kind in ("comment", "variable"):
            yield kind, Span(*begin.span())
        elif kind == "endraw":
            yield from ((kind, Span(*begin.span(group))) for group in ("raw", "endraw"))
        else:
            end = _end(text, pos, "%}" if kind == "block" else "}}")
            if end is not None:
                yield kind, Span(begin.start(), end)
                pos = end


def _named(text: str, found: list[tuple[str, Span]]) -> list[tuple[str, Span]]:
    """Leaves out the variables inside of strings, quoted names and comments."""
    if all(kind != "variable" for kind, _ in found):
        return found
    plain, pos = [], 0
    for _, span in found:
        plain += [text[pos : span.start], _blank(span.of(text))]
        pos = span.end
    try:
        inside = list(islands("".join([*plain, text[pos:]])))
    except ClauseError:  # the text is wrong, or will be right
        return found
    starts, ends = [start for start, _ in inside], [0, *(end for _, end in inside)]
    return [(kind, span) for kind, span in found if kind != "variable" or ends[bisect_right(starts, span.start)] <= span.start]


def _end(text: str, pos: int, close: str) -> int | None:
    """Returns the offset after ``close``, outside of strings and brackets. Returns None if there is none."""
    depth = 0
    for found in _INSIDE.finditer(text, pos):
        if depth == 0 and text.startswith(close, found.start()):
            return found.start() + len(close)
        depth += (found[0] in "([{") - (found[0] in ("}", ")", "]", "%}"))
        if depth < 0:
            return None
    return None


def _name(line: str, number: int) -> str:
    """Returns a name as long as ``line``, the first line of an expression. The number distinguishes expressions of one length."""
    tag = str(number) if number else ""
    return "j" * max(len(line) - len(tag), 1) + tag if len(tag) < len(line) else "j" * len(line)


def _blank(text: str) -> str:
    return re.sub(r"[^\r\n]", " ", text)
