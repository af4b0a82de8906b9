"""MATCH_ID(), and texts of values that are equal wherever and whenever they are made.

MATCH_ID() is a hash of the match: the rows that it took and their variables. A row counts with all columns except those of CHANGES
IN and ARRIVAL BY. A match of an AUTOMATON is hashed by its first and last row and by the final values of its computation. So the id
does not depend on when the match is emitted, nor on whether the input is a table or a stream. Ids are stored in sinks and in
checkpoints. A change of the ids requires a new format of the state.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import ranges
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import MatchBatch
from sparkcep.engine.output.columns_out import end_rows
from sparkcep.kernels.common import layout
from sparkcep.plan.plan import Plan

ENDING = "ending"  # the final values of a match's computation
MATCH_ID = "match_id"


def plain(value: object) -> object:
    """Normalizes a value, so that equal values have the same text.

    Removes the sign of zero, the kind of NaN and the time zone of a moment.
    """
    match value:
        case float():
            return "NaN" if value != value else value + 0.0
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC)
        case list() | tuple():
            return tuple(map(plain, value))
        case dict():
            return tuple((name, plain(part)) for name, part in value.items())
    return value


def equal_key(value: object) -> object:
    """Returns a key that is equal for values that GROUP BY considers equal. NaN equals NaN."""
    match value:
        case float():
            return "NaN" if value != value else value
        case list() | tuple():
            return tuple(map(equal_key, value))
        case dict():
            return tuple((name, equal_key(part)) for name, part in value.items())
    return value


def equal_keys(column: pa.Array | pa.ChunkedArray) -> list:
    """Returns the :func:`equal_key` of each value of a column.

    Times become numbers, because Python's calendar ends with the year 9999.
    """
    numbers = _numbers(column.type)
    return [equal_key(value) for value in (column if numbers == column.type else column.cast(numbers)).to_pylist()]


def _numbers(t: pa.DataType) -> pa.DataType:
    """Returns a type with integers instead of times."""
    if pa.types.is_date32(t) or pa.types.is_time32(t):
        return pa.int32()
    if pa.types.is_date64(t) or pa.types.is_time64(t) or pa.types.is_timestamp(t) or pa.types.is_duration(t):
        return pa.int64()
    if pa.types.is_struct(t):
        return pa.struct([field.with_type(_numbers(field.type)) for field in t])
    if pa.types.is_map(t):
        return pa.map_(_numbers(t.key_type), t.item_field.with_type(_numbers(t.item_type)))
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        made = pa.list_ if pa.types.is_list(t) else pa.large_list
        return made(t.value_field.with_type(_numbers(t.value_type)))
    return t


def id_leaf(plan: Plan) -> str | None:
    """Returns the column of MATCH_ID() if a measure asks for it, else None."""
    return next((leaf.name for leaf in plan.leaves if leaf.spec.kind == MATCH_ID), None)


def match_ids(plan: Plan, chunk: Chunk, found: MatchBatch) -> dict[str, pa.Array]:
    """Returns the id of each match as an entry of ``by_event``.

    Returns an empty dict if no measure asks for it, or if ``found`` has it already.
    """
    column = next((leaf.spec.column for leaf in plan.leaves if leaf.spec.kind == MATCH_ID), None)
    if column is None or MATCH_ID in found.by_event:  # the id is already known
        return {}
    sizes, begin = found.events[:, layout.E_ROWS], found.events[:, layout.E_LABELS]
    ways = ENDING not in found.by_event
    places = found.rows if ways else np.stack(end_rows(found.events, found.rows), axis=1).ravel()
    used, which = np.unique(places, return_inverse=True)
    same = chunk.columns[column].take(pa.array(used)).to_pylist()
    rows = [_digest(repr(plain(value)).encode()) for value in same]
    if not ways:
        ends = found.by_event[ENDING].to_pylist()
        ids = [_digest(rows[a] + rows[z] + end.encode()).hex() for (a, z), end in zip(which.reshape(-1, 2).tolist(), ends, strict=True)]
    else:
        ids = [
            _digest(b"".join(rows[which[i]] + bytes([found.labels[i]]) for i in ranges(at, size).tolist())).hex()
            for at, size in zip(begin[:, None], sizes[:, None], strict=True)
        ]  # fmt: skip
    return {MATCH_ID: pa.array(ids, pa.string())}


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()
