"""Saved state of the best-effort search: the runs of partitions that still grow under a BUDGET, and their bytes.

:mod:`sparkcep.engine.budget.best_effort_stream` saves and restores it. Which candidates are tried at a row depends on the runs that
earlier rows left, so these runs are saved: their rows, and the edges of the net that took the rows. Edges have a meaning for one
net only, so the net's fingerprint is saved with them. :mod:`sparkcep.kernels.budget.save_runs` has an example of the lists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import flat, ranges
from sparkcep.compiler.net.net import ACCEPT, E_LABEL, E_VAR
from sparkcep.engine.budget.history import MAX_VISITS
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import WITH_ERRORS, MatchBatch
from sparkcep.engine.core.state_codec import (
    BUDGETED,
    FAR,
    Ragged,
    StateColumns,
    StateSchema,
    ascending,
    check_numbers,
    distinct,
    signature_of,
)
from sparkcep.engine.frontier.run_room import follow
from sparkcep.engine.stages.bundles import NO_BUNDLES, Bundles
from sparkcep.kernels.budget import feedback as controlling
from sparkcep.kernels.budget.q_learning import MOST
from sparkcep.kernels.budget.save_runs import (
    L_AGENTS,
    L_BEGUN,
    L_COPY,
    L_ENTRIES,
    L_LED,
    L_OWN,
    L_OWN_LED,
    L_RECORDED,
    L_RUNS,
    L_SEEN,
    L_SUMS,
    L_VALUES,
    L_VECTORS,
    LISTS,
    UNBLOCKED,
    WIDTHS,
    SavedLists,
)
from sparkcep.kernels.common import layout
from sparkcep.kernels.common.run_chains import NONE
from sparkcep.plan.extend.budget import MAX_INTERVALS

_NONE = np.zeros(0, dtype=np.int64)
_NAMES = pa.list_(pa.string())
_MANY = 1 << 20  # limit of a window's intervals


class OwnHistory(NamedTuple):
    """A history that a partition has recorded, and that replaced the clause's (REFILL).

    Attributes:
        features: int64 (n, 3), the code of each, its visits (at least 1) and its match points.
        bundles: int64 (m, 2), pairs of one of these codes and a bundle, in the order of the bundles.
    """

    features: np.ndarray
    bundles: np.ndarray


def empty_lists(parts: int, sizes: tuple[int, ...] = (0,) * LISTS) -> SavedLists:
    """Lists of ``parts`` partitions, with room for ``sizes`` items."""
    tables = (np.zeros((size, width), dtype=np.int64) for size, width in zip(sizes, WIDTHS, strict=True))
    return SavedLists(*tables, np.zeros((parts + 1, LISTS), dtype=np.int64), np.zeros(parts, dtype=np.int64))


@dataclass(frozen=True)
class ShortRows:
    """The rows where checks were left out.

    Attributes:
        rows: int64 (n).
        left: int64 (n), the checks left out there.
        coverage: float64 (n), the covered share of the bundles; empty if nothing asks for it.
    """

    rows: np.ndarray
    left: np.ndarray
    coverage: np.ndarray


_PENDING = {"left_out": pa.int64(), "coverage": pa.float64(), "missing": _NAMES, "allowed": pa.int64()}
# lists that only some statements save: of an interval PER ROW, and of a match's checks allowed by an interval
FEEDBACK, ALLOWED = "feedback", "allowed"


def pending(found: MatchBatch, missing: pa.Array, left: np.ndarray, coverage: np.ndarray, allowed: np.ndarray) -> MatchBatch:
    """Returns matches that are not emitted yet, without paths.

    Args:
        missing: the names of the variables that each match lacks.
        left: int64, checks left out up to the last match point.
        coverage: float64, the least coverage up to the last match point.
        allowed: int64, the checks allowed at the last row of each match.
    """
    return MatchBatch(found.events, found.labels, found.rows, by_event={"left_out": pa.array(left), "coverage": pa.array(coverage), "missing": missing, "allowed": pa.array(allowed)})


NOTHING_SHORT = ShortRows(_NONE, _NONE, np.zeros(0))


@dataclass(frozen=True)
class BudgetState:
    """The saved state of the best-effort search, for partitions that still grow. Row numbers count over all kept rows.

    Attributes:
        rows: int64 (partitions), the kept rows.
        known: int64 (partitions), how many of them were searched, the first ones.
        next: int64 (partitions), the position of the first row that was not searched.
        number: int64 (partitions), the number of the last emitted match.
        lone: int64 (partitions), how many of the first kept rows are isolated. The rows after them are consecutive.
        intervals: int64 (partitions), the intervals of the window for the counts of features.
        steps: int64 (partitions), the intervals of the window for the values of agents.
        worn: int64 (partitions), how many kept rows are no longer in the last window.
        floors: int64 (partitions, variables), see :class:`sparkcep.kernels.budget.save_runs.SavedRuns`.
        places: int64, the positions of the isolated rows.
        short: the rows of the last window where checks were left out.
        lists: the saved runs, counts and agents.
        held: the matches that are not emitted yet, without paths: the best matches of bundles that another match point may join, at
            most one for each partition, or matches whose number is not known. They have the values :func:`pending`.
        variables: the names of the pattern's variables.
        feedback: int64 (partitions, SAVED_FEEDBACK), the controls of BUDGET INTERVAL PER ROW, 0 without one.
    """

    rows: np.ndarray = field(default_factory=lambda: _NONE)
    known: np.ndarray = field(default_factory=lambda: _NONE)
    next: np.ndarray = field(default_factory=lambda: _NONE)
    number: np.ndarray = field(default_factory=lambda: _NONE)
    lone: np.ndarray = field(default_factory=lambda: _NONE)
    intervals: np.ndarray = field(default_factory=lambda: _NONE)
    steps: np.ndarray = field(default_factory=lambda: _NONE)
    worn: np.ndarray = field(default_factory=lambda: _NONE)
    floors: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    places: np.ndarray = field(default_factory=lambda: _NONE)
    short: ShortRows = NOTHING_SHORT
    lists: SavedLists = field(default_factory=lambda: empty_lists(0))
    held: Bundles = NO_BUNDLES
    variables: tuple[str, ...] = ()
    feedback: np.ndarray = field(default_factory=lambda: np.zeros((0, controlling.SAVED_FEEDBACK), dtype=np.int64))

    def columns(self) -> StateColumns:
        """The columns of the state, see :class:`sparkcep.engine.core.state_codec.State`."""
        count, lists, short = len(self.rows), self.lists, self.short
        offsets = np.concatenate([[0], np.cumsum(self.rows)])
        sizes = np.diff(lists.until, axis=0)
        lists = with_rows(lists, lambda rows, parts: rows - offsets[parts])
        at = np.searchsorted(offsets, short.rows, side="right") - 1
        shorts = np.bincount(at, minlength=count)
        held = self.held.chosen(np.argsort(self.held.parts, kind="stable"))
        parts, begin, best = held.parts, offsets[held.parts], held.best
        left, coverage, absent, allowed = (best.by_event[name] if len(held) else pa.array([], kind) for name, kind in _PENDING.items())
        lengths, many = best.events[:, layout.E_ROWS], absent.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
        values = (left.to_numpy(), coverage.to_numpy().view(np.int64))
        matches = np.stack([lengths, many, best.events[:, layout.E_ACCEPT], held.first - begin, held.last - begin, held.sizes, *values], axis=1)
        named = {name: i for i, name in enumerate(self.variables)}
        missing = np.array([named[name] for name in absent.flatten().to_pylist()], dtype=np.int32)

        def summed(values: np.ndarray) -> np.ndarray:
            found = np.zeros(count, dtype=np.int64)
            np.add.at(found, parts, values)
            return found

        numbers = [self.known, self.next, self.number, self.lone, self.intervals, self.steps, self.worn, lists.saved]
        some = np.any([self.rows > 0, *(values != 0 for values in (*numbers[:4], lists.saved))], axis=0) | (sizes > 0).any(axis=1)
        floors, feedback = self.stays & self.floors.any(axis=1), self.feedback_of(count)
        runs = zip(_RUN_LISTS | REFILL_LISTS, lists[:LISTS], sizes.T, WIDTHS, strict=True)
        return StateColumns(
            self.rows, {name: np.where(some, values, 0) for name, values in zip(_NUMBERS, numbers, strict=True)},
            {
                "floors": Ragged(self.floors[floors], floors * self.floors.shape[1]), "places": Ragged(self.places, self.lone), "short": Ragged(short.rows - offsets[at], shorts),
                "left": Ragged(short.left, shorts), "coverage": Ragged(short.coverage, shorts if len(short.coverage) else 0 * shorts), "tied": Ragged(np.zeros(len(short.left), dtype=np.uint8), shorts),
                **{name: Ragged(table, size * width) for name, table, size, width in runs},
                "matched": Ragged(best.rows - np.repeat(begin, lengths), summed(lengths)), "labels": Ragged(best.labels, summed(lengths)),
                FEEDBACK: Ragged(feedback[feedback.any(axis=1)], feedback.any(axis=1) * feedback.shape[1]), ALLOWED: Ragged(allowed.to_numpy(), summed(np.ones_like(parts))),
                "missing": Ragged(missing, summed(many)), "matches": Ragged(matches, summed(np.full(len(parts), _MATCH))),
            },
        )  # fmt: skip

    @property
    def stays(self) -> np.ndarray:
        """Whether rows or lists of each partition are saved. bool (partitions)."""
        return (self.rows > 0) | (np.diff(self.lists.until, axis=0) > 0).any(axis=1)

    def positions(self, offsets: np.ndarray) -> np.ndarray:
        """The position of each row of a buffer in its partition."""
        out = ranges(self.next - self.known, np.diff(offsets))
        out[ranges(offsets[:-1], self.lone)] = self.places
        return out

    def forgetting(self, numbers: bool, positions: bool) -> BudgetState:
        """Drops match numbers, and positions of partitions without rows and lists, unless something asks for them."""
        number = self.number if numbers else np.zeros_like(self.rows)
        return replace(self, number=number, next=self.next if positions else np.where(self.stays, self.next, 0))

    def floors_of(self, variables: int) -> np.ndarray:
        """The floors, 0 if none are known. int64 (partitions, variables)."""
        return self.floors if self.floors.shape[1] else np.zeros((len(self.rows), variables), dtype=np.int64)

    def feedback_of(self, parts: int) -> np.ndarray:
        """The saved controls, 0 for partitions without one. int64 (partitions, SAVED_FEEDBACK)."""
        return self.feedback if len(self.feedback) else np.zeros((parts, controlling.SAVED_FEEDBACK), dtype=np.int64)

    def rows_in(self, chunk: Chunk) -> np.ndarray:
        """The row of a chunk that each kept row is. A partition's kept rows come before its new rows. int64 (kept rows)."""
        return ranges(chunk.offsets[:-1], self.rows)

    def lists_in(self, chunk: Chunk, intervals: int, steps: int) -> SavedLists:
        """The saved lists, for the rows of a chunk. The kernel resumes from them.

        Counts of features and values of agents are dropped if they were saved in other intervals of the window than ``intervals``
        and ``steps``. The counts for places and costs stay valid. With REFILL the kernel forgets the copy and the own history.
        """
        lists, nothing, rows = self.lists, empty_lists(len(self.rows)), self.rows_in(chunk)
        other, unlike = self.intervals != intervals, self.steps != steps
        lists = instead(lists, L_VECTORS, other, nothing)
        lists = instead(lists, L_VALUES, unlike, nothing)
        agents = lists.agents.copy()
        agents[np.repeat(unlike, np.diff(lists.until[:, L_AGENTS])), 2] = NONE
        return with_rows(lists._replace(agents=agents), lambda kept, _: rows[kept])

    def unmeasured(self, lists: SavedLists, idle: np.ndarray) -> SavedLists:
        """The lists that a step saves, with the earlier counts and values of idle partitions.

        ``idle``: bool (partitions), whether no row of the partition was searched. Only a searched row converts counts and values to
        the intervals of another history.
        """
        before = self.lists
        agents = lists.agents.copy()
        those = np.repeat(idle, np.diff(lists.until[:, L_AGENTS]))
        agents[those, 2] = before.agents[np.repeat(idle, np.diff(before.until[:, L_AGENTS])), 2]
        lists = instead(lists._replace(agents=agents), L_VECTORS, idle, before)
        return instead(lists, L_VALUES, idle, before)


def with_rows(lists: SavedLists, renumbered: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> SavedLists:
    """Renumbers the rows of entries, and the last match points of open bundles. ``renumbered`` takes rows and their partitions."""
    tables = {}
    for name, kind in (("entries", L_ENTRIES), ("copy", L_COPY)):
        tables[name] = table = lists[kind].copy()
        there = np.flatnonzero(table[:, 0] != NONE)
        parts = np.repeat(np.arange(len(lists.until) - 1), np.diff(lists.until[:, kind]))
        table[there, 0] = renumbered(table[there, 0], parts[there])
    return lists._replace(**tables)


def with_own_histories(lists: SavedLists, own: dict[int, OwnHistory], there: np.ndarray, before: SavedLists) -> SavedLists:
    """Adds the own histories of partitions to lists without any.

    Args:
        own: the new ones, by partition.
        there: bool (partitions), whether the partition has one. If it is not new, it is in the lists ``before``.
    """
    new = {part: history for part, history in sorted(own.items()) if there[part]}
    fresh = np.isin(np.arange(len(there)), list(new))
    for kind, tables in ((L_OWN, [history.features for history in new.values()]), (L_OWN_LED, [history.bundles for history in new.values()])):
        until, sizes = lists.until.copy(), np.zeros(len(there), dtype=np.int64)
        sizes[fresh] = [len(table) for table in tables]
        until[1:, kind] = np.cumsum(sizes)
        table = np.concatenate([np.zeros((0, WIDTHS[kind]), dtype=np.int64), *tables])
        lists = SavedLists(*(table if i == kind else other for i, other in enumerate(lists[:LISTS])), until, lists.saved)
        lists = instead(lists, kind, there & ~fresh, before)
    return lists


def instead(lists: SavedLists, kind: int, those: np.ndarray, before: SavedLists) -> SavedLists:
    """Replaces the lists of one kind by those ``before``, in the partitions that ``those`` marks (bool)."""
    if not those.any():
        return lists
    now, was = np.diff(lists.until[:, kind]), np.diff(before.until[:, kind])
    sizes = np.where(those, was, now)
    table = np.concatenate([lists[kind], before[kind]])
    rows = ranges(np.where(those, before.until[:-1, kind] + len(lists[kind]), lists.until[:-1, kind]), sizes)
    until = lists.until.copy()
    until[1:, kind] = np.cumsum(sizes)
    return SavedLists(*(table[rows] if i == kind else other for i, other in enumerate(lists[:LISTS])), until, lists.saved)


_MATCH = 8  # numbers that are saved of a pending match
_NUMBERS = ("known", "next", "number", "lone", "intervals", "steps", "worn", "saved")
_RUN_LISTS = dict(zip(("entries", "runs", "vectors", "sums", "agents", "values", "begun"), (np.int32, np.int32, np.int64, np.int64, np.int64, np.int64, np.int64)))
REFILL_LISTS = dict.fromkeys(("copy", "recorded", "led", "seen", "own", "own_led"), np.int64)  # saved only with REFILL
_LISTS = {  # "tied" is 0 for each of the short rows; an older version noted there which ways to a match it had dropped
    "floors": np.int64, "places": np.int64, "short": np.int32, "left": np.int64, "coverage": np.float64, "tied": np.uint8, **_RUN_LISTS,
    "matched": np.int32, "labels": np.uint8, "missing": np.int32, "matches": np.int64,
}  # fmt: skip


def budget_schema(net: tuple[np.ndarray, ...], source: np.ndarray, kinds: int, agent_states: int, variables: tuple[str, ...], further: tuple[str, ...], slots: int) -> StateSchema:
    """The schema of :class:`BudgetState`.

    Args:
        net: the arrays that number edges (the first one), places and costs, and positions of agents.
        source: int64 (edges), the node that each edge leaves.
        kinds: how many pairs of a place and a cost there are.
        agent_states: how many positions agents may have.
        variables: the names of the pattern's variables.
        further: the lists among FEEDBACK, ALLOWED and REFILL_LISTS that the statement saves.
        slots: how many places and costs the edges of a node have at most.
    """
    restoring = _Restoring(net[0], source, kinds, agent_states, variables, slots)
    return StateSchema(BUDGETED, restoring.state, _NUMBERS, {name: np.dtype(t) for name, t in (_LISTS | dict.fromkeys(further, np.int64)).items()}, signature_of(*net))


class _Restoring:
    """Restores states of one net, see :func:`budget_schema`."""

    def __init__(self, edges: np.ndarray, source: np.ndarray, kinds: int, agent_states: int, variables: tuple[str, ...], slots: int) -> None:
        self.edges, self.source, self.kinds, self.agent_states, self.variables, self.slots = edges, source, kinds, agent_states, variables, slots

    def state(self, columns: StateColumns) -> BudgetState:
        """The state with these columns. Raises ValueError if no search can have left it."""
        rows = columns.rows
        count, offsets = len(rows), np.cumsum(rows) - rows
        known, next, number, lone, intervals, steps, worn, saved = (columns.numbers[name] for name in _NUMBERS)
        (stood, floored), (places, lonely), (at, shorts), (left, lefts), (coverage, covered), (tied, ties), *lists = (columns.lists[name] for name in _LISTS)
        lists, (matched, sizes), (labels, marks), (missing, _), (matches, cells) = lists[: len(_RUN_LISTS)], *lists[len(_RUN_LISTS) :]
        none = Ragged(_NONE, np.zeros(count, dtype=np.int64))
        tables = self._tables(count, lists + [columns.lists.get(name, none) for name in REFILL_LISTS])
        check_numbers(
            np.isin(floored, (0, len(self.variables))), lonely == lone, lone <= worn, worn <= rows, lone <= known, known <= rows, shorts == lefts, shorts == ties, (covered == 0) | (covered == shorts), at >= 0, at < np.repeat(rows, shorts), marks == sizes, cells % _MATCH == 0,
            matched >= 0, matched < np.repeat(rows, sizes), missing >= 0, missing < len(self.variables), np.isin(labels, self.edges[:, E_LABEL]), stood >= 0, stood < FAR,
            next >= known, next < FAR, number >= 0, number < FAR, intervals >= 0, intervals < _MANY, steps >= 0, steps < _MANY, saved >= 0, saved < FAR,
            ascending(places, lonely), places >= 0, ascending(at, shorts), left >= 0, left < FAR, (coverage >= 0) & (coverage <= 1), tied <= 1,
        )  # fmt: skip
        check_numbers(places < np.repeat(next, lonely))
        feedback = self._feedback(count, columns)
        allowed = columns.lists[ALLOWED].values if ALLOWED in columns.lists else np.zeros(int(cells.sum()) // _MATCH, dtype=np.int64)
        check_numbers(allowed >= 0)
        self._check(tables, rows, intervals)
        self._check_refill(tables, rows)
        tables = with_rows(tables, lambda rows, parts: rows + offsets[parts])
        held = self._held(offsets, rows, cells // _MATCH, matches.reshape(-1, _MATCH), matched + np.repeat(offsets, sizes), labels, missing, allowed)
        short = ShortRows(at + np.repeat(offsets, shorts), left, coverage)
        floors = np.zeros((count, len(self.variables)), dtype=np.int64)
        floors[floored > 0] = stood.reshape(-1, len(self.variables))
        tables = tables._replace(saved=np.ascontiguousarray(saved))
        return BudgetState(rows, known, next, number, lone, intervals, steps, worn, floors, places, short, tables, held, self.variables, feedback)

    def _feedback(self, count: int, columns: StateColumns) -> np.ndarray:
        """The saved controls. Raises ValueError for one that no block leaves."""
        found = np.zeros((count, controlling.SAVED_FEEDBACK), dtype=np.int64)
        if FEEDBACK in columns.lists:
            values, cells = columns.lists[FEEDBACK]
            check_numbers(np.isin(cells, (0, controlling.SAVED_FEEDBACK)))
            some = found[cells > 0] = values.reshape(-1, controlling.SAVED_FEEDBACK)
            checks, at, late = (some[:, k] for k in (controlling.F_CHECKS, controlling.F_AT, controlling.F_LATE))
            check_numbers(some >= 0, some < FAR, checks >= controlling.BLOCK, checks <= controlling.MOST, at < controlling.BLOCK, late <= 1)
        return found

    def _tables(self, count: int, lists: list[Ragged]) -> SavedLists:
        until = np.zeros((count + 1, LISTS), dtype=np.int64)
        tables = []
        for k, ((values, cells), width) in enumerate(zip(lists, WIDTHS, strict=True)):
            if (cells % width).any():
                raise ValueError("lists of other items")
            until[1:, k] = np.cumsum(cells // width)
            tables.append(values.astype(np.int64).reshape(-1, width))
        return SavedLists(*tables, until, np.zeros(count, dtype=np.int64))

    def _check(self, lists: SavedLists, rows: np.ndarray, intervals: np.ndarray) -> None:
        """Raises ValueError for numbers that are not rows, edges, entries, places or agent positions of the state."""
        sizes = np.diff(lists.until, axis=0)
        entries, own = lists.entries, sizes[:, L_ENTRIES]
        number = ranges(0, own)
        check_numbers(
            entries[:, 0] >= 0, entries[:, 0] < np.repeat(rows, own), entries[:, 1] >= 0, entries[:, 1] < len(self.edges), entries[:, 2] >= UNBLOCKED, entries[:, 2] < number,
            lists.runs[:, 0] >= 0, lists.runs[:, 0] < np.repeat(own, sizes[:, L_RUNS]), lists.sums[:, 0] >= 0, lists.sums[:, 0] < self.kinds, lists.vectors[:, 0] >= 0,
            lists.vectors[:, 0] < np.repeat(self.kinds * intervals * intervals, sizes[:, L_VECTORS]),
            lists.agents[:, 0] >= NONE, lists.agents[:, 0] < np.repeat(own, sizes[:, L_AGENTS]), lists.agents[:, 1] >= 0, lists.agents[:, 1] < self.agent_states, lists.values[:, 0] >= 0,
            lists.begun[:, 0] >= 0, lists.begun[:, 0] < self.kinds, sizes[:, L_AGENTS] <= MOST,
            *(distinct(table[:, 0], sizes[:, k]) for k, table in ((L_RUNS, lists.runs), (L_VECTORS, lists.vectors), (L_SUMS, lists.sums), (L_VALUES, lists.values), (L_BEGUN, lists.begun))),
            *((counts >= 0) & (counts < FAR) for counts in (lists.vectors[:, 1:], lists.sums[:, 1:], lists.values[:, 1], lists.begun[:, 1])), lists.agents[:, 2] >= NONE,
        )  # fmt: skip
        before = np.where(entries[:, 2] < 0, NONE, entries[:, 2] + np.repeat(np.cumsum(own) - own, own))
        check_numbers(follow(before, entries[:, 1], entries[:, 0], self.edges, self.source))

    def _check_refill(self, lists: SavedLists, rows: np.ndarray) -> None:
        """Raises ValueError for numbers that REFILL cannot have left."""
        sizes = np.diff(lists.until, axis=0)
        if not sizes[:, [L_COPY, L_RECORDED, L_LED, L_SEEN, L_OWN, L_OWN_LED]].any():
            return
        copied, (last, bundles, intervals) = sizes[:, L_COPY] > 0, lists.copy.T
        many = np.zeros(len(rows), dtype=np.int64)
        check_numbers(
            sizes[:, L_COPY] <= 1, copied | ~sizes[:, [L_RECORDED, L_LED, L_SEEN, L_OWN, L_OWN_LED]].any(axis=1), last >= NONE, last < np.repeat(rows, sizes[:, L_COPY]),
            bundles >= (last != NONE), bundles < FAR, intervals >= 1, intervals <= MAX_INTERVALS,
        )  # fmt: skip
        many[copied] = self.kinds * intervals * intervals
        for kind, led in ((L_RECORDED, L_LED), (L_OWN, L_OWN_LED)):
            features, pairs = lists[kind], lists[led]
            check_numbers(
                features[:, 0] >= 0, features[:, 0] < np.repeat(many, sizes[:, kind]), distinct(features[:, 0], sizes[:, kind]), features[:, 1:] >= 0, features[:, 1:] <= MAX_VISITS // max(len(features), 1),
                pairs[:, 0] >= 0, pairs[:, 0] < np.repeat(many, sizes[:, led]), pairs[:, 1] >= 1, pairs[:, 1] < FAR,
            )  # fmt: skip
            known, named = (np.stack([np.repeat(np.arange(len(rows)), sizes[:, k]), lists[k][:, 0]], axis=1) for k in (kind, led))
            check_numbers(len(np.unique(np.concatenate([known, named]), axis=0)) == len(known))
        seen = lists.seen
        check_numbers(
            lists.own[:, 1] >= 1, seen[:, 0] >= 0, seen[:, 0] < np.repeat(sizes[:, L_RUNS], sizes[:, L_SEEN]), seen[:, 1] >= 0, seen[:, 1] < self.slots,
            seen[:, 2] >= 1, seen[:, 2] <= np.repeat(many, sizes[:, L_SEEN]),
        )  # fmt: skip

    def _held(self, offsets: np.ndarray, rows: np.ndarray, many: np.ndarray, matches: np.ndarray, matched: np.ndarray, labels: np.ndarray, missing: np.ndarray, allowed: np.ndarray) -> Bundles:
        part = np.repeat(np.arange(len(rows)), many)
        lengths, lacks, accepting, first, last, sizes, left, coverage = matches.T
        begin = np.cumsum(lengths) - lengths
        check_numbers(
            lengths > 0, lengths <= len(matched), lacks >= 0, lacks <= len(missing), first >= 0, last < rows[part], first <= last, accepting >= 0, accepting < len(self.edges), sizes > 0, sizes < FAR,
            left >= 0, left < FAR,
        )  # fmt: skip
        check_numbers(len(allowed) == len(part))
        check_numbers(lengths.sum() == len(matched), lacks.sum() == len(missing), self.edges[accepting, E_VAR] == ACCEPT)
        check_numbers(ascending(matched, lengths))
        events = np.zeros((len(part), WITH_ERRORS), dtype=np.int64)
        events[:, layout.E_PART], events[:, layout.E_ROWS], events[:, layout.E_LABELS], events[:, layout.E_ACCEPT] = part, lengths, begin, accepting
        events[:, layout.E_START] = matched[begin]
        names = pa.array(self.variables, type=pa.string()).take(pa.array(missing))
        listed = pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(lacks)]).astype(np.int32)), flat(pa.chunked_array([names])))
        found = MatchBatch(events, labels, matched.astype(np.int64))
        return Bundles(pending(found, listed, left, np.ascontiguousarray(coverage).view(np.float64), allowed), first + offsets[part], last + offsets[part], sizes)
