"""Long texts: memory and work that grow with their length, numbers of thousands of digits, comments and escapes as Spark reads
them."""

from __future__ import annotations

import re
import tracemalloc

import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.clause.tokens import tokenize
from sparkcep.engine.factory import prepare
from sparkcep.errors import ClauseError
from sparkcep.plan.build import make_plan
from sparkcep.settings import DEFAULT
from sparkcep.sql.rewrite.rewrite import _string_value, rewrite, translated
from tests.support.steps import steps

CLAUSE = "FROM t MATCH_RECOGNIZE (ORDER BY i MEASURES count(*) AS n PATTERN (A))"
DIGITS = "9" * 5_000


@pytest.mark.parametrize("piece", ["x", "\\x", "''", "x\\n"])
def test_a_long_literal_takes_the_memory_of_its_text(piece):
    text = f"SELECT '{piece * 500_000}'"
    tokenize("SELECT 1")  # imports what it needs
    tracemalloc.start()
    tokenize(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * len(text)


@pytest.mark.further
@pytest.mark.parametrize(
    "text",
    [
        lambda n: f"SELECT {'match_recognize (1), ' * n} 1 {CLAUSE}",
        lambda n: f"SELECT * {CLAUSE} WHERE x IN ({'match_recognize (1), ' * n} 1)",
        lambda n: f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY i MEASURES {', '.join(f'LAST(a{i}) AS m{i}' for i in range(n))} PATTERN (A))",
    ],
)
def test_work_grows_with_the_length(text):
    rewrite(text(1))  # imports what it needs
    assert steps(rewrite, text(1_000)) < 6 * steps(rewrite, text(250))


@pytest.mark.parametrize(
    ("clause", "error"),
    [
        (f"PATTERN (A) DEFINE A AS NEXT(A.p, {DIGITS}) > 1", "NAVIGATION_OFFSET"),
        (f"PATTERN (A) DEFINE A AS t - FIRST(A.t) < {DIGITS}", "DATATYPE_MISMATCH"),
        (f"PATTERN (A) WINDOW {DIGITS}", "WINDOW_SIZE"),
        (f"PATTERN (A) WINDOW {DIGITS} ROWS", "WINDOW_SIZE"),
        (f"PATTERN (A) WINDOW INTERVAL '{DIGITS}' DAY", "WINDOW_SIZE"),
        (f"PATTERN (A) WINDOW INTERVAL '{DIGITS}:1' HOUR TO MINUTE", "WINDOW_SIZE"),
        (f"EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A) WINDOW 5 APPROX {DIGITS}", "APPROX"),
        ("EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A) WINDOW 5 APPROX 1 WEIGHTS (A 1e99999999)", "APPROX"),
        (f"EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A) WINDOW 5 PREF MAX (A.p) TOP {DIGITS}", "TOP"),
        (f"PATTERN (A) DEFINE A AS CLASSIFIER(x{DIGITS}) = 'A'", "UNKNOWN_VARIABLE"),
    ],
)
def test_a_text_of_thousands_of_digits_is_refused_in_a_short_message(clause, error):
    with pytest.raises(ClauseError) as raised:
        rewrite(f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t MEASURES count(*) AS n {clause})")
    assert raised.value.error_class == f"SPARKCEP.{error}"
    assert raised.value.line == 1 and raised.value.column > 70
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    "size",
    ["INTERVAL /* x */ '4' MINUTES", "INTERVAL '4' /* b */ MINUTES", "INTERVAL '4' -- x\n MINUTES", "INTERVAL\n4 MINUTES", 'INTERVAL "4" MINUTES', "INTERVAL '0:4' HOUR -- x\n TO MINUTE"],
)
def test_a_comment_in_an_interval_is_a_blank(size):
    for text in (f"PATTERN (A B) WINDOW {size}", f"PATTERN (A B) WINDOW INTERVAL '8' MINUTES SLIDE {size} PREF MAX (A.p) TOP 1", f"PATTERN ((A B) WITHIN {size})"):
        assert '"240000000"' in rewrite(f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t MEASURES count(*) AS n EVENT SELECTION SKIP TILL ANY MATCH {text})")


@pytest.mark.parametrize(
    ("comment", "rest"),
    [
        ("-- x \\\n not it's (\n", "1"),
        ("-- x\r", "1"),
        ("-- x \\\\\n not\n", "1"),
        ("/* a /* b */ c */", "1"),
        ("/* a /*+ b */", "1"),
        ("/*+ a */", "1"),
        ("ORDER /* a /* b */ c */", "BY"),
        ("PARTITION -- it's\n", "BY"),
    ],
)
def test_comments_end_where_spark_ends_them(comment, rest):
    assert [t.text for t in tokenize(comment + rest)] == [*re.findall("^[A-Z]+", comment), rest, ""]


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (r"'\u00zz'", "u00zz"), (r"'\u0041'", "A"), (r"'\101'", "A"), (r"'\U0001F600'", "\U0001f600"), (r"'\ud83d\ude00'", "\U0001f600"), ("'a''b'", "a'b"),
        ("'a\"\"b'", 'a""b'), (r"'\%\_\n\'\\'", "\\%\\_\n'\\"), (r"r'\n'", "\\n"), ('"a""b"', 'a"b'),
    ],
)
def test_values_of_literals(literal, value):
    assert _string_value(literal) == value


@pytest.mark.parametrize(
    "text", ["SELECT * FROM match_recognize(", "SELECT * FROM match_recognize(TABLE(), 'PATTERN (A)')", "SELECT * FROM match_recognize(TABLE(t), '\\u00zz PATTERN (A)')"]
)
def test_a_broken_call_of_the_function_is_an_error_with_a_place(text):
    with pytest.raises(ClauseError) as raised:
        rewrite(text)
    assert raised.value.line == 1 and raised.value.column > 14


def test_a_call_with_a_binary_literal_is_left_to_spark():
    text = "SELECT * FROM match_recognize(TABLE(t), X'41')"
    assert rewrite(text) == text


def _prepared(condition: str) -> None:
    """Reads and compiles a condition over several rows."""
    plan = make_plan(parse_clause(f"ORDER BY t MEASURES count(*) AS n PATTERN (A B+) DEFINE B AS {condition}"))
    plan.to_json()
    prepare(plan, pa.schema([(column, pa.int64()) for column, _ in plan.inputs]))


@pytest.mark.further
@pytest.mark.parametrize(
    "condition",
    [
        lambda n: f"CASE t - A.t {' '.join(f'WHEN {i} THEN true' for i in range(n))} END",
        lambda n: f"CASE {' '.join(f'WHEN t - A.t = {i} THEN t > A.t + {i}' for i in range(n))} ELSE false END",
    ],
)
def test_a_long_case_is_compiled_in_work_that_grows_with_its_length(condition):
    _prepared(condition(1))  # imports what it needs
    short, long = (steps(_prepared, condition(n)) for n in (200, 800))
    assert long < 6 * short


def test_a_deep_case_is_refused_at_its_place():
    deep = "t > A.t"
    for i in range(60):
        deep = f"CASE WHEN t > A.t + {i} THEN false ELSE {deep} END"
    with pytest.raises(ClauseError, match="EXPRESSION_TOO_DEEP.*line 1, column"):
        _prepared(deep)


@pytest.mark.parametrize(
    "head",
    [
        "SELECT /* {} */ 1", "SELECT 1 -- {}\n", "SELECT '{}'", 'SELECT "{}"', "SELECT 1 AS `{}`", "SELECT r'{}', X'00'", "SELECT /* /* {} */ {} */ 1",
        "SELECT my_match_recognize, match_recognizes",
    ],
)  # fmt: skip
@pytest.mark.parametrize("named_markers", [False, True])
def test_a_long_statement_without_the_word_of_the_clause_is_not_cut(monkeypatch, head, named_markers):
    """The word in a comment, in a literal, in a name or within another word is none."""
    for module in ("rewrite.rewrite", "rewrite.occurrences", "explain.as_automaton"):
        monkeypatch.setattr(f"sparkcep.sql.{module}.tokenize", None)
    sql = f"{head.replace('{}', 'Match_Recognize (ORDER BY i PATTERN (A))')}, 1 IN ({', '.join(map(str, range(100_000)))})"
    tracemalloc.start()
    assert rewrite(sql) is sql and translated(sql, settings=DEFAULT, named_markers=named_markers) is None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * len(sql)


def test_the_work_of_finding_no_clause_grows_as_the_text():
    counts = [steps(rewrite, f"SELECT {many} /* match_recognize */ ''") for many in ("'a', /* b */ `c`, " * n for n in (1_000, 2_000))]
    assert counts[1] < 2.2 * counts[0]


def test_a_statement_with_a_clause_has_a_bound(monkeypatch):
    monkeypatch.setattr("sparkcep.sql.rewrite.occurrences.MAX_STATEMENT", 1_000)
    long = f"SELECT * FROM (VALUES {', '.join(f'({i})' for i in range(400))}) AS t(i) MATCH_RECOGNIZE (ORDER BY i MEASURES count(*) AS n PATTERN (A))"
    for call in (rewrite, lambda sql: translated(sql, settings=DEFAULT, named_markers=True)):
        with pytest.raises(ClauseError, match=r"STATEMENT_TOO_LARGE.*with MATCH_RECOGNIZE at most 1000 are allowed. Move long lists into a table") as caught:
            call(long)
        assert (caught.value.line, caught.value.column) == (1, 1)
    assert "match_recognize(" in rewrite(f"SELECT * {CLAUSE}")
