"""Lines of an answer's text that are also rows of a table, or bars, on its page."""

from __future__ import annotations

from collections.abc import Sequence

COMPARISON, COUNTER, BAR = "comparison", "counter", "bar"


class Line(str):
    """A line of the text form, with its parts for a table.

    Attributes:
        kind: COMPARISON, COUNTER or BAR.
        cells: the texts of its cells. A comparison has variable, text, text with values, result and cause; a counter has variable,
            text, the numbers of true, false and NULL, and a note; a bar has its name and its number.
        marked: whether a page highlights it: the change of this comparison alone makes the condition true, or it is never true.
        share: the length of a bar, from 0 to 1.
        row: the number of a comparison's row.
        role: why a comparison is shown: "next", "preferred" or "expected".
    """

    kind: str
    cells: tuple[str, ...]
    marked: bool
    share: float
    row: int
    role: str

    @classmethod
    def of(
        cls, text: str, kind: str, cells: Sequence[str], *, marked: bool = False, share: float = 0.0, row: int = 0, role: str = ""
    ) -> Line:
        """A line with its parts."""
        line = cls(text)
        line.kind, line.cells, line.marked, line.share, line.row, line.role = kind, tuple(cells), marked, share, row, role
        return line


def indented(line: str) -> str:
    """The line with a further indent. It keeps its parts."""
    text = f"  {line}"
    if not isinstance(line, Line):
        return text
    return Line.of(text, line.kind, line.cells, marked=line.marked, share=line.share, row=line.row, role=line.role)
