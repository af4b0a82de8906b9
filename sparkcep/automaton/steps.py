"""Steps of a program that consume no row, as the builders of selection automata resolve them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sparkcep.automaton import program as p
from sparkcep.errors import LIMIT, ClauseError

MAX_CHOICES = 100_000


def too_complex(message: str, line: int = 0, column: int = 0, text: str = "") -> ClauseError:
    """The pattern, which stands there, needs more states than the bounds allow."""
    return ClauseError("PATTERN_TOO_COMPLEX", message, sqlstate=LIMIT, line=line, column=column, fragment=text)


def visit(start: tuple, follow: Callable[[tuple], Iterable[tuple]]) -> None:
    """Follows an item and all that it leads to, each once, depth first: ``follow`` gives what one leads to, in preference order."""
    stack, seen = [start], set()
    while stack:
        item = stack.pop()
        if item in seen:
            continue
        seen.add(item)
        if len(seen) > MAX_CHOICES:
            raise too_complex("this pattern has too many choices at one row")
        stack.extend(reversed(list(follow(item))))


def landing(program: p.Program, pc: int) -> int:
    """The instruction that jumps from ``pc`` on lead to; so that equal futures are one node."""
    while program.code[pc, 0] == p.JUMP:
        pc = int(program.code[pc, 1])
    return pc


def steps(program: p.Program, pc: int, regs: int, merge: bool) -> list[tuple[int, int]]:
    """(instruction, registers) an instruction without a row leads to, in preference order; as the kernel of the exact engine
    does it. ``merge``: the orders of a permutation need not be told apart."""
    op, a, b, _ = program.code[pc].tolist()
    if op == p.SPLIT:
        return [(a, regs), (b, regs)]
    if op == p.JUMP:
        return [(a, regs)]
    if op in (p.INIT, p.LOOP, p.NEXT):
        return [_loop(program, op, pc, regs)] if op != p.LOOP else _choices(program, pc, regs)
    shift, count, first, width = program.perms[a].tolist()
    used = ((1 << (count * (1 + width))) - 1) << shift
    if op == p.PINIT:
        return [(pc + 1, regs & ~used)]
    return _permutation(program, pc, regs, merge)


def _loop(program: p.Program, op: int, pc: int, regs: int) -> tuple[int, int]:
    _, a, b, _ = program.code[pc].tolist()
    low, _, _, shift, mask, cap, flag = program.loops[a].tolist()
    if op == p.INIT:
        return pc + 1, regs & ~mask & ~flag
    done = (regs & mask) >> shift
    optional = done >= low
    regs = (regs & ~mask) | (min(done + 1, cap) << shift)
    if flag and not regs & flag and optional:
        return int(program.code[b][2]), regs & ~mask
    return b, regs


def _choices(program: p.Program, pc: int, regs: int) -> list[tuple[int, int]]:
    _, a, b, _ = program.code[pc].tolist()
    low, high, greedy, shift, mask, _, flag = program.loops[a].tolist()
    done = (regs & mask) >> shift
    inside, outside = (pc + 1, regs & ~flag), (b, regs & ~mask & ~flag)
    if done < low:
        return [inside]
    if 0 <= high <= done:
        return [outside]
    return [inside, outside] if greedy else [outside, inside]


def _permutation(program: p.Program, pc: int, regs: int, merge: bool) -> list[tuple[int, int]]:
    _, a, leave, _ = program.code[pc].tolist()
    shift, count, first, width = program.perms[a].tolist()
    targets = program.targets.tolist()
    free = [i for i in range(count) if not regs >> (shift + i) & 1]
    if width == 0 or merge:
        if not free:
            return [(leave, regs & ~(((1 << count) - 1) << shift))]
        return [(targets[first + i], regs | 1 << (shift + i)) for i in free]
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
    return [(targets[first + element], rest)]
