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
        message = f"{TABLES[name]} is a stream itself, and beside a stream is read as a table at each micro-batch; write that stream to a table, and name this"
        raise wrong(plan if plan.arcs is None else replace(plan, place=Place(plan.arcs.line, plan.arcs.column, plan.arcs.text)), message, UNSUPPORTED)
    first, ordered = plan.order[0].name, place_of(plan, plan.order[0].column)
    if not asked["watermarks"] and not asked["marked"]:  # a watermark in a WITH is not below the clause
        raise wrong(
            plan, f'a clause over a stream needs a watermark on {first}, which says when its rows are all there: frame.withWatermark("{first}", "5 seconds"), or in SQL '
            f"FROM STREAM t WATERMARK {first} DELAY OF INTERVAL 5 SECONDS", at=ordered,
        )
    if not asked["marked"] and asked.get("below"):
        raise wrong(plan, _unmarked(first, [passed(Plan.from_json(below)) for below in asked["below"]]), SEMANTIC, ordered)
    if not asked["marked"]:
        columns = ", ".join(asked["watermarks"])
        here = f"here {first} is computed below the clause, under the same name; give what is computed another name, and order by {first} itself"
        here = here if first in asked["watermarks"] and plan.order[0].plain else f"here it is {first}"
        raise wrong(plan, f"the first ORDER BY expression over a stream is the column of its watermark, {columns}, as it is; {here}", at=ordered)
    if not asked["time"].startswith("timestamp"):
        raise wrong(plan, f"the first ORDER BY expression over a stream is a timestamp; {first} is of type {asked['time']}", at=ordered)
    for item, kind in zip(plan.order, asked["types"], strict=True):
        nested = kind.startswith(("struct", "array"))
        if nested or " collate " in kind:
            instead = "order by its parts" if nested else f"take lower({item.name}), or {item.name} COLLATE UTF8_BINARY"
            raise wrong(plan, f"rows of a stream are not sorted by {item.name}, of type {kind}; {instead}", UNSUPPORTED, place_of(plan, item.column))
    if asked.get("unbounded"):
        raise wrong(plan, _UNBOUNDED.format(asked["unbounded"][0]))
    if asked["stateful"]:
        raise wrong(plan, _CHAINED.format(f"what keeps a state itself ({asked['stateful'][0]})"), UNSUPPORTED)
    if not asked["on"]:
        raise wrong(plan, "sparkcep.mapInArrow is false, without which a clause over a stream has no operator; set it to true", UNSUPPORTED)
    if not asked["known"]:
        raise wrong(plan, "this Spark's stateful operators are none that sparkcep knows: a clause over a stream runs with Spark 4.1 to 4.3", UNSUPPORTED)
    if asked["provider"] is not None and "RocksDB" not in asked["provider"]:
        raise wrong(plan, f"a clause over a stream keeps its state in RocksDB; set {PROVIDER} to {ROCKSDB}", at=place_of(plan))
    if asked.get("encoding", UNSAFE_ROW) != UNSAFE_ROW:
        raise wrong(plan, f"{ENCODING} is {asked['encoding']}, and the state of a clause over a stream is written as {UNSAFE_ROW}; set it to {UNSAFE_ROW}", UNSUPPORTED, place_of(plan))
    if asked.get("late"):
        _check_late(plan, asked["late"])
    for warning in warnings(plan):
        log.warning("over a stream: %s", warning)


ARCS, HISTORY = "arcs", "history"  # as StreamTables.java names them
TABLES = {ARCS: "the table of ARCS FROM", HISTORY: "the table of USING HISTORY"}


def _check_late(plan: Plan, late: dict[str, Any]) -> None:
    """Raises ClauseError if late rows cannot be appended to the table ``late``, as LateRows.java describes it."""
    rows, clause, what = late["rows"], place_of(plan), f"sparkcep.stream.lateRows is {late['table']!r}"
    they = f"the clause's rows have {', '.join(f'{name} {kind.upper()}' for name, kind in rows)}"
    if not late["kind"]:
        raise wrong(plan, f"{what}, and there is no such table; make one first with some or all of the columns that late rows have: {they}", at=clause)
    if not late["columns"]:
        raise wrong(plan, f"{what}, which is a view; late rows are appended to a table", at=clause)
    for name, kind in late["columns"]:
        found = [other for own, other in rows if own == name or (not late["cased"] and own.lower() == name.lower())]
        if not found:
            raise wrong(plan, f"{what}, whose column {name} late rows do not have: {they}; leave it out of the table", at=clause)
        if len(found) > 1:
            raise wrong(plan, f"{what}, whose column {name} late rows have twice: {they}; name the columns apart in a subquery", at=clause)
        if found[0] != kind:
            raise wrong(plan, f"{what}, whose column {name} is of type {kind.upper()}, and late rows have it as {found[0].upper()}; make the table's column of that type", at=clause)


_UNBOUNDED = (
    "the join of streams below the clause ({}) does not say how far apart the times of rows may be that it joins, so that a row of it may come at any time; bound the columns of both watermarks, one on "
    "each side, both ways, as ON ... AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 10 SECONDS, or l.ts = r.ts, in a join that is INNER, LEFT or RIGHT"
)
_CHAINED = "a clause over a stream does not stream yet together with {}; write the clause's output to a table, and read that as a stream"
_READ = "write that clause's output to a table, and read that as a stream"


def _unmarked(first: str, below: list[Passed]) -> str:
    """Says why a clause over the output of others cannot be ordered by ``first``, which is not a watermark column there."""
    why = next((one.why for one in below if one.behind is None), "")
    if why:
        return f"the first ORDER BY expression over a stream is the column of a watermark, and the output of the clause below has none, as {why}; {_READ}, or change that clause"
    names = list(dict.fromkeys(one.name for one in below if one.name))
    if not names:
        return (
            f"the first ORDER BY expression over a stream is the column of a watermark; here it is {first}, of the output of a clause that tells none: give that clause FIRST or LAST "
            "of its first ORDER BY column as a measure of its own, and order by it"
        )
    return f"the first ORDER BY expression over a clause's output is the column that has its watermark, {', '.join(names)}, as it is; here it is {first}"


def _check_chained(asked: dict[str, Any]) -> None:
    """Raises ClauseError for a clause that cannot be below the stateful node ``above``.

    ``several``: whether each operator of a query has its own watermark. ``timed``: whether the input of ``above`` has a watermark
    column.
    """
    plan, above = Plan.from_json(asked["plan"]), asked["above"]
    given = passed(plan)
    if above == "EventTimeWatermark":
        instead = f"leave it out: {given.name} has one already" if given.name else _READ
        raise wrong(plan, f"withWatermark over a clause's output would move the watermark of its rows; {instead}", UNSUPPORTED)
    if not asked["several"]:
        raise wrong(
            plan, f"what keeps a state ({above}) stands above the clause, and spark.sql.streaming.statefulOperator.allowMultiple is false, by which all have one watermark; set it to true", UNSUPPORTED
        )
    if given.behind is None and asked["timed"]:
        raise wrong(plan, f"what lets its state go by a watermark ({above}) stands above the clause, whose output has none, as {given.why}; {_READ}", UNSUPPORTED)


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
            plan, 'output mode complete gives the whole answer after each micro-batch, and matches over a stream are told once, when they are decided; write outputMode("append")'
        )
    if asked["mode"] != "Append" and asked["over"]:
        raise wrong(plan, f"a clause over what keeps a state ({asked['over']}) reads rows that do not change any more; write outputMode(\"append\")", UNSUPPORTED)
    if asked["mode"] == "Append" and asked["untimed"]:
        given = passed(plan)
        group = "have {} among its columns" if asked["untimed"] in _OF_ALL_COLUMNS else "group by a window of {}"
        instead = group.format(given.name) if given.name else f"the clause's output has none, as {given.why}" if given.why else (
            "the clause tells none: give it FIRST or LAST of its first ORDER BY column as a measure of its own"
        )
        raise wrong(plan, f'in output mode append what is aggregated ({asked["untimed"]}) is told when a watermark has passed its column; {instead}; or write outputMode("update")', SEMANTIC)
    if asked["trigger"] in _UNBATCHED:
        raise wrong(plan, f"a clause over a stream is answered by micro-batches, which {_UNBATCHED[asked['trigger']]} does not make; write trigger(processingTime=\"1 second\")")
    if asked["refused"]:
        raise wrong(plan, not_started(asked["refused"]), UNSUPPORTED)


def not_started(message: str) -> str:
    """Says why Spark does not start a query: the ``message`` of Spark's error without the plan that it shows."""
    shown = PLAN_SHOWN.search(message)
    said = (message[: shown.start()] if shown else message).partition("\n")[0].partition(" SQLSTATE:")[0].rstrip(" .;")
    return f"Spark does not start the query: {said}; {_APPEND if 'mode' in said.partition('Sorting')[0] else INSTEAD}"


PLAN_SHOWN = re.compile(r";\n[~!']*\w|\n\s*[:+]- ")  # the beginning of a plan in a message
INSTEAD = "write the clause's output to a table, and read that as a stream"
_APPEND = 'matches over a stream are told once, when they are decided; write outputMode("append")'
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
    message = f"{asked['function']} is computed by Python over groups of rows, and over a stream these would be a state of their own; give the values as array_agg, and call a function of the array above the clause"
    if not asked["function"]:
        message = "an aggregate over a stream is computed in the row of its match, and a random value in its argument (rand(), uuid()) is not there; make it a column in a subquery below the clause"
    raise wrong(Plan.from_json(asked["plan"]), message, UNSUPPORTED)


def _check_unordered(asked: dict[str, Any]) -> None:
    check_table(Plan.from_json(asked["plan"]))


CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "stream": check_over_stream, "table": _check_unordered, "chained": _check_chained, "started": _check_started,
    "aggregated": _refuse_aggregate,
}
