"""Writes a page about a streaming query that is running or has ended: ``report(query)``."""

from __future__ import annotations

import base64
import contextlib
import functools
import io
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

from sparkcep.draw.explain import explained
from sparkcep.draw.page import page
from sparkcep.draw.progress import Figure, progress_picture
from sparkcep.errors import ClauseError
from sparkcep.plan.plan import Plan
from sparkcep.spark.configured import settings_of
from sparkcep.spark.exec.physical_plan import nodes, without_plans
from sparkcep.spark.exec.table_function import arrow_schema
from sparkcep.spark.report.bucket_report import checkpoint_of, under_way
from sparkcep.spark.stream.command import ran_of
from sparkcep.spark.stream.micro_batch import stream_of
from sparkcep.spark.stream.progress import figures
from sparkcep.sql.explain.describe import NO_CLAUSE
from sparkcep.sql.rewrite.rewrite import rewrite_all
from sparkcep.version import __version__

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

OLDEST = 10  # keys with matches in progress that are shown
BATCHES = 50  # micro-batches in the table
_IDLE = "Spark remembers only idle triggers of this query. The metrics of its micro-batches are missing."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FOUND = "clause INT, key ARRAY<STRING>, since BIGINT, rows BIGINT, pending BIGINT, bytes BIGINT"
_NOW = (("keys with saved state", "openKeys"), ("retained rows that the watermark has passed", "keptRows"), ("rows waiting for the watermark", "pendingRows"),
        ("bytes of the state", "stateBytes"))
_COLUMNS = ("micro-batch", "began", "rows in", "matches", "late rows", "without time", "keys searched", "open keys", "rows kept", "rows waiting", "bytes of state",
            "ms of the engine", "ms of the micro-batch", "watermark")


def stream_report(query: StreamingQuery) -> str:
    """Returns the page of a query: its present state, and the metrics of its last micro-batches."""
    return _Report(query).page()


@dataclass
class _Report:
    """The report of a streaming query. ``jobs`` and ``notes`` are as in the report of a query over tables."""

    query: Any
    jobs: list[tuple[str, str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def page(self) -> str:
        ran = ran_of(self.query)
        execution = self._execution()
        spark = SparkSession.active() if execution is not None else self.query._session
        redact = settings_of(spark).redaction
        physical = redact(self._physical(execution))
        failure = self.query.exception()
        if not ran:
            last = self.query.lastProgress  # an idle trigger has the number of the next micro-batch
            self.notes.append(_IDLE if last is not None and last["batchId"] > 0 else "No micro-batch is complete yet.")
        if ran and not any(map(figures, ran)):
            self.notes.append("This query does not contain a clause over a stream.")
        table = [_row(progress) for progress in ran]
        return page(
            "stream_report.html", statements=self._statements(execution, spark), no_clause=NO_CLAUSE, failure=redact(str(failure)) if failure else "",
            counts=self._counts(ran), oldest=self._oldest(execution, spark, ran, physical), batches=(list(_COLUMNS), table[::-1][:BATCHES]), picture=_picture(ran),
            physical=physical, jobs=self.jobs, notes=self.notes, versions=f"sparkcep {__version__}, Spark {spark.version}",
        )

    def _execution(self) -> Any:
        """Returns Spark's own object of the query; None over Spark Connect."""
        query = getattr(self.query, "_jsq", None)
        if query is None:
            self.notes.append("The statement is not known over Spark Connect.")
            return None
        return query.streamingQuery() if query.getClass().getSimpleName() == "StreamingQueryWrapper" else query

    def _statements(self, execution: Any, spark: SparkSession) -> list[dict[str, object]]:
        """Returns the statements that contain the clauses, as their users wrote them."""
        if execution is None:
            return []
        out = []
        for sql in dict.fromkeys(_texts(execution.logicalPlan())):
            try:
                settings = settings_of(spark)
                out.append(explained(sql, *rewrite_all(sql, settings), settings.redaction))
            except ClauseError as error:  # for example, a view that was created under other settings
                self.notes.append(f"A statement is not drawn: {error}")
        return out

    def _physical(self, execution: Any) -> str:
        if execution is None:
            with contextlib.redirect_stdout(io.StringIO()) as printed:  # Spark Connect only prints it
                self.query.explain()
            return without_plans(printed.getvalue().strip())
        last = execution.lastExecution()
        return without_plans(last.executedPlan().toString()) if last is not None else ""

    def _counts(self, ran: list[Any]) -> list[tuple[str, object]]:
        state = "runs" if self.query.isActive else "failed" if self.query.exception() else "ended"
        found: list[tuple[str, object]] = [("query", self.query.name or str(self.query.id)), ("state", f"{state}: {self.query.status['message']}")]
        if ran:
            found += [("recent micro-batches", len(ran)), ("rows in, in these", sum(p.numInputRows for p in ran))]
            found += [(f"{name}, in these", sum(_sum(p, figure) for p in ran)) for name, figure in (("matches", "matches"), ("rows whose time is NULL", "rowsWithoutTime"))]
            found += [("late rows, in these", sum(_sum(p, "lateRows") for p in ran)), ("last micro-batch", ran[-1]["batchId"])]
            found += [(name, _sum(ran[-1], figure)) for name, figure in _NOW]
        return [*found, ("watermark", self._watermark(ran) or "none yet")]

    def _watermark(self, ran: list[Any]) -> str | None:
        """Returns the watermark of the last micro-batch, or of the last idle trigger if Spark remembers no micro-batch."""
        last = ran[-1] if ran else self.query.lastProgress
        return last["eventTime"].get("watermark") if last is not None else None

    # -- matches in progress ------------------------------------------------------------------------------------------

    def _oldest(self, execution: Any, spark: SparkSession, ran: list[Any], physical: str) -> tuple[list[str], list[tuple]] | None:
        """Returns the keys whose match has been in progress longest. Reads all states."""
        if (checkpoint := checkpoint_of(physical)) is not None:
            return self._oldest_of_buckets(spark, ran, checkpoint)
        if execution is None:
            self.notes.append("The matches in progress are not known over Spark Connect, unless the clause runs as a DataFrame program.")
            return None
        last = execution.lastExecution()
        operators = [node for _, node in nodes(last.executedPlan()) if node.getClass().getSimpleName() == "MatchStateExec"] if last is not None else []
        if not operators:
            return None
        frames = []
        for number, operator in enumerate(operators, 1):
            version = operator.keptVersion()
            if version < 0:
                self.notes.append("The matches in progress are not known: the query's checkpoint lacks a committed state, or Spark does not number its versions.")
                return None
            frames.append(_found(DataFrame(operator.keptStates(version), spark), number, *operator.keptReader()))
        rows = self._read(functools.reduce(DataFrame.union, frames).orderBy("since", "key", "clause"), f"as micro-batch {version - 1} left them, read once")
        return self._waiting(rows, ran, several=len(operators) > 1)

    def _oldest_of_buckets(self, spark: SparkSession, ran: list[Any], checkpoint: str) -> tuple[list[str], list[tuple]] | None:
        """Returns these keys for a clause that runs as a program of DataFrames."""
        try:
            found = under_way(spark, checkpoint, OLDEST)
            rows = None if found is None else self._read(found.orderBy("since", "key"), "as the last micro-batch left them, read once")
        except PySparkException as error:
            self.notes.append(f"The matches in progress are not known, because the states in {checkpoint} cannot be read: {str(error).splitlines()[0]}")
            return None
        return self._waiting(rows or [], ran, several=False)

    def _read(self, found: DataFrame, how: str) -> list[Row]:
        """Returns the first keys of ``found``."""
        began = time.perf_counter()
        rows = found.limit(OLDEST).collect()
        self.jobs.append((f"the states of all keys, {how} from the checkpoint", f"{time.perf_counter() - began:.2f}", "only for this report"))
        return rows

    def _waiting(self, rows: list[Row], ran: list[Any], *, several: bool) -> tuple[list[str], list[tuple]] | None:
        """Returns the table of the given keys. ``several``: whether to name the clause of each key."""
        if not rows:
            self.notes.append("No match is in progress.")
            return None
        if any(row.since is None for row in rows):
            self.notes.append("The start of a match in progress is not known, because a clause without WINDOW INTERVAL and without a time among its measures does not save it.")
        names = [*(["clause"] if several else []), "key", "first row at", "age at the watermark", "rows kept of the key", "rows waiting", "bytes of its state"]
        until = self._watermark(ran)
        return names, [(*([row.clause] if several else []), ", ".join("NULL" if k is None else k for k in row.key) or "all rows",
                        *_since(row.since, until), row.rows, row.pending, row.bytes) for row in rows]


def _since(since: int | None, watermark: str | None) -> tuple[str | None, str | None]:
    """Returns a time in microseconds as text, and how long before the watermark it is."""
    if since is None:
        return None, None
    at = _EPOCH + timedelta(microseconds=since)
    behind = datetime.fromisoformat(watermark.replace("Z", "+00:00")) - at if watermark else None
    return at.strftime("%Y-%m-%d %H:%M:%S.%f") + " UTC", None if behind is None else str(behind)


def _texts(node: Any) -> Iterator[str]:
    """Yields the texts of the statements whose clauses are in a logical plan."""
    if node.getClass().getSimpleName() == "StreamInput" and node.origin().sqlText().isDefined():
        yield node.origin().sqlText().get()
    for i in range(node.children().size()):
        yield from _texts(node.children().apply(i))


def _found(states: DataFrame, clause: int, command: str, schema: str) -> DataFrame:
    """Returns the keys whose match has been in progress longest, from each partition of the states."""
    plan, columns, sent, ordered, _ = CloudPickleSerializer().loads(base64.b64decode(command))[0].args
    rows, states = arrow_schema(StructType.fromJson(json.loads(schema))), states.select("key", "state")
    if not Plan.from_json(plan).partition:
        states = states.selectExpr("CAST(array() AS ARRAY<STRING>) AS key", "state")  # all rows have one key
    return states.mapInArrow(functools.partial(_oldest_of, clause, plan, columns, sent, ordered, rows), _FOUND)


def _oldest_of(
    clause: int, plan: str, columns: list[list[str]], sent: list[str], ordered: int, schema: pa.Schema, batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yields the keys of one partition of the states that have waited longest."""
    import numpy as np

    from sparkcep.engine.stream.inspection import summary

    stream, best = stream_of(plan, columns, sent, ordered, schema), None
    for batch in batches:
        states = batch.column(1).cast(pa.large_binary())
        found = summary(stream, states)
        some = np.flatnonzero(found.open)
        since = pa.array(found.since[some], mask=np.full(len(some), not found.timed))
        sizes = pc.binary_length(states).cast(pa.int64()).take(pa.array(some))
        values = [pa.array(np.full(len(some), clause, dtype=np.int32)), batch.column(0).take(pa.array(some)), since, pa.array(found.rows[some]), pa.array(found.pending[some]), sizes]
        rows = pa.table(values, names=["clause", "key", "since", "rows", "pending", "bytes"])
        best = rows if best is None else pa.concat_tables([best, rows])
        best = best.take(pc.sort_indices(best, [("since", "ascending"), ("rows", "descending")])[:OLDEST])
    if best is not None:
        yield from best.combine_chunks().to_batches()


# -- metrics of a query's progress ----------------------------------------------------------------------------------------


def _sum(progress: Any, figure: str) -> int:
    """Returns the sum of a metric over all clauses of a query."""
    return sum(clause[figure] for clause in figures(progress))


def _row(progress: Any) -> tuple:
    names = ("keysSearched", "openKeys", "keptRows", "pendingRows", "stateBytes", "engineTimeMs")
    return (
        progress["batchId"], progress["timestamp"], progress.numInputRows, _sum(progress, "matches"), _sum(progress, "lateRows"), _sum(progress, "rowsWithoutTime"),
        *(_sum(progress, name) for name in names), progress["durationMs"]["triggerExecution"], progress["eventTime"].get("watermark", ""),
    )


def _picture(ran: list[Any]) -> str:
    if not ran:
        return ""
    places = {name: _COLUMNS.index(name) for name in ("rows in", "matches", "late rows", "open keys", "rows kept", "bytes of state", "ms of the engine", "ms of the micro-batch")}
    rows = [_row(progress) for progress in ran]
    shown = [Figure(name, tuple(row[place] for row in rows)) for name, place in places.items()]
    return progress_picture(shown, [row[0] for row in rows])
