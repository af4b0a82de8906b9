"""Writes results for other programs: to one file, or as text to standard output. The command line uses it."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from sparkcep.errors import ToolError

if TYPE_CHECKING:
    import pyarrow as pa
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import Column, DataFrame

# The format of a file, by the ending of its path.
FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".orc": "orc"}
# The names that shells of other engines use. JSON is one array; JSONL has a record per line.
_SEPARATORS = {"csv": ",", "tsv": "\t"}
# Spark's defaults cut times to milliseconds and trim texts. Quotes inside quotes are doubled, as in RFC 4180.
_TIMES = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}
_CSV = {**_TIMES, "escape": '"', "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
_JSON = {**_TIMES, "ignoreNullFields": "false"}  # every record has every column
_WRITER = {"csv": {**_CSV, "header": "true"}, "json": _TIMES}
_AWAITED = "Exception thrown in awaitResult"  # the start of the message of an exception that wraps another
_NESTED = ("array", "map", "struct", "variant")


class ResultError(ToolError):
    """A result cannot be written to this place. The message says what to write instead."""


def checked(path: str, given: str) -> None:
    """Raises ResultError if no result can be written to the path. ``given`` is the user's text before it."""
    if Path(path).suffix not in FORMATS:
        raise ResultError(f"{given} {path}: the name must end in {', '.join(FORMATS)}")
    if not Path(path).resolve().parent.is_dir():
        raise ResultError(f"{given} {path}: the folder does not exist")
    if Path(path).is_dir():
        raise ResultError(f"{given} {path}: this is a folder")


def write(frame: DataFrame, path: str) -> None:
    """Writes all rows of the frame to one file. The file's name determines the format."""
    kind = FORMATS[Path(path).suffix]
    written = _flat(frame) if kind == "csv" else frame
    with tempfile.TemporaryDirectory(dir=Path(path).resolve().parent, prefix=".sparkcep-") as folder:
        written.coalesce(1).write.mode("overwrite").format(kind).options(**_WRITER.get(kind, {})).save(folder)
        (part,) = Path(folder).glob("part-*")
        part.replace(path)


def pour(frame: DataFrame, kind: str, out: IO[bytes], header: bool = True) -> None:
    """Writes all rows as text, in batches.

    ``header``: whether column names precede the rows of CSV and TSV. Raises ResultError for JSON with two columns of one name.
    """
    separator = _SEPARATORS.get(kind)
    lines, between = _lines_of_json(frame, kind) if separator is None else _lines_of_csv(frame, separator), ",\n" if kind == "json" else "\n"
    out.write(_names(frame.columns, separator) if separator and header else b"[" if kind == "json" else b"")
    number = 0
    for number, text in enumerate(_batches(lines, between), 1):
        out.write((text if number == 1 else between + text).encode())
    out.write(b"]\n" if kind == "json" else b"\n" if number else b"")
    out.flush()


def _names(columns: list[str], separator: str) -> bytes:
    line = io.StringIO()
    csv.writer(line, delimiter=separator, lineterminator="\n").writerow(columns)
    return line.getvalue().encode()


def _flat(frame: DataFrame) -> DataFrame:
    """Returns the same columns, nested ones as JSON, because CSV cannot represent them."""
    from pyspark.sql import functions as f

    named = frame.toDF(*(str(i) for i in range(len(frame.columns))))  # two columns may have one name
    kinds = [field.dataType.typeName() for field in frame.schema.fields]
    columns: list[Column] = [f.to_json(f.col(str(i)), _JSON) if kind in _NESTED else f.col(str(i)) for i, kind in enumerate(kinds)]
    return named.select(*(column.alias(name) for column, name in zip(columns, frame.columns)))


def _lines_of_csv(frame: DataFrame, separator: str) -> DataFrame:
    from pyspark.sql import functions as f

    flat = _flat(frame).toDF(*(str(i) for i in range(len(frame.columns))))
    line = f.to_csv(f.struct(*(f.col(name) for name in flat.columns)), {**_CSV, "sep": separator})
    return flat.select(f.coalesce(line, f.lit('""')).alias("line"))  # a lone NULL would be an empty line, which readers skip


def _lines_of_json(frame: DataFrame, kind: str) -> DataFrame:
    from pyspark.sql import functions as f

    twice = sorted({name for name in frame.columns if frame.columns.count(name) > 1})
    if twice:
        raise ResultError(f"--format {kind}: several columns of the result are called {', '.join(twice)}. Give each its own name with AS")

    return frame.select(f.to_json(f.struct("*"), _JSON).alias("line"))


def _batches(lines: DataFrame, between: str) -> Iterator[str]:
    """Yields the lines in order, joined per Arrow batch: one row per line would take several times as long."""
    from py4j.protocol import Py4JJavaError

    joined = lines.mapInArrow(partial(_joined, between=between), "text string")
    try:
        for row in joined.toLocalIterator(prefetchPartitions=True):
            yield row.text
    except Py4JJavaError as error:
        raise _awaited(error) from None


def _awaited(error: Py4JJavaError) -> Exception:
    """Returns the cause of a failed job as PySpark raises it from jobs that it waits for itself."""
    from pyspark.errors.exceptions.captured import convert_exception

    cause = error.java_exception
    while cause.getCause() is not None and (cause.getMessage() or "").startswith(_AWAITED):
        cause = cause.getCause()
    return convert_exception(cause)


def _joined(batches: Iterable[pa.RecordBatch], between: str) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        if batch.num_rows:
            yield pa.RecordBatch.from_pydict({"text": [between.join(batch.column(0).to_pylist())]})
