"""Fallible row expressions: finds those that may raise an error, and makes SQL that computes them for every row without failing.

Spark computes an expression of one row below the engine, for every row of the input. The statement needs its value at some of these
rows only: at candidates of a variable, after AND, CASE, IF and FILTER, in reported matches. So an expression that may fail becomes
two columns: its value, NULL if it fails, and a mark of the failure. Every reader of the value checks the mark first.

Spark SQL lacks an operator that catches an error of any expression. ``try_add`` of intervals catches every error of its operands,
so the expression is made part of such an operand (:class:`Catcher`). Two properties of Spark's optimizer shape the text. It drops
an expression whose value does not matter, so the text needs a value that depends on it (``array_repeat`` is not folded). And it
computes a subexpression that occurs twice ahead of both places, unless it lies in a branch of CASE.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sparkcep.clause.expressions import Expr
from sparkcep.plan.scope import NAVIGATIONS, OF_ROWS, is_of_row

# functions whose operands Spark converts to a common type
_JOINING = frozenset("COALESCE NVL IFNULL NVL2 IF IFF NULLIF GREATEST LEAST".split())
# functions that never fail, for any operands and under any setting
_SAFE = frozenset(
    """BIT_LENGTH BTRIM CHARACTER_LENGTH CHAR_LENGTH CONCAT CONCAT_WS CONTAINS CRC32 ENDSWITH GET_JSON_OBJECT HASH INITCAP INSTR ISNAN
    ISNOTNULL ISNULL LCASE LEFT LENGTH LEN LEVENSHTEIN LOCATE LOWER LPAD LTRIM MD5 NAMED_STRUCT OCTET_LENGTH POSITION REPEAT REPLACE
    REVERSE RIGHT RPAD RTRIM SHA SHA1 SIZE SOUNDEX STARTSWITH STRUCT SUBSTR SUBSTRING TRANSLATE TRIM TRY_ADD TRY_DIVIDE TRY_MOD
    TRY_MULTIPLY TRY_SUBTRACT UCASE UPPER XXHASH64 CLASSIFIER MATCH_NUMBER""".split()
)
# functions whose value is a number for any operands
_NUMBERS = frozenset(
    """BIT_LENGTH CHARACTER_LENGTH CHAR_LENGTH CRC32 DATEDIFF DATE_DIFF DAY DAYOFMONTH DAYOFWEEK DAYOFYEAR HASH HOUR INSTR LEN LENGTH LEVENSHTEIN
    LOCATE MATCH_NUMBER MINUTE MONTH OCTET_LENGTH POSITION QUARTER SIZE WEEK WEEKDAY WEEKOFYEAR XXHASH64 YEAR""".split()
)
# functions that never fail, for any first operand, if the other operands are literals that the analysis accepts
_SAFE_BY_LITERALS = frozenset("REGEXP_EXTRACT REGEXP_LIKE REGEXP_REPLACE REGEXP RLIKE SPLIT".split())
# functions that can fail under ANSI only, by converting an operand; otherwise they return NULL, NaN or infinity
_OF_DOUBLES = frozenset(
    """ACOS ACOSH ASIN ASINH ATAN ATAN2 ATANH CBRT COS COSH COT DEGREES EXP EXPM1 HYPOT LN LOG LOG10 LOG1P LOG2 POW POWER RADIANS RINT
    SIGN SIGNUM SIN SINH SQRT TAN TANH ABS CEIL CEILING FLOOR NEGATIVE POSITIVE ROUND BROUND MOD PMOD DATEDIFF DATE_DIFF DATE_ADD DATE_SUB
    YEAR QUARTER MONTH WEEK WEEKOFYEAR DAY DAYOFMONTH DAYOFWEEK DAYOFYEAR WEEKDAY HOUR MINUTE SECOND LAST_DAY ADD_MONTHS MONTHS_BETWEEN
    DATE_TRUNC TRUNC""".split()
)
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=", "<=>")
_CONVERSION, ANY = "CAST_INVALID_INPUT", "EXPRESSION_FAILED"
_CALLS = {"ABS": "ARITHMETIC_OVERFLOW", "NEGATIVE": "ARITHMETIC_OVERFLOW", "MOD": "DIVIDE_BY_ZERO", "PMOD": "DIVIDE_BY_ZERO"}  # which fail as operators do
_TEXT_TYPES = ("string", "varchar", "char", "binary")
_FLOATING, _INTEGERS = "'double', 'float'", "'tinyint', 'smallint', 'int', 'bigint'"  # as typeof() spells them
_TIMES = "{} IN ('date', 'timestamp', 'timestamp_ntz')"  # {}: the type
# functions of a time -> the types for which they never fail
_OF_TIMES = dict.fromkeys("YEAR QUARTER MONTH WEEK WEEKOFYEAR DAY DAYOFMONTH DAYOFWEEK DAYOFYEAR WEEKDAY LAST_DAY DATE TO_DATE".split(), _TIMES) | dict.fromkeys(
    "HOUR MINUTE SECOND".split(), "{} IN ('timestamp', 'timestamp_ntz')"
)
# target of a cast -> the types whose values all fit
_FITTING = {
    "date": _TIMES, "timestamp": "{} IN ('timestamp')", "double": f"{{}} IN ({_FLOATING}, {_INTEGERS}) OR {{}} LIKE 'decimal%'", "bigint": f"{{}} IN ({_INTEGERS})", "int": "{} IN ('tinyint', 'smallint', 'int')",
}  # fmt: skip


def may_fail(expr: Expr, ansi: bool) -> bool:
    """Whether computing ``expr`` may end the query for some row, as far as its text shows.

    Without ANSI only functions and casts of VARIANT may.
    """
    return any(_fails(node, ansi) for node in expr.walk())


def computes(expr: Expr, ansi: bool) -> bool:
    """Whether ``expr`` may fail in another way than by comparing a string with a number."""
    return any(_computes(node, ansi) for node in expr.walk())


def _computes(node: Expr, ansi: bool) -> bool:
    return _fails(node, ansi) and (node.op == "cast" or _error_class(node) != _CONVERSION)


def error_class(expr: Expr, ansi: bool) -> str:
    """Spark's error class if ``expr`` may fail in one way only, :data:`ANY` if in several."""
    found = {_error_class(node) for node in expr.walk() if _fails(node, ansi)}
    if len(found) > 1:
        found.discard(_CONVERSION)  # conversions come from comparisons with strings, which are rare next to arithmetic
    return found.pop() if len(found) == 1 else ANY


def _error_class(node: Expr) -> str:
    if node.op == "bin" and node.value in ("/", "%", "DIV"):
        return "DIVIDE_BY_ZERO"
    if node.op == "bin" and node.value in ("+", "-", "*") or node.op == "un":
        return "ARITHMETIC_OVERFLOW"
    if node.op == "index":
        return "INVALID_ARRAY_INDEX"
    if node.op == "call" and node.value in _CALLS:
        return _CALLS[node.value]
    return ANY if node.op in ("call", "like") and node.value not in _JOINING else _CONVERSION


def _fails(node: Expr, ansi: bool) -> bool:
    match node.op:
        case "bin" if node.value not in _COMPARISONS:
            return ansi and node.value != "||"
        case "bin":
            return ansi and _converts(node.args)
        case "between" | "in":
            return ansi and node.value is None and _converts(node.args)
        case "is":
            return ansi and node.value == "DISTINCT" and _converts(node.args)
        case "like":
            return not all(arg.bare().op == "lit" for arg in node.args[1:])
        case "un":
            return ansi and node.value in ("-", "~") and node.args[0].bare().op != "lit"
        case "cast":
            return "try" not in node.flags and not str(node.value).lower().startswith(_TEXT_TYPES)
        case "index":
            return ansi
        case "case":
            return ansi and _converts(_values_of(node))
        case "call":
            return _call_fails(node, ansi)
    return False


def _call_fails(call: Expr, ansi: bool) -> bool:
    if call.value in NAVIGATIONS or call.value in _SAFE or call.value in OF_ROWS:
        return False
    if call.value in _SAFE_BY_LITERALS:
        return not all(arg.bare().op == "lit" for arg in call.args[1:])
    if call.value in _JOINING:
        return ansi and _converts(call.args[1:] if call.value in ("IF", "IFF", "NVL2") else call.args)
    return ansi or call.value not in _OF_DOUBLES


def _values_of(case: Expr) -> tuple[Expr, ...]:
    """The values that a CASE chooses from."""
    shape = str(case.value)
    parts = case.args[1:] if shape.startswith("o") else case.args
    values = list(parts[1 : 2 * shape.count("w") : 2])
    return (*values, *parts[2 * shape.count("w") :])


def _converts(operands: tuple[Expr, ...]) -> bool:
    """Whether converting the operands to a common type may fail, because a string may not be a number.

    Literals, and a single operand beside strings, need no conversion of the rows' values.
    """
    others = [operand for operand in (o.bare() for o in operands) if operand.op != "lit"]
    literals = [operand for operand in (o.bare() for o in operands) if operand.op == "lit"]
    if not others or all(map(_is_number, others)) and not any(str(literal.value)[0] in "'\"" for literal in literals):
        return False
    return len({_shape(other) for other in others}) > 1 or any(str(literal.value)[0] in ".0123456789" for literal in literals)


def _is_number(expr: Expr) -> bool:
    """Whether the text alone shows that the value is a number."""
    expr = _navigated(expr)
    signed = expr.op == "un" and expr.args[0].bare().op == "lit" and str(expr.args[0].bare().value)[0] in ".0123456789"
    return signed or (expr.op == "call" and expr.value in _NUMBERS)


def _shape(expr: Expr) -> object:
    """A key that is equal for operands over the same column, even of different rows."""
    expr = _navigated(expr)
    return ("col", str(expr.value[-1]).lower()) if expr.op == "col" else expr


def pieces(expr: Expr, ansi: bool) -> Iterator[Expr]:
    """The largest parts of ``expr`` that read columns and cannot fail. Inside a lambda only the columns are returned.

    A subquery is a part, too, because Spark computes it below the engine, where its outer columns are.
    """
    expr = expr.bare()
    if is_subquery(expr):
        yield expr
        return
    subqueries = [node for node in expr.walk() if is_subquery(node)]
    inner = list(_columns(expr, stars=True))
    if not inner and not subqueries:
        return
    if expr.op == "lambda" or any(node.op == "lambda" for node in expr.args):
        yield from (*inner, *subqueries)
    elif not may_fail(expr, ansi) or any(arg.op == "star" for arg in expr.args):  # Spark expands a star inside its call only
        yield expr
    else:
        for arg in expr.args:
            yield from pieces(arg, ansi)


def is_subquery(node: Expr) -> bool:
    """Whether a node is a subquery, EXISTS, or IN over one."""
    return node.op == "subquery" or (node.op == "in" and node.value is not None)


def _columns(expr: Expr, bound: frozenset[str] = frozenset(), *, stars: bool = False) -> Iterator[Expr]:
    if expr.op == "lambda":
        bound = bound | frozenset(expr.value)
    if expr.op == "col":
        if expr.value[0].lower() not in bound:
            yield expr
        return
    if is_of_row(expr) or (stars and expr.op == "star"):
        yield expr
    for arg in expr.args:
        yield from _columns(arg, bound, stars=stars)


class RowPart(NamedTuple):
    """A conjunct of a condition over a row, as SQL.

    Attributes:
        text: its SQL.
        expr: the conjunct as it is written, None if other SQL replaces it.
    """

    text: str
    expr: Expr | None = None


@dataclass(frozen=True)
class Catcher:
    """Makes SQL for expressions whose errors are caught.

    Attributes:
        beside: a column that the expressions read, "" without one. It puts an expression into a branch of CASE whose condition
            depends on the row. Spark then computes no part of the expression ahead.
        typed: a condition on types under which the expressions may fail, which Spark's optimizer evaluates. "" if they may fail
            for any types.
    """

    beside: str = ""
    typed: str = ""

    def value(self, text: str) -> str:
        """SQL for the value of the expression ``text``, NULL if it fails."""
        return f"CASE WHEN {f'NOT ({self.typed}) OR ' if self.typed else ''}{self._caught(text)} IS NOT NULL THEN {text} END"

    def failure(self, text: str, mark: str = "true") -> str:
        """SQL for ``mark`` if the expression ``text`` fails, else NULL."""
        return f"CASE WHEN {f'({self.typed}) AND ' if self.typed else ''}{self._caught(text)} IS NULL THEN {mark} END"

    def _caught(self, text: str) -> str:
        """SQL that is NULL if the expression ``text`` fails, and not NULL otherwise."""
        number = f"make_ym_interval(0, size(array_repeat({text}, 1)))"
        if self.beside:
            number = f"CASE WHEN size(array_repeat({self.beside}, 1)) = 1 THEN {number} END"
        return f"try_add({number}, INTERVAL '0' MONTH)"


def catcher(parts: Iterable[Expr], ansi: bool, text_of: Callable[[Expr], str]) -> Catcher:
    """The :class:`Catcher` for an expression, or for several that are computed together. ``text_of`` returns a column's SQL."""
    parts = tuple(parts)
    columns = [column for part in parts for column in _columns(part)]
    tests = [_typed(node, ansi, text_of) for part in parts for node in part.walk() if _fails(node, ansi)]
    if any(node.op == "star" for part in parts for node in part.walk()):
        tests = []
    if "" in tests or any(node.op == "lambda" for part in parts for node in part.walk()):
        tests = []
    return Catcher(text_of(columns[0]) if columns else "", " OR ".join(dict.fromkeys(tests)))


def shielded(conditions: Sequence[Sequence[RowPart]], ansi: bool, text_of: Callable[[Expr], str]) -> list[str]:
    """The SQL of several conditions of a row, which Spark computes together.

    Spark computes an expression ahead that occurs twice among them, even if AND or OR guards both places. If such an expression may
    fail, its conjunct goes into a branch of CASE. The CASEs differ, because Spark also computes equal CASEs ahead.

    Args:
        conditions: the conjuncts of each.
        ansi: whether ANSI is on.
        text_of: returns a column's SQL.
    """
    numbers: dict[tuple, int] = {}
    counts: Counter[int] = Counter()
    asked: set[int] = set()  # conversions that every row needs

    def visit(expr: Expr, guarded: bool, into: list[tuple[int, Expr]]) -> int:
        """Counts the parts that may fail, and adds those that a guard precedes. Returns a number that equal expressions share."""
        expr = expr.bare()
        if _reads_twice(expr):
            visit(expr.args[0], guarded, into)
        # Spark computes nothing of a lambda's body ahead.
        parts = expr.args if expr.op == "lambda" else tuple(visit(arg, guarded or (i > 0 and expr.op in ("and", "or")), into) for i, arg in enumerate(expr.args))
        of = text_of(expr).lower() if expr.op == "col" else str(expr.value)
        number = numbers.setdefault((expr.op, of, expr.flags, parts), len(numbers))
        if _computes(expr, ansi):
            counts[number] += 1
            if guarded:
                into.append((number, expr))
        elif _fails(expr, ansi):
            # Spark computes the conversion of an operand ahead, also if it is compared with other values elsewhere
            converted = [numbers.setdefault(("converted", part), len(numbers)) for arg, part in zip(expr.args, parts) if arg.bare().op != "lit"]
            counts.update(converted[:1] if _reads_twice(expr) and expr.args[0].bare().op != "lit" else [])
            counts.update(converted)
            if guarded:
                into += [(each, expr) for each in converted]
            else:
                asked.update(converted)
        return number

    found: list[list[tuple[str, list[tuple[int, Expr]]]]] = []
    for conjuncts in conditions:
        found.append([])
        for i, conjunct in enumerate(conjuncts):
            guarded: list[tuple[int, Expr]] = []
            if conjunct.expr is not None:
                visit(conjunct.expr, i > 0, guarded)
                arithmetic = conjunct.expr.bare().op == "bin" and conjunct.expr.bare().value not in _COMPARISONS
                guarded = [] if arithmetic else guarded  # Spark refuses it and quotes the text
            found[-1].append((conjunct.text, guarded))
    shields = itertools.count(1)
    return [" AND ".join(_shielded(text, catcher([part for number, part in guarded if counts[number] > 1 and number not in asked], ansi, text_of), shields) for text, guarded in parts) for parts in found]


def _reads_twice(expr: Expr) -> bool:
    """Whether Spark computes the first operand several times: it compares that of CASE and DECODE with each value."""
    if expr.op == "call":
        return expr.value == "NULLIF" or (expr.value == "DECODE" and len(expr.args) > 4)
    return expr.op == "between" or (expr.op == "case" and str(expr.value).startswith("oww"))


def _shielded(text: str, shared: Catcher, numbers: Iterator[int]) -> str:
    """A conjunct as a branch of CASE if there is a column beside it. The condition of the CASE is always true."""
    if not shared.beside:
        return text
    return f"CASE WHEN {f'NOT ({shared.typed}) OR ' if shared.typed else ''}size(array_repeat({shared.beside}, 1)) <= {next(numbers)} THEN {text} END"


_SHIELD = re.compile(
    r"CASE WHEN (?:\(*NOT (?:(?!CASE WHEN| THEN ).)*? OR )?\(*size\(array_repeat\((?:(?!CASE WHEN| THEN ).)*?, 1\)\) <?= \d+\)* THEN (?!make_ym_interval)", re.DOTALL
)
_NESTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|`[^`]*`|\b(?:CASE|END)\b", re.IGNORECASE)


def unshielded(sql: str) -> str:
    """SQL, perhaps as Spark prints it, without the branches of CASE that :func:`shielded` adds."""
    while begin := _SHIELD.search(sql):
        depth = 1
        for word in _NESTED.finditer(sql, begin.end()):
            depth += {"CASE": 1, "END": -1}.get(word[0].upper(), 0)
            if not depth:
                sql = sql[: begin.start()] + sql[begin.end() : word.start()].rstrip() + sql[word.end() :]
                break
        else:
            return sql
    return sql


def _typed(node: Expr, ansi: bool, text_of: Callable[[Expr], str]) -> str:
    """The column types for which a node may fail, as SQL. "" if it may fail for any type."""
    if node.op == "cast" and not ansi:
        return " OR ".join(f"typeof({text_of(column)}) LIKE '%variant%'" for column in _columns(node))
    if fitting := _fitting(node):
        column = _navigated(node.args[0])
        return f"NOT ({fitting.replace('{}', f'typeof({text_of(column)})')})" if column.op == "col" else ""
    if _error_class(node) == _CONVERSION and node.op != "cast":
        columns = list(_columns(node))
        return " OR ".join(f"typeof({text_of(column)}) LIKE 'string%'" for column in columns)
    if node.value not in ("+", "-", "*") and not (node.op == "bin" and node.value in ("/", "%") and _is_nonzero(node.args[1].bare())):
        return ""
    operands = list(_operands(node))
    if None in operands:
        return ""
    types = list(dict.fromkeys(f"typeof({text_of(operand)})" for operand in operands if operand is not None and operand.op == "col"))
    literals = [operand for operand in operands if operand is not None and operand.op == "lit"]
    if not types:
        return ""
    # Arithmetic of numbers cannot fail if one of them is a DOUBLE. Nor can the division of an integer by another number than 0.
    if any(_is_floating(literal) for literal in literals) or (len(types) == 1 and node.value in ("/", "%") and all(_is_integer(literal) for literal in literals)):
        safe = " AND ".join(f"{of} IN ({_FLOATING}, {_INTEGERS})" for of in types)
    elif len(types) == 1:
        safe = f"{types[0]} IN ({_FLOATING})"
    else:
        floating = " OR ".join(f"{of} IN ({_FLOATING})" for of in types)
        safe = f"({floating}) AND {' AND '.join(f'{of} IN ({_FLOATING}, {_INTEGERS})' for of in types)}"
    return f"NOT ({safe})"


def _fitting(node: Expr) -> str:
    """The types of its operand for which a cast, or a function of a time, never fails, as SQL. "" for other nodes."""
    if node.op == "cast":
        return _FITTING.get(str(node.value).lower(), "")
    return _OF_TIMES.get(str(node.value), "") if node.op == "call" and len(node.args) == 1 else ""


def _navigated(expr: Expr) -> Expr:
    """The expression without navigations around it."""
    expr = expr.bare()
    while expr.op == "call" and expr.value in NAVIGATIONS and expr.args:
        expr = expr.args[0].bare()
    return expr


def _is_nonzero(expr: Expr) -> bool:
    """Whether ``expr`` is a number other than 0 in the text."""
    digits = re.match(r"[\d.]+", str(expr.value)) if expr.op == "lit" else None
    return digits is not None and digits[0].strip("0.") != ""


def _is_floating(literal: Expr) -> bool:
    return re.fullmatch(r"[\d.]+(E[+-]?\d+)?[DF]|[\d.]+E[+-]?\d+", str(literal.value), re.IGNORECASE) is not None


def _is_integer(literal: Expr) -> bool:
    return re.fullmatch(r"\d{1,18}", str(literal.value)) is not None


def _operands(node: Expr) -> Iterator[Expr | None]:
    """The columns and numbers of an arithmetic expression, and None for an operand whose type is not known."""
    node = node.bare()
    if node.op == "col" or (node.op == "lit" and str(node.value)[0] in ".0123456789"):
        yield node
    elif node.op == "un" or (node.op == "bin" and node.value in ("+", "-", "*", "/", "%")):
        for arg in node.args:
            yield from _operands(arg)
    elif node.op == "call" and node.value in NAVIGATIONS and node.args:
        yield from _operands(node.args[0])
    elif not _is_number(node):
        yield None


FAILS = "whether this fails: "
# Spark prints further parentheses around comparisons
_MADE = re.compile(
    r"CASE WHEN (?:(?!CASE WHEN).)*?try_add\((?:CASE WHEN \(?size\(array_repeat\(.*?, 1\)\) = 1\)? THEN )?make_ym_interval\(0, size\(array_repeat\((?P<text>.*?), 1\)\)\)"
    r"(?: END)?, INTERVAL '0' MONTH\) IS (?P<value>NOT )?NULL\)* THEN .* END",
    re.DOTALL,
)


def spoken(sql: str) -> str:
    """The expression inside the SQL of a :class:`Catcher` or of :func:`shielded`, for readers, or a phrase for its failure.

    The SQL may be as Spark prints it. Other SQL is returned as it is.
    """
    made = _MADE.fullmatch(sql)
    return unshielded(sql) if made is None else made["text"] if made["value"] else f"{FAILS}{made['text']}"


_TYPED = re.compile(r"CASE WHEN (?:NOT )?\((?:NOT \()?\(?typeof\((?:(?!CASE WHEN|try_add).)*?\) (?:OR|AND) (?=try_add\()", re.DOTALL)


def plainest(sql: str) -> str:
    """SQL without parts that change no value, because another version may have written others.

    These are the conditions on types of a :class:`Catcher`, and the branches of :func:`shielded`.
    """
    return unshielded(_TYPED.sub("CASE WHEN ", sql))


def forced(text: str) -> str:
    """SQL for a condition that is true, and fails if the expression ``text`` does."""
    return f"size(array_repeat({text}, 1)) = 1"
