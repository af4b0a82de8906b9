"""Limits for a plan's numbers, texts and names, as annotations of the fields of :mod:`sparkcep.plan.records`.

:mod:`sparkcep.plan.json` checks them when it reads a plan and rejects a number without a limit, so that a new field cannot lack
one. Kernels do not check limits.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

MAX_VARIABLES = 62  # bits of a mask
MAX_PERMUTE = 30
MAX_BOUND = 1_000_000  # largest bound of a quantifier
MAX_OFFSET = (1 << 31) - 1
MAX_OFFSET_IN_DEFINE = 500  # of FIRST and LAST, because each row back takes a slot in every thread
MAX_COST = 1 << 40  # of a bound or weight, in units of the common denominator
MAX_TOP = 1_000_000_000
MAX_INTERVALS = 1000
MAX_CELLS = 1 << 20  # cells of a sketch
MAX_CHECKS = (1 << 31) - 1
MAX_BUDGET_NANOS = 1 << 50
MAX_BUNDLES = 4096
MAX_IDLE = 1 << 62  # microseconds
MAX_WORD = (1 << 63) - 1  # largest integer in a kernel
MAX_DIGITS = 100  # digits of a text that becomes a number
MAX_DAYS = 99_999_999
MAX_TREE = 250  # nesting of a tree; a clause nests 50 expressions of 150 operators in sequence
MAX_TEXT = 1 << 25  # characters of a plan


class Range(NamedTuple):
    """A number from ``low`` to below ``below``.

    ``below`` is a number, or the name of a list: a member of the record around the number, of a record around that, or of the plan.
    The name ``sets`` means the number of sets of variables.
    """

    low: int
    below: int | str


class Text(NamedTuple):
    """A text that becomes a number, or names a type."""

    pattern: re.Pattern[str]


class Column(NamedTuple):
    """The name of an input column.

    Attributes:
        kinds: allowed kinds of its type, "" for any kind.
        also: names that have another meaning.
        own: whether registers, letters and parameters of an automaton are allowed, too.
    """

    kinds: str = ""
    also: tuple[str, ...] = ()
    own: bool = False


class Tree(NamedTuple):
    """The tree of a pattern, of a condition or of a score.

    ``leaves``: for a score, the list of the record around it that its leaves index.
    """

    sort: Literal["pattern", "condition", "score"]
    leaves: str = ""


_NUMBER = rf"(?:\d{{1,{MAX_DIGITS}}}(?:\.\d{{0,{MAX_DIGITS}}})?|\.\d{{1,{MAX_DIGITS}}})"
SIZE = Text(re.compile(rf"|{_NUMBER}", re.ASCII))  # empty without a window
STEP = Text(re.compile(rf"|{_NUMBER}|1/\d{{1,{MAX_DIGITS + 1}}}", re.ASCII))
