"""Quick fixes for findings of lint: the correction that a message names, and a comment that ignores a rule.

A fix is offered only if lint does not report the finding for the fixed statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sparkcep.clause.tokens import Span
from sparkcep.editor.document import Document
from sparkcep.editor.sections import Section
from sparkcep.errors import offset
from sparkcep.tools.lint import ERROR, RULES, Finding, lint

_CALL = re.compile(r"(\w+)\s*\(")
_MEANT = re.compile(r"did you mean ([^\s?]+)\?")
_REMOVE = re.compile(r"\bRemove (?:the comma|it(?! from)|(?P<what>\S+?))(?:[.;,]|\s|$)")
_WRITE = re.compile(r"\b(?:[Ww]rite|[Qq]uote a name as|[Uu]se) `?(?P<text>[^`]+)")
_PROSE = re.compile(r"(?:an?|the|it|one|them|each|this|that|to)\b")  # not SQL
_OPTION, _WORDS = re.compile(r"[A-Z]+(?: [A-Z]+)+"), re.compile(r"\w+(?: \w+)*")  # an option replaces words alone
_ENDS = re.compile(r"`|[.;]?$|\. |; |, (?:or|and|as|with) | (?:for|to|instead|after|before|as|if|in|or|and|with)\b")


@dataclass(frozen=True)
class Fix:
    """A fix: ``text`` replaces the place in the document. ``alone``: whether the statement must then be free of errors."""

    title: str
    place: Span
    text: str
    alone: bool = True


def fixes(document: Document, place: Span, finding: Finding, double_quoted: bool = False) -> list[Fix]:
    """Returns the fixes of a finding at a place of the document."""
    section = document.section_at(place.start)
    if section is None:
        return []
    found: list[Fix] = []
    for fix in (*_corrections(document, place, finding), *_ignored(document, section, place, finding)):
        if all(fix.text != other.text for other in found) and _removes(document, section, fix, place, finding, double_quoted):
            found.append(fix)
    return found


def _corrections(document: Document, place: Span, finding: Finding) -> Iterator[Fix]:
    """Yields the corrections that the message may name, each as a replacement of the finding's place."""
    message, written = finding.message, place.of(document.text)
    if meant := _MEANT.search(message):
        # The name is that of the qualifier, and the mark may be at the whole column.
        rest = written[written.index(".") :] if "." in written else ""
        yield Fix(f"Replace {written} by {meant[1]}{rest}", place, meant[1] + rest, alone=False)
    if (removed := _REMOVE.search(message)) and (removed["what"] is None or removed["what"] == written):
        yield Fix(f"Remove {written}", place, "")
    if "of row patterns" in message:  # its text is for the operator with both sides
        return
    in_braces = document.text[max(place.start - 1, 0) : place.start] == "{"
    for write in _WRITE.finditer(message):
        for end in _ENDS.finditer(write["text"]):
            text = write["text"][: end.start()].strip().rstrip(",")
            called = _CALL.match(written)
            if called and text.isidentifier():
                text += written[len(called[1]) :]
            text = text.strip("{}") if in_braces else text
            prose = _PROSE.match(text) or (_OPTION.fullmatch(text) and not _WORDS.fullmatch(written))
            if text and text != written and not prose:
                yield Fix(f"Replace {written} by {text}", place, text)


def _ignored(document: Document, section: Section, place: Span, finding: Finding) -> Iterator[Fix]:
    """Yields a comment in a line of its own above the finding's line."""
    if finding.code in RULES and finding.severity != ERROR:
        line = document.text.rfind("\n", 0, place.start) + 1
        inside = document.text[line : place.start].removeprefix(section.prefix)
        indent = section.prefix * (line >= section.start) + inside[: len(inside) - len(inside.lstrip())]
        newline = "\r\n" if "\r\n" in document.text else "\n"
        yield Fix(f"Ignore {finding.code} here", Span(line, line), f"{indent}-- sparkcep: ignore {finding.code}{newline}")


def _removes(document: Document, section: Section, fix: Fix, place: Span, finding: Finding, double_quoted: bool) -> bool:
    """Whether lint does not report the finding after the fix, and no new error that the fix may have made.

    Only the statement is checked, and the lines that the fix adds before it.
    """
    statement = document.statement_at(place.start)
    around = Span(statement.start, statement.end) if statement is not None else Span(section.start, section.end)
    around = Span(min(around.start, fix.place.start), around.end)
    if around.start < section.start:
        return False
    written = section.text[around.start - section.start : around.end - section.start]
    start, end = fix.place.start - around.start, fix.place.end - around.start
    text = fix.text.replace(section.prefix, " " * len(section.prefix)) if section.prefix else fix.text
    fixed = written[:start] + text + written[end:]
    at = place.start - around.start + (len(text) if fix.place.start == fix.place.end else 0)
    found = lint(fixed, double_quoted)
    same = any(f.code == finding.code and offset(fixed, f.line, f.column) == at for f in found)
    line, known = fixed.count("\n", 0, at) + 1, {(f.code, f.message) for _, f in document.findings}
    errors = [f for f in found if f.severity == ERROR and (f.code, f.message) not in known]
    return not same and not any(fix.alone or f.line <= line for f in errors)
