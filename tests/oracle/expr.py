"""Expressions of DEFINE and MEASURES as tuples, their value, their SQL text, and random ones.

    ("col", name)                            the current row's column
    ("lit", value)
    ("nav", "FIRST"|"LAST", var, offset, e)  e at a row counted among the rows of var (None: of the match)
    ("prev"|"next", offset, e or nav)        e at a row counted in the partition
    ("agg", fn, var, e or "*", distinct, filter or absent)
                                             fn in count, sum, min, max, avg, bool_and, bool_or, any_value; over the rows of var
    ("by", "max_by"|"min_by", var, e, key)   e at the last row of var with the extreme key
    ("classifier", var)  ("match_number",)
    ("running"|"final", nav or agg)
    ("+"|"-"|"*", a, b)  ("="|"<>"|"<"|"<="|">"|">=", a, b)
    ("and"|"or", a, b)  ("not", a)  ("is null", a)  ("coalesce", a, b)  ("if", condition, a, b)
    ("<=>", a, b)  ("in", a, b, ..)  ("between", a, low, high)  ("case", condition, a, b)  ("least"|"greatest", a, b)  ("abs", a)
    ("prior", e)                             e as of before the current row was added to its variable

Inside a nav or an aggregate, ("col", ..) and ("classifier", None) speak of the row that was reached.
NULL is None everywhere.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Context:
    """A match so far (in DEFINE the candidate row is already its last) or a finished one.

    positions: the row each label stands on; None where rows are adjacent from `start` on
    here:      the current row; None: the last one in sight
    before:    what PRIOR sees; None on a variable's first iteration
    """

    rows: list
    start: int
    labels: tuple
    number: int
    subsets: dict = field(default_factory=dict)
    positions: tuple | None = None
    here: int | None = None
    before: Context | None = None

    def row_of(self, i):
        return self.start + i if self.positions is None else self.positions[i]


_ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_COMPARISON = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def evaluate(e, context, seen=None):
    """Value of `e` when the first `seen` rows of the match are in sight (None: all of them)."""
    seen = len(context.labels) if seen is None else seen
    row = context.here
    if row is None and seen:
        row = context.row_of(seen - 1)
    return _value(e, context, seen, row, False)


def _value(e, context, seen, row, reached):
    """`row` is the row that columns are read from; None where there is none (an empty match)."""
    kind = e[0]
    if kind == "lit":
        return e[1]
    if kind == "col":
        return None if row is None else context.rows[row][e[1]]
    if kind == "match_number":
        return context.number
    if kind == "classifier":
        if reached:
            # of two labels on one row the last, as CLASSIFIER() says of the current row
            return next((context.labels[i] for i in reversed(range(len(context.labels))) if context.row_of(i) == row), None)
        mapped = _labels_of(e[1], context, seen)
        return context.labels[mapped[-1]] if mapped else None
    if kind == "prior":
        return None if context.before is None else evaluate(e[1], context.before)
    if kind in ("running", "final"):
        scope = seen if kind == "running" else len(context.labels)
        return _value(e[1], context, scope, row, reached)
    if kind == "nav":
        if e[4][0] == "classifier":
            # Where a row has two labels, that of the pair reached.
            pairs = {}
            for i in _labels_of(e[2], context, seen):
                if e[1] == "LAST" or context.row_of(i) not in pairs:
                    pairs[context.row_of(i)] = context.labels[i]
            labels = list(pairs.values())
            return None if e[3] >= len(labels) else labels[e[3] if e[1] == "FIRST" else -1 - e[3]]
        at = _navigate(e, context, seen)
        return None if at is None else _value(e[4], context, seen, at, True)
    if kind in ("prev", "next"):
        inner = e[2]
        scope = seen
        if inner[0] in ("running", "final"):
            scope = seen if inner[0] == "running" else len(context.labels)
            inner = inner[1]
        if inner[0] == "nav":
            at, argument = _navigate(inner, context, scope), inner[4]
        else:
            at, argument = row, inner
        if at is None:
            return None
        at += e[1] if kind == "next" else -e[1]
        return _value(argument, context, seen, at, True) if 0 <= at < len(context.rows) else None
    if kind == "agg":
        return _aggregate(e, context, seen)
    if kind == "by":
        keys = [(row, _value(e[4], context, seen, row, True)) for row in _rows_of(e[2], context, seen)]
        known = [key for _, key in keys if key is not None]
        if not known:
            return None
        extreme = (max if e[1] == "max_by" else min)(known)
        return _value(e[3], context, seen, [row for row, key in keys if key == extreme][-1], True)
    if kind == "and":
        a, b = (_value(x, context, seen, row, reached) for x in e[1:])
        if a is False or b is False:
            return False
        return None if a is None or b is None else True
    if kind == "or":
        a, b = (_value(x, context, seen, row, reached) for x in e[1:])
        if a is True or b is True:
            return True
        return None if a is None or b is None else False
    if kind == "not":
        a = _value(e[1], context, seen, row, reached)
        return None if a is None else not a
    if kind == "is null":
        return _value(e[1], context, seen, row, reached) is None
    if kind == "if":
        return _value(e[2] if _value(e[1], context, seen, row, reached) is True else e[3], context, seen, row, reached)
    if kind == "coalesce":
        values = [_value(x, context, seen, row, reached) for x in e[1:]]
        return next((v for v in values if v is not None), None)
    if kind == "case":
        return _value(e[2] if _value(e[1], context, seen, row, reached) is True else e[3], context, seen, row, reached)
    if kind == "between":
        return _value(("and", (">=", e[1], e[2]), ("<=", e[1], e[3])), context, seen, row, reached)
    if kind == "in":
        equal = [_value(("=", e[1], item), context, seen, row, reached) for item in e[2:]]
        return True if True in equal else None if None in equal else False
    if kind == "<=>":
        a, b = (_value(x, context, seen, row, reached) for x in e[1:])
        return a is b if a is None or b is None else a == b
    if kind in ("least", "greatest"):
        values = [_value(x, context, seen, row, reached) for x in e[1:]]
        return {"least": min, "greatest": max}[kind]((v for v in values if v is not None), default=None)
    if kind == "abs":
        a = _value(e[1], context, seen, row, reached)
        return None if a is None else abs(a)
    a, b = (_value(x, context, seen, row, reached) for x in e[1:])
    if a is None or b is None:
        return None
    return _ARITHMETIC[kind](a, b) if kind in _ARITHMETIC else _COMPARISON[kind](a, b)


def _labels_of(var, context, seen):
    members = None if var is None else context.subsets.get(var, (var,))
    return [i for i in range(seen) if members is None or context.labels[i] in members]


def _rows_of(var, context, seen):
    # A row that serves both sides of a conjunction carries two labels and is one row.
    return list(dict.fromkeys(context.row_of(i) for i in _labels_of(var, context, seen)))


def _navigate(nav, context, seen):
    _, end, var, offset, _ = nav
    mapped = _rows_of(var, context, seen)
    if offset >= len(mapped):
        return None
    return mapped[offset] if end == "FIRST" else mapped[-1 - offset]


def _aggregate(e, context, seen):
    _, fn, var, argument, distinct, *filters = e
    mapped = _rows_of(var, context, seen)
    for condition in filters:
        mapped = [row for row in mapped if _value(condition, context, seen, row, True) is True]
    if argument == "*":
        return len(mapped)
    values = [_value(argument, context, seen, row, True) for row in mapped]
    if fn == "any_value":
        return values[0] if values else None
    values = [v for v in values if v is not None]
    if distinct:
        values = list(dict.fromkeys(values))
    if fn == "count":
        return len(values)
    if not values:
        return None
    if fn == "avg":
        return sum(values) / len(values)
    return {"sum": sum, "min": min, "max": max, "bool_and": all, "bool_or": any}[fn](values)


def to_sql(e, var=None) -> str:
    """SQL text; `var` qualifies the columns, as inside `LAST(A.v + A.w)`."""
    kind = e[0]
    if kind == "lit":
        if e[1] is None:
            return "NULL"
        if isinstance(e[1], bool):
            return "TRUE" if e[1] else "FALSE"
        return f"'{e[1]}'" if isinstance(e[1], str) else str(e[1])
    if kind == "col":
        return e[1] if var is None else f"{var}.{e[1]}"
    if kind == "match_number":
        return "MATCH_NUMBER()"
    if kind == "classifier":
        return f"CLASSIFIER({e[1] or var or ''})"
    if kind in ("running", "final"):
        inner = e[1]
        # RUNNING and FINAL need a function to stand before, so a qualified column is spelled out.
        return f"{kind.upper()} {_spelled_nav(inner) if inner[0] == 'nav' else to_sql(inner)}"
    if kind == "nav":
        if e[1] == "LAST" and e[3] == 0 and e[2] is not None and e[4][0] == "col":
            return f"{e[2]}.{e[4][1]}"
        return _spelled_nav(e)
    if kind in ("prev", "next"):
        return f"{kind.upper()}({to_sql(e[2], var)}{'' if e[1] == 1 else f', {e[1]}'})"
    if kind == "agg":
        _, fn, over, argument, distinct, *filters = e
        tail = "".join(f" FILTER (WHERE {to_sql(condition, over)})" for condition in filters)
        if argument == "*":
            return (f"{fn}(*)" if over is None else f"{fn}({over}.*)") + tail
        return f"{fn}({'DISTINCT ' if distinct else ''}{to_sql(argument, over)}){tail}"
    if kind == "by":
        return f"{e[1]}({to_sql(e[3], e[2])}, {to_sql(e[4], e[2])})"
    if kind == "prior":
        return f"PRIOR({to_sql(e[1], var)})"
    if kind == "not":
        return f"(NOT {to_sql(e[1], var)})"
    if kind == "is null":
        return f"({to_sql(e[1], var)} IS NULL)"
    if kind in ("coalesce", "least", "greatest", "abs", "if"):
        return f"{kind}({', '.join(to_sql(x, var) for x in e[1:])})"
    if kind == "case":
        return f"(CASE WHEN {to_sql(e[1], var)} THEN {to_sql(e[2], var)} ELSE {to_sql(e[3], var)} END)"
    if kind == "in":
        return f"({to_sql(e[1], var)} IN ({', '.join(to_sql(x, var) for x in e[2:])}))"
    if kind == "between":
        return f"({to_sql(e[1], var)} BETWEEN {to_sql(e[2], var)} AND {to_sql(e[3], var)})"
    return f"({to_sql(e[1], var)} {kind.upper()} {to_sql(e[2], var)})"


def _spelled_nav(e) -> str:
    return f"{e[1]}({to_sql(e[4], e[2])}{'' if e[3] == 0 else f', {e[3]}'})"


# --- random conditions over the columns v, w (small integers or NULL) and s (a letter or NULL) -----------------

_LETTERS = "abc"
_OPS = ["=", "<>", "<", "<=", ">", ">="]


def random_condition(rng, var, names, kind, subsets=(), depth=1):
    """A condition to define `var` by. kind: "row", "prev" (PREV and NEXT of the current row), "history", or "wider": history with
    strings and with the forms that choose between values."""
    roll = rng.random()
    if depth > 0 and roll < 0.30:
        both = [random_condition(rng, var, names, kind if i == 0 else "row", subsets, depth - 1) for i in (0, 1)]
        rng.shuffle(both)
        return (rng.choice(["and", "or"]), *both)
    if depth > 0 and roll < 0.36:
        return ("not", random_condition(rng, var, names, kind, subsets, depth - 1))
    if kind == "row":
        return _row_condition(rng, var)
    if kind == "prev":
        moved = (rng.choice(["prev", "prev", "next"]), rng.choice([1, 1, 1, 2, 0]), _integer(rng))
        if rng.random() < 0.15:
            return ("is null", moved)
        return (rng.choice(_OPS), _integer(rng), moved)
    return _wider_condition(rng, var, names, subsets) if kind == "wider" else _history_condition(rng, var, names, subsets)


def _integer(rng):
    """An integer row expression that reads at least one column."""
    roll = rng.random()
    column = ("col", rng.choice("vvw"))
    if roll < 0.75:
        return column
    if roll < 0.90:
        return (rng.choice("+-*"), column, rng.choice([("lit", rng.randrange(4)), ("col", rng.choice("vw"))]))
    return ("coalesce", column, ("lit", rng.randrange(4)))


def _row_condition(rng, var):
    roll = rng.random()
    if roll < 0.25:
        return (rng.choice(["=", "=", "<>"]), ("col", "s"), ("lit", rng.choice(_LETTERS)))
    if roll < 0.32:
        return ("is null", ("col", rng.choice("vws")))
    if roll < 0.35:
        return ("lit", rng.choice([True, True, False]))
    if roll < 0.45:
        return (rng.choice(_OPS), ("nav", "LAST", var, 0, ("col", "v")), ("lit", rng.randrange(5)))
    if roll < 0.60:
        return (rng.choice(_OPS), _integer(rng), _integer(rng))
    return (rng.choice(_OPS), _integer(rng), ("lit", rng.randrange(5)))


def _history_condition(rng, var, names, subsets):
    def someone():
        return rng.choice([*names, *subsets, var])

    def nav(anyone=True):
        over = rng.choice([someone(), someone(), None]) if anyone else someone()
        return ("nav", rng.choice(["FIRST", "LAST"]), over, rng.choice([0, 0, 0, 1, 1, 2]), _integer(rng))

    roll = rng.random()
    if roll < 0.30:
        left = ("col", "v") if rng.random() < 0.7 else nav()
        return (rng.choice(_OPS), left, nav())
    if roll < 0.38:
        # coalesce outside of the reference replaces the NULL of a variable with no row; inside a nav it cannot.
        column = ("nav", "LAST", someone(), 0, ("col", rng.choice("vw")))
        return (rng.choice(_OPS), ("coalesce", column, ("lit", rng.randrange(4))), _integer(rng))
    if roll < 0.46:
        moved = (rng.choice(["prev", "next"]), rng.choice([0, 1, 1, 2]), nav())
        return (rng.choice(_OPS), ("col", "v"), moved)
    if roll < 0.54:
        return ("is null", nav(False))
    if roll < 0.78:
        over = rng.choice([someone(), None])
        keep = [("is null", ("col", "w"))] if rng.random() < 0.05 else []
        keep = keep or ([(rng.choice(_OPS), ("col", "v"), ("lit", rng.randrange(4)))] if rng.random() < 0.15 else [])
        if rng.random() < 0.4:
            return (rng.choice(_OPS), ("agg", "count", over, "*", False, *keep), ("lit", rng.randrange(1, 4)))
        fn = rng.choice(["count", "sum", "min", "max", "avg"])
        aggregate = ("agg", fn, over, _integer(rng), rng.random() < 0.15, *keep)
        return (rng.choice(_OPS), aggregate, rng.choice([("lit", rng.randrange(6)), ("col", "v")]))
    if roll < 0.92:
        label = ("lit", rng.choice(names))
        where = ("classifier", rng.choice([None, *names, *subsets]))
        if rng.random() < 0.4:
            where = ("nav", rng.choice(["FIRST", "LAST"]), rng.choice([None, *subsets, *names]),
                     rng.choice([0, 1]), ("classifier", None))  # fmt: skip
        return (rng.choice(["=", "<>"]), where, label)
    return (rng.choice(_OPS), ("match_number",), ("lit", rng.randrange(1, 4)))


def _wider_condition(rng, var, names, subsets):
    """A condition over strings of several rows, or with CASE, IN, BETWEEN, <=>, LEAST, GREATEST, ABS or a BOOLEAN aggregate."""

    def over():
        return rng.choice([*names, *subsets, var, None])

    def nav(column):
        return ("nav", rng.choice(["FIRST", "LAST"]), over(), rng.choice([0, 0, 0, 1, 2]), column)

    s, v, w = ("col", "s"), ("col", "v"), ("col", "w")
    op, letter, number = rng.choice(_OPS), ("lit", rng.choice(_LETTERS)), ("lit", rng.randrange(5))
    either = rng.choice([("=", s, letter), (">", v, nav(v)), ("is null", nav(v))])
    count = ("agg", "count", over(), rng.choice(["*", v]), False)
    forms = [
        lambda: (op, s, nav(s)),
        lambda: (op, ("agg", rng.choice(["min", "max"]), over(), s, False), rng.choice([letter, s, nav(s)])),
        lambda: (op, ("agg", "count", over(), rng.choice([s, v]), True), ("lit", rng.randrange(1, 4))),
        lambda: (op, ("coalesce", nav(s), letter), rng.choice([s, nav(s)])),
        lambda: (op, (rng.choice(["prev", "next"]), rng.choice([1, 2]), rng.choice([s, nav(s)])), rng.choice([s, nav(s)])),
        lambda: ("in", nav(s), *rng.choices([letter, s, nav(s), ("lit", "a")], k=rng.choice([1, 2, 3]))),
        lambda: ("in", count, *(("lit", n) for n in rng.sample(range(1, 5), 2))),
        lambda: (op, ("case", either, nav(v), rng.choice([number, v, nav(w)])), rng.choice([v, number, nav(v)])),
        lambda: (op, ("case", either, nav(s), rng.choice([letter, s])), rng.choice([s, letter])),
        lambda: (op, ("case", either, count, number), ("lit", rng.randrange(1, 4))),
        lambda: ("between", rng.choice([v, nav(v)]), rng.choice([number, nav(v)]), rng.choice([number, nav(v), ("agg", "max", over(), v, False)])),
        lambda: ("agg", rng.choice(["bool_and", "bool_or"]), over(), rng.choice([(">", v, number), ("=", s, letter), ("is null", w), ("<", w, v)]), False),
        lambda: ("<=>", rng.choice([v, nav(v)]), nav(rng.choice([v, w]))),
        lambda: (op, (rng.choice(["least", "greatest"]), rng.choice([v, nav(w)]), nav(v)), rng.choice([number, nav(v), w])),
        lambda: (op, ("abs", ("-", v, nav(v))), number),
        lambda: (op, ("+", count, rng.choice([number, v])), ("lit", rng.randrange(1, 7))),
        lambda: (rng.choice(["and", "or"]), _history_condition(rng, var, names, subsets), _wider_condition(rng, var, names, subsets)),
    ]
    return rng.choice(forms)()


def random_aggregate_condition(rng, names):
    """A condition over an aggregate whose argument or filter looks at labels, at the match's number or at two values of a row."""
    over, name = rng.choice([None, *names]), rng.choice(names)
    column, number, label = ("col", rng.choice(["v", "w", "id"])), ("match_number",), ("=", ("classifier", None), ("lit", name))
    filters = [label, ("<", number, ("lit", 3)), ("and", (">", ("col", "v"), ("lit", 1)), (">=", ("lit", 2), number)), ("or", label, (">", column, ("lit", 2)))]
    roll = rng.random()
    if roll < 0.15:
        return ("agg", rng.choice(["bool_and", "bool_or"]), over, label, False)
    if roll < 0.3:
        return (rng.choice(_OPS), ("by", rng.choice(["max_by", "min_by"]), over, ("classifier", None), column), ("lit", name))
    if roll < 0.4:
        inner = ("by", rng.choice(["max_by", "min_by"]), over, column, ("col", rng.choice(["v", "s", "w"])))
    elif roll < 0.5:
        inner = ("agg", rng.choice(["any_value", "sum", "avg", "min", "max", "count"]), None, rng.choice([number, ("+", number, ("lit", 1))]), False)
    elif roll < 0.7:
        argument = (rng.choice("+-"), *rng.sample([number, column], 2))
        inner = ("agg", rng.choice(["sum", "min", "max"]), over, argument, False)
    else:
        inner = ("agg", rng.choice(["sum", "min", "max", "count"]), over, column, False, rng.choice(filters))
        if inner[1] == "count" and rng.random() < 0.5:
            inner = ("agg", "count", over, "*", *inner[4:])
    condition = (rng.choice(_OPS), inner, ("lit", rng.randrange(5)))
    return ("or", condition, ("is null", inner)) if rng.random() < 0.4 else condition


def random_rows(rng, size):
    """Rows of one partition, in order: id (position), v, w, s, with some NULLs."""

    def maybe(value):
        return None if rng.random() < 0.08 else value

    return [
        {"id": i, "v": maybe(rng.randrange(5)), "w": maybe(rng.randrange(4)), "s": maybe(rng.choice(_LETTERS))} for i in range(size)
    ]
