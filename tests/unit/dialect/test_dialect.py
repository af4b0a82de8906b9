"""The dialect ``sparkcep`` of sqlglot: clauses as trees, the same text again, no other dialect's text, lineage through clauses. In
either build of sqlglot."""

from __future__ import annotations

import pickle
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp
from sqlglot.dialects.databricks import Databricks
from sqlglot.errors import ParseError
from sqlglot.lineage import lineage as sqlglot_lineage

import sparkcep
from sparkcep.clause.expressions import Expr
from sparkcep.clause.parser import parse_between
from sparkcep.clause.printer import to_sql
from sparkcep.clause.tokens import split_statements, tokenize
from sparkcep.clause.tree import MatchClause
from sparkcep.dialect.composed import clauses_in
from sparkcep.dialect.sparkcep import Sparkcep
from sparkcep.sql.rewrite.occurrences import Statement
from tests.cases.sql_case_files import read_case_file
from tests.docs.test_sql_examples import STATEMENT_FILES
from tests.selection import one_in

ROOT = Path(__file__).resolve().parents[3]
CASE_FILES = sorted((ROOT / "tests" / "cases").rglob("*.test"))
# what sqlglot's own parser does not know: arguments of a table function behind TABLE(...), QUERY behind DESCRIBE, a stream's
# WATERMARK
UNREAD = ("TABLE(t) PARTITION BY", "TABLE(ticks) PARTITION BY", "DESCRIBE QUERY", "STREAM ticks WATERMARK", "STREAM beats WATERMARK", "STREAM order_events WATERMARK", 'PARTITION BY "k"')  # names in double quotes need a setting
# sqlglot itself reads no keywords as these names, and no alias of VALUES without parentheses
UNREAD += ("limit, where MATCH", "FROM having MATCH", "range(4) window", "limit = where", "THEN 2 END a(x)")
COMMANDS = ("EXPLAIN", "EXECUTE")  # kept as their text, as in sqlglot

CLAUSE = """MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts DESC NULLS LAST
  MEASURES LAST(UP.price, 1) AS p, TIME '12:45:00' AS `a time`, FINAL count(U.*) AS n, percentile_cont(0.5) WITHIN GROUP (ORDER BY volume) AS v, CLASSIFIER(U) AS c
  ALL ROWS PER MATCH AFTER MATCH SKIP TO LAST UP PATTERN (^ STRT (DOWN | ~B){0,3}? UP+ {- X -})
  EVENT SELECTION SKIP TILL ANY MATCH WINDOW 3 ROWS APPROX 2 WEIGHTS (A 2, ~B 1e1) SUBSET U = (UP, DOWN)
  DEFINE DOWN AS price < PREV(price), UP AS UP.price > 3 AND NOT volume IN (1, 2))"""


def statements(path: Path) -> Iterator[str]:
    if path.suffix == ".sql":
        yield from split_statements(path.read_text(encoding="utf-8"))
        return
    file = read_case_file(path)
    yield from file.views
    for case in file.cases:
        if case.error is None or case.error.error_class is None:
            yield from case.statements


def clauses(sql: str) -> list[MatchClause]:
    statement = Statement(sql)
    return [parse_between(sql, statement.tokens, word + 1, close) for _, word, close in statement.clauses()]


def canonical(clause: MatchClause) -> list[str]:
    return [t.text for t in tokenize(to_sql(clause))]


def expressions(value: object, text: str) -> Iterator[list[str]]:
    """The tokens of all expressions of a clause, or of a part of one."""
    if isinstance(value, Expr):
        yield [t.text for t in tokenize(value.span.of(text))]
    elif isinstance(value, tuple):
        for item in value:
            yield from expressions(item, text)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from expressions(getattr(value, name), text)


@pytest.mark.parametrize("path", one_in(8, [*CASE_FILES, *STATEMENT_FILES], wider=9), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_statements_are_read_and_printed(path):
    for sql in statements(path):
        if "MATCH_RECOGNIZE" not in sql.upper() or any(words in sql for words in UNREAD):
            continue
        tree = sqlglot.parse_one(sql, read="sparkcep")
        printed = tree.sql("sparkcep")
        assert sqlglot.parse_one(printed, read="sparkcep") == tree, printed
        if not sql.lstrip().upper().startswith(COMMANDS):
            before, after = clauses(sql), clauses(printed)
            assert list(map(canonical, after)) == list(map(canonical, before)) and len(list(clauses_in(tree))) == len(before), printed
            assert [list(expressions(c, printed)) for c in after] == [list(expressions(c, sql)) for c in before]


def test_a_clause_after_lateral_is_printed():
    clause = "(SELECT * FROM u WHERE u.k = a.k) MATCH_RECOGNIZE (ORDER BY v MEASURES count(*) AS n PATTERN (A+) DEFINE A AS v > 1)"
    for sql in (f"SELECT * FROM a, LATERAL {clause} AS m", f"SELECT * FROM a LEFT JOIN LATERAL {clause} AS m ON TRUE"):
        for printed in (sqlglot.parse_one(sql, read="sparkcep").sql("sparkcep"), sparkcep.transpile(sql, "trino").sql):
            assert "LATERAL (SELECT * FROM u WHERE u.k = a.k) MATCH_RECOGNIZE (\nORDER BY v" in printed and ") AS m" in printed


def test_a_tree_has_the_whole_clause():
    tree = sqlglot.parse_one(f"SELECT m.p FROM u JOIN ticks {CLAUSE} AS m ON m.p = u.p", read="sparkcep")
    (found,) = clauses_in(tree)
    match = found.this.args["match"]
    assert found.alias == "m" and isinstance(tree.args["joins"][0].this, exp.Subquery)
    assert [measure.alias for measure in match.args["measures"]] == ["p", "a time", "n", "v", "c"]
    assert match.args["pattern"].this == "Concat" and match.args["window"].args["rows"] is True
    assert {column.sql() for column in match.args["measures"][0].find_all(exp.Column)} == {"UP.price"}


def test_trees_can_be_copied_and_sent():
    tree = sqlglot.parse_one(f"SELECT * FROM ticks {CLAUSE}", read="sparkcep")
    text = tree.sql("sparkcep")
    assert tree.copy().sql("sparkcep") == text == pickle.loads(pickle.dumps(tree)).sql("sparkcep")
    assert "LAST(UP.price, 1)" in text and "TIME '12:45:00'" in text and "percentile_cont(0.5) WITHIN GROUP (ORDER BY volume)" in text


def test_a_changed_tree_is_printed_as_it_is():
    tree = sqlglot.parse_one(f"SELECT * FROM ticks {CLAUSE}", read="sparkcep")
    for column in tree.find_all(exp.Column):
        if column.name == "price":
            column.set("this", exp.to_identifier("cost"))
    (call,) = (c for c in tree.find_all(exp.Anonymous) if c.name == "PREV")
    call.append("expressions", exp.Literal.number(2))
    next(clauses_in(tree)).this.args["match"].args["window"].set("size", exp.Literal.number(7))
    text = tree.sql("sparkcep")
    assert "price" not in text and "LAST(UP.cost, 1)" in text and "cost < PREV(cost, 2)" in text and "WINDOW 7 ROWS" in text
    assert "NOT volume IN (1, 2)" in text


@pytest.mark.parametrize(("text", "canonical"), [
    ("count(DISTINCT A.p) FILTER (WHERE A.v > 1)", "COUNT(DISTINCT A.p) FILTER(WHERE A.v > 1)"),
    ("percentile_cont(0.5) WITHIN GROUP (ORDER BY A.v DESC, b)", "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY A.v DESC, b)"),
    ("array_agg(A.x ORDER BY A.y DESC NULLS FIRST)", "ARRAY_AGG(A.x ORDER BY A.y DESC NULLS FIRST)"),
    ("first_value(x) IGNORE NULLS", "FIRST_VALUE(x) IGNORE NULLS"),
    ("EXTRACT(YEAR FROM ts)", "EXTRACT(YEAR FROM ts)"),
    ("trim(LEADING 'x' FROM y)", "TRIM(LEADING 'x' FROM y)"),
    ("struct(A.x AS `a b`, y z, 1)", "STRUCT(A.x AS `a b`, y AS z, 1)"),
    ("(A.x AS `a b`, y z, 1)", "(A.x AS `a b`, y AS z, 1)"),
    ("f(a => 1, b => x)", "F(a => 1, b => x)"),
    ("s NOT LIKE 'x#_%' ESCAPE '#'", "NOT s LIKE 'x#_%' ESCAPE '#'"),
    ("s LIKE ANY ('a', 'b')", "s LIKE ANY ('a', 'b')"),
    ("x NOT IN (SELECT y FROM u)", "NOT x IN (SELECT y FROM u)"),
])  # fmt: skip
def test_an_expression_below_a_new_node_keeps_its_text(text, canonical):
    tree = sqlglot.parse_one(f"SELECT * FROM ticks MATCH_RECOGNIZE (MEASURES {text} AS n PATTERN (A))", read="sparkcep")
    (measure,) = next(clauses_in(tree)).this.args["match"].args["measures"]
    assert measure.this.sql("databricks") == canonical
    measure.set("this", exp.Add(this=exp.Paren(this=measure.this.copy()), expression=exp.Literal.number(1)))
    assert f"MEASURES ({text}) + 1 AS `n`" in tree.sql("sparkcep")


@pytest.mark.parametrize(("text", "kind", "change", "changed"), [
    ("x > 1 AND y > 2 AND z > 3", exp.And, lambda node: node.this.replace(node.this.this), "x > 1 AND z > 3"),
    ("x NOT IN (1, 2)", exp.In, lambda node: node.append("expressions", exp.Literal.number(3)), "NOT x IN (1, 2, 3)"),
    ("filter(a, q -> 1 < 2)", exp.Lambda, lambda node: node.expressions[0].set("this", "w"), "filter(a, w -> 1 < 2)"),
    ("count(DISTINCT A.p)", exp.Anonymous, lambda node: node.set("this", "sum"), "SUM(DISTINCT A.p)"),
    ("CASE WHEN x THEN 1 END", exp.Case, lambda node: node.set("default", exp.Literal.number(2)), "CASE WHEN x THEN 1 ELSE 2 END"),
])  # fmt: skip
def test_a_change_inside_of_an_expression_is_printed(text, kind, change, changed):
    tree = sqlglot.parse_one(f"SELECT * FROM ticks MATCH_RECOGNIZE (MEASURES {text} AS n PATTERN (A))", read="sparkcep")
    change(tree.find(kind))
    assert f"MEASURES {changed} AS `n`" in tree.sql("sparkcep")


@pytest.mark.parametrize("dialect", ["", "databricks", "spark", "trino", "snowflake", "oracle", "duckdb", "bigquery"])
def test_no_other_dialect_prints_a_clause(dialect):
    tree = sqlglot.parse_one("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A) WINDOW 3)", read="sparkcep")
    with pytest.raises(ValueError):
        tree.sql(dialect)


def test_an_operand_that_is_taken_out_and_put_back_keeps_its_side():
    tree = sqlglot.parse_one("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY i MEASURES a - b AS n, trim() AS m PATTERN (A))", read="sparkcep")
    difference = tree.find(exp.Sub)
    difference.set("this", exp.Paren(this=difference.this.pop()))
    assert "(a) - b AS `n`, trim() AS `m`" in tree.sql("sparkcep")


def test_databricks_stays_as_it_was():
    sql = "SELECT * FROM t MATCH_RECOGNIZE (MEASURES LAST(p) AS q PATTERN (A) DEFINE A AS p > 1)"
    tree = sqlglot.parse_one(sql, read="databricks")
    assert type(tree.args["match"].args["pattern"]) is exp.Var
    assert "MATCH_RECOGNIZE" in Databricks.Tokenizer.KEYWORDS and Databricks.Tokenizer.COMMANDS


def test_texts_without_a_delimiter_have_none_in_the_printed_statement():
    tree = sqlglot.parse_one("SELECT listagg(s), string_agg(s, ';') FROM t", read="sparkcep")
    assert tree.sql("sparkcep") == "SELECT LISTAGG(s, NULL), LISTAGG(s, ';') FROM t"


def test_numbers_of_trino_may_have_underscores():
    """Without them sqlglot read an alias: SELECT x + 1 AS _000."""
    found = sparkcep.transpile("SELECT x + 1_000 FROM t MATCH_RECOGNIZE (ORDER BY d MEASURES LAST(p) AS x PATTERN (A B+) DEFINE B AS p > 1_000_000.5) WHERE x < 2_0", "trino").sql
    assert "x + 1000 FROM" in found and "p > 1000000.5" in found and "x < 20" in found


def test_an_error_has_its_place():
    with pytest.raises(ParseError) as raised:
        sqlglot.parse_one("SELECT *\nFROM t MATCH_RECOGNIZE (PATTERN (A+*))", read="sparkcep")
    (error,) = raised.value.errors
    assert (error["line"], error["col"]) == (2, 36) and "a quantifier cannot follow a quantifier" in error["description"]


def test_sqlglot_finds_the_dialect_by_its_entry_point():
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["sqlglot.dialects"]
    module, _, name = points["sparkcep"].partition(":")
    assert getattr(import_module(module), name) is Sparkcep


SCHEMA = {"ticks": {"symbol": "string", "ts": "int", "price": "double", "volume": "int", "day": "int"}, "u": {"s": "string"}}
OF_TICKS = """MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts MEASURES LAST(UP.price, 1) AS p, count(UP.*) AS n, CLASSIFIER(UP) AS c, sum(U.volume) AS v
  PATTERN (STRT DOWN+ UP+) SUBSET U = (UP, DOWN) DEFINE DOWN AS price < PREV(price), UP AS UP.price > 3)"""
ALL_ROWS = OF_TICKS.replace("PATTERN", "ALL ROWS PER MATCH PATTERN", 1)
OF_BOTH = "MATCH_RECOGNIZE (ORDER BY symbol MEASURES max(p) AS q PATTERN (A+))"


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        (f"SELECT * FROM ticks {OF_TICKS}", {"symbol": ("ticks.symbol",), "p": ("ticks.price",), "n": (), "c": (), "v": ("ticks.volume",)}),
        (f"SELECT m.p, v + p AS w FROM ticks {OF_TICKS} AS m", {"p": ("ticks.price",), "w": ("ticks.price", "ticks.volume")}),
        (f"SELECT p AS q FROM u JOIN ticks {OF_TICKS} m ON u.s = m.symbol", {"q": ("ticks.price",)}),
        (f"SELECT q FROM (SELECT * FROM ticks {OF_TICKS}) {OF_BOTH}", {"q": ("ticks.price",)}),
        (f"SELECT q FROM ticks {OF_TICKS} {OF_BOTH}", {"q": ("ticks.price",)}),
        (f"WITH c AS (SELECT volume * 2 AS price, symbol, ts, volume FROM ticks) SELECT p FROM c {OF_TICKS}", {"p": ("ticks.volume",)}),
        (f"CREATE TABLE x AS SELECT p FROM ticks {OF_TICKS}", {"p": ("ticks.price",)}),
        (f"INSERT INTO y SELECT v FROM ticks {OF_TICKS} AS m", {"v": ("ticks.volume",)}),
        (f"SELECT p, day FROM ticks {ALL_ROWS} AS m", {"p": ("ticks.price",), "day": ("ticks.day",)}),
        (f"SELECT a, b FROM ticks {OF_TICKS} AS m (a, b, c, d, e)", {"a": ("ticks.symbol",), "b": ("ticks.price",)}),
        ("SELECT price AS x FROM ticks", {"x": ("ticks.price",)}),
        ("DROP TABLE ticks", {}),
    ],
)
def test_lineage_looks_through_clauses(sql, found):
    assert sparkcep.lineage(sql, SCHEMA) == found


def test_sqlglot_s_own_lineage_takes_what_is_seen_through():
    tree = sparkcep.see_through(sqlglot.parse_one(f"SELECT m.p FROM ticks {OF_TICKS} AS m", read="sparkcep"))
    root = sqlglot_lineage("p", tree, schema=SCHEMA, dialect="databricks")
    assert {node.name for node in root.walk() if not node.downstream} == {"ticks.price"}


def test_the_programs_of_the_page_about_sqlglot_run(capsys):
    names: dict = {}
    for program in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "sqlglot.md").read_text(encoding="utf-8"), re.S):
        exec(program, names)
    out = capsys.readouterr().out
    assert out.startswith("{'symbol': ('ticks.symbol',), 'low': ('ticks.price',)}\n") and "sqlglot-lineage" in out


def test_lineage_of_a_project_of_models():
    """As tools over dbt do it: each model's compiled text for itself, the columns of models before it as its schema."""
    models = {
        "stg_ticks": "SELECT sym AS symbol, at AS ts, CAST(px AS DOUBLE) AS price, volume FROM raw_ticks",
        "falls": f"SELECT symbol, p AS low, v FROM stg_ticks {OF_TICKS}",
        "report": "SELECT symbol, max(low) AS lowest FROM falls GROUP BY symbol",
    }
    schema: dict[str, dict[str, str]] = {"raw_ticks": dict.fromkeys(("sym", "at", "px", "volume"), "string")}
    found = {}
    for name, sql in models.items():
        found[name] = sparkcep.lineage(sql, schema)
        schema[name] = dict.fromkeys(found[name], "string")
    assert found["falls"] == {"symbol": ("stg_ticks.symbol",), "low": ("stg_ticks.price",), "v": ("stg_ticks.volume",)}
    assert found["report"]["lowest"] == ("falls.low",) and found["stg_ticks"]["price"] == ("raw_ticks.px",)
