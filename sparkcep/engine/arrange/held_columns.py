"""Holds the columns of a task's blocks: in memory within a budget, beyond it in files that are mapped into memory.

A file loses its name when it is created, so it disappears with the process.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from typing import BinaryIO, NamedTuple

import numpy as np

from sparkcep.columns.blocks import WIDE, Block, Description


class HeldColumn(NamedTuple):
    """A column of all rows, in the order of arrival.

    Attributes:
        values: the values (rows), (rows, 2) for wide decimals, or the bytes of all values. uint8 (bytes).
        nulls: 1 for NULL. uint8 (rows); None without NULL.
        offsets: the bounds of the values in these bytes. int64 (rows + 1); None if the values have one width.
    """

    values: np.ndarray
    nulls: np.ndarray | None
    offsets: np.ndarray | None


class HeldColumns:
    """Collects blocks, and returns their columns once."""

    def __init__(self, description: Description, folder: str | None = None) -> None:
        """``folder``: for files; None for the system's."""
        self.description, self.folder = description, folder
        self.rows = self.spilled = 0
        self._blocks: list[Block] = []
        self._bytes = 0
        self._parts = [_Parts(values is None) for values, _ in description.types]

    def add(self, block: Block) -> None:
        """Takes a block, whose arrays must stay valid."""
        self._blocks.append(block)
        self._bytes += sum(array.nbytes for column in block.columns for array in column if array is not None)
        self.rows += block.rows
        if self._bytes > self.description.held:
            self._spill()

    def _spill(self) -> None:
        for i, parts in enumerate(self._parts):
            parts.take(self._blocks, i)
            parts.spill(self.folder)
        self.spilled += self._bytes
        self._blocks, self._bytes = [], 0

    def columns(self) -> list[HeldColumn]:
        """Returns the columns of all rows. To be called once, after the last block."""
        found = []
        for i, ((values, _), parts) in enumerate(zip(self.description.types, self._parts, strict=True)):
            parts.take(self._blocks, i)
            found.append(parts.whole(np.dtype(np.uint8) if values is None else values, self.folder if self.spilled else None, bool(self.spilled)))
        self._blocks = []
        return found


class _Parts:
    """The pieces of one column, or the files that hold them."""

    def __init__(self, texts: bool) -> None:
        self.texts = texts
        self.values: list[np.ndarray] = []
        self.nulls: list[np.ndarray] = []
        self.offsets: list[np.ndarray] = [np.zeros(1, dtype=np.int64)] if texts else []
        self.end = 0  # of the bytes of all values
        self.any_null = False
        self.files: list[BinaryIO] = []

    def take(self, blocks: Iterable[Block], column: int) -> None:
        """Takes the pieces of blocks."""
        for block in blocks:
            nulls, values, ends = block.columns[column]
            self.any_null |= nulls is not None
            self.nulls.append(np.zeros(block.rows, dtype=np.uint8) if nulls is None else nulls)
            self.values.append(values)
            if ends is not None:
                self.offsets.append(self.end + ends.astype(np.int64))
                self.end += len(values)

    def spill(self, folder: str | None) -> None:
        """Writes the pieces to the end of files."""
        pieces = (self.values, self.nulls, self.offsets)
        if not self.files:
            self.files = [tempfile.TemporaryFile(dir=folder) for _ in pieces]  # closed with the process
        for file, arrays in zip(self.files, pieces, strict=True):
            for array in arrays:
                file.write(np.ascontiguousarray(array).data)
            arrays.clear()

    def whole(self, dtype: np.dtype, folder: str | None, spilled: bool) -> HeldColumn:
        """Returns the column. Its pieces are given up."""
        if spilled:
            self.spill(folder)
            values, nulls, offsets = (_mapped(file, kind) for file, kind in zip(self.files, (dtype, np.dtype(np.uint8), np.dtype(np.int64)), strict=True))
        else:
            values, nulls = _joined(self.values, dtype), _joined(self.nulls, np.dtype(np.uint8)) if self.any_null else np.zeros(0, dtype=np.uint8)
            offsets = _joined(self.offsets, np.dtype(np.int64))
        return HeldColumn(values, nulls if self.any_null else None, offsets if self.texts else None)


def _joined(arrays: list[np.ndarray], dtype: np.dtype) -> np.ndarray:
    if not arrays:
        return np.zeros((0, 2) if dtype == WIDE else 0, dtype=np.int64 if dtype == WIDE else dtype)
    whole = np.concatenate(arrays)
    arrays.clear()
    return whole


def _mapped(file: BinaryIO, dtype: np.dtype) -> np.ndarray:
    """Returns the content of a file, mapped."""
    file.flush()
    if os.fstat(file.fileno()).st_size == 0:
        return _joined([], dtype)
    # "c": pages that are written become the process's own; kernels take no arrays that are read-only
    whole = np.asarray(np.memmap(file, dtype=np.int64 if dtype == WIDE else dtype, mode="c"))
    return whole.reshape(-1, 2) if dtype == WIDE else whole
