"""Jinja in SQL: the mask keeps every position, and lint and fmt say of a model what holds for its rendered text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sparkcep.clause import tokenizer
from sparkcep.tools.fmt import format_sql
from sparkcep.tools.jinja_mask import jinja_mask
from sparkcep.tools.lint import ERROR, INFO, WARNING, lint

MODELS = sorted((Path(__file__).resolve().parents[3] / "sql_examples" / "dbt").rglob("*.sql"))
HEAD = "SELECT * FROM {{ ref('t') }} MATCH_RECOGNIZE (\n  PARTITION BY k\n  ORDER BY d\n  "
PATTERN = "PATTERN (A B+)\n  DEFINE A AS x > 1, B AS x > 2\n)"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("FROM {{ ref('t') }} x", "FROM jjjjjjjjjjjjjj x"),
        ("{{ a }}.b, {{ c }}, {{ a }}", "jjjjjjj.b, jjjjjj1, jjjjjjj"),
        ("{{ config(\n  a='}}',\r\n) }}\nSELECT 1", "jjjjjjjjjj\n         \r\n    \nSELECT 1"),
        ("{% if x == '%}' %}a{% else %}b{% endif %}", "                  a          b           "),
        ("{# don't\nask #}a", "        \n      a"),
        ("{% raw %}{{ a }}{% endraw %}{{ b }}", "         {{ a }}            jjjjjjj"),
        ("PATTERN (A{2,} {- B -})", "PATTERN (A{2,} {- B -})"),
        ("'{{ x", "'{{ x"),
        ("${db}.t_${hivevar:day} $ {2}", "jjjjj.t_jjjjjjjjjjjjj1 $ {2}"),
    ],
)
def test_mask(text, masked):
    assert jinja_mask(text).text == masked


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_models_keep_their_places(path):
    text = path.read_text("utf-8")
    masked = jinja_mask(text)
    assert len(masked.text) == len(text) and re.sub(r"[^\r\n]", "", masked.text) == re.sub(r"[^\r\n]", "", text)
    assert masked.spans
    assert masked.restored(masked.text.splitlines()[0]).split("\n")[0] == text.splitlines()[0] or masked.blocks


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_models_have_no_errors(path):
    assert [f for f in lint(path.read_text("utf-8")) if f.severity != INFO] == []


def found(text: str) -> list[tuple[str, str, int, int]]:
    return [(f.code, f.severity, f.line, f.column) for f in lint(text) if f.code != "ANY_ROW"]


def test_an_error_beside_jinja_is_an_error_at_its_place():
    assert found(f"{HEAD}PATTERN (A)\n  DEFINE C AS x > 1\n)") == [("SPARKCEP.UNKNOWN_VARIABLE", ERROR, 5, 10)]
    assert found(f"{HEAD}MEASURES 'x AS y\n  PATTERN (A)\n)") == [("SPARKCEP.UNTERMINATED_LITERAL", ERROR, 4, 12)]
    assert found(f"{HEAD}PATTERN (A B+?)\n  DEFINE B AS x > {{{{ var('n') }}}}\n)") == [("RELUCTANT_END", WARNING, 4, 14)]


def test_variables_of_spark_are_values_that_are_not_known_yet():
    clause = "SELECT * FROM ${db}.t MATCH_RECOGNIZE (order by d MEASURES 1 AS n PATTERN (A B+) DEFINE A AS x > ${low}, B AS s = '${day}')"
    assert lint(clause) == [] and format_sql(clause) == clause
    assert [f.severity for f in lint(clause.replace("B+", "B{${n}}"))] == [INFO]
    (found,) = lint(clause.replace("PATTERN", "PATERN"))
    assert found.severity == ERROR


def test_errors_outside_a_clause_are_left_out():
    macro = "{% macro m() %}that isn't SQL{% endmacro %}"
    assert found(macro) == [] and found("{{ a }} WHERE MATCH_RECOGNIZE (PATTERN (A))") == []
    assert found(macro.replace("{", "").replace("}", "")) != []


@pytest.mark.parametrize(
    "clause",
    [
        "PATTERN (A) {% if x %}PATTERN (B){% endif %}\n)",
        "PATTERN (A{ {{ n }} })\n)",
        "{{ measures() }}\n  PATTERN (A)\n)",
    ],
)
def test_an_error_that_rendering_may_remove_is_an_info(clause):
    (finding,) = [f for f in lint(HEAD + clause) if f.code != "ANY_ROW"]
    assert finding.code.startswith("SPARKCEP.") and finding.severity == INFO
    assert "jj" not in finding.message and "jj" not in finding.fragment


def test_no_message_shows_a_mask():
    long = "{{ measures(" + "'a', " * 20 + ") }}"
    shown = [f.message + f.fragment for f in lint(f"{HEAD}{long}\n  PATTERN ({{{{ v }}}} A)\n)")]
    assert shown and not any("jj" in text for text in shown)
    assert found(f"{HEAD}PATTERN ({{{{ v }}}} A)\n)") == []  # ANY_ROW of A alone
    assert [f.fragment for f in lint(f"{HEAD}PATTERN ({{{{ v }}}} A)\n)")] == ["A"]


def test_a_rule_can_be_ignored_beside_jinja():
    unordered = f"{HEAD.replace('  ORDER BY d', '')}{PATTERN}"
    assert found(f"{{{{ config(a=1) }}}}\n{unordered}") == [("NO_ORDER", WARNING, 2, 30)]
    assert found(f"{{{{ config(a=1) }}}}\n-- sparkcep: ignore NO_ORDER\n{unordered}") == []


def test_clauses_without_jinja_are_formatted():
    plain = "FROM {{ ref('t') }} MATCH_RECOGNIZE (order by d pattern (A  B+) define B as x > 1) {% if x %}WHERE it isn't{% endif %}"
    assert format_sql(plain) == plain  # an apostrophe is open
    plain = plain.replace("isn't", "is")
    assert "ORDER BY d PATTERN (A B+) DEFINE B AS x > 1)" in format_sql(plain)
    with_jinja = plain.replace("x > 1", "x > {{ var('n') }}")
    assert format_sql(with_jinja) == with_jinja
    both = f"{with_jinja};\n{plain}"
    assert format_sql(both) == f"{with_jinja};\n{format_sql(plain)}"


def test_variables_in_strings_and_comments_are_no_names():
    misspelled = "SELECT * FROM t MATCH_RECOGNISE (ORDER BY d PATTERN (A) DEFINE A AS d > 1)"
    assert [f.severity for f in lint(f"SELECT '${{env}}' AS x; -- ${{y}}\n{misspelled}")] == [f.severity for f in lint(misspelled)] == ["error"]
    text = "SELECT * FROM t MATCH_RECOGNIZE (order by d PATTERN (A) DEFINE A AS d > '${start}' AND e = {})"
    assert format_sql(text.replace("{}", "1")) == text.replace("{}", "1").replace("order by", "ORDER BY")
    assert format_sql(text.replace("{}", "${e}")) == text.replace("{}", "${e}")


def test_names_in_double_quotes_beside_jinja():
    text = '{{ config(a="b") }} SELECT * FROM {{ ref("t") }} MATCH_RECOGNIZE (order by "a`b"  pattern (A) define A as "x" > 1)'
    assert format_sql(text, double_quoted=True) == text.replace('order by "a`b"  pattern', 'ORDER BY "a`b" PATTERN').replace(
        "define A as", "DEFINE A AS"
    )


@pytest.mark.parametrize("tool", [lint, format_sql])
def test_a_file_is_read_in_time_that_is_linear_in_its_statements(monkeypatch, tool):
    read = []
    cut = tokenizer.cut
    monkeypatch.setattr(tokenizer, "cut", lambda text, *of: read.append(len(text)) or cut(text, *of))
    costs = []
    for count in (10, 20):
        read.clear()
        tool("".join(f"SELECT a{count} FROM t MATCH_RECOGNIZE (PARTITION BY k order by d PATTERN (A{i}));\n" for i in range(count)))
        costs.append(sum(read))
    assert 1.5 < costs[1] / costs[0] < 2.5
