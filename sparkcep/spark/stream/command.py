"""``sparkcep run --stream``: runs a statement over growing folders or Kafka topics as a streaming query."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from sparkcep.errors import ToolError
from sparkcep.spark.files.results import FORMATS
from sparkcep.spark.files.sources import Source, SourceError, opened, sources
from sparkcep.spark.stream.memory_sink import Taking, computed
from sparkcep.spark.stream.progress import OPERATOR_NAME, figures
from sparkcep.spark.stream.start_checks import PROVIDER, ROCKSDB

if TYPE_CHECKING:
    from pyspark.errors import StreamingQueryException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_KAFKA = "kafka://"
_LOOK_SECONDS = 1  # between two looks at a query's progress
Stream: TypeAlias = tuple[Source, str, str]  # with the column and the delay of its watermark


def streams_of(streams: Sequence[str], options: Sequence[str], watermarks: Sequence[str]) -> list[Stream]:
    """Parses ``NAME=PATH``, ``NAME.OPTION=VALUE`` and ``NAME.COLUMN=DELAY``. Raises SourceError."""
    kafka = [text for text in streams if text.partition("=")[2].startswith(_KAFKA)]
    own = {text.partition("=")[0]: dict(_option(o) for o in options if o.partition(".")[0] == text.partition("=")[0]) for text in kafka}
    found = sources([text for text in streams if text not in kafka], [o for o in options if o.partition(".")[0] not in own])
    found += [Source(name, path, {"format": "kafka", **own[name]}) for name, _, path in (text.partition("=") for text in kafka)]
    delays: dict[str, tuple[str, str]] = {}
    for text in watermarks:
        place, _, delay = text.partition("=")
        name, _, column = place.partition(".")
        if not (name and column and delay):
            raise SourceError(f"--watermark {text}: write NAME.COLUMN=DELAY, such as ticks.ts='5 seconds'")
        if name not in {source.name for source in found}:
            raise SourceError(f"--watermark {text}: unknown --stream {name}; the streams are {', '.join(source.name for source in found)}")
        delays[name] = (column, delay)
    for source in found:
        if source.name not in delays:
            raise SourceError(f"--stream {source.name}={source.path}: a watermark is missing. Say how late rows may be: --watermark {source.name}.COLUMN='5 seconds'")
    return [(source, *delays[source.name]) for source in found]


def _option(text: str) -> tuple[str, str]:
    place, _, value = text.partition("=")
    return place.partition(".")[2], value


@dataclass(frozen=True)
class Target:
    """The destination of rows.

    Attributes:
        output: the folder for files; None for the screen.
        checkpoint: the folder of the state; None for a temporary one.
        once: whether the query reads the available rows and ends.
    """

    output: str | None
    checkpoint: str | None
    once: bool

    @property
    def format(self) -> str:
        return FORMATS.get(Path(self.output or "").suffix, "json")

    def check(self) -> None:
        """Raises SourceError if the two folders do not fit."""
        if self.output is not None and Path(self.output).is_file():
            raise SourceError(f"--output {self.output}: this is a file, but a stream is written to a folder")
        if self.output is not None and self.checkpoint is None:
            raise SourceError(f"--output {self.output}: add --checkpoint FOLDER; without it a restarted query would write all rows again")


def define(spark: SparkSession, streams: Sequence[Stream], say: Callable[[str], None]) -> None:
    """Defines a view over each stream. Raises SourceError for a stream that Spark cannot read."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    spark.conf.set(PROVIDER, ROCKSDB)  # a clause checks it during analysis
    for source, column, delay in streams:
        frame = _of_kafka(spark, source) if source.options["format"] == "kafka" else _of_files(spark, source, say)
        types = dict(frame.dtypes)
        if column not in types:
            raise SourceError(f"--watermark {source.name}.{column}={delay}: {source.name} does not have a column {column}; the columns are {', '.join(types)}")
        if types[column] in ("string", "date"):
            frame = frame.withColumn(column, f.to_timestamp(f"`{column}`"))
            say(f"{source.name}.{column} is read as a timestamp")
        try:
            frame.withWatermark(column, delay).createOrReplaceTempView(source.name)
        except PySparkException as error:
            raise SourceError(f"--watermark {source.name}.{column}={delay}: {str(error).splitlines()[0]}") from None


def _of_files(spark: SparkSession, source: Source, say: Callable[[str], None]) -> DataFrame:
    if Path(source.path).is_file():
        raise SourceError(f"--stream {source.name}={source.path}: this is a file, but a stream is a folder that receives files (--table reads a file)")
    found = opened(spark, source, say)
    if not found.frame.columns:
        raise SourceError(f"--stream {source.name}={source.path}: the folder is empty, so the columns are not known. Put a file there")
    options = {key: value for key, value in found.options.items() if key != "inferSchema"}
    return found.typed(spark.readStream.format(found.kind).options(**options).schema(found.frame.schema).load(source.path))


def _of_kafka(spark: SparkSession, source: Source) -> DataFrame:
    """Returns the records of a topic, whose values are JSON with the columns that the option ``schema`` lists."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    options = {key: value for key, value in source.options.items() if key not in ("format", "schema")}
    servers, _, topic = source.path.removeprefix(_KAFKA).partition("/")
    schema = source.options.get("schema")
    if not (servers and topic and schema):
        raise SourceError(
            f"--stream {source.name}={source.path}: write {_KAFKA}HOST:PORT/TOPIC, and describe its JSON: --option \"{source.name}.schema=symbol STRING, ts TIMESTAMP, price INT\""
        )
    try:
        read = spark.readStream.format("kafka").options(**{"kafka.bootstrap.servers": servers, "subscribe": topic, **options}).load()
        return read.select(f.from_json(f.col("value").cast("string"), schema).alias("v")).select("v.*")
    except (PySparkException, Py4JJavaError) as error:
        progress_text = str(error) if isinstance(error, PySparkException) else error.java_exception.getMessage()
        if "data source: kafka" in progress_text or "kafka" in progress_text.lower() and "deploy" in progress_text.lower():
            package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
            progress_text = f"Spark's package for Kafka is missing. Set PYSPARK_SUBMIT_ARGS=\"--packages {package} pyspark-shell\""
        raise SourceError(f"--stream {source.name}={source.path}: {progress_text.splitlines()[0]}") from None


def run(spark: SparkSession, frame: DataFrame, target: Target, shown: Callable[[DataFrame, bool], object]) -> None:
    """Runs the query until it ends or is interrupted, and prints its progress. Raises ToolError for a statement without a stream.

    Without an output folder, ``shown`` receives the rows of each micro-batch, and whether they are the first rows.
    """
    from pyspark.errors import StreamingQueryException

    if not frame.isStreaming:
        raise ToolError("the last statement does not read a stream. Leave --stream out, or read the view that it names")
    with tempfile.TemporaryDirectory(prefix="sparkcep-checkpoint-", ignore_cleanup_errors=True) as thrown:
        writer, taking = frame.writeStream.option("checkpointLocation", target.checkpoint or thrown), Taking(_Printing(shown))
        if target.output is None:
            writer = writer.foreachBatch(taking)
        else:
            writer = writer.format(target.format).option("path", target.output)
        query = (writer.trigger(availableNow=True) if target.once else writer).start()
        try:
            _watch(query, taking)
        except KeyboardInterrupt:
            print("\nstopping", file=sys.stderr)
        except StreamingQueryException as error:
            raise _cause(error) from None
        finally:
            query.stop()


class _Printing:
    """Prints the rows of each micro-batch."""

    def __init__(self, shown: Callable[[DataFrame, bool], object]) -> None:
        self._shown, self._first = shown, True

    def __call__(self, rows: DataFrame, number: int) -> None:
        with computed(rows) as count:
            if count:
                self._shown(rows, self._first)
                self._first = False


def _cause(error: StreamingQueryException) -> Exception:
    """Returns Spark's own error that ended a query, with its position; otherwise ``error``, which describes it."""
    cause = error._cause
    return cause if cause is not None and cause.getCondition() else error


def _watch(query: StreamingQuery, taking: Taking) -> None:
    """Waits for the query's end and prints its progress. Raises the query's error."""
    seen, shown = -1, False
    while not taking.ended(query, _LOOK_SECONDS):
        progress = query.lastProgress
        if progress is not None and progress["batchId"] != seen and sys.stderr.isatty():
            seen, shown = progress["batchId"], True
            sys.stderr.write("\r" + progress_text(progress).ljust(100))
            sys.stderr.flush()
    if shown:
        sys.stderr.write("\n")
    progress = query.lastProgress
    if progress is not None:
        print(progress_text(progress), file=sys.stderr)


def ran_of(query: StreamingQuery) -> list[Any]:
    """Returns the progress of each micro-batch that Spark remembers, without entries for idle triggers."""
    return [progress for progress in query.recentProgress if "addBatch" in progress["durationMs"]]


def progress_text(progress: Any) -> str:
    """Returns a line about a query's progress."""
    metrics = figures(progress)
    sums = {name: sum(m[name] for m in metrics) for name in ("openKeys", "keptRows", "pendingRows", "matches") if metrics and all(name in m for m in metrics)}
    others = [operator for operator in progress["stateOperators"] if operator["operatorName"] != OPERATOR_NAME]
    late = sum(m.get("lateRows", 0) for m in metrics) + sum(operator["numRowsDroppedByWatermark"] for operator in others)
    rate = progress.processedRowsPerSecond  # items of these names are None over Connect, which does not send the sums
    parts = [f"micro-batch {progress['batchId']}", f"{progress.numInputRows:,} rows in" + (f" ({rate:,.0f} rows/s)" if rate else "")]
    parts += [f"{sums[name]:,} {word}" for name, word in (("matches", "matches"), ("openKeys", "open keys"), ("keptRows", "rows kept"), ("pendingRows", "waiting")) if name in sums]
    parts += [f"{late:,} late"] if late else []
    until = progress["eventTime"].get("watermark")
    return ", ".join([*parts, f"watermark {until}"] if until else parts)
