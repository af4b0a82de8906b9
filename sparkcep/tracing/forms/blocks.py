"""The lines of an answer as the blocks of a page: headings, sentences, tables, pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkcep.draw.timeline import Timeline
from sparkcep.tracing.forms.lines import Line

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


@dataclass
class _Page:
    found: list[Block] = field(default_factory=list)
    run: list[Any] = field(default_factory=list)  # neighbouring lines of one kind
    kind: str = ""

    def add(self, kind: str, line: str) -> None:
        if kind != self.kind:
            self.close()
        self.kind = kind
        self.run.append(line)

    def close(self) -> None:
        if self.kind in HEADS:
            indent = _indent(self.run[0])
            self.found.append(Block("table", indent=indent, heads=HEADS[self.kind], rows=tuple(self.run)))
        elif self.kind == "bar":
            self.found.append(Block("bars", rows=tuple(self.run)))
        elif self.kind == "aligned":
            indent = min(map(_indent, self.run))
            self.found.append(Block("aligned", "\n".join(line[2 * indent :] for line in self.run), indent))
        self.run, self.kind = [], ""

    def block(self, block: Block) -> None:
        self.close()
        self.found.append(block)


def blocks(lines: Sequence[str], timelines: Sequence[Timeline]) -> tuple[Block, ...]:
    """The blocks of a page.

    Args:
        lines: the lines of the text form.
        timelines: the pictures. Each comes after the sentences that begin at its line.
    """
    page = _Page()
    starts = {timeline.line: timeline for timeline in timelines}
    waiting: Timeline | None = None
    for i, line in enumerate(lines):
        if waiting is not None and (line.startswith(" ") or i in starts):
            page.block(Block("picture", timeline=waiting))
            waiting = None
        if i in starts and not line.startswith(" "):
            page.block(Block("heading", line))
            waiting = starts[i]
            continue
        _add(page, line, first=i == 0)
        if i in starts:
            page.block(Block("picture", indent=1, timeline=starts[i]))
    page.close()
    if waiting is not None:
        page.block(Block("picture", timeline=waiting))
    return tuple(page.found)


def _add(page: _Page, line: str, *, first: bool) -> None:
    text = line.strip()
    if isinstance(line, Line):
        page.add(line.kind, line)
    elif text.split() == ["true", "false", "NULL"]:
        return  # the heads of the table that follows
    elif first:
        page.block(Block("heading", text))
    elif text.startswith(_BOXED):
        page.block(Block("box", text, _indent(line)))
    elif line.startswith(" ") and "  " in text:
        page.add("aligned", line)
    else:
        page.block(Block("text", text, _indent(line)))


def _indent(line: str) -> int:
    return (len(line) - len(line.lstrip())) // 2
