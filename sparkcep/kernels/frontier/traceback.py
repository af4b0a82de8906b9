"""Traceback over approximate matches: which variables are missing, and which of several matches is the best.

``events`` int64 (n, 6) are as the matching kernels fill them, with the accepting edge in the sixth column. ``rows`` and ``paths``
int64 are the row and the edge of each label.

An edge has ``sources``, one for each configuration of its target, or for each cheapest way to complete. A row of ``sources`` is
(place of the configuration before it, list of skipped variables, rank of the choices). The traceback follows these places from the
accepting edge back to the first row.

Example: a match of ``A B C`` lacks B and has two rows, A and C. The source of its accepting edge skips nothing and leads to the
source of C's edge. That one skips B, and leads to the source of A's edge.
"""

from __future__ import annotations

import numpy as np

from sparkcep.compiler.net.net import E_COST
from sparkcep.kernels.common.layout import E_ACCEPT, E_LABELS, E_ROWS, E_START
from sparkcep.kernels.jit.cache import allocating, kernel


@kernel
def _before(paths, base_a, source_a, base_b, source_b, size, sources, first_source):
    """Whether the first of two ways to complete a match of ``size`` rows has the preferred choices.

    Choices are compared from the start on, so the last difference seen on the way back decides.
    """
    less = False
    for d in range(size, -1, -1):
        if sources[source_a, 2] != sources[source_b, 2]:
            less = sources[source_a, 2] < sources[source_b, 2]
        if d > 0:
            source_a = first_source[paths[base_a + d - 1]] + sources[source_a, 0]
            source_b = first_source[paths[base_b + d - 1]] + sources[source_b, 0]
    return less


@kernel
def _preferred_source(paths, base, size, accepting, sources, first_source):
    """The preferred one of the cheapest ways to complete a match."""
    best = first_source[accepting]
    for source in range(best + 1, first_source[accepting + 1]):
        if _before(paths, base, source, base, best, size, sources, first_source):
            best = source
    return best


@kernel
def derived_before(paths, base_a, accepting_a, base_b, accepting_b, size, sources, first_source):
    """Whether the first of two ways to find one match, of equal cost, is the preferred one.

    ``base_a`` and ``base_b`` are the places of their edges in ``paths``, ``accepting_a`` and ``accepting_b`` their accepting edges.
    """
    source_a = _preferred_source(paths, base_a, size, accepting_a, sources, first_source)
    source_b = _preferred_source(paths, base_b, size, accepting_b, sources, first_source)
    return _before(paths, base_a, source_a, base_b, source_b, size, sources, first_source)


@allocating
def missing_variables(events, paths, first_source, sources, skip_first, skip_variables):
    """The missing variables of each event in pattern order: (offsets int64 (n + 1), variables int64).

    ``skip_first`` int64 (lists + 1) and ``skip_variables`` are the lists of skipped variables, see
    :mod:`sparkcep.compiler.net.net`.
    """
    n = events.shape[0]
    offsets = np.zeros(n + 1, dtype=np.int64)
    out = np.empty(0, dtype=np.int64)
    for fill in range(2):
        if fill == 1:
            out = np.empty(offsets[n], dtype=np.int64)
        total = 0
        for i in range(n):
            size = events[i, E_ROWS]
            if size > 0:
                base = events[i, E_LABELS]
                source = _preferred_source(paths, base, size, events[i, E_ACCEPT], sources, first_source)
                end = offsets[i + 1]
                for d in range(size, -1, -1):
                    skipped = sources[source, 1]
                    for k in range(skip_first[skipped + 1] - 1, skip_first[skipped] - 1, -1):
                        if fill == 1:
                            end -= 1
                            out[end] = skip_variables[k]
                        total += 1
                    if d > 0:
                        source = first_source[paths[base + d - 1]] + sources[source, 0]
            if fill == 0:
                offsets[i + 1] = total
    return offsets, out


@allocating
def last_rows(events, rows):
    """The last row of each match, int64 (n)."""
    out = np.empty(events.shape[0], dtype=np.int64)
    for i in range(events.shape[0]):
        out[i] = rows[events[i, E_LABELS] + events[i, E_ROWS] - 1]
    return out


@kernel
def _better(events, rows, edges, a, b):
    """Whether event ``a`` is better than ``b``: least cost, latest first row, lexicographically earliest rows, then the first
    one."""
    cost_a = edges[events[a, E_ACCEPT], E_COST]
    cost_b = edges[events[b, E_ACCEPT], E_COST]
    if cost_a != cost_b:
        return cost_a < cost_b
    if events[a, E_START] != events[b, E_START]:
        return events[a, E_START] > events[b, E_START]
    base_a = events[a, E_LABELS]
    base_b = events[b, E_LABELS]
    size_a = events[a, E_ROWS]
    size_b = events[b, E_ROWS]
    for d in range(min(size_a, size_b)):
        if rows[base_a + d] != rows[base_b + d]:
            return rows[base_a + d] < rows[base_b + d]
    return size_a < size_b if size_a != size_b else a < b


@allocating
def best_of(events, rows, groups, edges):
    """The best event of each group, int64, in order of the groups' first events. ``groups`` int64 (n) are numbers from 0."""
    top = 0
    for i in range(groups.shape[0]):
        top = max(top, groups[i] + 1)
    best = np.full(top, -1, dtype=np.int64)
    for i in range(groups.shape[0]):
        g = groups[i]
        if best[g] < 0 or _better(events, rows, edges, i, best[g]):
            best[g] = i
    out = np.empty(groups.shape[0], dtype=np.int64)
    count = 0
    for i in range(groups.shape[0]):
        g = groups[i]
        if best[g] >= 0:
            out[count] = best[g]
            best[g] = -1
            count += 1
    return out[:count].copy()
