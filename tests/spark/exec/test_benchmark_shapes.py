"""Every shape of the benchmark suite gives the same rows by the clause and the plain way."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from tests.benchmarks import suite  # noqa: E402
from tests.benchmarks.shapes import SHAPES, chosen  # noqa: E402

ROWS, SYMBOLS = 100_000, 150


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    suite.use(spark, SHAPES, "zipf", ROWS, SYMBOLS, tmp_path_factory.mktemp("ticks"))
    return spark


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_equal_results(tables, shape):
    ways = suite.frames(tables, shape)
    matches = suite.compare(shape, ways["sparkcep"](), ways["plain"]())
    assert (matches > 0) == (shape.name != "no match")


@pytest.mark.further
def test_other_results_are_found(tables):
    low, high = chosen("low selectivity, HIGH selectivity")
    with pytest.raises(suite.DifferentResultsError, match="low selectivity: rows and hash"):
        suite.compare(low, tables.sql(low.query), high.plain_frame(tables))
    with pytest.raises(suite.DifferentResultsError, match="low selectivity: columns"):
        suite.compare(low, tables.sql(low.query), tables.table("ticks"))


def test_an_unknown_shape():
    with pytest.raises(ValueError, match="no shape 'W pattern'; there are V pattern, "):
        chosen("V pattern,W pattern")


def test_names_are_unique():
    assert len({shape.name for shape in SHAPES}) == len(SHAPES) >= 16
