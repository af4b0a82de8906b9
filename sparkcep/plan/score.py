"""PREF and TOP k: the score of a match and the order in which matches rank (LANGUAGE sections 6 and 9; CPR, 2011, section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from sparkcep.clause.lexer import Span
from sparkcep.clause.tree import WITH_UNMATCHED, MatchClause, Preference
from sparkcep.errors import SEMANTIC, ClauseError, error_at, position
from sparkcep.plan.costs import BUNDLES, constant, report
from sparkcep.plan.measures import MeasureSplitter
from sparkcep.plan.preference import Conjoined, Monotone, additive_terms, conjoined_score, monotone_score
from sparkcep.plan.scope import SCORE
from sparkcep.plan.window import window_size

MAX_TOP = 1_000_000_000
_NUMBERS = "'tinyint', 'smallint', 'int', 'bigint', 'float', 'double', 'void'"


class Ranking(NamedTuple):
    """``objectives``: SQL texts over leaves, that become the columns ``__g0``, ...; ``score``: SQL text over those; ``top``: how many matches are kept, 0 for all; ``overall``: of all partitions together; ``order``: SQL
    ORDER BY items over leaves and the score, the best match first; ``vector``: the leaf with the positions of a match's rows; ``place``: line, column and text of
    the preference; ``terms``: of an additive preference (pattern.preference.Term); ``by_engine``: whether the engine tells the ranks; ``joined``: of a
    monotone preference that is not additive (members of pattern.preference.Monotone); ``conjoined``: of a conjunction (members of Conjoined)."""

    objectives: tuple[str, ...]
    score: str
    top: int
    overall: bool
    order: tuple[str, ...]
    vector: str
    place: tuple
    terms: tuple
    by_engine: bool = False
    joined: tuple = ()
    conjoined: tuple = ()

    @property
    def monotone(self) -> Monotone | None:
        return Monotone(*self.joined) if self.joined else None

    @property
    def by_sides(self) -> Conjoined | None:
        return Conjoined(*self.conjoined) if self.conjoined else None


def check_ranking(clause: MatchClause) -> None:
    """Raises ClauseError for a PREF, TOP or SLIDE that cannot apply, at its place."""
    pref, top, window = clause.pref, clause.top, clause.window
    if pref is not None and pref.combine == "PRODUCT" and any(goal == "MIN" for goal, _ in pref.objectives):
        raise _fail(clause, pref.span, "PREF", "COMBINE BY PRODUCT cannot be used with a MIN objective; combine by SUM")
    if window is not None and window.slide is not None:
        _check_slide(clause)
    if top is None:
        return
    number = constant(clause.text, top.k)
    if number is None or not 1 <= number <= MAX_TOP or number.denominator != 1:
        raise _fail(clause, top.k.span, "TOP", f"TOP takes a whole number, 1 or more, not {top.k.span.of(clause.text)}")
    if pref is None and clause.approx is None:
        raise _fail(clause, top.span, "TOP", "TOP k ranks by a preference: add PREF MAX (...) or PREF MIN (...)")
    if clause.skip is not None:
        raise _fail(clause, clause.skip.span, "TOP", "TOP ranks all matches, so AFTER MATCH SKIP cannot be written with it")
    if clause.rows == WITH_UNMATCHED:
        raise _fail(clause, top.span, "TOP", "TOP keeps some of the matches, so WITH UNMATCHED ROWS has no meaning; use ALL ROWS PER MATCH")


def _check_slide(clause: MatchClause) -> None:
    window = clause.window
    assert window is not None and window.slide is not None
    if clause.top is None:
        raise _fail(clause, window.span, "SLIDE_WITHOUT_TOP", "SLIDE ranks the matches of each window, so it needs TOP k")
    kind, size = window_size(window.size, clause.text, window.rows)
    step_kind, step = window_size(window.slide, clause.text, window.slide_rows or (window.rows and window.slide.bare().op == "lit"))
    if kind != step_kind:
        raise _fail(clause, window.slide.span, "SLIDE", "the step of SLIDE is of the same unit as the size of its WINDOW")
    if Fraction(step) > Fraction(size):
        raise _fail(clause, window.slide.span, "SLIDE", "the step of SLIDE must not be larger than the WINDOW, or rows between windows would be lost")
    if clause.approx is not None and report(clause) == BUNDLES:
        raise _fail(clause, window.span, "SLIDE", "SLIDE ranks the matches of each window and MATCH BUNDLES joins windows; use one of them")


def slide_of(clause: MatchClause) -> tuple[str, str]:
    """(kind, step as a decimal text) of SLIDE in a checked clause; ("", "") without one."""
    window = clause.window
    if window is None or window.slide is None:
        return ("", "")
    return window_size(window.slide, clause.text, window.slide_rows or (window.rows and window.slide.bare().op == "lit"))


def ranking_of(
    clause: MatchClause, measures: MeasureSplitter, window: tuple, partition: tuple[str, ...], local: Mapping[int, str]
) -> Ranking | None:
    """The ranking of a checked clause; its leaves are added to ``measures``. ``window``: the plan's first one; ``partition``: SQL texts of the keys;
    ``local``: the row-local part of each variable's condition, as SQL text."""
    terms = additive_terms(clause, measures.scope, measures.inputs, local)
    pref, top = clause.pref, clause.top
    if pref is None and top is None:
        return None
    if pref is not None:
        objectives = tuple(measures.split_final(expr) for _, expr in pref.objectives)
        score = _score(pref)
        if terms:
            # floating sums are the engine's, in row order, so that their bits are the same on every cluster; others are exact anyway
            score = f"coalesce({measures.score(len(objectives) if pref.combine == 'AVG' else 1, terms)}, {score})"
        place: tuple = (*position(clause.text, pref.span.start), pref.span.of(clause.text)[:40].split("\n")[0])
        order = [f"IF(isnan({SCORE}), NULL, {SCORE}) DESC NULLS LAST"]
    else:
        # fewest errors, then shortest duration
        objectives, score, place = (measures.approximate_errors(),), "-__g0", ()
        order = ["__g0", measures.duration(window)]
    if top is None:
        return Ranking(objectives, score, 0, False, (), "", place, terms)
    number = constant(clause.text, top.k)
    assert number is not None
    vector = measures.vector()
    if measures.step:
        measures.window_start()
    overall = top.scope == "OVERALL"
    # between matches that only their variables tell apart preferment decides
    order += [vector, *((f"{key} ASC NULLS FIRST" for key in partition) if overall else ()), measures.match_number()]
    return Ranking(objectives, score, int(number), overall, tuple(order), vector, place, terms)


def with_join(ranking: Ranking, clause: MatchClause, measures: MeasureSplitter, local: Mapping[int, str]) -> Ranking:
    """The same with what a rank join needs, where the score is monotone and no sum; to be asked where all rows in order that fulfil their conditions make a
    match."""
    if not ranking.top or ranking.terms:
        return ranking
    return ranking._replace(
        joined=tuple(monotone_score(clause, measures.scope, measures.inputs, local) or ()),
        conjoined=tuple(conjoined_score(clause, measures.scope, measures.inputs, local) or ()),
    )


def _score(pref: Preference) -> str:
    """The combination of the objectives; NULL where one of them is."""
    names = [f"__g{i}" for i in range(len(pref.objectives))]
    parts = [f"(-{_number(name)})" if goal == "MIN" else _number(name) for name, (goal, _) in zip(names, pref.objectives)]
    combine = pref.combine or "SUM"
    if len(parts) == 1:
        return parts[0]
    if combine in ("MIN", "MAX"):
        nulls = " OR ".join(f"{name} IS NULL" for name in names)
        return f"CASE WHEN {nulls} THEN NULL ELSE {'least' if combine == 'MIN' else 'greatest'}({', '.join(parts)}) END"
    if combine == "AVG":
        return f"({' + '.join(parts)}) / {len(parts)}"
    return f"{' * ' if combine == 'PRODUCT' else ' + '}".join(parts)


def _number(column: str) -> str:
    """An objective that is no number is an error; typeof is a constant to Spark, so that nothing is left of the test."""
    wrong = f"raise_error(concat('[SPARKCEP.PREF] PREF needs a number, not a value of type ', typeof({column})))"
    return f"IF(typeof({column}) IN ({_NUMBERS}) OR typeof({column}) LIKE 'decimal%', {column}, {wrong})"


def ranks_all(clause: MatchClause) -> bool:
    """Whether every match takes part, as TOP has it unless FIRST MATCH is written."""
    return clause.top is not None and not (clause.selection is not None and clause.selection.report == "FIRST")


def _fail(clause: MatchClause, span: Span, error_class: str, message: str) -> ClauseError:
    return error_at(clause.text, span.start, span.end, error_class, message, SEMANTIC)
