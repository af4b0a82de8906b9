"""Arcs ON EXPIRY of partitions that go on: how far they are taken, and what is kept of that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.state_codec import EXPIRING
from sparkcep.engine.match.enumeration import ListedForm, Open
from sparkcep.kernels.automaton.register_runs import ENDLESS, O_EXPIRED, O_LIMIT, O_UPTO, OPEN_WIDTH
from sparkcep.kernels.common import layout


@dataclass(frozen=True)
class OpenLives(Open):
    """Where a search stands, and ``told`` int64 (partitions): the time up to which arcs ON EXPIRY behind the last row
    were taken."""

    told: np.ndarray

    @staticmethod
    def of_open(state: Open, told: np.ndarray) -> OpenLives:
        return OpenLives(state.rows, state.start, state.number, state.covered, state.dropped, state.taken, told)


class LivesForm(ListedForm):
    """How :class:`OpenLives` is kept as bytes: of a partition without rows nothing was told that could be told again."""

    kind, numbers = EXPIRING, ListedForm.numbers + 1

    def written(self, state: OpenLives) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
        numbers, arrays = super().written(state)
        return np.column_stack([numbers, np.where(state.rows > 0, state.told, 0)]), arrays

    def read(self, rows: np.ndarray, numbers: np.ndarray, arrays: list[tuple[np.ndarray, np.ndarray]]) -> OpenLives:
        return OpenLives.of_open(super().read(rows, numbers[:, :-1], arrays), numbers[:, -1])


def lives(chunk: Chunk, state: Open, ahead: int, waits: np.ndarray | None) -> np.ndarray:
    """The partitions as :func:`sparkcep.kernels.automaton.register_runs.run` has them, int64 (partitions, OPEN_WIDTH).

    ``ahead``: how many rows behind a row must be there, where more may come. ``waits`` bool (partitions): whether the last row
    waits until all is known of it, None where none does.
    """
    out = np.zeros((chunk.parts, OPEN_WIDTH), dtype=np.int64)
    out[:, : layout.OPEN_FIELDS] = state.opens(chunk)
    out[:, O_UPTO] = chunk.offsets[1:] - np.where(chunk.going, ahead, 0)
    if waits is not None:
        out[:, O_UPTO] -= waits
    out[:, O_LIMIT] = ENDLESS if chunk.limits is None else chunk.limits
    out[:, O_EXPIRED] = ENDLESS
    if isinstance(state, OpenLives):
        out[: len(state.told), O_EXPIRED] = state.told
    return out
