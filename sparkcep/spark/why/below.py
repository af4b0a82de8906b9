"""Hints about comparisons that are never true because a WHERE below the clause leaves their rows out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sparkcep.clause.tokens import one_line
from sparkcep.spark.why.filtered import filtered
from sparkcep.spark.why.partition import Run
from sparkcep.spark.why.statement import Input
from sparkcep.tracing.answers.hints import Totals
from sparkcep.tracing.answers.values import Values
from sparkcep.tracing.conditions.question import Question

MOST_TRIED = 3  # comparisons


def left_out(run: Run, asked: Input, question: Question, totals: Totals, view: Callable[[str], str]) -> Iterator[str]:
    """Yields a line for each comparison of a row that is never true, and that rows below a WHERE fulfil.

    Args:
        run: runs a statement.
        asked: the clause and its input.
        question: the clause taken apart.
        totals: how often each comparison is true.
        view: returns the query of a view by its name, "" for a table.
    """
    counted = [comparison for comparison in question.comparisons if comparison.number in totals.truths]
    never = [one for one in counted if not totals.truths[one.number][0] and not list(question.scope.match_functions(one.expr))]
    for comparison in never[:MOST_TRIED]:
        text = one_line(question.scope.row_text(comparison.expr))
        found = filtered(run, asked, text, Values("all"), view)
        if found:
            yield f"Hint: no row of the clause's input fulfils {text}. {found[0].removesuffix(':')}."
