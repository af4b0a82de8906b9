"""The answer of sparkcep.why: a frozen record with a text form, a pandas form and a JSON form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sparkcep.draw.timeline import Timeline
from sparkcep.tracing.answers.reasons import Reason
from sparkcep.tracing.forms.blocks import blocks

if TYPE_CHECKING:
    import pandas

SCHEMA = 1  # of the JSON form
MOST_COLUMNS = 132  # of a line with a comparison


@dataclass(frozen=True)
class Shown:
    """A comparison at a row.

    Attributes:
        partition: the partition's keys as text, "" without PARTITION BY.
        row: the number of the row.
        start_row: the number of the run's first row.
        role: "next" (it could have come after a run), "preferred" (it would come before what the match took) or "expected".
        variable: its variable.
        comparison: its text.
        left, right: the values of its sides as text.
        result: true, false or NULL (None).
        cause: why it is NULL, "" if it is not.
        alone: whether its change alone would make the condition true.
    """

    partition: str
    row: int
    start_row: int
    role: str
    variable: str
    comparison: str
    left: str
    right: str
    result: bool | None
    cause: str
    alone: bool


@dataclass(frozen=True)
class ShownRun:
    """A run: its first row, its number of rows, its variables, and the row that ended it (0: the partition's end)."""

    start_row: int
    rows: int
    variables: tuple[str, ...]
    ended: int


@dataclass(frozen=True)
class ShownUnfinished:
    """The unfinished match of a start row: its rows with their variables, MATCH_STATUS(), MATCH_ENDED_AT() and MATCH_EXPECTED().

    ``reported``: whether the clause returns it. Over a stream the record predicts what a key without further rows gets, and
    ``watermark`` emits the match. It is "" if none does.
    """

    start_row: int
    rows: tuple[int, ...]
    variables: tuple[str, ...]
    status: str
    ended_at: str
    expected: tuple[str, ...]
    reported: bool
    watermark: str = ""


@dataclass(frozen=True)
class ShownDecision:
    """The variable that a match has at a row, and all others that could have come. ``row`` is 0 at the end of the match.

    Each of the others has its name ("" for the end of the match), whether it is preferred, its verdict, and its reason.
    """

    match: int
    row: int
    variable: str
    others: tuple[tuple[str, bool, str, str], ...]


@dataclass(frozen=True)
class Why:
    """An answer of :func:`sparkcep.why`. Printed, it explains.

    :meth:`to_html`, :meth:`to_pandas` and :meth:`to_json` are its other forms.

    Attributes:
        question: the arguments of the question.
        verified: whether the engine finds the matches that were traced. If not, nothing is explained.
        verdict: the first line of the answer.
        reasons: why rows were not taken.
        run: the run that got farthest, None if the question has none.
        unfinished: the unfinished matches of a clause with SHOW UNFINISHED MATCHES that the answer names.
        next: the comparisons that are shown.
        decisions: the decisions of matches.
        funnel, culprits, near: of a question about a whole table. hints: facts about the rows that often are the cause.
        rows: the numbers of the rows that were asked about.
        lines: the lines of the text form.
        shown: for ``show``, the rows with their values as text. The first value is the row's number, then ORDER BY's first key.
        report: if the engine does not find the traced matches, what to report, as JSON text: plan, redacted rows and both lists.
        timelines: the pictures of the HTML form.
    """

    question: Mapping[str, object]
    verified: bool
    verdict: str
    reasons: tuple[Reason, ...] = ()
    run: ShownRun | None = None
    next: tuple[Shown, ...] = ()
    decisions: tuple[ShownDecision, ...] = ()
    funnel: tuple[object, ...] = ()
    culprits: tuple[object, ...] = ()
    near: tuple[object, ...] = ()
    hints: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    lines: tuple[str, ...] = field(default=(), repr=False)
    shown: tuple[tuple[str, ...], ...] = ()
    unfinished: tuple[ShownUnfinished, ...] = ()
    report: str = field(default="", repr=False)
    timelines: tuple[Timeline, ...] = field(default=(), repr=False)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))  # IPython in a terminal

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def to_pandas(self) -> pandas.DataFrame:
        """The comparisons as a pandas DataFrame, one line each."""
        import pandas

        return pandas.DataFrame([asdict(shown) for shown in self.next], columns=list(Shown.__dataclass_fields__))

    def to_json(self) -> str:
        """The answer as JSON text. ``schema`` is the version of its form."""
        found: dict[str, Any] = {"schema": SCHEMA} | asdict(replace(self, timelines=()))
        del found["timelines"], found["report"]
        return json.dumps(found, ensure_ascii=False)

    def to_html(self) -> str:
        """The answer as one HTML page with timelines. The page runs nothing and loads nothing."""
        from sparkcep.draw.why import answer_page

        return answer_page(self.verdict, blocks(self.lines, self.timelines))

    def _repr_html_(self) -> str:
        from sparkcep.draw.why import answer_cell

        return answer_cell(blocks(self.lines, self.timelines))
