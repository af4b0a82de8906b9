"""Reachability tables of the walk: the earliest and the last completion from each node and row, by row-local conditions.

The walk (:mod:`sparkcep.kernels.match.walk`) prunes by them: a run that cannot complete inside its window is never entered.
"""

from __future__ import annotations

import numpy as np

from sparkcep.compiler.net.net import E_PASSED, E_SAME, E_TARGET, E_VAR
from sparkcep.kernels.common.hash_table import fill
from sparkcep.kernels.common.layout import NEVER, NEXT, STRICT
from sparkcep.kernels.jit.cache import allocating


@allocating
def completion_ends(net, letters, offsets, strategy, exact, sided, ends):
    """Fills ``ends`` with the row after the earliest completion, once a row was taken at a node, or NEVER.

    Only row-local conditions are used.

    Args:
        net: :class:`NetArrays`.
        letters, offsets: the rows, as in :mod:`sparkcep.kernels.match.backtrack`.
        strategy: STRICT, NEXT or ANY.
        exact: no condition looks at the match.
        sided: a row may be taken several times, and the end is a lower bound.
        ends: int64 (nodes, rows), output. For node 0: if the match begins at the row.
    """
    first, edges, masks, accepts = net.first, net.edges, net.masks, net.accepts
    nodes = masks.shape[0]
    ahead = np.empty(nodes, dtype=np.int64)
    for part in range(offsets.shape[0] - 1):
        low = offsets[part]
        high = offsets[part + 1]
        fill(ahead, NEVER)
        for q in range(high - 1, low - 1, -1):
            for node in range(1, nodes):
                if accepts[node] == 1 or (accepts[node] == 2 and q + 1 == high):
                    ends[node, q] = q + 1
                else:
                    ends[node, q] = ahead[node]
            # A row may serve several sides. The loop runs until the ends no longer change.
            changed = sided
            while changed:
                changed = False
                for node in range(1, nodes):
                    for e in range(first[node], first[node + 1]):
                        v = edges[e, E_VAR]
                        if v >= 0 and edges[e, E_SAME] == 1 and (letters[q] >> v) & 1 == 1 and ends[edges[e, E_TARGET], q] < ends[node, q]:
                            ends[node, q] = ends[edges[e, E_TARGET], q]
                            changed = True
            for node in range(nodes):
                best = NEVER
                any_edge = False
                stays = strategy != STRICT  # whether the row may be ignored
                if letters[q] & masks[node] != 0:
                    for e in range(first[node], first[node + 1]):
                        v = edges[e, E_VAR]
                        if v >= 0 and (letters[q] >> v) & 1 == 1:
                            any_edge = True
                            best = min(best, ends[edges[e, E_TARGET], q])
                            if strategy == NEXT and exact and edges[e, E_PASSED] == 0:
                                stays = False
                if node == 0:
                    ends[0, q] = best
                elif not stays:
                    ahead[node] = best
                elif any_edge:
                    ahead[node] = min(ahead[node], best)


@allocating
def latest_ends(net, letters, offsets, strict, unsure, latest, alive):
    """Fills ``latest`` with the row after the last completion, once a row was taken at a node, or -1.

    Both outputs are upper bounds: only row-local conditions are used, and unless ``strict`` any row may be ignored.

    Args:
        net: :class:`NetArrays`.
        letters, offsets: the rows, as in :mod:`sparkcep.kernels.match.backtrack`.
        strict: strict contiguity, where no row may be ignored.
        unsure: how many last rows of a partition are not certain yet.
        latest: int64 (nodes, rows), output. For node 0: if the match begins at the row.
        alive: uint8 (nodes, rows), output: whether future rows may continue the match from there.
    """
    first, edges, masks, accepts = net.first, net.edges, net.masks, net.accepts
    nodes = masks.shape[0]
    ahead = np.empty(nodes, dtype=np.int64)
    goes = np.empty(nodes, dtype=np.uint8)
    for part in range(offsets.shape[0] - 1):
        fill(ahead, -1)
        for node in range(nodes):
            goes[node] = 1 if masks[node] != 0 else 0
        for q in range(offsets[part + 1] - 1, offsets[part] - 1, -1):
            for node in range(1, nodes):
                latest[node, q] = max(ahead[node], q + 1 if accepts[node] == 1 else -1)
                alive[node, q] = goes[node]
            changed = True  # a row that serves several sides is taken again
            while changed:
                changed = False
                for node in range(nodes):
                    best, lives = np.int64(-1), np.uint8(0)
                    if letters[q] & masks[node] != 0:
                        for e in range(first[node], first[node + 1]):
                            v, target = edges[e, E_VAR], edges[e, E_TARGET]
                            if v >= 0 and (letters[q] >> v) & 1 == 1:
                                best, lives = max(best, latest[target, q]), max(lives, alive[target, q])
                                if node > 0 and edges[e, E_SAME] == 1 and (latest[target, q] > latest[node, q] or alive[target, q] > alive[node, q]):
                                    latest[node, q] = max(latest[node, q], latest[target, q])
                                    alive[node, q] = max(alive[node, q], alive[target, q])
                                    changed = True
                    if node == 0:
                        latest[0, q], alive[0, q] = best, lives
                    elif strict:
                        ahead[node] = best
                        if q < offsets[part + 1] - unsure:
                            goes[node] = lives
                    else:
                        ahead[node] = max(ahead[node], best)
