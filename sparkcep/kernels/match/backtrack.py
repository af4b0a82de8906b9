"""The matching kernel of the standard clause: depth-first backtracking in preference order with memoised failures.

From each start row the search tries the alternatives in preferment order and takes the first one that completes (ISO/IEC 19075-5,
4.14: preferment).

A state is an instruction, the register word, a position and, where conditions look at the match, the slots still needed. A state
that has failed once fails always, from whichever start row it is reached, so it is remembered and never explored again. If
conditions are row-local, the search over a partition costs O(states x rows). Compare BitState in RE2, and Trino's merging of
equivalent threads. States on the path of a reported match have not failed; they are forgotten when the match is reported.

Example: ``A+ B`` over rows with the letters A, A, A, C. From row 0 the run ``A+`` may end before row 1, 2 or 3. Each exit is marked
in the memo, and B fails after each. From row 1 the first exit, before row 2, is already marked, so the attempt fails after one row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.compiler.pattern.program import (
    CHAR,
    END,
    EXCLUDED,
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
    R_EXCLUDED,
    R_FLAGS,
    R_GREEDY,
    R_MAX,
    R_MIN,
    R_VAR,
    RUN,
    SPLIT,
    START,
)
from sparkcep.kernels.common.cursor import bounds, entered, left, put_event, resumed, suspend
from sparkcep.kernels.common.hash_table import enter, fill, forget, place_of
from sparkcep.kernels.common.layout import (
    BITMAP,
    DONE,
    E_LABELS,
    E_ROWS,
    E_START,
    EFFORT,
    ERROR,
    FULL,
    GROW,
    HASHED,
    O_CUT,
    S_DETAIL,
    S_ENTRIES,
    SKIP_FIRST,
    SKIP_LAST,
    SKIP_NEXT_ROW,
    SKIP_PAST_LAST,
    SKIP_TO_ABSENT,
    SKIP_TO_FIRST,
    SUSPENDED,
)
from sparkcep.kernels.jit.cache import inlined, kernel
from sparkcep.kernels.match.thresholds import end_of_run, holds, last_that_holds
from sparkcep.kernels.vm.vm import MAP, scan


class ProgramArrays(NamedTuple):
    """The compiled pattern, see :mod:`sparkcep.compiler.pattern.program`.

    ``live`` uint8 (states, slots) says how a memo takes the slots that decide a state's future, see
    :func:`sparkcep.compiler.liveness.memo_values`.
    """

    code: np.ndarray
    loops: np.ndarray
    perms: np.ndarray
    targets: np.ndarray
    runs: np.ndarray
    live: np.ndarray


class ConditionArrays(NamedTuple):
    """Conditions that look at the match, see :mod:`sparkcep.compiler.conditions.bytecode`.

    ``entry`` int64 (variables) is the first instruction of each condition, or -1.
    """

    code: np.ndarray
    entry: np.ndarray
    floats: np.ndarray
    slots: np.ndarray
    label_codes: np.ndarray


class RowArrays(NamedTuple):
    """The buffer.

    Attributes:
        letters: int64 (rows); bit v is set if the row-local part of variable v's condition holds.
        offsets: int64 (partitions + 1), the first row of each partition.
        ints, flts: input columns, see :mod:`sparkcep.kernels.vm.vm`.
        inull, fnull: their NULL marks.
        pair_starts, pair_ints, pair_flts, pair_null: input arrays.
    """

    letters: np.ndarray
    offsets: np.ndarray
    ints: np.ndarray
    flts: np.ndarray
    inull: np.ndarray
    fnull: np.ndarray
    pair_starts: np.ndarray
    pair_ints: np.ndarray
    pair_flts: np.ndarray
    pair_null: np.ndarray


class SharedEnds(NamedTuple):
    """Paths that succeeded. Overlapping matches share their ends by them.

    Attributes:
        futures: int32 ((rows + partitions) x ``width``), a number for each state at each row. It is 0 if the state has not been
            reached, -1 if it has failed, else the number of the match that went on from it.
        width: how many states one row has.
        before: matches up to this number have left ``events``.
        joins: int64 (capacity, 4). A match has the number of its own labels, and the place in ``out_labels`` of the next label,
            which belongs to an earlier match. Then follow the event of that match (-1: none), and the last row that AFTER MATCH
            SKIP may go to.
    """

    futures: np.ndarray
    width: int
    before: int
    joins: np.ndarray


class Scratch(NamedTuple):
    """Reusable working memory.

    Attributes:
        labels: uint8 (rows), see :mod:`sparkcep.kernels.vm.vm`.
        hi, hf: slot values.
        hbits: int64, the bits of ``hf``.
        si, sf, sn: the interpreter's stack.
        stack: int64 (n, 5), the choices left: instruction, row, registers, trail length, detail.
        trail: int64, memo places of the states on the current path.
        bits: uint64, the bitmap memo.
        entries, alive, table, key: the hashed memo.
    """

    labels: np.ndarray
    hi: np.ndarray
    hf: np.ndarray
    hbits: np.ndarray
    si: np.ndarray
    sf: np.ndarray
    sn: np.ndarray
    stack: np.ndarray
    trail: np.ndarray
    bits: np.ndarray
    entries: np.ndarray
    alive: np.ndarray
    table: np.ndarray
    key: np.ndarray


@kernel
def _visit_hashed(here, regs, pos, first, live, hi, hbits, entries, alive, table, key, state):
    """Visits a state in the hashed memo. Returns its place, -1 if it has failed before, or -2 if the memo is full.

    ``first`` is 1 before the match's first row. If the match's first row decides the values of all slots, ``first`` is greater and
    is part of the key. Else it is 0.
    """
    width = key.shape[0]
    slots = (width - 3) // 2
    key[0] = here
    key[1] = regs
    key[2] = pos
    for k in range(slots):
        if live[here, k] == 0:
            key[3 + 2 * k] = 0
            key[4 + 2 * k] = 0
        elif first > 0:
            key[3 + 2 * k] = -2 if first == 1 else first
            key[4 + 2 * k] = 0
        else:
            value = hi[pos - 1, k]
            if live[here, k] > 1:
                value = min(value, np.int64(live[here, k]) - 1)
            key[3 + 2 * k] = value
            key[4 + 2 * k] = hbits[pos - 1, k]
    h = place_of(key, entries, table)
    e = table[h] - 1
    if e >= 0 and alive[e] == 1:
        return -1
    if e < 0:
        e = state[S_ENTRIES]
        if e == entries.shape[0]:
            return -2
        enter(key, h, entries, table, state)
    alive[e] = 1
    return e


@inlined
def _visit(memo_kind, here, regs, pos, first, words_before, register_bits, live, hi, hbits, bits, entries, alive, table, key, state):
    """Visits a state in the memo. Returns its place, -1 if it has failed before, or -2 if the memo is full.

    ``words_before`` are the words of the bitmap before those of the row.
    """
    place = np.int64(0)
    if memo_kind == BITMAP:
        place = words_before * 64 + ((here << register_bits) | regs)
        bit = np.uint64(1) << np.uint64(place & 63)
        if bits[place >> 6] & bit != 0:
            place = -1
        else:
            bits[place >> 6] |= bit
    else:
        place = _visit_hashed(here, regs, pos, first, live, hi, hbits, entries, alive, table, key, state)
    return place


@inlined
def _reached(futures, place, before):
    """Visits a state of :class:`SharedEnds` and marks it as failed for now.

    Returns its place, -1 if it has failed before, or -2 - n if event n (from 1) went on from it.
    """
    known = np.int64(futures[place])
    found = place
    if known < 0:
        found = np.int64(-1)
    elif known > before:
        found = -2 - (known - before)
    else:
        futures[place] = -1
    return found


@inlined
def _joined_at(events, joins, event, row):
    """The place of the label that an event's match has at ``row``, -1 after its last row."""
    begin = row - events[event, E_START]
    return events[event, E_LABELS] + begin if begin < joins[event, 0] else joins[event, 1]


@kernel
def _first_target(events, labels, joins, event, mask):
    """The first row of an event's match with a label of ``mask``, or -1."""
    row = events[event, E_START]
    while event >= 0:
        first = events[event, E_START]
        while row < first + joins[event, 0]:
            if (mask >> (labels[events[event, E_LABELS] + row - first] & 63)) & 1 == 1:
                return row
            row += 1
        event = joins[event, 2]
    return np.int64(-1)


@kernel
def _forget(trail, count, bitmap, bits, alive):
    """Takes the states of the current path out of the memo, because they have not failed."""
    for k in range(count):
        if bitmap:
            bits[trail[k] >> 6] &= ~(np.uint64(1) << np.uint64(trail[k] & 63))
        else:
            alive[trail[k]] = 0


@kernel
def match_partitions(
    program, nullable, first_mask, memo_kind, words, register_bits, conditions, rows, scratch, opens, ahead,
    want_unmatched, skip, skip_mask, clear_on_match, patience, most_entries, max_steps, pairs, shared, state, events, out_labels, thresholds,
):
    """Finds the matches of every partition and writes them as events. Returns an outcome; ``state`` says where the search resumes.

    Args:
        program: :class:`ProgramArrays`.
        nullable: whether the pattern matches the empty sequence.
        first_mask: the variables that a match can begin with.
        memo_kind: NO_MEMO, BITMAP or HASHED.
        words: memo words a row (BITMAP), one bit for each state and each value of the ``register_bits`` registers.
        conditions: :class:`ConditionArrays`, or None if no condition looks at the match; then the kernel is compiled without the
            interpreter.
        rows, scratch: :class:`RowArrays` and :class:`Scratch`.
        opens: int64 (partitions, OPEN_FIELDS), where the search of each partition begins and is left.
        ahead: rows of lookahead; the last rows of a growing partition, so many, are not decided yet.
        want_unmatched: whether unmatched rows are reported.
        skip, skip_mask: AFTER MATCH SKIP and its variables.
        clear_on_match: whether each match clears the memo, because conditions read MATCH_NUMBER.
        patience: steps beyond four a row before the hashed memo starts.
        most_entries: if the hashed memo has more entries, the next start row begins with an empty one.
        max_steps: bound on the steps of one attempt.
        pairs: uint8 (variables), 1 if the condition looks at all pairs of the match's rows (DISTINCT), which count as steps.
        shared: None, or :class:`SharedEnds`. Then a match has labels of its own only up to the row where its path joins that of an
            earlier match. Requires BITMAP, no conditions, and AFTER MATCH SKIP TO NEXT ROW, FIRST or LAST.
        state: int64 (STATE_SIZE).
        events: int64 (capacity, 5), output.
        out_labels: uint8, output.
        thresholds: None, or the conditions as :class:`sparkcep.kernels.match.thresholds.Thresholds`, and then ``conditions`` is
            None.

    FULL asks for larger outputs and GROW for larger scratch. The call is then repeated with the same ``state``.
    """
    code, loops, perms, targets, runs, live = program
    if conditions is not None:
        bytecode, entry, floats, slots, label_codes = conditions
        has_slots = slots.shape[0] > 0
    letters, offsets, ints, flts, inull, fnull, pair_starts, pair_ints, pair_flts, pair_null = rows
    labels, hi, hf, hbits, si, sf, sn, stack, trail, bits, entries, alive, table, key = scratch
    if shared is not None:
        futures, width, before, joins = shared
    parts = offsets.shape[0] - 1
    stack_size = stack.shape[0] - 2
    trail_size = trail.shape[0] - 2

    part, s, number, event_count, label_count, covered = resumed(state)
    outcome = DONE

    while part < parts and outcome == DONE:
        low, high, open_end, limit = bounds(part, offsets, opens, ahead)
        steps = 0
        begin_s = s
        remembering = memo_kind == BITMAP or (memo_kind == HASHED and patience <= 0)
        while s < high:
            # Rows that cannot begin a match are skipped at once, unless unmatched rows are reported.
            if not nullable and not want_unmatched:
                while s < limit and letters[s] & first_mask == 0:
                    s += 1
                if s >= high:
                    break
            # Conditions may read the rows after ``limit``, so a growing partition waits there.
            if s >= limit:
                outcome = SUSPENDED
                break
            matched = False
            end = s
            joined = np.int64(0)  # the event whose path this attempt has joined, counted from 1
            if nullable or letters[s] & first_mask != 0:
                # ---- One attempt from row s.
                pc = 0
                pos = s
                regs = np.int64(0)
                depth = 0
                trail_count = 0
                aux = 0
                lowest = 0
                if thresholds is not None:
                    thorough = False  # whether states that the match's first row decides are remembered
                attempt_steps = steps
                furthest = s
                if memo_kind == HASHED and state[S_ENTRIES] > most_entries:
                    # A later start row hardly meets the values of an earlier one, and it is always sound to forget failures.
                    forget(entries, table, state)
                if memo_kind == HASHED and not remembering and steps > 4 * (s - begin_s) + patience:
                    remembering = True
                while True:
                    op = code[pc, 0]
                    failed = False
                    # The check leaves two spare places, so one instruction may push without a check of its own.
                    if depth >= stack_size or trail_count >= trail_size:
                        outcome = GROW
                        break
                    if op == CHAR:
                        if pos >= limit:
                            if open_end:
                                outcome = SUSPENDED
                                break
                            failed = True
                        else:
                            v = code[pc, 1]
                            if (letters[pos] >> v) & 1 == 0:
                                failed = True
                            else:
                                label = v | (EXCLUDED if code[pc, 2] == 1 else 0)
                                labels[pos] = label
                                if thresholds is not None:
                                    failed = not holds(v, s, pos, letters, thresholds)
                                if conditions is not None:
                                    if has_slots or entry[v] >= 0:
                                        taken, bad = scan(
                                            MAP, v, label, entry[v], 1, pos, pos - 1, low, limit, high, s, number + 1, letters, bytecode,
                                            floats, slots, hi, hf, labels, label_codes, ints, flts, inull, fnull, pair_starts, pair_ints, pair_flts,
                                            pair_null, si, sf, sn,
                                        )
                                        if bad < 0:
                                            state[S_DETAIL] = bad
                                            s = pos
                                            outcome = ERROR
                                            break
                                        failed = taken == 0
                                        steps += pairs[v] * (((pos - s) * (pos - s)) >> 6)
                                if not failed:
                                    pos += 1
                                    steps += 1
                                    regs |= code[pc, 3]
                                    pc += 1
                    elif op == RUN:
                        # ---- A quantified variable: its rows are taken in one step. The exits not taken stay on the stack as one
                        # entry.
                        run = code[pc, 1]
                        here = code[pc, 3]
                        v = runs[run, R_VAR]
                        least = runs[run, R_MIN]
                        most = runs[run, R_MAX]
                        greedy = runs[run, R_GREEDY] == 1
                        flags = runs[run, R_FLAGS]
                        label = v | (EXCLUDED if runs[run, R_EXCLUDED] == 1 else 0)
                        remembered = remembering
                        if thresholds is not None:
                            remembered = remembering and (thorough or live[here, 0] == 0)
                        marking = most < 0 and remembered
                        paired = pairs[v] == 1
                        looks = False
                        if conditions is not None:
                            looks = has_slots or entry[v] >= 0
                        if thresholds is not None:
                            looks = True
                        done = 0
                        top = -1  # row of the exit to take
                        base = trail_count
                        q = pos
                        if aux < 0:
                            # Backtracking: the next shorter exit of an earlier run.
                            lowest = -aux - 1
                            top = pos
                        else:
                            start = pos
                            if aux > 0:
                                done = aux - 1  # reluctant: one more row
                                start = -1
                            lowest = pos
                            extend = aux > 0
                            while True:
                                if done == least:
                                    lowest = q
                                if done >= least and not extend:
                                    if marking:
                                        if shared is not None:
                                            place = _reached(futures, (q + part) * width + ((here << register_bits) | regs | (flags if q != start else 0)), before)
                                            joined = max(-2 - place, 0)
                                        else:
                                            first = np.int64(q == s)
                                            if thresholds is not None:
                                                first += s + 2
                                            place = _visit(memo_kind, here, regs | (flags if q != start else 0), q, first, (q + part) * words, register_bits, live, hi, hbits, bits, entries, alive, table, key, state)
                                        if place < 0:
                                            if place == -2:
                                                outcome = GROW
                                            break  # all exits from here on have failed before
                                        trail[trail_count] = place
                                        trail_count += 1
                                        if trail_count >= trail_size:
                                            outcome = GROW
                                            break
                                    top = q
                                    if not greedy or done == most:
                                        break
                                extend = False
                                if q >= limit:
                                    if open_end:
                                        outcome = SUSPENDED
                                    break
                                if looks:
                                    want = np.int64(1)
                                    if not marking and greedy and done >= least and not paired:
                                        want = limit - q if most < 0 else most - done
                                    taken = np.int64(0)
                                    if thresholds is not None:
                                        taken = end_of_run(v, s, q, min(q + want, limit), letters, thresholds) - q
                                        for k in range(q, q + taken):
                                            labels[k] = label
                                        steps += 1 - taken  # blocks of rows count as one step
                                    if conditions is not None:
                                        taken, bad = scan(
                                            MAP, v, label, entry[v], want, q, q - 1, low, limit, high, s, number + 1, letters, bytecode,
                                            floats, slots, hi, hf, labels, label_codes, ints, flts, inull, fnull, pair_starts, pair_ints, pair_flts,
                                            pair_null, si, sf, sn,
                                        )
                                        if bad < 0:
                                            state[S_DETAIL] = bad
                                            s = q + taken
                                            outcome = ERROR
                                            break
                                    q += taken
                                    done += taken
                                    steps += taken
                                    if paired:
                                        steps += ((q - s) * (q - s)) >> 6
                                        if steps - attempt_steps > max_steps:
                                            outcome = EFFORT
                                            break
                                    if taken < want:
                                        if done >= least and taken > 0:
                                            top = q
                                        if q >= limit and open_end:
                                            outcome = SUSPENDED
                                        break
                                elif greedy and done >= least and not marking:
                                    # These rows are not remembered, so one loop takes them.
                                    first = q
                                    stop = limit if most < 0 else min(limit, q + most - done)
                                    while q < stop and (letters[q] >> v) & 1 != 0:
                                        labels[q] = label
                                        q += 1
                                    done += q - first
                                    steps += q - first
                                    if q < stop:
                                        top = q
                                        break
                                else:
                                    if (letters[q] >> v) & 1 == 0:
                                        break
                                    labels[q] = label
                                    q += 1
                                    done += 1
                                    steps += 1
                            if outcome != DONE:
                                break
                        aux = 0
                        if joined > 0:
                            pos = q
                        elif top < 0:
                            failed = True
                        elif greedy:
                            # Exits are tried from the longest down. A bounded run remembers failed exits one by one.
                            failed = True
                            while top >= lowest:
                                if thresholds is not None:
                                    if top < limit or not open_end:
                                        # Exits after which the next variable cannot follow are skipped.
                                        after = np.int64(-1)
                                        if code[pc + 1, 0] == CHAR:
                                            after = code[pc + 1, 1]
                                        elif code[pc + 1, 0] == RUN and runs[code[pc + 1, 1], R_MIN] > 0:
                                            after = runs[code[pc + 1, 1], R_VAR]
                                        if after >= 0:
                                            top = last_that_holds(after, s, lowest, min(top, limit - 1), letters, thresholds)
                                            steps += 1
                                            if top < lowest:
                                                break
                                if marking:
                                    trail_count = base + (top - lowest) + 1
                                else:
                                    trail_count = base
                                exit_regs = regs | (flags if top > lowest or least > 0 else 0)
                                if remembered and not marking:
                                    if shared is not None:
                                        place = _reached(futures, (top + part) * width + ((here << register_bits) | exit_regs), before)
                                        joined = max(-2 - place, 0)
                                    else:
                                        first = np.int64(top == s)
                                        if thresholds is not None:
                                            first += s + 2
                                        place = _visit(memo_kind, here, exit_regs, top, first, (top + part) * words, register_bits, live, hi, hbits, bits, entries, alive, table, key, state)
                                    if joined > 0:
                                        failed = False
                                        pos = top
                                        break
                                    if place == -2:
                                        outcome = GROW
                                        break
                                    if place < 0:
                                        top -= 1
                                        steps += 1
                                        continue
                                    trail[trail_count] = place
                                    trail_count += 1
                                failed = False
                                if top > lowest:
                                    stack[depth, 0] = pc
                                    stack[depth, 1] = top - 1
                                    stack[depth, 2] = regs
                                    stack[depth, 3] = base
                                    stack[depth, 4] = -lowest - 1
                                    depth += 1
                                pos = top
                                regs = exit_regs
                                pc += 1
                                break
                            if outcome != DONE:
                                break
                        else:
                            # Reluctant: the run exits here. If that fails, it takes one more row.
                            if done > 0:
                                regs = regs | flags
                            if most < 0 or done < most:
                                stack[depth, 0] = pc
                                stack[depth, 1] = top
                                stack[depth, 2] = regs
                                stack[depth, 3] = trail_count
                                stack[depth, 4] = done + 1
                                depth += 1
                            if remembered and not marking:
                                if shared is not None:
                                    place = _reached(futures, (top + part) * width + ((here << register_bits) | regs), before)
                                    joined = max(-2 - place, 0)
                                else:
                                    first = np.int64(top == s)
                                    if thresholds is not None:
                                        first += s + 2
                                    place = _visit(memo_kind, here, regs, top, first, (top + part) * words, register_bits, live, hi, hbits, bits, entries, alive, table, key, state)
                                if place == -2:
                                    outcome = GROW
                                    break
                                if place < 0:
                                    failed = True
                                else:
                                    trail[trail_count] = place
                                    trail_count += 1
                            pos = top
                            pc += 1
                    elif op == SPLIT or op == LOOP or (op == PERM and aux == 0):
                        # ---- A state with alternatives: if it has failed before, the path fails at once.
                        here = code[pc, 3]
                        remembered = remembering
                        if thresholds is not None:
                            remembered = remembering and (thorough or live[here, 0] == 0)
                        if remembered:
                            if shared is not None:
                                place = _reached(futures, (pos + part) * width + ((here << register_bits) | regs), before)
                                joined = max(-2 - place, 0)
                            else:
                                first = np.int64(pos == s)
                                if thresholds is not None:
                                    first += s + 2
                                place = _visit(memo_kind, here, regs, pos, first, (pos + part) * words, register_bits, live, hi, hbits, bits, entries, alive, table, key, state)
                            if place == -2:
                                outcome = GROW
                                break
                            if place < 0:
                                failed = True
                            else:
                                trail[trail_count] = place
                                trail_count += 1
                        if not failed:
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
                                aux = -1  # PERM: the first element is chosen below
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
                            # An empty iteration ends the loop.
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
                        if pos == low and opens[part, O_CUT] == 0:
                            pc += 1
                        else:
                            failed = True
                    elif op == END:
                        if open_end and pos >= limit:
                            outcome = SUSPENDED
                            break
                        if pos == high:
                            pc += 1
                        else:
                            failed = True
                    if joined > 0:
                        matched = True
                        end = pos
                        break
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
                            # Digits of the chosen order, lowest first, 0 after the last one. They are 0 if the order is not fixed
                            # in advance.
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
                        furthest = max(furthest, pos)
                        certain = remembering
                        if thresholds is not None:
                            certain = remembering and thorough
                        if memo_kind == HASHED and not certain and steps - attempt_steps > 8 * (furthest - s) + 4 * patience:
                            # Too much backtracking: the attempt starts over from row s and remembers failures.
                            remembering = True
                            if thresholds is not None:
                                # States whose future no value decides were remembered. Those on the path have not failed.
                                _forget(trail, trail_count, False, bits, alive)
                                thorough = True
                            pc = 0
                            pos = s
                            regs = np.int64(0)
                            depth = 0
                            trail_count = 0
                            aux = 0
                            continue
                        if depth == 0:
                            break
                        depth -= 1
                        pc = stack[depth, 0]
                        pos = stack[depth, 1]
                        regs = stack[depth, 2]
                        trail_count = stack[depth, 3]
                        aux = stack[depth, 4]
                        steps += 1
                        if steps - attempt_steps > max_steps:
                            outcome = EFFORT
                            break
                # The states on the path have not failed: they led to a match, or the attempt was interrupted.
                if matched or outcome != DONE:
                    if shared is not None:
                        mark = before + event_count + 1 if matched and event_count < events.shape[0] and label_count + (end - s) <= out_labels.shape[0] else 0
                        for k in range(trail_count):
                            futures[trail[k]] = mark
                    else:
                        _forget(trail, trail_count, memo_kind == BITMAP, bits, alive)
                    if outcome != DONE:
                        break
            if not matched:
                if want_unmatched and s >= covered:
                    if event_count == events.shape[0]:
                        outcome = FULL
                        break
                    put_event(events, event_count, part, s, -1, 0, label_count)
                    event_count += 1
                s += 1
                continue
            # ---- A match: rows s .. end - 1.
            if event_count == events.shape[0] or label_count + (end - s) > out_labels.shape[0]:
                state[S_DETAIL] = end - s
                outcome = FULL
                break
            number += 1
            own = end - s
            if shared is not None:
                joins[event_count, 0] = own
                joins[event_count, 1] = -1
                joins[event_count, 2] = joined - 1
                joins[event_count, 3] = -1
                if joined > 0:
                    joins[event_count, 1] = _joined_at(events, joins, joined - 1, end)
                    if joins[joined - 1, 3] >= end:
                        joins[event_count, 3] = joins[joined - 1, 3]
                    end = events[joined - 1, E_START] + events[joined - 1, E_ROWS]
                if skip == SKIP_LAST and joins[event_count, 3] < 0:
                    for k in range(s, s + own):
                        if (skip_mask >> (labels[k] & 63)) & 1 == 1:
                            joins[event_count, 3] = k
            put_event(events, event_count, part, s, end - s, number, label_count)
            event_count += 1
            for k in range(s, s + own):
                out_labels[label_count + k - s] = labels[k]
            label_count += own
            covered = max(covered, end, s + 1)
            # Conditions read MATCH_NUMBER, so a state that failed for the last match may succeed for the next one.
            if clear_on_match and state[S_ENTRIES] > 0:
                fill(table, 0)
                state[S_ENTRIES] = 0
            # An empty match also steps to the next row, or the search would not advance.
            if end == s or skip == SKIP_NEXT_ROW:
                s += 1
            elif skip == SKIP_PAST_LAST:
                s = end
            else:
                target = np.int64(-1)
                if shared is None:
                    for k in range(s, end):
                        if (skip_mask >> (labels[k] & 63)) & 1 == 1:
                            target = k
                            if skip == SKIP_FIRST:
                                break
                elif skip == SKIP_LAST:
                    target = joins[event_count - 1, 3]
                else:
                    target = _first_target(events, out_labels, joins, event_count - 1, skip_mask)
                if target < 0 or target == s:
                    state[S_DETAIL] = number
                    outcome = SKIP_TO_ABSENT if target < 0 else SKIP_TO_FIRST
                    break
                s = target
        outcome = left(opens, part, outcome, open_end, s, number, covered)
        if outcome != DONE:
            break
        part += 1
        if part < parts:
            s, number, covered = entered(opens, part)
        if state[S_ENTRIES] > 0:
            forget(entries, table, state)
    suspend(state, part, s, number, event_count, label_count, covered)
    return outcome
