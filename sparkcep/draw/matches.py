"""Plots matches with matplotlib: series with the rows or the spans of their matches.

The package exports ``plot``; ``%%sql --plot``, reports and the demonstration draw with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkcep.clause.tokens import quote
from sparkcep.errors import cut, printable

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# distinguishable by colour-blind readers (Okabe and Ito)
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
_NO_VARIABLE = "#666666"
_MARKERS = {"MATCHED": "o", "SUBSTITUTED": "s", "EXTRA": "X"}
_OTHER_MARKERS = ("D", "^", "v", "P", "*")
MAX_LANES = 30  # overlapping matches in one panel
_NUMBERS = 80  # matches in a panel; with more, their numbers are not shown
_TEXT = 80  # the most characters of a text from the rows


@dataclass(frozen=True)
class _Roles:
    """The role of each column; "" for roles without a column. ``by`` has the partition's columns."""

    x: str
    y: str
    by: tuple[str, ...]
    variable: str = ""
    match: str = ""
    kind: str = ""
    start: str = ""
    end: str = ""

    def of_rows(self) -> list[str]:
        marks = () if self.start else (self.variable, self.match, self.kind)
        return list(dict.fromkeys(c for c in (self.x, self.y, *self.by, *marks) if c))

    def of_matches(self) -> list[str]:
        return list(dict.fromkeys((self.start, self.end, *self.by)))


def plot(
    rows: Any,
    x: str,
    y: str,
    *,
    variable: str = "variable",
    match: str = "match",
    kind: str | None = None,
    matches: Any = None,
    start: str | None = None,
    end: str | None = None,
    by: str | Sequence[str] | None = None,
    panels: int = 12,
    limit: int = 100_000,
    path: str | Path | None = None,
    title: str | None = None,
    label: str | None = None,
) -> Figure:
    """Draws column ``y`` over ``x`` with the matches found in it.

    Args:
        rows: a pandas or Spark DataFrame: the result of ALL ROWS PER MATCH WITH UNMATCHED ROWS, or, with ``matches``, just the
            series.
        x: the column of the horizontal axis: numbers, dates or timestamps.
        y: the column drawn over it: numbers.
        variable: the column of ``rows`` with CLASSIFIER(); its values determine the colours of rows.
        match: the column of ``rows`` with MATCH_NUMBER(). Both are NULL on unmatched rows. Rows with a variable alone are those of
            unfinished matches (SHOW UNFINISHED MATCHES) and hollow.
        kind: the column of ``rows`` with ERROR_KIND(); its values determine the markers of rows.
        matches: the result of ONE ROW PER MATCH, a pandas or Spark DataFrame. Its matches are drawn as spans over the series.
        start: the column of ``matches`` with the first ``x`` of each match.
        end: the column of ``matches`` with the last ``x`` of each match.
        by: the column or columns that partition both DataFrames. Each combination of their values gets a panel.
        panels: the maximum number of panels; the title says how many are left out.
        limit: the maximum number of rows that are fetched from a Spark DataFrame.
        path: the file to write the picture to, if any.
        title: the picture's title. matplotlib reads text between dollars as a formula.
        label: the label of the vertical axis, read in the same way.

    Returns:
        The matplotlib figure, with one axes per panel. Overlapping matches get bars below each other at the top.

    Raises:
        KeyError: a column is missing.
        ValueError: more rows than ``limit``, or only some of ``matches``, ``start`` and ``end``.
        TypeError: the column of ``x`` or ``y`` contains neither numbers nor times.

    Example:
        >>> ticks = spark.createDataFrame([(1, 5), (2, 3), (3, 4), (4, 1)], "day int, price int")
        >>> rows = sparkcep.match_recognize(
        ...     ticks, order_by="day", pattern="STRT DOWN UP", define={"DOWN": "price < PREV(price)", "UP": "price > PREV(price)"},
        ...     measures={"variable": "CLASSIFIER()", "match": "MATCH_NUMBER()"}, rows="ALL ROWS PER MATCH WITH UNMATCHED ROWS",
        ... )
        >>> figure = sparkcep.plot(rows, "day", "price")
        >>> len(figure.axes)
        1
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    spans = matches is not None
    if spans != (start is not None) or spans != (end is not None):
        raise ValueError("the spans of matches need all three: matches, start and end")
    if panels < 1 or limit < 1:
        raise ValueError(f"panels and limit must be above 0, not {panels} and {limit}")
    keys = (by,) if isinstance(by, str) else tuple(by or ())
    marks = {} if spans else {"variable": variable, "match": match, "kind": kind or ""}
    roles = _Roles(x, y, keys, **marks, start=start or "", end=end or "")
    frame = _drawable(_fetched(rows, "rows", roles.of_rows(), limit), (x, y))
    found = _drawable(_fetched(matches, "matches", roles.of_matches(), limit), (start, end)) if spans else None
    parts = _parts(frame, found, keys) or [("", frame, found)]
    shown = parts[:panels]
    figure = Figure(figsize=(12, 4.5 if len(shown) == 1 else 2.6 * len(shown) + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    total, left_out = 0, 0
    colours = _colours(frame, roles)
    kinds = _kinds(frame, roles)
    for place, (name, series, own) in enumerate(shown):
        axes = figure.add_subplot(len(shown), 1, place + 1)
        count, missing = _panel(axes, series, own, roles, colours, kinds)
        total, left_out = total + count, left_out + missing
        if keys:
            axes.set_title(_plain(name), loc="left", fontsize=10)
        axes.set_ylabel(label or _plain(y))
    axes.set_xlabel(_plain(x))
    total += sum(len(_intervals(series, own, roles)) for _, series, own in parts[panels:])
    notes = [f"{len(parts) - len(shown)} of {len(parts)} panels left out"] if len(parts) > len(shown) else []
    notes += [f"{left_out} overlapping matches not drawn"] if left_out else []
    heading = "; ".join([title or f"{_plain(y)} with {total} {'match' if total == 1 else 'matches'}", *notes])
    if keys:
        figure.suptitle(heading, x=0.01, ha="left")
    else:
        axes.set_title(heading, loc="left")
    if path is not None:
        figure.savefig(path, dpi=110)
    return figure


# -- data ---------------------------------------------------------------------------------------------------------


def _fetched(rows: Any, what: str, columns: list[str], limit: int) -> pd.DataFrame:
    """Returns the columns as a pandas DataFrame."""
    missing = [c for c in columns if c not in rows.columns]
    if missing:
        raise KeyError(f"no column {', '.join(missing)} in {what}; the columns are {', '.join(map(str, rows.columns))}")
    if not hasattr(rows, "toPandas"):
        return rows[columns]
    frame = rows.select(*map(quote, columns)).limit(limit + 1).toPandas()
    if len(frame) > limit:
        raise ValueError(f"{what} has more than {limit:,} rows; draw fewer of them (where, sample), or fetch more with limit=")
    return frame


def _drawable(frame: pd.DataFrame, axes: tuple) -> pd.DataFrame:
    """Returns the DataFrame with the values of the axes as numbers or times."""
    return frame.assign(**{column: _values(frame[column], column) for column in axes})


def _values(column: pd.Series, name: str) -> pd.Series:
    """Returns numbers and times in matplotlib's form. Spark's DATE and DECIMAL arrive as Python objects."""
    import datetime
    import decimal

    import pandas as pd

    if column.dtype.kind in "iufM" or isinstance(column.dtype, pd.DatetimeTZDtype):
        return column
    present = column.dropna()
    if present.map(lambda v: isinstance(v, datetime.date)).all():
        return pd.to_datetime(column)
    if present.map(lambda v: isinstance(v, (int, float, decimal.Decimal)) and not isinstance(v, bool)).all():
        return column.astype(float)
    raise TypeError(f"column {name} holds {type(present.iloc[0]).__name__}; an axis needs numbers, dates or timestamps")


def _parts(frame: pd.DataFrame, found: pd.DataFrame | None, keys: tuple[str, ...]) -> list[tuple]:
    """Returns (name, its rows, its matches) of each partition of the rows."""
    if not keys:
        return [("", frame, found)]
    grouped = frame.groupby(list(keys), dropna=False, sort=True)
    own = dict(iter(found.groupby(list(keys), dropna=False))) if found is not None else {}
    own = {_key(k): group for k, group in own.items()}
    out = []
    for values, group in grouped:
        name = ", ".join("NULL" if v != v or v is None else str(v) for v in values)
        out.append((name, group, None if found is None else own.get(_key(values), found.iloc[:0])))
    return out


def _key(values: tuple) -> tuple:
    """Returns the values of a partition's columns as a key. All NULLs are equal."""
    return tuple(None if v != v else v for v in values)


def _colours(frame: pd.DataFrame, roles: _Roles) -> dict[Any, str]:
    """Returns the colour of each variable, equal in all panels, in the order of their first rows."""
    if not roles.variable:
        return {}
    ordered = frame[frame[roles.match].notna() | frame[roles.variable].notna()].sort_values([*roles.by, roles.x], kind="stable")
    return {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(dict.fromkeys(ordered[roles.variable].dropna()))}


def _kinds(frame: pd.DataFrame, roles: _Roles) -> dict[Any, str]:
    """Returns the marker of each kind of row."""
    if not roles.kind:
        return {}
    present = list(dict.fromkeys(frame[roles.kind].dropna()))
    others = [k for k in present if k not in _MARKERS]
    return {k: _MARKERS.get(k) or _OTHER_MARKERS[others.index(k) % len(_OTHER_MARKERS)] for k in present}


def _intervals(series: pd.DataFrame, own: pd.DataFrame | None, roles: _Roles) -> list[tuple]:
    """Returns (first x, last x, name) of each match, ordered by start."""
    if own is not None:
        whole = own.dropna(subset=[roles.start, roles.end]).sort_values([roles.start, roles.end], kind="stable")
        return [(a, b, str(i)) for i, (a, b) in enumerate(zip(whole[roles.start], whole[roles.end]), 1)]
    matched = series[series[roles.match].notna()]
    spans = matched.groupby(roles.match)[roles.x].agg(["min", "max"])
    found = [(a, b, f"{int(number)}" if isinstance(number, (int, float)) else str(number)) for number, a, b in spans.itertuples()]
    return sorted(found, key=lambda span: (span[0], span[1]))


def _lanes(spans: list[tuple]) -> list[int]:
    """Returns for each match the lowest lane without an overlap with an earlier match."""
    ends: list[Any] = []
    out = []
    for first, last, _ in spans:
        lane = next((k for k, end in enumerate(ends) if end < first), len(ends))
        ends[lane : lane + 1] = [last]
        out.append(lane)
    return out


def _plain(text: str) -> str:
    """Returns a text that matplotlib shows unchanged: at most _TEXT characters, and without formulas between dollars."""
    return cut(printable(text).replace("\n", "\\n"), _TEXT).replace("$", r"\$")


# -- one panel ----------------------------------------------------------------------------------------------------


def _panel(axes: Axes, series: pd.DataFrame, own: pd.DataFrame | None, roles: _Roles, colours: dict, kinds: dict) -> tuple[int, int]:
    """Draws a panel. Returns the number of its matches, and how many of them do not fit."""
    import matplotlib.dates as dates

    series = series.sort_values(roles.x, kind="stable")
    line = series.drop_duplicates([roles.x, roles.y])  # a row in several matches occurs several times
    axes.plot(line[roles.x], line[roles.y], color="#999999", linewidth=1, zorder=1)
    spans = _intervals(series, own, roles)
    lanes = _lanes(spans)
    _spans(axes, spans, lanes)
    if roles.variable:
        matched = series[roles.match].notna()
        _rows(axes, series[matched], roles, colours, kinds)
        _rows(axes, series[~matched & series[roles.variable].notna()], roles, colours, kinds, finished=False)
    if series[roles.x].dtype.kind == "M" or hasattr(series[roles.x].dtype, "tz"):
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(axes.xaxis.get_major_locator()))
    axes.spines[["top", "right"]].set_visible(False)
    return len(spans), sum(lane >= MAX_LANES for lane in lanes)


def _spans(axes: Axes, spans: list[tuple], lanes: list[int]) -> None:
    """Shades the matches. If some overlap, each match also gets a bar, in a strip above the series."""
    several = max(lanes, default=0) > 0
    deep = min(max(lanes, default=0) + 1, MAX_LANES)
    strip = min(0.4, 0.045 * deep) if several else 0.0
    if several:
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + (high - low) * strip / (1 - strip))
    for (first, last, name), lane in zip(spans, lanes):
        if lane >= MAX_LANES:
            continue
        axes.axvspan(first, last, color="#000000", alpha=0.06, linewidth=2 if first == last else 0)
        if several:
            middle = 1 - strip * (lane + 0.5) / deep
            colour = _COLOURS[lane % len(_COLOURS)]
            axes.plot([first, last], [middle, middle], transform=axes.get_xaxis_transform(), color=colour, linewidth=3, solid_capstyle="butt", gid="match")
        if len(spans) <= _NUMBERS:
            height, shift, side = (middle, (-2, -3), "right") if several else (1, (1, -11), "left")
            axes.annotate(
                _plain(name), (first, height), xycoords=("data", "axes fraction"), xytext=shift, ha=side,
                textcoords="offset points", fontsize=8, color="#444444",
            )


def _rows(axes: Axes, matched: pd.DataFrame, roles: _Roles, colours: dict, kinds: dict, finished: bool = True) -> None:
    """Draws the rows of matches: the colour shows the variable, the marker the kind. Rows of unfinished matches are hollow."""
    markers = kinds or {None: "o"}
    names = [*colours, *([None] if matched[roles.variable].isna().any() else [])]
    for name in names:
        group = matched[matched[roles.variable].isna() if name is None else matched[roles.variable] == name]
        for kind, marker in markers.items():
            part = group if kind is None else group[group[roles.kind] == kind]
            if part.empty:
                continue
            said = "no variable" if name is None else _plain(str(name))
            if kind not in (None, "MATCHED"):
                said += f", {_plain(str(kind))}"
            said += "" if finished else ", unfinished"
            size = 26 if marker == "o" else 48
            colour = _NO_VARIABLE if name is None else colours[name]
            inside = colour if finished else "none"
            axes.scatter(part[roles.x], part[roles.y], s=size, edgecolors=colour, facecolors=inside, marker=marker, label=said, zorder=2)
    if not matched.empty:
        axes.legend(title="variable", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9)
