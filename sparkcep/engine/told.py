"""Output rows that know their partition and their match, by which those of one match are told, or taken back, together.

MATCH_ID() is made of what a match is: the rows that it took, by all their columns but that of CHANGES IN, and their variables;
of an AUTOMATON's match its first and last row and what its computation ended with. So it is the same whenever the match is told.
Ids stand in sinks and in checkpoints: other ones need another format of the state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import ranges
from sparkcep.engine.buffer import Chunk
from sparkcep.engine.found import Found
from sparkcep.engine.identity import ENDING, plain
from sparkcep.engine.outputs import Rows
from sparkcep.engine.tables import Tables
from sparkcep.search import codes

PART, MATCH = "__part", "__match"


class MatchTables(Tables):
    """Makes output rows that know their partition and their match."""

    count = 0

    def of(self, chunk: Chunk, found: Found) -> Iterator[pa.Table]:
        size = len(found.events)
        no_change = {"change": pa.array(["insert"] * size, pa.string()), "change_number": pa.array(np.zeros(size, dtype=np.int64))}
        if any(leaf.spec.kind == "match_id" for leaf in self.plan.leaves):
            no_change["match_id"] = self._ids(chunk, found)
        yield from super().of(chunk, replace(found, by_event=found.by_event | no_change))
        self.count += size

    def _table(self, rows: Rows, out_pos: np.ndarray, columns: dict[str, pa.Array]) -> pa.Table:
        table = super()._table(rows, out_pos, columns)
        part = pa.array(rows.events[rows.out_event, codes.E_PART])
        return table.append_column(PART, part).append_column(MATCH, pa.array(self.count + rows.out_event.astype(np.int64)))

    def _ids(self, chunk: Chunk, found: Found) -> pa.Array:
        """What tells each match from those of other rows."""
        first, sizes, begin = (found.events[:, at] for at in (codes.E_START, codes.E_ROWS, codes.E_LABELS))
        ways = ENDING not in found.by_event
        places = found.rows if ways else np.stack([first, first + sizes - 1], axis=1).ravel()
        used, which = np.unique(places, return_inverse=True)
        same = chunk.columns[self.plan.changes.same].take(pa.array(used)).to_pylist()
        rows = [_digest(repr(plain(value)).encode()) for value in same]
        if not ways:
            ends = found.by_event[ENDING].to_pylist()
            return pa.array([_digest(rows[a] + rows[z] + end.encode()).hex() for (a, z), end in zip(which.reshape(-1, 2).tolist(), ends, strict=True)], pa.string())
        return pa.array(
            [
                _digest(b"".join(rows[which[i]] + bytes([found.labels[i]]) for i in ranges(at, size).tolist())).hex()
                for at, size in zip(begin[:, None], sizes[:, None], strict=True)
            ], pa.string(),
        )  # fmt: skip


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()
