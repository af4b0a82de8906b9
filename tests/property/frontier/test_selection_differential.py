"""Event selection against its oracle: random queries over random partitions, matches compared as multisets of rows."""

from __future__ import annotations

import functools
import random
from dataclasses import replace

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.engine.core import task
from sparkcep.engine.match import enumeration
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.plan.build import make_plan
from sparkcep.settings import DEFAULT
from tests.oracle import measures, pattern, selection
from tests.property.in_process import run
from tests.selection import first

SEEDS = first(range(24), wider=2)
QUERIES = 16  # a seed
PARTITIONS = 30  # a query


def wanted(query, rows):
    """The oracle's output rows as `run` gives the engine's."""
    return [values if at is None else {**values, "id": rows[at]["id"]} for at, values in query.output(rows)]


def comparable(query, rows):
    """ALL MATCHES without a conjunction in any order: an ambiguous pattern may be numbered otherwise."""
    if query.report == "all" and not pattern.contains(query.pattern, ("and",)):
        rows = [{k: v for k, v in row.items() if k != "m_no"} for row in rows]
    return sorted(rows, key=lambda row: sorted((k, str(v)) for k, v in row.items()))


def problem(query, rows, chunk_rows=None, settings=DEFAULT):
    """None, or how the engine's answer for one partition differs."""
    try:
        expected = wanted(query, rows)
    except selection.SkipTargetError:
        with pytest.raises(MatchRuntimeError):
            run(query.to_sql(), {0: rows}, chunk_rows, settings)
        return None
    got = run(query.to_sql(), {0: rows}, chunk_rows, settings).get(0, [])
    if comparable(query, got) == comparable(query, expected):
        return None
    return f"{query.to_sql()}\nrows {rows}\noracle {expected}\nengine {got}"


class Tally:
    def __init__(self):
        self.pairs = self.matched = 0

    def compare(self, query, partitions, chunk_rows=None, choices=(DEFAULT,)):
        """``choices``: the settings with each of which the engine must agree with the oracle."""
        expected, failing = {}, []
        for p, rows in enumerate(partitions):
            try:
                expected[p] = wanted(query, rows)
            except selection.Budget:
                continue
            except selection.SkipTargetError:
                failing.append(rows)
                continue
            self.pairs += 1
            self.matched += any(row["m_count"] for row in expected[p])
        for settings in choices if expected else ():
            got = run(query.to_sql(), {p: partitions[p] for p in expected}, chunk_rows, settings)
            for p, answer in expected.items():
                if comparable(query, got.get(p, [])) != comparable(query, answer):
                    found = problem(query, partitions[p], chunk_rows, settings)
                    pytest.fail(found or f"{query.to_sql()}\nwrong only beside other partitions")
        for rows in failing[:1]:
            self.pairs += 1
            with pytest.raises(MatchRuntimeError):
                run(query.to_sql(), {0: rows}, chunk_rows)


def partitions(rng, count=PARTITIONS, longest=8):
    return [selection.random_rows(rng, rng.randrange(1, longest)) for _ in range(count)]


@pytest.mark.parametrize("seed", SEEDS)
def test_engine_agrees_with_the_oracle(seed):
    rng = random.Random(1000 + seed)
    tally = Tally()
    for _ in range(2 * QUERIES):
        tally.compare(selection.random_query(rng, shapes=("plain", "plain", "negation")), partitions(rng))
    assert tally.pairs >= 1.5 * QUERIES * PARTITIONS
    assert tally.matched >= 0.15 * tally.pairs


@pytest.mark.parametrize("seed", SEEDS)
def test_strings_and_choices_of_values(seed):
    """Conditions over strings of several rows, and with CASE, IN, BETWEEN, <=>, LEAST, GREATEST, ABS and BOOLEAN aggregates."""
    rng, tally = random.Random(18_018 + seed), Tally()
    for _ in range(QUERIES // 2):
        query = selection.random_query(rng, shapes=("plain", "plain", "negation", "group", "conjunction"), budget=20_000, kinds=("row", "wider", "wider"))
        try:
            tally.compare(query, partitions(rng, 10), rng.choice([None, None, 1, 3]))
        except ClauseError as error:
            assert error.error_class == "SPARKCEP.PATTERN_TOO_COMPLEX", query.to_sql()
    assert tally.pairs >= 0.3 * QUERIES * 10
    assert tally.matched >= 0.05 * tally.pairs


@pytest.mark.parametrize("seed", SEEDS)
def test_a_variable_stands_plainly_and_negated(seed):
    rng, tally = random.Random(14_004 + seed), Tally()
    for _ in range(QUERIES):
        tally.compare(selection.random_query(rng, shapes=("negation of a taken variable",)), partitions(rng))
    assert tally.pairs >= 0.6 * QUERIES * PARTITIONS
    assert tally.matched >= 0.02 * tally.pairs


@pytest.mark.parametrize("seed", SEEDS)
def test_non_overlapping_matches_need_no_table_of_completions(seed, monkeypatch):
    """The search has none where it would be too large, and over streams of adjacent rows. Of matches that end together the one that
    begins first is told, then the preferred one."""
    monkeypatch.setattr("sparkcep.engine.match.gap_walk.MAX_ENDS_BYTES", 0)
    rng, tally = random.Random(9000 + seed), Tally()
    for _ in range(QUERIES // 2):
        query = selection.random_query(rng, report=selection.ALL, shapes=("plain", "plain", "negation"))
        tally.compare(replace(query, skip=("past last row",)), partitions(rng))
    assert tally.pairs >= 0.35 * QUERIES * PARTITIONS
    assert tally.matched >= 0.1 * tally.pairs


@pytest.mark.parametrize("seed", first(range(12), wider=2))
def test_failed_runs_remembered_from_the_first_step(seed, monkeypatch):
    """The memo, which otherwise begins only when a search backtracks a lot, with and without a table of completions."""
    monkeypatch.setattr(task, "Limits", functools.partial(task.Limits, patience=0))
    if seed % 2:
        monkeypatch.setattr("sparkcep.engine.match.gap_walk.MAX_ENDS_BYTES", 0)
    rng, tally = random.Random(12_000 + seed), Tally()
    for _ in range(QUERIES):
        tally.compare(selection.random_query(rng, shapes=("plain", "negation", "negation")), partitions(rng))
    assert tally.pairs >= 0.6 * QUERIES * PARTITIONS
    assert tally.matched >= 0.1 * tally.pairs


@pytest.mark.parametrize("seed", first(range(12), wider=2))
def test_neighbours_compared_at_candidate_rows_only(seed, monkeypatch):
    """As after a comparison of neighbours that failed on some row: then more negations wait for the end of a match."""

    def deferring(of, make):
        of.prepared = of.prepared.deferring()
        return make()

    monkeypatch.setattr(enumeration, "DeferringSearch", deferring)
    monkeypatch.setattr(task, "Limits", functools.partial(task.Limits, patience=0))
    rng, tally = random.Random(15_015 + seed), Tally()
    for _ in range(QUERIES):
        tally.compare(selection.random_query(rng, shapes=("plain", "negation", "negation of a taken variable")), partitions(rng, 15))
    assert tally.pairs >= 0.6 * QUERIES * 15
    assert tally.matched >= 0.1 * tally.pairs


def loop_and_what_follows(rng):
    """A repeated part and what comes behind it, of variables that share rows: where SKIP TILL NEXT ignores rows by the state."""
    a, b, c, d = (("var", name) for name in "ABCD")
    body = rng.choice([a, a, a, ("cat", [a, b]), ("alt", [a, c]), ("rep", a, 1, None, rng.random() < 0.5), ("within", ("cat", [a, b]), rng.randrange(1, 4))])
    least, most = rng.choice([(1, None), (1, None), (0, None), (2, None), (1, 2), (0, 3)])
    loop = ("rep", body, least, most, rng.random() < 0.6)
    if rng.random() < 0.15:
        loop = ("within", loop, rng.randrange(1, 4))
    behind = [
        b, ("alt", [b, c]), *[("alt", [("cat", [b, c]), d])] * 3, ("rep", b, 0, 1, rng.random() < 0.5), ("alt", [b, ("empty",), c]), ("cat", [b, ("rep", c, 1, None, True)]),
        ("within", ("cat", [b, c]), rng.randrange(1, 4)),
    ]  # fmt: skip
    whole = ("cat", [loop, rng.choice(behind)])
    return ("within", whole, rng.randrange(2, 7)) if rng.random() < 0.15 else whole


def condition_of(rng, name, looks):
    """A range of v, so that rows are often more than one variable's; where it ``looks``, sometimes at the match, too."""
    column, low = ("col", "v"), rng.randrange(4)
    row = rng.choice([(">=", column, ("lit", low)), ("<=", column, ("lit", low)), ("=", column, ("lit", low)), ("<>", column, ("lit", low))])
    if looks and rng.random() < 0.4:
        return ("and", row, (rng.choice(["<=", ">="]), column, ("nav", "FIRST", rng.choice(["A", name]), 0, column)))
    return row


@pytest.mark.parametrize("seed", first(range(16), wider=2))
def test_rows_are_ignored_by_the_state(seed):
    rng = random.Random(3000 + seed)
    tally = Tally()
    for _ in range(25):
        p = loop_and_what_follows(rng)
        window = rng.choice([None, None, ("rows", rng.randrange(2, 7)), ("range", rng.randrange(2, 9))])
        looks = rng.random() < 0.5
        defines = {name: condition_of(rng, name, looks) for name in pattern.variables(p)}
        query = selection.Query(
            p, pattern.to_text(p), defines, selection.NEXT, rng.choice(["first", "all"]), (rng.choice(["past last row", "to next row"]),), window,
            measures=dict(selection.BASE_MEASURES), budget=20_000,
        )  # fmt: skip
        tally.compare(query, partitions(rng))
    assert tally.pairs >= 500
    assert tally.matched >= 0.3 * tally.pairs


def untimed_rows(rng):
    """Rows of which the first ones have no time."""
    rows, without = selection.random_rows(rng, rng.randrange(2, 8)), rng.randrange(1, 4)
    return [{**row, "id": None} if i < without else row for i, row in enumerate(rows)]


@pytest.mark.parametrize("seed", first(range(8), wider=2))
def test_rows_without_a_time_open_no_window(seed):
    """Under SKIP TILL NEXT a row that a group's window keeps out may be ignored."""
    rng = random.Random(5000 + seed)
    tally = Tally()
    for _ in range(30):
        before = rng.choice([("var", "A"), ("rep", ("var", "A"), 1, None, True), ("alt", [("var", "A"), ("cat", [("var", "A"), ("var", "D")])])])
        group = ("within", rng.choice([("var", "B"), ("cat", [("var", "B"), ("var", "C")]), ("rep", ("var", "B"), 1, None, True)]), rng.randrange(1, 5))
        p = ("cat", [before, group, *rng.choice([[], [("var", "C")]])])
        defines = {name: condition_of(rng, name, rng.random() < 0.5) for name in pattern.variables(p)}
        # one partition a query: its rows come in the order in which they stand, NULL first
        query = selection.Query(p, pattern.to_text(p), defines, rng.choice([selection.NEXT, selection.ANY]), rng.choice(["first", "all"]), measures=dict(selection.BASE_MEASURES))
        tally.compare(query, [untimed_rows(rng) for _ in range(20)])
    assert tally.pairs >= 500
    assert tally.matched >= 0.2 * tally.pairs


def with_rows(rng, tree):
    """A pattern some of whose windows are of rows."""
    if isinstance(tree, list):
        return [with_rows(rng, part) for part in tree]
    if not isinstance(tree, tuple):
        return tree
    if tree[0] == "within" and rng.random() < 0.8:
        return ("within", with_rows(rng, tree[1]), pattern.Rows(tree[2]))
    return tuple(with_rows(rng, part) for part in tree)


@pytest.mark.parametrize("seed", first(range(4), 0, wider=1))
def test_windows_of_groups_in_rows(seed):
    rng = random.Random(4500 + seed)
    tally = Tally()
    while tally.pairs < 900:
        query = selection.random_query(rng, shapes=("plain", "plain", "negation", "group", "conjunction"), budget=20_000)
        if not pattern.contains(query.pattern, ("within",)):
            continue
        p = with_rows(rng, query.pattern)
        try:
            tally.compare(replace(query, pattern=p, pattern_text=pattern.to_text(p)), partitions(rng, 20, 7))
        except ClauseError as error:
            assert error.error_class == "SPARKCEP.PATTERN_TOO_COMPLEX", query.to_sql()
    assert tally.matched >= 0.2 * tally.pairs


@pytest.mark.further
@pytest.mark.parametrize("seed", first(range(3), wider=1))
def test_permutations_in_loops_ignore_rows_by_the_state(seed):
    """Of a permutation with elements that take no row nothing is left behind its last row."""
    rng = random.Random(6000 + seed)
    tally = Tally()
    for _ in range(80):
        a, b, c = (("var", name) for name in "ABC")
        elements = rng.sample([a, b, ("empty",), ("neg", "N"), ("rep", b, 0, 1, True), ("permute", [a, ("empty",)])], rng.choice([2, 2, 3]))
        loop = ("rep", ("permute", elements), rng.choice([1, 1, 2]), rng.choice([None, 3]), rng.random() < 0.7)
        p = ("cat", [loop, rng.choice([b, c, ("alt", [("cat", [b, c]), c])])])
        defines = {name: condition_of(rng, name, False) for name in pattern.variables(p)}
        query = selection.Query(p, pattern.to_text(p), defines, selection.NEXT, rng.choice(["first", "all"]), None, ("rows", 6), measures=dict(selection.BASE_MEASURES), budget=20_000)
        tally.compare(query, partitions(rng, 20, 7))
    assert tally.pairs >= 1200
    assert tally.matched >= 0.3 * tally.pairs


@pytest.mark.parametrize("seed", first(range(32), wider=2))
def test_negated_groups_agree_with_the_oracle(seed):
    rng = random.Random(4000 + seed)
    tally, refused = Tally(), 0
    for _ in range(QUERIES // 2):
        query = selection.random_query(rng, shapes=("group", "group", "group", "sided group"), budget=20_000)
        try:
            tally.compare(query, partitions(rng, 20, 7))
        except ClauseError as error:
            assert error.error_class == "SPARKCEP.PATTERN_TOO_COMPLEX", query.to_sql()
            refused += 1
    assert refused <= 1
    assert tally.pairs >= 0.3 * QUERIES * 20
    assert tally.matched > 0


def renamed(tree, names):
    """A pattern with other variables."""
    if tree[0] == "var":
        return ("var", names[tree[1]])
    return tuple([renamed(part, names) for part in item] if isinstance(item, list) else renamed(item, names) if isinstance(item, tuple) else item for item in tree)


def random_gap(rng):
    """Two rows with a negated group between them that ignores rows by its state, or has windows."""
    names = dict(zip("ABCD", "MNOP"))
    while True:
        inner = loop_and_what_follows(rng)
        if rng.random() < 0.4:  # without a loop a row that leads nowhere may not be passed over
            a, b, c, d = (("var", name) for name in "ABCD")
            inner = ("cat", [a, ("alt", rng.sample([("cat", [b, c]), rng.choice([d, ("cat", [d, b])])], 2))])
        if selection._least(inner) > 0:
            break
    inner = renamed(inner, names)
    strategy, looks, apart = rng.choice([selection.NEXT, selection.NEXT, selection.ANY]), rng.random() < 0.7, rng.random() < 0.6
    defines = {"Z": ("=", ("col", "s"), ("lit", rng.choice("abc")))} if strategy == selection.NEXT else {}
    for name in pattern.variables(inner):
        column, low = ("col", "v"), "MNOP".index(name) if apart else rng.randrange(4)
        defines[name] = (rng.choice(["="] if apart else [">=", "<=", "=", "<>"]), column, ("lit", low))
        if looks and rng.random() < 0.5:
            other = ("nav", "LAST", rng.choice([*pattern.variables(inner), "A", "Z"]), 0, ("col", rng.choice("vw")))
            defines[name] = ("and", defines[name], (rng.choice(["<=", ">=", "<>"]), column, other))
    p = ("cat", [("var", "A"), ("neg", inner), ("var", "Z")])
    return selection.Query(p, pattern.to_text(p), defines, strategy, "all", measures=dict(selection.BASE_MEASURES), budget=50_000)


@pytest.mark.parametrize("seed", first(range(8), 0, wider=1))
def test_negated_groups_ignore_rows_by_their_state(seed):
    rng = random.Random(4500 + seed)
    tally = Tally()
    for _ in range(60):
        tally.compare(random_gap(rng), partitions(rng, 12, 10))
    assert tally.pairs >= 600
    assert tally.matched >= 0.3 * tally.pairs


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [selection.NEXT, selection.ANY])
def test_twenty_thousand_partitions_of_negated_groups(strategy):
    rng = random.Random(f"negated groups {strategy}")
    tally = Tally()
    while tally.pairs < 20_000:
        try:
            query = selection.random_query(rng, strategy=strategy, shapes=("group", "group", "group", "sided group"), budget=20_000)
            tally.compare(query, partitions(rng, longest=8))
        except ClauseError as error:
            assert error.error_class == "SPARKCEP.PATTERN_TOO_COMPLEX"
    assert tally.matched >= 0.2 * tally.pairs


@pytest.mark.slow
@pytest.mark.parametrize("shapes", [("plain", "plain", "negation"), ("conjunction",)], ids=["plain", "sides"])
def test_skip_till_next_ignores_by_the_state(shapes):
    rng = random.Random(f"ignore-proceed {shapes}")
    tally = Tally()
    while tally.pairs < 20_000:
        try:
            tally.compare(selection.random_query(rng, strategy=selection.NEXT, shapes=shapes, budget=20_000), partitions(rng, longest=8 if len(shapes) > 1 else 7))
        except ClauseError as error:
            assert error.error_class == "SPARKCEP.PATTERN_TOO_COMPLEX"
    assert tally.matched >= 0.25 * tally.pairs


@pytest.mark.parametrize("seed", first(range(24), wider=2))
def test_conjunctions_agree_with_the_oracle(seed):
    rng = random.Random(2000 + seed)
    tally, refused = Tally(), 0
    for _ in range(QUERIES // 2):
        query, rows = selection.random_query(rng, shapes=("conjunction",), budget=20_000), partitions(rng, 20, 7)
        try:
            tally.compare(query, rows)
        except ClauseError as error:
            assert error.error_class == "SPARKCEP.PATTERN_TOO_COMPLEX", query.to_sql()
            refused += 1
    assert refused <= 1
    assert tally.pairs >= 0.3 * QUERIES * 20
    assert tally.matched > 0


@pytest.mark.parametrize("seed", first(range(2), 0, wider=1))
def test_the_prefilter_changes_nothing(seed):
    """Queries whose rows Spark may filter (the runner does): every variable has a row-local condition."""
    rng = random.Random(5 + seed)
    tally, filtered = Tally(), 0
    while filtered < 15:
        query = selection.random_query(rng, shapes=("plain", "negation", "conjunction", "group"))
        if make_plan(parse_clause(query.to_sql())).prefilter:
            try:
                tally.compare(query, partitions(rng))
            except ClauseError as error:
                assert error.error_class == "SPARKCEP.PATTERN_TOO_COMPLEX", query.to_sql()
                continue
            filtered += 1
    assert tally.matched >= 0.2 * tally.pairs


def hidden(rng, tree):
    """The pattern with some of its parts in {- -}."""
    if tree[0] in ("cat", "alt"):
        return (tree[0], [hidden(rng, t) for t in tree[1]])
    if tree[0] == "neg" or rng.random() < 0.6:
        return tree
    return ("excl", tree)


def test_excluded_rows_are_hidden():
    rng = random.Random(9)
    tally = Tally()
    for _ in range(60):
        query = selection.random_query(rng, report="first", shapes=("plain", "negation"))
        query.mode = rng.choice([measures.SHOW_EMPTY, measures.OMIT_EMPTY])
        query.pattern = hidden(rng, query.pattern)
        query.pattern_text = pattern.to_text(query.pattern, rng)
        tally.compare(query, partitions(rng))
    assert tally.matched >= 0.1 * tally.pairs


@pytest.mark.parametrize("chunk_rows", first([1, 2, 5]))
def test_batches_change_nothing(chunk_rows):
    rng = random.Random(chunk_rows)
    tally = Tally()
    for _ in range(20):
        tally.compare(selection.random_query(rng, shapes=("plain", "negation", "conjunction", "group")), partitions(rng, 10, 7), chunk_rows)
    assert tally.pairs >= 175
