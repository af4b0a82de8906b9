"""sparkcep.why over streams without Spark: the state of a key, explained."""

from __future__ import annotations

import json
import re

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.errors import ClauseError
from sparkcep.plan.build import make_plan
from sparkcep.tracing.streams.explain_key import KeyState, check_streamed, explain_key, no_state
from sparkcep.tracing.streams.stored import StoredRows
from tests.support.stored_keys import StoredKey, micros

LOGINS = "PARTITION BY user ORDER BY ts PATTERN (L F+) WINDOW INTERVAL '5' MINUTE DEFINE L AS e = 'login', F AS e = 'fail'"
ROWS = [("12:00:10", "login"), ("12:01:00", "fail"), ("12:03:05", "fail")]


def stored(clause: str = LOGINS, rows=ROWS, watermark: str = "12:03:00", columns: str = "user e", idle: int = 0) -> StoredKey:
    key = StoredKey(clause, columns, idle)
    return key.advance(micros(watermark), [(micros(at), 7, *values) if columns.startswith("user") else (micros(at), *values) for at, *values in rows])


def explained(key: StoredKey, watermark: str = "12:03:00", redact: str = "", of: dict | None = None, **more):
    state = KeyState(key.state, {"user": 7} if of is None else of, 41, micros(watermark), **more)
    return explain_key(key.stream, state, words={"at": "user = 7"}, rows=10_000, redact=redact)


def test_e16():
    why = explained(stored())
    assert str(why) == """\
user = 7, after micro-batch 41, watermark 12:03:00. 3 rows are stored, 12:00:10 to 12:03:05.
Rows 1-2 (12:00:10, 12:01:00) match: L F. The match is not emitted: F+ may go on until WINDOW closes at 12:05:10.
Row 3 (12:03:05) waits: it is not below the watermark."""
    assert why.verified and [(reason.reason, reason.row) for reason in why.reasons] == [("OPEN", 0), ("WATERMARK", 3)]


DEFINED = "DEFINE L AS e = 'login', F AS e = 'fail'"
TEXTS = {
    "no WINDOW": (
        f"PATTERN (L F+) {DEFINED}", ROWS,
        ["Rows 1-2 (12:00:10, 12:01:00) match: L F. The match is not emitted: F+ may go on with the key's next row.", "Row 3 (12:03:05) waits: it is not below the watermark."],
    ),
    "a run": (
        f"PATTERN (L F F) WINDOW INTERVAL '5' MINUTE {DEFINED}", ROWS[:2],
        ["Rows 1-2 (12:00:10, 12:01:00) may begin a match: L F. F may come until WINDOW closes at 12:05:10."],
    ),
    "rows": (f"PATTERN (L F{{2,3}}) WINDOW 5 ROWS {DEFINED}", ROWS[:2], ["Rows 1-2 (12:00:10, 12:01:00) may begin a match: L F. F{2,3} may go on until WINDOW has 5 rows."]),
    "a preferred run": (
        f"PATTERN (L F X F | L) WINDOW INTERVAL '5' MINUTE {DEFINED}, X AS e = 'x'", ROWS[:2],
        ["Row 1 (12:00:10) matches: L. The match is not emitted: rows 1-2 may match instead (L F), and X may come until WINDOW closes at 12:05:10."],
    ),
    "a reluctant part": (f"PATTERN (L F+?) WINDOW INTERVAL '5' MINUTE {DEFINED}", ROWS[:1], ["Row 1 (12:00:10) may begin a match: L. F+? may come until WINDOW closes at 12:05:10."]),
    "several": (
        f"PATTERN (L F* X?) WINDOW INTERVAL '5' MINUTE {DEFINED}, X AS e = 'x'", ROWS[:2],
        ["Rows 1-2 (12:00:10, 12:01:00) match: L F. The match is not emitted: F* may go on or X? may come until WINDOW closes at 12:05:10."],
    ),
    "WITHIN": (
        f"PATTERN (L ((F F) WITHIN INTERVAL '3' MINUTE)?) WINDOW INTERVAL '5' MINUTE {DEFINED}", ROWS[:2],
        ["Row 1 (12:00:10) matches: L. The match is not emitted: rows 1-2 may match instead (L F), and F may come until WITHIN closes at 12:04:00. "
         "The search is decided when WINDOW closes at 12:05:10."],
    ),
    "NEXT": (
        "PATTERN (L F) WINDOW INTERVAL '5' MINUTE DEFINE L AS e = 'login' AND NEXT(e, 2) = 'x', F AS e = 'fail'", ROWS[:2],
        ["Row 1 (12:00:10) may begin a match. NEXT reads rows that have not come."],
    ),
    "NEXT in MEASURES": (
        f"MEASURES NEXT(e) AS n PATTERN (L F) {DEFINED}", ROWS[:2],
        ["Rows 1-2 (12:00:10, 12:01:00) match: L F. The match is not emitted: NEXT reads rows that have not come."],
    ),
    "later matches": (
        f"PATTERN (L+ F | L) WINDOW INTERVAL '5' MINUTE {DEFINED}", [(f"12:00:{second}", "login") for second in range(10, 60, 10)],
        ["Row 1 (12:00:10) matches: L. The match is not emitted: rows 1-5 may match instead (L x5), and L+ may go on or F may come until WINDOW closes at 12:05:10.",
         *(f"Row {n} (12:00:{n}0) matches: L. The match is not emitted: the search from row 1 is undecided." for n in (2, 3, 4)), "1 more match waits, too."],
    ),
    "PREV": (
        "PATTERN (U+) WINDOW INTERVAL '5' MINUTE DEFINE U AS e > PREV(e)", [("12:00:10", "a"), ("12:00:20", "b"), ("12:01:10", "b"), ("12:02:00", "c")],
        ["Row 1 (12:01:10) is decided, and stored because later rows look back at it.", "Row 2 (12:02:00) matches: U. The match is not emitted: U+ may go on until WINDOW closes at 12:07:00."],
    ),
    "another day": (
        f"PATTERN (L F+) WINDOW INTERVAL '1' DAY {DEFINED}", ROWS[:1],
        ["Row 1 (2026-01-01 12:00:10) may begin a match: L. F+ may come until WINDOW closes at 2026-01-02 12:00:10."],
    ),
    "only waiting rows": (LOGINS.partition("ts ")[2], [("12:03:05.5", "login"), ("12:03:06", "x")], ["Rows 1-2 (12:03:05.5, 12:03:06) wait: they are not below the watermark."]),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name):
    clause, rows, lines = TEXTS[name]
    why = explained(stored(f"PARTITION BY user ORDER BY ts {clause}", rows))
    assert why.lines[1:] == tuple(lines) and why.verified
    assert why.lines[0].startswith("user = 7, after micro-batch 41, watermark ") and f"{len(rows) if name != 'PREV' else 2} row" in why.lines[0]


APART = [("12:00:10", "login"), ("12:00:40", "x"), ("12:01:00", "fail"), ("12:01:30", "login"), ("12:02:00", "fail")]
WIDE = f"WINDOW INTERVAL '5' MINUTE {DEFINED}"
SELECTED = {
    "a run": ("SKIP TILL NEXT MATCH FIRST MATCH PATTERN (L F F F)", "", ["Rows 1, 3 and 5 (12:00:10 to 12:02:00) may begin a match: L F F. F may come until WINDOW closes at 12:05:10."]),
    "any row": (
        "SKIP TILL ANY MATCH FIRST MATCH PATTERN (L F+)", "",
        ["Rows 1, 3 and 5 (12:00:10 to 12:02:00) match: L F F. The match is not emitted: F+ may go on until WINDOW closes at 12:05:10."],
    ),
    "negation after the match": (
        "SKIP TILL NEXT MATCH FIRST MATCH PATTERN (L F ~C)", ", C AS e = 'c'",
        ["Rows 1 and 3 (12:00:10 to 12:01:00) match: L F. The match is not emitted: ~C looks at later rows until WINDOW closes at 12:05:10.",
         "Rows 4-5 (12:01:30, 12:02:00) match: L F. The match is not emitted: the search from row 1 is undecided."],
    ),
    "ALL MATCHES": (
        "SKIP TILL ANY MATCH ALL MATCHES PATTERN (L F F F)", "",
        ["Rows 1, 3 and 5 (12:00:10 to 12:02:00) may begin a match: L F F. F may come until WINDOW closes at 12:05:10.",
         "Rows 4-5 (12:01:30, 12:02:00) may begin a match: L F. F may come until WINDOW closes at 12:06:30."],
    ),
    "numbered": (
        "SKIP TILL NEXT MATCH ALL MATCHES PATTERN (L F)", "",
        ["Rows 1 and 3 (12:00:10 to 12:01:00) match: L F. The match is not emitted before WINDOW closes at 12:05:10.",
         "Rows 4-5 (12:01:30, 12:02:00) match: L F. The match is not emitted before WINDOW closes at 12:06:30."],
    ),
    "NEXT": (
        "SKIP TILL ANY MATCH ALL MATCHES PATTERN (L F)", "",
        ["Row 1 (12:00:10) may begin a match: L. F may come until WINDOW closes at 12:05:10.", "Row 4 (12:01:30) may begin a match: L. F may come until WINDOW closes at 12:06:30.",
         "Rows 1 and 5 (12:00:10 to 12:02:00) match: L F. The match is not emitted: NEXT reads rows that have not come.",
         "Rows 4-5 (12:01:30, 12:02:00) match: L F. The match is not emitted: NEXT reads rows that have not come."],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SELECTED)
def test_event_selection(name):
    selection, more, lines = SELECTED[name]
    measure = {"numbered": "MATCH_NUMBER() AS n", "NEXT": "NEXT(e) AS n"}.get(name, "1 AS one")
    key = stored(f"PARTITION BY user ORDER BY ts MEASURES {measure} EVENT SELECTION {selection} {WIDE}{more}", APART)
    why = explained(key, asked=(1,))
    assert why.verified and why.lines[1:-1] == tuple(lines)
    assert why.lines[-1].startswith("Row 2 (12:00:40) is not in the first open run")
    (timeline,) = why.timelines
    assert timeline.run == tuple(row + 1 for row in ((0, 2, 4) if "F F" in lines[0] else (0, 2) if "L F" in lines[0] else (0,)))


def test_a_negation_ends_a_run():
    """Row 2 violates ~X, so the search of row 1 is decided, and only the second login is open."""
    key = stored(f"PARTITION BY user ORDER BY ts EVENT SELECTION SKIP TILL NEXT MATCH FIRST MATCH PATTERN (L ~X F F) {WIDE}, X AS e = 'x'", APART)
    assert explained(key).lines[1] == "Rows 1-2 (12:01:30, 12:02:00) may begin a match: L F. F may come until WINDOW closes at 12:06:30."


def test_sessions():
    """A session ends when its key is idle."""
    key = stored(f"PARTITION BY user ORDER BY ts PATTERN (L F+) {DEFINED}", ROWS[:2], idle=10 * 60 * 1_000_000)
    assert explained(key).lines[1].endswith("F+ may go on with the key's next row, unless the session ends before, at 12:11:00.")
    key = stored(f"PARTITION BY user ORDER BY ts PATTERN (L F+) WINDOW INTERVAL '1' HOUR {DEFINED}", ROWS[:2], idle=10 * 60 * 1_000_000)
    assert explained(key).lines[1].endswith("F+ may go on until the session ends at 12:11:00.")


def test_rows_that_are_asked_about():
    key = stored(LOGINS, [*ROWS[:2], ("12:02:00", "click"), ("12:02:10", "login")])
    assert key.emitted and explained(key, asked=(0,)).lines[0].endswith("1 row is stored, 12:02:10.")
    why = explained(stored(), asked=(1,))
    assert why.lines[-1] == "Row 2 (12:01:00) is F there." and why.rows == (2,)
    wide = f"PARTITION BY user ORDER BY ts PATTERN (L F+ X) WINDOW INTERVAL '5' MINUTE {DEFINED}, X AS e = 'x'"
    why = explained(stored(wide, [*ROWS[:2]]), asked=(0, 1))
    assert len(why.lines) == 2  # all rows are asked about


def test_lines_of_the_stream():
    """Sources of the watermark are named if rows wait for it; late rows always."""
    held, late = ("The watermark is the least of 2 sources.",), ("1 row was late in the last 3 micro-batches. Spark does not keep late rows.",)
    why = explained(stored(), held=held, late=late)
    assert why.lines[-2:] == (*held, *late) and [reason.reason for reason in why.reasons][-1] == "LATE"
    assert explained(stored(rows=ROWS[:2]), held=held).lines[-1].startswith("Rows 1-2")


def test_forms():
    why = explained(stored())
    found = json.loads(why.to_json())
    assert found["schema"] == 1 and found["run"] == {"start_row": 1, "rows": 2, "variables": ["L", "F"], "ended": 0}
    assert found["reasons"] == [{"reason": "OPEN", "row": 0, "start_row": 1, "variable": "F"}, {"reason": "WATERMARK", "row": 3, "start_row": 0, "variable": ""}]
    frame = why.to_pandas()
    assert frame[["partition", "row", "start_row", "role", "variable", "comparison", "left", "right"]].values.tolist() == [
        ["user = 7", 3, 1, "open", "F", "F+", "12:00:10", "12:05:10"], ["user = 7", 3, 0, "waiting", "", "ts <= watermark", "12:03:05", "12:03:00"],
    ]


def test_timelines():
    """The picture has the open run in its places, matches that wait for it, and rows that wait for the watermark."""
    (timeline,) = explained(stored()).timelines
    assert timeline.rows == (1, 2, 3) and timeline.values == (("ts", ("12:00:10", "12:01:00", "12:03:05")),)
    assert [(lane.name, sorted(lane.taken)) for lane in timeline.lanes] == [("L", [1]), ("F+", [2])] and timeline.run == (1, 2)
    assert [(bar.name, bar.labels) for bar in timeline.bars] == [("watermark", {3: "waits"})]
    clause, rows, _ = TEXTS["a preferred run"]
    (timeline,) = explained(stored(f"PARTITION BY user ORDER BY ts {clause}", rows)).timelines
    assert [(lane.name, sorted(lane.taken)) for lane in timeline.lanes] == [("L", [1]), ("F", [2]), ("X", []), ("F", []), ("L", [])]
    page = explained(stored()).to_html()
    assert "<svg" in page and "F+ may go on until WINDOW closes at 12:05:10" in page


@pytest.mark.parametrize("level", ["values", "all"])
def test_redaction(level):
    why = explained(stored(), redact=level, asked=(1,))
    text = str(why) + "".join(map(repr, why.next)) + why.to_html()
    assert not re.search(r"12:\d\d|2026|user = 7", text)
    assert why.lines[1] == "Rows 1-2 (v1, v5) match: L F. The match is not emitted: F+ may go on until WINDOW closes at v4."
    assert level != "all" or all((one.left, one.right) == ("", "") for one in why.next)


def test_a_trace_that_differs_explains_nothing(monkeypatch):
    monkeypatch.setattr(StoredRows, "truth", lambda self, comparison, row, run: row == 0)
    why = explained(stored())
    assert not why.verified and why.reasons == () and why.next == ()
    assert why.lines == ("The trace differs from the engine. This is a bug of sparkcep.", "  Matches of the trace: none", "  Matches of the engine: rows 1-2 (L F)")


def test_too_many_rows():
    key = stored()
    with pytest.raises(ClauseError, match=r"WHY.*The key has 3 stored rows, and rows is 2. Write rows=3"):
        explain_key(key.stream, KeyState(key.state, {}, 1, micros("12:03:00")), words={}, rows=2)


def test_effort():
    key = stored(f"PARTITION BY user ORDER BY ts PATTERN (L+ F+ X) WINDOW INTERVAL '5' MINUTE {DEFINED}, X AS e = 'x'", ROWS[:2])
    why = explain_key(key.stream, KeyState(key.state, {}, 1, micros("12:03:00")), words={}, rows=10, max_steps=1)
    assert "takes more than 1 steps" in str(why) and "EFFORT" in [reason.reason for reason in why.reasons]


REFUSED = {
    "APPROX 1 PATTERN (L F)": "APPROX", "EVENT SELECTION SKIP TILL ANY MATCH PATTERN (L & F)": "&", "PREF MAX (count(*)) PATTERN (L F)": "PREF",
}


@pytest.mark.parametrize("option", REFUSED)
def test_clauses_that_are_refused(option):
    text = f"PARTITION BY user ORDER BY ts MEASURES count(*) AS n WINDOW INTERVAL '5' MINUTE {option} {DEFINED}"
    with pytest.raises(ClauseError, match="WHY") as caught:
        check_streamed(make_plan(parse_clause(text)))
    assert f"a clause with {REFUSED[option]} over a stream" in caught.value.message and "Ask about a table" in caught.value.message


def test_no_state():
    assert str(no_state("user = 5", 3, "12:03:00", (), {})).startswith("No stored row fulfils user = 5, after micro-batch 3, watermark 12:03:00.\nNo row came")
    why = no_state(None, 3, "not known yet", ("2 rows were late.",), {})
    assert why.lines[0] == "No row is stored, after micro-batch 3, watermark not known yet." and [reason.reason for reason in why.reasons] == ["NO_STATE", "LATE"]
