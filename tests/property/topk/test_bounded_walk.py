"""TOP k of patterns that are walked under a bound of the score: groups with windows and conjunctions of any parts, rows compared by
equalities, bands and otherwise, also across &, against all matches of the oracle, sorted."""

from __future__ import annotations

import collections
import dataclasses
import random
from fractions import Fraction

import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.searches import CONJUNCTION, WALK
from sparkcep.engine.core.kernel_loop import OutputRoom
from sparkcep.engine.factory import engine_for, match_batches, prepare
from sparkcep.engine.match import enumeration, gap_walk
from sparkcep.plan.build import make_plan
from sparkcep.settings import DEFAULT, Settings
from tests.oracle import selection
from tests.oracle.pattern import contains, to_text
from tests.property.in_process import inputs
from tests.property.topk import test_ranked_conditions as conditions
from tests.property.topk import test_ranked_engine as ranked
from tests.property.topk.ranking_cases import window_starts
from tests.selection import first
from tests.support.caught import without_catching

CASES = 15  # a seed
MANY = 9
Counts = dict[str, tuple[int, int]]


@dataclasses.dataclass(frozen=True)
class Bounded(ranked.Case):
    names: tuple[str, ...] = ()

    def text(self, top: int | None = None) -> str:
        own = ", ".join(f"array_agg(ifnull({v}.id, {v}.id)) AS {v.lower()}_at" for v in self.names)
        return super().text(top).replace("array_agg(ifnull(id, id)) AS found, array_agg(CLASSIFIER()) AS labels", own)

    def score(self, pairs: tuple, rows: list):
        if "MIN" not in self.combine:
            return super().score(pairs, rows)
        own = [dataclasses.replace(self, goals=(goal,), combine="").score(pairs, rows) for goal in self.goals]
        return None if None in own else min(own)

    def expected(self, part: int) -> dict:
        rows, windows = self.rows[part], collections.defaultdict(list)
        for match in self.query.find([{**row, "id": row["t"]} for row in rows]):
            score = self.score(match.pairs, rows)
            vector = tuple(sorted({r for r, _ in match.pairs}))
            places = tuple(tuple(sorted({r for r, u in match.pairs if u == v})) for v in self.names)
            for start in window_starts(vector, rows, self.query.window, self.slide):
                windows[start].append((score is None, -score if score is not None else 0, vector, match.number, places))
        return {start: [entry[-1] for entry in sorted(found)[: self.top]] for start, found in windows.items()}


def random_tree(rng: random.Random, names: list, kinds: tuple) -> tuple[tuple, Counts]:
    """A pattern of all names, and how many rows each has in a match."""
    if len(names) == 1:
        low, high = rng.choice([(1, 1), (1, 1), (1, 1), (1, None), (0, 1), (1, 2)])
        var = ("var", names[0])
        return var if (low, high) == (1, 1) else ("rep", var, low, high, rng.random() < 0.7), {names[0]: (low, MANY if high is None else high)}
    at = rng.randrange(1, len(names))
    (left, some), (right, others) = random_tree(rng, names[:at], kinds), random_tree(rng, names[at:], kinds)
    kind, counts = rng.choice(kinds), some | others
    if kind == "alt":
        counts = {v: (0, high) for v, (_, high) in counts.items()}
    whole = (kind, [left, right])
    return (("within", whole, rng.randrange(1, 7)) if rng.random() < 0.4 else whole), counts


def random_case(rng: random.Random) -> Bounded:
    while True:
        base = ranked.random_case(rng)
        names = list("ABCD"[: rng.choice([2, 3, 3, 4])])
        conjoined = rng.random() < 0.5
        if conjoined:
            at = rng.randrange(1, len(names))
            (left, some), (right, others) = random_tree(rng, names[:at], ("cat",)), random_tree(rng, names[at:], ("cat", "cat", "and"))
            tree, counts = ("and", [left, right]), some | others
        else:
            tree, counts = random_tree(rng, names, ("cat", "cat", "cat", "alt"))
        if not contains(tree, ("and", "within")):
            continue
        # of sides the score is arithmetic over sums, whose floating parts Spark adds in an order of its own
        kinds = {**base.kinds, "w": ranked.INT} | ({c: ranked.INT for c in base.kinds} if contains(tree, ("and",)) or rng.random() < 0.5 else {})
        goals = tuple((rng.choice(["MAX", "MIN"]), random_sum(rng, counts)) for _ in range(rng.choice([1, 1, 2])))
        combine = rng.choice(["", " COMBINE BY MIN" if len(goals) > 1 and set(kinds.values()) == {ranked.INT} else ""])
        defines = {v: ranked._condition(rng) for v in names if rng.random() < 0.8}
        for _ in range(rng.choice([0, 1, 1, 2])):
            one, other = sorted(rng.sample(names, 2))
            if conjoined and rng.random() < 0.7:
                one, other = rng.sample([rng.choice(names[:at]), rng.choice(names[at:])], 2)
            link = random_link(rng, one)
            defines[other] = ("and", defines[other], link) if other in defines else link
        query = dataclasses.replace(base.query, pattern=tree, pattern_text=to_text(tree), defines=defines, budget=3_000)
        members = {f.name: getattr(base, f.name) for f in dataclasses.fields(base)}
        return Bounded(**{**members, "query": query, "kinds": kinds, "goals": goals, "combine": combine}, names=tuple(names))


def random_sum(rng: random.Random, counts: Counts) -> tuple:
    found = []
    for v, (low, high) in counts.items():
        kind = "row" if (low, high) == (1, 1) else "sum" if low > 0 else "count"
        if not found or rng.random() < 0.8:
            # a sign before the first would be part of its column
            found.append(ranked.Term(kind, v, rng.choice(["v", "v", "w"]), rng.choice([1, 1, -1]) if found else 1))
    return tuple(found)


def random_link(rng: random.Random, one: str) -> tuple:
    other = ("nav", "LAST", one, 0, ("col", "w"))
    roll = rng.random()
    if roll < 0.5:
        return ("=", ("col", "w"), other)
    if roll < 0.75:
        return conditions._band(rng, one, *rng.choice([(-1, 1), (0, 1), (-2, 0)]))
    return (rng.choice(["<", "<>", ">="]), ("col", "w"), other)


def answer(case: Bounded, chunk: int | None, settings: Settings) -> tuple:
    """The strategy, and (partition, window start) -> what the engine's best matches map to each variable, best first."""
    plan = without_catching(make_plan(parse_clause(case.text()), settings=settings))
    table = case.table(plan)
    engine = engine_for(prepare(plan, table.schema), chunk)
    pieces = list(match_batches(engine, table.to_batches(max_chunksize=chunk or 10_000)))
    columns = pa.concat_tables([engine.prepared.output_schema.empty_table(), *pieces]).to_pydict()
    leaves, outputs, found = {spec.kind: name for name, spec in plan.leaves if spec.kind != "agg"}, dict(plan.outputs), collections.defaultdict(list)
    for i, part in enumerate(columns["__p0"]):
        places = tuple(tuple(columns[outputs[f"{v.lower()}_at"]][i] or ()) for v in case.names)
        pairs = tuple(sorted((r, v) for v, own in zip(case.names, places) for r in own))
        score = case.score(pairs, case.rows[part])
        entry = (score is None, -score if score is not None else 0, tuple(sorted({r for r, _ in pairs})), columns[leaves["mno"]][i], places)
        found[part, None if case.slide is None else Fraction(columns[leaves["window_start"]][i])].append(entry)
    return engine.prepared.strategy, {key: [entry[-1] for entry in sorted(entries)[: case.top]] for key, entries in found.items()}


def compare(rng: random.Random, cases: int, monkeypatch) -> collections.Counter:
    """What was seen of so many clauses that are walked."""
    seen: collections.Counter = collections.Counter()
    plain = gap_walk.floors_of

    def counted(*args, **names):
        floors = plain(*args, **names)
        seen.update(bounded=floors is not None, tested=floors is not None and len(floors.tests) > 0)
        return floors

    monkeypatch.setattr(gap_walk, "floors_of", counted)
    small = [False]  # room for so few matches that those of one start row are looked for again
    monkeypatch.setattr(enumeration, "OutputRoom", lambda events, labels, *more, **how: OutputRoom(*((2, 8) if small[0] else (events, labels)), *more, **how))
    while seen["cases"] < cases:
        case = random_case(rng)
        try:
            expected = {(part, start): best for part in case.rows for start, best in case.expected(part).items()}
        except selection.Budget:
            continue
        small[0] = rng.random() < 0.4
        strategy, got = answer(case, rng.choice([None, None, 1, 3, 7]), rng.choice([DEFAULT, Settings(prefilter=False)]))
        if strategy.search not in (WALK, CONJUNCTION):
            seen["others"] += 1
            continue
        seen.update(
            cases=1, partitions=len(case.rows), matched=sum(map(bool, expected.values())), ranked=strategy.ranks, listed=not strategy.ranks,
            sides=strategy.conjoined, groups=contains(case.query.pattern, ("within",)), sliding=case.slide is not None, least="MIN" in case.combine,
        )  # fmt: skip
        wrong = {key: (expected.get(key), got.get(key)) for key in {*expected, *got} if expected.get(key) != got.get(key)}
        assert not wrong, f"{case.text()}\n{case.kinds}\n{wrong}\n{[case.rows[p] for p, _ in wrong][:1]}"
    return seen


@pytest.mark.parametrize("seed", first(range(32), wider=2))
def test_the_best_are_the_best_of_all_matches(seed, monkeypatch):
    seen = compare(random.Random(seed), CASES, monkeypatch)
    assert seen["bounded"] > CASES / 2 and seen["matched"] > 2 * CASES, seen
    assert min(seen[what] for what in ("ranked", "listed", "sides", "groups", "sliding", "tested")) > 1, seen


SCORES = (
    "A.v * C.w", "A.v * C.w - abs(C.v - A.w)", "least(A.v, C.w) - A.w * C.v", "SUM(B.v) * C.w", "greatest(SUM(B.v), COUNT(B.*)) / 3 + A.w", "A.v + SUM(B.v) - C.w",
)  # fmt: skip
WINDOWS = (9, 14, 20)
LONGER = {
    "A B+ C": ("C AS v <> A.v AND w > LAST(B.w)", "B AS w > A.w, C AS v > A.w", "B AS v <> PRIOR(LAST(B.v)), C AS v = A.v"),
    "(A B{1,2}) WITHIN 9 C": ("C AS w < A.w", "B AS v > A.w"),
    "(A B?) & C": ("C AS v > A.w", "C AS w = A.w"),
}


@pytest.mark.parametrize("seed", first(range(4), wider=1))
def test_a_bound_leaves_no_best_match(seed, monkeypatch):
    """The same with and without it, of so many rows that failures are remembered."""
    rng, compared = random.Random(seed), 0
    for _ in range(8):
        tree = rng.choice(list(LONGER))
        score = rng.choice([score for score in SCORES if "SUM" not in score or "?" not in tree])
        slide = rng.choice(["", " SLIDE 7"])
        text = f"""PARTITION BY p ORDER BY id MEASURES MATCH_SCORE() AS s EVENT SELECTION SKIP TILL ANY MATCH PATTERN ({tree}) WINDOW {rng.choice(WINDOWS)}{slide}
            PREF {rng.choice(["MAX", "MIN"])} ({score}) TOP {rng.choice([1, 3, 10])} DEFINE {rng.choice(LONGER[tree])}"""
        plan = make_plan(parse_clause(text))
        spread = rng.choice([2, 9])
        partitions = {p: [{"id": i, "v": rng.randrange(-spread, spread), "w": rng.randrange(-spread, spread), "s": None} for i in range(40)] for p in range(3)}
        table = inputs(plan, partitions)
        found = []
        for bounded in (True, False):
            with monkeypatch.context() as patched:
                if not bounded:
                    patched.setattr(gap_walk, "bounded", lambda task: False)
                columns = pa.concat_tables(list(match_batches(engine_for(prepare(plan, table.schema)), table.to_batches()))).to_pydict()
            names = [leaf.name for leaf in plan.leaves if leaf.spec.kind not in ("mno", "rank")]
            found.append(collections.Counter(zip(*(map(repr, columns[name]) for name in ["__p0", *names]))))
        assert found[0] == found[1], (text, found[1] - found[0])
        compared += found[0].total()
    assert compared > 100


def test_matches_that_are_looked_for_again_count_once(monkeypatch):
    """With room for two matches those of the first row are found twice, and the third best is among the best all the same."""
    monkeypatch.setattr(enumeration, "OutputRoom", lambda events, labels, *more, **how: OutputRoom(2, 8, *more, **how))
    text = """PARTITION BY p ORDER BY id MEASURES MATCH_SCORE() AS s EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A & B) PREF MAX (A.v + B.v) TOP 3
        DEFINE A AS w = 0, B AS w = 1 AND w > A.w"""
    plan = make_plan(parse_clause(text))
    partitions = {0: [{"id": i, "v": v, "w": w, "s": None} for i, (w, v) in enumerate([(0, 0), (1, 9), (1, 8), (1, 7), (1, 6)])]}
    found = pa.concat_tables(list(match_batches(engine_for(prepare(plan, (table := inputs(plan, partitions)).schema)), table.to_batches())))
    assert found.num_rows == 3


@pytest.mark.slow
def test_twenty_thousand_partitions(monkeypatch):
    seen = compare(random.Random("bounded"), 20_000 // ranked.PARTITIONS + 1, monkeypatch)
    assert seen["partitions"] >= 20_000
