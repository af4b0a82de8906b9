"""Matches of a row pattern in preference order, by plain depth-first enumeration."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

from .expr import Context, evaluate


class TooManySteps(Exception):
    """The case is too large for exhaustive search; the caller counts it and goes on."""


class SkipTargetError(Exception):
    """AFTER MATCH SKIP TO a row that is the first of the match, or that does not exist."""


@dataclass(frozen=True)
class Match:
    number: int
    start: int
    labels: tuple[str, ...]
    excluded: tuple[bool, ...]

    @property
    def stop(self) -> int:
        return self.start + len(self.labels)


class _Steps:
    def __init__(self, budget):
        self.left = budget

    def take(self):
        self.left -= 1
        if self.left < 0:
            raise TooManySteps


def enumerate_from(pattern, size, start, accepts, steps):
    """Every way to match `pattern` at row `start` of `size` rows, best first, as tuples of (variable, excluded).

    `accepts(labels)` tells whether the last of `labels` may stand where it stands; it sees the variables only.
    """

    def ways(p, path, excluded):
        steps.take()
        kind = p[0]
        here = start + len(path)
        if kind == "var":
            longer = path + ((p[1], excluded),)
            if here < size and accepts(tuple(name for name, _ in longer)):
                yield longer
        elif kind == "cat":
            yield from in_turn(p[1], path, excluded)
        elif kind == "alt":
            for child in p[1]:
                yield from ways(child, path, excluded)
        elif kind == "permute":
            # itertools gives the orders of a list lexicographically, by position in the list.
            for order in permutations(p[1]):
                yield from in_turn(order, path, excluded)
        elif kind == "rep":
            yield from repeated(p, 0, path, excluded)
        elif kind == "excl":
            yield from ways(p[1], path, True)
        elif kind == "empty":
            yield path
        elif kind == "start":
            if here == 0:
                yield path
        elif kind == "end":
            if here == size:
                yield path
        else:
            raise ValueError(f"no such pattern form: {kind}")

    def in_turn(children, path, excluded):
        if not children:
            yield path
            return
        for longer in ways(children[0], path, excluded):
            yield from in_turn(children[1:], longer, excluded)

    def repeated(p, done, path, excluded):
        _, body, least, most, greedy = p
        steps.take()
        if done < least:
            for longer in ways(body, path, excluded):
                yield from repeated(p, done + 1, longer, excluded)
            return
        if not greedy:
            yield path
        if most is None or done < most:
            for longer in ways(body, path, excluded):
                if len(longer) == len(path):
                    # An optional iteration over no rows ends the loop where it stands in the preference order.
                    yield longer
                else:
                    yield from repeated(p, done + 1, longer, excluded)
        if greedy:
            yield path

    yield from ways(pattern, (), False)


def find_matches(rows, pattern, defines, skip=("past last row",), subsets=None, within=None, budget=20_000):
    """All matches of one ordered partition.

    rows:    list of dicts
    defines: variable -> expression tuple or callable(Context) -> True, False or None; absent: any row
    skip:    ("past last row",), ("to next row",), ("to first", name) or ("to last", name)
    within:  None, ("rows", n), or (column, n): the last row of a match is less than n away from its first
    """
    subsets = subsets or {}
    steps = _Steps(budget)
    found = []
    start = 0
    while start < len(rows):
        number = len(found) + 1

        def accepts(labels, start=start, number=number):
            if within is not None and not _inside_window(rows, start, start + len(labels) - 1, within):
                return False
            condition = defines.get(labels[-1])
            if condition is None:
                return True
            context = Context(rows, start, labels, number, subsets)
            value = condition(context) if callable(condition) else evaluate(condition, context)
            return value is True

        path = next(enumerate_from(pattern, len(rows), start, accepts, steps), None)
        if path is None:
            start += 1
            continue
        match = Match(number, start, tuple(v for v, _ in path), tuple(e for _, e in path))
        found.append(match)
        start = _resume(match, skip, subsets)
    return found


def _inside_window(rows, first, last, within):
    column, size = within
    if column == "rows":
        return last - first < size
    begin, end = rows[first][column], rows[last][column]
    return begin is not None and end is not None and abs(end - begin) < size


def _resume(match, skip, subsets) -> int:
    """The row at which the search goes on after a match."""
    if not match.labels or skip[0] == "to next row":
        return match.start + 1
    if skip[0] == "past last row":
        return match.stop
    members = subsets.get(skip[1], (skip[1],))
    targets = [match.start + i for i, label in enumerate(match.labels) if label in members]
    if not targets:
        raise SkipTargetError(f"no row of the match is mapped to {skip[1]}")
    target = {"to first": targets[0], "to last": targets[-1]}[skip[0]]
    if target == match.start:
        raise SkipTargetError(f"{skip[1]} is the first row of the match")
    return target
