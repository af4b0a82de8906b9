"""Output columns have the types that Spark itself gives them."""

from __future__ import annotations

import pytest

T = pytest.importorskip("pyspark.sql.types")

from sparkcep.spark.exec.table_function import _analyze_clause  # noqa: E402

HOURS = T.DayTimeIntervalType(T.DayTimeIntervalType.HOUR, T.DayTimeIntervalType.HOUR)


@pytest.mark.parametrize(
    ("measure", "column", "expected"),
    [
        ("min", HOURS, HOURS), ("max", HOURS, HOURS), ("sum", HOURS, HOURS), ("avg", HOURS, T.DayTimeIntervalType()), ("array_agg", HOURS, T.ArrayType(HOURS)),
        ("LAST", HOURS, HOURS), ("max", T.ShortType(), T.ShortType()), ("sum", T.ShortType(), T.LongType()), ("count", HOURS, T.LongType()),
    ],
)  # fmt: skip
def test_aggregates_keep_the_unit_of_intervals(measure, column, expected):
    columns = T.StructType([T.StructField("i", T.IntegerType()), T.StructField("x", column)])
    found = _analyze_clause(f"ORDER BY i MEASURES {measure}(x) AS m PATTERN (A+)", columns)
    assert found.schema["m"].dataType == expected


@pytest.mark.skipif(not hasattr(T, "TimeType"), reason="this version of Spark lacks the type TIME")
@pytest.mark.parametrize("measure", ["min", "max"])
def test_extremes_keep_the_precision_of_times(measure):
    columns = T.StructType([T.StructField("i", T.IntegerType()), T.StructField("x", T.TimeType(3))])
    found = _analyze_clause(f"ORDER BY i MEASURES {measure}(x) AS m PATTERN (A+)", columns)
    assert found.schema["m"].dataType == T.TimeType(3)
