"""Serializes the saved state of open partitions: rows and numbers, but nothing of a kernel.

So a later version's search can resume from the bytes. The state of a partition is, little endian:

=====================  =====================================================================================
4 bytes                ``SCEP``
uint16, uint16         the format; the kind of search, which determines the numbers
8 bytes                a hash of the columns' names and types
uint32                 how many rows are retained
int64, each            the kind's numbers
uint32, each           how many bytes each section has
the sections           arrays of the kind, then those of the rows (:mod:`sparkcep.columns.row_codec`)
zeros                  up to a multiple of 8 bytes; this and the checksum are new in format 2
uint64                 the sum of all words of 8 bytes before it
=====================  =====================================================================================

The state of a partition about which nothing is known is empty. Format 1 ends with its sections. It can still be read.

A state comes from a checkpoint. A faulty disk can change it, and so can anyone who may write there. The checksum detects flipped
bits and missing bytes, but it does not protect against forged states. So the numbers of a state are compared with the lengths that
they count or index before anything is read by them. This happens here, in :mod:`sparkcep.columns.row_codec`, and in ``restore`` of
each :class:`StateSchema`.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.row_codec import Sections, bytes_of, described, has_bytes_of_each_row, packed, section_count, slices, unpacked
from sparkcep.errors import MatchRuntimeError

FORMAT, FORMAT_UNCHECKED = 2, 1
FAR = 1 << 62  # no number of rows or matches comes near it, and the sum of two such numbers fits 64 bits
_MOST_UNCOUNTED = 1 << 24  # most rows of one call if all columns are NULL: then only the number of rows is written
_WORD = np.dtype("<u8")
_MAGIC, _BEGIN = b"SCEP", struct.Struct("<4sHH8s")
LISTED, WHOLE, CHEAPEST, EXPIRING, BUDGETED, IN_TURN, POINTS = 1, 2, 3, 4, 5, 6, 7  # kinds of search; POINTS: of open bundles
PENDING, EMITTED, PUNCTUATED = 100, 101, 102  # rows not searched yet; output rows that may still be retracted; punctuations
_HEAD = 4  # bytes of the length before the first part of a key's state
NO_BYTES = pa.scalar(b"", pa.large_binary())
PARTITION, WITHOUT = "an open partition", "begin without it"  # words of error messages


class Ragged(NamedTuple):
    """A list of any length for each partition.

    Attributes:
        values: the values of all partitions, partition by partition.
        counts: how many of them each partition has. int64 (partitions).
    """

    values: np.ndarray
    counts: np.ndarray


class StateColumns(NamedTuple):
    """The saved states of partitions as columns.

    Attributes:
        rows: how many rows of each partition are retained. int64 (partitions).
        numbers: columns of numbers by their names. int64 (partitions) each.
        lists: columns of lists by their names. The columns of a stage that a clause lacks are saved as zeros
            and empty lists.
    """

    rows: np.ndarray
    numbers: dict[str, np.ndarray]
    lists: dict[str, Ragged]


class State(Protocol):
    """The saved state of partitions that may still grow.

    Attributes:
        rows: how many rows of each partition are retained. int64 (partitions).
    """

    rows: np.ndarray

    def columns(self) -> StateColumns:
        """Returns the state as columns."""
        ...


@dataclass(frozen=True)
class StateSchema:
    """Declares how the states of an operator or a stage are saved.

    Attributes:
        kind: the number that identifies this schema in the bytes.
        restore: makes a state from its columns. It raises ValueError for numbers that a state of these rows cannot have, because
            kernels do not check the state.
        numbers: the names of each partition's numbers, in the order of the bytes.
        lists: the names and types of each partition's lists, in the order of the bytes.
        signature: identifies the net whose edges or nodes the numbers refer to, see :func:`signature_of`. None without such
            numbers. In the bytes the signature comes before the numbers.
    """

    kind: int
    restore: Callable[[StateColumns], State]
    numbers: tuple[str, ...] = ()
    lists: Mapping[str, np.dtype] = field(default_factory=dict)
    signature: int | None = None

    def saved(self, state: State) -> tuple[np.ndarray, list[Ragged]]:
        """Returns the numbers of a state and its lists. The numbers are int64 (partitions, signature and numbers)."""
        columns = state.columns()
        none = Ragged(np.zeros(0), np.zeros_like(columns.rows))
        lists = [Ragged(of.values.astype(kind, copy=False).ravel(), of.counts) for kind, of in ((kind, columns.lists.get(name, none)) for name, kind in self.lists.items())]
        signed = self.signature is not None
        numbers = np.zeros((len(columns.rows), signed + len(self.numbers)), dtype=np.int64)
        for i, name in enumerate(self.numbers, signed):
            numbers[:, i] = columns.numbers.get(name, 0)
        if signed:
            known = numbers.any(axis=1) | np.any([columns.rows > 0, *(some.counts > 0 for some in lists)], axis=0)
            numbers[:, 0] = np.where(known, self.signature, 0)
        return numbers, lists

    def loaded(self, rows: np.ndarray, numbers: np.ndarray, lists: list[Ragged]) -> State:
        """Restores a state. Raises ValueError, or MatchRuntimeError for a state of another pattern."""
        signed = self.signature is not None
        if signed and not np.isin(numbers[:, 0], (0, self.signature)).all():
            raise damaged(PARTITION, WITHOUT, "it is of a clause with another pattern")
        named = {name: numbers[:, i] for i, name in enumerate(self.numbers, signed)}
        return self.restore(StateColumns(rows, named, dict(zip(self.lists, lists, strict=True))))


def signature_of(*arrays: np.ndarray) -> int:
    """Identifies a net by its arrays. Returns the first 8 bytes of their SHA-256 as a number."""
    digest = hashlib.sha256(b"".join(values.tobytes() for values in arrays)).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


def check_numbers(*facts: np.ndarray) -> None:
    """Raises ValueError unless all ``facts`` (bool) about the numbers of a state are true."""
    if not all(map(np.all, facts)):
        raise ValueError("numbers of other rows")


def ascending(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Returns whether each value is larger than its predecessor in the same partition. bool (values - 1).

    ``counts`` has how many values each partition has. int64 (partitions).
    """
    larger = np.diff(values) > 0
    larger[(np.cumsum(counts) - 1)[counts > 0][:-1]] = True
    return larger


def distinct(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Returns whether the values of each partition are distinct. Compares neighbours in sorted order. bool (values - 1).

    ``counts`` is as in :func:`ascending`.
    """
    return ascending(values[np.lexsort((values, np.repeat(np.arange(len(counts)), counts)))], counts)


def damaged(of: str, instead: str, what: str = "its bytes are damaged") -> MatchRuntimeError:
    """Returns the error for a state that cannot be read.

    Args:
        of: whose state it is.
        instead: what to do.
        what: what is wrong with it.
    """
    return MatchRuntimeError("STATE_FORMAT", f"the state of {of} cannot be read: {what}; {instead}", sqlstate="22000")


class StateBytes:
    """Writes and reads the states of partitions whose rows have the columns ``schema``."""

    def __init__(self, schema: pa.Schema, saves: StateSchema) -> None:
        self.schema, self.saves = schema, saves
        columns = ";".join(f"{name!r} {described(t)}" for name, t in zip(schema.names, schema.types, strict=True))
        self.columns = hashlib.sha256(columns.encode()).digest()[:8]
        self.begin, self.unchecked = (np.frombuffer(_BEGIN.pack(_MAGIC, number, saves.kind, self.columns), dtype=_WORD) for number in (FORMAT, FORMAT_UNCHECKED))
        self.sections = len(saves.lists) + section_count(schema)
        self.counted = has_bytes_of_each_row(schema)
        numbers = (saves.signature is not None) + len(saves.numbers)
        self.head = np.dtype([("begin", _WORD, (_BEGIN.size // _WORD.itemsize,)), ("rows", "<u4"), ("numbers", "<i8", (numbers,)), ("sections", "<u4", (self.sections,))])
        self.nothing = np.zeros(1, dtype=self.head)
        self.nothing["begin"] = self.begin

    def written(self, state: State, table: pa.Table) -> list[bytes]:
        """Returns the state of each partition as bytes. ``table`` has the retained rows of all partitions."""
        return self.column(state, table).to_pylist()

    def column(self, state: State, table: pa.Table) -> pa.Array:
        """Returns the states of the partitions as a column of type large_binary.

        ``table`` has the retained rows of all partitions.
        """
        rows = state.rows
        numbers, lists = self.saves.saved(state)
        bounds = np.concatenate([[0], np.cumsum(rows)])
        sections = [Sections(values, np.concatenate([[0], np.cumsum(counts)])) for values, counts in lists]
        sections += packed(table, bounds)
        heads = np.repeat(self.nothing, len(rows))
        heads["rows"], heads["numbers"] = rows, numbers
        for i, section in enumerate(sections):
            heads["sections"][:, i] = section.sizes
        known = (rows > 0) | numbers.any(axis=1)
        pieces = [Sections(heads, np.arange(len(rows) + 1)).pieces(), *(section.pieces() for section in sections if len(section.data))]
        fill = _filled(self.head.itemsize + heads["sections"].sum(axis=1, dtype=np.int64))
        pieces.append(Sections(np.zeros(int(fill.sum()), dtype=np.uint8), np.concatenate([[0], np.cumsum(fill)])).pieces())
        whole = _checked(pc.binary_join_element_wise(*pieces, NO_BYTES))
        return whole if known.all() else pc.if_else(pa.array(known), whole, NO_BYTES)

    def read(self, states: Sequence[bytes] | pa.Array) -> tuple[Any, pa.Table]:
        """Returns the state of the partitions, and their retained rows. Raises MatchRuntimeError for bytes of another schema."""
        width, count = self.head.itemsize, len(states)
        begun = states if isinstance(states, pa.Array) else pa.array(states, pa.large_binary())
        data, begins = bytes_of(begun)
        sizes = np.diff(begins)
        if (sizes == 0).any():
            begun = pc.if_else(pc.equal(begun, NO_BYTES), self._of_nothing, begun)
            data, begins = bytes_of(begun)
            sizes = np.diff(begins)
        if (sizes < width).any():
            raise self._wrong(begun[int(np.argmax(sizes < width))].as_py())
        heads = np.frombuffer(bytes_of(slices(data, begins[:-1], begins[:-1] + width))[0] if count else b"", dtype=self.head, count=count)
        begin, columns = heads["begin"].T  # the first word has magic, format and kind; the second one the hash of the columns
        checked, own = begin == self.begin[0], columns == self.begin[1]
        own &= checked | (begin == self.unchecked[0])
        if not own.all():
            raise self._wrong(begun[int(np.argmin(own))].as_py())
        rows = heads["rows"].astype(np.int64)
        if not self.counted and rows.sum() > _MOST_UNCOUNTED:
            raise self._wrong(b"")
        sizes = heads["sections"].astype(np.int64)
        until = begins[:-1, None] + width + np.concatenate([np.zeros((count, 1), dtype=np.int64), np.cumsum(sizes, axis=1)], axis=1)
        ends = until[:, -1] + checked * _filled(until[:, -1] - begins[:-1])
        if not np.array_equal(begins[1:], ends) or not _whole(data, begins, checked):
            raise self._wrong(b"")
        sections = []
        for i in range(self.sections):
            size = sizes[:, i]
            section = bytes_of(slices(data, until[:, i], until[:, i + 1]))[0].slice(0, int(size.sum())) if size.any() else b""
            sections.append((section, size))
        types = list(self.saves.lists.values())
        try:
            if any((count % t.itemsize).any() for (_, count), t in zip(sections, types)):
                raise ValueError("parts of numbers")
            lists = [Ragged(np.frombuffer(section, dtype=t), count // t.itemsize) for (section, count), t in zip(sections, types)]
            table = unpacked(self.schema, sections[len(types) :], rows)  # first: it detects wrong row counts
            return self.saves.loaded(rows, heads["numbers"].astype(np.int64), lists), table
        except (ValueError, pa.ArrowException) as error:
            raise self._wrong(b"") from error

    @functools.cached_property
    def _of_nothing(self) -> pa.Scalar:
        """The state of a partition about which nothing is known, as it would be written."""
        fill = b"\0" * int(_filled(np.array([self.head.itemsize]))[0])
        return _checked(pa.array([self.nothing.tobytes() + fill], pa.large_binary()))[0]

    def _wrong(self, state: bytes) -> MatchRuntimeError:
        what = "its bytes are damaged"
        if len(state) >= _BEGIN.size:
            magic, number, kind, columns = _BEGIN.unpack(state[: _BEGIN.size])
            if magic != _MAGIC:
                what = "its bytes are not a state of sparkcep"
            elif number not in (FORMAT, FORMAT_UNCHECKED):
                what = f"it is of format {number}, and this version of sparkcep reads formats {FORMAT_UNCHECKED} and {FORMAT}"
            elif columns != self.columns:
                what = "it is of rows with other columns"
            elif kind != self.saves.kind:
                what = "it is of a clause with another search"
        return damaged(PARTITION, WITHOUT, what)


def parted(states: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Splits states of keys: each begins with the length of its first part. Raises MatchRuntimeError."""
    data, ends = bytes_of(states)
    begins, ends = ends[:-1], ends[1:]
    known = np.flatnonzero(ends > begins)
    sizes = np.zeros(len(begins), dtype=np.int64)
    if (ends - begins >= _HEAD)[known].all():
        sizes[known] = np.frombuffer(bytes_of(slices(data, begins[known], begins[known] + _HEAD))[0], dtype="<u4", count=len(known))
    at = begins.copy()
    at[known] += _HEAD
    if (at + sizes > ends).any():
        raise damaged("a key", "begin with a new checkpoint")
    return slices(data, at, at + sizes), slices(data, at + sizes, ends)


def whole(inner: pa.Array, outer: pa.Array) -> pa.Array:
    """Joins the two parts of states of keys. The inverse of :func:`parted`."""
    sizes = np.diff(bytes_of(inner)[1])
    head = Sections(sizes.astype("<u4"), np.arange(len(sizes) + 1)).pieces()
    both = pc.binary_join_element_wise(head, inner, outer, NO_BYTES)
    nothing = (sizes == 0) & (np.diff(bytes_of(outer)[1]) == 0)
    return pc.if_else(pa.array(nothing), NO_BYTES, both)


def _filled(sizes: np.ndarray) -> np.ndarray:
    """Returns how many bytes follow states of ``sizes`` bytes: zeros up to a multiple of a word, and the checksum. int64."""
    return -sizes % _WORD.itemsize + _WORD.itemsize


def _checked(states: pa.Array) -> pa.Array:
    """Replaces the word of zeros at the end of each state by the state's checksum."""
    data, begins = bytes_of(states)
    if not len(states):
        return states
    words = np.frombuffer(data, dtype=_WORD)[begins[0] // _WORD.itemsize : begins[-1] // _WORD.itemsize].copy()
    ends = (begins[1:] - begins[0]) // _WORD.itemsize
    words[ends - 1] = _sums(words, ends)
    return pa.Array.from_buffers(pa.large_binary(), len(states), [None, pa.py_buffer(begins - begins[0]), pa.py_buffer(words)])


def _whole(data: pa.Buffer, begins: np.ndarray, checked: np.ndarray) -> bool:
    """Returns whether all states that are ``checked`` (bool) have the checksums of their bytes."""
    some = np.flatnonzero(checked)
    if not len(some):
        return True
    if len(some) < len(checked) or begins[0] % _WORD.itemsize:
        data, begins = bytes_of(slices(data, begins[some], begins[some + 1]))
    words = np.frombuffer(data, dtype=_WORD, count=(begins[-1] - begins[0]) // _WORD.itemsize, offset=begins[0])
    ends = (begins[1:] - begins[0]) // _WORD.itemsize
    written = words[ends - 1]
    return np.array_equal(_sums(words, ends), written + written)  # the checksum is one of the summed words


def _sums(words: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Returns the sum of each state's words, modulo 2**64. A flipped bit changes it. uint64 (states)."""
    return np.add.reduceat(words, np.concatenate([[0], ends[:-1]]))
