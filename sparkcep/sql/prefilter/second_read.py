"""The prefilter that reads the source twice and drops rows whose partition, or whose time, has no row of a necessary variable.

It is a semi join with the keys of the rows that fulfil a candidate (``Plan.candidates``), broadcast, ahead of the exchange. It is
sound where both reads give the same rows (``plan.prune.pruning`` says why); who chooses a filter sees to that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from sparkcep.plan.options import MICROS
from sparkcep.plan.plan import Plan

KEPT, MEASURE = "__kept", "__at"
_DAY, _SECOND = 86_400_000_000, 1_000_000
_MAX = 1 << 62
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True)
class Near:
    """Distances along the order key.
    ``text`` is a whole number over the input column ``__o0``; in it the rows of one window lie at most ``width`` apart."""

    text: str
    width: int

    @property
    def bucket(self) -> str:
        """The SQL text of the bucket. Rows at most ``width`` apart lie in the same bucket or in neighbouring ones."""
        return f"({self.text}) DIV {self.width}L"


@dataclass(frozen=True)
class Filter:
    """``candidate`` is an index of the plan's candidates. ``near`` says which rows are kept around a hit; None keeps all of the
    partition. With ``few`` the rows that fulfil the candidate are broadcast as they come, which saves the exchange that makes their
    keys distinct."""

    candidate: int
    near: Near | None = None
    few: bool = False


@dataclass(frozen=True)
class Choice:
    """The filter chosen, or None, with a ``note`` for EXPLAIN."""

    filter: Filter | None = None
    note: str = ""


UNFILTERED = Choice()


def near(plan: Plan, order_type: str) -> Near | None:
    """The measure of distances along an order key of that SQL type. None where WINDOW does not bound the rows that may be dropped,
    or where that type's distances could be rounded.

    Every unit is at most a window's: buckets are as wide as WINDOW, and one unit wider where the unit is rounded down.
    """
    if not plan.near:
        return None
    kind, size = plan.windows[0].kind, plan.windows[0].size
    if kind == MICROS and order_type == "timestamp":
        return _bounded(Near("unix_micros(__o0)", int(size)))
    if kind == MICROS and order_type == "timestamp_ntz":  # without a time zone's jumps: by its own clock
        seconds = "unix_date(CAST(__o0 AS DATE)) * 86400L + hour(__o0) * 3600 + minute(__o0) * 60 + CAST(second(__o0) AS BIGINT)"
        return _bounded(Near(seconds, int(size) // _SECOND + 2))
    if kind == MICROS and order_type == "date":
        return _bounded(Near("CAST(unix_date(__o0) AS BIGINT)", int(size) // _DAY + 1))
    if kind != MICROS and order_type in _INTEGERS:
        return _bounded(Near("CAST(__o0 AS BIGINT)", ceil(Fraction(size))))
    return None


def _bounded(found: Near) -> Near | None:
    """Buckets of two units or more, so that each has neighbours in a BIGINT. None where the width is too large for one, so that all
    rows are near."""
    return replace(found, width=max(found.width, 2)) if found.width < _MAX else None


def candidate_text(plan: Plan, chosen: Filter) -> str:
    """The variables of a candidate with their condition, in words."""
    of, text = plan.candidates[chosen.candidate]
    return f"{' or '.join(plan.variables[v] for v in of)}: {text[1:-1] if len(of) == 1 else text}"


def kept_keys(plan: Plan, chosen: Filter, columns: dict[str, str], source: str) -> str:
    """The semi join, as text behind the input's own SELECT. ``columns`` gives the SQL text of each input column."""
    condition = plan.candidates[chosen.candidate].text
    keys = [f"{columns[k]} AS __q{i}" for i, k in enumerate(plan.keys)]
    on = [f"{k} <=> __q{i}" for i, k in enumerate(plan.keys)]
    select = "SELECT" if chosen.few else "SELECT DISTINCT"
    if chosen.near is None:
        found = f"{select} {', '.join(keys)} FROM {source} WHERE {condition}"
    else:
        rare = f"SELECT {', '.join([*keys, columns['__o0'] + ' AS __o0'])} FROM {source} WHERE {condition}"
        names = ", ".join([*(f"__q{i}" for i in range(len(keys))), f"__n + {chosen.near.bucket} AS {MEASURE}"])
        found = f"{select} {names} FROM ({rare}) LATERAL VIEW explode(array(-1L, 0L, 1L)) __near AS __n"
        on.append(f"{chosen.near.bucket} = {MEASURE}")
    return f" LEFT SEMI JOIN ({found}) AS {KEPT} ON {' AND '.join(on)}"
