"""Reads the plan's input columns as the JVM ships them (Shipment.java): a column with several names comes once, and keys come as
numbers.

Writing a string into an Arrow batch costs Spark as much as four numbers, and a partition's keys are equal in row after row. So a
key of at most eight bytes comes as the number of these bytes (``SortPrefix``: the first byte is the highest, and zeros follow the
last one). The string column beside it has only keys that are longer, or that end in a zero byte.

Example: the key ``AB`` comes as the number 0x4142000000000000, and the string column is NULL there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.arrays import boundaries, null_marks, words
from sparkcep.columns.comparable import as_bytes

_BYTES = 8


def merged(batches: Iterable[pa.RecordBatch], rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """Joins batches until each but the last has at least ``rows`` rows or ``size`` bytes."""
    held: list[pa.RecordBatch] = []
    count = held_bytes = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        held_bytes += batch.nbytes
        if count >= rows or held_bytes >= size:
            whole = _one(held)
            held, count, held_bytes = [], 0, 0  # not kept beside their copy
            yield from whole
    if held:
        yield from _one(held)


def _one(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The batches as one, in a list. The list is empty if they do not have rows."""
    return pa.Table.from_batches(batches).combine_chunks().to_batches()


def unpacked(batch: pa.RecordBatch, columns: Iterable[tuple[str, str, str]]) -> pa.RecordBatch:
    """The input columns of a batch.

    Each of ``columns`` is (name, name as shipped, name of the number of its first bytes). The last one may be empty.
    """
    arrays = dict(zip(batch.schema.names, batch.columns))
    whole = {source: strings(arrays[number], arrays[source]) if number else arrays[source] for _, source, number in columns}
    return pa.RecordBatch.from_arrays([whole[source] for _, source, _ in columns], names=[name for name, _, _ in columns])


def strings(prefix: pa.Array, rest: pa.Array) -> pa.Array:
    """The strings (n) of ``rest``. If one is NULL, it is made of the bytes of ``prefix`` int64 (n); if both are NULL, the result is
    NULL."""
    if rest.null_count == prefix.null_count:  # each string has more than eight bytes
        return rest
    plain = as_bytes(rest.type)  # a string may hold any bytes, and Arrow checks that strings are UTF-8
    offsets = boundaries([prefix], len(prefix))
    starts = offsets[:-1]
    if 2 * len(starts) > len(prefix):  # rows of a stream, whose keys change from row to row
        apart = prefix.dictionary_encode()
        whole = _texts(words(apart.dictionary), plain).take(apart.indices)
    else:  # equal neighbours share a string
        texts = pc.if_else(pa.array(null_marks(prefix)[starts] == 1), None, _texts(words(prefix)[starts], plain))
        whole = pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(pa.array(offsets[1:], pa.int64()), texts))
    return (whole if rest.null_count == len(rest) else pc.coalesce(rest.cast(plain), whole)).view(rest.type)


def _texts(values: np.ndarray, kind: pa.DataType) -> pa.Array:
    """The bytes of each number, without the zeros at its end."""
    every = values.astype(">i8").view(np.uint8).reshape(-1, _BYTES)
    lengths = (np.arange(1, _BYTES + 1) * (every != 0)).max(axis=1, initial=0)
    ends = np.cumsum(lengths, dtype=np.int64 if pa.types.is_large_binary(kind) else np.int32)
    offsets = np.concatenate([np.zeros(1, dtype=ends.dtype), ends])
    data = every[np.arange(_BYTES) < lengths[:, None]]
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
