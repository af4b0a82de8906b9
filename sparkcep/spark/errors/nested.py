"""What is wrong with the table of a clause over a stream, where Spark says only that a stream may not stand there.

Spark checks a table argument that cannot be resolved (a misspelled column) as a subquery before it looks at what is in it, and of a
subquery over a stream it says that there may be none.
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
    """The error of a query inside a call of the table function, with the places of its statement; None where ``raised`` hides none.

    ``run`` analyses a statement. Offsets in the query are those in the statement, since all around it is blank.
    """
    if raised.getCondition() != _MASKS:
        return None
    text = places.rewritten
    for start, end in _tables(text):
        try:
            run(re.sub(r"[^\n]", " ", text[:start]) + text[start:end])
        except PySparkException as error:
            # a name that is not found here may be that of a WITH around
            known = _EXPLAINED if re.search(r"\bWITH\b", text[:start], re.IGNORECASE) else (*_EXPLAINED, "TABLE_OR_VIEW_NOT_FOUND")
            if str(error.getCondition()).startswith(known):
                plain = copy.copy(places)
                plain.restored = False
                return error, plain
    return None


def _tables(text: str) -> list[tuple[int, int]]:
    """Where the queries of calls of the table function stand, those inside others first."""
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
