"""The one definition of what instructions do without a row (compiler/pattern/epsilon.py), against the exact search, which has its
own."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.pattern import program as p
from sparkcep.compiler.pattern.backtrack_compiler import compile_pattern
from sparkcep.compiler.pattern.epsilon import BEGIN, DONE, ELEMENT, LEAVE, ON, ROUND, choices, steps
from sparkcep.engine.factory import match_table
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import LETTERS
from tests.oracle import pattern
from tests.selection import first

NAMES = ("A", "B", "C")
DEFINE = "DEFINE A AS a = 1, B AS b = 1, C AS c = 1"


def listed(text: str) -> p.Program:
    plan = make_plan(parse_clause(f"MEASURES MATCH_NUMBER() AS n PATTERN ({text})"))
    return compile_pattern(plan.pattern, plan.variables, runs=False)


@pytest.mark.parametrize(
    ("text", "pc", "expected"),
    [
        ("A | B", 0, [(1, ON), (3, ON)]),
        ("A?? B", 0, [(2, ON), (1, ON)]),
        ("(A B){2,3}", 0, [(1, BEGIN)]),
        ("(A B){2,3}", 1, [(2, ROUND), (5, LEAVE)]),
        ("(A B){2,3}?", 1, [(5, LEAVE), (2, ROUND)]),
        ("(A B){2,3}", 4, [(1, DONE)]),
        ("PERMUTE(A, B) C", 1, [(2, ELEMENT), (4, ELEMENT + 1), (6, LEAVE)]),
        ("^ A", 0, [(1, ON)]),
    ],
)
def test_ways_of_an_instruction(text, pc, expected):
    assert choices(listed(text), pc) == expected


def test_registers_allow_a_round_or_the_end_of_a_loop():
    program = listed("(A B){1,2}")
    assert steps(program, 1, 0, False) == [(2, 0)]  # none is done yet
    assert steps(program, 1, 1, False) == [(2, 1), (5, 0)]
    assert steps(program, 1, 2, False) == [(5, 0)]
    assert steps(program, 4, 1, False) == [(1, 2)]


def test_an_optional_round_without_a_row_ends_its_loop():
    program = listed("(A? B?){1,} C")
    at = next(pc for pc, op in enumerate(program.code[:, 0].tolist()) if op == p.NEXT)
    flag = int(program.loops[0, p.L_FLAG])
    loop, leave = program.code[at, 2], program.code[program.code[at, 2], 2]
    assert [pc for pc, _ in steps(program, at, 1, False)] == [leave]
    assert [pc for pc, _ in steps(program, at, 1 | flag, False)] == [loop]
    assert [pc for pc, _ in steps(program, at, 0, False)] == [loop]  # the first round must be


def first_match(program: p.Program, letters: list[int], start: int) -> list[str] | None:
    """The variables of the preferred match that begins at a row, by depth-first search over ``steps``."""
    stack: list[tuple] = [(0, 0, start, ())]
    seen = set()
    while stack:
        pc, regs, row, taken = stack.pop()
        if (pc, regs, row) in seen:
            continue
        seen.add((pc, regs, row))
        op, variable, _, flags = program.code[pc].tolist()
        if op == p.MATCH:
            return [program.variables[v] for v in taken]
        if op == p.CHAR:
            if row < len(letters) and letters[row] >> variable & 1:
                stack.append((pc + 1, regs | flags, row + 1, (*taken, variable)))
        elif not (op == p.START and row > 0) and not (op == p.END and row < len(letters)):
            stack += [(at, after, row, taken) for at, after in reversed(steps(program, pc, regs, False))]
    return None


def expected_rows(text: str, letters: list[int]) -> list[tuple[int, int, str | None]]:
    """(match number, row, variable) of every match, each behind the one before; an empty match has no variable."""
    plan = make_plan(parse_clause(f"ORDER BY i MEASURES MATCH_NUMBER() AS n PATTERN ({text}) {DEFINE}"))
    program = compile_pattern(plan.pattern, plan.variables, runs=False)
    rows, start, number = [], 0, 0
    while start < len(letters):
        # letters are bits in the order of NAMES, variables in the order of the pattern
        own = [sum(1 << v for v, name in enumerate(plan.variables) if mask >> NAMES.index(name) & 1) for mask in letters]
        found = first_match(program, own, start)
        if found is None:
            start += 1
            continue
        number += 1
        rows += [(number, start + i, name) for i, name in enumerate(found)] or [(number, start, None)]
        start += max(len(found), 1)
    return rows


def found_rows(text: str, letters: list[int]) -> list[tuple[int, int, str | None]]:
    plan = make_plan(parse_clause(f"ORDER BY i MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS v ALL ROWS PER MATCH PATTERN ({text}) {DEFINE}"))
    bits = {bit: NAMES.index(plan.variables[v]) for v, bit, _ in plan.letters}
    columns = {"i": pa.array(range(len(letters)), pa.int64())}
    columns |= {name: columns[sql] for name, sql in plan.inputs if sql in columns}
    columns[LETTERS] = pa.array([sum(1 << bit for bit, v in bits.items() if mask >> v & 1) for mask in letters], pa.int64())
    table = match_table(plan, pa.table(columns))
    leaves = {name: table[sql].to_pylist() for name, sql in plan.outputs}
    return list(zip(leaves["n"], table["i"].to_pylist(), leaves["v"], strict=True))


@pytest.mark.parametrize("seed", first(range(6), 2))
def test_the_exact_search_follows_them(seed):
    rng = random.Random(seed)
    matched = 0
    for _ in range(60):
        drawn = pattern.random_pattern(rng, list(NAMES), 3, exclude=False)
        text = pattern.to_text(drawn)
        if not all(name in text for name in NAMES):
            text = f"{text} (A | B | C)??"
        letters = [rng.choice([0, 1, 2, 4, 3, 5, 6, 7]) for _ in range(rng.randint(1, 9))]
        expected = expected_rows(text, letters)
        assert found_rows(text, letters) == expected, (text, letters)
        matched += len(expected) > 1
    assert matched > 20
