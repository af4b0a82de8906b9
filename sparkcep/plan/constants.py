"""Constant expressions: the sizes, numbers and offsets of a clause, as literals, parameters of the statement and arithmetic.

The options (WINDOW, APPROX, TOP, BUDGET ...) and the offsets of navigations read their values here, before Spark sees the
statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

from sparkcep.clause.expressions import Expr
from sparkcep.clause.tokens import OP, STRING, tokenize
from sparkcep.errors import SEMANTIC, UNSUPPORTED, ClauseError, error_at, shown
from sparkcep.plan.limits import MAX_DAYS, MAX_DIGITS

Parameters = Mapping[str, object]  # values of a statement's parameters by their text; the key of a ? is "?" and its offset
NONE: Parameters = MappingProxyType({})
MARKER_PREFIX = "sparkcep_marker_"
MARKER = re.compile(rf":{MARKER_PREFIX}\d+(?:/\*\*/)?")  # a ? of spark.sql, which the rewriter numbers
UNIT_MICROS = {
    "WEEK": 604_800_000_000, "DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000,
    "MILLISECOND": 1_000, "MICROSECOND": 1,
}
_FIELDS = ("DAY", "HOUR", "MINUTE", "SECOND")
_AMOUNT = r"\s*([+-]?)\s*'?\s*([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)\s*'?\s+([A-Za-z]+)"
_NUMBER = re.compile(r"(\d{1,400}\.?\d{0,400}|\.\d{1,400})(?:[eE][+-]?\d{1,3})?(?:[lLsSyYdDfF]|[bB][dD])?")


class Constant(NamedTuple):
    """A number, or a length of time in microseconds."""

    value: Fraction
    is_time: bool = False


def number(expr: Expr, text: str, parameters: Parameters = NONE) -> Fraction | None:
    """The number that a constant expression denotes, or None. Raises ClauseError for a parameter without a value."""
    found = constant(expr, text, parameters)
    if found is None and (unknown := unknown_parameter(expr, parameters)) is not None:
        raise no_value(expr, text, unknown)
    return None if found is None or found.is_time else found.value


def constant(expr: Expr, text: str, parameters: Parameters = NONE) -> Constant | None:
    """The value of a constant expression, or None if it is not one. Raises ClauseError for an interval without a fixed length."""
    node = expr.bare()
    match node.op, node.value:
        case "lit", _:
            return _literal(node, parameters)
        case "interval", _:
            return Constant(_interval(node, text, parameters), True)
        case "un", "+" | "-":
            found = constant(node.args[0], text, parameters)
            return None if found is None else found._replace(value=-found.value if node.value == "-" else found.value)
        case "bin", operator:
            left, right = (constant(argument, text, parameters) for argument in node.args)
            return None if left is None or right is None else _computed(str(operator), left, right)
    return None


def whole_days(expr: Expr, text: str, parameters: Parameters = NONE) -> int | None:
    """The days of an interval literal whose units are days and weeks.

    None for any other expression, and for more days than have 64 bits of microseconds.
    """
    node, sign = expr.bare(), 1
    if node.op == "un" and node.value == "-":
        node, sign = node.args[0].bare(), -1
    if node.op != "interval":
        return None
    body, unknown = _with_values(node.span.of(text), node.span.start, parameters)
    units = {unit.upper().removesuffix("S") for unit in re.findall("[A-Za-z]+", body)}
    if unknown or "." in body or not units or units - {"DAY", "WEEK"}:
        return None
    micros = _amounts(body)
    days = None if micros is None else sign * int(micros) // UNIT_MICROS["DAY"]
    return days if days is not None and abs(days) <= MAX_DAYS else None


def decimal_text(value: Fraction) -> str | None:
    """The number as a finite decimal text, or None if it cannot be one."""
    digits = 0
    while digits <= MAX_DIGITS and (value * 10**digits).denominator != 1:
        digits += 1
    if digits > MAX_DIGITS:
        return None
    whole = str(abs(int(value * 10**digits))).rjust(digits + 1, "0")
    return ("-" if value < 0 else "") + (f"{whole[:-digits]}.{whole[-digits:]}" if digits else whole)


def is_literal(expr: Expr, text: str) -> bool:
    """Whether the expression is a number or interval without parameters and arithmetic."""
    node = expr.bare()
    return node.op in ("lit", "interval") and not any(token.kind == OP and token.text in ":?" for token in tokenize(node.span.of(text)))


def unknown_parameter(expr: Expr, parameters: Parameters = NONE) -> str | None:
    """The first parameter in the expression whose value is not a known number or length of time, or None."""
    return next((str(n.value) for n in expr.walk() if n.op == "lit" and str(n.value)[0] in ":?" and _of_value(parameters.get(_key(n))) is None), None)


def _key(node: Expr) -> str:
    return f"?{node.span.start}" if node.value == "?" else re.sub(r"\s+", "", str(node.value))


def _literal(node: Expr, parameters: Parameters) -> Constant | None:
    written = str(node.value)
    if written[0] in ":?":
        return _of_value(parameters.get(_key(node)))
    if not _NUMBER.fullmatch(written):
        return None
    return Constant(Fraction(re.sub(r"(?:[lLsSyYdDfF]|[bB][dD])$", "", written)))


def _of_value(value: object) -> Constant | None:
    """The constant for a parameter's value, or None."""
    if isinstance(value, timedelta):
        return Constant(Fraction(value // timedelta(microseconds=1)), True)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    try:
        return Constant(Fraction(str(value) if isinstance(value, float) else value))  # 0.1 is 1/10, as in the text of a clause
    except (ValueError, OverflowError):  # NaN, infinity
        return None


def _computed(operator: str, left: Constant, right: Constant) -> Constant | None:
    match operator:
        case "+" | "-" if left.is_time == right.is_time:
            return left._replace(value=left.value + right.value if operator == "+" else left.value - right.value)
        case "*" if not (left.is_time and right.is_time):
            return Constant(left.value * right.value, left.is_time or right.is_time)
        case "/" if not right.is_time and right.value:
            return left._replace(value=left.value / right.value)
        case "%" | "DIV" if not left.is_time and not right.is_time and right.value:
            whole = Fraction(int(left.value / right.value))  # truncates, as Spark does
            return Constant(whole if operator == "DIV" else left.value - right.value * whole)
    return None


def _interval(node: Expr, text: str, parameters: Parameters) -> Fraction:
    """Microseconds of an interval literal of days and smaller units."""
    source = node.span.of(text)
    body, unknown = _with_values(source, node.span.start, parameters)
    if unknown:
        raise no_value(node, text, unknown)
    if re.search(r"(?i)\b(year|quarter|month)s?\b", body):
        message = "a window cannot be measured in months or years, which differ in length. Use days or smaller units"
        raise error_at(text, node.span.start, node.span.end, "WINDOW_SIZE", message, UNSUPPORTED)
    ranged = re.fullmatch(r"(?i)([+-]?)\s*'([^']*)'\s*(day|hour|minute|second)s?\s+to\s+(hour|minute|second)s?", body)
    if ranged:
        micros = _fields(ranged[2].strip(), ranged[3].upper(), ranged[4].upper())
        micros = None if micros is None else -micros if ranged[1] == "-" else micros
    else:
        micros = _amounts(body)
    if micros is None:
        raise error_at(text, node.span.start, node.span.end, "WINDOW_SIZE", f"{shown(source)} is not an interval of days and smaller units", SEMANTIC)
    return micros


def no_value(node: Expr, text: str, parameter: str) -> ClauseError:
    """The error for a parameter whose value is unknown before Spark reads the statement, or whose type is not allowed there."""
    message = f"the value of the parameter {parameter} is not a number or interval known here. Pass it in args=, as a Python int, Decimal or timedelta, or write it as a literal"
    return error_at(text, node.span.start, node.span.end, "PARAMETER", message, SEMANTIC)


def _with_values(source: str, offset: int, parameters: Parameters) -> tuple[str, str]:
    """The text after INTERVAL with the values of parameters, and the first parameter without a value.

    Comments are dropped.
    """
    tokens, out, unknown, i = tokenize(source)[1:-1], [], "", 0
    while i < len(tokens):
        token, piece = tokens[i], tokens[i].text
        if token.kind == OP and piece in ":?":
            i += piece == ":"
            marker = f":{tokens[i].text}" if piece == ":" else piece
            amount = _amount(parameters.get(marker if piece == ":" else f"?{offset + token.start}"))
            unknown, piece = unknown or ("" if amount else marker), amount or marker
        elif token.kind == STRING and piece[0] == '"':
            piece = f"'{piece[1:-1]}'"
        out.append(piece)
        i += 1
    return " ".join(out), unknown


def _amount(value: object) -> str | None:
    """A parameter's value as written after INTERVAL, or None."""
    found = _of_value(value)
    if isinstance(value, str):
        return f"'{value}'"
    return None if found is None or found.is_time else decimal_text(found.value)


def _amounts(body: str) -> Fraction | None:
    """``10 MINUTES``, ``'1 day 2 hours'``, ``1 DAY 2 HOURS``."""
    whole = re.fullmatch(r"'([^']*)'", body)
    body = whole[1] if whole else body
    total, at = Fraction(0), 0
    while at < len(body.rstrip()):
        found = re.compile(_AMOUNT).match(body, at)
        unit = found[3].upper().removesuffix("S") if found else ""
        if unit not in UNIT_MICROS or len(found[2]) > MAX_DIGITS:
            return None
        amount = Fraction(found[2]) * UNIT_MICROS[unit]
        total += -amount if found[1] == "-" else amount
        at = found.end()
    return total


def _fields(value: str, first: str, last: str) -> Fraction | None:
    """``'1 02:03:04.5' DAY TO SECOND`` and its parts."""
    sign, value = (-1, value[1:]) if value[:1] == "-" else (1, value.removeprefix("+"))
    fields = _FIELDS[_FIELDS.index(first) : _FIELDS.index(last) + 1]
    parts = re.split(r"[ :]+", value)
    if len(parts) != len(fields) or not all(re.fullmatch(r"\d+(\.\d+)?", p) and len(p) <= MAX_DIGITS for p in parts):
        return None
    return sign * sum((Fraction(p) * UNIT_MICROS[f] for p, f in zip(parts, fields)), Fraction(0))
