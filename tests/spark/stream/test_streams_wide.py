"""Clauses over a stream of many keys whose driver is killed twice: the output is the answer over the table, each match once."""

from __future__ import annotations

import collections
import random
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.spark.stream.test_streams import PROVIDER, ROCKSDB, SCHEMA, behind, put  # noqa: E402
from tests.spark.stream.test_streams_faults import Run  # noqa: E402

KEYS, ROWS, FILES = 20_000, 80_000, 4
ONE = "SELECT * FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES FIRST(ts) AS a, LAST(ts) AS z"
ENDS = "SELECT * FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES LAST(ts) AS z"
ANY = "EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES"
STATEMENTS = {
    "bounded run": f"{ONE}, count(*) AS c PATTERN (A B{{{{2,4}}}}) WINDOW INTERVAL '60' SECONDS DEFINE A AS price < 5, B AS price > 2)",
    "next inside": f"{ONE}, NEXT(FIRST(price)) AS x PATTERN (A B) WINDOW INTERVAL '60' SECONDS DEFINE A AS NEXT(A.price) > price)",
    "past last": f"{ONE}, count(*) AS c AFTER MATCH SKIP PAST LAST ROW {ANY} PATTERN (A B C) WINDOW INTERVAL '90' SECONDS DEFINE B AS price > A.price)",
    "top": f"{ONE}, MATCH_RANK() AS k, WINDOW_START() AS s {ANY} PATTERN (A B) WINDOW INTERVAL '60' SECONDS SLIDE INTERVAL '30' SECONDS PREF MAX (A.price + B.price) TOP 2 DEFINE A AS price > 2)",
    "count": f"{ENDS}, MATCH_COUNT() AS n_of {ANY} PATTERN (A B+) WINDOW INTERVAL '60' SECONDS DEFINE B AS price > A.price)",
    "graph": f"{ENDS}, size(MATCH_GRAPH()) AS g {ANY} PATTERN (A B) WINDOW INTERVAL '60' SECONDS DEFINE B AS price > A.price)",
    "arcs": f"{ONE} AUTOMATON (STATE low IGNORE WHEN TRUE, over FINAL ARC down(threshold INT) FROM q0 TO low WHEN price < threshold "
    "ARC up(threshold INT) FROM low TO over WHEN price >= threshold ARCS FROM arcs_now) WINDOW INTERVAL '60' SECONDS)",
}


@pytest.fixture(scope="module")
def folder(spark, tmp_path_factory) -> Path:
    """Rows of all keys in disorder below the delay, over some minutes, and one row far later. Many keys have equal times."""
    folder, rng = tmp_path_factory.mktemp("wide"), random.Random(20)
    (folder / "in").mkdir()
    rows = [{"symbol": f"k{rng.randrange(KEYS)}", "at": 100 + i * 400 // ROWS + rng.randint(0, 8), "n": i, "price": rng.randint(0, 9), "f": None} for i in range(ROWS)]
    for number in range(FILES):
        put(folder / "in", number, rows[number * ROWS // FILES : (number + 1) * ROWS // FILES])
    put(folder / "in", FILES, [{"symbol": "last", "at": 200_000, "n": ROWS, "price": 0, "f": None}])
    spark.createDataFrame([("down", 4, None), ("up", 7, None), ("up", 3, "k7")], "arc STRING, threshold INT, symbol STRING").coalesce(1).write.parquet(str(folder / "arcs"))
    spark.read.schema(SCHEMA).json(str(folder / "in")).createOrReplaceTempView("ticks_table")
    spark.read.parquet(str(folder / "arcs")).createOrReplaceTempView("arcs_now")
    return folder


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("name", STATEMENTS)
def test_two_kills_over_twenty_thousand_keys(spark, folder, tmp_path, name):
    for beside in ("in", "arcs"):
        (tmp_path / beside).symlink_to(folder / beside)
    for batch, until in ((1, "under_way"), (2, "kept")):
        with Run(tmp_path, "local[2]", statement=STATEMENTS[name]) as run:
            run.wait(partial(getattr(run, until), batch))
            run.kill()
    with Run(tmp_path, "local[2]", statement=STATEMENTS[name]) as run:
        assert run.process.wait(900) == 0, (tmp_path / "log").read_text()[-3000:]
    spark.conf.set(PROVIDER, ROCKSDB)
    wanted = collections.Counter(str(row) for row in spark.sql(STATEMENTS[name].format(t="ticks_table")).collect() if not behind(row))
    found = collections.Counter(str(row) for row in spark.read.parquet(str(tmp_path / "out")).collect() if not behind(row))
    spark.conf.unset(PROVIDER)
    assert found == wanted and sum(wanted.values()) > 1000, (len(found), len(wanted))
    print(f"{name}: {sum(wanted.values())} matches")
