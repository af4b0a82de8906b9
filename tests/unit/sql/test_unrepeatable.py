"""Clauses and tables that may be read twice: BUDGET INTERVAL, and the clock of unfinished matches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkcep.errors import ClauseError
from sparkcep.settings import DEFAULT
from sparkcep.sql.rewrite.rewrite import rewrite

FOUND = "SELECT x FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY s MEASURES LAST(v) AS x PATTERN (A B) WINDOW 9 APPROX 1 BUDGET INTERVAL '5' MICROSECONDS PER ROW DEFINE A AS v = 1)"
COUNTED = replace(DEFAULT, budget_clock=("counted", 200, 400))


@pytest.mark.parametrize(
    "verb, sql",
    [
        ("DELETE", "DELETE FROM w WHERE x IN ({})"),
        ("UPDATE", "UPDATE w SET x = 1 WHERE x IN ({})"),
        ("MERGE", "MERGE INTO w USING ({}) AS m ON w.x = m.x WHEN MATCHED THEN DELETE"),
        ("MERGE", "WITH m (x) AS ({}) MERGE INTO w USING m ON w.x = m.x WHEN MATCHED THEN DELETE"),
        ("DELETE", "EXPLAIN EXTENDED WITH a AS (SELECT 1), m AS ({}) DELETE FROM w WHERE x IN (SELECT x FROM m)"),
        ("LATERAL", "SELECT * FROM w, LATERAL ({})"),
        ("LATERAL", "WITH m (x) AS ({}) SELECT * FROM w, LATERAL (SELECT * FROM m WHERE m.x = w.x)"),
        ("LATERAL", "WITH m AS ({}), n AS (SELECT * FROM `M`) SELECT * FROM w JOIN LATERAL (SELECT 1 FROM a JOIN n USING (x)) ON true"),
        ("LATERAL", "SELECT * FROM w JOIN LATERAL (SELECT x FROM ({}) AS m) ON true"),
    ],
)
def test_refused(verb, sql):
    with pytest.raises(ClauseError, match=f"BUDGET INTERVAL is not repeatable, and {verb} may run the clause more than once"):
        rewrite(sql.format(FOUND))
    assert "match_recognize" in rewrite(sql.format(FOUND), settings=COUNTED)


@pytest.mark.parametrize("sql", ["{}", "WITH m AS ({}) SELECT * FROM m", "INSERT INTO w {}", "EXPLAIN {}", "WITH m AS ({}), n AS (SELECT x AS update FROM m) SELECT update FROM n", "CREATE TABLE w AS {}", "WITH m AS ({}) SELECT * FROM m, LATERAL (SELECT m.x + 1 AS y)"])
def test_allowed(sql):
    assert "match_recognize" in rewrite(sql.format(FOUND))


CLOCK = "SELECT * FROM {} MATCH_RECOGNIZE (ORDER BY s MEASURES MATCH_STATUS() AS st ONE ROW PER MATCH SHOW UNFINISHED MATCHES{} PATTERN (A B) WINDOW 9)"
MEDIAN = "(SELECT * FROM t MATCH_RECOGNIZE (ORDER BY s MEASURES FIRST(s) AS s, median(v) AS m PATTERN (A+)))"


@pytest.mark.parametrize(
    "table, named",
    [
        ("(SELECT * FROM t WHERE Rand() < 0.5)", "Rand"), ("(SELECT s, `uuid` () AS u FROM t)", "uuid"), ("t TABLESAMPLE (5 PERCENT)", "TABLESAMPLE"),
        ("(SELECT s, v AS repeatable FROM t TABLESAMPLE (5 PERCENT))", "TABLESAMPLE"),
        ("(SELECT * FROM t TABLESAMPLE ((1 + 1) PERCENT) REPEATABLE (1) UNION ALL SELECT * FROM u TABLESAMPLE (5 PERCENT))", "TABLESAMPLE"),
        ("(SELECT * FROM t MATCH_RECOGNIZE (ORDER BY s MEASURES FIRST(s) AS s PATTERN (A) DEFINE A AS rand() < v))", "rand"),
    ],
)  # fmt: skip
def test_a_table_that_is_read_twice_for_its_clock(table, named):
    with pytest.raises(ClauseError, match=f"but {named} may give other rows then"):
        rewrite(CLOCK.format(table, ""))
    assert "match_recognize" in rewrite(CLOCK.format(table, " AS OF 5"))


@pytest.mark.parametrize("table", [MEDIAN, "t TABLESAMPLE (5 PERCENT) REPEATABLE (1)", "(SELECT s, 'uuid()' AS u FROM t /* rand() */)", "(SELECT s, rand FROM t)", "rand"])
def test_a_table_that_gives_its_rows_again(table):
    assert "(SELECT max(s) FROM" in rewrite(CLOCK.format(table, ""))
