"""Writes pages of HTML as one file: without a script, without anything from the network, every text escaped."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sparkcep.errors import printable


def page(template: str, **facts: object) -> str:
    """The page of a template in this folder."""
    blanks = {"trim_blocks": True, "lstrip_blocks": True}
    loader = PackageLoader("sparkcep", "draw")
    made = Environment(loader=loader, autoescape=True, finalize=_printable, undefined=StrictUndefined, **blanks)
    return made.get_template(template).render(facts).lstrip() + "\n"


def _printable(value: object) -> object:
    """A text without characters that HTML cannot hold, and without those that turn its order round."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
