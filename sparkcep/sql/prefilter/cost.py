"""Estimates out of a sample whether reading a source twice, to drop rows that are in no match, costs less than it saves.

Costs are shares of what one row costs without the filter (exchange, sort, way to the engine).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

SECOND_READ = 0.06  # of a row: its second read and the look-up of its key (measured: docs/benchmarks.md)
REPEATED = 5  # hits in keys that have one already, before they count as a sign that hits keep to few keys
FEW = 100_000  # rows that hold a candidate, below which they are broadcast as they come
SURE = 10_000_000  # rows of a source; of a larger one they may be far more than estimated, and an exchange weighs little
CLUSTERED = 20  # whole keys one behind the other, before a sample counts as rows of whole partitions
MIXED = 0.1  # of neighbours of a key that lie the other way round, below which its rows are in order
FAIR = 1.5  # of a task's fair share of the rows, before the task that has more is worth slices


@dataclass(frozen=True)
class Sampled:
    """A row of the sample. ``key`` is the hash of its partition's key. ``at`` is its order key in the unit of ``estimate``'s
    window, or None. Bit i of ``hits`` is set where it fulfils candidate i. ``sent`` says whether it would reach the exchange
    without the filter."""

    key: int
    at: int | None
    hits: int
    sent: bool


@dataclass(frozen=True)
class Share:
    """``largest`` is the share of the rows that reach the exchange which the largest key has. With ``key_by_key`` the rows of a key
    come one behind the other; then a sample of the first rows holds few keys, and the share is a lower bound."""

    largest: float
    key_by_key: bool = False

    def worth(self, tasks: int) -> bool:
        """Whether one of so many tasks that run at a time would have much more than its fair share."""
        return self.largest * tasks > FAIR


@dataclass(frozen=True)
class Sample:
    """The first rows of a source that has about ``total`` of them."""

    rows: tuple[Sampled, ...]
    total: int

    @property
    def sent(self) -> float:
        """The share of rows that reach the exchange without the filter."""
        return sum(r.sent for r in self.rows) / max(1, len(self.rows))

    def hits(self, candidate: int) -> int:
        return sum(r.hits >> candidate & 1 for r in self.rows)

    def share(self) -> Share:
        """The share of the largest key. A key that was seen alone counts as the only one."""
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
        """The share of rows that a filter keeps. It keeps whole partitions or, with ``window``, the rows less than three buckets of
        that width around a hit.

        Hits are taken to fall on rows by chance, so a partition of R rows has one with probability 1 - (1 - p)^R. Where they do
        not, because most of them fall on keys that have one already, the keys seen with hits tell more, enlarged by the chance that
        the next hit is on a new key (Good and Turing). Where each key's rows come one behind the other, whole partitions are in the
        sample.
        """
        n, h = len(self.rows), self.hits(candidate)
        if n == 0:
            return 0.0
        p = (h + 1) / (n + 1)
        grown = max(1.0, self.total / n)
        sizes = Counter(r.key for r in self.rows)
        if window is not None:
            # in the order of time the sample has all rows of a while, otherwise a part of those of any while
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
    """Whether the rows of a candidate are so few that making their keys distinct, which takes an exchange, would cost more than it
    saves."""
    share = (sample.hits(candidate) + 1) / (len(sample.rows) + 1)
    return sample.total <= SURE and share * sample.total <= FEW


def worth(sent: float, kept: float) -> bool:
    """Whether the exchange of ``sent`` of the rows, less those the filter drops, saves more than the second read costs."""
    return sent * (1 - kept) > SECOND_READ


def _met(sizes: Counter, rows: dict[int, float], p: float) -> float:
    """The share of rows whose key has a hit, where a key has ``rows`` rows."""
    return sum(size * (1 - (1 - p) ** rows[k]) for k, size in sizes.items()) / sizes.total() if p < 1 else 1.0


def _densities(rows: Iterable[Sampled]) -> dict[int, float]:
    """The number of rows of a key for each unit of the order key, of the keys of which two rows were seen."""
    low: dict[int, int] = {}
    high: dict[int, int] = {}
    count: Counter = Counter()
    for r in rows:
        if r.at is not None:
            low[r.key], high[r.key] = min(low.get(r.key, r.at), r.at), max(high.get(r.key, r.at), r.at)
            count[r.key] += 1
    return {k: count[k] / (high[k] - low[k]) for k in low if high[k] > low[k]}


def _in_order(rows: Iterable[Sampled]) -> bool:
    """Whether nearly all rows of a key come in the order of time, or nearly all in the other one."""
    last: dict[int, int] = {}
    up = down = 0
    for r in rows:
        if r.at is not None:
            before = last.get(r.key, r.at)
            up, down = up + (r.at > before), down + (r.at < before)
            last[r.key] = r.at
    return min(up, down) <= MIXED * (up + down)


def _whole(rows: tuple[Sampled, ...]) -> list[int]:
    """The keys whose rows come one behind the other, without the first and the last. There are none if a key comes again, as it
    does where keys come in turn."""
    keys = [k for k, _ in groupby(r.key for r in rows)]
    return keys[1:-1] if len(set(keys)) == len(keys) and 2 * len(keys) <= len(rows) else []
