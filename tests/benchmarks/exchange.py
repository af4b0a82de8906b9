"""The goals of columns through the exchange (docs/adr/0016-columns-through-the-exchange.md), each beside Spark's exchange and sort.

A query and its floor take turns after rounds that warm up. A ratio is the median over the rounds. Further parts measure rows that a
worker cannot hold beside the same rows in its memory, and the growth over up to 50 million rows. The part ``large`` compares the
results over tens of millions of keys and rows with those of window functions.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pyarrow.parquet as pq

from tests.spark.configured import configured

from . import data, windows
from .memory import JVM_OPTIONS, Peaks, Watcher
from .query import BEST, FLOOR, NEARLY, THREE_STEPS, exchange_by, noop, session
from .shapes import SHAPES
from .stream import stored
from .suite import ratio

WARM_ROUNDS = 12  # the JVM still compiles after three
GROWTH = (2, 8, 20, 50)  # million rows
_MILLION = 1_000_000
_SHAPES = {shape.name: shape for shape in SHAPES}
_RANDOM = "random"  # the table of ``query``, whose rows come in random order
_COMPARED = ("count(*) AS n", "sum(CAST(xxhash64(*) AS DECIMAL(20, 0))) AS hash")


class Line(NamedTuple):
    """A query with its goal.

    Attributes:
        query, floor: over the table ``ticks``.
        table: the data (``random`` or as in ``stored``), rows, symbols.
        goal: seconds as a ratio to the floor, at most.
        partitions: of an exchange.
    """

    name: str
    query: str
    floor: str
    table: tuple[str, int, int]
    goal: float
    partitions: int = 4


def _of_shape(name: str, shape: str, table: tuple[str, int, int], goal: float, partitions: int = 4) -> Line:
    return Line(name, _SHAPES[shape].query, _SHAPES[shape].floor, table, goal, partitions)


_TWO, _EIGHT = ("ticks", 2 * _MILLION, 1000), ("ticks", 8 * _MILLION, 4000)
_WITH_VOLUME = FLOOR.format(more=", volume")
LINES = (
    _of_shape("V", "V pattern", _TWO, 0.70),
    _of_shape("running average", "running average", _TWO, 0.90),
    _of_shape("ALL ROWS", "ALL ROWS", _TWO, 1.0),
    _of_shape("rare row", "rare row", _TWO, 0.30),
    Line("ten best", BEST, _WITH_VOLUME, (_RANDOM, 2 * _MILLION, 1000), 1.2),
    Line("three gaps", THREE_STEPS, _WITH_VOLUME, (_RANDOM, 2 * _MILLION, 1000), 0.20),
    Line("two errors", NEARLY, _WITH_VOLUME, (_RANDOM, 2 * _MILLION, 1000), 0.40),
    _of_shape("rare row 8M", "rare row", _EIGHT, 0.30),
    Line("three gaps 8M", THREE_STEPS, _WITH_VOLUME, (_RANDOM, *_EIGHT[1:]), 0.20),
    _of_shape("V 8M", "V pattern", _EIGHT, 0.65),
    _of_shape("V 8M 200 partitions", "V pattern", _EIGHT, 0.70, partitions=200),
    _of_shape("V 8M shuffled", "V pattern", ("shuffled", *_EIGHT[1:]), 0.35),
    _of_shape("V 8M one key", "V pattern", ("one-key", *_EIGHT[1:]), 0.95),
    _of_shape("V 8M keys of eight rows", "V pattern", ("many-keys", *_EIGHT[1:]), 0.90),
)


def run(names: Sequence[str] = (), repeats: int = 5, plots: str | None = None) -> dict:
    """Measures the lines and parts ``names`` (all if there are none): names of ``LINES``, ``memory``, ``growth``, ``large``.

    ``plots``: a folder for the picture of growth.

    Returns:
        Name -> seconds, ratios and peaks of memory.

    Raises:
        ValueError: an unknown name.
    """
    parts: dict[str, Callable] = {line.name: (lambda spark, line=line: _line(spark, line, repeats)) for line in LINES}
    parts |= {"memory": lambda spark: _memory(spark, repeats), "growth": lambda spark: _growth(spark, repeats, plots), "large": _large}
    if unknown := set(names) - set(parts):
        raise ValueError(f"unknown {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
    spark = session({"spark.driver.extraJavaOptions": JVM_OPTIONS})
    try:
        exchange_by(spark, "columns")
        return {name: part(spark) for name, part in parts.items() if not names or name in names}
    finally:
        spark.stop()


def _line(spark, line: Line, repeats: int) -> dict:
    _use(spark, *line.table)
    with configured(spark, {"spark.sql.shuffle.partitions": str(line.partitions)}):
        seconds = _turns(spark, {"floor": line.floor, "clause": line.query}, repeats)
    of_floor = ratio(seconds["clause"], seconds["floor"])
    mark = "!" if of_floor > line.goal else " "
    print(f"{line.name:<28} floor {median(seconds['floor']):6.2f} s   clause {median(seconds['clause']):6.2f} s   ratio {of_floor:.2f}{mark}  goal {line.goal:.2f}", flush=True)
    return {"seconds": seconds, "ratio": of_floor, "goal": line.goal}


def _turns(spark, queries: Mapping[str, str], repeats: int, warm: int = WARM_ROUNDS) -> dict[str, list[float]]:
    """Seconds of queries that take turns, after ``warm`` rounds."""
    seconds: dict[str, list[float]] = {name: [] for name in queries}
    for i in range(warm + repeats):
        for name, query in queries.items():
            took = noop(spark.sql(query))
            if i >= warm:
                seconds[name].append(took)
    return seconds


def _memory(spark, repeats: int) -> dict:
    """Eight million rows in two tasks of many keys, and in one key, whose worker holds all rows or a quarter of what they need."""
    found = {}
    watcher = Watcher(spark)
    query = _SHAPES["V pattern"].query
    for kind in ("shuffled", "one-key"):
        _use(spark, kind, *_EIGHT[1:])
        seconds: dict[str, list[float]] = {"held": [], "quarter": []}
        peaks: dict[str, float] = {}
        needed = 56 * 8 * _MILLION // (1 if kind == "one-key" else 2)  # engine/arrange/sorted_runs.py
        with configured(spark, {"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false"}):
            for i in range(repeats + 2):
                for way, held in (("held", 2 * needed), ("quarter", needed // 4)):
                    with configured(spark, {"sparkcep.exchange.workerBytes": str(held)}):
                        if i < 2:
                            noop(spark.sql(query))
                        else:
                            with watcher.watching() as peak:
                                seconds[way].append(noop(spark.sql(query)))
                            peaks[way] = max(peaks.get(way, 0.0), peak.worker or 0.0)
        of_held = ratio(seconds["quarter"], seconds["held"])
        most = needed // 4 / 2**20 + 300
        print(
            f"memory, {kind:<10} held {median(seconds['held']):6.2f} s {peaks['held']:5.0f} MB   a quarter {median(seconds['quarter']):6.2f} s {peaks['quarter']:5.0f} MB "
            f"(goal {most:.0f} MB)   ratio {of_held:.2f}  goal 2.50", flush=True,
        )
        found[kind] = {"seconds": seconds, "worker": peaks, "ratio": of_held, "goals": {"ratio": 2.5, "worker": most}}
    return found


def _growth(spark, repeats: int, plots: str | None) -> dict:
    found, first = {}, None
    shape = _SHAPES["V pattern"]
    for millions in GROWTH:
        _use(spark, "ticks", millions * _MILLION, 1000)
        seconds = _turns(spark, {"floor": shape.floor, "clause": shape.query}, repeats, WARM_ROUNDS if first is None else 1)
        each = median(seconds["clause"]) / millions
        first = first or each
        print(f"growth, {millions:>2} million rows   clause {median(seconds['clause']):6.2f} s   ratio {ratio(seconds['clause'], seconds['floor']):.2f}   to linear {each / first:.2f}", flush=True)
        found[millions] = {"seconds": seconds, "to linear": each / first}
    if plots:
        from .plots import draw_growth

        draw_growth({millions: measured["seconds"] for millions, measured in found.items()}, Path(plots, "growth.svg"))
    return found


def _large(spark) -> dict:
    found = {}
    watcher = Watcher(spark)
    for name, rows, key in (("50M rows, 10M keys", 50 * _MILLION, "hash(id % 10000000)"), ("one key of 20M rows", 20 * _MILLION, "'S'")):
        spark.sql(
            f"SELECT {key} AS symbol, id AS ts, CAST(pmod(hash(id), 401) AS DOUBLE) AS price FROM range({rows})"
        ).createOrReplaceTempView("ticks")
        queries = {"clause": _SHAPES["V pattern"].query, "window functions": windows.vs("ticks")}
        seconds: dict[str, float] = {}
        peaks: dict[str, Peaks] = {}
        rows_found = {}
        for way, query in queries.items():
            with watcher.watching() as peaks[way]:
                frame = spark.sql(query).selectExpr(*_COMPARED)
                rows_found[way] = frame
                seconds[way] = noop(frame)
        results = {way: tuple(frame.first()) for way, frame in rows_found.items()}
        assert len(set(results.values())) == 1, f"{name}: {results}"
        worker, heap = peaks["clause"].worker or 0.0, peaks["clause"].heap or 0.0
        print(f"{name:<22} clause {seconds['clause']:6.1f} s, worker {worker:4.0f} MB, heap {heap:5.0f} MB   window functions {seconds['window functions']:6.1f} s   equal results", flush=True)
        found[name] = {"seconds": seconds, "matches": results["clause"][0], "memory": {way: vars(peak) for way, peak in peaks.items()}}
    return found


def _use(spark, kind: str, rows: int, symbols: int) -> None:
    if kind == _RANDOM:
        path = Path(tempfile.gettempdir(), "sparkcep-benchmarks", f"random-{rows}-{symbols}.parquet")
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(data.ticks(rows, symbols), path, row_group_size=250_000)
    else:
        path = stored(kind, rows, symbols)
    spark.read.parquet(str(path)).createOrReplaceTempView("ticks")
