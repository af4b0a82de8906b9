"""Emission: when a match over a stream is final, and how the search resumes at the next micro-batch.

A match is final once no future row can change it. This follows from the plan and from the search that answers it. The engine emits
by this record. EXPLAIN, the checks of streams and the output watermark read it, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparkcep.compiler.net.net import E_NOT, Net
from sparkcep.compiler.searches import BUDGETED, BUNDLED, BY_COST, CHEAPEST, CONJUNCTION, COUNTED, GRAPH, PROXIES, WALK
from sparkcep.plan.options import NO_WINDOW, ROWS
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Window, has

# units of emission
MATCH = "a match"
LAST_ROW = "what ends at a row"
BUNDLE = "a bundle of matches"
BEST_OF_WINDOW = "the best matches of a sliding window"
CHANGE = "a match that comes or is retracted"

# how a search resumes
FROM_START = "at a start row"
FROM_RUNS = "from saved runs"
RECOMPUTE = "over the rows of the last window"

ANSWERS = {COUNTED: "MATCH_COUNT()", GRAPH: "MATCH_GRAPH()", CHEAPEST: "APPROX", BY_COST: "APPROX", BUNDLED: "MATCH BUNDLES"}
"""The questions that are answered for each last row, and what in the clause asks them."""


@dataclass(frozen=True)
class Emission:
    """When a clause's matches are emitted over a stream.

    Attributes:
        unit: the unit of emission: what is emitted as a whole.
        resume: how the search resumes at the next micro-batch.
        early: each match of ALL MATCHES is emitted with its last row. No future row changes it, and matches are not numbered.
        sequential: a match depends on earlier matches, because matches share no rows or conditions read the match number.
        late: a sliding window is ranked only after the WINDOWs of all its rows have closed.
        looks_behind: a negation looks at the rows after a match, so the answer for a last row waits for the WINDOW of its matches.
        looks_before: a negation may look at rows before a match, as far back as WINDOW reaches.
        hides: a cheaper match that begins before a sliding window may hide a match in the window.
        numbers_asked: conditions read MATCH_NUMBER().
        positions: the output depends on the position of a row in its key.
    """

    unit: str
    resume: str
    early: bool
    sequential: bool
    late: bool
    looks_behind: bool
    looks_before: bool
    hides: bool
    numbers_asked: bool
    positions: bool


def emission_of(plan: Plan, search: str, question: str, net: Net | None) -> Emission:
    """How the matches of a plan are emitted over a stream, given its search, its question and its event selection automaton."""
    ranked = plan.ranking is not None and plan.ranking.top > 0
    asked = any(has(tree, "mno") for condition in plan.conditions for tree in condition.trees)
    behind = net is not None and net.negates_behind
    sequential = not plan.reports_all or asked
    unit, resume = _unit(plan, search, question, sequential)
    listed = plan.reports_all and not plan.non_overlapping and search in (WALK, CONJUNCTION) and question not in ANSWERS
    return Emission(
        unit=unit,
        resume=resume,
        early=listed and not ranked and not (plan.numbered or asked or behind),
        sequential=sequential,
        late=sequential or behind,
        looks_behind=behind and (question in ANSWERS or search == BUDGETED),
        looks_before=net is not None and plan.automaton is None and _looks_before(net),
        hides=question in (CHEAPEST, BY_COST),
        numbers_asked=asked,
        positions=_counts_positions(plan),
    )


def _unit(plan: Plan, search: str, question: str, sequential: bool) -> tuple[str, str]:
    """The unit of emission, and how the search resumes."""
    if plan.changes is not None and plan.changes.report == "CHANGES":
        return CHANGE, FROM_START
    if plan.ranking is not None and plan.ranking.top:
        return BEST_OF_WINDOW, FROM_START if sequential else RECOMPUTE
    unit = BUNDLE if question == BUNDLED else LAST_ROW if question in ANSWERS else MATCH
    if search in (BUDGETED, PROXIES):
        return unit, FROM_RUNS
    return unit, RECOMPUTE if question in ANSWERS else FROM_START


def _looks_before(net: Net) -> bool:
    """Whether a negation may look at rows before a match. A side of ``&`` may begin at any row."""
    return net.negates and (net.sides > 1 or bool(np.any(net.edges[: net.first[1], E_NOT])))


def _counts_positions(plan: Plan) -> bool:
    kinds = {leaf.spec.kind for leaf in plan.leaves}
    placed = plan.slide is not None or kinds & {"bundle_start", "bundle_end"}
    across = plan.ranking is not None and plan.ranking.overall  # ties between keys are broken by the positions of rows
    return bool("graph" in kinds or across or (placed and window_of(plan).kind == ROWS))


def window_of(plan: Plan) -> Window:
    """The WINDOW of a whole match. Its kind is NO_WINDOW if the clause has none."""
    return plan.windows[0] if plan.windows else Window(NO_WINDOW, "", "", 0, 0, "")
