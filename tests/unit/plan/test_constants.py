"""Constant expressions of a clause: their values, parameters, and what of them is not read."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.errors import ClauseError
from sparkcep.plan.constants import constant, decimal_text
from sparkcep.plan.options import window_size
from sparkcep.sql.rewrite.rewrite import double_braces
from sparkcep.tools.fmt import format_sql

HOUR = 3_600_000_000


def window(size: str, **parameters: object):
    clause = parse_clause(f"ORDER BY t PATTERN (A) WINDOW {size}", parameters={f":{name}": value for name, value in parameters.items()})
    assert clause.window is not None
    return clause, clause.window.size


@pytest.mark.parametrize(
    ("size", "value", "is_time"),
    [
        ("5 + 5", 10, False), ("2 * (3 + 4) - 1", 13, False), ("7 / 2", Fraction(7, 2), False), ("7 DIV 2", 3, False), ("-7 % 2", -1, False), ("1e3", 1000, False),
        ("10L", 10, False), ("2.5BD", Fraction(5, 2), False), ("INTERVAL '1' HOUR + INTERVAL '30' MINUTE", HOUR * 3 // 2, True), ("2 * INTERVAL 1 HOUR", 2 * HOUR, True),
        ("INTERVAL '1' HOUR / 4", HOUR // 4, True), (":n + 1", 4, False), (":d", Fraction(1, 4), False), ("INTERVAL :n HOURS", 3 * HOUR, True), ("INTERVAL :s HOURS", 2 * HOUR, True),
        (":w", HOUR, True), ("INTERVAL -:n HOURS", -3 * HOUR, True), (":f", Fraction(1, 10), False), ("INTERVAL :f SECONDS", 100_000, True),
    ],
)  # fmt: skip
def test_values(size, value, is_time):
    clause, expr = window(size, n=3, d=Decimal("0.25"), f=0.1, s="2", w=timedelta(hours=1))
    assert constant(expr, clause.text, clause.parameters) == (value, is_time)


@pytest.mark.parametrize(("size", "value"), [("(5 + :n)", 8), ("(:n * 2 - :n)", 3), ("((:n)) + 1", 4), ("(2 * (1 + :n)) * 2", 16), (":n", 3)])
def test_parameters_in_the_size_of_a_group(size, value):
    clause = parse_clause(f"ORDER BY t PATTERN ((A B) WITHIN {size})", parameters={":n": 3})
    assert constant(clause.pattern.size, clause.text, clause.parameters) == (value, False)


@pytest.mark.parametrize("size", ["x", "5 + x", "INTERVAL '1' HOUR + 5", "INTERVAL '1' HOUR * INTERVAL '1' HOUR", "1 / 0", "'5'", "concat(1)"])
def test_no_constants(size):
    clause, expr = window(size)
    assert constant(expr, clause.text) is None


@pytest.mark.parametrize("value", [None, True, float("nan"), "two", [1]])
def test_parameters_without_a_number(value):
    clause, expr = window(":n", n=value)
    with pytest.raises(ClauseError, match="WINDOW_SIZE|PARAMETER"):
        window_size(clause, expr, False)


def test_decimal_texts():
    assert [decimal_text(Fraction(*f)) for f in ((5, 1), (1, 4), (-5, 2), (1, 3), (0, 1))] == ["5", "0.25", "-2.5", None, "0"]


@pytest.mark.parametrize(
    ("pattern", "doubled"),
    [
        ("A{2,}", "A{{2,}}"), ("A{2}B{,3}", "A{{2}}B{{,3}}"), ("A{{2,}} {{- B -}}", "A{{2,}} {{- B -}}"), ("{- A{2} B -} C", "{{- A{{2}} B -}} C"), ("A{,}", "A{{,}}"),
        ("A{n}", "A{n}"), ("A{{{n},}}", "A{{{n},}}"), ("({-A-}){2,3}?", "({{-A-}}){{2,3}}?"),
    ],
)  # fmt: skip
def test_braces_of_patterns_are_not_fields(pattern, doubled):
    text = "SELECT {x} FROM {df} MATCH_RECOGNIZE (PATTERN (%s) DEFINE A AS p > {low})"
    assert double_braces(text % pattern) == text % doubled


def test_options_of_approx_are_laid_out_wherever_they_are():
    text = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY i weights (b 2) PATTERN (A B) approx 1 window 5 + 5 match bundles DEFINE A AS p > 1)"
    laid_out = format_sql(text)
    assert format_sql(laid_out) == laid_out and "WEIGHTS (b 2)" in laid_out and "WINDOW 5 + 5" in laid_out and "MATCH BUNDLES" in laid_out
