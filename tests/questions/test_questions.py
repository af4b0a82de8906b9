"""Each question of this folder gives what plain Python answers: over tables, and a third of them over streams of the same rows."""

from __future__ import annotations

import datetime
import importlib
import os
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from sparkcep.spark.stream.start_checks import PROVIDER, ROCKSDB
from tests.questions.question import QUESTIONS, Question, Rows, Stream, difference, plain
from tests.selection import further, slow

FOLDER = Path(__file__).resolve().parent
for module in sorted(path.stem for path in FOLDER.glob("about_*.py")):
    importlib.import_module(f"tests.questions.{module}")

END = datetime.datetime(2099, 1, 1)  # later than all rows
PIECES = 3  # micro-batches with rows of a stream, before the one that ends it


QUICK = [q.name for q in QUESTIONS if q.quick][::6]


# DuckDB lacks a function that these need, or gives another value or type.
IN_SPARK_ALONE = set("""
    aircraft_that_are_back_within_five_hours beer_after_nappies bursts carts_left_behind column_called_current_date competitors_that_leave_soon_after
    day_that_was_promised days_between_in_a_column_called_day element_of_an_array_that_may_be_empty failures_with_a_high_code
    fall_in_a_column_called_current_date figures_of_sessions gaps_that_are_filled least_number_before_a_missing_one prices_that_jump
    repaired_in_two_minutes sessions silent_or_down spells_that_come_again_and_again sum_beside_texts_that_are_not_numbers sum_of_texts_that_are_numbers
    transfers_between_login_and_logout
""".split())


def needs_spark(asked: Question) -> bool:
    """Whether ``test_in_process.py`` cannot ask a question."""
    return asked.sql is None or bool(asked.settings) or ";\n" in asked.sql or asked.name in IN_SPARK_ALONE


def _parameters(questions: list[Question], quick: list[str], wider: int, always: Callable[[Question], bool] = lambda asked: False):
    """The quick ones; of the others the wider run takes each ``wider``-th, and all of a kind."""
    marks = [[] if q.name in quick else further if always(q) or i % wider == 0 else slow for i, q in enumerate(questions)]
    return [mark(pytest.param(q, id=q.name)) if mark else pytest.param(q, id=q.name) for mark, q in zip(marks, questions, strict=True)]


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
    """A function that sets a question's settings; its views, tables, caches and settings are gone after the test."""
    before, tables = {}, set(_tables(spark))

    def of(settings):
        for key, value in settings.items():
            before.setdefault(key, spark.conf.get(key, None))
            spark.conf.set(key, value)
        return spark

    yield of
    for key, value in before.items():
        spark.conf.unset(key) if value is None else spark.conf.set(key, value)
    spark.catalog.clearCache()
    for name, temporary in _tables(spark).items():
        if name not in tables:
            spark.sql(f"DROP {'VIEW' if temporary else 'TABLE'} {name}")


def _tables(spark) -> dict[str, bool]:
    """Tables and views by name, and whether they are temporary."""
    return {row.tableName: row.isTemporary for row in spark.sql("SHOW TABLES").collect()}


def compare(asked: Question, found: list[tuple]) -> None:
    """Checks that the rows are those of the answer."""
    expected = asked.expected()
    assert expected, "a question without an answer tests nothing"
    assert not (differs := difference(found, expected)), f"{asked.asked}\n{differs}"
    if asked.ordered:
        assert found == expected


def _collected(frame) -> list[tuple]:
    table = frame.toArrow()
    return [plain(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


@pytest.mark.parametrize("asked", _parameters(QUESTIONS, QUICK, wider=4, always=needs_spark))
def test_answer(session, folder, asked):
    spark = session(asked.settings)
    frames = _frames(spark, folder, asked)
    if asked.cached:
        frames = {view: frame.cache() for view, frame in frames.items()}
    compare(asked, _collected(_ask(spark, asked, frames)))


PLAIN = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "sparkcep.prefilter": "false",
}


@pytest.mark.slow
@pytest.mark.parametrize("asked", [pytest.param(q, id=q.name) for q in QUESTIONS])
def test_parts_of_an_answer(session, folder, asked):
    """Counts the rows, takes each column alone, filters by each column, and asks again with less of Spark's planning."""
    expected = asked.expected()
    spark = session(asked.settings)
    frame = _ask(spark, asked, _frames(spark, folder, asked))
    frame = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))  # names may repeat
    assert frame.count() == len(expected)
    for i, name in enumerate(frame.columns):
        assert not difference(_collected(frame.select(name)), [(row[i],) for row in expected]), name
    for i, name in enumerate(frame.columns):
        some = frame.where(frame[name].isNull()) if expected[0][i] is None else frame.where(frame[name].isNotNull())
        wanted = [row for row in expected if (row[i] is None) == (expected[0][i] is None)]
        assert not difference(_collected(some), wanted), name
    session(PLAIN)
    again = _ask(spark, asked, _frames(spark, folder, asked)) if asked.sql is None or ";\n" not in asked.sql else frame
    compare(asked, _collected(again))


@pytest.mark.parametrize("asked", _parameters([q for q in QUESTIONS if q.stream], [], wider=6))
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
    compare(asked, [row for row in _collected(spark.read.parquet(str(tmp_path / "out"))) if not _is_of_the_end(row)])


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
