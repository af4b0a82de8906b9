"""A clause over a stream: rows in disorder, cut into micro-batches anywhere, with bytes between them, against the answer over the
same rows in a table.

What is reported at a watermark must be the beginning of the answer over the released rows followed by any rows to come; and all
matches must be there whose windows, and those of all earlier rows, have ended.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import itertools
import math
import random
import re
import sqlite3
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.emission import emission_of
from sparkcep.compiler.output_watermark import passed
from sparkcep.compiler.searches import BUDGETED, BUNDLED, BY_COST, CHEAPEST, COMPUTATIONS, COUNTED, EVERY, GRAPH, PROXIES
from sparkcep.compiler.strategy import strategy_of
from sparkcep.compiler.stream_rules import check_stream, kept
from sparkcep.engine.core.effort import Limits
from sparkcep.engine.core.kernel_loop import OutputRoom
from sparkcep.engine.core.operator import NOTHING_DUE
from sparkcep.engine.factory import match_table, prepare
from sparkcep.engine.stream.keyed_stream import KeyedStream, _sorted, parted
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.plan.build import make_plan
from sparkcep.plan.extend.approx import ALL
from sparkcep.plan.reach import Reach
from sparkcep.plan.records import Order
from sparkcep.settings import Settings
from tests.oracle import automaton as oracle
from tests.oracle import cases, measures, selection
from tests.property.approx import approx_cases
from tests.property.in_process import drained, inputs
from tests.selection import first, one_in
from tests.support.caught import without_catching

HEAD = "PARTITION BY p ORDER BY id MEASURES"
NUMBERED = "MATCH_NUMBER() AS n, FIRST(id) AS a, LAST(id) AS z, count(*) AS c"
PLAIN = "FIRST(id) AS a, LAST(id) AS z, count(*) AS c"
MS = 1  # microseconds of one step of the order column
_IN_TIME = re.compile(r"\b(WINDOW|WITHIN) (\d+)(?! ROWS)")
WINDOW = "WINDOW INTERVAL '5' MICROSECONDS"

CLAUSES = [
    f"{HEAD} {PLAIN} PATTERN (A B+ C) DEFINE A AS v < 2, B AS v >= PREV(v), C AS w > 0",
    f"{HEAD} {NUMBERED} PATTERN (A B*? C) DEFINE B AS v >= avg(v), C AS w > 0",
    f"{HEAD} {NUMBERED}, PREV(v, 2) AS p2, NEXT(v, 1) AS n1 PATTERN (^ A B* C) DEFINE B AS v > 0, C AS w > 0",
    f"{HEAD} {NUMBERED} PATTERN (^ A B | C D) DEFINE A AS v > 0, B AS w > 0, C AS w > 1",
    f"{HEAD} {PLAIN} AFTER MATCH SKIP TO NEXT ROW PATTERN (A B{{1,3}}) DEFINE B AS v > FIRST(v)",
    f"{HEAD} {PLAIN} AFTER MATCH SKIP TO LAST B PATTERN (A B+ C) DEFINE B AS v > 0, C AS v > FIRST(v)",
    f"{HEAD} {NUMBERED} ALL ROWS PER MATCH PATTERN (A B+) {WINDOW} DEFINE B AS v >= PREV(v)",
    f"{HEAD} {NUMBERED} ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B+ C) {WINDOW} DEFINE A AS v < 2, B AS v > 0, C AS w > 0",
    f"{HEAD} {PLAIN} ALL ROWS PER MATCH WITH UNMATCHED ROWS AFTER MATCH SKIP TO NEXT ROW PATTERN (A (B | C){{2}} D?) DEFINE B AS v > FIRST(v), C AS v < FIRST(v)",
    f"{HEAD} {PLAIN} EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B+ C) {WINDOW} DEFINE A AS v < 2, B AS v >= PREV(v), C AS v > A.v",
    f"{HEAD} {NUMBERED} EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B C) DEFINE A AS v < 2, B AS v > 2, C AS v > A.v",
    f"{HEAD} {NUMBERED} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A ~N C) {WINDOW} DEFINE A AS v < 2, N AS v = 2, C AS w > 0",
    f"{HEAD} {PLAIN} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B+ C) WINDOW 4 ROWS DEFINE A AS v < 3, C AS w > 0",
    f"{HEAD} {PLAIN} AFTER MATCH SKIP PAST LAST ROW EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B C) {WINDOW} DEFINE A AS v < 3, C AS w > 0",
    f"{HEAD} {NUMBERED} ALL ROWS PER MATCH WITH UNMATCHED ROWS EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A C) {WINDOW} DEFINE A AS v < 2, C AS w > 0",
    f"{HEAD} {NUMBERED} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN ((A B) & (C D)) {WINDOW} DEFINE A AS v < 2, B AS v > 1, C AS w > 0, D AS w < 1",
    f"{HEAD} {PLAIN}, PREV(FIRST(v)) AS b PATTERN (A B+ C) {WINDOW} DEFINE B AS v >= 1, C AS w > 0",
    f"{HEAD} {PLAIN} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (~N A B) {WINDOW} DEFINE N AS v > PREV(v), A AS w > 0, B AS v > 1",
    # PREV of rows that have others of the match before them
    f"{HEAD} {PLAIN}, PREV(LAST(C.v), 2) AS b PATTERN (A B+ C) {WINDOW} DEFINE B AS v >= PREV(v), C AS v < PREV(v)",
    f"{HEAD} {PLAIN}, PREV(B.v) AS b EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A ~N B C?) {WINDOW} DEFINE N AS v > PREV(v), B AS v >= PREV(v), C AS w > PREV(w, 2)",
    # told at once, with conditions on the match, by neighbours, with rows in no match, with NEXT
    f"{HEAD} {PLAIN} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B+ C) {WINDOW} DEFINE A AS v < 3, B AS v >= avg(B.v), C AS w > A.w",
    f"{HEAD} {PLAIN} EVENT SELECTION SKIP TILL NEXT MATCH ALL MATCHES PATTERN (A B* C) {WINDOW} DEFINE A AS v < 3, B AS v >= LAST(B.v), C AS w > 0",
    f"{HEAD} {PLAIN} EVENT SELECTION STRICT CONTIGUITY ALL MATCHES PATTERN (A B* C?) {WINDOW} DEFINE A AS v < 3, B AS v >= A.v, C AS w > 0",
    f"{HEAD} {PLAIN} EVENT SELECTION STRICT CONTIGUITY ALL MATCHES PATTERN (A B* C) WINDOW INTERVAL '20' MICROSECONDS DEFINE A AS v < 4, B AS w < 2, C AS w > 1",
    f"{HEAD} {PLAIN} ALL ROWS PER MATCH WITH UNMATCHED ROWS EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B C) {WINDOW} DEFINE A AS v < 3, B AS v > A.v, C AS w > 0",
    f"{HEAD} {PLAIN}, NEXT(LAST(v), 2) AS x EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A C) {WINDOW} DEFINE A AS v <> NEXT(v), C AS w > 0",
    f"{HEAD} {PLAIN} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN ((A B) & (C D+)) {WINDOW} DEFINE A AS v < 3, B AS v > D.v, C AS w > 0",
    f"{HEAD} {PLAIN} EVENT SELECTION SKIP TILL ANY MATCH FIRST MATCH PATTERN (A ~N C) {WINDOW} DEFINE A AS v < 2, N AS v = 2, C AS w > 0",
]
ANY = "EVENT SELECTION SKIP TILL ANY MATCH"
COUNTS = f"{HEAD} LAST(id) AS z, MATCH_COUNT() AS n {ANY}"
GRAPHS = f"{HEAD} LAST(id) AS z, MATCH_GRAPH() AS g {ANY}"
LAST_ROWS = [
    f"{COUNTS} PATTERN (A B+ C) {WINDOW} DEFINE A AS v < 2, C AS w > 0",
    f"{COUNTS} PATTERN (A B+ C) {WINDOW} DEFINE A AS v < 2, B AS v >= PREV(v), C AS w > A.w",
    f"{COUNTS} PATTERN (A B* C) WINDOW 4 ROWS DEFINE A AS v < 2, B AS v <> NEXT(v), C AS w > 0",
    f"{COUNTS} PATTERN (A ~N C) {WINDOW} DEFINE A AS v < 3, N AS v = 2, C AS w > 0",
    f"{COUNTS} PATTERN (~N A C) {WINDOW} DEFINE A AS v < 3, N AS v = 2, C AS w > 0",
    f"{COUNTS} PATTERN ((A B) & (C D)) {WINDOW} DEFINE A AS v < 3, B AS v > 1, C AS w > 0, D AS w < 1",
    f"{GRAPHS} PATTERN (A B+ C) {WINDOW} DEFINE A AS v < 3, C AS w > 0",
    f"{GRAPHS} PATTERN (((A*?)? (A* | A)) WITHIN INTERVAL '4' MICROSECONDS) WINDOW INTERVAL '3' MICROSECONDS DEFINE A AS v > 0",
    f"{GRAPHS} PATTERN (A B C) {WINDOW} DEFINE A AS v < 3, B AS w <> A.v",
    f"{GRAPHS} PATTERN (A ~N C) WINDOW 5 ROWS DEFINE A AS v < 3, N AS v = 2, C AS w > 0",
    f"{HEAD} LAST(id) AS z, FIRST(id) AS f, MATCH_NUMBER() AS n, MATCH_ERRORS() AS e PATTERN (A B C) {WINDOW} APPROX 1 DEFINE A AS v < 2, B AS v > 2, C AS w > 0",
    f"{HEAD} LAST(id) AS z, MISSING() AS m PATTERN (A B+ C) APPROX 2 DEFINE A AS v < 2, B AS v > 2, C AS w > 1",
    f"{HEAD} LAST(id) AS z, MISSING() AS m PATTERN (A B C) {WINDOW} APPROX 1 DEFINE A AS v < 2, B AS v > 2, C AS w > 0",
    f"{HEAD} MATCH_ERRORS() AS e, PREV(v) AS p ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B C) {WINDOW} APPROX 1 DEFINE A AS v < 1, B AS v > 3, C AS w > 1",
    f"{HEAD} LAST(id) AS z, MATCH_NUMBER() AS n, MATCH_ERRORS() AS e PATTERN (A B C) {WINDOW} APPROX 2 PROXY MATCHES PER ERROR DEFINE A AS v < 2, B AS v > 2, C AS w > 0",
    f"{HEAD} LAST(id) AS z, MATCH_NUMBER() AS n, MATCH_ERRORS() AS e PATTERN (A B C) {WINDOW} APPROX 1 DEFINE A AS v < 2, B AS v > A.v, C AS w > A.w",
    f"{HEAD} LAST(id) AS z, MATCH_NUMBER() AS n, MATCH_COUNT() AS c PATTERN (A B C) {WINDOW} APPROX 1 PROXY MATCHES PER ERROR DEFINE A AS v < 2, B AS v > 2, C AS w > A.w",
    f"{HEAD} LAST(id) AS z, FIRST(id) AS a, MATCH_ERRORS() AS e PATTERN (A B C) {WINDOW} APPROX 1 ALL MATCHES DEFINE A AS v < 2, B AS v > 2, C AS w > A.w",
    f"{HEAD} BUNDLE_START() AS s, BUNDLE_END() AS z, BUNDLE_SIZE() AS c, MATCH_NUMBER() AS n PATTERN (A B C) WINDOW INTERVAL '3' MICROSECONDS APPROX 1 MATCH BUNDLES "
    "DEFINE A AS v < 1, B AS v > 3, C AS w > 1",
    f"{HEAD} BUNDLE_END() AS z, BUNDLE_SIZE() AS c, MATCH_ERRORS() AS e PATTERN (A B C) WINDOW 3 ROWS APPROX 1 MATCH BUNDLES DEFINE A AS v < 3, B AS v > NEXT(v), C AS w > 0",
    # ^ holds for a key's first row ever
    f"{COUNTS} PATTERN (^ A B+ C) WINDOW INTERVAL '30' MICROSECONDS DEFINE A AS v < 4, C AS w > 0",
    f"{COUNTS} PATTERN ((^ A | D) B* C) {WINDOW} DEFINE A AS v < 4, B AS v > 0, C AS w > 0, D AS v = 3",
    f"{COUNTS} PATTERN ((^ A | D) B* C) {WINDOW} DEFINE A AS v < 4, B AS v >= A.v OR w > D.w, C AS w > 0, D AS v = 3",
    f"{GRAPHS} PATTERN ((^ A | D) C) {WINDOW} DEFINE A AS v < 4, C AS w > 0, D AS v = 3",
    f"{COUNTS} PATTERN ((^ A B) & (C D)) WINDOW INTERVAL '30' MICROSECONDS DEFINE B AS v > 1, C AS w > 0, D AS w < 1",
    f"{HEAD} LAST(id) AS z, MATCH_NUMBER() AS n, MATCH_ERRORS() AS e PATTERN ((^ A | D) B C) WINDOW 5 ROWS APPROX 1 DEFINE B AS v > 1, C AS w > B.w, D AS v = 3",
    # CLASSIFIER() of a row outside of the match is NULL, whatever rows are kept
    f"{HEAD} {PLAIN}, PREV(CLASSIFIER()) AS b, NEXT(CLASSIFIER()) AS x ALL ROWS PER MATCH PATTERN (A B+ C) {WINDOW} DEFINE A AS v < 3, B AS v >= FIRST(v) AND PREV(CLASSIFIER()) IS NOT NULL, C AS w > 0",
    f"{HEAD} {PLAIN}, PREV(CLASSIFIER(), 2) AS b ALL ROWS PER MATCH EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B C) {WINDOW} DEFINE A AS v < 3, B AS v > 1, C AS v > A.v",
    f"{HEAD} PREV(CLASSIFIER()) AS b, NEXT(CLASSIFIER(A)) AS x, MATCH_ERRORS() AS e ALL ROWS PER MATCH PATTERN (A B C) {WINDOW} APPROX 1 DEFINE A AS v < 2, B AS v > A.v, C AS w > A.w",
    f"{HEAD} PREV(LAST(CLASSIFIER())) AS b, BUNDLE_END() AS z PATTERN (A B C) WINDOW INTERVAL '7' MICROSECONDS APPROX 1 MATCH BUNDLES DEFINE A AS v < 2, B AS v > A.v, C AS w > A.w",
    # rows in no match
    f"{HEAD} MATCH_NUMBER() AS n, MATCH_ERRORS() AS e, PREV(v) AS b ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B C) {WINDOW} APPROX 1 DEFINE A AS v < 2, B AS v > A.v, C AS w > A.w",
    f"{HEAD} MATCH_ERRORS() AS e, MATCH_COUNT() AS k ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B C) WINDOW 4 ROWS APPROX 1 PROXY MATCHES PER ERROR DEFINE A AS v < 2, B AS v > 2, C AS w > 0",
    f"{HEAD} MISSING() AS m ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B ~N) {WINDOW} APPROX 1 WEIGHTS (A 2) DEFINE A AS v < 2, B AS v > 2, N AS v = 0",
    # bundles of matches at which conditions, negations or MATCH_COUNT() look
    f"{HEAD} BUNDLE_START() AS s, BUNDLE_END() AS z, BUNDLE_SIZE() AS c, MATCH_NUMBER() AS n, FIRST(id) AS f, NEXT(LAST(v)) AS x, PREV(FIRST(v)) AS b PATTERN (A B C) WINDOW INTERVAL '7' MICROSECONDS APPROX 1 MATCH BUNDLES "
    "DEFINE A AS v < 2, B AS v > A.v, C AS w > A.w",
    f"{HEAD} BUNDLE_START() AS s, BUNDLE_END() AS z, MATCH_COUNT() AS k, FIRST(id) AS f PATTERN (A B C) WINDOW INTERVAL '3' MICROSECONDS APPROX 1 MATCH BUNDLES DEFINE A AS v < 2, B AS v > 2, C AS w > 0",
    f"{HEAD} BUNDLE_START() AS s, BUNDLE_END() AS z, MATCH_COUNT() AS k, LAST(id) AS l PATTERN (A B C) WINDOW 3 ROWS APPROX 1 MATCH BUNDLES DEFINE A AS v < 2, B AS v > A.v, C AS w > 1",
    f"{HEAD} BUNDLE_END() AS z, BUNDLE_SIZE() AS c, FIRST(id) AS f PATTERN (A B C ~N) WINDOW INTERVAL '3' MICROSECONDS APPROX 1 MATCH BUNDLES DEFINE A AS v < 2, B AS v > 2, C AS w > 0, N AS v = 0",
    f"{HEAD} BUNDLE_END() AS z, MATCH_ERRORS() AS e, CLASSIFIER() AS l ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B C) WINDOW INTERVAL '2' MICROSECONDS APPROX 1 MATCH BUNDLES "
    "DEFINE A AS v < 1, B AS v > A.v, C AS w > 1",
    # negations that look behind the match, and beside &
    f"{COUNTS} PATTERN (A C ~N) {WINDOW} DEFINE A AS v < 3, N AS v = 2, C AS w > 0",
    f"{COUNTS} PATTERN (A B ~N) WINDOW INTERVAL '6' MICROSECONDS DEFINE A AS v < 4, N AS v > NEXT(v)",
    f"{COUNTS} PATTERN (A C ~(N M)) WINDOW 5 ROWS DEFINE A AS v < 3, N AS v = 2, M AS w > A.w, C AS w > 0",
    f"{GRAPHS} PATTERN (A B C ~N) {WINDOW} DEFINE A AS v < 3, C AS w > 0, N AS v > NEXT(v)",
    f"{COUNTS} PATTERN ((A ~N B) & (C D)) {WINDOW} DEFINE A AS v < 3, B AS v > 1, C AS w > 0, D AS w < 1, N AS v = 3",
    f"{COUNTS} PATTERN ((A B ~N) & (~M C)) {WINDOW} DEFINE A AS v < 3, B AS v > 1, C AS w > 0, N AS v = 2, M AS v = 3",
    f"{HEAD} LAST(id) AS z, FIRST(id) AS a, MATCH_NUMBER() AS n, MATCH_ERRORS() AS e PATTERN (A B ~N C) {WINDOW} APPROX 1 WEIGHTS (A 2) DEFINE A AS v < 2, B AS v > 2, N AS v > A.v, C AS w > 1",
    f"{HEAD} LAST(id) AS z, MATCH_ERRORS() AS e PATTERN (A B ~N) {WINDOW} APPROX 1 WEIGHTS (A 2, ~N 1) PROXY MATCHES PER ERROR DEFINE A AS v < 2, B AS v > 2, N AS v = 0",
]


PEAKS = (
    "AUTOMATON (REGISTER n INT = 0, last INT STATE q2 FINAL ARC a FROM q0 TO q1 WHEN v < 3 SET last = v ARC b FROM q1 TO q1 WHEN v >= last SET n = n + 1, last = v "
    "ARC c FROM q1 TO q2 WHEN w > 0)"
)
ABSENT = "AUTOMATON (STATE q1 IGNORE WHEN v <> 2, q2 FINAL ARC a FROM q0 TO q1 WHEN v < 3 ARC FROM q1 TO q2 WHEN w > 1 ARC FROM q1 TO q2 ON EXPIRY)"
AUTOMATA = [
    f"{HEAD} FIRST(id) AS a, LAST(id) AS z, n AS n, MATCH_NUMBER() AS m, MATCH_TO() AS t {PEAKS} {WINDOW}",
    f"{HEAD} FIRST(id) AS a, LAST(id) AS z, n AS n {PEAKS}",
    f"{HEAD} CLASSIFIER() AS c, NEXT(v) AS x ALL ROWS PER MATCH {PEAKS} {WINDOW}",
    f"{HEAD} FIRST(id) AS a, LAST(id) AS z, n AS n, MATCH_TO() AS t {PEAKS} LIFETIME TO id + 4",
    f"{HEAD} CLASSIFIER() AS c, n AS n, LAST(v) AS l ALL ROWS PER MATCH WITH UNMATCHED ROWS {PEAKS} {WINDOW}",
    f"{HEAD} MATCH_NUMBER() AS m, PREV(v) AS b, n AS n ALL ROWS PER MATCH WITH UNMATCHED ROWS {PEAKS} LIFETIME TO id + 4",
    f"{HEAD} FIRST(id) AS a, LAST(id) AS z, MATCH_NUMBER() AS m, MATCH_FROM() AS f {ABSENT} {WINDOW}",
    f"{HEAD} CLASSIFIER() AS c, MATCH_FROM() AS f, NEXT(v) AS x ALL ROWS PER MATCH WITH UNMATCHED ROWS {ABSENT} LIFETIME TO id + 4",
]
# without numbers, matches of arcs ON EXPIRY come behind others of later rows (test_stream_expiries compares them)
BY_EXPIRY = [f"{HEAD} FIRST(id) AS a, LAST(id) AS z, MATCH_FROM() AS f {ABSENT} {WINDOW}"]


PAIRS = f"{HEAD} A.id AS a, LAST(id) AS z, WINDOW_START() AS s {ANY} ALL MATCHES"
NEAR = f"{HEAD} FIRST(id) AS a, LAST(id) AS z, WINDOW_START() AS s"
TOPS = [
    f"{PAIRS} PATTERN (A B C) {WINDOW} SLIDE INTERVAL '2' MICROSECONDS PREF MAX (A.v + B.v + C.v) TOP 2 DEFINE A AS v < 3, C AS w > 0",
    f"{PAIRS} PATTERN (A B+ C) {WINDOW} SLIDE INTERVAL '1' MICROSECONDS PREF MAX (C.v - A.v) TOP 3 DEFINE A AS v < 3, B AS v >= PREV(v), C AS w > 0",
    f"{PAIRS} PATTERN (A B) WINDOW 4 ROWS SLIDE 2 ROWS PREF MAX (A.v * B.w) TOP 2 DEFINE A AS v > 0",
    f"{PAIRS} PATTERN (A ~N B) {WINDOW} SLIDE INTERVAL '5' MICROSECONDS PREF MAX (A.v + B.v) TOP 2 DEFINE A AS v > 0, N AS v = 2",
    f"{PAIRS} PATTERN ((A B) & (C D)) {WINDOW} SLIDE INTERVAL '3' MICROSECONDS PREF MAX (A.v + D.v) TOP 2 DEFINE A AS v > 0, C AS w > 0",
    f"{PAIRS} PATTERN (A B) {WINDOW} SLIDE INTERVAL '3' MICROSECONDS PREF MAX (A.v + B.v) TOP 2 OVERALL DEFINE A AS v > 0",
    f"{NEAR} PATTERN (A B C) {WINDOW} SLIDE INTERVAL '2' MICROSECONDS APPROX 1 PREF MAX (sum(v) - MATCH_ERRORS()) TOP 3 DEFINE A AS v < 3, B AS v > 1, C AS w > 0",
    f"{NEAR} PATTERN (A B C) {WINDOW} SLIDE INTERVAL '2' MICROSECONDS APPROX 1 PROXY MATCHES PREF MAX (sum(v)) TOP 2 DEFINE A AS v < 3, B AS v > 1, C AS w > 0",
    f"{NEAR} PATTERN (A B C) {WINDOW} SLIDE INTERVAL '3' MICROSECONDS APPROX 2 PROXY MATCHES PER ERROR PREF MAX (count(*) - MATCH_ERRORS()) TOP 2 DEFINE A AS v < 2, B AS v > A.v, C AS w > 0",
    f"{NEAR} PATTERN (A B C) WINDOW 5 ROWS SLIDE 2 ROWS APPROX 1 PROXY MATCHES PREF MAX (sum(w)) TOP 2 DEFINE A AS v < 3, B AS v > 1, C AS w > A.w",
    # windows that may wait behind their ends
    f"{NEAR} {ANY} FIRST MATCH PATTERN (A B+ C) {WINDOW} SLIDE INTERVAL '2' MICROSECONDS PREF MAX (sum(v)) TOP 2 DEFINE A AS v < 3, B AS v >= PREV(v), C AS w > 0",
    f"{NEAR} EVENT SELECTION STRICT CONTIGUITY FIRST MATCH PATTERN (A B*) {WINDOW} SLIDE INTERVAL '1' MICROSECONDS PREF MAX (sum(v)) TOP 1 DEFINE B AS v >= PREV(v)",
    f"{NEAR} EVENT SELECTION SKIP TILL NEXT MATCH FIRST MATCH PATTERN (A B+ C) WINDOW 5 ROWS SLIDE 2 ROWS PREF MAX (sum(v)) TOP 2 DEFINE A AS v < 3, B AS v >= PREV(v)",
    f"{NEAR} {ANY} FIRST MATCH PATTERN (A B) {WINDOW} SLIDE INTERVAL '3' MICROSECONDS PREF MAX (A.v + B.v) TOP 2 OVERALL DEFINE A AS v > 0",
    f"{PAIRS} PATTERN (~M A B ~N) {WINDOW} SLIDE INTERVAL '2' MICROSECONDS PREF MAX (A.v + B.v) TOP 2 DEFINE M AS v = 0, A AS v > 0, N AS v = 2",
    f"{PAIRS} PATTERN ((A B ~N) & C) {WINDOW} SLIDE INTERVAL '2' MICROSECONDS PREF MAX (A.v + C.v) TOP 2 OVERALL DEFINE A AS v > 0, N AS v = 2, C AS w > 0",
    f"{NEAR}, NEXT(LAST(v)) AS x {ANY} ALL MATCHES PATTERN (A B) {WINDOW} SLIDE INTERVAL '2' MICROSECONDS PREF MAX (A.v + B.v) TOP 2 DEFINE A AS v > 0, B AS v <> NEXT(v)",
    f"{PAIRS} PATTERN (^ A B C?) {WINDOW} SLIDE INTERVAL '2' MICROSECONDS PREF MAX (A.v + B.v) TOP 2 DEFINE B AS v > 0",
    f"{PAIRS} PATTERN (A B) {WINDOW} SLIDE INTERVAL '2' MICROSECONDS PREF MAX (A.v + B.v) TOP 2 DEFINE B AS v >= MATCH_NUMBER()",
    f"{NEAR} {ANY} FIRST MATCH PATTERN (A B) {WINDOW} SLIDE INTERVAL '1' MICROSECONDS PREF MAX (A.v + B.v) TOP 2 DEFINE B AS MATCH_NUMBER() % 3 < 2",
    f"{NEAR} PATTERN (A B C) {WINDOW} SLIDE INTERVAL '2' MICROSECONDS APPROX 1 PROXY MATCHES PREF MAX (sum(v)) TOP 2 DEFINE A AS v < 3, B AS v > NEXT(v), C AS w > 0",
    f"{NEAR} PATTERN (~N A B C) {WINDOW} SLIDE INTERVAL '2' MICROSECONDS APPROX 1 PROXY MATCHES PREF MAX (sum(v)) TOP 2 DEFINE N AS v = 0, A AS v < 3, B AS v > 1, C AS w > 0",
]


def best(plan, leaves: pa.Table) -> dict[tuple, list[tuple]]:
    """The k best of each partition and window, by score and places of rows, as what they measure. ``leaves``: what the engine
    gives."""
    ranking, names = plan.ranking, leaves.column_names
    start = next(leaf.name for leaf in plan.leaves if leaf.spec.kind == "window_start")
    database = sqlite3.connect(":memory:")
    database.execute(f"CREATE TABLE leaves ({', '.join(names)})")
    rows = [tuple(str(v) if isinstance(v, (list, datetime.datetime)) else v for v in row.values()) for row in leaves.to_pylist()]
    database.executemany(f"INSERT INTO leaves VALUES ({', '.join('?' * len(names))})", rows)
    scores = [score for (score,) in database.execute(f"SELECT {ranking.objectives[0]} FROM leaves ORDER BY rowid")]
    groups: dict[tuple, list[tuple]] = {}
    for score, row in zip(scores, leaves.to_pylist(), strict=True):
        rank = (score is None, 0 if score is None else -score, row[ranking.vector])
        shown = tuple(str(row[leaf]) for _, leaf in plan.outputs if leaf in row)
        groups.setdefault(("" if ranking.overall else row["__p0"], row[start]), []).append((rank, row["__p0"], shown))
    return {group: [found[2] for found in sorted(some)[: ranking.top]] for group, some in groups.items()}


@pytest.mark.parametrize("text", one_in(12, TOPS, 3))
def test_the_best_of_windows(text):
    rng = random.Random(text)
    assert sum(compared_best(text, rng) for _ in range(6)) > (20 if "^" not in text else 2)


def compared_best(text: str, rng: random.Random) -> int:
    """Of each window that is decided the best are told, once, and nothing of others; how many windows these were.

    What is told is the answer over all rows, over the released ones alone, and over these with others to come. A window is told
    when it has ended, or at the latest when those have that begin with its rows, and NEXT finds its rows.
    """
    plan, total = planned(text), 0
    table = timed(plan, rows_of(rng, 5, 14))
    if not table.num_rows:
        return 0
    window, key, rows = plan.windows[0], np.asarray(table.column("__p0")), Reach.of(plan).ahead
    time, size = np.asarray(table.column("__s0").cast(pa.int64())), int(window.size)
    after = size if strategy_of(plan).emission.late else 0
    whole = best(plan, batch(plan, table, np.ones(table.num_rows, dtype=bool)))
    for watermark, released, told in watched(plan, table, rng, rng.choice([0, 2, 5])):
        found = best(plan, told)
        for group, some in whole.items():
            begin = group[1] if isinstance(group[1], int) else int((group[1] - datetime.datetime(1970, 1, 1)) / datetime.timedelta(microseconds=1))
            end, own = begin + size, released & (key == group[0])
            if window.kind == "micros":
                ended, decided = end <= watermark + 1, end + after <= watermark + 1 and (not rows or int((own & (time >= end + after)).sum()) >= rows)
            else:
                ended, decided = end <= own.sum(), end + after + rows <= own.sum()
            assert (found[group] == some and ended) if group in found else not decided, (text, watermark, group)
            total += group in found
        for continued in (released, released | ((time > watermark) & (np.array([rng.random() for _ in time]) < 0.5))):
            other = best(plan, batch(plan, table, continued))
            assert all(other.get(group) == some for group, some in found.items()), (text, watermark)
    return total


def test_matches_of_several_keys_that_tie_rank_by_the_places_of_their_rows():
    """A key of which no row is kept has its rows counted on: a match at its third row ranks behind that at another's first."""
    plan = planned(f"{PAIRS} PATTERN (A B) WINDOW INTERVAL '5' MICROSECONDS SLIDE INTERVAL '5' MICROSECONDS PREF MAX (A.v + B.v) TOP 1 OVERALL DEFINE A AS v = 1")
    later = [{"id": i, "v": 1, "w": 0, "s": None} for i in (100, 101)]
    table = timed(plan, {0: [{"id": i, "v": 1, "w": 0, "s": None} for i in (1, 2)] + later, 1: later})
    stream = KeyedStream(_ordered(prepare(plan, table.drop_columns(["__s0", "__s1"]).schema), (*plan.order, plan.order[0])), table.schema, ["__s0", "__s1"])
    _, kept = drained(stream.advance(table.slice(0, 2), np.zeros(2, dtype=np.int64), [b"", b""], 50))
    assert kept.rows == 0 and kept.states[0] and not kept.states[1]
    tables, _ = drained(stream.advance(table.slice(2), np.array([0, 0, 1, 1]), kept.states, 200))
    told = pa.concat_tables(tables)
    assert sorted(told.column(plan.ranking.vector).to_pylist()) == [[0, 1], [2, 3]]


@pytest.mark.parametrize("report", ["FIRST MATCH", "ALL MATCHES"])
@pytest.mark.parametrize(("at", "told"), [(9, []), (7, []), (6, [(10, 11)])])
def test_a_negation_before_a_match_looks_at_rows_of_windows_that_were_told(report, at, told):
    """The window that holds the negation's row has ended before the match begins. The row counts if it is in WINDOW of the match's
    last row."""
    plan = planned(f"{NEAR} {ANY} {report} PATTERN (~N A B) {WINDOW} SLIDE INTERVAL '5' MICROSECONDS PREF MAX (sum(v)) TOP 2 DEFINE N AS v = 0, A AS v = 1, B AS v = 2")
    table = timed(plan, {0: [{"id": time, "v": v, "w": 0, "s": None} for time, v in ((at, 0), (10, 1), (11, 2))]})
    stream, states, found = stream_over(plan, table), [b""], []
    for watermark, rows in ((9, table.slice(0, 1)), (12, table.slice(1)), (30, table.slice(0, 0))):
        tables, kept = drained(stream.advance(rows, np.zeros(rows.num_rows, dtype=np.int64), states, watermark))
        states = kept.states
        found += [tuple(row[dict(plan.outputs)[name]] for name in ("a", "z")) for part in tables for row in part.to_pylist()]
    assert found == told and states == [b""]


@pytest.mark.parametrize("score", ["A.v % (B.v + 1)", "A.v + B.v"])
def test_more_matches_in_turn_than_a_search_gives_at_once(score):
    """Of a score that the engine does not know all matches of a window are held until it is known how far the search came."""
    rng = random.Random(score)
    plan = planned(f"{NEAR} {ANY} FIRST MATCH PATTERN (A B) WINDOW INTERVAL '5000' MICROSECONDS SLIDE INTERVAL '4000' MICROSECONDS PREF MAX ({score}) TOP 3 DEFINE A AS v > 0")
    table = timed(plan, {0: [{"id": i, "v": rng.randint(0, 4), "w": 0, "s": None} for i in range(1, 8000)]})
    whole, states, told = best(plan, batch(plan, table, np.ones(table.num_rows, dtype=bool))), [b""], []
    stream = stream_over(plan, table, Limits(max_state_bytes=300_000))  # so few that the search writes over what it gave
    for watermark, rows in ((2500, table.slice(0, 2600)), (7999, table.slice(2600)), (20_000, table.slice(0, 0))):
        tables, kept = drained(stream.advance(rows, np.zeros(rows.num_rows, dtype=np.int64), states, watermark))
        states, told = kept.states, told + tables
    assert best(plan, pa.concat_tables(told)) == whole and len(whole) == 3 and states == [b""]
    assert sum(part.num_rows for part in told) > 1024 or score == "A.v + B.v"


@pytest.mark.parametrize(("later", "told"), [(22, []), (24, [(18, 19)])])
def test_a_match_that_may_go_on_keeps_its_window_from_being_told(later, told):
    """The window of a key has ended, and its match may still grow out of it. Another key stands before it whose window has not."""
    plan = planned(f"{NEAR} {ANY} FIRST MATCH PATTERN (A B+) {WINDOW} SLIDE INTERVAL '5' MICROSECONDS PREF MAX (sum(v)) TOP 1 DEFINE A AS v = 1, B AS v = 2")
    values = {0: [(20, 0), (21, 0), (21, 0)], 1: [(18, 1), (19, 2), (later, 2)]}
    table = timed(plan, {key: [{"id": time, "v": v, "w": 0, "s": None} for time, v in rows] for key, rows in values.items()})
    stream, states, found = stream_over(plan, table), [b"", b""], []
    for watermark, which in ((21, [0, 1, 2, 3, 4]), (later, [5]), (60, [])):
        keys = np.array([int(row > 2) for row in which], dtype=np.int64)
        tables, kept = drained(stream.advance(table.take(pa.array(which, pa.int64())), keys, states, watermark))
        states = kept.states
        found.append([tuple(row[dict(plan.outputs)[name]] for name in ("a", "z")) for part in tables for row in part.to_pylist()])
    assert found[0] == [] and found[1] == told and states == [b"", b""]


@pytest.mark.parametrize(("next", "told"), [(7, []), (8, [(11, 12)])])
@pytest.mark.parametrize("report", ["FIRST MATCH", "ALL MATCHES"])
def test_a_negation_behind_a_match_that_looks_ahead_waits_for_its_rows(report, next, told):
    """WINDOW of the match has ended, and whether the row behind it is the negated one only the row behind that tells."""
    plan = planned(
        f"{NEAR} {ANY} {report} PATTERN (A B ~N) {WINDOW} SLIDE INTERVAL '5' MICROSECONDS PREF MAX (sum(v)) TOP 2 DEFINE A AS v = 1, B AS v = 2, N AS v = 0 AND NEXT(v) = 7"
    )
    table = timed(plan, {0: [{"id": time, "v": v, "w": 0, "s": None} for time, v in ((11, 1), (12, 2), (15, 0), (30, next))]})
    stream, states, found = stream_over(plan, table), [b""], []
    for watermark, rows in ((16, table.slice(0, 3)), (30, table.slice(3)), (60, table.slice(0, 0))):
        tables, kept = drained(stream.advance(rows, np.zeros(rows.num_rows, dtype=np.int64), states, watermark))
        states = kept.states
        found.append([tuple(row[dict(plan.outputs)[name]] for name in ("a", "z")) for part in tables for row in part.to_pylist()])
    assert found == [[], told, []]


def test_matches_in_turn_begin_behind_the_one_before_whatever_rows_are_kept():
    """Rows are kept before those where the search stands, for the negation's sake; no match begins at these."""
    plan = planned(f"{NEAR} {ANY} FIRST MATCH PATTERN (~N A B) {WINDOW} SLIDE INTERVAL '1' MICROSECONDS PREF MAX (sum(v)) TOP 3 DEFINE N AS v = 0")
    table = timed(plan, {0: [{"id": i, "v": 1, "w": 0, "s": None} for i in range(1, 13)]})
    whole, stream, states, told = best(plan, batch(plan, table, np.ones(12, dtype=bool))), stream_over(plan, table), [b""], []
    for watermark in range(1, 30):
        rows = table.slice(watermark - 1, 1)
        tables, kept = drained(stream.advance(rows, np.zeros(rows.num_rows, dtype=np.int64), states, watermark))
        states, told = kept.states, told + tables
    assert best(plan, pa.concat_tables(told)) == whole and len(whole) > 10 and states == [b""]


def test_a_measure_that_looks_ahead_tells_no_window_again():
    """A statement may go on with another measure: of one with NEXT windows wait longer, and those that were told stay told."""
    rng, both = random.Random(7), 0
    text = f"{NEAR}, LAST(v) AS x {ANY} ALL MATCHES PATTERN (A B) {WINDOW} SLIDE INTERVAL '2' MICROSECONDS PREF MAX (A.v + B.v) TOP 2 DEFINE A AS v > 0"
    plan, ahead = planned(text), planned(text.replace("LAST(v) AS x", "NEXT(LAST(v), 3) AS x"))
    start = next(leaf.name for leaf in plan.leaves if leaf.spec.kind == "window_start")
    for turn in range(20):
        table = timed(plan, rows_of(rng, 3, 30))
        changes, before, later = rng.randint(3, 8), stream_over(plan, table), stream_over(ahead, table)
        assert timed(ahead, {0: []}).schema == table.schema
        turns, seen = itertools.chain([before] * changes, itertools.repeat(later)), {}
        for number, (_, _, tables) in enumerate(micro_batches(plan, table, rng, 2, next_stream=turns.__next__)):
            for row in (row for part in tables for row in part.to_pylist()):
                assert seen.setdefault((row["__p0"], row[start]), number) == number, turn
        both += len({number < changes for number in seen.values()}) == 2
    assert both > 3


@pytest.mark.parametrize("measures", ["MATCH_GRAPH() AS n", "MATCH_COUNT() AS n"])
@pytest.mark.parametrize(("condition", "last"), [("NEXT(v) IS NULL", 0), ("w = B.w AND NEXT(v) IS NULL", 0), ("coalesce(NEXT(v), 9) = 9", 1)])
def test_a_negated_row_by_rows_to_come_hides_no_match(measures, condition, last):
    """The row behind the matches is a negated one as long as nothing comes behind it. A match that it hides then may be one."""
    plan = planned(f"{HEAD} LAST(id) AS z, {measures} {ANY} ALL MATCHES PATTERN (B A ~M C?) WINDOW 4 ROWS DEFINE A AS v >= 0, M AS {condition}, C AS v > 9")
    table = timed(plan, {0: [{"id": i, "v": 1 if i < 5 else last, "w": 0, "s": None} for i in range(1, 12)]})
    stream, states, told = stream_over(plan, table), [b""], []
    for watermark in range(1, 13):
        rows = table.slice(watermark - 1, 1)
        tables, kept = drained(stream.advance(rows, np.zeros(rows.num_rows, dtype=np.int64), states, watermark))
        states, told = kept.states, told + [str(row) for part in tables for row in part.to_pylist()]
    whole = [str(row) for row in batch(plan, table, np.ones(table.num_rows, dtype=bool)).to_pylist()]
    assert told == whole[: len(told)] and len(told) > 4


@pytest.mark.parametrize("rows", ["ONE ROW PER MATCH", "ALL ROWS PER MATCH WITH UNMATCHED ROWS"])
@pytest.mark.parametrize("pattern", ["A B+ C", "A ~B C"])
def test_what_was_kept_while_all_matches_waited_for_their_windows_is_read(monkeypatch, rows, pattern):
    """A checkpoint may be of a version that told ALL MATCHES when WINDOW had ended: what it told is not told again."""
    rng, both = random.Random(f"{rows} {pattern}"), 0
    plan = planned(f"{HEAD} {PLAIN} {rows} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN ({pattern}) {WINDOW} DEFINE A AS v < 3, B AS v > 2, C AS w > 0")
    for turn in range(12):
        table, changes = timed(plan, rows_of(rng, 3, 30)), rng.randint(3, 8)
        with monkeypatch.context() as patched:
            patched.setattr("sparkcep.compiler.strategy.emission_of", lambda *of: replace(emission_of(*of), early=False))
            before = stream_over(plan, table)
        turns, told = itertools.chain([before] * changes, itertools.repeat(stream_over(plan, table))), [before.engine.task.prepared.output_schema.empty_table()]
        for number, (_, released, tables) in enumerate(micro_batches(plan, table, rng, 2, next_stream=turns.__next__)):  # noqa: B007
            told += tables
            both |= (1 if number < changes else 2) if any(part.num_rows for part in tables) else 0
        counted, whole = (by_partition(plan, some) for some in (pa.concat_tables(told), batch(plan, table, released)))
        for p, found in counted.items():
            assert not collections.Counter(found) - collections.Counter(whole[p]), turn
        if plan.rows == "one":
            assert sum(map(len, counted.values())) == sum(map(len, whole.values())), turn
    assert both == 3


@pytest.mark.parametrize("rows", first(["ONE ROW PER MATCH", "ALL ROWS PER MATCH WITH UNMATCHED ROWS"]))
@pytest.mark.parametrize("selection", ["STRICT CONTIGUITY", "SKIP TILL NEXT MATCH", "SKIP TILL ANY MATCH"])
def test_a_first_row_stays_open_though_the_output_is_full_at_its_match(monkeypatch, rows, selection):
    """The last match that fits begins where a match to come may begin, too."""
    monkeypatch.setattr("sparkcep.engine.match.enumeration.OutputRoom", lambda events, labels, width, **kinds: OutputRoom(1, 1, width, **kinds))
    rng, compared_rows = random.Random(f"{rows} {selection}"), 0
    for pattern in ("A B?", "A B*", "A (A B)?", "A B C?"):
        text = f"{HEAD} {PLAIN} {rows} EVENT SELECTION {selection} ALL MATCHES PATTERN ({pattern}) {WINDOW} DEFINE A AS v < 3"
        text += f", B AS v > 0{', C AS w > A.w' if 'C' in pattern else ''}" if "B" in pattern else ""
        compared_rows += sum(compared(text, rng, 3, 12) for _ in range(3))
    assert compared_rows > 100


@pytest.mark.parametrize("seed", range(2))
def test_a_measure_that_looks_ahead_tells_no_match_again(seed):
    """A statement may go on with another measure: of one with NEXT matches wait longer, and those that were told stay told."""
    rng, both = random.Random(f"ahead {seed}"), 0
    text = f"{HEAD} FIRST(id) AS a, LAST(id) AS z, LAST(v) AS x {ANY} ALL MATCHES PATTERN (A C) {WINDOW} DEFINE A AS v < 3, C AS w > 0"
    plans = [planned(text), planned(text.replace("LAST(v) AS x", "NEXT(LAST(v), 2) AS x"))]
    for turn in range(10):
        table, changes, told = timed(plans[0], rows_of(rng, 3, 30)), rng.randint(3, 8), []
        turns = itertools.chain([stream_over(plans[0], table)] * changes, itertools.repeat(stream_over(plans[1], table)))
        for number, (_, _, tables) in enumerate(micro_batches(plans[0], table, rng, 2, next_stream=turns.__next__)):
            rows = [(row["__p0"], str(row["__l0"]), str(row["__l1"])) for part in tables for row in part.to_pylist()]
            both |= (1 if number < changes else 2) if rows else 0
            told += rows
        whole = collections.Counter((row["__p0"], str(row["__l0"]), str(row["__l1"])) for row in batch(plans[0], table, np.ones(table.num_rows, dtype=bool)).to_pylist())
        assert not collections.Counter(told) - whole, turn
    assert both == 3


def test_runs_that_were_told_are_no_effort():
    """Between two rows that may end a match lie all runs whose matches were told with the first."""
    plan = planned(f"{HEAD} {PLAIN} {ANY} ALL MATCHES PATTERN (A B+ C) WINDOW INTERVAL '90' MICROSECONDS DEFINE A AS v = 0, B AS v = 1, C AS v = 2 AND w > sum(B.w)")
    values = [(0, 0), *[(1, 1)] * 11, (2, 100), (2, 0)]
    table = timed(plan, {0: [{"id": i + 1, "v": v, "w": w, "s": None} for i, (v, w) in enumerate(values)]})
    stream, states, told = stream_over(plan, table, Limits(max_steps=1500)), [b""], []
    for number in range(len(values)):
        tables, kept = drained(stream.advance(table.slice(number, 1), np.zeros(1, dtype=np.int64), states, number + 1))
        states = kept.states
        told.append(sum(part.num_rows for part in tables))
    assert told == [*[0] * 12, 2**11 - 1, 0]


@pytest.mark.parametrize("kind", one_in(2, ["plain", "~", "&", "WITHIN"]))
@pytest.mark.parametrize("seed", first([0, 1, 4, 5], wider=1))
def test_of_many_rows_a_match_is_told_within_a_share_of_window(monkeypatch, kind, seed):
    """Where conditions look at the match, many rows are searched once for each sixteenth of WINDOW: here all are many, and it is a
    fourth."""
    monkeypatch.setattr("sparkcep.engine.match.early_emission.MANY_ROWS", 0)
    monkeypatch.setattr("sparkcep.engine.match.early_emission.SHARE", 4)
    pattern = {"plain": "A B+ C", "~": "A ~N C", "&": "(A B) & C", "WITHIN": "(A B? C) WITHIN INTERVAL '5' MICROSECONDS"}[kind]
    names = {"A": "A AS v < 3", "B": "B AS v > 0", "C": f"C AS w > {'0' if kind == '&' else 'A.w'}", "N": "N AS v = 4"}
    window = "WINDOW INTERVAL '8' MICROSECONDS"
    defines = ", ".join(text for name, text in names.items() if re.search(rf"\b{name}\b", pattern))
    plan = planned(f"{HEAD} {PLAIN} {ANY} ALL MATCHES PATTERN ({pattern}) {window} DEFINE {defines}")
    rng, late, count = random.Random(f"{kind} {seed}"), 0, 0
    for _ in range(8):
        table = timed(plan, rows_of(rng, 3, 30))
        if not table.num_rows:
            continue
        time = np.asarray(table.column("__s0").cast(pa.int64()))
        for watermark, released, found in streamed(plan, table, rng, 2):
            told, whole, before = (
                {p: collections.Counter(rows) for p, rows in some.items()}
                for some in (found, *(by_partition(plan, batch(plan, table, which)) for which in (released, time <= watermark - 2)))
            )
            for p, rows in told.items():
                assert not rows - whole.get(p, collections.Counter()), (kind, watermark)
            for p, rows in before.items():  # a key is searched when it is due
                assert not rows - told.get(p, collections.Counter()), (kind, watermark)
            late += sum((rows - told.get(p, collections.Counter())).total() for p, rows in whole.items())
            count += sum(rows.total() for rows in told.values())
    assert count > 50 and late


def test_a_search_that_is_put_off_is_due_within_a_share_of_window(monkeypatch):
    """A key is searched again though no row of it comes: a tenth of WINDOW after the first row at which nothing was emitted."""
    monkeypatch.setattr("sparkcep.engine.match.early_emission.MANY_ROWS", 0)
    monkeypatch.setattr("sparkcep.engine.match.early_emission.SHARE", 10)
    window = "WINDOW INTERVAL '100' MICROSECONDS"
    plan = planned(f"{HEAD} {PLAIN} {ANY} ALL MATCHES PATTERN (A B+ C) {window} DEFINE A AS v < 3, B AS v > 3, C AS w > A.w")
    table = timed(plan, {0: [{"id": i + 1, "v": 3 * (i % 2), "w": 0, "s": None} for i in range(41)]})
    stream, one = stream_over(plan, table), np.zeros(41, dtype=np.int64)
    _, kept = drained(stream.advance(table.slice(0, 40), one[:40], [b""], 40))
    _, kept = drained(stream.advance(table.slice(40, 1), one[:1], kept.states, 41))
    assert kept.due.tolist() == [41 + 10]
    _, kept = drained(stream.advance(table.slice(0, 0), one[:0], kept.states, 51))
    assert kept.due.tolist() == [1 + 100 - 1]


def random_top(rng: random.Random) -> str:
    """A statement that ranks the matches of sliding windows."""
    pattern = rng.choice(["A B", "A B C", "A B+ C", "A B? C", "A (B | C)", "(A B) & (C D)", "A ~N B", "A B{1,2}"])
    size, conjoined = rng.randint(1, 9), "&" in pattern
    step = rng.randint(1, size)
    unit = rng.choice(["{} ROWS", "INTERVAL '{}' MICROSECONDS"])
    score = rng.choice(["A.v + LAST(v)", "A.v * LAST(w)", "sum(v)", "count(*)", "A.v - A.w"])
    defines = [f"{name} AS {rng.choice(['v > 0', 'w > 0', 'v < 3', 'v >= PREV(v)', *([] if conjoined or name in 'AN' else ['v > A.v', 'w <> A.w'])])}" for name in "ABCDN"]
    used = [text for text in defines if text[0] in pattern and rng.random() < 0.8]
    if "N" in pattern and not any(text[0] == "N" for text in used):
        used.append("N AS v = 2")
    overall = " OVERALL" if rng.random() < 0.2 and "ROWS" not in unit else ""
    return (
        f"{PAIRS} PATTERN ({pattern}) WINDOW {unit.format(size)} SLIDE {unit.format(step)} PREF MAX ({score}) TOP {rng.randint(1, 4)}{overall}"
        f"{' DEFINE ' + ', '.join(used) if used else ''}"
    )


def random_near(rng: random.Random) -> str:
    """A statement that ranks approximate matches in sliding windows."""
    pattern = rng.choice(["A B", "A B C", "A B+ C", "A B? C", "A (B | C) D", "A ~N B C", "A B C D"])
    size = rng.randint(1, 9)
    step, unit = rng.randint(1, size), rng.choice(["{} ROWS", "INTERVAL '{}' MICROSECONDS"])
    score = rng.choice(["sum(v) - MATCH_ERRORS()", "count(*) - 2 * MATCH_ERRORS()", "sum(w)", "max(v) - min(v)"])
    report = rng.choice(["", "ALL MATCHES", *(["PROXY MATCHES", "PROXY MATCHES PER ERROR"] * 2)])
    selection = rng.choice(["", "", "EVENT SELECTION STRICT CONTIGUITY"]) if "N" not in pattern else ""
    defines = [f"{name} AS {rng.choice(['v > 0', 'w > 0', 'v < 3', 'v >= PREV(v)', *([] if name in 'AN' or selection else ['v > A.v', 'w <> A.w'])])}" for name in "ABCDN" if name in pattern]
    overall = " OVERALL" if rng.random() < 0.2 and "ROWS" not in unit else ""
    return (
        f"{NEAR} {selection} PATTERN ({pattern}) WINDOW {unit.format(size)} SLIDE {unit.format(step)} APPROX {rng.choice([1, 1, 2]) if pattern in ('A B C', 'A B+ C', 'A B C D') else 1} {report} "
        f"PREF MAX ({score}) TOP {rng.randint(1, 4)}{overall} DEFINE {', '.join(defines)}"
    )


def random_late(rng: random.Random) -> str:
    """A statement whose windows may wait behind their ends: one match for each first row, numbers, NEXT, negations at the ends,
    ^."""
    near = rng.random() < 0.25
    strategy = rng.choice(["STRICT CONTIGUITY", "SKIP TILL NEXT MATCH", "SKIP TILL ANY MATCH"]) if not near else "SKIP TILL ANY MATCH"
    report = "" if near else rng.choice([" FIRST MATCH", " FIRST MATCH", " ALL MATCHES"])
    plain = ["A B", "A B C", "A B+ C", "A B? C", "A+", "A (B | C)", "A B{1,2}", "A B*", "^ A B", "^ A B | C D", "(A B C) WITHIN {3}"]
    negated = ["A B ~N", "~N A B", "~N A B ~M", "A ~N B", "A (B ~N)+", "A B? ~N", "~(N M) A B", "A B ~(N M)", "^ A B+ ~N"]
    conjoined = ["(A B) & (C D)", "(A ~N B) & C", "(A B ~N) & C", "(~N A) & C"] if "FIRST" not in report and not near else []
    pattern = rng.choice(plain if strategy.startswith("STRICT") else [*plain, *negated, *conjoined])
    size = rng.randint(1, 9)
    unit = rng.choice(["{} ROWS", "INTERVAL '{}' MICROSECONDS", "INTERVAL '{}' MICROSECONDS"])
    pattern = pattern.replace("{3}", unit.format(rng.randint(1, size)))
    both, ahead, numbers, proxies = "&" in pattern, rng.random() < 0.3, rng.random() < 0.25, rng.choice(["", " PROXY MATCHES", " PROXY MATCHES PER ERROR"])
    numbers = numbers and not (near and proxies)
    local = ["v > 0", "w > 0", "v < 3", "v >= PREV(v)", *(["v <> NEXT(v)", "v >= NEXT(v, 2)"] if ahead else []), *(["v >= MATCH_NUMBER()", "MATCH_NUMBER() % 3 < 2"] if numbers else [])]
    defines = [f"{name} AS {rng.choice([*local, *([] if both or near or name in 'ANM' else ['v > A.v', 'w <> A.w'])])}" for name in "ABCDNM" if re.search(rf"\b{name}\b", pattern)]
    used = [text for text in defines if text[0] in "NM" or rng.random() < 0.8]
    measure = rng.choice(["", ", NEXT(LAST(v)) AS x", ", NEXT(LAST(v), 2) AS x"]) if ahead else ""
    score = rng.choice(["A.v + LAST(v)", "A.v * LAST(w)", "sum(v)", "count(*)", "max(v)", "LAST(v) % (A.w + 2)"] if not near else ["sum(v) - MATCH_ERRORS()", "count(*)"])
    overall = " OVERALL" if rng.random() < 0.2 and "ROWS" not in unit and not ahead else ""
    return (
        f"{NEAR}, count(*) AS c{measure} EVENT SELECTION {strategy}{report} PATTERN ({pattern}) WINDOW {unit.format(size)} SLIDE {unit.format(rng.randint(1, size))}"
        f"{' APPROX 1' + proxies if near else ''} PREF MAX ({score}) TOP {rng.randint(1, 4)}{overall}{' DEFINE ' + ', '.join(used) if used else ''}"
    )


@pytest.mark.parametrize("seed", first(range(8)))
@pytest.mark.parametrize("make", [random_top, random_near, random_late])
def test_random_rankings(make, seed):
    rng, total, streams = random.Random(500 + seed), 0, 0
    for _ in range(10):
        text = make(rng)
        try:
            planned(text)
        except ClauseError as error:
            assert error.error_class == "SPARKCEP.APPROX" and make is not random_top, (text, error)
            continue
        streams += 1
        total += compared_best(text, rng)
    assert total > 20 and streams > 4


def watched(plan, table: pa.Table, rng: random.Random, delay: int):
    """(watermark, released rows, all that was told so far) after each micro-batch; of each partition and window the rows come in
    one of them."""
    told: list[pa.Table] = []
    seen: dict[tuple, int] = {}
    start = next(leaf.name for leaf in plan.leaves if leaf.spec.kind == "window_start")
    for number, (watermark, released, tables) in enumerate(micro_batches(plan, table, rng, delay)):
        told += tables
        for row in (row for part in tables for row in part.to_pylist()):
            assert seen.setdefault(("" if plan.ranking.overall else row["__p0"], row[start]), number) == number
        yield watermark, released, pa.concat_tables([prepare(plan, table.drop_columns(["__s0", "__s1"]).schema).output_schema.empty_table(), *told])


def rows_of(rng: random.Random, keys: int, longest: int) -> dict[int, list[dict]]:
    """Rows of some keys; times may tie, and then a second expression tells their order."""
    found = {}
    for p in range(keys):
        time, rows = 1, []  # a stream's first watermark is the epoch
        for _ in range(rng.randint(0, longest)):
            time += rng.choice([0, 1, 1, 1, 2, 7])
            rows.append({"id": time, "v": rng.choice([0, 1, 2, 3, 4, None]), "w": rng.randint(-1, 2), "s": rng.choice(["a", "b", None])})
        found[p] = rows
    return found


def planned(text: str):
    plan = without_catching(make_plan(parse_clause(text.replace("ORDER BY id", "ORDER BY id + 0")), settings=Settings(prefilter=False)))  # one key cuts partitions, and all rows are searched
    check_stream(plan)
    return plan


def timed(plan, rows: dict[int, list[dict]]) -> pa.Table:
    """The plan's input columns, the order column being a timestamp, with each row's time and its number."""
    table = inputs(plan, rows)
    times = pc.multiply(table.column("__o0").cast(pa.int64()), MS).cast(pa.timestamp("us"))
    table = table.set_column(table.column_names.index("__o0"), "__o0", times)
    if plan.automaton is not None and plan.automaton.lifetime:
        ends = pc.multiply(table.column(plan.automaton.lifetime).cast(pa.int64()), MS).cast(pa.timestamp("us"))
        table = table.set_column(table.column_names.index(plan.automaton.lifetime), plan.automaton.lifetime, ends)
    return table.append_column("__s0", times).append_column("__s1", pa.array(np.arange(table.num_rows)))


def batch(plan, table: pa.Table, kept: np.ndarray) -> pa.Table:
    """The answer over some of the rows."""
    return match_table(plan, table.filter(pa.array(kept)).drop_columns(["__s0", "__s1"]))


def by_partition(plan, leaves: pa.Table) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for row in leaves.to_pylist():
        found.setdefault(row["__p0" if plan.rows == "one" else "p"], []).append(str(row))
    return found


def streamed(plan, table: pa.Table, rng: random.Random, delay: int):
    """Runs micro-batches over rows in disorder; gives (watermark, released rows, what was reported so far by partition) after
    each."""
    found = [prepare(plan, table.drop_columns(["__s0", "__s1"]).schema).output_schema.empty_table()]
    for watermark, released, tables in micro_batches(plan, table, rng, delay):
        found += tables
        yield watermark, released, by_partition(plan, pa.concat_tables(found))


def stream_over(plan, table: pa.Table, limits: Limits | None = None) -> KeyedStream:
    """A stream of rows as :func:`timed` makes them."""
    prepared = prepare(plan, table.drop_columns(["__s0", "__s1"]).schema)
    return KeyedStream(_ordered(prepared, (*plan.order[:1], plan.order[0]._replace(name="n"))), table.schema, ["__s0", "__s1"], limits)


def micro_batches(plan, table: pa.Table, rng: random.Random, delay: int, history=None, next_stream=None):
    """(watermark, released rows, tables of what is told) of each micro-batch over rows in disorder; ``history`` gives the rows of
    the table of USING HISTORY, as of each, and ``next_stream`` the stream that takes its rows."""
    count = table.num_rows
    time = np.asarray(table.column("__s0").cast(pa.int64()))
    key = np.unique(np.asarray(table.column("__p0")), return_inverse=True)[1]
    arrival = np.argsort(time + np.array([rng.randint(0, delay) for _ in range(count)]) * MS, kind="stable")
    next_stream = next_stream or _workers(plan, table).__next__
    states: dict[int, bytes] = {}
    due: dict[int, int] = {}
    watermark, latest, at, idle = 0, 0, 0, 0
    order = np.zeros(0, dtype=np.int64)
    while at < count or idle < 3:
        size = rng.choice([0, 1, 1, 2, 3, 5, 9, 40])
        batch_rows = arrival[at : at + size]
        at += size
        idle += at >= count
        # what the watermark of the batch before has passed would be late
        assert all(time[row] > watermark for row in batch_rows if watermark)
        woken = {k for k, when in due.items() if when <= latest}
        touched = sorted({int(key[row]) for row in batch_rows} | woken)
        number = {k: i for i, k in enumerate(touched)}
        keys = np.array([number[int(key[row])] for row in batch_rows], dtype=np.int64)
        watermark = latest
        stream = next_stream()
        if history:
            stream.use(history())
        tables, kept = drained(stream.advance(table.take(pa.array(batch_rows, pa.int64())), keys, [states.get(k, b"") for k in touched], watermark))
        for k, state, when in zip(touched, kept.states, kept.due.tolist(), strict=True):
            states[k], due[k] = state, when
            if when == NOTHING_DUE:
                del due[k]
            assert when > watermark
        order = np.concatenate([order, batch_rows])
        latest = max(latest, max((int(time[row]) for row in order), default=0) - delay * MS - 1)
        yield watermark, time <= watermark, tables


def _workers(plan, table: pa.Table):
    """The stream of each micro-batch: mostly that of the one before, else another worker's, which knows the bytes alone."""
    rng, stream = random.Random(table.num_rows), None
    while True:
        stream = stream if stream and rng.random() < 0.7 else stream_over(plan, table)
        yield stream


def _ordered(prepared, order):
    import dataclasses

    strategy = dataclasses.replace(prepared.strategy, plan=dataclasses.replace(prepared.plan, order=order))
    return dataclasses.replace(prepared, strategy=strategy)


class Answers:
    """What tables of some of the rows give; None where that is an error, which a stream of all rows need not meet."""

    def __init__(self, plan, table: pa.Table) -> None:
        self.plan, self.table = plan, table
        self.known: dict[bytes, pa.Table | None] = {}

    def over(self, which: np.ndarray) -> pa.Table | None:
        rows = which.tobytes()
        if rows not in self.known:
            try:
                self.known[rows] = batch(self.plan, self.table, which)
            except MatchRuntimeError:
                self.known[rows] = None
        return self.known[rows]


def compared(text: str, rng: random.Random, keys: int, longest: int) -> int:
    """Compares one clause over random rows; how many output rows were compared."""
    plan = planned(text)
    table = timed(plan, rows_of(rng, keys, longest))
    if not table.num_rows:
        return 0
    time = np.asarray(table.column("__s0").cast(pa.int64()))
    compared = 0
    answers = Answers(plan, table)
    whole = answers.over(np.ones(table.num_rows, dtype=bool))
    if whole is None:
        return 0
    # rows in no match come between the others, and without numbers all matches under a budget come with their last rows
    budgeted = strategy_of(plan).search == BUDGETED
    unordered = (plan.rows == "unmatched" and (plan.approximate is not None or plan.automaton is not None)) or (budgeted and plan.approximate.report == ALL and not plan.numbered)
    at_once = strategy_of(plan).emission.early  # what ends at a released row is told, whatever begins before it
    for watermark, released, found in streamed(plan, table, rng, rng.choice([0, 2, 5])):
        prefix, further = (answers.over(rows) for rows in (released, released | (time <= watermark + rng.randint(0, 9) * MS)))
        for answer in (by_partition(plan, one) for one in (prefix, further, whole) if one is not None):
            for p, rows in found.items():
                if unordered or at_once:
                    assert not collections.Counter(rows) - collections.Counter(answer.get(p, [])), (text, watermark)
                else:
                    assert rows == answer.get(p, [])[: len(rows)], (text, watermark)
        if prefix is not None and at_once and not Reach.of(plan).ahead and plan.rows != "unmatched":
            told = {p: sorted(rows) for p, rows in found.items()}
            assert told == {p: sorted(rows) for p, rows in by_partition(plan, prefix).items()}, (text, watermark)
        elif prefix is not None and not at_once:
            for p, rows in ended(plan, prefix, watermark).items():
                assert len(found.get(p, [])) >= rows, (text, watermark, p)
        compared += sum(map(len, found.values()))
    return compared


NEIGHBOURS = [
    f"{HEAD} {NUMBERED} PATTERN (A B+) DEFINE B AS v < PREV(v)",
    f"{HEAD} {NUMBERED} PATTERN (A B{{2,3}} C?) DEFINE B AS v >= PREV(v), C AS w > 0",
    f"{HEAD} {PLAIN} AFTER MATCH SKIP TO NEXT ROW PATTERN (A (B | C)* D) DEFINE A AS v < 3, B AS v > 1, C AS w > FIRST(w), D AS w > 1",
    f"{HEAD} {NUMBERED} PATTERN (A B*? C+) DEFINE B AS v > avg(v), C AS w > 0",
]


@pytest.mark.parametrize("text", one_in(2, NEIGHBOURS))
@pytest.mark.parametrize("seed", first(range(6), wider=1))
def test_a_wide_window_tells_no_match_later(text, seed):
    """Of rows that are neighbours the next one decides, whatever WINDOW there is."""
    told = 0
    for i in range(12):
        draw = random.Random(f"{seed} {i}")
        plan, wide = planned(text), planned(f"{text.partition(' DEFINE')[0]} WINDOW INTERVAL '1' HOUR DEFINE{text.partition(' DEFINE')[2]}")
        table = timed(plan, rows_of(draw, 3, 30))
        if not table.num_rows:
            continue
        at = draw.random()
        bare, windowed = ([found for _, _, found in streamed(p, table, random.Random(at), 2)] for p in (plan, wide))
        for one, other in zip(bare, windowed, strict=True):
            for part, rows in one.items():
                assert other.get(part, [])[: len(rows)] == rows, (text, seed, i)
                told += len(rows)
    assert told > 0


def ended(plan, answer: pa.Table, watermark: int) -> dict[int, int]:
    """How many output rows of each partition belong to matches whose windows have ended, by the times of their first rows. It is
    told for ONE ROW PER MATCH, whose measure ``a`` is that time, and where no row is looked at that is not in the match."""
    window = next((window for window in plan.windows[:1] if window.kind == "micros"), None)
    strategy = strategy_of(plan)
    if plan.automaton is not None and any(arc.on == "expiry" for arc in plan.automaton.arcs):
        return {}  # of a table they are taken at its end (test_stream_expiries)
    if strategy.search == COMPUTATIONS and plan.rows == "one" and not Reach.of(plan).ahead:
        return {p: len(rows) for p, rows in by_partition(plan, answer).items()}
    if strategy.question in (COUNTED, GRAPH, CHEAPEST, BY_COST) and not Reach.of(plan).ahead and strategy.search != BUDGETED and (plan.rows == "one" or strategy.search != PROXIES):
        return ended_of_last_rows(plan, answer, window, strategy.automaton.negates_behind, watermark)
    if strategy.question == BUNDLED and plan.rows == "one" and window is not None and not Reach.of(plan).ahead:
        last = collections.Counter()
        # under a budget a row is searched when its window has ended, where a negation looks behind matches
        size = int(window.size) * (2 if strategy.search == BUDGETED and strategy.automaton.negates_behind else 1)
        for p, place in zip(answer.column("__p0").to_pylist(), answer.column(next(dict(plan.outputs)[name] for name in ("z", "b_end") if name in dict(plan.outputs))).cast(pa.int64()).to_pylist(), strict=True):
            last[p] += place * MS + size <= watermark
        return dict(last)
    if strategy.search == BUDGETED and strategy.question != BUNDLED and not plan.numbered and plan.rows == "one" and not Reach.of(plan).ahead:
        return ended_of_last_rows(plan, answer, window, strategy.automaton.negates_behind, watermark)
    # of these the one that completes first is known when its own window has ended, as all rows before its last are there
    leaf = dict(plan.outputs).get("z" if plan.non_overlapping and strategy.automaton.negates_behind else "a")
    if window is None or plan.rows != "one" or leaf not in answer.column_names:
        return {}
    found: dict[int, int] = {}
    if strategy.search == BUDGETED and strategy.automaton.negates_behind:
        return found
    for p, begun in zip(answer.column("__p0").to_pylist(), answer.column(leaf).cast(pa.int64()).to_pylist(), strict=True):
        found[p] = found.get(p, 0) + (begun * MS + int(window.size) <= watermark + 1)
    return found


def ended_of_last_rows(plan, answer: pa.Table, window, negates_behind: bool, watermark: int) -> dict[int, int]:
    """The same of answers for last rows. A negation behind the last row waits for the windows of the matches that end there, which
    begin there at the latest; a row in no match for all that end in its window."""
    if plan.rows == "one":
        last = next((dict(plan.outputs)[name] for name in ("z", "last") if name in dict(plan.outputs)), "")
        waits = {last: 1} if negates_behind else {}
        certain = np.zeros(answer.num_rows, dtype=bool)
    else:
        last, certain = "id", np.asarray(answer.column("__matched")) if plan.rows == "unmatched" and not negates_behind else np.zeros(answer.num_rows, dtype=bool)
        waits = {last: 2 if negates_behind else 1} if plan.rows == "unmatched" or negates_behind else {}
    if waits and (window is None or last not in answer.column_names):
        return {}
    if waits:
        certain |= np.asarray(answer.column(last).cast(pa.int64())) * MS + waits[last] * int(window.size) <= watermark + 1
    found: dict[int, int] = collections.Counter()
    for p, known in zip(answer.column("__p0" if plan.rows == "one" else "p").to_pylist(), (certain if waits else ~certain).tolist(), strict=True):
        found[p] += known
    return found


@pytest.mark.parametrize("text", one_in(4, CLAUSES))
def test_each_kind(text):
    rng, total = random.Random(text), 0
    for _ in range(4):
        total += compared(text, rng, 6, 14)
    assert total > 5


@pytest.mark.parametrize("text", one_in(12, LAST_ROWS + AUTOMATA, 3))
def test_each_answer_for_last_rows(text):
    rng, total = random.Random(text), 0
    for _ in range(4):
        total += compared(text, rng, 6, 20)
    assert total > 5


@pytest.mark.parametrize("text", one_in(10, CLAUSES + LAST_ROWS + AUTOMATA + BY_EXPIRY + TOPS, 3))
def test_nothing_told_later_is_behind_the_watermark_that_is_passed_on(text):
    """What is told after a micro-batch has times behind the watermark that the clause passed on with it, by which nothing above
    it calls these late."""
    rng, plan, seen = random.Random(text), planned(text), 0
    behind, texts = passed(plan).behind, dict(plan.inputs)
    times = [leaf.name for leaf in plan.leaves if leaf.spec.kind == "nav" and texts.get(leaf.spec.column) == "id" and leaf.spec.mask == -1 and not leaf.spec.physical]
    if plan.rows != "one":
        times = ["id"]
    if behind is None or not times:
        assert passed(plan).why or not times
        return
    for _ in range(8):
        table = timed(plan, rows_of(rng, 4, 14))
        before = None
        for watermark, _, tables in micro_batches(plan, table, rng, rng.choice([0, 2, 5])) if table.num_rows else ():
            told = [time for part in tables for name in times for time in part.column(name).to_pylist() if time is not None]
            assert before is None or all(time * MS > before - behind for time in told), (text, before, told)
            seen += len(told) if before is not None else 0
            before = watermark
    assert seen > 5


@pytest.mark.parametrize(("number", "at", "behind"), [("", 5, 5), ("MATCH_NUMBER() AS m,", 9, 10)])
def test_a_number_waits_for_the_lives_that_end_behind_it(number, at, behind):
    """The match of two rows at 1 and 5 is told with the second, or, where it is numbered, when the life of the second has ended:
    nearly twice WINDOW behind its first row, and so much the watermark is behind that is passed on."""
    plan = planned(f"{HEAD} {number} FIRST(id) AS a, LAST(id) AS z {ABSENT} {WINDOW}")
    table = timed(plan, {0: [{"id": 1, "v": 2, "w": 0, "s": None}, {"id": 5, "v": 2, "w": 2, "s": None}]})
    stream = KeyedStream(_ordered(prepare(plan, table.drop_columns(["__s0", "__s1"]).schema), (*plan.order[:1], plan.order[0]._replace(name="n"))), table.schema, ["__s0", "__s1"])
    states, told = [b""], []
    for watermark in range(5, 11):
        came = table.slice(0, 2 if watermark == 5 else 0)
        tables, left = drained(stream.advance(came, np.zeros(came.num_rows, dtype=np.int64), states, watermark))
        states = list(left.states)
        ends = [[part.column(dict(plan.outputs)[name]).cast(pa.int64()).to_pylist() for name in ("a", "z")] for part in tables]
        told += [(first, last, watermark) for a, z in ends for first, last in zip(a, z, strict=True)]
    assert (1, 5, at) in told and passed(plan).behind == behind


BEFORE = [f"{HEAD} {PLAIN} {ANY} {report} PATTERN ({pattern}) {WINDOW} DEFINE N AS v = 4, A AS w > 0, B AS v > 1" for report, pattern in (("FIRST MATCH", "~N A B"), ("ALL MATCHES", "~N A B"), ("ALL MATCHES", "(~N A) & B"))]


@pytest.mark.parametrize("text", [*BEFORE, *one_in(5, CLAUSES + LAST_ROWS + AUTOMATA + TOPS, 3)])
def test_nothing_is_kept_of_keys_that_are_silent(text):
    """Once the watermark is far behind a key's rows, its state is empty, unless something is said to be kept for ever."""
    rng, plan = random.Random(text), planned(text)
    if plan.windows[:1] == () or plan.windows[0].kind != "micros" or any("indefinitely" in line for line in kept(plan)):
        return
    table = timed(plan, rows_of(rng, 8, 14))
    stream = KeyedStream(_ordered(prepare(plan, table.drop_columns(["__s0", "__s1"]).schema), (*plan.order[:1], plan.order[0]._replace(name="n"))), table.schema, ["__s0", "__s1"])
    keys, watermark, turns = np.unique(np.asarray(table.column("__p0")), return_inverse=True)[1].astype(np.int64), 3, 0
    told, left = drained(stream.advance(table, keys, [b""] * (int(keys.max()) + 1), watermark))
    while any(left.states):
        assert all(state == b"" or due < NOTHING_DUE for state, due in zip(left.states, left.due.tolist(), strict=True))
        before, watermark, turns = watermark, int(left.due.min()), turns + 1
        assert watermark > before
        due = left.due <= watermark  # a key is searched when it is due
        tables, now = drained(stream.advance(table.slice(0, 0), np.zeros(0, dtype=np.int64), [state for state, woken in zip(left.states, due, strict=True) if woken], watermark))
        told += tables
        states, dues = list(left.states), left.due.copy()
        for i, state in zip(np.flatnonzero(due), now.states, strict=True):
            states[i] = state
        dues[due] = now.due
        left = replace(left, column=pa.array(states, pa.large_binary()), due=dues)
    assert turns
    if plan.rows == "unmatched" and (plan.automaton is not None or plan.approximate is not None or strategy_of(plan).emission.early):  # no row is left untold
        found, whole = (by_partition(plan, some) for some in (pa.concat_tables(told), batch(plan, table, np.ones(table.num_rows, dtype=bool))))
        assert {p: sorted(rows) for p, rows in found.items()} == {p: sorted(rows) for p, rows in whole.items()}


SEARCHED_AGAIN = [
    text for text in LAST_ROWS
    if "MICROSECONDS" in text and not re.search(r"PREV|NEXT|BUNDLES", text) and (of := strategy_of(planned(text))).search not in (PROXIES, BUDGETED) and of.question != EVERY
]  # fmt: skip


@pytest.mark.parametrize("text", first(SEARCHED_AGAIN, 6))
def test_rows_are_kept_as_long_as_it_is_said(text):
    """EXPLAIN says how far the watermark is behind the oldest row that is kept at most."""
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


def adjacent_rows(rng: random.Random) -> str:
    clause = cases.random_clause(rng)
    clause.measures = cases.BASE_MEASURES
    return clause.to_sql()


def event_selection(rng: random.Random) -> str:
    return selection.random_query(rng, shapes=("plain", "plain", "negation", "group", "conjunction")).to_sql()


def numbers_and_graphs(rng: random.Random) -> str:
    query = selection.random_query(rng, report="all", shapes=("plain", "plain", "negation", "group", "conjunction"))
    query.mode, query.skip = measures.ONE_ROW, None
    return re.sub(r"MEASURES .*", f"MEASURES LAST(id) AS z, {rng.choice(['MATCH_COUNT()', 'MATCH_COUNT()', 'MATCH_GRAPH()'])} AS n", query.to_sql())


def automata(rng: random.Random) -> str:
    rows = rng.choice([*["ONE ROW PER MATCH"] * 3, "ALL ROWS PER MATCH WITH UNMATCHED ROWS"])
    return oracle.clause(oracle.random_automaton(rng), "FIRST(id) AS a, LAST(id) AS z, MATCH_NUMBER() AS n, MATCH_TO() AS t, count(*) AS c", rows)


def approximate(rng: random.Random) -> str:
    return in_order(approx_cases.random_case(rng))


def in_order(case: approx_cases.Case) -> str:
    """The clause of rows in the order of their times."""
    return case.with_(unit=None).to_sql().replace(f"ORDER BY t{' DESC' if case.descending else ''}, id", "ORDER BY id")


def anchored(rng: random.Random, text: str) -> str:
    """Sometimes the clause of matches that begin with their partition."""
    return text.replace("PATTERN (", "PATTERN (^ ", 1) if rng.random() < 0.4 and "|" not in text.split("PATTERN (")[1].splitlines()[0] else text


def ends_of_matches(rng: random.Random) -> str:
    """Numbers and graphs of matches with ^, or with negations at the ends and beside &."""
    query = selection.random_query(rng, report="all", shapes=("plain", "negation", "negation", "group", "conjunction", "sided group"))
    query.mode, query.skip = measures.ONE_ROW, None
    return anchored(rng, re.sub(r"MEASURES .*", f"MEASURES LAST(id) AS z, {rng.choice(['MATCH_COUNT()', 'MATCH_COUNT()', 'MATCH_GRAPH()'])} AS n", query.to_sql()))


def ends_of_approximate_matches(rng: random.Random) -> str:
    """The best approximate matches and bundles, with ^, rows in no match, and negations at the ends."""
    while True:
        case = approx_cases.random_case(rng, report=rng.choice([approx_cases.PROXY, approx_cases.PER_ERROR, approx_cases.BUNDLES, approx_cases.BUNDLES]))
        if case.window is not None and "$" not in case.pattern_text:
            break
    rows = "ALL ROWS PER MATCH WITH UNMATCHED ROWS" if "{-" not in case.pattern_text and rng.random() < 0.7 else "ALL ROWS PER MATCH"
    return anchored(rng, in_order(case).replace("ALL ROWS PER MATCH", rows))


def told_at_once(rng: random.Random) -> str:
    """ALL MATCHES that nothing numbers, so that each is told with its last row."""
    while True:
        text = re.sub(r"MATCH_NUMBER\(\) AS \w+(, )?", "", rng.choice([event_selection, event_selection, approximate])(rng))
        if "ALL MATCHES" in text and "PAST LAST ROW" not in text:
            return text


KINDS = {"adjacent rows": (adjacent_rows, 13, 20), "event selection": (event_selection, 15, 20), "numbers": (numbers_and_graphs, 15, 8), "automata": (automata, 15, 20),
         "told at once": (told_at_once, 15, 20),
         "approximate": (approximate, 20, 8), "ends of matches": (ends_of_matches, 10, 4), "ends of approximate matches": (ends_of_approximate_matches, 7, 15)}  # fmt: skip


@pytest.mark.parametrize("seed", first(range(8)))
@pytest.mark.parametrize("kind", KINDS)
def test_random_statements(kind, seed):
    make, count, least = KINDS[kind]
    rng = random.Random(f"{kind} {seed}")
    assert sum(tried(make(rng), rng) or 0 for _ in range(count)) > least


def tried(text: str, rng: random.Random, compare=None) -> int | None:
    """How many output rows were compared, or what else ``compare`` counts; None of a statement that does not stream."""
    text = _IN_TIME.sub(r"\1 INTERVAL '\2' MICROSECONDS", text)
    try:
        planned(text)
    except ClauseError as error:
        assert error.error_class in ("SPARKCEP.STREAM", "SPARKCEP.PATTERN_TOO_COMPLEX", "SPARKCEP.BUDGET", "SPARKCEP.APPROX"), error
        return None
    try:
        return compared(text, rng, 5, 8) if compare is None else compare(text, rng)
    except ClauseError as error:  # times are no numbers here, and an automaton may compare both
        assert error.error_class == "SPARKCEP.DATATYPE_MISMATCH", error
        return None


def test_a_match_is_told_with_the_row_that_ends_it():
    """A search that asks for no further row decides at once, though the window of its first row has not ended."""
    text = f"{HEAD} {PLAIN} PATTERN (A B+ C) WINDOW INTERVAL '1' HOUR DEFINE A AS v = 0, B AS v = 1, C AS v = 2"
    plan = planned(text)
    values = [3, 0, 1, 1, 2, 3, 0, 1]
    table = timed(plan, {0: [{"id": i + 1, "v": v, "w": 0, "s": None} for i, v in enumerate(values)]})
    stream = KeyedStream(_ordered(prepare(plan, table.drop_columns(["__s0", "__s1"]).schema), (*plan.order, plan.order[0])), table.schema, ["__s0", "__s1"])
    tables, kept = drained(stream.advance(table, np.zeros(8, dtype=np.int64), [b""], 8 * MS))
    assert [row["__l0"] for part in tables for row in part.to_pylist()] == [2]
    assert kept.rows == 2 and kept.due.tolist() == [7 * MS + 3_600_000_000 - 1]
    tables, early = drained(stream.advance(table.slice(0, 0), np.zeros(0, dtype=np.int64), kept.states, 7 * MS + 3_600_000_000 - 2))
    assert not tables and early.rows == 2 and early.due.tolist() == kept.due.tolist()  # a microsecond before the window ends
    tables, kept = drained(stream.advance(table.slice(0, 0), np.zeros(0, dtype=np.int64), kept.states, 7 * MS + 3_600_000_000 - 1))
    assert not tables and kept.due.tolist() == [8 * MS + 3_600_000_000 - 1] or kept.states == [b""]


@pytest.mark.parametrize(
    ("pattern", "values", "told"),
    [
        # A at 1 and C at 5: the window of A ends with the watermark 5, that of C with 9
        ("A C ~N", {1: 0, 5: 1}, {5: [5]}),
        ("A C ~N", {1: 0, 2: 0, 5: 1}, {6: [5]}),  # of two matches that end there the later one tells when
        ("A C ~N", {1: 0, 5: 1, 6: 1}, {5: [5]}),  # nothing ends at 6
        ("A C ~N", {1: 0, 4: 0, 5: 1, 6: 5}, {8: [5]}),  # A at 4 has a window up to 8
        ("(A C ~N) & B", {1: 0, 3: 3, 5: 1}, {5: [5]}),
        ("(A ~N C) & B", {1: 0, 3: 3, 5: 1}, {5: [5]}),  # it looks at no row behind the match
        ("(A ~N C) & B", {2: 0, 3: 3, 5: 1}, {5: [5]}),
        ("(A C ~N) & B", {2: 0, 3: 3, 5: 1}, {6: [5]}),
    ],
)
def test_what_ends_at_a_row_waits_for_the_windows_of_its_matches(pattern, values, told):
    plan = planned(f"{HEAD} LAST(id) AS z, MATCH_COUNT() AS n {ANY} PATTERN ({pattern}) {WINDOW} DEFINE A AS v = 0, C AS v = 1, N AS v = 2{', B AS v = 3' * ('B' in pattern)}")
    table = timed(plan, {0: [{"id": i, "v": v, "w": 0, "s": None} for i, v in values.items()]})
    whole = by_partition(plan, batch(plan, table, np.ones(table.num_rows, dtype=bool)))
    stream, states, found, due = stream_over(plan, table), [b""], {}, 5
    for watermark in range(5, 15):
        came = table if watermark == 5 else table.slice(0, 0)
        tables, left = drained(stream.advance(came, np.zeros(came.num_rows, dtype=np.int64), states, watermark))
        assert due == watermark or not any(part.num_rows for part in tables)
        states, due = left.states, int(left.due[0])
        ends = [time for part in tables for time in part.column(dict(plan.outputs)["z"]).cast(pa.int64()).to_pylist()]
        found |= {watermark: ends} if ends else {}
    assert sum(map(len, found.values())) == len(whole.get(0, [])) and states == [b""]
    assert found == told


def test_what_waits_for_a_later_match_is_not_behind_the_watermark_that_is_passed_on():
    """B at 4 may be a match of its own, whose window ends with the watermark 9; the better one began at 1."""
    plan = planned(f"{HEAD} FIRST(id) AS a, LAST(id) AS z PATTERN (A B ~N) WINDOW INTERVAL '6' MICROSECONDS APPROX 1 DEFINE A AS v = 0, B AS v = 1, N AS v = 2")
    table = timed(plan, {0: [{"id": 1, "v": 0, "w": 0, "s": None}, {"id": 4, "v": 1, "w": 0, "s": None}]})
    stream, states, told = stream_over(plan, table), [b""], []
    for watermark in range(4, 12):
        came = table if watermark == 4 else table.slice(0, 0)
        tables, left = drained(stream.advance(came, np.zeros(came.num_rows, dtype=np.int64), states, watermark))
        states = left.states
        told += [(time, watermark) for part in tables for time in part.column(dict(plan.outputs)["a"]).cast(pa.int64()).to_pylist()]
    assert told == [(1, 6), (1, 9)]
    assert passed(plan).behind == 12 and all(time > watermark - 1 - 12 for time, watermark in told)


BUNDLES = [text for text in LAST_ROWS if "MATCH BUNDLES" in text and "MICROSECONDS" in text and "UNMATCHED" not in text]


@pytest.mark.parametrize("text", BUNDLES)
def test_a_damaged_bundle_is_an_error_or_read(text):
    """Whatever byte is another one: numbers that point outside of what is there, and ways that the net has not, are told."""
    plan = planned(text.replace(" PATTERN", ", MISSING() AS m PATTERN"))
    table = timed(plan, {0: [{"id": i + 1, "v": v, "w": w, "s": None} for i, (v, w) in enumerate([(1, 1), (3, 1), (4, 2), (0, 1), (3, 2), (1, 1), (4, 2), (2, 1)])]})
    stream = stream_over(plan, table)
    _, left = drained(stream.advance(table, np.zeros(table.num_rows, dtype=np.int64), [b""], 8))
    (state,), refused = left.states, 0
    for at in range(0, len(state), 3):
        damaged = state[:at] + bytes([state[at] ^ 0x55]) + state[at + 1 :]
        try:
            drained(stream.advance(table.slice(0, 0), np.zeros(0, dtype=np.int64), [damaged], 100))
        except MatchRuntimeError as error:
            assert error.error_class in ("SPARKCEP.STATE_FORMAT", "SPARKCEP.COUNT_RANGE"), error  # a number may be any
            refused += 1
    assert refused > 0.2 * len(state) / 3


def test_a_bundle_of_another_pattern_is_none():
    text = next(text for text in BUNDLES if "B AS v > A.v" in text)
    states = []
    for pattern in ("(A B C)", "(A B? C)"):
        plan = planned(text.replace("(A B C)", pattern))
        table = timed(plan, {0: [{"id": i + 1, "v": i % 4, "w": 1, "s": None} for i in range(8)]})
        stream = stream_over(plan, table)
        states.append(drained(stream.advance(table, np.zeros(8, dtype=np.int64), [b""], 8))[1].states)
    with pytest.raises(MatchRuntimeError, match="another pattern"):
        drained(stream.advance(table.slice(0, 0), np.zeros(0, dtype=np.int64), states[0], 9))


def test_a_damaged_state_names_its_checkpoint():
    pytest.importorskip("pyspark")
    from sparkcep.spark.stream.micro_batch import stream_batches

    plan = planned(CLAUSES[0])
    table = timed(plan, {0: [{"id": i + 1, "v": i % 4, "w": 1, "s": None} for i in range(8)]})
    names = [name for name in table.column_names if name not in ("__s0", "__s1")]
    said = (8).to_bytes(8, "big") + "file:/a/b c/state".encode()

    def batch(number: int, state: bytes | None, row: int) -> pa.RecordBatch:
        own = [pa.array([number], pa.int32()), pa.array([state], pa.binary())]
        columns = [table.column(name).combine_chunks().slice(row, 1) for name in [*names, "__s0"]]
        return pa.RecordBatch.from_arrays([*own, *columns], names=["__k", "__state", *(f"c{i}" for i in range(2, 2 + len(columns)))])

    def run(state: bytes | None) -> list[pa.RecordBatch]:
        rows, kept = [batch(0, None, row) for row in range(4)], [] if state is None else [batch(-1, state, 0)]
        return list(stream_batches(plan.to_json(), [[name, name, ""] for name in names], names, 1, [], iter([batch(-(1 << 31), said, 0), *rows, *kept])))

    told = pa.Table.from_batches(run(None))
    (state,) = [state for state in told.column(told.num_columns - 2).to_pylist() if state is not None and len(state) > 64]
    damaged = state[:30] + bytes([state[30] ^ 1]) + state[31:]
    with pytest.raises(MatchRuntimeError, match=re.escape("(the state is in file:/a/b c/state)")) as caught:
        run(damaged)
    assert caught.value.error_class == "SPARKCEP.STATE_FORMAT"


_VALUES = {
    pa.float64(): [0.0, -0.0, 1.5, -2.0, math.nan, -math.nan, math.inf, -math.inf, None],
    pa.float32(): [0.0, -0.0, 1.5, -2.0, math.nan, None],
    pa.string(): ["", "a", "B", "b", "\u00e9", "ab", None],
    pa.binary(): [b"", b"\xff", b"a", None],
    pa.decimal128(12, 2): [decimal.Decimal("1.50"), decimal.Decimal("-3.00"), decimal.Decimal("0.00"), None],
    pa.int64(): [3, -(2**63), 2**63 - 1, 0, None],
    pa.bool_(): [True, False, None],
}


def _place(value) -> tuple:
    """NaN is behind all numbers; strings stand by their bytes."""
    if isinstance(value, float) and math.isnan(value):
        return (1, 0)
    return (0, value.encode() if isinstance(value, str) else value)


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_sorted_as_in_spark(seed):
    rng = random.Random(seed)
    for _ in range(20):
        types, count = rng.sample(list(_VALUES), 2), rng.randint(0, 30)
        order = [Order(f"o{i}", f"o{i}", rng.random() < 0.5, rng.choice([None, True, False]), True) for i in range(2)]
        rows = [(rng.randint(0, 2), *(rng.choice(_VALUES[t]) for t in types)) for _ in range(count)]
        wanted = list(range(count))
        for i in (1, 0):  # the last of the expressions first, as each keeps the order of what ties
            item, first = order[i], order[i].nulls_first
            there = sorted((r for r in wanted if rows[r][i + 1] is not None), key=lambda r: _place(rows[r][i + 1]))
            if item.descending:  # rows that tie stay as they were
                there = [r for place in sorted({_place(rows[r][i + 1]) for r in there}, reverse=True) for r in there if _place(rows[r][i + 1]) == place]
            null = [r for r in wanted if rows[r][i + 1] is None]
            wanted = null + there if (not item.descending if first is None else first) else there + null
        wanted.sort(key=lambda r: rows[r][0])
        columns = [pa.array([row[i + 1] for row in rows], t) for i, t in enumerate(types)]
        found = _sorted(np.array([row[0] for row in rows], dtype=np.int64), columns, order)
        assert found.tolist() == wanted, (types, order, rows)


@pytest.mark.parametrize("strategy", ["STRICT CONTIGUITY", "SKIP TILL NEXT MATCH", "SKIP TILL ANY MATCH"])
@pytest.mark.parametrize("pattern", ["B | C | A", "B | C | B | A", "(A B | C) | (A A | B)"])
def test_of_non_overlapping_matches_that_end_together_the_preferred_one_is_told(pattern, strategy):
    text = (
        f"PARTITION BY p ORDER BY id MEASURES FIRST(id) AS m_first, LAST(id) AS m_last, CLASSIFIER() AS m_class AFTER MATCH SKIP PAST LAST ROW EVENT SELECTION {strategy} ALL MATCHES "
        f"PATTERN ({pattern}) WINDOW INTERVAL '8' MICROSECONDS DEFINE B AS v > 0, C AS v > 1"
    )
    assert sum(compared(text, random.Random(seed), 5, 8) for seed in range(8)) > 80


@pytest.mark.parametrize("rows, wanted", [("ALL ROWS PER MATCH WITH UNMATCHED ROWS", [(0, False), (2, False), (1, True), (3, True)]), ("ALL ROWS PER MATCH", [(1, True), (3, True)])])
def test_rows_without_a_time_are_in_no_match(rows, wanted):
    """They are told as such at once where rows in no match are asked for, and else dropped."""
    plan = planned(f"{HEAD} MATCH_NUMBER() AS n, count(*) AS c {rows} PATTERN (A B) DEFINE A AS v = 0, B AS v = 1")
    table = timed(plan, {0: [{"id": i + 1, "v": v, "w": i, "s": None} for i, v in enumerate([0, 0, 1, 1])]})
    for name in ("__o0", "__s0"):
        times = table.column(name).to_pylist()
        table = table.set_column(table.column_names.index(name), name, pa.array([None, times[1], None, times[3]], pa.timestamp("us")))
    stream = KeyedStream(_ordered(prepare(plan, table.drop_columns(["__s0", "__s1"]).schema), (*plan.order, plan.order[0])), table.schema, ["__s0", "__s1"])
    tables, kept = drained(stream.advance(table, np.zeros(4, dtype=np.int64), [b""], 100 * MS))
    found = [(row["w"], row["__l0"] is not None) for part in tables for row in part.to_pylist()]
    assert found == wanted and kept.pending == 0


COUNTING = ", MATCH_COUNT() AS k"


@pytest.mark.parametrize(("report", "count"), [("ALL MATCHES", ""), *((r, c) for r in ("PROXY MATCHES", "PROXY MATCHES PER ERROR", "MATCH BUNDLES") for c in ("", COUNTING))])
@pytest.mark.parametrize("condition", ["v = 1", "v = 1 AND v > A.v"])
def test_nothing_is_said_of_rows_without_a_time(report, condition, count):
    """Their measures are NULL, whatever the search."""
    bundle = ", BUNDLE_END() AS b" if report == "MATCH BUNDLES" else ""
    measures = f"MATCH_NUMBER() AS n, MATCH_ERRORS() AS e, MISSING() AS m{count}{bundle}"
    plan = planned(f"{HEAD} {measures} ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B C) {WINDOW} APPROX 1 {report} DEFINE A AS v = 0, B AS {condition}")
    table = timed(plan, {0: [{"id": 1, "v": 0, "w": 5, "s": None}]})
    for name in ("__o0", "__s0"):
        table = table.set_column(table.column_names.index(name), name, pa.array([None], pa.timestamp("us")))
    tables, kept = drained(stream_over(plan, table).advance(table, np.zeros(1, dtype=np.int64), [b""], 100 * MS))
    (row,) = (row for part in tables for row in part.to_pylist())
    assert row["w"] == 5 and not row["__matched"] and all(row[name] is None for name, _ in plan.leaves) and kept.states == [b""]
