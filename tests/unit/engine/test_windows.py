"""Windows at the ends of their types: no distance wraps, no window is too wide."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.effort import Limits
from sparkcep.engine.core.windows import Grid, Moments, measured, slides, window_ends, windows_holding
from sparkcep.engine.factory import engine_for, match_batches, match_table, prepare
from sparkcep.engine.output.moving_windows import OwnWindow
from sparkcep.engine.topk.topk_paths import TopkPaths
from sparkcep.errors import MatchRuntimeError
from sparkcep.plan.build import make_plan
from sparkcep.plan.records import Moving, Slide, Window
from tests.selection import first

LOW, TOP = -(1 << 63), (1 << 63) - 1
PLACES = [LOW, LOW + 1, LOW + 4, LOW + 9, -7, -1, 0, 3, 8, TOP - 20, TOP - 5, TOP - 1, TOP]
SIZES = ["1", "2", "4.5", "10", "20", str(1 << 62), str(TOP), str(1 << 63), str((1 << 64) - 1), str(1 << 64), "9" * 20, "9" * 400]
FLOATS = [float("-inf"), -1e300, -1.5, -0.0, 0.25, 1.0, 7.5, 12.0, 1e300, float("inf"), float("nan")]


def inside(first, last, size: str) -> bool:
    """LANGUAGE section 3, by Python's own numbers."""
    if isinstance(first, float) and not (np.isfinite(first) and np.isfinite(last)):
        return False
    return abs(Fraction(last) - Fraction(first)) < Fraction(size)


def cases(values, seed: int):
    rng = random.Random(seed)
    for _ in range(150):
        rows = sorted(rng.choices(values, k=rng.randrange(1, 9)))
        nulls = [None] * rng.randrange(3)
        down = rng.random() < 0.5
        yield ([*nulls, *rows] if not down else [*reversed(rows), *nulls]), rng.choice(SIZES), down


def _window(size: str) -> Window:
    return Window("number", size, "__o0", 1, 1, size)


@pytest.mark.parametrize(("values", "kind"), [(PLACES, pa.int64()), (FLOATS[:-1], pa.float64())])
def test_where_windows_end(values, kind):
    for rows, size, _ in cases(values, 1):
        ends, backs = window_ends("number", size, pa.array(rows, kind), np.array([0, len(rows)]))
        for i, x in enumerate(rows):
            near = [j for j, y in enumerate(rows) if x is not None and y is not None and inside(x, y, size)]
            assert list(range(i, ends[i])) == [j for j in near if j >= i], (rows, size, i)
            assert list(range(backs[i], i + 1)) == [j for j in near if j <= i], (rows, size, i)


@pytest.mark.parametrize(("values", "kind"), [(PLACES, pa.int64()), (FLOATS[:-1], pa.float64())])
def test_the_measure_of_a_window(values, kind):
    for rows, size, down in cases(values, 2):
        places = measured(_window(size), pa.array(rows, kind), np.arange(len(rows)), down)
        for i, x in enumerate(rows):
            assert places.null[i] == (x is None or not np.isfinite(float(x)))
            for j in range(i, len(rows)):
                if not places.null[i] and not places.null[j]:
                    assert (places.when[j] <= places.until[i]) == inside(x, rows[j], size), (rows, size, down)
                    assert (places.when[j] <= places.near[i]) == (abs(Fraction(rows[j]) - Fraction(x)) <= Fraction(size)), (rows, size, down)


def test_the_begins_of_windows_are_told_by_their_ends():
    """Of tenths a sum and a difference round differently; that a row lies inside a window has one answer all the same."""
    rng, near = random.Random(5), 0
    for _ in range(300):
        rows = sorted(rng.randrange(30) * 0.1 + rng.choice([0, 1000]) for _ in range(rng.randrange(2, 12)))
        rows, size = rows[:: rng.choice([1, -1])], rng.choice(["0.1", "0.3", "0.7", "1.1"])
        ends, backs = window_ends("number", size, pa.array(rows), np.array([0, len(rows)]))
        assert backs.tolist() == [int(np.flatnonzero(ends > row)[0]) for row in range(len(rows))], (rows, size)
        places = measured(_window(size), pa.array(rows), np.arange(len(rows)), rows[0] > rows[-1])
        assert ends.tolist() == [int(np.count_nonzero(places.when <= until)) for until in places.until], (rows, size)
        near += sum(abs(abs(x - y) - float(size)) < 1e-9 for x in rows for y in rows)
    assert near > 100


@pytest.mark.parametrize("down", [False, True])
def test_moments_are_values_again(down):
    moments = Moments(pa.float64(), down)
    words, missing = moments.of(pa.array([-0.0, 0.0, 2.5, -7.0, None]))
    assert list(map(repr, moments.values(words, missing).to_pylist())) == ["0.0", "0.0", "2.5", "-7.0", "None"]


def test_a_number_that_is_none_is_in_no_window():
    ends, _ = window_ends("number", "5", pa.array(FLOATS), np.array([0, len(FLOATS)]))
    assert ends[0] == 0 and ends[-2:].tolist() == [9, 10]


@pytest.mark.parametrize("step", first(["2.5", "7", "5", "1"], wider=4))
@pytest.mark.parametrize("size", ["10", "7", "12.5"])
def test_sliding_windows_hold_the_rows_that_lie_in_them(size, step):
    for rows, _, down in cases([LOW, LOW + 3, LOW + 14, -3, 0, 2, 11, TOP - 20, TOP - 5, TOP - 1, TOP], 3):
        column, offsets = pa.array(rows, pa.int64()), np.array([0, len(rows)])
        window, slide = _window(size), Slide("number", step)
        chunk = Chunk.whole(pa.table({"__o0": column}), ["__o0"], offsets)
        found = slides(window, slide, chunk, 1000)
        first, until, numbers = found.of(0)
        expected = {}
        for i, x in enumerate(rows):
            if x is not None:
                for n in range((x - 20) * 2 // int(2 * float(step)) - 2, x * 2 // int(2 * float(step)) + 2):
                    if n * Fraction(step) <= x < n * Fraction(step) + Fraction(size):
                        expected.setdefault(n, []).append(i)
        assert {int(n): list(range(a, b)) for n, a, b in zip(numbers, first, until)} == expected, (rows, down)
        at = np.array([i for i, x in enumerate(rows) if x is not None])
        which, numbers, grid = windows_holding(window, slide, chunk, at, at, 1000)
        starts, ends = grid.values(numbers)
        told = sorted((int(at[m]), n) for n, some in expected.items() for m in range(len(at)) if at[m] in some)
        assert sorted(np.repeat(at[which], 1).tolist()) == [row for row, _ in told]
        for row, start, end in zip(at[which].tolist(), starts.to_pylist(), ends.to_pylist()):
            assert start is None or float(start) <= float(rows[row])
            assert end is None or float(rows[row]) <= float(end)


@pytest.mark.parametrize(("size", "step"), [("0.3", "0.1"), ("0.7", "0.1"), ("1.1", "0.3"), ("0.9", "0.9")])
def test_sliding_windows_of_tenths_hold_the_rows_between_their_ends(size, step):
    """A window begins at the rounded product of its number and the step, and ends at the rounded sum of its begin and the size."""
    rng, near = random.Random(size), 0
    window, slide, pace, reach = _window(size), Slide("number", step), float(step), float(size)
    moving = OwnWindow(Moving(1, "number", size, step, 1, 1, size), Grid.of(window, slide, pa.float64()))
    for _ in range(40):
        rows = sorted(rng.choice([0, -3, 1000]) + rng.randrange(30) * 0.1 for _ in range(rng.randrange(1, 9)))
        numbers = {n for x in rows for n in range(int((x - reach) / pace) - 3, int(x / pace) + 4)}
        expected = {n: [i for i, x in enumerate(rows) if n * pace <= x < n * pace + reach] for n in sorted(numbers)}
        expected = {n: inside for n, inside in expected.items() if inside}
        chunk = Chunk.whole(pa.table({"__o0": pa.array(rows)}), ["__o0"], np.array([0, len(rows)]))
        found = slides(window, slide, chunk, 1000)
        first, until, listed = (values.tolist() for values in found.of(0))
        assert dict(zip(listed, (list(range(a, b)) for a, b in zip(first, until)))) == expected, rows
        low, high = np.triu_indices(len(rows))
        which, held, _ = windows_holding(window, slide, chunk, low, high, 1000)
        pairs = [(low[i], high[i], n) for i, n in zip(which.tolist(), held.tolist())]
        assert pairs == [(a, b, n) for a, b in zip(low, high) for n, inside in expected.items() if a in inside and b in inside], rows
        for n in expected:  # of a sequence that moves with the windows
            places = np.array(rows)
            assert np.flatnonzero(moving.holds(places, places, np.full(len(rows), n))).tolist() == expected[n], (rows, n)
        near += sum(min(abs(x - n * pace), abs(x - n * pace - reach)) < 1e-9 for x in rows for n in numbers)
    assert near > 20
    assert [row["w"] for row in answer("MEASURES MATCH_SCORE() AS s, WINDOW_START() AS w PATTERN (A B) WINDOW 0.3 SLIDE 0.1 PREF MAX (A.v * B.v - A.v) TOP 1", [0.5, 0.7], pa.float64())] == [0.5]
    moved = "MEASURES WINDOW_START() AS w EVENT SELECTION SKIP TILL ANY MATCH SEQUENCE S AS (A B) WITHIN 0.2 UPDATE 0.1 PREF MAX (A.v + B.v) PATTERN (S) WINDOW 0.2 SLIDE 0.1 TOP 1"
    assert [row["w"] for row in answer(moved, [0.1, 0.2], pa.float64())] == [0.1]


@pytest.mark.parametrize("seed", range(6))
def test_sliding_windows_of_many_partitions_are_those_of_each(seed):
    """Also where some partitions descend, have NULLs, or no window that is asked for."""
    rng = random.Random(seed)
    for _ in range(30):
        size, step = rng.choice(["10", "7", "3"]), rng.choice(["5", "2.5", "7", "1"])
        window, slide, parts = _window(size), Slide("number", step), rng.randint(1, 6)
        far = rng.choice([0, 0, LOW // 2, TOP - 100])
        rows = [sorted(far + rng.randint(0, 40) for _ in range(rng.randint(1, 9))) + [None] * rng.choice([0, 0, 2]) for _ in range(parts)]
        if rng.random() < 0.3:
            rows = [some[::-1] for some in rows]
        asked = np.sort(np.array([[rng.randint(-2, 30) + 2 * far // int(2 * float(step)) for _ in range(parts)] for _ in range(2)]), axis=0) if abs(far) < TOP // 4 else None

        def chunk(some, own, asked=asked):
            column = pa.array([x for part in some for x in part], pa.int64())
            whole = Chunk.whole(pa.table({"__o0": column}), ["__o0"], np.concatenate([[0], np.cumsum([len(part) for part in some])]))
            return whole if asked is None else replace(whole, sliding=asked[:, own])

        together = slides(window, slide, chunk(rows, slice(None)), 10_000)
        low = 0
        for p, some in enumerate(rows):
            alone = slides(window, slide, chunk([some], slice(p, p + 1)), 10_000)
            first, until, numbers = (values.tolist() for values in together.of(p))
            assert [[x - low for x in first], [x - low for x in until], numbers] == [values.tolist() for values in alone.of(0)], (rows, size, step)
            inside = {n: [i for i, x in enumerate(some) if x is not None and n * Fraction(step) <= x < n * Fraction(step) + Fraction(size)] for n in numbers}
            assert [inside[n] for n in numbers] == [list(range(a - low, b - low)) for a, b in zip(first, until)]
            low += len(some)


@pytest.mark.parametrize(("size", "step", "order"), [("5", "1", [2.0**53, 2.0**53, 2.0**53 + 2]), ("500", "100", [1e18, 1e18, 1e18 + 128]), ("64", "1", [1e17, 1e17, 1e17 + 16])])
def test_a_sliding_window_of_large_doubles_comes_once(size, step, order):
    """Beyond 2**53 a DOUBLE and the next whole number are the same."""
    chunk = Chunk.whole(pa.table({"__o0": order}), ["__o0"], np.array([0, len(order)]))
    numbers = slides(_window(size), Slide("number", step), chunk, 1000).of(0)[2].tolist()
    assert numbers and numbers == sorted(set(numbers))


def answer(clause: str, order: list, kind: pa.DataType | None = None, **limits) -> list[dict]:
    plan = make_plan(parse_clause(f"ORDER BY t {clause}"))
    values = {"t": pa.array(order, kind or pa.int64()), "v": pa.array([float(i) for i in range(len(order))])}
    table = pa.table({name: values[sql.rpartition(".")[2]] for name, sql in plan.inputs})
    engine = engine_for(prepare(plan, table.schema), limits=Limits(**limits))
    out = pa.concat_tables([engine.prepared.output_schema.empty_table(), *match_batches(engine, table.to_batches())])
    names = {leaf: name for name, leaf in plan.outputs}
    return [{names[k]: v for k, v in row.items() if k in names} for row in out.to_pylist()]


NEAR_TOP = [TOP - 20, TOP - 5, TOP - 1, TOP]


@pytest.mark.parametrize("selection", ["", "EVENT SELECTION SKIP TILL NEXT MATCH", "EVENT SELECTION SKIP TILL ANY MATCH FIRST MATCH"])
@pytest.mark.parametrize("down", [False, True])
def test_matches_near_the_ends_of_the_order_key(selection, down):
    clause = "MEASURES count(*) AS n AFTER MATCH SKIP TO NEXT ROW {} PATTERN (A B?) WINDOW {}"
    order = [-1 - t for t in NEAR_TOP] if down else NEAR_TOP
    assert [row["n"] for row in answer(clause.format(selection, 10), order)] == [1, 2, 2, 1]
    assert [row["n"] for row in answer(clause.format(selection, "99999999999999999999"), [LOW, *order] if not down else [TOP, *order])] == [2, 2, 2, 2, 1]


def test_timestamps_near_the_end_of_their_type():
    clause = "MEASURES count(*) AS n AFTER MATCH SKIP TO NEXT ROW PATTERN (A B?) WINDOW INTERVAL '1' DAY"
    assert [row["n"] for row in answer(clause, [TOP - 7, TOP], pa.timestamp("us"))] == [2, 1]


@pytest.mark.parametrize("report", ["PROXY MATCHES", "ALL MATCHES", "MATCH BUNDLES"])
@pytest.mark.parametrize("down", [False, True])
def test_approximate_matches_near_the_ends_of_the_order_key(report, down):
    def found(order):
        return answer(f"MEASURES count(*) AS n, MATCH_ERRORS() AS e PATTERN (A B C) WINDOW 10 APPROX 1 {report}", order)

    offset = [0, 15, 19, 20]  # the same distances in the middle of the type
    assert found([(LOW + 20 - t) if down else TOP - 20 + t for t in offset]) == found([-t if down else t for t in offset]) != []


@pytest.mark.parametrize("preference", ["MAX (A.v + B.v)", "MAX (A.v * B.v)"])
def test_ranking_of_sliding_windows_near_the_ends_of_the_order_key(preference):
    clause = f"MEASURES MATCH_SCORE() AS s, FIRST(t) AS f, WINDOW_START() AS w PATTERN (A B) WINDOW 10 SLIDE 5 PREF {preference} TOP 1"
    middle = answer(clause, [t - TOP + 7 for t in NEAR_TOP])  # TOP is 7 beyond a multiple of ten
    # where the numbers of windows are beyond 64 bits the engine keeps no best ones: it tells all matches, and Spark ranks them
    found, wanted = answer(clause, NEAR_TOP), [row | {"f": row["f"] + TOP - 7, "w": row["w"] + TOP - 7} for row in middle]
    assert wanted and all(row in found for row in wanted)
    assert {row["w"] for row in found} == {row["w"] for row in wanted}
    with pytest.raises(MatchRuntimeError, match=r"ARITHMETIC_OVERFLOW.*WINDOW_END"):
        answer(clause.replace("WINDOW_START", "WINDOW_END"), NEAR_TOP)


@pytest.mark.parametrize("order", [NEAR_TOP, [LOW, LOW + 3, LOW + 5, LOW + 9]])
def test_listed_matches_of_windows_whose_numbers_are_beyond_64_bits(order, monkeypatch):
    """Their best are those that paths tell."""
    clause = "MEASURES FIRST(t) AS f, MATCH_RANK() AS r EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B) WINDOW 10 SLIDE 0.3 PREF MAX (A.v + B.v) TOP 1"
    wanted = answer(clause, order)
    monkeypatch.setattr(TopkPaths, "_by_paths", lambda *_: None)
    assert answer(clause, order) == wanted != []


def test_too_many_sliding_windows_are_an_error():
    for clause in ("PREF MAX (A.v) TOP 1", "PREF MAX (A.v * B.v / 3) TOP 1"):
        for size in (10**9, 1 << 61, 1 << 62):  # whose numbers of windows have a sum beyond 64 bits
            with pytest.raises(MatchRuntimeError, match=r"STATE_LIMIT.*maxStateBytes = 1000000"):
                answer(f"MEASURES MATCH_SCORE() AS s PATTERN (A B) WINDOW {size} SLIDE 1 {clause}", list(range(9)), max_state_bytes=1_000_000)


def test_a_window_wider_than_the_type_holds_everything():
    for size in ("99999999999999999999", f"{TOP * 9} ROWS", "INTERVAL '99999999999' DAYS"):
        for strategy in ("EVENT SELECTION SKIP TILL NEXT MATCH", "", "APPROX 1"):
            kind = pa.timestamp("us") if "DAYS" in size else pa.int64()
            rows = answer(f"MEASURES count(*) AS n {strategy} PATTERN (A B) WINDOW {size}", [1, 2], kind)
            assert 2 in [row["n"] for row in rows]
    rows = answer("MEASURES count(*) AS n EVENT SELECTION SKIP TILL NEXT MATCH PATTERN ((A B) WITHIN 99999999999999999999)", [LOW, TOP])
    assert rows == [{"n": 2}]


@pytest.mark.parametrize(("size", "step", "end"), [("12.5", "5", 12.5), ("10", "2.5", 10.0), ("10", "5", 10)])
def test_windows_are_told_in_a_type_that_holds_their_ends(size, step, end):
    rows = answer(f"MEASURES MATCH_SCORE() AS s, WINDOW_START() AS w, WINDOW_END() AS e PATTERN (A B) WINDOW {size} SLIDE {step} PREF MAX (A.v + B.v) TOP 1", [1, 4])
    told = [row for row in rows if row["w"] == 0]
    assert [row["e"] for row in told] == [end] and isinstance(told[0]["e"], type(end))


_EXPIRES = "MEASURES MATCH_FROM() AS a, MATCH_TO() AS z AUTOMATON (STATE q2 FINAL ARC FROM q0 TO q1 ARC FROM q1 TO q2 ON EXPIRY) WINDOW {}"


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.decimal128(18, 0), pa.decimal128(38, 0)])
def test_lives_that_end_beyond_their_type(kind):
    """A match that begins where its row's life ends is as long as that life."""
    top = 127 if kind == pa.int8() else 10**18 - 1 if kind == pa.decimal128(18, 0) else TOP - 1
    assert answer(_EXPIRES.format(10), [top - 20], kind) == [{"a": top - 10, "z": top}]
    for last, name in ((top - 19, "MATCH_TO"), (top - 11, "MATCH_TO"), *([(top - 9, "MATCH_FROM")] if top < TOP - 1 else [])):
        with pytest.raises(MatchRuntimeError, match=rf"{name}\(\) exceeds {'64 bits' if top == TOP - 1 else 'what'}"):
            answer(_EXPIRES.format(10), [last], kind)


def test_a_life_that_ends_beyond_its_type_has_a_place():
    plan = make_plan(parse_clause(f"PARTITION BY g ORDER BY t {_EXPIRES.format(10)}"))
    columns = {"g": pa.array([1, 2], pa.int64()), "t": pa.array([0, TOP - 15], pa.int64())}
    table = pa.table({name: columns[sql.rpartition(".")[2]] for name, sql in plan.inputs})
    with pytest.raises(MatchRuntimeError, match="in the partition g = 2 exceeds 64 bits"):
        match_table(plan, table)


def test_a_life_that_ends_before_it_begins_has_a_place():
    plan = make_plan(parse_clause("PARTITION BY g ORDER BY t MEASURES t AS a AUTOMATON (STATE q1 FINAL ARC FROM q0 TO q1) LIFETIME TO e"))
    columns = {"g": pa.array([1, 2]), "t": pa.array([5, 5]), "e": pa.array([6, 5])}
    table = pa.table({name: columns[sql.rpartition(".")[2]] for name, sql in plan.inputs})
    with pytest.raises(MatchRuntimeError, match="LIFETIME TO gives 5 for a row of 5 in the partition g = 2"):
        match_table(plan, table)
