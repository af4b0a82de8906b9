"""Measures of matches that share their ends: AFTER MATCH SKIP goes to a row of the match, and no condition looks at the match.

Such a match has its own labels for its first rows, up to a row where its path joins that of an earlier match. From there on it uses
that match's labels. So the labels are the nodes of a forest: each points to the label ``after`` it, which belongs to the next row.
The value of a measure for a match follows from its value for the rows after the first one. So all matches together take O(labels),
no matter how long each match is.

Example: ``A+ B`` with SKIP TO NEXT ROW over the rows A A B. The first match has the labels 0 (A), 1 (A) and 2 (B). The second match
begins at row 1. Its own label 3 (A) is followed by label 2. So ``first`` is ``[0, 3]``, ``after`` is ``[1, 2, -1, 2]`` and ``at``
is ``[0, 1, 2, 1]``.

Shared arguments: ``events`` int64 (m, 5), ``labels`` uint8 and ``joins`` int64 (m, 4) as filled by
:func:`sparkcep.kernels.match.backtrack.match_partitions`. Measures are of whole matches, one value for each event.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.engine.output import gather
from sparkcep.engine.output.gather import float_less
from sparkcep.engine.output.ordered_sums import add_to_slices
from sparkcep.kernels.common.layout import E_LABELS, E_PART, E_ROWS, E_START
from sparkcep.kernels.jit.cache import inlined, kernel

MOST_LABELS = 1 << 20  # Labels at a time at most, if matches have all their labels.
_ALL = np.zeros(0, dtype=np.uint8)  # as NULL marks or filter: all rows count
_EXACT = 2.0**53  # sums of integers below it do not depend on the order of additions


class Forest(NamedTuple):
    """The labels of matches as a forest.

    Attributes:
        events, labels, joins: see the module.
        after: the place of the next row's label, -1 after the last one. int64 (labels).
        at: the row of each label. int64 (labels).
        first: the place of each match's first label, -1 if the match is empty. int64 (m).
    """

    events: np.ndarray
    labels: np.ndarray
    joins: np.ndarray
    after: np.ndarray
    at: np.ndarray
    first: np.ndarray


def forest(events: np.ndarray, labels: np.ndarray, joins: np.ndarray) -> Forest:
    """Links the labels of matches to a forest."""
    made = Forest(events, labels, joins, *(np.empty(size, dtype=np.int64) for size in (len(labels), len(labels), len(events))))
    _link(made)
    return made


@kernel
def _link(forest):
    """Fills ``after``, ``at`` and ``first``."""
    events, labels, joins, after, at, first = forest
    for e in range(events.shape[0]):
        base = events[e, E_LABELS]
        own = joins[e, 0]
        for i in range(own):
            after[base + i] = base + i + 1
            at[base + i] = events[e, E_START] + i
        # The last own label leads to a label of an earlier match, or to -1.
        if own > 0:
            after[base + own - 1] = joins[e, 1]
        first[e] = base if own > 0 else joins[e, 1]


@inlined
def _in(mask, label):
    return mask == -1 or (mask >> (label & 63)) & 1 == 1


def navigate(first: bool, mask: int, logical: int, physical: int, trees: Forest, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the row and label of FIRST or LAST with offsets for each event, -1 if the row does not exist. int64 (m) each.

    Args:
        first: FIRST or LAST.
        mask: the variables.
        logical: the offset among the rows of the variables.
        physical: the offset in rows, which may leave the match. The label is that of the row where this offset begins.
        trees: the matches.
        offsets: the bounds of the partitions.
    """
    at, labels = np.empty(len(trees.events), dtype=np.int64), np.empty(len(trees.events), dtype=np.int64)
    found, _ = _hits(mask, 0 if first else logical + 1, _ALL, _ALL, trees)
    _navigate(logical if first else 0, physical, trees, offsets, found, at, labels)
    return at, labels


@kernel
def _navigate(steps, physical, forest, offsets, found, out_at, out_label):
    """Fills ``out_at`` and ``out_label``: starts at the label in ``found`` and moves ``steps`` times to the next such label."""
    events, labels, joins, after, at, first = forest
    for e in range(events.shape[0]):
        n = found[first[e]] if first[e] >= 0 else -1
        for _ in range(steps):
            if n < 0:
                break
            rest = after[n]
            n = found[rest] if rest >= 0 else -1
        row = np.int64(-1)
        if n >= 0:
            row = at[n] + physical
            part = events[e, E_PART]
            if row < offsets[part] or row >= offsets[part + 1]:
                row = np.int64(-1)
        out_at[e] = row
        out_label[e] = labels[n] & 63 if n >= 0 else -1


def _hits(mask: int, wanted: int, nulls: np.ndarray, keep: np.ndarray, trees: Forest) -> tuple[np.ndarray, np.ndarray]:
    """Returns for each label the first counting label from there on, and how many labels count from there on. int64 (labels) each.

    With ``wanted`` the first array has the label after which ``wanted - 1`` more labels count, -1 if there is none.
    """
    found, count = np.empty(len(trees.labels), dtype=np.int64), np.empty(len(trees.labels), dtype=np.int64)
    _find(mask, wanted, nulls, keep, trees, found, count)
    return found, count


@kernel
def _find(mask, wanted, nulls, keep, forest, found, count):
    """Fills ``found`` and ``count``."""
    events, labels, joins, after, at, first = forest
    for e in range(events.shape[0]):
        base = events[e, E_LABELS]
        # The labels are visited backwards, and earlier matches come first. So the label after each label is already done.
        for i in range(joins[e, 0] - 1, -1, -1):
            n = base + i
            rest = after[n]
            place = found[rest] if rest >= 0 else -1
            many = count[rest] if rest >= 0 else 0
            if _counts(mask, labels[n], at[n], nulls, keep):
                many += 1
                if wanted == 0 or many == wanted:
                    place = n
            found[n] = place
            count[n] = many


def aggregate(
    kind: int, mask: int, ints: np.ndarray, flts: np.ndarray, nulls: np.ndarray, keep: np.ndarray, trees: Forest,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Returns (int64 value, float64 value, count) for each event, like :func:`sparkcep.engine.output.gather.aggregate`."""
    if kind == gather.SUM_INT and not np.abs(ints.astype(np.float64)).sum() < 2.0**62:
        return _one_by_one(kind, mask, ints, flts, nulls, keep, trees)
    size = len(trees.labels)
    counts, totals, sums = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64), np.empty(size, dtype=np.float64)
    _fold(kind, mask, ints, flts, nulls, keep, trees, counts, totals, sums)
    values = _at_first(totals, trees, np.int64(0 if kind == gather.SUM_INT else -1))
    if kind == gather.SUM_FLOAT and not (np.abs(flts).sum() < _EXACT and (np.trunc(flts) == flts).all()):
        return values, _sums_in_order(mask, flts, nulls, keep, trees), _at_first(counts, trees, np.int64(0))
    return values, _at_first(sums, trees, 0.0), _at_first(counts, trees, np.int64(0))


def collect(mask: int, nulls: np.ndarray, keep: np.ndarray, trees: Forest) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the counting rows of ``mask`` for each event, like :func:`sparkcep.engine.output.gather.collect`.

    Takes O(labels and collected rows).
    """
    found, count = _hits(mask, 0, nulls, keep, trees)
    sizes = _at_first(count, trees, np.int64(0))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.empty((2, int(offsets[-1])), dtype=np.int64)
    _collect(trees, found, offsets, rows)
    return offsets, rows[0], rows[1]


def _at_first(values: np.ndarray, trees: Forest, none: np.generic | float) -> np.ndarray:
    """Returns for each event the value at its first label, ``none`` for an empty match."""
    out = np.full(len(trees.events), none)
    there = trees.first >= 0
    out[there] = values[trees.first[there]]
    return out


@kernel
def _collect(forest, found, offsets, rows):
    """Fills ``rows`` with the rows and their labels."""
    events, labels, joins, after, at, first = forest
    for e in range(events.shape[0]):
        n = first[e]
        for k in range(offsets[e], offsets[e + 1]):
            n = found[n]
            rows[0, k] = at[n]
            rows[1, k] = labels[n] & 63
            n = after[n]


@inlined
def _counts(mask, label, row, nulls, keep):
    return _in(mask, label) and (keep.shape[0] == 0 or keep[row] != 0) and (nulls.shape[0] == 0 or nulls[row] != 1)


@kernel
def _fold(kind, mask, ints, flts, nulls, keep, forest, counts, totals, sums):
    """Fills ``counts``, ``totals`` and ``sums`` (labels) with the aggregate of the rows from each label on.

    For MIN and MAX the total is the row of the value, the first one among equal values.
    """
    events, labels, joins, after, at, first = forest
    for e in range(events.shape[0]):
        base = events[e, E_LABELS]
        # The labels are visited backwards, and earlier matches come first. So the label after each label is already done.
        for i in range(joins[e, 0] - 1, -1, -1):
            n = base + i
            rest = after[n]
            count = np.int64(0)
            total = np.int64(0 if kind == gather.SUM_INT else -1)
            number = 0.0
            if rest >= 0:
                count = counts[rest]
                total = totals[rest]
                number = sums[rest]
            row = at[n]
            if _counts(mask, labels[n], row, nulls, keep):
                count += 1
                if kind == gather.SUM_INT:
                    total += ints[row]
                elif kind == gather.SUM_FLOAT:
                    number += flts[row]
                elif kind == gather.MIN_INT:
                    # Backwards, the first one of equal values comes last. So an equal value replaces the row found.
                    if total < 0 or ints[row] <= ints[total]:
                        total = row
                elif kind == gather.MAX_INT:
                    if total < 0 or ints[row] >= ints[total]:
                        total = row
                elif kind == gather.MIN_FLOAT:
                    if total < 0 or not float_less(flts[total], flts[row]):
                        total = row
                elif kind == gather.MAX_FLOAT:
                    if total < 0 or not float_less(flts[row], flts[total]):
                        total = row
            counts[n] = count
            totals[n] = total
            sums[n] = number


def _sums_in_order(mask: int, flts: np.ndarray, nulls: np.ndarray, keep: np.ndarray, trees: Forest) -> np.ndarray:
    """Returns for each event the sum of its rows' values, added from the first row on. float64 (m).

    The last bits of a sum depend on the order, so each match has a sum of its own. Matches with a common label get consecutive
    places, so a label adds its value to one slice of the sums.
    """
    size, matches = len(trees.labels), len(trees.events)
    many, begin, filled, order, runs = np.zeros((5, size), dtype=np.int64)
    places = np.zeros(matches, dtype=np.int64)
    steps = _slices(mask, nulls, keep, trees, many, begin, filled, order, runs, places)
    order, runs = order[:steps], runs[:steps]
    lows, sums = begin[order], np.zeros(matches, dtype=np.float64)
    add_to_slices(flts[trees.at[order]], lows, lows + many[order], runs, sums)
    return np.where(trees.first >= 0, sums[places], 0.0)


@kernel
def _slices(mask, nulls, keep, forest, many, begin, filled, order, runs, places):
    """Fills the last six arrays, and returns the number of labels that count.

    ``many`` (labels) is how many matches have a label. Their sums lie from ``begin`` (labels) on. ``order`` has the labels that
    count. It visits each match's labels in row order. ``runs`` has the match whose own label each one is. ``places`` (m) is the
    place of each match's sum.
    """
    events, labels, joins, after, at, first = forest
    matches = events.shape[0]
    # Later matches join labels of earlier ones. Visiting the last match first completes a label's count before it is passed on.
    for e in range(matches - 1, -1, -1):
        if first[e] >= 0:
            many[first[e]] += 1
        base = events[e, E_LABELS]
        for i in range(joins[e, 0]):
            rest = after[base + i]
            if rest >= 0:
                many[rest] += many[base + i]
    free = np.int64(0)
    for e in range(matches):
        base = events[e, E_LABELS]
        for i in range(joins[e, 0] - 1, -1, -1):
            n = base + i
            rest = after[n]
            if rest >= 0:
                begin[n] = filled[rest]
                filled[rest] += many[n]
            else:
                begin[n] = free
                free += many[n]
            filled[n] = begin[n]
    steps = np.int64(0)
    for e in range(matches - 1, -1, -1):
        base = events[e, E_LABELS]
        for i in range(joins[e, 0]):
            n = base + i
            if _counts(mask, labels[n], at[n], nulls, keep):
                order[steps] = n
                runs[steps] = e
                steps += 1
    for e in range(matches):
        n = first[e]
        if n >= 0:
            places[e] = filled[n]
            filled[n] += 1
    return steps


def _one_by_one(
    kind: int, mask: int, ints: np.ndarray, flts: np.ndarray, nulls: np.ndarray, keep: np.ndarray, trees: Forest,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Computes :func:`aggregate` if sums may overflow 64 bits, which depends on their order.

    It takes some matches at a time, with all labels of each.
    """
    sizes = np.maximum(trees.events[:, E_ROWS], 0)
    ends = np.cumsum(sizes)
    parts, begin, none = [], 0, np.zeros(0, dtype=np.int64)
    while begin < len(sizes):
        before = ends[begin] - sizes[begin]
        end = max(begin + 1, int(np.searchsorted(ends, before + MOST_LABELS, side="right")))
        events = trees.events[begin:end].copy()
        events[:, E_LABELS] = ends[begin:end] - sizes[begin:end] - before
        labels = np.empty(int(ends[end - 1] - before), dtype=np.uint8)
        _write_labels(trees.first[begin:end], events[:, E_LABELS].copy(), trees.labels, trees.after, labels)
        each = np.arange(end - begin)
        parts.append(gather.aggregate(kind, mask, True, ints, flts, nulls, keep, (events, labels, none), each, sizes[begin:end]))
        begin = end
    values, sums, counts = map(np.concatenate, zip(*parts))
    return values, sums, counts


@kernel
def _write_labels(first, begin, labels, after, out):
    """Writes all labels of each match, from its ``begin`` on."""
    for e in range(first.shape[0]):
        n = first[e]
        k = begin[e]
        while n >= 0:
            out[k] = labels[n]
            k += 1
            n = after[n]
