"""The data of the benchmark suite: the same every time, of the kind that is promised."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.benchmarks import stream


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(stream, "CHUNK", 3000)


def frame(folder, data, rows=20_000, symbols=200, **more):
    return pq.read_table(stream.stored(data, rows, symbols, folder=folder, **more)).to_pandas()


@pytest.mark.parametrize("data", [data for data in stream.DATA if data not in ("shuffled", "many-keys")])
def test_each_symbol_goes_on_from_chunk_to_chunk(tmp_path, data):
    ticks = frame(tmp_path, data, symbols=101)
    assert len(ticks) == 20_000
    assert ticks["volume"].between(1, 10_000).all() and ticks["price"].between(4, 404).all()
    by_symbol = ticks.groupby("symbol", observed=True)
    gaps, steps = by_symbol["ts"].diff().dropna(), by_symbol["price"].diff().dropna()
    assert set(gaps) == {1, 2, 3, 100} and 0.01 < (gaps == 100).mean() < 0.03
    assert set(np.abs(steps)) == {0, 0.25, 0.5, 0.75}
    halting = set(ticks["symbol"][ticks["kind"] == "halt"].astype(str))
    assert halting and halting <= {"S00000", "S00100"}


def test_keys(tmp_path):
    counts = {data: frame(tmp_path, data)["symbol"].value_counts() for data in stream.DATA}
    assert set(counts["ticks"]) == {100}
    assert counts["one-key"].tolist() == [20_000]
    assert len(counts["many-keys"]) == 2500 and set(counts["many-keys"]) == {8}
    assert 0.25 < counts["zipf"].iloc[0] / 20_000 < 0.35 and counts["zipf"].index[0] == "S00000"


def test_shuffled_has_the_rows_of_ticks(tmp_path):
    ticks, shuffled = frame(tmp_path, "ticks"), frame(tmp_path, "shuffled")
    assert not shuffled.equals(ticks)
    assert shuffled[:3000]["ts"].diff().lt(0).mean() > 0.4  # ticks rise but from symbol to symbol
    in_order = [rows.astype({"symbol": str}).sort_values(["symbol", "ts"], ignore_index=True) for rows in (ticks, shuffled)]
    assert in_order[0].equals(in_order[1])


def test_the_same_every_time_and_kept(tmp_path):
    first = stream.stored("zipf", 7000, 50, folder=tmp_path / "one")
    second = stream.stored("zipf", 7000, 50, folder=tmp_path / "other")
    assert pq.read_table(first).equals(pq.read_table(second))
    made = first.stat().st_mtime_ns
    assert stream.stored("zipf", 7000, 50, folder=tmp_path / "one").stat().st_mtime_ns == made
    assert [path.name for path in first.parent.iterdir()] == [first.name]


def test_wide_has_the_same_ticks(tmp_path):
    wide = pq.read_table(stream.stored("ticks", 5000, 10, wide=True, folder=tmp_path))
    assert wide.num_columns == 50
    assert wide.select(range(5)).equals(pq.read_table(stream.stored("ticks", 5000, 10, folder=tmp_path)))


@pytest.mark.parametrize(("arguments", "says"), [(("tics", 10), "unknown data 'tics'"), (("ticks", 0), "at least 1 row")])
def test_wrong_parameters(tmp_path, arguments, says):
    with pytest.raises(ValueError, match=says):
        stream.stored(*arguments, folder=tmp_path)
