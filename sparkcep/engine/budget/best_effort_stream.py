"""Best-effort search under BUDGET over a stream (RC-ACEP, VLDB 2016).

Each row is searched once, by the runs that earlier rows have left. These are saved between calls
(:mod:`sparkcep.engine.budget.saved_runs`), together with the rows of one window. Runs are restored from these rows, and COMPLETE(),
CHECKS_LEFT_OUT() and COVERAGE() range over them.

A match is emitted with its last row. A bundle is emitted when no further match point can join it. Matches that are numbered in the
order of their first rows are emitted when no future match can begin earlier.

If a negation looks at rows after a match, a row is searched when the window that begins with it has ended. Whether the match is
valid may decide which candidates are tried at the following rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import ranges
from sparkcep.engine.budget.best_effort import BestEffort, BestEffortSearch, row_order
from sparkcep.engine.budget.feedback import NO_FEEDBACK
from sparkcep.engine.budget.saved_runs import (
    ALLOWED,
    FEEDBACK,
    REFILL_LISTS,
    BudgetState,
    ShortRows,
    budget_schema,
    pending,
    with_rows,
)
from sparkcep.engine.core.chunk import Chunk, Retained, Saved
from sparkcep.engine.core.matches import MatchBatch
from sparkcep.engine.core.operator import NOTHING_DUE, Found, Operator, RowsAtWatermark, Step
from sparkcep.engine.core.task import Task
from sparkcep.engine.stages.bundles import NO_BUNDLES, Bundles
from sparkcep.engine.stages.describe_errors import DescribeErrors
from sparkcep.kernels.common import layout
from sparkcep.kernels.common.run_chains import NONE
from sparkcep.kernels.frontier import traceback as finding
from sparkcep.plan.extend.approx import ALL
from sparkcep.plan.reach import Reach


class BestEffortStream(Operator):
    """The operator of the best-effort search. It resumes from saved runs.

    Attributes:
        behind: whether a negation looks at rows after a match.
        in_turn: whether matches wait because they are numbered in the order of their first rows.
        neighbours: whether measures read neighbours of a match's rows.
    """

    initial = BudgetState()

    def __init__(self, task: Task, reporter: DescribeErrors) -> None:
        self.task, self.reporter = task, reporter
        self.budgeted = BestEffort(task, reporter)
        net, agents = self.budgeted.net, self.budgeted.explorer
        agent_states = agents.agents(1).agent_states if agents is not None else np.zeros((0, 0), dtype=np.int64)
        kinds = (int(net.places.max(initial=0)) + 1) * max(len(self.budgeted.costs), 1)
        arrays = (net.edges, net.accept_end, net.places, net.costs, agent_states)
        pace = self.budgeted.approx.budget.pace if self.budgeted.approx.budget is not None else None
        further = [FEEDBACK] * (pace is not None and pace.per == "ROW") + [ALLOWED] * (pace is not None and any(leaf.spec.kind == "allowed" for leaf in task.plan.leaves))
        further += REFILL_LISTS if self.budgeted.refilling else ()
        slots = int(net.slots.max(initial=0)) + 1
        self.saves = budget_schema(arrays, self.budgeted.front.net.source, kinds, len(agent_states), task.plan.variables, tuple(further), slots)
        self.behind = task.prepared.strategy.emission.looks_behind
        # A match gets its number when no future match can begin before it.
        self.in_turn = self.budgeted.approx.report == ALL and task.plan.numbered
        # Leaves may look at neighbours of any row of a match.
        self.neighbours = any(Reach.of_measures(task.plan))

    def use(self, history: list[dict[str, Any]]) -> None:
        """Takes the rows of a new history, which chooses candidates from now on."""
        assert self.budgeted.reader is not None
        self.budgeted.reader.take(history)

    def step(self, chunk: Chunk, state: BudgetState) -> Step:
        """Searches the new rows, emits final matches, and returns the state for the next step."""
        work = _BestEffortStep(self, chunk, state)
        yield Found(chunk, work.emitted())
        return work.left()

    def ends(self, state: BudgetState, kept: RowsAtWatermark) -> np.ndarray:
        """When a partition's last kept row is dropped or one of its matches is emitted: a watermark. int64 (partitions), in
        microseconds."""
        due, time, size, watermark = np.full(len(state.rows), NOTHING_DUE), kept.time, kept.size, kept.watermark
        some = np.flatnonzero(state.rows)
        last = time[kept.end[some] - 1] + size
        due[some] = np.where(last > watermark, last, NOTHING_DUE)
        ends = time[state.held.best.events[:, layout.E_START]] + size - 1 if self.in_turn else time[state.held.last] + size
        np.minimum.at(due, state.held.parts, np.where(ends > watermark, ends, NOTHING_DUE))
        if self.behind:  # the next unsearched row, or the next row whose window ends
            at = kept.first + np.maximum(state.known, kept.ended())
            waits = np.flatnonzero(at < kept.end)
            due[waits] = np.minimum(due[waits], time[at[waits]] + size - 1)
        return due


class _BestEffortStep:
    """One step over a chunk.

    Attributes:
        held: matches that are not emitted yet.
        number: int64 (partitions), the number of the last emitted match.
    """

    def __init__(self, stream: BestEffortStream, chunk: Chunk, state: BudgetState) -> None:
        self.stream, self.chunk, self.resumed = stream, chunk, state
        self.budgeted, self.reporter = stream.budgeted, stream.reporter
        self.search = BestEffortSearch(self.budgeted, chunk, state)
        self.places = self.reporter.places(chunk)
        self.held = state.held.moved(np.arange(chunk.parts), state.rows_in(chunk).__getitem__)
        self.number = state.number.copy()

    def emitted(self) -> MatchBatch:
        """Searches the new rows and returns the matches that are final. The others are left in ``held``."""
        search = self.search
        (found,) = search.rounds()
        self.budgeted.count(search)
        if self.budgeted.approx.report == ALL:
            found = found.chosen(row_order(found))
        if not self.reporter.bundling and not self.stream.in_turn and not len(self.held):
            last = finding.last_rows(found.events, found.rows)
            self.budgeted.allow(found, search)
            self.budgeted.say(found, *search.left_out(search.since[last], last + 1))
            return self._numbered(found)
        held = self._bundles(found) if self.reporter.bundling else self._matches(found)
        self.held, done = held.split(self._waits(held))
        found = done.matches(self.reporter, self.chunk) if self.reporter.bundling else done.best
        left, coverage = (found.by_event[name].to_numpy() if len(done) else np.zeros(0) for name in ("left_out", "coverage"))
        if not self.budgeted.timed:
            self.budgeted.allow(found, search)
        self.budgeted.say(found, left.astype(np.int64, copy=False), coverage if len(search.ground.coverage) else coverage[:0])
        return self._numbered(found)

    def _numbered(self, found: MatchBatch) -> MatchBatch:
        """Numbers matches onwards from the last emitted one of their partition."""
        found = found.numbered(self.number)
        np.add.at(self.number, found.events[:, layout.E_PART], 1)
        return found

    def _matches(self, found: MatchBatch) -> Bundles:
        """All matches that are not emitted yet, in order of their rows. Each is a bundle of its own."""
        points = finding.last_rows(found.events, found.rows)
        left, coverage = self.search.left_out(self.search.since[points], points + 1)
        new = pending(found, self.reporter.missing(found.events, found.paths), left, coverage if len(coverage) else np.ones(len(left)), self._allowed(found))
        both = self.held.joined(Bundles(new, points, points, np.ones(len(points), dtype=np.int64)))
        return both.chosen(row_order(both.best))

    def _bundles(self, found: MatchBatch) -> Bundles:
        """Extends the pending bundles by the new match points, or begins new ones."""
        search, before = self.search, self.held
        groups = before.grouped(replace(found, paths=found.paths[:0]), self.places, self.budgeted.net.edges)
        if not len(groups.best):
            return NO_BUNDLES
        new = groups.best >= len(before)
        chosen = found.chosen(groups.best[new] - len(before))
        chosen.by_event["missing"] = self.reporter.missing(chosen.events, chosen.paths)
        chosen.by_event["allowed"] = pa.array(self._allowed(chosen))
        best = before.best.joined(replace(chosen, paths=found.paths[:0])).chosen(np.where(new, len(before) + np.cumsum(new) - 1, groups.best))
        # Checks and coverage count from the window that ends at the first match point up to the last one.
        begin, known = search.since[groups.first], groups.head < len(before)  # a pending bundle continues
        begin[known] = before.last[groups.head[known]] + 1
        left, coverage = search.left_out(begin, groups.last + 1)
        coverage = coverage if len(coverage) else np.ones(len(left))
        if known.any():
            left[known] += before.best.by_event["left_out"].to_numpy()[groups.head[known]]
            coverage[known] = np.minimum(coverage[known], before.best.by_event["coverage"].to_numpy()[groups.head[known]])
        return Bundles(pending(best, best.by_event["missing"], left, coverage, best.by_event["allowed"].to_numpy()), groups.first, groups.last, groups.sizes)

    def _allowed(self, found: MatchBatch) -> np.ndarray:
        """The checks allowed at the last row of each match; 0 if nothing asks for them. int64 (matches)."""
        self.budgeted.allow(found, self.search)
        return found.by_event["allowed"].to_numpy() if "allowed" in found.by_event else np.zeros(len(found.events), dtype=np.int64)

    def _waits(self, held: Bundles) -> np.ndarray:
        """Which of the pending matches are not final. bool (matches)."""
        search, chunk = self.search, self.chunk
        if self.reporter.bundling:
            return held.may_grow(self.stream.task.plan.windows[0], chunk, self.places, np.maximum(search.begin, chunk.offsets[1:] - search.ahead))
        return self.stream.in_turn & chunk.going[held.parts] & (held.best.events[:, layout.E_START] >= search.over[held.parts])

    def left(self) -> Saved:
        """The state of the partitions that still grow, and the rows that their future rows may need."""
        chunk, state, search, held = self.chunk, self.resumed, self.search, self.held
        parts = np.flatnonzero(chunk.going)
        low, high = chunk.offsets[parts], chunk.offsets[parts + 1]
        resume = np.clip(search.opens[parts, layout.O_START], low, high)
        begin = search.near[parts]
        looked = np.unique(np.concatenate([held.best.rows, held.first, held.last]))
        first = begin
        if self.stream.neighbours:
            first = np.minimum(begin, chunk.first_of(looked)[parts])
        first = np.maximum(low + state.lone[parts], first - self.stream.task.back)
        kept = Retained(chunk, first, looked)
        lone = kept.within(first)
        idle = chunk.going & (search.opens[:, layout.O_START] <= search.begin)
        lists, (intervals, steps) = state.unmeasured(search.kept, idle), search.measured_in
        retained = np.zeros(chunk.parts, dtype=np.int64)
        retained[parts] = first
        # A match point before the last window is not retained, and the bundle that it ended is closed.
        lists = with_rows(lists, lambda rows, of: np.where(rows >= retained[of], kept.moved(rows), NONE))
        lists = lists._replace(until=lists.until[np.concatenate([[0], parts + 1])], saved=lists.saved[parts])
        return Saved(
            BudgetState(
                rows=kept.sizes,
                known=kept.within(resume),
                next=(state.next - state.known)[parts] + resume - low,
                number=self.number[parts],
                lone=lone,
                intervals=np.where(idle, state.intervals, intervals)[parts],
                steps=np.where(idle, state.steps, steps)[parts],
                worn=kept.within(np.maximum(begin, first)),
                floors=search.floors(parts),
                places=chunk.positions[kept.rows[ranges(kept.begins, lone)]],
                short=self._short(kept, begin, high),
                lists=lists,
                held=held.moved(kept.numbers, kept.moved),
                variables=self.stream.task.plan.variables,
                feedback=search.feedback.after[parts] if search.feedback.wanted else NO_FEEDBACK,
            ),
            kept.rows,
            rescan=False,
        )

    def _short(self, kept: Retained, begin: np.ndarray, high: np.ndarray) -> ShortRows:
        """The rows of the last window where checks were left out."""
        ground = self.search.ground
        rows = ranges(begin, high - begin)
        rows = rows[ground.left[rows] > 0]
        return ShortRows(kept.moved(rows), ground.left[rows], ground.coverage[rows] if len(ground.coverage) else ground.coverage)

