"""Renames a variable, subset, state, register or measure of a clause.

A rename is refused if the renamed statement would read as anything but the same clause with another name.
"""

from __future__ import annotations

from sparkcep.clause.tokens import quote, unquoted
from sparkcep.editor.document import Statement
from sparkcep.editor.names import MEASURE, Name
from sparkcep.errors import ClauseError
from sparkcep.tools.statements import Place, clauses


class RenameError(Exception):
    """A name cannot be changed. The message says why."""


def renamed(statement: Statement, name: Name, new: str) -> str:
    """Returns ``new`` as it is written at each place of ``name``, in backticks if needed. Raises RenameError."""
    bare = unquoted(new.strip()) if new.strip() else ""
    if not bare:
        raise RenameError("the new name is empty")
    place = next(place for place in statement.clauses() if place.word.start <= name.definition.start <= place.end)
    others = [other for other in statement.names(place) if (other.kind == MEASURE) == (name.kind == MEASURE)]
    if any(other.text.lower() == bare.lower() and other.definition != name.definition for other in others):
        raise RenameError(f"{bare} is already a name of this clause. Choose another one")
    for written in dict.fromkeys((bare if bare.isidentifier() and bare.isascii() else quote(bare), quote(bare))):
        if _reads_as(statement, name, bare, written):
            return written
    raise RenameError(f"the clause would mean something else with the name {bare}. Choose another one")


def _reads_as(statement: Statement, name: Name, bare: str, written: str) -> bool:
    """Whether the statement, with ``written`` at all places of the name, has the same names, with ``bare`` instead of this one."""
    text = statement.text
    for span in reversed(name.places):
        text = text[: span.start] + written + text[span.end :]
    try:
        places = clauses(text)
    except ClauseError:
        return False
    after = Statement(text, statement.start, statement.section, statement.masks)
    expected = [_shape(statement, place) for place in statement.clauses()]
    for shape, place in zip(expected, statement.clauses()):
        if place.word.start <= name.definition.start <= place.end:
            own = (name.kind, name.text.lower())
            shape[:] = [(kind, bare.lower() if (kind, known) == own else known, count) for kind, known, count in shape]
    return [_shape(after, place) for place in places] == expected


def _shape(statement: Statement, place: Place) -> list[tuple[str, str, int]]:
    """Returns the names of a clause, each with its kind and the number of its places."""
    return [(name.kind, name.text.lower(), len(name.places)) for name in statement.names(place)]
