"""The engine of the table function: sorted batches go in, and rows of matches come out.

A plan's strategy names the search. This module combines a buffer, that search and the tables that make its output.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import contiguous, ranges
from sparkcep.columns.types import type_of
from sparkcep.compiler import searches as s
from sparkcep.compiler.conditions.bytecode import compile_conditions
from sparkcep.compiler.emission import ANSWERS, BEST_OF_WINDOW, CHANGE
from sparkcep.compiler.strategy import placed_strategy
from sparkcep.compiler.stream_rules import check_table
from sparkcep.engine.core import chunk as buffers
from sparkcep.engine.core.chunk import Buffer, Chunk, columns_of
from sparkcep.engine.core.effort import Limits
from sparkcep.engine.core.input_columns import check_columns, check_types, named_columns
from sparkcep.engine.core.operator import Answer, Operator, Pipeline
from sparkcep.engine.core.state_codec import StateBytes
from sparkcep.engine.core.task import Prepared, Task, memo_of, output_schema
from sparkcep.engine.core.windows import check_slide, check_window
from sparkcep.engine.output.tables import Tables
from sparkcep.engine.stages.stream_stage import StreamStage
from sparkcep.errors import LIMIT, SEMANTIC, ClauseError
from sparkcep.kernels.common import layout
from sparkcep.kernels.jit import fallback
from sparkcep.plan.json import marked, wrong
from sparkcep.plan.limits import Column
from sparkcep.plan.plan import Plan
from sparkcep.plan.reach import Reach, variables_ahead
from sparkcep.plan.records import Ranking

if TYPE_CHECKING:
    from sparkcep.engine.automaton.arc_history import JournalArcs
    from sparkcep.engine.match.enumeration import Listing


def prepare(plan: Plan, schema: pa.Schema) -> Prepared:
    """Compiles ``plan`` for input columns ``schema``.

    Raises ClauseError for conditions that are wrong for their types, and for patterns that are too complex.
    """
    named = named_columns(plan, schema)
    check_columns(named, schema)
    try:
        prepared = _prepared(plan, schema)
    except RecursionError:
        line, column, text = plan.place or (0, 0, "")
        message = "the expressions of the clause are nested too deep; compute parts of them in a subquery below the clause"
        raise ClauseError("EXPRESSION_TOO_DEEP", message, sqlstate=LIMIT, line=line, column=column, fragment=text) from None
    check_types(named, schema)
    return prepared


def _prepared(plan: Plan, schema: pa.Schema) -> Prepared:
    strategy = placed_strategy(plan)
    plan = strategy.plan
    looks = variables_ahead(plan)
    conditions = compile_conditions(plan, schema, looks)
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
        from sparkcep.compiler.registers.register_code import compile_automaton
        from sparkcep.engine.automaton.arc_rows import check_arcs
        from sparkcep.engine.automaton.lifetimes import check_lifetimes
        from sparkcep.engine.changelog.input_changes import check_changes

        check_lifetimes(plan, schema)
        check_changes(plan, schema)
        check_arcs(plan, schema)
        none = np.zeros((1, 1), dtype=np.uint8)
        compiled = compile_automaton(plan, schema)
        return Prepared(strategy, schema, conditions, out, layout.NO_MEMO, none, compiled)
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
        table = contiguous(contiguous(pa.concat_tables([kept, rows.select(self.schema.names)])).take(pa.array(places)))
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
    operator = _operator(task, endless, arcs)
    for stage in _STAGES:
        operator = stage(task, operator)
    if task.plan.compares_overall:
        from sparkcep.engine.stages.windows_with_rows import WindowsWithRows

        operator = _whole(task, WindowsWithRows(task, operator.answer).answer)
    if not _retracts(task, endless):
        return Pipeline(operator, Tables(task))
    from sparkcep.engine.output.keyed_rows import MatchTables

    return Pipeline(operator, MatchTables(task))


def _operator(task: Task, endless: bool, arcs: JournalArcs | None = None) -> Operator:
    strategy = task.prepared.strategy
    if endless and strategy.emission.unit == BEST_OF_WINDOW:
        return _window_close(task)
    if strategy.question in ANSWERS and strategy.search not in (s.PROXIES, s.BUDGETED):
        return _last_rows(task, endless)
    if strategy.search == s.COMPUTATIONS:
        return _register_runs(task, endless, arcs)
    operator = _OPERATORS[strategy.search](task, endless)
    ranking = task.plan.ranking
    # The lists of windows are compared if all rows of the partition are there.
    return operator if ranking is None or ranking.changes is None else _whole(task, operator.answer)


def load_operators() -> None:
    """Imports all operators and stages, for a process that is forked later."""
    for name in (
        "automaton.arc_history", "budget.best_effort_stream", "changelog.changelog", "frontier.cheapest_per_state", "match.backtrack", "stages.retractions",
        "stream.sequential_window_close", "topk.topk_rows", "topk.topk_sequences", "topk.topk_sides",
    ):  # fmt: skip
        importlib.import_module(f"sparkcep.engine.{name}")


# -- operators: each is imported where a plan asks for it -------------------------------------------------------------


def _adjacent(task: Task, endless: bool) -> Operator:
    from sparkcep.engine.match.backtrack import Backtracking
    from sparkcep.engine.match.enumeration import DeferringSearch, Enumeration

    return Enumeration(task, DeferringSearch(task, functools.partial(Backtracking, task)))


def _walk(task: Task, endless: bool) -> Operator:
    from sparkcep.engine.match.enumeration import DeferringSearch, Enumeration
    from sparkcep.engine.match.gap_walk import GapWalk

    if task.plan.unfinished is not None:
        walk = DeferringSearch(task, functools.partial(GapWalk, task))
        if endless:
            from sparkcep.engine.stream.unfinished_stream import UnfinishedStream

            return UnfinishedStream(task, walk)
        from sparkcep.engine.match.unfinished import UnfinishedMatches

        return _whole(task, UnfinishedMatches(task, walk).answer)
    early = endless and task.prepared.strategy.emission.early
    return Enumeration(task, DeferringSearch(task, functools.partial(GapWalk, task, at_once=early)))


def _listing(task: Task) -> Listing:
    """Returns a function that builds the search that lists matches, at most once."""
    from sparkcep.engine.match.gap_walk import GapWalk

    return functools.cache(functools.partial(GapWalk, task))


def _whole(task: Task, answer: Answer) -> Operator:
    """Returns the operator that answers for whole partitions."""
    from sparkcep.engine.stream.recompute import EndedPartitions, Recompute

    return Recompute(task, answer, EndedPartitions())


def _last_rows(task: Task, endless: bool) -> Operator:
    """Returns the operator that answers for each last row of a match."""
    emission, listing, held = task.prepared.strategy.emission, _listing(task), None
    if endless:
        from sparkcep.engine.stages.isolated_rows import IsolatedRows
        from sparkcep.engine.stream.recompute import HeldBack, LastRows, Recompute

        if emission.looks_behind:  # matches that are not final are held back
            walk = listing
            listing = held = functools.cache(lambda: HeldBack(walk()))
    if task.plan.approximate is None:
        from sparkcep.engine.frontier.per_last_row import PerLastRow

        answer = PerLastRow(task, listing).answer
        return Recompute(task, answer, LastRows(task, held)) if endless else _whole(task, answer)
    from sparkcep.engine.frontier.cheapest import CheapestPerLastRow
    from sparkcep.engine.stages.bundles import BESIDE_ROWS, MatchBundles, bundled
    from sparkcep.engine.stages.describe_errors import DescribeErrors

    errors = DescribeErrors(task)
    answer = CheapestPerLastRow(task, listing, errors).answer
    if endless:
        search = Recompute(task, answer, LastRows(task, held))
        return MatchBundles(IsolatedRows(task, search), errors, BESIDE_ROWS) if errors.bundling else search
    return _whole(task, bundled(answer, errors) if errors.bundling else answer)


def _cheapest_per_state(task: Task, endless: bool) -> Operator:
    from sparkcep.engine.frontier.cheapest_per_state import CheapestPerState
    from sparkcep.engine.stages.bundles import BESIDE_RUNS, MatchBundles
    from sparkcep.engine.stages.describe_errors import DescribeErrors

    errors = DescribeErrors(task)
    search = CheapestPerState(task, errors)
    return MatchBundles(search, errors, BESIDE_RUNS) if errors.bundling else search


def _ranked(task: Task, endless: bool) -> Operator:
    from sparkcep.engine.topk.topk_paths import TopkPaths
    from sparkcep.engine.topk.topk_rows import TopkRows
    from sparkcep.engine.topk.topk_sequences import TopkSequences
    from sparkcep.engine.topk.topk_sides import TopkSides

    ranking = {s.PATHS: TopkPaths, s.SEQUENCES: TopkRows, s.SIDES: TopkSides, s.STREAMS: TopkSequences}[task.prepared.strategy.search]
    return _whole(task, ranking(task, _listing(task)).answer)


def _window_close(task: Task) -> Operator:
    """Returns the operator of sliding TOP k over a stream."""
    if task.prepared.strategy.emission.sequential:
        from sparkcep.engine.match.enumeration import DeferringSearch
        from sparkcep.engine.match.gap_walk import GapWalk
        from sparkcep.engine.stream.sequential_window_close import SequentialWindowClose

        return SequentialWindowClose(task, DeferringSearch(task, functools.partial(GapWalk, task)))
    from sparkcep.engine.stream.recompute import Recompute
    from sparkcep.engine.stream.window_close import ClosedWindows

    return Recompute(task, _operator(task, False).answer, ClosedWindows(task))


def _best_effort(task: Task, endless: bool) -> Operator:
    from sparkcep.engine.stages.describe_errors import DescribeErrors

    errors = DescribeErrors(task)
    if endless:
        from sparkcep.engine.budget.best_effort_stream import BestEffortStream

        return BestEffortStream(task, errors)
    from sparkcep.engine.budget.best_effort import BestEffort

    check_table(task.plan)
    return _whole(task, BestEffort(task, errors).answer)


def _register_runs(task: Task, endless: bool, arcs: JournalArcs | None) -> Operator:
    """Returns the operator of automata, and of rows and arcs that are inserted and deleted."""
    from sparkcep.engine.automaton.register_runs import RegisterRuns

    plan = task.plan
    if arcs is not None:
        from sparkcep.engine.automaton.arc_history import DatedRegisterRuns

        return DatedRegisterRuns(task, arcs)
    if _retracts(task, endless) or (plan.changes is None and plan.arcs is None):
        search = RegisterRuns(task)
        return _whole(task, search.answer) if plan.rows == "unmatched" and not endless else search
    if plan.arcs is not None and plan.arcs.texts:
        from sparkcep.engine.automaton.dynamic_arcs import ArcTexts

        return _whole(task, ArcTexts(task, _with_changes).answer)
    return _whole(task, _with_changes(task))


def _with_changes(task: Task) -> Answer:
    """Returns the function that answers if rows or arcs are inserted and deleted."""
    from sparkcep.engine.automaton.register_runs import RegisterRuns
    from sparkcep.engine.changelog.changelog import Changelog
    from sparkcep.engine.changelog.input_changes import NetReport

    check_table(task.plan)
    changes = task.plan.changes
    return (Changelog if changes is not None and changes.report == "CHANGES" else NetReport)(task, RegisterRuns(task)).answer


# The searches whose plans do not ask for last rows. A new search is a line here.
_OPERATORS = {
    s.ADJACENT: _adjacent, s.WALK: _walk, s.CONJUNCTION: _walk, s.PROXIES: _cheapest_per_state, s.PATHS: _ranked, s.SEQUENCES: _ranked, s.SIDES: _ranked,
    s.STREAMS: _ranked, s.BUDGETED: _best_effort,
}  # fmt: skip


# -- stages: each decides whether a plan needs it ---------------------------------------------------------------------


def _unmatched(task: Task, operator: Operator) -> Operator:
    strategy, asked = task.prepared.strategy, task.plan.rows == "unmatched"
    if strategy.search != s.PROXIES and not (asked and (strategy.question in ANSWERS or strategy.search == s.COMPUTATIONS)):
        return operator
    from sparkcep.engine.stages.unmatched import UnmatchedRows

    return UnmatchedRows(operator, asked)


def _described(task: Task, operator: Operator) -> Operator:
    if task.plan.approximate is None:
        return operator
    from sparkcep.engine.stages.describe_errors import Described, DescribeErrors

    return Described(operator, DescribeErrors(task))


# The stages around any operator, from the inside to the outside. A new stage is a line here.
_STAGES = (_unmatched, _described)


def _retracts(task: Task, endless: bool) -> bool:
    """Returns whether matches of a stream may be retracted (REPORT CHANGES)."""
    return endless and task.prepared.strategy.emission.unit == CHANGE


def stream_stage(engine: OpenPartitions, schema: pa.Schema, time: str) -> StreamStage:
    """Returns the stage between the searches of a stream's micro-batches and its output.

    Args:
        engine: the engine.
        schema: all columns of the rows.
        time: the column of their time.
    """
    if not _retracts(engine.task, True):
        return StreamStage()
    from sparkcep.engine.stages.retractions import Retractions

    return Retractions(engine.task, engine.pipeline.sink, schema, time)


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
