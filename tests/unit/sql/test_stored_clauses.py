"""Clauses of stored views: printed from their plans, and refused where the print would find other matches."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.errors import ClauseError
from sparkcep.plan.build import make_plan
from sparkcep.settings import DEFAULT
from sparkcep.sql.rewrite.rewrite import rewrite
from sparkcep.sql.stored.calls import has_call, with_clauses
from sparkcep.sql.stored.clause_text import same_search
from tests.oracle import cases, measures
from tests.oracle.expr import random_rows
from tests.oracle.match import SkipTargetError, TooManySteps
from tests.property.in_process import run
from tests.selection import first

HEAD = "ORDER BY id MEASURES FIRST(id) AS f"


def restored(clause: str, around: str = "SELECT * FROM t {}", **settings) -> str:
    """The statement that a view's text gives back."""
    text = rewrite(around.format(f"MATCH_RECOGNIZE ({clause})"))
    assert has_call(text)
    return with_clauses(text, "the view v", replace(DEFAULT, **settings))


TEXTS = {
    "(STRT DOWN{2,} UP+?) DEFINE DOWN AS price < PREV(price) AND volume > 1000, UP AS price > PREV(price, 2)": "DOWN AS volume > 1000 AND price < PREV(price), UP AS price > PREV(price, 2)",
    "(A+ B) DEFINE A AS count(A.*) = 1 OR v > LAST(A.v, 1), B AS v > 2 * avg(A.v)": "A AS count(A.*) = 1 OR v > LAST(A.v, 1), B AS v > 2 * avg(A.v)",
    "(A+ B) DEFINE A AS NOT (x BETWEEN 10 AND 20) AND y > 5 OR y = 8, B AS x BETWEEN FIRST(x) AND 7": "A AS NOT (x BETWEEN 10 AND 20) AND y > 5 OR y = 8, B AS x BETWEEN FIRST(x) AND 7",
    "(A+ B+) SUBSET S = (A, B) DEFINE A AS sum(A.v) FILTER (WHERE A.w > 1) < 9, B AS S.v + 1 > NEXT(coalesce(v, 0))": "A AS sum(A.v) FILTER (WHERE A.w > 1) < 9, B AS v + 1 > NEXT(coalesce(v, 0))",
    "(A{2} (B | {- C -}) $) DEFINE B AS abs(v - PREV(v)) > 3, C AS CLASSIFIER(A) = 'A' AND v / w > 1": "B AS abs(v - PREV(v)) > 3, C AS CLASSIFIER(A) = 'A' AND v / w > 1",
    "(^ A PERMUTE(B, C)) DEFINE A AS s LIKE 'x%', B AS CASE WHEN v > FIRST(v) THEN TRUE ELSE w IS NULL END, C AS PRIOR(min(C.v)) > C.v": "A AS s LIKE 'x%', B AS CASE WHEN v > FIRST(v) THEN TRUE ELSE w IS NULL END, C AS PRIOR(min(C.v)) > v",
    "(A X* B) DEFINE B AS datediff(d, A.d) > 3 AND timestampdiff(HOUR, FIRST(A.ts), ts) < 9 AND A.d IS DISTINCT FROM '2024-03-01'": "B AS datediff(d, A.d) > 3 AND timestampdiff(hour, FIRST(A.ts), ts) < 9 AND NOT (A.d <=> '2024-03-01')",
    "(A X* B) DEFINE B AS CAST(date_add(A.d, 0) AS DATE) = CAST(date_add(A.e, 0) AS DATE)": "B AS CAST(date_add(A.d, 0) AS DATE) = CAST(date_add(A.e, 0) AS DATE)",
}


@pytest.mark.parametrize("pattern", TEXTS)
def test_conditions(pattern):
    text = restored(f"{HEAD} PATTERN {pattern}")
    assert text.partition(" DEFINE ")[2].removesuffix(")") == TEXTS[pattern]
    assert f"PATTERN {pattern.partition(' SUBSET')[0].partition(' DEFINE')[0]}" in text


OPTIONS = [
    "WINDOW INTERVAL '5' MINUTE PATTERN (A B+) DEFINE A AS v > 1", "WINDOW 3 ROWS PATTERN (A (B C) WITHIN 7?) DEFINE B AS v > 1",
    "EVENT SELECTION SKIP TILL NEXT MATCH FIRST MATCH PATTERN (A ~B C) DEFINE B AS v > A.v", "AFTER MATCH SKIP TO LAST B PATTERN (A B C) DEFINE B AS v > 1",
    "EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES WINDOW 9 PATTERN (A ~(B C) D & E) DEFINE D AS v > A.v",
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS)
def test_options(options):
    """Each option comes back."""
    text = restored(f"{HEAD} {options}").removesuffix(")")
    for part in options.partition(" DEFINE")[0].split(" PATTERN ") + ["DEFINE" + options.partition(" DEFINE")[2]]:
        assert part in text, text


def test_tests_that_became_keys():
    text = restored("PARTITION BY p ORDER BY id MEASURES FIRST(id) AS f AFTER MATCH SKIP TO NEXT ROW EVENT SELECTION SKIP TILL ANY MATCH FIRST MATCH PATTERN (A C) WINDOW 3 DEFINE A AS v > 1, C AS C.k = A.k AND A.w < w")
    assert text.endswith("DEFINE A AS v > 1, C AS k = FIRST(k) AND A.w < w)") and "FROM t MATCH_RECOGNIZE" in text


def test_statements():
    """The text around the clause stays: CTEs, aliases, several clauses, and joins."""
    clause = "PARTITION BY k ORDER BY id MEASURES FIRST(id) AS f PATTERN (A B) DEFINE B AS v > 1"
    text = restored(clause, "WITH c AS (SELECT * FROM t WHERE v > 0) SELECT f FROM c JOIN u USING (k) {} AS m WHERE f > 3")
    assert text.startswith("WITH c AS (SELECT * FROM t WHERE v > 0) SELECT f FROM c JOIN u USING (k) MATCH_RECOGNIZE (PARTITION BY k ORDER BY id ")
    assert text.endswith(") AS m WHERE f > 3")
    text = restored(clause, "SELECT * FROM t {0} x JOIN u {0} y ON x.k = y.k")
    assert text.count("MATCH_RECOGNIZE") == 2 and " FROM t MATCH" in text and " u MATCH" in text


REFUSED = {
    "APPROX 1 PATTERN (A B)": "because it has APPROX", "PREF MAX (count(*)) PATTERN (A B)": "because it has PREF or TOP",
    "AUTOMATON (STATE q START, r FINAL ARC FROM q TO r)": "because it has an AUTOMATON",
}


@pytest.mark.parametrize("options", REFUSED)
def test_refused(options):
    with pytest.raises(ClauseError, match=rf"WHY.*The clause of the view v cannot be read back, {REFUSED[options]}. Ask about the statement with its clause"):
        restored(f"PARTITION BY p ORDER BY id MEASURES count(*) AS n {options}" if "AUTOMATON" not in options else f"PARTITION BY p ORDER BY id {options}")


def test_other_settings():
    with pytest.raises(ClauseError, match="The view v was made with another setting. Write SET spark.sql.session.timeZone = UTC, and ask again"):
        restored(f"{HEAD} PATTERN (A)", zone="Asia/Tokyo")
    with pytest.raises(ClauseError, match="Write SET spark.sql.ansi.enabled = true"):
        restored(f"{HEAD} PATTERN (A)", ansi=False)
    with pytest.raises(ClauseError, match="Write SET spark.sql.decimalOperations.allowPrecisionLoss = true"):
        restored(f"{HEAD} PATTERN (A)", precision_loss=False)


def test_only_the_plan_of_a_call_is_read():
    with pytest.raises(ClauseError, match="it calls match_recognize without a plan"):
        with_clauses("SELECT * FROM (SELECT x FROM match_recognize(TABLE(SELECT 1 AS x)))", "the view v", DEFAULT)


OTHERS = [
    ("PATTERN (A B) DEFINE B AS v > 1", "PATTERN (A B) DEFINE B AS v >= 1"), ("PATTERN (A B+)", "PATTERN (A B+?)"), ("PATTERN (A B) DEFINE B AS v > PREV(v)", "PATTERN (A B) DEFINE B AS v > PREV(v, 2)"),
    ("PATTERN (A B) DEFINE B AS s = 'a'", "PATTERN (A B) DEFINE B AS s = 'A'"), ("PATTERN (A B) DEFINE B AS v - (w - 1) > 2", "PATTERN (A B) DEFINE B AS (v - w) - 1 > 2"),
    ("PATTERN (A B) DEFINE B AS v > 1 AND w > 1 OR s = 'a'", "PATTERN (A B) DEFINE B AS v > 1 AND (w > 1 OR s = 'a')"), ("PATTERN (A B) DEFINE B AS count(*) > v", "PATTERN (A B) DEFINE B AS count(B.*) > v"),
    ("PATTERN (A+ B) DEFINE B AS v > FIRST(A.v)", "PATTERN (A+ B) DEFINE B AS v > A.v"), ("WINDOW 3 PATTERN (A B)", "WINDOW 4 PATTERN (A B)"), ("PATTERN (A B)", "AFTER MATCH SKIP TO NEXT ROW PATTERN (A B)"),
    ("EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B)", "EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B)"), ("PATTERN (A B) DEFINE A AS v > 1", "PATTERN (A B) DEFINE B AS v > 1"),
    ("PATTERN (A B) DEFINE B AS v + PREV(w) > 1", "PATTERN (A B) DEFINE B AS w + PREV(v) > 1"), ("PATTERN (A B) DEFINE B AS NOT v > 1", "PATTERN (A B) DEFINE B AS v > 1"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_other_matches_are_told_apart(one, other):
    plans = [make_plan(parse_clause(f"{HEAD} {clause}")) for clause in (one, other)]
    texts = [dict(plan.inputs) | {f"__b{letter.bit}": letter.text for letter in plan.letters} | dict(plan.ordered_inputs) for plan in plans]
    assert same_search(plans[0], plans[0], texts[0], texts[0]) and same_search(plans[1], plans[1], texts[1], texts[1])
    assert not same_search(*plans, *texts)


@pytest.mark.parametrize("seed", first(range(20), 1, wider=3))
def test_printed_clauses_find_the_matches_of_brute_force(seed):
    """The clause that a random view gives back finds the matches of the clause that made the view."""
    rng, compared, matched, refused = random.Random(seed), 0, 0, 0
    wanted = "MEASURES MATCH_NUMBER() AS m_no, FIRST(id) AS m_first, LAST(id) AS m_last, count(*) AS m_count ONE ROW PER MATCH"
    while compared < 60:
        clause = cases.random_clause(rng)
        clause = replace(clause, mode=measures.ONE_ROW, measures={name: cases.BASE_MEASURES[name] for name in ("m_no", "m_first", "m_last", "m_count")})
        try:
            text = restored(clause.to_sql())
        except ClauseError as error:
            assert "is not printed exactly" in error.message
            refused += 1
            continue
        printed = text.removeprefix("SELECT * FROM t MATCH_RECOGNIZE (").removesuffix(")").replace("MEASURES 1 AS __one", wanted, 1)
        rows = random_rows(rng, rng.randrange(1, 9))
        try:
            expected = [values for _, values in clause.answer(rows)]
        except (SkipTargetError, TooManySteps):
            continue
        compared += 1
        matched += bool(expected)
        assert run(printed, {0: rows}).get(0, []) == expected, (clause.to_sql(), printed, rows)
    assert matched > 10 and refused < 10
