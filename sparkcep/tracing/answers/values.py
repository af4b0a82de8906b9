"""Values, rows and variables as text, the redaction of values, and errors for names that a question got wrong."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import groupby
from typing import Any

from sparkcep.errors import SEMANTIC, ClauseError, cut, offered, printable
from sparkcep.tracing.conditions.question import WHY, Question
from sparkcep.tracing.rows.frozen import FrozenRows
from sparkcep.tracing.rows.local_times import values_of
from sparkcep.tracing.rows.machine import Failed

LEVELS = ("", "values", "all")  # of redaction, weakest first
_LONGEST = 48
EXTRA_LABEL = "-"  # of a row that APPROX passes over


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
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        text = repr(value)
        return text.removesuffix(".0")
    if isinstance(value, Decimal):
        return f"{value:f}"  # without an exponent
    if isinstance(value, datetime.timedelta):
        return f"-{-value}" if value < datetime.timedelta() else str(value)
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat(" ")
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {plain(part)}" for name, part in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(plain, value)) + "]"
    return str(value)


def short(text: str) -> str:
    """A text of one line, cut if it is long."""
    return cut(" ".join(text.split("\n")), _LONGEST)


def truth(value: bool | None) -> str:
    """A truth value."""
    return "NULL" if value is None else str(value).lower()


def row_spans(rows: Sequence[int]) -> str:
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


class Names:
    """Writes rows by their numbers and first ORDER BY keys, and variables by their names.

    Attributes:
        partition: the keys of the partition, "" without PARTITION BY.
    """

    def __init__(self, rows: FrozenRows, values: Values) -> None:
        self.rows, self.values, self.question = rows, values, rows.question
        self.plan = rows.question.plan
        self.partition = " and ".join(f"{key.name} = {values.text(self.key(key.column), kind='k')}" for key in self.plan.partition)

    def key(self, column: str) -> Any:
        """The value of a key of the partition, None without rows."""
        return next(iter(values_of(self.rows.table[column].slice(0, 1), self.plan.zone)), None)

    @property
    def of_partition(self) -> str:
        """The keys of the partition after a noun, "" without PARTITION BY."""
        return f" of {self.partition}" if self.partition else ""

    def row(self, row: int) -> str:
        """A row with its first ORDER BY key."""
        if not self.plan.order:
            return f"row {row + 1}"
        key = self.plan.order[0]
        return f"row {row + 1} ({key.name} {self.values.text(self.rows.column(key.column)[row], quoted=False)})"

    def head(self, row: int) -> str:
        """A row at the beginning of an answer."""
        return "R" + self.row(row)[1:] + self.of_partition

    def name(self, variable: int) -> str:
        """The name of a variable."""
        return self.question.name(variable)

    def moment(self, at: Any) -> str:
        """A value of the first ORDER BY key."""
        return self.values.text(at, quoted=False)

    def labels(self, variables: Sequence[int]) -> str:
        """The names of variables; more than three equal ones as a number."""
        return labels([self.question.name(variable) if variable >= 0 else EXTRA_LABEL for variable in variables])


def variable_named(question: Question, expect: str) -> int:
    """The variable that ``expect`` names. Raises ClauseError of class WHY if there is none."""
    variable = question.scope.ids.get(expect.lower())
    if variable is None:
        message = f"expect={expect!r} is not a variable of PATTERN{offered(expect, question.plan.variables)}"
        raise ClauseError(WHY, message, sqlstate=SEMANTIC)
    return variable


def no_match(number: int, count: int, there: str = "") -> ClauseError:
    """The error for a match that does not exist. ``there``: what the partition has, by default the ``count`` of its matches."""
    instead = f"Write match=1{f' to match={count}' if count > 1 else ''}" if count else "Ask about a row with at"
    return ClauseError(WHY, f"match={number}: the partition has {there or counted(count, 'match')}. {instead}", sqlstate=SEMANTIC)


def and_more(items: Sequence[Any], most: int, text: Callable[[Any], str]) -> str:
    """The texts of the first ``most`` items, joined by "and", and how many others there are."""
    return " and ".join(map(text, items[:most])) + (f" and {len(items) - most} more" if len(items) > most else "")


def counted(count: int, what: str) -> str:
    """A number of things."""
    plural = f"{what}es" if what.endswith("ch") else f"{what}s"
    return f"{count:,} {what if count == 1 else plural}"
