"""Finds the stored view that a statement reads, and writes its clause back.

Spark stores the rewritten text of a view. Each call of the table function in it has the plan of a clause.
:mod:`sparkcep.sql.stored` prints the clause from the plan, so a question about the view becomes a question about this clause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sparkcep.clause.tokens import END, QUOTED, WORD, Token, matching, name_of, tokenize
from sparkcep.errors import SEMANTIC, ClauseError
from sparkcep.settings import Settings
from sparkcep.spark.why.filtered import LEVELS
from sparkcep.sql.rewrite.occurrences import has_keyword
from sparkcep.sql.rewrite.table_names import definers, definitions
from sparkcep.sql.stored.calls import has_call, with_clauses
from sparkcep.tracing.conditions.question import WHY

_STARTS = frozenset(["FROM", "JOIN", "TABLE"])
_ENDS = frozenset("SELECT WHERE GROUP HAVING ORDER LIMIT ON USING UNION EXCEPT INTERSECT MINUS WINDOW QUALIFY".split())


@dataclass(frozen=True)
class View:
    """A stored view.

    Attributes:
        text: its query.
        home: the catalog and database of its names, "" for a temporary view.
    """

    text: str
    home: str = ""


@dataclass(frozen=True)
class Names:
    """How a session looks up names: the current catalog and database, and its temporary views in lower case."""

    home: str
    temporary: frozenset[str]


def with_clause(sql: str, which: str | int | None, settings: Settings, view: Callable[[str], View | None], names: Callable[[], Names]) -> tuple[str, str | int | None]:
    """The statement that a question is about, and which of its clauses.

    Args:
        sql: the statement. With a clause of its own it stays as it is.
        which: the clause, or the view if the statement reads several with clauses.
        settings: the session's settings.
        view: returns a view by its name, None for another table.
        names: how the session looks up names.

    Raises:
        ClauseError: the view is unclear, or its clause cannot be written back (class WHY).
    """
    if has_keyword(sql):
        return sql, which
    if has_call(sql):
        return with_clauses(sql, "the statement", settings), which
    found = dict(_views(sql, view, LEVELS))
    if not found:
        return sql, which
    named = next((name for name in found if str(which).lower() == name.lower()), None)
    if named is None and len(found) > 1:
        raise ClauseError(WHY, f'The statement has {len(found)} views with clauses: {", ".join(found)}. Write which="{next(iter(found))}"', sqlstate=SEMANTIC)
    name = named or next(iter(found))
    text = with_clauses(found[name].text, f"the view {name}", settings)
    _check_names(name, found[name], names())
    return text, None if named is not None else which


def _views(sql: str, view: Callable[[str], View | None], levels: int) -> Iterator[tuple[str, View]]:
    """The views with clauses that a query reads, by their names. Looks into views of views."""
    for name in _tables(sql):
        found = view(name) if levels else None
        if found is not None and has_call(found.text):
            yield name, found
        elif found is not None:
            yield from _views(found.text, view, levels - 1)


def _tables(sql: str) -> Iterator[str]:
    """The tables that a query names, without its CTEs."""
    tokens = [token for token in tokenize(sql) if token.kind != END]
    close = matching(tokens)
    spans = definitions(tokens, close, definers(tokens, close), len(sql)) or []
    defined = {name_of(tokenize(sql[start:end])[0]).lower() for start, end in spans}
    inside = [False]  # whether a comma separates tables, for each open parenthesis
    for i, token in enumerate(tokens[:-1]):
        if token.text == "(":
            inside.append(False)
        elif token.text == ")" and len(inside) > 1:
            inside.pop()
        elif token.kind == WORD and token.upper in _STARTS | _ENDS:
            inside[-1] = token.upper in _STARTS
        if token.upper in _STARTS or (token.text == "," and inside[-1]):
            end = i + 1
            while end + 2 < len(tokens) and tokens[end + 1].text == "." and _is_name(tokens[end + 2]):
                end += 2
            called = end + 1 < len(tokens) and tokens[end + 1].text == "("
            if _is_name(tokens[end]) and not called and not (end == i + 1 and name_of(tokens[end]).lower() in defined):
                yield sql[tokens[i + 1].start : tokens[end].end]


def _is_name(token: Token) -> bool:
    return token.kind in (WORD, QUOTED)


def _check_names(name: str, view: View, session: Names) -> None:
    """Raises ClauseError if the names in a view's query mean other tables in this session."""
    if not view.home:
        return
    if view.home != session.home:
        raise ClauseError(WHY, f"The names in the view {name} are those of {view.home}, and the session is in {session.home}. Write USE {view.home}, and ask again", sqlstate=SEMANTIC)
    for table in _tables(view.text):
        if "." not in table and table.strip("`").lower() in session.temporary:
            raise ClauseError(WHY, f"The view {name} reads a table {table}, which a temporary view of this session hides. Write DROP VIEW {table}, and ask again", sqlstate=SEMANTIC)
