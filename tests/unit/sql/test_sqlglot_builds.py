"""Rewritten statements are SQL to an independent parser too, in the pure-Python and the compiled build of sqlglot."""

from __future__ import annotations

import re

import pytest
import sqlglot

import sparkcep

CLAUSE = """MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts DESC NULLS LAST
  MEASURES FIRST(price) AS a, LAST(B.price) - avg(A.price) AS b, count(A.*) AS c
  {rows} AFTER MATCH SKIP TO NEXT ROW
  PATTERN (A+ B*? C{{1,3}})
  DEFINE A AS price < PREV(price), B AS volume > 10 AND price > FIRST(A.price))"""


@pytest.mark.parametrize("rows", ["", "ALL ROWS PER MATCH", "ALL ROWS PER MATCH WITH UNMATCHED ROWS"])
@pytest.mark.parametrize("around", ["SELECT * FROM t {} AS m", "SELECT x FROM a JOIN t {} m ON a.i = m.symbol", "CREATE VIEW v AS SELECT * FROM t {}"])
def test_the_rewritten_statement_parses(rows, around):
    text = sparkcep.rewrite(around.format(CLAUSE.format(rows=rows)))
    assert "MATCH_RECOGNIZE (" not in text
    # sqlglot has no TABLE(query) arguments; a subquery stands in for the call
    plain = re.sub(r"match_recognize\(TABLE\((.*)\)\)\)", r"(\1) AS f)", text, flags=re.S)
    assert plain != text
    assert sqlglot.parse_one(plain, dialect="databricks") is not None
