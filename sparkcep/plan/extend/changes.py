"""CHANGES IN, REPORT and SPECULATE: checks them, and makes the columns that Spark computes for them.

``plan/build`` calls it. Spark numbers rows by two windows over a partition: by equality in all columns that a retraction compares,
and by arrival. So every type that Spark can order is compared by Spark's rules, and the engine sees whole numbers. REPORT CHANGES
without ARRIVAL BY is for streams, whose rows come in their own order. There the engine sees the values.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from sparkcep.clause import nodes
from sparkcep.clause.expressions import Expr
from sparkcep.clause.tokens import Span, quote
from sparkcep.clause.tree import NEXT_ROW, ONE_ROW, WITH_UNMATCHED, MatchClause
from sparkcep.errors import SEMANTIC, ClauseError, position
from sparkcep.plan.extend.arcs import ARRIVED
from sparkcep.plan.options import MICROS, NUMBER, selection, window_size
from sparkcep.plan.records import TIME, Changes, Window
from sparkcep.plan.scope import CHANGED, ENDINGS, SLIDING, Inputs, Scope, without_table

ALL_COLUMNS = "__all"  # field of the struct that a retraction compares; it makes the struct non-empty and identifies its errors


def reports_changes(clause: MatchClause) -> bool:
    """Whether the clause returns a changelog instead of the matches of the remaining rows."""
    return clause.report is not None and clause.report.what == "CHANGES"


def reports_lists(clause: MatchClause) -> bool:
    """Whether the clause reports how the list of TOP k changes from window to window."""
    return reports_changes(clause) and clause.changes is None and clause.top is not None and clause.automaton is None


class Reported(NamedTuple):
    """REPORT CHANGES, as measures need it.

    Attributes:
        arrival: the expression of CHANGED_BY(). Over a stream CHANGED_BY() is rejected.
        arrived: the input column with ``arrival``, "" if not known.
        punctuated: whether punctuations are among the output rows (WITH PUNCTUATIONS).
    """

    arrival: Expr
    arrived: str
    punctuated: bool


def reported(clause: MatchClause, arrived: str = "") -> Reported | None:
    """REPORT CHANGES of a clause with CHANGES IN, None without it. ``arrived``: see :class:`Reported`."""
    if clause.changes is None or not reports_changes(clause):
        return None
    return Reported(clause.changes.arrival[0] if clause.changes.arrival else clause.changes.column, arrived, clause.report.punctuations)


def check_changes(clause: MatchClause) -> None:
    """Raises ClauseError for options of changes that cannot be combined, at their places."""
    changes, speculate = clause.changes, clause.speculate
    if changes is not None and changes.column.bare().op != "col":
        raise _error(clause, changes.column.span, "CHANGES IN takes a column of the table, with the values 'insert', 'retract' or 'punctuate'. Compute it below the clause")
    if changes is not None and changes.punctuate is not None and not changes.arrival and not reports_changes(clause):
        message = "PUNCTUATE BY limits a punctuation to some of the later rows, so it needs an order of the changes. Add ARRIVAL BY expr to CHANGES IN (over a stream REPORT CHANGES)"
        raise _error(clause, changes.punctuate.span, message)
    if speculate is not None and not reports_changes(clause):
        raise _error(clause, speculate.span, "SPECULATE selects the changes that REPORT CHANGES reports early. Add REPORT CHANGES, or leave SPECULATE out")
    if not reports_changes(clause):
        if clause.report is not None and clause.report.punctuations:
            raise _error(clause, clause.report.span, "REPORT NET returns the matches at the end of the input, after all punctuations. Write REPORT CHANGES WITH PUNCTUATIONS, or leave WITH PUNCTUATIONS out")
        return
    _check_punctuations(clause)
    if changes is None:
        raise _error(clause, clause.report.span, "REPORT CHANGES reports how each change of a row changes the matches. Add CHANGES IN c ARRIVAL BY a to describe the changes of rows")
    for call in (n for m in clause.measures for n in m.expr.walk() if n.op == "call" and n.value == "CHANGED_BY" and not changes.arrival):
        raise _error(clause, call.span, "CHANGED_BY() returns the ARRIVAL BY expression of the row that caused a change. Add ARRIVAL BY to CHANGES IN, or leave CHANGED_BY() out")
    if clause.rows == WITH_UNMATCHED:
        raise _error(clause, clause.report.span, "an unmatched row may be in a match later, so WITH UNMATCHED ROWS needs REPORT NET")
    if clause.measures and not any(call.value == "CHANGE" for m in clause.measures for call in m.expr.walk() if call.op == "call" and not call.args):
        raise _error(clause, clause.measures[0].expr.span, "under REPORT CHANGES each output row is an insertion or a retraction. Add the measure CHANGE() AS change")
    for call in (n for m in clause.measures for n in m.expr.walk() if n.op == "call" and n.value in ("PREV", "NEXT")):
        raise _error(clause, call.span, f"under REPORT CHANGES {call.value} cannot read rows around a match, because they can change when the match does not. Use FIRST, LAST or an aggregate")


def _check_punctuations(clause: MatchClause) -> None:
    """Raises ClauseError if WITH PUNCTUATIONS and the measures do not fit, at the place of the cause."""
    calls = [n for m in clause.measures for n in m.expr.walk() if n.op == "call" and n.value == "PUNCTUATION" and not n.args]
    if not clause.report.punctuations:
        if calls:
            raise _error(clause, calls[0].span, "PUNCTUATION() returns the time of a punctuation among the output rows. Write REPORT CHANGES WITH PUNCTUATIONS, or leave PUNCTUATION() out")
        return
    if clause.rows != ONE_ROW:
        raise _error(clause, clause.report.span, "a punctuation among the output rows is not a row of a match, so WITH PUNCTUATIONS needs ONE ROW PER MATCH")
    if clause.measures and not calls:
        raise _error(clause, clause.report.span, "WITH PUNCTUATIONS adds output rows that only have the time of a punctuation. Add the measure PUNCTUATION() AS punctuation, or leave WITH PUNCTUATIONS out")


def _check_lists(clause: MatchClause) -> None:
    """Raises ClauseError if REPORT CHANGES cannot compare the lists of TOP k, at the place of the cause."""
    window, of = clause.window, "REPORT CHANGES beside TOP k"

    def fail(span: Span, message: str, state: str = SEMANTIC) -> ClauseError:
        return clause.error(span, "TOP", message, state)

    if clause.speculate is not None:
        raise fail(clause.speculate.span, "SPECULATE selects the changes of rows that are reported early, and TOP k ranks the rows of whole windows. Leave SPECULATE out")
    if clause.report.punctuations:
        raise fail(clause.report.span, f"{of} does not return punctuations, because each window is compared once. Leave WITH PUNCTUATIONS out")
    if window is None or window.slide is None:
        raise fail(clause.report.span, f"{of} compares the lists of sliding windows. Add SLIDE after WINDOW, or leave REPORT CHANGES out")
    if clause.rows != ONE_ROW:
        raise fail(clause.report.span, f"{of} returns one row for each change of the list. Write ONE ROW PER MATCH")
    if clause.order_by and clause.order_by[0].descending:
        raise fail(clause.order_by[0].expr.span, f"{of} follows the windows from the first to the last, so the first ORDER BY expression must ascend. Leave DESC out")
    calls = [call for measure in clause.measures for call in measure.expr.walk() if call.op == "call" and not call.args]
    if not any(call.value == "CHANGE" for call in calls):
        at = clause.measures[0].expr.span if clause.measures else clause.report.span
        raise fail(at, f"with {of} each output row is inserted into the list or retracted from it. Add the measure CHANGE() AS change")
    alone = {id(measure.expr.bare()) for measure in clause.measures}
    objectives = [expr for pref in (clause.pref, *(sequence.pref for sequence in clause.sequences)) if pref is not None for _, expr in pref.objectives]
    ranked = [node for expr in objectives for node in expr.walk() if node.op == "call" and not node.args]
    for call in (call for call in ranked if call.value == "CHANGE"):
        raise fail(call.span, f"{of} compares lists that are ranked already, so PREF cannot use CHANGE(). Leave it out of PREF")
    for call in (*calls, *ranked):
        if call.value in SLIDING and id(call) not in alone:
            message = f"with {of}, {call.value}() is the window of the change, so it must be a measure of its own. Write {call.value}() AS w, and compute with w in a query around the clause"
            raise fail(call.span, message)
    for call in calls:
        if call.value in CHANGED and call.value != "CHANGE":
            raise fail(call.span, f"{call.value}() describes changes of rows, and {of} compares lists of windows. Leave it out, or write WINDOW_START() for the window of the change")


_NOT_OF_A_COMPUTATION = {
    nodes.Conjunct: "a conjunction & cannot be used. Write its sides one after the other, in each order",
    nodes.Not: "~ cannot be used, because it depends on the finished match. Compare in the condition of the next variable, or write an AUTOMATON",
    nodes.Start: "^ cannot be used, because a row may arrive before the first one. Leave ^ out",
    nodes.End: "$ cannot be used, because a row may arrive after the last one. Leave $ out",
    nodes.Exclude: "an exclusion {- -} cannot be used. Leave the braces out, and filter the rows of the output",
    nodes.Within: "a group cannot have its own window. Use WINDOW for the whole match instead of WITHIN",
}


def check_pattern_changes(clause: MatchClause) -> None:
    """Raises ClauseError if a PATTERN cannot be matched over inserted and deleted rows, at the place of the cause."""
    if reports_lists(clause):
        return _check_lists(clause)
    check_changes(clause)
    if clause.changes is None:
        raise _error(clause, clause.report.span, "REPORT NET needs inserted and retracted rows. Add CHANGES IN c, or leave REPORT NET out")
    check_computations(clause, "with CHANGES IN")


def check_computations(clause: MatchClause, where: str) -> None:
    """Raises ClauseError if the matches of a PATTERN are not an automaton's computations.

    ``where``: the option that needs this, as a phrase for the message.
    """
    chosen = selection(clause)
    at = clause.changes.span if clause.changes is not None else clause.pattern.span
    if chosen is None or chosen.report != "ALL":
        found = clause.selection.span if clause.selection is not None else at
        message = f"{where} all matches are reported, without a preferred one. Write EVENT SELECTION STRICT CONTIGUITY ALL MATCHES (or SKIP TILL ...)"
        raise _error(clause, found, message)
    for words, part in (("APPROX", clause.approx), ("PREF", clause.pref), ("TOP", clause.top)):
        if part is not None:
            raise _error(clause, part.span, f"{words} compares matches with each other, but {where} each match is independent. Leave {words} out")
    if clause.skip is not None and clause.skip.mode != NEXT_ROW:
        raise _error(clause, clause.skip.span, f"{where} all matches are reported, so AFTER MATCH cannot skip any. Write AFTER MATCH SKIP TO NEXT ROW")
    for node in nodes.walk(clause.pattern):
        if type(node) in _NOT_OF_A_COMPUTATION:
            raise _error(clause, node.span, f"{where} {_NOT_OF_A_COMPUTATION[type(node)]}")
    if not clause.order_by:
        raise clause.error(at, "WINDOW_WITHOUT_ORDER", f"{where} the clause needs ORDER BY, with the time of the rows as its first expression")
    if clause.order_by[0].descending:
        raise _error(clause, clause.order_by[0].expr.span, f"{where} the first ORDER BY expression is the time of the rows and must ascend. Leave DESC out")
    if clause.window is not None and (clause.window.rows or clause.window.slide is not None):
        what = "SLIDE ranks the matches of windows" if clause.window.slide is not None else "a WINDOW of ROWS counts rows, which are inserted and retracted"
        raise _error(clause, clause.window.span, f"{what}, but {where} a WINDOW must be a length of time")
    for call in (n for m in clause.measures for n in m.expr.walk() if n.op == "call" and n.value in ("MATCH_NUMBER", *ENDINGS)):
        raise _error(clause, call.span, f"{call.value}() needs matches in the order of a PATTERN, and {where} they are reported in another order. Leave it out (CHANGE_NUMBER() counts the output rows of REPORT CHANGES)")


def _error(clause: MatchClause, span: Span, message: str) -> ClauseError:
    return clause.error(span, "AUTOMATON", message, SEMANTIC)


def changes_of(clause: MatchClause, scope: Scope, inputs: Inputs, case_sensitive: bool, *, arcs_arrive: bool = False) -> Changes | None:
    """The record of a clause's checked CHANGES IN, with the columns that Spark computes for it.

    ``case_sensitive``: whether a and A are two columns. ``arcs_arrive``: whether rows and arcs are numbered together by their
    arrival, once they are in one input.
    """
    changes = clause.changes
    if changes is None:
        return None
    column = scope.plain_text(changes.column, "CHANGES IN")
    arrival = [scope.plain_text(expr, "ARRIVAL BY") for expr in changes.arrival]
    keys = ", ".join(f"({scope.plain_text(expr, 'PARTITION BY')})" for expr in clause.partition_by)
    over = f"PARTITION BY {keys} ORDER BY" if keys else "ORDER BY"
    turn = f"CASE lower({column}) WHEN 'retract' THEN 1 WHEN 'punctuate' THEN 2 ELSE 0 END"
    same = compared_values(clause, scope, case_sensitive)
    if arrival or not reports_changes(clause):  # otherwise the rows come from a stream, where Spark cannot number them
        same = f"dense_rank() OVER ({over} {same})"
    speculate, size = _speculated(clause)
    punctuate = "" if changes.punctuate is None else inputs.column(scope.plain_text(changes.punctuate, "PUNCTUATE BY"))
    consecutive = "" if changes.consecutive is None else inputs.column(scope.plain_text(changes.consecutive, "CONSECUTIVE BY"))
    return Changes(
        column=inputs.column(column),
        same=inputs.column(same),
        arrival=ARRIVED if arcs_arrive else inputs.column(f"dense_rank() OVER ({over} {', '.join([*arrival, turn])})") if arrival else "",
        consecutive=consecutive,
        punctuate=punctuate,
        report="CHANGES" if reports_changes(clause) else "NET",
        speculate=speculate,
        size=size,
        came=tuple(map(inputs.column, arrival)) if clause.partition_by else (),
        **dict(zip(("line", "column_at"), position(clause.text, changes.span.start))),
        text=changes.span.of(clause.text).split("\n")[0][:40],
        time=TIME,
    )


def compared_values(clause: MatchClause, scope: Scope, case_sensitive: bool) -> str:
    """SQL text of the values that identify a row, for retractions and for MATCH_ID().

    These are all columns of the table except those of CHANGES IN and ARRIVAL BY. ``case_sensitive``: whether a and A are two
    columns.
    """
    left_out: dict[tuple[str, ...], str] = {}
    for expr in (clause.changes.column, *clause.changes.arrival):
        for node in scope.columns(expr):
            if node.op == "col":
                own = without_table(node.value, scope.tables)
                left_out.setdefault(tuple(own) if case_sensitive else tuple(map(str.lower, own)), ".".join(map(quote, own)))
    return f"struct(0 AS {ALL_COLUMNS}, * EXCEPT ({', '.join(left_out.values())}))"


def _speculated(clause: MatchClause) -> tuple[str, Window | None]:
    """How early matches are emitted: ALL, NONE or SIZE, and the size. A size of 0 is NONE."""
    if clause.speculate is None:
        return "ALL", None
    size = clause.speculate.size
    if size is None:
        return clause.speculate.what, None
    kind, amount = window_size(clause, size, False, zero=True)
    assert kind in (MICROS, NUMBER)
    if not Fraction(amount):
        return "NONE", None
    return clause.speculate.what, Window(kind, amount, TIME, *position(clause.text, size.span.start), size.span.of(clause.text)[:40])
