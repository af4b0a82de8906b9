"""The form of a question: one sentence, a statement, the rows that it is asked of, and the answer in plain Python.

The modules of this folder decorate answers with ``question``. ``test_questions.py`` compares the statement's rows with the answer.
An answer uses nothing of sparkcep: plain Python, pandas, or the few helpers at the end of this module.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


class Row(dict):
    """A row whose columns are attributes, too: ``row.price`` is ``row["price"]``."""

    __getattr__ = dict.__getitem__


@dataclass(frozen=True)
class Rows:
    """The rows of one input and their columns in Spark's words. A TIMESTAMP is a datetime in UTC without its time zone."""

    schema: str
    rows: list[Row]


@dataclass(frozen=True)
class Stream:
    """How the first input of a question becomes a stream.

    Args:
        time: the column of the watermark, which the clause orders by.
        keys: the columns of PARTITION BY, one or several with spaces between them.
        last: values of the rows that end the stream, with which they pass the statement's WHERE; other values are NULL.
    """

    time: str
    keys: str = ""
    last: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    name: str
    asked: str
    of: Mapping[str, Callable[[], Rows]]
    answer: Callable[..., Iterable[tuple]]
    sql: str | None = None
    frame: Callable[[Any, dict], Any] | None = None
    stream: Stream | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    cached: bool = False
    ordered: bool = False
    quick: bool = False

    def expected(self) -> list[tuple]:
        """What plain Python answers."""
        return [plain(row) for row in self.answer(*(rows().rows for rows in self.of.values()))]


QUESTIONS: list[Question] = []


def question(
    *,
    of: Mapping[str, Callable[[], Rows]],
    sql: str | None = None,
    frame: Callable[[Any, dict], Any] | None = None,
    stream: Stream | None = None,
    settings: Mapping[str, str] | None = None,
    cached: bool = False,
    ordered: bool = False,
    quick: bool = False,
):
    """Makes a question of its answer: the decorated function's name and docstring are the question's.

    Args:
        of: view name -> a function that returns its rows. The answer gets the rows of each, as lists.
        sql: the statement; several end with ";" at the end of a line, and the last one's rows are compared.
        frame: instead of ``sql``: a function of the session and the frames by name that returns a data frame.
        stream: how the question is asked of a stream of the first input's rows.
        settings: the session's settings while it is asked.
        cached: the inputs are cached tables.
        ordered: the order of the answer's rows counts.
        quick: the default test run asks it, too.
    """

    def decorated(answer):
        QUESTIONS.append(Question(answer.__name__, answer.__doc__, of, answer, sql, frame, stream, settings or {}, cached, ordered, quick))
        return answer

    return decorated


def plain(row: Iterable) -> tuple:
    """A row whose values compare as they should: floats to 9 digits, times in UTC, arrays as tuples."""
    return tuple(map(_value, row))


def _value(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.9g}")
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, (list, tuple)):
        return plain(value)
    return value


def difference(found: list[tuple], expected: list[tuple]) -> str:
    """Says which rows are missing and which ones should not be there; empty where there are none."""
    missing, extra = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    lines = [f"{sum(missing.values())} missing, {sum(extra.values())} too many, of {len(expected)}"]
    lines += [f"missing  {row}" for row in itertools.islice(missing, 5)] + [f"too many {row}" for row in itertools.islice(extra, 5)]
    return "\n".join(lines) if missing or extra else ""


def by(rows: Iterable[Row], *keys: str, order: str | Callable) -> Iterator[list[Row]]:
    """The rows of each key, sorted by a column or a function of the row."""
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    for group in groups.values():
        yield sorted(group, key=order if callable(order) else lambda row: row[order])


def streaks(rows: list[Row], goes_on: Callable[[Row, Row], Any]) -> Iterator[list[Row]]:
    """Cuts sorted rows where ``goes_on(before, row)`` is not true."""
    streak: list[Row] = []
    for row in rows:
        if streak and not goes_on(streak[-1], row):
            yield streak
            streak = []
        streak.append(row)
    if streak:
        yield streak


def spans(rows: list[Row], holds: Callable[[Row], Any]) -> Iterator[list[Row]]:
    """The longest spans of neighbouring rows for each of which ``holds(row)`` is true."""
    for true, span in itertools.groupby(rows, key=lambda row: bool(holds(row))):
        if true:
            yield list(span)
