"""The case corpus in this process, by the engine and DuckDB; see :mod:`tests.cases.in_process`."""

from __future__ import annotations

import pytest

pytest.importorskip("duckdb")

from tests.cases import in_process  # noqa: E402
from tests.cases.sql_case_files import Case, in_spark_alone, name_of, read_case_file  # noqa: E402
from tests.cases.test_sql_cases import FILES as OF_SPARK  # noqa: E402
from tests.transpiled.test_transpile import FILES as OF_OTHERS  # noqa: E402

FILES = [*OF_SPARK, *(file.path for file in OF_OTHERS)]


OF_EACH = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")


def check_rows(path, half: int) -> None:
    """Compares the rows of each second case of a file."""
    file = read_case_file(path)
    database = in_process.Database(file.views)
    different, alone = {}, in_spark_alone()
    for case in [case for case in file.cases if case.asks_for_rows() and name_of(file, case) not in alone][half::2]:
        try:
            different[case.name] = in_process.difference(database, case)
        except Exception as error:
            error.add_note(f"case {case.name}; if only Spark can answer it: python -m tests.cases.in_process --write; views not made: {database.failed}")
            raise
    database.close()
    assert {name: found for name, found in different.items() if found} == {}


@OF_EACH
def test_rows(path):
    check_rows(path, 0)


@pytest.mark.further
@OF_EACH
def test_rows_of_the_other_half(path):
    check_rows(path, 1)


def test_most_cases_need_no_spark():
    names = {name_of(file, case) for file in map(read_case_file, FILES) for case in filter(Case.asks_for_rows, file.cases)}
    alone = in_spark_alone()
    assert alone <= names and len(names - alone) >= 1_100
