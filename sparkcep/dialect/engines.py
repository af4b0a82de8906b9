"""Tables of each engine's calls and operators with their meaning in Spark.

``dialect/meanings.py`` applies them. ``tests/transpiled/meanings.py`` names the source of each entry, next to the compared values;
docs/coming_from.md names the pages.
"""

from __future__ import annotations

import re

from sqlglot import exp

from sparkcep.dialect.building import call, cast, interval, number, text, truncated
from sparkcep.dialect.meanings import (
    EQUAL,
    ONLY_DOUBLE,
    PARTS,
    REGEX_NOTE,
    SAME_PARTS,
    Engine,
    Note,
    Refused,
    alone,
    any_value,
    argument,
    boundaries,
    casts,
    contains_pattern,
    cut_date,
    date_text,
    day_of_week_from_0,
    difference,
    extracted,
    extraction,
    from_first_character,
    integer_average,
    integer_division,
    is_double,
    iso_day_of_week,
    iso_year,
    kind,
    later,
    like,
    literal,
    months_later,
    names,
    noted,
    null_if_any,
    of_one,
    part_of_text,
    plain_pattern,
    refused,
    remainder_or_all,
    rounded_division,
    searches_text,
    silent_if,
    substituted,
    truncation,
    two_arguments,
    two_armed_if,
    unit_of,
    unordered,
    whole,
    whole_pattern,
    whole_units,
)  # fmt: skip


def _either(node: exp.Expr, note: Note) -> exp.Expr:
    return exp.Paren(this=exp.NEQ(this=exp.Paren(this=node.this), expression=exp.Paren(this=node.expression)))


def _limited(node: exp.Expr, note: Note) -> exp.Expr:
    """Refuses the options of FETCH and LIMIT that Spark lacks, at the ORDER BY before. sqlglot would leave those of FETCH out."""
    query = node.parent.parent
    last = query.args.get("order") or query
    if node.args.get("with_ties"):
        raise Refused(last, "Spark does not support WITH TIES: compute RANK() OVER (ORDER BY ...) AS rank in a subquery, and write WHERE rank <= n")
    if node.args.get("percent"):
        raise Refused(
            last, "Spark does not support a percentage of the rows. "
            "Compute ROW_NUMBER() OVER (ORDER BY ...) AS number and count(*) OVER () AS count in a subquery, and write WHERE number <= ceil(count * n / 100)",
        )
    return node


_JOINS = {
    "ASOF": "Spark does not support ASOF JOIN without MATCH_CONDITION: write a JOIN with a condition on the rows, and keep one with ROW_NUMBER()",
    "POSITIONAL": "Spark does not support POSITIONAL JOIN: number the rows of both sides with ROW_NUMBER(), and join them by the number",
}


def _joined(node: exp.Join, note: Note) -> exp.Expr:
    """Refuses kinds of joins that Spark lacks: it would read their word as the alias of the table before."""
    if node.method in _JOINS:
        raise Refused(node.parent, _JOINS[node.method])
    return node


_COMMON = {
    exp.Xor: _either, exp.LimitOptions: _limited,
    exp.SimilarTo: refused("Spark does not support SIMILAR TO: write RLIKE with a Java regular expression, as in x RLIKE '^(a|b)$'"),
}  # fmt: skip
_WINDOWS = names("ROW_NUMBER RANK DENSE_RANK PERCENT_RANK CUME_DIST NTILE LAG LEAD FIRST_VALUE LAST_VALUE")
_AGGREGATES = names("COUNT SUM STDDEV_SAMP STDDEV_POP VARIANCE VAR_SAMP VAR_POP") | {"MIN": of_one, "MAX": of_one} | _WINDOWS
_MATHS = names("ABS CEIL FLOOR ROUND EXP SQRT POWER SIN COS TAN ASIN ACOS ATAN ATAN2 SIGN")
_ANGLES = names("DEGREES RADIANS PI")
_TEXT = names("UPPER LOWER REVERSE")
_NULLS = names("COALESCE NULLIF")
_FIELDS = names("YEAR QUARTER MONTH DAY HOUR MINUTE SECOND")
_REPLACE = silent_if(searches_text, "REPLACE: an empty search string is found between all characters there, and not at all here")
_LOGARITHM = silent_if(lambda node: all(kind(arg) in ("integer", "number") and not isinstance(arg, exp.Neg) for arg in node.iter_expressions()),
                       "a logarithm of 0 or less is NULL here, and -Infinity, NaN or an error there")  # fmt: skip
_SUBSTRING = silent_if(from_first_character, "SUBSTR: a start that is 0, or before the first character, was not compared")
_CHARACTER = silent_if(lambda node: (whole(argument(node)) or (whole(node.expressions[0]) if node.expressions else None) or 999) < 256,
    "CHR: codes from 256 on differ here")
_AVERAGE = "the average of DECIMALs has another scale there"
_NULLS_KEPT = "ARRAY_AGG: keeps NULLs there and drops them here; without rows it is NULL there, and an empty array here"
_INITCAP = "words end at each character that is not a letter or digit there, and only at spaces here"
_ESTIMATE = "an estimate in both engines, but not an equal one"
_OWN_TYPE = "STDDEV and VARIANCE have the type of their argument there, and are a DOUBLE here"


# -- Trino ------------------------------------------------------------------------------------------------------


def _first_if_one(node: exp.Expr, note: Note) -> exp.Expr:
    if node.args.get("occurrence") is not None or node.args.get("position") is not None:
        raise Refused(node, "Spark finds only the first occurrence: write LOCATE with a start after the previous occurrence")
    return node


def _part_or_null(node: exp.Expr, note: Note) -> exp.Expr:
    delimiter, index = node.args.get("delimiter"), node.args.get("part_index")
    if delimiter is None or index is None:
        raise Refused(node, "SPLIT_PART has three arguments")
    return call("get", _parts(node.this, delimiter), exp.Sub(this=index, expression=number(1)))


def _parts(value: exp.Expr, delimiter: exp.Expr, *limit: exp.Expr) -> exp.Expr:
    return call("split", value, call("concat", text("\\Q"), delimiter, text("\\E")), *limit)


def _split(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates SPLIT, whose third argument sqlglot leaves out."""
    limit = node.args.get("limit")
    return _parts(node.this, node.expression, limit) if limit is not None else node


def _random(node: exp.Expr, note: Note) -> exp.Expr:
    if next(node.iter_expressions(), None) is not None:
        raise Refused(node, "Spark's RAND takes a seed: write floor(rand() * n) for random(n)")
    note(node, "RAND: draws other numbers")
    return node


def _extreme_or_null(name: str):
    def of(node: exp.Expr, note: Note) -> exp.Expr:
        missing = exp.Is(this=exp.to_identifier("x"), expression=exp.null())
        found = call("exists", node.this.copy(), exp.Lambda(this=missing, expressions=[exp.to_identifier("x")]))
        return exp.If(this=found, true=exp.null(), false=call(name, node.this))

    return of


def _renamed(name: str, *more: exp.Expr):
    def of(node: exp.Expr, note: Note) -> exp.Expr:
        args = node.expressions if isinstance(node, exp.Anonymous) else list(node.iter_expressions())
        return call(name, *args, *(arg.copy() for arg in more))

    return of


def _no_match(node: exp.Expr, note: Note) -> exp.Expr:
    return exp.Paren(this=exp.Not(this=call("exists", *node.expressions)))


def _seconds(node: exp.Expr, note: Note) -> exp.Expr:
    return cast(cast(argument(node), "TIMESTAMP"), "DOUBLE")


def _moment(node: exp.Expr, note: Note) -> exp.Expr:
    if len(list(node.iter_expressions())) > 1:
        raise Refused(node, "a TIMESTAMP does not carry a time zone in Spark: write from_unixtime with one argument")
    return call("timestamp_seconds", node.this)


def _json_text(node: exp.Expr, note: Note) -> exp.Expr:
    note(node, "JSON is a type there, and a string here")
    path = node.expression
    value = "$" + path.sql() if isinstance(path, exp.JSONPath) and not path.sql().startswith("$") else path.sql() if isinstance(path,
        exp.JSONPath) else literal(path)
    return call("get_json_object", node.this, text(value.strip("'")) if value else path)


def _is_nan(node: exp.Expr, note: Note) -> exp.Expr:
    return exp.Paren(this=exp.EQ(this=node.this, expression=cast(text("NaN"), "DOUBLE")))


def _percent_format(node: exp.Expr) -> bool:
    """Whether a format, in sqlglot's form, has only parts of fixed width."""
    value = literal(node.args.get("format"))
    return value is not None and not re.search(r"[%A-Za-z]", re.sub("%[YmdHMSf]", "", value))


def _subscript(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates ``a[i]`` of an array, counted from 1, or of a map."""
    if node.args.get("offset"):  # a call of element_at
        return node
    return call("element_at", node.this, _index(node)) if len(node.expressions) == 1 and not isinstance(node.expressions[0], exp.Slice) else node


def _index(node: exp.Expr) -> exp.Expr:
    """Returns the index of ``a[i]`` as the user wrote it: sqlglot subtracts 1 from known integers."""
    (index,) = exp.apply_index_offset(node.this, node.expressions, 1)
    return index.this if isinstance(index, exp.Add) and whole(index.expression) == 0 else index


_TRINO = Engine(
    "Trino",
    _AGGREGATES | _MATHS | _TEXT | _NULLS | _FIELDS
    | _ANGLES
    | names("COUNT_IF STDDEV CEILING POW LENGTH TRANSLATE BOOL_AND BOOL_OR EVERY MIN_BY MAX_BY LISTAGG MOD CBRT COSH SINH TANH E WIDTH_BUCKET")
    | names("CONCAT CONCAT_WS LPAD RPAD STARTS_WITH ENDS_WITH LEVENSHTEIN_DISTANCE POSITION")
    | names("REGEXP_LIKE REGEXP_REPLACE REGEXP_COUNT REGEXP_SPLIT REGEXP_EXTRACT_ALL WEEK WEEK_OF_YEAR DAY_OF_YEAR DOY DAY_OF_MONTH")
    | names("LAST_DAY_OF_MONTH DATE NOW CURRENT_DATE")
    | names("CURRENT_TIMESTAMP CARDINALITY CONTAINS ARRAY_JOIN ARRAY_DISTINCT ARRAY_SORT ARRAY_POSITION ARRAY_UNION ARRAY_INTERSECT ARRAY_EXCEPT")
    | names("ARRAY_REMOVE SLICE SEQUENCE FLATTEN")
    | names("TRANSFORM FILTER REDUCE ZIP_WITH ELEMENT_AT MAP MAP_KEYS MAP_VALUES BITWISE_AND BITWISE_OR BITWISE_XOR BITWISE_NOT ROW OVERLAY")
    | {
        "GREATEST": null_if_any, "LEAST": null_if_any, "ANY_VALUE": any_value, "ARBITRARY": any_value, "IF": two_armed_if,
        "AVG": silent_if(lambda node: kind(node.this) == "integer" or is_double(node.this, ONLY_DOUBLE), f"AVG: {_AVERAGE}, and that of REALs is a REAL"),
        "ARRAY_AGG": unordered(_NULLS_KEPT),
        "APPROX_DISTINCT": _ESTIMATE, "APPROX_PERCENTILE": _ESTIMATE,
        "TRUNCATE": truncation, "LN": _LOGARITHM, "LOG": _LOGARITHM, "LOG2": _LOGARITHM, "LOG10": _LOGARITHM,
        "RAND": _random, "RANDOM": _random, "SPLIT": _split,
        "TRIM": silent_if(lambda node: node.expression is not None, "TRIM: also takes tabs and line ends there, and only spaces here"),
        "LTRIM": "also takes tabs and line ends there, and only spaces here", "RTRIM": "also takes tabs and line ends there, and only spaces here",
        "SPLIT_PART": _part_or_null, "STRPOS": _first_if_one, "SUBSTR": part_of_text, "SUBSTRING": part_of_text, "REPLACE": _REPLACE, "CHR": _CHARACTER,
        "CODEPOINT": _renamed("ascii"), "REGEXP_EXTRACT": extracted,
        "DAY_OF_WEEK": iso_day_of_week, "DOW": iso_day_of_week, "YEAR_OF_WEEK": iso_year, "YOW": iso_year,
        "DATE_DIFF": whole_units, "DATE_ADD": later, "DATE_TRUNC": cut_date, "FROM_UNIXTIME": _moment, "TO_UNIXTIME": _seconds,
        "DATE_FORMAT": silent_if(_percent_format, "DATE_FORMAT: some parts of this format were not compared"),
        "DATE_PARSE": silent_if(_percent_format, "DATE_PARSE: some parts of this format were not compared"),
        "LOCALTIMESTAMP": lambda node, note: call("localtimestamp"),
        "ARRAY_MAX": _extreme_or_null("array_max"), "ARRAY_MIN": _extreme_or_null("array_min"),
        "ANY_MATCH": _renamed("exists"), "ALL_MATCH": _renamed("forall"), "NONE_MATCH": _no_match,
        "JSON_EXTRACT_SCALAR": "objects and arrays are NULL there, and JSON strings here", "JSON_EXTRACT": _json_text,
        "IS_NAN": _is_nan, "TRY": refused("Spark does not support TRY: write try_divide, try_cast, try_element_at or another try_ function inside"),
    },
    {
        exp.Div: rounded_division, exp.Like: like, exp.Bracket: _subscript,
        exp.Extract: extraction(PARTS | {"DOW": lambda day: iso_day_of_week(exp.Paren(this=day), _silent),
            "DAY_OF_WEEK": lambda day: iso_day_of_week(exp.Paren(this=day), _silent)}, SAME_PARTS),
        exp.AtTimeZone: noted("AT TIME ZONE: a TIMESTAMP WITH TIME ZONE there, a TIMESTAMP of the session's zone here"),
    } | casts(cuts=True, digits=3) | _COMMON,
)  # fmt: skip


def _silent(node: exp.Expr, words: str) -> None:
    """Ignores a note."""


# -- Oracle -----------------------------------------------------------------------------------------------------


def _not_empty(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates '' to NULL."""
    return exp.null() if node.is_string and not node.name else node


def _nulled(made: exp.Expr) -> exp.Expr:
    """Turns an empty result into NULL."""
    return call("nullif", made, text(""))


def _empty_is_null(node: exp.Expr, note: Note) -> exp.Expr:
    return _nulled(node.copy())


def _skipping_nulls(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates ``a || b`` with NULL as an empty text."""
    if isinstance(node.parent, (exp.DPipe, exp.Concat)):
        return node  # the outermost node handles all parts
    parts: list[exp.Expr] = []

    def gather(part: exp.Expr) -> None:
        if isinstance(part, (exp.DPipe, exp.Concat)):
            for inner in part.iter_expressions():
                gather(inner)
        else:
            parts.append(part)

    gather(node)
    made = call("concat_ws", text(""), *parts)
    return made if any(literal(part) for part in parts) else _nulled(made)


def _oracle_substring(node: exp.Expr, note: Note) -> exp.Expr:
    start = node.args.get("start")
    if start is None:
        raise Refused(node, "SUBSTR has two or three arguments")
    if whole(start) is not None and (whole(start) or 0) >= 0:
        return _nulled(node.copy())
    before = exp.LT(this=start.copy(), expression=exp.Neg(this=call("length", node.this.copy())))
    node.set("start", exp.If(this=before, true=exp.Add(this=call("length", node.this.copy()), expression=number(1)), false=start.copy()))
    return _nulled(node.copy())


def _oracle_replace(node: exp.Expr, note: Note) -> exp.Expr:
    by = node.args.get("replacement")
    if by is None or isinstance(by, exp.Null):
        by = text("")
    elif literal(by) is None:
        by = call("coalesce", by, text(""))
    if not searches_text(node):
        note(node, "REPLACE: a NULL as search string gives the input string there, and NULL here")
    return _nulled(call("replace", node.this, node.expression, by))


def _found_from(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates INSTR(text, part, position, occurrence)."""
    position, occurrence = node.args.get("position"), node.args.get("occurrence")
    if occurrence is not None and whole(occurrence) != 1:
        raise Refused(node, "Spark cannot find the second occurrence: write LOCATE with a start after the first one")
    if position is not None and (whole(position) or 0) < 1:
        raise Refused(node, "Spark searches forward from a place of 1 or more, and this place is not a literal that is one")
    return call("locate", node.args["substr"], node.this, *([position] if position is not None else []))


def _both_bits(node: exp.Expr, note: Note) -> exp.Expr:
    args = list(node.iter_expressions())
    if len(args) != 2:
        raise Refused(node, "BITAND has two arguments")
    left, right = args
    return exp.Paren(this=exp.BitwiseAnd(this=left, expression=right))


_UNITS = {"YEAR": "YEAR", "YYYY": "YEAR", "YY": "YEAR", "Y": "YEAR", "SYYYY": "YEAR", "Q": "QUARTER", "MONTH": "MONTH", "MON": "MONTH", "MM": "MONTH",
    "IW": "WEEK", "DD": "DAY", "DDD": "DAY",
          "J": "DAY", "HH": "HOUR", "HH12": "HOUR", "HH24": "HOUR", "MI": "MINUTE"}  # fmt: skip


def _oracle_trunc(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates TRUNC of a number or a date, if the text shows which it is."""
    value, form = argument(node), node.args.get("unit") or node.args.get("decimals") or (node.expressions[1] if isinstance(node,
        exp.Anonymous) and node.expressions[1:] else None)
    if literal(form) is not None:
        unit = _UNITS.get(form.name.upper())
        if unit is None:
            raise Refused(node, f"Spark cannot truncate a date to '{form.name}'")
        made = call("date_trunc", text(unit), value)
        return made if unit in ("HOUR", "MINUTE") else cast(made, "DATE")
    if isinstance(form, exp.Var) or (form is None and kind(value) in ("date", "timestamp")):
        return cast(value, "DATE")
    if form is None and kind(value) not in ("integer", "number"):
        raise Refused(node, "TRUNC of a number or of a date: write TRUNC(x, 0) for a number, or TRUNC(x, 'DD') for a date")
    return truncated(value, form)


def _oracle_round(node: exp.Expr, note: Note) -> exp.Expr:
    if literal(node.args.get("decimals")) is not None:
        raise Refused(node, "Spark cannot round dates")
    if node.args.get("decimals") is None and kind(node.this) not in ("integer", "number"):
        note(node, "ROUND: of a date is the nearest day there, and an error here")
    return node


def _to_date(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates TO_DATE, whose format may contain hours. sqlglot has already converted the format to Java's."""
    if not _percent_format(node):
        note(node, "TO_DATE: this format was not compared")
    form = node.args.get("format")
    if re.search("%[HMSf]", literal(form) or ""):
        return exp.StrToTime(this=node.this, format=form)
    return node


def _oracle_moment(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates TIMESTAMP '...', which sqlglot reads as TO_TIMESTAMP with a format that needs a fraction."""
    if "start" in node.meta:  # the position of a call
        return _to_date(node, note)
    return cast(node.this, "TIMESTAMP")


def _kept(node: exp.Window, note: Note) -> exp.Expr:
    if str(node.args.get("over")).upper() == "KEEP":
        raise Refused(node, "Spark does not support KEEP: write max_by(a, b) for the value of the last row by b, and min_by(a, b) for that of the first row")
    return node


def _oracle_text(node: exp.Expr, note: Note) -> exp.Expr:
    """TO_CHAR. MON, Mon and mon are three texts in its formats. The other parts of a format are numbers."""
    month = re.search("MON", literal(node.args.get("format")) or "", re.I)
    made = date_text(node, note)
    if month is None or month[0][:2] == "Mo":
        return made
    return call("upper" if month[0][0] == "M" else "lower", made)


def _to_number(node: exp.Expr, note: Note) -> exp.Expr:
    if node.args.get("format") is not None:
        raise Refused(node, "formats of TO_NUMBER are not those of Spark")
    note(node, "TO_NUMBER: a NUMBER with all digits there, and a DOUBLE here")
    return cast(node.this, "DOUBLE")


def _oracle_part(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates REGEXP_SUBSTR."""
    if not plain_pattern(node):
        note(node, f"REGEXP_SUBSTR: {REGEX_NOTE}")
    return two_arguments(node, note)


def _spread(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates STDDEV and VARIANCE, which are 0 for one value. STDDEV_SAMP and VAR_SAMP are NULL, as in Spark."""
    name = node.sql_names()[0]
    if not alone(node):
        note(node, f"{name}: of one row is 0 there, and NULL here")
        return node
    one = exp.EQ(this=call("count", node.this.copy()), expression=number(1))
    return exp.Case(ifs=[exp.If(this=one, true=number(0))], default=node.copy())


def _oracle_now(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates SYSDATE, which has whole seconds. CURRENT_TIMESTAMP has fractions."""
    return call("date_trunc", text("SECOND"), call("current_timestamp")) if node.args.get("sysdate") else node


def _oracle_column(node: exp.Expr, note: Note) -> exp.Expr:
    name = node.name.upper()
    if node.args.get("join_mark"):
        raise Refused(node, "Spark does not support (+): write LEFT JOIN ... ON")
    if name in ("ROWNUM", "ROWID", "LEVEL") and not node.args.get("table") and not getattr(node.this, "quoted", False):
        raise Refused(node, f"Spark does not have {name}" + (": write LIMIT, or ROW_NUMBER() OVER (ORDER BY ...)" if name == "ROWNUM" else ""))
    return node


def _days_from(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates a date plus or minus a number of days. Dates have a time of day there, so they may be TIMESTAMPs here."""
    if kind(node.this) in ("date", "timestamp") or _is_now(node.this):
        amount = node.expression
        if whole(amount) is not None:
            return type(node)(this=node.this, expression=interval(str(whole(amount)), "DAY"))
        if kind(amount) in ("integer", "number") or isinstance(amount, (exp.Div, exp.Mul)):
            seconds = exp.Mul(this=exp.Paren(this=amount), expression=number(86_400))
            return type(node)(this=node.this, expression=call("make_dt_interval", number(0), number(0), number(0), seconds))
    if isinstance(node, exp.Sub):
        return difference(node, note)
    return node


def _is_now(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() == "date_trunc"


_ORACLE = Engine(
    "Oracle",
    _AGGREGATES | _MATHS | _NULLS
    | names("UPPER LOWER LENGTH NVL NVL2 DECODE ASCII MEDIAN LISTAGG LN LOG WIDTH_BUCKET SINH COSH TANH CURRENT_TIMESTAMP")
    | {
        "GREATEST": null_if_any, "LEAST": null_if_any, "MOD": EQUAL, "TRUNC": _oracle_trunc, "ROUND": _oracle_round, "BITAND": _both_bits,
        "CONCAT": _skipping_nulls, "SUBSTR": _oracle_substring, "REPLACE": _oracle_replace, "INSTR": _found_from, "CHR": _CHARACTER, "INITCAP": _INITCAP,
        "TRIM": _empty_is_null, "LTRIM": _empty_is_null, "RTRIM": _empty_is_null, "LPAD": EQUAL, "RPAD": EQUAL, "TRANSLATE": EQUAL,
        "REGEXP_LIKE": contains_pattern, "REGEXP_REPLACE": lambda node, note: _nulled(substituted(node, note).copy()),
        "REGEXP_SUBSTR": _oracle_part, "REGEXP_COUNT": two_arguments, "REGEXP_INSTR": two_arguments, "STDDEV": _spread, "VARIANCE": _spread,
        "AVG": _AVERAGE, "ADD_MONTHS": months_later, "MONTHS_BETWEEN": lambda node, note: call("months_between", node.this, node.expression, exp.false()),
        "LAST_DAY": "keeps the time of day there, and is a DATE here",
        "NEXT_DAY": "takes names of days in the session's language there, and keeps the time of day",
        "TO_CHAR": _oracle_text, "TO_DATE": _to_date, "TO_TIMESTAMP": _to_date, "TO_NUMBER": _to_number,
        "SYSDATE": EQUAL, "SYSTIMESTAMP": lambda node, note: call("current_timestamp"),
        "CURRENT_DATE": lambda node, note: call("date_trunc", text("SECOND"), call("current_timestamp")),
    },
    {
        exp.Literal: _not_empty, exp.DPipe: _skipping_nulls, exp.Like: like, exp.Mod: remainder_or_all, exp.Column: _oracle_column,
        exp.Pseudocolumn: _oracle_column, exp.Add: _days_from, exp.Sub: _days_from,
        exp.CurrentTimestamp: _oracle_now, exp.StrToTime: _oracle_moment, exp.Window: _kept,
        exp.Div: noted("/ has 40 digits there, and of two integers is a DOUBLE here"), exp.Connect: refused("Spark does not support CONNECT BY: write WITH RECURSIVE"),
        exp.Extract: extraction({}, "YEAR MONTH DAY HOUR MINUTE SECOND"),
    } | casts(
        cuts=True, decimal=None, dates="CAST AS DATE keeps the time of day there, and does not here",
        floats="FLOAT has up to 126 binary digits there (BINARY_FLOAT has 24), and is a DOUBLE here",
    ) | _COMMON,
)  # fmt: skip


# -- Snowflake --------------------------------------------------------------------------------------------------


def _snowflake_trunc(node: exp.Expr, note: Note) -> exp.Expr:
    if isinstance(node, exp.Anonymous):
        raise Refused(node, "TRUNC of a number or of a date: write the number of digits or the unit as a literal")
    return cut_date(node, note) if isinstance(node, (exp.DateTrunc, exp.TimestampTrunc)) or node.args.get("unit") is not None else truncation(node, note)


def _first_unit(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates LAST_DAY of a month."""
    unit = node.args.get("unit")
    if unit is not None and unit.name.upper() not in ("MONTH", "MM", "MON"):
        raise Refused(node, "Spark has the last day of a month only")
    return call("last_day", node.this)


def _texts(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates LISTAGG, which is an empty string without values."""
    if alone(node):
        return call("coalesce", node.copy(), text(""))
    note(node, "LISTAGG: without values is an empty string there, and NULL here")
    return node


def _snowflake_number(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates TO_NUMBER, whose default scale is 0."""
    if literal(node.args.get("format")) is not None:
        raise Refused(node, "formats of TO_NUMBER are not those of Spark")
    precision, scale = whole(node.args.get("precision") or node.args.get("format")), whole(node.args.get("scale"))
    made = cast(node.this, f"DECIMAL({precision or 38}, {scale or 0})")
    return exp.TryCast(this=made.this, to=made.to) if node.args.get("safe") else made


def _epoch(unit: str):
    def of(moment: exp.Expr) -> exp.Expr:
        return call(unit, cast(moment, "TIMESTAMP"))

    return of


def _element(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates ``a[i]``, which is NULL after the end of an array."""
    index = node.expressions[0] if len(node.expressions) == 1 else None
    if kind(index) == "integer":
        return call("get", node.this, index)
    if index is not None and kind(index) != "text":
        note(node, "an index past the end of an array gives NULL there, and an error here: write get(a, i)")
    return node


def _get(node: exp.Expr, note: Note) -> exp.Expr:
    args = node.expressions if isinstance(node, exp.Anonymous) else [node.this, node.expression]
    if isinstance(args[1], exp.JSONPath):
        index = args[1].expressions[-1].this if args[1].expressions else None
        if not isinstance(index, int):
            raise Refused(node, "GET of an object's field: write a.b or a['b']")
        return call("get", args[0], number(index))
    return call("get", *args)


_SNOWFLAKE_PARTS = PARTS | {
    "WEEKISO": "WEEK", "WEEKOFYEAR": "WEEK", "YEAROFWEEK": "YEAROFWEEK", "YEAROFWEEKISO": "YEAROFWEEK",
    "DOW": lambda day: day_of_week_from_0(exp.Paren(this=day), _silent), "DAYOFWEEK": lambda day: day_of_week_from_0(exp.Paren(this=day), _silent),
    "DAYOFWEEKISO": lambda day: iso_day_of_week(exp.Paren(this=day), _silent), "DAYOFWEEK_ISO": lambda day: iso_day_of_week(exp.Paren(this=day), _silent),
    "EPOCH_SECOND": _epoch("unix_seconds"), "EPOCH_MILLISECOND": _epoch("unix_millis"), "EPOCH_MICROSECOND": _epoch("unix_micros"),
    "EPOCH": _epoch("unix_seconds"),
}  # fmt: skip
_part = extraction(_SNOWFLAKE_PARTS, SAME_PARTS)


def _snowflake_part(node: exp.Expr, note: Note) -> exp.Expr:
    if node.this.name.upper().startswith("EPOCH"):
        note(node, "a TIMESTAMP_NTZ is counted in UTC there, and in the session's time zone here")
    return _part(node, note)


_SNOWFLAKE = Engine(
    "Snowflake",
    _AGGREGATES | _MATHS | _TEXT | _NULLS | _FIELDS
    | _ANGLES
    | names("COUNT_IF STDDEV POW LENGTH TRANSLATE DIV0 DIV0NULL NVL NVL2 IFNULL ZEROIFNULL NULLIFZERO DECODE IFF EQUAL_NULL GREATEST_IGNORE_NULLS")
    | names("LEAST_IGNORE_NULLS BOOLAND_AGG BOOLOR_AGG MIN_BY MAX_BY MEDIAN ANY_VALUE")
    | names("CONTAINS STARTSWITH ENDSWITH CHARINDEX POSITION LEFT RIGHT SPLIT CONCAT CONCAT_WS LEN LPAD RPAD TRIM LTRIM RTRIM REPEAT ASCII SQUARE")
    | names("MOD BITAND CBRT")
    | names("WEEKISO DAYNAME MONTHNAME DAYOFMONTH DAYOFYEAR CURRENT_DATE CURRENT_TIMESTAMP ARRAY_SIZE ARRAY_CONTAINS ARRAY_CONSTRUCT MD5")
    | names("WIDTH_BUCKET")
    | {
        "LISTAGG": _texts, "REGEXP_COUNT": two_arguments, "REGEXP_INSTR": two_arguments,
        "ARRAY_AGG": unordered(""), "GREATEST": null_if_any, "LEAST": null_if_any, "DATEDIFF": boundaries, "TIMESTAMPDIFF": boundaries, "TIMEDIFF": boundaries,
        "DATEADD": later, "TIMESTAMPADD": later, "TIMEADD": later, "ADD_MONTHS": months_later,
        "DAYOFWEEK": day_of_week_from_0, "DAYOFWEEKISO": iso_day_of_week, "DAYOFWEEK_ISO": iso_day_of_week,
        "WEEK": _renamed("weekofyear"), "WEEKOFYEAR": _renamed("weekofyear"), "YEAROFWEEK": iso_year, "YEAROFWEEKISO": iso_year,
        "DATE_TRUNC": cut_date, "TRUNC": _snowflake_trunc, "TRUNCATE": _snowflake_trunc, "LAST_DAY": _first_unit,
        "INSERT": lambda node, note: call("overlay", node.this, node.expression, node.args["start"], node.args["length"]),
        "TIME_SLICE": refused("Spark does not have TIME_SLICE: write timestamp_seconds(floor(unix_seconds(ts) / n) * n) for slices of n seconds"),
        "RLIKE": whole_pattern, "REGEXP_LIKE": whole_pattern, "REGEXP_SUBSTR": extracted, "REGEXP_REPLACE": substituted,
        "SUBSTR": _SUBSTRING, "SUBSTRING": _SUBSTRING, "REPLACE": _REPLACE, "CHR": _CHARACTER, "INITCAP": _INITCAP,
        "SPLIT_PART": silent_if(lambda node: whole(node.args.get("part_index")) not in (None, 0),
            "SPLIT_PART: a part 0 is the first one there, and an error here"),
        "TO_CHAR": date_text, "TO_VARCHAR": date_text, "TO_NUMBER": _snowflake_number, "TO_DECIMAL": _snowflake_number, "TO_NUMERIC": _snowflake_number,
        "TRY_TO_NUMBER": _snowflake_number,
        "TO_DATE": silent_if(lambda node: kind(node.this) in ("date", "timestamp"), "TO_DATE: detects the format of a string there, and takes yyyy-MM-dd here"),
        "TO_TIMESTAMP": "detects the format of a string there, and takes yyyy-MM-dd HH:mm:ss here", "AVG": _AVERAGE, "LN": _LOGARITHM, "LOG": _LOGARITHM,
        "SHA2": lambda node, note: call("sha2", node.this, node.args.get("length") or number(256)), "GET": _get,
    },
    {
        exp.Div: noted("/ rounds to six digits more than its left side has there, and does not here"), exp.Like: like, exp.ILike: like, exp.Bracket: _element,
        exp.RegexpLike: whole_pattern, exp.Extract: _snowflake_part, exp.Sub: difference,
    } | casts(floats=EQUAL, digits=9) | _COMMON,
)  # fmt: skip


# -- Flink ------------------------------------------------------------------------------------------------------


def _flink_difference(node: exp.Expr, note: Note) -> exp.Expr:
    if node.expressions[0].name.upper() in ("MONTH", "QUARTER", "YEAR"):
        note(node, "a difference of months counts from the end of one month to the end of a shorter one there (Jan 31 to Feb 29 is 1), and not here")
    return node


def _java_dates(node: exp.Expr) -> bool:
    return not set(literal(node.expressions[-1]) or "?") - set("yMdHmsS -:/.")


_FLINK = Engine(
    "Flink",
    _AGGREGATES | _MATHS | _TEXT | _NULLS | _FIELDS
    | _ANGLES
    | names("CEILING CHAR_LENGTH CHARACTER_LENGTH CONCAT POSITION TRIM LTRIM RTRIM LPAD RPAD REPEAT LEFT RIGHT ASCII IF IFNULL MOD COT SINH COSH")
    | names("TANH E BIN HEX UNHEX INSTR LOCATE OVERLAY")
    | names("REGEXP REGEXP_EXTRACT SPLIT_INDEX TRUNCATE STR_TO_MAP TO_BASE64 FROM_BASE64 MD5 SHA1 SHA2 SHA224 SHA256 SHA384 SHA512 CARDINALITY")
    | names("ROW MAP TO_TIMESTAMP_LTZ CONVERT_TZ LISTAGG")
    | names("DAYOFWEEK DAYOFMONTH DAYOFYEAR WEEK TIMESTAMPADD CURRENT_DATE CURRENT_TIMESTAMP NOW CURRENT_ROW_TIMESTAMP ARRAY_CONCAT")
    | names("ARRAY_CONTAINS ARRAY_DISTINCT ARRAY_POSITION")
    | names("ARRAY_REMOVE ARRAY_REVERSE ARRAY_UNION MAP_KEYS MAP_VALUES MAP_FROM_ARRAYS REGEXP_REPLACE TO_DATE TO_TIMESTAMP")
    | dict.fromkeys(("STDDEV_SAMP", "STDDEV_POP", "VARIANCE", "VAR_SAMP", "VAR_POP"), silent_if(lambda node: is_double(node.this, ONLY_DOUBLE), _OWN_TYPE))
    | {
        "GREATEST": null_if_any, "LEAST": null_if_any,
        "CONCAT_WS": _renamed("concat_ws"),  # it skips NULLs; what sqlglot writes does not
        "AVG": integer_average, "LN": _LOGARITHM, "LOG": _LOGARITHM,
        "LOG2": _LOGARITHM, "LOG10": _LOGARITHM,
        "SUBSTR": _SUBSTRING, "SUBSTRING": _SUBSTRING, "REPLACE": _REPLACE,
        "CHR": silent_if(lambda node: (whole(node.expressions[0]) or 999) < 256, "CHR: codes from 256 on differ here"),
        "INITCAP": _INITCAP, "TIMESTAMPDIFF": _flink_difference,
        "DATE_FORMAT": silent_if(_java_dates, "DATE_FORMAT: formats are those of SimpleDateFormat there"),
        "JSON_VALUE": "objects and arrays are NULL there, and JSON strings here", "JSON_QUERY": "strings and numbers are NULL there",
        "JSON_EXISTS": "finds a null of JSON there, and does not here",
        "RAND": "draws other numbers", "RAND_INTEGER": "draws other numbers", "UUID": "draws another one", "ARRAY_AGG": unordered(_NULLS_KEPT),
        "FLOOR": EQUAL, "CEIL": EQUAL, "LOCALTIMESTAMP": lambda node, note: call("localtimestamp"),
    },
    {
        exp.Div: integer_division, exp.Like: like, exp.Extract: extraction(PARTS, f"{SAME_PARTS} DOW"),
    } | casts(rounds=False, cuts=True, decimal=(10, 0)) | _COMMON,
    frozenset("LENGTH REGEXP_LIKE RLIKE STRUCT TIMESTAMP_MILLIS TIMESTAMP_SECONDS WEEKOFYEAR".split()),
)  # fmt: skip


# -- DuckDB and BigQuery ----------------------------------------------------------------------------------------


def _from_one(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates ``a[i]`` of an array or a map: counted from 1, from the end if negative, NULL for a missing element."""
    if node.args.get("offset") or len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice) or kind(node.this) == "text":
        return node
    return call("try_element_at", node.this, _index(node))


def _without_weeks(node: exp.Expr, note: Note) -> exp.Expr:
    if (node.args.get("unit") or text("DAY")).name.upper().startswith("WEEK"):
        raise Refused(node, "date_diff in Spark cannot count weeks: write a difference of days")
    return boundaries(node, note)


def _cut_moment(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates DATE_TRUNC, which turns a DATE into a TIMESTAMP. sqlglot writes TRUNC for a value that it knows to be a DATE."""
    return call("date_trunc", text(unit_of(node)), node.this)


def _base_10(node: exp.Expr, note: Note) -> exp.Expr:
    _LOGARITHM(node, note)
    return node if node.expression is not None else call("log10", node.this)


def _moment_later(node: exp.Expr, note: Note) -> exp.Expr:
    interval_there = isinstance(node.expression, exp.Interval)
    if interval_there and kind(node.this) == "date":
        node.set("this", cast(node.this, "TIMESTAMP"))
    elif interval_there and kind(node.this) != "timestamp":
        note(node, "a DATE and an INTERVAL are a TIMESTAMP there, and a DATE here")
    return difference(node, note) if isinstance(node, exp.Sub) else node


_DUCKDB = Engine(
    "DuckDB",
    _AGGREGATES | _MATHS | _TEXT | _NULLS | _FIELDS
    | _ANGLES
    | names("COUNT_IF STDDEV CEILING POW LENGTH TRANSLATE GREATEST LEAST IF IFNULL BOOL_AND BOOL_OR MEDIAN STRING_AGG LISTAGG CONCAT CONCAT_WS")
    | names("STRPOS INSTR POSITION CONTAINS STARTS_WITH ENDS_WITH LEN LPAD RPAD")
    | names("REPEAT ASCII STRING_SPLIT REGEXP_MATCHES LAST_DAY LIST_VALUE ARRAY_LENGTH LIST_DISTINCT MOD CURRENT_DATE CURRENT_TIMESTAMP NOW")
    | {
        "AVG": silent_if(lambda node: kind(node.this) == "integer" or is_double(node.this), "AVG: of DECIMALs is a DOUBLE there, and a DECIMAL here"),
        "ANY_VALUE": EQUAL, "DATE_TRUNC": _cut_moment, "DATETRUNC": _cut_moment, "DATE_DIFF": _without_weeks, "DATEDIFF": _without_weeks,
        "DAYOFWEEK": day_of_week_from_0, "ISODOW": iso_day_of_week, "WEEKDAY": day_of_week_from_0,
        "TRUNC": truncation, "SPLIT_PART": EQUAL, "SUBSTR": _SUBSTRING, "SUBSTRING": _SUBSTRING, "REPLACE": _REPLACE,
        "ARRAY_AGG": unordered(_NULLS_KEPT), "LIST": unordered(_NULLS_KEPT), "LN": _LOGARITHM, "LOG": _base_10, "LOG2": _LOGARITHM, "LOG10": _LOGARITHM,
        **dict.fromkeys(("MIN_BY", "MAX_BY", "ARG_MIN", "ARG_MAX"), "rows with a NULL in the first argument are left out there"),
        **dict.fromkeys(("LIST_CONTAINS", "ARRAY_CONTAINS"), "false there, and NULL here, if the element is not in a list with NULLs"),
        "DAYOFYEAR": EQUAL, "WEEK": _renamed("weekofyear"), "WEEKOFYEAR": EQUAL, "DAYOFMONTH": EQUAL,
        "REGEXP_EXTRACT": silent_if(plain_pattern, f"REGEXP_EXTRACT: {REGEX_NOTE}"),
    },
    {
        exp.Div: noted("/ by 0 is Infinity there, and an error here; of DECIMALs it is a DOUBLE there, and a DECIMAL here"),
        exp.Like: like, exp.ILike: like, exp.Bracket: _from_one, exp.Add: _moment_later,
        exp.Sub: _moment_later, exp.Join: _joined,
        exp.Extract: extraction(PARTS | {"DOW": lambda day: day_of_week_from_0(exp.Paren(this=day), _silent),
            "ISODOW": lambda day: iso_day_of_week(exp.Paren(this=day), _silent)}, SAME_PARTS),
    } | casts(to_even=True, decimal=(18, 3)) | _COMMON,
)  # fmt: skip

def _double(node: exp.Expr, note: Note) -> exp.Expr:
    """Translates a literal with a fraction, which is a FLOAT64."""
    return cast(node.copy(), "DOUBLE") if not node.is_string and not node.name.isdigit() else node


def _from_monday(node: exp.Expr, note: Note) -> exp.Expr:
    unit = node.args.get("unit")
    if isinstance(unit, exp.WeekStart) and unit.name.upper() != "MONDAY":
        raise Refused(node, "weeks begin on Monday in Spark: write date_trunc('WEEK', d + INTERVAL 1 DAY) - INTERVAL 1 DAY for weeks that begin on Sunday")
    return node


_BIGQUERY = Engine(
    "BigQuery",
    _AGGREGATES | _MATHS | _TEXT | _NULLS
    | names("STDDEV CEILING POW LENGTH TRANSLATE IF IFNULL COUNTIF LOGICAL_AND LOGICAL_OR CONCAT STRPOS STARTS_WITH ENDS_WITH LPAD RPAD REPEAT")
    | names("MOD DIV SAFE_DIVIDE ARRAY_LENGTH STRING_AGG DATE_ADD DATE_SUB")
    | names("CURRENT_DATE CURRENT_TIMESTAMP")
    | {
        "GREATEST": null_if_any, "LEAST": null_if_any, "DATE_DIFF": boundaries, "DATETIME_DIFF": boundaries, "DATE_TRUNC": _from_monday, "TRUNC": truncation,
        "SUBSTR": _SUBSTRING, "SUBSTRING": _SUBSTRING,
        "REPLACE": _REPLACE, "AVG": _AVERAGE, "REGEXP_CONTAINS": silent_if(plain_pattern, f"REGEXP_CONTAINS: {REGEX_NOTE}"), "ANY_VALUE": EQUAL,
        "ARRAY_AGG": unordered(_NULLS_KEPT), "LN": _LOGARITHM, "LOG": _LOGARITHM, "LOG10": _LOGARITHM,
    },
    {
        exp.Literal: _double,
        exp.Extract: extraction({"ISOWEEK": "WEEK", "ISOYEAR": "YEAROFWEEK", "DAYOFYEAR": "DOY", "SECOND": PARTS["SECOND"]},
            "YEAR QUARTER MONTH DAY HOUR MINUTE DAYOFWEEK"),
    } | casts(decimal=(38, 9)) | _COMMON,
)  # fmt: skip

ENGINES = {"trino": _TRINO, "oracle": _ORACLE, "snowflake": _SNOWFLAKE, "flink": _FLINK, "duckdb": _DUCKDB, "bigquery": _BIGQUERY}
