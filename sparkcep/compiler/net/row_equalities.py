"""Conditions between rows of a match that ranking needs no list of matches for (CPR, section 3.2: edges of the stratified graph
that join conditions prune).

* An equality with the row before, ``B.id = A.id`` where the row before each B is an A, and a band,
  ``B.id BETWEEN A.id - 1 AND A.id + 1``, are told by a key of the row taken last and one of the row taken next.
* An equality with a row farther back, ``C.id = A.id`` in ``A B C``, parts the rows by the values of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sparkcep.compiler.net.conjunction import far_variables
from sparkcep.compiler.net.net import ACCEPT, E_TARGET, E_VAR, Net
from sparkcep.compiler.net.orders import Arrangement
from sparkcep.plan.facts import occurrences
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import ALL_ROWS
from sparkcep.plan.split.conditions import looks_at_match

_TURNED = {"=": "=", "<=": ">=", ">=": "<="}


class Band(NamedTuple):
    """The whole number of one row lies from ``low`` to ``high`` of the other; ``own``: the number is that of the row taken next."""

    own: bool
    number: str
    low: str
    high: str


class Far(NamedTuple):
    """All rows of two variables agree in a column of each."""

    variables: tuple[int, int]
    columns: tuple[str, str]


class Links(NamedTuple):
    """By node: the columns of the row taken last that must equal, one by one, those by edge of the row taken next; () where there
    are none. ``bands``: by edge, at most one; ``far``: the other equalities."""

    nodes: tuple[tuple[str, ...], ...]
    edges: tuple[tuple[str, ...], ...]
    bands: tuple[Band | None, ...]
    far: tuple[Far, ...]


class _Test(NamedTuple):
    """A comparison ``own operation other``: a column of the row at hand with one of the last row of the variables in ``mask``."""

    mask: int
    operation: str
    other: str
    own: str


def links_of(plan: Plan, automaton: Net) -> Links | None:
    """All conditions of a plan that look at the match as links; None where one of them is anything else."""
    tests = _tests(plan)
    if tests is None:
        return None
    before = _taken_before(automaton)
    nodes: list[tuple[str, ...]] = [()] * automaton.nodes
    edges: list[tuple[str, ...]] = [()] * len(automaton.edges)
    bands: list[Band | None] = [None] * len(automaton.edges)
    uses = [(node, e, v) for node, e, v in _takings(automaton) if v in tests]
    # the row that a test looks at is the one before, whatever way led there
    near = {(v, test) for v, some in tests.items() for test in some if all(before[node] and not before[node] & ~test.mask for node, _, u in uses if u == v)}
    far = _agreements(plan, automaton, {v: [test for test in some if (v, test) not in near] for v, some in tests.items()})
    if far is None:
        return None
    for node in range(automaton.nodes):
        wanted: set[tuple] = set()
        for e in range(int(automaton.first[node]), int(automaton.first[node + 1])):
            variable = int(automaton.edges[e, E_VAR])
            if variable == ACCEPT:
                continue
            own = sorted(test for test in tests.get(variable, ()) if (variable, test) in near)
            equal = [test for test in own if test.operation == "="]
            band = _band([test for test in own if test.operation != "="])
            if band is None:
                return None
            bands[e] = band[0] if band else None
            last = () if not band else (band[0].low if band[0].own else band[0].number,)
            wanted.add((tuple(test.other for test in equal), last))
            edges[e] = tuple(test.own for test in equal)
        if len(wanted) > 1:
            return None
        nodes[node] = sum(wanted.pop(), ()) if wanted else ()
    return Links(tuple(nodes), tuple(edges), tuple(bands), far)


def agreements_among(plan: Plan, orders: tuple[Arrangement, ...]) -> tuple[Far, ...] | None:
    """All conditions of a plan that look at the match as equalities by which rows part, of a pattern of single rows with these
    orders: the row that is looked at comes before in each of them, or stands in another side of a conjunction, whose rows a
    condition sees as they are in the end."""
    tests, beside, found = _tests(plan), far_variables(plan.pattern, len(plan.variables)), []
    for variable, some in ({} if tests is None else tests).items():
        for test in some:
            other = test.mask.bit_length() - 1
            if test.operation != "=" or test.mask.bit_count() != 1:
                return None
            if not beside[variable] & test.mask and any(o.variables.index(other) > o.variables.index(variable) for o in orders):
                return None
            found.append(Far((variable, other), (test.own, test.other)))
    return None if tests is None else tuple(found)


class Compared(NamedTuple):
    """A column of each row of a variable is ``=``, ``<=`` or ``>=`` one of the last row of the variables in ``mask``."""

    variable: int
    mask: int
    operation: str
    own: str
    other: str


def comparisons_of(plan: Plan) -> tuple[Compared, ...] | None:
    """All conditions of a plan that look at the match as equalities and bands; None where one of them is anything else."""
    tests, found = _tests(plan), []
    for variable, some in ({} if tests is None else tests).items():
        for mask in {test.mask for test in some}:
            if _band([test for test in some if test.mask == mask and test.operation != "="]) is None:
                return None
        found += [Compared(variable, test.mask, test.operation, test.own, test.other) for test in some]
    return None if tests is None else tuple(found)


def _tests(plan: Plan) -> dict[int, list[_Test]] | None:
    """The comparisons of each variable; None where a condition that looks at the match is none."""
    tests: dict[int, list[_Test]] = {}
    for variable, conjuncts in plan.conditions:
        for tree in (part for conjunct in filter(looks_at_match, conjuncts) for part in _conjuncts(conjunct)):
            test = _test(tree, variable)
            if test is None:
                return None
            tests.setdefault(variable, []).append(test)
    return tests


def _agreements(plan: Plan, automaton: Net, tests: dict[int, list[_Test]]) -> tuple[Far, ...] | None:
    """The comparisons as equalities of all rows of two variables; None where one is none: each match must have a row of both, and
    just one of that which is looked at, which must be taken by then."""
    counts, taken, found = occurrences(plan.pattern), _taken_surely(automaton), []
    for variable, some in tests.items():
        for test in some:
            other = test.mask.bit_length() - 1
            alone = test.operation == "=" and test.mask.bit_count() == 1 and counts.get(other) == (1, 1) and counts.get(variable, (0, 0))[0] > 0
            if not alone or any(not taken[node] & test.mask for node, _, v in _takings(automaton) if v == variable):
                return None
            found.append(Far((variable, other), (test.own, test.other)))
    return tuple(found)


def _conjuncts(tree: tuple) -> Iterator[tuple]:
    """The parts of which all must be true."""
    if tree[:2] == ("call", "and"):
        for part in tree[2:]:
            yield from _conjuncts(part)
    else:
        yield tree


def _test(tree: tuple, variable: int) -> _Test | None:
    """The comparison that a tree is; None for any other."""
    if tree[0] != "call" or tree[1] not in _TURNED or len(tree) != 4:
        return None
    operation = tree[1]
    own, other = (part.tree if part[0] == "checked" else part for part in tree[2:])
    if own[0] != "col":
        own, other, operation = other, own, _TURNED[operation]
    if own[0] != "col" or other[0] != "nav" or other.mask == ALL_ROWS or other.mask >> variable & 1:
        return None
    plain = other.which == "L" and not other.logical and not other.physical and other.absent is None
    return _Test(other.mask, operation, other.column, own.column) if plain else None


def _band(tests: list[_Test]) -> tuple[Band, ...] | None:
    """The band that two comparisons make, if there are any; None where they make none."""
    if not tests:
        return ()
    above = [test for test in tests if test.operation == ">="]
    below = [test for test in tests if test.operation == "<="]
    if len(above) != 1 or len(below) != 1:
        return None
    if above[0].own == below[0].own:
        return (Band(True, above[0].own, above[0].other, below[0].other),)
    if above[0].other == below[0].other:
        return (Band(False, above[0].other, below[0].own, above[0].own),)
    return None


def _takings(automaton: Net) -> Iterator[tuple[int, int, int]]:
    """(node, edge, variable) of each edge that takes a row."""
    for node in range(automaton.nodes):
        for e in range(int(automaton.first[node]), int(automaton.first[node + 1])):
            if automaton.edges[e, E_VAR] != ACCEPT:
                yield node, e, int(automaton.edges[e, E_VAR])


def _taken_before(automaton: Net) -> list[int]:
    """For each node the variables of the rows that may have been taken last; 0 where there may be none."""
    masks = [0] * automaton.nodes
    for edge in automaton.edges.tolist():
        if edge[E_VAR] != ACCEPT:
            masks[edge[E_TARGET]] |= 1 << edge[E_VAR]
    masks[0] = 0  # also where a match comes back to it: the first row has none before
    return masks


def _taken_surely(automaton: Net) -> list[int]:
    """For each node the variables of which each way there takes a row."""
    masks = [-1] * automaton.nodes
    masks[0] = 0
    changed = True
    while changed:
        changed = False
        for node, e, variable in _takings(automaton):
            target = int(automaton.edges[e, E_TARGET])
            met = masks[target] & (masks[node] | 1 << variable)
            changed |= met != masks[target]
            masks[target] = met
    return masks
