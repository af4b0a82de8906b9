"""Answers of sparkcep.why about an open match of a stream, against the stream itself: the match is emitted when WINDOW closes,
and not before."""

from __future__ import annotations

import random
import re

import pytest

from sparkcep.tracing.streams.explain_key import KeyState, explain_key
from tests.selection import first
from tests.support.stored_keys import StoredKey, micros

BEGIN, SECOND = micros("12:00:00"), 1_000_000
PATTERNS = (
    "A B+", "A B* C?", "A (B | C)+", "A B C | A B", "(A | B) C*", "A+ B*", "A B{2,3}", "(A B)+", "A B{,2} C*", "PERMUTE(A, B) C*", "A ((B C) WITHIN INTERVAL '3' SECOND)?", "A+? B+", "^ A B*", "A (B+ | C)",
)
CONDITIONS = {
    "A": ("e = 'a'", "e = 'a' AND price < 3"),
    "B": ("e = 'b'", "price > PREV(price)", "e = 'b' AND price >= A.price", "price > FIRST(price, 1)", "e <> 'c'"),
    "C": ("e = 'c'", "e = 'c' OR price < AVG(A.price)", "price = LAST(B.price)"),
}
SKIPS = ("", "AFTER MATCH SKIP TO NEXT ROW ")
MEASURES = "MEASURES FIRST(ts) AS a, LAST(ts) AS z, count(*) AS n "


def clause_of(rng: random.Random) -> str:
    pattern = rng.choice(PATTERNS)
    names = sorted(set(re.findall(r"\b[ABC]\b", pattern)))
    defined = ", ".join(f"{name} AS {rng.choice([text for text in CONDITIONS[name] if all(other in names for other in re.findall(r'([ABC])[.]', text))])}" for name in names)
    return f"ORDER BY ts {MEASURES}{rng.choice(SKIPS)}PATTERN ({pattern}) WINDOW INTERVAL '{rng.choice([3, 6, 9])}' SECOND DEFINE {defined}"


def row(rng: random.Random, second: int) -> tuple:
    return BEGIN + second * SECOND, rng.choice("aabbbc"), rng.randrange(4)


def closing_of(why) -> int | None:
    """When the text says that the window of the first open match closes, in microseconds."""
    found = re.search(r"WINDOW closes at (12:\d\d:\d\d)", str(why))
    return micros(found[1]) if found else None


def compared(rng: random.Random) -> tuple[int, int]:
    """(explained states, matches whose emission was predicted) of one random stream."""
    clause, second = clause_of(rng), 0
    explained = predicted = 0
    key = StoredKey(clause, "e price")
    for _ in range(4):
        came = []
        for _ in range(rng.randrange(1, 5)):
            second += rng.randrange(1, 3)
            came.append(row(rng, second))
        watermark = BEGIN + (second - rng.randrange(4)) * SECOND
        key.advance(watermark, [one for one in came if one[0] > key.watermark])
        if not key.state:
            continue
        why = explain_key(key.stream, KeyState(key.state, {}, 1, watermark), words={}, rows=100)
        assert why.verified, (clause, str(why))
        explained += 1
        closes = closing_of(why)
        opens = re.search(r"Rows? \d[^.]*match(?:es)?: [^.]*\. The match is not emitted: [^.]*until", str(why))
        if closes is None or not opens or "wait" in str(why) or closes - 1 <= watermark:
            continue
        state, start = key.state, why.run.start_row
        before, key.emitted = key.emitted, []
        key.advance(closes - 2)
        begins = [match["__l0"] for match in key.emitted]
        shown = re.search(r"\((12:\d\d:\d\d)", opens[0])[1]
        assert micros(shown) not in [int(at.timestamp() * SECOND) for at in begins], (clause, str(why), start)
        key.advance(closes - 1)
        begins = [match["__l0"] for match in key.emitted]
        assert micros(shown) in [int(at.timestamp() * SECOND) for at in begins], (clause, str(why))
        key.state, key.emitted, key.watermark = state, before, watermark
        predicted += 1
    return explained, predicted


@pytest.mark.parametrize("seed", first(range(6)))
def test_open_matches_are_emitted_when_their_window_closes(seed):
    rng = random.Random(seed)
    counts = [compared(rng) for _ in range(60)]
    assert sum(one for one, _ in counts) > 100 and sum(predicted for _, predicted in counts) > 5
