"""What stands above a clause over a stream: one column alone, counts, filters, a join with a table; against the same over the
table."""

from __future__ import annotations

import random
from collections import Counter

import pytest

pytest.importorskip("pyspark")

from tests.spark.test_streams import ENDS, SCHEMA, closing, pieces, put, ran, rocksdb, rows_of, stream, waiting, written  # noqa: E402, F401

OF_ROWS = "SELECT symbol, z, string({value}) AS value FROM {{t}} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES {measures})"
PAIRS = (
    "(SELECT l.symbol, l.ts, l.n, l.price, r.price AS other FROM {t} l LEFT JOIN {t} r ON l.symbol = r.symbol AND r.n % 3 = 0 "
    "AND r.ts BETWEEN l.ts - INTERVAL 2 SECONDS AND l.ts + INTERVAL 1 SECOND)"
)
ANCHORED = "PATTERN ((^ A | D) B C) WINDOW INTERVAL '9' SECONDS DEFINE B AS price >= 5, C AS price > B.price, D AS price = 8"


def _whole(text: str) -> str:
    """The statement with its columns symbol, z and value."""
    return text.replace("AS value FROM", "AS value, symbol, z FROM", 1)


FAMILIES = {
    "numbers": _whole(ENDS["anchored"]).replace(" WHERE symbol <> 'k1'", ""),
    "graphs": OF_ROWS.format(value="size(g)", measures=f"LAST(ts) AS z, MATCH_GRAPH() AS g EVENT SELECTION SKIP TILL ANY MATCH {ANCHORED}"),
    "no match": ENDS["unmatched"].replace("AS value FROM", "AS value, symbol, ts AS z FROM"),
    "bundles": OF_ROWS.format(
        value="k", measures="BUNDLE_END() AS z, MATCH_COUNT() AS k PATTERN (A B C ~N) WINDOW INTERVAL '3' SECONDS APPROX 1 MATCH BUNDLES "
        "DEFINE A AS price < 2, B AS price > 7, C AS price > A.price + 5, N AS price = 4 AND n > 0",
    ),
    "budget": _whole(ENDS["budget"]).replace(" WHERE symbol <> 'k1'", ""),
    "top, one for each first row": f"SELECT symbol, z, string(x) AS value FROM ({waiting('first', '{t}')})",
    "top, negation": OF_ROWS.format(
        value="x", measures="LAST(ts) AS z, sum(price) AS x EVENT SELECTION SKIP TILL ANY MATCH PATTERN (~N A B ~M) WINDOW INTERVAL '6' SECONDS SLIDE INTERVAL '4' SECONDS "
        "PREF MAX (sum(price)) TOP 2 DEFINE N AS price = 0, A AS price > 3, M AS price = 9",
    ),
    "top, ahead": f"SELECT symbol, z, string(x) AS value FROM ({waiting('ahead', '{t}').replace('NULL, x', 'x')})",
    "join": OF_ROWS.replace("{{t}}", PAIRS.replace("{", "{{").replace("}", "}}")).replace("ts, n", "ts, n, other, price").format(
        value="s", measures="LAST(ts) AS z, sum(other) AS s PATTERN (A B+) WINDOW INTERVAL '6' SECONDS DEFINE B AS other > PREV(other)"
    ),
}  # fmt: skip
WITHOUT_WATERMARK = ("no match", "bundles", "top, ahead")
ABOVE = {
    "one column": "SELECT value FROM ({m}) WHERE symbol <> 'k1'",
    "a filter of a measure, a table": "SELECT concat(value, ' ', rank) AS value FROM ({m}) JOIN ranks USING (symbol) WHERE length(value) <> 3",
}


def above(families, t: str) -> str:
    """All forms in one query. It has the join of streams twice, with a clause above each."""
    texts = {(name, form): text.format(m=FAMILIES[name].format(t=t)) for name in families for form, text in ABOVE.items()}
    return " UNION ALL ".join(
        f"SELECT '{name}' AS name, '{form}' AS form, value FROM ({text})" for (name, form), text in texts.items()
    )


def counted(families, t: str) -> str:
    """How many rows there are in each time; of them nothing but the time is read."""
    return " UNION ALL ".join(f"SELECT '{name}' AS name, window.start AS s, count(*) AS c FROM ({FAMILIES[name].format(t=t)}) GROUP BY window(z, '20 seconds')" for name in families)


def test_each_family_streams_in_one_row_type(spark, tmp_path):
    stream(spark, tmp_path).createOrReplaceTempView("ticks_stream")
    union = spark.sql(" UNION ALL ".join(f"SELECT symbol, z, value FROM ({text.format(t='ticks_stream')})" for text in FAMILIES.values()))
    assert union.isStreaming and [field.dataType.simpleString() for field in union.schema] == ["string", "timestamp", "string"]


def over_equal_parts(t: str) -> str:
    """Two clauses, each over what keeps a state and is the same for both."""
    clause = "(SELECT DISTINCT symbol, ts, price FROM {t}) MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, price MEASURES LAST(ts) AS z, count(*) AS c PATTERN (A B+) WINDOW INTERVAL '6' SECONDS DEFINE B AS price {op} PREV(price))"
    return " UNION ALL ".join(f"SELECT '{op}' AS name, symbol, z, c FROM {clause.format(t=t, op=op)}" for op in "<>")


def arrived(spark, source, count: int) -> None:
    """So many rows as files of three micro-batches, of which the last ends all keys: a stream and a table of them."""
    rows = rows_of(31, count)
    source.mkdir()
    for number, piece in enumerate([*pieces(rows, random.Random(31), 2), closing(sorted({(row["symbol"], None) for row in rows}, key=str))]):
        put(source, number, piece)
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    spark.read.schema(SCHEMA).json(str(source)).createOrReplaceTempView("ticks_table")


@pytest.mark.further
def test_clauses_over_equal_parts_each_have_a_watermark(spark, tmp_path):
    arrived(spark, tmp_path / "in", 150)
    ran(spark.sql(over_equal_parts("ticks_stream")), tmp_path)
    wanted = spark.sql(over_equal_parts("ticks_table")).collect()
    assert written(spark, tmp_path) == sorted(map(str, wanted)) and {row.name for row in wanted} == {"<", ">"}
    assert spark.conf.get("spark.sql.exchange.reuse") == "true"


@pytest.mark.slow
def test_forms_above_a_clause(spark, tmp_path):
    arrived(spark, tmp_path / "in", 260)
    spark.sql("SELECT * FROM VALUES ('k0', 1), ('k1', 2), ('a longer key 3', 3), ('nowhere', 4) AS r(symbol, rank)").createOrReplaceTempView("ranks")
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")  # each clause is an operator of its own
    ran(spark.sql(above(FAMILIES, "ticks_stream")), tmp_path)
    timed = [name for name in FAMILIES if name not in WITHOUT_WATERMARK]
    ran(spark.sql(counted(timed, "ticks_stream")), tmp_path, "counted")
    whole = " UNION ALL ".join(f"SELECT '{name}' AS name, symbol, z, value FROM ({FAMILIES[name].format(t='ticks_stream')})" for name in WITHOUT_WATERMARK)
    of_batches: Counter = Counter()

    def count(frame, number):
        of_batches.update({name: c for name, c in frame.groupBy("name").count().collect()})
        of_batches["all"] += frame.count()
        of_batches["k0"] += frame.where("symbol = 'k0'").count()

    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        query = spark.sql(whole).writeStream.foreachBatch(count).option("checkpointLocation", str(tmp_path / "batches.checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()
        wanted = spark.sql(above(FAMILIES, "ticks_table")).collect()
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert written(spark, tmp_path) == sorted(map(str, wanted))
    told = Counter((row.name, row.form) for row in wanted)
    assert all(told[name, form] > 2 for name in FAMILIES for form in ABOVE), told
    windows = [row for row in spark.sql(counted(timed, "ticks_table")).collect()]
    assert written(spark, tmp_path, "counted") == sorted(map(str, windows)) and {row.name for row in windows} == set(timed)
    answer = spark.sql(whole.replace("ticks_stream", "ticks_table")).collect()
    numbers = Counter(row.name for row in answer) + Counter({"all": len(answer), "k0": sum(row.symbol == "k0" for row in answer)})
    assert of_batches == numbers and all(numbers[name] > 2 for name in WITHOUT_WATERMARK)
