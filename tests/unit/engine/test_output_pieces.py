"""Output and buffers bounded by bytes: arrays of all rows so far, long strings."""

from __future__ import annotations

import mmap
import resource

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.columns.arrays import row_bytes
from sparkcep.engine.core import chunk
from sparkcep.engine.core.effort import Limits
from sparkcep.engine.factory import engine_for, match_batches, prepare
from sparkcep.engine.output import tables as output
from sparkcep.errors import MatchRuntimeError
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import Plan
from sparkcep.sql.rewrite.window_aggregates import stepwise
from tests.selection import first, further

LEAVES = """MEASURES array_agg(s) AS a, array_agg(CLASSIFIER()) AS c, LAST(s) AS l, min(s) AS m, max(CLASSIFIER()) AS x, min(CLASSIFIER()) AS y, count(*) AS n,
    FINAL array_agg(B.i) AS f, count(DISTINCT i) AS d"""


def prepared(clause: str, columns: dict[str, pa.Array]):
    return prepared_of(make_plan(parse_clause(clause)), columns, every="ALL ROWS" in clause)


def prepared_of(plan: Plan, columns: dict[str, pa.Array], every: bool):
    found = {name: columns[sql.rpartition(".")[2]] for name, sql in plan.inputs}
    if every:
        found |= columns
    if plan.letters:
        found["__letters"] = pa.array(np.arange(len(columns["i"])) % 3 != 1, pa.int8())
    table = pa.table(found)
    return prepare(plan, table.schema), table


def tables(clause: str, columns: dict[str, pa.Array], **limits) -> list[pa.Table]:
    plan, table = prepared(clause, columns)
    return list(match_batches(engine_for(plan, limits=Limits(**limits)), table.to_batches()))


@pytest.mark.parametrize("selection", ["", further("EVENT SELECTION SKIP TILL NEXT MATCH"), further("EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES")])
@pytest.mark.parametrize("mode", first(["ALL ROWS PER MATCH", "ONE ROW PER MATCH"]))
def test_pieces_are_the_whole(selection, mode, monkeypatch):
    size = 7 if "ANY" in selection else 40
    columns = {"i": pa.array(range(size)), "s": pa.array([None if i % 5 == 4 else "x" * (i * i % 37) for i in range(size)])}
    clause = f"ORDER BY i {LEAVES} {mode} {selection} PATTERN ((A | B)+) DEFINE A AS i % 3 <> 1"
    whole = tables(clause, columns)
    monkeypatch.setattr(output, "OUTPUT_BYTES", 1000)
    pieces = tables(clause, columns)
    assert len(pieces) > 4 * len(whole) or (mode, "ANY" in selection) == ("ONE ROW PER MATCH", False)
    assert pa.concat_tables(pieces).equals(pa.concat_tables(whole))


@pytest.mark.parametrize("measure", ["FINAL median(B.i)", "stddev(B.i)"])
def test_rows_of_an_aggregate_come_once_over_pieces(measure, monkeypatch):
    columns = {"i": pa.array(range(40)), "s": pa.array(["x" * (i % 37) for i in range(40)])}
    plan = stepwise(make_plan(parse_clause(f"ORDER BY i MEASURES {measure} AS m ALL ROWS PER MATCH PATTERN ((A | B)+) DEFINE A AS i % 3 <> 1")))
    compiled, table = prepared_of(plan, columns, every=True)
    (whole,) = match_batches(engine_for(compiled), table.to_batches())
    monkeypatch.setattr(output, "OUTPUT_BYTES", 400)
    pieces = list(match_batches(engine_for(compiled), table.to_batches()))
    (rows,) = (leaf.name for leaf in plan.leaves if leaf.spec.kind == "rows")
    assert [part["a0"] for row in whole.column(rows).to_pylist() for part in row if part is not None] == [i for i in range(40) if i % 3 == 1]
    assert len(pieces) > 4 and pa.concat_tables(pieces).equals(whole)


def test_the_arrays_of_a_long_match_come_in_pieces():
    columns = {"i": pa.array(range(4000)), "s": pa.array(["x" * 100] * 4000)}
    clause = "ORDER BY i MEASURES RUNNING array_agg(s) AS a ALL ROWS PER MATCH PATTERN (A+)"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    plan, table = prepared(clause, columns)
    rows = elements = 0
    for out in match_batches(engine_for(plan), table.to_batches()):
        assert out.nbytes < 2 * output.OUTPUT_BYTES
        rows, elements = rows + out.num_rows, elements + len(out.column(out.column_names[-1]).combine_chunks().values)
        del out
    assert (rows, elements) == (4000, 4000 * 4001 // 2)  # 800 MB
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000


def test_one_row_beyond_the_bound_is_an_error():
    columns = {"i": pa.array(range(100)), "s": pa.array(["x" * 1_000_000] * 100)}
    with pytest.raises(MatchRuntimeError, match=r"STATE_LIMIT.*maxStateBytes = 10000000\b"):
        tables("ORDER BY i MEASURES array_agg(s) AS a PATTERN (A+)", columns, max_state_bytes=10_000_000)


@pytest.mark.parametrize("clause", ["PATTERN (A B)", "EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B) WINDOW 5", "PATTERN (A B) WINDOW 5 APPROX 1 PROXY MATCHES"])
def test_a_buffer_of_long_strings_is_no_larger_than_its_bound(clause, monkeypatch):
    monkeypatch.setattr(chunk, "CHUNK_BYTES", 1 << 20)
    text = f"PARTITION BY i ORDER BY t MEASURES LAST(s) AS l {clause}"
    plan, _ = prepared(text, {c: pa.array([0], pa.int64()) for c in "it"} | {"s": pa.array(["x"])})
    found = engine_for(plan)
    rows = held = 0
    for i in range(200):
        columns = {"i": pa.array([i, i]), "t": pa.array([0, 1]), "s": pa.array(["x" * 50_000] * 2)}
        batch = pa.record_batch([columns[sql.rpartition(".")[2]] for _, sql in make_plan(parse_clause(text)).inputs], schema=plan.input_schema)
        rows += sum(out.num_rows for out in found.push(batch))
        held = max(held, sum(b.nbytes for b in found.buffer.batches))
    rows += sum(out.num_rows for out in found.finish())
    assert rows >= 200
    assert held < 3 << 20


def test_more_than_two_gib_of_one_column_name_the_setting():
    """The bytes are never touched, because Arrow adds up the lengths first."""
    size = 1 << 30
    text = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(np.array([0, size], dtype=np.int32)), pa.py_buffer(mmap.mmap(-1, size))])
    for column in (text, pa.StructArray.from_arrays([text], names=["s"])):
        buffer = chunk.Buffer(["x"], (), 10)
        for _ in range(3):
            buffer.add(pa.record_batch([column], names=["x"]))
        with pytest.raises(MatchRuntimeError, match=r"STATE_LIMIT.*2 GiB.*SET spark.sql.execution.arrow.useLargeVarTypes = true"):
            buffer.chunk(chunk.from_first_row, True)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, None, 3], pa.int32()), [4, 4, 4]),
        (pa.array(["ab", None, ""]), [2, 0, 0]),
        (pa.array([[1, 2], None, []], pa.list_(pa.int64())), [16, 0, 0]),
        (pa.array([{"x": "abc", "y": 1}, None], pa.struct([("x", pa.string()), ("y", pa.int16())])), [5, 2]),
        (pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())), [9, 0]),
        (pa.array([None, None]), [0, 0]),
        (pa.array([True, False]), [1, 1]),
        (pa.array([["x"], ["abc", "de"], []])[1:], [5, 0]),
    ],
)
def test_bytes_of_values(column, expected):
    assert row_bytes(column).tolist() == expected
