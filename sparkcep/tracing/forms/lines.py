"""Lines of an answer's text that are also rows of a table, or bars, on its page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

COMPARISON, COUNTER, BAR = "comparison", "counter", "bar"
_NULL, _NEVER = "NULL for all rows", "never true"  # notes of counters that a page highlights
_HEADS = ("", "", "true", "false", "NULL", "")
_LONGEST_BAR = 20


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


def counters(title: str, rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """A table of comparisons, with the cells of each. There is none without rows."""
    if not rows:
        return
    yield title
    listed = [_HEADS, *rows]
    widths = [max(len(row[i]) for row in listed) for i in range(5)]
    for i, row in enumerate(listed):
        text = f"  {row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:>{widths[3]}}  {row[4]:>{widths[4]}}  {row[5]}".rstrip()
        yield Line.of(text, COUNTER, row, marked=row[5] in (_NULL, _NEVER)) if i else text


def note_of(counts: tuple[int, int, int], rows: int) -> str:
    """The note about a comparison that is as often true, false and NULL, over all rows."""
    true, _, null = counts
    if not rows:
        return ""
    if null == rows:
        return _NULL
    if not true:
        return _NEVER
    return "always true" if true == rows else ""


def bars(counts: Sequence[tuple[str, int]], whole: int) -> Iterator[str]:
    """A bar for each name with its number. ``whole``: the number whose bar is the longest."""
    width = max(len(name) for name, _ in counts)
    for name, count in counts:
        share = count / max(1, whole)
        yield Line.of(f"  {name:<{width}}  {count:>4}  {'#' * round(_LONGEST_BAR * share)}".rstrip(), BAR, (name, f"{count:,}"), share=share)
