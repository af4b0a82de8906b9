"""Event selection, depth first: rows of a match need not be adjacent (SASE+, section 5).

With an approximate automaton the walk lists the matches of least cost. It searches the sides of ``p & q`` side by side, and then
holds all matches of a start row at once. The kernels are in :mod:`sparkcep.kernels.match.walk`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparkcep.compiler.liveness import memo_values
from sparkcep.compiler.net.net import ACCEPT, E_CHECK, E_NOT, E_OPEN, E_TARGET, E_VAR, Edge, Net
from sparkcep.compiler.searches import CONJUNCTION, WALK
from sparkcep.engine.core.chunk import Chunk, Saved
from sparkcep.engine.core.kernel_loop import distinct_variables, scratch
from sparkcep.engine.core.matches import WIDTH, WITH_ERRORS
from sparkcep.engine.core.predicates import ChunkArrays
from sparkcep.engine.core.resume import ResumeState
from sparkcep.engine.core.task import Prepared, Task
from sparkcep.engine.match.early_emission import EarlyEmission
from sparkcep.engine.match.enumeration import SKIPS, Matches
from sparkcep.engine.match.score_bounds import bounded, floors_of
from sparkcep.kernels.common import layout
from sparkcep.kernels.match import reachability
from sparkcep.kernels.match import walk as walking
from sparkcep.kernels.vm import final_conditions, vm
from sparkcep.plan.facts import unbounded, variables_in
from sparkcep.plan.options import NO_WINDOW

MAX_ENDS_BYTES = 1 << 28  # most bytes of a table of completions
MEMO_ENTRIES = 1 << 16
_NO_ROW = (1 << 31) - 1  # after all rows
CONTIGUITY = {"STRICT": layout.STRICT, "NEXT": layout.NEXT, "ANY": layout.ANY}


def windowed(task: Task) -> bool:
    """Returns whether a window bounds the whole match."""
    return task.plan.windows[0].kind != NO_WINDOW


@dataclass(frozen=True)
class Negations:
    """The negated variables as masks, and the negated groups.

    Attributes:
        local: variables whose conditions are local to their rows.
        late: variables whose conditions look at the finished match.
        mixed: late variables whose conditions look at their own rows and at rows of the match together.
        at_start: whether a negation may look at rows before the match.
        groups: the nets of local groups.
        late_groups: the nets of groups that are late or have windows.
    """

    local: int
    late: int
    mixed: int
    at_start: bool
    groups: dict[int, Net]
    late_groups: dict[int, Net]

    @staticmethod
    def of(prepared: Prepared) -> Negations:
        automaton, conditions = prepared.strategy.automaton, prepared.conditions
        negated = int(np.bitwise_or.reduce(automaton.edges[:, E_NOT], initial=0)) | sum({1 << int(v) for v in automaton.checks[:, 0]})
        variables = range(len(prepared.plan.variables))
        groups = {v: net for v, net in prepared.strategy.groups if negated >> v & 1}
        late_groups = {v: net for v, net in groups.items() if not _is_local(net, prepared)}
        late = sum(1 << v for v in variables if negated >> v & 1 and (v in late_groups or (v not in groups and conditions.entry[v] >= 0)))
        slots = [(s, int(m)) for s, m in enumerate(conditions.slots[:, 1])] if conditions.has_history else []
        reads_rows = conditions.distinct_read or conditions.labels_read
        taken = variables_in(prepared.plan.pattern, "var")
        mixed = sum(
            1 << v
            for v in variables
            if late >> v & 1 and (reads_rows or any(conditions.live[v, s] and m >> v & 1 and (m != 1 << v or taken >> v & 1) for s, m in slots))
        )
        at_start = bool(len(automaton.checks) or automaton.edges[: automaton.first[1], E_NOT].any())
        return Negations(negated & ~late, late, mixed, at_start, {v: net for v, net in groups.items() if v not in late_groups}, late_groups)

    def over(self, task: Task, data: ChunkArrays) -> walking.Negated:
        """Returns the negations of a chunk for the kernels."""
        letters, variables = data.rows.letters, len(task.plan.variables)
        nearest = np.full((variables, len(letters) + 1 if self.local else 1), _NO_ROW, dtype=np.int32)
        strategy = CONTIGUITY[task.plan.selection.strategy]
        for v in range(variables):
            if not self.local >> v & 1:
                continue
            if v in self.groups:
                last = _ends_of(self.groups[v], data, strategy, exact=True)[0] - 1
            else:
                last = np.where(letters >> v & 1, np.arange(len(letters)), _NO_ROW)
            # a row of a later partition is after all rows that are asked about
            nearest[v, :-1] = np.minimum.accumulate(np.minimum(last, _NO_ROW)[::-1])[::-1]
        nodes, ends, start = 0, [], np.full(variables, -1, dtype=np.int64)
        fits = sum(net.nodes for net in self.late_groups.values()) * len(letters) * 8 <= MAX_ENDS_BYTES
        for v, net in self.late_groups.items():
            start[v] = nodes
            nodes += net.nodes
            ends += [_ends_of(net, data, layout.ANY, exact=False)] if fits else []
        table = np.concatenate(ends) if ends else np.zeros((0, 0), dtype=np.int64)
        return walking.Negated(np.int64(self.local), np.int64(self.late), np.int64(self.mixed), nearest, start, _joined(list(self.late_groups.values())), table)


def _is_local(net: Net, prepared: Prepared) -> bool:
    """Returns whether the matches of a group depend only on row-local conditions of its rows."""
    return not any(edge[E_OPEN] > 1 or edge[E_CHECK] > 1 or (edge[E_VAR] != ACCEPT and prepared.conditions.entry[edge[E_VAR]] >= 0) for edge in net.edges)


def _ends_of(net: Net, data: ChunkArrays, strategy: int, exact: bool) -> np.ndarray:
    """Returns the table of :func:`sparkcep.kernels.match.reachability.completion_ends`. int64 (nodes, rows)."""
    ends = np.empty((net.nodes, len(data.rows.letters)), dtype=np.int64)
    reachability.completion_ends(_joined([net]), data.rows.letters, data.rows.offsets, strategy, exact, False, ends)
    return ends


def _joined(nets: list[Net]) -> walking.NetArrays:
    """Concatenates the nodes and edges of nets to one net. The arrays for remembering failures remain empty."""
    first, edges, node, edge = [np.zeros(1, dtype=np.int64)], [np.zeros((0, len(Edge._fields)), dtype=np.int64)], 0, 0
    for net in nets:
        moved = net.edges.copy()
        moved[moved[:, E_VAR] != ACCEPT, E_TARGET] += node
        edges.append(moved)
        first.append(net.first[1:] + edge)
        node, edge = node + net.nodes, edge + len(moved)
    none, masks = np.zeros(0, dtype=np.int64), [net.masks for net in nets]
    accepts = np.concatenate([np.zeros(0, dtype=np.uint8), *(net.accepts() for net in nets)])
    live, valued = np.zeros((0, 0), dtype=np.uint8), np.zeros(0, dtype=np.uint8)
    return walking.NetArrays(np.concatenate(first), np.concatenate(edges), np.concatenate([none, *masks]), accepts, live, none, none, valued)


def net_of(prepared: Prepared, late: int = 0) -> walking.NetArrays:
    """Returns the automaton for the kernels.

    ``late`` is the mask of negated variables whose conditions may read any slot of the finished match.
    """
    automaton, conditions = prepared.strategy.automaton, prepared.conditions
    alone = np.full(automaton.nodes, -1, dtype=np.int64)
    local = np.zeros(automaton.nodes, dtype=np.int64)
    for node in range(automaton.nodes):
        edges = [(e, automaton.edges[e]) for e in automaton.edges_of(node)]
        taking = [(e, edge) for e, edge in edges if edge[E_VAR] >= 0]
        looking = [e for e, edge in taking if conditions.entry[edge[E_VAR]] >= 0]
        if len(looking) == 1 and all(edge[E_CHECK] <= 1 and edge[E_OPEN] <= 1 for _, edge in taking):
            alone[node] = looking[0]
            local[node] = sum({1 << int(edge[E_VAR]) for e, edge in taking if e != looking[0]})
    live = memo_values(prepared.state_live, prepared.conditions)
    valued = np.ones(automaton.nodes, dtype=np.uint8) if late else live.any(axis=1).astype(np.uint8)
    return walking.NetArrays(automaton.first, automaton.edges, automaton.masks, automaton.accepts(), live, alone, local, valued)


def completion_ends(prepared: Prepared, net: walking.NetArrays, data: ChunkArrays, wanted: bool) -> np.ndarray:
    """Returns the row after the earliest completion of runs, judged by row-local conditions. int64 (nodes, rows).

    The shape is (0, 0) if the table would be too large or is not ``wanted``.
    """
    nodes, rows, sided = len(net.masks), len(data.rows.letters), prepared.strategy.conjoined
    if not wanted or nodes * rows * 8 > MAX_ENDS_BYTES:
        return np.zeros((0, 0), dtype=np.int64)
    ends = np.empty((nodes, rows), dtype=np.int64)
    plain = not prepared.conditions.has_history and len(prepared.plan.windows) == 1
    # each side ignores rows by its own strategy; assuming that any row may be ignored gives a lower bound for all sides
    strategy = layout.ANY if sided else CONTIGUITY[prepared.plan.selection.strategy]
    reachability.completion_ends(net, data.rows.letters, data.rows.offsets, strategy, plain, sided, ends)
    return ends


def latest_ends(net: walking.NetArrays, data: ChunkArrays, strict: bool, ahead: int, wanted: bool) -> tuple[np.ndarray, np.ndarray]:
    """Returns the row after the last completion of runs, and whether future rows may continue them, judged by row-local conditions.

    Args:
        net, data: the automaton and the chunk's arrays.
        strict: whether rows must be adjacent.
        ahead: how many rows ahead conditions look.
        wanted: whether the tables are needed.

    Returns:
        int64 (nodes, rows) and uint8 (nodes, rows). The shapes are (0, 0) if the tables would be too large or are not ``wanted``.
    """
    nodes, rows = len(net.masks), len(data.rows.letters)
    size = (nodes, rows) if wanted and nodes * rows * 8 <= MAX_ENDS_BYTES else (0, 0)
    latest, alive = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.uint8)
    if latest.size:
        reachability.latest_ends(net, data.rows.letters, data.rows.offsets, strict, ahead, latest, alive)
    return latest, alive


class GapWalk:
    """Lists matches in preference order.

    With ``at_once``, a match of a growing partition is emitted with its last row. Without it the match waits until all matches
    with its first row are known.
    """

    def __init__(self, task: Task, at_once: bool = False) -> None:
        self.task = task
        plan, prepared, limits, automaton = task.plan, task.prepared, task.limits, task.prepared.strategy.automaton
        self.sided = prepared.strategy.conjoined
        self.negations = Negations.of(prepared)
        self.net = net_of(prepared, self.negations.late)
        self.sides = self.plain = None
        exact = automaton.copies is None
        original = np.array(() if exact else automaton.copies.original, dtype=np.int64)
        self.copied = walking.CopyArrays(original, automaton.sources, automaton.first_source[:0] if exact else automaton.first_source)
        if self.sided:
            self.sides = walking.SideArrays(automaton.checks, automaton.blockers, np.int64(automaton.across(prepared.conditions)))
        else:
            self.plain = walking.Plain(distinct_variables(prepared.conditions))
        # WITHIN around the whole pattern bounds a match like WINDOW. The end of an unfinished match distinguishes the two.
        bounding = exact and plan.unfinished is None and not windowed(task)
        self.around = list(unbounded(plan.pattern)[1]) if bounding else []
        strategy = CONTIGUITY[plan.selection.strategy]
        self.how = walking.WalkOptions(
            strategy=strategy,
            # later rows do not complete earlier, unless only the partition's last row completes
            monotone=(self.sided or strategy == layout.ANY) and not bool((self.net.accepts == 2).any()),
            report_all=plan.reports_all,
            shortest=plan.non_overlapping,
            ambiguous=self.sided or (plan.reports_all and bool(automaton.ambiguous)),
            windowed=windowed(task) or bool(self.around),
            memo=False,  # each chunk decides it
            patience=limits.patience,
            unmatched=plan.rows == "unmatched",
            skip=SKIPS[plan.skip.mode],
            skip_mask=plan.skip.targets,
            max_steps=limits.max_steps,
            max_matches=limits.max_matches,
            ahead=task.awaited,
            waits=(plan.reports_all and not at_once) or automaton.negates_behind,
            at_once=at_once,
            behind=automaton.negates_behind,
            # if provisional rows hide no match, a search that fails although it takes all of them has failed for good
            releases=strategy != layout.NEXT and not (self.sided or automaton.negates or automaton.copies) and (at_once or not plan.reports_all) and not plan.slide,
        )
        self.remembers = limits.merging and not self.sided and prepared.strategy.forgets is None
        # whether a run may fail that the table of completions lets begin
        self.fails = prepared.conditions.has_history or len(plan.windows) > 1 or automaton.negates
        looks = prepared.conditions.has_history or len(plan.windows) > 1 or self.sided or automaton.negates
        self.early = EarlyEmission(plan.windows[0], looks, task.awaited) if at_once else None

        self.bounded = limits.merging and bounded(task)

    def over(self, chunk: Chunk, state: ResumeState) -> Matches:
        return _WalkMatches(self, chunk, state)


class _WalkMatches(Matches):
    state_size = layout.SELECTION_STATE

    def __init__(self, search: GapWalk, chunk: Chunk, state: ResumeState) -> None:
        task, automaton, rows = search.task, search.task.prepared.strategy.automaton, chunk.rows
        self.name = CONJUNCTION if search.sided else WALK
        super().__init__(task, chunk, state, width=WITH_ERRORS if automaton.copies else WIDTH, negates=search.negations.at_start)
        if search.around:
            self.windows[0] = self.windows[search.around].min(axis=0)
        self.search = search
        conditions = task.prepared.conditions
        # with adjacent rows the table cannot distinguish a failed run from one that future rows may complete
        tabled = task.limits.merging and not (chunk.closed is not None and search.how.strategy == layout.STRICT and not search.sided)
        some = False  # whether some emitted matches may be found again
        if search.early is not None:
            self.opens[:, layout.O_COVERED] = self.opens[:, layout.O_START]
            self.opens[:, layout.O_PUT_OFF] = search.early.put_off(chunk, self.opens[:, layout.O_EMITTED])
            self.state[layout.S_COVERED] = self.opens[0, layout.O_START]
            some = bool((self.opens[:, layout.O_EMITTED] > chunk.offsets[:-1]).any())
        latest = latest_ends(search.net, self.data, search.how.strategy == layout.STRICT and not search.sided, task.ahead, task.limits.merging and some)
        self.spans = walking.Spans(self.windows, self.backs, completion_ends(task.prepared, search.net, self.data, tabled), *latest)
        self.how = search.how._replace(memo=search.remembers and (search.fails or self.spans.ends.shape[1] == 0))
        self.negated = search.negations.over(task, self.data)
        longest = int(np.diff(chunk.offsets).max(initial=0))
        if search.how.windowed:
            longest = min(longest, int((self.windows[0] - np.arange(rows)).max(initial=0)))
        depth = longest * automaton.sides + 2  # most (row, variable) pairs of a match, and a frame before and after them
        key = 3 + len(task.plan.windows) - 1 + 2 * len(conditions.slots)
        entries = self._memo_entries(key) if self.how.memo else 1
        # values of rows, with sides those after each pair of a match, and two to judge a finished match
        self.scratch = scratch(conditions, rows + (depth if search.sided else 0) + 2, entries=entries, width=key)
        self.scratch.labels[:] = vm.UNTAKEN
        best = 2 * depth if search.how.shortest else 1
        self.work = walking.WalkWork(
            frames=np.empty((depth, final_conditions.FRAME), dtype=np.int64),
            opened=np.full((depth, len(task.plan.windows)), -1, dtype=np.int64),
            since=np.empty((depth if search.sided else 1, automaton.sides), dtype=np.int64),
            best_rows=np.empty(best, dtype=np.int64),
            best_labels=np.empty(best, dtype=np.uint8),
            path=np.zeros((longest + 3 if search.negations.late_groups else 3, final_conditions.PATH), dtype=np.int64),
            within=np.zeros((longest + 3 if search.negations.late_groups else 1, len(task.plan.windows)), dtype=np.int64),
            taken=self.taken,
            seen=np.zeros((1, 2), dtype=np.int64),
        )
        self.floors = None
        if search.bounded:
            self.floors = floors_of(
                task, chunk, self.scores, search.net, self.data.rows.letters, search.how.strategy, longest, depth, whole=not state.dropped.any()
            )

    def _memo_entries(self, key: int) -> int:
        """Returns the size of the memo: twice the runs that the nodes and rows of the longest partition make.

        If values of the match distinguish more runs, a full memo is emptied.
        """
        longest = int(np.diff(self.chunk.offsets).max(initial=0))
        wanted = 1 << max(2 * longest * len(self.search.net.masks) - 1, MEMO_ENTRIES - 1).bit_length()
        fits = self.task.limits.max_state_bytes // 4 // (32 + 8 * key)
        return max(min(wanted, 1 << max(fits, 1).bit_length() - 1), MEMO_ENTRIES)

    def run(self) -> int:
        search, room, work = self.search, self.room, self.work
        if search.how.ambiguous:
            work = work._replace(seen=np.zeros((1 << (2 * len(room.events)).bit_length(), 2), dtype=np.int64))
        return walking.walk_partitions(
            search.net, search.plain, search.sides, search.copied, self.how, self.spans, self.negated, self.data.conditions, self.data.rows, self.scratch, work,
            self.opens, self.state, walking.Output(room.events, room.labels, room.rows, room.paths), self.floors,
        )

    def keeps(self) -> bool:
        return self.state[layout.S_REPEATS] == 1

    def left(self) -> Saved:
        if self.search.how.at_once:
            self.opens[:, layout.O_COVERED] = self.opens[:, layout.O_EMITTED]
        return super().left()
