"""AUTOMATON over a stream, against the answer over the same rows in a table (arcs ON EXPIRY: test_stream_expiries)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.compiler.output_watermark import passed
from sparkcep.engine.factory import prepare
from sparkcep.engine.stream.keyed_stream import KeyedStream
from tests.property.in_process import drained
from tests.property.stream.statements import (
    ABSENT,
    AUTOMATA,
    compared_clause,
    compared_of_kind,
)
from tests.property.stream.streams import (
    HEAD,
    WINDOW,
    ordered,
    planned,
    timed,
)
from tests.selection import first, one_in


@pytest.mark.parametrize("text", one_in(12, AUTOMATA, 3))
def test_each_clause(text):
    compared_clause(text, 20)


@pytest.mark.parametrize("seed", first(range(16), wider=2))
def test_random_statements(seed):
    compared_of_kind("automata", seed)


@pytest.mark.parametrize(("number", "at", "behind"), [("", 5, 5), ("MATCH_NUMBER() AS m,", 9, 10)])
def test_a_number_waits_for_the_lives_that_end_behind_it(number, at, behind):
    """The match of the rows at 1 and 5 is emitted with the second row. With a number it is emitted when the life of the second has
    ended, nearly twice WINDOW after its first row. The watermark that is passed on is as much earlier."""
    plan = planned(f"{HEAD} {number} FIRST(id) AS a, LAST(id) AS z {ABSENT} {WINDOW}")
    table = timed(plan, {0: [{"id": 1, "v": 2, "w": 0, "s": None}, {"id": 5, "v": 2, "w": 2, "s": None}]})
    stream = KeyedStream(ordered(prepare(plan, table.drop_columns(["__s0", "__s1"]).schema), (*plan.order[:1], plan.order[0]._replace(name="n"))), table.schema, ["__s0", "__s1"])
    states, told = [b""], []
    for watermark in range(5, 11):
        came = table.slice(0, 2 if watermark == 5 else 0)
        tables, left = drained(stream.advance(came, np.zeros(came.num_rows, dtype=np.int64), states, watermark))
        states = list(left.states)
        ends = [[part.column(dict(plan.outputs)[name]).cast(pa.int64()).to_pylist() for name in ("a", "z")] for part in tables]
        told += [(first, last, watermark) for a, z in ends for first, last in zip(a, z, strict=True)]
    assert (1, 5, at) in told and passed(plan).behind == behind
