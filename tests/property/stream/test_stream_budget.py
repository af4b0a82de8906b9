"""BUDGET n CHECKS over a stream: rows in disorder, cut into micro-batches anywhere, with bytes between them, against the answer
over the same rows in a table, and against the definition; with a history that is another one from micro-batch to micro-batch,
too."""

from __future__ import annotations

import functools
import random
import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.strategy import strategy_of
from sparkcep.compiler.stream_rules import check_stream
from sparkcep.engine.stream.keyed_stream import KeyedStream
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.plan.build import make_plan
from sparkcep.plan.extend.budget import HISTORY_COLUMN
from sparkcep.settings import Settings
from tests.oracle import budget as oracle
from tests.property.budget.test_budget import (
    LETTERS,
    REPORTED,
    as_rows,
    budgeted_case,
    clause,
    ran,
    random_budgeted,
    random_hindered,
    random_history,
    random_points,
    said,
)
from tests.property.in_process import drained
from tests.property.stream import streams, watermarks
from tests.property.stream.streams import HEAD, WINDOW, compared, micro_batches, planned, rows_of, timed, tried
from tests.selection import first, further, one_in
from tests.support.caught import without_catching

DEFINED = "DEFINE A AS v < 2, B AS v > 2, C AS w > 0"
SAID = "MATCH_ERRORS() AS e, MISSING() AS m, COMPLETE() AS c, CHECKS_LEFT_OUT() AS o"
ENDS = "FIRST(id) AS a, LAST(id) AS z"
BUNDLE = "BUNDLE_START() AS s, BUNDLE_END() AS z, BUNDLE_SIZE() AS n, FIRST(id) AS f"
STATEMENTS = [
    f"{HEAD} {ENDS}, MATCH_NUMBER() AS n, {SAID} PATTERN (A B C) {WINDOW} APPROX 1 BUDGET 1 CHECKS {DEFINED}",
    f"{HEAD} {ENDS}, {SAID}, COVERAGE() AS g PATTERN (A B C) WINDOW 5 ROWS APPROX 2 PROXY MATCHES PER ERROR BUDGET 2 CHECKS {DEFINED}",
    f"{HEAD} {ENDS}, {SAID} PATTERN (A B C) {WINDOW} APPROX 1 ALL MATCHES BUDGET 2 CHECKS {DEFINED}",
    f"{HEAD} {ENDS}, MATCH_NUMBER() AS n, {SAID} PATTERN (A B C) {WINDOW} APPROX 1 ALL MATCHES BUDGET 2 CHECKS {DEFINED}",
    f"{HEAD} MATCH_NUMBER() AS n, CLASSIFIER() AS l, NEXT(v) AS x, {SAID} ALL ROWS PER MATCH PATTERN (A B C) WINDOW 4 ROWS APPROX 1 ALL MATCHES BUDGET 2 CHECKS {DEFINED}",
    f"{HEAD} {ENDS}, PREV(v) AS p, MATCH_ERRORS() AS e PATTERN (A B C) {WINDOW} APPROX 1 PROXY MATCHES PER ERROR BUDGET 1 CHECKS DEFINE A AS v < 2, B AS v > A.v, C AS w > A.w",
    f"{HEAD} {BUNDLE}, MATCH_NUMBER() AS i, {SAID} PATTERN (A B C) WINDOW INTERVAL '3' MICROSECONDS APPROX 1 MATCH BUNDLES BUDGET 1 CHECKS {DEFINED}",
    f"{HEAD} {BUNDLE}, PREV(v) AS p, {SAID} PATTERN (A B C) WINDOW 3 ROWS APPROX 1 MATCH BUNDLES BUDGET 1 CHECKS DEFINE A AS v < 2, B AS v > NEXT(v), C AS w > 0",
    f"{HEAD} {BUNDLE}, {SAID} PATTERN (A B C) WINDOW 3 ROWS APPROX 1 MATCH BUNDLES BUDGET 2 CHECKS DEFINE A AS v < 2, B AS v > 1, C AS w > 0",
    f"{HEAD} {BUNDLE}, {SAID} PATTERN (A B+ C) {WINDOW} APPROX 1 MATCH BUNDLES BUDGET 3 CHECKS DEFINE A AS v < 3, B AS v >= avg(v), C AS w > 0",
    f"{HEAD} {ENDS}, {SAID} PATTERN (^ A B C) WINDOW 4 ROWS APPROX 1 BUDGET 1 CHECKS DEFINE A AS v < 2, B AS v > PREV(v), C AS w > 0",
    f"{HEAD} {ENDS}, {SAID} PATTERN ((A B+ C) WITHIN INTERVAL '3' MICROSECONDS D) WINDOW INTERVAL '6' MICROSECONDS APPROX 1 BUDGET 2 CHECKS "
    "DEFINE A AS v < 2, B AS v > PREV(v), C AS w > 0, D AS w > 0",
    f"{HEAD} {ENDS}, {SAID} PATTERN (A B ~N C D) WINDOW INTERVAL '9' MICROSECONDS APPROX 1 BUDGET 2 CHECKS DEFINE A AS v < 2, B AS v > 1, N AS v = 2, C AS w > 0, D AS w > 0",
    f"{HEAD} {ENDS}, {SAID} PATTERN (A B ~N C D) WINDOW INTERVAL '9' MICROSECONDS APPROX 1 BUDGET 2 CHECKS DEFINE A AS v < 2, B AS v > 1, N AS v > A.v, C AS w > 0, D AS w > 0",
    # a negation behind the last row
    f"{HEAD} {ENDS}, MATCH_NUMBER() AS n, {SAID} PATTERN (A B C ~N) {WINDOW} APPROX 1 BUDGET 2 CHECKS DEFINE A AS v < 3, B AS v > 1, N AS v = 0, C AS w > 0",
    f"{HEAD} {ENDS}, {SAID} PATTERN (A B ~N C) {WINDOW} APPROX 1 ALL MATCHES BUDGET 2 CHECKS DEFINE A AS v < 3, B AS v > 1, N AS v > A.v, C AS w > 0",
    f"{HEAD} {ENDS}, {SAID} PATTERN (A B C ~N) WINDOW 5 ROWS APPROX 1 PROXY MATCHES PER ERROR BUDGET 2 CHECKS DEFINE A AS v < 3, B AS v > 1, N AS v < NEXT(v), C AS w > 0",
    f"{HEAD} {BUNDLE}, {SAID} PATTERN (A B C ~N) {WINDOW} APPROX 1 MATCH BUNDLES BUDGET 2 CHECKS DEFINE A AS v < 3, B AS v > 1, N AS v = 0, C AS w > 0",
    f"{HEAD} {ENDS}, {SAID} PATTERN (A B ~N) WINDOW INTERVAL '6' MICROSECONDS APPROX 1 WEIGHTS (A 2) BUDGET 2 CHECKS DEFINE A AS v < 4, B AS v > 1, N AS v > NEXT(v)",
    # several equally cheap ways to the same rows
    f"{HEAD} {ENDS}, array_agg(CLASSIFIER()) AS l, {SAID} PATTERN ((A B? | B A?) C D) WINDOW INTERVAL '8' MICROSECONDS APPROX 2 BUDGET 20 CHECKS "
    "DEFINE A AS v < 3, B AS v > 1, C AS w > 0, D AS v < 3",
    f"{HEAD} {ENDS}, array_agg(CLASSIFIER()) AS l, {SAID} PATTERN ((A | B)+ (B | C)+ D) {WINDOW} APPROX 1 PROXY MATCHES PER ERROR BUDGET 4 CHECKS "
    "DEFINE A AS v < 3, B AS v > 1, C AS w > -1, D AS v < 3",
    f"{HEAD} {BUNDLE}, array_agg(CLASSIFIER()) AS l, {SAID} PATTERN ((A B? | B A?) C D) {WINDOW} APPROX 1 MATCH BUNDLES BUDGET 8 CHECKS "
    "DEFINE A AS v < 2, B AS v > 0, C AS w > 0, D AS v < 3",
    f"{HEAD} {ENDS}, {SAID} PATTERN (A (B | C) D{{1,2}}) {WINDOW} APPROX 1 BUDGET 2 CHECKS DEFINE A AS v < 3, B AS v > 1, C AS w > 0, D AS w >= B.w",
]


@pytest.mark.parametrize("text", one_in(12, STATEMENTS, wider=9))
def test_each_statement(text):
    rng, total = random.Random(text), 0
    for _ in range(4):
        total += compared(text, rng, 6, 24)
    assert total > 10


TIMED = [
    f"{HEAD} {ENDS}, {SAID}, CHECKS_ALLOWED() AS q PATTERN (A B C) {WINDOW} APPROX 1 ALL MATCHES BUDGET INTERVAL '1' MICROSECOND PER ROW {DEFINED}",
    f"{HEAD} {ENDS}, MATCH_NUMBER() AS n, {SAID}, CHECKS_ALLOWED() AS q PATTERN (A B C) {WINDOW} APPROX 1 ALL MATCHES BUDGET INTERVAL '2' MICROSECONDS PER ROW {DEFINED}",
    f"{HEAD} {BUNDLE}, CHECKS_ALLOWED() AS q PATTERN (A B C) WINDOW INTERVAL '3' MICROSECONDS APPROX 1 MATCH BUNDLES BUDGET INTERVAL '1' MICROSECOND PER ROW {DEFINED}",
    f"{HEAD} {BUNDLE}, CHECKS_ALLOWED() AS q PATTERN (A B C) WINDOW 3 ROWS APPROX 1 MATCH BUNDLES BUDGET 2 CHECKS {DEFINED}",
]


@pytest.mark.parametrize("text", one_in(4, TIMED, wider=3))
def test_checks_by_time_are_those_of_a_table(text):
    """Blocks of 64 rows go on from one micro-batch to the next."""
    assert compared(text, random.Random(text), 3, 400) > 10


def test_a_micro_batch_shares_its_interval():
    """One key in one micro-batch has what a partition has."""
    per_batch, per_partition = (
        make_plan(parse_clause(f"{HEAD} {ENDS}, CHECKS_ALLOWED() AS q PATTERN (A B C) {WINDOW} APPROX 1 BUDGET INTERVAL '200' MICROSECONDS PER {scope} {DEFINED}"), settings=streams.SETTINGS)
        for scope in ("BATCH", "PARTITION")
    )
    check_stream(per_batch)
    table = timed(per_batch, rows_of(random.Random("one"), 2, 800))
    last = int(np.asarray(table.column("__s0").cast(pa.int64())).max())
    for key in (0, 1):
        rows = table.filter(pa.array(np.asarray(table.column("__p0")) == key))
        drain = streams.stream_over(per_batch, table).advance(rows, np.zeros(rows.num_rows, dtype=np.int64), [b""], last)
        found = pa.concat_tables(list(drain))
        assert found.num_rows > 20 and found.to_pylist() == streams.batch(per_partition, rows, np.ones(rows.num_rows, dtype=bool)).to_pylist()
    with pytest.raises(ClauseError, match="Write PER BATCH"):
        check_stream(per_partition)
    with pytest.raises(ClauseError, match="Write PER PARTITION"):
        streams.batch(per_batch, table, np.ones(table.num_rows, dtype=bool))


@pytest.mark.parametrize("text", one_in(8, STATEMENTS, wider=3))
def test_nothing_is_kept_of_keys_that_are_silent(text):
    watermarks.check_silent_keys(text)


@pytest.mark.parametrize("text", one_in(9, [text for text in STATEMENTS if "NEXT" not in text and "BUNDLES" not in text and "ROWS" not in text], wider=2))
def test_nothing_told_later_is_behind_the_watermark_that_is_passed_on(text):
    watermarks.check_output_watermark(text)


def random_statement(rng: random.Random) -> str:
    case = budgeted_case(rng, ("letters", "plain", "plain", "negation"))
    case = case.with_(unit=None, descending=False, checks=rng.choice([1, 1, 2, 2, 3, 5]), complete=rng.random() < 0.5)
    return case.to_sql().replace("ORDER BY t, id", "ORDER BY id")


@pytest.mark.parametrize("seed", first(range(24), wider=2))
def test_random_statements(seed):
    rng, told, statements = random.Random(f"budgets {seed}"), 0, 0
    while told <= 8 or statements < 8:
        told += tried(random_statement(rng), rng) or 0
        statements += 1


# --- against the definition, with histories -----------------------------------------------------------------------


def random_partitions(rng: random.Random, count: int, longest: int) -> list[tuple[str, list[int]]]:
    """Letters and times; a stream's first watermark is the epoch."""
    found = []
    for _ in range(count):
        size = rng.randrange(longest // 3, longest)
        found.append(("".join(rng.choice(LETTERS) for _ in range(size)), sorted(rng.randrange(1, 2 + 2 * size) for _ in range(size))))
    return found


def in_time(text: str) -> str:
    return re.sub(r"WINDOW (\d+)", r"WINDOW INTERVAL '\1' MICROSECONDS", text)


def streamed(text: str, query: oracle.Budgeted, partitions, rng: random.Random, delay: int, history=None, wrapped=lambda stream: stream, idle=0, settings=Settings(prefilter=False)):
    """(of each partition its output rows; of each row the number of the micro-batch in which it was released, -1 for none, and of
    that in which it was searched)"""
    plan = replace(without_catching(make_plan(parse_clause(in_time(text)), settings=settings)), idle=idle)
    rows = [(p, i, s, t) for p, (letters, times) in enumerate(partitions) for i, (s, t) in enumerate(zip(letters, times, strict=True))]
    columns = {"p": [row[0] for row in rows], "id": [row[1] for row in rows], "s": [row[2] for row in rows]}
    times = pa.array([row[3] for row in rows], pa.timestamp("us"))
    data = {}
    for name, sql in plan.inputs:
        if name != HISTORY_COLUMN:
            bare = sql.strip("() ")
            data[name] = times if bare == "t" else pa.array(columns[bare])
    data["__letters"] = pa.array([sum(1 << letter.bit for letter in plan.letters if s in query.takes[plan.variables[letter.variable].upper()]) for s in columns["s"]])
    table = pa.table(data | {"__s0": times, "__s1": pa.array(np.arange(len(rows)))})
    found: dict[int, list[dict]] = {}
    turn, released_in, searched_in = 0, np.full(len(rows), -1), np.full(len(rows), -1)
    # where a negation looks behind matches, a row is searched when the window that begins there has ended
    waits = query.window if strategy_of(plan).automaton.negates_behind else 1
    stream = wrapped(streams.stream_over(plan, table))
    for watermark, released, tables in micro_batches(plan, table, rng, delay, history, lambda: stream):
        released_in[released & (released_in < 0)] = turn
        searched_in[(np.array([row[3] for row in rows]) + waits <= watermark + 1) & (searched_in < 0)] = turn
        turn += 1
        for row in (row for part in tables for row in part.to_pylist()):
            found.setdefault(row["__p0"], []).append({name: row.get(leaf) for name, leaf in plan.outputs})
    assert (released_in >= 0).sum() > 0.5 * len(rows)
    by_partition, at = [], 0
    for letters, _ in partitions:
        by_partition.append((released_in[at : at + len(letters)], searched_in[at : at + len(letters)]))
        at += len(letters)
    return found, by_partition


def seen(row: dict) -> tuple:
    return tuple(row["ids"]), Fraction(row["e"]).limit_denominator(), row["c"], row["o"], row["v"]


def told_by(answer: oracle.Answer, query: oracle.Budgeted, times) -> list[tuple]:
    """What the definition tells of each match."""
    found = []
    for point, matches in sorted(answer.matches.items()):
        about = said(answer, query, times, [point])
        some = [(oracle.proxy(matches).rows, oracle.proxy(matches).error)] if query.proxies else [(rows, error) for (rows, _), error in oracle.distinct(matches).items()]
        found += [(rows, error, *about) for rows, error in some]
    return found


def with_history(rng: random.Random, query: oracle.Budgeted, published: bool) -> tuple:
    """Another history of a clause: (its vectors, points, intervals)."""
    query.intervals = rng.choice([1, 2, 4]) if rng.random() < 0.3 or query.history is None else query.intervals
    query.history = random_history(rng, query) | {(1, Fraction(0), query.intervals, query.intervals - 1): (7, (0,))}
    query.points = None if published else random_points(rng, query)
    return query.history, query.points, query.intervals


def compare(rng: random.Random, queries: int, *, histories: int, published=False, explore=False, refill=False, some_query=random_budgeted) -> Counter:
    """Streams against the definition, whose history may be another one from micro-batch to micro-batch, and be replaced."""
    tally: Counter = Counter()
    for _ in range(queries):
        query = some_query(rng)
        query.explore = explore
        query.refill = rng.choice([1, 1, 2, 3]) if refill else 0
        turns = [with_history(rng, query, published) for _ in range(histories)]
        some = random_partitions(rng, 4, 90 if explore else 120 if refill else 40)
        text = clause(query, "PROXY MATCHES" if query.proxies else "ALL MATCHES", f"MEASURES {REPORTED}")
        if some_query is random_hindered and not does_stream(text):
            continue
        drawn: list[tuple] = []

        def next_history(turns=turns, drawn=drawn):
            drawn.append(rng.choice(turns))
            return as_rows(*drawn[-1][:2])

        got, released = streamed(text, query, some, rng, rng.choice([0, 2, 5]), next_history if histories else None)
        for p, (letters, times) in enumerate(some):
            upto, certain = (int((turn >= 0).sum()) for turn in released[p])
            searched = released[p][1]
            which = {i: drawn[searched[i]] for i in range(certain) if i == 0 or searched[i] != searched[i - 1]} if histories else None
            if which:
                query.history, query.points, query.intervals = which[0]
            answer = query.answer(letters[:upto], times[:upto], turns=which)
            answer.matches = {point: matches for point, matches in answer.matches.items() if point < certain}
            wanted = told_by(answer, query, times)
            have = [seen(row) for row in got.get(p, [])]
            assert len(have) == len(wanted), (text, letters, times)
            for one, other in zip(sorted(have), sorted(wanted), strict=True):
                assert one[:4] == other[:4] and one[4] == pytest.approx(other[4]), (text, letters, times)
            tally["told"] += len(wanted)
            tally["left"] += sum(answer.left.values()) > 0
            tally["covered"] += any(share < 1 for share in answer.coverage.values())
            tally["agents"] += answer.agents
            tally["refills"] += answer.refills
    return tally


def refilled(rng: random.Random, **asked) -> None:
    """Compares queries until some matches were emitted and some histories replaced."""
    tally: Counter = Counter()
    while tally["told"] < 8 or tally["refills"] < 3:
        tally += compare(rng, 1, refill=True, **asked)


def does_stream(text: str) -> bool:
    try:
        check_stream(make_plan(parse_clause(in_time(text))))
    except ClauseError as error:
        assert "under a BUDGET yet" in str(error), error
        return False
    return True


@pytest.mark.parametrize("seed", first(range(48), 0, wider=2))
def test_choices_beside_a_negation(seed):
    """Also one before the first row, which tells runs apart by rows that are gone."""
    tally = compare(random.Random(f"stream beside a negation {seed}"), 3, histories=0, some_query=random_hindered)
    assert tally["told"] > 0


@pytest.mark.parametrize("seed", first(range(16), 0, wider=1))
def test_choices_beside_a_negation_by_histories_that_change(seed):
    """What a negation behind a match says of it counts for the choices at the rows behind."""
    tally = compare(random.Random(f"stream beside a negation, of histories {seed}"), 5, histories=3, some_query=random_hindered)
    assert tally["told"] > 7 and tally["left"] > 2


def test_what_stood_before_the_window_does_not_tell_runs_apart():
    """The first row has left the window when the others come, and a stream keeps no row. A table does not distinguish later runs by
    the first row either, so both leave out as many candidates."""
    two = ("rep", ("var", "A"), 2, 2, True)
    pattern = ("cat", [two, ("neg", "M"), ("alt", [("var", "A"), ("var", "A")]), ("rep", ("var", "A"), 0, None, True), ("var", "B")])
    query = oracle.Budgeted(pattern, {"A": {"b", "c"}, "B": {"c", "d"}, "M": {"a", "b"}}, Fraction(2), {"~M": Fraction(1)}, 3, True, 4, {(6, Fraction(2), 4, 1): (5, (1,))}, 4)
    query.points = {(6, Fraction(2), 4, 1): 15}
    text, letters, times = clause(query, "PROXY MATCHES", f"MEASURES {REPORTED}"), "bbbcz", [5, 10, 12, 12, 1000]
    wanted = sorted(told_by(query.answer(letters, times), query, times))
    assert [one[:4] for one in wanted] == [((1, 2), 2, False, 8), ((1, 2, 3), 1, False, 21)]
    for seed in range(12):
        got, _ = streamed(text, query, [(letters, times)], random.Random(seed), 0, lambda: as_rows(query.history, query.points))
        assert [seen(row)[:4] for row in got[0]] == [one[:4] for one in wanted], seed


@pytest.mark.parametrize("seed", first(range(16), 0, wider=1))
def test_choices_without_history(seed):
    tally = compare(random.Random(f"stream {seed}"), 6, histories=0)
    assert tally["told"] > 35 and tally["left"] > 9


@pytest.mark.parametrize("published", [False, further(True)])
@pytest.mark.parametrize("seed", first(range(48), wider=2))
def test_choices_by_a_history(seed, published):
    rng = random.Random(f"stream of one history {seed} {published}")
    tally = compare(rng, 3, histories=1, published=published)
    while tally["told"] <= 8 or tally["left"] <= 1:  # some queries match few rows
        tally += compare(rng, 1, histories=1, published=published)


@pytest.mark.parametrize("published", [False, further(True)])
@pytest.mark.parametrize("seed", first(range(16), 0, wider=1))
def test_choices_by_histories_that_change(seed, published):
    """Each row is searched under the history of the micro-batch in which it is released."""
    tally = compare(random.Random(f"stream of histories {seed} {published}"), 8, histories=3, published=published)
    assert tally["told"] > 40 and tally["left"] > 10 and tally["covered"] > 2


@pytest.mark.parametrize("published", [False, further(True)])
@pytest.mark.parametrize("seed", first(range(16), wider=1))
def test_choices_with_agents(seed, published):
    tally = compare(random.Random(f"stream of agents {seed} {published}"), 3, histories=1, published=published, explore=True)
    assert tally["told"] > 20 and tally["agents"] > 5


@pytest.mark.parametrize("published", [False, further(True)])
@pytest.mark.parametrize("seed", first(range(16), wider=2))
def test_choices_by_what_a_key_has_recorded(seed, published):
    """REFILL: the copy, and the history that replaced the clause's, go from one micro-batch to the next."""
    refilled(random.Random(f"stream that refills {seed} {published}"), histories=1, published=published)


@pytest.mark.parametrize("published", [False, further(True)])
@pytest.mark.parametrize("seed", first(range(16), wider=1))
def test_choices_by_what_agents_have_recorded(seed, published):
    refilled(random.Random(f"stream of agents that refills {seed} {published}"), histories=1, published=published, explore=True)


@pytest.mark.parametrize("seed", first(range(16), 0, wider=2))
def test_refills_by_time_are_those_of_a_table(seed):
    """REFILL beside BUDGET INTERVAL PER ROW, sometimes with agents."""
    rng, found = random.Random(f"stream that refills by time {seed}"), 0
    for _ in range(4):
        query, interval, row, check = random_budgeted(rng), rng.choice([1, 2, 5]), rng.choice([0, 100, 300]), rng.choice([50, 400, 1500])
        query.limit, query.refill, query.explore = f"INTERVAL '{interval}' MICROSECONDS PER ROW", rng.choice([1, 1, 2]), rng.random() < 0.3
        history, points, _ = with_history(rng, query, rng.random() < 0.4)
        some, known = random_partitions(rng, 3, 120), functools.partial(as_rows, history, points)
        text = clause(query, "PROXY MATCHES" if query.proxies else "ALL MATCHES", f"MEASURES {REPORTED}")
        settings = Settings(prefilter=False, budget_clock=("counted", row, check))
        whole = ran(text, query, some, None, known(), settings=settings)
        got, _ = streamed(text, query, some, rng, rng.choice([0, 2, 5]), known, settings=settings)
        for p, rows in got.items():
            assert not Counter(map(seen, rows)) - Counter(map(seen, whole[p])), text
            found += len(rows)
    assert found > 40


@pytest.mark.parametrize("published", [False, further(True)])
@pytest.mark.parametrize("seed", first(range(16), wider=2))
def test_a_key_keeps_its_own_history_if_the_table_changes(seed, published):
    """A table of other intervals takes its place, and what the key has recorded is forgotten."""
    refilled(random.Random(f"stream that refills, of histories {seed} {published}"), histories=3, published=published)


class Woken:
    """A stream whose keys are called once more before each micro-batch, with no row and under another history."""

    def __init__(self, other: list[dict], stream: KeyedStream) -> None:
        self.stream, self.other = stream, other
        self.history: list[dict] = []
        self.watermark = 0

    def use(self, history: list[dict]) -> None:
        self.history = history

    def advance(self, rows, keys, states, watermark):
        self.stream.use(self.other)
        told, left = drained(self.stream.advance(rows.slice(0, 0), np.zeros(0, dtype=np.int64), states, self.watermark))
        assert not sum(table.num_rows for table in told)
        self.stream.use(self.history)
        self.watermark = watermark
        return self.stream.advance(rows, keys, left.states, watermark)


class Alone:
    """A stream whose keys are called one by one."""

    def __init__(self, stream: KeyedStream) -> None:
        self.stream, self.use = stream, stream.use

    def advance(self, rows, keys, states, watermark):
        left = []
        for k, state in enumerate(states):
            own = rows.filter(pa.array(keys == k))
            left.append((yield from self.stream.advance(own, np.zeros(own.num_rows, dtype=np.int64), [state], watermark)))
        if not left:
            return (yield from self.stream.advance(rows, keys, [], watermark))
        return replace(left[0], column=pa.concat_arrays([one.column for one in left]), due=np.concatenate([one.due for one in left]))


@pytest.mark.parametrize("seed", first(range(8), wider=2))
def test_a_session_that_ends_leaves_other_keys_alone(seed):
    """Counts and recorded features of a key end with its session."""
    rng, found = random.Random(f"sessions {seed}"), 0
    while found < 8:
        query = random_budgeted(rng)
        history, points, _ = with_history(rng, query, False)
        query.refill = rng.randrange(2)
        text = clause(query, "PROXY MATCHES" if query.proxies else "ALL MATCHES", f"MEASURES {REPORTED}")
        some, seed_of_cuts, idle, both = random_partitions(rng, 4, 60), rng.random(), rng.choice([3, 5, 8, 12]), []
        for wrapped in (lambda stream: stream, Alone):
            told, _ = streamed(text, query, some, random.Random(seed_of_cuts), 2, functools.partial(as_rows, history, points), wrapped=wrapped, idle=idle)
            both.append({p: sorted(map(str, rows)) for p, rows in told.items()})
        assert both[0] == both[1], text
        found += sum(map(len, both[0].values()))


@pytest.mark.parametrize("explore", [False, further(True)])
@pytest.mark.parametrize("seed", first(range(12), 0, wider=1))
def test_a_call_without_rows_loses_nothing(seed, explore):
    """Only a row that is searched brings what was counted into the intervals of another history."""
    rng, found, queries = random.Random(f"woken {seed} {explore}"), 0, 0
    while queries < 3 or found <= 36:  # some queries match few rows, so three of them may compare next to nothing
        queries += 1
        assert queries < 20, found
        query = random_budgeted(rng)
        query.explore, query.refill = explore, rng.randrange(3)
        turns = [with_history(rng, query, False) for _ in range(6)]
        (history, points, _), other = turns[0], as_rows(*next((one for one in turns[1:] if one[2] != turns[0][2]), turns[1])[:2])
        some = random_partitions(rng, 4, 60)
        text = clause(query, "PROXY MATCHES" if query.proxies else "ALL MATCHES", f"MEASURES {REPORTED}")
        seed_of_cuts, delay, both = rng.random(), rng.choice([0, 2, 5]), []
        chosen_by = functools.partial(as_rows, history, points)
        for wrapped in (lambda stream: stream, functools.partial(Woken, other)):
            told, _ = streamed(text, query, some, random.Random(seed_of_cuts), delay, chosen_by, wrapped)
            both.append({p: sorted(map(str, rows)) for p, rows in told.items()})
        assert both[0] == both[1], text
        found += sum(map(len, both[0].values()))


# --- a query that goes on with other measures ---------------------------------------------------------------------

LETTERS_OF = "array_agg(id) AS ids, MATCH_ERRORS() AS e"
TOLD_OF = "MISSING() AS m, COMPLETE() AS c, CHECKS_LEFT_OUT() AS o, array_agg(CLASSIFIER()) AS l"


@pytest.mark.parametrize("seeds", [range(2), further(range(2, 4))])
@pytest.mark.parametrize(
    ("report", "before"),
    one_in(3, [
        pytest.param(report, before)
        for report, before in (("PROXY MATCHES", ""), ("PROXY MATCHES PER ERROR", ""), ("ALL MATCHES", ""), ("ALL MATCHES", ", MATCH_NUMBER() AS n"), ("MATCH BUNDLES", ""), ("MATCH BUNDLES", ", MATCH_NUMBER() AS n"))
    ]),
)
def test_measures_may_change(report, before, seeds):
    """What is kept serves measures that nobody asked for before, and matches that waited for their numbers are told without."""
    texts = [f"{HEAD} {LETTERS_OF}{more} PATTERN (A (B | C) D) {WINDOW} APPROX 1 {report} BUDGET 2 CHECKS DEFINE A AS v < 2, B AS v > 2, C AS v > 1, D AS w > 0" for more in (before, f", {TOLD_OF}")]
    plans = [planned(text) for text in texts]
    for seed in seeds:
        rng = random.Random(f"{report} {before} {seed}")
        some = rows_of(rng, 5, 40)
        some[9] = [{"id": 10_000, "v": 9, "w": 0, "s": None}]  # the watermark is far behind the others then
        table = timed(plans[0], some)
        both = [streams.stream_over(plan, table) for plan in plans]
        turn = iter([0] * rng.randint(0, 5) + [1] * 10_000)
        turns: list[int] = []

        def next_stream(both=both, turn=turn, turns=turns):
            turns.append(next(turn))
            return both[turns[-1]]

        told, rows = [Counter(), Counter()], []
        for _, released, tables in micro_batches(plans[0], table, rng, rng.choice([0, 2, 5]), next_stream=next_stream):
            told[turns[-1]].update(str(row) for part in tables for row in part.to_pylist())
            rows = released
        whole = [Counter(map(str, streams.batch(plan, table, np.ones(table.num_rows, dtype=bool)).to_pylist())) for plan in plans]
        assert not told[0] - whole[0] and not told[1] - whole[1], texts
        assert told[0].total() + told[1].total() == streams.batch(plans[0], table, rows).num_rows, texts


# --- states that are none -----------------------------------------------------------------------------------------


REFILLED = f"{HEAD} {ENDS} PATTERN (A B C) WINDOW INTERVAL '2' MICROSECONDS APPROX 1 BUDGET 3 CHECKS USING HISTORY h REFILL 1 BUNDLES DEFINE A AS v < 2, B AS v > 2, C AS v < 2"


def state_of(text: str) -> tuple[KeyedStream, bytes]:
    """A stream, and the state of a key of which much is kept."""
    plan = planned(text)
    values = [0, 3, 1, 4, 0, 3, 1, 3] * (3 if plan.approximate.budget.history else 1)
    table = timed(replace(plan, inputs=tuple(one for one in plan.inputs if one[0] != HISTORY_COLUMN)), {0: [{"id": 1 + i // 2 + 10 * (i // 8), "v": v, "w": v % 3, "s": None} for i, v in enumerate(values)]})
    stream = streams.stream_over(plan, table)
    if plan.approximate.budget.history:
        stream.use([])
    _, left = drained(stream.advance(table, np.zeros(table.num_rows, dtype=np.int64), [b""], 4 + 14 * (len(values) // 8 - 1)))
    return stream, left.states[0]


def test_a_state_of_another_pattern_is_none():
    stream, state = state_of(STATEMENTS[0])
    other, _ = state_of(STATEMENTS[0].replace("(A B C)", "(A B? C)"))
    nothing = pa.table({name: pa.array([], field.type) for name, field in zip(stream.schema.names, stream.schema)})
    drained(stream.advance(nothing, np.zeros(0, dtype=np.int64), [state], 5))
    with pytest.raises(MatchRuntimeError, match="another pattern"):
        drained(other.advance(nothing, np.zeros(0, dtype=np.int64), [state], 5))


@pytest.mark.parametrize("begin", [0, further(3)])
@pytest.mark.parametrize("text", [STATEMENTS[3], STATEMENTS[6], REFILLED])
def test_a_damaged_state_is_an_error_or_read(text, begin):
    """Whatever byte is another one: numbers that point outside of what is there are told, and nothing is read or written there."""
    stream, state = state_of(text)
    nothing = pa.table({name: pa.array([], field.type) for name, field in zip(stream.schema.names, stream.schema)})
    refused = 0
    for at in range(begin, len(state), 6):
        damaged = state[:at] + bytes([state[at] ^ 0x55]) + state[at + 1 :]
        try:
            drained(stream.advance(nothing, np.zeros(0, dtype=np.int64), [damaged], 5))
        except MatchRuntimeError as error:
            assert error.error_class == "SPARKCEP.STATE_FORMAT", error
            refused += 1
    assert refused > 0.2 * len(state) / 6
