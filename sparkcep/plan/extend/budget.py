"""BUDGET n CHECKS, BUDGET INTERVAL, USING HISTORY and MATCH HISTORY: best-effort matching (RC-ACEP, VLDB 2016, sections 3.2 to 4).

``plan/build`` calls the checks, and makes records with the functions after them.
"""

from __future__ import annotations

import hashlib
import math

from sparkcep.clause import tree
from sparkcep.clause.tokens import Span, tokenize
from sparkcep.clause.tree import ONE_ROW, WITH_UNMATCHED, MatchClause
from sparkcep.errors import UNSUPPORTED, ClauseError, position
from sparkcep.plan.constants import MARKER, constant, is_literal, no_value, number, unknown_parameter
from sparkcep.plan.extend import approx as costs
from sparkcep.plan.limits import MAX_BUDGET_NANOS, MAX_BUNDLES, MAX_CELLS, MAX_CHECKS, MAX_INTERVALS
from sparkcep.plan.options import ROWS, window_size
from sparkcep.plan.records import Budget, History, OfHistory, Pace, Part
from sparkcep.settings import Settings

HISTORY = "HISTORY"  # the report of MATCH HISTORY
HISTORY_COLUMN = "__history"  # input column with the whole history table, in the first row of each task
INTERVALS = 8
MAX_VECTORS = 4096
# the columns of a history, with their SQL types
COLUMNS = {
    "pattern": "STRING", "place": "INT", "errors": "DOUBLE", "remaining": "INT", "idle": "INT", "visits": "BIGINT", "points": "BIGINT",
    "bundles": "ARRAY<INT>",
}


def not_repeatable(budget: Budget, where: str) -> ClauseError:
    """The error for BUDGET INTERVAL where Spark may run the clause more than once. ``where``: LATERAL, or the statement's verb."""
    message = f"BUDGET INTERVAL is not repeatable, and {where} may run the clause more than once. Write BUDGET n CHECKS, or write the matches to a table first and read the table"
    return ClauseError("BUDGET", message, sqlstate=UNSUPPORTED, line=budget.line, column=budget.column, fragment=budget.text)


def check_budget(clause: MatchClause) -> None:
    """Raises ClauseError if BUDGET or MATCH HISTORY cannot apply, at its place."""
    approx = clause.approx
    assert approx is not None
    at = approx.budget.span if approx.budget is not None else approx.span
    words = "BUDGET" if approx.budget is not None else "MATCH HISTORY"
    if clause.window is None:
        raise _fail(clause, at, f"{words} counts what happens inside a window. Add WINDOW")
    if clause.selection is not None and clause.selection.strategy == "STRICT":
        raise _fail(clause, at, f"{words} chooses among waiting runs, and under STRICT CONTIGUITY runs do not wait. Leave EVENT SELECTION out")
    for option, found in (("PREF", clause.pref), ("TOP", clause.top)):
        if found is not None:
            raise _fail(clause, found.span, f"{option} ranks all matches, but {words} does not find all of them. Leave out one of the two")
    if approx.report == HISTORY:
        _check_history(clause)
        used = approx.budget.history if approx.budget is not None else None
        if used is not None and used.refill:
            message = "REFILL beside MATCH HISTORY is not available: a partition records either its own next history or the table. Leave REFILL out"
            raise clause.error(used.span, "BUDGET", message, UNSUPPORTED)
    if approx.budget is not None:
        _check_checks(clause, approx.budget)
    _check_measures(clause)


def _check_history(clause: MatchClause) -> None:
    assert clause.approx is not None
    if clause.measures:
        raise _fail(clause, clause.measures[0].expr.span, f"MATCH HISTORY returns its own columns ({', '.join(COLUMNS)}). Leave MEASURES out")
    if clause.rows != ONE_ROW:
        raise _fail(clause, clause.approx.span, "MATCH HISTORY does not describe single rows. Leave out ALL ROWS PER MATCH")
    intervals = clause.approx.intervals
    if intervals is not None:
        _whole(clause, intervals, "INTERVALS", MAX_INTERVALS)


def _check_checks(clause: MatchClause, budget: tree.Budget) -> None:
    _amount(clause, budget)
    if clause.rows == WITH_UNMATCHED:
        raise _fail(clause, budget.span, "with BUDGET the search may miss the match of an unmatched row. Leave out WITH UNMATCHED ROWS")
    if budget.history is not None:
        sizes = budget.history.sketch
        cells = math.prod(_whole(clause, size, "SKETCH", MAX_CELLS) for size in sizes)
        if cells > MAX_CELLS:
            span = Span(sizes[0].span.start, sizes[-1].span.end)
            raise _fail(clause, span, f"a SKETCH of {cells} cells is larger than the history that it replaces. At most {MAX_CELLS} cells are allowed")


def _whole(clause: MatchClause, expr, what: str, most: int) -> int:
    """A literal whole number from 1 to ``most``."""
    value = number(expr, clause.text, clause.parameters)
    if value is None or value.denominator != 1 or not 1 <= value <= most:
        raise _fail(clause, expr.span, f"{what} takes a whole number from 1 to {most}, not {expr.span.of(clause.text)}")
    return int(value)


def _check_measures(clause: MatchClause) -> None:
    assert clause.approx is not None
    for call in (n for m in clause.measures for n in m.expr.walk() if n.op == "call"):
        if call.value == "MATCH_COUNT" and clause.approx.budget is not None:
            raise clause.error(call.span, "MATCH_COUNT", "MATCH_COUNT() would miss matches that a BUDGET leaves out. Leave out one of the two")


def _amount(clause: MatchClause, budget: tree.Budget) -> int:
    """The checks of a row, or the nanoseconds of an interval."""
    text = budget.amount.span.of(clause.text)
    if budget.per is None:
        if any(node.op == "interval" for node in budget.amount.walk()):
            raise _fail(clause, budget.amount.span, f"CHECKS are a number, and {text} is a time. Write BUDGET {text} PER ROW, or BUDGET 5 CHECKS")
        return _whole(clause, budget.amount, "BUDGET", MAX_CHECKS)
    try:
        found = constant(budget.amount, clause.text, clause.parameters)
    except ClauseError as error:
        if error.error_class != "SPARKCEP.WINDOW_SIZE":
            raise
        raise _fail(clause, budget.amount.span, f"BUDGET takes a constant interval of days and smaller units, not {text}") from None
    if found is None and (unknown := unknown_parameter(budget.amount, clause.parameters)) is not None:
        raise no_value(budget.amount, clause.text, unknown)
    if found is None or not found.is_time:
        hint = f"{text} CHECKS, or " if found is not None else ""
        raise _fail(clause, budget.amount.span, f"BUDGET ... PER {budget.per} takes an interval, not {text}. Write {hint}INTERVAL '300' MICROSECONDS PER {budget.per}")
    nanos = found.value * 1000
    if not 1000 <= nanos <= MAX_BUDGET_NANOS:
        raise _fail(clause, budget.amount.span, f"BUDGET takes an interval from 1 microsecond to {MAX_BUDGET_NANOS // 86_400_000_000_000} days, not {text}")
    return int(nanos)


def budget_of(clause: MatchClause, settings: Settings) -> Budget | None:
    """The record of a checked clause's BUDGET. ``settings``: have the clock of an interval."""
    assert clause.approx is not None
    budget = clause.approx.budget
    if budget is None:
        return None
    used, sketch, refill, amount = budget.history, (), None, _amount(clause, budget)
    if used is not None:
        sketch = tuple(_whole(clause, size, "SKETCH", MAX_CELLS) for size in used.sketch)
        refill = _refill(clause, used)
    place = position(clause.text, budget.span.start)
    pace = None if budget.per is None else Pace(amount, budget.per, *settings.budget_clock)
    return Budget(
        amount if pace is None else 0, pace, refill, HISTORY_COLUMN if used is not None else "", used is not None and used.published, sketch, budget.explore,
        *place, budget.span.of(clause.text)[:40],
    )  # fmt: skip


def _refill(clause: MatchClause, used: tree.HistoryTable) -> int | None:
    """The bundles after which a history is replaced, 0 for as many as it has, None for never."""
    if not used.refill:
        return None
    return 0 if used.bundles is None else _whole(clause, used.bundles, "REFILL", MAX_BUNDLES)


def history_of(clause: MatchClause) -> History | None:
    """The identity of the history that a checked clause records or uses. None if it does neither."""
    approx = clause.approx
    assert approx is not None
    learned, used = approx.report == HISTORY, approx.budget is not None and approx.budget.history is not None
    if not learned and not used:
        return None
    runs = (approx.runs or costs.PROXY) if learned else costs.ALL if costs.report(clause) == costs.ALL else costs.PROXY
    intervals = _whole(clause, approx.intervals, "INTERVALS", MAX_INTERVALS) if approx.intervals is not None else INTERVALS
    return History(runs, intervals, tuple(_parts(clause)))


def history_leaves(timed: str) -> tuple[OfHistory, ...]:
    """The leaves of MATCH HISTORY. ``timed``: the column of the match points, "" for positions."""
    kinds = ("place", "so_far", "remaining", "idle", "visits", "points", "starts")
    return tuple(OfHistory(f"history_{kind}", timed if kind == "starts" else "") for kind in kinds)


def history_text(table: str, published: bool) -> str:
    """A scalar subquery that returns all rows of a history.

    A missing column is an error that names it, and never resolves to a column of the rows around the subquery. The ``published``
    order needs no match points.
    """
    columns = ", ".join(f"'{name}', CAST(history.{name} AS {kind})" for name, kind in COLUMNS.items() if name != "points" or not published)
    return f"(SELECT collect_list(named_struct({columns})) FROM {table} AS history)"


def fingerprint(history: History) -> str:
    """The value of the column ``pattern`` of a history."""
    return " ".join(f"{part.name}={part.digest}" for part in history.parts) + f" RUNS={history.runs} INTERVALS={history.intervals}"


def _parts(clause: MatchClause) -> list[Part]:
    """The parts of a clause that a history depends on, each as a digest of its words."""
    approx = clause.approx
    assert approx is not None and clause.window is not None
    defines = sorted((d.variable.lower(), _words(d.condition.span.of(clause.text))) for d in clause.defines)
    subsets = sorted((s.name.lower(), _words(s.span.of(clause.text))) for s in clause.subsets)
    weights = sorted((name.lower(), str(number(weight, clause.text, clause.parameters))) for name, weight in approx.weights)
    size = clause.window.size
    window = _words(size.span.of(clause.text)) if is_literal(size, clause.text) else " ".join(window_size(clause, size, clause.window.rows))
    window += f" {ROWS}" if clause.window.rows else ""
    texts = {
        "PATTERN": _words(clause.pattern.span.of(clause.text)), "DEFINE": repr((defines, subsets)), "WINDOW": window,
        "APPROX": str(number(approx.k, clause.text, clause.parameters)), "WEIGHTS": repr(weights),
    }
    if clause.selection is not None and clause.selection.strategy == "NEXT":
        texts["SELECTION"] = clause.selection.strategy
    return [Part(name, hashlib.sha256(text.encode()).hexdigest()[:12]) for name, text in texts.items()]


def _words(text: str) -> str:
    """A text with single blanks between its words, without the numbers of ``?``, and with names in lower case.

    Strings keep their case, even with a prefix.
    """
    return " ".join(t.text if t.text[-1:] in ("'", '"', "`") else t.text.lower() for t in tokenize(MARKER.sub("?", text))).strip()


def _fail(clause: MatchClause, span: Span, message: str) -> ClauseError:
    return clause.error(span, "BUDGET", message)
