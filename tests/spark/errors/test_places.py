"""Spark's own errors over statements with the clause: the place in what the user wrote, what would be right, no plan, no name of
the rewriter's."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import AnalysisException, PySparkException  # noqa: E402

import sparkcep  # noqa: E402
from sparkcep.cli import cli  # noqa: E402
from sparkcep.errors import ClauseError  # noqa: E402
from sparkcep.spark.session import session as sessions  # noqa: E402
from tests.selection import first, further  # noqa: E402

T = "(VALUES (1, 2, 'a')) t(id, price, s)"
UNRESOLVED = "UNRESOLVED_COLUMN.WITH_SUGGESTION"
UNORDERED = "SPARKCEP.DATATYPE_MISMATCH"


def over(table=T, by="", order="ORDER BY id", measures="LAST(price) AS m", pattern="A+", define="A AS price > 0", behind="", head="SELECT * FROM"):
    return f"{head} {table} MATCH_RECOGNIZE (\n  {by} {order}\n  MEASURES {measures}\n  PATTERN ({pattern})\n  DEFINE {define}) {behind}"


# a statement, with its wrong part between ⟦ and ⟧; the condition; what is said of it
WRONG = {
    "measure": (over(measures="LAST(⟦prise⟧) AS m"), UNRESOLVED, "[`price`, `id`, `s`]"),
    "its alias is no column": (over(measures="LAST(⟦prise⟧) AS prise"), UNRESOLVED, "`prise`"),
    "condition": (over(define="A AS price > 0 AND ⟦prise⟧ > 1"), UNRESOLVED, "`price`"),
    "the second of two": (over(pattern="A B", define="A AS price > 0, B AS price + ⟦prise⟧ > 0"), UNRESOLVED, "`price`"),
    "of a neighbour": (over(define="A AS price > PREV(⟦prise⟧)"), UNRESOLVED, "`price`"),
    "in a navigation that is left out": (over(define="A AS ⟦PREV(s) + PREV(map(1, 1))⟧ > 1"), "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES", "MAP"),
    "behind a variable": (over(measures="LAST(⟦A.prise⟧) AS m"), UNRESOLVED, "`price`"),
    "aggregate": (over(measures="median(⟦prise⟧) AS m"), UNRESOLVED, "`price`"),
    "partition": (over(by="PARTITION BY ⟦nope⟧"), UNRESOLVED, "`price`"),
    "a geometry as key": (
        over(table="(SELECT id, id AS price, st_geomfromwkb(X'0101000000000000000000f03f0000000000000040') AS g FROM range(2)) t", by="PARTITION BY ⟦g⟧"), UNORDERED,
        "a key of PARTITION BY cannot be of type GEOMETRY(0), because Spark does not order its values. Write st_asbinary(g)",
    ),
    "order": (over(order="ORDER BY id, ⟦nope⟧ DESC"), UNRESOLVED, "`price`"),
    "table": (over(table="⟦nope⟧"), "TABLE_OR_VIEW_NOT_FOUND", "`nope`"),
    "inside the table": (over(table="(SELECT id, price + ⟦nope⟧ AS price FROM (SELECT 1 AS id, 2 AS price))"), UNRESOLVED, "`price`"),
    "behind": (over(behind="AS m WHERE ⟦m.nope⟧ > 1"), "INVALID_EXTRACT_BASE_FIELD_TYPE", "INT"),
    "before": (over(head="SELECT ⟦nope⟧ FROM"), UNRESOLVED, "`m`"),
    "two clauses": (over(table=f"({over()}) AS q", order="ORDER BY m", measures="LAST(m) AS n", define="A AS ⟦price⟧ > 0"), UNRESOLVED, "`m`"),
    "the inner of two": (over(table=f"({over(define='A AS ⟦m⟧ > 0')}) AS q", order="ORDER BY m", measures="LAST(m) AS m", define="A AS m > 0"), UNRESOLVED, "price"),
    "function": (over(measures="LAST(⟦foo(price)⟧) AS m"), "UNRESOLVED_ROUTINE", "`foo`"),
    "an aggregate of PySpark alone": (over(measures="⟦count_distinct(A.price)⟧ AS m"), "UNRESOLVED_ROUTINE", "write count(DISTINCT A.price). Cannot"),
    "a function of PySpark alone": (over(measures="⟦product(price)⟧ AS m"), "UNRESOLVED_ROUTINE", "[UNRESOLVED_ROUTINE] Cannot resolve routine `product`"),
    "ambiguous": (
        over(table="(SELECT 1 AS id, 2 AS price) a JOIN (SELECT 1 AS id, 3 AS price) b ON a.id = b.id", order="ORDER BY b.price", measures="LAST(⟦price⟧) AS m"),
        "AMBIGUOUS_REFERENCE", "`a`.`price`",
    ),
    "two columns of one name after another clause": (
        over(measures="1 AS m ALL ROWS PER MATCH", by="PARTITION BY s", head="SELECT m FROM") + "\nUNION ALL\n" + over(
            table="(SELECT 1 AS id, 2 AS price) a JOIN (SELECT 1 AS id, 3 AS price) b ON a.id = b.id", order="ORDER BY ⟦a.id⟧", measures="1 AS m ALL ROWS PER MATCH",
            define="A AS b.price > 0", head="SELECT m FROM",
        ),
        "SPARKCEP.COLUMN_NAME", "two columns of the input are called id, and ALL ROWS PER MATCH would return both",
    ),
    "measure's types": (
        over(measures="⟦FIRST(price) + map(1, LAST(price))⟧ AS m"), "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES", '"(FIRST(price) + map(1, LAST(price)))"',
    ),
    "condition's types": (over(define="A AS ⟦price AND s = 'x'⟧"), "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES", "BOOLEAN"),
    "no condition": (over(define="A AS ⟦price⟧"), "SPARKCEP.DATATYPE_MISMATCH", "the condition of A is of type int, not BOOLEAN. Write a comparison"),
    "no condition of two rows": (over(define="A AS ⟦price - PREV(price)⟧"), "SPARKCEP.DATATYPE_MISMATCH", "the condition of A is of type int, not BOOLEAN"),
    "partition by a map": (over(table="(SELECT map('a', 1) AS k, 1 AS id, 2 AS price)", by="PARTITION BY ⟦k⟧"), UNORDERED, "PARTITION BY cannot be of type MAP<STRING, INT>"),
    "partition by a variant": (
        over(table="(SELECT parse_json('1') AS k, 1 AS id, 2 AS price)", by="PARTITION BY id, ⟦k⟧"), UNORDERED, "variant_get(k, '$.id', 'string')",
    ),
    "order by a map": (over(table="(SELECT map('a', 1) AS k, 2 AS price)", order="ORDER BY ⟦k⟧"), UNORDERED, "ORDER BY cannot be of type MAP<STRING, INT>"),
    "order by a variant": (over(table="(SELECT parse_json('1') AS k, 2 AS price)", order="ORDER BY price, ⟦k⟧ DESC"), UNORDERED, "ORDER BY cannot be of type VARIANT"),
    "order by a struct": (over(table="(SELECT struct(map('a', 1)) AS k, 2 AS price)", order="ORDER BY ⟦k⟧"), UNORDERED, "Write a part of k that can be ordered"),
    "lateral over an aggregate of Spark's": (
        "SELECT * FROM VALUES (1), (2) AS o(p), LATERAL (SELECT * FROM " + T + " ⟦MATCH_RECOGNIZE⟧ (ORDER BY id MEASURES median(price) AS m PATTERN (A)))", "SPARKCEP.LATERAL",
        "Join it, as in FROM a JOIN",
    ),
    "lateral over a random value": (
        "SELECT * ⟦FROM VALUES (1), (2) AS o(p), LATERAL (SELECT *, rand() FROM " + T + " MATCH_RECOGNIZE (ORDER BY id MEASURES LAST(price) AS m PATTERN (A)))⟧",
        "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY.NON_DETERMINISTIC_LATERAL_SUBQUERIES", "more than one row. SQLSTATE: 0A000; line 1",
    ),
    "clock of another type": (
        over(measures="MATCH_STATUS() AS m ONE ROW PER MATCH SHOW UNFINISHED MATCHES AS OF ⟦DATE '2024-01-01'⟧", pattern="(A B) WITHIN 5"),
        "SPARKCEP.UNFINISHED", "AS OF is of type DATE, but id, the first expression of ORDER BY, is of type INT. Write a value of that type",
    ),
    "variable": (
        over(measures="LAST(⟦DONW.price⟧) AS m", pattern="STRT DOWN+", define="DOWN AS price > 0"),
        UNRESOLVED, "PATTERN does not have a variable DONW; did you mean DOWN? A column",
    ),
    "variable in a condition": (over(define="A AS price > ⟦Q.price⟧"), UNRESOLVED, "PATTERN does not have a variable Q. A column"),
    "another engine's": (over(measures="⟦MATCH_SEQUENCE_NUMBER()⟧ AS m"), "UNRESOLVED_ROUTINE", "RUNNING count(*)"),
    "python over two rows": (
        over(pattern="A B+", define="B AS ⟦cheap(price - A.price)⟧"), "UNSUPPORTED_FEATURE.LAMBDA_FUNCTION_WITH_PYTHON_UDF", "only one row",
    ),
    "syntax": (over(behind="WHERE 1 ⟦2⟧"), "PARSE_SYNTAX_ERROR", "near '2'"),
    "syntax after two clauses": (
        over(table=f"({over()}) AS q", order="ORDER BY m", measures="LAST(m) AS n", define="A AS m > 0", behind="\n-- WHERE 1 2\n  WHERE 1 ⟦2⟧"), "PARSE_SYNTAX_ERROR", "near '2'",
    ),
    "function form": (
        f"SELECT * FROM match_recognize(TABLE(SELECT * FROM {T}), 'ORDER BY id MEASURES LAST(⟦prise⟧) AS m PATTERN (A) DEFINE A AS price > 0')", UNRESOLVED, "`price`",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def enabled(spark):
    from pyspark.sql.types import BooleanType

    spark.udf.register("cheap", lambda price: price > 1, BooleanType())
    yield spark
    spark.sql("DROP TEMPORARY FUNCTION cheap")


def marked(text: str) -> tuple[str, int, str]:
    """The statement, and offset and text of its marked part."""
    start, end = text.index("⟦"), text.index("⟧") - 1
    statement = text.replace("⟦", "").replace("⟧", "")
    return statement, start, statement[start:end]


def check(error: Exception, condition: str, statement: str, start: int, fragment: str) -> None:
    """Whether ``error`` stands there, in the user's words."""
    line, column = statement.count("\n", 0, start) + 1, start - (statement.rfind("\n", 0, start) + 1) + 1
    text = str(error)
    found = error.error_class if isinstance(error, ClauseError) else error.getCondition()
    assert found == condition
    assert (error.line, error.column, error.fragment) == (line, column, fragment), text
    assert re.search(r"SQLSTATE: \w{5}", text) and len(error.getSqlState()) == 5
    shown, mark = text.split("\n")[-2:]
    assert shown == statement.split("\n")[line - 1] and mark == " " * (column - 1) + "^" * len(fragment)
    assert '{"variables"' not in text and "Project" not in text and not re.search(r"\b__\w", text)
    if not isinstance(error, ClauseError):
        (context,) = error.getQueryContext()
        assert (context.fragment(), context.startIndex(), context.stopIndex()) == (fragment, start, start + len(fragment) - 1)


@pytest.mark.parametrize("part", first(range(3), wider=1))
@pytest.mark.parametrize("restored", [True, further(False)], ids=["restored by the JVM", "found by Python"])
def test_errors_of_the_analysis(enabled, restored, part, monkeypatch, capfd):
    if not restored:  # as without a Java compiler, and in Spark Connect
        monkeypatch.setattr("sparkcep.spark.session.rewrite_service.rewritten_from", lambda rewritten: None)
    failures = {}
    for name, (text, condition, said) in list(WRONG.items())[part::3]:
        statement, start, fragment = marked(text)
        with pytest.raises(AnalysisException) as caught:
            enabled.sql(statement)
        try:
            check(caught.value, condition, statement, start, fragment)
            assert said in str(caught.value), str(caught.value)
        except AssertionError as wrong:
            failures[name] = str(wrong)
    assert "QueryContextLogger" not in capfd.readouterr().err  # pyspark's log of plan and stack
    assert failures == {}, "\n\n".join(f"{name}: {wrong}" for name, wrong in failures.items())


def test_errors_of_a_run_have_their_place(enabled):
    for text, condition in (
        (over(define="A AS ⟦price / (price - price)⟧ > 1"), "DIVIDE_BY_ZERO"),
        (over(define="A AS ⟦s > 5⟧"), "CAST_INVALID_INPUT"),
        (over(measures="⟦LAST(price) / (FIRST(price) - 2)⟧ AS m"), "DIVIDE_BY_ZERO"),
        (over(behind="WHERE ⟦1 / (m - m)⟧ > 1"), "DIVIDE_BY_ZERO"),
    ):
        statement, start, fragment = marked(text)
        with pytest.raises(PySparkException) as caught:
            enabled.sql(statement).collect()
        (context,) = caught.value.getQueryContext()
        assert (caught.value.getCondition(), context.startIndex(), context.fragment()) == (condition, start, fragment)
        assert "__" not in str(caught.value).partition("JVM stacktrace")[0]


def test_parameters_keep_their_places(enabled):
    text = over(measures="LAST(price) + ? AS m, LAST(⟦prise⟧) AS n", define="A AS price > ?")
    statement, start, fragment = marked(text)
    with pytest.raises(AnalysisException) as caught:
        enabled.sql(statement, args=[1, 2])
    check(caught.value, UNRESOLVED, statement, start, fragment)


def test_views_and_tables(enabled):
    for head in ("CREATE TEMPORARY VIEW places AS SELECT * FROM", "CREATE TABLE places USING parquet AS SELECT * FROM"):
        statement, start, fragment = marked(over(head=head, measures="LAST(⟦prise⟧) AS m"))
        with pytest.raises(AnalysisException) as caught:
            enabled.sql(statement)
        check(caught.value, UNRESOLVED, statement, start, fragment)


def test_data_frames(enabled):
    frame = enabled.sql(f"SELECT * FROM {T}")
    clause, start, fragment = marked("MEASURES LAST(⟦prise⟧) AS m\nPATTERN (A+) DEFINE A AS price > 0")
    for before in ("", "PARTITION BY id "):
        given = {} if before else {"partition_by": "id"}
        with pytest.raises(AnalysisException) as caught:
            sparkcep.match_recognize(frame, order_by="price", clause=before + clause, **given)
        check(caught.value, UNRESOLVED, before + clause, start + len(before), fragment)
    with pytest.raises(AnalysisException, match="nope") as caught:
        sparkcep.match_recognize(frame, order_by="nope + 1", clause=clause.replace("prise", "price"))
    assert caught.value.line == 1 and str(caught.value).endswith("== SQL (line 1, position 1) ==\nnope + 1\n^^^^")  # in the argument


def test_errors_stay_what_they_are(enabled):
    with pytest.raises(AnalysisException) as caught:
        enabled.sql(over(measures="LAST(prise) AS m"))
    error = caught.value
    assert type(error).__mro__[2] is type(error.__context__) and not isinstance(error, ClauseError)
    assert error.getMessageParameters()["objectName"] == "`prise`"
    assert '{"variables"' in str(error.__context__)  # Spark's own, with its plan
    with pytest.raises(AnalysisException) as caught:
        enabled.sql("SELECT nope")
    assert type(caught.value).__mro__[1].__module__.startswith("pyspark")


def test_the_command_line(enabled, monkeypatch, capfd):
    monkeypatch.setattr("sparkcep.spark.session.local.start_spark", lambda name, **how: enabled)
    monkeypatch.setattr(type(enabled), "stop", lambda self: None)
    for text, condition in ((WRONG["measure"][0], UNRESOLVED), (over(define="A AS ⟦price / (price - price)⟧ > 1"), "DIVIDE_BY_ZERO")):
        statement, start, fragment = marked(text)
        assert cli.main(["run", "-e", statement]) == 2
        said = capfd.readouterr().err
        column = start - statement.rfind("\n", 0, start)
        assert said.startswith(f"error: [{condition}]") and said.rstrip().endswith("^" * len(fragment))
        assert f"position {column}) ==" in said and "Traceback" not in said and "__" not in said and "stacktrace" not in said
    assert cli.main(["run", "-e", over(pattern="A+", define="A AS price > 0").replace("PATTERN", "AFTER MATCH SKIP TO FIRST A PATTERN")]) == 2
    said = capfd.readouterr().err
    assert said.startswith("error: [SPARKCEP.") and "Traceback" not in said


@pytest.mark.further
def test_the_command_line_reads_a_clause_under_the_settings_of_the_session(enabled, monkeypatch, capfd):
    monkeypatch.setattr("sparkcep.spark.session.local.start_spark", lambda name, **how: enabled)
    monkeypatch.setattr(type(enabled), "stop", lambda self: None)
    statement = """SELECT * FROM VALUES (1, 5), (2, 25) AS t(day, price)
        MATCH_RECOGNIZE (ORDER BY "day" MEASURES A."day" AS n PATTERN (A) DEFINE A AS "price" > ${low})"""
    try:
        assert cli.main(["run", "--format", "csv", "-e", f"SET spark.sql.ansi.doubleQuotedIdentifiers=true; SET low=20; {statement}"]) == 0
        assert capfd.readouterr().out.splitlines()[-2:] == ["n", "2"]
    finally:
        for key in ("spark.sql.ansi.doubleQuotedIdentifiers", "low"):
            enabled.conf.unset(key)


def test_a_session_that_was_not_enabled(spark):
    sessions.disable(spark)
    try:
        frame = spark.sql(f"SELECT * FROM {T}")
        clause, start, fragment = marked("MEASURES LAST(⟦prise⟧) AS m PATTERN (A+)")
        with pytest.raises(AnalysisException) as caught:
            sparkcep.match_recognize(frame, order_by="id", clause=clause)
        check(caught.value, UNRESOLVED, clause, start, fragment)
    finally:
        sessions.enable(spark)


def test_names_in_an_error_move_no_cursor(enabled):
    with pytest.raises(AnalysisException) as caught:
        enabled.sql(over(table="(SELECT id, id AS price, id AS `s\x1b[31m\u202e` FROM range(3)) t", measures="LAST(`w\x1b[31m`) AS m"))
    text = str(caught.value)
    assert "\x1b" not in text and "\u202e" not in text and "`w\N{REPLACEMENT CHARACTER}[31m`" in text
    assert all("\x1b" not in context.summary() and context.summary().startswith("; line 3") for context in caught.value.getQueryContext())
