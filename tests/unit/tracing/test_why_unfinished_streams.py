"""The answers of sparkcep.why over streams under SHOW UNFINISHED MATCHES, without Spark: worked examples to the letter."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from sparkcep.tracing.streams.explain_key import no_state
from sparkcep.tracing.streams.unfinished_runs import KeyRuns
from tests.support.stored_keys import StoredKey
from tests.unit.tracing.test_why_streams import DEFINED, ROWS, explained, stored

DOCS = Path(__file__).resolve().parents[3] / "docs"
FIVE = f"WINDOW INTERVAL '5' MINUTE {DEFINED}"
NEXT, ANY = "EVENT SELECTION SKIP TILL NEXT MATCH ", "EVENT SELECTION SKIP TILL ANY MATCH FIRST MATCH "
EACH = "AFTER MATCH SKIP TO NEXT ROW "
RUN = "Rows 1-2 (12:00:10, 12:01:00) may begin a match: L F. F may come until WINDOW closes at 12:05:10."
SHOWN, OPEN = "SHOW UNFINISHED MATCHES", "SHOW UNFINISHED MATCHES does not emit an OPEN match over a stream."
BROKEN_BY = [*ROWS[:2], ("12:03:05", "x")]
TWO = [("12:00:10", "login"), ("12:01:00", "fail"), ("12:02:05", "login"), ("12:03:05", "fail")]
RESET = [("12:00:10", "login"), ("12:00:30", "fail"), ("12:02:05", "login"), ("12:02:10", "reset")]

TEXTS = {
    "times out": (
        "", f"PATTERN (L F F) {FIVE}", ROWS[:2],
        [RUN, f"Without further rows {SHOWN} emits this run when the watermark reaches 12:05:10: TIMED OUT at ts 12:05:10, expected F."],
    ),
    "a row that waits breaks it": (
        "", f"PATTERN (L F F) {FIVE}", BROKEN_BY,
        [RUN, f"With row 3 and no other row, {SHOWN} emits this run when the watermark reaches 12:03:05: BROKEN at ts 12:03:05, expected F.", "Row 3 (12:03:05) waits: it is not below the watermark."],
    ),
    "a row that waits completes it": (
        "", f"PATTERN (L F F) {FIVE}", ROWS,
        [RUN, "With row 3 and no other row, rows 1-3 match (L F F). The match is emitted when the watermark reaches 12:03:05.", "Row 3 (12:03:05) waits: it is not below the watermark."],
    ),
    "a row that waits forbids a match": (
        "", f"{NEXT}PATTERN (L F ~X) {FIVE}, X AS e = 'x'", BROKEN_BY,
        ["Rows 1-2 (12:00:10, 12:01:00) match: L F. The match is not emitted: ~X looks at later rows until WINDOW closes at 12:05:10.",
         f"With row 3 and no other row, {SHOWN} emits this run when the watermark reaches 12:03:05: BROKEN at ts 12:03:05.", "Row 3 (12:03:05) waits: it is not below the watermark."],
    ),
    "a match": (
        "", f"PATTERN (L F+) {FIVE}", ROWS[:2], ["Rows 1-2 (12:00:10, 12:01:00) match: L F. The match is not emitted: F+ may go on until WINDOW closes at 12:05:10."],
    ),
    "TIMEOUT": (
        "TIMEOUT", f"PATTERN (L F F) {FIVE}", ROWS[:2],
        [RUN, "Without further rows SHOW TIMEOUT MATCHES emits this run when the watermark reaches 12:05:10: TIMED OUT at ts 12:05:10, expected F. "
              "SHOW TIMEOUT MATCHES does not emit a run that a row breaks."],
    ),
    "TIMEOUT without rows that break": (
        "TIMEOUT", f"{NEXT}PATTERN (L F F) {FIVE}", ROWS[:2],
        [RUN, "Without further rows SHOW TIMEOUT MATCHES emits this run when the watermark reaches 12:05:10: TIMED OUT at ts 12:05:10, expected F."],
    ),
    "TIMEOUT of a broken run": (
        "TIMEOUT", f"PATTERN (L F F) {FIVE}", BROKEN_BY,
        [RUN, "With row 3 and no other row, SHOW TIMEOUT MATCHES does not emit this run: BROKEN at ts 12:03:05, expected F.", "Row 3 (12:03:05) waits: it is not below the watermark."],
    ),
    "a row inside": (
        "", f"{NEXT}PATTERN (L F F F) {FIVE}", TWO,
        [RUN, f"With row 4 and no other row, {SHOWN} emits the run of rows 1-2 and 4 (L F F) when the watermark reaches 12:05:10: TIMED OUT at ts 12:05:10, expected F.",
         "Row 4 (12:03:05) waits: it is not below the watermark.",
         f"Row 3 (12:02:05) may begin a match: L. The search from row 1 is undecided. With row 4 and no other row, {SHOWN} does not emit a run of this start row, "
         "because row 3 is inside the unfinished match of rows 1-2 and 4 (L F F). AFTER MATCH SKIP TO NEXT ROW emits both."],
    ),
    "each row": (
        "", f"{EACH}{NEXT}PATTERN (L F F F) {FIVE}", TWO,
        [RUN, f"With row 4 and no other row, {SHOWN} emits the run of rows 1-2 and 4 (L F F) when the watermark reaches 12:05:10: TIMED OUT at ts 12:05:10, expected F.",
         "Row 4 (12:03:05) waits: it is not below the watermark.",
         f"Row 3 (12:02:05) may begin a match: L. The search from row 1 is undecided. With row 4 and no other row, {SHOWN} emits the run of rows 3-4 (L F) "
         "when the watermark reaches 12:07:05: TIMED OUT at ts 12:07:05, expected F."],
    ),
    "a broken run waits": (
        "", f"{NEXT}PATTERN (L ~X F F) {FIVE}, X AS e = 'reset'", RESET,
        ["Rows 1-2 (12:00:10, 12:00:30) may begin a match: L F. F may come until WINDOW closes at 12:05:10.",
         f"Without further rows {SHOWN} emits this run when the watermark reaches 12:05:10: TIMED OUT at ts 12:05:10, expected F.",
         f"Row 3 (12:02:05) ended without a match: L. The search from row 1 is undecided. Without further rows {SHOWN} emits this run when the watermark reaches 12:05:10: "
         "BROKEN at ts 12:02:10, expected F."],
    ),
    "WITHIN": (
        "", f"PATTERN (L ((F F) WITHIN INTERVAL '3' MINUTE)) {FIVE}", ROWS[:2],
        ["Rows 1-2 (12:00:10, 12:01:00) may begin a match: L F. F may come until WITHIN closes at 12:04:00.",
         f"Without further rows {SHOWN} emits this run when the watermark reaches 12:04:00: TIMED OUT at ts 12:04:00, expected F."],
    ),
    "a closed WITHIN": (
        "", f"{NEXT}PATTERN (L ((F F) WITHIN INTERVAL '1' MINUTE) | L X) {FIVE}, X AS e = 'x'", ROWS[:2],
        ["Row 1 (12:00:10) may begin a match: L. X may come until WINDOW closes at 12:05:10.",
         f"Without further rows {SHOWN} emits the run of rows 1-2 (L F) when the watermark reaches 12:05:10: TIMED OUT at ts 12:02:00, expected F."],
    ),
    "no WINDOW": (
        "", f"PATTERN (L F F) {DEFINED}", ROWS[:2],
        ["Rows 1-2 (12:00:10, 12:01:00) may begin a match: L F. F may come with the key's next row.", f"No watermark ends it, and {OPEN}"],
    ),
    "rows": (
        "", f"{NEXT}PATTERN (L F F) WINDOW 3 ROWS {DEFINED}", [*ROWS[:2], ("12:02:00", "x")],
        [f"Rows 1-2 (12:00:10, 12:01:00) may begin a match: L F. WINDOW has 3 rows, so the search ends with the key's next row. No watermark ends it, and {OPEN}"],
    ),
    "NEXT": (
        "", f"MEASURES NEXT(e) AS n {{}} {NEXT}PATTERN (L F F) WINDOW INTERVAL '1' MINUTE {DEFINED}", [("12:01:00", "login"), ("12:01:30", "fail")],
        ["Rows 1-2 (12:01:00, 12:01:30) ended without a match: L F. NEXT reads rows that have not come. "
         f"{SHOWN} emits this run with the rows that NEXT reads: TIMED OUT at ts 12:02:00, expected F."],
    ),
}  # fmt: skip


def key_of(name: str) -> StoredKey:
    report, clause, rows, _ = TEXTS[name]
    option = f"ONE ROW PER MATCH SHOW {report or 'UNFINISHED'} MATCHES"
    text = clause.format(option) if "MEASURES" in clause else f"MEASURES MATCH_STATUS() AS st {option} {clause}"
    return stored(f"PARTITION BY user ORDER BY ts {text}", rows)


def answered(name: str):
    return explained(key_of(name), asked=(2,) if TEXTS[name][2] is TWO else ())


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name):
    why = answered(name)
    assert why.lines[1:] == tuple(TEXTS[name][3]) and why.verified


def test_the_example_of_the_documentation():
    page = (DOCS / "why.md").read_text(encoding="utf-8")
    for name in ("times out", "a row that waits breaks it"):
        assert f"```text\n{explained(key_of(name))}\n```" in page, name


def test_the_record_of_an_answer():
    found = {name: json.loads(answered(name).to_json())["unfinished"] for name in ("times out", "TIMEOUT of a broken run", "a row inside", "no WINDOW")}
    assert found["times out"] == [
        {"start_row": 1, "rows": [1, 2], "variables": ["L", "F"], "status": "TIMED OUT", "ended_at": "12:05:10", "expected": ["F"], "reported": True, "watermark": "12:05:10"}
    ]
    assert [[(one["start_row"], one["status"], one["reported"], one["watermark"]) for one in found[name]] for name in list(found)[1:]] == [
        [(1, "BROKEN", False, "")], [(1, "TIMED OUT", True, "12:05:10"), (3, "TIMED OUT", False, "")], [(1, "OPEN", False, "")],
    ]  # fmt: skip
    why = explained(key_of("a broken run waits"))
    assert [(reason.reason, reason.row, reason.start_row) for reason in why.reasons] == [("OPEN", 0, 1), ("OPEN", 3, 3)]
    assert [(bar.name, bar.labels) for bar in why.timelines[0].bars] == [("not emitted", {3: "L"})]


def test_rows_that_are_asked_about():
    """A row is named with the unfinished match that has it."""
    rows = [*ROWS[:2], ("12:02:00", "login"), ("12:02:30", "fail")]
    option = "MEASURES MATCH_STATUS() AS st ONE ROW PER MATCH SHOW UNFINISHED MATCHES"
    key = stored(f"PARTITION BY user ORDER BY ts {option} {ANY}PATTERN (L F F F G) {FIVE}, G AS e = 'g'", [*rows[:1], ("12:00:50", "x"), *rows[2:]])
    why = explained(key, asked=(1, 2, 3))
    assert why.lines[-3] == "Row 2 (12:00:50) is not in the first open run: the search from row 1 is undecided."
    assert why.lines[-2].startswith("Rows 3-4 (12:02:00, 12:02:30) may begin a match: L F. The search from row 1 is undecided. Without further rows")
    assert why.lines[-1] == "Row 4 (12:02:30) is F there."


def test_a_start_row_inside_an_emitted_match():
    """Its own unfinished match is never emitted, but it may still begin a match."""
    rows = [("12:00:10", "login"), ("12:02:40", "login"), ("12:02:50", "fail")]
    clause = f"PARTITION BY user ORDER BY ts MEASURES MATCH_STATUS() AS st ONE ROW PER MATCH SHOW UNFINISHED MATCHES {NEXT}PATTERN (L M F F) WINDOW INTERVAL '3' MINUTE {DEFINED}, M AS e = 'login'"
    key = stored(clause, rows, watermark="12:03:10")
    assert [match["__l0"] for match in key.emitted] == ["TIMED OUT"]
    why = explained(key, "12:03:10")
    assert why.lines[1:] == (
        "Row 1 (12:02:40) may begin a match: L. M may come until WINDOW closes at 12:05:40.",
        f"{SHOWN} does not emit this run, because row 1 is inside an unfinished match that was emitted before. AFTER MATCH SKIP TO NEXT ROW emits both.",
    )
    assert [(one.reported, one.watermark) for one in why.unfinished] == [(False, "")]


@pytest.mark.parametrize("rows", ["ALL ROWS PER MATCH", "ALL ROWS PER MATCH WITH UNMATCHED ROWS"])
def test_all_rows(rows):
    """The state may also have the marks of rows in matches."""
    clause = f"PARTITION BY user ORDER BY ts MEASURES MATCH_STATUS() AS st {rows} SHOW UNFINISHED MATCHES PATTERN (L F F) {FIVE}"
    why = explained(stored(clause, [("12:00:05", "x"), *BROKEN_BY]))
    assert why.lines[-2].endswith("emits this run when the watermark reaches 12:03:05: BROKEN at ts 12:03:05, expected F.") and why.verified


def test_sessions():
    """An open run ends with its session, and is not emitted."""
    clause = f"PARTITION BY user ORDER BY ts MEASURES MATCH_STATUS() AS st ONE ROW PER MATCH SHOW UNFINISHED MATCHES PATTERN (L F F) {FIVE}"
    minute = 60 * 1_000_000
    why = explained(stored(clause, ROWS[:2], idle=3 * minute))
    assert why.lines[1].endswith("F may come until the session ends at 12:04:00.") and why.lines[2] == f"The session ends first, at 12:04:00, and {OPEN}"
    why = explained(stored(clause, ROWS[:2], idle=30 * minute))
    assert why.lines[2].endswith("emits this run when the watermark reaches 12:05:10: TIMED OUT at ts 12:05:10, expected F.")
    apart = explained(stored(clause, [*ROWS[:2], ("12:04:30", "fail")], idle=3 * minute))
    assert f"The session ends first, at 12:04:00, and {OPEN}" in apart.lines  # row 3 begins another one


@pytest.mark.parametrize("level", ["values", "all"])
def test_redaction(level):
    why = explained(key_of("a row that waits breaks it"), redact=level)
    assert not re.search(r"12:\d\d|2026|user = 7", str(why) + why.to_json().replace(json.dumps(why.question), ""))
    assert re.search(r"emits this run when the watermark reaches (v\d): BROKEN at ts \1, expected F\.", why.lines[2])


def test_an_unfinished_match_that_differs_explains_nothing(monkeypatch):
    at = KeyRuns.at
    monkeypatch.setattr(KeyRuns, "at", lambda self, watermark: {start: replace(run, rows=(start,)) if start else run for start, run in at(self, watermark).items()})
    why = explained(key_of("a broken run waits"))
    assert why.verified
    monkeypatch.setattr(KeyRuns, "at", lambda self, watermark: {start: replace(run, variables=(1,), status="BROKEN") for start, run in at(self, watermark).items()})
    why = explained(key_of("times out"))
    assert not why.verified and why.unfinished == () and why.lines[1:] == ("  Matches of the trace: rows 1-2 (L F)", "  Matches of the engine: rows 1-2 (F)")


def test_no_state():
    why = no_state("user = 5", 3, "12:03:00", (), {}, unfinished=True)
    assert why.lines[1] == "No row came, or all rows are decided. Emitted matches and emitted unfinished matches are not stored."
    decided = stored(f"PARTITION BY user ORDER BY ts MEASURES MATCH_STATUS() AS st ONE ROW PER MATCH SHOW UNFINISHED MATCHES PATTERN (L F F) {FIVE}", BROKEN_BY[:2] + [("12:02:00", "x")])
    assert decided.state == b"" and [match["__l0"] for match in decided.emitted] == ["BROKEN"]
