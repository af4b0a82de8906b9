"""Statements of other engines give their rows when they are transpiled (``tests/transpiled``), and notes say what a reader should know."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import sparkcep
from sparkcep.cli import main
from sparkcep.errors import ClauseError
from tests.selection import one_in
from tests.sql_case_files import read_case_file
from tests.test_sql_cases import Views, check_case, starts_no_job

FILES = [read_case_file(path) for path in sorted((Path(__file__).resolve().parent / "transpiled").glob("*.test"))]
CASES = [(file, case) for file in FILES for case in file.cases]


@pytest.fixture(scope="module")
def views(spark):
    return Views(spark)


@pytest.mark.parametrize(("file", "case"), one_in(3, [pytest.param(file, case, id=f"{file.path.stem}/{case.name}") for file, case in CASES if not starts_no_job(case)]))
def test_rows(spark, views, file, case):
    views.load(file)
    done = sparkcep.transpile(case.statements[-1], case.read)
    check_case(spark, replace(case, statements=[done.sql]))
    assert len(done.notes) == len(case.notes), done.notes
    for note, text in zip(done.notes, case.notes):
        assert text in str(note)


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{file.path.stem}/{case.name}") for file, case in CASES if starts_no_job(case)])
def test_errors(case):
    with pytest.raises(ClauseError) as raised:
        sparkcep.transpile(case.statements[-1], case.read)
    error = raised.value
    assert error.error_class == f"SPARKCEP.{case.error.error_class}" and case.error.text in error.message
    assert case.error.position is None or (error.line, error.column) == case.error.position, str(error)


def test_the_command_prints_statements_and_notes(capsys):
    sql = "SELECT 1; SELECT * FROM t MATCH_RECOGNIZE (ORDER BY x MEASURES a.x / b.y AS q PATTERN (a b))"
    assert main(["transpile", "--read", "trino", "-e", sql]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("SELECT 1;\nSELECT * FROM t MATCH_RECOGNIZE (\n") and "ORDER BY x NULLS LAST\n" in out
    assert err.startswith("note: line 1, column 64: ")


def test_a_function_that_sqlglot_does_not_know_stays_and_is_told():
    done = sparkcep.transpile("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY x MEASURES ORA_HASH(LAST(y)) AS h PATTERN (a))", "oracle")
    assert "ORA_HASH(LAST(y))" in done.sql and [str(note) for note in done.notes] == [
        "line 1, column 54: ORA_HASH: sqlglot knows no function of this name, so it stays as it is"
    ]


def test_an_engine_that_is_not_known(capsys):
    assert main(["transpile", "--read", "mysql", "-e", "SELECT 1"]) == 2
    assert "trino, snowflake, oracle, flink" in capsys.readouterr().err
