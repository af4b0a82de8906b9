"""The rows of each key: numbers of keys by their first rows, and the rows of each number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sparkcep.kernels.arrange import groups as kernels

_FIRST_CELLS = 1 << 10


class RowsByKey(NamedTuple):
    """The rows, key by key.

    Attributes:
        rows: the rows of each key, in the order of arrival. int32, or int64 for more than 2**31 rows. None if they arrived key by
            key.
        bounds: the bounds of each key. int64 (keys + 1).
    """

    rows: np.ndarray | None
    bounds: np.ndarray


def group_rows(words: Sequence[np.ndarray], count: int) -> RowsByKey:
    """Groups rows by keys.

    Args:
        words: int64 (rows) each; rows with equal words in all of them have equal keys. Without words all rows have one key.
        count: how many rows there are.
    """
    places, bounds = places_of_rows(words, count)
    if places is None:
        return RowsByKey(None, bounds)
    rows = np.empty(count, dtype=index_type(count))
    rows[places] = np.arange(count, dtype=rows.dtype)
    return RowsByKey(rows, bounds)


def places_of_rows(words: Sequence[np.ndarray], count: int) -> tuple[np.ndarray | None, np.ndarray]:
    """Returns the place of each row if rows are placed key by key, in the order of arrival within a key.

    Args:
        words: as in :func:`group_rows`.
        count: how many rows there are.

    Returns:
        The places, intp (rows), or None if rows arrived key by key; and the bounds of each key, int64 (keys + 1).
    """
    if not words or not count:
        return None, np.array([0, count] if count else [0], dtype=np.int64)
    numbers, keys = np.zeros(count, dtype=np.int32), 1
    for column in words:
        numbers, keys = _numbered(numbers, column)
    bounds = np.zeros(keys + 1, dtype=np.int64)
    if kernels.count_rows(numbers, bounds[1:]):
        np.cumsum(bounds, out=bounds)
        return None, bounds
    np.cumsum(bounds, out=bounds)
    places = np.empty(count, dtype=np.intp)
    kernels.place_rows(numbers, bounds[:-1].copy(), places)
    return places, bounds


def index_type(count: int) -> np.dtype:
    """Returns the smaller integer type that can number ``count`` rows."""
    return np.dtype(np.int32 if count <= np.iinfo(np.int32).max else np.int64)


def _numbered(before: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, int]:
    """Returns the numbers of pairs of a number and a word. int32 (rows), and how many there are."""
    numbers = np.empty(len(before), dtype=np.int32)
    table, pairs = np.zeros(_FIRST_CELLS, dtype=np.int32), np.empty((_FIRST_CELLS // 2, 2), dtype=np.int64)
    row = count = 0
    while True:
        row, count = kernels.number_rows(before, words, row, table, pairs, count, numbers)
        if row == len(words):
            return numbers, count
        pairs = np.concatenate([pairs, np.empty((3 * len(pairs), 2), dtype=np.int64)])
        table = np.zeros(2 * len(pairs), dtype=np.int32)
        kernels.enter_pairs(pairs, count, table)
