"""Gives ``:name`` in a statement the value of the notebook's variable of that name. Spark binds it; it is never pasted into the
text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkcep.clause.lexer import NUMBER, OP, QUOTED, STRING, WORD, tokenize


def names(statement: str) -> list[str]:
    """The names behind the ``:name`` markers of ``statement``, each once.

    A colon that touches what is before it is no marker: ``x::int``, ``a:b`` in a path, ``STRUCT<a: INT>``, ``label: LOOP``.
    """
    tokens, found = tokenize(statement), []
    for i, (colon, word) in enumerate(zip(tokens, tokens[1:])):
        before = tokens[i - 1] if i else None
        touching = before is not None and before.end == colon.start
        part = touching and (before.kind in (WORD, QUOTED, STRING, NUMBER) or before.text in (":", ")", "]", ">"))
        if colon.kind == OP and colon.text == ":" and word.kind == WORD and word.start == colon.end and not part:
            found.append(word.text)
    return list(dict.fromkeys(found))


def values(statement: str, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the markers of ``statement`` that ``namespace`` has a variable for. Spark reports the others."""
    return {name: namespace[name] for name in names(statement) if name in namespace}
