"""The k best matches of sliding windows in one pass over the rows: lists of the best partial matches, maintained from window to
window.

Each node of the automaton has a list of the partial matches that end there, best first: by score, then by ``comes_first`` of
:mod:`sparkcep.kernels.common.run_chains`. Adding a row's weight does not change the order of two scores. So all prefixes of a match
among the k best are among the k best of their nodes. A list of k is enough for one window. This is dynamic programming over the
stratified stream graph of CPR (section 3.2), with k entries instead of minWeight and its pointers. Event selection is SKIP TILL
ANY: a list holds all that ended at any row so far.

Sliding windows. A list holds more than k entries, and a bound: all live partial matches up to the bound are in the list. When first
rows leave the window their matches are dropped, and the list is still complete up to the bound. New rows add new matches. These are
top-k views with a refill (Yi, Yu, Yang, Xia, Chen, "Efficient maintenance of materialized top-k views", 2003). Only if fewer than k
matches are left up to the bound, the lists are rebuilt from the window's rows. So the cost of a window follows its new rows.

A bound is (score ``B_SCORE``, chain L_BOUND, lower score ``B_LOWER``): a match that is not in the list has that score and comes
after that chain, or has at most the lower score. If rounding makes both scores equal, the chain is UNKNOWN: any match with that
score may be missing. If a freshly built window therefore has too few matches, it is built with ``slack`` >= 0 instead of bounds.
Then each list also keeps all entries so near below the k best that rounding may close the gap. Of each score it keeps the first k.

Example: k is 2, and a list has the scores 9, 7, 6 with the bound (6, chain of the third entry, 5). A missing partial match has
score 6 and comes after that chain, or has at most 5. If the first row of the entry 9 leaves the window, 7 and 6 are still the two
best, and no rebuild is needed.

Most entries of a list that is built from a window's rows are soon replaced by better ones. A guide is a guess of the final bound:
the list starts with the guide as its bound, and lower scores never enter. Guides come from earlier builds. A wrong guide makes the
matches too few, or does not shorten the lists. No match is lost, since a guide is a bound like any other. If windows share rows, a
build costs a fraction of a search from scratch, else half of one.

Most rows change no list: with their weight even the best entry that they would extend does not reach the bound. Such rows are found
64 at a time, without branches (``_mark``).

Nothing is allocated here. A kernel that lacks room returns GROW, and resumes when it is called again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.kernels.common.hash_table import fill
from sparkcep.kernels.common.run_chains import (
    C_DEPTH,
    C_EDGE,
    C_JUMP,
    C_PARENT,
    C_ROW,
    NONE,
    append,
    comes_first,
    extended_first,
)
from sparkcep.kernels.jit.cache import embedded, inlined, kernel

UNKNOWN = -2
DONE, GROW, FULL, REBUILD = range(4)
L_AT, L_SIZE, L_ROOM, L_FIRST, L_BOUNDED, L_BOUND, L_GUIDED = range(7)  # columns of Lists.info
B_SCORE, B_LOWER, B_GUIDE, B_NEED = range(4)
T_BEST, T_BOUND, T_LOWER = range(3)  # columns of Work.test_scores
# Guides:
# RAISED, RAISED_APART: how far a guide follows a higher bound, as a share of the distance. It is small if windows share no rows,
#   because too high a guide costs a build.
# LOWERED: how far a guide is lowered if a list has room, as a share of the spread.
# BEHIND: how far a guide lies below the k best, as a multiple of the distance from the first to the last.
# SCOUTS: the smallest k whose best matches say something about longer lists.
RAISED, RAISED_APART, LOWERED, BEHIND, SCOUTS = 0.2, 0.02, 0.1, 2.0, 4
FEW, MARKS = 8, 64  # rows that are looked at together: at first, at most
R_LIST, R_EDGE, R_LOW, R_HIGH, R_LIMIT, R_BOUNDED, R_BOUND = range(7)  # columns of Work.runs
U_POOL, U_ARENA, U_CANDIDATES, U_RUNS, U_ROOM, U_ROW = range(6)  # counters, or the room that GROW asks for
# State of a kernel between two calls:
# S_ITEM, S_AT, S_STAGE: current window or row, next row to take, stage of the work.
# S_FRESH, S_WIDTH, S_SLACK: whether the lists were built for this window, entries of a new list, whether slack replaces bounds.
# S_LIFE, S_STRIKES, S_REST: windows that the lists have served, how often they served few, windows that are still to be built from
#   scratch.
# S_VALID: whether the lists may serve the next window.
# S_MATCHES, S_EVENTS, S_BUILDS, S_SLACKS: matches and rows written, builds, builds with slack.
# S_GUIDED, S_APART, S_SCOUTED: whether guides bounded the lists, whether the window shares no rows with the next one, whether a
#   short build has set the guides.
S_ITEM, S_AT, S_STAGE, S_FRESH, S_WIDTH, S_SLACK, S_LIFE, S_STRIKES, S_REST, S_VALID, S_MATCHES, S_EVENTS, S_BUILDS, S_SLACKS, S_GUIDED, S_APART, S_SCOUTED = (
    range(17)
)
STATE = 17
START, ROWS, EMIT = range(3)
MATCHES = 0  # the list of complete matches


class KBestNet(NamedTuple):
    """The automaton. No edge leads to node 0.

    Attributes:
        by_first, by_edge: int64 (variables + 1) and int64, the edges of each variable, in edge order.
        source, target: int64 (edges).
        opens, accepts: uint8 (nodes), whether edges leave a node, and whether matches may end there.
        base: int64 (nodes), the node's first list.
        keyed: uint8 (nodes), whether the node has a list for each key.
    """

    by_first: np.ndarray
    by_edge: np.ndarray
    source: np.ndarray
    target: np.ndarray
    opens: np.ndarray
    accepts: np.ndarray
    base: np.ndarray
    keyed: np.ndarray


class KBestRows(NamedTuple):
    """The rows.

    Attributes:
        letters: int64 (rows), the variables that each row fulfils.
        weights: (variables, rows) float64 or int64.
        left: int64 (nodes, rows), the key of a row taken into a keyed node.
        right: int64 (edges, rows), the key that the row taken before must have, for an edge out of a keyed node. A negative key
            equals none.
    """

    letters: np.ndarray
    weights: np.ndarray
    left: np.ndarray
    right: np.ndarray


class Lists(NamedTuple):
    """The lists, in one arena.

    Attributes:
        info: int64 (lists, 7): place, size and room in the arena; a lower bound of its entries' first rows; whether it is bounded;
            the bound's chain; whether it has a guide.
        bounds: (lists, 4), see B_SCORE to B_NEED.
        score, entry, start: the arena: score, chain and first row of each entry.
    """

    info: np.ndarray
    bounds: np.ndarray
    score: np.ndarray
    entry: np.ndarray
    start: np.ndarray


class KBestWork(NamedTuple):
    """Working memory for one row, and for skipping rows.

    Attributes:
        score, start, entry: of each candidate.
        parent: the chain that each candidate extends.
        fused: uint8, 1 if rounding made the candidate's score equal to that of the one before.
        runs: int64 (edges * 2, 7), candidates for one list.
        run_bounds: (edges * 2, 2), bound of what the source list does not have.
        tests: int64 (edges * 2), a variable.
        test_scores: (edges * 2, 3): the best entry that the variable's row would extend, bound and lower score of the list it would
            enter.
        marks: uint8 (MARKS), rows that may have an effect.
    """

    score: np.ndarray
    parent: np.ndarray
    start: np.ndarray
    fused: np.ndarray
    entry: np.ndarray
    runs: np.ndarray
    run_bounds: np.ndarray
    tests: np.ndarray
    test_scores: np.ndarray
    marks: np.ndarray


class Out(NamedTuple):
    """The matches.

    Attributes:
        window: int64 (matches).
        score: (matches).
        offsets: int64 (matches + 1), the range of each match in ``rows`` and ``edges``.
        rows, edges: int64.
    """

    window: np.ndarray
    score: np.ndarray
    offsets: np.ndarray
    rows: np.ndarray
    edges: np.ndarray


class KBestArrays(NamedTuple):
    """The arrays of one search.

    Attributes:
        pool: the chains of all entries, see :mod:`sparkcep.kernels.common.run_chains`.
        used: int64, what is in use, see U_POOL and the following.
        state: int64, where the search is, see S_ITEM and the following.
    """

    net: KBestNet
    stream: KBestRows
    pool: np.ndarray
    lists: Lists
    work: KBestWork
    used: np.ndarray
    state: np.ndarray
    out: Out


@kernel
def largest_bits(letters, bits):
    """The largest absolute value of the floats ``bits`` int64 (variables, rows) at rows that fulfil their variable, as bits.

    Floats are compared as integers without their signs. The result is infinity or greater if a value is infinite or NaN.
    """
    largest = np.int64(0)
    for v in range(bits.shape[0]):
        own = bits[v]
        for r in range(letters.shape[0]):
            largest = max(largest, own[r] & (-((letters[r] >> v) & 1) & 0x7FFFFFFFFFFFFFFF))
    return largest


@embedded
def clear(lists, used, keep_matches):
    """Empties the lists, and the pool unless the list of matches is kept."""
    info = lists.info
    for i in range(1 if keep_matches else 0, info.shape[0]):
        info[i, L_SIZE] = 0
        info[i, L_BOUNDED] = 0
        info[i, L_BOUND] = NONE
    if not keep_matches:
        used[U_POOL] = 0


@embedded
def _purge(lists, i, low):
    """Drops matches that begin before ``low``."""
    info = lists.info
    if info[i, L_FIRST] >= low:
        return
    at = info[i, L_AT]
    n = 0
    first = np.int64(1) << np.int64(62)
    for x in range(at, at + info[i, L_SIZE]):
        s = lists.start[x]
        if s >= low:
            lists.score[at + n] = lists.score[x]
            lists.entry[at + n] = lists.entry[x]
            lists.start[at + n] = s
            first = min(first, s)
            n += 1
    info[i, L_SIZE] = n
    info[i, L_FIRST] = first


@inlined
def _beyond_bound(pool, lists, i, score, parent, complete):
    """Whether ``parent`` with one more row, later than all rows of the list, may lie beyond the list's bound."""
    b = lists.bounds[i, B_SCORE]
    if score != b:
        return score < b
    c = lists.info[i, L_BOUND]
    return c == UNKNOWN or not extended_first(pool, parent, c, complete)


@embedded
def _collect(pool, lists, work, used, source, target, edge, row, w, limit, slack, spans):
    """Extends the entries of list ``source`` (NONE: the empty match) by ``row``, and notes them as a run of candidates for list
    ``target``.

    Candidates beyond the bound of ``target`` are left out. Returns DONE, GROW, or REBUILD if matches missing in ``source`` could be
    among the best (``spans``: of all rows).
    """
    info = lists.info
    complete = target == MATCHES
    begin = used[U_CANDIDATES]
    n = begin
    size = 1 if source < 0 else info[source, L_SIZE]
    if n + size > work.score.shape[0]:
        used[U_CANDIDATES] = n + size
        return GROW
    bounded = info[target, L_BOUNDED] == 1
    at = info[target, L_AT]
    floor_at = -1  # with slack: the ``limit``-th entry
    if slack >= 0 and not complete and info[target, L_SIZE] >= limit:
        floor_at = at + limit - 1
    origin = 0 if source < 0 else info[source, L_AT]
    before = w  # score of the last candidate in the source list
    for x in range(origin, origin + size):
        parent = NONE if source < 0 else lists.entry[x]
        s = w if source < 0 else lists.score[x] + w
        if bounded:
            if s < lists.bounds[target, B_SCORE]:
                lists.bounds[target, B_LOWER] = max(lists.bounds[target, B_LOWER], s)
                break
            if _beyond_bound(pool, lists, target, s, parent, complete):
                continue
        if floor_at >= 0 and s < lists.score[floor_at] - slack:
            break
        work.score[n] = s
        work.parent[n] = parent
        work.start[n] = row if source < 0 else lists.start[x]
        old = w if source < 0 else lists.score[x]
        work.fused[n] = 1 if n > begin and work.score[n - 1] == s and before != old else 0
        before = old
        n += 1
    phantom = 0
    chain = NONE
    r = used[U_RUNS]
    if source >= 0 and info[source, L_BOUNDED] == 1:
        s = lists.bounds[source, B_SCORE] + w
        lower = lists.bounds[source, B_LOWER] + w
        if lower != lower:  # the lower score is -inf, and the weight is infinite
            lower = lists.bounds[source, B_LOWER]
        chain = info[source, L_BOUND]
        if s == lower:
            chain = UNKNOWN
        if complete and spans:
            # The k best of the list are enough for this row, except for scores that rounding made equal.
            if size < limit or chain == UNKNOWN:
                if info[target, L_SIZE] < limit:
                    return REBUILD
                last = at + limit - 1
                if s > lists.score[last]:
                    return REBUILD
                if s == lists.score[last] and (chain == UNKNOWN or extended_first(pool, chain, lists.entry[last], True)):
                    return REBUILD
        elif bounded and s < lists.bounds[target, B_SCORE]:
            lists.bounds[target, B_LOWER] = max(lists.bounds[target, B_LOWER], s)
        elif (
            bounded
            and s == lists.bounds[target, B_SCORE]
            and (
                info[target, L_BOUND] == UNKNOWN
                or (chain != UNKNOWN and not extended_first(pool, chain, info[target, L_BOUND], complete))
            )
        ):
            lists.bounds[target, B_LOWER] = max(lists.bounds[target, B_LOWER], lower)
        else:
            phantom = 1
            work.run_bounds[r, B_SCORE] = s
            work.run_bounds[r, B_LOWER] = lower
    if n > begin or phantom == 1:
        work.runs[r, R_LIST] = target
        work.runs[r, R_EDGE] = edge
        work.runs[r, R_LOW] = begin
        work.runs[r, R_HIGH] = n
        work.runs[r, R_LIMIT] = limit
        work.runs[r, R_BOUNDED] = phantom
        work.runs[r, R_BOUND] = chain
        used[U_RUNS] = r + 1
        used[U_CANDIDATES] = n
    return DONE


@embedded
def _lower_bound(pool, lists, i, score, chain, lower, complete):
    """Makes (score, chain, lower) the bound of list ``i``, if it comes before the list's own bound."""
    info = lists.info
    bounds = lists.bounds
    if info[i, L_BOUNDED] == 0 or score > bounds[i, B_SCORE]:
        if info[i, L_BOUNDED] == 1:
            lower = max(lower, bounds[i, B_SCORE])
        info[i, L_BOUNDED] = 1
        info[i, L_BOUND] = chain
        bounds[i, B_SCORE] = score
        bounds[i, B_LOWER] = lower
    elif score == bounds[i, B_SCORE]:
        bounds[i, B_LOWER] = max(lower, bounds[i, B_LOWER])
        old = info[i, L_BOUND]
        if old != UNKNOWN and (chain == UNKNOWN or comes_first(pool, chain, old, complete)):
            info[i, L_BOUND] = chain
    else:
        bounds[i, B_LOWER] = max(score, bounds[i, B_LOWER])


@embedded
def _cut(pool, lists, i, limit, complete):
    """Drops entries beyond the bound, then entries beyond ``limit``, which moves the bound."""
    info = lists.info
    bounds = lists.bounds
    at = info[i, L_AT]
    size = info[i, L_SIZE]
    if info[i, L_BOUNDED] == 1:
        b = bounds[i, B_SCORE]
        c = info[i, L_BOUND]
        while size > 0:
            s = lists.score[at + size - 1]
            if s > b or (s == b and c != UNKNOWN and not comes_first(pool, c, lists.entry[at + size - 1], complete)):
                break
            if s < b:
                bounds[i, B_LOWER] = max(bounds[i, B_LOWER], s)
            size -= 1
    if size > limit:
        last = lists.score[at + limit - 1]
        had = info[i, L_BOUNDED] == 1
        lower = bounds[i, B_LOWER]
        for x in range(at + limit, at + size):
            if lists.score[x] < last:
                lower = max(lower, lists.score[x])
                break
        if had and bounds[i, B_SCORE] < last:
            lower = max(lower, bounds[i, B_SCORE])
        info[i, L_BOUNDED] = 1
        info[i, L_BOUND] = lists.entry[at + limit - 1]
        bounds[i, B_SCORE] = last
        bounds[i, B_LOWER] = lower
        size = limit
    info[i, L_SIZE] = size


@kernel
def _cut_near(lists, i, limit, slack):
    """Drops entries farther than ``slack`` below the ``limit``-th one, and of each score all but the first ``limit``."""
    info = lists.info
    size = info[i, L_SIZE]
    if size <= limit:
        return
    at = info[i, L_AT]
    floor = lists.score[at + limit - 1] - slack
    n = 0
    same = 0
    for x in range(at, at + size):
        s = lists.score[x]
        if s < floor:
            break
        same = same + 1 if n > 0 and lists.score[at + n - 1] == s else 1
        if same <= limit:
            lists.score[at + n] = s
            lists.entry[at + n] = lists.entry[x]
            lists.start[at + n] = lists.start[x]
            n += 1
    info[i, L_SIZE] = n


@embedded
def _merge(pool, lists, work, used, r, row, slack, neg):
    """Merges run ``r`` into its list."""
    info = lists.info
    i = work.runs[r, R_LIST]
    edge = work.runs[r, R_EDGE]
    begin = work.runs[r, R_LOW]
    end = work.runs[r, R_HIGH]
    limit = work.runs[r, R_LIMIT]
    complete = i == MATCHES
    for x in range(begin, end):
        append(pool, used[U_POOL], work.parent[x], edge, row)
        work.entry[x] = used[U_POOL]
        used[U_POOL] += 1
    for x in range(begin + 1, end):
        # Equal scores are in order, unless rounding made them equal.
        if work.fused[x] == 1 or (work.score[x] == work.score[x - 1] and work.fused[x - 1] == 1):
            work.fused[x] = 1
            y = x
            while (
                y > begin and work.score[y - 1] == work.score[y] and comes_first(pool, work.entry[y], work.entry[y - 1], complete)
            ):
                entry = work.entry[y]
                start = work.start[y]
                work.entry[y] = work.entry[y - 1]
                work.start[y] = work.start[y - 1]
                work.entry[y - 1] = entry
                work.start[y - 1] = start
                y -= 1
    if info[i, L_BOUNDED] == 0:
        lists.bounds[i, B_LOWER] = neg
    if work.runs[r, R_BOUNDED] == 1:
        chain = work.runs[r, R_BOUND]
        if chain != UNKNOWN:
            append(pool, used[U_POOL], chain, edge, row)
            chain = used[U_POOL]
            used[U_POOL] += 1
        _lower_bound(pool, lists, i, work.run_bounds[r, B_SCORE], chain, work.run_bounds[r, B_LOWER], complete)
    added = end - begin
    if added > 0:
        size = info[i, L_SIZE]
        if size + added > info[i, L_ROOM]:
            room = 2 * (size + added)
            at = used[U_ARENA]
            for x in range(size):
                lists.score[at + x] = lists.score[info[i, L_AT] + x]
                lists.entry[at + x] = lists.entry[info[i, L_AT] + x]
                lists.start[at + x] = lists.start[info[i, L_AT] + x]
            info[i, L_AT] = at
            info[i, L_ROOM] = room
            used[U_ARENA] += room
        at = info[i, L_AT]
        # From the end: each candidate's place is after all entries that come before it.
        out = at + size + added - 1
        x = at + size - 1
        y = end - 1
        first = info[i, L_FIRST] if size > 0 else work.start[begin]
        while y >= begin:
            if x >= at and (
                lists.score[x] < work.score[y]
                or (lists.score[x] == work.score[y] and comes_first(pool, work.entry[y], lists.entry[x], complete))
            ):
                lists.score[out] = lists.score[x]
                lists.entry[out] = lists.entry[x]
                lists.start[out] = lists.start[x]
                x -= 1
            else:
                lists.score[out] = work.score[y]
                lists.entry[out] = work.entry[y]
                lists.start[out] = work.start[y]
                first = min(first, work.start[y])
                y -= 1
            out -= 1
        info[i, L_SIZE] = size + added
        info[i, L_FIRST] = first
    if slack >= 0 and not complete:
        _cut_near(lists, i, limit, slack)
    else:
        _cut(pool, lists, i, limit, complete)


@inlined
def _hopeless(lists, source, target, w):
    """Whether all that ``source`` has and lacks is below the bound of ``target``. The best of it then raises the lower score of
    ``target``."""
    info = lists.info
    bounds = lists.bounds
    if info[target, L_BOUNDED] == 0 or info[source, L_SIZE] == 0:
        return False
    b = bounds[target, B_SCORE]
    s = lists.score[info[source, L_AT]] + w
    if info[source, L_BOUNDED] == 1:
        s = max(s, bounds[source, B_SCORE] + w)
    if s < b:
        bounds[target, B_LOWER] = max(bounds[target, B_LOWER], s)
        return True
    return False


@embedded
def _tests(net, lists, work, low, matches, neg):
    """Writes the scores that a row has to reach to change a list. Returns the number of tests, or -1 if keys choose the lists."""
    info = lists.info
    n = 0
    for v in range(net.by_first.shape[0] - 1):
        for i in range(net.by_first[v], net.by_first[v + 1]):
            e = net.by_edge[i]
            q = net.source[e]
            t = net.target[e]
            if net.keyed[q] == 1 or net.keyed[t] == 1:
                return -1
            best = 0
            if q > 0:
                source = net.base[q]
                if info[source, L_FIRST] < low:
                    _purge(lists, source, low)
                if info[source, L_SIZE] == 0 and info[source, L_BOUNDED] == 0:
                    continue
                best = _best(lists, source, neg)
            for complete in range(2):
                if complete == 1:
                    if not matches or net.accepts[t] == 0:
                        continue
                    target = MATCHES
                elif net.opens[t] == 0:
                    continue
                else:
                    target = net.base[t]
                work.tests[n] = v
                work.test_scores[n, T_BEST] = best
                bounded = info[target, L_BOUNDED] == 1
                work.test_scores[n, T_BOUND] = lists.bounds[target, B_SCORE] if bounded else neg
                work.test_scores[n, T_LOWER] = lists.bounds[target, B_LOWER] if bounded else neg
                n += 1
    return n


@embedded
def _mark(stream, work, tests, row, end):
    """Marks in ``work.marks`` the rows that may change a list or its bound, by their distance from ``row``.

    The code is free of branches, so that the processor handles several rows at a time.
    """
    marks = work.marks[: end - row]
    fill(marks, 0)
    letters = stream.letters[row:end]
    for i in range(tests):
        v = work.tests[i]
        best = work.test_scores[i, T_BEST]
        bound = work.test_scores[i, T_BOUND]
        lower = work.test_scores[i, T_LOWER]
        weights = stream.weights[v, row:end]
        for x in range(marks.shape[0]):
            s = best + weights[x]
            marks[x] |= ((letters[x] >> v) & 1 == 1) & ((s > lower) | (s >= bound))


@inlined
def _best(lists, i, neg):
    """The best score that list ``i`` has or lacks."""
    best = neg
    if lists.info[i, L_SIZE] > 0:
        best = lists.score[lists.info[i, L_AT]]
    if lists.info[i, L_BOUNDED] == 1:
        best = max(best, lists.bounds[i, B_SCORE])
    return best


@embedded
def take_rows(arrays, span, row, end, low, limit, best, matches, spans, slack, neg):
    """Extends all lists by the rows from ``row`` to ``end - 1``. Returns DONE, GROW or REBUILD.

    GROW and REBUILD are returned before row ``used[U_ROW]`` has changed anything but bounds.

    Args:
        arrays: :class:`KBestArrays`.
        span: int64 (rows); if it is not empty, matches begin at ``span[row]`` or later.
        low: matches begin at this row or later.
        limit: entries of a node's list.
        best: entries of the list of matches if spans of rows bound each match; else its limit is ``limit``.
        matches: whether complete matches are looked for.
        spans: whether a span of rows bounds each match.
        slack: what rounding may close; negative if lists have bounds.
        neg: the smallest score.
    """
    net, stream, pool = arrays.net, arrays.stream, arrays.pool
    lists, work, used = arrays.lists, arrays.work, arrays.used
    info = lists.info
    passes = slack < 0  # whether rows without effect are skipped
    begin = row  # first of the rows that are marked
    marked = row
    reach = FEW
    while row < end:
        # Most rows change no list. They are found in blocks, whose size doubles while nothing changes.
        if passes:
            if row == marked:
                tests = _tests(net, lists, work, low, matches, neg)
                if tests < 0:
                    passes = False
                    continue
                begin = row
                marked = min(row + reach, end)
                reach = min(2 * reach, MARKS)
                _mark(stream, work, tests, begin, marked)
            while row < marked and work.marks[row - begin] == 0:
                row += 1
            if row == marked:
                continue
        used[U_ROW] = row
        letters = stream.letters[row]
        used[U_CANDIDATES] = 0
        used[U_RUNS] = 0
        if span.shape[0] > 0:
            low = span[row]
        for v in range(net.by_first.shape[0] - 1):
            if (letters >> v) & 1 == 0:
                continue
            w = stream.weights[v, row]
            for i in range(net.by_first[v], net.by_first[v + 1]):
                e = net.by_edge[i]
                q = net.source[e]
                t = net.target[e]
                source = NONE
                if q > 0:
                    source = net.base[q]
                    if net.keyed[q] == 1:
                        if stream.right[e, row] < 0:
                            continue
                        source += stream.right[e, row]
                    if info[source, L_FIRST] < low:
                        _purge(lists, source, low)
                    if info[source, L_SIZE] == 0 and info[source, L_BOUNDED] == 0:
                        continue
                if net.opens[t] == 1:
                    target = net.base[t]
                    key = 0
                    if net.keyed[t] == 1:
                        key = stream.left[t, row]
                        target += key
                    if key >= 0 and (source < 0 or not _hopeless(lists, source, target, w)):
                        if info[target, L_FIRST] < low:
                            _purge(lists, target, low)
                        if _collect(pool, lists, work, used, source, target, e, row, w, limit, slack, False) == GROW:
                            return GROW
                if matches and net.accepts[t] == 1 and (source < 0 or spans or not _hopeless(lists, source, MATCHES, w)):
                    if not spans and info[MATCHES, L_FIRST] < low:
                        _purge(lists, MATCHES, low)
                    code = _collect(pool, lists, work, used, source, MATCHES, e, row, w, best if spans else limit, slack, spans)
                    if code != DONE:
                        return code
        # Room is checked before the lists change, so after GROW the row can be taken once more.
        runs = used[U_RUNS]
        if runs > 0:
            room = 0
            for r in range(runs):
                room += 2 * (info[work.runs[r, R_LIST], L_SIZE] + used[U_CANDIDATES])
            if used[U_POOL] + used[U_CANDIDATES] + runs > pool.shape[0] or used[U_ARENA] + room > lists.score.shape[0]:
                used[U_ROOM] = room
                return GROW
            for r in range(runs):
                i = work.runs[r, R_LIST]
                empty = info[i, L_SIZE] == 0 and info[i, L_BOUNDED] == 0
                best_before = _best(lists, i, neg)
                _merge(pool, lists, work, used, r, row, slack, neg)
                if i != MATCHES and (empty or _best(lists, i, neg) > best_before):
                    marked = row + 1  # more rows than the marked ones may have an effect now
                    reach = FEW
        row += 1
    used[U_ROW] = end
    return DONE


@embedded
def _emit(pool, lists, state, out, window, best):
    """Writes the first ``best`` matches of the list of matches. Returns DONE, or FULL if the output is too small."""
    at = lists.info[MATCHES, L_AT]
    n = min(best, lists.info[MATCHES, L_SIZE])
    events = 0
    for x in range(at, at + n):
        events += pool[lists.entry[x], C_DEPTH]
    m = state[S_MATCHES]
    if m + n > out.score.shape[0] or state[S_EVENTS] + events > out.rows.shape[0]:
        return FULL
    end = state[S_EVENTS]
    for x in range(at, at + n):
        entry = lists.entry[x]
        end += pool[entry, C_DEPTH]
        out.window[m] = window
        out.score[m] = lists.score[x]
        out.offsets[m + 1] = end
        y = end
        while entry >= 0:
            y -= 1
            out.rows[y] = pool[entry, C_ROW]
            out.edges[y] = pool[entry, C_EDGE]
            entry = pool[entry, C_PARENT]
        m += 1
    state[S_MATCHES] = m
    state[S_EVENTS] = end
    return DONE


@embedded
def _needed(net, lists, most, neg):
    """Writes into B_NEED the least score that each node needs: future rows of weights ``most`` then lead up to the guide of the
    matches.

    Returns False if keys choose the lists, or if a loop makes the scores fall without end.
    """
    bounds = lists.bounds
    nodes = net.base.shape[0]
    for q in range(1, nodes):
        if net.keyed[q] == 1:
            return False
        bounds[net.base[q], B_NEED] = -neg
    for _turn in range(nodes + 1):
        changed = False
        for v in range(net.by_first.shape[0] - 1):
            for i in range(net.by_first[v], net.by_first[v + 1]):
                e = net.by_edge[i]
                q = net.source[e]
                t = net.target[e]
                if q == 0:
                    continue
                need = bounds[net.base[t], B_NEED]
                if net.accepts[t] == 1:
                    need = min(need, bounds[MATCHES, B_GUIDE])
                if need < -neg and need - most[v] < bounds[net.base[q], B_NEED]:
                    bounds[net.base[q], B_NEED] = need - most[v]
                    changed = True
        if not changed:
            return True
    return False


@embedded
def _start(net, lists, used, state, most, low, guided, neg):
    """Empties the lists for a window that is built from its rows, which begin at ``low``. If ``guided``, guides bound them."""
    clear(lists, used, False)
    state[S_AT] = low
    state[S_FRESH] = 1
    state[S_BUILDS] += 1
    state[S_GUIDED] = 0
    if not guided or lists.info[MATCHES, L_GUIDED] == 0:
        return
    state[S_GUIDED] = 1
    needed = _needed(net, lists, most, neg)
    for i in range(lists.info.shape[0]):
        guide = lists.bounds[i, B_GUIDE] if lists.info[i, L_GUIDED] == 1 else neg
        if needed and i > 1 and lists.bounds[i, B_NEED] > guide and lists.bounds[i, B_NEED] < -neg:
            guide = lists.bounds[i, B_NEED]
        if guide > neg:
            lists.info[i, L_BOUNDED] = 1
            lists.info[i, L_BOUND] = UNKNOWN
            lists.bounds[i, B_SCORE] = guide
            lists.bounds[i, B_LOWER] = guide


@embedded
def _learn(lists, state, best, limit):
    """Derives guides for the next build from the lists of this one."""
    info = lists.info
    bounds = lists.bounds
    for i in range(info.shape[0]):
        if info[i, L_BOUNDED] == 0 or info[i, L_SIZE] == 0:
            if state[S_GUIDED] == 0:
                info[i, L_GUIDED] = 0
            continue
        b = bounds[i, B_SCORE]
        spread = lists.score[info[i, L_AT]] - b
        if state[S_GUIDED] == 0 or info[i, L_GUIDED] == 0:
            info[i, L_GUIDED] = 1 if limit > best or spread > 0 else 0
            bounds[i, B_GUIDE] = b - (BEHIND * spread if limit == best else 0)
        elif b > bounds[i, B_GUIDE]:
            bounds[i, B_GUIDE] += (RAISED_APART if limit == best else RAISED) * (b - bounds[i, B_GUIDE])
        elif limit > best:
            bounds[i, B_GUIDE] -= LOWERED * spread


@kernel
def rank_windows(arrays, span, low, high, heads, best, width, guided, most, slack, neg):
    """The ``best`` first matches of each window of rows ``low[i]`` .. ``high[i] - 1``.

    Args:
        arrays: :class:`KBestArrays`.
        span: empty.
        low, high: int64 (windows), ascending.
        heads: uint8 (windows), 1 if nothing is to be learnt from the windows before.
        width: entries of a freshly built list, at least ``best``; if equal, each window is built from scratch.
        guided: whether guides are used.
        most: (variables), the largest weights of rows, for guides.
        slack: the distance that rounding may close, at least 0.
        neg: the smallest score.

    Returns:
        DONE, or GROW or FULL; then the caller makes room and calls again.
    """
    net, pool, lists, used, state, out = arrays.net, arrays.pool, arrays.lists, arrays.used, arrays.state, arrays.out
    while state[S_ITEM] < low.shape[0]:
        i = state[S_ITEM]
        if state[S_STAGE] == START:
            if heads[i] == 1:
                state[S_WIDTH] = width
                state[S_VALID] = 0
                state[S_LIFE] = 0
                state[S_STRIKES] = 0
                state[S_REST] = 0
                for x in range(lists.info.shape[0]):
                    lists.info[x, L_GUIDED] = 0
            state[S_APART] = i + 1 == low.shape[0] or low[i + 1] >= high[i]  # its lists serve no other window
            if state[S_VALID] == 0 or low[i] >= state[S_AT] or state[S_WIDTH] == best:
                _start(net, lists, used, state, most, low[i], guided and state[S_WIDTH] > best, neg)
                state[S_VALID] = 1
                if state[S_REST] > 0:
                    state[S_LIFE] = -1
                    state[S_REST] -= 1
                    if state[S_REST] == 0:
                        state[S_WIDTH] = width
            else:
                state[S_FRESH] = 0
            state[S_SLACK] = 0
            state[S_SCOUTED] = 0
            state[S_STAGE] = ROWS
        if state[S_STAGE] == ROWS:
            if state[S_FRESH] == 0:
                limit = 2 * state[S_WIDTH]
            elif state[S_SLACK] == 1 or state[S_APART] == 1 and state[S_GUIDED] == 1:
                limit = best
            elif state[S_GUIDED] == 0 and state[S_SCOUTED] == 0 and guided and best >= SCOUTS:
                limit = best
            else:
                limit = state[S_WIDTH]
            if state[S_AT] < high[i]:
                near = slack if state[S_SLACK] == 1 else -1.0
                code = take_rows(arrays, span, state[S_AT], high[i], low[i], limit, best, True, False, near, neg)
                state[S_AT] = used[U_ROW]
                if code != DONE:
                    return code
            _purge(lists, MATCHES, low[i])
            # Fewer than k matches are left up to the bound, so some may be missing: the window is rebuilt, with guides if there are
            # some.
            if state[S_SLACK] == 0 and lists.info[MATCHES, L_BOUNDED] == 1 and lists.info[MATCHES, L_SIZE] < best:
                if state[S_FRESH] == 0 and guided and lists.info[MATCHES, L_GUIDED] == 1:
                    _start(net, lists, used, state, most, low[i], True, neg)
                    continue
                fresh = state[S_FRESH] == 1 and state[S_GUIDED] == 0
                if not fresh and state[S_WIDTH] > best:
                    # Lists that serve so few windows do not help. Each window is built from scratch for a while, the longer the
                    # more often this happens.
                    if state[S_LIFE] >= 8:
                        state[S_STRIKES] = 0
                    elif state[S_LIFE] < 3:
                        state[S_STRIKES] += 1
                    if state[S_STRIKES] >= 3:
                        state[S_WIDTH] = best
                        state[S_REST] = min(2 << state[S_STRIKES], 1024)
                _start(net, lists, used, state, most, low[i], False, neg)
                state[S_LIFE] = 0
                if fresh:
                    state[S_BUILDS] -= 1
                    state[S_SLACK] = 1
                    state[S_SLACKS] += 1
                    state[S_VALID] = 0
                continue
            if guided and state[S_FRESH] == 1 and state[S_SLACK] == 0 and state[S_WIDTH] > best:
                _learn(lists, state, best, limit)
                if state[S_GUIDED] == 0 and limit < state[S_WIDTH] and state[S_APART] == 0 and lists.info[MATCHES, L_BOUNDED] == 1:
                    # The k best show how deep longer lists reach.
                    state[S_SCOUTED] = 1
                    _start(net, lists, used, state, most, low[i], True, neg)
                    continue
            state[S_LIFE] += 1
            state[S_STAGE] = EMIT
        code = _emit(pool, lists, state, out, i, best)
        if code != DONE:
            return code
        state[S_STAGE] = START
        state[S_ITEM] += 1
    return DONE


@kernel
def rank_spans(arrays, first, best, width, slack, neg):
    """The ``best`` first matches of all rows whose last row ``r`` and first row ``s`` have ``first[r] <= s``. ``first`` int64
    (rows) ascends.

    The list of matches is never purged. The nodes' lists are rebuilt only if a match that ends at the row and is in no list could
    be among the best so far.
    """
    pool, lists, used, state, out = arrays.pool, arrays.lists, arrays.used, arrays.state, arrays.out
    rows = first.shape[0]
    nowhere = first[:0]
    while state[S_ITEM] < rows:
        row = state[S_ITEM]
        wide = best if state[S_SLACK] == 1 else width
        near = slack if state[S_SLACK] == 1 else -1.0
        if state[S_STAGE] == ROWS:
            code = take_rows(arrays, nowhere, state[S_AT], row, first[row], wide, best, False, True, near, neg)
            state[S_AT] = used[U_ROW]
            if code != DONE:
                return code
            state[S_STAGE] = START
        fresh = state[S_FRESH] == 1
        limit = wide if fresh else 2 * width
        code = take_rows(arrays, first, row, row + 1 if fresh else rows, 0, limit, best, True, True, near, neg)
        state[S_ITEM] = used[U_ROW]
        if state[S_ITEM] > row:
            state[S_FRESH] = 0
        if code == GROW:
            return code
        again = code == REBUILD
        if again:
            if state[S_FRESH] == 1:
                state[S_SLACK] = 1
                state[S_SLACKS] += 1
            else:
                state[S_BUILDS] += 1
            state[S_FRESH] = 1
        elif state[S_SLACK] == 1:  # lists without bounds serve no other row
            state[S_SLACK] = 0
            state[S_FRESH] = 1
            again = True
        if again and state[S_ITEM] < rows:
            clear(lists, used, True)
            state[S_AT] = first[state[S_ITEM]]
            state[S_STAGE] = ROWS
    return _emit(pool, lists, state, out, 0, best)


@kernel
def compact(pool, lists, used, place, score, entry, start):
    """Keeps the pool's records that a list or a bound still reaches, in order, and moves the lists to a new arena.

    ``score``, ``entry`` and ``start`` are the new arena. ``place`` int64 (capacity of the pool) is working memory.
    """
    info = lists.info
    n = used[U_POOL]
    for x in range(n):
        place[x] = 0
    for i in range(info.shape[0]):
        for x in range(info[i, L_AT], info[i, L_AT] + info[i, L_SIZE]):
            place[lists.entry[x]] = 1
        if info[i, L_BOUNDED] == 1 and info[i, L_BOUND] >= 0:
            place[info[i, L_BOUND]] = 1
    for x in range(n - 1, -1, -1):  # parents come before their children; jumps lead to ancestors
        if place[x] == 1 and pool[x, C_PARENT] >= 0:
            place[pool[x, C_PARENT]] = 1
    kept = 0
    for x in range(n):
        if place[x] == 0:
            continue
        place[x] = kept
        for f in range(pool.shape[1]):
            pool[kept, f] = pool[x, f]
        if pool[x, C_PARENT] >= 0:
            pool[kept, C_PARENT] = place[pool[x, C_PARENT]]
        if pool[x, C_JUMP] >= 0:
            pool[kept, C_JUMP] = place[pool[x, C_JUMP]]
        kept += 1
    used[U_POOL] = kept
    at = 0
    for i in range(info.shape[0]):
        size = info[i, L_SIZE]
        for x in range(size):
            score[at + x] = lists.score[info[i, L_AT] + x]
            entry[at + x] = place[lists.entry[info[i, L_AT] + x]]
            start[at + x] = lists.start[info[i, L_AT] + x]
        info[i, L_AT] = at
        info[i, L_ROOM] = 2 * size
        at += 2 * size
        if info[i, L_BOUNDED] == 1 and info[i, L_BOUND] >= 0:
            info[i, L_BOUND] = place[info[i, L_BOUND]]
    used[U_ARENA] = at
