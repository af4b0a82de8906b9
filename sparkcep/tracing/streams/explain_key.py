"""Question 5: why a stream has not emitted a match of a key yet.

The answer comes from the stored state of the key. Its released rows are traced from the row where the search resumes. A run that
reaches the last of them is open: a future row may continue it. Rows that the watermark has not released wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sparkcep.clause.nodes import quantifier
from sparkcep.columns.types import type_of
from sparkcep.compiler.emission import FROM_START, MATCH, window_of
from sparkcep.draw.timeline import Bar, Lane, Timeline
from sparkcep.engine.core.windows import whole_micros
from sparkcep.engine.match.early_emission import MANY_ROWS, SHARE
from sparkcep.engine.stream.inspection import OpenedKey, opened
from sparkcep.engine.stream.keyed_stream import KeyedStream
from sparkcep.engine.stream.sessions import NO_CLOCK
from sparkcep.errors import SEMANTIC, UNSUPPORTED, ClauseError
from sparkcep.plan.options import MICROS, ROWS
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Repeat, Within, has
from sparkcep.tracing.answers.answer import Shown, ShownRun, Why
from sparkcep.tracing.answers.differs import UNTRUE
from sparkcep.tracing.answers.reasons import Reason
from sparkcep.tracing.answers.values import Values, counted, labels, row_spans
from sparkcep.tracing.conditions.question import WHY, too_many_orders
from sparkcep.tracing.forms.timelines import MOST_BARS, chosen
from sparkcep.tracing.rows.unfinished import OPEN as RUN_OPEN
from sparkcep.tracing.search.trace import MAX_STEPS, Effort, Found, Match, Search, Trace
from sparkcep.tracing.streams.openness import Live, Opened, Openness
from sparkcep.tracing.streams.stored import StoredRows, agree, engine_matches, matches_from
from sparkcep.tracing.streams.times import Times
from sparkcep.tracing.streams.unfinished_runs import KeyRuns
from sparkcep.tracing.streams.unfinished_text import StreamedText

INSTEAD = 'Ask about a table of the same rows: sparkcep.why(spark, sql, at="..."). A stream returns the matches that a table returns'
_EMITTED = {False: "Emitted matches are not stored.", True: "Emitted matches and emitted unfinished matches are not stored."}
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
    approximate, ranking, orders = plan.approximate, plan.ranking, too_many_orders(plan)
    for there, what in (
        (plan.automaton is not None and plan.changes is None, "an AUTOMATON"), (plan.changes is not None, "REPORT CHANGES"), (plan.budgeted, "a BUDGET"),
        (approximate is not None, "APPROX"), (ranking is not None and ranking.top > 0, "TOP"), (ranking is not None, "PREF"),
        (has(plan.pattern, "and"), "&"), (plan.counting or plan.graphing, "MATCH_COUNT() or MATCH_GRAPH()"), (orders != "", orders),
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
        self.opener = -1  # the first start row whose search is undecided
        self.listed: set[int] = set()  # start rows of unfinished matches that have a line
        self.texts = quantified(self.plan)
        self.window = window_of(self.plan)
        self.unfinished = StreamedText(self, KeyRuns(stream, key, of.watermark)) if self.plan.unfinished is not None else None
        times = [] if key.times is None else key.times.tolist()
        sizes = [whole_micros(window.size) for window in self.plan.windows if window.kind == MICROS]
        later = key.later.tolist()
        predicted = later if self.plan.unfinished is not None else []  # rows that wait, with the windows that they begin
        ends = [at + size for at in (*times, *predicted) for size in sizes] + [at + self.plan.idle for at in (key.clock, *predicted) if self.plan.idle and at != NO_CLOCK]
        self.time = Times(zone_of(stream), values, [*times, *ends, *later, *([of.watermark] if of.watermark > 0 else [])])

    # -- the answer -----------------------------------------------------------------------------------------

    def answer(self) -> Why:
        """The whole answer."""
        lines = [self.head()]
        stored = StoredRows(self.plan, self.key.rows)
        cut = bool(self.released) and int(self.key.search.positions(np.array([0, self.released]))[0]) > 0
        trace = None
        if self.released:
            trace = Trace(stored.pattern(cut=cut), stored, max_steps=self.max_steps, search=False)
            matches = matches_from(trace, self.key.search)
            engine = engine_matches(self.plan, self.key.rows, self.key.search)
            traced = [match.found for match in matches]
            if not agree(self.plan, traced, engine, given_up=trace.given_up):
                return self.untrue(traced, engine)
            self.matches = matches
            lines += self.searched(trace, cut)
        lines += self.waiting()
        lines += self.asked()
        if trace is not None and (wrong := self.wrong_run(trace)) is not None:
            return self.untrue(*wrong)
        if not self.reasons:
            self.reasons.append(Reason("NO_STATE"))
            lines.append(f"No match is open, and no row waits. {_EMITTED[self.unfinished is not None]}")
        if self.of.late:
            self.reasons.append(Reason("LATE"))
        lines += self.of.late
        return self.why(True, lines)

    def why(self, verified: bool, lines: Sequence[str]) -> Why:
        return Why(
            self.words, verified, lines[0], tuple(dict.fromkeys(self.reasons)), self.run, tuple(self.shown), rows=tuple(row + 1 for row in self.of.asked), lines=tuple(lines),
            unfinished=tuple(self.unfinished.named.values()) if self.unfinished is not None and verified else (), timelines=self.timelines() if verified else (),
        )  # fmt: skip

    def timelines(self) -> tuple[Timeline, ...]:
        """The picture of the stored rows: the open run in its places, the rows that wait, and matches that wait for the run."""
        count, taken = self.released + len(self.key.later), list(self.taken)
        listed = chosen([*self.taken, *range(self.released, count)], count)
        times = [self._time_of(row) for row in listed]
        values = () if None in times else ((self.plan.order[0].name, tuple(self.time(at) for at in times if at is not None)),)
        lanes = [
            Lane(text, frozenset(taken[i] + 1 for i, one in enumerate(self.places) if one == place)) for place, text in enumerate(self.texts)
        ]  # fmt: skip
        waiting = {row + 1: "waits" for row in listed if row >= self.released}
        ended = [self.unfinished.matches[start] for start in sorted(self.listed)] if self.unfinished is not None else []
        found = [match for match in (*self.matches, *ended) if match.start > max(self.taken, default=-1)]
        bars = [Bar("not emitted", {row + 1: self.name(v) for row, v in zip(match.rows, match.variables, strict=True) if row in listed}) for match in found]
        bars = [bar for bar in bars if bar.labels][:MOST_BARS] + ([Bar("watermark", waiting)] if waiting else [])
        return (
            Timeline(
                f"The stored rows of {self.partition or 'the stream'}", 0, tuple(row + 1 for row in listed), count, values, lanes=tuple(lanes),
                run=tuple(row + 1 for row in self.taken), run_name="open run", bars=tuple(bars),
            ),
        ) if listed else ()  # fmt: skip

    def untrue(self, traced: list[Found], engine: list[Found]) -> Why:
        """The answer if trace and engine differ: both lists of matches, and no explanation."""
        lines = [UNTRUE]
        for by, matches in (("trace", traced), ("engine", engine)):
            listed = [f"{row_spans(one.rows)} ({self.labels(one.variables)})" if one.rows else f"an empty match at row {one.start + 1}" for one in matches]
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
        openness = Openness(self.plan, self.released, self.of.watermark, self._time_of)
        if self.plan.reports_all:
            opened = [(search, openness.of(waiting, ahead, start, 0)) for start, search in sorted(trace.searches.items())]
            return lines + self.all_matches([(search, found) for search, found in opened if found.live or found.effort])
        for start, search in sorted(trace.searches.items()):
            found = openness.of(waiting, ahead, start, search.number)
            late = search.match is not None and search.match.end + self.ahead > self.released
            if found.is_open or late or self.unfinished is not None:  # with unfinished matches a decided start row is not searched again
                self.opener = start
                lines += self.open_search(start, search.match, found)
                break
        opener = self.opener
        for i, match in enumerate(match for match in trace.matches if match.start > opener):
            if i == IN_FULL:
                more = sum(match.start > opener for match in trace.matches) - i
                lines.append(f"{more} more match{'es wait' if more > 1 else ' waits'}, too.")
                break
            self.reasons.append(Reason("OPEN", match.start + 1, match.start + 1))
            lines += [f"{self.matched(match)} The match is not emitted: the search from row {max(opener, 0) + 1} is undecided.", *self.lost(match)]
        return lines + self.later_unfinished()

    def later_unfinished(self) -> list[str]:
        """Lines about unfinished matches that ended and wait for the first undecided start row."""
        if self.unfinished is None:
            return []
        ended = [start for start, match in sorted(self.unfinished.matches.items()) if start > self.opener and match.reported and match.status != RUN_OPEN]
        self.reasons += [Reason("OPEN", start + 1, start + 1) for start in ended[:IN_FULL]]
        self.listed.update(ended[:IN_FULL])
        lines, more = [self.unfinished.of_later(start, self.awaited) for start in ended[:IN_FULL]], len(ended) - IN_FULL
        return lines + ([f"{counted(more, 'more unfinished match')} {'waits' if more == 1 else 'wait'}, too."] if more > 0 else [])

    def wrong_run(self, trace: Trace) -> tuple[list[Found], list[Found]] | None:
        """The run of the trace and that of the engine, for the first start row of the answer whose unfinished match differs."""
        for start in sorted(one.start_row - 1 for one in self.unfinished.named.values()) if self.unfinished is not None else ():
            search = trace.searches.get(start)
            if search is None or search.match is not None or search.effort:
                continue
            try:
                ended = search.farthest()
            except Effort:
                continue
            if ended is not None and (match := self.unfinished.differs(ended)) is not None:
                return [Found(start, ended.variables, ended.rows)], [Found(start, match.variables, match.rows)]
        return None

    def open_search(self, start: int, match: Match | None, found: Opened) -> list[str]:
        """The line about a start row whose search is undecided. ``match``: its match so far."""
        first = found.live[0] if found.live else None
        self.reasons += [Reason("OPEN", 0, start + 1, self.name(one.option.variable)) for one in found.live] or [Reason("OPEN", 0, start + 1)]
        labels = first.labels if first is not None else match.variables if match is not None else ()
        rows = first.rows if first is not None else match.rows if match is not None else ()
        self.take(rows, labels, first.places if first is not None else match.places if match is not None else (), start)
        self.shown += [self.open_option(start, one) for one in found.live]
        if found.effort:
            self.reasons.append(Reason("EFFORT", start + 1, start + 1))
            return [f"{self.rows(start, start)} may begin a match. The search takes more than {self.max_steps} steps. Raise spark.sparkcep.why.maxSteps, or add a WINDOW."]
        if first is not None:
            goes_on = f"{self.may(found.live)} {self.until(start, found.live)}."
        elif found.trailing:
            goes_on = f"{' and '.join(found.trailing)} looks at later rows {self.closing(start)}."
        elif self.unfinished is not None and self.window.kind == ROWS and self.released - start >= int(self.window.size):
            goes_on = f"WINDOW has {self.window.size} rows, so the search ends with the key's next row."
        else:
            goes_on = "NEXT reads rows that have not come."
        if match is None:
            if self.unfinished is not None and first is None and start in self.unfinished.matches:
                return [self.unfinished.of_later(start, goes_on)]
            runs = f"{self.of_rows(rows)} may begin a match: {self.labels(labels)}." if labels else f"{self.rows(start, start)} may begin a match."
            emitted = self.unfinished.outcome(start, (tuple(rows), tuple(labels))) if self.unfinished is not None else ""
            return [f"{runs} {goes_on}", *([emitted] if emitted else [])]
        instead = "" if first is None or labels == match.variables else f"{row_spans(rows)} may match instead ({self.labels(labels)}), and "
        return [f"{self.matched(match)} The match is not emitted: {instead}{goes_on}", *self.lost(match)]

    def lost(self, match: Match) -> list[str]:
        """A line about a match that rows after the watermark prevent, so that its start row gets an unfinished match."""
        found = self.unfinished.outcome(match.start, (tuple(match.rows), tuple(match.variables))) if self.unfinished is not None and len(self.key.later) else ""
        return [found] if found else []

    def take(self, rows: Sequence[int], labels: Sequence[int], places: tuple[int, ...], start: int | None = None) -> None:
        """Makes some rows the run of the answer."""
        self.taken, self.places = dict(zip(rows, labels, strict=True)), places
        self.run = ShownRun((rows[0] if start is None else start) + 1, len(labels), tuple(map(self.name, labels)), 0)

    def all_matches(self, opened: list[tuple[Search, Opened]]) -> list[str]:
        """Lines about ALL MATCHES: the start rows with open runs, and the complete matches that are not emitted."""
        lines: list[str] = []
        for search, found in opened[:IN_FULL]:
            before = self.taken, self.places, self.run
            found.live.sort(key=lambda one: -len(one.rows))
            lines += self.open_search(search.start, None, found)
            if lines[1:]:
                self.taken, self.places, self.run = before
        if len(opened) > IN_FULL:
            lines.append(f"{counted(len(opened) - IN_FULL, 'more start row')} {'have open runs' if len(opened) > IN_FULL + 1 else 'has open runs'}, too.")
        if not opened and self.matches:
            self.take(self.matches[0].rows, self.matches[0].variables, self.matches[0].places)
        strategy = self.stream.engine.task.prepared.strategy
        early, trailing = strategy.emission.early, strategy.net is not None and strategy.net.negates_behind
        for match in self.matches[:IN_FULL]:
            self.reasons.append(Reason("OPEN", match.start + 1, match.start + 1))
            if match.end + self.ahead > self.released:
                why = "The match is not emitted: NEXT reads rows that have not come."
            elif early:
                why = f"The match is not emitted: a key with more than {MANY_ROWS} rows is searched once in {SHARE} parts of WINDOW."
            else:
                last = match.rows[-1] if self.plan.non_overlapping and trailing else match.start
                why = f"The match is not emitted before {self.closing(last).removeprefix('until ')}."
            lines.append(f"{self.matched(match)} {why}")
        if len(self.matches) > IN_FULL:
            lines.append(f"{counted(len(self.matches) - IN_FULL, 'more match')} {'wait' if len(self.matches) > IN_FULL + 1 else 'waits'}, too.")
        return lines

    def closing(self, row: int) -> str:
        """When the WINDOW that begins with a row closes."""
        begin = self._time_of(row)
        if self.window.kind == ROWS or begin is None:
            return f"until WINDOW has {self.window.size} rows" if self.window.kind == ROWS else "until WINDOW closes"
        return f"until WINDOW closes at {self.time(begin + whole_micros(self.window.size))}"

    def may(self, live: Sequence[Live]) -> str:
        """The variables that a future row may be."""
        texts = [f"{self.texts[one.option.place]} may {'go on' if one.option.place == one.last else 'come'}" for one in live]
        return " or ".join(dict.fromkeys(texts))

    def until(self, start: int, live: Sequence[Live]) -> str:
        """How long a future row may come."""
        at, what = 0, ""
        if self.unfinished is not None and all(one.ends is not None for one in live):  # a start row is decided when its last run ends
            at = max(one.ends or 0 for one in live)
            what = "WINDOW closes" if at in [one.closes for one in live] else "WITHIN closes"
        elif all(one.closes is not None for one in live):
            at, what = max(one.closes or 0 for one in live), "WINDOW closes"
        session = self.key.clock + self.plan.idle if self.plan.idle and self.key.clock != NO_CLOCK and not len(self.key.later) else None
        if what and session is not None and session < at:
            at, what = session, "the session ends"
        if all(one.within is not None for one in live) and self.unfinished is None:
            closing = max(one.within or 0 for one in live)
            decided = f"when {what} at {self.time(at)}" if what else "with the key's next row"
            return f"until WITHIN closes at {self.time(closing)}. The search is decided {decided}"
        if what:
            return f"until {what} at {self.time(at)}"
        limit = f"until WINDOW has {self.window.size} rows" if self.window.kind == ROWS else "with the key's next row"
        return limit if session is None else f"{limit}, unless the session ends before, at {self.time(session)}"

    def open_option(self, start: int, one: Live) -> Shown:
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
            in_run = row in self.taken
            own = self.asked_unfinished(row, in_run=in_run)
            if in_run:
                lines.append(f"{self.rows(row, row)} is {self.name(self.taken[row])} there.")
            elif int(self.key.search.start[0]) <= row < self.released and not own:
                no_run = "is in no open run" if self.plan.adjacent and not self.plan.reports_all else "is not in the first open run"
                lines.append(f"{self.rows(row, row)} {no_run}" + (f": the search from row {min(self.taken) + 1} is undecided." if self.taken else "."))
            lines += own
        return lines

    @property
    def awaited(self) -> str:
        """The sentence about the start row that later ones wait for."""
        return f"The search from row {self.opener + 1} is undecided."

    def asked_unfinished(self, row: int, *, in_run: bool) -> list[str]:
        """Lines about the unfinished matches that have a row or begin at it, if no line names them.

        ``in_run``: whether the open run has the row.
        """
        if self.unfinished is None:
            return []
        lines = [] if in_run else self.unfinished.of_row(row, self.rows(row, row))
        if row in self.unfinished.matches and row > self.opener and row not in self.listed:
            self.reasons.append(Reason("OPEN", row + 1, row + 1))
            lines.append(self.unfinished.of_later(row, self.awaited))
        return lines

    # -- names ----------------------------------------------------------------------------------------------

    def moment(self, at: int) -> str:
        """A time as text."""
        return self.time(at)

    def name(self, variable: int) -> str:
        return self.plan.variables[variable]

    def labels(self, variables: Sequence[int]) -> str:
        """The names of variables; more than three equal ones as a number."""
        return labels([self.name(variable) for variable in variables])

    def rows(self, first: int, last: int) -> str:
        """Rows at the beginning of a sentence, with their times."""
        text, times = row_spans(range(first, last + 1)).capitalize(), [self._time_of(first), self._time_of(last)]
        if None in times:
            return text
        shown = [self.time(at) for at in times if at is not None]
        return f"{text} ({shown[0] if first == last else (', ' if last == first + 1 else ' to ').join(shown)})"

    def of_rows(self, rows: Sequence[int]) -> str:
        """Some rows at the beginning of a sentence, with the times of the first and the last one."""
        adjacent = self.rows(rows[0], rows[-1])
        if len(rows) == rows[-1] - rows[0] + 1:
            return adjacent
        return row_spans(rows).capitalize() + (f" {adjacent[adjacent.index('('):]}" if "(" in adjacent else "")

    def matched(self, match: Match) -> str:
        if not match.variables:
            return f"{self.rows(match.start, match.start)} begins an empty match."
        return f"{self.of_rows(match.rows)} match{'es' if len(match.variables) == 1 else ''}: {self.labels(match.variables)}."

    def watermark(self) -> str:
        return self.time(self.of.watermark) if self.of.watermark > 0 else "not known yet"

    def _time_of(self, row: int) -> int | None:
        """The time of a stored row, None if it is not stored."""
        if row >= self.released:
            return int(self.key.later[row - self.released])
        return None if self.key.times is None else int(self.key.times[row])


def quantified(plan: Plan) -> list[str]:
    """The text of each place of the pattern, in the order of :class:`Program`: its variable with its own quantifier, such as F+."""
    texts: list[str] = []

    def walk(tree: tuple, suffix: str) -> None:
        if tree[0] == "var":
            texts.append(plan.variables[tree[1]] + suffix)
        elif isinstance(tree, Repeat):
            # users write {,3}
            walk(tree.item, quantifier(tree.low, tree.high).replace("{0,", "{,") + ("" if tree.greedy else "?"))
        elif isinstance(tree, Within):
            walk(tree.item, "")
        else:
            for part in tree[1:]:
                if isinstance(part, tuple):
                    walk(part, "")

    walk(plan.pattern, "")
    return texts


def zone_of(stream: KeyedStream) -> str | None:
    """The zone of the times of a stream, None if they have none (TIMESTAMP_NTZ)."""
    return stream.plan.zone if type_of(stream.schema.field(stream.order[0]).type).kind == "timestamp" else None


def no_state(at: str | None, batch: int, watermark: str, late: Sequence[str], words: Mapping[str, object], *, unfinished: bool = False) -> Why:
    """The answer if no stored row fulfils ``at``, or if there are none.

    ``unfinished``: whether the clause shows unfinished matches.
    """
    first = f"No {'row is stored' if at is None else f'stored row fulfils {at}'}, after micro-batch {batch}, watermark {watermark}."
    reasons = (Reason("NO_STATE"), *([Reason("LATE")] if late else []))
    return Why(dict(words), True, first, reasons, lines=(first, f"No row came, or all rows are decided. {_EMITTED[unfinished]}", *late))
