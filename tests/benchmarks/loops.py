"""What a user of applyInPandas would write for the shapes that windows cannot express: one partition in, its matches out.

Each is written to be fast: numpy finds letters and runs, Python goes from match to match only. ``re`` serves where conditions look
at a row and its neighbours: its search has the standard's preferment (leftmost, greedy first).
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pandas as pd

Loop = Callable[[pd.DataFrame], pd.DataFrame]
WITHIN = 200  # of ts


def runs(price: np.ndarray) -> tuple[list[int], list[int], list[int]]:
    """The longest runs of rows that rise, fall or stay: first rows, last rows, ways (1, -1, 0). The first row is in none."""
    way = np.sign(np.diff(price))
    if not len(way):
        return [], [], []
    edges = np.flatnonzero(np.diff(way)) + 1
    first = np.r_[0, edges]
    return (first + 1).tolist(), np.r_[edges, len(way)].tolist(), way[first].astype(int).tolist()


def v_rows(part: pd.DataFrame) -> pd.DataFrame:
    """Every row of each V, with the match's number and the row's variable."""
    part = part.sort_values("ts")
    first, last, way = runs(part["price"].to_numpy())
    begins, bottoms, ends, free = [], [], [], 0
    for i in range(len(way) - 1):
        if way[i] == -1 and way[i + 1] == 1:
            begin = max(first[i] - 1, free)
            if begin < last[i]:
                begins.append(begin)
                bottoms.append(last[i])
                ends.append(last[i + 1])
                free = last[i + 1] + 1
    begin, bottom = np.array(begins, dtype=np.int64), np.array(bottoms, dtype=np.int64)
    length = np.array(ends, dtype=np.int64) - begin + 1
    number = np.repeat(np.arange(len(begin)), length)
    row = np.arange(len(number)) - np.repeat(np.cumsum(length) - length, length) + begin[number]
    found = part.take(row)
    label = np.where(row == begin[number], "STRT", np.where(row <= bottom[number], "DOWN", "UP"))
    return pd.DataFrame(
        {
            "symbol": found["symbol"].to_numpy(),
            "ts": found["ts"].to_numpy(),
            "n": number + 1,
            "label": label,
            "price": found["price"].to_numpy(),
        }
    )


def head_and_shoulders(part: pd.DataFrame) -> pd.DataFrame:
    """Three rises, each with its fall, the middle top the highest."""
    part = part.sort_values("ts")
    ts, price = part["ts"].to_numpy(), part["price"].to_numpy()
    first, last, way = runs(price)
    tops = price[last].tolist()
    begins, heads, ends, free, i = [], [], [], 0, 0
    while i + 5 < len(way):
        begin = max(first[i] - 1, free)
        if way[i : i + 6] == [1, -1, 1, -1, 1, -1] and begin < last[i] and tops[i] < tops[i + 2] > tops[i + 4]:
            begins.append(begin)
            heads.append(last[i + 2])
            ends.append(last[i + 5])
            free = last[i + 5] + 1
            i += 6
        else:
            i += 1
    return pd.DataFrame(
        {"symbol": _key(part, begins), "start_ts": ts[begins], "head_ts": ts[heads], "end_ts": ts[ends], "head": price[heads]}
    )


def running_average(part: pd.DataFrame) -> pd.DataFrame:
    """Rows whose price is at least the average of the rows since the first."""
    part = part.sort_values("ts")
    ts, price, rows = part["ts"].to_numpy(), part["price"].to_list(), len(part)
    begins, ends, averages, free = [], [], [], 0
    for begin in np.flatnonzero(part["volume"].to_numpy() > 5000).tolist():
        if begin < free:
            continue
        total, i = 0.0, begin + 1
        while i < rows and price[i] >= (total + price[i]) / (i - begin):
            total += price[i]
            i += 1
        if i > begin + 1:
            begins.append(begin)
            ends.append(i - 1)
            averages.append(total / (i - 1 - begin))
            free = i
    return pd.DataFrame({"symbol": _key(part, begins), "start_ts": ts[begins], "end_ts": ts[ends], "average": averages})


def three_steps(column: str, value: str | int, each: bool = False) -> Loop:
    """A row with ``value`` in ``column``, the next cart, the next buy at a higher price, all inside WITHIN. ``each``: from each
    such row on, not only from those behind the match before."""

    def loop(part):  # pyspark looks for type hints, which a partial cannot give
        return _three_steps(column, value, each, part)

    return loop


def _three_steps(column: str, value: str | int, each: bool, part: pd.DataFrame) -> pd.DataFrame:
    part = part.sort_values("ts")
    time, price, kind = part["ts"].to_numpy(), part["price"].to_numpy(), part["kind"]
    ts, cost = time.tolist(), price.tolist()
    begins = part[column].eq(value).to_numpy().nonzero()[0]
    carts, buys = (kind.eq(name).to_numpy().nonzero()[0] for name in ("cart", "buy"))
    cart_behind = np.searchsorted(carts, begins, side="right").tolist()
    buy_behind = np.searchsorted(buys, carts, side="right").tolist()
    cart, buy = carts.tolist(), buys.tolist()
    a, b, c, free = [], [], [], 0
    for begin, i in zip(begins.tolist(), cart_behind):
        if begin < free or i == len(cart):
            continue
        end, least = ts[begin] + WITHIN, cost[begin]
        j = buy_behind[i]
        while j < len(buy) and ts[buy[j]] < end and cost[buy[j]] <= least:
            j += 1
        if j < len(buy) and ts[buy[j]] < end:
            a.append(begin)
            b.append(cart[i])
            c.append(buy[j])
            free = 0 if each else buy[j] + 1
    gain = price[c] - price[a]
    return pd.DataFrame({"symbol": _key(part, a), "a_ts": time[a], "b_ts": time[b], "c_ts": time[c], "gain": gain})


def searched(letters: Callable[[pd.DataFrame], np.ndarray], pattern: bytes) -> Loop:
    """``pattern`` over the partition as a text with a letter for each row (``letters``, bytes as uint8)."""

    def loop(part):
        return _searched(letters, pattern, part)

    return loop


def _searched(letters: Callable[[pd.DataFrame], np.ndarray], pattern: bytes, part: pd.DataFrame) -> pd.DataFrame:
    part = part.sort_values("ts")
    ts = part["ts"].to_numpy()
    spans = [m.span() for m in re.finditer(pattern, letters(part).tobytes())]
    begin, end = np.array(spans, dtype=np.int64).reshape(-1, 2).T
    return pd.DataFrame({"symbol": _key(part, begin), "start_ts": ts[begin], "end_ts": ts[end - 1], "n": end - begin})


def ways(part: pd.DataFrame) -> np.ndarray:
    """D, F or U by whether the price falls, stays or rises; N for the first row."""
    way = np.sign(np.diff(part["price"].to_numpy())).astype(np.int64)
    return np.r_[np.uint8(ord("N")), np.frombuffer(b"DFU", dtype=np.uint8)[way + 1]]


def ways_and_size(part: pd.DataFrame) -> np.ndarray:
    """The same, in small letters where the volume is at most 9,000."""
    return ways(part) + np.where(part["volume"].to_numpy() > 9000, 0, 32).astype(np.uint8)


def _key(part: pd.DataFrame, rows) -> np.ndarray:
    return np.full(len(rows), part["symbol"].iat[0], dtype=object)
