"""Finds the real error in the table of a clause over a stream if Spark only says that a stream is not allowed there.

``spark/session/session`` uses it. If a table argument cannot be resolved (a misspelled column), Spark first checks it as a
subquery, and refuses any subquery over a stream.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from sparkcep.clause.tokens import tokenize

if TYPE_CHECKING:
    from sparkcep.sql.rewrite.places import Places

_MASKS = "INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY"
_CALL = "match_recognize(TABLE("
_EXPLAINED = ("UNRESOLVED_COLUMN", "UNRESOLVED_ROUTINE", "DATATYPE_MISMATCH", "WRONG_NUM_ARGS", "AMBIGUOUS_REFERENCE", "FIELD_NOT_FOUND", "UNSUPPORTED_FEATURE", "EXPRESSION_TYPE_IS_NOT_ORDERABLE")


def inner_error(raised: PySparkException, places: Places, run: Callable[[str], Any]) -> tuple[PySparkException, Places] | None:
    """Returns the error of a query inside a call of the table function, with the positions of its statement.

    Returns None if ``raised`` hides no such error. ``run`` analyses a statement. Blanks replace the text before the query, so
    offsets in the query are offsets in the statement.
    """
    if raised.getCondition() != _MASKS:
        return None
    text = places.rewritten
    for start, end in _tables(text):
        try:
            run(re.sub(r"[^\n]", " ", text[:start]) + text[start:end])
        except PySparkException as error:
            # A name that is not found here may be defined by an enclosing WITH.
            known = _EXPLAINED if re.search(r"\bWITH\b", text[:start], re.IGNORECASE) else (*_EXPLAINED, "TABLE_OR_VIEW_NOT_FOUND")
            if str(error.getCondition()).startswith(known):
                plain = copy.copy(places)
                plain.restored = False
                return error, plain
    return None


def _tables(text: str) -> list[tuple[int, int]]:
    """Returns the (begin, end) of each query in a call of the table function, inner ones first."""
    found, opened = [], []
    begins = {match.end() - 1 for match in re.finditer(re.escape(_CALL), text)}
    for token in tokenize(text):
        if token.text == "(":
            opened.append(token.start)
        elif token.text == ")" and opened:
            begin = opened.pop()
            if begin in begins:
                found.append((begin + 1, token.start))
    return found
