"""The net: the automaton of a row pattern whose rows need not be adjacent, as read-only numpy arrays of nodes and edges.

It is the NFAb of SASE+ (SIGMOD 2008, section 3) with its epsilon moves resolved. A node is the rest of the pattern after a row was
taken. The edges of a node are in preference order. Each edge takes one row or completes the match; the row edges are the paper's
begin and take edges. Proceed edges are resolved into the row edges, so that the begin condition of the next state is checked before
proceeding, as the paper's step 6 asks.

The ignore edge depends on the strategy and is not stored here. A run ignores a row never (STRICT), always (ANY), or only if no edge
of the node accepts the row, not counting edges marked ``passed`` (NEXT). Windows are pushed to every edge (steps 4 and 5): an edge
names the windows that its row opens and those that the row must lie in.

Four modules make the moves of a node. compiler/net/gap_net.py makes them for plain patterns, compiler/net/conjunction.py for
patterns with sides. For approximate matches these are compiler/net/skip_net.py and compiler/net/skipping_sides.py. :func:`build`
turns the moves of each into one table.

``PATTERN (A B* (C | A)+)`` under SKIP TILL ANY MATCH has three nodes and seven edges::

    node 0 (start)   edge 0  A -> 1  opens window 0
    node 1           edge 1  B -> 1  inside window 0
                     edge 2  C -> 2  inside window 0
                     edge 3  A -> 2  inside window 0
    node 2           edge 4  C -> 2  inside window 0
                     edge 5  A -> 2  inside window 0
                     edge 6  complete

    first = [0, 1, 4, 7]    the edges of node n are first[n] to first[n + 1] - 1
    masks = [1, 7, 5]       A is bit 0, B bit 1, C bit 2
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sparkcep.compiler.net.variable_copies import EXTRA, MATCHED, SUBSTITUTED, Copies
from sparkcep.compiler.pattern import program as p
from sparkcep.compiler.pattern.epsilon import landing, steps, too_complex
from sparkcep.plan.records import Approx

MAX_NODES = 4096
MAX_EDGES = 100_000
ACCEPT = -1

# columns of ``edges``
E_VAR, E_LABEL, E_TARGET, E_OPEN, E_CHECK, E_NOT, E_AT_START, E_AT_END, E_COST, E_PASSED, E_SAME, E_SIDE, E_HAVE, E_BEGIN = range(14)
E_CHECKS, E_CHECKS_END, E_BLOCKERS, E_BLOCKERS_END = range(14, 18)


class Edge(NamedTuple):
    """A row of ``edges``. A field is zero if it says nothing.

    Attributes:
        variable: the variable that takes the row, or ACCEPT if the edge completes the match.
        label: the label of the row: the variable, with the bit EXCLUDED inside an exclusion.
        target: the node after the row.
        opens: mask of the windows that the row opens.
        inside: mask of the windows that the row must lie in.
        negated: mask of the variables that no row since the last row of the match may satisfy.
        start: 1 if the match must begin at the partition's first row.
        end: mask of the sides that must end at the partition's last row. Side 0 is the whole pattern.
        cost: cost of the match that the edge completes, -1 if it takes a row.
        passed: 1 if SKIP TILL NEXT may also ignore a row that this edge takes (the paper's ignore-proceed).
        same: with ``&``, 1 if the row may be the one taken last.
        side: with ``&``, the side whose last row comes before this row.
        have: with ``&``, mask of the sides that get the row.
        begin: with ``&``, mask of the sides that begin with the row.
        checks, checks_end: the range of the edge's entries in the net's ``checks``.
        blockers, blockers_end: the range of the edge's entries in the net's ``blockers``.
    """

    variable: int
    label: int = 0
    target: int = 0
    opens: int = 0
    inside: int = 0
    negated: int = 0
    start: int = 0
    end: int = 0
    cost: int = -1
    passed: int = 0
    same: int = 0
    side: int = 0
    have: int = 0
    begin: int = 0
    checks: int = 0
    checks_end: int = 0
    blockers: int = 0
    blockers_end: int = 0


class Move(NamedTuple):
    """A move: one way to leave a state, before states have numbers.

    Attributes:
        edge: the edge, still without its target.
        target: the state after the move, None if the match is complete.
        checks: the edge's entries in ``Net.checks``.
        blockers: the edge's entries in ``Net.blockers``, as numbers of the state's moves.
        sources: the edge's entries in ``Net.sources``, with the choices themselves where the net has the rank of the choices.
        place: number of the variable's occurrence in the pattern if occurrences are distinguished, else 0.
    """

    edge: Edge
    target: Hashable = None
    checks: tuple = ()
    blockers: tuple = ()
    sources: tuple = ()
    place: int = 0


@dataclass(frozen=True)
class Net:
    """The nodes and edges of a pattern. All arrays are int64. Node 0 is the start.

    Attributes:
        variables: names of the variables.
        first: (nodes + 1); the edges of node n are ``first[n]`` to ``first[n + 1] - 1``.
        edges: (edges, 18), see :class:`Edge`.
        masks: (nodes); variables that can take the next row.
        blocks: (nodes); those of ``masks`` whose rows SKIP TILL NEXT may not ignore.
        ambiguous: whether one match may be found in several ways.
        checks: (n, 2); with ``&``, pairs (negated variable, side). No row after the side's last row may satisfy the variable.
        blockers: (n); with ``&``, edges whose condition must not hold at a row that is ignored under SKIP TILL NEXT.
        first_source: (edges + 1); the sources of edge e are ``first_source[e]`` to ``first_source[e + 1] - 1``.
        sources: (n, 3); with APPROX, one row for each configuration of the edge's target or for each cheapest completion. With
            ``&`` only edges that complete a match have one.
            Columns: index of the previous configuration in its node, row of ``skipped``, rank of the choices (less is preferred).
        sides: number of sides. The whole pattern is side 0.
        far: (variables); for each variable the mask of the variables in other sides of its conjunctions.
        skipped: lists of the variables that are missing between two configurations, with ``&`` in a match.
        at_cost: for each node, the cost of each configuration.
        copies: the copies of variables under APPROX.
        groups: (variable, text) of each negated group.
        places: (edges); the position in the pattern where an edge takes its row, 0 unless a budget counts positions.
        ways: (edges); with a budget, edges of a node that differ only in cost and conditions share a number.
    """

    variables: tuple[str, ...]
    first: np.ndarray
    edges: np.ndarray
    masks: np.ndarray
    blocks: np.ndarray
    ambiguous: bool
    checks: np.ndarray
    blockers: np.ndarray
    first_source: np.ndarray
    sources: np.ndarray
    sides: int = 1
    far: np.ndarray | None = None
    skipped: tuple[tuple[int, ...], ...] = ()
    at_cost: tuple[tuple[int, ...], ...] = ()
    copies: Copies | None = None
    groups: tuple[tuple[int, str], ...] = ()
    places: np.ndarray | None = None
    ways: np.ndarray | None = None

    @property
    def nodes(self) -> int:
        return len(self.first) - 1

    @property
    def negates(self) -> bool:
        """Whether an edge crosses a negation."""
        return bool(self.edges[:, E_NOT].any() or len(self.checks))

    @property
    def negates_behind(self) -> bool:
        """Whether a negation looks at the rows after the last row of a match."""
        ends = self.edges[self.edges[:, E_VAR] == ACCEPT]
        return bool(ends[:, E_NOT].any() or (ends[:, E_CHECKS] < ends[:, E_CHECKS_END]).any())

    def edges_of(self, node: int) -> range:
        """The numbers of a node's edges."""
        return range(int(self.first[node]), int(self.first[node + 1]))

    def taking(self) -> np.ndarray:
        """The edges that take a row and do not lead to a dead end, with a budget. int64."""
        return np.array([e for e in range(len(self.edges)) if self.edges[e, E_VAR] >= 0 and self.at_cost[self.edges[e, E_TARGET]]], dtype=np.int64)

    def is_dead_end(self, node: int) -> bool:
        """Whether a run ends there without a match, because it took a row of no use that it might not ignore."""
        return self.first[node] == self.first[node + 1]

    def edge(self, e: int) -> Edge:
        """An edge by its number."""
        return Edge(*self.edges[e].tolist())

    def accepts(self) -> np.ndarray:
        """For each node 1 if the match may be complete, 2 if only after the partition's last row, else 0. uint8, shape (nodes,)."""
        out = np.zeros(self.nodes, dtype=np.uint8)
        for node in range(self.nodes):
            ends = [self.edge(e).end for e in self.edges_of(node) if self.edge(e).variable == ACCEPT]
            out[node] = 0 if not ends else 2 if all(ends) else 1
        return out

    def across(self, conditions) -> int:
        """Mask of the variables whose condition reads rows of other sides of ``&``.

        Such a condition is checked on the finished match.
        """
        assert self.far is not None
        mask = 0
        for v, far in enumerate(self.far.tolist()):
            if far and conditions.entry[v] >= 0:
                seen = [int(m) for s, m in enumerate(conditions.slots[:, 1]) if conditions.live[v, s]]
                mask |= any(m == -1 or m & far for m in seen) << v
        return mask

    def skips(self, e: int) -> list[str]:
        """The lists of variables that an edge may skip, as texts. Empty if the edge skips nothing.

        With ``&`` an edge that completes a match has all variables that the match lacks.
        """
        lists = {self.skipped[k] for _, k, _ in self.sources[self.first_source[e] : self.first_source[e + 1]].tolist()}
        texts = sorted(", ".join(self.variables[v] for v in found) or "nothing" for found in lists)
        return [] if texts == ["nothing"] else texts

    def notes(self, e: int, windows: int = -1) -> list[str]:
        """Texts for the constraints on an edge's row beside its condition. ``windows``: mask of the windows to mention."""
        edge = self.edge(e)
        notes = []
        for word, mask in (("opens", edge.opens & windows), ("inside", edge.inside & windows)):
            notes += [f"{word} window {', '.join(str(w) for w in range(mask.bit_length()) if mask >> w & 1)}"] if mask else []
        notes += ["may be the same row"] * edge.same
        if edge.negated:
            names = dict.fromkeys(self._negated(i) for i in range(len(self.variables)) if edge.negated >> i & 1)
            notes.append(f"no {', '.join(names)} since the last row")
        notes += ["first row of the partition"] * edge.start
        for negated, side in self.checks[edge.checks : edge.checks_end].tolist():
            notes.append(f"no {self._negated(negated)} since side {side}'s last row")
        return notes + ["last row of the partition"] * bool(edge.end)

    def _negated(self, variable: int) -> str:
        return dict(self.groups).get(variable, self.variables[variable]).removeprefix("~")

    def dump(self, ignore: str, conditions: tuple[str, ...], approx: Approx | None = None) -> str:
        """A listing of the nodes with their begin, take and ignore edges, like the paper's Figure 2.

        Args:
            ignore: condition of ignore edges, with ``{variables}`` for the variables whose rows may not be ignored.
                Empty if each side has its own condition.
            conditions: the condition of each variable, as text.
            approx: the clause's APPROX, if costs are to be listed as errors.
        """
        lines = []
        for node in range(self.nodes):
            costs = ", ".join(str(approx.errors(c)) for c in sorted(set(self.at_cost[node]))) if approx and node else ""
            lines.append(f"node {node}" + (" (start)" if node == 0 else "") + (f" at cost {costs}" if costs else ""))
            lines += ["  " + self._listed(e, node == 0, conditions, approx) for e in self.edges_of(node)]
            lines += ["  no match"] if self.is_dead_end(node) else []
            if ignore and node and self.masks[node]:
                taken = ", ".join(dict.fromkeys(v or "any row" for i, v in enumerate(self.variables) if self.blocks[node] >> i & 1))
                lines.append(f"  ignore if {ignore.format(variables=taken)}" if taken or "{" not in ignore else "  ignore always")
        return "\n".join(lines)

    def _listed(self, e: int, begins: bool, conditions: tuple[str, ...], approx: Approx | None) -> str:
        edge = self.edge(e)
        notes = "; ".join(self.notes(e))
        if edge.variable == ACCEPT:
            text = "complete"
        else:
            how = f"side {edge.side}:" if self.sides > 1 else "begin" if begins else "take"
            text = f"{how} {self.variables[edge.variable] or 'any row'} -> {edge.target}"
            text += f" if {conditions[edge.variable]}" if conditions[edge.variable] else ""
        text += f" [{notes}]" if notes else ""
        if approx is None or self.copies is None:
            return text
        kind = self.copies.kinds[edge.variable] if edge.variable != ACCEPT else MATCHED
        text += {MATCHED: "", SUBSTITUTED: " (a substitute row)", EXTRA: " (an extra row)"}[kind]
        text += f" [{'skipping' if self.sides == 1 else 'missing'} {' or '.join(skipped)}]" if (skipped := self.skips(e)) else ""
        return text + (f" with {in_words(approx, edge.cost)}" if edge.cost >= 0 else "")


def in_words(approx: Approx, cost: int) -> str:
    """A cost as a number of errors."""
    return f"{approx.errors(cost)} {'error' if approx.errors(cost) == 1 else 'errors'}"


# -- what the makers of moves share -----------------------------------------------------------------------------


class Way(NamedTuple):
    """A path through instructions that has taken no row yet.

    Attributes:
        pc: the instruction it has reached.
        regs: the register word there.
        checks: the negations it has crossed, as (variable, side).
        start: 1 if it has crossed ``^``.
        end: mask of the sides whose ``$`` it has crossed.
    """

    pc: int
    regs: int
    checks: tuple[tuple[int, int], ...] = ()
    start: int = 0
    end: int = 0


def onward(program: p.Program, way: Way, initial: bool, merge: bool, side: int = 0) -> list[Way]:
    """The ways after one epsilon step (an instruction that takes no row). ``initial``: whether the match may still begin here."""
    op, a, _, _ = program.code[way.pc].tolist()
    if op == p.START and not initial:
        return []
    checks = (*way.checks, (a, side)) if op == p.NOT else way.checks
    start, end = way.start | (op == p.START), way.end | (op == p.END) << side
    return [Way(pc, regs, checks, int(start), end) for pc, regs in steps(program, way.pc, way.regs, merge)]


def taking(program: p.Program, pc: int, raised: int) -> tuple[Edge, int, int]:
    """Builds the edge that takes a row at the CHAR ``pc``, given the registers ``raised``.

    Returns:
        The edge, the register bits that its row raises, and the next instruction of the run.
    """
    _, variable, excluded, flags = program.code[pc].tolist()
    around, bits = program.windows[pc], program.window_bits
    opened = sum(1 << w for w in range(len(bits)) if around >> w & 1 and not raised & bits[w])
    flags |= sum(bits[w] for w in range(len(bits)) if opened >> w & 1)
    edge = Edge(variable, variable | (p.EXCLUDED if excluded else 0), opens=opened, inside=around & ~opened)
    return edge, flags, landing(program, pc + 1)


def mask_of(checks: Sequence[tuple[int, int]]) -> int:
    """The variables of negations as a mask."""
    return sum({1 << negated for negated, _ in checks})


# -- the one builder --------------------------------------------------------------------------------------------


def build(
    variables: tuple[str, ...], start: Hashable, moves: Callable[[Hashable, bool], list[Move]], too_large: str, prune: bool = False,
    dead_end: Hashable | None = None,
) -> tuple[Net, list[Hashable]]:
    """Builds the net of all states that can be reached from ``start``.

    Args:
        variables: names of the variables.
        start: the first state.
        moves: returns the moves of a state, given the state and whether it is the first one.
        too_large: message of the error for too many states.
        prune: whether to drop nodes that cannot complete a match.
        dead_end: with ``prune``, under SKIP TILL NEXT, the state without moves. Edges whose row may not be ignored lead there if
            their own target is dropped.

    Returns:
        The net, and the state of each node.

    Raises:
        ClauseError: if the net needs more than ``MAX_NODES`` states or ``MAX_EDGES`` edges.
    """
    numbers: dict[Hashable, int] = {start: 0}
    states, found, edges = [start], [], 0
    for state in states:
        found.append(moves(state, state is start))
        for move in found[-1]:
            if move.edge.variable != ACCEPT and move.target not in numbers:
                numbers[move.target] = len(numbers)
                states.append(move.target)
        edges += len(found[-1])
        if len(states) > MAX_NODES or edges > MAX_EDGES:
            raise too_complex(too_large)
    if prune:
        kept = _completing(found, numbers)
        if dead_end is not None:
            found, states, kept = _with_dead_ends(found, numbers, states, kept, dead_end)
        states = [state for i, state in enumerate(states) if i == 0 or kept[i]]
        found = [
            [m for m in out if m.edge.variable == ACCEPT or kept[numbers[m.target]]] for i, out in enumerate(found) if i == 0 or kept[i]
        ]
        numbers = {state: i for i, state in enumerate(states)}
    return _arrays(variables, found, numbers), states


def _with_dead_ends(
    found: list[list[Move]], numbers: dict[Hashable, int], states: list[Hashable], kept: list[bool], dead_end: Hashable
) -> tuple[list[list[Move]], list[Hashable], list[bool]]:
    """The moves, states and kept states, with moves to dropped states led to ``dead_end`` if their rows may not be ignored."""

    def led(move: Move) -> Move:
        dropped = move.edge.variable != ACCEPT and not kept[numbers[move.target]]
        return Move(move.edge, dead_end) if dropped and not move.edge.passed else move

    found = [out if i == 0 else list(dict.fromkeys(map(led, out))) for i, out in enumerate(found)]
    used = any(move.target == dead_end for i, out in enumerate(found) if i == 0 or kept[i] for move in out)
    if dead_end not in numbers:
        numbers[dead_end] = len(states)
        found, states, kept = [*found, []], [*states, dead_end], [*kept, False]
    kept = [used if state == dead_end else keep for state, keep in zip(states, kept)]
    return found, states, kept


def _arrays(variables: tuple[str, ...], found: list[list[Move]], numbers: dict[Hashable, int]) -> Net:
    table: list[Edge] = []
    first, masks, blocks, places = [0], [], [], []
    checks, blockers, found_sources, first_source = [], [], [], [0]
    ambiguous = False
    for out in found:
        node = len(table)
        taken = [m.edge.variable for m in out if m.edge.variable != ACCEPT]
        ambiguous |= len(set(taken)) < len(taken)
        for move in out:
            target = 0 if move.edge.variable == ACCEPT else numbers[move.target]
            spans = (len(checks), len(checks) + len(move.checks), len(blockers), len(blockers) + len(move.blockers))
            table.append(Edge(*move.edge._replace(target=target)[:-4], *spans))
            places.append(move.place)
            checks += move.checks
            blockers += [node + i for i in move.blockers]
            found_sources += move.sources
            first_source.append(len(found_sources))
        first.append(len(table))
        masks.append(sum({1 << v for v in taken}))
        blocks.append(sum({1 << m.edge.variable for m in out if m.edge.variable != ACCEPT and not m.edge.passed}))
    ranks = {choices: rank for rank, choices in enumerate(sorted({choices for _, _, choices in found_sources}))}
    sources = [(i, skipped, ranks[choices]) for i, skipped, choices in found_sources]
    return Net(
        variables=variables,
        first=np.array(first, dtype=np.int64),
        edges=np.array(table, dtype=np.int64).reshape(-1, len(Edge._fields)),
        masks=np.array(masks, dtype=np.int64),
        blocks=np.array(blocks, dtype=np.int64),
        checks=np.array(checks, dtype=np.int64).reshape(-1, 2),
        blockers=np.array(blockers, dtype=np.int64),
        sources=np.array(sources, dtype=np.int64).reshape(-1, 3),
        ambiguous=ambiguous,
        first_source=np.array(first_source, dtype=np.int64),
        places=np.array(places, dtype=np.int64),
    )


def _completing(found: list[list[Move]], numbers: dict[Hashable, int]) -> list[bool]:
    """For each node, whether a match can be completed from it."""
    before: list[list[int]] = [[] for _ in found]
    alive = [any(m.edge.variable == ACCEPT for m in out) for out in found]
    for node, out in enumerate(found):
        for move in out:
            if move.edge.variable != ACCEPT:
                before[numbers[move.target]].append(node)
    todo = [node for node in range(len(found)) if alive[node]]
    while todo:
        for node in before[todo.pop()]:
            if not alive[node]:
                alive[node] = True
                todo.append(node)
    return alive


def rows_of_match(automaton: Net) -> int | None:
    """How many rows each match has. None if matches differ in length."""
    depth = {0: 0}
    todo, ends = [0], set()
    while todo:
        node = todo.pop()
        for e in automaton.edges_of(node):
            if automaton.edges[e, E_VAR] == ACCEPT:
                ends.add(depth[node])
                continue
            target = int(automaton.edges[e, E_TARGET])
            if target not in depth:
                depth[target] = depth[node] + 1
                todo.append(target)
            elif depth[target] != depth[node] + 1:
                return None
    return ends.pop() if len(ends) == 1 else None
