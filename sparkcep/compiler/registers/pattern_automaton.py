"""Translates a PATTERN to an automaton with registers (AFA) that has the same matches, each as one computation.

``compiler/strategy`` uses it for CHANGES IN, where a deleted row may retract matches. The nodes of the net become states. Each edge
becomes an arc that takes a row under the variable's condition and sets the registers that conditions read
(:mod:`sparkcep.compiler.registers.pattern_registers`). The row that completes a match leads to a final state without outgoing arcs.
A skipped row is an arc without a label from a state to itself.

Matches also differ in the rows that they took and in the variables of these rows, even if no condition reads them. A last register
(WAY) records the difference, as a number that the kernel assigns to each way.
"""

from __future__ import annotations

from dataclasses import replace

from sparkcep.compiler.net.net import ACCEPT, Edge, Net
from sparkcep.compiler.registers.pattern_registers import FALSE, Memory
from sparkcep.errors import LIMIT, ClauseError
from sparkcep.plan.limits import MAX_VARIABLES
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import WAY, Arc, Automaton, Here, Lit, Place, Register, letter_column

NONE = (0, 0)  # parameter range of an arc without parameters


def translated(plan: Plan, net: Net) -> Plan:
    """The plan with an automaton instead of conditions. ``net``: the net of its pattern.

    Raises ClauseError for a condition that registers cannot express.
    """
    return replace(plan, automaton=_Translation(plan, net).automaton(), conditions=())


class _Translation:
    def __init__(self, plan: Plan, net: Net) -> None:
        self.plan, self.net = plan, net
        self.memory = Memory(plan, _rows_before(net))
        self.letters = {letter.variable: letter.bit for letter in plan.letters}
        used = {edge.variable for edge in map(net.edge, range(len(net.edges))) if edge.variable != ACCEPT}
        self.fences = {variable: self.memory.fence(variable) for variable in sorted(used)}

    def automaton(self) -> Automaton:
        net, memory = self.net, self.memory
        registers = (*memory.registers(), Register(WAY, WAY, Lit("lit", "int", "0"), *self._place()))
        if len(registers) > MAX_VARIABLES:
            place = self._place()
            message = f"the conditions need {len(registers)} registers, and an automaton has at most {MAX_VARIABLES}. Use smaller offsets in FIRST and LAST"
            raise ClauseError("AUTOMATON", message, sqlstate=LIMIT, line=place.line, column=place.column, fragment=place.text)
        self.sets = {variable: memory.assignments(variable) for variable in self.fences}
        taking = [[edge for edge in map(net.edge, net.edges_of(node)) if edge.variable != ACCEPT] for node in range(net.nodes)]
        going = [node for node in range(net.nodes) if taking[node] or not node]
        number = {node: i for i, node in enumerate(going)}
        done = len(going)  # the state after the row that completes a match
        completes = net.accepts()
        arcs = []
        for node in going:
            for edge in taking[node]:
                assert edge.target, "no row leads back to the start, where rows are never skipped"
                if completes[edge.target]:
                    arcs.append(self._taking(number[node], done, edge))
                if edge.target in number:
                    arcs.append(self._taking(number[node], number[edge.target], edge))
            if node:
                arcs += self._passing(node, number[node])
        states = (*(f"q{i}" for i in range(done)), "done")
        return Automaton(registers, states, 0, (done,), tuple(arcs), (), self.plan.order[0].column, "", ())

    def _place(self, variable: int | None = None) -> Place:
        found = next((place for place in self.plan.places if place.variable == variable), None)
        return self.plan.place if found is None else Place(found.line, found.column, found.text)

    def _taking(self, source: int, target: int, edge: Edge) -> Arc:
        """The arc that takes a row of the edge's variable."""
        variable = edge.variable
        return Arc(
            source, target, "row", self.letters.get(variable, -1), self.fences[variable], self.sets[variable], (), variable + 1, *self._place(variable), "", NONE,
        )

    def _passing(self, node: int, state: int) -> list[Arc]:
        """The arc that ignores a row at a node, as a list of at most one. ``state``: the number of the node among the states."""
        strategy = self.plan.selection.strategy
        if strategy == "STRICT":
            return []
        fence = []
        for variable in range(len(self.plan.variables)) if strategy == "NEXT" else ():
            if self.net.blocks[node] >> variable & 1:
                found = self._condition(variable)
                if found is None:  # a variable without a condition takes every row, so no row may be ignored
                    return []
                fence.append(("call", "not", found))
        return [Arc(state, state, "row", -1, tuple(fence), (), (), 0, *self._place(), "", NONE)]

    def _condition(self, variable: int) -> tuple | None:
        """A tree for whether the row satisfies the variable's condition, TRUE or FALSE. None for a variable without a condition."""
        trees = self.fences[variable]
        letter = Here("col", letter_column(self.letters[variable])) if variable in self.letters else None
        if not trees:
            return letter
        seen = ("call", "coalesce", trees[0] if len(trees) == 1 else ("call", "and", *trees), FALSE)
        return seen if letter is None else ("call", "if", letter, seen, FALSE)


def _rows_before(net: Net) -> tuple[int, ...]:
    """For each variable, the least number of rows of the match before one of its rows."""
    depth, todo = {0: 0}, [0]
    for node in todo:  # breadth first, so that the first visit gives the least depth
        for edge in map(net.edge, net.edges_of(node)):
            if edge.variable != ACCEPT and edge.target not in depth:
                depth[edge.target] = depth[node] + 1
                todo.append(edge.target)
    found = [len(depth)] * len(net.variables)
    for node in depth:
        for edge in map(net.edge, net.edges_of(node)):
            if edge.variable != ACCEPT:
                found[edge.variable] = min(found[edge.variable], depth[node])
    return tuple(found)
