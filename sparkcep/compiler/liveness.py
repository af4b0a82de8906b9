"""Which values of a match decide what comes: analyses of programs, automata and conditions, done once for a plan."""

from __future__ import annotations

import numpy as np

from sparkcep.compiler.conditions.bytecode import FLOAT_COLUMN, OP, SLOT, Conditions
from sparkcep.compiler.net.net import ACCEPT, E_CHECK, E_OPEN, E_TARGET, E_VAR, Net
from sparkcep.compiler.pattern.program import CHAR, JUMP, LOOP, MATCH, NEXT, PERM, R_VAR, RUN, SPLIT, Program

MAX_MEMO_BITS = 4096  # of the bitmap memo, a row
MOST_COUNTED = 1 << 30  # constants above this are above all counts
_JUMPS = [OP[name] for name in ("JFALSE", "JTRUE", "JNOT", "JUMP", "JSOME", "JNULL")]  # the target is the first operand


def selection_live(automaton: Net, conditions: Conditions) -> np.ndarray:
    """uint8 (nodes, slots): the slots whose value at each node a condition reachable from there may read: the paper's masks
    (SASE+ 5.2.2)."""
    live = np.zeros((automaton.nodes, len(conditions.slots)), dtype=np.uint8)
    before = [_read_before(v, conditions) for v in range(len(conditions.entry))]
    changed = True
    while changed:
        changed = False
        for node in range(automaton.nodes - 1, -1, -1):
            known = live[node].copy()
            for edge in automaton.edges[automaton.first[node] : automaton.first[node + 1]]:
                if edge[E_VAR] != ACCEPT:
                    after = conditions.live[edge[E_VAR]] | live[edge[E_TARGET]]
                    live[node] |= before[edge[E_VAR]][after != 0].any(axis=0)
            changed |= bool((live[node] != known).any())
    return live


def _read_before(variable: int, conditions: Conditions) -> np.ndarray:
    """Whether a slot's value before a row of the variable is needed for a slot's value after it. bool (slots, slots)."""
    slots = conditions.slots
    needed = np.eye(len(slots), dtype=bool)
    for k, (kind, mask, _, _, _, helper) in enumerate(slots.tolist()):
        taken = mask == -1 or mask >> variable & 1
        if kind in (SLOT["LAST"], SLOT["LABELLAST"]) and taken and not conditions.reads_prior[variable]:
            needed[k] = False  # this row's, or that of the row before
        if helper >= 0 and taken and kind not in (SLOT["SUMI"], SLOT["SUMF"]):
            needed[k, helper] = True
    return needed


def program_live(program: Program, conditions: Conditions) -> tuple[bool, np.ndarray]:
    """Whether a bitmap of ``MAX_MEMO_BITS`` a row remembers all failed states of a program, and the slots that decide the future of
    each state. uint8 (states, slots)."""
    slots = len(conditions.slots)
    live = np.zeros((max(program.states, 1), max(slots, 1)), dtype=np.uint8)
    if not slots and not conditions.number_read and program.states << program.register_bits <= MAX_MEMO_BITS:
        return True, live
    for at, (op, _, _, state) in enumerate(program.code.tolist()):
        if slots and op in (SPLIT, LOOP, PERM, RUN):
            for target in reachable(program, at):
                op, a = int(program.code[target, 0]), int(program.code[target, 1])
                if op in (CHAR, RUN):
                    live[state] |= conditions.live[a if op == CHAR else program.runs[a, R_VAR]]
    return False, live


def reachable(program: Program, start: int) -> set[int]:
    """The instructions that a search may come to from one of them, that one among them."""
    seen, todo = set(), [start]
    while todo:
        at = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        op, a, b, _ = program.code[at].tolist()
        if op == MATCH:
            continue
        if op == SPLIT:
            todo += [a, b]
        elif op == JUMP:
            todo.append(a)
        elif op == LOOP:
            todo += [at + 1, b]
        elif op == NEXT:
            todo += [b, int(program.code[b, 2])]
        elif op == PERM:
            _, count, first, _ = program.perms[a].tolist()
            todo += [*program.targets[first : first + count].tolist(), b]
        else:
            todo.append(at + 1)
    return seen


def largest_counts(conditions: Conditions) -> np.ndarray:
    """The largest number of each count that must be distinguished from greater ones; greater numbers do not distinguish runs.
    0 if all numbers must be distinguished, and for slots that are not counts. int64 (slots).

    It is 1 where only matters whether there is a value yet, and one more than the greatest constant where a count is only compared
    with constants.
    """
    slots, largest = conditions.slots, np.zeros(len(conditions.slots), dtype=np.int64)
    code = conditions.code[: conditions.instructions].tolist()
    targets = {line[1] for line in code if line[0] in _JUMPS}
    largest[slots[:, 0] == SLOT["COUNT"]] = 1
    largest[slots[slots[:, 0] == SLOT["MEAN"], 5]] = 0
    compares = range(OP["EQI"], OP["NSI"] + 1)
    for at, (op, a, b, _, _) in enumerate(code):
        if op == OP["STD"]:
            largest[[a, b]] = 0
        if op != OP["SLOTI"] or not largest[a]:
            continue
        behind = [line[0] for line in code[at + 1 : at + 3]]
        constant = None  # where the count and a constant are the two operands of a comparison
        if len(behind) == 2 and behind[0] == OP["CONSTI"] and behind[1] in compares:
            constant = code[at + 1][1]
        elif at not in targets and at and code[at - 1][0] == OP["CONSTI"] and behind[:1] and behind[0] in compares:
            constant = code[at - 1][1]
        largest[a] = 0 if constant is None else max(largest[a], min(max(constant, 0), MOST_COUNTED) + 1)
    return largest


def memo_values(live: np.ndarray, conditions: Conditions) -> np.ndarray:
    """How a memo of failures takes the values of slots: 0 not at all, 1 as they are, n + 1 counts up to n. uint8, as ``live``.

    ``live``: uint8 (states or nodes, slots), the slots that decide the future of each. A count that only says whether there is a
    value, or that is only compared with constants, would otherwise keep states apart that have the same future.
    """
    largest = largest_counts(conditions)
    how = np.where((largest > 0) & (largest < np.iinfo(np.uint8).max), largest + 1, 1).astype(np.uint8)
    return live * how if live.shape[1] == len(how) else live


def columns_read(conditions: Conditions) -> np.ndarray:
    """The only column that is read of the row in a FIRST or LAST slot, or in a slot that takes the row over. int64 (slots).

    FLOAT_COLUMN is added for floats. -1 means several columns, or that the row itself matters. Two rows with equal values in that
    column have equal futures."""
    slots = conditions.slots.tolist()
    read: list[set[int]] = [set() for _ in slots]
    for op, a, b, column, _ in conditions.code.tolist():
        if op in (OP["NAVI"], OP["NAVF"]):
            read[a].add(-1 if b else column + (FLOAT_COLUMN if op == OP["NAVF"] else 0))
        elif op in (OP["ROWAT"], OP["NAVH"]):
            read[a].add(-1)
    for k in reversed(range(len(slots))):
        if slots[k][0] == SLOT["LAST"] and slots[k][5] >= 0:
            read[slots[k][5]] |= read[k]  # a helper precedes its slot
    rows = [kind in (SLOT["LAST"], SLOT["FIRST"]) for kind, *_ in slots]
    return np.array([r.pop() if is_row and len(r) == 1 else -1 for is_row, r in zip(rows, read)], dtype=np.int64).reshape(-1)


def live_windows(automaton: Net) -> np.ndarray:
    """The groups' windows that an edge reachable from each node checks before another edge opens them again. int64 (nodes)."""
    live = np.zeros(automaton.nodes, dtype=np.int64)
    changed = True
    while changed:
        before = live.copy()
        for node in range(automaton.nodes):
            for edge in automaton.edges[automaton.first[node] : automaton.first[node + 1]]:
                if edge[E_VAR] >= 0:
                    live[node] |= (edge[E_CHECK] | live[edge[E_TARGET]] & ~edge[E_OPEN]) & ~1
        changed = bool((live != before).any())
    return live
