"""The types of a kernel's arguments as JSON, so that another process knows what to compile."""

from __future__ import annotations

import importlib
from typing import Any

from sparkcep.kernels.jit.numba_internals import types

_PLAIN = {t.name: t for t in (types.none, types.boolean, types.int64, types.uint64, types.int32, types.uint8, types.float64)}


def written(signature: tuple[types.Type, ...]) -> list | None:
    """The types as lists and strings. None if one is of an unknown kind."""
    found = [_written(kind) for kind in signature]
    return None if None in found else found


def _written(kind: types.Type) -> Any:
    if _PLAIN.get(kind.name) == kind:
        return kind.name
    if isinstance(kind, types.Array) and _PLAIN.get(kind.dtype.name) == kind.dtype:
        return ["array", kind.dtype.name, kind.ndim, kind.layout, kind.mutable, kind.aligned]
    if isinstance(kind, types.BaseTuple):
        made, members = getattr(kind, "instance_class", tuple), written(tuple(kind))
        return None if members is None else ["tuple", made.__module__, made.__qualname__, members]
    return None


def read(signature: list) -> tuple[types.Type, ...]:
    """The types that :func:`written` wrote."""
    return tuple(_read(text) for text in signature)


def _read(text: Any) -> types.Type:
    if isinstance(text, str):
        return _PLAIN[text]
    if text[0] == "array":
        _, dtype, ndim, layout, mutable, aligned = text
        return types.Array(_PLAIN[dtype], ndim, layout, readonly=not mutable, aligned=aligned)
    _, module, name, members = text
    return types.BaseTuple.from_types(read(members), getattr(importlib.import_module(module), name) if name != "tuple" else None)
