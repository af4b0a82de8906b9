"""PREF over the branches of alternations: the score of each match, and the best ones, against all matches of a brute force."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from fractions import Fraction

import pytest

from tests.oracle.pattern import to_text
from tests.oracle.ranking import alternatives, score_of_branches, standing
from tests.selection import first

PARTITIONS, CLAUSES = 16, 5
COMBINED = ("SUM", "SUM", "AVG", "MIN", "MAX", "PRODUCT")


def random_pattern(rng: random.Random) -> tuple:
    """Variables in sequences around one or two alternations, of which one may be inside the other."""
    names = list("ABCDEFG")

    def sequence(most: int) -> tuple:
        parts = [("var", names.pop(0)) for _ in range(rng.randint(1, most))]
        return parts[0] if len(parts) == 1 else ("cat", parts)

    branches = [sequence(2) for _ in range(rng.choice([2, 2, 3]))]
    if rng.random() < 0.3 and len(names) > 2:
        branches[0] = ("cat", [branches[0], ("alt", [sequence(1), sequence(1)])])
    parts: list[tuple] = [("alt", branches)]
    if names and rng.random() < 0.5:
        parts.insert(rng.choice([0, 1]), sequence(1))
    elif len(names) > 1 and rng.random() < 0.4:
        parts.append(("alt", [sequence(1), sequence(1)]))
    if names and rng.random() < 0.2:
        parts.append(("rep", sequence(1), 0, 1, True))
    return parts[0] if len(parts) == 1 else ("cat", parts)


def random_objectives(rng: random.Random, pattern: tuple) -> list[tuple[str, tuple, str]]:
    """(MAX or MIN, variables that are needed, operator) of each objective, none of which needs two branches of one alternation."""
    found, branches = [], [tuple(names) for names, _ in alternatives(pattern)]
    everything = standing(pattern)
    for names in [*branches, rng.sample(everything, 1)]:
        if rng.random() < 0.8:
            some = rng.sample(names, rng.randint(1, len(names)))
            if not any(has_both(pattern, a, b) for a, b in itertools.combinations(some, 2)):
                found.append((rng.choice(["MAX", "MAX", "MIN"]), tuple(some), rng.choice("+++-*")))
    return found[:4] or [("MAX", (everything[0],), "+")]


def has_both(pattern: tuple, a: str, b: str) -> bool:
    """Whether two variables stand in different branches of one alternation."""
    if pattern[0] == "var":
        return False
    parts = pattern[1] if isinstance(pattern[1], list) else [pattern[1]]
    apart = pattern[0] == "alt" and not any(a in standing(part) and b in standing(part) for part in parts)
    return (apart and a in standing(pattern) and b in standing(pattern)) or any(has_both(part, a, b) for part in parts)


def matches(pattern: tuple, rows: list) -> set[tuple]:
    """((position, variable), ...) of every match, rows passed over at will."""

    def go(part: tuple, at: int):
        if part[0] == "var":
            yield from (((i, part[1]),) for i in range(at, len(rows)) if rows[i][1] == part[1].lower())
        elif part[0] == "rep":
            yield ()
            yield from go(part[1], at)
        elif part[0] == "alt":
            for branch in part[1]:
                yield from go(branch, at)
        else:
            yield from sequence(part[1], at)

    def sequence(parts: list, at: int):
        if not parts:
            yield ()
            return
        for begun in go(parts[0], at):
            yield from (begun + rest for rest in sequence(parts[1:], begun[-1][0] + 1 if begun else at))

    return {found for found in go(pattern, 0) if found}


def score(pattern: tuple, objectives: list, combine: str, match: tuple, rows: list):
    taken = defaultdict(list)
    for at, name in match:
        taken[name].append(rows[at][2])
    valued = []
    for goal, needed, operator in objectives:
        values = [taken[name][-1] if taken[name] else None for name in needed]
        whole = values[0]
        for value in values[1:]:
            whole = None if whole is None or value is None else whole + value if operator == "+" else whole - value if operator == "-" else whole * value
        valued.append((goal, needed, None if whole is None else Fraction(whole)))
    return score_of_branches(pattern, valued, combine, taken)


@pytest.mark.parametrize("seed", first(range(12), wider=1))
def test_scores_and_the_best(spark, seed):
    rng = random.Random(seed)
    values = [None, *range(-3, 4), *range(4)]
    table = {part: [(i, rng.choice("aaabbbcccddefg"), rng.choice(values)) for i in range(rng.randint(3, 9))] for part in range(PARTITIONS)}
    rows = [(part, *row) for part, some in table.items() for row in some]
    spark.createDataFrame(rows, "p INT, i INT, l STRING, v INT").createOrReplaceTempView("of_branches")
    clauses, expected, branched = [], defaultdict(list), 0
    for number in range(CLAUSES):
        pattern = random_pattern(rng)
        objectives = random_objectives(rng, pattern)
        combine = rng.choice(COMBINED)
        if combine == "PRODUCT":
            objectives = [("MAX", *rest) for _, *rest in objectives]
        top = rng.choice([None, 1, 2, 5])
        branched += len(objectives) > 1
        preference = " AND ".join(f"{goal} ({f' {op} '.join(f'{name}.v' for name in names)})" for goal, names, op in objectives)
        defines = ", ".join(f"{name} AS l = '{name.lower()}'" for name in sorted(set(standing(pattern))))
        clauses.append(
            f"SELECT {number} AS q, p, CAST(s AS DOUBLE) AS s, {'r' if top else '0'} AS r, ids, ls FROM of_branches MATCH_RECOGNIZE (PARTITION BY p ORDER BY i "
            f"MEASURES MATCH_SCORE() AS s, {'MATCH_RANK() AS r,' if top else ''} array_agg(i) AS ids, array_join(array_agg(CLASSIFIER()), '') AS ls "
            f"EVENT SELECTION SKIP TILL ANY MATCH {'' if top else 'ALL MATCHES'} PATTERN ({to_text(pattern)}) "
            f"PREF {preference} COMBINE BY {combine} {f'TOP {top}' if top else ''} DEFINE {defines})"
        )
        for part, some in table.items():
            found = [(score(pattern, objectives, combine, match, some), match) for match in matches(pattern, some)]
            ranked = sorted(found, key=lambda one: (one[0] is None, 0 if one[0] is None else -one[0], [at for at, _ in one[1]]))
            for rank, (value, match) in enumerate(ranked[:top] if top else ranked, 1):
                expected[number, part].append((None if value is None else float(value), rank if top else 0, *zip(*match)))
    given = defaultdict(list)
    for q, p, s, r, ids, ls in spark.sql(" UNION ALL ".join(clauses)).collect():
        given[q, p].append((s, r, tuple(ids), tuple(ls)))
    for key in expected.keys() | given.keys():
        assert sorted(given[key], key=str) == sorted(expected[key], key=str), (clauses[key[0]], table[key[1]])
    assert branched > 1 and sum(len(some) for some in expected.values()) > 20
    assert any(one[0] is not None for some in expected.values() for one in some)
