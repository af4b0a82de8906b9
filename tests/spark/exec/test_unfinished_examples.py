"""The worked examples of unfinished matches in function form, over DataFrames, with one column and counted.

``tests/cases`` runs them as statements.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkcep import match_recognize
from sparkcep.clause.parser import parse_clause
from sparkcep.plan.build import make_plan
from sparkcep.tools.statements import clauses
from tests.cases.sql_case_files import Case, read_case_file
from tests.selection import one_in
from tests.support.views import drop_views

FILE = read_case_file(Path(__file__).resolve().parents[2] / "cases" / "selection" / "unfinished_examples.test")
EXAMPLES = [case for case in FILE.cases if case.asks_for_rows()]


@pytest.fixture(scope="module")
def tables(spark):
    for view in FILE.views:
        spark.sql(view)
    yield spark
    drop_views(spark)


def parts(spark, case: Case) -> tuple[str, str, str, str]:
    """The statement before the table, the table, the clause with AS OF if it needs a clock, and the statement after the clause."""
    (statement,) = case.statements
    place = clauses(statement)[0]
    before, _, table = statement[: place.word.start].rstrip().rpartition(" ")
    clause = statement[place.start : place.end].strip()
    plan = make_plan(parse_clause(clause))
    if plan.unfinished is not None and plan.unfinished.clock and not plan.unfinished.dated:
        latest = "min" if plan.order[0].descending else "max"
        at = spark.sql(f"SELECT {latest}(t) FROM {table}").first()[0]
        clause = clause.replace(" MATCHES", f" MATCHES AS OF {at}", 1) if "EMPTY MATCHES" not in clause else clause.replace("FINISHED MATCHES", f"FINISHED MATCHES AS OF {at}", 1)
    return before, table, clause, statement[place.end + 1 :]


def texts(frame) -> list[tuple]:
    names = [f"c{i}" for i in range(len(frame.columns))]
    return sorted(map(str, (tuple(row) for row in frame.toDF(*names).selectExpr(*(f"CAST({name} AS STRING)" for name in names)).collect())))


@pytest.mark.parametrize("case", one_in(len(EXAMPLES), EXAMPLES, wider=8), ids=lambda case: case.name)
def test_other_forms_return_the_rows_of_the_statement(tables, case):
    before, table, clause, after = parts(tables, case)
    wanted = sorted(map(str, case.rows))
    keys, _, rest = clause.partition("MEASURES")
    text = f"MEASURES{rest}".replace("'", "\\'")
    called = tables.sql(f"{before} match_recognize(TABLE({table}) {keys} , '{text}'){after}")
    assert texts(called) == wanted
    match_recognize(tables.table(table), clause=clause).createOrReplaceTempView("of_frame")
    assert texts(tables.sql(f"{before} of_frame{after}")) == wanted
    assert tables.sql(f"SELECT count(*) FROM ({case.statements[0]})").first()[0] == len(wanted)
    tables.sql(case.statements[0]).createOrReplaceTempView("of_statement")
    column = tables.table("of_statement").columns[-1]
    one = tables.sql(f"SELECT CAST(`{column}` AS STRING) FROM of_statement").collect()
    assert sorted(str(row[0]) for row in one) == sorted(str(row[-1]) for row in case.rows)
