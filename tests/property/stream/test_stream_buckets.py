"""A clause over a stream by buckets of keys: rows in disorder, some of them late, in tasks and micro-batches cut anywhere, and
bytes between these, against the answer over a table of the rows that were not late."""

from __future__ import annotations

import collections
import datetime
import decimal
import json
import math
import random
import struct
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sparkcep.engine.factory import prepare
from sparkcep.engine.stream.key_buckets import Bucket, Layout, advance, distinct, output, pieces, read
from sparkcep.engine.stream.keyed_stream import KeyedStream
from sparkcep.errors import MatchRuntimeError
from tests.property.in_process import drained
from tests.property.stream.statements import PEAKS
from tests.property.stream.streams import HEAD, WINDOW, batch, ordered, planned, rows_of, timed
from tests.selection import first, one_in

CLAUSES = [
    f"{HEAD} FIRST(id) AS a, LAST(id) AS z, count(*) AS c PATTERN (A B+ C) {WINDOW} DEFINE A AS v < 2, B AS v >= PREV(v), C AS w > 0",
    f"{HEAD} MATCH_NUMBER() AS n, FIRST(id) AS a, LAST(id) AS z PATTERN (^ A B* C) {WINDOW} DEFINE B AS v > 0, C AS w > 0",
    f"{HEAD} MATCH_NUMBER() AS n ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B+ C) {WINDOW} DEFINE A AS v < 2, B AS v > 0, C AS w > 0",
    f"{HEAD} A.id AS a, C.id AS z EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A ~N C) {WINDOW} DEFINE A AS v < 2, N AS v = 2, C AS w > 0",
    f"{HEAD} LAST(id) AS z, MATCH_ERRORS() AS e PATTERN (A B C) {WINDOW} APPROX 1 DEFINE A AS v < 2, B AS v > 2, C AS w > 0",
    f"{HEAD} LAST(id) AS z, CHECKS_LEFT_OUT() AS o PATTERN (A B C) {WINDOW} APPROX 1 BUDGET 1 CHECKS DEFINE A AS v < 2, B AS v > 2, C AS w > 0",
    f"{HEAD} FIRST(id) AS a, LAST(id) AS z, n AS n {PEAKS} {WINDOW}",
    f"{HEAD} FIRST(id) AS a, LAST(id) AS z PATTERN (A B+) DEFINE A AS v < 2, B AS v < 9",  # which a row far behind ends
]
FAR = 10_000  # microseconds behind all rows
DELAY = 4


def came(plan, rng: random.Random) -> pa.Table:
    """Random rows in the order in which they come: most in less disorder than the watermark allows for, some in more."""
    rows = rows_of(rng, rng.randint(1, 9), 25)
    rows[99] = []
    for row in (rows[p] for p in rows):
        row.append({"id": FAR, "v": 9, "w": -1, "s": None})
    # the last watermark is far behind these, or with them
    rows[99].append({"id": rng.choice([3 * FAR, FAR + DELAY + 1]), "v": 9, "w": -1, "s": None})
    table = timed(plan, rows)
    time = np.asarray(table.column("__s0").cast(pa.int64()))
    return table.take(pa.array(np.argsort(time + np.array([rng.choice([0, 1, DELAY, 12 * DELAY]) for _ in time]), kind="stable")))


def cuts(count: int, rng: random.Random, parts: int) -> list[tuple[int, int]]:
    at = [0, *sorted(rng.randint(0, count) for _ in range(parts - 1)), count]
    return list(zip(at, at[1:]))


def told_by_buckets(plan, table: pa.Table, rng: random.Random) -> tuple[list[str], np.ndarray, collections.Counter]:
    """What buckets tell, which rows are late, and what was counted. As Spark calls them: with pieces, or where the watermark
    moved."""
    wanted = pa.array([True] * table.num_rows)
    names = [name for name in table.column_names if name not in ("__s0", "__s1")]
    layout = Layout(tuple(names), tuple(map(names.index, plan.keys)), 2, rng.choice([1, 2, 5]))
    rows = table.select(names).append_column("__needed", wanted).append_column("__s0", table.column("__s0")).append_column("__s1", table.column("__s1"))
    schema = layout.piece_schema(rows.schema)
    prepared = ordered(prepare(plan, table.select(names).schema), (*plan.order[:1], plan.order[0]._replace(name="n")))
    engine = KeyedStream(prepared, schema, layout.order)
    time = np.asarray(table.column("__s0").cast(pa.int64()))
    states: dict[int, bytes] = {}
    told, late, counted = [], np.zeros(len(time), dtype=bool), collections.Counter()
    watermark, latest = 0, 0
    micro_batches = cuts(table.num_rows, rng, rng.randint(3, 9)) + [(table.num_rows,) * 2] * 2
    for begin, end in micro_batches:
        before, watermark = watermark, latest
        late[begin:end] = time[begin:end] <= before
        parts: list[list[bytes]] = [[] for _ in range(layout.buckets)]
        tasks = [(begin + a, begin + b) for a, b in cuts(end - begin, rng, rng.randint(1, 3))] if end > begin else []
        for a, b in tasks:
            for some in pieces(rows.slice(a, b - a).to_batches(max_chunksize=7), layout):
                for bucket, piece in enumerate(some):
                    parts[bucket] += [] if piece is None else [piece]
        for bucket, found in enumerate(parts):
            if tasks or watermark > before:
                known = Bucket.read(states[bucket]) if bucket in states else Bucket.new(b"{}")
                tables, (after, numbers) = drained(advance(engine, found, known, watermark))
                out = prepared.output_schema
                told += [str(row) for piece in output(tables) for one in read(piece, out) for row in one.to_pylist()]
                states[bucket] = after.written()
                counted.update({name: getattr(numbers, name) for name in ("late", "matches")})
        latest = max([latest, *(time[begin:end] - DELAY - 1).tolist()])
    counted["open"] = sum(Bucket.read(state).keys.num_rows for state in states.values())
    return told, late, counted


def compared(text: str, rng: random.Random, whole: bool) -> tuple[int, int]:
    """(output rows told, rows that were late) of one clause over one stream: nothing is told that the table of the other rows does
    not give, and where it is so of the clause (``whole``) all that the rows before the last one of each key give."""
    plan = planned(text)
    table = came(plan, rng)
    told, late, counted = told_by_buckets(plan, table, rng)
    assert counted["late"] == late.sum()
    ordered = table.filter(pa.array(~late)).sort_by([("__p0", "ascending"), ("__s0", "ascending"), ("__s1", "ascending")])
    time, found = np.asarray(ordered.column("__s0").cast(pa.int64())), collections.Counter(told)
    wanted, decided = (collections.Counter(str(row) for row in batch(plan, ordered, which).to_pylist()) for which in (time > 0, time < FAR))
    assert not found - wanted, (text, found - wanted)
    if whole:
        assert not decided - found, (text, decided - found)
    return len(told), int(late.sum())


@pytest.mark.parametrize("text", one_in(4, CLAUSES))
@pytest.mark.parametrize("seed", first(range(4), wider=1))
def test_what_buckets_tell_is_the_answer_over_the_rows_that_were_not_late(text, seed):
    rng, found, dropped = random.Random(f"{text} {seed}"), 0, 0
    for _ in range(5):
        told, late = compared(text, rng, True)
        found, dropped = found + told, dropped + late
    assert found > 5 and dropped > 1


# -- keys ---------------------------------------------------------------------------------------------------------------


def same(a: object, b: object) -> bool:
    """Whether two keys are one, as Spark groups: NULL is NULL, NaN is NaN, 0.0 is -0.0."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return same(list(a.values()), list(b.values()))
    return type(a) is type(b) and a == b


FLOATS = [0.0, -0.0, math.nan, -math.nan, 1.5, None]
DAYS = [datetime.datetime(2026, 1, 1), datetime.datetime(1, 1, 1), None]
COLUMNS = {
    "long": ([0, 1, 2**60, 2**60 + 1, None], pa.int64()),
    "text": (["", "a", "None", "'", "a\0", None], pa.string()),
    "binary": ([b"", b"a", None], pa.binary()),
    "double": (FLOATS, pa.float64()),
    "float": (FLOATS, pa.float32()),
    "boolean": ([True, False, None], pa.bool_()),
    "time": (DAYS, pa.timestamp("us", "Europe/Berlin")),
    "local": (DAYS, pa.timestamp("us")),
    "day": ([datetime.date(2026, 1, 1), datetime.date(9999, 12, 31), None], pa.date32()),
    "length": ([datetime.timedelta(1), datetime.timedelta(0, 86400), None], pa.duration("us")),
    "number": ([decimal.Decimal("1.50"), decimal.Decimal("1.5"), decimal.Decimal(-2), None], pa.decimal128(12, 2)),
    "nothing": ([None], pa.null()),
    "list": ([[], [0.0], [-0.0], [None], [1.5, 0.0], None], pa.list_(pa.float64())),
    "struct": ([{"a": 0.0, "b": "x"}, {"a": -0.0, "b": "x"}, {"a": None, "b": None}, {"a": 1.5, "b": None}, None], pa.struct([("a", pa.float64()), ("b", pa.string())])),
    "nested": ([[{"a": [DAYS[0]]}], [{"a": [None]}], [{"a": None}], [None], None], pa.list_(pa.struct([("a", pa.list_(pa.timestamp("us")))]))),
}


@pytest.mark.parametrize("names", [*((name,) for name in COLUMNS), ("long", "text"), ("double", "struct", "text"), ()])
def test_keys_are_one_where_spark_groups_them(names):
    rng = random.Random(str(names))
    columns = [pa.array([rng.choice(COLUMNS[name][0]) for _ in range(60)], COLUMNS[name][1]).slice(7, 50) for name in names]
    number, keys = distinct(columns, 50)
    rows = list(zip(*(column.to_pylist() for column in columns), strict=True)) or [()] * 50
    assert len(set(keys)) == len(keys) == len(set(number.tolist()))
    for i, one in enumerate(rows):
        for j, other in enumerate(rows):
            assert (number[i] == number[j]) == same(one, other), (one, other)
    # the bytes are the same whatever other rows there are
    again, others = distinct([column.take(pa.array([7, 3, 9])) for column in columns], 3)
    assert [others[n] for n in again] == [keys[number[i]] for i in (7, 3, 9)]


KEYS = pa.table({"key": pa.array([b"('a',)"], pa.binary()), "state": pa.array([b"SCEP"], pa.large_binary()), "due": pa.array([7])})


def stream_of(keys: pa.Table = KEYS, packed: bytes = zlib.compress(b"{}"), compression: str | None = None, **head) -> bytes:
    """A bucket as Arrow's stream; layout 1 is nothing more."""
    sink = pa.BufferOutputStream()
    metadata = {b"sparkcep": json.dumps({"layout": 1, "watermark": 5, "kept": 3, "pending": 2} | head), b"statement": packed}
    with pa.ipc.new_stream(sink, keys.schema.with_metadata(metadata), options=pa.ipc.IpcWriteOptions(compression=compression)) as out:
        out.write_table(keys.replace_schema_metadata(metadata))
    return sink.getvalue().to_pybytes()


def checked(stream: bytes, layout: int = 2) -> bytes:
    """The same with a checksum."""
    return b"SCEB" + struct.pack("<HI", layout, zlib.crc32(stream)) + stream


def _zeros(size: int) -> bytes:
    return zlib.compress(bytes(size))


DAMAGED = {
    "empty": lambda: b"",
    "cut": lambda: checked(stream_of(layout=2))[:-30],
    "another byte": lambda: checked(stream_of(layout=2)).replace(b"SCEP", b"SCEQ"),
    "another layout": lambda: checked(stream_of(layout=7), 7),
    "no checksum": lambda: stream_of(layout=2),
    "two layouts": lambda: checked(stream_of()),
    "a watermark beyond 64 bits": lambda: stream_of(watermark=10**25),
    "half a row": lambda: stream_of(kept=1.5),
    "cannot be numbered": lambda: stream_of(pending=None),
    "no statement": lambda: stream_of(packed=b"{}"),
    "no states": lambda: stream_of(KEYS.select(["key", "due"])),
    "a NULL": lambda: stream_of(KEYS.set_column(2, "due", pa.array([None], pa.int64()))),
    "a longer statement than said": lambda: checked(stream_of(layout=2, packed=_zeros(99), statement=98)),
    "more than any statement": lambda: stream_of(packed=_zeros((1 << 26) + 1)),
    "more than any statement, as said": lambda: checked(stream_of(layout=2, packed=_zeros((1 << 26) + 1), statement=1 << 27)),
    "compressed keys": lambda: stream_of(pa.concat_tables([KEYS] * 9000).combine_chunks(), compression="zstd"),
}


@pytest.mark.parametrize("damaged", DAMAGED)
def test_damaged_bytes_are_told(damaged):
    data, before = DAMAGED[damaged](), pa.total_allocated_bytes()
    with pytest.raises(MatchRuntimeError, match="state of a bucket of keys"):
        Bucket.read(data)
    assert pa.total_allocated_bytes() - before < 1 << 16


def test_a_bucket_is_read_as_it_was_written():
    assert Bucket.read(Bucket.new(b"{}").written()) == Bucket.new(b"{}")
    some = Bucket(KEYS, 5, b"x" * 1000, 3, 2)
    assert Bucket.read(some.written()) == some
    assert Bucket.read(stream_of()) == Bucket(KEYS, 5, b"{}", 3, 2)  # as version 0.1.0 wrote it


def test_rows_that_no_variable_wants_go_nowhere():
    layout = Layout(("p",), (0,), 1, 3)
    rows = pa.record_batch({"p": [1, 2, 3], "needed": [False, None, True], "t": pa.array([1, 2, 3], pa.timestamp("us"))})
    (some,) = pieces([rows], layout)
    assert sum(piece is not None for piece in some) == 1
    assert pc.sum(pa.ipc.open_stream(next(filter(None, some))).read_all().column("p")).as_py() == 3
    assert list(pieces([], layout)) == [[None] * 3]
