"""What pictures of matches show: their artists and data."""

from __future__ import annotations

import datetime as dt

import pandas as pd
import pytest

import sparkcep

DAYS = [dt.date(2024, 1, day) for day in range(1, 9)]
PRICES = [12.0, 17, 14, 11, 15, 20, 16, 19]


def found(**columns) -> pd.DataFrame:
    """The rows of one partition, of which 2 to 6 are a match."""
    variables = [None, "STRT", "DOWN", "DOWN", "UP", "UP", None, None]
    return pd.DataFrame({"day": DAYS, "price": PRICES, "variable": variables, "match": [None, 1, 1, 1, 1, 1, None, None], **columns})


def points(axes) -> dict[str, list[tuple]]:
    """Label -> (x, y) of each point drawn."""
    return {s.get_label(): [tuple(p) for p in s.get_offsets().tolist()] for s in axes.collections}


def spans(axes) -> list[tuple[float, float]]:
    """From and to of each shaded match."""
    return [(p.get_x(), p.get_x() + p.get_width()) for p in axes.patches]


def days(*numbers: int) -> list[float]:
    from matplotlib.dates import date2num

    return [float(date2num(DAYS[n - 1])) for n in numbers]


def test_rows_of_matches_by_variable(tmp_path):
    figure = sparkcep.plot(found(), "day", "price", path=tmp_path / "x.png")
    (axes,) = figure.axes
    assert list(axes.lines[0].get_ydata()) == PRICES
    assert points(axes) == {"STRT": [(*days(2), 17)], "DOWN": [(*days(3), 14), (*days(4), 11)], "UP": [(*days(5), 15), (*days(6), 20)]}
    assert spans(axes) == [tuple(days(2, 6))] and [t.get_text() for t in axes.texts] == ["1"]
    assert axes.get_title(loc="left") == "price with 1 match"
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_rows_of_unfinished_matches_are_hollow():
    frame = found()
    frame.loc[6, "variable"] = "STRT"
    (axes,) = sparkcep.plot(frame, "day", "price").axes
    drawn = {s.get_label(): s for s in axes.collections}
    assert points(axes)["STRT"] == [(*days(2), 17)] and points(axes)["STRT, unfinished"] == [(*days(7), 16)]
    assert len(drawn["STRT"].get_facecolor()) == 1 and len(drawn["STRT, unfinished"].get_facecolor()) == 0
    assert drawn["STRT"].get_edgecolor().tolist() == drawn["STRT, unfinished"].get_edgecolor().tolist()
    assert spans(axes) == [tuple(days(2, 6))]


def test_panels_of_partitions_and_how_many_are_left_out():
    frame = pd.concat([found(symbol=s) for s in ("C", "A", "B", None)])
    figure = sparkcep.plot(frame, "day", "price", by="symbol", panels=3)
    assert [a.get_title(loc="left") for a in figure.axes] == ["A", "B", "C"]
    assert figure.get_suptitle() == "price with 4 matches; 1 of 4 panels left out"
    colours = [{s.get_label(): tuple(s.get_facecolor()[0]) for s in a.collections} for a in figure.axes]
    assert colours[0] == colours[1] == colours[2] and len(set(colours[0].values())) == 3
    assert len(sparkcep.plot(frame, "day", "price", by=["symbol"]).axes) == 4
    assert sparkcep.plot(frame.iloc[:0], "day", "price", by="symbol").axes[0].get_title(loc="left") == ""


def test_spans_of_matches_over_another_series():
    matches = pd.DataFrame({"symbol": ["A", "A", "B", None], "a": [1, 5, 2, 3], "b": [3, 8, 2, 4]})
    series = pd.concat([pd.DataFrame({"symbol": s, "t": range(1, 9), "price": PRICES}) for s in ("A", "B", None)])
    figure = sparkcep.plot(series, "t", "price", matches=matches, start="a", end="b", by="symbol")
    assert [spans(a) for a in figure.axes] == [[(1, 3), (5, 8)], [(2, 2)], [(3, 4)]]
    assert figure.axes[1].patches[0].get_linewidth() > 0  # a match of one row is seen
    assert all(not a.collections for a in figure.axes)


def test_overlapping_matches_have_bars_in_lanes():
    matches = pd.DataFrame({"a": [1, 2, 4, 3], "b": [3, 5, 6, 3]})
    series = pd.DataFrame({"t": range(1, 9), "price": PRICES})
    (axes,) = sparkcep.plot(series, "t", "price", matches=matches, start="a", end="b").axes
    bars = [(*line.get_xdata(), round(line.get_ydata()[0], 3)) for line in axes.lines if line.get_gid() == "match"]
    assert [bar[:2] for bar in bars] == [(1, 3), (2, 5), (3, 3), (4, 6)]
    for i, a in enumerate(bars):
        assert all(b[1] < a[0] or a[1] < b[0] or a[2] != b[2] for b in bars[i + 1 :])
    lowest = min(bar[2] for bar in bars)
    inside = axes.transAxes.inverted().transform(axes.transData.transform((6, max(PRICES))))
    assert inside[1] <= lowest  # the bars hide nothing of the series
    many = pd.DataFrame({"a": [1] * 40, "b": [8] * 40})
    (axes,) = sparkcep.plot(series, "t", "price", matches=many, start="a", end="b").axes
    assert axes.get_title(loc="left") == "price with 40 matches; 10 overlapping matches not drawn"


def test_kinds_of_rows_have_markers():
    variables = [None, "A", "A", None, "B", "C", None, None]
    kinds = [None, "MATCHED", "SUBSTITUTED", "EXTRA", "MATCHED", "MATCHED", None, None]
    (axes,) = sparkcep.plot(found(variable=variables, what=kinds), "day", "price", kind="what").axes
    assert points(axes)["A, SUBSTITUTED"] == [(*days(3), 14)] and points(axes)["no variable, EXTRA"] == [(*days(4), 11)]
    shapes = {s.get_label(): len(s.get_paths()[0].vertices) for s in axes.collections}
    assert shapes["A"] == shapes["B"] and len({shapes["A"], shapes["A, SUBSTITUTED"], shapes["no variable, EXTRA"]}) == 3


def test_values_are_drawn_as_they_are(tmp_path):
    texts = ["$x$", "a $ b $ c", "$\\frac{$", "\\$", "\x1b[2J\u202e", "k" * 100_000]
    rows = pd.DataFrame({"g": texts, "t": [1] * 6, "$v_{$": [2.0] * 6, "variable": texts, "match": texts})
    figure = sparkcep.plot(rows, "t", "$v_{$", by="g", panels=9, path=tmp_path / "p.png")
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert sorted(map(len, titles))[-1] == 80 and r"\$x\$" in titles and "\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}" in titles


def test_what_is_missing_or_wrong_is_named():
    with pytest.raises(KeyError, match="no column cost, kind in rows; the columns are day, price, variable, match"):
        sparkcep.plot(found(), "day", "cost", kind="kind")
    with pytest.raises(KeyError, match="no column until in matches; the columns are since"):
        sparkcep.plot(found(), "day", "price", matches=pd.DataFrame({"since": [1]}), start="since", end="until")
    with pytest.raises(ValueError, match="all three: matches, start and end"):
        sparkcep.plot(found(), "day", "price", start="day")
    with pytest.raises(ValueError, match="above 0"):
        sparkcep.plot(found(), "day", "price", panels=0)
    with pytest.raises(TypeError, match="column variable holds str"):
        sparkcep.plot(found(), "day", "variable")


def test_spark_frames_with_dates_and_decimals(spark):
    series = spark.sql("SELECT explode(sequence(DATE'2024-01-01', DATE'2024-01-08')) AS `a day`").selectExpr(
        "`a day`", "CAST(day(`a day`) AS DECIMAL(9, 2)) AS p", "CAST(`a day` AS TIMESTAMP) AS t", "map(1, 2) AS unused"
    )
    matches = spark.sql("SELECT DATE'2024-01-02' AS s, DATE'2024-01-04' AS e")
    (axes,) = sparkcep.plot(series, "a day", "p", matches=matches, start="s", end="e").axes
    assert list(axes.lines[0].get_ydata()) == [float(d) for d in range(1, 9)] and spans(axes) == [tuple(days(2, 4))]
    (axes,) = sparkcep.plot(series, "t", "p", matches=matches, start="s", end="e", limit=8).axes
    assert spans(axes) == [tuple(days(2, 4))]
    with pytest.raises(ValueError, match="rows has more than 7 rows; draw fewer of them"):
        sparkcep.plot(series, "t", "p", matches=matches, start="s", end="e", limit=7)
