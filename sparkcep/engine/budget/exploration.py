"""Agents that explore candidates which a history would not choose, prepared for one pattern (RC-ACEP, VLDB 2016, Algorithm 5).

The best-effort search (:mod:`sparkcep.engine.budget.best_effort`) uses them if BUDGET says EXPLORE. For each position of an agent
the module finds which places of the pattern come next and how many rows are left to the end. The agents learn in
:mod:`sparkcep.kernels.budget.q_learning`.

Example: ``PATTERN (A B C)`` without skips has the places 1, 2 and 3. ``after`` is {0: (1,), 1: (2,), 2: (3,), 3: ()}, and
``distance`` is {0: 3, 1: 2, 2: 1, 3: 0}.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.compiler.net.net import E_VAR, Net
from sparkcep.kernels.budget import q_learning as exploring
from sparkcep.kernels.budget.best_effort import BudgetNet
from sparkcep.kernels.common.run_chains import NONE
from sparkcep.plan.records import Approx

MAX_VALUES = 1 << 20  # limit of values of actions in states
_NONE = np.zeros(0, dtype=np.int64)
NO_AGENTS = exploring.Agents(
    False, 0, np.zeros((0, exploring.AGENT_STATE_FIELDS), dtype=np.int64), np.zeros((0, exploring.OPTION_FIELDS), dtype=np.int64), np.zeros(0), _NONE, _NONE, 1, _NONE, np.zeros(0), _NONE, _NONE,
    np.zeros((0, exploring.AGENT_FIELDS), dtype=np.int64), np.zeros(0), *(5 * [_NONE]),
)  # fmt: skip


class Distances(NamedTuple):
    """The way from each place of the pattern to the end of a match.

    Attributes:
        after: the places that come next after each place, without back edges. Place 0 is the start.
        distance: how many rows the shortest match needs after each place.
        skips: the cost of skipping each place.
    """

    after: dict[int, tuple[int, ...]]
    distance: dict[int, int]
    skips: dict[int, int]


def courses(net: Net, budget: BudgetNet, approx: Approx) -> Distances:
    """The distances of a net, by lines 1 to 12 of Algorithm 5.

    Edges that skip nothing lead from one place to the next. Places are numbered in the order of the pattern, so a back edge leads
    to a place that is not greater.
    """
    after: dict[int, set[int]] = {0: set()}
    over, skips = set(), {}
    for e in np.flatnonzero(budget.places).tolist():
        place, cost, target = int(budget.places[e]), int(budget.costs[e]), net.edge(e).target
        skips[place] = approx.missing[int(budget.variables[e])]
        behind = after.setdefault(place, set())
        for f in net.edges_of(target):
            if net.edges[f, E_VAR] < 0:
                over |= {place} if net.edge(f).cost == cost else set()
            elif budget.costs[f] == cost and budget.places[f] > place:
                behind.add(int(budget.places[f]))
        if e in net.edges_of(0) and cost == 0:
            after[0].add(place)
    distance: dict[int, int] = {}
    for place in sorted(after, reverse=True):
        near = [distance[q] + 1 for q in after[place]]
        distance[place] = 0 if place in over else min(near, default=0)
    return Distances({place: tuple(sorted(some)) for place, some in after.items()}, distance, skips)


class Explorer:
    """Makes the agents of a clause. It computes once what does not depend on rows or on a history.

    Attributes:
        courses: the distances of the net.
        levels: the number of each cost.
        numbers: the number of each agent position: a node, a place up to which the pattern is matched or skipped, and a cost.
        behind: int64 (edges), the position after a row taken by the edge, NONE if the run cannot continue.
    """

    def __init__(self, net: Net, budget: BudgetNet, approx: Approx) -> None:
        self.courses = courses(net, budget, approx)
        self.levels = {cost: i for i, cost in enumerate(np.unique(budget.costs[budget.places > 0]).tolist())}
        self.net, self.budget = net, budget
        self.numbers: dict[tuple[int, int, int], int] = {}
        self.options: list[tuple[int, int, int]] = []
        self.rewards: list[float] = []
        self.edges: list[int] = []
        self.rows: dict[int, tuple[int, int, int]] = {}
        self.behind = np.full(len(net.edges), NONE, dtype=np.int64)
        for e in range(len(net.edges)):
            edge = net.edge(e)
            if budget.places[e] and self.courses.after[int(budget.places[e])]:
                self.behind[e] = self._standing(edge.target, int(budget.places[e]), int(budget.costs[e]))

    def _standing(self, node: int, place: int, cost: int) -> int:
        """The number of an agent position. A new position is added, with all positions that skips lead to."""
        key = (node, place, cost)
        if key in self.numbers:
            return self.numbers[key]
        number = self.numbers[key] = len(self.numbers)
        found = []
        for q in self.courses.after[place]:
            edges, more = self._taking(node, {q}, cost), cost + self.courses.skips[q]
            on = self._standing(node, q, more) if self._taking(node, set(self.courses.after[q]), more) else NONE
            found.append((edges, on, 0.5 ** self.courses.distance[q]))
        first = len(self.options)
        for edges, on, reward in found:
            self.options.append((len(self.edges), len(self.edges) + len(edges), on))
            self.edges += edges
            self.rewards.append(reward)
        self.rows[number] = (first, len(self.options), place * len(self.levels) + self.levels[cost])
        return number

    def _taking(self, node: int, places: set[int], cost: int) -> list[int]:
        return [e for e in self.net.edges_of(node) if self.net.edges[e, E_VAR] >= 0 and int(self.budget.places[e]) in places and self.budget.costs[e] == cost]

    def agents(self, intervals: int) -> exploring.Agents:
        """Agents that have learned nothing yet. They divide the window into ``intervals``, or into the greatest divisor of it for
        which there is room."""
        kinds = (max(self.courses.after) + 1) * len(self.levels)
        counts = {place: len(some) for place, some in self.courses.after.items()}
        own = np.array([(counts.get(kind // len(self.levels), 0) + 1) * (2 * counts.get(kind // len(self.levels), 0) + 1) for kind in range(kinds)], dtype=np.int64)
        g = max(d for d in range(1, intervals + 1) if intervals % d == 0 and (d == 1 or own.sum() * d * d <= MAX_VALUES))
        size = int(own.sum()) * g * g
        agent_states = np.array([self.rows[i] for i in range(len(self.rows))], dtype=np.int64).reshape(-1, exploring.AGENT_STATE_FIELDS)
        values, earned = np.zeros(size), np.zeros(exploring.MOST)
        return exploring.Agents(
            True, self.courses.distance[0], agent_states, np.array(self.options, dtype=np.int64).reshape(-1, exploring.OPTION_FIELDS), np.array(self.rewards), np.array(self.edges, dtype=np.int64), self.behind, g,
            np.concatenate([[0], np.cumsum(own * g * g)]).astype(np.int64), values, np.zeros(size, dtype=np.int64), np.full(size, -1, dtype=np.int64),
            np.zeros((exploring.MOST, exploring.AGENT_FIELDS), dtype=np.int64), earned, np.zeros(kinds, dtype=np.int64),
            values.view(np.int64), earned.view(np.int64), np.zeros(size, dtype=np.int64), np.zeros(1, dtype=np.int64),
        )  # fmt: skip
