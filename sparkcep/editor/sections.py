"""Finds the SQL in a document: an SQL file, a notebook's cell, or a Databricks notebook in source form.

A section is a stretch of the document with blanks instead of everything that is not SQL. So the offsets of a section, plus its
start, are those of the document.

A cell that begins with ``%%sql`` or ``%%sparkcep`` is SQL below its first line, and after the magic's options in that line. A
Python line ``%sql ...`` or ``x = %sql ...`` is SQL after the magic's options.

A Databricks notebook has cells separated by ``# COMMAND ----------``. A cell of ``# MAGIC %sql`` is SQL. If SQL is the notebook's
language, the cells without ``-- MAGIC`` are SQL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparkcep.notebook.cell import CellError, parse

SQL, PYTHON = "sql", "python"
_LANGUAGES = {  # of editors
    "sql": SQL, "spark-sql": SQL, "sparksql": SQL, "databricks-sql": SQL, "jinja-sql": SQL, "sql-jinja": SQL, "sqljinja": SQL,
    "python": PYTHON, "ipython": PYTHON,
}  # fmt: skip
_MAGIC_CELL = re.compile(r"\s*%%(?:sql|sparkcep)\b")
_MAGIC_LINE = re.compile(r"^[ \t]*(?:[\w., \[\]]+=[ \t]*)?%(?:sql|sparkcep)\b", re.M)
_DATABRICKS = re.compile(r"\ufeff?(?:#|--|//) Databricks notebook source[ \t]*\r?$", re.M)
_SEPARATOR = re.compile(r"^(?:#|--|//) COMMAND -+[ \t]*\r?$", re.M)
_MAGIC = re.compile(r"^(?:#|--|//) MAGIC ?", re.M)
_TITLE = re.compile(r"^(?:#|--|//) DBTITLE .*$", re.M)
_WORD = re.compile(r"%sql\b", re.I)


@dataclass(frozen=True)
class Section:
    """A stretch of SQL.

    Attributes:
        text: the SQL, with blanks instead of everything else.
        start: its offset in the document.
        prefix: the text that begins each line of the document there, such as ``# MAGIC``; blank in ``text``.
    """

    text: str
    start: int = 0
    prefix: str = ""

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def language_of(identifier: str | None, uri: str) -> str | None:
    """Returns SQL or PYTHON for an editor's language identifier, or for the document's name. Returns None for any other."""
    by_name = SQL if uri.lower().endswith(".sql") else PYTHON if uri.lower().endswith((".py", ".ipynb")) else None
    return _LANGUAGES.get((identifier or "").lower(), by_name)


def sections(text: str, language: str | None) -> list[Section]:
    """Returns the SQL of a document in a language, in order."""
    if _DATABRICKS.match(text):
        return list(filter(None, (_databricks(text, start, end, language) for start, end in _cells(text))))
    if found := _MAGIC_CELL.match(text):
        section = _after_options(text, found.end(), len(text))
        return [section] if section is not None else []
    if language == SQL:
        return [Section(text)]
    if language != PYTHON:
        return []
    lines = ((found.end(), _line_end(text, found.end())) for found in _MAGIC_LINE.finditer(text))
    return list(filter(None, (_after_options(text, start, end) for start, end in lines)))


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _after_options(text: str, start: int, end: int) -> Section | None:
    """Returns the SQL after a magic's name, without the options of its line. Returns None for another engine's SQL."""
    first = min(_line_end(text, start), end)
    try:
        options = parse(text[start:first], "x")
    except CellError:  # an option is being written
        return Section(text[first:end], first)
    if options.read is not None:
        return None
    sql = options.sql.removesuffix("x").removesuffix("\n")
    begin = text.rindex(sql, start, first) if sql else first
    return Section(text[begin:end], begin)


def _cells(text: str) -> list[tuple[int, int]]:
    """Returns the places of the cells of a Databricks notebook, after its first line."""
    separators = [(found.start(), found.end()) for found in _SEPARATOR.finditer(text)]
    starts = [_line_end(text, 0), *(end for _, end in separators)]
    return list(zip(starts, [*(start for start, _ in separators), len(text)]))


def _databricks(text: str, start: int, end: int, language: str | None) -> Section | None:
    """Returns the SQL of a Databricks notebook's cell, or None."""
    cell = _TITLE.sub(_blanks, text[start:end])
    magic = _MAGIC.search(cell)
    if magic is None:
        return Section(cell, start) if language == SQL else None
    inside = _MAGIC.sub(_blanks, cell)
    word = _WORD.match(inside.lstrip())
    if word is None:
        return None
    at = len(inside) - len(inside.lstrip())
    inside = inside[:at] + " " * len(word[0]) + inside[at + len(word[0]) :]
    return Section(inside, start, magic[0] if magic[0].endswith(" ") else f"{magic[0]} ")


def _blanks(found: re.Match) -> str:
    return " " * len(found[0])
