"""Writes when SHOW UNFINISHED MATCHES emits the unfinished match of a stored start row over a stream, and what it is then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

from sparkcep.plan.records import has
from sparkcep.tracing.answers.answer import ShownUnfinished
from sparkcep.tracing.answers.unfinished import UnfinishedText, Words
from sparkcep.tracing.answers.values import row_spans
from sparkcep.tracing.rows.unfinished import EARLIER, OPEN, TIMED_OUT, UnfinishedMatch
from sparkcep.tracing.search.moves import STRICT
from sparkcep.tracing.streams.unfinished_runs import KeyRuns

_Run: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]  # rows and their variables
_MILLI = 1000  # the watermark of Spark has whole milliseconds


class StoredWords(Words, Protocol):
    """Writes rows and times of a key."""

    def of_rows(self, rows: Sequence[int]) -> str: ...


class StreamedText(UnfinishedText):
    """The sentences about the unfinished matches of a key. Predictions hold if no other row of the key comes.

    Attributes:
        runs: the unfinished matches of the stored rows at each watermark. Those at the present one are ``matches``.
    """

    verb, verbs = "emit", "emits"

    def __init__(self, names: StoredWords, runs: KeyRuns) -> None:
        super().__init__(names, runs.plan.unfinished, runs.at(runs.now))
        self.words, self.runs = names, runs  # the names as they write rows, too

    def of_later(self, start: int, waits: str) -> str:
        """The line about the unfinished match of a start row. ``waits``: the sentence that says what it waits for."""
        match = self.matches[start]
        begins = "may begin a match" if match.status == OPEN else "ended without a match"
        return f"{self.words.of_rows(match.rows)} {begins}: {self.names.labels(match.variables)}. {waits} {self.outcome(start, (match.rows, match.variables))}"

    def outcome(self, start: int, of: _Run) -> str:
        """The sentence that predicts what the clause emits for a start row, "" for a match.

        ``of``: its run that the answer is about.
        """
        now, at = self.matches.get(start), self.runs.decided(start)
        if now is not None and now.inside == EARLIER:
            return self._hidden(now, "an unfinished match that was emitted before", same=self._equal(now, of))
        until = self.runs.last if at is None else at
        found, where = self.runs.at(until), self._with(until)
        match = found.get(start)
        self.named.pop(start, None)  # the record has the match as it will be
        if match is None:
            return "" if now is None else where + self._matched(start, at)
        same = self._equal(match, of)
        this = "this run" if same else f"the run of {self._run(match)}"
        if match.inside is not None:
            return where + self._hidden(match, f"the unfinished match of {self._run(found[match.inside])}", same=same)
        ends = self._ends(match)
        if match.status == OPEN:
            ended = "No watermark ends it" if at is None else f"The session ends first, at {self.names.moment(at + 1)}"
            return f"{ended}, and {self.what} does not emit an OPEN match over a stream."
        if not match.reported:
            return f"{where}{self.what} does not emit {this}: {ends}."
        if at is None:
            return f"{self.what} emits {this} {self._waits(start)}: {ends}."
        reached = self._reached(at)
        self.named[start] = replace(self.named[start], watermark=reached)
        breaks = self.what.startswith("SHOW TIMEOUT") and (now is None or now.status == OPEN) and match.status == TIMED_OUT and self._breakable
        more = f" {self.what} does not emit a run that a row breaks." if breaks else ""
        return f"{where}{self.what} emits {this} when the watermark reaches {reached}: {ends}.{more}"

    def _name(self, match: UnfinishedMatch) -> ShownUnfinished:
        return super()._name(match if match.status != OPEN else replace(match, reported=False))

    @property
    def _breakable(self) -> bool:
        plan = self.names.plan
        return plan.selection is None or plan.selection.strategy == STRICT or has(plan.pattern, "not")

    def _matched(self, start: int, at: int | None) -> str:
        """The sentence about a start row without an unfinished match when it is decided."""
        match = next((match for match in self.runs.matches(self.runs.last if at is None else at) if match.start == start), None)
        if match is None:
            return f"an earlier match takes or passes over row {start + 1}."
        when = f"when the watermark reaches {self._reached(at)}" if at is not None else self._waits(start)
        what = f"{row_spans(match.rows)} match{'es' if len(match.rows) == 1 else ''} ({self.names.labels(match.variables)})"
        return f"{what}. The match is emitted {when}."

    def _reached(self, at: int) -> str:
        """The first watermark of Spark that is not before a time."""
        return self.names.moment(-(-at // _MILLI) * _MILLI)

    def _waits(self, start: int) -> str:
        """When a match is emitted that no watermark decides."""
        undecided = self.runs.undecided(self.runs.last)
        return "with the rows that NEXT reads" if undecided == start and self.runs.stream.engine.task.awaited else f"when the search from row {undecided + 1} is decided"

    def _with(self, watermark: int) -> str:
        """Which rows the sentence assumes until a watermark."""
        more = range(self.runs.released, self.runs.count(watermark))
        return f"With {row_spans(more)} and no other row, " if more else "Without further rows "

    def _equal(self, match: UnfinishedMatch, of: _Run) -> bool:
        return (match.rows, match.variables) == of
