"""Reader of the SQL case files, ``tests/cases/<area>/*.test``.

A file is a sequence of blocks; blank lines and lines that begin with ``#`` may stand between them.

    table ticks (symbol STRING, ts INT, at DATE)     one row per line up to a blank line, cells separated
    a | 1 | DATE '2024-01-01'                        by " | "; a cell is a SQL expression, but in a STRING
    NULL | 2 | NULL                                  column a cell without quotes is the text itself

    view words                                       a query up to a blank line
    SELECT ...

    stream t (ts TIMESTAMP, i INT) WATERMARK ts      a streaming view, with a watermark on a column or without
    set: key=value                                   for all cases behind it

    case some_name                                   lines that begin with # may stand before the statement
    params: {"low": 3}                               or a list for ? markers; a Python literal
    set: spark.sql.caseSensitive=true                for this case only
    fails: why                                       the expectation is right and not met yet (a strict xfail)
    read: trino                                      the last statement is of another engine (tests/transpiled)
    note: text                                       a part of a note on its translation; without one there is no note
    SELECT ... ;                                     statements end with ";" at the end of a line; the last
    SELECT ...                                       one is the one whose outcome is looked at
    ----
    columns: a, b                                    names and order, optional
    types: int, array<string>                        optional
    1 | [x, y]                                       rows, as Spark casts them to STRING

In an expected row NULL is null, '' the empty string, and a cell in double quotes is a JSON string. Rows are
compared in order when the statement has an ORDER BY of its own, else as a multiset. No rows at all are written
``no rows``. ``contains text`` lines, instead of rows, ask for texts that some cell contains. Instead of rows there
may also be one line:

    error CLASS [line:column | at 'fragment'] [text]     an analysis error; ``*`` is any class of ours
    runtime error text                                   an error of the running query

``at 'fragment'`` says that the error points at the only place where the statement has this text. A line ``error`` or
``runtime error`` alone has the whole message below it, each line behind ``>``; ``python -m tests.cases.error_messages --write``
writes these, and the page of the documentation that shows them.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

NULL = None
IN_SPARK_ALONE = Path(__file__).with_name("in_spark_alone.txt")


class CaseFileError(Exception):
    """A malformed case file."""


@dataclass(frozen=True)
class ExpectedError:
    """What an error case expects; ``error_class`` is None for an error at run time. ``whole`` is the whole message, where it is
    given."""

    error_class: str | None
    position: tuple[int, int] | None = None
    text: str = ""
    whole: str | None = None


@dataclass
class Case:
    name: str
    line: int
    statements: list[str]
    params: dict | list | None = None
    settings: dict[str, str] = field(default_factory=dict)
    fails: str | None = None
    read: str | None = None
    notes: list[str] = field(default_factory=list)
    columns: list[str] | None = None
    types: list[str] | None = None
    rows: list[tuple[str | None, ...]] = field(default_factory=list)
    contains: list[str] = field(default_factory=list)
    error: ExpectedError | None = None

    def asks_for_rows(self) -> bool:
        """Whether it asks for all rows by one statement, without arguments and settings."""
        return not (self.error or self.params is not None or self.settings or len(self.statements) > 1 or self.contains or self.fails)


@dataclass(frozen=True)
class Stream:
    """A streaming view of rows whose columns are NULL; ``columns``: of each name and type; ``watermark``: the column that has one,
    or nothing."""

    name: str
    columns: tuple[tuple[str, str], ...]
    watermark: str

    def define(self, spark) -> None:
        frame = spark.readStream.format("rate").load().selectExpr(*(f"CAST(NULL AS {kind}) AS {name}" for name, kind in self.columns))
        (frame.withWatermark(self.watermark, "5 seconds") if self.watermark else frame).createOrReplaceTempView(self.name)


@dataclass
class CaseFile:
    path: Path
    views: list[str] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)


def name_of(file: CaseFile, case: Case) -> str:
    """The name of a case in the whole corpus."""
    return f"{file.path.parent.name}/{file.path.stem}/{case.name}"


def in_spark_alone() -> frozenset[str]:
    """The names of the cases that ask for rows which ``in_process`` cannot give."""
    return frozenset(line for line in IN_SPARK_ALONE.read_text("utf-8").split("\n") if line and not line.startswith("#"))


def split_top_level(text: str, separator: str) -> list[str]:
    """Split at separators that stand outside of (), <> and quotes."""
    parts, depth, quote, start, i = [], 0, "", 0, 0
    while i < len(text):
        c = text[i]
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"`":
            quote = c
        elif c in "(<[":
            depth += 1
        elif c in ")>]" and text[i - 1 : i + 1] not in ("->", "=>"):
            depth -= 1
        elif depth == 0 and text.startswith(separator, i):
            parts.append(text[start:i])
            i = start = i + len(separator)
            continue
        i += 1
    parts.append(text[start:])
    return [part.strip() for part in parts]


def is_ordered(statement: str) -> bool:
    """Whether the statement has an ORDER BY outside of all parentheses."""
    pattern = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/"
    text = re.sub(pattern, " ", statement, flags=re.S)
    kept, depth = [], 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if depth == 0:
            kept.append(c)
    return re.search(r"\bORDER\s+BY\b", "".join(kept), flags=re.I) is not None


def read_case_file(path: Path) -> CaseFile:
    """Read a case file; raise :class:`CaseFileError` with file and line where it is malformed. Many tests read all files, so what
    was read is kept, and nobody changes it."""
    return _read(path, path.read_text(encoding="utf-8"))


@cache
def _read(path: Path, text: str) -> CaseFile:
    return _Reader(path, text).read()


class _Reader:
    def __init__(self, path: Path, text: str) -> None:
        self.file = CaseFile(path)
        self.lines = text.split("\n")
        self.at = 0
        self.relations: set[str] = set()
        self.all = Case("", 0, [])  # has the settings of all cases

    def error(self, message: str, at: int | None = None) -> CaseFileError:
        return CaseFileError(f"{self.file.path}:{(self.at if at is None else at) + 1}: {message}")

    def read(self) -> CaseFile:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if not line.strip() or line.startswith("#"):
                self.at += 1
            elif line.startswith("table "):
                self._table()
            elif line.startswith("view "):
                self._view()
            elif line.startswith("stream "):
                self._stream()
            elif line.startswith("set: "):
                self._option(self.all, "set", line.removeprefix("set: "))
                self.at += 1
            elif line.startswith("case "):
                self._case()
            else:
                raise self.error(f"expected 'table', 'view', 'stream', 'case', a comment or a blank line, not: {line}")
        if not self.file.cases:
            raise self.error("the file has no case")
        return self.file

    def _block(self) -> Iterator[tuple[int, str]]:
        """Number and text of the lines up to a blank one or the end, comments left out."""
        while self.at < len(self.lines) and self.lines[self.at].strip():
            if not self.lines[self.at].startswith("#"):
                yield self.at, self.lines[self.at]
            self.at += 1

    def _relation(self, name: str) -> str:
        if name in self.relations:
            raise self.error(f"{name} is there twice")
        self.relations.add(name)
        return f"CREATE OR REPLACE TEMPORARY VIEW {name} AS "

    def _table(self) -> None:
        head = re.fullmatch(r"table (\w+) \((.+)\)\s*", self.lines[self.at])
        if not head:
            raise self.error("expected 'table name (column TYPE, ...)'")
        start = self._relation(head[1])
        columns = self._columns(head[2])
        self.at += 1
        rows = []
        for number, line in self._block():
            cells = [cell.strip() for cell in line.split(" | ")]
            if len(cells) != len(columns):
                raise self.error(f"{len(columns)} columns but {len(cells)} cells", number)
            if not all(cells):
                raise self.error("an empty cell; write NULL or ''", number)
            rows.append([_table_cell(cell, kind) for cell, (_, kind) in zip(cells, columns, strict=True)])
        casts = ", ".join(f"CAST(col{i + 1} AS {kind}) AS {name}" for i, (name, kind) in enumerate(columns))
        if rows:
            values = ", ".join(f"({', '.join(row)})" for row in rows)
            self.file.views.append(f"{start}SELECT {casts} FROM VALUES {values}")
        else:
            nulls = ", ".join(f"NULL AS col{i + 1}" for i in range(len(columns)))
            self.file.views.append(f"{start}SELECT {casts} FROM (SELECT {nulls}) WHERE false")

    def _columns(self, text: str) -> list[tuple[str, str]]:
        columns = []
        for part in split_top_level(text, ","):
            column = re.fullmatch(r"(`(?:[^`]|``)+`|\w+)\s+(\S.*)", part)
            if not column:
                raise self.error(f"expected 'column TYPE', not: {part}")
            columns.append((column[1], column[2]))
        return columns

    def _stream(self) -> None:
        head = re.fullmatch(r"stream (\w+) \((.+)\)(?: WATERMARK (\w+))?\s*", self.lines[self.at])
        if not head:
            raise self.error("expected 'stream name (column TYPE, ...) WATERMARK column'")
        self._relation(head[1])
        self.file.streams.append(Stream(head[1], tuple(self._columns(head[2])), head[3] or ""))
        self.at += 1

    def _view(self) -> None:
        head = re.fullmatch(r"view (\w+)\s*", self.lines[self.at])
        if not head:
            raise self.error("expected 'view name'")
        start = self._relation(head[1])
        self.at += 1
        query = "\n".join(line for _, line in self._block())
        if not query:
            raise self.error(f"view {head[1]} has no query")
        self.file.views.append(start + query)

    def _case(self) -> None:
        head = re.fullmatch(r"case (\w+)\s*", self.lines[self.at])
        if not head:
            raise self.error("expected 'case name' with a name of letters, digits and _")
        if any(case.name == head[1] for case in self.file.cases):
            raise self.error(f"case {head[1]} is there twice")
        case = Case(head[1], self.at + 1, [], settings=dict(self.all.settings))
        self.at += 1
        sql = []
        while self.at < len(self.lines) and self.lines[self.at].rstrip() != "----":
            line = self.lines[self.at]
            if re.match(r"(case|table|view) \w+\s*(\(|$)", line):
                raise self.error(f"case {case.name} has no line ---- before the next block")
            if not sql and (option := re.match(r"(params|set|fails|read|note): (.*)", line)):
                self._option(case, option[1], option[2])
            elif sql or not line.startswith("#"):
                sql.append(line)
            self.at += 1
        if self.at == len(self.lines):
            raise self.error(f"case {case.name} has no line ----")
        self.at += 1
        case.statements = [s.strip() for s in re.split(r";[ \t]*(?:\n|$)", "\n".join(sql)) if s.strip()]
        if not case.statements:
            raise self.error(f"case {case.name} has no statement")
        self._expectation(case)
        self.file.cases.append(case)

    def _option(self, case: Case, name: str, text: str) -> None:
        if name == "params":
            try:
                case.params = ast.literal_eval(text)
            except (ValueError, SyntaxError) as e:
                raise self.error(f"params is no Python literal: {e}") from e
            if not isinstance(case.params, (dict, list)):
                raise self.error("params must be a dictionary or a list")
        elif name == "fails":
            case.fails = text.strip()
        elif name == "read":
            case.read = text.strip()
        elif name == "note":
            case.notes.append(text.strip())
        else:
            key, equals, value = text.partition("=")
            if not equals:
                raise self.error("expected 'set: key=value'")
            case.settings[key.strip()] = value.strip()

    def _expectation(self, case: Case) -> None:
        seen = False
        for number, line in self._block():
            text = line.strip()
            if case.error and case.error.whole is not None and line.startswith(">"):
                case.error = self._longer(case.error, line[1:].removeprefix(" "))
                continue
            if case.error:
                raise self.error("nothing may follow the expected error", number)
            if text in ("error", "runtime error") or text.startswith(("error ", "runtime error ")):
                if seen or case.columns or case.types:
                    raise self.error("an expected error stands alone", number)
                case.error = self._error(case, text, number)
            elif text.startswith("columns:") and not seen:
                case.columns = [name.strip() for name in text[8:].split(",")]
            elif text.startswith("types:") and not seen:
                case.types = split_top_level(text[6:], ",")
            elif text.startswith("contains "):
                if seen and not case.contains:
                    raise self.error("'contains' after a row", number)
                case.contains.append(text[len("contains ") :].strip())
            elif text == "no rows":
                if seen:
                    raise self.error("'no rows' after a row", number)
            else:
                if seen and not case.rows:
                    raise self.error("a row after 'no rows' or 'contains'", number)
                case.rows.append(tuple(self._cell(cell, number) for cell in _cells(line)))
            seen = seen or not text.startswith(("columns:", "types:"))
        if not seen:
            raise self.error(f"case {case.name} expects nothing; write 'no rows' for an empty result")
        widths = {len(row) for row in case.rows} | {len(x) for x in (case.columns, case.types) if x}
        if len(widths) > 1:
            raise self.error(f"case {case.name}: rows, columns and types differ in width: {sorted(widths)}")

    def _cell(self, cell: str, number: int) -> str | None:
        if not cell:
            raise self.error("an empty cell; write NULL or ''", number)
        if cell == "NULL":
            return NULL
        if cell == "''":
            return ""
        if cell.startswith('"'):
            try:
                return json.loads(cell)
            except ValueError as e:
                raise self.error(f"a cell in double quotes must be a JSON string: {cell}", number) from e
        return cell

    @staticmethod
    def _longer(error: ExpectedError, line: str) -> ExpectedError:
        """The error with one more line of its message, which begins with the class."""
        whole = f"{error.whole}\n{line}" if error.whole else line
        known = re.match(r"\[(?:SPARKCEP\.)?([A-Z_.0-9]+)\]", whole)
        return replace(error, whole=whole, error_class=error.error_class and (known[1] if known else "*"))

    def _error(self, case: Case, text: str, number: int) -> ExpectedError:
        if text in ("error", "runtime error"):
            return ExpectedError("*" if text == "error" else None, whole="")
        if text.startswith("runtime error "):
            return ExpectedError(None, text=text[len("runtime error ") :].strip())
        parsed = re.fullmatch(r"error ([A-Z_.0-9]+|\*)(?: (\d+):(\d+)| at '(.+?)')?(?: (.+))?", text)
        if not parsed:
            raise self.error("expected 'error CLASS [line:column | at 'fragment'] [text]'", number)
        where = None
        if parsed[2]:
            where = (int(parsed[2]), int(parsed[3]))
        elif parsed[4]:
            statement = case.statements[-1]
            if statement.count(parsed[4]) != 1:
                raise self.error(f"{parsed[4]!r} is not exactly once in the statement", number)
            before = statement[: statement.index(parsed[4])]
            where = (before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
        return ExpectedError(parsed[1], where, (parsed[5] or "").strip())


def _cells(line: str) -> list[str]:
    """The cells of an expected row; a separator inside a JSON string separates nothing."""
    cells, start = [], 0
    while True:
        quoted = re.compile(r'\s*"(?:[^"\\]|\\.)*"(?=\s*$| \| )').match(line, start)
        end = line.find(" | ", quoted.end() if quoted else start)
        if end < 0:
            return [*cells, line[start:].strip()]
        cells.append(line[start:end].strip())
        start = end + 3


def _table_cell(cell: str, kind: str) -> str:
    if kind.upper() != "STRING" or cell == "NULL" or cell[0] in "'\"":
        return cell
    return "'" + cell.replace("\\", "\\\\").replace("'", "\\'") + "'"
