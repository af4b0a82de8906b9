"""PREF and TOP k: the score of a match and the order in which matches rank (LANGUAGE sections 6 and 9; CPR, 2011, section 3.1)."""

from __future__ import annotations

from fractions import Fraction

from sparkcep.clause.lexer import Span
from sparkcep.clause.tree import WITH_UNMATCHED, MatchClause, Preference
from sparkcep.errors import SEMANTIC, ClauseError, error_at, position
from sparkcep.plan.costs import BUNDLES, constant, report
from sparkcep.plan.measures import MeasureSplitter
from sparkcep.plan.options import slide_of, window_size
from sparkcep.plan.plan import Plan
from sparkcep.plan.preference import additive_terms, conjoined_score, monotone_score
from sparkcep.plan.records import Place, Ranking
from sparkcep.plan.scope import SCORE

MAX_TOP = 1_000_000_000
_NUMBERS = "'tinyint', 'smallint', 'int', 'bigint', 'float', 'double', 'void'"


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
    slide = slide_of(clause)
    assert slide is not None
    if kind != slide.kind:
        raise _fail(clause, window.slide.span, "SLIDE", "the step of SLIDE is of the same unit as the size of its WINDOW")
    if Fraction(slide.step) > Fraction(size):
        raise _fail(clause, window.slide.span, "SLIDE", "the step of SLIDE must not be larger than the WINDOW, or rows between windows would be lost")
    if clause.approx is not None and report(clause) == BUNDLES:
        raise _fail(clause, window.span, "SLIDE", "SLIDE ranks the matches of each window and MATCH BUNDLES joins windows; use one of them")


def ranking_of(clause: MatchClause, plan: Plan, measures: MeasureSplitter) -> Ranking:
    """The ranking of a checked clause with PREF or TOP; its leaves are added to ``measures``."""
    terms = additive_terms(clause, plan, measures.scope, measures.inputs)
    pref, top = clause.pref, clause.top
    if pref is not None:
        objectives = tuple(measures.split_final(expr) for _, expr in pref.objectives)
        score = _score(pref)
        if terms:
            # floating sums are the engine's, in row order, so that their bits are the same on every cluster; others are exact anyway
            score = f"coalesce({measures.score(len(objectives) if pref.combine == 'AVG' else 1, terms)}, {score})"
        place = Place(*position(clause.text, pref.span.start), pref.span.of(clause.text)[:40].split("\n")[0])
        order = [f"IF(isnan({SCORE}), NULL, {SCORE}) DESC NULLS LAST"]
    else:
        # fewest errors, then shortest duration
        objectives, score, place = (measures.approximate_errors(),), "-__g0", None
        order = ["__g0", measures.duration()]
    if top is None:
        return Ranking(objectives, score, 0, False, (), "", place, terms)
    number = constant(clause.text, top.k)
    assert number is not None
    vector = measures.vector()
    if measures.step:
        measures.window_start()
    overall = top.scope == "OVERALL"
    # between matches that only their variables tell apart preferment decides
    order += [vector, *((f"{key} ASC NULLS FIRST" for key in plan.key_texts()) if overall else ()), measures.match_number()]
    return Ranking(objectives, score, int(number), overall, tuple(order), vector, place, terms)


def with_join(clause: MatchClause, plan: Plan, measures: MeasureSplitter) -> Ranking:
    """The plan's ranking with what a rank join needs, where the score is monotone and no sum; to be asked where all rows in order that fulfil their
    conditions make a match."""
    assert plan.ranking is not None
    return plan.ranking._replace(
        monotone=monotone_score(clause, plan, measures.scope, measures.inputs),
        by_sides=conjoined_score(clause, plan, measures.scope, measures.inputs),
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


def _fail(clause: MatchClause, span: Span, error_class: str, message: str) -> ClauseError:
    return error_at(clause.text, span.start, span.end, error_class, message, SEMANTIC)
