"""Output rows tagged with partition and match, so that a match is emitted or retracted as a unit.

Retractions use them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import MatchBatch
from sparkcep.engine.output.columns_out import OutputRows
from sparkcep.engine.output.match_id import match_ids
from sparkcep.engine.output.tables import Tables
from sparkcep.kernels.common import layout

PART, MATCH = "__part", "__match"


class MatchTables(Tables):
    """Makes output rows tagged with partition and match."""

    count = 0

    def of(self, chunk: Chunk, found: MatchBatch) -> Iterator[pa.Table]:
        size = len(found.events)
        no_change = {"change": pa.array(["insert"] * size, pa.string()), "change_number": pa.array(np.zeros(size, dtype=np.int64))}
        # the batches of a changelog already have these columns
        yield from super().of(chunk, replace(found, by_event=no_change | found.by_event | match_ids(self.plan, chunk, found)))
        self.count += size

    def _table(self, rows: OutputRows, out_pos: np.ndarray, columns: dict[str, pa.Array]) -> pa.Table:
        table = super()._table(rows, out_pos, columns)
        part = pa.array(rows.events[rows.out_event, layout.E_PART])
        return table.append_column(PART, part).append_column(MATCH, pa.array(self.count + rows.out_event.astype(np.int64)))
