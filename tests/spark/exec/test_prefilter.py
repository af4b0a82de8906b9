"""The filter by a second read, on Spark: what is chosen, and that results stay."""

from __future__ import annotations

import random

import pytest

from sparkcep.settings import ALWAYS, DEFAULT, Settings
from sparkcep.spark.exec import sampling
from sparkcep.spark.exec.sampling import Sampler
from sparkcep.sql.rewrite.rewrite import rewrite_all
from tests.oracle import measures, selection
from tests.oracle.cases import random_clause
from tests.selection import first
from tests.spark.compared import differing, rewritten

JOIN = "LEFT SEMI JOIN"
OFF, ON = Settings(prefilter=False), Settings(prefilter=ALWAYS)


@pytest.fixture(scope="module")
def events(spark):
    """Three rows in four are of keys, one of them NULL, without a rare row; order keys of several types run in step, from below
    0."""
    rng = random.Random(1)
    rows = []
    for number in range(600):
        k = rng.choice(["NULL", "'a'", "'b'", "'c'", "'d'", "'e'"])
        rare = k in ("NULL", "'a'") and rng.random() < 0.2
        kind = "r" if rare else rng.choice("xxyz")
        rows.append(f"({number}, {k}, {number % 7}, {number - 300}, '{kind}', {rng.randrange(10)})")
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW prefilter_events AS SELECT *, TIMESTAMP'2026-03-28 00:00:00' + make_dt_interval(0, 0, t * 7) AS ts, "
        "TIMESTAMP_NTZ'1970-01-02 00:00:00' + make_dt_interval(0, 0, t * 7) AS ntz, DATE'1970-02-01' + t AS day, CAST(t AS DOUBLE) AS real "
        f"FROM VALUES {', '.join(rows)} AS e(id, k, k2, t, kind, v)"
    )
    return "prefilter_events"


STEPS = "PATTERN (A B) DEFINE A AS kind = 'r', B AS kind = 'x'"
WITHIN = "EVENT SELECTION SKIP TILL ANY MATCH WINDOW {} PATTERN (A B) DEFINE A AS kind = 'r', B AS v > A.v"
M = "MEASURES A.id AS a, LAST(B.id) AS b, MATCH_NUMBER() AS n"
# name: the clause; what of the filter must be in its rewriting
FILTERED = {
    "a NULL key": (f"PARTITION BY k ORDER BY t {M} {STEPS}", "__p0 <=> __q0"),
    "two keys, one computed": (f"PARTITION BY k, k2 % 3 ORDER BY t {M} {STEPS}", "__p1 <=> __q1"),
    "all rows": (f"PARTITION BY k ORDER BY t {M} ALL ROWS PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (A B*) DEFINE A AS kind = 'r'", "* EXCEPT"),
    "neighbours": (f"PARTITION BY k ORDER BY t {M}, PREV(A.v) AS before PATTERN (B A) DEFINE A AS kind = 'r' AND v > PREV(v)", "__p0 <=> __q0"),
    "alternation": (f"PARTITION BY k ORDER BY t {M} PATTERN (A | B C) DEFINE A AS kind = 'r', B AS kind = 'x' AND v > 8, C AS v = 0", "OR"),
    "exclusion": (f"PARTITION BY k ORDER BY t {M} ALL ROWS PER MATCH PATTERN ({{- A -}} B) DEFINE A AS kind = 'r'", JOIN),
    "anchors": (f"PARTITION BY k ORDER BY t {M} PATTERN (^ C*? A B) DEFINE A AS kind = 'r'", JOIN),
    "the best overall": (
        f"PARTITION BY k ORDER BY t MEASURES A.id AS a, MATCH_RANK() AS r {WITHIN.format(40).replace('PATTERN', 'PREF MAX (B.v - A.v) TOP 5 OVERALL PATTERN')}",
        "__p0 <=> __q0",
    ),
    "the best of windows": (
        f"PARTITION BY k ORDER BY t MEASURES A.id AS a, WINDOW_START() AS w, MATCH_RANK() AS r {WITHIN.format('40 SLIDE 20').replace('PATTERN', 'PREF MAX (B.v) TOP 2 PATTERN')}",
        "__p0 <=> __q0",
    ),
    "a window of numbers": (f"PARTITION BY k ORDER BY t {M} {WITHIN.format('9')}", "DIV 9L"),
    "a window of parts": (f"PARTITION BY k ORDER BY t DESC {M} {WITHIN.format('9.5')}", "DIV 10L"),
    "a window of time": (f"PARTITION BY k ORDER BY ts {M} {WITHIN.format('INTERVAL 1 HOUR')}", "unix_micros(__o0)) DIV 3600000000L"),
    "a window without zone": (f"PARTITION BY k ORDER BY ntz {M} {WITHIN.format('INTERVAL 90 MINUTES')}", "DIV 5402L"),
    "a window of days": (f"PARTITION BY k ORDER BY day {M} {WITHIN.format('INTERVAL 36 HOURS')}", "DIV 2L"),
    "a window of doubles": (f"PARTITION BY k ORDER BY real {M} {WITHIN.format('9')}", "__p0 <=> __q0"),
    "a window, no key": (f"ORDER BY t {M} {WITHIN.format('5')}", "ON (CAST(__o0 AS BIGINT)) DIV 5L = __at"),
    "a negation behind": (f"PARTITION BY k ORDER BY t {M} {WITHIN.format('9').replace('(A B)', '(A B ~C)')}, C AS kind = 'y'", "DIV 9L"),
    "strict in a window": (f"PARTITION BY k ORDER BY t {M} WINDOW 30 {STEPS}", "DIV 30L"),
    "neighbours at the border of a window": (f"PARTITION BY k ORDER BY t {M}, PREV(A.id) AS p WINDOW 30 {STEPS}", "SELECT DISTINCT k AS __q0 FROM"),
    "further keys": (
        "PARTITION BY k ORDER BY t MEASURES A.id AS a, B.id AS b EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) DEFINE A AS kind = 'r', B AS k2 = A.k2",
        "k2 AS __q1",
    ),
}
KEPT_WHOLE = {
    "unmatched rows": f"PARTITION BY k ORDER BY t {M} ALL ROWS PER MATCH WITH UNMATCHED ROWS {STEPS}",
    "an optional variable": f"PARTITION BY k ORDER BY t {M} PATTERN (A? B) DEFINE A AS kind = 'r'",
    "empty matches": f"PARTITION BY k ORDER BY t {M} ALL ROWS PER MATCH SHOW EMPTY MATCHES PATTERN ((A B)*) DEFINE A AS kind = 'r'",
    "a branch without": f"PARTITION BY k ORDER BY t {M} PATTERN (A | B) DEFINE A AS kind = 'r'",
    "no key": f"ORDER BY t {M} {STEPS}",
    "no key, rows counted": f"ORDER BY t {M} {WITHIN.format('5 ROWS')}",
    "errors forgiven": "PARTITION BY k ORDER BY t MEASURES A.id AS a, B.id AS b WINDOW 9 PATTERN (A B C) APPROX 1 DEFINE A AS kind = 'r', B AS v > 3, C AS v < 3",
    "windows of all keys": f"PARTITION BY k ORDER BY t MEASURES A.id AS a, CHANGE() AS c {WITHIN.format('40 SLIDE 20').replace('PATTERN', 'PREF MAX (B.v) TOP 2 OVERALL REPORT CHANGES PATTERN')}",
}

PARTS = 8


@pytest.mark.parametrize("part", first(range(PARTS), 0, wider=1))
def test_the_result_stays(spark, events, part):
    queries = {name: f"SELECT * FROM {events} MATCH_RECOGNIZE ({clause})" for name, (clause, _) in list(FILTERED.items())[part::PARTS]}
    for name, query in queries.items():
        text = rewritten(spark, query, ON)
        assert JOIN in text and FILTERED[name][1] in text, (name, text)
        assert JOIN not in rewritten(spark, query, OFF)
    wrong, found = differing(spark, {name: (rewritten(spark, q, ON), rewritten(spark, q, OFF)) for name, q in queries.items()})
    assert wrong == set()
    assert set(queries) - found <= {"exclusion"}, "a case without a match tells nothing"


@pytest.mark.parametrize("name", KEPT_WHOLE)
def test_where_rows_without_a_match_matter(spark, events, name):
    assert JOIN not in rewritten(spark, f"SELECT * FROM {events} MATCH_RECOGNIZE ({KEPT_WHOLE[name]})", ON)


@pytest.mark.further  # what tests/property does in this process, in Spark once more
def test_random_clauses(spark):
    rng = random.Random(5)
    rows = [
        f"({p if p else 'NULL'}, {i * 3 - 20}, {rng.randrange(4)}, {rng.choice(['NULL', *range(4)])}, '{rng.choice('abcd')}')"
        for p in range(12) for i in range(rng.randrange(1, 9))
    ]
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW prefilter_random AS SELECT * FROM VALUES {', '.join(rows)} AS r(p, id, v, w, s)")
    queries: dict[str, str] = {}
    for _ in range(400):
        if len(queries) == 10:
            break
        if rng.random() < 0.5:
            clause = random_clause(rng)
            if clause.skip[0] in ("to first", "to last"):
                continue  # an error ends the whole statement
        else:
            clause = selection.random_query(rng, shapes=("plain", "negation"))
            clause.skip, clause.window = None, ("range", rng.randrange(4, 12))
            clause.measures = {k: v for k, v in clause.measures.items() if k.startswith("m_")}
        if clause.mode == measures.WITH_UNMATCHED:
            clause.mode = measures.ONE_ROW
        # which of several equal matches has which number is not told under ALL MATCHES
        clause.measures.pop("m_no", None)
        query = f"SELECT * FROM prefilter_random MATCH_RECOGNIZE ({clause.to_sql()})"
        if JOIN in rewritten(spark, query, ON):
            queries[f"q{len(queries)}"] = query
    wrong, found = differing(spark, {name: (rewritten(spark, q, ON), rewritten(spark, q, OFF)) for name, q in queries.items()})
    assert wrong == set(), [queries[name] for name in wrong]
    assert len(queries) == 10 and len(found) >= 5


# -- by cost ----------------------------------------------------------------------------------------------

BIG = "(SELECT id % 1000 AS k, id AS t, id % 100 AS v, pmod(xxhash64(id), 10000) AS u FROM range(1000000))"
RARE = "PARTITION BY k ORDER BY t MEASURES A.t AS a PATTERN (A) DEFINE A AS k = 7 AND v = 7 AND v = coalesce(PREV(v), 7)"


def told(spark, statement, settings=DEFAULT):
    """What EXPLAIN says of the filter of a statement's last clause."""
    found = rewrite_all(statement, settings, choose=Sampler.of(spark, settings, spark.sql))[1][-1]
    return found.filtering


@pytest.mark.further
def test_a_rare_variable_of_a_large_table_is_filtered(spark):
    query = f"SELECT * FROM {BIG} MATCH_RECOGNIZE ({RARE})"
    choice = told(spark, query)
    assert choice.filter is not None and "20 of 20,000 sampled rows hold it, of about 500,000; an estimated 0% of the rows stay" in choice.note
    shown = "\n".join(row[0] for row in spark.sql(f"EXPLAIN EXTENDED {query}").collect())
    assert "partitions without a row of A: (k = 7) AND (v = 7); 20 of 20,000 sampled rows" in shown
    assert "LeftSemi" in shown and "BroadcastHashJoin" in shown
    assert choice.filter.few and "HashAggregate" not in shown, "so few rows are broadcast without an exchange of their own"
    assert spark.sql(f"SELECT count(*), min(a), max(a) FROM ({query})").collect() == [(1000, 7, 999_007)]


def test_the_sample_is_taken_once(spark, monkeypatch):
    query = f"SELECT * FROM {BIG} MATCH_RECOGNIZE ({RARE.replace('v = 7', 'v = 8 - 1')})"
    told(spark, query)
    monkeypatch.setattr(sampling, "_choice", None)  # would fail if it were called
    assert told(spark, query).filter is not None


FREQUENT = RARE.replace("k = 7 AND v = 7", "u < 5000")
REFUSED = {
    "a frequent variable": (f"SELECT * FROM {BIG} MATCH_RECOGNIZE ({FREQUENT})", "costs more than it saves"),
    "a small table": (f"SELECT * FROM {BIG.replace('1000000', '1000')} MATCH_RECOGNIZE ({RARE})", "its table is small"),
    "a limit": (f"SELECT * FROM (SELECT * FROM {BIG} LIMIT 900000) MATCH_RECOGNIZE ({RARE})", "more than a scan (GlobalLimit)"),
    "a sample": (f"SELECT * FROM (SELECT * FROM {BIG} TABLESAMPLE (90 PERCENT)) MATCH_RECOGNIZE ({RARE})", "more than a scan (Sample)"),
    "chance": (f"SELECT * FROM {BIG.replace('id % 100 AS', 'CAST(rand() * 100 AS INT) AS')} MATCH_RECOGNIZE ({RARE})", "not the same at each read"),
    "a query in a condition": (f"SELECT * FROM (SELECT * FROM {BIG} WHERE u > (SELECT max(id) FROM range(9))) MATCH_RECOGNIZE ({RARE})", "condition holds a query"),
    "a join": (f"SELECT * FROM ({BIG[1:-1]} JOIN range(900000) USING (id)) MATCH_RECOGNIZE ({RARE})", "more than a scan (Join)"),
    "a clause within": (f"SELECT * FROM (SELECT *, 1 AS v FROM {BIG} MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES A.t AS t PATTERN (A))) MATCH_RECOGNIZE ({RARE})", "search twice"),
    "a view": (f"CREATE TEMPORARY VIEW prefilter_view AS SELECT * FROM {BIG} MATCH_RECOGNIZE ({RARE})", "stored and runs later"),
    "no such table": (f"SELECT * FROM nowhere MATCH_RECOGNIZE ({RARE})", "cannot be read by itself"),
    "an inner WITH": (f"SELECT * FROM (WITH b AS (SELECT * FROM {BIG}) SELECT * FROM b MATCH_RECOGNIZE ({RARE}))", "inner WITH"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_not_filtered(spark, name):
    statement, reason = REFUSED[name]
    choice = told(spark, statement)
    assert choice.filter is None and reason in choice.note, choice
    if name != "a view":
        assert JOIN not in rewritten(spark, statement, OFF)


def test_names_of_a_with(spark, events):
    first = f"WITH {events} AS (SELECT * FROM {BIG}), other (x) AS (SELECT 1)"
    chosen = f"{first} SELECT * FROM {events} MATCH_RECOGNIZE ({RARE})"
    assert told(spark, chosen).filter is not None
    shadowed = f"{first}, m AS (SELECT * FROM {events} MATCH_RECOGNIZE ({RARE})) SELECT * FROM m"
    assert told(spark, shadowed).filter is not None
    assert "small" in told(spark, f"WITH t AS (SELECT 1 AS k, 2 AS t, 3 AS v) SELECT * FROM t MATCH_RECOGNIZE ({RARE})").note


def test_errors_come_before_the_sample(spark):
    context = spark.sparkContext
    context.setJobGroup("prefilter errors", "")
    wrong = RARE.replace("v = coalesce(PREV(v), 7)", "PREV(v) = array(v)")
    try:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - the text decides
            spark.sql(f"SELECT * FROM {BIG} MATCH_RECOGNIZE ({wrong})")
        assert not list(context.statusTracker().getJobIdsForGroup("prefilter errors")), str(caught.value)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)


def test_markers_and_frames(spark):
    query = f"SELECT * FROM {BIG} MATCH_RECOGNIZE ({RARE.replace('k = 7', 'k = ?')})"
    assert "LeftSemi" in spark.sql(f"EXPLAIN {query}", [7]).collect()[0][0]
    frame = spark.sql(BIG[1:-1])
    shown = spark.sql(f"EXPLAIN SELECT * FROM {{big}} MATCH_RECOGNIZE ({RARE})", big=frame).collect()[0][0]
    assert "LeftSemi" in shown
