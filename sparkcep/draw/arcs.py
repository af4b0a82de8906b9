"""Draws a graph as an arc diagram in SVG.

``explain`` and reports use it. The states are on one line in pattern order. Forward edges run above the line and backward edges
below it, each with its label in the gap after its source. Edges get tracks: the shorter an edge, the nearer its track is to the
line, and edges on one track never meet. An edge from a state to itself (a repetition, a skipped row, the end of the match) is a pin
with its label in the gap to its right.

Layout libraries for automata call Graphviz's dot, a system program. Here the order of states is known, so no layout search is
needed.
"""

from __future__ import annotations

import textwrap
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from importlib import resources

from sparkcep.draw.graph import COMPLETE, TAKE, Edge, Graph, State
from sparkcep.errors import printable

FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
CHAR, LINE = 6.7, 14.0  # width and height of a character, in pixels
NODE = 18.0  # half the height of a state
PORT = 11.0  # between two edges at a state
GAP = 46.0  # between two states, next to the labels
LABEL = 28  # characters per line of a label
LEGEND = 108  # characters per line of the legend
BRIEF = 80  # edges; with more, their labels are brief

STYLE = "\n" + resources.files("sparkcep.draw").joinpath("arcs.css").read_text("utf-8")


def picture(graphs: list[Graph]) -> ET.Element:
    """Returns the graphs below each other as one ``svg`` element. The caller need not escape its text."""
    drawn = [_Drawing(g).draw() for g in graphs]
    width = max(w for _, w, _ in drawn)
    height = sum(h for *_, h in drawn)
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "font-family": FONT, "font-size": "11"})
    root.attrib |= {"viewBox": f"0 0 {_n(width)} {_n(height)}", "width": _n(width), "height": _n(height)}
    _add(root, "title", text="; ".join(g.title for g in graphs))
    _add(root, "style", text=STYLE)
    _add(root, "rect", width=width, height=height, class_="cep-bg")
    y = 0.0
    for group, _, h in drawn:
        group.set("transform", f"translate(0 {_n(y)})")
        root.append(group)
        y += h
    return root


def svg_text(element: ET.Element) -> str:
    """Returns the element as a document of its own."""
    return printable(ET.tostring(element, encoding="unicode")) + "\n"


@dataclass
class _Item:
    """An edge with the lines of its label and its path: ``track`` 0 is nearest to the line, and ``x`` holds its ends."""

    edge: Edge
    lines: list[tuple[str, str]]
    above: bool
    track: int = 0
    x: list[float] = field(default_factory=lambda: [0.0, 0.0])

    @property
    def pin(self) -> bool:
        return self.edge.source == self.edge.target

    @property
    def gap(self) -> int:
        """The gap that contains the label. Gap k is the one after state k."""
        return self.edge.source if self.pin or self.above else self.edge.source - 1

    @property
    def takes(self) -> tuple[int, int]:
        """The first and the last place of its track that the edge occupies. State k is place 2k, and the gap after it is 2k + 1."""
        if self.pin:
            return 2 * self.edge.source, 2 * self.edge.source + 1
        low, high = sorted((self.edge.source, self.edge.target))
        return 2 * low + 1, 2 * high - 1


def _lines(edge: Edge, brief: bool) -> list[tuple[str, str]]:
    """Returns (class, text) of each line of an edge's label. A brief label leaves the condition to the legend."""
    name = f"{edge.order}. {edge.name}" if edge.order else edge.name
    out = [("cep-t cep-b", _short(name))]
    if edge.condition and not brief:
        out += [("cep-t", line) for line in _wrapped(edge.condition, 2)]
    if edge.notes:
        out += [("cep-m", line) for line in _wrapped("; ".join(edge.notes), 1 if brief else 3)]
    return out


def _short(text: str) -> str:
    return text if len(text) <= LABEL else text[: LABEL - 1] + "…"


def _wrapped(text: str, lines: int) -> list[str]:
    """Returns the text in at most ``lines`` lines. The last one ends in an ellipsis if the text is longer."""
    found = textwrap.wrap(text, LABEL, break_on_hyphens=False) or [""]
    if len(found) > lines:
        found = [*found[: lines - 1], " ".join(found[lines - 1 :])[: LABEL - 1] + "…"]
    return found


class _Drawing:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        brief = len(graph.edges) > BRIEF
        self.items = [_Item(e, _lines(e, brief), e.target > e.source or (e.target == e.source and e.kind == TAKE)) for e in graph.edges]
        for above in (True, False):
            self._tracks([i for i in self.items if i.above == above])

    def _tracks(self, items: list[_Item]) -> None:
        taken: dict[int, set[int]] = {}
        for item in sorted(items, key=lambda i: (i.takes[1] - i.takes[0], i.pin, i.takes[0])):
            places = set(range(item.takes[0], item.takes[1] + 1))
            # only the edge to the next state runs on the line itself
            track = 0 if item.above and not item.pin and item.edge.target == item.edge.source + 1 else 1
            while taken.get(track, set()) & places:
                track = max(1, track + 1)
            item.track = track
            taken.setdefault(track, set()).update(places)

    def draw(self) -> tuple[ET.Element, float, float]:
        """Returns the drawing with its width and height."""
        states = self.graph.states
        above, below = (self._heights(side) for side in (True, False))
        header = 30.0
        self.axis = header + sum(above) + NODE + 8
        self.tracks_above = self._lines_of(above, self.axis - NODE - 8, -1)
        self.tracks_below = self._lines_of(below, self.axis + NODE + 8, 1)
        width = self._columns()
        group = ET.Element("g")
        title = self.graph.title + (f" (the first {len(states)} of {len(states) + self.graph.left_out} states)" if self.graph.left_out else "")
        _add(group, "text", text=title, x=10, y=18, class_="cep-t cep-b")
        for item in sorted(self.items, key=lambda i: -i.track):
            self._edge(group, item)
        for k, state in enumerate(states):
            self._state(group, k, state)
        bottom = self.axis + NODE + 8 + sum(below) + 14
        bottom, legend = self._legend(group, bottom)
        return group, max(width, legend, len(title) * CHAR + 30), bottom

    def _heights(self, above: bool) -> list[float]:
        """Returns the height of each track, from the line outwards."""
        items = [i for i in self.items if i.above == above]
        heights = [0.0] * (1 + max((i.track for i in items), default=0))
        for i in items:
            # The label of an edge on the line is above the upper half of the states.
            room = len(i.lines) * LINE + (8 if i.track else -NODE)
            heights[i.track] = max(heights[i.track], room)
        return heights

    @staticmethod
    def _lines_of(heights: list[float], start: float, sign: int) -> list[float]:
        """Returns the position of each track's horizontal part. Labels are above it."""
        out, y = [], start
        for height in heights:
            y += height if sign > 0 else 0
            out.append(y)
            y -= height if sign < 0 else 0
        return out

    def _columns(self) -> float:
        """Places states and the ends of edges. Returns the width."""
        count = len(self.graph.states)
        ports: dict[tuple[int, bool], list[tuple[tuple, _Item, int]]] = {}
        for item in self.items:
            if item.track == 0 and not item.pin:
                continue
            e, t = item.edge, item.track
            ends = [(e.source, 0), (e.target, 1)]
            for state, end in ends:
                # Edges from or to the left end at the left, the nearest track outermost.
                if item.pin:
                    key = (1, t, end)
                elif (end == 1) == item.above:
                    key = (0, t, 0)
                else:
                    key = (2, -t, 0)
                ports.setdefault((state, item.above), []).append((key, item, end))
        widths = []
        for k in range(count):
            most = max(len(ports.get((k, side), ())) for side in (True, False))
            widths.append(max(2 * NODE + 4, most * PORT + 12, (max(len(self.graph.states[k].name), len(self.graph.states[k].note)) + 2) * CHAR))
        self.half = [w / 2 for w in widths]
        room = [GAP] * count
        for item in self.items:
            longest = max(len(text) for _, text in item.lines) * CHAR
            room[item.gap] = max(room[item.gap], longest + 26)
        room[-1] = max(0.0, room[-1] if any(i.gap == count - 1 for i in self.items) else 0.0)
        self.at, x = [], 44.0
        for k in range(count):
            self.at.append(x + self.half[k])
            x += widths[k] + room[k]
        self.room = room
        for (state, _), found in ports.items():
            found.sort(key=lambda f: f[0])
            for place, (_, item, end) in enumerate(found):
                item.x[end] = self.at[state] + (place - (len(found) - 1) / 2) * PORT
        return x + 20

    def _edge(self, parent: ET.Element, item: _Item) -> None:
        e = item.edge
        group = _add(parent, "g", class_="cep-edge")
        _add(group, "title", text=e.text)
        if item.track == 0:
            left, right = self.at[e.source] + self.half[e.source], self.at[e.target] - self.half[e.target]
            _add(group, "path", d=f"M{_n(left)} {_n(self.axis)}H{_n(right - 6)}", class_=f"cep-{e.kind}")
            _head(group, right, self.axis, 0, e.kind)
            self._label(group, item, self.axis - 6, (left + right) / 2, "middle")
            return
        sign = -1 if item.above else 1
        y = (self.tracks_above if item.above else self.tracks_below)[item.track]
        near = self.axis + sign * NODE
        a, b = item.x
        right_of = self.at[item.gap] + self.half[item.gap]
        if e.kind == COMPLETE:
            middle = (a + b) / 2
            _add(group, "path", d=f"M{_n(middle)} {_n(near)}V{_n(y - 6)}", class_="cep-complete")
            for r in (5, 2.5):
                _add(group, "circle", cx=middle, cy=y - 1, r=r, class_="cep-complete")
            self._label(group, item, y - 4, right_of + 8, "start")
            return
        r = min(7.0, abs(b - a) / 2)
        step = r if b > a else -r
        path = f"M{_n(a)} {_n(near)}V{_n(y - sign * r)}Q{_n(a)} {_n(y)} {_n(a + step)} {_n(y)}H{_n(b - step)}Q{_n(b)} {_n(y)} {_n(b)} {_n(y - sign * r)}"
        _add(group, "path", d=f"{path}V{_n(near + sign * 6)}", class_=f"cep-{e.kind}")
        _head(group, b, near, -sign, e.kind)
        if item.pin:
            self._label(group, item, y - 4, right_of + 8, "start")
        else:
            self._label(group, item, y - 5, right_of + self.room[item.gap] / 2, "middle")

    @staticmethod
    def _label(group: ET.Element, item: _Item, bottom: float, x: float, anchor: str) -> None:
        for k, (kind, text) in enumerate(item.lines):
            y = bottom - (len(item.lines) - 1 - k) * LINE
            _add(group, "text", text=text, x=x, y=y, text_anchor=anchor, class_=f"cep-l {kind}")

    def _state(self, parent: ET.Element, k: int, state: State) -> None:
        group = _add(parent, "g", class_="cep-state")
        what = ", ".join(t for t in (f"state {state.name}", "start" if k == 0 else "", state.note, "a match may be complete" if state.complete else "") if t)
        _add(group, "title", text=what)
        x, half = self.at[k], self.half[k]
        if k == 0:
            _add(group, "path", d=f"M{_n(x - half - 24)} {_n(self.axis)}h18", class_="cep-take")
            _head(group, x - half, self.axis, 0, "take")
        _add(group, "rect", x=x - half, y=self.axis - NODE, width=2 * half, height=2 * NODE, rx=NODE, class_="cep-s")
        if state.complete:
            _add(group, "rect", x=x - half + 4, y=self.axis - NODE + 4, width=2 * half - 8, height=2 * NODE - 8, rx=NODE - 4, class_="cep-i")
        _add(group, "text", text=state.name, x=x, y=self.axis + (-1 if state.note else 4), text_anchor="middle", class_="cep-t")
        if state.note:
            _add(group, "text", text=state.note, x=x, y=self.axis + 10, text_anchor="middle", class_="cep-m", font_size=10)

    def _legend(self, group: ET.Element, y: float) -> tuple[float, float]:
        widest = 0.0
        indent = 12 + CHAR * (2 + max((len(_short(name)) for name, _ in self.graph.legend), default=0))
        for name, text in self.graph.legend:
            y += LINE + 2
            _add(group, "text", text=_short(name), x=12, y=y, class_="cep-t cep-b")
            lines = textwrap.wrap(text, LEGEND, break_on_hyphens=False) or [""]
            for n, line in enumerate(lines):
                y += LINE if n else 0
                _add(group, "text", text=line, x=indent, y=y, class_="cep-m")
                widest = max(widest, indent + len(line) * CHAR)
        return y + 16, widest + 20


def _head(parent: ET.Element, x: float, y: float, down: int, kind: str) -> None:
    """Draws an arrowhead with its tip at (x, y): to the right, or with ``down`` 1 or -1 downwards or upwards."""
    points = [(x, y), (x - 8, y - 4), (x - 8, y + 4)] if not down else [(x, y), (x - 4, y - 8 * down), (x + 4, y - 8 * down)]
    _add(parent, "polygon", points=" ".join(f"{_n(px)},{_n(py)}" for px, py in points), class_=f"cep-h-{kind}")


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _add(parent: ET.Element, tag: str, *, text: str | None = None, **attributes: object) -> ET.Element:
    named = {k.rstrip("_").replace("_", "-"): _n(v) if isinstance(v, (int, float)) else str(v) for k, v in attributes.items()}
    child = ET.SubElement(parent, tag, named)
    child.text = text if text is None else "".join(c if c >= " " else " " for c in text)
    return child
