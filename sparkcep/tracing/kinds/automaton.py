"""Explains an AUTOMATON: the computation that got farthest, and why no arc of its state took the next row (LANGUAGE section 10).

The engine lists the computations (:mod:`sparkcep.tracing.kinds.computations`). Its own matches must be those computations that end
in FINAL states, or nothing is explained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from sparkcep.clause.automaton import EMPTY, EXPIRY, ROW, Arc
from sparkcep.errors import SEMANTIC, ClauseError, cut
from sparkcep.tracing.answers.answer import MOST_COLUMNS, Shown, ShownRun, Why
from sparkcep.tracing.answers.differs import unconfirmed
from sparkcep.tracing.answers.explain import Asked
from sparkcep.tracing.answers.hints import Totals
from sparkcep.tracing.answers.overall import found_line
from sparkcep.tracing.answers.reasons import Reason
from sparkcep.tracing.answers.values import and_more, counted, no_match, row_spans, truth
from sparkcep.tracing.answers.writer import MOST_LINES
from sparkcep.tracing.conditions.comparisons import combined, is_conjunction, numbers, smallest_sets
from sparkcep.tracing.conditions.question import WHY
from sparkcep.tracing.forms.lines import COMPARISON, Line, bars, counters, note_of
from sparkcep.tracing.kinds.arcs import arc_name
from sparkcep.tracing.kinds.computations import Computation, Computations, Found
from sparkcep.tracing.kinds.explainer import Explainer
from sparkcep.tracing.rows.frozen import FrozenRows

MOST_SHOWN = 3  # matches, and computations with equal rows
UNKNOWN = object()  # a value that was not computed


def explain_automaton(rows: FrozenRows, asked: Asked, *, redact: str) -> Why:
    """Answers a question about the rows of one partition.

    Args:
        rows: the frozen rows.
        asked: the question.
        redact: "", "values" or "all".

    Raises:
        ClauseError: the question names a match that does not exist, or a variable.
        MatchRuntimeError: the query fails for these rows, or has too many computations.
    """
    if asked.expect is not None:
        raise ClauseError(WHY, "expect names a variable of PATTERN, and an AUTOMATON has arcs. Leave expect out", sqlstate=SEMANTIC)
    found = Computations.of(rows.question, rows.table)
    if not found.right:
        return unconfirmed(rows, asked.words)
    return _Explainer(rows, found, asked, redact).answer()


class _Explainer(Explainer):
    def __init__(self, rows: FrozenRows, found: Computations, asked: Asked, redact: str) -> None:
        super().__init__(rows, asked, redact)
        self.found, self.values = found, self.names.values
        self.automaton, self.arcs = rows.question.plan.automaton, rows.question.clause.automaton.arcs

    # -- matches --------------------------------------------------------------------------------------------

    def numbered(self, number: int) -> Found:
        """A match by its number. Raises ClauseError if there is none."""
        count = len(self.found.matches)
        if not 1 <= number <= count:
            raise no_match(number, count)
        return self.found.matches[number - 1]

    def match(self, number: int) -> list[str]:
        """The rows, the arcs and the registers of a match."""
        match = self.numbered(number)
        return [f"Match {number}{self.names.of_partition} takes {self.span(match)}{self.end(match)}.", *self.way(match)]

    def span(self, match: Found | Computation) -> str:
        return row_spans(match.rows if isinstance(match, Found) else range(match.first, match.last + 1))

    def end(self, match: Found) -> str:
        """The values at the end of a match."""
        values = [*self.registers(match.registers)]
        values += [f"{name} {self.values.text(value)}" for name, value in zip(self.automaton.emits, match.emitted, strict=True) if value is not None]
        return f", with {', '.join(values)} at its end" if values else ""

    def registers(self, registers: Sequence[Any]) -> list[str]:
        return [f"{register.name} {self.values.text(value)}" for register, value in zip(self.automaton.declared, registers, strict=True)]

    def way(self, match: Found) -> list[str]:
        """The arcs of the first computation of a match."""
        if self.automaton.by_ways:
            found = [one for first in range(match.first + 1) for one in self.found.from_row.get(first, ()) if self.named(one) == (match.rows, match.names)]
        else:
            found = [one for one in self.found.from_row.get(match.first, ()) if one.last == match.last]
        final = [one for one in found if one.state in self.automaton.final and one.registers == match.registers]
        chosen = (final or found)[:1]
        return [f"  Its arcs: {self.path(one)}." for one in chosen if None not in one.arcs]

    def named(self, one: Computation) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """The rows that arcs with a name took, with the names."""
        names = ("", *self.question.plan.variables)
        taken = [(one.first + i, name) for i, arc in enumerate(one.arcs) if arc is not None and (name := names[self.automaton.arcs[arc].label])]
        return tuple(row for row, _ in taken), tuple(name for _, name in taken)

    def passing(self, row: int) -> list[str]:
        """The line about a match that passes over a row, none if no match does."""
        found = [(number, match) for number, match in enumerate(self.found.matches, 1) if match.first < row < match.last]
        more = f" {counted(len(found) - 1, 'more match')} around the row {'do' if len(found) > 2 else 'does'} not take it." if len(found) > 1 else ""
        return [f"Match {number} takes {self.span(match)} and passes over the row.{more}" for number, match in found[:1]]

    def path(self, one: Computation) -> str:
        """The arcs of a computation, equal neighbours with their number."""
        names = [arc_name(self.question, arc) if arc is not None else "?" for arc in one.arcs]
        found = [(name, len(list(equal))) for name, equal in groupby(names)]
        return ", ".join(f"{name} x{n}" if n > 1 else name for name, n in found)

    # -- a row ----------------------------------------------------------------------------------------------

    def at(self, row: int) -> list[str]:
        """The answer for one row."""
        head = self.names.head(row)
        inside = [(number, match) for number, match in enumerate(self.found.matches, 1) if row in match.rows]
        if self.asked.match is not None:
            match = self.numbered(self.asked.match)
            if row not in match.rows:
                lines = [f"{head} is not in match {self.asked.match}, which takes {self.span(match)}{self.end(match)}."]
                return lines + ([f"It is in {counted(len(inside), 'other match')}."] if inside else self.alone(row))
            inside = [(self.asked.match, match)]
        if inside:
            listed = and_more(inside, MOST_SHOWN, lambda found: f"match {found[0]}")
            return [f"{head} is in {listed}.", *(line for number, _ in inside[:MOST_SHOWN] for line in self.match(number))]
        return [f"{head} is in no match.", *self.passing(row), *self.alone(row)]

    def alone(self, row: int) -> list[str]:
        """Why no match begins at a row or has it."""
        lines = self.start(row)
        earlier = [one for first in range(row) for one in self.found.farthest(first)[:1] if one.last >= row - 1]
        if earlier:
            best = max(earlier, key=lambda one: (one.last - one.first, -one.first))
            what = "took it" if best.last >= row else "ended here"
            lines.append(f"As a later row: the computation of {self.span(best)} {what}.")
            lines += self.ended(self.found.farthest(best.first), "  ")
        return lines

    def start(self, row: int) -> list[str]:
        """Why no match begins at a row."""
        found = self.found.farthest(row)
        if not found:
            before = self.found.before(row)
            names = " or ".join(dict.fromkeys(self.automaton.states[one.state] for one in before)) or self.automaton.states[self.automaton.start]
            lines = [f"No match begins here: no arc of {names} takes the row."]
            return lines + [line for one in before[:MOST_SHOWN] for line in self.arcs_of(one, "  ")]
        if self.run is None:
            ended = found[0].last + 2 if found[0].last + 1 < self.rows.count else 0
            self.run = ShownRun(row + 1, found[0].last - row + 1, tuple(arc_name(self.question, arc) if arc is not None else "" for arc in found[0].arcs), ended)
        way = f": {self.path(found[0])}" if None not in found[0].arcs else ""
        return [f"No match begins here. The computation with most rows took {self.span(found[0])}{way}.", *self.ended(found, "  ")]

    def ended(self, found: Sequence[Computation], indent: str) -> list[str]:
        """Why computations of one first row with equally many rows ended."""
        lines = []
        for one in found[:MOST_SHOWN]:
            values = self.registers(one.registers)
            state = self.automaton.states[one.state]
            held = f" with {', '.join(values)}" if values else ""
            final = "" if one.state in self.automaton.final else ", which is not FINAL"
            if one.last + 1 >= self.rows.count:
                self.reasons.append(Reason("PARTITION_END", 0, one.first + 1))
                lines.append(f"{indent}It ended in state {state}{held}{final}: the partition ends after row {one.last + 1}.")
            elif not self.alive(one):
                self.reasons.append(Reason("WINDOW", one.last + 2, one.first + 1))
                lines.append(f"{indent}It ended in state {state}{held}{final}: {self.names.row(one.last + 1)} is outside of its lifetime{self.lifetime()}.")
            else:
                lines.append(f"{indent}It ended at {self.names.row(one.last + 1)} in state {state}{held}{final}.")
            lines += self.arcs_of(one, indent)
        if len(found) > MOST_SHOWN:
            lines.append(f"{indent}and {counted(len(found) - MOST_SHOWN, 'computation')} more with these rows")
        return lines

    def lifetime(self) -> str:
        window = self.question.clause.window
        return "" if window is None else f" (WINDOW {' '.join(window.size.span.of(self.question.clause.text).split())})"

    def alive(self, one: Computation) -> bool:
        """Whether the next row is inside the lifetime of a computation that has a ROW arc to look with."""
        row_arcs = [i for i, arc in enumerate(self.automaton.arcs) if arc.source == one.state and arc.on == ROW]
        return not row_arcs or any(self.found.look(one.first, one.last + 1, one.state, one.registers, i) is not None for i in row_arcs)

    # -- arcs -----------------------------------------------------------------------------------------------

    def arcs_of(self, one: Computation, indent: str) -> list[str]:
        """Each arc of a computation's state: the comparisons of WHEN, and SET."""
        own = [i for i, arc in enumerate(self.automaton.arcs) if arc.source == one.state]
        if not own:
            return [f"{indent}No arc leaves {self.automaton.states[one.state]}."]
        row = one.last + 1
        shown = [i for i in own if self.automaton.arcs[i].on != ROW or (row < self.rows.count and self.found.look(one.first, row, one.state, one.registers, i) is not None)]
        heads = {i: f"{arc_name(self.question, i)} to {self.automaton.states[self.automaton.arcs[i].target]}" for i in shown}
        width = max((len(head) for head in heads.values()), default=0)
        lines = [f"{indent}Its arcs:" if one.last >= one.first else f"{indent}The arcs of {self.automaton.states[one.state]}:"] if shown else []
        for i in shown:
            lines += self.arc(one, i, f"{indent}  {heads[i]:<{width}}  ")
        return lines

    def arc(self, one: Computation, number: int, head: str) -> list[str]:
        """The comparisons of an arc's WHEN after a computation."""
        arc, kind = self.arcs[number], self.automaton.arcs[number].on
        row = one.last + 1 if kind == ROW else one.last
        said = {EMPTY: "ON EMPTY", EXPIRY: "ON EXPIRY", ROW: ""}[kind]
        blank, first = " " * len(head), head
        lines: list[str] = []
        if said:
            lines.append(f"{first}{said}")
            first = blank
        logic = self.question.conditions.get(number)
        if logic is None:
            lines.append(f"{first}takes any row" if kind == ROW else f"{first}without WHEN")
        else:
            holds = {comparison: self.holds(one, number, comparison, row) for comparison in dict.fromkeys(numbers(logic))}
            if any(value is UNKNOWN for value in holds.values()):
                lines.append(f"{first}not computed: a part of WHEN fails for some row, or no row is read yet")
            else:
                lines += self.comparisons(one, number, logic, holds, row, first)
                whole = combined(logic, holds.__getitem__)
                if whole is not True:
                    self.reasons.append(Reason("CONDITION_NULL" if whole is None else "CONDITION_FALSE", row + 1, one.first + 1, arc_name(self.question, number)))
        lines += self.sets(arc, blank)
        return [cut(line, MOST_COLUMNS) for line in lines]

    def sets(self, arc: Arc, blank: str) -> list[str]:
        text = self.question.clause.text
        assigned = [f"{item.register} = {' '.join(item.value.span.of(text).split())}" for item in arc.sets]
        return [f"{blank}SET {', '.join(assigned)}"] if assigned else []

    def value(self, one: Computation, arc: int, number: int, row: int) -> Any:
        """A value at an arc, :data:`UNKNOWN` if the engine has none."""
        value = self.question.values[number]
        if value.column:
            return self.rows.column(value.column)[row]
        look = self.found.look(one.first, row, one.state, one.registers, arc)
        return UNKNOWN if look is None or value.probe not in look else look[value.probe]

    def holds(self, one: Computation, arc: int, comparison: int, row: int) -> Any:
        return self.value(one, arc, self.question.comparisons[comparison].truth, row)

    def comparisons(self, one: Computation, arc: int, logic: tuple, holds: Mapping[int, Any], row: int, head: str) -> list[str]:
        """The comparisons of a WHEN with both sides, one line each."""
        lines = []
        sets = smallest_sets(logic, holds.__getitem__) if combined(logic, holds.__getitem__) is not True else []
        single = {next(iter(changes))[0] for changes in sets if len(changes) == 1}
        listed = []
        for number in list(holds)[:MOST_LINES]:
            comparison = self.question.comparisons[number]
            values = {}
            for side in comparison.sides:
                found = self.value(one, arc, side, row) if self.question.values[side].is_known else UNKNOWN
                if found is not UNKNOWN:
                    values[self.question.values[side].expr.span] = self.values.text(found)
            middle, sides = comparison.written(self.question.clause.text, values)
            left, right = ("", "") if self.values.redact == "all" else (sides[0] if sides else "", ", ".join(sides[1:]))
            listed.append((comparison.text, "" if self.values.redact == "all" else middle, truth(holds[number])))
            self.shown.append(
                Shown(self.names.partition, row + 1, one.first + 1, "next", arc_name(self.question, arc), comparison.text, left, right, holds[number], "", number in single)
            )
        widths = [max((len(one[i]) for one in listed), default=0) for i in range(2)]
        for i, (comparison_text, middle, result) in enumerate(listed):
            between = f"{middle:<{widths[1]}}  " if self.values.redact != "all" else ""
            cells = ("" if i else head.strip() or arc_name(self.question, arc), comparison_text, middle, result, "")
            line = f"{' ' * len(head) if i else head}{comparison_text:<{widths[0]}}  {between}{result}"
            lines.append(Line.of(line, COMPARISON, cells, marked=list(holds)[i] in single, row=row + 1, role="next"))
        if sets and not is_conjunction(logic):
            ways = [" and ".join(f"{'' if wanted else 'not '}{self.question.comparisons[number].text}" for number, wanted in sorted(changes)) for changes in sets[:3]]
            lines.append(f"{' ' * len(head)}needs {'; or '.join(ways)}")
        return lines


# -- a whole table ------------------------------------------------------------------------------------------------------


def automaton_overall(parts: Sequence[FrozenRows], totals: Totals, *, words: Mapping[str, object], redact: str, hints: Sequence[str]) -> Why:
    """Answers the question about a whole table.

    Args:
        parts: the searched partitions, at least one.
        totals: counts over all rows.
        words: the arguments of the question.
        redact: "", "values" or "all".
        hints: lines for the end of the answer.
    """
    question = parts[0].question
    automaton = question.plan.automaton
    assert automaton is not None
    found = [Computations.of(question, part.table) for part in parts]
    if not all(one.right for one in found):
        return unconfirmed(parts[0], words)
    rows = sum(part.count for part in parts)
    reached: Counter[int] = Counter()
    ends: Counter[str] = Counter()
    for part, one in zip(parts, found, strict=True):
        begins = {match.first for match in one.matches}
        explainer = _Explainer(part, one, Asked(), redact)
        for row in range(part.count):
            reached.update({computation.state for computation in one.from_row.get(row, ())})
            if row not in begins:
                ends[_why_ended(explainer, one.farthest(row), part)] += 1
    starts = sum(len({match.first for match in one.matches}) for one in found)
    funnel = [(automaton.states[state], reached[state]) for state in range(len(automaton.states)) if reached[state] or state != automaton.start]
    funnel.append(("a match", starts))
    lines = [found_line(sum(len(one.matches) for one in found), parts, totals), *_counters(parts, totals)]
    lines += [f"States that the computations of {counted(rows, 'first row')} reached:", *bars(funnel, rows)]
    if ends:
        lines.append("Others ended because " + ", ".join(f"{why} ({count})" for why, count in ends.most_common()) + ".")
    return Why(dict(words), True, lines[0], funnel=tuple(funnel), hints=tuple(hints), lines=(*lines, *hints))


def _why_ended(explainer: _Explainer, farthest: Sequence[Computation], part: FrozenRows) -> str:
    if not farthest:
        return "no arc took the first row"
    if farthest[0].last + 1 >= part.count:
        return "the partition ended" if part.is_whole else "the sample ended"
    return "no arc took the next row" if any(map(explainer.alive, farthest)) else "the lifetime ended"


def _counters(parts: Sequence[FrozenRows], totals: Totals) -> Iterator[str]:
    """How often each comparison of the row alone is true, false and NULL."""
    question, before = parts[0].question, -1
    rows = []
    for comparison in question.comparisons:
        known = totals.truths.get(comparison.number)
        if known is None:
            continue
        note = note_of(known, totals.rows)
        rows.append((arc_name(question, comparison.variable) if comparison.variable != before else "", comparison.text, *map(str, known), note))
        before = comparison.variable
    return counters("Comparisons of the row, over all rows:", rows)
