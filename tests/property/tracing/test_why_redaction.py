"""A redacted answer of sparkcep.why lacks all values of rows, in each form: text, page, cell, JSON, DataFrame.

Rows have values that occur nowhere else: numbers, strings and floats whose digits and letters are looked for in each form.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from sparkcep.settings import DEFAULT
from sparkcep.tracing.answers.explain import Asked, explain
from sparkcep.tracing.answers.overall import overall
from tests.selection import first
from tests.support.why_examples import frozen, question
from tests.unit.tracing.test_why import totals

PATTERNS = ("A B C", "A B+ C", "A (B | C)+ D", "A+? B{2}", "PERMUTE(A, B) C?", "(A | A B) C", "A* D")
CONDITIONS = (
    "n > PREV(n)", "n < 5", "s = 'literal'", "s LIKE 'q%'", "n > LAST(A.n, 1) OR n < FIRST(A.n)", "n BETWEEN 3 AND PREV(n)", "f > avg(A.f)", "NOT (s IN ('a', 'b')) AND n > 1",
    "n + 1 > FIRST(A.n)", "s <> PREV(s)", "coalesce(n, 0) > 7", "count(A.*) > 2", "s IS NULL", "n > 2 * A.n AND f < 100", "s = upper(s)",
)  # fmt: skip
WINDOWS = ("", "", "WINDOW 3", "WINDOW 2 ROWS")


def rows_of(chance: random.Random) -> list[tuple]:
    """Rows of partition, order key, number, string and float: values with marks that no other text has."""
    key, found = f"kqzj{chance.randrange(1000, 9999)}", []
    for i in range(chance.randrange(1, 9)):
        number = 7_310_000 + chance.randrange(9) * 101
        text, real = f"qxzk{chance.randrange(4)}vw", 8_520_000.5 + chance.randrange(9)
        found.append((key, 6_400_000 + 3 * i, *(None if chance.random() < 0.15 else value for value in (number, text, real))))
    return found


MARKS = (
    "kqzj",
    "qxzk",
    "QXZK",
    "73100",
    "73101",
    "73102",
    "73103",
    "73104",
    "73105",
    "73106",
    "73107",
    "73108",
    "85200",
    "64000",
    "1462",
    "1704000",
)


def answers(seed: int, count: int):
    """Answers to random questions, and the number of rows that they are about."""
    chance = random.Random(seed)
    for _ in range(count):
        pattern = chance.choice(PATTERNS)
        defines = (
            ", ".join(
                f"{variable} AS {chance.choice(CONDITIONS)}"
                for variable in "ABCD"
                if variable in pattern and chance.random() < 0.85
            )
            or "A AS n > 1"
        )
        clause = f"PARTITION BY p ORDER BY t MEASURES 1 AS one {chance.choice(WINDOWS)} PATTERN ({pattern}) DEFINE {defines}"
        rows, level = rows_of(chance), chance.choice(("values", "all"))
        asked = frozen(question(clause), ["p", "t", "n", "s", "f"], rows, "t")
        kind = chance.randrange(4)
        if kind == 0:
            yield overall([asked], totals(asked), replace(DEFAULT, prefilter=False), words={}, redact=level)
            continue
        row = chance.randrange(len(rows))
        variable = next(name for name in "ABCD" if name in pattern)
        yield explain(asked, Asked((row,), None, variable if kind == 1 else None), redact=level)
        matches = explain(asked, Asked((row,)), redact=level)
        if kind == 2 and " is in match " in matches.verdict:
            yield explain(asked, Asked((), 1), redact=level)


@pytest.mark.parametrize("seed", first(range(20), wider=1))
def test_no_value_of_a_row_is_in_any_form(seed):
    counted = 0
    for why in answers(seed, 25):
        assert why.verified
        for form in (str(why), repr(why), why.to_html(), why._repr_html_(), why.to_json(), why.to_pandas().to_csv()):
            assert not [mark for mark in MARKS if mark in form], (str(why), [mark for mark in MARKS if mark in form])
        assert "polyline" not in why.to_html()
        counted += 1
    assert counted >= 25


def test_the_marks_are_in_answers_without_redaction():
    """The search for marks finds them if nothing is redacted."""
    rows = rows_of(random.Random(1))
    asked = frozen(
        question("PARTITION BY p ORDER BY t MEASURES 1 AS one PATTERN (A B) DEFINE A AS n > 1 AND s = 'x', B AS f < 3"),
        ["p", "t", "n", "s", "f"],
        rows,
        "t",
    )
    why = explain(asked, Asked((0,)))
    for form in (str(why), why.to_html(), why.to_json()):
        assert "64000" in form and "kqzj" in form and "qxzk" in form
