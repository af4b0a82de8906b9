"""Ahead-of-time compilation: compiles the kernels of every engine by running one clause per engine over a few rows.

``sparkcep compile``, ``sparkcep doctor`` and the daemon of Spark's workers use it. Numba compiles a kernel for the types of
its arguments, and these clauses have the types that queries have. The first query that needs any other kernel compiles it.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator

from sparkcep import processes
from sparkcep.clause.parser import parse_clause
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import LETTERS, Plan

log = logging.getLogger("sparkcep")

_HEAD = "PARTITION BY k ORDER BY t MEASURES "
_ANY = "EVENT SELECTION SKIP TILL ANY MATCH "
_SEEN = "FIRST(t) AS f, LAST(v) AS l"
_LOCAL = "DEFINE A AS v > 1, B AS v < 3, C AS v = 2"
_NEIGHBOUR = "DEFINE A AS v > 1, B AS v < PREV(v), C AS v = 2"
_LOOKING = "DEFINE A AS v > 1, B AS v < A.v, C AS v > A.v AND v > avg(B.v)"

CLAUSES = {
    "one row per match": f"{_HEAD}{_SEEN} PATTERN (A B+ C?) {_NEIGHBOUR}",
    "all rows per match": f"{_HEAD}CLASSIFIER() AS c, count(*) AS n, sum(v) AS s, min(B.v) AS m, array_agg(v) AS vs ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B+ C?) {_NEIGHBOUR}",
    "conditions that look at the match": f"{_HEAD}{_SEEN}, avg(B.v) AS a PATTERN (A B+ C?) {_LOOKING}",
    "conditions that compare with the match's first row": f"{_HEAD}{_SEEN} PATTERN (A B+ C) DEFINE A AS v > 1, B AS v < A.v, C AS v > A.v",
    "overlapping matches": f"{_HEAD}{_SEEN}, CLASSIFIER() AS c, count(*) AS n, sum(v) AS s, min(B.v) AS m, array_agg(v) AS vs AFTER MATCH SKIP TO NEXT ROW PATTERN (A B+ C?) {_LOCAL}",
    "event selection": f"{_HEAD}{_SEEN} EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B+ C) WINDOW 5 {_LOCAL}",
    "event selection, all matches": f"{_HEAD}{_SEEN} {_ANY}ALL MATCHES PATTERN (A ~C B+) WINDOW 5 {_LOOKING}",
    "conjunctions": f"{_HEAD}{_SEEN} {_ANY}PATTERN (A & B+) WINDOW 5 DEFINE A AS v > 1, B AS v < 3",
    "numbers of matches": f"{_HEAD}MATCH_COUNT() AS n {_ANY}ALL MATCHES PATTERN (A B+ C) WINDOW 5 {_LOCAL}",
    "numbers of matches, conditions that look at them": f"{_HEAD}MATCH_COUNT() AS n {_ANY}ALL MATCHES PATTERN (A B+ C) WINDOW 5 {_LOOKING}",
    "graphs of matches": f"{_HEAD}MATCH_GRAPH() AS g {_ANY}ALL MATCHES PATTERN (A B+ C) WINDOW 5 {_LOOKING}",
    "approximate matches": f"{_HEAD}{_SEEN}, MATCH_ERRORS() AS e, MISSING() AS m PATTERN (A B C) WINDOW 5 APPROX 1 {_LOCAL}",
    "approximate matches, all": f"{_HEAD}{_SEEN}, MATCH_ERRORS() AS e, MISSING() AS m PATTERN (A B C) WINDOW 5 APPROX 1 ALL MATCHES {_LOCAL}",
    "approximate matches, bundles": f"{_HEAD}BUNDLE_START() AS b, MATCH_ERRORS() AS e PATTERN (A B C) WINDOW 5 APPROX 1 MATCH BUNDLES {_LOCAL}",
    "approximate matches, conditions that look at them": f"{_HEAD}{_SEEN}, MATCH_ERRORS() AS e PATTERN (A B C) WINDOW 5 APPROX 1 DEFINE A AS v > 1, B AS v < A.v, C AS v > 2",
    "approximate matches of conjunctions": f"{_HEAD}{_SEEN}, MATCH_ERRORS() AS e, MISSING() AS m PATTERN (A B & C) WINDOW 5 APPROX 1 {_LOCAL}",
    "ranked by sums": f"{_HEAD}MATCH_SCORE() AS s {_ANY}PATTERN (A B C) WINDOW 5 ROWS SLIDE 2 ROWS PREF MAX (A.v - B.v + C.v) TOP 2 {_LOCAL}",
    "ranked by sums of whole numbers": f"{_HEAD}MATCH_SCORE() AS s {_ANY}PATTERN (A B C) WINDOW 5 PREF MAX (A.i + C.i) TOP 2 {_LOCAL}",
    "ranked sequences": f"{_HEAD}MATCH_SCORE() AS s {_ANY}SEQUENCE S AS (A+ B) PREF MAX (SUM(i)) SEQUENCE T AS (C D) PREF MAX (C.i) PATTERN (S & T) WINDOW 5 SLIDE 2 TOP 2 {_LOCAL}, D AS i = C.i",
    "ranked by products": f"{_HEAD}MATCH_SCORE() AS s {_ANY}PATTERN (A B) WINDOW 5 PREF MAX (A.v * B.v) TOP 2 DEFINE A AS v > 1, B AS v < 3",
    "automata": f"{_HEAD}{_SEEN}, n AS n, CLASSIFIER() AS c AUTOMATON (REGISTER n INT = 0, x DOUBLE STATE z FINAL ARC FROM a TO b WHEN v > 1 SET n = n + 1, x = v "
    "ARC FROM b TO b WHEN v >= x SET n = n + 1, x = v ARC FROM b TO z WHEN v < x) WINDOW 5",
    "automata, changes": f"{_HEAD}CHANGE() AS h, {_SEEN} AUTOMATON (REGISTER n INT = 0 STATE z FINAL ARC FROM a TO b WHEN v > 1 SET n = n + 1 "
    "ARC FROM b TO b WHEN n < 3 SET n = n + 1 ARC FROM b TO z ARC FROM b TO z ON EXPIRY) WINDOW 5 CHANGES IN op ARRIVAL BY i REPORT CHANGES",
    "ranked under a bound": f"{_HEAD}MATCH_SCORE() AS s {_ANY}PATTERN (A B+ C) WINDOW 5 PREF MAX (A.v + C.v) TOP 2 {_LOOKING}",
    "ranked conjunctions": f"{_HEAD}MATCH_SCORE() AS s {_ANY}PATTERN (A & C) WINDOW 4 SLIDE 1 PREF MAX (A.i + C.i) TOP 2 DEFINE A AS v > 1, C AS v < 3",
    "approximate matches under a budget": f"{_HEAD}{_SEEN}, MATCH_ERRORS() AS e, COMPLETE() AS c PATTERN (A B C) WINDOW 5 APPROX 1 BUDGET 2 CHECKS {_LOCAL}",
}


def compile_all() -> Iterator[float]:
    """Compiles the kernels that are not on disk yet, in two processes if there are two processors.

    Yields the seconds that each clause of ``CLAUSES`` took. Returns when the other process has finished as well.
    """
    several = (os.cpu_count() or 1) > 1 and sys.executable
    helper = subprocess.Popen(processes.python("-m", __name__), env=processes.environment(), stdin=subprocess.DEVNULL) if several else None
    _compile_arrangement()
    for text in CLAUSES.values():
        start = time.perf_counter()
        _compile(text)
        yield time.perf_counter() - start
    if helper is not None and helper.wait() != 0:
        log.warning("the parallel compilation process ended with %d; this process compiled the rest", helper.returncode)


def _compile(text: str) -> None:
    from sparkcep.kernels.jit import cache

    with cache.at_once():
        _run(text)


def _compile_arrangement() -> None:
    """Compiles the kernels that order rows from blocks of columns."""
    from sparkcep.engine.arrange.order import run_kernels
    from sparkcep.kernels.jit import cache

    with cache.at_once():
        run_kernels()


def _run(text: str) -> None:
    from sparkcep.engine.factory import match_table

    plan = make_plan(parse_clause(text))
    for table in tables(plan):
        match_table(plan, table)


def _compile_from_behind() -> None:
    """Compiles the same kernels, starting from the last clause, so that each of the two processes loads the other's kernels."""
    log.setLevel(logging.ERROR)  # the other process reports the compiled kernels
    for text in reversed(CLAUSES.values()):
        _compile(text)


def tables(plan: Plan) -> Iterator:
    """Yields two tables of the plan's input columns, without and with NULLs. Each has two partitions of ten rows."""
    import pyarrow as pa

    rows = range(20)
    for none in (-1, 3):
        values = {
            "k": pa.array([row // 10 for row in rows], pa.int64()),
            "t": pa.array([row % 10 for row in rows], pa.int64()),
            "v": pa.array([None if row == none else float(row * 7 % 5) for row in rows], pa.float64()),
            "i": pa.array([None if row == none else row * 7 % 5 for row in rows], pa.int32()),
            "op": pa.array(["insert" for _ in rows]),
        }
        columns = {name: column for name, column in values.items() if name != "op"} if plan.rows != "one" else {}
        numbers = pa.array([row * 3 % 10 for row in rows], pa.int32())  # as Spark would compute them under CHANGES IN
        columns |= {column: numbers if sql.startswith("dense_rank()") else values[sql.rpartition(".")[2]] for column, sql in plan.inputs}
        if plan.letters:
            bits = sum(1 << bit for _, bit, _ in plan.letters)
            columns[LETTERS] = pa.array([row * 5 & bits for row in rows], pa.int8())
        yield pa.table(columns)


def load_first() -> bool:
    """Loads the kernels of the first clause without compiling. Returns whether all of them are on disk."""
    from sparkcep.kernels.jit import cache

    try:
        with cache.loading_only():
            _run(next(iter(CLAUSES.values())))
    except cache.NotCompiledError:
        return False
    return True


if __name__ == "__main__":
    _compile_from_behind()
