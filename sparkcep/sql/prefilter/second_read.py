"""Semi-join prefilter: reads the source twice and drops rows without a necessary variable's row in their partition or window.

The rewriter adds the join: a broadcast semi join with the keys of the rows that satisfy a candidate (``Plan.candidates``), before
the exchange. It is sound if both reads return the same rows (see ``plan.prune.pruning``). The caller that chooses a filter ensures
this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from sparkcep.plan.options import MICROS
from sparkcep.plan.plan import Plan
from sparkcep.plan.split.fallible import unshielded

KEPT, MEASURE = "__kept", "__at"
_DAY, _SECOND = 86_400_000_000, 1_000_000
_MAX = 1 << 62
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True)
class Near:
    """A distance measure along the order key.

    Attributes:
        text: the SQL of a whole number over the input column ``__o0``.
        width: the rows of one window differ by at most this in ``text``.
    """

    text: str
    width: int

    @property
    def bucket(self) -> str:
        """Returns the SQL of the bucket. Rows at most ``width`` apart are in the same bucket or in neighbouring ones."""
        return f"({self.text}) DIV {self.width}L"


@dataclass(frozen=True)
class Filter:
    """A chosen filter.

    Attributes:
        candidate: the index of the candidate in the plan.
        near: the measure of the distance to a hit within which rows are kept; None keeps the whole partition.
        few: whether the rows that satisfy the candidate are broadcast without making their keys distinct, which saves an exchange.
    """

    candidate: int
    near: Near | None = None
    few: bool = False


@dataclass(frozen=True)
class Choice:
    """The chosen filter, or None, with a ``note`` for EXPLAIN."""

    filter: Filter | None = None
    note: str = ""


UNFILTERED = Choice()


def near(plan: Plan, order_type: str) -> Near | None:
    """Returns the distance measure along an order key of SQL type ``order_type``.

    Returns None if WINDOW does not limit which rows may be dropped, or if distances of that type could be rounded. The unit never
    exceeds a window. Buckets are as wide as WINDOW, plus one unit if units are rounded down.
    """
    if not plan.near:
        return None
    kind, size = plan.windows[0].kind, plan.windows[0].size
    if kind == MICROS and order_type == "timestamp":
        return _bounded(Near("unix_micros(__o0)", int(size)))
    if kind == MICROS and order_type == "timestamp_ntz":  # its own clock, without time zone jumps
        seconds = "unix_date(CAST(__o0 AS DATE)) * 86400L + hour(__o0) * 3600 + minute(__o0) * 60 + CAST(second(__o0) AS BIGINT)"
        return _bounded(Near(seconds, int(size) // _SECOND + 2))
    if kind == MICROS and order_type == "date":
        return _bounded(Near("CAST(unix_date(__o0) AS BIGINT)", int(size) // _DAY + 1))
    if kind != MICROS and order_type in _INTEGERS:
        return _bounded(Near("CAST(__o0 AS BIGINT)", ceil(Fraction(size))))
    return None


def _bounded(found: Near) -> Near | None:
    """Makes buckets at least two units wide, so that the neighbours of each fit a BIGINT.

    Returns None if the width is too large for a BIGINT, so that all rows are near.
    """
    return replace(found, width=max(found.width, 2)) if found.width < _MAX else None


def candidate_text(plan: Plan, chosen: Filter) -> str:
    """Returns the variables of a candidate and their condition, in words."""
    of, text = plan.candidates[chosen.candidate]
    text = unshielded(text)
    return f"{' or '.join(plan.variables[v] for v in of)}: {text[1:-1] if len(of) == 1 else text}"


def kept_keys(plan: Plan, chosen: Filter, columns: dict[str, str], source: str) -> str:
    """Returns the semi join, as text to append to the input's own SELECT. ``columns`` has the SQL text of each input column."""
    condition = plan.candidates[chosen.candidate].text
    keys = [f"{columns[k]} AS __q{i}" for i, k in enumerate(plan.keys)]
    on = [f"{k} <=> __q{i}" for i, k in enumerate(plan.keys)]
    select = "SELECT" if chosen.few else "SELECT DISTINCT"
    if chosen.near is None:
        found = f"{select} {', '.join(keys)} FROM {source} WHERE {condition}"
    else:
        rare = f"SELECT {', '.join([*keys, columns['__o0'] + ' AS __o0'])} FROM {source} WHERE {condition}"
        names = ", ".join([*(f"__q{i}" for i in range(len(keys))), f"__n + {chosen.near.bucket} AS {MEASURE}"])
        found = f"{select} {names} FROM ({rare}) LATERAL VIEW explode(`array`(-1L, 0L, 1L)) __near AS __n"
        on.append(f"{chosen.near.bucket} = {MEASURE}")
    return f" LEFT SEMI JOIN ({found}) AS {KEPT} ON {' AND '.join(on)}"
