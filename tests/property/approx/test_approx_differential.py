"""APPROX against its oracle: random clauses over random partitions, matches compared with their errors and what is missing."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import random
import re
from fractions import Fraction

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.searches import CLASSES, PROXIES, WALK
from sparkcep.compiler.strategy import strategy_of
from sparkcep.engine.frontier import cheapest
from sparkcep.engine.frontier.frontier import CountedMatches
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.plan.build import make_plan
from sparkcep.settings import DEFAULT, Settings
from tests.oracle import approx as oracle
from tests.property.approx import approx_cases
from tests.property.approx.approx_cases import ALL, ANY, BUNDLES, PER_ERROR, PROXY, STRICT, Budget
from tests.selection import first, further, slow

SEEDS = first(range(32), wider=2)
QUERIES = 14  # a seed
PARTITIONS = 60  # a query
ON_AND_OFF = (DEFAULT, Settings(prefilter=False))


def difference(case, expected: list[set], rows: list[dict]) -> str | None:
    """How the engine's output rows of one partition differ from what the oracle expects; None if they do not.

    A proxy may be any of the trajectories that are equally good; a match whose rows are all hidden is not seen.
    """
    got = approx_cases.seen_by_engine(case, rows)
    if case.report == ALL:
        wanted = collections.Counter(match for choices in expected for match in choices if match is not None)
        have = collections.Counter(got)
        if wanted != have:
            return f"only the oracle: {list((wanted - have).elements())}\nonly the engine: {list((have - wanted).elements())}"
        order = [match.whole[0] for match in got]
    else:
        places = [_place(case, match) for match in got]
        by_place = dict(zip(places, got))
        left = dict(by_place)
        for choices in expected:
            match = left.pop(next((_place(case, match) for match in choices if match is not None), None), None)
            if match not in choices and not any(_as_cheap(case, match, choice) for choice in choices):
                return f"oracle: one of {choices}\nengine: {match}"
        if left or len(by_place) < len(got):
            return f"only the engine: {list(left.values()) or got}"
        order = places
    if order != sorted(order):
        return f"numbered in the wrong order: {got}"
    in_order = approx_cases.numbers(rows)
    hiding = approx_cases.has_exclusion(case) and not case.one_row
    if in_order != sorted(in_order) or not hiding and in_order != list(range(1, len(got) + 1)):
        return f"numbers {in_order}"
    return None


def _place(case, match) -> tuple:
    """The match point that a match is reported for, and of PER ERROR its cost."""
    return (match.last, match.errors) if case.report == PER_ERROR else (match.last,)


def _as_cheap(case, match, choice) -> bool:
    """Whether a proxy tells another cheapest way to the same trajectory; of ALL MATCHES it is the preferred one."""
    if match is None or choice is None or dataclasses.replace(choice, missing=match.missing) != match:
        return False
    return _cost(case, match.missing) == _cost(case, choice.missing)


def _cost(case, missing) -> Fraction:
    return sum((Fraction(case.weights.get(name, 1)) for name in missing), Fraction(0))


class Tally:
    def __init__(self):
        self.pairs = self.matched = self.wrong = self.refused = self.too_large = 0

    def compare(self, case, partitions, chunk_rows=None, settings=DEFAULT, cuts=None):
        expected = {}
        for p, rows in enumerate(partitions):
            try:
                expected[p] = approx_cases.expected(case, rows)
            except Budget:
                self.too_large += 1
        try:
            got = approx_cases.run(case, {p: partitions[p] for p in expected}, chunk_rows, settings, cuts=cuts)
        except ClauseError as error:
            assert error.error_class == "SPARKCEP.PATTERN_TOO_COMPLEX", f"{error}\n{case.to_sql()}"
            self.refused += 1
            return
        except MatchRuntimeError as error:
            pytest.fail(f"{error}\n{case.to_sql()}")
        assert got.keys() <= expected.keys()
        for p, choices in expected.items():
            if (said := difference(case, choices, got.get(p, []))) is not None:
                alone = approx_cases.run(case, {0: partitions[p]}, None, settings).get(0, [])
                beside = "" if difference(case, choices, alone) else "\nwrong only beside other partitions or in batches"
                pytest.fail(f"{case.to_sql()}\nrows {partitions[p]}\n{said}{beside}")
            self.pairs += 1
            self.matched += bool(choices)
            self.wrong += any(match is not None and match.errors > 0 for some in choices for match in some)


@pytest.mark.parametrize("seed", SEEDS)
def test_engine_agrees_with_the_oracle(seed):
    rng = random.Random(9000 + seed)
    tally = Tally()
    for _ in range(QUERIES):
        case = approx_cases.random_case(rng)
        tally.compare(case, approx_cases.partitions(rng, case, PARTITIONS))
    assert tally.pairs >= 0.85 * QUERIES * PARTITIONS
    assert tally.matched >= 0.2 * tally.pairs
    assert tally.wrong >= 0.12 * tally.pairs


@pytest.mark.parametrize("report", [ALL, PROXY, PER_ERROR, BUNDLES])
@pytest.mark.parametrize("strategy", [ANY, further(STRICT)])
def test_letters(strategy, report):
    """The paper's kind of pattern, more rows of it."""
    rng = random.Random(f"{strategy} {report}")
    tally = Tally()
    for _ in range(6):
        case = approx_cases.random_case(rng, strategy=strategy, report=report, shapes=("letters",))
        tally.compare(case, approx_cases.partitions(rng, case, 80))
    assert tally.wrong >= 0.3 * tally.pairs >= 0.3 * 400


@pytest.mark.parametrize("seed", first(range(24), wider=2))
def test_a_negated_group_of_one_row_is_its_variable(seed):
    rng = random.Random(9700 + seed)
    tally, refused = Tally(), 0
    while tally.pairs < 250:
        case = approx_cases.random_case(rng, strategy=ANY, shapes=("negation",))
        names = re.findall(r"~(\w)", case.pattern_text)
        case = case.with_(pattern_text=re.sub(r"~(\w)", rng.choice([r"~(\1{1})", r"~((\1 | \1))"]), case.pattern_text))
        if len(set(names)) < len(names):
            continue
        try:
            make_plan(parse_clause(case.to_sql()))
        except ClauseError as error:  # conditions that name what may be missing, and weights
            assert error.error_class in ("SPARKCEP.NEGATION", "SPARKCEP.APPROX"), error
            refused += 1
            continue
        tally.compare(case, approx_cases.partitions(rng, case, 40))
    assert tally.matched >= 0.3 * tally.pairs and refused < 100


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_by_cost_at_length(part):
    rng = random.Random(f"at length {part}")
    tally, searches = Tally(), collections.Counter()
    for i in range(60):
        case = approx_cases.random_case(rng, report=PER_ERROR)
        searches[strategy_of(make_plan(parse_clause(case.to_sql()))).search] += 1
        some = approx_cases.partitions(rng, case, 100)
        tally.compare(case, some, **({}, {"chunk_rows": rng.randrange(1, 8)}, {"cuts": rng})[i % 3])
    assert tally.pairs >= 5000 and tally.wrong >= 0.25 * tally.pairs
    assert min(searches[search] for search in (PROXIES, CLASSES, WALK)) >= 6


def shortest(matches, first, last, at) -> int | None:
    """The shortest duration of the matches, (first row, last row) each, that lie between two rows; at: the place in time of each
    row."""
    return min((abs(at[end] - at[begin]) for begin, end in matches if first <= begin and end <= last), default=None)


def windows_without_a_shortest(rng, cases) -> tuple[int, int, collections.Counter]:
    """How many partitions were looked at, how many of their windows hold a match, and in how many of these each report lacks a
    shortest one."""
    looked_at, windows, lost = 0, 0, collections.Counter()
    for _ in range(cases):
        case = approx_cases.random_case(rng, report=PER_ERROR).with_(one_row=True)
        some = approx_cases.partitions(rng, case, 30)
        got = {report: approx_cases.run(case.with_(report=report), dict(enumerate(some))) for report in (PROXY, PER_ERROR)}
        for p, rows in enumerate(some):
            times = [row["t"] for row in rows]
            try:
                everything = {(t.rows[0], t.rows[-1]) for t in case.oracle.all_matches(rows, times)}
            except Budget:
                continue
            looked_at += 1
            reported = {report: {(row["first"], row["last"]) for row in found.get(p, [])} for report, found in got.items()}
            places = [list(range(len(rows)))] + [times] * (None not in times)
            for begin, end, at in ((i, j, at) for i in range(len(rows)) for j in range(i, len(rows)) for at in places):
                wanted = shortest(everything, begin, end, at)
                windows += wanted is not None
                lost.update(report for report, found in reported.items() if shortest(found, begin, end, at) != wanted)
    return looked_at, windows, lost


@pytest.mark.parametrize("seed", first(range(6), wider=1))
def test_each_window_with_a_match_holds_a_shortest_proxy(seed):
    """ACEP, Definition 5: of proxies by cost, and not of the cheapest ones alone."""
    _, windows, lost = windows_without_a_shortest(random.Random(9800 + seed), 14)
    assert windows >= 3000
    assert lost[PER_ERROR] == 0 < lost[PROXY]


@pytest.mark.slow
def test_each_window_of_twenty_thousand_partitions_holds_a_shortest_proxy():
    looked_at, windows, lost = windows_without_a_shortest(random.Random("windows at length"), 700)
    assert looked_at >= 20_000 and windows >= 150_000
    assert lost[PER_ERROR] == 0 < lost[PROXY]


def compare_sizes(rng, queries, count) -> tuple[Tally, collections.Counter]:
    """MATCH_COUNT() of proxies and bundles, whole, in batches and little by little; which searches ran."""
    tally, searches = Tally(), collections.Counter()
    for i in range(queries):
        case = approx_cases.random_case(rng, report=(PROXY, PER_ERROR, BUNDLES)[i % 3], shapes=("letters", "letters", "letters", "plain", "negation")).with_(sizes=True)
        searches[strategy_of(make_plan(parse_clause(case.to_sql()))).search] += 1
        some = approx_cases.partitions(rng, case, count)
        tally.compare(case, some, **({}, {"chunk_rows": rng.randrange(1, 8)}, {"cuts": rng})[i // 3 % 3])
    return tally, searches


@pytest.mark.parametrize("seed", first(range(6), 0, wider=1))
def test_sizes(seed, monkeypatch):
    """Half of the seeds count where conditions are local by matrices, as in long windows."""
    monkeypatch.setattr(cheapest, "LONG", 0 if seed % 2 else cheapest.LONG)
    tally, searches = compare_sizes(random.Random(9900 + seed), 36, 25)
    assert tally.pairs >= 850 and tally.wrong >= 0.25 * tally.pairs
    assert min(searches[search] for search in (CLASSES, WALK)) >= 9


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_sizes_at_length(part, monkeypatch):
    monkeypatch.setattr(cheapest, "LONG", 0 if part % 2 else cheapest.LONG)
    tally, _ = compare_sizes(random.Random(f"sizes at length {part}"), 63, 90)
    assert tally.pairs >= 5000 and tally.wrong >= 0.25 * tally.pairs


def test_sizes_of_matches_that_need_too_much_memory_are_listed(monkeypatch):
    """Runs are not counted then, but listed, with the same numbers."""
    rng, tally = random.Random(9950), Tally()

    def refuse(self):
        raise self.task.failures.state(0, self.chunk.columns)

    monkeypatch.setattr(CountedMatches, "rounds", refuse)
    for report in (PROXY, BUNDLES) * 4:
        case = approx_cases.random_case(rng, report=report, shapes=("letters", "plain")).with_(sizes=True)
        tally.compare(case, approx_cases.partitions(rng, case, 30))
    assert tally.pairs >= 230 and tally.wrong >= 50


@pytest.mark.parametrize("seed", [slow(0), further(1), slow(2), slow(3)])
def test_the_prefilter_changes_nothing(seed):
    rng = random.Random(9100 + seed)
    tally = Tally()
    for _ in range(8):
        case = approx_cases.random_case(rng)
        some = approx_cases.partitions(rng, case, 20)
        for settings in ON_AND_OFF:
            tally.compare(case, some, settings=settings)
    assert tally.pairs >= 250


@pytest.mark.parametrize("chunk_rows", [slow(1), further(2), slow(3), slow(5), slow(7)])
def test_batches_change_nothing(chunk_rows):
    rng = random.Random(9200 + chunk_rows)
    tally = Tally()
    for _ in range(16):
        case = approx_cases.random_case(rng)
        tally.compare(case, approx_cases.partitions(rng, case, 12), chunk_rows)
    assert tally.pairs >= 160


@pytest.mark.parametrize("report", [BUNDLES, *map(slow, (PROXY, PER_ERROR, ALL))])
@pytest.mark.parametrize("seed", first(range(8), wider=2))
def test_partitions_that_stay_open_change_nothing(seed, report):
    """Rows come little by little in many partitions, and what is known of each is bytes between the calls."""
    rng = random.Random(f"{9300 + seed} {report}")
    tally, searches = Tally(), collections.Counter()
    for _ in range(8):
        case = approx_cases.random_case(rng, report=report, shapes=("letters", "letters", "plain", "negation"))
        searches[strategy_of(make_plan(parse_clause(case.to_sql()))).search] += 1
        tally.compare(case, approx_cases.partitions(rng, case, 25), cuts=rng)
    assert tally.pairs >= 150 and tally.matched >= 0.15 * tally.pairs
    assert report == ALL or searches[PROXIES] >= 1


# --- the oracle without its shortcuts ------------------------------------------------------------------------------------


def every_way(case, rows):
    """All trajectories, as the oracle: each derivation over each choice of rows, in preference order, each condition anew."""
    query = case.oracle
    times = [row["t"] for row in rows]
    found = {}
    for d in oracle._Derivations(query, len(rows), every=True).found:
        for positions in itertools.combinations(range(len(rows)), len(d.labels)) if d else ():
            if query.strategy == STRICT and positions[-1] - positions[0] != len(positions) - 1:
                continue
            fresh = oracle._Partition(query, rows, times)
            fresh.local, fresh.running = {}, query.conjuncts
            if not all(fresh.inside(query.window, positions[0], row) for row in positions):
                continue
            error = fresh.price(d, positions, d.labels)
            best = found.get((positions, d.labels))
            if error is None or error > query.k:
                continue
            if best is None or error < best.error:
                found[positions, d.labels] = oracle.Trajectory(positions, d.labels, error, d.missing, d.kinds, d.hidden, frozenset([d.hidden]))
            elif error == best.error:
                found[positions, d.labels] = dataclasses.replace(best, hidings=best.hidings | {d.hidden})
    return set(found.values())


@pytest.mark.parametrize("seed", first(range(2), 0, wider=1))
def test_the_oracle_loses_nothing_on_its_shortcuts(seed):
    rng = random.Random(9050 + seed)
    matched = 0
    for _ in range(75):
        case = approx_cases.random_case(rng)
        for rows in approx_cases.partitions(rng, case, 3):
            rows = [row for row in rows if row["id"] < 4]
            times = [row["t"] for row in rows]
            wanted = every_way(case, rows)
            assert set(case.oracle.all_matches(rows, times)) == wanted, f"{case.to_sql()}\nrows {rows}"
            matched += bool(wanted)
    assert matched > 75


# --- the engine against itself and against exact matching ----------------------------------------------------------------


def pieces(rows, *names):
    """{match number: [(row, ..)]} as a multiset of matches."""
    found = collections.defaultdict(list)
    for row in rows:
        found[row["m"]].append(tuple(row[name] for name in names))
    return collections.Counter(map(tuple, found.values()))


def cases(rng, count, **options):
    """Cases that show every row of every match, with partitions."""
    for _ in range(count):
        case = approx_cases.random_case(rng, **options).with_(one_row=False)
        yield case, dict(enumerate(approx_cases.partitions(rng, case, 25)))


@pytest.mark.parametrize("seed", first(range(2), 0, wider=1))
def test_without_errors_the_oracle_is_the_exact_engine(seed):
    rng = random.Random(9310 + seed)
    compared = matched = 0
    for case, some in cases(rng, 60, report=ALL):
        case = case.with_(k="0")
        got = approx_cases.run(case, some, approx=False)
        for p, rows in some.items():
            try:
                choices = [seen for (seen,) in approx_cases.expected(case, rows) if seen is not None]
            except Budget:
                continue
            wanted = collections.Counter(tuple(zip(seen.rows, seen.labels)) for seen in choices)
            assert pieces(got.get(p, []), "id", "label") == wanted, f"{case.to_sql(False)}\nrows {rows}"
            compared += 1
            matched += bool(wanted)
    assert compared >= 1400
    assert matched >= 0.2 * compared


@pytest.mark.parametrize("seed", first(range(6), wider=2))
def test_no_errors_allowed_is_exact_matching(seed):
    rng = random.Random(9400 + seed)
    matched = 0
    for case, some in cases(rng, 10, report=ALL):
        case = case.with_(k="0")
        names = ("id", "label", "first", "last", "n")
        approximate, exact = (approx_cases.run(case, some, approx=approx) for approx in (True, False))
        for p in some:
            assert pieces(approximate.get(p, []), *names) == pieces(exact.get(p, []), *names), f"{case.to_sql()}\nrows {some[p]}"
            assert {(float(row["errors"]), row["missing"]) for row in approximate.get(p, [])} <= {(0.0, "[]")}
        matched += sum(map(bool, exact.values()))
    assert matched >= 5


def more_errors(case):
    """The case with one more error; None if everything could be missing then."""
    k = Fraction(case.k) + 1
    weights = {name: Fraction(weight) for name, weight in case.weights.items()}
    return case.with_(k=str(float(k))) if k < oracle.cost_of_nothing(case.pattern, weights) else None


@pytest.mark.parametrize("seed", first(range(2), 0, wider=1))
def test_more_errors_keep_what_there_was(seed):
    rng = random.Random(9500 + seed)
    grown = 0
    for case, some in cases(rng, 30, report=ALL):
        more = more_errors(case)
        if more is None or approx_cases.has_exclusion(case):
            continue
        fewer, longer = approx_cases.run(case, some), approx_cases.run(more, some)
        for p in some:
            one, other = (pieces(found.get(p, []), "id", "label", "errors") for found in (fewer, longer))
            assert one <= other, f"{case.to_sql()}\nrows {some[p]}"
            grown += one < other
    assert grown >= 75


@pytest.mark.parametrize("seed", first(range(4), wider=2))
def test_proxies_lose_no_match_point(seed):
    rng = random.Random(9600 + seed)
    points = 0
    for case, some in cases(rng, 15, report=ALL):
        if approx_cases.has_exclusion(case):
            continue
        everything, chosen = (approx_cases.run(case.with_(report=report), some) for report in (ALL, PROXY))
        for p in some:
            ends = {row["last"] for row in everything.get(p, [])}
            ends_of = {row["m"]: row["last"] for row in chosen.get(p, [])}
            assert sorted(ends_of.values()) == sorted(ends), f"{case.to_sql()}\nrows {some[p]}"
            points += len(ends)
    assert points >= 50


def test_everything_missing_is_an_error():
    rng = random.Random(9700)
    for _ in range(40):
        case = approx_cases.random_case(rng)
        bound = oracle.cost_of_nothing(case.pattern, {name: Fraction(weight) for name, weight in case.weights.items()})
        with pytest.raises(ClauseError):
            make_plan(parse_clause(case.with_(k=str(float(bound))).to_sql()))
        make_plan(parse_clause(case.with_(k=str(float(bound - Fraction(1, 4)))).to_sql()))
