"""Renders self-contained HTML pages: without scripts or network access, and with all text escaped.

``explain`` and reports use it.
"""

from __future__ import annotations

import functools

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sparkcep.errors import printable


def page(template: str, **facts: object) -> str:
    """Returns the page of a template in this folder."""
    return _templates().get_template(template).render(facts).lstrip() + "\n"


@functools.cache
def _templates() -> Environment:
    blanks = {"trim_blocks": True, "lstrip_blocks": True}
    loader = PackageLoader("sparkcep", "draw")
    return Environment(loader=loader, autoescape=True, finalize=_printable, undefined=StrictUndefined, **blanks)


def _printable(value: object) -> object:
    """Returns a text without characters that HTML cannot contain, or that reverse its direction."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
