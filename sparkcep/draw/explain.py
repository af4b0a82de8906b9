"""EXPLAIN: what happens to a statement, as text, as a picture, or as a page."""

from __future__ import annotations

from sparkcep.settings import DEFAULT, Settings

TEXT, SVG, HTML = FORMATS = ("text", "svg", "html")


def explain(sql: str, format: str = TEXT, *, settings: Settings = DEFAULT) -> str:
    """The rewritten statement, and for each clause its program, its conditions and the engine chosen.

    ``format``: ``"text"``; ``"svg"``, a picture of each clause's automaton; ``"html"``, a page with all of it, in one file that loads
    nothing. No session needed. Raises ValueError for another format and for SVG of a statement without a clause, ClauseError as
    :func:`sparkcep.rewrite` does.
    """
    from sparkcep.sql.describe import NO_CLAUSE, describe
    from sparkcep.sql.rewrite import rewrite_all

    if format not in FORMATS:
        raise ValueError(f"no format {format!r}; there are {', '.join(FORMATS)}")
    if format != TEXT:
        from sparkcep.draw import explain_page

        return (explain_page.as_svg if format == SVG else explain_page.as_html)([sql], settings)
    text, found = rewrite_all(sql, settings)
    if not found:
        return f"{NO_CLAUSE}\n"
    parts = ["== Rewritten statement ==", text, ""]
    for i, item in enumerate(found, 1):
        about = [item.choice] if item.choice else []
        parts += [f"== Clause {i} ==", *about, *([] if item.native else [describe(item.plan, item.filtering, item.slicing)]), ""]
    return "\n".join(parts)
