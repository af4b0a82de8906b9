"""What is kept of open partitions as bytes: rows and numbers, nothing of a kernel, so that a later version's search goes on from
them.

The state of a partition is, little endian:

=====================  =====================================================================================
4 bytes                ``SCEP``
uint16, uint16         the format; the kind of search, which says what the numbers are
8 bytes                a hash of the columns' names and types
uint32                 how many rows are kept
int64, each            the kind's numbers
uint32, each           how many bytes each section has
the sections           arrays of the kind, then those of the rows (:mod:`sparkcep.columns.packed`)
=====================  =====================================================================================

The state of a partition of which nothing is known is empty.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from sparkcep.columns.packed import Sections, described, packed, section_count, unpacked
from sparkcep.errors import MatchRuntimeError

FORMAT = 1
_MAGIC, _BEGIN = b"SCEP", struct.Struct("<4sHH8s")
LISTED, WHOLE, CHEAPEST = 1, 2, 3  # kinds of search
PENDING, TOLD = 100, 101  # rows that are not searched yet; output rows of matches that may still go


class Form(Protocol):
    """How a kind of search writes what it knows of open partitions: ``kind``; ``numbers`` of each partition, and ``arrays`` with
    their types, of any length for each."""

    kind: int
    numbers: int
    arrays: tuple[np.dtype, ...]

    def written(self, open) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
        """Numbers int64 (partitions, ``numbers``), and for each array its values and int64 (partitions) how many each has."""
        ...

    def read(self, rows: np.ndarray, numbers: np.ndarray, arrays: list[tuple[np.ndarray, np.ndarray]]):
        """The same back; ``rows`` int64 (partitions): how many are kept of each."""
        ...


class StateBytes:
    """Writes and reads the states of partitions of rows with ``schema``."""

    def __init__(self, schema: pa.Schema, form: Form) -> None:
        self.schema, self.form = schema, form
        columns = ";".join(f"{name!r} {described(t)}" for name, t in zip(schema.names, schema.types, strict=True))
        self.begin = _BEGIN.pack(_MAGIC, FORMAT, form.kind, hashlib.sha256(columns.encode()).digest()[:8])
        self.sections = len(form.arrays) + section_count(schema)
        self.head = np.dtype([("begin", f"V{_BEGIN.size}"), ("rows", "<u4"), ("numbers", "<i8", (form.numbers,)), ("sections", "<u4", (self.sections,))])
        self.nothing = np.zeros(1, dtype=self.head)
        self.nothing["begin"] = np.void(self.begin)

    def written(self, open, table: pa.Table, rows: np.ndarray) -> list[bytes]:
        """The state of each partition. ``table``: the kept rows, of which each has ``rows``."""
        numbers, arrays = self.form.written(open)
        bounds = np.concatenate([[0], np.cumsum(rows)])
        sections = [Sections(values, np.concatenate([[0], np.cumsum(counts)])) for values, counts in arrays]
        sections += packed(table, bounds)
        heads = np.repeat(self.nothing, len(rows))
        heads["rows"], heads["numbers"] = rows, numbers
        for i, section in enumerate(sections):
            heads["sections"][:, i] = section.sizes
        known = ((rows > 0) | numbers.any(axis=1)).tolist()
        text, width = heads.tobytes(), self.head.itemsize
        views = [(memoryview(section.data), section.until) for section in sections if len(section.data)]
        return [
            b"".join([text[i * width : (i + 1) * width], *(view[until[i] : until[i + 1]] for view, until in views)]) if known[i] else b""
            for i in range(len(rows))
        ]

    def read(self, states: Sequence[bytes]) -> tuple[object, pa.Table]:
        """What a search knows of open partitions, and their kept rows. Raises MatchRuntimeError for bytes that are not its own."""
        width, nothing = self.head.itemsize, self.nothing.tobytes()
        begun = [state or nothing for state in states]
        for state in begun:
            if len(state) < width or not state.startswith(self.begin):
                raise self._wrong(state)
        heads = np.frombuffer(b"".join([state[:width] for state in begun]), dtype=self.head)
        rows = heads["rows"].astype(np.int64)
        sizes = heads["sections"].astype(np.int64)
        until = (width + np.concatenate([np.zeros((len(begun), 1), dtype=np.int64), np.cumsum(sizes, axis=1)], axis=1))
        if list(map(len, begun)) != until[:, -1].tolist():
            raise self._wrong(b"")
        ends = until.T.tolist()
        sections = []
        for i in range(self.sections):
            data = b"".join([state[a:b] for state, a, b in zip(begun, ends[i], ends[i + 1], strict=True)]) if sizes[:, i].any() else b""
            sections.append((data, sizes[:, i]))
        mine = len(self.form.arrays)
        arrays = [(np.frombuffer(data, dtype=t), count // t.itemsize) for (data, count), t in zip(sections[:mine], self.form.arrays, strict=True)]
        try:
            return self.form.read(rows, heads["numbers"].astype(np.int64), arrays), unpacked(self.schema, sections[mine:], rows)
        except (ValueError, pa.ArrowInvalid) as error:
            raise self._wrong(b"") from error

    def _wrong(self, state: bytes) -> MatchRuntimeError:
        what = "its bytes are damaged"
        if len(state) >= _BEGIN.size:
            magic, number, kind, columns = _BEGIN.unpack(state[: _BEGIN.size])
            if magic != _MAGIC:
                what = "its bytes are no state of sparkcep's"
            elif number != FORMAT:
                what = f"it is of format {number}, and this version of sparkcep reads format {FORMAT}"
            elif columns != self.begin[-8:]:
                what = "it is of rows with other columns"
            elif kind != self.form.kind:
                what = "it is of a clause that is searched in another way"
        return MatchRuntimeError("STATE_FORMAT", f"the state of an open partition cannot be read: {what}; begin without it", sqlstate="22000")
