"""Aggregates in MEASURES against Spark's own GROUP BY: a match of all rows of a partition is a group."""

from __future__ import annotations

import random

import pandas as pd
import pytest

from tests.selection import first

TYPES = {"i": "INT", "l": "BIGINT", "d": "DOUBLE", "f": "FLOAT", "n": "DECIMAL(9, 2)", "s": "STRING", "b": "BOOLEAN", "t": "DATE", "y": "BINARY"}
NUMBERS = "ildfn"
ORDERED = "ildfnstby"

AGGREGATES = [
    *(f"count(DISTINCT {c})" for c in ORDERED),
    *(f"array_sort(collect_set({c}))" for c in ORDERED),
    *(f"array_sort(array_agg(DISTINCT {c}))" for c in ORDERED),
    *(f"{fn}(DISTINCT {c})" for c in "iln" for fn in ("sum", "avg")),
    *(f"{fn}(DISTINCT {c})" for c in ORDERED for fn in ("min", "max")),
    *(f"{fn}(DISTINCT {c}) FILTER (WHERE b)" for c in "il" for fn in ("sum", "count")),
    *(f"round({fn}({c}), 4)" for c in NUMBERS for fn in ("stddev", "stddev_pop", "variance", "var_pop", "skewness", "kurtosis")),
    *(f"{fn}({c})" for c in NUMBERS for fn in ("median", "approx_count_distinct")),
    *(f"percentile({c}, array(0.1, 0.9))" for c in NUMBERS),
    *(f"percentile_approx({c}, 0.5)" for c in NUMBERS),
    *(f"{fn}(l) FILTER (WHERE i > 3)" for fn in ("median", "try_sum", "bit_and")),
    *(f"max_by({c}, r)" for c in ORDERED),
    *(f"min_by({c}, r) FILTER (WHERE i > 3)" for c in ORDERED),
    *(f"{fn}(b)" for fn in ("bool_and", "bool_or", "every", "some", "any", "count_if")),
    *(f"{fn}(b) FILTER (WHERE l > 3)" for fn in ("bool_and", "bool_or", "count_if")),
    "count(DISTINCT i, s)",
    "count(i, s)",
    "round(corr(i, l), 4)",
    "regr_count(i, l)",
    "bit_xor(i)",
    "listagg(s, ',') WITHIN GROUP (ORDER BY r)",
    "listagg(DISTINCT s) WITHIN GROUP (ORDER BY s)",
    "listagg(y) WITHIN GROUP (ORDER BY r DESC) FILTER (WHERE i > 3)",
    "mode(i, true)",
    "percentile_disc(0.3) WITHIN GROUP (ORDER BY l DESC)",
]


POOLS = {
    "i": ["1", "3", "4", "7", "-2"],
    "l": ["1", "5", "90000000000", "-4"],
    "d": ["0.0D", "-0.0D", "1.5D", "double('NaN')", "double('Infinity')"],
    "f": ["0.5F", "-0.5F", "float('NaN')", "float('-0.0')", "float('0.0')"],
    "n": ["1.10", "1.1", "-3.25", "1000000.99"],
    "s": ["''", "'a'", "'B'", "'é'", "'ab'"],
    "b": ["true", "false"],
    "t": ["DATE '2024-01-01'", "DATE '1969-12-31'"],
    "y": ["X''", "X'00'", "X'ff01'"],
}


def drawn(groups: int) -> str:
    """A query of random rows: ``g``, their group, ``r``, their number in it, and values of all types. Those of a group may all be
    NULL."""
    draw = random.Random(5)
    rows = []
    for group in range(groups):
        nulls = draw.choice([0.0, 0.3, 1.0])
        for r in range(draw.randint(1, 6)):
            cells = ["NULL" if draw.random() < nulls else draw.choice(pool) for pool in POOLS.values()]
            rows.append(f"({group}, {r}, {', '.join(cells)})")
    casts = ", ".join(f"CAST({c} AS {kind}) AS {c}" for c, kind in TYPES.items())
    return f"SELECT g, r, {casts} FROM VALUES {', '.join(rows)} AS v({', '.join(['g', 'r', *TYPES])})"


@pytest.fixture(scope="module")
def groups(spark):
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW grouped AS {drawn(150)}")
    yield
    spark.catalog.dropTempView("grouped")


def measured(spark, aggregates):
    measures = ", ".join(f"{text} AS m{i}" for i, text in enumerate(aggregates))
    return spark.sql(
        f"SELECT * FROM grouped MATCH_RECOGNIZE (PARTITION BY g ORDER BY r MEASURES {measures} PATTERN (^ A+ $)) ORDER BY g"
    )


@pytest.mark.further
@pytest.mark.parametrize("part", first(range(16), wider=1))
def test_values_and_types_are_those_of_a_group(spark, groups, part):
    aggregates = AGGREGATES[part::16]
    frame = measured(spark, aggregates)
    found = frame.collect()
    # One query for each: Spark cannot plan listagg next to a DISTINCT with FILTER.
    for i, text in enumerate(aggregates):
        wanted = spark.sql(f"SELECT g, {text} AS m{i} FROM grouped GROUP BY g ORDER BY g")
        assert frame.schema[f"m{i}"].dataType.simpleString() == wanted.schema[f"m{i}"].dataType.simpleString(), text
        different = [(a, b) for a, b in zip(found, wanted.collect(), strict=True) if str(a[f"m{i}"]) != str(b[f"m{i}"])]
        assert not different, text


@pytest.mark.further
def test_values_stand_in_match_order(spark, groups):
    # More groups than Spark's object aggregation holds (128), behind which it would lose the rows' order.
    texts = [
        "listagg(s, ',')",
        "array_join(array_agg(s), ',')",
        "first_value(s) FILTER (WHERE i > 3)",
        "last_value(s) IGNORE NULLS",
        "array_agg(coalesce(s, 'none')) FILTER (WHERE i > 3)",
        "array_agg(s)",
    ]
    for row in measured(spark, texts).collect():
        first = row.m4[0] if row.m4 else "none"
        assert (row.m0 or "") == row.m1
        assert (row.m2 is None and first == "none") or row.m2 == first
        assert row.m3 == (row.m5[-1] if row.m5 else None)


def test_the_table_function_runs_once(spark, groups):
    plan = measured(spark, ["median(i)", "sum(DISTINCT l)", "listagg(s)", "count(DISTINCT s)"])._jdf.queryExecution().executedPlan()
    assert plan.toString().count("ArrowEvalPythonUDTF match_recognize") + plan.toString().count("MapInArrow match_recognize") == 1


@pytest.mark.parametrize(
    "clause",
    [
        "PARTITION BY largest(k) ORDER BY id MEASURES count(*) AS n PATTERN (A+)",
        "PARTITION BY largest(k) ORDER BY largest(id) MEASURES count(*) AS n PATTERN (A+)",
        "ORDER BY id MEASURES largest(A.k) AS n PATTERN (A)",
        "ORDER BY id MEASURES largest(A.k) AS n, abs(count(*)) AS m PATTERN (A)",
    ],
)
def test_an_aggregate_function_of_the_users_own_folds_no_rows(spark, clause):
    """No name tells that it is an aggregate, so Spark has to refuse it; without a column beside it all rows would silently be
    one."""
    from pyspark.errors import AnalysisException
    from pyspark.sql.functions import pandas_udf

    @pandas_udf("bigint")
    def largest(values: pd.Series) -> int:
        return int(values.max())

    spark.udf.register("largest", largest)
    try:
        with pytest.raises(AnalysisException, match="MISSING_GROUP_BY"):
            spark.sql(f"SELECT * FROM (SELECT id, id % 3 AS k FROM range(9)) MATCH_RECOGNIZE ({clause})")
    finally:
        spark.sql("DROP TEMPORARY FUNCTION largest")
