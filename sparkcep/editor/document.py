"""An open document: its SQL, its statements with their clauses, and its findings, all by offsets in the document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from sparkcep.clause.identifiers import backticked
from sparkcep.clause.tokens import Span, statement_spans, tokenize
from sparkcep.editor.names import Name, names
from sparkcep.editor.positions import Lines
from sparkcep.editor.sections import Section, sections
from sparkcep.errors import ClauseError, offset
from sparkcep.tools import fmt
from sparkcep.tools.jinja_mask import Masked, jinja_mask
from sparkcep.tools.lint import Finding, lint
from sparkcep.tools.statements import Place, clauses


@dataclass(frozen=True)
class Statement:
    """A statement of a document.

    Attributes:
        text: its text without Jinja.
        start: its offset in the document.
        section: its section.
        masks: the names in ``text`` that mask Jinja.
    """

    text: str
    start: int
    section: Section
    masks: tuple[str, ...] = ()

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    def clauses(self) -> tuple[Place, ...]:
        """Returns its clauses, by offsets in ``text``. Returns none if one of them cannot be read."""
        return _clauses(self.text)

    def clause_at(self, at: int) -> Place | None:
        """Returns the clause that holds an offset of the document."""
        return next((place for place in self.clauses() if place.word.start <= at - self.start <= place.end), None)

    def names(self, place: Place) -> list[Name]:
        """Returns the names of one of its clauses, by offsets in ``text``. Jinja may render as any name, so it has none."""
        found = _names(self.text)[self.clauses().index(place)]
        return [name for name in found if not any(mask in name.text for mask in self.masks)]


@lru_cache(maxsize=256)
def _clauses(text: str) -> tuple[Place, ...]:
    try:
        return tuple(clauses(text))
    except ClauseError:  # lint reports it
        return ()


@lru_cache(maxsize=256)
def _names(text: str) -> list[list[Name]]:
    places = _clauses(text)
    return [names(text, place, places) for place in places]


class Document:
    """A document as the editor has it.

    Attributes:
        uri: its address.
        text: its text.
        lines: its lines, which convert positions.
        sections: its stretches of SQL.
    """

    def __init__(self, uri: str, text: str, language: str | None, encoding: str = "utf-16", double_quoted: bool = False) -> None:
        self.uri = uri
        self.text = text
        self.lines = Lines(text, encoding)
        self.sections = sections(text, language)
        self._double_quoted = double_quoted

    @property
    def path(self) -> Path | None:
        """The file, or None for a document without one. A notebook's cell is in the notebook's file."""
        parts = urlsplit(self.uri)
        return Path(url2pathname(unquote(parts.path))) if parts.scheme in ("file", "vscode-notebook-cell") and parts.path else None

    def masked(self, section: Section) -> Masked:
        return jinja_mask(section.text)

    def read(self, section: Section) -> str:
        """Returns the text of a section as the parser reads it: without Jinja, with names in backticks. The length is kept."""
        masked = self.masked(section).text
        if self._double_quoted:
            try:
                quoted = backticked(masked)
            except ClauseError:  # lint reports it
                return masked
            return quoted if len(quoted) == len(masked) else masked
        return masked

    @cached_property
    def statements(self) -> list[Statement]:
        """The statements, in order. A section that cannot be cut into tokens has none."""
        found = []
        for section in self.sections:
            text = self.read(section)
            try:
                masks = tuple(name for name, _ in self.masked(section).names)
                found += [Statement(span.of(text), section.start + span.start, section, masks) for span in statement_spans(text)]
            except ClauseError:  # lint reports it
                continue
        return found

    def statement_at(self, at: int) -> Statement | None:
        return next((statement for statement in self.statements if statement.start <= at <= statement.end), None)

    def section_at(self, at: int) -> Section | None:
        return next((section for section in self.sections if section.start <= at <= section.end), None)

    @cached_property
    def findings(self) -> list[tuple[Span, Finding]]:
        """The findings of lint with their places."""
        out = []
        for section in self.sections:
            for finding in lint(section.text, self._double_quoted):
                start = offset(section.text, finding.line, finding.column)
                out.append((Span(section.start + start, section.start + _end(section.text, start, finding.fragment)), finding))
        return out

    def name_at(self, at: int) -> tuple[Statement, Name, Span] | None:
        """Returns the name at an offset, with its statement and its place in the document."""
        statement = self.statement_at(at)
        if statement is None:
            return None
        for place in statement.clauses():
            for name in statement.names(place):
                span = name.at(at - statement.start)
                if span is not None:
                    return statement, name, moved(span, statement)
        return None

    def formatted(self) -> Iterator[tuple[Span, str]]:
        """Yields the new text of each clause that the formatter changes, with its place. Raises ClauseError."""
        for section in self.sections:
            for span, clause in fmt.edits(section.text, self._double_quoted):
                if section.prefix:
                    blank = " " * len(section.prefix)
                    if any(not line.startswith(blank) for line in clause.split("\n")[1:]):
                        continue  # the clause begins in a line without the prefix
                    clause = clause.replace(f"\n{blank}", f"\n{section.prefix}")
                yield moved(span, section), clause


def moved(span: Span, by: Statement | Section) -> Span:
    """Returns the place in the document of a place in a statement or section."""
    return Span(span.start + by.start, span.end + by.start)


def _end(text: str, start: int, fragment: str) -> int:
    """Returns the end of a finding: that of its fragment, or of its first line if the fragment is shortened."""
    if fragment and text.startswith(fragment, start):
        return start + len(fragment)
    line = text[start:].partition("\n")[0].rstrip()
    try:
        first = tokenize(line)[0]
    except ClauseError:
        return start + max(len(line), 1)
    return start + (len(line) if fragment else max(first.end, 1))
