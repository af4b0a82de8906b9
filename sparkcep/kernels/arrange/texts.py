"""Copies values of their own lengths, such as strings, into another order.

Example: of the values ``ab``, none, ``c`` (bytes ``abc``, offsets 0, 2, 2, 3) the rows 2, 0 are the bytes ``cab``.
"""

from __future__ import annotations

from sparkcep.kernels.jit.cache import kernel


@kernel
def copy_texts(values, offsets, rows, out):
    """Copies the values of these rows, one after the other.

    Args:
        values: the bytes of all values. uint8 (bytes).
        offsets: the bounds of the values. int64 (rows + 1).
        rows: which values. int32 or int64.
        out: output, uint8, as long as these values.
    """
    at = 0
    for i in range(rows.shape[0]):
        row = rows[i]
        for byte in range(offsets[row], offsets[row + 1]):
            out[at] = values[byte]
            at += 1
