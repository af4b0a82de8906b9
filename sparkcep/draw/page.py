"""Writes pages of HTML as one file: without a script, without anything from the network, every text escaped."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def page(template: str, **facts: object) -> str:
    """The page of a template in this folder."""
    blanks = {"trim_blocks": True, "lstrip_blocks": True}
    loader = PackageLoader("sparkcep", "draw")
    made = Environment(loader=loader, autoescape=True, finalize=_printable, undefined=StrictUndefined, **blanks)
    return made.get_template(template).render(facts).lstrip() + "\n"


def _printable(value: object) -> object:
    """A text without characters that HTML cannot hold."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "".join(c if c >= " " and not "\x7f" <= c <= "\x9f" or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in value)
