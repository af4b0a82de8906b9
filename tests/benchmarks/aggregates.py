"""Aggregates of long matches beside Spark's window functions, which take turns with them: of ALL ROWS PER MATCH over one match of
many rows, and of matches that overlap, one from each row."""

from __future__ import annotations

import statistics
import time

from .query import session

ROWS = "SELECT id, pmod(xxhash64(id), 100000) AS x, pmod(xxhash64(id, 1), 1000) / 8 AS y, CAST(pmod(xxhash64(id, 2), 50) AS STRING) AS s FROM range({rows})"
CLAUSE = "SELECT * FROM rows MATCH_RECOGNIZE (ORDER BY id MEASURES {call} AS v ALL ROWS PER MATCH PATTERN (A+))"
WINDOW = "SELECT *, {call} OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS v FROM rows"
SIZES = (25_000, 50_000, 100_000, 200_000)

# the call, and the same as a window function where Spark has it there
CALLS = {
    "stddev(x)": "stddev(x)",
    "FINAL stddev(x)": "avg(x)",
    "max_by(s, x)": "max_by(s, x)",
    "corr(x, y)": "corr(x, y)",
    "bit_xor(x)": "bit_xor(x)",
    "approx_count_distinct(x)": "approx_count_distinct(x)",
    "histogram_numeric(x, 10)": "histogram_numeric(x, 10)",
    "collect_set(s)": "collect_set(s)",
    "count(DISTINCT x)": "",
    "sum(DISTINCT x)": "",
    "median(x)": "",
    "percentile_disc(0.9) WITHIN GROUP (ORDER BY y)": "",
    "mode() WITHIN GROUP (ORDER BY x)": "",
}

OVERLAPPING = "SELECT * FROM rows MATCH_RECOGNIZE (ORDER BY id MEASURES {call} AFTER MATCH SKIP TO NEXT ROW PATTERN (A+) DEFINE A AS x >= 0)"
FROM_THE_END = "SELECT {call} FROM rows WINDOW w AS (ORDER BY id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
# measures of overlapping matches, and the window functions over the rows in reverse order
OVERLAPS = {
    "count(*) AS n": "count(*) OVER w AS n",
    "count(*) AS n, sum(x) AS s, min(x) AS a, max(x) AS b": "count(*) OVER w AS n, sum(x) OVER w AS s, min(x) OVER w AS a, max(x) OVER w AS b",
    "FIRST(x) AS f, LAST(x) AS l": "x AS f, first(x) OVER w AS l",
    "sum(y) AS s": "sum(y) OVER w AS s",
}


def run(repeats: int = 3, sizes: tuple[int, ...] = SIZES) -> dict:
    """Medians of seconds by call and number of rows, and their ratio to the window function's."""
    spark = session()
    for size in sizes:
        spark.sql(ROWS.format(rows=size)).cache().createOrReplaceTempView(f"rows{size}")
        spark.table(f"rows{size}").count()

    def seconds(text: str, size: int) -> float:
        begin = time.perf_counter()
        spark.sql(text.replace("FROM rows", f"FROM rows{size}")).write.format("noop").mode("overwrite").save()
        return time.perf_counter() - begin

    found: dict = {}
    statements = {call: (CLAUSE.format(call=call), window and WINDOW.format(call=window)) for call, window in CALLS.items()}
    statements |= {f"overlapping: {call}": (OVERLAPPING.format(call=call), FROM_THE_END.format(call=window)) for call, window in OVERLAPS.items()}
    for call, pair in statements.items():
        texts = [text for text in pair if text]
        for text in texts:
            seconds(text, sizes[0])
        found[call] = {}
        for size in sizes:
            rounds = [[seconds(text, size) for text in texts] for _ in range(repeats)]
            ours, *theirs = map(statistics.median, zip(*rounds))
            found[call][size] = {"seconds": round(ours, 2), **({"to the window function": round(ours / theirs[0], 2)} if theirs else {})}
        print(f"{call}: {found[call]}", flush=True)
    return found
