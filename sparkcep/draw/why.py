"""Renders answers of ``sparkcep.why`` as HTML: a page, or the output of a notebook's cell."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Any

from markupsafe import Markup

from sparkcep.draw.page import page
from sparkcep.draw.timeline import svg

STYLE = Markup("\n" + resources.files("sparkcep.draw").joinpath("why.css").read_text("utf-8"))  # noqa: S704 (our own file)


def answer_page(verdict: str, blocks: Sequence[Any]) -> str:
    """Returns the page of an answer.

    Args:
        verdict: its title.
        blocks: its parts, as :class:`sparkcep.tracing.forms.blocks.Block`.
    """
    return page("why.html", verdict=verdict, **_facts(blocks))


def answer_cell(blocks: Sequence[Any]) -> str:
    """Returns an answer as one element of a page that has styles of its own."""
    return page("why_cell.html", **_facts(blocks))


def _facts(blocks: Sequence[Any]) -> dict[str, Any]:
    pictures = [None if block.timeline is None else Markup(svg(block.timeline)) for block in blocks]
    return {"parts": list(zip(blocks, pictures, strict=True)), "style": STYLE}
