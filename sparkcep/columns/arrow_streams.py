"""Arrow streams from files, as tables. A file may be damaged or made up, so no more memory is taken than its bytes allow, and each
value is looked at before anything relies on it.

Compressed batches say in front of each buffer how many bytes it has uncompressed. Arrow takes so many before it looks further.
"""

from __future__ import annotations

import struct

import pyarrow as pa

MOST_BYTES = 1 << 31  # of the compressed buffers of one stream, uncompressed
_HEADER, _BUFFERS, _COMPRESSION = 2, 2, 3  # places of fields in tables of Arrow's Message.fbs: of Message the first, of RecordBatch the others
_BATCHES = ("record batch", "dictionary")


def read_table(data: bytes, most: int = 0) -> pa.Table:
    """The table of a stream. Raises ValueError for a stream that is damaged, and for one whose compressed buffers have more than
    ``most`` bytes."""
    try:
        if sum(_uncompressed(message) for message in pa.ipc.MessageReader.open_stream(data) if message.type in _BATCHES) > most:
            raise ValueError(f"more than {most} bytes in compressed buffers")
        table = pa.ipc.open_stream(data).read_all()
        table.validate(full=True)
    except (pa.ArrowException, struct.error, OSError, EOFError) as error:
        raise ValueError(str(error)) from error
    return table


def _uncompressed(message: pa.ipc.Message) -> int:
    """How many bytes the buffers of a batch have, where they are compressed."""
    metadata, body = memoryview(message.metadata), memoryview(message.body if message.body is not None else b"")
    batch = _table_at(metadata, struct.unpack_from("<I", metadata)[0], _HEADER)
    if message.type == "dictionary":
        batch = _table_at(metadata, batch, 1)  # data of DictionaryBatch
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
    """Where a field of a flatbuffer's table is; None where it is left out."""
    fields = _place(table - struct.unpack_from("<i", metadata, table)[0])
    (size,) = struct.unpack_from("<H", metadata, fields)
    at = 4 + 2 * number
    offset = struct.unpack_from("<H", metadata, fields + at)[0] if at < size else 0
    return table + offset if offset else None


def _table_at(metadata: memoryview, table: int | None, number: int) -> int | None:
    """Where the table or vector begins that a field names."""
    field = None if table is None else _field(metadata, table, number)
    return None if field is None else field + struct.unpack_from("<I", metadata, field)[0]
