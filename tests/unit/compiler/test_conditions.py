"""Conditions that the engine computes over values of two rows, without Spark: their values, and how many instructions they take."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.engine.factory import match_table, prepare
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import Plan
from sparkcep.settings import Settings


def planned(condition: str, columns: dict[str, pa.Array], **settings: bool):
    """The plan of B's condition, and its input for these columns. The first row is A's, and the others are of B.

    ``columns``: values by the SQL that Spark would compute, or by a column's name.
    """
    plan = make_plan(parse_clause(f"MEASURES count(*) AS n PATTERN (A B+) DEFINE B AS {condition}"), settings=Settings(**settings))
    inputs = {name: columns[sql if sql in columns else sql.rpartition(".")[2]] for name, sql in plan.inputs}
    return plan, pa.table({"row": pa.array([1, 2])} | inputs)


def holds(condition: str, columns: dict[str, pa.Array], **settings: bool) -> bool:
    """Whether the condition is true at the second row."""
    return match_table(*planned(condition, columns, **settings)).num_rows == 1


def instructions(condition: str, columns: dict[str, pa.Array]) -> int:
    plan, table = planned(condition, columns)
    return prepare(plan, table.schema).conditions.instructions


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.decimal128(10, 2), pa.decimal128(38, 2), pa.float64()], ids=str)
@pytest.mark.parametrize("join", [" + ", " - ", " / ", " % "])
@pytest.mark.parametrize("operand", ["A.c{0} * c{0}", "(A.c{0} / c{0})"])
def test_operands_are_computed_once(kind, join, operand):
    columns = {f"c{i}": pa.array([None, None], kind) for i in range(14)}
    few, many = (instructions(join.join(operand.format(i) for i in range(count)) + " > 0", columns) for count in (7, 14))
    assert few < 80 and many < 2.2 * few


def test_operands_after_null_are_not_computed():
    columns = {"x": pa.array([None, 1], pa.int32()), "y": pa.array([1, 0], pa.int32()), "d": pa.array([Decimal(1)] * 2, pa.decimal128(30, 2))}
    for divided, operators in (("(A.y DIV y)", "+*"), ("(A.y / y)", "-="), ("(A.d / y)", "*<"), ("(A.d % y)", "+=")):
        for operator in operators:
            assert holds(f"(A.x {operator} {divided}) IS NULL", columns)
            with pytest.raises(MatchRuntimeError, match="(?i)zero"):
                holds(f"({divided} {operator} A.x) IS NULL", columns)
        for function in ("pow", "atan2", "hypot"):
            assert holds(f"{function}(A.x, {divided}) IS NULL", columns)
            with pytest.raises(MatchRuntimeError, match="(?i)zero"):
                holds(f"{function}({divided}, A.x) IS NULL", columns)
        # the divisor comes first
        assert holds(f"({divided} / A.x) IS NULL AND (pmod({divided}, A.x)) IS NULL", columns)
        for operator in ("/", "%", "<=>"):
            with pytest.raises(MatchRuntimeError, match="(?i)zero"):
                holds(f"(A.x {operator} {divided}) IS NULL", columns)


def test_divisions_keep_the_sides_of_their_operands():
    columns = {"x": pa.array([7, 2], pa.int32()), "y": pa.array([3, 5], pa.int32()), "f": pa.array([1.0, 4.0])}
    columns["d"] = pa.array([Decimal("20.5"), Decimal(3)], pa.decimal128(30, 2))
    for text, value in (
        ("(A.x * y) DIV x", 17), ("(A.x * y) % x", 1), ("(A.x + y) / f", 3), ("pmod(-(A.x * y), x)", 1), ("(A.d + y) / x", "12.75"),
        ("(A.d + y) % d", "1.5"), ("(A.d * y) DIV d", 34),
    ):  # fmt: skip
        assert holds(f"{text} = {value}", columns), text


def test_remainders_of_decimals():
    columns = {"d": pa.array([Decimal("-7.25"), Decimal("5.00")], pa.decimal128(10, 2)), "n": pa.array([None, 3], pa.int32())}
    columns["w"] = pa.array([Decimal(-(10**29) - 1), Decimal(7)], pa.decimal128(30, 0))
    columns["e"] = pa.array([Decimal("7.25"), Decimal("-5.00")], pa.decimal128(10, 2))
    for text in (
        "pmod(A.d, d) = 2.75", "pmod(A.d, e) = -2.25", "pmod(A.e, d) = 2.25", "pmod(A.d + d, 2.25) = 0", "pmod(A.w, w) = 1", "pmod(A.w, d) = 4", "pmod(A.d, n) = 1.75",
        "pmod(d, A.n) IS NULL AND pmod(A.n, d) IS NULL", "pmod(pmod(A.d, d), n) = 2.75", "pmod(A.d + d, NULL) IS NULL",
    ):  # fmt: skip
        assert holds(text, columns), text
    few, many = (instructions(f"{'pmod(' * depth}A.d + d{', d)' * depth} > 0", columns) for depth in (6, 12))
    assert many <= 2 * few


def test_casts_round_once_as_java_does():
    columns = {"d": pa.array([Decimal("16777217.0000000001")] * 2, pa.decimal128(30, 10)), "f": pa.array([-2147483647.0] * 2)}
    columns["g"] = pa.array(np.array([16777218, 16777218], dtype=np.float32))
    assert holds("CAST(least(A.d, d) AS FLOAT) = g", columns)
    assert holds("CAST(least(A.f, f) AS TINYINT) = 1 AND CAST(least(A.f, f) AS SMALLINT) = 1", columns, ansi=False)


def test_in_converts_all_operands_to_one_type():
    columns = {"id": pa.array([2**53, 2**53 + 1]), "d": pa.array([Decimal("0.5"), None], pa.decimal128(38, 38)), "n": pa.array([None, 0], pa.int32())}
    columns["0.5D"] = pa.array([0.5, 0.5])
    assert holds("id IN (A.id, 0.5D)", columns)
    assert not holds("id IN (A.id, 0)", columns)
    assert holds("id NOT IN (A.id, 0) AND id IN (A.id, 0, id)", columns)
    assert holds("(id IN (A.id, A.n)) IS NULL AND (A.n IN (id, A.id DIV n)) IS NULL", columns)
    assert holds("A.d IN (0.5, 100.25) AND A.d NOT IN (0, 1)", columns)
    with pytest.raises(MatchRuntimeError, match="(?i)zero"):
        holds("(id IN (A.n, A.id DIV n)) IS NULL", columns)


def test_sums_with_match_number_are_exact_or_refused():
    tiny = Decimal("0.00000003")
    columns = {"d": pa.array([tiny, tiny], pa.decimal128(18, 8)), "e": pa.array([Decimal("1e-20")] * 2, pa.decimal128(30, 20)), "n": pa.array([3, 4])}
    columns |= {"i": pa.array([3, 4]).cast(pa.duration("us")), "f": pa.array([0.5, 0.5]), "w": pa.array([Decimal("1e-18")] * 2, pa.decimal128(38, 18))}
    for text in (
        "sum(MATCH_NUMBER() * 0.0000000001) = 0.0000000002", "avg(MATCH_NUMBER() * 0.0000000001) = 0.0000000001", "sum(MATCH_NUMBER()) = 2",
        "sum(d * CAST(MATCH_NUMBER() AS INT)) = 0.00000006", "sum(d + MATCH_NUMBER()) = 2.00000006", "sum(MATCH_NUMBER() - d) = 1.99999994",
        "sum(CAST(MATCH_NUMBER() AS INT) - e) < 2", "sum(e + CAST(MATCH_NUMBER() AS INT)) > 2", "sum(n * (MATCH_NUMBER() * 0.5)) = 3.5",
        "sum(n * MATCH_NUMBER()) = 7", "sum(n - MATCH_NUMBER()) = 5", "sum(i * MATCH_NUMBER()) = sum(i)",
    ):  # fmt: skip
        assert holds(text, columns), text
    for text in (
        "sum(MATCH_NUMBER() / 10)", "avg(MATCH_NUMBER() / 10)", "sum(n * (MATCH_NUMBER() / 10))", "sum(f + MATCH_NUMBER())", "sum(d * MATCH_NUMBER())",
        "sum(w + MATCH_NUMBER())",
    ):  # fmt: skip
        with pytest.raises(ClauseError, match="rounded differently"):
            holds(f"{text} > 0", columns)


@pytest.mark.parametrize(("count", "found"), [(4, True), (9, True), (40, False)])
def test_texts_of_labels_are_split_into_few_lists(count, found):
    clause = f"MEASURES count(*) AS n PATTERN ((A | AA)+ X) DEFINE X AS array_join(array_agg(CLASSIFIER()), '') = '{'A' * count}X'"
    if not found:
        with pytest.raises(ClauseError, match="(?i)array_join"):
            make_plan(parse_clause(clause))
        return
    plan = Plan.from_json(make_plan(parse_clause(clause)).to_json())
    assert match_table(plan, pa.table({"i": range(count)}))["__l0"].to_pylist() == [count]  # one row is of AA


def test_long_lists_of_labels():
    clause = "MEASURES count(*) AS n PATTERN (A+ B) DEFINE B AS array_agg(CLASSIFIER()) = array({}'B')"
    plan = Plan.from_json(make_plan(parse_clause(clause.format("'A', " * 300))).to_json())
    assert match_table(plan, pa.table({"i": range(400)}))["__l0"].to_pylist() == [301]
    with pytest.raises(ClauseError, match="(?i)array_agg"):
        make_plan(parse_clause(clause.format("'A', " * 501)))


def test_decimals_keep_their_scale_without_precision_loss():
    columns = {"d": pa.array([Decimal("1e-18"), Decimal(0)], pa.decimal128(38, 18)), "e": pa.array([Decimal(1), Decimal(3)], pa.decimal128(38, 18))}
    for text in ("A.d + d > 0", "A.d * e > 0", "A.d - d > 0", "A.e / e > 0.3333333333333"):
        assert holds(text, columns, precision_loss=False), text
        assert not holds(text, columns), text
    plan, _ = planned("A.d + d > 0", columns, precision_loss=False)
    assert Plan.from_json(plan.to_json()) == plan
    assert "precision_loss" not in replace(plan, precision_loss=True).to_json()


def test_spark_compares_one_row_with_strings():
    columns = dict.fromkeys(("(d) BETWEEN '2024-03-01' AND '2024-03-31'", "s IN ('a', 'b')", "d NOT IN ('2024-01-01')"), pa.array([True, False]))
    assert holds("(PREV(d) BETWEEN '2024-03-01' AND '2024-03-31') AND A.s IN ('a', 'b') AND A.d NOT IN ('2024-01-01')", columns)
    assert holds("A.n IN (1, 2) AND A.n BETWEEN 0 AND 1", {"n": pa.array([1, 3])})  # numbers need no further column
