"""Saved state of arcs ON EXPIRY in partitions that may still grow: the time up to which these arcs have been taken.

:class:`sparkcep.engine.automaton.register_runs.RegisterRuns` saves it if the automaton has such arcs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.resume import ResumeState, restored, resume_schema
from sparkcep.engine.core.state_codec import EXPIRING, StateColumns
from sparkcep.kernels.automaton.register_runs import ENDLESS, O_EXPIRED, O_LIMIT, O_UPTO, OPEN_WIDTH
from sparkcep.kernels.common import layout


@dataclass(frozen=True)
class ExpiryState(ResumeState):
    """The start row where an automaton resumes, and how far arcs ON EXPIRY have been taken.

    ``expired_until``: int64 (partitions), the time up to which those after the last row have been taken, in the automaton's
    measure of time.
    """

    numbers: ClassVar[tuple[str, ...]] = (*ResumeState.numbers, "expired_until")

    expired_until: np.ndarray

    def columns(self) -> StateColumns:
        columns = super().columns()
        # Without kept rows nothing can be emitted a second time, so the time need not be saved.
        columns.numbers["expired_until"] = np.where(self.rows > 0, self.expired_until, 0)
        return columns


def _restored(columns: StateColumns) -> ExpiryState:
    return ExpiryState.extended(restored(columns), expired_until=columns.numbers["expired_until"])


AT_EXPIRY = resume_schema(EXPIRING, _restored, ExpiryState.numbers)
_NEVER_EXPIRED = np.zeros(0, dtype=np.int64)


def lives(chunk: Chunk, state: ResumeState, ahead: int, waits: np.ndarray | None, expired_until: np.ndarray = _NEVER_EXPIRED) -> np.ndarray:
    """The partitions for :func:`sparkcep.kernels.automaton.register_runs.run`. int64 (partitions, OPEN_WIDTH).

    Args:
        ahead: how many rows must have arrived after a row before it is searched, if the partition still grows.
        waits: bool (partitions), whether the last row waits until its lifetime is over; None if no row does.
        expired_until: see :class:`ExpiryState`.
    """
    out = np.zeros((chunk.parts, OPEN_WIDTH), dtype=np.int64)
    out[:, : layout.OPEN_FIELDS] = state.opens(chunk)
    out[:, O_UPTO] = chunk.offsets[1:] - np.where(chunk.going, ahead, 0)
    if waits is not None:
        out[:, O_UPTO] -= waits
    out[:, O_LIMIT] = ENDLESS if chunk.limits is None else chunk.limits
    out[:, O_EXPIRED] = ENDLESS
    out[: len(expired_until), O_EXPIRED] = expired_until
    return out
