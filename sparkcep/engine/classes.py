"""PROXY MATCHES and MATCH BUNDLES of whole partitions, where conditions look at the match: out of one run for each class of
equal futures, or out of all matches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sparkcep.automaton.strategy import CLASSES
from sparkcep.engine.buffer import Chunk
from sparkcep.engine.chains import empty_chains, proxy_arrays, wider_chains
from sparkcep.engine.drive import Room, Round, doubled, scratch
from sparkcep.engine.found import WITH_ERRORS, Found, with_unmatched
from sparkcep.engine.listing import Search, listed
from sparkcep.engine.live import columns_read, live_windows
from sparkcep.engine.prepared import Task
from sparkcep.engine.reporter import Reporter
from sparkcep.engine.tables import Tables
from sparkcep.engine.windows import plan_windows
from sparkcep.search import codes, derivations, machine
from sparkcep.search import proxies as proxying
from sparkcep.search import proxy_classes as classing
from sparkcep.search.chains import NONE

PLACES, ENTRIES = 256, 1 << 12  # at first


class BestOfLastRows:
    """Makes the output for whole partitions. ``listing``: the search that lists matches; None where classes of runs tell the
    best."""

    def __init__(self, task: Task, listing: Search | None, reporter: Reporter, tables: Tables) -> None:
        self.task, self.listing, self.reporter, self.tables = task, listing, reporter, tables
        self.classes = Classes(task) if listing is None else None

    def answer(self, chunk: Chunk) -> Iterator[pa.Table]:
        best = self.classes.of(chunk) if self.classes is not None else self._listed(chunk)
        found = self.reporter.reported(best, self.reporter.places(chunk), chunk)
        if self.task.plan.rows == "unmatched":
            found = with_unmatched(found, np.arange(chunk.rows), chunk)
        yield from self.tables.of(chunk, found)

    def _listed(self, chunk: Chunk) -> Found:
        """The best match of each last row, out of all matches."""
        assert self.listing is not None
        kept = Found.none(WITH_ERRORS)
        for found in listed(self.listing, chunk):
            both = kept.joined(found.matches())  # which rows are in no match is not yet known
            last_rows = derivations.last_rows(both.events, both.rows)
            chosen = derivations.best_of(both.events, both.rows, last_rows, self.reporter.found.edges)
            kept = both.chosen(chosen[np.argsort(last_rows[chosen], kind="stable")])
        return kept


class Classes:
    """Finds the best match of each last row with runs side by side."""

    def __init__(self, task: Task) -> None:
        self.task = task
        automaton = task.prepared.strategy.automaton
        self.net = proxy_arrays(automaton)
        self.nodes = automaton.nodes
        self.live = task.prepared.state_live
        self.valued = self.live.any(axis=1).astype(np.uint8)
        self.window_live = live_windows(automaton)
        self.read = columns_read(task.prepared.conditions)

    def of(self, chunk: Chunk) -> Found:
        (found,) = _Round(self, chunk).rounds()
        return found


class _Round(Round):
    """The search over whole partitions, whose output is kept until it is done."""

    name = CLASSES

    def __init__(self, search: Classes, chunk: Chunk) -> None:
        super().__init__(search.task, chunk)
        self.search, prepared, rows = search, self.task.prepared, chunk.rows
        self.windows, _ = plan_windows(self.task.plan.windows, chunk.columns, chunk.offsets)
        self.scratch = scratch(prepared.conditions, rows + 1)
        self.scratch.labels[:] = machine.UNTAKEN
        self.places = _places(PLACES, self.windows.shape[0], len(self.task.slots), search.nodes)
        self.chains = empty_chains(ENTRIES, np.dtype(np.int64))
        self.state = np.zeros(classing.CLASS_STATE, dtype=np.int64)
        self.room = Room(max(1024, rows // 4), rows + 1024, WITH_ERRORS, paths=True)
        self.stuck = -1  # the row at which room for entries was missing last

    def run(self) -> int:
        search, room = self.search, self.room
        return classing.class_partitions(
            search.net, self.task.plan.selection.strategy == "STRICT", self.windows, search.window_live, search.valued, search.live, search.read,
            self.data.conditions, self.data.rows, self.scratch, np.int64(self.chunk.rows), self.places, self.chains, self.state,
            room.events, room.labels, room.rows, room.paths,
        )

    def grow(self) -> None:
        state = self.state
        if state[codes.S_DETAIL] == 1:
            self.places = _more_places(self.places)
        else:
            used = proxying.compact(self.chains, self.places.entry[: state[classing.P_PLACES]], int(state[classing.P_USED]))
            state[classing.P_USED] = used
            # one row may need more than all that was used before it
            again = int(state[codes.S_START]) == self.stuck
            self.stuck = int(state[codes.S_START])
            self.chains = wider_chains(self.chains, used, 2 * (len(self.chains.at) if again else used))
        self.check(self._nbytes())

    def keeps(self) -> bool:
        return True

    def widen(self, kept: bool) -> None:
        self.room.double()
        self.check(self._nbytes())

    def _nbytes(self) -> int:
        return sum(a.nbytes for a in (*self.places, *self.chains)) + self.room.nbytes

    def found(self) -> Found:
        return self.room.found(self.state)


def _places(size: int, windows: int, slots: int, nodes: int) -> classing.Places:
    hf = np.zeros((size, slots), dtype=np.float64)
    whole = [np.zeros(size, dtype=np.int64) for _ in range(4)]
    return classing.Places(
        info=np.zeros((size, 5), dtype=np.int64), ends=np.zeros((size, windows), dtype=np.int64), hi=np.zeros((size, slots), dtype=np.int64), hf=hf,
        bits=hf.view(np.int64), free=whole[0], table=np.zeros(4 * size, dtype=np.int64), entry=whole[1], after=whole[2],
        head=np.full(nodes, NONE, dtype=np.int64), pending=whole[3],
    )


def _more_places(places: classing.Places) -> classing.Places:
    grown = classing.Places(*map(doubled, places))
    grown = grown._replace(bits=grown.hf.view(np.int64), table=np.zeros_like(grown.table), head=places.head)
    classing.refill(grown)
    return grown
