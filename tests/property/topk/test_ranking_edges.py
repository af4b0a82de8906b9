"""TOP k without enumeration where types, signs, shared rows and lengths are awkward: the best matches, or all of them for Spark to
rank."""

from __future__ import annotations

import dataclasses
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.net.net import rows_of_match
from sparkcep.engine.core.effort import Limits
from sparkcep.engine.factory import engine_for, match_batches, prepare
from sparkcep.engine.topk.topk_paths import TopkPaths
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.plan.build import make_plan
from sparkcep.settings import DEFAULT, Settings
from tests.selection import further
from tests.support.caught import without_catching

WHOLE, REAL, TINY, INT = pa.int64(), pa.float64(), pa.int8(), pa.int32()
NAN, OTHER_NAN = np.array([0x7FF8000000000000, 0xFFF8000000000000], dtype=np.uint64).view(np.float64)


def matches(pattern: str, pref: str, top: int, rows: list, types: dict, *, link=(), more="", settings=DEFAULT, listed=False, limits=None) -> list:
    """Positions of the matches that the engine gives, in its order; ``rows``: (letters, values of the columns); ``link``:
    conditions by variable; ``listed``: by the engine that lists all."""
    letters = [v for v in "ABC" if v in pattern]
    conditions = ", ".join(f"{v} AS s LIKE '%{v}%'" + (f" AND {link[v]}" if v in link else "") for v in letters)
    text = f"ORDER BY id MEASURES array_agg(id) AS found EVENT SELECTION SKIP TILL ANY MATCH PATTERN ({pattern}) {pref} TOP {top} {more} DEFINE {conditions}"
    plan = without_catching(make_plan(parse_clause(text), settings=settings))
    if listed:
        plan = dataclasses.replace(plan, ranking=plan.ranking._replace(terms=(), monotone=None, by_sides=None))
    columns = {"id": pa.array(range(len(rows)), pa.int64())}
    columns |= {name: pa.array([dict(zip(types, values))[name] for _, *values in rows], kind) for name, kind in types.items()}
    table = {name: columns[sql] for name, sql in plan.inputs}
    table["__letters"] = pa.array([sum(1 << bit for v, bit, _ in plan.letters if plan.variables[v] in own) for own, *_ in rows], pa.int32())
    engine = engine_for(prepare(plan, pa.table(table).schema), None, limits)
    pieces = list(match_batches(engine, pa.table(table).to_batches()))
    return pa.concat_tables([engine.prepared.output_schema.empty_table(), *pieces])[dict(plan.outputs)["found"]].to_pylist()


def all_come(pattern: str, pref: str, rows: list, types: dict, **options) -> bool:
    """Whether the engine leaves ranking to Spark, with every match."""
    return matches(pattern, pref, 1, rows, types, **options) == matches(pattern, pref, 1, rows, types, listed=True, **options)


PAIRS = [("A", 1), ("A", 2), ("B", 1), ("B", 3)]


def test_a_product_of_numbers_with_a_sign_does_not_rise():
    assert all_come("A B", "PREF MAX (2 * -3 * (A.v + B.v))", PAIRS, {"v": WHOLE})
    assert matches("A B", "PREF MAX (-6 * least(A.v, B.v))", 1, PAIRS, {"v": WHOLE}) == [[0, 2]]
    assert matches("A B", "PREF MAX (2 * 3 * (A.v * B.v))", 1, PAIRS, {"v": WHOLE}) == [[1, 3]]


@pytest.mark.parametrize("pattern", ["A? & B", "A* & B", "B & (A|C?)"])
def test_a_side_may_be_without_rows(pattern):
    assert all_come(pattern, "PREF MAX (SUM(B.v))", PAIRS, {"v": WHOLE})
    assert all_come(pattern, "PREF MIN (SUM(v))", PAIRS, {"v": WHOLE})


@pytest.mark.parametrize("pref", ["MAX (COUNT(*))", "MAX (SUM(v))", "MAX (COUNT(U.*))", "MAX (SUM(U.v) + SUM(A.v))"])
def test_a_row_of_both_sides_counts_once(pref):
    shared = [("AB", 2), ("B", 1)]
    assert all_come("A & B", f"PREF {pref}", shared, {"v": WHOLE}, more="SUBSET U = (A, B)")
    assert matches("A & B", f"PREF {pref}", 1, [("A", 2), ("B", 1), ("B", 2)], {"v": WHOLE}, more="SUBSET U = (A, B)")


@pytest.mark.parametrize("pattern", ["A B", "A & B"])
@pytest.mark.parametrize(("kind", "rows"), [(TINY, [("A", 100), ("A", 1), ("B", 100), ("B", 2)]), (INT, [("A", -(2**31)), ("A", 1), ("B", -2), ("B", 2)])])
def test_integers_that_leave_their_type(pattern, kind, rows):
    """Spark raises an error under ANSI, and wraps otherwise: 100 + 100 is -56, and -2**31 - 2 is the best."""
    wrapping = Settings(ansi=False)
    if pattern == "A & B":
        assert all_come(pattern, "PREF MAX (A.v + B.v)", rows, {"v": kind})
    else:
        with pytest.raises(MatchRuntimeError, match="ARITHMETIC_OVERFLOW"):
            matches(pattern, "PREF MAX (A.v + B.v)", 1, rows, {"v": kind})
        assert matches(pattern, "PREF MAX (A.v + B.v)", 1, rows, {"v": kind}, settings=wrapping) == [[0, 3] if kind == TINY else [0, 2]]
    assert len(matches(pattern, "PREF MAX (SUM(A.v) + SUM(B.v))", 1, rows, {"v": kind})) == 1  # BIGINT


@pytest.mark.parametrize(("pref", "kind", "rows", "found"), [
    # 100 + 100 is -56 as TINYINT, and then a BIGINT or INT is added
    ("MAX (count(*)) AND MAX (A.v + B.v)", TINY, [("A", 100, 0), ("A", 1, 0), ("B", 100, 0), ("B", 2, 0)], [[0, 3]]),
    ("MAX (B.w - (A.v + B.v))", TINY, [("A", 100, 0), ("A", -1, 0), ("B", 100, 0)], [[0, 2]]),
    ("MAX (count(*)) AND MIN (A.v + B.v)", TINY, [("A", 100, 0), ("A", -1, 0), ("B", 100, 0)], [[0, 2]]),
    ("MAX (A.w + (A.v + B.v))", TINY, [("A", 100, 0), ("A", 1, 0), ("B", 100, 0), ("B", 2, 0)], [[0, 3]]),
    ("MAX (A.v + B.v)", WHOLE, [("A", 1 << 62, 0), ("A", 1, 0), ("B", 1 << 62, 0)], [[1, 2]]),
    # the least INT does not change with its sign, and then a BIGINT is added
    ("MAX (A.v) AND MIN (B.w)", WHOLE, [("A", 0, 0), ("B", 0, -(2**31)), ("B", 0, 5)], [[0, 2]]),
    ("MAX (A.v - (-(B.w + C.w)))", WHOLE, [("A", 0, 0), ("B", 0, -(2**31)), ("B", 0, -5), ("C", 0, 0)], [[0, 1, 3]]),
    ("MAX (A.v - (B.w + C.w))", WHOLE, [("A", 0, 0), ("B", 0, -(2**31)), ("B", 0, -5), ("C", 0, 0)], [[0, 1, 3]]),
])  # fmt: skip
def test_integers_that_leave_the_type_of_a_part(pref, kind, rows, found):
    """Spark adds each objective, and what is in parentheses, in its own type first."""
    pattern = "A B C" if "C" in pref else "A B"
    assert matches(pattern, f"PREF {pref}", 1, rows, {"v": kind, "w": INT}, settings=Settings(ansi=False)) == found


def test_small_integers_of_sides_are_added_first():
    """100 + 100 is -56 as TINYINT, also if the sum of the sides begins with a BIGINT."""
    for size in (100, 50):
        rows = [("A", 0, 0), ("B", size, 0), ("B", 1, 0), ("C", size, 0), ("C", 2, 0)]
        best = matches("A & B & C", "PREF MAX (A.w + (B.v + C.v) + A.w)", 1, rows, {"v": TINY, "w": WHOLE}, settings=Settings(ansi=False))
        assert best == ([[0, 1, 3]] if size == 50 else [[0, b, c] for b in (1, 2) for c in (3, 4)])


def test_a_sum_of_many_rows_that_leaves_its_type():
    """Without ANSI 2**62 + 2**62 is -2**63."""
    rows = [("A", 1 << 62), ("A", 1 << 62)]
    assert matches("A+", "PREF MAX (SUM(A.v))", 1, rows, {"v": WHOLE}, settings=Settings(ansi=False)) == [[0]]
    with pytest.raises(MatchRuntimeError, match="ARITHMETIC_OVERFLOW"):
        matches("A+", "PREF MAX (SUM(A.v))", 1, rows, {"v": WHOLE})


def test_integers_whose_differences_keep_their_type():
    """The least INT with its sign changed is not an INT, but differences from it may be."""
    rows = [("A", -1), ("A", -3), ("B", -(2**31)), ("B", 7)]
    assert matches("A B", "PREF MIN (B.v - A.v)", 1, rows, {"v": INT}) == [[0, 2]]
    assert matches("A B", "PREF MIN (B.v - A.v) AND MAX (count(*))", 2, rows, {"v": INT}) == [[0, 2], [1, 2]]


def test_large_integers_whose_differences_are_small():
    seconds = [("A", 1_700_000_000), ("A", 1_700_000_005), ("B", 1_700_000_007), ("B", 1_700_000_009)]
    for pattern in ("A B", "A & B"):
        assert matches(pattern, "PREF MIN (B.v - A.v)", 1, seconds, {"v": INT}) == [[1, 2]]
    assert matches("A B", "PREF MAX (least(B.v - A.v, 100))", 1, seconds, {"v": INT}) == [[0, 3]]


@pytest.mark.parametrize("kind", [WHOLE, pa.decimal128(20, 0)])
@pytest.mark.parametrize("size", [2**53, further(2**60), further(2**62)])
def test_whole_numbers_beyond_those_of_floats(kind, size):
    rows = [("A", 100), ("B", size), ("B", size + 1)]
    rows = rows if kind == WHOLE else [(letter, Decimal(v)) for letter, v in rows]
    assert matches("A B", "PREF MAX (B.v)", 1, rows, {"v": kind}) == [[0, 2]]
    assert matches("A B", "PREF MIN (B.v)", 1, rows, {"v": kind}) == [[0, 1]]
    assert all_come("A & B", "PREF MAX (B.v)", rows, {"v": kind})
    assert all_come("A & B", "PREF MAX (least(A.v, B.v))", rows, {"v": kind})


def test_averages_of_whole_numbers_are_doubles():
    rows = [("A", 0), ("B", 2**53), ("B", 2**53 + 1)]
    assert matches("A B", "PREF MAX (A.v) AND MAX (B.v) COMBINE BY AVG", 1, rows, {"v": WHOLE}) == [[0, 1]]


def test_decimals_of_different_scales():
    kinds = {"v": pa.decimal128(18, 6), "w": WHOLE}
    rows = [("A", Decimal("0.000001"), 1), ("B", Decimal(1), 10**13), ("B", Decimal(1), 5)]
    assert all_come("A & B", "PREF MAX (A.v + B.w)", rows, kinds)
    # of 39 digits Spark keeps 38
    rows = [("A", Decimal("0.000000000000000001"), 1), ("B", Decimal(0), 0)]
    assert all_come("A & B", "PREF MAX (A.v + B.w)", rows, {"v": pa.decimal128(18, 18), "w": WHOLE})
    assert all_come("A B", "PREF MAX (least(A.v, B.w))", rows, {"v": pa.decimal128(18, 18), "w": WHOLE})


def test_sums_of_decimals_that_spark_rounds(monkeypatch):
    """A sum of two DECIMAL(38, 18) has 17 places. So 1E-18 and 4E-18 become 0E-17, and the earlier match is the best."""
    kind, zero = {"v": pa.decimal128(38, 18)}, ("B", Decimal(0))
    small = [("A", Decimal(f"{n}E-18")) for n in (1, 4, 5, 7)]
    assert matches("A B", "PREF MAX (A.v + B.v)", 1, [*small[:2], zero], kind) == [[0, 2]]
    assert matches("A B", "PREF MAX (A.v + B.v)", 3, [*small, zero], kind) == [[2, 4], [3, 4], [0, 4]]  # 5E-18 becomes 1E-17
    assert matches("A B", "PREF MIN (A.v + B.v)", 3, [*small, zero], kind) == [[0, 4], [1, 4], [2, 4]]
    assert matches("A B", "PREF MAX (A.v)", 1, [*small, zero], kind) == [[3, 4]]
    assert all_come("A B", "PREF MAX (A.v + B.v)", [*small, zero], kind, link={"B": "B.v < A.v"})
    assert all_come("A & B", "PREF MAX (A.v + B.v)", [*small, zero], kind)
    # so has coalesce of such a sum and another column, but coalesce of two columns has 18 places
    for last, best in ((4, [[0, 2], [1, 2], [3]]), (5, [[3], [0, 2], [1, 2]])):
        rows = [*small[:2], zero, ("C", Decimal(f"{last}E-18"))]
        assert matches("A B | C", "PREF MAX (coalesce(A.v + B.v, C.v))", 4, rows, kind) == best
    assert matches("A (B | C)", "PREF MAX (A.w) AND MAX (coalesce(B.v, C.v))", 2, [("A", Decimal(0), 0), ("B", Decimal("1E-18"), 0), ("C", Decimal("4E-18"), 0)], kind | {"w": TINY}) == [[0, 1], [0, 2]]
    # where no place is lost, matches are not listed
    monkeypatch.setattr(TopkPaths, "_listed_best", None)
    assert matches("A B", "PREF MAX (A.v + B.v)", 1, [("A", Decimal("1E-17")), ("A", Decimal("4E-17")), zero], kind) == [[1, 2]]
    assert matches("A B", "PREF MAX (A.v + B.v)", 1, [("A", Decimal("0.01")), ("A", Decimal("0.02")), zero], {"v": pa.decimal128(38, 2)}) == [[1, 2]]
    assert matches("A B", "PREF MAX (A.v + B.w)", 1, [("A", Decimal(0), 0), ("B", Decimal(0), 0)], {"v": pa.decimal128(38, 20), "w": WHOLE}) == [[0, 1]]
    assert matches("B | C", "PREF MAX (coalesce(B.v, C.v))", 1, [("B", Decimal("1E-18")), ("C", Decimal("4E-18"))], kind) == [[1]]
    # values of rows that no variable takes do not count
    assert matches("A B", "PREF MAX (A.v + B.v)", 1, [("", small[0][1]), ("A", Decimal("1E-17")), zero], kind) == [[1, 2]]
    assert matches("A B", "PREF MAX (A.v + B.v)", 1, [("", 1 << 62), ("A", 1), ("B", 1)], {"v": WHOLE}) == [[1, 2]]


def test_sums_of_decimals_keep_their_places_without_precision_loss(monkeypatch):
    """spark.sql.decimalOperations.allowPrecisionLoss = false."""
    exact, kind, rows = Settings(precision_loss=False), {"v": pa.decimal128(38, 18)}, [("A", Decimal("1E-18")), ("A", Decimal("4E-18")), ("B", Decimal(0))]
    assert matches("A B", "PREF MAX (A.v + B.v)", 2, [*rows, ("A", None), ("B", None)], kind, settings=exact) == [[1, 2], [0, 2]]
    monkeypatch.setattr(TopkPaths, "_listed_best", None)
    assert matches("A B", "PREF MAX (A.v + B.v)", 2, rows, kind, settings=exact) == [[1, 2], [0, 2]]


def test_sums_of_decimals_of_sides_that_spark_rounds():
    """SUM has ten digits more than its column, and COUNT has 20. So Spark's sums have 9 or 17 places, and equal scores."""
    kinds = {"v": pa.decimal128(18, 0), "w": pa.decimal128(18, 10), "x": pa.decimal128(18, 18)}
    rows = [("A", Decimal(1), Decimal(0), Decimal(0)), ("B", Decimal(0), Decimal("1E-10"), Decimal("1E-18")), ("B", Decimal(0), Decimal("4E-10"), Decimal("4E-18"))]
    both = [[0, 1], [0, 2]]  # Spark ranks them
    assert matches("A+ & B", "PREF MAX (SUM(A.v) + B.w)", 1, rows, kinds) == both
    assert matches("A+ & B", "PREF MAX (COUNT(A.*) + B.x)", 1, rows, kinds) == both
    assert matches("A+ B", "PREF MAX (greatest(SUM(A.v) + B.w, -B.w))", 1, rows, kinds, link={"B": "B.v <= A.v"}) == both
    assert matches("A+ & B", "PREF MAX (SUM(A.w) + B.w)", 1, rows, kinds) == [[0, 2]]


def test_decimals_beyond_64_bits(monkeypatch):
    """A DECIMAL(38, 18) of 10 is 10**19 units of its last place."""
    kind = {"v": pa.decimal128(38, 18), "w": REAL}
    long = [("A", Decimal("10.000000000000000001"), 0.0), ("A", Decimal(10), 0.0), ("B", Decimal("12.5"), 1.0), ("B", Decimal("-1E19"), 3.0)]
    assert matches("A B", "PREF MIN (B.v - A.v)", 4, long, kind) == [[0, 3], [1, 3], [0, 2], [1, 2]]  # 17 places are left
    assert matches("A B", "PREF MAX (SUM(A.v)) AND MAX (B.w)", 1, long, kind) == [[0, 3]]
    assert matches("A B", "PREF MAX (A.v + B.w)", 2, [*long, ("", Decimal("9E19"), 0.0)], kind) == [[0, 3], [1, 3]]
    assert matches("A B", "PREF MAX (A.v + B.w)", 1, [("A", Decimal("0.5"), 0.0), ("B", Decimal(0), 1.0)], {"v": pa.decimal128(38, 20), "w": REAL}) == [[0, 1]]
    assert all_come("A & B", "PREF MIN (B.v - A.v)", long, kind)
    assert all_come("A B", "PREF MIN (B.v - A.v)", long, kind, link={"B": "B.v < A.w"})
    # digits that all values lack are left out, so that matches are not listed
    monkeypatch.setattr(TopkPaths, "_listed_best", None)
    prices = [("A", Decimal("10.25")), ("A", Decimal(10)), ("B", Decimal("12.5")), ("", Decimal("1E-18"))]
    assert matches("A B", "PREF MAX (B.v - A.v)", 2, prices, {"v": pa.decimal128(38, 18)}) == [[1, 2], [0, 2]]


def test_decimal_places_that_no_value_has(monkeypatch):
    monkeypatch.setattr(TopkPaths, "_listed_best", None)
    kind = {"v": pa.decimal128(38, 18)}
    for last in (Decimal("7.5"), Decimal("12.5")):  # the units of 12.5 need more than 64 bits
        rows = [("A", Decimal("1.25")), ("A", Decimal("2.5")), ("C", Decimal(1)), ("B", last)]
        assert matches("A C* B", "PREF MIN (B.v - A.v)", 2, rows, kind) == [[1, 2, 3], [1, 3]]
        rows = [("A", Decimal(0)), ("A", Decimal(0)), ("B", Decimal(10)), ("B", last)]
        assert matches("A B", "PREF MAX (B.v - A.v)", 1, rows, kind) == [[0, 2] if last < 10 else [0, 3]]


@pytest.mark.parametrize("far", [[], [("", Decimal("1E18"), None)]])
def test_a_decimal_is_one_double_beside_any_rows(far):
    rows = [("A", Decimal("900719925474099.5"), None), ("A", Decimal("900719925474099.6"), None), ("B", None, 0.0)]
    assert matches("A B", "PREF MAX (A.v + B.w)", 1, [*rows, *far], {"v": pa.decimal128(38, 1), "w": REAL}) == [[1, 2]]


@pytest.mark.parametrize("scale, values", [(18, ("6E19", "7E19")), (37, ("5", "6"))])
def test_a_sum_of_decimals_beyond_its_type_ranks_last(scale, values):
    """It is NULL without ANSI."""
    rows = [("A", Decimal(value)) for value in values]
    assert matches("A+", "PREF MAX (SUM(A.v))", 1, rows, {"v": pa.decimal128(38, scale)}, settings=Settings(ansi=False)) == [[1]]


@pytest.mark.parametrize("unit", [10**6, 10**9])
def test_differences_of_times_are_not_listed(unit, monkeypatch):
    """Of 1,500 times as microseconds, the sum of all would leave 64 bits. Two times as nanoseconds do."""
    monkeypatch.setattr(TopkPaths, "_listed_best", None)
    rows = [("ACB"[i % 3], (1_700_000_000 + i * i) * unit) for i in range(1500)]
    assert matches("A C* B", "PREF MIN (B.v - A.v)", 2, rows, {"v": WHOLE}) == [[0, 1, 2], [0, 2]]
    assert matches("A B", "PREF MAX (B.v - A.v) AND MIN (COUNT(*))", 1, rows, {"v": WHOLE}) == [[0, 1499]]


def test_averages_of_times_are_not_listed(monkeypatch):
    """The sum of a match is exact as a DOUBLE, that of all rows is not."""
    monkeypatch.setattr(TopkPaths, "_listed_best", None)
    rows = [("AB"[i % 2], (1_700_000_000 + i * i) * 10**6) for i in range(300)]
    assert matches("A B", "PREF MAX (B.v) AND MIN (A.v) COMBINE BY AVG", 1, rows, {"v": WHOLE}) == [[0, 299]]


def test_averages_of_a_sum_with_an_outlier_are_not_listed(monkeypatch):
    """One large value does not count once for each row."""
    monkeypatch.setattr(TopkPaths, "_listed_best", None)
    rows = [("A", 1 << 49), *[("A", 1)] * 20, ("B", 1)]
    assert matches("A+ B", "PREF MAX (SUM(A.v)) AND MIN (COUNT(*)) COMBINE BY AVG", 1, rows, {"v": WHOLE}) == [[*range(22)]]


def test_sides_with_large_values():
    """Such a value is not the weight of each row of a match."""
    rows = [("ACB"[i % 3], 1_700_000_000_000_000 + 1000 * i * i) for i in range(1500)]
    assert matches("(A C*) & B", "PREF MIN (B.v - A.v)", 2, rows, {"v": WHOLE}) == [[2, 1497], [2, 1497, 1498]]
    rows = [("A", 1 << 52), *[("A", -i) for i in range(1, 2000)], ("B", 0)]
    assert matches("A+ & B", "PREF MAX (SUM(A.v)) AND MAX (B.v)", 1, rows, {"v": WHOLE}) == [[0, 2000]]


@pytest.mark.parametrize("pattern", ["A B C", "A & B & C"])
def test_products_that_are_infinite(pattern):
    rows = [("A", 1e200), ("A", 1.0), ("B", 1e200), ("B", 1.0), ("C", 0.0), ("C", 2.0)]
    assert all_come(pattern, "PREF MAX (A.v * B.v * C.v)", rows, {"v": REAL})
    assert all_come(pattern, "PREF MAX (A.v * B.v - C.v)", rows, {"v": REAL})
    assert matches(pattern, "PREF MAX (A.v * B.v * C.v)", 1, [(x, min(v, 9.0)) for x, v in rows], {"v": REAL}) == [[0, 2, 5]]


def test_a_root_beside_a_number_below_zero():
    rows = [("A", 1.0), ("A", 4.0), ("B", -1.0), ("B", -3.0), ("C", -2.0)]
    assert matches("A & B", "PREF MAX (sqrt(SUM(A.v)) + SUM(B.v))", 1, rows, {"v": REAL}) == [[1, 2]]
    assert matches("A & B", "PREF MAX (sqrt(SUM(A.v)) - SUM(B.v))", 1, rows, {"v": REAL}) == [[1, 3]]
    assert matches("A & B & C", "PREF MAX (least(sqrt(SUM(A.v)), 9) + SUM(B.v) - SUM(C.v))", 1, rows, {"v": REAL}) == [[1, 2, 4]]


@pytest.mark.parametrize("pattern, number", [("A B", "A.v + B.v"), ("A & B", "SUM(A.v) + SUM(B.v)")])
@pytest.mark.parametrize("goal", ["MIN (sqrt({}))", "MAX (-sqrt({}))", "MAX (3 - sqrt({}))", "MAX (-1 * sqrt({}))", "MAX (9 / (1 + sqrt({})))"])
def test_a_falling_root_of_a_number_below_zero(pattern, number, goal):
    """Such a root is NaN and ranks last, although smaller numbers are better. So the best rows of each variable are not enough."""
    below, above = ([("A", v - 4), ("A", v), ("B", 1)] for v in (3.0, 5.0))
    assert all_come(pattern, f"PREF {goal.format(number)}", below, {"v": REAL}) and all_come(pattern, f"PREF {goal.format(number)}", [("A", -4.0), *below], {"v": REAL})
    if goal[:3] == "MIN":
        assert matches(pattern, f"PREF {goal.format(number)}", 1, above, {"v": REAL}) == [[0, 2]]


@pytest.mark.parametrize("pref", ["MAX (least(sqrt(A.v - B.v), 5))", "MAX (greatest(sqrt(A.v - B.v), 1))", "MAX (sqrt(A.v - B.v)) AND MAX (A.v) COMBINE BY MIN", "MIN (least(1 - sqrt(A.v - B.v), 5))"])
def test_least_and_greatest_take_nan_for_the_greatest_number(pref):
    """So a match whose root is NaN may be the best: least(NaN, 5) is 5."""
    rows, every = [("AB", 0.0), ("AB", 1.0), ("AB", 0.0)], [[0, 1], [0, 2], [1, 2]]
    assert matches("A B", f"PREF {pref}", 1, rows, {"v": REAL}) == every
    # a difference of infinities is NaN
    assert matches("A B", f"PREF {pref.replace('sqrt', '')}", 1, [("AB", np.inf), ("AB", np.inf), ("AB", 0.0)], {"v": REAL}) == every
    assert len(matches("A B", f"PREF {pref.replace('sqrt', '')}", 1, rows, {"v": REAL})) == 1


def test_equal_matches_of_sides_of_different_lengths():
    """A match of one side that begins another is before it; together with rows between it is behind it."""
    assert matches("A+ & B", "PREF MAX (SUM(A.v)) AND MAX (SUM(B.v))", 1, [("A", 3), ("A", 0), ("B", 1)], {"v": WHOLE}) == [[0, 1, 2]]


def test_how_many_rows_a_side_has():
    def of(pattern):
        plan = make_plan(parse_clause(f"ORDER BY id MEASURES count(*) AS c EVENT SELECTION SKIP TILL ANY MATCH PATTERN ({pattern})"))
        return rows_of_match(prepare(plan, pa.schema([])).strategy.automaton)

    assert [of(p) for p in ("A", "A B", "A (B | C) A", "A (B | C A)", "A B?", "A+", "A{2}")] == [1, 2, 3, None, None, None, 2]


@pytest.mark.parametrize(("left", "right", "found"), [
    ({"x": 1}, {"x": 1}, True), ({"x": 1}, {"x": 2}, False), ([1, 2], [1, 2], True), ([1], [2], False), (NAN, OTHER_NAN, True), (-0.0, 0.0, True), (None, None, False),
])  # fmt: skip
def test_equal_keys_of_all_types(left, right, found):
    kind = pa.array([left, right]).type
    rows = [("A", left, 1), ("B", right, 1)]
    assert matches("A B", "PREF MAX (A.v)", 1, rows, {"key": kind, "v": WHOLE}, link={"B": "B.key = A.key"}) == ([[0, 1]] if found else [])


def test_a_band_whose_upper_end_is_null():
    """Such a condition is NULL, so it does not hold."""
    rows, types = [("A", 1, 0, 2, None), ("A", 9, 1, None, 3), ("B", 1, None, None, None)], {"v": WHOLE, "low": WHOLE, "high": WHOLE, "top": WHOLE}
    inside = {"B": "id BETWEEN A.low AND A.high", "C": "id BETWEEN A.low AND A.top"}
    assert matches("A B", "PREF MAX (A.v + B.v)", 2, rows, types, link={"B": inside["B"]}) == [[0, 2]]
    for last, found in (("B", [[0, 2]]), ("C", [[1, 2]]), ("BC", [[1, 2], [0, 2]])):
        assert matches("A (B | C)", "PREF MAX (A.v)", 2, [*rows[:2], (last, *rows[2][1:])], types, link=inside) == found


def test_few_of_many_listed_matches_are_kept():
    """With a NULL all matches are gone through; the best of them stay."""
    rows = [("A", None), *[("A", i % 37) for i in range(60)], *[("B", i % 41) for i in range(60)]]
    best = matches("A B", "PREF MAX (SUM(A.v)) AND MAX (SUM(B.v))", 3, rows, {"v": WHOLE})
    assert best == [[37, 101], [36, 101], [37, 100]]
    assert best == matches("A B", "PREF MAX (SUM(A.v)) AND MAX (SUM(B.v))", 3, [("", None), *rows[1:]], {"v": WHOLE})


def test_strings_are_no_scores():
    with pytest.raises(ClauseError, match="PREF needs a number, not string"):
        matches("A B", "PREF MAX (A.v + B.v)", 1, [("A", "5"), ("B", "7")], {"v": pa.string()})


def test_the_bound_on_steps_says_what_to_do():
    rows = [(letter, i) for i in range(20) for letter in "AB"]
    with pytest.raises(MatchRuntimeError, match="ranking one window took more than sparkcep.maxSteps = 3 steps; use a smaller WINDOW"):
        matches("A B", "PREF MAX (A.v * B.v)", 1, rows, {"v": WHOLE}, limits=Limits(max_steps=3))


@pytest.mark.parametrize("seed", range(4))
def test_partitions_in_one_call_are_those_of_calls_by_themselves(seed, monkeypatch):
    """Weights that are no finite numbers are looked at by partition; so are calls whose best are more than one call may have."""
    rng = random.Random(seed)
    compared, calls = 0, []
    found_together = TopkPaths._of_partitions

    def watched(self, spans, *rest):
        calls.append(len(spans))
        return found_together(self, spans, *rest)

    monkeypatch.setattr(TopkPaths, "_of_partitions", watched)
    for pref, kind in (("A.v + B.v", REAL), ("A.v - B.v", INT), ("A.v + B.v", pa.decimal128(9, 2))):
        window = rng.choice(["", "WINDOW 6 SLIDE 2", "WINDOW 5 SLIDE 5"])
        text = f"PARTITION BY p ORDER BY id MEASURES A.id AS a, B.id AS b, MATCH_RANK() AS r EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) {window} PREF MAX ({pref}) TOP 3 DEFINE A AS w > 0, B AS w < 2"
        plan = without_catching(make_plan(parse_clause(text)))
        odd = [NAN, np.inf, -np.inf, None]
        rows = []
        for p in range(24):
            strange = kind == REAL and rng.random() < 0.2
            rows += [(p, i, rng.choice(odd) if strange and rng.random() < 0.4 else rng.randint(0, 9), rng.randint(0, 2)) for i in range(rng.randint(1, 12))]
        whole = pa.table({"p": pa.array([r[0] for r in rows], pa.int64()), "id": pa.array([r[1] for r in rows], pa.int64()), "w": pa.array([r[3] for r in rows], pa.int64())})
        whole = whole.append_column("v", pa.array([r[2] if r[2] is None or kind == REAL else Decimal(r[2]) if pa.types.is_decimal(kind) else r[2] for r in rows], kind))
        letters = [sum(1 << bit for v, bit, _ in plan.letters if (r[3] > 0 if plan.variables[v] == "A" else r[3] < 2)) for r in rows]
        table = pa.table({name: whole[sql.rpartition(".")[2]] for name, sql in plan.inputs} | {"__letters": pa.array(letters, pa.int32())})

        def told(part, plan=plan):
            engine = engine_for(prepare(plan, part.schema))
            number = next(leaf.name for leaf in plan.leaves if leaf.spec.kind == "mno")  # tells the order of matches of the same rows alone
            return [str(row) for piece in match_batches(engine, part.to_batches()) for row in piece.drop_columns([number]).to_pylist()]

        key = np.asarray(whole["p"])
        alone = [row for p in range(24) for row in told(table.filter(pa.array(key == p)))]
        assert told(table) == alone
        with monkeypatch.context() as patched:
            patched.setattr("sparkcep.engine.topk.topk_paths.MOST_TOGETHER", 8)
            assert told(table) == alone
        compared += len(alone)
    assert compared > 100 and max(calls) > 3 and len(calls) > 4


def test_partitions_in_one_call_take_a_share_of_the_state(monkeypatch):
    """A call whose best take all of it ends in vain, and all of its partitions are searched again."""
    calls, searched = [], TopkPaths._of_partition
    monkeypatch.setattr(TopkPaths, "_of_partition", lambda self, span, *rest: calls.append(span.part) or searched(self, span, *rest))
    plan = without_catching(make_plan(parse_clause("PARTITION BY p ORDER BY id MEASURES count(*) AS c EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) PREF MAX (A.v + B.v) TOP 50")))
    whole = {"p": [p for p in range(300) for _ in range(20)], "id": list(range(6000)), "v": [i * 7 % 100 for i in range(6000)]}
    table = pa.table({name: pa.array(whole[sql.rpartition(".")[2]], pa.int64()) for name, sql in plan.inputs if sql.rpartition(".")[2] in whole})
    engine = engine_for(prepare(plan, table.schema), None, Limits(max_state_bytes=1_000_000))
    assert sum(piece.num_rows for piece in match_batches(engine, table.to_batches())) == 300 * 50
    assert not calls
