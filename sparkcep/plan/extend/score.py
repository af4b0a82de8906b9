"""PREF and TOP k: the score of a match, the rank order of matches, and properties that allow ranking without listing all matches
(LANGUAGE sections 6 and 9; CPR, 2011, sections 3.1 to 3.3).

``plan/build`` calls it. The preference analysis first asks whether the score is a sum over the match's rows. This needs objectives
that are sums of terms, and every match must have each term. A term is a number of one row (``A.v * 2`` if each match has exactly
one A), SUM over a variable that every match has, or a count.

Otherwise the analysis asks whether the score is at least monotone. It may be monotone in one number of each variable, if every
match has exactly one row of each. Or it may be monotone in one sum over the rows of each side of a conjunction.

An objective that is NULL without a row of a branch of an alternation belongs to that branch. It counts only for matches of that
branch (:func:`branches_of`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import count
from operator import or_

from sparkcep.clause.expressions import Expr
from sparkcep.clause.tokens import Span
from sparkcep.clause.tree import WITH_UNMATCHED, MatchClause, Preference
from sparkcep.errors import SEMANTIC, ClauseError, error_at, position
from sparkcep.plan.constants import number
from sparkcep.plan.extend.approx import BUNDLES, report
from sparkcep.plan.extend.sequences import branches_within, moving_of
from sparkcep.plan.facts import Branch, branches, occurrences, of_single_rows, plain_sum, straddles, unbounded, variables_in
from sparkcep.plan.limits import MAX_TOP, MAX_TREE
from sparkcep.plan.options import slide_of, window_size
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import ALL_ROWS, Conjoined, Monotone, Place, Ranking, Scored, Term, Weight, has
from sparkcep.plan.scope import RANKED, SCORE, Inputs, NamedSequence, Scope
from sparkcep.plan.split.combined import combined
from sparkcep.plan.split.measures import MeasureSplitter

Objectives = tuple[tuple[str, Expr], ...]  # (MAX | MIN, expression)


def check_ranking(clause: MatchClause) -> None:
    """Raises ClauseError for a PREF, TOP or SLIDE that cannot apply, at its place."""
    pref, top, window = clause.pref, clause.top, clause.window
    if pref is not None and pref.combine == "PRODUCT" and any(goal == "MIN" for goal, _ in pref.objectives):
        raise _fail(clause, pref.span, "PREF", "COMBINE BY PRODUCT cannot be used with a MIN objective. Combine by SUM")
    if window is not None and window.slide is not None:
        _check_slide(clause)
    _check_objectives(clause)
    if top is None:
        return
    count = number(top.k, clause.text, clause.parameters)
    if count is None or not 1 <= count <= MAX_TOP or count.denominator != 1:
        raise _fail(clause, top.k.span, "TOP", f"TOP takes a whole number, 1 or more, not {top.k.span.of(clause.text)}")
    if pref is None and clause.approx is None:
        raise _fail(clause, top.span, "TOP", "TOP k ranks by a preference. Add PREF MAX (...) or PREF MIN (...)")
    if clause.skip is not None:
        first = clause.selection is not None and clause.selection.report == "FIRST"
        ranked = "with FIRST MATCH, TOP ranks matches that do not overlap" if first else "TOP ranks all matches"
        raise _fail(clause, clause.skip.span, "TOP", f"{ranked}, so AFTER MATCH SKIP does not apply. Leave AFTER MATCH SKIP out")
    if clause.rows == WITH_UNMATCHED:
        raise _fail(clause, top.span, "TOP", "TOP returns only some of the matches, so WITH UNMATCHED ROWS does not apply. Use ALL ROWS PER MATCH")


def _check_objectives(clause: MatchClause) -> None:
    """Raises ClauseError for an objective that reads a score, a rank, or under TOP the number of a match."""
    later = {*RANKED, *(["MATCH_NUMBER"] if clause.top else [])}
    for pref in clause.preferences():
        for node in (node for _, expr in pref.objectives for node in expr.walk()):
            if node.op == "call" and node.value in later and not node.args:
                raise _fail(clause, node.span, "PREF", f"{node.value}() follows from the scores of matches, so PREF cannot use it. Use values of the rows")


def _check_slide(clause: MatchClause) -> None:
    window = clause.window
    assert window is not None and window.slide is not None
    if clause.top is None:
        raise _fail(clause, window.span, "SLIDE_WITHOUT_TOP", "SLIDE ranks the matches of each window. Add TOP k")
    kind, size = window_size(clause, window.size, window.rows)
    slide = slide_of(clause)
    assert slide is not None
    if kind != slide.kind:
        raise _fail(clause, window.slide.span, "SLIDE", "the step of SLIDE must have the same unit as the size of its WINDOW")
    if Fraction(slide.step) > Fraction(size):
        raise _fail(clause, window.slide.span, "SLIDE", "the step of SLIDE must not be larger than the WINDOW, because rows between windows would be lost")
    if clause.approx is not None and report(clause) == BUNDLES:
        raise _fail(clause, window.span, "SLIDE", "SLIDE ranks the matches of each window, but MATCH BUNDLES joins windows. Use one of them")


def ranking_of(clause: MatchClause, plan: Plan, measures: MeasureSplitter) -> Ranking:
    """The ranking of a checked clause with PREF or TOP. Its leaves are added to ``measures``."""
    owners = branches_of(clause, plan, measures.scope)
    terms, added = additive_terms(clause, plan, measures.scope, measures.inputs, owners)
    pref, top = clause.pref, clause.top
    if pref is not None:
        of_sequences = [measures.objective(s, n) for s in measures.scope.sequences.values() if s.pref is not None for n in range(len(s.pref.objectives))]
        objectives = (*of_sequences, *(measures.split_final(expr) for _, expr in pref.objectives))
        score = _score(clause, measures, owners, (f"__g{i}" for i in count()))
        if terms:
            # The engine computes floating-point sums in row order, so that their bits are equal on every cluster. Other sums
            # are exact.
            score = f"coalesce({measures.score(_parts(pref, measures.scope) if pref.combine == 'AVG' else 1, terms)}, {score})"
        place = Place(*position(clause.text, pref.span.start), pref.span.of(clause.text)[:40].split("\n")[0])
        order = [f"IF(isnan({SCORE}), NULL, {SCORE}) DESC NULLS LAST"]
    else:
        # fewest errors, then shortest duration
        objectives, score, place = (measures.approximate_errors(),), "-__g0", None
        order = ["__g0", measures.duration()]
    if top is None:
        return Ranking(objectives, score, 0, False, (), "", place, terms)
    most = number(top.k, clause.text, clause.parameters)
    assert most is not None
    vector = measures.vector()
    if measures.step:
        measures.window_start()
    overall = top.scope == "OVERALL"
    # preferment breaks ties between matches that differ in their variables only
    order += [vector, *((f"{key} ASC NULLS FIRST" for key in plan.key_texts()) if overall else ()), measures.match_number()]
    if terms:
        scored = added
    else:
        scored = None if clause.automaton is not None or any(owners) else scored_by(clause, plan, measures.scope, measures.inputs)
    changes = measures.list_changes()
    return Ranking(objectives, score, int(most), overall, tuple(order), vector, place, terms, scored=scored, changes=changes, **sequence_members(clause, plan, measures, owners))


def sequence_members(clause: MatchClause, plan: Plan, measures: MeasureSplitter, owners: list[list[Branch]]) -> dict:
    """The members of a ranking that come from named sequences."""
    if not clause.sequences:
        return {}
    scope = measures.scope
    by_sequences = None if any(owners) else score_of_sequences(clause, plan, scope, measures.inputs)
    return {"moving": moving_of(clause, scope), "sequences": tuple(sequence.mask for sequence in scope.sequences.values()), "by_sequences": by_sequences}


def with_join(clause: MatchClause, plan: Plan, measures: MeasureSplitter) -> Ranking:
    """The plan's ranking plus the score forms for a rank join, for a monotone score that is not a sum.

    The caller makes sure that any rows in order that satisfy their conditions form a match.
    """
    assert plan.ranking is not None
    return plan.ranking._replace(
        monotone=monotone_score(clause, plan, measures.scope, measures.inputs),
        by_sides=None if any(branches_of(clause, plan, measures.scope)) else conjoined_score(clause, plan, measures.scope, measures.inputs),
    )


def _score(clause: MatchClause, measures: MeasureSplitter, owners: list[list[Branch]], names: Iterator[str]) -> str:
    """SQL for the score. ``names``: the columns of the objectives, those of sequences first."""
    pref, scope = clause.pref, measures.scope
    assert pref is not None
    scored = [sequence for sequence in scope.sequences.values() if sequence.pref is not None]
    parts = []
    for sequence in scored:
        goals = [goal for goal, _ in sequence.pref.objectives]
        own = [next(names) for _ in goals]
        parts.append(combined(goals, own, sequence.pref.combine, measures.absent(sequence.absent) if len(goals) > 1 else [""]))
    if not pref.sequences:
        goals = [goal for goal, _ in pref.objectives]
        return combined(goals, [next(names) for _ in goals], pref.combine, measures.absent([branch.own for branch in of] for of in owners))
    parts = [f"({part})" for part in parts] if len(parts) > 1 or pref.weights else parts
    weights = {name.lower(): weight.span.of(clause.text) for name, weight in pref.weights}
    given = [weights.get(sequence.name.lower(), "") for sequence in scored]
    absent = [f"{measures.rows_of(sequence.mask)} = 0" if sequence.optional else "" for sequence in scored]
    return combined(["MAX"] * len(parts), parts, pref.combine, absent, given if any(given) else (), scores=True)


def _fail(clause: MatchClause, span: Span, error_class: str, message: str) -> ClauseError:
    return error_at(clause.text, span.start, span.end, error_class, message, SEMANTIC)


# -- objectives of branches -------------------------------------------------------------------------------------------

_STRICT = frozenset("ABS SQRT UNIX_TIMESTAMP".split())
_OF_ROWS = frozenset("FIRST LAST SUM AVG MEAN MIN MAX".split())
_STRICT_OPERATORS = frozenset(["+", "-", "*", "/", "%", "DIV", "=", "!=", "<>", "<", "<=", ">", ">="])


def branches_of(clause: MatchClause, plan: Plan, scope: Scope) -> list[list[Branch]]:
    """The branches that each objective of the clause belongs to.

    An objective belongs to a branch if it is NULL without a row of a variable that occurs in that branch only. It then counts if
    the match has such a row. Raises ClauseError for an objective that no match can have.
    """
    if clause.pref is None:
        return []
    return _owners(clause, plan, clause.pref.objectives, scope, branches(plan.pattern) if clause.automaton is None else [])


def with_branches(clause: MatchClause, plan: Plan, scope: Scope) -> Scope:
    """The scope with the branches that each objective of a sequence belongs to. Raises ClauseError as :func:`branches_of`."""
    found = {}
    for name, sequence in scope.sequences.items():
        owners = _owners(clause, plan, sequence.pref.objectives, scope.within(sequence), branches_within(plan.pattern, sequence)) if sequence.pref else []
        found[name] = replace(sequence, absent=tuple(tuple(branch.own for branch in of) for of in owners))
    return replace(scope, sequences=found)


def _owners(clause: MatchClause, plan: Plan, objectives: Objectives, scope: Scope, known: list[Branch]) -> list[list[Branch]]:
    found = []
    for _, expr in objectives:
        own: list[tuple[int, Branch]] = []
        for mask in sorted(_needed(expr, scope)):
            around = [branch for branch in known if mask != ALL_ROWS and mask & ~branch.own == 0]
            if around:
                own.append((mask, max(around, key=lambda branch: branch.inside)))
                _check_alone(clause, plan, expr, mask, around, own, known)
        found.append(list(dict.fromkeys(branch for _, branch in own)))
    return found if len(found) > 1 else [[]]  # a score with a single objective is NULL if the objective is left out


def _check_alone(
    clause: MatchClause, plan: Plan, expr: Expr, mask: int, around: list[Branch], own: list[tuple[int, Branch]], known: list[Branch]
) -> None:
    """Raises ClauseError if the objective also needs a variable of another branch of one of the alternations around."""
    for branch in around:
        for other, _ in own:
            apart = [b for b in known if b.alternation == branch.alternation and b != branch and other & ~b.own == 0]
            if branch.alone and apart:
                a, b = (" or ".join(name for v, name in enumerate(plan.variables) if m >> v & 1) for m in (other, mask))
                message = (
                    f"no match has a value for this objective: {a} and {b} are in different branches of one alternation. "
                    "Write an objective for each branch, joined by AND, or coalesce(...) of both"
                )
                raise _fail(clause, expr.span, "PREF", message)


def _needed(expr: Expr, scope: Scope) -> set[int]:
    """Masks of variables: the expression is NULL if the match lacks rows of a mask."""
    node = expr.bare()
    if node.op == "col":
        mask = scope.qualifier(node)
        return set() if mask is None else {mask}
    if (sequence := scope.scored(node)) is not None:
        return {sequence.mask}
    if node.op == "call" and node.value in _OF_ROWS:
        masks = {scope.qualifier(column) for column in scope.columns(node) if column.op != "star"}
        return {mask for mask in masks if mask is not None} if len(masks) == 1 else set()
    strict = (
        node.op == "cast" or (node.op == "un" and node.value in ("-", "+")) or (node.op == "bin" and node.value in _STRICT_OPERATORS)
        or (node.op == "call" and node.value in _STRICT and not node.flags)
    )  # fmt: skip
    return {mask for arg in node.args for mask in _needed(arg, scope)} if strict else set()


# -- preference analysis ----------------------------------------------------------------------------------------------


def additive_terms(
    clause: MatchClause, plan: Plan, scope: Scope, inputs: Inputs, owners: list[list[Branch]]
) -> tuple[tuple[Term, ...], Scored | None]:
    """The terms of an additive preference, and how they are added, if not from left to right. () for any other preference.

    ``owners``: the branches that each objective belongs to.
    """
    pref, none = clause.pref, ((), None)
    # Different sums may have equal quotients, unless the divisor is a power of two.
    if pref is not None and pref.combine == "AVG" and (_parts(pref, scope).bit_count() > 1 or any(owners)):
        return none
    if pref is None or clause.automaton is not None or pref.combine not in (None, "SUM", "AVG") or clause.approx:
        return none
    if has(plan.pattern, "and") and (not scope.sequences or pref.combine == "AVG"):
        return none
    reader = _Reader(scope, plan)
    if any(owners) and all(owners) and not reader.covered(owners):
        return none
    parts = [reader.of_sequences(pref)] if pref.sequences else []
    for (goal, expr), of in zip(pref.objectives, owners):
        part = reader.of_own_branch(expr, of) if of else reader.summed(expr)
        parts.append(("neg", part) if part is not None and goal == "MIN" else part)
    whole = _sum_of(parts)
    if whole is None:
        return none
    found = flat(whole)
    if any(straddles(plan.pattern, mask) for mask, *_ in found):
        return none
    terms = tuple(_as_terms(found, plan, scope, inputs))
    tree = _numbered(whole, count())
    if tree == plain_sum([term.sign for term in terms]) or _depth(tree) > MAX_TREE - 2:  # a deeper tree could not be read
        return terms, None
    return terms, Scored(tuple(term._replace(sign=1) for term in terms), tree, True)


def _parts(pref: Preference, scope: Scope) -> int:
    """How many scores a preference combines."""
    return sum(sequence.pref is not None for sequence in scope.sequences.values()) if pref.sequences else len(pref.objectives)


def _as_terms(found: list[tuple[int, Expr | None, int, str]], plan: Plan, scope: Scope, inputs: Inputs) -> Iterator[Term]:
    for mask, expr, sign, kind in found:
        column = "" if expr is None else _of_variable(mask, expr, plan, scope, inputs)
        yield Term(mask, column, sign, kind)


def _of_variable(mask: int, expr: Expr, plan: Plan, scope: Scope, inputs: Inputs) -> str:
    """The column of an expression over the rows of one variable.

    It is computed for these rows only, because it may fail on others.
    """
    text = scope.row_text(expr)
    test = next((letter.text for letter in plan.letters if 1 << letter.variable == mask), None)
    return inputs.column(f"CASE WHEN {test} THEN {text} END" if test and expr.bare().op != "col" else text)


def monotone_score(clause: MatchClause, plan: Plan, scope: Scope, inputs: Inputs) -> Monotone | None:
    """A score that is monotone in one number of each variable of a pattern of single rows. None for any other score."""
    pref = clause.pref
    if pref is None or clause.approx or not of_single_rows(plan.pattern):
        return None
    reader = _MonotoneReader(scope, plan, clause.text)
    whole = _combined(clause, reader)
    if whole is None:
        return None
    masks = [mask for mask, *_ in reader.leaves]
    if not masks or len(set(masks)) < len(masks):
        return None
    leaves = tuple(Weight(mask.bit_length() - 1, _of_variable(mask, expr, plan, scope, inputs)) for mask, expr, _, _ in reader.leaves)
    positive = tuple(i for i, (*_, needed) in enumerate(reader.leaves) if needed)
    return Monotone(leaves, whole, positive, not reader.skips_nulls)


def scored_by(clause: MatchClause, plan: Plan, scope: Scope, inputs: Inputs) -> Scored | None:
    """A score that is arithmetic over numbers of single rows and over sums and counts of rows. None for any other score."""
    if clause.pref is None or clause.approx:
        return None
    reader = _AnyReader(scope, plan, clause.text)
    tree = _combined(clause, reader)
    if tree is None or not reader.terms_found:
        return None
    return Scored(tuple(_as_terms(reader.terms_found, plan, scope, inputs)), tree, not reader.skips_nulls)


def conjoined_score(clause: MatchClause, plan: Plan, scope: Scope, inputs: Inputs) -> Conjoined | None:
    """A score of a conjunction ``p & q`` that is monotone in one sum over the rows of each side (sections 3.3 and 4).

    None for any other score.
    """
    if clause.pref is None or clause.approx or plan.pattern[0] != "and":
        return None
    masks = [variables_in(side, "var") for side in plan.pattern[1:]]
    if any(a & b for i, a in enumerate(masks) for b in masks[:i]):
        return None
    return _by_sums(clause, plan, scope, inputs, masks)


def score_of_sequences(clause: MatchClause, plan: Plan, scope: Scope, inputs: Inputs) -> Conjoined | None:
    """A score that is monotone in one sum over the rows of each sequence, if all sequences take part. None for any other score."""
    masks = [sequence.mask for sequence in scope.sequences.values()]
    if len(masks) < 2 or clause.pref is None or any(straddles(plan.pattern, mask) for mask in masks):
        return None
    found = _by_sums(clause, plan, scope, inputs, masks)
    return found if found is not None and all(found.sides) and not found.across else None


def _by_sums(clause: MatchClause, plan: Plan, scope: Scope, inputs: Inputs, masks: list[int]) -> Conjoined | None:
    """The score by one sum over the rows of each set of variables, None for any other score."""
    reader = _SideReader(scope, plan, clause.text, masks)
    tree = _combined(clause, reader)
    whole = tree is None or any(reader.leaves.count(leaf) > 1 for leaf in reader.leaves)
    if whole:
        tree, reader = _one_sum(clause, _SideReader(scope, plan, clause.text, masks))
    if tree is None or not any(reader.found):
        return None
    found = tuple(tuple(_as_terms(terms, plan, scope, inputs)) for terms in reader.found)
    return Conjoined(found, tree, tuple(reader.positive), whole, reader.across)


def _one_sum(clause: MatchClause, reader: _SideReader) -> tuple[tuple | None, _SideReader]:
    """The tree that adds the sides' parts of a score that is one sum, and the reader. The tree is None for any other score."""
    pref = clause.pref
    assert pref is not None
    if pref.combine not in (None, "SUM"):
        return None, reader
    whole = reader.of_sequences(pref) if pref.sequences else reader.of_objectives(pref.objectives)
    if whole is None:
        return None, reader
    for mask, body, sign, kind in flat(whole):
        sides = [side for side, own in enumerate(reader.masks) if mask & own]
        reader.across |= len(sides) > 1
        for side in sides:
            reader.found[side].append((mask & reader.masks[side], body, sign, kind))
    tree: tuple = ("leaf", 0)
    for side in range(1, len(reader.masks)):
        tree = ("+", tree, ("leaf", side))
    return tree, reader


def _combined(clause: MatchClause, reader: _MonotoneReader) -> tuple | None:
    """The tree that combines all objectives, None if one of them cannot be read."""
    pref = clause.pref
    assert pref is not None
    return reader.of_scores(pref) if pref.sequences else reader.merged(pref.objectives, pref.combine)


def combination(parts: list[tuple], combine: str | None) -> tuple:
    """The tree that combines trees by a function of COMBINE BY."""
    operation = {"MIN": "least", "MAX": "greatest", "PRODUCT": "*"}.get(combine or "SUM", "+")
    whole = parts[0]
    for part in parts[1:]:
        whole = (operation, whole, part)
    return ("/", whole, ("lit", len(parts))) if combine == "AVG" and len(parts) > 1 else whole


# -- sums -------------------------------------------------------------------------------------------------------------
#
# A sum is ("term", variables, expression of one row, kind), or an operation "+", "-", "neg" or "coalesce" of sums.


def flat(tree: tuple, sign: int = 1) -> list[tuple[int, Expr | None, int, str]]:
    """The terms of a sum in the order of the text, as (variables, expression of one row, sign, kind)."""
    if tree[0] == "term":
        _, mask, expr, kind = tree
        return [(mask, expr, sign, kind)]
    signs = [-sign if tree[0] == "neg" or (tree[0] == "-" and i) else sign for i in range(len(tree) - 1)]
    return [term for part, own in zip(tree[1:], signs) for term in flat(part, own)]


def _sum_of(parts: Iterable[tuple | None]) -> tuple | None:
    """The sum of sums, None if one of them is None.

    A part with its sign changed is added, not subtracted: the sign of the least INT cannot be changed, but INT values can be
    subtracted from a BIGINT.
    """
    whole: tuple | None = None
    for i, part in enumerate(parts):
        if part is None:
            return None
        whole = part if i == 0 else ("+", whole, part)
    return whole


def _numbered(tree: tuple, numbers: Iterator[int]) -> tuple:
    """A sum whose leaves are the numbers of its terms."""
    return ("leaf", next(numbers)) if tree[0] == "term" else (tree[0], *(_numbered(part, numbers) for part in tree[1:]))


def _depth(tree: tuple) -> int:
    return 1 if tree[0] == "leaf" else 1 + max(map(_depth, tree[1:]))


def _of_branch_alone(tree: tuple) -> tuple:
    """A sum whose terms belong to a branch of an alternation."""
    return (*tree[:3], "branch") if tree[0] == "term" else (tree[0], *map(_of_branch_alone, tree[1:]))


class _Reader:
    def __init__(self, scope: Scope, plan: Plan) -> None:
        self.scope, self.plan = scope, plan
        found = occurrences(plan.pattern)
        self.bounds = [found.get(variable, (0, 0)) for variable in range(len(plan.variables))]

    def summed(self, expr: Expr) -> tuple | None:
        """The sum that an expression is, None for any other expression."""
        node = expr.bare()
        named = self._named(node)
        if named is not None:
            return self._of_sequence(*named)
        own = self._of_one_row(node)
        if own is not None:
            return ("term", own, node, "row")
        if node.op == "un" and node.value in ("-", "+"):
            found = self.summed(node.args[0])
            return found if found is None or node.value == "+" else ("neg", found)
        if node.op == "bin" and node.value in ("+", "-"):
            left, right = map(self.summed, node.args)
            return None if left is None or right is None else (node.value, left, right)
        if node.op == "call" and node.value == "COALESCE" and not node.flags:
            return self._branches(node)
        if node.op == "call":
            return self._call(node)
        return None

    def of_sequences(self, pref: Preference) -> tuple | None:
        """The sum of all sequences' scores, None if it is not such a sum."""
        scored = [sequence for sequence in self.scope.sequences.values() if sequence.pref is not None]
        return None if pref.weights else _sum_of(self._of_sequence(sequence, sequence.pref.objectives) for sequence in scored)

    def of_objectives(self, objectives: Objectives) -> tuple | None:
        """The sum of objectives, None if it is not such a sum."""
        parts = [(goal, self.summed(expr)) for goal, expr in objectives]
        return _sum_of(("neg", part) if part is not None and goal == "MIN" else part for goal, part in parts)

    def _named(self, node: Expr) -> tuple[NamedSequence, Objectives] | None:
        """The sequence and the objectives that ``s.name`` or ``MATCH_SCORE(s)`` means, None for any other expression."""
        found, scored = self.scope.objective(node), self.scope.scored(node)
        if found is not None:
            sequence, number = found
            assert sequence.pref is not None
            return sequence, (("MAX", sequence.pref.objectives[number][1]),)
        return None if scored is None or scored.pref is None else (scored, scored.pref.objectives)

    def _of_sequence(self, sequence: NamedSequence, objectives: Objectives) -> tuple | None:
        """The sum of a sequence's objectives, None if it is not a sum of every match."""
        if sequence.optional or len(objectives) > 1 and (sequence.pref.combine not in (None, "SUM") or any(sequence.absent)):
            return None
        with self.inside(sequence):
            return self.of_objectives(objectives)

    @contextmanager
    def inside(self, sequence: NamedSequence) -> Iterator[None]:
        """Reads an objective of a sequence: a reference without a variable is over the sequence's rows."""
        scope, self.scope = self.scope, self.scope.within(sequence)
        try:
            yield
        finally:
            self.scope = scope

    def covered(self, owners: list[list[Branch]]) -> bool:
        """Whether each match takes a branch with an objective: all branches of some alternation have one."""
        for parts, masks in self._alternations():
            taken = {i for of in owners for i, mask in enumerate(masks) if [b.own for b in of] == [mask]}
            if len(taken) == len(parts):
                return True
        return False

    def of_own_branch(self, expr: Expr, owners: list[Branch]) -> tuple | None:
        """The sum that an objective is that belongs to one branch of an alternation that each match passes once."""
        for parts, masks in self._alternations():
            for part, mask in zip(parts, masks):
                if [branch.own for branch in owners] == [mask]:
                    whole = self.bounds
                    try:
                        return self._of_branch(expr, part, mask)
                    finally:
                        self.bounds = whole
        return None

    def _alternations(self) -> Iterator[tuple[tuple, list[int]]]:
        """The branches, with their variables, of each alternation that every match passes once.

        Only alternations whose variables occur in no other branch and nowhere else in the pattern are returned.
        """
        pattern = unbounded(self.plan.pattern)[0]
        parts = pattern[1:] if pattern[0] == "cat" else (pattern,)
        for at, part in enumerate(parts):
            if part[0] != "alt":
                continue
            masks = [variables_in(item, "var") for item in part[1:]]
            others = reduce(or_, (variables_in(item, "var") for i, item in enumerate(parts) if i != at), 0)
            together = reduce(or_, masks, 0)
            if sum(mask.bit_count() for mask in masks) == together.bit_count() and not together & others:
                yield part[1:], masks

    def _branches(self, node: Expr) -> tuple | None:
        """The sum of the arguments of ``coalesce`` if its arguments are sums over the branches of one alternation.

        Each match takes one branch, and a sum over the rows of one branch is NULL in all others.
        """
        whole = self.bounds
        for parts, masks in self._alternations():
            if len(parts) != len(node.args):
                continue
            found, left = [], list(range(len(parts)))
            for arg in node.args:
                for i in left:
                    part = self._of_branch(arg, parts[i], masks[i])
                    if part is not None:
                        found.append(part)
                        left.remove(i)
                        break
            self.bounds = whole
            if not left:
                return ("coalesce", *found) if len(found) > 1 else found[0]
        return None

    def _of_branch(self, arg: Expr, branch: tuple, mask: int) -> tuple | None:
        """A sum over single rows of a branch.

        None for any other expression, or if it might not be NULL without these rows.
        """
        if any(part.op not in ("bin", "un", "col", "paren", "lit", "num") for part in arg.walk()):
            return None
        found = occurrences(branch)
        self.bounds = [found.get(variable, (0, 0)) for variable in range(len(self.bounds))]
        found = self.summed(arg)
        if found is None or any(kind != "row" or own & ~mask for own, _, _, kind in flat(found)):
            return None
        return _of_branch_alone(found)

    def _call(self, node: Expr) -> tuple | None:
        if len(node.args) != 1 or node.flags - {"final"}:
            return None
        body = node.args[0].bare()
        if node.value == "COUNT" and body.op == "star":
            return ("term", self._mask(body), None, "count")
        if any(True for _ in self.scope.match_functions(body)):
            return None
        if any(self.scope.objective(c) is not None for c in self.scope.columns(body)):
            return None
        masks = {self._mask(c) for c in self.scope.columns(body)}
        if len(masks) != 1 or body.op == "star":
            return None
        mask = masks.pop()
        if node.value == "SUM" and self._certain(mask):
            return ("term", mask, body, "sum")
        if node.value in ("FIRST", "LAST") and self._single(mask):
            return ("term", mask, body, "row")
        return None

    def _of_one_row(self, node: Expr) -> int | None:
        """The variable with exactly one row that an expression reads. None for any other expression."""
        if any(True for _ in self.scope.match_functions(node)) or any(self.scope.objective(c) is not None for c in self.scope.columns(node)):
            return None
        masks = {self._mask(c) for c in self.scope.columns(node)}
        return masks.pop() if len(masks) == 1 and self._single(min(masks)) else None

    def _mask(self, column: Expr) -> int:
        mask = self.scope.qualifier(column)
        return self.scope.whole if mask is None else mask

    def _single(self, mask: int) -> bool:
        return mask.bit_count() == 1 and mask != ALL_ROWS and self.bounds[mask.bit_length() - 1] == (1, 1)

    def _certain(self, mask: int) -> bool:
        return mask == ALL_ROWS or any(low > 0 for v, (low, _) in enumerate(self.bounds) if mask >> v & 1)


class _MonotoneReader(_Reader):
    """Reads monotone scores.

    ``leaves``: (variable, expression of one row, direction, whether it must not be below 0) of each leaf read.
    """

    def __init__(self, scope: Scope, plan: Plan, text: str) -> None:
        super().__init__(scope, plan)
        self.text = text
        self.leaves: list[tuple[int, Expr, int, bool]] = []
        self.skips_nulls = False

    def tree(self, expr: Expr, direction: int, positive: bool) -> tuple | None:
        """The tree of an expression, None if it is not monotone.

        Args:
            expr: the expression.
            direction: 1 if a larger value is better, -1 if it is worse.
            positive: whether the value must not be below 0.
        """
        node = expr.bare()
        number = self._number(node)
        if number is not None:
            return ("lit", number) if number >= 0 or not positive else None
        named = self._named(node)
        if named is not None:
            sequence, objectives = named
            if sequence.optional:
                return None
            with self.inside(sequence):
                return self.merged(objectives, sequence.pref.combine if len(objectives) > 1 else None, direction, positive, sequence.absent)
        leaf = self._leaf(node, direction, positive)
        if leaf is not None:
            return leaf
        if node.op == "un" and node.value in ("-", "+"):
            if node.value == "+":
                return self.tree(node.args[0], direction, positive)
            return self._operation("neg", node.args, (-direction,), False) if not positive else None
        if node.op == "bin":
            return self._binary(node, direction, positive)
        if node.op == "call" and not node.flags:
            if node.value == "SQRT" and len(node.args) == 1:
                return self._operation("sqrt", node.args, (direction,), True)
            if node.value in ("LEAST", "GREATEST"):
                self.skips_nulls = True
                return self._operation(node.value.lower(), node.args, (direction,) * len(node.args), positive)
        return None

    def merged(
        self, objectives: Objectives, combine: str | None, direction: int = 1, positive: bool = False, absent: tuple[tuple[int, ...], ...] = ()
    ) -> tuple | None:
        """The tree that combines objectives, None if one of them cannot be read, or may be left out (``absent``)."""
        if len(objectives) > 1 and any(absent):
            return None
        product = combine == "PRODUCT" and len(objectives) > 1
        parts = []
        for goal, expr in objectives:
            tree = self.tree(expr, -direction if goal == "MIN" else direction, positive or product)
            if tree is None:
                return None
            parts.append(("neg", tree) if goal == "MIN" else tree)
        return combination(parts, combine)

    def of_scores(self, pref: Preference) -> tuple | None:
        """The tree that combines the scores of sequences, None if one of them cannot be read."""
        weights = {name.lower(): weight for name, weight in pref.weights}
        parts, total = [], 0.0
        for name, sequence in self.scope.sequences.items():
            if sequence.pref is None:
                continue
            weight = self._number(weights[name]) if name in weights else 1.0
            if sequence.optional or weight is None:
                return None
            with self.inside(sequence):
                tree = self.merged(sequence.pref.objectives, sequence.pref.combine, 1, pref.combine == "PRODUCT", sequence.absent)
            if tree is None:
                return None
            parts.append(("*", ("lit", weight), tree) if name in weights else tree)
            total += weight
        if pref.combine == "AVG" and pref.weights:
            return ("/", combination(parts, "SUM"), ("lit", total))
        return combination(parts, pref.combine)

    def _leaf(self, node: Expr, direction: int, positive: bool) -> tuple | None:
        own = self._of_one_row(node)
        if own is None and node.op == "call" and node.value in ("FIRST", "LAST") and len(node.args) == 1 and not node.flags - {"final"}:
            own, node = self._of_one_row(node.args[0]), node.args[0].bare()
        if own is None:
            return None
        self.leaves.append((own, node, direction, positive))
        return ("leaf", len(self.leaves) - 1)

    def _binary(self, node: Expr, direction: int, positive: bool) -> tuple | None:
        left, right = node.args
        if node.value == "+":
            return self._operation("+", node.args, (direction, direction), positive)
        if node.value == "-" and not positive:
            return self._operation("-", node.args, (direction, -direction), False)
        if node.value in ("*", "/"):
            known = [f for f in (self._number(left) if node.value == "*" else None, self._number(right)) if f is not None]
            if not known:
                return self._operation("*", node.args, (direction, direction), True) if node.value == "*" else self._quotient(node, direction)
            if 0 in known or (positive and min(known) < 0):
                return None
            return self._scaled(node, direction if min(known) > 0 else -direction, positive)
        return None

    def _quotient(self, node: Expr, direction: int) -> tuple | None:
        """A quotient whose operands must not be below 0, with a divisor other than 0. It falls as the divisor rises."""
        return self._operation("/", node.args, (direction, -direction), True)

    def _scaled(self, node: Expr, direction: int, positive: bool) -> tuple | None:
        """A product or quotient with a literal number."""
        parts = []
        for operand in node.args:
            number = self._number(operand)
            parts.append(("lit", number) if number is not None else self.tree(operand, direction, positive))
        return None if None in parts else (node.value, *parts)

    def _number(self, node: Expr) -> float | None:
        """A literal that is a whole number or a DOUBLE.

        Other literals are decimals, whose arithmetic differs from floating point.
        """
        node = node.bare()
        if not re.fullmatch(r"[+-]?\s*(\d{1,400}|(\d{1,400}\.?\d*|\.\d{1,400})[eE][+-]?\d{1,3})", node.span.of(self.text)):
            return None
        value = number(node, self.text)
        return float(value) if value is not None and abs(value) < 1 << 53 else None

    def _operation(self, name: str, operands: tuple[Expr, ...], directions: tuple[int, ...], positive: bool) -> tuple | None:
        parts = []
        for operand, direction in zip(operands, directions):
            tree = self.tree(operand, direction, positive)
            if tree is None:
                return None
            parts.append(tree)
        whole = parts[0]
        for part in parts[1:]:
            whole = (name, whole, part)
        return (name, whole) if len(parts) == 1 and name in ("neg", "sqrt", "abs") else whole


class _AnyReader(_MonotoneReader):
    """Reads scores that need not be monotone. ``terms_found``: the terms of the leaves, in the form of :func:`flat`."""

    def __init__(self, scope: Scope, plan: Plan, text: str) -> None:
        super().__init__(scope, plan, text)
        self.terms_found: list[tuple[int, Expr | None, int, str]] = []
        self.conjoined = has(plan.pattern, "and")

    def tree(self, expr: Expr, direction: int, positive: bool) -> tuple | None:
        node = expr.bare()
        if node.op == "call" and node.value == "ABS" and len(node.args) == 1 and not node.flags and self._of_one_row(node) is None:
            return self._operation("abs", node.args, (direction,), False)
        return super().tree(expr, direction, False)

    def _quotient(self, node: Expr, direction: int) -> tuple | None:
        return None  # a division by 0 would be an error, or NULL, for some matches only

    def _leaf(self, node: Expr, direction: int, positive: bool) -> tuple | None:
        # arithmetic is computed for matches only, because it might fail on other rows
        own = self._of_one_row(node) if node.op not in ("bin", "un") else None
        found = ("term", own, node, "row") if own is not None else self._call(node) if node.op == "call" else None
        # a row of two sides of & would count twice
        if found is None or (self.conjoined and self._counts_twice(found[1])):
            return None
        self.terms_found += flat(found)
        return ("leaf", len(self.terms_found) - 1)


    def _counts_twice(self, mask: int) -> bool:
        if self.scope.whole == ALL_ROWS or mask & ~self.scope.whole:  # not an objective of a sequence
            return mask == ALL_ROWS or mask.bit_count() > 1
        return straddles(self.plan.pattern, mask)


class _SideReader(_MonotoneReader):
    """Reads the score of a conjunction by its sides.

    ``found``: the terms of each side; ``leaves``: the sides in the order of reading; ``positive``: sides whose sum must not be
    below 0.
    """

    def __init__(self, scope: Scope, plan: Plan, text: str, masks: list[int]) -> None:
        super().__init__(scope, plan, text)
        self.masks = masks
        self.found: list[list[tuple[int, Expr | None, int, str]]] = [[] for _ in masks]
        self.positive: list[int] = []
        self.across = False

    def merged(
        self, objectives: Objectives, combine: str | None, direction: int = 1, positive: bool = False, absent: tuple[tuple[int, ...], ...] = ()
    ) -> tuple | None:
        if self.scope.whole == ALL_ROWS or len(objectives) == 1 or combine not in (None, "SUM") or any(absent):
            return super().merged(objectives, combine, direction, positive, absent)
        whole = self.of_objectives(objectives)  # a sequence's objectives as one sum
        return self._of_terms(flat(whole), positive) if whole is not None else super().merged(objectives, combine, direction, positive, absent)

    def tree(self, expr: Expr, direction: int, positive: bool) -> tuple | None:
        whole = self.summed(expr) if self._number(expr) is None else None
        return (self._of_terms(flat(whole), positive) if whole is not None else None) or super().tree(expr, direction, positive)

    def _of_terms(self, terms: list[tuple[int, Expr | None, int, str]], positive: bool) -> tuple | None:
        """The leaf of terms of one side, None if they are of several sides."""
        sides = {side for mask, *_ in terms for side, own in enumerate(self.masks) if mask & own}
        if len(sides) != 1:
            return None
        side = sides.pop()
        self.found[side] += terms
        self.leaves.append(side)
        self.positive += [side] if positive else []
        return ("leaf", side)
