"""Runs: rows that a search took, with their variables, and the farthest run of a start row.

A run is its rows with their places in the pattern, so derivations with equal rows and places are one run. It ends if none of its
derivations takes a further row. The farthest run reaches the deepest place. Among these it needs the fewest rows to a match, then
has the most rows, then is preferred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from sparkcep.tracing.search.program import Option, Program, State


class Run:
    """The rows that a search has taken, as a linked list from the last row to the first one.

    Equal runs of one search are one object, so conditions on the match are evaluated once for each.

    Attributes:
        start: the start row.
        number: MATCH_NUMBER().
        before: the run without its last row, None for the run without rows.
        variable: the variable of the last row, -1 for the run without rows.
        row: the last row; for the run without rows, the row before the start row.
        crossed: the slots of the negations between the last row and the one before it.
        length: the number of rows.
    """

    # A search has up to a million runs, so a run gets a dictionary only when it needs one. In ``_longer`` is the only run with one
    # more row, or a dictionary of them. The bits of ``_known`` and ``_held`` are variables, for the row after the run.
    __slots__ = ("start", "number", "before", "variable", "row", "crossed", "length", "_longer", "_known", "_held", "_later")

    def __init__(self, start: int, number: int, before: Run | None = None, variable: int = -1, row: int = -1, crossed: tuple[int, ...] = ()) -> None:
        self.start, self.number, self.before, self.variable, self.crossed = start, number, before, variable, crossed
        self.row = start - 1 if before is None else row
        self.length: int = 0 if before is None else before.length + 1
        self._longer: Run | dict[tuple[int, int, tuple[int, ...]], Run] | None = None
        self._known = self._held = 0
        self._later: dict[tuple[int, int], bool] | None = None

    def forget(self) -> None:
        """Drops the longer runs and the verdicts, also those of longer runs. Without cycles they are freed at once."""
        stack: list[Run] = [self]
        while stack:
            run = stack.pop()
            longer, run._longer, run._known, run._held, run._later = run._longer, None, 0, 0, None
            if longer is not None:
                stack.extend((longer,) if isinstance(longer, Run) else longer.values())

    def with_(self, variable: int, row: int | None = None, crossed: tuple[int, ...] = ()) -> Run:
        """The run with one more row: the next one, or a later one."""
        key = variable, self.row + 1 if row is None else row, crossed
        one = self._longer
        if isinstance(one, Run):
            if (one.variable, one.row, one.crossed) == key:
                return one
            one = self._longer = {(one.variable, one.row, one.crossed): one}
        found = None if one is None else one.get(key)
        if found is None:
            found = Run(self.start, self.number, self, *key)
            if one is None:
                self._longer = found
            else:
                one[key] = found
        return found

    def verdict(self, variable: int, row: int) -> bool | None:
        """Whether a variable's condition holds for a row after the run, None if it is not known yet."""
        if row == self.row + 1:
            return bool(self._held >> variable & 1) if self._known >> variable & 1 else None
        return None if self._later is None else self._later.get((variable, row))

    def judge(self, variable: int, row: int, holds: bool) -> None:
        """Keeps whether a variable's condition holds for a row after the run."""
        if row == self.row + 1:
            self._known |= 1 << variable
            self._held |= int(holds) << variable
        else:
            self._later = {} if self._later is None else self._later
            self._later[variable, row] = holds

    @staticmethod
    def of(start: int, number: int, variables: Sequence[int], rows: Sequence[int] | None = None) -> Run:
        """The run with these variables. Its rows are those from the start row on, unless they are given."""
        run = Run(start, number)
        for variable, row in zip(variables, rows if rows is not None else range(start, start + len(variables)), strict=True):
            run = run.with_(variable, row)
        return run

    @staticmethod
    def joined(number: int, taken: Iterable[tuple[int, int]]) -> Run:
        """The run of rows with their variables, which come in any order."""
        pairs = sorted(taken)
        return Run.of(pairs[0][0], number, [variable for _, variable in pairs], [row for row, _ in pairs])

    def taken(self) -> Iterator[Run]:
        """The run up to each of its rows, first row first."""
        found, run = [], self
        while run.before is not None:
            found.append(run)
            run = run.before
        return reversed(found)

    @property
    def variables(self) -> tuple[int, ...]:
        """The variables of its rows."""
        return tuple(run.variable for run in self.taken())

    @property
    def rows(self) -> tuple[int, ...]:
        """Its rows."""
        return tuple(run.row for run in self.taken())


def judging(run: Run, others: Run, variable: int, row: int) -> list[tuple[int, int]]:
    """The rows that a negated variable's condition sees at a row beside this one, each with its variable. They are not sorted.

    ``run`` has the rows of the match, ``others`` those of the negated group before the row. Of its own variable the condition sees
    only earlier rows.
    """
    return [(one.row, one.variable) for one in (*run.taken(), *others.taken()) if one.variable != variable or one.row < row]


class Node(NamedTuple):
    """A state of a search.

    Attributes:
        state: the state of the program.
        run: the run so far. If no condition looks at the match, all runs of a search are one object.
        row: the first row that may come next: the row after the last one, or the start row.
    """

    state: State
    run: Run
    row: int


@dataclass(frozen=True)
class Ended:
    """A run that ended.

    Attributes:
        start: its start row.
        number: MATCH_NUMBER() of the search.
        places: the place of each of its rows.
        variables: the variable of each of its rows.
        rows: its rows.
        states: the states of its derivations after the last row.
        depth: the depth of its deepest place, 0 without rows.
        needed: the fewest rows that it still needs.
    """

    start: int
    number: int
    places: tuple[int, ...]
    variables: tuple[int, ...]
    rows: tuple[int, ...]
    states: tuple[State, ...]
    depth: int
    needed: int

    @property
    def row(self) -> int:
        """The row after its last one. If rows must be adjacent, it ended the run."""
        return self.rows[-1] + 1 if self.rows else self.start

    @property
    def rank(self) -> tuple[int, int, int]:
        return self.depth, -self.needed, len(self.places)

    def taken(self) -> Run:
        """Its rows as a run for conditions. It is not kept, because the runs of many start rows share no rows here."""
        return Run.of(self.start, self.number, self.variables, self.rows)

    def seen(self, looks: bool) -> Run:
        """The run for a condition. One that does not look at the match gets the run without rows."""
        return self.taken() if looks else Run(self.start, self.number)


_Path: TypeAlias = "tuple[int, int, _Path] | None"  # place and row of each row, first row first


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a run below a node: deepest place of the rows below it, the rest of the rank, and the rows with their places."""

    depth: int
    needed: int
    count: int
    path: _Path
    states: tuple[State, ...]

    def before(self, option: Option, row: int, program: Program) -> _End:
        """The end as seen from before a row that the option took."""
        return _End(max(self.depth, program.depths[option.place]), self.needed, self.count + 1, (option.place, row, self.path), self.states)


_Key: TypeAlias = tuple[Node, tuple[State, ...]]


def farthest(
    program: Program, of: tuple[int, int], root: Node, accepted: Callable[[Node], Iterator[tuple[Option, Node]]], step: Callable[[], None], *,
    least: int = 0, taken: tuple[tuple[int, int], ...] = (), known: dict | None = None,
) -> Ended | None:  # fmt: skip
    """The farthest run below a node.

    Args:
        program: the program.
        of: the start row and MATCH_NUMBER().
        root: the node.
        accepted: the options that take a row after a node, in order of preference, with the nodes after them.
        step: called for each node.
        least: runs that end before this row are left out.
        taken: place and row of each row before the node.
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
                _keep(found, end.before(option, child[0].row - 1, program))
        if not found and node.row >= least and not any(_takes(node, state, accepted) for state in group):
            found.append(_End(0, program.needed(node.state), 0, None, (node.state, *(state for state in group if state != node.state))))
        known[key] = tuple(found)
    deepest = max((program.depths[place] for place, _ in taken), default=0)
    best = max(known[whole], key=lambda end: (max(end.depth, deepest), -end.needed, end.count), default=None)
    if best is None:
        return None
    places, rows, path = [place for place, _ in taken], [row for _, row in taken], best.path
    while path is not None:
        place, row, path = path
        places.append(place)
        rows.append(row)
    variables = tuple(program.places[place] for place in places)
    return Ended(*of, tuple(places), variables, tuple(rows), best.states, max(best.depth, deepest), best.needed)


def _children(node: Node, group: tuple[State, ...], accepted: Callable[[Node], Iterator[tuple[Option, Node]]]) -> list[tuple[Option, _Key]]:
    """The nodes after a node, each with the states of all derivations of its run."""
    own = list(accepted(node))
    grouped: dict[tuple[int, int], dict[State, None]] = {}
    for state in group:
        for option, after in own if state == node.state else accepted(Node(state, node.run, node.row)):
            grouped.setdefault((option.place, after.row), {})[after.state] = None
    return [(option, (after, tuple(grouped[option.place, after.row]))) for option, after in own]


def _takes(node: Node, state: State, accepted: Callable[[Node], Iterator[tuple[Option, Node]]]) -> bool:
    return any(True for _ in accepted(Node(state, node.run, node.row)))


def _keep(found: list[_End], end: _End) -> None:
    """Adds an end unless an earlier one with equal depth is as good. Prefixes may be deeper, so each depth keeps its best end."""
    for i, other in enumerate(found):
        if other.depth == end.depth:
            if (-other.needed, other.count) >= (-end.needed, end.count):
                return
            del found[i]
            break
    found.append(end)
