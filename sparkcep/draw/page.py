"""Writes pages of HTML as one file: without a script, without anything from the network, every text escaped by the serialiser."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --dim: #57606a; --paper: #ffffff; --box: #f6f8fa; --line: #d0d7de; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #9aa4ae; --paper: #0d1117; --box: #161b22; --line: #3d444d; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto; padding: 1.5rem; max-width: 72rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; border-bottom: 1px solid var(--line); } h3 { font-size: 1rem; }
pre { background: var(--box); border: 1px solid var(--line); padding: .7rem; font-size: 13px; line-height: 1.4; white-space: pre-wrap; overflow-wrap: anywhere; }
.picture { overflow-x: auto; border: 1px solid var(--line); } .picture svg { display: block; } .picture img { display: block; max-width: 100%; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; }
th, td { border: 1px solid var(--line); padding: .2rem .6rem; text-align: left; vertical-align: top; } th { background: var(--box); }
td.number { text-align: right; font-variant-numeric: tabular-nums; } .dim { color: var(--dim); } details > summary { cursor: pointer; }
"""
# a browser that is told to load nothing loads nothing
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


class Page:
    """A page that grows from top to bottom."""

    def __init__(self, title: str) -> None:
        self.root = ET.Element("html", {"lang": "en"})
        head = ET.SubElement(self.root, "head")
        ET.SubElement(head, "meta", {"charset": "utf-8"})
        ET.SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY})
        ET.SubElement(head, "meta", {"name": "viewport", "content": "width=device-width"})
        ET.SubElement(head, "title").text = title
        ET.SubElement(head, "style").text = _STYLE
        self.body = ET.SubElement(self.root, "body")
        self.heading(title, 1)

    def heading(self, text: str, level: int = 2) -> None:
        ET.SubElement(self.body, f"h{level}").text = text

    def paragraph(self, text: str, *, dim: bool = False) -> None:
        ET.SubElement(self.body, "p", {"class": "dim"} if dim else {}).text = text

    def code(self, text: str, *, summary: str = "") -> None:
        """A text as it is; with ``summary`` folded away behind it."""
        parent = self.body
        if summary:
            parent = ET.SubElement(parent, "details")
            ET.SubElement(parent, "summary").text = summary
        ET.SubElement(parent, "pre").text = _printable(text)

    def picture(self, element: ET.Element) -> None:
        """An ``svg`` element; a wide one can be scrolled."""
        ET.SubElement(self.body, "div", {"class": "picture"}).append(element)

    def image(self, data: str, alt: str) -> None:
        """A picture as a data URI."""
        ET.SubElement(ET.SubElement(self.body, "div", {"class": "picture"}), "img", {"src": data, "alt": alt})

    def table(self, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """A table; None is shown as NULL, numbers stand right."""
        table = ET.SubElement(ET.SubElement(self.body, "div", {"class": "wide"}), "table")
        line = ET.SubElement(ET.SubElement(table, "thead"), "tr")
        for name in header:
            ET.SubElement(line, "th").text = _printable(name)
        body = ET.SubElement(table, "tbody")
        for row in rows:
            line = ET.SubElement(body, "tr")
            for value in row:
                number = isinstance(value, (int, float)) and not isinstance(value, bool)
                cell = ET.SubElement(line, "td", {"class": "number"} if number else {"class": "dim"} if value is None else {})
                cell.text = "NULL" if value is None else f"{value:,}" if isinstance(value, int) and number else _printable(str(value))

    def text(self) -> str:
        """The page as HTML."""
        return "<!DOCTYPE html>\n" + ET.tostring(self.root, encoding="unicode", method="html") + "\n"


def _printable(text: str) -> str:
    """The text without characters that HTML cannot hold."""
    return "".join(c if c >= " " and not "\x7f" <= c <= "\x9f" or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
