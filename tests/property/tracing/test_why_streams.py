"""Answers of sparkcep.why about an open match of a stream, against the stream itself: the match is emitted when WINDOW closes
or with the key's next row, and not before."""

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
    window = rng.choice(["", f"WINDOW {rng.choice([3, 5])} ROWS ", *[f"WINDOW INTERVAL '{seconds}' SECOND " for seconds in (3, 6, 9)]])
    return f"ORDER BY ts {MEASURES}{rng.choice(SKIPS)}PATTERN ({pattern}) {window}DEFINE {defined}"


def row(rng: random.Random, second: int) -> tuple:
    return BEGIN + second * SECOND, rng.choice("aabbbc"), rng.randrange(4)


OPEN = re.compile(r"Rows? \d\S* \((\d\S+\d)[^)]*\) match(?:es)?: [^.]*\. The match is not emitted: (.*)")


def begins(key: StoredKey, watermark: int, rows: list[tuple] = ()) -> list[int]:
    """The times of the first rows of the matches that a micro-batch emits, in microseconds."""
    before = len(key.emitted)
    key.advance(watermark, rows)
    return [int(match["__l0"].timestamp() * SECOND) for match in key.emitted[before:]]


def confirmed(key: StoredKey, clause: str, why, second: int) -> bool:
    """Whether the answer predicts when the first open match is emitted. Then the stream emits it then, and not before."""
    found = OPEN.fullmatch(next((line for line in why.lines if OPEN.fullmatch(line)), ""))
    if found is None or why.reasons[0].start_row != why.run.start_row or why.reasons[-1].reason == "WATERMARK":
        return False
    shown, wanted = micros(found[1]), (clause, str(why))
    closes = re.search(r"WINDOW closes at (12:\d\d:\d\d)", found[2])
    if closes is not None:
        at = micros(closes[1]) - 1
        if at <= key.watermark:
            return False
        assert shown not in begins(key, at - 1), wanted
        assert shown in begins(key, at), wanted
        return True
    assert "with the key's next row" in found[2] or "until WINDOW has" in found[2], wanted
    if "e <> 'c'" in clause:  # such a condition takes any row
        return False
    later = BEGIN + (second + 100) * SECOND
    assert shown not in begins(key, later), wanted
    assert shown in begins(key, later + SECOND, [(later + 1, "z", None)]), wanted
    return True


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
        watermark = BEGIN + (second - rng.choice([0, 0, 0, 1, 3])) * SECOND
        key.advance(watermark, [one for one in came if one[0] > key.watermark])
        if not key.state:
            continue
        why = explain_key(key.stream, KeyState(key.state, {}, 1, watermark), words={}, rows=100)
        assert why.verified, (clause, str(why))
        explained += 1
        kept = key.state, key.watermark
        predicted += confirmed(key, clause, why, second)
        key.state, key.watermark = kept
    return explained, predicted


@pytest.mark.parametrize("seed", first(range(6), wider=1))
def test_open_matches_are_emitted_when_the_answer_says(seed):
    rng = random.Random(seed)
    counts = [compared(rng) for _ in range(50)]
    assert sum(one for one, _ in counts) > 80 and sum(predicted for _, predicted in counts) > 12
