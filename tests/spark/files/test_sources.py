"""Views over files of the user's own: formats by endings, separators, dates, what is told and what is an error."""

from __future__ import annotations

import csv
import gzip

import pytest

from sparkcep.spark.files import sources as reading
from sparkcep.spark.files.results import write
from sparkcep.spark.files.sources import SourceError, define, opened, ordered_by_letters, sources
from tests.selection import one_in

PLAIN = "id,price\n1,3.5\n2,2.5\n"


def defined(spark, path, *options: str, name: str = "given"):
    """The view's columns and types, its rows, and what was told."""
    told: list[str] = []
    (source,) = sources([f"{name}={path}"], [f"{name}.{option}" for option in options])
    define(spark, source, told.append)
    frame = spark.table(name)
    return dict(frame.dtypes), [tuple(row) for row in frame.collect()], told


@pytest.mark.parametrize(
    ("file", "text", "types", "first"),
    one_in(3, [
        pytest.param("a.csv", PLAIN, {"id": "int", "price": "double"}, (1, 3.5)),
        pytest.param("b.csv", PLAIN.replace(",", ";"), {"id": "int", "price": "double"}, (1, 3.5)),
        pytest.param("c.tsv", PLAIN.replace(",", "\t"), {"id": "int", "price": "double"}, (1, 3.5)),
        pytest.param("d.csv", "one\n1\n2\n", {"one": "int"}, (1,)),
        pytest.param("e.csv", "7,a b\n8,c d\n", {"_c0": "int", "_c1": "string"}, (7, "a b")),
        pytest.param("f.json", '[\n {"id": 1,\n  "price": 3.5},\n {"id": 2, "price": 2.5}\n]', {"id": "bigint", "price": "double"}, (1, 3.5)),
        pytest.param("g.ndjson", '{"id": 1, "price": 3.5}\n{"id": 2, "price": 2.5}\n', {"id": "bigint", "price": "double"}, (1, 3.5)),
    ]),
)
def test_texts(spark, tmp_path, file, text, types, first):
    (tmp_path / file).write_text(text)
    found, rows, told = defined(spark, tmp_path / file)
    assert (found, rows[0], len(rows), told) == (types, first, 2, [])


def test_packed_files_folders_and_patterns(spark, tmp_path):
    folder = tmp_path / "days"
    folder.mkdir()
    for i in range(2):
        (folder / f"{i}.csv.gz").write_bytes(gzip.compress(PLAIN.replace(",", "|").encode()))
    for path, count in ((folder / "0.csv.gz", 2), (folder, 4), (f"{folder}/*.csv.gz", 4)):
        types, rows, _ = defined(spark, path)
        assert types == {"id": "int", "price": "double"} and len(rows) == count
    spark.range(3).write.parquet(str(tmp_path / "plain"))
    assert len(defined(spark, tmp_path / "plain")[1]) == 3


def test_dates_are_told_apart_from_texts(spark, tmp_path):
    path = tmp_path / "days.csv"
    path.write_text("a,b,c,d\n2012/01/13,Jan 13 2000,01/02/2012,10\n2012/02/01,Feb 1 2000,02/03/2012,9x\n")
    types, rows, told = defined(spark, path)
    assert types == {"a": "date", "b": "date", "c": "string", "d": "string"}
    assert [str(row[0]) for row in rows] == ["2012-01-13", "2012-02-01"] and str(rows[1][1]) == "2000-02-01"
    assert ["yyyy/MM/dd" in told[0], "MMM d yyyy" in told[1], "MM/dd/yyyy or dd/MM/yyyy" in told[2], len(told)] == [True, True, True, 3]
    assert defined(spark, path, "dates=false")[0]["a"] == "string"


def test_names_with_dots(spark, tmp_path):
    (tmp_path / "dotted.csv").write_text('a.b,d.ay,v.x\nx,31.12.2020,"1,5"\ny,01.01.2021,"2,5"\n')
    types, rows, _ = defined(spark, tmp_path / "dotted.csv")
    assert types == {"a.b": "string", "d.ay": "date", "v.x": "double"} and [(str(day), number) for _, day, number in rows] == [("2020-12-31", 1.5), ("2021-01-01", 2.5)]


def test_quotes_are_doubled_within_quotes(spark, tmp_path):
    """As pandas, spreadsheets and databases write them; Spark's own reader loses what stands behind them without a word."""
    texts = ['say "hi", ok', "two\nlines", "plain", '""', "a; b"]
    with open(tmp_path / "q.csv", "w", newline="") as file:
        csv.writer(file).writerows([("n", "text"), *enumerate(texts)])
    types, rows, told = defined(spark, tmp_path / "q.csv")
    assert rows == list(enumerate(texts)) and types == {"n": "int", "text": "string"} and told == []
    (tmp_path / "b.csv").write_text('n,text\n1,"say \\"hi\\", ok"\n')
    assert defined(spark, tmp_path / "b.csv")[1] == [(1, 'say "hi", ok')]
    write(spark.table("given"), str(tmp_path / "again.csv"))
    assert defined(spark, tmp_path / "again.csv")[1] == [(1, 'say "hi", ok')]


@pytest.mark.further
def test_decimal_commas_are_told_apart_from_texts(spark, tmp_path):
    path = tmp_path / "n.csv"
    path.write_text("a;b;c;d;e\n10,5;1.234,5;1,234;10,5;\n8;-7,25;2,345;x;\n")
    types, rows, told = defined(spark, path)
    assert types == {"a": "double", "b": "double", "c": "string", "d": "string", "e": "string"}
    assert [row[:2] for row in rows] == [(10.5, 1234.5), (8.0, -7.25)]
    assert ["decimal comma" in text for text in told] == [True, True, False] and "given.c holds numbers whose commas may" in told[2]
    assert defined(spark, path, "commas=false")[0]["a"] == "string"


def test_an_order_of_letters_is_told(spark, tmp_path):
    (tmp_path / "days.csv").write_text("d,v\n10x,1\n9x,2\n")
    defined(spark, tmp_path / "days.csv", name="days")
    statement = "SELECT * FROM {} MATCH_RECOGNIZE (ORDER BY {} MEASURES count(*) AS n PATTERN (A+))"
    (said,) = ordered_by_letters(spark, statement.format("days", "d"), ["days"])
    assert said.startswith("ORDER BY d: days.d is a string") and "Write ORDER BY CAST(d AS INT)" in said
    (tmp_path / "dates.json").write_text('{"d": "02.01.2024", "t": "2024-01-02T10:00:00Z"}\n{"d": "01.02.2024", "t": "2024-01-02T10:00:01Z"}\n')
    defined(spark, tmp_path / "dates.json", name="dates")
    assert "Write ORDER BY to_date(d, 'dd.MM.yyyy')" in ordered_by_letters(spark, statement.format("dates", "d"), ["dates"])[0]
    assert ordered_by_letters(spark, statement.format("dates", "t"), ["dates"]) == []  # in the order of time
    for table, column in (("days", "v"), ("days", "length(d)"), ("(SELECT * FROM days)", "d")):
        assert ordered_by_letters(spark, statement.format(table, column), ["days"]) == []


@pytest.mark.parametrize(
    ("tables", "options", "said"),
    [
        (["x"], [], "--table x: write NAME=PATH"),
        (["x=a.txt"], [], r"unknown file type \.txt"),
        (["x=a.csv"], ["sep=;"], r"write NAME\.OPTION=VALUE"),
        (["x=a.csv"], ["y.sep=;"], "unknown --table y"),
    ],
)
def test_what_cannot_be_is_said(tables, options, said):
    with pytest.raises(SourceError, match=said):
        sources(tables, options)


def test_a_table_that_cannot_be_read_is_named(spark, tmp_path):
    with pytest.raises(SourceError, match=r"--table given=.*nowhere\.parquet: \[PATH_NOT_FOUND\]"):
        defined(spark, tmp_path / "nowhere.parquet")
    (tmp_path / "broken.json").write_text('{"a": 1}\nno record\n')
    with pytest.raises(SourceError, match="not JSON records"):
        defined(spark, tmp_path / "broken.json")
    (tmp_path / "lake" / "_delta_log").mkdir(parents=True)
    with pytest.raises(SourceError, match="its package is missing"):
        defined(spark, tmp_path / "lake")


def test_a_text_that_the_sample_cuts_does_not_reach_over_lines(spark, tmp_path, monkeypatch):
    """A file that is read as texts over several lines is read by one task."""
    (tmp_path / "notes.csv").write_text('id,note\n1,"a b"\n2,"c d"\n')
    monkeypatch.setattr(reading, "_SAMPLE", len('id,note\n1,"a b"\n2,"c'))
    (source,) = sources([f"given={tmp_path / 'notes.csv'}"], [])
    found = opened(spark, source, print)
    assert "multiLine" not in found.options and found.frame.collect() == [(1, "a b"), (2, "c d")]
    monkeypatch.undo()
    (tmp_path / "notes.csv").write_text('id,note\n1,"a\nb"\n2,"c d"\n')
    assert opened(spark, source, print).frame.collect() == [(1, "a\nb"), (2, "c d")]
