"""Answers questions about the rows of one partition, as text and as records.

Question 1 asks why no match starts at a row. Question 2 asks why a row is in no match, or not in a given one. Question 3 asks why
the rows of a match have their variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from sparkcep.clause.tree import NEXT_ROW, PAST_LAST, TO_FIRST
from sparkcep.draw.timeline import Timeline
from sparkcep.garbage_collection import few_collections
from sparkcep.tracing.answers.answer import ShownDecision, ShownRun, Why
from sparkcep.tracing.answers.change import Change, closest, one_change
from sparkcep.tracing.answers.differs import untrue
from sparkcep.tracing.answers.reasons import Reason, unplaced
from sparkcep.tracing.answers.selections import Conjunction, Skipping
from sparkcep.tracing.answers.unfinished import UnfinishedText
from sparkcep.tracing.answers.values import Values, no_match, row_spans, truth, variable_named
from sparkcep.tracing.answers.writer import Writer
from sparkcep.tracing.forms.timelines import Pictured, Timelines
from sparkcep.tracing.rows.frozen import FrozenRows, shown_column
from sparkcep.tracing.rows.sides import has_sides
from sparkcep.tracing.rows.unfinished import unfinished_matches
from sparkcep.tracing.rows.verify import compared, traced
from sparkcep.tracing.search.lost import lost
from sparkcep.tracing.search.moves import STRICT
from sparkcep.tracing.search.program import Option
from sparkcep.tracing.search.runs import Ended, Node
from sparkcep.tracing.search.trace import (
    FAILS,
    MATCHES,
    MAX_STEPS,
    PASSED,
    REFUSED,
    Decision,
    Effort,
    Found,
    Labels,
    Match,
    Other,
    Search,
    Trace,
    farthest_of,
)

MOST_SHOWN = 40  # rows with the columns of ``show``
IN_FULL = 3  # rows that are answered in full
MOST_DECISIONS = 60  # rows of a match that are shown
MOST_MATCHES = 10  # with a row that are listed.
MOST_GIVEN_UP = 3  # Start rows with too many runs.
_ONLY_EMPTY = "Only an empty match starts here, and ALL MATCHES does not report it."


@dataclass(frozen=True)
class Asked:
    """A question about the rows of a partition.

    Attributes:
        at: the rows that are asked about, () without a condition.
        match: the number of a match.
        expect: a variable.
        words: the arguments as the user gave them.
    """

    at: tuple[int, ...] = ()
    match: int | None = None
    expect: str | None = None
    words: Mapping[str, object] = field(default_factory=dict)


@few_collections()
def explain(rows: FrozenRows, asked: Asked, *, redact: str = "", max_steps: int = MAX_STEPS) -> Why:
    """Answers a question about the rows of a partition.

    Args:
        rows: the frozen rows.
        asked: the question.
        redact: "", "values" or "all".
        max_steps: how many steps a start row may take.

    Raises:
        ClauseError: the question names a match or a variable that does not exist.
        MatchRuntimeError: the query fails for these rows.
    """
    if has_sides(rows.question.plan):
        values = Values(redact)
        sided = Conjunction(rows, lambda side, trace: _Explainer(side, trace, values, asked), max_steps)
        return sided.answer(asked.at, asked.match, asked.expect, asked.words)
    engine = rows.matches()  # the query's own errors come first
    trace = Trace(rows.pattern(), rows, max_steps=max_steps)
    explainer = _Explainer(rows, trace, Values(redact), asked, len(engine))
    wrong = compared(trace, engine)
    return untrue(rows, asked.words, traced(trace), engine, wrong, asked.at) if wrong else explainer.answer()


class _Untrue(Exception):
    """The engine does not confirm a change. The answer about it is the argument."""


class _Explainer(Writer):
    def __init__(self, rows: FrozenRows, trace: Trace, values: Values, asked: Asked, count: int = 0) -> None:
        """``count``: the number of the engine's matches. The trace has fewer if it was given up."""
        super().__init__(rows, trace, values)
        self.asked, self.count = asked, count
        self.pictures = Timelines(rows, trace, lambda value: values.text(value, quoted=False), values.redact)
        self.decisions: list[ShownDecision] = []
        self.run: ShownRun | None = None
        self.timelines: list[Timeline] = []
        self.farthest: dict[int, Ended] = {}  # by start row
        self.reached: Ended | None = None  # the run of a question about a variable
        self.passed_over: Match | None = None  # a lost match with the row
        self.skipping = Skipping(self)
        option = rows.question.unfinished
        self.unfinished = UnfinishedText(self, None if option is None else option.unfinished, unfinished_matches(rows))

    # -- answers --------------------------------------------------------------------------------------------

    def answer(self) -> Why:
        """Answers the question."""
        lines: list[str] = []
        try:
            if not self.asked.at and self._is_untraced(self.asked.match):
                lines = [f"Match {self.asked.match} is not answered.", self._effort(max(self.trace.searches), "")]
            elif not self.asked.at:
                number = self._match_number()
                lines = self._within_bound(lambda: self.match(number), f"Match {number}", self.trace.matches[number - 1].start)
                self.picture(0, lines, None)
            for i, row in enumerate(self.asked.at):
                self.reached = self.passed_over = None
                found = self._within_bound(lambda row=row: self.at(row), self.head(row), row)
                if i < IN_FULL:
                    self.picture(len(lines), found, row)
                lines += found if i < IN_FULL else found[:1]
        except _Untrue as error:
            return error.args[0]
        return self._why(True, lines)

    def _within_bound(self, answer: Callable[[], list[str]], head: str, row: int) -> list[str]:
        """An answer, or the line which says that it needs too many steps."""
        try:
            return answer()
        except Effort:
            return [f"{head} is not answered.", self._effort(row, "")]

    def further_columns(self) -> list[tuple[str, ...]]:
        """The rows that an answer is about, with the columns of ``show``."""
        if not self.rows.shown or self.values.redact == "all":
            return []
        wanted = set(self.asked.at)
        if self.run is not None:
            wanted.update(range(self.run.start_row - 1, self.run.start_row + self.run.rows))
        wanted.update(row for match in self.trace.matches if match.number == self.asked.match for row in range(match.start, match.end))
        keys = [item.column for item in self.plan.order[:1]]
        columns = [self.rows.column(name) for name in (*keys, *(shown_column(i) for i in range(len(self.rows.shown))))]
        rows = sorted(row for row in wanted if self.rows.first <= row < self.rows.count)[:MOST_SHOWN]
        return [(str(row + 1), *(self.values.text(column[row]) for column in columns)) for row in rows]

    def _aligned(self, shown: list[tuple[str, ...]]) -> list[str]:
        if not shown:
            return []
        heads = ("row", *(item.name for item in self.plan.order[:1]), *self.rows.shown)
        widths = [max(map(len, column)) for column in zip(heads, *shown, strict=True)]
        return ["Rows:", *("  " + "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in (heads, *shown))]

    def null_keys(self) -> list[str]:
        """A hint if a key of the partition is NULL."""
        names = [key.name for key in self.plan.partition if self.key(key.column) is None]
        if not names or not self.rows.table.num_rows:
            return []
        return [f"Hint: {' and '.join(names)} {'are' if len(names) > 1 else 'is'} NULL here. All rows with a NULL key are one partition."]

    def ties(self) -> list[str]:
        """A hint for each group of shown rows that are equal in ORDER BY."""
        shown = [*self.asked.at, *((self.run.start_row - 1, self.run.start_row + self.run.rows - 1) if self.run else ())]
        shown += [row for match in self.trace.matches for row in (match.start, match.end - 1) if match.number == self.asked.match]
        shown = [row for row in shown if self.rows.first <= row < self.rows.count]
        if not shown or not self.plan.order:
            return []
        columns = [self.rows.column(item.column) for item in self.plan.order]
        around = range(max(min(shown) - 1, self.rows.first), min(max(shown) + 2, self.rows.count))
        found = []
        for keys, equal in groupby(around, key=lambda row: [column[row] for column in columns]):
            rows = list(equal)
            if len(rows) > 1:
                key = f"{self.plan.order[0].name} {self.values.text(keys[0], quoted=False)}"
                found.append(f"Hint: {row_spans(rows)} are equal in ORDER BY ({key}), so their order depends on chance.")
        return found

    def _why(self, verified: bool, lines: list[str]) -> Why:
        hints = [*self.null_keys(), *self.ties()] if verified else []
        if not self.rows.is_whole:
            span = row_spans(range(self.rows.first, self.rows.count))
            hints.append(
                f"Hint: the partition has {self.rows.size:,} rows. Only {span} were traced, those within one WINDOW, and matches are numbered among them."
            )
        shown = self.further_columns() if verified else []
        lines = [*lines, *hints, *self._aligned(shown)]
        return Why(
            dict(self.asked.words), verified, lines[0] if lines else "", tuple(dict.fromkeys(self.reasons)), self.run, tuple(self.shown), tuple(self.decisions),
            hints=tuple(hints), shown=tuple(shown), unfinished=tuple(self.unfinished.named.values()), rows=tuple(row + 1 for row in self.asked.at), lines=tuple(lines), timelines=tuple(self.timelines),
        )

    def picture(self, line: int, lines: Sequence[str], row: int | None) -> None:
        """Adds the timeline of an answer that begins at ``line``. ``row``: the row that is asked about."""
        number, about = self.asked.match, lines[0]
        run: Ended | Match | None = self.reached
        ended: int | None = None
        refused: dict[int, str] = {}
        if number is None and run is None and row is not None:
            run = next((match for match in self.trace.matches if row in match.rows), None)
        if number is not None and not self._is_untraced(number):
            run = self.trace.matches[number - 1]
            ended = run.end
        elif run is None and row is not None and row in self.farthest:
            farthest = run = self.farthest[row]
            if self.trace.pattern.strategy == STRICT:
                ended = farthest.row
                refused = {option.place: reason for option, reason in self.trace.searches[row].next(farthest) if option.kind == "row"}
        self.timelines.append(self.pictures.of_run(Pictured(line, about, run, ended, row, refused, self.passed_over), lines))

    def _is_untraced(self, number: int | None) -> bool:
        """Whether the engine has the match and the trace, which was given up, lacks it."""
        return number is not None and self.trace.given_up and len(self.trace.matches) < number <= self.count

    def _match_number(self) -> int:
        """The number of the match that is asked about. Raises ClauseError if there is none with this number."""
        number, count = self.asked.match, len(self.trace.matches)
        if number is None or not 1 <= number <= count:
            raise no_match(number, count)
        return number

    def ended(self, search: Search, ended: Ended, indent: str = "  ", opening: str = "next") -> list[str]:
        """Why a run ended: everything that could have come next."""
        later = self.skipping.ended(search, ended, indent)
        if later is not None:
            return later
        row, options = ended.row, search.next(ended)
        named = list(dict.fromkeys(self.question.name(option.variable) for option, _ in options if option.kind == "row"))
        if row >= self.rows.count:
            self._because("PARTITION_END", -1, ended, options)
            lines = [f"{indent}It ended because the partition ends after row {row}."]
            if named:
                lines[0] += f" {' or '.join(named)} should come next."
            return lines + [f"{indent}  {self.anchor(option, row)}" for option, _ in options if option.kind == "anchor"]
        reasons = {reason for option, reason in options if option.kind == "row"}
        for reason in ("WINDOW", "NULL_TIME"):
            if reasons == {reason} and search.pattern.windows.refused(0, ended.start, row):
                self._because(reason, row, ended, options)
                return [f"{indent}It ended at {self.row(row)}: {self.outside(0, ended.start, row, reason)}."]
        lines = [f"{indent}It ended at {self.row(row)}. The pattern lets come {opening}:"] if opening == "next" else [f"{indent}The pattern lets come first:"]
        width, seen = max(map(len, named), default=0), set()
        for option, reason in options:
            if option.kind == "anchor":
                self.reasons.append(Reason("ANCHOR", row + 1, ended.start + 1))
                lines.append(f"{indent}  {self.anchor(option, row)}")
            elif option.variable not in seen:
                seen.add(option.variable)
                name = self.question.name(option.variable)
                if reason == "CONDITION":
                    self.reasons.append(self.of_condition(option.variable, ended))
                    lines += self.condition("next", ended, option.variable, f"{indent}  ", f"{name:<{width}}  ")
                else:
                    self.reasons.append(Reason(reason, row + 1, ended.start + 1, name))
                    lines.append(f"{indent}  {name:<{width}}  {self.group(search, option, row, reason)}")
        return lines

    def _because(self, reason: str, row: int, ended: Ended, options: Iterable[tuple[Option, str]]) -> None:
        names = dict.fromkeys(self.question.name(option.variable) for option, _ in options if option.kind == "row")
        self.reasons += [Reason(reason, row + 1, ended.start + 1, name) for name in names or ("",)]

    def changed(self, search: Search, ended: Ended) -> list[str]:
        """The change that would make a match, as a sentence; none if the run did not end at a condition."""
        spots = closest(self.rows, search, ended)
        if not spots:
            return []
        change = one_change(self.rows, self.trace.pattern, search, ended)
        if change is None:
            rows = sorted({spot.row for spot in spots})
            return [f"No single comparison at {row_spans(rows)} would make a match."]
        return [self._change(change)]

    def _change(self, change: Change) -> str:
        if not change.verified:
            text, at = self.question.comparisons[change.comparison].text, change.match.start
            engine = [] if change.engine is None else [change.engine]
            change_text = f'"{text}" {truth(change.truth)} at row {change.row + 1}, and matches from row {at + 1}'
            raise _Untrue(untrue(self.rows, self.asked.words, [change.match.found], engine, (), self.asked.at, change_text))
        text = self.question.comparisons[change.comparison].text
        match = change.match
        if not match.variables:
            return f'If "{text}" were {truth(change.truth)} at row {change.row + 1}, an empty match would start here.'
        rows = row_spans(match.rows)
        return f'If "{text}" were {truth(change.truth)} at row {change.row + 1}, {rows} would match: {self.labels(match.variables)}.'

    # -- question 1: why no match starts here ---------------------------------------------------------------

    def start(self, row: int, indent: str = "") -> list[str]:
        """Why no match starts at a row."""
        search = self.trace.searches[row]
        if search.effort:
            return [self._effort(row, indent)]
        try:
            ended = search.farthest()
        except Effort:
            return [self._effort(row, indent)]
        if ended is None:
            return [f"{indent}No match starts here."]
        self.farthest[row] = ended
        if (match := self.unfinished.differs(ended)) is not None:
            engine, ours = Found(row, match.variables, match.rows), Found(row, ended.variables, ended.rows)
            raise _Untrue(untrue(self.rows, self.asked.words, [ours], [engine], (), self.asked.at, f"unfinished matches from row {row + 1}"))
        if self.run is None:
            self.run = self._run(ended)
        if ended.places:
            rows = row_spans(ended.rows)
            lines = [f"{indent}No match starts here. The run that got farthest took {rows}: {self.labels(ended.variables)}."]
            lines += self.ended(search, ended, f"{indent}  ")
        else:
            lines = [f"{indent}No match starts here: no variable that may come first takes the row.", *self.ended(search, ended, f"{indent}  ", "first")]
        return lines + [f"{indent}  {text}" for text in (*self.changed(search, ended), *self.unfinished.of_start(ended))]

    def _effort(self, row: int, indent: str) -> str:
        self.reasons.append(Reason("EFFORT", row + 1, row + 1))
        return f"{indent}The search from row {row + 1} takes more than {self.trace.max_steps} steps, or all searches twice as many. Raise spark.sparkcep.why.maxSteps, or add a WINDOW."

    def _run(self, ended: Ended) -> ShownRun:
        names = tuple(self.question.name(variable) for variable in ended.variables)
        return ShownRun(ended.start + 1, len(names), names, ended.row + 1 if ended.row < self.rows.count else 0)

    # -- question 2: why a row is in no match, or not in this one -------------------------------------------

    def at(self, row: int) -> list[str]:
        """The answer for one row."""
        head = self.head(row)
        if row >= self.trace.decided or self._is_untraced(self.asked.match):
            return [f"{head} is not answered.", self._effort(max(self.trace.searches), "")]
        inside = [match for match in self.trace.matches if row in match.rows]
        if self.asked.expect is not None:
            return self.expected(row, self.asked.expect, inside, head)
        if self.asked.match is not None:
            return self.not_in(row, self.trace.matches[self._match_number() - 1], head)
        if inside:
            places = [f"match {match.number} as {self.question.name(match.variable_at(row))}" for match in inside[:MOST_MATCHES]]
            if len(inside) > MOST_MATCHES:
                places.append(f"{len(inside) - MOST_MATCHES} more matches")
            if self.trace.pattern.reports_all:
                return [f"{head} is in {' and '.join(places)}."]
            return [f"{head} is in {' and '.join(places)}.", *(line for match in inside for line in self.match(match.number, first=False))]
        lines = [f"{head} is in no match.", *self.unfinished.of_row(row)]
        lines += self.skipping.passed_over(row)
        search = self.trace.searches.get(row)
        if search is not None and search.match is not None and not search.match.rows:
            self.reasons.append(Reason("EMPTY_MATCH", row + 1, row + 1))
            empty = "The match that starts here is empty: the pattern prefers to take no row, or can take none."
            lines.append(_ONLY_EMPTY if self.trace.pattern.reports_all else empty)
        elif search is not None and search.match is None:
            lines += self.start(row)
        lines += self.as_later(row)
        return lines + self.lost(row)

    def as_later(self, row: int) -> list[str]:
        """The farthest run of an earlier start row that took the row, or ended at it."""
        earlier = (search for start, search in self.trace.searches.items() if start < row)
        is_strict = self.trace.pattern.strategy == STRICT
        best = farthest_of(earlier, lambda search: search.farthest(row) if is_strict else search.farthest(taking=row))
        if best is None:
            return self.skipping.refused_later(row)
        search, ended = best
        what = f"took it as {self.question.name(ended.variables[ended.rows.index(row)])}" if row in ended.rows else "ended here"
        lines = [f"As a later row: the run of {row_spans(ended.rows)} ({self.labels(ended.variables)}) {what}."]
        return [*lines, *self.ended(search, ended), *(f"  {text}" for text in self.changed(search, ended))]

    def lost(self, row: int) -> list[str]:
        """The match that has the row and is lost to an earlier one."""
        found = self._lost(row)
        return [] if found is None else self._lost_to(found, row)

    def _lost(self, row: int, variable: int | None = None) -> Match | None:
        return lost(self.trace, row, variable, numbered=self.question.numbered)

    def _lost_to(self, found: Match, row: int) -> list[str]:
        """The match that a lost match with a row is lost to."""
        self.passed_over = found
        number = self.skipping.winner(found)
        self.reasons.append(Reason("LOST", row + 1, found.start + 1))
        mode, mask = self.plan.skip.mode, self.plan.skip.targets
        names = self.plan.skip.place.text if self.plan.skip.place is not None else self.labels([v for v in range(len(self.plan.variables)) if mask >> v & 1])
        skip = {PAST_LAST: "PAST LAST ROW", NEXT_ROW: "TO NEXT ROW"}.get(mode) or f"TO {'FIRST' if mode == TO_FIRST else 'LAST'} {names}"
        resumed = self.trace.resumed(self.trace.matches[number - 1]) + 1
        return [
            f"Lost to match {number}: {row_spans(found.rows)} would match ({self.labels(found.variables)}), but match {number} "
            f"{self.skipping.takes(number, found)}, and AFTER MATCH SKIP {skip} goes on at row {resumed}. AFTER MATCH SKIP TO NEXT ROW reports both."
        ]

    def not_in(self, row: int, match: Match, head: str) -> list[str]:
        """Why a row is not in a match."""
        if row in match.rows:
            return [f"{head} is in match {match.number}.", *self.match(match.number, first=False)]
        taken = f"takes {row_spans(match.rows)}: {self.labels(match.variables)}" if match.variables else f"is empty, at row {match.start + 1}"
        lines = [f"{head} is not in match {match.number}, which {taken}."]
        if row < match.start:
            return lines + self._before(row, match)
        if self.trace.pattern.strategy != STRICT or self.trace.pattern.reports_all:
            return lines + self.skipping.not_in(row, match)
        search = self.trace.searches[match.start]
        *_, decision = search.decisions()
        if row > match.end:
            lines.append(f"The match had ended before: at row {match.end + 1}.")
        if not decision.others:
            lines.append("Nothing may follow there: the pattern is complete.")
        for other in sorted(decision.others, key=lambda other: not other.preferred):
            lines += self._could_follow(search, match, decision, other)
        return lines + self.other_way(search, match, row)

    def _before(self, row: int, match: Match) -> list[str]:
        """Why a match does not start earlier, at a row before its first one."""
        search, before = self.trace.searches.get(row), "It lies before the match's first row."
        if not self.trace.pattern.reports_all:
            before += " A match starts at the earliest row where one is found:"
        if search is not None and search.match is None:
            return [before, *self.start(row, "  ")]
        if search is None:
            other = self.trace.matches[self.trace.passed[row] - 1]
            self.reasons.append(Reason("AFTER_MATCH", row + 1, match.start + 1))
            return [before, f"  match {other.number} {'has' if row in other.rows else 'passes over'} the row."]
        numbers = [str(one.number) for one in self.trace.matches if one.start == row]
        if not numbers:
            return [before, *(f"  {line}" for line in (self.lost(row) if search.matches else [_ONLY_EMPTY]))]
        if len(numbers) == 1:
            return [before, f"  match {numbers[0]} starts here."]
        if len(numbers) > MOST_MATCHES:
            numbers[MOST_MATCHES:] = [f"{len(numbers) - MOST_MATCHES} more"]
        return [before, f"  matches {', '.join(numbers[:-1])} and {numbers[-1]} start here."]

    def _could_follow(self, search: Search, match: Match, decision: Decision, other: Other) -> list[str]:
        name, row = self.question.name(other.variable), decision.row
        if other.verdict == REFUSED and other.preferred:
            if other.reason == "CONDITION":
                ended = self.end_of(match)
                self.reasons.append(self.of_condition(other.variable, ended))
                return [f"  {name} would go on, and does not take row {row + 1}:", *self.condition("next", ended, other.variable, "    ")]
            self.reasons.append(Reason(other.reason, row + 1 if row < self.rows.count else 0, match.start + 1, name))
            ends = "the partition ends" if other.reason == "PARTITION_END" else unplaced(other.reason, row + 1)
            return [f"  {name} would go on; {ends}."]
        if other.verdict == FAILS and other.preferred:
            self.reasons.append(Reason("AFTER_MATCH", row + 1, match.start + 1, name))
            return [f"  {name} takes row {row + 1}, but no match goes on from there."]
        if other.verdict == MATCHES:
            self.reasons.append(Reason("RELUCTANT", row + 1, match.start + 1, name))
            return [f"  {name} could take row {row + 1}, but the pattern prefers to end first: a reluctant quantifier or an earlier alternative."]
        return []

    def expected(self, row: int, expect: str, inside: list[Match], head: str) -> list[str]:
        """Why a row is not a variable; or the condition that lets a match take it as the variable."""
        variable = variable_named(self.question, expect)
        name, all_matches = self.plan.variables[variable], self.trace.pattern.reports_all
        own = next((match for match in inside if match.variable_at(row) == variable), None)
        if own is not None:
            return [f"{head} is {name}.", *self._lets_come(self.end_of(own, row), variable, row)]
        names: dict[str, None] = {}
        given_up: list[int] = []  # start rows whose runs are too many
        missed = self._lost(row, variable) if all_matches else None
        for search in self.trace.searches.values() if missed is None else ():
            if search.start > row:
                break
            try:
                for node, labels in search.below(search.root, (), set()):
                    moves = [move for move in search.moves(node) if move.row == row and move.option.kind == "row"] if node.row <= row else []
                    names.update((self.question.name(move.option.variable), None) for move in moves)
                    option = next((move.option for move in moves if move.option.variable == variable), None)
                    if option is not None:  # runs of later start rows are shorter
                        return [f"{head} is not {name}.", *self._not_taken(search, node, option, labels, row)]
            except Effort:
                given_up.append(search.start)
            search.forget()
            if len(given_up) == MOST_GIVEN_UP:
                break
        if given_up:
            return [f"{head} is not answered.", self._effort(given_up[-1], "")]
        missed = missed if all_matches else self._lost(row, variable)
        if missed is not None:
            return [f"{head} is not {name}.", *self._lets_come(self.end_of(missed, row), variable, row), *self._lost_to(missed, row)]
        reaching = f" The runs that reach it let come {', '.join(names)}." if names else " No run reaches it."
        self.reasons.append(Reason("NO_SUCH_ROW", row + 1, 0, name))
        return [f"{head} is not {name}: no run lets {name} come at this row.{reaching}"]

    def _lets_come(self, ended: Ended, variable: int, row: int) -> list[str]:
        """The condition of a variable at a row after a run that lets it come there."""
        self.reached = ended
        name = self.plan.variables[variable]
        what = f"The run of {row_spans(ended.rows)} ({self.labels(ended.variables)}) lets {name} come here:" if ended.rows else f"As a start row {name} may come first:"
        return [what, *self.condition("expected", ended, variable, "  ", row=row)]

    def _not_taken(self, search: Search, node: Node, option: Option, labels: Labels, row: int) -> list[str]:
        """Why a run does not go on with an option that may take a row after it. ``labels``: the rows of the run."""
        variable, start, name = option.variable, search.start, self.question.name(option.variable)
        rows, variables = tuple(at for at, _ in labels), tuple(label for _, label in labels)
        ended = Ended(start, search.number, tuple(map(search.program.places.index, variables)), variables, rows, (), 0, 0)
        lines = self._lets_come(ended, variable, row)
        reason = search.refused(node, option, row)
        if reason == "CONDITION":
            self.reasons.append(self.of_condition(variable, ended, row))
        elif reason == "NEGATION":
            self.reasons.append(Reason(reason, row + 1, start + 1, name))
            lines += self.skipping.forbidden(search, node, option, row, f"  {name} takes the row, but", "    ")
        elif reason:
            self.reasons.append(Reason(reason, row + 1, start + 1, name))
            lines.append(f"  {self.group(search, option, row, reason)}" if reason != "PARTITION_END" else "  The partition ends.")
        elif search.match is not None and not self.trace.pattern.reports_all and search.leads_to_match((*labels, (row, variable))):
            lines.append(f"  {name} was not tried: {self._preferred(search.match, (*labels, (row, variable)))} and leads to match {search.number}.")
        else:
            self.reasons.append(Reason("AFTER_MATCH", row + 1, start + 1, name))
            lines.append(f"  {name} takes the row, but no match goes on from there.")
        return lines

    def _preferred(self, match: Match, other: Labels) -> str:
        """The choice of a match where it parts from another way of its start row."""
        own, (row, _) = tuple(zip(match.rows, match.variables, strict=True)), other[-1]
        same = next((i for i, (one, its) in enumerate(zip(own, other, strict=False)) if one != its), len(own))
        at, name = (own[same][0], self.question.name(own[same][1])) if same < len(own) else (other[same][0], "")
        self.reasons.append(Reason("PREFERRED", row + 1, match.start + 1, name))
        return f"{name or 'the end of the match'} is preferred {'here' if at == row else f'at row {at + 1}'}"

    # -- question 3: why these rows and variables -----------------------------------------------------------

    def match(self, number: int, *, first: bool = True) -> list[str]:
        """Each decision of a match. ``first``: the answer begins here."""
        match = self.trace.matches[number - 1]
        of = self.of_partition if first else ""
        if not match.variables:
            self.reasons.append(Reason("EMPTY_MATCH", match.start + 1, match.start + 1))
            lines = [f"Match {number}{of} is empty: it starts at {self.row(match.start)} and takes no row."]
        else:
            lines = [f"Match {number}{of} takes {row_spans(match.rows)}: {self.labels(match.variables)}."]
        if self.trace.pattern.reports_all:
            return lines + self.skipping.one_of_all(match)
        names = max((len(self.question.name(variable)) for variable in match.variables), default=0)
        digits = max(2, len(str(match.end)))
        search = self.trace.searches[match.start]
        decisions = list(search.decisions())
        half = MOST_DECISIONS // 2
        for i, decision in enumerate(decisions):
            if len(decisions) > MOST_DECISIONS and half <= i < len(decisions) - half:
                if i == half:
                    lines.append(f"  and {len(decisions) - MOST_DECISIONS} more rows")
                continue
            name = self.question.name(decision.variable) if decision.variable >= 0 else "-" if decision.variable == PASSED else ""
            head = f"  row {decision.row + 1:<{digits}} {name:<{names}}" if name else f"  end{'':<{digits + 1}} {'':<{names}}"
            lines += self._decision(match, decision, head)
        return lines

    def _decision(self, match: Match, decision: Decision, head: str) -> list[str]:
        said: list[tuple[str, list[str]]] = []
        others = sorted(decision.others, key=lambda other: not other.preferred)
        if decision.variable == PASSED:
            return self.skipping.passed(match, decision, head)
        for other in others:
            name = self.question.name(other.variable) if other.variable >= 0 else "the end of the match"
            if other.verdict == REFUSED and other.preferred:
                said.append(self._refused(match, decision, other, name, " " * (len(head) + 4)))
            elif other.verdict == FAILS and other.preferred:
                text = f"{name} comes first and takes the row, but leads to no match"
                if other.ended is not None:
                    text += f": the run ends at row {other.ended.row + 1}" if other.ended.row < self.rows.count else ": the run reaches the partition's end"
                said.append((text, []))
            elif other.verdict == MATCHES:
                said.append((f"preferred to {name}, which would match too", []))
            elif other.verdict == FAILS:
                said.append((f"preferred to {name}; that would lead to no match", []))
        if not said:
            said = [("no other choice" if decision.variable >= 0 else "nothing may follow", [])]
        row = decision.row + 1 if decision.variable >= 0 else 0
        listed = tuple((self.question.name(o.variable) if o.variable >= 0 else "", o.preferred, o.verdict, o.reason) for o in others)
        self.decisions.append(ShownDecision(match.number, row, self.question.name(decision.variable) if row else "", listed))
        lines = []
        for i, (text, more) in enumerate(said):
            lines += [f"{' ' * len(head) if i else head}  {text}", *more]
        return lines

    def _refused(self, match: Match, decision: Decision, other: Other, name: str, indent: str) -> tuple[str, list[str]]:
        row = decision.row
        if other.reason == "CONDITION":
            ended = self.end_of(match, row)
            if decision.variable == -1 and (spots := self.skipping.spots(match, other.variable)) is not None:
                return spots
            self.reasons.append(self.of_condition(other.variable, ended, row))
            return f"{name} comes first, refused:", self.condition("preferred", ended, other.variable, indent, row=row)
        self.reasons.append(Reason(other.reason, row + 1 if row < self.rows.count else 0, match.start + 1, name))
        if other.reason == "NEGATION":
            return f"{name} would come first; a negation forbids {'it' if other.variable < 0 else 'a row before'}", []
        if other.reason == "PARTITION_END":
            return f"{name} would come first; the partition ends", []
        return f"{name} would come first; {unplaced(other.reason, row + 1)}", []
