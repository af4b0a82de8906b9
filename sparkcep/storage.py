"""The folder for what is compiled once and kept: SPARKCEP_CACHE_DIR, or ``sparkcep`` in the user's cache folder."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """Where it is, or would be: nothing is created."""
    chosen = os.environ.get("SPARKCEP_CACHE_DIR")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sparkcep"
