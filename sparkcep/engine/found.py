"""What is said of found approximate matches: their errors, their bundles, and which rows are in none."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sparkcep.automaton.guesses import KINDS
from sparkcep.automaton.net import E_COST, Net
from sparkcep.columns.arrays import numbered, ranges
from sparkcep.engine.windows import Measured
from sparkcep.plan.costs import BUNDLES
from sparkcep.plan.plan import Plan
from sparkcep.search import derivations as finding
from sparkcep.search.adjacent import E_LABELS, E_NUMBER, E_PART, E_ROWS, E_START


@dataclass(frozen=True)
class Found:
    """Matches: ``events`` int64 (n, 6), ``labels`` uint8, ``rows`` and ``paths`` int64: variable, row and edge of each label; ``by_event``: for
    kinds of leaves that say something of a whole match, the value of each event."""

    events: np.ndarray
    labels: np.ndarray
    rows: np.ndarray
    paths: np.ndarray
    by_event: dict[str, pa.Array] = field(default_factory=dict)

    @staticmethod
    def none() -> Found:
        whole = np.zeros(0, dtype=np.int64)
        return Found(np.zeros((0, 6), dtype=np.int64), np.zeros(0, dtype=np.uint8), whole, whole)

    def joined(self, more: Found) -> Found:
        """These, then more of them."""
        events = more.events.copy()
        events[:, E_LABELS] += len(self.rows)
        return Found(
            np.concatenate([self.events, events]), np.concatenate([self.labels, more.labels]), np.concatenate([self.rows, more.rows]),
            np.concatenate([self.paths, more.paths]),
        )

    def chosen(self, which: np.ndarray) -> Found:
        """The events with these numbers, and nothing of the others."""
        events = self.events[which].copy()
        sizes = np.maximum(events[:, E_ROWS], 0)
        at = ranges(events[:, E_LABELS], sizes)
        events[:, E_LABELS] = np.cumsum(sizes) - sizes
        return Found(events, self.labels[at], self.rows[at], self.paths[at])


class Reporter:
    """Describes the matches of one plan."""

    def __init__(self, plan: Plan, found: Net) -> None:
        assert plan.approximate is not None
        self.plan, self.approx, self.found = plan, plan.approximate, found
        self.descending = bool(plan.order and plan.order[0].descending)
        self.bundling = self.approx.report == BUNDLES
        self._asked = {leaf.spec.kind for leaf in plan.leaves}
        self._kinds = pa.array([KINDS[k] for k in found.copies.kinds])
        lists = found.skipped
        self._skip_first = np.cumsum([0, *map(len, lists)]).astype(np.int64)
        self._skip_variables = np.array([v for skipped in lists for v in skipped], dtype=np.int64)

    def by_event(self, events: np.ndarray, paths: np.ndarray) -> dict[str, pa.Array]:
        """MATCH_ERRORS() and MISSING() of each event; NULL of rows in no match."""
        out = {"kind": self._kinds}
        none = events[:, E_ROWS] < 0
        if "errors" in self._asked:
            accepting = np.where(none, 0, events[:, finding.E_ACCEPT])
            costs = self.found.edges[accepting, E_COST]
            out["errors"] = pa.array(costs // self.approx.scale if self.approx.whole else costs / self.approx.scale, mask=none)
        if "missing" in self._asked:
            offsets, variables = finding.missing_variables(
                events, paths, self.found.first_source, self.found.sources, self._skip_first, self._skip_variables
            )
            names = pa.array(self.plan.variables, type=pa.string()).take(pa.array(variables))
            out["missing"] = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), names)
        return out

    def reported(self, best: Found, places: Measured, columns: dict[str, pa.Array], positions: np.ndarray) -> Found:
        """The matches to report of the best one of each last row, in that order: themselves, or the best of each bundle."""
        points = finding.last_rows(best.events, best.rows)
        if not self.bundling:
            return self.described(best.chosen(np.arange(len(points))))
        groups = bundle_groups(best.events[:, E_PART], points, places)
        chosen = finding.best_of(best.events, best.rows, groups, self.found.edges)
        firsts = np.flatnonzero(np.diff(groups, prepend=-1))
        sizes = np.diff(np.append(firsts, len(groups)))
        return self.bundles(best.chosen(chosen), points[firsts], points[firsts + sizes - 1], sizes, columns, positions)

    def bundles(
        self, best: Found, first: np.ndarray, last: np.ndarray, sizes: np.ndarray, columns: dict[str, pa.Array], positions: np.ndarray
    ) -> Found:
        """Bundles by their best match, rows of their first and last match points, and the numbers of these."""
        found = self.described(best)
        timed = self.plan.windows[0].order
        values = columns[timed] if timed else pa.array(positions)
        found.by_event["bundle_start"] = values.take(pa.array(first))
        found.by_event["bundle_end"] = values.take(pa.array(last))
        found.by_event["bundle_size"] = pa.array(sizes.astype(np.int64))
        return found

    def described(self, found: Found) -> Found:
        """With errors and missing variables, numbered anew in each partition."""
        found.events[:, E_NUMBER] = numbered(found.events[:, E_PART]) + 1
        found.by_event.update(self.by_event(found.events, found.paths))
        return found


def bundle_groups(parts: np.ndarray, points: np.ndarray, places: Measured) -> np.ndarray:
    """int64 (n): the bundle of each match point, in order (ACEP, Definition 3: neighbours no farther apart than the window)."""
    if not len(points):
        return points
    apart = (np.diff(parts) != 0) | (places.when[points[1:]] > places.near[points[:-1]])
    return np.concatenate([[0], np.cumsum(apart)]).astype(np.int64)


def unmatched_events(found: Found, rows: np.ndarray, offsets: np.ndarray, taken: np.ndarray | None = None) -> Found:
    """With an event for each of ``rows`` that is in no match (``taken`` uint8: marks of those that are; None: those of ``found``)."""
    if taken is None:
        taken = np.zeros(int(offsets[-1]), dtype=np.uint8)
        taken[found.rows] = 1
    alone = rows[taken[rows] == 0]
    events = np.zeros((len(alone), 6), dtype=np.int64)
    events[:, E_PART] = np.searchsorted(offsets, alone, side="right") - 1
    events[:, E_START], events[:, E_ROWS] = alone, -1
    padding = {name: values for name, values in found.by_event.items() if name == "kind"}
    for name, values in found.by_event.items():
        if name != "kind":
            padding[name] = pa.concat_arrays([values, pa.nulls(len(alone), values.type)])
    return Found(np.concatenate([found.events, events]), found.labels, found.rows, found.paths, padding)
