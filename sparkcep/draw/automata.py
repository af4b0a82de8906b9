"""Builds the graph of a clause's automaton, for each search: its content, without layout.

``explain`` and reports draw it with :mod:`sparkcep.draw.arcs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from sparkcep.clause.automaton import ROW
from sparkcep.clause.expressions import Expr
from sparkcep.clause.nodes import quantifier
from sparkcep.clause.printer import STRATEGIES
from sparkcep.clause.tokens import one_line
from sparkcep.clause.tree import MatchClause
from sparkcep.compiler.net.net import ACCEPT, Net, in_words
from sparkcep.compiler.net.variable_copies import EXTRA, MATCHED, SUBSTITUTED
from sparkcep.compiler.pattern import program as p
from sparkcep.compiler.pattern.epsilon import BEGIN, DONE, ELEMENT, LEAVE, ROUND, choices
from sparkcep.compiler.strategy import strategy_of
from sparkcep.draw.graph import COMPLETE, IGNORE, TAKE, Edge, Graph, State
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Automaton
from sparkcep.sql.explain.describe import condition_texts, window_texts

MAX_STATES = 200  # states that are drawn; an automaton may have thousands
MAX_EDGES = 2000

_FIRST_ROW, _LAST_ROW = "first row of the partition", "last row of the partition"


def graph_of(plan: Plan, clause: MatchClause) -> Graph:
    """Returns the graph of the automaton that the engine of ``plan`` runs. ``clause`` provides the texts of its conditions.

    Raises ClauseError, as the engine does, if the automaton is too large to build.
    """
    written = {d.variable.lower(): one_line(d.condition.span.of(clause.text)) for d in clause.defines}
    texts = tuple(written.get(v.lower(), "") for v in plan.variables)
    strategy = strategy_of(plan)
    if plan.automaton is not None:
        return _cut(_of_automaton(plan, plan.automaton, clause))
    if plan.approximate is not None:
        graph = _approximate(plan, strategy.plan, strategy.automaton, texts)
    elif strategy.conjoined:
        passed = "any row may be skipped" if plan.selection.strategy == "ANY" else "each side skips rows that it could not take"
        graph = _of_net(plan, strategy.automaton, texts, f"conjunction, {STRATEGIES[plan.selection.strategy]}: {passed}")
    elif strategy.net is not None:
        graph = _of_net(plan, strategy.net, texts, f"event selection, {STRATEGIES[plan.selection.strategy]}")
    else:
        graph = _exact(strategy.program, texts)
    legend = [(v, text) for v, text in zip(plan.variables, texts) if text]
    legend += [("any row", ", ".join(free))] if (free := [v for v, text in zip(plan.variables, texts) if not text]) else []
    legend += window_texts(plan)
    return _cut(replace(graph, legend=tuple(legend)))


def _of_automaton(plan: Plan, automaton: Automaton, clause: MatchClause) -> Graph:
    """Returns the graph of states and arcs as written, the start first."""
    numbers = [automaton.start, *(n for n in range(len(automaton.states)) if n != automaton.start)]
    place = {number: i for i, number in enumerate(numbers)}
    states = tuple(State(automaton.states[n], complete=n in automaton.final) for n in numbers)

    def text(expr: Expr) -> str:
        return one_line(expr.span.of(clause.text))

    leaving: list[list[Edge]] = [[] for _ in numbers]
    for arc, written in zip(automaton.arcs, clause.automaton.arcs, strict=True):
        notes = [f"on {arc.on}"] if arc.on != ROW else []
        notes += [f"{s.register} := {text(s.value)}" for s in written.sets] + [f"emit {text(e.value)} as {e.name}" for e in written.emits]
        source, target = place[arc.source], place[arc.target]
        name = written.name or ("row" if arc.on == ROW else "no row")
        name += "" if written.parameters is None else f"({', '.join(parameter.name for parameter in written.parameters)})"
        leaving[source].append(Edge(source, target, TAKE, name, text(written.when) if written.when else "", tuple(notes)))
    edges = tuple(edge for found in leaving for edge in _ordered(found))
    registers = [(r.name, " ".join([r.type.upper() if w.like is None else f"LIKE ({text(w.like)})", *(["=", text(w.initial)] if w.initial else [])])) for r, w in zip(automaton.registers, clause.automaton.registers)]
    return Graph("automaton: all matches, adjacent rows", states, edges, (*registers, *window_texts(plan)))


def _cut(graph: Graph) -> Graph:
    kept = min(len(graph.states), MAX_STATES)
    edges = tuple(e for e in graph.edges if max(e.source, e.target) < kept)
    while len(edges) > MAX_EDGES:
        kept = max(1, kept * 3 // 4)
        edges = tuple(e for e in edges if max(e.source, e.target) < kept)
    return replace(graph, states=graph.states[:kept], edges=edges, left_out=graph.left_out + len(graph.states) - kept)


def _ordered(edges: list[Edge]) -> list[Edge]:
    """Numbers the edges of one state by preference if there are several."""
    return [replace(e, order=i) for i, e in enumerate(edges, 1)] if len(edges) > 1 else edges


def _completing(edges: list[Edge]) -> list[Edge]:
    """Returns [] if the state's only edge just completes the match, which the state itself shows."""
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
    """The instructions between two rows. Counters and permutations become notes instead of numbers."""

    def __init__(self, program: p.Program) -> None:
        self.program = program
        self.code = program.code.tolist()

    def taker(self, pc: int) -> tuple[int, str, bool]:
        """Returns (variable, its name with its quantifier, whether in an exclusion) of an instruction that takes rows."""
        op, a, excluded, _ = self.code[pc]
        if op == p.CHAR:
            return a, self.program.variables[a], bool(excluded)
        variable, excluded, _, low, high, greedy = self.program.runs[a].tolist()
        return variable, self.program.variables[variable] + _quantifier(low, high, greedy), bool(excluded)

    def ways(self, pc: int) -> list[tuple[int, tuple[str, ...]]]:
        """Returns the ways from an instruction to the next row, in preference order.

        Each way is (instruction that takes the row, or _COMPLETE; notes). A row was just taken at ``pc``; -1 is the beginning.
        """
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
        op, a, *_ = self.code[pc]
        if op == p.START and not initial:
            return
        if op == p.JUMP and self.code[a][0] == p.PERM:
            known |= {("done", self.code[a][1], self._element(self.code[a][1], pc))}
        crossed = {p.START: (_FIRST_ROW,), p.END: (_LAST_ROW,)}.get(op, ())
        after = {p.INIT: self._looped, p.NEXT: self._looped, p.LOOP: self._looped, p.PINIT: self._permuted, p.PERM: self._permuted}.get(op)
        for target, what in choices(self.program, pc):
            found = after(a, what, known) if after is not None else (known, crossed)
            if found is not None:
                yield target, found[0], notes + found[1]

    def _looped(self, loop: int, what: int, known: frozenset) -> tuple[frozenset, tuple[str, ...]] | None:
        """Returns the facts and notes after a way of a loop. Returns None if the way is impossible."""
        low, high, greedy, *_ = self.program.loops[loop].tolist()
        first = ("fresh", loop) in known
        rest = known - {("fresh", loop), ("again", loop)}
        if what in (BEGIN, DONE):
            return rest | {("fresh" if what == BEGIN else "again", loop)}, ()
        if (high == 1 and not first) if what == ROUND else (low and first):
            return None
        rounds = _quantifier(low, high, greedy)
        note = f"another round of {rounds}" if what == ROUND else f"rounds of {rounds} done"
        return rest, (note,) * (not first and max(low, high) > 1)

    def _permuted(self, perm: int, what: int, known: frozenset) -> tuple[frozenset, tuple[str, ...]] | None:
        """Returns the facts and notes after a way of a permutation. Returns None if the way is impossible."""
        if what == BEGIN:
            return known | {("none", perm)}, ()
        done = {k[2] for k in known if k[:2] == ("done", perm)}
        fresh = ("none", perm) in known and not done
        if fresh if what == LEAVE else what - ELEMENT in done:
            return None
        rest = frozenset(k for k in known if k[1] != perm or k[0] not in ("done", "none"))
        return rest, ("all parts done",) if what == LEAVE else ("a part not yet done",) * (not fresh)

    def _element(self, perm: int, pc: int) -> int:
        _, count, at, _ = self.program.perms[perm].tolist()
        return max(i for i, target in enumerate(self.program.targets[at : at + count].tolist()) if target <= pc)


def _quantifier(low: int, high: int, greedy: int) -> str:
    return quantifier(low, None if high < 0 else high) + ("" if greedy else "?")


def _distinct(ways: list[tuple[int, tuple[str, ...]]]) -> list[tuple[int, tuple[str, ...]]]:
    """Returns each target once per set of notes. After an unconditional way, the same target adds nothing."""
    out: list[tuple[int, tuple[str, ...]]] = []
    for target, notes in ways:
        if (target, ()) not in out and (target, notes) not in out:
            out.append((target, notes))
    return out


# -- the other engines: the nodes of their net ----------------------------------------------------------------------

_KINDS = {MATCHED: (), SUBSTITUTED: ("a substitute row",), EXTRA: ("an extra row",)}


def _of_net(plan: Plan, net: Net, texts: tuple[str, ...], title: str) -> Graph:
    names = tuple(name or "any row" for name in net.variables)
    bounds = sum(1 << i for i, (kind, *_) in enumerate(plan.windows) if kind != "none")  # the windows with a size
    states, edges = [], []
    for node in range(net.nodes):
        found = []
        for e in net.edges_of(node):
            edge = net.edge(e)
            notes = (*_costs(plan, net, e), *[f"side {edge.side}"] * (edge.side > 0), *net.notes(e, bounds))
            if edge.variable == ACCEPT:
                found.append(Edge(node, node, COMPLETE, "complete", notes=notes))
            else:
                found.append(Edge(node, edge.target, TAKE, names[edge.variable], texts[edge.variable], notes))
        states.append(State(str(node), _cost_of(plan, net, node), any(e.kind == COMPLETE for e in found)))
        edges += _completing(_ordered(found))
        mask = int(net.blocks[node])
        if node and net.masks[node] and plan.selection.strategy != "STRICT" and net.sides == 1:
            taken = dict.fromkeys(name for v, name in enumerate(names) if mask >> v & 1)
            what = "any row" if plan.selection.strategy == "ANY" or not taken else f"unless {' or '.join(taken)}"
            edges.append(Edge(node, node, IGNORE, f"ignore {what}"))
    return Graph(title, tuple(states), tuple(edges))


def _cost_of(plan: Plan, net: Net, node: int) -> str:
    approx = plan.approximate
    if net.is_dead_end(node):
        return "no match"
    return f"cost {', '.join(str(approx.errors(c)) for c in sorted(set(net.at_cost[node])))}" if approx is not None and node else ""


def _costs(plan: Plan, net: Net, e: int) -> Iterator[str]:
    if plan.approximate is None or net.copies is None:
        return
    edge = net.edge(e)
    if edge.variable != ACCEPT:
        yield from _KINDS[net.copies.kinds[edge.variable]]
    if skipped := net.skips(e):
        yield f"{'skips' if net.sides == 1 else 'missing'} {' or '.join(skipped)}"
    if edge.variable == ACCEPT:
        yield in_words(plan.approximate, edge.cost)


def _approximate(plan: Plan, copied: Plan, net: Net, texts: tuple[str, ...]) -> Graph:
    """Returns the graph of an approximate search. ``copied``: the plan with copies of its variables."""
    approx, copies = plan.approximate, net.copies
    assert approx is not None and copies is not None
    inputs = dict(plan.inputs)
    known = tuple(re.sub(r"\b__[cpo]\d+\b", lambda m: inputs.get(m[0], m[0]), text) for text in condition_texts(copied))
    # A copy with all its conjuncts is shown as the user wrote it.
    written = tuple(
        "" if kind != MATCHED else texts[v] if c == v or known[c] == known[v] else known[c]
        for c, (v, kind) in enumerate(zip(copies.original, copies.kinds))
    )
    return _of_net(plan, net, written, f"approximate, {STRATEGIES[plan.selection.strategy]}, cost at most {approx.errors(approx.bound)}")
