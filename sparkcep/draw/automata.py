"""The graph of a clause's automaton, for each engine: what is drawn and nothing about how."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from sparkcep.automaton import program as p
from sparkcep.automaton.approximate import Approximate
from sparkcep.automaton.conjunction import AT_END as SIDE_AT_END
from sparkcep.automaton.conjunction import (
    C_CHECK,
    C_CHECKS,
    C_OPEN,
    C_SAME,
    C_SCOPE,
    C_TARGET,
    C_VAR,
    C_WHERE,
    Conjunction,
)
from sparkcep.automaton.guesses import EXTRA, MATCHED, SUBSTITUTED
from sparkcep.automaton.selection import (
    ACCEPT,
    AT_END,
    AT_START,
    E_CHECK,
    E_NOT,
    E_OPEN,
    E_TARGET,
    E_VAR,
    E_WHERE,
    Selection,
)
from sparkcep.automaton.strategy import strategy_of
from sparkcep.clause.lexer import tokenize
from sparkcep.clause.nodes import quantifier
from sparkcep.clause.tree import MatchClause
from sparkcep.draw.graph import COMPLETE, IGNORE, TAKE, Edge, Graph, State
from sparkcep.plan.plan import Plan
from sparkcep.sql.describe import STRATEGIES, condition_texts, window_texts

MAX_STATES = 200  # drawn; an automaton may have thousands
MAX_EDGES = 2000

_FIRST_ROW, _LAST_ROW = "first row of the partition", "last row of the partition"


def graph_of(plan: Plan, clause: MatchClause) -> Graph:
    """The automaton that the engine of ``plan`` runs. ``clause``: as written, for the texts of its conditions.

    Raises ClauseError where the automaton is too large to be built, as the engine does.
    """
    written = {d.variable.lower(): _one_line(d.condition.span.of(clause.text)) for d in clause.defines}
    texts = tuple(written.get(v.lower(), "") for v in plan.variables)
    strategy = strategy_of(plan)
    if strategy.approximate is not None:
        graph = _approximate(plan, strategy.plan, strategy.approximate, texts)
    elif strategy.conjunction is not None:
        graph = _conjunction(plan, strategy.conjunction, texts)
    elif strategy.selection is not None:
        graph = _selection(plan, strategy.selection, plan.variables, texts, f"event selection, {STRATEGIES[plan.selection.strategy]}")
    else:
        graph = _exact(strategy.program, texts)
    legend = [(v, text) for v, text in zip(plan.variables, texts) if text]
    legend += [("any row", ", ".join(free))] if (free := [v for v, text in zip(plan.variables, texts) if not text]) else []
    legend += window_texts(plan)
    return _cut(replace(graph, legend=tuple(legend)))


def _one_line(text: str) -> str:
    """The text without comments and line breaks."""
    out, end = "", 0
    for token in tokenize(text):
        out += (" " if token.start > end and out else "") + token.text
        end = token.end
    return out.strip()


def _cut(graph: Graph) -> Graph:
    kept = min(len(graph.states), MAX_STATES)
    edges = tuple(e for e in graph.edges if max(e.source, e.target) < kept)
    while len(edges) > MAX_EDGES:
        kept = max(1, kept * 3 // 4)
        edges = tuple(e for e in edges if max(e.source, e.target) < kept)
    return replace(graph, states=graph.states[:kept], edges=edges, left_out=graph.left_out + len(graph.states) - kept)


def _ordered(edges: list[Edge]) -> list[Edge]:
    """The edges of one state with their places in its order of preference, where there is a choice."""
    return [replace(e, order=i) for i, e in enumerate(edges, 1)] if len(edges) > 1 else edges


def _completing(edges: list[Edge]) -> list[Edge]:
    """Without the edge to completion where a state says no more than that."""
    return [] if len(edges) == 1 and edges[0].kind == COMPLETE and not edges[0].notes else edges


# -- the exact engine: a state for each instruction that takes rows ------------------------------------------------


def _exact(program: p.Program, texts: tuple[str, ...]) -> Graph:
    walk = _Walk(program)
    places = [-1, *(pc for pc, op in enumerate(program.code[:, 0].tolist()) if op in (p.CHAR, p.RUN))]
    number = {pc: i for i, pc in enumerate(places)}
    states, edges = [], []
    for state, pc in enumerate(places[:MAX_STATES]):
        found = []
        for target, notes in walk.ways(pc):
            if target == _COMPLETE:
                found.append(Edge(state, state, COMPLETE, "complete", notes=notes))
                continue
            variable, name, excluded = walk.taker(target)
            notes += ("left out of ALL ROWS",) if excluded else ()
            found.append(Edge(state, number[target], TAKE, name, texts[variable], notes))
        states.append(State(str(state), complete=any(e.kind == COMPLETE for e in found)))
        edges += _completing(_ordered(found))
    return Graph("exact matching, adjacent rows", tuple(states), tuple(edges), left_out=len(places) - len(states))


_COMPLETE = -1


class _Walk:
    """The instructions between two rows, with counters and permutations as notes instead of numbers."""

    def __init__(self, program: p.Program) -> None:
        self.program = program
        self.code = program.code.tolist()

    def taker(self, pc: int) -> tuple[int, str, bool]:
        """(variable, its name with its quantifier, whether in an exclusion) of an instruction that takes rows."""
        op, a, excluded, _ = self.code[pc]
        if op == p.CHAR:
            return a, self.program.variables[a], bool(excluded)
        variable, excluded, _, low, high, greedy = self.program.runs[a].tolist()
        return variable, self.program.variables[variable] + _quantifier(low, high, greedy), bool(excluded)

    def ways(self, pc: int) -> list[tuple[int, tuple[str, ...]]]:
        """(instruction that takes the next row, or _COMPLETE; notes) in preference order, after a row taken at ``pc``; from the
        beginning where ``pc`` is -1."""
        after = self._follow(pc + 1, pc < 0)
        if pc < 0 or self.code[pc][0] != p.RUN:
            return _distinct(after)
        _, _, _, low, high, greedy = self.program.runs[self.code[pc][1]].tolist()
        again = [] if high == 1 else [(pc, ())]
        enough = f"after {low} rows" if high != low else f"after all {low} rows"
        after = [(target, (enough, *notes) if low > 1 else notes) for target, notes in after]
        return _distinct([*again, *after] if greedy else [*after, *again])

    def _follow(self, pc: int, initial: bool) -> list[tuple[int, tuple[str, ...]]]:
        out: list[tuple[int, tuple[str, ...]]] = []
        stack: list[tuple] = [(pc, frozenset(), (), False)]
        seen = set()
        while stack:
            pc, known, notes, take = stack.pop()
            if take:
                out.append((pc, notes))
                continue
            if (pc, known) in seen:
                continue
            seen.add((pc, known))
            op, a, *_ = self.code[pc]
            if op == p.MATCH:
                out.append((_COMPLETE, notes))
            elif op == p.CHAR:
                stack += [(pc, known, notes, True)] * (_LAST_ROW not in notes)
            elif op == p.RUN:
                _, _, _, low, _, greedy = self.program.runs[a].tolist()
                ways = [(pc, known, notes, True)] * (_LAST_ROW not in notes)
                without = [(pc + 1, known, notes, False)] * (low == 0)
                stack += reversed(ways + without if greedy else without + ways)
            else:
                stack += reversed([(*step, False) for step in self._steps(pc, known, notes, initial)])
        return out

    def _steps(self, pc: int, known: frozenset, notes: tuple[str, ...], initial: bool) -> Iterator[tuple]:
        op, a, b, _ = self.code[pc]
        if op == p.SPLIT:
            yield a, known, notes
            yield b, known, notes
        elif op == p.JUMP:
            if self.code[a][0] == p.PERM:
                known |= {("done", self.code[a][1], self._element(self.code[a][1], pc))}
            yield a, known, notes
        elif op == p.START:
            if initial:
                yield pc + 1, known, (*notes, _FIRST_ROW)
        elif op == p.END:
            yield pc + 1, known, (*notes, _LAST_ROW)
        elif op == p.INIT:
            yield pc + 1, known - {("again", a)} | {("fresh", a)}, notes
        elif op == p.NEXT:
            yield b, known - {("fresh", a)} | {("again", a)}, notes
        elif op == p.LOOP:
            yield from self._loop(pc, known, notes)
        elif op == p.PINIT:
            yield pc + 1, known | {("none", a)}, notes
        else:
            yield from self._permutation(pc, known, notes)

    def _loop(self, pc: int, known: frozenset, notes: tuple[str, ...]) -> Iterator[tuple]:
        _, a, leave, _ = self.code[pc]
        low, high, greedy, *_ = self.program.loops[a].tolist()
        bounds = low > 1 or high > 1
        again = (f"another round of {_quantifier(low, high, greedy)}",) if bounds else ()
        done = (f"rounds of {_quantifier(low, high, greedy)} done",) if bounds else ()
        first = ("fresh", a) in known
        rest = known - {("fresh", a), ("again", a)}
        inside = [] if not first and high == 1 else [(pc + 1, rest, notes if first else notes + again)]
        outside = [] if first and low else [(leave, rest, notes if first else notes + done)]
        yield from inside + outside if greedy else outside + inside

    def _permutation(self, pc: int, known: frozenset, notes: tuple[str, ...]) -> Iterator[tuple]:
        _, a, leave, _ = self.code[pc]
        _, count, at, _ = self.program.perms[a].tolist()
        done = {e for kind, perm, *rest in known if kind == "done" and perm == a for e in rest}
        rest = frozenset(k for k in known if k[1] != a or k[0] not in ("done", "none"))
        fresh = ("none", a) in known and not done
        for i, target in enumerate(self.program.targets[at : at + count].tolist()):
            if i not in done:
                yield target, rest, notes if fresh else (*notes, "a part not yet done")
        if not fresh:
            yield leave, rest, (*notes, "all parts done")

    def _element(self, perm: int, pc: int) -> int:
        _, count, at, _ = self.program.perms[perm].tolist()
        return max(i for i, target in enumerate(self.program.targets[at : at + count].tolist()) if target <= pc)


def _quantifier(low: int, high: int, greedy: int) -> str:
    return quantifier(low, None if high < 0 else high) + ("" if greedy else "?")


def _distinct(ways: list[tuple[int, tuple[str, ...]]]) -> list[tuple[int, tuple[str, ...]]]:
    """Each target once for each set of notes; behind an unconditional one the same target adds nothing."""
    out: list[tuple[int, tuple[str, ...]]] = []
    for target, notes in ways:
        if (target, ()) not in out and (target, notes) not in out:
            out.append((target, notes))
    return out


# -- event selection ----------------------------------------------------------------------------------------------


def _selection(
    plan: Plan, automaton: Selection, names: tuple[str, ...], texts: tuple[str, ...], title: str,
    state_notes: tuple[str, ...] = (), edge_notes: tuple[tuple[str, ...], ...] = (),
) -> Graph:
    bounds = _bounds(plan)
    states, edges = [], []
    for node in range(automaton.nodes):
        found = []
        for e in range(automaton.first[node], automaton.first[node + 1]):
            edge = automaton.edges[e].tolist()
            notes = (edge_notes[e] if edge_notes else ()) + tuple(_edge_notes(edge, names, bounds))
            if edge[E_VAR] == ACCEPT:
                found.append(Edge(node, node, COMPLETE, "complete", notes=notes))
            else:
                v = edge[E_VAR]
                found.append(Edge(node, edge[E_TARGET], TAKE, names[v], texts[v], notes))
        states.append(State(str(node), state_notes[node] if state_notes else "", any(e.kind == COMPLETE for e in found)))
        edges += _completing(_ordered(found))
        mask = int(automaton.masks[node])
        if node and mask and plan.selection.strategy != "STRICT":
            taken = dict.fromkeys(name for v, name in enumerate(names) if mask >> v & 1)
            what = "any row" if plan.selection.strategy == "ANY" else f"unless {' or '.join(taken)}"
            edges.append(Edge(node, node, IGNORE, f"ignore {what}"))
    return Graph(title, tuple(states), tuple(edges))


def _bounds(plan: Plan) -> int:
    """Mask of the windows that have a size."""
    return sum(1 << i for i, (kind, *_) in enumerate(plan.windows) if kind != "none")


def _edge_notes(edge: list[int], names: tuple[str, ...], bounds: int) -> Iterator[str]:
    yield from _windows(edge[E_OPEN] & bounds, edge[E_CHECK] & bounds)
    if edge[E_NOT]:
        yield "no " + ", ".join(dict.fromkeys(name for v, name in enumerate(names) if edge[E_NOT] >> v & 1)) + " since the last row"
    if edge[E_WHERE] & AT_START:
        yield _FIRST_ROW
    if edge[E_WHERE] & AT_END:
        yield _LAST_ROW


def _windows(opened: int, inside: int) -> Iterator[str]:
    for word, mask in (("opens", opened), ("inside", inside)):
        if mask:
            yield f"{word} window {', '.join(str(w) for w in range(mask.bit_length()) if mask >> w & 1)}"


def _conjunction(plan: Plan, automaton: Conjunction, texts: tuple[str, ...]) -> Graph:
    names, bounds = automaton.variables, _bounds(plan)
    states, edges = [], []
    for node in range(automaton.nodes):
        found = []
        for e in range(automaton.first[node], automaton.first[node + 1]):
            edge = automaton.edges[e].tolist()
            notes = [f"side {edge[C_SCOPE]}"] if edge[C_SCOPE] else []
            notes += _windows(edge[C_OPEN] & bounds, edge[C_CHECK] & bounds)
            notes += ["may be the same row"] * edge[C_SAME] + [_FIRST_ROW] * bool(edge[C_WHERE])
            for negated, side in automaton.checks[edge[C_CHECKS] : automaton.edges[e + 1, C_CHECKS]].tolist():
                notes.append(_LAST_ROW if negated == SIDE_AT_END else f"no {names[negated]} since side {side}'s last row")
            v = edge[C_VAR]
            if v == ACCEPT:
                found.append(Edge(node, node, COMPLETE, "complete", notes=tuple(notes)))
            else:
                found.append(Edge(node, edge[C_TARGET], TAKE, names[v], texts[v], tuple(notes)))
        states.append(State(str(node), complete=any(e.kind == COMPLETE for e in found)))
        edges += _completing(_ordered(found))
    passed = "any row may be passed over" if plan.selection.strategy == "ANY" else "each side passes over rows that it could not take"
    return Graph(f"conjunction, {STRATEGIES[plan.selection.strategy]}: {passed}", tuple(states), tuple(edges))


# -- approximate matches ------------------------------------------------------------------------------------------

_KINDS = {MATCHED: (), SUBSTITUTED: ("a row that stands for it",), EXTRA: ("a row too many",)}


def _approximate(plan: Plan, copied: Plan, automaton: Approximate, texts: tuple[str, ...]) -> Graph:
    """``copied``: the plan with copies of its variables."""
    approx, copies = plan.approximate, automaton.copies
    assert approx is not None
    inputs = dict(plan.inputs)
    known = tuple(re.sub(r"\b__[cpo]\d+\b", lambda m: inputs.get(m[0], m[0]), text) for text in condition_texts(copied))
    # a copy with all of its conjuncts reads as the user wrote it
    written = tuple(
        "" if kind != MATCHED else texts[v] if c == v or known[c] == known[v] else known[c]
        for c, (v, kind) in enumerate(zip(copies.original, copies.kinds))
    )
    names = tuple(name or "any row" for name in copied.variables)
    costs = [sorted(set(found)) for found in automaton.at_cost]
    titles = tuple(f"cost {', '.join(str(approx.errors(c)) for c in found)}" if node else "" for node, found in enumerate(costs))
    edge_notes = tuple(_cost_notes(automaton, e, copied.variables, approx) for e in range(len(automaton.costs)))
    title = f"approximate, {STRATEGIES[plan.selection.strategy]}, cost at most {approx.errors(approx.bound)}"
    return _selection(plan, automaton.selection, names, written, title, titles, edge_notes)


def _cost_notes(automaton: Approximate, e: int, names: tuple[str, ...], approx) -> tuple[str, ...]:
    notes = []
    cost = int(automaton.costs[e])
    if cost < 0:
        notes += _KINDS[automaton.copies.kinds[int(automaton.selection.edges[e, E_VAR])]]
    lists = {automaton.skipped[k] for _, k, _ in automaton.sources[automaton.first_source[e] : automaton.first_source[e + 1]].tolist()}
    skipped = sorted(", ".join(names[v] for v in found) or "nothing" for found in lists)
    if skipped != ["nothing"]:
        notes.append(f"skips {' or '.join(skipped)}")
    if cost >= 0:
        notes.append(f"{approx.errors(cost)} {'error' if approx.errors(cost) == 1 else 'errors'}")
    return tuple(notes)
