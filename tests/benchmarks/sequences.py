"""TOP k over named sequences on Spark: Figure 1.1 and ``{[S7&S8];S9}`` of CPR, against listing and sorting, and a self join.

The three ways take turns in one session over a cached table, and must give the same scores. Sizes double, so the growth is visible.
"""

from __future__ import annotations

import statistics
import time

from .query import session

SIZES = (25_000, 50_000, 100_000, 200_000)
HOUR = 3600

# 20 purchases an hour on 10 cards
PURCHASES = """SELECT id * 180 AS at, CAST(pmod(xxhash64(id, 2), 10) AS INT) AS ccid, element_at(array('A', 'B', 'C', 'D', 'E'),
  CAST(pmod(xxhash64(id), 5) AS INT) + 1) AS brand, CAST(pmod(xxhash64(id, 1), 1000) AS INT) AS exp FROM range({rows})"""
_LETTERS = "A AS brand = 'A', B AS brand = 'B' AND ccid = A.ccid, C AS brand = 'C' AND ccid = B.ccid, D AS brand = 'D' AND ccid = A.ccid, E AS brand = 'E' AND ccid = D.ccid"
FIGURE = f"""SELECT since, score FROM input MATCH_RECOGNIZE (
  ORDER BY at MEASURES WINDOW_START() AS since, MATCH_SCORE() AS score
  EVENT SELECTION SKIP TILL ANY MATCH
  SEQUENCE S1 AS (A B C) WITHIN {10 * HOUR} UPDATE {5 * HOUR} PREF MAX (A.exp + B.exp + C.exp) AS spent AND MIN (C.at - A.at) AS took
  SEQUENCE S2 AS (D E) WITHIN {8 * HOUR} UPDATE {5 * HOUR} PREF MAX (D.exp + E.exp) AS spent
  PATTERN (S1 & S2) WINDOW {10 * HOUR} SLIDE {5 * HOUR} PREF MAX (S1.spent + S2.spent) AND MIN (S1.took) TOP 10
  DEFINE {_LETTERS})"""
_WINDOWS = """SELECT since, score FROM (
  SELECT since, score, row_number() OVER (PARTITION BY since ORDER BY score DESC) AS n
  FROM (SELECT *, {step} * floor((last - {size}) / {step} + 1) AS low, {step} * floor(first / {step}) AS high FROM ({matches}))
  LATERAL VIEW explode(sequence(low, greatest(low, high), {step})) AS since WHERE since <= high AND {kept}) WHERE n <= {k}"""
_SHOPPING = dict(size=10 * HOUR, step=5 * HOUR, k=10, kept=f"d >= since + {2 * HOUR}")
FIGURE_LISTED = _WINDOWS.format(matches=f"""SELECT * FROM input MATCH_RECOGNIZE (
  ORDER BY at MEASURES A.exp + B.exp + C.exp + D.exp + E.exp - (C.at - A.at) AS score, FIRST(at) AS first, LAST(at) AS last, D.at AS d
  EVENT SELECTION SKIP TILL ANY MATCH PATTERN ((A B C) & (D E)) WINDOW {10 * HOUR} DEFINE {_LETTERS})""", **_SHOPPING)
FIGURE_JOINED = _WINDOWS.format(matches=f"""SELECT a.exp + b.exp + c.exp + d.exp + e.exp - (c.at - a.at) AS score, least(a.at, d.at) AS first, greatest(c.at, e.at) AS last, d.at AS d
  FROM input a JOIN input b ON a.ccid = b.ccid AND b.at > a.at AND b.at < a.at + {10 * HOUR}
  JOIN input c ON a.ccid = c.ccid AND c.at > b.at AND c.at < a.at + {10 * HOUR}
  JOIN input d ON a.ccid = d.ccid AND d.at > c.at - {10 * HOUR} AND d.at < a.at + {10 * HOUR}
  JOIN input e ON a.ccid = e.ccid AND e.at > d.at AND e.at < least(a.at, d.at) + {10 * HOUR}
  WHERE a.brand = 'A' AND b.brand = 'B' AND c.brand = 'C' AND d.brand = 'D' AND e.brand = 'E'""", **_SHOPPING)

# 5 motes, one reading at a time; classes of temperature changes of Table 4.1
CHANGES = """SELECT id AS epoch, CAST(pmod(xxhash64(id, 2), 5) AS INT) AS mote, element_at(array('G', 'H', 'J', 'K', 'L', 'M', 'I', 'N', 'O'),
  CAST(pmod(xxhash64(id), 9) AS INT) + 1) AS class, CAST(pmod(xxhash64(id, 1), 1000) AS INT) AS dist FROM range({rows})"""
_CLASSES = """EG AS class = 'G', EH AS class = 'H' AND mote = EG.mote, EJ AS class = 'J' AND mote = EH.mote,
    EK AS class = 'K' AND mote BETWEEN EG.mote - 1 AND EG.mote + 1, EL AS class = 'L' AND mote = EK.mote, EM AS class = 'M' AND mote = EL.mote,
    EI AS class = 'I' AND mote BETWEEN EK.mote - 1 AND EK.mote + 1, EN AS class = 'N' AND mote = EI.mote, EO AS class = 'O' AND mote = EN.mote"""
def _chain(letters: str, names: str, size: int) -> str:
    """A self join of three readings of one mote in the same window."""
    a, b, c = names
    return (
        f"(SELECT {a}.epoch DIV {size} AS w, {a}.mote, {a}.epoch AS {a}, {c}.epoch AS {c}, {a}.dist + {b}.dist + {c}.dist AS sum FROM input {a} "
        f"JOIN input {b} ON {a}.mote = {b}.mote AND {a}.epoch DIV {size} = {b}.epoch DIV {size} AND {b}.epoch > {a}.epoch "
        f"JOIN input {c} ON {a}.mote = {c}.mote AND {a}.epoch DIV {size} = {c}.epoch DIV {size} AND {c}.epoch > {b}.epoch "
        f"WHERE {a}.class = '{letters[0]}' AND {b}.class = '{letters[1]}' AND {c}.class = '{letters[2]}')"
    )


def _queues(size: int) -> dict[str, str]:
    """The three ways of ``{[S7&S8];S9}`` over windows of some readings."""
    clause = f"""SELECT since, score FROM input MATCH_RECOGNIZE (
  ORDER BY epoch MEASURES WINDOW_START() AS since, MATCH_SCORE() AS score
  EVENT SELECTION SKIP TILL ANY MATCH
  SEQUENCE S7 AS (EG EH EJ) PREF MAX (SUM(dist)) SEQUENCE S8 AS (EK EL EM) PREF MAX (SUM(dist)) SEQUENCE S9 AS (EI EN EO) PREF MAX (SUM(dist))
  PATTERN ((S7 & S8) S9) WINDOW {size} SLIDE {size} PREF SEQUENCES COMBINE BY AVG TOP 20
  DEFINE {_CLASSES})"""
    listed = f"""SELECT since, score FROM (SELECT since, score, row_number() OVER (PARTITION BY since ORDER BY score DESC) AS n
    FROM (SELECT *, epoch DIV {size} * {size} AS since FROM input) MATCH_RECOGNIZE (
      PARTITION BY since ORDER BY epoch MEASURES SUM(dist) / 3 AS score
      EVENT SELECTION SKIP TILL ANY MATCH PATTERN (((EG EH EJ) & (EK EL EM)) (EI EN EO))
      DEFINE {_CLASSES})) WHERE n <= 20"""
    joined = f"""SELECT since, score FROM (SELECT s.w * {size} AS since, (s.sum + t.sum + u.sum) / 3 AS score,
      row_number() OVER (PARTITION BY s.w ORDER BY s.sum + t.sum + u.sum DESC) AS n
    FROM {_chain("GHJ", "abc", size)} s JOIN {_chain("KLM", "def", size)} t ON s.w = t.w AND t.mote BETWEEN s.mote - 1 AND s.mote + 1
    JOIN {_chain("INO", "ghi", size)} u ON s.w = u.w AND u.mote BETWEEN t.mote - 1 AND t.mote + 1 AND u.g > s.c AND u.g > t.f) WHERE n <= 20"""
    return {"clause": clause, "listed": listed, "self join": joined}


QUERIES = {
    "Figure 1.1": (PURCHASES, {"clause": FIGURE, "listed": FIGURE_LISTED, "self join": FIGURE_JOINED}),
    "{[S7&S8];S9} in windows of 100 readings": (CHANGES, _queues(100)),
    "{[S7&S8];S9} in windows of 300 readings": (CHANGES, _queues(300)),
}


def run(repeats: int = 3, sizes: tuple[int, ...] = SIZES, queries: tuple[str, ...] = tuple(QUERIES), most_listed: int = SIZES[-1]) -> dict:
    """Medians of seconds, by query, size and way. Above ``most_listed`` rows only the clause runs."""
    spark, found = session(), {}
    try:
        for name in queries:
            data, ways = QUERIES[name]
            found[name] = {}
            print(f"\n{name}: medians of {repeats} runs in turn, seconds\n{'rows':>10}" + "".join(f"{way:>12}" for way in ways))
            for rows in sizes:
                spark.sql(data.format(rows=rows)).createOrReplaceTempView("input")
                spark.catalog.cacheTable("input")
                some = ways if rows <= most_listed else {"clause": ways["clause"]}
                found[name][rows] = _in_turn(spark, some, repeats)
                print(f"{rows:>10,}" + "".join(f"{found[name][rows][way]:>12.2f}" for way in some), flush=True)
                spark.catalog.uncacheTable("input")
    finally:
        spark.stop()
    return found


def _in_turn(spark, ways: dict[str, str], repeats: int) -> dict[str, float]:
    """The medians of the times of each way; the first run of each does not count. All must give the same scores."""
    times: dict[str, list[float]] = {way: [] for way in ways}
    answers = {}
    for turn in range(repeats + 1):
        for way, query in ways.items():
            start = time.perf_counter()
            answers[way] = sorted((row[0], round(float(row[1]), 6)) for row in spark.sql(query).collect())
            if turn:
                times[way].append(time.perf_counter() - start)
    first = next(iter(answers.values()))
    if any(found != first for found in answers.values()):
        raise AssertionError({way: (len(found), found[:3]) for way, found in answers.items()})
    return {way: statistics.median(seconds) for way, seconds in times.items()}
