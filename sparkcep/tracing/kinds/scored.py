"""Explains matches with a score: PREF without TOP changes no match, so the trace explains them, and the score is added."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sparkcep.tracing.answers.answer import Why
from sparkcep.tracing.answers.differs import unconfirmed
from sparkcep.tracing.answers.explain import IN_FULL, Asked, explain
from sparkcep.tracing.answers.values import Values, counted, row_spans
from sparkcep.tracing.answers.writer import MOST_LINES
from sparkcep.tracing.kinds.listing import Compute, Listed, listed
from sparkcep.tracing.kinds.names import ListedNames
from sparkcep.tracing.kinds.ranked import NOT_TRACED, score_text, without_ranking
from sparkcep.tracing.rows.frozen import FrozenRows


def explain_scored(rows: FrozenRows, asked: Asked, compute: Compute, *, redact: str, max_steps: int) -> Why:
    """Answers a question about the rows of one partition under PREF.

    Args:
        rows: the frozen rows.
        asked: the question.
        compute: computes scores.
        redact: "", "values" or "all".
        max_steps: how many steps a start row may take.

    Raises:
        ClauseError: the question names a match or a variable that does not exist; the search cannot be traced.
        MatchRuntimeError: the query fails for these rows.
    """
    question, names = rows.question, ListedNames(rows, Values(redact))
    assert question.whole is not None
    (matches,) = listed(question.whole, [rows.table], compute)
    (unranked,) = listed(without_ranking(question.whole), [rows.table], compute)
    if [match.labelled for match in matches] != [match.labelled for match in unranked]:
        return unconfirmed(rows, asked.words)
    if question.untraced is not None:
        return _untraced(names, asked, matches, question.untraced.message)
    why = explain(rows, asked, redact=redact, max_steps=max_steps)
    return replace(why, lines=(*why.lines, *_scores(names, asked, matches))) if why.verified else why


def _scores(names: ListedNames, asked: Asked, matches: list[Listed]) -> Iterator[str]:
    """The scores of the matches that the question is about."""
    for match in matches:
        if match.number == asked.match or (asked.match is None and any(row in match.rows for row in asked.at)):
            yield f"Match {match.number} has score {score_text(names, match)}."


def _untraced(names: ListedNames, asked: Asked, matches: list[Listed], refusal: str) -> Why:
    """The matches with the rows that are asked about, without their decisions."""
    lines = []
    for row in asked.at:
        inside = [match for match in matches if row in match.rows]
        text = f"in {counted(len(inside), 'match')}" if inside else "in no match"
        lines.append(f"{names.head(row)} is {text}.")
    for match in matches:
        if match.rows and (match.number == asked.match or (asked.match is None and any(row in match.rows for row in asked.at[:IN_FULL]))):
            lines.append(f"Match {match.number} takes {row_spans(match.rows)}: {names.labels(match.variables)}.")
    lines = [*lines[:MOST_LINES], *list(_scores(names, asked, matches))[:MOST_LINES], NOT_TRACED.format(refusal)]
    return Why(dict(asked.words), True, lines[0], rows=tuple(row + 1 for row in asked.at), lines=tuple(lines))
