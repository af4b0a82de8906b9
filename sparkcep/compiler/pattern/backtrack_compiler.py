"""Compiles the pattern tree of a plan to a :class:`Program`.

``compiler/strategy`` runs it for every clause. The construction is Thompson's with ordered splits: the order is the preferment.
Loops with bounds or nullable bodies use counters and flags instead of copies of their body.
"""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from sparkcep.compiler.pattern import program as p
from sparkcep.errors import LIMIT, ClauseError
from sparkcep.plan.facts import first_variables, nullable, straight
from sparkcep.plan.records import Repeat

MAX_REGISTER_BITS = 62
MAX_INSTRUCTIONS = 100_000


def compile_pattern(
    tree: tuple, variables: tuple[str, ...], *, runs: bool = True, windows: int = 0, next_match: bool = False,
    whole_orders: bool = False, copies: bool = False,
) -> p.Program:
    """Compiles a pattern tree (:mod:`sparkcep.plan.records`).

    Args:
        tree: the pattern.
        variables: names of the variables.
        runs: whether a quantified variable becomes one RUN instruction.
        windows: number of windows. Window 0 is that of the whole pattern.
        next_match: compile for SKIP TILL NEXT MATCH. PERMUTE then chooses its order before its first row, and the body of a
            ``*`` loop ends in a SPLIT of its own, which marks the end of an iteration.
        whole_orders: PERMUTE chooses its order before its first row also if each element takes one row.
        copies: with ``next_match``, each iteration that a quantifier's bounds count has instructions of its own.

    Raises:
        ClauseError: if the pattern needs too many instructions, or its nested bounds too many bits of state.
    """
    return _Compiler(variables, runs, windows, next_match, whole_orders or next_match, copies).run(tree)


class _Compiler:
    def __init__(self, variables: tuple[str, ...], with_runs: bool, windows: int, next_match: bool, whole_orders: bool, copies: bool) -> None:
        self.variables = variables
        self.with_runs = with_runs
        self.next_match = next_match
        self.whole_orders = whole_orders
        self.copies = copies
        self.again: dict[int, tuple[int, int]] = {}
        self.inside = 1 if windows else 0  # mask of the windows around the instruction
        self.windows: list[int] = []
        self.code: list[list[int]] = []
        self.loops: list[list[int]] = []
        self.perms: list[list[int]] = []
        self.targets: list[int] = []
        self.runs: list[list[int]] = []
        self.ands: list[tuple] = []
        self.sides = 0
        self.states = 0
        self.bits = 0
        self.window_bits = [1 << self._field(1) for _ in range(windows)]

    def run(self, tree: tuple) -> p.Program:
        self._emit_tree(tree, 0, 0)
        self._emit(p.MATCH)
        return p.Program(
            variables=self.variables,
            code=_array(self.code, 4),
            loops=_array(self.loops, 7),
            perms=_array(self.perms, 4),
            targets=np.array(self.targets, dtype=np.int64),
            runs=_array(self.runs, 6),
            states=self.states,
            register_bits=self.bits,
            first=first_variables(tree),
            nullable=nullable(tree),
            windows=tuple(self.windows),
            window_bits=tuple(self.window_bits),
            ands=tuple(self.ands),
            again=MappingProxyType(self.again),
        )

    def _emit(self, op: int, a: int = 0, b: int = 0, c: int = 0) -> int:
        if len(self.code) >= MAX_INSTRUCTIONS:
            raise ClauseError("PATTERN_TOO_LARGE", f"the pattern needs more than {MAX_INSTRUCTIONS} instructions", sqlstate=LIMIT)
        self.code.append([op, a, b, c])
        self.windows.append(self.inside)
        return len(self.code) - 1

    def _state(self) -> int:
        self.states += 1
        return self.states - 1

    def _field(self, width: int) -> int:
        shift = self.bits
        self.bits += width
        if self.bits > MAX_REGISTER_BITS:
            raise ClauseError(
                "PATTERN_TOO_COMPLEX",
                f"nested bounded quantifiers and permutations of this pattern need more than {MAX_REGISTER_BITS} bits of state; "
                "use smaller bounds, or + and * instead",
                sqlstate=LIMIT,
            )
        return shift

    def _emit_tree(self, tree: tuple, flags: int, excluded: int) -> None:
        kind = tree[0]
        if kind == "var":
            self._emit(p.CHAR, tree[1], excluded, flags)
        elif kind == "start":
            self._emit(p.START)
        elif kind == "end":
            self._emit(p.END)
        elif kind == "cat":
            for item in tree[1:]:
                self._emit_tree(item, flags, excluded)
        elif kind == "alt":
            self._alternate(tree[1:], flags, excluded)
        elif kind == "exclude":
            self._emit_tree(tree[1], flags, 1)
        elif kind == "permute":
            self._permute(tree[1:], flags, excluded)
        elif kind == "repeat":
            self._repeat(tree, flags, excluded)
        elif kind == "not":
            self._emit(p.NOT, tree[1])
        elif kind == "and":
            self._conjoin(tree[1:], flags, excluded)
        elif kind == "within":
            around, self.inside = self.inside, self.inside | 1 << tree.window
            self._emit(p.GROUP, tree.window)
            self._emit_tree(tree.item, flags, excluded)
            self.inside = around
        elif kind != "empty":
            raise ValueError(kind)

    def _alternate(self, items: tuple, flags: int, excluded: int) -> None:
        jumps = []
        for item in items[:-1]:
            split = self._emit(p.SPLIT, 0, 0, self._state())
            self.code[split][1] = len(self.code)
            self._emit_tree(item, flags, excluded)
            jumps.append(self._emit(p.JUMP))
            self.code[split][2] = len(self.code)
        self._emit_tree(items[-1], flags, excluded)
        for jump in jumps:
            self.code[jump][1] = len(self.code)

    def _conjoin(self, items: tuple, flags: int, excluded: int) -> None:
        number, inside = len(self.ands), self.inside
        self.ands.append(())
        self._emit(p.AND, number)
        sides = []
        for item in items:
            self.sides += 1
            sides.append((self.sides, len(self.code)))
            self._emit_tree(item, flags, excluded)
            self._emit(p.JOIN)
        self.ands[number] = (len(self.code), tuple(sides), inside)

    def _split(self, body: int, leave: int, greedy: bool, at: int | None = None) -> None:
        operands = (body, leave) if greedy else (leave, body)
        if at is None:
            self._emit(p.SPLIT, *operands, self._state())
        else:
            self.code[at][1:3] = operands

    def _lead_back(self, body: int, greedy: bool) -> None:
        """Emits the end of a loop's body: repeat the body or leave the loop."""
        self.again[len(self.code)] = body, len(self.code)
        self._split(body, len(self.code) + 1, greedy)

    def _repeat(self, tree: Repeat, flags: int, excluded: int) -> None:
        item, low, high, greedy = tree.item, tree.low, tree.high, tree.greedy
        if (low, high) == (1, 1):
            self._emit_tree(item, flags, excluded)
            return
        inner, inside = (item[1], 1) if item[0] == "exclude" else (item, excluded)
        if inner[0] == "var" and self.with_runs:
            self.runs.append([inner[1], inside, flags, low, -1 if high is None else high, int(greedy)])
            self._emit(p.RUN, len(self.runs) - 1, 0, self._state())
            return
        if self.copies and (high is not None or low > 1):
            self._copied(tree, flags, excluded)
            return
        empty = nullable(item)
        if (low, high) == (0, 1) or ((low, high) == (0, None) and not empty):
            split = self._emit(p.SPLIT, 0, 0, self._state())
            self._emit_tree(item, flags, excluded)
            if high is None and self.next_match:
                self._lead_back(split + 1, greedy)
            elif high is None:
                self._emit(p.JUMP, split)
            self._split(split + 1, len(self.code), greedy, split)
            return
        if (low, high) == (1, None) and not empty:
            body = len(self.code)
            self._emit_tree(item, flags, excluded)
            self._lead_back(body, greedy)
            return
        cap = low if high is None else high
        width = cap.bit_length()
        shift = self._field(width)
        flag = 0
        if empty:
            flag = 1 << self._field(1)
        loop = len(self.loops)
        mask = ((1 << width) - 1) << shift
        self.loops.append([low, -1 if high is None else high, int(greedy), shift, mask, cap, flag])
        self._emit(p.INIT, loop)
        at = self._emit(p.LOOP, loop, 0, self._state())
        self._emit_tree(item, flags | flag, excluded)
        self._emit(p.NEXT, loop, at)
        self.code[at][2] = len(self.code)

    def _copied(self, tree: Repeat, flags: int, excluded: int) -> None:
        """Emits a copy of the item for each counted iteration.

        A SPLIT before each copy but the first marks the end of an iteration.
        """
        item, low, high, greedy = tree.item, tree.low, tree.high, tree.greedy
        splits = []
        for number in range(low if high is None else high):
            at = self._emit(p.SPLIT, len(self.code) + 1, len(self.code) + 1, self._state()) if number or number >= low else -1
            splits += [at] if number >= low else []
            unbounded = high is None and number == low - 1
            self._emit_tree(tree._replace(low=1) if unbounded else item, flags, excluded)
            if number:
                self.again[at] = at + 1, len(self.code)
        for at in splits:
            self._split(at + 1, len(self.code), greedy, at)

    def _permute(self, items: tuple, flags: int, excluded: int) -> None:
        width = 0 if all(map(straight, items)) and not self.whole_orders else len(items).bit_length()
        shift = self._field(len(items) * (1 + width))
        perm, first = len(self.perms), len(self.targets)
        self.perms.append([shift, len(items), first, width])
        self.targets.extend([0] * len(items))
        self._emit(p.PINIT, perm)
        at = self._emit(p.PERM, perm, 0, self._state())
        for i, item in enumerate(items):
            self.targets[first + i] = len(self.code)
            self._emit_tree(item, flags, excluded)
            self._emit(p.JUMP, at)
        self.code[at][2] = len(self.code)


def _array(rows: list[list[int]], width: int) -> np.ndarray:
    return np.array(rows, dtype=np.int64).reshape(len(rows), width)
