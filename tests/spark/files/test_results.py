"""Results as text for other programs: what a reader of CSV or JSON gets is what the result holds."""

from __future__ import annotations

import csv
import io
import json

import pytest

pytest.importorskip("pyspark")

from sparkcep.spark.errors.exceptions import shown  # noqa: E402
from sparkcep.spark.files.results import ResultError, pour, write  # noqa: E402

ROWS = """SELECT * FROM VALUES (1, ' a "b", c ', TIMESTAMP '2024-01-01 00:00:00.123456', array(1, NULL)), (2, 'l1\\nl2\\tl3', NULL, NULL), (3, '', TIMESTAMP '2024-01-01 00:00:00', array()),
  (4, NULL, NULL, array(5)) AS r(k, text, at, list) ORDER BY k"""
TEXTS = [' a "b", c ', "l1\nl2\tl3", "", None]


def poured(frame, kind: str, **more) -> str:
    out = io.BytesIO()
    pour(frame, kind, out, **more)
    return out.getvalue().decode()


def test_texts_times_and_lists_come_back(spark):
    frame = spark.sql(ROWS)
    for kind, separator in (("csv", ","), ("tsv", "\t")):
        head, *rows = csv.reader(io.StringIO(poured(frame, kind)), delimiter=separator)
        assert head == ["k", "text", "at", "list"] and [row[0] for row in rows] == ["1", "2", "3", "4"]
        assert [row[1] for row in rows] == [text or "" for text in TEXTS]
        assert rows[0][2].startswith("2024-01-01T00:00:00.123456") and [row[3] for row in rows] == ["[1,null]", "", "[]", "[5]"]
    lines = [json.loads(line) for line in poured(frame, "jsonl").splitlines()]
    assert lines == json.loads(poured(frame, "json")) and [line["text"] for line in lines] == TEXTS
    assert [line["list"] for line in lines] == [[1, None], None, [], [5]] and lines[0]["at"].startswith("2024-01-01T00:00:00.123456") and lines[1]["at"] is None


def test_rows_keep_their_order_over_batches(spark):
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    try:
        frame = spark.sql("SELECT id, -id AS x FROM range(0, 200, 1, 5) ORDER BY id")
        assert poured(frame, "csv") == "id,x\n" + "".join(f"{i},{-i}\n" for i in range(200))
        assert json.loads(poured(frame, "json")) == [{"id": i, "x": -i} for i in range(200)]
        assert poured(frame.where("id < 2"), "tsv", header=False) == "0\t0\n1\t-1\n"
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def test_no_rows_and_nothing_but_null(spark):
    none = spark.sql("SELECT 1 AS a WHERE false")
    assert [poured(none, kind) for kind in ("csv", "json", "jsonl")] == ["a\n", "[]\n", ""]
    assert list(csv.reader(io.StringIO(poured(spark.sql("SELECT CAST(NULL AS INT) AS a"), "csv")))) == [["a"], [""]]  # and no row less


def test_two_columns_of_a_name(spark):
    frame = spark.sql("SELECT 1 AS a, 2 AS a")
    assert poured(frame, "csv") == "a,a\n1,2\n"
    with pytest.raises(ResultError, match="several columns of the result are called a"):
        poured(frame, "jsonl")


def test_an_error_while_rows_are_written_has_its_place(spark):
    statement = "SELECT id,\n 1 / (id - 15) AS x FROM range(0, 20, 1, 2)"
    with pytest.raises(Exception) as ended:
        poured(spark.sql(statement), "csv")
    assert "DIVIDE_BY_ZERO" in shown(ended.value, statement) and "line 2, column 2" in shown(ended.value, statement)


def test_a_file_of_csv_is_the_same_text(spark, tmp_path):
    write(spark.sql(ROWS), str(tmp_path / "out.csv"))
    assert (tmp_path / "out.csv").read_text() == poured(spark.sql(ROWS), "csv")
