"""The pattern as a program: which variables may come next in a state, in order of preference.

The search (:mod:`sparkcep.tracing.search.trace`) asks :meth:`Program.options`. A state is an instruction, with a slot for each
quantifier, for each PERMUTE, and for each group with a window of its own. The slot of a quantifier has the number of finished
iterations, and whether the iteration began at this row. The slot of a PERMUTE has the elements that were chosen, as bits. The slot
of a group has its first row. The slot of a negation says whether it was passed before the first row of the match, and whether it
was passed since the last row.

Example: ``A B*`` is the program

    0  row   A at place 0
    1  init  slot 0
    2  loop  slot 0, body 3, end 5, any number
    3  row   B at place 1
    4  tail  slot 0, loop 2
    5  end

After A the state is (1, ((0, False),)), and the options are B and the end of the match.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Literal, NamedTuple, TypeAlias

from sparkcep.plan.facts import least, straight
from sparkcep.plan.records import Repeat, Within

Slot: TypeAlias = "tuple[int, bool] | int"  # a negation's is a tuple, too: (passed before the first row, passed since the last row)
State: TypeAlias = tuple[int, tuple[Slot, ...]]

_CLOSED, _EMPTY = -2, -1  # slots of a group that is not open, and of a group without a row
_NEGATION = -2  # in Program.windows


class Instruction(NamedTuple):
    """An instruction. Which of the numbers count depends on its kind."""

    kind: Literal["row", "jump", "split", "init", "loop", "tail", "permute", "element", "open", "close", "not", "start", "end", "match"]
    variable: int = -1
    place: int = -1
    targets: tuple[int, ...] = ()
    slot: int = -1
    low: int = 0
    high: int | None = None
    greedy: bool = True
    body: int = -1
    end: int = -1


@dataclass(frozen=True)
class Option:
    """Something that may come next: a row of a variable, the end of the match, or an anchor that does not hold.

    Attributes:
        kind: which of these.
        variable: the variable of the row, -1 for others.
        place: its place in the pattern, -1 for others.
        anchor: "start" or "end", "" for others.
        at: the instruction.
        slots: the slots there.
    """

    kind: Literal["row", "end", "anchor"]
    variable: int
    place: int
    anchor: str
    at: int
    slots: tuple[Slot, ...]


class Program:
    """The program of a pattern.

    Attributes:
        code: the instructions.
        places: the variable of each place, in the order of the text.
        depths: for each place, the fewest rows that a way to it takes.
        windows: for each slot of a group, the number of its window; -1 for slots of quantifiers, -2 for slots of negations.
        negated: for each slot of a negation, its variable.
    """

    def __init__(self, pattern: tuple, *, adjacent: bool = False) -> None:
        """
        Args:
            pattern: the pattern.
            adjacent: whether rows of a match are adjacent, so that PERMUTE may choose its elements one by one.
        """
        self.code: list[Instruction] = []
        self.places: list[int] = []
        self.windows: list[int] = []
        self.negated: dict[int, int] = {}
        self._adjacent = adjacent
        self._inside: list[int] = []  # for each instruction, the loop or PERMUTE around it, or -1
        numbered = self._numbered(pattern)
        self._emit(numbered, -1)
        self._add(Instruction("match"), -1)
        self.depths = [0] * len(self.places)
        self._measure(numbered, 0)
        self._known: dict[tuple[int, tuple[Slot, ...], bool, bool], tuple[Option, ...]] = {}
        self._states: dict[State, State] = {}  # equal states are one object
        self._rows_ahead: dict[int, int] = {}
        self._again: dict[State, tuple[Option, ...] | None] = {}
        self._grouped = any(window != -1 for window in self.windows)

    @property
    def first(self) -> State:
        """The state before the first row."""
        return 0, tuple(_CLOSED if window >= 0 else (0, False) for window in self.windows)

    @property
    def bounds_rows(self) -> bool:
        """Whether the rows of a match decide what may come next: by windows of groups, or at the end of the partition."""
        return any(window >= 0 for window in self.windows) or any(here.kind == "end" for here in self.code)

    # -- building -------------------------------------------------------------------------------------------

    def _numbered(self, tree: tuple) -> tuple:
        """The pattern with the place of each variable. All orders of PERMUTE share the places."""
        if tree[0] == "not":
            return tree
        if tree[0] == "var":
            self.places.append(tree[1])
            return ("var", tree[1], len(self.places) - 1)
        if isinstance(tree, Repeat | Within):
            return tree._replace(item=self._numbered(tree.item))
        return (tree[0], *map(self._numbered, tree[1:]))

    def _add(self, instruction: Instruction, inside: int) -> int:
        self.code.append(instruction)
        self._inside.append(inside)
        return len(self.code) - 1

    def _slot(self, window: int = -1) -> int:
        self.windows.append(window)
        return len(self.windows) - 1

    def _emit(self, tree: tuple, inside: int) -> None:
        if isinstance(tree, Repeat):
            slot = self._slot()
            self._add(Instruction("init", slot=slot), inside)
            loop = self._add(Instruction("loop"), inside)
            self._emit(tree.item, loop)
            cap = tree.low if tree.high is None else tree.high
            self._add(Instruction("tail", slot=slot, body=loop, low=tree.low, high=cap), loop)
            self.code[loop] = Instruction("loop", slot=slot, body=loop + 1, end=len(self.code), low=tree.low, high=tree.high, greedy=tree.greedy)
        elif isinstance(tree, Within):
            slot = self._slot(tree.window)
            self._add(Instruction("open", slot=slot), inside)
            self._emit(tree.item, inside)
            self._add(Instruction("close", slot=slot), inside)
        elif tree[0] == "var":
            self._add(Instruction("row", variable=tree[1], place=tree[2]), inside)
        elif tree[0] in ("cat", "exclude"):
            for part in tree[1:]:
                self._emit(part, inside)
        elif tree[0] == "permute" and self._adjacent and all(map(straight, tree[1:])):
            slot = self._slot()
            self._add(Instruction("init", slot=slot), inside)
            permute = self._add(Instruction("permute"), inside)
            targets = []
            for part in tree[1:]:
                targets.append(len(self.code))
                self._emit(part, permute)
                self._add(Instruction("element", body=permute), permute)
            self.code[permute] = Instruction("permute", slot=slot, targets=tuple(targets), end=len(self.code))
        elif tree[0] in ("alt", "permute"):
            split = self._add(Instruction("split"), inside)
            targets, ends = [], []
            for part in tree[1:] if tree[0] == "alt" else [("cat", *order) for order in permutations(tree[1:])]:
                targets.append(len(self.code))
                self._emit(part, inside)
                ends.append(self._add(Instruction("jump"), inside))
            self.code[split] = Instruction("split", targets=tuple(targets))
            for end in ends:
                self.code[end] = Instruction("jump", targets=(len(self.code),))
        elif tree[0] in ("start", "end"):
            self._add(Instruction(tree[0]), inside)
        elif tree[0] == "not":
            slot = self._slot(_NEGATION)
            self.negated[slot] = tree[1]
            self._add(Instruction("not", variable=tree[1], slot=slot), inside)

    def _measure(self, tree: tuple, before: int) -> None:
        """Sets the depths of the places of ``tree``, which at least ``before`` rows precede."""
        if tree[0] == "var":
            depth = self.depths[tree[2]]
            self.depths[tree[2]] = min(depth, before + 1) if depth else before + 1
        elif isinstance(tree, Repeat | Within):
            self._measure(tree.item, before)
        elif tree[0] != "not":
            for part in tree[1:]:  # each part of PERMUTE may be the first one
                self._measure(part, before)
                before += least(part) if tree[0] in ("cat", "exclude") else 0

    # -- what may come next ---------------------------------------------------------------------------------

    def options(self, state: State, first: bool, last: bool) -> tuple[Option, ...]:
        """Everything that may come next, in order of preference.

        Args:
            state: the state.
            first: whether the next row is the partition's first one.
            last: whether the partition ends before the next row.
        """
        key = (*state, first, last)
        if key not in self._known:
            self._known[key] = tuple(self._reached([state], -1, first, last))
        return self._known[key]

    def _reached(self, stack: list[State], stop: int, first: bool, last: bool) -> list[Option]:
        """The options that the states on a stack lead to, the last state first. The instruction ``stop`` ends a way."""
        found: list[Option] = []
        seen: set[State] = set()
        while stack:
            at, slots = stack.pop()
            if (at, slots) in seen or at == stop:
                continue
            seen.add((at, slots))
            here = self.code[at]
            if here.kind == "row":
                found.append(Option("row", here.variable, here.place, "", at, slots))
            elif here.kind == "match":
                found.append(Option("end", -1, -1, "", at, slots))
            elif here.kind in ("start", "end") and not (first if here.kind == "start" else last):
                found.append(Option("anchor", -1, -1, here.kind, at, slots))
            else:
                stack.extend(reversed(self._next(here, at, slots)))
        return found

    def _next(self, here: Instruction, at: int, slots: tuple[Slot, ...]) -> list[State]:
        """The states after an instruction without a row, in order of preference."""

        def with_(value: Slot) -> tuple[Slot, ...]:
            return (*slots[: here.slot], value, *slots[here.slot + 1 :])

        if here.kind in ("jump", "split"):
            return [(target, slots) for target in here.targets]
        if here.kind == "init":
            return [(at + 1, with_((0, False)))]
        if here.kind in ("open", "close"):
            return [(at + 1, with_(_EMPTY if here.kind == "open" else _CLOSED))]
        if here.kind == "not":
            return [(at + 1, with_((slots[here.slot][0], True)))]
        if here.kind == "loop":
            done = slots[here.slot][0]
            inside, after = (here.body, with_((done, True))), (here.end, slots)
            if done < here.low:
                return [inside]
            if here.high is not None and done >= here.high:
                return [after]
            return [inside, after] if here.greedy else [after, inside]
        if here.kind == "permute":
            chosen = slots[here.slot][0]
            left = [(target, with_((chosen | 1 << i, False))) for i, target in enumerate(here.targets) if not chosen >> i & 1]
            return left or [(here.end, slots)]
        if here.kind == "element":
            return [(here.body, slots)]
        if here.kind == "tail":
            done, began_here = slots[here.slot]
            if done >= here.low and began_here:  # an iteration without a row ends the loop
                return [(self.code[here.body].end, slots)]
            return [(here.body, with_((min(done + 1, here.high or 0), False)))]
        return [(at + 1, slots)]  # an anchor that holds

    def begin_again(self, state: State) -> tuple[Option, ...] | None:
        """The options that begin a new iteration of the innermost quantified part whose iteration ends in a state.

        None if no iteration ends there, or if the part may not be repeated. An iteration ends if nothing of it is left, not even an
        optional part (docs/language.md, event selection).
        """
        if state not in self._again:
            self._again[state] = self._begin_again(*state)
        return self._again[state]

    def _begin_again(self, at: int, slots: tuple[Slot, ...]) -> tuple[Option, ...] | None:
        if at == 0:
            return None
        while (here := self.code[at]).kind in ("jump", "close", "tail", "not"):
            if here.kind == "tail":
                loop, done = self.code[here.body], slots[here.slot][0] + 1
                if loop.high is None or done < loop.high:
                    inside = (*slots[: here.slot], (min(done, here.high or 0), True), *slots[here.slot + 1 :])
                    return tuple(self._reached([(loop.body, inside)], at, False, False))
                at = loop.end
            else:
                ((at, slots),) = self._next(here, at, slots)
        return None

    def after(self, option: Option, row: int, *, is_first: bool = False) -> State:
        """The state after an option took a row. ``is_first``: it is the first row of the match."""
        if not self._grouped:
            state = option.at + 1, tuple((slot[0], False) for slot in option.slots)
            return self._states.setdefault(state, state)
        slots: list[Slot] = []
        for window, slot in zip(self.windows, option.slots, strict=True):
            if window == _NEGATION:
                slots.append((slot[0] or (is_first and slot[1]), False))
            else:
                slots.append((row if slot == _EMPTY else slot) if isinstance(slot, int) else (slot[0], False))
        return option.at + 1, tuple(slots)

    def groups(self, option: Option, row: int = -1) -> list[tuple[int, int]]:
        """The open groups at an option that have a row: the number of the window, and the first row.

        With ``row`` also those that begin with this row.
        """
        if not self._grouped:
            return []
        found = []
        for window, slot in zip(self.windows, option.slots, strict=True):
            if window >= 0 and isinstance(slot, int) and (first := row if slot == _EMPTY else slot) >= 0:
                found.append((window, first))
        return found

    def passed(self, option: Option) -> tuple[int, ...]:
        """The slots of the negations that were passed since the last row."""
        return tuple(slot for slot in self.negated if option.slots[slot][1]) if self.negated else ()

    def opening(self, option: Option) -> tuple[int, ...]:
        """The slots of the negations that were passed before the first row."""
        return tuple(slot for slot in self.negated if option.slots[slot][0])

    # -- how far it is to the end -----------------------------------------------------------------------------

    def needed(self, state: State) -> int:
        """The fewest rows from a state to the end of the match, regardless of conditions and anchors."""
        at, slots = state
        rows = self._ahead(at)
        while (loop := self._inside[at]) >= 0:
            around = self.code[loop]
            if around.kind == "permute":
                rows += sum(self._ahead(target) for i, target in enumerate(around.targets) if not slots[around.slot][0] >> i & 1)
            else:
                rows += max(around.low - slots[around.slot][0] - 1, 0) * self._ahead(around.body)
            rows += self._ahead(around.end)
            at = loop
        return rows

    def _ahead(self, at: int) -> int:
        """The fewest rows from an instruction to the end of the innermost iteration around it, or of the match."""
        if at not in self._rows_ahead:
            self._rows_ahead[at] = self._count_ahead(at)
        return self._rows_ahead[at]

    def _count_ahead(self, at: int) -> int:
        here = self.code[at]
        if here.kind in ("tail", "element", "match"):
            return 0
        if here.kind in ("jump", "split"):
            return min(map(self._ahead, here.targets))
        if here.kind == "init":
            around = self.code[at + 1]
            inside = sum(map(self._ahead, around.targets)) if around.kind == "permute" else around.low * self._ahead(around.body)
            return inside + self._ahead(around.end)
        return (here.kind == "row") + self._ahead(at + 1)
