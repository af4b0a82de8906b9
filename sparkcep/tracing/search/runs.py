"""Runs: rows that a search took, with their variables, and the farthest run of a start row.

A run is its rows with their places in the pattern, so derivations with equal rows and places are one run. It ends at a row if none
of its derivations takes the row. The farthest run reaches the deepest place. Among these it needs the fewest rows to a match, then
has the most rows, then is preferred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from sparkcep.tracing.search.program import Option, Program, State


class Run:
    """The rows that a search has taken, as a linked list from the last row to the first one.

    Equal runs of one search are one object, so conditions on the match are evaluated once for each.

    Attributes:
        start: the first row.
        number: MATCH_NUMBER().
        before: the run without its last row, None for the run without rows.
        variable: the variable of the last row, -1 for the run without rows.
        length: the number of rows.
        longer: the runs with one more row, by its variable.
        verdicts: whether a variable's condition holds for the next row.
    """

    __slots__ = ("start", "number", "before", "variable", "length", "longer", "verdicts")

    def __init__(self, start: int, number: int, before: Run | None = None, variable: int = -1) -> None:
        self.start, self.number, self.before, self.variable = start, number, before, variable
        self.length: int = 0 if before is None else before.length + 1
        self.longer: dict[int, Run] = {}
        self.verdicts: dict[int, bool] = {}

    def with_(self, variable: int) -> Run:
        """The run with one more row."""
        if variable not in self.longer:
            self.longer[variable] = Run(self.start, self.number, self, variable)
        return self.longer[variable]

    @staticmethod
    def of(start: int, number: int, variables: tuple[int, ...]) -> Run:
        """The run with these variables."""
        run = Run(start, number)
        for variable in variables:
            run = run.with_(variable)
        return run

    @property
    def variables(self) -> tuple[int, ...]:
        """The variables of its rows."""
        found, run = [], self
        while run.before is not None:
            found.append(run.variable)
            run = run.before
        return tuple(reversed(found))


@dataclass(frozen=True)
class Node:
    """A state of a search.

    Attributes:
        state: the state of the program.
        run: the run so far. If no condition looks at the match, all runs of a search are one object.
        row: the row that comes next.
    """

    state: State
    run: Run
    row: int


@dataclass(frozen=True)
class Ended:
    """A run that ended.

    Attributes:
        start: its first row.
        number: MATCH_NUMBER() of the search.
        places: the place of each of its rows.
        variables: the variable of each of its rows.
        states: the states of its derivations at the row where it ended.
        depth: the depth of its deepest place, 0 without rows.
        needed: the fewest rows that it still needs.
    """

    start: int
    number: int
    places: tuple[int, ...]
    variables: tuple[int, ...]
    states: tuple[State, ...]
    depth: int
    needed: int

    @property
    def row(self) -> int:
        """The row that ended it."""
        return self.start + len(self.places)

    @property
    def rank(self) -> tuple[int, int, int]:
        return self.depth, -self.needed, len(self.places)

    def taken(self) -> Run:
        """Its rows as a run for conditions."""
        return Run.of(self.start, self.number, self.variables)


_Path: TypeAlias = "tuple[int, _Path] | None"  # places of the rows, first row first


@dataclass(frozen=True)
class _End:
    """The end of a run below a node: deepest place of the rows below the node, the rest of the rank, and the rows' places."""

    depth: int
    needed: int
    row: int
    path: _Path
    states: tuple[State, ...]

    def before(self, option: Option, program: Program) -> _End:
        """The end as seen from before a row that the option took."""
        return _End(max(self.depth, program.depths[option.place]), self.needed, self.row, (option.place, self.path), self.states)


_Key: TypeAlias = tuple[Node, tuple[State, ...]]


def farthest(
    program: Program, of: tuple[int, int], root: Node, accepted: Callable[[Node], Iterator[tuple[Option, Node]]], step: Callable[[], None], *,
    least: int = 0, taken: tuple[int, ...] = (), known: dict | None = None,
) -> Ended | None:  # fmt: skip
    """The farthest run below a node.

    Args:
        program: the program.
        of: the start row and MATCH_NUMBER().
        root: the node.
        accepted: the options that take the next row of a node, in order of preference, with the nodes after them.
        step: called for each node.
        least: runs that end before this row are left out.
        taken: the places of the rows before the node.
        known: the ends of runs below nodes, of earlier calls with equal ``least``.

    Returns:
        The farthest run, None if all are left out.
    """
    known = {} if known is None else known
    whole: _Key = (root, (root.state,))
    stack: list[_Key] = [whole]
    below: dict[_Key, list[tuple[Option, _Key]]] = {}
    while stack:
        key = stack[-1]
        if key in known:
            stack.pop()
            continue
        node, group = key
        if key not in below:
            step()
            below[key] = _children(node, group, accepted)
            missing = [child for _, child in below[key] if child not in known]
            if missing:
                stack.extend(reversed(missing))
                continue
        stack.pop()
        found: list[_End] = []
        for option, child in below.pop(key):
            for end in known[child]:
                _keep(found, end.before(option, program))
        if not found and node.row >= least and not any(_takes(node, state, accepted) for state in group):
            found.append(_End(0, program.needed(node.state), node.row, None, (node.state, *(state for state in group if state != node.state))))
        known[key] = tuple(found)
    deepest = max((program.depths[place] for place in taken), default=0)
    best: _End | None = None
    for end in known[whole]:
        if best is None or (max(end.depth, deepest), -end.needed, end.row) > (max(best.depth, deepest), -best.needed, best.row):
            best = end
    if best is None:
        return None
    places, path = list(taken), best.path
    while path is not None:
        place, path = path
        places.append(place)
    variables = tuple(program.places[place] for place in places)
    return Ended(*of, tuple(places), variables, best.states, max(best.depth, deepest), best.needed)


def _children(node: Node, group: tuple[State, ...], accepted: Callable[[Node], Iterator[tuple[Option, Node]]]) -> list[tuple[Option, _Key]]:
    """The nodes after a node, each with the states of all derivations of its run."""
    grouped: dict[int, dict[State, None]] = {}
    for state in group:
        for option, after in accepted(Node(state, node.run, node.row)):
            grouped.setdefault(option.place, {})[after.state] = None
    return [(option, (after, tuple(grouped[option.place]))) for option, after in accepted(node)]


def _takes(node: Node, state: State, accepted: Callable[[Node], Iterator[tuple[Option, Node]]]) -> bool:
    return any(True for _ in accepted(Node(state, node.run, node.row)))


def _keep(found: list[_End], end: _End) -> None:
    """Adds an end unless an earlier one with equal depth is as good. Prefixes may be deeper, so each depth keeps its best end."""
    for i, other in enumerate(found):
        if other.depth == end.depth:
            if (-other.needed, other.row) >= (-end.needed, end.row):
                return
            del found[i]
            break
    found.append(end)
