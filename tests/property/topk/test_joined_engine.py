"""TOP k by monotone scores that are no sums against all matches of the oracle, sorted: random clauses over random partitions."""

from __future__ import annotations

import collections
import dataclasses
import math
import random
import re

import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.searches import SEQUENCES
from sparkcep.plan.build import make_plan
from sparkcep.settings import DEFAULT, Settings
from tests.oracle import selection
from tests.property.in_process import guarded, inputs, unguarded
from tests.property.topk.ranking_cases import engine_rows, window_starts
from tests.selection import first
from tests.support.caught import without_catching

SEEDS = first(range(12), wider=2)
QUERIES = 30  # a seed
PARTITIONS = 12  # a query
NAMES = "ABCD"
TYPES = {"tinyint": pa.int8(), "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64()}


@dataclasses.dataclass(frozen=True)
class Case:
    pattern: tuple  # variables in order
    goals: tuple  # (MAX or MIN, tree)
    combine: str
    top: int
    window: tuple | None  # ("rows" or "range", size)
    slide: int | None
    types: dict  # column -> name of its type
    rows: dict  # partition -> rows
    equal: tuple = ()  # pairs of variables, of which the second's w is that of the first

    def text(self) -> str:
        parts = ["PARTITION BY p ORDER BY id MEASURES array_agg(ifnull(id, id)) AS found"]
        parts.append(f"EVENT SELECTION SKIP TILL ANY MATCH PATTERN ({' '.join(self.pattern)})")
        if self.window:
            rows = " ROWS" if self.window[0] == "rows" else ""
            parts.append(f"WINDOW {self.window[1]}{rows}" + (f" SLIDE {self.slide}{rows}" if self.slide else ""))
        parts.append("PREF " + " AND ".join(f"{goal} ({sql(tree)})" for goal, tree in self.goals) + self.combine)
        conditions = ", ".join(f"{v} AS (s = '{v.lower()}' OR s = 'x')" + "".join(f" AND w = {a}.w" for a, b in self.equal if b == v) for v in self.pattern)
        return f"{' '.join(parts)} TOP {self.top} DEFINE {conditions}"

    def score(self, match: dict):
        """``match``: variable -> row. None where the score is NULL or not a number."""
        values = [value(tree, match) for _, tree in self.goals]
        if None in values:
            return None
        signed = [-v if goal == "MIN" else v for (goal, _), v in zip(self.goals, values)]
        total = signed[0]
        for v in signed[1:]:
            total = {"": lambda a, b: a + b, " COMBINE BY MIN": least, " COMBINE BY MAX": greatest, " COMBINE BY PRODUCT": lambda a, b: a * b}[
                self.combine
            ](total, v)
        return None if total != total else total

    def expected(self, part: int) -> dict:
        """Window start (None without SLIDE) -> the positions of the best matches, in order."""
        rows = self.rows[part]
        tree = ("cat", [("var", v) for v in self.pattern]) if len(self.pattern) > 1 else ("var", self.pattern[0])
        defines = {v: ("or", ("=", ("col", "s"), ("lit", v.lower())), ("=", ("col", "s"), ("lit", "x"))) for v in self.pattern}
        for a, b in self.equal:
            defines[b] = ("and", defines[b], ("=", ("col", "w"), ("nav", "LAST", a, 0, ("col", "w"))))
        query = selection.Query(tree, "", defines, selection.ANY, selection.ALL, None, self.window, budget=20_000)
        windows = collections.defaultdict(list)
        for match in query.find([{**row, "id": row["t"]} for row in rows]):
            score = self.score({v: rows[r] for r, v in match.pairs})
            vector = tuple(r for r, _ in match.pairs)
            for start in window_starts(vector, rows, self.window, self.slide):
                windows[start].append((score is None, 0 if score is None else -score, vector))
        return {start: [entry[2] for entry in sorted(found)[: self.top]] for start, found in windows.items()}

    def table(self, plan) -> pa.Table:
        """The columns that the plan wants; those of the score are computed here, in the type that Spark gives them."""
        own = {bare(sql(tree)): tree for _, goal in self.goals for tree in row_expressions(goal)} | {c: ("col", "A", c) for c in "vw"}
        plain = dataclasses.replace(plan, inputs=tuple((n, guarded(t, "id") if bare(t) in own else t) for n, t in plan.inputs))
        found = inputs(plain, {p: [{**row, "v": None, "w": None} for row in rows] for p, rows in self.rows.items()})
        parts = found["__p0"].to_pylist()
        ids = found[next(n for n, t in plain.inputs if t in ("id", "ifnull(id, id)") and n in found.column_names)].to_pylist()
        for name, text in plan.inputs:
            if name not in found.column_names or text != "id" and bare(text) not in own:
                continue
            rows = [self.rows[p][i] for p, i in zip(parts, ids)]
            if text == "id":
                column = pa.array([row["t"] for row in rows], pa.int64())
            else:
                tree = own[bare(text)]
                values = [value(tree, collections.defaultdict(lambda row=row: row)) for row in rows]
                values = [None if at is None else v for v, at in zip(values, found[name].to_pylist())]
                column = pa.array(values, TYPES[self.type_of(tree)])
            found = found.set_column(found.column_names.index(name), name, column)
        return found

    def type_of(self, tree: tuple) -> str:
        if tree[0] == "col":
            return self.types[tree[2][0]]
        if tree[0] == "lit":
            return "int" if tree[1].isdigit() or tree[1][0] == "-" and tree[1][1:].isdigit() else "double"
        inner = [self.type_of(operand) for operand in tree[1:]]
        widest = max(inner, key=list(TYPES).index)
        return "double" if tree[0] in ("/", "sqrt") or {"float", "int"} <= set(inner) and tree[0] == "/" else widest


def row_expressions(tree: tuple):
    """The subtrees about one row."""
    names = variables(tree)
    if len(names) == 1:
        yield tree
    if tree[0] not in ("col", "lit"):
        for operand in tree[1:]:
            yield from row_expressions(operand)


def variables(tree: tuple) -> set:
    return {tree[1]} if tree[0] == "col" else set() if tree[0] == "lit" else set().union(*map(variables, tree[1:]))


def bare(text: str) -> str:
    return re.sub(r"[A-D]\.|[() ]", "", unguarded(text))


# -- scores by their definition: NULL makes NULL, except that LEAST and GREATEST pass it over; NaN is above all numbers


def value(tree: tuple, match: dict):
    kind = tree[0]
    if kind == "col":
        plain = match[tree[1]][tree[2][0]]
        return plain if plain is None or "*" not in tree[2] else plain * 2
    if kind == "lit":
        return float(tree[1])
    values = [value(operand, match) for operand in tree[1:]]
    if kind in ("least", "greatest"):
        known = [v for v in values if v is not None]
        if not known:
            return None
        out = known[0]
        for v in known[1:]:
            out = (least if kind == "least" else greatest)(out, v)
        return out
    if None in values:
        return None
    if kind == "sqrt":
        return math.sqrt(values[0]) if values[0] >= 0 else math.nan
    a, b = (*values, None)[:2]
    return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b, "neg": lambda: -a}[kind]()


def least(a, b):
    return b if a != a or b < a else a


def greatest(a, b):
    return a if a != a or b < a else b


def sql(tree: tuple) -> str:
    kind = tree[0]
    if kind == "col":
        return f"{tree[1]}.{tree[2]}"
    if kind == "lit":
        return tree[1]
    inner = [sql(operand) for operand in tree[1:]]
    if kind in ("least", "greatest", "sqrt"):
        return f"{kind}({', '.join(inner)})"
    return f"(-{inner[0]})" if kind == "neg" else f"({inner[0]} {kind} {inner[1]})"


# -- random clauses


def random_case(rng: random.Random) -> Case:
    pattern = tuple(rng.sample(NAMES, rng.choice([1, 2, 2, 3, 3, 4])))
    negative = rng.random() < 0.15
    free = list(pattern)
    rng.shuffle(free)
    goals = []
    while free and (not goals or rng.random() < 0.4):
        size = rng.randrange(1, len(free) + 1)
        own, free = free[:size], free[size:]
        goals.append((rng.choice(["MAX", "MAX", "MIN"]), random_tree(rng, own)))
    combine = rng.choice(["", "", " COMBINE BY MIN", " COMBINE BY MAX", " COMBINE BY PRODUCT"])
    if "PRODUCT" in combine:
        goals = [("MAX", tree) for _, tree in goals]
    window, slide = None, None
    if rng.random() < 0.65:
        window = (rng.choice(["rows", "range"]), rng.randrange(2, 9))
        slide = rng.choice([None, rng.randrange(1, window[1] + 1)])
    types = {"v": rng.choice(["tinyint", "int", "bigint", "double", "double", "float"]), "w": rng.choice(["int", "double", "double"])}
    null = rng.random() < 0.25
    rows = {p: random_rows(rng, types, null, negative, "".join(pattern).lower()) for p in range(PARTITIONS)}
    equal = [tuple(sorted(rng.sample(pattern, 2), key=pattern.index)) for _ in range(rng.choice([1, 1, 2]))] if len(pattern) > 1 and not null and rng.random() < 0.3 else []
    return Case(pattern, tuple(goals), combine, rng.choice([1, 2, 3, 5, 10]), window, slide, types, rows, tuple(equal))


def random_tree(rng: random.Random, variables: list) -> tuple:
    if len(variables) == 1:
        leaf = ("col", variables[0], rng.choice(["v", "v", "w", "v * 2"]))
        roll = rng.random()
        if roll < 0.1:
            return (rng.choice("*/"), leaf, ("lit", rng.choice(["3", "2", "1e-1"])))
        if roll < 0.15:
            return ("neg", ("*", ("lit", "-2"), leaf))
        return ("greatest", leaf, ("lit", "2")) if roll < 0.2 else leaf
    at = rng.randrange(1, len(variables))
    left, right = random_tree(rng, variables[:at]), random_tree(rng, variables[at:])
    kind = rng.choice(["least", "greatest", "*", "sqrt", "-", "least"])
    return ("sqrt", ("+", ("*", left, ("lit", "4")), right)) if kind == "sqrt" else (kind, left, right)


def random_rows(rng: random.Random, types: dict, null: bool, negative: bool, letters: str) -> list:
    def number(kind: str):
        if null and rng.random() < 0.15:
            return math.nan if kind == "double" and rng.random() < 0.5 else None
        low = -2 if negative else 0
        return float(rng.choice([rng.randrange(low, 4), rng.random()])) if kind in ("double", "float") else rng.randrange(low, 5)

    t, rows = 0, []
    for i in range(rng.randrange(0, 12)):
        t += rng.choice([0, 1, 1, 2, 4])
        v = number(types["v"])
        if types["v"] == "float" and v is not None:
            v = round(v * 4) / 4  # the same number in 32 bits
        rows.append({"id": i, "t": t, "v": v, "w": number(types["w"]), "s": rng.choice(letters + letters + "xy")})
    return rows


# -- comparison


def answer(case: Case, chunk: int | None, settings: Settings):
    """((partition, window start) -> positions of the matches, in the order of their scores, how many came); None where another
    engine is chosen."""
    plan = without_catching(make_plan(parse_clause(case.text()), settings=settings))
    columns = engine_rows(plan, case.table(plan), SEQUENCES, chunk)
    if columns is None:
        return None
    starts = next((name for name, spec in plan.leaves if spec.kind == "window_start"), None)
    found = collections.defaultdict(list)
    for i in range(len(columns["__p0"])):
        part, vector = columns["__p0"][i], tuple(columns[dict(plan.outputs)["found"]][i])
        score = case.score({v: case.rows[part][r] for v, r in zip(case.pattern, vector)})
        found[part, None if case.slide is None else columns[starts][i]].append((score is None, 0 if score is None else -score, vector))
    return {key: [e[2] for e in sorted(entries)[: case.top]] for key, entries in found.items()}, max(map(len, found.values()), default=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_are_the_best_of_all_matches(seed):
    rng = random.Random(seed)
    queries = joined = other = linked = 0
    while queries < QUERIES:
        case = random_case(rng)
        got = answer(case, rng.choice([None, 1, 3, 7]), rng.choice([DEFAULT, Settings(prefilter=False)]))
        if got is None:
            other += 1  # the score is a sum
            continue
        queries += 1
        linked += bool(case.equal)
        try:
            expected = {(part, start): best for part in case.rows for start, best in case.expected(part).items()}
        except selection.Budget:
            continue
        joined += got[1] <= case.top < 10
        wrong = {key: (expected.get(key), got[0].get(key)) for key in {*expected, *got[0]} if expected.get(key) != got[0].get(key)}
        assert not wrong, f"{case.text()}\n{case.types}\n{wrong}\n{[case.rows[p] for p, _ in wrong][:1]}"
    assert joined > QUERIES / 4 and other < 2 * QUERIES and linked > 0
