"""The shapes that Spark's window functions can express, as SQL: gaps and islands, lag and lead."""

from __future__ import annotations


def vs(table: str, keys: str = "symbol") -> str:
    """V shapes that do not overlap.

    A run that falls and the run that rises behind it are a V. If the run before them is the rise of another V, and that V is a
    match, its last row is taken: then the fall must have a further row to begin with. So in a chain of Vs those whose fall has one
    row alternate, counted from the last one that is a match anyway.
    """
    w = f"WINDOW w AS (PARTITION BY {keys} ORDER BY ts)"
    return f"""
WITH moved AS (
  SELECT {keys}, ts, price, sign(price - lag(price) OVER w) AS way FROM {table} {w}
), turned AS (
  SELECT *, CASE WHEN way <=> lag(way) OVER w THEN 0 ELSE 1 END AS turn FROM moved {w}
), numbered AS (
  SELECT *, sum(turn) OVER (PARTITION BY {keys} ORDER BY ts ROWS UNBOUNDED PRECEDING) AS run FROM turned
), runs AS (
  SELECT {keys}, run, first(way) AS way, count(*) AS n, min(ts) AS first_ts, max(ts) AS last_ts, max(price) AS first_price,
    CASE WHEN first(way) = -1 THEN min(price) ELSE max(price) END AS last_price
  FROM numbered GROUP BY {keys}, run
), beside AS (
  SELECT *, lag(last_ts) OVER v AS before_ts, lag(last_price) OVER v AS before_price, lead(way) OVER v AS next_way,
    lead(last_ts) OVER v AS end_ts, lead(last_price) OVER v AS end_price,
    coalesce(lag(way) OVER v = 1 AND lag(way, 2) OVER v = -1, false) AS chained
  FROM runs WINDOW v AS (PARTITION BY {keys} ORDER BY run)
), placed AS (
  SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY run) AS place FROM beside WHERE way = -1 AND next_way = 1
), told AS (
  SELECT *, (place - max(CASE WHEN NOT chained OR n > 1 THEN place END) OVER (PARTITION BY {keys} ORDER BY run ROWS UNBOUNDED PRECEDING)) % 2 = 0
    AS matched
  FROM placed
), taken AS (
  SELECT *, coalesce(chained AND lag(matched) OVER (PARTITION BY {keys} ORDER BY run), false) AS cut FROM told
)
SELECT {keys}, if(cut, first_ts, before_ts) AS start_ts, last_ts AS bottom_ts, end_ts, if(cut, first_price, before_price) AS start_price,
  last_price AS bottom_price, end_price
FROM taken WHERE matched"""


def islands(source: str, begins: str, found: str, *, where: str = "true", having: str = "true") -> str:
    """Groups that begin at each row that fulfils ``begins``; ``found``: what is told of each."""
    return f"""
SELECT symbol, {found} FROM (
  SELECT *, sum(CASE WHEN {begins} THEN 1 ELSE 0 END) OVER (PARTITION BY symbol ORDER BY ts ROWS UNBOUNDED PRECEDING) AS island FROM {source}
) WHERE {where} GROUP BY symbol, island HAVING {having}"""


def beside(columns: str, more: str) -> str:
    """The ticks with values of neighbours: ``more`` over the window w."""
    return f"(SELECT {columns}, {more} FROM ticks WINDOW w AS (PARTITION BY symbol ORDER BY ts))"


RARE = f"""
SELECT symbol, ts AS start_ts, end_ts, price AS start_price, second AS end_price
FROM {beside("symbol, ts, price, volume", "lead(price) OVER w AS first, lead(price, 2) OVER w AS second, lead(ts, 2) OVER w AS end_ts")}
WHERE volume = 10000 AND first < price AND second > first"""

PEAKS = f"""
SELECT symbol, ts AS peak_ts, b1 AS before, price AS peak, f2 AS behind
FROM {beside("symbol, ts, price", "lag(price) OVER w AS b1, lag(price, 3) OVER w AS b3, lead(price) OVER w AS f1, lead(price, 2) OVER w AS f2")}
WHERE price > b1 AND price > b3 AND f1 < price AND f1 > f2"""

SESSIONS = islands(
    beside("symbol, ts, volume", "lag(ts) OVER w AS before"),
    "ts - before > 30",
    "min(ts) AS start_ts, max(ts) AS end_ts, count(*) AS events, sum(volume) AS volume",
)

RANGES = islands(
    "(SELECT *, max(ends) OVER (PARTITION BY symbol ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS so_far FROM"
    " (SELECT symbol, ts, ts + volume % 5 AS ends FROM ticks))",
    "ts > so_far",
    "min(ts) AS start_ts, max(ends) AS end_ts, count(*) AS ranges",
)

STREAKS = islands(
    beside("symbol, ts, price", "coalesce(price > lag(price) OVER w, false) AS up"),
    "NOT up",
    "min(ts) AS start_ts, max(ts) AS end_ts, count(*) AS n, max(price) - min(price) AS gain",
    where="up",
    having="count(*) >= 5",
)

# of an island, up to its last jump, if there is a row before that
JUMPS = islands(
    beside("symbol, ts, price", "price - lag(price) OVER w AS step"),
    "NOT coalesce(step >= 0, false)",
    "min(ts) AS start_ts, max(ts) FILTER (WHERE step > 100) AS end_ts",
    where="step >= 0",
    having="max(ts) FILTER (WHERE step > 100) > min(ts)",
)


def after(first: int, low: int, high: int) -> str:
    """Rows with a volume between ``low`` and ``high`` behind one with at most ``first``."""
    return islands(
        "(SELECT symbol, ts, volume FROM ticks)",
        f"volume NOT BETWEEN {low} AND {high}",
        "min(ts) AS start_ts, max(ts) AS end_ts, count(*) AS n",
        having=f"min(volume) <= {first} AND count(*) > 1",
    )
