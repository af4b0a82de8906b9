"""Completion inside SQL cells: makes :mod:`sparkcep.tools.complete` a matcher of IPython's completer.

``notebook/magic`` installs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from IPython.core.completer import SimpleCompletion, context_matcher

from sparkcep.notebook.session import session_of
from sparkcep.tools.complete import complete

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext
    from IPython.core.interactiveshell import InteractiveShell

MATCHER = "sparkcep.sql"  # its name in the completer


def matcher(shell: InteractiveShell, magics: Sequence[str]) -> Callable[[CompletionContext], dict[str, Any]]:
    """Returns a matcher for the cells and lines of these magics. Elsewhere it proposes nothing and leaves other matchers alone."""

    functions: dict[object, Callable[[], list[str]]] = {}  # session -> its functions, requested once

    @context_matcher(identifier=MATCHER)
    def sql(context: CompletionContext) -> dict[str, Any]:
        statements, at = _sql(context.full_text, context.cursor_line, context.cursor_position, magics)
        if statements is None:
            return {"completions": []}
        session = session_of(shell.user_ns, start=False)
        known = ()
        if session is not None:
            from sparkcep.spark.session.catalog import columns_of, functions_of, tables_of

            if session not in functions:
                functions.clear()
                functions[session] = functions_of(session)
            known = (columns_of(session), tables_of(session), functions[session])
        found = complete(statements, at, *known)
        if not found:
            return {"completions": []}
        shown = [SimpleCompletion(proposal.text, type=proposal.kind) for proposal in found]
        return {"completions": shown, "matched_fragment": statements[found[0].start : at], "suppress": True, "ordered": True}

    return sql


def _sql(text: str, line: int, column: int, magics: Sequence[str]) -> tuple[str | None, int]:
    """Returns the SQL around a position of a cell, and the position in it. Returns (None, 0) if none of the magics begins it."""
    lines = text.split("\n")
    if text.startswith("%%"):
        name = (text[2:].split(None, 1) or [""])[0]
        skipped = 2 + len(name)
        at = sum(len(before) + 1 for before in lines[:line]) + column
        return (text[skipped:], at - skipped) if name in magics and at > skipped else (None, 0)
    before, percent, behind = lines[line].partition("%")
    name = (behind.split(None, 1) or [""])[0]
    skipped = len(before) + 1 + len(name)
    return (lines[line][skipped:], column - skipped) if percent and name in magics and column > skipped else (None, 0)
