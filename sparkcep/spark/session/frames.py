"""``match_recognize(frame, ...)``: applies a clause to a PySpark DataFrame."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame

from sparkcep.clause.identifiers import backticked
from sparkcep.clause.parser import parse_clause, parse_key
from sparkcep.clause.printer import variable_text
from sparkcep.clause.tokens import quote, tokenize
from sparkcep.clause.tree import ONE_ROW
from sparkcep.errors import ClauseError, error_at, position
from sparkcep.spark.configured import settings_of
from sparkcep.spark.errors.exceptions import ClauseParseException, StatementError, redacting, with_text
from sparkcep.spark.errors.reword import ErrorText
from sparkcep.spark.session.clause_arguments import Composed, Part
from sparkcep.spark.session.session import sql_in, unformatted

if TYPE_CHECKING:
    from sparkcep.clause.tree import MatchClause

Key: TypeAlias = "str | Column"
Keys: TypeAlias = "Key | Sequence[Key]"

_DIRECTIONS = frozenset("ASC DESC NULLS FIRST LAST".split())
_HEAD, _TAIL = "SELECT * FROM {frame}%s MATCH_RECOGNIZE (\n", "\n)"
_VIEW = re.compile(r"`?_pyspark_\w+`?\.")  # the view under which Spark knows the frame
_ORDERED = re.compile(r"(.*?)((?: (?:ASC|DESC))?(?: NULLS (?:FIRST|LAST))?)", re.S)


def match_recognize(
    frame: DataFrame,
    *,
    clause: str | None = None,
    pattern: str | None = None,
    define: Mapping[str, str] | None = None,
    measures: Mapping[str, str] | None = None,
    rows: str | None = None,
    after_match: str | None = None,
    options: str | None = None,
    subset: Mapping[str, Sequence[str]] | None = None,
    partition_by: Keys | None = None,
    order_by: Keys | None = None,
    args: dict[str, Any] | list[Any] | None = None,
) -> DataFrame:
    """Returns the matches of a row pattern in ``frame``, as a lazy DataFrame.

    Give the parts of the clause by name (``pattern``, ``define``, ``measures``, ...), or its text as ``clause``. The function works
    in classic sessions and in Spark Connect, whether or not ``enable`` was called. The clause may qualify columns by the alias of
    the frame (``frame.alias("b")``, ``b.day``).

    Args:
        frame: the rows to search.
        clause: the text between the parentheses of MATCH_RECOGNIZE: ``"MEASURES ... PATTERN (...) DEFINE ..."``. It may begin
            with PARTITION BY and ORDER BY.
        pattern: the row pattern, without its parentheses: ``"STRT DOWN+ UP+"``.
        define: the condition of each variable, as SQL: ``{"UP": "price > PREV(price)"}``. A variable without a condition matches
            any row.
        measures: the columns to compute for each match, by name: ``{"gain": "LAST(UP.price) - STRT.price"}``.
        rows: ``"ONE ROW PER MATCH"``, the default, or ``"ALL ROWS PER MATCH"`` with its options.
        after_match: where the search resumes: ``"SKIP TO NEXT ROW"``. The default is ``"SKIP PAST LAST ROW"``.
        options: other parts of the clause as text: ``"EVENT SELECTION SKIP TILL NEXT MATCH WINDOW INTERVAL '1' HOUR"``.
        subset: names for several variables: ``{"MOVE": ["DOWN", "UP"]}``.
        partition_by: the partition keys, one or several. Each is the name of a column, a SQL expression as text, or a column of the
            frame (``frame.symbol``, ``col("symbol")``).
        order_by: the order of the rows, in the same forms. A text may end in ASC or DESC and NULLS FIRST or NULLS LAST; a column
            may be ``col("day").desc()``.
        args: the values of parameters in the clause, as ``spark.sql`` takes them: ``{"low": 3}`` for ``:low``, a list for ``?``.

    Returns:
        A DataFrame with the columns of ``SELECT * FROM frame MATCH_RECOGNIZE (...)``.

    Raises:
        TypeError: an argument has another type, a key column is an expression, or ``clause`` is given together with its parts.
        ClauseError: the clause is wrong. The error has the line and column in the argument, is also a pyspark ParseException, and
            is raised before any job starts.

    Example:
        >>> ticks = spark.createDataFrame([(1, 5), (2, 3), (3, 4)], "day int, price int")
        >>> falls_and_rises = sparkcep.match_recognize(
        ...     ticks, order_by="day", pattern="STRT DOWN+ UP+",
        ...     define={"DOWN": "price < PREV(price)", "UP": "price > PREV(price)"},
        ...     measures={"bottom": "LAST(DOWN.price)", "end_day": "LAST(UP.day)"},
        ... )
        >>> falls_and_rises.show()
        +------+-------+
        |bottom|end_day|
        +------+-------+
        |     3|      3|
        +------+-------+
        <BLANKLINE>
    """
    parts = {
        "pattern": pattern, "define": define, "measures": measures, "rows": rows, "after_match": after_match, "options": options, "subset": subset,
    }  # fmt: skip
    with redacting(frame):
        composed = _composed(frame, "match_recognize", clause, partition_by, order_by, parts)
        try:
            return sql_in(frame.sparkSession, _statement(frame, composed), args, frame=frame)
        except ClauseError as error:
            raise _placed(error, composed) from None
        except PySparkException as error:
            if not isinstance(error, StatementError):
                raise
            raise with_text(error, _in_arguments(error.text, composed)) from None


def statement_over(frame: DataFrame, clause: str | None, partition_by: Keys | None, order_by: Keys | None) -> str:
    """Returns a statement of a clause over a DataFrame, with the field ``{frame}``, for ``sparkcep.why``.

    Raises TypeError, ClauseError. Without PARTITION BY and MEASURES the clause gets ALL ROWS PER MATCH, which changes no match.
    """
    composed = _composed(frame, "why", clause, partition_by, order_by, {"pattern": None})
    parsed = parse_clause(composed.text)
    if parsed.measures or parsed.partition_by or parsed.rows != ONE_ROW:
        return _statement(frame, composed)
    begins = parsed.order_by[-1].expr.span.end if parsed.order_by else 0
    after = next(token for token in tokenize(composed.text[begins:]) if token.upper not in _DIRECTIONS)
    at = begins + after.start
    return _statement(frame, Composed.of([Part(f"{composed.text[:at]} ALL ROWS PER MATCH {composed.text[at:]}")]))


def _statement(frame: DataFrame, composed: Composed) -> str:
    alias = _alias(frame)
    head = _HEAD % (f" AS {unformatted(quote(alias))}" if alias else "")
    return f"{head}{unformatted(composed.text)}{_TAIL}"


def _composed(frame: DataFrame, function: str, clause: str | None, partition_by: Keys | None, order_by: Keys | None, parts: Mapping[str, Any]) -> Composed:
    """Returns the clause of a function's arguments. Raises TypeError, ClauseError."""
    if not isinstance(frame, DataFrame):
        is_pandas = type(frame).__module__.partition(".")[0] == "pandas"
        instead = "; convert the pandas DataFrame with spark.createDataFrame(frame)" if is_pandas else ""
        raise TypeError(f"{function} needs a pyspark DataFrame, not {'pandas.' * is_pandas}{type(frame).__name__}{instead}")
    given = [name for name, part in parts.items() if part is not None]
    if clause is not None and given:
        raise TypeError(f"{given[0]} and clause cannot both be given. Write it in the clause, or pass all parts by name")
    if clause is None and parts["pattern"] is None:
        raise TypeError(f'{function} needs pattern="...", or clause="..." with the text between the parentheses of MATCH_RECOGNIZE')
    for name, part in {"clause": clause, **parts}.items():
        if part is not None:
            _check_type(name, part)
    try:
        named = backticked if settings_of(frame.sparkSession).double_quoted else str
    except ClauseError as error:
        raise ClauseParseException.of(error, clause or parts["pattern"] or "") from None
    keys = {
        "partition_by": [_text(frame, key, "partition_by", named) for key in _listed(partition_by, "partition_by")],
        "order_by": [_text(frame, key, "order_by", named) for key in _listed(order_by, "order_by")],
    }
    if clause is not None:
        return _with_keys(clause, keys, named)
    return Composed.of([*_key_parts(keys), *_parts(named, **parts)])


_FORMS = {
    "clause": "the text between the parentheses of MATCH_RECOGNIZE",
    "define": 'a dict of strings: {"UP": "price > PREV(price)"}',
    "measures": 'a dict of strings: {"gain": "LAST(price) - FIRST(price)"}',
    "subset": 'a dict of lists: {"MOVE": ["DOWN", "UP"]}',
}  # fmt: skip


def _check_type(name: str, given: Any) -> None:
    """Raises TypeError if an argument has a wrong type."""
    form = _FORMS.get(name, "a text")
    if not isinstance(given, Mapping if form.startswith("a dict") else str):
        raise TypeError(f"{name} must be {form}, not {type(given).__name__}")
    for key, value in given.items() if isinstance(given, Mapping) else ():
        listed = isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(member, str) for member in value)
        if not isinstance(key, str) or not (listed if name == "subset" else isinstance(value, str)):
            raise TypeError(f"{name} must be {form}; {key!r} has {type(value).__name__} {value!r}")


def _key_parts(keys: Mapping[str, list[str]]) -> Iterator[Part]:
    """Yields PARTITION BY and ORDER BY as parts of the clause."""
    for argument, texts in keys.items():
        for number, text in enumerate(texts):
            yield Part(", " if number else f" {argument.upper().replace('_', ' ')} ")
            yield Part(text, text, argument=argument)
    yield Part(" " if any(keys.values()) else "")


def _parts(named: Callable[[str], str], *, pattern: Any, define: Any, measures: Any, rows: Any, after_match: Any, options: Any, subset: Any) -> Iterator[Part]:
    """Yields the parts of a clause that were given by name, in the clause's order."""

    def text(argument: str, given: str) -> Part:
        return Part(named(given), named(given), argument=argument)

    def listed(words: str, argument: str, given: Mapping[str, str], write: Callable[[str, Part], list[Part]]) -> Iterator[Part]:
        for number, (name, value) in enumerate(given.items()):
            yield Part(",\n" if number else f"\n{words} ")
            yield from write(name, _expression(text(f"{argument}[{name!r}]", value), value))

    yield from listed("MEASURES", "measures", measures or {}, lambda name, value: [value, Part("\nAS "), Part(quote(name), name, argument="measures")])
    if rows is not None:
        yield from (Part("\n"), text("rows", rows))
    if after_match is not None:
        yield from (Part("\nAFTER MATCH "), text("after_match", after_match))
    if options is not None:
        yield from (Part("\n"), text("options", options))
    yield from (Part("\nPATTERN ("), text("pattern", pattern), Part("\n)"))
    for number, (name, members) in enumerate((subset or {}).items()):
        yield Part(", " if number else "\nSUBSET ")
        yield Part(f"{variable_text(name)} = ({', '.join(map(variable_text, members))})", f"{name} = ({', '.join(members)})", argument=f"subset[{name!r}]")
    yield from listed("DEFINE", "define", define or {}, lambda name, value: [Part(variable_text(name), name, argument="define"), Part(" AS "), value])


def _expression(part: Part, given: str) -> Part:
    """Returns the part without comments around it. Raises ClauseParseException if it is not one SQL expression."""
    try:
        span = parse_key(part.text, ordered=False)
    except ClauseError as error:
        message = f"{part.argument}: {given!r} is not one SQL expression: {error.message}"
        raise ClauseParseException.of(ClauseError("ARGUMENT", message, fragment=given), "") from None
    return Part(span.of(part.text), part.source, span.start, part.argument)


def _alias(frame: DataFrame) -> str:
    """Returns the name that ``frame.alias`` gave the frame, or ""."""
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
    taken = "column names, SQL expressions as strings, columns, or a list of these"
    return TypeError(f"{argument} takes {taken}, not {type(key).__name__}")


def _text(frame: DataFrame, key: Any, argument: str, named: Callable[[str], str]) -> str:
    """Returns the SQL text of one key.

    ``named`` turns names in double quotes into names in backticks if the session has double-quoted identifiers.
    """
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
        message = f"{argument}: {key!r} is neither a column of the DataFrame nor one SQL expression: {error.message}"
        raise ClauseParseException.of(ClauseError("ARGUMENT", message, fragment=key), "") from None


def _of_column(frame: DataFrame, column: Column, argument: str) -> str:
    """Returns the name and the order of a key column.

    Both are read from the column's printed form, because classic and Connect columns share nothing else.
    """
    name, order = _ORDERED.fullmatch(_printed(column)).groups()
    names = {form: known for known in frame.columns for form in (known, quote(known), f"`{known}`")}
    if name not in names:
        names = _qualified(frame, name)
    if name not in names or _is_literal(column) or (order and argument == "partition_by"):
        raise TypeError(
            f"{argument}: {column} is not just the name of a column of the DataFrame. Write the expression as a string, "
            "or name it with frame.withColumn first"
        )
    return quote(names[name]) + order


def _printed(column: Column) -> str:
    return repr(column).removeprefix("Column<'").removesuffix("'>")


def _qualified(frame: DataFrame, name: str) -> dict[str, str]:
    """Maps printed columns to names, for the columns that ``name`` may print: ``ticks.day`` of the table ``ticks`` to ``day``."""
    ends = [known for known in frame.columns if name.endswith((f".{known}", f".{quote(known)}")) and frame.columns.count(known) == 1]
    return {_printed(frame[quote(known)]): known for known in ends}


def _is_literal(column: Column) -> bool:
    # Connect prints lit("a") and col("a") alike.
    return type(getattr(column, "_expr", None)).__name__ == "LiteralExpression"


def _with_keys(clause: str, keys: Mapping[str, list[str]], named: Callable[[str], str]) -> Composed:
    """Returns the clause with the keys that are given as arguments in their place."""
    try:
        cut = _cut(parse_clause(named(clause)), clause, keys)
    except ClauseError as error:
        raise ClauseParseException.of(error, clause) from None
    return Composed.of([Part(clause[:cut], clause), *_key_parts(keys), Part(clause[cut:], clause, cut)])


def _cut(parsed: MatchClause, clause: str, keys: Mapping[str, list[str]]) -> int:
    """Finds the offset in the clause where the keys belong. Raises ClauseError if the clause already has such keys."""
    for argument, written in (("partition_by", parsed.partition_by), ("order_by", [item.expr for item in parsed.order_by])):
        if keys[argument] and written:
            words = argument.upper().replace("_", " ")
            span = written[0].span
            message = f"the argument {argument} is given, but the clause also has {words}. Keep one of them"
            raise error_at(clause, span.start, span.end, "ARGUMENT", message)
    return parsed.partition_by[-1].span.end if parsed.partition_by else 0


def _in_arguments(text: ErrorText, composed: Composed) -> ErrorText:
    """Moves an error's position from the SQL statement to an argument. Drops the position if it lies in the table."""
    message, place = _VIEW.sub("", text.message), None
    if text.span is not None:
        begin = len(text.statement) - len(composed.text) - len(_TAIL)
        place = composed.place(text.span.start - begin, text.span.end - begin) if text.span.start >= begin else None
    if place is None:
        return replace(text, statement=composed.text, message=message, span=None)
    return replace(text, statement=place.source, message=place.named(message), span=place.span)


def _placed(error: ClauseError, composed: Composed) -> ClauseParseException:
    """Moves the position of ``error`` from the whole SQL statement to an argument."""
    name, message = error.error_class.removeprefix("SPARKCEP."), _VIEW.sub("", error.message)
    place = None
    if error.line > 1:
        lines = composed.text.split("\n")
        at = sum(len(line) + 1 for line in lines[: error.line - 2]) + error.column - 1
        place = composed.place(at, at + len(error.fragment))
    if place is None:
        return ClauseParseException.of(ClauseError(name, message, sqlstate=error.sqlstate, fragment=error.fragment), "")
    line, column = position(place.source, place.span.start)
    moved = ClauseError(name, place.named(message), sqlstate=error.sqlstate, line=line, column=column, fragment=place.span.of(place.source).split("\n")[0])
    return ClauseParseException.of(moved, place.source)
