"""What a cell shows when it fails: a message with the place in the user's statement, no Python traceback."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sparkcep.errors import ClauseError, position
from sparkcep.sql.lexer import tokenize

_PARSED = re.compile(r"\(line (\d+), pos (\d+)\)")  # the end of a ParseException
# where Spark's own message goes on with its place in the text it was given, and with the plan
_TAIL = re.compile(r"(?:; line \d+ pos \d+)?;?\n(?:'|\+-|== SQL|== DataFrame|\n).*", re.S)


class CellError(Exception):
    """A cell that cannot be run, or could not; IPython shows the message alone."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


class Interrupted(KeyboardInterrupt):
    """The cell was interrupted, and its Spark job cancelled."""

    def _render_traceback_(self) -> list[str]:
        return ["interrupted: the Spark job was cancelled"]


def pointed(error: ClauseError, text: str) -> str:
    """The error, and the line of ``text`` it means with a mark below the place."""
    from sparkcep.spark.rewriting import excerpt

    return f"{error}{excerpt(text, error)}"


def told(error: Exception, statement: str) -> str:
    """What to show for an exception that Spark, or sparkcep inside it, raised over ``statement``."""
    from sparkcep.spark.rewriting import excerpt
    from sparkcep.spark.told import clause_error

    if isinstance(error, ClauseError):
        text = str(error)
        return text if "== SQL" in text else pointed(error, statement)
    text = error.getMessage() or str(error) if hasattr(error, "getMessage") else str(error)
    ours = clause_error(text)
    if ours is not None:
        return pointed(ours, statement)
    message = _TAIL.sub("", text).strip()
    place = _place(error, statement)
    if place is None:
        return message
    line, column = position(statement, place[0])
    fragment = statement[place[0] : place[1]].split("\n")[0]
    return message + excerpt(statement, ClauseError("", "", line=line, column=column, fragment=fragment))


def _place(error: Any, statement: str) -> tuple[int, int] | None:
    """Where in ``statement`` Spark's error is: offsets of start and end.

    Spark counts in the text it was given, which differs where a clause was rewritten. So its fragment must stand at its offset, or
    be looked for among the user's tokens, where it counts if it stands there once.
    """
    for fragment, start in _spark_places(error):
        if statement[start : start + len(fragment)] == fragment:
            return start, start + len(fragment)
        begins = {t.start for t in tokenize(statement)}
        found = [m.start() for m in re.finditer(re.escape(fragment), statement) if m.start() in begins]
        if len(found) == 1:
            return found[0], found[0] + len(fragment)
    return None


def _spark_places(error: Any) -> Iterator[tuple[str, int]]:
    """(fragment, offset) of each place that Spark names in the text it was given."""
    for context in error.getQueryContext() if hasattr(error, "getQueryContext") else ():
        if "SQL" in str(context.contextType()).upper() and context.fragment():
            yield context.fragment(), context.startIndex()
    parameters = error.getMessageParameters() or {} if hasattr(error, "getMessageParameters") else {}
    found = _PARSED.search(str(error))
    fragment = parameters.get("error", "")[1:-1]  # in quotes
    if found and fragment:
        text = str(error).partition("== SQL ==\n")[2]
        yield fragment, sum(len(line) + 1 for line in text.splitlines()[: int(found[1]) - 1]) + int(found[2])
