"""Runs cases of the corpus without Spark: the engine computes the clauses, and DuckDB the SQL around them, in this process.

    python -m tests.cases.in_process --write     tries all cases, and writes those that need Spark into in_spark_alone.txt

The rewriter makes the same text as for Spark, and sqlglot translates it into DuckDB's SQL. A table replaces each call of the
table function: DuckDB gives the input, the engine runs the plan over it, and DuckDB reads the output rows in the surrounding
query. The rows are compared as the strings that Spark would give.

DuckDB lacks some functions of Spark's, and others give other results. in_spark_alone.txt lists the cases with other rows here.
Only Spark (``test_sql_cases.py``) compares types and runs the cases with settings, arguments or errors.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

import sparkcep
from sparkcep.clause.tokens import QUOTED, matching, tokenize, unquoted
from sparkcep.engine.factory import engine_for, match_batches, match_table, prepare
from sparkcep.plan.plan import PLAN_HEAD, Plan
from tests.cases.sql_case_files import IN_SPARK_ALONE, Case, is_ordered, name_of, read_case_file
from tests.golden.golden_files import renew
from tests.support.caught import plainly, without_catching

FOLDER = Path(__file__).resolve().parent
_HEAD = "# Cases whose rows only Spark gives, not tests/cases/in_process.py: written by python -m tests.cases.in_process --write\n"


class Call(NamedTuple):
    """A call of the table function: the name of the table that replaces it, its plan, and the query of its input."""

    name: str
    plan: Plan
    query: str


def calls_of(text: str) -> tuple[str, list[Call]]:
    """A rewritten statement with a table's name for each call of the table function, and the calls, inner ones first."""
    found: list[Call] = []

    def without_calls(text: str) -> str:
        tokens = tokenize(text)
        pairs = matching(tokens)
        out, at, i = "", 0, 0
        while i < len(tokens):
            if tokens[i].upper == "MATCH_RECOGNIZE" and [token.upper for token in tokens[i + 1 : i + 4]] == ["(", "TABLE", "("]:
                first, last, end = i + 4, pairs[i + 3], pairs[i + 1]
                plan = next(k for k in range(first, last) if tokens[k].kind == QUOTED and tokens[k].text[1:].startswith(PLAN_HEAD))
                columns = text[tokens[first].end : tokens[plan - 2].start].rstrip().removesuffix(",")  # without "NULL AS"
                query = f"SELECT {columns or '0 AS __no_column'} {text[tokens[plan].end : tokens[last].start].lstrip().removeprefix(',')}"
                query = plainly(without_calls(query))
                name = f"__call{len(found)}"
                found.append(Call(name, without_catching(Plan.from_json(unquoted(tokens[plan].text))), query))
                out, at, i = out + text[at : tokens[i].start] + name, tokens[end].end, end
            i += 1
        return out + text[at:]

    return plainly(without_calls(text)), found


class Database:
    """Views in DuckDB, as Spark's SQL makes them. ``failed``: those that DuckDB cannot make, with its errors."""

    def __init__(self, views: Iterable[str] = ()) -> None:
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.execute(_SETTINGS)
        self.failed: dict[str, Exception] = {}
        for view in views:
            try:
                self.connection.execute(self.translated(sqlglot.parse_one(view, read="databricks"), []))
            except (duckdb.Error, sqlglot.ParseError) as error:
                self.failed[view] = error

    def insert(self, name: str, columns: str, rows: list[dict]) -> None:
        """Makes a table of rows. ``columns``: their names and types in Spark's words."""
        self.connection.execute(self.translated(sqlglot.parse_one(f"CREATE TABLE {name} ({columns})", read="databricks"), []))
        self.connection.register("__rows", pa.Table.from_pylist(rows))
        self.connection.execute(f"INSERT INTO {name} SELECT * FROM __rows")

    def close(self) -> None:
        self.connection.close()

    def table(self, statement: str, chunk_rows: int | None = None) -> tuple[list[str], pa.Table]:
        """The names of the columns, which may repeat, and the rows of a statement.

        The engine gets batches of ``chunk_rows`` rows.
        """
        text, calls = calls_of(sparkcep.rewrite(statement))
        outer = sqlglot.parse_one(text, read="databricks")
        shared = list(outer.find_all(exp.CTE, bfs=False))
        waiting = {call.name for call in calls}
        for call in calls:
            ready, unknown = [], set(waiting)
            for cte in shared:  # in the order of the text, so what a WITH query reads is known before
                if unknown.isdisjoint(table.name for table in cte.find_all(exp.Table)):
                    ready.append(cte)
                else:
                    unknown.add(cte.alias)
            query = sqlglot.parse_one(call.query, read="databricks")
            table = self.connection.sql(self.translated(query, ready)).to_arrow_table()
            self.connection.register(call.name, _matched(call.plan, table, chunk_rows))
            waiting.remove(call.name)
        found = self.connection.sql(self.translated(outer, []))
        return found.columns, found.to_arrow_table()

    def rows(self, statement: str) -> tuple[list[str], list[tuple[str | None, ...]]]:
        """The names of the columns, and the rows as Spark casts them to STRING."""
        names, table = self.table(statement)
        columns = [[shown(value, column.type) for value in column.to_pylist()] for column in table.columns]
        return names, list(zip(*columns, strict=True))

    def translated(self, tree: exp.Expression, shared: list[exp.Expression]) -> str:
        """A query of Spark's as DuckDB's SQL, made of its tree. ``shared``: the WITH queries that it may read besides its own."""
        if shared and isinstance(tree, exp.Query):
            own = tree.args.get("with_")
            tree.set("with_", exp.With(expressions=[*(cte.copy() for cte in shared), *(own.expressions if own else [])]))
        for node in reversed(list(tree.walk(bfs=False))):  # parts before the whole
            _as_duckdb_has_it(node)
        for struct in reversed([node for node in tree.find_all(exp.Struct, bfs=False) if any(map(_star, node.expressions))]):
            fields = (self.fields(struct, star) if (star := _star(field)) else [field] for field in struct.expressions)
            struct.set("expressions", [*chain.from_iterable(fields)])
        return tree.sql(dialect="duckdb", copy=False)

    def fields(self, struct: exp.Expression, star: exp.Star) -> list[exp.Expression]:
        """The columns of ``struct(*)``, which DuckDB does not take, as fields."""
        query = struct.find_ancestor(exp.Select)
        asked = exp.Select(expressions=[star.copy()], from_=query.args["from_"].copy(), joins=[join.copy() for join in query.args.get("joins") or []])
        shared = [cte.copy() for w in struct.root().find_all(exp.With) for cte in w.expressions if not any(node is struct for node in cte.walk())]
        if shared:
            asked.set("with_", exp.With(expressions=shared))
        names = [name for name, *_ in self.connection.execute(f"DESCRIBE {asked.sql(dialect='duckdb')}").fetchall()]
        return [exp.PropertyEQ(this=exp.to_identifier(name, quoted=True), expression=exp.column(name, quoted=True)) for name in names]


def _matched(plan: Plan, table: pa.Table, chunk_rows: int | None) -> pa.Table:
    if chunk_rows is None:
        return match_table(plan, table)
    engine = engine_for(prepare(plan, table.schema), chunk_rows)
    return pa.concat_tables([engine.prepared.output_schema.empty_table(), *match_batches(engine, table.to_batches(max_chunksize=chunk_rows))])


def _star(field: exp.Expression) -> exp.Star | None:
    """The star of ``struct(*)``, if a field is one."""
    value = field.expression if isinstance(field, exp.PropertyEQ) else field
    return value if isinstance(value, exp.Star) else None


_SETTINGS = """
SET TimeZone = 'UTC'; SET order_by_non_integer_literal = true;
CREATE MACRO raise_error(text) AS error(text);
CREATE MACRO timestamp_seconds(n) AS to_timestamp(n);
CREATE MACRO pmod(a, b) AS ((a % b) + b) % b;
CREATE MACRO typeof_in_spark(x) AS CASE typeof(x)
  WHEN 'INTEGER' THEN 'int' WHEN 'VARCHAR' THEN 'string' WHEN '"NULL"' THEN 'void' ELSE lower(typeof(x)) END;
"""


def _as_duckdb_has_it(node: exp.Expression) -> None:
    """Changes a node of a tree whose meaning sqlglot does not carry over."""
    if isinstance(node, exp.Select):
        if sort := node.args.get("sort"):
            node.set("order", exp.Order(expressions=sort.expressions))
        for key in ("distribute", "sort"):
            node.set(key, None)
        if laterals := [lateral for lateral in node.args.get("laterals") or [] if lateral.args.get("outer")]:
            node.set("laterals", [lateral for lateral in node.args["laterals"] if lateral not in laterals])
            for lateral in laterals:  # LATERAL VIEW OUTER keeps rows without elements
                alias = lateral.args["alias"]
                unnest = exp.Unnest(expressions=[lateral.this.this.copy()], alias=alias.copy())
                node.append("joins", exp.Join(this=unnest, side="LEFT", on=exp.true()))
    elif isinstance(node, exp.Values):  # Spark's names of its columns
        alias = node.args.get("alias")
        if alias is None or not alias.columns:
            row = node.expressions[0]
            width = len(row.expressions) if isinstance(row, exp.Tuple) else 1
            names = [exp.to_identifier(f"col{i + 1}") for i in range(width)]
            node.set("alias", exp.TableAlias(this=alias.this if alias else exp.to_identifier("__values"), columns=names))
    elif isinstance(node, exp.Table) and isinstance(node.this, (exp.Anonymous, exp.GenerateSeries)) and not node.alias:
        node.set("alias", exp.TableAlias(this=exp.to_identifier("__range"), columns=[exp.to_identifier("id")]))
    elif isinstance(node, exp.Typeof):
        node.replace(exp.func("typeof_in_spark", node.this))
    elif isinstance(node, exp.ArrayAgg):  # Spark's is empty without rows
        whole = node
        while isinstance(whole.parent, (exp.Filter, exp.Window, exp.WithinGroup)) and whole.parent.this is whole:
            whole = whole.parent
        whole.replace(exp.Coalesce(this=whole.copy(), expressions=[exp.Array(expressions=[])]))
    elif isinstance(node, exp.Anonymous) and node.name.lower() == "monotonically_increasing_id":
        node.replace(exp.Paren(this=sqlglot.parse_one("row_number() OVER () - 1")))
    elif isinstance(node, (exp.Column, exp.Dot)) and (path := _path(node)) and "__register" in path[1:]:
        found = exp.column(path[0], quoted=True)
        for name in path[1:]:
            found = exp.func("struct_extract", found, exp.Literal.string(name))
        node.replace(found)


def _path(node: exp.Expression) -> list[str]:
    """The names of a column's field, from the outermost on; [] for another expression."""
    if isinstance(node, exp.Dot):
        before = _path(node.this)
        return [*before, node.name] if before else []
    return [part.name for part in node.parts] if isinstance(node, exp.Column) else []


def shown(value: Any, kind: pa.DataType, nested: bool = False) -> str | None:
    """A value as Spark's CAST to STRING gives it."""

    def inside(value: Any, kind: pa.DataType) -> str | None:
        return shown(value, kind, nested=True)

    if value is None:
        return "null" if nested else None
    if pa.types.is_boolean(kind):
        return "true" if value else "false"
    if pa.types.is_list(kind):
        return f"[{', '.join(inside(item, kind.value_type) for item in value)}]"
    if pa.types.is_struct(kind):
        return f"{{{', '.join(inside(value[field.name], field.type) for field in kind)}}}"
    if pa.types.is_map(kind):
        return f"{{{', '.join(f'{inside(key, kind.key_type)} -> {inside(item, kind.item_type)}' for key, item in value)}}}"
    if pa.types.is_floating(kind):
        return _of_double(value)
    if pa.types.is_timestamp(kind):
        fraction = f".{value.microsecond:06}".rstrip("0") if value.microsecond else ""
        return f"{value:%Y-%m-%d %H:%M:%S}{fraction}"
    return str(value)


def _of_double(value: float) -> str:
    """A number as Java writes it."""
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    first, *rest = map(str, digits)
    return f"{'-' if sign else ''}{first}.{''.join(rest) or '0'}E{int(exponent) + len(digits) - 1}"


def difference(database: Database, case: Case) -> str:
    """Says how the rows differ from those of the case; "" if they do not."""
    asked = case.statements[-1]
    names, rows = database.rows(asked if case.read is None else sparkcep.transpile(asked, case.read).sql)
    if case.columns is not None and names != case.columns:
        return f"columns {names}, and not {case.columns}"
    if rows != case.rows if is_ordered(case.statements[-1]) else Counter(rows) != Counter(case.rows):
        return f"rows {rows}, and not {case.rows}"
    return ""


def needing_spark(files: list[Path]) -> Iterator[str]:
    """The names of the cases that give other rows here, or none."""
    for path in files:
        file = read_case_file(path)
        database = Database(file.views)
        for case in filter(Case.asks_for_rows, file.cases):
            try:
                if difference(database, case):
                    yield name_of(file, case)
            except Exception:  # noqa: BLE001 - any error of DuckDB or sqlglot about Spark's SQL
                yield name_of(file, case)
        database.close()


if __name__ == "__main__":
    files = [*sorted(FOLDER.glob("*/*.test")), *sorted(FOLDER.with_name("transpiled").glob("*.test"))]
    now = _HEAD + "".join(f"{name}\n" for name in needing_spark(files))
    sys.exit(renew([IN_SPARK_ALONE], FOLDER, lambda _: now, "names of cases", "--write" in sys.argv))
