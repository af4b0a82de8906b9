"""ARCS FROM through Spark: its SQL puts the rows of arcs into the partitions as the in-process twin does, from random tables, for
many partitions in one query."""

from __future__ import annotations

import random

import pytest

from sparkcep.errors import MatchRuntimeError
from tests.oracle import automaton as oracle
from tests.property.automaton.test_arcs import log, measures_of, modes, random_automaton, texts_of
from tests.property.in_process import run
from tests.selection import first

PARTITIONS = 12
ROWS = "p BIGINT, id BIGINT, v BIGINT, w BIGINT, s STRING, op STRING, number BIGINT, at BIGINT"  # the number is called n in the twin, which is a register here


def _views(spark, partitions, events, names):
    """Views of the rows and of the table of arcs, with the columns that it has."""
    rows = [{**row, "p": p, "number": row.get("n")} for p, some in partitions.items() for row in some]
    columns = [column.split()[0] for column in ROWS.split(", ")]
    spark.createDataFrame([tuple(row.get(c) for c in columns) for row in rows], ROWS).createOrReplaceTempView("arcs_rows")
    kinds = {"arc": "STRING", "op": "STRING", "from_state": "STRING", "to_state": "STRING", "when": "STRING", "set": "STRING", "final": "BOOLEAN"}
    there = [c for c in dict.fromkeys(c for event in events for c in event) if c != "of"]
    there = [*there, *(name for name in names if name not in there)]
    spark.createDataFrame(
        [tuple(event.get(c) for c in there) for event in events], ", ".join(f"`{c}` {kinds.get(c, 'BIGINT')}" for c in there),
    ).createOrReplaceTempView("arcs_active")  # fmt: skip


def _told(spark, text):
    """The rows of each partition, in any order."""
    found: dict = {}
    for row in spark.sql(f"SELECT * FROM arcs_rows MATCH_RECOGNIZE ({text})").collect():
        values = row.asDict()
        found.setdefault(values.pop("p"), []).append(values)
    return {p: _sorted(rows) for p, rows in found.items()}


def _sorted(rows):
    return sorted(rows, key=lambda row: [(v is not None, str(v)) for v in row.values()])


@pytest.mark.parametrize("seed", first(range(12), wider=1))
def test_spark_and_the_twin_tell_the_same(spark, seed):
    """One query a seed: by turns with arcs as text and without; at times a changelog, arcs of some partitions alone, in default
    mode or with lifetimes of their own."""
    rng, texts = random.Random(9900 + seed), seed % 2 == 0
    while True:
        automaton, mode = random_automaton(rng, texts), modes(rng) | {"own": rng.choice(((), range(PARTITIONS)))}
        if texts:
            mode = mode | {"texts": texts_of(rng, automaton)}
        partitions, events = log(rng, automaton, parts=PARTITIONS, **mode)
        partitions = {p: rows for p, rows in partitions.items() if rows}
        table = "ARCS FROM (SELECT * EXCEPT (from_state), from_state FROM arcs_active)" if texts else "ARCS FROM arcs_active"
        words, measures = "CHANGES IN op ARRIVAL BY at", measures_of(automaton)[1]
        if rng.random() < 0.6:
            measures, words = f"CHANGE() AS m_change, CHANGE_NUMBER() AS m_no, CHANGED_BY() AS m_by, {measures}", f"{words} REPORT CHANGES"
        text = oracle.clause(automaton, measures, changes=words, table=f"{table} ARRIVAL BY at")
        try:
            expected = {p: _sorted(rows) for p, rows in run(text, partitions, arcs=events).items()} if events else {}
        except MatchRuntimeError:
            continue
        if sum(map(len, expected.values())) >= PARTITIONS:
            break
    _views(spark, partitions, events, [name for arc in automaton.arcs for name in arc.parameters or ()])
    assert _told(spark, text) == expected, f"{text}\nrows {partitions}\narcs {events}"
