"""IPM, the paper's iterative pattern matcher (section 6.2): quotes joined with the automaton's arcs and with earlier partial
matches, whose results are fed back to the second join, here a recursive query of Spark's. It needs numbers without gaps, as the
paper's does."""

from __future__ import annotations

import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from . import query

# Q1: in an arc's row where it leads, what it adds to both registers, and which sign of a change it takes
IPM = """WITH RECURSIVE runs(q, r1, r2, first, last) AS (
  SELECT 1, 0, 0, id, id FROM quotes WHERE v < -0.25
  UNION ALL
  SELECT a.target, r1 + a.one, r2 + a.two, first, id
  FROM runs JOIN quotes ON id = last + 1 AND id < first + {window}
    JOIN (VALUES (1, 1, 1, 0, -1), (1, 2, 1, 0, -1), (2, 2, -1, 0, 1), (2, 1, -1, 1, 1), (2, 3, -1, 1, 1)) AS a(source, target, one, two, sign)
    ON q = a.source AND signum(quotes.v) = a.sign
      AND CASE WHEN a.source = 1 THEN true WHEN a.target = 2 THEN r2 < {k} WHEN a.target = 1 THEN r2 + 1 < {k} ELSE r2 + 1 = {k} AND r1 = 1 END
) SELECT first, last FROM runs WHERE q = 3"""
SETTINGS = {"spark.sql.cteRecursionLevelLimit": "-1", "spark.sql.cteRecursionRowLimit": "-1", "spark.sql.shuffle.partitions": "2"}


def run(columns: dict[str, np.ndarray], clause: str, k: int = 2, window: int = 2000) -> dict:
    """Seconds of both on Spark, the second of two runs each, over quotes of one partition."""
    spark = query.session(SETTINGS)
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(pa.table({"p": np.zeros(len(columns["id"]), dtype=np.int64), "id": columns["id"], "v": columns["v"]}), f"{folder}/quotes.parquet")
        spark.read.parquet(folder).createOrReplaceTempView("quotes")
        texts = {"automaton": f"SELECT * FROM quotes MATCH_RECOGNIZE ({clause})", "joins": IPM.format(k=k, window=window)}
        found: dict[str, float] = {}
        counts = set()
        for name, text in texts.items():
            for _ in range(2):
                start = time.perf_counter()
                counts.add(spark.sql(text).count())
                found[name] = time.perf_counter() - start
    spark.stop()
    assert len(counts) == 1, counts
    print(f"IPM, k = {k}, {len(columns['id']):,} events on Spark: {found['joins']:.1f} s, AUTOMATON {found['automaton']:.2f} s, {found['joins'] / found['automaton']:.0f} times; {counts.pop():,} matches in both")
    return found
