"""Bounds of a plan's numbers, texts and names, as annotations beside the fields of :mod:`sparkcep.plan.records`.

:mod:`sparkcep.plan.json` refuses a number without a bound, so that a field added later has one. Kernels do not check
bounds.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

MAX_VARIABLES = 62  # bits of a mask
MAX_PERMUTE = 30
MAX_BOUND = 1_000_000  # of a quantifier
MAX_OFFSET = (1 << 31) - 1
MAX_OFFSET_IN_DEFINE = 500  # of FIRST and LAST: each row back is a slot of every thread
MAX_COST = 1 << 40  # of a bound or weight in units of their common denominator
MAX_TOP = 1_000_000_000
MAX_INTERVALS = 1000
MAX_CELLS = 1 << 20  # of a sketch
MAX_CHECKS = (1 << 31) - 1
MAX_IDLE = 1 << 62  # microseconds
MAX_WORD = (1 << 63) - 1  # what kernels hold
MAX_DIGITS = 100  # of a text that becomes a number
MAX_TREE = 250  # parts of a tree inside one another; a clause nests 50 expressions, of 150 operators one after the other
MAX_TEXT = 1 << 25  # characters of a plan


class Range(NamedTuple):
    """From ``low`` to before ``below``. That is a number, or the name of a list: one of the record around the number, of a record
    around that, or of the plan. ``sets`` means the number of sets of variables."""

    low: int
    below: int | str


class Text(NamedTuple):
    """A text that becomes a number, or names a type."""

    pattern: re.Pattern[str]


class Column(NamedTuple):
    """The name of an input column. Its type is of one of the ``kinds`` (of any kind if there are none). ``also``: names that mean
    something else. ``own``: registers, letters and parameters of an automaton have such names, too."""

    kinds: str = ""
    also: tuple[str, ...] = ()
    own: bool = False


class Tree(NamedTuple):
    """A tree of a pattern, of a condition or of a score; ``leaves``: the list of the record around, whose places a score's leaves
    are."""

    sort: Literal["pattern", "condition", "score"]
    leaves: str = ""


_NUMBER = rf"(?:\d{{1,{MAX_DIGITS}}}(?:\.\d{{0,{MAX_DIGITS}}})?|\.\d{{1,{MAX_DIGITS}}})"
SIZE = Text(re.compile(rf"|{_NUMBER}", re.ASCII))  # empty without a window
STEP = Text(re.compile(rf"|{_NUMBER}|1/\d{{1,{MAX_DIGITS + 1}}}", re.ASCII))
