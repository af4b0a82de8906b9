"""The stage of a stream: it lies between the searches of a micro-batch and the output of all keys.

:class:`StreamStage` emits final matches. :mod:`sparkcep.engine.stages.retractions` emits changes of matches.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa


class KeysLeft(NamedTuple):
    """The result of a micro-batch for the keys of a stream.

    Attributes:
        inner: the saved states of the operator.
        due: the watermark that gives a key work without a new row, NOTHING_DUE if there is none. int64 (keys).
        rows: how many rows the operator retains.
        before: how many rows it retained before.
        own: the saved states of the stage, None without such states.
        open: whether the stage saves something of each key's session. bool (keys).
    """

    inner: pa.Array
    due: np.ndarray
    rows: int
    before: int
    own: pa.Array | None = None
    open: np.ndarray | bool = False


@dataclass(frozen=True)
class MicroBatch:
    """The rows of a micro-batch, and the searches over them.

    Attributes:
        of: the key of each row. int64 (rows).
        time: the time of each row, in microseconds. int64 (rows).
        later: the rows that the watermark has not released, by key and in order. int64.
        watermark: in microseconds.
        key: the key of each partition of the final search. int64 (partitions).
        goes: whether more rows may arrive in each key's session. bool (keys).
        final: searches the released rows from the saved states.
        provisional: searches some rows of ``later`` from the saved states, and returns the output and the key of each partition.
            The state of this search is dropped.
    """

    of: np.ndarray
    time: np.ndarray
    later: np.ndarray
    watermark: int
    key: np.ndarray
    goes: np.ndarray
    final: Callable[[pa.Array], Generator[pa.Table, None, KeysLeft]]
    provisional: Callable[[np.ndarray, pa.Array], tuple[Iterator[pa.Table], np.ndarray]]


class StreamStage:
    """Emits final matches."""

    def parted(self, outer: pa.Array) -> tuple[pa.Array, Any]:
        """Splits the states beside those of the operator: the rows that are not released, and the states of the stage."""
        return outer, None

    def remaining(self, table: pa.Table, of: np.ndarray, before: int, own: Any, watermark: int) -> tuple[np.ndarray, Any]:
        """Returns the rows of ``table`` that remain, and the states of the stage.

        Args:
            table: the rows that are not released, then the new rows.
            of: the key of each row. int64 (rows).
            before: how many rows are not new.
            own: the states of the stage.
            watermark: in microseconds.
        """
        return np.arange(len(of)), own

    def emitted(self, batch: MicroBatch, inner: pa.Array, own: Any) -> Generator[pa.Table, None, KeysLeft]:
        """Yields the output of a micro-batch. ``inner``: the saved states of the operator."""
        return batch.final(inner)
