"""Epsilon steps: the effect of instructions that take no row. This is their only definition besides kernels/match/backtrack.py.

:func:`choices` lists where an instruction leads, in preference order, for any register word. :func:`steps` keeps the ways that a
given register word allows. The net builders follow :func:`steps`. The pictures (draw/automata.py) use :func:`choices` to show what
each way asks of the counters.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from sparkcep.compiler.pattern import program as p
from sparkcep.errors import LIMIT, ClauseError

Item = TypeVar("Item")
MAX_CHOICES = 100_000  # at one row
MAX_CHOICES_OF_NET = 300_000

# The effect of a way on the registers of its loop or permutation: none; one more iteration of a loop, or its exit; the start of
# a loop or permutation, or a finished iteration; element n of a permutation (ELEMENT + n).
ON, ROUND, LEAVE, BEGIN, DONE, ELEMENT = range(6)


def too_complex(message: str, line: int = 0, column: int = 0, text: str = "") -> ClauseError:
    """The error for a pattern that needs more states than the limits allow, at the pattern's place."""
    return ClauseError("PATTERN_TOO_COMPLEX", message, sqlstate=LIMIT, line=line, column=column, fragment=text)


class StepCounter:
    """Counts the epsilon steps that building a net takes, so that no pattern keeps a builder busy for long."""

    def __init__(self) -> None:
        self._at_row = 0
        self._of_net = 0

    def begin(self) -> None:
        """Begins the ways from another state."""
        self._at_row = 0

    def count(self, steps: int = 1) -> None:
        """Counts steps. Raises ClauseError beyond ``MAX_CHOICES`` steps from one state, or ``MAX_CHOICES_OF_NET`` in all."""
        self._at_row += steps
        self._of_net += steps
        at_row = self._at_row > MAX_CHOICES
        if at_row or self._of_net > MAX_CHOICES_OF_NET:
            place = " at one row" if at_row else ""
            raise too_complex(f"this pattern has too many choices{place}; use smaller bounds, or fewer optional parts in a repeated group")


def visit(starts: Iterable[tuple], follow: Callable[[tuple], Iterable[tuple]], counter: StepCounter) -> None:
    """Visits items and everything reachable from them, depth first and each item once.

    ``follow`` returns the successors of an item in preference order. Raises ClauseError if there are too many items.
    """
    counter.begin()
    seen = set()
    stack = list(reversed(list(starts)))
    while stack:
        item = stack.pop()
        if item in seen:
            continue
        seen.add(item)
        counter.count()
        stack.extend(reversed(list(follow(item))))


def cheapest(
    begin: Item, bound: int, ranked: Callable[[Item], tuple[Hashable, tuple]], ends: Callable[[Item], bool], follow: Callable[[Item], list[Item]], counter: StepCounter,
) -> list[Item]:  # fmt: skip
    """Returns the items that can be reached and that end a way, in preference order, each place at its least rank.

    ``ranked`` returns the place of an item and its rank, which begins with its cost. ``bound`` is the largest cost. ``follow``
    returns the successors of an item in preference order. The counter raises ClauseError if there are too many items.
    """
    out, best, stack = {}, {}, [begin]
    counter.begin()
    while stack:
        item = stack.pop()
        place, rank = ranked(item)
        if best.get(place, (bound + 1,)) <= rank:
            continue
        best[place] = rank
        counter.count()
        if ends(item):
            out.pop(place, None)
            out[place] = item
        stack += reversed(follow(item))
    return list(out.values())


def landing(program: p.Program, pc: int) -> int:
    """The instruction that a chain of jumps from ``pc`` leads to. Equal futures thus become one node."""
    while program.code[pc, 0] == p.JUMP:
        pc = int(program.code[pc, 1])
    return pc


def choices(program: p.Program, pc: int) -> list[tuple[int, int]]:
    """The (instruction, effect on the registers) of each way from an instruction that takes no row, in preference order."""
    op, a, b, _ = program.code[pc].tolist()
    if op == p.SPLIT:
        return [(a, ON), (b, ON)]
    if op == p.JUMP:
        return [(a, ON)]
    if op in (p.INIT, p.PINIT):
        return [(pc + 1, BEGIN)]
    if op == p.NEXT:
        return [(b, DONE)]
    if op == p.LOOP:
        ways = [(pc + 1, ROUND), (b, LEAVE)]
        return ways if program.loops[a, p.L_GREEDY] else ways[::-1]
    if op == p.PERM:
        _, count, first, _ = program.perms[a].tolist()
        return [*((target, ELEMENT + i) for i, target in enumerate(program.targets[first : first + count].tolist())), (b, LEAVE)]
    return [(pc + 1, ON)]


def steps(program: p.Program, pc: int, regs: int, merge: bool) -> list[tuple[int, int]]:
    """The (instruction, registers) pairs one epsilon step leads to, in preference order, exactly as in the exact search.

    ``merge``: the orders of a permutation need not be distinguished.
    """
    op, a, _, _ = program.code[pc].tolist()
    if op == p.PERM and program.perms[a, p.P_WIDTH] and not merge:
        return _ordered(program, pc, regs)
    if op == p.GROUP:
        return [(pc + 1, regs & ~program.window_bits[a])]
    after = _permuted if op in (p.PINIT, p.PERM) else _looped if op in (p.INIT, p.LOOP, p.NEXT) else None
    if after is None:
        return [(target, regs) for target, _ in choices(program, pc)]
    found = (after(program, pc, target, what, regs) for target, what in choices(program, pc))
    return [way for way in found if way is not None]


def begins_again(program: p.Program, pc: int, regs: int, counter: StepCounter) -> frozenset[tuple[int, int]] | None:
    """The CHARs that may start a new iteration of the innermost part whose iteration ends here, as (instruction, registers).

    None if no iteration ends here, or if the part may not repeat. An iteration has ended only if nothing of it is left, not even an
    optional part. Negations, and permutation elements that are negations or empty, do not count as parts.

    Such a place is the state a[i] of SASE+ (SIGMOD 2008, section 3.2): there SKIP TILL NEXT ignores rows that are not an a[i].
    """
    while True:
        op = program.code[pc, 0]
        if pc in program.again:
            body, end = program.again[pc]
            return _beginning(program, (body, regs), end, counter)
        if op == p.NEXT:
            ((at, done),) = steps(program, pc, regs, False)
            for body, inside in steps(program, at, done, False):
                if body == at + 1:
                    return _beginning(program, (body, inside), pc, counter)
        elif op not in (p.JUMP, p.NOT, p.PERM, p.LOOP):
            return None
        ways = steps(program, pc, regs, False)
        if len(ways) != 1:
            return None
        pc, regs = ways[0]


def _beginning(program: p.Program, body: tuple[int, int], end: int, counter: StepCounter) -> frozenset[tuple[int, int]]:
    """The CHARs that can begin a loop's body. The body ends at the instruction ``end``."""
    found = set()

    def follow(way: tuple[int, int]) -> list[tuple[int, int]]:
        pc, regs = way
        op, a, _, _ = program.code[pc].tolist()
        if op == p.CHAR:
            found.add(way)
        if pc == end or op in (p.CHAR, p.MATCH, p.JOIN):
            return []
        if op == p.AND:
            return [(at, regs) for _, at in program.ands[a][1]]
        return [] if op == p.START else steps(program, pc, regs, False)

    visit([body], follow, counter)
    return frozenset(found)


def _looped(program: p.Program, pc: int, target: int, what: int, regs: int) -> tuple[int, int] | None:
    low, high, _, shift, mask, cap, flag = program.loops[program.code[pc, 1]].tolist()
    done = (regs & mask) >> shift
    if what == BEGIN:
        return target, regs & ~mask & ~flag
    if what == ROUND:
        return None if 0 <= high <= done else (target, regs & ~flag)
    if what == LEAVE:
        return None if done < low else (target, regs & ~mask & ~flag)
    if flag and not regs & flag and done >= low:  # an optional iteration without a row ends the loop
        return int(program.code[target, 2]), regs & ~mask
    return target, (regs & ~mask) | (min(done + 1, cap) << shift)


def _permuted(program: p.Program, pc: int, target: int, what: int, regs: int) -> tuple[int, int] | None:
    shift, count, _, width = program.perms[program.code[pc, 1]].tolist()
    every = ((1 << count) - 1) << shift
    if what == BEGIN:
        return target, regs & ~(((1 << (count * (1 + width))) - 1) << shift)
    if what == LEAVE:
        return (target, regs & ~every) if regs & every == every else None
    bit = 1 << (shift + what - ELEMENT)
    return None if regs & bit else (target, regs | bit)


def _ordered(program: p.Program, pc: int, regs: int) -> list[tuple[int, int]]:
    """The ways of a permutation that fixes its whole order before its first row."""
    _, a, leave, _ = program.code[pc].tolist()
    shift, count, first, width = program.perms[a].tolist()
    free = [i for i in range(count) if not regs >> (shift + i) & 1]
    if free:
        done = count - len(free)
        return [(pc, regs | 1 << (shift + i) | (i + 1) << (shift + count + done * width)) for i in free]
    digits = ((1 << (count * width)) - 1) << (shift + count)
    order = (regs & digits) >> (shift + count)
    cleared = regs & ~digits & ~(((1 << count) - 1) << shift)
    if order == 0:
        return [(leave, cleared)]
    element = (order & ((1 << width) - 1)) - 1
    rest = cleared | ((1 << count) - 1) << shift | (order >> width) << (shift + count)
    return [(int(program.targets[first + element]), rest)]
