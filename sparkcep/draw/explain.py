"""EXPLAIN: what happens to a statement, as text, as a picture, or as a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sparkcep.redaction import Redaction
from sparkcep.settings import DEFAULT, Settings
from sparkcep.sql.rewrite.rewrite import rewrite_all

if TYPE_CHECKING:
    from sparkcep.sql.rewrite.rewritten import Rewritten

TEXT, SVG, HTML, AUTOMATON = FORMATS = ("text", "svg", "html", "automaton")


def explain(sql: str, format: str = TEXT, *, settings: Settings | None = None) -> str:
    """Describes how each clause of a statement runs: its program, its conditions, the engine, and the rewritten statement.

    No session is needed.

    Args:
        sql: the statement.
        format: ``"text"``; ``"automaton"``, the statement with each PATTERN as the AUTOMATON that gives the same matches;
            ``"svg"``, a picture of each clause's automaton; ``"html"``, a page with all of it in one file that loads nothing.
        settings: the session's settings, sparkcep's defaults if not given. The texts that they redact are replaced.

    Raises:
        ClauseError: an error in a clause. ValueError: another format, or SVG of a statement without a clause. TypeError: ``sql`` is
        not a text.

    Example:
        >>> clause = "ORDER BY d MEASURES count(*) AS n PATTERN (A B+) DEFINE B AS p > PREV(p)"
        >>> text = sparkcep.explain(f"SELECT * FROM t MATCH_RECOGNIZE ({clause})")
        >>> print(text.splitlines()[0])
        == Clause 1 ==
    """
    from sparkcep.sql.explain.describe import NO_CLAUSE, describe

    settings = DEFAULT if settings is None else settings
    if not isinstance(sql, str):
        raise TypeError(f"explain takes the text of a statement, not {type(sql).__name__}")

    if format not in FORMATS:
        raise ValueError(f"no format {format!r}; there are {', '.join(FORMATS)}")
    if format == AUTOMATON:
        from sparkcep.sql.explain.as_automaton import restated

        return settings.redaction(restated(sql, rewrite_all(sql, settings)[1], settings) + "\n")
    if format != TEXT:
        return drawn([sql], format, settings)
    text, found = rewrite_all(sql, settings)
    if not found:
        return f"{NO_CLAUSE}\n"
    parts = []
    for i, item in enumerate(found, 1):
        about = [item.choice] if item.choice else []
        parts += [f"== Clause {i} ==", *about, *([] if item.native else [describe(item.plan, item.filtering, item.slicing)]), ""]
    return settings.redaction("\n".join([*parts, "== Rewritten statement ==", text, ""]))


def drawn(statements: Sequence[str], format: str, settings: Settings = DEFAULT) -> str:
    """The automata of the clauses of all statements as one picture (SVG), one below the other; or a page (HTML) with the
    statements, the text that runs in their place, and the plan and the automaton of each clause. Raises as :func:`explain`."""
    from sparkcep.draw.arcs import picture, svg_text
    from sparkcep.draw.automata import graph_of
    from sparkcep.draw.page import page
    from sparkcep.sql.explain.describe import NO_CLAUSE

    rewritten = [(sql, *rewrite_all(sql, settings)) for sql in statements]
    if format == HTML:
        return page("explain.html", no_clause=NO_CLAUSE, statements=[explained(*one, settings.redaction) for one in rewritten])
    graphs = [graph_of(item.plan, item.clause) for *_, found in rewritten for item in found]
    if not graphs:
        raise ValueError(f"{NO_CLAUSE}; there is no automaton to draw")
    if len(graphs) > 1:
        graphs = [replace(g, title=f"{i}. {g.title}") for i, g in enumerate(graphs, 1)]
    return settings.redaction.of_picture(svg_text(picture(graphs)))


def explained(sql: str, rewritten: str, found: Sequence[Rewritten], redact: Redaction) -> dict[str, object]:
    """A statement, the text that runs in its place, and the picture and the plan of each clause, for a page."""
    from markupsafe import Markup

    from sparkcep.draw.arcs import picture, svg_text
    from sparkcep.draw.automata import graph_of
    from sparkcep.sql.explain.describe import describe

    drawn = [Markup(redact.of_picture(svg_text(picture([graph_of(item.plan, item.clause)])))) for item in found]
    plans = [redact(describe(item.plan, item.filtering, item.slicing)) for item in found]
    return {"sql": redact(sql.strip()), "rewritten": redact(rewritten), "clauses": list(zip(drawn, plans))}
