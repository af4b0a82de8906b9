"""Converts expressions of the clause to sqlglot trees and back to text.

``dialect/clauses`` uses it. sparkcep's own reader parses the expression, so precedence is Spark's. Calls are anonymous nodes, so
sqlglot never mistakes one function for another. A node remembers the text between its parts. It is printed with that text while it
is unchanged, also below changed and new nodes, which sqlglot prints.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sparkcep.clause.expressions import TRIMMED, Expr
from sparkcep.clause.tokens import QUOTED, WORD, Token, name_of, tokenize

READ = "databricks"  # sqlglot's dialect for the text outside clauses
_TEXT = "sparkcep"  # in a node's meta: the pieces of its text, and its shape
_BINARY = {
    "+": exp.Add, "-": exp.Sub, "*": exp.Mul, "/": exp.Div, "%": exp.Mod, "DIV": exp.IntDiv, "||": exp.DPipe, "&": exp.BitwiseAnd, "|": exp.BitwiseOr,
    "^": exp.BitwiseXor, "<<": exp.BitwiseLeftShift, ">>": exp.BitwiseRightShift, "=": exp.EQ, "<>": exp.NEQ, "!=": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT,
    ">=": exp.GTE, "<=>": exp.NullSafeEQ,
}  # fmt: skip
_UNARY = {"NOT": exp.Not, "-": exp.Neg, "~": exp.BitwiseNot}
_LIKE = {"LIKE": exp.Like, "ILIKE": exp.ILike, "RLIKE": exp.RegexpLike, "REGEXP": exp.RegexpLike}
_CONSTANTS = {"NULL": exp.null, "TRUE": exp.true, "FALSE": exp.false}
_NULLS = {"IGNORE": exp.IgnoreNulls, "RESPECT": exp.RespectNulls}
_SOME = {"ANY": exp.Any, "SOME": exp.Any, "ALL": exp.All}

_OF_WORDS = ("call", "like", "special")  # nodes that depend on the words between their arguments
Words = list[list[Token]]  # the tokens before each argument of an expression, and after the last one


class Reader:
    """Makes trees of the expressions of one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def tree(self, expr: Expr, bound: frozenset[str] = frozenset()) -> exp.Expr:
        """Returns the tree of ``expr``. ``bound``: the lower-case parameters of the enclosing lambdas."""
        text = expr.span.of(self.text)
        match expr.op:
            case "col" | "star":
                return self._column(expr, bound)
            case "interval":
                return exp.Var(this=text)
            case "subquery":
                return _query(text)
            case "lit":
                return _literal(expr, text)
            case "lambda":
                bound |= frozenset(expr.value)
        args = [self.tree(arg, bound) for arg in expr.args]
        ends = [expr.span.start, *(arg.span.end for arg in expr.args)]
        pieces = [self.text[end:start] for end, start in zip(ends, [*(arg.span.start for arg in expr.args), expr.span.end])]
        words = [tokenize(piece)[:-1] for piece in pieces] if expr.op in _OF_WORDS else []
        node = _made(expr, text, args, words)
        _remember(node, pieces, args)
        return node

    def _column(self, expr: Expr, bound: frozenset[str]) -> exp.Expr:
        written = [t for t in tokenize(expr.span.of(self.text)) if t.kind in (WORD, QUOTED)]
        names = [_identifier(t) for t in written]
        if expr.op == "star":
            of, excepted = names[: len(expr.value)], names[len(expr.value) + 1 :]
            star = exp.Star(except_=excepted) if excepted else exp.Star()
            return _dotted([*of, star]) if of else star
        if len(names) and names[0].name.lower() in bound:  # a lambda's parameter is not a column
            return exp.Dot.build(names) if len(names) > 1 else names[0]
        return _dotted(names)


def _identifier(token: Token) -> exp.Identifier:
    return exp.to_identifier(name_of(token), quoted=token.kind == QUOTED)


def _dotted(names: list[exp.Expr]) -> exp.Expr:
    """Returns a column of up to four names; further names are fields."""
    head = list(reversed(names[:4]))
    column = exp.Column(**dict(zip(("this", "table", "db", "catalog"), head)))
    return exp.Dot.build([column, *names[4:]]) if names[4:] else column


def _query(text: str) -> exp.Expr:
    """Returns the tree of a query in parentheses, or of EXISTS with one. If sqlglot cannot read it, returns its text as a node."""
    try:
        node = sqlglot.parse_one(text, read=READ)
    except SqlglotError:
        return exp.Var(this=text)
    node.meta[_TEXT] = text
    return node


def _literal(expr: Expr, text: str) -> exp.Expr:
    if expr.value in _CONSTANTS:
        node = _CONSTANTS[expr.value]()
        _remember(node, [text], [])
        return node
    if text.isdigit():
        return exp.Literal.number(text)
    if len(text) > 1 and text[0] == text[-1] == "'" and not set(text[1:-1]) & set("'\\"):
        return exp.Literal.string(text[1:-1])
    return exp.Var(this=text)


def _made(expr: Expr, text: str, args: list[exp.Expr], words: Words) -> exp.Expr:
    """Returns the node over ``args``."""
    match expr.op, expr.value:
        case ("and" | "or"), _:
            return reduce(lambda left, right: (exp.And if expr.op == "and" else exp.Or)(this=left, expression=right), args)
        case "bin", operator if operator in _BINARY:
            return _BINARY[operator](this=args[0], expression=args[1])
        case "un", operator if operator in _UNARY:
            return _UNARY[operator](this=args[0])
        case "paren", _:
            return exp.Paren(this=args[0])
        case "lambda", names:
            return exp.Lambda(this=args[0], expressions=[exp.to_identifier(name) for name in names])
        case "case", shape:
            return _case(shape, args)
        case "cast", kind:
            return (exp.TryCast if "try" in expr.flags else exp.Cast)(this=args[0], to=_type(kind))
        case "field", name:
            return exp.Dot(this=args[0], expression=exp.to_identifier(name))
        case "index", _:
            return exp.Bracket(this=args[0], expressions=[args[1]])
        case "special", "AT TIME ZONE":
            return exp.AtTimeZone(this=args[0], zone=args[1])
        case "special", "row":
            return exp.Tuple(expressions=[_named(expr, arg, before, behind) for arg, before, behind in zip(args, words, words[1:])])
        case ("between" | "in" | "like" | "is"), _:
            predicate = _predicate(expr, args, words)
            return exp.Not(this=predicate) if "not" in expr.flags else predicate
        case "call", _:
            return _call(expr, " ".join(text[: text.index("(")].split()), args, words)
    return exp.Anonymous(this=str(expr.value or expr.op).upper(), expressions=args)


def _predicate(expr: Expr, args: list[exp.Expr], words: Words) -> exp.Expr:
    """Returns the node of a predicate without its NOT."""
    match expr.op, args:
        case "between", [value, low, high]:
            return exp.Between(this=value, low=low, high=high)
        case "in", [value, *listed]:
            return exp.In(this=value, query=listed[0]) if expr.value == "query" else exp.In(this=value, expressions=listed)
        case "is", [value, other]:  # the enclosing NOT, if any, turns it into an equality
            return exp.NullSafeNEQ(this=value, expression=other)
        case "is", [value]:
            constant = _CONSTANTS.get(expr.value)
            return exp.Is(this=value, expression=constant() if constant else exp.Var(this=expr.value))
    if words[1][-1].text == "(" and words[1][-2].upper in _SOME:
        return _LIKE[expr.value](this=args[0], expression=_SOME[words[1][-2].upper](this=exp.Tuple(expressions=args[1:])))
    like = _LIKE[expr.value](this=args[0], expression=args[1])
    return exp.Escape(this=like, expression=args[2]) if len(args) > 2 else like


def _call(expr: Expr, name: str, args: list[exp.Expr], words: Words) -> exp.Expr:
    """Returns the node of a call, with nodes for DISTINCT, ORDER BY, the names of arguments, and what follows the parentheses."""
    first, *rest = [[token.upper for token in each] for each in words]
    if expr.value == "EXTRACT" and first[-1] == "FROM":
        return exp.Extract(this=exp.Var(this=words[0][-2].text), expression=args[0])
    if expr.value == "TRIM" and args and (first[-1] != "(" or rest[0] == ["FROM"]):
        position = next((word for word in first if word in TRIMMED), None)
        return exp.Trim(this=args[-1], expression=args[0] if len(args) > 1 else None, position=position)
    condition = args[-1] if "filter" in expr.flags else None
    inside = args[:-1] if condition is not None else list(args)
    at = next((i for i, before in enumerate((first, *rest)) if before[-2:] == ["ORDER", "BY"]), len(inside))
    sort = [_sorted(key, behind) for key, behind in zip(inside[at:], rest[at:])]
    within = bool(sort) and "WITHIN" in (first, *rest)[at]
    inside = [_named(expr, arg, before, behind) for arg, before, behind in zip(inside[:at], words, words[1:])]
    if "distinct" in expr.flags:
        inside = [exp.Distinct(expressions=inside)]
    if sort and not within:
        inside[-1] = exp.Order(this=inside[-1], expressions=sort)
    node: exp.Expr = exp.Anonymous(this=name, expressions=inside)
    if within:
        node = exp.WithinGroup(this=node, expression=exp.Order(expressions=sort))
    if condition is not None:
        node = exp.Filter(this=node, expression=exp.Where(this=condition))
    nulls = next((kind for word, kind in _NULLS.items() for each in rest if (word, "NULLS") in pairwise(each)), None)
    return nulls(this=node) if nulls is not None else node


def _sorted(key: exp.Expr, behind: list[str]) -> exp.Ordered:
    """Returns the node of a sort key. ``behind``: the words after it."""
    descending = behind[:1] == ["DESC"]
    nulls = next((word for word in behind[1:3] if word in ("FIRST", "LAST")), "LAST" if descending else "FIRST")
    return exp.Ordered(this=key, desc=descending or None, nulls_first=nulls == "FIRST")


def _named(expr: Expr, arg: exp.Expr, before: list[Token], behind: list[Token]) -> exp.Expr:
    """Returns the node of an argument of a call or a row, which may have its name before ``=>``, or after it."""
    if [token.text for token in before[-2:]] == ["=", ">"]:
        return exp.Kwarg(this=_identifier(before[-3]), expression=arg)
    if behind[0].upper == "AS":
        return exp.Alias(this=arg, alias=_identifier(behind[1]))
    if expr.value in ("STRUCT", "row") and behind[0].kind in (WORD, QUOTED):
        return exp.Alias(this=arg, alias=_identifier(behind[0]))
    return arg


def _case(shape: str, args: list[exp.Expr]) -> exp.Case:
    """Returns the node of a CASE. ``shape``: o for an operand, w for WHEN and THEN, e for ELSE."""
    rest = list(args)
    operand = rest.pop(0) if shape.startswith("o") else None
    default = rest.pop() if shape.endswith("e") else None
    return exp.Case(this=operand, ifs=[exp.If(this=when, true=then) for when, then in zip(rest[::2], rest[1::2])], default=default)


def _type(text: str) -> exp.DataType:
    try:
        return exp.DataType.build(text, dialect=READ, udt=True)
    except SqlglotError:
        return exp.DataType(this=exp.DType.USERDEFINED, kind=text)


def _remember(node: exp.Expr, pieces: list[str], parts: list[exp.Expr]) -> None:
    """Keeps the text of a new node, the ``pieces`` before, between and after its parts, and its shape.

    The shape has the node and all nodes below it in depth-first order. A part is its number in the text.
    """
    numbers = {id(part): number for number, part in enumerate(parts)}
    shape: list[int | tuple] = []
    below = [node]
    while below:
        each = below.pop()
        number = numbers.get(id(each))
        shape.append(_own(each) if number is None else number)
        below.extend(() if number is not None else reversed(_directly_below(each)))
    node.meta[_TEXT] = (tuple(pieces), tuple(shape))


def _directly_below(node: exp.Expr) -> list[exp.Expr]:
    """Returns the nodes directly below a node by the names of its arguments, which a change of the tree may reorder."""
    return [part for _, value in sorted(node.args.items()) for part in (value if isinstance(value, list) else [value]) if isinstance(part, exp.Expr)]


def _own(node: exp.Expr) -> tuple:
    """Returns a node's class and arguments, without the nodes below it."""
    return (node.key, *((name, _without_nodes(value)) for name, value in sorted(node.args.items()) if value))


def _without_nodes(value: object) -> object:
    return tuple(map(_without_nodes, value)) if isinstance(value, list) else None if isinstance(value, exp.Expr) else value


def _parts(node: exp.Expr, shape: tuple) -> list[exp.Expr] | None:
    """Returns the parts of a node in the order of the text, None if the node has another shape."""
    parts, below = {}, [node]
    for own in shape:
        each = below.pop()
        if isinstance(own, int):
            parts[own] = each
        elif own == _own(each):
            below.extend(reversed(_directly_below(each)))
        else:
            return None
    return [part for _, part in sorted(parts.items(), key=lambda item: item[0])]


def text_of(node: exp.Expr) -> str:
    """Returns the text of a tree: the user's own text for unchanged parts."""
    text = _remembered(node)
    if text is not None:
        return text
    node = node.copy()
    changed = [node]
    while changed:
        for part in list(changed.pop().iter_expressions()):
            text = _remembered(part)
            if text is None:
                changed.append(part)
            else:
                part.replace(exp.Var(this=text))
    return node.sql(READ)


def _remembered(node: exp.Expr) -> str | None:
    """Returns the text of a node that is unchanged without its parts, None for any other node."""
    remembered = node.meta.get(_TEXT)
    if remembered is None:
        return None
    if isinstance(remembered, str):
        return remembered if _query(remembered) == node else None
    pieces, shape = remembered
    parts = _parts(node, shape)
    return None if parts is None else pieces[0] + "".join(text_of(part) + piece for part, piece in zip(parts, pieces[1:]))
