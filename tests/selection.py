"""Marks what the default run leaves to the wider one (README.md in this folder says which run takes what)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def first(values: Iterable, count: int = 1, wider: int | None = None) -> list:
    """The values as parameters of a test; the default run takes the first ``count`` of them, the wider one those before the
    ``wider``-th (None: as many again), and what is left is slow."""
    upto = 2 * count if wider is None else wider
    return [value if i < count else further(value) if i < upto else slow(value) for i, value in enumerate(values)]


def one_in(step: int, values: Iterable, wider: int = 1) -> list:
    """The values as parameters of a test; the default run takes the first and then each ``step``-th, the wider one of the others
    each ``wider``-th, and what is left is slow."""
    return [value if i % step == 0 else further(value) if i % wider == 0 else slow(value) for i, value in enumerate(values)]


def part(number: int, parts: int, values: Iterable) -> list:
    """The values as parameters of a test of which the wider run takes one part, each ``parts``-th from the ``number``-th on; the
    others are slow."""
    return [value if i % parts == number else slow(value) for i, value in enumerate(values)]


def further(value: object):
    """One parameter, or a ``pytest.param`` of several, that only the wider run takes."""
    return _marked(value, pytest.mark.further)


def slow(value: object):
    """One parameter, or a ``pytest.param`` of several, that only the slow run takes."""
    return _marked(value, pytest.mark.slow)


def _marked(value: object, mark):
    if hasattr(value, "marks") and hasattr(value, "values"):
        return pytest.param(*value.values, marks=[*value.marks, mark], id=value.id)
    return pytest.param(value, marks=mark)
