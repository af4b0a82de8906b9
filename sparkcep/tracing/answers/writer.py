"""Writes the parts of an answer that all event selections share: conditions with their comparisons, windows, and ways of a match.

:mod:`sparkcep.tracing.answers.explain` writes answers about adjacent rows, and :mod:`sparkcep.tracing.answers.selections` the parts
for other rows. Both take these parts from here.
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod

from sparkcep.clause.tokens import Span
from sparkcep.errors import cut
from sparkcep.plan.options import MICROS, ROWS
from sparkcep.tracing.answers.answer import MOST_COLUMNS, Shown
from sparkcep.tracing.answers.causes import causes
from sparkcep.tracing.answers.reasons import Reason
from sparkcep.tracing.answers.values import Names, Values, row_spans, truth
from sparkcep.tracing.conditions.comparisons import combined, is_conjunction, numbers, smallest_sets
from sparkcep.tracing.forms.lines import COMPARISON, Line
from sparkcep.tracing.rows.frozen import FrozenRows, Judged
from sparkcep.tracing.rows.machine import NOT_COMPUTED, Failed
from sparkcep.tracing.search.program import Option
from sparkcep.tracing.search.runs import Ended, Run
from sparkcep.tracing.search.trace import Match, Search, Trace

MOST_LINES = 40  # of the comparisons of a row


class Writer(Names, ABC):
    """Writes about the rows of a partition.

    Attributes:
        trace: the trace of the rows.
        reasons: why rows were not taken.
        shown: the comparisons that were written.
    """

    def __init__(self, rows: FrozenRows, trace: Trace, values: Values) -> None:
        super().__init__(rows, values)
        self.trace = trace
        self.reasons: list[Reason] = []
        self.shown: list[Shown] = []

    @abstractmethod
    def start(self, row: int, indent: str = "") -> list[str]:
        """Why no match starts at a row."""

    def which(self, option: Option) -> str:
        """An option, with the number of its place if its variable has several."""
        if option.kind != "row":
            return "the end of the match"
        name, places = self.question.name(option.variable), self.trace.pattern.program.places
        same = [place for place, variable in enumerate(places) if variable == option.variable]
        return name if len(same) == 1 else f"{name} number {same.index(option.place) + 1} of PATTERN"

    # -- conditions -----------------------------------------------------------------------------------------

    def condition(self, role: str, ended: Ended, variable: int, indent: str, head: str = "", *, row: int | None = None, judged: Judged | None = None) -> list[str]:
        """The comparisons of a variable's condition at a row after a run, by default the next one, with both sides.

        ``judged``: the values of a negated variable's condition.
        """
        logic = self.question.conditions.get(variable)
        if logic is None:
            return [f"{indent}{head}any row (not in DEFINE)"]
        row, run, rows = ended.row if row is None else row, ended.taken(), judged or self.rows

        def holds(number: int) -> bool | None:
            return rows.known_truth(number, row, run)

        listed = list(dict.fromkeys(numbers(logic)))
        whole = combined(logic, holds)
        sets = smallest_sets(logic, holds) if whole is not True else []
        single = {next(iter(changes))[0] for changes in sets if len(changes) == 1}
        shown = [self._shown(rows, role, number, row, ended.start, run, number in single) for number in listed]
        self.shown += [one for one, _ in shown]
        left_out = 0
        if len(shown) > MOST_LINES:
            needed = {number for changes in sets for number, _ in changes}
            kept = [one for one, number in zip(shown, listed, strict=True) if number in needed][:MOST_LINES]
            left_out, shown = len(shown) - len(kept), kept
        texts = max((len(one.comparison) for one, _ in shown), default=0)
        sides = max((len(values) for _, values in shown), default=0)
        blank, lines = " " * len(head), list[str]()
        for i, (one, values) in enumerate(shown):
            middle = "" if self.values.redact == "all" else f"{values:<{sides}}  "
            result = one.cause if one.cause.startswith(NOT_COMPUTED) else truth(one.result) + (f": {one.cause}" if one.cause else "")
            line = f"{indent}{blank if i else head}{one.comparison:<{texts}}  {middle}{result}"
            cells = (one.variable, one.comparison, "" if self.values.redact == "all" else values, truth(one.result), one.cause)
            lines.append(Line.of(cut(line, MOST_COLUMNS), COMPARISON, cells, marked=one.alone, row=one.row, role=role))
        if left_out:
            lines.append(f"{indent}{blank}and {left_out} more comparison{'s' if left_out > 1 else ''}")
        if sets and not is_conjunction(logic):
            order = {number: i for i, number in enumerate(numbers(logic))}
            ways = [" and ".join(self._wanted(*change) for change in sorted(changes, key=lambda change: order[change[0]])) for changes in sets[:3]]
            lines.append(f"{indent}{blank}needs {'; or '.join(ways)}")
        return lines

    def _wanted(self, number: int, wanted: bool) -> str:
        text = self.question.comparisons[number].text
        return text if wanted else f"not {text}"

    def _shown(self, rows: FrozenRows | Judged, role: str, number: int, row: int, start: int, run: Run, is_alone: bool) -> tuple[Shown, str]:
        """A comparison at a row, and its text with the values of its sides."""
        comparison = self.question.comparisons[number]
        values: dict[Span, str] = {}
        for side in comparison.sides:
            value = self.question.values[side]
            if value.is_known:
                values[value.expr.span] = self.values.text(rows.value(side, row, run))
        result = rows.shown_truth(number, row, run)
        why = [repr(result)] if isinstance(result, Failed) else causes(rows, number, row, run) if result is None else []
        with_values, sides = comparison.written(self.question.clause.text, values)
        left, right = ("", "") if self.values.redact == "all" else (sides[0] if sides else "", ", ".join(sides[1:]))
        shown = Shown(
            self.partition, row + 1, start + 1, role, self.question.name(comparison.variable), comparison.text, left, right, rows.known_truth(number, row, run),
            "; ".join(why), is_alone,
        )
        return shown, "" if any(NOT_COMPUTED in value for value in values.values()) else with_values

    def of_condition(self, variable: int, ended: Ended, row: int | None = None) -> Reason:
        """The reason why a condition does not hold at a row after a run, by default the next one."""
        row, run = ended.row if row is None else row, ended.taken()
        whole = combined(self.question.conditions[variable], lambda number: self.rows.known_truth(number, row, run))
        kind = "CONDITION_NULL" if whole is None else "CONDITION_FALSE"
        return Reason(kind, row + 1, ended.start + 1, self.question.name(variable))

    def group(self, search: Search, option: Option, row: int, reason: str) -> str:
        """Why a row is outside of WINDOW, or of the window of a group that is open at an option."""
        windows = search.pattern.windows
        bounds = [(0, search.start), *search.program.groups(option, row)]
        return self.outside(*next(bound for bound in bounds if windows.refused(*bound, row)), row, reason)

    def outside(self, window: int, first: int, row: int, reason: str, name: str = "the row") -> str:
        """Why a row is outside of a window, with the arithmetic. ``name``: what the sentence calls the row."""
        found = self.plan.windows[window]
        word = "WITHIN" if window else "WINDOW"
        if found.kind == ROWS:
            return f"{name} is outside of {word} {found.size} ROWS (row {row + 1} - row {first + 1} = {row - first}, and {row - first} < {found.size} is false)"
        key = self.plan.order[0]
        begin, end = (self.rows.column(found.order)[at] for at in (first, row))
        if reason == "NULL_TIME":
            return f"{key.name} is NULL in row {(first if begin is None else row) + 1}, so {word} {found.text} cannot place {name}"
        if key.descending:
            begin, end = end, begin
        text = self.values.text
        size = str(datetime.timedelta(microseconds=float(found.size))) if found.kind == MICROS else found.size
        apart = text(end - begin)
        return f"{name} is outside of {word} {found.text} ({key.name} {text(end)} - {text(begin)} = {apart}, and {apart} < {size} is false)"

    def anchor(self, option: Option, row: int) -> str:
        """Why an anchor does not hold before a row."""
        if option.anchor == "start":
            return f"^: row {row + 1} is not the first row of the partition"
        return f"$: row {row} is not the last row of the partition" if row else "$: the partition has rows"

    def end_of(self, match: Match, before: int | None = None) -> Ended:
        """A match, or its rows before a row, as a run."""
        count = len(match.rows) if before is None else sum(row < before for row in match.rows)
        return Ended(match.start, match.number, match.places[:count], match.variables[:count], match.rows[:count], (), 0, 0)

    def other_way(self, search: Search, match: Match, row: int) -> list[str]:
        """Another match of the start row that has the row, and where the two part."""
        for i, (node, taken) in enumerate(search.path[:-1]):
            moves = list(search.moves(node))
            for move in moves[moves.index(taken) + 1 :]:
                if move.option.kind != "row" or move.row > row or search.refused(node, move.option, move.row):
                    continue
                found = search.found(search.after(node, move))
                if found is None:
                    continue
                way = [move, *(after for _, after in found[:-1])]
                variables, rows = (*match.variables[:i], *(one.option.variable for one in way)), (*match.rows[:i], *(one.row for one in way))
                if row in rows:
                    self.reasons.append(Reason("PREFERRED", taken.row + 1, match.start + 1, self.question.name(taken.option.variable)))
                    which = f"At row {taken.row + 1} {self.which(taken.option)} is preferred to {self.which(move.option)}"
                    which += f" at row {move.row + 1}." if move.row != taken.row else "."
                    return [f"  Another way has it: {self.labels(variables)}, {row_spans(rows)}. {which}"]
        return []
