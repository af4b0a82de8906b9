"""Runs as chains of entries, newest first, that share their tails: what the kernels of proxies work on."""

from __future__ import annotations

import numpy as np

from sparkcep.automaton.net import ACCEPT, E_AT_END, E_COST, E_VAR, Net
from sparkcep.search import proxies as proxying
from sparkcep.search.chains import C_FIELDS, NONE


def proxy_arrays(automaton: Net) -> proxying.ProxyArrays:
    """The automaton with its edges by variable."""
    edges = automaton.edges
    source = np.repeat(np.arange(automaton.nodes), np.diff(automaton.first))
    taking = np.flatnonzero(edges[:, E_VAR] >= 0)
    by_edge = taking[np.argsort(edges[taking, E_VAR], kind="stable")]
    count = len(automaton.variables)
    by_first = np.searchsorted(edges[by_edge, E_VAR], np.arange(count + 1)).astype(np.int64)
    accept, accept_end = (np.full(automaton.nodes, NONE, dtype=np.int64) for _ in range(2))
    for e in np.flatnonzero(edges[:, E_VAR] == ACCEPT).tolist():
        node = source[e]
        for target, fits in ((accept, not edges[e, E_AT_END]), (accept_end, True)):
            if fits and (target[node] < 0 or edges[e, E_COST] < edges[target[node], E_COST]):
                target[node] = e
    tested = sum(1 << v for v in range(count) if by_first[v + 1] > by_first[v])
    return proxying.ProxyArrays(edges, by_first, by_edge, source.astype(np.int64), accept, accept_end, np.int64(tested))


def empty_chains(size: int, measure: np.dtype) -> proxying.Chains:
    """Room for entries of runs."""
    return proxying.Chains(np.zeros((size, C_FIELDS), dtype=np.int64), np.zeros(size, dtype=np.int64), np.zeros(size, dtype=measure))


def wider_chains(chains: proxying.Chains, used: int, wanted: int) -> proxying.Chains:
    """The chains with room for ``wanted`` entries, of which ``used`` are there."""
    if wanted <= len(chains.at):
        return chains
    return proxying.Chains(*(np.concatenate([a[:used], np.zeros((2 * wanted - used, *a.shape[1:]), dtype=a.dtype)]) for a in chains))
