"""A history that a user made, as a search reads it."""

from __future__ import annotations

from fractions import Fraction

from tests.oracle import budget as oracle
from tests.property import test_budget as choices

QUERY = oracle.Budgeted(("cat", [("var", name) for name in "ABC"]), {"A": {"a"}, "B": {"b"}, "C": {"c"}}, Fraction(1, 2), {"A": Fraction(1, 10), "B": Fraction(1, 5)}, 10, True, 1, {}, 1)


def vectors(*rows) -> list[dict]:
    names = ("pattern", "place", "errors", "remaining", "idle", "visits", "bundles")
    return [dict(zip(names, (None, *row))) for row in rows]


def taken(history, sketch="") -> list[tuple[int, ...]]:
    """The rows of the matches of a2 b4 c12 c13, of which one check a row has room for one run."""
    text = choices.clause(QUERY, "PROXY MATCHES", f"MEASURES {choices.REPORTED}")
    (rows,) = choices.ran(f"{text}".replace("AS PUBLISHED", f"AS PUBLISHED {sketch}"), QUERY, [("abcc", [1, 4, 12, 13])], None, history).values()
    return [(tuple(row["ids"]), row["v"]) for row in rows]
