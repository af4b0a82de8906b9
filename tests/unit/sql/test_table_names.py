"""Which names a statement's tables have."""

from __future__ import annotations

import pytest

from sparkcep.clause.tokens import tokenize
from sparkcep.sql.rewrite.rewrite import rewrite
from sparkcep.sql.rewrite.table_names import table_names


@pytest.mark.parametrize(
    ("table", "names"),
    [
        ("w", "w"),
        ("cat.db.w AS X", "w, db.w, cat.db.w, x"),
        ("db.`w 3`", "w 3, db.w 3"),
        ("db.table JOIN db.on x USING (k)", "table, db.table, on, db.on, x"),
        ("(SELECT s, a FROM w)", ""),
        ("(SELECT s, a FROM w) AS q (s, a)", "q"),
        ("((SELECT s FROM w) UNION (SELECT t FROM v))", ""),
        ("(w a JOIN (SELECT DISTINCT k, s FROM q) b ON a.k = b.s)", "w, a, b"),
        ("w1 JOIN w2 ON w1.s = w2.t LEFT OUTER JOIN `w 3` USING (k)", "w1, w2, w 3"),
        ("range(s) r", "range, r"),
        ("VALUES (1, s) AS x(k, t)", "x"),
        ("w1, LATERAL (SELECT s FROM w2) w3", "w1, w3"),
        ("w1, w2 LATERAL VIEW OUTER db.f(w2.s) v AS a, b LATERAL VIEW explode(b) `w 3`", "w1, w2, v, w 3"),
        ("w1, LATERAL view v, w2", "w1, view, v, w2"),
    ],
)
def test_table_names(table, names):
    tokens = tokenize(table)
    opened, close = [], {}
    for i, t in enumerate(tokens):
        if t.text == "(":
            opened.append(i)
        elif t.text == ")":
            close[opened.pop()] = i
    wanted = set(filter(None, names.split(", ")))
    assert table_names(tokens, close, 0, len([t for t in tokens if t.text])) == wanted


def test_keys_of_the_function_form_may_be_qualified():
    text = rewrite("SELECT * FROM match_recognize(TABLE(db.w), 'PARTITION BY w.id, db.w.k ORDER BY ts ALL ROWS PER MATCH PATTERN (A)')")
    assert text.count('"plain":true') == 3 and "SELECT `id`, `k`, `ts`, * EXCEPT (`id`, `k`, `ts`)" in text
