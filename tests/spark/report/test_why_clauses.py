"""Random clauses that sparkcep.why answers over Spark's own columns, and changes that Spark makes itself."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from tests.selection import first  # noqa: E402
from tests.spark.report.why_clauses import compared, run_by_spark  # noqa: E402


@pytest.mark.parametrize("seed", first(range(600), 1, wider=3))
def test_traces_over_columns_of_spark(spark, seed):
    counts = compared(spark, seed, 34)
    for what in ("matches", "start rows", "farthest runs", "options", "conditions", "changes", "decisions", "rows in no match", "sides"):
        assert counts[what] > 2, counts


@pytest.mark.parametrize("seed", first(range(10), 0, wider=0))
def test_changes_that_spark_makes(spark, seed):
    """A change of an answer, written into the statement, gives the stated match; a culprit replaced by TRUE the stated number."""
    wanted = {"change": 24, "culprit": 12}
    assert run_by_spark(spark, seed, wanted) == wanted
