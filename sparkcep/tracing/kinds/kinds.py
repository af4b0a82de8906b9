"""Answers a question by the kind of its clause: standard, scored, ranked, approximate, or an automaton.

``spark/why`` calls it with the rows that it fetched. Each module of this package explains one kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sparkcep.errors import MatchRuntimeError
from sparkcep.settings import Settings
from sparkcep.tracing.answers.answer import Why
from sparkcep.tracing.answers.differs import unconfirmed
from sparkcep.tracing.answers.explain import Asked, explain
from sparkcep.tracing.answers.overall import Totals, overall
from sparkcep.tracing.answers.reasons import Reason
from sparkcep.tracing.answers.values import Values, counted
from sparkcep.tracing.kinds.approximate import explain_approximate
from sparkcep.tracing.kinds.automaton import automaton_overall, explain_automaton
from sparkcep.tracing.kinds.counts import approximate_counts, ranked_counts
from sparkcep.tracing.kinds.listing import Compute, beyond_limits
from sparkcep.tracing.kinds.ranked import NOT_TRACED, explain_ranked
from sparkcep.tracing.kinds.scored import explain_scored
from sparkcep.tracing.rows.frozen import FrozenRows
from sparkcep.tracing.search.trace import MAX_STEPS

TOO_MUCH = "The answer lists all matches of the partition, and that takes too much work. Add a WINDOW or a condition, or ask about a smaller partition."


def explain_rows(rows: FrozenRows, asked: Asked, compute: Compute, *, redact: str = "", max_steps: int = MAX_STEPS) -> Why:
    """Answers a question about the rows of a partition.

    Args:
        rows: the frozen rows.
        asked: the question.
        compute: computes the scores of matches.
        redact: "", "values" or "all".
        max_steps: how many steps a start row may take.

    Raises:
        ClauseError: the question names a match or a variable that does not exist, or the clause cannot be traced.
        MatchRuntimeError: the query fails for these rows.
    """
    plan = rows.question.whole
    if plan is None and rows.question.clause.automaton is None:
        return explain(rows, asked, redact=redact, max_steps=max_steps)
    try:
        return _of_kind(rows, asked, compute, redact, max_steps)
    except MatchRuntimeError as error:
        if not beyond_limits(error):
            raise
        return _too_much(asked.words)


def _of_kind(rows: FrozenRows, asked: Asked, compute: Compute, redact: str, max_steps: int) -> Why:
    plan = rows.question.whole
    if plan is None:
        return explain_automaton(rows, asked, redact=redact)
    kind = explain_ranked if plan.ranking is not None and plan.ranking.top else explain_approximate if plan.approximate is not None else explain_scored
    return kind(rows, asked, compute, redact=redact, max_steps=max_steps)


def _too_much(words: Mapping[str, object]) -> Why:
    """The answer if a search that lists matches passes a limit."""
    return Why(dict(words), True, TOO_MUCH, (Reason("EFFORT"),), lines=(TOO_MUCH,))


def explain_overall(
    parts: Sequence[FrozenRows], totals: Totals, settings: Settings, compute: Compute, *, words: Mapping[str, object], redact: str = "",
    max_steps: int = MAX_STEPS, hints: Sequence[str] = (),
) -> Why:  # fmt: skip
    """Answers the question about a whole table. The arguments are those of :func:`explain_rows` and ``overall``."""
    if parts[0].question.whole is None and parts[0].question.clause.automaton is None:
        return overall(parts, totals, settings, words=words, redact=redact, max_steps=max_steps, hints=hints)
    try:
        return _overall(parts, totals, settings, compute, words, redact, max_steps, hints)
    except MatchRuntimeError as error:
        if not beyond_limits(error):
            raise
        return _too_much(words)


def _overall(
    parts: Sequence[FrozenRows], totals: Totals, settings: Settings, compute: Compute, words: Mapping[str, object], redact: str, max_steps: int,
    hints: Sequence[str],
) -> Why:  # fmt: skip
    question, plan = parts[0].question, parts[0].question.whole
    if plan is None:
        return automaton_overall(parts, totals, words=words, redact=redact, hints=hints)
    lines: list[str] | None = []
    begins = ""
    if plan.ranking is not None and plan.ranking.top:
        lines, begins = ranked_counts(parts, compute, Values(redact)), "Matches begin"
    elif plan.approximate is not None:
        lines, begins = approximate_counts(parts, compute), "Exact matches begin"
    if lines is None:
        return unconfirmed(parts[0], words)
    if question.untraced is not None:
        if not lines:
            raise question.untraced
        return Why(dict(words), True, lines[0], lines=(*lines, NOT_TRACED.format(question.untraced.message)))
    why = overall(parts, totals, settings, words=words, redact=redact, max_steps=max_steps, hints=hints)
    if not lines or not why.verified:
        return why
    if Reason("EFFORT") not in why.reasons:  # all start rows were searched
        lines = [*lines, f"{begins} at {counted(dict(why.funnel)['a match'], 'row')}."]
    timelines = tuple(replace(timeline, line=timeline.line + len(lines) - 1) for timeline in why.timelines)
    return replace(why, verdict=lines[0], lines=(*lines, *why.lines[1:]), timelines=timelines)
