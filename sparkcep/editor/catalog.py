"""Columns of tables, for completion without Spark.

They come from the nearest folder at or above a document that has ``sparkcep.columns.json`` or ``target/catalog.json``. ``dbt docs
generate`` writes the latter. The former maps the name of a table to its columns, a list of names or an object from name to type:
``{"ticks": ["symbol", "day"], "sales.orders": {"id": "BIGINT"}}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparkcep.clause.tokens import QUOTED, WORD, matching, name_of, tokenize
from sparkcep.clause.tree import ONE_ROW, MatchClause
from sparkcep.errors import ClauseError
from sparkcep.sql.rewrite.occurrences import KEYWORD
from sparkcep.tools.jinja_mask import Masked
from sparkcep.tools.statements import clauses

COLUMNS_FILE, DBT_FILE = "sparkcep.columns.json", "target/catalog.json"
_HEAD = "SELECT * FROM "
_CALL = re.compile(r"\{\{-?\s*(?:ref|source)\s*\((?P<names>[^)]*)\)")
_NAME = re.compile(r"""['"]([^'"]+)['"]""")


class CatalogError(Exception):
    """A file of columns cannot be read. The message names the file and the problem."""


@dataclass
class Catalog:
    """The columns of tables. ``tables`` maps the lower-case name of a table, without quotes, to its columns."""

    tables: dict[str, list[str]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)  # of tables, as written

    def add(self, name: str, columns: Iterable[str]) -> None:
        self.tables[name.lower()] = [*columns]
        self.names.append(name)

    def columns(self, table: str, masked: Masked) -> list[str]:
        """Returns the columns of a table: its text after FROM in ``masked.text``, a name, a query, or a table with its clause.

        The columns of a query are known if it is ``(SELECT * FROM ...)``.
        """
        try:
            tokens = tokenize(table)[:-1]
            if tokens and tokens[0].text == "(" and matching(tokens).get(0) == len(tokens) - 1:
                starred = [token.upper for token in tokens[1:4]] == ["SELECT", "*", "FROM"]
                return self.columns(_first_table(table[tokens[3].end : tokens[-1].start]), masked) if starred else []
            found = clauses(f"{_HEAD}{table}")
        except ClauseError:  # the clause is being written
            return []
        if found:
            return _given(found[-1].clause, self.columns(table[: found[-1].word.start - len(_HEAD)], masked))
        source = next((source for name, source in masked.names if name == table.strip()), None)
        if source is not None:
            return self._find(_of_jinja(source))
        return self._find([name_of(token) for token in tokens if token.kind in (WORD, QUOTED)])

    def _find(self, parts: list[str]) -> list[str]:
        """Returns the columns of a table by its name, or by the last parts of its name."""
        for first in range(len(parts)):
            name = ".".join(parts[first:]).lower()
            if name in self.tables:
                return self.tables[name]
        ends = [columns for name, columns in self.tables.items() if parts and name.rpartition(".")[2] == parts[-1].lower()]
        return ends[0] if len(ends) == 1 else []


def _first_table(text: str) -> str:
    """Returns the first table of a text after FROM, a name or a query in parentheses, with its clause if it has one."""
    tokens = tokenize(text)
    close, i = matching(tokens), 0
    while tokens[i].kind in (WORD, QUOTED) and tokens[i + 1].text == ".":
        i += 2
    i = close.get(i, i)
    if tokens[i + 1].upper == KEYWORD and i + 2 in close:
        i = close[i + 2]
    return text[: tokens[i].end]


def _given(clause: MatchClause, columns: list[str]) -> list[str]:
    """Returns the output columns of a clause over a table with ``columns``."""
    text = clause.text
    keys = [expr.span.of(text).strip("`") for expr in clause.partition_by]
    measures = [measure.name for measure in clause.measures]
    if clause.rows == ONE_ROW:
        return [*keys, *measures]
    ordered = [item.expr.span.of(text).strip("`") for item in clause.order_by]
    first = list(dict.fromkeys([*keys, *ordered]))
    return [*first, *measures, *(name for name in columns if name.lower() not in {key.lower() for key in first})]


def _of_jinja(source: str) -> list[str]:
    """Returns the parts of the name in a ``ref()`` or ``source()``."""
    call = _CALL.match(source)
    return _NAME.findall(call["names"])[-2:] if call is not None else []


def read(folder: Path) -> Catalog | None:
    """Returns the columns that the files of a folder give, or None if it has neither. Raises CatalogError."""
    own, dbt = folder / COLUMNS_FILE, folder / DBT_FILE
    if not own.is_file() and not dbt.is_file():
        return None
    catalog = Catalog()
    if dbt.is_file():
        content = _json(dbt)
        for group in ("nodes", "sources"):
            for key, node in content.get(group, {}).items():
                try:
                    columns = sorted(node["columns"].values(), key=lambda column: column.get("index", 0))
                    catalog.add(node["metadata"]["name"], [column["name"] for column in columns])
                except (AttributeError, KeyError, TypeError):
                    what = f"{dbt}: {key} lacks metadata.name or columns. Write the file again by `dbt docs generate`"
                    raise CatalogError(what) from None
    if own.is_file():
        for name, columns in _json(own).items():
            if not isinstance(columns, list | dict) or not all(isinstance(column, str) for column in columns):
                raise CatalogError(f'{own}: the columns of {name} must be a list of names, as in {{"{name}": ["id", "price"]}}')
            catalog.add(name, columns)
    return catalog


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise CatalogError(f"{path}: {error}") from None
    if not isinstance(content, dict):
        raise CatalogError(f"{path}: the file must hold a JSON object")
    return content


class Catalogs:
    """Finds the catalog of a document, and reads it again after its files have changed."""

    def __init__(self) -> None:
        self._read: dict[Path, tuple[tuple[float, ...], Catalog]] = {}

    def of(self, document: Path) -> Catalog:
        """Returns the catalog for a document; an empty one if no folder above has one. Raises CatalogError."""
        for folder in document.parents:
            times = tuple(path.stat().st_mtime for path in (folder / COLUMNS_FILE, folder / DBT_FILE) if path.is_file())
            if times:
                known = self._read.get(folder)
                if known is None or known[0] != times:
                    self._read[folder] = known = (times, read(folder) or Catalog())
                return known[1]
        return Catalog()
