"""DEFINE's arithmetic is Spark's.

Each operator and function that the engine computes, over every pair of Spark's types, ANSI on and off, in three time zones.
"""

from __future__ import annotations

import random

import pytest

from tests.selection import first, further, slow
from tests.spark.expressions import arithmetic

ZONES = ["UTC", "Europe/Berlin", "America/New_York"]
TYPES = list(arithmetic.VALUES)
# what the engine refuses though Spark casts or computes it, by the types of the operands; each is an error with its place
_TEXT = {"STRING", "BINARY"}
_LAST_BITS = ("hypot", "pow", "atan2")  # docs/decisions.md
_NO_LENGTH = {"DATE", "INTERVAL DAY TO SECOND"}  # Arrow does not tell an interval of days, which gives a date, from others


def expressions() -> list[tuple[str, str, tuple[str, ...]]]:
    """(the condition, Spark's expression over a joined pair of rows, its types) of each operator and function."""
    found = []
    for form in arithmetic.BINARY + arithmetic.FLOATING:
        for a in TYPES:
            for b in TYPES:
                if form in arithmetic.FLOATING and not {a, b} <= set(arithmetic.NUMBERS):
                    continue
                x, y = arithmetic.COLUMNS[a], arithmetic.COLUMNS[b]
                found.append((form.format(a=f"A.{x}", b=y), form.format(a=f"l.{x}", b=f"r.{y}"), (a, b)))
    for form in arithmetic.UNARY:
        for a in TYPES:
            x = arithmetic.COLUMNS[a]
            # of two rows, so that the engine computes it
            found.append((form.format(x=f"if(i > -1, A.{x}, {x})"), form.format(x=f"l.{x}"), (a,)))
    return found


def may_refuse(condition: str, types: tuple[str, ...], ansi: bool) -> bool:
    """Whether the engine may refuse what Spark computes."""
    kinds = set(types)
    if kinds & _TEXT or "VARIANT" in kinds or "'1'" in condition:
        return True
    if not ansi and (condition.endswith("IS TRUE") or "BOOLEAN" in kinds):
        return True  # numbers as truth values
    if not ansi and "CAST" in condition and kinds == {"DATE"}:
        return True  # NULL
    if "CAST" in condition:
        return bool(kinds & {"FLOAT", "DOUBLE", "TIMESTAMP", "INTERVAL DAY TO SECOND", "INTERVAL YEAR TO MONTH"})
    return kinds == _NO_LENGTH or (kinds == {"DATE"} and "INTERVAL" in condition)


def differences(spark, chosen: list[tuple[str, str, tuple[str, ...]]]) -> tuple[list[str], int]:
    """What differs from Spark, and how many values were compared."""
    rows = arithmetic.Rows(spark)
    sparks = rows.evaluated(rows.pairs, dict.fromkeys(text for _, text, _ in chosen))
    found, compared = [], 0
    for condition, text, types in chosen:
        ours = rows.given(condition)
        if ours is None:
            continue
        if ours == arithmetic.REFUSED and sparks[text] != arithmetic.REFUSED and may_refuse(condition, types, rows.ansi):
            continue
        if arithmetic.REFUSED not in (ours, sparks[text]):
            compared += len(ours[1])
        said = arithmetic.difference(ours, sparks[text], nearly=condition.startswith(_LAST_BITS))
        if said:
            found.append(f"{condition} of {', '.join(types)}: {said}")
    return found, compared


@pytest.fixture
def session(spark):
    keys = ("ansi.enabled", "session.timeZone", "subexpressionElimination.enabled", "decimalOperations.allowPrecisionLoss")
    before = {key: spark.conf.get(key, None) for key in (f"spark.sql.{key}" for key in keys)}
    spark.conf.set("spark.sql.subexpressionElimination.enabled", "false")  # what is computed ahead fails for all
    yield spark
    for key, value in before.items():
        spark.conf.set(key, value) if value is not None else spark.conf.unset(key)


SETTINGS = [(ansi, zone) for zone in ZONES for ansi in ("true", "false")]


@pytest.mark.parametrize("part", first(range(3), wider=1))
@pytest.mark.parametrize(("ansi", "zone"), [setting if i == 2 else further(pytest.param(*setting)) for i, setting in enumerate(SETTINGS)])
def test_some_of_all(session, ansi, zone, part):
    session.conf.set("spark.sql.ansi.enabled", ansi)
    session.conf.set("spark.sql.session.timeZone", zone)
    rng = random.Random(f"{ansi}{zone}")
    every = expressions()
    # Spark refuses most pairs of types, so pairs of numbers and of times are chosen more often
    near = [e for e in every if set(e[2]) <= set(arithmetic.NUMBERS) or set(e[2]) <= set(arithmetic.TIMES)]
    found, compared = differences(session, (rng.sample(every, 30) + rng.sample(near, 40))[part::3])
    assert found == []
    assert compared > 600


@pytest.mark.parametrize("ansi", [further("true"), further("false")])
def test_decimals_without_precision_loss(session, ansi):
    session.conf.set("spark.sql.ansi.enabled", ansi)
    session.conf.set("spark.sql.decimalOperations.allowPrecisionLoss", "false")
    whole = {"INT", "BIGINT", *(t for t in TYPES if t.startswith("DECIMAL"))}
    found, compared = differences(session, [e for e in expressions() if set(e[2]) <= whole and len(e[2]) == 2 and e[0].startswith(("A", "pmod"))])
    assert found == []
    assert compared > 20_000


@pytest.mark.parametrize(("ansi", "zone"), [slow(pytest.param(*setting)) for setting in SETTINGS])
def test_all(session, ansi, zone):
    session.conf.set("spark.sql.ansi.enabled", ansi)
    session.conf.set("spark.sql.session.timeZone", zone)
    found, compared = differences(session, expressions())
    assert found == []
    assert compared > 500_000
