"""The farthest run of each start row without a match, depth first over the net (:mod:`sparkcep.kernels.match.walk`).

A run ends when it takes no further row. Then it has timed out, a row broke it, or it is open (see :func:`_ending`). Of the runs of
a start row the farthest one is written: it took the deepest place, then lacks the fewest rows, then has the most rows, then is
preferred. Open runs go before all others. Several ways through the pattern may take the same rows for the
same variables. If they are equally far, the nodes of all of them are written: such ways are looked for once the best run is known.

Runs that reach the same node with the same row, windows and values have the same ends before them. So a run is left out if an
earlier one reached that state with a place at least as deep and at least as many rows.

Example: ``A+ B C`` over rows that are A, A and B, A and B, none. From row 0 the runs A A A (depth 1) and A A B (depth 2) end before
the last row, and A B ends before the third. A A B is written: it has the deepest place, and more rows than A B.

Arrays that other searches share are described in :mod:`sparkcep.kernels.match.walk`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.compiler.net.net import E_AT_END, E_AT_START, E_CHECK, E_LABEL, E_NOT, E_OPEN, E_PASSED, E_TARGET, E_VAR
from sparkcep.kernels.common.cursor import put_event
from sparkcep.kernels.common.hash_table import enter, forget, place_of
from sparkcep.kernels.common.layout import (
    ANY,
    DONE,
    EFFORT,
    ERROR,
    FULL,
    GROW,
    NEXT,
    S_COVERED,
    S_DETAIL,
    S_ENTRIES,
    S_EVENTS,
    S_LABELS,
    S_NUMBER,
    S_PART,
    S_START,
    S_STEPS,
)
from sparkcep.kernels.jit.cache import embedded, inlined, kernel
from sparkcep.kernels.match.candidates import write_key
from sparkcep.kernels.match.judge import none_between
from sparkcep.kernels.vm.final_conditions import (
    TOO_LONG,
    group_between,
    holds_finally,
    open_windows,
    put_start,
    replay,
    scanned,
    timed,
    window_end,
)
from sparkcep.kernels.vm.vm import MAP, UNTAKEN

OPEN, TIMED_OUT, BROKEN = range(3)  # how a run ended
NEVER = np.iinfo(np.int64).max  # the moment of a window that no clock ends
UNFINISHED = -1  # instead of the number of a match

# Columns of ``frames``, the first three as in sparkcep.kernels.vm.final_conditions: node, row taken, edge in progress, next
# candidate row, deepest place so far, and bits: whether an edge took that row, whether the row may not be passed over.
F_NODE, F_ROW, F_EDGE, F_NEXT, F_DEEP, F_BITS, FRAME = range(7)
_TOOK, _HELD = 1, 2

# Columns of ``ends``: how the run ended, the row that broke it, the moment its last window ended, its first node in ``nodes``, and
# how many it has there.
D_STATUS, D_ROW, D_MOMENT, D_NODES, D_COUNT, END = range(6)


class Places(NamedTuple):
    """Depths of places and distances to a match, by the pattern alone.

    Attributes:
        deep: int64 (edges), the rank of the depth of the place where an edge takes its row.
        needed: int64 (nodes), the fewest rows that complete a match from a node.
        following: int32 (sets of letters, rows + 1), under SKIP TILL NEXT the first row from each row on with one of the letters.
        letters: int64 (nodes), the set of letters that edges of the node may take.
        levels: how many depths there are.
        at_once: int64 (edges), the negated variables that look at the match, but only at variables that take no further row.
        several: 1 if several ways through the pattern may take equal rows for equal variables, and their nodes are wanted.
    """

    deep: np.ndarray
    needed: np.ndarray
    following: np.ndarray
    letters: np.ndarray
    levels: int
    at_once: np.ndarray
    several: int


class Starts(NamedTuple):
    """Where runs may begin.

    Attributes:
        tried: uint8 (rows), 1 if a match was tried at the row and not found.
        numbers: int64 (rows), the matches of the partition that begin before the row.
        each: whether a start row inside a written run has a run of its own.
    """

    tried: np.ndarray
    numbers: np.ndarray
    each: bool


class WindowClock(NamedTuple):
    """When windows end.

    Attributes:
        closing: int64 (windows, rows), when a window that begins with the row ends.
        now: int64 (partitions), the clock at the end of the partition.
        differing: int64 (windows, rows), a number that two windows of one kind share only if they end at the same row and moment.
        null: uint8 (rows), 1 if the row lacks a time. It ends no window of time.
    """

    closing: np.ndarray
    now: np.ndarray
    differing: np.ndarray
    null: np.ndarray


class Growing(NamedTuple):
    """Partitions that may get more rows, and the matches at their start rows.

    A start row is undecided while a run of it is open that goes before its match. The search of a partition that may get more rows
    ends at the first such row.

    Attributes:
        first: int64 (partitions), the first row, -1 if it was dropped.
        begin: int64 (partitions), the first start row.
        going: uint8 (partitions), 1 if the partition may get more rows.
        match: int64 (rows), where the match that begins with a row has its labels; -1 for a row without a match.
        sizes: int64 (rows), how many rows that match has.
        rows, labels: those of all matches.
        covered: int64 (partitions), the row after the last one of the runs that were written before.
        until: int64 (partitions), the first undecided start row, or the partition's end.
        moments: int64 (partitions), when the last window of the undecided row's runs ends.
        found: int64 (2), whether a run of a start row is open, and when the last window of such runs ends.
    """

    first: np.ndarray
    begin: np.ndarray
    going: np.ndarray
    match: np.ndarray
    sizes: np.ndarray
    rows: np.ndarray
    labels: np.ndarray
    covered: np.ndarray
    until: np.ndarray
    moments: np.ndarray
    found: np.ndarray


class RunWork(NamedTuple):
    """Working memory: frames, the rows that opened each window, the best run so far with its nodes, and the memo.

    ``reached`` int64 (entries, levels): the most rows of a run that reached the state, for each depth. ``path`` and ``within`` hold
    the rows of negations, see :mod:`sparkcep.kernels.match.walk`.
    """

    frames: np.ndarray
    opened: np.ndarray
    best_rows: np.ndarray
    best_labels: np.ndarray
    best: np.ndarray
    nodes: np.ndarray
    reached: np.ndarray
    path: np.ndarray
    within: np.ndarray


class FarthestRuns(NamedTuple):
    """The runs: events, labels and rows as those of matches, their ends, and the nodes where they end."""

    events: np.ndarray
    labels: np.ndarray
    rows: np.ndarray
    ends: np.ndarray
    nodes: np.ndarray


@kernel
def rows_with(letters, sets, found):
    """Writes for each set of letters and each row the first row from there on with one of them.

    Args:
        letters: the letters of each row, of any integer type (rows).
        sets: int64 (sets).
        found: int32 (sets, rows + 1), is written. It is the number of rows if there is none.
    """
    rows = letters.shape[0]
    for i in range(sets.shape[0]):
        wanted, at = sets[i], np.int64(rows)
        found[i, rows] = at
        for p in range(rows - 1, -1, -1):
            if letters[p] & wanted != 0:
                at = np.int64(p)
            found[i, p] = at


@kernel
def farthest_runs(net, how, remembers, spans, negated, places, starts, clock, conditions, rows, scratch, work, state, out, growing):
    """Writes the farthest run of each start row, partition by partition. Returns an outcome, as the search for matches does.

    ``growing`` is None, or says which partitions may get more rows (:class:`Growing`).
    """
    offsets = rows.offsets
    parts = offsets.shape[0] - 1
    part, s = state[S_PART], state[S_START]
    while part < parts:
        low, high = offsets[part], offsets[part + 1]
        head = low
        if growing is not None:
            head = growing.first[part]
        while s < high:
            shown = starts.tried[s] != 0 and (starts.each or s >= state[S_COVERED])
            wanted = shown
            if growing is not None:
                wanted = starts.tried[s] != 0 or growing.match[s] >= 0
            if not wanted or rows.letters[s] & net.masks[0] == 0 or spans.windows[0, s] <= s:
                s += 1
                continue
            state[S_NUMBER] = starts.numbers[s]
            if growing is not None:
                growing.found[0], growing.found[1] = 0, -NEVER
            outcome, size = _from_row(
                s, low, high, head, clock.now[part], net, how, remembers, spans, negated, places, clock, conditions, rows, scratch, work, state, growing
            )
            if growing is not None and outcome == DONE:
                if growing.found[0] != 0 and growing.going[part] != 0:
                    growing.until[part] = s
                    growing.moments[part] = growing.found[1]
                    s = high
                    continue
                if not shown:
                    size = 0
            count, at = state[S_EVENTS], state[S_LABELS]
            total = out.ends[count - 1, D_NODES] + out.ends[count - 1, D_COUNT] if count > 0 else np.int64(0)
            if outcome == DONE and size > 0 and (
                count == out.events.shape[0] or at + size > out.labels.shape[0] or total + work.best[D_COUNT] > out.nodes.shape[0]
            ):
                state[S_DETAIL] = size
                outcome = FULL
            if outcome != DONE:
                state[S_PART], state[S_START] = part, s
                return outcome
            if size > 0:
                put_event(out.events, count, part, s, size, count, at)
                for i in range(size):
                    out.rows[at + i] = work.best_rows[i]
                    out.labels[at + i] = work.best_labels[i]
                work.best[D_NODES] = total
                for i in range(END):
                    out.ends[count, i] = work.best[i]
                for i in range(work.best[D_COUNT]):
                    out.nodes[total + i] = work.nodes[i]
                state[S_EVENTS] = count + 1
                state[S_LABELS] = at + size
                state[S_COVERED] = work.best_rows[size - 1] + 1
            s += 1
        part += 1
        if growing is not None and part < parts:
            s = growing.begin[part]
            state[S_COVERED] = growing.covered[part]
    state[S_PART], state[S_START] = part, s
    return DONE


@kernel
def _from_row(s, low, high, head, now, net, how, remembers, spans, negated, places, clock, conditions, rows, scratch, work, state, growing):
    """Searches the farthest run from row ``s``: (outcome, its rows). 0 rows if no variable takes the row.

    If ``growing`` knows a match that begins there, only the runs before it are searched.
    """
    first, edges, strategy = net.first, net.edges, how.strategy
    frames, labels = work.frames, scratch.labels
    state[S_STEPS] = 0
    here = (low, high, s)
    stop_all = spans.windows[0, s]
    size, best_open, best_deep, best_needed = np.int64(0), False, np.int64(-1), np.int64(0)
    follows = False  # whether only ways with the rows and variables of the best run are looked for
    _begin(s, first[0], frames, scratch, state)
    depth, steps = np.int64(0), np.int64(0)
    matched, complete = np.int64(-1), np.int64(-1)  # the edge that completes the match, at that depth
    outcome = DONE
    while True:
        steps += 1
        if steps + state[S_STEPS] > how.max_steps:
            outcome = EFFORT
            break
        node, e, last, p = frames[depth, F_NODE], frames[depth, F_EDGE], frames[depth, F_ROW], frames[depth, F_NEXT]
        several = strategy == ANY and depth > 0
        if e == first[node + 1]:
            # ---- All edges were tried.
            if depth == 0:
                if follows or size == 0 or places.several == 0:
                    break
                follows = True
                _begin(s, first[0], frames, scratch, state)
                continue
            stuck = np.int64(NEVER)
            if strategy == NEXT and p < stop_all:
                if frames[depth, F_BITS] & _HELD == 0:
                    frames[depth, F_NEXT] = places.following[places.letters[node], p + 1]
                    frames[depth, F_EDGE] = first[node]
                    frames[depth, F_BITS] = 0
                    continue
                stuck = p
            elif strategy != NEXT and not several:
                stuck = p
            if growing is not None and depth == complete:
                outcome = _open_before(depth, stuck, matched, stop_all, now, here, net, how, spans, negated, places, clock, conditions, rows, scratch, work, state, growing)
                break
            if (several or frames[depth, F_BITS] & _TOOK == 0) and _matters(depth, node, follows, clock.closing[0, s] > now, (best_deep, best_needed, size), frames, places):
                status, by, moment, ways = _ending(depth, node, first[node + 1], np.int64(-1), last, stuck, stop_all, now, here, net, how, spans, negated, places, clock, conditions, rows, scratch, work, state)
                if by < -1:
                    state[S_DETAIL] = by + 1
                    outcome = EFFORT if by + 1 == TOO_LONG else ERROR
                    break
                size, best_open, best_deep, best_needed = _farther(
                    depth, node, (status, by, moment, ways), follows, (size, best_open, best_deep, best_needed), places.needed[node], edges, frames, work, growing
                )
            labels[last] = UNTAKEN
            depth -= 1
            if strategy == ANY and depth > 0:
                frames[depth, F_NEXT] += 1
            else:
                frames[depth, F_EDGE] += 1
            continue
        v = edges[e, E_VAR]
        if growing is not None and v < 0 and complete < 0 and _is_match(depth, e, s, last, edges, frames, spans, negated, growing):
            if depth == 0:
                break
            matched, complete = e, depth
            if several:
                frames[depth, F_EDGE] = first[node + 1]
                continue
        if v < 0 or (edges[e, E_AT_START] != 0 and s != head):
            frames[depth, F_EDGE] += 1
            continue
        stop = s + 1 if depth == 0 else window_end(e, depth, stop_all, edges, work.opened, spans.windows)
        crossed = edges[e, E_NOT] & negated.local
        got = np.int64(0)
        if places.at_once[e] != 0 and depth > 0 and p < stop:
            refused = _first_refused(places.at_once[e], last, stop if several else p, depth, here, edges, how, spans, negated, conditions, rows, scratch, work, state)
            if refused < 0:
                state[S_DETAIL] = refused
                outcome = EFFORT if refused == TOO_LONG else ERROR
                break
            if several:
                stop = min(stop - 1, refused) + 1
            elif refused < p:
                crossed = np.int64(-1)
        while p < stop:
            if several and crossed != 0 and not none_between(crossed, last, p, negated.nearest):
                p = stop
                break
            if (rows.letters[p] >> v) & 1 == 1 and timed(edges[e, E_OPEN], p, spans.windows):
                got = np.int64(1)
                if conditions.entry[v] >= 0 or net.valued[edges[e, E_TARGET]] == 1:
                    taken, bad = scanned(
                        MAP, v, edges[e, E_LABEL], conditions.entry[v], 1, p, last, p + 1, s, here, conditions.slots, conditions, rows, scratch, state
                    )
                    labels[p] = UNTAKEN
                    got = np.int64(taken)
                    if bad < 0:
                        state[S_DETAIL] = bad
                        outcome = ERROR
                        break
            if got == 1 or not several:
                break
            p += 1
            steps += 1
        if outcome != DONE:
            break
        if got == 1 and not several:
            if edges[e, E_PASSED] == 0:
                frames[depth, F_BITS] |= _HELD
            if crossed == -1 or crossed != 0 and depth > 0 and not none_between(crossed, last, p, negated.nearest):
                got = np.int64(0)
        if got == 0:
            frames[depth, F_EDGE] += 1
            if several:
                frames[depth, F_NEXT] = last + 1
            continue
        if growing is not None and depth == complete and e > matched:  # the match goes before runs that take this edge
            frames[depth, F_EDGE] += 1
            continue
        frames[depth, F_BITS] |= _TOOK
        frames[depth, F_NEXT] = p
        open_windows(e, depth, p, edges, work.opened)
        target, deep = edges[e, E_TARGET], max(frames[depth, F_DEEP], places.deep[e])
        known = np.int64(0)
        if follows and (depth >= size or work.best_rows[depth] != p or work.best_labels[depth] & 63 != v):
            known = np.int64(1)
        elif remembers or follows:
            write_key(depth + 1, target, p, stop_all, net.live, scratch, work.opened, clock.differing)
            known = _reached(deep, depth + 1, places.levels, scratch, work.reached, state)
            if known < 0:
                outcome = GROW
                break
        if known == 1:
            if several:
                frames[depth, F_NEXT] += 1
            else:
                frames[depth, F_EDGE] += 1
            continue
        labels[p] = edges[e, E_LABEL]
        if conditions.entry[v] < 0 and net.valued[target] == 0:
            put_start(p, conditions.slots, scratch)  # not needed, but later rows add to the values of this one
        depth += 1
        candidate = np.int64(places.following[places.letters[target], p + 1] if strategy == NEXT else p + 1)
        _put_frame(depth, target, p, first[target], candidate, deep, frames)
    for d in range(1, depth + 1):
        labels[frames[d, F_ROW]] = UNTAKEN
    return outcome, size


@inlined
def _matters(depth, node, follows, may_open, best, frames, places):
    """Whether the end of the run in the frames must be known. If no run is open, it must have got farther than the best one."""
    if follows:
        return depth == best[2]
    return may_open or best[2] == 0 or _deeper((frames[depth, F_DEEP], places.needed[node], depth), best)


@inlined
def _deeper(run, best):
    """Whether a run got farther than the best one. Both are (deepest place, rows still needed, rows)."""
    return run[0] > best[0] or (run[0] == best[0] and (run[1] < best[1] or (run[1] == best[1] and run[2] > best[2])))


@embedded
def _farther(depth, node, ending, follows, best, needed, edges, frames, work, growing):
    """Keeps the run in the frames if it got farther than the best one. If it is that one by another way, keeps its node.

    Returns the size of the best run, whether it is open, its depth and the rows that it needs.
    """
    status, by, moment, ways = ending
    size, best_open, best_deep, best_needed = best
    if growing is not None:
        _note_open(status, moment, ways, growing)
    deep, count = frames[depth, F_DEEP], work.best[D_COUNT]
    better = ways > 0 and not follows and (size == 0 or (status == OPEN and not best_open))
    if ways > 0 and not follows and not better and (status == OPEN) == best_open:
        better = _deeper((deep, needed, depth), (best_deep, best_needed, size))
    if better:
        work.best[D_STATUS] = status
        work.best[D_ROW] = by
        work.best[D_MOMENT] = moment
        work.best[D_COUNT] = 1
        work.nodes[0] = node
        for d in range(1, depth + 1):
            work.best_rows[d - 1] = frames[d, F_ROW]
            work.best_labels[d - 1] = edges[frames[d - 1, F_EDGE], E_LABEL]
        return depth, status == OPEN, deep, np.int64(needed)
    if follows and ways > 0 and deep == best_deep and needed == best_needed and status == work.best[D_STATUS]:
        fresh = True
        for i in range(count):
            fresh = fresh and work.nodes[i] != node
        if fresh:
            work.nodes[count] = node
            work.best[D_COUNT] = count + 1
    return size, best_open, best_deep, np.int64(best_needed)


@embedded
def _is_match(depth, e, s, last, edges, frames, spans, negated, growing):
    """Whether the rows in the frames are the match that begins with row ``s``, and the edge ``e`` completes it."""
    at = growing.match[s]
    if at < 0 or growing.sizes[s] != depth:
        return False
    for d in range(1, depth + 1):
        if growing.rows[at + d - 1] != frames[d, F_ROW] or growing.labels[at + d - 1] & 63 != edges[frames[d - 1, F_EDGE], E_LABEL] & 63:
            return False
    crossed = edges[e, E_NOT] & negated.local
    return depth == 0 or crossed == 0 or none_between(crossed, last, min(spans.windows[0, s], negated.nearest.shape[1] - 1), negated.nearest)


@embedded
def _open_before(depth, stuck, matched, stop_all, now, here, net, how, spans, negated, places, clock, conditions, rows, scratch, work, state, growing):
    """Notes whether the match in the frames may still give way to a run that goes before it. Returns an outcome.

    Under SKIP TILL ANY MATCH each of its rows may have ways on that go before it, else only its last row. Negations before the end
    of the pattern make the end a way on.
    """
    frames, d = work.frames, depth
    while d > 0 and (d == depth or how.strategy == ANY):
        until, accepted = (matched + 1, matched) if d == depth else (frames[d, F_EDGE], np.int64(-1))
        status, by, moment, ways = _ending(
            d, frames[d, F_NODE], until, accepted, frames[d, F_ROW], stuck, stop_all, now, here, net, how, spans, negated, places, clock, conditions, rows, scratch, work, state
        )
        if by < -1:
            state[S_DETAIL] = by + 1
            return EFFORT if by + 1 == TOO_LONG else ERROR
        _note_open(status, moment, ways, growing)
        scratch.labels[frames[d, F_ROW]] = UNTAKEN
        d -= 1
    return DONE


@embedded
def _note_open(status, moment, ways, growing):
    """Notes the end of a run if it is open."""
    if status == OPEN and ways > 0:
        growing.found[0] = 1
        growing.found[1] = max(growing.found[1], moment)


@embedded
def _begin(s, edge, frames, scratch, state):
    """Begins with the runs of row ``s``, whose first edge is given."""
    if state[S_ENTRIES] > 0:
        forget(scratch.entries, scratch.table, state)
    _put_frame(np.int64(0), np.int64(0), s - 1, edge, s, np.int64(0), frames)


@embedded
def _put_frame(depth, node, row, edge, candidate, deep, frames):
    """Writes a frame that goes on with an edge, at a candidate row."""
    frames[depth, F_NODE] = node
    frames[depth, F_ROW] = row
    frames[depth, F_EDGE] = edge
    frames[depth, F_NEXT] = candidate
    frames[depth, F_DEEP] = deep
    frames[depth, F_BITS] = 0


@embedded
def _reached(deep, size, levels, scratch, reached, state):
    """Enters the state in ``scratch.key``: 1 if an earlier run reached it at least as deep with at least as many rows, 0 if not,
    -1 if the memo is full."""
    h = place_of(scratch.key, scratch.entries, scratch.table)
    at = scratch.table[h] - 1
    if at < 0:
        at = state[S_ENTRIES]
        if at == scratch.entries.shape[0]:
            return -1
        enter(scratch.key, h, scratch.entries, scratch.table, state)
        for level in range(levels):
            reached[at, level] = 0
    for level in range(deep, levels):
        if reached[at, level] >= size:
            return 1
    reached[at, deep] = size
    return 0


@embedded
def _first_refused(variables, last, until, depth, here, edges, how, spans, negated, conditions, rows, scratch, work, state):
    """The first row after ``last`` and before ``until`` where negated variables end an occurrence, else NEVER; or an error."""
    first = np.int64(NEVER)
    v = np.int64(0)
    while variables != 0:
        if variables & 1 == 1:
            found = np.int64(NEVER)
            if negated.start[v] >= 0:
                found = _first_of_group(v, last, min(first, until), depth, here, edges, how, spans, negated, conditions, rows, scratch, work, state)
            else:
                found = _first_of_variable(v, last, min(first, until), depth, here, edges, negated, conditions, rows, scratch, work, state)
            if found < 0:
                return found
            first = min(first, found)
        variables >>= 1
        v += 1
    return first


@embedded
def _first_of_variable(v, last, until, depth, here, edges, negated, conditions, rows, scratch, work, state):
    """The first row after ``last`` and before ``until`` that a negated variable takes, else NEVER; or an error."""
    mixed, first = (negated.mixed >> v) & 1 == 1, np.int64(NEVER)
    for x in range(last + 1, until):
        if (rows.letters[x] >> v) & 1 == 0:
            continue
        if mixed:
            got = np.int64(holds_finally(v, x, min(x, here[2]), depth, here, edges, conditions, rows, scratch, work, state))
        else:
            held, bad = scanned(MAP, v, v, conditions.entry[v], 1, x, last, x + 1, here[2], here, conditions.slots, conditions, rows, scratch, state)
            got = np.int64(bad) if bad < 0 else np.int64(held)
        scratch.labels[x] = UNTAKEN
        if got < 0:
            return got
        if got == 1:
            first = np.int64(x)
            break
    if mixed:
        bad = _restored(depth, here, edges, conditions, rows, scratch, work, state)
        return bad if bad < 0 else first
    return first


@embedded
def _first_of_group(v, last, until, depth, here, edges, how, spans, negated, conditions, rows, scratch, work, state):
    """The first row after ``last`` and before ``until`` where a match of a negated group ends, else NEVER; or an error."""
    got, first, x = np.int64(0), np.int64(NEVER), last + 1
    if x < until:
        got = np.int64(group_between(v, last, until, depth, here, edges, None, how, spans, negated, conditions, rows, scratch, work, state))
    if got == 1:
        # the rows up to until - 1 hold a match; the first row that ends one is looked for
        got = np.int64(0)
        while x < until and got == 0:
            x += 1
            got = np.int64(group_between(v, last, x, depth, here, edges, None, how, spans, negated, conditions, rows, scratch, work, state))
        first = x - 1
    if got < 0:
        return got
    bad = _restored(depth, here, edges, conditions, rows, scratch, work, state)
    return bad if bad < 0 else first


@embedded
def _restored(depth, here, edges, conditions, rows, scratch, work, state):
    """Computes the values of the run again, which judging a negation may have overwritten: 0 or an error."""
    return np.int64(replay(np.int64(-1), np.int64(0), np.int64(0), depth, scratch.hi.shape[0] - 2, here, edges, conditions, rows, scratch, work, state))


@embedded
def _ending(depth, node, until, accepted, last, stuck, stop_all, now, here, net, how, spans, negated, places, clock, conditions, rows, scratch, work, state):
    """How the run in the frames ends: (status, the row that broke it or an error minus 1, the end of its last window, its ways on).

    The ways on are the edges of the node before ``until``. That of a match (``accepted``, else -1) passes over no row.
    The window of an open run is the last of its open ways.
    Each way on ends by a row that the run can neither take nor pass over (``stuck``), by a row that a negation forbids, or with a
    window. The last of them says how the run ends. A row outside of a way's windows does not break it. A complete run that a
    negation elsewhere refuses lacks a way on, and never ends.
    """
    edges, high, s = net.edges, here[1], here[2]
    broken, closed, moment, is_open, ways = np.int64(-1), np.int64(-1), np.int64(-NEVER), False, np.int64(0)
    opening = np.int64(-NEVER)
    for e in range(net.first[node], until):
        at_end = edges[e, E_VAR] < 0 and edges[e, E_AT_END] != 0
        crossed = edges[e, E_NOT] & negated.local
        if edges[e, E_VAR] < 0 and edges[e, E_NOT] == 0 and not at_end:
            continue
        ways += 1
        stop = window_end(e, depth, stop_all, edges, work.opened, spans.windows)
        ends = _closing(e, depth, s, edges, clock.closing, work.opened)
        dead = stuck if e != accepted else np.int64(NEVER)
        if at_end:
            dead = min(dead, last + 1)
        v = np.int64(0)
        while crossed != 0:
            if crossed & 1 == 1:
                dead = min(dead, np.int64(negated.nearest[v, last + 1]))
            crossed >>= 1
            v += 1
        if places.at_once[e] != 0:
            refused = _first_refused(places.at_once[e], last, min(stop, high), depth, here, edges, how, spans, negated, conditions, rows, scratch, work, state)
            if refused < 0:
                return OPEN, refused - 1, moment, ways
            dead = min(dead, refused)
        if dead < min(stop, high):
            broken = max(broken, dead)
        elif (stop < high and clock.null[stop] == 0) or ends <= now:
            closed = max(closed, min(stop, high))
            moment = max(moment, ends)
        else:
            is_open = True
            opening = max(opening, ends)
    if is_open:
        return OPEN, np.int64(-1), opening, ways
    if broken >= closed:
        return BROKEN, broken, moment, ways
    return TIMED_OUT, np.int64(-1), moment, ways


@embedded
def _closing(e, depth, s, edges, closing, opened):
    """When the last window of an edge ends."""
    found = closing[0, s]
    w = 1
    checked = edges[e, E_CHECK] >> 1
    while checked != 0:
        if checked & 1 == 1:
            found = min(found, closing[w, opened[depth, w]])
        checked >>= 1
        w += 1
    return found
