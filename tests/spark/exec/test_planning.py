"""What the JVM's extension makes of the table function's call: rows equal to those of Spark's own operator, less work."""

from __future__ import annotations

import re

import pytest
from pyspark.errors import PySparkException

import sparkcep
from sparkcep.plan import json as plan_json
from sparkcep.plan.plan import Plan
from sparkcep.spark.exec.physical_plan import nodes
from sparkcep.spark.java import find_java_tool
from tests.selection import first, further, slow
from tests.spark.configured import configured

pytestmark = pytest.mark.codegen  # it is of Spark's plans

CLAUSE = """planned MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY ts
  MEASURES FIRST(p) AS f, LAST(U.p) AS l, SUM(U.x) AS sx, COUNT(*) AS n, MATCH_NUMBER() AS mn, CLASSIFIER() AS c
  {rows}
  PATTERN (A U+)
  DEFINE U AS p > PREV(p) AND y <> '3')"""
COLUMNS = ("count(*)", "k, f", "K, mn, n, l", "max(sx)", "c, ts - ts")
FILTERS = (
    "", "WHERE k IN (2, 3)", "WHERE k = 1 AND f > 10", "WHERE k = 1 OR f > 10", "WHERE k IS NULL", "WHERE k + 1 = 3 AND rand(3) < 2",
    "WHERE k = (SELECT max(k) - 1 FROM planned)",
)
PARTS = 6


@pytest.fixture(scope="module")
def planned(spark):
    if not hasattr(spark, "_jvm"):
        pytest.skip("a classic session is needed")
    if find_java_tool("javac") is None:
        pytest.skip("no Java compiler: Spark's own operator runs the function")
    spark.sql(
        """CREATE OR REPLACE TEMP VIEW planned AS
        SELECT IF(id % 6 = 5, NULL, id % 6) AS k, id AS ts, CAST(hash(id) % 100 AS DOUBLE) AS p, id * 2 AS x, CAST(id % 57 AS STRING) AS y, array(id) AS more,
          IF(id % 6 < 2, -0.0D, 0.0D) AS z, timestamp_micros(id) AS at
        FROM range(600)"""
    )
    yield spark
    spark.conf.unset("sparkcep.mapInArrow")
    spark.conf.unset("sparkcep.prefilter")


def both_ways(spark, query: str) -> tuple[list, list]:
    found = []
    for on in ("true", "false"):
        spark.conf.set("sparkcep.mapInArrow", on)
        spark.conf.set("sparkcep.prefilter", on)
        found.append(sorted(map(tuple, spark.sql(query).collect()), key=repr))
    spark.conf.set("sparkcep.mapInArrow", "true")
    spark.conf.set("sparkcep.prefilter", "true")
    return found[0], found[1]


def physical(spark, query: str) -> str:
    """The physical plan less the clause's own."""
    plan = spark.sql(query)._jdf.queryExecution().executedPlan().toString()
    return re.sub(r"--sparkcep.*|\{\"variables\":.*?\"given\":\[.*?\]\}", "", plan)


@pytest.mark.parametrize("part", [further(part) if part == 1 else slow(part) for part in range(PARTS)])
@pytest.mark.parametrize("rows", first(["", "ALL ROWS PER MATCH WITH UNMATCHED ROWS", "ALL ROWS PER MATCH"], wider=2))
def test_rows_are_those_of_the_table_function(planned, rows, part):
    """Columns under filters, each with some of the others in each part."""
    clause = CLAUSE.format(rows=rows)
    branches, whole = [], set()
    for i, (c, f) in enumerate((c, f) for c in range(len(COLUMNS)) for f in range(len(FILTERS))):
        if (c + f) % PARTS != part or ("ts" in COLUMNS[c] and not rows):
            continue
        branches.append(f"SELECT {i} AS i, to_json(struct(*)) AS row FROM (SELECT {COLUMNS[c]} FROM {clause} {FILTERS[f]})")
        whole |= {i} if not FILTERS[f] else set()
    ours, sparks = both_ways(planned, "\nUNION ALL ".join(branches))
    assert ours == sparks
    assert whole and {i for i, _ in ours} >= whole


def test_it_runs_as_map_in_arrow(planned):
    query = "SELECT * FROM " + CLAUSE.format(rows="")
    plan = physical(planned, query)
    assert "MapInArrow match_recognize" in plan and "ArrowEvalPythonUDTF" not in plan
    planned.conf.set("sparkcep.mapInArrow", "false")
    assert "ArrowEvalPythonUDTF match_recognize" in physical(planned, query)
    planned.conf.set("sparkcep.mapInArrow", "true")
    explained = planned.sql("EXPLAIN " + query).first()[0]
    assert "--sparkcep engine: exact" in explained


def test_an_explanation_has_no_character_that_is_not_printed_and_nodes_no_plan(planned):
    query = "SELECT * FROM (SELECT *, CAST(k AS STRING) AS word FROM planned) MATCH_RECOGNIZE (PARTITION BY word ORDER BY ts MEASURES LAST(p) AS l PATTERN (A B))"
    explained = planned.sql("EXPLAIN EXTENDED " + query).first()[0]
    assert "EndsWith(" in explained and "chr(0)" in explained and "\0" not in explained
    planned.sql(query).collect()
    store = planned._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    nodes = store.planGraph(executions.apply(executions.size() - 1).executionId()).allNodes()
    shown = [nodes.apply(i).desc() for i in range(nodes.size())]
    assert any("MapInArrow match_recognize()" in text for text in shown) and not any('"variables"' in text or "--sparkcep" in text for text in shown)


def test_a_filter_on_keys_goes_to_the_scan(planned):
    plan = physical(planned, f"SELECT * FROM {CLAUSE.format(rows='')} WHERE k = 1 AND f > 3")
    above, below = plan.split("Exchange", 1)
    assert re.search(r"Filter.*__l0#\d+ > 3.0", above) and " = 1)" not in above
    assert re.search(r"Filter.* = 1\)", below) and "__l0" not in below
    planned.conf.set("sparkcep.prefilter", "false")
    plan = physical(planned, f"SELECT * FROM {CLAUSE.format(rows='')} WHERE k = 1 AND f > 3")
    assert "= 1)" in plan.split("Exchange", 1)[0]
    planned.conf.set("sparkcep.prefilter", "true")


@pytest.mark.further
def test_a_filter_on_floating_keys_stays_above(planned):
    clause = "planned MATCH_RECOGNIZE (PARTITION BY z ORDER BY ts MEASURES COUNT(*) AS n PATTERN (A+))"
    for sign in ("-0.0", "0.0"):  # one partition holds both, and tells one of them
        query = f"SELECT n FROM {clause} WHERE CAST(z AS STRING) = '{sign}'"
        above, below = physical(planned, query).split("Exchange", 1)
        assert "Filter" in above and "Filter" not in below
        ours, sparks = both_ways(planned, query)
        assert ours == sparks


def test_a_column_that_differs_from_a_key_by_case_is_not_the_key(planned):
    clause = "(SELECT k, ts % 5 AS K, ts FROM planned) MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts ALL ROWS PER MATCH PATTERN (A+))"
    with configured(planned, {"spark.sql.caseSensitive": "true"}):
        assert planned.sql(f"SELECT K, count(*) FROM {clause} WHERE K = 4 GROUP BY K").collect() == [(4, 120)]
        assert [len(re.findall(r"\bExchange ", physical(planned, f"SELECT {k}, count(*) FROM {clause} GROUP BY {k}"))) for k in ("k", "K")] == [1, 2]


def test_a_random_filter_on_keys_stays_above(planned):
    plan = physical(planned, f"SELECT * FROM {CLAUSE.format(rows='')} WHERE k + rand(3) > 2")
    above, below = plan.split("Exchange", 1)
    assert re.search(r"Filter.*rand\(3\)", above) and "rand" not in below


@pytest.mark.further
def test_what_ranks_matches_is_kept(planned):
    clause = """planned MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES MATCH_SCORE() AS s, MATCH_RANK() AS r, A.x AS ax, C.p AS cp
      EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A C) WINDOW 60 PREF MAX (A.x + C.p) TOP 3 DEFINE A AS p > 50, C AS p > 60)"""
    queries = [f"SELECT {i} AS i, to_json(struct(*)) AS row FROM (SELECT {columns} FROM {clause})" for i, columns in enumerate(("count(*)", "s", "r", "k, ax", "max(cp)"))]
    ours, sparks = both_ways(planned, "\nUNION ALL ".join(queries))
    assert ours == sparks and {i for i, _ in ours} == set(range(len(queries)))


@pytest.mark.parametrize("rows", ["", "ALL ROWS PER MATCH"])
def test_what_nobody_reads_is_not_shipped(planned, rows):
    columns = "k, f" if not rows else "k, ts, f"
    plan = physical(planned, f"SELECT {columns} FROM {CLAUSE.format(rows=rows)}")
    operator, below = plan.split("MapInArrow", 1)[1].split("Exchange", 1)
    output = operator.split("[", 1)[1].split("]", 1)[0]
    assert [name for name in ("__l1", "__l2", "__l3", "__l4", "__l5", "more", "x#") if name in output] == []
    assert "__l0" in output
    assert "array(" not in below  # 'more' is not even computed
    assert "% 57" in below and "* 2" not in below  # a condition reads y; nothing reads x


def test_rows_that_nobody_reads_are_shipped_with_one_column(planned):
    clause = "planned MATCH_RECOGNIZE (ORDER BY ts MEASURES LAST(p) AS l, LAST(x) AS x, COUNT(*) AS n PATTERN (A{3}))"
    query = f"SELECT count(*) FROM {clause}"
    below = physical(planned, query).split("MapInArrow", 1)[1].split("Exchange", 1)[0]
    assert both_ways(planned, query)[0] == [(200,)]
    assert re.search(r"Project \[SPARK_PARTITION_ID\(\) AS __row#\d+\]\n", below), below


RUNS = """MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES FIRST(ts) AS ts, COUNT(*) AS n
  PATTERN (A U+) DEFINE U AS p > PREV(p))"""
LONGER = "MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES COUNT(*) AS m PATTERN (A U+) DEFINE U AS n > PREV(n))"


def check_exchanges(spark, queries: dict[str, int]) -> None:
    """That each query gives the rows of Spark's own operator, with so many exchanges."""
    for query, exchanges in queries.items():
        ours, sparks = both_ways(spark, query)
        assert ours == sparks and ours, query
        assert len(re.findall(r"\bExchange ", physical(spark, query))) == exchanges, query


@pytest.mark.further
@pytest.mark.parametrize("adaptive", ["true", pytest.param("false", marks=pytest.mark.slow)])
def test_rows_that_lie_together_are_not_exchanged_again(planned, adaptive):
    planned.table("planned").write.mode("overwrite").bucketBy(3, "k").saveAsTable("planned_buckets")
    queries = {
        f"SELECT * FROM planned_buckets {RUNS}": 0,
        f"SELECT * FROM planned {RUNS}": 1,
        f"SELECT * FROM (SELECT * FROM planned {RUNS}) {LONGER}": 1,
        f"SELECT k, m + 1 AS m FROM (SELECT k, ts, n FROM planned {RUNS} WHERE n < 9) {LONGER}": 1,
        f"SELECT k, sum(n) AS s FROM planned {RUNS} GROUP BY k": 1,
        f"SELECT k, sum(p) AS s FROM planned {RUNS.replace('PATTERN', 'ALL ROWS PER MATCH PATTERN')} GROUP BY k": 1,
        f"SELECT n, count(*) AS c FROM planned {RUNS} GROUP BY n": 2,
        f"SELECT x.n, y.m FROM planned {RUNS} x JOIN planned {LONGER.replace('n >', 'p >').replace('(n)', '(p)')} y USING (k) WHERE x.n > y.m": 2,
        f"SELECT k, sum(n) AS s FROM (SELECT k, n FROM planned {RUNS} UNION ALL SELECT k, max(p) FROM planned GROUP BY k) GROUP BY k": 2,
        f"SELECT * FROM planned {RUNS} EXCEPT ALL SELECT k, ts, 3 FROM planned": 2,
        f"SELECT * FROM (SELECT k + 1 AS k, ts, n FROM planned {RUNS}) {LONGER}": 2,
        f"SELECT * FROM (SELECT n AS k, ts, n FROM planned {RUNS}) {LONGER.replace('n > PREV(n)', 'ts > PREV(ts)')}": 2,
    }
    planned.conf.set("spark.sql.adaptive.enabled", adaptive)
    planned.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        check_exchanges(planned, queries)
        kept = planned.sql(f"SELECT * FROM planned {RUNS}").cache()
        assert sorted(map(tuple, kept.collect()), key=repr) == both_ways(planned, f"SELECT * FROM planned {RUNS}")[0]
        kept.unpersist()
    finally:
        planned.sql("DROP TABLE planned_buckets")
        planned.conf.unset("spark.sql.adaptive.enabled")
        planned.conf.unset("spark.sql.autoBroadcastJoinThreshold")


WORDS = "CASE k WHEN 0 THEN '' WHEN 1 THEN 'short' WHEN 2 THEN 'of eight' WHEN 3 THEN concat('short', char(0)) WHEN 4 THEN 'nine byte' END"


@pytest.fixture(scope="module")
def worded(planned):
    planned.sql(f"CREATE OR REPLACE TEMP VIEW worded AS SELECT {WORDS} AS k, * EXCEPT (k) FROM planned")
    return planned


@pytest.mark.parametrize("rows", first(["ALL ROWS PER MATCH", ""], 0, wider=2))
def test_keys_of_any_length(worded, rows):
    columns = "k, ts, f, n" if rows else "k, f, n"
    query = f"SELECT {columns}, hex(k) AS bytes FROM {CLAUSE.format(rows=rows).replace('planned', 'worded')}"
    ours, sparks = both_ways(worded, query)
    assert ours == sparks
    assert {row[0] for row in ours} == {"", "short", "of eight", "short\0", "nine byte", None}
    assert "sortprefix(" in physical(worded, query)
    interpreted = {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.codegen.wholeStage": "false"}
    before = {key: worded.conf.get(key) for key in interpreted}
    try:
        for key, value in interpreted.items():
            worded.conf.set(key, value)
        assert both_ways(worded, query)[0] == sparks
    finally:
        for key, value in before.items():
            worded.conf.set(key, value)
    collated = "SELECT * FROM (SELECT k COLLATE UTF8_LCASE AS k, ts, p FROM worded) MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES COUNT(*) AS n PATTERN (A+))"
    with pytest.raises(Exception, match="collation"):
        worded.sql(collated)


@pytest.mark.further
def test_rows_of_equal_words_lie_together(worded):
    queries = {
        f"SELECT * FROM (SELECT * FROM worded {RUNS}) {LONGER}": 1,
        f"SELECT k, sum(n) AS s FROM worded {RUNS} GROUP BY k": 1,
        f"SELECT k, sum(p) AS s FROM worded {RUNS.replace('PATTERN', 'ALL ROWS PER MATCH PATTERN')} GROUP BY k": 1,
        f"SELECT x.n, y.n AS m FROM worded {RUNS} x JOIN (SELECT k, count(*) AS n FROM worded GROUP BY k) y USING (k)": 2,
    }
    worded.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        check_exchanges(worded, queries)
    finally:
        worded.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def test_a_column_under_several_names_is_exchanged_and_shipped_once(worded):
    clause = """MATCH_RECOGNIZE (PARTITION BY k, x ORDER BY x, p DESC MEASURES SUM(x) AS s, FIRST(k) AS f ALL ROWS PER MATCH
      PATTERN (A U*) DEFINE U AS p > PREV(p) AND x = PREV(x))"""
    query = f"SELECT * FROM (SELECT k, x % 7 AS x, p FROM worded) {clause}"
    ours, sparks = both_ways(worded, query)
    assert ours == sparks and ours
    blocks = physical(worded, query).split("MatchBlocks", 1)[1]
    columns = re.search(r"Project \[(.*)\]\n", blocks)[1]
    assert re.findall(r"(k|null|x|p)(?:#\d+L?)?(?: ASC NULLS FIRST\))? AS column_\d", columns) == ["k", "null", "x", "p"], columns
    worded.conf.set("sparkcep.exchange", "rows")
    plan = physical(worded, query)
    worded.conf.unset("sparkcep.exchange")
    operator, sort = plan.split("MapInArrow", 1)[1].split("Sort [", 1)
    shipped = re.search(r"Project \[(.*)\]\n", operator)[1]
    assert re.findall(r"sortprefix\(k#|null AS k#|(?<=, )\w+#(?=\d+L?(?:,|$))", shipped) == ["sortprefix(k#", "null AS k#", "x#", "p#"], shipped
    exchanged = sort.split("Exchange", 1)[1].split("Project [", 1)[1].split("]\n", 1)[0]
    assert re.findall(r"__\w+", exchanged) == [], exchanged


def test_timestamps_of_the_session_zone(planned):
    clause = """planned MATCH_RECOGNIZE (PARTITION BY k ORDER BY at MEASURES FIRST(at) AS a, LAST(at) AS b, array_agg(at) AS all_of PATTERN (A{3}))"""
    planned.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        ours, sparks = both_ways(planned, f"SELECT *, CAST(a AS STRING) FROM {clause}")
    finally:
        planned.conf.set("spark.sql.session.timeZone", "UTC")
    assert ours == sparks and ours


def test_a_call_without_columns_is_left_to_the_table_function(planned):
    clause = "planned MATCH_RECOGNIZE (ORDER BY 1 MEASURES COUNT(*) AS n, MAX(ts) AS m, 'one' AS c PATTERN (A+))"
    queries = [f"SELECT {i} AS i, to_json(struct(*)) AS row FROM (SELECT {columns} FROM {clause})" for i, columns in enumerate(("count(*)", "n", "c"))]
    ours, sparks = both_ways(planned, "\nUNION ALL ".join(queries))
    assert ours == sparks and [i for i, _ in ours] == [0, 1, 2]


def test_batches_are_bounded_by_rows_alone_unless_the_user_says_otherwise(planned):
    import sparkcep

    key = "spark.sql.execution.arrow.maxBytesPerBatch"
    assert planned.conf.get(key) == "2147483647"
    other = planned.newSession()
    other.conf.set(key, "1000000")
    sparkcep.enable(other)
    assert other.conf.get(key) == "1000000"
    planned.range(5).createOrReplaceGlobalTempView("five")
    query = "SELECT * FROM global_temp.five MATCH_RECOGNIZE (ORDER BY id MEASURES COUNT(*) AS n, MAX(id) AS m PATTERN (A+))"
    rows = other.sql(query).collect()
    assert [tuple(r) for r in rows] == [(5, 4)]
    assert "MapInArrow" in physical(other, query)


def sent_to_python(spark, query: str) -> int:
    """Bytes that the engine's operator sent to its workers to collect a query's rows."""
    frame = spark.sql(query)
    frame.collect()
    plan = nodes(frame._jdf.queryExecution().executedPlan())
    sent = [node.metrics().apply("pythonDataSent").value() for _, node in plan if node.nodeName().startswith("MapInArrow")]
    (found,) = sent
    return found


def test_a_limit_stops_early(planned):
    partitions = planned.conf.get("spark.sql.shuffle.partitions")
    planned.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    planned.conf.set("spark.sql.shuffle.partitions", "16")  # a limit's first job takes one of them
    query = """SELECT * FROM (SELECT id % 64 AS k, id AS ts FROM range(20000)) MATCH_RECOGNIZE (
      PARTITION BY k ORDER BY ts MEASURES A.ts AS at PATTERN (A) DEFINE A AS k >= 0)"""
    try:
        assert 0 < 4 * sent_to_python(planned, query + " LIMIT 3") < sent_to_python(planned, query)
    finally:
        planned.conf.set("spark.sql.shuffle.partitions", partitions)
        planned.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")


def test_the_jvm_refuses_a_plan_of_another_format(planned, monkeypatch):
    """Where Python would take it. A session that is enabled twice is as one that was enabled once."""
    sparkcep.enable(planned)
    written = Plan.to_json
    monkeypatch.setattr(Plan, "to_json", lambda plan: written(plan).replace(f'"format":{plan_json.FORMAT},', '"format":99,'))
    monkeypatch.setattr(plan_json, "check_version", lambda found, known: None)
    with pytest.raises(PySparkException, match=r"made by sparkcep .* \(format 99\) was given to a JVM that reads format") as caught:
        planned.sql(f"SELECT * FROM {CLAUSE.format(rows='')}").collect()
    assert caught.value.getCondition() == "SPARKCEP.VERSION"
