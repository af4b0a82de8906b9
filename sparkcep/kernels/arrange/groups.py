"""Numbers rows by their keys, with a hash table (open addressing, linear probing), and places the rows key by key.

Several columns of keys are numbered one after the other: a row's number so far and the word of its next column make its next
number.

Example: the words 7, 9, 7, 9 with the numbers 0, 0, 0, 1 before get the numbers 0, 1, 0, 2. The sizes are 2, 1, 1, and the
rows' places 0, 2, 1, 3.
"""

from __future__ import annotations

import numpy as np

from sparkcep.kernels.common.hash_table import HALF, spread
from sparkcep.kernels.jit.cache import inlined, kernel


@inlined
def _cell(before, word, mask):
    """The first cell of a pair. The words of short strings and of whole DOUBLEs differ in their high bits only."""
    return np.int64(spread(np.uint64(word) ^ (np.uint64(before) << HALF)) & np.uint64(mask))


@kernel
def number_rows(before, words, first, table, pairs, count, numbers):
    """Numbers rows from ``first`` on, until the table is half full. A new pair gets the next number.

    Args:
        before: the numbers so far. int32 (rows).
        words: the words of the next column. int64 (rows).
        first: the first row without a number.
        table: the number of a pair plus one, 0 for a free cell. int32 (a power of two).
        pairs: before and word of each number. int64 (half of the table, 2).
        count: how many numbers there are.
        numbers: output, int32 (rows).

    Returns:
        The row that needs a larger table, or the number of rows; and how many numbers there are then.
    """
    mask = table.shape[0] - 1
    last = 0
    for row in range(first, words.shape[0]):
        word, number = words[row], before[row]
        # neighbours mostly have the same key
        if row > first and word == words[row - 1] and number == before[row - 1]:
            numbers[row] = last
            continue
        at = _cell(number, word, mask)
        while table[at] != 0:
            found = table[at] - 1
            if pairs[found, 1] == word and pairs[found, 0] == number:
                break
            at = (at + 1) & mask
        if table[at] == 0:
            if count == pairs.shape[0]:
                return row, count
            pairs[count, 0] = number
            pairs[count, 1] = word
            count += 1
            table[at] = count
        last = table[at] - 1
        numbers[row] = last
    return words.shape[0], count


@kernel
def enter_pairs(pairs, count, table):
    """Enters the first ``count`` pairs into a table that has none."""
    mask = table.shape[0] - 1
    for number in range(count):
        at = _cell(pairs[number, 0], pairs[number, 1], mask)
        while table[at] != 0:
            at = (at + 1) & mask
        table[at] = number + 1


@kernel
def count_rows(numbers, sizes):
    """Counts the rows of each number.

    Args:
        numbers: int32 (rows).
        sizes: output, zeros before. int64 (numbers).

    Returns:
        Whether the numbers ascend.
    """
    ascend = True
    last = 0
    for row in range(numbers.shape[0]):
        number = numbers[row]
        sizes[number] += 1
        ascend &= number >= last
        last = number
    return ascend


@kernel
def place_rows(numbers, ends, places):
    """Places rows number by number, in their order (counting sort).

    Args:
        numbers: int32 (rows).
        ends: the first place of each number; output: the place after its last row. int64 (numbers).
        places: output, the place of each row. int64 (rows).
    """
    for row in range(numbers.shape[0]):
        number = numbers[row]
        places[row] = ends[number]
        ends[number] += 1
