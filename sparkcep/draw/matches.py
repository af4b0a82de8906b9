"""Pictures of matches: a series with its matched rows marked by row pattern variable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# distinct for colour-blind readers too (Okabe and Ito)
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")


def plot(
    rows: Any,
    x: str,
    y: str,
    *,
    variable: str = "variable",
    match: str = "match",
    path: str | Path | None = None,
    title: str | None = None,
    label: str | None = None,
) -> Any:
    """Draws column ``y`` over ``x`` with the rows of each match marked, coloured by row pattern variable.

    ``rows``: a pandas or Spark DataFrame as ALL ROWS PER MATCH WITH UNMATCHED ROWS gives it, with ``variable``
    (CLASSIFIER()) and ``match`` (MATCH_NUMBER()) among its measures, both NULL on unmatched rows. With ``path`` the
    picture is written there. Returns the matplotlib figure. Raises KeyError for a missing column.
    """
    import matplotlib.dates as dates
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    frame: pd.DataFrame = rows.toPandas() if hasattr(rows, "toPandas") else rows
    missing = [c for c in (x, y, variable, match) if c not in frame.columns]
    if missing:
        raise KeyError(f"no column {', '.join(missing)}; there are {', '.join(map(str, frame.columns))}")
    frame = frame.sort_values(x, kind="stable")
    figure = Figure(figsize=(12, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.plot(frame[x], frame[y], color="#999999", linewidth=1, zorder=1)
    matched = frame[frame[match].notna()]
    for number, group in matched.groupby(match):
        axes.axvspan(group[x].iloc[0], group[x].iloc[-1], color="#000000", alpha=0.06, linewidth=0)
        axes.annotate(
            f"{int(number)}", (group[x].iloc[0], 1), xycoords=("data", "axes fraction"), xytext=(1, -11),
            textcoords="offset points", fontsize=8, color="#444444",
        )
    for i, name in enumerate(dict.fromkeys(matched[variable].dropna())):
        group = matched[matched[variable] == name]
        axes.scatter(group[x], group[y], s=26, color=_COLOURS[i % len(_COLOURS)], label=str(name), zorder=2)
    if not matched.empty:
        axes.legend(title="variable", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    if hasattr(frame[x].dtype, "kind") and frame[x].dtype.kind == "M":
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(axes.xaxis.get_major_locator()))
    axes.set_xlabel(x)
    axes.set_ylabel(label or y)
    axes.set_title(title or f"{y} with {matched[match].nunique()} matches", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    if path is not None:
        figure.savefig(path, dpi=110)
    return figure
