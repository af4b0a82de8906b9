"""Blocks in, sorted rows out, against the order that plain Python gives random rows."""

import itertools
import json
import random
import struct
from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.columns.blocks import Description
from sparkcep.engine.arrange import sorted_runs
from sparkcep.engine.arrange.sorted_batches import Arranged, sorted_batches
from sparkcep.errors import MatchRuntimeError
from tests.property.arrange.random_blocks import TYPES, arranged, block, described, key, value
from tests.selection import first

EPOCH = datetime(1970, 1, 1)


def batches(blocks: list[bytes], each: int = 2) -> list[pa.RecordBatch]:
    """Blocks as they arrive: a few a batch."""
    return [
        pa.record_batch({"block_partition": pa.array([7] * len(part), pa.int32()), "block": pa.array(part, pa.binary())})
        for part in (blocks[i : i + each] for i in range(0, len(blocks), each))
    ]


def plain(kind: str, column: pa.Array) -> list:
    """The values of a column as the random rows have them."""
    if kind == "string":
        return column.cast(pa.binary()).to_pylist()
    if kind in ("date", "timestamp", "timestamp_ntz", "duration", "time"):
        return column.view(pa.int32() if kind == "date" else pa.int64()).to_pylist()
    return column.to_pylist()


def same(left: list[tuple], right: list[tuple]) -> bool:
    return [tuple(map(repr, row)) for row in left] == [tuple(map(repr, row)) for row in right]


@pytest.mark.parametrize("seed", first(range(300), 40, wider=300))
def test_random_rows(seed, tmp_path, monkeypatch):
    r = random.Random(seed)
    types = [r.choice(TYPES) for _ in range(r.randrange(1, 6))]
    places = list(range(len(types)))
    keys = r.sample(places, r.randrange(min(3, len(places)) + 1))
    order = [(i, r.random() < 0.5, r.random() < 0.5) for i in r.sample(places, r.randrange(min(3, len(places)) + 1))]
    few = r.random() < 0.6
    rows = [tuple(value(r, kind, few) for kind in types) for _ in range(r.choice((1, 5, 60, 400)))]
    if r.random() < 0.4:  # rows that come in order, or in a few runs
        cut = r.randrange(len(rows) + 1)
        rows = arranged(rows[:cut], [], order) + arranged(rows[cut:], [], order)
    held = r.choice((1, 500, 20_000, 1 << 20))
    sent = r.randrange(1, len(types) + 1) if held == 1 << 20 else len(types)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(sorted_runs, "_WRITTEN_ROWS", r.choice((1, 7, 1000)))
    description = described(types, sent=sent, keys=keys, order=order, held=held, large=r.random() < 0.2)
    blocks, at = [], 0
    while at < len(rows):
        size = r.randrange(1, 80)
        blocks.append(block(description, rows[at : at + size]))
        at += size
    done = Arranged()
    found = list(sorted_batches(batches(blocks), r.choice((1, 7, 1000)), 1 << r.choice((3, 10, 20)), arranged=done))
    columns = [[v for batch in found for v in plain(types[i], batch.column(i))] for i in range(sent)]
    expected = [row[:sent] for row in arranged(rows, keys, order)]
    first = {repr(row): i for i, row in reversed(list(enumerate(expected)))}
    given = [*zip(*columns)]
    if done.runs:  # keys have another order then, but the rows of each key come together
        groups = [list(group) for _, group in itertools.groupby(given, lambda row: repr([key(row[i]) for i in keys]))]
        given = [row for group in sorted(groups, key=lambda group: first[repr(group[0])]) for row in group]
    assert same(given, expected)
    assert sum(batch.num_rows for batch in found) == done.rows == len(rows)
    assert bool(done.spilled) == bool(done.runs) and (done.runs or held > 1)
    assert not done.runs or held < 1 << 20
    assert not list(tmp_path.iterdir())  # files were unlinked at once


def test_types():
    types = ["date", "timestamp", "timestamp_ntz", "duration", "decimal 12 2", "decimal 30 4", "string", "bool"]
    rows = [(1, 2, 3, 4, Decimal("5.25"), Decimal("-6.5000"), "é".encode(), True)]
    (batch,) = sorted_batches(batches([block(described(types, sent=8, keys=[], order=[], held=9), rows)]), 10, 10)
    assert [column.to_pylist()[0] for column in batch.columns[2:]] == [EPOCH + timedelta(microseconds=3), timedelta(microseconds=4), Decimal("5.25"), Decimal("-6.5000"), "é", True]
    assert batch.column(0).to_pylist() == [date(1970, 1, 2)] and str(batch.column(1).type) == "timestamp[us, tz=UTC]"


@pytest.mark.parametrize("held", [1, 1 << 20])
def test_structs_are_made_of_columns(held):
    r = random.Random(held)
    inner = {"present": 2, "fields": [["t", True, 3]]}
    output = [0, {"present": 1, "fields": [["of", True, inner], ["n", False, 4], ["n", True, 0]]}]
    types = ["int64", "bool", "bool", "string", "int32"]
    rows = [(t, *(r.choice((True, None)) for _ in range(2)), r.choice((b"x", b"long", None)), t % 9) for t in range(200)]
    r.shuffle(rows)
    description = described(types, sent=5, keys=[], order=[(0, False, True)], held=held, output=output)
    found = pa.Table.from_batches(sorted_batches(batches([block(description, rows[:90]), block(description, rows[90:])]), 30, 1 << 20))
    assert found.column(0).to_pylist() == list(range(200))
    structs = found.column(1).combine_chunks()
    for (t, outer, within, text, n), got in zip(sorted(rows), structs, strict=True):
        if outer is None:
            assert not got.is_valid
            continue
        assert got[1].as_py() == n and got[2].as_py() == t
        assert got[0].as_py() == (None if within is None else {"t": None if text is None else text.decode()})
    assert [(field.name, field.nullable) for field in structs.type] == [("of", True), ("n", False), ("n", True)]


def test_a_process_with_little_memory_uses_a_file():
    description = described(["int64"], sent=1, keys=[], order=[(0, False, True)], held=1 << 30)
    blocks = [block(description, [(i * 7 % 1000,) for i in range(low, low + 100)]) for low in range(0, 1000, 100)]
    for memory, spills in ((None, False), (1 << 30, False), (50_000, True), (0, True)):
        done = Arranged()
        found = pa.Table.from_batches(sorted_batches(batches(blocks), 300, 1 << 20, memory, done))
        assert found.column(0).to_pylist() == list(range(1000)) and bool(done.runs) is spills


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_a_batch_may_be_a_part_of_another_or_empty(kind):
    description = described(["int64"], sent=1, keys=[], order=[(0, True, True)], held=1 << 20)
    data = pa.array([block(description, [(i,)]) for i in range(6)], kind)
    whole = pa.record_batch([pa.nulls(6, pa.int32()), data], names=["block_partition", "block"])
    given = [whole.slice(0, 0), whole.slice(4, 2), whole.slice(6), whole.slice(1, 2)]
    found = pa.Table.from_batches(sorted_batches(given, 10, 1 << 20))
    assert found.column(0).to_pylist() == [5, 4, 2, 1]


def test_many_keys_enlarge_the_table():
    count = 20_000
    rows = [((i * 7919) % count, i) for i in range(count)] * 2
    description = described(["int64", "int32"], sent=2, keys=[0], order=[(1, False, True)], held=1 << 30)
    found = pa.Table.from_batches(sorted_batches(batches([block(description, rows)]), 1 << 20, 1 << 30))
    assert found.column(0).to_pylist() == [k for k, _ in rows[:count] for _ in range(2)]


@pytest.mark.parametrize("change", [
    lambda data: data[:-8],
    lambda data: data[:10],
    lambda data: b"scb9" + data[4:],
    lambda data: data[:4] + struct.pack("<i", 1 << 30) + data[8:],
    lambda data: data[:8] + struct.pack("<i", -5) + data[12:],
    lambda data: data + bytes(8),
    lambda data: data.replace(b'"sent": 2', b'"sent": 9'),
    lambda data: data.replace(b'"keys": [0]', b'"keys": [5]'),
    lambda data: data.replace(b'"output": [0, 1]', b'"output": [0, 2]'),
    lambda data: data.replace(b'"output": [0, 1]', b'"output": [0, []]'),
    lambda data: data.replace(b'"output": [0, 1]', b'"output": [-1, 1]'),
    lambda data: data.replace(b'"int32"', b'"int99"'),
    lambda data: data[:-16] + struct.pack("<ii", 9, 3) + data[-8:],  # ends that fall
])  # fmt: skip
def test_damaged_blocks(change):
    rows = [(1, b"abc"), (2, b"")]
    data = block(described(["int32", "string"], sent=2, keys=[0], order=[], held=9), rows)
    assert list(sorted_batches(batches([data]), 10, 10))
    with pytest.raises(MatchRuntimeError, match="a block of rows cannot be read"):
        list(sorted_batches(batches([change(data)]), 10, 10))


def test_ends_that_fall_by_more_than_an_int32():
    data = block(described(["string"], sent=1, keys=[], order=[], held=99), [(b"abc",), (b"d",), (b"e",)])
    ends, wrong = struct.pack("<iii", 3, 4, 5), struct.pack("<iii", (1 << 31) - 1, -5, 5)
    assert data.count(ends) == 1
    with pytest.raises(MatchRuntimeError, match="the lengths of its values are wrong"):
        list(sorted_batches(batches([data.replace(ends, wrong)]), 10, 10))


@pytest.mark.parametrize("kind", [1, None, "", "decimal 5", "decimal 39 0", "decimal 9999999999 0"])
def test_types_of_a_description_that_are_none(kind):
    with pytest.raises(MatchRuntimeError, match="BLOCK_FORMAT.*its description cannot be read"):
        Description.read(json.dumps(described([kind], sent=1, keys=[], order=[], held=9)).encode())


def test_blocks_of_one_task_have_the_same_columns():
    description = described(["int32"], sent=1, keys=[], order=[], held=9)
    other = description | {"types": ["int16"]}
    with pytest.raises(MatchRuntimeError, match="other columns than the blocks before it"):
        list(sorted_batches(batches([block(description, [(1,)]), block(other, [(1,)] * 2)]), 10, 10))


def test_random_bytes_are_an_error_or_rows():
    r = np.random.default_rng(5)
    rows = [(i % 5, bytes([i % 7]) * (i % 4)) for i in range(30)]
    data = np.frombuffer(block(described(["int32", "binary"], sent=2, keys=[0], order=[(1, True, False)], held=99), rows), dtype=np.uint8)
    errors = 0
    for _ in range(300):
        changed = data.copy()
        changed[r.integers(0, len(data), 3)] = r.integers(0, 256, 3)
        try:
            found = list(sorted_batches(batches([changed.tobytes()]), 10, 1000))
        except MatchRuntimeError:
            errors += 1
        else:
            assert sum(batch.num_rows for batch in found) == 30
    assert errors


@pytest.mark.parametrize("runs, order", [(1, range(900)), (1, [i // 3 for i in range(900)]), (9, range(900, 0, -1)), (3, [*range(300), *range(300), *range(300)])])
def test_runs_in_order_are_one_run(runs, order):
    """Rows of tables are mostly written in the order of time, so that a run begins where the one before it ended."""
    description = described(["int64", "int32"], sent=2, keys=[], order=[(0, False, True)], held=3000)
    rows = [(t, i) for i, t in enumerate(order)]
    done = Arranged()
    found = list(sorted_batches(batches([block(description, rows[low : low + 100]) for low in range(0, 900, 100)], each=1), 50, 1 << 20, arranged=done))
    assert [*zip(*(pa.Table.from_batches(found).column(i).to_pylist() for i in range(2)))] == sorted(rows)
    assert done.runs == runs
