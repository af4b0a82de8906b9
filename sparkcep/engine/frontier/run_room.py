"""Runs as chains of entries, newest first, that share their tails: room for them, and for the matches they become."""

from __future__ import annotations

import numpy as np

from sparkcep.compiler.net.net import ACCEPT, E_COST, E_TARGET, E_VAR
from sparkcep.engine.core.kernel_loop import OutputRoom
from sparkcep.kernels.common.run_chains import C_FIELDS, NONE
from sparkcep.kernels.frontier import payload, run_classes


def empty_runs(classes: int, entries: int, positions: np.ndarray, room: OutputRoom) -> payload.Runs:
    """Room for so many ``entries`` of the runs of ``classes`` (0 where classes are their runs); ``positions``: of the buffer's rows
    in their partitions."""
    pool, at = np.zeros((entries, C_FIELDS), dtype=np.int64), np.zeros(entries, dtype=np.int64)
    return with_room(payload.Runs(np.full(classes, NONE, dtype=np.int64), pool, at, positions, at, at.reshape(-1, 1), *(4 * [at])), room)


def distinguished(runs: payload.Runs, edges: np.ndarray, by_cost: bool) -> payload.Runs:
    """The runs, of which a row tells the best match, or (``by_cost``) the best one of each cost at which an accepting one of
    ``edges`` completes."""
    accepting = edges[:, E_VAR] == ACCEPT
    costs = np.unique(edges[accepting, E_COST]) if by_cost else np.zeros(1, dtype=np.int64)
    rank = np.where(accepting & by_cost, np.searchsorted(costs, edges[:, E_COST]), 0)
    return runs._replace(rank=rank, best=np.full((len(costs), 2), NONE, dtype=np.int64))


def with_room(runs: payload.Runs, room: OutputRoom) -> payload.Runs:
    """The runs, whose matches go to ``room``."""
    return runs._replace(events=room.events, labels=room.labels, rows=room.rows, paths=room.paths)


def follow(before: np.ndarray, taken: np.ndarray, rows: np.ndarray, edges: np.ndarray, source: np.ndarray) -> np.ndarray:
    """bool (entries): whether each entry may follow the entry ``before`` it, or begin a run where that is NONE. The entry goes
    by the edge ``taken``, which takes one of ``rows``. ``source`` int64: the node that each of ``edges`` leaves."""
    first = before == NONE
    if not len(before):
        return first
    node = np.where(first, 0, edges[taken[before], E_TARGET])
    return (source[taken] == node) & (edges[taken, E_VAR] >= 0) & (first | (rows > rows[before]))


def node_classes(head: np.ndarray, runs: payload.Runs, additions: int, measure: np.dtype) -> run_classes.Classes:
    """Classes that are their runs, one for each node; a row makes ``additions`` at most."""
    nothing, values = np.zeros((0, 0), dtype=np.int64), np.zeros((0, 0))
    none = np.zeros(0, dtype=np.int64)
    return run_classes.Classes(head, np.zeros(len(runs.at), dtype=measure), np.zeros((additions, 2), dtype=np.int64), nothing, nothing, nothing, values, nothing, none, np.zeros(head.shape[1], dtype=np.int64))


def compacted(classes: run_classes.Classes, runs: payload.Runs, state: np.ndarray, more: int) -> tuple[run_classes.Classes, payload.Runs]:
    """Without the entries that no class has any more, and with room for as many as are left, and for ``more``."""
    payload.compact(classes, runs, state)
    used = int(state[payload.K_ENTRIES])
    wanted = used + max(used, more)
    if wanted <= len(runs.at):
        return classes, runs
    pool, at = _wider(runs.pool, used, wanted), _wider(runs.at, used, wanted)
    return classes if len(runs.run) else classes._replace(until=_wider(classes.until, used, wanted)), runs._replace(pool=pool, at=at)


def _wider(a: np.ndarray, used: int, wanted: int) -> np.ndarray:
    return np.concatenate([a[:used], np.zeros((2 * wanted - used, *a.shape[1:]), dtype=a.dtype)])
