"""Redaction: replaces matches of ``spark.sql.redaction.string.regex`` in texts that sparkcep shows of a statement.

Spark redacts its own plans. This module redacts ``explain`` with a session's settings, reports, descriptions of jobs, and errors.
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Callable
from dataclasses import dataclass

KEYS = ("spark.sql.redaction.string.regex", "spark.redaction.string.regex")  # Spark reads the second key if the first is not set
REDACTED = "*********(redacted)"  # as Spark writes it
_MARKED = re.compile(r"\n([^\n]*)\n([ \t]*)(\^+)$")  # the end of an error: a line of the statement, and the carets below
_CLASS_PARTS = re.compile(r"\\.|&&|[\[\]]", re.S)
_TEXTS = re.compile(r"(?<=>)[^<>]+(?=<)")  # the texts between the tags of an SVG picture


@dataclass(frozen=True)
class Redaction:
    """Replaces each match of ``pattern``, a Java regular expression, in a text. Replaces nothing if ``pattern`` is empty."""

    pattern: str = ""

    @staticmethod
    def read(get: Callable[[str], str | None]) -> Redaction:
        """Reads the pattern from a session's configuration; ``get`` returns the text of a key."""
        return Redaction(next(filter(None, map(get, KEYS)), ""))

    def __call__(self, text: str) -> str:
        if not self.pattern:
            return text
        compiled = _compiled(self.pattern)
        # Python cannot read this pattern, so it might match anything: everything is redacted.
        return compiled.sub(REDACTED, text) if compiled is not None else REDACTED

    def of_error(self, text: str) -> str:
        """Redacts an error and keeps its carets below the text that they mark."""
        found = _MARKED.search(text) if self.pattern else None
        if found is None:
            return self(text)
        before, marked = found[1][: len(found[2])], found[1][len(found[2]) : len(found[2]) + len(found[3])]
        line = self(before) + self(marked) + self(found[1][len(before) + len(marked) :])
        if line != self(found[1]):  # a match crosses an end of the marked text
            return f"{self(text[: found.start()])}\n{self(found[1])}"
        indent = "".join("\t" if c == "\t" else " " for c in self(before))
        return f"{self(text[: found.start()])}\n{line}\n{indent}{'^' * max(1, len(self(marked)))}"

    def of_picture(self, svg: str) -> str:
        """Redacts the texts of an SVG picture."""
        return _TEXTS.sub(lambda found: html.escape(self(html.unescape(found[0]))), svg) if self.pattern else svg


@functools.lru_cache(maxsize=16)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    if _combines_classes(pattern):
        return None
    try:
        return re.compile(pattern)
    except re.error:
        return None


def _combines_classes(pattern: str) -> bool:
    """Whether a class of characters holds another class or &&, which Python would read as characters."""
    inside = False
    for part in _CLASS_PARTS.findall(pattern):
        if inside and part in ("[", "&&"):
            return True
        inside = part == "[" or (inside and part != "]")
    return False
