"""Finds the clause of a statement that a question is about, and the query that reads its input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sparkcep.clause.tokens import END, WORD, matching, name_of, tokenize
from sparkcep.clause.tree import MatchClause
from sparkcep.errors import SEMANTIC, ClauseError, position
from sparkcep.settings import Settings
from sparkcep.sql.rewrite.occurrences import Statement
from sparkcep.sql.rewrite.rewrite import rewrite_all
from sparkcep.sql.rewrite.rewritten import Rewritten
from sparkcep.sql.rewrite.table_names import definers, definitions, table_names
from sparkcep.tracing.conditions.question import WHY, Question, question_of
from sparkcep.tracing.kinds.arcs import question_of_arcs


@dataclass(frozen=True)
class Input:
    """A clause and its input.

    Attributes:
        clause: the clause.
        names: the WITH that the input needs, "" without one.
        source: the table of the clause, as SQL.
        settings: the settings for its plan.
        qualifiers: lower-case names that may qualify the input's columns.
        sql: the statement.
    """

    clause: MatchClause
    names: str
    source: str
    settings: Settings
    qualifiers: frozenset[str]
    sql: str

    def question(self, *, by_machine: bool = False) -> Question:
        """The clause taken apart. ``by_machine``: the machine computes the values."""
        take_apart = question_of if self.clause.automaton is None else question_of_arcs
        return take_apart(self.clause, self.settings, self.qualifiers, by_machine=by_machine)


def input_of(sql: str, which: str | int | None, settings: Settings) -> Input:
    """The clause that a question is about. Raises ClauseError of class WHY if there is none, or if it is unclear."""
    settings = replace(settings, prefilter=False, slices=False)
    found = rewrite_all(sql, settings)[1]
    if not found:
        raise ClauseError(WHY, "The statement lacks a MATCH_RECOGNIZE clause, and it does not read a stored view with one. Write the statement with its clause", sqlstate=SEMANTIC)
    chosen = found[0] if len(found) == 1 and which is None else _chosen(sql, found, which)
    statement = Statement(sql)
    spans = definitions(statement.tokens, statement.close, definers(statement.tokens, statement.close), chosen.origin.whole.start)
    if spans is None:
        raise ClauseError(WHY, "The clause is inside a WITH RECURSIVE, or inside a WITH of an inner query. Write its input as a view, and ask about a statement over the view")
    names = f"WITH {', '.join(sql[start:end] for start, end in spans)} " if spans else ""
    tokens = tokenize(chosen.source)
    count = sum(1 for token in tokens if token.kind != END)
    return Input(chosen.clause, names, chosen.source, settings, table_names(tokens, matching(tokens), 0, count), sql)


def _chosen(sql: str, found: list[Rewritten], which: str | int | None) -> Rewritten:
    """The clause that ``which`` names: by its alias, or by its number in the text."""
    names = names_of(sql, found)
    number = which if isinstance(which, int) else int(which) if isinstance(which, str) and which.isdigit() else 0
    for i, (name, one) in enumerate(names.items(), 1):
        if which is not None and (i == number or name.lower() == str(which).lower()):
            return one
    listed = ", ".join(f"{name} (line {position(sql, one.origin.whole.start)[0]})" for name, one in names.items())
    count = len(found)
    has = f"The statement has {count} clause{'s' if count > 1 else ''}: {listed}."
    raise ClauseError(WHY, f'{has} Write which="{next(iter(names))}"', sqlstate=SEMANTIC)


def names_of(sql: str, found: list[Rewritten]) -> Mapping[str, Rewritten]:
    """The clauses by their names, in the order of the text: the alias after the clause, else its number."""
    names: dict[str, Rewritten] = {}
    for i, one in enumerate(sorted(found, key=lambda one: one.origin.whole.end), 1):
        after = [token for token in tokenize(sql[one.origin.whole.end :])[:2] if token.kind != END]
        if after and after[0].kind == WORD and after[0].upper == "AS":
            after = after[1:]
        is_name = bool(after) and (after[0].kind == WORD and after[0].upper not in _AFTER or after[0].text.startswith("`"))
        name = name_of(after[0]) if is_name else str(i)
        names[name if name not in names else str(i)] = one
    return names


_AFTER = frozenset(
    """WHERE GROUP ORDER HAVING LIMIT UNION INTERSECT EXCEPT MINUS JOIN INNER CROSS LEFT RIGHT FULL OUTER SEMI ANTI NATURAL LATERAL ON USING WINDOW SORT CLUSTER
    DISTRIBUTE QUALIFY TABLESAMPLE PIVOT UNPIVOT OFFSET MATCH_RECOGNIZE""".split()
)
