"""Reads a history of matches and prepares it for the best-effort search (RC-ACEP, VLDB 2016, Definition 4 and section 4).

The history arrives in the first row of a task, or over a stream by :meth:`HistoryReader.take`. Its rows are feature vectors (the
paper's match vectors) with the bundles that they led to. If the clause asks for a SKETCH, the vectors are recovered from a sketch
(Algorithms 3 and 4).
"""

from __future__ import annotations

import math
from functools import reduce
from operator import and_, or_
from typing import Any, NamedTuple

import numpy as np

from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.task import Task
from sparkcep.errors import MatchRuntimeError
from sparkcep.kernels.budget import best_effort as searching
from sparkcep.kernels.budget import layout as budget_layout
from sparkcep.kernels.budget.utility import COARSER, UTILITY_FIELDS, Utilities
from sparkcep.plan.extend.budget import COLUMNS, INTERVALS, MAX_BUNDLES, MAX_INTERVALS, MAX_VECTORS
from sparkcep.plan.json import wrong
from sparkcep.plan.records import Approx, History

MAX_DERIVED = 1 << 22  # limit of a sketch's look-ups: vectors times rows of the sketch
MAX_UTILITIES = 1 << 18  # limit of the vectors that are counted while rows are searched
SHORT = 4.0  # rows of the shortest match up to which a history's shares are not scaled
MAX_VISITS, MAX_ERRORS = 1 << 60, 1e15  # so that sums fit 64 bits, and errors a float
_NEAR = 1e-6  # relative rounding error of a FLOAT
_NONE = np.zeros(0, dtype=np.int64)
NO_HISTORY = searching.HistoryArrays(1, _NONE, _NONE, _NONE, _NONE, _NONE, np.zeros(1, dtype=np.int64), _NONE, np.zeros((0, budget_layout.COVER_FIELDS), dtype=np.int64), np.zeros((0, budget_layout.GAIN_FIELDS), dtype=np.int64))
_NO_COUNTS = np.zeros((0, UTILITY_FIELDS), dtype=np.int64)
NO_UTILITIES = Utilities(False, 1, np.zeros(0), np.zeros(0), _NO_COUNTS, _NO_COUNTS, _NONE, np.zeros(0), *(4 * [_NONE]))
_SEED = 42  # the seed of Spark's xxhash64
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(p) for p in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)


class Features(NamedTuple):
    """Feature vectors of a history.

    Attributes:
        place, errors: int64 (n) and float64 (n), the place of the pattern, and the errors so far.
        remaining, idle: int64 (n), the remaining window and the time since the last row, in intervals.
        visits, points: int64 (n), how often runs had the features, and the match points that followed.
        bundles: the bundles that each led to.
    """

    place: np.ndarray
    errors: np.ndarray
    remaining: np.ndarray
    idle: np.ndarray
    visits: np.ndarray
    points: np.ndarray
    bundles: list[list[int]]


class CandidatePlaces(NamedTuple):
    """The places and costs that a candidate may have.

    Attributes:
        costs: int64, ascending, in units of the plan's scale.
        places: the number of places.
        pairs: each pair of a place and the number of a cost that a candidate may have there.
        rows: the rows of the shortest match.
    """

    costs: np.ndarray
    places: int
    pairs: frozenset[tuple[int, int]]
    rows: int


def uncounted(recorded: searching.HistoryArrays, utilities: Utilities) -> tuple[searching.HistoryArrays, Utilities]:
    """The history and its utilities with empty counts."""
    fresh = {name: np.full((len(prior), UTILITY_FIELDS), -1, dtype=np.int64) for name, prior in (("counts", utilities.prior), ("sums", utilities.overall))}
    fresh |= {"met": np.zeros(len(utilities.prior), dtype=np.int64), "met_kinds": np.zeros(len(utilities.overall), dtype=np.int64), "many": np.zeros(2, dtype=np.int64)}
    return recorded._replace(cover=np.full_like(recorded.cover, -1), memo=np.full_like(recorded.memo, -1)), utilities._replace(**fresh)


class HistoryReader:
    """Reads the history of one task.

    Attributes:
        stands: the places and costs that candidates of the net may have.
        column: the input column that holds the history.
        published: whether candidates are tried in the paper's order, which uses bundles. Our order uses match points.
        bundles: the number of bundles of the history.
        sketch: depth and width of its sketch, None without one.
    """

    def __init__(self, task: Task, stands: CandidatePlaces, column: str, published: bool) -> None:
        self.task, self.stands, self.column, self.published = task, stands, column, published
        self.bundles, self.sketch = 0, None
        self.read: tuple[searching.HistoryArrays, Utilities] | None = None

    def take(self, rows: list[dict[str, Any]]) -> None:
        """Takes the rows of a history. Raises MatchRuntimeError if they are not a history of this clause."""
        approx = self.task.plan.approximate
        assert approx is not None and approx.budget is not None and approx.history is not None
        intervals = _intervals(rows, approx.history)
        vectors = _vectors(rows, approx, self.published, bounded=not approx.budget.sketch)
        self.bundles = len({b for some in vectors.bundles for b in some})
        self.sketch = sketch_size(vectors, approx.budget.sketch) if approx.budget.sketch else None
        self.read = self._arranged(vectors, intervals)

    def recorded(self, chunk: Chunk) -> tuple[searching.HistoryArrays, Utilities]:
        """The history for the search, and its utilities with empty counts.

        If :meth:`take` has not been called, the history is read from the first row of the chunk. Raises MatchRuntimeError if it is
        not a history of this clause.
        """
        if self.read is None:
            values = chunk.columns.get(self.column)
            if values is None:
                raise wrong(f"the input has not one column {self.column}")
            self.take((values[0].as_py() if len(values) else None) or [])
        assert self.read is not None
        return uncounted(*self.read)

    def replaced(self, vectors: Features, intervals: int) -> tuple[searching.HistoryArrays, Utilities]:
        """A history that a partition has recorded, as :meth:`recorded` returns one."""
        return uncounted(*self._arranged(vectors, intervals))

    def _arranged(self, vectors: Features, intervals: int) -> tuple[searching.HistoryArrays, Utilities]:
        approx = self.task.plan.approximate
        assert approx is not None
        if self.sketch is not None:
            vectors = sketched(vectors, self.sketch, self.stands.places, [approx.errors(c) for c in self.stands.costs.tolist()], intervals)
        level = {approx.errors(cost): i for i, cost in enumerate(self.stands.costs.tolist())}
        levels = np.array([level.get(errors, -1) for errors in vectors.errors.tolist()], dtype=np.int64)
        return self._arrays(vectors, levels, intervals), NO_UTILITIES if self.published else utilities_of(vectors, levels, intervals, self.stands)

    def _arrays(self, vectors: Features, levels: np.ndarray, intervals: int) -> searching.HistoryArrays:
        """The vectors as the search looks them up.

        Vectors that no candidate can have, or that led to nothing, are left out. They score 0, as unknown vectors do.

        ``levels``: int64 (n), the number of each vector's cost, -1 if no candidate has it.
        """
        codes, kept = [], []
        for i, (place, level, remaining, idle) in enumerate(zip(vectors.place.tolist(), levels.tolist(), vectors.remaining.tolist(), vectors.idle.tolist())):
            if level >= 0 and vectors.bundles[i] and 1 <= place <= self.stands.places and 1 <= remaining <= intervals and 0 <= idle < intervals:
                codes.append(((place * len(self.stands.costs) + level) * intervals + remaining - 1) * intervals + idle)
                kept.append(i)
        order = np.argsort(np.array(codes, dtype=np.int64), kind="stable")
        kept = [kept[i] for i in order.tolist()]
        numbers = sorted({b for i in kept for b in vectors.bundles[i]})
        dense = {b: i for i, b in enumerate(numbers)}
        bundles = [sorted({dense[b] for b in vectors.bundles[i]}) for i in kept]
        visits = vectors.visits[kept].astype(np.int64)
        # the finest unit such that every score fits 64 bits
        unit = 1 << 62 - max([1, *map(len, bundles)]).bit_length()
        residues = [pow(v, -1, budget_layout.PRIME) for v in visits.tolist()]
        return searching.HistoryArrays(
            intervals, np.array(codes, dtype=np.int64)[order], visits, unit // np.maximum(visits, 1),
            np.array(residues, dtype=np.int64), np.array([r * len(some) % budget_layout.PRIME for r, some in zip(residues, bundles)], dtype=np.int64), np.cumsum([0, *map(len, bundles)]).astype(np.int64),
            np.array([b for some in bundles for b in some], dtype=np.int64), np.full((len(numbers), budget_layout.COVER_FIELDS), -1, dtype=np.int64),
            np.full((len(codes), budget_layout.GAIN_FIELDS), -1, dtype=np.int64),
        )  # fmt: skip


def utilities_of(vectors: Features, levels: np.ndarray, intervals: int, stands: CandidatePlaces) -> Utilities:
    """The utilities of the vectors that a candidate may have: match points for each visit, by the history.

    The shares are smoothed by those of vectors with coarser intervals. There are as many intervals as the working memory has room
    for. ``levels``: int64 (n), the number of each vector's cost, -1 if no candidate has it.

    If the shortest match is longer than SHORT rows, all shares are scaled up. So seldom tried places come before those tried often,
    and no place on the way to the end of a match is starved.
    """
    costs = max(len(stands.costs), 1)
    kinds = (stands.places + 1) * costs
    g = max(d for d in _divisors(intervals) if d == 1 or kinds * d * d <= MAX_UTILITIES)
    there = np.array([pair in stands.pairs for pair in zip(vectors.place.tolist(), levels.tolist())], dtype=bool)
    kept = there & (vectors.remaining >= 1) & (vectors.remaining <= intervals) & (vectors.idle >= 0) & (vectors.idle < intervals)
    place, level, remaining, idle, visits, points = (a[kept] for a in (vectors.place, levels, vectors.remaining, vectors.idle, vectors.visits, vectors.points))
    wide = intervals // g
    code = ((place * costs + level) * g + (remaining - 1) // wide) * g + idle // wide
    visited, reached = (_summed(code, a, kinds * g * g) for a in (visits, points))
    prior, known = np.full(kinds, reached.sum() / max(visited.sum(), 1)), 1
    overall = prior
    for n in sorted({1, max(d for d in _divisors(g) if d * d <= g), g}):
        to = _renumbered(g, n, kinds)
        upper = prior[_renumbered(n, known, kinds)]
        prior = (_summed(to, reached, len(upper)) + COARSER * upper) / (_summed(to, visited, len(upper)) + COARSER)
        overall, known = prior if n == 1 else overall, n
    more = max(stands.rows / SHORT, 1.0) ** 3
    return Utilities(True, g, prior * more, overall * more, _NO_COUNTS, _NO_COUNTS, np.zeros(kinds, dtype=np.int64), np.zeros(0), *(4 * [_NONE]))


def _renumbered(g: int, n: int, kinds: int) -> np.ndarray:
    """The number of each vector in ``g`` intervals among those in ``n`` intervals, where ``n`` divides ``g``. int64."""
    rest, idle = np.divmod(np.arange(kinds * g * g), g)
    kind, remaining = np.divmod(rest, g)
    return (kind * n + remaining // (g // n)) * n + idle // (g // n)


def _summed(at: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """Sums the values by place. int64 (size)."""
    found = np.zeros(size, dtype=np.int64)
    np.add.at(found, at, values)
    return found


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def _intervals(rows: list[dict[str, Any]], wanted: History) -> int:
    """The number of intervals of the window: as the pattern column says, or, if that is NULL, as many as the vectors use. Raises
    MatchRuntimeError if the history is not one of this clause."""
    found = {row["pattern"] for row in rows} - {None}
    if len(found) > 1:
        raise _wrong("its rows are of several patterns. Keep the rows of one pattern")
    for text in found:
        parts = dict(word.split("=", 1) for word in text.split() if "=" in word)
        for name, value in [*((part.name, part.digest) for part in wanted.parts), ("RUNS", wanted.runs)]:
            if parts.get(name) != value:
                of = {"RUNS": f"it was recorded OF {parts.get(name)} MATCHES, and the clause uses OF {value} MATCHES"}
                raise _wrong(of.get(name, f"it was made with another {name}") + ". Record it again with MATCH HISTORY")
        if parts.get("INTERVALS", "").isdigit() and 1 <= int(parts["INTERVALS"]) <= MAX_INTERVALS:
            return int(parts["INTERVALS"])
        raise _wrong("its column pattern does not contain INTERVALS")
    recorded = max([1, *(row["remaining"] or 0 for row in rows), *((row["idle"] or 0) + 1 for row in rows)]) if rows else INTERVALS
    if recorded > MAX_INTERVALS:
        raise _wrong(f"its columns remaining and idle name {recorded} intervals, but at most {MAX_INTERVALS} are allowed")
    return recorded


def _vectors(rows: list[dict[str, Any]], approx: Approx, published: bool, bounded: bool) -> Features:
    """Checks the rows of a history. Raises MatchRuntimeError.

    Bundles are numbered from 0. Errors are replaced by those that a run of the clause can have, if they are equal up to the
    rounding of a FLOAT.
    """
    for row in rows:
        gap = next((name for name in COLUMNS if name != "pattern" and (name != "points" or not published) and row[name] is None), None)
        if gap is not None:
            raise _wrong(f"its column {gap} holds NULL")
        if row["visits"] < 1:
            raise _wrong(f"visits is {row['visits']}, but must be at least 1")
        if not published and row["points"] < 0:
            raise _wrong(f"points is {row['points']}, but must be at least 0")
        if any(b is None or b < 0 for b in row["bundles"]):
            raise _wrong("bundles must be numbers, 0 or more")
        if not 0 <= row["errors"] < MAX_ERRORS:
            raise _wrong(f"errors is {row['errors']}, which is impossible for a run")
    if sum(row["visits"] for row in rows) > MAX_VISITS:
        raise _wrong(f"it has more than {MAX_VISITS} visits")
    if not published and sum(row["points"] for row in rows) > MAX_VISITS:
        raise _wrong(f"it has more than {MAX_VISITS} points")
    keys = [(row["place"], _known_errors(row["errors"], approx), row["remaining"], row["idle"]) for row in rows]
    if len(set(keys)) < len(keys):
        place, errors, remaining, idle = next(key for i, key in enumerate(keys) if key in keys[:i])
        raise _wrong(f"the vector place = {place}, errors = {errors}, remaining = {remaining}, idle = {idle} occurs twice")
    dense = {b: i for i, b in enumerate(sorted({b for row in rows for b in row["bundles"]}))}
    bundles = [[dense[b] for b in row["bundles"]] for row in rows]
    if bounded and (len(rows) > MAX_VECTORS or len(dense) > MAX_BUNDLES):
        raise _wrong(f"it has more than {MAX_VECTORS} vectors or {MAX_BUNDLES} bundles; use fewer INTERVALS, or add SKETCH AUTO 800")
    columns = (np.array([key[i] for key in keys], dtype=np.float64 if i == 1 else np.int64) for i in range(4))
    counts = (np.array([0 if name == "points" and published else row[name] for row in rows], dtype=np.int64) for name in ("visits", "points"))
    return Features(*columns, *counts, bundles)


def _known_errors(errors: float, approx: Approx) -> float:
    """The nearest errors that a run can have, if they differ by rounding only; else ``errors``."""
    nearest = round(errors * approx.scale) / approx.scale
    return nearest if abs(nearest - errors) <= min(_NEAR * max(errors, 1.0), 0.25 / approx.scale) else errors


def _wrong(why: str) -> MatchRuntimeError:
    return MatchRuntimeError("HISTORY", f"the table of USING HISTORY cannot be used: {why} (its columns are {', '.join(COLUMNS)})", sqlstate="22000")


# -- sketches: Algorithms 3 and 4 -------------------------------------------------------------------------------------


def sketch_size(vectors: Features, asked: tuple[int, ...]) -> tuple[int, int]:
    """(depth, width) of a sketch: as the clause says, or for a number of cells by Theorem 4, from the mean number of vectors that
    lead to a bundle."""
    if len(asked) == 2:
        return asked[0], asked[1]
    (cells,) = asked
    bundles = {b for some in vectors.bundles for b in some}
    alpha = sum(map(len, map(set, vectors.bundles))) / max(len(bundles), 1)
    width = min(max(round(alpha / math.log(2)), 1), cells)
    return max(cells // width, 1), width


def sketched(vectors: Features, size: tuple[int, int], places: int, errors: list[float], intervals: int) -> Features:
    """Recovers from a sketch each vector that a candidate may have, with the least count and the common bundles of its cells
    (Algorithm 4).

    A cell adds up the visits of the vectors that fall into it and holds all their bundles (Algorithm 3). Match points, which the
    paper does not keep, are added up in the same way as visits. Cells are pmod(xxhash64(place, errors, remaining, idle, i), width),
    with Spark's hash of INT, DOUBLE, INT, INT and INT.

    Args:
        size: (depth, width) of the sketch.
        places: the number of places of the pattern.
        errors: the errors that a candidate may have.
        intervals: the intervals of the window.
    """
    depth, width = size
    asked = places * len(errors) * intervals * intervals
    if asked * depth > MAX_DERIVED:
        raise _wrong(f"the {depth} rows of its sketch would be asked for {asked} vectors each, but at most {MAX_DERIVED} in all are allowed. Use fewer INTERVALS, or a SKETCH of fewer rows")
    counts = np.zeros((2, depth, width), dtype=np.int64)
    bits = [[0] * width for _ in range(depth)]
    for i in range(depth):
        cells = _cells(vectors.place, vectors.errors, vectors.remaining, vectors.idle, i, width)
        np.add.at(counts[0, i], cells, vectors.visits)
        np.add.at(counts[1, i], cells, vectors.points)
        for cell, some in zip(cells.tolist(), vectors.bundles):
            bits[i][cell] |= reduce(or_, (1 << b for b in some), 0)
    grid = np.meshgrid(np.arange(1, places + 1), np.array(errors, dtype=np.float64), np.arange(1, intervals + 1), np.arange(intervals), indexing="ij")
    place, cost, remaining, idle = (a.reshape(-1) for a in grid)
    found = np.stack([_cells(place, cost, remaining, idle, i, width) for i in range(depth)])
    visits, points = (np.min([some[i][found[i]] for i in range(depth)], axis=0) for some in counts)
    common: dict[tuple[int, ...], list[int]] = {}
    bundles = []
    for cells in zip(*found.tolist()):
        if cells not in common:
            common[cells] = _members(reduce(and_, (of[cell] for of, cell in zip(bits, cells))))
        bundles.append(common[cells])
    return Features(place, cost, remaining, idle, visits, points, [some if count else [] for some, count in zip(bundles, visits.tolist())])


def _members(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def _cells(place: np.ndarray, errors: np.ndarray, remaining: np.ndarray, idle: np.ndarray, i: int, width: int) -> np.ndarray:
    """The cell of each vector in row ``i`` of a sketch. int64."""
    h = np.full(len(place), _SEED, dtype=np.uint64)
    with np.errstate(over="ignore"):
        h = _hash_int(place, h)
        h = _hash_long(np.ascontiguousarray(errors, dtype=np.float64).view(np.uint64), h)
        for part in (remaining, idle, np.full(len(place), i)):
            h = _hash_int(part, h)
    return h.view(np.int64) % width


def _turned(h: np.ndarray, by: int) -> np.ndarray:
    return (h << np.uint64(by)) | (h >> np.uint64(64 - by))


def _mixed(h: np.ndarray) -> np.ndarray:
    h = (h ^ (h >> np.uint64(33))) * _P2
    h = (h ^ (h >> np.uint64(29))) * _P3
    return h ^ (h >> np.uint64(32))


def _hash_int(values: np.ndarray, seed: np.ndarray) -> np.ndarray:
    """Spark's XXH64 of 4 bytes."""
    h = seed + _P5 + np.uint64(4)
    h = h ^ ((values.astype(np.int64).view(np.uint64) & np.uint64(0xFFFFFFFF)) * _P1)
    return _mixed(_turned(h, 23) * _P2 + _P3)


def _hash_long(values: np.ndarray, seed: np.ndarray) -> np.ndarray:
    """Spark's XXH64 of 8 bytes."""
    h = seed + _P5 + np.uint64(8)
    h = h ^ (_turned(values * _P2, 31) * _P1)
    return _mixed(_turned(h, 27) * _P1 + _P4)
