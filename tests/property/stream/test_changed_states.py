"""States of streams that are damaged or made up: an error of the data or rows, and never a crash."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pytest

from sparkcep.errors import MatchRuntimeError
from tests.property.stream import changed_states
from tests.property.stream.statements import CLAUSES
from tests.property.stream.streams import planned, timed
from tests.selection import part

# one family of each form of a state
FORMS = [
    "event selection, ALL MATCHES", "MATCH_COUNT", "APPROX PROXY MATCHES", "MATCH BUNDLES", "BUDGET", "TOP k, SLIDE of APPROX", "AUTOMATON, ON EXPIRY", "REPORT CHANGES, PUNCTUATE BY",
    "idleTimeout", changed_states.BUCKETS, changed_states.JOURNALS,
]  # fmt: skip


def outcome(changes: int, families: list[str]) -> None:
    code, said = changed_states.in_process(["--changes", str(changes), "--each", "8", "--families", *families])
    assert code == 0, said
    counted = [json.loads(line) for line in said.splitlines()]
    assert [one["family"] for one in counted] == [family for family in changed_states.families() if family in families]
    for one in counted:
        assert one["changes"] >= changes and 0 < one["came"]["STATE_FORMAT"] and one["came"].get("read", 0) > 0, one


@pytest.mark.process
def test_each_form():
    outcome(16, FORMS)


@pytest.mark.slow
@pytest.mark.parametrize("family", FORMS)
def test_each_family(family):
    outcome(10_000, [family])


OTHERS = [family for family in changed_states.families() if family not in FORMS]
PROCESSES = 3  # to start one takes as long as the changes of three families


@pytest.mark.process
@pytest.mark.parametrize("number", part(0, PROCESSES, range(PROCESSES)))
def test_the_other_families(number):
    outcome(100, OTHERS[number::PROCESSES])


def test_a_damaged_state_names_its_checkpoint():
    pytest.importorskip("pyspark")
    from sparkcep.spark.stream.micro_batch import stream_batches

    plan = planned(CLAUSES[0])
    table = timed(plan, {0: [{"id": i + 1, "v": i % 4, "w": 1, "s": None} for i in range(8)]})
    names = [name for name in table.column_names if name not in ("__s0", "__s1")]
    said = (8).to_bytes(8, "big") + "file:/a/b c/state".encode()

    def batch(number: int, state: bytes | None, row: int) -> pa.RecordBatch:
        own = [pa.array([number], pa.int32()), pa.array([state], pa.binary())]
        columns = [table.column(name).combine_chunks().slice(row, 1) for name in [*names, "__s0"]]
        return pa.RecordBatch.from_arrays([*own, *columns], names=["__k", "__state", *(f"c{i}" for i in range(2, 2 + len(columns)))])

    def run(state: bytes | None) -> list[pa.RecordBatch]:
        rows, kept = [batch(0, None, row) for row in range(4)], [] if state is None else [batch(-1, state, 0)]
        return list(stream_batches(plan.to_json(), [[name, name, ""] for name in names], names, 1, [], iter([batch(-(1 << 31), said, 0), *rows, *kept])))

    told = pa.Table.from_batches(run(None))
    (state,) = [state for state in told.column(told.num_columns - 2).to_pylist() if state is not None and len(state) > 64]
    damaged = state[:30] + bytes([state[30] ^ 1]) + state[31:]
    with pytest.raises(MatchRuntimeError, match=re.escape("(the state is in file:/a/b c/state)")) as caught:
        run(damaged)
    assert caught.value.error_class == "SPARKCEP.STATE_FORMAT"
