"""Strings that are not UTF-8, as CAST(value AS STRING) of binary values gives: as keys, in rows, in ids and in errors."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.engine.automaton.arc_rows import check_texts
from sparkcep.engine.core.effort import Limits
from sparkcep.engine.core.errors import said
from sparkcep.engine.factory import engine_for, match_batches, match_table, prepare
from sparkcep.engine.output.match_id import equal_keys, plain_values
from sparkcep.engine.stream.key_buckets import Bucket, Layout, advance, distinct, output, pieces, read
from sparkcep.engine.stream.keyed_stream import KeyedStream
from sparkcep.errors import MatchRuntimeError
from sparkcep.plan.build import make_plan
from sparkcep.plan.extend import arcs
from tests.property.in_process import drained

RISES = "PARTITION BY k ORDER BY t MEASURES {own} LAST(s) AS z EVENT SELECTION STRICT CONTIGUITY ALL MATCHES PATTERN (A B) WINDOW INTERVAL '5' MICROSECONDS {changes} DEFINE B AS s > A.s"
LOW, HIGH = b"\xff", b"\xff\xff"
KEYS = [b"\x00\x00\xff", b"a\xff", b"a", b"\xff"]


def strings(values: list[bytes | None]) -> pa.Array:
    return pa.array(values, pa.binary()).view(pa.string())


def micros(values: list[int]) -> pa.Array:
    return pa.array(values, pa.timestamp("us"))


def planned(text: str):
    return make_plan(parse_clause(text))


def rows_of(plan, values: dict[str, pa.Array]) -> pa.Table:
    """The plan's input columns; structs have all columns but that of CHANGES IN."""
    names = [name for name in values if name != "op"]
    whole = pa.StructArray.from_arrays([values[name] for name in names], names=names)
    return pa.table({name: values.get(text, whole) for name, text in plan.inputs})


def test_each_is_a_value_of_its_own():
    texts = strings([*KEYS, None, b"\xff"])
    nested = pa.StructArray.from_arrays([texts, pa.array([1 << 61, 5, 5, 5, 5, 5]).cast(pa.timestamp("us"))], names=["s", "t"])
    for column in (texts, nested, pa.ListArray.from_arrays(pa.array(range(7), pa.int32()), texts)):
        for found in (equal_keys(column), [repr(value) for value in plain_values(column)]):
            assert len(set(found)) == 5 and found[3] == found[5]
    assert plain_values(texts.slice(2, 1)) == ["a"] == plain_values(texts)[2:3]  # other rows do not change it
    assert plain_values(nested)[2] == plain_values(nested.slice(2, 1))[0]


def test_they_are_shown_as_bytes():
    texts = strings(KEYS)
    assert said(texts[1]) == "b'a\\xff'" and said(texts[2]) == "'a'"
    assert said(pa.StructArray.from_arrays([texts], names=["s"])[1]) == "{'s': b'a\\xff'}"
    assert said(pa.array([[1 << 61]]).cast(pa.list_(pa.timestamp("us", "UTC")))[0]) == "[9503-04-04 19:00:13.693952Z]"


@pytest.mark.parametrize("nested", [False, True])
def test_over_a_table(nested):
    plan = planned("PARTITION BY k ORDER BY i MEASURES LAST(s) AS s PATTERN (A B) DEFINE B AS s > A.s")
    texts = strings([key for key in sorted(KEYS) for _ in range(3)])
    column = pa.StructArray.from_arrays([texts], names=["a"]) if nested else texts
    values = {"k": column, "i": pa.array([1, 2, 3] * 4), "s": strings([b"a\xfe", b"a\xff", b"a\xfe"] * 4)}
    found = match_table(plan, rows_of(plan, values))
    assert found.column("__p0").combine_chunks().equals(column.take(pa.array([0, 3, 6, 9])))
    assert found.column(dict(plan.outputs)["s"]).cast(pa.binary()).to_pylist() == [b"a\xff"] * 4


def test_ids_of_matches_over_a_table():
    plan = planned(RISES.format(own="MATCH_ID() AS id,", changes="CHANGES IN op REPORT NET"))
    values = {"k": strings([key for key in sorted(KEYS) for _ in range(2)]), "t": micros([1, 2] * 4), "s": strings([LOW, HIGH] * 4), "op": pa.nulls(8, pa.string())}
    ids = match_table(plan, rows_of(plan, values)).column(dict(plan.outputs)["id"]).to_pylist()
    again = match_table(plan, rows_of(plan, {name: column.slice(2, 2) for name, column in values.items()})).column(dict(plan.outputs)["id"]).to_pylist()
    assert len(set(ids)) == 4 and again == ids[1:2]
    values = {"k": strings([b"a"] * 2), "t": micros([1, 2]), "s": pa.array(["'b\\\n", "\u00e4\u200b"]), "op": pa.nulls(2, pa.string())}
    assert match_table(plan, rows_of(plan, values)).column(dict(plan.outputs)["id"]).to_pylist() == ["9c7878a53efe937a280e5f69257f4ddf"]  # sinks have it


def test_an_error_shows_the_key():
    plan = planned("PARTITION BY k ORDER BY i MEASURES count(*) AS c EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B)")
    table = pa.table({"__p0": strings([b"a\xff"] * 2000), "__o0": pa.array(range(2000))})
    engine = engine_for(prepare(plan, table.schema), limits=Limits(max_matches=1000))
    with pytest.raises(MatchRuntimeError, match=r"in the partition k = b'a\\xff'"):
        list(match_batches(engine, table.to_batches()))


def streamed(plan, values: dict[str, pa.Array]) -> tuple[KeyedStream, pa.Table]:
    """The stream of a clause, and its rows."""
    rows = rows_of(plan, values)
    table = rows.append_column("__s0", values["t"])
    return KeyedStream(prepare(plan, rows.schema), table.schema, ["__s0"]), table


def test_names_and_texts_of_arcs_are_utf8():
    """Keys and parameters of ARCS FROM may have any bytes, as those of rows."""
    utf8, other = strings([b"\xc3\xa4", None]), strings([b"a", b"\xff"])
    columns = {arcs.NAME: utf8, arcs.OP: pa.nulls(2), arcs.SOURCE: utf8, arcs.TARGET: utf8, arcs.WHEN: utf8, arcs.SET: utf8, arcs.key_column(0): other, arcs.written_column(0): other}
    check_texts(columns)
    for name, word in ((arcs.NAME, "arc"), (arcs.OP, "op"), (arcs.WHEN, "when")):
        with pytest.raises(MatchRuntimeError, match=f"the column {word} of ARCS FROM holds a string that is not UTF-8") as caught:
            check_texts(columns | {name: other})
        assert caught.value.error_class == "SPARKCEP.CHANGE_VALUE"


def test_an_operation_that_is_not_utf8_is_shown():
    plan = planned(RISES.format(own="MATCH_ID() AS id,", changes="CHANGES IN op REPORT NET"))
    values = {"k": strings([b"a"]), "t": micros([1]), "s": strings([LOW]), "op": strings([b"\xff"])}
    with pytest.raises(MatchRuntimeError, match=r"CHANGES IN holds b'\\xff'"):
        match_table(plan, rows_of(plan, values))


def test_over_a_stream():
    plan = planned(RISES.format(own="", changes=""))
    values = {"k": strings(KEYS * 2), "t": micros([1] * 4 + [3] * 4), "s": strings([LOW] * 4 + [HIGH] * 4)}
    states, found = [b""] * 4, []
    for begin, end, watermark in ((0, 4, 0), (4, 8, 2), (8, 8, 100)):
        stream, table = streamed(plan, values)  # another worker
        tables, left = drained(stream.advance(table.slice(begin, end - begin), np.arange(end - begin), states, watermark))
        states, found = left.states, found + tables
    rises = pa.concat_tables(found)
    assert [row for row in zip(*(rises.column(name).cast(pa.binary()).to_pylist() for name in ("__p0", dict(plan.outputs)["z"])))] == [(key, HIGH) for key in KEYS]
    assert states == [b""] * 4


def test_changes_over_a_stream():
    """The second row is taken back, and a third one comes in its place."""
    plan = planned(RISES.format(own="CHANGE() AS change, MATCH_ID() AS id, FIRST(t) AS a, LAST(t) AS b,", changes="CHANGES IN op REPORT CHANGES"))
    times, texts = [1, 2, 2, 3], [LOW, HIGH, HIGH, HIGH]
    values = {"k": strings([b"\xff"] * 4), "t": micros(times), "s": strings(texts), "op": pa.array(["insert", "insert", "retract", "insert"])}
    states, found = [b""], []
    for begin, end, watermark in ((0, 2, 0), (2, 4, 0), (4, 4, 100)):
        stream, table = streamed(plan, values)
        tables, left = drained(stream.advance(table.slice(begin, end - begin), np.zeros(end - begin, dtype=np.int64), states, watermark))
        states, found = left.states, found + tables
    outputs = dict(plan.outputs)
    change, b = (pa.concat_tables(found).column(outputs[name]) for name in ("change", "b"))
    assert list(zip(change.to_pylist(), b.cast(pa.int64()).to_pylist())) == [("insert", 2), ("retract", 2), ("insert", 3)]


def test_buckets_of_keys():
    plan = planned(RISES.format(own="", changes=""))
    values = {"k": strings(KEYS * 2), "t": micros([1] * 4 + [3] * 4), "s": strings([LOW] * 4 + [HIGH] * 4)}
    stream, table = streamed(plan, values)
    names = table.column_names[:-1]
    layout = Layout(tuple(names), (names.index("__p0"),), 1, 2)
    rows = table.select(names).append_column("needed", pa.array([True] * 8)).append_column("time", values["t"])
    engine = KeyedStream(stream.engine.task.prepared, layout.piece_schema(rows.schema), layout.order)
    buckets, found = [Bucket.new(b"{}")] * 2, Counter()
    for begin, end, watermark in ((0, 4, 0), (4, 8, 2), (8, 8, 100)):
        (came,) = pieces(rows.slice(begin, end - begin).to_batches(), layout)
        for number, piece in enumerate(came):
            tables, (after, _) = drained(advance(engine, [piece] if piece else [], Bucket.read(buckets[number].written()), watermark))
            buckets[number] = after
            found.update(key for one in output(tables) for batch in read(one, stream.engine.task.prepared.output_schema) for key in batch.column("__p0").cast(pa.binary()).to_pylist())
    assert found == Counter(KEYS) and not any(bucket.keys.num_rows for bucket in buckets)


def test_the_bytes_of_keys_of_buckets():
    """Checkpoints have them, and the number of a key's bucket depends on them."""
    columns = [strings([b"a'", b"\xff", None]), pa.array([1.5, -0.0, None]), pa.array([7, None, 0], pa.timestamp("us", "UTC"))]
    number, keys = distinct(columns, 3)
    assert [keys[i] for i in number] == [b"(\"a'\", 4609434218613702656, 7)", b"(b'\\xff', 0, None)", b"(None, None, 0)"]


def test_the_bytes_of_keys_do_not_depend_on_the_version_of_python():
    """``repr`` escapes U+0378 until a Unicode has that character. U+200B and U+FFFF are never printable."""
    texts = pa.array(["\u0378", "\U000e0fff", "\u200b\n\uffff", "\\u0378", "\u00e4"])
    raw = ["('\u0378',)", "('\U000e0fff',)", r"('\u200b\n\uffff',)", r"('\\u0378',)", "('\u00e4',)"]
    number, keys = distinct([texts], 5)
    assert [keys[i].decode() for i in number] == raw
    number, keys = distinct([pa.StructArray.from_arrays([texts.slice(0, 1)], names=["a"])], 1)
    assert keys[0].decode() == '("(\'\u0378\',)",)'

    def bucket(key: str) -> bytes:
        keys = pa.table({"key": pa.array([key.encode()], pa.binary()), "state": pa.array([b"SCEP"], pa.large_binary()), "due": pa.array([7])})
        return Bucket(keys, 5, b"{}").written()

    for key in (*raw, r"(b'\xe4\\u0378',)", "(Decimal('1.5'),)"):
        assert Bucket.read(bucket(key)).keys.column("key").to_pylist() == [key.encode()]
    for key in (r"('\u0378',)", r"('\U0001f600',)"):
        with pytest.raises(MatchRuntimeError, match="not in the Unicode of the Python version"):
            Bucket.read(bucket(key))
