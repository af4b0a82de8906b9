"""Each question of this folder gives what plain Python answers: over tables, and a third of them over streams of the same rows."""

from __future__ import annotations

import datetime
import importlib
import os
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from sparkcep.spark.streaming import PROVIDER, ROCKSDB
from tests.questions.question import QUESTIONS, Question, Rows, Stream, difference, plain
from tests.selection import further

FOLDER = Path(__file__).resolve().parent
for module in sorted(path.stem for path in FOLDER.glob("about_*.py")):
    importlib.import_module(f"tests.questions.{module}")

END = datetime.datetime(2099, 1, 1)  # later than all rows
PIECES = 3  # micro-batches with rows of a stream, before the one that ends it


QUICK = [q.name for q in QUESTIONS if q.quick]
QUICK_STREAMS = ["sessions"]  # a stream takes seconds


def _parameters(questions: list[Question], quick: list[str]):
    return [pytest.param(q, id=q.name) if q.name in quick else further(pytest.param(q, id=q.name)) for q in questions]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("questions")


def _table(rows: Rows) -> pa.Table:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    return pa.Table.from_pylist(rows.rows, schema=to_arrow_schema(StructType.fromDDL(rows.schema), timezone="UTC"))


def _frames(spark, folder: Path, asked: Question) -> dict:
    """The inputs as data frames over files, each a view of its name."""
    frames = {}
    for view, rows in asked.of.items():
        path = folder / f"{rows.__name__}.parquet"
        if not path.exists():
            parquet.write_table(_table(rows()), path)
        frames[view] = spark.read.parquet(str(path))
    return frames


def _ask(spark, asked: Question, frames: dict):
    """The data frame of the question's last statement."""
    for view, frame in frames.items():
        frame.createOrReplaceTempView(view)
    if asked.frame is not None:
        return asked.frame(spark, frames)
    *before, last = [text.strip() for text in asked.sql.split(";\n")]
    for statement in before:
        spark.sql(statement)
    return spark.sql(last)


@pytest.fixture
def session(spark):
    """A function that sets a question's settings; views, caches and settings are gone after the test."""
    before = {}

    def of(settings):
        for key, value in settings.items():
            before[key] = spark.conf.get(key, None)
            spark.conf.set(key, value)
        return spark

    yield of
    spark.catalog.clearCache()
    for table in spark.catalog.listTables():
        spark.catalog.dropTempView(table.name) if table.isTemporary else spark.sql(f"DROP TABLE {table.name}")
    for key, value in before.items():
        spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def _compare(asked: Question, found: list[tuple]) -> None:
    expected = asked.expected()
    assert expected, "a question without an answer tests nothing"
    assert not (differs := difference(found, expected)), f"{asked.asked}\n{differs}"
    if asked.ordered:
        assert found == expected


def _collected(frame) -> list[tuple]:
    table = frame.toArrow()
    return [plain(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


@pytest.mark.parametrize("asked", _parameters(QUESTIONS, QUICK))
def test_answer(session, folder, asked):
    spark = session(asked.settings)
    frames = _frames(spark, folder, asked)
    if asked.cached:
        frames = {view: frame.cache() for view, frame in frames.items()}
    _compare(asked, _collected(_ask(spark, asked, frames)))


@pytest.mark.parametrize("asked", _parameters([q for q in QUESTIONS if q.stream], QUICK_STREAMS))
def test_answer_over_a_stream(session, folder, tmp_path, asked):
    """The stream ends with a row of each key that has a time alone, and one that brings the watermark there."""
    spark = session({**asked.settings, PROVIDER: ROCKSDB})
    frames = _frames(spark, folder, asked)
    view, time = next(iter(asked.of)), asked.stream.time
    rows = asked.of[view]()
    _arrive(tmp_path / "in", rows, asked.stream)
    files = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    found = _ask(spark, asked, frames | {view: files.withWatermark(time, "1 minute")})
    assert found.isStreaming
    query = found.writeStream.format("parquet").option("path", str(tmp_path / "out")).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = query.outputMode("append").trigger(availableNow=True).start()
    query.awaitTermination()
    assert len(query.recentProgress) > PIECES
    _compare(asked, [row for row in _collected(spark.read.parquet(str(tmp_path / "out"))) if not _is_of_the_end(row)])


def _is_of_the_end(row: tuple) -> bool:
    return any(isinstance(value, datetime.datetime) and value >= END for value in row)


def _arrive(source: Path, rows: Rows, stream: Stream) -> None:
    """Writes files of rows: each is later than the one before and unordered within itself; the last one ends all keys."""
    source.mkdir()
    time, keys = stream.time, stream.keys.split()
    ordered = sorted(rows.rows, key=lambda row: row[time])
    each = -(-len(ordered) // PIECES)
    pieces = [ordered[at : at + each] for at in range(0, len(ordered), each)]
    last = [{**stream.last, **dict(zip(keys, key, strict=True)), time: END} for key in {tuple(row[key] for key in keys) for row in ordered}]
    pieces.append([*last, {**stream.last, time: END + datetime.timedelta(days=365)}])
    for number, piece in enumerate(pieces):
        path = source / f"{number}.parquet"
        parquet.write_table(_table(Rows(rows.schema, random.Random(number).sample(piece, len(piece)))), path)
        os.utime(path, (1_700_000_000 + number,) * 2)  # files are read in the order of their times


def test_questions_are_asked_in_a_sentence_and_streamed():
    assert len({q.name for q in QUESTIONS}) == len(QUESTIONS) >= 60
    assert all(q.asked.endswith("?") and "\n" not in q.asked and (q.sql is None) != (q.frame is None) for q in QUESTIONS)
    assert 3 * sum(q.stream is not None for q in QUESTIONS) >= sum(bool(q.of) for q in QUESTIONS)
