"""What the JVM ships becomes the plan's input again."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from sparkcep.columns.comparable import as_bytes
from sparkcep.columns.from_jvm import merged, strings, unpacked


def shipped(texts: list[str | bytes | None], kind: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """Prefix and rest of each, one by one, as the JVM computes them. A string of Spark's may hold any bytes."""
    prefix, rest = [], []
    for text in texts:
        data = text.encode() if isinstance(text, str) else text
        prefix.append(None if data is None else int.from_bytes(data[:8].ljust(8, b"\0"), "big", signed=True))
        rest.append(data if data is not None and (len(data) > 8 or data.endswith(b"\0")) else None)
    return pa.array(prefix, pa.int64()), pa.array(rest, as_bytes(kind)).view(kind)


POOLS = {
    "short": ["", "a", "b", "S00001", "S0000123", "é", "日本"],
    "long": ["a longer one", "a longer two", "123456789"],
    "zeros": ["a", "a\0", "\0", "", "a\0b", "\0\0\0\0\0\0\0\0", "1234567\0", "12345678"],
    "missing": [None],
    "bytes": [b"\xff", b"\0\xff", b"a longer\xff", "é".encode()[:1], b"\xff\0", "a"],
    "all": ["", "a", None, "a\0", "12345678", "123456789", "é" * 4, "é" * 5, "\x7f", "\U0010ffff"],
}


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("pool", POOLS)
def test_strings_come_back(pool, kind):
    rng = random.Random(pool)
    for _ in range(60):
        texts: list[str | bytes | None] = []
        for _ in range(rng.randrange(6)):
            texts += [rng.choice(POOLS[pool])] * rng.randrange(1, 5)  # runs of equal keys
        found = strings(*shipped(texts, kind))
        assert found.type == kind
        plain = found.view(as_bytes(kind))
        plain.validate(full=True)
        assert plain.to_pylist() == [text.encode() if isinstance(text, str) else text for text in texts]


def test_one_column_under_several_names():
    prefix, rest = shipped(["x", "x", None], pa.string())
    batch = pa.RecordBatch.from_arrays([prefix, rest, pa.array([1, 2, 3])], names=["__p0 number", "__p0", "ts"])
    found = unpacked(batch, [("k", "__p0", "__p0 number"), ("ts", "ts", ""), ("__p0", "__p0", "__p0 number"), ("__o0", "ts", "")])
    assert found.schema.names == ["k", "ts", "__p0", "__o0"]
    assert found.to_pylist() == [{"k": k, "ts": t, "__p0": k, "__o0": t} for k, t in (("x", 1), ("x", 2), (None, 3))]


@pytest.mark.parametrize(("sizes", "wanted"), [([3, 3, 3, 3], [6, 6]), ([2, 3, 1], [5, 1]), ([3, 0, 3, 1], [6, 1]), ([9, 1], [9, 1]), ([0, 0], []), ([], []), ([2], [2])])
def test_batches_are_merged(sizes, wanted):
    rows = iter(range(100))
    batches = [pa.RecordBatch.from_pydict({"x": pa.array([next(rows) for _ in range(size)], pa.int64())}) for size in sizes]
    found = list(merged(batches, 5, 1 << 20))
    assert [batch.num_rows for batch in found] == wanted
    assert [x for batch in found for x in batch["x"].to_pylist()] == list(range(sum(sizes)))


def test_batches_are_merged_until_they_are_large():
    batches = [pa.RecordBatch.from_pydict({"x": pa.array(["x" * size])}) for size in (10, 10, 3000, 10, 900, 200)]
    assert [batch.num_rows for batch in merged(batches, 100, 1000)] == [3, 3]
