"""The stratified shortest path of CPR (section 3.2, Figure 3.4) over a PQ-array whose strata are the nodes of an automaton.

A cell (node, row) holds ``best``: score of the best path that ends at the node in a row up to this one (the thesis' minWeight, of
opposite sign), ``v_ptr``: the row where that path ends (-1: none), and of the best path that ends in this very row ``h_edge`` and
``h_row``: its last edge and the row before (-1: none). The thesis prefers the later event among equals; here paths with equal
scores are compared, so that ranks are total.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np


class Graph(NamedTuple):
    """``source``, ``variable``, ``target`` int64 (edges), variable -1: the path may end; ``first`` int64 (nodes + 1); ``letters``
    int64 (rows), ``weights`` float64 (variables, rows)."""

    first: np.ndarray
    source: np.ndarray
    variable: np.ndarray
    target: np.ndarray
    letters: np.ndarray
    weights: np.ndarray


class Cells(NamedTuple):
    """float64 ``best`` and int64 ``v_ptr``, ``h_edge``, ``h_row`` (nodes, rows); ``one``, ``other`` int64 (2, rows): scratch for
    two paths, edges above rows."""

    best: np.ndarray
    v_ptr: np.ndarray
    h_edge: np.ndarray
    h_row: np.ndarray
    one: np.ndarray
    other: np.ndarray


@numba.njit
def walk(graph, cells, edge, row, before, path):
    """Writes the path that takes ``row`` by ``edge`` behind the one that ends in row ``before``, at the end of ``path``; returns
    where it begins there."""
    at = path.shape[1]
    while True:
        at -= 1
        path[0, at] = edge
        path[1, at] = row
        if before < 0:
            return at
        node = graph.source[edge]
        row = before
        edge = cells.h_edge[node, row]
        before = cells.h_row[node, row]


@numba.njit
def _first(cells, a, b, complete):
    """Whether the path from ``a`` in ``cells.one`` comes before that from ``b`` in ``cells.other``."""
    one, other = cells.one, cells.other
    n = one.shape[1]
    i, j = a, b
    while i < n and j < n:
        if one[1, i] != other[1, j]:
            return one[1, i] < other[1, j]
        i += 1
        j += 1
    if i < n or j < n:
        return (i == n) == complete
    while a < n:
        if one[0, a] != other[0, b]:
            return one[0, a] < other[0, b]
        a += 1
        b += 1
    return False


@numba.njit
def ssp(graph, cells, node, score, any_before, after, low, high, new, banned, result):
    """Stratified-Shortest-Path from a vertex: ``node`` reached with ``score`` (``any_before``: by rows before ``after``), through
    rows after..high-1, whose first step is none of ``banned`` int64 (steps, 2): edge, row. The path ends in row ``new`` or later.
    Fills ``cells``; ``result`` int64 (3): last edge, row and row before, edge -1 where there is no path; returns the score."""
    nodes = graph.first.shape[0] - 1
    found = -np.inf
    result[0] = -1
    for row in range(after, high):
        for t in range(nodes):
            if row > after:
                cells.best[t, row] = cells.best[t, row - 1]
                cells.v_ptr[t, row] = cells.v_ptr[t, row - 1]
            else:
                cells.best[t, row] = -np.inf
                cells.v_ptr[t, row] = -1
            cells.h_edge[t, row] = -1
        letters = graph.letters[row]
        for e in range(graph.source.shape[0]):
            v = graph.variable[e]
            if v < 0 or (letters >> v) & 1 == 0:
                continue
            q = graph.source[e]
            t = graph.target[e]
            w = graph.weights[v, row]
            for way in range(2):
                # 0: the first step, 1: behind the best path that ends at the edge's source in an earlier row
                if way == 0:
                    if q != node:
                        continue
                    free = True
                    for i in range(banned.shape[0]):
                        if banned[i, 0] == e and banned[i, 1] == row:
                            free = False
                    if not free:
                        continue
                    before = -1
                    s = score + w if any_before else w
                else:
                    if row == after or cells.v_ptr[q, row - 1] < 0:
                        continue
                    before = cells.v_ptr[q, row - 1]
                    s = cells.best[q, row - 1] + w
                # the best that ends in this row
                old = cells.h_edge[t, row]
                better = old < 0
                at = -1
                if not better:
                    own = _score(graph, cells, old, row, cells.h_row[t, row], score, any_before)
                    better = s > own
                    if s == own:
                        at = walk(graph, cells, e, row, before, cells.one)
                        better = _first(cells, at, walk(graph, cells, old, row, cells.h_row[t, row], cells.other), True)
                if better:
                    cells.h_edge[t, row] = e
                    cells.h_row[t, row] = before
        for t in range(nodes):
            e = cells.h_edge[t, row]
            if e < 0:
                continue
            before = cells.h_row[t, row]
            s = _score(graph, cells, e, row, before, score, any_before)
            at = walk(graph, cells, e, row, before, cells.one)
            last = cells.v_ptr[t, row]
            if (
                last < 0
                or s > cells.best[t, row]
                or (
                    s == cells.best[t, row]
                    and _first(cells, at, walk(graph, cells, cells.h_edge[t, last], last, cells.h_row[t, last], cells.other), False)
                )
            ):
                cells.best[t, row] = s
                cells.v_ptr[t, row] = row
            if row >= new and _ends(graph, t):
                if (
                    result[0] < 0
                    or s > found
                    or (s == found and _first(cells, at, walk(graph, cells, result[0], result[1], result[2], cells.other), True))
                ):
                    found = s
                    result[0] = e
                    result[1] = row
                    result[2] = before
    return found


@numba.njit
def _score(graph, cells, edge, row, before, score, any_before):
    """Of the path that takes ``row`` by ``edge`` behind the best that ends in row ``before``."""
    w = graph.weights[graph.variable[edge], row]
    if before >= 0:
        return cells.best[graph.source[edge], row - 1] + w
    return score + w if any_before else w


@numba.njit
def _ends(graph, node):
    for e in range(graph.first[node], graph.first[node + 1]):
        if graph.variable[e] < 0:
            return True
    return False
