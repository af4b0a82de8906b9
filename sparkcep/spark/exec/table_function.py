"""The registered table function ``match_recognize``: passes Arrow batches to the engine and returns its output.

``match_recognize(TABLE(...))`` takes the rewriter's form: a distributed and sorted input, with one column that is named by the
plan's JSON. ``match_recognize(TABLE(...), text)`` takes the text of a clause, over any table. Spark then computes the row
expressions, partitions and sorts as ``analyze`` requests (LANGUAGE section 7).

Spark's public API refuses ``analyze`` for Arrow table functions (SPARK-53286). Registration through the internal constructor
works in 4.x, classic and Connect, and is confined to :func:`register`.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import types as T
from pyspark.sql.functions import AnalyzeArgument, AnalyzeResult, OrderingColumn, PartitioningColumn, SelectedColumn
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.util import PythonEvalType

from sparkcep.clause.expressions import NAMED_FUNCTIONS
from sparkcep.clause.identifiers import backticked
from sparkcep.clause.parser import parse_clause
from sparkcep.clause.tokens import STRING, quote, tokenize, unquoted
from sparkcep.clause.tree import ONE_ROW
from sparkcep.columns.types import type_of
from sparkcep.compiler.output_watermark import passed
from sparkcep.compiler.stream_rules import check_stream
from sparkcep.draw import match_graph as graphs
from sparkcep.errors import SEMANTIC, UNSUPPORTED, ClauseError, MatchRuntimeError, position
from sparkcep.kernels.jit import background
from sparkcep.plan import records
from sparkcep.plan.build import make_plan
from sparkcep.plan.extend.automaton import like_a_column
from sparkcep.plan.extend.unfinished import unread_clock
from sparkcep.plan.plan import LETTERS, PLAN_HEAD, Plan
from sparkcep.plan.records import CLASSIFIER_COLUMN
from sparkcep.plan.scope import COLUMN_OVERLOOKED, RANK, SCORE, overlooked
from sparkcep.plan.split.fallible import spoken
from sparkcep.settings import DEFAULT, Settings
from sparkcep.spark.connection import is_connect
from sparkcep.spark.exec import worker_memory
from sparkcep.spark.exec.budget_metrics import report
from sparkcep.spark.exec.char_columns import check_declared, declared
from sparkcep.spark.versions import wrong

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparkcep.engine.core.task import Prepared
    from sparkcep.engine.factory import Engine

WATERMARK = "spark.watermarkDelayMs"  # metadata of a watermark column
NAME = "match_recognize"


@dataclass
class MatchAnalysis(AnalyzeResult):
    """The result of ``analyze``: Spark's part, and the data that workers need.

    Attributes:
        prepared: the compiled plan; None for a clause text.
        plan: the plan of a clause text.
        settled: whether the plan of a clause text was made under the session's settings.
        columns: the output columns of a clause text, as (name, engine column).
        collated: the columns that may have a collation, see :func:`_perhaps_collated`.
    """

    prepared: Prepared | None = None
    plan: Plan | None = None
    settled: bool = False
    columns: list[tuple[str, str]] | None = None
    collated: dict[str, str] | None = None


class MatchRecognize:
    """The handler that Spark instantiates once per task; for a clause text, once per partition key."""

    @staticmethod
    def analyze(table: AnalyzeArgument, spec: AnalyzeArgument | None = None) -> MatchAnalysis:
        """Analyses a call. ``spec`` is the text of a clause. The JVM extension passes JSON instead: the text and the settings."""
        if not table.isTable:
            raise ClauseError("ARGUMENT", "the first argument of match_recognize must be TABLE(...)")
        if plan_at(table.dataType.names) is not None:
            return analyze_planned(table.dataType, distinct=True, streaming=False)
        if spec is None or not isinstance(spec.value, str):
            raise ClauseError("ARGUMENT", "match_recognize needs a string constant after TABLE(...): the text of the clause")
        if not spec.value.startswith('{"clause":'):
            return _analyze_clause(spec.value, table.dataType)
        given = json.loads(spec.value)
        return _analyze_clause(given["clause"], table.dataType, Settings.read(given["settings"].get, given["application"].get))

    def __init__(self, analysis: MatchAnalysis | None = None) -> None:
        if analysis is None:
            raise PySparkRuntimeError("match_recognize needs the result of its analyze method")
        self.analysis = analysis
        self.engine: Engine | None = None

    def eval(self, table: pa.RecordBatch, spec: pa.Array | None = None) -> Iterator[pa.Table]:
        with reported_alone(self.analysis.plan):
            if self.engine is None:
                self.engine = self._engine(table.schema)
            for out in self.engine.push(table):
                yield self._named(out)

    def terminate(self) -> Iterator[pa.Table]:
        if self.engine is not None:
            with reported_alone(self.analysis.plan):
                for out in self.engine.finish():
                    yield self._named(out)

    def _engine(self, schema: pa.Schema) -> Engine:
        worker_memory.check_own()  # a planner without the extension does not check it
        from sparkcep.engine.factory import engine_for, prepare

        if self.analysis.prepared is None:
            # Only Spark knows the types of a clause text's row expressions, so it is compiled on its first batch.
            strings = {f.name for f in schema if _holds_strings(f.type)}
            _check_collations(self.analysis.plan, {n: c for n, c in (self.analysis.collated or {}).items() if n in strings}, dict(self.analysis.plan.inputs))
            return engine_for(prepare(self.analysis.plan if self.analysis.settled else _settled(self.analysis.plan, schema), schema))
        at = plan_at(schema.names)
        plan = schema.names[at]
        if Plan.from_json(plan) != self.analysis.prepared.plan:
            # Planning dropped unused columns, and then did not find the call that mapInArrow would run.
            return engine_for(_prepared(plan, schema.remove(at)))
        return engine_for(self.analysis.prepared.arrived(schema))

    def _named(self, table: pa.Table) -> pa.Table:
        columns = self.analysis.columns
        if columns is None:
            return table
        arrays = [table.column(source) for _, source in columns]
        if "__matched" in table.column_names:
            matched = table.column("__matched")
            leaves = set(dict(self.analysis.plan.leaves))
            nothing = [pa.nulls(len(matched), type=a.type) for a in arrays]
            arrays = [
                pc.if_else(matched, a, none) if source in leaves else a for a, none, (_, source) in zip(arrays, nothing, columns)
            ]
        return pa.Table.from_arrays(arrays, names=[name for name, _ in columns])


@contextmanager
def reported_alone(plan: Plan | None = None) -> Iterator[None]:
    """Makes a worker report a data error without a traceback, and with its position if there is a plan.

    PySpark reads an environment variable for this. The worker ends with the error.
    """
    try:
        yield
    except MatchRuntimeError as error:
        if TaskContext.get() is not None:
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise error.at(plan.place if plan is not None else None) from None


def plan_at(names: Sequence[str]) -> int | None:
    """Returns the index of the rewriter's column, whose name is a plan. Returns None without such a column.

    It is the last such column, because it comes after the user's own columns, which may have such a name too.
    """
    return next((i for i in range(len(names) - 1, -1, -1) if names[i].startswith(PLAN_HEAD)), None)


def analyze_planned(table: T.StructType, *, distinct: bool, streaming: bool) -> MatchAnalysis:
    """Analyses a call in the rewriter's form, whose plan is the name of a column of ``table``.

    With ``distinct``, the engine receives columns under their own names, so names must be unique. The JVM extension numbers columns
    instead. ``streaming``: whether the table is a stream. Raises ClauseError.
    """
    from sparkcep.engine.automaton.arc_history import check_keys
    from sparkcep.engine.factory import prepare

    at = plan_at(table.names)
    assert at is not None
    schema, plan = T.StructType(table.fields[:at] + table.fields[at + 1 :]), Plan.from_json(table.names[at])
    if streaming:
        check_stream(plan)
    _check_names(plan, schema.names, distinct)
    _check_collations(plan, _collations(schema), {}, _nested(schema))
    check_declared(plan, schema)
    prepared = prepare(plan, arrow_schema(schema, dict(plan.inputs)))
    if streaming:
        _check_ordered(plan, prepared.input_schema)
        check_keys(plan, prepared.input_schema)
    fields = _spark_fields(plan, prepared.output_schema, schema)
    return MatchAnalysis(T.StructType(_marked(plan, fields, schema) if streaming else fields), prepared=prepared)


def _check_ordered(plan: Plan, schema: pa.Schema) -> None:
    """Refuses keys that Spark cannot compare, as Spark itself does when it sorts a table by them."""
    for key in plan.partition:
        t = type_of(schema.field(key.column).type)
        if t.kind == "opaque":
            message = f"{key.column}, of type {t}, cannot be a key of PARTITION BY, because Spark does not compare such values. Use a part of it that can be ordered"
            raise ClauseError("DATATYPE_MISMATCH", message, sqlstate=SEMANTIC, fragment=key.column)  # the rewriter has its text and place


def stream_error() -> ClauseError:
    """Returns the error of a clause text over a stream."""
    message = "match_recognize with the text of a clause cannot read a stream: each micro-batch would be searched alone. Write the clause in spark.sql, or match_recognize(frame, clause=...)"
    return ClauseError("STREAM", message, sqlstate=UNSUPPORTED)


def _check_names(plan: Plan, names: list[str], distinct: bool) -> None:
    """Refuses user columns that ALL ROWS PER MATCH would return and that have a name of the plan's own."""
    if plan.rows == ONE_ROW:
        return
    own = {LETTERS, *(column.name for column in (*plan.inputs, *plan.ordered_inputs))}
    computed = {"__matched", *(leaf.name for leaf in plan.leaves), *((SCORE, RANK) if plan.ranking else ())}
    seen: set[str] = set()
    for name in names:
        key = name if plan.case_sensitive else name.lower()
        reserved = key in computed or (key in own and key in seen)
        if reserved or (distinct and name in seen):
            reason = f"the name {name} is reserved for a column of sparkcep" if reserved else f"two columns of the input are called {name}"
            raise ClauseError(
                "COLUMN_NAME", f"{reason}, but ALL ROWS PER MATCH returns all columns of the input. Rename it in the input",
                sqlstate=SEMANTIC, line=plan.place.line, column=plan.place.column, fragment=plan.place.text,
            )
        seen |= {key, name}


def match_batches(plan: str, columns: list[list[str]], sent: list[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs the engine under ``mapInArrow``: a task's sorted batches in, its output rows out.

    The JVM extension plans the rewriter's form this way.

    Args:
        plan: the clause's plan as JSON.
        columns: the plan's input columns, as :func:`sparkcep.columns.from_jvm.unpacked` takes them.
        sent: the names that ``columns`` use for the columns of a batch, in order. Spark may name them differently.
        batches: the shipped batches, see :mod:`sparkcep.columns.from_jvm`.

    Yields:
        Batches with the columns of :func:`sparkcep.engine.core.task.output_schema`.
    """
    from sparkcep.columns.from_jvm import merged, unpacked
    from sparkcep.engine import factory as engines
    from sparkcep.engine.arrange.sorted_batches import sorted_batches
    from sparkcep.engine.core.chunk import CHUNK_BYTES, CHUNK_ROWS

    first = next(batches, None)
    if first is not None:
        all_batches = itertools.chain([first], batches)
        # Blocks of columns have another number of columns than rows have. The names of rows' columns may be any.
        sorted_rows = all_batches if first.num_columns == len(sent) else sorted_batches(all_batches, CHUNK_ROWS, CHUNK_BYTES, worker_memory.free_memory())
        named = (pa.RecordBatch.from_arrays(batch.columns, names=sent) for batch in sorted_rows)
        first = next(named, None)
    if first is not None:
        engine = engines.engine_for(_prepared(plan, unpacked(first.slice(0, 0), columns).schema))
        # A whole chunk of the engine is unpacked at once, because a call costs more than the rows of one Spark batch.
        whole = merged(itertools.chain([first], named), engine.buffer.chunk_rows, CHUNK_BYTES)
        with reported_alone(engine.prepared.plan):
            for table in engines.match_batches(engine, (unpacked(batch, columns) for batch in whole)):
                yield from table.to_batches()
        if engine.task.plan.budgeted:
            report(engine.task.totals)


@functools.lru_cache(maxsize=16)
def _prepared(plan: str, schema: pa.Schema) -> Prepared:
    """Returns the compiled plan. A worker compiles it once for all its tasks."""
    from sparkcep.engine.factory import prepare

    return prepare(Plan.from_json(plan), schema)


def _of_arrow(arrow: pa.DataType) -> T.DataType:
    """Returns Spark's type of an Arrow type. Timestamps without a zone are TIMESTAMP_NTZ, which Spark 4.1 must be asked for."""
    return from_arrow_type(arrow, prefer_timestamp_ntz=True)


def arrow_schema(schema: T.StructType, written: Mapping[str, str] = MappingProxyType({})) -> pa.Schema:
    """Returns the Arrow schema of a table argument. Its time zone represents the session's.

    ``written``: columns as the user wrote them. Raises ClauseError for types that cannot be shipped.
    """
    months = [f.name for f in schema.fields if isinstance(f.dataType, T.YearMonthIntervalType)]
    if months:
        raise ClauseError(
            "YEAR_MONTH_INTERVAL",
            f"year-month intervals ({', '.join(months)}) cannot be shipped to Python. If only the parser in the JVM sees the statement, "
            "write their months: EXTRACT(YEAR FROM x) * 12 + EXTRACT(MONTH FROM x)",
            sqlstate=UNSUPPORTED, fragment=months[0],
        )
    # Spark 4.1 uses UTC by default.
    zone = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    try:
        return to_arrow_schema(schema, prefers_large_types=False, **zone)
    except PySparkException as error:
        raise _not_shipped(schema, written, zone) or error from None


def _not_shipped(schema: T.StructType, written: Mapping[str, str], zone: dict) -> ClauseError | None:
    """Returns the error that names the first column whose type Arrow cannot represent, such as a calendar interval."""
    for f in schema.fields:
        try:
            to_arrow_schema(T.StructType([f]), prefers_large_types=False, **zone)
        except PySparkException:
            name = spoken(written.get(f.name) or f.name)
            return ClauseError(
                "COLUMN_TYPE",
                f"{name} is of type {f.dataType.simpleString()}, which cannot be sent to Python. Convert it below the clause, for example to "
                "a string or, for a calendar interval, to an interval of days or a number of months",
                sqlstate=UNSUPPORTED, fragment=name,
            )
    return None


def _collations(schema: T.StructType) -> dict[str, str]:
    """Returns column -> collation for the columns with strings whose collation is not bytewise."""
    return {f.name: c for f in schema.fields if (c := _collation(f.dataType))}


def _perhaps_collated(plan: Plan, schema: T.StructType) -> dict[str, str]:
    """Returns column -> collation for the input columns of a clause text that may hold strings of another collation.

    These are expressions, whose types only Spark knows, that read such columns or contain COLLATE.
    """
    collations, found = _collations(schema), {}
    for column, sql in plan.inputs:
        if not collations and "collate" not in sql.lower():
            continue
        words = {t.text.strip("`").lower() for t in tokenize(sql)}
        named = [c for name, c in collations.items() if name.lower() in words]
        if re.search(r"^\(.*\bCOLLATE\s+UTF8_BINARY\)$|\bCOLLATE\s+UTF8_BINARY$", sql, re.IGNORECASE | re.DOTALL):
            continue
        if named or "collate" in words:
            found[column] = named[0] if named else "other than UTF8_BINARY"
    return found


def _nested(schema: T.StructType) -> frozenset[str]:
    """Returns the columns that are not strings themselves."""
    return frozenset(f.name for f in schema.fields if not isinstance(f.dataType, T.StringType))


def _check_collations(plan: Plan, collations: dict[str, str], texts: Mapping[str, str], nested: frozenset[str] = frozenset()) -> None:
    """Refuses to compare strings of another collation, because the engine compares strings byte by byte. Raises ClauseError.

    ``texts``: the SQL of the input columns. If a column has none, the error names the column, and the rewriter replaces the name by
    the user's text. ``nested``: columns that are not strings, and may hold some.
    """
    of_pattern = dict(zip(("line", "column", "fragment"), plan.place))  # for errors without a position of their own

    def fail(column: str, what: str, place: dict | None = None) -> ClauseError:
        text = texts.get(column) or column
        instead = "COLLATE UTF8_BINARY after the strings in it" if column in nested else f"{text} COLLATE UTF8_BINARY{_ignoring(collations[column], text)}"
        message = f"strings of collation {collations[column]} cannot {what}, as {text} is. Write {instead}"
        place = place or (of_pattern if column in texts else {"fragment": column})
        return ClauseError("COLLATION", message, sqlstate=UNSUPPORTED, **place)

    for key in plan.partition:
        if key.column in collations:
            raise fail(key.column, "be a key of PARTITION BY")
    for key in plan.equal_keys:
        if key.column in collations:
            raise fail(key.column, "be compared across rows", of_pattern)
    for condition in plan.conditions:
        _, *operands = records.places_of(condition, plan.places)
        for tree, at in zip(condition.trees, operands):
            for column in sorted(_compared_columns(tree) & collations.keys()):
                raise fail(column, "be compared across rows", at and {"line": at.line, "column": at.column, "fragment": at.text})
    for arc in plan.automaton.arcs if plan.automaton else ():
        for column in sorted(records.arc_columns(arc) & collations.keys()):
            raise fail(column, "be used with registers", {"line": arc.line, "column": arc.column, "fragment": arc.text})
    for _, spec in plan.leaves:
        if spec.kind == "agg" and spec.function in ("min", "max") and spec.column in collations:
            raise fail(spec.column, "be aggregated by MIN or MAX")


# function -> what it leaves out of a comparison, and parts of the names of collations that do so, too
_IGNORING = {"lower": ("case", ("LCASE", "_CI")), "rtrim": ("trailing spaces", ("_RTRIM",))}


def _ignoring(collation: str, text: str) -> str:
    """Returns advice about functions around the string that compare as the collation does, but for those that ``text`` has."""
    name, text = collation.upper(), text.lower()
    return "".join(
        f"; {function}() around the string ignores {ignored}"
        for function, (ignored, marks) in _IGNORING.items()
        if any(mark in name for mark in marks) and f"{function}(" not in text
    )


def _compared_columns(tree: tuple) -> set[str]:
    """Returns the columns whose values a condition's tree compares, or may pass to a comparison."""
    match tree:
        case ("call", "isnull", records.Here() | records.Near() | records.At() | records.Pair()):
            return set()
        case records.Here() | records.Near() | records.At() | records.Pair():
            return {tree.column}
        case records.Running(function="count", distinct=False):
            return set()
        case records.Running():
            return {tree.column}
        case records.Extreme():
            return {tree.key} if tree.column is None else {tree.column, tree.key}
        case records.Prior() | records.Checked():
            return _compared_columns(tree.tree)
        case ("call", _, *arguments):
            return set().union(*map(_compared_columns, arguments))
        case records.Lit() | records.Label() | records.IsFirst() | ("mno",):
            return set()
    raise ValueError(f"a condition's tree of an unknown kind: {tree[0]}")


def _collation(data_type: T.DataType) -> str | None:
    """Returns the first collation inside the type that is not bytewise, or None."""
    match data_type:
        case T.StringType():
            name = getattr(data_type, "collation", "UTF8_BINARY")
            return None if name == "UTF8_BINARY" else name
        case T.ArrayType():
            return _collation(data_type.elementType)
        case T.MapType():
            return _collation(data_type.keyType) or _collation(data_type.valueType)
        case T.StructType():
            return next((c for f in data_type.fields if (c := _collation(f.dataType))), None)
    return None


def _holds_strings(t: pa.DataType) -> bool:
    """Whether values of the type contain strings."""
    if pa.types.is_nested(t):
        return any(_holds_strings(t.field(i).type) for i in range(t.num_fields))
    return pa.types.is_string(t) or pa.types.is_large_string(t)


def _spark_fields(plan: Plan, output: pa.Schema, schema: T.StructType) -> list[T.StructField]:
    """Returns the output columns. A value taken from a column keeps that column's Spark type, including CHAR(n).

    The user's columns follow the order of ``schema``, so that several columns with one name keep their own types.
    """
    leaves = dict(plan.leaves)
    own: dict[str, Iterator[T.StructField]] = {name: iter([f for f in schema if f.name == name]) for name in schema.names}
    fields = []
    for f in output:
        source = next(own.get(f.name, iter(())), None)
        match leaves.get(f.name):
            case records.Value(column=name) if name in schema.names:
                source = schema[name]
            case spec if spec is not None:
                source = T.StructField(f.name, _spark_type(spec, f.type, schema))
        source = source or T.StructField(f.name, _of_arrow(f.type))
        fields.append(T.StructField(f.name, source.dataType, True, declared(source)))
    return fields


def _marked(plan: Plan, fields: list[T.StructField], schema: T.StructType) -> list[T.StructField]:
    """Returns the output columns over a stream, with the output's watermark on one of them.

    Its delay is the delay of the rows' watermark plus the time that the output trails the rows.
    """
    given = passed(plan)
    if given.milliseconds is None or not given.column:
        return fields
    spec = dict(plan.leaves).get(given.column)
    source = given.column if spec is None or plan.rows != ONE_ROW else spec.column
    same = (lambda name: name == source) if plan.case_sensitive else (lambda name: name.lower() == source.lower())
    delays = [f.metadata[WATERMARK] for f in schema if same(f.name) and WATERMARK in (f.metadata or {})]
    if len(delays) != 1:
        return fields
    delay = {WATERMARK: delays[0] + given.milliseconds}
    column = given.column if plan.rows == ONE_ROW else next(f.name for f in schema if same(f.name) and WATERMARK in (f.metadata or {}))
    return [T.StructField(f.name, f.dataType, f.nullable, {**(f.metadata or {}), **delay}) if f.name == column else f for f in fields]


def _spark_type(spec: records.LeafSpec, arrow: pa.DataType, schema: T.StructType) -> T.DataType:
    match spec:
        case records.Aggregate(function="list", column=name) if name in schema.names:
            return T.ArrayType(schema[name].dataType)
        case records.Aggregate(function="min" | "max", column=name) if name in schema.names:
            return schema[name].dataType
        case records.Aggregate(function="sum", column=name) if name in schema.names and isinstance(schema[name].dataType, T.DayTimeIntervalType):
            return schema[name].dataType
        case records.Rows(columns=names):
            fields = [
                T.StructField(f.name, schema[n].dataType if n in schema.names else _of_arrow(f.type))
                for f, n in zip(arrow.value_type, names, strict=True)
            ]
            return T.ArrayType(T.StructType(fields))
    return _of_arrow(arrow)


# -- a clause text called by hand -----------------------------------------------------------------------------


def _columns(plan: Plan, schema: T.StructType) -> list[tuple[str, str]]:
    """Returns (output name, engine column) of each output column, in the standard's order."""
    measures = [(name, sql) for name, sql in plan.outputs]
    if plan.rows == ONE_ROW:
        return [(key.name, key.column) for key in plan.partition] + measures
    # If names differ by case alone, the session is case-sensitive.
    alike = len({n.lower() for n in schema.names}) < len(schema.names)
    keys, seen = [], set()

    def folded(name: str) -> str:
        return name if alike else name.lower()

    for key in (*plan.partition, *plan.order):
        if key.plain and folded(key.name) in seen:
            continue
        seen.add(folded(key.name) if key.plain else key.column)
        keys.append((key.name, _plain_column(key.name, schema) or key.name if key.plain else key.column))
    rest = [(n, n) for n in schema.names if folded(n) not in seen]
    return keys + measures + rest


def _plain_column(sql: str, schema: T.StructType) -> str | None:
    """Returns the input column that a row expression consists of; None for any other expression."""
    name = sql.strip("`")
    return name if name in schema.names else next((n for n in schema.names if n.lower() == name.lower()), None)


def _known_types(plan: Plan, schema: T.StructType) -> T.StructType:
    """Returns the types of the inputs that are plain columns. Raises ClauseError if the output needs any other input."""
    fields = list(schema.fields) if plan.rows != ONE_ROW else []
    needed = {key.column for key in (*plan.partition, *plan.order) if plan.rows == ONE_ROW or not key.plain}
    needed -= {item.column for item in plan.order} if plan.rows == ONE_ROW else set()
    needed |= {window.order for window in plan.windows if window.order}
    for _, spec in plan.leaves:
        match spec.kind:
            case "nav" | "match_from" | "match_to" | "changed_by" | "punctuation":
                needed.add(spec.column)
            case "register":
                needed.update(filter(None, [plan.automaton.registers[spec.number].like]))
            case "emit":
                needed.update(*map(records.arc_columns, plan.automaton.arcs))
            case "agg" if spec.column not in (None, CLASSIFIER_COLUMN):
                needed.add(spec.column)
            case "rows":
                raise _needs_rewriter("an aggregate that Spark computes")
    for column, sql in plan.inputs:
        plain = _plain_column(sql, schema)
        if plain is not None:
            fields.append(T.StructField(column, schema[plain].dataType, True, declared(schema[plain])))
        elif column in needed:
            raise _needs_rewriter(f"the expression {sql}, whose type only Spark knows,")
    return T.StructType(fields)


def _needs_rewriter(what: str) -> ClauseError:
    return ClauseError(
        "NEEDS_REWRITER",
        f"{what} cannot be returned by the bare table function. Enable sparkcep's rewriter (sparkcep.enable(spark)), "
        "or return plain columns and compute outside",
        sqlstate=UNSUPPORTED,
    )


def _analyze_clause(text: str, schema: T.StructType, settings: Settings | None = None) -> MatchAnalysis:
    """Plans a clause text under the session's settings, if they are known. Spark computes the plan's inputs through ``select``."""
    from sparkcep.engine.core.task import output_schema

    names = {name.upper() for name in schema.names}
    text = backticked(text) if settings is not None and settings.double_quoted else text
    plan = make_plan(parse_clause(text, NAMED_FUNCTIONS & names), settings=settings or DEFAULT)
    _check_words(plan, names)
    if settings is None:
        _check_strings(text, names)
    names = {leaf.name for leaf in plan.leaves}
    for name, sql in plan.outputs:
        if sql not in names:
            raise _needs_rewriter(f"the measure {name}, computed around values of the match,")
    for option, what in (
        (plan.ranking, "PREF and TOP, whose order Spark decides,"), (plan.arcs, "ARCS FROM, a second table,"),
        (plan.budgeted and plan.approximate.budget.history, "USING HISTORY, a second table,"), (plan.changes, "CHANGES IN, for which Spark numbers rows,"),
    ):  # fmt: skip
        if option:
            raise _needs_rewriter(what)
    if plan.unfinished and dict(plan.inputs).get(plan.unfinished.clock) == "":
        raise unread_clock(plan)
    if plan.ordered_inputs:
        raise _needs_rewriter("a condition with a Spark function over several rows")
    _check_registers(plan, schema.names)
    taken = [n for n in schema.names if re.fullmatch(r"__(?:[poclw]\d+|letters|matched|rn|row|clock)", n)]
    if taken:
        raise ClauseError("COLUMN_NAME", f"the input has columns with reserved names: {', '.join(taken)}; rename them")
    known = _known_types(plan, schema)
    _check_collations(plan, _collations(known), dict(plan.inputs), _nested(known))
    check_declared(plan, known)
    engine_columns = {f.name: f for f in _spark_fields(plan, output_schema(plan, arrow_schema(known)), known)}
    columns, texts = _columns(plan, schema), dict(plan.inputs)
    selected = [SelectedColumn(sql, alias) for alias, sql in plan.inputs]
    if plan.letters:
        terms = " + ".join(f"CASE WHEN {sql} THEN {1 << bit}L ELSE 0L END" for _, bit, sql in plan.letters)
        selected.append(SelectedColumn(terms, LETTERS))
    if plan.rows != ONE_ROW:
        selected = [SelectedColumn(quote(n), n) for n in schema.names] + selected
    elif not selected:
        selected = [SelectedColumn("0", "__row")]
    return MatchAnalysis(
        T.StructType([T.StructField(name, engine_columns[source].dataType, True, engine_columns[source].metadata) for name, source in columns]),
        partitionBy=[PartitioningColumn(texts[key.column]) for key in plan.partition],
        # With a further partition key, Spark would create a handler per value. The engine alone splits by these keys.
        orderBy=[
            *(OrderingColumn(texts[key.column]) for key in plan.equal_keys),
            *(OrderingColumn(texts[item.column], not item.descending, item.nulls_first) for item in plan.order),
        ],
        withSinglePartition=not plan.partition,
        select=selected,
        plan=plan,
        settled=settings is not None,
        columns=columns,
        collated=_perhaps_collated(plan, schema),
    )


def _check_words(plan: Plan, names: set[str]) -> None:
    """Refuses a word that was not read as a column if the table has a column of that name."""
    for word in plan.words:
        if word.name.upper() in names:
            raise ClauseError(*overlooked(word.name, word.of), sqlstate=SEMANTIC, line=word.line, column=word.column, fragment=word.name)


def _check_strings(text: str, names: set[str]) -> None:
    """Refuses a string in double quotes that is the name of a column.

    A setting determines whether Spark reads it as a column, and without the JVM extension a call does not know it.
    """
    for token in tokenize(text):
        if token.kind == STRING and token.text[0] == '"' and (name := unquoted(token.text)).upper() in names:
            message = f"{token.text} may be a string or the column {name}. Write `{name}` for the column, or '{name}' for the string"
            line, column = position(text, token.start)
            raise ClauseError(COLUMN_OVERLOOKED, message, sqlstate=SEMANTIC, line=line, column=column, fragment=token.text)


def _check_registers(plan: Plan, names: list[str]) -> None:
    """Refuses a register that has the name of a column of the table."""
    columns = {name.lower() for name in names}
    for register in (*plan.automaton.declared, *plan.automaton.parameters) if plan.automaton is not None else ():
        if register.name.lower() in columns:
            place = {"line": register.line, "column": register.column, "fragment": register.text}
            raise ClauseError("AUTOMATON", like_a_column(register.name), sqlstate=SEMANTIC, **place)


def _on_executor() -> bool:
    """Whether this worker belongs to an executor of a cluster, according to Spark's task properties."""
    task = TaskContext.get()
    return task is not None and not (task.getLocalProperty("spark.master") or "local").startswith("local")


background.on_executor = _on_executor


def _task_settings() -> Settings:
    """Returns the session's settings. Spark gives its tasks all settings whose names begin with "spark"."""
    task = TaskContext.get()
    return DEFAULT if task is None else Settings.read(task.getLocalProperty)


def _settled(plan: Plan, schema: pa.Schema) -> Plan:
    """Returns the plan of a clause text under the settings that Spark gives its tasks, for rows of a schema.

    Times have the session's time zone. Without a time, no condition depends on it.
    """
    settings = _task_settings()
    zone = next(filter(None, map(_zone, schema.types)), settings.zone)
    bounds = tuple(records.Bound(*bound) for bound in settings.bounds())
    return replace(plan, ansi=settings.ansi, precision_loss=settings.precision_loss, zone=zone, bounds=bounds)


def _zone(t: pa.DataType) -> str | None:
    """Returns the time zone of a type's timestamps, or None."""
    if pa.types.is_timestamp(t):
        return t.tz
    inner = (t.field(i).type for i in range(t.num_fields)) if pa.types.is_nested(t) else ()
    return next(filter(None, map(_zone, inner)), None)


@reported_alone()
def _expand(graph: list | None, limit: int | None) -> list | None:
    return None if graph is None else graphs.expand_matches(graph, limit, _task_settings())


@reported_alone()
def _count(graph: list | None) -> Decimal | None:
    if graph is None:
        return None
    number = graphs.count_matches(graph)
    if number >= 10**38:
        raise MatchRuntimeError("COUNT_RANGE", "count_matches: the number of matches exceeds DECIMAL(38). Bound the matches by WINDOW, or list some with sample_matches(graph, n, seed)", sqlstate="22003")
    return Decimal(number)


@reported_alone()
def _sample(graph: list | None, n: int | None, seed: int | None) -> list | None:
    return None if graph is None or n is None or seed is None else graphs.sample_matches(graph, n, seed, _task_settings())


_ROW = T.StructType([T.StructField("position", T.LongType()), T.StructField("variable", T.StringType())])
_MATCHES = T.ArrayType(T.ArrayType(_ROW))
GRAPH_FUNCTIONS = {  # name -> a scalar function over the result of MATCH_GRAPH(), and its type
    "expand_matches": (_expand, _MATCHES),
    "count_matches": (_count, T.DecimalType(38, 0)),
    "sample_matches": (_sample, _MATCHES),
}


def register(spark: SparkSession) -> None:
    """Registers ``match_recognize`` and the functions over match graphs in a classic or Connect session.

    Raises PySparkRuntimeError for an unsupported Spark version.
    """
    import pyspark

    if problem := wrong(pyspark.__version__):
        raise PySparkRuntimeError(problem)
    if is_connect(spark):
        from pyspark.sql.connect.udtf import UserDefinedTableFunction
    else:
        from pyspark.sql.udtf import UserDefinedTableFunction
    spark.udtf.register(NAME, UserDefinedTableFunction(MatchRecognize, None, NAME, PythonEvalType.SQL_ARROW_UDTF, deterministic=True))
    for name, (read, returns) in GRAPH_FUNCTIONS.items():
        spark.udf.register(name, read, returns)
