"""sparkcep.why over ranked and approximate matches in a session: Spark computes the scores."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

import sparkcep  # noqa: E402
from tests.selection import one_in  # noqa: E402
from tests.support.why_kinds import EXAMPLES  # noqa: E402

TICKS = "(VALUES ('A', 1, 1.5D), ('A', 2, 2.5D), ('A', 3, 0.5D), ('A', 4, 2.25D), ('B', 1, 9D), ('B', 2, 4D)) AS ticks(symbol, day, price)"


@pytest.mark.parametrize("example", one_in(5, EXAMPLES, wider=2), ids=lambda example: example.name)
def test_examples_as_statements(spark, example):
    why = sparkcep.why(spark, f"SELECT * FROM {example.table} MATCH_RECOGNIZE ({example.measured})", at=example.at, **example.arguments)
    assert str(why) == example.text
    assert why.verified


def test_scores_that_spark_computes(spark):
    """An objective with an aggregate that Spark computes, and functions of Spark's."""
    clause = "PARTITION BY symbol ORDER BY day MEASURES MATCH_SCORE() AS score PATTERN (A B) PREF MAX (round(stddev_pop(price), 2)) AND MIN (abs(A.price)) TOP 1"
    statement = f"SELECT * FROM {TICKS} MATCH_RECOGNIZE ({clause})"
    (score,) = (row["score"] for row in spark.sql(f"SELECT * FROM ({statement}) WHERE symbol = 'A'").collect())
    why = sparkcep.why(spark, statement, at="symbol = 'A' AND day = 1")
    assert why.verified and why.verdict == "Row 1 (day 1) of symbol = 'A' is in no match that TOP 1 keeps."
    assert f"  rank 1  score {score!r}  rows 3-4 (A B)" in str(why).split("\n")


@pytest.mark.further
@pytest.mark.parametrize("preference, args", [(":w * (B.price - A.price)", {"w": 2}), ("? * (B.price - A.price)", [2]), ("IF(B.symbol RLIKE '^[A-Z]{1}$', 2, 0)", None)])
def test_parameters_and_braces_in_an_objective(spark, preference, args):
    clause = f"ORDER BY day MEASURES MATCH_SCORE() AS score PATTERN (A B) PREF MAX ({preference}) TOP 2 DEFINE B AS B.price - A.price = 1"
    why = sparkcep.why(spark, f"SELECT * FROM {TICKS} MATCH_RECOGNIZE (PARTITION BY symbol {clause})", at="symbol = 'A' AND day = 1", args=args)
    assert why.verified and any(line.startswith("  rank 1  score  2") or "score 2" in line for line in str(why).split("\n")), str(why)


def test_several_partitions(spark):
    clause = "PARTITION BY symbol ORDER BY day MEASURES MATCH_SCORE() AS score PATTERN (A B) PREF MAX (B.price - A.price) TOP 1 {}"
    lines = str(sparkcep.why(spark, f"SELECT * FROM {TICKS} MATCH_RECOGNIZE ({clause.format('')})")).split("\n")
    assert lines[:3] == ["TOP 1 keeps 2 of 4 matches, in 6 rows of 2 partitions.", "At most 1 of each partition are kept.", "Matches begin at 4 rows."]
    overall = str(sparkcep.why(spark, f"SELECT * FROM {TICKS} MATCH_RECOGNIZE ({clause.format('OVERALL')})", at="symbol = 'B' AND day = 1")).split("\n")
    assert overall[0] == "Row 1 (day 1) of symbol = 'B' is in match 1 as A."
    assert overall[-1].startswith("With OVERALL the matches of all partitions are ranked together")


def test_errors_rank_best_without_pref(spark):
    clause = "ORDER BY day MEASURES MATCH_ERRORS() AS errors PATTERN (A B C) APPROX 1 TOP 2 DEFINE A AS price = 1.5, B AS price = 2.5, C AS price = 2.25"
    why = sparkcep.why(spark, f"SELECT * FROM {TICKS} MATCH_RECOGNIZE (PARTITION BY symbol {clause})", at="symbol = 'A' AND day = 2")
    assert why.verified and why.verdict == "Row 2 (day 2) of symbol = 'A' is in match 1 as B and match 2 as B."
    assert "  rank 1  score  0  rows 1-2 and 4 (A B C), no errors" in str(why).split("\n")
    assert "  rank 2  score -1  rows 1-2 (A B), 1 error: missing C" in str(why).split("\n")
