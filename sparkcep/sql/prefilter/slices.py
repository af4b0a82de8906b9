"""Time slices of giant keys: the SQL that cuts a clause's input into overlapping slices, and takes the results of each slice
(``plan.prune.slicing``).

A row at place ``t`` along the order key belongs to slice ``s = floor(t / size)``. If it lies less than a window behind the slice's
begin, a copy of it is shipped to slice ``s - 1`` as well, because matches that begin there may reach it. The slice becomes a
further key of the partitions. A match is given by the slice to which its first row belongs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from sparkcep.plan.options import MICROS
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import ALL_ROWS, Computed, Leaf, Value

# windows to a slice: copies are one row in sixteen. Half as many would copy an eighth; twice as many halve the slices that tasks
# can share
WINDOWS = 16
PLACE, SLICE, AWAY, OWN = "__place", "__slice", "__away", "__own"
UNKNOWN = ""  # an order key whose type is not known
_FAR = 1 << 62
_TIMES = ("timestamp", "timestamp_ntz", "date")
_WHOLE = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True)
class Slices:
    """``place`` is the SQL text of a whole number over the order key ``{}``, which never falls along the clause's order; the rows
    of one window lie at most
    ``width`` apart in it. ``size`` is that of a slice, and ``reach`` is how far behind its end it sees. ``start`` is the leaf with
    the begin of a sliding window whose slice gives it; it is empty where the slice of the match's first row does."""

    place: str
    width: int
    size: int
    reach: int
    start: str = ""

    @property
    def words(self) -> str:
        """The width and the owner of the slices, in words."""
        windows = f"{self.size // self.width} windows"
        owner = "windows are told by the slice they begin in" if self.start else "a match is told by the slice its first row lies in"
        behind = "a window" if self.reach == self.width else "two windows"
        return f"{windows} wide, {behind} of the next one shipped twice; {owner}"


@dataclass(frozen=True)
class Slicing:
    """The slices chosen, or None, with a ``note`` for EXPLAIN."""

    slices: Slices | None = None
    note: str = ""


WHOLE = Slicing()


def slices_of(plan: Plan, order_type: str, windows: int = WINDOWS) -> Slices | str:
    """The slices of a plan that may be cut by an order key of that SQL type; or the reason why it is not cut.

    Only what is refused depends on the type. Where it is :data:`UNKNOWN` the text fits every type that WINDOW may measure.
    """
    kind, size = plan.windows[0].kind, plan.windows[0].size
    fits = order_type in _TIMES if kind == MICROS else order_type in (*_WHOLE, "float", "double") or order_type.startswith("decimal")
    if order_type != UNKNOWN and not fits:
        return f"WINDOW {plan.windows[0].text} does not measure an order key of {order_type}"
    if kind == MICROS:
        # the clock of the type itself: a time zone's jumps would bring rows out of order, or farther apart than they are
        own_clock = "(CAST({0} AS TIMESTAMP_NTZ) - TIMESTAMP_NTZ'1970-01-01 00:00:00') DIV INTERVAL '0.000001' SECOND"
        place, width = "IF(typeof({0}) = 'timestamp', unix_micros(CAST({0} AS TIMESTAMP)), " + own_clock + ")", int(size)
    else:
        if plan.slide and order_type not in _WHOLE:
            return "where windows of rounded numbers begin is not known exactly" if order_type else "the type of the order key is not known"
        # floor and rounded differences never fall; the window's own size may be rounded up by less than one
        place, width = f"CAST(greatest(least(floor({{0}}), {_FAR}L), -{_FAR}L) AS BIGINT)", ceil(Fraction(size)) + 1
    if plan.order[0].descending:
        place = f"~({place})"
    # a search that begins in a window of another slice's looks one window farther
    reach = width * (2 if plan.slide else 1)
    if max(width * windows, reach) >= _FAR:
        return "WINDOW is as wide as all that the order key can hold"
    start = next((leaf.name for leaf in plan.leaves if leaf.spec.kind == "window_start"), "") if plan.slide else ""
    return Slices(place, width, max(width * windows, reach), reach, start)


def cut(plan: Plan, slices: Slices) -> Plan:
    """The plan that the engine gets for a cut input."""
    column = SLICE if slices.start else AWAY
    leaf = Leaf(OWN, Value("nav", "F", ALL_ROWS, 0, 0, column, True))
    inputs = (*plan.inputs, *(Computed(name, "") for name in (SLICE, *([] if slices.start else [AWAY]))))
    return replace(plan, slice=SLICE, inputs=inputs, leaves=(*plan.leaves, leaf))


def placed(rows: str, slices: Slices) -> str:
    """A SELECT over ``rows``, with their place along the order key."""
    return f"SELECT *, {slices.place.format('__o0')} AS {PLACE} FROM {rows}"


def spread(slices: Slices) -> str:
    """The text behind the rows in FROM that gives each row once or twice. Rows without a place are in no match."""
    own = _floored(PLACE, slices.size)
    copies = f"IF(pmod({PLACE}, {slices.size}L) < {slices.reach}L, array({own}, {own} - 1L), array({own}))"
    return f" LATERAL VIEW posexplode({copies}) __spread AS {AWAY}, {SLICE} WHERE __o0 IS NOT NULL"


def owned(slices: Slices) -> str:
    """The condition, over the table function's output, of the rows that a slice gives."""
    if not slices.start:
        return f"{OWN} = 0"
    return f"{_floored(slices.place.format(slices.start), slices.size)} = {OWN}"


def _floored(place: str, size: int) -> str:
    """Division rounded down; DIV rounds towards zero."""
    return f"({place}) DIV {size}L - CAST(({place}) % {size}L < 0 AS BIGINT)"
