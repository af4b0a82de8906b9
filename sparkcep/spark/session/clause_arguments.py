"""The text of a clause that is given as arguments, and a mapping from its positions back to these arguments.

``match_recognize`` in ``spark/session/frames`` composes the text and maps the positions of errors to the caller's arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sparkcep.clause.tokens import Span


@dataclass(frozen=True)
class Part:
    """A part of a composed text.

    Attributes:
        text: the text of the part.
        source: the caller's text that contains the part; None for text that sparkcep adds.
        at: the part's start, as an offset in ``source``.
        argument: the argument's name; empty for the clause itself.
    """

    text: str
    source: str | None = None
    at: int = 0
    argument: str = ""


@dataclass(frozen=True)
class Place:
    """A position in an argument's text."""

    argument: str
    source: str
    span: Span

    def named(self, message: str) -> str:
        """Returns ``message``, after the argument's name if the position is not in the clause."""
        return f"{self.argument}={self.span.of(self.source)!r}: {message}" if self.argument else message


@dataclass(frozen=True)
class Composed:
    """A clause's text as a sequence of parts."""

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, parts: Iterable[Part]) -> Composed:
        return cls(tuple(part for part in parts if part.text))

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)

    def place(self, start: int, stop: int) -> Place | None:
        """Maps the characters from ``start`` to ``stop`` of the text to an argument.

        A position in text that sparkcep added maps to the end of the argument before it. Returns None if no argument precedes it.
        """
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
