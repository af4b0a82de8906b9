"""Estimates of what a filter keeps against tables that are known whole; who may be asked, and settings. No Spark."""

from __future__ import annotations

import random

import pytest

from sparkcep.clause.tokens import matching, tokenize
from sparkcep.draw.explain import explain
from sparkcep.errors import ClauseError
from sparkcep.settings import ALWAYS, Settings
from sparkcep.sql.prefilter.cost import SURE, Sample, Sampled, few, worth
from sparkcep.sql.prefilter.second_read import Choice, Filter, Near
from sparkcep.sql.prefilter.slices import WHOLE
from sparkcep.sql.rewrite.rewrite import rewrite_all
from sparkcep.sql.rewrite.table_names import definers, definitions, runs_at_once
from tests.selection import one_in
from tests.support.steps import steps

ROWS, SEEN = 200_000, 20_000


def table(kind, rng):
    """(key, at, hit) of each row, in the order of the file."""
    if kind == "rare rows, keys in turn":
        return [(i % 100, i // 100, rng.random() < 0.0001) for i in range(ROWS)]
    if kind == "rare keys, in turn":
        return [(i % 100, i // 100, i % 100 < 2 and rng.random() < 0.2) for i in range(ROWS)]
    if kind == "rare keys, one behind the other":
        return [(i // 200, i, i // 200 % 10 == 0 and rng.random() < 0.05) for i in range(ROWS)]
    if kind == "frequent rows":
        return [(i % 100, i // 100, rng.random() < 0.05) for i in range(ROWS)]
    if kind.endswith("shuffled"):
        rows = table(kind.removesuffix(", shuffled"), rng)
        rng.shuffle(rows)
        return rows
    if kind.endswith("latest first"):
        return table(kind.removesuffix(", latest first"), rng)[::-1]
    if kind == "few long keys":
        return [(0 if rng.random() < 0.9 else i, i, rng.random() < 0.001) for i in range(ROWS)]
    raise ValueError(kind)


def truth(rows, width=None):
    places = {(k, at // width if width else 0) for k, at, hit in rows if hit}
    if width:
        return sum(any((k, at // width + d) in places for d in (-1, 0, 1)) for k, at, _ in rows) / len(rows)
    return sum((k, 0) in places for k, at, _ in rows) / len(rows)


@pytest.mark.parametrize(
    ("kind", "width", "within"),
    one_in(4, [
        pytest.param("rare rows, keys in turn", None, 0.15),
        pytest.param("rare rows, keys in turn", 20, 0.02),
        pytest.param("rare keys, in turn", None, 0.03),
        pytest.param("rare keys, one behind the other", None, 0.08),
        pytest.param("frequent rows", None, 0.02),
        pytest.param("frequent rows", 10, 0.1),
        pytest.param("frequent rows, shuffled", 10, 0.05),
        pytest.param("frequent rows, latest first", 10, 0.1),
        pytest.param("rare rows, keys in turn, shuffled", 20, 0.02),
        pytest.param("rare rows, keys in turn, latest first", 20, 0.02),
        pytest.param("few long keys", None, 0.06),
    ]),
)
def test_estimates(kind, width, within):
    rng = random.Random(kind)
    rows = table(kind, rng)
    sample = Sample(tuple(Sampled(k, at, int(hit), True) for k, at, hit in rows[:SEEN]), len(rows))
    found = sample.estimate(0, width)
    assert abs(found - truth(rows, width)) < within, (found, truth(rows, width))
    whole = Sample(tuple(Sampled(k, at, int(hit), True) for k, at, hit in rows), len(rows))
    assert whole.estimate(0) == pytest.approx(truth(rows))


def test_few_rows_are_broadcast_as_they_come():
    rows = tuple(Sampled(0, i, int(i % 20 == 0), True) for i in range(1000))
    assert few(Sample(rows, 1_000_000), 0) and not few(Sample(rows, 3_000_000), 0)
    assert few(Sample(rows[1:2], SURE), 1) is False, "one sampled row tells little"
    none = tuple(Sampled(0, i, 0, True) for i in range(20_000))
    assert few(Sample(none, SURE), 0) and not few(Sample(none, SURE + 1), 0)


def test_what_is_worth_a_read():
    assert worth(1.0, 0.1) and worth(0.15, 0.2) and not worth(1.0, 0.95)
    assert not worth(0.05, 0.0)  # little is exchanged without it
    sample = Sample(tuple(Sampled(0, None, i % 2, i % 4 == 0) for i in range(100)), 100)
    assert sample.sent == 0.25 and sample.hits(0) == 50 and sample.estimate(0) == 1
    assert Sample((), 0).estimate(0) == 0


def names(sql):
    tokens = tokenize(sql)
    close = matching(tokens)
    found = definitions(tokens, close, definers(tokens, close), sql.index("HERE"))
    return None if found is None else [sql[a:b] for a, b in found]


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT * FROM HERE", []),
        ("WITH a AS (SELECT 1), b (x, y) AS (SELECT (2)) SELECT * FROM HERE", ["a AS (SELECT 1)", "b (x, y) AS (SELECT (2))"]),
        ("WITH a AS (SELECT 1), b AS (SELECT * FROM HERE), c AS (SELECT 3) SELECT 1", ["a AS (SELECT 1)"]),
        ("INSERT INTO t WITH a AS (SELECT 1) SELECT * FROM HERE", ["a AS (SELECT 1)"]),
        ("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) JOIN HERE", []),
        ("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM HERE)", None),
        ("WITH o AS (WITH a AS (SELECT 1) SELECT * FROM (SELECT * FROM HERE)) SELECT 1", None),
        ("WITH RECURSIVE a AS (SELECT 1) SELECT * FROM HERE", None),
        ("WITH a AS NOT MATERIALIZED (SELECT 1) SELECT * FROM HERE", None),
        ("SELECT * FROM HERE AS with", []),
    ],
)
def test_names_under_which_a_table_is_read(sql, wanted):
    assert names(sql) == wanted


def test_a_statement_is_not_read_again_for_each_table():
    def taken(columns):
        tokens = tokenize(f"WITH a AS (SELECT 1) SELECT {'1, ' * columns} 1 FROM t")
        close = matching(tokens)
        return steps(definitions, tokens, close, definers(tokens, close), tokens[-1].start)

    assert taken(1_000) == taken(10)


@pytest.mark.parametrize(
    ("sql", "now"),
    [
        ("SELECT 1", True),
        ("(SELECT 1)", True),
        ("EXPLAIN SELECT 1", True),
        ("INSERT INTO t SELECT 1", True),
        ("CREATE TABLE t AS SELECT 1 AS VIEW", True),
        ("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1", False),
        ("EXPLAIN CREATE VIEW v AS SELECT 1", False),
        ("BEGIN SELECT 1; END", False),
        ("CREATE FUNCTION f() RETURNS INT RETURN SELECT 1", False),
        ("ALTER VIEW v AS SELECT 1", False),
    ],
)
def test_statements_that_read_at_once(sql, now):
    assert runs_at_once(tokenize(sql)) is now


QUERY = (
    "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY o MEASURES A.x AS x EVENT SELECTION SKIP TILL ANY MATCH WINDOW 5 "
    "PATTERN (A B) DEFINE A AS x = 1, B AS x > A.x)"
)


def test_the_chooser_decides():
    asked = []

    class Chosen:
        def filter(self, question):
            asked.append(question)
            return Choice(Filter(0, Near("CAST(__o0 AS BIGINT)", 5)), "because")

        def slices(self, question, *, sampled):
            return WHOLE

    choose = Chosen()
    sql, (item,) = rewrite_all(QUERY, choose=choose)
    assert "LEFT SEMI JOIN (SELECT DISTINCT __q0, __n + (CAST(__o0 AS BIGINT)) DIV 5L AS __at FROM (SELECT k AS __q0, o AS __o0 FROM t WHERE" in sql
    assert item.filtering.note == "because"
    (question,) = asked
    assert question.source == "t" and question.names == "" and "SEMI" not in question.alone
    assert rewrite_all(QUERY, Settings(prefilter=False), choose=choose)[1][0].filtering.note == "" and len(asked) == 1


def test_explain_tells():
    assert "partitions are not filtered: its table cannot be sampled without a session" in explain(QUERY)
    assert "partitions without a row of A: (x = 1); sparkcep.prefilter is always" in explain(QUERY, settings=Settings(prefilter=ALWAYS))
    assert "filtered" not in explain(QUERY, settings=Settings(prefilter=False)).partition("further")[0]


@pytest.mark.parametrize(("text", "value"), [("true", True), ("FALSE", False), (" Always ", ALWAYS)])
def test_the_setting(text, value):
    assert Settings.read({"sparkcep.prefilter": text}.get).prefilter == value


def test_a_wrong_setting():
    with pytest.raises(ClauseError, match="must be true, false or always, not 'yes'"):
        Settings.read({"sparkcep.prefilter": "yes"}.get)
