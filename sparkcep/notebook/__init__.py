"""SQL cells in notebooks. ``%load_ext sparkcep`` gives ``%%sql``, ``%sql`` and, under a name that is always free,
``%%sparkcep``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Registers the magics in ``shell``; starts no Spark."""
    from sparkcep.notebook.magic import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Takes the magics away, and puts back the ones that had their names before."""
    from sparkcep.notebook.magic import unload

    unload(shell)
