"""BUDGET n CHECKS and MATCH HISTORY for patterns whose conditions look at one row, by their text: every run is kept, every choice
compared with every other.

The pattern is written out in places (BUDGET.md, 2a.6); a candidate is a run, a place and the least cost of the way there. Costs and
scores are fractions; what a candidate promises is a float, since the order that it makes is defined in floats.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import permutations

from tests.oracle.agents import Agents
from tests.oracle.pace import Pace

START = 0


class Places:
    """A pattern written out: ``variable`` of each place from 1 on, and the least cost of all that is missing between two places,
    START and ``end`` among them. ``options``: of these the costs by the negations that the way there crosses."""

    def __init__(self, form, weights) -> None:
        self.weights = weights
        self.variable = {}
        self.ways = {}
        self.nodes = 0
        entry, leave = self._node(), self._node()
        first, last = self._built(form)
        self._way(entry, first, 0)
        self._way(last, leave, 0)
        self.end = len(self.variable) + 1
        doors = {p: door for p, (_, door, _) in self.variable.items()}
        self.cost, self.options = {}, {}
        for p, begin in [(START, entry), *((p, out) for p, (_, _, out) in self.variable.items())]:
            costs = self._from(begin)
            for q, to in [*doors.items(), (self.end, leave)]:
                if to in costs:
                    self.options[p, q] = costs[to]
                    self.cost[p, q] = min(costs[to].values())

    def _node(self):
        self.nodes += 1
        return self.nodes

    def _way(self, a, b, cost, *crossed):
        self.ways.setdefault(a, []).append((b, Fraction(cost), frozenset(crossed)))

    def _built(self, form):
        kind = form[0]
        if kind == "var":
            enter, leave = self._node(), self._node()
            self.variable[len(self.variable) + 1] = (form[1], enter, leave)
            self._way(enter, leave, self.weights.get(form[1], 1))
            return enter, leave
        if kind == "cat":
            enter = leave = self._node()
            for part in form[1]:
                a, b = self._built(part)
                self._way(leave, a, 0)
                leave = b
            return enter, leave
        if kind == "alt":
            enter, leave = self._node(), self._node()
            for part in form[1]:
                a, b = self._built(part)
                self._way(enter, a, 0)
                self._way(b, leave, 0)
            return enter, leave
        if kind == "permute":
            return self._built(("alt", [("cat", list(order)) for order in permutations(form[1])]))
        if kind == "rep":
            return self._repeated(*form[1:4])
        if kind == "neg":
            enter, leave = self._node(), self._node()
            self._way(enter, leave, 0, form[1])
            if f"~{form[1]}" in self.weights:
                self._way(enter, leave, self.weights[f"~{form[1]}"])
            return enter, leave
        if kind == "empty":
            return self._built(("cat", []))
        raise ValueError(f"no form that is local to its rows: {kind}")

    def _repeated(self, item, least, most):
        enter = leave = self._node()
        last = None
        for _ in range(max(least, 1) if most is None else least):
            last = self._built(item)
            self._way(leave, last[0], 0)
            leave = last[1]
        out = self._node()
        self._way(leave, out, 0)
        if most is None:
            self._way(last[1], last[0], 0)
            if least == 0:
                self._way(enter, out, 0)
            return enter, out
        for _ in range(most - least):
            a, b = self._built(item)
            self._way(leave, a, 0)
            self._way(b, out, 0)
            leave = b
        return enter, out

    def _from(self, begin):
        """The least cost of getting to each node without taking a row, by the negations crossed."""
        costs, todo = {begin: {frozenset(): Fraction(0)}}, [(begin, frozenset())]
        while todo:
            node, crossed = todo.pop()
            for to, more, over in self.ways.get(node, ()):
                cost, some = costs[node][crossed] + more, costs.setdefault(to, {})
                if crossed | over not in some or cost < some[crossed | over]:
                    some[crossed | over] = cost
                    todo.append((to, crossed | over))
        return costs


@dataclass(frozen=True)
class Run:
    """Rows taken, the places at which they were, the cost so far, the vectors at which they were taken, and what may not stand
    ``before`` the first."""

    rows: tuple = ()
    places: tuple = ()
    cost: Fraction = Fraction(0)
    vectors: tuple = ()
    tries: tuple = ()
    before: frozenset = frozenset()

    @property
    def place(self):
        return self.places[-1] if self.places else START


@dataclass(frozen=True)
class Match:
    rows: tuple
    variables: tuple
    error: Fraction


@dataclass
class Answer:
    """Of one partition: the ``matches`` that each row completes, candidates ``tried``, ``left`` out and ``coverage`` by row,
    ``visits`` of vectors, and the match points that they led to."""

    matches: dict = field(default_factory=dict)
    tried: Counter = field(default_factory=Counter)
    left: Counter = field(default_factory=Counter)
    coverage: dict = field(default_factory=dict)
    pace: Pace | None = None
    visits: Counter = field(default_factory=Counter)
    points: dict = field(default_factory=dict)
    allowed: dict = field(default_factory=dict)
    agents: int = 0  # that began
    refills: int = 0


@dataclass
class Budgeted:
    """A clause. ``takes``: the letters that each variable takes; ``window`` and times are whole numbers; ``checks`` None for no
    BUDGET; ``history``: {(place, errors, remaining, idle): (visits, bundles)} where one is used, whose window has ``intervals``."""

    pattern: tuple
    takes: dict
    k: Fraction
    weights: dict
    window: int
    proxies: bool
    checks: int | None = None
    history: dict | None = None
    intervals: int = 1
    above: str = ""  # a variable whose rows have a greater value than the first row of their run
    explore: bool = False
    pace: Callable[[int], Pace] | None = None  # the control of a partition with that many matching rows, in place of ``checks``
    limit: str = ""  # what is written of it
    refill: int = 0  # bundles after which what the partition has recorded becomes the history
    points: dict | None = None  # {vector: match points} of the history; with them candidates are tried in our own order

    def answer(self, letters, times, recorded=None, values=(), turns=None) -> Answer:
        """The answer for one partition; vectors are recorded in ``recorded`` intervals, if these are not those of the history.
        ``values``: of the rows, for ``above``; ``turns``: {row: (history, points, intervals)}, another history from each of these
        rows on."""
        places, answer, runs, seen = Places(self.pattern, self.weights), Answer(), [], set()
        promises = Promises(self, places) if self.points is not None else None
        led: set = set()
        own = False  # whether the partition has replaced the history

        def take(run, q, cost):
            """The run with the row at hand; None where its condition does not hold. Whatever comes of it is noted."""
            vector = self.vector(run, q, cost, times, i, recorded or self.intervals)
            who = object() if exploring else (run.rows, run.places, run.before) if run.rows else i
            if (who, vector) not in seen:
                seen.add((who, vector))
                answer.visits[vector] += 1
            number = promises.tries(lambda g, i=i: self.vector(run, q, cost, times, i, g)) if promises else 0
            if places.variable[q][0] == self.above and not values[i] > values[run.rows[0]]:
                return None  # it was tried
            longer = Run((*run.rows, i), (*run.places, q), cost, (*run.vectors, vector), (*run.tries, number), run.before)
            error = cost + min((more for crossed, more in places.options.get((q, places.end), {}).items() if not outside(longer, crossed)), default=self.k + 1)
            if error <= self.k:
                answer.matches.setdefault(i, []).append(Match(longer.rows, tuple(places.variable[p][0] for p in longer.places), error))
                led.update(longer.tries)
                for reached in longer.vectors:
                    answer.points.setdefault(reached, set()).add(i)
            return longer

        def hinders(crossed, rows):
            return any(letters[j] in self.takes[v] for v in crossed for j in rows)

        def outside(run, crossed):
            """Whether something stands behind the last row that may not, or before the first, where the window looks."""
            ahead = [j for j in range(run.rows[-1] + 1, len(letters)) if abs(times[j] - times[run.rows[0]]) < self.window]
            return hinders(crossed, ahead) or any(abs(times[run.rows[-1]] - times[j]) < self.window and hinders(run.before, [j]) for j in range(run.rows[0]))

        def steps(run, q):
            """(run, cost) with which a run may be tried at a place; one that begins for each set of negations that it crosses."""
            options = places.options.get((run.place, q), {})
            if not run.rows:
                return [(Run(before=crossed), cost) for crossed, cost in options.items()]
            least = min((cost for crossed, cost in options.items() if not hinders(crossed, range(run.rows[-1] + 1, i))), default=self.k + 1)
            return [(run, run.cost + least)]

        def ages(run, i):
            return self.vector(run, 0, 0, times, i, self.intervals)[2:]

        agents = Agents(places, self.takes, self.k, ages, lambda run, q, cost: take(run or Run(), q, cost)) if self.explore else None
        matching = [any(letter in self.takes[variable] for variable, _, _ in places.variable.values()) for letter in letters]
        pace = self.pace(sum(matching)) if self.pace else None
        for i, letter in enumerate(letters):
            if pace and matching[i]:
                self.checks = answer.allowed[i] = pace.allowed()
            if turns and i in turns:
                if turns[i][2] != self.intervals:
                    own = False
                    self._forget(answer, runs, times, turns[i][2])
                    seen.clear()
                if not own:
                    self.history, self.points, self.intervals = turns[i]
                    if promises:
                        promises.turn(self, places)
            if self.refill and matching[i] and self._closed(answer, times, i):
                own = True
                self._replace(answer, times)
                if promises:
                    promises.of_tries, promises.of_led = [], []
                    promises.read(self, places)
            candidates, exploring = [], True
            for run in [Run(), *runs]:
                start = run.rows[0] if run.rows else i
                if abs(times[i] - times[start]) >= self.window:
                    continue
                for q, (variable, _, _) in places.variable.items():
                    if letter in self.takes[variable]:
                        candidates += [(begun, q, cost) for begun, cost in steps(run, q) if cost <= self.k]
            if self.proxies:
                candidates = self._best(candidates, i, places, values, Fates(self, places, letters, times))
            led.clear()
            used, seeds = 0, []
            if agents and matching[i]:
                seeds = [(q, cost) for run, q, cost in candidates if not run.rows]
                used = agents.row(i, letter, lambda run, i=i: abs(times[i] - times[run.rows[0]]) >= self.window, seeds, len(candidates), self.checks)
            exploring = False
            tried = self._tried(candidates, times, i, answer, promises, used)
            answer.tried[i], answer.left[i] = len(tried) + used, len(candidates) - len(tried)
            if pace and matching[i]:
                pace.made(answer.tried[i])
            made = [take(*candidate) for candidate in tried]
            runs += filter(None, made)
            # where all are tried, an agent begins with a run that begins, at no cost
            seed = agents.next_seed(seeds) if agents and len(tried) == len(candidates) else None
            if seed is not None:
                agents.begin(next(run for run, (before, *at) in zip(made, tried) if not before.rows and tuple(at) == seed), *seed)
            if promises:
                promises.led(led)
        answer.pace = pace
        answer.agents = sum(agents.begun.values()) if agents else 0
        return answer

    def _bundles(self, answer, times):
        return bundle_points({point for reached in answer.points.values() for point in reached}, times, self.window)

    def _closed(self, answer, times, i):
        """Whether the last of the bundles that fill the copy is closed at a row."""
        groups = self._bundles(answer, times)
        return len(groups) >= self.refill and abs(times[i] - times[groups[-1][-1]]) > self.window

    def _forget(self, answer, runs, times, g):
        """Begins to record in ``g`` intervals."""
        answer.visits.clear()
        answer.points.clear()
        for n, run in enumerate(runs):
            vectors = [self.vector(Run(run.rows[:j]), q, cost, times, run.rows[j], g) for j, (q, cost, _, _) in enumerate(run.vectors)]
            runs[n] = replace(run, vectors=tuple(vectors))

    def _replace(self, answer, times):
        """Makes the recorded vectors the history, and starts over with recording."""
        number = {point: n for n, group in enumerate(self._bundles(answer, times)) for point in group}
        vectors = {*answer.visits, *answer.points}
        self.history = {v: (max(answer.visits[v], 1), tuple(sorted({number[p] for p in answer.points.get(v, ())}))) for v in vectors}
        self.points = None if self.points is None else {v: len(answer.points.get(v, ())) for v in vectors}
        answer.visits.clear()
        answer.points.clear()
        answer.refills += 1

    def vector(self, run, q, cost, times, i, g):
        start, last = (run.rows[0], run.rows[-1]) if run.rows else (i, i)
        remaining = math.ceil(Fraction(g * (self.window - abs(times[i] - times[start])), self.window))
        return q, cost, remaining, math.floor(Fraction(g * abs(times[i] - times[last]), self.window))

    def _best(self, candidates, i, places, values, fates):
        """Of the candidates of one place and cost the one that began last, then that of the earliest rows; where ``above`` is at
        that place or behind it, one for each place, cost and value with which a run comes there."""
        found = {}
        for run, q, cost in candidates:
            order = (-(run.rows[0] if run.rows else i), (*run.rows, i), run.places)
            key = (q, cost)
            if self.above and (places.variable[q][0] == self.above or self._told(places, q, cost)):
                ahead = tuple(places.cost.get((run.place, r)) for r in (*places.variable, places.end))
                key += (ahead, run.cost, values[run.rows[0]] if run.rows and self._told(places, run.place, run.cost) else None)
            if fates.apart(q, cost):
                key += fates.of(run)
            if key not in found or order < found[key][0]:
                found[key] = (order, (run, q, cost))
        return [candidate for _, candidate in found.values()]

    def _told(self, places, place, cost):
        """Whether a row of ``above`` can come behind a place at that cost."""
        seen, todo = set(), [(place, cost)]
        while todo:
            at, so_far = todo.pop()
            for q, (variable, _, _) in places.variable.items():
                after = (q, so_far + places.cost.get((at, q), self.k + 1))
                if after[1] <= self.k and after not in seen:
                    if variable == self.above:
                        return True
                    seen.add(after)
                    todo.append(after)
        return False

    def _tried(self, candidates, times, i, answer, promises, used=0):
        def tie(candidate):
            run, q, cost = candidate
            return cost, -(run.rows[0] if run.rows else i), -q, (*run.rows, i), run.places, sorted(run.before)

        left, tried, most = sorted(candidates, key=tie), [], len(candidates) if self.checks is None else self.checks - used
        covered: dict = {}
        if promises and most < len(left):
            promised = {c: promises.promise(self.vector(*c, times, i, self.intervals)) for c in left}
            order = sorted(left, key=lambda c: (-promised[c], tie(c)))
            ahead = [c for at, c in enumerate(order) if c[1:] not in [other[1:] for other in order[:at]]]
            left = ahead + [c for c in left if c not in ahead]
        if not self.history:
            answer.coverage[i] = Fraction(1)
            return left[:most]
        while left and len(tried) < most:
            if promises:
                tried.append(left.pop(0))
                self._cover(tried[-1], covered, times, i)
                continue
            scores = [self._gain(c, covered, times, i) for c in left]
            best = left.pop(scores.index(max(scores)))
            tried.append(best)
            self._cover(best, covered, times, i)
        whole = dict(covered)
        for candidate in left:
            self._cover(candidate, whole, times, i)
        answer.coverage[i] = sum(covered.values()) / sum(whole.values()) if whole else Fraction(1)
        return tried

    def _known(self, candidate, times, i):
        """(1 / visits, bundles) of the candidate's vector."""
        visits, bundles = (self.history or {}).get(self.vector(*candidate, times, i, self.intervals), (1, ()))
        return Fraction(1, visits), bundles

    def _gain(self, candidate, covered, times, i):
        share, bundles = self._known(candidate, times, i)
        return sum((max(share - covered.get(b, 0), Fraction(0)) for b in bundles), Fraction(0))

    def _cover(self, candidate, covered, times, i):
        share, bundles = self._known(candidate, times, i)
        for b in bundles:
            covered[b] = max(covered.get(b, Fraction(0)), share)


class Fates:
    """What negations may yet do to runs, by which these are told apart."""

    def __init__(self, query: Budgeted, places: Places, letters, times) -> None:
        self.query, self.places, self.letters, self.times = query, places, letters, times
        self.begins = any(crossed for _, crossed, _, _ in self.onward(START, Fraction(0)))

    def onward(self, place, cost):
        """(place, negations crossed, cost there, whether it is the end) of what may come next on the way to a match."""
        for (p, q), options in self.places.options.items():
            for crossed, more in options.items():
                if p == place and cost + more <= self.query.k and (q == self.places.end or self.completes(q, cost + more)):
                    yield q, crossed, cost + more, q == self.places.end

    def completes(self, place, cost):
        return any(ends for _, _, _, _, ends in self.behind(place, cost))

    def behind(self, place, cost):
        """All that may come behind a place, whatever becomes of it."""
        seen, todo = set(), [(place, cost)]
        while todo:
            at, so_far = todo.pop()
            for (p, q), options in self.places.options.items():
                for crossed, more in options.items():
                    if p == at and so_far + more <= self.query.k:
                        yield at, so_far, q, crossed, q == self.places.end
                        if q != self.places.end and (q, so_far + more) not in seen:
                            seen.add((q, so_far + more))
                            todo.append((q, so_far + more))

    def closes(self, place, cost):
        """Whether a negation may stand behind the last row of a match to come."""
        for at, so_far, _, crossed, ends in self.behind(place, cost):
            free = [c for some, c in self.places.options.get((at, self.places.end), {}).items() if not some]
            if ends and crossed and so_far + self.places.options[at, self.places.end][crossed] < so_far + min(free, default=self.query.k + 1):
                return True
        return False

    def apart(self, place, cost):
        return self.begins or self.closes(place, cost)

    def of(self, run):
        if not run.rows:
            return START, run.before
        start, last, size = run.rows[0], run.rows[-1], len(self.letters)
        before = [j for j in range(start) if abs(self.times[start] - self.times[j]) < self.query.window and any(self.letters[j] in self.query.takes[v] for v in run.before)]
        hindering = {v for q, crossed, _, ends in self.onward(run.place, run.cost) if not ends for v in crossed}
        nearest = tuple(next((j for j in range(last + 1, size) if self.letters[j] in self.query.takes[v]), None) for v in sorted(hindering))
        until = next((j for j in range(start, size) if abs(self.times[j] - self.times[start]) >= self.query.window), size)
        ahead = tuple(tuple(sorted((tuple(sorted(c)), m) for c, m in self.places.options.get((run.place, r), {}).items())) for r in (*self.places.variable, self.places.end))
        return ahead, run.cost, max(before, default=-1), until if self.closes(run.place, run.cost) else None, nearest


class Promises:
    """What a history and the partition so far tell of a vector: how many match points come of a run that is tried there."""

    def __init__(self, query: Budgeted, places: Places) -> None:
        self.of_tries, self.of_led = [], []
        self.reads = []  # of each try its vector in so many intervals
        self.read(query, places)

    def turn(self, query: Budgeted, places: Places) -> None:
        """Another history. What was counted of vectors in other intervals counts for their places and costs alone."""
        if query.intervals != self.intervals:
            self.of_tries, self.of_led = ([(*v[:2], None, None) for v in some] for some in (self.of_tries, self.of_led))
        self.read(query, places)

    def read(self, query: Budgeted, places: Places) -> None:
        self.intervals = g = query.intervals
        stands, todo = set(), [(START, Fraction(0))]
        while todo:
            at, cost = todo.pop()
            for q in places.variable:
                for more in places.options.get((at, q), {}).values():
                    after = (q, cost + more)
                    if after[1] <= query.k and after not in stands:
                        stands.add(after)
                        todo.append(after)
        told = {v: (n, query.points[v]) for v, (n, _) in query.history.items() if v[:2] in stands and 1 <= v[2] <= g and 0 <= v[3] < g}
        self.mean = sum(points for _, points in told.values()) / max(sum(n for n, _ in told.values()), 1)
        self.told = told
        self.steps = sorted({1, g, max(d for d in range(1, g + 1) if g % d == 0 and d * d <= g)})
        self.more = max(least_rows(places, query.k) / 4.0, 1.0) ** 3

    def coarser(self, vector, n):
        place, cost, remaining, idle = vector
        return place, cost, -(-remaining * n // self.intervals), idle * n // self.intervals

    def share(self, vector, steps):
        """By the history, in so many steps of coarser intervals."""
        if not steps:
            return self.mean
        same = [counts for v, counts in self.told.items() if self.coarser(v, steps[-1]) == self.coarser(vector, steps[-1])]
        return (sum(points for _, points in same) + 10.0 * self.share(vector, steps[:-1])) / (sum(n for n, _ in same) + 10.0)

    def promise(self, vector):
        general = self.share(vector, [1]) * self.more
        here = self._updated(general, lambda v: v[:2] == vector[:2])
        expected = (self.share(vector, self.steps) * self.more) * ((here + 0.01) / (general + 0.01))
        return self._updated(expected, lambda v: v == vector)

    def _updated(self, expected, same):
        """With what the partition shows of the same vectors."""
        tried, led = sum(map(same, self.of_tries)), sum(map(same, self.of_led))
        return (led + 20.0 * expected) / (tried + 20.0) if tried or led else expected

    def tries(self, vector_in):
        """The number of a try; ``vector_in`` gives its vector in so many intervals."""
        self.of_tries.append(vector_in(self.intervals))
        self.reads.append(vector_in)
        return len(self.reads) - 1

    def led(self, tries):
        self.of_led += [self.reads[number](self.intervals) for number in tries]


def least_rows(places, k) -> int:
    """The rows of the shortest match with that many errors."""
    rows, stands = 0, {(START, Fraction(0))}
    while stands and not any(cost + places.cost.get((at, places.end), k + 1) <= k for at, cost in stands if at != START):
        stands = {(q, cost + more) for at, cost in stands for q in places.variable for more in places.options.get((at, q), {}).values() if cost + more <= k}
        rows += 1
    return rows


def proxy(matches) -> Match:
    """The best match of a row: fewest errors, latest start, earliest rows."""
    return min(matches, key=lambda m: (m.error, -m.rows[0], m.rows))


def distinct(matches) -> dict:
    """{(rows, variables): least error}"""
    found: dict = {}
    for match in matches:
        key = (match.rows, match.variables)
        found[key] = min(found.get(key, match.error), match.error)
    return found


def reach(point, times, window) -> list[int]:
    """The rows that what is said of a match point is about."""
    return [j for j in range(point + 1) if abs(times[point] - times[j]) < window]


def bundle_points(points, times, window) -> list[list[int]]:
    """Match points that are at most the window apart, together."""
    groups: list[list[int]] = []
    for point in sorted(points):
        if groups and abs(times[point] - times[groups[-1][-1]]) <= window:
            groups[-1].append(point)
        else:
            groups.append([point])
    return groups
