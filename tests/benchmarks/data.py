"""Deterministic tick data: a bounded random walk per symbol."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def ticks(rows: int, symbols: int, seed: int = 7) -> pa.Table:
    """``symbol`` string, ``ts`` int64, ``price`` float64, ``volume`` int32; rows in random order of symbols."""
    rng = np.random.default_rng(seed)
    per = rows // symbols
    steps = rng.integers(-3, 4, size=(symbols, per))
    price = 100.0 + np.cumsum(steps, axis=1) * 0.25
    names = np.array([f"S{i:05d}" for i in range(symbols)])
    table = pa.table(
        {
            "symbol": np.repeat(names, per),
            "ts": np.tile(np.arange(per, dtype=np.int64), symbols),
            "price": price.ravel(),
            "volume": rng.integers(1, 1000, size=symbols * per, dtype=np.int32),
        }
    )
    return table.take(pa.array(rng.permutation(symbols * per)))


def sorted_ticks(rows: int, symbols: int, seed: int = 7) -> pa.Table:
    """The same, sorted by symbol and time."""
    return ticks(rows, symbols, seed).sort_by([("symbol", "ascending"), ("ts", "ascending")])
