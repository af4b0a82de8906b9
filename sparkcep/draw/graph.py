"""The content of a picture of an automaton: states and edges with their labels, for the automata of all searches."""

from __future__ import annotations

from dataclasses import dataclass

# kinds of edges: a row is taken, a row is passed over, the match is complete
TAKE, IGNORE, COMPLETE = "take", "ignore", "complete"


@dataclass(frozen=True)
class State:
    """``name`` stands in the state, ``note`` in a second line. With ``complete`` a match may end here."""

    name: str
    note: str = ""
    complete: bool = False


@dataclass(frozen=True)
class Edge:
    """From state ``source`` to ``target`` (places in ``Graph.states``; both the same for IGNORE and COMPLETE).

    ``name``: the variable, with its quantifier; ``condition``: its text, empty where any row fulfils it; ``notes``: windows, costs,
    negations; ``order``: 1 for the preferred edge of its state, 2 for the next one; 0 where the state has one only.
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
        """All of it in one line."""
        order = f"{self.order}. " if self.order else ""
        condition = f" if {self.condition}" if self.condition else ""
        notes = f" [{'; '.join(self.notes)}]" if self.notes else ""
        return order + self.name + condition + notes


@dataclass(frozen=True)
class Graph:
    """The ``states`` in pattern order, the first one being the start, and the edges.
    ``legend`` gives (name, text) for what the labels shorten, and ``left_out`` is the number of states that are not shown."""

    title: str
    states: tuple[State, ...]
    edges: tuple[Edge, ...]
    legend: tuple[tuple[str, str], ...] = ()
    left_out: int = 0
