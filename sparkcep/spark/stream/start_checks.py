"""Checks a clause over a stream before its query starts: the clause, the nodes around it, the output mode and the trigger.

``spark/session/rewrite_service`` calls the checks for the JVM operator, and ``stream/frames`` for programs of DataFrames.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sparkcep.compiler.output_watermark import Passed, passed
from sparkcep.compiler.stream_rules import check_stream, check_table, place_of, warnings
from sparkcep.errors import SEMANTIC, UNSUPPORTED, ClauseError
from sparkcep.plan.extend.budget import not_repeatable
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import LeafPlace, Place

log = logging.getLogger("sparkcep")

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
ENCODING, UNSAFE_ROW = "spark.sql.streaming.stateStore.encodingFormat", "unsaferow"


def check_over_stream(asked: dict[str, Any]) -> None:
    """Raises ClauseError for a clause that cannot run over a stream.

    ``asked`` has these items:

    - ``plan``: the clause's plan as JSON.
    - ``on``: whether Spark may run the engine with its own operator.
    - ``known``: whether sparkcep knows the stateful operators of this Spark.
    - ``types``: the types of the ORDER BY expressions; ``time``: the type of the first.
    - ``marked``: whether the first is a watermark column; ``watermarks``: the watermark columns.
    - ``unmarked``: whether a branch of a UNION ALL below has another value in its place.
    - ``provider``: the provider of state stores, None if any works; ``encoding``: their encoding, in lower case.
    - ``stateful``: stateful nodes below the clause that it cannot be above.
    - ``unbounded``: the kinds of joins of streams below the clause that do not bound their rows' times.
    - ``below``: the plans of the clauses whose output it reads.
    - ``late``: the table of late rows, if any.
    - ``streamed``: the tables read in addition to the rows that are streams themselves.
    """
    plan = Plan.from_json(asked["plan"])
    check_stream(plan)
    for name in asked.get("streamed", ()):
        message = f"{TABLES[name]} is a stream, but it must be a table, which is read at each micro-batch. Write the stream to a table, and name the table"
        raise wrong(plan if plan.arcs is None else replace(plan, place=Place(plan.arcs.line, plan.arcs.column, plan.arcs.text)), message, UNSUPPORTED)
    first, ordered = plan.order[0].name, place_of(plan, plan.order[0].column)
    if not asked["watermarks"] and not asked["marked"]:  # a watermark in a WITH is not below the clause
        raise wrong(
            plan, f'a clause over a stream needs a watermark on {first}, which says when its rows are complete. Write frame.withWatermark("{first}", "5 seconds"), or in SQL '
            f"FROM STREAM t WATERMARK {first} DELAY OF INTERVAL 5 SECONDS", at=ordered,
        )
    if not asked["marked"] and asked.get("below"):
        raise wrong(plan, _unmarked(first, [passed(Plan.from_json(below)) for below in asked["below"]]), SEMANTIC, ordered)
    if not asked["marked"]:
        columns = ", ".join(asked["watermarks"])
        here = f"here a column named {first} is computed below the clause. Give the computed column another name, and order by {first} itself"
        here = here if first in asked["watermarks"] and plan.order[0].plain else f"here it is {first}"
        raise wrong(plan, f"over a stream the first ORDER BY expression must be the watermark column {columns}, unchanged; {here}", at=ordered)
    if asked.get("unmarked"):
        _refuse_unmarked(asked)
    if not asked["time"].startswith("timestamp"):
        raise wrong(plan, f"over a stream the first ORDER BY expression must be a timestamp; {first} is of type {asked['time']}", at=ordered)
    for item, kind in zip(plan.order, asked["types"], strict=True):
        nested = kind.startswith(("struct", "array"))
        if nested or " collate " in kind:
            instead = "Order by its fields or elements" if nested else f"Order by lower({item.name}), or {item.name} COLLATE UTF8_BINARY"
            raise wrong(plan, f"a stream cannot be ordered by {item.name} of type {kind}. {instead}", UNSUPPORTED, place_of(plan, item.column))
    if asked.get("unbounded"):
        raise wrong(plan, _UNBOUNDED.format(asked["unbounded"][0]))
    if asked["stateful"]:
        raise wrong(plan, _CHAINED.format(f"another stateful operator below it ({asked['stateful'][0]})"), UNSUPPORTED)
    if not asked["on"]:
        raise wrong(plan, "sparkcep.mapInArrow is false, but the operator of a clause over a stream needs it. Set it to true", UNSUPPORTED)
    if not asked["known"]:
        raise wrong(plan, "sparkcep does not support the stateful operators of this Spark version. Use Spark 4.1 to 4.3 for a clause over a stream", UNSUPPORTED)
    if asked["provider"] is not None and "RocksDB" not in asked["provider"]:
        raise wrong(plan, f"a clause over a stream keeps its state in RocksDB. Set {PROVIDER} to {ROCKSDB}", at=place_of(plan))
    if asked.get("encoding", UNSAFE_ROW) != UNSAFE_ROW:
        raise wrong(plan, f"{ENCODING} is {asked['encoding']}, but a clause over a stream writes its state as {UNSAFE_ROW}. Set it to {UNSAFE_ROW}", UNSUPPORTED, place_of(plan))
    if asked.get("late"):
        _check_late(plan, asked["late"])
    for warning in warnings(plan):
        log.warning("over a stream: %s", warning)


def _refuse_unmarked(asked: dict[str, Any]) -> None:
    """Raises ClauseError: the first ORDER BY expression is the watermark column in the first branch of a UNION ALL only."""
    plan = Plan.from_json(asked["plan"])
    first = plan.order[0].name
    raise wrong(
        plan, f"over a stream the first ORDER BY expression must be the watermark column, unchanged, in each branch of UNION ALL; one branch has another value as {first}. "
        f"Select the watermark column as {first} in each branch, or define the watermark above UNION ALL", at=place_of(plan, plan.order[0].column),
    )


ARCS, HISTORY = "arcs", "history"  # as StreamTables.java names them
TABLES = {ARCS: "the table of ARCS FROM", HISTORY: "the table of USING HISTORY"}


def _check_late(plan: Plan, late: dict[str, Any]) -> None:
    """Raises ClauseError if late rows cannot be appended to the table ``late``, as LateRows.java describes it."""
    rows, clause, what = late["rows"], place_of(plan), f"sparkcep.stream.lateRows is {late['table']!r}"
    they = f"the clause's rows have {', '.join(f'{name} {kind.upper()}' for name, kind in rows)}"
    if not late["kind"]:
        raise wrong(plan, f"{what}, but this table does not exist. Create it with some or all of the columns of late rows: {they}", at=clause)
    if not late["columns"]:
        raise wrong(plan, f"{what}, which is a view. Name a table, because late rows are appended to it", at=clause)
    for name, kind in late["columns"]:
        found = [other for own, other in rows if own == name or (not late["cased"] and own.lower() == name.lower())]
        if not found:
            raise wrong(plan, f"{what}, but late rows do not have its column {name}: {they}. Leave the column out of the table", at=clause)
        if len(found) > 1:
            raise wrong(plan, f"{what}, but late rows have its column {name} twice: {they}. Rename one of the two in a subquery", at=clause)
        if found[0] != kind:
            raise wrong(plan, f"{what}, whose column {name} is of type {kind.upper()}, but in late rows it is of type {found[0].upper()}. Change the type in the table", at=clause)


_UNBOUNDED = (
    "the stream join below the clause ({}) does not limit how far apart the times of joined rows are, so its rows can arrive at any time. Bound the watermark columns of both sides in both "
    "directions, as in ON ... AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 10 SECONDS, or l.ts = r.ts, in an INNER, LEFT or RIGHT join"
)
_CHAINED = "a clause over a stream does not stream yet together with {}. Write the output of that operator to a table, and read the table as a stream"
_READ = "Write the output of that clause to a table, and read the table as a stream"


def _unmarked(first: str, below: list[Passed]) -> str:
    """Says why a clause over the output of others cannot be ordered by ``first``, which is not a watermark column there."""
    why = next((one.why for one in below if one.behind is None), "")
    if why:
        return f"over a stream the first ORDER BY expression must be a watermark column, but the output of the clause below lacks a watermark: {why}. {_READ}, or change that clause"
    names = list(dict.fromkeys(one.name for one in below if one.name))
    if not names:
        return (
            f"over a stream the first ORDER BY expression must be a watermark column; here it is {first}, from a clause that does not return one. Add FIRST or LAST "
            "of the first ORDER BY column of that clause to its measures, and order by the measure"
        )
    return f"over a clause's output the first ORDER BY expression must be its watermark column {', '.join(names)}, unchanged; here it is {first}"


def _check_chained(asked: dict[str, Any]) -> None:
    """Raises ClauseError for a clause that cannot be below the stateful node ``above``.

    ``several``: whether each operator of a query has its own watermark. ``timed``: whether the input of ``above`` has a watermark
    column.
    """
    plan, above = Plan.from_json(asked["plan"]), asked["above"]
    given = passed(plan)
    if above == "EventTimeWatermark":
        instead = f"Leave it out: {given.name} already has one" if given.name else _READ
        raise wrong(plan, f"withWatermark over a clause's output would change the watermark of its rows. {instead}", UNSUPPORTED)
    if not asked["several"]:
        raise wrong(
            plan, f"a stateful operator ({above}) is above the clause, but spark.sql.streaming.statefulOperator.allowMultiple is false, so all operators share one watermark. Set it to true", UNSUPPORTED
        )
    if given.behind is None and asked["timed"]:
        raise wrong(plan, f"an operator that needs a watermark ({above}) is above the clause, whose output lacks one: {given.why}. {_READ}", UNSUPPORTED)


def _check_started(asked: dict[str, Any]) -> None:
    """Raises ClauseError for an output ``mode``, or a ``trigger`` (its class), that does not fit a clause.

    ``asked`` also has these items:

    - ``aggregated``: whether Spark aggregates the output of all clauses of the query.
    - ``over``: a stateful Spark node below a clause, or "".
    - ``untimed``: an aggregate above a clause without a watermark column among its keys, or "".
    - ``refused``: Spark's objection to the query, or "".
    """
    plan = Plan.from_json(asked["plan"])
    if asked["mode"] == "Complete" and not asked["aggregated"]:
        raise wrong(
            plan, 'output mode complete returns the whole result after each micro-batch, but a match over a stream is emitted only once, when it is final. Write outputMode("append")'
        )
    if asked["mode"] != "Append" and asked["over"]:
        raise wrong(plan, f"a clause over a stateful operator ({asked['over']}) reads only final rows. Write outputMode(\"append\")", UNSUPPORTED)
    if asked["mode"] == "Append" and asked["untimed"]:
        given = passed(plan)
        group = "have {} among its columns" if asked["untimed"] in _OF_ALL_COLUMNS else "group by a window of {}"
        instead = group.format(given.name) if given.name else f"the clause's output lacks a watermark: {given.why}" if given.why else (
            "add FIRST or LAST of the first ORDER BY column to the measures of the clause"
        )
        raise wrong(plan, f'in output mode append an aggregate ({asked["untimed"]}) is emitted when a watermark passes its column; {instead}, or write outputMode("update")', SEMANTIC)
    if asked["trigger"] in _UNBATCHED:
        raise wrong(plan, f"a clause over a stream needs micro-batches, and {_UNBATCHED[asked['trigger']]} does not make them. Write trigger(processingTime=\"1 second\")")
    if asked["refused"]:
        raise wrong(plan, not_started(asked["refused"]), UNSUPPORTED)


def not_started(message: str) -> str:
    """Says why Spark does not start a query: the ``message`` of Spark's error without the plan that it shows."""
    shown = PLAN_SHOWN.search(message)
    said = (message[: shown.start()] if shown else message).partition("\n")[0].partition(" SQLSTATE:")[0].rstrip(" .;")
    return f"Spark does not start the query: {said}; {_APPEND if 'mode' in said.partition('Sorting')[0] else INSTEAD}"


PLAN_SHOWN = re.compile(r";\n[~!']*\w|\n\s*[:+]- ")  # the beginning of a plan in a message
INSTEAD = "write the clause's output to a table, and read the table as a stream"
_APPEND = 'a match over a stream is emitted once, when it is final; write outputMode("append")'
_OF_ALL_COLUMNS = ("Distinct", "Except")
_UNBATCHED = {"ContinuousTrigger": "trigger(continuous=...)", "RealTimeTrigger": "trigger(realTime=...)"}


def wrong(plan: Plan, message: str, sqlstate: str = SEMANTIC, at: LeafPlace | None = None) -> ClauseError:
    """Returns an error of a clause over a stream, at a position in the clause, or at its pattern."""
    found = (at.line, at.column, at.text) if at is not None else plan.place
    place = dict(zip(("line", "column", "fragment"), found)) if found else {}
    return ClauseError("STREAM", message, sqlstate=sqlstate, **place)


def _refuse_aggregate(asked: dict[str, Any]) -> None:
    """Raises ClauseError for an aggregate that cannot be computed in the row of a match.

    ``function`` names the aggregate; "" means that its argument is random.
    """
    message = f"{asked['function']} is computed by Python over groups of rows, which would need their own state over a stream. Return the values with array_agg, and call a function of the array above the clause"
    if not asked["function"]:
        message = "an aggregate over a stream is computed in the row of its match, which does not contain a random value of its argument (rand(), uuid()). Compute the value in a subquery below the clause"
    raise wrong(Plan.from_json(asked["plan"]), message, UNSUPPORTED)


def _check_unordered(asked: dict[str, Any]) -> None:
    check_table(Plan.from_json(asked["plan"]))


def _refuse_repeated(asked: dict[str, Any]) -> None:
    raise not_repeatable(Plan.from_json(asked["plan"]).approximate.budget, asked["where"])


CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "stream": check_over_stream, "table": _check_unordered, "chained": _check_chained, "started": _check_started,
    "aggregated": _refuse_aggregate, "repeated": _refuse_repeated, "unmarked": _refuse_unmarked,
}
