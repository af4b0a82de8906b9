"""The answer if the trace has other matches than the engine: both lists, no explanation, and a report for the developers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict

from sparkcep.plan.plan import LETTERS
from sparkcep.tracing.answers.answer import Why
from sparkcep.tracing.answers.values import Values, labels, row_spans
from sparkcep.tracing.conditions.question import ROW
from sparkcep.tracing.rows.frozen import FrozenRows
from sparkcep.tracing.rows.verify import Difference
from sparkcep.tracing.search.trace import Found
from sparkcep.version import __version__

UNTRUE = "The trace differs from the engine. This is a bug of sparkcep."
MOST_MATCHES = 20  # of a list that is shown
_KEPT = (ROW, LETTERS)


def untrue(
    rows: FrozenRows, words: Mapping[str, object], traced: Iterable[Found], engine: Iterable[Found], wrong: Iterable[Difference] = (),
    asked: tuple[int, ...] = (), change: str = "",
) -> Why:  # fmt: skip
    """The answer.

    Args:
        rows: the rows that were searched.
        words: the arguments of the question.
        traced, engine: the matches of both: first row, and the variables of the rows.
        wrong: the matches that only one of them has.
        asked: the rows that were asked about.
        change: the changed comparison, if the two differ only with it.
    """
    lists = {"trace": list(traced), "engine": list(engine)}
    lines = [UNTRUE] + ([f"  With {change}:"] if change else [])
    for by, matches in lists.items():
        more = f"; and {len(matches) - MOST_MATCHES} more" if len(matches) > MOST_MATCHES else ""
        lines.append(f"  Matches of the {by}: " + ("; ".join(_matched(rows, match) for match in matches[:MOST_MATCHES]) or "none") + more)
    lines += [f"  Only the {one.by} has {_matched(rows, one.match)}." for one in list(wrong)[:MOST_MATCHES]]
    report = _report(rows, change=change, matches=lists, differences=[asdict(one) for one in wrong])
    return Why(dict(words), False, UNTRUE, rows=tuple(row + 1 for row in asked), lines=tuple(lines), report=report)


def unconfirmed(rows: FrozenRows, words: Mapping[str, object], asked: tuple[int, ...] = ()) -> Why:
    """The answer without lists of matches: searches of the engine differ from each other, or the trace is of one side of ``&``."""
    return Why(dict(words), False, UNTRUE, rows=tuple(row + 1 for row in asked), lines=(UNTRUE,), report=_report(rows))


def _report(rows: FrozenRows, **more: object) -> str:
    """The clause, the plan that was searched and the redacted rows as JSON, with ``more``."""
    question = rows.question
    plan = json.loads((question.whole or question.plan).to_json())
    return json.dumps({"sparkcep": __version__, "clause": (question.stated or question.clause).text, "plan": plan, "rows": list(_redacted(rows)), **more}, ensure_ascii=False)


def _matched(rows: FrozenRows, match: Found) -> str:
    if not match.rows:
        return f"an empty match at row {match.start + 1}"
    return f"{row_spans(match.rows)} ({labels([rows.question.name(variable) for variable in match.variables])})"


def _redacted(rows: FrozenRows) -> Iterable[dict[str, object]]:
    """The rows with a name for each value. Truth, NULL and the numbers of rows stay; equal values of a column have one name."""
    values = {name: Values("values") for name in rows.table.column_names}
    for row in range(rows.first, rows.count):
        shown: dict[str, object] = {}
        for name in rows.table.column_names:
            value = rows.column(name)[row]
            shown[name] = value if value is None or isinstance(value, bool) or name in _KEPT else values[name].text(value)
        yield shown
