"""Counts the matches of a clause without its anchors, and without its WINDOW: hints of an answer about a whole table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sparkcep.clause import nodes
from sparkcep.clause.tree import MatchClause
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.plan.build import drafted
from sparkcep.settings import Settings
from sparkcep.tracing.conditions.question import Question
from sparkcep.tracing.rows.frozen import FrozenRows
from sparkcep.tracing.rows.verify import matches_of


def without(question: Question, parts: Sequence[FrozenRows], settings: Settings) -> Iterator[str]:
    """Yields a line for the anchors and for WINDOW, if the clause has matches without them.

    Args:
        question: the clause.
        parts: the traced partitions. None of them has a match.
        settings: the session's settings.
    """
    clause = question.clause
    anchors = [name for kind, name in ((nodes.Start, "^"), (nodes.End, "$")) if nodes.contains(clause.pattern, kind)]
    if anchors:
        yield from _said(" and ".join(anchors), replace(clause, pattern=_unanchored(clause.pattern)), question, parts, settings)
    if clause.window is not None:
        yield from _said(
            " ".join(clause.window.span.of(clause.text).split()), replace(clause, window=None), question, parts, settings
        )


def _said(what: str, clause: MatchClause, question: Question, parts: Sequence[FrozenRows], settings: Settings) -> Iterator[str]:
    try:
        plan = drafted(replace(clause, measures=(), rows="show"), settings=settings).plan
        if (
            set(plan.inputs) <= set(question.plan.inputs)
            and plan.letters == question.plan.letters
            and set(plan.ordered_inputs) <= set(question.plan.ordered_inputs)
        ):
            count = sum(len(matches_of(plan, part.table)) for part in parts)
            if count:
                yield f"Hint: without {what} there would be {count:,} match{'es' if count > 1 else ''}."
    except (ClauseError, MatchRuntimeError):
        return  # the changed clause is wrong, or fails for these rows


def _unanchored(node: nodes.Node) -> nodes.Node:
    """The pattern with nothing instead of each anchor."""
    if isinstance(node, nodes.Start | nodes.End):
        return nodes.Empty()
    if isinstance(node, nodes.Concat | nodes.Alternate | nodes.Conjunct | nodes.Permute):
        return replace(node, items=tuple(map(_unanchored, node.items)))
    if isinstance(node, nodes.Not | nodes.Exclude | nodes.Repeat | nodes.Within):
        return replace(node, item=_unanchored(node.item))
    return node
