"""TOP k on Spark where conditions are beyond the ranked joins, against the self join that it replaces; and a ranked conjunction
with and without windows of its sides.

The clause, the self join with ORDER BY and LIMIT, and the number of the same matches take turns in one session.
"""

from __future__ import annotations

import statistics
import time

from .query import session

BIG = """SELECT id AS t, element_at(array('a', 'b', 'c'), CAST(pmod(xxhash64(id), 3) AS INT) + 1) AS c, CAST(pmod(xxhash64(id, 1), 5) AS INT) AS m,
  CAST(pmod(xxhash64(id, 2), 1000) AS INT) AS x FROM range({rows})"""

# name: rows, condition of C as the clause and as the join have it
CONDITIONS = {
    "C.m in a band that is no equality": (1500, "abs(m - A.m) < 1", "abs(c.m - a.m) < 1"),
    "C.x > A.x": (1100, "x > A.x", "c.x > a.x"),
}

CLAUSE = """SELECT {measures} FROM big MATCH_RECOGNIZE (ORDER BY t MEASURES {inside}
  EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B C) {best} DEFINE A AS c = 'a', B AS c = 'b', C AS c = 'c' AND {condition})"""
BEST = "PREF MAX ({score}) TOP 3"
SCORES = {"a sum": ("A.x + B.x + C.x", "a.x + b.x + c.x"), "no sum": ("A.x * B.x - abs(C.x - A.x)", "a.x * b.x - abs(c.x - a.x)")}
JOIN = """SELECT a.t AS a, b.t AS b, c.t AS c, {score} AS score FROM big a JOIN big b ON a.t < b.t JOIN big c ON b.t < c.t
  WHERE a.c = 'a' AND b.c = 'b' AND c.c = 'c' AND {condition} ORDER BY score DESC, a, b, c LIMIT 3"""

SHOPPING = """SELECT since, rank, score, goods FROM purchases MATCH_RECOGNIZE (
  PARTITION BY ccid ORDER BY at
  MEASURES WINDOW_START() AS since, MATCH_RANK() AS rank, MATCH_SCORE() AS score, array_join(array_agg(concat(brand, at)), ' ') AS goods
  EVENT SELECTION SKIP TILL ANY MATCH
  PATTERN ({pattern})
  WINDOW INTERVAL '10' HOUR SLIDE INTERVAL '5' HOUR
  PREF MAX (A.spent + B.spent + C.spent + D.spent + E.spent) AND MIN (unix_timestamp(C.at) DIV 3600 - unix_timestamp(A.at) DIV 3600)
  TOP 2 OVERALL
  DEFINE A AS brand = 'A', B AS brand = 'B', C AS brand = 'C', D AS brand = 'D', E AS brand = 'E'
) ORDER BY since, rank"""
PURCHASES = """SELECT 1 AS ccid, timestamp_ntz'2011-05-06 00:00:00' + make_dt_interval(0, 0, 0, id * 36000 / {count}) AS at,
  element_at(array('A', 'B', 'C', 'D', 'E'), CAST(pmod(xxhash64(id), 5) AS INT) + 1) AS brand, CAST(pmod(xxhash64(id, 1), 1000) AS INT) AS spent FROM range({count})"""
PATTERNS = {
    "with windows of groups": "(A B C) WITHIN INTERVAL '10' HOUR & (D E) WITHIN INTERVAL '8' HOUR",
    "without them": "(A B C) & (D E)",
}


def run(repeats: int = 5) -> dict:
    """Medians of seconds."""
    spark = session()
    try:
        return {"listed": _listed(spark, repeats), "shopping": _shopping(spark, repeats)}
    finally:
        spark.stop()


def _listed(spark, repeats: int) -> dict:
    found = {}
    print(f"\nThe 3 best of matches that conditions keep from the ranked joins: medians of {repeats} runs in turn, seconds")
    print(f"{'':<60}{'matches':>12}{'clause':>9}{'self join':>11}{'counted':>9}")
    for name, (rows, own, joined) in CONDITIONS.items():
        spark.sql(BIG.format(rows=rows)).createOrReplaceTempView("big")
        spark.catalog.cacheTable("big")
        counting = CLAUSE.format(measures="CAST(sum(n) AS BIGINT) AS n", inside="MATCH_COUNT() AS n", best="", condition=own)
        for what, (score, plain) in SCORES.items():
            inside = "A.t AS a, B.t AS b, C.t AS c, MATCH_SCORE() AS score, MATCH_RANK() AS rank"
            clause = CLAUSE.format(measures="a, b, c, score", inside=inside, best=BEST.format(score=score), condition=own) + " ORDER BY rank"
            ways = {"clause": clause, "self join": JOIN.format(score=plain, condition=joined), "counted": counting}
            label = f"{name}, {what}"
            answers, times = _in_turn(spark, ways, repeats)
            if answers["clause"] != answers["self join"]:
                raise AssertionError(f"{label}: {answers}")
            found[label] = {"matches": answers["counted"][0][0]} | times
            print(f"{label:<60}{answers['counted'][0][0]:>12,}{times['clause']:>9.2f}{times['self join']:>11.2f}{times['counted']:>9.2f}", flush=True)
        spark.catalog.uncacheTable("big")
    return found


def _shopping(spark, repeats: int) -> dict:
    found = {}
    print(f"\nFigure 1.1 with so many purchases on one card within 10 hours: medians of {repeats} runs in turn, seconds")
    for count in (60, 120, 200):
        spark.sql(PURCHASES.format(count=count)).createOrReplaceTempView("purchases")
        _, times = _in_turn(spark, {name: SHOPPING.format(pattern=pattern) for name, pattern in PATTERNS.items()}, repeats)
        found[count] = times
        ratio = times["with windows of groups"] / times["without them"]
        print(f"{count:<8}" + "".join(f"{name}: {seconds:.2f}   " for name, seconds in times.items()) + f"{ratio:.2f} times", flush=True)
    return found


def _in_turn(spark, ways: dict[str, str], repeats: int) -> tuple[dict, dict]:
    """What each way gives, and the medians of its times; the first run of each does not count."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    answers = {}
    for turn in range(repeats + 1):
        for name, query in ways.items():
            start = time.perf_counter()
            answers[name] = [tuple(row) for row in spark.sql(query).collect()]
            if turn:
                times[name].append(time.perf_counter() - start)
    return answers, {name: statistics.median(seconds) for name, seconds in times.items()}
