"""TOP k where conditions look at other rows of the match, and with windows of groups, against all matches of the oracle, sorted:
equalities with rows farther back, bands, windows around the whole pattern, sums of branches, which are ranked as paths; and
whatever else, of whose listed matches the best are kept."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
import random
import re
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.columns.arrays import equal_codes
from sparkcep.compiler.searches import PATHS, WALK
from sparkcep.engine.factory import engine_for, match_batches, prepare
from sparkcep.plan.build import make_plan
from sparkcep.settings import DEFAULT, Settings
from tests.oracle import selection
from tests.oracle.pattern import to_text, variables
from tests.property.topk import test_ranked_engine as ranked
from tests.selection import first
from tests.support.caught import without_catching

SEEDS = first(range(256), wider=3)
CASES = 30  # a seed
FAR, BAND, GROUP, BRANCH, LISTED = KINDS = ("far", "band", "group", "branch", "listed")


@dataclasses.dataclass(frozen=True)
class Branching(ranked.Case):
    """Each branch of an alternation has a sum of its own. ``branches``: for each its terms (sign, variable, column); ``rest``:
    those of all matches."""

    branches: tuple = ()
    rest: tuple = ()

    def text(self, top: int | None = None) -> str:
        own = ", ".join(map(_signed, self.branches))
        return re.sub(r"PREF .* TOP", f"PREF MAX (coalesce({own}){''.join(f' {sign} {v}.{c}' for sign, v, c in self.rest)}) TOP", super().text(top))

    @property
    def floating(self) -> bool:
        return any(self.kinds[c] == ranked.DOUBLE for terms in (*self.branches, self.rest) for _, _, c in terms)

    def score(self, pairs: tuple, rows: list):
        signs = {(v, c): sign for terms in (*self.branches, self.rest) for sign, v, c in terms}
        total = None
        for r, v in pairs:
            added = 0.0 if self.floating else Fraction(0)
            for (name, column), sign in signs.items():
                if name == v:
                    value = self.value(column, rows[r])
                    if value is None:
                        return None
                    added += (float(value) if self.floating else value) * (1 if sign == "+" else -1)
            total = added if total is None else total + added
        return total


def _signed(terms: tuple) -> str:
    return " ".join(f"{sign} {v}.{c}" for sign, v, c in terms).removeprefix("+ ")


def branching(rng: random.Random) -> Branching:
    case = ranked.random_case(rng)
    names = rng.sample("ABCDE", 5)
    branches, left = [], list(names)
    for _ in range(rng.choice([2, 2, 3])):
        branches.append([left.pop() for _ in range(min(len(left), rng.choice([1, 1, 2])))])
    alternation = ("alt", [("cat", [("var", v) for v in some]) if len(some) > 1 else ("var", some[0]) for some in branches if some])
    parts = [alternation, *(("var", v) for v in left[:1])]
    rng.shuffle(parts)
    pattern = ("cat", parts) if len(parts) > 1 else parts[0]
    terms = tuple(tuple(("+" if i == 0 else rng.choice("+-"), v, rng.choice("vw")) for i, v in enumerate(some)) for some in branches if some)
    rest = tuple(("+", v, "v") for v in left[:1] if rng.random() < 0.5)
    query = dataclasses.replace(
        case.query, pattern=pattern, pattern_text=to_text(pattern), defines={v: ranked._condition(rng) for v in variables(pattern) if rng.random() < 0.9}
    )
    return Branching(**{f.name: getattr(case, f.name) for f in dataclasses.fields(ranked.Case)} | {"query": query, "branches": terms, "rest": rest, "combine": ""})


def random_case(rng: random.Random, kind: str) -> ranked.Case:
    if kind == BRANCH:
        return branching(rng)
    case = ranked.random_case(rng)
    single = _single(case)
    # a constant makes no sum of the engine's
    while any(term.kind == "constant" for _, terms in case.goals for term in terms) or (kind == FAR and len(single) < 3):
        case = ranked.random_case(rng)
        single = _single(case)
    query = case.query
    names = single if kind == FAR else variables(query.pattern)
    kinds = case.kinds | {"w": ranked.INT}
    defines = {v: e for v, e in query.defines.items() if kind != FAR or rng.random() < 0.5}
    rows = case.rows if kind != FAR else {p: [{**row, "w": rng.choice([0, 1])} for row in some] for p, some in case.rows.items()}

    def add(name: str, condition: tuple) -> None:
        defines[name] = ("and", defines[name], condition) if name in defines else condition

    pattern = query.pattern
    if kind == GROUP:
        pattern = ("within", pattern, rng.randrange(1, 9))
    elif kind == BAND:
        low, high = rng.choice([(-1, 1), (0, 1), (-2, 0), (0, 0), (1, 3)])
        for before, name in zip(names, names[1:]):
            if rng.random() < 0.7:
                add(name, _band(rng, before, low, high))
    else:
        for _ in range(rng.choice([1, 1, 2])):
            one, other = sorted(rng.sample(range(len(names)), 2)) if len(names) > 1 else (0, 0)
            column = "w" if kind == FAR else rng.choice("wws")
            operation = "=" if kind == FAR else rng.choice(["<", ">", "<>"] if column == "w" else ["<>"])
            if one < other:
                add(names[other], (operation, ("col", column), ("nav", "LAST", names[one], 0, ("col", column))))
    found = dataclasses.replace(query, pattern=pattern, pattern_text=to_text(pattern), defines=defines)
    return dataclasses.replace(case, query=found, kinds=kinds, rows=rows)


def _single(case: ranked.Case) -> list:
    """The variables that stand alone in the pattern, in its order."""
    pattern = case.query.pattern
    return [part[1] for part in (pattern[1] if pattern[0] == "cat" else [pattern]) if part[0] == "var"]


def _band(rng: random.Random, before: str, low: int, high: int) -> tuple:
    """A whole number that is that of the row before, but for a little; the numbers of the band may be of either row."""
    def shifted(number: int) -> tuple:
        return ("+", ("col", "w"), ("lit", number)) if number >= 0 else ("-", ("col", "w"), ("lit", -number))

    if rng.random() < 0.5:
        return ("and", (">=", ("col", "w"), ("nav", "LAST", before, 0, shifted(low))), ("<=", ("col", "w"), ("nav", "LAST", before, 0, shifted(high))))
    other = ("nav", "LAST", before, 0, ("col", "w"))
    return ("and", (">=", other, shifted(low)), ("<=", other, shifted(high)))


def answer(case: ranked.Case, chunk: int | None, settings: Settings) -> tuple[str, dict]:
    """The search that ran, and (partition, window start) -> the engine's matches, best first."""
    plan = without_catching(make_plan(parse_clause(case.text()), settings=settings))
    table = case.table(plan)
    engine = engine_for(prepare(plan, table.schema), chunk)
    pieces = list(match_batches(engine, table.to_batches(max_chunksize=chunk or 10_000)))
    columns = pa.concat_tables([engine.prepared.output_schema.empty_table(), *pieces]).to_pydict()
    leaves, outputs = {spec.kind: name for name, spec in plan.leaves if spec.kind != "agg"}, dict(plan.outputs)
    found, distinct = collections.defaultdict(list), collections.defaultdict(set)
    for i, part in enumerate(columns["__p0"]):
        vector, labels = tuple(columns[outputs["found"]][i]), tuple(columns[outputs["labels"]][i])
        score = case.score(tuple(zip(vector, labels)), case.rows[part])
        start = None if case.slide is None else Fraction(columns[leaves["window_start"]][i])
        found[part, start].append((score is None, -score if score is not None else 0, vector, columns[leaves["mno"]][i], labels))
        distinct[part].add((vector, labels))
    nulls = any(row["v"] is None for rows in case.rows.values() for row in rows)
    windows = collections.Counter(part for part, _ in found)
    if chunk is None and not nulls:
        assert all(len(matches) <= case.top * windows[part] for part, matches in distinct.items()), case.text()
    return engine.prepared.strategy.search, {key: [(e[2], e[4]) for e in sorted(entries)[: case.top]] for key, entries in found.items()}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_are_the_best_of_all_matches(seed):
    rng = random.Random(seed)
    ways, compared = collections.Counter(), collections.Counter()
    for i in range(CASES):
        kind = KINDS[i % len(KINDS)]
        case = random_case(rng, kind)
        chunk, settings = rng.choice([None, None, 1, 3, 7]), rng.choice([DEFAULT, Settings(prefilter=False)])
        search, got = answer(case, chunk, settings)
        expected = {}
        for part in case.rows:
            try:
                found = case.expected(part)
            except selection.Budget:
                got = {key: matches for key, matches in got.items() if key[0] != part}
                continue
            compared[kind] += 1
            ways[kind, search] += bool(found)
            expected |= {(part, start): matches[: case.top] for start, matches in found.items()}
        wrong = {key: (expected.get(key), got.get(key)) for key in {*expected, *got} if expected.get(key) != got.get(key)}
        assert not wrong, f"{search} {case.text()}\n{case.kinds} {chunk} {settings}\n{wrong}\n{[case.rows[p] for p, _ in wrong][:1]}"
    assert min(compared.values()) > 50
    assert sum(ways[kind, PATHS] for kind in KINDS[:-1]) > 25 and ways[LISTED, WALK] > 0, ways


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_codes_are_equal_where_all_values_are(columns):
    """Of several lists of columns, against a comparison one by one. A NULL equals nothing, NaN itself, and -0.0 is 0."""
    rng, alike = random.Random(columns), 0
    for _ in range(40):
        count = rng.randint(1, 12)
        kinds = [rng.choice([pa.int64(), pa.string(), pa.float64(), pa.bool_(), pa.decimal128(9, 2)]) for _ in range(columns)]
        pool = {pa.int64(): [0, 1, 2, None], pa.string(): ["", "a", "b", None], pa.float64(): [0.0, -0.0, math.nan, 1.5, None], pa.bool_(): [True, False, None], pa.decimal128(9, 2): [Decimal(0), Decimal("1.5"), None]}
        values = [[[rng.choice(pool[kind]) for _ in range(count)] for kind in kinds] for _ in range(rng.randint(1, 3))]
        codes = equal_codes([[pa.array(own, kind) for own, kind in zip(some, kinds)] for some in values])
        keys = [["NaN" if value != value else value for value in row] for some in values for row in zip(*some)]
        for (a, one), (b, other) in itertools.combinations(zip(codes.ravel().tolist(), keys), 2):
            assert (a == b and a >= 0) == (None not in one and one == other), (one, other)
            alike += a == b
        assert [code < 0 for code in codes.ravel().tolist()] == [None in key for key in keys]
    assert alike > 50
