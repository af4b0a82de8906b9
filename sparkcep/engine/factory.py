"""The engine behind the table function: sorted batches go in, and rows of matches come out.

A plan's strategy names the search. This module combines a buffer, that search and the tables that make its output.
"""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import ranges
from sparkcep.columns.types import type_of
from sparkcep.compiler import searches as s
from sparkcep.compiler.conditions.bytecode import compile_conditions
from sparkcep.compiler.emission import ANSWERS, BEST_OF_WINDOW, BUNDLE, CHANGE, RECOMPUTE
from sparkcep.compiler.registers.register_code import compile_automaton
from sparkcep.compiler.strategy import placed_strategy
from sparkcep.compiler.stream_rules import check_table
from sparkcep.engine.automaton.arc_history import DatedRegisterRuns, JournalArcs
from sparkcep.engine.automaton.arc_rows import check_arcs
from sparkcep.engine.automaton.dynamic_arcs import ArcTexts
from sparkcep.engine.automaton.lifetimes import check_lifetimes
from sparkcep.engine.automaton.register_runs import RegisterRuns
from sparkcep.engine.budget.best_effort import BestEffort
from sparkcep.engine.budget.best_effort_stream import BestEffortStream
from sparkcep.engine.changelog.changelog import Changelog
from sparkcep.engine.changelog.input_changes import NetReport, check_changes
from sparkcep.engine.core import chunk as buffers
from sparkcep.engine.core.chunk import Buffer, Chunk, columns_of
from sparkcep.engine.core.effort import Limits
from sparkcep.engine.core.input_columns import check_columns, check_types
from sparkcep.engine.core.operator import Answer, FinalMatches, Operator, Pipeline, StreamStage
from sparkcep.engine.core.state_codec import StateBytes
from sparkcep.engine.core.task import Prepared, Task, memo_of, output_schema
from sparkcep.engine.core.windows import check_slide, check_window
from sparkcep.engine.frontier.cheapest import CheapestPerLastRow
from sparkcep.engine.frontier.cheapest_per_state import CheapestPerState
from sparkcep.engine.frontier.per_last_row import PerLastRow
from sparkcep.engine.match.backtrack import Backtracking
from sparkcep.engine.match.enumeration import DeferringSearch, Enumeration, Listing, WholePartitions
from sparkcep.engine.match.gap_walk import GapWalk
from sparkcep.engine.output.keyed_rows import MatchTables
from sparkcep.engine.output.tables import Tables
from sparkcep.engine.stages.bundles import BESIDE_ROWS, BESIDE_RUNS, MatchBundles, bundled
from sparkcep.engine.stages.describe_errors import Described, DescribeErrors
from sparkcep.engine.stages.isolated_rows import IsolatedRows
from sparkcep.engine.stages.retractions import Retractions
from sparkcep.engine.stages.unmatched import UnmatchedRows
from sparkcep.engine.stream.recompute import HeldBack, Recompute
from sparkcep.engine.stream.sequential_window_close import SequentialWindowClose
from sparkcep.engine.stream.window_close import WindowClose
from sparkcep.engine.topk.topk_paths import TopkPaths
from sparkcep.engine.topk.topk_rows import TopkRows
from sparkcep.engine.topk.topk_sides import TopkSides
from sparkcep.errors import LIMIT, SEMANTIC, ClauseError
from sparkcep.kernels.common import layout
from sparkcep.kernels.jit import fallback
from sparkcep.plan.json import marked, wrong
from sparkcep.plan.limits import Column
from sparkcep.plan.plan import Plan
from sparkcep.plan.reach import Reach, variables_ahead
from sparkcep.plan.records import Ranking


def prepare(plan: Plan, schema: pa.Schema) -> Prepared:
    """Compiles ``plan`` for input columns ``schema``.

    Raises ClauseError for conditions that are wrong for their types, and for patterns that are too complex.
    """
    check_columns(plan, schema)
    try:
        prepared = _prepared(plan, schema)
    except RecursionError:
        line, column, text = plan.place or (0, 0, "")
        message = "the expressions of the clause are nested too deep; compute parts of them in a subquery below the clause"
        raise ClauseError("EXPRESSION_TOO_DEEP", message, sqlstate=LIMIT, line=line, column=column, fragment=text) from None
    check_types(plan, schema)
    return prepared


def _prepared(plan: Plan, schema: pa.Schema) -> Prepared:
    strategy = placed_strategy(plan)
    plan = strategy.plan
    looks = variables_ahead(plan)
    conditions = compile_conditions(
        plan.conditions, plan.variables, schema, plan.ansi, plan.places, adjacent=plan.adjacent, zone=plan.zone, months=plan.months, looks=looks,
    )
    out = output_schema(plan, schema)
    if plan.ranking and plan.ranking.by_engine and strategy.search != s.PATHS:
        raise wrong("it takes ranks from a search that computes none")
    if plan.ranking:
        _check_objectives(plan, plan.ranking, schema, out)
    if plan.selection:
        for window in plan.windows:
            check_window(window, schema)
        if plan.slide:
            check_slide(plan.windows[0], plan.slide, schema)
    if plan.automaton is not None:
        check_lifetimes(plan, schema)
        check_changes(plan, schema)
        check_arcs(plan, schema)
        none = np.zeros((1, 1), dtype=np.uint8)
        return Prepared(strategy, schema, conditions, out, layout.NO_MEMO, none, compile_automaton(plan.automaton, schema, plan.ansi, plan.zone))
    return Prepared(strategy, schema, conditions, out, *memo_of(strategy, conditions), looks=looks)


def _check_objectives(plan: Plan, ranking: Ranking, schema: pa.Schema, out: pa.Schema) -> None:
    types = [out.field(name).type for name in ranking.objectives if name in out.names]
    for t in map(type_of, [*types, *(schema.field(name).type for name, column in marked(Column, plan) if column.kinds == "number" and name)]):
        if not (t.is_number or t.kind == "null"):
            line, column, text = ranking.place or (0, 0, "")
            raise ClauseError("PREF", f"PREF needs a number, not {t}; rank by a number made of it", sqlstate=SEMANTIC, line=line, column=column, fragment=text)


class Engine:
    """Takes the sorted batches of one task, and yields tables of output rows. It is used once.

    ``task.ran`` has the names of the searches that ran.
    """

    def __init__(self, task: Task, buffer: Buffer, pipeline: Pipeline) -> None:
        self.task, self.buffer, self.pipeline = task, buffer, pipeline
        self.state = pipeline.operator.initial

    @property
    def prepared(self) -> Prepared:
        return self.task.prepared

    def push(self, batch: pa.RecordBatch) -> Iterator[pa.Table]:
        """Takes a batch, and yields the output that is now final."""
        if batch.num_rows and self.buffer.add(batch):
            yield from self._search(False)

    def finish(self) -> Iterator[pa.Table]:
        """Yields the remaining output: there are no more rows."""
        if self.buffer.rows:
            yield from self._search(True)

    def _search(self, last: bool) -> Iterator[pa.Table]:
        chunk = self.buffer.chunk(self.state.positions, last)
        with fallback.over(chunk.rows):
            left = yield from self.pipeline.step(chunk, self.state)
        self.state = left.state
        self.buffer.keep(chunk, left)


class OpenPartitions:
    """Searches many partitions whose rows arrive little by little. Between two calls each partition's state is bytes."""

    def __init__(self, prepared: Prepared, schema: pa.Schema, limits: Limits | None = None, *, endless: bool = False, arcs: JournalArcs | None = None) -> None:
        """Prepares the search.

        Args:
            prepared: the compiled plan.
            schema: all columns of the rows that arrive.
            limits: the limits of the engine.
            endless: partitions never end, so answers for whole partitions are emitted window by window.
            arcs: the arcs of ARCS FROM, which arrive separately from the rows.
        """
        self.task, self.schema = Task.of(prepared, limits), schema
        if endless:
            self.task.back = min(self.task.back, Reach.of(self.task.plan).back)
        self.pipeline = _pipeline(self.task, endless, arcs)
        self.bytes = StateBytes(schema, self.pipeline.operator.saves)

    def advance(self, rows: pa.Table, sizes: np.ndarray, states: Sequence[bytes], going: np.ndarray) -> Generator[pa.Table, None, list[bytes]]:
        """Yields the output that is now final, and returns the state of each partition for the next call.

        Args:
            rows: the new rows, partition by partition, in order.
            sizes: how many rows each partition has. int64.
            states: the states that the last call returned, b"" for a new partition.
            going: whether more rows may arrive. bool (partitions).

        Raises:
            MatchRuntimeError: a state cannot be read, or the search fails.
        """
        chunk, state = self.joined(rows, sizes, states, going)
        if not chunk.rows:
            return [state if goes else b"" for state, goes in zip(states, going.tolist(), strict=True)]
        with fallback.over(chunk.rows):
            left = yield from self.pipeline.step(chunk, state)
        written = iter(self.bytes.written(left.state, chunk.table.take(pa.array(left.rows))))
        return [next(written) if goes else b"" for goes in going.tolist()]

    def joined(
        self, rows: pa.Table, sizes: np.ndarray, states: Sequence[bytes] | pa.Array, going: np.ndarray, at: np.ndarray | None = None,
    ) -> tuple[Chunk, Any]:
        """Returns a chunk with each partition's retained rows followed by its new rows, and the partitions' state.

        ``at`` are the places of the new rows in ``rows``, if ``rows`` has other rows, too. int64.
        """
        state, kept = self.bytes.read(states)
        old = state.rows
        both = np.stack([old, sizes], axis=1).ravel()
        first = np.stack([np.cumsum(old) - old, kept.num_rows + np.cumsum(sizes) - sizes], axis=1).ravel()
        places = ranges(first, both)
        if at is not None:
            came = places >= kept.num_rows
            places[came] = kept.num_rows + at[places[came] - kept.num_rows]
        table = pa.concat_tables([kept, rows.select(self.schema.names)]).combine_chunks().take(pa.array(places)).combine_chunks()
        offsets = np.concatenate([[0], np.cumsum(old + sizes)])
        return Chunk(table, columns_of(table, self.task.prepared.input_schema.names), offsets, state.positions, going), state


def engine_for(prepared: Prepared, chunk_rows: int | None = None, limits: Limits | None = None) -> Engine:
    """Returns the engine for a plan's strategy. ``chunk_rows`` is how many rows it waits for."""
    task = Task.of(prepared, limits)
    wanted = chunk_rows or (buffers.PAIRED_CHUNK_ROWS if prepared.conditions.pairs else buffers.CHUNK_ROWS)
    return Engine(task, Buffer(prepared.input_schema.names, prepared.plan.keys, wanted), _pipeline(task))


def _pipeline(task: Task, endless: bool = False, arcs: JournalArcs | None = None) -> Pipeline:
    """Returns the pipeline that the strategy names.

    ``endless``: partitions never end. ``arcs``: the arcs of ARCS FROM.
    """
    plan, strategy = task.plan, task.prepared.strategy
    errors = DescribeErrors(task) if plan.approximate is not None else None
    operator = _resuming(task, errors, arcs) if endless else _answering(task, errors)
    if strategy.search == s.PROXIES or (plan.rows == "unmatched" and (strategy.question in ANSWERS or strategy.search == s.COMPUTATIONS)):
        operator = UnmatchedRows(operator, plan.rows == "unmatched")
    if errors is not None:
        operator = Described(operator, errors)
    # over a stream the changes are derived by stages/retractions
    return Pipeline(operator, MatchTables(task) if endless and strategy.emission.unit == CHANGE else Tables(task))


def _resuming(task: Task, errors: DescribeErrors | None, arcs: JournalArcs | None) -> Operator:
    """Returns the operator for partitions that never end."""
    strategy = task.prepared.strategy
    emission = strategy.emission
    if arcs is not None:
        return DatedRegisterRuns(task, arcs)
    if emission.unit == CHANGE or (strategy.search == s.COMPUTATIONS and task.plan.changes is None):
        return RegisterRuns(task)
    if emission.unit == BEST_OF_WINDOW and emission.sequential:
        return SequentialWindowClose(task, GapWalk(task))
    if emission.unit == BEST_OF_WINDOW:
        return WindowClose(task, _answering(task, errors).answer)
    if strategy.search == s.BUDGETED:
        return BestEffortStream(task, errors)
    if emission.resume == RECOMPUTE:
        listing, held = _listing(task), None
        if emission.looks_behind:  # matches that are not final are held back
            listing = held = functools.cache(lambda: HeldBack(GapWalk(task)))
        if errors is None:
            return Recompute(task, PerLastRow(task, listing).answer, held)
        best = Recompute(task, CheapestPerLastRow(task, listing, errors).answer, held)
        return MatchBundles(IsolatedRows(task, best), errors, BESIDE_ROWS) if emission.unit == BUNDLE else best
    return _answering(task, errors, emission.early)


def stream_stage(engine: OpenPartitions, schema: pa.Schema, time: str) -> StreamStage:
    """Returns the stage between the searches of a stream's micro-batches and its output.

    Args:
        engine: the engine.
        schema: all columns of the rows.
        time: the column of their time.
    """
    task = engine.task
    return Retractions(task, engine.pipeline.sink, schema, time) if task.prepared.strategy.emission.unit == CHANGE else FinalMatches()


def _listing(task: Task) -> Listing:
    """Returns a function that builds the search that lists matches, at most once."""
    return functools.cache(functools.partial(GapWalk, task))


def _answering(task: Task, errors: DescribeErrors | None, early: bool = False) -> Any:
    """Returns the operator that answers a plan over a table."""
    strategy = task.prepared.strategy
    listing = _listing(task)
    if strategy.search == s.BUDGETED:
        return WholePartitions(task, BestEffort(task, errors).answer)
    if strategy.search == s.PROXIES:
        search = CheapestPerState(task, errors)
        return MatchBundles(search, errors, BESIDE_RUNS) if strategy.question == s.BUNDLED else search
    if strategy.question in (s.CHEAPEST, s.BY_COST, s.BUNDLED):
        best = CheapestPerLastRow(task, listing, errors).answer
        return WholePartitions(task, bundled(best, errors) if strategy.question == s.BUNDLED else best)
    if strategy.search == s.COMPUTATIONS:
        arcs = task.plan.arcs
        if task.plan.changes is not None or arcs is not None:
            return WholePartitions(task, ArcTexts(task, _with_changes).answer if arcs is not None and arcs.texts else _with_changes(task))
        search = RegisterRuns(task)
        return WholePartitions(task, search.answer) if task.plan.rows == "unmatched" else search
    if strategy.search == s.ADJACENT:
        return Enumeration(task, DeferringSearch(task, functools.partial(Backtracking, task)))
    if strategy.question in (s.COUNTED, s.GRAPH):
        return WholePartitions(task, PerLastRow(task, listing).answer)
    if strategy.search in _RANKING:
        return WholePartitions(task, _RANKING[strategy.search](task, listing).answer)
    return Enumeration(task, DeferringSearch(task, functools.partial(GapWalk, task, at_once=early)))


def _with_changes(task: Task) -> Answer:
    """Returns the function that answers if rows or arcs are inserted and deleted."""
    check_table(task.plan)
    search, changes = RegisterRuns(task), task.plan.changes
    return (Changelog if changes is not None and changes.report == "CHANGES" else NetReport)(task, search).answer


_RANKING = {s.PATHS: TopkPaths, s.SEQUENCES: TopkRows, s.SIDES: TopkSides}


def match_table(plan: Plan, table: pa.Table, chunk_rows: int | None = None) -> pa.Table:
    """Returns all output rows for a table with the plan's input columns, sorted by partition and order."""
    prepared = prepare(plan, table.schema)
    engine = engine_for(prepared, chunk_rows)
    return pa.concat_tables([prepared.output_schema.empty_table(), *match_batches(engine, table.to_batches())])


def match_batches(engine: Engine, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Pushes all batches, finishes, and yields the output."""
    for batch in batches:
        yield from engine.push(batch)
    yield from engine.finish()
