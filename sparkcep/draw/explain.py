"""EXPLAIN: describes how a statement runs, as text, a picture or a page."""

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
        format: ``"text"``; ``"automaton"``, the statement with each PATTERN as an AUTOMATON with the same matches; ``"svg"``, a
            picture of each clause's automaton; ``"html"``, a self-contained page with all of these.
        settings: the session's settings; None means the defaults. Their redaction applies to the result.

    Returns:
        The description as text, SVG or HTML.

    Raises:
        ClauseError: a clause is wrong.
        ValueError: another format, or SVG of a statement without a clause.
        TypeError: ``sql`` is not a string.

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
        raise ValueError(f"unknown format {format!r}; the formats are {', '.join(FORMATS)}")
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
        parts += [f"== Clause {i} ==", describe(item.plan, item.filtering, item.slicing), ""]
    return settings.redaction("\n".join([*parts, "== Rewritten statement ==", text, ""]))


def drawn(statements: Sequence[str], format: str, settings: Settings = DEFAULT) -> str:
    """Returns the clauses of all statements as a picture or a page. Raises the errors of :func:`explain`.

    The picture (SVG) has the automata below each other. The page (HTML) has the statements, the statements that run instead, and
    the plan and automaton of each clause.
    """
    from sparkcep.draw.arcs import picture, svg_text
    from sparkcep.draw.automata import graph_of
    from sparkcep.draw.page import page
    from sparkcep.sql.explain.describe import NO_CLAUSE

    rewritten = [(sql, *rewrite_all(sql, settings)) for sql in statements]
    if format == HTML:
        return page("explain.html", no_clause=NO_CLAUSE, statements=[explained(*one, settings.redaction) for one in rewritten])
    graphs = [graph_of(item.plan, item.clause) for *_, found in rewritten for item in found]
    if not graphs:
        raise ValueError(f"{NO_CLAUSE}; an automaton cannot be drawn")
    if len(graphs) > 1:
        graphs = [replace(g, title=f"{i}. {g.title}") for i, g in enumerate(graphs, 1)]
    return settings.redaction.of_picture(svg_text(picture(graphs)))


def explained(sql: str, rewritten: str, found: Sequence[Rewritten], redact: Redaction) -> dict[str, object]:
    """Returns a statement, the statement that runs instead, and the picture and plan of each clause, for a page."""
    from markupsafe import Markup

    from sparkcep.draw.arcs import picture, svg_text
    from sparkcep.draw.automata import graph_of
    from sparkcep.sql.explain.describe import describe

    drawn = [Markup(redact.of_picture(svg_text(picture([graph_of(item.plan, item.clause)])))) for item in found]
    plans = [redact(describe(item.plan, item.filtering, item.slicing)) for item in found]
    return {"sql": redact(sql.strip()), "rewritten": redact(rewritten), "clauses": list(zip(drawn, plans))}
