"""The net: nodes and edges of a row pattern whose rows need not be adjacent, as read-only numpy arrays.

It is the NFAb of SASE+ (SIGMOD 2008, section 3) with its epsilon moves resolved. A node is what is left to match after a row was
taken. Its edges stand in preference order; each takes one row (the paper's begin and take edges; proceed edges are resolved into
them, so that the begin condition of the next state is looked at before proceeding, as its step 6 asks), or completes the match. The
ignore edge belongs to the strategy and has no entry here: never (STRICT), when no edge of the node that is not passed accepts the
row (NEXT), always (ANY). Windows are pushed to every edge (steps 4 and 5): an edge names the windows its row opens and those it
must lie in.

Who makes the moves of a node differs: compiler/net/gap_net.py for plain patterns, compiler/net/skip_net.py where variables may be
skipped, and compiler/net/conjunction.py for patterns with sides. :func:`build` turns the moves of any of them into one table.
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
    """A row of ``edges``, which are zero where they say nothing: the ``variable`` that takes the row, or ACCEPT; its ``label``; the
    ``target`` node; the masks of windows that the row ``opens`` and must be ``inside`` of, and of variables of which no row may
    stand behind the last row (``negated``); ``start``: whether the match must begin at the partition's first row; ``end``: the
    sides whose last row must be the partition's last one, side 0 being the whole pattern; the ``cost`` of the match that is
    completed, -1 where a row is taken; whether SKIP TILL NEXT may also pass over a row that the edge takes (``passed``: the paper's
    ignore-proceed). With ``&``: whether the row may be the one taken last (``same``); the ``side`` whose last row the edge is
    behind; the sides that ``have`` the row, and those that ``begin`` with it; where its ``checks`` and ``blockers`` stand in those
    of the net."""

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
    """A way on from a state: the edge, but for its target; the state behind it (nothing where the match is complete); and what
    belongs to the lists of the edge: ``checks``; ``blockers``, as numbers of the state's moves; ``sources``, with the choices
    themselves where the net has their rank. ``place``: the number of the variable's occurrence in the pattern, where that
    counts."""

    edge: Edge
    target: Hashable = None
    checks: tuple = ()
    blockers: tuple = ()
    sources: tuple = ()
    place: int = 0


@dataclass(frozen=True)
class Net:
    """``first`` int64 (nodes + 1): edges of each node, of which node 0 is the start; ``edges`` int64 (m, 18), see :class:`Edge`;
    ``masks`` int64 (nodes): the variables that can be taken; ``blocks`` int64 (nodes): of these, those whose rows SKIP TILL NEXT
    may not ignore; ``ambiguous``: one match may be found in several ways.

    With ``&``: ``checks`` are (negated variable, side) pairs, no row of which may stand behind the side's last one, and
    ``blockers`` the edges whose condition may not hold at a row that an edge passes over under SKIP TILL NEXT.
    ``sides``: their number, the whole pattern being side 0; ``far`` int64 (variables): variables of the other sides.

    With APPROX: the ``sources`` of an edge tell what led to each configuration of its target, or to each cheapest way to complete:
    the place of the configuration before it in its node, a row of ``skipped`` (the variables missing between the two), and the rank
    of the choices made on the way (less is preferred). ``at_cost``: the costs of each node's configurations; ``copies``: what the
    variables are copies of. With a budget ``places`` int64 (m): the place of the pattern at which an edge takes its row, and
    ``ways`` int64 (m): edges of a node that differ in nothing but cost and conditions have one number.

    ``groups``: the texts of negated groups by their names, of which no match may stand there."""

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
        """Whether a negation looks at the rows behind the last one of a match."""
        ends = self.edges[self.edges[:, E_VAR] == ACCEPT]
        return bool(ends[:, E_NOT].any() or (ends[:, E_CHECKS] < ends[:, E_CHECKS_END]).any())

    def edges_of(self, node: int) -> range:
        """The numbers of a node's edges."""
        return range(int(self.first[node]), int(self.first[node + 1]))

    def edge(self, e: int) -> Edge:
        """An edge by its number."""
        return Edge(*self.edges[e].tolist())

    def accepts(self) -> np.ndarray:
        """uint8 (nodes): 1 where the match may be complete, 2 where only behind the partition's last row."""
        out = np.zeros(self.nodes, dtype=np.uint8)
        for node in range(self.nodes):
            ends = [self.edge(e).end for e in self.edges_of(node) if self.edge(e).variable == ACCEPT]
            out[node] = 0 if not ends else 2 if all(ends) else 1
        return out

    def across(self, conditions) -> int:
        """Mask of the variables whose condition looks across ``&``, and is judged by the finished match."""
        assert self.far is not None
        mask = 0
        for v, far in enumerate(self.far.tolist()):
            if far and conditions.entry[v] >= 0:
                seen = [int(m) for s, m in enumerate(conditions.slots[:, 1]) if conditions.live[v, s]]
                mask |= any(m == -1 or m & far for m in seen) << v
        return mask

    def skips(self, e: int) -> list[str]:
        """The lists of variables that an edge may skip, as texts; none where it skips nothing."""
        lists = {self.skipped[k] for _, k, _ in self.sources[self.first_source[e] : self.first_source[e + 1]].tolist()}
        texts = sorted(", ".join(self.variables[v] for v in found) or "nothing" for found in lists)
        return [] if texts == ["nothing"] else texts

    def notes(self, e: int, windows: int = -1) -> list[str]:
        """What is asked of the row of an edge beside its condition; ``windows``: mask of those that are spoken of."""
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
        """The nodes with their begin, take and ignore edges, as the paper's Figure 2 lists them.

        ``ignore``: the condition of ignore edges, ``{variables}`` standing for those whose rows may not be ignored, or nothing
        where each side has its own; ``conditions``: of each variable.
        """
        lines = []
        for node in range(self.nodes):
            costs = ", ".join(str(approx.errors(c)) for c in sorted(set(self.at_cost[node]))) if approx and node else ""
            lines.append(f"node {node}" + (" (start)" if node == 0 else "") + (f" at cost {costs}" if costs else ""))
            lines += ["  " + self._listed(e, node == 0, conditions, approx) for e in self.edges_of(node)]
            if ignore and node and self.masks[node]:
                taken = ", ".join(v or "any row" for i, v in enumerate(self.variables) if self.blocks[node] >> i & 1)
                lines.append(f"  ignore if {ignore.format(variables=taken)}")
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
        text += {MATCHED: "", SUBSTITUTED: " (a row that stands for it)", EXTRA: " (an extra row)"}[kind]
        text += f" [skipping {' or '.join(skipped)}]" if (skipped := self.skips(e)) else ""
        return text + (f" with {in_words(approx, edge.cost)}" if edge.cost >= 0 else "")


def in_words(approx: Approx, cost: int) -> str:
    """A cost as a number of errors."""
    return f"{approx.errors(cost)} {'error' if approx.errors(cost) == 1 else 'errors'}"


# -- what the makers of moves share -----------------------------------------------------------------------------


class Way(NamedTuple):
    """Where a way stands that has taken no row yet: instruction and registers, the negations that it has crossed as (variable,
    side), whether it has crossed ``^``, and the sides in which it has crossed ``$``."""

    pc: int
    regs: int
    checks: tuple[tuple[int, int], ...] = ()
    start: int = 0
    end: int = 0


def onward(program: p.Program, way: Way, initial: bool, merge: bool, side: int = 0) -> list[Way]:
    """What an instruction without a row leads to; ``initial``: whether the match may still begin here."""
    op, a, _, _ = program.code[way.pc].tolist()
    if op == p.START and not initial:
        return []
    checks = (*way.checks, (a, side)) if op == p.NOT else way.checks
    start, end = way.start | (op == p.START), way.end | (op == p.END) << side
    return [Way(pc, regs, checks, int(start), end) for pc, regs in steps(program, way.pc, way.regs, merge)]


def taking(program: p.Program, pc: int, raised: int) -> tuple[Edge, int, int]:
    """The edge by which the CHAR at ``pc`` takes a row, the register bits that the row raises, and where the run goes on;
    ``raised``: the registers."""
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
    variables: tuple[str, ...], start: Hashable, moves: Callable[[Hashable, bool], list[Move]], too_large: str, prune: bool = False
) -> tuple[Net, list[Hashable]]:
    """The net of all states that ``moves`` leads to from ``start``, and the state of each node; ``moves`` is given a state and
    whether it is the first one. ``too_large``: the error where it has too many states; ``prune``: without the nodes from which no
    match can be completed."""
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
        states = [state for i, state in enumerate(states) if i == 0 or kept[i]]
        found = [
            [m for m in out if m.edge.variable == ACCEPT or kept[numbers[m.target]]] for i, out in enumerate(found) if i == 0 or kept[i]
        ]
        numbers = {state: i for i, state in enumerate(states)}
    return _arrays(variables, found, numbers), states


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
    """Of each node, whether a match can be completed from it."""
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
    """How many rows each match has; None where they differ."""
    depth = {0: 0}
    todo, ends = [0], set()
    while todo:
        node = todo.pop()
        for e in range(int(automaton.first[node]), int(automaton.first[node + 1])):
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
