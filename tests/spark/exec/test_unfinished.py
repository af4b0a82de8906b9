"""SHOW UNFINISHED MATCHES in Spark: the second read for the clock, all types of time, and statements around the clause.

The question is which orders were not shipped within two days. Its answer is computed in plain Python (:func:`answer`).
"""

from __future__ import annotations

import datetime

import pytest

from sparkcep import match_recognize
from tests.selection import further, slow

DAY = datetime.timedelta(days=1)
BEGIN = datetime.datetime(2024, 10, 26)
# the day on which an order was placed, and that on which it was shipped
ORDERS = {1: (0, 1), 2: (0, 3), 3: (1, None), 4: (5, 6), 5: (8, None), 6: (3, None), 7: (None, 2), 8: (4, 5.5), 9: (9, None)}
EVENTS = [(o, e, day) for o, days in ORDERS.items() for e, day in zip(("placed", "shipped"), days, strict=True) if day is not None]
LATEST, SIZE = 9, 2
CLAUSE = """PARTITION BY o ORDER BY {order}
  MEASURES MATCH_STATUS() AS status, MATCH_ENDED_AT() AS ended, MATCH_EXPECTED() AS missing, FIRST(t) AS since
  ONE ROW PER MATCH SHOW {what} MATCHES{clock}
  EVENT SELECTION SKIP TILL NEXT MATCH
  PATTERN (P S) WINDOW {size}
  DEFINE P AS e = 'placed', S AS e = 'shipped'"""
WINDOW = "INTERVAL '2' DAY"
TYPES = {
    "TIMESTAMP": ("TIMESTAMP'2024-10-26' + make_interval(0, 0, 0, 0, 0, 0, CAST(day * 86400 AS DECIMAL(18, 6)))", WINDOW),
    "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ'2024-10-26' + CAST(day * 24 AS INT) * INTERVAL '1' HOUR", WINDOW),
    "DATE": ("date_add(DATE'2024-10-26', CAST(day AS INT))", WINDOW),
    "INT": ("CAST(day * 10 AS INT)", "20"),
    "DECIMAL(9, 2)": ("CAST(day AS DECIMAL(9, 2))", "2"),
    "DOUBLE": ("CAST(day AS DOUBLE)", "2"),
}


def answer(clock=LATEST, whole=False):
    """{order: (status, day on which it ended, what is missing)}, ``whole``: of whole days"""
    found = {}
    for o, (placed, shipped) in ORDERS.items():
        if placed is None:
            continue
        last = max(placed if shipped is None else shipped, clock)
        if shipped is not None and placed < shipped < placed + SIZE:
            found[o] = ("MATCHED", int(shipped) if whole else shipped, [])
        elif last >= placed + SIZE:
            found[o] = ("TIMED OUT", placed + SIZE, ["S"])
        else:
            found[o] = ("OPEN", None, ["S"])
    return found


def clause(what="UNFINISHED", clock="", order="t", size=WINDOW):
    return CLAUSE.format(what=what, clock=clock, order=order, size=size)


@pytest.fixture(scope="module")
def events(spark):
    values = ", ".join(f"({o}, '{e}', {day})" for o, e, day in EVENTS)
    spark.sql(f"CREATE OR REPLACE TEMP VIEW events AS SELECT o, e, {TYPES['TIMESTAMP'][0]} AS t, day FROM VALUES {values} AS v(o, e, day)")
    return spark


def told(rows, day=lambda moment: None if moment is None else (moment - BEGIN) / DAY):
    return {row.o: (row.status, day(row.ended), row.missing) for row in rows}


def test_the_clock_is_the_latest_time_of_the_whole_input(events):
    statement = f"SELECT * FROM events MATCH_RECOGNIZE ({clause()}) AS m"
    assert told(events.sql(statement).collect()) == answer()
    # of a filter only on the result, the clock knows nothing
    one = {o: said for o, said in answer().items() if o == 6}
    assert told(events.sql(f"{statement} WHERE o = 6").collect()) == one == {6: ("TIMED OUT", 5, ["S"])}
    # a filter in the input is part of it
    alone = told(events.sql(f"SELECT * FROM (SELECT * FROM events WHERE o = 6) MATCH_RECOGNIZE ({clause()})").collect())
    assert alone == {6: ("OPEN", None, ["S"])}


@pytest.mark.further
def test_statements_around_the_clause(events):
    late = [o for o, said in answer().items() if said[0] == "TIMED OUT"]
    shown = f"events MATCH_RECOGNIZE ({clause('TIMEOUT')}) AS m"
    matched = [o for o, said in answer().items() if said[0] == "MATCHED"]
    one_column = events.sql(f"SELECT m.status FROM {shown}").collect()
    assert sorted(row.status for row in one_column) == ["MATCHED"] * len(matched) + ["TIMED OUT"] * len(late)
    assert events.sql(f"SELECT count(*) AS n FROM {shown}").first().n == len(matched) + len(late)
    grouped = events.sql(f"SELECT status, count(*) AS n FROM {shown} GROUP BY status").collect()
    assert {row.status: row.n for row in grouped} == {"MATCHED": len(matched), "TIMED OUT": len(late)}
    joined = events.sql(f"SELECT a.o, a.status AS one, b.status AS other FROM {shown.replace('AS m', 'AS a')} JOIN events MATCH_RECOGNIZE ({clause()}) AS b ON a.o = b.o")
    assert sorted(map(tuple, joined.collect())) == sorted((o, answer()[o][0], answer()[o][0]) for o in matched + late)
    named = events.sql(f"WITH x AS (SELECT * FROM events WHERE o < 4) SELECT o FROM x MATCH_RECOGNIZE ({clause('TIMEOUT')}) WHERE status = 'TIMED OUT'")
    assert sorted(row.o for row in named.collect()) == [2, 3]  # the clock is on the third day
    rows = events.sql(f"SELECT o, e, status FROM {shown.replace('ONE ROW PER MATCH', 'ALL ROWS PER MATCH')} WHERE status <> 'MATCHED'").collect()
    assert sorted(map(tuple, rows)) == sorted((o, "placed", "TIMED OUT") for o in late)


@pytest.mark.further
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_adaptive_plans_and_partitions(events, adaptive):
    kept = {name: events.conf.get(name) for name in ("spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions")}
    try:
        events.conf.set("spark.sql.adaptive.enabled", adaptive)
        events.conf.set("spark.sql.shuffle.partitions", "5")
        frame = events.table("events").repartition(3)
        frame.createOrReplaceTempView("spread")
        assert told(events.sql(f"SELECT * FROM spread MATCH_RECOGNIZE ({clause()})").collect()) == answer()
        assert events.sql(f"SELECT count(*) AS n FROM spread MATCH_RECOGNIZE ({clause()})").first().n == len(answer())
    finally:
        for name, value in kept.items():
            events.conf.set(name, value)
        events.catalog.dropTempView("spread")


def test_the_function_form_needs_as_of(events):
    clock = BEGIN + 10 * DAY
    frame = match_recognize(events.table("events"), clause=clause(clock=" AS OF TIMESTAMP '2024-11-05'"))
    assert told(frame.collect()) == answer(10) != answer()
    assert told(match_recognize(events.table("events"), clause=clause()).collect()) == answer()
    parts = clause(clock=f" AS OF TIMESTAMP '{clock}'").replace("PARTITION BY o ORDER BY t", "").replace("'", "\\'")
    called = events.sql(f"SELECT * FROM match_recognize(TABLE(events) PARTITION BY o ORDER BY t, '{parts}')")
    assert told(called.collect()) == answer(10)


@pytest.mark.parametrize("order", [slow("t"), further("t DESC")])
@pytest.mark.parametrize("zone", [slow("UTC"), further("Europe/Berlin")])
def test_types_of_time(events, zone, order):
    kept = events.conf.get("spark.sql.session.timeZone")
    try:
        events.conf.set("spark.sql.session.timeZone", zone)
        for name, (text, size) in TYPES.items():
            source = f"(SELECT o, e, {text} AS t FROM (SELECT o, e, day FROM events))"
            ended = "(unix_seconds(ended) - unix_seconds(TIMESTAMP'2024-10-26')) / 86400 AS ended" if name == "TIMESTAMP" else "ended"
            statement = f"SELECT o, status, {ended}, missing, typeof(ended) AS type FROM {source} MATCH_RECOGNIZE ({clause(order=order, size=size)})"
            rows = events.sql(statement).collect()
            assert {row.type for row in rows} == {name.lower().replace(" ", "")}, name
            if order == "t":
                whole = name == "DATE"
                assert told(rows, lambda moment: day_of(moment, size)) == answer(whole=whole), name
            else:
                assert {row.o: row.status for row in rows} == backwards(), name
    finally:
        events.conf.set("spark.sql.session.timeZone", kept)


def day_of(moment, size):
    """The day of a value of the types. Two days are ``size`` of a number's units."""
    if moment is None or size == WINDOW and isinstance(moment, float):
        return moment
    if size == WINDOW:
        return (datetime.datetime(moment.year, moment.month, moment.day, getattr(moment, "hour", 0)) - BEGIN) / DAY
    return float(moment) * SIZE / float(size)


def backwards():
    """The statuses under ORDER BY t DESC, where an order shipped before it is placed is a match. The clock is day 0."""
    return {o: "TIMED OUT" if placed >= SIZE else "OPEN" for o, (placed, _) in ORDERS.items() if placed is not None}


def test_no_clock_is_read_if_no_value_depends_on_it(events):
    """The input may be one that gives other rows at a second read, also in the function form."""
    asked = clause().replace("MATCH_STATUS() AS status, MATCH_ENDED_AT() AS ended, ", "")
    query = f"SELECT * FROM (SELECT * FROM events WHERE rand() >= 0) MATCH_RECOGNIZE ({asked})"
    text = events.sql(f"EXPLAIN {query}").collect()[0][0]
    assert "clock: not read" in text and "max(" not in text
    expected = {o: missing for o, (_, _, missing) in answer().items()}
    assert {row.o: row.missing for row in events.sql(query).collect()} == expected
    parts = asked[asked.index("MEASURES") :].replace("'", "\\'")
    called = f"SELECT * FROM match_recognize(TABLE(events) PARTITION BY o ORDER BY t, '{parts}')"
    assert {row.o: row.missing for row in events.sql(called).collect()} == expected
