"""Kernels that expand matches to output rows, and that find the value of each leaf for each output row.

Shared arguments:

* ``events`` int64 (m, 5) and ``labels`` uint8 as filled by the matching kernel.
* ``scattered`` int64: the row of each label if rows of a match need not be adjacent, else empty. A row that serves both sides of
  ``&`` has two labels, and counts once.
* ``offsets`` int64: the bounds of the partitions.
* ``out_event``, ``out_pos``, ``out_upto`` int64: for each output row its event, its row in the buffer, and how many rows of the
  match it sees under running semantics.

Example: one match of three adjacent rows, first row 4. With ONE there is one output row: event 0, row 6, and it sees 3 rows. With
SHOW there are three: event 0 for each, rows 4, 5 and 6, and they see 1, 2 and 3 rows.
"""

from __future__ import annotations

import math

import numpy as np

from sparkcep.compiler.pattern.program import EXCLUDED
from sparkcep.kernels.common.layout import E_LABELS, E_PART, E_ROWS, E_START
from sparkcep.kernels.jit.cache import inlined, kernel
from sparkcep.kernels.vm.vm import add_overflows

ONE, SHOW, OMIT, UNMATCHED = range(4)
COUNT, SUM_INT, SUM_FLOAT, MIN_INT, MAX_INT, MIN_FLOAT, MAX_FLOAT = range(7)
FIRST_MARKS = 2  # marks of a match's first output row, see collect


@inlined
def _row(start, base, i, scattered):
    """Returns the row of a match's i-th label."""
    return start + i if scattered.shape[0] == 0 else scattered[base + i]


def output_rows(events: np.ndarray, labels: np.ndarray, scattered: np.ndarray, mode: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns (out_event, out_pos, out_upto) of the output rows, in match order. ``mode`` is ONE, SHOW, OMIT or UNMATCHED."""
    most = len(events) if mode == ONE else int(np.maximum(events[:, E_ROWS], 1).sum())
    out = np.empty((3, most), dtype=np.int64)
    count = _output_rows(events, labels, scattered, mode, out[0], out[1], out[2])
    return out[0, :count], out[1, :count], out[2, :count]


@kernel
def _output_rows(events, labels, scattered, mode, out_event, out_pos, out_upto):
    """Fills the last three arrays, and returns the number of output rows."""
    n = 0
    for e in range(events.shape[0]):
        rows = events[e, E_ROWS]
        start = events[e, E_START]
        base = events[e, E_LABELS]
        # At most one output row: under ONE, for an empty match (0 rows), and for an unmatched row (-1).
        if mode == ONE or rows <= 0:
            if rows < 0 and mode != UNMATCHED:
                continue
            if rows == 0 and mode == OMIT:
                continue
            out_event[n] = e
            out_pos[n] = _row(start, base, rows - 1, scattered) if rows > 0 else start
            out_upto[n] = rows
            n += 1
            continue
        for i in range(rows):
            # Rows in {- -} belong to the match, but are not output rows.
            if labels[base + i] & EXCLUDED == 0:
                out_event[n] = e
                out_pos[n] = _row(start, base, i, scattered)
                out_upto[n] = i + 1
                n += 1
    return n


@inlined
def _in(mask, label):
    return mask == -1 or (mask >> (label & 63)) & 1 == 1


def navigate(
    first: bool, mask: int, logical: int, physical: int, final: bool, matches: tuple[np.ndarray, ...], out_event: np.ndarray, out_upto: np.ndarray,
    inside: bool,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Returns the row and the label that FIRST or LAST looks at, -1 if there is none. int64 (output rows) each.

    Args:
        first: FIRST or LAST.
        mask: the variables.
        logical: the offset among the rows of the variables.
        physical: the offset in rows, inside the partition.
        final: final or running semantics.
        matches: events, labels, scattered, offsets.
        out_event, out_upto: the output rows.
        inside: whether labels are asked for (CLASSIFIER). A row outside the match then has the label -1. Otherwise the label array
            is empty.
    """
    result = np.empty(len(out_event), dtype=np.int64)
    found_labels = np.full(len(out_event) if inside else 0, -1, dtype=np.int64)
    hits = np.empty(1 if final else max(matches[0][:, E_ROWS].max(initial=0), 1), dtype=np.int64)
    _navigate(first, mask, logical, physical, final, matches, out_event, out_upto, result, found_labels, hits)
    return result, found_labels


@kernel
def _navigate(first, mask, logical, physical, final, matches, out_event, out_upto, result, found_labels, hits):
    """Fills ``result`` and ``found_labels``. ``hits`` has room for the rows of the longest match."""
    events, labels, scattered, offsets = matches
    inside = found_labels.shape[0] > 0
    n = out_event.shape[0]
    hit_count = 0
    scanned = 0
    current = -1
    for r in range(n):
        e = out_event[r]
        if final and e == current:  # all output rows of a match have one value
            result[r] = result[r - 1]
            if inside:
                found_labels[r] = found_labels[r - 1]
            continue
        start = events[e, E_START]
        rows = events[e, E_ROWS]
        base = events[e, E_LABELS]
        found = -1
        index = -1  # index of the label found
        if rows > 0:
            if final:
                # Final semantics: the scan begins at the side of FIRST or LAST and skips ``logical`` rows of the mask.
                left = logical
                previous = -1
                for j in range(rows):
                    i = j if first else rows - 1 - j
                    if _in(mask, labels[base + i]):
                        at = _row(start, base, i, scattered)
                        if at == previous:
                            continue
                        previous = at
                        if left == 0:
                            found = at
                            index = i
                            break
                        left -= 1
            else:
                # Running semantics: output rows of a match come in row order. So hits are kept, and each label is scanned once.
                if e != current:
                    hit_count = 0
                    scanned = 0
                upto = out_upto[r]
                while scanned < upto:
                    if _in(mask, labels[base + scanned]):
                        at = _row(start, base, scanned, scattered)
                        if hit_count > 0 and _row(start, base, hits[hit_count - 1], scattered) == at:
                            # A row with two labels is one hit. LAST takes its second label.
                            if not first:
                                hits[hit_count - 1] = scanned
                        else:
                            hits[hit_count] = scanned
                            hit_count += 1
                    scanned += 1
                if hit_count > logical:
                    index = hits[logical] if first else hits[hit_count - 1 - logical]
                    found = _row(start, base, index, scattered)
        if found >= 0:
            found += physical
            part = events[e, E_PART]
            if found < offsets[part] or found >= offsets[part + 1]:
                found = -1
            elif inside:
                if physical != 0:
                    index = _index(found, start, base, rows, scattered)  # all labels of the match are known
                if index >= 0:
                    found_labels[r] = labels[base + index] & 63
        current = e
        result[r] = found


@kernel
def _index(row, start, base, count, scattered):
    """Returns the index of the row's last label among the match's first ``count`` labels, -1 for none."""
    if scattered.shape[0] == 0:
        return row - start if start <= row < start + count else -1
    for i in range(count - 1, -1, -1):
        if scattered[base + i] == row:
            return i
    return -1


@inlined
def float_less(x, y):
    if math.isnan(x):
        return False
    return math.isnan(y) or x < y


def aggregate(
    kind: int, mask: int, final: bool, ints: np.ndarray, flts: np.ndarray, nulls: np.ndarray, keep: np.ndarray, matches: tuple[np.ndarray, ...],
    out_event: np.ndarray, out_upto: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Returns (int64 value, float64 value, count) for each output row.

    MIN and MAX return the row of the extreme value as the int64. An integer sum that has overflowed has wrapped, and its count is
    -1.

    Args:
        kind: COUNT to MAX_FLOAT.
        mask: the variables.
        final: final or running semantics.
        ints, flts: the values of the rows; the kind determines which array is read.
        nulls: 1 for rows with a NULL, empty if none counts as NULL.
        keep: 0 for rows that a filter excludes, empty without a filter.
        matches: events, labels, scattered.
        out_event, out_upto: the output rows.
    """
    n = len(out_event)
    found = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.float64), np.empty(n, dtype=np.int64)
    _aggregate(kind, mask, final, ints, flts, nulls, keep, matches, out_event, out_upto, *found)
    return found


@kernel
def _aggregate(kind, mask, final, ints, flts, nulls, keep, matches, out_event, out_upto, vi, vf, counts):
    """Fills ``vi``, ``vf`` and ``counts``."""
    events, labels, scattered = matches
    use_nulls = nulls.shape[0] > 0
    use_keep = keep.shape[0] > 0
    n = out_event.shape[0]
    current = -1
    scanned = 0
    count = 0
    total = 0
    totalf = 0.0
    best = -1
    bad = False
    previous = -1
    for r in range(n):
        e = out_event[r]
        start = events[e, E_START]
        rows = events[e, E_ROWS]
        base = events[e, E_LABELS]
        # Output rows of a match come in row order, so each one continues the aggregate of the previous one.
        if e != current:
            current = e
            scanned = 0
            count = 0
            total = 0
            totalf = 0.0
            best = -1
            bad = False
            previous = -1
        upto = max(rows, 0) if final else max(out_upto[r], 0)
        while scanned < upto:
            at = _row(start, base, scanned, scattered)
            label = labels[base + scanned]
            scanned += 1
            if not _in(mask, label) or at == previous:
                continue
            previous = at
            if use_keep and keep[at] == 0:
                continue
            if use_nulls and nulls[at] == 1:
                continue
            count += 1
            if kind == SUM_INT:
                x = ints[at]
                if add_overflows(total, x):
                    bad = True
                total += x  # wraps
            elif kind == SUM_FLOAT:
                totalf += flts[at]
            elif kind == MIN_INT:
                if best < 0 or ints[at] < ints[best]:
                    best = at
            elif kind == MAX_INT:
                if best < 0 or ints[at] > ints[best]:
                    best = at
            elif kind == MIN_FLOAT:
                if best < 0 or float_less(flts[at], flts[best]):
                    best = at
            elif kind == MAX_FLOAT:
                if best < 0 or float_less(flts[best], flts[at]):
                    best = at
        counts[r] = -1 if bad else count
        vi[r] = total if kind == SUM_INT else best
        vf[r] = totalf


def match_sums(events: np.ndarray, labels: np.ndarray, scattered: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns the sum of the weights of each event's rows, added from the first row on. float64 (m).

    ``weights`` is float64 (variables, rows).
    """
    out = np.zeros(len(events), dtype=np.float64)
    _match_sums(events, labels, scattered, weights, out)
    return out


@kernel
def _match_sums(events, labels, scattered, weights, out):
    """Adds the sums to ``out``."""
    for e in range(events.shape[0]):
        base = events[e, E_LABELS]
        for i in range(max(events[e, E_ROWS], 0)):
            out[e] += weights[labels[base + i] & 63, _row(events[e, E_START], base, i, scattered)]


def collect(
    mask: int, final: bool, pairs: bool, nulls: np.ndarray, keep: np.ndarray, matches: tuple[np.ndarray, ...], out_event: np.ndarray, out_upto: np.ndarray,
    before: tuple[int, int] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Returns the rows of ``mask`` for each output row.

    With ``before`` an output row has only the rows that the match's previous output row did not have. They are preceded by marks,
    which are rows -1: two marks in a match's first output row, one mark in the others. So the arrays of a match take as much room
    as the match, however many output rows it has.

    Args:
        mask: the variables.
        final: final or running semantics.
        pairs: whether a row with two labels is listed twice.
        nulls, keep, matches: see :func:`aggregate`.
        out_event, out_upto: the output rows.
        before: the event of the output row before the first one, and how many rows it saw. (-1, 0) if there is none.

    Returns:
        Offsets int64 (n + 1), rows int64 and labels int64.
    """
    offsets = np.zeros(len(out_event) + 1, dtype=np.int64)
    found = np.empty((2, 0), dtype=np.int64)
    stepwise, (event, upto) = before is not None, before or (-1, 0)
    _collect(mask, final, pairs, nulls, keep, matches, out_event, out_upto, stepwise, event, upto, offsets, found)
    found = np.empty((2, int(offsets[-1])), dtype=np.int64)
    _collect(mask, final, pairs, nulls, keep, matches, out_event, out_upto, stepwise, event, upto, offsets, found)
    return offsets, found[0], found[1]


@kernel
def _collect(mask, final, pairs, nulls, keep, matches, out_event, out_upto, stepwise, event, seen, offsets, found):
    """Fills ``offsets``, and ``found`` (rows, labels) as far as it has room.

    ``event`` and ``seen`` describe the previous output row.
    """
    events, labels, scattered = matches
    use_nulls = nulls.shape[0] > 0
    use_keep = keep.shape[0] > 0
    # The first call only counts, because ``found`` is empty. The second call fills it.
    fill = found.shape[1] > 0
    total = 0
    for r in range(out_event.shape[0]):
        e = out_event[r]
        start = events[e, E_START]
        rows = max(events[e, E_ROWS], 0)
        base = events[e, E_LABELS]
        upto = rows if final else max(out_upto[r], 0)
        previous = -1
        begin = 0
        if stepwise:
            marks = FIRST_MARKS
            if e == event:
                marks = 1
                begin = upto if final else min(seen, upto)  # the match's first output row has all its rows
                # find the mask's last row before ``begin``: the label at ``begin`` may belong to the same row
                i = begin
                while i > 0 and previous < 0:
                    i -= 1
                    if _row(start, base, i, scattered) != _row(start, base, begin - 1, scattered):
                        break
                    if _in(mask, labels[base + i]):
                        previous = _row(start, base, i, scattered)
            for _ in range(marks):
                if fill:
                    found[0, total] = -1
                    found[1, total] = -1
                total += 1
            event = e
            seen = upto
        for i in range(begin, upto):
            at = _row(start, base, i, scattered)
            if not _in(mask, labels[base + i]) or (at == previous and not pairs):
                continue
            previous = at
            if use_keep and keep[at] == 0:
                continue
            if use_nulls and nulls[at] == 1:
                continue
            if fill:
                found[0, total] = at
                found[1, total] = labels[base + i] & 63
            total += 1
        offsets[r + 1] = total
