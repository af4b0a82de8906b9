"""MATCH_ID(), and texts of values that are equal wherever and whenever they are made.

MATCH_ID() is a hash of the match: the rows that it took and their variables. A row counts with all columns except those of CHANGES
IN and ARRIVAL BY. A match of an AUTOMATON is hashed by its first and last row and by the final values of its computation. So the id
does not depend on when the match is emitted, nor on whether the input is a table or a stream. Ids are stored in sinks and in
checkpoints. A change of the ids requires a new format of the state.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import ranges
from sparkcep.columns.comparable import as_bytes, as_number, comparable, first_form, in_utc, with_leaves
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import MatchBatch
from sparkcep.engine.output.columns_out import end_rows
from sparkcep.kernels.common import layout
from sparkcep.plan.plan import Plan

ENDING = "ending"  # the final values of a match's computation
MATCH_ID = "match_id"
_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|U(000[0-9a-f]{5}|0010[0-9a-f]{4})|.)")  # of repr; an escaped backslash hides the next character


def plain(value: object) -> object:
    """Normalizes a value, so that values which GROUP BY considers equal are equal and have the same text.

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


def stable_text(value: object) -> str:
    """Returns Python's text of a value, equal in all versions of Python.

    ``repr`` escapes characters that are not in the Unicode of this version of Python. Here they are not escaped.
    """
    text = repr(value)
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def _unescaped(escape: re.Match) -> str:
    number = escape[1] or escape[2]
    if number is None:
        return escape[0]
    code = int(number, 16)
    never = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF  # no Unicode will have these characters
    return chr(code) if chr(code).isprintable() or (unicodedata.category(chr(code)) == "Cn" and not never) else escape[0]


def is_stable(text: str) -> bool:
    """Returns whether :func:`stable_text` could have made this text.

    If not, a version of Python with an older Unicode has escaped a character of it.
    """
    return _ESCAPE.sub(_unescaped, text) == text


def equal_keys(column: pa.Array | pa.ChunkedArray) -> list:
    """Returns a key for each value of a column. Keys are equal for values that GROUP BY considers equal."""
    return [plain(value) for value in comparable(column)]


def plain_values(column: pa.Array | pa.ChunkedArray) -> list:
    """Returns the :func:`plain` value of each value of a column.

    A value with a time beyond Python's calendar has numbers instead of its times. A value with a string that is not UTF-8 also has
    bytes instead of its strings.
    """
    moments = column.cast(with_leaves(column.type, in_utc))  # a time zone decides nothing, and no local time leaves the calendar
    try:
        return [plain(value) for value in moments.to_pylist()]
    except (OverflowError, ValueError):
        numbers = column.cast(with_leaves(column.type, as_number))
        forms = zip(moments, numbers, numbers.cast(with_leaves(numbers.type, as_bytes)), strict=True)
        return [first_form(values, lambda value: plain(value.as_py())) for values in forms]


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
    rows = [_digest(stable_text(value).encode()) for value in plain_values(chunk.columns[column].take(pa.array(used)))]
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
