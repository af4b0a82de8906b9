"""Random rows and their blocks, written in plain Python, and the order that Spark gives the rows. Nothing of the engine is used."""

from __future__ import annotations

import functools
import json
import math
import random
import struct
from decimal import Decimal
from typing import Any

Row = tuple[Any, ...]
_FORMATS = {"bool": "?", "int8": "b", "int16": "<h", "int32": "<i", "int64": "<q", "float": "<f", "double": "<d", "date": "<i", "timestamp": "<q", "timestamp_ntz": "<q", "duration": "<q", "time": "<q"}
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "date": 24, "timestamp": 60, "timestamp_ntz": 60, "duration": 60, "time": 40}
TYPES = (*_FORMATS, "decimal 12 2", "decimal 30 4", "string", "binary")


def value(r: random.Random, kind: str, few: bool) -> Any:
    """A value of a type: of a few ones, or of all. None for NULL."""
    if r.random() < 0.15:
        return None
    if kind == "bool":
        return r.random() < 0.5
    if kind in _BITS:
        most = 2 if few else 1 << r.choice((3, _BITS[kind] - 1))
        return r.randrange(-most, most)
    if kind in ("float", "double"):
        some = r.choice((0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -1.5, r.uniform(-9, 9)))
        return struct.unpack("<f", struct.pack("<f", some))[0] if kind == "float" else some
    if kind.startswith("decimal"):
        _, precision, scale = kind.split()
        most = 3 if few else 10 ** r.choice((3, int(precision) - 1))
        return Decimal(f"{r.randrange(-most, most)}E-{scale}")  # exact, as no operation of a context is
    text = bytes(r.choice((0, 65, 66, 255)) for _ in range(r.randrange(3 if few else 12)))
    return text.decode("latin-1").encode() if kind == "string" else text


def described(types: list[str], *, sent: int, keys: list[int], order: list, held: int, large: bool = False, output: list | None = None) -> dict:
    """The description of blocks whose first ``sent`` columns go to the engine, or what ``output`` makes of them."""
    output = list(range(sent)) if output is None else output
    return {"types": types, "sent": sent, "output": output, "keys": keys, "order": order, "zone": "UTC", "large": large, "held": held}


def block(description: dict, rows: list[Row]) -> bytes:
    """The block of some rows."""
    text = json.dumps(description).encode()
    columns = list(zip(*rows)) if rows else [() for _ in description["types"]]
    nulls = [2 if column and all(v is None for v in column) else int(None in column) for column in columns]
    parts = [text, bytes(nulls)]
    for kind, column, null in zip(description["types"], columns, nulls):
        if null == 2:
            continue
        if null:
            parts.append(bytes(v is None for v in column))
        if kind in ("string", "binary"):
            data = [v or b"" for v in column]
            parts.append(b"".join(struct.pack("<i", sum(map(len, data[: i + 1]))) for i in range(len(data))))
            parts.append(b"".join(data))
        else:
            parts.append(b"".join(_packed(kind, v) for v in column))
    whole = b"".join(part + bytes(-len(part) % 8) for part in parts)
    return struct.pack("<4siii", b"scb3", len(rows), len(text), 16 + len(whole)) + whole


def _packed(kind: str, v: Any) -> bytes:
    if kind.startswith("decimal"):
        sign, digits, _ = (v or Decimal(0)).as_tuple()
        unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
        return unscaled.to_bytes(8 if int(kind.split()[1]) <= 18 else 16, "little", signed=True)
    return struct.pack(_FORMATS[kind], 0 if v is None else v)


def key(v: Any) -> Any:
    """A value that is equal where GROUP BY finds values equal."""
    if isinstance(v, float):
        return "NaN" if v != v else v + 0.0
    return v


def compared(left: Any, right: Any, descending: bool, nulls_first: bool) -> int:
    """Spark's order of two values: below 0 if ``left`` comes first."""
    if left is None or right is None:
        return 0 if left is right else -1 if (left is None) == nulls_first else 1
    if isinstance(left, float) and (left != left or right != right):
        found = (left != left) - (right != right)
    else:
        found = (left > right) - (left < right)
    return -found if descending else found


def in_order(rows: list[Row], order: list[tuple[int, bool, bool]]) -> list[Row]:
    """Rows of one key as ORDER BY sorts them. Rows that tie keep their order."""
    def by(left: Row, right: Row) -> int:
        return next((found for i, *how in order if (found := compared(left[i], right[i], *how))), 0)

    return sorted(rows, key=functools.cmp_to_key(by))


def arranged(rows: list[Row], keys: list[int], order: list[tuple[int, bool, bool]]) -> list[Row]:
    """All rows, key by key as the keys come up, each key's by ORDER BY."""
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(key(row[i]) for i in keys), []).append(row)
    return [row for group in groups.values() for row in in_order(group, order)]
