"""The totals of a clause with BUDGET: metrics of Spark's plan, ``budget_totals``, the report."""

from __future__ import annotations

import random
import re
from fractions import Fraction

import pytest
from pyspark.errors import ParseException

import sparkcep
from sparkcep.spark.exec.budget_metrics import BudgetTotals
from tests.oracle import budget as oracle
from tests.selection import first, one_in, slow

CLAUSE = """(
  PARTITION BY p ORDER BY t
  MEASURES LAST(t) AS t, COMPLETE() AS complete, CHECKS_LEFT_OUT() AS left_out, COVERAGE() AS coverage
  PATTERN (A B C) WINDOW 6
  APPROX 1 BUDGET 1 CHECKS {history}
  DEFINE A AS s = 'a', B AS s = 'b', C AS s = 'c')"""
# at each place without errors two bundles, and the same ones for each visit with an error
HISTORY = """VALUES (NULL, 1, 0D, 1, 0, 4L, 1L, array(0)), (NULL, 2, 0D, 1, 0, 4L, 1L, array(0, 1)), (NULL, 2, 1D, 1, 0, 4L, 1L, array(2)), (NULL, 3, 1D, 1, 0, 4L, 1L, array(1, 2))
  AS h(pattern, place, errors, remaining, idle, visits, points, bundles)"""
VECTORS = {(1, 0, 1, 0): (4, (0,)), (2, 0, 1, 0): (4, (0, 1)), (2, 1, 1, 0): (4, (2,)), (3, 1, 1, 0): (4, (1, 2))}


@pytest.fixture(scope="module")
def streams(spark):
    """Letters by partition, times being places; the table is ``budget_letters``."""
    rng = random.Random("totals")
    found = ["".join(rng.choice("aabcd") for _ in range(rng.randrange(5, 30))) for _ in range(12)]
    rows = ", ".join(f"({p}, {t}, '{s}')" for p, letters in enumerate(found) for t, s in enumerate(letters))
    spark.sql(f"CREATE OR REPLACE TEMP VIEW budget_letters AS SELECT * FROM VALUES {rows} AS x(p, t, s)")
    return found


def wanted(streams, published=False) -> BudgetTotals:
    """The totals by the oracle."""
    pattern = ("cat", [("var", "A"), ("var", "B"), ("var", "C")])
    takes = {name: {name.lower()} for name in "ABC"}
    query = oracle.Budgeted(pattern, takes, Fraction(1), {}, 6, True, 1)
    if published:
        query.intervals, query.history = 1, {(place, Fraction(errors), remaining, idle): told for (place, errors, remaining, idle), told in VECTORS.items()}
    counts, lost = [0, 0, 0, 0, 0], Fraction(0)
    for letters in streams:
        times = list(range(len(letters)))
        answer = query.answer(letters, times)
        short = [row for row, left in answer.left.items() if left]
        within = [sum(answer.left[j] for j in oracle.reach(point, times, 6)) for point in answer.matches]
        for i, n in enumerate((sum(answer.tried.values()), sum(answer.left.values()), len(short), len(within), within.count(0))):
            counts[i] += n
        lost += sum(1 - answer.coverage[row] for row in short)
    return BudgetTotals(*counts, coverage=pytest.approx(float(1 - lost / counts[2]), abs=1e-5))


def of_ui(spark) -> dict[str, int]:
    """The metrics of MatchBudget that Spark's UI shows for the last execution that has some."""
    spark._jsparkSession.sparkContext().listenerBus().waitUntilEmpty()
    store = spark._jsparkSession.sharedState().statusStore()
    listed = store.executionsList()
    for i in reversed(range(listed.size())):
        of = [listed.apply(i).metrics().apply(j) for j in range(listed.apply(i).metrics().size())]
        if any(m.name() == "checks" for m in of):
            values = store.executionMetrics(listed.apply(i).executionId())
            # an adaptive plan that is made anew has other metrics, and those of the first one have no values
            told = [m for m in of if m.name() in ("checks", "checks left out", "rows with checks left out") and values.contains(m.accumulatorId())]
            return {m.name(): int(values.apply(m.accumulatorId()).replace(",", "")) for m in told}
    return {}


@pytest.mark.codegen
def test_totals_of_a_query_are_those_of_all_its_rows(spark, streams):
    expected = wanted(streams)
    assert expected.left_out > 20 < expected.checks and 0 < expected.complete < expected.matches and expected.coverage == 1
    shown = {"checks": expected.checks, "checks left out": expected.left_out, "rows with checks left out": expected.rows}
    spark.conf.set("spark.sql.adaptive.enabled", "false")  # an adaptive plan keeps its rows, and does not run again
    try:
        frame = spark.sql(f"SELECT * FROM budget_letters MATCH_RECOGNIZE {CLAUSE.format(history='')}")
        assert sparkcep.budget_totals(frame) == [BudgetTotals(0, 0, 0, 0, 0, 1.0)]
        for _ in range(2):  # of a second run they are not added to those of the first
            rows = frame.collect()
            assert sparkcep.budget_totals(frame) == [expected] and len(rows) == expected.matches
            assert of_ui(spark) == shown
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    assert "MatchBudget" in (plan := frame._jdf.queryExecution().executedPlan().toString()) and "BudgetTotals" not in plan


@pytest.mark.further
@pytest.mark.codegen
def test_the_coverage_of_rows_at_which_checks_were_left_out(spark, streams):
    expected = wanted(streams, published=True)
    assert expected.coverage.expected < 0.9
    clause = CLAUSE.format(history="USING HISTORY h AS PUBLISHED")
    text = f"WITH h AS (SELECT * FROM {HISTORY}) SELECT * FROM budget_letters MATCH_RECOGNIZE {clause}"
    frame = spark.sql(text)
    frame.collect()
    assert of_ui(spark)["checks"] == expected.checks
    frame.collect()
    assert sparkcep.budget_totals(frame) == [expected]
    page = sparkcep.report(spark, text)
    cells = dict(re.findall(r'<td>([^<]+)</td><td[^>]*>([^<]+)</td>', page))
    found = {name: cells[name] for name in ("checks", "checks left out", "rows with checks left out", "complete matches", "coverage of those rows")}
    (seen,) = sparkcep.budget_totals(frame)
    assert list(found.values()) == [*map(str, (seen.checks, seen.left_out, seen.rows, seen.complete)), f"{seen.coverage:.3f}"]


@pytest.mark.further
@pytest.mark.codegen
def test_each_clause_of_a_query_has_totals_and_so_has_an_insert(spark, streams, tmp_path):
    expected = wanted(streams)
    one = f"SELECT p, t FROM budget_letters MATCH_RECOGNIZE {CLAUSE.format(history='')}"
    both = spark.sql(f"{one} UNION ALL {one.replace('1 CHECKS', '1000 CHECKS')}")
    both.collect()
    short, whole = sparkcep.budget_totals(both)
    assert short == expected and whole.left_out == 0 and whole.matches == whole.complete and whole.checks > short.checks
    spark.sql(f"CREATE TABLE budget_out (p INT, t INT) USING parquet LOCATION '{tmp_path / 'out'}'")
    try:
        assert sparkcep.budget_totals(spark.sql(f"INSERT INTO budget_out {one}")) == [expected]
    finally:
        spark.sql("DROP TABLE budget_out")
    cached = spark.sql(one).persist()
    try:
        cached.count()
        assert sparkcep.budget_totals(cached) == [expected]
    finally:
        cached.unpersist()
    assert sparkcep.budget_totals(spark.sql("SELECT 1")) == []


@pytest.mark.further
def test_values_of_other_accumulators_go_where_they_went(spark, streams):
    """A Python function in the same stage, and the same workers, has accumulators of its own."""
    calls = spark.sparkContext.accumulator(0)
    rows = spark.sql(f"SELECT * FROM budget_letters MATCH_RECOGNIZE {CLAUSE.format(history='')}").rdd.map(lambda row: calls.add(1) or row).count()
    assert calls.value == rows == wanted(streams).matches


# -- BUDGET INTERVAL ---------------------------------------------------------------------------------------------------

TIMED = """SELECT * FROM budget_rows MATCH_RECOGNIZE (
  PARTITION BY p ORDER BY t MEASURES LAST(t) AS t, CHECKS_ALLOWED() AS allowed
  PATTERN (A B) WINDOW 1000 APPROX 0 ALL MATCHES BUDGET INTERVAL '5' MICROSECONDS PER ROW DEFINE A AS t >= 0, B AS t >= 0)"""


@pytest.fixture
def clock(spark):
    """Sets the clock of BUDGET INTERVAL."""
    yield lambda text: spark.conf.set("sparkcep.budget.clock", text)
    spark.conf.unset("sparkcep.budget.clock")


def test_totals_of_an_interval(spark, clock):
    """Two partitions of 256 rows: four blocks each."""
    spark.range(512).selectExpr("id DIV 256 AS p", "id % 256 AS t").createOrReplaceTempView("budget_rows")
    clock("counted:200,400")
    found = spark.sql(TIMED)
    rows = found.collect()
    assert {row.allowed for row in rows if row.t < 64} == {8} and {row.allowed for row in rows if row.t >= 64} == {11, 12}
    (totals,) = sparkcep.budget_totals(found)
    assert (totals.blocks, totals.late_blocks, totals.refills, totals.least, totals.greatest, totals.clock) == (8, 0, 0, 512, 765, "counted:200,400")
    assert sorted(rows) == sorted(spark.sql(TIMED).collect())


def level(frame) -> str:
    """The level of determinism that Spark assumes of the rows."""
    return frame._jdf.queryExecution().toRdd().outputDeterministicLevel().toString()


@pytest.mark.parametrize("text, wanted", [slow(pytest.param("thread", "INDETERMINATE")), ("wall", "INDETERMINATE"), ("counted:1,1", "UNORDERED")])
def test_spark_knows_what_is_not_repeatable(spark, clock, text, wanted):
    spark.range(512).selectExpr("id DIV 256 AS p", "id % 256 AS t").createOrReplaceTempView("budget_rows")
    clock(text)
    found = spark.sql(TIMED)
    assert level(found) == wanted
    assert sparkcep.budget_totals(spark_ran(found))[0].clock == text


def spark_ran(frame):
    """The frame after it has run."""
    assert frame.collect()
    return frame


@pytest.mark.parametrize(
    "statement, word",
    [
        ("SELECT * FROM VALUES (1) AS v(x), LATERAL ({})", "LATERAL"),
        ("DELETE FROM nothing WHERE t IN (SELECT t FROM ({}))", "DELETE"),
        ("UPDATE nothing SET t = (SELECT max(t) FROM ({}))", "UPDATE"),
        ("MERGE INTO nothing USING ({}) AS m ON m.t = nothing.t WHEN MATCHED THEN DELETE", "MERGE"),
    ],
)
def test_an_interval_is_refused_where_spark_may_run_it_twice(spark, clock, statement, word):
    spark.range(8).selectExpr("0 AS p", "id AS t").createOrReplaceTempView("budget_rows")
    with pytest.raises(sparkcep.ClauseError, match=f"{word} may run the clause more than once"):
        spark.sql(statement.format(TIMED))
    clock("counted:1,1")
    if word == "LATERAL":
        assert spark.sql(statement.format(TIMED)).collect()


@pytest.mark.parametrize(
    "statement, word",
    one_in(4, [
        pytest.param("SELECT * FROM VALUES (1) AS v(x), LATERAL (SELECT * FROM paced WHERE paced.t > v.x)", "LATERAL"),
        pytest.param("SELECT (SELECT max(t) FROM VALUES (1) AS v(x), LATERAL (SELECT t FROM paced_again)) AS m", "LATERAL"),
        pytest.param("DELETE FROM nothing WHERE t IN (SELECT t FROM paced_again)", "DELETE"),
        pytest.param("UPDATE nothing SET t = (SELECT max(t) FROM paced)", "UPDATE"),
        pytest.param("WITH m AS (SELECT * FROM paced) MERGE INTO nothing USING m ON m.t = nothing.t WHEN MATCHED THEN DELETE", "MERGE"),
    ]),
)  # fmt: skip
def test_an_interval_is_refused_through_a_view(spark, clock, statement, word):
    """The text only names the view. Views of views are found, too."""
    spark.range(8).selectExpr("0 AS p", "id AS t").createOrReplaceTempView("budget_rows")
    spark.sql(f"CREATE OR REPLACE TEMP VIEW paced AS {TIMED}")
    spark.sql("CREATE OR REPLACE TEMP VIEW paced_again AS SELECT t FROM paced")
    spark.sql("CREATE OR REPLACE TEMP VIEW nothing AS SELECT 1 AS t")
    with pytest.raises(ParseException, match=f"BUDGET INTERVAL is not repeatable, and {word} may run the clause more than once"):
        spark.sql(statement)
    assert spark.sql("SELECT * FROM paced JOIN paced_again USING (t)").collect()
    clock("counted:1,1")
    spark.sql(f"CREATE OR REPLACE TEMP VIEW paced AS {TIMED}")
    spark.sql("CREATE OR REPLACE TEMP VIEW paced_again AS SELECT t FROM paced")
    if word == "LATERAL":
        assert spark.sql(statement).collect()


@pytest.mark.parametrize("text, wanted", first([pytest.param("thread", "INDETERMINATE"), pytest.param("counted:1,1", "UNORDERED")], 0, wider=2))
def test_spark_knows_what_is_not_repeatable_over_a_stream(spark, clock, tmp_path, text, wanted):
    provider = "spark.sql.streaming.stateStore.providerClass"
    rows = spark.range(64).selectExpr("0 AS p", "timestamp_seconds(1767225600 + id) AS t")
    rows.write.parquet(str(tmp_path / "in"))
    spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in")).withWatermark("t", "1 second").createOrReplaceTempView("budget_stream")
    clock(text)
    spark.conf.set(provider, "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
    try:
        found = spark.sql(TIMED.replace("budget_rows", "budget_stream").replace("WINDOW 1000", "WINDOW INTERVAL '20' SECONDS").replace("t >= 0", "p = 0"))
        levels, rows = set(), []

        def noted(frame, batch):
            rows.extend(frame.collect())
            levels.add(level(frame))

        query = found.writeStream.foreachBatch(noted).option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()
        assert rows and levels == {wanted}
    finally:
        spark.conf.unset(provider)


def test_a_batch_is_of_a_stream(spark):
    spark.range(8).selectExpr("0 AS p", "id AS t").createOrReplaceTempView("budget_rows")
    with pytest.raises(sparkcep.ClauseError, match="Write PER PARTITION"):
        spark.sql(TIMED.replace("PER ROW", "PER BATCH"))
