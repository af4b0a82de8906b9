"""Pictures of the suite: ratios to the floor by shape, time and memory by the number of rows."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

COLOURS = {"floor": "#999999", "sparkcep": "#0b6e4f", "plain": "#c1666b"}


def draw(found: dict, folder: Path) -> None:
    """``suite_ratios.png``, ``suite_scaling.png`` and ``suite_memory.png`` in ``folder``, from what ``suite.run`` returns."""
    folder.mkdir(parents=True, exist_ok=True)
    of = f"{found['rows']:,} rows, {found['data']}"
    _ratios(found["shapes"], f"Time as a ratio to the floor, {of}", folder / "suite_ratios.png")
    sizes = {**{int(rows): shapes for rows, shapes in found["scaling"].items()}, found["rows"]: found["shapes"]}
    _grid(sizes, _nanoseconds, "ns a row", folder / "suite_scaling.png")
    _grid(sizes, _worker, "largest worker, MB", folder / "suite_memory.png")


def _ratios(shapes: dict, title: str, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 0.4 * len(shapes) + 1.5), layout="constrained")
    axes = figure.add_subplot(title=title)
    for i, way in enumerate(("sparkcep", "plain")):
        ratios = [m["ratios"].get(f"{way} to floor", math.nan) for m in shapes.values()]
        axes.barh([y + 0.4 * i for y in range(len(shapes))], ratios, 0.4, label=way, color=COLOURS[way])
    axes.axvline(1, color=COLOURS["floor"], label="floor")
    axes.set_yticks([y + 0.2 for y in range(len(shapes))], list(shapes))
    axes.invert_yaxis()
    axes.legend()
    figure.savefig(path, dpi=120)


def _nanoseconds(measured: dict, way: str, rows: int) -> float:
    return statistics.median(measured["seconds"][way]) / rows * 1e9


def _worker(measured: dict, way: str, rows: int) -> float:
    peak = measured["memory"][way]["worker"]
    return math.nan if peak is None else peak


def _grid(sizes: dict, value, label: str, path: Path) -> None:
    """A small picture for each shape, a line for each way."""
    from matplotlib.figure import Figure

    rows = sorted(sizes)
    names = list(sizes[rows[0]])
    wide = min(4, len(names))
    high = math.ceil(len(names) / wide)
    figure = Figure(figsize=(3.2 * wide, 2.4 * high), layout="constrained")
    for i, name in enumerate(names):
        axes = figure.add_subplot(high, wide, i + 1, title=name, xscale="log")
        for way, colour in COLOURS.items():
            axes.plot(rows, [value(sizes[n][name], way, n) for n in rows], marker="o", label=way, color=colour)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("rows")
        axes.set_ylabel(label)
        if i == 0:
            axes.legend()
    figure.savefig(path, dpi=120)


def draw_growth(seconds: dict[int, dict[str, list[float]]], path: Path) -> None:
    """A picture of how seconds grow with the rows. ``seconds``: million rows -> way -> seconds of each round."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import ScalarFormatter

    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.add_subplot(title="V pattern over 1,000 symbols", xscale="log", yscale="log", xlabel="million rows", ylabel="seconds")
    millions = sorted(seconds)
    medians = {way: [statistics.median(seconds[m][way]) for m in millions] for way in ("floor", "clause")}
    for way, label, colour in (("floor", "Spark's exchange and sort", COLOURS["floor"]), ("clause", "sparkcep", COLOURS["sparkcep"])):
        axes.plot(millions, medians[way], marker="o", label=label, color=colour)
    first = medians["clause"][0] / millions[0]
    axes.plot(millions, [first * m for m in millions], linestyle="dotted", label="linear", color=COLOURS["sparkcep"])
    axes.set_xticks(millions, [str(m) for m in millions], minor=False)
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
