"""Agents that explore under a budget (RC-ACEP, VLDB 2016, Algorithms 5 and 6), by their text: values of actions in a dictionary,
all that may come next found anew at each turn."""

from __future__ import annotations

from dataclasses import dataclass

TRIALS, DISCOUNT, SHARE, MOST = 5, 0.9, 8, 64


@dataclass
class Agent:
    """``run`` has the rows taken; ``place`` and ``cost`` are where the agent stands, what it skipped behind its last row included;
    ``last``: its last (state, action) and the reward."""

    run: object
    place: int
    cost: object
    last: tuple = ()


class Agents:
    """The agents of one partition. ``places`` as in :mod:`tests.oracle.budget`; ``ages`` gives (remaining, idle) of rows; ``take``
    tries to let a run take the row at a place, at a cost."""

    def __init__(self, places, takes, k, ages, take) -> None:
        self.places, self.takes, self.k, self.ages, self.take = places, takes, k, ages, take
        self.values, self.tries, self.alive, self.begun, self.saved = {}, {}, [], {}, 0
        self.rows = 1 + min(self.distance(q) for q in self.after(0))

    def after(self, place):
        """The places that come next, back edges left out."""
        return [q for q in self.places.variable if q > place and self.places.cost.get((place, q)) == 0]

    def distance(self, place):
        return 0 if self.places.cost.get((place, self.places.end)) == 0 else 1 + min(self.distance(q) for q in self.after(place))

    def row(self, i, letter, expired, seeds, count, checks):
        """The checks that agents take at a row: ``seeds`` are the (place, cost) at which a run may begin, ``count`` the
        candidates."""
        short, spare, used = count > checks, max(checks - count, 0), 0
        if short or self.saved:
            self.saved = min(self.saved + checks, SHARE * max(checks, self.rows))
        most = min(checks, max(spare, self.saved // SHARE))
        for agent in list(self.alive):
            if expired(agent.run):
                goes_on = False
            else:
                took, goes_on = self.turn(agent, i, letter, most - used)
                used += took
            if not goes_on:
                self.learn(agent, 0.0)
                self.alive.remove(agent)
        seed = self.next_seed(seeds) if short and used < most else None
        if seed is not None:
            self.begin(self.take(None, *seed), *seed)
            used += 1
        if self.saved:
            self.saved = max(self.saved - SHARE * max(used - spare, 0), 1)
        return used

    def next_seed(self, seeds):
        """Where an agent begins now; None where none does."""
        if not seeds or len(self.alive) >= MOST or self.saved < SHARE * self.rows * (len(self.alive) + 1):
            return None
        seed = min(seeds, key=lambda seed: (self.begun.get(seed, 0), seed))
        self.begun[seed] = self.begun.get(seed, 0) + 1
        return seed

    def begin(self, run, place, cost):
        if run is not None and self.after(place):
            self.alive.append(Agent(run, place, cost))

    def reaches(self, run, place, cost):
        """Whether the cheapest way from the last row of a run to a place costs just what is left to it."""
        return cost <= self.k and run.cost + self.places.cost.get((run.place, place), self.k + 1) == cost

    def turn(self, agent, i, letter, left):
        while True:
            following = self.after(agent.place)
            here = [q for q in following if letter in self.takes[self.places.variable[q][0]] and self.reaches(agent.run, q, agent.cost)][:1]
            state = (agent.place, agent.cost, self.ages(agent.run, i), *here)
            actions = [("take", q) for q in here]
            for q in following:
                cost = agent.cost + self.places.weights.get(self.places.variable[q][0], 1)
                if q not in here and any(self.reaches(agent.run, r, cost) for r in self.after(q)):
                    actions.append(("skip", q))
            actions.append(("stay", agent.place))
            few = [a for a in actions if self.tries.get((state, a), 0) < TRIALS]
            greatest = max(self.values.get((state, a), 0.0) for a in actions)
            action, q = few[0] if few else next(a for a in actions if self.values.get((state, a), 0.0) == greatest)
            if action == "take" and not left:
                return 0, True
            self.learn(agent, greatest)
            agent.last = ((state, (action, q)), 0.0)
            if action == "stay":
                return 0, True
            if action == "skip":
                agent.cost += self.places.weights.get(self.places.variable[q][0], 1)
                agent.place, agent.last = q, (agent.last[0], 0.5 ** self.distance(q))
                continue
            run = self.take(agent.run, q, agent.cost)
            if run is None:
                return 1, True
            agent.run, agent.place, agent.last = run, q, (agent.last[0], 0.5 ** self.distance(q))
            return 1, bool(self.after(q))

    def learn(self, agent, expected):
        if not agent.last:
            return
        at, reward = agent.last
        self.tries[at] = self.tries.get(at, 0) + 1
        value = self.values.get(at, 0.0)
        self.values[at] = value + 60.0 / (59.0 + self.tries[at]) * (reward + DISCOUNT * expected - value)
