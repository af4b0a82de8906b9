"""If a trace needs more steps than allowed, sparkcep.why says so, and still nothing that the engine's matches contradict."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.settings import DEFAULT
from sparkcep.tracing.answers.explain import Asked, explain
from sparkcep.tracing.answers.overall import overall
from sparkcep.tracing.answers.values import row_spans
from sparkcep.tracing.conditions.question import question_of
from sparkcep.tracing.rows.frozen import FrozenRows
from sparkcep.tracing.rows.sides import has_sides
from tests.oracle import selection
from tests.property.tracing.why_cases import frozen
from tests.property.tracing.why_selection import BUDGET, NEGATED, PLAIN, SETTINGS, SIDED, random_rows
from tests.selection import first
from tests.support.why_examples import totals

CLAUSES, SIDED_CLAUSES = 9, 3  # per seed
UNANSWERED = "is not answered."


def check(rows: FrozenRows, max_steps: int, counts: Counter) -> None:
    """Checks the answers about each row, the first and the last match, and the table."""
    matches = rows.matches()
    with_rows = [(number, match) for number, match in enumerate(matches, 1) if match.rows]
    names = {rows.question.name(variable) for _, match in with_rows for variable in match.variables}
    is_sided = has_sides(rows.question.plan)
    for row in range(rows.count):
        why = explain(rows, Asked((row,)), max_steps=max_steps)
        counts["efforts"] += any(reason.reason == "EFFORT" for reason in why.reasons)
        if why.verdict.endswith(UNANSWERED):
            counts["rows without an answer"] += 1
            continue
        inside = {number for number, match in with_rows if row in match.rows}
        named = {int(number) for number in re.findall(r"match (\d+) as ", why.verdict)}
        assert named <= inside and bool(named) == bool(inside), (row, str(why), matches)
        counts["rows"] += 1
        for variable in () if is_sided else names:
            found = explain(rows, Asked((row,), expect=variable), max_steps=max_steps).verdict
            taken = any((row, variable) in zip(match.rows, map(rows.question.name, match.variables), strict=True) for _, match in with_rows)
            assert found.endswith(UNANSWERED) or taken == found.endswith(f" is {variable}."), (row, found, matches)
    for number in sorted({1, len(matches)}) if matches else ():
        match = matches[number - 1]
        verdict = explain(rows, Asked(match=number), max_steps=max_steps).verdict
        takes = f" takes {row_spans(list(dict.fromkeys(match.rows)))}:" if match.rows else " is empty: "
        assert verdict.endswith(UNANSWERED) or takes in verdict, (number, verdict, matches)
        counts["matches without an answer"] += verdict.endswith(UNANSWERED)
        counts["matches"] += 1
        for row in range(rows.count):
            why = explain(rows, Asked((row,), match=number), max_steps=max_steps)
            assert (row in match.rows) == (f" is in match {number}" in why.verdict) or why.verdict.endswith(UNANSWERED), (row, str(why), matches)
    why = overall([rows], totals(rows), DEFAULT, words={}, max_steps=max_steps)
    ends = any(reason.reason == "EFFORT" for reason in why.reasons)
    assert why.verified and why.verdict.startswith("No match" if not matches else f"{len(matches):,} match"), (str(why), matches)
    assert ends == why.lines[1].startswith("Traces end after")
    counts["tables without all start rows"] += ends


def checked(seed: int, wanted: int, shapes: tuple[str, ...], counting: tuple[str, ...], **options: str) -> Counter:
    """Checks that many random clauses with few steps, and more until each of ``counting`` was counted."""
    rng, counts = random.Random(seed), Counter()
    while counts["cases"] < wanted or counts["cases"] < 20 * wanted and not all(counts[what] for what in counting):
        query, found = selection.random_query(rng, budget=BUDGET, shapes=shapes, **options), random_rows(rng)
        try:
            rows = frozen(question_of(parse_clause(query.to_sql()), SETTINGS), found)
            rows.matches()
        except (ClauseError, MatchRuntimeError):
            continue
        max_steps = rng.choice([1, 2, 3, 8, 20])
        try:
            check(rows, max_steps, counts)
        except AssertionError as error:
            raise AssertionError(f"{query.to_sql()}\n{found}\n{max_steps} steps: {error}") from error
        counts["cases"] += 1
    return counts


@pytest.mark.parametrize("report", [selection.FIRST, selection.ALL])
@pytest.mark.parametrize("seed", first(range(60), 1, wider=2))
def test_few_steps(seed, report):
    counted = ("rows", "rows without an answer", "matches", "matches without an answer", "tables without all start rows")
    counts = checked(seed, CLAUSES, (*PLAIN, *NEGATED), counted, report=report)
    for what in counted:
        assert counts[what] > 0, counts


@pytest.mark.parametrize("seed", first(range(60), 1, wider=2))
def test_few_steps_of_sides(seed):
    """The matches of ``&`` are the engine's. A side whose searches were given up gets no verdict."""
    counts = checked(seed, SIDED_CLAUSES, SIDED, ("rows", "efforts"), strategy=selection.ANY)
    for what in ("rows", "efforts"):
        assert counts[what] > 0, counts
