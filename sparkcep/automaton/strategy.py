"""Which search answers a clause. This is decided once, from the plan alone.

The engine builds the search that a :class:`Strategy` names. EXPLAIN, the rewriter, the pictures and ``sparkcep compile`` read the
same record, so none of them can say anything else. Whether values of the rows let a search answer (rounding, NULLs, types) only the
rows tell; ``instead`` names the search that then takes its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from sparkcep.automaton.approximate import approximate_automaton
from sparkcep.automaton.compiler import compile_pattern
from sparkcep.automaton.conjunction import conjunction_automaton
from sparkcep.automaton.guesses import with_copies
from sparkcep.automaton.links import Links, links_of
from sparkcep.automaton.net import ACCEPT, E_AT_END, E_AT_START, E_TARGET, E_VAR, Net
from sparkcep.automaton.program import Program
from sparkcep.automaton.selection import selection_automaton
from sparkcep.plan.costs import ALL, BUNDLES
from sparkcep.plan.define import looks_at_match, reads_labels
from sparkcep.plan.options import NO_WINDOW
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Approx, has

MAX_RANKED = 100_000  # matches that TOP k holds for each window without enumeration

# what is asked
FIRST = "the preferred match of each start row"
EVERY = "every match"
COUNTED = "how many matches end at each row"
GRAPH = "the graph of the matches that end at each row"
CHEAPEST = "the best match of each last row"
BUNDLED = "the best match of each bundle of last rows"
BEST = "the k best matches"

# how the rows are gone through
DEPTH_FIRST = "depth first, one run at a time"
SIDE_BY_SIDE = "row by row, all runs side by side"
BY_SCORE = "by score, the best first"

# the searches, and how each goes through the rows
ADJACENT = "adjacent rows"
WALK = "walk"
CONJUNCTION = "sides of a conjunction"
NUMBERS = "numbers"
FRONT = "classes of runs"
PROXIES = "one run for each state"
CLASSES = "one run for each class"
PATHS = "k best paths"
SEQUENCES = "join of rows"
SIDES = "join of sides"
SEARCHES = {
    ADJACENT: DEPTH_FIRST, WALK: DEPTH_FIRST, CONJUNCTION: DEPTH_FIRST, NUMBERS: SIDE_BY_SIDE, FRONT: SIDE_BY_SIDE, PROXIES: SIDE_BY_SIDE,
    CLASSES: SIDE_BY_SIDE, PATHS: SIDE_BY_SIDE, SEQUENCES: BY_SCORE, SIDES: BY_SCORE,
}  # fmt: skip

_COSTS = {
    NUMBERS: "O(rows x states), whatever the window",
    FRONT: "O(rows x classes of runs)",
    PROXIES: "O(rows x states), whatever the window",
    CLASSES: "O(rows x classes of runs)",
    PATHS: "O(rows x states x k)",
    SEQUENCES: "O(rows), and the combinations of rows whose score may be among the k best",
    SIDES: "O(rows x states x k), and the pairs of matches whose score may be among the k best",
}


class Reason(NamedTuple):
    """Why a search was chosen, and the place of the statement that is the cause: line, column and text (0, 0 and "" for the
    clause as a whole)."""

    text: str
    line: int = 0
    column: int = 0
    fragment: str = ""


@dataclass(frozen=True, eq=False)
class Strategy:
    """The search that answers a plan, and the automata that were built to choose it.

    ``plan``: the plan, with copies of its variables where matches are approximate. ``instead``: the search that goes through all
    matches where the rows do not let ``search`` answer, or "". ``forgets``: why failed states (or runs) are not remembered, or None
    where they are. ``looking``: the variables whose conditions look at the match. ``links``: of PATHS; ``chain``: the edges of
    SEQUENCES; ``sides``: the automata of SIDES.
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
    selection: Net | None = None
    conjunction: Net | None = None
    approximate: Net | None = None
    links: Links | None = None
    chain: tuple[int, ...] = ()
    sides: tuple[Net, ...] = ()

    @property
    def discipline(self) -> str:
        """How the search goes through the rows."""
        return SEARCHES[self.search]

    @property
    def ranks(self) -> bool:
        """Whether the search finds the k best matches without going through all of them."""
        return self.question == BEST

    @property
    def automaton(self) -> Net:
        """The automaton of event selection."""
        assert self.selection is not None
        return self.selection


def strategy_of(plan: Plan) -> Strategy:
    """The search for a plan. Raises ClauseError for a pattern that needs too many states."""
    if plan.approximate is not None:
        return _approximate(plan, plan.approximate)
    if not plan.selection:
        return _adjacent(plan)
    return _conjunction(plan) if has(plan.pattern, "and") else _selection(plan)


def _adjacent(plan: Plan) -> Strategy:
    program = compile_pattern(plan.pattern, plan.variables)
    looking = _looking(plan)
    found = Strategy(plan, FIRST, ADJACENT, "", (), program, looking)
    if not program.states:
        reason = _at_pattern(plan, "the pattern leaves no choice, so that no failed states need be remembered")
        return replace(found, cost="O(rows x rows of an attempt)", reasons=(reason,), forgets=reason)
    if reason := next(_looked_up(plan, numbers=False), None):
        return replace(found, cost="exponential in the rows of an attempt, at worst", reasons=(reason,), forgets=reason)
    if looking:
        return replace(found, cost="O(rows x values of the match that conditions still need)", reasons=_looks(plan, looking))
    return replace(found, cost="O(rows)", reasons=(_LOCAL,))


def _selection(plan: Plan) -> Strategy:
    program, automaton = selection_automaton(plan)
    looking = _looking(plan)
    looked_up, negated = tuple(_looked_up(plan)), _negated(plan, automaton)
    forgets = next(iter((*looked_up, *negated)), None)
    every = plan.reports_all
    found = Strategy(plan, EVERY if every else FIRST, WALK, _walked(every, looking, forgets), _looks(plan, looking) or (_LOCAL,), program, looking, forgets, selection=automaton)
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
    if ranking is None or not _ranks_paths(plan, ranking.top, automaton):
        return found
    score = Reason("the score is a sum over the rows", *ranking.place)
    if ranking.terms and (links := links_of(plan, automaton)) is not None:
        return replace(found, question=BEST, search=PATHS, cost=_COSTS[PATHS], reasons=(*found.reasons, score), instead=WALK, links=links)
    if ranking.monotone and not looking and (chain := _chain_of(automaton)):
        score = Reason("the score is monotone in one number of each variable", *ranking.place)
        return replace(found, question=BEST, search=SEQUENCES, cost=_COSTS[SEQUENCES], reasons=(*found.reasons, score), instead=WALK, chain=chain)
    return found


def _conjunction(plan: Plan) -> Strategy:
    program, automaton = conjunction_automaton(plan)
    reasons = (_at_pattern(plan, "the pattern has a conjunction &"),)
    question = GRAPH if plan.graphing else COUNTED if plan.counting else EVERY if plan.reports_all else FIRST
    looking = _looking(plan)
    found = Strategy(plan, question, CONJUNCTION, "exponential in the rows of a match, at worst", reasons, program, looking, conjunction=automaton)
    ranking = plan.ranking
    if ranking is None or not ranking.by_sides or looking or question not in (FIRST, EVERY):
        return found
    sides = _side_automata(plan, ranking.top + 1)
    score = Reason("the score is monotone in one sum over each side", *ranking.place)
    return replace(found, question=BEST, search=SIDES, cost=_COSTS[SIDES], reasons=(*reasons, score), instead=CONJUNCTION, sides=sides) if sides else found


def _approximate(plan: Plan, approx: Approx) -> Strategy:
    copied, copies = with_copies(plan)
    looking = _looking(plan)
    negation = (_at_pattern(plan, "a negation is looked up among the rows taken"),) if has(plan.pattern, "not") else ()
    # what tells one run from another beyond its node and its first row
    apart = (*_looks(plan, looking), *negation, *_grouped(plan))
    every = approx.report == ALL
    program, automaton = approximate_automaton(copied, copies, merge=every or bool(apart))
    looked_up, negated = tuple(_looked_up(plan)), _negated(plan, automaton)
    forgets = next(iter((*looked_up, *negated)), None)
    question = EVERY if every else BUNDLED if approx.report == BUNDLES else CHEAPEST
    found = Strategy(
        copied, question, WALK, _walked(True, looking, forgets), (*negated, *looked_up) or apart or (_LOCAL,), program, looking, forgets,
        selection=automaton, approximate=automaton,
    )  # fmt: skip
    if every or (apart and (negated or looked_up)):
        return found
    return replace(found, search=CLASSES if apart else PROXIES, cost=_COSTS[CLASSES if apart else PROXIES], reasons=apart or (_LOCAL,))


# -- what decides --------------------------------------------------------------------------------------------------

_LOCAL = Reason("every condition is local to its row and its neighbours")


def _walked(every: bool, looking: tuple[int, ...], forgets: Reason | None) -> str:
    """What a walk costs."""
    if every:
        return "O(matches), at least"
    if looking and forgets is not None:
        return "exponential in the rows of a match, at worst"
    return "O(rows x rows of a match x states" + (" x values of the match that conditions still need)" if looking else ")")


def _at_condition(plan: Plan, variable: int, text: str) -> Reason:
    return Reason(f"{plan.variables[variable]} {text}", *next(((at.line, at.column, at.text) for at in plan.places if at.variable == variable), ()))


def _at_pattern(plan: Plan, text: str) -> Reason:
    return Reason(text, *plan.place)


def _looking(plan: Plan) -> tuple[int, ...]:
    return tuple(v for v, conjuncts in plan.conditions if any(map(looks_at_match, conjuncts)))


def _looks(plan: Plan, looking: tuple[int, ...]) -> tuple[Reason, ...]:
    return tuple(_at_condition(plan, v, "has a condition that looks at the match") for v in looking)


def _looked_up(plan: Plan, numbers: bool = True) -> Iterator[Reason]:
    """What conditions look up beyond the values that a run carries. ``numbers``: MATCH_NUMBER(), too."""
    for v, conjuncts in plan.conditions:
        if any(reads_labels(c, plan.adjacent) for c in conjuncts):
            yield _at_condition(plan, v, "looks up labels or distinct values among the rows of the match")
        elif numbers and any(has(c, "mno") for c in conjuncts):
            yield _at_condition(plan, v, "reads MATCH_NUMBER()")


def _negated(plan: Plan, automaton: Net) -> tuple[Reason, ...]:
    return (_at_pattern(plan, "a negation looks at rows that the run did not take"),) if automaton.negates else ()


def _ambiguous(plan: Plan, automaton: Net) -> tuple[Reason, ...]:
    return (_at_pattern(plan, "one match may be found in several ways"),) if automaton.ambiguous else ()


def _grouped(plan: Plan) -> tuple[Reason, ...]:
    """The windows of groups, by which runs differ."""
    return tuple(Reason("a group has a window of its own", window.line, window.column, window.text) for window in plan.windows[1:])


def _ranks_paths(plan: Plan, k: int, automaton: Net) -> bool:
    """Whether each path of the automaton is a match, and nothing but its rows decides that: then the k best are k best paths."""
    plain = plan.selection == ("ANY", "ALL") and len(plan.windows) == 1 and 0 < k <= MAX_RANKED
    return plain and not (automaton.ambiguous or automaton.negates or automaton.edges[:, [E_AT_START, E_AT_END]].any())


def _chain_of(automaton: Net) -> tuple[int, ...]:
    """The edges of an automaton that takes one row for each of its nodes; () for any other."""
    edges: list[int] = []
    node = 0
    while len(edges) < automaton.nodes:
        low, high = int(automaton.first[node]), int(automaton.first[node + 1])
        if high - low != 1:
            return ()
        if automaton.edges[low, E_VAR] == ACCEPT:
            return tuple(edges)
        edges.append(low)
        node = int(automaton.edges[low, E_TARGET])
    return ()


def _side_automata(plan: Plan, k: int) -> tuple[Net, ...]:
    """The automata of the sides of a conjunction, where the k best matches of each are k best paths and any of them join; ()
    otherwise."""
    if plan.pattern[0] != "and" or (plan.windows[0].kind != NO_WINDOW and not plan.slide):
        return ()
    found = []
    for side in plan.pattern[1:]:
        alone = replace(plan, pattern=side)
        automaton = selection_automaton(alone)[1]
        # a side without rows is no path
        if not _ranks_paths(alone, k, automaton) or automaton.accepts()[0]:
            return ()
        found.append(automaton)
    return tuple(found)
