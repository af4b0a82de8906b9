"""Our reader of Spark expressions against sqlglot's: the same columns, the same functions, whichever build is installed."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from sparkcep.clause.expressions import Cursor, Expr, ExpressionParser, render
from sparkcep.clause.tokens import END, Span, one_line, split_statements, tokenize
from sparkcep.errors import ClauseError

EXPRESSIONS = [
    "a + b * c - d / e % f",
    "a = 1 AND b <> 2 OR NOT c >= 3",
    "x BETWEEN lo AND hi AND y NOT IN (1, 2, z)",
    "CASE WHEN a > b THEN c WHEN d IS NULL THEN e ELSE f END",
    "CASE a WHEN b THEN c ELSE d END",
    "CAST(a AS DECIMAL(10, 2)) + TRY_CAST(b AS INT)",
    "coalesce(a, b, 0) <=> nullif(c, d)",
    "s LIKE 'x%' OR s NOT LIKE t AND u RLIKE '^a'",
    "arr[i + 1] + m['key']",
    "a.b.c + d.e",
    "count(DISTINCT a) FILTER (WHERE b > 0)",
    "sum(a) / count(*)",
    "date_add(d, 3) > DATE '2024-01-01'",
    "ts + INTERVAL '5' MINUTE < TIMESTAMP '2024-01-01 00:00:00'",
    "upper(trim(s)) || 'x' || lower(t)",
    "if(a IS NOT NULL, b, c) IS DISTINCT FROM d",
    "greatest(a, least(b, c)) - abs(-d)",
    "a & b | c ^ d",
    "transform(arr, x -> x + y)",
    "exists(arr, x -> x > lo) AND filter(arr, e -> e = hi) IS NOT NULL",
    "struct(a AS p, b AS q)",
    "extract(YEAR FROM ts) = 2024",
    "`odd name` + `a``b`",
    "((((a))))",
    "- - a + ~b",
    "a IS TRUE AND b IS NOT FALSE",
]


def parse(text: str) -> Expr:
    cursor = Cursor(text, tokenize(text))
    node = ExpressionParser(cursor).parse()
    assert cursor.token.kind == END, text
    return node


def our_columns(node: Expr, bound: frozenset[str] = frozenset()) -> set[str]:
    if node.op == "lambda":
        bound |= frozenset(node.value)
    if node.op == "col":
        return set() if node.value[0].lower() in bound else {".".join(node.value)}
    return {c for a in node.args for c in our_columns(a, bound)}


def their_columns(text: str) -> set[str]:
    tree = sqlglot.parse_one(text, dialect="spark")
    names = {".".join(p.name for p in c.parts) for c in tree.find_all(exp.Column) if not isinstance(c.this, exp.Star)}
    for dot in tree.find_all(exp.Dot):
        assert dot
    return names


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_columns_as_sqlglot_sees_them(text):
    assert our_columns(parse(text)) == their_columns(text)


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_spans_cut_the_text_exactly(text):
    node = parse(text)
    assert node.span == Span(0, len(text))
    for below in node.walk():
        assert text[below.span.start : below.span.end].strip() == text[below.span.start : below.span.end] != ""


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_rendering_replaces_columns_and_nothing_else(text):
    node = parse(text)
    spans = {n.span: "(Q)" for n in node.walk() if n.op == "col"}
    rendered = render(text, node, spans)
    assert render(text, node, {}) == text
    assert rendered.count("(Q)") == len(spans)
    parse(rendered)


def test_a_replacement_stays_apart_from_the_next_word():
    text = "CAST(count(*)AS INT)+LAST(s).f"
    node = parse(text)
    calls = {n.span: "x1" for n in node.walk() if n.op == "call"}
    assert render(text, node, calls) == "CAST(x1 AS INT)+x1.f"


@pytest.mark.parametrize(
    ("text", "structure"),
    [
        ("a OR b AND c", ("or", 2)),
        ("NOT a = b", ("un", 1)),
        ("a + b < c * d", ("bin", 2)),
        ("a AND b AND c", ("and", 3)),
        ("a BETWEEN b AND c AND d", ("and", 2)),
        ("(a AS x, b y, `c` `d`, e)", ("special", 4)),
        ("v:a[0].b['c']", ("special", 1)),
        ("v:['a b'][*]::int", ("cast", 1)),
        ("v:a[b]", ("index", 2)),
        ("struct(a.* EXCEPT (b, c), d)", ("call", 2)),
        ("CAST(a AS TIME(3) WITHOUT TIME ZONE)", ("cast", 1)),
        ("a::TIMESTAMP WITH LOCAL TIME ZONE", ("cast", 1)),
    ],
)
def test_precedence(text, structure):
    node = parse(text)
    assert (node.op, len(node.args)) == structure


@pytest.mark.parametrize("text", ["a +", "(a", "f(a,", "CASE WHEN a THEN b", "a BETWEEN b", "CAST(a AS)", "(a AS b)", "(a b)", "(a AS, b)", "(a, b AS)", "a IS", "INTERVAL 5"])
def test_broken_expressions_name_a_place(text):
    with pytest.raises(ClauseError) as caught:
        parse(text)
    assert caught.value.line == 1 and 1 <= caught.value.column <= len(text) + 1


def test_statements_are_split_outside_strings_comments_and_blocks():
    text = "SELECT ';' -- ;\n; /* ; */ SELECT 2;\nBEGIN SELECT 1; IF x THEN SELECT 2; END IF; END; SELECT `;`"
    assert [s.split()[0] for s in split_statements(text)] == ["SELECT", "/*", "BEGIN", "SELECT"]


def test_a_call_of_if_opens_no_block():
    text = "BEGIN SELECT if(x, 1, 2); IF x THEN SELECT IF(y, 1, 2); END IF; END; SELECT 2"
    assert [s.split()[0] for s in split_statements(text)] == ["BEGIN", "SELECT"]
    text = "BEGIN DECLARE y INT; SET y = CASE WHEN y = 1 THEN if(y > 0, 1, 2) ELSE if(y < 0, 1, 2) END; END; SELECT 2"
    assert [s.split()[0] for s in split_statements(text)] == ["BEGIN", "SELECT"]


@pytest.mark.parametrize("condition", ["(x = 1)", "(x = 1) AND (y IN (1, 2))", "x = 1"])
def test_the_statement_if_opens_a_block(condition):
    block = f"IF {condition} THEN SELECT 1; IF {condition} THEN SELECT 2; ELSEIF {condition} THEN SELECT 3; ELSE IF {condition} THEN SELECT 4; END IF; END IF; END IF"
    assert [s.split()[0] for s in split_statements(f"BEGIN {block}; {block}; END; SELECT 2")] == ["BEGIN", "SELECT"]


def test_one_line():
    """Strings and quoted names keep their blanks, and a line comment does not take the rest with it."""
    assert one_line(" status =  -- which\n 'a  b' /* c */ AND `total  price`>1.5D --end") == "status = 'a  b' AND `total  price`>1.5D"
    assert one_line("a--b\n+c") == "a +c" and one_line("") == ""


@pytest.mark.parametrize("script", [
    "BEGIN DROP TABLE IF EXISTS t; CREATE TABLE IF NOT EXISTS t (a INT); END",
    "BEGIN SELECT repeat('-', 3); END",
    "BEGIN SELECT end FROM t; SELECT 2; END",
    "BEGIN NOT ATOMIC DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN SELECT 1; END; SELECT 2; END",
    "BEGIN l: WHILE x < 3 DO SET x = CASE WHEN x > 1 THEN 3 END; LEAVE l; END WHILE l; END",
    "BEGIN REPEAT SET x = 1; UNTIL CASE WHEN x THEN 1 END = 1 END REPEAT; END",
    "BEGIN CASE WHEN CASE WHEN a THEN b END = 2 THEN SELECT 1; WHEN b THEN SELECT case FROM t; ELSE SELECT 3; END CASE; END",
    "BEGIN FOR r AS SELECT CASE x WHEN 1 THEN 2 END AS y FROM t DO SELECT r.y; END FOR; END",
    "l: BEGIN LOOP SELECT 1; LEAVE l; END LOOP; END l",
    "CREATE PROCEDURE p (x INT) LANGUAGE SQL AS BEGIN SELECT 1; END",
    "BEGIN IF :loop THEN SELECT 1; END IF; WHILE :begin DO SELECT 3; END WHILE; SELECT 2; END",
    "BEGIN IF :flag THEN SELECT 1; ELSEIF :other THEN SELECT 2; END IF; WHILE :x DO SELECT 3; END WHILE; SELECT 2; END",
    "BEGIN REPEAT SET x = 1; UNTIL :x END REPEAT; CASE :y WHEN :x THEN IF :z THEN SELECT 1; END IF; END CASE; END",
    "CREATE VIEW v AS SELECT begin FROM t",
    "CREATE VIEW v AS SELECT procedure, begin FROM t",
    "SELECT begin, (SELECT begin) FROM t",
    "BEGIN TRANSACTION", "BEGIN",
])  # fmt: skip
def test_words_open_blocks_only_where_a_statement_begins(script):
    assert split_statements(f"SELECT 1; {script}; SELECT 2;") == ["SELECT 1", script, "SELECT 2"]
