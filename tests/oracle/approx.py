"""APPROX k by plain enumeration: every way through the pattern, every way to lay rows under it, everything checked at the end.

Two steps. First the pattern is spelled out: all its derivations (what is taken, substituted, missing; where extra rows stand)
in preference order, without a look at any row; only the cost bounds them, and the number of rows. Then each partition's rows are
laid under each sequence of labels in all ways; of the derivations with these labels the cheapest, and of these the preferred one,
whose conditions, groups, anchors and negations hold for the finished match is the answer.

Where the text leaves something open, this is how it is read:

 1. Extra rows are rows of the match: count(*), LAST(v), PREV and CLASSIFIER() = NULL see them, no variable or subset does. The same
    goes for conditions: `count(*)` in DEFINE counts the extra rows so far.
 2. Substituted rows are rows of their variable everywhere: in running aggregates, for PRIOR's first iteration, in SUBSETs, for
    WITHIN and for `^` and `$` ("taken" there means taken or substituted).
 3. `{- -}` never hides an extra row: it stands in no part of the pattern. Which of the other rows are hidden is told by the same
    derivation as MISSING().
 4. An iteration is empty if nothing in it is taken, substituted or missing; `~B` and anchors alone make no iteration.
 5. `~B` counts once for each place it stands in the derivation, so twice for `~B ~B`. A violated one is not in MISSING().
    The waiver of conjuncts that name something missing goes for B's condition as well.
 6. A group WITHIN around nothing but missing variables is inside; a single row whose order value is NULL is not.
 7. `^` and `$` themselves are never missing.
 7a. SKIP TILL NEXT: a row between two rows of a match is ignored by a run that is at a place of the pattern. The transitions are
    those of the exact pattern from there. Conjuncts that name something missing are waived in them, too, but not those that name
    the variable that would take the row.
 8. Bundles of a partition whose match points have order values: distance is absolute, so a descending order is no different.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import permutations

from . import expr, pattern
from .selection import ANY, NEXT, STRICT, Budget, _conjunct, _conjuncts, _named

MATCHED, SUBSTITUTED, EXTRA = "MATCHED", "SUBSTITUTED", "EXTRA"


@dataclass(frozen=True)
class Trajectory:
    """rows: positions in the partition; labels, kinds and hidden row by row (an extra row's label is None). hidings: what other
    ways of the same cost hide."""

    rows: tuple
    labels: tuple
    error: Fraction
    missing: tuple
    kinds: tuple
    hidden: tuple
    hidings: frozenset


@dataclass(frozen=True)
class Proxy:
    """The report for one match point: its rows and error are certain, its trajectory is one of `choices`."""

    rows: tuple
    error: Fraction
    choices: tuple


@dataclass(frozen=True)
class Bundle:
    start: object
    end: object
    size: int
    best: Proxy


@dataclass
class Approx:
    """A pattern with its conditions and bounds, to be looked for in any number of partitions.

    weights: variable, "~variable" or "EXTRA" -> Fraction; absent: 1 (a negation: a violation is no match)
    window:  None, ("rows", n) or ("range", size in terms of the order values)
    """

    pattern: tuple
    defines: dict
    strategy: str
    k: Fraction
    weights: dict = field(default_factory=dict)
    window: tuple | None = None
    subsets: dict = field(default_factory=dict)
    longest: int = 0  # rows to spell the pattern out for at once, where many partitions follow
    budget: int = 100_000

    def __post_init__(self):
        self.k = Fraction(self.k)
        negations = pattern.contains(self.pattern, ("neg",))
        if self.strategy not in (ANY, NEXT, STRICT):
            raise ValueError("APPROX needs an event selection")
        if pattern.contains(self.pattern, ("and",)) or (negations and self.strategy == STRICT):
            raise ValueError("& with APPROX, or ~ under STRICT CONTIGUITY")
        if "EXTRA" in self.weights and self.strategy != STRICT:
            raise ValueError("EXTRA needs STRICT CONTIGUITY")
        if any(weight <= 0 for weight in self.weights.values()) or self.k < 0:
            raise ValueError("weights are above 0, k is not below 0")
        if cost_of_nothing(self.pattern, self.weights) <= self.k:
            raise ValueError("the whole match may be missing")
        self.conjuncts = {v: _conjuncts(e) for v, e in self.defines.items()}
        self.spelled = {}

    def weight(self, name) -> Fraction:
        return Fraction(self.weights.get(name, 1))

    def all_matches(self, rows, times) -> list[Trajectory]:
        """Every trajectory of one ordered partition, by rows. times: the first ORDER BY value of each row."""
        return sorted(_Partition(self, rows, times).trajectories(), key=lambda t: t.rows)

    def proxies(self, rows, times) -> list[Proxy]:
        return proxies(self.all_matches(rows, times))

    def per_error(self, rows, times) -> list[Proxy]:
        return per_error(self.all_matches(rows, times))

    def bundles(self, rows, times) -> list[Bundle]:
        return bundles(self.proxies(rows, times), self.window, times)

    def tree(self, longest):
        """The derivations of at most `longest` rows, by their labels: {label: tree}; under the key () the derivations that end
        here."""
        if longest not in self.spelled:
            self.spelled[longest] = _by_labels(_Derivations(self, longest, every=self.strategy == NEXT).found)
        return self.spelled[longest]


def proxies(trajectories) -> list[Proxy]:
    """One for each match point, in the order of the match points."""
    by_last = {}
    for t in trajectories:
        by_last.setdefault(t.rows[-1], []).append(t)
    found = []
    for last in sorted(by_last):
        best = min(by_last[last], key=_rank)
        found.append(Proxy(best.rows, best.error, tuple(t for t in by_last[last] if _rank(t) == _rank(best))))
    return found


def per_error(trajectories) -> list[Proxy]:
    """For each match point and each cost the one of the latest start, unless a cheaper one starts as late, by match point and
    cost."""
    found = []
    for point, error in sorted({(t.rows[-1], t.error) for t in trajectories}):
        cheaper = [t for t in trajectories if t.rows[-1] == point and t.error < error]
        (best,) = proxies([t for t in trajectories if t.rows[-1] == point and t.error == error])
        if all(t.rows[0] < best.rows[0] for t in cheaper):
            found.append(best)
    return found


def bundles(some: list[Proxy], window, times) -> list[Bundle]:
    """Runs of match points whose neighbours are at most the window's size apart."""
    kind, size = window

    def at(proxy):
        return proxy.rows[-1] if kind == "rows" else times[proxy.rows[-1]]

    runs = []
    for proxy in some:
        if runs and abs(at(proxy) - at(runs[-1][-1])) <= size:
            runs[-1].append(proxy)
        else:
            runs.append([proxy])
    return [Bundle(at(run[0]), at(run[-1]), len(run), min(run, key=_rank)) for run in runs]


def _rank(match):
    """Fewest errors, then the latest start, then the earliest rows."""
    return match.error, -match.rows[0], match.rows


def cost_of_nothing(p, weights) -> Fraction:
    """The least cost of a derivation in which everything is missing."""
    kind = p[0]
    if kind == "var":
        return Fraction(weights.get(p[1], 1))
    if kind == "alt":
        return min(cost_of_nothing(child, weights) for child in p[1])
    if kind == "rep":
        return p[2] * cost_of_nothing(p[1], weights)
    return sum((cost_of_nothing(child, weights) for child in pattern.children(p)), Fraction(0))


# --- the pattern spelled out --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Derivation:
    """negations: (variable, index of the row before or None, index of the row behind or None)
    groups: (size, index of the first row, of the last row) of the groups WITHIN that have rows
    anchored: must the first row be the partition's first, the last row its last
    states: under SKIP TILL NEXT, after each row, what is left of the pattern, the length, and the indexes of the first rows of the
    groups that are open
    """

    labels: tuple
    kinds: tuple
    hidden: tuple
    missing: tuple
    negations: tuple
    groups: tuple
    anchored: tuple
    cost: Fraction
    states: tuple = ()


class _Derivations:
    """All derivations of at most `longest` rows and at most k, best first; None for those whose anchors cannot hold.

    Unless `every` is asked for, a way that comes to a place where an earlier and no dearer one has been, with the same rows
    and the same variables missing, is not followed: it could only end in the same derivations, later.

    A path is a tuple of ("row", variable or None, kind) ("missing", variable) ("neg", variable) ("start",) ("end",) and the marks
    ("open",) ("close", size) of a group and ("hide",) ("show",) of an exclusion. What is left of the pattern is None or (form, what
    is left after it); besides the forms of patterns there are marks, and ("loop", rep, iterations done, length when the last one
    began), where length counts the occurrences so far.
    """

    def __init__(self, query, longest, every=False):
        self.query = query
        self.longest = longest
        self.passed = None if every else {}
        self.left = query.budget
        self.extra = query.weight("EXTRA")
        self.found = []
        self.go((query.pattern, None), (), 0, 0, Fraction(0))

    def go(self, left, path, rows, length, cost):
        self.left -= 1
        if self.left < 0:
            raise Budget
        if left is None:
            if rows:
                self.found.append(_derivation(path, cost))
            return
        form, rest = left
        kind = form[0]
        if kind == "var":
            self.occurrence(form[1], rest, path, rows, length, cost)
        elif kind == "cat":
            for child in reversed(form[1]):
                rest = (child, rest)
            self.go(rest, path, rows, length, cost)
        elif kind == "alt":
            for child in form[1]:
                self.go((child, rest), path, rows, length, cost)
        elif kind == "permute":
            # itertools gives the orders of a list lexicographically, by position in the list.
            for order in permutations(form[1]):
                self.go((("cat", list(order)), rest), path, rows, length, cost)
        elif kind == "rep":
            self.go((("loop", form, 0, None), rest), path, rows, length, cost)
        elif kind == "loop":
            if self.been_here(left, path, length, cost):
                return
            _, (_, body, least, most, greedy), done, since = form
            again = (body, (("loop", form[1], done + 1, length), rest))
            if done < least:
                self.go(again, path, rows, length, cost)
                return
            if done > least and since == length:
                # An optional iteration over nothing ends the loop where it stands in the preference order.
                self.go(rest, path, rows, length, cost)
                return
            if not greedy:
                self.go(rest, path, rows, length, cost)
            if most is None or done < most:
                self.go(again, path, rows, length, cost)
            if greedy:
                self.go(rest, path, rows, length, cost)
        elif kind == "within":
            self.go((form[1], (("close", form[2]), rest)), (*path, ("open",)), rows, length, cost)
        elif kind == "excl":
            self.go((form[1], (("show",), rest)), (*path, ("hide",)), rows, length, cost)
        elif kind == "empty":
            self.go(rest, path, rows, length, cost)
        else:
            self.go(rest, (*path, form), rows, length, cost)

    def been_here(self, left, path, length, cost):
        if self.passed is None:
            return False
        place = []
        while left is not None:
            form, left = left
            if form[0] == "loop":
                _, (_, _, least, most, _), done, since = form
                # How often, and whether anything came since, matters only where the loop looks at it.
                place.append((id(form[1]), done if most is not None else min(done, least + 1), since == length))
            else:
                place.append(form if form[0] in ("close", "show") else id(form))
        rows = tuple(item for item in path if item[0] != "missing")
        there = (tuple(place), rows, frozenset(item for item in path if item[0] == "missing"))
        if self.passed.get(there, cost + 1) <= cost:
            return True
        self.passed[there] = cost
        return False

    def occurrence(self, variable, rest, path, rows, length, cost):
        """A row takes it, or stands for it, or it is missing. Extra rows stand right before a row that is not the first."""
        strict = self.query.strategy == STRICT
        weight = self.query.weight(variable)
        for kind, price in ((MATCHED, Fraction(0)), (SUBSTITUTED, weight)):
            if kind == SUBSTITUTED and not strict:
                continue
            extras = 0
            while rows + extras < self.longest and cost + price + extras * self.extra <= self.query.k:
                left = (rest, length + 1) if self.query.strategy == NEXT else ()
                longer = path + (("row", None, EXTRA),) * extras + (("row", variable, kind, *left),)
                self.go(rest, longer, rows + extras + 1, length + 1, cost + price + extras * self.extra)
                if rows == 0 or not strict:
                    break
                extras += 1
        if cost + weight <= self.query.k:
            self.go(rest, (*path, ("missing", variable)), rows, length + 1, cost + weight)


def _derivation(path, cost):
    """The Derivation of a finished path; None if its anchors cannot hold."""
    labels, kinds, hidden, missing, negations, groups, opened, states = [], [], [], [], [], [], [], []
    hiding = 0
    starts = ends = False
    total = sum(item[0] == "row" for item in path)
    for item in path:
        at = len(labels)
        if item[0] == "row":
            labels.append(item[1])
            kinds.append(item[2])
            states += [(*item[3:], tuple(opened))] if item[3:] else []
            hidden.append(hiding > 0 and item[2] != EXTRA)
        elif item[0] == "missing":
            missing.append(item[1])
        elif item[0] == "neg":
            negations.append((item[1], at - 1 if at else None, at if at < total else None))
        elif item[0] == "hide":
            hiding += 1
        elif item[0] == "show":
            hiding -= 1
        elif item[0] == "open":
            opened.append(at)
        elif item[0] == "close":
            first = opened.pop()
            # Extra rows stand right before their neighbour; one at the group's edge lies outside.
            while first < at and kinds[first] == EXTRA:
                first += 1
            if first < at:
                groups.append((item[1], first, at - 1))
        elif item[0] == "start":
            if at:
                return None
            starts = True
        elif item[0] == "end":
            if at < total:
                return None
            ends = True
        else:
            raise ValueError(f"no such pattern form: {item[0]}")
    return Derivation(*map(tuple, (labels, kinds, hidden, missing, negations, groups)), (starts, ends), cost, tuple(states))


def _by_labels(found):
    tree = {}
    standing = {}
    for place, d in enumerate(found):
        if d is None:
            continue
        # Of derivations that ask for the same, only the cheapest and then the preferred can win.
        same = (d.labels, d.kinds, d.hidden, d.negations, d.groups, d.anchored, frozenset(d.missing), place if d.states else None)
        if same not in standing or d.cost < standing[same][1].cost:
            standing[same] = (place, d)
    for place, d in standing.values():
        node = tree
        for label in d.labels:
            node = node.setdefault(label, {})
        node.setdefault((), []).append((d.cost, place, d))
    _in_order(tree)
    return tree


def _in_order(node):
    for key, below in node.items():
        if key == ():
            below.sort(key=lambda entry: entry[:2])
        else:
            _in_order(below)


# --- one partition ------------------------------------------------------------------------------------------------


class _Partition:
    def __init__(self, query, rows, times):
        self.query = query
        self.rows = rows
        self.times = times
        self.left = query.budget
        self.order = pattern.variables(query.pattern)
        self.values = {}
        self.local = {v: [c for c in some if row_local(c, v)] for v, some in query.conjuncts.items()}
        self.running = {v: [c for c in some if not row_local(c, v)] for v, some in query.conjuncts.items()}
        self.names = {id(c): _named(c) for some in query.conjuncts.values() for c in some}

    def trajectories(self) -> list[Trajectory]:
        found = []
        self.lay(self.query.tree(max(self.query.longest, len(self.rows))), (), (), Fraction(0), found)
        return found

    def lay(self, node, positions, labels, wrong, found):
        """Go on from these rows with these labels. wrong: what rows that cannot be MATCHED, and extra rows, cost at least."""
        self.left -= 1
        if self.left < 0:
            raise Budget
        if () in node:
            best = self.best(node[()], positions, labels)
            if best is not None:
                found.append(best)
        size = len(self.rows)
        if not positions:
            following = range(size)
        elif self.query.strategy == STRICT:
            following = range(positions[-1] + 1, min(positions[-1] + 2, size))
        else:
            following = range(positions[-1] + 1, size)
        for row in following:
            # All rows of the match lie in the window of its first; so a row without an order value is in no match.
            if not self.inside(self.query.window, positions[0] if positions else row, row):
                continue
            for label, below in node.items():
                if label == ():
                    continue
                price = wrong
                if label is None:
                    price += self.query.weight("EXTRA")
                elif not self.locally(label, row):
                    if self.query.strategy != STRICT:
                        continue
                    price += self.query.weight(label)
                if price <= self.query.k:
                    self.lay(below, (*positions, row), (*labels, label), price, found)

    def best(self, derivations, positions, labels):
        """The cheapest, then the preferred of the derivations (in that order) that hold for these rows, as a Trajectory."""
        won, hidings = None, set()
        for cost, place, d in derivations:
            if won is not None and cost > won[0]:
                break
            price = self.price(d, positions, labels)
            if price is None or price > self.query.k:
                continue
            if won is None or price < won[0]:
                hidings = set()
            if won is None or (price, place) < won[:2]:
                won = (price, place, d)
            if price == won[0]:
                hidings.add(d.hidden)
        if won is None:
            return None
        price, _, d = won
        return Trajectory(positions, labels, price, d.missing, d.kinds, d.hidden, frozenset(hidings))

    def price(self, d, positions, labels):
        """The cost of the derivation with these rows, negations included; None if something does not hold."""
        starts, ends = d.anchored
        if starts and positions[0] != 0 or ends and positions[-1] != len(self.rows) - 1:
            return None
        for size, first, last in d.groups:
            if not self.inside(("range", size), positions[first], positions[last]):
                return None
        waived = self.waived(d, labels)
        for i, kind in enumerate(d.kinds):
            if kind == MATCHED and not self.holds(labels[i], positions, labels, i, waived):
                return None
        for i, state in enumerate(d.states[:-1]):
            if any(self.blocked(state, positions[: i + 1], labels[: i + 1], row, waived) for row in range(positions[i] + 1, positions[i + 1])):
                return None
        price = d.cost
        for variable, before, behind in d.negations:
            if self.violated(variable, before, behind, positions, labels, waived):
                if f"~{variable}" not in self.query.weights:
                    return None
                price += self.query.weight(f"~{variable}")
        return price

    def blocked(self, state, positions, labels, row, waived) -> bool:
        """Whether the run that has taken these rows may not ignore `row`."""
        left, length, opened = state
        for variable, rest in _blocking(left, length):
            closes = []
            while rest is not None:
                form, rest = rest
                closes += [form] if form[0] == "close" else []
            old = [form for form in closes if len(form) == 2]
            starts = [row] * (len(closes) - len(old))
            starts += [positions[at] if at < len(positions) else row for at in reversed(opened[: len(old)])]
            if not all(self.inside(("range", form[1]), first, row) for form, first in zip(closes, starts, strict=True)):
                continue
            rowless = waived - {variable} - {name for name, members in self.query.subsets.items() if variable in members}
            if self.holds(variable, (*positions, row), (*labels, variable), len(positions), rowless):
                return True
        return False

    def inside(self, window, first, last) -> bool:
        return inside(window, self.times, first, last)

    # --- conditions

    def waived(self, d, labels) -> set:
        """The variables and subsets that are missing."""
        gone = {v for v in d.missing if v not in labels}
        return gone | {
            name for name, members in self.query.subsets.items() if gone & set(members) and not set(labels) & set(members)
        }

    def locally(self, variable, row) -> bool:
        """The conjuncts that look at nothing but the row and its neighbours in the partition."""
        key = (variable, row)
        if key not in self.values:
            context = expr.Context(self.rows, row, (variable,), None, {}, (row,), row)
            self.values[key] = all(expr.evaluate(c, context) is True for c in self.local.get(variable, ()))
        return self.values[key]

    def holds(self, variable, positions, labels, i, waived) -> bool:
        """The condition of `variable` at the i-th row of the match, which sees the rows up to it."""
        if not self.locally(variable, positions[i]):
            return False
        for c in self.running.get(variable, ()):
            if self.names[id(c)] & waived:
                continue
            key = (id(c), positions[: i + 1], labels[: i + 1])
            if key not in self.values:
                self.values[key] = self.evaluate(c, variable, positions[i], list(zip(positions[:i], labels[:i])))
            if self.values[key] is not True:
                return False
        return True

    def evaluate(self, c, variable, row, others):
        """A conjunct of the condition of `variable` at `row`, where `others` are the pairs in sight besides that one."""
        mine = [r for r, v in others if v == variable]
        before = self.context(others, mine[-1]) if mine else None
        return _conjunct(c, self.context([*others, (row, variable)], row, before))

    def context(self, pairs, here, before=None):
        pairs = sorted(pairs, key=lambda pair: pair[0])
        positions, labels = tuple(r for r, _ in pairs), tuple(v for _, v in pairs)
        return expr.Context(self.rows, positions[0], labels, None, self.query.subsets, positions, here, before)

    def violated(self, variable, before, behind, positions, labels, waived) -> bool:
        size = len(self.rows)
        if before is None:
            looked_at = [row for row in range(positions[0]) if self.inside(self.query.window, row, positions[-1])]
        elif behind is None:
            looked_at = [row for row in range(positions[-1] + 1, size) if self.inside(self.query.window, positions[0], row)]
        else:
            looked_at = range(positions[before] + 1, positions[behind])
        for row in looked_at:
            # Itself running, all others as in the finished match.
            others = [(r, v) for r, v in zip(positions, labels) if v != variable or r < row]
            wanted = [c for c in self.query.conjuncts.get(variable, ()) if not self.names[id(c)] & waived]
            if all(self.evaluate(c, variable, row, others) is True for c in wanted):
                return True
        return False


def _blocking(left, length) -> list:
    """(variable, what is left after it) of the exact transitions whose rows SKIP TILL NEXT may not ignore after a row."""
    at = left
    while at is not None:
        form, rest = at
        if form[0] == "loop":
            _, (_, body, _, most, _), done, _ = form
            if most is None or done < most:
                return list(_takes((body, (("stop",), rest)), length))
        elif form[0] not in ("close", "show", "empty", "neg"):
            break
        at = rest
    return list(_takes(left, length))


def _takes(left, length):
    """The variables that may take the next row if nothing is missing, each with what is left after it."""
    if left is None:
        return
    form, rest = left
    kind = form[0]
    if kind == "var":
        yield form[1], rest
    elif kind == "cat":
        for child in reversed(form[1]):
            rest = (child, rest)
        yield from _takes(rest, length)
    elif kind == "alt":
        for child in form[1]:
            yield from _takes((child, rest), length)
    elif kind == "permute":
        for order in permutations(form[1]):
            yield from _takes((("cat", list(order)), rest), length)
    elif kind == "rep":
        yield from _takes((("loop", form, 0, None), rest), length)
    elif kind == "loop":
        _, (_, body, least, most, _), done, since = form
        if done > least and since == length:
            yield from _takes(rest, length)
            return
        if most is None or done < most:
            yield from _takes((body, (("loop", form[1], done + 1, length), rest)), length)
        if done >= least:
            yield from _takes(rest, length)
    elif kind == "within":
        yield from _takes((form[1], (("close", form[2], "new"), rest)), length)
    elif kind == "excl":
        yield from _takes((form[1], (("show",), rest)), length)
    elif kind in ("close", "show", "empty", "neg"):
        yield from _takes(rest, length)


def inside(window, times, first, last) -> bool:
    """Whether two rows lie in one window: None, ("rows", n) or ("range", size)."""
    if window is None:
        return True
    kind, size = window
    if kind == "rows":
        return last - first < size
    begin, end = times[first], times[last]
    return begin is not None and end is not None and abs(end - begin) < size


def row_local(e, variable) -> bool:
    """Does the conjunct of `variable` look at nothing but its row and that row's neighbours in the partition?"""
    if not isinstance(e, tuple):
        return True
    if e[0] in ("agg", "classifier", "match_number", "prior", "running", "final"):
        return False
    if e[0] == "nav":
        return e[1:4] == ("LAST", variable, 0) and row_local(e[4], variable)
    return all(row_local(part, variable) for part in e[1:])
