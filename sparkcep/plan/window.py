"""The size of a WINDOW or WITHIN as a constant (LANGUAGE section 3)."""

from __future__ import annotations

import re
from fractions import Fraction
from math import lcm

from sparkcep.clause.expression import Expr
from sparkcep.clause.lexer import tokenize
from sparkcep.errors import SEMANTIC, UNSUPPORTED, error_at, shown

ROWS, MICROS, NUMBER = "rows", "micros", "number"
_MAX_DIGITS = 100

_MICROS = {
    "WEEK": 604_800_000_000, "DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000,
    "MILLISECOND": 1_000, "MICROSECOND": 1,
}
_FIELDS = ("DAY", "HOUR", "MINUTE", "SECOND")
_AMOUNT = r"\s*([+-]?)\s*'?\s*([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)\s*'?\s+([A-Za-z]+)"


def window_size(size: Expr, text: str, rows: bool) -> tuple[str, str]:
    """(ROWS, MICROS or NUMBER; the size as a decimal text) of a constant size above 0. Raises ClauseError."""
    node = size.bare()
    if node.op == "interval":
        if rows:
            raise _error(size, text, "a WINDOW of ROWS takes a whole number, not an interval")
        return MICROS, str(_interval(node, text))
    source = node.span.of(text).strip()
    if node.op != "lit" or not re.fullmatch(r"\d+(\.\d*)?|\.\d+", source):
        negative = node.op == "un" and node.value == "-"
        wanted = "above 0" if negative else "a constant: an interval such as INTERVAL '10' MINUTE, a number, or n ROWS"
        raise _error(size, text, f"the size of a window must be {wanted}, not {shown(size.span.of(text))}")
    if len(source) > _MAX_DIGITS:
        raise _error(size, text, f"the size of a window has at most {_MAX_DIGITS} digits, not the {len(source)} of {source}")
    if rows and not source.isdigit():
        raise _error(size, text, f"a WINDOW of ROWS takes a whole number, not {source}")
    if Fraction(source) <= 0:
        raise _error(size, text, f"the size of a window must be above 0, not {source}")
    return (ROWS if rows else NUMBER), source


def common_unit(step: str, size: str) -> str:
    """A number of which SLIDE's step and its WINDOW's size are both multiples, as Fraction reads it: places of windows are told in a type that holds it."""
    parts = lcm(Fraction(step).denominator, Fraction(size).denominator)
    return step if parts == Fraction(step).denominator else f"1/{parts}"


def _interval(node: Expr, text: str) -> int:
    """Microseconds of an interval literal of days and smaller units."""
    source = shown(node.span.of(text))
    body = " ".join(t.text if t.text[0] != '"' else f"'{t.text[1:-1]}'" for t in tokenize(node.span.of(text))[1:-1])  # without comments
    if re.search(r"(?i)\b(year|quarter|month)s?\b", body):
        raise error_at(
            text, node.span.start, node.span.end, "WINDOW_SIZE",
            "a window cannot be measured in months or years, which differ in length; use days or smaller units", UNSUPPORTED,
        )
    ranged = re.fullmatch(r"(?i)([+-]?)\s*'([^']*)'\s*(day|hour|minute|second)s?\s+to\s+(hour|minute|second)s?", body)
    if ranged:
        micros = _fields(ranged[2].strip(), ranged[3].upper(), ranged[4].upper())
        micros = None if micros is None else -micros if ranged[1] == "-" else micros
    else:
        micros = _amounts(body)
    if micros is None:
        raise _error(node, text, f"{source} is no interval of days and smaller units")
    if micros <= 0 or micros.denominator != 1:
        raise _error(node, text, f"the size of a window must be above 0, in whole microseconds, not {source}")
    return int(micros)


def _amounts(body: str) -> Fraction | None:
    """``10 MINUTES``, ``'1 day 2 hours'``, ``1 DAY 2 HOURS``."""
    whole = re.fullmatch(r"'([^']*)'", body)
    body = whole[1] if whole else body
    total, at = Fraction(0), 0
    while at < len(body.rstrip()):
        found = re.compile(_AMOUNT).match(body, at)
        unit = found[3].upper().removesuffix("S") if found else ""
        if unit not in _MICROS or len(found[2]) > _MAX_DIGITS:
            return None
        amount = Fraction(found[2]) * _MICROS[unit]
        total += -amount if found[1] == "-" else amount
        at = found.end()
    return total


def _fields(value: str, first: str, last: str) -> Fraction | None:
    """``'1 02:03:04.5' DAY TO SECOND`` and its parts."""
    sign, value = (-1, value[1:]) if value[:1] == "-" else (1, value.removeprefix("+"))
    fields = _FIELDS[_FIELDS.index(first) : _FIELDS.index(last) + 1]
    parts = re.split(r"[ :]+", value)
    if len(parts) != len(fields) or not all(re.fullmatch(r"\d+(\.\d+)?", p) and len(p) <= _MAX_DIGITS for p in parts):
        return None
    return sign * sum((Fraction(p) * _MICROS[f] for p, f in zip(parts, fields)), Fraction(0))


def _error(node: Expr, text: str, message: str):
    return error_at(text, node.span.start, node.span.end, "WINDOW_SIZE", message, SEMANTIC)
