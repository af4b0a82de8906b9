"""Best-effort search (load shedding) for approximate matches under BUDGET, and for MATCH HISTORY (RC-ACEP, VLDB 2016).

:class:`BestEffort` answers whole partitions. :mod:`sparkcep.engine.budget.best_effort_stream` runs :class:`BestEffortSearch` over
partitions that still grow. Both drive :mod:`sparkcep.kernels.budget.best_effort`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import ordered_words, range_extremes, ranges
from sparkcep.compiler.liveness import live_windows
from sparkcep.compiler.net.net import E_CHECK, E_OPEN, E_PASSED, E_TARGET, E_VAR, Net
from sparkcep.compiler.searches import BUDGETED
from sparkcep.engine.budget.exploration import NO_AGENTS, Explorer
from sparkcep.engine.budget.feedback import check_clock, feedback_of
from sparkcep.engine.budget.history import NO_HISTORY, NO_UTILITIES, CandidatePlaces, Features, HistoryReader
from sparkcep.engine.budget.negation import NO_NEGATIONS, NegationRules
from sparkcep.engine.budget.saved_runs import BudgetState, OwnHistory, empty_lists, with_own_histories
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.effort import MILLIONTHS
from sparkcep.engine.core.kernel_loop import doubled, with_doubled
from sparkcep.engine.core.matches import WITH_ERRORS, MatchBatch
from sparkcep.engine.core.operator import Found
from sparkcep.engine.core.state_codec import PARTITION, WITHOUT, damaged
from sparkcep.engine.core.task import Prepared, Task
from sparkcep.engine.core.windows import Measured, first_ending_behind, float_size, next_places, window_measure
from sparkcep.engine.frontier.frontier import CLASSES, ENTRIES, ClassRuns, Frontier, front_arrays
from sparkcep.engine.frontier.run_room import with_room
from sparkcep.engine.stages.bundles import NO_BUNDLES, bundle_groups
from sparkcep.engine.stages.describe_errors import DescribeErrors
from sparkcep.errors import SEMANTIC, ClauseError, MatchRuntimeError
from sparkcep.kernels.budget import best_effort as searching
from sparkcep.kernels.budget import feedback as controlling
from sparkcep.kernels.budget import layout as budget_layout
from sparkcep.kernels.budget.features import Clock, refill_vectors
from sparkcep.kernels.budget.negation import KEYS
from sparkcep.kernels.budget.save_runs import (
    L_AGENTS,
    L_ENTRIES,
    L_LED,
    L_OWN,
    L_OWN_LED,
    L_RECORDED,
    L_RUNS,
    LISTS,
    SavedLists,
    SavedRuns,
)
from sparkcep.kernels.budget.utility import Utilities
from sparkcep.kernels.common import layout
from sparkcep.kernels.common.run_chains import NONE
from sparkcep.kernels.frontier import traceback as finding
from sparkcep.kernels.frontier.payload import K_ENTRIES, Runs
from sparkcep.kernels.vm.final_conditions import TOO_LONG
from sparkcep.plan.extend.approx import ALL
from sparkcep.plan.extend.budget import HISTORY

CANDIDATES, VECTORS = 1 << 10, 1 << 8  # initial sizes
_TOP = 1 << 62
_NO_LISTS = empty_lists(0)
# for whole partitions
_WHOLE = SavedRuns(False, _NO_LISTS, _NO_LISTS, np.zeros((0, 0), dtype=np.int64), *(4 * [np.zeros(0, dtype=np.int64)]))
_NO_CLOCK = Clock(False, np.zeros(0, dtype=np.int64), np.zeros(0), 1, 1.0, 1, 1)


def budget_net(prepared: Prepared, proxies: bool, negation_rules: NegationRules | None) -> searching.BudgetNet:
    """The net of a plan, with edges by variable and node. Edges of one way are adjacent."""
    net = prepared.strategy.automaton
    ways = net.ways if negation_rules is None else negation_rules.ways()
    front = front_arrays(net)
    edges, source = net.edges, front.source
    costs = np.array([min(net.at_cost[target], default=0) if v >= 0 else 0 for v, target in edges[:, [E_VAR, E_TARGET]].tolist()], dtype=np.int64)
    taking = net.taking()
    order = taking[np.lexsort((taking, costs[taking], ways[taking], source[taking], edges[taking, E_VAR]))]
    pairs = np.stack([edges[order, E_VAR], source[order]], axis=1)
    heads = np.flatnonzero(np.r_[True, (np.diff(pairs, axis=0) != 0).any(axis=1)]) if len(order) else order
    stretches = np.stack([pairs[heads, 1], heads, np.r_[heads[1:], len(order)]], axis=1) if len(order) else np.zeros((0, 3), dtype=np.int64)
    by_variable = np.searchsorted(pairs[heads, 0], np.arange(len(net.variables) + 1))
    places = net.places
    _, buckets = np.unique(np.stack([edges[:, E_TARGET], places], axis=1), axis=0, return_inverse=True)
    levels = np.unique(costs[taking])
    slots = np.zeros(len(edges), dtype=np.int64)
    for node in range(net.nodes):
        own = taking[source[taking] == node]
        slots[own] = np.unique(np.stack([places[own], costs[own]], axis=1), axis=0, return_inverse=True)[1].reshape(-1) if len(own) else 0
    apart = _apart(prepared, net, negation_rules) if proxies else np.ones(len(edges), dtype=np.uint8)
    original = np.array([net.copies.original[v] if v >= 0 else NONE for v in edges[:, E_VAR].tolist()], dtype=np.int64)
    ranks = np.array([net.sources[net.first_source[e] : net.first_source[e + 1], 2].min(initial=1 << 31) for e in range(len(edges))], dtype=np.int64)
    # The start does not wait for a row.
    blocking = np.flatnonzero((edges[:, E_VAR] >= 0) & (edges[:, E_PASSED] == 0) & (source > 0)) if prepared.plan.selection.strategy == "NEXT" else taking[:0]
    blocking = blocking[np.argsort(edges[blocking, E_VAR], kind="stable")]
    by_blocker = np.searchsorted(edges[blocking, E_VAR], np.arange(len(net.variables) + 1)).astype(np.int64)
    return searching.BudgetNet(
        edges, front.masks, front.accept, front.accept_end, front.tested, by_variable.astype(np.int64), stretches.astype(np.int64), order.astype(np.int64), ways,
        places, costs, np.searchsorted(levels, costs).astype(np.int64), buckets.reshape(-1).astype(np.int64), apart, slots, original, ranks, by_blocker, np.stack([source[blocking], blocking], axis=1).astype(np.int64),
    )  # fmt: skip


def _apart(prepared: Prepared, net: Net, negation_rules: NegationRules | None) -> np.ndarray:
    """Whether a condition, a group's window or a negation may distinguish runs at an edge or after it. uint8 (edges)."""
    valued, windows = prepared.state_live.any(axis=1), live_windows(net)
    found = np.zeros(len(net.edges), dtype=np.uint8)
    for e, (variable, target, opens, inside) in enumerate(net.edges[:, [E_VAR, E_TARGET, E_OPEN, E_CHECK]].tolist()):
        if variable >= 0:
            found[e] = prepared.conditions.entry[variable] >= 0 or valued[target] or windows[target] > 1 or (opens | inside) > 1
            found[e] |= negation_rules is not None and negation_rules.distinguishes(e)
    return found


def shortest(net: Net) -> int:
    """The number of rows of the shortest match at any cost, 0 if nothing can match."""
    found, level, seen = 0, {0}, {0}
    while not any(net.edges[e, E_VAR] < 0 for node in level for e in net.edges_of(node)):
        level = {int(net.edges[e, E_TARGET]) for node in level for e in net.edges_of(node)} - seen
        if not level:
            return 0  # nothing can match
        seen |= level
        found += 1
    return found


class BestEffort:
    """Finds the matches of whole partitions.

    Attributes:
        order: how candidates are ordered without a history.
        recorded: how many blocks of a search are recorded, for measurements.
        proxies: whether only the best of runs with equal futures is kept.
        reader: reads the history from the first row of a task; None if none is used.
        explorer: makes the agents that explore; None if EXPLORE is not asked for.
        timed: whether time limits the checks.
        refilling: whether partitions replace the history.
    """

    order = np.int64(budget_layout.PLAIN)
    recorded = 0

    def __init__(self, task: Task, reporter: DescribeErrors) -> None:
        self.task, self.reporter = task, reporter
        approx = task.plan.approximate
        assert approx is not None
        check_clock(approx)
        self.approx, self.learning = approx, approx.report == HISTORY
        self.proxies = (approx.history.runs if self.learning and approx.history is not None else approx.report) != ALL
        self.timed = approx.budget is not None and approx.budget.pace is not None
        self.refilling = approx.budget is not None and approx.budget.refill is not None
        self.front = Frontier(task)
        self.negation_rules = NegationRules(task.prepared) if task.prepared.strategy.automaton.negates else None
        self.net = budget_net(task.prepared, self.proxies, self.negation_rules)
        taking = task.prepared.strategy.automaton.taking()
        self.costs = np.unique(self.net.costs[taking])
        self.reader = None
        self.explorer = Explorer(task.prepared.strategy.automaton, self.net, approx) if approx.budget is not None and approx.budget.explore else None
        if approx.budget is not None and approx.budget.history:
            levels = np.searchsorted(self.costs, self.net.costs[taking]).tolist()
            stands = CandidatePlaces(self.costs, int(self.net.places.max(initial=0)), frozenset(zip(self.net.places[taking].tolist(), levels)), shortest(task.prepared.strategy.automaton))
            self.reader = HistoryReader(task, stands, approx.budget.history, approx.budget.published)

    def answer(self, chunk: Chunk) -> Iterator[Found]:
        if not chunk.rows:
            return
        search = BestEffortSearch(self, chunk)
        (found,) = search.rounds()
        places = self.reporter.places(chunk)
        self.count(search)
        if self.learning:
            yield Found(chunk, search.history(found, places))
            return
        if self.reporter.bundling:
            bundles = NO_BUNDLES.with_points(found, places, self.net.edges)
            found, first, last = bundles.matches(self.reporter, chunk), bundles.first, bundles.last
        else:
            found = found.chosen(row_order(found)).numbered() if self.approx.report == ALL else found.numbered()
            first = last = finding.last_rows(found.events, found.rows)
        self.allow(found, search)
        self.say(found, *search.left_out(search.since[first], last + 1))
        yield Found(chunk, found)

    def count(self, search: BestEffortSearch) -> None:
        """Adds the work and the omissions of the search to the totals of the task."""
        totals, chunk = self.task.totals, search.chunk
        fresh = ranges(search.begin, chunk.offsets[1:] - search.begin)
        totals.checks += int(search.state[budget_layout.Q_CHECKS])
        totals.left_out += int(search.state[budget_layout.Q_LEFT])
        totals.short += int(np.count_nonzero(search.ground.left[fresh]))
        if len(search.ground.coverage):
            # Each row is rounded on its own, so that the sum does not depend on batches and tasks.
            totals.lost += int(np.rint((1.0 - search.ground.coverage[fresh]) * MILLIONTHS).sum())
        if search.feedback.wanted:
            totals.count_blocks(*search.feedback.totals.tolist())

    def allow(self, found: MatchBatch, search: BestEffortSearch) -> None:
        """Adds the value of CHECKS_ALLOWED() to each match."""
        budget, allowed = self.approx.budget, search.ground.allowed
        if len(allowed):
            found.by_event["allowed"] = pa.array(allowed[finding.last_rows(found.events, found.rows)])
        elif budget is not None and budget.pace is None:
            found.by_event["allowed"] = pa.array(np.full(len(found.events), budget.checks))

    def say(self, found: MatchBatch, left: np.ndarray, coverage: np.ndarray) -> None:
        """Adds the values of COMPLETE(), CHECKS_LEFT_OUT() and COVERAGE() to each match or bundle, and counts them in the totals.

        Args:
            left: int64 (matches), checks left out. For a bundle they are those at all of its match points.
            coverage: float64 (matches), empty if nothing asks for it.
        """
        found.by_event["complete"] = pa.array(left == 0)
        self.task.totals.matches += len(left)
        self.task.totals.complete += int(np.count_nonzero(left == 0))
        found.by_event["left_out"] = pa.array(left)
        if len(coverage):
            found.by_event["coverage"] = pa.array(coverage)


def row_order(found: MatchBatch) -> np.ndarray:
    """The numbers of all matches in the order of their rows, as a listing without a budget emits them. int64 (matches)."""
    rows = [tuple(found.rows[low : low + size].tolist()) for low, size in found.events[:, [layout.E_LABELS, layout.E_ROWS]].tolist()]
    return np.array(sorted(range(len(rows)), key=rows.__getitem__), dtype=np.int64)


def lost() -> MatchRuntimeError:
    """The error for an impossible saved state."""
    return damaged(PARTITION, WITHOUT)


def windows_open(task: Task, chunk: Chunk, places: Measured, resume: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The oldest rows of each growing partition that still matter for its unsearched rows.

    Args:
        places: the rows in the measure of the window.
        resume: int64 (partitions), the first unsearched row.

    Returns:
        int64 (partitions), twice: the first row whose window an unsearched row may enter, and the first row that is at most the
        window's size away from such a row.
    """
    low, high = chunk.offsets[:-1], chunk.offsets[1:]
    next = next_places(task.plan.windows[0], chunk, places, np.arange(chunk.parts), resume)
    bound = np.repeat(next, high - low)
    found = []
    for until in (places.until, places.near):
        ended = np.concatenate([[0], np.cumsum(until < bound)])
        found.append(low + ended[high] - ended[low])
    return found[0], found[1]


class BestEffortSearch(ClassRuns):
    """The best-effort search over partitions.

    With a ``state`` partitions may still grow, else they are whole. Matches are held until the search is done.

    Attributes:
        saved_runs: the runs before and after the call.
        begin: int64 (partitions), the first row to search.
        ahead: int64 (partitions), how many of the last rows are not searched yet.
        over, near: int64 (partitions), see :func:`windows_open`; only with a ``state``.
        own: histories that partitions have recorded in this call, and that replaced the clause's, by partition.
    """

    name = BUDGETED

    def __init__(self, search: BestEffort, chunk: Chunk, state: BudgetState | None = None) -> None:
        super().__init__(search.front, chunk, search.reporter.by_cost)
        self.search, rows = search, chunk.rows
        self.negations, self.judge = NO_NEGATIONS, None
        if search.negation_rules is not None:
            self.negations, self.judge = search.negation_rules.over(search.task, chunk, self.data, self.windows)
            self.classes = self.classes._replace(ends=np.zeros((len(self.classes.ends), len(self.windows) + KEYS), dtype=np.int64))
        self.state = np.zeros(budget_layout.BUDGET_STATE, dtype=np.int64)
        self.recorded, self.utilities = search.reader.recorded(chunk) if search.reader is not None else (NO_HISTORY, NO_UTILITIES)
        # Only features of runs need the clock.
        intervals = search.approx.history.intervals if search.learning else self.recorded.intervals
        asking = search.learning or len(self.recorded.codes) or self.utilities.wanted or search.explorer is not None or search.refilling
        self.clock = self._clock(intervals) if asking else _NO_CLOCK
        self.agents = search.explorer.agents(self.recorded.intervals) if search.explorer is not None else NO_AGENTS
        buckets = int(search.net.buckets.max(initial=0)) + 1
        asked = {leaf.spec.kind for leaf in search.task.plan.leaves}
        self.ground = searching.Ground(
            np.zeros((CANDIDATES, budget_layout.CANDIDATE_FIELDS), dtype=np.int64), np.zeros(CANDIDATES, dtype=np.int64), np.zeros(buckets, dtype=np.int64),
            np.zeros((CANDIDATES, 3), dtype=np.int64), np.zeros(ENTRIES, dtype=np.int64), np.zeros(4 * CANDIDATES, dtype=np.int64),
            np.zeros(rows, dtype=np.int64), np.zeros(rows if "allowed" in asked and search.timed else 0, dtype=np.int64), np.ones(rows if "coverage" in asked else 0),
        )  # fmt: skip
        slots = int(search.net.slots.max(initial=0)) + 1
        wanted = search.learning or search.refilling
        some, marked = VECTORS if wanted else 1, wanted or self.utilities.wanted
        self.learned = searching.Learned(
            wanted, np.zeros((some, budget_layout.VECTOR_FIELDS), dtype=np.int64), np.zeros(4 * some, dtype=np.int64), np.zeros((4 * some, 2), dtype=np.int64),
            np.zeros(ENTRIES if wanted else 1, dtype=np.int64), np.zeros(ENTRIES if marked else 1, dtype=np.int64), np.zeros((CLASSES if wanted else 1, slots), dtype=np.int64),
        )  # fmt: skip
        if self.utilities.wanted:
            self.utilities = self.utilities._replace(utility=np.zeros(CANDIDATES), vector=np.zeros(ENTRIES, dtype=np.int64))
        self.saved_runs, self.begin, self.ahead = _WHOLE, chunk.offsets[:-1], np.zeros(chunk.parts, dtype=np.int64)
        self.own: dict[int, OwnHistory] = {}
        self.refill = self._refill()
        if state is not None:
            self._go_on(state)
        matching = ((self.data.rows.letters & search.net.tested) != 0) & (self.windows[0] > np.arange(rows)) if search.timed else np.zeros(0, dtype=bool)
        before = state.feedback_of(chunk.parts) if state is not None else np.zeros((chunk.parts, controlling.SAVED_FEEDBACK), dtype=np.int64)
        self.feedback = feedback_of(search.approx, before, matching, self.begin, np.maximum(self.begin, chunk.offsets[1:] - self.ahead), search.recorded)

    def _refill(self) -> searching.Refill:
        """How the history is replaced."""
        search, now = self.search, np.array([NONE, 0, self.clock.intervals, NONE], dtype=np.int64)
        if not search.refilling:
            return searching.Refill(False, 0, now[:0], now[:0], now, np.zeros(0, dtype=np.uint8))
        assert search.reader is not None and search.approx.budget is not None
        places, owns = search.reporter.places(self.chunk), np.zeros(self.chunk.parts, dtype=np.uint8)
        return searching.Refill(True, search.approx.budget.refill or max(search.reader.bundles, 1), ordered_words(places.when), ordered_words(places.near), now, owns)

    def _go_on(self, state: BudgetState) -> None:
        """Restores the partitions from their saved state."""
        task, chunk, ground, short = self.task, self.chunk, self.ground, state.short
        self.begin = chunk.offsets[:-1] + state.known
        self.opens[:, layout.O_START], self.opens[:, layout.O_GOING] = self.begin, chunk.going
        self.state[layout.S_START] = self.begin[0]
        self.ahead = self._ahead()
        self.over, self.near = windows_open(task, chunk, self.search.reporter.places(chunk), np.maximum(self.begin, chunk.offsets[1:] - self.ahead))
        at = state.rows_in(chunk)[short.rows]
        ground.left[at] = short.left
        if len(ground.coverage) and len(short.coverage):
            ground.coverage[at] = short.coverage
        before = state.lists_in(chunk, *self.measured_in)
        if (before.values[:, 0] >= len(self.agents.values)).any() or (before.agents[:, 2] >= len(self.agents.values)).any():
            raise lost()
        most = np.diff(before.until, axis=0).max(axis=0, initial=0)
        while len(self.classes.free) < most[L_RUNS] + most[L_AGENTS] + CLASSES:
            self._more_classes()
        while len(self.cargo.at) < most[L_ENTRIES] + CANDIDATES:
            self._wider_entries(with_room(self.cargo, self.room))
        if self.refill.wanted:
            self.refill.owns[:] = np.diff(before.until[:, L_OWN]) > 0
            while len(self.learned.vectors) < most[L_ENTRIES] + most[L_RECORDED] + most[L_LED] or len(self.learned.ends) < most[L_LED]:
                self._wider_vectors()
        after = empty_lists(chunk.parts, tuple(2 * len(table) + CLASSES for table in before[:LISTS]))
        fresh = chunk.offsets[:-1] + state.worn
        self.saved_runs = SavedRuns(True, before, after, state.floors_of(len(task.plan.variables)), fresh, self.over, np.zeros(most[L_ENTRIES] + 1, dtype=np.int64), np.zeros(len(self.cargo.at), dtype=np.int64))

    def _ahead(self) -> np.ndarray:
        """How many of the last rows of each partition are not searched yet. int64 (partitions).

        Which candidates are tried may depend on earlier matches. So if a negation looks at rows after a match, a row waits until
        the window that begins with it has ended.
        """
        chunk, ahead, high = self.chunk, self.task.ahead, self.chunk.offsets[1:]
        until = high - ahead
        if self.search.task.prepared.strategy.automaton.negates_behind:
            assert chunk.closed is not None
            until = np.minimum(chunk.closed, first_ending_behind(until, self.windows[0], chunk))
        return np.where(chunk.going, high - until, 0)

    @property
    def measured_in(self) -> tuple[int, int]:
        """The intervals of the window for the counts of features, and for the states of agents. 0 if there are none."""
        return self.utilities.intervals if self.utilities.wanted else 0, self.agents.intervals if self.agents.wanted else 0

    @property
    def kept(self) -> SavedLists:
        """The lists that the search saves for the partitions."""
        after, ends = self.saved_runs.after, self.saved_runs.after.until[-1]
        lists = SavedLists(*(table[:end] for table, end in zip(after[:LISTS], ends.tolist(), strict=True)), after.until, after.saved)
        return with_own_histories(lists, self.own, (self.refill.owns == 1) & self.chunk.going, self.saved_runs.before) if self.refill.wanted else lists

    def floors(self, parts: np.ndarray) -> np.ndarray:
        """For each variable that may be negated before a match, the position after its last occurrence before row ``near``. int64
        (parts, variables)."""
        negation_rules, letters, chunk = self.search.negation_rules, self.data.rows.letters, self.chunk
        found = self.saved_runs.floors[parts].copy()
        if negation_rules is None or not negation_rules.before:
            return found
        for i, part in enumerate(parts.tolist()):
            rows = slice(int(self.saved_runs.fresh[part]), int(self.near[part]))
            for v in range(found.shape[1]):
                if negation_rules.before >> v & 1:
                    stood = np.flatnonzero(letters[rows] >> v & 1)
                    found[i, v] = chunk.positions[rows.start + stood[-1]] + 1 if len(stood) else found[i, v]
        return found

    def left_out(self, begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Checks left out, and the least coverage, of the rows from ``begin`` to before ``end``, for each pair. The coverage is
        empty if nothing asks for it."""
        sums = np.concatenate([[0], np.cumsum(self.ground.left)])
        return sums[end] - sums[begin], range_extremes(np.minimum, self.ground.coverage, begin, end, 1.0) if len(self.ground.coverage) else self.ground.coverage

    def _ends(self) -> np.ndarray:
        """Window ends that distinguish runs whose groups began at different times. The candidates tried at a row must not depend on
        later rows."""
        return self.ends_by_begin()

    @property
    def since(self) -> np.ndarray:
        """The first row whose window holds each row. int64 (rows)."""
        rows, offsets = self.chunk.rows, self.chunk.offsets
        # Windows of rows whose time is NULL are empty. The ends of the others ascend.
        ends = np.maximum.accumulate(self.windows[0]) if rows else self.windows[0]
        low = np.repeat(offsets[:-1], np.diff(offsets))
        return np.maximum(np.searchsorted(ends, np.arange(rows), side="right"), low)

    def _clock(self, intervals: int) -> Clock:
        """The rows in the measure of the window."""
        task = self.task
        window = task.plan.windows[0]
        values, size = window_measure(window, self.chunk.columns.get(window.order), self.chunk.positions)
        levels = max(len(self.search.costs), 1)
        if values.dtype.kind == "f":
            wide = float_size(size)
            if np.isinf(wide):  # All that remains of an infinite window is as long as the window.
                return Clock(True, np.zeros(1, dtype=np.int64), np.zeros(len(values)), 1, 1.0, intervals, levels)
            # a copy, because kernels take writable arrays
            return Clock(True, np.zeros(1, dtype=np.int64), values.copy(), 1, wide, intervals, levels)
        parts = size.denominator
        reach = int(size * parts)
        most = max(intervals, self.recorded.intervals)
        if reach * most >= _TOP:
            message = f"{most} intervals of this WINDOW cannot be distinguished in 64 bits. Use fewer INTERVALS, or a coarser ORDER BY"
            raise ClauseError("BUDGET", message, sqlstate=SEMANTIC, line=window.line, column=window.column, fragment=window.text)
        # Modulo 2**64 is enough, because differences inside a window are less than its size.
        whole = (np.ascontiguousarray(values).view(np.uint64) * np.uint64(parts % (1 << 64))).view(np.int64)
        return Clock(False, whole, np.zeros(1), reach, 1.0, intervals, levels)

    def run(self) -> int:
        search, task = self.search, self.task
        budget = search.approx.budget
        merging = task.limits.merging and (search.negation_rules is None or not search.negation_rules.apart)
        order = np.int64(budget_layout.BY_UTILITY) if self.utilities.wanted else search.order
        arrays = searching.SearchArrays(
            search.net, self.clock, self.agents, self.recorded, self.utilities, self.learned, self.looking, self.negations, self.classes,
            with_room(self.cargo, self.room), self.ground, self.feedback, self.refill,
        )  # fmt: skip
        return searching.budgeted_partitions(
            np.int64(budget.checks if budget is not None else 0), order, search.proxies, merging, self.data.rows.letters, self.chunk.offsets, self.opens, self.ahead,
            self.saved_runs, arrays, self.state,
        )

    def grow(self) -> None:
        full = int(self.state[layout.S_DETAIL])
        if full == budget_layout.CANDIDATES_FULL:
            self.ground = with_doubled(self.ground, "candidates", "heap", "done")._replace(table=np.zeros(2 * len(self.ground.table), dtype=np.int64))
            self.utilities = self.utilities._replace(utility=doubled(self.utilities.utility))
        elif full == budget_layout.CLASSES_FULL:
            self._more_classes()
        elif full == budget_layout.LOST:
            raise lost()
        elif full == budget_layout.SAVED_FULL:
            after = self.saved_runs.after
            after = SavedLists(*map(doubled, after[:LISTS]), after.until, after.saved)
            self.saved_runs = self.saved_runs._replace(after=after, number=np.zeros(len(self.cargo.at), dtype=np.int64))
        elif full == budget_layout.ENTRIES_FULL:
            self._more_entries()
        elif full == budget_layout.UNJUDGED:
            self._judge()
        elif full == budget_layout.CLOSED:
            self._replace_history()
        elif full == budget_layout.OTHER_HISTORY:
            self._use_other_history()
        else:
            self._more_vectors()
        self.check(self.nbytes())

    def _judge(self) -> None:
        """Drops the runs that a negation forbids, if its condition looks at the match, from those that may be complete at the
        current row."""
        assert self.judge is not None
        state, offsets, failures = self.state, self.chunk.offsets, self.task.failures
        part, row, count = (int(state[k]) for k in (layout.S_PART, layout.S_START, budget_layout.Q_DONE))
        runs = with_room(self.cargo, self.room)
        kept = self.judge.judged(self.ground.done, count, row, (offsets[part], offsets[part + 1]), self.search.net.edges, self.negations, self.looking, runs, state)
        if kept < 0:
            detail = int(state[layout.S_DETAIL])
            raise failures.of(layout.EFFORT if detail == TOO_LONG else layout.ERROR, row, detail, self.chunk.columns)
        state[budget_layout.Q_DONE] = kept

    def _replace_history(self) -> None:
        """Uses what the partition has recorded as its history, and begins to record a new one.

        Vectors keep their numbers, because runs refer to them. A vector with a bundle but no visit counts one visit: its run was
        tried there before the last replacement.
        """
        state, learned, part = self.state, self.learned, int(self.state[layout.S_PART])
        vectors, ends = learned.vectors[: int(state[budget_layout.Q_VECTORS])], learned.ends[: int(state[budget_layout.Q_ENDS])]
        found = vectors[:, [budget_layout.V_CODE, budget_layout.V_VISITS, budget_layout.V_POINTS]]
        found[ends[:, 0], 1] = np.maximum(found[ends[:, 0], 1], 1)
        own = OwnHistory(found[found[:, 1] > 0], np.stack([vectors[ends[:, 0], budget_layout.V_CODE], ends[:, 1]], axis=1))
        recorded, utilities = self._prepared(own)
        self.recorded, self.utilities = recorded, utilities._replace(utility=self.utilities.utility, vector=self.utilities.vector)
        vectors[:, [budget_layout.V_VISITS, budget_layout.V_POINTS]] = 0
        vectors[:, [budget_layout.V_LAST, budget_layout.V_END, budget_layout.V_BEGUN]] = NONE
        state[budget_layout.Q_ENDS] = 0
        if self.saved_runs.wanted:
            self.own[part] = own
        self.refill.owns[part] = 1
        self.refill.now[:] = NONE, 0, self.clock.intervals, part
        self.task.totals.refills += 1

    def _use_other_history(self) -> None:
        """Uses the own history of the partition, or the clause's, instead of another partition's. The counts of the partition
        stay."""
        part, before = int(self.state[layout.S_PART]), self.saved_runs.before
        assert self.search.reader is not None
        if self.refill.owns[part]:
            own = OwnHistory(*(before[kind][before.until[part, kind] : before.until[part + 1, kind]] for kind in (L_OWN, L_OWN_LED)))
            recorded, utilities = self._prepared(own)
            self.refill.now[budget_layout.R_OWNER] = part
        else:
            recorded, utilities = self.search.reader.recorded(self.chunk)
            self.refill.now[budget_layout.R_OWNER] = NONE
        self.recorded, self.utilities = recorded, self.utilities._replace(prior=utilities.prior, overall=utilities.overall)

    def _prepared(self, own: OwnHistory) -> tuple[searching.HistoryArrays, Utilities]:
        """The history of a partition for the search."""
        codes, visits, points = own.features.T
        place, level, remaining, idle = self._features(codes)
        errors = np.array([self.search.approx.errors(cost) for cost in self.search.costs[level].tolist()], dtype=np.float64)
        reached: dict[int, list[int]] = {code: [] for code in codes.tolist()}
        for code, bundle in own.bundles.tolist():
            reached[code].append(bundle)
        assert self.search.reader is not None
        return self.search.reader.replaced(Features(place, errors, remaining + 1, idle, visits, points, list(reached.values())), self.clock.intervals)

    def _features(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Place, number of the cost, remaining window and idle time (both from 0 on) of learned vectors. int64 (n)."""
        code, idle = np.divmod(codes, self.clock.intervals)
        code, remaining = np.divmod(code, self.clock.intervals)
        return (*np.divmod(code, self.clock.levels), remaining, idle)

    def _more_entries(self) -> None:
        """Makes room for what the current row may add: drops the entries that no run uses, and grows the arrays if that is not
        enough."""
        runs = with_room(self.cargo, self.room)
        searching.compact_entries(self.agents, self.classes, self.utilities, self.learned, runs, self.ground, self.state)
        used = int(self.state[K_ENTRIES])
        if used + max(used, len(self.ground.candidates)) > len(runs.at):
            self._wider_entries(runs)

    def _wider_entries(self, runs: Runs) -> None:
        self.cargo = self.cargo._replace(pool=doubled(runs.pool), at=doubled(runs.at))
        self.ground = self.ground._replace(labels=doubled(self.ground.labels))
        if self.learned.wanted:
            self.learned = self.learned._replace(vector=doubled(self.learned.vector))
        if self.utilities.wanted:
            self.utilities = self.utilities._replace(vector=doubled(self.utilities.vector))
        if self.learned.wanted or self.utilities.wanted:
            self.learned = self.learned._replace(mark=doubled(self.learned.mark))

    def _more_classes(self) -> None:
        super()._more_classes()
        if self.learned.wanted:
            self.learned = self.learned._replace(seen=doubled(self.learned.seen))

    def _more_vectors(self) -> None:
        if int(self.state[budget_layout.Q_VECTORS]) + len(self.ground.candidates) > len(self.learned.vectors):
            self._wider_vectors()
        else:
            self.learned = self.learned._replace(ends=doubled(self.learned.ends))

    def _wider_vectors(self) -> None:
        learned = self.learned
        self.learned = learned._replace(vectors=doubled(learned.vectors), ends=doubled(learned.ends), table=np.zeros(2 * len(learned.table), dtype=np.int64))
        refill_vectors(self.learned, self.state)

    def nbytes(self) -> int:
        return super().nbytes() + sum(a.nbytes for a in self.ground) + sum(a.nbytes for a in self.learned[1:]) + sum(a.nbytes for some in (self.utilities, self.agents, self.saved_runs.before, self.saved_runs.after) for a in some if isinstance(a, np.ndarray))

    def history(self, found: MatchBatch, places: Measured) -> MatchBatch:
        """The output of MATCH HISTORY: an event for each feature vector of each partition, in their order.

        An event has the vector, its visits and match points, and the first match points of the bundles that it led to, as values of
        the window's order column.
        """
        chunk, learned, search = self.chunk, self.learned, self.search
        vectors = learned.vectors[: int(self.state[budget_layout.Q_VECTORS])]
        order = np.lexsort((vectors[:, budget_layout.V_CODE], vectors[:, budget_layout.V_PART]))
        ends = learned.ends[: int(self.state[budget_layout.Q_ENDS])]
        points = np.unique(ends[:, 1])
        groups = bundle_groups(chunk.partition_of(points), points, places)
        starts = points[np.flatnonzero(np.diff(groups, prepend=-1))] if len(points) else points
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        pairs = np.unique(np.stack([number[ends[:, 0]], groups[np.searchsorted(points, ends[:, 1])]], axis=1), axis=0).reshape(-1, 2)
        counts = np.bincount(pairs[:, 0], minlength=len(order))
        vectors = vectors[order]
        place, level, remaining, idle = self._features(vectors[:, budget_layout.V_CODE])
        parts = vectors[:, budget_layout.V_PART]
        rows = chunk.offsets[parts]
        events = np.zeros((len(order), WITH_ERRORS), dtype=np.int64)
        events[:, layout.E_PART], events[:, layout.E_START], events[:, layout.E_ROWS], events[:, layout.E_LABELS] = parts, rows, 1, np.arange(len(order))
        out = MatchBatch(events, np.zeros(len(order), dtype=np.uint8), rows, np.zeros(len(order), dtype=np.int64))
        timed = search.task.plan.windows[0].order
        values = (chunk.columns[timed] if timed else pa.array(chunk.positions)).take(pa.array(starts[pairs[:, 1]]))
        costs = search.costs[level] if len(search.costs) else level
        approx = search.approx
        out.by_event.update({
            "history_place": pa.array(place.astype(np.int32)), "history_so_far": pa.array(costs // approx.scale if approx.whole else costs / approx.scale),
            "history_remaining": pa.array((remaining + 1).astype(np.int32)), "history_idle": pa.array(idle.astype(np.int32)),
            "history_visits": pa.array(vectors[:, budget_layout.V_VISITS]), "history_points": pa.array(vectors[:, budget_layout.V_POINTS]),
            "history_starts": pa.ListArray.from_arrays(pa.array(np.r_[0, np.cumsum(counts)].astype(np.int32)), values),
        })  # fmt: skip
        return out

