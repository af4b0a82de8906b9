"""An automaton's computations side by side: row by row, every arc whose fence is true is taken.

A computation is a record of int64 words (:data:`I_STATE` and on): its state, first row, the least end of its rows' lifetimes, its
way, the record and the arc ON EMPTY that made it behind the same row (or -1), which registers are NULL, and the registers' values,
floating ones by their bits. Records of one first row that are in one state with equal registers have one future, so one stands for
all: the one whose arcs come first. ``ids`` int64 (3, room, width) holds those before the row at hand, those behind it, and those
before the first row; which of the first two is which, :data:`S_SIDE` says.

Records stand in the order of their first rows, those of one first row in the order of their arcs, which is the order of matches,
too. A record's silent arcs (ON EMPTY and ON EXPIRY) are followed depth first as soon as it is there, so what they make stands right
behind it. The next row is given to both together: an arc's turn among all that leave a state is the same whether it takes a row or
not.

Where there is no room for what a row gives, the kernel goes back to the row's begin and asks for room; nothing of the row is kept.

A partition that goes on is left with the first row of its oldest computation. From there all computations at hand come about again,
so nothing but rows and the number of the last match need be kept; matches that were told are not told again. Behind its last row
arcs ON EXPIRY are taken as far as it is known that no row comes before the end of the lifetimes; the others are taken when that is
known, so how far they were taken is kept, too.
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

# words of a record
I_STATE, I_FIRST, I_END, I_WAY, I_PARENT, I_VIA, I_NULLS, I_WORDS = range(8)
# columns of an arc: target, bit of its letter (-1: none), what it takes, its label, whether it has EMIT, the times from which and
# before which one ON EXPIRY is
# valid, its first parameter and that behind its last
A_TARGET, A_BIT, A_ON, A_LABEL, A_EMITS, A_FROM, A_UNTIL, A_GIVEN, A_GIVEN_END, A_WIDTH = range(10)
ON_ROW, ON_EMPTY, ON_EXPIRY = range(3)
# columns of a value: how it is held (columns.registers), its column of the machine, its first word
V_HOW, V_COLUMN, V_WORD = range(3)
WORD, FLOAT, WIDE = range(3)
# words of a match beside its event: whether its rows' lifetimes had ended, the least of their ends, then which values are NULL and
# the values
M_EXPIRED, M_END, M_NULLS, M_EMIT_NULLS, M_WORDS = range(5)
ENDLESS = (1 << 63) - 1  # of a lifetime
BEFORE_ALL = -(1 << 63)  # before all times
# of a partition beside OPEN_FIELDS: the row before which rows are taken, the time before which no row comes that is not there, and
# the same as it was when the row before O_START was told
O_UPTO, O_LIMIT, O_EXPIRED, OPEN_WIDTH = range(OPEN_FIELDS, OPEN_FIELDS + 4)
# of a row, in Rows.absent: it has no time; no computation steps to it from the row before (CONSECUTIVE BY)
NO_TIME, APART = 1, 2
NEGATIVE_ZERO = -(1 << 63)  # the bits of -0.0
CAST = -1000  # beside a machine's error: the conversion to a register's type failed

# state between calls: partition, row, side of the records at hand, how many there are, number of the last match, events, labels,
# ways, stamps given, what an
# error is about, the arc in which it is, whether the partition has begun, how many records there are before its first row, the
# lists of which they are, and how
# many ways have numbers
S_PART, S_ROW, S_SIDE, S_COUNT, S_NUMBER, S_EVENTS, S_LABELS, S_WAYS, S_STAMP, S_DETAIL, S_ARC, S_OPENED, S_INITIAL, S_BASE, S_KNOWN_WAYS, STATE_SIZE = range(16)
RECORDS, MATCHES, LABELS, WAYS, NUMBERED = range(5)  # of what there is no room, in S_DETAIL


class ArcGraph(NamedTuple):
    """States and arcs. ``leaving``: the arcs of each state but those ON EXPIRY, ``silent``: those that take no row, from
    ``first_leaving[base + s]`` and ``first_silent[base + s]`` on, where ``base`` is that of the row: arcs that come and go have
    lists for each time between their changes. A list of ``leaving`` has all arcs ON EMPTY that were valid at a row before. ``goes``
    uint8: whether any arc ever leaves the state, or may come that does; ``start`` int64 (1): the first state."""

    arcs: np.ndarray
    first_leaving: np.ndarray
    leaving: np.ndarray
    first_silent: np.ndarray
    silent: np.ndarray
    start: np.ndarray
    final: np.ndarray
    goes: np.ndarray


class RegisterCode(NamedTuple):
    """Bytecode and where its values go, see :class:`sparkcep.compiler.registers.register_code.Compiled`; ``fences``, ``sets`` and
    ``emitted`` are by the arcs of the graph, and so are ``given`` int64 (arcs, words), the values of parameters, floating ones by
    their bits, and ``given_null`` uint8 (arcs, parameters)."""

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
    """The buffer. ``packed`` int64: letters as Spark packs them; ``when``, ``ends`` int64: time and end of life of each row, in one
    order; ``absent`` uint8: :data:`NO_TIME` and :data:`APART`; ``base`` int64: where the lists of the arcs begin that are valid
    then; ``ones`` int64: all 1, for the machine."""

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
    """Records, the two tables by which equal ones are found, what was found, and working memory. ``float_ids``, ``float_matches``:
    the same memory as ``ids`` and ``matches``, as floating words. ``ways`` int64 (n, 2): the way before, and the label of the arc
    that took the row. Where ways have numbers, they stand in ``numbered`` int64 (n, 3), with the row, from 1 on, and ``way_places``
    finds them; each is there once. ``made``: the record at hand; ``floating`` uint8: which words of a match are floating numbers.
    The others are the machine's."""

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


@embedded
def _evaluate(entry, q, values, rows, room):
    """Runs bytecode at row ``q``; the value is left at the bottom of the machine's stack. Returns 0 or an error."""
    one = np.int64(1)
    _, bad = scan(
        CLEAR, np.int64(0), np.int64(0), entry, one, q, q - 1, q, q + 1, q + 1, q, np.int64(0), rows.ones, values.code, values.floats, room.slots,
        room.hi, room.hf, room.row_labels, room.label_codes, rows.ints, rows.flts, rows.inull, rows.fnull,
        room.pair_starts, room.pair_ints, room.pair_flts, room.pair_null, room.si, room.sf, room.sn,
    )
    rows.ones[q] = 1
    return bad


@embedded
def _load(words, floats, q, values, rows):
    """Writes the registers of a record into row ``q``."""
    nulls = words[I_NULLS]
    for r in range(values.registers.shape[0]):
        column = values.registers[r, V_COLUMN]
        at = I_WORDS + values.registers[r, V_WORD]
        null = (nulls >> r) & 1
        if values.registers[r, V_HOW] == FLOAT:
            rows.flts[column, q] = floats[at]
            rows.fnull[column, q] = null
        else:
            rows.ints[column, q] = words[at]
            rows.inull[column, q] = null
            if values.registers[r, V_HOW] == WIDE:
                rows.ints[column + 1, q] = words[at + 1]
                rows.inull[column + 1, q] = null


@embedded
def _load_given(arc, q, graph, values, rows):
    """Writes the parameters of an arc into row ``q``."""
    for p in range(graph.arcs[arc, A_GIVEN], graph.arcs[arc, A_GIVEN_END]):
        column = values.parameters[p, V_COLUMN]
        at = values.parameters[p, V_WORD]
        null = values.given_null[arc, p]
        if values.parameters[p, V_HOW] == FLOAT:
            rows.flts[column, q] = values.float_given[arc, at]
            rows.fnull[column, q] = null
        else:
            rows.ints[column, q] = values.given[arc, at]
            rows.inull[column, q] = null
            if values.parameters[p, V_HOW] == WIDE:
                rows.ints[column + 1, q] = values.given[arc, at + 1]
                rows.inull[column + 1, q] = null


@embedded
def _store(words, floats, at, how, room):
    """Writes the machine's value into a record's words from ``at`` on; returns 1 where it is NULL."""
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
    """Gives the record at hand the values of assignments ``low`` to before ``high``. Returns 0 or an error, less CAST where a
    conversion failed."""
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
    h = (h ^ np.uint64(word)) * np.uint64(0xBF58476D1CE4E5B9)
    return h ^ (h >> np.uint64(31))


@embedded
def _known(side, count, stamp, room):
    """The number among ``count`` records of the one that is equal to that at hand; ``count``, where the one at hand will stand, if
    there is none."""
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
    """Where a way stands in the table by which ways are found, or where it is to stand."""
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
    """Puts the first ``count`` ways into the table by which they are found, which is empty."""
    for way in range(1, count + 1):
        room.way_places[_place_of_way(room.numbered[way, 0], room.numbered[way, 1], room.numbered[way, 2], room)] = way


@embedded
def _way(before, label, q, room, state):
    """The number of the way that goes on from another by row ``q`` with this label: 0 where there is no room for one more."""
    at = _place_of_way(before, label, q, room)
    if room.way_places[at] == 0:
        way = state[S_KNOWN_WAYS] + 1
        if way == room.numbered.shape[0]:
            return np.int64(0)
        room.numbered[way, 0] = before
        room.numbered[way, 1] = label
        room.numbered[way, 2] = q
        room.way_places[at] = way
        state[S_KNOWN_WAYS] = way
    return room.way_places[at]


@embedded
def _normal(word, floating):
    """A word by which GROUP BY tells values apart: one zero."""
    return np.int64(0) if floating == 1 and word == NEGATIVE_ZERO else word


@kernel
def _emitted(event, stamp, room):
    """Whether the match at ``event`` has been told before, of the same first and last row."""
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


@kernel
def _matched(event, arc, q, expired, graph, values, rows, room):
    """Writes what the record at hand ends with as the match ``event``; ``arc`` has brought it there. Returns 0 or an error."""
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


@kernel
def _emit(arc, q, group, stamp, graph, values, rows, room, labelled, max_matches, state):
    """Writes the match that the record at hand ends, unless it was told. Returns DONE, or what is the matter."""
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
    if _emitted(event, stamp, room):
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
        way = room.made[I_WAY]
        last = used + length
        if on == ON_ROW:
            last -= 1
            room.labels[last] = graph.arcs[arc, A_LABEL]
        while last > used:
            last -= 1
            room.labels[last] = room.ways[way, 1]
            way = room.ways[way, 0]
        state[S_LABELS] = used + length
    state[S_EVENTS] = event + 1
    return DONE


@kernel
def _open(q, stamp, graph, values, rows, room, state):
    """Makes the record of a computation that has read no row, as the first one before the first row. Returns DONE or ERROR."""
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
def _lacking(what, state):
    """There is no room for what a row gives."""
    state[S_DETAIL] = what
    return GROW


@inlined
def _follow(arc, origin, k, on, group, q, graph, values, rows, room, state):
    """Makes of record ``k`` the one that ``arc`` leads to, before its registers are set. Returns whether there was room for the
    number of its way."""
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


@kernel
def _row(q, high, opening, emitted, limit, expired, graph, values, rows, room, labelled, max_steps, max_matches, state):
    """Takes row ``q`` of a partition that ends before ``high``; ``opening``: makes the records before the first row instead;
    ``emitted``: whether the matches that end there have been. Arcs ON EXPIRY are taken up to the time ``limit``; those up to
    ``expired`` have been. Returns DONE, or what is the matter."""
    side = state[S_SIDE]
    into = np.int64(2) if opening else 1 - side
    count = state[S_COUNT]
    initial = state[S_INITIAL]
    stamp = state[S_STAMP] + 1  # what stood in the tables under an earlier one is forgotten, a row that is taken again begins anew
    state[S_STAMP] = stamp
    width = room.made.shape[0]
    base = rows.base[q]
    when = rows.when[q]
    after = min(limit, rows.when[q + 1]) if q + 1 < high and rows.absent[q + 1] & NO_TIME == 0 else limit
    made = np.int64(0)
    depth = np.int64(0)
    steps = np.int64(0)
    index = np.int64(0)  # of the next record that takes the row: the initial ones stand behind the others
    level = np.int64(0)  # of the walk through a record and those that arcs ON EMPTY have made of it
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
        # ---- the next arc, and the record that it leaves
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
            # ---- the next record that has come by a row, and no arc of it yet
            if index == count + initial:
                break
            origin = side if index < count else np.int64(2)
            k = index if index < count else index - count
            index += 1
            if room.ids[origin, k, I_PARENT] >= 0 or room.ids[origin, k, I_END] <= when:
                continue  # the rows have no moment in common with this one
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
                # what it has made stands next, unless it was there before
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
        if steps > max_steps:
            return EFFORT
        # ---- whether it is taken
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
        # ---- the record that it makes
        target = graph.arcs[arc, A_TARGET]
        if not _follow(arc, origin_of, k, on, group, q, graph, values, rows, room, state):
            return _lacking(NUMBERED, state)
        bad = _set(sets, sets_end, q, values, rows, room)
        if bad < 0:
            state[S_DETAIL] = bad
            state[S_ARC] = arc
            return ERROR
        # ---- what it ends
        if (on == ON_EXPIRY or not emitted) and (graph.arcs[arc, A_EMITS] == 1 or graph.final[target] == 1):
            outcome = _emit(arc, q, group, stamp, graph, values, rows, room, labelled, max_matches, state)
            if outcome != DONE:
                return outcome
            if graph.arcs[arc, A_EMITS] == 1:
                loaded = np.int64(-1)
        if on == ON_EXPIRY or graph.goes[target] == 0:
            continue
        if made == room.ids.shape[1]:
            return _lacking(RECORDS, state)
        n = _known(into, made, stamp, room)
        if n < made:
            continue
        if labelled and on == ON_ROW:
            way = state[S_WAYS]
            if way == room.ways.shape[0]:
                return _lacking(WAYS, state)
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
def _begins_otherwise(base, graph, state):
    """Whether other records than those at hand may stand before the first row where the arcs of ``base`` are valid: only where arcs
    ON EMPTY leave the start."""
    start = base + graph.start[0]
    return base != state[S_BASE] and (state[S_INITIAL] > 1 or graph.first_silent[start] < graph.first_silent[start + 1])


@kernel
def run(graph, values, rows, room, opens, labelled, max_steps, max_matches, state):
    """Takes rows from where ``state`` stands. ``opens`` int64 (partitions, OPEN_WIDTH): in O_START the row from which matches are
    told, and where a partition that is going stands then, in O_COVERED the first row of its oldest computation.

    Returns DONE, FULL or GROW with what there is no room for, or an error."""
    parts = rows.offsets.shape[0] - 1
    while state[S_PART] < parts:
        part = state[S_PART]
        low = rows.offsets[part]
        high = rows.offsets[part + 1]
        going = opens[part, O_GOING] == 1
        if state[S_OPENED] == 0:  # also of a partition without rows, which keeps its own number
            state[S_ROW] = low
            state[S_COUNT] = 0
            state[S_WAYS] = 0
            state[S_NUMBER] = opens[part, O_NUMBER]
        if state[S_OPENED] == 0 and low < high:
            outcome = _row(low, high, True, True, ENDLESS, BEFORE_ALL, graph, values, rows, room, labelled, max_steps, max_matches, state)
            if outcome != DONE:
                return outcome
            state[S_BASE] = rows.base[low]
        while state[S_ROW] < opens[part, O_UPTO]:
            q = state[S_ROW]
            if rows.absent[q] & APART != 0:
                state[S_COUNT] = 0
            if rows.absent[q] & NO_TIME == 0:
                if _begins_otherwise(rows.base[q], graph, state):
                    outcome = _row(q, high, True, True, ENDLESS, BEFORE_ALL, graph, values, rows, room, labelled, max_steps, max_matches, state)
                    if outcome != DONE:
                        return outcome
                state[S_BASE] = rows.base[q]
                events = state[S_EVENTS]
                used = state[S_LABELS]
                ways = state[S_WAYS]
                number = state[S_NUMBER]
                emitted = q < opens[part, O_START]
                expired = BEFORE_ALL if not emitted else opens[part, O_EXPIRED] if q == opens[part, O_START] - 1 else ENDLESS
                outcome = _row(q, high, False, emitted, opens[part, O_LIMIT], expired, graph, values, rows, room, labelled, max_steps, max_matches, state)
                if outcome != DONE:  # the row is taken again
                    state[S_EVENTS] = events
                    state[S_LABELS] = used
                    state[S_WAYS] = ways
                    state[S_NUMBER] = number
                    return outcome
            state[S_ROW] = q + 1
        if going:
            first = max(state[S_ROW], low)
            for k in range(state[S_COUNT]):
                first = min(first, room.ids[state[S_SIDE], k, I_FIRST])
            opens[part, O_COVERED] = first
            opens[part, O_START] = max(state[S_ROW], opens[part, O_START])
            opens[part, O_NUMBER] = state[S_NUMBER]
        state[S_PART] = part + 1
        state[S_OPENED] = 0
        state[S_COUNT] = 0
        state[S_ROW] = high
    return DONE
