"""The clause error inside what Spark says when the table function's ``analyze`` raised it in a Python worker."""

from __future__ import annotations

import re

from sparkcep.errors import ClauseError

_TOLD = re.compile(
    r"Error: \[SPARKCEP\.([A-Z_]+)\] (.*?)(?: \((?:at|line (\d+), column (\d+):) '(.*?)'\))? SQLSTATE: (\w{5})", re.S
)


def clause_error(text: str) -> ClauseError | None:
    """The error that ``text``, a traceback, ends in; None if it is not one of ours."""
    found = _TOLD.search(text)
    if found is None:
        return None
    return ClauseError(
        found[1], found[2], sqlstate=found[6], line=int(found[3] or 0), column=int(found[4] or 0), fragment=found[5] or ""
    )
