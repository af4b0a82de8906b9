"""The questions of this folder without Spark, by the engine and DuckDB; see :mod:`tests.cases.in_process`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("duckdb")

from tests.cases.in_process import Database  # noqa: E402
from tests.questions.question import QUESTIONS, Rows, plain  # noqa: E402
from tests.questions.test_questions import compare, needs_spark  # noqa: E402

ASKED = [q for q in QUESTIONS if not needs_spark(q)]


@pytest.fixture(scope="module")
def database():
    found = Inputs()
    yield found
    found.close()


class Inputs(Database):
    """A database with the inputs of questions. It reads each input once."""

    def __init__(self) -> None:
        super().__init__()
        self.there: set[str] = set()

    def name(self, rows: Callable[[], Rows], name: str) -> None:
        """Gives the rows of an input a name."""
        if rows.__name__ not in self.there:
            self.there.add(rows.__name__)
            self.insert(f"rows_of_{rows.__name__}", rows().schema, rows().rows)
        self.connection.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM rows_of_{rows.__name__}")


@pytest.mark.parametrize("asked", [pytest.param(q, id=q.name) for q in ASKED])
def test_answer(database, asked):
    for name, rows in asked.of.items():
        database.name(rows, name)
    _, found = database.table(asked.sql)
    compare(asked, [plain(row) for row in zip(*(column.to_pylist() for column in found.columns), strict=True)])


def test_most_questions_need_no_spark():
    assert len(ASKED) >= 75
