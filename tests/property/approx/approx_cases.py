"""Random clauses with APPROX, their partitions, what the oracle says of them, and what the engine gives back."""

from __future__ import annotations

import decimal
import functools
import json
import re
import sqlite3
from dataclasses import dataclass, field, replace
from fractions import Fraction

import pyarrow as pa

from sparkcep.clause.parser import parse_clause
from sparkcep.engine.core.input_columns import _HISTORY as HISTORY_TYPES
from sparkcep.engine.factory import engine_for, match_batches, match_table, prepare
from sparkcep.plan.build import make_plan
from sparkcep.plan.extend.budget import HISTORY_COLUMN
from sparkcep.plan.plan import LETTERS
from sparkcep.plan.split.conditions import ORDER
from sparkcep.settings import DEFAULT, Settings
from sparkcep.sql.prefilter.slices import OWN, cut
from tests.oracle import approx as oracle
from tests.oracle import expr, pattern, selection
from tests.oracle.approx import Approx, cost_of_nothing
from tests.oracle.selection import ANY, NEXT, STRICT, Budget
from tests.property.in_process import _array, _is_boolean, _portable, in_slices, little_by_little, unguarded
from tests.support.caught import without_catching

PROXY, PER_ERROR, ALL, BUNDLES = "PROXY MATCHES", "PROXY MATCHES PER ERROR", "ALL MATCHES", "MATCH BUNDLES"
COLUMNS = ("p", "id", "t", "v", "w", "s")
LONGEST = 8  # rows of a partition, less one
BUDGET = 60_000  # steps of the oracle: to spell out a pattern, and for one partition

_STRATEGY_TEXT = {STRICT: "STRICT CONTIGUITY", NEXT: "SKIP TILL NEXT MATCH", ANY: "SKIP TILL ANY MATCH"}
_ERRORS = ["0", "0.5", "1", "1", "1.5", "2", "2", "2", "3", "3"]
_WEIGHTS = ["0.5", "0.75", "1.25", "1.5", "2", "2", "3"]


@dataclass
class Case:
    """One MATCH_RECOGNIZE over rows with the columns p (partition), t and id (order), v, w, s; id is the position.

    k and weights are numbers as they are written; unit: "SECOND" for an INTERVAL, else None; descending: ORDER BY t DESC.
    """

    pattern: tuple
    pattern_text: str
    defines: dict
    strategy: str
    k: str
    weights: dict = field(default_factory=dict)
    window: tuple | None = None
    subsets: dict = field(default_factory=dict)
    report: str = ALL
    unit: str | None = None
    descending: bool = False
    one_row: bool = False  # ONE ROW PER MATCH
    default_words: bool = False  # leave out what is the default
    sizes: bool = False  # with MATCH_COUNT()
    checks: int = 0  # of a BUDGET, if any
    explore: bool = False  # with a history that knows nothing
    complete: bool = False  # whether COMPLETE() is told

    @functools.cached_property
    def oracle(self) -> Approx:
        weights = {name: Fraction(weight) for name, weight in self.weights.items()}
        return Approx(
            self.pattern, self.defines, self.strategy, Fraction(self.k), weights, self.window, self.subsets, LONGEST - 1, BUDGET
        )

    @property
    def measures(self) -> dict:
        """Name -> SQL text of what tells a match row by row."""
        wanted = {
            "m": "MATCH_NUMBER()",
            "label": "CLASSIFIER()",
            "errors": "MATCH_ERRORS()",
            "missing": "MISSING()",
            "n": "FINAL count(*)",
            "first": "FIRST(id)",
            "last": "FINAL LAST(id)",
        }
        if self.strategy == STRICT and not self.one_row:
            wanted["kind"] = "ERROR_KIND()"
        if self.sizes:
            wanted["size"] = "MATCH_COUNT()"
        if self.report == BUNDLES:
            wanted |= {"b_start": "BUNDLE_START()", "b_end": "BUNDLE_END()", "b_size": "BUNDLE_SIZE()"}
        return wanted

    def to_sql(self, approx=True) -> str:
        """The clause; approx=False: its exact twin, all matches without an error."""
        measures = self.measures if approx else {name: self.measures[name] for name in ("m", "label", "n", "first", "last")}
        parts = ["PARTITION BY p", f"ORDER BY t{' DESC' if self.descending else ''}, id"]
        parts.append("MEASURES " + ", ".join(f"{sql} AS {name}" for name, sql in measures.items()) + ", COMPLETE() AS complete" * self.complete)
        parts.append("ONE ROW PER MATCH" if self.one_row else "ALL ROWS PER MATCH")
        if not approx:
            parts.append(f"EVENT SELECTION {_STRATEGY_TEXT[self.strategy]} ALL MATCHES")
        elif not (self.default_words and self.strategy == ANY):
            parts.append(f"EVENT SELECTION {_STRATEGY_TEXT[self.strategy]}")
        parts.append(f"PATTERN ({self._timed(self.pattern_text)})")
        if self.window:
            parts.append(self._timed(f"WINDOW {self.window[1]}") if self.window[0] == "range" else f"WINDOW {self.window[1]} ROWS")
        if approx:
            line = f"APPROX {self.k}"
            if self.weights:
                line += " WEIGHTS (" + ", ".join(f"{name} {weight}" for name, weight in self.weights.items()) + ")"
            line = line if self.default_words and self.report == PROXY else f"{line} {self.report}"
            line += f" BUDGET {self.checks} CHECKS" if self.checks else ""
            parts.append(line + " USING HISTORY h EXPLORE" * self.explore)
        if self.subsets:
            parts.append("SUBSET " + ", ".join(f"{name} = ({', '.join(m)})" for name, m in self.subsets.items()))
        if self.defines:
            parts.append("DEFINE " + ", ".join(f"{v} AS {expr.to_sql(e)}" for v, e in self.defines.items()))
        return "\n".join(parts)

    def _timed(self, text):
        return text if self.unit is None else re.sub(r"\b(WITHIN|WINDOW) (\d+)", rf"\1 INTERVAL '\2' {self.unit}", text)

    def with_(self, **changes) -> Case:
        return replace(self, **changes)


# --- random rows and clauses -------------------------------------------------------------------------------------


def random_partition(rng, case) -> list[dict]:
    """Rows of one partition in order: ties, gaps and NULLs in t, id the position."""
    rows = expr.random_rows(rng, rng.randrange(1, LONGEST))
    at = rng.randrange(-3, 4)
    nulls = rng.choice([1, 1, 2]) if rng.random() < 0.1 else 0
    times = []
    for _ in rows[nulls:]:
        times.append(at)
        at += rng.choice([0, 0, 1, 1, 1, 2, 3]) * (-1 if case.descending else 1)
    gone = [None] * (len(rows) - len(times))
    times = times + gone if case.descending else gone + times  # as Spark orders NULLs
    return [{**row, "t": t} for row, t in zip(rows, times, strict=True)]


def partitions(rng, case, count) -> list[list[dict]]:
    return [random_partition(rng, case) for _ in range(count)]


def random_case(rng, *, strategy=None, report=None, shapes=("letters", "plain", "plain", "negation", "negation")) -> Case:
    """A clause that keeps the static rules, that the oracle can spell out and that mostly matches something now and then."""
    while True:
        case = _random_case(rng, strategy, report, shapes)
        if case is None:
            continue
        try:
            samples = [case.oracle.all_matches(rows, [row["t"] for row in rows]) for rows in partitions(rng, case, 6)]
        except Budget:
            continue
        if sum(map(bool, samples)) >= 2 or rng.random() < 0.2:
            return case


def _random_case(rng, strategy, report, shapes):
    strategy = strategy or rng.choice([ANY, ANY, ANY, STRICT, STRICT])
    shape = rng.choice([s for s in shapes if strategy != STRICT or s != "negation"])
    names = ["A", "B", "C", "D"][: rng.choice([2, 3, 3, 4, 4])]
    negated = []
    if shape == "letters":
        p = _letters(rng, names)
    elif shape == "plain":
        p = _plain(rng, names)
    else:
        p, negated = _negation(rng, names)
    if rng.random() < 0.12:
        p = _anchored(rng, p)
    if strategy == STRICT and rng.random() < 0.25 or rng.random() < 0.06:
        p = _hidden(rng, p)
    if _occurrences(p) > 6:
        return None
    positive = [v for v in pattern.variables(p) if v not in negated]
    subsets = {}
    if rng.random() < 0.35:
        subsets["S"] = tuple(sorted(rng.sample(positive, min(len(positive), rng.choice([1, 2, 2, 3])))))
    defines = {}
    for name in positive:
        if rng.random() < 0.93:
            defines[name] = _define(rng, name, positive, tuple(subsets), shape)
    for name in negated:
        defines[name] = _define(rng, name, positive, tuple(subsets), shape, negated=True)
    weights = {name: rng.choice(_WEIGHTS) for name in positive if rng.random() < 0.2}
    for name in negated:
        if rng.random() < 0.6:
            weights[f"~{name}"] = rng.choice(["0.25", "0.5", "1", "1", "1.25", "2"])
    if strategy == STRICT and rng.random() < 0.4:
        weights["EXTRA"] = rng.choice(["0.5", "0.5", "1", "1.25", "2"])
    bound = cost_of_nothing(p, {name: Fraction(weight) for name, weight in weights.items()})
    choices = [k for k in _ERRORS if Fraction(k) < bound]
    if rng.random() < 0.9:
        choices = [k for k in choices if k != "0"]
    if not choices:
        return None
    report = report or rng.choice([ALL, ALL, ALL, PROXY, PROXY, PER_ERROR, BUNDLES])
    window = None
    if report == BUNDLES or _negated_at_an_end(p) or rng.random() < 0.4:
        window = ("rows", rng.randrange(2, 7)) if rng.random() < 0.4 else ("range", rng.randrange(2, 8))
    return Case(
        p, pattern.to_text(p, rng), defines, strategy, rng.choice(choices), weights, window, subsets, report,
        rng.choice([None, "SECOND"]), rng.random() < 0.2, rng.random() < 0.2, rng.random() < 0.4,
    )  # fmt: skip


def _occurrences(p) -> int:
    return 1 if p[0] == "var" else sum(map(_occurrences, pattern.children(p)))


def _letters(rng, names):
    """Letters in a row, some with a quantifier, some of them in place of others; as in the paper."""
    parts = []
    for _ in range(rng.choice([2, 3, 3, 4, 4])):
        part = ("var", rng.choice(names))
        roll = rng.random()
        if roll < 0.15:
            part = ("alt", [part, ("var", rng.choice(names))])
        elif roll < 0.4:
            part = ("rep", part, *rng.choice([(0, None), (1, None), (0, 1), (2, 2), (1, 2), (2, 3), (2, None)]), rng.random() < 0.7)
        parts.append(part)
    return ("cat", parts)


def _plain(rng, names):
    def part():
        depth = rng.choice([0, 0, 1, 1, 2])
        return pattern.random_pattern(rng, names, depth, exclude=False, anchors=rng.random() < 0.2, empty=rng.random() < 0.1)

    parts = [part() for _ in range(rng.choice([1, 2, 2, 3]))]
    if rng.random() < 0.15:
        parts.append(("permute", [part(), part()]))
    p = ("cat", parts) if len(parts) > 1 else parts[0]
    if rng.random() < 0.15:
        p = ("alt", [p, ("cat", [part(), part()])])
    return selection._with_windows(rng, p)


def _negation(rng, names):
    p = _letters(rng, names) if rng.random() < 0.5 else _plain(rng, names)
    parts = list(p[1]) if p[0] == "cat" else [p]
    if rng.random() < 0.2:
        parts[0] = ("cat", [("var", names[0]), ("neg", "M"), ("var", names[-1])])
    negated = rng.sample(["M", "N"], rng.choice([1, 1, 1, 2]))
    for name in negated:
        inner = len(parts) > 1 and rng.random() < 0.8
        parts.insert(rng.randrange(1, len(parts)) if inner else rng.choice([0, len(parts)]), ("neg", name))
    p = ("cat", parts)
    if rng.random() < 0.12:
        p = ("alt", rng.sample([p, ("cat", [("var", names[0]), ("var", names[-1])])], 2))
    return p, [v for v in pattern.variables(p) if v in ("M", "N")]


def _anchored(rng, p):
    """With an anchor at an end, or where only what is missing can make room for it."""
    parts = list(p[1]) if p[0] == "cat" else [p]
    inner = rng.choice([0, 0, 1])
    if rng.random() < 0.5:
        parts.insert(inner, ("start",))
    else:
        parts.insert(len(parts) - inner, ("end",))
    return ("cat", parts)


def _hidden(rng, p):
    """The pattern with some of its parts in {- -}."""
    if p[0] in ("cat", "alt"):
        return (p[0], [_hidden(rng, child) for child in p[1]])
    return p if p[0] in ("neg", "start", "end") or rng.random() < 0.6 else ("excl", p)


def _negated_at_an_end(p) -> bool:
    """Can a negation stand before or behind all rows of an exact match?"""

    def reaches(p, backwards):
        """(may a negation come first, may no row come at all)"""
        if p[0] == "neg":
            return True, True
        if p[0] == "var":
            return False, False
        if p[0] == "alt":
            found = [reaches(child, backwards) for child in p[1]]
            return any(f for f, _ in found), any(e for _, e in found)
        if p[0] == "rep":
            first, empty = reaches(p[1], backwards)
            return first, empty or p[2] == 0
        if p[0] == "permute":
            found = [reaches(child, backwards) for child in p[1]]
            return any(f for f, _ in found), all(e for _, e in found)
        first, empty = False, True
        for child in pattern.children(p)[:: -1 if backwards else 1]:
            if empty:
                f, e = reaches(child, backwards)
                first, empty = first or f, e
        return first, empty

    return reaches(p, False)[0] or reaches(p, True)[0]


def _define(rng, name, positive, subsets, shape, negated=False):
    """Mostly a row condition, with a chance of conjuncts that look at other variables, which may be missing."""
    roll = rng.random()
    if roll < 0.25:
        shape = "negation" if shape == "negation" else "plain"
        return selection._random_define(rng, name, positive, subsets, shape, selection.ALL, prior=not negated)
    parts = [_letter(rng)] if roll < 0.9 or not positive else []
    if roll > 0.55 and positive:
        parts += [_linked(rng, name, positive, subsets, negated) for _ in range(rng.choice([1, 1, 2]))]
    rng.shuffle(parts)
    whole = parts[0]
    for part in parts[1:]:
        whole = ("and", whole, part) if rng.random() < 0.8 else ("and", part, whole)
    return whole


def _letter(rng):
    roll = rng.random()
    if roll < 0.65:
        return (rng.choice(["=", "=", "=", "<>"]), ("col", "s"), ("lit", rng.choice("abc")))
    return (rng.choice(["<", "<=", ">", ">="]), ("col", rng.choice("vw")), ("lit", rng.randrange(1, 4)))


def _linked(rng, name, positive, subsets, negated):
    """A conjunct over the match."""
    others = [v for v in positive if v != name] or positive
    over = rng.choice([*others, *others, *subsets, name if not negated else others[0]])
    column = ("col", rng.choice("vvw"))
    comparison = rng.choice(["<", "<=", ">", ">=", "<>", "="])
    roll = rng.random()
    if roll < 0.4:
        return (comparison, column, ("nav", "LAST", over, 0, column))
    if roll < 0.55:
        return (comparison, column, ("nav", rng.choice(["FIRST", "LAST"]), over, rng.choice([0, 0, 1]), column))
    if roll < 0.65:
        return (rng.choice(["<", "<=", ">="]), ("agg", "count", rng.choice([over, None]), "*", False), ("lit", rng.randrange(1, 4)))
    if roll < 0.75:
        return (
            comparison,
            ("agg", rng.choice(["sum", "min", "max", "avg", "count"]), rng.choice([over, over, None]), column, False),
            column,
        )
    if roll < 0.82:
        return (comparison, column, ("prev", rng.choice([1, 1, 2]), column))
    if roll < 0.88 and not negated:
        return (comparison, column, ("prior", ("nav", "LAST", rng.choice([name, over]), 0, column)))
    if roll < 0.93 and not negated:
        return (comparison, column, ("prior", ("agg", rng.choice(["avg", "sum", "max"]), rng.choice([name, over]), column, False)))
    if roll < 0.96:
        return ("is null", ("nav", "LAST", over, 0, ("col", "w")))
    return ("or", (comparison, column, ("nav", "LAST", over, 0, column)), ("is null", ("nav", "LAST", over, 0, ("col", "v"))))


# --- the engine in process ---------------------------------------------------------------------------------------


def run(
    case: Case, some: dict[int, list[dict]], chunk_rows=None, settings: Settings = DEFAULT, approx=True, slices=None, cuts=None
) -> dict[int, list[dict]]:
    """Output rows by partition, each {measure or "id": value}, in the engine's order. See tests.property.in_process.run."""
    plan = without_catching(make_plan(parse_clause(case.to_sql(approx)), settings=settings))
    database = sqlite3.connect(":memory:")
    try:
        table = _inputs(plan, case, some, database)
        if slices is not None:
            table, plan = in_slices(plan, table, slices), cut(plan, slices)
        if cuts is not None:
            leaves = little_by_little(plan, table, cuts)
        elif chunk_rows is None:
            leaves = match_table(plan, table)
        else:
            engine = engine_for(prepare(plan, table.schema), chunk_rows)
            pieces = list(match_batches(engine, table.to_batches(max_chunksize=chunk_rows)))
            leaves = pa.concat_tables([engine.prepared.output_schema.empty_table(), *pieces])
        return _outputs(plan, leaves, database)
    finally:
        database.close()


def _inputs(plan, case, some, database) -> pa.Table:
    database.execute("CREATE TABLE t (p INT, id INT, t INT, v INT, w INT, s TEXT)")
    rows = [(p, *(row[c] for c in COLUMNS[1:])) for p, partition in some.items() for row in partition]
    database.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", rows)
    wanted = {name: "NULL" if name == HISTORY_COLUMN else sql for name, sql in plan.inputs}
    for name, sql in plan.ordered_inputs:
        wanted[name] = sql.replace(ORDER, "PARTITION BY p ORDER BY id")
    if plan.rows != "one":
        wanted.update({c: c for c in COLUMNS})
    types = {name: pa.bool_() if _is_boolean(unguarded(sql)) else None for name, sql in wanted.items()}
    if case.explore:
        types[HISTORY_COLUMN] = pa.list_(pa.struct(list(HISTORY_TYPES.items())))
    if case.unit:
        types |= {name: pa.timestamp("us") for name, sql in wanted.items() if sql == "t"}
    if plan.letters:
        bits = [f"(CASE WHEN {sql} THEN {1 << bit} ELSE 0 END)" for _, bit, sql in plan.letters]
        wanted[LETTERS] = " + ".join(bits)
        types[LETTERS] = pa.int64()
    selected = ", ".join(f"{_portable(sql)} AS {name}" for name, sql in wanted.items())
    needed = " OR ".join(f"({_portable(text)})" for text in plan.prefilter) or "true"
    order = ", ".join(["p", *(name for name, _ in plan.equal_keys), "id"])
    values = list(zip(*database.execute(f"SELECT {selected} FROM t WHERE {needed} ORDER BY {order}"), strict=True))
    return pa.table({name: _column(column, types[name]) for name, column in zip(wanted, values or [()] * len(wanted), strict=True)})


def _column(values, kind) -> pa.Array:
    if kind == pa.timestamp("us"):
        return pa.array([None if v is None else v * 1_000_000 for v in values], kind)
    return _array(values, kind)


def _plain_value(value):
    """What sqlite can hold; lists as JSON, a time in seconds again."""
    if isinstance(value, list):
        return json.dumps(value)
    if isinstance(value, decimal.Decimal):
        return float(value)
    return value


def _outputs(plan, leaves, database) -> dict[int, list[dict]]:
    names = leaves.column_names
    columns = []
    for column in leaves.columns:
        if pa.types.is_timestamp(column.type):
            seconds = column.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
            columns.append([None if v is None else v // 1_000_000 for v in seconds])
        else:
            columns.append([_plain_value(v) for v in column.to_pylist()])
    database.execute(f"CREATE TABLE leaves ({', '.join(names)})")
    database.executemany(f"INSERT INTO leaves VALUES ({', '.join('?' * len(names))})", zip(*columns, strict=True))
    selected = dict(plan.outputs)
    if plan.rows != "one":
        selected["id"] = "id"
    partition = "__p0" if "__p0" in names else "p"
    found: dict[int, list[dict]] = {}
    owned = f"WHERE {OWN} = 0" if plan.slice else ""
    for p, *values in database.execute(f"SELECT {partition}, {', '.join(selected.values())} FROM leaves {owned} ORDER BY rowid"):
        found.setdefault(p, []).append(dict(zip(selected, values, strict=True)))
    return found


# --- both as what can be compared --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """A match as its output shows it."""

    rows: tuple  # those not hidden; ONE ROW: none
    labels: tuple  # theirs; ONE ROW: of the last row
    kinds: tuple | None  # theirs, under STRICT; ONE ROW: None
    errors: Fraction
    missing: tuple
    whole: tuple  # first and last row and number of rows, hidden ones included
    bundle: tuple | None = None  # start, end, size
    size: int | None = None  # MATCH_COUNT()

    @property
    def last(self):
        return self.whole[1]


def seen_by_oracle(case, t, bundle=None) -> Seen | None:
    """None where all rows are hidden: such a match has no output rows."""
    whole = (t.rows[0], t.rows[-1], len(t.rows))
    if case.one_row:
        return Seen((), t.labels[-1:], None, t.error, t.missing, whole, bundle)
    shown = [i for i, hidden in enumerate(t.hidden) if not hidden]
    if not shown:
        return None
    rows, labels, kinds = (tuple(some[i] for i in shown) for some in (t.rows, t.labels, t.kinds))
    return Seen(rows, labels, kinds if case.strategy == STRICT else None, t.error, t.missing, whole, bundle)


def expected(case, rows) -> list[set]:
    """For each match of one partition, in the order of the report, what it may look like."""
    times = [row["t"] for row in rows]
    everything = case.oracle.all_matches(rows, times)
    if case.report == ALL:
        return [{seen_by_oracle(case, t)} for t in everything]
    if case.report in (PROXY, PER_ERROR):
        some = oracle.proxies(everything) if case.report == PROXY else oracle.per_error(everything)
        return [{_sized(case, seen_by_oracle(case, t), everything, proxy.rows[-1]) for t in _choices(proxy)} for proxy in some]
    out, last = [], -1
    for b in oracle.bundles(oracle.proxies(everything), case.window, times):
        # its match points are the next ones behind those of the bundle before
        points = sorted({t.rows[-1] for t in everything if t.rows[-1] > last})[: b.size]
        last = points[-1]
        out.append({_sized(case, seen_by_oracle(case, t, (b.start, b.end, b.size)), everything, *points) for t in _choices(b.best)})
    return out


def _sized(case, seen, everything, *points) -> Seen | None:
    """With the number of all trajectories that end at the match points."""
    return seen if seen is None or not case.sizes else replace(seen, size=sum(t.rows[-1] in points for t in everything))


def _choices(proxy) -> list:
    """What may be told for a match point: also what hides other rows (docs/decisions.md)."""
    return [replace(t, hidden=hidden) for t in proxy.choices for hidden in t.hidings]


def seen_by_engine(case, rows: list[dict]) -> list[Seen]:
    """The matches of one partition, in the order of their numbers, from its output rows."""
    found: dict[int, list[dict]] = {}
    for row in rows:
        found.setdefault(row["m"], []).append(row)
    matches = []
    for number in sorted(found):
        some = found[number]
        once = [(row["errors"], row["missing"], row["first"], row["last"], row["n"]) for row in some]
        assert len(set(once)) == 1 and (len(some) == 1 or not case.one_row), some  # the same on all rows of a match
        errors, missing, *whole = once[0]
        bundle = tuple(some[0][name] for name in ("b_start", "b_end", "b_size")) if case.report == BUNDLES else None
        shown = () if case.one_row else tuple(row["id"] for row in some)
        kinds = tuple(row["kind"] for row in some) if case.strategy == STRICT and not case.one_row else None
        labels = tuple(row["label"] for row in some)
        sizes = {row.get("size") for row in some}
        assert len(sizes) == 1, some
        matches.append(Seen(shown, labels, kinds, Fraction(str(errors)), tuple(json.loads(missing)), tuple(whole), bundle, sizes.pop()))
    return matches


def numbers(rows: list[dict]) -> list[int]:
    """The match numbers in the order of the output."""
    return list(dict.fromkeys(row["m"] for row in rows))


def has_exclusion(case) -> bool:
    return pattern.contains(case.pattern, ("excl",))
