"""SHOW UNFINISHED MATCHES and SHOW TIMEOUT MATCHES: what they may be combined with, and the clock of a table.

The clock is the latest time of the whole input, or that of AS OF. A window of an unfinished match that ends by then has ended. It
arrives as an input column with one value in all rows. Without AS OF the rewriter computes it with a second read of the input
(:func:`clock_text`), or leaves it NULL if no output depends on it (:func:`clock_matters`).
"""

from __future__ import annotations

from sparkcep.clause import nodes, tree
from sparkcep.clause.tokens import Token, matching, name_of, tokenize
from sparkcep.clause.tree import MatchClause
from sparkcep.errors import SYNTAX, UNSUPPORTED, ClauseError, position
from sparkcep.plan.options import MICROS, NUMBER, selection
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Computed, Unfinished, has
from sparkcep.plan.scope import RANDOM, Scope

CLOCK = "__clock"  # the input column with the clock
_VALUES = frozenset("CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP".split())  # values that are written like columns


def check_unfinished(clause: MatchClause, shown: tree.Unfinished) -> None:
    """Raises ClauseError for options that exclude unfinished matches."""
    what = f"SHOW {shown.what} MATCHES"
    conjoined = next((n for n in nodes.walk(clause.pattern) if isinstance(n, nodes.Conjunct)), None)
    window = clause.window
    refused = [
        (clause.automaton, f"{what} cannot be used with AUTOMATON. A state that ends a run is an arc, or ON EXPIRY"),
        (clause.approx, f"{what} cannot be used with APPROX. APPROX k finds the matches that lack at most k rows"),
        (clause.pref, f"{what} cannot be used with PREF, because an unfinished match lacks a score. Leave one of them out"),
        (clause.top, f"{what} cannot be used with TOP, because an unfinished match lacks a rank. Leave one of them out"),
        (window if window is not None and window.slide is not None else None, f"{what} cannot be used with SLIDE. Leave SLIDE out"),
        (clause.changes, f"{what} cannot be used with CHANGES IN. Leave one of them out"),
        (clause.report, f"{what} cannot be used with REPORT. Leave one of them out"),
        (conjoined, f"{what} cannot be used with a conjunction &. Write the orders as alternatives, as in (A B | B A)"),
    ]
    for option, message in refused:
        if option is not None:
            raise clause.error(option.span, "UNFINISHED", message, UNSUPPORTED)
    if (chosen := selection(clause)) is not None and chosen.report == "ALL":
        at = clause.selection.span if clause.selection is not None else shown.span
        message = f"{what} cannot be used with ALL MATCHES (the default of SKIP TILL ANY MATCH). Write FIRST MATCH: each start row has one unfinished match"
        raise clause.error(at, "UNFINISHED", message, UNSUPPORTED)
    if shown.what == "TIMEOUT" and window is None and not nodes.contains(clause.pattern, nodes.Within):
        raise clause.error(shown.span, "UNFINISHED", "without WINDOW or WITHIN no match times out. Add WINDOW size, or write SHOW UNFINISHED MATCHES", SYNTAX)


def unfinished_of(clause: MatchClause, plan: Plan) -> Unfinished:
    """The option as a record."""
    shown = clause.unfinished
    assert shown is not None
    timed = any(window.kind in (MICROS, NUMBER) for window in plan.windows)
    if shown.as_of is not None:
        if not timed:
            raise clause.error(shown.as_of.span, "UNFINISHED", "AS OF says which windows have ended, but no window is measured in time. Add WINDOW INTERVAL '...', or leave AS OF out", SYNTAX)
        for node in shown.as_of.walk():
            if node.op == "col" and node.span.of(clause.text).upper() not in _VALUES:
                message = f"AS OF takes a constant, such as current_timestamp(), but {node.span.of(clause.text)} is a column. Write a constant"
                raise clause.error(node.span, "UNFINISHED", message, SYNTAX)
        if found := _unrepeatable(tokenize(shown.as_of.span.of(clause.text))):
            message = f"AS OF is one time for all rows, but {found} may give another value for each row. Write a constant, such as current_timestamp()"
            raise clause.error(shown.as_of.span, "UNFINISHED", message, SYNTAX)
    order = plan.order[0].column if plan.order else ""
    place = position(clause.text, shown.span.start)
    return Unfinished(shown.what, order, CLOCK if timed else "", shown.as_of is not None, *place, shown.span.of(clause.text).split("\n")[0][:40])


def clock_columns(clause: MatchClause, plan: Plan, scope: Scope) -> tuple[Computed, ...]:
    """The input column with the clock, if the clause needs it. Its text is empty for a second read of the input."""
    if plan.unfinished is None or not plan.unfinished.clock:
        return ()
    as_of = clause.unfinished.as_of if clause.unfinished is not None else None
    return (Computed(CLOCK, "" if as_of is None else scope.plain_text(as_of, "AS OF")),)


def clock_matters(plan: Plan) -> bool:
    """Whether the output depends on the clock.

    Without negations and windows of groups, all runs of a start row end with one window. If rows between are ignored, none of them
    breaks, unless the pattern has ``$``. Then the clock says only how and when they end.
    """
    shown, chosen = plan.unfinished, plan.selection
    assert shown is not None and chosen is not None
    asked = {leaf.spec.kind for leaf in plan.leaves}
    breaks = chosen.strategy == "STRICT" or bool(plan.without) or has(plan.pattern, "not") or has(plan.pattern, "end")
    return shown.report == "TIMEOUT" or len(plan.windows) > 1 or breaks or not asked.isdisjoint({"status", "ended"})


def unread_clock_columns(plan: Plan, columns: tuple[Computed, ...]) -> tuple[Computed, ...]:
    """The input column with a clock that is NULL, of the type of the order. ``columns``: the other columns."""
    assert plan.unfinished is not None
    return (Computed(CLOCK, f"IF(true, NULL, {dict(columns)[plan.unfinished.order]})"),) if plan.unfinished.clock else ()


def later_rows(clause: MatchClause, plan: Plan, columns: tuple[Computed, ...], scope: Scope) -> tuple[str, ...]:
    """The condition of rows after AS OF, which are part of the clock of their partition. () without AS OF."""
    shown = clause.unfinished
    if plan.unfinished is None or shown is None or shown.as_of is None:
        return ()
    after = "<" if plan.order[0].descending else ">"
    return (f"{dict(columns)[plan.unfinished.order]} {after} ({scope.plain_text(shown.as_of, 'AS OF')})",)


def clock_text(plan: Plan, source: str) -> str:
    """SQL of the clock: AS OF in the type that it has in common with the order, or the latest time of the input ``source``."""
    shown, texts = plan.unfinished, dict(plan.inputs)
    assert shown is not None
    if texts[CLOCK]:
        return f"IF(true, {texts[CLOCK]}, {texts[shown.order]})"
    latest = "min" if plan.order[0].descending else "max"
    return f"(SELECT {latest}({texts[shown.order]}) FROM {source})"


def check_second_read(plan: Plan, table: list[Token]) -> None:
    """Raises ClauseError if a second read of the input for the clock may give other rows. ``table``: the input's tokens."""
    shown = plan.unfinished
    if shown is not None and dict(plan.inputs).get(CLOCK) == "" and (found := _unrepeatable(table)):
        message = f"without AS OF the input is read a second time for its latest time, but {found} may give other rows then. Add AS OF time after MATCHES"
        raise ClauseError("UNFINISHED", message, sqlstate=UNSUPPORTED, line=shown.line, column=shown.column, fragment=shown.text)


def _unrepeatable(tokens: list[Token]) -> str:
    """The first random function among the tokens of a query, or its first sample without REPEATABLE; "" without either."""
    calls = [(i, token) for i, token in enumerate(tokens[:-1]) if tokens[i + 1].text == "("]
    random = (name_of(token) for _, token in calls if name_of(token).upper() in RANDOM)
    close, words = matching(tokens), [*(token.upper for token in tokens), ""]
    samples = (token.text for i, token in calls if token.upper == "TABLESAMPLE" and words[close[i + 1] + 1] != "REPEATABLE")
    return next(random, "") or next(samples, "")


def unread_clock(plan: Plan) -> ClauseError:
    """The error of a clause text whose input cannot be read a second time."""
    shown = plan.unfinished
    assert shown is not None
    message = "match_recognize with the text of a clause cannot read its input a second time for its latest time. Add AS OF time after MATCHES, or write the clause in spark.sql"
    return ClauseError("UNFINISHED", message, sqlstate=UNSUPPORTED, line=shown.line, column=shown.column, fragment=shown.text)
