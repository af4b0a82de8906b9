"""Answers where rows of a match need not be adjacent, where all matches are reported, or where the pattern has ``&``.

:mod:`sparkcep.tracing.answers.explain` writes the answers and asks here for the parts that differ from those of adjacent rows: why
a run found no later row, and why a match passes over a row. Under ``p & q`` the matches are those of the engine. Each side is
explained by itself, then the rows that fit all sides. The trace of a side is verified like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from sparkcep.clause.tree import PAST_LAST
from sparkcep.errors import SEMANTIC, ClauseError
from sparkcep.plan.facts import unbounded
from sparkcep.tracing.answers.answer import Why
from sparkcep.tracing.answers.change import closest
from sparkcep.tracing.answers.differs import unconfirmed
from sparkcep.tracing.answers.reasons import Reason, unplaced
from sparkcep.tracing.answers.values import counted, no_match, row_spans
from sparkcep.tracing.answers.writer import Writer
from sparkcep.tracing.conditions.question import WHY
from sparkcep.tracing.rows.frozen import FrozenRows
from sparkcep.tracing.rows.sides import MOST_SIDES, MOST_WAYS, Side, begins_outside, best_combined, combines, sides_of
from sparkcep.tracing.search.moves import ANY, STRICT
from sparkcep.tracing.search.program import Option
from sparkcep.tracing.search.runs import Ended, Node, Run
from sparkcep.tracing.search.trace import (
    FAILS,
    MATCHES,
    OUT_OF_REACH,
    REFUSED,
    Decision,
    Effort,
    Found,
    Match,
    Search,
    Trace,
    farthest_of,
)

MOST_MATCHES = 10  # with a row that are listed
MOST_ROWS = 10  # rows between the first and the last row of a match of ALL MATCHES whose conditions are shown
_NOT_PASSED = "SKIP TILL NEXT MATCH does not pass over an earlier row that the pattern takes"


class Skipping:
    """Writes the parts of an answer that depend on the event selection."""

    def __init__(self, writer: Writer) -> None:
        self.writer, self.trace = writer, writer.trace
        self.adjacent = self.trace.pattern.strategy == STRICT

    # -- why a run ended --------------------------------------------------------------------------------------

    def ended(self, search: Search, ended: Ended, indent: str) -> list[str] | None:
        """Why no later row goes on after a run; None if no later row is looked at."""
        if self.adjacent or not ended.rows:
            return None
        beyond = search.beyond(ended)
        later = max((list(search.later(node)) for node, _ in beyond), key=len, default=[])
        blocked = self._blocked(search, ended, indent)
        if not later:
            return blocked or None
        writer, question = self.writer, self.writer.question
        where, stop = row_spans(later), search.moving.later(beyond[0][0]).stop
        if bound := _bound(later, stop):
            where += bound
        elif stop < writer.rows.count:
            reason = search.pattern.windows.refused(0, ended.start, stop)
            where += f"; {writer.outside(0, ended.start, stop, reason, 'the next row')}"
        lines = [f"{indent}It ended because no later row goes on ({where}). The pattern lets come next:"]
        options = [(node, option) for node, option in beyond if option.kind == "row"]
        spots = {spot.variable: spot for spot in closest(writer.rows, search, ended)}
        if spots or not blocked:
            lines = [*blocked, *lines]
        else:
            lines = blocked
            options = []
        for variable in dict.fromkeys(option.variable for _, option in options):
            name, spot = question.name(variable), spots.get(variable)
            if spot is not None:
                writer.reasons.append(writer.of_condition(variable, ended, spot.row))
                lines.append(f"{indent}  {name}  refused by {counted(spot.refused, 'row')}, {'here' if spot.refused == 1 else 'closest'} {writer.row(spot.row)}:")
                lines += writer.condition("next", ended, variable, f"{indent}    ", row=spot.row)
                continue
            node, option = next((node, option) for node, option in options if option.variable == variable)
            reason = search.refused(node, option, later[0])
            writer.reasons.append(Reason(reason, later[0] + 1, ended.start + 1, name))
            if reason != "NEGATION":
                lines.append(f"{indent}  {name}  {writer.row(later[0])}: {writer.group(search, option, later[0], reason)}")
        for _, option in beyond:
            if option.kind == "anchor":
                writer.reasons.append(Reason("ANCHOR", ended.row + 1, ended.start + 1))
                lines.append(f"{indent}  {writer.anchor(option, ended.row)}")
        return lines

    def _blocked(self, search: Search, ended: Ended, indent: str) -> list[str]:
        """The negations that forbid a run to end as a match, or to take a row that a variable would take."""
        lines: list[str] = []
        seen: set[int] = set()
        nodes = search.states(tuple(zip(ended.rows, ended.variables, strict=True))) if self.trace.pattern.negations else []
        for node in nodes:
            for option in search.options(node):
                rows = [node.row] if option.kind == "end" else search.later(node) if option.kind == "row" else []
                row = next((row for row in rows if search.refused(node, option, row) == "NEGATION"), None)
                if row is None or option.variable in seen:
                    continue
                seen.add(option.variable)
                if option.kind == "end":
                    head = f"{indent}{row_spans(ended.rows)} would match, but".replace("row", "Row", 1)
                else:
                    head = f"{indent}{self.writer.question.name(option.variable)} would take {self.writer.row(row)}, but"
                lines += self.forbidden(search, node, option, row, head, f"{indent}  ")
        return lines

    def forbidden(self, search: Search, node: Node, option: Option, row: int, head: str, indent: str) -> list[str]:
        """The rows that a negation forbids, with the conditions that they fulfil."""
        writer, found = self.writer, search.violation(node, option, row)
        if found is None:
            return []
        where = row_spans(range(found.after + 1, found.before))
        lines = [f"{head} {found.negation.text} looks at {where} and forbids {row_spans(found.taken.rows)}:"]
        before = Run(found.taken.start, found.taken.number)
        for one in found.taken.taken():
            writer.reasons.append(Reason("NEGATION", one.row + 1, search.start + 1, writer.question.name(one.variable)))
            name = f"{writer.question.name(one.variable)}  "
            shown = Ended(search.start, search.number, (), (), (), (), 0, 0)
            lines += writer.condition("negated", shown, one.variable, indent, name, row=one.row, judged=writer.rows.judged(found.run, before))
            before = one
        return lines

    def refused_later(self, row: int) -> list[str]:
        """The farthest run of an earlier start row that could have taken a row, with the conditions that refuse the row."""
        if self.adjacent:
            return []
        earlier = (search for start, search in self.trace.searches.items() if start < row)
        best = farthest_of(earlier, fits=lambda search, ended: bool(ended.rows) and any(row in search.later(node) for node, _ in search.beyond(ended)))
        if best is None:
            return []
        search, ended = best
        writer, lines, seen = self.writer, [], set()
        for node, option in search.beyond(ended):
            if option.kind == "row" and option.variable not in seen and search.refused(node, option, row) == "CONDITION":
                seen.add(option.variable)
                writer.reasons.append(writer.of_condition(option.variable, ended, row))
                lines += writer.condition("next", ended, option.variable, "  ", f"{writer.question.name(option.variable)}  ", row=row)
        return [f"As a later row: the run of {row_spans(ended.rows)} ({writer.labels(ended.variables)}) does not take it:", *lines] if lines else []

    # -- rows that are passed over ------------------------------------------------------------------------------

    def rule(self, search: Search, row: int) -> str:
        """The rule of event selection that lets the first match pass over a row."""
        if self.trace.pattern.strategy == ANY:
            return "SKIP TILL ANY MATCH may pass over any row"
        node = next(node for node, move in search.path if node.row <= row < move.row)
        again = search.program.begin_again(node.state)
        if again is None:
            return "SKIP TILL NEXT MATCH passes over a row that no variable takes that may come next"
        names = " or ".join(dict.fromkeys(self.writer.question.name(option.variable) for option in again if option.kind == "row"))
        return f"SKIP TILL NEXT MATCH may pass over a row that cannot begin a quantified part again ({names})"

    def passed_over(self, row: int) -> list[str]:
        """Why matches that lie around a row pass over it."""
        around = [match for match in self.trace.matches if match.rows and match.start < row < match.end]
        if not around or self.adjacent:
            return []
        match = around[0]
        lines = [f"Match {match.number} takes {row_spans(match.rows)} ({self.writer.labels(match.variables)}) and passes over the row."]
        if len(around) > 1:
            lines[0] += f" {counted(len(around) - 1, 'more match')} around the row {'do' if len(around) > 2 else 'does'} not take it."
        return lines + ([] if self.trace.pattern.reports_all else self.why_passed(match, row))

    def why_passed(self, match: Match, row: int) -> list[str]:
        """The rule that lets a match pass over a row, and the lines of the variables that could come there."""
        search = self.trace.searches[match.start]
        decision = search.passing(row)
        if decision is None:
            return []
        return [f"  {self.rule(search, row)}:", *self._others(match, decision, "    ")]

    def _others(self, match: Match, decision: Decision, indent: str) -> list[str]:
        """The lines of the variables that could come at a row between the rows of a match."""
        writer, row, lines = self.writer, decision.row, []
        before = writer.end_of(match, row)
        width = max((len(writer.question.name(other.variable)) for other in decision.others), default=0)
        for other in decision.others:
            name = writer.question.name(other.variable)
            head = f"{name:<{width}}  "
            if other.verdict == REFUSED and other.reason == "CONDITION":
                writer.reasons.append(writer.of_condition(other.variable, before, row))
                lines += writer.condition("passed", before, other.variable, indent, head, row=row)
            elif other.verdict == REFUSED and other.reason == OUT_OF_REACH:
                lines.append(f"{indent}{head}is not asked: {_NOT_PASSED}")
            elif other.verdict == REFUSED:
                writer.reasons.append(Reason(other.reason, row + 1, match.start + 1, name))
                lines.append(f"{indent}{head}{'a negation forbids a row before' if other.reason == 'NEGATION' else unplaced(other.reason, row + 1)}")
            elif other.verdict == FAILS:
                writer.reasons.append(Reason("AFTER_MATCH", row + 1, match.start + 1, name))
                lines.append(f"{indent}{head}takes the row, but leads to no match")
            else:
                writer.reasons.append(Reason("PREFERRED", row + 1, match.start + 1, name))
                lines.append(f"{indent}{head}could take the row: the match is preferred")
        return lines

    def passed(self, match: Match, decision: Decision, head: str) -> list[str]:
        """The lines of a row that a match passes over, among its decisions."""
        return [f"{head}  passed over:", *self._others(match, decision, " " * (len(head) + 4))]

    def spots(self, match: Match, variable: int) -> tuple[str, list[str]] | None:
        """Why a variable that is preferred to the end of a match takes no later row; None if rows are adjacent."""
        if self.adjacent:
            return None
        writer, search = self.writer, self.trace.searches[match.start]
        node = search.path[-1][0]
        ended = replace(writer.end_of(match), states=(node.state,))
        spot = next(spot for spot in closest(writer.rows, search, ended) if spot.variable == variable)
        writer.reasons.append(writer.of_condition(variable, ended, spot.row))
        text = f"{writer.question.name(variable)} comes first, refused by {counted(spot.refused, 'row')}, {'here' if spot.refused == 1 else 'closest'} {writer.row(spot.row)}"
        bound = _bound(list(search.later(node)), search.moving.later(node).stop)
        return f"{text}{bound}:", writer.condition("preferred", ended, variable, " " * 8, row=spot.row)

    # -- question 2 -------------------------------------------------------------------------------------------

    def winner(self, lost: Match) -> int:
        """The number of the match that a lost match is lost to."""
        if not self.trace.pattern.reports_all:
            return self.trace.passed[lost.start]
        return next(match.number for match in self.trace.matches if match.start < lost.end and match.end > lost.start)

    def takes(self, number: int, lost: Match) -> str:
        """How a match keeps a lost one from its rows."""
        match = self.trace.matches[number - 1]
        if self.trace.pattern.reports_all:
            return f"is complete first ({row_spans(match.rows)})"
        verb = "has" if lost.start in match.rows else "passes over"
        return f"{verb} {self.writer.row(lost.start)}"

    def not_in(self, row: int, match: Match) -> list[str]:
        """Why a row after the first one is not in a match."""
        writer = self.writer
        if self.trace.pattern.reports_all:
            others = [other for other in self.trace.searches[match.start].matches if row in other.rows]
            lines = [f"  Another match of the start row has it: {row_spans(other.rows)}, {writer.labels(other.variables)}." for other in others[:1]]
            return lines or [f"  No match that starts at row {match.start + 1} takes the row."]
        search = self.trace.searches[match.start]
        if row < match.end:
            return [*self.why_passed(match, row), *writer.other_way(search, match, row)]
        decision = search.following(row)
        lines = []
        if not decision.others:
            lines.append("  Nothing may follow there: the pattern is complete.")
        for other in sorted(decision.others, key=lambda other: not other.preferred):
            name = writer.question.name(other.variable)
            if other.verdict == MATCHES:
                writer.reasons.append(Reason("RELUCTANT", row + 1, match.start + 1, name))
                lines.append(f"  {name} could take row {row + 1}, but the pattern prefers to end first: a reluctant quantifier or an earlier alternative.")
            elif other.verdict == FAILS and other.preferred:
                writer.reasons.append(Reason("AFTER_MATCH", row + 1, match.start + 1, name))
                lines.append(f"  {name} takes row {row + 1}, but no match goes on from there.")
            elif other.verdict == REFUSED and other.reason == "CONDITION":
                ended = writer.end_of(match)
                writer.reasons.append(writer.of_condition(other.variable, ended, row))
                lines += [f"  {name} {'would go on' if other.preferred else 'could follow'}, and does not take row {row + 1}:"]
                lines += writer.condition("next", ended, other.variable, "    ", row=row)
            elif other.verdict == REFUSED and other.reason == OUT_OF_REACH:
                lines.append(f"  {name} is not asked at row {row + 1}: {_NOT_PASSED}.")
            elif other.verdict == REFUSED and other.reason == "NEGATION":
                writer.reasons.append(Reason(other.reason, row + 1, match.start + 1, name))
                lines.append(f"  {name} could follow; a negation forbids a row before row {row + 1}.")
            elif other.verdict == REFUSED:
                writer.reasons.append(Reason(other.reason, row + 1, match.start + 1, name))
                lines.append(f"  {name} could follow; {unplaced(other.reason, row + 1)}.")
        return lines + writer.other_way(search, match, row)

    # -- question 3 under ALL MATCHES ---------------------------------------------------------------------------

    def one_of_all(self, match: Match) -> list[str]:
        """The rows of a match among all matches, which do not compete."""
        writer, lines = self.writer, []
        names = max((len(writer.question.name(variable)) for variable in match.variables), default=0)
        digits = len(str(match.end))
        for row, variable in zip(match.rows[:MOST_ROWS], match.variables[:MOST_ROWS], strict=True):
            head = f"  row {row + 1:<{digits}}  {writer.question.name(variable):<{names}}  "
            lines += writer.condition("taken", writer.end_of(match, row), variable, "", head, row=row)
        if len(match.rows) > MOST_ROWS:
            lines.append(f"  and {len(match.rows) - MOST_ROWS} more rows")
        overlap = self.trace.pattern.skip[0] == PAST_LAST
        lines.append("  ALL MATCHES reports each of the matches that do not overlap." if overlap else "  ALL MATCHES reports every match, so none is preferred to it.")
        return lines


def _bound(reached: Sequence[int], stop: int) -> str:
    """The words about the row that SKIP TILL NEXT MATCH does not pass over, "" if rows up to ``stop`` are reached."""
    return f"; SKIP TILL NEXT MATCH does not pass over row {reached[-1] + 1}" if reached and reached[-1] + 1 < stop else ""


class Conjunction:
    """Answers questions about the rows of one partition under ``&``."""

    def __init__(self, rows: FrozenRows, writer: Callable[[FrozenRows, Trace], Writer], max_steps: int) -> None:
        """
        Args:
            rows: the rows.
            writer: makes the explainer of a trace.
            max_steps: how many steps a start row may take.
        """
        self.rows, self.engine = rows, rows.matches()
        self.sides = sides_of(rows, max_steps)
        self.writers = [writer(side.rows, side.trace) for side in self.sides]
        self.writer = writer(rows, Trace(rows.pattern(), rows, search=False))
        self.verified = not any(side.differences() for side in self.sides)

    def answer(self, at: Iterable[int], match: int | None, expect: str | None, words: Mapping[str, object]) -> Why:
        """Answers the question."""
        if expect is not None:
            raise ClauseError(WHY, "expect is not explained for a pattern with &. Leave expect out, or ask about a clause with one side", sqlstate=SEMANTIC)
        if match is not None and not 1 <= match <= len(self.engine):
            raise no_match(match, len(self.engine))
        asked = tuple(at)
        lines: list[str] = [] if match is None or asked else self.match(match)
        for row in asked if self.verified else ():
            lines += self.at(row, match)
        if not self.verified:
            return unconfirmed(self.rows, words, asked)
        reasons = tuple(dict.fromkeys(reason for writer in (*self.writers, self.writer) for reason in writer.reasons))
        shown = tuple(one for writer in (*self.writers, self.writer) for one in writer.shown)
        return Why(dict(words), True, lines[0], reasons, next=shown, rows=tuple(row + 1 for row in asked), lines=tuple(lines))

    def match(self, number: int) -> list[str]:
        """The rows of a match."""
        found = self.engine[number - 1]
        lines = [f"Match {number} takes {self.listed(found)}: {self.writer.labels(found.variables)}."]
        return lines + [f"  row {row + 1}  {self.writer.question.name(variable)}" for row, variable in zip(found.rows, found.variables, strict=True)]

    def listed(self, found: Found) -> str:
        return row_spans(list(dict.fromkeys(found.rows)))

    def at(self, row: int, match: int | None) -> list[str]:
        """The answer for one row."""
        head = self.writer.head(row)
        inside = [(number, found) for number, found in enumerate(self.engine, 1) if row in found.rows and match in (None, number)]
        if inside:
            places = [f"match {number} as {' and '.join(self.names(found, row))}" for number, found in inside[:MOST_MATCHES]]
            if len(inside) > MOST_MATCHES:
                places.append(f"{len(inside) - MOST_MATCHES} more matches")
            return [f"{head} is in {' and '.join(places)}."]
        if match is not None:
            found = self.engine[match - 1]
            return [f"{head} is not in match {match}, which takes {self.listed(found)}: {self.writer.labels(found.variables)}."]
        lines = [f"{head} is in no match."]
        if any(found.start == row for found in self.engine):
            return lines
        if not self.sides:
            return [*lines, f"No match starts here. PATTERN has more than {MOST_SIDES} sides of &, which are not explained by themselves."]
        stop = min(self.sides[0].trace.pattern.windows.end(row), self.rows.count)
        where = f"row {row + 1}" if stop == row + 1 else f"rows {row + 1}-{stop}"
        whole = self.rows.question.plan.pattern
        alone = "by itself" if unbounded(whole)[0][0] == "and" else "with the rest of PATTERN"
        lines.append(f"No match starts here. Each side of & {alone}, in {where}:")
        last = row + 1 if begins_outside(whole) else stop
        complete = [self.side(side, writer, range(row, last), stop, lines) for side, writer in zip(self.sides, self.writers, strict=True)]
        if not all(complete):
            return lines
        return lines + (self.together(row, stop) if combines(whole) else ["Together the sides do not match from here on."])

    def names(self, found: Found, row: int) -> list[str]:
        return [self.writer.question.name(variable) for at, variable in zip(found.rows, found.variables, strict=True) if at == row]

    def side(self, side: Side, writer: Writer, starts: range, stop: int, lines: list[str]) -> bool:
        """Adds the lines of one side. Returns whether it has a match that begins at one of the rows and ends before another one."""
        shared = frozenset.intersection(*(one.variables for one in self.sides))
        name = " and ".join(writer.question.name(variable) for variable in sorted(side.variables - shared or side.variables))
        searches = [side.trace.searches[start] for start in starts if start in side.trace.searches]
        found = next((match for search in searches for match in search.matches if match.end <= stop), None)
        if found is not None:
            lines.append(f"  side of {name}: {row_spans(found.rows)} would match ({writer.labels(found.variables)})." if found.rows else f"  side of {name}: takes no row.")
            return True
        if len(searches) < len(starts) or any(search.effort for search in searches):
            writer.reasons.append(Reason("EFFORT", starts.start + 1, starts.start + 1))
            lines.append(f"  side of {name}: its searches take too many steps. Raise spark.sparkcep.why.maxSteps, or add a WINDOW.")
            return False
        best = farthest_of(searches)
        lines.append(f"  side of {name}: no match.")
        if best is not None:
            try:
                lines += writer.start(best[0].start, "    ")
            except Effort:
                writer.reasons.append(Reason("EFFORT", best[0].start + 1, best[0].start + 1))
                lines.append("    Its farthest run takes too many steps to explain. Raise spark.sparkcep.why.maxSteps, or add a WINDOW.")
        return False

    def together(self, row: int, stop: int) -> list[str]:
        """The lines of the rows that fit all sides."""
        whole = self.rows.question.plan.pattern
        try:
            best, is_whole = best_combined(self.rows, self.sides, row, stop)
        except Effort:
            self.writer.reasons.append(Reason("EFFORT", row + 1, row + 1))
            return ["The sides have too many matches to combine. Raise spark.sparkcep.why.maxSteps, or add a WINDOW."]
        if best is None and not is_whole:
            return [f"The sides have more than {MOST_WAYS} matches. The first ones do not fit together, unless one row serves two sides."]
        if best is None:
            return [f"No rows that begin at row {row + 1} fit all sides, unless one row serves two of them." + ("" if begins_outside(whole) else " A match starts at the first row of one of its sides.")]
        listed = " with ".join(f"{row_spans(way.rows)} ({self.writer.labels(way.variables)})" for way in best.ways if way.rows)
        listed = listed[0].upper() + listed[1:]
        if not best.refused and self.rows.question.plan.non_overlapping:
            self.writer.reasons.append(Reason("LOST", row + 1, row + 1))
            return [f"{listed} would match. AFTER MATCH SKIP PAST LAST ROW reports only matches that do not overlap, those first that are complete first."]
        if not best.refused:
            return [f"{listed} fit all sides by their rows. A negation, the window of a group or a row that may not be passed over forbids the match."]
        lines = [f"{listed} fit all sides by their rows, but conditions across & are not true:"]
        for variable, at in best.refused:
            writer, before = self.writer, best.before(at)
            writer.reasons.append(Reason("CONDITION_FALSE", at + 1, row + 1, writer.question.name(variable)))
            is_across = any(variable in side.across for side in self.sides)
            judged = self.rows.judged(best.judged(variable, at), Run(at, 0)) if is_across else None
            shown = Ended(row, 0, (), before.variables, before.rows, (), 0, 0)
            lines += writer.condition("across", shown, variable, "  ", f"{writer.question.name(variable)} at row {at + 1}  ", row=at, judged=judged)
        return lines
