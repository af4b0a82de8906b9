"""Time slices of giant keys: the SQL that cuts a clause's input into overlapping slices, and what is left of each (:mod:`sparkcep.plan.cutting` says when that may be).

A row at place ``t`` along the order key is of slice ``s = floor(t / size)``. Less than a window behind the slice's begin it is shipped to slice
``s - 1`` as well, as a copy: matches that begin there may reach it. The slice becomes a further key of the partitions, and a match is told by
the slice whose own its first row is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from sparkcep.plan.options import MICROS
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import ALL_ROWS, Computed, Leaf, Value

# windows to a slice: copies are one row in sixteen. Half as many would copy an eighth; twice as many halve the slices that tasks can share
WINDOWS = 16
PLACE, SLICE, AWAY, OWN = "__place", "__slice", "__away", "__own"
UNKNOWN = ""  # an order key whose type is not known
_FAR = 1 << 62
_TIMES = ("timestamp", "timestamp_ntz", "date")
_WHOLE = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True)
class Slices:
    """``place``: SQL text of a whole number over the order key ``{}``, which never falls along the clause's order; rows of one window lie at most
    ``width`` apart. ``size``: of a slice; ``reach``: how far behind its end it sees. ``start``: the leaf with the begin of a sliding window,
    whose slice tells it; "" where the match's first row does."""

    place: str
    width: int
    size: int
    reach: int
    start: str = ""

    @property
    def told(self) -> str:
        """Width and owner, for people."""
        windows = f"{self.size // self.width} windows"
        owner = "windows are told by the slice they begin in" if self.start else "a match is told by the slice its first row lies in"
        behind = "a window" if self.reach == self.width else "two windows"
        return f"{windows} wide, {behind} of the next one shipped twice; {owner}"


@dataclass(frozen=True)
class Slicing:
    """The slices chosen, or None, and what EXPLAIN says of it."""

    slices: Slices | None = None
    told: str = ""


WHOLE = Slicing()


def slices_of(plan: Plan, order_type: str, windows: int = WINDOWS) -> Slices | str:
    """How a plan that may be cut is cut by an order key of that SQL type; or why it is not.

    Nothing here depends on the type but what is refused: where it is :data:`UNKNOWN` the text fits every type that WINDOW may measure.
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
    """What stands behind the rows in FROM: each once, or twice; rows without a place are in no match."""
    own = _floored(PLACE, slices.size)
    copies = f"IF(pmod({PLACE}, {slices.size}L) < {slices.reach}L, array({own}, {own} - 1L), array({own}))"
    return f" LATERAL VIEW posexplode({copies}) __spread AS {AWAY}, {SLICE} WHERE __o0 IS NOT NULL"


def owned(slices: Slices) -> str:
    """The condition of what a slice tells, over the table function's output."""
    if not slices.start:
        return f"{OWN} = 0"
    return f"{_floored(slices.place.format(slices.start), slices.size)} = {OWN}"


def _floored(place: str, size: int) -> str:
    """DIV goes towards zero."""
    return f"({place}) DIV {size}L - CAST(({place}) % {size}L < 0 AS BIGINT)"
