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
from tests.oracle import selection
from tests.property.tracing.why_cases import frozen
from tests.property.tracing.why_selection import BUDGET, NEGATED, PLAIN, SETTINGS, random_rows
from tests.selection import first
from tests.support.why_examples import totals

CLAUSES = 25  # per seed
UNANSWERED = "is not answered."


def check(rows: FrozenRows, max_steps: int, counts: Counter) -> None:
    """Checks the answers about each row, each match and the table."""
    matches = rows.matches()
    with_rows = [(number, match) for number, match in enumerate(matches, 1) if match.rows]
    for row in range(rows.count):
        verdict = explain(rows, Asked((row,)), max_steps=max_steps).verdict
        if verdict.endswith(UNANSWERED):
            counts["rows without an answer"] += 1
            continue
        inside = {number for number, match in with_rows if row in match.rows}
        named = {int(number) for number in re.findall(r"match (\d+) as ", verdict)}
        assert named <= inside and bool(named) == bool(inside), (row, verdict, matches)
        counts["rows"] += 1
        for variable in {rows.question.name(variable) for _, match in with_rows for variable in match.variables}:
            found = explain(rows, Asked((row,), expect=variable), max_steps=max_steps).verdict
            taken = any((row, variable) in zip(match.rows, map(rows.question.name, match.variables), strict=True) for _, match in with_rows)
            assert found.endswith(UNANSWERED) or taken == found.endswith(f" is {variable}."), (row, found, matches)
    for number, match in enumerate(matches, 1):
        verdict = explain(rows, Asked(match=number), max_steps=max_steps).verdict
        takes = f" takes {row_spans(match.rows)}:" if match.rows else " is empty: "
        assert verdict.endswith(UNANSWERED) or takes in verdict, (number, verdict, matches)
        counts["matches without an answer"] += verdict.endswith(UNANSWERED)
        counts["matches"] += 1
        for row in range(rows.count):
            why = explain(rows, Asked((row,), match=number), max_steps=max_steps)
            assert (row in match.rows) == (f" is in match {number}" in why.verdict) or why.verdict.endswith(UNANSWERED), (row, str(why), matches)
    why = overall([rows], totals(rows), DEFAULT, words={}, max_steps=max_steps)
    ends = any(reason.reason == "EFFORT" for reason in why.reasons)
    assert why.verified and why.verdict.startswith("No match" if not matches else f"{len(matches)} match"), (str(why), matches)
    assert ends == why.lines[1].startswith("Traces end after")
    counts["tables without all start rows"] += ends


@pytest.mark.parametrize("report", [selection.FIRST, selection.ALL])
@pytest.mark.parametrize("seed", first(range(20), 1, wider=3))
def test_few_steps(seed, report):
    rng, counts = random.Random(seed), Counter()
    while counts["cases"] < CLAUSES:
        query, found = selection.random_query(rng, budget=BUDGET, shapes=(*PLAIN, *NEGATED), report=report), random_rows(rng)
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
    for what in ("rows", "rows without an answer", "matches", "matches without an answer", "tables without all start rows"):
        assert counts[what] > 0, counts
