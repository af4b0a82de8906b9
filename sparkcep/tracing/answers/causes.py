"""Why a comparison is NULL: the columns, navigations and aggregates in its sides that are NULL."""

from __future__ import annotations

from collections.abc import Iterator

from sparkcep.plan.records import ALL_ROWS
from sparkcep.plan.scope import NAVIGATIONS
from sparkcep.tracing.rows.frozen import FrozenRows, Judged
from sparkcep.tracing.rows.machine import Failed
from sparkcep.tracing.search.runs import Run


def causes(rows: FrozenRows | Judged, comparison: int, row: int, run: Run) -> list[str]:
    """The causes of a NULL at a row that comes after a run, without repetitions."""
    found = rows.question.comparisons[comparison]
    seen = rows.seen(found.variable, row, run)
    return list(dict.fromkeys(text for number in found.parts for text in _cause(rows, number, row, run, found.variable, seen)))


def _cause(rows: FrozenRows | Judged, number: int, row: int, run: Run, own: int, seen: Run) -> Iterator[str]:
    """The cause of one part that is NULL. ``own``: the variable of the row. ``seen``: the rows that the condition sees."""
    value = rows.question.values[number]
    if not value.is_known:
        return
    found = rows.value(number, row, run)
    if isinstance(found, Failed):
        yield f"{value.text} is not computed"
        return
    if found is not None:
        return
    scope, expr = rows.question.scope, value.expr.bare()
    if expr.op == "col":
        mask = scope.qualifier(expr)
        named = ".".join(expr.value[1:]) if mask is not None else value.text
        if mask is None or mask >> own & 1:
            yield f"{named} is NULL in row {row + 1}"
        else:
            yield _of_rows(value.text, named, str(expr.value[0]), mask, 0, 0, seen, rows.count, last=True)
    elif expr.value in NAVIGATIONS:
        at, body = scope.navigation(expr, in_define=True)
        inner = expr.args[0].bare()
        ends = expr if expr.value in ("FIRST", "LAST") else inner if inner.op == "call" and inner.value in ("FIRST", "LAST") else None
        named = " ".join(body.span.of(scope.text).split())
        columns = [node.value for node in scope.columns(body) if node.op == "col"]
        variable = next((str(name[0]) for name in columns if len(name) > 1 and scope.mask_of(name[0]) is not None), "")
        named = named.removeprefix(f"{variable}.") if variable else named
        if ends is None and (at.mask == ALL_ROWS or at.mask >> own & 1):
            yield _at(value.text, named, row + at.physical, rows.count)
        else:
            yield _of_rows(value.text, named, variable, at.mask, at.logical, at.physical, seen, rows.count, last=at.which == "L")
    else:
        yield f"{value.text} is over no value"


def _at(text: str, named: str, row: int, count: int) -> str:
    if row < 0:
        return f"{text} looks before the partition's first row"
    if row >= count:
        return f"{text} looks past the partition's last row"
    return f"{named} is NULL in row {row + 1}"


def _of_rows(text: str, named: str, variable: str, mask: int, logical: int, physical: int, seen: Run, count: int, *, last: bool) -> str:
    """The cause for a row counted among those of some variables."""
    taken = [one.row for one in seen.taken() if mask == ALL_ROWS or mask >> one.variable & 1]
    if not taken:
        return f"{text}: no row is {variable or 'taken'} yet"
    if logical >= len(taken):
        return f"{text}: only {len(taken)} row{'s are' if len(taken) > 1 else ' is'} {variable or 'taken'} yet"
    return _at(text, named, taken[-1 - logical if last else logical] + physical, count)
