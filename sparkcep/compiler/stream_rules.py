"""Stream rules: decides from the plan alone, before a query starts, whether a clause streams.

sparkcep/spark runs the checks when it plans a statement and shows the warnings and the saved state. It also compares a checkpoint
with its statement here (:func:`different`).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sparkcep.compiler.emission import ANSWERS, FROM_RUNS, RECOMPUTE, window_of
from sparkcep.compiler.net.net import E_NOT
from sparkcep.compiler.searches import (
    BUDGETED,
    BUNDLED,
    COMPUTATIONS,
    EVERY,
)
from sparkcep.compiler.strategy import Strategy, placed_strategy
from sparkcep.errors import SEMANTIC, UNSUPPORTED, ClauseError
from sparkcep.plan.extend.approx import ALL, BUNDLES
from sparkcep.plan.extend.budget import HISTORY
from sparkcep.plan.json import read
from sparkcep.plan.options import MICROS, NO_WINDOW, NUMBER, ROWS
from sparkcep.plan.plan import LETTERS, Plan
from sparkcep.plan.reach import Reach, back_of_measures
from sparkcep.plan.records import ALL_ROWS, Budget, LeafPlace, PatternTree, Window, has
from sparkcep.plan.split.fallible import spoken

IDLE = "sparkcep.stream.idleTimeout"
MAX_WIDE = 1 << 61  # size of a window, so that a time plus a size does not overflow
YET = "does not stream yet; store the stream in a table, and match over that"


def check_stream(plan: Plan) -> None:
    """Raises ClauseError for a clause that does not stream, or cannot."""
    if not plan.order:
        raise _wrong(plan, "a clause over a stream needs ORDER BY, whose first expression is the column of the stream's watermark", at=place_of(plan))
    if plan.order[0].descending:
        raise _wrong(plan, f"over a stream the first expression of ORDER BY ascends: rows come in the order of the watermark; write ORDER BY {plan.order[0].name}", at=place_of(plan, plan.order[0].column))
    if has(plan.pattern, "end"):
        raise _wrong(plan, "$ is the end of a partition, which a stream does not have; leave it out", at=place_of(plan, "$"))
    if plan.changes is not None:
        _check_changes(plan)
    for message, there in _families(plan):
        if there:
            raise _wrong(plan, message, UNSUPPORTED)
    if plan.ranking is not None and plan.ranking.top and plan.slide is None:
        raise _wrong(plan, "TOP k without SLIDE ranks a partition as a whole, which a stream never ends; rank windows: WINDOW INTERVAL '...' SLIDE INTERVAL '...'")
    strategy = placed_strategy(plan)
    if strategy.search == BUDGETED:
        _check_budget(plan, strategy)
    if plan.ranking is not None and plan.ranking.top:
        _check_top(plan, strategy)
    elif strategy.question in ANSWERS:
        _check_last_rows(plan, strategy)
    window = window_of(plan)
    if plan.idle:
        _check_idle(plan)
    if window.kind == NUMBER:
        message = "the first ORDER BY expression of a stream is a TIMESTAMP, in which a number is no distance; write WINDOW INTERVAL '...' or WINDOW n ROWS"
        raise _wrong(plan, message, at=window)
    speculated = plan.changes.size if plan.changes is not None else None
    for wide in (*plan.windows, *([speculated] if speculated is not None else [])):
        if wide.kind in (MICROS, ROWS) and int(wide.size) > MAX_WIDE:
            unit = "microseconds, some 73,000 years" if wide.kind == MICROS else "rows"
            raise _wrong(plan, f"over a stream a window has at most {MAX_WIDE} {unit}; write a smaller one", at=wide)
    if window.kind == NO_WINDOW and not plan.idle and plan.reports_all and strategy.search != COMPUTATIONS and strategy.question == EVERY:
        raise _wrong(plan, f"over a stream ALL MATCHES without WINDOW would keep all rows for ever; add WINDOW INTERVAL '...' or WINDOW n ROWS, or set {IDLE}")


def _check_idle(plan: Plan) -> None:
    """Raises ClauseError if the sessions of a key cannot be separated."""
    window, ranking = window_of(plan), plan.ranking
    if ranking is None or not ranking.top:
        return
    if window.kind != MICROS or Fraction(window.size) > plan.idle:
        message = f"with {IDLE} shorter than WINDOW, two sessions of a key would have rows in one sliding window, of which TOP k ranks the matches together; set it to WINDOW's size or more"
        raise _wrong(plan, message if window.kind == MICROS else f"with {IDLE} TOP k ranks windows of time; write WINDOW INTERVAL '...', or leave the setting out", at=window)
    if ranking.overall and placed_strategy(plan).emission.late and 2 * Fraction(window.size) > plan.idle:
        message = f"with {IDLE} shorter than twice WINDOW, the end of a session would come before its windows are ranked with those of other keys; set it to twice WINDOW's size or more"
        raise _wrong(plan, message, at=window)


def check_table(plan: Plan) -> None:
    """Raises ClauseError for a clause that only a stream answers."""
    changes = plan.changes
    if changes is not None and changes.report == "CHANGES" and not changes.arrival:
        message = "REPORT CHANGES over a table needs the order in which changes come; add ARRIVAL BY expr to CHANGES IN (a stream brings them in their order)"
        raise ClauseError("AUTOMATON", message, sqlstate=SEMANTIC, line=changes.line, column=changes.column_at, fragment=changes.text)


def _check_changes(plan: Plan) -> None:
    """Raises ClauseError for changes that a stream cannot deliver, or for a report that a stream cannot give."""
    changes = plan.changes
    for there, message in (
        (changes.report != "CHANGES", "CHANGES IN over a stream tells what changes; add REPORT CHANGES (SPECULATE NONE tells decided matches alone, and takes none back)"),
        (bool(changes.arrival), "a stream brings its changes in their order; leave ARRIVAL BY out of CHANGES IN"),
    ):
        if there:
            raise ClauseError("STREAM", message, sqlstate=SEMANTIC, line=changes.line, column=changes.column_at, fragment=changes.text)


def _check_last_rows(plan: Plan, strategy: Strategy) -> None:
    """Raises ClauseError if answers for each last row cannot be emitted row by row."""
    window, what = window_of(plan), ANSWERS[strategy.question]
    incremental = strategy.emission.resume == FROM_RUNS
    if window.kind == NO_WINDOW and not incremental and not plan.idle:
        raise _wrong(plan, f"over a stream {what} without WINDOW would keep all rows for ever; add WINDOW INTERVAL '...' or WINDOW n ROWS, or set {IDLE}")
    if strategy.emission.numbers_asked and not incremental:
        raise _wrong(plan, f"MATCH_NUMBER() in DEFINE for {what} {YET}", UNSUPPORTED)


def _check_budget(plan: Plan, strategy: Strategy) -> None:
    """Raises ClauseError if a negation under a BUDGET looks at rows that a stream cannot provide."""
    net, budget = strategy.automaton, plan.approximate.budget
    before = int(np.bitwise_or.reduce(net.edges[: net.first[1], E_NOT], initial=0))
    if any(before >> v & 1 for v, _ in strategy.groups):
        which = "a negated group before the first row of a match (of variables before it, which may be missing, too)"
        raise _wrong(plan, f"{which} does not stream under a BUDGET yet; give variables beside it WEIGHTS above what APPROX allows, or leave BUDGET out", UNSUPPORTED, budget)


def _check_top(plan: Plan, strategy: Strategy) -> None:
    """Raises ClauseError if the best matches of a window are not known in one micro-batch, or not from the retained rows."""
    if plan.ranking.overall and window_of(plan).kind == ROWS:
        raise _wrong(plan, "TOP OVERALL ranks the matches of all keys in a window, and those of WINDOW n ROWS end at other times for each key; write WINDOW INTERVAL '...'")
    if plan.ranking.overall and Reach.of(plan).ahead:
        raise _wrong(plan, "TOP OVERALL ranks the matches of all keys in a window together, and NEXT waits for further rows of each key; leave OVERALL or NEXT out")
    if strategy.question in ANSWERS and strategy.emission.numbers_asked:
        raise _wrong(plan, f"TOP of PROXY MATCHES with MATCH_NUMBER() in DEFINE {YET}", UNSUPPORTED)


def _families(plan: Plan) -> list[tuple[str, bool]]:
    """Clauses that do not stream: for each a message with reason and remedy, and whether the plan is such a clause."""
    approximate = plan.approximate
    return [
        (
            "MATCH HISTORY numbers bundles over all rows of all partitions, which a stream never has; record it of a table of past rows, from time to time as in foreachBatch",
            approximate is not None and approximate.report == HISTORY,
        ),
        (
            "a condition in which Spark computes a function of several rows needs whole partitions; compute what it takes of one row in the function, and compare the rows outside of "
            "it, as upper(x) = upper(PREV(x)) in place of f(x, PREV(x)), or let a clause below give PREV(x) to each row: docs/streams.md, Functions of several rows", bool(plan.ordered_inputs),
        ),
        ("partitions of a stream are not cut into slices; set sparkcep.slices to true", bool(plan.slice)),
    ]


def warnings(plan: Plan) -> list[str]:
    """Hints for the user about a clause that streams: state that may grow, and waits."""
    found = []
    window, ahead = window_of(plan), Reach.of(plan).ahead
    if plan.automaton is not None and plan.automaton.lifetime:
        found.append("it has LIFETIME TO: a row whose end is NULL is kept until no match under way has it")
    elif window.kind != MICROS and not plan.idle:
        bound = "WINDOW n ROWS" if window.kind != NO_WINDOW else "no WINDOW"
        found.append(f"it has {bound}: a match that may go on waits for further rows of its key, which are kept until then; add WINDOW INTERVAL '...', or set {IDLE}")
    if ahead and not plan.idle:
        found.append(f"NEXT reads {ahead} {'row' if ahead == 1 else 'rows'} after a match: the match waits for {'it' if ahead == 1 else 'them'}, whatever WINDOW is")
    return found


def kept(plan: Plan) -> list[str]:
    """The saved state of each key over a stream and how long each part of it lives, as lines for EXPLAIN."""
    window, (back, ahead) = window_of(plan), Reach.of(plan)
    ever = f"until the watermark is {_interval(plan.idle)} behind the last row of the key" if plan.idle else "for ever"
    lines, strategy = ["rows behind the watermark, until it has passed them"], placed_strategy(plan)
    emission = strategy.emission
    ranks = plan.ranking is not None and plan.ranking.top > 0
    searched_again = strategy.search == BUDGETED or (emission.resume == RECOMPUTE and not ranks)
    times = 2 if emission.looks_behind and not ranks else 1
    what = ("rows of the last two windows" if times > 1 else "rows of the last window") if searched_again else "rows of a match under way"
    if plan.automaton is not None and plan.automaton.lifetime:
        lines.append(f"{what}, until the watermark has passed the end of its first row's life")
    elif ranks:
        before = ", and of such a time before them" if emission.hides or emission.looks_before else ""
        waits = ", or hold a row whose WINDOW has not" if emission.late else ""
        further = f", or behind {'whose WINDOW' if emission.late else 'which'} not {ahead} {'row of the key has' if ahead == 1 else 'rows of the key have'} come" if ahead else ""
        lines.append(f"rows of the windows that have not ended{waits}{further}{before}")
    elif window.kind == MICROS:
        lines.append(f"{what}, until the watermark is {_interval(times * Fraction(window.size))} behind {'them' if searched_again else 'its first row'}")
    elif window.kind == NO_WINDOW:
        lines.append(f"{what}, until rows of its key end it, or the key is idle: there is no WINDOW" if plan.idle else f"{what}, until rows of its key end it: there is no WINDOW")
    else:
        lines.append(f"{what}, until {times * int(window.size)} rows of its key have come")
    if strategy.search == BUDGETED:
        lines += _kept_of_budget(plan, ever)
    if plan.automaton is not None and plan.automaton.expires:
        lines.append("of such a key, up to when its arcs ON EXPIRY were taken")
    if plan.arcs is not None:
        bounded = window.kind == MICROS and not plan.automaton.lifetime
        lines.append(f"of the query as a whole, its arcs, {'until no row that is kept can find them' if bounded else 'for ever'}")
    if plan.changes is not None:
        lines.append("what was told of matches that rows behind the watermark have, until it has passed their last row")
        if plan.changes.punctuate:
            lines.append("what was promised of each value of PUNCTUATE BY, until the watermark has passed it")
        if any(leaf.spec.kind == "change_number" for leaf in plan.leaves):
            lines.append(f"the number of the last change {ever}")
    if strategy.question == BUNDLED:
        lines.append("the best match of a bundle, until no match point can join it")
    if back or ahead:
        lines.append(f"the last {'row' if back + ahead == 1 else f'{back + ahead} rows'} {ever}, at which PREV and NEXT look")
    if emission.numbers_asked or (plan.numbered and not ranks):  # ranked matches need no saved number: their numbers are their ranks
        lines.append(f"the number of the last match {ever}")
    if emission.positions:
        lines.append(f"how many rows it had, {ever}: positions are counted from its first row")
    if has(plan.pattern, "start"):
        lines.append(f"that it had rows, {ever}: ^ holds for the first alone")
    if plan.idle:
        lines.append("of a key of which any of this is kept, the time of its last row")
    return lines


def _kept_of_budget(plan: Plan, ever: str) -> list[str]:
    approx = plan.approximate
    lines = ["which of these rows each partial match took, and what was left out at them, as long as these rows"]
    if approx.report == ALL and plan.numbered:
        lines.append("matches that are found and not numbered, until no match to come can begin before them")
    if approx.budget.history and not approx.budget.published:
        lines.append(f"how often each vector was tried and led to a match point, {ever}")
    if approx.budget.explore:
        lines.append(f"what agents have learnt, {ever}")
    return lines


_WORDS = {
    "pattern": "PATTERN", "variables": "PATTERN", "rows": "the rows that are given of a match", "skip": "AFTER MATCH SKIP", "partition": "PARTITION BY",
    "order": "ORDER BY", "conditions": "DEFINE", "letters": "DEFINE", "selection": "EVENT SELECTION", "windows": "WINDOW", "without": "a negation", "approximate": "APPROX", "slide": "SLIDE", "automaton": "AUTOMATON",
    "arcs": "ARCS FROM", "idle": "sparkcep.stream.idleTimeout", "changes": "CHANGES IN, REPORT or SPECULATE", "equal_keys": "DEFINE", "case_sensitive": "spark.sql.caseSensitive", "ansi": "spark.sql.ansi.enabled",
}


def different(before: dict, now: dict, texts_before: dict, texts: dict) -> list[str]:
    """The differences between two plans that prevent the second from resuming from the state of the first, in the clause's words.

    Args:
        before: the first plan, as JSON.
        now: the second plan, as JSON.
        texts_before: the expressions that Spark computes of each row in the first plan, by column.
        texts: the same expressions in the second plan.
    """
    found = [word for name, word in _WORDS.items() if (_placeless(before.get(name)) or None) != (_placeless(now.get(name)) or None)]  # an empty member may be missing
    for name in (name for name in texts if texts_before.get(name) != texts[name]):
        was = texts_before.get(name)
        found.append("DEFINE" if name == LETTERS else f"values that are {spoken(texts[name])}" + (f" and were {spoken(was)}" if was else ""))
    if before.get("zone") not in (None, now.get("zone")):  # None: an older version did not write it
        found.append("spark.sql.session.timeZone")
    if bool(_top(before)) != bool(_top(now)):
        found.append("TOP")
    if _numbered(now) and not _numbered(before):
        found.append("MATCH_NUMBER()")
    found += [word for kind, word in _REPORTED.items() if kind in _kinds(before) ^ _kinds(now) and (kind in ("cnt", "graph") or kind in _kinds(now))]
    if now.get("changes") and _placeless(before.get("leaves")) != _placeless(now.get("leaves")):
        found.append("MEASURES, of which some rows were told under REPORT CHANGES")
    if _back(now, now) > _back(before, now):  # the state lacks these rows
        found.append("by how many rows PREV looks behind a match")
    bundled = (now.get("approximate") or {}).get("report") == BUNDLES
    if bundled and _ahead(now) > _ahead(before):  # and rows between those of a bundle's best match
        found.append("by how many rows NEXT looks behind a match")
    return list(dict.fromkeys(found))


def _placeless(value: object) -> object:
    """A part of a plan without places and without empty members. An older version may not have written these."""
    if isinstance(value, dict):
        parts = {name: _placeless(part) for name, part in value.items() if not (name in ("line", "column", "column_at", "text") and "line" in value)}
        return {name: part for name, part in parts.items() if part not in (None, "", [], {})}
    return [_placeless(part) for part in value] if isinstance(value, list) else value


# Measures that change the state: rows are searched in another way, positions are counted, or a number is saved for each row.
_REPORTED = {"cnt": "MATCH_COUNT()", "graph": "MATCH_GRAPH()", "bundle_start": "BUNDLE_START()", "bundle_end": "BUNDLE_END()", "coverage": "COVERAGE()"}


def _top(plan: dict) -> int:
    return (plan.get("ranking") or {}).get("top", 0)


def _kinds(plan: dict) -> set[str]:
    return {leaf["spec"]["kind"] for leaf in plan.get("leaves", ())}


def _numbered(plan: dict) -> bool:
    return "mno" in _kinds(plan)


def _back(plan: dict, now: dict) -> int:
    """How many rows before a match a plan's measures read.

    The pattern is that of ``now``, because another pattern is reported anyway.
    """
    looks = [(leaf["spec"].get("physical", 0), leaf["spec"].get("mask", ALL_ROWS)) for leaf in plan.get("leaves", ()) if leaf["spec"]["kind"] == "nav"]
    if now.get("automaton") or now.get("approximate") or now.get("changes"):
        return max([0, *(-physical for physical, _ in looks)])
    return back_of_measures(read(PatternTree, now["pattern"], now), len(now["variables"]), looks)


def _ahead(plan: dict) -> int:
    """How many rows ahead a plan's measures read."""
    return max([0, *(leaf["spec"].get("physical", 0) for leaf in plan.get("leaves", ()) if leaf["spec"]["kind"] in ("nav", "cls"))])


def _interval(micros: Fraction | int) -> str:
    seconds = f"{float(Fraction(micros) / 1_000_000):.6f}".rstrip("0").rstrip(".")
    return f"INTERVAL '{seconds}' SECOND"


def place_of(plan: Plan, name: str = "") -> LeafPlace | None:
    """Where an expression of ORDER BY, ``$`` or (without a name) the clause begins. None if the plan does not say."""
    return next((place for place in plan.leaf_places if place.name == name), None)


def _wrong(plan: Plan, message: str, sqlstate: str = SEMANTIC, at: Window | Budget | LeafPlace | None = None) -> ClauseError:
    if at is not None and at.line:
        place = {"line": at.line, "column": at.column, "fragment": at.text}
    else:
        place = dict(zip(("line", "column", "fragment"), plan.place)) if plan.place else {}
    return ClauseError("STREAM", message, sqlstate=sqlstate, **place)
