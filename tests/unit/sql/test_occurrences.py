"""Where the table of a clause begins."""

from __future__ import annotations

import pytest

from sparkcep.errors import ClauseError, position
from sparkcep.sql.rewrite.occurrences import Statement
from sparkcep.sql.rewrite.rewrite import rewrite, rewrite_all


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
        ("BEGIN FOR r AS SELECT * FROM t DO MERGE INTO u USING v @ AS m ON u.k = m.k WHEN MATCHED THEN DELETE; END FOR; END", "v"),
        ("MERGE INTO u USING v @ AS m ON u.k = m.k WHEN MATCHED THEN DELETE", "v"),
        ("SELECT * FROM u JOIN v ON u.k IS NOT DISTINCT FROM v.k @", "u JOIN v ON u.k IS NOT DISTINCT FROM v.k"),
        ("SELECT * FROM u JOIN v ON u.k IS DISTINCT FROM set AND f(x) JOIN w USING (k) @", "u JOIN v ON u.k IS DISTINCT FROM set AND f(x) JOIN w USING (k)"),
        ("SELECT x IS DISTINCT FROM y FROM VALUES 1 IS DISTINCT FROM 2, true v(x) @", "VALUES 1 IS DISTINCT FROM 2, true v(x)"),
        ("CREATE TABLE t USING parquet AS SELECT * FROM u JOIN v USING (k) @", "u JOIN v USING (k)"),
    ],
)
def test_joins(statement, expected):
    assert table(statement) == expected


@pytest.mark.parametrize(
    "tables",
    [
        "window", "window w", "set", "set AS s", "limit AS l", "limit.t l", "where", "group g", "order", "by b", "having", "qualify", "union", "except e", "intersect",
        "db.set", "set.window w", "window VERSION AS OF 1", "set TABLESAMPLE (5 ROWS)", "a JOIN limit l ON p", "t AS window", "t window", "t order", "t(x) set",
        "VALUES (1), (2) window", "group g JOIN order o ON o.x = g.y", "a LEFT JOIN set s USING (k)", "a JOIN where ON a.x = b.y",
        "a AS limit JOIN b AS where ON p", "a window JOIN b ON p", "a JOIN b ON a.x = b.y AND set = 1", "a JOIN b ON set", "a JOIN b ON a.x = :limit",
        "a JOIN b ON limit > 1 AND NOT order", "a JOIN b ON a.x BETWEEN limit AND set", "a JOIN b ON a.select = 1 AND select = where",
        "a JOIN b ON by = group AND window = 1", "a LATERAL VIEW explode(x) set AS limit, order",
    ],
)  # fmt: skip
def test_keywords_as_names(tables):
    assert table(f"SELECT set, `x` AS limit, a AS where, order FROM {tables} @ AS m WHERE set = 1 ORDER BY x LIMIT 5") == tables
    assert table(f"WITH window AS (SELECT 1), limit (x) AS (SELECT * FROM u) SELECT window, a AS order FROM (({tables} @ AS m))") == tables


@pytest.mark.parametrize("tables", ["a, limit", "set, window w, limit", "a AS set, limit", "set s JOIN b ON limit > 1, limit", "VALUES (1), (2) set, limit", "t window, limit"])
def test_keywords_as_names_in_lists(tables):
    assert table(f"SELECT set, order FROM {tables} @ AS m") == "limit"


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("SELECT * FROM t WHERE set = 1 @", "WHERE"),
        ("SELECT * FROM window w WHERE x @", "WHERE"),
        ("SELECT * FROM a JOIN b ON set = limit WHERE order = 1 @", "WHERE"),
        ("SELECT * FROM a JOIN b ON a.x = ? GROUP BY x @", "GROUP BY"),
        ("SELECT * FROM t ORDER BY order @", "ORDER BY"),
        ("SELECT * FROM t SORT BY x @", "SORT BY"),
        ("SELECT * FROM t GROUP BY x, y @", "GROUP BY"),
        ("SELECT x, y @ FROM t", "SELECT"),
        ("SELECT * FROM t LIMIT 3 @", "LIMIT"),
        ("SELECT * FROM t WINDOW w AS (ORDER BY x) @", "WINDOW"),
        ("SELECT a FROM t UNION ALL SELECT b @", "SELECT"),
        ("SELECT a FROM t UNION ALL VALUES (1), (2) @", "UNION"),
        ("FROM t |> SET set = 1 @", "SET"),
        ("FROM set |> WHERE x @", "WHERE"),
        # before these words the table is missing
        ("SELECT * FROM WHERE price > 1 @", "WHERE"),
        ("SELECT * FROM WHERE price @", "WHERE"),
        ("SELECT * FROM WHERE (price > 1) @", "WHERE"),
        ("SELECT * FROM WHERE t.price IS NULL @", "WHERE"),
        ("SELECT * FROM GROUP BY x @", "GROUP BY"),
        ("SELECT * FROM HAVING count(*) > 1 @", "HAVING"),
        ("SELECT * FROM LIMIT 3 @", "LIMIT"),
    ],
)
def test_keywords_after_the_table(statement, word):
    with pytest.raises(ClauseError, match=f"must follow the table it reads, not {word}\\. Move it into FROM"):
        table(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "FROM t |> @", "FROM t |> WHERE x |> @", "FROM t |> AS q |> @", "FROM t |> EXTEND x + 1 AS y @", "FROM t, u |> @", "FROM t |> JOIN u ON t.x = u.x @", "FROM t |> JOIN u USING (x) |> @",
        "FROM t |> DROP x |> @", "SELECT * FROM (FROM t |> AGGREGATE count(*) AS n GROUP BY x |> @)",
    ],
)  # fmt: skip
def test_pipes(statement):
    with pytest.raises(ClauseError, match="is not a pipe operator\\. Write FROM \\(FROM t"):
        table(statement)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("FROM t @ |> WHERE x", "t"), ("FROM (FROM t |> WHERE x) @ |> WHERE n", "(FROM t |> WHERE x)"), ("FROM t |> JOIN u @ m ON m.x = t.x", "u"), ("FROM t |> WHERE x IN (SELECT n FROM u @)", "u"),
    ],
)  # fmt: skip
def test_tables_around_pipes(statement, expected):
    assert table(statement) == expected


@pytest.mark.parametrize("statement", ["SELECT * FROM t WHERE @ > 1", "SELECT * FROM t LIMIT @", "SELECT @ FROM t", "SELECT 1 AS n, @"])
def test_calls_are_not_clauses(statement):
    assert table(statement) is None


@pytest.mark.parametrize("rest", ["VALUES", "VALUES (1),", "VALUES (1", "VALUES 1 +, (2)", "VALUES (1), VALUES (2)"])
def test_unfinished_inline_tables(rest):
    assert list(Statement(f"SELECT * FROM {rest}").clauses()) == []
    assert list(Statement(f"SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A)), {rest}").clauses())


@pytest.mark.parametrize("head", ["CREATE VIEW v (function, n) AS", "CREATE VIEW function AS", "CREATE OR REPLACE TEMPORARY VIEW function AS"])
def test_function_may_be_a_name(head):
    assert "match_recognize(TABLE(" in rewrite(f"{head} SELECT * FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES 1 AS n PATTERN (A+))")


@pytest.mark.parametrize("head", ["CREATE FUNCTION f () RETURNS TABLE", "CREATE OR REPLACE TEMPORARY FUNCTION function () RETURNS TABLE"])
def test_a_clause_in_a_function(head):
    with pytest.raises(ClauseError, match="SQL_FUNCTION"):
        rewrite(f"{head} RETURN SELECT * FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES 1 AS n PATTERN (A+))")


@pytest.mark.parametrize(
    ("statement", "fragment"),
    [
        ("SELECT *\nFROM {}", "levenshtein(A.k, k) < 2"),
        ("CREATE FUNCTION f () RETURNS TABLE RETURN SELECT *\nFROM {}", "match_recognize"),
    ],
)
def test_an_error_over_a_clause_in_a_string_is_at_its_place(statement, fragment):
    clause = "ORDER BY i MEASURES count(*) AS c EVENT SELECTION SKIP TILL ANY MATCH CHANGES IN k PATTERN (A B) DEFINE B AS levenshtein(A.k, k) < 2"
    statement = statement.format(f"match_recognize(TABLE(t),\n  '{clause}')")
    with pytest.raises(ClauseError) as caught:
        rewrite(statement)
    assert (caught.value.fragment, caught.value.line, caught.value.column) == (fragment, *position(statement, statement.index(fragment)))


def test_the_budget_of_a_clause_in_a_string_has_its_place():
    statement = "SELECT *\nFROM match_recognize(TABLE(t),\n  'ORDER BY i MEASURES count(*) AS c PATTERN (A B) APPROX 1 WINDOW 5 BUDGET 3 CHECKS')"
    budget = rewrite_all(statement)[1][0].plan.approximate.budget
    assert (budget.line, budget.column) == position(statement, statement.index("BUDGET"))
