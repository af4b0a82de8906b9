"""Answers the question about a whole table: how often comparisons are true, how far runs get, and which comparison stops them.

The counts of comparisons are over all rows. Everything else comes from traces of whole partitions, all of them or a sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from sparkcep.draw.timeline import Timeline
from sparkcep.errors import MatchRuntimeError
from sparkcep.garbage_collection import few_collections
from sparkcep.settings import Settings
from sparkcep.tracing.answers.answer import Why
from sparkcep.tracing.answers.change import Spot, alone, closest
from sparkcep.tracing.answers.differs import unconfirmed, untrue
from sparkcep.tracing.answers.hints import Hints, Totals, without
from sparkcep.tracing.answers.reasons import Reason
from sparkcep.tracing.answers.unfinished import unfinished_counts
from sparkcep.tracing.answers.values import Values, counted, truth
from sparkcep.tracing.conditions.collector import Comparison
from sparkcep.tracing.conditions.comparisons import combined
from sparkcep.tracing.conditions.question import Question
from sparkcep.tracing.forms.lines import bars, counters, note_of
from sparkcep.tracing.forms.timelines import Timelines
from sparkcep.tracing.rows.frozen import FrozenRows
from sparkcep.tracing.rows.sides import Side, has_sides, sides_of
from sparkcep.tracing.rows.verify import compared, matches_changed, traced
from sparkcep.tracing.search.near import EXTRA, Miss, nearest_miss
from sparkcep.tracing.search.runs import Ended, Run
from sparkcep.tracing.search.trace import MAX_STEPS, Effort, SkipTarget, Trace

MOST_CULPRITS = 10  # that are tried
SHOWN = 3  # culprits, and near misses
NEAR_STEPS = 200_000  # of all start rows
MOST_COMPARISONS = 60
MOST_ASKED = 20_000  # states where comparisons that look at the match are counted
MOST_LATER = 20  # rows after a run whose conditions are looked at
_ENDS = {"PARTITION_END": "the partition ended", "WINDOW": "WINDOW", "NULL_TIME": "a time was NULL", "GROUP_WINDOW": "WITHIN", "ANCHOR": "an anchor", "NEGATION": "a negation"}


@few_collections()
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


def found_line(matches: int, parts: Sequence[FrozenRows], totals: Totals) -> str:
    """The line with the number of matches in the searched partitions. ``totals``: counts over all rows."""
    rows = sum(part.count for part in parts)
    found = f"{counted(matches, 'match') if matches else 'No match'} in {rows:,} rows of {counted(len(parts), 'partition')}."
    if len(parts) < totals.partitions or rows < totals.rows:
        found += f" Sample: {len(parts)} of {totals.partitions:,} partitions."
    return found


class _Overall:
    def __init__(self, parts: Sequence[FrozenRows], totals: Totals, settings: Settings, values: Values, max_steps: int) -> None:
        self.parts, self.totals, self.settings, self.values, self.max_steps = parts, totals, settings, values, max_steps
        self.question: Question = parts[0].question
        self.sides = [sides_of(part, max_steps) for part in parts] if has_sides(self.question.plan) else None
        self.traces = [Trace(part.pattern(), part, max_steps=max_steps, search=self.sides is None) for part in parts]
        self.searches = [(part, search) for part, trace in zip(parts, self.traces, strict=True) for search in trace.searches.values()]
        self.failed = [(part, search) for part, search in self.searches if search.match is None and not search.effort]
        self.adjacent = self.question.plan.adjacent
        self.matches = 0  # of the engine
        self.given_up = any(trace.given_up for trace in self.traces)
        self.missed: list[tuple[FrozenRows, Trace]] = []  # the partition of each near miss
        self.followed = 0  # start rows whose runs were all looked at

    def sided(self, words: Mapping[str, object], more: Sequence[str], sides: Sequence[Sequence[Side]]) -> Why:
        """The answer for a pattern with ``&``: the number of matches, and how often each side matches by itself."""
        if any(side.differences() for part in sides for side in part):
            return unconfirmed(self.parts[0], words)
        self.matches = sum(len(part.matches()) for part in self.parts)
        lines, rows = [found_line(self.matches, self.parts, self.totals), *self.counters()], sum(part.count for part in self.parts)
        if sides[0]:
            lines.append("Each side of & by itself:")
        for number, side in enumerate(sides[0]):
            names = " and ".join(self.question.name(variable) for variable in sorted(side.variables))
            starts = sum(len(part[number].trace.matches) for part in sides)
            is_whole = not any(part[number].trace.given_up for part in sides)
            lines.append(f"  side of {names}: " + (f"a match starts at {starts} of {counted(rows, 'row')}" if is_whole else "too many steps to count its matches"))
        hints = [*Hints(self.parts, self.totals, self.settings, self.values, self.matches).found(), *more]
        hints += [] if self.matches else without(self.question, self.parts, self.settings)
        return Why(dict(words), True, lines[0], hints=tuple(hints), lines=(*lines, *hints))

    def answer(self, words: Mapping[str, object], more: Sequence[str]) -> Why:
        if self.sides is not None:
            return self.sided(words, more, self.sides)
        self.matches = 0
        for part, trace in zip(self.parts, self.traces, strict=True):
            engine = part.matches()
            if wrong := compared(trace, engine):
                return untrue(part, words, traced(trace), engine, wrong)
            self.matches += len(engine)
        ends, blamed = self.endings()
        for trace in self.traces:
            trace.shared.clear()  # what farthest runs share is not needed any more
        culprits = self.culprits(blamed, words)
        if isinstance(culprits, Why):
            return culprits
        found = Hints(self.parts, self.totals, self.settings, self.values, self.matches, searches=not self.given_up)
        hints, near = [*found.found(), *more], self.near()
        hints += [] if self.matches or self.given_up else without(self.question, self.parts, self.settings)
        reached = tuple(self.reached())
        lines = [found_line(self.matches, self.parts, self.totals), *self.effort(), *self.counters()]
        lines += [f"How far the runs of {counted(self.followed, 'start row')} got:", *bars(reached, self.followed)]
        if ends:
            lines.append("They ended because " + ", ".join(f"{why} ({count})" for why, count in ends.most_common()) + ".")
        if self.question.unfinished is not None and self.question.unfinished.unfinished is not None:
            lines += unfinished_counts(self.question.unfinished.unfinished, self.totals.unfinished)
        for i, (matches, starts, number, wanted) in enumerate(culprits[:SHOWN]):
            comparison = self.question.comparisons[number]
            would = f"were it always {truth(wanted)}, there would be {counted(matches, 'match')}."
            lines.append(f'{"Culprit" if i == 0 else "Then"}: "{comparison.text}" of {self.question.name(comparison.variable)} alone stops {counted(starts, "start row")}; {would}')
        lines += hints
        timelines = self.pictures(near[:SHOWN], len(lines) + 1)
        lines += self.misses(near)
        return Why(
            dict(words), True, lines[0], (Reason("EFFORT"),) if self.given_up else (), funnel=reached, hints=tuple(hints), near=tuple(near),
            lines=tuple(lines), timelines=tuple(timelines), culprits=tuple((self.question.comparisons[number].text, starts, matches) for matches, starts, number, _ in culprits[:SHOWN]),
        )

    # -- parts of the answer ----------------------------------------------------------------------------------

    def effort(self) -> Iterator[str]:
        """The line which says that not all start rows were searched."""
        if self.given_up:
            yield f"Traces end after {counted(len(self.searches), 'start row')}, because further ones take too many steps. Raise spark.sparkcep.why.maxSteps, or add a WINDOW."

    def counters(self) -> Iterator[str]:
        listed = self.question.comparisons[:MOST_COMPARISONS]
        of_match = self.asked([comparison for comparison in listed if comparison.number not in self.totals.truths])
        taken = set(self.traces[0].pattern.program.places)
        rows = []
        before = -1
        for comparison in listed:
            known = self.totals.truths.get(comparison.number)
            if known is None and (self.sides is not None or comparison.variable not in taken):
                continue  # the finished match judges it
            counts = known or of_match[comparison.number]
            note = note_of(known, self.totals.rows) if known else "looks at the match: counted where it was asked"
            name = self.question.name(comparison.variable) if comparison.variable != before else ""
            before = comparison.variable
            rows.append((name, comparison.text, *map(str, counts), note))
        return counters("Conditions, over all rows:", rows)

    def asked(self, listed: Sequence[Comparison]) -> dict[int, tuple[int, int, int]]:
        """How often comparisons that look at the match were true, false and NULL where the searches asked them.

        At most MOST_ASKED states are visited, first start rows first.
        """
        by_variable: dict[int, list[int]] = {}
        for comparison in listed:
            by_variable.setdefault(comparison.variable, []).append(comparison.number)
        found: dict[int, Counter[bool | None]] = {comparison.number: Counter() for comparison in listed}
        left = MOST_ASKED
        for part, search in self.searches if by_variable else ():
            if left <= 0:
                break
            seen: set[tuple[int, Run]] = set()
            try:
                for node, _, taken in search.explored():
                    left -= 1
                    if left <= 0:
                        break
                    for option, row in search.moves(node):
                        key = option.variable, row, node.run
                        if option.variable in by_variable and row < part.count and key not in seen and not search.outside(option, row):
                            seen.add(key)
                            for number in by_variable[option.variable]:
                                found[number][part.known_truth(number, row, node.run)] += 1
                        if (option, row) == taken:
                            break
            except Effort:
                pass
            search.forget()
        return {number: (counts[True], counts[False], counts[None]) for number, counts in found.items()}

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
            self.followed += 1
            done += search.match is not None
            for place in range(len(counts)):
                counts[place] += places >> place & 1
        for place in sorted(range(len(counts)), key=lambda place: (program.depths[place], place)):
            yield self.question.name(program.places[place]), counts[place]
        yield "a match", done

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
            refused = closest(part, search, ended, MOST_LATER)
            if not refused:
                reasons = [reason for _, reason in search.next(ended) if reason]
                reason = reasons[0] if reasons else "NEGATION" if search.pattern.negations else "ANCHOR"
                ends[_ENDS[reason] if reason != "PARTITION_END" or part.is_whole else "the sample ended"] += 1
                continue
            wholes = [self.whole(part, ended, spot) for spot in refused]
            ends["a condition was NULL" if None in wholes else "a condition was false"] += 1
            blamed.update({change for spot in refused for change in alone(part, spot.variable, spot.row, ended)})
        return ends, blamed

    def whole(self, part: FrozenRows, ended: Ended, spot: Spot) -> bool | None:
        """The truth of a variable's condition at a row after a run."""
        run = ended.seen(spot.variable in self.question.looks)
        return combined(self.question.conditions[spot.variable], lambda number: part.known_truth(number, spot.row, run))

    def culprits(self, blamed: Counter[tuple[int, bool]], words: Mapping[str, object]) -> list[tuple[int, int, int, bool]] | Why:
        """(matches if it were always so, start rows, comparison, truth) of each culprit, most matches first.

        If the engine finds other matches than a trace, the answer that says so.
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
                    engine = matches_changed(self.question, part.table, changed)
                    if wrong := compared(again, engine):
                        change = f'"{self.question.comparisons[number].text}" {truth(wanted)} at all rows'
                        return untrue(part, words, traced(again), engine, wrong, change=change)
                    matches += len(again.matches)
            except (SkipTarget, Effort, MatchRuntimeError):
                continue  # the changed query fails, or is too much work
            found.append((matches, starts, number, wanted))
        return sorted(found, key=lambda one: (-one[0], -one[1]))

    # -- near misses -------------------------------------------------------------------------------------------

    def near(self) -> list[Miss]:
        found, left = [], NEAR_STEPS if self.adjacent else 0
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
            missing = f"after row {miss.row + 1}" if miss.row >= miss.start else f"before row {miss.start + 1}"
            error = {"taken": f"row {miss.row + 1} taken as {name}", "missing": f"{name} missing {missing}", "extra": f"row {miss.row + 1} is one too many"}
            yield f"  {rows}: {labels}; {error[miss.error]}"
        if len(near) > SHOWN:
            yield f"  and {len(near) - SHOWN} more"
