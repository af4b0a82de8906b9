"""Ten statements that return nothing, as new users write them: the first screen of sparkcep.why names the cause."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pytest

pytest.importorskip("pyspark")

import sparkcep  # noqa: E402
from tests.selection import one_in  # noqa: E402

SCREEN = 24  # lines of a terminal


@dataclass(frozen=True)
class Nothing:
    """A statement that returns nothing.

    Attributes:
        name: the cause.
        sql: the statement.
        names: how the answer names the cause, as a regular expression.
        asked: the arguments of the question.
    """

    name: str
    sql: str
    names: str
    asked: dict = field(default_factory=dict)


STATEMENTS = [
    Nothing(
        "ties in ORDER BY",
        """SELECT * FROM VALUES ('ann', '10:00', 'fail'), ('ann', '10:00', 'login'), ('bob', '10:05', 'fail'), ('bob', '10:05', 'login') AS events(user, time, event)
        MATCH_RECOGNIZE (
          PARTITION BY user ORDER BY time MEASURES FIRST(time) AS since
          PATTERN (LOGIN FAIL) DEFINE LOGIN AS event = 'login', FAIL AS event = 'fail'
        )""",
        r"Hint: \d rows? equal to another row in PARTITION BY and ORDER BY, so their order depends on chance",
    ),
    Nothing(
        "a NULL",
        """SELECT * FROM VALUES (1, 120, CAST(NULL AS INT)), (2, 150, NULL), (3, 180, NULL) AS orders(day, total, discount)
        MATCH_RECOGNIZE (
          ORDER BY day MEASURES FIRST(day) AS first, LAST(day) AS last
          PATTERN (LARGE{2,}) DEFINE LARGE AS total - discount > 100
        )""",
        r"total - discount > 100 +0 +0 +3 +NULL for all rows",
    ),
    Nothing(
        "numbers compared as strings",
        """SELECT * FROM VALUES (1, '8'), (2, '9'), (3, '10'), (4, '11') AS readings(day, level)
        MATCH_RECOGNIZE (
          ORDER BY day MEASURES FIRST(day) AS first, LAST(day) AS last
          PATTERN (STRT UP{3}) DEFINE UP AS level > PREV(level)
        )""",
        r"Hint: .*level.*(string|STRING|text)",
    ),
    Nothing(
        "seconds for milliseconds",
        """SELECT * FROM VALUES (1764230400000L, 'login'), (1764230404000L, 'fail'), (1764230409000L, 'fail'), (1764230415000L, 'fail') AS events(ts, event)
        MATCH_RECOGNIZE (
          ORDER BY ts MEASURES FIRST(ts) AS since WINDOW 60
          PATTERN (LOGIN FAIL{2}) DEFINE LOGIN AS event = 'login', FAIL AS event = 'fail'
        )""",
        r"Hint: .*WINDOW.*milliseconds",
    ),
    Nothing(
        "a WHERE below",
        """SELECT * FROM (SELECT * FROM (VALUES (1, 'fail'), (2, 'fail'), (3, 'ok'), (4, 'fail'), (5, 'fail'), (6, 'ok')) AS logins(t, status) WHERE status = 'fail')
        MATCH_RECOGNIZE (
          ORDER BY t MEASURES FIRST(t) AS since
          PATTERN (FAIL{2} OK) DEFINE FAIL AS status = 'fail', OK AS status = 'ok'
        )""",
        r"status = 'ok' +0 +4 +0 +never true[\s\S]*Hint: no row of the clause's input fulfils status = 'ok'. 2 rows of its input do; WHERE of the subquery",
    ),
    Nothing(
        "SKIP PAST LAST ROW",
        """SELECT * FROM VALUES (1, 9), (2, 7), (3, 9), (4, 6), (5, 8) AS ticks(day, price)
        MATCH_RECOGNIZE (
          ORDER BY day MEASURES FIRST(day) AS first, LAST(day) AS last
          PATTERN (STRT DOWN UP) DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)
        ) WHERE first = 3""",
        r"Lost to match 1: rows 3-5 would match .*AFTER MATCH SKIP TO NEXT ROW reports both",
        {"at": "day = 4"},
    ),
    Nothing(
        "a greedy quantifier",
        """SELECT * FROM VALUES (1, 'in'), (2, 'buy'), (3, 'out'), (50, 'in'), (51, 'out') AS visits(minute, event)
        MATCH_RECOGNIZE (
          ORDER BY minute MEASURES FIRST(minute) AS since, LAST(minute) AS until
          PATTERN (ARRIVAL X* LEAVE) DEFINE ARRIVAL AS event = 'in', LEAVE AS event = 'out'
        ) WHERE until - since < 10""",
        r"LEAVE was not tried: X is preferred here and leads to match 1",
        {"at": "minute = 3", "expect": "LEAVE"},
    ),
    Nothing(
        "an anchor",
        """SELECT * FROM VALUES (1, 'visit'), (2, 'cart'), (3, 'pay'), (4, 'visit') AS shop(t, event)
        MATCH_RECOGNIZE (
          ORDER BY t MEASURES FIRST(t) AS since
          PATTERN (^ CART PAY) DEFINE CART AS event = 'cart', PAY AS event = 'pay'
        )""",
        r"They ended because an anchor .*[\s\S]*Hint: without \^ there would be 1 match\.",
    ),
    Nothing(
        "a window too short",
        """SELECT * FROM VALUES (TIMESTAMP'2026-11-27 10:00:00', 'fail'), (TIMESTAMP'2026-11-27 10:03:00', 'fail'), (TIMESTAMP'2026-11-27 10:06:00', 'fail') AS logins(ts, status)
        MATCH_RECOGNIZE (
          ORDER BY ts MEASURES FIRST(ts) AS since WINDOW INTERVAL '5' MINUTE
          PATTERN (FAIL{3}) DEFINE FAIL AS status = 'fail'
        )""",
        r"They ended because .*WINDOW .*[\s\S]*Hint: without WINDOW INTERVAL '5' MINUTE there would be 1 match\.",
    ),
    Nothing(
        "another case of letters",
        """SELECT * FROM VALUES (1, 'Failed'), (2, 'Failed'), (3, 'Accepted') AS logins(t, status)
        MATCH_RECOGNIZE (
          ORDER BY t MEASURES FIRST(t) AS since
          PATTERN (FAIL{2}) DEFINE FAIL AS status = 'failed'
        )""",
        r"Hint: status is never 'failed'; it is 'Failed' in 2 rows",
    ),
]


@pytest.mark.parametrize("nothing", one_in(6, STATEMENTS), ids=lambda nothing: nothing.name)
def test_the_first_screen_names_the_cause(spark, nothing):
    assert spark.sql(nothing.sql).count() == 0
    why = sparkcep.why(spark, nothing.sql, **nothing.asked)
    screen = "\n".join(str(why).split("\n")[:SCREEN])
    assert why.verified and re.search(nothing.names, screen), screen
    assert max(map(len, screen.split("\n"))) <= 200
