"""NEXT over a stream: after each micro-batch a clause has emitted exactly the matches of which all rows, and all rows that NEXT may
read, are released.

The twin is plain Python: it takes rows by their places, and knows from the places of a fixed sequence how far NEXT reads.
"""

from __future__ import annotations

import collections
import datetime
import itertools
import operator
import random

import numpy as np
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.output_watermark import passed
from sparkcep.compiler.stream_rules import check_stream, kept, warnings
from sparkcep.engine.core.operator import NOTHING_DUE
from sparkcep.plan.build import make_plan
from sparkcep.plan.reach import Reach
from sparkcep.settings import Settings
from tests.property.in_process import drained
from tests.property.stream import streams
from tests.selection import first

COMPARE = {"<": operator.lt, ">": operator.gt, "<>": operator.ne}
WINDOW, SIZE = "WINDOW INTERVAL '5' MICROSECONDS", 5
HEAD = f"{streams.HEAD} FIRST(id) AS a, LAST(id) AS z"


class Sequence:
    """A random statement of variables that follow one another, and how Python answers it."""

    def __init__(self, rng: random.Random) -> None:
        self.names = "ABCD"[: rng.randint(2, 4)]
        self.kind = rng.choice(["", "", "EVENT SELECTION STRICT CONTIGUITY FIRST MATCH", "EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES"])
        self.skip = rng.choice(["PAST LAST ROW", "TO NEXT ROW"]) if "ALL" not in self.kind else "TO NEXT ROW"
        self.window = bool(self.kind) or rng.random() < 0.5
        self.tests: list[list[tuple]] = [[self._test(rng, i) for _ in range(rng.choice([0, 1, 1, 2]))] for i in range(len(self.names))]
        at = rng.randrange(len(self.names))
        reads = [(0, rng.randint(1, 3), "NEXT(FIRST(v), {})"), (at, rng.randint(1, 2), f"NEXT({self.names[at]}.v, {{}})"), (len(self.names) - 2, 1, "NEXT(LAST(v, 1), {})")]
        self.read = rng.choice([None, *reads])

    def _test(self, rng: random.Random, i: int) -> tuple:
        """(place of the row that is named, how many rows after it, comparison, constant or None for the row's own v)."""
        most = len(self.names)
        named, rows = rng.choice([(i, 0), (i, rng.randint(1, 3)), (i, rng.randint(1, most)), (rng.randint(0, i), rng.randint(1, most))])
        return named, rows, rng.choice([*COMPARE]), rng.choice([0, 1, 2, None]) if rows else rng.choice([0, 1, 2])

    def text(self) -> str:
        texts = []
        for i, name in enumerate(self.names):
            if self.tests[i]:
                parts = []
                for named, rows, compare, constant in self.tests[i]:
                    value = f"NEXT({'' if named == i else self.names[named] + '.'}v, {rows})" if rows else "v"
                    parts.append(f"{value} {compare} {'v' if constant is None else constant}")
                texts.append(f"{name} AS {' AND '.join(parts)}")
        read = f", {self.read[2].format(self.read[1])} AS x" if self.read else ""
        define = f" DEFINE {', '.join(texts)}" if texts else ""
        return f"{HEAD}{read} AFTER MATCH SKIP {self.skip} {self.kind} PATTERN ({' '.join(self.names)}) {WINDOW if self.window else ''}{define}"

    def ahead(self) -> int:
        """How many rows after the last one NEXT may read, by places."""
        last = len(self.names) - 1
        reads = [named + rows if named != i else i + rows for i, tests in enumerate(self.tests) for named, rows, _, _ in tests if rows]
        return max([0, *(read - last for read in reads), *([self.read[0] + self.read[1] - last] if self.read else [])])

    def matches(self, rows: list[tuple[int, int | None]], sure: int) -> collections.Counter:
        """The matches of rows (time, v) that end before the row ``sure``, as (first time, last time, what NEXT reads)."""
        found, begin = collections.Counter(), 0
        while begin < len(rows):
            to = begin + 1
            for taken in self._runs(begin, len(rows)):
                in_window = not self.window or rows[taken[-1]][0] < rows[begin][0] + SIZE
                if in_window and all(self._holds(test, i, taken, rows) for i, tests in enumerate(self.tests) for test in tests):
                    at = taken[self.read[0]] + self.read[1] if self.read else 0
                    found[rows[begin][0], rows[taken[-1]][0], rows[at][1] if self.read and at < len(rows) else None] += taken[-1] < sure
                    to = taken[-1] + 1 if self.skip == "PAST LAST ROW" else to
            begin = to
        return +found

    def _runs(self, begin: int, end: int):
        n = len(self.names)
        if "ANY" in self.kind:
            return ((begin, *rest) for rest in itertools.combinations(range(begin + 1, end), n - 1))
        return [tuple(range(begin, begin + n))] if begin + n <= end else []

    def _holds(self, test: tuple, i: int, taken: tuple, rows: list) -> bool:
        named, after, compare, constant = test
        at = taken[named] + after
        value, other = rows[at][1] if at < len(rows) else None, rows[taken[i]][1] if constant is None else constant
        return value is not None and other is not None and COMPARE[compare](value, other)


def compared(rng: random.Random) -> tuple[str, int]:
    """Compares one random statement over a random stream after each micro-batch; the statement and how many matches were there."""
    sequence = Sequence(rng)
    text = sequence.text()
    plan, drawn = streams.planned(text), streams.rows_of(rng, 3, 9 if "ANY" in sequence.kind else 16)
    table = streams.timed(plan, drawn)
    if not table.num_rows:
        return text, 0
    key, rows = np.asarray(table.column("__p0")), {k: [(row["id"], row["v"]) for row in some] for k, some in drawn.items()}
    told: collections.Counter = collections.Counter()
    names, count = dict(plan.outputs), 0
    for watermark, released, tables in streams.micro_batches(plan, table, rng, rng.choice([0, 2, 5])):
        for row in (row for part in tables for row in part.to_pylist()):
            times = [_micros(row[names[name]]) for name in ("a", "z")]
            told[row["__p0"], *times, row[names["x"]] if sequence.read else None] += 1
        wanted: collections.Counter = collections.Counter()
        for k, some in rows.items():
            there = int(released[key == k].sum())
            wanted.update({(k, *match): n for match, n in sequence.matches(some, there - sequence.ahead()).items()})
        assert told == wanted, (text, watermark)
        count = sum(wanted.values())
    return text, count


def _micros(value) -> int:
    return value if isinstance(value, int) else int((value - datetime.datetime(1970, 1, 1)) / datetime.timedelta(microseconds=1))


@pytest.mark.parametrize("seed", first(range(32), wider=2))
def test_exactly_the_matches_that_released_rows_allow(seed):
    rng = random.Random(f"next {seed}")
    counts = [compared(rng)[1] for _ in range(15)]
    assert sum(count > 0 for count in counts) > 2 and sum(counts) > 5


ROWS_AHEAD = [
    ("PATTERN (A B) DEFINE A AS NEXT(A.v) < 0", 0),
    ("PATTERN (A B) DEFINE B AS NEXT(v) < 0", 1),
    ("PATTERN (A B C) DEFINE C AS NEXT(A.v, 2) > v", 0),
    ("PATTERN (A B C) DEFINE C AS NEXT(A.v, 3) > v", 1),
    ("PATTERN (A B+ C) DEFINE C AS NEXT(B.v) > v", 0),
    ("PATTERN (A B+) DEFINE B AS NEXT(v) > v", 1),
    ("PATTERN (A B?) DEFINE A AS NEXT(v) > 0", 1),
    ("PATTERN (PERMUTE(A, B) C) DEFINE A AS NEXT(v, 2) > 0", 1),
    (f"EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B C D) {WINDOW} DEFINE A AS NEXT(v, 2) > 0", 1),
    (f"EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B C D) {WINDOW} DEFINE A AS NEXT(v, 2) > 0", 0),
    (f"EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A ~N B) {WINDOW} DEFINE N AS NEXT(v) > 0", 0),
    (f"EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B ~N) {WINDOW} DEFINE N AS NEXT(v) > 0", 1),
    (f"EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN ((A B) & C) {WINDOW} DEFINE A AS NEXT(v) > 0", 0),
    (f"EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN ((A B) & C) {WINDOW} DEFINE B AS NEXT(A.v) > 0", 1),
    (f"PATTERN (A B) {WINDOW} APPROX 1 DEFINE A AS NEXT(v) > 0", 1),
]


@pytest.mark.parametrize(("text", "rows"), ROWS_AHEAD)
def test_how_far_next_reads(text, rows):
    plan = streams.planned(f"{HEAD} {text}")
    assert Reach.of(plan).ahead == rows
    assert any("NEXT" in warning for warning in warnings(plan)) == (rows > 0)
    assert kept(plan)


@pytest.mark.parametrize(("measure", "rows"), [("NEXT(FIRST(v), 2)", 0), ("NEXT(v)", 1), ("NEXT(A.v, 2)", 0), ("NEXT(A.v, 3)", 1), ("NEXT(LAST(v, 1))", 0)])
def test_how_far_a_measure_reads(measure, rows):
    assert Reach.of(streams.planned(f"{HEAD}, {measure} AS x PATTERN (A B C)")).ahead == rows


@pytest.mark.parametrize(
    ("text", "values", "told"),
    [
        ("PATTERN (A B) {} DEFINE A AS NEXT(A.v) < 0, B AS B.v < 0", (1, -1), (1, 2)),
        ("PATTERN (S D U) {} DEFINE S AS NEXT(v) < v, D AS v < PREV(v), U AS v > PREV(v)", (3, 1, 2), (1, 3)),
        ("PATTERN (S D U) {} DEFINE S AS NEXT(v, 2) < v, D AS v < PREV(v), U AS v > PREV(v)", (3, 1, 2), (1, 3)),
        ("PATTERN (A B C) {} DEFINE B AS NEXT(v) > A.v", (3, 3, 4), (1, 3)),
        ("EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B C) {} DEFINE B AS NEXT(v) > A.v", (3, 3, 4), (1, 3)),
        ("PATTERN (A B+) {} DEFINE B AS v > 0 AND NEXT(v) > 0", (3,), None),  # it waits for no row, as its window has ended
    ],
)
@pytest.mark.parametrize("window", [WINDOW, "WINDOW 3 ROWS"])
def test_a_silent_key_is_emitted_and_removed(text, values, told, window):
    """A match whose rows hold all that NEXT reads needs no further row. Its key's state goes with its window."""
    plan = streams.planned(f"{HEAD} {text.format(window)}")
    table = streams.timed(plan, {0: [{"id": i + 1, "v": v, "w": 0, "s": None} for i, v in enumerate(values)]})
    stream, states, found = streams.stream_over(plan, table), [b""], []
    for watermark, rows in ((len(values), table), (100, table.slice(0, 0))):
        tables, left = drained(stream.advance(rows, np.zeros(rows.num_rows, dtype=np.int64), states, watermark))
        found += [tuple(_micros(row[dict(plan.outputs)[name]]) for name in ("a", "z")) for part in tables for row in part.to_pylist()]
        states = left.states
    assert found == ([told] if told else [])
    assert window != WINDOW or (states == [b""] and left.due[0] == NOTHING_DUE)


def test_a_match_whose_window_has_ended_waits_for_what_next_reads_after_it():
    plan = streams.planned(f"{HEAD} PATTERN (A B) {WINDOW} DEFINE B AS NEXT(v) > 0")
    table = streams.timed(plan, {0: [{"id": at, "v": 3, "w": 0, "s": None} for at in (1, 2, 90)]})
    stream, states, found = streams.stream_over(plan, table), [b""], []
    for watermark, rows in ((2, table.slice(0, 2)), (80, table.slice(0, 0)), (90, table.slice(2))):
        tables, left = drained(stream.advance(rows, np.zeros(rows.num_rows, dtype=np.int64), states, watermark))
        found.append(sum(part.num_rows for part in tables))
        states = left.states
    assert found == [0, 0, 1]


def test_a_clause_whose_next_stays_in_the_match_passes_a_watermark_on():
    text = f"{HEAD} PATTERN (A B) {WINDOW} DEFINE A AS NEXT(v) > 0"
    plan = make_plan(parse_clause(text.replace("ORDER BY id", "ORDER BY id + 0")), settings=Settings(prefilter=False))
    check_stream(plan)
    assert passed(plan).behind == SIZE
