"""Translates Flink's functions and types to Spark's, and Spark's to Flink's; sqlglot lacks a dialect for Flink.

``transpile`` uses it. sqlglot would misread some of Flink's functions (REGEXP_EXTRACT returns the whole match there, TIMESTAMPDIFF
begins with its unit). So while it reads, calls of the functions in the table have names that it does not know. The source is
*Table API & SQL*, System (Built-in) Functions.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from sparkcep.dialect.building import call as _call
from sparkcep.dialect.building import interval as _interval
from sparkcep.dialect.building import number as _number
from sparkcep.dialect.building import replaced as _replaced
from sparkcep.dialect.building import text as _text
from sparkcep.dialect.building import truncated as _truncated

MARK = "FLINK_"  # the prefix of a call's name while sqlglot reads
Note = Callable[[str], None]
_MICROSECOND = "0.000001"


def _regexp_extract(text, regex, group=None):
    found = _call("regexp_extract", text, regex, group or _number(0))
    return exp.If(this=_call("regexp", text.copy(), regex.copy()), true=found, false=exp.null())


def _split_index(text, separator, index):
    quoted = _call("concat", _text("\\Q"), separator, _text("\\E"))
    return _call("get", _call("split", text, quoted), index)


def _truncate(number, places=None):
    return _truncated(number, places or _number(0))


def _to_timestamp_ltz(value, form=None):
    precision = form.name if isinstance(form, exp.Literal) and not form.is_string else ""
    if form is None or precision in ("0", "3"):
        return _call("timestamp_seconds" if precision == "0" else "timestamp_millis", value)
    return _call("try_to_timestamp", value, form) if isinstance(form, exp.Literal) and form.is_string else None


def _rand_integer(bound, seed=None):
    seed, bound = (None, bound) if seed is None else (bound, seed)
    drawn = _call("rand", *([seed] if seed is not None else []))
    return exp.Cast(this=_call("floor", exp.Mul(this=drawn, expression=exp.Paren(this=bound))), to=exp.DataType.build("INT"))


def _convert_tz(text, of, to):
    moved = _call("convert_timezone", of, to, _call("to_timestamp_ntz", text))
    return _call("date_format", moved, _text("yyyy-MM-dd HH:mm:ss"))


def _json_exists(text, path):
    return exp.Paren(this=exp.Not(this=exp.Is(this=_call("get_json_object", text, path), expression=exp.null())))


def _listagg(value, separator=None):
    if isinstance(value, exp.Distinct) and len(value.expressions) == 2:
        first, separator = value.expressions
        value = exp.Distinct(expressions=[first])
    return _call("listagg", value, separator or _text(","))


# Flink's name -> the Spark call; None if the arguments do not determine it.
_CALLS: dict[str, Callable[..., exp.Expr | None]] = {
    "REGEXP_EXTRACT": _regexp_extract,
    "SPLIT_INDEX": _split_index,
    "TRUNCATE": _truncate,
    "TO_TIMESTAMP_LTZ": _to_timestamp_ltz,
    "RAND_INTEGER": _rand_integer,
    "CONVERT_TZ": _convert_tz,
    "JSON_EXISTS": _json_exists,
    "JSON_VALUE": lambda text, path: _call("get_json_object", text, path),
    "JSON_QUERY": lambda text, path: _call("get_json_object", text, path),
    "LISTAGG": _listagg,
    "STR_TO_MAP": lambda text, pairs=None, keys=None: _call("str_to_map", text, pairs or _text(","), keys or _text("=")),
    "TO_BASE64": lambda text: _call("base64", exp.Cast(this=text, to=exp.DataType.build("BINARY"))),
    "FROM_BASE64": lambda text: exp.Cast(this=_call("unbase64", text), to=exp.DataType.build("STRING", dialect="databricks")),
    "SHA224": lambda text: _call("sha2", text, _number(224)),
    "SHA256": lambda text: _call("sha2", text, _number(256)),
    "SHA384": lambda text: _call("sha2", text, _number(384)),
    "SHA512": lambda text: _call("sha2", text, _number(512)),
    "CURRENT_ROW_TIMESTAMP": lambda: _call("current_timestamp"),
    "WEEK": lambda day: _call("weekofyear", day),
    "ROW": lambda *values: _call("struct", *values),
    "TO_TIMESTAMP": lambda text, form=None: _call("try_to_timestamp", text, *([form] if form else [])),
    "ARRAY_CONCAT": lambda *arrays: _call("concat", *arrays),
    "ARRAY_REVERSE": lambda array: _call("reverse", array),
    "MAP_UNION": lambda *maps: _call("map_concat", *maps),
    "DATE_FORMAT": lambda value, form: _call("date_format", value, form),
    "TIMESTAMPDIFF": lambda unit, begin, end: _call("timestampdiff", exp.Var(this=unit.name), begin, end),
    "TIMESTAMPADD": lambda unit, amount, moment: _call("timestampadd", exp.Var(this=unit.name), amount, moment),
}
# The same under one name in both engines, but unknown to sqlglot, or known with another meaning.
_ALIKE = (
    "CARDINALITY REGEXP REGEXP_REPLACE BIN HEX UNHEX INITCAP INSTR LOCATE ELT PARSE_URL URL_ENCODE URL_DECODE ASCII CHR MAP_KEYS MAP_VALUES MAP_ENTRIES"
    " MAP_FROM_ARRAYS ARRAY_CONTAINS ARRAY_DISTINCT ARRAY_EXCEPT ARRAY_INTERSECT ARRAY_JOIN ARRAY_MAX ARRAY_MIN ARRAY_POSITION ARRAY_REMOVE ARRAY_UNION PERCENTILE SHA2 MD5 SHA1"
    " FROM_UNIXTIME UNIX_TIMESTAMP TO_DATE REGEXP_COUNT REGEXP_INSTR REGEXP_SUBSTR REGEXP_EXTRACT_ALL STARTSWITH ENDSWITH COT SINH COSH TANH E PI UUID LPAD RPAD REPEAT REVERSE"
)
_CALLS |= {name: lambda *args, name=name: _call(name, *args) for name in _ALIKE.split()}

NAMES = {name: MARK + name for name in _CALLS}


def marked(tokens: list[Token], names: dict[str, str], mark: str) -> list[Token]:
    """Returns the tokens with ``mark`` before the names of calls that ``names`` lists, and STRUCT instead of the type ROW."""
    out = list(tokens)
    for i, (token, after) in enumerate(zip(tokens, tokens[1:])):
        name = token.text.upper()
        instead = None
        if after.token_type == TokenType.L_PAREN and name in names and token.token_type != TokenType.IDENTIFIER:
            instead = Token(TokenType.VAR, mark + names[name], token.line, token.col, token.start, token.end, token.comments)
        elif after.token_type == TokenType.LT and name == "ROW":
            instead = Token(TokenType.STRUCT, "STRUCT", token.line, token.col, token.start, token.end, token.comments)
        out[i] = instead or token
    return out


def in_spark(tree: exp.Expr, mark: str, note: Note) -> exp.Expr:
    """Translates a tree of Flink's SQL to Spark's.

    ``mark`` is the prefix of our names of calls. Raises ValueError if a call does not take these arguments.
    """

    def of(node: exp.Expr) -> exp.Expr:
        name = _name(node, mark)
        if name:
            return _made(_CALLS, node, name, note)
        if isinstance(node, (exp.Floor, exp.Ceil)) and node.args.get("to") is not None:
            return _rounded(node, node.args["to"].name.upper())
        if isinstance(node, exp.Bracket) and len(node.expressions) == 1:
            return _call("try_element_at", node.this, node.expressions[0])
        if isinstance(node, exp.Bracket) and isinstance(node.this, exp.Column) and node.this.name.upper() == "MAP":
            return _call("map", *node.expressions)
        if isinstance(node, exp.DataType) and node.this == exp.DType.USERDEFINED and str(node.args.get("kind")).upper() == "BYTES":
            return exp.DataType.build("BINARY")
        return node

    return _replaced(tree, of)


def unmarked(tree: exp.Expr, mark: str, note: Note) -> exp.Expr:
    """Returns a tree of Flink's SQL with its own names, for a target engine that they are not translated to."""

    def of(node: exp.Expr) -> exp.Expr:
        name = _name(node, mark)
        if not name:
            return node
        note(f"{name}: Flink's function stays unchanged")
        return _call(name, *node.expressions)

    return _replaced(tree, of)


def _name(node: exp.Expr, mark: str) -> str:
    """Returns the original name of a marked call; "" for any other node."""
    return node.name.upper().removeprefix(mark + MARK) if isinstance(node, exp.Anonymous) and node.name.upper().startswith(mark + MARK) else ""


def _made(calls: dict[str, Callable[..., exp.Expr | None]], node: exp.Expr, name: str, note: Note) -> exp.Expr:
    made = calls[name]
    try:
        signature(made).bind(*node.expressions)
    except TypeError:
        raise ValueError(f"{name} takes no {len(node.expressions)} arguments") from None
    found = made(*node.expressions)
    if found is None:
        note(f"{name}: these arguments do not determine which Spark function it is, so it stays unchanged")
        return _call(name, *node.expressions)
    return found


def _rounded(node: exp.Expr, unit: str) -> exp.Expr:
    """Translates FLOOR(t TO unit) and CEIL(t TO unit)."""
    if isinstance(node, exp.Floor):
        return _call("date_trunc", _text(unit), node.this)
    before = exp.Sub(this=exp.Paren(this=node.this), expression=_interval(_MICROSECOND, "SECOND"))
    return exp.Paren(this=exp.Add(this=_call("date_trunc", _text(unit), before), expression=_interval("1", unit)))


# -- from Spark to Flink ----------------------------------------------------------------------------------------

_KNOWN = frozenset(_CALLS) | frozenset(
    "OVERLAY ABS ACOS ARRAY ARRAY_AGG ARRAY_APPEND ARRAY_PREPEND ARRAY_SLICE ARRAY_SORT ASIN ATAN ATAN2 AVG BTRIM CASE CAST CEIL CHARACTER_LENGTH CHAR_LENGTH COALESCE CONCAT CONCAT_WS"
    " COS COUNT CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP DECODE DEGREES ENCODE EXP EXTRACT FLOOR GREATEST HOUR IF IFNULL LEAST LEFT LN LOCALTIME LOCALTIMESTAMP LOG LOG10 LOG2"
    " LOWER LTRIM MAP MAX MIN MINUTE MOD MONTH NOW NULLIF POSITION POWER PRINTF RADIANS RAND REPLACE RIGHT ROUND RTRIM SECOND SIGN SIN SPLIT SQRT STDDEV_POP STDDEV_SAMP SUBSTR"
    " SUBSTRING SUM TAN TRANSLATE TRIM TRY_CAST TYPEOF UPPER VAR_POP VAR_SAMP VARIANCE YEAR".split()
)
_TYPES = {exp.DType.TEXT: "STRING", exp.DType.TIMESTAMPLTZ: "TIMESTAMP_LTZ", exp.DType.VARBINARY: "BYTES", exp.DType.BINARY: "BYTES", exp.DType.TIMESTAMPTZ: "TIMESTAMP", exp.DType.TIMESTAMPNTZ: "TIMESTAMP"}
# Spark's name -> the Flink call
_FLINKS: dict[str, Callable[..., exp.Expr | None]] = {
    name: lambda *args, name=name: _call(name, *args) for name in [*_ALIKE.split(), "DATE_FORMAT", "DAYOFWEEK", "DAYOFYEAR", "DAYOFMONTH", "QUARTER", "TO_TIMESTAMP"]
} | {
    "LISTAGG": lambda value, separator=None: _call("LISTAGG", value, separator or _text("")),
    "STR_TO_MAP": lambda text, pairs=None, keys=None: _call("STR_TO_MAP", text, pairs or _text(","), keys or _text(":")),
    "REGEXP_EXTRACT": lambda text, regex, group=None: _call("REGEXP_EXTRACT", text, regex, group or _number(1)),
    "WEEKOFYEAR": lambda day: _call("WEEK", day),
    "GET_JSON_OBJECT": lambda text, path: _call("JSON_VALUE", text, path),
    "TIMESTAMP_SECONDS": lambda value: _call("TO_TIMESTAMP_LTZ", value, _number(0)),
    "TIMESTAMP_MILLIS": lambda value: _call("TO_TIMESTAMP_LTZ", value, _number(3)),
    "STRUCT": lambda *values: _call("ROW", *values),
}
SPARKS_NAMES = {name: MARK + name for name in _FLINKS}


def in_flink(tree: exp.Expr, mark: str, note: Note) -> exp.Expr:
    """Translates a tree of Spark's SQL to Flink's. Functions that Flink lacks become notes.

    Raises ValueError if a call does not take these arguments.
    """

    def of(node: exp.Expr) -> exp.Expr:
        marked = _name(node, mark)
        if marked:
            return _made(_FLINKS, node, marked, note)
        if isinstance(node, exp.Bracket):
            note("elements of an array are counted from 1 there, and keys of a map stay what they are: see that the index is right")
        if isinstance(node, exp.Div):
            note("/ of two integers cuts off there and does not here")
        new = _flink_node(node)
        name = new.name.upper() if isinstance(new, exp.Anonymous) else type(new).sql_name() if isinstance(new, exp.Func) else ""
        if name and not name.startswith(mark) and name not in _KNOWN and not isinstance(new, (exp.Connector, exp.Predicate, exp.Binary)):
            note(f"Flink does not have the function {name}")
        return new

    return _replaced(tree, of)


def _flink_node(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.TimestampTrunc() | exp.DateTrunc():
            return exp.Floor(this=node.this, to=exp.Var(this=node.args["unit"].name.upper()))
        case exp.RegexpLike():
            return _call("REGEXP", node.this, node.expression)
        case exp.DateAdd() | exp.TimestampAdd() | exp.TsOrDsAdd():
            return _call("TIMESTAMPADD", _unit(node), node.expression, node.this)
        case exp.DateDiff() | exp.TimestampDiff() | exp.TsOrDsDiff():
            return _call("TIMESTAMPDIFF", _unit(node), node.expression, node.this)
        case exp.Length():
            return _call("CHAR_LENGTH", node.this)
        case exp.StrPosition():
            return _call("LOCATE", node.args["substr"], node.this)
        case exp.DataType() if node.this in _TYPES:
            return exp.DataType(this=exp.DType.USERDEFINED, kind=_TYPES[node.this])
    return node


def _unit(node: exp.Expr) -> exp.Expr:
    return exp.Var(this=node.args["unit"].name.upper() if node.args.get("unit") else "DAY")
