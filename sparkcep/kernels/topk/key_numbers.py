"""Numbers the keys of :mod:`sparkcep.kernels.topk.k_best` in each partition from 0, so that there are as few lists as possible.

Lists are emptied for each window. If all keys of many partitions had lists, the cost would grow by windows times keys.

Example: partitions of two rows each, left keys 7, 9, 9, 4 and right keys 9, 7, 7, 9. The left keys become 0, 1, 0, 1 and the right
keys 1, 0, -1, 0.
"""

from __future__ import annotations

from sparkcep.kernels.jit.cache import kernel


@kernel
def number_keys(starts, left, right, number, partition):
    """Numbers the keys in place. A right key without an equal left key in its partition becomes -1.

    Args:
        starts: int64 (partitions + 1), the first row of each partition, and the end of the last one.
        left: int64 (rows), below 0 for no key.
        right: int64 (edges, rows).
        number: int64 (keys), working memory.
        partition: int64 (keys), -1 for each key; working memory.
    """
    for p in range(starts.shape[0] - 1):
        count = 0
        for row in range(starts[p], starts[p + 1]):
            key = left[row]
            if key < 0:
                continue
            if partition[key] != p:
                partition[key] = p
                number[key] = count
                count += 1
            left[row] = number[key]
        for e in range(right.shape[0]):
            for row in range(starts[p], starts[p + 1]):
                key = right[e, row]
                right[e, row] = number[key] if key >= 0 and partition[key] == p else -1
