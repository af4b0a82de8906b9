"""Reads Arrow streams from files as tables, without trusting them.

A file may be damaged or forged. So no more memory is used than its bytes allow, and each value is checked before it is relied on.
Compressed batches state before each buffer how many bytes it has uncompressed. Arrow allocates that many before it checks further.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from sparkcep.columns.comparable import as_bytes, with_leaves

MOST_BYTES = 1 << 31  # limit on the compressed buffers of one stream, uncompressed
# Field numbers in the tables of Arrow's Message.fbs: the first is of Message, the others are of RecordBatch.
_HEADER, _BUFFERS, _COMPRESSION = 2, 2, 3
_BATCHES = ("record batch", "dictionary")


def read_table(data: bytes, most: int = 0) -> pa.Table:
    """The table of a stream.

    Raises ValueError for a damaged stream, and for one whose compressed buffers have more than ``most`` bytes uncompressed.
    """
    try:
        if sum(_uncompressed(message) for message in pa.ipc.MessageReader.open_stream(data) if message.type in _BATCHES) > most:
            raise ValueError(f"more than {most} bytes in compressed buffers")
        table = pa.ipc.open_stream(data).read_all()
        table.validate()
        for column in table.columns:
            for values in column.chunks:
                values.view(with_leaves(values.type, as_bytes, nullable=True)).validate(full=True)  # a string may hold any bytes
    except (pa.ArrowException, struct.error, OSError, EOFError) as error:
        raise ValueError(str(error)) from error
    return table


def _uncompressed(message: pa.ipc.Message) -> int:
    """The uncompressed size of a batch's buffers in bytes, 0 if they are not compressed."""
    metadata, body = memoryview(message.metadata), memoryview(message.body if message.body is not None else b"")
    batch = _table_at(metadata, struct.unpack_from("<I", metadata)[0], _HEADER)
    if message.type == "dictionary":
        batch = _table_at(metadata, batch, 1)  # field ``data`` of DictionaryBatch
    if batch is None or _field(metadata, batch, _COMPRESSION) is None:
        return 0
    buffers = _table_at(metadata, batch, _BUFFERS)
    if buffers is None:
        return 0
    count, found = struct.unpack_from("<I", metadata, buffers)[0], 0
    for offset, length in struct.iter_unpack("<qq", metadata[buffers + 4 : buffers + 4 + 16 * count]):
        if length > 0:
            found += max(struct.unpack_from("<q", body, _place(offset))[0], 0)
    return found


def _place(offset: int) -> int:
    if offset < 0:
        raise ValueError("a buffer before the others")
    return offset


def _field(metadata: memoryview, table: int, number: int) -> int | None:
    """The place of a field in a flatbuffer's table, or None if it is left out."""
    fields = _place(table - struct.unpack_from("<i", metadata, table)[0])
    (size,) = struct.unpack_from("<H", metadata, fields)
    at = 4 + 2 * number
    offset = struct.unpack_from("<H", metadata, fields + at)[0] if at < size else 0
    return table + offset if offset else None


def _table_at(metadata: memoryview, table: int | None, number: int) -> int | None:
    """The begin of the table or vector that a field refers to, or None."""
    field = None if table is None else _field(metadata, table, number)
    return None if field is None else field + struct.unpack_from("<I", metadata, field)[0]
