"""The answers of sparkcep.why without Spark: the worked examples to the letter, and the forms of an answer."""

from __future__ import annotations

import datetime
import gc
import json
import math
import textwrap
from dataclasses import replace
from decimal import Decimal

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.errors import ClauseError
from sparkcep.plan.build import make_plan
from sparkcep.settings import DEFAULT
from sparkcep.tracing.answers import change
from sparkcep.tracing.answers import overall as module
from sparkcep.tracing.answers.differs import UNTRUE
from sparkcep.tracing.answers.explain import Asked, explain
from sparkcep.tracing.answers.hints import Cast, Totals
from sparkcep.tracing.answers.overall import overall
from sparkcep.tracing.answers.values import plain
from sparkcep.tracing.conditions.question import too_many_orders
from sparkcep.tracing.rows.frozen import FrozenRows
from sparkcep.tracing.search.runs import Run
from sparkcep.tracing.search.trace import EVALUATION, Trace
from sparkcep.tracing.streams.explain_key import check_streamed
from tests.support.why_examples import EXAMPLES, Example, frozen, question, totals

BY_NAME = {example.name: example for example in EXAMPLES}


def answered(example: Example, **options):
    """The answer, with the condition evaluated for one ORDER BY key."""
    key = example.names[0]
    asked = question(example.measured)
    rows = frozen(asked, example.names, example.values, key)
    if example.at is None and not example.arguments:
        return overall([rows], totals(rows), replace(DEFAULT, prefilter=False), words={}, **options)
    wanted = None if example.at is None else int(example.at.rpartition(" ")[2])
    at = tuple(i for i, row in enumerate(example.values) if row[0] == wanted)
    return explain(rows, Asked(at, example.arguments.get("match"), example.arguments.get("expect")), **options)


def test_the_head_keeps_the_case_of_names():
    example = Example("", "ORDER BY Day PATTERN (A) DEFINE A AS e = 'x'", "Day e", "1 a", "", "Day = 1")
    assert answered(example).verdict == "Row 1 (Day 1) is in no match."


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_to_the_letter(example):
    why = answered(example)
    assert str(why) == example.text
    assert why.verified and why.verdict == example.text.split("\n")[0]


def test_redaction_leaves_no_value():
    """Equal values get one name. Row numbers, truth, NULL and the statement's literals stay."""
    why = answered(BY_NAME["E1"], redact="values")
    lines = str(why).split("\n")
    assert lines[0] == "Row 1 (day v1) is in no match."
    assert lines[3:5] == ["    DOWN  price < PREV(price)  v3 < v4      true", "          volume > 1000        NULL > 1000  NULL: volume is NULL in row 3"]
    hidden = str(answered(BY_NAME["E1"], redact="all")).split("\n")
    assert hidden[3:5] == ["    DOWN  price < PREV(price)  true", "          volume > 1000        NULL: volume is NULL in row 3"]
    for example in EXAMPLES:
        for level in ("values", "all"):
            why = answered(example, redact=level)
            for shown in why.next:
                assert level != "all" or (shown.left, shown.right) == ("", "")


def test_forms():
    why = answered(BY_NAME["E1"])
    frame = why.to_pandas()
    assert list(frame.columns) == ["partition", "row", "start_row", "role", "variable", "comparison", "left", "right", "result", "cause", "alone"]
    assert frame.values.tolist() == [
        ["", 3, 1, "next", "DOWN", "price < PREV(price)", "8", "9", True, "", False],
        ["", 3, 1, "next", "DOWN", "volume > 1000", "NULL", "1000", None, "volume is NULL in row 3", True],
    ]
    found = json.loads(why.to_json())
    assert found["schema"] == 1 and found["verified"] is True and found["rows"] == [1]
    assert found["reasons"] == [{"reason": "CONDITION_NULL", "row": 3, "start_row": 1, "variable": "DOWN"}]
    assert found["run"] == {"start_row": 1, "rows": 2, "variables": ["STRT", "DOWN"], "ended": 3}


def test_reasons_are_of_the_closed_list():
    reasons = {example.name: [reason.reason for reason in answered(example).reasons] for example in EXAMPLES}
    assert reasons == {
        "E1": ["CONDITION_NULL"], "E2": ["CONDITION_NULL"], "E3": ["PARTITION_END"], "E4": ["WINDOW", "WINDOW"], "E5": ["CONDITION_FALSE"],
        "E6": ["CONDITION_FALSE", "LOST"], "E7": ["RELUCTANT", "PREFERRED"], "E8": ["RELUCTANT"], "E9": ["CONDITION_FALSE", "CONDITION_FALSE"],
        "E10": ["PREFERRED"], "E11": ["CONDITION_FALSE", "CONDITION_FALSE"], "E12": [], "E13": [], "E14": [],
    }  # fmt: skip


def test_a_trace_that_differs_explains_nothing(monkeypatch):
    """If the trace has other matches than the engine, both lists are given, and no reason."""
    monkeypatch.setattr(Trace, "truth", lambda self, comparison, row, run: True)
    why = answered(BY_NAME["E9"])
    assert not why.verified and why.reasons == () and why.next == ()
    assert str(why).split("\n")[0] == UNTRUE
    assert "  Matches of the engine: rows 1-5 (STRT DOWN DOWN UP UP)" in str(why).split("\n")
    report = json.loads(why.report)
    assert report["matches"]["engine"] == [[0, [0, 1, 1, 2, 2], [0, 1, 2, 3, 4]]] and report["plan"]["variables"] == ["STRT", "DOWN", "UP"]
    assert [row["__o0"] for row in report["rows"]] == ["v1", "v2", "v3", "v4", "v5", "v6"] and report["rows"][0]["__y0"] is None
    assert "report" not in json.loads(why.to_json())


@pytest.mark.parametrize("name", ["E12", "E14"])
def test_a_trace_of_a_sample_that_differs_explains_nothing(name, monkeypatch):
    monkeypatch.setattr(Trace, "truth", lambda self, comparison, row, run: True)
    why = answered(BY_NAME[name])
    assert not why.verified and why.culprits == why.near == why.hints == ()
    assert str(why).split("\n")[0] == UNTRUE and json.loads(why.report)["matches"]["trace"]


@pytest.mark.parametrize("name, question", [("E1", "a change"), ("E12", "a culprit")])
def test_a_change_that_the_engine_denies_explains_nothing(name, question, monkeypatch):
    """Rule 27 holds for changes, too: one at a row, and one at all rows."""
    monkeypatch.setattr(change, "changed_matches", lambda *arguments: [])
    monkeypatch.setattr(module, "matches_changed", lambda *arguments: [])
    why = answered(BY_NAME[name])
    assert not why.verified and why.next == () and str(why).split("\n")[0] == UNTRUE
    report = json.loads(why.report)
    assert report["change"].startswith('"volume > 1000" true at ') and report["matches"]["engine"] == [] != report["matches"]["trace"]
    assert f"  With {report['change']}:" in str(why).split("\n")


@pytest.mark.parametrize(
    "example, arguments, message",
    [
        ("E9", {"match": 4}, "match=4: the partition has 1 match. Write match=1"),
        ("E10", {"expect": "C"}, "expect='C' is not a variable of PATTERN"),
        ("E9", {"expect": "DOWM"}, "expect='DOWM' is not a variable of PATTERN; did you mean DOWN?"),
    ],
)
def test_wrong_questions(example, arguments, message):
    chosen = BY_NAME[example]
    asked = Example(chosen.name, chosen.clause, chosen.columns, chosen.rows, "", "day = 2" if example == "E9" and "expect" in arguments else chosen.at, arguments)
    with pytest.raises(ClauseError, match="WHY") as caught:
        answered(asked)
    assert message in caught.value.message


@pytest.mark.parametrize(
    "option, what",
    [
        ("PATTERN (A B) DEFINE A AS v > 1, B AS rand() < 0.5", "rand()"),
        ("PATTERN (A B) DEFINE B AS v > PREV(v) AND concat(uuid( ), s) > '5'", "uuid( )"),
        ("PATTERN (A B) DEFINE B AS v > rand(5)", "rand(5)"),
        ("PATTERN (A B) DEFINE B AS v > uniform(0, 9)", "uniform(0, 9)"),
    ],
)
def test_options_that_are_not_explained(option, what):
    """Such an option is refused at its place, with the words to leave out."""
    with pytest.raises(ClauseError) as caught:
        question(f"ORDER BY t MEASURES 1 AS one {option}")
    assert (caught.value.error_class, caught.value.line) == ("SPARKCEP.WHY", 1)
    assert f"Leave {what} out" in caught.value.message


TIMES = [1_700_000_000_000 + 60_000 * i for i in range(6)]
HINTS = [
    (
        "TEXT_NUMBERS", "ORDER BY t PATTERN (A UP{3}) DEFINE UP AS price > PREV(price)", ["t", "price"], [(1, "9"), (2, "10"), (3, "100"), (4, "1")],
        """Hint: "price > PREV(price)" compares text, and 100 % of the values of price are numbers. As text '9' > '10'. Write CAST(price AS DOUBLE).""",
    ),
    (
        "TEXT_NUMBERS of the match", "ORDER BY t PATTERN (A UP{3}) DEFINE UP AS UP.price > LAST(A.price)", ["t", "price"], [(1, "9"), (2, "10"), (3, "100"), (4, "x")] + [(i, "5") for i in range(5, 30)],
        """Hint: "UP.price > LAST(A.price)" compares text, and 96 % of the values of price are numbers. As text '9' > '10'. Write CAST(price AS DOUBLE).""",
    ),
    (
        "TEXT_NUMBERS in ORDER BY", "ORDER BY t PATTERN (A{9})", ["t"], [("1",), ("10",), ("9",)],
        "Hint: ORDER BY t sorts text, and 100 % of its values are numbers. As text '10' comes before '9'. Write CAST(t AS DOUBLE).",
    ),
    ("texts with equal digits", "ORDER BY t PATTERN (A UP{3}) DEFINE UP AS code > PREV(code)", ["t", "code"], [(1, "09"), (2, "10"), (3, "08")], None),
    ("texts that are not numbers", "ORDER BY t PATTERN (A UP{3}) DEFINE UP AS code > 'b'", ["t", "code"], [(1, "9"), (2, "10"), (3, "abc")], None),
    (
        "WINDOW_UNITS", "ORDER BY t WINDOW 300 PATTERN (A B) DEFINE A AS e = 'a', B AS e = 'b'", ["t", "e"], [(t, "ab"[i % 2]) for i, t in enumerate(TIMES)],
        "Hint: neighbouring rows are 60000 apart in t (the median), so WINDOW 300 is often too short for two rows. t has 13 digits, which look like milliseconds: "
        "300 seconds are WINDOW 300000.",
    ),
    (
        "WINDOW_UNITS of a group", "ORDER BY t PATTERN (A (B C) WITHIN 5) DEFINE B AS e = 'b'", ["t", "e"], [(0, "a"), (10, "b"), (20, "a")],
        "Hint: neighbouring rows are 10 apart in t (the median), so WITHIN 5 is often too short for two rows.",
    ),
    ("infinities in ORDER BY", "ORDER BY t WINDOW 3 PATTERN (A B) DEFINE B AS e = 'c'", ["t", "e"], [(-math.inf, "a"), (1.0, "b"), (math.inf, "a"), (math.inf, "b")], None),
    ("a WINDOW that is long", "ORDER BY t WINDOW 11 PATTERN (A B) DEFINE B AS e = 'c'", ["t", "e"], [(0, "a"), (10, "b"), (20, "a")], None),
    ("CASE_ONLY in a list", "ORDER BY t PATTERN (A) DEFINE A AS e IN ('X', 'OK ')", ["t", "e"], [(0, "ok"), (10, "b"), (20, "ok")],
     "Hint: e is never 'OK '; it is 'ok' in 2 rows. They differ only in case or blanks."),
    ("no ORDER BY", "PATTERN (A B) DEFINE B AS e = 'c'", ["t", "e"], [(0, "a"), (1, "b")], "Hint: the clause lacks ORDER BY, so the order of rows depends on chance."),
    ("ADJACENT with PREV", "ORDER BY t PATTERN (A B) DEFINE A AS e = 'a' AND t > PREV(t), B AS e = 'b'", ["t", "e"], [(0, "x"), (1, "a"), (2, "x"), (3, "b")],
     "With EVENT SELECTION SKIP TILL NEXT MATCH there would be 1 match: rows between are passed over."),
    ("ADJACENT in a WINDOW", "ORDER BY t WINDOW 4 PATTERN (A B) DEFINE A AS e = 'a', B AS e = 'b'", ["t", "e"], [(0, "a"), (1, "x"), (2, "b"), (3, "a"), (4, "x"), (9, "b")],
     "With EVENT SELECTION SKIP TILL NEXT MATCH there would be 1 match: rows between are passed over."),
    ("nothing ADJACENT", "ORDER BY t WINDOW 4 PATTERN (A B) DEFINE A AS e = 'a', B AS e = 'b'", ["t", "e"], [(0, "a"), (1, "x"), (5, "b")], None),
]  # fmt: skip


@pytest.mark.parametrize("clause, names, values, hint", [pytest.param(*case[1:], id=case[0]) for case in HINTS])
def test_hints(clause, names, values, hint):
    asked = question(clause.replace("PATTERN", "MEASURES 1 AS one PATTERN", 1) if "WINDOW" not in clause else clause.replace("WINDOW", "MEASURES 1 AS one WINDOW"))
    rows = frozen(asked, names, values, names[0])
    why = overall([rows], totals(rows), replace(DEFAULT, prefilter=False), words={})
    assert [hint for hint in why.hints if not hint.startswith("Hint: without")] == ([] if hint is None else [hint])
    assert all(hint in str(why).split("\n") for hint in why.hints)


def hinted(totals: Totals, clause: str = "ORDER BY t MEASURES 1 AS one PATTERN (A{9}) DEFINE A AS t > 5") -> tuple[str, ...]:
    rows = frozen(question(clause), ["t"], [(1,), (2,)], "t")
    return overall([rows], totals, DEFAULT, words={}).hints


def test_hints_of_counts():
    """Hints of the counts that Spark makes over all rows."""
    assert hinted(Totals(40, 20, single=18)) == ()
    assert hinted(Totals(40, 20, single=19)) == ("Hint: 19 of 20 partitions are one row. PARTITION BY may name a column that differs in every row.",)
    assert hinted(Totals(20, 20, single=20, null_keys=1, ties=2)) == (
        "Hint: 2 rows equal to another row in PARTITION BY and ORDER BY, so their order depends on chance.",
        "Hint: each of the 20 partitions is one row. PARTITION BY may name a column that differs in every row.",
        "Hint: 1 row with a NULL key in PARTITION BY; such rows are one partition.",
    )
    truths = {0: (1, 4, 3)}
    assert hinted(Totals(8, 1, truths, casts={0: Cast("t", "STRING", "BIGINT")})) == ('Hint: in "t > 5" Spark casts t from STRING to BIGINT; it is true in 1 of 8 rows, NULL in 3.',)
    for side, of, text in (
        ("t", "STRING", "t"),
        ("'2026-01-01'", "STRING", "the text '2026-01-01'"),
        ("d", "DATE", "d as midnight"),
    ):
        hint = f'Hint: in "t > 5" Spark reads {text} in the time zone of the session, UTC; it is true in 1 of 8 rows.'
        assert hinted(Totals(8, 1, truths, casts={0: Cast(side, of, "TIMESTAMP")})) == (hint,)
    for side in ("'2026-01-01 00:00:00Z'", "'2026-01-01 00:00:00+02:00'", "'2026-01-01 00:00:00 Europe/Berlin'"):
        assert hinted(Totals(8, 1, truths, casts={0: Cast(side, "STRING", "TIMESTAMP")})) == ()


def test_hints_show_no_value_under_redaction():
    for name, clause, names, values, hint in HINTS:
        if hint is not None and name.startswith(("WINDOW_UNITS", "CASE_ONLY")):
            asked = question(clause.replace("WINDOW", "MEASURES 1 AS one WINDOW") if "WINDOW" in clause else clause.replace("PATTERN", "MEASURES 1 AS one PATTERN"))
            found, *_ = overall([frozen(asked, names, values, names[0])], totals(frozen(asked, names, values, names[0])), DEFAULT, words={}, redact="values").hints
            assert " v1 " in found and "60000 " not in found and "'ok'" not in found


def test_ties_of_shown_rows():
    """Equal rows in what is shown are named; those elsewhere are not."""
    values = [(1, "a"), (1, "b"), (2, "a"), (3, "a"), (4, "a"), (4, "b")]
    asked = question("ORDER BY t PATTERN (A B C) DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c'")
    first, last = (explain(frozen(asked, ["t", "e"], values, "t, e"), Asked((row,))) for row in (0, 2))
    assert first.hints == ("Hint: rows 1-2 are equal in ORDER BY (t 1), so their order depends on chance.",)
    assert str(first).split("\n")[-1] == first.hints[0]
    assert last.hints == ()


def test_columns_that_define_names():
    """The variable of CLASSIFIER is not a column."""
    asked = question("ORDER BY t PATTERN (A B) DEFINE B AS CLASSIFIER(A) = 'A' AND LAST(CLASSIFIER(A)) = s AND A.t < 5")
    assert [name for name, _ in asked.named] == ["s", "t"]


def test_a_lambda_is_not_a_side():
    """Spark cannot compute it as a column of its own."""
    asked = question("ORDER BY t PATTERN (A B) DEFINE A AS exists(prices, x -> x > 1), B AS t > 1 AND forall(prices, x -> x > B.t)")
    assert [[asked.values[side].text for side in comparison.sides] for comparison in asked.comparisons] == [["prices"], ["t"], ["prices"]]


FURTHER = [
    (  # before and after a match, a match without the row, and the row of another match
        "ORDER BY t PATTERN (A B+ C?) DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c'", [(1, "x"), (2, "a"), (3, "b"), (4, "b"), (5, "b"), (6, "b"), (7, "d"), (8, "a")], {"match": 1},
        {
            1: "Row 1 (t 1) is not in match 1, which takes rows 2-6: A B x4.\n"
            "It lies before the match's first row. A match starts at the earliest row where one is found:",
            2: "Row 2 (t 2) is in match 1.\nMatch 1 takes rows 2-6: A B x4.\n  row 2  A  no other choice",
            7: "Row 7 (t 7) is not in match 1, which takes rows 2-6: A B x4.\n  B would go on, and does not take row 7:\n    e = 'b'  'd' = 'b'  false",
            8: "Row 8 (t 8) is not in match 1, which takes rows 2-6: A B x4.\nThe match had ended before: at row 7.",
        },
    ),
    (
        "ORDER BY t PATTERN (A B) DEFINE A AS e = 'a', B AS t > 5 + NEXT(t)", [(1, "a"), (2, "b")], {},
        {1: "Row 1 (t 1) is in no match.\nNo match starts here. The run that got farthest took row 1: A.\n  It ended at row 2 (t 2). The pattern lets come next:\n"
            "    B  t > 5 + NEXT(t)  2 > NULL  NULL: NEXT(t) looks past the partition's last row"},
    ),
    (
        "ORDER BY t PATTERN (A B) DEFINE A AS e = 'a', B AS e = 'b'", [(1, "b"), (2, "a")], {"expect": "B"},
        {1: "Row 1 (t 1) is not B: no run lets B come at this row. The runs that reach it let come A."},
    ),
    (  # another derivation leads to the match
        "ORDER BY t PATTERN (A B C | A B D) DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c', D AS e = 'd'", [(1, "a"), (2, "b"), (3, "d")], {"expect": "B"},
        {2: "Row 2 (t 2) is B.\nThe run of row 1 (A) lets B come here:\n  e = 'b'  'b' = 'b'  true"},
    ),
    (  # another derivation would lead to a match, and only that one lets F come
        "ORDER BY t PATTERN (A B C | A D | A B F) DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c', D AS e = 'b', F AS e = 'f'", [(1, "a"), (2, "b"), (3, "f")], {"expect": "B"},
        {2: "Row 2 (t 2) is not B.\nThe run of row 1 (A) lets B come here:\n  e = 'b'  'b' = 'b'  true\n  B was not tried: D is preferred here and leads to match 1."},
    ),
    (
        "ORDER BY t PATTERN (A B C | A D | A B F) DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c', D AS e = 'b', F AS e = 'f'", [(1, "a"), (2, "b"), (3, "f")], {"expect": "F"},
        {3: "Row 3 (t 3) is not F.\nThe run of rows 1-2 (A B) lets F come here:\n  e = 'f'  'f' = 'f'  true\n  F was not tried: D is preferred at row 2 and leads to match 1."},
    ),
    (
        "ORDER BY t PATTERN (A B+? | A B C D) DEFINE A AS e = 'a', B AS e = 'b'", [(1, "a"), (2, "b"), (3, "c"), (4, "d")], {"expect": "D"},
        {4: "Row 4 (t 4) is not D.\nThe run of rows 1-3 (A B C) lets D come here:\n  any row (not in DEFINE)\n  D was not tried: the end of the match is preferred at row 3 and leads to match 1."},
    ),
    (
        "ORDER BY t PATTERN (A B) WINDOW 2 DEFINE A AS e = 'a', B AS e = 'b'", [(1, "a"), (3, "b"), (4, "a"), (5, "b")], {},
        {3: "Row 3 (t 4) is in match 1 as A.\nMatch 1 takes rows 3-4: A B.\n  row 3  A  no other choice\n  row 4  B  no other choice"},
    ),
    (
        "ORDER BY t WINDOW 2 ROWS PATTERN (A B C) DEFINE A AS e = 'a', B AS e = 'b'", [(1, "a"), (2, "b"), (3, "c")], {},
        {1: "Row 1 (t 1) is in no match.\nNo match starts here. The run that got farthest took rows 1-2: A B.\n"
            "  It ended at row 3 (t 3): the row is outside of WINDOW 2 ROWS (row 3 - row 1 = 2, and 2 < 2 is false)."},
    ),
    (
        "ORDER BY t PATTERN (A) DEFINE A AS e > PREV(e)", [(1, None), (2, "b")], {},
        {2: "Row 2 (t 2) is in no match.\nNo match starts here: no variable that may come first takes the row.\n  The pattern lets come first:\n"
            "    A  e > PREV(e)  'b' > NULL  NULL: e is NULL in row 1"},
    ),
    (
        "ORDER BY t PATTERN (A) DEFINE A AS t > 1 AND (e = 'b' OR e = 'c')", [(1, "a")], {},
        {1: "Row 1 (t 1) is in no match.\nNo match starts here: no variable that may come first takes the row.\n  The pattern lets come first:\n"
            "    A  t > 1    1 > 1      false\n       e = 'b'  'a' = 'b'  false\n       e = 'c'  'a' = 'c'  false\n       needs t > 1 and e = 'b'; or t > 1 and e = 'c'"},
    ),
    (
        "ORDER BY t PATTERN (A (B C) WITHIN 5) DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c'", [(None, "a"), (None, "b"), (3, "c")], {},
        {1: "Row 1 (t NULL) is in no match.\nNo match starts here. The run that got farthest took row 1: A.\n  It ended at row 2 (t NULL). The pattern lets come next:\n"
            "    B  t is NULL in row 2, so WITHIN 5 cannot place the row"},
    ),
    (
        "ORDER BY t PATTERN ((A B?) WITHIN 5) DEFINE A AS e = 'a', B AS e = 'b'", [(None, "b"), (1, "a"), (9, "b")], {"match": 1},
        {3: "Row 3 (t 9) is not in match 1, which takes row 2: A.\n  B would go on; row 3 is outside of WITHIN."},
    ),
]  # fmt: skip
TABLE = """
    No match in 11 rows of 1 partition.
    Conditions, over all rows:
                  true  false  NULL
      A  e = 'a'     4      7     0
         v > 0       8      3     0
      B  e = 'b'     3      8     0
         v > 1       4      7     0
      C  e = 'c'     4      7     0
    How far the runs of 11 start rows got:
      A           3  #####
      B           0
      C           0
      a match     0
    They ended because a condition was false (11).
    Culprit: "v > 1" of B alone stops 2 start rows; were it always true, there would be 2 matches.
    Then: "v > 0" of A alone stops 1 start row; were it always true, there would be 1 match.
    Then: "e = 'a'" of A alone stops 5 start rows; were it always true, there would be 0 matches.
    With EVENT SELECTION SKIP TILL NEXT MATCH there would be 1 match: rows between are passed over.
    Nearest misses (one error):
      rows 1-2: A C; B missing after row 1
      rows 3-5: A B C; row 4 taken as B
      rows 6-8: A B C; row 7 taken as B
      and 2 more"""


def test_further_answers():
    """The first lines of answers that the worked examples lack, and an answer about a table with several culprits."""
    clause = "ORDER BY t PATTERN (A B C) DEFINE A AS e = 'a' AND v > 0, B AS e = 'b' AND v > 1, C AS e = 'c'"
    values = [("a", 5), ("c", 5), ("a", 1), ("b", 1), ("c", 0), ("a", 1), ("b", 1), ("c", 0), ("a", 0), ("b", 2), ("c", 2)]
    rows = frozen(question(clause), ["t", "e", "v"], [(t, *row) for t, row in enumerate(values, 1)], "t")
    assert str(overall([rows], totals(rows), replace(DEFAULT, prefilter=False), words={})) == textwrap.dedent(TABLE).strip()
    rows = frozen(question("ORDER BY t PATTERN (A B C) DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c'"), ["t", "e"], [(1, "a"), (2, "b"), (3, "a")], "t")
    assert overall([rows], totals(rows), DEFAULT, words={}).funnel == (("A", 2), ("B", 1), ("C", 0), ("a match", 0))
    for clause, values, words, texts in FURTHER:
        asked = question(clause.replace("PATTERN", "MEASURES 1 AS one PATTERN", 1) if "WINDOW 2 ROWS" not in clause else clause.replace("WINDOW", "MEASURES 1 AS one WINDOW"))
        for row, text in texts.items():
            why = explain(frozen(asked, ["t", "e"], values, "t"), Asked((row - 1,), words.get("match"), words.get("expect")))
            assert str(why)[: len(text)] == text


@pytest.mark.parametrize(
    "clause, hint",
    [
        ("PATTERN (^ A B) DEFINE A AS v = 5, B AS v = 6", "Hint: without ^ there would be 1 match."),
        ("PATTERN ((A B $ | A A)+) DEFINE A AS v = 5, B AS v = 6", "Hint: without $ there would be 1 match."),
        ("PATTERN (^ B A $ ) DEFINE A AS v = 7, B AS v = 6", "Hint: without ^ and $ there would be 1 match."),
        ("WINDOW 2 PATTERN (A+ B) DEFINE A AS v < 7, B AS v = 7", "Hint: without WINDOW 2 there would be 1 match."),
        ("WINDOW 2 PATTERN (A C) DEFINE A AS v < 7, C AS v = 9", None),
        ("WINDOW 3 PATTERN (^ A B) DEFINE A AS v = 4, B AS v = 5", None),
    ],
)
def test_hints_about_anchors_and_windows(clause, hint):
    """Each is verified by the engine over the sample. A clause that matches gives none."""
    why = answered(Example("", f"ORDER BY t {clause}", "t v", "1 4; 2 5; 4 6; 7 7; 9 3", ""))
    assert [line for line in why.hints if line.startswith("Hint: without")] == ([hint] if hint else [])


def test_a_partition_that_is_cut():
    """NEXT of the last row reads one that is not there. The engine reads Spark's column then, like the trace."""
    rows = frozen(question("ORDER BY t PATTERN (A{2} B?) DEFINE A AS NEXT(t) > t, B AS t > 9"), ["t"], [(t,) for t in range(6)], "t")
    part = FrozenRows(rows.question, rows.table.slice(0, 4), size=5)
    why = overall([part], totals(part), DEFAULT, words={})
    assert why.verified and why.verdict == "2 matches in 4 rows of 1 partition."
    part = FrozenRows(rows.question, rows.table.slice(0, 3), size=4)
    assert "They ended because the sample ended (1)." in overall([part], totals(part), DEFAULT, words={}).lines


@pytest.mark.further
def test_runs_are_dropped():
    """Conditions on the match need a run for each row and start row. A trace keeps none of them, and an answer finds them again."""
    part = frozen(question("ORDER BY t PATTERN (A+ B) DEFINE A AS v >= 0, B AS v > 1000 + count(A.*)"), ["t", "v"], [(t, t % 7) for t in range(60)], "t")
    traced = Trace(part.pattern(), part)
    assert sum(search.steps for search in traced.searches.values()) > 60 * 30

    def runs() -> int:
        return sum(type(one) is Run for one in gc.get_objects())

    gc.collect()
    gc.disable()  # runs are dropped at once, without a collection
    try:
        before = runs()
        traced = Trace(part.pattern(), part)
        ended = traced.searches[0].farthest()
        assert ended is not None and len(ended.rows) == 60 and runs() < before + 200
    finally:
        gc.enable()
    why = explain(part, Asked((59,)))
    assert why.verified and str(why).split("\n")[1:3] == ["No match starts here. The run that got farthest took row 60: A.", "  It ended because the partition ends after row 60. A or B should come next."]


def test_few_steps():
    """If all start rows need too many steps, a table has the engine's number of matches, and a match may lack an answer."""
    clause = "ORDER BY t PATTERN (A+ B) DEFINE A AS v BETWEEN 0 AND 9, B AS v > 1000 + count(A.*)"
    values = [*((t, 5) for t in range(40)), (40, -1), *((t, 5 if t % 2 else 2000) for t in range(41, 61))]
    part = frozen(question(clause), ["t", "v"], values, "t")
    trace = Trace(part.pattern(), part, max_steps=200)
    assert trace.given_up and not trace.matches
    assert [(search.steps, search.evaluated) for search in trace.searches.values()] == [(80, 40), (78, 39), (76, 38)]  # the condition of A is a column
    assert sum(search.cost for search in trace.searches.values()) == 2 * 117 + EVALUATION * 117 > 2 * 200
    why = overall([part], totals(part), DEFAULT, words={}, max_steps=200)
    assert str(why).split("\n")[:2] == [
        "10 matches in 61 rows of 1 partition.",
        "Traces end after 3 start rows, because further ones take too many steps. Raise spark.sparkcep.why.maxSteps, or add a WINDOW.",
    ]
    assert [reason.reason for reason in why.reasons] == ["EFFORT"] and not any("SKIP TILL" in hint for hint in why.hints)
    for asked, text in ((Asked((45,)), "Row 46 (t 45)"), (Asked(match=2), "Match 2")):
        lines = explain(part, asked, max_steps=200).lines
        assert lines[0] == f"{text} is not answered." and lines[1].startswith("The search from row 3 takes more than 200 steps, or all searches twice as many.")
    assert overall([part], totals(part), DEFAULT, words={}).lines[0] == "10 matches in 61 rows of 1 partition."
    asked = question("ORDER BY t PATTERN (A+ B C) DEFINE A AS v >= 0, B AS v = 5, C AS v = 6")
    part = frozen(asked, ["t", "v"], [(t, v) for t, v in enumerate((0, 0, 0, 0, 5, 6, 0, 0, 0, 0), 1)], "t")
    for steps, line in ((13, "Row 5 (t 5) is not answered."), (100, "Row 5 (t 5) is not C: no run lets C come at this row. The runs that reach it let come A, B.")):
        assert explain(part, Asked((4,), expect="C"), max_steps=steps).lines[0] == line


def test_a_path_is_found_again():
    """A search keeps the rows of its match, and finds their states again for its decisions."""
    part = frozen(question("ORDER BY t PATTERN (A+ B) DEFINE A AS v >= 0, B AS v > count(A.*)"), ["t", "v"], [(1, 1), (2, 1), (3, 9)], "t")
    search = Trace(part.pattern(), part).searches[0]
    assert search.match is not None and [move.row for _, move in search.path[:-1]] == list(search.match.rows) == [0, 1, 2]
    first = search.path
    search.forget()
    assert [(node.state, node.row, move) for node, move in search.path] == [(node.state, node.row, move) for node, move in first]


def test_a_long_permute():
    """Its elements are chosen one by one: ten of them have 1,024 sets, and 3,628,800 orders."""
    names = "ABCDEFGHIJ"
    clause = f"ORDER BY t PATTERN (PERMUTE({', '.join(names)}) X) DEFINE X AS e = 'x', {', '.join(f'{name} AS e = {name.lower()!r}' for name in names)}"
    found, missing = (frozen(question(clause), ["t", "e"], list(enumerate(letters, 1)), "t") for letters in ("jihgfedcbax", "jihgfedcbxx"))
    assert explain(found, Asked(match=1)).lines[0] == "Match 1 takes rows 1-11: J I H G F E D C B A X."
    assert explain(missing, Asked((0,))).lines[1:4] == (
        "No match starts here. The run that got farthest took rows 1-9: J I H G F E D C B.", "  It ended at row 10 (t 10). The pattern lets come next:", "    A  e = 'a'  'x' = 'a'  false",
    )  # fmt: skip
    with pytest.raises(ClauseError, match="a PERMUTE of 10 elements with quantifiers or alternatives"):
        question(clause.replace("A, ", "A+, ", 1))


@pytest.mark.parametrize(
    "clause, refused",
    [
        ("PATTERN (PERMUTE(A?, B?, C?, D?, E?, F?))", ""), ("PATTERN (PERMUTE(A?, B?, C?, D?, E?, F?, G?))", "7 elements with quantifiers or alternatives"),
        ("PATTERN (PERMUTE(A, B, C, D, E, F, G, (H | I)))", ""), ("PATTERN (PERMUTE(A, B, C, D, E, F, G, H, (I | J)))", "9 elements with quantifiers or alternatives"),
        ("EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (PERMUTE(A, B, C, D, E, F, G, H) X)", ""),
        ("EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (PERMUTE(A, B, C, D, E, F, G, H, I) X)", "9 elements under SKIP TILL"),
        ("EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (X ~(PERMUTE(A, B, C, D, E, F, G, H, I)) Y)", "9 elements under SKIP TILL"),
    ],
)
def test_orders_that_are_too_many(clause, refused):
    plan = make_plan(parse_clause(f"ORDER BY t MEASURES 1 AS one {clause}"))
    assert too_many_orders(plan) == (refused and f"a PERMUTE of {refused}")
    if refused:
        with pytest.raises(ClauseError, match=f"the state of a clause with a PERMUTE of {refused} over a stream"):
            check_streamed(plan)


def test_a_variable_that_is_missing_before_the_first_row():
    asked = question("ORDER BY t MEASURES 1 AS one PATTERN (A B) DEFINE A AS e = 'a', B AS e = 'b'")
    rows = frozen(asked, ["t", "e"], [(1, "b"), (2, "x"), (3, "b")], "t")
    assert "  row 1: B; A missing before row 1" in overall([rows], totals(rows), DEFAULT, words={}).lines


@pytest.mark.parametrize(
    "value, text",
    [
        (Decimal("0E-10"), "0.0000000000"), (Decimal("-1E-8"), "-0.00000001"), (datetime.timedelta(seconds=-1), "-0:00:01"), (datetime.timedelta(days=2), "2 days, 0:00:00"),
        ({"x": None, "y": [None, 1.0]}, "{x: NULL, y: [NULL, 1]}"),
    ],
)  # fmt: skip
def test_values_as_text(value, text):
    assert plain(value) == text
