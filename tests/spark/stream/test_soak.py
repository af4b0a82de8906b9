"""Keys that come and go for long, in clauses of all kinds: the state stays as large as the keys of a while, and is nothing in the
end."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("pyspark")

from tests.spark.stream.test_streams import put, rocksdb, stream  # noqa: E402, F401

ANY = "EVENT SELECTION SKIP TILL ANY MATCH"
SIZE = "WINDOW INTERVAL '20' SECONDS"
NEAR = "DEFINE A AS price < 3, B AS price > 5, C AS price > 6"
# nothing of these is kept for ever; where PREV looks at a row, or rows have positions or matches numbers, something is
LONG = {
    "pairs": "MEASURES LAST(n) AS b EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B) WINDOW INTERVAL '1' MINUTE DEFINE A AS price < 4, B AS price > 6",
    "rows in no match": f"MEASURES count(*) AS b ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B+) {SIZE} DEFINE A AS price < 5, B AS price > A.price",
    "negation": f"MEASURES LAST(n) AS b {ANY} ALL MATCHES PATTERN (A ~N C) {SIZE} DEFINE A AS price < 2, N AS price = 4, C AS price > 7",
    "numbers": f"MEASURES MATCH_COUNT() AS b {ANY} PATTERN (A B+ C ~N) {SIZE} DEFINE A AS price < 3, C AS price > 7, N AS price = 5",
    "bundles": f"MEASURES MATCH_COUNT() AS b PATTERN (A B C ~N) {SIZE} APPROX 1 MATCH BUNDLES {NEAR}, N AS price = 4",
    "budget": f"MEASURES CHECKS_LEFT_OUT() AS b PATTERN (A B C) {SIZE} APPROX 1 BUDGET 2 CHECKS {NEAR}",
    "budget, a negation": f"MEASURES CHECKS_LEFT_OUT() AS b PATTERN (A B C ~N) {SIZE} APPROX 1 BUDGET 2 CHECKS {NEAR}, N AS price = 4",
    "top": f"MEASURES LAST(n) AS b {ANY} PATTERN (A B) {SIZE} SLIDE INTERVAL '7' SECONDS PREF MAX (A.price + B.price) TOP 2 DEFINE A AS price > 2",
    "top, one for each first row": f"MEASURES LAST(n) AS b {ANY} FIRST MATCH PATTERN (A B+ ~N) {SIZE} SLIDE INTERVAL '7' SECONDS PREF MAX (sum(price)) TOP 2 DEFINE A AS price > 2, B AS price > A.price, N AS price = 0",
    "automaton": f"MEASURES falls AS b AUTOMATON (REGISTER falls INT = 0, last INT STATE q1 IGNORE WHEN price < 9, q2 FINAL ARC FROM q0 TO q1 WHEN price > 6 SET last = price "
    f"ARC FROM q1 TO q1 WHEN price <= last SET falls = falls + 1, last = price ARC FROM q1 TO q2 ON EXPIRY) {SIZE}",
    "changes": f"MEASURES CHANGE() AS change, LAST(n) AS b {ANY} ALL MATCHES CHANGES IN op REPORT CHANGES PATTERN (A B C) {SIZE} DEFINE A AS price < 2, B AS price > 6, C AS price < A.price + 3",
}
BATCHES, WIDTH, EACH = 26, 80, 160
GAUGES = ("openKeys", "keptRows", "pendingRows", "stateBytes")


@pytest.mark.slow
def test_clauses_of_all_kinds_let_their_keys_go(spark, tmp_path):
    """One query of all of them; each operator's figures by the progress of its micro-batches."""
    source, rng, live = tmp_path / "in", random.Random(5), []
    source.mkdir()
    for number in range(BATCHES):
        rows = [
            {"symbol": f"{rng.randint(0, WIDTH) + number * WIDTH // 4}", "at": 1 + 30 * number + rng.randint(0, 29), "n": number * EACH + i, "price": rng.randint(0, 9), "f": None}
            for i in range(EACH)
        ]
        gone = [row | {"f": -1.0} for row in rng.sample(live, min(12, len(live))) if row["at"] > 30 * number - 5]
        live = rows
        put(source, number, rows + gone)
    for number, far in ((BATCHES, 10), (BATCHES + 1, 20)):
        put(source, number, [{"symbol": "last", "at": far * BATCHES * 30, "n": 0, "price": 0, "f": None}])
    stream(spark, source).createOrReplaceTempView("ticks_changes")
    parts = []
    for name, clause in LONG.items():
        rows = "(SELECT symbol, ts, n, price, IF(f < 0, 'retract', NULL) AS op FROM ticks_changes)" if name == "changes" else "(SELECT symbol, ts, n, price FROM ticks_changes WHERE f IS NULL)"
        parts.append(f"SELECT '{name}' AS name, b FROM {rows} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n {clause})")
    query = spark.sql(" UNION ALL ".join(parts)).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    try:
        running = query.trigger(availableNow=True).start()
        running.awaitTermination()
    finally:
        spark.conf.unset("spark.sql.streaming.numRecentProgressUpdates")
        spark.conf.set("spark.sql.shuffle.partitions", before)
    progress = running.recentProgress
    assert len(progress) > BATCHES and all(len(p["stateOperators"]) == len(LONG) for p in progress)
    for place in range(len(LONG)):
        operators = [p["stateOperators"][place] for p in progress]
        counted = [operator["customMetrics"] for operator in operators]
        middle, end = counted[6:14], counted[14:BATCHES]
        for name in GAUGES:
            most = [max(c[name] for c in some) for some in (middle, end)]
            assert 0 < most[1] < 1.5 * most[0], (place, name, most)
        assert sum(c["matches"] for c in counted) > 50, place
        # of the row that moved the watermark on last nothing is released; a clause that no variable of which wants it has none
        last = counted[-1]
        assert last["keptRows"] == 0 and last["openKeys"] == last["pendingRows"] <= 1, (place, last)
        assert last["stateBytes"] < 1000 and operators[-1]["numRowsTotal"] <= 3, (place, operators[-1])
