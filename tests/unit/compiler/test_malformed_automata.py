"""Automata that make no sense: each error has its class, its place and what would be right."""

from __future__ import annotations

import re
from pathlib import Path

import sparkcep
from sparkcep.errors import ClauseError
from tests.cases.sql_case_files import read_case_file

FILES = sorted((Path(__file__).resolve().parents[2] / "cases" / "automaton").glob("*.test"))
INSTEAD = re.compile(r"[;.] [A-Za-z]|\b(add|count|check|must|needs|expected|use|write)\b", re.IGNORECASE)


def test_every_error_says_where_and_what_instead():
    found = 0
    for case in (case for path in FILES for case in read_case_file(path).cases):
        statement = case.statements[-1]
        try:
            sparkcep.rewrite(statement)
        except ClauseError as error:
            found += 1
            lines = statement.split("\n")
            assert error.error_class.startswith("SPARKCEP.") and error.sqlstate, case.name
            assert error.fragment and lines[error.line - 1][error.column - 1 :].startswith(error.fragment.split("\n")[0][:10]), (case.name, error)
            assert INSTEAD.search(error.message), (case.name, error.message)
    assert found >= 60
