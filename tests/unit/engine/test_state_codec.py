"""What is kept of open partitions as bytes: columns of all types, bytes that are not a state, and states of format 1."""

from __future__ import annotations

import datetime as dt
import decimal
import random
import struct
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.columns.row_codec import described, unpacked
from sparkcep.engine.core.resume import AT_START, WHOLE_PARTITIONS, ResumeState
from sparkcep.engine.core.state_codec import StateBytes
from sparkcep.errors import MatchRuntimeError
from tests.golden.saved_states import digits, undigits

VALUES = {
    pa.null(): [None],
    pa.bool_(): [True, False],
    pa.int8(): [-128, 127],
    pa.int64(): [-(1 << 63), (1 << 63) - 1, 0],
    pa.float32(): [1.5, float("inf")],
    pa.float64(): [-0.0, 1e300],
    pa.string(): ["", "a", "ä€", "x" * 300],
    pa.large_string(): ["", "b"],
    pa.binary(): [b"", b"\x00\xff"],
    pa.date32(): [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    pa.timestamp("us"): [dt.datetime(1969, 12, 31, 23, 59, 59, 999999)],
    pa.timestamp("us", "Asia/Tokyo"): [dt.datetime(2024, 2, 29, tzinfo=dt.UTC)],
    pa.duration("us"): [dt.timedelta(microseconds=-1)],
    pa.decimal128(38, 10): [decimal.Decimal("-1234567890123456789012345678.0123456789")],
    pa.list_(pa.string()): [[], ["a", None, "bc"], [""]],
    pa.list_(pa.list_(pa.int32())): [[], [[], None, [1, None]]],
    pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]): [{"a": 1, "b": ["x"]}, {"a": None, "b": None}],
    pa.map_(pa.string(), pa.int64()): [[], [("k", 1), ("l", None)]],
}


def random_table(rng: random.Random, rows: int, nulls: float) -> pa.Table:
    columns = {}
    for i, (t, values) in enumerate(VALUES.items()):
        some = [None if rng.random() < nulls else rng.choice(values) for _ in range(rows + 3)]
        columns[f"c{i}"] = pa.array(some, t).slice(2, rows)  # Arrow's own arrays seldom begin at their buffers' begin
    return pa.table(columns)


def opened(rng: random.Random, rows: np.ndarray, marked: bool) -> ResumeState:
    places = [np.array([rng.randint(0, n) for n in rows], dtype=np.int64) for _ in range(2)]
    numbers = [np.array([rng.choice([0, 1, 1 << 40]) for _ in rows], dtype=np.int64) for _ in range(2)]
    taken = np.array([rng.randint(0, 1) for _ in range(int(rows.sum()) if marked else 0)], dtype=np.uint8)
    return ResumeState(rows, places[0], numbers[0], places[1], numbers[1], taken)


@pytest.mark.parametrize("nulls", [0, 0.3, 1])
@pytest.mark.parametrize("marked", [False, True])
def test_states_are_read_as_they_were_written(nulls, marked):
    rng = random.Random(int(nulls * 10) + marked)
    for count in (1, 2, 7, 30):
        # written in two goes, read together in another order
        parts = []
        for share in (count, count // 2 + 1):
            rows = np.array([rng.choice([0, 1, 2, 5]) for _ in range(share)], dtype=np.int64)
            table, open = random_table(rng, int(rows.sum()), rng.choice([nulls, 0])), opened(rng, rows, marked)
            states = StateBytes(table.schema, AT_START).written(open, table)
            begin = np.cumsum(rows) - rows
            marks = iter(np.split(open.taken, begin[1:])) if marked else iter([open.taken] * share)
            parts += [
                (state, table.slice(b, n).to_pylist(), [int(a[i]) for a in (open.start, open.number, open.covered, open.dropped)], next(marks).tolist())
                for i, (state, b, n) in enumerate(zip(states, begin, rows, strict=True))
            ]
        rng.shuffle(parts)
        open, table = StateBytes(table.schema, AT_START).read([state for state, *_ in parts])
        table.validate(full=True)
        assert table.to_pylist() == [row for _, some, *_ in parts for row in some]
        assert np.stack([open.start, open.number, open.covered, open.dropped], axis=1).tolist() == [numbers for *_, numbers, _ in parts]
        assert open.taken.tolist() == [mark for *_, marks in parts for mark in marks]


def test_nothing_is_kept_of_a_partition_of_which_nothing_is_known():
    table = pa.table({"a": pa.array([1, 2], pa.int64())})
    rows = np.array([0, 2], dtype=np.int64)
    empty, kept = StateBytes(table.schema, AT_START).written(ResumeState.of(rows), table)
    assert empty == b"" and len(kept) < 120


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda state: state[:10], "damaged"),
        (lambda state: state[:-1], "damaged"),
        (lambda state: state + b"x", "damaged"),
        (lambda state: b"XXXX" + state[4:], "not a state of sparkcep"),
        (lambda state: state[:4] + b"\x09\x00" + state[6:], "of format 9, and this version of sparkcep reads formats 1 and 2"),
    ],
)
def test_bytes_that_are_no_state(change, said):
    table = pa.table({"a": pa.array([1, 2], pa.int64()), "s": ["x", None]})
    form = StateBytes(table.schema, AT_START)
    (state,) = form.written(ResumeState.of(np.array([2])), table)
    with pytest.raises(MatchRuntimeError, match=said) as caught:
        form.read([b"", change(state)])
    assert caught.value.error_class == "SPARKCEP.STATE_FORMAT"


def test_each_flipped_bit_is_found():
    table = pa.table({"a": pa.array([1, 2], pa.int64()), "s": ["x", None]})
    form = StateBytes(table.schema, AT_START)
    (state,) = form.written(ResumeState.of(np.array([2])), table)
    for bit in range(8 * len(state)):
        changed = bytearray(state)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(MatchRuntimeError) as caught:
            form.read([state, bytes(changed), b""])
        assert caught.value.error_class == "SPARKCEP.STATE_FORMAT"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((3, 2), (-1, 6)),  # of bytes before those of the string
        ((3, 2), (3 - (1 << 31), 2 - (1 << 31))),  # whose sum is 5 where only 32 bits are added
        ((3, 2), (4, 2)),
        ((2, 0), (3, -1)),
        ((2, 0), (2, 1)),
    ],
)
def test_lengths_that_are_not_of_these_bytes(old, new):
    table = pa.table({"s": ["abc", "de"], "l": pa.array([[7, 8], []], pa.list_(pa.int64()))})
    form = StateBytes(table.schema, WHOLE_PARTITIONS)
    (state,) = form.written(ResumeState.of(np.array([2])), table)
    with pytest.raises(MatchRuntimeError, match="damaged"):
        form.read([with_checksum(state, *(np.array(lengths, dtype="<i4").tobytes() for lengths in (old, new)))])
    _, again = form.read([with_checksum(state, *(np.array(lengths, dtype="<u4").tobytes() for lengths in ((3, 2), (1, 4))))])
    assert again.column("s").to_pylist() == ["a", "bcde"]


def with_checksum(state: bytes, old: bytes, new: bytes) -> bytes:
    """The state with other bytes in the place of the last ones that are ``old``, and the sum of its words."""
    at = state.rindex(old, 0, -8)
    words = np.frombuffer(state[:at] + new + state[at + len(old) : -8], dtype="<u8")
    return words.tobytes() + words.sum(dtype=np.uint64).tobytes()


@pytest.mark.parametrize("schema", [pa.schema([("a", pa.null())]), pa.schema([("a", pa.struct([("b", pa.null())]))])])
def test_rows_without_bytes_take_no_memory(schema):
    table = pa.table([pa.nulls(2, schema.field(0).type)], schema=schema)
    form = StateBytes(schema, WHOLE_PARTITIONS)
    (state,) = form.written(ResumeState.of(np.array([2])), table)
    open, again = form.read([state])
    assert (open.rows.tolist(), again.num_rows) == ([2], 2)
    many = state[:16] + b"\xff\xff\xff\xff" + state[20:-8]
    many += np.frombuffer(many, dtype="<u8").sum(dtype=np.uint64).tobytes()
    with pytest.raises(MatchRuntimeError, match="damaged"):
        form.read([many])


def unasked(columns):
    raise AssertionError(f"it is asked for {columns.rows.tolist()} rows")


def test_a_number_of_rows_is_compared_with_the_bytes_before_the_state_is_restored():
    """Restoring may allocate by the number of rows."""
    table = pa.table({"x": pa.array([1], pa.int64())})
    (state,) = StateBytes(table.schema, AT_START).written(ResumeState.of(np.array([1])), table)
    many = state[:16] + b"\xff\xff\xff\xff" + state[20:-8]
    many += np.frombuffer(many, dtype="<u8").sum(dtype=np.uint64).tobytes()
    with pytest.raises(MatchRuntimeError, match="damaged"):
        StateBytes(table.schema, replace(AT_START, restore=unasked)).read([many])


def test_values_that_are_none_of_their_type():
    numbers = pa.array([decimal.Decimal("1.5")], pa.decimal128(3, 1))
    for column in (numbers, pa.StructArray.from_arrays([numbers], names=["d"]), pa.ListArray.from_arrays([0, 1], numbers)):
        table = pa.table({"s": ["abc"], "d": column})
        form = StateBytes(table.schema, WHOLE_PARTITIONS)
        (state,) = form.written(ResumeState.of(np.array([1])), table)
        assert form.read([with_checksum(state, b"abc", b"abd")])[1].column("s").to_pylist() == ["abd"]
        with pytest.raises(MatchRuntimeError, match="damaged"):
            form.read([with_checksum(state, (15).to_bytes(16, "little"), (10**20).to_bytes(16, "little"))])


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_string_may_hold_any_bytes(kind):
    """As CAST(value AS STRING) of binary values gives."""
    plain = pa.large_binary() if kind == pa.large_string() else pa.binary()
    texts = pa.array([b"\xff", None, b"a\xc3", b"\xed\xa0\x80", b"b"], plain).view(kind)
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2, 3, 4, 5], pa.int32()), texts)
    table = pa.table({"s": texts, "l": lists, "r": pa.StructArray.from_arrays([texts], names=["a"]), "m": pa.MapArray.from_arrays(lists.offsets, pa.array(range(5)), texts)})
    form = StateBytes(table.schema, WHOLE_PARTITIONS)
    states = form.written(ResumeState.of(np.array([2, 0, 3])), table)
    assert form.read(states)[1].equals(table)


def test_more_than_arrow_can_hold_is_a_limit_of_the_task():
    """The lengths agree, so the state is not damaged. Its bytes are not read before the error."""
    half = 1 << 30
    for schema, sections in (
        (pa.schema([("s", pa.string())]), [(b"", 0), (struct.pack("<2I", half, half), 8), (b"", 2 * half)]),
        (pa.schema([("l", pa.list_(pa.null()))]), [(b"", 0), (struct.pack("<2I", half, half), 8)]),
    ):
        given = [(data, np.array([size])) for data, size in sections]
        with pytest.raises(MatchRuntimeError, match="more than 2,147,483,647 .* spark.sql.execution.arrow.useLargeVarTypes") as caught:
            unpacked(schema, given, np.array([2]))
        assert caught.value.error_class == "SPARKCEP.STATE_LIMIT"
    small, large = (pa.table({"s": pa.array(["a", None, "bc"], kind)}) for kind in (pa.string(), pa.large_string()))
    (state,) = StateBytes(small.schema, WHOLE_PARTITIONS).written(ResumeState.of(np.array([3])), small)
    assert StateBytes(large.schema, WHOLE_PARTITIONS).read([state])[1].equals(large)  # so the setting helps


def test_states_of_other_columns_and_searches():
    table = pa.table({"a": pa.array([1, 2], pa.int64())})
    (state,) = StateBytes(table.schema, AT_START).written(ResumeState.of(np.array([2])), table)
    for other in (pa.schema([("a", pa.int32())]), pa.schema([("b", pa.int64())]), pa.schema([("a", pa.int64()), ("b", pa.int64())])):
        with pytest.raises(MatchRuntimeError, match="rows with other columns"):
            StateBytes(other, AT_START).read([state])
    with pytest.raises(MatchRuntimeError, match="with another search"):
        StateBytes(table.schema, WHOLE_PARTITIONS).read([state])


def test_the_zone_of_a_session_may_change():
    zones = [pa.schema([("t", pa.timestamp("us", zone))]) for zone in ("UTC", "Asia/Tokyo")]
    table = pa.table({"t": pa.array([0], pa.timestamp("us", "UTC"))}, zones[0])
    (state,) = StateBytes(zones[0], AT_START).written(ResumeState.of(np.array([1])), table)
    _, again = StateBytes(zones[1], AT_START).read([state])
    assert again.schema == zones[1] and again["t"].cast(pa.int64()).to_pylist() == [0]


# as version 0.1.0 wrote it: two rows of (1, "x") and (NULL, "yz"); start 1, number 7, covered 2, dropped 5
FORMAT_1 = (
    "5343455001000100c7d75be15fe0139102000000010000000000000007000000000000000200000000000000050000000000000000000000"
    "0200000010000000000000000800000003000000010001000000000000000000000000000000010000000200000078797a"
)


def test_a_state_of_format_1_stays_readable():
    schema = pa.schema([("a", pa.int64()), ("s", pa.string())])
    open, table = StateBytes(schema, AT_START).read([bytes.fromhex(FORMAT_1)])
    assert table.to_pylist() == [{"a": 1, "s": "x"}, {"a": None, "s": "yz"}]
    assert [int(a[0]) for a in (open.rows, open.start, open.number, open.covered, open.dropped)] == [2, 1, 7, 2, 5]


# as version 0.1.0 writes them, with the first values of all types: (n) is a run of n zero bytes
FORMAT_2 = (
    "5343455002000100118ba329385bc51b01(11)07(7)01(15)01(3)01(3)01(3)01(3)01(3)01(3)08(3)01(3)04(3)01(3)08(3)01(3)04(7)01(3)04(7)01(3)04(7)01(3)0"
    "4(3)01(3)08(3)01(3)08(3)01(3)08(3)01(3)10(3)01(3)04(15)01(3)04(19)01(3)01(3)04(3)01(3)04(7)04(3)01(3)01(3)04(23)010101018001(7)80010000c03f0"
    "1(7)8001(4)01(4)01(4)01c606f5ff01ffffffffffffffff010040c4f07912060001ffffffffffffffff01ebba9833b16fb63becccfd0f094fb6f601(4)01(4)010101(3)01"
    "01(3)01(3)7801(5)9148f3d037df7412",
    "5343455002000100118ba329385bc51b(17)01(10)03(235)64cfe8793d5bc61b",
    "5343455002000100118ba329385bc51b02(3)02(15)01(7)05(7)02(3)02(3)02(3)02(3)02(3)02(3)10(3)02(3)08(3)02(3)10(3)02(3)08(3)01(3)02(3)08(3)01(3)02"
    "(3)08(3)02(3)02(3)08(3)02(3)10(3)02(3)10(3)02(3)10(3)02(3)20(3)02(3)08(3)03(3)0c(3)03(3)02(3)08(3)03(3)0c(3)02(3)08(3)02(3)02(3)08(3)02(3)08"
    "(15)02(3)08(7)08(3)02(3)02(3)10(4)0101(3)01007f000100ffffffffffffff7f(8)01(3)807f(4)01009c7500883ce4377e(8)010001(7)61010001(7)62010002(8)ff"
    "0100a0c02c(93)010003(7)01000101(7)02(3)616263010003(7)010001(8)02(3)010001(7)01000001(9)01(8)010002(7)01(3)01(3)6b6c010001(20)623bb85d695631"
    "95",
)


def test_states_of_format_2_stay_as_they_are():
    columns = {f"c{i}": pa.array([*values[:2], *[None] * (3 - len(values[:2]))], kind) for i, (kind, values) in enumerate(VALUES.items())}
    table, rows = pa.table(columns), np.array([1, 0, 2])
    numbers = [np.array(some) for some in ([0, 0, 2], [7, 1 << 40, 0], [1, 0, 1], [0, 3, 5])]
    form, marks = StateBytes(table.schema, AT_START), np.array([1, 0, 1], dtype=np.uint8)
    assert tuple(map(digits, form.written(ResumeState(rows, *numbers, marks), table))) == FORMAT_2
    open, again = form.read([undigits(state) for state in FORMAT_2])
    assert again.to_pylist() == table.to_pylist() and open.rows.tolist() == rows.tolist() and open.taken.tolist() == marks.tolist()
    assert [a.tolist() for a in (open.start, open.number, open.covered, open.dropped)] == [some.tolist() for some in numbers]


def test_a_type_that_spark_does_not_ship_is_refused():
    with pytest.raises(TypeError, match="dictionary"):
        described(pa.dictionary(pa.int8(), pa.string()))
