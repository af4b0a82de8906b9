"""Compares the meaning of calls and operators in another engine with Spark's.

``transpile`` uses it. ``dialect/engines.py`` has a table for each engine: a call has an equal meaning, is rewritten, has a note, or
is refused. A call without an entry gets a note, so no meaning changes silently. ``tests/transpiled/meanings.py`` has the values
that support each entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp, transforms

from sparkcep.dialect.building import call, cast, interval, number, replaced, text, truncated

Note = Callable[[exp.Expr, str], None]
Rewrite = Callable[[exp.Expr, Note], exp.Expr]
Meaning = str | Rewrite  # the text of a note, or a rewriting
EQUAL = ""
MARK = "SPARKCEP_"  # before the names of the clause's functions while sqlglot reads, so that it does not misread them

# sqlglot counts these operators and constructors as functions. The tables list them by class, or not at all.
_NO_CALLS = (exp.Cast, exp.Case, exp.Connector, exp.Exists, exp.Any, exp.All, exp.Array, exp.Extract, exp.Interval, exp.Tuple, exp.DateStrToDate, exp.WeekStart)
# operators that mean the same in all engines, unless an engine's table lists them
_SAME_OPERATORS = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.NullSafeEQ,
    exp.NullSafeNEQ, exp.Connector,
    exp.Like, exp.ILike, exp.Escape, exp.Dot, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.PropertyEQ, exp.Kwarg,
)  # fmt: skip
_PLAIN_REGEX = re.compile(r"[\w\s.,:;/@#%&=<>!'\"^$*+?()|\[\]{}-]*", re.ASCII)  # means the same in POSIX, RE2 and Java
_SIMPLE_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")


class Refused(Exception):
    """Spark cannot compute the value of this node."""

    def __init__(self, node: exp.Expr, message: str) -> None:
        super().__init__(message)
        self.node = node


@dataclass(frozen=True)
class Engine:
    """An engine's meanings.

    Attributes:
        name: the engine's name.
        calls: upper-case name -> meaning.
        operators: class of a node -> rewriting.
        of_spark: the Spark functions that the engine has under another name.
    """

    name: str
    calls: dict[str, Meaning]
    operators: dict[type[exp.Expr], Rewrite]
    of_spark: frozenset[str] = frozenset()


def is_call(node: exp.Expr) -> bool:
    branch = isinstance(node, exp.If) and isinstance(node.parent, exp.Case)
    return isinstance(node, exp.Func) and not branch and not isinstance(node, _NO_CALLS)


def in_spark(tree: exp.Expr, engine: Engine, written: Callable[[exp.Expr], tuple[str, ...]], known: frozenset[str], note: Note) -> exp.Expr:
    """Translates a tree so that Spark computes the values of ``engine``, or a note says where it may not. Raises Refused.

    Args:
        tree: the tree that sqlglot read.
        engine: the meanings of the source engine.
        written: returns the upper-case name of a call as written, or all names of its function; empty for the clause's functions.
        known: the functions that Spark has.
        note: takes the node and the text of a note.
    """

    def of(node: exp.Expr) -> exp.Expr:
        operator = engine.operators.get(type(node))
        if operator is not None:
            return operator(node, note)
        if isinstance(node, (exp.Binary, exp.AtTimeZone, exp.Slice, exp.Collate)) and not isinstance(node, (*_SAME_OPERATORS, exp.Func)):
            words = "AT TIME ZONE" if isinstance(node, exp.AtTimeZone) else node.key.upper()
            note(node, f"{words}: its values in Spark were not compared with those of {engine.name}")
        listed = written(node) if is_call(node) else ()
        if not listed:
            return node
        name = next((name for name in listed if name in engine.calls), listed[0])
        meaning = engine.calls.get(name)
        if callable(meaning):
            return meaning(node, note)
        if meaning is None and isinstance(node, exp.Anonymous) and name not in known:
            note(node, f"{name}: sqlglot does not know a function of this name, so it stays unchanged")
        elif meaning is None:
            note(node, f"{name}: its values in Spark were not compared with those of {engine.name}")
        elif meaning:
            note(node, f"{name}: {meaning}")
        return node

    return replaced(tree, of)


def compared(tree: exp.Expr, engines: list[Engine], target: str, written: Callable[[exp.Expr], tuple[str, ...]], note: Note) -> exp.Expr:
    """Returns a tree for an engine other than Spark. Adds a note to each part whose values may differ between two engines.

    Args:
        tree: the tree that sqlglot read.
        engines: the engines of the two that are not Spark; the last one is the target.
        target: the name of the target.
        written: see :func:`in_spark`.
        note: see :func:`in_spark`.
    """
    for node in list(tree.find_all(exp.Func)):
        listed = written(node) if is_call(node) else ()
        if listed and any(not any(engine.calls.get(name) in (EQUAL, of_one) or name in engine.of_spark for name in listed) for engine in engines):
            note(node, f"{listed[0]}: its values in {target} were not compared with those here")
        first, *others = [_in_spark(node, engine) for engine in engines]
        if isinstance(node, (exp.Cast, exp.Extract)) and any(other != first for other in others or [(node, [])]):
            note(node, f"{node.sql_names()[0]}: its values in {target} differ from those here for some arguments")
    if target == "snowflake":
        tree = tree.copy()
        for select in tree.find_all(exp.Select):
            transforms.eliminate_window_clause(select)  # sqlglot would do so later, below the frames
        tree = replaced(tree, _framed)
    escapes = [exp.Like not in engine.operators for engine in engines]  # whether LIKE has the backslash as its escape character
    return replaced(tree, _escaped) if escapes in ([False], [True, False]) else tree


def _in_spark(node: exp.Expr, engine: Engine) -> tuple[exp.Expr, list[str]]:
    """Returns an engine's operator in Spark, and the notes on it."""
    operator, notes = engine.operators.get(type(node)), []
    try:
        return (node if operator is None else operator(node.copy(), lambda _, words: notes.append(words))), notes
    except Refused as refused:
        return node, [str(refused)]


def _framed(node: exp.Expr) -> exp.Expr:
    """Writes the standard's frame out for calls that depend on it. Without a frame they read the whole partition in Snowflake."""
    if not isinstance(node, exp.Window) or node.args.get("spec") is not None or node.args.get("order") is None:
        return node
    skipping = node.this.find(exp.FirstValue) is not None and node.this.find(exp.IgnoreNulls) is not None
    if skipping or node.this.find(exp.LastValue, exp.NthValue) is not None:
        node.set("spec", exp.WindowSpec(kind="RANGE", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW"))
    return node


def _escaped(node: exp.Expr) -> exp.Expr:
    """Writes the escape character of LIKE out, unless the pattern shows that it does not matter."""
    if not isinstance(node, (exp.Like, exp.ILike)) or isinstance(node.parent, exp.Escape) or "\\" not in (literal(node.expression) or "\\"):
        return node
    return exp.Escape(this=node.copy(), expression=text("\\"))


# -- the known facts about a value ------------------------------------------------------------------------------

_TEXTS = (exp.Upper, exp.Lower, exp.Concat, exp.ConcatWs, exp.DPipe, exp.Substring, exp.Trim, exp.Replace, exp.TimeToStr, exp.ToChar, exp.Left, exp.Right,
    exp.Pad)
_INTEGERS = (exp.Count, exp.CountIf, exp.Length, exp.StrPosition, exp.IntDiv, exp.Year, exp.Month, exp.Day, exp.Quarter, exp.Hour, exp.Minute, exp.DayOfMonth,
    exp.DayOfYear)
_OF_FIRST = ("FIRST", "LAST", "PREV", "NEXT")


def kind(node: exp.Expr | None) -> str:
    """Returns the kind of a value if the text shows it: integer, number, text, date, timestamp, boolean or null; else ""."""
    match node:
        case exp.Literal():
            return "text" if node.is_string else "integer" if node.name.isdigit() else "number"
        case exp.Cast():
            return _kind_of_type(node.to)
        case exp.Paren() | exp.Neg() | exp.Min() | exp.Max() | exp.Abs():
            return kind(node.this)
        case exp.Add() | exp.Sub() | exp.Mul():
            return _of_both(kind(node.this), kind(node.expression))
        case exp.Anonymous():
            name = node.name.upper()
            name = name.rpartition("_")[2] if name.startswith(MARK) else ""
            return kind(node.expressions[0]) if name in _OF_FIRST and node.expressions else {"CLASSIFIER": "text", "NUMBER": "integer"}.get(name, "")
        case exp.Predicate() | exp.Boolean():
            return "boolean"
    for kinds, found in ((_TEXTS, "text"), (_INTEGERS, "integer"),
        ((exp.CurrentDate, exp.LastDay, exp.DateStrToDate, exp.StrToDate, exp.TsOrDsToDate), "date"), ((exp.CurrentTimestamp, exp.StrToTime), "timestamp"),
        ((exp.Null,), "null")):
        if isinstance(node, kinds):
            return found
    return ""


def _of_both(left: str, right: str) -> str:
    if "number" in (left, right):
        return "number"
    return left if left == right else ""


def _kind_of_type(to: exp.DataType) -> str:
    if to.this in exp.DataType.INTEGER_TYPES:
        return "integer"
    if to.this in exp.DataType.NUMERIC_TYPES:
        return "number"
    if to.this in exp.DataType.TEXT_TYPES:
        return "text"
    return {exp.DType.DATE: "date", exp.DType.BOOLEAN: "boolean"}.get(to.this, "timestamp" if to.this in exp.DataType.TEMPORAL_TYPES else "")


ONLY_DOUBLE = (exp.DType.DOUBLE,)


def is_double(node: exp.Expr, kinds: tuple[exp.DType, ...] = (exp.DType.DOUBLE, exp.DType.FLOAT)) -> bool:
    """Whether the text shows that a value is a DOUBLE, or of another type in ``kinds``."""
    match node:
        case exp.Literal():
            return not node.is_string and "e" in node.name.lower()
        case exp.Paren() | exp.Neg():
            return is_double(node.this, kinds)
        case exp.Distinct():
            return is_double(node.expressions[0], kinds)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            return is_double(node.this, kinds) or is_double(node.expression, kinds)
    return isinstance(node, exp.Cast) and node.to.this in kinds


def whole(node: exp.Expr | None) -> int | None:
    """Returns the value of an integer literal of at most 100 digits, else None."""
    if isinstance(node, exp.Neg):
        found = whole(node.this)
        return None if found is None else -found
    return int(node.name) if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() and len(node.name) <= 100 else None


def literal(node: exp.Expr | None) -> str | None:
    """Returns the value of a text literal, else None."""
    return node.name if isinstance(node, exp.Literal) and node.is_string else None


def names(listed: str) -> dict[str, Meaning]:
    """Returns table entries for calls that mean the same in Spark."""
    return {name: EQUAL for name in listed.split()}


def noted(words: str) -> Rewrite:
    """Returns a rewriting that adds a note to an operator."""
    return silent_if(lambda node: False, words)


def refused(advice: str) -> Rewrite:
    def of(node: exp.Expr, note: Note) -> exp.Expr:
        raise Refused(node, advice)

    return of


def of_one(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates MIN and MAX of one argument."""
    if node.expressions:
        raise Refused(node, f"{node.key.upper()} has one argument in Spark: write slice(array_sort(array_agg(x)), 1, n) for the n least values")
    return node


def alone(node: exp.Expr) -> bool:
    """Whether an aggregate may become another expression: nothing such as OVER, FILTER, RUNNING or FINAL belongs to its call."""
    parent = node.parent
    marked = isinstance(parent, exp.Anonymous) and parent.name.upper().startswith(MARK)
    return not marked and not isinstance(parent, (exp.Window, exp.Filter, exp.WithinGroup))


def unordered(words: str) -> Rewrite:
    """Returns the translation of ARRAY_AGG without ORDER BY."""

    def of(node: exp.Expr, note: Note) -> exp.Expr:
        if node.find(exp.Order) is not None or isinstance(node.parent, exp.WithinGroup):
            raise Refused(node, "Spark does not support ORDER BY inside ARRAY_AGG: write array_sort(array_agg(struct(t, x))).x for the order of t")
        if words:
            note(node, words)
        return node

    return of


def silent_if(holds: Callable[[exp.Expr], bool], words: str) -> Rewrite:
    """Returns a rewriting that adds a note unless ``holds`` is true of the node."""

    def of(node: exp.Expr, note: Note) -> exp.Expr:
        if not holds(node):
            note(node, words)
        return node

    return of


# -- NULL -------------------------------------------------------------------------------------------------------


def null_if_any(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates GREATEST and LEAST of engines that return NULL if any argument is NULL."""
    args = [node.this, *node.expressions]
    if len(args) == 1:
        return args[0]
    tests = [exp.Is(this=exp.Paren(this=arg.copy()) if isinstance(arg, exp.Binary) else arg.copy(),
        expression=exp.null()) for arg in args if not isinstance(arg, exp.Literal)]
    found = call(type(node).sql_names()[0], *args)
    return exp.Case(ifs=[exp.If(this=exp.or_(*tests, copy=False), true=exp.null())], default=found) if tests else found


def any_value(node: exp.Expr, note: Note) -> exp.Expr:
    return call("any_value", node.this, exp.true())


def two_armed_if(node: exp.Expr, note: Note) -> exp.Expr:
    if node.args.get("false") is None and not isinstance(node.parent, exp.Case):
        node.set("false", exp.null())
    return node


# -- numbers ----------------------------------------------------------------------------------------------------


def integer_division(node: exp.Expr, note: Note) -> exp.Expr:
    left, right = kind(node.this), kind(node.expression)
    if left == right == "integer":
        return exp.IntDiv(this=node.this, expression=node.expression)
    if "number" not in (left, right):
        note(node, "/ of two integers cuts off there and does not here; write DIV where both are integers")
    return node


def rounded_division(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates ``/`` of an engine that divides integers, and rounds a quotient of DECIMALs to the digits of its sides."""
    if {kind(node.this), kind(node.expression)} != {"integer"} and not (is_double(node.this) or is_double(node.expression)):
        note(node, "/ of DECIMALs has only the digits of its sides there (1.0 / 3 is 0.3), and more here; write round(a / b, n) for n digits")
    return integer_division(node, note)


def integer_average(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates AVG of an engine where it has the type of an integer argument, and a scale of its own for DECIMALs."""
    found = kind(node.this)
    if found == "integer" and not isinstance(node.this, exp.Distinct):
        return exp.Paren(this=exp.IntDiv(this=call("sum", node.this), expression=call("count", node.this.copy())))
    if not is_double(node.this, ONLY_DOUBLE):
        note(node, "AVG of integers is an integer there and a DOUBLE here, AVG of FLOATs a FLOAT, and AVG of DECIMALs has another scale here")
    return node


def truncation(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates TRUNC of a number."""
    return truncated(node.this, node.args.get("decimals"))


def remainder_or_all(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates MOD of an engine that defines MOD(n, 0) as n."""
    if whole(node.expression) not in (None, 0):
        return node
    zero = exp.EQ(this=node.expression.copy(), expression=number(0))
    return exp.Case(ifs=[exp.If(this=zero, true=node.this.copy())], default=node.copy())


# -- texts ------------------------------------------------------------------------------------------------------


def like(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates LIKE of an engine without a default escape character; in Spark the backslash is one."""
    if isinstance(node.parent, exp.Escape):
        return node
    pattern = literal(node.expression)
    if pattern is None:
        note(node, "a backslash in the pattern of LIKE is a character there, and escapes the next one here")
    elif "\\" in pattern:
        node.set("expression", text(pattern.replace("\\", "\\\\")))
    return node


def part_of_text(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates SUBSTRING that returns nothing for a start of 0 or before the first character."""
    start = node.args.get("start")
    if start is None or (whole(start) or 0) > 0:
        return node
    before = exp.or_(exp.EQ(this=start.copy(), expression=number(0)), exp.LT(this=start.copy(), expression=exp.Neg(this=call("length", node.this.copy()))),
        copy=False)
    behind = exp.Add(this=call("length", node.this.copy()), expression=number(1))
    node.set("start", exp.If(this=before, true=behind, false=start))
    return node


def from_first_character(node: exp.Expr) -> bool:
    return (whole(node.args.get("start")) or 0) > 0


def searches_text(node: exp.Expr) -> bool:
    """Whether REPLACE searches for a non-empty literal."""
    return bool(literal(node.expression))


_FURTHER_ARGUMENTS = "Spark does not support a position, an occurrence or flags for a regular expression"


def two_arguments(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates a function of a text and a regular expression, whose position and occurrence may be written as 1.

    The third argument of Spark's REGEXP_INSTR is a group.
    """
    arguments = list(node.iter_expressions())
    if arguments[4:] or any(whole(argument) != 1 for argument in arguments[2:]):
        raise Refused(node, _FURTHER_ARGUMENTS)
    return call(node.name if isinstance(node, exp.Anonymous) else node.sql_names()[0], *arguments[:2]) if arguments[2:] else node


def extracted(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates a function that returns NULL if a regular expression finds nothing. Spark's returns an empty text."""
    further = [argument for key in ("position", "occurrence", "parameters") if (argument := node.args.get(key)) is not None]
    if any(whole(argument) != 1 for argument in further):
        raise Refused(node, _FURTHER_ARGUMENTS)
    pattern, group = node.expression, node.args.get("group")
    found = call("regexp_extract", node.this, pattern, group if group is not None else number(0))
    return exp.If(this=call("regexp_like", node.this.copy(), pattern.copy()), true=found, false=exp.null())


def plain_regex(node: exp.Expr | None) -> bool:
    found = literal(node)
    return found is not None and _PLAIN_REGEX.fullmatch(found) is not None


REGEX_NOTE = "its patterns differ slightly from Java's, which Spark uses"


def plain_pattern(node: exp.Expr) -> bool:
    return plain_regex(node.expression) and not node.args.get("parameters")


def _flagged(node: exp.Expr) -> exp.Expr:
    """Returns the pattern of REGEXP_LIKE, including the flags of its third argument."""
    flags = node.args.get("flag")
    if flags is None:
        return node.expression
    found = literal(flags)
    if found is None or set(found) - set("ci"):
        raise Refused(node, "only the flags 'c' and 'i' of a regular expression have a counterpart in Spark: write them into the pattern, as in '(?s)...'")
    if not found.rstrip("c").endswith("i"):
        return node.expression
    pattern = literal(node.expression)
    return call("concat", text("(?i)"), node.expression) if pattern is None else text("(?i)" + pattern)


def contains_pattern(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates REGEXP_LIKE that matches a part of the text."""
    if not plain_regex(node.expression):
        note(node, f"REGEXP_LIKE: {REGEX_NOTE}")
    return call("regexp_like", node.this, _flagged(node))


def whole_pattern(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates REGEXP_LIKE that must match the whole text."""
    if not plain_regex(node.expression):
        note(node, f"RLIKE: {REGEX_NOTE}")
    pattern = _flagged(node)
    found = literal(pattern)
    if found is None:
        return call("regexp_like", node.this, call("concat", text("\\A(?:"), pattern, text(")\\z")))
    return call("regexp_like", node.this, text(f"\\A(?:{found})\\z"))


def substituted(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates REGEXP_REPLACE with groups as ``\\1``; Spark has ``$1``."""
    if any(node.args.get(key) is not None for key in ("position", "occurrence", "modifiers")):
        raise Refused(node, "Spark does not support a position, an occurrence or flags for REGEXP_REPLACE")
    if node.args.get("replacement") is None:
        node.set("replacement", text(""))
    value = literal(node.args["replacement"])
    if not plain_regex(node.expression) or value is None:
        note(node, f"REGEXP_REPLACE: {REGEX_NOTE}, and groups are \\1 there and $1 here")
    else:
        node.set("replacement", text(re.sub(r"\\(\d)", r"$\1", value.replace("$", "\\$"))))
    return node


# -- dates ------------------------------------------------------------------------------------------------------


def iso_day_of_week(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates a weekday with Monday as 1. Spark's WEEKDAY has Monday as 0."""
    return exp.Paren(this=exp.Add(this=call("weekday", argument(node)), expression=number(1)))


def day_of_week_from_0(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates a weekday with Sunday as 0. Spark's DAYOFWEEK has Sunday as 1."""
    return exp.Paren(this=exp.Sub(this=call("dayofweek", argument(node)), expression=number(1)))


def iso_year(node: exp.Expr, note: Note) -> exp.Expr:
    return exp.Extract(this=exp.Var(this="YEAROFWEEK"), expression=argument(node))


def argument(node: exp.Expr) -> exp.Expr:
    """Returns the first argument of a call, known to sqlglot or not."""
    return node.expressions[0] if isinstance(node, exp.Anonymous) else node.this


def extraction(parts: dict[str, str | Callable[[exp.Expr], exp.Expr]], same: str) -> Rewrite:
    """Returns the translation of EXTRACT.

    ``parts``: name of a part there -> its name here, or a function that makes the value. ``same``: the parts with equal meaning.
    """
    equal = frozenset(same.split())

    def of(node: exp.Expr, note: Note) -> exp.Expr:
        part = node.this.name.upper()
        other = parts.get(part)
        if callable(other):
            return other(node.expression)
        if other is not None:
            return exp.Extract(this=exp.Var(this=other), expression=node.expression)
        if part not in equal:
            raise Refused(node, f"Spark's EXTRACT does not have a part {part} with the same values")
        return node

    return of


PARTS: dict[str, str | Callable[[exp.Expr], exp.Expr]] = {
    "SECOND": lambda moment: call("second", moment),  # an integer; Spark's part has a fraction
    "DAYOFYEAR": "DOY", "DAY_OF_YEAR": "DOY", "DAY_OF_MONTH": "DAY", "DAYOFMONTH": "DAY", "YOW": "YEAROFWEEK", "YEAR_OF_WEEK": "YEAROFWEEK",
}  # fmt: skip
SAME_PARTS = "YEAR QUARTER MONTH WEEK DAY HOUR MINUTE DOY"


def unit_of(node: exp.Expr) -> str:
    unit = node.args.get("unit")
    if isinstance(unit, exp.WeekStart):
        return f"WEEK({unit.name.upper()})"
    return unit.name.upper().rstrip("S") if unit is not None else "DAY"


def whole_units(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates a difference in whole units that counts Jan 31 to Feb 29 as a month."""
    if unit_of(node) in ("MONTH", "QUARTER", "YEAR"):
        note(node, "a difference of months counts from the end of one month to the end of a shorter one there (Jan 31 to Feb 29 is 1), and not here")
    return call("timestampdiff", exp.Var(this=unit_of(node)), node.expression, node.this)


def boundaries(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates a difference that counts unit boundaries between two moments: truncates both to the unit."""
    unit = unit_of(node)
    sunday = unit == "WEEK(SUNDAY)"
    unit = "WEEK" if sunday or unit in ("ISOWEEK", "WEEK(MONDAY)") else unit
    if unit not in _SIMPLE_UNITS:
        raise Refused(node, f"Spark cannot compute a difference in {unit.lower()}s")

    def cut(moment: exp.Expr) -> exp.Expr:
        return call("date_trunc", text(unit), exp.Add(this=exp.Paren(this=moment), expression=interval("1", "DAY")) if sunday else moment)

    return call("timestampdiff", exp.Var(this=unit), cut(node.expression), cut(node.this))


def months_later(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates ADD_MONTHS that keeps the end of a month and the time of day.

    The day after the end of a month is a first, which every month has.
    """
    start, amount = node.this, node.expression
    months = interval(str(whole(amount)), "MONTH") if whole(amount) is not None else exp.Mul(this=exp.Paren(this=amount), expression=interval("1", "MONTH"))
    base = exp.Paren(this=start) if isinstance(start, exp.Binary) else start
    day, last = call("day", start.copy()), call("day", call("last_day", start.copy()))
    first = exp.Add(this=base.copy(), expression=interval("1", "DAY"))
    ended = exp.Sub(this=exp.Add(this=first, expression=months.copy()), expression=interval("1", "DAY"))
    return exp.Case(ifs=[exp.If(this=exp.EQ(this=day, expression=last), true=ended)], default=exp.Add(this=base, expression=months))


def later(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates DATEADD.

    ``transpile`` turns a literal amount into an interval, and the sum stays a DATE; DATEADD does not keep it.
    """
    if whole(node.expression) is None and kind(node.this) != "timestamp":
        note(node, "an amount that is not a literal turns a DATE into a TIMESTAMP here")
    return node


def cut_date(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates DATE_TRUNC that keeps a DATE."""
    found = kind(node.this)
    made = call("date_trunc", text(unit_of(node)), node.this)
    if unit_of(node) not in _SIMPLE_UNITS:
        raise Refused(node, f"Spark's DATE_TRUNC does not support the unit {unit_of(node)}")
    if found == "date":
        return cast(made, "DATE")
    if found != "timestamp":
        note(node, "DATE_TRUNC of a DATE is a DATE there and a TIMESTAMP here")
    return made


def difference(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates ``a - b`` of an engine with a number of days as the difference of two dates."""
    left, right = kind(node.this), kind(node.expression)
    if left == right == "date":
        return call("datediff", node.this, node.expression)
    may_be_dates = right not in ("integer", "number", "text") and left not in ("integer", "number") and not isinstance(node.expression, exp.Interval)
    if may_be_dates and not _beside_a_length(node):
        note(node, "the difference of two dates is a number of days there and an INTERVAL here")
    return node


def _beside_a_length(node: exp.Expr) -> bool:
    """Whether a difference is compared with, or added to, an INTERVAL, or a number, which Spark refuses for an INTERVAL."""
    child, parent = node, node.parent
    while isinstance(parent, exp.Paren):
        child, parent = parent, parent.parent
    if not isinstance(parent, (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Add, exp.Sub)):
        return False
    other = parent.expression if parent.this is child else parent.this
    return isinstance(other, exp.Interval) or kind(other) in ("integer", "number")


_FORMATS = {"YYYY": "yyyy", "MM": "MM", "MON": "MMM", "DD": "dd", "HH24": "HH", "MI": "mm", "SS": "ss", "FF6": "SSSSSS", "FF3": "SSS"}
_FORMAT = re.compile(r"YYYY|MM|MON|DD|HH24|MI|SS|FF6|FF3|[-/,.;: ]")  # other marks quote texts, there or in Java


def java_format(form: exp.Expr | None) -> str | None:
    """Returns a date format in Java's letters. Returns None if the meaning of a part is not known to be equal."""
    found = literal(form)
    parts = _FORMAT.findall(found.upper()) if found is not None else []
    return "".join(_FORMATS.get(part, part) for part in parts) if found and "".join(parts) == found.upper() else None


def date_text(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates TO_CHAR with a format of dates or numbers, or without a format."""
    form = node.args.get("format")
    if form is None:
        if kind(node.this) not in ("integer", "text"):
            note(node, "TO_CHAR: numbers with a fraction, dates and times are formatted differently there")
        return cast(node.this, "STRING")
    java = java_format(form)
    if java is not None:
        return call("date_format", node.this, text(java))
    if literal(form) is None or not re.fullmatch(r"(?=.*[09])[09.,$GDSLFM]+", literal(form) or "", re.I):
        raise Refused(node, "Spark's formats are those of Java: write date_format(x, 'yyyy-MM-dd') with an equivalent format")
    note(node, "formats of to_char are not those of Spark: leading spaces are missing there")
    return call("to_char", node.this, form)


# -- casts ------------------------------------------------------------------------------------------------------

_DIGITS = 6  # of a second, in a TIMESTAMP of Spark's
_OF_DIGITS = {exp.DType.TIMESTAMP_S: 0, exp.DType.TIMESTAMP_MS: 3, exp.DType.TIMESTAMP_NS: 9}
_MOMENTS = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ, exp.DType.DATETIME, *_OF_DIGITS)


def casts(
    *, rounds: bool = True, to_even: bool = False, cuts: bool = False, decimal: tuple[int, int] | None = (38, 0), dates: str = "", floats: str | None = None,
    digits: int = 6,
) -> dict[type[exp.Expr], Rewrite]:  # fmt: skip
    """Returns the translations of an engine's CAST, TRY_CAST and types.

    Args:
        rounds: whether a cast to an integer rounds a fraction; Spark truncates it.
        to_even: whether halves of a DOUBLE are rounded to even; then only literals are rounded here.
        cuts: whether VARCHAR(n) truncates a text; Spark keeps it.
        decimal: precision and scale of a plain DECIMAL; None if they depend on the value.
        dates: a note on casts to DATE.
        floats: a note on FLOAT where it has more digits than Spark's. It is "" if FLOAT is a DOUBLE, and None if it is Spark's.
        digits: the digits of a second of a plain TIMESTAMP. If they are more than Spark's, a note needs still more.
    """

    def cast_of(node: exp.Expr, note: Note) -> exp.Expr:
        to, found = node.to, kind(node.this)
        if to.this in exp.DataType.INTEGER_TYPES and rounds:
            if found == "number" and not (to_even and isinstance(node.this, exp.Cast)):
                node.set("this", call("round", node.this))
            elif found not in ("integer", "text", "boolean", "null"):
                note(node, "CAST to an integer rounds there and cuts off here: write CAST(round(x) AS ...) where x may have a fraction")
        elif to.this in (exp.DType.CHAR, exp.DType.NCHAR):
            note(node, "CHAR(n) is padded with spaces there, and a cast to it is not here")
        elif to.this in exp.DataType.TEXT_TYPES:
            if found not in ("integer", "text", "boolean", "null"):
                note(node, "CAST: numbers with a fraction and times are formatted differently there (1.0E1, 10:00:00.000)")
            if cuts and to.expressions:
                return call("substring", cast(node.this, "STRING"), number(1), exp.Literal.number(to.expressions[0].name))
        elif to.this in _MOMENTS:
            kept, value = _digits_of(to, digits), literal(node.this)
            is_exact = value is not None and re.search(rf"\.\d{{{min(kept, _DIGITS) + 1}}}", value) is None
            if (kept < _DIGITS or kept > max(_DIGITS, digits)) and found != "date" and not is_exact:
                note(node, f"a TIMESTAMP has {'only ' if kept < _DIGITS else ''}{kept} digits of a second there, and {_DIGITS} here")
        elif to.this == exp.DType.DATE and dates and found != "text":
            note(node, dates)
        elif to.this in (exp.DType.JSON, exp.DType.VARIANT, exp.DType.OBJECT):
            note(node, f"CAST AS {to.this.value}: its values in Spark were not compared")
        node.set("to", typed(to, node, note))
        return node

    def typed(to: exp.DataType, node: exp.Expr, note: Note) -> exp.DataType:
        """Returns a type as Spark has it."""
        if to.this == exp.DType.DECIMAL and not to.expressions:
            if decimal is None:
                note(node, "NUMBER without a precision keeps all digits there, and is a DOUBLE here")
            return exp.DataType.build("DOUBLE" if decimal is None else f"DECIMAL({decimal[0]}, {decimal[1]})")
        if to.this == exp.DType.FLOAT and floats is not None:
            if floats:
                note(node, floats)
            return exp.DataType.build("DOUBLE")
        if to.this in _MOMENTS and (to.expressions or to.this in _OF_DIGITS):
            return exp.DataType(this=exp.DType.TIMESTAMPNTZ if to.this in _OF_DIGITS else to.this)
        if to.this == exp.DType.TIMETZ:
            raise Refused(node, "Spark does not support TIME WITH TIME ZONE")
        if to.this == exp.DType.TIME:
            note(node, "TIME is off in Spark unless spark.sql.timeType.enabled is true")
            return exp.DataType(this=exp.DType.USERDEFINED, kind="TIME")  # sqlglot would turn it into a TIMESTAMP
        return to

    def type_of(node: exp.Expr, note: Note) -> exp.Expr:
        """Translates a type within another type, or outside of a cast."""
        return node if isinstance(node.parent, exp.Cast) else typed(node, node, note)

    return {exp.Cast: cast_of, exp.TryCast: cast_of, exp.DataType: type_of}


def _digits_of(to: exp.DataType, plain: int) -> int:
    """Returns the digits of a second that a type of moments has. ``plain``: those without a parameter."""
    if to.this in _OF_DIGITS:
        return _OF_DIGITS[to.this]
    found = whole(to.expressions[0].this) if to.expressions else None
    return plain if found is None else found
