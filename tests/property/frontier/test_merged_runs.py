"""Merged runs against the oracle: numbers and graphs of matches, with merging on and off; graphs of more matches than can be
listed."""

from __future__ import annotations

import collections
import itertools
import math
import operator
import random
import re

import numpy as np
import pyarrow as pa
import pytest

from sparkcep import explain
from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.searches import FRONT, NUMBERS
from sparkcep.draw import match_graph as graphs
from sparkcep.engine.core.effort import Limits
from sparkcep.engine.factory import engine_for, match_batches, prepare
from sparkcep.engine.frontier import frontier
from sparkcep.errors import MatchRuntimeError
from sparkcep.kernels.frontier import run_classes
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import LETTERS
from tests.oracle import measures, selection
from tests.property.in_process import inputs, run
from tests.selection import first, further
from tests.support.caught import without_catching

MEASURES = "MEASURES LAST(id) AS last, MATCH_COUNT() AS n, MATCH_GRAPH() AS g"
COUNTED = "MEASURES LAST(id) AS last, MATCH_COUNT() AS n"


def results(text: str, partitions: dict, merging: bool, chunk_rows: int | None):
    """({partition: {last id: (number, graph)}}, whether the engine merged runs)."""
    plan = without_catching(make_plan(parse_clause(text)))
    table = inputs(plan, partitions)
    engine = engine_for(prepare(plan, table.schema), chunk_rows, Limits(merging=merging))
    found: dict = {}
    names = [name for name, _ in plan.leaves]
    for out in match_batches(engine, table.to_batches(max_chunksize=chunk_rows)):
        keys = out.column("__p0").to_pylist() if "__p0" in out.column_names else [0] * len(out)
        for p, last, n, *g in zip(keys, *(out.column(name).to_pylist() for name in names)):
            found.setdefault(p, {})[last] = (int(n), [tuple(node.values()) for node in g[0]] if g else None)
    return found, engine.prepared.strategy.search in (FRONT, NUMBERS)


def expected_of(query, rows) -> dict:
    """{last id: its matches}."""
    found = collections.defaultdict(collections.Counter)
    for match in query.matches(rows):
        found[rows[match[-1][0]]["id"]][tuple(match)] += 1
    return dict(found)


def check(graph: list, matches: collections.Counter, number: int) -> None:
    assert number == matches.total() == graphs.count_matches(graph)
    assert collections.Counter(map(tuple, graphs.expand_matches(graph, None))) == matches
    for _, _, begin, until, _ in graph:
        assert (begin is None) == (until is None) and (begin is None or 0 <= begin < until <= len(graph))


@pytest.mark.parametrize("kinds", [selection.KINDS, further(("row", "wider", "wider"))], ids="-".join)
@pytest.mark.parametrize("seed", first(range(32), wider=2))
def test_counts_and_graphs_agree_with_the_oracle(seed, kinds):
    rng = random.Random(seed)
    compared = eligible = 0
    sizes = collections.Counter()  # nodes of all graphs, by merging
    strategies = itertools.cycle([selection.STRICT, selection.NEXT, selection.NEXT, selection.ANY, selection.ANY])
    for _ in range(13):
        query = selection.random_query(rng, strategy=next(strategies), report="all", shapes=("plain",), kinds=kinds)
        query.mode, query.skip = measures.ONE_ROW, None
        counting = rng.random() < 0.3
        text = re.sub(r"MEASURES .*", COUNTED if counting else MEASURES, query.to_sql())
        partitions = {p: selection.random_rows(rng, rng.randrange(1, 11)) for p in range(10)}
        try:
            expected = {p: expected_of(query, rows) for p, rows in partitions.items()}
        except selection.Budget:
            continue
        for merging in (True, False):
            got, merges = results(text, partitions, merging, rng.choice([None, None, 1, 3]))
            eligible += merges
            for p in partitions:
                found = got.get(p, {})
                assert found.keys() == expected[p].keys(), (text, partitions[p])
                for last, (number, graph) in found.items():
                    if counting:
                        assert number == expected[p][last].total(), (text, partitions[p])
                    else:
                        check(graph, expected[p][last], number)
                        sizes[merging] += len(graph)
                compared += 1
    assert compared > 200
    assert eligible > 13 * 2 * (0.4 if kinds == selection.KINDS else 0.25)
    assert sizes[True] < sizes[False] + (kinds != selection.KINDS)  # wider conditions keep most runs apart


def engine_over(clause: str, columns: dict, letters: dict | None = None, **limits):
    """The engine and the batches for a clause over arrays; ``letters``: variable to a boolean array."""
    plan = without_catching(make_plan(parse_clause(clause)))
    wanted = {name: pa.array(columns[sql]) for name, sql in plan.inputs}
    if plan.letters:
        wanted[LETTERS] = pa.array(sum(letters[plan.variables[v]].astype(np.int64) << bit for v, bit, _ in plan.letters))
    table = pa.table(wanted)
    return engine_for(prepare(plan, table.schema), limits=Limits(**limits)), table.to_batches()


@pytest.mark.further
def test_a_graph_of_ten_to_the_twelve_matches():
    rows = 60_000
    x = np.random.default_rng(5).choice(list("ABC"), rows)
    x[-1] = "D"
    clause = """ORDER BY ts MEASURES LAST(ts) AS last, MATCH_COUNT() AS n, MATCH_GRAPH() AS g EVENT SELECTION SKIP TILL ANY MATCH
        PATTERN (A B C D) DEFINE A AS x = 'A', B AS x = 'B', C AS x = 'C', D AS x = 'D'"""
    engine, batches = engine_over(clause, {"ts": np.arange(rows)}, {v: x == v for v in "ABCD"})
    (out,) = match_batches(engine, batches)
    into = np.cumsum(np.where(x == "B", np.cumsum(x == "A"), 0))
    number = int(into[x == "C"].sum())
    assert int(out.column(1)[0].as_py()) == number > 10**12
    graph = [tuple(node.values()) for node in out.column(2)[0].as_py()]
    assert len(graph) <= rows and graphs.count_matches(graph) == number
    for match in graphs.sample_matches(graph, 50, 1):
        assert "".join(v for _, v in match) == "".join(x[at] for at, _ in match) == "ABCD"
        assert sorted(at for at, _ in match) == [at for at, _ in match]
    assert len(graphs.expand_matches(graph, 7)) == 7


@pytest.mark.parametrize("window", ["", "WINDOW 60 ROWS"])
def test_more_matches_than_64_bits_hold_where_conditions_look_at_the_match(window):
    """A+ of ascending values: plain dynamic programming over pairs of rows tells the number."""
    rng = np.random.default_rng(2)
    v = np.arange(400) // 2 + rng.integers(0, 6, 400)
    clause = f"""ORDER BY ts MEASURES LAST(ts) AS last, MATCH_COUNT() AS n EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A+) {window}
        DEFINE A AS v > PRIOR(v)"""
    if not window:
        v = v[:150]
    engine, batches = engine_over(clause, {"ts": np.arange(len(v)), "v": v})
    assert engine.prepared.strategy.search == FRONT
    found = {}
    for out in match_batches(engine, batches):
        found.update(zip(out.column(0).to_pylist(), map(int, out.column(1).to_pylist())))
    reach = 60 if window else len(v)
    expected = {}
    for last in range(len(v)):
        begin = max(0, last - reach + 1)
        into = {}
        for at in range(begin, last + 1):
            into[at] = 1 + sum(into[i] for i in range(begin, at) if v[i] < v[at])
        expected[last] = into[last]
    assert found == expected
    assert window or max(expected.values()) > 2**64


def test_a_number_beyond_decimals_is_an_error():
    clause = """ORDER BY ts MEASURES LAST(ts) AS last, MATCH_COUNT() AS n EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A+)
        DEFINE A AS v > PRIOR(v)"""
    engine, batches = engine_over(clause, {"ts": np.arange(200), "v": np.arange(200)})
    with pytest.raises(MatchRuntimeError, match="COUNT_RANGE"):
        list(match_batches(engine, batches))


SUMS = """ORDER BY ts MEASURES LAST(ts) AS last, {measure} AS m EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B+ C)
    DEFINE B AS sum(B.v) < 900, C AS sum(B.v) = 800"""


@pytest.mark.further
def test_without_room_for_classes_matches_are_listed_or_refused():
    columns = {"ts": np.arange(40), "v": 97 + np.arange(40) ** 2 % 31}
    rows = []
    for bound in (1 << 30, 1 << 17):
        engine, batches = engine_over(SUMS.format(measure="MATCH_COUNT()"), columns, max_state_bytes=bound)
        rows.append([out.to_pydict() for out in match_batches(engine, batches)])
    assert rows[0] == rows[1] and rows[0]
    engine, batches = engine_over(SUMS.format(measure="MATCH_GRAPH()"), columns, max_state_bytes=1 << 17)
    with pytest.raises(MatchRuntimeError, match="STATE_LIMIT"):
        list(match_batches(engine, batches))


@pytest.mark.parametrize("strategy", first(["SKIP TILL ANY MATCH", "STRICT CONTIGUITY", "SKIP TILL NEXT MATCH"], wider=3))
def test_small_buffers_change_nothing(strategy, monkeypatch):
    """Growing, dropping what left the window and output in pieces."""
    rng = np.random.default_rng(1)
    columns = {"ts": np.arange(3000), "v": rng.integers(0, 9, 3000)}
    clause = f"""ORDER BY ts MEASURES LAST(ts) AS last, MATCH_COUNT() AS n, MATCH_GRAPH() AS g EVENT SELECTION {strategy} ALL MATCHES
        PATTERN (A B* C) WINDOW 12 ROWS DEFINE B AS v > PRIOR(MIN(S.v)), C AS v > A.v SUBSET S = (A, B)"""
    clause = clause.replace(" SUBSET S = (A, B)", "").replace("DEFINE", "SUBSET S = (A, B) DEFINE")
    found = []
    for sizes in ({}, {"CLASSES": 1, "NODES": 1, "OUTPUT_ROWS": 3, "OUTPUT_ITEMS": 1}):
        for name, size in sizes.items():
            monkeypatch.setattr(frontier, name, size)
        engine, batches = engine_over(clause, columns)
        assert engine.prepared.strategy.search == FRONT
        found.append(pa.concat_tables(match_batches(engine, batches)).combine_chunks())
    assert found[0].equals(found[1]) and found[0].num_rows > 500


def test_samples_are_uniform():
    graph = [(0, "A", None, None, False), (1, "A", None, None, False), (1, "B", 0, 1, False), (2, "B", 0, 3, True), (2, "A", None, None, True)]
    every = collections.Counter(map(tuple, graphs.expand_matches(graph, None)))
    assert every.total() == len(every) == graphs.count_matches(graph) == 4
    drawn = collections.Counter(map(tuple, graphs.sample_matches(graph, 8000, 7)))
    assert drawn.keys() == every.keys() and all(1850 < n < 2150 for n in drawn.values())
    assert graphs.sample_matches(graph, 5, 3) == graphs.sample_matches(graph, 5, 3)
    assert graphs.sample_matches([], 5, 3) == graphs.expand_matches([], None) == []


def test_classes_taken_out_of_a_crowded_table_hide_no_others():
    rng = random.Random(4)
    info, table = np.zeros((16, 4), dtype=np.int64), np.zeros(32, dtype=np.int64)
    info[:, run_classes.I_HASH] = rng.choices([0, 1, 2, 29, 30, 31], k=16)
    standing = set()
    for _ in range(2000):
        place = rng.randrange(16)
        if place in standing:
            standing.remove(place)
            run_classes.remove(place, info, table)
        else:
            standing.add(place)
            at = info[place, run_classes.I_HASH] & 31
            while table[at] != 0:
                at = (at + 1) & 31
            table[at] = place + 1
        for place in standing:
            at = info[place, run_classes.I_HASH] & 31
            while table[at] != place + 1:
                assert table[at] != 0
                at = (at + 1) & 31
        assert np.count_nonzero(table) == len(standing)


@pytest.mark.parametrize(
    ("selected", "condition", "said"),
    [
        ("MATCH_GRAPH() AS m EVENT SELECTION SKIP TILL ANY MATCH", "p > PRIOR(p)", "in parallel"),
        ("MATCH_COUNT() AS m EVENT SELECTION SKIP TILL ANY MATCH", "p > PRIOR(p)", "in parallel"),
        ("MATCH_COUNT() AS m EVENT SELECTION SKIP TILL NEXT MATCH ALL MATCHES", "p > PRIOR(p)", "in parallel"),
        ("MATCH_COUNT() AS m EVENT SELECTION SKIP TILL ANY MATCH", "p > 1", "dynamic programming"),
        ("MATCH_GRAPH() AS m EVENT SELECTION SKIP TILL ANY MATCH", "count(DISTINCT p) < 3", "listed one by one"),
    ],
)
def test_explain_says_how(selected, condition, said):
    text = explain(f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY i MEASURES {selected} PATTERN (A+) DEFINE A AS {condition})")
    assert said in text and selected.partition(" ")[0] in text


@pytest.mark.parametrize("constant", ["1e-3", "abs(-2)"])
def test_a_constant_inside_prior_keeps_no_runs_apart(constant):
    rows = {0: [{"id": i, "v": 10 * (i % 5), "w": 0, "s": ""} for i in range(12)]}
    queries = [
        f"""ORDER BY id {COUNTED} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B+) DEFINE B AS v > {bound}"""
        for bound in (f"PRIOR(MAX(B.v) + {constant})", f"PRIOR(MAX(B.v)) + {constant}")
    ]
    inside, outside = (results(query, rows, True, None) for query in queries)
    assert inside == outside and inside[1]
    assert inside[0] == results(queries[0], rows, False, None)[0]


@pytest.mark.parametrize("compare", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_count_compared_with_constants_is_kept_as_far_as_it_matters(compare, swapped):
    """B has as many ways to end `A+ B` as there are sets of rows before it of a size that fits."""
    holds = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}[compare]
    rows = {0: [{"id": i, "v": 0, "w": 0, "s": ""} for i in range(9)]}
    for constant in (0, 1, 2, 5, 40):
        for more, other in ((False, ""), (True, f" AND count(A.*) < {constant + 3}")):
            one, two = ("count(A.*)", str(constant))[:: -1 if swapped else 1]
            query = f"""PARTITION BY p ORDER BY id {COUNTED} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A+ B) DEFINE B AS {one} {compare} {two}{other}"""
            found = run(query, rows).get(0, [])
            wanted = {}
            for i in range(9):
                sizes = [n for n in range(1, i + 1) if (holds(constant, n) if swapped else holds(n, constant)) and (not more or n < constant + 3)]
                if number := sum(math.comb(i, n) for n in sizes):
                    wanted[i] = number
            assert {row["last"]: int(row["n"]) for row in found} == wanted, (query, found)
