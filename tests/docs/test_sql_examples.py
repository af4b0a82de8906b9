"""Every statement of ``sql_examples/`` gives the rows written beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkcep import explain
from sparkcep.clause.tokens import split_statements
from tests.selection import one_in

FOLDER = Path(__file__).resolve().parents[2] / "sql_examples"
OF_AFA = sorted((FOLDER / "afa").glob("*.sql"))  # the AFA paper's, each with its picture
OF_CPR = sorted((FOLDER / "cpr" / "sequences").glob("*.sql"))  # with their rows; others of CPR read the lab's data
FILES = sorted([*FOLDER.glob("*.sql"), *OF_AFA, *OF_CPR])
STATEMENT_FILES = sorted(p for p in FOLDER.rglob("*.sql") if "dbt" not in p.parts)  # what dbt reads is no SQL yet


def table_text(frame) -> str:
    """Header and rows, tab-separated, as the ``.expected`` files hold them."""
    rows = frame.collect()
    lines = [frame.columns, *([("NULL" if v is None else str(v)) for v in row] for row in rows)]
    return "".join("\t".join(line) + "\n" for line in lines)


def run(spark, path: Path) -> str:
    frame = None
    for statement in split_statements(path.read_text(encoding="utf-8")):
        frame = spark.sql(statement)
    return table_text(frame)


@pytest.mark.parametrize("path", one_in(12, FILES, wider=4), ids=[p.stem for p in FILES])
def test_example(spark, path):
    assert run(spark, path) == path.with_suffix(".expected").read_text(encoding="utf-8")


def test_there_are_examples():
    assert len(FILES) >= 14 + len(OF_AFA)
    assert len(OF_AFA) >= 10
    assert len(OF_CPR) >= 7


@pytest.mark.parametrize("path", OF_AFA, ids=[p.stem for p in OF_AFA])
def test_picture(path):
    assert explain(path.read_text(encoding="utf-8"), "svg") == path.with_suffix(".svg").read_text(encoding="utf-8")
