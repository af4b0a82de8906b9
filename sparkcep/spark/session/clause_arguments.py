"""The text of a clause that is given in arguments, and the argument to which a place of that text belongs.

``match_recognize`` in ``spark/session/frames`` composes the text and moves the places of errors back into what its caller wrote.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sparkcep.clause.tokens import Span


@dataclass(frozen=True)
class Part:
    """A part of a composed text. The caller wrote ``source``, and the part starts there at ``at``; ``source`` is None for text that
    sparkcep adds. ``argument`` is the argument's name, empty for the clause itself."""

    text: str
    source: str | None = None
    at: int = 0
    argument: str = ""


@dataclass(frozen=True)
class Place:
    """A place in an argument's text."""

    argument: str
    source: str
    span: Span

    def named(self, message: str) -> str:
        """``message`` with the name of the argument, if the place is not in the clause."""
        return f"{self.argument}={self.span.of(self.source)!r}: {message}" if self.argument else message


@dataclass(frozen=True)
class Composed:
    """A clause as the text of its parts."""

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, parts: Iterable[Part]) -> Composed:
        return cls(tuple(part for part in parts if part.text))

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)

    def place(self, start: int, stop: int) -> Place | None:
        """The place in an argument of the characters from ``start`` to ``stop`` of the text. A place in a word that sparkcep wrote
        is the end of the argument before it. None if no argument is before it."""
        before: Place | None = None
        begin = 0
        for part in self.parts:
            end = begin + len(part.text)
            if part.source is not None:
                if begin <= start < end:
                    span = Span(start - begin + part.at, min(stop, end) - begin + part.at)
                    return Place(part.argument, part.source, span)
                if begin <= start:
                    last = part.at + len(part.text)
                    before = Place(part.argument, part.source, Span(last, last))
            begin = end
        return before
