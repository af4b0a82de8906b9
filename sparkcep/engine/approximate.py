"""Approximate matches (LANGUAGE section 5) as event selection over an automaton whose nodes know the cost so far.

ACEP (VLDB 2016) links its match nodes backwards, so that all matches of a window are in memory at once. Here they are found depth first, one by one,
by the kernel of event selection (:mod:`sparkcep.automaton.approximate` makes the automaton).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sparkcep.engine.found import Found, Reporter, unmatched_events
from sparkcep.engine.last_rows import EndingEngine
from sparkcep.engine.run import Data, MatchEngine, Prepared
from sparkcep.engine.selection import SelectionEngine
from sparkcep.engine.windows import measured
from sparkcep.search import adjacent as kernels
from sparkcep.search import derivations as approximate_kernels
from sparkcep.search import walk as selecting


class ApproximateEngine(SelectionEngine):
    """ALL MATCHES: every (row, variable) sequence at its least cost."""

    event_width = 6

    def __init__(self, prepared: Prepared, chunk_rows=None, limits=None) -> None:
        super().__init__(prepared, chunk_rows, limits)
        assert prepared.approximate is not None
        self.reporter = Reporter(self.plan, prepared.approximate)
        found = prepared.approximate
        self._errors = selecting.Errors(np.array(found.copies.original, dtype=np.int64), found.sources, found.first_source)
        self._paths = np.zeros(0, dtype=np.int64)

    def _path(self, labels: np.ndarray) -> np.ndarray:
        if len(self._paths) < len(labels):
            self._paths = np.concatenate([self._paths, np.zeros(len(labels) - len(self._paths), dtype=np.int64)])
        return self._paths

    def _emit(self, columns, events: np.ndarray, labels: np.ndarray, scattered: np.ndarray, offsets: np.ndarray, by_event=None) -> Iterator[pa.Table]:
        if by_event is None:
            by_event = self.reporter.by_event(events, self._paths)
        yield from super()._emit(columns, events, labels, scattered, offsets, by_event)


class ListedProxyEngine(EndingEngine, ApproximateEngine):
    """PROXY MATCHES and MATCH BUNDLES out of all matches, which are gone through one by one, a partition at a time."""

    def _decided(self, data: Data, offsets: np.ndarray, done: int, columns: dict[str, pa.Array]) -> Iterator[pa.Table]:
        best = self._best(data, offsets[: done + 1], columns)
        positions = self._partition_positions(offsets)
        window = self.plan.windows[0]
        places = measured(window, columns.get(window.order), positions, self.reporter.descending)
        best = self.reporter.reported(best, places, columns, positions)
        if self.plan.rows == "unmatched":
            best = unmatched_events(best, np.arange(offsets[done]), offsets[: done + 1])
        yield from self._emit(columns, best.events, best.labels, best.rows, offsets, best.by_event)

    def _taken_from(self, row: int) -> np.ndarray:
        """No row that is kept has been looked at."""
        return MatchEngine._taken_from(self, row)

    def _best(self, data, offsets: np.ndarray, columns: dict[str, pa.Array]) -> Found:
        """The best match of each last row."""
        assert self.p.approximate is not None
        kept = Found.none()
        for events, labels, rows in self._found(data, offsets, columns):
            events = events[events[:, kernels.E_ROWS] > 0]  # which rows are in no match is not yet known
            used = int(events[-1, kernels.E_LABELS] + events[-1, kernels.E_ROWS]) if len(events) else 0
            both = kept.joined(Found(events, labels[:used], rows[:used], self._paths[:used]))
            last_rows = approximate_kernels.last_rows(both.events, both.rows)
            chosen = approximate_kernels.best_of(both.events, both.rows, last_rows, self.p.approximate.edges)
            kept = both.chosen(chosen[np.argsort(last_rows[chosen], kind="stable")])
        return kept


