"""Where the table of a clause begins."""

from __future__ import annotations

import pytest

from sparkcep.sql.rewrite.occurrences import Statement


def table(text: str) -> str | None:
    """The table before the clause @ of a statement, or None if @ is not a clause."""
    statement = Statement(text.replace("@", "MATCH_RECOGNIZE (ORDER BY id PATTERN (A+))"))
    word = next(i for i in range(len(statement.tokens)) if statement.has_word(i))
    first = statement.table_before(word)
    return None if first is None else statement.text[statement.tokens[first].start : statement.tokens[word - 1].end]


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ("VALUES (1), (2)", "VALUES (1), (2)"),
        ("VALUES 1, 2", "VALUES 1, 2"),
        ("u, VALUES (1), (2) v", "VALUES (1), (2) v"),
        ("VALUES (1), (2) v, range(3)", "range(3)"),
        ("VALUES (1), (2) v(x), range(3) r", "range(3) r"),
        ("VALUES (1), (2) AS v(x), range(3) r", "range(3) r"),
        ("VALUES 1, 2 v, range(3)", "range(3)"),
        ("VALUES 1, CASE WHEN true THEN 2 END, INTERVAL 1 DAY, DATE '2026-01-01' v(x), u, range(3)", "range(3)"),
        ("VALUES 1, CASE WHEN true THEN 2 END, 2 DIV 1, (3) + 1", "VALUES 1, CASE WHEN true THEN 2 END, 2 DIV 1, (3) + 1"),
        ("VALUES (1), (2) v(x) JOIN range(3) ON id = x", "VALUES (1), (2) v(x) JOIN range(3) ON id = x"),
        ("VALUES (1), (2) v(x) JOIN u ON id = x, range(3)", "range(3)"),
        ("values, range(3)", "range(3)"),
        ("t values, range(3)", "range(3)"),
        ("t values(x), range(3)", "range(3)"),
        ("(VALUES (1), (2)) v, range(3)", "range(3)"),
    ],
)
def test_commas_of_inline_tables(tables, expected):
    assert table(f"SELECT * FROM {tables} @ AS m") == expected


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ("u, LATERAL (SELECT 1) l", "(SELECT 1) l"),
        ("u CROSS JOIN LATERAL (SELECT 1) l", "(SELECT 1) l"),
        ("u JOIN LATERAL (SELECT 1 AS w) l ON w > v", "u JOIN LATERAL (SELECT 1 AS w) l ON w > v"),
        ("w, u JOIN LATERAL explode(a) l ON true", "u JOIN LATERAL explode(a) l ON true"),
        ("u CROSS JOIN LATERAL (SELECT 1) l JOIN v ON p", "u CROSS JOIN LATERAL (SELECT 1) l JOIN v ON p"),
        ("u, LATERAL (SELECT 1) l JOIN v ON p", "(SELECT 1) l JOIN v ON p"),
        ("u, LATERAL view", "view"),
        ("u LATERAL VIEW explode(a) v AS x", "u LATERAL VIEW explode(a) v AS x"),
        ("u LATERAL VIEW OUTER posexplode(a) v AS p, x", "u LATERAL VIEW OUTER posexplode(a) v AS p, x"),
        ("u, v LATERAL VIEW posexplode(a) w AS p, x LATERAL VIEW explode(b) y", "u, v LATERAL VIEW posexplode(a) w AS p, x LATERAL VIEW explode(b) y"),
        ("u JOIN v USING (k) LATERAL VIEW explode(a) v AS x", "u JOIN v USING (k) LATERAL VIEW explode(a) v AS x"),
        ("u, LATERAL (SELECT 1) l LATERAL VIEW explode(a) v AS x", "u, LATERAL (SELECT 1) l LATERAL VIEW explode(a) v AS x"),
        ("VALUES (1), (2) v(a), u LATERAL VIEW explode(b) w", "VALUES (1), (2) v(a), u LATERAL VIEW explode(b) w"),
    ],
)
def test_lateral(tables, expected):
    assert table(f"SELECT * FROM {tables} @ AS m") == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT * FROM u JOIN v USING (k) JOIN w USING (k) @", "u JOIN v USING (k) JOIN w USING (k)"),
        ("SELECT * FROM u JOIN v USING (k) JOIN w ON p @", "u JOIN v USING (k) JOIN w ON p"),
        ("SELECT 1 FROM u; MERGE INTO u USING v JOIN w USING (k) @ AS m ON u.k = m.k WHEN MATCHED THEN DELETE", "v JOIN w USING (k)"),
        ("MERGE INTO u USING v @ AS m ON u.k = m.k WHEN MATCHED THEN DELETE", "v"),
        ("CREATE TABLE t USING parquet AS SELECT * FROM u JOIN v USING (k) @", "u JOIN v USING (k)"),
    ],
)
def test_using(statement, expected):
    assert table(statement) == expected


@pytest.mark.parametrize("rest", ["VALUES", "VALUES (1),", "VALUES (1", "VALUES 1 +, (2)", "VALUES (1), VALUES (2)"])
def test_unfinished_inline_tables(rest):
    assert list(Statement(f"SELECT * FROM {rest}").clauses()) == []
    assert list(Statement(f"SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A)), {rest}").clauses())
