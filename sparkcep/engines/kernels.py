"""The matching kernel: a depth-first search in preference order with memoised failures.

The search tries, from each start row, the alternatives in preferment order and takes the first that completes
(ISO/IEC 19075-5, 4.14: preferment). A state - instruction, register word, position and, where conditions look at the
match, the slots still needed - that has failed once fails always, from whatever start row it is reached; it is remembered
and never explored again. So the whole search over a partition costs O(states x rows) where conditions are row-local
(compare BitState in RE2, and Trino's merging of equivalent threads). States on the path of a reported match have
not failed; they are forgotten when the match is reported.
"""

from __future__ import annotations

import numpy as np

import sparkcep.engines.cache  # noqa: F401  before the first njit
from numba import njit

from sparkcep.automaton.program import (
    CHAR,
    END,
    INIT,
    JUMP,
    L_CAP,
    L_FLAG,
    L_GREEDY,
    L_MASK,
    L_MAX,
    L_MIN,
    L_SHIFT,
    LOOP,
    MATCH,
    NEXT,
    P_COUNT,
    P_SHIFT,
    P_TARGETS,
    P_WIDTH,
    PERM,
    PINIT,
    SPLIT,
    START,
)
from sparkcep.engines.interpreter import evaluate, update_slots

# outcome of match_partitions
DONE, FULL, SUSPENDED, SKIP_TO_FIRST, SKIP_TO_ABSENT, ERROR = range(6)
# state vector
S_PART, S_START, S_NUMBER, S_EVENTS, S_LABELS, S_COVERED, S_DETAIL, S_STEPS = range(8)
# memo kinds
NO_MEMO, BITMAP, HASHED = range(3)
# AFTER MATCH SKIP
SKIP_PAST_LAST, SKIP_NEXT_ROW, SKIP_FIRST, SKIP_LAST = range(4)
# columns of an event: partition, first row, number of rows (-1: unmatched row), match number, offset of its labels
E_PART, E_START, E_ROWS, E_NUMBER, E_LABELS = range(5)

EXCLUDED = 64  # bit of a label: the row stands in an exclusion


@njit(cache=True)
def _hash_key(key, width):
    h = np.uint64(1469598103934665603)
    for i in range(width):
        h = (h ^ np.uint64(key[i])) * np.uint64(1099511628211)
        h = h ^ (h >> np.uint64(29))
    return h


@njit(cache=True)
def _rehash(entries, count, width, capacity):
    table = np.zeros(capacity, dtype=np.int64)
    mask = np.uint64(capacity - 1)
    for e in range(count):
        slot = _hash_key(entries[e], width) & mask
        while table[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = e + 1
    return table


@njit(cache=True)
def match_partitions(
    code,
    loops,
    perms,
    targets,
    nullable,
    first_mask,
    memo_kind,
    states,
    letters,
    offsets,
    head_cut,
    tail_open,
    ahead,
    want_unmatched,
    skip,
    skip_mask,
    bytecode,
    entry,
    floats,
    slots,
    state_live,
    label_codes,
    ints,
    flts,
    inull,
    fnull,
    stack_depth,
    state,
    events,
    out_labels,
):
    """Matches of every partition, as events; returns an outcome, ``state`` tells where to go on.

    ``code``, ``loops``, ``perms``, ``targets``: the program. ``letters`` int64 (rows): bit v is set where the row-local
    part of variable v's condition holds. ``offsets`` int64 (partitions + 1). ``head_cut``: the first partition began
    before this buffer; ``tail_open``: the last one goes on behind it, ``ahead`` rows of lookahead are then not decided.
    ``bytecode`` ... ``fnull``: see :mod:`sparkcep.engines.interpreter`; ``entry`` int64 (variables) or -1;
    ``state_live`` uint8 (states, slots): slots that decide a memoised state's future. ``events`` int64 (capacity, 5)
    and ``out_labels`` uint8 (capacity) are filled; FULL asks for larger ones.
    """
    rows = letters.shape[0]
    parts = offsets.shape[0] - 1
    slot_count = slots.shape[0]
    has_slots = slot_count > 0
    labels = np.zeros(rows + 1, dtype=np.uint8)
    hi = np.empty((rows if has_slots else 1, max(slot_count, 1)), dtype=np.int64)
    hf = np.empty((rows if has_slots else 1, max(slot_count, 1)), dtype=np.float64)
    hbits = hf.view(np.int64)
    si = np.zeros(stack_depth, dtype=np.int64)
    sf = np.zeros(stack_depth, dtype=np.float64)
    sn = np.zeros(stack_depth, dtype=np.uint8)

    stack = np.empty((1024, 5), dtype=np.int64)  # pc, position, registers, trail length, next permutation element
    trail = np.empty(1024, dtype=np.int64)

    words = (states + 63) // 64
    bits = np.zeros(((rows + parts + 1) * words) if memo_kind == BITMAP else 1, dtype=np.uint64)
    width = 3 + 2 * slot_count
    entries = np.empty((1024 if memo_kind == HASHED else 1, width), dtype=np.int64)
    alive = np.empty(1024 if memo_kind == HASHED else 1, dtype=np.uint8)
    entry_count = 0
    table = np.zeros(4096 if memo_kind == HASHED else 1, dtype=np.int64)
    key = np.empty(width, dtype=np.int64)

    part = state[S_PART]
    s = state[S_START]
    number = state[S_NUMBER]
    event_count = state[S_EVENTS]
    label_count = state[S_LABELS]
    covered = state[S_COVERED]

    while part < parts:
        low = offsets[part]
        high = offsets[part + 1]
        open_end = tail_open and part == parts - 1
        limit = high - ahead if open_end else high
        if s < low:
            s = low
        steps = 0
        begin_s = s
        remembering = memo_kind == BITMAP
        while s < high:
            if s >= limit:
                state[S_PART] = part
                state[S_START] = s
                state[S_NUMBER] = number
                state[S_EVENTS] = event_count
                state[S_LABELS] = label_count
                state[S_COVERED] = covered
                return SUSPENDED
            matched = False
            end = s
            if nullable or letters[s] & first_mask != 0:
                # ---- one attempt from row s
                pc = 0
                pos = s
                regs = np.int64(0)
                depth = 0
                trail_count = 0
                aux = 0
                if memo_kind == HASHED and not remembering and steps > 4 * (s - begin_s) + 256:
                    remembering = True
                while True:
                    op = code[pc, 0]
                    failed = False
                    if op == CHAR:
                        if pos >= limit:
                            if open_end:
                                state[S_PART] = part
                                state[S_START] = s
                                state[S_NUMBER] = number
                                state[S_EVENTS] = event_count
                                state[S_LABELS] = label_count
                                state[S_COVERED] = covered
                                return SUSPENDED
                            failed = True
                        else:
                            v = code[pc, 1]
                            if (letters[pos] >> v) & 1 == 0:
                                failed = True
                            else:
                                labels[pos] = v | (EXCLUDED if code[pc, 2] == 1 else 0)
                                if has_slots:
                                    bad = update_slots(slots, v, pos, pos == s, hi, hf, ints, flts, inull, fnull)
                                    if bad < 0:
                                        state[S_DETAIL] = bad
                                        state[S_START] = pos
                                        return ERROR
                                if entry[v] >= 0:
                                    got = evaluate(
                                        bytecode, entry[v], floats, pos, low, high, s, number + 1, hi, hf, labels,
                                        label_codes, ints, flts, inull, fnull, si, sf, sn,
                                    )
                                    if got < 0:
                                        state[S_DETAIL] = got
                                        state[S_START] = pos
                                        return ERROR
                                    failed = got == 0
                                if not failed:
                                    pos += 1
                                    steps += 1
                                    regs |= code[pc, 3]
                                    pc += 1
                    elif op == SPLIT or op == LOOP or (op == PERM and aux == 0):
                        # ---- a state with alternatives: been here before?
                        here = code[pc, 3]
                        if memo_kind == BITMAP:
                            at = (pos + part) * words + (here >> 6)
                            bit = np.uint64(1) << np.uint64(here & 63)
                            if bits[at] & bit != 0:
                                failed = True
                            else:
                                bits[at] |= bit
                                if trail_count == trail.shape[0]:
                                    grown = np.empty(2 * trail_count, dtype=np.int64)
                                    grown[:trail_count] = trail
                                    trail = grown
                                trail[trail_count] = at * 64 + (here & 63)
                                trail_count += 1
                        elif remembering:
                            key[0] = here
                            key[1] = regs
                            key[2] = pos
                            for k in range(slot_count):
                                if state_live[here, k] == 1 and pos > s:
                                    key[3 + 2 * k] = hi[pos - 1, k]
                                    key[4 + 2 * k] = hbits[pos - 1, k]
                                else:
                                    key[3 + 2 * k] = -2 if state_live[here, k] == 1 else 0
                                    key[4 + 2 * k] = 0
                            mask = np.uint64(table.shape[0] - 1)
                            h = _hash_key(key, width) & mask
                            found = -1
                            while table[h] != 0:
                                e = table[h] - 1
                                same = True
                                for k in range(width):
                                    if entries[e, k] != key[k]:
                                        same = False
                                        break
                                if same:
                                    found = e
                                    break
                                h = (h + np.uint64(1)) & mask
                            if found >= 0 and alive[found] == 1:
                                failed = True
                            else:
                                if found < 0:
                                    found = entry_count
                                    if entry_count == entries.shape[0]:
                                        more = np.empty((2 * entry_count, width), dtype=np.int64)
                                        more[:entry_count] = entries
                                        entries = more
                                        lives = np.empty(2 * entry_count, dtype=np.uint8)
                                        lives[:entry_count] = alive
                                        alive = lives
                                    entries[entry_count] = key
                                    table[h] = entry_count + 1
                                    entry_count += 1
                                    if 2 * entry_count > table.shape[0]:
                                        table = _rehash(entries, entry_count, width, 4 * table.shape[0])
                                alive[found] = 1
                                if trail_count == trail.shape[0]:
                                    grown = np.empty(2 * trail_count, dtype=np.int64)
                                    grown[:trail_count] = trail
                                    trail = grown
                                trail[trail_count] = found
                                trail_count += 1
                        if not failed:
                            if depth == stack.shape[0]:
                                taller = np.empty((2 * depth, 5), dtype=np.int64)
                                taller[:depth] = stack
                                stack = taller
                            if op == SPLIT:
                                stack[depth, 0] = code[pc, 2]
                                stack[depth, 1] = pos
                                stack[depth, 2] = regs
                                stack[depth, 3] = trail_count
                                stack[depth, 4] = 0
                                depth += 1
                                pc = code[pc, 1]
                            elif op == LOOP:
                                loop = code[pc, 1]
                                done = (regs & loops[loop, L_MASK]) >> loops[loop, L_SHIFT]
                                flag = loops[loop, L_FLAG]
                                inside = regs & ~flag
                                outside = regs & ~loops[loop, L_MASK] & ~flag
                                if done < loops[loop, L_MIN]:
                                    pc += 1
                                    regs = inside
                                elif loops[loop, L_MAX] >= 0 and done >= loops[loop, L_MAX]:
                                    pc = code[pc, 2]
                                    regs = outside
                                else:
                                    stack[depth, 1] = pos
                                    stack[depth, 3] = trail_count
                                    stack[depth, 4] = 0
                                    if loops[loop, L_GREEDY] == 1:
                                        stack[depth, 0] = code[pc, 2]
                                        stack[depth, 2] = outside
                                        pc += 1
                                        regs = inside
                                    else:
                                        stack[depth, 0] = pc + 1
                                        stack[depth, 2] = inside
                                        pc = code[pc, 2]
                                        regs = outside
                                    depth += 1
                            else:
                                aux = -1  # PERM: choose the first element below
                    elif op == JUMP:
                        pc = code[pc, 1]
                    elif op == MATCH:
                        matched = True
                        end = pos
                        break
                    elif op == NEXT:
                        loop = code[pc, 1]
                        flag = loops[loop, L_FLAG]
                        shift = loops[loop, L_SHIFT]
                        done = (regs & loops[loop, L_MASK]) >> shift
                        optional = done >= loops[loop, L_MIN]
                        if done < loops[loop, L_CAP]:
                            done += 1
                        regs = (regs & ~loops[loop, L_MASK]) | (done << shift)
                        if flag != 0 and regs & flag == 0 and optional:
                            # an empty iteration ends the loop
                            regs = regs & ~loops[loop, L_MASK]
                            pc = code[code[pc, 2], 2]
                        else:
                            pc = code[pc, 2]
                    elif op == INIT:
                        regs = regs & ~loops[code[pc, 1], L_MASK] & ~loops[code[pc, 1], L_FLAG]
                        pc += 1
                    elif op == PINIT:
                        perm = code[pc, 1]
                        used = perms[perm, P_COUNT] * (1 + perms[perm, P_WIDTH])
                        regs = regs & ~(((np.int64(1) << used) - 1) << perms[perm, P_SHIFT])
                        pc += 1
                    elif op == START:
                        if pos == low and not (head_cut and part == 0):
                            pc += 1
                        else:
                            failed = True
                    elif op == END:
                        if open_end and pos >= limit:
                            state[S_PART] = part
                            state[S_START] = s
                            state[S_NUMBER] = number
                            state[S_EVENTS] = event_count
                            state[S_LABELS] = label_count
                            state[S_COVERED] = covered
                            return SUSPENDED
                        if pos == high:
                            pc += 1
                        else:
                            failed = True
                    if op == PERM and not failed:
                        perm = code[pc, 1]
                        count = perms[perm, P_COUNT]
                        shift = perms[perm, P_SHIFT]
                        chosen = -1
                        follow = -1
                        for i in range(max(aux, 0), count):
                            if (regs >> (shift + i)) & 1 == 0:
                                if chosen < 0:
                                    chosen = i
                                else:
                                    follow = i
                                    break
                        digits = perms[perm, P_WIDTH]
                        if chosen < 0:
                            # digits of the chosen order, lowest first, 0 behind the last; none where the order is not fixed first
                            order = (regs >> (shift + count)) & ((np.int64(1) << (count * digits)) - 1)
                            regs = regs & ~(((np.int64(1) << (count * (1 + digits))) - 1) << shift)
                            if order == 0:
                                pc = code[pc, 2]
                            else:
                                element = (order & ((np.int64(1) << digits) - 1)) - 1
                                regs = regs | (((np.int64(1) << count) - 1) << shift) | ((order >> digits) << (shift + count))
                                pc = targets[perms[perm, P_TARGETS] + element]
                        else:
                            if follow >= 0:
                                if depth == stack.shape[0]:
                                    taller = np.empty((2 * depth, 5), dtype=np.int64)
                                    taller[:depth] = stack
                                    stack = taller
                                stack[depth, 0] = pc
                                stack[depth, 1] = pos
                                stack[depth, 2] = regs
                                stack[depth, 3] = trail_count
                                stack[depth, 4] = follow
                                depth += 1
                            if digits > 0:
                                done = 0
                                for i in range(count):
                                    done += (regs >> (shift + i)) & 1
                                regs = regs | (np.int64(chosen + 1) << (shift + count + done * digits))
                            else:
                                pc = targets[perms[perm, P_TARGETS] + chosen]
                            regs = regs | (np.int64(1) << (shift + chosen))
                        aux = 0
                    if failed:
                        if depth == 0:
                            break
                        depth -= 1
                        pc = stack[depth, 0]
                        pos = stack[depth, 1]
                        regs = stack[depth, 2]
                        trail_count = stack[depth, 3]
                        aux = stack[depth, 4]
                        steps += 1
                if matched:
                    # states on the path of the match have not failed
                    for k in range(trail_count):
                        if memo_kind == BITMAP:
                            bits[trail[k] >> 6] &= ~(np.uint64(1) << np.uint64(trail[k] & 63))
                        else:
                            alive[trail[k]] = 0
            if not matched:
                if want_unmatched and s >= covered:
                    if event_count == events.shape[0]:
                        state[S_PART] = part
                        state[S_START] = s
                        state[S_NUMBER] = number
                        state[S_EVENTS] = event_count
                        state[S_LABELS] = label_count
                        state[S_COVERED] = covered
                        return FULL
                    events[event_count, 0] = part
                    events[event_count, 1] = s
                    events[event_count, 2] = -1
                    events[event_count, 3] = 0
                    events[event_count, 4] = label_count
                    event_count += 1
                s += 1
                continue
            # ---- a match: rows s .. end - 1
            if event_count == events.shape[0] or label_count + (end - s) > out_labels.shape[0]:
                state[S_PART] = part
                state[S_START] = s
                state[S_NUMBER] = number
                state[S_EVENTS] = event_count
                state[S_LABELS] = label_count
                state[S_COVERED] = covered
                state[S_DETAIL] = end - s
                return FULL
            number += 1
            events[event_count, 0] = part
            events[event_count, 1] = s
            events[event_count, 2] = end - s
            events[event_count, 3] = number
            events[event_count, 4] = label_count
            event_count += 1
            out_labels[label_count : label_count + (end - s)] = labels[s:end]
            label_count += end - s
            covered = max(covered, end, s + 1)
            if end == s or skip == SKIP_NEXT_ROW:
                s += 1
            elif skip == SKIP_PAST_LAST:
                s = end
            else:
                target = -1
                for k in range(s, end):
                    if (skip_mask >> (labels[k] & 63)) & 1 == 1:
                        target = k
                        if skip == SKIP_FIRST:
                            break
                if target < 0 or target == s:
                    state[S_DETAIL] = number
                    state[S_START] = s
                    return SKIP_TO_ABSENT if target < 0 else SKIP_TO_FIRST
                s = target
        if open_end:
            state[S_PART] = part
            state[S_START] = s
            state[S_NUMBER] = number
            state[S_EVENTS] = event_count
            state[S_LABELS] = label_count
            state[S_COVERED] = covered
            return SUSPENDED
        part += 1
        number = 0
        covered = 0
        entry_count = 0
        if memo_kind == HASHED and part < parts and remembering:
            table = np.zeros(4096, dtype=np.int64)
    state[S_PART] = part
    state[S_START] = s
    state[S_NUMBER] = number
    state[S_EVENTS] = event_count
    state[S_LABELS] = label_count
    state[S_COVERED] = covered
    return DONE


__all__ = ["BITMAP", "DONE", "FULL", "HASHED", "MATCH", "NO_MEMO", "SUSPENDED", "match_partitions"]
