"""Of a long partition only the rows within one WINDOW are traced. The answers are those of the whole partition."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from sparkcep.errors import MatchRuntimeError
from sparkcep.spark.why.partition import margin, may_be_part
from sparkcep.tracing.answers.explain import Asked, explain
from sparkcep.tracing.conditions.question import ROW
from sparkcep.tracing.rows.frozen import FrozenRows
from tests.oracle import cases, expr
from tests.property.tracing.why_cases import Case
from tests.selection import first

SIZE = 40  # rows of a partition


def part_of(rows: FrozenRows, low: int, high: int) -> FrozenRows:
    """The rows from ``low`` to before ``high``."""
    table = rows.table.slice(low, high - low).combine_chunks()
    table = table.set_column(table.column_names.index(ROW), ROW, pa.array(range(table.num_rows), pa.int64()))
    return FrozenRows(rows.question, table, low, rows.count)


def said(rows: FrozenRows, row: int) -> tuple | None:
    """The text of an answer, without the numbers of matches. None if the query fails for these rows."""
    try:
        why = explain(rows, Asked((row,)))
    except MatchRuntimeError:
        return None
    assert why.verified
    return why.reasons, why.next, why.run, [(one.row, one.variable, one.others) for one in why.decisions], "is in no match" in why.verdict


@pytest.mark.parametrize("seed", first(range(40), 1, wider=2))
def test_a_part_answers_like_the_whole(seed):
    rng, counts = random.Random(seed), Counter()
    while counts["rows"] < 40:
        clause = cases.random_clause(rng)
        clause.skip = ("to next row",)
        size = rng.choice([1, 2, 3, 5])
        case = Case(clause, expr.random_rows(rng, SIZE), ("rows", size), Counter())
        if not may_be_part(case.question):
            counts["others"] += 1
            continue
        for row in rng.sample(range(SIZE), 4):
            reach = size + margin(case.question)
            part = part_of(case.frozen, max(0, row - reach), min(SIZE, row + reach + 1))
            wanted = said(case.frozen, row)
            if wanted is not None and not part.is_whole:
                assert said(part, row) == wanted, (case.text, row)
                counts["rows"] += 1
                counts["in no match"] += wanted[-1]
    assert counts["rows"] > counts["in no match"] > 0, counts
