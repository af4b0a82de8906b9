"""Random clauses with APPROX and a conjunction, what the oracle says of their partitions, and what the engine gives back."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction

from sparkcep.clause.parser import parse_clause
from sparkcep.errors import ClauseError
from sparkcep.plan.build import make_plan
from tests.oracle import pattern
from tests.oracle.approx import cost_of_nothing
from tests.oracle.approx_sides import Conjoined
from tests.oracle.selection import ANY, Budget, _contains
from tests.property.approx import approx_cases
from tests.property.approx.approx_cases import ALL, PROXY, Case

NAMES = ("A", "B", "C", "D")


def random_case(rng) -> Case:
    """A clause whose pattern is a conjunction, and that mostly matches something now and then."""
    while True:
        case = _random_case(rng)
        if case is None or _refused(case):
            continue
        try:
            samples = [expected(case, rows) for rows in approx_cases.partitions(rng, case, 4)]
        except Budget:
            continue
        if sum(map(bool, samples)) >= 2 or rng.random() < 0.2:
            return case


def _refused(case: Case) -> bool:
    """Whether a condition looks up labels or distinct values, which a conjunction does not allow.

    A condition with CLASSIFIER() is refused, too: a row of two sides has two labels, and the text does not say which of them it is.
    """
    if any(_contains(condition, "classifier") for condition in case.defines.values()):
        return True
    try:
        make_plan(parse_clause(case.to_sql()))
    except ClauseError as error:
        return error.error_class == "SPARKCEP.CONJUNCTION"
    return False


def _random_case(rng) -> Case | None:
    sides, negated = [], []
    for number in range(rng.choice([2, 2, 2, 3])):
        names = list(rng.choice([NAMES[:2], NAMES[2:], NAMES])) if rng.random() < 0.4 else [NAMES[number], NAMES[number + 1]] if rng.random() < 0.3 else [NAMES[number]]
        shape = rng.choice(["letters", "letters", "plain", "negation"])
        p = {"letters": approx_cases._letters, "plain": approx_cases._plain}.get(shape, approx_cases._letters)(rng, names)
        if shape == "negation":
            parts = [*p[1]]
            parts.insert(rng.randrange(len(parts) + 1), ("neg", rng.choice(["M", "N"])))
            p = ("cat", parts)
        sides.append(approx_cases._anchored(rng, p) if rng.random() < 0.08 else p)
    p = ("and", sides)
    if approx_cases._occurrences(p) > 6 or pattern.contains(p, ("excl",)):
        return None
    negated = [v for v in pattern.variables(p) if v in ("M", "N")]
    positive = [v for v in pattern.variables(p) if v not in negated]
    once = {v for v in positive if sum(v in pattern.variables(side) for side in sides) == 1}
    subsets = {"S": tuple(sorted(rng.sample(positive, min(len(positive), 2))))} if rng.random() < 0.25 else {}
    defines = {}
    for name in [*positive, *negated]:
        if rng.random() < 0.93:
            shape = "letters" if name in once or name in negated else "negation"  # PRIOR only where one side has the variable
            defines[name] = approx_cases._define(rng, name, positive, tuple(subsets), shape, negated=name in negated or name not in once)
    weights = {name: rng.choice(approx_cases._WEIGHTS) for name in positive if rng.random() < 0.2}
    weights |= {f"~{name}": rng.choice(["0.5", "1", "1.25"]) for name in negated if rng.random() < 0.6}
    bound = cost_of_nothing(p, {name: Fraction(weight) for name, weight in weights.items()})
    choices = [k for k in approx_cases._ERRORS if Fraction(k) < bound]
    if not choices:
        return None
    window = None
    if negated or rng.random() < 0.5:
        window = ("rows", rng.randrange(2, 6)) if rng.random() < 0.4 else ("range", rng.randrange(2, 7))
    report = rng.choice([ALL, ALL, PROXY])
    return Case(
        p, pattern.to_text(p, rng), defines, ANY, rng.choice(choices), weights, window, subsets, report, rng.choice([None, "SECOND"]), rng.random() < 0.2,
        False, rng.random() < 0.4, sizes=report == PROXY and rng.random() < 0.5,
    )  # fmt: skip


def expected(case, rows) -> list[tuple]:
    """The matches of a partition in their order: pairs, errors, missing variables, MATCH_COUNT()."""
    weights = {name: Fraction(weight) for name, weight in case.weights.items()}
    query = Conjoined(case.pattern, case.defines, Fraction(case.k), weights, case.window, case.subsets)
    times = [row["t"] for row in rows]
    everything = query.all_matches(rows, times)
    ends = Counter(match.last for match in everything)
    found = everything if case.report == ALL else query.proxies(rows, times)
    return [(match.pairs, match.error, match.missing, ends[match.last] if case.sizes else None, len({row for row, _ in match.pairs})) for match in found]


def seen(rows: list[dict]) -> list[tuple]:
    """The matches in the engine's output, by number."""
    found: dict[int, list[dict]] = {}
    for row in rows:
        found.setdefault(row["m"], []).append(row)
    assert list(found) == list(range(1, len(found) + 1)), list(found)
    return [
        (tuple((row["id"], row["label"]) for row in some), Fraction(str(some[0]["errors"])), tuple(json.loads(some[0]["missing"])), some[0].get("size"), some[0]["n"])
        for some in found.values()
    ]  # fmt: skip
