"""The lines of an answer as the blocks of a page: headings, sentences, tables, pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sparkcep.draw.timeline import Timeline
from sparkcep.tracing.forms.lines import BAR, Line

HEADS = {
    "comparison": ("variable", "condition", "with values", "result", ""),
    "counter": ("variable", "condition", "true", "false", "NULL", ""),
}
_BOXED = ('If "', "No single comparison", "Culprit: ", "Hint: ")


@dataclass(frozen=True)
class Block:
    """A part of a page.

    Attributes:
        kind: "heading", "text", "aligned" (in a font of equal widths), "box" (what to change), "table", "bars" or "picture".
        text: its text, or the lines of aligned text.
        indent: how far it is indented.
        heads: the heads of a table's columns.
        rows: the rows of a table or the bars, as :class:`sparkcep.tracing.forms.lines.Line`.
        timeline: the timeline of a picture.
    """

    kind: str
    text: str = ""
    indent: int = 0
    heads: tuple[str, ...] = ()
    rows: tuple[Line, ...] = ()
    timeline: Timeline | None = None


def blocks(lines: Sequence[str], timelines: Sequence[Timeline]) -> tuple[Block, ...]:
    """The blocks of a page.

    Args:
        lines: the lines of the text form.
        timelines: the pictures. Each comes after the sentences that begin at its line.
    """
    starts = {timeline.line: timeline for timeline in timelines}
    parts: list[tuple[str, Any]] = []  # a line with its kind, or a block with ""
    waiting: Timeline | None = None
    for i, line in enumerate(lines):
        if waiting is not None and (line.startswith(" ") or i in starts):
            parts.append(("", Block("picture", timeline=waiting)))
            waiting = None
        if i in starts and not line.startswith(" "):
            parts.append(("", Block("heading", line)))
            waiting = starts[i]
            continue
        parts += _parts(line, first=i == 0)
        if i in starts:
            parts.append(("", Block("picture", indent=1, timeline=starts[i])))
    if waiting is not None:
        parts.append(("", Block("picture", timeline=waiting)))
    return tuple(block for kind, run in groupby(parts, key=lambda part: part[0]) for block in _joined(kind, [part for _, part in run]))


def _parts(line: str, *, first: bool) -> list[tuple[str, Any]]:
    """A line with its kind if neighbouring lines of this kind are one block, else its block with ""."""
    text = line.strip()
    if isinstance(line, Line):
        return [(line.kind, line)]
    if text.split() == ["true", "false", "NULL"]:
        return []  # the heads of the table that follows
    if first:
        return [("", Block("heading", text))]
    if text.startswith(_BOXED):
        return [("", Block("box", text, _indent(line)))]
    if line.startswith(" ") and "  " in text:
        return [("aligned", line)]
    return [("", Block("text", text, _indent(line)))]


def _joined(kind: str, run: list[Any]) -> list[Block]:
    """The block of neighbouring lines of one kind. Blocks stay as they are."""
    if kind in HEADS:
        return [Block("table", indent=_indent(run[0]), heads=HEADS[kind], rows=tuple(run))]
    if kind == BAR:
        return [Block("bars", rows=tuple(run))]
    if kind == "aligned":
        indent = min(map(_indent, run))
        return [Block("aligned", "\n".join(line[2 * indent :] for line in run), indent)]
    return run


def _indent(line: str) -> int:
    return (len(line) - len(line.lstrip())) // 2
