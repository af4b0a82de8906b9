"""Converts between character offsets of a text and positions of the Language Server Protocol 3.17.

A position is a 0-based line and a 0-based number of code units in it. Lines end with CR LF, LF or CR. The code units are those of
the encoding that client and server agree on: "utf-16" (the protocol's default), "utf-8" or "utf-32".
"""

from __future__ import annotations

import re
from bisect import bisect_right

_LINE_END = re.compile(r"\r\n|\n|\r")
_UNIT_BYTES = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2)}  # "utf-32" counts characters


class Lines:
    """The lines of a text. ``starts`` has the offset of each."""

    def __init__(self, text: str, encoding: str = "utf-16") -> None:
        self.text = text
        self._units = _UNIT_BYTES.get(encoding)
        self.starts = [0, *(end.end() for end in _LINE_END.finditer(text))]

    def position(self, offset: int) -> tuple[int, int]:
        """Returns the (line, character) of an offset."""
        line = bisect_right(self.starts, offset) - 1
        before = self.text[self.starts[line] : offset]
        if self._units is None or before.isascii():
            return line, len(before)
        codec, size = self._units
        return line, len(before.encode(codec, "surrogatepass")) // size

    def offset(self, line: int, character: int) -> int:
        """Returns the offset of a position. A position after the end of its line is that end."""
        if line >= len(self.starts):
            return len(self.text)
        start = self.starts[line]
        end = self.starts[line + 1] if line + 1 < len(self.starts) else len(self.text)
        inside = self.text[start:end].rstrip("\r\n")
        if self._units is None or inside.isascii():
            return start + min(character, len(inside))
        codec, size = self._units
        return start + len(inside.encode(codec, "surrogatepass")[: character * size].decode(codec, "ignore"))
