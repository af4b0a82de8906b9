"""What Spark plans around a clause changes no value: statements of the cases and examples in many forms, under many settings.

A form reads one column alone, or groups, filters, joins and so on; its rows are computed in Python from those of the whole
statement, which Spark's own operator gives with nothing dropped. The wider run takes half of a sample to which all statements of
``tests/cases/statements/few_columns.test`` belong; the default one a sixteenth of the pieces of this sample.
"""

from __future__ import annotations

import pytest

from sparkcep.spark.java import find_java_tool
from tests.selection import part
from tests.spark.exec.planning_differential import PLAIN, SETTINGS, TEXT, UNSTEADY, Report, check, prepare, sampled
from tests.spark.exec.planning_forms import all_forms, columns_of, counted, key, picked
from tests.spark.exec.planning_statements import Statement, groups, whole, widened
from tests.support.views import drop_views

pytestmark = pytest.mark.codegen  # it is of Spark's plans

OTHERS = [name for name in SETTINGS if name not in (PLAIN, TEXT)]
# what is no query cannot be a subquery: EXPLAIN, DESCRIBE and EXECUTE IMMEDIATE
NO_QUERIES = 23


@pytest.fixture(scope="module")
def planning(spark):
    if not hasattr(spark, "_jvm"):
        pytest.skip("a classic session is needed")
    if find_java_tool("javac") is None:
        pytest.skip("no Java compiler: Spark's own operator runs the function")
    yield spark
    drop_views(spark)


def judge(report: Report) -> None:
    """Fails where rows differ, or where a statement has no one answer and is not known for it."""
    print(report)
    assert not report.differences, "\n".join(report.differences)
    unknown = sorted(set(report.unsteady) - set(UNSTEADY))
    assert not unknown, f"rows depend on the number of partitions: {unknown}"


@pytest.mark.further
@pytest.mark.parametrize(("group", "statements"), part(0, 10, [pytest.param(*s, id=s[1][0].name) for s in sampled()]))
def test_sample(planning, group, statements):
    prepare(planning, group)
    total = Report()
    for statement in statements:
        total.add(check(planning, statement, [PLAIN, TEXT, OTHERS[statement.number % len(OTHERS)]]))
    judge(total)
    assert total.compared > 10 * (len(statements) - len(total.unsteady))


@pytest.mark.slow
@pytest.mark.parametrize("group", [pytest.param(g, id=g.name) for g in groups()])
def test_every_statement(planning, group):
    prepare(planning, group)
    total = Report()
    for statement in group.statements:
        total.add(check(planning, statement, list(SETTINGS)))
    judge(total)
    assert total.statements == len(group.statements)


def test_what_is_compared():
    found = list(groups())
    assert sum(len(g.written) for g in found) > 1000
    assert sum(len(g.others) for g in found) == NO_QUERIES
    assert set(UNSTEADY) <= {s.name for g in found for s in g.written}
    assert 15 <= sum(len(some) for _, some in sampled()) <= 40


@pytest.mark.further
def test_a_column_alone_is_read_alone(planning):
    """The forms would find nothing if they read more than they name."""
    (group,) = (g for g in groups() if g.name == "input/names")
    prepare(planning, group)
    total = Report()
    for statement in map(whole, group.written[:6]):
        total.add(check(planning, statement, [TEXT]))
    assert total.alone >= 3 and total.fewer >= total.alone // 2, str(total)


@pytest.mark.further
def test_a_wrong_row_is_found(planning):
    """Forms over rows that are not those of the reference."""
    frame = planning.sql("SELECT * FROM VALUES (1, 'a', 1.5D), (2, 'b', -0.0D), (2, 'b', double('NaN')) AS t(c0, c1, c2)")
    columns, rows = columns_of(frame.schema), [tuple(row) for row in frame.collect()]
    wrong = [(1, "a", 1.5), (2, "b", -0.0), (3, "b", 2.0)]
    for reference, right in ((rows, True), (wrong, False)):
        planning.createDataFrame(rows, frame.schema).createOrReplaceTempView("wrong_rows")
        told = {}
        for form in all_forms(columns, reference, number=0):
            given = planning.sql(form.query.replace("{t}", "wrong_rows")).collect()
            found = [(row["n"] if form.counted else None, tuple(row[columns[i].name] for i in form.columns)) for row in given]
            told[form.name] = form.differs(reference, found)
        assert len(told) > 20
        assert all(not text for text in told.values()) if right else sum(bool(text) for text in told.values()) > 15, told


def test_values_are_told_apart():
    values = [0.0, -0.0, float("nan"), 1, 1.0, True, None, "None", "1", (None,), ("None",), b"1", {"a": 1}]
    assert len({repr(key(v)) for v in values}) == len(values)
    assert key(float("nan")) == key(float("nan"))
    assert key(-0.0, zero=True) == key(0.0, zero=True)
    assert counted().differs([(1,), (2,)], [(2, ())]) == ""
    assert "should" in counted().differs([(1,), (2,)], [(3, ())])


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("SELECT a FROM t MATCH_RECOGNIZE (PATTERN (A)) WHERE a > 1", "SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A))"),
        ("WITH t AS (SELECT 1 AS i) SELECT n FROM t MATCH_RECOGNIZE (PATTERN (A))", "WITH t AS (SELECT 1 AS i) SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A))"),
        ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A))", None),
        ("SELECT a FROM (SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A)))", None),
        ("SELECT a FROM t MATCH_RECOGNIZE (PATTERN (A)) JOIN u MATCH_RECOGNIZE (PATTERN (A))", None),
    ],
)
def test_a_clause_is_read_whole(text, whole):
    found = widened(Statement("some", text))
    assert (found and found.text) == whole


def test_forms_name_their_columns():
    assert picked("c1", []).columns == ()
