"""The V pattern beside what a user would take on one machine: window functions of DuckDB and of Polars, over the same Parquet file,
with two threads each. Polars is optional (pip install polars).

The ways take turns. Each writes its matches nowhere, and all find equally many.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import sqlglot
from pyspark.sql import Observation
from pyspark.sql.functions import count

from . import windows
from .query import V, exchange_by, noop, session
from .stream import stored

THREADS = 2


def run(rows: int = 2_000_000, repeats: int = 5, data: str = "ticks") -> dict:
    """Seconds of each way, medians of the rounds, and the ratios to those of the clause."""
    path = stored(data, rows)
    spark = session()
    spark.read.parquet(str(path)).createOrReplaceTempView("ticks")
    ways: dict[str, Callable[[], int]] = {"columns": lambda: _spark(spark, "columns"), "rows": lambda: _spark(spark, "rows"), "DuckDB": _duckdb(path)}
    if importlib.util.find_spec("polars"):
        ways["Polars"] = _polars(path)
    found = {name: way() for name, way in ways.items()}  # the first run of each warms up
    assert len(set(found.values())) == 1, f"the numbers of matches differ: {found}"
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats + 1):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - start)
    spark.stop()
    medians = {name: statistics.median(values[1:]) for name, values in seconds.items()}
    for name, median in medians.items():
        print(f"V, {rows:,} rows ({data}), {name:<8} median {median:6.2f} s   the clause to it {medians['columns'] / median:.2f}")
    return {"seconds": seconds, "matches": found["columns"]}


def _spark(spark, way: str) -> int:
    exchange_by(spark, way)
    matches = Observation("matches")
    noop(spark.sql(V).observe(matches, count("start_ts").alias("n")))
    return matches.get["n"]


def _duckdb(path: Path) -> Callable[[], int]:
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"SET threads = {THREADS}")
    connection.execute(f"CREATE VIEW ticks AS SELECT symbol, ts, price FROM read_parquet('{path}')")
    query = sqlglot.transpile(windows.vs("ticks"), read="spark", write="duckdb")[0]

    def found() -> int:
        return connection.execute(f"SELECT count(start_ts), sum(hash(symbol, start_ts, bottom_ts, end_ts, start_price, bottom_price, end_price) % 1000) FROM ({query})").fetchall()[0][0]

    return found


def _polars(path: Path) -> Callable[[], int]:
    """The query of windows.vs as expressions of Polars."""
    os.environ["POLARS_MAX_THREADS"] = str(THREADS)  # read when the package is imported
    import polars as pl

    def of(key: pl.Expr) -> pl.Expr:
        return key.over("symbol")

    def found() -> int:
        way, c = pl.col("way"), pl.col
        moved = pl.scan_parquet(path).select("symbol", "ts", "price").sort("symbol", "ts").with_columns(way=of(c("price") - c("price").shift(1)).sign())
        numbered = moved.with_columns(run=of(way.ne_missing(way.shift(1)).cast(pl.Int64).cum_sum()))
        runs = numbered.group_by("symbol", "run").agg(
            way.first(), pl.len().alias("n"), c("ts").min().alias("first_ts"), c("ts").max().alias("last_ts"), c("price").max().alias("first_price"),
            pl.when(way.first() == -1).then(c("price").min()).otherwise(c("price").max()).alias("last_price"),
        ).sort("symbol", "run")  # fmt: skip
        beside = runs.with_columns(
            before_ts=of(c("last_ts").shift(1)), before_price=of(c("last_price").shift(1)), next_way=of(way.shift(-1)), end_ts=of(c("last_ts").shift(-1)),
            end_price=of(c("last_price").shift(-1)), chained=(of(way.shift(1)) == 1).fill_null(False) & (of(way.shift(2)) == -1).fill_null(False),
        )  # fmt: skip
        placed = beside.filter((way == -1) & (c("next_way") == 1)).with_columns(place=of(pl.int_range(pl.len())))
        certain = of(pl.when(~c("chained") | (c("n") > 1)).then(c("place")).forward_fill())
        matched = placed.with_columns(matched=(c("place") - certain) % 2 == 0)
        taken = matched.with_columns(cut=c("chained") & of(c("matched").shift(1)).fill_null(False)).filter("matched")
        shown = taken.select(
            "symbol", pl.when("cut").then("first_ts").otherwise("before_ts").alias("start_ts"), "last_ts", "end_ts",
            pl.when("cut").then("first_price").otherwise("before_price").alias("start_price"), "last_price", "end_price",
        )  # fmt: skip
        return shown.collect().get_column("start_ts").count()

    return found
