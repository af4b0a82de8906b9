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
import pyarrow.compute as pc

from sparkcep.columns.packed import Sections, bytes_of, described, packed, section_count, slices, unpacked
from sparkcep.errors import MatchRuntimeError

FORMAT = 1
_MAGIC, _BEGIN = b"SCEP", struct.Struct("<4sHH8s")
LISTED, WHOLE, CHEAPEST, EXPIRING, BUDGETED, IN_TURN, POINTS = 1, 2, 3, 4, 5, 6, 7  # kinds of search (POINTS: match points of bundles that may go on)
PENDING, TOLD, PROMISED = 100, 101, 102  # rows that are not searched yet; output rows of matches that may still go; promises of PUNCTUATE BY
NO_BYTES = pa.scalar(b"", pa.large_binary())


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
        return self.column(open, table, rows).to_pylist()

    def column(self, open, table: pa.Table, rows: np.ndarray) -> pa.Array:
        """The same as a column of type large_binary."""
        numbers, arrays = self.form.written(open)
        bounds = np.concatenate([[0], np.cumsum(rows)])
        sections = [Sections(values, np.concatenate([[0], np.cumsum(counts)])) for values, counts in arrays]
        sections += packed(table, bounds)
        heads = np.repeat(self.nothing, len(rows))
        heads["rows"], heads["numbers"] = rows, numbers
        for i, section in enumerate(sections):
            heads["sections"][:, i] = section.sizes
        known = (rows > 0) | numbers.any(axis=1)
        pieces = [Sections(heads, np.arange(len(rows) + 1)).pieces(), *(section.pieces() for section in sections if len(section.data))]
        whole = pc.binary_join_element_wise(*pieces, NO_BYTES)
        return whole if known.all() else pc.if_else(pa.array(known), whole, NO_BYTES)

    def read(self, states: Sequence[bytes] | pa.Array) -> tuple[object, pa.Table]:
        """What a search knows of open partitions, and their kept rows. Raises MatchRuntimeError for bytes that are not its own."""
        width, count = self.head.itemsize, len(states)
        begun = states if isinstance(states, pa.Array) else pa.array(states, pa.large_binary())
        begun = pc.if_else(pc.equal(begun, NO_BYTES), pa.scalar(self.nothing.tobytes(), pa.large_binary()), begun)
        data, begins = bytes_of(begun)
        short = np.diff(begins) < width
        if short.any():
            raise self._wrong(begun[int(np.argmax(short))].as_py())
        heads = np.frombuffer(bytes_of(slices(data, begins[:-1], begins[:-1] + width))[0] if count else b"", dtype=self.head, count=count)
        other = heads["begin"] != self.nothing["begin"]
        if other.any():
            raise self._wrong(begun[int(np.argmax(other))].as_py())
        rows = heads["rows"].astype(np.int64)
        sizes = heads["sections"].astype(np.int64)
        until = begins[:-1, None] + width + np.concatenate([np.zeros((count, 1), dtype=np.int64), np.cumsum(sizes, axis=1)], axis=1)
        if not np.array_equal(begins[1:], until[:, -1]):
            raise self._wrong(b"")
        sections = []
        for i in range(self.sections):
            size = sizes[:, i]
            section = bytes_of(slices(data, until[:, i], until[:, i + 1]))[0].slice(0, int(size.sum())) if size.any() else b""
            sections.append((section, size))
        mine = len(self.form.arrays)
        arrays = [(np.frombuffer(section, dtype=t), count // t.itemsize) for (section, count), t in zip(sections[:mine], self.form.arrays, strict=True)]
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
