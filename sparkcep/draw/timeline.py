"""Draws rows as a timeline in SVG: their values, the places of the pattern that a run took, and the matches.

Answers of ``sparkcep.why`` have timelines. Columns are rows. From above they show the row number, the values with NULL in red, the
first numeric column as a line, a lane for each place of the pattern, the run, and the matches. A blue band marks the row that the
question is about, and a red band the row that ended the run. Each colour has a sign beside it, and whole texts are tooltips.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources

from sparkcep.errors import printable

STYLE = "\n" + resources.files("sparkcep.draw").joinpath("timeline.css").read_text("utf-8")
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
COLOURS = 6
YES, NO, UNKNOWN, ASKED = "\u2713", "\u2717", "? NULL", "asked"
_MANY = 12  # rows; with more, columns are narrow
_CHAR = 6.9  # the width of a character, in pixels
_ROW, _LANE, _CHART = 22.0, 30.0, 64.0  # heights
_NARROW, _WITH_END, _WIDE = 46.0, 66.0, 104.0  # the bounds of a column's width; the second one has room for the word of an end
_LEFT = 190.0  # the most for names


@dataclass(frozen=True)
class Mark:
    """A cell that a run did not take: its sign (NO, UNKNOWN or ASKED), and the words of its tooltip."""

    sign: str
    words: str


@dataclass(frozen=True)
class Lane:
    """A place of the pattern.

    Attributes:
        name: the name of its variable.
        taken: the numbers of the rows that the run took there.
        marks: marks by row number.
    """

    name: str
    taken: frozenset[int] = frozenset()
    marks: Mapping[int, Mark] = field(default_factory=dict)


@dataclass(frozen=True)
class Bar:
    """A match, or a way that nearly matches.

    Attributes:
        name: its name.
        labels: the variable of each of its rows, by row number.
        wrong: the words about a row that is wrong in it, by row number.
    """

    name: str
    labels: Mapping[int, str]
    wrong: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Timeline:
    """Rows with the run of a question. All numbers of rows count from 1.

    Attributes:
        about: the title, for readers that do not see the picture.
        line: the number of the answer's line that it belongs to, from 0.
        rows: the rows that are shown, in order.
        last: the number of the partition's last row.
        values: a column's name with the texts of its values.
        series: the column that is drawn as a line, with its values; None without one.
        lanes: the places of the pattern.
        run: the rows of the run.
        run_name: what the run is called.
        asked: the row that the question is about, 0 without one.
        ended: the row that ended the run, 0 without one. The row after the last one is the end of the partition.
        bars: matches.
        left_out: matches without a bar.
    """

    about: str
    line: int
    rows: tuple[int, ...]
    last: int
    values: tuple[tuple[str, tuple[str | None, ...]], ...] = ()
    series: tuple[str, tuple[float | None, ...]] | None = None
    lanes: tuple[Lane, ...] = ()
    run: tuple[int, ...] = ()
    run_name: str = "this run"
    asked: int = 0
    ended: int = 0
    bars: tuple[Bar, ...] = ()
    left_out: int = 0


def svg(timeline: Timeline) -> str:
    """The timeline as an SVG document."""
    return printable(ET.tostring(_Drawing(timeline).drawn(), encoding="unicode")) + "\n"


class _Drawing:
    def __init__(self, timeline: Timeline) -> None:
        self.of = timeline
        texts = [text or "NULL" for _, column in timeline.values for text in column]
        texts += [label for bar in timeline.bars for label in bar.labels.values()] + [str(row) for row in timeline.rows]
        texts += [mark.sign for lane in timeline.lanes for mark in lane.marks.values()]
        least = _WITH_END if timeline.ended else _NARROW
        most = _WIDE if len(timeline.rows) <= _MANY else _WITH_END
        self.width = min(most, max(least, 22 + _CHAR * max(map(len, texts), default=0)))
        names = [
            "row",
            timeline.run_name,
            *(name for name, _ in timeline.values),
            *(lane.name for lane in timeline.lanes),
            *(bar.name for bar in timeline.bars),
        ]
        self.left = min(_LEFT, 24 + 7.4 * max(map(len, names)))
        self.place = {row: i for i, row in enumerate(timeline.rows)}
        self.at_end = timeline.ended == timeline.last + 1 and timeline.last in self.place
        self.right = self.left + self.width * len(timeline.rows)
        self.whole = self.right + (self.width if self.at_end else 12)
        self.root = ET.Element(
            "svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "font-family": FONT, "font-size": "12"}
        )
        self.y = 6.0

    def drawn(self) -> ET.Element:
        self.add("title", text=self.of.about)
        self.add("style", text=STYLE)
        ground = self.add("rect", x=0, y=0, width=self.whole, class_="why-bg")
        bands = [
            self.band(row, kind, words)
            for row, kind, words in (
                (self.of.asked, "why-asked", "the question is about this row"),
                (self.of.ended, "why-ended", "the run ended here"),
            )
        ]
        self.numbers()
        for name, texts in self.of.values:
            self.column(name, texts)
        if self.of.series is not None:
            self.chart(*self.of.series)
        for i, lane in enumerate(self.of.lanes):
            self.lane(lane, i)
        if self.of.lanes:
            self.line("why-rule")
        if self.of.run or self.of.ended:
            self.run()
        for bar in self.of.bars:
            self.bar(bar)
        if self.of.left_out:
            self.text(self.left, self.y + 16, f"and {self.of.left_out:,} more matches", "why-m", "start")
            self.y += _ROW
        self.gaps()
        height = self.y + 6
        for element in (ground, *filter(None, bands)):
            element.set("height", _n(height - float(element.get("y", "0")) * 2))
        self.root.attrib |= {"viewBox": f"0 0 {_n(self.whole)} {_n(height)}", "width": _n(self.whole), "height": _n(height)}
        return self.root

    # -- parts ----------------------------------------------------------------------------------------------

    def numbers(self) -> None:
        self.name("row", 15)
        for row in self.of.rows:
            self.text(self.middle(row), self.y + 15, str(row), "why-t why-b")
        self.y += _ROW

    def column(self, name: str, texts: tuple[str | None, ...]) -> None:
        self.name(name, 15)
        for row, text in zip(self.of.rows, texts, strict=True):
            self.text(self.middle(row), self.y + 15, "NULL" if text is None else text, "why-bad" if text is None else "why-t")
        self.y += _ROW

    def chart(self, name: str, values: tuple[float | None, ...]) -> None:
        """A line through the values. It has a gap at NULL, and where rows are left out."""
        known = [value for value in values if value is not None]
        low, high = min(known), max(known)
        self.name(name, _CHART / 2 + 4)
        parts: list[list[tuple[float, float]]] = [[]]
        before = 0
        for row, value in zip(self.of.rows, values, strict=True):
            if value is None or (before and row != before + 1):
                parts.append([])
            if value is not None:
                parts[-1].append(
                    (self.middle(row), self.y + _CHART - 10 - (_CHART - 20) * ((value - low) / (high - low) if high > low else 0.5))
                )
            before = row
        for points in filter(None, parts):
            self.add("polyline", points=" ".join(f"{_n(x)},{_n(y)}" for x, y in points), class_="why-line")
            for x, y in points:
                self.add("circle", cx=x, cy=y, r=3, class_="why-point")
        self.y += _CHART

    def lane(self, lane: Lane, number: int) -> None:
        self.line("why-grid")
        self.name(lane.name, 20, "why-t why-b")
        for row in self.of.rows:
            if row in lane.taken:
                self.box(row, f"why-p{number % COLOURS}", YES, "why-w", f"row {row} is {lane.name}")
            elif mark := lane.marks.get(row):
                asked = mark.sign == ASKED
                self.box(row, "why-open" if asked else "why-frame", mark.sign, "why-blue" if asked else "why-bad", mark.words)
            else:
                self.text(self.middle(row), self.y + 20, "\u00b7", "why-dot")
        self.y += _LANE

    def run(self) -> None:
        self.name(self.of.run_name, 20)
        stretch: list[int] = []
        for row in (*(row for row in self.of.rows if row in set(self.of.run)), 0):
            if stretch and row != stretch[-1] + 1:
                x = self.left + self.width * self.place[stretch[0]] + 6
                self.add("rect", x=x, y=self.y + 10, width=self.width * len(stretch) - 12, height=10, rx=5, class_="why-run")
                stretch = []
            stretch.append(row)
        if self.of.ended in self.place or self.at_end:
            x = self.right if self.at_end else self.left + self.width * self.place[self.of.ended]
            self.add("path", d=f"M{_n(x + 6)},{_n(self.y + 10)} l10,10 m0,-10 l-10,10", class_="why-stop")
            self.text(
                x + 20,
                self.y + 19,
                "end" if self.at_end else "ended",
                "why-bad",
                "start",
                whole="the partition ends" if self.at_end else "the run ended here",
            )
        self.y += _LANE

    def bar(self, bar: Bar) -> None:
        self.name(bar.name, 20)
        for row in self.of.rows:
            if row in bar.wrong:
                self.box(row, "why-frame", bar.labels.get(row, NO), "why-bad", bar.wrong[row])
            elif row in bar.labels:
                self.box(row, "why-match", bar.labels[row], "why-t why-b", f"row {row} is {bar.labels[row]} in {bar.name}")
        self.y += _LANE

    def gaps(self) -> None:
        """Dashed lines where rows are left out."""
        for before, row in zip((0, *self.of.rows), (*self.of.rows, self.of.last + 1), strict=False):
            if row > before + 1:
                x = self.left + self.width * self.place.get(row, len(self.place))
                line = self.add("line", x1=x, x2=x, y1=4, y2=self.y, class_="why-gap")
                count = row - before - 1
                ET.SubElement(line, "title").text = f"{count:,} row{'s' if count > 1 else ''} left out"

    # -- elements -------------------------------------------------------------------------------------------

    def middle(self, row: int) -> float:
        return self.left + self.width * (self.place[row] + 0.5)

    def band(self, row: int, kind: str, words: str) -> ET.Element | None:
        if row not in self.place and not (kind == "why-ended" and self.at_end):
            return None
        x = self.right if row not in self.place else self.left + self.width * self.place[row]
        band = self.add("rect", x=x, y=3, width=self.width, class_=kind)
        ET.SubElement(band, "title").text = words if row in self.place else "the partition ends"
        return band

    def name(self, text: str, down: float, kind: str = "why-m") -> None:
        self.text(self.left - 10, self.y + down, text, kind, "end", most=int((self.left - 16) / 7.2))

    def line(self, kind: str) -> None:
        self.add("line", x1=self.left, x2=self.whole - 6, y1=self.y, y2=self.y, class_=kind)

    def box(self, row: int, kind: str, text: str, of_text: str, words: str) -> None:
        group = self.add("g")
        ET.SubElement(group, "title").text = words
        x = self.left + self.width * self.place[row] + 5
        group.append(_element("rect", x=x, y=self.y + 4, width=self.width - 10, height=_LANE - 8, rx=4, class_=kind))
        group.append(
            _element(
                "text",
                x=self.middle(row),
                y=self.y + 20,
                text_anchor="middle",
                class_=of_text,
                text=_cut(text, int((self.width - 12) / _CHAR)),
            )
        )

    def text(self, x: float, y: float, text: str, kind: str, anchor: str = "middle", *, most: int = 0, whole: str = "") -> None:
        most = most or (int((self.width - 6) / _CHAR) if anchor == "middle" else len(text))
        element = self.add("text", x=x, y=y, text_anchor=anchor, class_=kind, text=_cut(text, most))
        if whole or len(text) > most:
            ET.SubElement(element, "title").text = whole or text

    def add(self, tag: str, **attributes: object) -> ET.Element:
        element = _element(tag, **attributes)
        self.root.append(element)
        return element


def _element(tag: str, *, text: str | None = None, **attributes: object) -> ET.Element:
    written = {
        name.rstrip("_").replace("_", "-"): _n(value) if isinstance(value, int | float) else str(value)
        for name, value in attributes.items()
    }
    element = ET.Element(tag, written)
    element.text = text
    return element


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: max(1, most - 1)] + "\u2026"


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
