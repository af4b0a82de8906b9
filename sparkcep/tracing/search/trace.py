"""Traces the search over the rows of one partition: for each start row the match, or why there is none.

The search goes depth first, in order of preference, like the engine's search for adjacent rows. States that led to no match are
remembered. If a condition looks at the match, a state is remembered together with its run; if WINDOW bounds the match, for one
start row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, TypeAlias

from sparkcep.clause.tree import NEXT_ROW, PAST_LAST, TO_FIRST
from sparkcep.errors import MatchRuntimeError
from sparkcep.plan.records import ALL_ROWS
from sparkcep.tracing.conditions import comparisons
from sparkcep.tracing.conditions.comparisons import Logic
from sparkcep.tracing.search.program import Option, Program
from sparkcep.tracing.search.runs import Ended, Node, Run, farthest
from sparkcep.tracing.search.windows import Windows

MAX_STEPS = 1_000_000  # of one start row
Changed: TypeAlias = "Mapping[tuple[int, int | None], bool]"  # comparisons that are changed at a row (None: at all rows)
NOTHING: Changed = MappingProxyType({})
REFUSED, FAILS, MATCHES = "refused", "fails", "matches"


class Rows(Protocol):
    """The rows of a partition, with the values of comparisons: columns that Spark computed, and the engine's machine."""

    count: int
    first: int  # the first row that is known, 0 if the whole partition is

    def truth(self, comparison: int, row: int, run: Run) -> bool | None:
        """Whether a comparison holds at a row that comes after the run, and takes the comparison's variable."""


@dataclass(frozen=True)
class Pattern:
    """The parts of a clause that a search needs.

    Attributes:
        program: the pattern.
        conditions: the condition of each variable that has one.
        looks: the variables whose conditions look at the match.
        skip: where the search resumes after a match, and the variables of the target.
        windows: the bounds of the match and of groups.
    """

    program: Program
    conditions: Mapping[int, Logic]
    looks: frozenset[int]
    skip: tuple[str, int]
    windows: Windows


class Effort(Exception):
    """A start row needs more steps than allowed."""


class SkipTarget(Exception):
    """AFTER MATCH SKIP cannot resume: its target lacks a row, or is the match's first row."""


@dataclass(frozen=True)
class Match:
    """A match: its first row, the variables of its rows, and their places in the pattern."""

    number: int
    start: int
    variables: tuple[int, ...]
    places: tuple[int, ...]

    @property
    def end(self) -> int:
        """The row after the last one."""
        return self.start + len(self.variables)


@dataclass(frozen=True)
class Other:
    """Something else that could have come at a row of a match.

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
    """A row of a match (or its end, with variable -1), and what else could have come there."""

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
        match: the match, None without one.
        effort: whether the search was given up.
    """

    trace: Trace
    start: int
    number: int
    match: Match | None = None
    effort: bool = False
    path: list[tuple[Node, Option]] = field(default_factory=list)  # the nodes of the match, each with the option that was taken
    steps: int = 0

    def __post_init__(self) -> None:
        self.pattern, self.rows = self.trace.pattern, self.trace.rows
        self.program = self.pattern.program
        self._failed: set[Node] = set() if self.pattern.looks or self.pattern.windows.bounded else self.trace.failed
        self.root = Node(self.program.first, self.trace.empty_run(self.start, self.number), self.start)
        try:
            self.path = self.found(self.root) or []
        except Effort:
            self.effort = True
        if self.path:
            taken = [option for _, option in self.path[:-1]]
            self.match = Match(self.number, self.start, tuple(o.variable for o in taken), tuple(o.place for o in taken))

    # -- searching ------------------------------------------------------------------------------------------

    def options(self, node: Node) -> tuple[Option, ...]:
        """Everything that may come next, in order of preference."""
        return self.program.options(node.state, node.row == 0, node.row == self.rows.count)

    def refused(self, node: Node, option: Option) -> str:
        """Why an option cannot be taken, as a reason of :mod:`sparkcep.tracing.answers.reasons`; "" if it can."""
        if option.kind == "anchor":
            return "ANCHOR"
        if option.kind == "end":
            return ""
        if node.row >= self.rows.count:
            return "PARTITION_END"
        return self.outside(option, node.row) or ("" if self.holds(option.variable, node) else "CONDITION")

    def outside(self, option: Option, row: int) -> str:
        """Why a row is outside of the windows at an option, "" if it is inside."""
        if reason := self.pattern.windows.refused(0, self.start, row):
            return reason
        for window, first in self.program.groups(option):
            if reason := self.pattern.windows.refused(window, first, row):
                return reason
        return ""

    def holds(self, variable: int, node: Node) -> bool:
        """Whether the condition of a variable is true for the next row."""
        verdicts = node.run.verdicts if self.pattern.looks else self.trace.verdicts[node.row]
        if variable not in verdicts:
            logic = self.pattern.conditions.get(variable)
            try:
                verdicts[variable] = logic is None or comparisons.combined(logic, lambda number: self.trace.truth(number, node.row, node.run)) is True
            except MatchRuntimeError:  # the engine did not ask here, or its error came first
                verdicts[variable] = False
        return verdicts[variable]

    def after(self, node: Node, option: Option) -> Node:
        """The node after an option took the next row."""
        run = node.run.with_(option.variable) if self.pattern.looks else node.run
        return Node(self.program.after(option, node.row), run, node.row + 1)

    def accepted(self, node: Node) -> Iterator[tuple[Option, Node]]:
        """The options that take the next row, in order of preference, with the nodes after them."""
        for option in self.options(node):
            if option.kind == "row" and not self.refused(node, option):
                yield option, self.after(node, option)

    def step(self) -> None:
        self.steps += 1
        if self.steps > self.trace.max_steps:
            raise Effort

    def found(self, root: Node) -> list[tuple[Node, Option]] | None:
        """The preferred way from a node to a match, None if there is none."""
        if root in self._failed:
            return None
        stack = [(root, iter(self.options(root)))]
        path: list[tuple[Node, Option]] = []
        while stack:
            node, options = stack[-1]
            for option in options:
                if self.refused(node, option):
                    continue
                if option.kind == "end":
                    return [*path, (node, option)]
                after = self.after(node, option)
                if after in self._failed:
                    continue
                self.step()
                path.append((node, option))
                stack.append((after, iter(self.options(after))))
                break
            else:
                self._failed.add(node)
                stack.pop()
                if path and stack:
                    path.pop()
        return None

    # -- what questions ask ---------------------------------------------------------------------------------

    def farthest(self, least: int = 0) -> Ended | None:
        """The farthest run that ends at the row ``least`` or later.

        If no condition looks at the match, start rows share what is known of the runs below a state.
        """
        known = {} if self.pattern.looks or self.pattern.windows.bounded else self.trace.shared.setdefault(least, {})
        return farthest(self.program, (self.start, self.number), self.root, self.accepted, self.step, least=least, known=known)

    def next(self, ended: Ended) -> list[tuple[Option, str]]:
        """Returns the options after a run, in order of preference, each with the reason why it was not taken."""
        run = ended.taken() if self.pattern.looks else self.root.run
        found: dict[tuple[str, int], tuple[Option, str]] = {}
        for state in ended.states:
            node = Node(state, run, ended.row)
            for option in self.options(node):
                if option.kind != "end":
                    found.setdefault((option.kind + option.anchor, option.place), (option, self.refused(node, option)))
        return list(found.values())

    def explored(self) -> Iterator[tuple[Node, tuple[int, ...]]]:
        """The nodes that the search visited, in its order, with the variables of the rows before each."""
        seen: set[Node] = set()
        labels: tuple[int, ...] = ()
        if not self.path:
            yield from self._below(self.root, labels, seen)
        for node, taken in self.path:
            seen.add(node)
            yield node, labels
            for option in self.options(node):
                if option == taken:
                    break
                if option.kind == "row" and not self.refused(node, option):
                    yield from self._below(self.after(node, option), (*labels, option.variable), seen)
            labels = (*labels, taken.variable)

    def _below(self, root: Node, labels: tuple[int, ...], seen: set[Node]) -> Iterator[tuple[Node, tuple[int, ...]]]:
        stack = [(root, labels)]
        while stack:
            node, labels = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            self.step()
            yield node, labels
            stack.extend(reversed([(after, (*labels, option.variable)) for option, after in self.accepted(node)]))

    def reached(self) -> int:
        """The places that some run of the search took, as bits."""
        found = 0
        for node, taken in self.path:
            for option in self.options(node):
                if option == taken:
                    break
                if option.kind == "row" and not self.refused(node, option):
                    found |= 1 << option.place | self._places_below(self.after(node, option))
            if taken.kind == "row":
                found |= 1 << taken.place
        return found if self.path else self._places_below(self.root)

    def _places_below(self, root: Node) -> int:
        """The places that runs below a node take, as bits. If no condition looks at the match, start rows share them."""
        known: dict[Node, int] = {} if self.pattern.looks or self.pattern.windows.bounded else self.trace.places_below
        stack = [root]
        while stack:
            node = stack[-1]
            below = [] if node in known else list(self.accepted(node))
            missing = [after for _, after in below if after not in known]
            if missing:
                self.step()
                stack.extend(missing)
                continue
            stack.pop()
            if node not in known:
                places = 0
                for option, after in below:
                    places |= 1 << option.place | known[after]
                known[node] = places
        return known[root]

    def states(self, variables: tuple[int, ...]) -> list[Node]:
        """The states of all derivations that give the rows from the start row on these variables."""
        nodes = [self.root]
        for variable in variables:
            found: dict[Node, None] = {}
            for node in nodes:
                for option in self.options(node):
                    if option.kind == "row" and option.variable == variable and self.refused(node, option) in ("", "CONDITION"):
                        found[self.after(node, option)] = None
            nodes = list(found)
        return nodes

    def decisions(self) -> Iterator[Decision]:
        """The decisions of the match, row by row. All derivations of the rows so far speak together."""
        labels: tuple[int, ...] = ()
        for node, taken in self.path:
            options = self.options(node)
            before = options[: options.index(taken)]
            listed = [(option.variable, option) for option in options if option.kind != "anchor"]
            here = self.states(labels)
            listed += [(option.variable, option) for other in here for option in self.options(other) if option.kind != "anchor"]
            preferred = {option.variable for option in before if option.kind != "anchor"}
            others = []
            for variable in dict.fromkeys(name for name, _ in listed):
                if variable != taken.variable:
                    others.append(self._other(variable, variable in preferred, here, node, before, labels))
            yield Decision(node.row, taken.variable, tuple(others))
            labels = (*labels, taken.variable)

    def _other(self, variable: int, preferred: bool, here: list[Node], node: Node, before: tuple[Option, ...], labels: tuple[int, ...]) -> Other:
        if variable < 0:
            return Other(-1, preferred, MATCHES)
        reasons = [self.refused(other, option) for other in here for option in self.options(other) if option.variable == variable]
        if all(reasons):
            return Other(variable, preferred, REFUSED, reasons[0])
        if any(self.found(state) is not None for state in self.states((*labels, variable))):
            return Other(variable, preferred, MATCHES)
        ended = None
        own = next((option for option in before if option.variable == variable and not self.refused(node, option)), None)
        if own is not None:
            places = (*(option.place for _, option in self.path[: len(labels)]), own.place)
            ended = farthest(self.program, (self.start, self.number), self.after(node, own), self.accepted, self.step, taken=places)
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
        self.verdicts: dict[int, dict[int, bool]] = defaultdict(dict)
        self.searches: dict[int, Search] = {}
        self.matches: list[Match] = []
        self.passed: dict[int, int] = {}
        self.given_up = False
        self.shared: dict[int, dict] = {}  # see Search.farthest
        self.places_below: dict[Node, int] = {}  # see Search.reached
        self._shared_run = Run(0, 0)
        start = rows.first
        while search and start < rows.count and not self.given_up:
            found = self.search(start, len(self.matches) + 1)
            self.given_up = found.effort
            if found.match is None:
                start += 1
                continue
            self.matches.append(found.match)
            resumed = self.resumed(found.match)
            self.passed.update((row, found.number) for row in range(start + 1, resumed))
            start = resumed

    def search(self, start: int, number: int) -> Search:
        """Searches one start row."""
        self.searches[start] = Search(self, start, number)
        return self.searches[start]

    def empty_run(self, start: int, number: int) -> Run:
        """The run without rows. If no condition looks at the match, all start rows share it."""
        if not self.pattern.looks and not self.pattern.windows.bounded:
            return self._shared_run
        return Run(start, number)

    def truth(self, comparison: int, row: int, run: Run) -> bool | None:
        """The truth of a comparison, perhaps changed."""
        if self.changed:
            for at in (row, None):
                if (comparison, at) in self.changed:
                    return self.changed[comparison, at]
        return self.rows.truth(comparison, row, run)

    def resumed(self, match: Match) -> int:
        """The row where the search resumes after a match."""
        mode, mask = self.skip
        if not match.variables or mode == NEXT_ROW:
            return match.start + 1
        if mode == PAST_LAST:
            return match.end
        rows = [match.start + i for i, variable in enumerate(match.variables) if mask == ALL_ROWS or mask >> variable & 1]
        if not rows:
            raise SkipTarget
        row = rows[0] if mode == TO_FIRST else rows[-1]
        if row == match.start:
            raise SkipTarget
        return row
