"""The output's watermark and the retained rows of all families."""

from __future__ import annotations

import random
import re

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.compiler.searches import BUDGETED, EVERY, PROXIES
from sparkcep.compiler.strategy import strategy_of
from sparkcep.compiler.stream_rules import kept
from sparkcep.engine.stream.keyed_stream import parted
from tests.property.in_process import drained
from tests.property.stream.statements import (
    AUTOMATA,
    BY_EXPIRY,
    CLAUSES,
    LAST_ROWS,
)
from tests.property.stream.streams import (
    ANY,
    HEAD,
    PLAIN,
    WINDOW,
    planned,
    rows_of,
    stream_over,
    timed,
)
from tests.property.stream.top_k import TOPS
from tests.property.stream.watermarks import check_output_watermark, check_silent_keys
from tests.selection import first, one_in


@pytest.mark.parametrize("text", one_in(20, CLAUSES + LAST_ROWS + AUTOMATA + BY_EXPIRY + TOPS, 4))
def test_nothing_told_later_is_behind_the_watermark_that_is_passed_on(text):
    check_output_watermark(text)


BEFORE = [f"{HEAD} {PLAIN} {ANY} {report} PATTERN ({pattern}) {WINDOW} DEFINE N AS v = 4, A AS w > 0, B AS v > 1" for report, pattern in (("FIRST MATCH", "~N A B"), ("ALL MATCHES", "~N A B"), ("ALL MATCHES", "(~N A) & B"))]


@pytest.mark.parametrize("text", [*BEFORE, *one_in(5, CLAUSES + LAST_ROWS + AUTOMATA + TOPS, 3)])
def test_nothing_is_kept_of_keys_that_are_silent(text):
    check_silent_keys(text)


SEARCHED_AGAIN = [
    text for text in LAST_ROWS
    if "MICROSECONDS" in text and not re.search(r"PREV|NEXT|BUNDLES", text) and (of := strategy_of(planned(text))).search not in (PROXIES, BUDGETED) and of.question != EVERY
]  # fmt: skip


@pytest.mark.parametrize("text", first(SEARCHED_AGAIN, 6))
def test_rows_are_kept_as_long_as_it_is_said(text):
    """EXPLAIN says how much earlier than the watermark the oldest kept row may be."""
    plan, rng, held = planned(text), random.Random(text), 0
    (said,) = (re.search(r"rows of the last (?:two windows|window), until the watermark is INTERVAL '(\S+)' SECOND past them", line) for line in kept(plan) if "rows of the last" in line)
    for _ in range(4):
        table = timed(plan, rows_of(rng, 1, 24))
        stream, states = stream_over(plan, table), [b""]
        for number in range(table.num_rows):
            watermark = int(table.column("__s0").cast(pa.int64())[number].as_py())
            _, left = drained(stream.advance(table.slice(number, 1), np.zeros(1, dtype=np.int64), states, watermark))
            states = left.states
            open, rows = stream.engine.bytes.read(parted(pa.array(states, pa.large_binary()))[0])
            times = rows.column("__o0").cast(pa.int64()).to_pylist()
            assert all(time + float(said[1]) * 1_000_000 > watermark + 1 for time in times), (watermark, times)
            held += len(times)
    assert held > 20
