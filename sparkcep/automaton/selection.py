"""The automaton of event selection: the NFAb of SASE+ (SIGMOD 2008, section 3) with its epsilon moves resolved.

A node is what is left to match after a row was taken. Its edges stand in preference order and consume one row each
(the paper's begin and take edges; proceed edges are resolved into them, so that the begin condition of the next state is
looked at before proceeding, as its step 6 asks), or complete the match. The ignore edge is the strategy's and needs no
entry here: never (STRICT), when no edge of the node accepts the row (NEXT), always (ANY). Windows are pushed to every
edge (steps 4 and 5): an edge names the windows its row opens and those it must lie in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparkcep.automaton import program as p
from sparkcep.automaton.compiler import compile_pattern
from sparkcep.automaton.steps import landing, steps, too_complex, visit
from sparkcep.plan.plan import Plan

MAX_NODES = 4096
MAX_EDGES = 100_000
ACCEPT = -1

# columns of ``edges``
E_VAR, E_LABEL, E_TARGET, E_OPEN, E_CHECK, E_NOT, E_WHERE = range(7)
AT_START, AT_END = 1, 2  # bits of E_WHERE: only from the partition's first row, only behind its last


@dataclass(frozen=True)
class Selection:
    """``first`` int64 (nodes + 1): edges of each node; ``edges`` int64 (m, 7): variable or ACCEPT, label, target node, windows
    opened, windows checked, negated variables crossed (bit masks), AT_START/AT_END; ``masks`` int64 (nodes): variables that can be
    taken. Node 0 is the start. ``ambiguous``: one match may be found in several ways."""

    variables: tuple[str, ...]
    first: np.ndarray
    edges: np.ndarray
    masks: np.ndarray
    ambiguous: bool

    @property
    def nodes(self) -> int:
        return len(self.masks)

    @property
    def negates(self) -> bool:
        """Whether an edge crosses a negation."""
        return bool(self.edges[:, E_NOT].any())

    def accepts(self) -> np.ndarray:
        """uint8 (nodes): 1 where the match may be complete, 2 where only behind the partition's last row."""
        out = np.zeros(self.nodes, dtype=np.uint8)
        for node in range(self.nodes):
            for edge in self.edges[self.first[node] : self.first[node + 1]]:
                if edge[E_VAR] == ACCEPT:
                    only_end = edge[E_WHERE] & AT_END
                    out[node] = 1 if out[node] == 1 or not only_end else 2
        return out

    def dump(self, ignore: str, conditions: tuple[str, ...], titles: tuple[str, ...] = (), notes: tuple[str, ...] = ()) -> str:
        """The nodes with their begin, take and ignore edges, as the paper's Figure 2 lists them.

        ``ignore``: the condition of ignore edges, ``{variables}`` standing for those the node can take; ``conditions``: of
        each variable; ``titles``, ``notes``: what else is to be said of each node and edge.
        """
        lines = []
        for node in range(self.nodes):
            lines.append(f"node {node}" + (" (start)" if node == 0 else "") + (titles[node] if titles else ""))
            for e in range(self.first[node], self.first[node + 1]):
                lines.append("  " + self._edge(node, self.edges[e].tolist(), conditions) + (notes[e] if notes else ""))
            if node and self.masks[node]:
                lines.append(f"  ignore if {ignore.format(variables=self._names(int(self.masks[node])))}")
        return "\n".join(lines)

    def _edge(self, node: int, edge: list[int], conditions: tuple[str, ...]) -> str:
        variable, _, target, opened, checked, negated, where = edge
        notes = []
        if opened:
            notes.append(f"opens window {self._bits(opened)}")
        if checked:
            notes.append(f"inside window {self._bits(checked)}")
        if negated:
            notes.append(f"no {self._names(negated)} since the last row")
        if where & AT_START:
            notes.append("first row of the partition")
        if where & AT_END:
            notes.append("last row of the partition")
        what = "complete" if variable == ACCEPT else f"{'begin' if node == 0 else 'take'} {self.variables[variable]} -> {target}"
        test = f" if {conditions[variable]}" if variable != ACCEPT and conditions[variable] else ""
        return what + test + (f" [{'; '.join(notes)}]" if notes else "")

    def _names(self, mask: int) -> str:
        return ", ".join(v for i, v in enumerate(self.variables) if mask >> i & 1)

    @staticmethod
    def _bits(mask: int) -> str:
        return ", ".join(str(i) for i in range(62) if mask >> i & 1)


def selection_automaton(plan: Plan) -> tuple[p.Program, Selection]:
    """The program and the automaton of a plan with an event selection."""
    strategy, report = plan.selection
    program = compile_pattern(
        plan.pattern, plan.variables, runs=False, windows=len(plan.windows), whole_orders=strategy == "NEXT"
    )
    # non-overlapping matches are told apart by preferment, which merging may change
    merge = report == "ALL" and strategy != "NEXT" and not plan.non_overlapping
    return program, build_selection(program, merge=merge)


def build_selection(program: p.Program, *, merge: bool) -> Selection:
    """Resolves a program compiled without runs.

    With ``merge`` (ALL MATCHES) the ways to find one match become one, as in a subset construction. Not so for SKIP TILL
    NEXT, where each way ignores rows by its own state.
    """
    return _Builder(program, merge).run()


class _Builder:
    def __init__(self, program: p.Program, merge: bool) -> None:
        self.program = program
        self.code = program.code.tolist()
        self.merge = merge

    def run(self) -> Selection:
        start = ((0, 0),)
        numbers = {start: 0}
        todo = [start]
        first, edges, masks = [0], [], []
        ambiguous = False
        while todo:
            state = todo.pop(0)
            mask, seen = 0, []
            for key, targets in self._edges(state, initial=state is start):
                variable, label, opened, checked, negated, where = key
                target = 0
                if variable != ACCEPT:
                    mask |= 1 << variable
                    ambiguous |= variable in seen
                    seen.append(variable)
                    if targets not in numbers:
                        numbers[targets] = len(numbers)
                        todo.append(targets)
                    target = numbers[targets]
                edges.append([variable, label, target, opened, checked, negated, where])
            first.append(len(edges))
            masks.append(mask)
            if len(numbers) > MAX_NODES or len(edges) > MAX_EDGES:
                raise too_complex(f"event selection over this pattern needs more than {MAX_NODES} states; use smaller bounds or a shorter PERMUTE")
        return Selection(
            variables=self.program.variables,
            first=np.array(first, dtype=np.int64),
            edges=np.array(edges, dtype=np.int64).reshape(-1, 7),
            masks=np.array(masks, dtype=np.int64),
            ambiguous=ambiguous,
        )

    def _edges(self, state: tuple, initial: bool) -> list[tuple]:
        """(edge key, target state) in preference order; with ``merge`` edges that differ in the target only are one."""
        out: dict[tuple, list] = {}
        order: list[tuple] = []
        done = False  # complete unconditionally: later ways to be complete add nothing
        for config in state:
            for pc, regs, negated, where in self._closure(*config, initial):
                if self.code[pc][0] == p.MATCH:
                    if not done:
                        order.append(((ACCEPT, 0, 0, 0, negated, where), ()))
                    done = done or not (negated or where)
                    continue
                _, variable, excluded, flags = self.code[pc]
                around = self.program.windows[pc]
                bits = self.program.window_bits
                opened = sum(1 << w for w in range(len(bits)) if around >> w & 1 and not regs & bits[w])
                checked = around & ~opened
                after = regs | flags
                for w in range(len(bits)):
                    if opened >> w & 1:
                        after |= bits[w]
                key = (variable, variable | (p.EXCLUDED if excluded else 0), opened, checked, negated, where)
                target = (landing(self.program, pc + 1), after)
                if self.merge:
                    if key not in out:
                        out[key] = []
                        order.append((key, out[key]))
                    if target not in out[key]:
                        out[key].append(target)
                elif (key, (target,)) not in order:
                    order.append((key, (target,)))
        return [(key, tuple(targets)) for key, targets in order]

    def _closure(self, pc: int, regs: int, initial: bool) -> list[tuple[int, int, int, int]]:
        """Instructions that consume a row or complete the match, in preference order: (pc, registers, negated, where)."""
        out: list[tuple[int, int, int, int]] = []

        def follow(item: tuple) -> list[tuple]:
            pc, regs, negated, where = item
            op, a, _, _ = self.code[pc]
            if op in (p.CHAR, p.MATCH):
                if op == p.MATCH or not where & AT_END:
                    out.append(item)
                return []
            if op == p.START:
                return [(pc + 1, regs, negated, where | AT_START)] if initial else []
            if op == p.END:
                return [(pc + 1, regs, negated, where | AT_END)]
            if op == p.NOT:
                return [(pc + 1, regs, negated | 1 << a, where)]
            if op == p.GROUP:
                return [(pc + 1, regs & ~self.program.window_bits[a], negated, where)]
            return [(*step, negated, where) for step in steps(self.program, pc, regs, self.merge)]

        visit((pc, regs, 0, 0), follow)
        return out
