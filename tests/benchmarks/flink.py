"""Flink's MATCH_RECOGNIZE over the rows of a case of streams. It is run by a Python of its own, since PySpark and PyFlink want
other versions of Py4J:

    PYTHON flink.py FILE ROUNDS     prints as JSON the seconds and processor seconds of each round behind the first

FILE is a CSV file without a head: symbol, ts, price, volume. Flink has no PREV, and no greedy quantifier at the end of a pattern;
what falls and rises is said by its LAST, and a row that rises no more ends the match.
"""

from __future__ import annotations

import json
import os
import sys
import time

from processes import used  # beside this file, which is run by itself

SOURCE = """CREATE TABLE ticks (symbol STRING, ts TIMESTAMP(3), price INT, volume INT, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
    WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"""
CLAUSE = """ticks MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts
    MEASURES STRT.ts AS since, LAST(DOWN.price) AS bottom, LAST(UP.ts) AS upto
    ONE ROW PER MATCH AFTER MATCH SKIP TO LAST FIN
    PATTERN (STRT DOWN+ UP+ FIN) WITHIN INTERVAL '1' MINUTE
    DEFINE DOWN AS (LAST(DOWN.price, 1) IS NULL AND DOWN.price < STRT.price) OR DOWN.price < LAST(DOWN.price, 1),
      UP AS (LAST(UP.price, 1) IS NULL AND UP.price > LAST(DOWN.price)) OR UP.price > LAST(UP.price, 1), FIN AS FIN.price <= LAST(UP.price))"""


def cpu() -> float:
    """Seconds of processor time of this process and those below it."""
    return sum(used(os.getpid()).values())


def main(path: str, rounds: int) -> None:
    from pyflink.table import EnvironmentSettings, TableEnvironment

    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    env.get_config().set("parallelism.default", "2")
    env.execute_sql(SOURCE.format(path=path))
    env.execute_sql("CREATE TABLE nowhere (symbol STRING, since TIMESTAMP(3), bottom INT, upto TIMESTAMP(3)) WITH ('connector' = 'blackhole')")
    found = []
    for _ in range(rounds + 1):
        before, began = cpu(), time.perf_counter()
        env.execute_sql(f"INSERT INTO nowhere SELECT symbol, since, bottom, upto FROM {CLAUSE}").wait()
        found.append({"seconds": time.perf_counter() - began, "cpu": cpu() - before})
    print(json.dumps(found[1:]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
