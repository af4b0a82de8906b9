"""Every query shape against its floor and the best plain way, interleaved in one run, with equal results checked.

Rows are exchanged as blocks of columns and, beside that, one by one.

The floor is Spark's exchange and sort of the columns a query needs, written nowhere: what Spark's window
functions pay at least. Ratios are medians over the rounds of a run; the order of the ways changes from round to round.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from .memory import JVM_OPTIONS, Watcher
from .query import exchange_by, noop, session
from .shapes import Shape, chosen
from .stream import stored

WAYS = ("floor", "sparkcep", "rows", "plain")
SMALLER = (10, 5, 2)  # parts of the rows for the plots of scaling
SYMBOLS = 1000
WARM_ROUNDS = 2  # the JVM compiles what it runs often


class DifferentResultsError(Exception):
    """The clause and the plain way gave other rows."""


def run(rows: int, *, names: str | None = None, data: str = "ticks", repeats: int = 5, plots: str | None = None, partitions: int = 4, ways: Sequence[str] = WAYS) -> dict:
    """Measures the shapes ``names`` (all for None) over ``rows`` rows; prints tables.

    Args:
        data: what the keys are like, see ``stream``.
        repeats: rounds that count; others before them warm up and compare the results.
        plots: a folder for pictures; then smaller inputs are measured too.
        partitions: of an exchange.
        ways: of ``WAYS``, those that are measured.

    Returns:
        For each shape seconds, ratios, number of matches and peaks of memory; of the smaller inputs seconds.

    Raises:
        ValueError: an unknown shape or kind of data.
        DifferentResultsError: a shape's results differ.
    """
    shapes = chosen(names)
    spark = session({"spark.driver.extraJavaOptions": JVM_OPTIONS, "spark.sql.shuffle.partitions": str(partitions)})
    try:
        watcher = Watcher(spark)
        found: dict = {"rows": rows, "data": data, "repeats": repeats, "spark": spark.version, "shapes": {}, "scaling": {}}
        use(spark, shapes, data, rows)
        print(f"\n{len(shapes)} shapes, local[2], {rows:,} rows ({data}), medians of {repeats} interleaved runs")
        print(_HEAD)
        for shape in shapes:
            found["shapes"][shape.name] = measured = measure(spark, shape, repeats, watcher, ways)
            print(_line(shape, measured), flush=True)
        if plots:
            found["scaling"] = _scaling(spark, shapes, data, rows, repeats, watcher, ways)
    finally:
        spark.stop()
    _print_memory(found["shapes"])
    if plots:
        from .plots import draw

        draw(found, Path(plots))
    return found


def use(spark, shapes: Iterable[Shape], data: str, rows: int, symbols: int = SYMBOLS, folder: Path | None = None) -> None:
    """Makes the tables ``ticks`` and, where a shape needs it, ``wide`` known by these names."""
    spark.read.parquet(str(stored(data, rows, symbols, folder=folder))).createOrReplaceTempView("ticks")
    if any(shape.source == "wide" for shape in shapes):
        spark.read.parquet(str(stored(data, rows, symbols, wide=True, folder=folder))).createOrReplaceTempView("wide")


def frames(spark, shape: Shape) -> dict[str, Callable]:
    """Way -> makes its data frame; parsing and planning belong to what is measured."""
    return {
        "floor": lambda: spark.sql(shape.floor),
        "sparkcep": lambda: spark.sql(shape.query),
        "rows": lambda: spark.sql(shape.query),
        "plain": lambda: shape.plain_frame(spark),
    }


def measure(spark, shape: Shape, repeats: int, watcher: Watcher, measured: Sequence[str] = WAYS) -> dict:
    """``seconds``, ``ratios`` and ``memory`` of a shape, and the number of its ``matches`` (rows of output)."""
    ways = frames(spark, shape)
    other = "plain" if "plain" in measured else "rows"
    for way in ("rows", "sparkcep"):
        _use(spark, way)
        matches = compare(shape, ways[way](), ways[other]())
    for way in tuple(measured) * WARM_ROUNDS:
        _use(spark, way)
        noop(ways[way]())
    seconds: dict[str, list[float]] = {way: [] for way in measured}
    for i in range(repeats):
        for k in range(len(measured)):
            way = measured[(i + k) % len(measured)]
            _use(spark, way)
            seconds[way].append(_timed(ways[way]))
    memory = {}
    for way in measured:
        _use(spark, way)
        memory[way] = _peaks(ways[way], watcher)
    return {
        "seconds": seconds,
        "ratios": {
            f"{way} to {base}": ratio(seconds[way], seconds[base])
            for way, base in (("sparkcep", "floor"), ("rows", "floor"), ("plain", "sparkcep"), ("plain", "floor"))
            if way in measured and base in measured
        },
        "goals": {"to floor": shape.goal, "plain to sparkcep": shape.plain_goal},
        "matches": matches,
        "plain way": shape.way,
        "memory": memory,
    }


def _use(spark, way: str) -> None:
    exchange_by(spark, "rows" if way == "rows" else "columns")


def compare(shape: Shape, ours, plain) -> int:
    """The number of rows of two data frames that must have equal columns, row counts and sums of row hashes, in any order.

    Raises:
        DifferentResultsError: they have not.
    """
    if ours.dtypes != plain.dtypes:
        raise DifferentResultsError(f"{shape.name}: columns {ours.dtypes} by the clause, {plain.dtypes} the plain way")
    told = [frame.selectExpr("count(*)", "sum(CAST(xxhash64(*) AS DECIMAL(20, 0)))") for frame in (ours, plain)]
    one, other = told[0].unionAll(told[1]).collect()  # one job; a union keeps its sides' order
    if one != other:
        raise DifferentResultsError(f"{shape.name}: rows and hash {tuple(one)} by the clause, {tuple(other)} the plain way")
    return int(one[0])


def _timed(frame: Callable) -> float:
    start = time.perf_counter()
    noop(frame())
    return time.perf_counter() - start


def _peaks(frame: Callable, watcher: Watcher) -> dict[str, float | None]:
    """Memory of one more run."""
    with watcher.watching() as peaks:
        noop(frame())
    return vars(peaks)


def ratio(above: list[float], below: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def _scaling(spark, shapes: list[Shape], data: str, rows: int, repeats: int, watcher: Watcher, ways: Sequence[str]) -> dict:
    """Rows -> shape -> way -> seconds, and the peaks, of smaller inputs."""
    found: dict = {}
    for size in sorted(rows // part for part in SMALLER):
        use(spark, shapes, data, size)
        print(f"\n{size:,} rows\n{_HEAD}")
        found[size] = {}
        for shape in shapes:
            found[size][shape.name] = measured = measure(spark, shape, repeats, watcher, ways)
            print(_line(shape, measured), flush=True)
    return found


_HEAD = f"{'shape':<20}{'matches':>9}{'floor s':>9}{'ours s':>8}{'plain s':>9}{'ours/floor':>12}{'goal':>6}{'rows/floor':>12}{'plain/ours':>12}{'goal':>6}  plain way"


def _line(shape: Shape, measured: dict) -> str:
    floor, ours, _, plain = (statistics.median(measured["seconds"].get(way, [float("nan")])) for way in WAYS)
    ratios = defaultdict(lambda: float("nan"), measured["ratios"])
    goal = f"{shape.goal:.2f}" if shape.goal else ""
    missed = [ratios["sparkcep to floor"] > (shape.goal or float("inf")), ratios["plain to sparkcep"] < shape.plain_goal]
    return (
        f"{shape.name:<20}{measured['matches']:>9}{floor:>9.2f}{ours:>8.2f}{plain:>9.2f}{ratios['sparkcep to floor']:>11.2f}{'!' if missed[0] else ' '}{goal:>6}{ratios['rows to floor']:>12.2f}"
        f"{ratios['plain to sparkcep']:>11.2f}{'!' if missed[1] else ' '}{shape.plain_goal:>6.1f}  {shape.way}"
    )


def _print_memory(shapes: dict[str, dict]) -> None:
    print("\nPeak memory, MB: the driver's heap (garbage included), its JVM (resident), the largest Python worker (resident)")
    print(f"{'shape':<20}" + "".join(f"{f'{kind} {way}':>17}" for kind in ("heap", "jvm", "worker") for way in WAYS))
    for name, measured in shapes.items():
        cells = (measured["memory"].get(way, {}).get(kind) for kind in ("heap", "jvm", "worker") for way in WAYS)
        print(f"{name:<20}" + "".join(f"{'-' if cell is None else f'{cell:,.0f}':>17}" for cell in cells))
