"""Join predicates between rows of a match that ranking can use without listing all matches.

``compiler/strategy`` uses them to answer TOP k by joins (CPR, section 3.2: edges of the stratified graph that join conditions
prune). There are two kinds:

* An equality with the previous row, ``B.id = A.id`` if the row before each B is an A, or a band,
  ``B.id BETWEEN A.id - 1 AND A.id + 1``. It is decided by a key of the row taken last and a key of the row taken next.
* An equality with an earlier row, ``C.id = A.id`` in ``A B C``. It partitions the rows by the values of both columns.
"""

from __future__ import annotations

from collections import defaultdict
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
    """A band join: the whole number of one row lies between ``low`` and ``high`` of the other.

    ``own``: the number is in the row taken next.
    """

    own: bool
    number: str
    low: str
    high: str


class Far(NamedTuple):
    """An equality between distant rows: all rows of two variables agree in one column of each."""

    variables: tuple[int, int]
    columns: tuple[str, str]


class Links(NamedTuple):
    """Equalities and bands between consecutive rows, by node and edge.

    Attributes:
        nodes: for each node, the columns of the row taken last that are compared; () if none.
        edges: for each edge, the columns of the row taken next that must equal them, one by one.
        bands: for each edge, at most one band.
        far: the equalities with earlier rows.
    """

    nodes: tuple[tuple[str, ...], ...]
    edges: tuple[tuple[str, ...], ...]
    bands: tuple[Band | None, ...]
    far: tuple[Far, ...]


class Compared(NamedTuple):
    """A comparison ``own operation other`` of a column of each row of a variable with one of the last row of those in ``mask``."""

    variable: int
    mask: int
    operation: str
    other: str
    own: str


def links_of(plan: Plan, automaton: Net) -> Links | None:
    """All conditions of a plan that look at the match, as links. None if one of them is anything else."""
    tests = _comparisons(plan)
    if tests is None:
        return None
    before = _taken_before(automaton)
    nodes: list[tuple[str, ...]] = [()] * automaton.nodes
    edges: list[tuple[str, ...]] = [()] * len(automaton.edges)
    bands: list[Band | None] = [None] * len(automaton.edges)
    takings = list(_takings(automaton))
    # a test is near if the row it reads is the previous row on every path to the node
    near = {test for test in tests if all(before[node] and not before[node] & ~test.mask for node, _, v in takings if v == test.variable)}
    far = _agreements(plan, automaton, [test for test in tests if test not in near])
    if far is None:
        return None
    by_variable = defaultdict(list)
    for test in sorted(near):
        by_variable[test.variable].append(test)
    for node in range(automaton.nodes):
        wanted: set[tuple] = set()
        for e in automaton.edges_of(node):
            variable = int(automaton.edges[e, E_VAR])
            if variable == ACCEPT:
                continue
            own = by_variable[variable]
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
    """All conditions of a plan that look at the match, as equalities that partition the rows. None if one of them is anything else.

    ``orders``: the orders of a pattern of single rows. The row that a condition reads must come earlier in every order. A row of
    another side of a conjunction is also allowed, because a condition sees those rows as they are in the finished match.
    """
    tests, beside, found = _comparisons(plan), far_variables(plan.pattern, len(plan.variables)), []
    if tests is None:
        return None
    for test in tests:
        variable, other = test.variable, test.mask.bit_length() - 1
        if test.operation != "=" or test.mask.bit_count() != 1:
            return None
        if not beside[variable] & test.mask and any(o.variables.index(other) > o.variables.index(variable) for o in orders):
            return None
        found.append(Far((variable, other), (test.own, test.other)))
    return tuple(found)


def joins_all(far: tuple[Far, ...], variables: int) -> bool:
    """Whether equalities of one column of each variable join all variables of a mask."""
    columns: dict[int, str] = {}
    groups: list[set[int]] = []
    for pair, names in far:
        if any(columns.setdefault(variable, name) != name for variable, name in zip(pair, names)):
            return False
        met = [group for group in groups if group & set(pair)]
        groups = [group for group in groups if group not in met] + [set(pair).union(*met)]
    return len(groups) == 1 and sum(1 << v for v in groups[0]) & variables == variables


def comparisons_of(plan: Plan) -> tuple[Compared, ...] | None:
    """All conditions of a plan that look at the match, as equalities and bands. None if one of them is anything else."""
    tests = _comparisons(plan)
    for variable, mask in {(test.variable, test.mask) for test in tests or ()}:
        if _band([test for test in tests if (test.variable, test.mask) == (variable, mask) and test.operation != "="]) is None:
            return None
    return tests


def _comparisons(plan: Plan) -> tuple[Compared, ...] | None:
    """The conjuncts of conditions that look at the match. None if one of them is not a comparison."""
    conjuncts = ((variable, part) for variable, trees in plan.conditions for tree in filter(looks_at_match, trees) for part in conjuncts_of(tree))
    found = [comparison_in(part, variable) for variable, part in conjuncts]
    return None if None in found else tuple(found)


def _agreements(plan: Plan, automaton: Net, tests: list[Compared]) -> tuple[Far, ...] | None:
    """The comparisons as equalities between all rows of two variables. None if one does not qualify.

    Each match must have a row of both variables and exactly one row of the variable that is read. That row must have been taken by
    then.
    """
    counts, taken, found = occurrences(plan.pattern), _taken_surely(automaton), []
    for test in tests:
        variable, other = test.variable, test.mask.bit_length() - 1
        alone = test.operation == "=" and test.mask.bit_count() == 1 and counts.get(other) == (1, 1) and counts.get(variable, (0, 0))[0] > 0
        if not alone or any(not taken[node] & test.mask for node, _, v in _takings(automaton) if v == variable):
            return None
        found.append(Far((variable, other), (test.own, test.other)))
    return tuple(found)


def conjuncts_of(tree: tuple) -> Iterator[tuple]:
    """The conjuncts of a tree: the parts that must all be true."""
    if tree[:2] == ("call", "and"):
        for part in tree[2:]:
            yield from conjuncts_of(part)
    else:
        yield tree


def comparison_in(tree: tuple, variable: int) -> Compared | None:
    """The comparison that a conjunct of a variable's condition is, None for any other conjunct."""
    if tree[0] != "call" or tree[1] not in _TURNED or len(tree) != 4:
        return None
    operation = tree[1]
    own, other = (part.tree if part[0] == "checked" else part for part in tree[2:])
    if own[0] != "col":
        own, other, operation = other, own, _TURNED[operation]
    if own[0] != "col" or other[0] != "nav" or other.mask == ALL_ROWS or other.mask >> variable & 1:
        return None
    plain = other.which == "L" and not other.logical and not other.physical and other.absent is None
    return Compared(variable, other.mask, operation, other.column, own.column) if plain else None


def _band(tests: list[Compared]) -> tuple[Band, ...] | None:
    """The band that the comparisons form, () without comparisons, None if they do not form a band."""
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
        for e in automaton.edges_of(node):
            if automaton.edges[e, E_VAR] != ACCEPT:
                yield node, e, int(automaton.edges[e, E_VAR])


def _taken_before(automaton: Net) -> list[int]:
    """For each node the mask of the variables that may have taken the last row, 0 if there may be no such row."""
    masks = [0] * automaton.nodes
    for edge in automaton.edges.tolist():
        if edge[E_VAR] != ACCEPT:
            masks[edge[E_TARGET]] |= 1 << edge[E_VAR]
    masks[0] = 0  # even if a loop leads back to the start, no row precedes the first row
    return masks


def _taken_surely(automaton: Net) -> list[int]:
    """For each node the mask of the variables that take a row on every path to it."""
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
