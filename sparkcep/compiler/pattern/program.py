"""Program: the compiled row pattern as read-only numpy arrays, run by the exact search and resolved into nets.

One instruction is one row of ``code`` (int64, n x 4): opcode and operands a, b, c.

========  ===========================================================================================
MATCH     the match is complete
CHAR      a = variable, b = 1 inside an exclusion, c = progress flags to raise: consume a row
SPLIT     prefer a, else b; c = state number for the memo
JUMP      to a
START     only at the partition's first row
END       only after the partition's last row
INIT      a = loop: its counter becomes 0
LOOP      a = loop, b = exit; body follows; c = state number
NEXT      a = loop, b = its LOOP: one iteration done
PINIT     a = permutation: no element done
PERM      a = permutation, b = exit, c = state number: try the elements not done yet, in list order
RUN       a = run, c = state number: a quantified variable, rows consumed in one go
GROUP     a = window: an occurrence of its group begins
NOT       a = variable: a negation at this place of the pattern
AND       a = conjunction: its sides begin, to be matched side by side
JOIN      the end of a side
========  ===========================================================================================

``PATTERN (A (B | C)+ C)``, compiled for event selection (without RUN)::

    0  CHAR  A
    1  SPLIT 2, 4    B is preferred to C
    2  CHAR  B
    3  JUMP  5
    4  CHAR  C
    5  SPLIT 1, 6    greedy: one more iteration is preferred
    6  CHAR  C
    7  MATCH

Counters, permutation sets and progress flags are bit fields of one int64 register word, so ``{n,m}`` is never unrolled
and PERMUTE never expanded. The progress flag of a loop with a nullable body says whether the current iteration has consumed a row.
An optional iteration without a row ends the loop.

A permutation whose elements have a choice (a quantifier, an alternation) fixes its whole order before its first row, in P_WIDTH
bits per element. Otherwise the search would not try all ways to match one order before the next order. Elements without a choice
match in one way only, so their order is found element by element (P_WIDTH is 0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

MATCH, CHAR, SPLIT, JUMP, START, END, INIT, LOOP, NEXT, PINIT, PERM, RUN, GROUP, NOT, AND, JOIN = range(16)
NAMES = ("MATCH", "CHAR", "SPLIT", "JUMP", "START", "END", "INIT", "LOOP", "NEXT", "PINIT", "PERM", "RUN", "GROUP", "NOT", "AND", "JOIN")

EXCLUDED = 64  # bit of a row's label: the row is inside an exclusion

# columns of ``loops``
L_MIN, L_MAX, L_GREEDY, L_SHIFT, L_MASK, L_CAP, L_FLAG = range(7)
# columns of ``runs``
R_VAR, R_EXCLUDED, R_FLAGS, R_MIN, R_MAX, R_GREEDY = range(6)
# columns of ``perms``
P_SHIFT, P_COUNT, P_TARGETS, P_WIDTH = range(4)


@dataclass(frozen=True)
class Program:
    """A compiled pattern. All arrays are int64.

    Attributes:
        variables: names of the variables.
        code: (n, 4), the instructions.
        loops: (loops, 7), one row for each loop with a counter.
        perms: (permutations, 4), one row for each PERMUTE.
        targets: the first instruction of each permutation element.
        runs: (runs, 6), one row for each RUN.
        states: number of memoised states.
        register_bits: number of register bits in use.
        first: mask of the variables that can begin a non-empty match.
        nullable: whether the empty sequence matches.
        windows: for each instruction, the mask of the windows around it.
        window_bits: for each window its register bit, which the first row of the window raises.
        ands: for each conjunction the next instruction, the (number, first instruction) of each side, and the windows around it.
        again: maps each SPLIT at the end of an iteration that may repeat to the first instruction of the next iteration and the
            instruction where that one ends.
    """

    variables: tuple[str, ...]
    code: np.ndarray
    loops: np.ndarray
    perms: np.ndarray
    targets: np.ndarray
    runs: np.ndarray
    states: int
    register_bits: int
    first: int
    nullable: bool
    windows: tuple[int, ...] = ()
    window_bits: tuple[int, ...] = ()
    ands: tuple[tuple, ...] = ()
    again: Mapping[int, tuple[int, int]] = field(default_factory=lambda: MappingProxyType({}))

    def dump(self) -> str:
        """A numbered listing, one instruction per line."""
        lines = []
        for pc, (op, a, b, c) in enumerate(self.code.tolist()):
            lines.append(f"{pc:4d}  {NAMES[op]:<6}{self._operands(op, a, b, c)}".rstrip())
        return "\n".join(lines)

    def _operands(self, op: int, a: int, b: int, c: int) -> str:
        if op == CHAR:
            return self.variables[a] + (" excluded" if b else "")
        if op == SPLIT:
            return f"{a}, {b}"
        if op == JUMP:
            return str(a)
        if op == GROUP:
            return f"window {a}"
        if op == AND:
            after, sides, _ = self.ands[a]
            return f"sides at {', '.join(str(at) for _, at in sides)}, then {after}"
        if op == NOT:
            return self.variables[a]
        if op in (INIT, LOOP):
            low, high, greedy, *_ = self.loops[a].tolist()
            if op == INIT:
                return f"loop {a}"
            return f"loop {a} {{{low},{'' if high < 0 else high}}}{'' if greedy else '?'} exit {b}"
        if op == NEXT:
            return f"loop {a} at {b}"
        if op == RUN:
            variable, excluded, _, low, high, greedy = self.runs[a].tolist()
            bounds = f"{{{low},{'' if high < 0 else high}}}{'' if greedy else '?'}"
            return self.variables[variable] + bounds + (" excluded" if excluded else "")
        if op == PINIT:
            return f"permutation {a}"
        if op == PERM:
            _, count, at, _ = self.perms[a].tolist()
            return f"permutation {a} of {self.targets[at : at + count].tolist()} exit {b}"
        return ""
