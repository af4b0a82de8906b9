"""Converts expressions of the clause to sqlglot trees and back to text.

``dialect/clauses`` uses it. sparkcep's own reader parses the expression, so precedence is Spark's. Calls are anonymous nodes, so
sqlglot never mistakes one function for another. A node remembers the text between its parts. It is printed with that text while
its parts are unchanged; sqlglot prints changed and new nodes.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sparkcep.clause.expressions import Expr
from sparkcep.clause.tokens import QUOTED, WORD, name_of, tokenize

READ = "databricks"  # sqlglot's dialect for the text outside clauses
_TEXT = "sparkcep"  # in a node's meta: the pieces of its text, and the paths of its parts
_BINARY = {
    "+": exp.Add, "-": exp.Sub, "*": exp.Mul, "/": exp.Div, "%": exp.Mod, "DIV": exp.IntDiv, "||": exp.DPipe, "&": exp.BitwiseAnd, "|": exp.BitwiseOr,
    "^": exp.BitwiseXor, "<<": exp.BitwiseLeftShift, ">>": exp.BitwiseRightShift, "=": exp.EQ, "<>": exp.NEQ, "!=": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT,
    ">=": exp.GTE, "<=>": exp.NullSafeEQ,
}  # fmt: skip
_UNARY = {"NOT": exp.Not, "-": exp.Neg, "~": exp.BitwiseNot}
_LIKE = {"LIKE": exp.Like, "ILIKE": exp.ILike, "RLIKE": exp.RegexpLike, "REGEXP": exp.RegexpLike}
_CONSTANTS = {"NULL": exp.null, "TRUE": exp.true, "FALSE": exp.false}

Path = tuple[str | int, ...]  # from a node to a part of it: keys and list indexes


class Reader:
    """Makes trees of the expressions of one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def tree(self, expr: Expr, bound: frozenset[str] = frozenset()) -> exp.Expr:
        """Returns the tree of ``expr``. ``bound``: the lower-case parameters of the enclosing lambdas."""
        text = expr.span.of(self.text)
        if expr.op in ("col", "star"):
            return self._column(expr, bound)
        if expr.op == "interval":
            return exp.Var(this=text)
        if expr.op == "subquery":
            return _query(text)
        if expr.op == "lit":
            return _literal(expr, text)
        if expr.op == "lambda":
            bound |= frozenset(expr.value)
        args = [self.tree(arg, bound) for arg in expr.args]
        node, paths = _made(expr, text, args)
        parts = sorted(zip(paths, expr.args), key=lambda part: part[1].span.start)
        pieces, at = [], expr.span.start
        for _, arg in parts:
            pieces.append(self.text[at : arg.span.start])
            at = arg.span.end
        pieces.append(self.text[at : expr.span.end])
        node.meta[_TEXT] = (tuple(pieces), tuple(path for path, _ in parts), _count(node), _head(node))
        return node

    def _column(self, expr: Expr, bound: frozenset[str]) -> exp.Expr:
        written = [t for t in tokenize(expr.span.of(self.text)) if t.kind in (WORD, QUOTED)]
        names = [exp.to_identifier(name_of(t), quoted=t.kind == QUOTED) for t in written]
        if expr.op == "star":
            return _dotted([*names, exp.Star()]) if names else exp.Star()
        if len(names) and names[0].name.lower() in bound:  # a lambda's parameter is not a column
            return exp.Dot.build(names) if len(names) > 1 else names[0]
        return _dotted(names)


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
        node.meta[_TEXT] = ((text,), (), 0, _head(node))
        return node
    if text.isdigit():
        return exp.Literal.number(text)
    if len(text) > 1 and text[0] == text[-1] == "'" and not set(text[1:-1]) & set("'\\"):
        return exp.Literal.string(text[1:-1])
    return exp.Var(this=text)


def _made(expr: Expr, text: str, args: list[exp.Expr]) -> tuple[exp.Expr, list[Path]]:
    """Returns the node over ``args``, and the path of each of them."""
    this: Path = ("this",)
    if expr.op in ("and", "or"):
        return _chained(exp.And if expr.op == "and" else exp.Or, args)
    if expr.op == "bin" and expr.value in _BINARY:
        return _BINARY[expr.value](this=args[0], expression=args[1]), [this, ("expression",)]
    if expr.op == "un" and expr.value in _UNARY:
        return _UNARY[expr.value](this=args[0]), [this]
    if expr.op == "paren":
        return exp.Paren(this=args[0]), [this]
    if expr.op == "lambda":
        return exp.Lambda(this=args[0], expressions=[exp.to_identifier(name) for name in expr.value]), [this]
    if expr.op == "case":
        return _case(expr.value, args)
    if expr.op == "cast":
        kind = exp.TryCast if "try" in expr.flags else exp.Cast
        return kind(this=args[0], to=_type(expr.value)), [this]
    if expr.op == "field":
        return exp.Dot(this=args[0], expression=exp.to_identifier(expr.value)), [this]
    if expr.op == "index":
        return exp.Bracket(this=args[0], expressions=[args[1]]), [this, ("expressions", 0)]
    if (expr.op, expr.value) == ("special", "AT TIME ZONE"):
        return exp.AtTimeZone(this=args[0], zone=args[1]), [this, ("zone",)]
    if (expr.op, expr.value) == ("special", "row"):
        return exp.Tuple(expressions=args), [("expressions", i) for i in range(len(args))]
    predicate = _predicate(expr, args)
    if predicate is not None:
        node, paths = predicate
        return (exp.Not(this=node), [("this", *path) for path in paths]) if "not" in expr.flags else (node, paths)
    name = text[: text.index("(")].strip() if expr.op == "call" else str(expr.value or expr.op).upper()
    return exp.Anonymous(this=" ".join(name.split()), expressions=args), [("expressions", i) for i in range(len(args))]


def _predicate(expr: Expr, args: list[exp.Expr]) -> tuple[exp.Expr, list[Path]] | None:
    """Returns the node of a predicate without its NOT, and the paths of its parts. Returns None for any other expression."""
    this: Path = ("this",)
    if expr.op == "between":
        return exp.Between(this=args[0], low=args[1], high=args[2]), [this, ("low",), ("high",)]
    if expr.op == "in":
        return exp.In(this=args[0], expressions=args[1:]), [this, *(("expressions", i) for i in range(len(args) - 1))]
    if expr.op == "like" and len(args) == 2:
        return _LIKE[expr.value](this=args[0], expression=args[1]), [this, ("expression",)]
    if expr.op == "is" and len(args) == 2:  # the enclosing NOT, if any, turns it into an equality
        return exp.NullSafeNEQ(this=args[0], expression=args[1]), [this, ("expression",)]
    if expr.op == "is":
        constant = _CONSTANTS.get(expr.value)
        return exp.Is(this=args[0], expression=constant() if constant else exp.Var(this=expr.value)), [this]
    return None


def _chained(kind: Callable[..., exp.Expr], args: list[exp.Expr]) -> tuple[exp.Expr, list[Path]]:
    node = args[0]
    for arg in args[1:]:
        node = kind(this=node, expression=arg)
    last = len(args) - 1
    return node, [("this",) * last, *(("this",) * (last - i) + ("expression",) for i in range(1, len(args)))]


def _case(shape: str, args: list[exp.Expr]) -> tuple[exp.Expr, list[Path]]:
    """Returns the node of a CASE. ``shape``: o for an operand, w for WHEN and THEN, e for ELSE."""
    rest, paths, parts = list(args), [], {}
    if shape.startswith("o"):
        parts["this"] = rest.pop(0)
        paths.append(("this",))
    parts["ifs"] = []
    for i in range(shape.count("w")):
        parts["ifs"].append(exp.If(this=rest.pop(0), true=rest.pop(0)))
        paths += [("ifs", i, "this"), ("ifs", i, "true")]
    if shape.endswith("e"):
        parts["default"] = rest.pop(0)
        paths.append(("default",))
    return exp.Case(**parts), paths


def _type(text: str) -> exp.DataType:
    try:
        return exp.DataType.build(text, dialect=READ, udt=True)
    except SqlglotError:
        return exp.DataType(this=exp.DType.USERDEFINED, kind=text)


def _count(node: exp.Expr) -> int:
    return sum(1 for _ in node.iter_expressions())


def _head(node: exp.Expr) -> str:
    """Returns a text that identifies a node without its parts."""
    own = {exp.Anonymous: "this", exp.Cast: "to", exp.TryCast: "to", exp.Dot: "expression"}.get(type(node))
    return f"{node.key} {node.args[own] if own else ''}"


def text_of(node: exp.Expr) -> str:
    """Returns the text of a tree: the user's own text for unchanged parts."""
    remembered = node.meta.get(_TEXT)
    if isinstance(remembered, str):
        return remembered if _query(remembered) == node else node.sql(READ)
    if remembered is not None:
        pieces, paths, count, head = remembered
        parts = [_at(node, path) for path in paths]
        if None not in parts and count == _count(node) and head == _head(node):
            return pieces[0] + "".join(text_of(part) + piece for part, piece in zip(parts, pieces[1:]))
    return node.sql(READ)


def _at(node: exp.Expr, path: Path) -> exp.Expr | None:
    value: object = node
    for key in path:
        if isinstance(key, int):
            value = value[key] if isinstance(value, list) and key < len(value) else None
        else:
            value = value.args.get(key) if isinstance(value, exp.Expr) else None
    return value if isinstance(value, exp.Expr) else None
