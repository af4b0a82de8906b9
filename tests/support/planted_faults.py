"""Plants a fault in a function, for tests of tests."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable
from types import ModuleType


def plant(monkeypatch, owner: object, name: str, right: str, wrong: str, importers: Iterable[ModuleType] = ()) -> None:
    """Replaces ``right`` by ``wrong`` in a function of a class or module, also in ``importers`` that have it by its name."""
    function = inspect.getattr_static(owner, name)
    source = textwrap.dedent(inspect.getsource(getattr(owner, name)))
    assert right in source
    names: dict = {}
    exec(source.replace(right, wrong, 1), vars(inspect.getmodule(getattr(owner, name))), names)
    monkeypatch.setattr(owner, name, names[name])
    for importer in importers:
        if not inspect.isclass(owner) and getattr(importer, name, None) is function:
            monkeypatch.setattr(importer, name, names[name])
