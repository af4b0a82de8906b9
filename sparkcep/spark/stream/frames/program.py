"""Runs a clause over a stream without the JVM operator: a program of DataFrames over key buckets, by Spark's public API.

    rows -> mapInArrow (pieces) -> groupBy(bucket).applyInPandasWithState (the engine) -> mapInArrow (rows of output) [-> ranks]

Spark allows one applyInPandasWithState per query, so several clauses of a query use transformWithStateInPandas instead. Why these
operators, and why buckets: docs/adr/0014-streams.md.
"""

from __future__ import annotations

import importlib.util
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from sparkcep.clause.tree import ONE_ROW
from sparkcep.compiler.output_watermark import passed
from sparkcep.compiler.stream_rules import NEEDED, kept
from sparkcep.engine.core.effort import SUMS, Totals
from sparkcep.engine.stream.key_buckets import Layout
from sparkcep.errors import UNSUPPORTED
from sparkcep.plan.plan import LETTERS, Plan
from sparkcep.plan.records import Place
from sparkcep.settings import FRAMES, OPERATOR, Settings
from sparkcep.spark.connection import is_connect, on_server, where_available
from sparkcep.spark.exec.budget_metrics import METRICS
from sparkcep.spark.exec.char_columns import declared
from sparkcep.spark.exec.table_function import WATERMARK, analyze_planned, arrow_schema
from sparkcep.spark.stream.frames.clauses_in_plans import (
    SEVERAL,
    Made,
    by_one_call,
    check_above,
    clauses,
    found,
    number_of,
    remember,
    stateful,
    watermarks,
    without_clauses,
)
from sparkcep.spark.stream.frames.plan_text import Node, analysed, unbounded
from sparkcep.spark.stream.frames.query_start import watch
from sparkcep.spark.stream.frames.ranks import ranked
from sparkcep.spark.stream.frames.union_branches import marked_in_branches
from sparkcep.spark.stream.frames.worker import OUT, Job, Pieces, Rows, Search
from sparkcep.spark.stream.progress import OBSERVED
from sparkcep.spark.stream.restart_checks import STATE_FORMAT
from sparkcep.spark.stream.start_checks import PROVIDER, ROCKSDB, check_over_stream, wrong
from sparkcep.sql.rewrite.rewrite import needed_rows, stream_input

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sparkcep.sql.prefilter.questions import Streamed

log = logging.getLogger("sparkcep")

_QUERIES = frozenset(["SELECT", "WITH", "FROM", "VALUES", "TABLE", "(", "EXPLAIN"])
_STATE = "state binary"
BEHIND = "sparkcep.behind"  # metadata: marks the column of a clause's output that the next clause can be ordered by


def framer(session: SparkSession, settings: Settings, ask: Callable[[str], DataFrame], has_operator: bool) -> Frames | None:
    """Returns the builder of DataFrames for clauses over streams. Returns None if the JVM operator runs them.

    ``ask`` runs a rewritten statement; ``has_operator`` says whether a classic session has the operator.
    """
    if settings.stream_route != FRAMES and (has_operator or (is_connect(session) and on_server(session))):
        return None
    return Frames(session, settings, ask)


class _Recipe(NamedTuple):
    """The inputs of a DataFrame.

    Attributes:
        plan: the clause's plan.
        rows: the rows that go to the engine.
        fields: their columns.
        ``behind``: how many milliseconds their watermark trails Spark's.
    """

    plan: Plan
    rows: DataFrame
    fields: list[T.StructField]
    behind: int


@dataclass
class Frames:
    """Builds DataFrames for the clauses of one statement (:class:`sparkcep.sql.prefilter.questions.Framer`).

    Attributes:
        session: the session of the statement.
        settings: the session's settings.
        ask: runs a rewritten statement.
        made: the DataFrames, by their names in the statement.
        several: whether one query may contain several of them.
        doubtful: the plan of a clause whose table could not be read on its own, and the reason.
        recipes: the inputs of each DataFrame, by its name.
    """

    session: SparkSession
    settings: Settings
    ask: Callable[[str], DataFrame]
    made: dict[str, DataFrame] = field(default_factory=dict)
    several: bool = False
    doubtful: tuple[Plan, str] | None = None
    recipes: dict[str, _Recipe] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.several = self.settings.stream_several

    def forget(self) -> None:
        """Discards all results before the statement is rewritten again."""
        self.made.clear()
        self.doubtful = None
        self.recipes.clear()

    def frame(self, asked: Streamed) -> str | None:
        """Implements ``Framer.frame``."""
        if asked.names is None:
            self.doubtful = asked.plan, "an inner WITH may define its names; put the WITH at the beginning of the statement"
            return None
        try:
            if not self.ask(f"{asked.names}SELECT * FROM {asked.source}").isStreaming:
                return None
            _check_operators(asked.plan)
            rows = self.ask(f"{asked.names}{stream_input(asked.plan, asked.source, asked.months)}")
            fields, below = rows.schema.fields, analysed(rows)
            if not self.several and (self.made or (self._may_be_several and stateful(below, False) and not stateful(below, True))):
                self._make_again(asked.plan)
                rows = self.ask(f"{asked.names}{stream_input(asked.plan, asked.source, asked.months)}")
                fields, below = rows.schema.fields, analysed(rows)
        except PySparkException as error:
            # The statement itself raises the same error, with its position.
            self.doubtful = asked.plan, str(error).partition("\n")[0]
            return None
        self._check_statement(asked)
        self.several |= bool(clauses(below))
        name = f"sparkcep_stream_{len(self.made)}_frame"
        self.recipes[name] = _Recipe(replace(asked.plan, months=asked.months), rows, fields, self._checked(asked.plan, fields[len(fields) - len(asked.plan.order) :], below))
        self._make(name)
        return name

    def checked(self, frame: DataFrame, again: Callable[[], DataFrame]) -> DataFrame:
        """Returns the result of the statement. Raises ClauseError if it is a stream that cannot run.

        ``again`` runs the statement again, which is needed if it uses a clause twice.
        """
        if not (self.made or self.doubtful) or not frame.isStreaming:
            return frame
        if self.doubtful is not None:
            plan, why = self.doubtful
            raise wrong(plan, f"without the JVM extension the table of a clause over a stream is read separately, which is impossible here: {why}", UNSUPPORTED)
        plan = analysed(frame)
        if not self.several and sum(map(by_one_call, clauses(plan))) > 1:
            self._make_again(next(iter(self.recipes.values())).plan)
            frame = again()
            plan = analysed(frame)
        check_above(plan)
        return frame

    @property
    def _may_be_several(self) -> bool:
        """Whether Spark meets the requirements of several clauses in a query."""
        return self.settings.rocksdb and importlib.util.find_spec("google.protobuf") is not None

    # -- building DataFrames ------------------------------------------------------------------------------------------

    def _make_again(self, plan: Plan) -> None:
        """Rebuilds the DataFrames so that one query can hold several.

        ``plan``: the clause that requires it, for the error's position.
        """
        if not self._may_be_several:
            raise wrong(plan, _ONE_CLAUSE, UNSUPPORTED)
        self.several = True
        for name in self.made:
            self._make(name)

    def _make(self, name: str) -> None:
        plan = self.recipes[name].plan
        self.made[name] = self._made(self.recipes[name])
        if plan.ranking is not None and plan.ranking.by_spark:
            self.made[name] = ranked(plan, name, self.ask)

    def _made(self, recipe: _Recipe) -> DataFrame:
        """Returns the output DataFrame."""
        plan, rows, fields, behind = recipe
        ordered = len(plan.order)
        shipped, order = T.StructType(fields[: len(fields) - ordered - 1]), fields[len(fields) - ordered :]
        planned = plan.without_sql().to_json()
        # without the metadata that would show Spark the output's watermark
        plain = [T.StructField(f.name, f.dataType, f.nullable, declared(f)) for f in shipped]
        analysis = analyze_planned(T.StructType([*plain, T.StructField(planned, T.NullType())]), distinct=True, streaming=True)
        layout = Layout(tuple(shipped.names), tuple(map(shipped.names.index, plan.keys)), ordered, self.settings.stream_buckets)
        kinds = [f.dataType for f in (*shipped.fields, *order)]
        schema = arrow_schema(T.StructType([T.StructField(n, kind) for n, kind in zip([*layout.columns, *layout.order], kinds, strict=True)]))
        texts = {**dict(plan.inputs), **({LETTERS: "; ".join(f"{bit} {text}" for _, bit, text in plan.letters)} if plan.letters else {}), NEEDED: needed_rows(plan)}
        columns = [[n, kind.simpleString()] for n, kind in zip([*layout.columns, *layout.order], kinds, strict=True)]
        statement = {"format": STATE_FORMAT, "plan": planned, "texts": json.dumps(texts), "where": "", "buckets": layout.buckets, "columns": columns}
        job = Job(planned, schema, layout, json.dumps(statement).encode())
        log.warning(
            "over a stream: without the JVM extension the clause runs as a DataFrame program: each micro-batch reads and writes the states of all keys, in %d buckets. "
            "The extension needs Spark 4.1 to 4.3, and a JDK on the driver or `sparkcep jar` on the server", layout.buckets,
        )
        time = _timed(plan)
        watch(self.session)
        typed = T.StructType([T.StructField(f.name, f.dataType, f.nullable, {**declared(f), **({BEHIND: 1} if _same(plan, f.name, time) else {})}) for f in analysis.schema])
        own = passed(plan).milliseconds
        number = remember(Made(plan.to_json(), job.statement, None if own is None else own + behind))
        search = Search(job, f"state per key: {'; '.join(kept(plan))}", behind)
        return _program(rows, search, self.several, number, typed, analysis.prepared.output_schema)

    # -- checks -------------------------------------------------------------------------------------------------------

    def _check_statement(self, asked: Streamed) -> None:
        """Raises ClauseError if the statement, or the settings, do not allow a clause over a stream as a program of DataFrames."""
        plan = asked.plan
        if self.settings.stream_route == OPERATOR:
            raise wrong(plan, "sparkcep.stream.route is operator, but the JVM extension is missing or does not support this Spark. Set it to auto or frames", UNSUPPORTED)
        if asked.word not in _QUERIES:
            raise wrong(
                plan, f"{asked.word} over a stream needs the JVM extension, because a DataFrame program cannot be stored in a statement. "
                "Pass only the query to spark.sql, and use its DataFrame (frame.createOrReplaceTempView, frame.writeStream)", UNSUPPORTED,
            )
        if self.settings.late_rows:
            raise wrong(plan, f"sparkcep.stream.lateRows is {self.settings.late_rows!r}, but only the JVM extension writes late rows to a table. Leave the setting out, and read the number of late rows in the query's progress (lateRows)", UNSUPPORTED)
        if self.settings.stream_several and not self._may_be_several:
            raise wrong(plan, _ONE_CLAUSE, UNSUPPORTED)
        if plan.arcs is not None:
            at = replace(plan, place=Place(plan.arcs.line, plan.arcs.column, plan.arcs.text))
            raise wrong(at, "ARCS FROM over a stream needs the JVM extension, whose operator reads the table at each micro-batch. Write the arcs in the clause, and restart the query when they change", UNSUPPORTED)

    def _checked(self, plan: Plan, order: list[T.StructField], rows: Node) -> int:
        """Returns how many milliseconds the watermark of the rows trails Spark's.

        Raises ClauseError for a clause that cannot run over them. ``order``: the columns of ORDER BY.
        """
        below = [found(node) for node in clauses(rows)]
        if None in below:
            raise wrong(plan, "the DataFrame of the clause below was made long ago, or by another process, and is not known any more. Make its DataFrame again", UNSUPPORTED)
        given = [one for one in below if one is not None]
        first = order[0].metadata or {} if order else {}
        keeping, waits = stateful(rows, self.several), unbounded(without_clauses(rows))
        asked = {
            "plan": plan.to_json(), "on": True, "known": True, "provider": None, "watermarks": watermarks(rows),
            "types": [f.dataType.simpleString() for f in order], "time": order[0].dataType.simpleString() if order else "",
            "marked": (WATERMARK in first or BEHIND in first) and all(one.behind is not None for one in given),
            "unmarked": not marked_in_branches(rows, "__s0", _has_watermark), "stateful": keeping, "unbounded": [] if keeping else waits, "below": [one.plan for one in given],
        }
        check_over_stream(asked)
        if given and any(map(by_one_call, clauses(rows))):
            raise wrong(plan, f"a clause below, in a view or another DataFrame, was made for a query with one clause. Set {SEVERAL} to true, and {PROVIDER} to {ROCKSDB}, before making it", UNSUPPORTED)
        if any(node.keeps_state for node in without_clauses(rows).below()) and not _own_watermarks(self.session):
            raise wrong(plan, f"the clause is above a stateful operator, but {_ALLOWED} is false, so all operators share one watermark. Set it to true", UNSUPPORTED)
        return max((one.behind or 0 for one in given), default=0)


_ALLOWED = "spark.sql.streaming.statefulOperator.allowMultiple"
_ONE_CLAUSE = (
    f"without the JVM extension, several clauses in one query need states in RocksDB, and protobuf for Python. Set {PROVIDER} to {ROCKSDB}, and pip install protobuf "
    "on the client and on the workers, or write each clause's output with its own query"
)


def _own_watermarks(session: SparkSession) -> bool:
    """Whether Spark gives each stateful operator its own watermark."""
    with where_available():
        return (session.conf.get(_ALLOWED, None) or "true").lower() == "true"
    return True


def _timed(plan: Plan) -> str:
    """Returns the engine's column whose times can order a clause above; "" without such a column."""
    given = passed(plan)
    return given.column if given.milliseconds is not None else ""


def _has_watermark(node: Node, name: str) -> bool | None:
    """Whether the column ``name`` of a clause's output can order a clause above. None for other nodes."""
    if number_of(node) is None:
        return None
    made = found(node)
    return made is None or (made.behind is not None and _same(plan := Plan.from_json(made.plan), name, _timed(plan)))


def _same(plan: Plan, one: str, other: str) -> bool:
    return one == other or (plan.rows != ONE_ROW and not plan.case_sensitive and one.lower() == other.lower())


def _check_operators(plan: Plan) -> None:
    """Raises ClauseError for a clause that only the JVM extension has operators for."""
    if plan.budgeted and plan.approximate.budget.history:
        raise wrong(plan, "over a stream only the JVM extension can read the table of USING HISTORY at each micro-batch. Leave USING HISTORY out", UNSUPPORTED)
    if plan.aggregates:
        name = plan.aggregates[0].text.partition("(")[0].strip()
        raise wrong(
            plan, f"{name} is an aggregate that Spark computes, and over a stream this needs the JVM extension. Return the values with array_agg, and aggregate them above "
            "the clause (aggregate, array_sort)", UNSUPPORTED,
        )


def _program(frame: DataFrame, search: Search, several: bool, number: int, schema: T.StructType, arrow: pa.Schema) -> DataFrame:
    """Returns the output DataFrame.

    Args:
        frame: the rows that go to the engine.
        search: the search of a bucket.
        several: whether its query may contain others.
        number: identifies the clause in a plan.
        schema: the output's type.
        arrow: the output's Arrow schema.
    """
    # Spark requires a watermark column below an operator with timeouts.
    bucketed = T.StructType([
        T.StructField("bucket", T.IntegerType()), T.StructField("at", T.TimestampType(), True, {WATERMARK: 0}), T.StructField("piece", T.BinaryType()),
    ])
    # Positional names, because Spark would resolve the user's names, which may be anything.
    sent = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
    groups = sent.mapInArrow(Pieces(search.job.layout, number), bucketed).groupBy("bucket")
    if several:
        from sparkcep.spark.stream.frames.processor import Processor

        found = groups.transformWithStateInPandas(Processor(search), OUT, "Append", "EventTime")
    else:
        found = groups.applyInPandasWithState(search, OUT, _STATE, "append", "EventTimeTimeout")
    metrics = _METRICS | (_CHECKS if Plan.from_json(search.job.plan).budgeted else {})
    seen = found.observe(f"{OBSERVED} {number}", *(F.expr(text).alias(name) for name, text in metrics.items()))
    return seen.mapInArrow(Rows(arrow, f"match_recognize {number} by data frames, {search.states}, "), schema)


_METRICS = {
    "lateRows": "sum(late)", "rowsWithoutTime": "sum(untimed)", "keysSearched": "sum(searched)", "matches": "sum(matches)", "openKeys": "sum(open)", "keptRows": "sum(kept)",
    "pendingRows": "sum(pending)", "stateBytes": "sum(bytes)", "engineTimeMs": "CAST(round(sum(micros) / 1000) AS BIGINT)",
}
_CHECKS = {name: f"sum({count})" for name, count in zip(METRICS[:SUMS], Totals.names()[:SUMS], strict=True) if name not in _METRICS}
