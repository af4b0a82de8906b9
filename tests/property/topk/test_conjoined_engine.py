"""TOP k of conjunctions, as a rank join of their sides, against all matches of the oracle, sorted."""

from __future__ import annotations

import collections
import dataclasses
import random
from fractions import Fraction

import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.searches import SIDES
from sparkcep.plan.build import make_plan
from sparkcep.settings import DEFAULT, Settings
from tests.oracle import selection
from tests.oracle.pattern import to_text
from tests.property.in_process import inputs
from tests.property.topk.ranking_cases import engine_rows, window_starts
from tests.property.topk.test_joined_engine import greatest, least
from tests.selection import first
from tests.support.caught import without_catching

SEEDS = first(range(8), wider=1)
QUERIES = 20  # a seed
PARTITIONS = 10  # a query
COMBINE = {
    "": lambda a, b: a + b, " COMBINE BY MIN": least, " COMBINE BY MAX": greatest, " COMBINE BY PRODUCT": lambda a, b: a * b,
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Case:
    pattern: tuple
    letters: dict  # variable -> letters of its rows
    goals: tuple  # (MAX or MIN, ((sign, kind, variable or None, column), ...))
    combine: str
    top: int
    window: tuple | None
    slide: int | None
    kinds: dict  # column -> type
    rows: dict

    def text(self) -> str:
        parts = ["PARTITION BY p ORDER BY id MEASURES " + ", ".join(f"array_agg(ifnull({v}.id, {v}.id)) AS rows_{v}" for v in self.letters)]
        parts.append(f"EVENT SELECTION SKIP TILL ANY MATCH PATTERN ({to_text(self.pattern)})")
        if self.window:
            rows = " ROWS" if self.window[0] == "rows" else ""
            parts.append(f"WINDOW {self.window[1]}{rows}" + (f" SLIDE {self.slide}{rows}" if self.slide else ""))
        parts.append("PREF " + " AND ".join(f"{goal} ({' '.join(self.term(*t) for t in terms).removeprefix('+ ')})" for goal, terms in self.goals) + self.combine)
        conditions = ", ".join(f"{v} AS s IN ({', '.join(map(repr, own))})" for v, own in self.letters.items())
        return f"{' '.join(parts)} TOP {self.top} DEFINE {conditions}"

    @staticmethod
    def term(sign, kind, variable, column) -> str:
        body = f"{variable}.{column}" if variable else column
        return f"{sign} " + {"row": body, "sum": f"SUM({body})", "count": f"COUNT({variable or ''}{'.' if variable else ''}*)"}[kind]

    def score(self, pairs: tuple, rows: list):
        values = []
        for _, terms in self.goals:
            total = 0
            for sign, kind, variable, column in terms:
                # a row that serves both sides counts once
                own = [rows[r][column] for r in sorted({r for r, v in pairs if variable in (None, v)})]
                known = [x for x in own if x is not None]
                if kind != "count" and not known:
                    return None
                part = 0 * known[0] if known else 0
                for x in known:
                    part += x
                part = len(own) if kind == "count" else part
                total = total + part if sign == "+" else total - part
            values.append(total)
        signed = [-v if goal == "MIN" else v for (goal, _), v in zip(self.goals, values)]
        out = signed[0]
        for v in signed[1:]:
            out = COMBINE[self.combine](out, v)
        return out

    def expected(self, part: int) -> dict:
        rows = self.rows[part]
        defines = {v: _either(own) for v, own in self.letters.items()}
        query = selection.Query(self.pattern, "", defines, selection.ANY, selection.ALL, None, self.window, budget=6_000)
        windows = collections.defaultdict(list)
        for match in query.find([{**row, "id": row["t"]} for row in rows]):
            score = self.score(match.pairs, rows)
            vector = tuple(sorted({r for r, _ in match.pairs}))
            entry = (score is None, 0 if score is None else -score, vector, match.number, tuple(sorted(match.pairs)))
            for start in window_starts(vector, rows, self.window, self.slide):
                windows[start].append(entry)
        return {start: [e[4] for e in sorted(found)[: self.top]] for start, found in windows.items()}

    def table(self, plan) -> pa.Table:
        found = inputs(plan, self.rows)
        parts = found["__p0"].to_pylist()
        ids = found[next(n for n, t in plan.inputs if t in ("id", "ifnull(id, id)") and n in found.column_names)].to_pylist()
        for name, text in plan.inputs:
            if text in ("v", "w", "id") and name in found.column_names:
                column = "t" if text == "id" else text
                values = [self.rows[p][i][column] for p, i in zip(parts, ids)]
                kind = pa.int64() if text == "id" else self.kinds[text]
                found = found.set_column(found.column_names.index(name), name, pa.array(values, kind))
        return found


def _either(letters: str) -> tuple:
    tests = [("=", ("col", "s"), ("lit", letter)) for letter in letters]
    return tests[0] if len(tests) == 1 else ("or", *tests)


def random_case(rng: random.Random) -> Case:
    names = iter("ABCDE")
    sides, own, letters = [], [], {}
    shared = rng.random() < 0.4
    free = list("abcdefg")
    for _ in range(rng.choice([2, 2, 3])):
        size = rng.choice([1, 1, 2]) if len(sides) < 2 else 1
        variables = [name for _, name in zip(range(size), names)]
        if not variables:
            break
        for v in variables:
            letters[v] = "".join(rng.sample("abcd", rng.choice([1, 2]))) if shared else free.pop(0)
        parts = [("rep", ("var", v), rng.choice([0, 1, 1, 1]), rng.choice([2, None]), True) if rng.random() < 0.3 else ("var", v) for v in variables]
        sides.append(("cat", parts) if len(parts) > 1 else parts[0])
        own.append([(v, part[0] == "var") for v, part in zip(variables, parts) if part[0] == "var" or part[2]])
    kinds = {c: rng.choice([pa.int64(), pa.int32(), pa.float64()]) for c in "vw"}
    goals = []
    if rng.random() < 0.3:
        everywhere = [("+", rng.choice(["sum", "sum", "count"]), None, "v")] if rng.random() < 0.5 else [("+", "sum", v, "v") for side in own for v, _ in side]
        goals.append((rng.choice(["MAX", "MIN"]), tuple(everywhere)))
    else:
        for side in filter(None, own):
            terms = []
            for v, single in side[: rng.choice([1, 2])]:
                kind = rng.choice(["sum", "row" if single else "sum", "count"] if terms else ["sum", "row" if single else "sum"])
                terms.append((rng.choice("++-") if terms else "+", kind, v, rng.choice("vw")))
            goals.append((rng.choice(["MAX", "MAX", "MIN"]), tuple(terms)))
    if not goals or not goals[0][1]:
        goals = [("MAX", (("+", "sum", None, "v"),))]
    combine = rng.choice(["", *COMBINE])
    if "PRODUCT" in combine:
        goals = [("MAX", terms) for _, terms in goals]
    window = slide = None
    if rng.random() < 0.6:
        window = (rng.choice(["rows", "range"]), rng.randrange(2, 9))
        slide = rng.randrange(1, window[1] + 1) if rng.random() < 0.6 else None
    if rng.random() < 0.4:
        sides = [("within", side, rng.randrange(1, 8)) if rng.random() < 0.6 else side for side in sides]
    low = -1 if rng.random() < 0.2 else 0
    wide = rng.random() < 0.5
    alphabet = "".join(letters.values())
    rows = {p: _rows(rng, kinds, alphabet, low, wide) for p in range(PARTITIONS)}
    return Case(("and", sides), letters, tuple(goals), combine, rng.choice([1, 2, 3, 5]), window, slide, kinds, rows)


def _rows(rng: random.Random, kinds: dict, letters: str, low: int, wide: bool) -> list:
    t, rows, null = 0, [], rng.random() < 0.1

    def number(kind):
        if null and rng.random() < 0.2:
            return None
        if pa.types.is_floating(kind):
            return rng.random() if wide else float(rng.randrange(low, 3))
        return rng.randrange(low, 50 if wide else 4)

    for i in range(rng.randrange(0, 10)):
        t += rng.choice([0, 1, 1, 2])
        rows.append({"id": i, "t": t, "v": number(kinds["v"]), "w": number(kinds["w"]), "s": rng.choice(letters + "z")})
    return rows


def answer(case: Case, chunk: int | None, settings: Settings):
    """(matches by partition and window, how many came); None where another engine is chosen."""
    plan = without_catching(make_plan(parse_clause(case.text()), settings=settings))
    columns = engine_rows(plan, case.table(plan), SIDES, chunk)
    if columns is None:
        return None
    starts = next((name for name, spec in plan.leaves if spec.kind == "window_start"), None)
    number = next(name for name, spec in plan.leaves if spec == ("mno",))
    found = collections.defaultdict(list)
    for i in range(len(columns["__p0"])):
        part = columns["__p0"][i]
        pairs = tuple(sorted((r, v) for v in case.letters for r in columns[dict(plan.outputs)[f"rows_{v}"]][i] or ()))
        score = case.score(pairs, case.rows[part])
        vector = tuple(sorted({r for r, _ in pairs}))
        key = part, None if case.slide is None else Fraction(columns[starts][i])
        found[key].append((score is None, 0 if score is None else -score, vector, columns[number][i], pairs))
    return {key: [e[4] for e in sorted(entries)[: case.top]] for key, entries in found.items()}, max(map(len, found.values()), default=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_are_the_best_of_all_matches(seed):
    rng = random.Random(seed)
    queries = joined = other = 0
    while queries < QUERIES:
        case = random_case(rng)
        got = answer(case, rng.choice([None, 1, 3, 7]), rng.choice([DEFAULT, Settings(prefilter=False)]))
        if got is None:
            other += 1
            continue
        expected, left_out = {}, set()
        for part in case.rows:
            try:
                expected |= {(part, start): best for start, best in case.expected(part).items()}
            except selection.Budget:
                left_out.add(part)
        queries += 1
        joined += got[1] <= case.top
        found = {key: matches for key, matches in got[0].items() if key[0] not in left_out}
        wrong = {key: (expected.get(key), found.get(key)) for key in {*expected, *found} if expected.get(key) != found.get(key)}
        assert not wrong, f"{case.text()}\n{case.kinds}\n{wrong}\n{[case.rows[p] for p, _ in wrong][:1]}"
    assert joined > QUERIES / 3 and other < 2 * QUERIES
