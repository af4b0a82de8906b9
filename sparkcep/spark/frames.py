"""``match_recognize(frame, ...)``: the clause over a PySpark data frame."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame

from sparkcep.clause.identifiers import backticked
from sparkcep.clause.lexer import Span, quote
from sparkcep.clause.parser import parse_clause, parse_key
from sparkcep.errors import ClauseError, error_at, position
from sparkcep.spark.configured import settings_of
from sparkcep.spark.error_text import ErrorText
from sparkcep.spark.errors import ClauseParseException, StatementError, with_text
from sparkcep.spark.session import sql_in, unformatted

if TYPE_CHECKING:
    from sparkcep.clause.tree import MatchClause

    Key = str | Column
    Keys = Key | Sequence[Key]

_HEAD, _TAIL = "SELECT * FROM {frame}%s MATCH_RECOGNIZE (\n", "\n)"
_VIEW = re.compile(r"`?_pyspark_\w+`?\.")  # the view that represents the frame
_ORDERED = re.compile(r"(.*?)((?: (?:ASC|DESC))?(?: NULLS (?:FIRST|LAST))?)", re.S)


def match_recognize(
    frame: DataFrame, *, clause: str, partition_by: Keys | None = None, order_by: Keys | None = None, args: dict[str, Any] | list[Any] | None = None,
) -> DataFrame:
    """The matches of a row pattern in ``frame``, as a data frame that is computed when it is used.

    Works in classic sessions and in Spark Connect, whether or not ``enable`` was called.

    Args:
        frame: the rows to search.
        clause: what stands between the parentheses of MATCH_RECOGNIZE: ``"MEASURES ... PATTERN (...) DEFINE ..."``. It may begin
            with PARTITION BY and ORDER BY itself.
        partition_by: keys of the partitions: one key or several, each the name of a column, a SQL expression as text, or a column
            of the frame (``frame.symbol``, ``col("symbol")``).
        order_by: the order of the rows, in the same forms; a text may end in ASC or DESC and NULLS FIRST or NULLS LAST, a column
            may be ``col("day").desc()``.
        args: the values of parameters in the clause, as ``spark.sql`` takes them: ``{"low": 3}`` for ``:low``, a list for ``?``.

    The clause may name columns by the alias of the frame (``frame.alias("b")``, ``b.day``).

    Returns:
        The columns that ``SELECT * FROM frame MATCH_RECOGNIZE (...)`` has.

    Raises:
        TypeError: an argument of another type, or a column that is more than a column's name.
        ClauseError: an error in the clause, with its line and column in ``clause``; also a pyspark ParseException. Raised before
            any job starts.

    Example::

        sparkcep.match_recognize(
            ticks, partition_by="symbol", order_by="day",
            clause="MEASURES FIRST(day) AS a, LAST(day) AS b PATTERN (UP{3,}) DEFINE UP AS price > PREV(price)",
        )
    """
    if not isinstance(frame, DataFrame):
        is_pandas = type(frame).__module__.partition(".")[0] == "pandas"
        instead = "; make one of the pandas frame by spark.createDataFrame(frame)" if is_pandas else ""
        raise TypeError(f"match_recognize needs a pyspark DataFrame, not {'pandas.' * is_pandas}{type(frame).__name__}{instead}")
    if not isinstance(clause, str):
        raise TypeError(f"clause must be the text between the parentheses of MATCH_RECOGNIZE, not {type(clause).__name__}")
    try:
        named = backticked if settings_of(frame.sparkSession).double_quoted else str
    except ClauseError as error:
        raise ClauseParseException.of(error, clause) from None
    partition = [_text(frame, key, "partition_by", named) for key in _listed(partition_by, "partition_by")]
    order = [_text(frame, key, "order_by", named) for key in _listed(order_by, "order_by")]
    try:
        cut, keys = _keys(parse_clause(named(clause)), clause, partition, order)
    except ClauseError as error:
        raise ClauseParseException.of(error, clause) from None
    statement = f"{clause[:cut]}{keys}{clause[cut:]}"
    try:
        alias = _alias(frame)
        head = _HEAD % (f" AS {quote(alias)}" if alias else "")
        return sql_in(frame.sparkSession, f"{head}{unformatted(statement)}{_TAIL}", args, frame=frame)
    except ClauseError as error:
        raise ClauseParseException.of(_placed(error, statement, clause, cut, keys), clause) from None
    except PySparkException as error:
        if not isinstance(error, StatementError):
            raise
        raise with_text(error, _in_clause(error.text, statement, clause, cut, keys)) from None


def _alias(frame: DataFrame) -> str:
    """The name that ``frame.alias`` gave the frame; "" without one."""
    logical = getattr(frame, "_plan", None)  # Connect
    if logical is not None:
        return str(logical._alias) if type(logical).__name__ == "SubqueryAlias" else ""
    plan = frame._jdf.queryExecution().logical()
    return str(plan.alias()) if plan.getClass().getSimpleName() == "SubqueryAlias" else ""


def _listed(keys: Any, argument: str) -> list[Any]:
    if keys is None:
        return []
    if isinstance(keys, (str, Column)):
        return [keys]
    if isinstance(keys, Sequence):
        return list(keys)
    raise _wrong(keys, argument)


def _wrong(key: Any, argument: str) -> TypeError:
    taken = "names of columns, SQL expressions as text, columns, or a list of these"
    return TypeError(f"{argument} takes {taken}, not {type(key).__name__}")


def _text(frame: DataFrame, key: Any, argument: str, named: Callable[[str], str]) -> str:
    """SQL text of one key. ``named`` writes names in double quotes in backticks, where the session has such names."""
    if isinstance(key, Column):
        return _of_column(frame, key, argument)
    if not isinstance(key, str):
        raise _wrong(key, argument)
    if key in frame.columns:
        return quote(key)
    text = named(key)
    try:
        return parse_key(text, ordered=argument == "order_by").of(text)
    except ClauseError as error:
        message = f"{argument}: {key!r} is not a column of the frame and not one SQL expression: {error.message}"
        raise ClauseParseException.of(ClauseError("ARGUMENT", message, fragment=key), "") from None


def _of_column(frame: DataFrame, column: Column, argument: str) -> str:
    """The name and the order of a column. They show only in its text, because classic and Connect columns have no common
    structure."""
    shown = re.fullmatch(r"Column<'(.*)'>", repr(column), re.S)
    name, order = _ORDERED.fullmatch(shown[1]).groups() if shown else ("", "")
    names = {form: known for known in frame.columns for form in (known, quote(known), f"`{known}`")}
    if name not in names or _is_literal(column) or (order and argument == "partition_by"):
        raise TypeError(
            f"{argument}: {column} is more than the name of a column of the frame; write the expression as text, "
            "or give it a name with frame.withColumn first"
        )
    return quote(names[name]) + order


def _is_literal(column: Column) -> bool:
    # Connect shows lit("a") as it shows col("a")
    return type(getattr(column, "_expr", None)).__name__ == "LiteralExpression"


def _keys(parsed: MatchClause, clause: str, partition: list[str], order: list[str]) -> tuple[int, str]:
    """Finds the place in the clause where the keys given as arguments belong, and writes their text. Raises ClauseError."""
    for argument, given, written in (
        ("partition_by", partition, parsed.partition_by),
        ("order_by", order, [item.expr for item in parsed.order_by]),
    ):
        if given and written:
            words = argument.upper().replace("_", " ")
            span = written[0].span
            message = f"the argument {argument} is given, and the clause has {words} too; keep one"
            raise error_at(clause, span.start, span.end, "ARGUMENT", message)
    text = f" PARTITION BY {', '.join(partition)}" if partition else ""
    text += f" ORDER BY {', '.join(order)}" if order else ""
    cut = parsed.partition_by[-1].span.end if parsed.partition_by else 0
    return cut, f"{text} " if text else ""


def _in_clause(text: ErrorText, statement: str, clause: str, cut: int, keys: str) -> ErrorText:
    """An error's text with its place in the clause instead of the SQL statement; without one if that is in the table. An error in
    the inserted keys names their argument."""
    span, message = text.span, _VIEW.sub("", text.message)
    begin = len(text.statement) - len(statement) - len(_TAIL)
    start = span and _offset(span.start - begin, cut, len(keys))
    if span is not None and start is None:
        message = _of_argument(message, keys, span.start - begin - cut, span.of(text.statement))
    return replace(text, statement=clause, message=message, span=None if start is None else Span(start, start + span.end - span.start))


def _placed(error: ClauseError, statement: str, clause: str, cut: int, keys: str) -> ClauseError:
    """Moves the place of ``error``, which counts in the whole SQL statement, into the clause. An error in the inserted keys has no
    place, and names their argument."""
    line, column = 0, 0
    name, message = error.error_class.removeprefix("SPARKCEP."), _VIEW.sub("", error.message)
    if error.line > 1:
        before = statement.split("\n")[: error.line - 2]
        at = sum(len(x) + 1 for x in before) + error.column - 1
        offset = _offset(at, cut, len(keys))
        line, column = (0, 0) if offset is None else position(clause, offset)
        message = message if offset is not None else _of_argument(message, keys, at - cut, error.fragment)
    return ClauseError(name, message, sqlstate=error.sqlstate, line=line, column=column, fragment=error.fragment)


def _of_argument(message: str, keys: str, at: int, fragment: str) -> str:
    """``message`` with the argument whose text has an error at this offset of the inserted keys."""
    if not 0 <= at < len(keys):
        return message
    argument = "order_by" if "PARTITION BY" not in keys[:at] or "ORDER BY" in keys[:at] else "partition_by"
    return f"{argument}={fragment!r}: {message}"


def _offset(offset: int, cut: int, inserted: int) -> int | None:
    """An offset without the keys that were inserted at ``cut``; None for one before the text, or in the keys."""
    if offset < 0 or cut <= offset < cut + inserted:
        return None
    return offset if offset < cut else offset - inserted
