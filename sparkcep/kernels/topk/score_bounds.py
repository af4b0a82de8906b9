"""Bounds of the scores of matches, by which a walk that lists matches for TOP k leaves what cannot be among the best (branch and
bound; CPR, 2011, section 3.3:
the corner bound, asked of each row before anything is joined with it).

Of each node and row is known between what the sums of a match may still grow by rows behind it, if all conditions that look at the
match held (:func:`fill_reach`). A run whose score cannot reach the k best found so far, with the most that may come, is not gone on
with. The bounds are those of intervals: arithmetic that rounds correctly never reverses two numbers, so where the sums are inside
theirs, the score is inside its own.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sparkcep.compiler.net.net import E_LABEL, E_SAME, E_TARGET, E_VAR
from sparkcep.kernels.common.layout import STRICT
from sparkcep.kernels.jit.cache import allocating, embedded, kernel
from sparkcep.kernels.vm.final_conditions import F_EDGE, F_ROW

LEAF, LITERAL, ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATE, ABSOLUTE, ROOT, LEAST, GREATEST = range(11)
EQUAL, AT_MOST, AT_LEAST = range(3)
N_WINDOW, N_ENTERED, NOTED = range(3)  # of ``noted``


class Floors(NamedTuple):
    """What is asked of scores. A score is a postfix program ``code`` int64 (n, 2): operation and operand, with ``literals``
    float64, over sums of the rows of a match.

    ``weights`` float64 (sums, variables, rows): what a row adds; ``low``, ``high`` float64 (sums, nodes, rows): between what rows
    behind one that was taken into a node may add; ``slack`` float64 (sums): by how much a sum may be rounded otherwise.

    Windows, each of which has k best of its own, are numbered: those that hold a match are from ``first`` int64 (rows) of its last
    row to before ``until`` int64 (rows) of its first one, never more than there are ``sizes`` int64 (n): how many matches a window
    has; ``scores`` float64 (n, k): theirs, the worst on top of a heap, with their first rows ``begins`` int64 (n, k). ``ordered``:
    matches come in the order of their vectors of rows.

    ``tests`` int64 (n, 3): variable, variable, operation: of conditions across ``&`` that are comparisons, the row of one variable
    with the only row of another one; ``own``, ``other`` int64 (n, rows): what is compared, below 0 where nothing equals.

    ``sums`` float64 (depth, sums): of the rows in the frames; ``stack`` float64 (n, 2): of the program; ``noted`` int64 (2): the
    window that begins next, and behind the start row whose matches are entered already."""

    code: np.ndarray
    literals: np.ndarray
    weights: np.ndarray
    low: np.ndarray
    high: np.ndarray
    slack: np.ndarray
    first: np.ndarray
    until: np.ndarray
    sizes: np.ndarray
    scores: np.ndarray
    begins: np.ndarray
    ordered: bool
    tests: np.ndarray
    own: np.ndarray
    other: np.ndarray
    sums: np.ndarray
    stack: np.ndarray
    noted: np.ndarray


@allocating
def fill_reach(first, edges, accepts, letters, offsets, weights, strategy, sides, block, low, high):
    """Fills ``low`` and ``high``, see :class:`Floors`. ``block``: the most rows that a match may span; a row sees those of its
    block of so many rows and of the next one."""
    nodes = accepts.shape[0]
    leaves = weights.shape[0]
    least, most = np.empty((leaves, nodes)), np.empty((leaves, nodes))
    for part in range(offsets.shape[0] - 1):
        end = offsets[part + 1]
        begin = offsets[part]
        while begin < end:
            for leaf in range(leaves):
                for node in range(nodes):
                    least[leaf, node] = math.inf
                    most[leaf, node] = -math.inf
            behind = end if end - begin <= 2 * block else begin + 2 * block
            for q in range(behind - 1, begin - 1, -1):
                for leaf in range(leaves):
                    for node in range(1, nodes):
                        low[leaf, node, q] = least[leaf, node]
                        high[leaf, node, q] = most[leaf, node]
                        if accepts[node] != 0:
                            low[leaf, node, q] = min(low[leaf, node, q], 0.0)
                            high[leaf, node, q] = max(high[leaf, node, q], 0.0)
                    # the row may serve other sides as well
                    for _ in range(1, sides):
                        for node in range(1, nodes):
                            for e in range(first[node], first[node + 1]):
                                v = edges[e, E_VAR]
                                if v >= 0 and edges[e, E_SAME] == 1 and (letters[q] >> v) & 1 == 1:
                                    added, target = weights[leaf, edges[e, E_LABEL] & 63, q], edges[e, E_TARGET]
                                    low[leaf, node, q] = min(low[leaf, node, q], added + low[leaf, target, q])
                                    high[leaf, node, q] = max(high[leaf, node, q], added + high[leaf, target, q])
                    for node in range(nodes):
                        if strategy == STRICT:
                            least[leaf, node] = math.inf
                            most[leaf, node] = -math.inf
                        for e in range(first[node], first[node + 1]):
                            v = edges[e, E_VAR]
                            if v >= 0 and (letters[q] >> v) & 1 == 1:
                                added, target = weights[leaf, edges[e, E_LABEL] & 63, q], edges[e, E_TARGET]
                                least[leaf, node] = min(least[leaf, node], added + low[leaf, target, q])
                                most[leaf, node] = max(most[leaf, node], added + high[leaf, target, q])
            begin = end if behind == end else begin + block


@kernel
def _interval(depth, node, row, floors):
    """Between what the score lies of matches that go on from the rows of a frame, of which the last was taken into the node;
    without a node: of the match itself."""
    stack = floors.stack
    top = -1
    for i in range(floors.code.shape[0]):
        op = floors.code[i, 0]
        if op == LEAF:
            leaf = floors.code[i, 1]
            top += 1
            stack[top, 0] = stack[top, 1] = floors.sums[depth, leaf]
            if node >= 0:
                stack[top, 0] += floors.low[leaf, node, row] - floors.slack[leaf]
                stack[top, 1] += floors.high[leaf, node, row] + floors.slack[leaf]
        elif op == LITERAL:
            top += 1
            stack[top, 0] = stack[top, 1] = floors.literals[floors.code[i, 1]]
        elif op == NEGATE or op == ABSOLUTE or op == ROOT:
            low, high = stack[top, 0], stack[top, 1]
            if op == NEGATE:
                stack[top, 0], stack[top, 1] = -high, -low
            elif op == ABSOLUTE:
                stack[top, 0], stack[top, 1] = max(low, -high, 0.0), max(-low, high)
            else:
                # the root of a negative number is none, which ranks last
                stack[top, 0] = math.sqrt(low) if low >= 0.0 else -math.inf
                stack[top, 1] = math.sqrt(high) if high >= 0.0 else -math.inf
        else:
            top -= 1
            low, high, other_low, other_high = stack[top, 0], stack[top, 1], stack[top + 1, 0], stack[top + 1, 1]
            if op == ADD:
                stack[top, 0], stack[top, 1] = low + other_low, high + other_high
            elif op == SUBTRACT:
                stack[top, 0], stack[top, 1] = low - other_high, high - other_low
            elif op == LEAST:
                stack[top, 0], stack[top, 1] = min(low, other_low), min(high, other_high)
            elif op == GREATEST:
                stack[top, 0], stack[top, 1] = max(low, other_low), max(high, other_high)
            elif op == DIVIDE and not (other_low > 0.0 or other_high < 0.0):
                stack[top, 0], stack[top, 1] = -math.inf, math.inf
            else:
                if op == DIVIDE:
                    a, b, c, d = low / other_low, low / other_high, high / other_low, high / other_high
                else:
                    a, b, c, d = low * other_low, low * other_high, high * other_low, high * other_high
                stack[top, 0], stack[top, 1] = min(min(a, b), min(c, d)), max(max(a, b), max(c, d))
    return stack[0, 0], stack[0, 1]


@kernel
def _enough(s, last, bound, floors):
    """Whether each window that holds both rows has k matches that rank before any of this first row with at most the score
    ``bound``."""
    k = floors.scores.shape[1]
    for w in range(floors.first[last], floors.until[s]):
        at = w % floors.sizes.shape[0]
        if floors.sizes[at] < k or bound > floors.scores[at, 0]:
            return False
        if not (bound < floors.scores[at, 0] or (bound == floors.scores[at, 0] and (floors.ordered or floors.begins[at, 0] < s))):
            return False
    return True


# -- what a walk asks and tells ---------------------------------------------------------------------------------


@embedded
def enter_row(s, floors):
    """Begins the windows that begin with a start row."""
    while floors.noted[N_WINDOW] < floors.until[s]:
        floors.sizes[floors.noted[N_WINDOW] % floors.sizes.shape[0]] = 0
        floors.noted[N_WINDOW] += 1


@embedded
def may_rank(s, label, target, row, depth, floors):
    """Whether a match that goes on with a row, taken into a node, may be among the best; its sums are noted for the frame above."""
    if floors.low[0, target, row] > floors.high[0, target, row]:
        return False  # none can be completed
    for leaf in range(floors.sums.shape[1]):
        floors.sums[depth + 1, leaf] = floors.sums[depth, leaf] + floors.weights[leaf, label & 63, row]
    _, bound = _interval(depth + 1, target, row, floors)
    return not _enough(s, row, bound, floors)


@kernel
def agrees(v, row, depth, edges, frames, floors):
    """Whether a row of a variable can be in one match with the rows in the frames, by the comparisons across ``&``."""
    for t in range(floors.tests.shape[0]):
        if floors.tests[t, 0] != v and floors.tests[t, 1] != v:
            continue
        for d in range(1, depth + 1):
            u, at = edges[frames[d - 1, F_EDGE], E_VAR], frames[d, F_ROW]
            if floors.tests[t, 0] == v and floors.tests[t, 1] == u and not _holds(floors.tests[t, 2], floors.own[t, row], floors.other[t, at]):
                return False
            if floors.tests[t, 1] == v and floors.tests[t, 0] == u and not _holds(floors.tests[t, 2], floors.own[t, at], floors.other[t, row]):
                return False
    return True


@embedded
def _holds(operation, own, other):
    if operation == EQUAL:
        return own == other and own >= 0
    return own <= other if operation == AT_MOST else own >= other


@embedded
def ranks(s, depth, last, floors):
    """Whether the match in the frames may be among the best."""
    _, bound = _interval(depth, np.int64(-1), last, floors)
    return not _enough(s, last, bound, floors)


@kernel
def enter_score(s, depth, last, floors):
    """Notes the score of a match among those of its windows."""
    if floors.noted[N_ENTERED] == s + 1:
        return
    k = floors.scores.shape[1]
    score, _ = _interval(depth, np.int64(-1), last, floors)
    if math.isnan(score):
        return
    for w in range(floors.first[last], floors.until[s]):
        at = w % floors.sizes.shape[0]
        scores, begins, size = floors.scores[at], floors.begins[at], floors.sizes[at]
        if size < k:
            i = size
            floors.sizes[at] = size + 1
            while i > 0 and _worse(score, s, scores[(i - 1) // 2], begins[(i - 1) // 2]):
                scores[i], begins[i] = scores[(i - 1) // 2], begins[(i - 1) // 2]
                i = (i - 1) // 2
        elif _worse(scores[0], begins[0], score, s):
            i = 0
            while 2 * i + 1 < k:
                child = 2 * i + 1
                if child + 1 < k and _worse(scores[child + 1], begins[child + 1], scores[child], begins[child]):
                    child += 1
                if not _worse(scores[child], begins[child], score, s):
                    break
                scores[i], begins[i] = scores[child], begins[child]
                i = child
        else:
            continue
        scores[i] = score
        begins[i] = s


@embedded
def _worse(score, begin, other, other_begin):
    return score < other or (score == other and begin > other_begin)
