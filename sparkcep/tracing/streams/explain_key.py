"""Question 5: why a stream has not emitted a match of a key yet.

The answer comes from the stored state of the key. Its released rows are traced from the row where the search resumes. A run that
reaches the last of them is open: a future row may continue it. Rows that the watermark has not released wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from sparkcep.columns.types import type_of
from sparkcep.compiler.emission import FROM_START, MATCH, window_of
from sparkcep.draw.timeline import Bar, Lane, Timeline
from sparkcep.engine.core.operator import last_begin
from sparkcep.engine.core.windows import whole_micros
from sparkcep.engine.stream.inspection import OpenedKey, opened
from sparkcep.engine.stream.keyed_stream import KeyedStream
from sparkcep.engine.stream.sessions import NO_CLOCK
from sparkcep.errors import SEMANTIC, UNSUPPORTED, ClauseError
from sparkcep.plan.options import MICROS, ROWS
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Repeat, Within
from sparkcep.tracing.answers.answer import Shown, ShownRun, Why
from sparkcep.tracing.answers.differs import UNTRUE
from sparkcep.tracing.answers.reasons import Reason
from sparkcep.tracing.answers.values import Values, labels
from sparkcep.tracing.conditions.question import WHY
from sparkcep.tracing.forms.timelines import MOST_BARS, chosen
from sparkcep.tracing.search.program import Option
from sparkcep.tracing.search.runs import Node
from sparkcep.tracing.search.trace import MAX_STEPS, Effort, Match, Search, Trace
from sparkcep.tracing.streams.stored import StoredRows, engine_matches, matches_from
from sparkcep.tracing.streams.times import Times

INSTEAD = 'Ask about a table of the same rows: sparkcep.why(spark, sql, at="..."). A stream returns the matches that a table returns'
NOTHING = "No row came, or all rows are decided. Emitted matches are not stored."
IN_FULL = 3  # matches and asked rows that are answered in full
_SHOWN_ROWS = 20  # rows that wait, as records


@dataclass(frozen=True)
class KeyState:
    """The stored state of a key, and what is known of the stream.

    Attributes:
        state: the state.
        key: the values of PARTITION BY, by their names.
        asked: the stored rows that fulfil the question's condition, () for all.
        batch: the number of the micro-batch that left the state.
        watermark: its watermark in microseconds.
        held: lines about the sources of the watermark, which follow the rows that wait for it.
        late: lines about late rows.
    """

    state: bytes
    key: Mapping[str, object]
    batch: int
    watermark: int
    asked: tuple[int, ...] = ()
    held: tuple[str, ...] = ()
    late: tuple[str, ...] = ()


def check_streamed(plan: Plan) -> None:
    """Raises ClauseError of class WHY for a clause whose state is not explained."""
    approximate, ranking = plan.approximate, plan.ranking
    for there, what in (
        (plan.automaton is not None and plan.changes is None, "an AUTOMATON"), (plan.changes is not None, "REPORT CHANGES"), (plan.budgeted, "a BUDGET"),
        (approximate is not None, "APPROX"), (ranking is not None and ranking.top > 0, "TOP"), (ranking is not None, "PREF"),
        (not plan.adjacent, "an EVENT SELECTION that skips rows"), (plan.reports_all or plan.counting or plan.graphing, "ALL MATCHES"),
    ):  # fmt: skip
        if there:
            raise ClauseError(WHY, f"why does not explain the state of a clause with {what} over a stream. {INSTEAD}", sqlstate=UNSUPPORTED)


def explain_key(
    stream: KeyedStream, of: KeyState, *, words: Mapping[str, object], rows: int, redact: str = "", max_steps: int = MAX_STEPS,
) -> Why:  # fmt: skip
    """Explains the state of a key.

    Args:
        stream: the engine of the clause.
        of: the state.
        words: the arguments of the question as the user gave them.
        rows: the most stored rows that are traced.
        redact: "", "values" or "all".
        max_steps: how many steps a start row may take.

    Raises:
        ClauseError: the clause has an option that is not explained, or the key has too many rows (class WHY).
        MatchRuntimeError: the state is damaged, or the query fails for these rows.
    """
    check_streamed(stream.plan)
    key = opened(stream, of.state)
    count = key.rows.num_rows + len(key.later)
    if count > rows:
        raise ClauseError(WHY, f"The key has {count:,} stored rows, and rows is {rows:,}. Write rows={count}", sqlstate=SEMANTIC)
    emission = stream.engine.task.prepared.strategy.emission
    assert (emission.unit, emission.resume) == (MATCH, FROM_START)
    return _Explained(stream, of, key, Values(redact), dict(words), max_steps).answer()


@dataclass
class _Live:
    """An option of an open run: a future row may be its variable.

    Attributes:
        option: the option.
        labels: the variables of the run's rows.
        places: the places of its rows in the pattern.
        closes: when WINDOW closes in microseconds, None if it is not one of time. Then the engine decides the search.
        within: when the first of its groups with WITHIN closes, None if none bounds it.
    """

    option: Option
    labels: tuple[int, ...]
    places: tuple[int, ...]
    closes: int | None
    within: int | None

    @property
    def last(self) -> int:
        """The place of its last row, -1 without one."""
        return self.places[-1] if self.places else -1


@dataclass
class _Opened:
    """The reasons why the search of a start row is open.

    Attributes:
        live: the options of open runs, preferred ones first.
        waits: whether a condition waits for rows that NEXT reads.
        effort: whether the search needs too many steps.
    """

    live: list[_Live] = field(default_factory=list)
    waits: bool = False
    effort: bool = False

    @property
    def is_open(self) -> bool:
        return bool(self.live) or self.waits or self.effort


class _Explained:
    def __init__(self, stream: KeyedStream, of: KeyState, key: OpenedKey, values: Values, words: dict, max_steps: int) -> None:
        self.stream, self.plan, self.of, self.key, self.values, self.words, self.max_steps = stream, stream.plan, of, key, values, words, max_steps
        self.released = key.rows.num_rows
        self.ahead = stream.engine.task.awaited
        self.partition = " and ".join(f"{name} = {values.text(value, kind='k')}" for name, value in of.key.items())
        self.reasons: list[Reason] = []
        self.shown: list[Shown] = []
        self.run: ShownRun | None = None
        self.taken: dict[int, int] = {}  # the rows of the open run, with their variables
        self.places: tuple[int, ...] = ()  # and their places in the pattern
        self.matches: list[Match] = []
        self.texts = quantified(self.plan)
        self.window = window_of(self.plan)
        times = [] if key.times is None else key.times.tolist()
        sizes = [whole_micros(window.size) for window in self.plan.windows if window.kind == MICROS]
        ends = [at + size for at in times for size in sizes] + ([key.clock + self.plan.idle] if key.clock != NO_CLOCK else [])
        self.time = Times(zone_of(stream), values, [*times, *ends, *key.later.tolist(), *([of.watermark] if of.watermark > 0 else [])])

    # -- the answer -----------------------------------------------------------------------------------------

    def answer(self) -> Why:
        """The whole answer."""
        lines = [self.head()]
        stored = StoredRows(self.plan, self.key.rows)
        cut = bool(self.released) and int(self.key.search.positions(np.array([0, self.released]))[0]) > 0
        if self.released:
            trace = Trace(stored.pattern(cut=cut), stored, max_steps=self.max_steps, search=False)
            matches = matches_from(trace, self.key.search)
            engine = engine_matches(self.plan, self.key.rows, self.key.search)
            traced = [(match.start, match.variables) for match in matches]
            if traced != (engine[: len(traced)] if trace.given_up else engine):
                return self.untrue(traced, engine)
            self.matches = matches
            lines += self.searched(trace, cut)
        lines += self.waiting()
        lines += self.asked()
        if not self.reasons:
            self.reasons.append(Reason("NO_STATE"))
            lines.append("No match is open, and no row waits. Emitted matches are not stored.")
        if self.of.late:
            self.reasons.append(Reason("LATE"))
        lines += self.of.late
        return self.why(True, lines)

    def why(self, verified: bool, lines: Sequence[str]) -> Why:
        return Why(
            self.words, verified, lines[0], tuple(dict.fromkeys(self.reasons)), self.run, tuple(self.shown), rows=tuple(row + 1 for row in self.of.asked), lines=tuple(lines),
            timelines=self.timelines() if verified else (),
        )  # fmt: skip

    def timelines(self) -> tuple[Timeline, ...]:
        """The picture of the stored rows: the open run in its places, the rows that wait, and matches that wait for the run."""
        count, start = self.released + len(self.key.later), min(self.taken, default=0)
        listed = chosen([*self.taken, *range(self.released, count)], count)
        times = [self._time_of(row) for row in listed]
        values = () if None in times else ((self.plan.order[0].name, tuple(self.time(at) for at in times if at is not None)),)
        lanes = [
            Lane(text, frozenset(start + i + 1 for i, taken in enumerate(self.places) if taken == place)) for place, text in enumerate(self.texts)
        ]  # fmt: skip
        waiting = {row + 1: "waits" for row in listed if row >= self.released}
        found = [match for match in self.matches if match.start > max(self.taken, default=-1)]
        bars = [Bar("not emitted", {match.start + i + 1: self.name(v) for i, v in enumerate(match.variables) if match.start + i in listed}) for match in found]
        bars = [bar for bar in bars if bar.labels][:MOST_BARS] + ([Bar("watermark", waiting)] if waiting else [])
        return (
            Timeline(
                f"The stored rows of {self.partition or 'the stream'}", 0, tuple(row + 1 for row in listed), count, values, lanes=tuple(lanes),
                run=tuple(row + 1 for row in self.taken), run_name="open run", bars=tuple(bars),
            ),
        ) if listed else ()  # fmt: skip

    def untrue(self, traced: list[tuple[int, tuple[int, ...]]], engine: list[tuple[int, tuple[int, ...]]]) -> Why:
        """The answer if trace and engine differ: both lists of matches, and no explanation."""
        lines = [UNTRUE]
        for by, matches in (("trace", traced), ("engine", engine)):
            listed = [f"{self.span(start, start + len(labels) - 1)} ({self.labels(labels)})" if labels else f"an empty match at row {start + 1}" for start, labels in matches]
            lines.append(f"  Matches of the {by}: {'; '.join(listed) or 'none'}")
        self.reasons, self.shown, self.run = [], [], None
        return self.why(False, lines)

    def head(self) -> str:
        """The key, the micro-batch, and how many rows are stored."""
        count = self.released + len(self.key.later)
        first, last = (self._time_of(0), self._time_of(count - 1)) if count else (None, None)
        between = "" if first is None or last is None else f", {self.time(first)}" if count == 1 else f", {self.time(first)} to {self.time(last)}"
        of = f"{self.partition}, after" if self.partition else "After"
        stored = "1 row is stored" if count == 1 else f"{count:,} rows are stored" if count else "No row is stored"
        return f"{of} micro-batch {self.of.batch}, watermark {self.watermark()}. {stored}{between}."

    # -- released rows --------------------------------------------------------------------------------------

    def searched(self, trace: Trace, cut: bool) -> list[str]:
        """Lines about the released rows: what is open, and the matches that wait for it."""
        lines, resumed = [], int(self.key.search.start[0])
        if resumed:
            decided = self.rows(0, resumed - 1)
            lines.append(f"{decided} {'is' if resumed == 1 else 'are'} decided, and stored because later rows look back at {'it' if resumed == 1 else 'them'}.")
        ahead = StoredRows(self.plan, self.key.rows, waits=True)
        waiting = Trace(ahead.pattern(cut=cut), ahead, max_steps=self.max_steps, search=False)
        opener, found = -1, _Opened()
        for start, search in sorted(trace.searches.items()):
            found = self.openness(waiting, ahead, start, search.number)
            late = search.match is not None and search.match.end + self.ahead > self.released
            if found.is_open or late:
                opener = start
                lines += self.open_search(search, found)
                break
        for i, match in enumerate(match for match in trace.matches if match.start > opener):
            if i == IN_FULL:
                more = sum(match.start > opener for match in trace.matches) - i
                lines.append(f"{more} more match{'es wait' if more > 1 else ' waits'}, too.")
                break
            self.reasons.append(Reason("OPEN", match.start + 1, match.start + 1))
            lines.append(f"{self.matched(match)} The match is not emitted: the search from row {max(opener, 0) + 1} is undecided.")
        return lines

    def openness(self, trace: Trace, stored: StoredRows, start: int, number: int) -> _Opened:
        """Finds the reasons why the search of a start row is open: runs that reach the last row and come before its match."""
        found = _Opened()
        stored.waited = False
        try:
            search = trace.search(start, number)
            if search.effort:
                raise Effort
            seen: set[Node] = set()
            stack: list[tuple[Node | None, _Path]] = [(search.root, None)]
            while stack:
                node, path = stack.pop()
                if node is None:
                    break  # the match of the start row: runs that come after it are not preferred
                if node in seen:
                    continue
                seen.add(node)
                search.step()
                accepted = dict(search.accepted(node))
                below: list[tuple[Node | None, _Path]] = []
                for option in search.options(node):
                    if option.kind == "end":
                        below.append((None, path))
                        break
                    if option.kind == "row" and node.row == self.released:
                        self.add_live(found.live, search, option, path)
                    elif option in accepted:
                        below.append((accepted[option], (path, option)))
                stack.extend(reversed(below))
        except Effort:
            found.effort = True
        found.waits = stored.waited
        return found

    def add_live(self, live: list[_Live], search: Search, option: Option, path: _Path) -> None:
        """Adds an option of a run that reaches the last released row, unless a window has closed."""
        taken: list[Option] = []
        while path is not None:
            path, before = path
            taken.append(before)
        last = taken[0].place if taken else -1
        if any((one.option.place, one.last) == (option.place, last) for one in live):
            return
        if self.window.kind == ROWS and self.released - search.start >= int(self.window.size):
            return
        closes = None
        if self.window.kind == MICROS:
            begin = self._time_of(search.start)
            if begin is None or begin <= last_begin(self.window, self.of.watermark):
                return
            closes = begin + whole_micros(self.window.size)
        ends = []
        for number, first in search.program.groups(option):
            window, begin = self.plan.windows[number], self._time_of(first)
            if window.kind == MICROS and begin is not None:
                ends.append(begin + whole_micros(window.size))
        taken.reverse()
        live.append(_Live(option, tuple(one.variable for one in taken), tuple(one.place for one in taken), closes, min(ends, default=None)))

    def open_search(self, search: Search, found: _Opened) -> list[str]:
        """Lines about the first start row whose search is undecided."""
        start, match = search.start, search.match
        first = found.live[0] if found.live else None
        self.reasons += [Reason("OPEN", 0, start + 1, self.name(one.option.variable)) for one in found.live] or [Reason("OPEN", 0, start + 1)]
        labels = first.labels if first is not None else match.variables if match is not None else ()
        self.taken = {start + i: variable for i, variable in enumerate(labels)}
        self.places = first.places if first is not None else match.places if match is not None else ()
        self.run = ShownRun(start + 1, len(labels), tuple(map(self.name, labels)), 0)
        self.shown += [self.open_option(start, one) for one in found.live]
        if found.effort:
            self.reasons.append(Reason("EFFORT", start + 1, start + 1))
            return [f"{self.rows(start, start)} may begin a match. The search takes more than {self.max_steps} steps. Raise spark.sparkcep.why.maxSteps, or add a WINDOW."]
        goes_on = f"{self.may(found.live)} {self.until(start, found.live)}." if first is not None else "NEXT reads rows that have not come."
        if match is None:
            runs = f"{self.rows(start, start + len(labels) - 1)} may begin a match: {self.labels(labels)}." if labels else f"{self.rows(start, start)} may begin a match."
            return [f"{runs} {goes_on}"]
        if first is None or labels == match.variables:
            return [f"{self.matched(match)} The match is not emitted: {goes_on}"]
        return [f"{self.matched(match)} The match is not emitted: {self.span(start, start + len(labels) - 1)} may match instead ({self.labels(labels)}), and {goes_on}"]

    def may(self, live: Sequence[_Live]) -> str:
        """The variables that a future row may be."""
        texts = [f"{self.texts[one.option.place]} may {'go on' if one.option.place == one.last else 'come'}" for one in live]
        return " or ".join(dict.fromkeys(texts))

    def until(self, start: int, live: Sequence[_Live]) -> str:
        """How long a future row may come."""
        at, what = 0, ""
        if all(one.closes is not None for one in live):
            at, what = max(one.closes or 0 for one in live), "WINDOW closes"
        session = self.key.clock + self.plan.idle if self.plan.idle and self.key.clock != NO_CLOCK and not len(self.key.later) else None
        if what and session is not None and session < at:
            at, what = session, "the session ends"
        if all(one.within is not None for one in live):
            closing = max(one.within or 0 for one in live)
            decided = f"when {what} at {self.time(at)}" if what else "with the key's next row"
            return f"until WITHIN closes at {self.time(closing)}. The search is decided {decided}"
        if what:
            return f"until {what} at {self.time(at)}"
        limit = f"until WINDOW has {self.window.size} rows" if self.window.kind == ROWS else "with the key's next row"
        return limit if session is None else f"{limit}, unless the session ends before, at {self.time(session)}"

    def open_option(self, start: int, one: _Live) -> Shown:
        """An option as a record: it may come while the first row's time is at most WINDOW ago."""
        begin = self._time_of(start)
        hidden = self.values.redact == "all"
        left, right = (None if hidden or at is None else self.time(at) for at in (begin, one.closes))
        text = self.texts[one.option.place]
        return Shown(self.partition, self.released + 1, start + 1, "open", self.name(one.option.variable), text, left or "", right or "", None, "", False)

    # -- rows that wait -------------------------------------------------------------------------------------

    def waiting(self) -> list[str]:
        """Lines about rows that the watermark has not released."""
        count = len(self.key.later)
        if not count:
            return []
        first, last = self.released, self.released + count - 1
        hidden = self.values.redact == "all"
        for i, at in enumerate(self.key.later.tolist()[:_SHOWN_ROWS]):
            self.reasons.append(Reason("WATERMARK", first + i + 1))
            left, right = ("", "") if hidden else (self.time(at), self.watermark())
            self.shown.append(Shown(self.partition, first + i + 1, 0, "waiting", "", f"{self.plan.order[0].name} <= watermark", left, right, False, "", False))
        waits = "waits: it is not below the watermark." if count == 1 else "wait: they are not below the watermark."
        return [f"{self.rows(first, last)} {waits}", *self.of.held]

    def asked(self) -> list[str]:
        """Lines about the rows that were asked about, if they are not all rows."""
        lines = []
        asked = self.of.asked if len(self.of.asked) < self.released + len(self.key.later) else ()
        for row in asked[:IN_FULL]:
            if row in self.taken:
                lines.append(f"{self.rows(row, row)} is {self.name(self.taken[row])} there.")
            elif int(self.key.search.start[0]) <= row < self.released:
                lines.append(f"{self.rows(row, row)} is in no open run" + (f": the search from row {min(self.taken) + 1} is undecided." if self.taken else "."))
        return lines

    # -- names ----------------------------------------------------------------------------------------------

    def name(self, variable: int) -> str:
        return self.plan.variables[variable]

    def labels(self, variables: Sequence[int]) -> str:
        """The names of variables; more than three equal ones as a number."""
        return labels([self.name(variable) for variable in variables])

    def span(self, first: int, last: int) -> str:
        return f"row {first + 1}" if first == last else f"rows {first + 1}-{last + 1}"

    def rows(self, first: int, last: int) -> str:
        """Rows at the beginning of a sentence, with their times."""
        text, times = self.span(first, last).capitalize(), [self._time_of(first), self._time_of(last)]
        if None in times:
            return text
        shown = [self.time(at) for at in times if at is not None]
        return f"{text} ({shown[0] if first == last else (', ' if last == first + 1 else ' to ').join(shown)})"

    def matched(self, match: Match) -> str:
        if not match.variables:
            return f"{self.rows(match.start, match.start)} begins an empty match."
        return f"{self.rows(match.start, match.end - 1)} match{'es' if len(match.variables) == 1 else ''}: {self.labels(match.variables)}."

    def watermark(self) -> str:
        return self.time(self.of.watermark) if self.of.watermark > 0 else "not known yet"

    def _time_of(self, row: int) -> int | None:
        """The time of a stored row, None if it is not stored."""
        if row >= self.released:
            return int(self.key.later[row - self.released])
        return None if self.key.times is None else int(self.key.times[row])


_Path: TypeAlias = "tuple[_Path, Option] | None"  # the options of a run, last row first


def quantified(plan: Plan) -> list[str]:
    """The text of each place of the pattern, in the order of :class:`Program`: its variable with its own quantifier, such as F+."""
    texts: list[str] = []

    def walk(tree: tuple, suffix: str) -> None:
        if tree[0] == "var":
            texts.append(plan.variables[tree[1]] + suffix)
        elif isinstance(tree, Repeat):
            walk(tree.item, _suffix(tree))
        elif isinstance(tree, Within):
            walk(tree.item, "")
        else:
            for part in tree[1:]:
                if isinstance(part, tuple):
                    walk(part, "")

    walk(plan.pattern, "")
    return texts


def _suffix(of: Repeat) -> str:
    known = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    high = "" if of.high is None else of.high
    text = known.get((of.low, of.high)) or (f"{{{of.low}}}" if of.low == of.high else f"{{{of.low or ''},{high}}}")
    return text + ("" if of.greedy else "?")


def zone_of(stream: KeyedStream) -> str | None:
    """The zone of the times of a stream, None if they have none (TIMESTAMP_NTZ)."""
    return stream.plan.zone if type_of(stream.schema.field(stream.order[0]).type).kind == "timestamp" else None


def no_state(at: str | None, batch: int, watermark: str, late: Sequence[str], words: Mapping[str, object]) -> Why:
    """The answer if no stored row fulfils ``at``, or if there are none."""
    first = f"No {'row is stored' if at is None else f'stored row fulfils {at}'}, after micro-batch {batch}, watermark {watermark}."
    reasons = (Reason("NO_STATE"), *([Reason("LATE")] if late else []))
    return Why(dict(words), True, first, reasons, lines=(first, NOTHING, *late))
