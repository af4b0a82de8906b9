"""Time slices of giant keys: SQL that cuts a clause's input into overlapping slices (``plan.prune.slicing``).

The rewriter uses it. A row at position ``t`` along the order key belongs to slice ``s = floor(t / size)``. If it lies less than a
window after the slice's begin, slice ``s - 1`` gets a copy, because matches that start there may reach it. The slice is an
additional partition key. A match is emitted by the slice that its first row belongs to.

Example with ``size`` 16 and ``reach`` 1: the row at t = 32 belongs to slice 2, and slice 1 gets a copy. The row at t = 33
belongs to slice 2 only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from sparkcep.plan.options import MICROS, elapsed_micros
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import ALL_ROWS, Computed, Leaf, Value

# Windows per slice: one row in sixteen is copied. Half as many windows would copy one row in eight. Twice as many would halve the
# number of slices that tasks can share.
WINDOWS = 16
PLACE, SLICE, AWAY, OWN = "__place", "__slice", "__away", "__own"
UNKNOWN = ""  # an order key of unknown type
_FAR = 1 << 62
_TIMES = ("timestamp", "timestamp_ntz", "date")
_WHOLE = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True)
class Slices:
    """The slices of a plan.

    Attributes:
        place: the SQL of a whole number over the order key ``{}``. It never decreases along the clause's order.
        width: the rows of one window differ by at most this in ``place``.
        size: the size of a slice.
        reach: how far beyond its end a slice reads.
        start: the leaf with the start of a sliding window, whose slice emits the window; "" if the slice of the match's first row
            emits.
    """

    place: str
    width: int
    size: int
    reach: int
    start: str = ""

    @property
    def words(self) -> str:
        """Describes the width and the owner of the slices."""
        windows = f"{self.size // self.width} windows"
        owner = "a window belongs to the slice where it begins" if self.start else "a match belongs to the slice of its first row"
        behind = "a window" if self.reach == self.width else "two windows"
        return f"{windows} wide, {behind} of the next slice shipped twice; {owner}"


@dataclass(frozen=True)
class Slicing:
    """The chosen slices, or None, with a ``note`` for EXPLAIN."""

    slices: Slices | None = None
    note: str = ""


WHOLE = Slicing()


def slices_of(plan: Plan, order_type: str, windows: int = WINDOWS) -> Slices | str:
    """Returns the slices of a plan for an order key of SQL type ``order_type``, or the reason why the plan cannot be cut.

    The type only matters for refusals. For :data:`UNKNOWN`, the SQL suits every type that WINDOW may measure.
    """
    kind, size = plan.windows[0].kind, plan.windows[0].size
    fits = order_type in _TIMES if kind == MICROS else order_type in (*_WHOLE, "float", "double") or order_type.startswith("decimal")
    if order_type != UNKNOWN and not fits:
        return f"WINDOW {plan.windows[0].text} does not measure an order key of {order_type}"
    if kind == MICROS:
        # jumps of a time zone would reorder rows, or move them farther apart than they are
        place, width = elapsed_micros("{0}"), int(size)
    else:
        if plan.slide and order_type not in _WHOLE:
            return "the start of windows of rounded numbers is not known exactly" if order_type else "the type of the order key is not known"
        # Floors and rounded differences never decrease. The window's own size may be rounded up by less than one.
        place, width = f"CAST(greatest(least(floor({{0}}), {_FAR}L), -{_FAR}L) AS BIGINT)", ceil(Fraction(size)) + 1
    if plan.order[0].descending:
        place = f"~({place})"
    # A search that starts in a window of another slice reads one window farther.
    reach = width * (2 if plan.slide else 1)
    if max(width * windows, reach) >= _FAR:
        return "WINDOW is as wide as all that the order key can hold"
    start = next((leaf.name for leaf in plan.leaves if leaf.spec.kind == "window_start"), "") if plan.slide else ""
    return Slices(place, width, max(width * windows, reach), reach, start)


def cut(plan: Plan, slices: Slices) -> Plan:
    """Returns the engine's plan for a cut input."""
    column = SLICE if slices.start else AWAY
    leaf = Leaf(OWN, Value("nav", "F", ALL_ROWS, 0, 0, column, True))
    inputs = (*plan.inputs, *(Computed(name, "") for name in (SLICE, *([] if slices.start else [AWAY]))))
    return replace(plan, slice=SLICE, inputs=inputs, leaves=(*plan.leaves, leaf))


def placed(rows: str, slices: Slices) -> str:
    """Returns a SELECT over ``rows`` that adds their position along the order key."""
    return f"SELECT *, {slices.place.format('__o0')} AS {PLACE} FROM {rows}"


def spread(slices: Slices) -> str:
    """Returns the text after the rows in FROM that returns each row once or twice. Rows without a position are never in a match."""
    own = _floored(PLACE, slices.size)
    copies = f"IF(pmod({PLACE}, {slices.size}L) < {slices.reach}L, `array`({own}, {own} - 1L), `array`({own}))"
    return f" LATERAL VIEW posexplode({copies}) __spread AS {AWAY}, {SLICE} WHERE __o0 IS NOT NULL"


def owned(slices: Slices) -> str:
    """Returns the condition, over the table function's output, that selects the rows that a slice emits."""
    if not slices.start:
        return f"{OWN} = 0"
    return f"{_floored(slices.place.format(slices.start), slices.size)} = {OWN}"


def _floored(place: str, size: int) -> str:
    """Returns the SQL of a division rounded down; DIV rounds towards zero."""
    return f"({place}) DIV {size}L - CAST(({place}) % {size}L < 0 AS BIGINT)"
