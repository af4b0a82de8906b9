"""Expressions that fail on some rows: a query fails only where the statement asks for the value at such a row.

Each statement runs over many small partitions. A twin in plain Python knows the matches of each partition, or its error. One query
runs over all partitions without an error. Then partitions that must fail run, one by one.
"""

from __future__ import annotations

import datetime
import itertools
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from pyspark.errors import PySparkException

from tests.selection import one_in

PARTITIONS, FAILING = 120, 1
INT_MAX = 2**31 - 1


class Failed(Exception):
    """Spark ends the query here."""


def _divided(x, y):
    if x is None or y is None:
        return None
    if y == 0:
        raise Failed
    return x / y


def _remainder(x, y):
    if x is None or y is None:
        return None
    if y == 0:
        raise Failed
    return abs(x) % abs(y) * (1 if x >= 0 else -1)


def _whole(text):
    if text is None:
        return None
    if not re.fullmatch(r"-?\d+", text):
        raise Failed
    return int(text)


def _year(text):
    if text is None:
        return None
    try:
        return datetime.date.fromisoformat(text).year
    except ValueError:
        raise Failed from None


def _item(items, place):
    if items is None:
        return None
    if not 0 <= place < len(items):
        raise Failed
    return items[place]


def _int(value):
    if value is not None and not -INT_MAX - 1 <= value <= INT_MAX:
        raise Failed
    return value


def _month(number):
    if number is None:
        return None
    if not 1 <= number <= 12:
        raise Failed
    return number


@dataclass(frozen=True)
class Function:
    """An expression of the columns of one row, named by ``{}`` before each; its twin; and a test under which it does not fail."""

    sql: str
    twin: Callable[[dict], object]
    guard: str
    guarded: Callable[[dict], bool | None]


def _not(value, test):
    return None if value is None else test(value)


FUNCTIONS = {
    "division": Function("12 / {}n", lambda r: _divided(12, r["n"]), "{}n <> 0", lambda r: _not(r["n"], lambda n: n != 0)),
    "remainder": Function("12 % {}n", lambda r: _remainder(12, r["n"]), "{}n > 0", lambda r: _not(r["n"], lambda n: n > 0)),
    "cast": Function("CAST({}s AS INT)", lambda r: _whole(r["s"]), "{}s RLIKE '^[0-9]+$'", lambda r: _not(r["s"], lambda s: bool(re.search("^[0-9]+$", s)))),
    "subscript": Function("{}a[0]", lambda r: _item(r["a"], 0), "size({}a) > 0", lambda r: _not(r["a"], lambda a: len(a) > 0)),
    "element": Function("element_at({}a, 2)", lambda r: _item(r["a"], 1), "size({}a) >= 2", lambda r: _not(r["a"], lambda a: len(a) >= 2)),
    "date": Function("year(to_date({}s))", lambda r: _year(r["s"]), "{}s LIKE '2024-%'", lambda r: _not(r["s"], lambda s: s.startswith("2024-"))),
    "sum": Function("{}n + 2147483645", lambda r: _int(None if r["n"] is None else r["n"] + 2147483645), "{}n <= 2", lambda r: _not(r["n"], lambda n: n <= 2)),
    "product": Function("{}n * 700000000", lambda r: _int(None if r["n"] is None else r["n"] * 700000000), "{}n < 3", lambda r: _not(r["n"], lambda n: n < 3)),
    "made date": Function("month(make_date(2024, {}n, 1))", lambda r: _month(r["n"]), "{}n BETWEEN 1 AND 12", lambda r: _not(r["n"], lambda n: 1 <= n <= 12)),
    "root of a cast": Function("sqrt(CAST({}s AS INT))", lambda r: _not(_whole(r["s"]), lambda n: n**0.5 if n >= 0 else float("nan")), "{}s RLIKE '^[0-9]+$'", lambda r: _not(r["s"], lambda s: bool(re.search("^[0-9]+$", s)))),
    "implicit cast": Function("IF({}s > 5, 9, 1)", lambda r: 9 if (_whole(r["s"]) or 0) > 5 else 1, "{}s RLIKE '^[0-9]+$'", lambda r: _not(r["s"], lambda s: bool(re.search("^[0-9]+$", s)))),
}  # fmt: skip


def conjunction(*parts: Callable[[], bool | None]) -> bool | None:
    """AND of three values, from left to right: FALSE ends it, as in Spark."""
    found: bool | None = True
    for part in parts:
        value = part()
        if value is False:
            return False
        found = None if value is None else found
    return found


GUARDS = {
    "none": ("{value} > 3", lambda guard, value: value()),
    "and": ("{guard} AND {value} > 3", lambda guard, value: conjunction(guard, value)),
    "case": ("CASE WHEN {guard} THEN {value} > 3 ELSE false END", lambda guard, value: value() if guard() else False),
    "if": ("IF({guard}, {value}, 0) > 3", lambda guard, value: value() if guard() else False),
}


def partition(random: random.Random) -> list[dict]:
    texts = ["12", "7", "x", "", "2024-01-05", "2024-13-05", None, "3"]
    return [
        {
            "i": i, "k": random.choice("abc"), "n": random.choice([0, 0, 1, 2, 3, 4, 13, None]), "s": random.choice(texts),
            "a": random.choice([None, [], [5], [1, 9], [4, 2]]),
        }
        for i in range(random.randint(2, 5))
    ]  # fmt: skip


def matches(rows: list[dict], takes: Callable[[list[dict], int, int], bool | None]) -> Iterator[tuple[dict, list[dict]]]:
    """The matches of ``(A B+)``, an A being a row with k = 'a', as rows of A and of B; ``takes`` says whether a row is a B."""
    start = 0
    while start < len(rows):
        end = start + 1
        if rows[start]["k"] == "a":
            while end < len(rows) and takes(rows, start, end) is True:
                end += 1
        if end > start + 1:
            yield rows[start], rows[start + 1 : end]
            start = end
        else:
            start += 1


def _greater(value):
    return None if value is None else value > 3


# place -> the row that a condition of B reads, as a prefix in SQL and of the rows, the first row of the match and the row at hand
DEFINED = {
    "a neighbour": ("PREV({})", lambda rows, start, at: rows[at - 1]),
    "another variable": ("A.", lambda rows, start, at: rows[start]),
    "the first row": ("FIRST({})", lambda rows, start, at: rows[start]),
}


def _placed(sql: str, prefix: str) -> str:
    return prefix.format(sql.format("")) if "{" in prefix else sql.format(prefix)


def defined(place: str, function: Function, guard: str) -> tuple[str, Callable]:
    """A statement whose condition of B asks for the value, and what it gives for a partition."""
    prefix, row_of = DEFINED[place]
    shape, decide = GUARDS[guard]
    condition = shape.format(value=_placed(function.sql, prefix), guard=_placed(function.guard, prefix))
    statement = f"MEASURES A.i AS x, LAST(B.i) AS y PATTERN (A B+) DEFINE A AS k = 'a', B AS {condition}"

    def twin(rows: list[dict]) -> list[tuple]:
        def takes(rows: list[dict], start: int, at: int) -> bool | None:
            row = row_of(rows, start, at)
            return decide(lambda: function.guarded(row), lambda: _greater(function.twin(row)))

        return [(a["i"], b[-1]["i"]) for a, b in matches(rows, takes)]

    return statement, twin


def _total(values: list) -> float | None:
    kept = [value for value in values if value is not None]
    return sum(kept) if kept else None


MEASURED = {
    "a column": ("{value} AS x", False, lambda function, a, b: function.twin(b[-1])),
    "last": ("LAST({bare_of_b}) AS x", False, lambda function, a, b: function.twin(b[-1])),
    "first of a": ("FIRST({of_a}) AS x", False, lambda function, a, b: function.twin(a)),
    "sum": ("sum({of_b}) AS x", False, lambda function, a, b: _total([function.twin(row) for row in b])),
    "filter": ("sum({of_b}) FILTER (WHERE {guard_of_b}) AS x", True, lambda function, a, b: _total([function.twin(row) for row in b if function.guarded(row)])),
    "filter fails": ("count(*) FILTER (WHERE {bare} > 3) AS x", False, lambda function, a, b: sum(bool(_greater(function.twin(row))) for row in [a, *b])),
    "array": ("size(array_agg({of_b})) AS x", False, lambda function, a, b: sum(function.twin(row) is not None for row in b)),
    "aggregate of Spark's": ("median({of_b}) FILTER (WHERE {guard_of_b}) AS x", True, lambda function, a, b: _median([function.twin(row) for row in b if function.guarded(row)])),
    "distinct": ("count(DISTINCT {of_b}) AS x", False, lambda function, a, b: len({function.twin(row) for row in b} - {None})),
}  # fmt: skip


def _median(values: list) -> float | None:
    kept = sorted(value for value in values if value is not None)
    middle = len(kept) // 2
    return None if not kept else (kept[middle] + kept[~middle]) / 2


def measured(place: str, function: Function) -> tuple[str, Callable]:
    """A statement with a measure of the value, and what it gives for a partition."""
    shape, _, value = MEASURED[place]
    texts = {"value": function.sql.format("B."), "of_a": function.sql.format("A."), "of_b": function.sql.format("B."), "bare": function.sql.format("")}
    texts |= {"bare_of_b": function.sql.format("B."), "guard_of_b": function.guard.format("B.")}
    statement = f"MEASURES A.i AS i, {shape.format(**texts)} PATTERN (A B+) DEFINE A AS k = 'a', B AS k <> 'a'"

    def twin(rows: list[dict]) -> list[tuple]:
        return [(a["i"], value(function, a, b)) for a, b in matches(rows, lambda rows, start, at: rows[at]["k"] != "a")]

    return statement, twin


CASES = [("DEFINE", place, name, guard) for place, name, guard in itertools.product(DEFINED, FUNCTIONS, GUARDS)]
CASES += [("MEASURES", place, name, "") for place, name in itertools.product(MEASURED, FUNCTIONS)]


@pytest.fixture(scope="module")
def partitions(spark) -> dict[int, list[dict]]:
    """Random partitions, which are the table ``failing``."""
    source = random.Random(42)
    found = {p: partition(source) for p in range(PARTITIONS)}
    rows = [(p, row["i"], row["k"], row["n"], row["s"], row["a"]) for p, some in found.items() for row in some]
    spark.createDataFrame(rows, "p INT, i INT, k STRING, n INT, s STRING, a ARRAY<INT>").coalesce(1).createOrReplaceTempView("failing")
    return found


def _rounded(row: tuple) -> tuple:
    return tuple("NaN" if value != value else round(float(value), 6) if isinstance(value, int | float) else value for value in row)


@pytest.mark.parametrize("case", one_in(120, CASES, wider=30), ids="-".join)
def test_a_query_fails_only_for_rows_that_it_asks_about(spark, partitions, case):
    kind, place, name, guard = case
    statement, twin = defined(place, FUNCTIONS[name], guard) if kind == "DEFINE" else measured(place, FUNCTIONS[name])
    right, failing = {}, []
    for p, rows in partitions.items():
        try:
            right[p] = [_rounded(match) for match in twin(rows)]
        except Failed:
            failing.append(p)
    assert any(right.values())

    def run(chosen: list[int]) -> dict[int, list[tuple]]:
        clause = f"PARTITION BY p ORDER BY i {statement}"
        rows = spark.sql(f"SELECT * FROM (SELECT * FROM failing WHERE p IN ({', '.join(map(str, chosen))})) MATCH_RECOGNIZE ({clause})").collect()
        found: dict[int, list[tuple]] = {}
        for p, *match in rows:
            found.setdefault(p, []).append(_rounded(tuple(match)))
        return {p: sorted(some) for p, some in found.items()}

    assert run(list(right)) == {p: sorted(some) for p, some in right.items() if some}
    for p in failing[:FAILING]:
        with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO|OVERFLOW|CAST_INVALID|INVALID_ARRAY_INDEX|DATETIME|EXPRESSION_FAILED|REMAINDER_BY_ZERO"):
            run([p])


# Arithmetic over columns of several types: n INT, y DOUBLE, f FLOAT, d DECIMAL, s a string that is a number but for one row
ARITHMETIC = [
    "y + s", "s + 1", "y * s", "y / s", "s / y", "y + s / 2", "d + y + s", "s + 1D", "y / 10", "n / 10", "n % 7", "s % 7", "f - n * 2D", "n * 1.5 / 10", "upper(s) + y",
    "length(s) + y", "-y + abs(s)", "s / 10", "y / 1e2", "-n / 10", "coalesce(s, 'q') * y", "d / 3", "n DIV 3", "y % 0.5", "-s", "n / 12345678901234567890",
]  # fmt: skip


@pytest.mark.further
def test_arithmetic_with_other_types_is_asked_about_at_matched_rows_alone(spark):
    """One match of two rows. Each expression fails on another row, or the table's types make that impossible."""
    spark.sql(
        "SELECT id, CAST(id AS INT) AS n, id / 8D AS y, CAST(id AS FLOAT) AS f, CAST(id AS DECIMAL(10, 2)) AS d, IF(id = 50, 'abc', string(id)) AS s FROM range(60)"
    ).createOrReplaceTempView("of_arithmetic")
    sums = ", ".join(f"sum({text}) AS v{i}" for i, text in enumerate(ARITHMETIC))
    found = spark.sql(f"SELECT * FROM of_arithmetic MATCH_RECOGNIZE (ORDER BY id MEASURES {sums} PATTERN (A B) DEFINE A AS n = 30)").collect()
    assert found == spark.sql(f"SELECT {sums} FROM (SELECT * FROM of_arithmetic WHERE id IN (30, 31))").collect()


@pytest.mark.parametrize("text", one_in(6, ["y + s", "d + y + s", "n * 1.5 / 10 + upper(s)", "y / 0", "n % 0", "y / 0.0e0"], wider=3))
def test_arithmetic_that_fails_on_a_matched_row_ends_the_query(spark, text):
    with pytest.raises(PySparkException, match="CAST_INVALID_INPUT|DIVIDE_BY_ZERO|REMAINDER_BY_ZERO"):
        spark.sql(
            f"SELECT * FROM (SELECT id, CAST(id AS INT) AS n, id / 8D AS y, CAST(id AS DECIMAL(10, 2)) AS d, 'abc' AS s FROM range(3)) "
            f"MATCH_RECOGNIZE (ORDER BY id MEASURES sum({text}) AS v PATTERN (A B))"
        ).collect()


SHARED = (
    "PATTERN (A+ B) DEFINE A AS n <> 0 AND 12 / n > 3, B AS n <> 0 AND 12 / n <= 3",
    "PATTERN (A) DEFINE A AS n <> 0 AND 12 / n > 1 AND 12 / n < 5",
    "PATTERN (A) DEFINE A AS n <> 0 AND 12 / n BETWEEN 3 AND 10",
    "PATTERN (A) DEFINE A AS n <> 0 AND nullif(12 / n, 2) > 3",
    "PATTERN (A) DEFINE A AS n <> 0 AND CASE 12 / n WHEN 6 THEN true WHEN 4 THEN true ELSE false END",
    "PATTERN (A) DEFINE A AS n <> 0 AND decode(12 / n, 6, true, 4, true, false)",
    "PATTERN (A) DEFINE A AS exists(array(n), x -> x <> 0 AND CASE 12 / x WHEN 6 THEN true WHEN 4 THEN true ELSE false END)",
    "PATTERN (A B?) DEFINE A AS n = 0 OR 12 / n > 3, B AS d IS NOT NULL AND (n <> 0 AND 12 / n <= 3)",
    "EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B) DEFINE A AS n <> 0 AND d / n > 3, B AS n <> 0 AND d / n <= 3",
    "PATTERN (A B) DEFINE A AS n = 2 AND 12 / n > 1, B AS n > 2 AND 12 / n > 1",
    "EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B) DEFINE A AS n = 2 AND d / n > 1, B AS n > 2 AND d/B.n > 1",
    "AUTOMATON (STATE s START, e FINAL ARC a FROM s TO e WHEN n <> 0 AND 12 / n > 3 ARC b FROM e TO e WHEN n <> 0 AND 12 / n <= 3) WINDOW 10",
    "PATTERN (A B) DEFINE A AS n = 2 AND w > 1, B AS n > 2 AND w < 9",
    "PATTERN (A) DEFINE A AS n <> 0 AND w BETWEEN 3 AND 10",
    "PATTERN (A B) DEFINE A AS n <> 0 AND w = 2, B AS d IS NOT NULL AND (n <> 0 AND w IN (6, 7) AND w > 1)",
)
ROWS = (
    "VALUES (1, 0, 12D, 'off'), (2, 2, 12D, '2'), (3, 6, 12D, '6'), (4, 0, NULL, 'on'), (5, 3, 6D, '3') AS t(i, n, d, w)",  # rows that Spark's optimizer computes
    "(SELECT INT(id) AS i, INT(ELT(INT(id), 0, 2, 6, 0, 3)) AS n, DOUBLE(ELT(INT(id), 12, 12, 12, NULL, 6)) AS d, ELT(INT(id), 'off', '2', '6', 'on', '3') AS w FROM range(1, 6))",
)


@pytest.mark.further
@pytest.mark.codegen
def test_and_guards_an_expression_that_conditions_share(spark):
    """Spark computes such an expression ahead, for all rows."""
    for rows in ROWS:
        head = f"SELECT * FROM (SELECT * FROM {rows}) MATCH_RECOGNIZE (ORDER BY i MEASURES FIRST(i) AS f, LAST(i) AS l {{}})"
        found = [spark.sql(head.format(clause)).collect() for clause in SHARED]
        tried = [spark.sql(head.format(re.sub(r"\bw\b", "try_cast(w AS INT)", re.sub(r"(12|d) ?/ ?(?:B\.)?n", r"try_divide(\1, n)", clause)))).collect() for clause in SHARED]
        assert found == tried and all(found)
