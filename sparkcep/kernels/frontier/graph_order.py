"""Canonical order of the nodes of a match graph, independent of the rows before its window.

The search writes a graph class by class (:mod:`sparkcep.kernels.frontier.payload`), each class from its oldest node on. Nodes of
one row and variable are in the order of their creation, which depends on runs that are over by then.

Here classes are ordered by the row of their first node. Nodes of a row are ordered by four keys: variable, whether a match ends
there, the place of their predecessors, and a digest of what follows them.

Example: two nodes of row 5 and variable A, whose predecessors begin at places 3 and 1. The one with predecessors at 1 comes first.
"""

from __future__ import annotations

import numpy as np

from sparkcep.kernels.jit.cache import allocating, embedded, inlined, kernel

ROW, LABEL, FROM, UNTIL, DONE = range(5)  # columns of a node


@inlined
def _mixed(digest, word):
    h = (digest ^ np.uint64(word)) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(29))


@kernel
def _tied(nodes, graph, seen, labels):
    """Whether two nodes have the same row and variable.

    ``seen`` int64 (rows) has the last graph with the row, ``labels`` uint64 (rows) the row's variables there.
    """
    for i in range(nodes.shape[0]):
        row, bit = nodes[i, ROW], np.uint64(1) << np.uint64(nodes[i, LABEL])
        if seen[row] != graph:
            seen[row] = graph
            labels[row] = bit
        elif labels[row] & bit != 0:
            return True
        else:
            labels[row] |= bit
    return False


@kernel
def _classes(nodes, base):
    """Writes the first node of each node's class into ``base``. A node that is nobody's predecessor may be its own class."""
    count = nodes.shape[0]
    for i in range(count):
        base[i] = 0
    for i in range(count):
        if nodes[i, FROM] >= 0:
            base[nodes[i, FROM]] = max(base[nodes[i, FROM]], nodes[i, UNTIL])
    first = 0
    until = 0
    for i in range(count):
        if i >= until:
            first = i
            until = max(base[i], i + 1)
        base[i] = first


@kernel
def _futures(nodes, base, by_row, before, behind):
    """Writes a digest of what follows each node into ``behind``. ``before`` is working memory."""
    count = nodes.shape[0]
    for k in range(count):
        i = by_row[k]
        past = np.uint64(0) if nodes[i, FROM] < 0 else before[nodes[i, UNTIL] - 1]
        own = _mixed(_mixed(_mixed(_mixed(np.uint64(0x9E3779B97F4A7C15), nodes[i, ROW]), nodes[i, LABEL]), nodes[i, DONE]), past)
        behind[i] = own
        before[i] = own if base[i] == i else before[i - 1] + own
    for i in range(count):
        before[i] = behind[i]  # digest of the node and its past
        behind[i] = np.uint64(0)
    for k in range(count - 1, -1, -1):
        i = by_row[k]
        if i + 1 < count and base[i + 1] == base[i]:
            behind[i] += behind[i + 1]
        if nodes[i, FROM] >= 0:
            behind[nodes[i, UNTIL] - 1] += _mixed(before[i], behind[i])


@embedded
def _comes_first(nodes, place, behind, a, b):
    """Whether node ``a`` precedes node ``b`` of the same row. ``place`` has the places of the predecessors' classes."""
    if nodes[a, LABEL] != nodes[b, LABEL]:
        return nodes[a, LABEL] < nodes[b, LABEL]
    if nodes[a, DONE] != nodes[b, DONE]:
        return nodes[a, DONE] < nodes[b, DONE]
    of_a = place[nodes[a, FROM]] if nodes[a, FROM] >= 0 else -1
    of_b = place[nodes[b, FROM]] if nodes[b, FROM] >= 0 else -1
    if of_a != of_b:
        return of_a < of_b
    if nodes[a, UNTIL] - nodes[a, FROM] != nodes[b, UNTIL] - nodes[b, FROM]:
        return nodes[a, UNTIL] - nodes[a, FROM] < nodes[b, UNTIL] - nodes[b, FROM]
    return behind[a] < behind[b]


@kernel
def _sort(some, begin, end, nodes, place, behind):
    """Sorts nodes of one row in place (insertion sort: they are few, and mostly in order)."""
    for i in range(begin + 1, end):
        x = some[i]
        j = i
        while j > begin and _comes_first(nodes, place, behind, x, some[j - 1]):
            some[j] = some[j - 1]
            j -= 1
        some[j] = x


@allocating
def order_graphs(until, items, rows):
    """Sorts the nodes of graphs in place.

    ``until`` int64 (graphs + 1) and ``items`` int64 (nodes, 5) are those of :class:`sparkcep.kernels.frontier.payload.GraphArrays`.
    ``rows`` is the maximal number of rows of a partition.
    """
    seen, labels = np.full(rows, -1, dtype=np.int64), np.zeros(rows, dtype=np.uint64)
    for graph in range(until.shape[0] - 1):
        nodes = items[until[graph] : until[graph + 1]]
        if not _tied(nodes, graph, seen, labels):
            continue
        count = nodes.shape[0]
        base, place = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        before, behind = np.zeros(count, dtype=np.uint64), np.zeros(count, dtype=np.uint64)
        by_row = np.argsort(nodes[:, ROW], kind="mergesort")
        _classes(nodes, base)
        _futures(nodes, base, by_row, before, behind)
        # The best node of each class's first row represents the class.
        heads, sizes = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        first = np.arange(count)
        for i in range(count):
            sizes[base[i]] += 1
        classes = 0
        for k in range(count):
            if base[by_row[k]] == by_row[k]:
                heads[classes] = by_row[k]
                classes += 1
        begin, placed = 0, 0
        while begin < classes:
            end = begin
            while end < classes and nodes[heads[end], ROW] == nodes[heads[begin], ROW]:
                own = heads[end]
                i = own + 1
                while i < own + sizes[own] and nodes[i, ROW] == nodes[own, ROW]:
                    if _comes_first(nodes, place, behind, i, first[own]):
                        first[own] = i
                    i += 1
                heads[end] = first[own]
                end += 1
            _sort(heads, begin, end, nodes, place, behind)
            for k in range(begin, end):
                heads[k] = base[heads[k]]
                place[heads[k]] = placed
                placed += sizes[heads[k]]
            begin = end
        # Now the nodes of each class are sorted and moved.
        moved = np.zeros((count, nodes.shape[1]), dtype=np.int64)
        some = np.arange(count)
        for k in range(classes):
            own = heads[k]
            begin = own
            while begin < own + sizes[own]:
                end = begin
                while end < own + sizes[own] and nodes[end, ROW] == nodes[begin, ROW]:
                    end += 1
                _sort(some, begin, end, nodes, place, behind)
                begin = end
            for i in range(sizes[own]):
                node = some[own + i]
                at = place[own] + i
                for field in range(nodes.shape[1]):
                    moved[at, field] = nodes[node, field]
                if nodes[node, FROM] >= 0:
                    moved[at, FROM] = place[nodes[node, FROM]]
                    moved[at, UNTIL] = moved[at, FROM] + nodes[node, UNTIL] - nodes[node, FROM]
        nodes[:, :] = moved
