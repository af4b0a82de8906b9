"""EXPLAIN says what the engine does: the memo, the way proxies and numbers are found, and the work that is done for them."""

from __future__ import annotations

import collections
import contextlib
import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.searches import (
    ADJACENT,
    BUDGETED,
    CLASSES,
    COMPUTATIONS,
    CONJUNCTION,
    COUNTED,
    FRONT,
    NUMBERS,
    PATHS,
    PROXIES,
    SEARCHES,
    SEQUENCES,
    SIDES,
    STREAMS,
    WALK,
)
from sparkcep.compiler.strategy import strategy_of
from sparkcep.engine.factory import engine_for, match_batches, prepare
from sparkcep.engine.match.backtrack import Backtracking
from sparkcep.engine.match.unfinished import RunSearch
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.kernels.common import layout
from sparkcep.kernels.match import reachability
from sparkcep.plan.build import make_plan
from sparkcep.plan.extend.budget import HISTORY_COLUMN
from sparkcep.plan.plan import LETTERS, Plan
from sparkcep.plan.records import walk
from sparkcep.sql.explain.describe import describe
from sparkcep.sql.rewrite.rewrite import rewrite_all
from tests.selection import first
from tests.spark.exec.planning_statements import groups

CONDITIONS = [
    "B AS v > 1",
    "B AS v > PREV(v)",
    "B AS v > A.v",
    "B AS v > avg(A.v) AND v > 0",
    "A AS count(DISTINCT A.v) < 3, B AS v > 1",
    "B AS PREV(CLASSIFIER()) = 'A'",
    "B AS PREV(CLASSIFIER(A)) IS NULL",
    "B AS v > A.v AND MATCH_NUMBER() < 3",
    "B AS CLASSIFIER() = 'B' AND v > A.v",
    "B AS v > PRIOR(max(B.v)) AND v > 1",
]
EXACT = ["PATTERN (A B)", "PATTERN (A+ B)", "PATTERN ((A | B)* B)"]
SELECTED = [
    "EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A+ B)",
    "EVENT SELECTION SKIP TILL ANY MATCH FIRST MATCH PATTERN (A+ B)",
    "EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A ~C B) WINDOW 5",
    "PATTERN (A+ B) WINDOW 5",
]


def engine_and_text(clause: str, measure: str = "FIRST(t)"):
    plan = make_plan(parse_clause(f"ORDER BY t MEASURES {measure} AS f {clause}"))
    schema = pa.schema([(name, pa.int8() if name == LETTERS else pa.int64()) for name in (*(n for n, _ in plan.inputs), *([LETTERS] if plan.letters else []))])
    return engine_for(prepare(plan, schema)), " ".join(describe(plan).split())


@pytest.mark.parametrize("define", CONDITIONS)
@pytest.mark.parametrize("pattern", EXACT)
def test_whether_failed_states_are_remembered(pattern, define):
    engine, text = engine_and_text(f"{pattern} DEFINE {define}")
    assert ("failed states are remembered" in text) == (engine.prepared.memo != layout.NO_MEMO)


@pytest.mark.parametrize("measure", ["sum(v)", "PREV(CLASSIFIER())"])
@pytest.mark.parametrize("skip", ["PAST LAST ROW", "TO NEXT ROW", "TO LAST B"])
def test_whether_matches_share_their_ends(skip, measure):
    engine, text = engine_and_text(f"AFTER MATCH SKIP {skip} PATTERN (A+ B) DEFINE B AS v > 1", measure)
    shares = Backtracking(engine.task).shares
    assert shares == (skip != "PAST LAST ROW" and measure == "sum(v)") == ("share their ends" in text)
    assert ("cost of sum(v) (line 1, column 21) over FLOAT or DOUBLE" in text) == shares


@pytest.mark.parametrize("define", CONDITIONS)
@pytest.mark.parametrize("pattern", SELECTED)
def test_whether_failed_runs_are_remembered(pattern, define):
    engine, text = engine_and_text(f"{pattern} DEFINE {define}{', C AS v = 2' if '~C' in pattern else ''}")
    assert ("failed runs are remembered" in text) == (engine.pipeline.operator.search.search.remembers and engine.pipeline.operator.search.search.fails)


@pytest.mark.parametrize("define", CONDITIONS)
@pytest.mark.parametrize("pattern", ["PATTERN (A B+ C) WINDOW 5 APPROX 1", "PATTERN (A B+ C) WINDOW 5 APPROX 1 MATCH BUNDLES", "EVENT SELECTION STRICT CONTIGUITY PATTERN (A B+ C) WINDOW 5 APPROX 1"])
def test_how_proxies_are_found(pattern, define):
    engine, text = engine_and_text(f"{pattern} DEFINE {define}")
    assert ("one run for each node," in text) == (engine.prepared.strategy.search == PROXIES)
    assert ("one run for each node and" in text) == (engine.prepared.strategy.search == CLASSES)


@pytest.mark.parametrize("define", CONDITIONS)
@pytest.mark.parametrize("pattern", ["PATTERN (A B+)", "PATTERN (A B+ A* A*)"])
def test_how_matches_are_counted(pattern, define):
    engine, text = engine_and_text(f"EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES {pattern} DEFINE {define}", "MATCH_COUNT()")
    search = engine.prepared.strategy.search
    assert ("dynamic programming" in text) == (search == NUMBERS)
    assert ("in parallel" in text) == (search == FRONT)
    assert ("listed one by one" in text) == (search == WALK)


@pytest.mark.parametrize(
    ("clause", "asked"),
    [
        ("MATCH_COUNT() AS n EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B) WINDOW 5", False),
        ("MATCH_SCORE() AS n EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) WINDOW 5 PREF MAX (A.v + B.v) TOP 2", False),
        ("count(*) AS n PATTERN (A B C) WINDOW 5 APPROX 1 DEFINE B AS v > A.v", False),
        ("count(*) AS n EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) WINDOW 5", True),
        ("MATCH_COUNT() AS n EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B) WINDOW 5 DEFINE B AS v > A.v", True),
    ],
)
def test_where_branches_end_is_told_only_to_those_who_ask(clause, asked, monkeypatch):
    calls = []
    whole = reachability.completion_ends
    monkeypatch.setattr(reachability, "completion_ends", lambda *given: (calls.append(1), whole(*given)))
    plan = make_plan(parse_clause(f"ORDER BY t MEASURES {clause}"))
    table = pa.table({name: pa.array(range(9)) for name, _ in plan.inputs})
    assert sum(out.num_rows for out in match_batches(engine_for(prepare(plan, table.schema)), table.to_batches())) > 0
    assert bool(calls) == asked

# -- the whole corpus: what EXPLAIN says, and which search ran ----------------------------------------------------------

SAID = {
    "row by row, all runs in parallel": BUDGETED,
    # joins come first, because the description of a join also has the search that lists all matches instead
    "rank join of the best matches of the sides": SIDES,
    "rank join of the rows of each variable": SEQUENCES,
    "rank join of the sequences": STREAMS,
    "the sides of & in parallel": CONJUNCTION,
    "with one run for each node, ": PROXIES,
    "with one run for each node and ": CLASSES,
    "k best paths over (node, row)": PATHS,
    "dynamic programming": NUMBERS,
    "runs in parallel over a shared buffer": FRONT,
    "engine: automaton": COMPUTATIONS,
    "engine: exact, depth-first": ADJACENT,
    "depth-first": WALK,
}
TYPES = (pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.timestamp("us"), pa.date32(), pa.decimal128(12, 2))
ROWS = 8


def plans(part: int) -> dict[str, tuple[str, Plan]]:
    """JSON -> (name of a statement, plan) of each clause of one half of the corpus."""
    found: dict[str, tuple[str, Plan]] = {}
    for group in groups():
        for statement in (one for one in group.written if one.number % 2 == part):
            with contextlib.suppress(ClauseError):
                for item in rewrite_all(statement.text)[1]:
                    found.setdefault(item.plan.to_json(), (statement.name, item.plan))
    return found


def paired(tree: tuple) -> Iterator[tuple[str, str, int]]:
    """(array column, column of row numbers, how many rows are chosen) of what a condition computes for every choice of rows."""
    if tree[:1] == ("pair",):
        yield tree[1], tree[2], len(tree[3])
    for part in tree:
        if isinstance(part, tuple):
            yield from paired(part)


def marks(plan: Plan) -> set[str]:
    """The columns that say on which rows an expression failed."""
    arcs = plan.automaton.arcs if plan.automaton is not None else ()
    trees = [tree for condition in plan.conditions for tree in condition.trees]
    trees += [tree for arc in arcs for tree in (*arc.fence, *(item.tree for item in arc.sets), *arc.emits)]
    return {leaf.column for tree in trees for part in walk(tree) if part[0] == "checked" for leaf in walk(part.failed)}


def values(kind: pa.DataType, count: int = 2 * ROWS) -> pa.Array:
    numbers = pa.array([row * 7 % 5 + 1 for row in range(count)])
    if pa.types.is_boolean(kind):
        return pa.array([True] * count)
    return (numbers.cast(pa.int32()) if pa.types.is_date(kind) or pa.types.is_decimal(kind) else numbers).cast(kind)


def tables(plan: Plan, rng: random.Random) -> Iterator[pa.Table]:
    """Two partitions in the plan's input columns, of types that they might have."""
    arrays = [pair for _, conjuncts in plan.conditions for tree in conjuncts for pair in paired(tree)]
    keys, order = {column for _, column, _ in plan.partition}, {column: down for _, column, down, *_ in plan.order}
    names = [column for column, _ in (*plan.inputs, *plan.ordered_inputs)]
    rows = ROWS if keys else 2 * ROWS  # of a partition
    for attempt in range(400):
        kinds = {name: rng.choice(TYPES) if attempt >= len(TYPES) else TYPES[attempt] for name in names}
        columns = {name: values(kind) for name, kind in kinds.items()}
        for array, number, chosen in arrays:
            count = (rows + 1) ** chosen  # one more choice: no row
            columns[array] = pa.array([values(kinds[array], count).to_pylist()] * 2 * ROWS, pa.list_(kinds[array]))
            columns[number] = pa.array([row % rows + 1 for row in range(2 * ROWS)])
        for name, down in order.items():
            sorted_ = pa.array([ROWS - row % ROWS if down else row % ROWS for row in range(2 * ROWS)])
            columns[name] = sorted_.cast(kinds[name]) if kinds[name] in (pa.float64(), pa.timestamp("us")) else sorted_
        columns |= {name: pa.array([row // ROWS for row in range(2 * ROWS)]) for name in keys}
        for name in marks(plan) & columns.keys():
            listed = pa.types.is_list(columns[name].type)
            columns[name] = pa.array([[None] * len(columns[name][0])] * 2 * ROWS, pa.list_(pa.bool_())) if listed else pa.nulls(2 * ROWS, pa.bool_())
        if plan.changes:
            columns |= {name: pa.array([row % ROWS + 1 for row in range(2 * ROWS)]) for name in (plan.changes.same, plan.changes.arrival) if name}
            columns[plan.changes.column] = pa.array(["insert"] * 2 * ROWS)
        if plan.letters:
            columns[LETTERS] = pa.array([sum(1 << bit for _, bit, _ in plan.letters)] * 2 * ROWS)
        if HISTORY_COLUMN in columns:
            columns[HISTORY_COLUMN] = pa.nulls(2 * ROWS)
        yield pa.table(columns or {"x": values(pa.int64())})


ALL = 10_000


@pytest.mark.parametrize(("part", "most"), first([pytest.param(1, 8), pytest.param(1, ALL), pytest.param(0, ALL)], 0, wider=1))  # the first part has clauses of every search
def test_what_is_said_is_what_runs(part, most):
    """Plans go the way that they go to the engine: as JSON, without the texts that Spark computes."""
    rng, said, ran, untyped = random.Random(1), collections.Counter(), collections.Counter(), []
    for name, plan in plans(part).values():
        if plan.arcs is not None:
            continue  # rows of ARCS FROM have columns of their own
        text, cost, *_ = describe(plan).splitlines()
        assert cost == f"cost of the search: {strategy_of(plan).cost}" and strategy_of(plan).cost, name
        search = next(search for words, search in SAID.items() if words in text)
        if said[search] >= most:
            continue
        shipped = Plan.from_json(plan.without_sql().to_json())
        for table in tables(shipped, rng):
            try:
                prepared = prepare(shipped, table.schema)
            except (ClauseError, KeyError):
                continue  # other types
            engine = engine_for(prepared)
            with contextlib.suppress(MatchRuntimeError):
                collections.deque(match_batches(engine, table.to_batches()), maxlen=0)
            strategy = prepared.strategy
            assert engine.task.ran, name
            farthest = {RunSearch.name} if shipped.unfinished else set()  # found beside the matches
            assert engine.task.ran <= {search, strategy.instead, *strategy.counts} | farthest, (name, text)
            said[search] += 1
            ran[search] += search in engine.task.ran and strategy.instead not in engine.task.ran
            break
        else:
            untyped.append(name)
    assert said.total() > (400 if most == ALL else 5 * len(SEARCHES))
    assert len(untyped) < (0.03 if most == ALL else 0.1) * said.total(), untyped
    assert part == 0 or set(said) == set(SEARCHES)
    for search in SEARCHES if part == 1 else ():
        assert ran[search] > 0, (search, said)  # by itself, with nothing listed instead


def test_reasons_have_places():
    text = """ORDER BY t MEASURES MATCH_COUNT() AS n EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES
        PATTERN (A ~C B+) DEFINE A AS v > 1, B AS count(DISTINCT B.v) < 3,
        C AS v = 2"""
    strategy = strategy_of(make_plan(parse_clause(text)))
    lines = text.splitlines()
    assert (strategy.search, strategy.question) == (WALK, COUNTED)
    assert [reason.text.split()[0] for reason in strategy.reasons] == ["a", "B"]
    for reason in strategy.reasons:
        assert lines[reason.line - 1][reason.column - 1 :].startswith(reason.fragment)
        assert reason.fragment.startswith(("A ~C", "count("))


@pytest.mark.parametrize("window", ["", "WINDOW 5", "WINDOW INTERVAL '5' MINUTES"])
def test_how_approximate_matches_are_ordered(window):
    """The SQL of a duration is long."""
    clause = f"ORDER BY t MEASURES MATCH_SCORE() AS s PATTERN (A B) {window} APPROX 1 TOP 3 DEFINE A AS v > 1"
    order = next(line for line in describe(make_plan(parse_clause(clause))).splitlines() if line.startswith("  order: "))
    assert order.startswith("  order: __g0, shortest duration, __l") and len(order) < 60
