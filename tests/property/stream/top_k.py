"""TOP k of sliding windows over a stream: statements, and their comparison with the k best matches of each window."""

from __future__ import annotations

import datetime
import random
import re
import sqlite3

import numpy as np
import pyarrow as pa

from sparkcep.compiler.strategy import strategy_of
from sparkcep.engine.factory import prepare
from sparkcep.plan.reach import Reach
from tests.oracle import measures, pattern, selection
from tests.property.stream import statements
from tests.property.stream.streams import (
    ANY,
    HEAD,
    WINDOW,
    batch,
    micro_batches,
    planned,
    rows_of,
    timed,
)

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
    # named sequences
    f"{PAIRS} SEQUENCE S1 AS (A B) PREF MAX (sum(v)) AS o SEQUENCE S2 AS (C) PREF MAX (C.w) PATTERN (S1 & S2) {WINDOW} SLIDE INTERVAL '2' MICROSECONDS TOP 3 DEFINE A AS v < 3, C AS w > 0",
    f"{PAIRS} SEQUENCE S1 AS (A B+) PREF MAX (sum(v)) SEQUENCE S2 AS (C) WITHIN INTERVAL '3' MICROSECONDS UPDATE INTERVAL '2' MICROSECONDS PREF MAX (C.w) "
    f"PATTERN (S1 S2) {WINDOW} SLIDE INTERVAL '2' MICROSECONDS PREF SEQUENCES WEIGHTS (S2 2) TOP 2 DEFINE A AS v < 3, B AS v > 1",
    f"{PAIRS} SEQUENCE S1 AS (A) WITHIN 3 ROWS UPDATE 3 ROWS PREF MAX (A.v) AS o SEQUENCE S2 AS (B) PREF MIN (B.w) AS o PATTERN (S1 & S2) WINDOW 5 ROWS SLIDE 2 ROWS PREF MAX (S1.o - S2.o) TOP 2",
    # windows that may wait after their ends
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
    shown = [leaf for _, leaf in plan.outputs if leaf in leaves.column_names]
    return {group: [tuple(str(row[leaf]) for leaf in shown) for row in rows] for group, rows in ranked_rows(plan, leaves).items()}


def ranked_rows(plan, leaves: pa.Table) -> dict[tuple, list[dict]]:
    """The engine's rows of the k best of each partition and window, in the order of their ranks."""
    ranking, names = plan.ranking, leaves.column_names
    start = next(leaf.name for leaf in plan.leaves if leaf.spec.kind == "window_start")
    database = sqlite3.connect(":memory:")
    database.execute(f"CREATE TABLE leaves ({', '.join(names)})")
    rows = [tuple(str(v) if isinstance(v, (list, datetime.datetime)) else v for v in row.values()) for row in leaves.to_pylist()]
    database.executemany(f"INSERT INTO leaves VALUES ({', '.join('?' * len(names))})", rows)
    objectives = ", ".join(f"{text} AS __g{i}" for i, text in enumerate(ranking.objectives))
    score = re.sub(r"IF\(typeof\((__g\d+)\).*?raise_error\(concat\('[^']*', typeof\(\1\)\)\)\)", r"\1", ranking.score)  # without checks of types
    scores = [score for (score,) in database.execute(f"SELECT {score} FROM (SELECT *, {objectives}, rowid AS __at FROM leaves) ORDER BY __at")]
    groups: dict[tuple, list[tuple]] = {}
    for number, (score, row) in enumerate(zip(scores, leaves.to_pylist(), strict=True)):
        rank = (score is None, 0 if score is None else -score, row[ranking.vector])
        groups.setdefault(("" if ranking.overall else row["__p0"], row[start]), []).append((rank, row["__p0"], number, row))
    return {group: [found[3] for found in sorted(some)[: ranking.top]] for group, some in groups.items()}


def micros(time) -> int:
    """A time in microseconds, or a place of WINDOW n ROWS."""
    return time if isinstance(time, int) else int((time - datetime.datetime(1970, 1, 1)) / datetime.timedelta(microseconds=1))


def compared_best(text: str, rng: random.Random) -> int:
    """Compares the emitted windows with the answer: each final window is emitted once, and no other. Returns their number.

    The emitted matches are the answer over all rows, over the released ones alone, and over these with future rows. A window is
    emitted when it has ended, or at the latest when the windows that begin with its rows have, and NEXT finds its rows.
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
            begin = micros(group[1])
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


def watched(plan, table: pa.Table, rng: random.Random, delay: int):
    """(watermark, released rows, all output so far) after each micro-batch; of each partition and window the rows come in
    one of them."""
    told: list[pa.Table] = []
    seen: dict[tuple, int] = {}
    start = next(leaf.name for leaf in plan.leaves if leaf.spec.kind == "window_start")
    for number, (watermark, released, tables) in enumerate(micro_batches(plan, table, rng, delay)):
        told += tables
        for row in (row for part in tables for row in part.to_pylist()):
            assert seen.setdefault(("" if plan.ranking.overall else row["__p0"], row[start]), number) == number
        yield watermark, released, pa.concat_tables([prepare(plan, table.drop_columns(["__s0", "__s1"]).schema).output_schema.empty_table(), *told])


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
    """A statement whose windows may wait after their ends: one match for each first row, numbers, NEXT, negations at the ends,
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


def random_shapes(rng: random.Random) -> str:
    """A statement that ranks the matches of any pattern."""
    while True:
        query = selection.random_query(rng, shapes=statements.WIDER)
        if query.window is not None and not pattern.contains(query.pattern, ("end",)):
            break
    query.skip, query.mode = None, measures.ONE_ROW
    statements.with_strings(rng, query.defines, pattern.variables(query.pattern), tuple(query.subsets))
    unit, size = " ROWS" if query.window[0] == "rows" else "", query.window[1]
    overall = " OVERALL" if rng.random() < 0.2 and not unit else ""
    ranked = f"SLIDE {rng.randint(1, size)}{unit} PREF MAX ({rng.choice(['sum(v)', 'count(*)', 'max(v)', 'LAST(w) - FIRST(v)'])}) TOP {rng.randint(1, 4)}{overall}"
    text = re.sub(r"MEASURES .*", "MEASURES FIRST(id) AS a, LAST(id) AS z, count(*) AS c, WINDOW_START() AS s", query.to_sql())
    return re.sub(r"(?m)^WINDOW .*$", lambda found: f"{found[0]} {ranked}", text)
