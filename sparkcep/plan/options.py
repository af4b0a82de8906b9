"""Extended options: event selection, WINDOW and SLIDE as records (LANGUAGE sections 3, 4 and 9).

Also checks their combinations, and reads sizes of windows as constants.
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import lcm

from sparkcep.clause import nodes
from sparkcep.clause.expressions import Expr
from sparkcep.clause.tree import TO_FIRST, TO_LAST, MatchClause
from sparkcep.errors import SEMANTIC, error_at, position, shown
from sparkcep.plan import records
from sparkcep.plan.constants import MAX_DIGITS, constant, decimal_text, no_value, unknown_parameter
from sparkcep.plan.facts import nullable, tree_of

NO_WINDOW, ROWS, MICROS, NUMBER = "none", "rows", "micros", "number"  # kinds of windows


def selection(clause: MatchClause) -> records.Selection | None:
    """The event selection of a clause. None if the clause uses the standard's own matching."""
    chosen = clause.selection
    if clause.approx is not None:
        return records.Selection(chosen.strategy if chosen else "ANY", "ALL")
    strategy = chosen.strategy if chosen else "STRICT"
    report = chosen.report if chosen else None
    # TOP ranks all matches, unless FIRST MATCH is written
    every = strategy == "ANY" or clause.top is not None or nodes.contains(clause.pattern, nodes.Conjunct)
    found = records.Selection(strategy, report or ("ALL" if every else "FIRST"))
    extended = clause.window is not None or clause.unfinished is not None or nodes.contains(clause.pattern, nodes.Within, nodes.Not)
    return found if extended or found != ("STRICT", "FIRST") else None


def windows(clause: MatchClause) -> tuple[records.Window, ...]:
    """The WINDOW (of kind NO_WINDOW if none is written), then the WITHIN of each group."""
    found = [records.Window(NO_WINDOW, "", "", 0, 0, "")]
    if clause.window is not None:
        found = [_window(clause, clause.window.size, clause.window.rows)]
    return (*found, *(_window(clause, n.size, n.rows) for n in nodes.walk(clause.pattern) if isinstance(n, nodes.Within)))


def _window(clause: MatchClause, size: Expr, rows: bool) -> records.Window:
    kind, amount = window_size(clause, size, rows)
    place = position(clause.text, size.span.start)
    return records.Window(kind, amount, "__o0" if kind in (MICROS, NUMBER) else "", *place, size.span.of(clause.text)[:40])


def slide_of(clause: MatchClause) -> records.Slide | None:
    """The step of SLIDE, None without SLIDE."""
    window = clause.window
    if window is None or window.slide is None:
        return None
    step = constant(window.slide, clause.text, clause.parameters)
    rows = window.slide_rows or (window.rows and step is not None and not step.is_time)
    return records.Slide(*window_size(clause, window.slide, rows))


def check_options(clause: MatchClause) -> None:
    """Raises ClauseError for an option that cannot apply, at its place."""
    strategy, report = selection(clause) or ("STRICT", "FIRST")
    if clause.window is not None and not clause.order_by:
        raise clause.error(clause.window.span, "WINDOW_WITHOUT_ORDER", "WINDOW measures the order of rows. Add ORDER BY to the clause")
    if report == "ALL" and clause.skip is not None and clause.skip.mode in (TO_FIRST, TO_LAST):
        message = "with ALL MATCHES, write AFTER MATCH SKIP TO NEXT ROW (all matches) or PAST LAST ROW (non-overlapping matches)"
        raise clause.error(clause.skip.span, "SKIP_WITH_ALL_MATCHES", message)
    _check_pattern(clause, strategy, report)


def _check_pattern(clause: MatchClause, strategy: str, report: str) -> None:
    for node in nodes.walk(clause.pattern):
        match node:
            case nodes.Within() if not clause.order_by:
                raise clause.error(node.span, "WINDOW_WITHOUT_ORDER", "WITHIN measures the order of rows. Add ORDER BY to the clause")
            case nodes.Conjunct() if strategy == "STRICT":
                raise clause.error(
                    node.span, "CONJUNCTION",
                    "under STRICT CONTIGUITY rows are adjacent, so & cannot match. Add EVENT SELECTION SKIP TILL ANY MATCH",
                )
            case nodes.Conjunct() if report == "FIRST":
                raise clause.error(node.span, "CONJUNCTION", "a conjunction & cannot report FIRST MATCH. Write ALL MATCHES")
            case nodes.Repeat(nodes.Not()):
                raise clause.error(node.span, "NEGATION", "~ cannot be quantified. Quantify a group with another variable, as in (A ~B)+")
            case nodes.Not():
                _check_negated(clause, node)
                if strategy == "STRICT":
                    raise clause.error(
                        node.span, "NEGATION",
                        "under STRICT CONTIGUITY rows are adjacent, so ~ does not apply. Add EVENT SELECTION SKIP TILL NEXT MATCH",
                    )
    if clause.window is None:
        for backward, where in ((False, "start"), (True, "end")):
            for node in _leading(clause.pattern, backward):
                raise clause.error(
                    node.span, "NEGATION", f"~ at the {where} of the pattern applies to the whole window. Add WINDOW"
                )


_NOT_NEGATED = {
    nodes.Not: "~ cannot be inside ~. Negate the parts one by one",
    nodes.Conjunct: "~ cannot negate a conjunction &. Negate its sides one after the other, in each forbidden order",
    nodes.Start: "^ cannot be inside ~, whose rows lie between others. Put ^ before the first variable",
    nodes.End: "$ cannot be inside ~, whose rows lie between others. Put $ after the last variable",
    nodes.Exclude: "an exclusion {- -} hides rows of a match, but rows of ~ are not in the match. Remove the braces",
}


def _check_negated(clause: MatchClause, node: nodes.Not) -> None:
    """Raises ClauseError for a group that cannot be negated."""
    for part in nodes.walk(node.item):
        if type(part) in _NOT_NEGATED:
            raise clause.error(part.span, "NEGATION", _NOT_NEGATED[type(part)])
    if nullable(tree_of(node.item)[1]):
        message = "the negated pattern matches the empty sequence, so it can never be absent. Let it take at least one row, as in ~(B+)"
        raise clause.error(node.span, "NEGATION", message)
    if isinstance(node.item, nodes.Var):
        return
    inside = {part.name.lower(): part for part in nodes.walk(node.item) if isinstance(part, nodes.Var)}
    within = {id(part) for part in nodes.walk(node.item)}
    for part in nodes.walk(clause.pattern):
        if isinstance(part, nodes.Var) and id(part) not in within and part.name.lower() in inside:
            message = f"{part.name} cannot be both inside and outside of ~( ). Use another variable with the same condition"
            raise clause.error(inside[part.name.lower()].span, "NEGATION", message)


def _leading(node: nodes.Node, backward: bool) -> list[nodes.Node]:
    """Negations that may come before the first row of the match, or with ``backward`` after the last row."""
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


def window_size(clause: MatchClause, size: Expr, rows: bool, *, zero: bool = False) -> tuple[str, str]:
    """The kind (ROWS, MICROS or NUMBER) and the size as decimal text of a constant size.

    ``zero``: whether 0 is allowed. Raises ClauseError for any other size.
    """
    node, text = size.bare(), clause.text
    found = constant(node, text, clause.parameters)
    source = shown(node.span.of(text).strip())
    if found is None:
        if (unknown := unknown_parameter(node, clause.parameters)) is not None:
            raise no_value(size, text, unknown)
        raise _error(size, text, f"the size of a window must be a constant: an interval such as INTERVAL '10' MINUTE, a number, or n ROWS, not {shown(size.span.of(text))}")
    if rows and found.is_time:
        raise _error(size, text, "a WINDOW of ROWS takes a whole number, not an interval")
    plain = node.op == "lit" and re.fullmatch(r"\d+(\.\d*)?|\.\d+", str(node.value)) is not None
    if plain and len(str(node.value)) > MAX_DIGITS:
        raise _error(size, text, f"the size of a window has at most {MAX_DIGITS} digits, not the {len(str(node.value))} of {node.value}")
    amount = str(node.value) if plain else decimal_text(found.value)
    if rows and not found.value.denominator == 1 or rows and plain and not amount.isdigit():
        raise _error(size, text, f"a WINDOW of ROWS takes a whole number, not {source}")
    if found.value < 0 or not (zero or found.value) or (found.is_time and found.value.denominator != 1):
        raise _error(size, text, f"the size of a window must be above 0{', in whole microseconds' if found.is_time else ''}, not {source}")
    if amount is None or len(amount) > MAX_DIGITS:
        raise _error(size, text, f"the size of a window must be a number of at most {MAX_DIGITS} digits, not {source}")
    return (MICROS if found.is_time else ROWS if rows else NUMBER), amount


def elapsed_micros(time: str) -> str:
    """SQL of a time of the order in microseconds, so that differences are elapsed times.

    Those of TIMESTAMPs in Spark follow the clock of the time zone, which jumps. Other types have clocks of their own.
    """
    own_clock = f"(CAST({time} AS TIMESTAMP_NTZ) - TIMESTAMP_NTZ'1970-01-01 00:00:00') DIV INTERVAL '0.000001' SECOND"
    return f"IF(typeof({time}) = 'timestamp', unix_micros(CAST({time} AS TIMESTAMP_LTZ)), {own_clock})"


def common_unit(step: str, size: str) -> str:
    """A number that divides both SLIDE's step and its WINDOW's size, as text for Fraction.

    The type of window positions holds it.
    """
    parts = lcm(Fraction(step).denominator, Fraction(size).denominator)
    return step if parts == Fraction(step).denominator else f"1/{parts}"


def _error(node: Expr, text: str, message: str):
    return error_at(text, node.span.start, node.span.end, "WINDOW_SIZE", message, SEMANTIC)
