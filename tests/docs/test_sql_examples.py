"""Every statement of ``sql_examples/`` gives the rows written beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkcep import explain
from sparkcep.clause.tokens import split_statements
from tests.selection import first, one_in

FOLDER = Path(__file__).resolve().parents[2] / "sql_examples"
OF_AFA = sorted((FOLDER / "afa").glob("*.sql"))  # the AFA paper's, each with its picture
OF_CPR = sorted((FOLDER / "cpr" / "sequences").glob("*.sql"))  # with their rows; others of CPR read the lab's data
OF_STREAMS = sorted((FOLDER / "streams").glob("*.sql"))  # the last statement is streamed, and its rows are sorted
FILES = sorted([*FOLDER.glob("*.sql"), *OF_AFA, *OF_CPR])
STATEMENT_FILES = sorted(p for p in FOLDER.rglob("*.sql") if "dbt" not in p.parts)  # what dbt reads is no SQL yet
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


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


@pytest.mark.parametrize("path", one_in(24, FILES, wider=4), ids=[p.stem for p in FILES])
def test_example(spark, path):
    assert run(spark, path) == path.with_suffix(".expected").read_text(encoding="utf-8")


def test_there_are_examples():
    assert len(FILES) >= 14 + len(OF_AFA)
    assert len(OF_AFA) >= 10
    assert len(OF_CPR) >= 7


@pytest.mark.parametrize("path", OF_AFA, ids=[p.stem for p in OF_AFA])
def test_picture(path):
    assert explain(path.read_text(encoding="utf-8"), "svg") == path.with_suffix(".svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", first(OF_STREAMS, 0, 2), ids=lambda path: path.stem)
def test_example_over_a_stream(spark, path, tmp_path):
    table, statement = split_statements(path.read_text(encoding="utf-8"))
    name = table.partition("CREATE TABLE ")[2].split()[0]
    spark.conf.set(PROVIDER, "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
    spark.catalog.dropTempView(name)  # of another test, which would hide the table
    spark.sql(table.replace(" USING parquet", f" USING parquet LOCATION '{tmp_path / 'rows'}'"))
    try:
        streamed = spark.sql(statement)
        query = streamed.writeStream.format("parquet").option("path", str(tmp_path / "found")).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()
        found = spark.read.schema(streamed.schema).parquet(str(tmp_path / "found")).orderBy(*streamed.columns)
        assert table_text(found) == path.with_suffix(".expected").read_text(encoding="utf-8")
    finally:
        spark.sql(f"DROP TABLE {name}")
        spark.conf.unset(PROVIDER)


def test_the_page_about_streams_has_their_statements_and_rows():
    page = (FOLDER.parent / "docs" / "streams.md").read_text(encoding="utf-8")
    for path in OF_STREAMS:
        statement = split_statements(path.read_text(encoding="utf-8"))[-1].strip()
        rows = [line.split("\t") for line in path.with_suffix(".expected").read_text(encoding="utf-8").splitlines()]
        assert f"```sql\n{statement}\n```" in page
        shown = page.partition(statement)[2].partition("```text\n")[2].partition("```")[0]
        assert [[cell.strip() for cell in line.strip("|").split("|")] for line in shown.splitlines() if line.startswith("|")] == rows
