"""Traces the search over the rows of one partition: for each start row its matches, or why there are none.

The search goes depth first, in order of preference, like the engine's search. States that led to no match are remembered. If a
condition looks at the match, a state is remembered together with its run; if WINDOW bounds the match, for one start row.

:class:`sparkcep.tracing.search.moves.Moves` says which rows may come next under an event selection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias

from sparkcep.clause.tree import NEXT_ROW, PAST_LAST, TO_FIRST
from sparkcep.errors import MatchRuntimeError
from sparkcep.plan.records import ALL_ROWS
from sparkcep.tracing.conditions import comparisons
from sparkcep.tracing.conditions.comparisons import Logic
from sparkcep.tracing.search.moves import ANY, NEXT, STRICT, Move, Moves, Takes
from sparkcep.tracing.search.negation import Negation, Negations, Violation
from sparkcep.tracing.search.program import Option, Program, State
from sparkcep.tracing.search.runs import Ended, Node, Run, farthest
from sparkcep.tracing.search.windows import Windows

MAX_STEPS = 1_000_000  # of one start row
MOST_TOGETHER = 2  # times as many steps for all start rows together.
EVALUATION = 2  # A condition on the match counts as so many further steps there.
MOST_PASSED = 3  # Rows between two rows of a match, with decisions.
Changed: TypeAlias = "Mapping[tuple[int, int | None], bool]"  # comparisons that are changed at a row (None: at all rows)
Way: TypeAlias = "list[tuple[Node, Move]]"
Labels: TypeAlias = "tuple[tuple[int, int], ...]"  # rows with their variables
NOTHING: Changed = MappingProxyType({})
REFUSED, FAILS, MATCHES = "refused", "fails", "matches"
PASSED = -2  # the variable of a row that a match passes over
OUT_OF_REACH = "OUT_OF_REACH"  # why a row is refused that lies after one that SKIP TILL NEXT MATCH does not pass over


class Rows(Protocol):
    """The rows of a partition, with the values of comparisons: columns that Spark computed, and the engine's machine."""

    count: int
    first: int  # the first row that is known, 0 if the whole partition is

    def truth(self, comparison: int, row: int, run: Run) -> bool | None:
        """Whether a comparison holds at a row that comes after the run, and takes the comparison's variable."""

    def truth_between(self, comparison: int, row: int, run: Run, others: Run) -> bool | None:
        """Whether a comparison of a negated variable holds at a row, given a finished match and the earlier rows of the group."""


@dataclass(frozen=True)
class Pattern:
    """The parts of a clause that a search needs.

    Attributes:
        program: the pattern.
        conditions: the condition of each variable that has one.
        looks: the variables whose conditions look at the match.
        skip: where the search resumes after a match, and the variables of the target.
        windows: the bounds of the match and of groups.
        strategy: STRICT, NEXT or ANY.
        reports_all: whether ALL MATCHES are reported.
        negations: the negations by their variables.
    """

    program: Program
    conditions: Mapping[int, Logic]
    looks: frozenset[int]
    skip: tuple[str, int]
    windows: Windows
    strategy: str = STRICT
    reports_all: bool = False
    negations: Mapping[int, Negation] = field(default_factory=dict)

    @cached_property
    def keeps_runs(self) -> bool:
        """Whether states with different runs differ, since a condition looks at the match."""
        return bool(self.looks) or any(negation.late for negation in self.negations.values())

    @cached_property
    def monotone(self) -> bool:
        """Whether a state that leads to no match leads to none at later rows, either."""
        return self.strategy == ANY and not self.keeps_runs and not self.negations and not self.program.bounds_rows

    @cached_property
    def shares(self) -> bool:
        """Whether start rows share what is known of states."""
        return not self.keeps_runs and not self.windows.bounded


class Found(NamedTuple):
    """The identity of a match: its start row, and its rows with their variables."""

    start: int
    variables: tuple[int, ...]
    rows: tuple[int, ...]

    def moved(self, first: int) -> Found:
        """The match of a part of a partition, with the numbers of its rows in the partition. ``first``: the part's first row."""
        return Found(self.start + first, self.variables, tuple(row + first for row in self.rows))


class Effort(Exception):
    """A start row needs more steps than allowed."""


class SkipTarget(Exception):
    """AFTER MATCH SKIP cannot resume: its target lacks a row, or is the match's first row."""


@dataclass(frozen=True)
class Match:
    """A match: its start row, its rows with their variables, and their places in the pattern."""

    number: int
    start: int
    variables: tuple[int, ...]
    places: tuple[int, ...]
    rows: tuple[int, ...]

    @property
    def end(self) -> int:
        """The row after the last one."""
        return self.rows[-1] + 1 if self.rows else self.start

    @property
    def found(self) -> Found:
        return Found(self.start, self.variables, self.rows)

    def variable_at(self, row: int) -> int:
        """The variable of a row, -1 if the match does not take the row."""
        return self.variables[self.rows.index(row)] if row in self.rows else -1


@dataclass(frozen=True)
class Other:
    """Something else that could have come at a row.

    Attributes:
        variable: the variable, -1 for the end of the match.
        preferred: whether the match's own derivation prefers it to the option that was taken.
        verdict: "refused", "fails" (it leads to no match) or "matches".
        reason: why it was refused.
        ended: the farthest run that it leads to, if it is preferred and fails.
    """

    variable: int
    preferred: bool
    verdict: str
    reason: str = ""
    ended: Ended | None = None


@dataclass(frozen=True)
class Decision:
    """A row of a match (or its end, with variable -1), and what else could have come there.

    ``variable`` is :data:`PASSED` for a row between rows of the match.
    """

    row: int
    variable: int
    others: tuple[Other, ...]


@dataclass
class Search:
    """The search from one start row.

    Attributes:
        trace: the trace that it belongs to.
        start: the start row.
        number: MATCH_NUMBER().
        match: the first match, None without one.
        matches: all matches that are asked for: one, or those of ALL MATCHES.
        effort: whether the search was given up.
        steps: the steps so far.
        evaluated: how many conditions on the match were evaluated.
    """

    trace: Trace
    start: int
    number: int
    match: Match | None = None
    effort: bool = False
    matches: list[Match] = field(default_factory=list)
    steps: int = 0
    evaluated: int = 0

    def __post_init__(self) -> None:
        self.pattern, self.rows = self.trace.pattern, self.trace.rows
        self.program = self.pattern.program
        self.moving = Moves(self.program, self.pattern.strategy, self.start, self.rows.count, self.pattern.windows)
        self._failed: set[Node] = self.trace.failed if self.pattern.shares else set()
        self._failed_from: dict[State, int] = self.trace.failed_from if self.pattern.shares else {}
        self._path: Way | None = []
        self._reached: int | None = None  # see reached, if no match was found
        self.root = Node(self.program.first, self.trace.empty_run(self.start, self.number), self.start)
        try:
            self._find()
        except Effort:
            self.effort = True
        self.forget()

    def forget(self) -> None:
        """Drops what only this search knows of runs, so that the searches of all start rows stay small. Questions find it again."""
        if not self.pattern.shares:
            self._path = None
            self._failed, self._failed_from = set(), {}
            self.root.run.forget()

    @property
    def cost(self) -> int:
        """Its part of the steps of all start rows together."""
        return self.steps + EVALUATION * self.evaluated

    @property
    def path(self) -> Way:
        """The nodes of the first match, each with the move that was taken; none without a match."""
        if self._path is None:
            steps, self.steps = self.steps, 0
            self._path = (self.found(self.root) or []) if self.match is not None else []
            self.steps = steps
        return self._path

    def _find(self) -> None:
        known: set[Found] = set()
        for way in self.ways(self.root):
            taken = [move.option for _, move in way[:-1]]
            match = Match(self.number, self.start, tuple(o.variable for o in taken), tuple(o.place for o in taken), tuple(move.row for _, move in way[:-1]))
            if self.match is None:
                self.match, self._path = match, way
            if not self.pattern.reports_all:
                self.matches.append(match)
                return
            if match.rows and match.found not in known:
                known.add(match.found)
                self.matches.append(match)

    # -- searching ------------------------------------------------------------------------------------------

    def options(self, node: Node) -> tuple[Option, ...]:
        """Everything that may come next, in order of preference."""
        return self.program.options(node.state, node.row == 0, node.row == self.rows.count)

    def moves(self, node: Node) -> Iterator[Move]:
        """The moves from a node, in order of preference. Their conditions may refuse them."""
        return self.moving.of(node, self.options(node), self._takes(node), self.step)

    def _takes(self, node: Node) -> Takes:
        return lambda option, row: not self._refused(node, option, row)

    def later(self, node: Node) -> Iterator[int]:
        """The rows that may come after a node: the next one, or later ones up to the first that may not be passed over."""
        if self.pattern.strategy != NEXT or node.row == self.start:
            return iter(self.moving.later(node))
        return self.moving.reachable(node, self.options(node), self._takes(node), lambda: None)

    def ahead(self, node: Node) -> Iterator[Move | Option]:
        """Like :meth:`moves`, but of a partition that still grows. Rows may not be adjacent."""
        return self.moving.ahead(node, self.options(node), lambda option, row: not self._refused(node, option, row), self.step)

    def refused(self, node: Node, option: Option, row: int | None = None) -> str:
        """Why an option cannot take a row, as a reason of :mod:`sparkcep.tracing.answers.reasons`; "" if it can.

        Args:
            node: the node.
            option: one of its options.
            row: the row, by default the first one after the node.
        """
        reason = self._refused(node, option, row)
        if not reason and self.pattern.negations and self.violation(node, option, row) is not None:
            return "NEGATION"
        return reason

    def _refused(self, node: Node, option: Option, row: int | None) -> str:
        """Like :meth:`refused`, without negations, which do not decide which rows may be passed over."""
        if option.kind != "row":
            return "ANCHOR" if option.kind == "anchor" else ""
        row = node.row if row is None else row
        if row >= self.rows.count:
            return "PARTITION_END"
        if self.pattern.windows.windows and (reason := self.outside(option, row)):
            return reason
        return "" if self.holds(option.variable, node, row) else "CONDITION"

    def violation(self, node: Node, option: Option, row: int | None = None) -> Violation | None:
        """The rows that a negation forbids before a row is taken, or at the end of the match; None if there are none."""
        if node.row == self.start:
            return None  # nothing lies between the rows of an empty match
        for negation, after, before in self._intervals(node, option, node.row if row is None else row):
            found = self.trace.negations.violation(negation, after, before, node.run, self.step)
            if found is not None:
                return found
        return None

    def _intervals(self, node: Node, option: Option, row: int) -> Iterator[tuple[Negation, int, int]]:
        """The negations that are looked at when an option takes a row or ends the match, each with its interval.

        A late one between two rows of the match waits for the end.
        """
        negated, last, windows, ends = self.program.negated, node.row - 1, self.pattern.windows, option.kind == "end"
        for slot in self.program.passed(option):
            negation = self.pattern.negations[negated[slot]]
            if ends or not negation.late:
                yield negation, last, min(windows.end(self.start), self.rows.count) if ends else row
        if not ends:
            return
        for slot in self.program.opening(option):
            first = self.start
            while first > self.rows.first and not windows.refused(0, first - 1, last):
                first -= 1
            yield self.pattern.negations[negated[slot]], first - 1, self.start
        for run in node.run.taken() if self.pattern.keeps_runs else ():
            assert run.before is not None
            for negation in (self.pattern.negations[negated[slot]] for slot in run.crossed):
                if negation.late:
                    yield negation, run.before.row, run.row

    def outside(self, option: Option, row: int) -> str:
        """Why a row is outside of the windows at an option, "" if it is inside."""
        if reason := self.pattern.windows.refused(0, self.start, row):
            return reason
        for window, first in self.program.groups(option, row):
            if reason := self.pattern.windows.refused(window, first, row):
                return reason
        return ""

    def holds(self, variable: int, node: Node, row: int | None = None) -> bool:
        """Whether the condition of a variable is true for a row after a node, by default the first one."""
        row = node.row if row is None else row
        looks = variable in self.pattern.looks
        known = node.run.verdict(variable, row) if looks else self.trace.verdicts.get((variable, row))
        if known is not None:
            return known
        self.evaluated += looks
        logic = self.pattern.conditions.get(variable)
        try:
            found = logic is None or comparisons.combined(logic, lambda number: self.trace.truth(number, row, node.run)) is True
        except MatchRuntimeError:  # the engine did not ask here, or its error came first
            found = False
        if looks:
            node.run.judge(variable, row, found)
        else:
            self.trace.verdicts[variable, row] = found
        return found

    def after(self, node: Node, move: Move) -> Node:
        """The node after a move took its row."""
        is_first = node.row == self.start
        run = node.run
        if self.pattern.keeps_runs:
            crossed = () if is_first else self.program.passed(move.option)
            run = run.with_(move.option.variable, move.row, crossed)
        return Node(self.program.after(move.option, move.row, is_first=is_first), run, move.row + 1)

    def accepted(self, node: Node) -> Iterator[tuple[Option, Node]]:
        """The options that take a row, in order of preference, with the nodes after them."""
        for move in self.taking(node):
            if move.option.kind == "row" and not self.refused(node, move.option, move.row):
                yield move.option, self.after(node, move)

    def taking(self, node: Node) -> Iterator[Move]:
        """Like :meth:`moves`, without most of the rows that are refused."""
        return self.moving.taking(node, self.options(node), self._takes(node), self.step, self.trace.rows_of)

    def step(self, count: int = 1) -> None:
        self.steps += count
        if self.steps > self.trace.max_steps:
            raise Effort

    def keep(self) -> None:
        """A step to a state that is remembered. With its run it takes twice as much memory, so it counts twice."""
        self.step(2 if self.pattern.keeps_runs else 1)

    def found(self, root: Node) -> Way | None:
        """The preferred way from a node to a match, None if there is none."""
        return next(self.ways(root), None)

    def ways(self, root: Node) -> Iterator[Way]:
        """The ways from a node to a match, in order of preference. A match may come several times."""
        if root in self._failed:
            return
        stack = [(root, self.taking(root), 0)]
        path: Way = []
        found = 0
        while stack:
            node, moves, before = stack[-1]
            for move in moves:
                if self.refused(node, move.option, move.row):
                    continue
                if move.option.kind == "end":
                    found += 1
                    yield [*path, (node, move)]
                    continue
                after = self.after(node, move)
                if after in self._failed or self._fails_later(after):
                    continue
                self.keep()
                path.append((node, move))
                stack.append((after, self.taking(after), found))
                break
            else:
                if found == before:
                    self._failed.add(node)
                    if self.pattern.monotone and node.row > self.start:
                        self._failed_from[node.state] = min(node.row, self._failed_from.get(node.state, node.row))
                stack.pop()
                if path and stack:
                    path.pop()

    def _fails_later(self, node: Node) -> bool:
        """Whether an equal state with more rows ahead of it led to no match."""
        return self.pattern.monotone and self._failed_from.get(node.state, self.rows.count + 1) <= node.row

    # -- what questions ask ---------------------------------------------------------------------------------

    def farthest(self, least: int = 0, taking: int | None = None) -> Ended | None:
        """The farthest run that ends at the row ``least`` or later. ``taking``: of the runs that take this row.

        If no condition looks at the match, start rows share what is known of the runs below a state.
        """
        known = self.trace.shared.setdefault((least, taking), {}) if self.pattern.shares else {}
        reached = 0

        def accepted(node: Node) -> Iterator[tuple[Option, Node]]:
            nonlocal reached
            for option, after in self.accepted(node):
                if taking is None or node.row > taking or after.row <= taking + 1:
                    reached |= 1 << option.place
                    yield option, after

        try:
            found = farthest(self.program, (self.start, self.number), self.root, accepted, self.keep, least=least if taking is None else taking + 1, known=known)
            if taking is None and not self.pattern.shares:  # all runs were looked at
                self._reached = reached
            return found
        finally:
            self.forget()

    def next(self, ended: Ended) -> list[tuple[Option, str]]:
        """The options after a run, in order of preference, each with the reason why it does not take the row after the run."""
        return [(option, self.refused(node, option)) for node, option in self.beyond(ended)]

    def beyond(self, ended: Ended) -> list[tuple[Node, Option]]:
        """The options after a run without the end of the match, in order of preference, each with its node."""
        run = ended.taken() if self.pattern.keeps_runs else self.root.run
        found: dict[tuple[str, int], tuple[Node, Option]] = {}
        for state in ended.states:
            node = Node(state, run, ended.row)
            for option in self.options(node):
                if option.kind != "end":
                    found.setdefault((option.kind + option.anchor, option.place), (node, option))
        return list(found.values())

    def explored(self) -> Iterator[tuple[Node, Labels, Move | None]]:
        """The nodes that the search visited, in its order.

        Yields:
            each node, the rows before it with their variables, and the move of the first match from there. Moves after it were not
            tried. The move is None if all moves were tried: under ALL MATCHES, and at a node that led to no match.
        """
        seen: set[Node] = set()
        labels: Labels = ()
        if self._visits_all:
            yield from ((node, before, None) for node, before in self.below(self.root, labels, seen))
            return
        for node, taken in self.path:
            seen.add(node)
            yield node, labels, taken
            for move in self.moves(node):
                if move == taken:
                    break
                if move.option.kind == "row" and not self.refused(node, move.option, move.row):
                    for other, before in self.below(self.after(node, move), (*labels, (move.row, move.option.variable)), seen):
                        yield other, before, None
            labels = (*labels, (taken.row, taken.option.variable))

    @property
    def _visits_all(self) -> bool:
        """Whether the search visited the nodes of all runs."""
        return self.match is None or self.pattern.reports_all

    def below(self, root: Node, labels: Labels, seen: set[Node]) -> Iterator[tuple[Node, Labels]]:
        """The nodes of all runs below a node, in the order of the search, each with the rows before it and their variables.

        ``seen``: nodes to leave out. The nodes that come are added.
        """
        stack = [(root, labels)]
        while stack:
            node, labels = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            self.keep()
            yield node, labels
            stack.extend(reversed([(after, (*labels, (after.row - 1, option.variable))) for option, after in self.accepted(node)]))

    def reached(self) -> int:
        """The places that some run of the search took, as bits. The steps of a finished search do not count again."""
        steps, self.steps = self.steps, self.steps if self.effort else 0
        try:
            return self._reached if self._reached is not None else self._places()
        finally:
            self.steps = steps
            self.forget()

    def _places(self) -> int:
        if self._visits_all:
            return self._places_below(self.root)
        found = 0
        for node, taken in self.path:
            for move in self.moves(node):
                if move == taken:
                    break
                if move.option.kind == "row" and not self.refused(node, move.option, move.row):
                    found |= 1 << move.option.place | self._places_below(self.after(node, move))
            if taken.option.kind == "row":
                found |= 1 << taken.option.place
        return found

    def _places_below(self, root: Node) -> int:
        """The places that runs below a node take, as bits. If no condition looks at the match, start rows share them."""
        known: dict[Node, int] = self.trace.places_below if self.pattern.shares else {}
        stack = [root]
        while stack:
            node = stack[-1]
            below = [] if node in known else list(self.accepted(node))
            missing = [after for _, after in below if after not in known]
            if missing:
                self.keep()
                stack.extend(missing)
                continue
            stack.pop()
            if node not in known:
                places = 0
                for option, after in below:
                    places |= 1 << option.place | known[after]
                known[node] = places
        return known[root]

    def states(self, taken: Sequence[tuple[int, int]]) -> list[Node]:
        """The states of all derivations that take some rows, given with their variables."""
        nodes = [self.root]
        for row, variable in taken:
            found: dict[Node, None] = {}
            for node in nodes:
                for move in self.moves(node):
                    if move.option.kind == "row" and (move.row, move.option.variable) == (row, variable):
                        if self.refused(node, move.option, row) in ("", "CONDITION"):
                            found[self.after(node, move)] = None
            nodes = list(found)
        return nodes

    def leads_to_match(self, taken: Labels) -> bool:
        """Whether a match begins with some rows, given with their variables, in any derivation of them."""
        row, variable = taken[-1]
        return any(
            move.option.variable == variable and move.row == row and not self.refused(node, move.option, row) and self.found(self.after(node, move)) is not None
            for node in self.states(taken[:-1]) for move in self.moves(node)
        )  # fmt: skip

    def decisions(self) -> Iterator[Decision]:
        """The decisions of the first match, row by row. All derivations of the rows so far speak together."""
        labels: Labels = ()
        for node, taken in self.path:
            if taken.option.kind == "row":
                for row in range(node.row, min(taken.row, node.row + MOST_PASSED)):
                    yield self.decision(node, taken, labels, row)
            yield self.decision(node, taken, labels, None if taken.option.kind == "end" else taken.row)
            labels = (*labels, (taken.row, taken.option.variable))

    def passing(self, row: int) -> Decision | None:
        """The decision to pass over a row, None if the first match takes the row or does not reach it."""
        labels: Labels = ()
        for node, taken in self.path:
            if taken.option.kind == "row" and node.row <= row < taken.row:
                return self.decision(node, taken, labels, row)
            labels = (*labels, (taken.row, taken.option.variable))
        return None

    def following(self, row: int) -> Decision:
        """The decision to end the first match, for a row after it."""
        node, taken = self.path[-1]
        return self.decision(node, taken, tuple((move.row, move.option.variable) for _, move in self.path[:-1]), row)

    def decision(self, node: Node, taken: Move, labels: Labels, row: int | None) -> Decision:
        """The decision at a row: the variable, and everything else that could have come.

        Args:
            node: a node of the first match.
            taken: the move from there.
            labels: the rows before the node, with their variables.
            row: the row of the move, or one that could come before it or instead of the end; None for all rows that could.
        """
        ends = taken.option.kind == "end"
        is_taken = not ends and row == taken.row
        preferred: list[Move] = []
        for move in self.moves(node):
            if move == taken:
                break
            if move.option.kind == "end" or row is None or move.row == row:
                preferred.append(move)
        options = self.options(node)
        names = {move.option.variable for move in preferred if move.option.kind != "anchor"}
        if ends:  # at the partition's last row options before the end lack moves
            names |= {option.variable for option in options[: options.index(taken.option)] if option.kind == "row"}
        here = self.states(labels)
        listed = {option.variable: None for other in (node, *here) for option in self.options(other) if option.kind != "anchor"}
        others = []
        for variable in listed:
            if not (is_taken and variable == taken.option.variable) and not (ends and variable < 0) and (variable >= 0 or is_taken):
                others.append(self._other(variable, variable in names, here, node, preferred, labels, row))
        return Decision(taken.row if row is None else row, taken.option.variable if is_taken or ends else PASSED, tuple(others))

    def _other(self, variable: int, preferred: bool, here: list[Node], node: Node, before: list[Move], labels: Labels, row: int | None) -> Other:
        if variable < 0:
            ends = [self.refused(other, option) for other in here for option in self.options(other) if option.kind == "end"]
            return Other(-1, preferred, REFUSED, ends[0]) if all(ends) else Other(-1, preferred, MATCHES)
        moves = [(other, move) for other in here for move in self.moves(other) if move.option.variable == variable and row in (None, move.row)]
        reasons = [self.refused(other, move.option, move.row) for other, move in moves]
        if all(reasons):
            beyond = [self.refused(other, option, row) for other in here for option in self.options(other) if option.variable == variable]
            nearest = next((reason for reason in ("NEGATION", "CONDITION") if reason in reasons), "")  # what a negation forbids has a condition that is true
            return Other(variable, preferred, REFUSED, nearest or (reasons or [reason or OUT_OF_REACH for reason in beyond])[0])
        taking = {self.after(other, move): None for (other, move), reason in zip(moves, reasons, strict=True) if not reason}
        if any(self.found(state) is not None for state in taking):
            return Other(variable, preferred, MATCHES)
        ended = None
        own = next((move for move in before if move.option.variable == variable and not self.refused(node, move.option, move.row)), None)
        if own is not None:
            taken = [(move.option.place, move.row) for _, move in self.path[: len(labels)]] + [(own.option.place, own.row)]
            ended = farthest(self.program, (self.start, self.number), self.after(node, own), self.accepted, self.keep, taken=tuple(taken))
        return Other(variable, preferred, FAILS, ended=ended)


class Trace:
    """The searches of a partition.

    Attributes:
        pattern, rows, changed, max_steps: what was searched.
        searches: the search of each row that was a start row.
        matches: the matches, in order.
        passed: for each row that was passed over, the number of the match that took it.
        given_up: whether the search of a start row needed too many steps. Later rows are not searched.
    """

    def __init__(
        self, pattern: Pattern, rows: Rows, changed: Changed = NOTHING, *, max_steps: int = MAX_STEPS, skip: tuple[str, int] | None = None, search: bool = True,
    ) -> None:  # fmt: skip
        """Searches the partition.

        Args:
            pattern: the pattern.
            rows: the rows.
            changed: comparisons whose truth is changed.
            max_steps: how many steps a start row may take.
            skip: replaces where the search resumes after a match.
            search: whether to search. If not, :meth:`search` searches single start rows.
        """
        self.pattern, self.rows, self.changed, self.max_steps = pattern, rows, changed, max_steps
        self.skip = skip or pattern.skip
        self.failed: set[Node] = set()
        self.failed_from: dict[State, int] = {}
        self._rows_of: dict[int, Sequence[int]] = {}
        self.verdicts: dict[tuple[int, int], bool] = {}
        self.searches: dict[int, Search] = {}
        self.matches: list[Match] = []
        self.passed: dict[int, int] = {}
        self.given_up = False
        self._cost = 0  # of all searches together
        self.shared: dict[tuple[int, int | None], dict] = {}  # see Search.farthest
        self.places_below: dict[Node, int] = {}  # see Search.reached
        self._shared_run = Run(0, 0)
        self.negations = Negations(pattern.strategy, pattern.windows, self._negated_holds)
        if search and pattern.reports_all:
            self._search_all()
        elif search:
            self._search_first()

    def _search_first(self) -> None:
        start = self.rows.first
        while start < self.rows.count:
            found = self._search_next(start, len(self.matches) + 1)
            if found.effort:
                return
            if found.match is None:
                start += 1
                continue
            self.matches.append(found.match)
            resumed = self.resumed(found.match)
            self.passed.update((row, found.number) for row in range(start + 1, resumed))
            start = resumed

    def _search_all(self) -> None:
        """Searches every row. If matches may not overlap, those that complete first remain."""
        found: list[Match] = []
        for start in range(self.rows.first, self.rows.count):
            search = self._search_next(start, 0)
            if search.effort:
                break
            found += search.matches
        if self.skip[0] == PAST_LAST:  # after giving up, a later start row may have a match that completes first
            found = [] if self.given_up else not_overlapping(found)
        self.number(found)

    def _search_next(self, start: int, number: int) -> Search:
        """Searches one of all start rows. Gives up if they take too many steps together."""
        search = self.search(start, number)
        self._cost += search.cost
        search.effort = self.given_up = search.effort or self._cost > MOST_TOGETHER * self.max_steps
        return search

    @property
    def decided(self) -> int:
        """All matches with a row before this one are known."""
        if not self.given_up:
            return self.rows.count
        return self.rows.first if self.pattern.reports_all and self.skip[0] == PAST_LAST else max(self.searches)

    def number(self, matches: Sequence[Match]) -> None:
        """Gives the matches of ALL MATCHES an order, and their numbers by it."""
        self.matches = [replace(match, number=number) for number, match in enumerate(matches, 1)]

    def search(self, start: int, number: int) -> Search:
        """Searches one start row."""
        self.searches[start] = Search(self, start, number)
        return self.searches[start]

    def empty_run(self, start: int, number: int) -> Run:
        """The run without rows. If no condition looks at the match, all start rows share it."""
        if self.pattern.shares:
            return self._shared_run
        return Run(start, number)

    def truth(self, comparison: int, row: int, run: Run) -> bool | None:
        """The truth of a comparison, perhaps changed."""
        changed = self._changed_to(comparison, row) if self.changed else None
        return self.rows.truth(comparison, row, run) if changed is None else changed

    def _changed_to(self, comparison: int, row: int) -> bool | None:
        """The truth that a comparison is changed to at a row. None if it is not changed there."""
        return self.changed.get((comparison, row), self.changed.get((comparison, None)))

    def _negated_holds(self, variable: int, row: int, run: Run, others: Run) -> bool:
        """Whether the condition of a negated variable is true for a row, given the match and earlier rows of the negated group."""
        logic = self.pattern.conditions.get(variable)

        def truth(number: int) -> bool | None:
            changed = self._changed_to(number, row)
            return self.rows.truth_between(number, row, run, others) if changed is None else changed

        return logic is None or comparisons.combined(logic, truth) is True

    def rows_of(self, variable: int) -> Sequence[int]:
        """The rows that a variable may take, in order: all rows if its condition looks at the match."""
        if variable not in self._rows_of:
            logic, rows = self.pattern.conditions.get(variable), range(self.rows.first, self.rows.count)
            if logic is None or variable in self.pattern.looks:
                self._rows_of[variable] = rows
            else:
                run = self._shared_run
                self._rows_of[variable] = [row for row in rows if comparisons.combined(logic, lambda number, row=row: self.truth(number, row, run)) is True]
        return self._rows_of[variable]

    def resumed(self, match: Match) -> int:
        """The row where the search resumes after a match."""
        mode, mask = self.skip
        if not match.variables or mode == NEXT_ROW:
            return match.start + 1
        if mode == PAST_LAST:
            return match.end
        rows = [row for row, variable in zip(match.rows, match.variables, strict=True) if mask == ALL_ROWS or mask >> variable & 1]
        if not rows:
            raise SkipTarget
        row = rows[0] if mode == TO_FIRST else rows[-1]
        if row == match.start:
            raise SkipTarget
        return row


def not_overlapping(matches: Sequence[Match], at: int = 0) -> list[Match]:
    """Of all matches that begin at the row ``at`` or later, those that remain if matches may not overlap: they complete first."""
    found: list[Match] = []
    while matches := [match for match in matches if match.start >= at]:
        found.append(min(matches, key=lambda match: match.end))
        at = found[-1].end
    return found


def farthest_of(
    searches: Iterable[Search], run_of: Callable[[Search], Ended | None] = Search.farthest, fits: Callable[[Search, Ended], bool] = lambda search, ended: True,
) -> tuple[Search, Ended] | None:  # fmt: skip
    """The farthest run of several searches, with its search. None if all are left out.

    Args:
        searches: the searches. Those with a match are left out, and those that need too many steps.
        run_of: returns the farthest run of a search.
        fits: whether a run that is farther than those before it counts.
    """
    best: tuple[Search, Ended] | None = None
    for search in searches:
        try:
            ended = run_of(search) if search.match is None and not search.effort else None
        except Effort:
            continue
        if ended is not None and (best is None or ended.rank > best[1].rank) and fits(search, ended):
            best = search, ended
    return best
