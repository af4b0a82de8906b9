"""What the rule RELUCTANT_END says is so: a quantifier it finds, written with its lower bound alone, gives the same matches."""

from __future__ import annotations

import dataclasses
from random import Random

import pytest

from sparkcep.clause import nodes
from sparkcep.clause.parser import parse_clause
from sparkcep.clause.printer import to_text
from sparkcep.tools.lint import RULES
from tests.oracle import pattern as oracle
from tests.property.in_process import run
from tests.selection import first

HEAD = "PARTITION BY p ORDER BY id MEASURES classifier() AS c, match_number() AS n ALL ROWS PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN ("
DEFINES = {"A": "v > 1", "B": "v < 3", "C": "v <> PREV(v)"}


def fewest(node: nodes.Node, found: set[tuple[int, int]]) -> nodes.Node:
    """``node`` with the quantifiers at the places ``found`` cut down to their lower bound."""
    if isinstance(node, nodes.Repeat) and (node.span.start, node.span.end) in found:
        if node.min == 0:
            return nodes.Empty()
        return nodes.Repeat(fewest(node.item, found), node.min, node.min, True)
    if isinstance(node, nodes._Many):
        return dataclasses.replace(node, items=tuple(fewest(i, found) for i in node.items))
    if isinstance(node, nodes._One):
        return dataclasses.replace(node, item=fewest(node.item, found))
    return node


def text(pattern: str) -> str:
    """The whole clause, with the definitions of the variables that are there."""
    used = [f"{name} AS {condition}" for name, condition in DEFINES.items() if name in pattern.replace("PERMUTE", "")]
    return f"{HEAD}{pattern}) {'DEFINE ' if used else ''}{', '.join(used)}"


@pytest.mark.parametrize("start", first(range(0, 4000, 100), wider=3))
def test_quantifiers_that_are_found_take_the_fewest_rows(start):
    compared = 0
    for seed in range(start, start + 100):
        rng = Random(seed)
        pattern = oracle.to_text(oracle.random_pattern(rng, list(DEFINES), 3), rng)
        clause = parse_clause(text(pattern))
        found = {(span.start, span.end) for span, _ in RULES["RELUCTANT_END"].check(clause) if span}
        shorter = to_text(fewest(clause.pattern, found), clause.text)
        if not found or not any(name in shorter.replace("PERMUTE", "") for name in DEFINES):
            continue
        rows = {k: [{"id": i, "v": rng.randint(0, 4), "w": 0, "s": "x"} for i in range(rng.randint(1, 12))] for k in range(3)}
        assert run(text(pattern), rows) == run(text(shorter), rows), (seed, pattern, shorter)
        compared += 1
    assert compared > 4
