"""Answers the question about a whole table: how often comparisons are true, how far runs get, and which comparison stops them.

The counts of comparisons are over all rows. Everything else comes from traces of whole partitions, all of them or a sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow.compute as pc

from sparkcep.clause.tree import EventSelection
from sparkcep.draw.timeline import Timeline
from sparkcep.engine.factory import match_table
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.plan.build import drafted
from sparkcep.plan.facts import shown as without_exclusions
from sparkcep.plan.plan import Plan
from sparkcep.settings import Settings
from sparkcep.tracing.answers.answer import Why
from sparkcep.tracing.answers.change import alone
from sparkcep.tracing.answers.explain import UNTRUE
from sparkcep.tracing.answers.near import EXTRA, Miss, nearest_miss
from sparkcep.tracing.answers.values import Values, truth
from sparkcep.tracing.answers.without import without
from sparkcep.tracing.conditions.comparisons import combined
from sparkcep.tracing.conditions.question import Question, is_literal
from sparkcep.tracing.forms.lines import BAR, COUNTER, Line
from sparkcep.tracing.forms.timelines import Timelines
from sparkcep.tracing.rows.frozen import FrozenRows
from sparkcep.tracing.rows.verify import NUMBER, differences, engine_plan, matches_changed, matches_of
from sparkcep.tracing.search.runs import Ended
from sparkcep.tracing.search.trace import MAX_STEPS, Effort, SkipTarget, Trace

MOST_CULPRITS = 10  # that are tried
SHOWN = 3  # culprits, and near misses
NEAR_STEPS = 200_000  # of all start rows
MOST_COMPARISONS = 60
_BAR = 20
_ENDS = {"PARTITION_END": "the partition ended", "WINDOW": "WINDOW", "NULL_TIME": "a time was NULL", "GROUP_WINDOW": "WITHIN", "ANCHOR": "an anchor"}


@dataclass(frozen=True)
class Totals:
    """Counts over all rows of the clause's input.

    Attributes:
        rows, partitions: their numbers.
        truths: for comparisons that Spark computes, how often each is true, false and NULL.
        ties: rows that are equal to another one in PARTITION BY and ORDER BY.
        single: partitions of one row.
        null_keys: rows with a NULL key.
    """

    rows: int
    partitions: int
    truths: Mapping[int, tuple[int, int, int]] = field(default_factory=dict)
    ties: int = 0
    single: int = 0
    null_keys: int = 0


def overall(parts: Sequence[FrozenRows], totals: Totals, settings: Settings, *, words: Mapping[str, object], redact: str = "", max_steps: int = MAX_STEPS, hints: Sequence[str] = ()) -> Why:
    """Answers the question.

    Args:
        parts: the traced partitions, at least one.
        totals: counts over all rows.
        settings: the session's settings.
        words: the arguments of the question.
        redact: "", "values" or "all".
        max_steps: how many steps a start row may take.
        hints: further hints.
    """
    return _Overall(parts, totals, settings, Values(redact), max_steps).answer(words, hints)


class _Overall:
    def __init__(self, parts: Sequence[FrozenRows], totals: Totals, settings: Settings, values: Values, max_steps: int) -> None:
        self.parts, self.totals, self.settings, self.values, self.max_steps = parts, totals, settings, values, max_steps
        self.question: Question = parts[0].question
        self.traces = [Trace(part.pattern(), part, max_steps=max_steps) for part in parts]
        self.searches = [(part, search) for part, trace in zip(parts, self.traces, strict=True) for search in trace.searches.values()]
        self.failed = [(part, search) for part, search in self.searches if search.match is None and not search.effort]
        self.matches = sum(len(trace.matches) for trace in self.traces)
        self.missed: list[tuple[FrozenRows, Trace]] = []  # the partition of each near miss

    def answer(self, words: Mapping[str, object], more: Sequence[str]) -> Why:
        for part, trace in zip(self.parts, self.traces, strict=True):
            engine = matches_of(self.question.plan, part.table)
            if differences(trace.matches, engine[: len(trace.matches)] if trace.given_up else engine):
                return Why(dict(words), False, UNTRUE, lines=(UNTRUE,))
        ends, blamed = self.endings()
        culprits = self.culprits(blamed)
        if culprits is None:
            return Why(dict(words), False, UNTRUE, lines=(UNTRUE,))
        hints, near = [*self.hints(), *more], self.near()
        hints += [] if self.matches else without(self.question, self.parts, self.settings)
        lines = [self.first(), *self.counters(), *self.funnel()]
        if ends:
            lines.append("They ended because " + ", ".join(f"{why} ({count})" for why, count in ends.most_common()) + ".")
        for i, (matches, starts, number, wanted) in enumerate(culprits[:SHOWN]):
            comparison = self.question.comparisons[number]
            would = f"were it always {truth(wanted)}, there would be {_counted(matches, 'match')}."
            lines.append(f'{"Culprit" if i == 0 else "Then"}: "{comparison.text}" of {self.question.name(comparison.variable)} alone stops {_counted(starts, "start row")}; {would}')
        lines += hints
        timelines = self.pictures(near[:SHOWN], len(lines) + 1)
        lines += self.misses(near)
        return Why(
            dict(words), True, lines[0], funnel=tuple(self.reached()), hints=tuple(hints), near=tuple(near), lines=tuple(lines), timelines=tuple(timelines),
            culprits=tuple((self.question.comparisons[number].text, starts, matches) for matches, starts, number, _ in culprits[:SHOWN]),
        )

    # -- parts of the answer ----------------------------------------------------------------------------------

    def first(self) -> str:
        rows = sum(part.count for part in self.parts)
        found = f"{_counted(self.matches, 'match').replace('0 matches', 'No match')} in {rows:,} rows of {_counted(len(self.parts), 'partition')}."
        if len(self.parts) < self.totals.partitions or rows < self.totals.rows:
            found += f" Sample: {len(self.parts)} of {self.totals.partitions:,} partitions."
        return found

    def counters(self) -> Iterator[str]:
        listed = self.question.comparisons[:MOST_COMPARISONS]
        if not listed:
            return
        rows = []
        before = -1
        for comparison in listed:
            known = self.totals.truths.get(comparison.number)
            counts = known or self.asked(comparison.number, comparison.variable)
            note = "" if known else "looks at the match: counted where it was asked"
            if known and self.totals.rows:
                true, false, null = known
                note = "NULL for all rows" if null == self.totals.rows else "never true" if not true else "always true" if true == self.totals.rows else ""
            name = self.question.name(comparison.variable) if comparison.variable != before else ""
            before = comparison.variable
            rows.append((name, comparison.text, *map(str, counts), note))
        widths = [max([len(row[i]) for row in rows] + [len(head)]) for i, head in enumerate(("", "", "true", "false", "NULL"))]
        yield "Conditions, over all rows:"
        for row in [("", "", "true", "false", "NULL", ""), *rows]:
            text = f"  {row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:>{widths[3]}}  {row[4]:>{widths[4]}}  {row[5]}".rstrip()
            yield text if row[2] == "true" else Line.of(text, COUNTER, row, marked=row[5] in ("never true", "NULL for all rows"))

    def asked(self, number: int, variable: int) -> tuple[int, int, int]:
        """How often a comparison was true, false and NULL where the searches asked it."""
        found: Counter[bool | None] = Counter()
        for part, search in self.searches:
            seen = set()
            try:
                for node, _ in search.explored():
                    taken = next((taken for at, taken in search.path if at == node), None)
                    for option in search.options(node):
                        if option.variable == variable and node.row < part.count and node.run not in seen and not search.outside(option, node.row):
                            seen.add(node.run)
                            found[part.truth(number, node.row, node.run)] += 1
                        if option == taken:
                            break
            except Effort:
                continue
        return found[True], found[False], found[None]

    def reached(self) -> Iterator[tuple[str, int]]:
        """The places, shallowest first, each with the number of start rows that have a run with it; then the matches."""
        program = self.traces[0].pattern.program
        counts = [0] * len(program.places)
        done = 0
        for _, search in self.searches:
            try:
                places = search.reached()
            except Effort:
                continue
            done += search.match is not None
            for place in range(len(counts)):
                counts[place] += places >> place & 1
        for place in sorted(range(len(counts)), key=lambda place: (program.depths[place], place)):
            yield self.question.name(program.places[place]), counts[place]
        yield "a match", done

    def funnel(self) -> Iterator[str]:
        reached, starts = list(self.reached()), len(self.searches)
        yield f"How far the runs of {_counted(starts, 'start row')} got:"
        width = max(len(name) for name, _ in reached)
        for name, count in reached:
            share = count / max(1, starts)
            yield Line.of(f"  {name:<{width}}  {count:>4}  {'#' * round(_BAR * share)}".rstrip(), BAR, (name, f"{count:,}"), share=share)

    def endings(self) -> tuple[Counter[str], Counter[tuple[int, bool]]]:
        """Why farthest runs ended, and for each change that would let one go on the number of start rows."""
        ends: Counter[str] = Counter()
        blamed: Counter[tuple[int, bool]] = Counter()
        for part, search in self.failed:
            try:
                ended = search.farthest()
            except Effort:
                continue
            if ended is None:
                continue
            options = search.next(ended)
            refused = dict.fromkeys(option.variable for option, reason in options if reason == "CONDITION")
            if not refused:
                reasons = [reason for _, reason in options if reason]
                ends[_ENDS[reasons[0]] if reasons else _ENDS["ANCHOR"]] += 1
                continue
            wholes = [self.whole(part, ended, variable) for variable in refused]
            ends["a condition was NULL" if None in wholes else "a condition was false"] += 1
            blamed.update({change for variable in refused for change in alone(part, variable, ended.row, ended)})
        return ends, blamed

    def whole(self, part: FrozenRows, ended: Ended, variable: int) -> bool | None:
        """The truth of a variable's condition at the row where a run ended."""
        run = ended.taken()
        return combined(self.question.conditions[variable], lambda number: part.truth(number, ended.row, run))

    def culprits(self, blamed: Counter[tuple[int, bool]]) -> list[tuple[int, int, int, bool]] | None:
        """(matches if it were always so, start rows, comparison, truth) of each culprit, most matches first.

        None if the engine finds other matches than a trace.
        """
        found = []
        for (number, wanted), starts in blamed.most_common(MOST_CULPRITS):
            changed = {(number, None): wanted}
            matches = 0
            try:
                for part, trace in zip(self.parts, self.traces, strict=True):
                    again = Trace(trace.pattern, part, changed, max_steps=self.max_steps)
                    if again.given_up:
                        raise Effort
                    if differences(again.matches, matches_changed(self.question, part.table, changed)):
                        return None
                    matches += len(again.matches)
            except (SkipTarget, Effort, MatchRuntimeError):
                continue  # the changed query fails, or is too much work
            found.append((matches, starts, number, wanted))
        return sorted(found, key=lambda one: (-one[0], -one[1]))

    # -- hints and near misses ----------------------------------------------------------------------------------

    def hints(self) -> Iterator[str]:
        totals = self.totals
        if totals.ties:
            yield f"Hint: {_counted(totals.ties, 'row')} equal to another row in PARTITION BY and ORDER BY, so their order depends on chance."
        if totals.partitions > 1 and totals.single == totals.partitions:
            yield f"Hint: each of the {totals.partitions:,} partitions is one row. PARTITION BY may name a column that differs in every row."
        if totals.null_keys:
            yield f"Hint: {_counted(totals.null_keys, 'row')} with a NULL key in PARTITION BY; such rows are one partition."
        yield from self.only_case()
        if not self.matches and not self.question.plan.windows:
            count = self.skipping()
            if count:
                yield f"With EVENT SELECTION SKIP TILL NEXT MATCH there would be {_counted(count, 'match')}: rows between are passed over."

    def only_case(self) -> Iterator[str]:
        """Comparisons with a text that differs from the column's values in case or blanks alone."""
        for comparison in self.question.comparisons:
            expr = comparison.expr.bare()
            counts = self.totals.truths.get(comparison.number)
            if expr.op != "bin" or expr.value != "=" or counts is None or counts[0] or len(comparison.sides) != 1 or not is_literal(expr.args[1]):
                continue
            text = expr.args[1].span.of(self.question.clause.text)
            column = self.question.values[comparison.sides[0]]
            if not (text.startswith("'") and text.endswith("'") and column.column):
                continue
            wanted = text[1:-1].strip().lower()
            found = Counter(v for part in self.parts for v in part.column(column.column) if isinstance(v, str) and v.strip().lower() == wanted)
            for value, count in found.most_common(1):
                yield f"Hint: {column.text} is never {text}; it is {self.values.text(value)} in {_counted(count, 'row')}. They differ only in case or blanks."

    def skipping(self) -> int:
        """The sample's number of matches under SKIP TILL NEXT MATCH, 0 if the clause cannot have it."""
        clause = replace(self.question.clause, measures=(), rows="show", selection=EventSelection("NEXT"))
        try:
            plan = drafted(clause, settings=self.settings).plan
        except ClauseError:
            return 0
        if not set(plan.inputs) <= set(self.question.plan.inputs) or plan.letters != self.question.plan.letters or plan.ordered_inputs:
            return 0
        try:
            return sum(_matches(plan, part) for part in self.parts)
        except MatchRuntimeError:
            return 0

    def near(self) -> list[Miss]:
        found, left = [], NEAR_STEPS
        for part, search in self.failed:
            if left <= 0:
                break
            miss, steps = nearest_miss(search)
            left -= steps
            if miss is not None:
                found.append(miss)
                self.missed.append((part, search.trace))
        return found

    def pictures(self, near: list[Miss], line: int) -> Iterator[Timeline]:
        """The timelines of near misses, whose texts begin at ``line``."""
        for i, (miss, text) in enumerate(zip(near, list(self.misses(near))[1:], strict=True)):
            part, trace = self.missed[i]
            names = [self.question.name(variable) if variable != EXTRA else "" for variable in miss.variables]
            labels = {row: name for row, name in enumerate(names, miss.start) if name}
            wrong = {max(miss.row, miss.start) if miss.error == "missing" else miss.row: text.partition("; ")[2]}
            pictures = Timelines(part, trace, lambda value: self.values.text(value, quoted=False), self.values.redact)
            yield pictures.of_way(line + i, text.strip(), labels, wrong)

    def misses(self, near: list[Miss]) -> Iterator[str]:
        if near:
            yield "Nearest misses (one error):"
        for miss in near[:SHOWN]:
            last = miss.start + len(miss.variables)
            rows = f"row {miss.start + 1}" if len(miss.variables) <= 1 else f"rows {miss.start + 1}-{last}"
            labels = " ".join("-" if variable == EXTRA else self.question.name(variable) for variable in miss.variables)
            name = self.question.name(miss.variable) if miss.variable >= 0 else ""
            error = {"taken": f"row {miss.row + 1} taken as {name}", "missing": f"{name} missing after row {miss.row + 1}", "extra": f"row {miss.row + 1} is one too many"}
            yield f"  {rows}: {labels}; {error[miss.error]}"
        if len(near) > SHOWN:
            yield f"  and {len(near) - SHOWN} more"


def _matches(plan: Plan, part: FrozenRows) -> int:
    """The number of matches of a plan in a partition."""
    found = match_table(replace(engine_plan(plan), pattern=without_exclusions(plan.pattern)), part.table)
    return pc.count_distinct(found[NUMBER]).as_py()


def _counted(count: int, what: str) -> str:
    plural = f"{what}es" if what.endswith("ch") else f"{what}s"
    return f"{count:,} {what if count == 1 else plural}"

