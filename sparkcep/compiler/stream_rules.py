"""Stream rules: decides from the plan alone, before a query starts, whether a clause streams.

sparkcep/spark runs the checks when it plans a statement and shows the warnings and the saved state. It also compares a checkpoint
with its statement here (:func:`different`).
"""

from __future__ import annotations

import functools
import json
from fractions import Fraction

import numpy as np

from sparkcep.compiler.conditions.time_zones import have_same_rules
from sparkcep.compiler.emission import ANSWERS, FROM_RUNS, RECOMPUTE, window_of
from sparkcep.compiler.net.net import E_NOT, E_TARGET
from sparkcep.compiler.searches import (
    BUDGETED,
    BUNDLED,
    COMPUTATIONS,
    EVERY,
    PROXIES,
)
from sparkcep.compiler.strategy import Strategy, placed_strategy
from sparkcep.errors import SEMANTIC, SYNTAX, UNSUPPORTED, ClauseError
from sparkcep.plan.extend.approx import ALL
from sparkcep.plan.extend.budget import HISTORY, INTERVALS
from sparkcep.plan.facts import unbounded
from sparkcep.plan.json import read
from sparkcep.plan.options import MICROS, NO_WINDOW, NUMBER, ROWS
from sparkcep.plan.plan import LETTERS, Plan
from sparkcep.plan.reach import Reach, back_of_measures, looks_ahead
from sparkcep.plan.records import ALL_ROWS, Budget, LeafPlace, PatternTree, Window, has
from sparkcep.plan.split.fallible import FAILS, plainest, spoken

IDLE = "sparkcep.stream.idleTimeout"
NEEDED, ALL_NEEDED = "__needed", "true"  # among a statement's texts: the condition of rows that reach the search, as in StreamMark.java
MAX_WIDE = 1 << 61  # size of a window, so that a time plus a size does not overflow
YET = "does not stream yet. Store the stream in a table, and match over the table"


def check_stream(plan: Plan) -> None:
    """Raises ClauseError for a clause that does not stream, or cannot."""
    if not plan.order:
        raise _wrong(plan, "a clause over a stream needs ORDER BY. Its first expression must be the stream's watermark column", at=place_of(plan))
    if plan.order[0].descending:
        raise _wrong(plan, f"over a stream the first ORDER BY expression must ascend, in the order of the watermark. Write ORDER BY {plan.order[0].name}", at=place_of(plan, plan.order[0].column))
    if has(plan.pattern, "end"):
        raise _wrong(plan, "$ is the end of a partition, which a stream never reaches. Leave $ out", at=place_of(plan, "$"))
    if plan.unfinished is not None:
        _check_unfinished(plan)
    if plan.changes is not None:
        _check_changes(plan)
    for message, there in _families(plan):
        if there:
            raise _wrong(plan, message, UNSUPPORTED)
    if plan.ranking is not None and plan.ranking.top and plan.slide is None:
        raise _wrong(plan, "TOP k without SLIDE ranks a whole partition, which never ends over a stream. Rank windows: WINDOW INTERVAL '...' SLIDE INTERVAL '...'")
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
        message = "a stream is ordered by a TIMESTAMP, so its WINDOW cannot be a plain number. Write WINDOW INTERVAL '...' or WINDOW n ROWS"
        raise _wrong(plan, message, at=window)
    speculated = plan.changes.size if plan.changes is not None else None
    for wide in (*plan.windows, *([speculated] if speculated is not None else [])):
        if wide.kind in (MICROS, ROWS) and int(wide.size) > MAX_WIDE:
            unit = "microseconds (73,000 years)" if wide.kind == MICROS else "rows"
            raise _wrong(plan, f"over a stream a window is at most {MAX_WIDE} {unit}. Write a smaller window", at=wide)
    if window.kind == NO_WINDOW and not plan.idle and plan.reports_all and strategy.search != COMPUTATIONS and strategy.question == EVERY:
        raise _wrong(plan, f"over a stream ALL MATCHES without WINDOW would keep all rows indefinitely. Add WINDOW INTERVAL '...' or WINDOW n ROWS, or set {IDLE}")


def _check_idle(plan: Plan) -> None:
    """Raises ClauseError if the sessions of a key cannot be separated."""
    window, ranking = window_of(plan), plan.ranking
    if ranking is None or not ranking.top:
        return
    if ranking.changes is not None:
        message = f"{IDLE} ends the session of an idle key, and REPORT CHANGES beside TOP k compares the key's next list with the last one. Leave the setting or REPORT CHANGES out"
        raise _wrong(plan, message)
    if window.kind != MICROS or Fraction(window.size) > plan.idle:
        message = f"{IDLE} is shorter than WINDOW, so TOP k could rank matches of two sessions of a key in one sliding window. Set it to at least the size of WINDOW"
        raise _wrong(plan, message if window.kind == MICROS else f"TOP k with {IDLE} needs a window of time. Write WINDOW INTERVAL '...', or leave the setting out", at=window)
    if ranking.overall and placed_strategy(plan).emission.late and 2 * Fraction(window.size) > plan.idle:
        message = f"{IDLE} is shorter than twice WINDOW, so a session could end before its windows are ranked with those of other keys. Set it to at least twice the size of WINDOW"
        raise _wrong(plan, message, at=window)


def check_table(plan: Plan) -> None:
    """Raises ClauseError for a clause that only a stream answers."""
    changes = plan.changes
    if changes is not None and changes.report == "CHANGES" and not changes.arrival:
        message = "REPORT CHANGES over a table needs the order of the changes. Add ARRIVAL BY expr to CHANGES IN (only a stream delivers changes in order)"
        raise ClauseError("AUTOMATON", message, sqlstate=SEMANTIC, line=changes.line, column=changes.column_at, fragment=changes.text)
    budget = plan.approximate.budget if plan.approximate is not None else None
    if budget is not None and budget.pace is not None and budget.pace.per == "BATCH":
        message = "BUDGET ... PER BATCH limits the micro-batches of a stream, and this is a table. Write PER PARTITION for all rows of a partition, or PER ROW"
        raise ClauseError("BUDGET", message, sqlstate=SEMANTIC, line=budget.line, column=budget.column, fragment=budget.text)


def _check_unfinished(plan: Plan) -> None:
    """Raises ClauseError for unfinished matches that a stream cannot report."""
    shown, what = plan.unfinished, f"SHOW {plan.unfinished.report} MATCHES"
    place = {"line": shown.line, "column": shown.column, "fragment": shown.text}
    if shown.dated:
        raise ClauseError("UNFINISHED", f"over a stream the watermark is the clock of {what}. Leave AS OF out", sqlstate=SYNTAX, **place)
    if any(looks_ahead(plan.pattern, condition, len(plan.variables)) for condition in plan.conditions):
        message = f"{what} with NEXT in DEFINE {YET}, with AS OF the time that the table is complete up to"
        raise ClauseError("STREAM", message, sqlstate=UNSUPPORTED, **place)


def _check_changes(plan: Plan) -> None:
    """Raises ClauseError for changes that a stream cannot deliver, or for a report that a stream cannot give."""
    changes = plan.changes
    for there, message in (
        (changes.report != "CHANGES", "CHANGES IN over a stream needs REPORT CHANGES. Add it (SPECULATE NONE reports final matches only and never retracts them)"),
        (plan.punctuates, "over a stream the watermark promises what punctuations promise over a table. Leave WITH PUNCTUATIONS and PUNCTUATION() out"),
        (bool(changes.arrival), "a stream delivers its changes in order. Leave ARRIVAL BY out of CHANGES IN"),
    ):
        if there:
            raise ClauseError("STREAM", message, sqlstate=SEMANTIC, line=changes.line, column=changes.column_at, fragment=changes.text)


def _check_last_rows(plan: Plan, strategy: Strategy) -> None:
    """Raises ClauseError if answers for each last row cannot be emitted row by row."""
    window, what = window_of(plan), ANSWERS[strategy.question]
    incremental = strategy.emission.resume == FROM_RUNS
    if window.kind == NO_WINDOW and not incremental and not plan.idle:
        raise _wrong(plan, f"over a stream {what} without WINDOW would keep all rows indefinitely. Add WINDOW INTERVAL '...' or WINDOW n ROWS, or set {IDLE}")
    if strategy.emission.numbers_asked and not incremental:
        raise _wrong(plan, f"MATCH_NUMBER() in DEFINE for {what} {YET}", UNSUPPORTED)


def _check_budget(plan: Plan, strategy: Strategy) -> None:
    """Raises ClauseError if a BUDGET needs what a stream lacks: the end of a partition, or rows that a negation looks at."""
    net, budget = strategy.automaton, plan.approximate.budget
    if budget is not None and budget.pace is not None and budget.pace.per == "PARTITION":
        raise _wrong(plan, "BUDGET ... PER PARTITION limits a partition that ends, and over a stream it never does. Write PER BATCH for all rows of a task's micro-batch, or PER ROW", at=budget)
    before = int(np.bitwise_or.reduce(net.edges[: net.first[1], E_NOT], initial=0))
    if any(before >> v & 1 for v, _ in strategy.groups):
        which = "a negated group before the first row of a match (the variables before it may be missing, too)"
        raise _wrong(plan, f"{which} does not stream under a BUDGET yet. Give the neighbouring variables WEIGHTS above what APPROX allows, or leave BUDGET out", UNSUPPORTED, budget)


def _check_top(plan: Plan, strategy: Strategy) -> None:
    """Raises ClauseError if the best matches of a window are not known in one micro-batch, or not from the retained rows."""
    if plan.ranking.overall and window_of(plan).kind == ROWS:
        raise _wrong(plan, "TOP OVERALL ranks the matches of all keys in a window, but WINDOW n ROWS ends at a different time for each key. Write WINDOW INTERVAL '...'")
    if plan.compares_overall:
        message = "REPORT CHANGES beside TOP k OVERALL needs the windows of all keys, and over a stream a key does not know those of another. Leave OVERALL, PARTITION BY or REPORT CHANGES out"
        raise _wrong(plan, message, UNSUPPORTED)
    if plan.ranking.overall and Reach.of(plan).ahead:
        raise _wrong(plan, "TOP OVERALL ranks the matches of all keys in a window together, but NEXT waits for future rows of each key. Leave OVERALL or NEXT out")
    if strategy.question in ANSWERS and strategy.emission.numbers_asked:
        raise _wrong(plan, f"TOP of PROXY MATCHES with MATCH_NUMBER() in DEFINE {YET}", UNSUPPORTED)


def _families(plan: Plan) -> list[tuple[str, bool]]:
    """Clauses that do not stream: for each a message with reason and remedy, and whether the plan is such a clause."""
    approximate = plan.approximate
    return [
        (
            "MATCH HISTORY numbers bundles over all rows of all partitions, which a stream never has. Record it from a table of past rows, for example regularly in foreachBatch",
            approximate is not None and approximate.report == HISTORY,
        ),
        (
            "a condition with a Spark function over several rows needs whole partitions, which a stream does not have. Write upper(x) = upper(PREV(x)) instead of f(x, PREV(x)), "
            "or let a clause below return PREV(x) for each row: docs/streams.md, Functions of several rows", bool(plan.ordered_inputs),
        ),
        ("partitions of a stream cannot be cut into slices. Set sparkcep.slices to true", bool(plan.slice)),
    ]


def warnings(plan: Plan) -> list[str]:
    """Hints for the user about a clause that streams: state that may grow, and waits."""
    found = []
    window, ahead = _closing(plan), Reach.of(plan).ahead
    if plan.automaton is not None and plan.automaton.lifetime:
        found.append("the clause has LIFETIME TO: a row whose end is NULL is kept as long as a match in progress contains it")
    elif window.kind != MICROS and not plan.idle and plan.unfinished is not None:
        bound = "WINDOW n ROWS" if window.kind != NO_WINDOW else "no WINDOW"
        found.append(
            f"the clause has {bound}: an open match waits for future rows of its key. It is not reported, and its rows and all later ones are kept until then. "
            f"Add WINDOW INTERVAL '...', or set {IDLE}"
        )
    elif window.kind != MICROS and not plan.idle:
        bound = "WINDOW n ROWS" if window.kind != NO_WINDOW else "no WINDOW"
        found.append(f"the clause has {bound}: a match that may grow waits for future rows of its key, and its rows are kept until then. Add WINDOW INTERVAL '...', or set {IDLE}")
    if ahead and not plan.idle:
        found.append(f"NEXT reads {ahead} {'row' if ahead == 1 else 'rows'} after a match: the match waits for {'it' if ahead == 1 else 'them'}, regardless of WINDOW")
    return found


def _closing(plan: Plan) -> Window:
    """The window whose end the rows of a match wait for.

    Unfinished matches also time out at the end of WITHIN around the whole pattern.
    """
    around = [plan.windows[number] for number in unbounded(plan.pattern)[1]] if plan.unfinished is not None else []
    timed = [window for window in (window_of(plan), *around) if window.kind == MICROS]
    return min(timed, key=lambda window: Fraction(window.size), default=window_of(plan))


def kept(plan: Plan) -> list[str]:
    """The saved state of each key over a stream and how long each part of it lives, as lines for EXPLAIN."""
    window, (back, ahead) = _closing(plan), Reach.of(plan)
    ever = f"until the watermark is {_interval(plan.idle)} past the last row of the key" if plan.idle else "indefinitely"
    lines, strategy = ["rows later than the watermark, until it passes them"], placed_strategy(plan)
    emission = strategy.emission
    ranks = plan.ranking is not None and plan.ranking.top > 0
    searched_again = strategy.search == BUDGETED or (emission.resume == RECOMPUTE and not ranks)
    times = 2 if emission.looks_behind and not ranks else 1
    what = ("rows of the last two windows" if times > 1 else "rows of the last window") if searched_again else "rows of a match in progress"
    since = "them" if searched_again else "its first row"
    if plan.unfinished is not None:
        what, since = "rows from the first start row on that has an open match", "that row"
    if plan.automaton is not None and plan.automaton.lifetime:
        lines.append(f"{what}, until the watermark passes the end of its first row's lifetime")
    elif ranks:
        before = ", and rows of an equally long time before them" if emission.hides or emission.looks_before else ""
        waits = ", or that contain a row whose WINDOW has not ended" if emission.late else ""
        further = f", or that wait for {ahead} more {'row' if ahead == 1 else 'rows'} of the key after {'their WINDOW' if emission.late else 'them'}" if ahead else ""
        lines.append(f"rows of the windows that have not ended{waits}{further}{before}")
        if plan.ranking.changes is not None:
            lines.append("rows of the last emitted window, until the next window of the key is emitted: its list is compared with the next one")
    elif window.kind == MICROS:
        lines.append(f"{what}, until the watermark is {_interval(times * Fraction(window.size))} past {since}")
    elif window.kind == NO_WINDOW:
        lines.append(f"{what}, until rows of its key end it or the key is idle (without WINDOW)" if plan.idle else f"{what}, until rows of its key end it (without WINDOW)")
    else:
        lines.append(f"{what}, until {times * int(window.size)} rows of its key have arrived")
    if plan.unfinished is not None and plan.skip.mode != "next_row":
        lines.append("up to which of these rows unfinished matches were reported")
    if strategy.search == BUDGETED:
        lines += _kept_of_budget(plan, strategy, ever)
    if plan.automaton is not None and plan.automaton.expires:
        lines.append("for such a key, the time up to which its arcs ON EXPIRY were taken")
    if plan.arcs is not None:
        bounded = window.kind == MICROS and not plan.automaton.lifetime
        lines.append(f"for the whole query, its arcs, {'until no retained row can use them' if bounded else 'indefinitely'}")
    if plan.changes is not None:
        lines.append("the reported matches with rows later than the watermark, until it passes their last row")
        if plan.changes.punctuate:
            lines.append("the last punctuation of each value of PUNCTUATE BY, until the watermark passes it")
        if any(leaf.spec.kind == "change_number" for leaf in plan.leaves):
            lines.append(f"the number of the last change, {ever}")
    if strategy.question == BUNDLED:
        lines.append("the best match of a bundle, until no match point can join it")
    if back or ahead:
        lines.append(f"the last {'row' if back + ahead == 1 else f'{back + ahead} rows'}, which PREV and NEXT read, {ever}")
    if emission.numbers_asked or (plan.numbered and not ranks):  # ranked matches need no saved number: their numbers are their ranks
        lines.append(f"the number of the last match, {ever}")
    if emission.positions:
        lines.append(f"its number of rows, {ever}: positions count from its first row")
    if has(plan.pattern, "start"):
        lines.append(f"whether it had rows, {ever}: ^ matches only before the first")
    if plan.idle:
        lines.append("the time of the last row of each key with any of this state")
    return lines


def _kept_of_budget(plan: Plan, strategy: Strategy, ever: str) -> list[str]:
    approx, net = plan.approximate, strategy.automaton
    lines = ["which of these rows each partial match took, and what was left out at them, as long as these rows are kept"]
    if approx.report == ALL and plan.numbered:
        lines.append("matches that are found but not yet numbered, until no future match can begin before them")
    if approx.budget.history and not approx.budget.published:
        lines.append(f"how often each vector was tried and led to a match point, {ever}")
    if approx.budget.pace is not None and approx.budget.pace.per == "ROW":
        lines.append(f"how many checks fit the interval of the BUDGET, {ever}")
    if approx.budget.explore:
        lines.append(f"what agents have learned, {ever}")
    if approx.budget.refill is not None:
        kinds = {(net.places[e], min(net.at_cost[net.edges[e, E_TARGET]])) for e in net.taking()}
        most = len(kinds) * INTERVALS**2
        lines.append(f"the vectors that it has recorded for REFILL, and those that replaced the history, {ever}: with {INTERVALS} intervals at most {most:,} each, of 24 bytes and 16 for each of their bundles")
    return lines


_WORDS = {
    "pattern": "PATTERN", "variables": "PATTERN", "rows": "the rows returned for a match", "unfinished": "SHOW UNFINISHED or TIMEOUT MATCHES", "skip": "AFTER MATCH SKIP", "partition": "PARTITION BY",
    "order": "ORDER BY", "conditions": "DEFINE", "letters": "DEFINE", "selection": "EVENT SELECTION", "windows": "WINDOW", "without": "a negation", "approximate": "APPROX", "slide": "SLIDE", "automaton": "AUTOMATON",
    "arcs": "ARCS FROM", "idle": "sparkcep.stream.idleTimeout", "changes": "CHANGES IN, REPORT or SPECULATE", "equal_keys": "DEFINE", "case_sensitive": "spark.sql.caseSensitive", "ansi": "spark.sql.ansi.enabled",
}


def different(before: dict, now: dict, texts_before: dict, texts: dict) -> list[str]:
    """The differences between two plans that prevent the second from resuming from the state of the first, in the clause's words.

    Args:
        before: the first plan, as JSON.
        now: the second plan, as JSON.
        texts_before: the expressions that Spark computes of each row in the first plan, by column. The text of NEEDED is missing or
            ALL_NEEDED if all rows reach the search.
        texts: the same expressions in the second plan.
    """
    found = [word for name, word in _WORDS.items() if (_placeless(before.get(name)) or None) != (_placeless(now.get(name)) or None)]  # an empty member may be missing
    changed = {name: spoken(text) for name, text in texts.items() if name != NEEDED and plainest(texts_before.get(name, "")) != plainest(text)}
    values = [name for name, text in changed.items() if not text.startswith(FAILS)]
    for name in values or changed:  # the column that says whether an expression fails differs with its values
        was = texts_before.get(name)
        found.append("DEFINE" if name == LETTERS else f"values that are {changed[name]}" + (f" and were {spoken(was)}" if was else ""))
    if before.get("precision_loss", True) != now.get("precision_loss", True):
        found.append("spark.sql.decimalOperations.allowPrecisionLoss")
    was = before.get("zone")
    if was is not None and not have_same_rules(was, now.get("zone", "UTC")):  # None: an older version did not write it
        found.append("spark.sql.session.timeZone")
    if bool(_top(before)) != bool(_top(now)):
        found.append("TOP")
    elif _ranks_together(now) and not _ranks_together(before):  # the state lacks positions, and a window may be emitted for some keys only
        found.append("OVERALL")
    if _compares(before) != _compares(now):
        found.append("REPORT CHANGES")
    elif _compares(now) and _top(before) != _top(now):
        found.append("TOP")
    elif _compares(now) and _listed(before, before) != _listed(now, before):
        found.append("MEASURES or PREF, with rows already reported under REPORT CHANGES")
    if _numbered(now) and not _numbered(before):
        found.append("MATCH_NUMBER()")
    found += [word for kind, word in _REPORTED.items() if kind in _kinds(before) ^ _kinds(now) and (kind in ("cnt", "graph") or kind in _kinds(now))]
    if _paced(now) and "allowed" in _kinds(before) ^ _kinds(now):  # a list of the state
        found.append("CHECKS_ALLOWED()")
    if now.get("changes") and _placeless(before.get("leaves")) != _placeless(now.get("leaves")):
        found.append("MEASURES, with rows already reported under REPORT CHANGES")
    reach, reached = _around(now), _around(before)
    dropped = texts_before.get(NEEDED, ALL_NEEDED) != ALL_NEEDED  # rows that no variable accepts
    strategy = functools.cache(lambda: placed_strategy(Plan.from_json(json.dumps(now))))  # only few differences need it
    if any(reach) and not any(reached) and (dropped or _saves_gaps(strategy())):
        found.append("whether PREV and NEXT in MEASURES read neighbouring rows")
    if _back(now, now) > _back(before, now) or (reach.back > reached.back and _isolates(strategy())):  # the state lacks these rows
        found.append("how many rows PREV reads before a match")
    if reach.ahead > reached.ahead and _holds_matches(strategy()):  # these matches did not wait for the rows
        found.append("how many rows NEXT reads after a match")
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


def _ranks_together(plan: dict) -> bool:
    """Whether a plan ranks the matches of all keys together."""
    return bool((plan.get("ranking") or {}).get("overall") and plan.get("partition"))


def _compares(plan: dict) -> bool:
    """Whether a plan compares the lists of TOP k."""
    return (plan.get("ranking") or {}).get("changes") is not None


def _listed(plan: dict, before: dict) -> list:
    """The values in the lists of TOP k and their ranking, as far as the plan ``before`` has them.

    Older versions did not store the texts that Spark computes of leaves.
    """
    computed = {name: plan["ranking"][name] for name in ("objectives", "score", "order")}
    texts = [*computed["objectives"], computed["score"], *computed["order"], *(output["text"] for output in plan["outputs"])]
    rest = {name: value for name, value in plan["ranking"].items() if name not in ("place", "overall", *computed)}  # OVERALL is compared apart
    if rest.get("terms"):
        rest.pop("scored", None)  # how the terms are added, which older versions did not write
    return [_placeless(plan["leaves"]), _placeless(rest), [plainest(text) for text in texts] if before["ranking"]["score"] else []]


def _kinds(plan: dict) -> set[str]:
    return {leaf["spec"]["kind"] for leaf in plan.get("leaves", ())}


def _paced(plan: dict) -> bool:
    """Whether a BUDGET limits time."""
    return bool(((plan.get("approximate") or {}).get("budget") or {}).get("pace"))


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


def _around(plan: dict) -> Reach:
    """The rows that a plan's measures reach, see :meth:`Reach.of_measures`."""
    found = [leaf["spec"].get("physical", 0) for leaf in plan.get("leaves", ()) if leaf["spec"]["kind"] in ("nav", "cls")]
    return Reach(max([0, *(-rows for rows in found)]), max([0, *found]))


def _saves_gaps(strategy: Strategy) -> bool:
    """Whether the saved rows have gaps between them unless measures read neighbours."""
    return strategy.search == PROXIES or (strategy.search == BUDGETED and strategy.question == BUNDLED)


def _isolates(strategy: Strategy) -> bool:
    """Whether the rows of a bundle's best match are saved with only those neighbours that measures read."""
    return strategy.question == BUNDLED and strategy.search not in (PROXIES, BUDGETED)


def _holds_matches(strategy: Strategy) -> bool:
    """Whether the state has matches: those of bundles, and those that wait for their numbers under a BUDGET."""
    return strategy.question == BUNDLED or (strategy.search == BUDGETED and strategy.question == EVERY and strategy.plan.numbered)


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
