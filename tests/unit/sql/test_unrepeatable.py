"""Statements that may run a clause more than once refuse BUDGET INTERVAL, unless its clock counts."""

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
