"""Runs of an automaton with registers, side by side: at each row every arc with a true fence is taken (AFA, VLDB 2010).

The automaton search of the engine calls :func:`run`; with a changelog :mod:`sparkcep.kernels.automaton.run_log` does. A run (a
computation of the paper) is a record of int64 words (:data:`I_STATE` and on). These are its state, first row, the least end of its
rows' lifetimes, and its path. Then come the record and the arc ON EMPTY that made it at the same row, or -1. The last words are the
NULL marks of the registers and their values, floats as bits.

Records with one first row, one state and equal registers have equal futures. So one represents all of them: the one whose arcs come
first.

The array ``ids`` int64 (3, room, width) holds the records before the current row, those after it, and those before the first row.
:data:`S_SIDE` says which of the first two is which.

Records are ordered by their first rows, and those of one first row by their arcs. This is also the order of matches. The epsilon
arcs of a record (ON EMPTY and ON EXPIRY) are followed depth-first as soon as it exists. So the records they make come right after
it. The next row is given to both together: an arc's turn among all arcs that leave a state does not depend on whether it takes a
row.

If an array is too small for the records of a row, the kernel goes back to the row's begin and asks for room. Nothing of the row is
kept.

A growing partition is left with the first row of its oldest run. From there all current runs arise once more, so only rows and the
number of the last match need to be saved. Matches that have been emitted are not emitted again. After the last row, arcs ON EXPIRY
are taken as far as no earlier row can arrive before the end of the lifetimes. The others are taken once that is known, so the time
up to which they were taken is saved, too.

With BY ROWS, arcs without a label may begin or end a computation. Then equal matches can have different first rows, and can be
complete at different rows. So all matches of the call are kept in a table (``reported``). A partition is left with the first row of
the first computation of each match that a current run can still repeat.

Example: state S has an arc to the final state T with ``SET low = v``, and T has an arc to itself with the fence ``v > low`` and
``SET low = v``. The rows 0, 1, 2 have v = 3, 1, 5. The record after row 0 is (T, first 0, low 3), and after row 1 it is (T, first
1, low 1). After row 2 there are (T, first 1, low 5) and (T, first 2, low 5). The matches are the rows 0; 1; 1, 2; and 2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sparkcep.kernels.common.layout import (
    DONE,
    E_LABELS,
    E_NUMBER,
    E_PART,
    E_ROWS,
    E_START,
    EFFORT,
    ERROR,
    FULL,
    GROW,
    O_COVERED,
    O_GOING,
    O_NUMBER,
    O_START,
    OPEN_FIELDS,
    TOO_MANY,
)
from sparkcep.kernels.jit.cache import embedded, inlined, kernel
from sparkcep.kernels.vm.vm import CLEAR, OVERFLOW, scan

# Words of a record.
I_STATE, I_FIRST, I_END, I_WAY, I_PARENT, I_VIA, I_NULLS, I_WORDS = range(8)
# Columns of an arc: target, bit of its letter (-1: none), what it takes, its label, whether it has EMIT, the first time and the end
# time of its validity (for ON EXPIRY), its first parameter and the one after its last.
A_TARGET, A_BIT, A_ON, A_LABEL, A_EMITS, A_FROM, A_UNTIL, A_GIVEN, A_GIVEN_END, A_WIDTH = range(10)
ON_ROW, ON_EMPTY, ON_EXPIRY = range(3)
# Columns of a value: its representation, its column of the interpreter, its first word.
V_HOW, V_COLUMN, V_WORD = range(3)
WORD, FLOAT, WIDE = range(3)
# Words of a match beside its event: whether its rows' lifetimes had ended, the least of their ends, which registers and which
# values of EMIT are NULL. The values follow.
M_EXPIRED, M_END, M_NULLS, M_EMIT_NULLS, M_WORDS = range(5)
ENDLESS = (1 << 63) - 1  # a lifetime without an end
BEFORE_ALL = -(1 << 63)  # before all times
# Columns of a partition after OPEN_FIELDS:
# O_UPTO: the row before which rows are taken.
# O_LIMIT: the time before which no further row can arrive.
# O_EXPIRED: O_LIMIT as of the call that emitted the row before O_START.
O_UPTO, O_LIMIT, O_EXPIRED, OPEN_WIDTH = range(OPEN_FIELDS, OPEN_FIELDS + 4)
# Bits of a row in RegisterRows.absent: it does not have a time; runs do not step to it from the row before (CONSECUTIVE BY).
NO_TIME, APART = 1, 2
NEGATIVE_ZERO = -(1 << 63)  # the bits of -0.0
CAST = -1000  # added to an error of the interpreter: the conversion to a register's type failed

# State between two calls:
# S_PART, S_ROW, S_SIDE, S_COUNT: partition, row, side of the current records, their number.
# S_NUMBER, S_EVENTS, S_LABELS, S_WAYS: number of the last match, events, labels and path steps written.
# S_STAMP: the newest stamp of the tables.
# S_DETAIL, S_ARC: detail of an error, and its arc.
# S_OPENED, S_INITIAL, S_BASE: whether the partition has begun, how many records it has before its first row, the arc lists that
#   made them.
# S_KNOWN_WAYS: how many paths have numbers.
# S_ONCE, S_REPORTED: whether the table of all matches is used, and how many matches it has.
(
    S_PART, S_ROW, S_SIDE, S_COUNT, S_NUMBER, S_EVENTS, S_LABELS, S_WAYS, S_STAMP, S_DETAIL, S_ARC, S_OPENED, S_INITIAL, S_BASE, S_KNOWN_WAYS, S_ONCE,
    S_REPORTED, STATE_SIZE,
) = range(18)  # fmt: skip
RECORDS, MATCHES, LABELS, WAYS, NUMBERED, REPORTED = range(6)  # in S_DETAIL: what is full


class ArcGraph(NamedTuple):
    """States and arcs.

    A row has a ``base``, because arcs that are inserted and deleted have lists for each time between their changes.

    Attributes:
        arcs: int64 (arcs, A_WIDTH).
        first_leaving, leaving: the arcs of state s but those ON EXPIRY, from ``first_leaving[base + s]`` on. They include all arcs
            ON EMPTY that were valid at an earlier row.
        first_silent, silent: the epsilon arcs of each state, in the same layout.
        start: int64 (1), the first state.
        final: whether each state is final.
        goes: uint8, whether any arc ever leaves the state, or a future arc may.
    """

    arcs: np.ndarray
    first_leaving: np.ndarray
    leaving: np.ndarray
    first_silent: np.ndarray
    silent: np.ndarray
    start: np.ndarray
    final: np.ndarray
    goes: np.ndarray


class RegisterCode(NamedTuple):
    """Bytecode and the places of its values, see :class:`sparkcep.compiler.registers.register_code.Compiled`.

    ``fences``, ``sets`` and ``emitted`` are indexed by the arcs of the graph. So are the values of parameters, ``given`` int64
    (arcs, words) and ``given_null`` uint8 (arcs, parameters). ``float_given`` is the memory of ``given`` as floats.
    """

    code: np.ndarray
    floats: np.ndarray
    fences: np.ndarray
    assigned: np.ndarray
    sets: np.ndarray
    emitted: np.ndarray
    registers: np.ndarray
    emits: np.ndarray
    parameters: np.ndarray
    given: np.ndarray
    float_given: np.ndarray
    given_null: np.ndarray
    way: np.ndarray


class RegisterRows(NamedTuple):
    """The buffer.

    Attributes:
        packed: int64, the letters as Spark packs them.
        offsets: int64 (partitions + 1).
        when, ends: int64, time and end of life of each row, on one scale.
        absent: uint8, :data:`NO_TIME` and :data:`APART`.
        base: int64, where the lists of the arcs that are valid at the row begin.
        ints, flts, inull, fnull: the columns.
        ones: int64, all 1, for the interpreter.
    """

    packed: np.ndarray
    offsets: np.ndarray
    when: np.ndarray
    ends: np.ndarray
    absent: np.ndarray
    base: np.ndarray
    ints: np.ndarray
    flts: np.ndarray
    inull: np.ndarray
    fnull: np.ndarray
    ones: np.ndarray


class RunRoom(NamedTuple):
    """Records, the two tables that find equal ones, matches, and working memory. Attributes that are not listed are the
    interpreter's.

    Attributes:
        ids, float_ids: the records, as integers and as floats (the same memory).
        stack, walk: epsilon arcs still to follow, and the records that take the row together.
        stamps, places: table of equal records.
        match_stamps, match_places: table of equal matches.
        ways: int64 (n, 2), the path before, and the label of the arc that took the row.
        numbered: int64 (n, 4), the same with the row, from 1 on, if paths have numbers. Each is there once. The last column is the
            first row of the first computation whose match had the path, plus one; 0 if there is none.
        way_places: table of the numbered paths.
        reported: int64 (n, words of a match), all matches of the call, from 1 on, if S_ONCE.
        reported_places: table of these matches.
        events, labels: as in :mod:`sparkcep.kernels.common.layout`.
        matches, float_matches: words of the matches, in the same memory.
        made, float_made: the current record.
        floating: uint8, which words of a match are floats.
    """

    ids: np.ndarray
    float_ids: np.ndarray
    stack: np.ndarray
    walk: np.ndarray
    stamps: np.ndarray
    places: np.ndarray
    match_stamps: np.ndarray
    match_places: np.ndarray
    ways: np.ndarray
    numbered: np.ndarray
    way_places: np.ndarray
    reported: np.ndarray
    reported_places: np.ndarray
    events: np.ndarray
    matches: np.ndarray
    float_matches: np.ndarray
    labels: np.ndarray
    made: np.ndarray
    float_made: np.ndarray
    floating: np.ndarray
    si: np.ndarray
    sf: np.ndarray
    sn: np.ndarray
    slots: np.ndarray
    hi: np.ndarray
    hf: np.ndarray
    row_labels: np.ndarray
    label_codes: np.ndarray
    pair_starts: np.ndarray
    pair_ints: np.ndarray
    pair_flts: np.ndarray
    pair_null: np.ndarray


class RunContext(NamedTuple):
    """The arguments that all steps of a search share.

    Attributes:
        graph, values, rows, room: see above.
        labelled: whether matches have labels.
        max_steps, max_matches: bounds of the search.
    """

    graph: ArcGraph
    values: RegisterCode
    rows: RegisterRows
    room: RunRoom
    labelled: bool
    max_steps: int
    max_matches: int


@embedded
def _evaluate(entry, q, values, rows, room):
    """Runs bytecode at row ``q``, and leaves the value at the bottom of the interpreter's stack. Returns 0 or an error."""
    one = np.int64(1)
    _, bad = scan(
        CLEAR, np.int64(0), np.int64(0), entry, one, q, q - 1, q, q + 1, q + 1, q, np.int64(0), rows.ones, values.code, values.floats, room.slots,
        room.hi, room.hf, room.row_labels, room.label_codes, rows.ints, rows.flts, rows.inull, rows.fnull,
        room.pair_starts, room.pair_ints, room.pair_flts, room.pair_null, room.si, room.sf, room.sn,
    )
    rows.ones[q] = 1
    return bad


@embedded
def _load_value(column, how, words, floats, at, null, q, rows):
    """Writes a value into row ``q``, where the bytecode reads it as a column. The value's words begin at ``at``."""
    if how == FLOAT:
        rows.flts[column, q] = floats[at]
        rows.fnull[column, q] = null
    else:
        rows.ints[column, q] = words[at]
        rows.inull[column, q] = null
        if how == WIDE:
            rows.ints[column + 1, q] = words[at + 1]
            rows.inull[column + 1, q] = null


@embedded
def _load(words, floats, q, values, rows):
    """Writes the registers of a record into row ``q``."""
    for r in range(values.registers.shape[0]):
        how, column, at = values.registers[r, V_HOW], values.registers[r, V_COLUMN], I_WORDS + values.registers[r, V_WORD]
        _load_value(column, how, words, floats, at, (words[I_NULLS] >> r) & 1, q, rows)


@embedded
def _load_given(arc, q, graph, values, rows):
    """Writes the parameters of an arc into row ``q``."""
    for p in range(graph.arcs[arc, A_GIVEN], graph.arcs[arc, A_GIVEN_END]):
        how, column, at = values.parameters[p, V_HOW], values.parameters[p, V_COLUMN], values.parameters[p, V_WORD]
        _load_value(column, how, values.given[arc], values.float_given[arc], at, values.given_null[arc, p], q, rows)


@embedded
def _store(words, floats, at, how, room):
    """Writes the interpreter's value into a record's words from ``at`` on. Returns 1 if it is NULL."""
    null = room.sn[0]
    if how == FLOAT:
        x = room.sf[0]
        floats[at] = 0.0 if null == 1 else (math.nan if math.isnan(x) else x)
    else:
        words[at] = 0 if null == 1 else room.si[0]
        if how == WIDE:
            words[at + 1] = 0 if null == 1 else room.si[room.si.shape[0] // 2]
    return null


@embedded
def _set(low, high, q, values, rows, room):
    """Performs assignments ``low`` to before ``high`` on the current record.

    Returns 0 or an error. CAST is added to the error if a conversion failed.
    """
    for s in range(low, high):
        register = values.assigned[s, 0]
        bad = _evaluate(values.assigned[s, 1], q, values, rows, room)
        if bad < 0:
            if bad == OVERFLOW and values.assigned[s, 2] != values.assigned[s, 1] and _evaluate(values.assigned[s, 2], q, values, rows, room) == 0:
                return bad + CAST
            return bad
        null = _store(room.made, room.float_made, I_WORDS + values.registers[register, V_WORD], values.registers[register, V_HOW], room)
        room.made[I_NULLS] = (room.made[I_NULLS] & ~(np.int64(1) << register)) | (np.int64(null) << register)
    return 0


@embedded
def _mixed(h, word):
    """The hash ``h`` with one more word mixed in. Whole DOUBLEs differ in their high bits only, so low bits get these, too."""
    h = (h ^ np.uint64(word)) * np.uint64(0xBF58476D1CE4E5B9)
    return h ^ (h >> np.uint64(31)) ^ (h >> np.uint64(48))


@embedded
def _known(side, count, stamp, room):
    """The number of the record that equals the current one, among ``count`` records; if there is none, ``count``, its future
    number."""
    width = room.made.shape[0]
    mask = np.int64(room.stamps.shape[0] - 1)
    h = _mixed(np.uint64(0x9E3779B97F4A7C15), room.made[I_STATE])
    for i in range(I_NULLS, width):
        h = _mixed(h, room.made[i])
    at = np.int64(h >> np.uint64(1)) & mask
    while room.stamps[at] == stamp:
        other = room.places[at]
        same = room.ids[side, other, I_STATE] == room.made[I_STATE]
        i = I_NULLS
        while same and i < width:
            same = room.ids[side, other, i] == room.made[i]
            i += 1
        if same:
            return other
        at = (at + 1) & mask
    room.stamps[at] = stamp
    room.places[at] = count
    return count


@embedded
def _place_of_way(before, label, q, room):
    """Cell of ``way_places`` with a path, or the free cell for it."""
    mask = np.int64(room.way_places.shape[0] - 1)
    h = _mixed(_mixed(_mixed(np.uint64(0x9E3779B97F4A7C15), before), label), q)
    at = np.int64(h >> np.uint64(1)) & mask
    while room.way_places[at] != 0:
        other = room.way_places[at]
        if room.numbered[other, 0] == before and room.numbered[other, 1] == label and room.numbered[other, 2] == q:
            break
        at = (at + 1) & mask
    return at


@kernel
def place_ways(count, room):
    """Enters the first ``count`` paths into the table ``way_places``, which is empty."""
    for way in range(1, count + 1):
        room.way_places[_place_of_way(room.numbered[way, 0], room.numbered[way, 1], room.numbered[way, 2], room)] = way


@embedded
def _way(before, label, q, room, state):
    """The number of the path that extends another by row ``q`` with this label; 0 if the array is full."""
    at = _place_of_way(before, label, q, room)
    if room.way_places[at] == 0:
        way = state[S_KNOWN_WAYS] + 1
        if way == room.numbered.shape[0]:
            return np.int64(0)
        room.numbered[way, 0] = before
        room.numbered[way, 1] = label
        room.numbered[way, 2] = q
        room.numbered[way, 3] = 0
        room.way_places[at] = way
        state[S_KNOWN_WAYS] = way
    return room.way_places[at]


@embedded
def _normal(word, floating):
    """A word as GROUP BY distinguishes values: -0.0 becomes 0.0."""
    return np.int64(0) if floating == 1 and word == NEGATIVE_ZERO else word


@kernel
def _emitted(event, stamp, room):
    """Whether an equal match with the same first and last row as ``event`` has been reported."""
    width = room.matches.shape[1]
    mask = np.int64(room.match_stamps.shape[0] - 1)
    h = np.uint64(0x9E3779B97F4A7C15)
    for i in range(width):
        h = _mixed(h, _normal(room.matches[event, i], room.floating[i]))
    at = np.int64(h >> np.uint64(1)) & mask
    while room.match_stamps[at] == stamp:
        other = room.match_places[at]
        same = True
        i = 0
        while same and i < width:
            same = _normal(room.matches[other, i], room.floating[i]) == _normal(room.matches[event, i], room.floating[i])
            i += 1
        if same:
            return True
        at = (at + 1) & mask
    room.match_stamps[at] = stamp
    room.match_places[at] = event
    return False


@embedded
def _place_of_match(words, reported, room):
    """Cell of ``reported_places`` with an equal match, or the free cell for it.

    ``reported``: how many matches the table has. A cell with a greater number is free, because its row is taken once more.
    """
    width = room.reported.shape[1]
    mask = np.int64(room.reported_places.shape[0] - 1)
    h = np.uint64(0x9E3779B97F4A7C15)
    for i in range(width):
        h = _mixed(h, _normal(words[i], room.floating[i]))
    at = np.int64(h >> np.uint64(1)) & mask
    while 0 < room.reported_places[at] <= reported:
        other = room.reported_places[at]
        i = 0
        while i < width and room.reported[other, i] == _normal(words[i], room.floating[i]):
            i += 1
        if i == width:
            break
        at = (at + 1) & mask
    return at


@kernel
def place_reported(count, room):
    """Enters the first ``count`` matches into the table ``reported_places``, which is empty."""
    for match in range(1, count + 1):
        room.reported_places[_place_of_match(room.reported[match], match - 1, room)] = match


@embedded
def _enter(event, way, group, room, state):
    """Enters the match ``event`` of the path ``way`` into the table of all matches. Returns whether it was there (1) or not (0), or
    -1 if the table is full."""
    reported = state[S_REPORTED]
    at = _place_of_match(room.matches[event], reported, room)
    if 0 < room.reported_places[at] <= reported:
        return np.int64(1)
    if reported + 1 == room.reported.shape[0]:
        return np.int64(-1)
    for i in range(room.reported.shape[1]):
        room.reported[reported + 1, i] = _normal(room.matches[event, i], room.floating[i])
    room.reported_places[at] = reported + 1
    state[S_REPORTED] = reported + 1
    if room.numbered[way, 3] == 0 or group + 1 < room.numbered[way, 3]:
        room.numbered[way, 3] = group + 1
    return np.int64(0)


@kernel
def _matched(event, arc, q, expired, graph, values, rows, room):
    """Writes the words of the match ``event`` from the current record, which ``arc`` has completed. Returns 0 or an error."""
    registers = room.made.shape[0] - I_WORDS
    room.matches[event, M_EXPIRED] = expired
    room.matches[event, M_END] = room.made[I_END]
    room.matches[event, M_NULLS] = room.made[I_NULLS]
    for i in range(registers):
        room.matches[event, M_WORDS + i] = room.made[I_WORDS + i]
    nulls = np.int64(0)
    emits = values.emits.shape[0]
    if emits > 0 and graph.arcs[arc, A_EMITS] == 1:
        _load(room.made, room.float_made, q, values, rows)
    for e in range(emits):
        how = values.emits[e, V_HOW]
        word = M_WORDS + values.emits[e, V_WORD]
        room.matches[event, word] = 0
        if how == WIDE:
            room.matches[event, word + 1] = 0
        null = np.int64(1)
        if graph.arcs[arc, A_EMITS] == 1:
            bad = _evaluate(values.emitted[arc, e, 0], q, values, rows, room)
            if bad < 0:
                return bad
            null = np.int64(_store(room.matches[event], room.float_matches[event], word, how, room))
        nulls |= null << e
    room.matches[event, M_EMIT_NULLS] = nulls
    return np.int64(0)


@inlined
def lacking(what, state):
    """Notes which array is full, and returns GROW."""
    state[S_DETAIL] = what
    return GROW


@embedded
def _emit(arc, q, group, stamp, again, graph, values, rows, room, labelled, max_matches, state):
    """Reports the match that the current record completes, unless it was reported before. Returns DONE, or an outcome that says why
    not. ``again``: all matches that end at the row were reported by an earlier call."""
    way = room.made[values.way[0]] if values.way[0] >= 0 else np.int64(-1)
    if way == 0:  # no arc with a label has taken a row
        return DONE
    event = state[S_EVENTS]
    if event == room.events.shape[0]:
        state[S_DETAIL] = MATCHES
        return FULL
    on = graph.arcs[arc, A_ON]
    bad = _matched(event, arc, q, np.int64(1) if on == ON_EXPIRY else np.int64(0), graph, values, rows, room)
    if bad < 0:
        state[S_DETAIL] = bad
        state[S_ARC] = arc
        return ERROR
    if state[S_ONCE] == 1:
        reported = _enter(event, way, group, room, state)
        if reported < 0:
            return lacking(REPORTED, state)
        if reported == 1 or again:
            return DONE
    elif _emitted(event, stamp, room):
        return DONE
    length = q - group + 1
    used = state[S_LABELS]
    if labelled and used + length > room.labels.shape[0]:
        state[S_DETAIL] = LABELS
        state[S_ARC] = length
        return FULL
    if state[S_NUMBER] == max_matches:
        return TOO_MANY
    state[S_NUMBER] += 1
    room.events[event, E_PART] = state[S_PART]
    room.events[event, E_START] = group
    room.events[event, E_ROWS] = length
    room.events[event, E_NUMBER] = state[S_NUMBER]
    room.events[event, E_LABELS] = used if labelled else 0
    if labelled:
        step = room.made[I_WAY]
        last = used + length
        if on == ON_ROW:
            last -= 1
            room.labels[last] = graph.arcs[arc, A_LABEL]
        while last > used:
            last -= 1
            room.labels[last] = room.ways[step, 1]
            step = room.ways[step, 0]
        state[S_LABELS] = used + length
    state[S_EVENTS] = event + 1
    return DONE


@kernel
def _open(q, stamp, graph, values, rows, room, state):
    """Makes the record of a run that has read no row, as the first one before the first row. Returns DONE or ERROR."""
    for i in range(room.made.shape[0]):
        room.made[i] = 0
    room.made[I_STATE] = graph.start[0]
    room.made[I_FIRST] = -1
    room.made[I_END] = ENDLESS
    room.made[I_WAY] = -1
    room.made[I_PARENT] = -1
    bad = _set(np.int64(0), values.sets[0], q, values, rows, room)
    if bad < 0:
        state[S_DETAIL] = bad
        state[S_ARC] = -1
        return ERROR
    _known(np.int64(2), np.int64(0), stamp, room)
    for i in range(room.made.shape[0]):
        room.ids[2, 0, i] = room.made[i]
    room.stack[0, 0] = 0
    room.stack[0, 1] = graph.first_silent[rows.base[q] + graph.start[0]]
    return DONE


@inlined
def _follow(arc, origin, k, on, group, q, graph, values, rows, room, state):
    """Makes the record that ``arc`` leads to from record ``k``, before its registers are set. Returns False if the numbered paths
    are full."""
    for i in range(room.made.shape[0]):
        room.made[i] = room.ids[origin, k, i]
    room.made[I_STATE] = graph.arcs[arc, A_TARGET]
    room.made[I_PARENT] = k
    room.made[I_VIA] = arc
    if on == ON_ROW:
        room.made[I_PARENT] = -1
        room.made[I_FIRST] = group
        room.made[I_END] = min(room.made[I_END], rows.ends[q])
    at = values.way[0]
    if at < 0 or graph.arcs[arc, A_LABEL] == 0:
        return True
    room.made[at] = _way(room.made[at], graph.arcs[arc, A_LABEL], q, room, state)
    return room.made[at] > 0


# Arguments of take_row:
#   opening: make the records before the first row instead.
#   emitted: whether the matches that end at the row have been emitted.
#   limit: arcs ON EXPIRY are taken up to this time.
#   expired: arcs ON EXPIRY up to this time have been emitted.
@kernel
def take_row(q, high, opening, emitted, limit, expired, context, state):
    """Takes row ``q`` of a partition that ends before ``high``. Returns DONE, or an outcome that says why not."""
    graph, values, rows, room = context.graph, context.values, context.rows, context.room
    side = state[S_SIDE]
    into = np.int64(2) if opening else 1 - side
    count = state[S_COUNT]
    initial = state[S_INITIAL]
    stamp = state[S_STAMP] + 1  # table entries with an earlier stamp count as absent, so each try of a row starts with empty tables
    state[S_STAMP] = stamp
    width = room.made.shape[0]
    base = rows.base[q]
    when = rows.when[q]
    after = min(limit, rows.when[q + 1]) if q + 1 < high and rows.absent[q + 1] & NO_TIME == 0 else limit
    made = np.int64(0)
    depth = np.int64(0)
    steps = np.int64(0)
    index = np.int64(0)  # of the next record that takes the row; the initial ones come after the others
    level = np.int64(0)  # of the walk through a record and those that arcs ON EMPTY have made from it
    origin = side
    group = np.int64(-1)
    loaded = np.int64(-1)
    if opening:
        outcome = _open(q, stamp, graph, values, rows, room, state)
        if outcome != DONE:
            return outcome
        made = np.int64(1)
        depth = np.int64(1)
    while True:
        # ---- The next arc, and the record that it leaves.
        if depth > 0:
            k = room.stack[depth - 1, 0]
            origin_of = into
            at_silent = room.stack[depth - 1, 1]
            if at_silent == graph.first_silent[base + room.ids[into, k, I_STATE] + 1]:
                depth -= 1
                continue
            room.stack[depth - 1, 1] = at_silent + 1
            arc = graph.silent[at_silent]
        elif opening:
            break
        elif level == 0:
            # ---- The next record that a row made. None of its arcs has been tried.
            if index == count + initial:
                break
            origin = side if index < count else np.int64(2)
            k = index if index < count else index - count
            index += 1
            if room.ids[origin, k, I_PARENT] >= 0 or room.ids[origin, k, I_END] <= when:
                continue  # the lifetimes of its rows do not overlap with this row
            first = q if origin == 2 else room.ids[origin, k, I_FIRST]
            if first != group:
                group = first
                stamp += 1
                state[S_STAMP] = stamp
            room.walk[0, 0] = k
            room.walk[0, 1] = graph.first_leaving[base + room.ids[origin, k, I_STATE]]
            level = np.int64(1)
            continue
        else:
            k = room.walk[level - 1, 0]
            at = room.walk[level - 1, 1]
            if at == graph.first_leaving[base + room.ids[origin, k, I_STATE] + 1]:
                level -= 1
                continue
            room.walk[level - 1, 1] = at + 1
            arc = graph.leaving[at]
            if graph.arcs[arc, A_ON] == ON_EMPTY:
                # The record that it made comes next, unless an equal one was there before.
                child = index if index < count else index - count
                there = index < count if origin == side else index < count + initial
                if there and room.ids[origin, child, I_PARENT] == k and room.ids[origin, child, I_VIA] == arc:
                    index += 1
                    room.walk[level, 0] = child
                    room.walk[level, 1] = graph.first_leaving[base + room.ids[origin, child, I_STATE]]
                    level += 1
                continue
            origin_of = origin
        steps += 1
        if steps > context.max_steps:
            return EFFORT
        # ---- Whether the arc is taken.
        bit = graph.arcs[arc, A_BIT]
        if bit >= 0 and (rows.packed[q] >> bit) & 1 == 0:
            continue
        on = graph.arcs[arc, A_ON]
        if on == ON_EXPIRY:
            end = room.ids[origin_of, k, I_END]
            if end == ENDLESS or after < end or end <= expired or end < graph.arcs[arc, A_FROM] or end >= graph.arcs[arc, A_UNTIL]:
                continue
        _load_given(arc, q, graph, values, rows)
        sets = values.sets[arc]
        sets_end = values.sets[arc + 1]
        if values.fences[arc] >= 0 or sets_end > sets:
            if loaded != 4 * k + origin_of:
                _load(room.ids[origin_of, k], room.float_ids[origin_of, k], q, values, rows)
                loaded = 4 * k + origin_of
        if values.fences[arc] >= 0:
            bad = _evaluate(values.fences[arc], q, values, rows, room)
            if bad < 0:
                state[S_DETAIL] = bad
                state[S_ARC] = arc
                return ERROR
            if room.sn[0] == 1 or room.si[0] == 0:
                continue
        # ---- The record that it makes.
        target = graph.arcs[arc, A_TARGET]
        if not _follow(arc, origin_of, k, on, group, q, graph, values, rows, room, state):
            return lacking(NUMBERED, state)
        bad = _set(sets, sets_end, q, values, rows, room)
        if bad < 0:
            state[S_DETAIL] = bad
            state[S_ARC] = arc
            return ERROR
        # ---- The match that it completes.
        if (on == ON_EXPIRY or not emitted or state[S_ONCE] == 1) and (graph.arcs[arc, A_EMITS] == 1 or graph.final[target] == 1):
            outcome = _emit(arc, q, group, stamp, emitted and on != ON_EXPIRY, graph, values, rows, room, context.labelled, context.max_matches, state)
            if outcome != DONE:
                return outcome
            if graph.arcs[arc, A_EMITS] == 1:
                loaded = np.int64(-1)
        if on == ON_EXPIRY or graph.goes[target] == 0:
            continue
        if made == room.ids.shape[1]:
            return lacking(RECORDS, state)
        n = _known(into, made, stamp, room)
        if n < made:
            continue
        if context.labelled and on == ON_ROW:  # labels are a linked list of path steps, which records with a common past share
            way = state[S_WAYS]
            if way == room.ways.shape[0]:
                return lacking(WAYS, state)
            room.ways[way, 0] = room.made[I_WAY]
            room.ways[way, 1] = graph.arcs[arc, A_LABEL]
            room.made[I_WAY] = way
            state[S_WAYS] = way + 1
        for i in range(width):
            room.ids[into, n, i] = room.made[i]
        made += 1
        if graph.first_silent[base + target] < graph.first_silent[base + target + 1]:
            room.stack[depth, 0] = n
            room.stack[depth, 1] = graph.first_silent[base + target]
            depth += 1
    if opening:
        state[S_INITIAL] = made
        state[S_OPENED] = 1
        return DONE
    state[S_SIDE] = into
    state[S_COUNT] = made
    return DONE


@inlined
def begins_otherwise(base, graph, state):
    """Whether the records before the first row differ for the arcs of ``base``. This is possible only if arcs ON EMPTY leave the
    start."""
    start = base + graph.start[0]
    return base != state[S_BASE] and (state[S_INITIAL] > 1 or graph.first_silent[start] < graph.first_silent[start + 1])


@kernel
def run(context, opens, state):
    """Takes rows from the position in ``state``. Returns DONE, FULL or GROW (S_DETAIL: what is full), or an error.

    ``opens`` int64 (partitions, OPEN_WIDTH) has in O_START the first row whose matches have not been emitted. A growing partition
    is left with its position there, and with the first row of its oldest run in O_COVERED.
    """
    graph, values, rows, room = context.graph, context.values, context.rows, context.room
    parts = rows.offsets.shape[0] - 1
    while state[S_PART] < parts:
        part = state[S_PART]
        low = rows.offsets[part]
        high = rows.offsets[part + 1]
        going = opens[part, O_GOING] == 1
        if state[S_OPENED] == 0:  # also for a partition without rows, which keeps its number
            state[S_ROW] = low
            state[S_COUNT] = 0
            state[S_WAYS] = 0
            state[S_NUMBER] = opens[part, O_NUMBER]
        if state[S_OPENED] == 0 and low < high:
            outcome = take_row(low, high, True, True, ENDLESS, BEFORE_ALL, context, state)
            if outcome != DONE:
                return outcome
            state[S_BASE] = rows.base[low]
        while state[S_ROW] < opens[part, O_UPTO]:
            q = state[S_ROW]
            # CONSECUTIVE BY: all runs end before this row.
            if rows.absent[q] & APART != 0:
                state[S_COUNT] = 0
            if rows.absent[q] & NO_TIME == 0:
                if begins_otherwise(rows.base[q], graph, state):
                    outcome = take_row(q, high, True, True, ENDLESS, BEFORE_ALL, context, state)
                    if outcome != DONE:
                        return outcome
                state[S_BASE] = rows.base[q]
                events = state[S_EVENTS]
                used = state[S_LABELS]
                ways = state[S_WAYS]
                number = state[S_NUMBER]
                reported = state[S_REPORTED]
                emitted = q < opens[part, O_START]
                expired = BEFORE_ALL if not emitted else opens[part, O_EXPIRED] if q == opens[part, O_START] - 1 else ENDLESS
                outcome = take_row(q, high, False, emitted, opens[part, O_LIMIT], expired, context, state)
                if outcome != DONE:  # the row is taken once more
                    state[S_EVENTS] = events
                    state[S_LABELS] = used
                    state[S_WAYS] = ways
                    state[S_NUMBER] = number
                    state[S_REPORTED] = reported
                    return outcome
            state[S_ROW] = q + 1
        if going:
            first = max(state[S_ROW], low)
            for k in range(state[S_COUNT]):
                first = min(first, room.ids[state[S_SIDE], k, I_FIRST])
                if state[S_ONCE] == 1:
                    reported = room.numbered[room.ids[state[S_SIDE], k, values.way[0]], 3]
                    if reported > 0:
                        first = min(first, reported - 1)
            opens[part, O_COVERED] = first
            opens[part, O_START] = max(state[S_ROW], opens[part, O_START])
            opens[part, O_NUMBER] = state[S_NUMBER]
        state[S_PART] = part + 1
        state[S_OPENED] = 0
        state[S_COUNT] = 0
        state[S_ROW] = high
    return DONE
