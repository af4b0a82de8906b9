"""Hints of an answer about a whole table: facts about the rows that often are the cause, with numbers.

Counts come from Spark over all rows. Hints about values read the traced partitions. :func:`without` counts the matches of a clause
without its anchors, and without its WINDOW.
"""

from __future__ import annotations

import datetime
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from statistics import median
from typing import Any

import pyarrow as pa

from sparkcep.clause import nodes
from sparkcep.clause.expressions import Expr
from sparkcep.clause.tree import EventSelection, MatchClause
from sparkcep.errors import ClauseError
from sparkcep.plan.build import drafted
from sparkcep.plan.options import MICROS, NO_WINDOW, ROWS
from sparkcep.plan.records import Window
from sparkcep.settings import Settings
from sparkcep.tracing.answers.values import Values, counted
from sparkcep.tracing.conditions.collector import Comparison, is_literal, sides_of
from sparkcep.tracing.conditions.question import Question
from sparkcep.tracing.rows.frozen import FrozenRows
from sparkcep.tracing.rows.verify import matches_of

_PART = 0.95  # of the values: so many of them are numbers, or have a unit's digits
_UNITS = {
    13: ("milliseconds", 1_000),
    16: ("microseconds", 1_000_000),
    19: ("nanoseconds", 1_000_000_000),
}  # since 1970, by the number of digits
_ORDERED = ("<", "<=", ">", ">=")
_WITH_ZONE = re.compile(r"(\d\s*Z|UTC|GMT|:\d\d.*[+-]\d\d?(:?\d\d)?|[A-Za-z]/[A-Za-z_]+)$", re.IGNORECASE)


@dataclass(frozen=True)
class Cast:
    """A side of a comparison that Spark casts: its text, its type, and the type that it gets."""

    side: str
    of: str
    to: str


@dataclass(frozen=True)
class Totals:
    """Counts over all rows of the clause's input.

    Attributes:
        rows, partitions: their numbers.
        truths: for comparisons that Spark computes, how often each is true, false and NULL.
        ties: rows that are equal to an earlier one in PARTITION BY and ORDER BY.
        single: partitions of one row.
        null_keys: rows with a NULL key.
        casts: for the number of a comparison, the side that Spark casts.
        unfinished: under SHOW UNFINISHED MATCHES, how many matches have a MATCH_STATUS() and a variable of the last row.
    """

    rows: int
    partitions: int
    truths: Mapping[int, tuple[int, int, int]] = field(default_factory=dict)
    ties: int = 0
    single: int = 0
    null_keys: int = 0
    casts: Mapping[int, Cast] = field(default_factory=dict)
    unfinished: tuple[tuple[str, str, int], ...] = ()


class Hints:
    """Looks for hints.

    Args:
        parts: the traced partitions, at least one.
        totals: the counts over all rows.
        settings: the session's settings.
        values: writes values of rows.
        matches: the number of matches in the partitions.
        searches: whether the engine may search them with another clause.
    """

    def __init__(self, parts: Sequence[FrozenRows], totals: Totals, settings: Settings, values: Values, matches: int, *, searches: bool = True) -> None:
        self.parts, self.totals, self.settings, self.values, self.matches, self.searches = parts, totals, settings, values, matches, searches
        self.question: Question = parts[0].question
        self.plan = self.question.plan

    def found(self) -> Iterator[str]:
        """The hints, one line each. The line about SKIP TILL NEXT MATCH is the last one."""
        yield from self.ties()
        yield from self.keys()
        yield from self.only_case()
        yield from self.text_numbers()
        yield from self.cast()
        yield from self.window_units()
        if self.searches and not self.matches and self.plan.adjacent:
            count = self.skipping()
            if count:
                matches = counted(count, "match")
                yield f"With EVENT SELECTION SKIP TILL NEXT MATCH there would be {matches}: rows between are passed over."

    # -- keys -----------------------------------------------------------------------------------------------

    def ties(self) -> Iterator[str]:
        """TIES: rows whose order depends on chance."""
        totals = self.totals
        if not self.plan.order and totals.rows > totals.partitions:
            yield "Hint: the clause lacks ORDER BY, so the order of rows depends on chance."
        elif totals.ties:
            rows = counted(totals.ties, "row")
            yield f"Hint: {rows} equal to another row in PARTITION BY and ORDER BY, so their order depends on chance."

    def keys(self) -> Iterator[str]:
        """ONE_ROW_PARTITIONS and NULL_KEYS."""
        totals = self.totals
        if totals.partitions > 1 and totals.single >= _PART * totals.partitions:
            each = (
                f"each of the {totals.partitions:,} partitions is"
                if totals.single == totals.partitions
                else f"{totals.single:,} of {totals.partitions:,} partitions are"
            )
            yield f"Hint: {each} one row. PARTITION BY may name a column that differs in every row."
        if totals.null_keys:
            yield f"Hint: {counted(totals.null_keys, 'row')} with a NULL key in PARTITION BY; such rows are one partition."

    # -- texts ----------------------------------------------------------------------------------------------

    def only_case(self) -> Iterator[str]:
        """CASE_ONLY: comparisons with a text that differs from the column's values in case or blanks alone."""
        for comparison in self.question.comparisons:
            expr = comparison.expr.bare()
            counts = self.totals.truths.get(comparison.number)
            if (
                counts is None
                or counts[0]
                or len(comparison.sides) != 1
                or not (expr.op == "in" or (expr.op == "bin" and expr.value in ("=", "<=>")))
            ):
                continue
            number = comparison.sides[0]
            for side in expr.args:
                text = side.span.of(self.question.clause.text)
                if not (is_literal(side) and text.startswith("'") and text.endswith("'")):
                    continue
                wanted = text[1:-1].strip().lower()
                found = Counter(
                    v for part in self.parts for v in part.values_of(number) if isinstance(v, str) and v.strip().lower() == wanted
                )
                for value, count in found.most_common(1):
                    of = self.question.values[number].text
                    rows = counted(count, "row")
                    shown = self.values.text(value)
                    yield f"Hint: {of} is never {text}; it is {shown} in {rows}. They differ only in case or blanks."

    def text_numbers(self) -> Iterator[str]:
        """TEXT_NUMBERS: numbers that are compared, or sorted, as text."""
        said = set()
        for comparison in self.question.comparisons:
            if self._is_ordered_text(comparison):
                for number in comparison.sides:
                    text = self._column_text(self.question.values[number].expr)
                    share = self._numbers([v for part in self.parts for v in part.values_of(number)])
                    if share and text not in said:
                        said.add(text)
                        yield (
                            f'Hint: "{comparison.text}" compares text, and {share} of the values of {text} are numbers. '
                            f"As text '9' > '10'. "
                            f"Write CAST({text} AS DOUBLE)."
                        )
        for key in self.plan.order[:1]:
            values = [v for part in self.parts for v in part.column(key.column)]
            if pa.types.is_string(self.parts[0].table.schema.field(key.column).type) and (share := self._numbers(values)):
                wrong = f"Hint: ORDER BY {key.name} sorts text, and {share} of its values are numbers. As text '10' comes before '9'."
                yield f"{wrong} Write CAST({key.name} AS DOUBLE)."

    def _is_ordered_text(self, comparison: Comparison) -> bool:
        """Whether a comparison orders strings."""
        expr, text = comparison.expr.bare(), self.question.clause.text
        if not ((expr.op == "bin" and expr.value in _ORDERED) or expr.op == "between"):
            return False
        if any(is_literal(side) and not side.bare().span.of(text).startswith(("'", '"')) for side in sides_of(expr)):
            return False
        return bool(comparison.sides) and all(self.parts[0].is_text(number) for number in comparison.sides)

    def _column_text(self, expr: Expr) -> str:
        """The text of a side, of a navigation that of the expression which it reads."""
        scope, expr = self.question.scope, expr.bare()
        body = scope.navigation(expr, in_define=True)[1] if any(call is expr for call in scope.match_functions(expr)) else expr
        return " ".join(scope.row_text(body).split())

    @staticmethod
    def _numbers(values: Sequence[Any]) -> str:
        """The share of numbers among texts; "" if it is small, or if they sort as texts like as numbers."""
        known = [value.strip() for value in values if isinstance(value, str)]
        numbers = {value: float(value) for value in set(known) if _is_number(value)}
        share = sum(value in numbers for value in known) / len(known) if known else 0.0
        if share < _PART or sorted(numbers) == sorted(numbers, key=lambda value: (numbers[value], value)):
            return ""
        return f"{int(100 * share)} %"

    def cast(self) -> Iterator[str]:
        """CAST, and TIME_ZONE for a text or a date that Spark casts to TIMESTAMP."""
        for number, cast in self.totals.casts.items():
            text, truths = self.question.comparisons[number].text, self.totals.truths.get(number)
            so = f"; it is true in {truths[0]:,} of {self.totals.rows:,} rows" if truths else ""
            if cast.to != "TIMESTAMP":
                nulls = f", NULL in {truths[2]:,}" if truths and truths[2] else ""
                yield f'Hint: in "{text}" Spark casts {cast.side} from {cast.of} to {cast.to}{so}{nulls}.'
            elif not _has_zone(cast.side):
                what = (
                    f"{cast.side} as midnight"
                    if cast.of == "DATE"
                    else f"the text {cast.side}"
                    if cast.side.startswith("'")
                    else cast.side
                )
                yield f'Hint: in "{text}" Spark reads {what} in the time zone of the session, {self.plan.zone}{so}.'

    # -- times ----------------------------------------------------------------------------------------------

    def window_units(self) -> Iterator[str]:
        """WINDOW_UNITS: windows that are not longer than the usual distance of two neighbours."""
        for i, window in enumerate(self.plan.windows):
            if window.kind in (NO_WINDOW, ROWS):
                continue
            key = next(key.name for key in self.plan.order if key.column == window.order)
            size = Decimal(window.size)
            distances = [distance for part in self.parts for distance in _distances(part.column(window.order))]
            usual = median(distances) if distances else None
            if usual is None or usual < size:
                continue
            word = "WITHIN" if i else "WINDOW"
            apart = self.values.text(datetime.timedelta(microseconds=float(usual)) if window.kind == MICROS else usual)
            short = f"so {word} {window.text} is often too short for two rows.{self._unit(window, word, key)}"
            yield f"Hint: neighbouring rows are {apart} apart in {key} (the median), {short}"

    def _unit(self, window: Window, word: str, key: str) -> str:
        """A sentence about the unit that the digits of an ORDER BY key look like."""
        values = [v for part in self.parts for v in part.column(window.order) if isinstance(v, int) and not isinstance(v, bool)]
        for digits, (unit, factor) in _UNITS.items():
            if values and sum(len(str(abs(value))) == digits for value in values) >= _PART * len(values):
                right = f"{word} {Decimal(window.size) * factor}"
                return f" {key} has {digits} digits, which look like {unit}: {window.size} seconds are {right}."
        return ""

    # -- rows in between ------------------------------------------------------------------------------------

    def skipping(self) -> int:
        """ADJACENT: the sample's number of matches under SKIP TILL NEXT MATCH, 0 if the clause cannot have it."""
        return _count(replace(self.question.clause, selection=EventSelection("NEXT")), self.question, self.parts, self.settings)


def _is_number(text: str) -> bool:
    try:
        return float(text) == float(text)
    except ValueError:
        return False


def _has_zone(side: str) -> bool:
    """Whether the text of a time names its zone."""
    return side.startswith(("'", '"')) and _WITH_ZONE.search(side.strip("'\" ")) is not None


def _distances(values: Sequence[Any]) -> Iterator[Decimal]:
    """The distances of neighbouring rows, in microseconds for times. Rows without a value, with NaN or an infinity are left out."""
    known = [value for value in values if value is not None and not (isinstance(value, float) and not math.isfinite(value))]
    for one, other in zip(known, known[1:]):
        if isinstance(one, datetime.date):
            yield Decimal(abs(other - one) // datetime.timedelta(microseconds=1))
        else:
            yield abs(Decimal(str(other)) - Decimal(str(one)))


def _count(clause: MatchClause, question: Question, parts: Sequence[FrozenRows], settings: Settings) -> int:
    """The number of matches of a changed clause. 0 if it is wrong, needs other columns, or fails for these rows."""
    known = question.plan
    try:
        plan = drafted(replace(clause, measures=(), rows="show"), settings=settings).plan
        is_known = set(plan.inputs) <= set(known.inputs) and set(plan.ordered_inputs) <= set(known.ordered_inputs)
        return sum(len(matches_of(plan, part.table)) for part in parts) if is_known and plan.letters == known.letters else 0
    except ClauseError:
        return 0


# -- without a part of the clause ------------------------------------------------------------------------------------------


def without(question: Question, parts: Sequence[FrozenRows], settings: Settings) -> Iterator[str]:
    """Yields a line for the anchors and for WINDOW, if the clause has matches without them.

    Args:
        question: the clause.
        parts: the traced partitions. None of them has a match.
        settings: the session's settings.
    """
    clause = question.clause
    anchors = [name for kind, name in ((nodes.Start, "^"), (nodes.End, "$")) if nodes.contains(clause.pattern, kind)]
    changed: dict[str, MatchClause] = {}
    if anchors:
        changed[" and ".join(anchors)] = replace(clause, pattern=_unanchored(clause.pattern))
    if clause.window is not None:
        changed[" ".join(clause.window.span.of(clause.text).split())] = replace(clause, window=None)
    for what, other in changed.items():
        if count := _count(other, question, parts, settings):
            yield f"Hint: without {what} there would be {counted(count, 'match')}."


def _unanchored(node: nodes.Node) -> nodes.Node:
    """The pattern with nothing instead of each anchor."""
    if isinstance(node, nodes.Start | nodes.End):
        return nodes.Empty()
    if isinstance(node, nodes.Concat | nodes.Alternate | nodes.Conjunct | nodes.Permute):
        return replace(node, items=tuple(map(_unanchored, node.items)))
    if isinstance(node, nodes.Not | nodes.Exclude | nodes.Repeat | nodes.Within):
        return replace(node, item=_unanchored(node.item))
    return node
