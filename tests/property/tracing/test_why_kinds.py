"""Answers of sparkcep.why for ranked and approximate matches against all matches of the oracles, over random clauses."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from collections import Counter
from fractions import Fraction

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.settings import Settings
from sparkcep.tracing.answers.differs import UNTRUE
from sparkcep.tracing.answers.explain import Asked
from sparkcep.tracing.answers.values import row_spans
from sparkcep.tracing.conditions.question import Question, question_of
from sparkcep.tracing.kinds import approximate, listing, ranked
from sparkcep.tracing.kinds.kinds import explain_rows
from sparkcep.tracing.kinds.ranked import RankList
from tests.oracle import approx, expr, pattern, selection
from tests.oracle.approx_sides import Conjoined
from tests.property.topk.ranking_cases import window_starts
from tests.property.tracing.why_cases import frozen
from tests.selection import first
from tests.support.why_kinds import compute

CLAUSES = 60  # a seed
_STRATEGIES = {selection.STRICT: "STRICT CONTIGUITY", selection.NEXT: "SKIP TILL NEXT MATCH", selection.ANY: "SKIP TILL ANY MATCH"}


def asked_about(text: str) -> Question:
    return question_of(parse_clause(text), Settings(prefilter=False))


def last(column: str):
    return lambda rows, pairs: rows[pairs[-1][0]][column] if pairs else None


def total(column: str):
    def of(rows, pairs):
        found = [rows[row][column] for row, _ in pairs if rows[row][column] is not None]
        return sum(found) if found else None

    return of


OBJECTIVES = {"LAST(v)": last("v"), "SUM(w)": total("w"), "COUNT(*)": lambda rows, pairs: len(pairs), "SUM(v)": total("v")}
COMBINED = {"": sum, " COMBINE BY SUM": sum, " COMBINE BY MIN": min, " COMBINE BY MAX": max}


def settled(matches: list[tuple]) -> list[tuple]:
    """Ranked matches (score, rows, variables), with those that differ in their variables alone in the order of these.

    The engine merges states before it searches, so among such matches its preferment is not that of single derivations.
    """
    return [match for _, some in itertools.groupby(matches, key=lambda match: match[:2]) for match in sorted(some)]


@dataclasses.dataclass(frozen=True)
class Ranking:
    """A random clause with TOP."""

    query: selection.Query
    goals: tuple[tuple[str, str], ...]
    combine: str
    top: int
    slide: int | None

    @property
    def text(self) -> str:
        query, window = self.query, ""
        if query.window is not None:
            rows = " ROWS" if query.window[0] == "rows" else ""
            window = f"WINDOW {query.window[1]}{rows}" + ("" if self.slide is None else f" SLIDE {self.slide}{rows}")
        report = " FIRST MATCH" if query.report == selection.FIRST else ""
        defines = ", ".join(f"{v} AS {expr.to_sql(e)}" for v, e in query.defines.items())
        goals = " AND ".join(f"{goal} ({text})" for goal, text in self.goals)
        return (
            f"ORDER BY id MEASURES 1 AS one EVENT SELECTION {_STRATEGIES[query.strategy]}{report} PATTERN ({query.pattern_text}) {window} "
            f"PREF {goals}{self.combine} TOP {self.top}{f' DEFINE {defines}' if defines else ''}"
        )

    def score(self, rows, pairs):
        values = [OBJECTIVES[text](rows, pairs) for _, text in self.goals]
        if None in values:
            return None
        return COMBINED[self.combine](value if goal == "MAX" else -value for (goal, _), value in zip(self.goals, values))

    def ranks(self, rows) -> dict:
        """The matches of each window by rank: (score, rows, variables)."""
        windows: dict = {}
        for number, match in enumerate(self.query.find(rows)):
            vector = tuple(row for row, _ in match.pairs)
            score = self.score(rows, match.pairs)
            key = (score is None, 0 if score is None else -score, vector, number)
            timed = [row | {"t": row["id"]} for row in rows]
            for start in [None] if self.slide is None else window_starts(vector, timed, self.query.window, Fraction(self.slide)):
                windows.setdefault(start, []).append((key, score, vector, tuple(name for _, name in match.pairs)))
        return {start: settled([found[1:] for found in sorted(some)]) for start, some in windows.items()}


def random_ranking(rng: random.Random) -> Ranking:
    names = ["A", "B", "C"][: rng.choice([1, 2, 2, 3])]
    p = pattern.random_pattern(rng, names, rng.choice([1, 2, 2, 3]), permute=False, exclude=False, anchors=False)
    defines = {name: expr.random_condition(rng, name, names, rng.choice(["row", "row", "prev"])) for name in pattern.variables(p) if rng.random() < 0.9}
    window = rng.choice([None, ("rows", 3), ("rows", 4), ("range", 3)])
    strategy = rng.choice(list(_STRATEGIES))
    report = rng.choice([selection.ALL, selection.ALL, selection.FIRST])
    query = selection.Query(p, pattern.to_text(p, rng), defines, strategy, report, window=window, budget=8_000)
    goals = tuple((rng.choice(["MAX", "MIN"]), text) for text in rng.sample(list(OBJECTIVES), rng.choice([1, 1, 2])))
    slide = rng.choice([None, 1, 2]) if window is not None and report == selection.ALL else None
    return Ranking(query, goals, rng.choice(list(COMBINED)) if len(goals) > 1 else "", rng.choice([1, 2, 3, 5]), slide)


def compared_ranks(case: Ranking, rows: list[dict], counts: Counter) -> None:
    """Compares the list of ranks, and the first line of the answer for each row."""
    wanted = case.ranks(rows)
    asked = asked_about(case.text)
    here = frozen(asked, rows)
    ranks = RankList(here, compute)
    assert ranks.right
    names = asked.plan.variables
    found = {
        start: settled([(match.score, match.rows, tuple(names[v] for v in match.variables)) for match in ranks.of(start)])
        for start in ranks.windows if ranks.of(start)
    }  # fmt: skip
    assert found == wanted
    for some in found.values():
        counts["matches"] += len(some)
    assert all(match.rank == i for start in ranks.windows for i, match in enumerate(ranks.of(start), 1))
    for row in range(len(rows)):
        why = explain_rows(here, Asked((row,)), compute)
        places = [rank for some in wanted.values() for rank, (_, vector, _) in enumerate(some, 1) if row in vector]
        kind = "kept" if any(rank <= case.top for rank in places) else "left out" if places else "in no match"
        counts[kind] += 1
        head = f"Row {row + 1} (id {row}) is in"
        assert why.verified and why.verdict.startswith({"kept": f"{head} match", "left out": f"{head} no match that TOP {case.top} keeps", "in no match": f"{head} no match"}[kind])
        assert ("RANK" in [reason.reason for reason in why.reasons]) == (kind == "left out")
        if kind == "left out":
            assert f"  rank {min(places)} " in "\n".join(why.lines)


@pytest.mark.parametrize("seed", first(range(20), 0, wider=1))
def test_ranks_equal_all_matches_sorted(seed):
    rng, counts, tried = random.Random(seed), Counter(), 0
    while tried < CLAUSES:
        case, rows = random_ranking(rng), expr.random_rows(rng, rng.choice([3, 5, 6, 7]))
        try:
            case.ranks(rows)
        except selection.Budget:
            continue
        try:
            compared_ranks(case, rows, counts)
        except AssertionError as error:
            raise AssertionError(f"{case.text}\n{rows}\n{error}") from error
        tried += 1
    assert min(counts[kind] for kind in ("matches", "kept", "left out", "in no match")) > CLAUSES // 6, counts


# -- APPROX ---------------------------------------------------------------------------------------------------------------


def random_approximate(rng: random.Random, conjoined: bool):
    """A random clause with APPROX: the oracle's query for each k, and the clause's text."""
    names = ["A", "B", "C"][: rng.choice([2, 3, 3])]

    def part(names, depth):
        return pattern.random_pattern(rng, names, depth, permute=False, exclude=False, anchors=False, empty=False)

    while True:
        p = ("and", [part(["A", "B"], 1), part(rng.choice([["C"], names]), 1)]) if conjoined else part(names, rng.choice([1, 2, 2]))
        cost = approx.cost_of_nothing(p, {})
        if cost >= 2:
            break
    defines = {name: expr.random_condition(rng, name, names, rng.choice(["row", "row", "prev"])) for name in pattern.variables(p) if rng.random() < 0.8}
    window = rng.choice([None, ("rows", 3), ("rows", 4), ("range", 3)])
    strategy = selection.ANY if conjoined else rng.choice([selection.ANY, selection.ANY, selection.STRICT, selection.NEXT])
    report = rng.choice(["", "", "ALL MATCHES" if conjoined else "PROXY MATCHES PER ERROR", "ALL MATCHES"])
    k = min(rng.choice([0, 0, 1, 2]), int(cost) - 1)
    if not conjoined and rng.random() < 0.3:  # PROXY MATCHES leaves many matches out
        p, window, strategy, report, k, cost = ("cat", [("var", "A"), ("var", "B")]), None, selection.ANY, "", 0, 2
        defines = {name: expr.random_condition(rng, name, ["A", "B"], "row") for name in "AB"}
    text = " ".join([
        f"ORDER BY id MEASURES 1 AS one EVENT SELECTION {_STRATEGIES[strategy]} PATTERN ({pattern.to_text(p, rng)})",
        "" if window is None else f"WINDOW {window[1]}{' ROWS' if window[0] == 'rows' else ''}",
        f"APPROX {k} {report}", "DEFINE " * bool(defines) + ", ".join(f"{v} AS {expr.to_sql(e)}" for v, e in defines.items()),
    ])  # fmt: skip
    bounds = [Fraction(k + more) for more in range(3) if k + more < cost]
    queries = [Conjoined(p, defines, bound, {}, window) if conjoined else approx.Approx(p, defines, strategy, bound, {}, window, {}, 7, 60_000) for bound in bounds]
    return text, k, queries, report


def compared_errors(text: str, k: int, queries: list, report: str, rows: list[dict], counts: Counter) -> None:
    """Compares the answer for each row: reported, not reported, found with more errors, or not found."""
    times = [row["id"] for row in rows]
    trajectories = [query.all_matches(rows, times) for query in queries]
    reported = {"": approx.proxies, "PROXY MATCHES PER ERROR": approx.per_error, "ALL MATCHES": lambda found: found}[report](trajectories[0])
    asked = asked_about(text)
    here = frozen(asked, rows)
    for row in range(len(rows)):
        why = explain_rows(here, Asked((row,)), compute)
        lines = "\n".join(why.lines)
        assert why.verified
        more = next((i for i, found in enumerate(trajectories) if any(row in match.rows for match in found)), None)
        if any(row in match.rows for match in reported):
            kind = "reported"
            assert why.verdict.startswith(f"Row {row + 1} (id {row}) is in match"), why.verdict
        elif more == 0:
            kind = "not reported"
            assert "not reported." in lines and "PREFERRED" in [reason.reason for reason in why.reasons]
        elif more is not None:
            kind = "with more errors"
            best = min((match for match in trajectories[more] if row in match.rows), key=lambda match: (match.error, -match.rows[0], match.rows))
            assert f"Found with APPROX {k + more}: {row_spans(best.rows)} (" in lines, lines
            assert f", {best.error} error{'' if best.error == 1 else 's'}" in lines
        else:
            kind = "not found"
            assert "Found with" not in lines
        counts[kind] += 1


@pytest.mark.parametrize("seed", first(range(20), 0, wider=1))
def test_errors_equal_all_trajectories(seed):
    rng, counts, tried = random.Random(seed), Counter(), 0
    while tried < CLAUSES:
        conjoined = rng.random() < 0.2
        text, k, queries, report = random_approximate(rng, conjoined)
        rows = expr.random_rows(rng, rng.choice([4, 5] if conjoined else [4, 5, 6, 7]))
        try:
            compared_errors(text, k, queries, report, rows, counts)
        except selection.Budget:
            continue
        except AssertionError as error:
            raise AssertionError(f"{text}\n{rows}\n{error}") from error
        tried += 1
    assert min(counts[kind] for kind in ("reported", "with more errors", "not found")) > 1, counts
    assert seed or counts["not reported"] > 0, counts


# -- faults -----------------------------------------------------------------------------------------------------------------


def test_ranks_that_differ_explain_nothing(monkeypatch):
    """If the engine's search for the k best has other matches than the longer list, nothing is explained."""
    asked = asked_about("ORDER BY id MEASURES 1 AS one EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) PREF MAX (B.v - A.v) TOP 2")
    rows = frozen(asked, [{"id": i, "v": v, "w": 0, "s": "a"} for i, v in enumerate([3, 1, 4, 1, 5])])
    right = listing.listed
    monkeypatch.setattr(ranked, "listed", lambda plan, tables, run: [some[1:] for some in right(plan, tables, run)] if plan.ranking and plan.ranking.top > 2 else right(plan, tables, run))
    why = explain_rows(rows, Asked((0,)), compute)
    assert not why.verified and why.lines == (UNTRUE,) and json.loads(why.report)["clause"]


def test_errors_that_differ_explain_nothing(monkeypatch):
    """If a search with more errors lacks a match that the clause's own search has, nothing is explained."""
    asked = asked_about("ORDER BY id MEASURES 1 AS one PATTERN (A B C) APPROX 1 DEFINE A AS v = 1, B AS v = 2, C AS v = 3")
    rows = frozen(asked, [{"id": i, "v": v, "w": 0, "s": "a"} for i, v in enumerate([1, 2, 9, 3])])
    right = listing.listed
    monkeypatch.setattr(approximate, "listed", lambda plan, tables, run: [some[1:] for some in right(plan, tables, run)] if plan.approximate.bound == 2 else right(plan, tables, run))
    why = explain_rows(rows, Asked((2,)), compute)
    assert not why.verified and why.lines == (UNTRUE,) and json.loads(why.report)["clause"]


def test_unknown_variables_and_matches():
    asked = asked_about("ORDER BY id MEASURES 1 AS one EVENT SELECTION SKIP TILL ANY MATCH PATTERN (BUY SELL) PREF MAX (SELL.v - BUY.v) TOP 2")
    rows = frozen(asked, [{"id": i, "v": v, "w": 0, "s": "a"} for i, v in enumerate([3, 1, 4])])
    for question, message in ((Asked((0,), None, "BUYY"), "expect='BUYY' is not a variable of PATTERN; did you mean BUY?"), (Asked((), 7), "match=7: the partition has 3 matches. Write match=1 to match=3")):
        with pytest.raises(ClauseError) as caught:
            explain_rows(rows, question, compute)
        assert caught.value.message == message


def test_matches_beyond_the_listed_ones(monkeypatch):
    """A row whose matches come after the listed ones has the best of them, if they can be listed at all."""
    monkeypatch.setattr(ranked, "MOST", 3)
    rows = [{"id": i, "v": v, "w": 0, "s": "a"} for i, v in enumerate([9, 1, 4, 1, 5, 0])]
    here = frozen(asked_about("ORDER BY id MEASURES 1 AS one EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) PREF MAX (B.v) TOP 1"), rows)
    said = {row: explain_rows(here, Asked((row,)), compute).lines[:3] for row in (3, 5)}
    assert said[3] == (
        "Row 4 (id 3) is in no match that TOP 1 keeps.",
        "5 matches with the row are after the 3 best matches. The best of them has score 5: rows 4-5 (A B).",
        "Rank 1 has this score, too. Of equal scores the match whose rows come first is kept.",
    )
    assert said[5][1] == "5 matches with the row are after the 3 best matches. The best of them has score 0: rows 1 and 6 (A B)."
    right = listing.listed

    def limited(plan, tables, run, having=None):
        if having is not None:
            raise MatchRuntimeError("MATCH_LIMIT", "too many matches")
        return right(plan, tables, run)

    monkeypatch.setattr(ranked, "listed", limited)
    assert explain_rows(here, Asked((3,)), compute).lines[1].startswith("None of the 3 best matches has the row.")
