"""Converts Databricks notebooks in source form to Jupyter notebooks.

``sparkcep notebook`` uses it, because jupytext does not read source form. The first line is ``# Databricks notebook source``. Cells
are separated by ``# COMMAND ----------``. Cells that are not Python have lines ``# MAGIC ...``. ``# DBTITLE 1,...`` is a cell's
title.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkcep.notebook.cell import CellError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell
    from nbformat import NotebookNode

HEADER = "# Databricks notebook source"
_SEPARATOR = re.compile(r"^# COMMAND -+[ \t]*$", re.M)
_TITLE = re.compile(r"^# DBTITLE \d+,(.*)$")
_MAGIC = re.compile(r"^# MAGIC ?(.*)$")
_LANGUAGE = re.compile(r"^%([A-Za-z][\w-]*)[ \t]*(.*)$")

PYTHON, SQL, MARKDOWN, IPYTHON, SKIPPED = "python", "sql", "markdown", "ipython", "skipped"
_LANGUAGES = {"python": PYTHON, "sql": SQL, "md": MARKDOWN, "md-sandbox": MARKDOWN, "pip": SKIPPED, "restart_python": SKIPPED}
_ELSEWHERE = ("scala", "r", "sh", "fs", "run", "skip", "conda", "uv")  # not available outside Databricks

# defined in every Databricks notebook from the start
_PREPARED = """from sparkcep.notebook.databricks import prepare
prepare(get_ipython())"""


class SourceError(Exception):
    """A text is not a Databricks notebook, or it cannot run elsewhere. ``line`` is the 1-based line of the problem."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Cell:
    """A cell of a notebook.

    Attributes:
        language: one of the constants above.
        source: the cell without the marks of the source form.
        line: its first line, 1-based.
        title: its title, or "".
    """

    language: str
    source: str
    line: int
    title: str = ""


def read(text: str) -> list[Cell]:
    """Returns the cells of a notebook in source form.

    Raises SourceError for another text, and for cells that only Databricks can run.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if text.partition("\n")[0].rstrip() != HEADER:
        raise SourceError(1, f"a Databricks notebook in source form begins with the line {HEADER!r}; export it as a source file")
    cells, begin = [], len(HEADER)
    ends = [(m.start(), m.end()) for m in _SEPARATOR.finditer(text)]
    for start, end in [*ends, (len(text), len(text))]:
        cell = _cell(text[begin:start], text.count("\n", 0, begin) + 1)
        if cell.source:
            cells.append(cell)
        begin = end
    return cells


def _cell(text: str, line: int) -> Cell:
    title, lines, magic = "", [], False
    for row in text.split("\n"):
        titled, marked = _TITLE.match(row), _MAGIC.match(row)
        if not lines and not row.strip():
            line += 1
        elif not lines and titled:
            title, line = titled[1].strip(), line + 1
        else:
            magic = magic or (not lines and marked is not None)
            lines.append(marked[1] if marked else row)
    source = "\n".join(lines).rstrip()
    language = _LANGUAGE.match(source.partition("\n")[0]) if magic else None
    if language is None or source.startswith("%%"):
        return Cell(IPYTHON if magic else PYTHON, source, line, title)
    word = language[1].lower()
    if word in _ELSEWHERE:
        raise SourceError(line, f"a cell of %{word} runs in Databricks only; take it out, or write it in Python")
    kind = _LANGUAGES.get(word, IPYTHON)
    if kind in (IPYTHON, SKIPPED):
        return Cell(kind, source, line, title)
    body = "\n".join([language[2], *source.split("\n")[1:]]).strip("\n")
    return Cell(kind, body, line, title)


def to_notebook(text: str) -> NotebookNode:
    """Returns the notebook for Jupyter. An added first cell defines ``spark`` and ``display``, as Databricks does.

    ``%sql`` cells become ``%%sparkcep`` cells. ``%pip`` is left out, because the kernel's environment is used unchanged. Each code
    cell's metadata has its original ``line``. Raises SourceError as :func:`read` does.
    """
    from nbformat import v4

    cells = [v4.new_code_cell(_PREPARED, metadata={"line": 1})]
    for cell in read(text):
        if cell.title:
            cells.append(v4.new_markdown_cell(f"#### {cell.title}"))
        if cell.language == MARKDOWN:
            cells.append(v4.new_markdown_cell(cell.source))
            continue
        source = cell.source
        if cell.language == SQL:
            source = f"%%sparkcep\n{source}"
        elif cell.language == SKIPPED:
            source = "\n".join(f"# left out: {line}" for line in source.split("\n"))
        cells.append(v4.new_code_cell(source, metadata={"line": cell.line}))
    for i, made in enumerate(cells):
        made["id"] = f"cell-{i}"  # equal in each conversion
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}, "language_info": {"name": "python"}}
    return v4.new_notebook(cells=cells, metadata=kernel)


def prepare(shell: InteractiveShell) -> None:
    """Defines the magics, ``spark`` and ``display`` in ``shell``. Raises CellError.

    ``spark`` uses Spark Connect if SPARK_REMOTE is set; otherwise it is local.
    """
    from sparkcep.notebook.magic import load_ipython_extension
    from sparkcep.notebook.session import session_of

    load_ipython_extension(shell)
    namespace = shell.user_ns
    remote = os.environ.get("SPARK_REMOTE")
    if remote and "spark" not in namespace:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        if remote.startswith("local"):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the server's workers
        try:
            namespace["spark"] = SparkSession.builder.getOrCreate()
        except (PySparkException, ImportError) as error:
            raise CellError(f"SPARK_REMOTE={remote}: {error}") from None
    session_of(namespace)
    namespace["display"] = display


def display(*values: Any) -> None:
    """Shows DataFrames as tables of their first rows, and anything else as IPython does."""
    from IPython.display import display as show

    from sparkcep.notebook.table import Table

    for value in values:
        if hasattr(value, "take") and hasattr(value, "schema"):
            rows = value.take(_SHOWN + 1)
            value = Table(value.columns, rows[:_SHOWN], len(rows) > _SHOWN, value)
        show(value)


_SHOWN = 50  # rows of a DataFrame
