"""Holds the columns of a task's blocks: in memory within a budget, beyond it in files that are mapped into memory.

A file loses its name when it is created, so it disappears with the process.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from typing import BinaryIO, NamedTuple

import numpy as np

from sparkcep.columns.blocks import Block, Description


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
        self._columns = [_Pieces(values) for values, _ in description.types]

    def add(self, block: Block) -> None:
        """Takes a block, whose arrays must stay valid."""
        self._blocks.append(block)
        self._bytes += sum(array.nbytes for column in block.columns for array in column if array is not None)
        self.rows += block.rows
        if self._bytes > self.description.held:
            self._spill()

    def _spill(self) -> None:
        for i, pieces in enumerate(self._columns):
            pieces.take(self._blocks, i)
            pieces.spill(self.folder)
        self.spilled += self._bytes
        self._blocks, self._bytes = [], 0

    def columns(self) -> list[HeldColumn]:
        """Returns the columns of all rows. To be called once, after the last block."""
        found = []
        for i, pieces in enumerate(self._columns):
            pieces.take(self._blocks, i)
            found.append(pieces.whole())
        self._blocks = []
        return found


class _Pieces:
    """The pieces of one column: values, NULL marks, and bounds of values of their own lengths. Files have spilled pieces."""

    def __init__(self, values: np.dtype | None) -> None:
        self.types = (np.dtype(np.uint8) if values is None else values, np.dtype(np.uint8), np.dtype(np.int64))
        self.texts, self.any_null, self.end = values is None, False, 0  # end: of the bytes of all values
        self.arrays: tuple[list[np.ndarray], ...] = ([], [], [np.zeros(1, dtype=np.int64)] if self.texts else [])
        self.files: list[BinaryIO] = []

    def take(self, blocks: Iterable[Block], column: int) -> None:
        """Takes the pieces of blocks."""
        values, nulls, offsets = self.arrays
        for block in blocks:
            found = block.columns[column]
            self.any_null |= found.nulls is not None
            values.append(found.values)
            nulls.append(np.zeros(block.rows, dtype=np.uint8) if found.nulls is None else found.nulls)
            if found.ends is not None:
                offsets.append(self.end + found.ends.astype(np.int64))
                self.end += len(found.values)

    def spill(self, folder: str | None) -> None:
        """Moves the pieces to files."""
        if not self.files:
            self.files = [tempfile.TemporaryFile(dir=folder) for _ in self.arrays]  # closed with the process
        self._write()

    def _write(self) -> None:
        for file, arrays in zip(self.files, self.arrays, strict=True):
            for array in arrays:
                file.write(np.ascontiguousarray(array).data)
            arrays.clear()

    def whole(self) -> HeldColumn:
        """Returns the column. Its pieces are given up."""
        if self.files:
            self._write()
            values, nulls, offsets = map(_mapped, self.files, self.types)
        else:
            if not self.any_null:
                self.arrays[1].clear()
            values, nulls, offsets = map(_joined, self.arrays, self.types)
        return HeldColumn(values, nulls if self.any_null else None, offsets if self.texts else None)


def _joined(arrays: list[np.ndarray], dtype: np.dtype) -> np.ndarray:
    whole = np.concatenate(arrays) if arrays else np.zeros(0, dtype)
    arrays.clear()
    return whole


def _mapped(file: BinaryIO, dtype: np.dtype) -> np.ndarray:
    """Returns the content of a file, mapped."""
    file.flush()
    if os.fstat(file.fileno()).st_size == 0:
        return np.zeros(0, dtype)
    # "c": pages that are written become the process's own; kernels take no arrays that are read-only
    return np.asarray(np.memmap(file, dtype=dtype, mode="c"))
