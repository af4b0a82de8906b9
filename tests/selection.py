"""Marks what the default run leaves to the wider one (README.md in this folder says which run takes what)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def first(values: Iterable, count: int = 1, wider: int | None = None) -> list:
    """The values as parameters of a test; the default run takes the first ``count`` of them, the wider one those before the
    ``wider``-th (None: all), and what is left is slow."""
    return [
        value if i < count else further(value) if wider is None or i < wider else pytest.param(value, marks=pytest.mark.slow)
        for i, value in enumerate(values)
    ]


def one_in(step: int, values: Iterable) -> list:
    """The values as parameters of a test; the default run takes the first and then each ``step``-th."""
    return [further(value) if i % step else value for i, value in enumerate(values)]


def part(number: int, parts: int, values: Iterable) -> list:
    """The values as parameters of a test of which the wider run takes one part, each ``parts``-th from the ``number``-th on; the
    others are slow."""
    return [value if i % parts == number else pytest.param(value, marks=pytest.mark.slow) for i, value in enumerate(values)]


def further(value: object):
    """One parameter, or a ``pytest.param`` of several, that only the wider run takes."""
    if hasattr(value, "marks") and hasattr(value, "values"):
        return pytest.param(*value.values, marks=[*value.marks, pytest.mark.further], id=value.id)
    return pytest.param(value, marks=pytest.mark.further)
