"""The content of an automaton's picture: states and edges with their labels, for the automata of all searches.

``draw/automata`` builds it, and ``draw/arcs`` draws it.
"""

from __future__ import annotations

from dataclasses import dataclass

# kinds of edges: a row is taken, a row is skipped, the match is complete
TAKE, IGNORE, COMPLETE = "take", "ignore", "complete"


@dataclass(frozen=True)
class State:
    """A state with its ``name``, and a ``note`` on a second line. If ``complete``, a match may end here."""

    name: str
    note: str = ""
    complete: bool = False


@dataclass(frozen=True)
class Edge:
    """An edge between two states.

    Attributes:
        source: the state's index in ``Graph.states``.
        target: the index of the next state; equal to ``source`` for IGNORE and COMPLETE.
        kind: TAKE, IGNORE or COMPLETE.
        name: the variable, with its quantifier.
        condition: its text; "" if any row satisfies it.
        notes: windows, costs, negations.
        order: 1 for the preferred edge of its state, 2 for the next; 0 if it is the only one.
    """

    source: int
    target: int
    kind: str
    name: str
    condition: str = ""
    notes: tuple[str, ...] = ()
    order: int = 0

    @property
    def text(self) -> str:
        """The whole label in one line."""
        order = f"{self.order}. " if self.order else ""
        condition = f" if {self.condition}" if self.condition else ""
        notes = f" [{'; '.join(self.notes)}]" if self.notes else ""
        return order + self.name + condition + notes


@dataclass(frozen=True)
class Graph:
    """The ``states`` in pattern order, the first being the start, and the edges.

    ``legend`` has (name, text) for shortened labels. ``left_out`` is the number of states that are not shown.
    """

    title: str
    states: tuple[State, ...]
    edges: tuple[Edge, ...]
    legend: tuple[tuple[str, str], ...] = ()
    left_out: int = 0
