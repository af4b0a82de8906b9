"""Room for runs as chains of entries, newest first, that share their tails, and for the matches that they become.

The searches for cheapest matches use it. The chains are described in :mod:`sparkcep.kernels.common.run_chains`.
"""

from __future__ import annotations

import numpy as np

from sparkcep.compiler.net.net import ACCEPT, E_COST, E_TARGET, E_VAR
from sparkcep.engine.core.kernel_loop import OutputRoom
from sparkcep.kernels.common.run_chains import C_FIELDS, NONE
from sparkcep.kernels.frontier import payload, run_classes


def empty_runs(classes: int, entries: int, positions: np.ndarray, room: OutputRoom) -> payload.Runs:
    """Makes room for runs.

    Args:
        classes: the number of classes, 0 if each class is its run.
        entries: how many entries the runs may have.
        positions: the positions of the buffer's rows in their partitions.
        room: where matches are written.
    """
    pool, at = np.zeros((entries, C_FIELDS), dtype=np.int64), np.zeros(entries, dtype=np.int64)
    return with_room(payload.Runs(np.full(classes, NONE, dtype=np.int64), pool, at, positions, at, at.reshape(-1, 1), *(4 * [at])), room)


def distinguished(runs: payload.Runs, edges: np.ndarray, by_cost: bool) -> payload.Runs:
    """Returns the runs with a slot for the best match of a row, or with ``by_cost`` one slot for each cost of an accepting edge."""
    accepting = edges[:, E_VAR] == ACCEPT
    costs = np.unique(edges[accepting, E_COST]) if by_cost else np.zeros(1, dtype=np.int64)
    rank = np.where(accepting & by_cost, np.searchsorted(costs, edges[:, E_COST]), 0)
    return runs._replace(rank=rank, best=np.full((len(costs), 2), NONE, dtype=np.int64))


def with_room(runs: payload.Runs, room: OutputRoom) -> payload.Runs:
    """Returns the runs with ``room`` as the output of their matches."""
    return runs._replace(events=room.events, labels=room.labels, rows=room.rows, paths=room.paths)


def follow(before: np.ndarray, taken: np.ndarray, rows: np.ndarray, edges: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Returns whether each entry may follow the entry ``before`` it, or may begin a run if ``before`` is NONE. bool (entries).

    Args:
        before: the entry before each entry.
        taken: the edge of each entry.
        rows: the row of each entry.
        edges: the edges of the net.
        source: the node that each edge leaves. int64.
    """
    first = before == NONE
    if not len(before):
        return first
    node = np.where(first, 0, edges[taken[before], E_TARGET])
    return (source[taken] == node) & (edges[taken, E_VAR] >= 0) & (first | (rows > rows[before]))


def node_classes(head: np.ndarray, runs: payload.Runs, additions: int, measure: np.dtype) -> run_classes.Classes:
    """Makes classes that are their runs, one for each node.

    Args:
        head: the class of each node, one row for each partition that has classes of its own.
        runs: the runs.
        additions: the most runs that a row may add.
        measure: the type of places in the measure of the window.
    """
    nothing, values = np.zeros((0, 0), dtype=np.int64), np.zeros((0, 0))
    none = np.zeros(0, dtype=np.int64)
    return run_classes.Classes(head, np.zeros(len(runs.at), dtype=measure), np.zeros((additions, 2), dtype=np.int64), nothing, nothing, nothing, values, nothing, none, np.zeros(head.shape[1], dtype=np.int64))


def compacted(classes: run_classes.Classes, runs: payload.Runs, state: np.ndarray, more: int) -> tuple[run_classes.Classes, payload.Runs]:
    """Drops entries that belong to no class any more. Makes room for as many entries as are left, and for ``more``."""
    payload.compact(classes, runs, state)
    used = int(state[payload.K_ENTRIES])
    wanted = used + max(used, more)
    if wanted <= len(runs.at):
        return classes, runs
    pool, at = _wider(runs.pool, used, wanted), _wider(runs.at, used, wanted)
    return classes if len(runs.run) else classes._replace(until=_wider(classes.until, used, wanted)), runs._replace(pool=pool, at=at)


def _wider(a: np.ndarray, used: int, wanted: int) -> np.ndarray:
    return np.concatenate([a[:used], np.zeros((2 * wanted - used, *a.shape[1:]), dtype=a.dtype)])
