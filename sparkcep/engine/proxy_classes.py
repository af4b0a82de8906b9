"""PROXY MATCHES and MATCH BUNDLES where conditions look at the match: runs side by side, one for each class of equal futures."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sparkcep.engine.approximate import ListedProxyEngine
from sparkcep.engine.found import Found
from sparkcep.engine.merged import columns_read, live_windows
from sparkcep.engine.proxies import empty_chains, proxy_arrays, wider_chains
from sparkcep.engine.run import Data, Prepared, doubled
from sparkcep.search import adjacent as kernels
from sparkcep.search import proxies as proxying
from sparkcep.search import proxy_classes as classing
from sparkcep.search.chains import NONE

PLACES, ENTRIES = 256, 1 << 12  # at first


class ClassProxyEngine(ListedProxyEngine):
    """As :class:`ListedProxyEngine`, without going through all matches."""

    def __init__(self, prepared: Prepared, chunk_rows=None, limits=None) -> None:
        super().__init__(prepared, chunk_rows, limits)
        assert prepared.selection is not None and prepared.approximate is not None
        self._proxy = proxy_arrays(prepared.selection)
        self._window_live = live_windows(prepared.selection)
        self._read = columns_read(prepared.conditions)

    def _best(self, data: Data, offsets: np.ndarray, columns: dict[str, pa.Array]) -> Found:
        c, rows = self.p.conditions, int(offsets[-1])
        slots = c.slots if c.has_history else self._empty_slots
        scratch = self._scratch(rows + 1, len(offsets))
        places = _places(PLACES, self._windows.shape[0], len(slots), len(self._arrays.masks))
        chains = empty_chains(ENTRIES, np.dtype(np.int64))
        state = np.zeros(classing.CLASS_STATE, dtype=np.int64)
        events = np.zeros((max(1024, rows // 4), 6), dtype=np.int64)
        labels, taken, paths = np.empty(rows + 1024, dtype=np.uint8), np.empty(rows + 1024, dtype=np.int64), np.empty(rows + 1024, dtype=np.int64)
        stuck = -1  # the row at which room for entries was missing last
        while True:
            outcome = classing.class_partitions(
                self._proxy, self.strategy == 0, self._windows, self._window_live, self._arrays.valued, self._arrays.live, self._read,
                kernels.ConditionArrays(data.bytecode, c.entry, c.floats, slots, data.codes), data.rows._replace(offsets=offsets), scratch, np.int64(rows),
                places, chains, state, events, labels, taken, paths,
            )
            if outcome == kernels.ERROR:
                raise self._runtime_error(outcome, state, columns)
            if outcome == kernels.DONE:
                break
            if outcome == kernels.FULL:
                events, labels, taken, paths = (doubled(a) for a in (events, labels, taken, paths))
            elif state[kernels.S_DETAIL] == 1:
                places = _more_places(places)
            else:
                used = proxying.compact(chains, places.entry[: state[classing.P_PLACES]], int(state[classing.P_USED]))
                state[classing.P_USED] = used
                # one row may need more than all that was used before it
                again = int(state[kernels.S_START]) == stuck
                stuck = int(state[kernels.S_START])
                chains = wider_chains(chains, used, 2 * (len(chains.at) if again else used))
            if sum(a.nbytes for a in (*places, *chains, labels, taken, paths)) > self.limits.max_state_bytes:
                raise self._state_limit(state, columns)
        count, used = int(state[kernels.S_EVENTS]), int(state[kernels.S_LABELS])
        return Found(events[:count], labels[:used], taken[:used], paths[:used])


def _places(size: int, windows: int, slots: int, nodes: int) -> classing.Places:
    hf = np.zeros((size, slots), dtype=np.float64)
    whole = [np.zeros(size, dtype=np.int64) for _ in range(4)]
    return classing.Places(
        info=np.zeros((size, 5), dtype=np.int64), ends=np.zeros((size, windows), dtype=np.int64), hi=np.zeros((size, slots), dtype=np.int64), hf=hf,
        bits=hf.view(np.int64), free=whole[0], table=np.zeros(4 * size, dtype=np.int64), entry=whole[1], after=whole[2],
        head=np.full(nodes, NONE, dtype=np.int64), pending=whole[3],
    )


def _more_places(places: classing.Places) -> classing.Places:
    grown = classing.Places(*map(doubled, places))
    grown = grown._replace(bits=grown.hf.view(np.int64), table=np.zeros_like(grown.table), head=places.head)
    classing.refill(grown)
    return grown
