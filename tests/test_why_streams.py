"""sparkcep.why over streams without Spark: the state of a key, explained."""

from __future__ import annotations

from sparkcep.tracing.streams.explain_key import KeyState, explain_key
from tests.stored_keys import StoredKey, micros

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
