"""sparkcep.why over streams with SHOW UNFINISHED MATCHES: the stream emits the predicted matches then and not before, and no other
ones."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from sparkcep.engine.stream.inspection import opened
from sparkcep.tracing.streams import explain_key as explain_module
from sparkcep.tracing.streams.explain_key import KeyState, explain_key
from tests.property.tracing.test_why_streams import CONDITIONS, SECOND, SKIPS, micro_batches
from tests.selection import first
from tests.support.stored_keys import StoredKey, micros

PATTERNS = (
    "A B C", "A B C", "A B+ C", "A+ B", "A (B | C B)", "(A B)+ C", "A B{2,3} C", "A+? B C", "A ((B C) WITHIN INTERVAL '3' SECOND)", "(A B) WITHIN INTERVAL '2' SECOND C", "PERMUTE(A, B) C",
    "A ~C B", "A B ~C", "A ~(C C) B+", "^ A B C", "A (B A)* C", "A B | A ((C C) WITHIN INTERVAL '4' SECOND)",
)
AHEAD = 15 * SECOND  # all windows have ended then
MILLI = 1000


def clause_of(rng: random.Random) -> str:
    strategy = rng.choice(["STRICT CONTIGUITY", "SKIP TILL NEXT MATCH", "SKIP TILL ANY MATCH FIRST MATCH"])
    pattern = rng.choice([text for text in PATTERNS if "~" not in text or "STRICT" not in strategy])
    names = sorted(set(re.findall(r"\b[ABC]\b", pattern)))
    defined = ", ".join(f"{name} AS {rng.choice([text for text in CONDITIONS[name] if all(other in names for other in re.findall(r'([ABC])[.]', text))])}" for name in names)
    if "~C" in pattern or "~(C" in pattern:
        defined = re.sub("price = LAST\\(B.price\\)", "e = 'c' AND price > A.price", defined)
    window = rng.choice([*[f"WINDOW INTERVAL '{seconds}' SECOND" for seconds in (3, 6, 9)], "WINDOW 4 ROWS", ""])
    if "~" in pattern and "INTERVAL" not in window:
        window = "WINDOW INTERVAL '6' SECOND"
    timeout = rng.random() < 0.3 and (window or "WITHIN" in pattern)
    ahead = ", NEXT(e) AS ahead" if rng.random() < 0.1 else ""
    return (
        f"ORDER BY ts MEASURES FIRST(ts) AS a, MATCH_STATUS() AS st, MATCH_ENDED_AT() AS ended, MATCH_EXPECTED() AS x, LAST(ts) AS z{ahead} "
        f"ONE ROW PER MATCH SHOW {'TIMEOUT' if timeout else 'UNFINISHED'} MATCHES {rng.choice(SKIPS)}EVENT SELECTION {strategy} PATTERN ({pattern}) {window} DEFINE {defined}"
    )


def clock(at) -> int | None:
    return None if at is None else round(at.timestamp() * SECOND)


def emitted(key: StoredKey, watermark: int) -> dict[int, tuple]:
    """The matches that a micro-batch without rows emits, by the times of their first rows.

    Each has its status, its end, the expected variables and its last row.
    """
    before = len(key.emitted)
    key.advance(watermark)
    found = [list(match.values()) for match in key.emitted[before:]]
    return {clock(begin): (status, clock(ended), tuple(missing), clock(last)) for begin, status, ended, missing, last, *_ in found}




def compared(key: StoredKey, clause: str, counts: Counter) -> None:
    """Compares an answer with what the stream emits if no further row comes."""
    kept = key.state, key.watermark
    times, released = stored_times(key)
    why = explain_key(key.stream, KeyState(key.state, {}, 1, key.watermark, asked=tuple(range(len(times) - 1))), words={}, rows=100)
    wanted = clause, str(why)
    assert why.verified and ("NEXT reads" not in str(why) or "NEXT(" in clause), wanted
    closing = re.search(r"closes at (\S+)\.\nWithout further rows SHOW \w+ MATCHES emits .* when the watermark reaches (\S+):", str(why))
    assert closing is None or "NEXT(" in clause or closing[1] == closing[2], wanted
    counts["closing"] += closing is not None
    counts["answers"] += 1
    emits = {times[one.start_row - 1]: one for one in why.unfinished}
    for begin, one in emits.items():
        key.state, key.watermark = kept
        if not one.watermark:
            continue
        reached = micros(one.watermark)
        if reached - MILLI > key.watermark:
            assert emitted(key, reached - MILLI).get(begin, ("MATCHED",))[0] == "MATCHED", wanted
        found = emitted(key, reached)
        assert found.get(begin) == (one.status, micros(one.ended_at), one.expected, times[one.rows[-1] - 1]), (wanted, found)
        counts[one.status] += 1
    key.state, key.watermark = kept
    final: dict[int, tuple] = {}
    while key.watermark < kept[1] + AHEAD:
        final |= emitted(key, key.watermark + SECOND)
    for begin, (status, *_) in final.items():
        if status != "MATCHED" and begin in times[: min(released, len(times) - 1)]:
            assert begin in emits and emits[begin].watermark, (wanted, final)
    for begin, one in emits.items():
        if not one.watermark:
            assert not one.reported or "NEXT(" in clause or "is decided:" in str(why), wanted
            assert final.get(begin, ("MATCHED",))[0] == "MATCHED", (wanted, final)
            counts["not emitted"] += 1
    for begin, at in re.findall(r"other row, rows? (\d+)[-\d and,]* match(?:es)? .*emitted when the watermark reaches ([\d:.]+)\.", str(why)):
        key.state, key.watermark = kept
        assert emitted(key, micros(at) - MILLI).get(times[int(begin) - 1]) is None and emitted(key, micros(at))[times[int(begin) - 1]][0] == "MATCHED", wanted
        counts["MATCHED"] += 1
    key.state, key.watermark = kept


def stored_times(key: StoredKey) -> tuple[list[int], int]:
    """The times of the stored rows, and how many of them the watermark has released."""
    found = opened(key.stream, key.state)
    rows = found.rows.column("__o0").cast("int64").to_pylist() if "__o0" in found.rows.schema.names else []
    return [*rows, *found.later.tolist()], len(rows)


def one_stream(rng: random.Random, counts: Counter) -> None:
    """Compares the answers about a random key after each of its micro-batches."""
    clause = clause_of(rng)
    key = StoredKey(clause, "e price", idle=rng.choice([0, 0, 0, 3 * SECOND]))
    for _ in micro_batches(rng, key, 3, [0, 0, 1, 2, 4]):
        compared(key, clause, counts)


@pytest.mark.parametrize("seed", first(range(24), wider=1))
def test_the_stream_emits_what_the_answer_says(monkeypatch, seed):
    monkeypatch.setattr(explain_module, "IN_FULL", 1000)
    rng, counts = random.Random(f"why unfinished streams {seed}"), Counter()
    for _ in range(20):
        one_stream(rng, counts)
    assert counts["answers"] > 20 and counts["TIMED OUT"] > 1, counts
