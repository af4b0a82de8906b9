"""The extended options: what they amount to, which cannot stand together, and the size of a WINDOW or WITHIN as a constant
(LANGUAGE sections 3, 4 and 9)."""

from __future__ import annotations

import re
from fractions import Fraction
from math import lcm

from sparkcep.clause import nodes
from sparkcep.clause.expression import Expr
from sparkcep.clause.lexer import tokenize
from sparkcep.clause.tree import TO_FIRST, TO_LAST, MatchClause
from sparkcep.errors import SEMANTIC, UNSUPPORTED, error_at, position, shown
from sparkcep.plan import records
from sparkcep.plan.facts import nullable, tree_of

NO_WINDOW, ROWS, MICROS, NUMBER = "none", "rows", "micros", "number"  # kinds of windows
_MAX_DIGITS = 100

_MICROS = {
    "WEEK": 604_800_000_000, "DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000,
    "MILLISECOND": 1_000, "MICROSECOND": 1,
}
_FIELDS = ("DAY", "HOUR", "MINUTE", "SECOND")
_AMOUNT = r"\s*([+-]?)\s*'?\s*([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)\s*'?\s+([A-Za-z]+)"


def selection(clause: MatchClause) -> records.Selection | None:
    """What EVENT SELECTION amounts to; None where the standard's own matching is asked for."""
    chosen = clause.selection
    if clause.approx is not None:
        return records.Selection(chosen.strategy if chosen else "ANY", "ALL")
    strategy = chosen.strategy if chosen else "STRICT"
    report = chosen.report if chosen else None
    # TOP ranks all matches, unless FIRST MATCH is written
    every = strategy == "ANY" or clause.top is not None or nodes.contains(clause.pattern, nodes.Conjunct)
    found = records.Selection(strategy, report or ("ALL" if every else "FIRST"))
    extended = clause.window is not None or nodes.contains(clause.pattern, nodes.Within, nodes.Not)
    return found if extended or found != ("STRICT", "FIRST") else None


def windows(clause: MatchClause) -> tuple[records.Window, ...]:
    """The WINDOW, which is of no kind where none is written, then each group's WITHIN."""
    found = [records.Window(NO_WINDOW, "", "", 0, 0, "")]
    if clause.window is not None:
        found = [_window(clause, clause.window.size, clause.window.rows)]
    return (*found, *(_window(clause, n.size, n.rows) for n in nodes.walk(clause.pattern) if isinstance(n, nodes.Within)))


def _window(clause: MatchClause, size: Expr, rows: bool) -> records.Window:
    kind, amount = window_size(size, clause.text, rows)
    place = position(clause.text, size.span.start)
    return records.Window(kind, amount, "__o0" if kind in (MICROS, NUMBER) else "", *place, size.span.of(clause.text)[:40])


def slide_of(clause: MatchClause) -> records.Slide | None:
    """The step of SLIDE."""
    window = clause.window
    if window is None or window.slide is None:
        return None
    rows = window.slide_rows or (window.rows and window.slide.bare().op == "lit")
    return records.Slide(*window_size(window.slide, clause.text, rows))


def check_options(clause: MatchClause) -> None:
    """Raises ClauseError for an option that cannot apply, at its place."""
    strategy, report = selection(clause) or ("STRICT", "FIRST")
    if clause.window is not None:
        if not clause.order_by:
            raise clause.error(clause.window.span, "WINDOW_WITHOUT_ORDER", "WINDOW needs the clause's ORDER BY, which it measures")
    if report == "ALL" and clause.skip is not None and clause.skip.mode in (TO_FIRST, TO_LAST):
        message = "with ALL MATCHES, AFTER MATCH SKIP is TO NEXT ROW (all of them) or PAST LAST ROW (non-overlapping ones)"
        raise clause.error(clause.skip.span, "SKIP_WITH_ALL_MATCHES", message)
    _check_pattern(clause, strategy, report)


def _check_pattern(clause: MatchClause, strategy: str, report: str) -> None:
    for node in nodes.walk(clause.pattern):
        if isinstance(node, nodes.Within) and not clause.order_by:
            raise clause.error(node.span, "WINDOW_WITHOUT_ORDER", "WITHIN needs the clause's ORDER BY, which it measures")
        if isinstance(node, nodes.Conjunct) and strategy == "STRICT":
            raise clause.error(
                node.span, "CONJUNCTION",
                "under STRICT CONTIGUITY rows are adjacent, so & means nothing; add EVENT SELECTION SKIP TILL ANY MATCH",
            )
        if isinstance(node, nodes.Conjunct) and report == "FIRST":
            raise clause.error(node.span, "CONJUNCTION", "a conjunction & reports ALL MATCHES; FIRST MATCH cannot be asked for")
        if isinstance(node, nodes.Repeat) and isinstance(node.item, nodes.Not):
            raise clause.error(node.span, "NEGATION", "~ cannot have a quantifier itself; quantify a group with a variable beside it, as (A ~B)+")
        if isinstance(node, nodes.Not):
            _check_negated(clause, node)
            if strategy == "STRICT":
                raise clause.error(
                    node.span, "NEGATION",
                    "under STRICT CONTIGUITY no row lies between, so ~ means nothing; add EVENT SELECTION SKIP TILL NEXT MATCH",
                )
    if clause.window is None:
        for backward, where in ((False, "start"), (True, "end")):
            for node in _leading(clause.pattern, backward):
                raise clause.error(
                    node.span, "NEGATION", f"~ at the {where} of the pattern looks at the window, so the clause needs WINDOW"
                )


_NOT_NEGATED = {
    nodes.Not: "~ cannot stand inside ~; negate the parts one by one",
    nodes.Conjunct: "~ cannot be of a conjunction &; write its sides one behind the other, in each order that must not be there",
    nodes.Start: "^ cannot stand inside ~, whose rows lie between others; put it in front of the first variable",
    nodes.End: "$ cannot stand inside ~, whose rows lie between others; put it behind the last variable",
    nodes.Exclude: "an exclusion {- -} hides rows of a match, and what ~ is of has none there; take it out",
}


def _check_negated(clause: MatchClause, node: nodes.Not) -> None:
    """Raises ClauseError for a group that cannot be negated."""
    for part in nodes.walk(node.item):
        if type(part) in _NOT_NEGATED:
            raise clause.error(part.span, "NEGATION", _NOT_NEGATED[type(part)])
    if nullable(tree_of(node.item)[1]):
        message = "what ~ is of matches no row at all, which is there always; let it take a row at least, as ~(B+)"
        raise clause.error(node.span, "NEGATION", message)
    if isinstance(node.item, nodes.Var):
        return
    inside = {part.name.lower(): part for part in nodes.walk(node.item) if isinstance(part, nodes.Var)}
    within = {id(part) for part in nodes.walk(node.item)}
    for part in nodes.walk(clause.pattern):
        if isinstance(part, nodes.Var) and id(part) not in within and part.name.lower() in inside:
            message = f"{part.name} stands inside and outside of ~( ), where it would be two things; use another variable with the same condition"
            raise clause.error(inside[part.name.lower()].span, "NEGATION", message)


def _leading(node: nodes.Node, backward: bool) -> list[nodes.Node]:
    """Negations that may have no row of the match before them (``backward``: behind them)."""
    if isinstance(node, nodes.Not):
        return [node]
    if isinstance(node, nodes.Concat):
        out = []
        for item in reversed(node.items) if backward else node.items:
            out += _leading(item, backward)
            if not nullable(tree_of(item)[1]):
                break
        return out
    return [n for child in node.children() for n in _leading(child, backward)]


# -- sizes ------------------------------------------------------------------------------------------------------------


def window_size(size: Expr, text: str, rows: bool, *, zero: bool = False) -> tuple[str, str]:
    """(ROWS, MICROS or NUMBER; the size as a decimal text) of a constant size above 0, or also of 0 (``zero``). Raises
    ClauseError."""
    node = size.bare()
    if node.op == "interval":
        if rows:
            raise _error(size, text, "a WINDOW of ROWS takes a whole number, not an interval")
        return MICROS, str(_interval(node, text, zero))
    source = node.span.of(text).strip()
    if node.op != "lit" or not re.fullmatch(r"\d+(\.\d*)?|\.\d+", source):
        negative = node.op == "un" and node.value == "-"
        wanted = "above 0" if negative else "a constant: an interval such as INTERVAL '10' MINUTE, a number, or n ROWS"
        raise _error(size, text, f"the size of a window must be {wanted}, not {shown(size.span.of(text))}")
    if len(source) > _MAX_DIGITS:
        raise _error(size, text, f"the size of a window has at most {_MAX_DIGITS} digits, not the {len(source)} of {source}")
    if rows and not source.isdigit():
        raise _error(size, text, f"a WINDOW of ROWS takes a whole number, not {source}")
    if Fraction(source) < 0 or not (zero or Fraction(source)):
        raise _error(size, text, f"the size of a window must be above 0, not {source}")
    return (ROWS if rows else NUMBER), source


def common_unit(step: str, size: str) -> str:
    """A number of which SLIDE's step and its WINDOW's size are both multiples, as Fraction reads it. Places of windows have a type
    that holds it."""
    parts = lcm(Fraction(step).denominator, Fraction(size).denominator)
    return step if parts == Fraction(step).denominator else f"1/{parts}"


def _interval(node: Expr, text: str, zero: bool = False) -> int:
    """Microseconds of an interval literal of days and smaller units; ``zero``: it may be empty."""
    source = shown(node.span.of(text))
    body = " ".join(t.text if t.text[0] != '"' else f"'{t.text[1:-1]}'" for t in tokenize(node.span.of(text))[1:-1])  # without comments
    if re.search(r"(?i)\b(year|quarter|month)s?\b", body):
        message = "a window cannot be measured in months or years, which differ in length; use days or smaller units"
        raise error_at(text, node.span.start, node.span.end, "WINDOW_SIZE", message, UNSUPPORTED)
    ranged = re.fullmatch(r"(?i)([+-]?)\s*'([^']*)'\s*(day|hour|minute|second)s?\s+to\s+(hour|minute|second)s?", body)
    if ranged:
        micros = _fields(ranged[2].strip(), ranged[3].upper(), ranged[4].upper())
        micros = None if micros is None else -micros if ranged[1] == "-" else micros
    else:
        micros = _amounts(body)
    if micros is None:
        raise _error(node, text, f"{source} is no interval of days and smaller units")
    if micros < 0 or not (zero or micros) or micros.denominator != 1:
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
