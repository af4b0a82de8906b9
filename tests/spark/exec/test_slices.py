"""Slices of time, on Spark: what is chosen, how it is planned, and that results stay."""

from __future__ import annotations

import random
import re

import pytest

from sparkcep.plan.options import elapsed_micros
from sparkcep.settings import ALWAYS, DEFAULT, Settings
from sparkcep.spark.exec.sampling import Sampler
from sparkcep.spark.java import find_java_tool
from sparkcep.sql.rewrite.rewrite import rewrite_all
from tests.property.plan.test_slices_differential import random_query
from tests.selection import first
from tests.spark.compared import differing, rewritten

CUT = "LATERAL VIEW posexplode"
OFF = Settings(slices=False, prefilter=False)
ON = Settings(slices=ALWAYS, prefilter=False)
BOTH = Settings(slices=ALWAYS, prefilter=ALWAYS)


@pytest.fixture(scope="module")
def events(spark):
    """Order keys of several types in step, from below 0, through both changes of the clock in New York; some are NULL. No two of a
    key are equal."""
    rng = random.Random(1)
    rows = []
    for number in range(720):
        k = rng.choice(["NULL", "'a'", "'a'", "'a'", "'b'"])
        t = "NULL" if rng.random() < 0.02 else number - 300
        rows.append(f"({number}, {k}, {t}, '{rng.choice('rxxyz')}', {rng.randrange(10)})")
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW slice_events AS SELECT *, "
        "TIMESTAMP'2026-03-07 00:00:00' + make_dt_interval(0, 0, t * 11) AS ts, "
        "TIMESTAMP_NTZ'2026-03-08 00:00:00' + make_dt_interval(0, 0, t) AS ntz, DATE'1970-02-01' + t AS day, CAST(t AS DOUBLE) / 4 AS real, "
        "CAST(t AS DECIMAL(20, 3)) / 4 AS part "
        f"FROM VALUES {', '.join(rows)} AS e(id, k, t, kind, v)"
    )
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield "slice_events"
    spark.conf.set("spark.sql.session.timeZone", "UTC")


NEXT = "AFTER MATCH SKIP TO NEXT ROW"
M = "MEASURES FIRST(id) AS a, LAST(B.id) AS b, COUNT(*) AS n"
STEPS = "PATTERN (A B+) DEFINE A AS kind = 'r', B AS v >= A.v"
STRICT = f"{NEXT} WINDOW {{}} {STEPS}"
TILL = f"{NEXT} EVENT SELECTION SKIP TILL NEXT MATCH WINDOW {{}} PATTERN (A B) DEFINE A AS kind = 'r', B AS v > A.v"
ANY = "EVENT SELECTION SKIP TILL ANY MATCH WINDOW {} PATTERN (A B) DEFINE A AS kind = 'r', B AS v > A.v"
BEST = "EVENT SELECTION SKIP TILL ANY MATCH WINDOW {} PREF MAX ({}) TOP 2 PATTERN (A B) DEFINE A AS kind = 'r', B AS v {} A.v"
SLID = "MEASURES A.id AS a, B.id AS b, WINDOW_START() AS w, MATCH_RANK() AS r, MATCH_SCORE() AS s"
CLAUSES = {
    "numbers": f"PARTITION BY k ORDER BY t {M} {STRICT.format(4)}",
    "no key": f"ORDER BY t {M} {TILL.format(4)}",
    "parts": f"PARTITION BY k ORDER BY real {M} {TILL.format('1.1')}",
    "decimals": f"PARTITION BY k ORDER BY part {M} {TILL.format('0.6')}",
    "descending": f"PARTITION BY k ORDER BY t DESC NULLS FIRST, id {M} {TILL.format(5)}",
    "time": f"PARTITION BY k ORDER BY ts {M} {TILL.format('INTERVAL 40 MINUTES')}",
    "time without zone": f"PARTITION BY k ORDER BY ntz {M} {ANY.format('INTERVAL 5 MINUTES')}",
    "days": f"PARTITION BY k ORDER BY day {M} {ANY.format('INTERVAL 100 HOURS')}",
    "all rows": f"PARTITION BY k ORDER BY t MEASURES CLASSIFIER() AS c, COUNT(*) AS n ALL ROWS PER MATCH {STRICT.format(4)}",
    "all rows, computed": f"PARTITION BY id % 2, upper(k) ORDER BY t + 1 MEASURES CLASSIFIER() AS c ALL ROWS PER MATCH {ANY.format(5)}",
    "exclusion": f"PARTITION BY k ORDER BY t {M} ALL ROWS PER MATCH {STRICT.format(4).replace('A B+', '{- A -} B+')}",
    "empty matches": f"PARTITION BY k ORDER BY t {M} ALL ROWS PER MATCH OMIT EMPTY MATCHES {STRICT.format(4).replace('A B+', 'A? B*')}",
    "aggregates of Spark": f"PARTITION BY k ORDER BY t MEASURES FIRST(id) AS a, median(v) AS m, sum(DISTINCT B.v) AS d {STRICT.format(5)}",
    "further keys": f"PARTITION BY k ORDER BY t MEASURES A.id AS a, B.id AS b {ANY.format(9).replace('v > A.v', 'v = A.v')}",
    "ranks by the engine": f"PARTITION BY k ORDER BY t {SLID} {BEST.format('6 SLIDE 4', 'B.v - A.v', '>')}",
    "ranks by Spark": f"PARTITION BY k ORDER BY ts {SLID} {BEST.format('INTERVAL 44 MINUTES SLIDE INTERVAL 22 MINUTES', 'B.v * B.v - A.v', '<>')}",
    "ranks by join": f"PARTITION BY k ORDER BY day {SLID} {BEST.format('INTERVAL 6 DAYS SLIDE INTERVAL 2 DAYS', 'A.v * B.v', '>=').replace('v >= A.v', 'v >= 3')}",
    "ranks of windows that look ahead": f"PARTITION BY k ORDER BY t {SLID} {BEST.format('6 SLIDE 5', 'B.v - A.v', '>').replace('(A B)', '(A B ~C)')}, C AS kind = 'z'",
}


FILTERED = ("no key", "all rows", "ranks by the engine")
PARTS = 8


@pytest.mark.parametrize("part", first(range(PARTS), 0, wider=1))
def test_the_result_stays(spark, events, part):
    some = list(CLAUSES.items())[part::PARTS]
    queries = {name: (f"SELECT * FROM {events} MATCH_RECOGNIZE ({clause})", BOTH if name in FILTERED else ON) for name, clause in some}
    for name, (query, settings) in queries.items():
        text = rewritten(spark, query, settings)
        assert CUT in text and CUT not in rewritten(spark, query, OFF), name
        assert ("LEFT SEMI JOIN" in text) is (name in FILTERED), name
    wrong, found = differing(spark, {name: (rewritten(spark, q, settings), rewritten(spark, q, OFF)) for name, (q, settings) in queries.items()})
    assert wrong == set()
    assert found == set(queries), "a case without a match tells nothing"


def test_no_name_of_ours_is_left(spark, events):
    for name in ("all rows", "all rows, computed", "numbers", "ranks by Spark"):
        query = f"SELECT * FROM {events} MATCH_RECOGNIZE ({CLAUSES[name]})"
        cut, whole = (spark.sql(rewritten(spark, query, s)).columns for s in (ON, OFF))
        assert cut == whole and not any(c.startswith("__") for c in cut)


def test_places_are_elapsed_times_if_timestamp_means_a_local_time(spark, events):
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        hours = spark.sql(f"SELECT ({elapsed_micros('ts')} - 1793511000000000) / 3600000000 FROM (SELECT timestamp_seconds(1793511000 + 3600 * id) AS ts FROM range(3))")
        assert [row[0] for row in hours.collect()] == [0, 1, 2]  # 1:30, 1:30 again, and 2:30
    finally:
        spark.conf.unset("spark.sql.timestampType")


@pytest.mark.further
def test_months_functions_and_several_clauses(spark, events):
    clause = f"PARTITION BY k ORDER BY t MEASURES FIRST(id) AS a, MAX(months) AS m, array_agg(months) AS all_of {STRICT.format(4)}"
    inner = f"{events} MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES FIRST(t) AS t, COUNT(*) AS n {TILL.format(5)})"
    queries = [
        f"SELECT a, CAST(m AS STRING), CAST(all_of AS STRING) FROM (SELECT *, make_ym_interval(0, v) AS months FROM {events}) MATCH_RECOGNIZE ({clause})",
        "SELECT * FROM match_recognize(TABLE(slice_events) PARTITION BY k ORDER BY t, '" + f"{M} {TILL.format(4)}".replace("'", "\\'") + "')",
        f"SELECT * FROM ({inner}) MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES FIRST(t) AS a, COUNT(*) AS c {NEXT} WINDOW 9 PATTERN (A B) DEFINE B AS n >= A.n)",
        f"SELECT x.a, y.b FROM {events} MATCH_RECOGNIZE ({CLAUSES['numbers']}) x JOIN {events} MATCH_RECOGNIZE ({CLAUSES['no key']}) y ON x.b = y.b",
    ]
    spark.conf.set("sparkcep.slices", "always")
    try:
        cut = [(frame, frame._jdf.queryExecution().optimizedPlan().toString().count("Generate posexplode")) for frame in map(spark.sql, queries)]
        spark.conf.set("sparkcep.slices", "false")
        for query, (frame, clauses) in zip(queries, cut, strict=True):
            found = sorted(map(repr, frame.collect()))
            assert clauses == query.upper().count("MATCH_RECOGNIZE") and found, query
            assert found == sorted(map(repr, spark.sql(query).collect())), query
    finally:
        spark.conf.unset("sparkcep.slices")


@pytest.mark.further  # what tests/property does in this process, in Spark once more
def test_random_clauses(spark):
    rng = random.Random(3)
    rows = []
    for p in range(4):
        at = -rng.randrange(60)
        for _ in range(60):
            at += rng.choice([1, 1, 2])
            rows.append(f"({p if p else 'NULL'}, {at}, {rng.randrange(4)}, {rng.choice(['NULL', *range(4)])}, '{rng.choice('abcd')}')")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW slices_random AS SELECT * FROM VALUES {', '.join(rows)} AS r(p, id, v, w, s)")
    queries: dict[str, tuple[str, Settings]] = {}
    while len(queries) < 8:
        clause = random_query(rng, ("plain", "negation", "conjunction"))
        clause.window = ("range", rng.choice([2, 3]))
        query = f"SELECT * FROM slices_random MATCH_RECOGNIZE ({clause.to_sql()})"
        if CUT in rewritten(spark, query, ON):
            queries[f"q{len(queries)}"] = query, ON
    wrong, found = differing(spark, {name: (rewritten(spark, q, settings), rewritten(spark, q, OFF)) for name, (q, settings) in queries.items()})
    assert wrong == set(), [queries[name] for name in wrong]
    assert len(found) >= 4


# -- planning -----------------------------------------------------------------------------------------------


def physical(spark, query):
    plan = spark.sql(query)._jdf.queryExecution().executedPlan().toString()
    return re.sub(r"--sparkcep.*|\{\"variables\":.*?\"given\":\[.*?\]\}", "", plan)


@pytest.mark.further
def test_planning(spark, events):
    if not hasattr(spark, "_jvm") or find_java_tool("javac") is None:
        pytest.skip("a classic session with a Java compiler is needed")
    spark.table(events).write.mode("overwrite").bucketBy(3, "k").saveAsTable("slice_buckets")
    found = f"MATCH_RECOGNIZE ({CLAUSES['numbers']})"
    grouped = "SELECT k, sum(n) AS s, count(*) AS c FROM {} " + found + " GROUP BY k"
    spark.conf.set("sparkcep.slices", "always")
    try:
        plan = physical(spark, f"SELECT * FROM slice_buckets {found} WHERE k = 'a' AND n > 2")
        above, below = plan.split("Exchange hashpartitioning", 1)
        assert "MapInArrow match_recognize" in above and "ArrowEvalPythonUDTF" not in plan
        assert "= a" not in above and "= a" in below and "Generate posexplode" in below
        totals = {}
        for table in (events, "slice_buckets"):
            # the rows of a key come out of several tasks: buckets do not spare the exchange, nor does the clause spare that of
            # GROUP BY
            plan = physical(spark, grouped.format(table))
            assert len(re.findall(r"\bExchange hashpartitioning\(__p0#\d+, __slice#\d+", plan)) == 1, plan
            assert len(re.findall(r"\bExchange ", plan)) == 2, plan
            totals[table] = sorted(map(repr, spark.sql(grouped.format(table)).collect()))
        spark.conf.set("sparkcep.slices", "false")
        assert totals[events] == totals["slice_buckets"] == sorted(map(repr, spark.sql(grouped.format(events)).collect()))
        assert len(totals[events]) == 3
    finally:
        spark.sql("DROP TABLE slice_buckets")
        spark.conf.unset("sparkcep.slices")


@pytest.mark.further
def test_where_the_parser_alone_sees_the_statement(spark, events):
    if not hasattr(spark, "_jvm") or find_java_tool("javac") is None:
        pytest.skip("a classic session with a Java compiler is needed")
    counted = "SELECT count(*), sum(a), sum(b) FROM {} MATCH_RECOGNIZE ({})"
    for key, window in (("ts DESC", "INTERVAL 40 MINUTES"), ("real", "1.1")):
        query = counted.format(events, f"ORDER BY {key} {M} {NEXT} WINDOW {window} PATTERN (A B) DEFINE B AS v > A.v")
        frame = spark.sql(f"EXECUTE IMMEDIATE '{query}'")
        assert "Generate posexplode" in frame._jdf.queryExecution().optimizedPlan().toString()
        assert frame.collect() == spark.sql(rewritten(spark, query, OFF)).collect() and frame.first()[0] > 50


# -- by share -----------------------------------------------------------------------------------------------


def told(spark, source, clause, settings=DEFAULT, tasks=4, head="SELECT"):
    sampler = Sampler(spark.sql, settings, True, lambda: tasks)
    return rewrite_all(f"{head} * FROM {source} MATCH_RECOGNIZE ({clause})", settings, choose=sampler)[1][-1].slicing


BIG = "(SELECT {} AS k, id AS t, CAST(id AS STRING) AS s, id % 100 AS v FROM range(1000000))"
LONG = f"PARTITION BY k ORDER BY t MEASURES A.t AS a {NEXT} WINDOW 5 PATTERN (A B) DEFINE B AS v > A.v"
EVEN, HALF = BIG.format("id % 100"), BIG.format("IF(id % 2 = 0, 0, id % 100)")
CHOICES = {
    "even keys": (EVEN, LONG, False, "the key with most has an estimated 1% of all, and 4 tasks run at a time"),
    "one large key": (HALF, LONG, True, "of 20,000 sampled rows, the key with most has an estimated 50% of all, and 4 tasks"),
    "one key": (BIG.format("7"), LONG, True, "the key with most has an estimated 100% of all"),
    "no key": (EVEN, LONG.replace("PARTITION BY k", ""), True, "the clause lacks PARTITION BY, and its table has about"),
    "a small table": (HALF.replace("1000000", "1000"), LONG, False, "its table is small"),
    "small without a key": (HALF.replace("1000000", "1000"), LONG.replace("PARTITION BY k", ""), False, "its table is small"),
    "key by key": (BIG.format("id DIV 5000"), LONG, False, "has at least 1% of all, and 4 tasks run at a time; rows come key by key"),
    "more than a scan": (f"(SELECT * FROM {HALF} JOIN range(900000) r ON t = r.id)", LONG, False, "more than a scan (Join), which a sample"),
    "a clause within": (f"(SELECT *, t AS v FROM {HALF} MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES A.t AS t PATTERN (A)))", LONG, False, "it holds a clause"),
    "no such table": ("nowhere", LONG, False, "cannot be read by itself"),
    "a string": (HALF, LONG.replace("ORDER BY t", "ORDER BY s"), False, "WINDOW 5 does not measure an order key of string"),
    "a number for an interval": (HALF, LONG.replace("WINDOW 5", "WINDOW INTERVAL 5 MINUTES"), False, "does not measure an order key of bigint"),
}


@pytest.mark.parametrize("name", CHOICES)
def test_what_is_chosen(spark, name):
    source, clause, cut, reason = CHOICES[name]
    found = told(spark, source, clause)
    assert (found.slices is not None) is cut and reason in found.note, found
    assert told(spark, source, clause, Settings(slices=False)).note == ""


def test_tasks_and_statements_kept_for_later(spark):
    assert told(spark, HALF, LONG, tasks=3).slices is None
    assert "one task runs" in told(spark, HALF, LONG.replace("PARTITION BY k", ""), tasks=1).note
    assert "kept for later" in told(spark, HALF, LONG, head="CREATE TEMPORARY VIEW sliced AS SELECT").note
    assert told(spark, HALF, LONG, Settings(slices=ALWAYS), tasks=1).note == "sparkcep.slices is always"
    assert Sampler.of(spark, DEFAULT, spark.sql).tasks() == min(
        int(spark.conf.get("spark.sql.shuffle.partitions")), spark.sparkContext.defaultParallelism
    )


def test_one_sample_serves_the_filter_and_the_slices(spark, monkeypatch):
    asked = []
    sampled = Sampler._sample
    monkeypatch.setattr(Sampler, "_sample", lambda self, *of: asked.append(of) or sampled(self, *of))
    clause = LONG.replace("DEFINE", "DEFINE A AS v = 98 + 1,")
    found = rewrite_all(f"SELECT * FROM {HALF} MATCH_RECOGNIZE ({clause})", choose=Sampler(spark.sql, DEFAULT, True, lambda: 4))[1][0]
    assert found.slicing.slices is not None and "sampled rows" in found.filtering.note and len(asked) == 1


def test_errors_keep_their_words(spark):
    from sparkcep.errors import ClauseError

    with pytest.raises(Exception, match="does not fit|WINDOW") as caught:  # noqa: PT011
        spark.sql(f"SELECT * FROM {HALF} MATCH_RECOGNIZE ({LONG.replace('ORDER BY t', 'ORDER BY s')})")
    assert isinstance(caught.value, ClauseError) or "SPARKCEP.WINDOW_SIZE" in str(caught.value)
