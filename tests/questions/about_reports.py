"""Questions from reports of wrong answers. Each statement has the rows that showed the fault.

A new report becomes a question here or in the module of its subject (docs/CONTRIBUTING.md).
"""

from __future__ import annotations

import datetime

from tests.questions import data
from tests.questions.question import by, question


def _date(text: str) -> datetime.date:
    return datetime.date.fromisoformat(text)


@question(
    of={"core": data.letters},
    sql="""
        SELECT * FROM core MATCH_RECOGNIZE (
          PARTITION BY g ORDER BY t MEASURES LAST(t) AS x PATTERN (A B C) DEFINE A AS k = 'a', B AS k = 'b', C AS k = 'c'
        )""",
    cached=True,
)
def sequence_in_a_cached_table(core):
    """Where does a, b, c follow each other in a group of a cached table?"""
    for rows in by(core, "g", order="t"):
        for a, b, c in zip(rows, rows[1:], rows[2:]):
            if a.k + b.k + c.k == "abc":
                yield a.g, c.t


@question(
    of={},
    sql="""
        SELECT * FROM VALUES ('x', DATE'2020-01-01'), ('x', DATE'2020-01-02'), ('x', DATE'2020-01-09') AS g(k, day)
        MATCH_RECOGNIZE (
          PARTITION BY k ORDER BY day MEASURES A.day AS a, B.day AS b PATTERN (A B) DEFINE B AS datediff(day, PREV(day)) > 3
        )""",
    quick=True,
)
def gap_in_a_column_called_day():
    """Between which days lie more than three?"""
    yield "x", _date("2020-01-02"), _date("2020-01-09")


@question(
    of={},
    sql="""
        SELECT * FROM VALUES ('x', DATE'2020-01-01'), ('x', DATE'2020-01-02'), ('x', DATE'2020-01-09') AS g(k, day)
        MATCH_RECOGNIZE (
          PARTITION BY k ORDER BY day MEASURES FIRST(day) AS a, LAST(day) AS b PATTERN (A B*) DEFINE B AS date_sub(day, 1) = PREV(day)
        )""",
)
def islands_of_a_column_called_day():
    """Which days follow each other without a gap?"""
    yield "x", _date("2020-01-01"), _date("2020-01-02")
    yield "x", _date("2020-01-09"), _date("2020-01-09")


@question(
    of={},
    sql="""
        SELECT * FROM VALUES ('x', DATE'2020-01-01'), ('x', DATE'2020-01-02'), ('x', DATE'2020-01-09') AS g(k, day)
        MATCH_RECOGNIZE (
          PARTITION BY k ORDER BY day MEASURES datediff(day, FIRST(day)) AS days, date_add(day, 1) AS next PATTERN (A+)
        )""",
)
def days_between_in_a_column_called_day():
    """How many days are there in all, and which is the day after?"""
    yield "x", 8, _date("2020-01-10")


@question(
    of={},
    sql="""
        SELECT * FROM VALUES (1, 2), (2, 9), (3, 10) AS t(day, trailing)
        MATCH_RECOGNIZE (ORDER BY day MEASURES A.day AS a PATTERN (A) DEFINE A AS abs(trailing - PREV(trailing)) > 5)""",
)
def jump_in_a_column_called_trailing():
    """On which day does a value jump by more than five?"""
    yield (2,)


@question(
    of={},
    sql="""
        SELECT * FROM VALUES (1, 0), (2, 5), (3, 0), (4, 2) AS t(id, v) MATCH_RECOGNIZE (
          ORDER BY id MEASURES A.id AS a, B.id AS b PATTERN (A B)
          DEFINE B AS CASE WHEN PREV(v) <> 0 THEN 10 / PREV(v) ELSE 1 END > 1.5
        )""",
)
def division_in_a_case():
    """After which row is a quotient large, if it is 1 where the divisor is 0?"""
    yield 2, 3


@question(
    of={},
    sql="""
        SELECT * FROM VALUES (1, 0, 5), (2, 3, 6), (3, 6, 60) AS t(i, clicks, value) MATCH_RECOGNIZE (
          ORDER BY i MEASURES B.i AS b PATTERN (A B)
          DEFINE A AS clicks > 0, B AS clicks > 0 AND B.value / B.clicks > A.value / A.clicks
        )""",
    quick=True,
)
def value_of_a_click_that_rises():
    """When does the value of a click rise, where some rows have no clicks?"""
    yield (3,)


@question(
    of={},
    sql="""
        SELECT * FROM VALUES (1, 'x'), (2, '5'), (3, '7') AS t(id, v) MATCH_RECOGNIZE (
          ORDER BY id MEASURES A.id AS a, sum(CAST(A.v AS INT)) AS d PATTERN (A+) DEFINE A AS v RLIKE '^[0-9]+$'
        )""",
)
def sum_of_texts_that_are_numbers():
    """What is the sum of the texts in a row that are numbers?"""
    yield 3, 12


@question(
    of={},
    sql="""
        SELECT * FROM VALUES (1, 'n/a'), (2, '7') AS t(id, v) MATCH_RECOGNIZE (
          ORDER BY id MEASURES sum(NUM.v::INT) AS r PATTERN ((TXT | NUM)+) DEFINE TXT AS v = 'n/a', NUM AS v RLIKE '^[0-9]+$'
        )""",
)
def sum_beside_texts_that_are_not_numbers():
    """What is the sum of the texts that are numbers, among others?"""
    yield (7,)


@question(
    of={},
    sql="""
        SELECT * FROM VALUES (1, 0, 7), (2, 2, 8), (3, 4, 8) AS t(id, clicks, v)
        MATCH_RECOGNIZE (ORDER BY id MEASURES sum(v / clicks) FILTER (WHERE clicks > 0) AS r PATTERN (A+))""",
)
def filtered_sum_of_quotients():
    """What is the sum of quotients of the rows that can be divided?"""
    yield (6.0,)


@question(
    of={},
    sql="""
        SELECT * FROM VALUES (1, -9223372036854775808L), (2, NULL), (3, 5), (4, 4) AS t(id, v)
        MATCH_RECOGNIZE (ORDER BY id MEASURES B.id AS b PATTERN (A B) DEFINE B AS v = PREV(v) - 1)""",
)
def least_number_before_a_missing_one():
    """Which value is one less than the one before it, where the least number there is precedes a missing one?"""
    yield (4,)


@question(
    of={},
    sql="""
        SELECT * FROM VALUES (1, 0), (2, 5), (3, 0), (4, 2) AS t(id, v)
        MATCH_RECOGNIZE (ORDER BY id MEASURES A.id AS a, B.id AS b PATTERN (A B) DEFINE B AS PREV(v) <> 0 AND 10 / PREV(v) > 1.5)""",
)
def division_behind_a_guard():
    """Which row follows a divisor that makes a quotient large?"""
    yield 2, 3


@question(
    of={},
    sql="""
        SELECT * FROM VALUES (1, 0), (2, 3), (3, 0), (4, 4), (5, 1) AS t(id, v)
        MATCH_RECOGNIZE (ORDER BY id MEASURES A.id AS a PATTERN (A B) DEFINE A AS v > 0, B AS 12 / A.v = 4)""",
)
def division_by_a_value_of_the_match():
    """Which row has a positive value that goes into twelve four times?"""
    yield (2,)


@question(
    of={},
    sql="""
        SELECT * FROM VALUES (1, 0, 5), (2, 3, 6), (3, 6, 60), (4, 0, 1) AS t(i, clicks, value) MATCH_RECOGNIZE (
          ORDER BY i MEASURES B.i AS b PATTERN (A B)
          DEFINE B AS IF(PREV(clicks) > 0 AND clicks > 0, value / clicks > PREV(value / clicks), false)
        )""",
)
def division_in_an_if():
    """When does the value of a click rise from one row with clicks to the next?"""
    yield (3,)


@question(
    of={},
    sql="""
        SELECT * FROM VALUES (1, array()), (2, array(4, 5)), (3, array(1, 9)), (4, array()) AS t(id, items) MATCH_RECOGNIZE (
          ORDER BY id MEASURES B.id AS b PATTERN (A B) DEFINE A AS size(items) > 0, B AS exists(B.items, x -> x > A.items[0])
        )""",
)
def element_of_an_array_that_may_be_empty():
    """Which list has an item larger than the first one of the list before it?"""
    yield (3,)


@question(
    of={},
    sql="""
        SELECT * FROM VALUES (1, 'x'), (2, '5'), (3, '9'), (4, '') AS t(id, v) MATCH_RECOGNIZE (
          ORDER BY id MEASURES LAST(CAST(A.v AS INT)) - FIRST(CAST(A.v AS INT)) AS rise PATTERN (A+) DEFINE A AS v RLIKE '^[0-9]+$'
        )""",
)
def rise_of_texts_that_are_numbers():
    """By how much do the texts that are numbers rise?"""
    yield (4,)


@question(
    of={},
    sql="""
        SELECT * FROM VALUES (1, 'soon', DATE'2024-05-01'), (2, '2024-05-03', DATE'2024-05-02'), (3, 'later', DATE'2024-05-04') AS t(id, s, d)
        MATCH_RECOGNIZE (
          ORDER BY id MEASURES B.id AS b PATTERN (A B) DEFINE B AS CASE WHEN PREV(s) LIKE '2024%' THEN d > to_date(PREV(s)) END
        )""",
)
def day_that_was_promised():
    """Which day is later than the one promised before it, where some promises are not dates?"""
    yield (3,)


@question(
    of={},
    sql="""
        SELECT * FROM VALUES (1, 5), (2, 3), (3, 4) AS t(id, `current_date`)
        MATCH_RECOGNIZE (ORDER BY id MEASURES current_date AS c PATTERN (A B) DEFINE B AS id > 0)""",
)
def column_called_current_date():
    """What is the last value of a column called current_date?"""
    yield (3,)


@question(
    of={},
    sql="""
        SELECT * FROM VALUES (1, 5), (2, 3), (3, 4) AS t(id, `current_date`)
        MATCH_RECOGNIZE (ORDER BY id MEASURES A.id AS i PATTERN (A B) DEFINE B AS current_date < PREV(current_date))""",
)
def fall_in_a_column_called_current_date():
    """Which row precedes a fall, in a column called current_date?"""
    yield (1,)


@question(
    of={},
    sql="""
        SELECT * FROM VALUES (1, 7), (2, 8) AS t(id, localtimestamp)
        MATCH_RECOGNIZE (ORDER BY id MEASURES localtimestamp AS l PATTERN (A+))""",
)
def column_called_localtimestamp():
    """What is the last value of a column called localtimestamp?"""
    yield (8,)


@question(
    of={},
    sql="""
        SELECT * FROM VALUES ('m1', 1, 5.0), ('m1', 2, 4.0), ('m1', 3, 3.5), ('m1', 4, 9.0) AS v(m, ts, kwh)
        MATCH_RECOGNIZE (PARTITION BY "m" ORDER BY "ts" MEASURES count(*) AS n PATTERN (A F{2,}) DEFINE F AS "kwh" < PREV("kwh"))""",
    settings={"spark.sql.ansi.doubleQuotedIdentifiers": "true"},
)
def names_in_double_quotes():
    """Which meter falls twice or more, with columns in double quotes?"""
    yield "m1", 3


@question(
    of={},
    sql="""
        SELECT * FROM VALUES (TIMESTAMP'2024-03-30 12:00:00'), (TIMESTAMP'2024-03-31 12:00:00') AS t(x) MATCH_RECOGNIZE (
          ORDER BY x MEASURES date_format(LAST(x), 'dd HH') AS until PATTERN (A B) DEFINE B AS x - A.x >= INTERVAL '1' DAY
        )""",
    settings={"spark.sql.session.timeZone": "Europe/Berlin"},
)
def a_local_day_of_23_hours():
    """Do Spark's timestamps differ by a day from noon to noon when summer time starts?"""
    yield ("31 12",)


@question(
    of={},
    sql="""
        SELECT * FROM VALUES (1, DATE'2024-01-02', TIMESTAMP'2024-01-01 10:00:00'), (2, DATE'2024-01-01', TIMESTAMP'2024-01-01 11:00:00'),
          (3, DATE'2024-01-02', TIMESTAMP'2024-01-01 12:00:00') AS t(id, date, ts)
        MATCH_RECOGNIZE (ORDER BY id MEASURES B.id AS b PATTERN (A B) DEFINE B AS date > PREV(ts))""",
)
def date_later_than_a_timestamp():
    """Which date is later than the timestamp of the row before it?"""
    yield (3,)


@question(
    of={},
    sql="""
        SELECT * FROM VALUES (1, '10', 3), (2, '2', 5), (3, '9', 1) AS t(id, value, n)
        MATCH_RECOGNIZE (ORDER BY id MEASURES B.id AS b PATTERN (A B) DEFINE B AS CAST(value AS BIGINT) > PREV(n))""",
)
def text_compared_with_a_number():
    """Which text is, as a number, larger than the number of the row before it?"""
    yield (3,)


@question(
    of={},
    sql="""
        SELECT * FROM (SELECT id, parse_json(text) AS doc FROM VALUES (1, '{"n": 3}'), (2, '{"n": 1}'), (3, '{"n": 7}') AS t(id, text))
        MATCH_RECOGNIZE (ORDER BY id MEASURES B.id AS b PATTERN (A B) DEFINE B AS doc:n::int > A.doc:n::int)""",
)
def number_in_a_variant():
    """Which document has a larger number than the one before it?"""
    yield (3,)


@question(
    of={},
    sql="""
        SELECT * FROM VALUES (1, CAST(-1.5 AS DECIMAL(10,2))), (2, 100.55), (3, 40.00) AS t(id, x)
        MATCH_RECOGNIZE (ORDER BY id MEASURES count(*) AS n, sum(x) AS total PATTERN (A+) DEFINE A AS sum(x) < 100)""",
)
def sum_of_money_below_a_limit():
    """How many amounts in a row stay below a sum of 100?"""
    yield 2, data.Decimal("99.05")
    yield 1, data.Decimal("40.00")
