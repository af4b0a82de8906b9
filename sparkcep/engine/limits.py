"""What ends a ranking that takes too much: the callers know the settings and the partition to name."""

from __future__ import annotations


class TooManyStepsError(Exception):
    """A search took more steps than it may. ``args[0]``: the number of its window."""


class TooMuchStateError(Exception):
    """The lists of a search need more bytes than they may."""
