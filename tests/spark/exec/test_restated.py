"""EXPLAIN AUTOMATON over the corpus: each statement that it prints gives the rows of its case."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from sparkcep import explain
from sparkcep.errors import ClauseError
from tests.cases.sql_case_files import in_spark_alone, name_of, read_case_file
from tests.cases.test_sql_cases import check_case
from tests.selection import one_in

ROUNDED = "automaton/pattern_changes/sums_keep_all_decimal_places"  # the printed + of DECIMAL(38,18) has 17 decimal places
CASES = Path(__file__).resolve().parents[2] / "cases"


@cache
def restated():
    """(file, case) of each case whose statement has a PATTERN that is an automaton's, with the statement that has the automaton."""
    found = []
    for path in sorted(CASES.glob("*/*.test")):
        text = path.read_text(encoding="utf-8").upper()
        if "ALL MATCHES" not in text and "SKIP TILL ANY" not in text:
            continue
        file = read_case_file(path)
        for case in file.cases:
            statement = case.statements[-1]
            if case.error is not None or case.params is not None or "PATTERN" not in statement.upper() or statement.upper().startswith("EXPLAIN"):
                continue
            try:
                said = explain(statement, "automaton")
            except ClauseError:
                continue
            if "AUTOMATON BY ROWS" in said and "PATTERN" not in said.upper() and name_of(file, case) != ROUNDED:
                found.append((file, replace(case, statements=[*case.statements[:-1], said])))
    return found


def test_there_are_many():
    assert len(restated()) >= 25


@pytest.mark.further
def test_the_printed_statements_give_the_rows_in_process():
    pytest.importorskip("duckdb")
    from tests.cases.in_process import Database, difference

    databases: dict[Path, Database] = {}
    compared = 0
    for file, case in restated():
        if case.asks_for_rows() and name_of(file, case) not in in_spark_alone():
            database = databases.get(file.path) or databases.setdefault(file.path, Database(file.views))
            assert difference(database, case) == "", name_of(file, case)
            compared += 1
    for database in databases.values():
        database.close()
    assert compared >= 25


@pytest.mark.parametrize("at", one_in(20, range(40), wider=8))
def test_the_printed_statement_gives_the_rows_of_the_case(spark, at):
    for file, case in restated()[at::40]:
        for statement in file.views:
            spark.sql(statement)
        for statement in case.statements[:-1]:
            spark.sql(statement)
        check_case(spark, case)
