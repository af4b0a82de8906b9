"""Which clauses are left to the platform's own MATCH_RECOGNIZE, and what EXPLAIN says of the choice."""

from __future__ import annotations

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.draw.explain import explain
from sparkcep.errors import ClauseError
from sparkcep.settings import Settings
from sparkcep.sql.rewrite.databricks_subset import outside
from sparkcep.sql.rewrite.rewrite import rewrite

PREFER = Settings(native="prefer")
HEAD = "PARTITION BY symbol ORDER BY day"
MEASURES = "MEASURES FIRST(STRT.day) AS a, LAST(UP.day) AS b, count(*) AS n, sum(UP.price * 2) AS s, MATCH_NUMBER() AS m"
DEFINE = "DEFINE DOWN AS DOWN.price < PREV(price), UP AS price > PREV(UP.price) AND price > LAST(DOWN.price)"
INSIDE = f"{HEAD} {MEASURES} ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (^ STRT DOWN+ (UP{{1,3}} DOWN?)* $) {DEFINE}"


def clause(measures="count(*) AS n", pattern="A B+", define="A AS x > 1, B AS x > 2", head=HEAD, between=""):
    return parse_clause(f"{head} MEASURES {measures} {between} PATTERN ({pattern}) DEFINE {define}")


@pytest.mark.parametrize("text", [INSIDE, "MEASURES count(*) AS n PATTERN (A) DEFINE A AS x > 1 AND x = FIRST(x)"])
def test_inside(text):
    assert outside(parse_clause(text)) is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"between": "AFTER MATCH SKIP TO NEXT ROW"}, "PAST LAST ROW"),
        ({"between": "AFTER MATCH SKIP TO LAST B"}, "PAST LAST ROW"),
        ({"between": "ALL ROWS PER MATCH"}, "ALL ROWS PER MATCH"),
        ({"between": "EVENT SELECTION SKIP TILL ANY MATCH"}, "EVENT SELECTION"),
        ({"between": "WINDOW 5 ROWS"}, "WINDOW"),
        ({"between": "APPROX 1"}, "APPROX"),
        ({"between": "EVENT SELECTION SKIP TILL ANY MATCH PREF MAX (sum(B.x))"}, "EVENT SELECTION"),
        ({"between": "PREF MAX (sum(B.x))"}, "PREF"),
        ({"between": "TOP 1"}, "TOP"),
        ({"pattern": "A B) SUBSET U = (A, B"}, "SUBSET"),
        ({"pattern": "A B+?"}, "reluctant"),
        ({"pattern": "A | B"}, "operand of |"),
        ({"pattern": "PERMUTE(A, B)"}, "PERMUTE"),
        ({"pattern": "A {- B -}"}, "exclusion"),
        ({"pattern": "A ^ B"}, "start of the whole"),
        ({"pattern": "(A $)* B"}, "end of the whole"),
        ({"pattern": "A ()"}, "empty"),
        ({"pattern": "A* B*"}, "empty"),
        ({"pattern": "A ~B"}, "negation"),
        ({"pattern": "A & B"}, "conjunction"),
        ({"head": "PARTITION BY upper(symbol)"}, "PARTITION BY"),
        ({"head": "PARTITION BY t.symbol"}, "PARTITION BY"),
        ({"head": "ORDER BY day + 1"}, "ORDER BY"),
        ({"define": "A AS x > 1, B AS x > A.x"}, "LAST(A.x) would be inside"),
        ({"define": "A AS x > 1, B AS x > avg(B.x)"}, "AVG"),
        ({"define": "A AS x > 1, B AS x > FIRST(B.x)"}, "being tested"),
        ({"define": "A AS x > 1, B AS x > PREV(A.x)"}, "starts"),
        ({"define": "A AS x > 1, B AS x > LAST(A.x, 1)"}, "offset"),
        ({"define": "A AS x > 1, B AS x > PREV(x, 1 + 1)"}, "literal offset"),
        ({"define": "A AS x > 1, B AS x > PREV(x + 1)"}, "takes a column"),
        ({"define": "A AS x > 1, B AS x > PREV(LAST(A.x))"}, "takes a column"),
        ({"define": "A AS x > 1, B AS MATCH_NUMBER() > 1"}, "MATCH_NUMBER"),
        ({"define": "A AS x > rand(), B AS true"}, "RAND"),
        ({"define": "A AS x > (SELECT 1), B AS true"}, "subqueries"),
        ({"measures": "LAST(B.x) AS x, x AS y"}, "LAST(x) would be inside"),
        ({"measures": "B.x AS x"}, "LAST(B.x) would be inside"),
        ({"measures": "FINAL LAST(B.x) AS x"}, "FINAL"),
        ({"measures": "CLASSIFIER() AS c"}, "CLASSIFIER"),
        ({"measures": "PREV(x) AS c"}, "PREV"),
        ({"measures": "count(DISTINCT x) AS c"}, "DISTINCT"),
        ({"measures": "sum(x) FILTER (WHERE x > 1) AS c"}, "FILTER"),
        ({"measures": "median(x) AS c"}, "only the aggregates"),
        ({"measures": "count(B.*) AS c"}, "B.*"),
        ({"measures": "sum(A.x + x) AS c"}, "one row pattern variable"),
    ],
)
def test_outside(changed, said):
    reason = outside(clause(**changed))
    assert reason is not None and said in reason


def test_what_has_no_define_or_no_measures_is_outside():
    assert "DEFINE" in outside(parse_clause("MEASURES count(*) AS n PATTERN (A)"))
    assert "MEASURES" in outside(parse_clause("PARTITION BY s PATTERN (A) DEFINE A AS x > 1"))


STATEMENT = f"SELECT * FROM ticks MATCH_RECOGNIZE ({INSIDE}) a JOIN (SELECT * FROM u MATCH_RECOGNIZE ({INSIDE.replace('DOWN?', 'DOWN??')})) b"


def test_the_setting_chooses_clause_by_clause():
    assert "SELECT * FROM ticks MATCH_RECOGNIZE" not in rewrite(STATEMENT)
    left = rewrite(STATEMENT, settings=PREFER)
    assert left.startswith(f"SELECT * FROM ticks MATCH_RECOGNIZE ({INSIDE}) a JOIN (SELECT * FROM (SELECT ")
    assert left.count("MATCH_RECOGNIZE") == 1 and left.count("match_recognize(TABLE(") == 1


def test_a_statement_left_whole_is_the_same_text():
    text = STATEMENT.partition(" a JOIN")[0]
    assert rewrite(text, settings=PREFER) is text


def test_a_native_clause_over_a_rewritten_one():
    inner = f"SELECT * FROM u MATCH_RECOGNIZE ({INSIDE.replace('DOWN?', 'DOWN??')})"
    left = rewrite(f"SELECT * FROM ({inner}) MATCH_RECOGNIZE ({INSIDE})", settings=PREFER)
    assert left.startswith("SELECT * FROM (SELECT * FROM (SELECT ") and left.endswith(f") MATCH_RECOGNIZE ({INSIDE})")


def test_the_function_form_is_always_sparkceps():
    call = "SELECT * FROM match_recognize(TABLE(t), 'MEASURES count(*) AS n PATTERN (A) DEFINE A AS x > 1')"
    assert "NULL AS `" in rewrite(call, settings=PREFER)


def test_explain_says_which_and_why():
    text = explain(STATEMENT, settings=PREFER)
    first, second = text.split("== Clause ")[1:]
    assert "left to the platform's own MATCH_RECOGNIZE" in first and "engine:" not in first
    assert "run by sparkcep although sparkcep.native is prefer: it does not support reluctant quantifiers" in second and "engine: exact" in second
    assert "sparkcep.native" not in explain(STATEMENT)
    embedded = rewrite("EXPLAIN " + STATEMENT, settings=PREFER)
    assert "--sparkcep run by sparkcep although sparkcep.native is prefer: it does not support reluctant" in embedded


def test_errors_are_sparkceps_either_way():
    with pytest.raises(ClauseError, match="UNKNOWN_VARIABLE"):
        rewrite("SELECT * FROM t MATCH_RECOGNIZE (MEASURES count(*) AS n PATTERN (A) DEFINE B AS x > 1)", settings=PREFER)


def test_the_setting_is_read_and_checked():
    assert Settings.read({"sparkcep.native": " Prefer"}.get).native == "prefer"
    with pytest.raises(ClauseError, match="sparkcep.native must be never or prefer"):
        Settings.read({"sparkcep.native": "always"}.get)
