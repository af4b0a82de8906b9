"""Shows EXPLAIN as a picture and as a page."""

from __future__ import annotations

from collections.abc import Sequence

from sparkcep.draw.arcs import picture, svg_text
from sparkcep.draw.automata import graph_of
from sparkcep.draw.graph import Graph
from sparkcep.draw.page import Page
from sparkcep.settings import DEFAULT, Settings
from sparkcep.sql.describe import NO_CLAUSE, describe
from sparkcep.sql.rewrite import rewrite_all
from sparkcep.sql.rewritten import Rewritten


def as_svg(statements: Sequence[str], settings: Settings = DEFAULT) -> str:
    """Draws the automaton of each clause of the statements, one below the other. Raises ValueError where there is no clause, and
    ClauseError."""
    graphs = [g for sql in statements for g in graphs_of(rewrite_all(sql, settings)[1])]
    if not graphs:
        raise ValueError(f"{NO_CLAUSE}; there is no automaton to draw")
    if len(graphs) > 1:
        graphs = [Graph(f"{i}. {g.title}", g.states, g.edges, g.legend, g.left_out) for i, g in enumerate(graphs, 1)]
    return svg_text(picture(graphs))


def as_html(statements: Sequence[str], settings: Settings = DEFAULT) -> str:
    """A page with the statements, the text that runs in their place, and the plan and the automaton of each clause. Raises
    ClauseError."""
    page = Page("What happens to the statement" if len(statements) == 1 else "What happens to the statements")
    for number, sql in enumerate(statements, 1):
        if len(statements) > 1:
            page.heading(f"Statement {number}")
        explained(page, sql, *rewrite_all(sql, settings))
    return page.text()


def explained(page: Page, sql: str, rewritten: str, found: list[Rewritten]) -> None:
    """Adds a statement, its plan and its automata to a page."""
    page.code(sql.strip())
    if not found:
        page.paragraph(f"{NO_CLAUSE}.")
        return
    for i, (item, graph) in enumerate(zip(found, graphs_of(found)), 1):
        page.heading("Automaton" if len(found) == 1 else f"Automaton of clause {i}")
        page.picture(picture([graph]))
        page.heading("Plan" if len(found) == 1 else f"Plan of clause {i}")
        page.code(describe(item.plan, item.filtering, item.slicing))
    page.heading("Rewritten statement")
    page.code(rewritten, summary="what Spark runs")


def graphs_of(found: list[Rewritten]) -> list[Graph]:
    """The automaton of each clause."""
    return [graph_of(item.plan, item.clause) for item in found]
