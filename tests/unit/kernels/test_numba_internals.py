"""The private attributes of numba's classes that the package uses exist in the installed version."""

from __future__ import annotations

from typing import Any

import pytest
from numba.core.compiler import Flags

from sparkcep.kernels.jit import numba_internals as internals
from sparkcep.kernels.jit.cache import kernel

NAMES = [(kind, name) for kind, names in internals.ATTRIBUTES.items() for name in names]


@kernel
def plus_one(x):
    return x + 1


def example(kind: type) -> Any:
    """An object of the class, with what it gets when it is made."""
    plus_one(1)
    compiled = next(iter(plus_one.overloads.values()))
    cache = plus_one._cache
    found = [plus_one, compiled, compiled.library, compiled.library.codegen, cache, cache._cache_file, Flags()]
    return next(one for one in found if isinstance(one, kind))


@pytest.mark.parametrize(("kind", "name"), NAMES, ids=[f"{kind.__name__}.{name}" for kind, name in NAMES])
def test_numba_has_what_is_used_of_it(kind, name):
    assert hasattr(example(kind), name)
