"""Which equivalence tests become partition keys (SASE+, SIGMOD 2008, section 3.2)."""

from __future__ import annotations

import pytest

from sparkcep import rewrite
from sparkcep.clause.parser import parse_clause
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import Plan
from sparkcep.settings import Settings
from sparkcep.sql.explain.describe import describe

NEXT = "AFTER MATCH SKIP TO NEXT ROW EVENT SELECTION SKIP TILL NEXT MATCH"
ANY = "EVENT SELECTION SKIP TILL ANY MATCH"
FUNNEL = "A AS s = 'a', B AS s = 'b' AND u = A.u, C AS s = 'c' AND u = B.u"


def plan(pattern, defines, *, options=ANY, measures="count(*) AS n", subset="", head="ORDER BY i", rows="", **settings) -> Plan:
    parts = [head, f"MEASURES {measures}", rows, options.replace("WINDOW", f"PATTERN ({pattern}) WINDOW")]
    parts += [] if "WINDOW" in options else [f"PATTERN ({pattern})"]
    return make_plan(parse_clause(" ".join([*parts, subset, f"DEFINE {defines}"])), settings=Settings(**settings))


def keys(*args, **options) -> list[str]:
    """The further keys' texts."""
    found = plan(*args, **options)
    return [dict(found.inputs)[name] for name, _ in found.equal_keys]


@pytest.mark.parametrize(
    ("pattern", "defines"),
    [
        ("A B C", FUNNEL),
        ("A B C", "B AS u = A.u, C AS u = A.u"),
        ("A B", "B AS A.u = B.u AND i > 3"),
        ("A B", "B AS (i > 3 AND (LAST(A.u) = LAST(u)))"),
        ("A B", "B AS u == FIRST(A.u)"),
        ("A B", "B AS u = FIRST(u)"),
        ("A B", "B AS U = A.u"),
        ("A B", "A AS u > 3, B AS `u` = A.u"),
        ("A B+ C?", "B AS u = A.u, C AS u = B.u"),
        ("A+ B", "A AS u = FIRST(A.u), B AS u = A.u"),
        ("A+ B", "A AS u = FIRST(u), B AS u = LAST(A.u)"),
        ("(A B)+", "A AS u = FIRST(A.u), B AS u = A.u"),
        ("A{2} B", "A AS u = FIRST(A.u), B AS u = A.u"),
        ("A A", "A AS u = FIRST(A.u)"),
        ("(A | B) C", "C AS u = FIRST(u)"),
        ("A (B | C) D", "B AS u = A.u, C AS u = A.u, D AS u = A.u"),
        ("(A B | A C) D", "B AS u = A.u, C AS u = A.u, D AS u = A.u"),
        ("A PERMUTE(B, C)", "B AS u = A.u, C AS u = A.u"),
        ("PERMUTE(A, B)", "A AS u = FIRST(u), B AS u = FIRST(u)"),
        ("A {- B -} C", "B AS u = A.u, C AS u = B.u"),
        ("(A B) WITHIN 5 C", "B AS u = A.u, C AS u = B.u"),
        ("A? B", "A AS u > 1, B AS u = FIRST(u)"),
        ("A ~B C", "B AS u = A.u, C AS u = A.u"),
        ("A ~B C", "B AS u = FIRST(u), C AS u = A.u"),
    ],
)
def test_a_test_on_every_variable_is_a_key(pattern, defines):
    found = keys(pattern, defines, options=NEXT)
    assert [text.lower().strip("`") for text in found] == ["u"]
    assert keys(pattern, defines) == found
    assert keys(pattern, defines, prefilter=False) == []


@pytest.mark.parametrize(
    ("pattern", "defines"),
    [
        ("A", "A AS u = 3"),
        ("A B", "A AS u = 3"),  # B takes any row
        ("A B C", "B AS u = A.u"),
        ("A B C", "B AS u = A.u, C AS s = A.s"),
        ("A B", "B AS u = A.u OR i > 3"),
        ("A B", "B AS NOT u = A.u"),
        ("A B", "B AS u <=> A.u"),
        ("A B", "B AS u >= A.u"),
        ("A B", "B AS u = A.i"),
        ("A B", "B AS u + 0 = A.u"),
        ("A B", "B AS coalesce(u, 0) = coalesce(A.u, 0)"),
        ("A B", "B AS u = B.u"),
        ("A B", "B AS u = LAST(u)"),
        ("A B", "B AS u = FIRST(B.u)"),
        ("A B", "B AS u = PRIOR(u)"),
        ("A B", "B AS u = PRIOR(A.u)"),
        ("A B", "B AS A.u = FIRST(A.u)"),
        ("A B", "B AS u = max(A.u)"),
        ("A B", "B AS u = A.u = true"),
        ("A B B", "B AS u = LAST(B.u, 1)"),
        ("A+ B", "B AS u = A.u"),
        ("A+ B", "A AS u = LAST(A.u, 1), B AS u = A.u"),
        ("A* B", "A AS u = FIRST(A.u), B AS u = A.u"),
        ("A? B", "B AS u = A.u"),
        ("A? B C", "C AS u = FIRST(u)"),
        ("(A | ()) B C", "C AS u = FIRST(u)"),
        ("(A | B) C", "C AS u = A.u"),
        ("(A | B)+", "A AS u = FIRST(A.u), B AS u = FIRST(B.u)"),
        ("PERMUTE(A, B)", "B AS u = A.u"),
        ("A B? C", "B AS u = A.u, C AS u = B.u"),
        ("A B C", "B AS u = C.u, C AS u = A.u"),
        ("A ~B C", "B AS s = 'b', C AS u = A.u"),
        ("A ~B C", "C AS u = A.u"),
        ("A ~B C", "B AS u = C.u, C AS u = A.u"),  # C is not before ~B
        ("A ~B C", "B AS u = LAST(u), C AS u = A.u"),
        ("^ A B", "B AS u = A.u"),
        ("A B $", "B AS u = A.u"),
        ("A? B?", "A AS u = FIRST(u), B AS u = FIRST(u)"),
    ],
)
def test_not_so_in_doubt(pattern, defines):
    assert keys(pattern, defines, options=NEXT) == []


def test_a_subset_is_no_variable():
    assert keys("A B C", "B AS u = S.u, C AS u = S.u", subset="SUBSET S = (A, B)") == []


def test_negation_at_the_edges():
    window = f"{ANY} WINDOW 9"
    assert keys("A B ~C", "B AS u = A.u, C AS u = A.u", options=window) == ["u"]
    assert keys("~C A B", "B AS u = A.u, C AS u = FIRST(u)", options=window) == []
    assert keys("~A B C", "C AS u = B.u", options=window) == []
    assert keys("~A A B", "A AS u = FIRST(A.u), B AS u = A.u", options=window) == []


@pytest.mark.parametrize(
    "options", [ANY, NEXT, f"{ANY} WINDOW 5", f"{ANY} WINDOW INTERVAL '5' MINUTE", f"AFTER MATCH SKIP TO NEXT ROW {ANY}"]
)
def test_options_that_keep_it(options):
    assert keys("A B C", FUNNEL, options=options) == ["u"]


@pytest.mark.parametrize(
    "options",
    [
        "",
        "EVENT SELECTION STRICT CONTIGUITY ALL MATCHES",
        "EVENT SELECTION SKIP TILL NEXT MATCH",
        f"AFTER MATCH SKIP PAST LAST ROW {ANY}",
        "AFTER MATCH SKIP TO FIRST B EVENT SELECTION SKIP TILL NEXT MATCH",
        f"{ANY} WINDOW 5 ROWS",
    ],
)
def test_options_that_forbid_it(options):
    assert keys("A B C", FUNNEL, options=options) == []


def test_rows_and_measures():
    def found(**more):
        return keys("A B C", FUNNEL, **more)

    assert found(rows="ALL ROWS PER MATCH") == ["u"]
    assert found(rows="ALL ROWS PER MATCH WITH UNMATCHED ROWS") == []
    assert found(measures="LAST(i) AS l, MATCH_COUNT() AS n") == ["u"]
    assert found(measures="MATCH_NUMBER() AS n") == []
    assert found(measures="1 + MATCH_NUMBER() AS n") == []
    assert found(measures="PREV(A.i) AS p") == []
    assert keys("A B", "B AS u = A.u AND i > MATCH_NUMBER()") == []
    assert keys("A B", "B AS u = A.u AND i > PREV(i)") == []
    assert keys("A B", "B AS u = A.u AND concat(s, PREV(s)) = 'ab'") == []
    assert keys("A B", "B AS u = A.u AND concat(s, A.s) = 'ab'") == []


def test_names():
    assert keys("A B", "B AS u = A.u AND i = A.i AND s > A.s") == ["u", "i"]
    assert keys("A B C", "B AS u = A.u AND i = A.i, C AS i = B.i") == ["i"]
    assert keys("A B", "B AS U = A.u", case_sensitive=True) == []
    assert len(keys("A B", "B AS e.u = A.e.u")) == 1
    assert keys("A B", "B AS e.u = A.e.v") == []


def test_a_key_of_partition_by_is_no_further_one():
    assert keys("A B", "B AS u = A.u AND s = A.s", head="PARTITION BY s ORDER BY i") == ["u"]
    assert keys("A B", "B AS s = A.s", head="PARTITION BY s ORDER BY i") == []


def test_the_rewriter_distributes_by_it():
    clause = f"PARTITION BY p ORDER BY i MEASURES count(*) AS n {ANY} PATTERN (A B C) DEFINE {FUNNEL}"
    sql = rewrite(f"SELECT * FROM t MATCH_RECOGNIZE ({clause})")
    key = plan("A B C", FUNNEL, head="PARTITION BY p ORDER BY i").equal_keys[0][0]
    assert f"u AS {key}" in sql
    assert f"DISTRIBUTE BY __p0, {key} SORT BY __p0, {key}, __o0" in sql


def test_a_plan_goes_through_json():
    found = plan("A B C", FUNNEL)
    assert Plan.from_json(found.to_json()) == found
    assert Plan.from_json(found.without_sql().to_json()).keys == found.keys == (found.equal_keys[0][0],)


def test_explain_says_why():
    text = describe(plan("A B C", FUNNEL))
    assert "additional partition keys, because all rows of a match must agree in them:\n  u (__c" in text
    assert "): B AS u = A.u; C AS u = B.u\n" in text
    assert "additional partition keys" not in describe(plan("A B C", FUNNEL, prefilter=False))


def test_a_clause_text_is_sorted_by_it():
    types = pytest.importorskip("pyspark.sql.types")
    from sparkcep.spark.exec.table_function import _analyze_clause

    columns = types.StructType([types.StructField(name, types.StringType()) for name in ("p", "i", "u", "s")])
    text = f"PARTITION BY p ORDER BY i DESC MEASURES A.i AS a {ANY} PATTERN (A B C) DEFINE {FUNNEL}"
    found = _analyze_clause(text, columns)
    assert [c.name for c in found.partitionBy] == ["p"]
    assert [(c.name, c.ascending) for c in found.orderBy] == [("u", True), ("i", False)]
