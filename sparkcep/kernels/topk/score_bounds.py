"""Score bounds (branch and bound) for walks that list the matches of TOP k: runs that cannot be among the best are abandoned.

The walk (:mod:`sparkcep.kernels.match.walk`) asks here for each row that it takes. This is the corner bound of CPR (2011, section
3.3), asked of each row before anything is joined with it.

For each node and row an interval is known: how much the sums of a match may still grow by later rows, if all conditions that look
at the match held (:func:`fill_reach`). A run is abandoned if its score cannot reach the k best found so far even with the maximal
growth. Bounds are computed by interval arithmetic. Arithmetic that rounds correctly never reverses two numbers. So if the sums are
inside their intervals, the score is inside its own.

Example: ``A B`` ranked by the sum of a weight. After row 3 the B rows have weights 2, 5 and 4, so row 3 taken at A's node has
``low`` 2 and ``high`` 5. A run with sum 10 gets a score in [12, 15]. If the k-th best so far has 16, the run is abandoned.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sparkcep.compiler.net.net import E_LABEL, E_SAME, E_TARGET, E_VAR
from sparkcep.kernels.common.layout import STRICT
from sparkcep.kernels.jit.cache import allocating, embedded, kernel
from sparkcep.kernels.topk.score_program import ABSOLUTE, ADD, DIVIDE, GREATEST, LEAF, LEAST, LITERAL, NEGATE, ROOT, SUBTRACT
from sparkcep.kernels.vm.final_conditions import F_EDGE, F_ROW

EQUAL, AT_MOST, AT_LEAST = range(3)
N_WINDOW, N_ENTERED, NOTED = range(3)  # places in ``noted``


class Floors(NamedTuple):
    """Scores, their bounds, and the k best of each window.

    A score is a postfix program over sums of the rows of a match. Each window has its own k best. Windows are numbered; those that
    hold a match go from ``first`` of its last row to before ``until`` of its first row. There are never more of them than ``sizes``
    has places.

    Attributes:
        code, literals: the program, see :mod:`sparkcep.kernels.topk.score_program`.
        weights: float64 (sums, variables, rows), what a row adds.
        low, high: float64 (sums, nodes, rows), least and most that later rows may add once the row was taken into the node.
        slack: float64 (sums), by how much a sum may differ by rounding.
        first, until: int64 (rows), numbers of windows.
        sizes: int64 (n), how many matches a window has.
        scores: float64 (n, k), the top-k heap of each window, the worst on top.
        begins: int64 (n, k), their first rows.
        ordered: whether matches come in the order of their vectors of rows.
        tests: int64 (n, 3), conditions across ``&`` that are comparisons: variable, variable, operation. They compare a row of the
            first variable with the only row of the second.
        own, other: int64 (n, rows), the compared values, negative if nothing equals them.
        sums: float64 (depth, sums), sums of the rows in the frames.
        stack: float64 (n, 2), stack of the program.
        noted: int64 (2), the next window to begin, and 1 + the start row whose matches are entered already.
    """

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
    """Fills ``low`` and ``high``, see :class:`Floors`.

    ``block`` is the maximal number of rows that a match may span. A row sees the rows of its own block and of the next one.
    """
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
                    # The row may serve other sides as well.
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
    """The interval of the score of matches that continue from a frame's rows, whose last row was taken into ``node``.

    With a negative ``node`` it is the score of the match itself.
    """
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
                # The root of a negative number does not exist. Such a score ranks last.
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
    """Whether each window with both rows has k matches that rank before any match of this first row with a score up to
    ``bound``."""
    k = floors.scores.shape[1]
    for w in range(floors.first[last], floors.until[s]):
        at = w % floors.sizes.shape[0]
        if floors.sizes[at] < k or bound > floors.scores[at, 0]:
            return False
        if not (bound < floors.scores[at, 0] or (bound == floors.scores[at, 0] and (floors.ordered or floors.begins[at, 0] < s))):
            return False
    return True


# -- what a walk asks and reports -------------------------------------------------------------------------------


@embedded
def enter_row(s, floors):
    """Opens the windows that begin with a start row."""
    while floors.noted[N_WINDOW] < floors.until[s]:
        floors.sizes[floors.noted[N_WINDOW] % floors.sizes.shape[0]] = 0
        floors.noted[N_WINDOW] += 1


@embedded
def may_rank(s, label, target, row, depth, floors):
    """Whether a match that takes ``row`` into a node may be among the best. Writes its sums for the frame above."""
    if floors.low[0, target, row] > floors.high[0, target, row]:
        return False  # no match completes from here
    for leaf in range(floors.sums.shape[1]):
        floors.sums[depth + 1, leaf] = floors.sums[depth, leaf] + floors.weights[leaf, label & 63, row]
    _, bound = _interval(depth + 1, target, row, floors)
    return not _enough(s, row, bound, floors)


@kernel
def agrees(v, row, depth, edges, frames, floors):
    """Whether the comparisons across ``&`` allow a row of a variable in one match with the rows in the frames."""
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
    """Enters the score of a match into the top-k heaps of its windows."""
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
