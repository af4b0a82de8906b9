"""Arcs that come and go, as a graph for kernels: for each time between two changes the arcs that are valid then.

A kernel looks a row's arcs up in the lists that begin at the row's ``base``, so that it does not ask of an arc whether it is valid.
An arc ON EXPIRY is taken at a time behind its row, and carries its own times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sparkcep.columns.arrays import ranges
from sparkcep.kernels.automaton import register_runs as kernels
from sparkcep.kernels.automaton.register_runs import A_FROM, A_UNTIL, ENDLESS
from sparkcep.plan.records import Automaton

ALWAYS = -(1 << 63)  # an arc that begins then has no begin
_TAKES = {"row": kernels.ON_ROW, "empty": kernels.ON_EMPTY, "expiry": kernels.ON_EXPIRY}


class ValidArc(NamedTuple):
    """An arc of the automaton, valid from ``begin`` to before ``end``, with the parameters of the row ``given`` (-1: it has
    none)."""

    arc: int
    begin: int = ALWAYS
    end: int = ENDLESS
    given: int = -1


BEGIN, END = map(ValidArc._fields.index, ("begin", "end"))


@dataclass(frozen=True)
class Timetable:
    """A ``graph`` over arcs that are present; ``arcs`` int64: which arc of the automaton each is, ``given`` int64: the rows of
    their parameters. ``bounds``: of each set of arcs the times at which they change, and ``bases`` where its lists begin."""

    graph: kernels.ArcGraph
    arcs: np.ndarray
    given: np.ndarray
    bounds: tuple[np.ndarray, ...]
    bases: tuple[int, ...]

    def base(self, number: int, clock: np.ndarray) -> np.ndarray:
        """int64: where the lists of rows at these times begin, by the set of that number."""
        return self.bases[number] + np.searchsorted(self.bounds[number], clock, side="right") * len(self.graph.final)


def timetable(automaton: Automaton, sets: Sequence[np.ndarray], *, growing: bool = False) -> Timetable:
    """The graph of some sets of arcs, each in the order of its arcs: int64 (arcs, members of :class:`ValidArc`).

    ``growing``: arcs that are not known yet may leave any state."""
    own = np.array(
        [(a.target, a.letter, _TAKES[a.on], a.label, int(bool(a.emits)), ALWAYS, ENDLESS, *a.parameters) for a in automaton.arcs], dtype=np.int64,
    ).reshape(-1, kernels.A_WIDTH)
    sources, states = np.array([a.source for a in automaton.arcs], dtype=np.int64), len(automaton.states)
    arcs, leaving, silent, bounds, bases, shift = [], [], [], [], [], 0
    for table in sets:
        known = np.unique(table[:, 1:3])
        known = known[(known > ALWAYS) & (known < ENDLESS)]
        for lists, found in zip((leaving, silent), _lists(table, known, own, sources, states)):
            lists.append((found[0] + shift, found[1] + sum(map(len, arcs))))
        bounds.append(known)
        bases.append(shift)
        arcs.append(table)
        shift += (len(known) + 1) * states
    table = np.concatenate(arcs)
    of_arc = own[table[:, 0]]
    of_arc[:, A_FROM], of_arc[:, A_UNTIL] = table[:, 1], table[:, 2]
    final = np.zeros(states, dtype=np.uint8)
    final[list(automaton.final)] = 1
    goes = np.full(states, growing, dtype=np.uint8)
    goes[sources] = 1
    graph = kernels.ArcGraph(of_arc, *_joined(leaving, shift), *_joined(silent, shift), np.array([automaton.start], dtype=np.int64), final, goes)
    return Timetable(graph, table[:, 0], table[:, 3], tuple(bounds), tuple(bases))


def whole(automaton: Automaton) -> Timetable:
    """All arcs, at all times."""
    return timetable(automaton, [np.array([ValidArc(arc) for arc in range(len(automaton.arcs))], dtype=np.int64).reshape(-1, len(ValidArc._fields))])


def _lists(table: np.ndarray, bounds: np.ndarray, own: np.ndarray, sources: np.ndarray, states: int) -> Sequence[tuple[np.ndarray, np.ndarray]]:
    """Of the arcs that leave states, and of those that take no row, (list, arc) of each place in a list.

    What an arc ON EMPTY has made behind the row before stands next among those that leave, whether the arc is still valid or not.
    """
    spans = len(bounds) + 1
    takes = own[table[:, 0], kernels.A_ON]
    # the span that a time begins, of which the last lasts for ever
    first, last = (np.where(times == ENDLESS, spans, np.where(times == ALWAYS, 0, np.searchsorted(bounds, times, side="right"))) for times in (table[:, 1], table[:, 2]))

    def placed(low: np.ndarray, high: np.ndarray, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        counts = np.where(kept, np.maximum(high - low, 0), 0)
        which = np.repeat(np.arange(len(table)), counts)
        return ranges(low, counts) * states + sources[table[which, 0]], which

    row, empty, expiry = (takes == kind for kind in (kernels.ON_ROW, kernels.ON_EMPTY, kernels.ON_EXPIRY))
    return (
        placed(first, np.where(empty, spans, last), row | empty),
        placed(np.where(expiry, 0, first), last, empty | expiry),
    )


def _joined(parts: list[tuple[np.ndarray, np.ndarray]], lists: int) -> tuple[np.ndarray, np.ndarray]:
    """(where each list begins, the arcs of all lists in their order)."""
    of, arcs = (np.concatenate([part[i] for part in parts]).astype(np.int64) for i in range(2))
    order = np.lexsort((arcs, of))
    return np.concatenate([[0], np.cumsum(np.bincount(of, minlength=lists))]).astype(np.int64), arcs[order]
