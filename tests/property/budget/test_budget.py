"""BUDGET n CHECKS against the same clause without one, and against its oracle."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction

import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.searches import BUDGETED
from sparkcep.compiler.strategy import strategy_of
from sparkcep.engine.factory import engine_for, match_batches, prepare
from sparkcep.errors import ClauseError
from sparkcep.plan.build import make_plan
from sparkcep.plan.extend.budget import HISTORY_COLUMN
from sparkcep.settings import DEFAULT
from tests.oracle import budget as oracle
from tests.oracle import pattern
from tests.oracle.selection import ANY, NEXT
from tests.property.approx import approx_cases
from tests.property.approx.test_approx_differential import Tally
from tests.selection import first

ENOUGH = 1_000_000
_VECTOR = [("place", pa.int32()), ("errors", pa.float64()), ("remaining", pa.int32()), ("idle", pa.int32()), ("visits", pa.int64()), ("points", pa.int64())]
HISTORY_TYPE = pa.list_(pa.struct([("pattern", pa.string()), *_VECTOR, ("bundles", pa.list_(pa.int32()))]))


def budgeted_case(rng, shapes=("letters", "plain"), strategy=ANY):
    """A random clause that a BUDGET goes with, with more checks than it has candidates."""
    while True:
        case = approx_cases.random_case(rng, strategy=strategy, shapes=shapes)
        if case.window is not None:
            return case.with_(checks=ENOUGH)


def compare(rng, queries, count, *shapes, strategy=ANY) -> Tally:
    tally = Tally()
    while tally.pairs < queries * count * 0.8:
        case = budgeted_case(rng, shapes or ("letters", "plain"), strategy)
        try:
            search = strategy_of(make_plan(parse_clause(case.to_sql()))).search
        except ClauseError as error:
            assert error.error_class in ("SPARKCEP.BUDGET", "SPARKCEP.PATTERN_TOO_COMPLEX"), error
            continue
        assert search == BUDGETED
        some = approx_cases.partitions(rng, case, count)
        tally.compare(case, some, **({}, {"chunk_rows": rng.randrange(1, 8)}, {"cuts": rng})[tally.pairs // count % 3])
    return tally


@pytest.mark.parametrize("seed", first(range(22), 0, wider=1))
def test_with_enough_checks_nothing_is_left_out(seed):
    tally = compare(random.Random(f"enough {seed}"), 30, 40)
    assert tally.matched >= 0.35 * tally.pairs and tally.wrong >= 0.25 * tally.pairs


@pytest.mark.parametrize("seed", first(range(22), 0, wider=1))
def test_with_enough_checks_nothing_is_left_out_beside_a_negation(seed):
    tally = compare(random.Random(f"enough without {seed}"), 30, 40, "negation")
    assert tally.matched >= 0.35 * tally.pairs and tally.wrong >= 0.25 * tally.pairs


@pytest.mark.parametrize("shapes", [("letters", "plain"), ("negation",)])
@pytest.mark.parametrize("seed", first(range(8), 0, wider=1))
def test_with_enough_checks_nothing_is_left_out_under_skip_till_next(seed, shapes):
    tally = compare(random.Random(f"enough next {seed} {shapes}"), 20, 40, *shapes, strategy=NEXT)
    assert tally.matched >= 0.35 * tally.pairs and tally.wrong >= 0.25 * tally.pairs


# --- local conditions: every choice against the oracle ------------------------------------------------------------


LETTERS = "abcd"


def random_budgeted(rng, *, checks=True) -> oracle.Budgeted:
    """A clause of letters, sometimes with groups and quantifiers, that is not matched by nothing."""
    while True:
        names = ["A", "B", "C", "D"][: rng.choice([2, 3, 3, 4])]
        form = approx_cases._letters(rng, names) if rng.random() < 0.6 else _grouped(rng, names)
        form = _greedy(form)
        weights = {name: Fraction(rng.choice([1, 2, 3]), 2) for name in names if rng.random() < 0.2}
        places = oracle.Places(form, weights)
        bound = places.cost[oracle.START, places.end]
        choices = [Fraction(k, 2) for k in range(1, 5) if Fraction(k, 2) < bound]
        if choices and len(places.variable) <= 9:
            break
    takes = {name: set(rng.sample(LETTERS, rng.choice([1, 2, 2]))) for name in names}
    return oracle.Budgeted(form, takes, rng.choice(choices), weights, rng.randrange(3, 13), rng.random() < 0.6, rng.randrange(1, 5) if checks else None)


def random_hindered(rng, *, checks=True) -> oracle.Budgeted:
    """The same with negations, some of which cost an error."""
    query = random_budgeted(rng, checks=checks)
    parts = list(query.pattern[1]) if query.pattern[0] == "cat" else [query.pattern]
    for name in "MN"[: rng.choice([1, 1, 2])]:
        parts.insert(rng.randrange(len(parts) + 1), ("neg", name))
        query.takes[name] = set(rng.sample(LETTERS, rng.choice([1, 1, 2])))
        if rng.random() < 0.3:
            query.weights[f"~{name}"] = Fraction(rng.choice([1, 2]), 2)
    query.pattern = ("cat", parts)
    return query


def _grouped(rng, names):
    parts = [("var", rng.choice(names)) for _ in range(rng.choice([1, 2]))]
    inner = approx_cases._letters(rng, names[:2])
    choice = rng.random()
    if choice < 0.4:
        inner = ("rep", inner, *rng.choice([(0, None), (1, None), (0, 1), (1, 2), (2, 2)]), True)
    elif choice < 0.6:
        inner = ("permute", [("var", name) for name in names[:2]])
    parts.insert(rng.randrange(len(parts) + 1), inner)
    return ("cat", parts)


def _greedy(form):
    """With greedy quantifiers, whose preferment is the order of places."""
    if form[0] in ("cat", "alt", "permute"):
        return (form[0], [_greedy(part) for part in form[1]])
    return ("rep", _greedy(form[1]), *form[2:4], True) if form[0] == "rep" else form


def clause(query: oracle.Budgeted, options: str, measures: str) -> str:
    names = sorted({name for name, _, _ in oracle.Places(query.pattern, query.weights).variable.values()} | set(pattern.variables(query.pattern)))
    weights = ", ".join(f"{name} {float(weight)}" for name, weight in query.weights.items() if name.strip("~") in names)
    listed = {name: ", ".join(f"'{letter}'" for letter in sorted(query.takes[name])) for name in names}
    budget = f"BUDGET {query.limit or f'{query.checks} CHECKS'}" if query.checks or query.limit else ""
    budget += " USING HISTORY h" if query.history is not None else ""
    budget += f" REFILL {query.refill} BUNDLES" if query.refill else ""
    budget += " AS PUBLISHED" if query.history is not None and query.points is None else ""
    budget += " EXPLORE" if query.explore else ""
    return f"""PARTITION BY p ORDER BY t, id {measures} PATTERN ({pattern.to_text(query.pattern, random.Random(1))}) WINDOW {query.window}
        APPROX {float(query.k)} {f"WEIGHTS ({weights})" if weights else ""} {options} {budget}
        DEFINE {", ".join(f"{name} AS s IN ({listed[name]})" for name in names)}"""


def ran(text: str, query: oracle.Budgeted, partitions: list[tuple[str, list[int]]], chunk_rows=None, history=None, values=None, drawn=(), totals=None, settings=DEFAULT) -> dict[int, list[dict]]:
    """Output rows of the engine over partitions of (letters, times), by partition and with the names of the measures.

    ``values``: what stands for the times of all rows; ``drawn``: of a column v; ``totals``, a list, gets those of the engine."""
    plan = make_plan(parse_clause(text), settings=settings)
    rows = [(p, i, s) for p, (letters, _) in enumerate(partitions) for i, s in enumerate(letters)]
    times = [t for _, some in partitions for t in some] if values is None else values
    columns = dict(zip(("p", "id", "s"), map(list, zip(*rows)))) | {"t": times, "v": drawn}
    data = {}
    for name, text_of in plan.inputs:
        data[name] = pa.array([history, *[None] * (len(rows) - 1)], type=HISTORY_TYPE) if name == HISTORY_COLUMN else pa.array(columns[text_of.strip("() ")])
    data["__letters"] = pa.array([sum(1 << letter.bit for letter in plan.letters if s in query.takes[plan.variables[letter.variable].upper()]) for s in columns["s"]])
    table = pa.table(data)
    prepared = prepare(plan, table.schema)
    engine = engine_for(prepared, chunk_rows)
    tables = match_batches(engine, table.to_batches(max_chunksize=chunk_rows))
    found: dict[int, list[dict]] = {}
    for row in pa.concat_tables([prepared.output_schema.empty_table(), *tables]).to_pylist():
        found.setdefault(row["__p0"], []).append({name: row.get(leaf) for name, leaf in plan.outputs})
    if totals is not None:
        totals += engine.task.totals.values()
    return found


def random_partitions(rng, count, most=12) -> list[tuple[str, list[int]]]:
    found = []
    for _ in range(count):
        size = rng.choice([1, *range(4, most + 1), *range(6, most + 1)])
        times = sorted(rng.randrange(0, 15) for _ in range(size))
        found.append(("".join(rng.choice(LETTERS) for _ in range(size)), times))
    return found


REPORTED = "array_agg(id) AS ids, array_agg(CLASSIFIER()) AS labels, MATCH_ERRORS() AS e, COMPLETE() AS c, CHECKS_LEFT_OUT() AS o, COVERAGE() AS v"


def said(answer: oracle.Answer, query: oracle.Budgeted, times, points) -> tuple:
    """COMPLETE(), CHECKS_LEFT_OUT() and COVERAGE() of match points."""
    rows = range(oracle.reach(points[0], times, query.window)[0], points[-1] + 1)
    left = sum(answer.left[j] for j in rows)
    return left == 0, left, min((float(answer.coverage.get(j, 1)) for j in rows), default=1.0)


def seen(row) -> tuple:
    return tuple(row["ids"]), Fraction(row["e"]).limit_denominator(), row["c"], row["o"], pytest.approx(row["v"])


def random_history(rng, query: oracle.Budgeted) -> dict:
    """Vectors of some of the places, with visits and bundles at will."""
    places, g = oracle.Places(query.pattern, query.weights), query.intervals
    costs = sorted({Fraction(i, 2) for i in range(int(query.k * 2) + 1)})
    return {
        (q, cost, remaining, idle): (rng.choice([1, 2, 3, 5, 40, 168]), tuple(rng.sample(range(6), rng.randrange(4))))
        for q in places.variable for cost in costs for remaining in range(1, g + 1) for idle in range(g) if rng.random() < 0.6
    }  # fmt: skip


def random_points(rng, query: oracle.Budgeted) -> dict:
    """How many match points the vectors of a history led to."""
    return {vector: rng.choice([0, 0, 1, visits, 3 * visits]) for vector, (visits, _) in query.history.items()}


def as_rows(history: dict, points: dict | None = None) -> list[dict]:
    names = ("place", "errors", "remaining", "idle")
    return [
        {"pattern": None, **dict(zip(names, (vector[0], float(vector[1]), *vector[2:]))), "visits": visits, "points": points and points[vector], "bundles": list(bundles)}
        for vector, (visits, bundles) in history.items()
    ]  # fmt: skip


def random_streams(rng, count) -> list[tuple[str, list[int]]]:
    """Partitions that are long enough for agents to begin, and to learn."""
    found = []
    for _ in range(count):
        size = rng.randrange(30, 90)
        found.append(("".join(rng.choice(LETTERS) for _ in range(size)), sorted(rng.randrange(0, 2 * size) for _ in range(size))))
    return found


def compare_choices(rng, queries, count, *, with_history, published=True, explore=False, some_query=random_budgeted) -> Counter:
    tally: Counter = Counter()
    for _ in range(queries):
        query = some_query(rng)
        if with_history:
            query.intervals = rng.choice([1, 1, 2, 4])
            query.history = random_history(rng, query) | {(1, Fraction(0), query.intervals, query.intervals - 1): (7, (0,))}
            query.points = None if published else random_points(rng, query)
            query.explore = explore
        some = random_streams(rng, count // 4) if explore else random_partitions(rng, count) if published else random_partitions(rng, count // 2, 30)
        report = "PROXY MATCHES" if query.proxies else "ALL MATCHES"
        text = clause(query, report, f"MEASURES {REPORTED}")
        totals: list[int] = []
        got = ran(text, query, some, rng.choice([None, 5]), as_rows(query.history, query.points) if with_history else None, totals=totals)
        summed, lost = [0] * 5, Fraction(0)
        for p, (letters, times) in enumerate(some):
            answer = query.answer(letters, times)
            wanted = []
            for point, matches in sorted(answer.matches.items()):
                about = said(answer, query, times, [point])
                if query.proxies:
                    best = oracle.proxy(matches)
                    wanted.append((best.rows, best.error, *about))
                else:
                    wanted += [(rows, error, *about) for (rows, _), error in oracle.distinct(matches).items()]
            have = [seen(row) for row in got.get(p, [])]
            assert sorted(have, key=lambda x: x[:2]) == sorted(wanted, key=lambda x: x[:2]), f"{text}\n{letters} {times}\n{query.history}"
            tally["pairs"] += 1
            tally["matched"] += bool(wanted)
            tally["agents"] += answer.agents
            tally["left"] += sum(answer.left.values()) > 0
            tally["covered"] += any(share < 1 for share in answer.coverage.values())
            told = (sum(answer.tried.values()), sum(answer.left.values()), sum(left > 0 for left in answer.left.values()), len(wanted), sum(row[2] for row in wanted))
            summed = [a + b for a, b in zip(summed, told)]
            lost += sum(1 - share for share in answer.coverage.values())
        assert totals[:5] == summed and totals[5] == pytest.approx(float(lost) * 1e6, abs=sum(len(letters) for letters, _ in some)), text
    return tally


@pytest.mark.parametrize("seed", first(range(32), wider=2))
def test_choices_without_history(seed):
    tally = compare_choices(random.Random(f"plain order {seed}"), 10, 12, with_history=False)
    assert tally["matched"] >= 0.3 * tally["pairs"] and tally["left"] >= 0.3 * tally["pairs"]


@pytest.mark.parametrize("seed", first(range(8), wider=1))
def test_choices_beside_a_negation(seed):
    tally = compare_choices(random.Random(f"hindered {seed}"), 16, 8, with_history=seed % 2 > 0, published=seed % 4 == 1, some_query=random_hindered)
    assert tally["matched"] >= 0.2 * tally["pairs"] and tally["left"] >= 0.25 * tally["pairs"]


@pytest.mark.parametrize("seed", first(range(8), 0, wider=1))
def test_choices_by_a_history(seed):
    tally = compare_choices(random.Random(f"history {seed}"), 20, 12, with_history=True)
    assert tally["matched"] >= 0.35 * tally["pairs"] and tally["covered"] >= 0.1 * tally["pairs"]


@pytest.mark.parametrize("seed", first(range(48), wider=2))
def test_choices_by_what_is_promising(seed):
    """In longer partitions, as the order depends on what came before."""
    tally = compare_choices(random.Random(f"promising {seed}"), 4, 12, with_history=True, published=False)
    assert tally["matched"] >= 0.2 * tally["pairs"] and tally["covered"] > 0


@pytest.mark.parametrize("seed", first(range(16), 0, wider=1))
def test_choices_with_agents(seed):
    """In still longer partitions, in which agents begin, learn and end."""
    rng = random.Random(f"agents {seed}")
    tally = compare_choices(rng, 6, 12, with_history=True, explore=True) + compare_choices(rng, 6, 12, with_history=True, published=False, explore=True)
    assert tally["matched"] >= 0.6 * tally["pairs"] and tally["agents"] >= tally["pairs"]


@pytest.mark.further
def test_agents_that_learn_for_long():
    """In one partition, where each action was tried so often that its value decides."""
    rng, compared = random.Random("values"), 0
    for proxies in (True, False):
        names = "ABCD"
        query = oracle.Budgeted(("cat", [("var", name) for name in names]), {name: {name.lower()} for name in names}, Fraction(2), {}, 9, proxies, 2, {(1, Fraction(0), 1, 0): (7, (0,))}, 1, explore=True)
        letters = "".join(rng.choice("abcd") for _ in range(900))
        text = clause(query, f"{'PROXY' if proxies else 'ALL'} MATCHES", f"MEASURES {REPORTED}")
        (got,) = ran(text, query, [(letters, list(range(900)))], None, as_rows(query.history)).values()
        answer = query.answer(letters, list(range(900)))
        wanted = {(match.rows, match.error) for some in answer.matches.values() for match in ([oracle.proxy(some)] if proxies else some)}
        assert sorted(seen(row)[:2] for row in got) == sorted(wanted)
        compared += answer.agents
    assert compared >= 60


@pytest.mark.parametrize("seed", first(range(32), wider=2))
def test_histories(seed):
    """MATCH HISTORY, of proxies and of all runs, with and without a budget."""
    rng, vectors = random.Random(f"recorded {seed}"), 0
    for i in range(20):
        query = random_budgeted(rng, checks=i % 2 == 1)
        query.intervals = rng.choice([1, 2, 3, 8])
        some = random_partitions(rng, 12, 12 if query.checks or query.proxies else 8)
        text = clause(query, f"MATCH HISTORY OF {'PROXY' if query.proxies else 'ALL'} MATCHES INTERVALS {query.intervals}", "")
        got = ran(text, query, some, rng.choice([None, 5]))
        for p, (letters, times) in enumerate(some):
            answer = query.answer(letters, times)
            points = {point for reached in answer.points.values() for point in reached}
            groups = oracle.bundle_points(points, times, query.window)
            starts = {point: times[group[0]] for group in groups for point in group}
            wanted = {
                vector: (visits, len(answer.points.get(vector, ())), sorted({starts[point] for point in answer.points.get(vector, ())}))
                for vector, visits in answer.visits.items()
            }  # fmt: skip
            have = {
                (row["place"], Fraction(row["errors"]), row["remaining"], row["idle"]): (row["visits"], row["points"], row["bundles"])
                for row in got.get(p, [])
            }  # fmt: skip
            assert have == wanted, f"{text}\n{letters} {times}"
            vectors += len(wanted)
    assert vectors >= 750
