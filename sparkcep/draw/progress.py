"""Draws metrics over micro-batches as one picture: a line chart per metric, below each other.

The report about a streaming query uses it.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from sparkcep.draw.arcs import FONT, svg_text

_WIDTH, _HEIGHT, _LEFT, _TOP = 720, 44, 190, 8


@dataclass(frozen=True)
class Figure:
    """A metric's ``values``, one per micro-batch."""

    name: str
    values: tuple[float, ...]


def progress_picture(figures: Sequence[Figure], numbers: Sequence[int]) -> Markup:
    """Returns the metrics as one picture (SVG), for a page. ``numbers``: the numbers of the micro-batches, in order."""
    height = len(figures) * (_HEIGHT + _TOP) + 22
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "font-family": FONT, "font-size": "11"})
    root.attrib |= {"viewBox": f"0 0 {_LEFT + _WIDTH + 16} {height}", "width": str(_LEFT + _WIDTH + 16), "height": str(height), "fill": "currentColor"}
    ET.SubElement(root, "title").text = "; ".join(figure.name for figure in figures)
    for i, figure in enumerate(figures):
        _line(root, figure, i * (_HEIGHT + _TOP) + _TOP)
    for x, number, anchor in ((_LEFT, numbers[0], "start"), (_LEFT + _WIDTH, numbers[-1], "end")):
        _text(root, x, height - 6, f"micro-batch {number}", anchor)
    return Markup(svg_text(root))


def _line(root: ET.Element, figure: Figure, top: float) -> None:
    """Draws one metric from 0 to its maximum, which is printed beside it."""
    most = max(figure.values)
    scale = (_HEIGHT - 6) / most if most else 0
    step = _WIDTH / max(len(figure.values) - 1, 1)
    points = [(_LEFT + i * step, top + _HEIGHT - value * scale) for i, value in enumerate(figure.values)]
    ET.SubElement(root, "path", {"d": f"M{_LEFT} {top + _HEIGHT}h{_WIDTH}", "stroke": "currentColor", "stroke-opacity": ".25"})
    ET.SubElement(root, "polyline", {
        "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in points), "fill": "none", "stroke": "currentColor", "stroke-width": "1.5"
    })
    ET.SubElement(root, "circle", {"cx": f"{points[-1][0]:.1f}", "cy": f"{points[-1][1]:.1f}", "r": "2.5"})
    _text(root, 4, top + 18, figure.name, "start")
    _text(root, 4, top + 34, f"{figure.values[-1]:,.0f} of at most {most:,.0f}", "start")


def _text(root: ET.Element, x: float, y: float, text: str, anchor: str) -> None:
    ET.SubElement(root, "text", {"x": str(x), "y": str(y), "text-anchor": anchor}).text = text
