"""Values of rows as text, and their redaction."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from sparkcep.errors import printable
from sparkcep.tracing.rows.machine import Failed

LEVELS = ("", "values", "all")  # of redaction, weakest first
_LONGEST = 48


class Values:
    """Writes values of rows.

    With ``redact="values"`` equal values get one name, such as v1, and keys such as k1. With ``"all"`` sides are left out.
    """

    def __init__(self, redact: str = "") -> None:
        self.redact = redact
        self._names: dict[tuple[str, str], str] = {}

    def text(self, value: Any, *, quoted: bool = True, kind: str = "v") -> str:
        """A value as in a comparison. ``quoted``: strings have quotes. ``kind``: how redacted names begin."""
        if value is None:
            return "NULL"
        if isinstance(value, Failed):
            return repr(value)
        if self.redact and not isinstance(value, bool):
            names = self._names
            return names.setdefault((kind, plain(value)), f"{kind}{1 + sum(1 for other, _ in names if other == kind)}")
        text = short(printable(plain(value)))
        return "'" + text.replace("'", "''") + "'" if quoted and isinstance(value, str) else text


def plain(value: Any) -> str:
    """A value without quotes."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        text = repr(value)
        return text.removesuffix(".0")
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat(" ")
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {plain(part)}" for name, part in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join("NULL" if part is None else plain(part) for part in value) + "]"
    return str(value)


def short(text: str) -> str:
    """A text of one line, cut if it is long."""
    text = " ".join(text.split("\n"))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def truth(value: bool | None) -> str:
    """A truth value."""
    return "NULL" if value is None else str(value).lower()


def listed(rows: Sequence[int]) -> str:
    """The numbers of rows, adjacent ones as a span."""
    spans: list[tuple[int, int]] = []
    for row in rows:
        if spans and spans[-1][1] == row - 1:
            spans[-1] = spans[-1][0], row
        else:
            spans.append((row, row))
    texts = [str(first + 1) if first == last else f"{first + 1}-{last + 1}" for first, last in spans]
    return f"row{'s' if len(rows) > 1 else ''} {', '.join(texts[:-1])}{' and ' if len(texts) > 1 else ''}{texts[-1]}"


def labels(names: Sequence[str]) -> str:
    """The names of variables; more than three equal ones as a number."""
    found = [(name, len(list(equal))) for name, equal in groupby(names)]
    return " ".join(f"{name} x{count}" if count > 3 else " ".join([name] * count) for name, count in found)
