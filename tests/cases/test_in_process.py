"""The case corpus in this process, by the engine and DuckDB; see :mod:`tests.cases.in_process`."""

from __future__ import annotations

import pytest

from tests.cases import in_process
from tests.cases.sql_case_files import Case, in_spark_alone, name_of, read_case_file
from tests.cases.test_sql_cases import FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_rows(path):
    file = read_case_file(path)
    database = in_process.Database(file)
    different = {}
    for case in filter(Case.asks_for_rows, file.cases):
        if name_of(file, case) not in in_spark_alone():
            try:
                different[case.name] = in_process.difference(database, case)
            except Exception as error:
                error.add_note(f"case {case.name}; if only Spark can answer it: python -m tests.cases.in_process --write; views not made: {database.failed}")
                raise
    database.close()
    assert {name: found for name, found in different.items() if found} == {}


def test_most_cases_need_no_spark():
    names = {name_of(file, case) for file in map(read_case_file, FILES) for case in filter(Case.asks_for_rows, file.cases)}
    alone = in_spark_alone()
    assert alone <= names and len(names - alone) >= 1_100
