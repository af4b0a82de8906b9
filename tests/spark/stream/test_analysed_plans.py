"""Spark's analysed plans read from their texts (spark/stream/frames/plan_text): the nodes, and whether joins of streams are
bounded."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from sparkcep.spark.stream.frames.clauses_in_plans import watermarks  # noqa: E402
from sparkcep.spark.stream.frames.plan_text import _bounds, _parts, analysed, read, unbounded  # noqa: E402
from tests.spark.stream.test_streams import stream  # noqa: E402

BETWEEN = "r.ts BETWEEN l.ts - INTERVAL 2 SECONDS AND l.ts + INTERVAL 1 SECOND"
LATER = "(SELECT *, ts + INTERVAL 3 HOURS AS late FROM ticks) r"
JOINS = {  # what is joined, and whether it is bounded
    "between": (f"ticks l JOIN ticks r ON l.symbol = r.symbol AND {BETWEEN}", True),
    "the other way": ("ticks l JOIN ticks r ON l.ts BETWEEN r.ts AND r.ts + INTERVAL '1:30' MINUTE TO SECOND AND l.n < r.n", True),
    "two signs": ("ticks l JOIN ticks r ON r.ts > l.ts AND r.ts < l.ts + INTERVAL 1 DAY", True),
    "two signs, turned": ("ticks l JOIN ticks r ON l.ts - INTERVAL 3 SECONDS <= r.ts AND l.ts >= r.ts AND l.symbol <> 'a) AND (b'", True),
    "equal": ("ticks l JOIN ticks r ON l.ts = r.ts AND l.symbol = r.symbol", True),
    "under another name": ("(SELECT ts AS `a b`, n FROM ticks) l JOIN ticks r ON r.ts BETWEEN l.`a b` AND l.`a b` + INTERVAL 1 HOUR", True),
    "left": (f"ticks l LEFT JOIN ticks r ON {BETWEEN}", True),
    "semi": (f"ticks l LEFT SEMI JOIN ticks r ON {BETWEEN}", True),
    "a number of a table": (f"ticks l JOIN ticks r ON {BETWEEN} AND l.n > (SELECT max(n) FROM VALUES (1), (2) AS v(n))", True),
    "beside a table": (f"(SELECT * FROM ticks JOIN VALUES ('k0') AS v(symbol) USING (symbol)) l JOIN ticks r ON {BETWEEN}", True),
    "none": ("ticks l JOIN ticks r ON l.symbol = r.symbol", False),
    "none, and a number of a table": ("ticks l JOIN ticks r ON l.symbol = r.symbol AND l.n > (SELECT max(n) FROM VALUES (1), (2) AS v(n))", False),
    "none, and keys of a table": ("ticks l JOIN ticks r ON l.n < r.n AND l.symbol IN (SELECT * FROM VALUES ('k0') AS v(symbol) UNION ALL SELECT 'k1')", False),
    "no condition": ("ticks l CROSS JOIN ticks r", False),
    "one side": ("ticks l JOIN ticks r ON r.ts > l.ts - INTERVAL 2 SECONDS", False),
    "the same side twice": ("ticks l JOIN ticks r ON r.ts > l.ts - INTERVAL 2 SECONDS AND r.ts >= l.ts AND l.n = r.n", False),
    "either": ("ticks l JOIN ticks r ON r.ts > l.ts OR r.ts < l.ts", False),
    "not": (f"ticks l JOIN ticks r ON NOT ({BETWEEN})", False),
    "another column": (f"ticks l JOIN {LATER} ON r.late BETWEEN l.ts - INTERVAL 2 SECONDS AND l.ts + INTERVAL 1 SECOND", False),
    "another column beside it": (f"ticks l JOIN {LATER} ON {BETWEEN} AND r.late > l.ts", False),
    "a table's column": ("(SELECT ticks.*, at FROM ticks JOIN VALUES ('k0', TIMESTAMP '2026-01-01') AS v(symbol, at) USING (symbol)) l JOIN ticks r ON r.ts BETWEEN l.at AND l.at + INTERVAL 1 SECOND", False),
    "moved, and equal": ("ticks l JOIN ticks r ON l.ts = r.ts - INTERVAL 2 SECONDS", False),
    "months": ("ticks l JOIN ticks r ON r.ts BETWEEN l.ts AND l.ts + INTERVAL 1 MONTH", False),
    "full outer": (f"ticks l FULL OUTER JOIN ticks r ON {BETWEEN}", False),
    "three": (f"(SELECT l.* FROM ticks l JOIN ticks r ON {BETWEEN}) l JOIN ticks r ON {BETWEEN}", False),
    "a side of two streams": (f"(SELECT * FROM ticks UNION ALL SELECT * FROM ticks) l JOIN ticks r ON {BETWEEN}", False),
    "two columns of a watermark": ("(SELECT *, window_time(window(ts, '1 hour')) AS w FROM ticks) l JOIN ticks r ON r.ts BETWEEN l.w AND l.w + INTERVAL 1 SECOND", False),
}


def test_joins_of_streams(spark, tmp_path):
    stream(spark, tmp_path).createOrReplaceTempView("ticks")
    wide = ", ".join(f"n AS n{i}" for i in range(40))
    named = {**JOINS, "wide": (f"(SELECT *, {wide} FROM ticks) l JOIN ticks r ON {BETWEEN}", True)}
    told = {name: not unbounded(analysed(spark.sql(f"SELECT count_if(r.n > l.n) AS c FROM {joined}".replace("r.n > l.n", "l.n > 0")))) for name, (joined, _) in named.items()}
    assert told == {name: bounded for name, (_, bounded) in named.items()}
    assert spark.conf.get("spark.sql.debug.maxToStringFields") == "25"


def test_a_join_of_tables_is_none_of_streams(spark, tmp_path):
    stream(spark, tmp_path).createOrReplaceTempView("ticks")
    plan = analysed(spark.sql("SELECT * FROM ticks JOIN (SELECT * FROM VALUES (1) AS a(n) JOIN VALUES (1) AS b(n) USING (n)) USING (n)"))
    assert unbounded(plan) == [] and sum(node.name == "Join" for node in plan.below()) == 2 and not any(node.keeps_state for node in plan.below())


TEXT = """~WithCTE
:- ~CTERelationDef 4, false
:  +- ~SubqueryAlias m
:     +- ~EventTimeWatermark ts#1: timestamp, 10 seconds
:        +- StreamingRelation FileSource[x], [a#0, ts#1]
:- ~CTERelationDef 5, false
:  +- ~Distinct
:     +- StreamingRelation FileSource[x], [a#0, ts#1]
+- ~Union false, false
   :- ~Filter (a#0 = one
two)
   :  +- ~CTERelationRef 4, true, [a#0]
   +- ~CTERelationRef 4, true, [a#0]
"""


def test_nodes():
    """Definitions stand where they are read, what nothing reads is not there, and a text of several lines is one node's."""
    plan = read(TEXT)
    read_there = ["CTERelationRef", "SubqueryAlias", "EventTimeWatermark", "StreamingRelation"]
    assert [node.name for node in plan.below()] == ["WithCTE", "Union", "Filter", *read_there, *read_there]
    assert plan.children[0].children[0].text == "(a#0 = one\ntwo)" and plan.streams
    table = read("Project [1 AS x#0]\n+- OneRowRelation")
    assert [node.name for node in table.below()] == ["Project", "OneRowRelation"] and not table.streams
    joined = read("Join Inner, (scalar-subquery#1 [] = a#2)\n:  +- Union\n:     :- OneRowRelation\n:     +- OneRowRelation\n:- Range\n+- Project [a#2]\n   +- Range")
    assert [node.name for node in joined.below()] == ["Join", "Range", "Project", "Range"] and len(joined.children) == 2
    twice = read("EventTimeWatermark b#2: timestamp, 1 seconds\n+- EventTimeWatermark a#1: timestamp, 1 seconds\n   +- StreamingRelation FileSource[x], [a#1, b#2]")
    assert watermarks(twice) == ["b"] and watermarks(plan) == ["ts", "ts"]


LEFT, RIGHT = "ts#1-T10000ms", "ts#2-T10000ms"
BOTH = {"above", "below"}


@pytest.mark.parametrize("condition, bounds", [
    (f"((x#3 = y#4) AND between({RIGHT}, cast({LEFT} - INTERVAL '02' SECOND as timestamp), cast({LEFT} + INTERVAL '01' SECOND as timestamp)))", BOTH),
    (f"(({RIGHT} > {LEFT}) AND ({RIGHT} < cast({LEFT} + INTERVAL '1' DAY as timestamp)))", BOTH),
    (f"({LEFT} = {RIGHT})", BOTH), (f"({LEFT} = cast({RIGHT} - INTERVAL '02' SECOND as timestamp))", set()),
    (f"({RIGHT} > {LEFT})", {"above"}), (f"({LEFT} < {RIGHT})", {"above"}), (f"({LEFT} > {RIGHT})", {"below"}), (f"({RIGHT} <= {LEFT})", {"below"}),
    (f"(({RIGHT} > cast({LEFT} - INTERVAL '02' SECOND as timestamp)) AND ({RIGHT} >= {LEFT}))", {"above"}),
    (f"between({RIGHT}, {LEFT}, cast({LEFT} + INTERVAL '1' MONTH as timestamp))", set()), (f"({LEFT} = late#9)", set()), (f"(zs#9-T10000ms >= {RIGHT})", set()),
    (f"({LEFT} >= at#1-T10000ms)", set()), (f"(({LEFT} < {RIGHT}) OR ({LEFT} > {RIGHT}))", set()), (f"(({LEFT} < {RIGHT}) OR ((x#3 = y#4) AND ({LEFT} > {RIGHT})))", set()),
])  # fmt: skip
def test_bounds(condition, bounds):
    """What the parts of a join's condition say of the left side's time by the right side's."""
    assert set().union(*(_bounds(part, frozenset(["1"]), frozenset(["2"])) for part in _parts(condition))) == bounds
