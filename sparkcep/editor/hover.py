"""Describes the word at a position: a name of the clause, or a function or option of the language.

The descriptions of functions and options are ``reference.json``, which ``python -m tests.grammar.editors --write`` makes from the
documentation.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from sparkcep.clause.tokens import WORD, Span, Token, tokenize
from sparkcep.editor.document import Document, Statement, moved
from sparkcep.editor.names import MEASURE, REGISTER, STATE, SUBSET, VARIABLE, Name
from sparkcep.editor.positions import Lines
from sparkcep.sql.rewrite.occurrences import KEYWORD
from sparkcep.tools.statements import Place

_LONGEST = 4  # words of an option


@cache
def reference() -> dict[str, dict[str, dict[str, str]]]:
    """Returns the functions and options by their words in capitals."""
    return json.loads(Path(__file__).with_name("reference.json").read_text("utf-8"))


def hover(document: Document, at: int, docs: str = "") -> tuple[str, Span] | None:
    """Returns the description of the word at an offset, as Markdown, with the word's place. Returns None if it has none.

    ``docs``: the address of the documentation, or "".
    """
    named = document.name_at(at)
    if named is not None:
        statement, name, span = named
        return _of_name(document, statement, name), span
    statement = document.statement_at(at)
    place = statement.clause_at(at) if statement is not None else None
    if statement is None or place is None:
        return None
    found = _of_word(statement.text, place, at - statement.start)
    if found is None:
        return None
    about, span = found
    return described(about, docs), moved(span, statement)


def described(about: dict[str, Any], docs: str = "") -> str:
    """Returns a function or option of the reference as Markdown."""
    lines = [f"**`{about['signature']}`** in {about['where']}: {about['type']}", ""] if "signature" in about else []
    lines.append(about["about"])
    if about.get("more"):
        lines += ["", about["more"]]
    if docs:
        lines += ["", f"[Reference]({page(docs, about['page'])})"]
    return "\n".join(lines)


def page(docs: str, name: str) -> str:
    """Returns the address of a page of the documentation, in a folder of Markdown files or on a site."""
    if docs.startswith("file:"):
        return f"{docs.rstrip('/')}/{name}"
    return f"{docs.rstrip('/')}/{name.replace('.md', '.html', 1)}"


def _of_word(text: str, place: Place, at: int) -> tuple[dict[str, str], Span] | None:
    tokens = tokenize(text)
    i = next((i for i, token in enumerate(tokens) if token.kind == WORD and token.start <= at <= token.end), None)
    if i is None or tokens[i].upper == KEYWORD:
        return None
    if tokens[i + 1].text == "(" and tokens[i].upper in reference()["functions"]:
        return reference()["functions"][tokens[i].upper], Span(tokens[i].start, tokens[i].end)
    for length in range(_LONGEST, 0, -1):
        for first in range(max(i - length + 1, 0), i + 1):
            words = tokens[first : first + length]
            option = reference()["options"].get(" ".join(token.upper for token in words))
            if option is not None and all(_is_word(token, place) for token in words):
                return option, Span(words[0].start, words[-1].end)
    return None


def _is_word(token: Token, place: Place) -> bool:
    return token.kind == WORD and place.start <= token.start < place.end


def _of_name(document: Document, statement: Statement, name: Name) -> str:
    def sql(span: Span) -> str:
        return f"```sql\n{moved(span, statement).of(document.text)}\n```"

    head = f"**{name.text}**, {name.kind}"
    if name.kind == VARIABLE and name.about:
        head = f"**{name.text}**, arc from {name.about}"
    elif name.kind == SUBSET:
        head += f" of {name.about}"
    elif name.kind == REGISTER:
        head += f" of type {name.about}"
    parts = [head]
    if name.expression is not None:
        if name.kind in (STATE, REGISTER):
            parts.append("stays at rows where" if name.kind == STATE else "begins with")
        parts.append(sql(name.expression))
    elif name.kind == VARIABLE:
        parts.append("Any row matches it." if not name.about else "Its arc takes any row.")
    if name.kind == VARIABLE and (pattern := _pattern(statement, name)) is not None:
        parts.append(f"```sql\nPATTERN ({' '.join(moved(pattern, statement).of(document.text).split())})\n```")
    if name.kind in (VARIABLE, SUBSET, STATE):
        parts.append(_uses(document, statement, name))
    elif name.kind == MEASURE and len(name.places) > 1:
        parts.append(_uses(document, statement, name))
    return "\n\n".join(part for part in parts if part)


def _pattern(statement: Statement, name: Name) -> Span | None:
    """Returns the place of the row pattern that has a variable."""
    for place in statement.clauses():
        pattern = place.clause.pattern.span
        if any(pattern.holds(span) for span in name.places) and place.start <= name.definition.start <= place.end:
            return pattern
    return None


def _uses(document: Document, statement: Statement, name: Name) -> str:
    lines: Lines = document.lines
    others = [lines.position(statement.start + span.start)[0] + 1 for span in name.places if span != name.definition]
    return f"Used in line{'s' * (len(set(others)) > 1)} {', '.join(map(str, dict.fromkeys(others)))}." if others else ""
