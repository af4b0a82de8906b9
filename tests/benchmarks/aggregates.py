"""Aggregates of long matches beside Spark's window functions, which take turns with them: every aggregate of Spark's under ALL ROWS
PER MATCH over one match of many rows, and those of matches that overlap, one from each row.

The rows of a statement have the plain columns, and the one sketch that its call combines. SELECT * returns all columns, and a table
of a user's has few sketches, which are kilobytes long.

Ratios are of seconds and of processor seconds (the JVM and its workers). The latter are steadier beside other work.
"""

from __future__ import annotations

import re
import statistics
import time

from tests.spark.expressions.aggregate_calls import CALLS, SKETCHES, parts

from .query import session

ROWS = """SELECT id, pmod(xxhash64(id), 100000) AS x, CAST(pmod(xxhash64(id, 3), 100) AS INT) AS k, pmod(xxhash64(id, 1), 1000) / 8 AS y,
  CAST(pmod(xxhash64(id, 2), 50) AS STRING) AS s, id % 3 = 0 AS b, unhex(lpad(hex(id % 250), 2, '0')) AS z, array(CAST(id % 7 AS INT)) AS l, {sketches}
  FROM range({rows}) CROSS JOIN (SELECT {made} FROM (SELECT id AS x, CAST(id AS INT) AS k, id / 8 AS y FROM range(8)))"""
PLAIN = "id, x, k, y, s, b, z, l"
CLAUSE = "SELECT * FROM rows MATCH_RECOGNIZE (ORDER BY id MEASURES {call} AS v ALL ROWS PER MATCH PATTERN (A+))"
WINDOW = "SELECT *, {head}{call} OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND {end}){tail} AS v FROM rows"
ENDS = {"RUNNING": "CURRENT ROW", "FINAL": "UNBOUNDED FOLLOWING"}
SIZES = (25_000, 50_000, 100_000, 200_000)

# values as long as the rows, which take their square: of the first size alone
AS_LONG = ("array_agg", "collect_list", "listagg", "string_agg")
GOAL = 3  # times the seconds of the window function
SLOW = 20  # seconds of a window function, beyond which it is not run over more rows
SQUARE = 3  # processor seconds of a window function over the fewest rows, from which it takes the square of the rows

OVERLAPPING = "SELECT * FROM rows MATCH_RECOGNIZE (ORDER BY id MEASURES {call} AFTER MATCH SKIP TO NEXT ROW PATTERN (A+) DEFINE A AS x >= 0)"
FROM_THE_END = "SELECT {call} FROM rows WINDOW w AS (ORDER BY id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
# measures of overlapping matches, and the window functions over the rows in reverse order
OVERLAPS = {
    "count(*) AS n": "count(*) OVER w AS n",
    "count(*) AS n, sum(x) AS s, min(x) AS a, max(x) AS b": "count(*) OVER w AS n, sum(x) OVER w AS s, min(x) OVER w AS a, max(x) OVER w AS b",
    "FIRST(x) AS f, LAST(x) AS l": "x AS f, first(x) OVER w AS l",
    "sum(y) AS s": "sum(y) OVER w AS s",
    # values that are not multiples of a power of two, of one sign and of both
    "avg(y / 10) AS s": "avg(y / 10) OVER w AS s",
    "sum(y / 10 - 6.24D) AS s": "sum(y / 10 - 6.24D) OVER w AS s",
}


def statements() -> dict[str, tuple[str, str, bool]]:
    """The statement of each case, the window function's, empty where Spark has none, and whether values are as long as the rows."""
    found = {}
    for name, calls in CALLS.items():
        for call in calls[:1] + [call for call in calls if "DISTINCT" in call or name == "percentile_disc"][:1]:
            head, aggregate, tail = parts(call.replace("{A}", "").replace(" || CLASSIFIER()", ""))
            for which, end in ENDS.items():
                whole = name in ("median", "percentile_cont", "percentile_disc", "listagg", "string_agg")
                window = "" if whole or "DISTINCT" in aggregate else WINDOW.format(head=head, call=aggregate, tail=tail, end=end)
                found[f"{which} {aggregate}"] = CLAUSE.format(call=f"{head}{which} {aggregate}{tail}"), window, name in AS_LONG
    for call, window in OVERLAPS.items():
        found[f"overlapping: {call}"] = OVERLAPPING.format(call=call), FROM_THE_END.format(call=window), False
    return found


def run(repeats: int = 3, sizes: tuple[int, ...] = SIZES, cases: str = "") -> dict:
    """Medians by case and number of rows: seconds, processor seconds, the JVM's peak of memory, and the ratios to the window
    function's seconds. ``cases``: a regular expression that names of cases match."""
    spark = session()
    made = ", ".join(f"{text} AS {name}" for name, (text, _) in SKETCHES.items())
    for size in sizes:
        all_columns = spark.sql(ROWS.format(rows=size, sketches=", ".join(SKETCHES), made=made)).cache()
        all_columns.count()
        for sketch in ("", *SKETCHES):
            all_columns.selectExpr(*PLAIN.split(", "), *([sketch] if sketch else [])).createOrReplaceTempView(f"rows{size}{sketch}")
    java = spark._jvm.java.lang
    pools = [pool for pool in java.management.ManagementFactory.getMemoryPoolMXBeans() if pool.getType().toString() == "Heap memory"]
    jvm = java.ProcessHandle.current()

    def processor() -> float:
        return sum(process.info().totalCpuDuration().get().toMillis() for process in [jvm, *jvm.descendants().toList()] if process.isAlive()) / 1000

    def measured(text: str, size: int) -> tuple[float, float, int]:
        sketch = next((name for name in SKETCHES if re.search(rf"\({name}\b", text)), "")
        for pool in pools:
            pool.resetPeakUsage()
        used, begin = processor(), time.perf_counter()
        spark.sql(text.replace("FROM rows", f"FROM rows{size}{sketch}")).write.format("noop").mode("overwrite").save()
        seconds = time.perf_counter() - begin
        return seconds, processor() - used, sum(pool.getPeakUsage().getUsed() for pool in pools) >> 20

    found: dict = {}
    for call, (ours, window, as_long) in statements().items():
        if not re.search(cases, call):
            continue
        found[call] = {}
        texts = [text for text in (ours, window) if text]
        for text in texts:
            measured(text, sizes[0])
        for size in sizes[: 1 if as_long else None]:
            rounds = [[measured(text, size) for text in texts] for _ in range(repeats)]
            (seconds, used, peak), *theirs = ([statistics.median(values) for values in zip(*some)] for some in zip(*rounds))
            found[call][size] = {"seconds": round(seconds, 2), "processor": round(used, 2), "MB": peak}
            for other, others, _ in theirs:
                found[call][size] |= {"to the window function": round(seconds / other, 2), "processor to that": round(used / others, 2), "within goal": seconds <= GOAL * other}
                texts = texts[:1] if other > SLOW or (size == sizes[0] and others > SQUARE) else texts
        print(f"{call}: {found[call]}", flush=True)
    return found
