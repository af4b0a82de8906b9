"""Functions the engine computes itself in DEFINE give what Spark gives: each over 500 values, rare ones included."""

from __future__ import annotations

import contextlib
import math
import random

import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from sparkcep.clause.parser import parse_clause
from sparkcep.errors import ClauseError
from sparkcep.plan.build import make_plan
from sparkcep.plan.records import Near, Running
from sparkcep.spark.exec.table_function import _check_collations, _compared_columns, _perhaps_collated
from tests.selection import further, slow

# SQL with {x} for the value; over doubles d, integers n, small decimals m
DOUBLES = [
    "round({x})", "round({x}, 2)", "floor(if(abs({x}) < 1e15D, {x}, NULL))", "ceil(if(abs({x}) < 1e15D, {x}, NULL))", "pmod({x}, 7.5D)", "abs({x})", "sign({x})", "sqrt({x})", "cbrt({x})",
    "log2({x})", "log1p({x})", "sin({x})", "atan({x})", "rint({x})", "log({x})", "hypot({x}, 3D)", "atan2({x}, 2D)", "atan2({x}, -2D)",
    "cast({x} / 1000 AS FLOAT)", "try_cast({x} AS INT)", "try_cast({x} AS BIGINT)", "try_cast({x} AS SMALLINT)",
    "greatest({x}, 1.5D)", "{x} % 3D", "degrees({x})",
]
# the JVM's own versions of these may differ in the last bit from the C library's
TRANSCENDENTAL = ("cbrt", "log", "sin", "atan", "hypot", "degrees")
INTEGERS = [
    "round({x})", "pmod({x}, 7)", "pmod({x}, -7)", "cast({x} AS DOUBLE) / 3", "try_cast({x} AS TINYINT)", "cast({x} AS DECIMAL(14, 2))",
    "{x} DIV 5", "{x} % 5", "{x} / 7", "cast({x} AS BIGINT) * 3",
]
DECIMALS = [
    "round({x})", "round({x}, 1)", "floor({x})", "ceil({x})", "cast({x} AS INT)", "try_cast({x} AS TINYINT)", "cast({x} AS DECIMAL(8, 1))",
    "cast({x} AS DOUBLE)", "{x} + 1.005", "{x} * 3", "{x} / 3", "{x} % 7",
]
WIDE = [
    "round({x})", "round({x}, 3)", "floor({x})", "ceil({x})", "-{x}", "abs({x})", "try_cast({x} AS INT)", "try_cast({x} AS BIGINT)", "cast({x} AS DOUBLE)",
    "cast({x} AS DECIMAL(38, 2))", "try_cast({x} AS DECIMAL(18, 1))", "{x} + 1.005", "{x} * 3", "{x} / 3", "{x} % 7", "{x} * 123456789.123456789", "{x} / {x}",
    "1 / {x}", "{x} - cast({x} AS DECIMAL(38, 0))", "{x} % cast(0.37 AS DECIMAL(38, 30))", "{x} DIV 7", "greatest({x}, 1.50)", "{x} > 0.66666666666666666666666",
    "{x} = round({x}, 3)", "coalesce({x}, 0) + 9223372036854775807", "sign({x})",
]


@pytest.fixture(scope="module")
def values(spark):
    rng = random.Random(7)
    rows = [(i, rng.choice([rng.uniform(-9, 9), round(rng.uniform(-99, 99), 3), rng.uniform(-1e12, 1e12), rng.randrange(-9, 9) / 2]),
             rng.choice([rng.randrange(-9, 9), rng.randrange(-(2**31), 2**31)]), rng.randrange(-9999, 9999)) for i in range(480)]
    special = [2.675, 1.005, -0.5, 0.0, -0.0, 2147483647.5, -2147483649.0, 32768.0, 1e300, 27.0, -64.0, math.nan, math.inf, -math.inf]
    rows += [(480 + i, d, i, i * 5) for i, d in enumerate(special)] + [(500, None, None, None)]
    spark.createDataFrame(rows, "i INT, d DOUBLE, n INT, c INT").selectExpr(
        "i", "d", "n", "CAST(c / 100 AS DECIMAL(7, 2)) AS m",
        # of 19 digits before the point, and ten behind it, of all sizes
        "CAST(CAST(pmod(hash(i), 1000000) * pow(10, pmod(i, 14)) AS DECIMAL(29, 0)) / (c + 10000.5) - c / 7 AS DECIMAL(29, 10)) AS w",
    ).createOrReplaceTempView("function_values")
    return spark


@pytest.mark.parametrize("column, functions", [("n", INTEGERS), slow(pytest.param("m", DECIMALS)), slow(pytest.param("d", DOUBLES)), further(pytest.param("w", WIDE))])
def test_functions_of_aggregates(values, column, functions):
    missing = missed(values, column, functions)
    assert missing == {}


def missed(values, column, functions) -> dict[str, list]:
    """The functions for which some value's result differs from Spark's, and some of these values."""
    # max() of a one-row match is that row's value, yet a value the engine holds, not Spark
    clauses = []
    for i, f in enumerate(functions):
        value = f.format(x=f"max(A.{column})")
        near = f" OR abs({value} - A.expected) <= 1e-15D * abs(A.expected)" if f.startswith(TRANSCENDENTAL) else ""
        clauses.append(
            f"""SELECT {i} AS which, matched FROM (SELECT *, {f.format(x=column)} AS expected FROM function_values)
            MATCH_RECOGNIZE (ORDER BY i MEASURES A.i AS matched PATTERN (A) DEFINE A AS {value} <=> A.expected{near})"""
        )
    found = values.sql(" UNION ALL ".join(clauses)).toPandas()
    everything = set(range(494)) | {500}
    missing = {functions[i]: sorted(everything - set(found.matched[found.which == i])) for i in range(len(functions))}
    shown = {f: [values.sql(f"SELECT {column} FROM function_values WHERE i = {i}").first()[0] for i in rows[:5]] for f, rows in missing.items() if rows}
    return shown


@pytest.fixture
def without_ansi(values):
    values.conf.set("spark.sql.ansi.enabled", "false")
    yield values
    values.conf.set("spark.sql.ansi.enabled", "true")


@pytest.mark.further
def test_wide_decimals_without_ansi(without_ansi):
    # overflow and division by zero are NULL there, and casts wrap
    functions = [
        "cast({x} AS INT)", "cast({x} AS BIGINT)", "cast({x} AS DECIMAL(9, 4))", "{x} * {x} * {x}", "{x} / ({x} - {x})", "{x} % ({x} - {x})",
        "{x} * cast({x} AS DECIMAL(38, 0)) * 1000000",
    ]
    assert missed(without_ansi, "w", functions) == {}


SPREADS = ("stddev", "stddev_pop", "variance", "var_pop")


@pytest.mark.parametrize("kind", ["DECIMAL(38, 10)", *map(further, ["DOUBLE", "FLOAT", "BIGINT", "DECIMAL(9, 2)", "DECIMAL(18, 9)", "DECIMAL(38, 38)"])])
def test_deviations_to_the_last_bit(values, kind):
    """Each prefix of a partition, against Spark's window functions, which add one value after the other as well."""
    kinds = [kind] if kind != "DECIMAL(38, 38)" else [kind, "DECIMAL(28, 20)"]
    for of in kinds:
        whole = of in ("BIGINT", "FLOAT", "DOUBLE")
        x = f"CAST(IF(i % 7 = 3, NULL, pmod(hash(i), 1000003) {'* 1000003L' if whole else '/ 1000003'} - 0.5) AS {of})"
        made = f"SELECT i % 9 AS p, i, {x} AS x FROM function_values"
        wanted = ", ".join(f"{name}(x) OVER (PARTITION BY p ORDER BY i ROWS UNBOUNDED PRECEDING) AS e{n}" for n, name in enumerate(SPREADS))
        conditions = " AND ".join(f"{name}(A.x) <=> e{n}" for n, name in enumerate(SPREADS))
        found = values.sql(
            f"SELECT p, n FROM (SELECT *, {wanted} FROM ({made})) MATCH_RECOGNIZE (PARTITION BY p ORDER BY i MEASURES count(*) AS n PATTERN (A+) DEFINE A AS {conditions})"
        ).collect()
        assert len(found) == 9 and sum(n for _, n in found) == 501 - 6, (of, found)


def test_the_check_of_collations_knows_every_kind_of_tree():
    text = """ORDER BY i MEASURES 1 AS o PATTERN (A B+) DEFINE B AS s > PRIOR(max(B.s)) OR concat(A.s, B.s) LIKE 'x' OR max_by(s, i) = LAST(s, 1)
        OR CLASSIFIER() = 'B' AND MATCH_NUMBER() > 1 OR PREV(s) IS NULL OR count(s) > 7"""
    plan = make_plan(parse_clause(text))
    trees = [tree for _, conjuncts in plan.conditions for tree in conjuncts]
    columns = {name for name, sql in plan.inputs if sql in ("s", "i")} | {name for name, _ in plan.ordered_inputs if name != "__w0"}
    assert columns <= set().union(*map(_compared_columns, trees))
    assert _compared_columns(("call", "isnull", Near("off", "__c0", -1, None))) == set() == _compared_columns(Running("agg", "count", -1, "__c0", None, False))
    with pytest.raises(ValueError, match="brandnew"):
        _compared_columns(("call", "not", ("brandnew", "__c0")))


def test_a_clause_text_over_collated_strings():
    schema = StructType([StructField("i", IntegerType()), StructField("s", StringType("UTF8_LCASE")), StructField("t", StringType())])
    for condition, refused in [
        ("trim(s) = LAST(trim(s), 1)", True), ("t COLLATE UTF8_LCASE = LAST(t COLLATE UTF8_LCASE, 1)", True), ("trim(t) = LAST(trim(t), 1)", False),
        ("lower(s) COLLATE UTF8_BINARY = LAST(lower(s) COLLATE UTF8_BINARY, 1)", False),
    ]:
        plan = make_plan(parse_clause(f"ORDER BY i MEASURES 1 AS o PATTERN (A B) DEFINE B AS {condition}"))
        with pytest.raises(ClauseError, match="COLLATION") if refused else contextlib.nullcontext():
            _check_collations(plan, _perhaps_collated(plan, schema), {})
