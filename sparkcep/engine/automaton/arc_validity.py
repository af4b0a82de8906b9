"""Dynamic arcs as a graph for kernels, which has the list of valid arcs for each time between two changes.

:class:`sparkcep.engine.automaton.register_runs.RegisterRuns` runs the graph. A kernel finds a row's arcs in the lists that begin at
the row's ``base``, so it never tests whether an arc is valid. An arc ON EXPIRY is the exception: it is taken at a time after its
row, so it carries the times of its validity.

Example: the states are S (0) and T (1). Arc 0 leads from S to T and is valid from 10 to before 20. Arc 1 leads from S to T and is
always valid. The bounds are 10 and 20, which make three spans of two lists each. The lists of S are (1), (0, 1) and (1), and those
of T are empty. ``base`` is 0 at time 5, 2 at time 10 and 4 at time 20.
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

ALWAYS = -(1 << 63)  # the begin of an arc without one
_TAKES = {"row": kernels.ON_ROW, "empty": kernels.ON_EMPTY, "expiry": kernels.ON_EXPIRY}


class ValidArc(NamedTuple):
    """An arc that is valid from ``begin`` to before ``end``. ``given`` is the row with its parameters, -1 if it has none."""

    arc: int
    begin: int = ALWAYS
    end: int = ENDLESS
    given: int = -1


BEGIN, END = map(ValidArc._fields.index, ("begin", "end"))


@dataclass(frozen=True)
class Timetable:
    """Which arcs are valid when, for some sets of arcs.

    Attributes:
        graph: the graph over the present arcs.
        arcs: int64 (present arcs), the arc of the automaton.
        given: int64 (present arcs), the row with its parameters, -1 if it has none.
        bounds: for each set, the times when its arcs change.
        bases: for each set, where its lists begin.
    """

    graph: kernels.ArcGraph
    arcs: np.ndarray
    given: np.ndarray
    bounds: tuple[np.ndarray, ...]
    bases: tuple[int, ...]

    def base(self, number: int, clock: np.ndarray) -> np.ndarray:
        """Where the lists of rows at the times ``clock`` begin, for the set ``number``. int64."""
        return self.bases[number] + np.searchsorted(self.bounds[number], clock, side="right") * len(self.graph.final)


def timetable(automaton: Automaton, sets: Sequence[np.ndarray], *, growing: bool = False) -> Timetable:
    """The graph of some sets of arcs.

    Args:
        sets: the arcs of each set in order. int64 (arcs, members of :class:`ValidArc`).
        growing: whether any state may get another arc later.
    """
    own = np.array(
        [(a.target, a.letter, _TAKES[a.on], a.label if a.on == "row" else 0, int(bool(a.emits)), ALWAYS, ENDLESS, *a.parameters) for a in automaton.arcs], dtype=np.int64,
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
    """The timetable of an automaton without dynamic arcs: all arcs are always valid."""
    return timetable(automaton, [np.array([ValidArc(arc) for arc in range(len(automaton.arcs))], dtype=np.int64).reshape(-1, len(ValidArc._fields))])


def _lists(table: np.ndarray, bounds: np.ndarray, own: np.ndarray, sources: np.ndarray, states: int) -> Sequence[tuple[np.ndarray, np.ndarray]]:
    """Two lists as pairs (list, arc): the arcs that leave states, and the epsilon arcs (ON EMPTY and ON EXPIRY).

    A run that an arc ON EMPTY made at the previous row continues at the next one, even if the arc is no longer valid there. So such
    an arc stays among the leaving arcs after its end.
    """
    spans = len(bounds) + 1
    takes = own[table[:, 0], kernels.A_ON]
    # The number of the span that a time begins. The last span never ends.
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
    """Sorts pairs by list. Returns where each list begins, and the arcs of all lists."""
    of, arcs = (np.concatenate([part[i] for part in parts]).astype(np.int64) for i in range(2))
    order = np.lexsort((arcs, of))
    return np.concatenate([[0], np.cumsum(np.bincount(of, minlength=lists))]).astype(np.int64), arcs[order]
