"""BUDGET and MATCH HISTORY over every kind of window and order, with as little room as there can be, against their oracle."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.strategy import strategy_of
from sparkcep.engine.budget import best_effort as budgeted_engine
from sparkcep.engine.core.kernel_loop import OutputRoom
from sparkcep.engine.frontier import frontier as front_engine
from sparkcep.errors import ClauseError
from sparkcep.plan.build import make_plan
from tests.oracle import budget as oracle
from tests.property.approx import approx_cases
from tests.property.budget import test_budget as choices
from tests.selection import first

NOTHING = "-"  # the letter of a row that no variable takes
DAY = timedelta(days=1)
_ZERO = datetime(1969, 12, 31, 23, 59, 50, tzinfo=UTC)


def _whole(of, low):
    return lambda t: low + of * t, lambda w: str(of * w), pa.int64()


# of each kind: the value at a time, the text of a window, the type; windows and times are whole numbers of one unit
KINDS = {
    "int": _whole(1, -7),
    "far": _whole(10**15, -(10**16)),
    "least": _whole(1, -(1 << 63) + 3),
    "greatest": _whole(1, (1 << 63) - 60),
    "timestamp": (lambda t: _ZERO + t * timedelta(microseconds=1_500_001), lambda w: f"INTERVAL '{w * 1_500_001 / 10**6:.6f}' SECOND", pa.timestamp("us", tz="UTC")),
    "timestamp_ntz": (lambda t: _ZERO.replace(tzinfo=None) + t * timedelta(hours=5), lambda w: f"INTERVAL '{w * 5}' HOUR", pa.timestamp("us")),
    "date": (lambda t: date(1969, 12, 28) + t * DAY, lambda w: f"INTERVAL '{w}' DAY", pa.date32()),
    "double": (lambda t: -3.5 + t * 0.25, lambda w: str(w * 0.25), pa.float64()),
    "float": (lambda t: -3.5 + t * 0.5, lambda w: str(w * 0.5), pa.float32()),
    "decimal": (lambda t: Decimal("-2.50") + t * Decimal("0.25"), lambda w: str(w * Decimal("0.25")), pa.decimal128(10, 2)),
}  # fmt: skip


def random_places(rng, kind, count, explore) -> list[tuple[str, list[int]]]:
    """Partitions of (letters, times); longer ones where agents ``explore``."""
    found = []
    for letters, times in choices.random_partitions(rng, count // 3, 45) if explore else choices.random_partitions(rng, count):
        letters = "".join(NOTHING if rng.random() < 0.1 else letter for letter in letters)
        found.append((letters, [*times] if kind != "rows" else list(range(len(times)))))
    return found


def compare(rng, queries, count) -> Counter:
    tally: Counter = Counter()
    for i in range(queries):
        kind = rng.choice([*KINDS, "rows"])
        learning = rng.random() < 0.4
        query = choices.random_budgeted(rng, checks=not learning or rng.random() < 0.5)
        query.intervals = rng.choice([1, 2, 3, 4, 8])
        recorded_by = query.intervals
        if query.checks and i % 2:
            query.intervals = rng.choice([1, 2, 3, 4, 8])  # of the history, whatever is recorded
            query.history = choices.random_history(rng, query) | {(1, Fraction(0), query.intervals, query.intervals - 1): (7, (0,))}
            query.points = choices.random_points(rng, query) if i % 4 == 1 else None
            query.explore = rng.random() < 0.5
        down = kind != "rows" and rng.random() < 0.4
        some = random_places(rng, kind, count, query.explore)
        value, window, kept = KINDS["int" if kind == "rows" else kind]
        whole = query.window
        if kind == "date" and rng.random() < 0.5:
            query.window = Fraction(whole * 2 + 1, 2)
            window = lambda w: f"INTERVAL '{int(w * 24)}' HOUR"  # noqa: E731
        some = [(letters, [20 - t for t in times] if down else times) for letters, times in some]
        apart = [rng.randrange(3) if kind != "rows" and rng.random() < 0.3 else 0 for _ in some]
        # rows without a time come first, as NULLs do, or last, as NaN does; whatever they are, they are in no match
        none, before = (float("nan"), down) if kind in ("double", "float") and rng.random() < 0.5 else (None, not down)
        timed = [[none] * (n * before) + [value(t) for t in times] + [none] * (n * (not before)) for n, (_, times) in zip(apart, some)]
        values = pa.array([t for times in timed for t in times], type=kept)
        shipped = [("a" * (n * before) + letters + "a" * (n * (not before)), times) for n, (letters, times) in zip(apart, some)]
        kinds = ["PROXY MATCHES", "PROXY MATCHES PER ERROR", "MATCH BUNDLES"] if query.proxies else ["ALL MATCHES"]
        shown = rng.choice(kinds)
        report = f"MATCH HISTORY OF {'PROXY' if query.proxies else 'ALL'} MATCHES INTERVALS {recorded_by}" if learning else shown
        written = choices.clause(query, report, "" if learning else f"MEASURES {choices.REPORTED}")
        text = written.replace(f"WINDOW {query.window}", f"WINDOW {window(query.window)}" if kind != "rows" else f"WINDOW {query.window} ROWS")
        text = text.replace("ORDER BY t, id", "ORDER BY t DESC, id") if down else text
        got = choices.ran(text, query, shipped, rng.choice([None, 1, 5]), choices.as_rows(query.history, query.points) if query.history is not None else None, values)
        for p, (letters, times) in enumerate(some):
            later = apart[p] * before
            answer = query.answer(letters, times, recorded_by)
            about = f"{kind} {text}\n{letters} {times}\n{query.history}"
            if learning:
                assert recorded(got.get(p, [])) == wanted(answer, query, times, times.index if kind == "rows" else value), about
                tally["vectors"] += len(answer.visits)
            else:
                expected = [(tuple(row + later for row in rows), *about_it) for rows, *about_it in reported(shown, answer, query, times)]
                have = [choices.seen(row) for row in got.get(p, [])]
                assert sorted(have, key=lambda x: x[:2]) == sorted(expected, key=lambda x: x[:2]), about
                tally["matched"] += bool(expected)
            tally["agents"] += answer.agents
            tally["left"] += sum(answer.left.values()) > 0
            tally["pairs"] += 1
        tally[kind] += 1
        tally["promising"] += query.points is not None
    return tally


def reported(shown, answer, query, times) -> list[tuple]:
    """(rows, errors, COMPLETE(), CHECKS_LEFT_OUT(), COVERAGE()) of what a report has of an answer."""
    found: list[tuple] = []
    if shown == "MATCH BUNDLES":
        for group in oracle.bundle_points(answer.matches, times, query.window):
            best = oracle.proxy([match for point in group for match in answer.matches[point]])
            found.append((best.rows, best.error, *choices.said(answer, query, times, group)))
        return found
    for point, matches in sorted(answer.matches.items()):
        said = choices.said(answer, query, times, [point])
        if shown == "ALL MATCHES":
            found += [(rows, error, *said) for (rows, _), error in oracle.distinct(matches).items()]
        else:
            costs, latest = sorted({match.error for match in matches}), -1
            for cost in costs if shown.endswith("PER ERROR") else costs[:1]:
                best = oracle.proxy([match for match in matches if match.error == cost])
                if best.rows[0] > latest:  # a dearer match that begins no later tells nothing
                    found.append((best.rows, best.error, *said))
                    latest = best.rows[0]
    return found


def recorded(rows) -> dict:
    names = ("place", "errors", "remaining", "idle")
    return {tuple(Fraction(row[name]) for name in names): (row["visits"], row["points"], row["bundles"]) for row in rows}


def wanted(answer, query, times, value) -> dict:
    points = {point for reached in answer.points.values() for point in reached}
    starts = {point: group[0] for group in oracle.bundle_points(points, times, query.window) for point in group}
    found = {}
    for vector, visits in answer.visits.items():
        reached = answer.points.get(vector, set())
        found[vector] = (visits, len(reached), [value(times[start]) for start in sorted({starts[point] for point in reached})])
    return found


def shrink(monkeypatch) -> None:
    """Room of one place wherever a search asks for more."""
    for name in ("ENTRIES", "CANDIDATES", "VECTORS", "CLASSES"):
        monkeypatch.setattr(budgeted_engine, name, 1)
    for name in ("ENTRIES", "CLASSES"):
        monkeypatch.setattr(front_engine, name, 1)
    monkeypatch.setattr(front_engine, "OutputRoom", lambda events, labels, width, **kinds: OutputRoom(1, 1, width, **kinds))


@pytest.fixture
def little_room(monkeypatch):
    shrink(monkeypatch)


@pytest.mark.parametrize("seed", first(range(24), wider=2))
def test_windows_of_every_kind(seed):
    tally = compare(random.Random(f"windows {seed}"), 10, 10)
    assert tally["matched"] >= 0.1 * tally["pairs"] and tally["left"] >= 0.2 * tally["pairs"] and tally["vectors"] >= 40


@pytest.mark.parametrize("seed", first(range(16), 0, wider=1))
def test_room_that_runs_out(seed, little_room):
    tally = compare(random.Random(f"room {seed}"), 15, 10)
    assert tally["matched"] >= 0.1 * tally["pairs"] and tally["vectors"] >= 75


@pytest.mark.further
def test_many_candidates_of_few_runs():
    """More candidates at one row than there is room for beside the runs, of which there are few: once no end was found."""
    query = oracle.Budgeted(("cat", [("var", name) for name in "ABCD"]), {name: {"a"} for name in "ABCD"}, Fraction(2), {}, 100, False)
    text = choices.clause(query, "MATCH HISTORY OF ALL MATCHES INTERVALS 1", "")
    (rows,) = choices.ran(text, query, [("a" * 30, list(range(30)))]).values()
    assert sum(row["visits"] for row in rows) == 5542 and {row["points"] for row in rows} <= set(range(31))


@pytest.mark.parametrize("seed", first(range(6), wider=2))
def test_room_that_runs_out_where_conditions_look_at_the_match(seed, little_room):
    tally = choices.compare(random.Random(f"room and conditions {seed}"), 12, 20)
    assert tally.matched >= 0.3 * tally.pairs


@pytest.mark.parametrize("seed", first(range(12), wider=1))
def test_little_room_changes_nothing(seed, monkeypatch):
    """Conditions over the match, groups with windows, and few checks: the same rows with little room, whatever the chunks are."""
    rng = random.Random(f"little room {seed}")
    compared = told = 0
    while compared < 200:
        case = choices.budgeted_case(rng).with_(checks=rng.randrange(1, 5))
        try:
            strategy_of(make_plan(parse_clause(case.to_sql())))
        except ClauseError as error:
            assert error.error_class in ("SPARKCEP.BUDGET", "SPARKCEP.PATTERN_TOO_COMPLEX"), error
            continue
        some = approx_cases.partitions(rng, case, 20)
        text, some = case.to_sql(), dict(enumerate(some))
        wanted = approx_cases.run(case, some)
        with monkeypatch.context() as patched:
            shrink(patched)
            assert approx_cases.run(case, some, **rng.choice([{}, {"chunk_rows": rng.randrange(1, 8)}, {"cuts": rng}])) == wanted, text
        compared += len(some)
        told += len(wanted)
    assert told >= 0.2 * compared


@pytest.mark.parametrize("seed", first(range(12), wider=1))
def test_conditions_that_fail_use_checks(seed):
    """Runs that a condition can tell apart are candidates of their own, and a check whose condition fails is one."""
    rng, tally = random.Random(f"conditions under a budget {seed}"), Counter()
    for _ in range(20):
        query = choices.random_budgeted(rng, checks=rng.random() < 0.8)
        # the variable of the first row is never missing
        inner = {name for name, _, _ in oracle.Places(query.pattern, query.weights).variable.values()}
        query.pattern, query.takes["Z"], query.weights["Z"] = ("cat", [("var", "Z"), query.pattern]), {"a", "b"}, query.k + 1
        query.above = rng.choice(sorted(inner))
        learning = query.checks is None or rng.random() < 0.4
        some = choices.random_partitions(rng, 10, 9)
        if query.checks and rng.random() < 0.4:
            query.intervals = rng.choice([1, 2, 4])
            query.history = choices.random_history(rng, query)
            query.explore = rng.random() < 0.6
            some = choices.random_streams(rng, 2) if query.explore else some
        kept = "PROXY" if query.proxies else "ALL"
        drawn = [[rng.randrange(4) for _ in letters] for letters, _ in some]
        text = choices.clause(query, f"MATCH HISTORY OF {kept} MATCHES INTERVALS 2" if learning else f"{kept} MATCHES", "" if learning else f"MEASURES {choices.REPORTED}")
        listed = ", ".join(f"'{letter}'" for letter in sorted(query.takes[query.above]))
        text = text.replace(f"{query.above} AS s IN ({listed})", f"{query.above} AS s IN ({listed}) AND v > Z.v")
        values = pa.array([t for _, times in some for t in times])
        got = choices.ran(text, query, some, rng.choice([None, 5]), choices.as_rows(query.history) if query.history else None, values, [v for part in drawn for v in part])
        for p, (letters, times) in enumerate(some):
            answer, about = query.answer(letters, times, 2 if learning else None, drawn[p]), f"{text}\n{letters} {times} {drawn[p]}"
            if learning:
                assert recorded(got.get(p, [])) == wanted(answer, query, times, lambda t: t), about
                tally["vectors"] += len(answer.visits)
            else:
                expected = reported(f"{kept} MATCHES", answer, query, times)
                have = [choices.seen(row) for row in got.get(p, [])]
                assert sorted(have, key=lambda x: x[:2]) == sorted(expected, key=lambda x: x[:2]), about
                tally["matched"] += bool(expected)
    assert tally["matched"] >= 7 and tally["vectors"] >= 50
