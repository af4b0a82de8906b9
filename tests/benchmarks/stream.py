"""The suite's tick data: the same rows for the same parameters on every machine, as Parquet, kept between runs.

Columns of ``ticks``: ``symbol`` string, ``ts`` int64 (rises within a symbol by 1 to 3, one time in 50 by 100), ``price`` float64 (a
walk in steps of up to 0.75 between 4 and 404), ``volume`` int32 (1 to 10,000, uniform), ``kind`` string (view 60%, cart 10%, buy
5%, other; one symbol in 100 has halts, 1 row in 500). ``wide`` has 45 int32 columns ``c0``, ``c1``, ... more. Rows come in the
order of their arrival, symbols mixed; ``shuffled`` has those of ``ticks`` in random order, chunk by chunk.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DATA = ("ticks", "shuffled", "one-key", "zipf", "many-keys")
KINDS = ("view", "cart", "buy", "other", "halt")
CHUNK = 1_000_000  # rows; part of what the data are
ROW_GROUP = 250_000
FILLERS = 45  # wide has 50 columns
ZIPF = 1.2
EACH = 8  # rows of a key of many-keys
_LEVELS = 1600  # of the price, a quarter each


def stored(data: str, rows: int, symbols: int = 1000, *, wide: bool = False, folder: Path | None = None) -> Path:
    """The Parquet file of ``rows`` rows, made if it is not there.

    Args:
        data: ``ticks`` (symbols in turn), ``shuffled`` (the same, in random order), ``one-key`` (one symbol), ``zipf`` (the symbol
        of rank r as often as 1 / r^1.2), ``many-keys`` (symbols of eight rows each).
        symbols: how many, but for the kinds that say it.
        wide: with the further columns.
        folder: where the file is kept; a folder for temporary files unless told.

    Raises:
        ValueError: unknown ``data``, or less than one row or symbol.
    """
    if data not in DATA:
        raise ValueError(f"unknown data {data!r}; there are {', '.join(DATA)}")
    if rows < 1 or symbols < 1:
        raise ValueError(f"needed: at least 1 row and 1 symbol, not {rows} and {symbols}")
    symbols = {"one-key": 1, "many-keys": -(-rows // EACH)}.get(data, symbols)
    folder = folder or Path(tempfile.gettempdir(), "sparkcep-benchmarks")
    folder.mkdir(parents=True, exist_ok=True)
    made_by = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]  # another generator, other files
    path = folder / f"{'wide-' if wide else ''}{data}-{rows}-{symbols}-{made_by}.parquet"
    if not path.exists():
        unfinished = path.with_suffix(f".{os.getpid()}.part")
        _write(unfinished, data, rows, symbols, wide)
        os.replace(unfinished, path)
    return path


def _write(path: Path, data: str, rows: int, symbols: int, wide: bool) -> None:
    walk, clock = np.full(symbols, _LEVELS // 4), np.zeros(symbols, dtype=np.int64)
    writer = None
    for number, start in enumerate(range(0, rows, CHUNK)):
        table = _chunk(np.random.default_rng([7, number]), data, start, min(CHUNK, rows - start), walk, clock, wide)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=ROW_GROUP)
    assert writer is not None
    writer.close()


def _chunk(rng, data: str, start: int, rows: int, walk: np.ndarray, clock: np.ndarray, wide: bool) -> pa.Table:
    """Rows ``start``, ...; ``walk`` and ``clock``, of each symbol, go on from chunk to chunk."""
    symbols = len(walk)
    if data == "zipf":
        weights = np.arange(1, symbols + 1) ** -ZIPF
        ids = np.searchsorted(np.cumsum(weights / weights.sum())[:-1], rng.random(rows), side="right")
    else:
        ids = (start + np.arange(rows)) % symbols
    steps = rng.integers(-3, 4, rows)
    gaps = np.where(rng.random(rows) < 0.02, 100, rng.integers(1, 4, rows))
    volume = rng.integers(1, 10_001, rows, dtype=np.int32)
    kind = np.searchsorted([0.6, 0.7, 0.75], rng.random(rows), side="right")
    kind[(ids % 100 == 0) & (rng.random(rows) < 0.002)] = KINDS.index("halt")
    known, numbers = np.unique(ids, return_inverse=True) if data == "many-keys" else (range(symbols), ids)
    level = np.abs(_running(ids, steps, walk) % (2 * _LEVELS) - _LEVELS)  # reflected at both ends
    columns = {
        "symbol": pa.DictionaryArray.from_arrays(numbers.astype(np.int32), [f"S{i:05d}" for i in known]),
        "ts": _running(ids, gaps, clock),
        "price": 4 + level * 0.25,
        "volume": volume,
        "kind": pa.DictionaryArray.from_arrays(kind.astype(np.int8), list(KINDS)),
    }
    if wide:
        columns |= {f"c{i}": volume * np.int32(i + 1) % 997 for i in range(FILLERS)}
    table = pa.table(columns)
    return table.take(rng.permutation(rows)) if data == "shuffled" else table


def _running(ids: np.ndarray, steps: np.ndarray, so_far: np.ndarray) -> np.ndarray:
    """The running sum of each symbol's steps, on top of ``so_far``, which goes on."""
    order = np.argsort(ids, kind="stable")
    of = ids[order]
    sums = np.cumsum(steps[order])
    first = np.flatnonzero(np.r_[True, of[1:] != of[:-1]])
    before = sums[first] - steps[order][first]
    lengths = np.diff(np.r_[first, len(of)])
    sums += np.repeat(so_far[of[first]] - before, lengths)
    so_far[of[first]] = sums[first + lengths - 1]
    out = np.empty_like(sums)
    out[order] = sums
    return out
