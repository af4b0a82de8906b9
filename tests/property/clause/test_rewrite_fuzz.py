"""Whatever a statement is, rewriting it gives text or an error of ours."""

import random

import pytest

from sparkcep.clause.tokens import tokenize
from sparkcep.errors import ClauseError
from sparkcep.sql.rewrite.rewrite import rewrite
from tests.selection import first

STATEMENTS = [
    """SELECT * FROM a JOIN t MATCH_RECOGNIZE (PARTITION BY k, f(x) ORDER BY i DESC NULLS LAST MEASURES FIRST(A.p, 2) AS q, CASE WHEN sum(p) > 1 THEN 2 END AS r
    ALL ROWS PER MATCH WITH UNMATCHED ROWS AFTER MATCH SKIP TO FIRST B PATTERN (^ A+? (B | C){2,3} PERMUTE(A, D) {- E -} $) SUBSET U = (A, B)
    DEFINE A AS p > PREV(p, 1) + INTERVAL '1' DAY, B AS p::INT[0].f IN (1, 2) AND x LIKE 'a') AS m ON m.k = a.k""",
    """WITH c AS (VALUES (1), (2)) SELECT * FROM match_recognize(TABLE(SELECT * FROM c) PARTITION BY (k) ORDER BY (i), 'MEASURES count(*) AS n PATTERN (A \\u0041)')""",
    """SELECT * FROM (SELECT 1) MATCH_RECOGNIZE (ORDER BY i MEASURES count(*) AS n EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A ~B (C & D) WITHIN 3)
    WINDOW INTERVAL '1 2' DAY TO HOUR SLIDE 5 ROWS APPROX 2.5 WEIGHTS (A 2, ~B 1e1) PROXY MATCHES PREF MAX (A.p) AND MIN (B.q) COMBINE BY AVG TOP 3 OVERALL)""",
    """WITH RECURSIVE a (x) AS (SELECT 1), b MAX RECURSION LEVEL 9 AS (SELECT 2 UNION ALL SELECT * FROM a MATCH_RECOGNIZE (
    PARTITION BY k ORDER BY i MEASURES count(*) AS n PATTERN (A B) DEFINE A AS x > 1, B AS x < 2)) SELECT * FROM b""",
    """WITH a (x) AS (SELECT 1), b AS (TABLE c) SELECT * FROM (a JOIN b USING (x)) MATCH_RECOGNIZE (
    PARTITION BY k ORDER BY i MEASURES count(*) AS n PATTERN (A B) WINDOW 3 DEFINE A AS x > 1, B AS x < 2)""",
    "SELECT match_recognize (1), x FROM VALUES (1), (2) AS v(t) MATCH_RECOGNIZE (MEASURES x -> y + 1 AS n PATTERN (()))",
]
PIECES = [t.text for s in STATEMENTS for t in tokenize(s)[:-1]] + ["'\\u00zz'", "''", '"', "`", "/*", "--", "\\", "9" * 5_000, "1e99999999", "\ud83d", "=", ">"]


def _mutated(rng: random.Random) -> str:
    words = [t.text for t in tokenize(rng.choice(STATEMENTS))[:-1]]
    for _ in range(rng.randrange(1, 4)):
        at, kind = rng.randrange(len(words) or 1), rng.randrange(4)
        if kind == 0:
            words = words[:at]
        elif kind == 1:
            words[at : at + 1] = []
        elif kind == 2:
            words[at:at] = [rng.choice(PIECES)]
        else:
            words[at : at + rng.randrange(5)] = rng.choices(PIECES, k=rng.randrange(4))
    return " ".join(words)


def _check(seed: int, number: int) -> None:
    rng = random.Random(seed)
    for _ in range(number):
        text = _mutated(rng)
        try:
            rewrite(text)
        except ClauseError as error:
            assert error.line and len(str(error)) < 1_000, text


@pytest.mark.parametrize("seed", first([1, 3, 5, 7], wider=4))
def test_mutated_statements_are_rewritten_or_refused(seed):
    _check(seed, 500)


@pytest.mark.slow
def test_many_mutated_statements_are_rewritten_or_refused():
    _check(2, 200_000)
