"""A stream that resumes with other measures emits the matches of a table of all rows. If it cannot, it is refused."""

from __future__ import annotations

import collections
import itertools
import json
import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.searches import BUDGETED
from sparkcep.compiler.strategy import strategy_of
from sparkcep.compiler.stream_rules import NEEDED, different
from sparkcep.engine.factory import prepare
from sparkcep.plan.build import make_plan
from sparkcep.plan.extend.approx import ALL
from sparkcep.plan.plan import LETTERS, Plan
from sparkcep.settings import Settings
from sparkcep.sql.rewrite.rewrite import needed_rows
from tests.property.stream.streams import HEAD, WINDOW, batch, by_partition, ends, micro_batches, rows_of, stream_over, timed
from tests.selection import first, one_in
from tests.support.caught import without_catching

MEASURES = [
    "", "PREV(FIRST(v))", "NEXT(LAST(v))", "NEXT(FIRST(v))", "PREV(LAST(v))", "NEXT(FIRST(v), 2)", "PREV(CLASSIFIER())", "NEXT(FIRST(CLASSIFIER()))", "MATCH_NUMBER()", "MATCH_NUMBER() + NEXT(LAST(v))",
]  # fmt: skip
DEFINED = "DEFINE A AS v < 2, B AS v > 2, C AS w > 0"
BUNDLES = "WINDOW INTERVAL '3' MICROSECONDS APPROX 1 MATCH BUNDLES"
STATEMENTS = {
    "till next": f"EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B) {WINDOW} DEFINE A AS v < 2, B AS v = 3",
    "proxies": f"PATTERN (A B C) {WINDOW} APPROX 1 {DEFINED}",
    "till any": f"EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B) {WINDOW} DEFINE A AS v < 2, B AS v = 3",
    "adjacent": f"PATTERN (A B+ C?) {WINDOW} DEFINE A AS v < 3, B AS v > 1, C AS w > 0",
    "proxies that conditions read": f"PATTERN (A B C) {WINDOW} APPROX 1 DEFINE A AS v < 2, B AS v > A.v, C AS w > 0",
    "by cost": f"PATTERN (A B C) {WINDOW} APPROX 1 PROXY MATCHES PER ERROR {DEFINED}",
    "bundles": f"PATTERN (A B C) {BUNDLES} {DEFINED}",
    "bundles that conditions read": f"PATTERN (A B C) {BUNDLES} DEFINE A AS v < 2, B AS v > A.v, C AS w > 0",
    "budget": f"PATTERN (A B C) {WINDOW} APPROX 1 BUDGET 2 CHECKS {DEFINED}",
    "all under a budget": f"PATTERN (A B C) {WINDOW} APPROX 1 ALL MATCHES BUDGET 2 CHECKS {DEFINED}",
    "automaton": f"AUTOMATON (REGISTER last INT STATE q2 FINAL ARC a FROM q0 TO q1 WHEN v < 3 SET last = v ARC b FROM q1 TO q1 WHEN v >= last ARC c FROM q1 TO q2 WHEN w > 0) {WINDOW}",
    "bundles under a budget": f"PATTERN (A B C) {BUNDLES} BUDGET 2 CHECKS {DEFINED}",
}

ANY, UNMATCHED = "EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES", "ALL ROWS PER MATCH WITH UNMATCHED ROWS"
AND_NOT = f"{WINDOW} DEFINE A AS v < 2, B AS v >= 2, N AS w > 1"
FURTHER = {
    "negation after": f"{ANY} PATTERN (A B ~N) {AND_NOT}",
    "negation before": f"{ANY} PATTERN (~N A B) {AND_NOT}",
    "negation between": f"EVENT SELECTION SKIP TILL ANY MATCH FIRST MATCH PATTERN (A ~N B) {AND_NOT}",
    "negation after the first": f"EVENT SELECTION SKIP TILL NEXT MATCH FIRST MATCH PATTERN (A B ~N) {AND_NOT}",
    "conjunction": f"{ANY} PATTERN ((A B) & C) {WINDOW} {DEFINED}",
    "past the last row": f"AFTER MATCH SKIP PAST LAST ROW {ANY} PATTERN (A B C) {WINDOW} {DEFINED}",
    "window of rows": f"{ANY} PATTERN (A B) WINDOW 4 ROWS DEFINE A AS v < 2, B AS v > A.v",
    "group of rows": f"EVENT SELECTION SKIP TILL NEXT MATCH PATTERN ((A B) WITHIN 3 ROWS C) {WINDOW} {DEFINED}",
    "conditions that look back": f"{ANY} PATTERN (A B) {WINDOW} DEFINE A AS v < PREV(v), B AS v > PREV(v)",
    "conditions that look ahead": "PATTERN (A B) WINDOW 9 ROWS DEFINE A AS v < NEXT(v, 2), B AS v > NEXT(v)",
    "rows of matches": f"ALL ROWS PER MATCH PATTERN (A B+) {WINDOW} DEFINE A AS v < 2, B AS v > A.v",
    "rows in no match": f"{UNMATCHED} PATTERN (A B+) {WINDOW} DEFINE A AS v < 2, B AS v > A.v",
    "rows in no match of till next": f"{UNMATCHED} EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B) {WINDOW} DEFINE A AS v < 2, B AS v > A.v",
    "rows in no match of till any": f"{UNMATCHED} {ANY} PATTERN (A B) {WINDOW} DEFINE A AS v < 2, B AS v > A.v",
    "rows in no proxy": f"{UNMATCHED} PATTERN (A B C) {WINDOW} APPROX 1 {DEFINED}",
    "rows in no proxy that conditions read": f"{UNMATCHED} PATTERN (A B C) {WINDOW} APPROX 1 DEFINE A AS v < 2, B AS v > A.v, C AS w > 0",
    "rows in no bundle": f"{UNMATCHED} PATTERN (A B C) {BUNDLES} DEFINE A AS v < 2, B AS v > A.v, C AS w > 0",
    "rows in no match of an automaton": f"{UNMATCHED} {STATEMENTS['automaton']}",
    "expiry": f"AUTOMATON (STATE q1 IGNORE WHEN v <> 2, q2 FINAL ARC a FROM q0 TO q1 WHEN v < 3 ARC FROM q1 TO q2 WHEN w > 1 ARC FROM q1 TO q2 ON EXPIRY) {WINDOW}",
    "by rows": f"AUTOMATON BY ROWS (STATE q2 FINAL ARC FROM q0 TO q0 WHEN w > 0 ARC a FROM q0 TO q1 WHEN v < 3 ARC FROM q1 TO q1 WHEN w < 2 ARC b FROM q1 TO q2 WHEN v > 0) {WINDOW}",
    "sides that may lack a row": f"PATTERN (A B & C) {WINDOW} APPROX 1 {DEFINED}",
    "trajectories": f"PATTERN (A B C) {WINDOW} APPROX 1 ALL MATCHES DEFINE A AS v < 2, B AS v > A.v, C AS w > 0",
    "proxies with a negation after": f"PATTERN (A B C ~N) {WINDOW} APPROX 1 {DEFINED}, N AS v = 0",
}


def stated(text: str, measure: str, prefilter: bool = True) -> tuple[Plan, dict[str, str]]:
    """The plan with a further measure, and the texts that a checkpoint stores of it."""
    measures = f"FIRST(id) AS a, LAST(id) AS z, LAST(v) AS v0, LAST(w) AS w0{', ' * bool(measure)}{measure}{' AS m' * bool(measure)}"
    plan = without_catching(make_plan(parse_clause(f"{HEAD} {measures} {text}"), settings=Settings(prefilter=prefilter)))
    letters = "; ".join(f"{bit} {condition}" for _, bit, condition in plan.letters)
    return plan, dict(plan.inputs) | {LETTERS: letters, NEEDED: needed_rows(plan)}


def refused(before: tuple[Plan, dict], now: tuple[Plan, dict]) -> list[str]:
    (first_plan, texts_before), (plan, texts) = before, now
    return different(*(json.loads(one.without_sql().to_json()) for one in (first_plan, plan)), texts_before, texts)


class _Needed:
    """A stream that gets the rows that some variable accepts, if the plan says so."""

    def __init__(self, plan: Plan, table: pa.Table) -> None:
        self.stream, self.drops = stream_over(replace(plan, prefilter=()), table), bool(plan.prefilter)

    def advance(self, rows: pa.Table, keys: np.ndarray, states: list[bytes], watermark: int):
        needed = np.asarray(rows.column(LETTERS)) != 0 if self.drops else np.ones(rows.num_rows, dtype=bool)
        return self.stream.advance(rows.filter(pa.array(needed)), keys[needed], states, watermark)


def compared(before: Plan, now: Plan, rng: random.Random) -> int:
    """Compares a stream that changes its plan with tables. Returns how many matches came after the change."""
    plans, rows, at, ran = [before, now], rows_of(rng, 5, 14), rng.randint(1, 5), 0
    tables = [timed(replace(plan, prefilter=()), rows) for plan in plans]
    if not tables[0].num_rows:
        return 0
    assert tables[0].schema == tables[1].schema
    streams, found = [*map(_Needed, plans, tables)], [[], []]

    def next_stream() -> _Needed:
        nonlocal ran
        ran += 1
        return streams[ran > at]

    for _, _, emitted in micro_batches(replace(before, prefilter=()), tables[0], rng, rng.choice([0, 2, 5]), next_stream=next_stream, to_the_end=True):
        found[ran > at] += emitted
    emitted, later = (_by_partition(plan, table, some) for plan, table, some in zip(plans, tables, found, strict=True))
    answer = by_partition(now, batch(replace(now, prefilter=()), tables[1], np.ones(tables[1].num_rows, dtype=bool)))
    strategy = strategy_of(now)
    unordered = strategy.emission.early or (now.rows == "unmatched" and (now.approximate is not None or now.automaton is not None))
    unordered = unordered or (strategy.search == BUDGETED and now.approximate.report == ALL and not now.numbered)
    for p, matches in later.items():
        if unordered:
            assert not collections.Counter(matches) - collections.Counter(answer[p])
        else:
            begin = len(emitted.get(p, []))
            assert matches == answer[p][begin : begin + len(matches)]
    if ends(before) and ends(now):
        assert {p: len(rows) for p, rows in answer.items()} == collections.Counter({p: len(rows) for p, rows in emitted.items()}) + collections.Counter({p: len(rows) for p, rows in later.items()})
    return sum(map(len, later.values()))


def _by_partition(plan: Plan, table: pa.Table, found: list[pa.Table]) -> dict[int, list[str]]:
    none = prepare(plan, table.drop_columns(["__s0", "__s1"]).schema).output_schema.empty_table()
    return by_partition(plan, pa.concat_tables([none, *found]))


@pytest.mark.parametrize("seed", first(range(30), 1))
@pytest.mark.parametrize("name", [*STATEMENTS, *one_in(8, FURTHER)])
def test_other_measures(name, seed):
    rng, total, text = random.Random(f"{name} {seed}"), 0, (STATEMENTS | FURTHER)[name]
    pairs = [*itertools.permutations(MEASURES, 2)]
    for one, other in rng.sample(pairs, len(pairs)):  # until enough was compared
        before, now = stated(text, one), stated(text, other)
        total += 0 if refused(before, now) else compared(before[0], now[0], rng)
        if total > 15:
            return
    raise AssertionError(total)
