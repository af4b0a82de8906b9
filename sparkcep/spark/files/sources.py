"""Tables over the user's own files, for the command line: finds the format of a path, and the options of Spark's reader.

``sparkcep run``, ``sparkcep report`` and ``sparkcep shell`` use it.
"""

from __future__ import annotations

import bz2
import csv
import glob
import gzip
import lzma
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sparkcep.clause.identifiers import backticked
from sparkcep.clause.parser import parse_between
from sparkcep.clause.tokens import name_of, quote
from sparkcep.errors import ToolError
from sparkcep.spark.configured import settings_of, substituted
from sparkcep.sql.rewrite.occurrences import Statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = {".parquet": "parquet", ".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".orc": "orc", ".avro": "avro"}
_PACKED = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_SAMPLE = 1 << 16  # the bytes of a text file that are examined
_ROWS = 1_000  # the rows that are examined for dates and numbers
_NUMBER, _THOUSANDS = r"^[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?$", r"^[+-]?\d{1,3},\d{3}$"
_DATES = ("yyyy-MM-dd", "yyyy/MM/dd", "dd.MM.yyyy", "MM/dd/yyyy", "dd/MM/yyyy", "MMM d yyyy", "d MMM yyyy", "MMM d, yyyy", "yyyyMMdd")
_ISO = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?)?$"


class SourceError(ToolError):
    """A table cannot be read in this way. The message says what to write instead."""


@dataclass(frozen=True)
class Source:
    """A view to define.

    Attributes:
        name: the view's name.
        path: a file, a folder or a pattern of paths.
        options: the options of Spark's reader, with ``format``. With ``false``, ``dates`` and ``commas`` leave texts that are
            dates, or numbers with a decimal comma, unchanged.
    """

    name: str
    path: str
    options: Mapping[str, str] = field(default_factory=dict)


def sources(tables: Sequence[str], options: Sequence[str]) -> list[Source]:
    """Returns the sources that ``NAME=PATH`` and ``NAME.OPTION=VALUE`` describe. Raises SourceError."""
    paths: dict[str, str] = {}
    for text in tables:
        name, _, path = text.partition("=")
        if not (name and path):
            raise SourceError(f"--table {text}: write NAME=PATH")
        paths[name] = path
    chosen: dict[str, dict[str, str]] = {name: {} for name in paths}
    for text in options:
        place, equals, value = text.partition("=")
        name, dot, key = place.partition(".")
        if not (name and dot and key and equals):
            raise SourceError(f"--option {text}: write NAME.OPTION=VALUE, such as ticks.sep=;")
        if name not in paths:
            raise SourceError(f"--option {text}: unknown --table {name}; the tables are {', '.join(paths) or 'none'}")
        chosen[name][key] = value
    return [Source(name, path, {"format": _format(name, path), **chosen[name]}) for name, path in paths.items()]


def _format(name: str, path: str) -> str:
    """Returns the format by a path's ending, or by the contents of a folder."""
    ending = _ending(path)
    if ending in FORMATS:
        return FORMATS[ending]
    folder = Path(path)
    if (folder / "_delta_log").is_dir():
        return "delta"
    if any(folder.glob("metadata/*.metadata.json")):
        return "iceberg"
    inside = [_ending(file.name) for file in sorted(folder.rglob("*")) if file.is_file()] if folder.is_dir() else []
    known = next((FORMATS[one] for one in inside if one in FORMATS), None)
    if known is None and ending:
        raise SourceError(f"--table {name}={path}: unknown file type {ending}; known are {', '.join(FORMATS)}, also with .gz at the end, "
                          f"and folders of such files. --option {name}.format=... selects any format of Spark")  # fmt: skip
    return known or "parquet"


def _ending(path: str) -> str:
    """Returns the ending of a path or pattern of paths, without that of a compressed file."""
    name = Path(path.rstrip("/*")).name
    packed = next((e for e in _PACKED if name.endswith(e)), "")
    return Path(name.removesuffix(packed)).suffix.lower()


def define(spark: SparkSession, source: Source, say: Callable[[str], None]) -> None:
    """Defines the view.

    ``say`` receives findings about the file that the user may want to change. Raises SourceError for a path that Spark cannot
    read.
    """
    found = opened(spark, source, say)
    found.typed(found.frame).createOrReplaceTempView(source.name)


@dataclass(frozen=True)
class Opened:
    """A source that was examined.

    Attributes:
        kind: the format.
        options: the options of Spark's reader.
        frame: the DataFrame that the reader returns.
        dates: column -> the date format of its texts.
        commas: the columns of texts that are numbers with a decimal comma.
    """

    kind: str
    options: Mapping[str, str]
    frame: DataFrame
    dates: Mapping[str, str]
    commas: Sequence[str] = ()

    def typed(self, frame: DataFrame) -> DataFrame:
        """Returns ``frame`` with dates and numbers instead of their texts. It has the columns of this source."""
        from pyspark.sql import functions as f

        found = {column: f.to_date(quote(column), form) for column, form in self.dates.items()}
        numbers = {column: f.expr(f"CAST(replace(replace({quote(column)}, '.'), ',', '.') AS DOUBLE)") for column in self.commas}
        return frame.withColumns(found | numbers)


def opened(spark: SparkSession, source: Source, say: Callable[[str], None]) -> Opened:
    """Examines a source, see :func:`define`. Raises SourceError."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from sparkcep.spark.errors.exceptions import without_log

    options = dict(source.options)
    kind = options.pop("format")
    dates, commas = (options.pop(name, "true").lower() != "false" for name in ("dates", "commas"))
    if kind == "csv":
        lines = _first(source.path).splitlines()
        separator = options.get("sep") or _separator(source.path, lines)
        options = {"header": str(_has_header(lines, separator)).lower(), "inferSchema": "true", "sep": separator, **_quotes(lines)} | options
    elif kind == "json" and _first(source.path).lstrip()[:1] == "[":
        options.setdefault("multiLine", "true")
    try:
        with without_log():
            frame = spark.read.format(kind).options(**options).load(source.path)
            if kind == "json" and "_corrupt_record" in frame.columns:
                advice = f"--option {source.name}.multiLine=true if a record takes several lines"
                raise SourceError(f"--table {source.name}={source.path}: it holds lines that are not JSON records; {advice}")
            if kind != "csv":
                return Opened(kind, options, frame, {})
            return Opened(kind, options, frame, _dates(frame, source.name, say) if dates else {}, _commas(frame, source.name, say) if commas and _has_commas(lines, options["sep"]) else ())
    except (PySparkException, Py4JJavaError) as error:  # Py4JJavaError: the class of a format is missing
        message = str(error) if isinstance(error, PySparkException) else error.java_exception.getMessage()
        missing = f"; its package is missing: name it in PYSPARK_SUBMIT_ARGS or spark.jars.packages ({kind})" if kind in ("delta", "iceberg", "avro") else ""
        raise SourceError(f"--table {source.name}={source.path}: {message.splitlines()[0]}{missing}") from None


def _first(path: str) -> str:
    """Returns the beginning of a local text file, or of the first file of a folder or pattern. Returns "" for a remote path."""
    found = sorted(glob.glob(path)) or [path]
    files = [file for name in found for file in ([Path(name)] if Path(name).is_file() else sorted(Path(name).glob("*"))) if file.is_file() and file.name[0] not in "._"]
    if not files:
        return ""
    with _PACKED.get(files[0].suffix, open)(files[0], "rb") as file:
        return file.read(_SAMPLE).decode("utf-8-sig", "replace")


def _separator(path: str, lines: list[str]) -> str:
    if _ending(path) == ".tsv":
        return "\t"
    try:
        return csv.Sniffer().sniff("\n".join(lines[:50]), delimiters=",;\t|").delimiter
    except csv.Error:  # one column
        return ","


def _has_header(lines: list[str], separator: str) -> bool:
    """Whether the first line holds names: none of its fields is a number."""
    fields = lines[0].split(separator) if lines else []
    return not any(_is_number(text.strip('"')) for text in fields)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _quotes(lines: list[str]) -> dict[str, str]:
    """Returns the options of Spark's reader about quotes.

    Quotes inside quotes are doubled, as all programs but Spark write them. A quoted text may continue on the next line.
    """
    found = {} if any('\\"' in line for line in lines) else {"escape": '"'}
    return found | ({"multiLine": "true"} if any(line.count('"') % 2 for line in lines[:-1]) else {})  # the last line may be cut


def _has_commas(lines: list[str], separator: str) -> bool:
    """Whether a field has a comma between digits."""
    return any(re.search(r'"[^"]*\d,\d' if separator == "," else r"\d,\d", line) for line in lines)


def _commas(frame: DataFrame, name: str, say: Callable[[str], None]) -> list[str]:
    """Returns the columns of a CSV file whose texts are numbers with a decimal comma. As texts they would compare by letters."""
    from pyspark.sql import functions as f

    texts = [column for column, kind in frame.dtypes if kind == "string"]
    if not texts:
        return []
    sample = frame.select(*(f.col(quote(column)).alias(str(i)) for i, column in enumerate(texts))).limit(_ROWS)
    counts = (
        (f.count(f"{i}"), f.count_if(f.col(f"{i}").rlike(_NUMBER)), f.count_if(f.col(f"{i}").rlike(",")), f.count_if(f.col(f"{i}").rlike(_THOUSANDS))) for i in range(len(texts))
    )
    found = iter(sample.agg(*(count.alias(f"c{k}") for k, count in enumerate(c for each in counts for c in each))).first())
    decimal = []
    for column in texts:
        values, numbers, commas, thousands = (next(found) for _ in range(4))
        if not commas or numbers < values:
            continue
        if thousands == commas:
            say(f"{name}.{column} holds numbers whose commas may separate decimals or thousands, so it stays a string; in the statement CAST(replace({column}, ',') AS INT) reads thousands")
        else:
            decimal.append(column)
            say(f"{name}.{column} holds numbers with a decimal comma; --option {name}.commas=false keeps them as strings")
    return decimal


def _dates(frame: DataFrame, name: str, say: Callable[[str], None]) -> dict[str, str]:
    """Returns the columns of a CSV file whose texts are dates, with their format.

    Spark's reader only recognises ISO dates. As texts, dates would be ordered by letters.
    """
    dated = {}
    for column, forms in _forms(frame, [column for column, kind in frame.dtypes if kind == "string"]).items():
        if len(forms) == 1:
            dated[column] = forms[0]
            say(f"{name}.{column} holds dates as {forms[0]}; --option {name}.dates=false keeps them as strings")
        elif forms:
            say(f"{name}.{column} may hold dates as {' or '.join(forms)}, so it stays a string; in the statement to_date({column}, '{forms[0]}') reads them")
    return dated


def _forms(frame: DataFrame, texts: Sequence[str]) -> dict[str, list[str]]:
    """Returns, for each column, the date formats that fit all its texts in the first rows."""
    from pyspark.sql import functions as f

    if not texts:
        return {}
    fits = [
        (f.count(quote(column)) > 0) & (f.count(quote(column)) == f.count(f.try_to_date(quote(column), form))) for column in texts for form in _DATES
    ]
    found = iter(frame.select(*map(quote, texts)).limit(_ROWS).agg(*(fit.alias(str(i)) for i, fit in enumerate(fits))).first())
    return {column: [form for form in _DATES if next(found)] for column in texts}


def ordered_by_letters(spark: SparkSession, statement: str, names: Sequence[str]) -> list[str]:
    """Returns a warning for each clause of ``statement`` whose first ORDER BY is a text column of a view in ``names``."""
    found = []
    statement = substituted(spark, statement)
    parts = Statement(backticked(statement) if settings_of(spark).double_quoted else statement)
    for start, word, close in parts.clauses():
        name = name_of(parts.tokens[start])
        order = parse_between(parts.text, parts.tokens, word + 1, close).order_by if name in names else ()
        first = order[0].expr.bare() if order else None
        column = first.value[-1] if first is not None and first.op == "col" else ""
        if dict(spark.table(name).dtypes if column else ()).get(column) == "string" and not _in_order_of_time(spark.table(name), column):
            forms = _forms(spark.table(name), [column])[column]
            instead = f"to_date({column}, '{forms[0]}')" if forms else f"CAST({column} AS INT), or to_timestamp({column}, '...') with the format of its strings"
            found.append(f"ORDER BY {column}: {name}.{column} is a string, so '10' comes before '9'. Write ORDER BY {instead}")
    return found


def _in_order_of_time(frame: DataFrame, column: str) -> bool:
    """Whether the texts in the first rows are ISO dates or times of one form, which letters order by time."""
    from pyspark.sql import functions as f

    sample = frame.select(f.col(quote(column)).alias("t")).limit(_ROWS)
    form = f.translate("t", "0123456789", "0000000000")
    return sample.agg(f.coalesce(f.bool_and(f.col("t").rlike(_ISO)) & (f.min(form) == f.max(form)), f.lit(False))).first()[0]
