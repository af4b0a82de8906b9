"""Whether a statement may go on with the state of another over a stream, and what is said of what it keeps, from the plans
alone."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.stream_rules import NEEDED, check_stream, different, kept, warnings
from sparkcep.errors import ClauseError
from sparkcep.plan.build import make_plan
from sparkcep.plan.reach import Reach
from sparkcep.spark.stream.start_checks import CHECKS

BEFORE = (
    "PARTITION BY k ORDER BY ts, n MEASURES PREV(FIRST(x), 2) AS m AFTER MATCH SKIP TO LAST B PATTERN (A B+ C) WINDOW INTERVAL '5' SECOND SUBSET S = (A, B) "
    "DEFINE A AS x = 1, B AS x > 2, C AS abs(x) > FIRST(S.x) AND abs(y) = 2"
)
CHANGES = {
    "keys": ("BY k ORDER", "BY k, j ORDER", "PARTITION BY"),
    "another key": ("BY k ORDER", "BY j ORDER", "PARTITION BY"),
    "order": ("ts, n", "ts, n DESC", "ORDER BY"),
    "skip": ("TO LAST B", "TO LAST C", "AFTER MATCH SKIP"),
    "skip past": ("TO LAST B", "PAST LAST ROW", "AFTER MATCH SKIP"),
    "pattern": ("B+", "B*", "PATTERN"),
    "window": ("'5'", "'6'", "WINDOW"),
    "no window": ("WINDOW INTERVAL '5' SECOND", "", "WINDOW"),
    "rows": (" AFTER", " ALL ROWS PER MATCH AFTER", "the rows returned for a match"),
    "a number in DEFINE": ("x > 2", "x > 3", "DEFINE"),
    "what a row fulfils": ("abs(y) = 2", "abs(y) = 3", "DEFINE"),
    "what Spark computes": ("abs(x)", "sign(x)", "values that are sign(x) and were abs(x)"),
    "a subset in DEFINE": ("S = (A, B)", "S = (B)", "DEFINE"),
    "MATCH_NUMBER": ("PREV(FIRST(x), 2)", "MATCH_NUMBER()", "MATCH_NUMBER()"),
    "farther back": ("PREV(FIRST(x), 2)", "PREV(FIRST(x), 3)", "how many rows PREV reads before a match"),
}
SAME = [("AS m", "AS other"), ("PREV(FIRST(x), 2)", "PREV(FIRST(x))"), ("PREV(FIRST(x), 2)", "LAST(x)"), ("PATTERN", "\n\nPATTERN")]


def compared(text: str) -> list[str]:
    (before, texts_before), (now, texts) = stated(BEFORE), stated(text)
    return different(before, now, texts_before, texts)


def stated(text: str) -> tuple[dict, dict]:
    plan = make_plan(parse_clause(text))
    return json.loads(plan.to_json()), dict(plan.inputs)


@pytest.mark.parametrize("name", CHANGES)
def test_another_statement_is_told(name):
    old, new, what = CHANGES[name]
    assert BEFORE.count(old) == 1
    assert what in compared(BEFORE.replace(old, new))


def test_another_setting_for_decimals_is_told():
    (before, texts), precise = stated(BEFORE), json.loads(replace(make_plan(parse_clause(BEFORE)), precision_loss=False).to_json())
    assert different(before, precise, texts, texts) == different(precise, before, texts, texts) == ["spark.sql.decimalOperations.allowPrecisionLoss"]


def test_other_conditions_on_types_are_no_other_statement():
    """A version may know of more types for which an expression cannot fail. No value changes."""
    text = BEFORE.replace("abs(x)", "LAST(A.x * 2 + A.y / 10)")
    (before, texts), (now, of_now) = stated(text), stated(text)
    test = "NOT (typeof(x) IN ('double', 'float'))"
    older = {name: re.sub(r"CASE WHEN (NOT )?\(.*?\) (OR|AND) try_add", rf"CASE WHEN \1({test}) \2 try_add", sql) for name, sql in texts.items()}
    assert older != texts and different(before, now, older, of_now) == []
    assert different(before, now, {name: sql.replace("10", "11") for name, sql in older.items()}, of_now)


def test_values_that_may_fail_are_told_as_they_are_written():
    """Spark prints the texts of a stream, with further parentheses."""
    (before, texts), (now, of_now) = (stated(BEFORE.replace("abs(x)", f"LAST(A.x * {n})")) for n in (2, 3))
    told = different(before, now, texts, of_now)
    assert told == ["values that are (x * 3) and were (x * 2)"]
    printed = [
        {name: re.sub(r"WHEN (.*?try_add.* IS (?:NOT )?NULL) THEN", r"WHEN (\1) THEN", re.sub(r"(size\(array_repeat\(\w+, 1\)\) = 1)", r"(\1)", sql)) for name, sql in each.items()}
        for each in (texts, of_now)
    ]
    assert printed != [texts, of_now] and different(before, now, *printed) == told


@pytest.mark.parametrize("old, new", SAME)
def test_other_measures_and_places_are_no_other_statement(old, new):
    assert BEFORE.count(old) == 1 and compared(BEFORE.replace(old, new)) == []


PREFILTERED = (
    "PARTITION BY k ORDER BY ts MEASURES {} AS m, LAST(v) AS n EVENT SELECTION SKIP TILL NEXT MATCH "
    "PATTERN (A B) WINDOW INTERVAL '1' MINUTE DEFINE A AS v = 1, B AS v = 2"
)
DROPS = {NEEDED: "((v = 1)) OR ((v = 2))"}
NEIGHBOURS = "whether PREV and NEXT in MEASURES read neighbouring rows"


@pytest.mark.parametrize(
    "before, dropped, now, drops, what",
    [
        ("FIRST(v)", DROPS, "PREV(B.v)", {}, [NEIGHBOURS]),
        ("FIRST(v)", DROPS, "NEXT(A.v)", {}, [NEIGHBOURS]),
        ("FIRST(v)", DROPS, "PREV(B.v) IS NULL AND PREV(CLASSIFIER(B))", {NEEDED: "true"}, [NEIGHBOURS]),
        ("FIRST(v)", {}, "PREV(B.v)", {}, []),  # by the setting, all rows are retained
        ("FIRST(v)", {NEEDED: "true"}, "PREV(B.v)", {}, []),
        ("FIRST(v)", DROPS, "MAX(v)", {}, []),
        ("PREV(B.v)", {}, "FIRST(v)", DROPS, []),  # a state with more rows is no matter
        ("PREV(B.v)", {}, "NEXT(A.v)", {}, []),
        ("FIRST(v)", {}, "FIRST(v)", DROPS, []),
    ],
)
def test_rows_that_were_dropped_cannot_be_read(before, dropped, now, drops, what):
    (first, texts_before), (second, texts) = stated(PREFILTERED.format(before)), stated(PREFILTERED.format(now))
    assert different(first, second, texts_before | dropped, texts | drops) == what


TOP = "PARTITION BY k ORDER BY ts MEASURES LAST(ts) AS z EVENT SELECTION SKIP TILL ANY MATCH {} PATTERN {} WINDOW INTERVAL '5' SECOND {} PREF MAX (A.x) TOP {} DEFINE A AS x = 1"
SLIDE = "SLIDE INTERVAL '1' SECOND"
AUTOMATON = "PARTITION BY k ORDER BY ts MEASURES LAST(ts) AS z AUTOMATON (STATE q0 START, q1 FINAL {}) WINDOW INTERVAL '5' SECOND"
LAST_ROWS = "PARTITION BY k ORDER BY ts MEASURES LAST(ts) AS z{} EVENT SELECTION SKIP TILL ANY MATCH{} PATTERN (A B) WINDOW INTERVAL '5' SECOND {} DEFINE A AS x = 1"


@pytest.mark.parametrize(
    "before, now, what",
    [
        (("", " ALL MATCHES", ""), (", MATCH_COUNT() AS n", "", ""), ["MATCH_COUNT()"]),
        ((", MATCH_COUNT() AS n", "", ""), (", MATCH_GRAPH() AS n", "", ""), ["MATCH_COUNT()", "MATCH_GRAPH()"]),
        (("", "", "APPROX 1"), ("", "", "APPROX 0.5"), ["APPROX"]),
        (("", "", "APPROX 1"), (", MATCH_COUNT() AS n", "", "APPROX 1"), ["MATCH_COUNT()"]),
        (("", "", "APPROX 1 BUDGET 3 CHECKS"), ("", "", "APPROX 1 BUDGET 4 CHECKS"), ["APPROX"]),
        (("", "", "APPROX 1 BUDGET 3 CHECKS"), (", COMPLETE() AS c, MISSING() AS m", "", "APPROX 1 BUDGET 3 CHECKS"), []),
        (("", "", "APPROX 1 BUDGET 3 CHECKS"), (", COVERAGE() AS c", "", "APPROX 1 BUDGET 3 CHECKS"), ["COVERAGE()"]),
        *(
            (one, other, ["CHECKS_ALLOWED()"] * (budget != "3 CHECKS"))
            for budget in ("INTERVAL '1' MICROSECOND PER ROW", "INTERVAL '1' MICROSECOND PER BATCH", "3 CHECKS")
            for without, more in [(("", "", f"APPROX 1 BUDGET {budget}"), (", CHECKS_ALLOWED() AS c", "", f"APPROX 1 BUDGET {budget}"))]
            for one, other in ((without, more), (more, without))
        ),
        ((", COVERAGE() AS c", "", "APPROX 1 BUDGET 3 CHECKS"), ("", "", "APPROX 1 BUDGET 3 CHECKS"), []),
        ((", NEXT(LAST(x), 1) AS m", "", "APPROX 1 MATCH BUNDLES"), (", NEXT(LAST(x), 2) AS m", "", "APPROX 1 MATCH BUNDLES"), ["how many rows NEXT reads after a match"]),
        (("", "", "APPROX 1"), (", NEXT(A.x) AS m", "", "APPROX 1"), [NEIGHBOURS]),
        (("", "", "APPROX 1 PROXY MATCHES PER ERROR"), (", PREV(CLASSIFIER()) AS m", "", "APPROX 1 PROXY MATCHES PER ERROR"), [NEIGHBOURS]),
        (("", "", "APPROX 1 MATCH BUNDLES"), (", PREV(CLASSIFIER()) AS m", "", "APPROX 1 MATCH BUNDLES"), [NEIGHBOURS]),
        (("", "", "APPROX 1 MATCH BUNDLES BUDGET 3 CHECKS"), (", PREV(CLASSIFIER()) AS m", "", "APPROX 1 MATCH BUNDLES BUDGET 3 CHECKS"), [NEIGHBOURS]),
        ((", PREV(x) AS m", "", "APPROX 1 MATCH BUNDLES"), (", PREV(CLASSIFIER(), 2) AS m", "", "APPROX 1 MATCH BUNDLES"), []),  # with PREV all rows between are retained
        (
            (", MATCH_NUMBER() AS n", "", "APPROX 1 ALL MATCHES BUDGET 3 CHECKS"), (", MATCH_NUMBER() AS n, NEXT(x) AS m", "", "APPROX 1 ALL MATCHES BUDGET 3 CHECKS"),
            ["how many rows NEXT reads after a match"],
        ),
        ((", NEXT(A.x) AS m", "", "APPROX 1"), (", PREV(CLASSIFIER(), 2) AS m", "", "APPROX 1"), []),
        (("", "", "APPROX 1 BUDGET 3 CHECKS"), (", NEXT(A.x) AS m", "", "APPROX 1 BUDGET 3 CHECKS"), []),  # all rows of the last window are retained
        (("", "", "APPROX 1 ALL MATCHES"), (", NEXT(A.x) AS m", "", "APPROX 1 ALL MATCHES"), []),
        (("", "", "APPROX 1 MATCH BUNDLES"), (", BUNDLE_START() AS s", "", "APPROX 1 MATCH BUNDLES"), ["BUNDLE_START()"]),
        ((", BUNDLE_START() AS s", "", "APPROX 1 MATCH BUNDLES"), ("", "", "APPROX 1 MATCH BUNDLES"), []),
    ],
)
def test_what_ends_at_a_row_is_another_statement(before, now, what):
    (first, texts), (second, _) = stated(LAST_ROWS.format(*before)), stated(LAST_ROWS.format(*now))
    found = different(first, second, texts, texts)
    assert [word for word in found if word != "EVENT SELECTION"] == what


@pytest.mark.parametrize(
    "before, now, what",
    [
        ("LAST(x)", "PREV(CLASSIFIER())", ["how many rows PREV reads before a match"]),
        ("NEXT(LAST(x))", "NEXT(LAST(x), 2)", ["how many rows NEXT reads after a match"]),
        ("NEXT(LAST(x), 2)", "NEXT(LAST(x))", []),
    ],
)
def test_bundles_that_conditions_read_keep_single_rows(before, now, what):
    """The rows of a best match are retained with the neighbours that measures read, and the rows between them are not."""
    text = LAST_ROWS.format(", {} AS m", "", "APPROX 1 MATCH BUNDLES").replace("x = 1", "x = 1, B AS x > A.x")
    (first, texts), (second, _) = stated(text.format(before)), stated(text.format(now))
    assert different(first, second, texts, texts) == what


@pytest.mark.parametrize(
    "before, now, keys, what",
    [
        ("3", "3 OVERALL", "PARTITION BY k", ["OVERALL"]),  # the state lacks the positions of rows, and windows of some keys were emitted
        ("3 OVERALL", "3", "PARTITION BY k", []),
        ("3", "3 OVERALL", "", []),  # of one key, OVERALL changes nothing
        ("3 OVERALL", "4 OVERALL", "PARTITION BY k", []),
    ],
)
def test_matches_of_all_keys_are_another_statement(before, now, keys, what):
    (first, texts), (second, _) = (stated(TOP.format("ALL MATCHES", "(A B)", SLIDE, top).replace("PARTITION BY k", keys)) for top in (before, now))
    assert different(first, second, texts, texts) == what


@pytest.mark.parametrize(
    "text, message",
    [
        (LAST_ROWS.format(", MATCH_COUNT() AS n", "", "").replace("WINDOW INTERVAL '5' SECOND", ""), "MATCH_COUNT() without WINDOW would keep all rows"),
        (LAST_ROWS.format(", MATCH_COUNT() AS n", "", "").replace("x = 1", "x = MATCH_NUMBER()"), "MATCH_NUMBER() in DEFINE for MATCH_COUNT() does not stream yet"),
        (LAST_ROWS.format("", "", "APPROX 1 MATCH BUNDLES").replace("x = 1", "x = MATCH_NUMBER()"), "MATCH_NUMBER() in DEFINE for MATCH BUNDLES does not stream yet"),
        (TOP.format("ALL MATCHES", "(A B)", "", "3"), "TOP k without SLIDE ranks a whole partition"),
        (TOP.format("ALL MATCHES", "(A B)", SLIDE, "3 OVERALL").replace("x = 1", "x = NEXT(x, 2)"), "NEXT waits for future rows of each key"),
        (TOP.format("", "(A B)", SLIDE + " APPROX 1 PROXY MATCHES", "3").replace("x = 1", "x = MATCH_NUMBER()"), "TOP of PROXY MATCHES with MATCH_NUMBER() in DEFINE"),
        (TOP.format("ALL MATCHES", "(A B)", SLIDE, "3").replace("INTERVAL '5' SECOND", "5 ROWS").replace("INTERVAL '1' SECOND", "1 ROWS").replace("TOP 3", "TOP 3 OVERALL"), "TOP OVERALL ranks the matches of all keys"),
        (LAST_ROWS.format("", "", "APPROX 1 WEIGHTS (D 9) BUDGET 3 CHECKS").replace("A B", "A ~(B C) D"), "a negated group before the first row of a match"),
        (LAST_ROWS.format("", " ALL MATCHES CHANGES IN op", ""), "needs REPORT CHANGES"),
        (LAST_ROWS.format(", CHANGE() AS c, PUNCTUATION() AS p", " ALL MATCHES CHANGES IN op REPORT CHANGES WITH PUNCTUATIONS", ""), "Leave WITH PUNCTUATIONS and PUNCTUATION() out"),
        (LAST_ROWS.format("", "", "APPROX 1 MATCH HISTORY").replace("MEASURES LAST(ts) AS z ", ""), "Record it from a table of past rows"),
        (LAST_ROWS.format("", "", "").replace("x = 1", "levenshtein(x, PREV(x)) = 1"), "instead of f(x, PREV(x))"),
        (LAST_ROWS.format("", "", "APPROX 1 ALL MATCHES").replace("WINDOW INTERVAL '5' SECOND", ""), "ALL MATCHES without WINDOW would keep all rows"),
    ],
)
def test_what_does_not_stream_of_answers_for_last_rows(text, message):
    with pytest.raises(ClauseError) as error:
        check_stream(make_plan(parse_clause(text)))
    assert error.value.error_class == "SPARKCEP.STREAM" and message in str(error.value) and error.value.line


@pytest.mark.parametrize(
    "measure, pattern, define, rows",
    [
        ("LAST(x)", "A B+ C", "B AS x < PREV(x), C AS x > PREV(x)", 0),
        ("LAST(x)", "A B+ C", "A AS x < PREV(x)", 1),
        ("LAST(x)", "A? B C", "B AS x < PREV(x), C AS x > PREV(x, 3)", 2),
        ("LAST(x)", "A B C", "C AS x > PREV(A.x, 2)", 2),
        ("PREV(C.x, 2)", "A B C", "A AS x = 1", 0),
        ("PREV(C.x, 5)", "A B C", "A AS x = 1", 3),
        ("PREV(LAST(x), 2)", "A B C", "A AS x = 1", 2),
        ("PREV(CLASSIFIER())", "A B C", "A AS x = 1", 0),
        ("LAST(x)", "A B C", "B AS PREV(CLASSIFIER(), 2) IS NULL", 0),
        ("LAST(x)", "A B C", "B AS PREV(FIRST(CLASSIFIER())) IS NULL", 0),
        ("LAST(x)", "~N A B", "N AS x < PREV(x)", 1),
        ("LAST(x)", "(A B) & (C D)", "D AS x < PREV(x)", 0),
        ("LAST(x)", "(A B) & (C D)", "C AS x < PREV(x)", 1),
        ("LAST(x)", "A B) WINDOW INTERVAL '5' SECOND APPROX (1", "B AS x < PREV(x)", 1),
    ],
)
def test_rows_before_a_match_are_kept_where_prev_looks_there(measure, pattern, define, rows):
    selection = "EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES" if "~" in pattern or "&" in pattern else ""
    window = "" if "WINDOW" in pattern else " WINDOW INTERVAL '5' SECOND"
    text = f"PARTITION BY k ORDER BY ts MEASURES {measure} AS m {selection} PATTERN ({pattern}){window} DEFINE {define}".replace("APPROX (1)", "APPROX 1")
    assert Reach.of(make_plan(parse_clause(text))).back == rows


@pytest.mark.parametrize(
    ("pattern", "define", "rows"),
    [
        ("A ~M B", "M AS v > NEXT(FIRST(B.v))", 1),  # the finished match's B, which comes after M
        ("A ~M B C", "M AS v > NEXT(FIRST(B.v))", 0),
        ("A ~M B C", "M AS v > NEXT(FIRST(B.v), 3)", 2),
        ("A ~M B", "M AS v > NEXT(v)", 0),
        ("A ~M B", "M AS v > NEXT(M.v, 2)", 1),
        ("A & B", "A AS v > NEXT(FIRST(B.v), 2)", 2),
        ("A B & C", "A AS v > NEXT(A.v)", 0),
    ],
)
def test_rows_ahead_of_conditions_that_see_the_finished_match(pattern, define, rows):
    text = f"PARTITION BY k ORDER BY ts MEASURES count(*) AS m EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN ({pattern}) WINDOW 5 ROWS DEFINE {define}"
    assert Reach.of(make_plan(parse_clause(text))).ahead == rows


def test_what_is_kept_and_warned_of():
    plan = make_plan(parse_clause(BEFORE.replace("PREV(FIRST(x), 2)", "PREV(FIRST(x), 2) + NEXT(LAST(x), 3)").replace("WINDOW INTERVAL '5' SECOND", "WINDOW 7 ROWS")))
    assert "the last 5 rows, which PREV and NEXT read, indefinitely" in kept(plan)
    assert "rows of a match in progress, until 7 rows of its key have arrived" in kept(plan)
    assert [text.partition(":")[0] for text in warnings(plan)] == ["the clause has WINDOW n ROWS", "NEXT reads 3 rows after a match"]
    assert warnings(make_plan(parse_clause(BEFORE))) == []


def test_what_is_kept_and_warned_of_with_unfinished_matches():
    text = "PARTITION BY k ORDER BY ts MEASURES MATCH_STATUS() AS st ONE ROW PER MATCH SHOW UNFINISHED MATCHES {} PATTERN (A B) {} DEFINE A AS x = 1"
    plan = make_plan(parse_clause(text.format("", "WINDOW INTERVAL '5' SECOND")))
    assert "rows from the first start row on that has an open match, until the watermark is INTERVAL '5' SECOND past that row" in kept(plan)
    assert "up to which of these rows unfinished matches were reported" in kept(plan) and warnings(plan) == []
    around = make_plan(parse_clause(text.replace("(A B)", "((A B) WITHIN INTERVAL '3' SECOND)").format("", "")))
    assert "rows from the first start row on that has an open match, until the watermark is INTERVAL '3' SECOND past that row" in kept(around) and warnings(around) == []
    partly = make_plan(parse_clause(text.replace("(A B)", "((A) WITHIN INTERVAL '3' SECOND B)").format("", "")))
    assert kept(partly) == kept(make_plan(parse_clause(text.format("", "")))) and warnings(partly)
    assert "up to which of these rows unfinished matches were reported" not in kept(make_plan(parse_clause(text.format("AFTER MATCH SKIP TO NEXT ROW", ""))))
    assert [text.partition(".")[0] for text in warnings(make_plan(parse_clause(text.format("", ""))))] == ["the clause has no WINDOW: an open match waits for future rows of its key"]
    before, now = (json.loads(make_plan(parse_clause(text.replace("SHOW UNFINISHED MATCHES", shown).format("", ""))).to_json()) for shown in ("SHOW UNFINISHED MATCHES", "SHOW UNFINISHED MATCHES"))
    assert different(before, now | {"unfinished": None}, {}, {}) == ["SHOW UNFINISHED or TIMEOUT MATCHES"] and different(before, now, {}, {}) == []


@pytest.mark.parametrize(
    "text",
    [
        LAST_ROWS.format(", array_agg(x) AS m", "", ""),
        LAST_ROWS.format("", "", "").replace("(A B)", "(A ~B)").replace("x = 1", "x = 1, B AS x = 2"),
        TOP.format("ALL MATCHES", "(A B)", SLIDE, "3").replace("x = 1", "x = NEXT(x)"),
        TOP.format("ALL MATCHES", "(A B)", SLIDE, "3 OVERALL"),
        LAST_ROWS.format(", CHANGE() AS c", " ALL MATCHES CHANGES IN op REPORT CHANGES SPECULATE NONE", ""),
        AUTOMATON.format("ARC a FROM q0 TO q1").replace("AUTOMATON", "ALL ROWS PER MATCH WITH UNMATCHED ROWS AUTOMATON"),
    ],
)
def test_what_an_error_advises_streams(text):
    check_stream(make_plan(parse_clause(text)))


@pytest.mark.parametrize(
    "text, rows, more",
    [
        (TOP.format("ALL MATCHES", "(A B)", SLIDE, "3"), "", []),
        (TOP.format("ALL MATCHES", "(A ~B C)", SLIDE, "3"), "", []),
        (TOP.format("FIRST MATCH", "(A B)", SLIDE, "3"), ", or that contain a row whose WINDOW has not ended", []),
        (TOP.format("ALL MATCHES", "(A B ~C)", SLIDE, "3"), ", or that contain a row whose WINDOW has not ended", []),
        (TOP.format("ALL MATCHES", "(~A B C)", SLIDE, "3"), ", and rows of an equally long time before them", []),
        (TOP.format("ALL MATCHES", "((A B ~C) & D)", SLIDE, "3"), ", or that contain a row whose WINDOW has not ended, and rows of an equally long time before them", []),
        (TOP.format("ALL MATCHES", "(^ A B)", SLIDE, "3"), "", ["whether it had rows, indefinitely: ^ matches only before the first"]),
        (TOP.format("FIRST MATCH", "(A B)", SLIDE, "3").replace("x = 1", "x > MATCH_NUMBER()"), ", or that contain a row whose WINDOW has not ended", ["the number of the last match, indefinitely"]),
        (TOP.format("ALL MATCHES", "(A B)", SLIDE, "3").replace("x = 1", "x > NEXT(x, 2)"), ", or that wait for 1 more row of the key after them", ["the last row, which PREV and NEXT read, indefinitely"]),
        (
            TOP.format("FIRST MATCH", "(A B)", SLIDE, "3").replace("x = 1", "x > NEXT(x, 2)"),
            ", or that contain a row whose WINDOW has not ended, or that wait for 1 more row of the key after their WINDOW", ["the last row, which PREV and NEXT read, indefinitely"],
        ),
    ],
)  # fmt: skip
def test_what_is_kept_of_sliding_windows(text, rows, more):
    assert kept(make_plan(parse_clause(text))) == ["rows later than the watermark, until it passes them", f"rows of the windows that have not ended{rows}", *more]


@pytest.mark.parametrize(
    "more, budget, what",
    [
        ("", "", []),
        (", MATCH_NUMBER() AS n", "ALL MATCHES", ["matches that are found but not yet numbered, until no future match can begin before them"]),
        ("", "MATCH BUNDLES", ["the best match of a bundle, until no match point can join it"]),
    ],
)
def test_what_is_kept_under_a_budget(more, budget, what):
    found = kept(make_plan(parse_clause(LAST_ROWS.format(more, "", f"APPROX 1 {budget} BUDGET 3 CHECKS"))))
    assert {"rows of the last window, until the watermark is INTERVAL '5' SECOND past them", "which of these rows each partial match took, and what was left out at them, as long as these rows are kept", *what} <= set(found)


@pytest.mark.parametrize("measures, options", [(", MATCH_COUNT() AS n", ""), ("", "APPROX 1"), ("", "APPROX 1 MATCH BUNDLES"), ("", "APPROX 1 BUDGET 3 CHECKS"), ("", "APPROX 1 ALL MATCHES BUDGET 3 CHECKS")])
def test_what_is_kept_where_a_negation_looks_behind_the_match(measures, options):
    text = LAST_ROWS.format(measures, "", options).replace("(A B)", "(^ A B ~N)").replace("x = 1", "x = 1, N AS x > A.x")
    found, of_rows = (kept(make_plan(parse_clause(some))) for some in (text, text.replace("INTERVAL '5' SECOND", "5 ROWS")))
    assert {"rows of the last two windows, until the watermark is INTERVAL '10' SECOND past them", "whether it had rows, indefinitely: ^ matches only before the first"} <= set(found)
    assert "rows of the last two windows, until 10 rows of its key have arrived" in of_rows
    before = kept(make_plan(parse_clause(text.replace("B ~N", "~N B"))))
    assert "rows of the last window, until the watermark is INTERVAL '5' SECOND past them" in before or "APPROX" in text  # B may be missing


CHANGELOG = LAST_ROWS.format(", CHANGE() AS c, CHANGE_NUMBER() AS n", " ALL MATCHES CHANGES IN op REPORT CHANGES", "")


def test_what_is_kept_of_changes():
    told = "the reported matches with rows later than the watermark, until it passes their last row"
    assert {told, "the number of the last change, indefinitely"} <= set(kept(make_plan(parse_clause(CHANGELOG))))
    assert "the number of the last change, indefinitely" not in kept(make_plan(parse_clause(CHANGELOG.replace(", CHANGE_NUMBER() AS n", ""))))


@pytest.mark.parametrize(
    "old, new, what",
    [
        ("REPORT CHANGES", "REPORT CHANGES SPECULATE NONE", ["CHANGES IN, REPORT or SPECULATE"]),
        (", CHANGE_NUMBER() AS n", ", LAST(x) AS n", ["MEASURES, with rows already reported under REPORT CHANGES"]),
        ("PATTERN", "\n\nPATTERN", []),
    ],
)
def test_another_changelog_is_told(old, new, what):
    (before, texts), (now, _) = stated(CHANGELOG), stated(CHANGELOG.replace(old, new, 1))
    assert different(before, now, texts, texts) == what


LISTS = TOP.format("ALL MATCHES", "(A B)", SLIDE, 3).replace("AS z", "AS z, CHANGE() AS c").replace("TOP 3", "TOP 3 REPORT CHANGES")
REPORTED = "MEASURES or PREF, with rows already reported under REPORT CHANGES"


@pytest.mark.parametrize(
    "old, new, what",
    [
        ("TOP 3", "TOP 4", ["TOP"]),
        ("MAX (A.x)", "MIN (A.x)", [REPORTED]),
        ("MAX (A.x)", "MAX (A.x * A.x)", [REPORTED]),
        ("AS z", "AS z, MATCH_RANK() AS r", [REPORTED]),
        ("AS z", "AS z, LAST(x) AS x", [REPORTED]),
        (" REPORT CHANGES", "", ["REPORT CHANGES"]),
        ("AS z", "AS y", []),
        ("PATTERN", "\n\nPATTERN", []),
    ],
)
def test_other_lists_do_not_fit_the_reported_changes(old, new, what):
    assert LISTS.count(old) == 1
    plans = [make_plan(parse_clause(text)) for text in (LISTS, LISTS.replace(old, new).replace(", CHANGE() AS c" * (not new), ""))]
    before, now = (json.loads(plan.without_sql().to_json()) for plan in plans)
    assert different(before, now, dict(plans[1].inputs), dict(plans[1].inputs)) == what


def test_lists_of_an_older_version_resume():
    """Its plan lacks the texts that Spark computes of leaves."""
    plan = make_plan(parse_clause(LISTS))
    now = json.loads(plan.without_sql().to_json())
    older = now | {"outputs": [], "ranking": {name: value for name, value in now["ranking"].items() if name != "sequences"} | {"objectives": [], "score": "", "order": []}}
    assert different(older, now, dict(plan.inputs), dict(plan.inputs)) == []
    other = json.loads(make_plan(parse_clause(LISTS.replace("MAX (A.x)", "MAX (sum(x))"))).without_sql().to_json())
    assert different(older, other, dict(plan.inputs), dict(plan.inputs)) == [REPORTED]


def test_lists_of_a_version_without_the_order_of_additions_resume():
    plan = make_plan(parse_clause(LISTS.replace("MAX (A.x)", "MAX (A.x) AND MAX (B.x - A.x)")))
    now = json.loads(plan.without_sql().to_json())
    assert now["ranking"]["scored"] is not None
    assert different(now | {"ranking": now["ranking"] | {"scored": None}}, now, dict(plan.inputs), dict(plan.inputs)) == []


@pytest.mark.parametrize("function, message", [("", "in a subquery below the clause"), ("middle", "middle is computed by Python")])
def test_aggregates_that_are_not_computed_in_a_row(function, message):
    plan = make_plan(parse_clause(LAST_ROWS.format(", median(x) AS m", "", "")))
    with pytest.raises(ClauseError) as error:
        CHECKS["aggregated"]({"plan": plan.to_json(), "function": function})
    assert error.value.error_class == "SPARKCEP.STREAM" and message in str(error.value) and error.value.line
