"""The language server without an editor: positions, the SQL of documents, names of clauses, columns, descriptions and fixes."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from random import Random

import pytest

from sparkcep.clause.tokens import Span
from sparkcep.editor.catalog import CatalogError, Catalogs
from sparkcep.editor.document import Document
from sparkcep.editor.fixes import fixes
from sparkcep.editor.hover import hover, page, reference
from sparkcep.editor.positions import Lines
from sparkcep.editor.rename import RenameError, renamed
from sparkcep.editor.sections import language_of, sections
from sparkcep.editor.server import make_server
from sparkcep.sql.rewrite.rewrite import rewrite
from sparkcep.tools.complete import complete
from sparkcep.tools.jinja_mask import jinja_mask
from sparkcep.tools.lint import ERROR, lint
from tests.cases.error_messages import FILES
from tests.cases.sql_case_files import read_case_file
from tests.docs.test_sql_examples import STATEMENT_FILES
from tests.selection import first, one_in

ROOT = Path(__file__).resolve().parents[3]
SQL = """SELECT m.low, n FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY day
  MEASURES LAST(DOWN.price) AS low, CLASSIFIER(down) AS c, count(FALL.*) AS n
  AFTER MATCH SKIP TO LAST UP
  PATTERN (STRT DOWN+ `UP`)
  APPROX 1 WEIGHTS (DOWN 2, UP 1)
  SUBSET FALL = (STRT, DOWN)
  DEFINE DOWN AS price < PREV(price) AND low > 0, UP AS UP.price > PREV(price)
) AS m JOIN b AS low ON low.low = m.low WHERE low > 1"""


def document(text: str, language: str = "sql", uri: str = "file:///work/a.sql") -> Document:
    return Document(uri, text, language)


# -- positions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", first(range(4)))
@pytest.mark.parametrize(
    ("encoding", "codec", "unit"), [("utf-8", "utf-8", 1), ("utf-16", "utf-16-le", 2), ("utf-32", "utf-32-le", 4)]
)
def test_positions_are_those_of_the_protocol(encoding, codec, unit, seed):
    random = Random(seed)
    for _ in range(200):
        text = "".join(random.choices(["a", "é", "€", "😀", "\n", "\r\n", "\r", "\u2028", "\f"], k=random.randrange(12)))
        lines = Lines(text, encoding)
        for offset in range(len(text) + 1):
            before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
            line, _, last = before.rpartition("\n")
            if text[offset - 1 : offset + 1] != "\r\n":
                assert lines.position(offset) == (before.count("\n"), len(last.encode(codec)) // unit)
                assert lines.offset(*lines.position(offset)) == offset


def test_positions_outside_of_the_text_are_its_ends():
    lines = Lines("ab\r\nc", "utf-16")
    assert [lines.offset(*at) for at in ((0, 9), (1, 9), (7, 0))] == [2, 5, 5]


# -- the SQL of documents -----------------------------------------------------------------------------------------------

NOTEBOOK = """# Databricks notebook source
# MAGIC %md MATCH_RECOGNIZE (

# COMMAND ----------

# DBTITLE 1,It's a title
# MAGIC %sql
# MAGIC SELECT * FROM t MATCH_RECOGNIZE (
# MAGIC   order by a
# MAGIC
# MAGIC   measures a as b pattern (A)
# MAGIC )

# COMMAND ----------

spark.sql("it's Python")
"""


NOTEBOOK_SQL = """SELECT * FROM t MATCH_RECOGNIZE (
          order by a
       
          measures a as b pattern (A)
        )"""
SQL_NOTEBOOK, CELL = "-- Databricks notebook source\n", "\n-- COMMAND ----------\n"


@pytest.mark.parametrize(
    ("text", "language", "sql"),
    [
        ("SELECT 1", "sql", ["SELECT 1"]),
        ("SELECT 1", "python", []),
        ("%%sql\nSELECT 1", "python", ["SELECT 1"]),
        ("%%sparkcep df << --limit 5\nSELECT 1", "python", ["SELECT 1"]),
        ("%%sql --limit 5 SELECT\n1", "python", ["SELECT\n1"]),
        ("%%sql\nSELECT 1", "sql", ["SELECT 1"]),
        ("%%sql --read trino\nSELECT 1", "python", []),
        ("%%sql --lim\nSELECT 1", "python", ["SELECT 1"]),
        ("%%bash\nSELECT 1", "python", []),
        ("a = 1\nx = %sql --limit 5 SELECT 1\n%sql SELECT 2\nb", "python", ["SELECT 1", "SELECT 2"]),
        (f"{SQL_NOTEBOOK}SELECT 1{CELL}SELECT 2{CELL}-- MAGIC %python\n-- MAGIC it's", "sql", ["SELECT 1", "SELECT 2"]),
        (NOTEBOOK, "python", [NOTEBOOK_SQL]),
    ],
)  # fmt: skip
def test_sections(text, language, sql):
    found = sections(text, language)
    assert [section.text.strip() for section in found] == sql
    for section in found:
        written = text[section.start : section.end]
        assert [a for a, b in zip(section.text, written) if a != b and a != " "] == []
        assert [i for i, char in enumerate(written) if char == "\n"] == [i for i, char in enumerate(section.text) if char == "\n"]


def test_languages():
    assert [
        language_of(*given)
        for given in (("sql", "x"), ("jinja-sql", "x"), (None, "file:///a.SQL"), ("python", "x"), ("", "x.py"), ("rust", "x"))
    ] == ["sql"] * 3 + ["python"] * 2 + [None]


def test_a_databricks_notebook_is_formatted_and_diagnosed():
    text = NOTEBOOK.replace("(A)", "(A B)").replace("measures", "PARTITON")
    ((place, finding),) = [(place, found) for place, found in document(text, "python").findings if found.severity == ERROR]
    assert place.of(text) == finding.fragment == "PARTITON"
    ((place, formatted),) = document(NOTEBOOK, "python").formatted()
    lines = (NOTEBOOK[: place.start] + formatted + NOTEBOOK[place.end :]).split("\n")
    assert lines[7:12] == [
        "# MAGIC SELECT * FROM t MATCH_RECOGNIZE (",
        "# MAGIC   ORDER BY a",
        "# MAGIC   MEASURES a AS b",
        "# MAGIC   PATTERN (A)",
        "# MAGIC )",
    ]


# -- names ----------------------------------------------------------------------------------------------------------------


def places(text: str, at: int) -> list[int]:
    statement, name, _ = document(text).name_at(at)
    return [statement.start + span.start for span in name.places]


def test_names_and_their_places():
    (statement,) = document(SQL).statements
    found = {(name.kind, name.text): len(name.places) for name in statement.names(statement.clauses()[0])}
    assert found == {
        ("variable", "DOWN"): 6,
        ("variable", "UP"): 5,
        ("subset", "FALL"): 2,
        ("variable", "STRT"): 2,
        ("measure", "low"): 4,
        ("measure", "c"): 1,
        ("measure", "n"): 2,
    }
    assert document(SQL).name_at(SQL.index("symbol")) is None  # a column
    lows = [i for i in range(len(SQL)) if SQL.startswith("low", i)]
    # neither the column of the input nor the alias and the column of the other table
    assert places(SQL, lows[0]) == [lows[i] for i in (0, 1, 6, 7)]


def test_names_of_an_automaton():
    text = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY d MEASURES n AS n AUTOMATON (REGISTER n INT = 0 STATE a START, z FINAL
      ARC up FROM a TO z WHEN n < x SET n = n + 1 ARC FROM z TO a))"""
    (statement,) = document(text).statements
    found = {(name.kind, name.text): len(name.places) for name in statement.names(statement.clauses()[0])}
    assert found == {("register", "n"): 5, ("state", "a"): 3, ("state", "z"): 3, ("variable", "up"): 1, ("measure", "n"): 1}
    assert "of type INT" in hover(document(text), text.index("n INT"))[0]


def test_two_clauses_keep_their_names_apart():
    text = f"{SQL};\n{SQL}"
    second = text.index("DOWN+", len(SQL))
    assert places(text, second) == [at + len(SQL) + 2 for at in places(SQL, SQL.index("DOWN+"))]


def test_a_rename_is_another_spelling_of_the_same_statement():
    statement, name, _ = document(SQL).name_at(SQL.index("DOWN"))
    assert (
        renamed(statement, name, "lower") == "lower"
        and renamed(statement, name, "a b") == "`a b`"
        and renamed(statement, name, "`x`") == "x"
    )
    for wrong in ("up", "fall", "", "  "):
        with pytest.raises(RenameError):
            renamed(statement, name, wrong)


@pytest.mark.parametrize("path", one_in(8, STATEMENT_FILES, wider=3), ids=lambda path: path.stem)
def test_every_name_of_the_examples_can_be_renamed(path):
    """A fresh name gives a statement that reads as before, with that name."""
    text = path.read_text("utf-8")
    seen = 0
    for statement in document(text).statements:
        for place in statement.clauses():
            for name in statement.names(place):
                written = renamed(statement, name, "zz_fresh")
                out = statement.text
                for span in reversed(name.places):
                    assert span.of(out).strip("`").lower() == name.text.lower()
                    out = out[: span.start] + written + out[span.end :]
                rewrite(out)
                seen += 1
    assert seen or "MATCH_RECOGNIZE (" not in text


# -- descriptions -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "about"),
    [
        ("DOWN+", "price < PREV(price)"),
        ("STRT DOWN+", "Any row matches it."),
        ("UP AS UP", "```sql\nPATTERN (STRT DOWN+ `UP`)\n```"),
        ("FALL =", "subset of STRT, DOWN"),
        ("low,", "LAST(DOWN.price)"),
        ("PREV(", "before or after in the partition"),
        ("MATCH SKIP", "says where the search continues"),
        ("PARTITION", "Rows are matched within a partition"),
        ("APPROX", "error"),
    ],
)
def test_hover(word, about):
    text, place = hover(document(SQL), SQL.index(word))
    assert about in text and place.start <= SQL.index(word) <= place.end


def test_hover_outside_of_clauses_and_over_columns_is_empty():
    assert [hover(document(SQL), SQL.index(word)) for word in ("FROM", "symbol", "WHERE", "MATCH_RECOGNIZE")] == [None] * 4


def test_every_option_of_the_reference_has_a_paragraph():
    about = reference()
    assert len(about["functions"]) > 30 and len(about["options"]) > 30
    assert [words for words, entry in about["options"].items() if len(entry["about"]) < 30] == []


# -- columns ----------------------------------------------------------------------------------------------------------------

DBT = {
    "nodes": {
        "model.shop.ticks": {
            "metadata": {"name": "ticks"},
            "columns": {"day": {"name": "day", "index": 2}, "symbol": {"name": "symbol", "index": 1}},
        }
    },
    "sources": {"source.shop.raw.orders": {"metadata": {"name": "orders"}, "columns": {"id": {"name": "id", "index": 1}}}},
}


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("ticks", ["symbol", "day"]),
        ("`Ticks`", ["symbol", "day"]),
        ("spark_catalog.shop.ticks AS t", []),
        ("shop.ticks", ["symbol", "day"]),
        ("{{ ref('ticks') }}", ["symbol", "day"]),
        ("{{ ref('shop', 'ticks') }}", ["symbol", "day"]),
        ("{{ source('raw', 'orders') }}", ["id"]),
        ("(SELECT * FROM ticks WHERE day > 1)", ["symbol", "day"]),
        (
            "(SELECT * FROM (SELECT * FROM shop.ticks) MATCH_RECOGNIZE (ORDER BY day MEASURES 1 AS one PATTERN (A)) JOIN orders)",
            ["one"],
        ),
        ("(SELECT day FROM ticks)", []),
        ("(SELECT * FROM", []),
        ("ticks MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY day MEASURES 1 AS one PATTERN (A))", ["symbol", "one"]),
        ("ticks MATCH_RECOGNIZE (ORDER BY day MEASURES 1 AS one ALL ROWS PER MATCH PATTERN (A))", ["day", "one", "symbol"]),
        ("sales.items", ["sku"]),
        ("elsewhere", []),
    ],
)
def test_columns(tmp_path, table, columns):
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "catalog.json").write_text(json.dumps(DBT))
    (tmp_path / "sparkcep.columns.json").write_text(json.dumps({"sales.items": {"sku": "STRING"}}))
    catalog = Catalogs().of(tmp_path / "models" / "deep" / "a.sql")
    masked = jinja_mask(f"SELECT * FROM {table}")
    assert catalog.columns(masked.text.removeprefix("SELECT * FROM "), masked) == columns


def test_a_catalog_is_read_again_after_a_change(tmp_path):
    file, catalogs = tmp_path / "sparkcep.columns.json", Catalogs()
    assert catalogs.of(tmp_path / "a.sql").names == []
    file.write_text('{"a": ["x"]}')
    assert catalogs.of(tmp_path / "a.sql").tables == {"a": ["x"]}
    file.write_text('{"a": ["y"]}')
    os.utime(file, (1, 1))
    assert catalogs.of(tmp_path / "a.sql").tables == {"a": ["y"]}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("sparkcep.columns.json", "{", "columns.json"),
        ("sparkcep.columns.json", '{"a": 1}', "must be a list of names"),
        ("sparkcep.columns.json", "[]", "JSON object"),
        ("target/catalog.json", '{"nodes": {"m": {}}}', "dbt docs generate"),
    ],
)
def test_a_wrong_catalog_is_an_error_that_names_the_file(tmp_path, name, content, said):
    (tmp_path / "target").mkdir()
    (tmp_path / name).write_text(content)
    with pytest.raises(CatalogError, match=said):
        Catalogs().of(tmp_path / "a.sql")


# -- fixes ------------------------------------------------------------------------------------------------------------------


def fixed(text: str) -> list[str]:
    """The statement after the first fix of each finding that has one."""
    found = document(text)
    return [
        text[: fix.place.start] + fix.text + text[fix.place.end :]
        for place, finding in found.findings
        for fix in fixes(found, place, finding)[:1]
    ]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("PATERN (A B) DEFINE B AS x > 1", "PATTERN (A B) DEFINE B AS x > 1"),
        ("PATTERN (A B) DEFINE B AS x > 1,", "PATTERN (A B) DEFINE B AS x > 1"),
        ("PATTERN (A{1-3})", "PATTERN (A{1,3})"),
        ("MEASURES count(UPP.*) AS n PATTERN (A UP)", "MEASURES count(UP.*) AS n PATTERN (A UP)"),
        ("PATTERN (A B) DEFINE A AS x > 2, B AS x > previous(x)", "PATTERN (A B) DEFINE A AS x > 2, B AS x > PREV(x)"),
        ("PATTERN (A UP) DEFINE A AS x > 2, UP AS LAST(UPP.x) > 2", "PATTERN (A UP) DEFINE A AS x > 2, UP AS LAST(UP.x) > 2"),
    ],
)
def test_fixes(wrong, right):
    head = "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY d "
    out = [text for text in fixed(f"{head}{wrong})") if "sparkcep: ignore" not in text]
    assert out == [f"{head}{right})"]


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("PATTERN (A) DEFINE A AS x > 1, C AS x > 2", "Remove it from DEFINE"),
        ("PATTERN (A . B)", "Write a variable"),
        ("PATTERN (A OR B)", "Write A | B"),
        ("MEASURES explode(x) AS y PATTERN (A)", "Use it in a subquery"),
        ("MEASURES A.x AS y ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A {- B -})", "Use SHOW EMPTY MATCHES"),
    ],
)
def test_a_message_without_a_text_for_its_place_has_no_fix(clause, message):
    text = f"SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY d {clause})"
    (finding,) = [finding for _, finding in document(text).findings if finding.severity == ERROR]
    assert message in finding.message and fixed(text) == []


@pytest.mark.parametrize("language", ["sql", "python"])
def test_a_rule_is_ignored_in_its_line(language):
    text = SQL.replace("APPROX 1 WEIGHTS (DOWN 2, UP 1)", "") if language == "sql" else NOTEBOOK
    found = document(text, language)
    place, finding = next((place, one) for place, one in found.findings if one.code == "ANY_ROW")
    (fix,) = fixes(found, place, finding)
    after = text[: fix.place.start] + fix.text + text[fix.place.end :]
    assert fix.title == f"Ignore {finding.code} here" and fix.text.endswith(f"-- sparkcep: ignore {finding.code}\n")
    assert [one.code for _, one in document(after, language).findings] == [
        one.code for _, one in found.findings if one is not finding
    ]


def test_fixes_of_the_corpus_of_wrong_statements():
    """Each fix gives a statement without the error. Enough of them have one."""
    seen = corrected = 0
    for case in (case for path in FILES for case in read_case_file(path).cases):
        text = case.statements[-1]
        for before in [one for one in lint(text) if one.severity == ERROR]:
            seen += 1
            for after in fixed(text)[:1]:
                corrected += 1
                assert (before.code, before.message, before.line) not in [(one.code, one.message, one.line) for one in lint(after)]
    assert seen > 100 and corrected > 30


# -- statements ------------------------------------------------------------------------------------------------------------


def test_a_document_with_jinja_has_names_and_columns():
    text = "{{ config(a='b') }}\n" + SQL.replace("ticks", "{{ ref('ticks') }}")
    assert [text[at : at + 4] for at in places(text, text.index("DOWN"))] == ["DOWN", "down", "DOWN", "DOWN", "DOWN", "DOWN"]


def test_jinja_in_a_clause_is_not_a_name():
    text = "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY d MEASURES x AS {{ m }} PATTERN (A b_{{ v }}))"
    (statement,) = document(text).statements
    assert [name.text for name in statement.names(statement.clauses()[0])] == ["A"]
    assert document(text).name_at(text.index("v }}")) is None


def test_settings_of_the_command_line():
    server = make_server("https://docs.example/", double_quoted=True)
    assert server.double_quoted and page(server.docs, "tools.md#sparkcep-lint") == "https://docs.example/tools.html#sparkcep-lint"
    assert make_server().docs.startswith("file:") and page(make_server().docs, "tools.md").endswith("docs/tools.md")
    text = 'SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY d PATTERN (A "B c") DEFINE "B c" AS x > 1)'
    (statement,) = Document("file:///a.sql", text, "sql", double_quoted=True).statements
    assert [name.text for name in statement.names(statement.clauses()[0])] == ["B c", "A"]


def test_text_that_cannot_be_read_has_a_finding_and_no_names():
    found = document("SELECT 'a")
    assert found.statements == [] and found.name_at(8) is None
    assert [(place, one.code) for place, one in found.findings] == [(Span(7, 9), "SPARKCEP.UNTERMINATED_LITERAL")]


# -- the page of settings ------------------------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "editors.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


def test_the_settings_of_the_page_can_be_read():
    columns, code, jupyter = map(json.loads, blocks("json"))
    assert set(columns) == {"ticks", "sales.orders"}
    known = json.loads((ROOT / "grammar" / "vscode" / "package.json").read_text("utf-8"))["contributes"]["configuration"][
        "properties"
    ]
    assert set(code) <= set(known) and known["sparkcep.command"]["default"] == ["sparkcep", "lsp"]
    assert jupyter["LanguageServerManager"]["language_servers"]["sparkcep"]["argv"] == ["sparkcep", "lsp"]
    (helix,) = map(tomllib.loads, blocks("toml"))
    assert helix["language-server"]["sparkcep"] == {"command": "sparkcep", "args": ["lsp"]}


def test_neovim_is_tried_with_the_settings_of_the_page():
    (lua,) = blocks("lua")
    assert lua in (ROOT / "tests" / "cli" / "neovim.lua").read_text("utf-8")


def test_the_extension_reads_the_settings_that_it_declares():
    source = (ROOT / "grammar" / "vscode" / "extension.js").read_text("utf-8")
    package = json.loads((ROOT / "grammar" / "vscode" / "package.json").read_text("utf-8"))
    read = {f"sparkcep.{name}" for name in re.findall(r'settings\.get\("(\w+)"\)', source)}
    assert read == set(package["contributes"]["configuration"]["properties"])
    assert all(f'"{language}"' in source for language in ("sql", "jinja-sql", "python"))


def test_completion_in_a_dbt_model_has_the_columns_of_ref(tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "catalog.json").write_text(json.dumps(DBT))
    text = "{{ config(materialized='table') }}\nSELECT * FROM {{ ref('ticks') }} MATCH_RECOGNIZE (PARTITION BY sy"
    model, catalog = document(text), Catalogs().of(tmp_path / "models" / "a.sql")
    (statement,) = model.statements
    masked = model.masked(model.sections[0])
    found = complete(statement.text, len(text) - statement.start, lambda table: catalog.columns(table, masked))
    assert [(proposal.text, proposal.kind) for proposal in found] == [("symbol", "column")]
