"""Year-month intervals of a clause, whose types only Spark knows."""

from __future__ import annotations

import pytest

T = pytest.importorskip("pyspark.sql.types")

from pyspark.errors import AnalysisException  # noqa: E402

from sparkcep.settings import DEFAULT  # noqa: E402
from sparkcep.spark.exec.year_month import find_months  # noqa: E402
from sparkcep.sql.rewrite.rewrite import Months, rewrite_all  # noqa: E402

CLAUSE = "MATCH_RECOGNIZE (ORDER BY i MEASURES LAST(ym) AS x PATTERN (A+))"


def test_the_types_of_a_table_that_the_statement_defines():
    asked = []

    def schema_of(query):
        asked.append(query)
        return T.StructType([T.StructField("__c0", T.YearMonthIntervalType())])

    months = Months((("__c0", "interval year to month"),), (("__l0", "interval year to month"),))
    sql = f"WITH t AS (SELECT * FROM v), u AS (SELECT x AS ym, 1 AS i FROM t {CLAUSE}) SELECT * FROM u {CLAUSE}"
    assert find_months(sql, DEFAULT, schema_of) == (months, months)
    first, second = asked
    assert first.startswith("WITH t AS (SELECT * FROM v) SELECT ") and first.endswith(" FROM t) DISTRIBUTE BY 0 SORT BY __o0")
    assert second.startswith("WITH t AS (SELECT * FROM v), u AS (SELECT x AS ym, 1 AS i FROM (SELECT ")
    assert "CAST(12 * EXTRACT(YEAR FROM" in second, "the clause in the definition has its own types"


def test_a_table_that_cannot_be_read_on_its_own():
    def schema_of(query):
        raise AnalysisException("no table u", errorClass="TABLE_OR_VIEW_NOT_FOUND")

    assert find_months(f"SELECT * FROM (WITH u AS (SELECT * FROM v) SELECT * FROM u {CLAUSE})", DEFAULT, schema_of) == (None,)


def test_values_of_emit_and_registers():
    """The months beside a register are an interval, of the common unit of the columns."""
    sql = (
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY i AUTOMATON (REGISTER n INT, k LIKE (mo) STATE b FINAL ARC FROM a TO b SET n = i, k = mo "
        "EMIT (CASE WHEN n > 0 THEN mo END AS p, if(n > 0, mo, ye) AS q, mo * n AS r, n AS s, k + mo AS u)))"
    )
    types = {"i": T.IntegerType(), "mo": T.YearMonthIntervalType(1, 1), "ye": T.YearMonthIntervalType(0, 0)}
    (clause,) = rewrite_all(sql, DEFAULT)[1]
    schema = T.StructType([T.StructField(name, types[text.strip("()")]) for name, text in clause.plan.inputs])
    (found,) = find_months(sql, DEFAULT, lambda query: schema)
    assert [kind for _, kind in found.outputs] == ["interval month", "interval year to month", "interval year to month", "", "interval month"]
