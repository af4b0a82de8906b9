"""Explains ranked matches: why TOP k keeps a match or leaves it out, and the score of a match (LANGUAGE section 6).

The engine lists the best matches beyond the k that TOP keeps. Its own search for the k best must give the first k of them, or
nothing is explained. For a row in none of the matches the trace of the clause without PREF and TOP says why.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from sparkcep.errors import MatchRuntimeError, cut
from sparkcep.plan.plan import Plan
from sparkcep.tracing.answers.answer import MOST_COLUMNS, Why
from sparkcep.tracing.answers.differs import unconfirmed
from sparkcep.tracing.answers.explain import Asked
from sparkcep.tracing.answers.reasons import Reason
from sparkcep.tracing.answers.values import and_more, counted, no_match, row_spans
from sparkcep.tracing.conditions.question import Question
from sparkcep.tracing.kinds.explainer import Explainer
from sparkcep.tracing.kinds.listing import MOST, Compute, Listed, beyond_limits, listed
from sparkcep.tracing.kinds.names import ListedNames
from sparkcep.tracing.rows.frozen import FrozenRows

MOST_SHOWN = 5  # ranks that are shown
MOST_WINDOWS = 5  # sliding windows that are shown
NOT_TRACED = "The search is not traced: {}."


class RankList:
    """The ranked matches of a partition, of the sliding windows that hold matches if the clause has SLIDE.

    Attributes:
        top: k of TOP.
        compute: computes scores.
        matches: the best matches, by window and rank.
        right: whether the engine's search for the k best gives the first k of each window.
    """

    def __init__(self, rows: FrozenRows, compute: Compute) -> None:
        plan = rows.question.whole
        assert plan is not None and plan.ranking is not None
        self.top, self.compute = plan.ranking.top, compute
        (kept,) = listed(plan, [rows.table], compute)
        windows = len({_key(match.window) for match in kept}) or 1
        self.most = max(MOST // windows, self.top + 1)
        (self.matches,) = listed(with_top(plan, self.most), [rows.table], compute)
        self.right = places(kept) == places(match for match in self.matches if match.rank <= self.top)
        if self.right and len(self.matches) < self.most and plan.slide is None and plan.approximate is None:
            (unranked,) = listed(without_ranking(plan), [rows.table], compute)
            self.right = sorted(match.labelled for match in self.matches) == sorted(match.labelled for match in unranked)

    @property
    def windows(self) -> list[Any]:
        """The beginnings of the sliding windows with matches; [None] without SLIDE."""
        return list({_key(match.window): match.window for match in self.matches}.values()) or [None]

    def of(self, window: Any) -> list[Listed]:
        """The matches of a window, by rank."""
        return [match for match in self.matches if _key(match.window) == _key(window)]

    def complete(self, window: Any) -> bool:
        """Whether all matches of a window are listed."""
        return len(self.of(window)) < self.most


def _key(window: Any) -> str:
    return repr(window)


def places(matches: Iterable[Listed]) -> list[tuple[str, int, tuple[int, ...], tuple[int, ...]]]:
    """The window, rank, rows and variables of matches."""
    return [(_key(match.window), match.rank, *match.labelled) for match in matches]


def with_top(plan: Plan, top: int) -> Plan:
    """A plan with another k of TOP."""
    assert plan.ranking is not None
    return replace(plan, ranking=plan.ranking._replace(top=top))


def without_ranking(plan: Plan) -> Plan:
    """A plan without PREF, TOP and SLIDE."""
    return replace(plan, ranking=None, slide=None, leaves=(), arrays=(), aggregates=(), over_arrays=())


def explain_ranked(rows: FrozenRows, asked: Asked, compute: Compute, *, redact: str = "", max_steps: int) -> Why:
    """Answers a question about the rows of one partition under TOP k.

    Args:
        rows: the frozen rows.
        asked: the question.
        compute: computes scores.
        redact: "", "values" or "all".
        max_steps: how many steps a start row may take in the trace.

    Raises:
        ClauseError: the question names a match or a variable that does not exist; the search cannot be traced.
        MatchRuntimeError: the query fails for these rows.
    """
    ranks = RankList(rows, compute)
    if not ranks.right:
        return unconfirmed(rows, asked.words)
    return _Ranked(rows, asked, ranks, redact, max_steps).answer()


class _Ranked(Explainer):
    def __init__(self, rows: FrozenRows, asked: Asked, ranks: RankList, redact: str, max_steps: int) -> None:
        super().__init__(rows, asked, redact, max_steps)
        self.ranks = ranks

    # -- a row ----------------------------------------------------------------------------------------------

    def at(self, row: int) -> list[str]:
        """The answer for one row."""
        holding = [match for match in self.ranks.matches if row in match.rows]
        kept = [match for match in holding if match.rank <= self.ranks.top]
        if self.asked.match is not None:
            return self.not_in(row, self.asked.match)
        if self.wanted is not None:
            return self.expected(row, self.wanted, holding)
        head = self.names.head(row)
        if kept:
            named = and_more(kept, MOST_SHOWN, lambda match: self._as(match, row))
            return [f"{head} is in {named}.", *self.tables(row)]
        if holding:
            self.reasons.append(Reason("RANK", row + 1, holding[0].rows[0] + 1))
            return [f"{head} is in no match that TOP {self.ranks.top} keeps.", *self.tables(row)]
        if not all(map(self.ranks.complete, self.ranks.windows)):
            beyond = self.beyond(row)
            if beyond is None or beyond:
                self.reasons.append(Reason("RANK", row + 1, beyond[0].rows[0] + 1 if beyond else 0))
                return [f"{head} is in no match that TOP {self.ranks.top} keeps.", *self.after(beyond), *self.tables(row)]
        return self.traced(row)

    def beyond(self, row: int) -> list[Listed] | None:
        """The matches with a row, best first, if none of them is among the listed ones. None if they are too many to list."""
        try:
            (found,) = listed(replace(with_top(self.plan, 0), slide=None), [self.rows.table], self.ranks.compute, having=row)
        except MatchRuntimeError as error:
            if not beyond_limits(error):
                raise
            return None
        return sorted(found, key=lambda match: (is_missing(match.score), 0 if is_missing(match.score) else -match.score, match.rows))

    def after(self, beyond: Sequence[Listed] | None) -> list[str]:
        """The best match with a row beyond the listed ones."""
        most = f"{self.ranks.most:,} best matches"
        if not beyond:
            return [f"None of the {most} has the row. All matches are too many to list: add a WINDOW or a condition to see the others."]
        best, value = beyond[0], self.names.value
        line = f"{counted(len(beyond), 'match')} with the row {'is' if len(beyond) == 1 else 'are'} after the {most}. The best of them has score {value(best.score)}: {self.names.match(best)}."
        last = next(match for match in reversed(self.ranks.matches) if match.rank <= self.ranks.top)
        if best.score == last.score:
            return [line, f"Rank {last.rank} has this score, too. Of equal scores the match whose rows come first is kept."]
        return [line]

    def _as(self, match: Listed, row: int) -> str:
        name = f" {as_variables(match, row, self.question)}"
        window = "" if match.window is None else f" of the window from {self.window(match.window)}"
        return f"match {match.rank}{window}{name}"

    def window(self, window: Any) -> str:
        """The beginning of a sliding window. Windows of rows begin at positions from 0."""
        return f"row {window + 1}" if self.plan.slide.kind == "rows" else self.names.value(window)

    def inside(self, window: Any) -> str:
        """The words about a sliding window, "" without SLIDE."""
        return "" if window is None else f" in the window from {self.window(window)}"

    def apart(self, row: int) -> list[Listed]:
        """With SLIDE the matches with a row that is in no ranked match: no window holds them."""
        if self.plan.slide is None:
            return []
        (found,) = listed(without_ranking(self.plan), [self.rows.table], self.ranks.compute, having=row)
        return found

    def traced(self, row: int) -> list[str]:
        """Why the row is in no match at all: no sliding window holds one, or the trace without PREF and TOP says why."""
        if apart := self.apart(row):
            clause = self.question.stated
            assert clause is not None and clause.window is not None
            self.reasons.append(Reason("WINDOW", row + 1, apart[0].rows[0] + 1))
            written = " ".join(clause.window.span.of(clause.text).split())
            return [
                f"{self.names.head(row)} is in no match that lies in a sliding window.",
                f"R{self.names.match(apart[0])[1:]} would match without SLIDE, but no window of {written} holds all of its rows.",
            ]  # fmt: skip
        if self.question.untraced is not None:
            name = f" as {self.asked.expect}" if self.asked.expect is not None else ""
            return [f"{self.names.head(row)} is in no match{name}, whatever its rank.", NOT_TRACED.format(self.question.untraced.message)]
        return self.explained(row)

    def tables(self, row: int | None) -> list[str]:
        """The ranks of each window that has matches with the row."""
        lines: list[str] = []
        windows = [window for window in self.ranks.windows if row is None or any(row in match.rows for match in self.ranks.of(window))]
        for window in windows[:MOST_WINDOWS] or self.ranks.windows[:1]:
            lines += self.table(window, row)
        if len(windows) > MOST_WINDOWS:
            lines.append(f"and {len(windows) - MOST_WINDOWS} more windows")
        if self.plan.ranking.overall:
            lines.append("With OVERALL the matches of all partitions are ranked together, so a rank may be later than in this partition.")
        return lines

    def table(self, window: Any, row: int | None, wanted: Listed | None = None) -> list[str]:
        """The ranks of one window: those that TOP keeps, the first one that it leaves out, and the ``wanted`` one.

        By default that is the best one with the row.
        """
        matches = self.ranks.of(window)
        count = counted(len(matches), "match") if self.ranks.complete(window) else f"the {len(matches):,} best matches"
        where = self.inside(window)
        top = self.ranks.top
        head = f"TOP {top} keeps {min(top, len(matches))} of {count}{where}."
        holding = [match for match in matches if row is not None and row in match.rows]
        if holding and len(holding) < len(matches):
            head += f" {len(holding):,} of them {'has' if len(holding) == 1 else 'have'} the row."
        shown = {match.rank: match for match in matches[: min(top, MOST_SHOWN)]}
        shown |= {match.rank: match for match in matches[top - 1 : top + 1]}
        best = wanted or (holding[0] if holding else None)
        shown |= {} if best is None else {best.rank: best}
        lines = [head, *self._lines(list(shown.values()), len(matches))]
        if best is not None and best.rank > top and len(matches) >= top:
            lines.append(self.compared(best, matches[top - 1]))
        return lines

    def _lines(self, matches: Sequence[Listed], count: int) -> Iterator[str]:
        """One line for each match. A gap between ranks is marked."""
        matches = sorted(matches, key=lambda match: match.rank)
        ranks = max((len(str(match.rank)) for match in matches), default=0)
        scores = max((len(self.names.value(match.score)) for match in matches), default=0)
        before = 0
        for match in matches:
            if match.rank > before + 1:
                yield "  ..."
            before = match.rank
            errors = f", {errors_text(match, self.question.plan.variables)}" if self.plan.approximate is not None else ""
            left_out = "  left out" if match.rank > self.ranks.top else ""
            line = f"  rank {match.rank:<{ranks}}  score {self.names.value(match.score):>{scores}}  {self.names.match(match)}{errors}{left_out}"
            yield cut(line, MOST_COLUMNS)
        if before < count:
            yield "  ..."

    def compared(self, match: Listed, last: Listed) -> str:
        """Why a match ranks after the last one that TOP keeps."""
        text = self.names.value
        if is_missing(match.score):
            return f"Its score is {'NULL' if match.score is None else 'NaN'}, and such matches rank last." if not is_missing(last.score) else self._tie(match, last)
        if is_missing(last.score) or match.score != last.score:
            return f"TOP {self.ranks.top} keeps scores of {text(last.score)} or more, and {text(match.score)} is less."
        return self._tie(match, last)

    def _tie(self, match: Listed, last: Listed) -> str:
        shorter = "the shorter match, then " if self.plan.approximate is not None and self.question.stated.pref is None else ""
        if match.rows != last.rows:
            return f"The scores of ranks {last.rank} and {match.rank} are equal. Of equal scores {shorter}the match whose rows come first is kept: {row_spans(last.rows) if last.rows else 'an empty match'} before {row_spans(match.rows) if match.rows else 'an empty match'}."
        return f"The scores and rows of ranks {last.rank} and {match.rank} are equal. Then the match that the pattern prefers is kept."

    # -- a match, and a variable ----------------------------------------------------------------------------

    def numbered(self, number: int) -> list[Listed]:
        """The matches with a rank, one for each window. Raises ClauseError if there are none."""
        found = [match for match in self.ranks.matches if match.rank == number]
        if not found:
            count = max((match.rank for match in self.ranks.matches), default=0)
            raise no_match(number, count, "" if count < self.ranks.most else f"more than {count - 1:,} matches, and only the best ones are listed")
        return found

    def match(self, number: int) -> list[str]:
        """Why a match has its rank."""
        lines: list[str] = []
        of = self.names.of_partition
        for match in self.numbered(number)[:MOST_WINDOWS]:
            window = self.inside(match.window)
            if match.rank > self.ranks.top:
                self.reasons.append(Reason("RANK", 0, match.rows[0] + 1 if match.rows else 0))
                lines.append(f"Match {number}{of}{window} is left out by TOP {self.ranks.top}: {self.names.match(match)}.")
            elif not match.rows:
                lines.append(f"Match {number}{of}{window} is empty.")
            else:
                lines.append(f"Match {number}{of}{window} takes {row_spans(match.rows)}: {self.names.labels(match.variables)}.")
            lines.append(f"  It has rank {match.rank} and score {score_text(self.names, match)}.")
            matches = self.ranks.of(match.window)
            around = [other for other in matches if abs(other.rank - number) <= 1 or other.rank == self.ranks.top]
            lines += self._lines(around, len(matches))
            if match.rank > self.ranks.top:
                lines.append(self.compared(match, matches[self.ranks.top - 1]))
        return lines

    def not_in(self, row: int, number: int) -> list[str]:
        """Why a row is not in a match."""
        head, found = self.names.head(row), self.numbered(number)
        inside = [match for match in found if row in match.rows]
        if inside:
            return [f"{head} is in {self._as(inside[0], row)}.", *self.tables(row)]
        others = [match for match in self.ranks.matches if row in match.rows]
        lines = [f"{head} is not in match {number}: {self.names.match(found[0])}."]
        if others:
            first = min(others, key=lambda match: match.rank)
            self.reasons.append(Reason("RANK", row + 1, first.rows[0] + 1))
            lines.append(f"The best match with the row has rank {first.rank}{self.inside(first.window)} and score {self.names.value(first.score)}: {self.names.match(first)}.")
        else:
            lines.append("No listed match has the row.")
        return [*lines, *self.tables(row if others else None)]

    def expected(self, row: int, variable: int, holding: Sequence[Listed]) -> list[str]:
        """Why a row is not a variable in a match that TOP keeps."""
        name = self.question.name(variable)
        found = [match for match in holding if match.has(row, variable)]
        if not found:
            if all(map(self.ranks.complete, self.ranks.windows)):
                return self.traced(row)
            return [f"{self.names.head(row)} is not {name} in any of the {self.ranks.most:,} best matches.", *self.tables(row)]
        head, first = self.names.head(row), min(found, key=lambda match: match.rank)
        if first.rank <= self.ranks.top:
            return [f"{head} is {name} in match {first.rank}{self.inside(first.window)}.", *self.tables(row)]
        self.reasons.append(Reason("RANK", row + 1, first.rows[0] + 1, name))
        lines = [f"{head} is not {name} in a match that TOP {self.ranks.top} keeps.", f"The best match with the row as {name} has rank {first.rank}{self.inside(first.window)}: {self.names.match(first)}."]
        return [*lines, *self.table(first.window, None, first)]


def is_missing(score: Any) -> bool:
    """Whether a score ranks last: NULL or NaN."""
    return score is None or (isinstance(score, float) and math.isnan(score))


def as_variables(match: Listed, row: int, question: Question) -> str:
    """The variables of a row of a match, such as ``as A`` or ``as A and B``."""
    names = [question.name(variable) for variable in match.variables_of(row) if variable >= 0]
    return f"as {' and '.join(names)}" if names else "as an extra row"


def errors_text(match: Listed, variables: Sequence[str]) -> str:
    """The errors of an approximate match, such as ``1 error: missing C``. ``variables``: the names of variables."""
    if not match.errors:
        return "no errors"
    parts = []
    if match.missing:
        parts.append(f"missing {' '.join(match.missing)}")
    parts += [f"row {row + 1} substituted for {variables[match.variables_of(row)[0]]}" for row in match.substituted]
    if -1 in match.variables:
        parts.append(f"extra {row_spans([row for row, variable in zip(match.rows, match.variables, strict=True) if variable < 0])}")
    cost = f"{match.errors:g} {'error' if match.errors == 1 else 'errors'}"
    return f"{cost}: {', '.join(parts)}" if parts else cost


def score_text(names: ListedNames, match: Listed) -> str:
    """The score of a match, with the values of the objectives."""
    clause = names.question.stated
    assert clause is not None
    prefs = clause.preferences()
    if not prefs:
        return names.value(match.score)
    goals = [
        f"{goal} ({' '.join(expr.span.of(clause.text).split())}) = {names.value(value)}"
        for (goal, expr), value in zip([objective for pref in prefs for objective in pref.objectives], match.objectives, strict=True)
    ]
    combine = f", combined by {clause.pref.combine}" if clause.pref is not None and clause.pref.combine else ""
    return f"{names.value(match.score)}: {', '.join(goals)}{combine}"
