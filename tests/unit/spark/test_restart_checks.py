"""Which statements may resume from a checkpoint, without Spark."""

from __future__ import annotations

import json

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.stream_rules import NEEDED
from sparkcep.errors import ClauseError
from sparkcep.plan.build import make_plan
from sparkcep.spark.stream.restart_checks import check_changed

TILL = "PARTITION BY k ORDER BY ts MEASURES {} AS m, LAST(v) AS n EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B) WINDOW INTERVAL '1' MINUTE DEFINE A AS v = 1, B AS v = 2"
ADJACENT = TILL.replace("EVENT SELECTION SKIP TILL NEXT MATCH ", "")


def statement(text: str, measure: str, where: str = "", **more) -> dict:
    plan = make_plan(parse_clause(text.format(measure)))
    return {"format": 2, "plan": plan.without_sql().to_json(), "texts": json.dumps(dict(plan.inputs)), "where": where, "columns": []} | more


@pytest.mark.parametrize(
    "before, now, same",
    [
        ("((__needed IS NOT NULL) AND __needed)", "", True),
        ("(((__needed IS NOT NULL) AND (k IS NOT NULL)) AND (__needed AND ((NOT (k = 'a) AND (')) AND (k > 'b'))))", "((k IS NOT NULL) AND ((NOT (k = 'a) AND (')) AND (k > 'b')))", True),
        ("((k IS NOT NULL) AND (k = 'a'))", "((k IS NOT NULL) AND (k = 'b'))", False),
        ("((__needed IS NOT NULL) AND __needed)", "(k = '__needed')", False),
        ("((a = 1) OR (b = 1))", "((a = 1) AND (b = 1))", False),
    ],
)
def test_the_condition_of_needed_rows_is_no_condition_on_keys(before, now, same):
    """Spark combines it with the user's own."""
    one, other = (statement(ADJACENT, "FIRST(v)", where) for where in (before, now))
    for first, second in ((one, other), (other, one)):
        if same:
            check_changed(first, second)
        else:
            with pytest.raises(ClauseError, match="the keys that WHERE above the clause selects differ\\)"):
                check_changed(first, second)


def test_a_program_of_data_frames_of_an_older_version_may_have_dropped_rows():
    """It did not store the condition of the rows that it needed."""
    older, now = statement(TILL, "FIRST(v)", buckets=8), statement(TILL, "PREV(B.v)", buckets=8)
    with pytest.raises(ClauseError, match="whether PREV and NEXT in MEASURES read neighbouring rows differs"):
        check_changed(older, now)
    check_changed(statement(ADJACENT, "FIRST(v)", buckets=8), statement(ADJACENT, "PREV(B.v)", buckets=8))
    check_changed(now, older)
    kept = older | {"texts": json.dumps(json.loads(older["texts"]) | {NEEDED: "true"})}  # sparkcep.prefilter was off
    check_changed(kept, now)
