"""Runs a query once and writes an HTML page about its execution and result: ``report(spark, sql)``, ``report(streaming_query)``."""

from __future__ import annotations

import base64
import functools
import importlib.util
import io
import operator
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, NumericType, TimestampNTZType, TimestampType

from sparkcep.clause.tokens import OP, WORD, quote, split_statements, tokenize
from sparkcep.clause.tree import ONE_ROW
from sparkcep.draw.explain import explained
from sparkcep.draw.page import page
from sparkcep.errors import ClauseError
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import LeafSpec
from sparkcep.redaction import Redaction
from sparkcep.spark.configured import settings_of, substituted
from sparkcep.spark.connection import is_connect
from sparkcep.spark.errors.exceptions import ClauseParseException, redacting
from sparkcep.spark.exec.budget_metrics import budget_totals
from sparkcep.spark.exec.physical_plan import nodes, without_plans
from sparkcep.spark.exec.sampling import Sampler
from sparkcep.spark.session.register import FUNCTION
from sparkcep.spark.session.session import sql_in
from sparkcep.sql.explain.describe import NO_CLAUSE
from sparkcep.sql.rewrite.rewrite import rewrite_all
from sparkcep.sql.rewrite.rewritten import Rewritten
from sparkcep.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

SAMPLE = 20  # rows of the result that are shown
PARTITIONS = 20  # partitions that are listed
PANELS = 4  # partitions that are drawn
DRAWN = 20_000  # rows that are fetched for drawing
_CELL = 200  # characters of a value that are shown
_QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
_WRITING = ("INSERT", "MERGE", "UPDATE", "DELETE")
_Table = tuple[list[str], list[tuple]]  # column names, and rows of plain values


def report(of: SparkSession | StreamingQuery, sql: str | None = None, path: str | Path | None = None) -> str:
    """Runs a query and returns an HTML page about it.

    The page shows the statement, plan, automaton, Spark's physical plan, counts, durations and a sample. The query runs once, into
    Spark's cache. Counts and the sample come from the cache, which is emptied afterwards. The page lists all other work that was
    done for it. It loads nothing from other places.

    For a started streaming query, running or ended, the page describes its progress. It shows the size of the state, the matches
    that have been in progress longest, and the metrics of each micro-batch that Spark remembers
    (``spark.sql.streaming.numRecentProgressUpdates``, 100). To find the matches in progress, it reads all states once from the
    checkpoint, without disturbing the query.

    Args:
        of: a classic or Spark Connect session, enabled or not; or the query that ``writeStream.start()`` returned.
        sql: one query; None for a streaming query.
        path: the file to write the page to, if any.

    Returns:
        The page as text.

    Raises:
        ValueError: the text is not a query, or contains several.
        TypeError: a session without a query, or a streaming query with one.
        PySparkException: the errors of ``spark.sql``.

    Example:
        >>> clause = "ORDER BY day MEASURES count(*) AS n PATTERN (A+)"
        >>> page = sparkcep.report(spark, f"SELECT * FROM VALUES (1), (2) AS t(day) MATCH_RECOGNIZE ({clause})")
        >>> page.startswith("<!DOCTYPE html>")
        True
    """
    streams = type(of).__name__ == "StreamingQuery"
    if streams != (sql is None):
        raise TypeError("report takes a session and the text of a query, or only a streaming query; path=... is the file of the report")
    if streams:
        from sparkcep.spark.report.stream_report import stream_report

        text = stream_report(of)
    else:
        with redacting(of):
            text = _Run(of, _query(substituted(of, sql))).report()
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def _query(sql: str) -> str:
    """Returns the statement without its semicolon. Raises ValueError if the text is not one query."""
    try:
        statements = split_statements(sql)
        if len(statements) != 1:
            raise ValueError(f"a report describes one query, but the text has {len(statements)} statements")
        tokens = tokenize(statements[0])
    except ClauseError as error:
        raise ClauseParseException.of(error, sql) from None
    depths = accumulate((t.text == "(") - (t.text == ")") if t.kind == OP else 0 for t in tokens)
    first = next(t.upper for t in tokens if t.text != "(")
    words = (t for before, t, after, depth in zip(["", *(t.text for t in tokens)], tokens, tokens[1:], depths) if depth == 0 and (before == ")" or after.upper in ("INTO", "OVERWRITE")))
    writing = next((t.upper for t in words if t.kind == WORD and t.upper in _WRITING), "") if first in ("WITH", "FROM") else ""  # elsewhere it is a name
    if first not in _QUERIES or writing:
        raise ValueError(f"a report describes a query, not {writing or first}. Pass only the SELECT")
    return statements[0]


@dataclass
class _Run:
    """A run of a query for its report.

    Attributes:
        spark: the session.
        sql: the query.
        jobs: (the work, seconds, the reason for it) of each measured step.
        notes: why facts are missing from the page.
    """

    spark: Any
    sql: str
    jobs: list[tuple[str, str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def report(self) -> str:
        settings = settings_of(self.spark)
        frame = self._timed("analysis of the statement", lambda: sql_in(self.spark, self.sql), extra=False)
        physical = without_plans(sql_in(self.spark, f"EXPLAIN FORMATTED {self.sql}").collect()[0][0])
        choose = Sampler.of(self.spark, settings, lambda statement: sql_in(self.spark, statement))
        rewritten, found = rewrite_all(self.sql, settings, choose=choose)
        level = frame.storageLevel
        known = level.useMemory or level.useDisk
        if known:
            self.notes.append("The result was already in Spark's cache, so its duration is the time to read the cache.")
        else:
            frame.persist()
        try:
            return self._of(frame, rewritten, found, physical, settings.redaction)
        finally:
            if not known:
                frame.unpersist()

    def _of(self, frame: DataFrame, rewritten: str, found: list[Rewritten], physical: str, redact: Redaction) -> str:
        rows = self._timed("the result, into Spark's cache", frame.count, extra=False)
        steps = self._steps(frame)
        taken = self._timed(f"the first {SAMPLE} rows, from the cache", lambda: frame.limit(SAMPLE).collect())
        plan = found[0].plan if len(found) == 1 else None
        if plan is None and found:
            self.notes.append("Matches are not counted by partition or variable, and not drawn: the statement has several clauses.")
        roles = _Roles.of(plan, frame) if plan else None
        partitions = self._partitions(frame, roles) if roles else None
        variables = self._variables(frame, roles) if roles else None
        picture = self._picture(frame, found[0], roles) if roles else ""
        counts = [*_counts(steps, plan), *self._matches(frame, roles, partitions), *self._checks(frame), ("rows of the result", rows)]
        shown = [("\u00a0\u00a0" * step.depth + step.name, "" if step.rows is None else step.rows) for step in steps]
        return page(
            "report.html", statement=explained(self.sql, rewritten, found, redact), no_clause=NO_CLAUSE, counts=counts,
            sample=(list(map(redact, frame.columns)), [list(map(_shown, row)) for row in taken]), partitions=partitions, variables=variables, picture=picture,
            physical=redact(physical), steps=shown, jobs=self.jobs, notes=list(map(redact, self.notes)), versions=f"sparkcep {__version__}, Spark {self.spark.version}",
        )

    def _timed(self, what: str, work: Callable[[], Any], *, extra: bool = True) -> Any:
        began = time.perf_counter()
        out = work()
        self.jobs.append((what, f"{time.perf_counter() - began:.2f}", "only for this report" if extra else "the statement itself"))
        return out

    # -- the run ----------------------------------------------------------------------------------------------

    def _steps(self, frame: DataFrame) -> list[_Step]:
        """Returns the plan that filled the cache, with Spark's metrics of each node."""
        if is_connect(self.spark):
            self.notes.append("Rows of single steps are not known over Spark Connect.")
            return []
        return [_step(depth, node) for depth, node in nodes(frame._jdf.queryExecution().executedPlan())]

    def _checks(self, frame: DataFrame) -> list[tuple[str, int | str]]:
        """Returns the totals of the checks of clauses with BUDGET."""
        if is_connect(self.spark):
            return []
        out: list[tuple[str, int | str]] = []
        for one in budget_totals(frame):
            out += [("checks", one.checks), ("checks left out", one.left_out), ("rows with checks left out", one.rows), ("complete matches", one.complete)]
            if one.clock:
                out += [("clock of the interval", one.clock), ("blocks of rows", one.blocks), ("late blocks", one.late_blocks)]
                out += [("checks of a block", f"{one.least} to {one.greatest}")] if one.greatest else []
            out += [("histories replaced", one.refills)] if one.refills else []
            out += [("coverage of those rows", f"{one.coverage:.3f}")] if one.coverage < 1 else []
        return out

    # -- the result -------------------------------------------------------------------------------------------

    def _partitions(self, frame: DataFrame, roles: _Roles) -> _Table | None:
        if not roles.keys:
            self.notes.append("Matches are not counted by partition: the clause lacks PARTITION BY, or the result lacks its columns, each with its own name.")
            return None
        what = "matches" if roles.match or (roles.one_row and roles.only_matches) else "rows"
        if what == "rows":
            self.notes.append("Rows, not matches, are counted by partition: the result lacks a column with MATCH_NUMBER().")
        counted = _most(frame, roles, PARTITIONS)
        rows = self._timed(f"{what} by partition, from the cache", counted.collect)
        return [*roles.keys, what], [(*map(_shown, row[:-1]), row[-1]) for row in rows]

    def _matches(self, frame: DataFrame, roles: _Roles | None, partitions: _Table | None) -> list[tuple[str, int]]:
        """Returns the number of matches if the result numbers them and has several rows per match."""
        if roles is None or roles.one_row or not roles.match or len(roles.keys) < roles.parted:
            return []
        if partitions is not None and len(partitions[1]) < PARTITIONS:
            return [("matches", sum(int(row[-1]) for row in partitions[1]))]  # the list of partitions is complete
        found = frame.where(_column(roles.match).isNotNull()).select(*map(_column, (*roles.keys, roles.match))).distinct()
        return [("matches", self._timed("number of matches, from the cache", found.count))]

    def _variables(self, frame: DataFrame, roles: _Roles) -> _Table | None:
        if not roles.variable or roles.one_row:
            self.notes.append("Rows are not counted by variable: that needs ALL ROWS PER MATCH and a measure CLASSIFIER().")
            return None
        counted = frame.groupBy(_column(roles.variable)).agg(F.count(F.lit(1)).alias("__n")).orderBy(F.desc("__n"), _column(roles.variable))
        rows = self._timed("rows by variable, from the cache", counted.collect)
        return [roles.variable, "rows"], [(_shown(v), n) for v, n in rows]

    # -- the picture ------------------------------------------------------------------------------------------

    def _picture(self, frame: DataFrame, item: Rewritten, roles: _Roles) -> str:
        try:
            return self._drawn(frame, item, roles)
        except _NoPicture as reason:
            self.notes.append(f"No picture of matches: {reason}.")
            return ""

    def _drawn(self, frame: DataFrame, item: Rewritten, roles: _Roles) -> str:
        spans = roles.one_row
        for applies, why in (
            (importlib.util.find_spec("matplotlib") is None, "matplotlib is not installed (pip install 'sparkcep[demo]')"),
            (not roles.order, "it needs an ORDER BY that begins with a column"),
            (item.plan.partition and not roles.keys, "the columns of PARTITION BY are not all in the result, or are expressions"),
            (spans and not roles.only_matches, "the rows of the result are not matches alone"),
            (spans and not (roles.start and roles.end), f"with ONE ROW PER MATCH it needs measures FIRST({roles.order}) and LAST({roles.order})"),
            (not spans and not (roles.match and roles.variable), "with ALL ROWS PER MATCH it needs measures MATCH_NUMBER() and CLASSIFIER()"),
        ):  # fmt: skip
            if applies:
                raise _NoPicture(why)
        source = self._series(item) if spans else frame
        y = _measured(source, item.plan, roles)
        rows = _of_partitions(source, frame, roles)
        what = "rows of the clause's input to draw" if spans else "rows to draw, from the cache"
        fetched = self._timed(what, lambda: rows.select(*map(_column, _distinct(roles.order, y, *roles.keys, *roles.marks))).limit(DRAWN + 1).toPandas())
        if len(fetched) > DRAWN:
            raise _NoPicture(f"the partitions with most matches have more than {DRAWN:,} rows")
        if fetched.empty:
            raise _NoPicture("the result is empty")
        more: dict[str, Any] = {"by": list(roles.keys) or None, "panels": PANELS}
        if spans:
            own = _of_partitions(frame, frame, roles).select(*map(_column, _distinct(roles.start, roles.end, *roles.keys)))
            matches = self._timed("matches to draw, from the cache", lambda: own.limit(DRAWN + 1).toPandas())
            if len(matches) > DRAWN:
                raise _NoPicture(f"the partitions with most matches have more than {DRAWN:,} matches")
            more |= {"matches": matches, "start": roles.start, "end": roles.end}
        else:
            more |= {"match": roles.match, "variable": roles.variable, "kind": roles.kind or None}
        from sparkcep.draw.matches import plot

        out = io.BytesIO()
        try:
            plot(fetched, roles.order, y, **more).savefig(out, dpi=90)
        except Exception as error:  # matplotlib raises many exception types, and the page does not need the picture
            raise _NoPicture(f"drawing it failed ({type(error).__name__}: {str(error)[:_CELL]})") from error
        return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode("ascii")

    def _series(self, item: Rewritten) -> DataFrame:
        try:
            return sql_in(self.spark, f"SELECT * FROM {item.source}")
        except AnalysisException:
            raise _NoPicture("the clause's input cannot be read by itself (it names a CTE or another part of the statement)") from None


class _NoPicture(Exception):
    """The matches cannot be drawn. The message says why."""


@dataclass(frozen=True)
class _Roles:
    """The columns of the result by their role. A name is "" if no column has the role.

    Attributes:
        keys: the columns of PARTITION BY; empty if any is missing from the result.
        parted: the number of PARTITION BY keys.
        order: the first ORDER BY column.
        match: a measure MATCH_NUMBER().
        variable: a measure CLASSIFIER().
        kind: a measure of leaf kind ``kind``.
        start: a measure with the first row's value of ``order``.
        end: a measure with the last row's value of ``order``.
        one_row: whether the clause returns one row per match.
        only_matches: whether it then returns nothing else, such as unfinished matches and changes.
    """

    keys: tuple[str, ...]
    parted: int
    order: str
    match: str
    variable: str
    kind: str
    start: str
    end: str
    one_row: bool
    only_matches: bool

    @property
    def marks(self) -> tuple[str, ...]:
        return () if self.one_row else tuple(c for c in (self.match, self.variable, self.kind) if c)

    @staticmethod
    def of(plan: Plan, frame: DataFrame) -> _Roles:
        leaves = dict(plan.leaves)
        present = _distinguished(frame)
        measures = {name: leaves[text] for name, text in plan.outputs if text in leaves and name in present}
        order = plan.order[0] if plan.order and plan.order[0].plain else None
        texts = dict(plan.inputs)

        def measure(test: Callable[[LeafSpec], bool]) -> str:
            return next((name for name, spec in measures.items() if test(spec)), "")

        def at_end(spec: LeafSpec, kind: str) -> bool:
            return spec.kind == kind and (spec.logical, spec.physical) == (0, 0)

        def ordered(which: str) -> Callable[[LeafSpec], bool]:
            # the value of the first or last row, even if the input renamed the column
            return lambda spec: at_end(spec, "nav") and spec.which == which and order is not None and texts.get(spec.column) == texts[order.column]

        names = tuple(key.name for key in plan.partition if key.plain and key.name in present)
        return _Roles(
            keys=names if len(names) == len(plan.partition) else (),
            parted=len(plan.partition),
            order=order.name if order else "",
            match=measure(lambda spec: spec.kind == "mno"),
            variable=measure(lambda spec: at_end(spec, "cls")),
            kind=measure(lambda spec: spec.kind == "kind"),
            start=measure(ordered("F")),
            end=measure(ordered("L")),
            one_row=plan.rows == ONE_ROW,
            only_matches=_only_matches(plan),
        )


def _measured(source: DataFrame, plan: Plan, roles: _Roles) -> str:
    """Returns the column to draw: a number that DEFINE or MEASURES read, otherwise any number. Raises _NoPicture."""
    kinds = {f.name: f.dataType for f in source.schema.fields if f.name in _distinguished(source)}
    numbers = [n for n, kind in kinds.items() if isinstance(kind, NumericType) and n not in (roles.order, *roles.keys, *roles.marks)]
    if not isinstance(kinds.get(roles.order), (NumericType, DateType, TimestampType, TimestampNTZType)):
        raise _NoPicture(f"{roles.order} is not a number, date or timestamp in the drawn rows")
    used = {t.text.strip("`").lower() for _, text in plan.inputs for t in tokenize(text)}
    used |= {t.text.strip("`").lower() for letter in plan.letters for t in tokenize(letter.text)}
    if not numbers:
        raise _NoPicture("the result lacks a numeric column other than the order")
    return next((n for n in numbers if n.lower() in used), numbers[0])


def _most(frame: DataFrame, roles: _Roles, count: int) -> DataFrame:
    """Returns the keys of the ``count`` partitions with the most matches, with their number ``__n``.

    If the result does not number matches, rows are counted.
    """
    number = F.count_distinct(_column(roles.match)) if roles.match else F.count(F.lit(1))
    keys = [_column(key) for key in roles.keys]
    return frame.groupBy(*keys).agg(number.alias("__n")).orderBy(F.desc("__n"), *keys).limit(count)


def _of_partitions(source: DataFrame, frame: DataFrame, roles: _Roles) -> DataFrame:
    """Returns the rows of ``source`` in the partitions with the most matches."""
    if not roles.keys:
        return source
    chosen = _most(frame, roles, PANELS).select(*(_column(k).alias(f"__k{i}") for i, k in enumerate(roles.keys)))
    same = functools.reduce(operator.and_, (_column(key).eqNullSafe(F.col(f"__k{i}")) for i, key in enumerate(roles.keys)))
    return source.join(F.broadcast(chosen), same, "left_semi")


def _distinguished(frame: DataFrame) -> set[str]:
    """Returns the columns whose name is unique, ignoring case."""
    low = [name.lower() for name in frame.columns]
    return {name for name in frame.columns if low.count(name.lower()) == 1}


def _column(name: str) -> Any:
    return F.col(quote(name))


def _distinct(*names: str) -> list[str]:
    return list(dict.fromkeys(names))


def _shown(value: Any) -> object:
    """Returns a value as the page's tables show it."""
    if value is None or isinstance(value, (int, float)):
        return value
    text = str(value)
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"


# -- metrics of Spark's plan ----------------------------------------------------------------------------------------

_ENGINE = ("PythonUDTF", FUNCTION)
_BLOCKS = "MatchBlocks"  # makes blocks of rows below an exchange


@dataclass(frozen=True)
class _Step:
    """A node of Spark's physical plan after it ran: its depth, and Spark's metrics of it."""

    depth: int
    name: str
    leaf: bool
    numbers: dict[str, int]

    @property
    def rows(self) -> int | None:
        """The number of rows that the node returned; None if it was not counted."""
        return next(iter(self.numbers.values()), None)


def _step(depth: int, node: Any) -> _Step:
    kind, metrics = node.getClass().getSimpleName(), node.metrics()
    ours = kind in ("MapInArrowExec", "SearchBlocksExec") and node.func().name() == FUNCTION
    numbers = {name: metrics.apply(name).value() for name in ("numOutputRows", "pythonNumRowsReceived", "shuffleRecordsWritten") if metrics.contains(name)}
    children = [node.children().apply(i) for i in range(node.children().size())]
    if "shuffleRecordsWritten" in numbers and children[0].nodeName() == _BLOCKS:  # the exchange counts blocks
        numbers["blocks"] = numbers["shuffleRecordsWritten"]
        numbers["shuffleRecordsWritten"] = children[0].metrics().apply("rowsInBlocks").value()
    return _Step(depth, node.nodeName().strip() + (f" {FUNCTION}" if ours else ""), not children, numbers)


def _counts(steps: list[_Step], plan: Plan | None) -> list[tuple[str, int]]:
    """Returns the number of rows read, of rows that reach the engine, and of matches, from the metrics of the steps."""
    read = [step.numbers["numOutputRows"] for step in steps if step.leaf and "numOutputRows" in step.numbers]
    out = [("rows read", sum(read))] if read else []
    at = next((i for i, step in enumerate(steps) if any(word in step.name for word in _ENGINE)), None)
    if at is None or plan is None:
        return out
    below = [step.numbers for step in steps[at + 1 :] if step.depth > steps[at].depth]
    sent = next((n["shuffleRecordsWritten"] for n in below if "shuffleRecordsWritten" in n), None)
    if sent is not None:
        out.append(("rows that reach the engine" + (", after the filter" if plan.prefilter else ""), sent))
    blocks = next((n["blocks"] for n in below if "blocks" in n), None)
    if blocks is not None:
        out.append(("blocks of columns that were exchanged", blocks))
    given = _given(steps, at)
    if given is not None:
        listed = plan.rows == ONE_ROW and _only_matches(plan) and not (plan.ranking and plan.ranking.top)
        out.append(("matches" if listed else "rows that the engine returns", given))
    return out


def _only_matches(plan: Plan) -> bool:
    """Whether each row of ONE ROW PER MATCH is a match, and not an unfinished match, a change, a bundle or a number of matches."""
    is_list = plan.changes is None or plan.changes.report == "NET"
    recorded = plan.approximate is not None and plan.approximate.report == "HISTORY"
    return is_list and not recorded and not plan.counting and not plan.graphing and plan.unfinished is None


def _given(steps: list[_Step], at: int) -> int | None:
    """Returns the number of rows that the engine returned in one run.

    Below an exchange the engine may have run twice, because Spark samples the ranges of ORDER BY. Its own metric then covers both
    runs. The exchange counts the rows once, if only projections, and what makes rows or blocks of them, lie in between.
    """
    depth, plain = steps[at].depth, True
    for step in reversed(steps[:at]):
        if step.depth >= depth:
            continue
        depth = step.depth
        if "shuffleRecordsWritten" in step.numbers:
            return step.numbers["shuffleRecordsWritten"] if plain else None
        plain = plain and step.name in ("Project", "ColumnarToRow", _BLOCKS)
    return steps[at].rows
