"""What the JVM is told when a request cannot be answered as it should be; no JVM is started."""

from __future__ import annotations

import json
import logging

import pytest

pytest.importorskip("pyspark")

from sparkcep.clause.parser import parse_clause  # noqa: E402
from sparkcep.plan.build import make_plan  # noqa: E402
from sparkcep.spark import python_functions, rewrite_server  # noqa: E402

INTERVAL = "interval"
ARRAY = {"type": "array", "elementType": "interval", "containsNull": True}


def analysed(clause: str, sql: str = "", **types) -> dict:
    """The answer about a clause whose plan's columns have these types (Spark's JSON)."""
    plan = make_plan(parse_clause(clause)).without_sql().to_json()
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in {**types, plan: "void"}.items()]
    request = {"kind": "analyze", "schema": json.dumps({"type": "struct", "fields": fields}), "distinct": True, "streaming": False, "sql": sql}
    return json.loads(rewrite_server.answer(json.dumps(request)))


@pytest.mark.parametrize("kind", [INTERVAL, ARRAY])
@pytest.mark.parametrize(
    ("clause", "column", "name"),
    [
        ("ORDER BY t MEASURES FIRST(`a column`) AS n PATTERN (A)", "__c0", "`a column`"),
        ("ORDER BY t MEASURES FIRST(t) AS n ALL ROWS PER MATCH PATTERN (A)", "c", "c"),
    ],
)
def test_columns_that_cannot_be_sent_are_named(kind, clause, column, name):
    error = analysed(clause, **{"__o0": "long", column: kind})["error"]
    assert error["error_class"] == "SPARKCEP.COLUMN_TYPE" and error["sqlstate"] == "0A000"
    assert error["message"].startswith(f"{name} is of type ") and "interval" in error["message"]


def test_what_should_not_have_been_is_told_as_such(monkeypatch, caplog):
    def broken(*_, **__):
        raise KeyError("no such thing")

    monkeypatch.setattr(python_functions, "analyze", broken)
    monkeypatch.setattr(rewrite_server, "translated", broken)
    statement = {"sql": "SELECT 1", "settings": {}, "named_markers": False}
    for request in ({"kind": "analyze", "schema": "", "distinct": True, "streaming": False, "sql": ""}, statement):
        with caplog.at_level(logging.ERROR, logger="sparkcep"):
            error = json.loads(rewrite_server.answer(json.dumps(request)))["error"]
        assert error["error_class"] == "SPARKCEP.INTERNAL" and error["sqlstate"] == "XX000" and "\n" not in error["description"]
        assert "KeyError: 'no such thing'" in error["description"] and "an error in sparkcep" in error["description"]
        assert isinstance(caplog.records[0].exc_info[1], KeyError)
        caplog.clear()


def test_an_error_of_the_analysis_is_told_over_the_statement():
    """The request names the statement, which was rewritten before."""
    clause = "ORDER BY t MEASURES array_agg(make_interval(0, t)) AS n PATTERN (A)"
    statement = f"SELECT *\nFROM t MATCH_RECOGNIZE ({clause})"
    rewrite = {"sql": statement, "settings": {}, "named_markers": False}
    assert "sql" in json.loads(rewrite_server.answer(json.dumps(rewrite)))
    error = analysed(clause, statement, __o0="integer", __c0=INTERVAL)["error"]
    assert (error["line"], error["fragment"]) == (2, "array_agg(make_interval(0, t))") and error["message"].startswith("make_interval(0, t) is of type")
    assert error["description"].endswith(f"\n{' ' * statement.split(chr(10))[1].index('array_agg')}{'^' * len('array_agg(make_interval(0, t))')}")


def test_a_statement_without_a_clause_is_told_why():
    asked = {"kind": "unbegun", "sql": "SELECT * FROM t MATCH_RECOGNISE (ORDER BY t PATTERN (A))"}
    assert "did you mean MATCH_RECOGNIZE?" in json.loads(rewrite_server.answer(json.dumps(asked)))["error"]["message"]
    assert json.loads(rewrite_server.answer(json.dumps({**asked, "sql": "SELECT FROM t PATTERN (a)"}))) == {}
