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


def analysed(clause: str, **types) -> dict:
    """The answer about a clause whose plan's columns have these types (Spark's JSON)."""
    plan = make_plan(parse_clause(clause)).without_sql().to_json()
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in {**types, plan: "void"}.items()]
    request = {"kind": "analyze", "schema": json.dumps({"type": "struct", "fields": fields}), "distinct": True, "streaming": False}
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
    for request in ({"kind": "analyze", "schema": "", "distinct": True, "streaming": False}, statement):
        with caplog.at_level(logging.ERROR, logger="sparkcep"):
            error = json.loads(rewrite_server.answer(json.dumps(request)))["error"]
        assert error["error_class"] == "SPARKCEP.INTERNAL" and error["sqlstate"] == "XX000" and "\n" not in error["description"]
        assert "KeyError: 'no such thing'" in error["description"] and "an error in sparkcep" in error["description"]
        assert isinstance(caplog.records[0].exc_info[1], KeyError)
        caplog.clear()
