"""TOP k as k best paths against all matches of the oracle, sorted: random clauses over random partitions."""

from __future__ import annotations

import collections
import dataclasses
import random
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.searches import PATHS
from sparkcep.engine.factory import engine_for, match_batches, prepare
from sparkcep.plan.build import make_plan
from sparkcep.settings import DEFAULT, Settings
from tests.oracle import selection
from tests.oracle.pattern import to_text
from tests.property.in_process import inputs, unguarded
from tests.property.topk.ranking_cases import engine_rows, window_starts
from tests.selection import first
from tests.support.caught import without_catching

SEEDS = first(range(16), wider=1)
QUERIES = 33  # a seed
PARTITIONS = 14  # a query
INT, DECIMAL, DOUBLE = "int", "decimal", "double"
NAMES = "ABCD"


@dataclasses.dataclass(frozen=True)
class Term:
    kind: str  # row, sum, count or constant
    variable: str | None  # None: of all rows
    column: str  # v, w or v * 2; of a constant its text
    sign: int

    @property
    def text(self) -> str:
        if self.kind == "constant":
            return self.column
        if self.kind == "count":
            return f"COUNT({self.variable}.*)" if self.variable else "COUNT(*)"
        body = f"{self.variable}.{self.column}" if self.variable else self.column
        return {"row": body, "first": f"FIRST({body})", "sum": f"SUM({body})"}[self.kind]


@dataclasses.dataclass(frozen=True)
class Case:
    query: selection.Query  # without a WINDOW of its own slide
    goals: tuple  # (MAX or MIN, (Term, ...))
    combine: str
    top: int
    slide: Fraction | None
    descending: bool
    kinds: dict  # column of an objective -> int, decimal or double
    times: str  # type of the order column
    rows: dict  # partition -> rows, with the position as id and ``t``

    def text(self, top: int | None = None) -> str:
        parts = ["PARTITION BY p ORDER BY id" + (" DESC" if self.descending else "")]
        starts = ", WINDOW_START() AS ws" if self.slide is not None else ""
        parts.append(f"MEASURES array_agg(ifnull(id, id)) AS found, array_agg(CLASSIFIER()) AS labels{starts}")
        parts.append(f"EVENT SELECTION SKIP TILL ANY MATCH PATTERN ({self.query.pattern_text})")
        if self.query.window:
            rows = " ROWS" if self.query.window[0] == "rows" else ""
            step = f" SLIDE {_number(self.slide)}{rows}" if self.slide is not None else ""
            parts.append(f"WINDOW {_number(self.query.window[1])}{rows}{step}")
        parts.append("PREF " + " AND ".join(f"{goal} ({_sum(terms)})" for goal, terms in self.goals) + self.combine)
        parts.append(f"TOP {top or self.top}")
        conditions = ", ".join(f"{v} AS {selection.expr.to_sql(e)}" for v, e in self.query.defines.items())
        return " ".join(parts) + (f" DEFINE {conditions}" if conditions else "")

    @property
    def floating(self) -> bool:
        return any(self.kinds[t.column] == DOUBLE for _, terms in self.goals for t in terms if t.kind in ("row", "first", "sum"))

    # -- the score, by the definition

    def value(self, column: str, row: dict):
        """What a row has in a column of an objective."""
        plain = row[column[0]]
        if plain is None:
            return None
        number = plain * (2 if "*" in column else 1)
        return {INT: Fraction(number), DECIMAL: Fraction(number, 10), DOUBLE: number * 0.1}[self.kinds[column]]

    def score(self, pairs: tuple, rows: list):
        """Fraction, or float where a column is; None where an objective is NULL."""
        terms = [(1 if goal == "MAX" else -1, t) for goal, some in self.goals for t in some]
        constant = Fraction(0)
        for sign, t in terms:
            own = [rows[r] for r, v in pairs if t.variable in (None, v)]
            if t.kind == "constant":
                constant += sign * t.sign * Fraction(t.column)
            elif t.kind in ("row", "first") and self.value(t.column, own[0]) is None:
                return None
            elif t.kind == "sum" and all(self.value(t.column, row) is None for row in own):
                return None
        number = float if self.floating else Fraction
        total = None
        for r, v in pairs:
            added = number(0)
            for sign, t in terms:
                if t.kind != "constant" and t.variable in (None, v):
                    value = 1 if t.kind == "count" else self.value(t.column, rows[r])
                    added += sign * t.sign * number(0 if value is None else value)
            total = added if total is None else total + added
        whole = total if self.floating else total + constant
        return whole / (len(self.goals) if "AVG" in self.combine else 1)

    # -- the answer, by enumeration

    def expected(self, part: int) -> dict:
        """Window start (None without SLIDE) -> the matches, best first, as (positions, labels)."""
        rows = self.rows[part]
        windows = collections.defaultdict(list)
        for match in self.query.find([{**row, "id": row["t"]} for row in rows]):
            score = self.score(match.pairs, rows)
            vector, labels = zip(*match.pairs)
            entry = (score is None, -score if score is not None else 0, vector, match.number, labels)
            for start in window_starts(vector, rows, self.query.window, self.slide):
                windows[start].append(entry)
        return {start: [(e[2], e[4]) for e in sorted(found)] for start, found in windows.items()}

    # -- the engine's answer

    def table(self, plan) -> pa.Table:
        found = inputs(plan, self.rows)
        parts = found["__p0"].to_pylist()
        for name, text in plan.inputs:
            if name not in found.column_names:
                continue
            at = found.column_names.index(name)
            values = found[name].to_pylist()
            if text == "id":
                when = [self.rows[p][i]["t"] for p, i in zip(parts, values)]
                found = found.set_column(at, name, _column(when, self.times))
            elif unguarded(text) in self.kinds and name in {c for _, c, *_ in plan.ranking.terms}:
                scaled = {INT: lambda x: x, DECIMAL: lambda x: Fraction(x, 10), DOUBLE: lambda x: x * 0.1}[self.kinds[unguarded(text)]]
                found = found.set_column(at, name, _column([None if x is None else scaled(x) for x in values], self.kinds[unguarded(text)]))
        return found


def _column(values: list, kind: str) -> pa.Array:
    if kind == DECIMAL:
        return pa.array([None if v is None else Decimal(v.numerator) / Decimal(v.denominator) for v in values], pa.decimal128(12, 1))
    return pa.array([None if v is None else (int if kind == INT else float)(v) for v in values], pa.int64() if kind == INT else pa.float64())


def _number(number) -> str:
    return str(int(number)) if number == int(number) else str(float(number))


def _sum(terms: tuple) -> str:
    text = ("-" if terms[0].sign < 0 else "") + terms[0].text
    return text + "".join(f" {'+' if t.sign > 0 else '-'} {t.text}" for t in terms[1:])


# -- random clauses


def random_case(rng: random.Random) -> Case:
    linking = rng.random() < 0.3
    pattern, single, certain = _pattern(rng, ["one", "one", "one", "either"] if linking else SHAPES)
    names = selection.pattern.variables(pattern)
    defines = {v: _condition(rng) for v in names if rng.random() < 0.9}
    if linking:
        defines |= _links(rng, names, defines)
    window, slide = _window(rng)
    nulls = rng.random() < 0.3
    # with a NULL among them decimals are added as floats: test_decimals_beside_a_null
    kinds = {c: rng.choice([INT, INT, DOUBLE if nulls else DECIMAL, DOUBLE]) for c in ("v", "w", "v * 2")}
    # of three the average of floats may be that of a smaller sum: test_averages_that_are_equal
    goals = [_goal(rng, single, certain, names) for _ in range(rng.choice([1, 1, 2]))]
    combine = rng.choice(["", " COMBINE BY SUM", " COMBINE BY AVG"])
    times = rng.choice([INT, INT, DECIMAL, DOUBLE])
    descending = rng.random() < 0.3
    rows = {p: _rows(rng, times, descending, nulls) for p in range(PARTITIONS)}
    query = selection.Query(pattern, to_text(pattern), defines, selection.ANY, selection.ALL, None, window, budget=6_000)
    return Case(query, tuple(goals), combine, rng.choice([1, 1, 2, 3, 5, 10]), slide, descending, kinds, times, rows)


SHAPES = ["one", "one", "one", "optional", "some", "some", "any", "either", "order", "group"]


def _pattern(rng: random.Random, shapes: list):
    """(pattern, variables that each match has exactly one row of, those it has some of)."""
    left = list(NAMES)
    rng.shuffle(left)
    parts, single, certain = [], [], []
    while left and (not parts or rng.random() < 0.75):
        shape = rng.choice(shapes)
        name = left.pop()
        var = ("var", name)
        if shape in ("either", "order", "group") and not left:
            shape = "one"
        if shape in ("one", "order"):
            single.append(name)
        if shape in ("one", "some", "order", "group"):
            certain.append(name)
        if shape in ("either", "order", "group"):
            other = left.pop()
            if shape == "order":
                single.append(other)
            if shape != "either":
                certain.append(other)
        greedy = rng.random() < 0.8
        match shape:
            case "optional":
                parts.append(("rep", var, 0, 1, greedy))
            case "some":
                parts.append(("rep", var, 1, rng.choice([None, 2, 3]), greedy))
            case "any":
                parts.append(("rep", var, 0, rng.choice([None, 2]), greedy))
            case "either":
                parts.append(("alt", [var, ("var", other)]))
            case "order":
                parts.append(("permute", [var, ("var", other)]))
            case "group":
                parts.append(("rep", ("cat", [var, ("var", other)]), 1, 2, greedy))
            case _:
                parts.append(var)
    if not certain:
        name = left.pop() if left else "E"
        parts.append(("var", name))
        single.append(name)
        certain.append(name)
    return (("cat", parts) if len(parts) > 1 else parts[0]), single, certain


def _condition(rng: random.Random) -> tuple:
    roll = rng.random()
    if roll < 0.25:
        return (rng.choice(["<", ">", "<>"]), ("col", rng.choice("vw")), ("lit", rng.randrange(-1, 4)))
    equal = [("=", ("col", "s"), ("lit", letter)) for letter in rng.sample("abc", rng.choice([1, 2]))]
    return equal[0] if len(equal) == 1 else ("or", *equal)


def _links(rng: random.Random, names: list, defines: dict) -> dict:
    """Conditions that compare a row with the last one of the variable before it in the pattern."""
    found = {}
    for before, name in zip(names, names[1:]):
        if rng.random() < 0.6:
            column = rng.choice("www" "sv")
            link = ("=", ("col", column), ("nav", "LAST", before, 0, ("col", column)))
            found[name] = ("and", defines[name], link) if name in defines else link
    return found


def _window(rng: random.Random):
    """(WINDOW as the oracle has it, step of SLIDE or None)."""
    kind = rng.choice(["none", "none", "rows", "range", "rows slide", "range slide", "range slide"])
    if kind == "none":
        return None, None
    if kind.startswith("rows"):
        size = rng.randrange(2, 7)
        return ("rows", size), Fraction(rng.randrange(1, size + 1)) if "slide" in kind else None
    size = Fraction(rng.randrange(2, 16), 2)
    return ("range", size), Fraction(rng.randrange(1, int(size * 4) + 1), 4) if "slide" in kind else None


def _goal(rng: random.Random, single: list, certain: list, names: list) -> tuple:
    terms, used = [], set()
    for _ in range(rng.choice([1, 1, 2, 3])):
        kind = rng.choice(["row", "row", "first", "sum", "sum", "count"])
        sign = rng.choice([1, 1, -1])
        column = rng.choice(["v", "v", "w", "v * 2"])
        free = [v for v in single if v not in used]
        if kind in ("row", "first") and free:
            variable = rng.choice(free)
            used.add(variable)
            terms.append(Term("first" if kind == "first" and "*" not in column else "row", variable, column, sign))
        elif kind == "count":
            terms.append(Term("count", rng.choice([None, *names]), "", sign))
        else:
            terms.append(Term("sum", rng.choice([None, *certain]), column if "*" not in column else "v", sign))
    terms.sort(key=lambda t: t.kind != "row")
    if terms[0].kind == "row":
        terms[0] = dataclasses.replace(terms[0], sign=1)  # -A.v is an expression of the row
    if len(terms) > 1 and rng.random() < 0.3:
        terms.append(Term("constant", None, rng.choice(["3", "0.5", "100"]), rng.choice([1, -1])))
    return rng.choice(["MAX", "MAX", "MIN"]), tuple(terms)


def _rows(rng: random.Random, times: str, descending: bool, nulls: bool) -> list:
    at, rows = Fraction(rng.randrange(-3, 4)), []
    null = nulls and rng.random() < 0.4
    for _ in range(rng.randrange(1, 9)):
        rows.append({
            "t": at, "v": None if null and rng.random() < 0.3 else rng.randrange(0, 5), "w": rng.choice([-2, -1, 0, 1, 3]), "s": rng.choice("abcd"),
        })  # fmt: skip
        at += rng.choice([0, 1, 1, 2, 4]) if times == INT else Fraction(rng.choice([0, 1, 1, 2, 5]), 2)
    if descending:
        rows.reverse()
    for i in range(rng.choice([0, 0, 0, 0, 1, 2])):  # NULLs first, in a descending order last
        if i < len(rows):
            rows[-1 - i if descending else i]["t"] = None
    return [{**row, "id": i} for i, row in enumerate(rows)]


# -- comparison


def answer(case: Case, top: int, chunk: int | None, settings: Settings) -> dict | None:
    """(partition, window start) -> the engine's matches, best first, as (positions, labels); None where it takes another way."""
    plan = without_catching(make_plan(parse_clause(case.text(top)), settings=settings))
    columns = engine_rows(plan, case.table(plan), PATHS, chunk)
    if columns is None:
        return None
    leaves = {spec.kind: name for name, spec in plan.leaves if spec.kind != "agg"}
    listed = dict(plan.outputs)
    ranked = collections.defaultdict(list)
    for i in range(len(columns["__p0"])):
        part = columns["__p0"][i]
        vector, labels = tuple(columns[listed["found"]][i]), tuple(columns[listed["labels"]][i])
        score = case.score(tuple(zip(vector, labels)), case.rows[part])
        if case.floating and score is not None and not any(t.kind == "constant" for _, terms in case.goals for t in terms):
            assert columns[leaves["score"]][i].hex() == score.hex()
        start = None if case.slide is None else Fraction(columns[leaves["window_start"]][i])
        ranked[part, start].append((score is None, -score if score is not None else 0, vector, columns[leaves["mno"]][i], labels))
    nulls = any(row["v"] is None for rows in case.rows.values() for row in rows)
    if not nulls:  # a SUM over NULLs is ranked by Spark alone
        assert all(len(found) <= top for found in ranked.values())
    return {key: [(e[2], e[4]) for e in sorted(found)[:top]] for key, found in ranked.items()}


@pytest.mark.parametrize("seed", SEEDS)
def test_best_paths_are_the_best_matches(seed):
    rng = random.Random(seed)
    pairs = other = linked = 0
    while pairs < QUERIES * PARTITIONS:
        case = random_case(rng)
        chunk, settings = rng.choice([None, 1, 2, 3, 5, 7]), rng.choice([DEFAULT, Settings(prefilter=False)])
        got = answer(case, case.top, chunk, settings)
        if got is None:
            other += 1  # an ambiguous pattern, say
            assert other < 3 * QUERIES
            continue
        linked += any(f"= {v}.{c}" in text for text in [case.text()] for v in NAMES for c in "vws")
        expected = {}
        for part in case.rows:
            try:
                found = case.expected(part)
            except selection.Budget:
                got = {key: matches for key, matches in got.items() if key[0] != part}
                continue
            pairs += 1
            expected |= {(part, start): matches for start, matches in found.items()}
        wanted = {key: matches[: case.top] for key, matches in expected.items()}
        wrong = {key: (wanted.get(key), got.get(key)) for key in {*wanted, *got} if wanted.get(key) != got.get(key)}
        assert not wrong, f"{case.text()}\n{case.kinds} {chunk} {settings}\n{wrong}\n{[case.rows[p] for p, _ in wrong][:1]}"
        if rng.random() < 0.3:
            more = answer(case, case.top + 1, None, DEFAULT)
            assert {key: more[key][: case.top] for key in got} == got
    assert linked > 0


def small(goals: str, top: int, columns: dict, rows: list) -> list:
    """Positions of the matches of ``A B`` that the engine gives; ``rows``: (letter, values of the columns)."""
    values = ", ".join(f"MAX ({g})" for g in goals.split(" AND "))
    text = f"ORDER BY id MEASURES array_agg(ifnull(id, id)) AS found EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) PREF {values.replace('), ', ') AND ')}"
    plan = make_plan(parse_clause(f"{text} {'COMBINE BY AVG' if ' AND ' in goals else ''} TOP {top} DEFINE A AS s = 'a', B AS s = 'b'"))
    bits = {"a": 1, "b": 2}
    table = {}
    for name, sql in plan.inputs:
        at = {"id": range(len(rows)), "ifnull(id, id)": range(len(rows))}.get(sql)
        table[name] = list(at) if at is not None else pa.array([r[1][sql] for r in rows], columns[sql])
    table |= {"__letters": [bits[r[0]] for r in rows]}
    table = pa.table(table)
    engine = engine_for(prepare(plan, table.schema))
    assert engine.prepared.strategy.search == PATHS
    out = pa.concat_tables(list(match_batches(engine, table.to_batches())))
    return out[dict(plan.outputs)["found"]].to_pylist()


def test_decimals_beside_a_null():
    amount = pa.decimal128(12, 1)
    d = Decimal
    rows = [("a", {"v": d("0.0")}), ("b", {"v": d("0.3")}), ("a", {"v": d("-0.1")}), ("b", {"v": d("0.4")}), ("a", {"v": None})]
    assert small("A.v + B.v", 2, {"v": amount}, rows[:4]) == [[0, 3], [0, 1]]
    assert small("A.v + B.v", 2, {"v": amount}, rows) == [[0, 3], [0, 1]]


def test_averages_of_three_are_not_ranked_by_their_sums():
    """Quotients by three may be equal where sums differ."""
    clause = "ORDER BY id MEASURES MATCH_SCORE() AS s EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) PREF MAX (A.v) AND MAX (B.v){more} COMBINE BY AVG TOP 1"
    assert make_plan(parse_clause(clause.format(more=""))).ranking.terms
    assert not make_plan(parse_clause(clause.format(more=" AND MAX (B.w)"))).ranking.terms
