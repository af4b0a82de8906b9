"""The demonstration on one month of the real data."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from sparkcep.cli.demo import check, run
from tests.selection import first


@pytest.mark.parametrize("count", first([1, None], wider=1))
def test_demo_finds_and_draws(spark, tmp_path, capsys, count):
    assert len(check()) >= 4
    examples = check()[:count]
    running = []

    @contextmanager
    def shown():
        running.append(1)
        yield

    run(spark, tmp_path, examples, 1, shown)
    assert len(running) == 2 + 2 * len(examples)  # the data, the start, each table and picture
    out = capsys.readouterr().out
    assert out.count("matches in") == len(examples)
    drawn = sorted(p.stem for p in tmp_path.glob("*.png"))
    assert drawn == sorted(e.name for e in examples)
    assert all(p.stat().st_size > 10_000 for p in tmp_path.glob("*.png"))
