"""APPROX k with a conjunction ``p & q`` by plain enumeration: the matches of each side, and all their pairs.

A side is spelled out as words: what its variables take or lack, one after the other. Each word is laid over the rows in all ways
(Definition 1 of ACEP, and a side may also lack all rows). A match is one such way of each side, with at least one row. Their costs
add up to at most k, and their rows lie in one window. Everything else is checked on the finished match.

Readings, beside those of tests/oracle/approx.py and tests/oracle/selection.py:

 1. A variable is missing if it lacks a row somewhere and has none in any side.
 2. Whether a condition is across ``&`` is asked of its conjuncts that are not waived.
 3. A negation of a side that lacks all rows does not have neighbours, so it costs nothing.
 4. Of the cheapest ways to equal pairs the one with the fewest missing variables counts, then the first by PATTERN, side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import permutations, product

from . import expr, pattern
from .approx import inside, row_local
from .selection import Budget, _conjunct, _conjuncts, _named


@dataclass(frozen=True)
class Match:
    """pairs: (row, variable) by row, then by the variable's first appearance in the pattern; a pair of both sides once."""

    pairs: tuple
    error: Fraction
    missing: tuple

    @property
    def rows(self):
        return tuple(sorted({row for row, _ in self.pairs}))

    @property
    def first(self):
        return self.pairs[0][0]

    @property
    def last(self):
        return self.pairs[-1][0]


@dataclass(frozen=True)
class Side:
    """A way to lay a side over the rows. negations: (variable, row before or None, row after or None)."""

    pairs: tuple
    missing: tuple
    negations: tuple
    starts: bool
    ends: bool
    cost: Fraction


@dataclass
class Conjoined:
    """A pattern ("and", sides), to be looked for in any number of partitions. window: None, ("rows", n) or ("range", size)."""

    pattern: tuple
    defines: dict
    k: Fraction
    weights: dict = field(default_factory=dict)
    window: tuple | None = None
    subsets: dict = field(default_factory=dict)
    budget: int = 300_000

    def __post_init__(self):
        self.sides = self.pattern[1]
        self.order = pattern.variables(self.pattern)
        self.conjuncts = {v: _conjuncts(e) for v, e in self.defines.items()}

    def weight(self, name) -> Fraction:
        return Fraction(self.weights.get(name, 1))

    def all_matches(self, rows, times) -> list[Match]:
        """Every match of a partition, by first row, then by its pairs. If one continues the other, the longer comes first."""
        found = _Partition(self, rows, times).found()
        return sorted(found, key=lambda match: (match.first, [*((row, self.order.index(v)) for row, v in match.pairs), (len(rows), 0)]))

    def proxies(self, rows, times) -> list[Match]:
        """The match of each last row: fewest errors, then the latest start, then the earliest rows."""
        matches = self.all_matches(rows, times)
        return [
            min((m for m in matches if m.last == last), key=lambda m: (m.error, -m.first, [row for row, _ in m.pairs]))
            for last in sorted({m.last for m in matches})
        ]


def words(p, most) -> set[tuple]:
    """The sequences that a pattern allows, of at most so many variables."""
    kind = p[0]
    if kind in ("var", "neg", "start", "end"):
        return {(p,)} if kind != "var" or most else set()
    if kind == "empty":
        return {()}
    if kind == "alt":
        return set().union(*(words(child, most) for child in p[1]))
    if kind == "permute":
        return set().union(*(words(("cat", list(order)), most) for order in permutations(p[1])))
    if kind == "within":
        return {(("open",), *word, ("close", p[2])) for word in words(p[1], most)}
    if kind == "cat":
        found = {()}
        for child in p[1]:
            found = _followed(found, words(child, most), most)
        return found
    _, body, least, limit, _ = p
    each, layer = words(body, most), {()}
    for _ in range(least):
        layer = _followed(layer, each, most)
    found, done, each = set(layer), least, {word for word in each if _length(word)}
    while layer and (limit is None or done < limit):
        layer, done = _followed(layer, each, most), done + 1
        found |= layer
    return found


def _followed(some, more, most) -> set[tuple]:
    found = {a + b for a in some for b in more if _length(a) + _length(b) <= most}
    if len(found) > 20_000:
        raise Budget
    return found


def _length(word) -> int:
    return sum(item[0] == "var" for item in word)


class _Partition:
    def __init__(self, query, rows, times):
        self.query, self.rows, self.times, self.left = query, rows, times, query.budget

    def step(self):
        self.left -= 1
        if self.left < 0:
            raise Budget

    def found(self) -> list[Match]:
        query = self.query
        best = {}
        for ways in product(*(self.sides(side) for side in query.sides)):
            self.step()
            if sum(way.cost for way in ways) > query.k:
                continue
            pairs = tuple(sorted({pair for way in ways for pair in way.pairs}, key=lambda pair: (pair[0], query.order.index(pair[1]))))
            if not pairs or not inside(query.window, self.times, pairs[0][0], pairs[-1][0]):
                continue
            error = self.error(ways, pairs)
            if error is None or error > query.k:
                continue
            missing = tuple(v for way in ways for v in way.missing)
            rank = (error, len(missing), [query.order.index(v) for v in missing])
            if pairs not in best or rank < best[pairs][0]:
                best[pairs] = (rank, Match(pairs, error, missing))
        return [match for _, match in best.values()]

    # --- one side

    def sides(self, side) -> list[Side]:
        """All ways to lay a side over the rows, for at most k."""
        query = self.query
        lacking = int(query.k / min([query.weight(v) for v in query.order]))
        best = {}
        for word in words(side, len(self.rows) + lacking):
            for laid, cost in self.laid(word, -1, Fraction(0)):
                way = self.side(word, laid, cost)
                if way is None:
                    continue
                key = (way.pairs, frozenset(way.missing), way.negations, way.starts, way.ends)
                rank = (cost, len(way.missing), [query.order.index(v) for v in way.missing])
                if key not in best or rank < best[key][0]:
                    best[key] = (rank, way)
        return [way for _, way in best.values()]

    def laid(self, word, last, cost) -> Iterator[tuple[tuple, Fraction]]:
        """The rows of a word's items, None for a missing variable and for what takes no row, with the cost."""
        self.step()
        if not word:
            yield (), cost
            return
        item, rest = word[0], word[1:]
        if item[0] != "var":
            yield from (((None, *laid), total) for laid, total in self.laid(rest, last, cost))
            return
        for row in range(last + 1, len(self.rows)):
            if self.locally(item[1], row):
                yield from (((row, *laid), total) for laid, total in self.laid(rest, row, cost))
        if cost + self.query.weight(item[1]) <= self.query.k:
            yield from (((None, *laid), total) for laid, total in self.laid(rest, last, cost + self.query.weight(item[1])))

    def side(self, word, laid, cost) -> Side | None:
        """The way with these rows; None if its groups or anchors do not hold."""
        pairs, missing, negations, opened, starts, ends = [], [], [], [], False, False
        for i, (item, row) in enumerate(zip(word, laid, strict=True)):
            if item[0] == "var" and row is None:
                missing.append(item[1])
            elif item[0] == "var":
                if ends:
                    return None
                pairs.append((row, item[1]))
            elif item[0] == "neg":
                later = [later for later in laid[i:] if later is not None]
                negations.append((item[1], pairs[-1][0] if pairs else None, later[0] if later else None))
            elif item[0] == "open":
                opened.append(len(pairs))
            elif item[0] == "close":
                group = pairs[opened.pop() :]
                if group and not inside(("range", item[1]), self.times, group[0][0], group[-1][0]):
                    return None
            elif item[0] == "start":
                if pairs:
                    return None
                starts = True
            else:
                ends = True
        if ends and (not pairs or pairs[-1][0] != len(self.rows) - 1):
            return None
        return Side(tuple(pairs), tuple(missing), tuple(negations) if pairs else (), starts, ends, cost)

    # --- the finished match

    def error(self, ways, pairs) -> Fraction | None:
        """The cost of the ways together, violated negations included; None if something does not hold."""
        query, taken = self.query, {v for _, v in pairs}
        if any(way.starts for way in ways) and pairs[0][0] != 0:
            return None
        gone = {v for way in ways for v in way.missing} - taken
        waived = gone | {name for name, members in query.subsets.items() if gone & set(members) and not taken & set(members)}
        for way in ways:
            if not all(self.holds(v, row, way.pairs, pairs, waived) for row, v in way.pairs):
                return None
        error = sum((way.cost for way in ways), Fraction(0))
        for variable, before, later in (negation for way in ways for negation in way.negations):
            if before is None:
                between = [row for row in range(later) if inside(query.window, self.times, row, pairs[-1][0])]
            elif later is None:
                between = [row for row in range(before + 1, len(self.rows)) if inside(query.window, self.times, pairs[0][0], row)]
            else:
                between = range(before + 1, later)
            conditions = self.conditions(variable, waived)
            if any(all(self.true(c, variable, row, self.finally_seen(variable, row, pairs)) for c in conditions) for row in between):
                if f"~{variable}" not in query.weights:
                    return None
                error += query.weight(f"~{variable}")
        return error

    def conditions(self, variable, waived) -> list:
        return [c for c in self.query.conjuncts.get(variable, ()) if not _named(c) & waived - {variable}]

    def holds(self, variable, row, own, pairs, waived) -> bool:
        conditions = self.conditions(variable, waived)
        seen = self.finally_seen(variable, row, pairs) if self.across(variable, conditions) else [pair for pair in own if pair[0] < row]
        return all(self.true(c, variable, row, seen) for c in conditions)

    def across(self, variable, conditions) -> bool:
        """Whether the conditions name a variable of another side, or no variable at all."""
        sides = [set(pattern.variables(side)) for side in self.query.sides]
        others = {v for i, side in enumerate(sides) if variable in side for j, other in enumerate(sides) if i != j for v in other}
        named = set().union(*map(_named, conditions))
        return any(name is None or others & set(self.query.subsets.get(name, (name,))) for name in named)

    def finally_seen(self, variable, row, pairs) -> list:
        return [(r, v) for r, v in pairs if v != variable or r < row]

    def true(self, c, variable, row, seen) -> bool:
        self.step()
        mine = [r for r, v in seen if v == variable]
        before = self.context(seen, mine[-1]) if mine else None
        return _conjunct(c, self.context([*seen, (row, variable)], row, before)) is True

    def locally(self, variable, row) -> bool:
        """The conjuncts that look at nothing but the row and its neighbours."""
        alone = [c for c in self.query.conjuncts.get(variable, ()) if row_local(c, variable)]
        return all(expr.evaluate(c, expr.Context(self.rows, row, (variable,), None, {}, (row,), row)) is True for c in alone)

    def context(self, pairs, here, before=None):
        pairs = sorted(pairs, key=lambda pair: (pair[0], self.query.order.index(pair[1])))
        positions, labels = tuple(row for row, _ in pairs), tuple(v for _, v in pairs)
        return expr.Context(self.rows, positions[0], labels, None, self.query.subsets, positions, here, before)
