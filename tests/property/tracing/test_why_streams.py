"""Answers of sparkcep.why about an open match of a stream, against the stream itself: the match is emitted when WINDOW closes
or with the key's next row, and not before."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from itertools import product

import pytest

from sparkcep.engine.stream.inspection import opened
from sparkcep.tracing.streams import explain_key as explain_module
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


SELECTED = ("A B+", "A B+", "A B C", "A B* C?", "A (B | C)+", "(A B)+", "A ~C B", "A B ~C", "A ~(C C) B+", "A B{2,3}", "A+? B+", "A ((B C) WITHIN INTERVAL '3' SECOND)?", "PERMUTE(A, B) C*")


def selected(rng: random.Random) -> str:
    """A clause with an event selection. Negations need a WINDOW."""
    strategy, report = rng.choice(["SKIP TILL NEXT MATCH", "SKIP TILL ANY MATCH", "STRICT CONTIGUITY"]), rng.choice(["FIRST", "ALL"])
    pattern = rng.choice([text for text in SELECTED if "~" not in text or "STRICT" not in strategy])
    names = sorted(set(re.findall(r"\b[ABC]\b", pattern)))
    defined = ", ".join(f"{name} AS {rng.choice([text for text in CONDITIONS[name] if all(other in names for other in re.findall(r'([ABC])[.]', text))])}" for name in names)
    if "~C" in pattern or "~(C" in pattern:
        defined = re.sub("price = LAST\\(B.price\\)", "e = 'c' AND price > A.price", defined)
    skip = rng.choice(SKIPS)
    number = ", MATCH_NUMBER() AS number" if report == "ALL" and rng.random() < 0.3 else ""
    return f"ORDER BY ts {MEASURES.strip()}{number} {skip}EVENT SELECTION {strategy} {report} MATCH{'ES' if report == 'ALL' else ''} PATTERN ({pattern}) WINDOW INTERVAL '{rng.choice([3, 6, 9])}' SECOND DEFINE {defined}"


def row(rng: random.Random, second: int) -> tuple:
    return BEGIN + second * SECOND, rng.choice("aabbbc"), rng.randrange(4)


OPEN = re.compile(r"Rows? \d[\d, and-]* \((\d\S+\d)[^)]*\) match(?:es)?: [^.]*\. The match is not emitted(?:: | before )(.*)")


def begins(key: StoredKey, watermark: int, rows: list[tuple] = ()) -> list[int]:
    """The times of the first rows of the matches that a micro-batch emits, in microseconds."""
    before = len(key.emitted)
    key.advance(watermark, rows)
    return [int(match["__l0"].timestamp() * SECOND) for match in key.emitted[before:]]


def confirmed(key: StoredKey, clause: str, why, second: int) -> bool:
    """Whether the answer predicts when the first open match is emitted. Then the stream emits it then, and not before."""
    found = OPEN.fullmatch(next((line for line in why.lines if OPEN.fullmatch(line)), ""))
    if found is None or why.reasons[0].start_row != why.run.start_row or why.reasons[-1].reason == "WATERMARK" or "is undecided" in found[2]:
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


def micro_batches(rng: random.Random, key: StoredKey, count: int, delays: list[int]) -> Iterator[int]:
    """Advances a key by random micro-batches. Yields the second of the last row after each one that leaves a state."""
    second = 0
    for _ in range(count):
        came = []
        for _ in range(rng.randrange(1, 5)):
            second += rng.randrange(1, 3)
            came.append(row(rng, second))
        watermark = BEGIN + (second - rng.choice(delays)) * SECOND
        key.advance(watermark, [one for one in came if one[0] > key.watermark])
        if key.state:
            yield second


def compared(rng: random.Random, clause: str) -> tuple[int, int]:
    """(explained states, matches whose emission was predicted) of one random stream."""
    explained = predicted = 0
    key = StoredKey(clause, "e price")
    for second in micro_batches(rng, key, 4, [0, 0, 0, 1, 3]):
        why = explain_key(key.stream, KeyState(key.state, {}, 1, key.watermark), words={}, rows=100)
        assert why.verified, (clause, str(why))
        explained += 1
        kept = key.state, key.watermark
        predicted += confirmed(key, clause, why, second)
        key.state, key.watermark = kept
    return explained, predicted


@pytest.mark.parametrize("seed", first(range(12), wider=2))
def test_open_matches_are_emitted_when_the_answer_says(seed):
    rng = random.Random(seed)
    counts = [compared(rng, clause_of(rng)) for _ in range(25)]
    assert sum(one for one, _ in counts) > 30 and sum(predicted for _, predicted in counts) > 4


@pytest.mark.parametrize("seed", first(range(18), wider=2))
def test_open_matches_of_event_selection(seed):
    """First matches come when the answer says. Over all clauses the engine confirms the trace."""
    rng = random.Random(seed)
    counts = [compared(rng, selected(rng)) for _ in range(27)]
    assert sum(one for one, _ in counts) > 20 and sum(predicted for _, predicted in counts) > 1


def open_rows(why) -> set[int]:
    """The start rows that an answer calls open, counted from 0."""
    return {reason.start_row - 1 for reason in why.reasons if reason.reason == "OPEN"}


def explained(key: StoredKey):
    return explain_key(key.stream, KeyState(key.state, {}, 1, key.watermark), words={}, rows=100)


@pytest.mark.parametrize("seed", first(range(1, 6), wider=2))
def test_later_matches_are_announced(monkeypatch, seed):
    """A match that is emitted later and begins at a stored row begins at a row that the answer calls open, or after one."""
    monkeypatch.setattr(explain_module, "IN_FULL", 1000)
    rng, later, of_all = random.Random(seed), 0, 0
    for _ in range(50):
        clause = selected(rng)
        key, second = StoredKey(clause, "e price"), 0
        rows = []
        for _ in range(rng.randrange(2, 7)):
            second += 1
            rows.append(row(rng, second))
        key.advance(rows[-1][0], rows)
        if not key.state:
            continue
        why, before = explained(key), len(key.emitted)
        assert why.verified, (clause, str(why))
        times = [at for at in opened(key.stream, key.state).rows.column("__o0").cast("int64").to_pylist()] if key.state else []
        key.advance(rows[-1][0] + 1, [(rows[-1][0] + 1, *row(rng, 0)[1:])])
        key.advance(rows[-1][0] + 60 * SECOND, [(rows[-1][0] + 1 + i, *row(rng, 0)[1:]) for i in range(1, 4)])
        for match in key.emitted[before:]:
            begin = int(match["__l0"].timestamp() * SECOND)
            if begin in times:
                later += 1
                start, announced = times.index(begin), open_rows(why)
                if " ALL MATCHES" in clause:
                    of_all += 1
                    assert start in announced, (clause, str(why), start)
                else:
                    assert announced and min(announced) <= start, (clause, str(why), start)
    assert later > 5 and of_all > 0


@pytest.mark.parametrize("seed", first(range(2, 7), wider=2))
def test_open_runs_can_match(monkeypatch, seed):
    """For each variable that may come after an open run, some future rows give a match with such a row."""
    monkeypatch.setattr(explain_module, "IN_FULL", 1000)
    rng, tried = random.Random(seed), 0
    monkeypatch.setattr(sys.modules[__name__], "CONDITIONS", {name: (f"e = '{name.lower()}'",) for name in "ABC"})
    while tried < 5:
        clause = selected(rng)
        names = sorted(set(re.findall(r"\b[ABC]\b", re.sub(r"~(\(.*?\)|C)", "", clause.partition("PATTERN")[2].partition("WINDOW")[0]))))
        key = StoredKey(clause.replace("LAST(ts) AS z, count(*) AS n", ", ".join(f"LAST({name}.ts) AS of_{name}" for name in names)), "e price")
        rows = [row(rng, second + 1) for second in range(rng.randrange(1, 5))]
        key.advance(rows[-1][0], rows)
        if not key.state:
            continue
        why = explained(key)
        kept = key.state, key.watermark, list(key.emitted)
        claimed = {(reason.start_row - 1, reason.variable) for reason in why.reasons if reason.reason == "OPEN" and reason.variable}
        tried += bool(claimed)
        times = opened(key.stream, key.state).rows.column("__o0").cast("int64").to_pylist()
        found: set[tuple[int, str]] = set()
        for letters in [letters for count in range(1, 4) for letters in product("abc", repeat=count)] if claimed else ():
            key.state, key.watermark, key.emitted = kept[0], kept[1], list(kept[2])
            key.advance(rows[-1][0] + 9 * SECOND, [(rows[-1][0] + 1 + i, letter, 1) for i, letter in enumerate(letters)])
            for match in key.emitted[len(kept[2]) :]:
                begin, *lasts = (None if at is None else int(at.timestamp() * SECOND) for at in list(match.values())[: 1 + len(names)])
                if begin in times:
                    found |= {(times.index(begin), name) for name, at in zip(names, lasts, strict=True) if at is not None and at >= rows[-1][0]}
        assert claimed <= found, (clause, str(why), claimed, found)
