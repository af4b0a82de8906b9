"""``sparkcep.why``: explains which rows match and which do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from sparkcep.clause.tokens import one_line
from sparkcep.errors import SEMANTIC, ClauseError, nearest
from sparkcep.plan.constants import MARKER_PREFIX
from sparkcep.spark.configured import setting, settings_of, substituted
from sparkcep.spark.errors.exceptions import ClauseParseException, redacting
from sparkcep.spark.session.frames import Keys, statement_over
from sparkcep.spark.session.session import formatted_over, sql_in, unformatted
from sparkcep.spark.why.below import left_out
from sparkcep.spark.why.counters import count, sample
from sparkcep.spark.why.filtered import filtered
from sparkcep.spark.why.partition import check_expression, fetch, locate
from sparkcep.spark.why.statement import Input, input_of
from sparkcep.spark.why.stored import with_clause
from sparkcep.spark.why.views import names_of, view_of
from sparkcep.sql.rewrite.rewrite import name_markers
from sparkcep.tracing.answers.answer import Why
from sparkcep.tracing.answers.explain import Asked
from sparkcep.tracing.answers.reasons import Reason
from sparkcep.tracing.answers.values import LEVELS, Values
from sparkcep.tracing.conditions.question import WHY
from sparkcep.tracing.kinds.kinds import explain_overall, explain_rows
from sparkcep.tracing.kinds.listing import MATCHES, Compute
from sparkcep.tracing.search.trace import MAX_STEPS

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

_MOST_ROWS = 10_000
EMPTY = "The clause's input is empty."


def why(
    of: SparkSession | DataFrame | StreamingQuery, sql: str | None = None, *, at: str | None = None, match: int | None = None, expect: str | None = None,
    which: str | int | None = None, rows: int = _MOST_ROWS, partitions: int = 20, show: str | Sequence[str] = (), redact: str | None = None, args: dict[str, Any] | list[Any] | None = None,
    clause: str | None = None, partition_by: Keys | None = None, order_by: Keys | None = None,
) -> Why:  # fmt: skip
    """Explains why rows match, or why they do not.

    The rows of one partition are fetched, and the search is traced in this process. The engine searches these rows, too, so that an
    explanation of other matches is never given. Classic sessions and Spark Connect work alike.

    Without ``at`` and ``match``, the question is about the whole input: how often each comparison is true, how far the runs of all
    start rows get, and which comparison stops most matches. Counts are over all rows, traces over a sample of partitions.

    Of a streaming query in a classic session, the state of one key is read from the checkpoint. The answer says which match is open
    and until when, and which rows wait for the watermark. ``at`` is then a condition over the stored rows, ``which`` the clause's
    number.

    Args:
        of: the session, or a DataFrame with the rows to search, or a streaming query, running or ended.
        sql: the statement, if ``of`` is a session. It runs only in part: the clause's input is read.
        at: a SQL condition that selects at most 20 rows of one partition of the clause's input. Without ``match`` and ``expect``,
            the answer says why each row is in no match, or why it is in its match.
        match: the number of a match in its partition. Alone, each decision of the match is explained; with ``at``, why the rows are
            not in the match.
        expect: a row pattern variable. With ``at``, the answer says why the rows are not this variable.
        which: the clause, if the statement has several: its alias, or its number in the text.
        rows: the largest partition that is fetched. Of a longer partition of the sample, the first rows are traced.
        partitions: the most partitions of a sample.
        show: further columns or SQL expressions over the clause's input. The rows of the answer are listed with them.
        redact: ``"values"`` writes names such as v1 instead of the values of rows, ``"all"`` leaves them out. The setting
            ``sparkcep.why.redact`` is the least level.
        args: the values of the statement's parameters, as ``spark.sql`` takes them.
        clause: the clause over a DataFrame, the text between the parentheses of MATCH_RECOGNIZE. MEASURES may be missing.
        partition_by, order_by: the keys of this clause, as :func:`sparkcep.match_recognize` takes them.

    Returns:
        The answer. ``print`` shows it as text; it also has ``to_html()``, ``to_pandas()`` and ``to_json()``.

    Raises:
        ClauseError: the clause or the question is wrong (class WHY), or an option is not explained yet.

    Example:
        >>> events = spark.createDataFrame([(1, "login"), (2, "click"), (3, "login")], "day int, event string")
        >>> clause = "PATTERN (L F) DEFINE L AS event = 'login', F AS event = '2fa'"
        >>> print(sparkcep.why(events, clause=clause, order_by="day", at="day = 3"))
        Row 3 (day 3) is in no match.
        No match starts here. The run that got farthest took row 3: L.
          It ended because the partition ends after row 3. F should come next.
    """
    show = [show] if isinstance(show, str) else list(show)
    words = {"at": at, "match": match, "expect": expect, "which": which}
    if type(of).__name__ == "StreamingQuery":
        if show or any(part is not None for part in (sql, args, clause, partition_by, order_by)):
            raise TypeError("a StreamingQuery is given, and a statement, a clause or show=... too; give the query with at=... alone")
        return _streamed(of, words, rows, redact)
    with redacting(of):
        if isinstance(of, DataFrame):
            if sql is not None:
                raise TypeError("a DataFrame is given, and sql too; write the clause as clause=..., or give the session")
            session, sql = of.sparkSession, statement_over(of, clause, partition_by, order_by)
            frames: Mapping[str, DataFrame] = {"frame": of}
        else:
            if not isinstance(sql, str) or any(part is not None for part in (clause, partition_by, order_by)):
                raise TypeError("why needs a session and the statement's text, or a DataFrame and clause=...")
            session, frames = of, {}
        text, held = formatted_over(session, sql, frames)
        text = substituted(session, text)
        if isinstance(args, list):
            text, args = name_markers(text), {f"{MARKER_PREFIX}{i}": value for i, value in enumerate(args, 1)}

        def run(statement: str) -> DataFrame:
            return sql_in(session, unformatted(statement, held) if held else statement, args, **held)

        def compute(query: str, matches: pa.Table) -> pa.Table:
            return sql_in(session, unformatted(query, [MATCHES]), args, **{MATCHES: session.createDataFrame(matches)}).toArrow()

        def view(name: str) -> str:
            found = view_of(session, run, name)
            return "" if found is None else found.text

        try:
            _check(at, match, expect, show)
            level, steps = _level(session, redact), _steps(session)
            settings = replace(settings_of(session), parameters={f":{name}": value for name, value in args.items()} if args else {})
            asked = input_of(*with_clause(text, which, settings, partial(view_of, session, run), partial(names_of, run)), settings)
            if at is None and match is None:
                return _overall(run, compute, asked, words, rows, partitions, level, steps, view)
            return _answered(run, compute, asked, Asked((), match, expect, words), at, rows, level, steps, view, show)
        except ClauseParseException:
            raise
        except ClauseError as error:
            raise ClauseParseException.shown(error, text) from None
        except AnalysisException as error:
            _ = run(text).schema  # raises the error of the statement itself, in the words of its text
            if at is None and not show:
                raise
            asked_for = f"at={at!r} is not a condition" if not show else f"at={at!r} is not a condition, or show={show!r} is not a list of expressions"
            said = str(error).partition("\n")[0].partition(" SQLSTATE:")[0].partition("; line ")[0]
            raise ClauseParseException.of(ClauseError(WHY, f"{asked_for} over the clause's input: {said}", sqlstate=SEMANTIC), text) from None


def _streamed(query: StreamingQuery, words: Mapping[str, object], rows: int, redact: str | None) -> Why:
    """The answer about a streaming query."""
    from sparkcep.spark.why.stream import execution_of, why_stream

    try:
        execution_of(query)  # first: Spark Connect lacks an active classic session
    except ClauseError as error:
        raise ClauseParseException.of(error, "") from None
    session = SparkSession.active()
    with redacting(session):
        try:
            return why_stream(query, words, rows=rows, redact=_level(session, redact), max_steps=_steps(session))
        except ClauseParseException:
            raise
        except ClauseError as error:
            raise ClauseParseException.of(error, "") from None


def _check(at: str | None, match: int | None, expect: str | None, show: Sequence[str]) -> None:
    """Raises ClauseError of class WHY if the question is incomplete."""
    if expect is not None and at is None:
        raise ClauseError(WHY, 'expect needs a row. Write at="..." with a condition on the row', sqlstate=SEMANTIC)
    if show and at is None and match is None:
        raise ClauseError(WHY, 'show needs rows. Write at="..." with a condition on the row, or match=1', sqlstate=SEMANTIC)
    if at is not None:
        check_expression(at)
    for text in show:
        check_expression(text, "show", "expression")


def _overall(
    run: Any, compute: Compute, asked: Input, words: Mapping[str, object], rows: int, partitions: int, level: str, steps: int, view: Callable[[str], str],
) -> Why:  # fmt: skip
    question = asked.question()
    try:
        totals = count(run, asked, question)
        parts = sample(run, asked, question, partitions, rows) if totals.rows else ()
    except AnalysisException:
        raise
    except PySparkException:  # as in _answered
        question = asked.question(by_machine=True)
        totals = count(run, asked, question)
        parts = sample(run, asked, question, partitions, rows) if totals.rows else ()
    if not parts:
        return Why(dict(words), True, EMPTY, (Reason("NO_SUCH_ROW"),), lines=(EMPTY,))
    hints = tuple(left_out(run, asked, question, totals, view))
    return explain_overall(parts, totals, asked.settings, compute, words=words, redact=level, max_steps=steps, hints=hints)


def _answered(
    run: Any, compute: Compute, asked: Input, question: Asked, at: str | None, rows: int, level: str, steps: int, view: Callable[[str], str], show: Sequence[str],
) -> Why:  # fmt: skip
    taken_apart = asked.question()
    located = locate(run, asked, taken_apart, at, rows, level, whole=question.match is not None)
    if located is None:
        return _no_row(run, asked, question, at, level, view)
    try:
        frozen, found = fetch(run, asked, taken_apart, at, located, rows, show)
    except AnalysisException:
        raise
    except PySparkException:
        # Under ANSI a side can fail that an AND guards. Then the machine computes each value where it is read.
        frozen, found = fetch(run, asked, asked.question(by_machine=True), at, located, rows, show)
    return explain_rows(frozen, replace(question, at=found), compute, redact=level, max_steps=steps)


def _no_row(run: Any, asked: Input, question: Asked, at: str | None, level: str, view: Callable[[str], str]) -> Why:
    """The answer if the clause's input lacks the row: the WHERE that leaves it out, or the query to look with."""
    words = dict(question.words)
    if at is None:
        return Why(words, True, EMPTY, (Reason("NO_SUCH_ROW"),), lines=(EMPTY,))
    first = f"No row of the clause's input fulfils {at}."
    if found := filtered(run, asked, at, Values(level), view):
        lines = (f"{first} {found[0]}", *found[1:])
        return Why(words, True, lines[0], (Reason("FILTERED"),), lines=lines)
    look = one_line(f"{asked.names}SELECT * FROM {asked.source}")
    return Why(words, True, first, (Reason("NO_SUCH_ROW"),), lines=(first, f"Look at the input with: {look}"))


def _level(session: SparkSession, redact: str | None) -> str:
    """The level of redaction: the argument, or the setting if that redacts more."""
    levels = []
    for what, given in (("redact", redact), ("sparkcep.why.redact", setting(session, "sparkcep.why.redact"))):
        word = (given or "").strip().lower()
        if word not in LEVELS:
            close = nearest(word, LEVELS[1:])
            raise ClauseError(WHY, f'{what} must be "values" or "all", not {given!r}' + (f". Did you mean {close}?" if close else ""), sqlstate=SEMANTIC)
        levels.append(LEVELS.index(word))
    return LEVELS[max(levels)]


def _steps(session: SparkSession) -> int:
    """How many steps the search of a start row may take."""
    given = setting(session, "sparkcep.why.maxSteps")
    if given is None:
        return MAX_STEPS
    if not given.strip().isdigit() or not int(given):
        raise ClauseError("SETTING", f"sparkcep.why.maxSteps must be a number above 0, such as 1000000, not {given!r}")
    return int(given)
