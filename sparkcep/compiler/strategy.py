"""Strategy: chooses the search that answers a clause, once, from the plan alone.

The engine builds the search that a :class:`Strategy` names. EXPLAIN, the rewriter, the pictures and ``sparkcep compile`` read the
same record, so they cannot disagree. Some searches need properties of the values (rounding, NULLs, types) that only the rows show.
``instead`` names the search that replaces such a search if the rows lack them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from sparkcep.compiler.emission import Emission, emission_of
from sparkcep.compiler.net.conjunction import conjunction_automaton
from sparkcep.compiler.net.gap_net import negated_groups, selection_automaton
from sparkcep.compiler.net.joined_sequences import JoinedSequences, joined_sequences
from sparkcep.compiler.net.net import E_AT_END, E_AT_START, E_NOT, Net
from sparkcep.compiler.net.orders import Arrangement, arrangements
from sparkcep.compiler.net.row_equalities import Far, Links, agreements_among, comparisons_of, joins_all, links_of
from sparkcep.compiler.net.skip_net import approximate_automaton
from sparkcep.compiler.net.skipping_sides import approximate_conjunction
from sparkcep.compiler.net.variable_copies import with_copies
from sparkcep.compiler.pattern.backtrack_compiler import compile_pattern
from sparkcep.compiler.pattern.epsilon import too_complex
from sparkcep.compiler.pattern.program import Program
from sparkcep.compiler.registers.pattern_automaton import translated
from sparkcep.compiler.searches import (
    ADJACENT,
    BEST,
    BUDGETED,
    BUNDLED,
    BY_COST,
    CHEAPEST,
    CLASSES,
    COMPUTATIONS,
    CONJUNCTION,
    COUNTED,
    EVERY,
    FIRST,
    FRONT,
    GRAPH,
    LEARNED,
    NUMBERS,
    PATHS,
    PROXIES,
    SEQUENCES,
    SIDES,
    STREAMS,
    WALK,
)
from sparkcep.errors import UNSUPPORTED, ClauseError
from sparkcep.plan.extend.approx import ALL, BUNDLES, PER_ERROR, PROXY
from sparkcep.plan.extend.budget import HISTORY
from sparkcep.plan.facts import shown, unbounded, variables_in
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Approx, LeafSpec, Ranking, Repeat, has, walk
from sparkcep.plan.split.conditions import looks_at_match, reads_labels

MAX_RANKED = 100_000  # most matches that TOP k keeps for each window without enumeration

_COSTS = {
    NUMBERS: "O(rows x states), for any window",
    FRONT: "O(rows x classes of runs)",
    PROXIES: "O(rows x states), for any window",
    CLASSES: "O(rows x classes of runs)",
    PATHS: "O(rows x states x k)",
    SEQUENCES: "O(rows), plus the combinations of rows whose score may be among the k best",
    COMPUTATIONS: "O(rows x computations in progress: one for each first row, state and values of registers)",
    SIDES: "O(rows x states x k), plus the pairs of matches whose score may be among the k best",
    STREAMS: "O(rows x states x matches read of each sequence), plus the pairs of these; at most all matches of the sequences",
}


class Reason(NamedTuple):
    """Why a search was chosen, and the cause's place in the statement: line, column and text (0, 0 and "" for the whole clause)."""

    text: str
    line: int = 0
    column: int = 0
    fragment: str = ""

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}" if self.line else ""
        return f"{self.text} ({place}{': ' if place and self.fragment else ''}{self.fragment})" if place or self.fragment else self.text


@dataclass(frozen=True, eq=False)
class Strategy:
    """The search that answers a plan, and the automata that were built to choose it.

    Attributes:
        plan: the plan, with copies of its variables if matches are approximate.
        question: what the clause asks for.
        search: the search that answers.
        cost: the complexity of the search, as text.
        reasons: why this search was chosen.
        program: the compiled pattern.
        looking: the variables whose conditions look at the match.
        forgets: why failed states (or runs) are not remembered, None if they are.
        instead: the search that enumerates all matches if the rows do not let ``search`` answer, or "".
        counts: the searches that can count approximate matches beside ``search``. One of them does.
        net: the automaton of event selection, None for the adjacent search.
        unranked: why TOP enumerates all matches.
        links: equalities and bands between consecutive rows, for PATHS.
        orders: orders of the rows that SEQUENCES joins.
        sides: the automata of PATHS and SIDES, without the windows of groups.
        spans: for each of ``sides``, the windows that bound it as a whole.
        far: equalities that partition the rows of PATHS and SEQUENCES.
        joined: the sequences of STREAMS.
        groups: the variable and the automaton of each negated group.
        shares_ends: whether matches that continue from the same state share their ends.
    """

    plan: Plan
    question: str
    search: str
    cost: str
    reasons: tuple[Reason, ...]
    program: Program
    looking: tuple[int, ...]
    forgets: Reason | None = None
    instead: str = ""
    counts: tuple[str, ...] = ()
    net: Net | None = None
    unranked: tuple[Reason, ...] = ()
    links: Links | None = None
    orders: tuple[Arrangement, ...] = ()
    sides: tuple[Net, ...] = ()
    spans: tuple[tuple[int, ...], ...] = ()
    far: tuple[Far, ...] = ()
    joined: JoinedSequences | None = None
    groups: tuple[tuple[int, Net], ...] = ()
    shares_ends: bool = False

    @property
    def ranks(self) -> bool:
        """Whether the search finds the k best matches without enumerating all of them."""
        return self.question == BEST

    @property
    def automaton(self) -> Net:
        """The automaton of event selection."""
        assert self.net is not None
        return self.net

    @cached_property
    def emission(self) -> Emission:
        """When matches are emitted over a stream."""
        return emission_of(self.plan, self.search, self.question, self.net)

    @property
    def conjoined(self) -> bool:
        """Whether the pattern has a conjunction, so that the automaton has several sides."""
        return self.net is not None and self.net.sides > 1


def strategy_of(plan: Plan) -> Strategy:
    """Chooses the search for a plan. Raises ClauseError for a pattern that needs too many states."""
    if plan.changes is not None and plan.automaton is None:
        return _with_changes(plan)
    if plan.automaton is not None:
        program = compile_pattern(plan.pattern, plan.variables)
        reason = _at_pattern(plan, "the clause has an AUTOMATON")
        return Strategy(plan, EVERY, COMPUTATIONS, _COSTS[COMPUTATIONS], (reason,), program, (), unranked=(reason,) if plan.ranking and plan.ranking.top else ())
    if plan.approximate is not None:
        found = _approximate(plan, plan.approximate)
    elif not plan.selection:
        found = _adjacent(plan)
    else:
        found = _conjunction(plan) if has(plan.pattern, "and") else _selection(plan)
    if plan.without:
        found = replace(found, groups=negated_groups(plan), net=replace(found.automaton, groups=tuple((group.variable, group.text) for group in plan.without)))
    if plan.ranking is None or not plan.ranking.top or found.ranks:
        return found
    return replace(found, unranked=_unranked(plan, plan.ranking, found))


def placed_strategy(plan: Plan) -> Strategy:
    """Like :func:`strategy_of`, but the error for a pattern with too many states gets the clause's place."""
    try:
        return strategy_of(plan)
    except ClauseError as error:
        if error.line or error.error_class != "SPARKCEP.PATTERN_TOO_COMPLEX":
            raise
        raise too_complex(error.message, *plan.place) from None


def _with_changes(plan: Plan) -> Strategy:
    """The automaton of a PATTERN over changing rows. ``net`` is the net that it was made from."""
    program, net = selection_automaton(plan)
    reason = _at_pattern(plan, "rows are inserted and retracted, and the matches with them")
    return Strategy(translated(plan, net), EVERY, COMPUTATIONS, _COSTS[COMPUTATIONS], (reason,), program, _looking(plan), net=net)


def _adjacent(plan: Plan) -> Strategy:
    program = compile_pattern(plan.pattern, plan.variables)
    looking = _looking(plan)
    found = Strategy(plan, FIRST, ADJACENT, "", (), program, looking)
    if not program.states:
        reason = _at_pattern(plan, "the pattern leaves no choice, so failed states need not be remembered")
        repeats = any(isinstance(node, Repeat) for node in walk(plan.pattern))
        return replace(found, cost=f"O(rows{' x rows of an attempt' * repeats})", reasons=(reason,), forgets=reason)
    if reason := next(_looked_up(plan, numbers=False), None):
        return replace(found, cost="exponential in the rows of an attempt, at worst", reasons=(reason,), forgets=reason)
    overlapping = plan.skip.mode != "past_last"
    if looking:
        each = "rows x rows of a match" if overlapping else "rows"
        return replace(found, cost=f"O({each} x values of the match that conditions still need)", reasons=_looks(plan, looking))
    if overlapping and not _distinguishes_shared_ends(plan):
        return replace(found, cost="O(rows x rows of a match)", reasons=(_WHOLE,))
    return replace(found, cost="O(rows)", reasons=(_LOCAL,), shares_ends=overlapping)


def _distinguishes_shared_ends(plan: Plan) -> bool:
    """Whether a match's measures follow from its own first rows and from the known match that shares its end."""
    return plan.rows == "one" and not plan.slide and plan.ranking is None and all(map(_follows, (spec for _, spec in plan.leaves)))


def _follows(spec: LeafSpec) -> bool:
    return spec.kind in ("nav", "mno", "agg", "rows") or (spec.kind == "cls" and spec.physical == 0)


def _selection(plan: Plan) -> Strategy:
    program, automaton = selection_automaton(plan)
    looking = _looking(plan)
    looked_up, negated = tuple(_looked_up(plan)), _negated(plan, automaton)
    forgets = next(iter((*looked_up, *_negated_elsewhere(plan, automaton, looking))), None)
    every = plan.reports_all
    found = Strategy(plan, EVERY if every else FIRST, WALK, _walked(every, looking, forgets), _looks(plan, looking) or (_LOCAL,), program, looking, forgets, net=automaton)
    if plan.counting or plan.graphing:
        found = replace(found, question=GRAPH if plan.graphing else COUNTED)
        unlisted = (*negated, *_ambiguous(plan, automaton), *looked_up)
        if unlisted:
            return replace(found, reasons=unlisted)
        if not plan.graphing and not looking and len(plan.windows) == 1:
            return replace(found, search=NUMBERS, cost=_COSTS[NUMBERS], reasons=(_LOCAL,))
        reasons = _looks(plan, looking) + _grouped(plan) or (_LOCAL,)
        return replace(found, search=FRONT, cost=_COSTS[FRONT], reasons=reasons, instead="" if plan.graphing else WALK)
    ranking = plan.ranking
    whole = _as_paths(plan, plan.pattern, ranking.top) if ranking is not None else None
    if whole and ranking.terms and (links := links_of(plan, whole[0])) is not None:
        score = Reason("the score is a sum over the rows", *ranking.place)
        best = replace(found, question=BEST, instead=WALK, sides=whole[:1], spans=whole[1:])
        return replace(best, search=PATHS, cost=_COSTS[PATHS], reasons=(*found.reasons, score), links=links, far=links.far)
    return _arranged(plan, found)


def _arranged(plan: Plan, found: Strategy) -> Strategy:
    """A join of the rows of single variables in all orders of the pattern, if it gives the k best matches.

    Otherwise ``found``, perhaps bounded by scores.
    """
    ranking = plan.ranking
    if ranking is None or plan.selection != ("ANY", "ALL") or not 0 < ranking.top <= MAX_RANKED:
        return found
    orders = arrangements(plan.pattern) if ranking.terms or ranking.monotone else ()
    far = agreements_among(plan, orders) if orders else None
    if far is None or (far and ranking.by_sequences and not joins_all(far, variables_in(plan.pattern, "var"))):
        return _streamed(plan, ranking, found) or _bounded(plan, ranking, found)
    what = "a sum over the rows" if ranking.terms else "monotone in one number of each variable"
    reasons = (*found.reasons, Reason(f"the score is {what}", *ranking.place))
    return replace(
        found, question=BEST, search=SEQUENCES, cost=_COSTS[SEQUENCES], reasons=reasons, instead=found.search, orders=orders,
        spans=(unbounded(plan.pattern)[1],), far=far,
    )


def _streamed(plan: Plan, ranking: Ranking, found: Strategy) -> Strategy | None:
    """A rank join of named sequences, None if their matches are not ranked streams."""
    joined = joined_sequences(plan) if ranking.by_sequences is not None else None
    if joined is None:
        return None
    sides, links = [], []
    for own in joined.plans:
        whole = _as_paths(own, own.pattern, ranking.top)
        linked = None if whole is None or whole[0].accepts()[0] else links_of(own, whole[0])
        if whole is None or linked is None:
            return None
        sides.append(whole)
        links.append(linked)
    score = Reason("the score is monotone in one sum over the rows of each sequence", *ranking.place)
    return replace(
        found, question=BEST, search=STREAMS, cost=_COSTS[STREAMS], reasons=(*found.reasons, score), instead=found.search, sides=tuple(net for net, _ in sides),
        spans=tuple(spans for _, spans in sides), joined=joined._replace(links=tuple(links)),
    )


def knows_scores(found: Strategy) -> bool:
    """Whether the walk of a strategy can bound the score of a run, as far as the plan alone shows."""
    plan = found.plan
    ranking = plan.ranking
    if ranking is None or plan.approximate is not None or not plan.reports_all or not (ranking.terms or ranking.scored) or ranking.moving:
        return False
    # A condition may read the number of earlier matches. A row that two sides take for one variable counts once.
    return not any(has(c, "mno") for _, conjuncts in plan.conditions for c in conjuncts) and not _shares(plan.pattern)


def _shares(pattern: tuple) -> bool:
    """Whether several sides of a conjunction may take rows of one variable."""
    sides = [[variables_in(side) for side in part[1:]] for part in walk(pattern) if part[0] == "and"]
    return any(mask & other for masks in sides for i, mask in enumerate(masks) for other in masks[:i])


def _bounded(plan: Plan, ranking: Ranking, found: Strategy) -> Strategy:
    """The walk as a join of rows under a score bound, if any rows' score is known and conditions are equalities and bands.

    Otherwise ``found``.
    """
    if found.question != EVERY or found.automaton.negates or not knows_scores(found) or comparisons_of(plan) is None:
        return found
    return replace(found, question=BEST, cost=_COSTS[SEQUENCES], reasons=(*found.reasons, Reason("the score is made of numbers and sums of the rows", *ranking.place)))


def _conjunction(plan: Plan) -> Strategy:
    program, automaton = conjunction_automaton(plan)
    reasons = (_conjoined(plan),)
    question = GRAPH if plan.graphing else COUNTED if plan.counting else EVERY if plan.reports_all else FIRST
    looking = _looking(plan)
    found = Strategy(plan, question, CONJUNCTION, _EXPONENTIAL, reasons, program, looking, net=automaton)
    ranking = plan.ranking
    if ranking is None or question not in (FIRST, EVERY):
        return found
    sides = _side_automata(plan, ranking.top + 1) if ranking.by_sides and not looking and not ranking.moving else ()
    if not sides:
        return _arranged(plan, found)
    score = Reason("the score is monotone in one sum over each side", *ranking.place)
    return replace(
        found, question=BEST, search=SIDES, cost=_COSTS[SIDES], reasons=(*reasons, score), instead=CONJUNCTION, sides=tuple(net for net, _ in sides),
        spans=tuple(spans for _, spans in sides),
    )


def _budgeted(plan: Plan, approx: Approx) -> Strategy:
    """Best-effort search for all reports: a budget limits candidates, and a history records them."""
    copied, copies = with_copies(plan)
    program, automaton = approximate_automaton(copied, copies, merge=False, placed=True)
    for reason in _looked_up(plan):
        raise ClauseError(
            "BUDGET", f"{reason.text}, which cannot be combined with BUDGET or MATCH HISTORY. Compare values of the variables instead", sqlstate=UNSUPPORTED,
            line=reason.line, column=reason.column, fragment=reason.fragment,
        )  # fmt: skip
    looking, budget = _looking(plan), approx.budget
    cost = "O(rows x (checks + candidates))" if budget is not None else "O(rows x candidates)"
    limit = f"at most {budget.checks} candidates are tried at a row" if budget is not None and budget.pace is None else "an interval limits the candidates that are tried"
    reason = Reason(limit, budget.line, budget.column, budget.text) if budget is not None else _at_pattern(plan, "all candidates are counted")
    return Strategy(copied, _REPORTED[approx.report], BUDGETED, cost, (reason,), program, looking, net=automaton)


def _approximate(plan: Plan, approx: Approx) -> Strategy:
    if approx.budget is not None or approx.report == HISTORY:
        return _budgeted(plan, approx)
    copied, copies = with_copies(plan)
    looking = _looking(plan)
    if has(plan.pattern, "and"):
        program, automaton = approximate_conjunction(copied, copies)
        return Strategy(copied, _REPORTED[approx.report], CONJUNCTION, _EXPONENTIAL, (_conjoined(plan),), program, looking, net=automaton)
    negation = (_at_pattern(plan, "a negation is looked up among the rows taken"),) if has(plan.pattern, "not") else ()
    # reasons why runs differ beyond their node and their first row
    apart = (*_looks(plan, looking), *negation, *_grouped(plan))
    every = approx.report == ALL
    # Counting needs an automaton that finds each match once, so exclusions, which only hide rows, are removed.
    pattern = shown(plan.pattern) if plan.sizing and plan.rows == "one" else plan.pattern
    program, automaton = approximate_automaton(replace(copied, pattern=pattern), copies, merge=every or bool(apart) or plan.sizing)
    looked_up, negated = tuple(_looked_up(plan)), _negated(plan, automaton)
    forgets = next(iter((*looked_up, *negated)), None)
    unlisted = (*negated, *(_ambiguous(plan, automaton) if plan.sizing else ()), *looked_up)
    question = _REPORTED[approx.report]
    found = Strategy(
        copied, question, WALK, _walked(True, looking, forgets), unlisted or apart or (_LOCAL,), program, looking, forgets,
        net=automaton,
    )  # fmt: skip
    if every or (unlisted and (apart or plan.sizing)):
        return found
    search = CLASSES if apart or plan.sizing else PROXIES
    found = replace(found, search=search, cost=_COSTS[search], reasons=apart or (_LOCAL,))
    if not plan.sizing:
        return found
    return replace(found, counts=(FRONT,) if apart else (FRONT, NUMBERS), instead=WALK)


_REPORTED = {ALL: EVERY, PROXY: CHEAPEST, PER_ERROR: BY_COST, BUNDLES: BUNDLED, HISTORY: LEARNED}


# -- criteria ------------------------------------------------------------------------------------------------------

_EXPONENTIAL = "exponential in the rows of a match, at worst"
_LOCAL = Reason("every condition is local to its row and its neighbours")
_WHOLE = Reason("AFTER MATCH SKIP lets matches overlap, and each match is returned with all its rows")


def _walked(every: bool, looking: tuple[int, ...], forgets: Reason | None) -> str:
    """The cost of a walk, as text."""
    if every:
        return "O(matches), at least"
    if forgets is not None:
        return _EXPONENTIAL
    return "O(rows x rows of a match x states" + (" x values of the match that conditions still need)" if looking else ")")


def _at_condition(plan: Plan, variable: int, text: str) -> Reason:
    return Reason(f"{plan.variables[variable]} {text}", *next(((at.line, at.column, at.text) for at in plan.places if at.variable == variable), ()))


def _at_pattern(plan: Plan, text: str) -> Reason:
    return Reason(text, *plan.place)


def _conjoined(plan: Plan) -> Reason:
    return _at_pattern(plan, "the pattern has a conjunction &")


def _looking(plan: Plan) -> tuple[int, ...]:
    return tuple(v for v, conjuncts in plan.conditions if any(map(looks_at_match, conjuncts)))


def _looks(plan: Plan, looking: tuple[int, ...]) -> tuple[Reason, ...]:
    return tuple(_at_condition(plan, v, "has a condition that looks at the match") for v in looking)


def _looked_up(plan: Plan, numbers: bool = True) -> Iterator[Reason]:
    """Reasons for conditions that read more than a run's own values. ``numbers``: whether MATCH_NUMBER() counts as such."""
    for v, conjuncts in plan.conditions:
        if any(reads_labels(c, plan.adjacent) for c in conjuncts):
            yield _at_condition(plan, v, "looks up labels or distinct values among the rows of the match")
        elif numbers and any(has(c, "mno") for c in conjuncts):
            yield _at_condition(plan, v, "reads MATCH_NUMBER()")


def _negated(plan: Plan, automaton: Net) -> tuple[Reason, ...]:
    return (_at_pattern(plan, "a negation reads rows that the run did not take"),) if automaton.negates else ()


def _negated_elsewhere(plan: Plan, automaton: Net, looking: tuple[int, ...]) -> tuple[Reason, ...]:
    """Negations that the two rows of a run around them do not decide: of groups, at an end of the match, or with a condition that
    looks at it."""
    crossed = automaton.edges[:, E_NOT]
    at_start = bool(len(automaton.checks) or crossed[: automaton.first[1]].any())
    if plan.without or at_start or automaton.negates_behind or any(int(mask) >> v & 1 for mask in crossed for v in looking):
        return _negated(plan, automaton)
    return ()


def _ambiguous(plan: Plan, automaton: Net) -> tuple[Reason, ...]:
    return (_at_pattern(plan, "one match may be found in several ways"),) if automaton.ambiguous else ()


def _grouped(plan: Plan) -> tuple[Reason, ...]:
    """A reason for each window of a group, because runs differ by them."""
    return tuple(Reason("a group has a window of its own", window.line, window.column, window.text) for window in plan.windows[1:])


def _as_paths(plan: Plan, pattern: tuple, k: int) -> tuple[Net, tuple[int, ...]] | None:
    """The automaton of a pattern, and the windows that bound the pattern as a whole, if each path inside those windows is a match.

    The k best matches are then k best paths. Returns None if this does not hold.
    """
    pattern, spans = unbounded(pattern)
    if plan.selection != ("ANY", "ALL") or not 0 < k <= MAX_RANKED or has(pattern, "within"):
        return None
    automaton = selection_automaton(replace(plan, pattern=pattern))[1]
    if automaton.ambiguous or automaton.negates or automaton.edges[:, [E_AT_START, E_AT_END]].any():
        return None
    return automaton, spans


def _unranked(plan: Plan, ranking: Ranking, found: Strategy) -> tuple[Reason, ...]:
    """Why the k best matches cannot be found without enumerating all matches."""
    if plan.approximate is not None:
        return (Reason("approximate matches are ranked by their errors too"),)
    if plan.selection != ("ANY", "ALL"):
        return (_at_pattern(plan, "only all matches of SKIP TILL ANY MATCH are ranked without enumeration"),)
    if ranking.top > MAX_RANKED:
        return (Reason(f"TOP is more than {MAX_RANKED}", *ranking.place or ()),)
    shape = _negated(plan, found.automaton)
    if _shares(plan.pattern):
        shape = (*shape, _at_pattern(plan, "several sides of & take rows of one variable"))
    looks = _looks(plan, found.looking) if comparisons_of(plan) is None else ()
    if ranking.moving:
        shape = (*shape, _at_pattern(plan, "UPDATE gives a sequence windows of its own, and the bound of the score does not know these"))
    looks = looks or tuple(_looked_up(plan))
    known = ranking.terms or ranking.scored
    score = () if known else (Reason("the score is not made of numbers of single rows, and sums and counts of other rows, by arithmetic that the engine knows", *ranking.place),)
    return (*shape, *looks, *score)


def _side_automata(plan: Plan, k: int) -> tuple[tuple[Net, tuple[int, ...]], ...]:
    """The automata and windows of a conjunction's sides, if the k best matches of each are k best paths and any of them join.

    Otherwise ().
    """
    if plan.pattern[0] != "and":
        return ()
    found = []
    for side in plan.pattern[1:]:
        whole = _as_paths(plan, side, k)
        # a side that may be empty is not a path
        if whole is None or whole[0].accepts()[0]:
            return ()
        found.append(whole)
    return tuple(found)
