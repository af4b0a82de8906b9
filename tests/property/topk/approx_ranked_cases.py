"""Random clauses with APPROX and TOP k, with and without PREF, and the matches of the oracle of APPROX, scored and sorted."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from tests.oracle import approx, pattern, selection
from tests.oracle.named_sequences import MATCH_ERRORS, MAX, MIN, Objective, Preference
from tests.oracle.selection import ANY, NEXT, STRICT
from tests.property.approx import approx_cases
from tests.property.approx.approx_cases import ALL, PER_ERROR, PROXY
from tests.property.topk.named_sequence_cases import refused
from tests.property.topk.ranked_cases import BIGINT, BUDGET, DOUBLE, INT, Chosen, ranked, taking


class Near(NamedTuple):
    """A match: its (row, label) pairs, the label None for an extra row, and its cost."""

    number: int
    pairs: tuple
    error: Fraction


@dataclass
class Nearest(Chosen):
    """A ranking of approximate matches; without PREF the fewest errors, then the shortest. ``near``: the clause that lists them."""

    near: approx_cases.Case | None = None

    def to_sql(self) -> str:
        near = self.near
        weights = ", ".join(f"{name} {weight}" for name, weight in near.weights.items())
        line = f"APPROX {near.k}{f' WEIGHTS ({weights})' if weights else ''} {near.report}"
        return super().to_sql().replace(" ALL MATCHES\n", f"\n{line}\n", 1)

    def find(self, rows) -> list[Near]:
        every = self.near.oracle.all_matches(rows, [row["t"] for row in rows])
        if self.near.report != ALL:
            every = [proxy.choices[0] for proxy in (approx.proxies if self.near.report == PROXY else approx.per_error)(every)]
        found = [Near(number, tuple(zip(match.rows, match.labels, strict=True)), match.error) for number, match in enumerate(every, 1)]
        self.costs |= {(id(rows), match.pairs): match.error for match in found}
        return found

    def answers(self, partitions) -> dict:
        self.costs = {}
        return super().answers(partitions)

    def value(self, e, rows, pairs, seen=None, number=None):
        if e == MATCH_ERRORS:
            cost = self.costs[id(rows), pairs]
            return int(cost) if cost.denominator == 1 else float(cost)
        return super().value(e, rows, pairs, seen, number)

    def score(self, rows, pairs):
        return super().score(rows, pairs) if self.preference else -self.value(MATCH_ERRORS, rows, pairs)

    def order(self, rows, match, score) -> tuple:
        if self.preference:
            return super().order(rows, match, score)
        first, last = match.pairs[0][0], match.pairs[-1][0]
        in_time = self.window is not None and self.window[0] == "range"
        return match.error, abs(rows[last]["t"] - rows[first]["t"]) if in_time else last - first


def random_nearest(rng, **wanted) -> Nearest | None:
    """None: a clause that is refused."""
    strategy, report = wanted.get("strategy") or rng.choice([ANY, ANY, ANY, NEXT, STRICT]), rng.choice([ALL, ALL, ALL, PROXY, PER_ERROR])
    near = approx_cases._random_case(rng, strategy, report, ("letters", "letters", "plain", "plain", "negation"))
    if near is None or pattern.contains(near.pattern, ("excl",)):
        return None
    query = Nearest(
        near.pattern, near.pattern_text, near.defines, strategy, selection.ALL, None, near.window, subsets=near.subsets, budget=BUDGET,
        written=near.pattern, kind=rng.choice([INT, BIGINT, DOUBLE]),
    )  # fmt: skip
    ranked(rng, query, changes=report != ALL)  # of equal rows either match is preferred
    query.near = near.with_(window=query.window)
    query.measures["ids"] = ("agg", "sum", None, ("col", "id"), False)
    if rng.random() < 0.6:
        query.preference = random_preference(rng, query, pattern.variables(taking(near.pattern)) if report == ALL else [])
    else:
        query.measures["errors"] = MATCH_ERRORS
    for name, value in wanted.items():
        setattr(query, name, value)
    return None if query.preference and refused(query) else query


def random_preference(rng, query, variables) -> Preference:
    def term():
        over, x = rng.choice([None, *variables]), ("col", rng.choice("xxv"))
        some = [("agg", rng.choice(["sum", "sum", "min", "max"]), over, x, False), ("nav", rng.choice(["FIRST", "LAST"]), over, 0, x)]
        return rng.choice([*some, MATCH_ERRORS, ("agg", "count", over, "*", False)])

    found = []
    for _ in range(rng.choice([1, 1, 2])):
        e = term()
        found.append(Objective(rng.choice([MAX, MAX, MIN]), (rng.choice("+-*"), e, term()) if rng.random() < 0.5 else e))
    return Preference(tuple(found), (), rng.choice(["SUM", "SUM", "AVG", "MIN", "MAX"]))
