"""Bounds on the effort."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds on the effort; ``patience``: steps beyond four a row before failed states of conditions that look at the
    match are remembered; ``merging``: whether event selection prunes by completion ends and remembers failures, and
    runs side by side are merged (off to measure what that gains)."""

    max_state_bytes: int = 1 << 30
    max_steps: int = 2_000_000_000
    max_matches: int = 1_000_000_000
    patience: int = 256
    merging: bool = True
