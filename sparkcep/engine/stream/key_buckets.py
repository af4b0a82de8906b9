"""Key buckets: runs a clause over a stream for operators that call Python once for each key.

:mod:`sparkcep.spark.stream.frames` uses it, without the JVM extension. Such a call costs milliseconds. So the operator's key is a
bucket: many keys of the clause, chosen by a hash of their values.

The rows of a bucket are sent as *pieces*, which are Arrow streams. One value is saved for each bucket, also an Arrow stream: each
key with its state, see :mod:`sparkcep.engine.stream.keyed_stream`. Every bucket gets a piece in each micro-batch with rows,
possibly an empty one. So each bucket knows the previous watermark and can detect late rows.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.arrays import contiguous, flat, is_list, null_marks, words
from sparkcep.columns.arrow_streams import read_table
from sparkcep.columns.comparable import readable
from sparkcep.columns.row_codec import bytes_of
from sparkcep.columns.types import type_of
from sparkcep.engine.core.effort import Totals
from sparkcep.engine.core.state_codec import NO_BYTES, damaged
from sparkcep.engine.output.match_id import is_stable, stable_text
from sparkcep.engine.stream.keyed_stream import KeyedStream, order_names
from sparkcep.errors import MatchRuntimeError

LAYOUT, LAYOUT_UNCHECKED = 2, 1  # of a saved bucket: layout 2 has a header before the Arrow stream, layout 1 does not
_BEGIN, _MAGIC = struct.Struct("<4sHI"), b"SCEB"  # the header: magic, layout, CRC-32 of the stream
_HEAD = b"sparkcep"  # the metadata key with a bucket's numbers in its Arrow stream
_LARGEST_STATEMENT = 1 << 26  # bytes
_GATHERED_ROWS, _GATHERED_BYTES = 1 << 18, 1 << 27  # pieces are made when so much has been gathered
_OUTPUT_BYTES = 1 << 26  # size of one piece of output
_KEY, _LARGEST = "key", 2**31 - 1
_FARTHEST = np.iinfo(np.int64).max
_BUCKET, _AGAIN = "a bucket of keys", "begin with a new checkpoint"  # words of errors
_NO_KEYS = pa.schema([(_KEY, pa.binary()), ("state", pa.large_binary()), ("due", pa.int64())])


# -- rows to pieces -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """The columns of incoming rows, by place: the engine's input, then whether a variable wants the row, then the ORDER BY
    expressions.

    Attributes:
        columns: names of the engine's input columns.
        keys: places of the keys among ``columns``.
        ordered: the number of ORDER BY expressions.
        buckets: the number of buckets.
    """

    columns: tuple[str, ...]
    keys: tuple[int, ...]
    ordered: int
    buckets: int

    @property
    def order(self) -> list[str]:
        """The names of the columns of ORDER BY."""
        return order_names(self.columns, self.ordered)

    def piece_schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of a piece: the engine's input and the ORDER BY expressions. ``schema``: of the incoming rows."""
        places = [*range(len(self.columns)), *range(len(self.columns) + 1, len(self.columns) + 1 + self.ordered)]
        return pa.schema([pa.field(name, schema.field(i).type) for name, i in zip([*self.columns, *self.order], places, strict=True)])


def pieces(batches: Iterable[pa.RecordBatch], layout: Layout) -> Iterator[list[bytes | None]]:
    """Yields for each bucket a piece of a task's rows, None if it gets no rows. Yields several times if there are many rows."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _GATHERED_ROWS or size >= _GATHERED_BYTES:
            yield _pieces(waiting, layout)
            waiting, rows, size = [], 0, 0
    yield _pieces(waiting, layout)


def _pieces(batches: list[pa.RecordBatch], layout: Layout) -> list[bytes | None]:
    out: list[bytes | None] = [None] * layout.buckets
    if not batches:
        return out
    schema, count = layout.piece_schema(batches[0].schema), len(layout.columns)
    wanted = [np.asarray(pc.fill_null(batch.column(count), False)) for batch in batches]
    places = [*range(count), *range(count + 1, count + 1 + layout.ordered)]
    own = [pa.RecordBatch.from_arrays([batch.column(i) for i in places], schema=schema) for batch in batches]
    rows = contiguous(pa.Table.from_batches(own, schema).filter(pa.array(np.concatenate(wanted))))
    if not rows.num_rows:
        return out
    number, keys = distinct([flat(rows.column(i)) for i in layout.keys], rows.num_rows)
    bucket = np.array([zlib.crc32(key) % layout.buckets for key in keys], dtype=np.int64)
    within, first = _within(bucket)
    order = np.argsort(bucket[number], kind="stable")
    rows, number = rows.take(pa.array(order)), number[order]
    ends = np.cumsum(np.bincount(bucket[number], minlength=layout.buckets))
    for i in np.unique(bucket):
        begin, end = (ends[i - 1] if i else 0), ends[i]
        values = pa.array([keys[k] for k in first[i]], pa.binary())
        column = pa.DictionaryArray.from_arrays(pa.array(within[number[begin:end]], pa.int32()), values)
        part = rows.slice(begin, end - begin)
        out[i] = _written(pa.Table.from_arrays([column, *part.columns], names=[_KEY, *part.column_names]))
    return out


def _within(bucket: np.ndarray) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """The number of each key among those of its bucket, and the keys of each bucket."""
    within, keys = np.zeros(len(bucket), dtype=np.int64), {}
    for i in np.unique(bucket):
        keys[int(i)] = np.flatnonzero(bucket == i)
        within[keys[int(i)]] = np.arange(len(keys[int(i)]))
    return within, keys


def distinct(columns: Sequence[pa.Array], rows: int) -> tuple[np.ndarray, list[bytes]]:
    """The number of each row's key, int64 (rows), and the keys as bytes, which are equal if and only if the keys are.

    NULL is a key like any other. 0.0 equals -0.0, and all NaN are equal.
    """
    number, known = np.zeros(rows, dtype=np.int64), [()]
    for column in columns:
        codes, values = _coded(column)
        pairs, number = np.unique(number * len(values) + codes, return_inverse=True)
        known = [(*known[pair // len(values)], values[pair % len(values)]) for pair in pairs.tolist()]
    return number, [stable_text(key).encode() for key in known]


def _coded(column: pa.Array) -> tuple[np.ndarray, list[object]]:
    """The column as numbers of its values, and these as plain Python values with distinct texts."""
    if pa.types.is_nested(column.type):
        values = _plain(column)
        numbers: dict[str, int] = {}
        codes = np.array([numbers.setdefault(stable_text(value), len(numbers)) for value in values], dtype=np.int64)
        return codes, list(numbers)
    if pa.types.is_null(column.type):
        return np.zeros(len(column), dtype=np.int64), [None]
    encoded = _simple(column).dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices).astype(np.int64), readable(encoded.dictionary)


def _simple(column: pa.Array) -> pa.Array:
    """A column whose equal values have equal texts. Dates and times become numbers, so zones and the range of Python's calendar do
    not matter."""
    t = type_of(column.type)
    if t.is_float:
        null = np.asarray(column.is_null())
        values = np.asarray(pc.fill_null(column, 0)) + 0.0  # -0.0 becomes 0.0
        values[np.isnan(values)] = np.nan
        return pa.array(values.view(np.int64 if values.itemsize == 8 else np.int32), mask=null)
    if t.kind in ("date", "timestamp", "timestamp_ntz", "interval"):
        return pa.array(words(column), mask=null_marks(column) == 1)
    return column


def _plain(column: pa.Array) -> list[object]:
    """The values of a column of any type, as Python values. Equal values have equal texts."""
    t = column.type
    valid = np.asarray(column.is_valid())
    if pa.types.is_struct(t):
        fields = [_plain(flat(column.field(i))) for i in range(t.num_fields)]
        return [tuple(values) if there else None for there, *values in zip(valid.tolist(), *fields, strict=True)]
    if is_list(t):
        items, ends = _plain(column.values), np.asarray(column.offsets)
        return [items[a:b] if there else None for there, a, b in zip(valid.tolist(), ends[:-1], ends[1:], strict=True)]
    return column.to_pylist() if pa.types.is_null(t) else readable(_simple(column))


# -- the saved bucket ---------------------------------------------------------------------------------------------------


class CountedKeys(NamedTuple):
    """The counts of one call.

    Attributes:
        late, untimed: rows of the micro-batch that were late, or without a time.
        searched, matches: keys that were searched, and matches.
        open: keys that have a state after the call.
        kept, pending: their kept rows that are released, and those that wait.
        bytes: the size of their states.
        micros: microseconds that the call took, 0 if not measured.
        checks, left_out, short, complete, lost: for BUDGET, see :class:`sparkcep.engine.core.effort.Totals`.
        blocks, late_blocks, refills: for BUDGET INTERVAL and REFILL, as there.
    """

    late: int = 0
    untimed: int = 0
    searched: int = 0
    matches: int = 0
    open: int = 0
    kept: int = 0
    pending: int = 0
    bytes: int = 0
    micros: int = 0
    checks: int = 0
    left_out: int = 0
    short: int = 0
    complete: int = 0
    lost: int = 0
    blocks: int = 0
    late_blocks: int = 0
    refills: int = 0


@dataclass(frozen=True)
class Bucket:
    """The saved state of a bucket.

    Attributes:
        keys: a table of each key with its state and when it is due.
        watermark: of the last call, in microseconds.
        statement: the statement of the checkpoint.
        kept: how many released rows are kept, for all keys.
        pending: how many rows wait.
    """

    keys: pa.Table
    watermark: int
    statement: bytes
    kept: int = 0
    pending: int = 0

    @staticmethod
    def new(statement: bytes) -> Bucket:
        """An empty bucket. Before the first micro-batch its watermark is the epoch."""
        return Bucket(_NO_KEYS.empty_table(), 0, statement)

    def counted(self, of: CountedKeys) -> CountedKeys:
        """Fills in the counts of the saved state."""
        size = int(bytes_of(flat(self.keys.column("state")))[1][[0, -1]] @ [-1, 1]) if self.keys.num_rows else 0
        return of._replace(open=self.keys.num_rows, kept=self.kept, pending=self.pending, bytes=size)

    def written(self) -> bytes:
        """The bucket as bytes. Raises MatchRuntimeError if it is too large."""
        head = {"layout": LAYOUT, "watermark": self.watermark, "kept": self.kept, "pending": self.pending, "statement": len(self.statement)}
        stream = _written(self.keys.replace_schema_metadata({_HEAD: json.dumps(head), b"statement": zlib.compress(self.statement)}))
        data = _BEGIN.pack(_MAGIC, LAYOUT, zlib.crc32(stream)) + stream
        if len(data) > _LARGEST:
            raise MatchRuntimeError(
                "STATE_LIMIT", f"a bucket of keys has a state of {len(data):,} bytes, but at most {_LARGEST:,} are possible. Begin with a new checkpoint and a larger sparkcep.stream.buckets",
                sqlstate="54000",
            )
        return data

    @staticmethod
    def read(data: bytes) -> Bucket:
        """Reads a bucket. Raises MatchRuntimeError if the bytes are not a bucket, or are damaged."""
        try:
            stream, layout = memoryview(data), LAYOUT_UNCHECKED
            if data[:4] == _MAGIC:
                _, layout, check = _BEGIN.unpack_from(data)
                stream = stream[_BEGIN.size :]
                if layout == LAYOUT and check != zlib.crc32(stream):
                    raise ValueError("another checksum")
            if layout not in (LAYOUT, LAYOUT_UNCHECKED):
                raise damaged(_BUCKET, _AGAIN, f"it is of layout {layout}, and this version of sparkcep reads layouts {LAYOUT_UNCHECKED} and {LAYOUT}")
            keys = read_table(stream)
            metadata = keys.schema.metadata or {}
            head: dict[str, Any] = json.loads(metadata[_HEAD])
            keys = contiguous(keys.replace_schema_metadata(None))
            numbers = [head[name] for name in ("layout", "watermark", "kept", "pending")]
            if not all(type(number) is int and abs(number) <= _FARTHEST for number in numbers) or numbers[0] != layout:
                raise ValueError("numbers that are not of a bucket")
            if keys.schema != _NO_KEYS or any(column.null_count for column in keys.columns):
                raise ValueError("columns that are not those of keys")
            statement = _statement(metadata[b"statement"], head.get("statement", _LARGEST_STATEMENT))
            escaped = pc.filter(keys.column(_KEY), pc.match_substring(keys.column(_KEY), "\\")).to_pylist()
            if not all(is_stable(key.decode()) for key in escaped):
                raise damaged(_BUCKET, _AGAIN, "a key has a character that was not in the Unicode of the Python version that wrote it")
        except (KeyError, TypeError, ValueError, RecursionError, struct.error, zlib.error) as error:
            raise damaged(_BUCKET, _AGAIN) from error
        return Bucket(keys, head["watermark"], statement, head["kept"], head["pending"])


def _statement(data: bytes, size: int) -> bytes:
    """Decompresses a statement of at most ``size`` bytes. Raises ValueError if it is larger."""
    if size > _LARGEST_STATEMENT:
        raise ValueError("a statement of that size")
    whole = zlib.decompressobj()
    statement = whole.decompress(data, size + 1)
    if len(statement) > size or not whole.eof:
        raise ValueError("a statement of another size")
    return statement


def _written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


# -- a micro-batch ------------------------------------------------------------------------------------------------------


def advance(stream: KeyedStream, came: Sequence[bytes], before: Bucket, watermark: int) -> Generator[pa.Table, None, tuple[Bucket, CountedKeys]]:
    """Runs a micro-batch of a bucket. Yields output of the matches that are final, and returns the bucket and the counts.

    ``came``: the pieces with rows. ``watermark``: in microseconds.
    """
    rows, number, keys = _rows(stream, came)
    late = untimed = 0
    if rows.num_rows:
        time = flat(rows.column(stream.order[0]))
        null = null_marks(time) == 1
        is_late = ~null & (words(time) <= before.watermark)
        late, untimed = int(is_late.sum()), int(null.sum())
        goes = ~is_late if stream.plan.rows == "unmatched" else ~is_late & ~null  # only rows with a time make a key
        rows, number = rows.filter(pa.array(goes)), number[goes]
        some, number = np.unique(number, return_inverse=True)
        keys = keys.take(pa.array(some))
    known = flat(before.keys.column(_KEY))
    places = pc.index_in(keys, value_set=known) if len(known) else pa.nulls(len(keys), pa.int32())
    due = np.asarray(before.keys.column("due")) <= watermark
    touched = np.asarray(places.drop_null()).astype(np.int64)
    due[touched] = False
    also = np.flatnonzero(due)
    searched = pa.concat_arrays([keys, known.take(pa.array(also))])
    after = replace(before, watermark=watermark)
    if not len(searched):
        return after, after.counted(CountedKeys(late, untimed))
    at = np.concatenate([np.asarray(pc.fill_null(places, len(known))).astype(np.int64), also])
    states = pa.concat_arrays([flat(before.keys.column("state")), pa.array([b""], NO_BYTES.type)]).take(pa.array(at))
    task = stream.engine.task
    matches, checked = task.matches, task.totals.values()
    kept = yield from stream.advance(rows, number.astype(np.int64), states, watermark)
    untouched = np.ones(len(known), dtype=bool)
    untouched[at[at < len(known)]] = False
    now = pa.Table.from_arrays([searched, kept.column, pa.array(kept.due)], schema=_NO_KEYS)
    now = now.filter(pc.not_equal(now.column("state"), NO_BYTES))
    table = contiguous(pa.concat_tables([before.keys.filter(pa.array(untouched)), now]))
    after = replace(after, keys=table, kept=before.kept + kept.more[0], pending=before.pending + kept.more[1])
    tried = dict(zip(Totals.names(), task.totals.since(checked), strict=False)) | {"matches": task.matches - matches}
    return after, after.counted(CountedKeys(late, untimed, len(searched), **tried))


def _rows(stream: KeyedStream, came: Sequence[bytes]) -> tuple[pa.Table, np.ndarray, pa.Array]:
    """The rows of pieces, the number of each row's key, and the keys."""
    tables = [pa.ipc.open_stream(piece).read_all() for piece in came]
    if not tables:
        return stream.schema.empty_table(), np.zeros(0, dtype=np.int64), pa.array([], pa.binary())
    columns = [chunk for table in tables for chunk in table.column(0).chunks]
    encoded = pa.concat_arrays([chunk.dictionary for chunk in columns]).dictionary_encode()
    first = np.cumsum([0, *(len(chunk.dictionary) for chunk in columns)])
    numbers = np.asarray(encoded.indices).astype(np.int64)
    number = np.concatenate([numbers[np.asarray(chunk.indices) + begin] for chunk, begin in zip(columns, first)])
    rows = pa.concat_tables([stream.typed(table.remove_column(0)) for table in tables])
    return rows, number, encoded.dictionary


# -- output -------------------------------------------------------------------------------------------------------------


def output(tables: Iterable[pa.Table]) -> Iterator[bytes]:
    """Splits tables of output rows into pieces."""
    for table in tables:
        step = max(1, table.num_rows * _OUTPUT_BYTES // max(table.nbytes, 1))
        for begin in range(0, table.num_rows, step):
            yield _written(contiguous(table.slice(begin, step)))


def read(piece: bytes, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches of a piece of output, with the names of ``schema``."""
    for batch in pa.ipc.open_stream(piece):
        yield pa.RecordBatch.from_arrays(batch.columns, names=schema.names)
