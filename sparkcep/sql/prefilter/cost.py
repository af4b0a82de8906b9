"""Cost model of the semi-join prefilter: estimates from a sample whether a second read of the source saves more than it costs.

``spark/exec/sampling`` uses it. A cost is a fraction of one row's cost without the filter (exchange, sort, transfer to the engine).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

SECOND_READ = 0.06  # of a row: its second read and the look-up of its key (measured: docs/benchmarks.md)
REPEATED = 5  # the minimum number of hits in keys with an earlier hit that shows that hits concentrate on few keys
FEW = 100_000  # fewer rows with a candidate are broadcast without making keys distinct
SURE = 10_000_000  # rows of a source; the estimate for a larger one is less certain, and an exchange weighs little
CLUSTERED = 20  # the minimum number of contiguous keys for a sample to count as whole partitions
MIXED = 0.1  # the maximum fraction of neighbours in reverse order for a key's rows to count as ordered
FAIR = 1.5  # a task with more than this multiple of its fair share is worth slices


@dataclass(frozen=True)
class Sampled:
    """A row of the sample.

    Attributes:
        key: the hash of its partition key.
        at: its order key in the unit of ``estimate``'s window, or None.
        hits: bit i is set if it satisfies candidate i.
        sent: whether it would reach the exchange without the filter.
    """

    key: int
    at: int | None
    hits: int
    sent: bool


@dataclass(frozen=True)
class Share:
    """The share of the largest key.

    Attributes:
        largest: the fraction of the rows reaching the exchange that have the largest key.
        key_by_key: whether the rows of a key are contiguous. A sample of the first rows then holds few keys, and ``largest`` is a
            lower bound.
    """

    largest: float
    key_by_key: bool = False

    def worth(self, tasks: int) -> bool:
        """Whether one of ``tasks`` parallel tasks would have much more than its fair share."""
        return self.largest * tasks > FAIR


@dataclass(frozen=True)
class Sample:
    """The first rows of a source that has about ``total`` rows."""

    rows: tuple[Sampled, ...]
    total: int

    @property
    def sent(self) -> float:
        """The fraction of rows that reach the exchange without the filter."""
        return sum(r.sent for r in self.rows) / max(1, len(self.rows))

    def hits(self, candidate: int) -> int:
        return sum(r.hits >> candidate & 1 for r in self.rows)

    def share(self) -> Share:
        """Returns the share of the largest key. If the sample has a single key, it counts as the source's only key."""
        keys = [r.key for r in self.rows if r.sent]
        sizes = Counter(keys)
        if len(sizes) < 2:
            return Share(float(len(sizes)))
        largest = max(sizes.values())
        runs = sum(1 for _ in groupby(keys))
        if runs == len(sizes) and 2 * runs <= len(keys) and self.total > len(self.rows):
            return Share(largest / (self.total * self.sent), key_by_key=True)
        return Share(largest / len(keys))

    def estimate(self, candidate: int, window: int | None = None) -> float:
        """Estimates the fraction of rows that a filter keeps.

        The filter keeps whole partitions or, with ``window``, the rows less than three buckets of that width around a hit.

        Hits are assumed to be independent, so a partition of R rows has a hit with probability 1 - (1 - p)^R. If most hits fall on
        keys with an earlier hit, hits concentrate on few keys. Then the estimate is at most the share of the keys with hits,
        increased by the chance that the next hit is on a new key (Good-Turing). If the rows of each key are contiguous, the sample
        contains whole partitions, and their share is the estimate.
        """
        n, h = len(self.rows), self.hits(candidate)
        if n == 0:
            return 0.0
        p = (h + 1) / (n + 1)
        grown = max(1.0, self.total / n)
        sizes = Counter(r.key for r in self.rows)
        if window is not None:
            # If rows come in time order, the sample has all rows of some time span, otherwise a fraction of the rows of any span.
            scale = 1.0 if _in_order(self.rows) else grown
            density = {k: scale * d for k, d in _densities(self.rows).items()}
            met = {k: min(size * grown, 3 * window * density.get(k, size * grown)) for k, size in sizes.items()}
            return _met(sizes, met, p)
        hit = Counter(r.key for r in self.rows if r.hits >> candidate & 1)
        if grown == 1.0:
            return sum(sizes[k] for k in hit) / n
        whole = _whole(self.rows)
        if len(whole) >= CLUSTERED:
            kept = (sum(sizes[k] for k in whole if k in hit) + n / len(sizes)) / sum(sizes[k] for k in whole)
            return min(1.0, kept)
        kept = _met(sizes, {k: size * grown for k, size in sizes.items()}, p)
        repeated = h - sum(count == 1 for count in hit.values())
        if repeated >= REPEATED:
            kept = min(kept, sum(sizes[k] for k in hit) / n * h / repeated)
        return kept


def few(sample: Sample, candidate: int) -> bool:
    """Whether a candidate has so few rows that making their keys distinct, which needs an exchange, costs more than it saves."""
    share = (sample.hits(candidate) + 1) / (len(sample.rows) + 1)
    return sample.total <= SURE and share * sample.total <= FEW


def worth(sent: float, kept: float) -> bool:
    """Whether the filter saves more of the exchange than the second read costs.

    The filter leaves ``kept`` of the rows, of ``sent``.
    """
    return sent * (1 - kept) > SECOND_READ


def _met(sizes: Counter, rows: dict[int, float], p: float) -> float:
    """Returns the fraction of rows whose key has a hit if each key has ``rows`` rows."""
    return sum(size * (1 - (1 - p) ** rows[k]) for k, size in sizes.items()) / sizes.total() if p < 1 else 1.0


def _densities(rows: Iterable[Sampled]) -> dict[int, float]:
    """Returns key -> rows per unit of the order key, for keys with two different order keys."""
    low: dict[int, int] = {}
    high: dict[int, int] = {}
    count: Counter = Counter()
    for r in rows:
        if r.at is not None:
            low[r.key], high[r.key] = min(low.get(r.key, r.at), r.at), max(high.get(r.key, r.at), r.at)
            count[r.key] += 1
    return {k: count[k] / (high[k] - low[k]) for k in low if high[k] > low[k]}


def _in_order(rows: Iterable[Sampled]) -> bool:
    """Whether nearly all rows of each key are in time order, or nearly all in reverse order."""
    last: dict[int, int] = {}
    up = down = 0
    for r in rows:
        if r.at is not None:
            before = last.get(r.key, r.at)
            up, down = up + (r.at > before), down + (r.at < before)
            last[r.key] = r.at
    return min(up, down) <= MIXED * (up + down)


def _whole(rows: tuple[Sampled, ...]) -> list[int]:
    """Returns the keys with contiguous rows, without the first and the last key, which may be cut.

    Returns [] if a key occurs again later, as with interleaved keys.
    """
    keys = [k for k, _ in groupby(r.key for r in rows)]
    return keys[1:-1] if len(set(keys)) == len(keys) and 2 * len(keys) <= len(rows) else []
