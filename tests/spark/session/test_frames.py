"""``sparkcep.match_recognize(frame, ...)`` in a classic session; test_connect.py has the remote one."""

from __future__ import annotations

import datetime

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import AnalysisException, ParseException  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402

import sparkcep  # noqa: E402
from sparkcep.errors import ClauseError  # noqa: E402
from sparkcep.spark.session import session  # noqa: E402
from tests.selection import one_in  # noqa: E402
from tests.spark.exec.planning_differential import configured  # noqa: E402
from tests.support.views import temporary_views  # noqa: E402

REST = "MEASURES A.price AS p\nPATTERN (A{1,2}?) -- reluctant\nDEFINE A AS price > 10"
FOUND = [("a", 15), ("b", 25)]


@pytest.fixture(scope="module")
def frame(spark):
    columns = "sym STRING, ts INT, price INT, `my ``key``` STRING, at STRUCT<day: DATE>"
    day = datetime.date(2024, 5, 17)
    data = [("a", 1, 5, "k", (day,)), ("a", 2, 15, "k", (day,)), ("b", 1, 25, "k", (day,))]
    return spark.createDataFrame(data, columns)


def rows(found):
    return sorted(tuple(row) for row in found.collect())


def made(key):
    """Columns can only be made once there is a session."""
    return key() if callable(key) else key


@pytest.mark.parametrize(
    ("partition", "order"),
    one_in(2, [
        pytest.param("`sym`", "ts DESC NULLS LAST"),
        pytest.param("sym", "ts"),
        pytest.param(lambda: F.col("sym"), lambda: F.col("ts").asc()),
        pytest.param(["sym"], ("ts",)),
        pytest.param(["sym"], lambda: [F.col("ts").desc_nulls_first(), "price"]),
        pytest.param("upper(lower(sym)) ", "ts + 1"),
    ]),
)  # fmt: skip
def test_keys(frame, partition, order):
    found = sparkcep.match_recognize(frame, partition_by=made(partition), order_by=made(order), clause=REST)
    assert sorted(row.p for row in found.collect()) == [15, 25]


def test_keys_are_columns_of_the_result(frame):
    found = sparkcep.match_recognize(frame, partition_by=[frame.sym, frame["`my ``key```"]], order_by=frame.ts, clause=REST)
    assert found.columns == ["sym", "my `key`", "p"]
    named = sparkcep.match_recognize(frame, partition_by="my `key`", order_by=["sym", "ts"], clause=REST)
    assert rows(named) == [("k", 15), ("k", 25)]
    expression = sparkcep.match_recognize(frame, partition_by="year(at.day)", order_by="ts", clause=REST)
    assert expression.columns == ["year(at.day)", "p"]


def test_columns_of_a_table_are_keys(spark, frame):
    frame.createOrReplaceTempView("keyed")
    table, aliased = spark.table("keyed"), frame.alias("q")
    for named in (table, table.where("price > 0").join(frame.select("sym").distinct(), "sym"), aliased):
        keys = {"partition_by": [named.sym, named["`my ``key```"]], "order_by": [named.ts.desc_nulls_last(), named.price]}
        assert [row.p for row in sparkcep.match_recognize(named, **keys, clause=REST).orderBy("p").collect()] == [15, 25]
    with pytest.raises(TypeError, match="not just the name"):
        sparkcep.match_recognize(table, partition_by=table.at.day, clause=REST)
    spark.catalog.dropTempView("keyed")


def test_order_counts(frame):
    last = "MEASURES LAST(price) AS p PATTERN (A+)"
    for order, expected in (("ts", 15), (frame.ts.desc(), 5), ("ts DESC", 5), ([F.desc("ts")], 5)):
        found = sparkcep.match_recognize(frame.where("sym = 'a'"), order_by=order, clause=last)
        assert rows(found) == [(expected,)]


def test_keys_in_the_clause(frame):
    assert rows(sparkcep.match_recognize(frame, clause=f"PARTITION BY sym ORDER BY ts {REST}")) == FOUND
    assert rows(sparkcep.match_recognize(frame, order_by="ts", clause=f"PARTITION BY sym -- key\n{REST}")) == FOUND
    assert rows(sparkcep.match_recognize(frame, partition_by="sym", clause=f"ORDER BY ts {REST}")) == FOUND
    assert (
        rows(sparkcep.match_recognize(frame, partition_by=[], order_by=None, clause=f"PARTITION BY sym ORDER BY ts {REST}"))
        == FOUND
    )


def test_result_is_a_lazy_frame(spark, frame):
    jobs = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("frames", "none may start")
    found = sparkcep.match_recognize(frame, partition_by="sym", order_by="ts", clause=REST).where("p > 20").join(frame, "sym")
    assert found.schema["p"].dataType.simpleString() == "int"
    assert jobs.getJobIdsForGroup("frames") == []
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert [row.p for row in found.collect()] == [25]
    assert not [name for name in temporary_views(spark) if name.startswith("_pyspark_")]


def test_it_needs_no_enable(spark):
    session.disable(spark)
    try:
        fresh = spark.newSession()
        frame = fresh.sql("SELECT * FROM VALUES ('a', 1, 5), ('a', 2, 15), ('b', 1, 25) AS t(sym, ts, price)")
        assert rows(sparkcep.match_recognize(frame, partition_by="sym", order_by="ts", clause=REST)) == FOUND
        with pytest.raises(ParseException) as caught:
            fresh.sql(f"SELECT * FROM VALUES (1, 2) AS t(ts, price) MATCH_RECOGNIZE (ORDER BY ts {REST})")
        assert not isinstance(caught.value, ClauseError)
    finally:
        session.enable(spark)


def test_a_fresh_session_of_an_enabled_one_keeps_the_jvms_analysis(spark):
    """Without it two columns of one name would be refused."""
    frame = spark.newSession().sql("SELECT 1 AS i, 2 AS x, 3 AS x")
    found = sparkcep.match_recognize(frame, order_by="i", clause="MEASURES count(*) AS c ALL ROWS PER MATCH PATTERN (A+)")
    assert [tuple(row) for row in found.collect()] == [(1, 1, 2, 3)]


def failure(frame, **arguments) -> ClauseError:
    with pytest.raises(ClauseError) as caught:
        sparkcep.match_recognize(frame, **arguments)
    assert isinstance(caught.value, ParseException)
    return caught.value


@pytest.mark.parametrize("clause_has", ["", "PARTITION BY sym ", "PARTITION BY sym\n", "PARTITION BY sym ORDER BY ts\n"])
@pytest.mark.parametrize(
    ("wrong", "right", "error_class"),
    [
        ("DEFINE X", "DEFINE A", "UNKNOWN_VARIABLE"),  # found while planning
        ("PATTERN (A{2,1})", "PATTERN (A{1,2}?)", "QUANTIFIER"),  # while parsing
        ("DEFINE A AS A.price > sum(A.sym)", "DEFINE A AS price > 10", "DATATYPE_MISMATCH"),  # while analysing, in a Python worker
    ],
)
def test_errors_are_placed_in_the_clause(frame, clause_has, wrong, right, error_class):
    clause = clause_has + REST.replace(right, wrong)
    keys = {"partition_by": "sym", "order_by": "ts"}
    given = {k: v for k, v in keys.items() if k.replace("_", " ").upper() not in clause_has}
    error = failure(frame, clause=clause, **given)
    assert error.error_class == f"SPARKCEP.{error_class}"
    line = clause.split("\n")[error.line - 1]
    assert line[error.column - 1 :].startswith(error.fragment) and error.fragment
    assert f"== SQL (line {error.line}, position {error.column}) ==\n{line}\n" in str(error)


@pytest.mark.parametrize("argument", ["partition_by", "order_by"])
def test_keys_in_both_places(frame, argument):
    error = failure(frame, clause=f"PARTITION BY sym\nORDER BY ts {REST}", **{argument: "price"})
    assert error.error_class == "SPARKCEP.ARGUMENT" and f"argument {argument} is given" in error.message
    assert (error.line, error.fragment) == ((1, "sym") if argument == "partition_by" else (2, "ts"))


@pytest.mark.parametrize("key", ["", "sym,", "sym, ts", "sym PATTERN (B)", "a b", "(sym", "sym)", "sym DESC NULLS", "'x", "sym MEASURES ts AS x", "sym AFTER MATCH SKIP TO NEXT ROW", "-- sym"])
def test_a_text_is_one_expression(frame, key):
    for argument in ("partition_by", "order_by"):
        error = failure(frame, clause=REST, **{argument: key})
        assert error.error_class == "SPARKCEP.ARGUMENT" and repr(key) in error.message and argument in error.message
    assert "give several as a list" in failure(frame, clause=REST, partition_by="sym, ts").message


def test_a_partition_key_has_no_order(frame):
    for key in ("sym ORDER BY ts", "sym DESC"):
        error = failure(frame, clause=f"ORDER BY ts {REST}", partition_by=key)
        assert error.error_class == "SPARKCEP.ARGUMENT" and f"it ends before '{key.split()[1]}'" in error.message


def test_a_comment_in_a_key_hides_nothing(frame):
    assert rows(sparkcep.match_recognize(frame, partition_by="sym -- of the table", order_by="/* time */ ts -- ", clause=REST)) == FOUND


@pytest.mark.parametrize("clause", ["", "PATTERN (A)) JOIN x ON (true", "MATCH_RECOGNIZE (PATTERN (A))", "PATTERN (A) PATTERN (B)"])
def test_a_text_is_one_clause(frame, clause):
    failure(frame, clause=clause, order_by="ts")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"partition_by": 1}, "partition_by takes column names"),
        ({"order_by": ["ts", None]}, "order_by takes column names.*not NoneType"),
        ({"partition_by": lambda: F.upper("sym")}, "Write the expression as a string"),
        ({"partition_by": lambda: F.lit("sym")}, "not just the name"),
        ({"partition_by": lambda: F.col("sym").desc()}, "not just the name"),
        ({"order_by": lambda: F.col("nowhere")}, "not just the name of a column of the DataFrame"),
        ({"clause": None}, "needs pattern="),
    ],
)
def test_wrong_types(frame, arguments, said):
    with pytest.raises(TypeError, match=said):
        sparkcep.match_recognize(frame, **{"clause": REST, **{name: made(value) for name, value in arguments.items()}})


def test_not_a_frame():
    with pytest.raises(TypeError, match="pyspark DataFrame, not list"):
        sparkcep.match_recognize([], clause=REST)


def test_sparks_errors_stay_sparks(frame):
    with pytest.raises(AnalysisException) as caught:
        sparkcep.match_recognize(frame, partition_by="sym", order_by="nowhere", clause=REST)
    assert not isinstance(caught.value, ClauseError) and caught.value.getCondition().startswith("UNRESOLVED_COLUMN")


def test_values_of_parameters(frame):
    named = sparkcep.match_recognize(frame, partition_by="sym", order_by="ts", clause=REST.replace("10", ":low"), args={"low": 20})
    placed = sparkcep.match_recognize(frame, partition_by="sym", order_by="ts", clause=REST.replace("10", "?"), args=[20])
    assert rows(named) == rows(placed) == [("b", 25)]


def test_columns_by_the_alias_of_the_frame(frame):
    clause = "PARTITION BY q.sym ORDER BY q.ts MEASURES LAST(q.price) AS p PATTERN (A) DEFINE A AS q.price > 10"
    assert rows(sparkcep.match_recognize(frame.alias("q"), clause=clause)) == FOUND
    assert rows(sparkcep.match_recognize(frame.alias("{q}"), clause=clause.replace("q.", "`{q}`."))) == FOUND


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"order_by": "tss"}, "order_by='tss'"), ({"partition_by": ["sym", "lower(symm)"], "order_by": "ts"}, "partition_by='symm'"),
        ({"order_by": ["ts", "PREV(ts)"]}, "order_by='PREV(ts)'"),
    ],
)  # fmt: skip
def test_an_error_in_a_key_names_its_argument(frame, keys, said):
    with pytest.raises((AnalysisException, ParseException)) as caught:
        sparkcep.match_recognize(frame, clause=REST, **keys)
    assert said in str(caught.value)


def test_an_error_does_not_name_the_view_that_stands_for_the_frame(frame):
    with pytest.raises(AnalysisException) as caught:
        sparkcep.match_recognize(frame, order_by="ts", clause=REST.replace("A.price", "A.prize"))
    assert "_pyspark_" not in str(caught.value) and "prize" in str(caught.value)


def test_braces_of_a_pattern_beside_fields(spark, frame):
    sparkcep.enable(spark)
    clause = "MATCH_RECOGNIZE (PARTITION BY sym ORDER BY ts MEASURES count(*) AS n PATTERN (A{1,} {- B? -}) DEFINE A AS price > {low})"
    assert rows(spark.sql(f"SELECT * FROM {{df}} {clause}", df=frame, low=10)) == [("a", 1), ("b", 1)]


BY_NAME = {"partition_by": "sym", "order_by": "ts", "pattern": "A", "define": {"A": "price > 10"}, "measures": {"p": "LAST(price)"}}


def test_parts_by_name_are_the_clause(frame):
    assert rows(sparkcep.match_recognize(frame, **BY_NAME)) == FOUND
    pieces = {"measures": {"c d": "CLASSIFIER()", "n": "count(MOVE.*) -- of both"}, "rows": "ALL ROWS PER MATCH", "after_match": "SKIP TO NEXT ROW /* each */"}
    pieces |= {"pattern": "A B? -- one or two", "options": "EVENT SELECTION SKIP TILL NEXT MATCH WINDOW 5 -- rows", "subset": {"MOVE": ["A", "B"]}}
    pieces |= {"define": {"A": "price > 0 -- all", "B": "price > A.price"}}
    text = """MEASURES CLASSIFIER() AS `c d`, count(MOVE.*) AS n ALL ROWS PER MATCH AFTER MATCH SKIP TO NEXT ROW EVENT SELECTION SKIP TILL NEXT MATCH WINDOW 5
      PATTERN (A B?) SUBSET MOVE = (A, B) DEFINE A AS price > 0, B AS price > A.price"""
    found, wanted = (sparkcep.match_recognize(frame, partition_by="sym", order_by="ts", **given) for given in (pieces, {"clause": text}))
    assert found.columns == wanted.columns and rows(found) == rows(wanted) and rows(found)


@pytest.mark.parametrize(
    ("part", "argument", "line", "fragment"),
    [
        ({"pattern": "A{2,1}"}, "pattern", 1, "{2,1}"), ({"pattern": "A |\n B{"}, "pattern", 2, ""), ({"define": {"X": "true"}}, "define='X'", 1, "X"),
        ({"define": {"A": "price >\n prize"}}, "define['A']", 2, "prize"), ({"measures": {"m": "1 + LAST(prize)"}}, "measures['m']", 1, "prize"),
        ({"measures": {"m": "sum(sym) > A.price"}}, "measures['m']", 1, None), ({"after_match": "SKIP TO Z"}, "after_match", 1, "Z"), ({"rows": "ALL ROWS"}, "rows", 1, ""),
        ({"options": "WINDOW"}, "options", 1, "WINDOW"), ({"options": "WINDOW 5 WINDOW 6"}, "options", 1, None), ({"subset": {"M": ["A", "Q"]}}, "subset['M']", 1, None),
    ],
)  # fmt: skip
def test_an_error_names_its_part_and_the_place_there(frame, part, argument, line, fragment):
    with pytest.raises((AnalysisException, ParseException)) as caught:
        sparkcep.match_recognize(frame, **BY_NAME | part).collect()
    error, said = caught.value, str(caught.value)
    assert (argument if "='" in argument else f"{argument}=") in said, said
    assert error.line == line and fragment in (None, error.fragment), said
    assert f"== SQL (line {line}, position {error.column}) ==" in said


@pytest.mark.parametrize("text", ["", "price, sym AS s", "price) DEFINE (B", "price AS p", "'x"])
def test_a_measure_or_a_condition_is_one_expression(frame, text):
    for argument, name in (("measures", "m"), ("define", "A")):
        error = failure(frame, **BY_NAME | {argument: {name: text}})
        assert error.error_class == "SPARKCEP.ARGUMENT" and f"{argument}['{name}']: {text!r} is not one SQL expression" in error.message


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"clause": REST}, "and clause cannot both be given"), ({"pattern": None}, "needs pattern="), ({"pattern": 1}, "pattern must be a text"), ({"define": "A AS true"}, "define must be a dict"),
        ({"define": {"A": True}}, "'A' has bool True"), ({"measures": ["price"]}, "measures must be a dict"), ({"subset": {"M": "A"}}, "subset must be a dict of lists"),
    ],
)  # fmt: skip
def test_wrong_types_of_parts(frame, arguments, said):
    with pytest.raises(TypeError, match=said):
        sparkcep.match_recognize(frame, **BY_NAME | arguments)


def test_names_in_double_quotes_in_parts(spark, frame):
    with configured(spark, {"spark.sql.ansi.doubleQuotedIdentifiers": "true"}):
        found = sparkcep.match_recognize(frame, **BY_NAME | {"measures": {"p": 'LAST("price")'}, "define": {"A": '"price" > 10'}})
        assert rows(found) == FOUND
