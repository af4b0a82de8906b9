"""Lineage: lets sqlglot's tools look through a clause, and finds the source columns of a statement's columns.

The package exports its functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import sqlglot
from sqlglot import exp
from sqlglot import lineage as sqlglot_lineage

from sparkcep.clause import tree
from sparkcep.dialect.clauses import clause_of
from sparkcep.dialect.composed import beside, innermost
from sparkcep.dialect.expressions import READ
from sparkcep.dialect.sparkcep import NAME

_OF_VARIABLES = frozenset(["CLASSIFIER", "MATCH_NUMBER", "MISSING", "MATCH_ERRORS"])  # functions whose arguments are not columns


def see_through(expression: exp.Expr) -> exp.Expr:
    """Returns a query's tree with a derived table instead of each clause, for tools that analyse sqlglot trees.

    The derived table has the clause's keys and measures over its input, without row pattern variables. The columns that its
    conditions and its order read are in WHERE and ORDER BY. It has the clause's columns, but not its rows: use it for qualify,
    scopes and lineage, and never run it.

    Args:
        expression: a sqlglot tree that the dialect ``sparkcep`` read.

    Returns:
        A copy of the tree without clauses.

    Example:
        >>> import sqlglot
        >>> clause = "ORDER BY d MEASURES LAST(B.p) AS x PATTERN (A B)"
        >>> tree = sqlglot.parse_one(f"SELECT * FROM t MATCH_RECOGNIZE ({clause})", read="sparkcep")
        >>> sparkcep.see_through(tree).sql("spark")
        'SELECT * FROM (SELECT LAST(p) AS x FROM t ORDER BY d ASC NULLS LAST)'
    """
    root = exp.Paren(this=expression.copy())
    while (found := next(innermost(root), None)) is not None:
        found.replace(beside(exp.Subquery(this=_derived(found.this), alias=found.args.get("alias")), found))
    return root.this.pop()


def _derived(query: exp.Select) -> exp.Select:
    match = query.args["match"]
    clause = clause_of(match)
    automaton = clause.automaton
    hidden = {node.name.lower() for node in clause.variables()}
    hidden |= {named.name.lower() for named in (*clause.subsets, *clause.sequences)}
    registers = {register.name.lower() for register in automaton.registers} if automaton else set()

    def bare(part: exp.Expr) -> exp.Expr:
        return _bare(part, hidden, registers)

    out = query.copy()
    out.set("match", None)
    measures = [exp.alias_(bare(measure.expr), exp.to_identifier(measure.name)) for measure in clause.measures]
    if automaton:
        emitted = {e.name: e for arc in automaton.arcs for e in arc.emits}
        measures += [exp.alias_(bare(e.value), exp.to_identifier(e.name)) for e in emitted.values()]
    keys = [bare(key) for key in clause.partition_by]
    out.set("expressions", [*(keys if clause.rows == tree.ONE_ROW else [exp.Star()]), *measures])
    conditions = [bare(define.condition) for define in clause.defines]
    if automaton:
        conditions += [bare(arc.when) for arc in automaton.arcs if arc.when is not None]
    if conditions:
        out.set("where", exp.Where(this=exp.and_(*conditions, copy=False)))
    if clause.order_by:
        out.set("order", exp.Order(expressions=[exp.Ordered(this=bare(item.expr), desc=item.descending) for item in clause.order_by]))
    return out


def _bare(part: exp.Expr, hidden: set[str], registers: set[str]) -> exp.Expr:
    """Returns a part of the clause without variables: they neither qualify a column nor appear alone. Registers become NULL."""
    root = exp.Paren(this=part.copy())
    for call in list(root.find_all(exp.Anonymous)):
        if call.name.split()[-1].upper() in _OF_VARIABLES:
            call.set("expressions", [])
    for column in list(root.find_all(exp.Column)):
        first = next(iter(column.parts)).name.lower()
        if len(column.parts) == 1:
            if first in registers:
                column.replace(exp.null())
        elif first in hidden:
            behind = column.parts[1:]
            column.replace(exp.Star() if isinstance(behind[0], exp.Star) else exp.Dot.build([exp.column(behind[0].copy()), *behind[1:]]) if behind[1:] else exp.column(behind[0].copy()))
    return root.this.pop()


def lineage(sql: str, schema: Mapping | None = None) -> dict[str, tuple[str, ...]]:
    """Returns the source columns of each column that a statement selects, creates or inserts.

    Args:
        sql: a Spark SQL statement, with or without the clause.
        schema: the columns of tables, as sqlglot takes them: ``{"ticks": {"price": "double"}}``. Needed if the statement has ``*``.

    Returns:
        Output column -> its source columns, as ``table.column``. Empty if the statement lacks a query.

    Example:
        >>> clause = "ORDER BY day MEASURES LAST(price) - FIRST(price) AS gain PATTERN (A+)"
        >>> sparkcep.lineage(f"SELECT gain FROM ticks MATCH_RECOGNIZE ({clause})")
        {'gain': ('ticks.price',)}
    """
    statement = sqlglot.parse_one(sql, read=NAME)
    query = statement if isinstance(statement, exp.Query) else statement.find(exp.Query)
    if query is None:
        return {}
    if statement is not query and (with_ := statement.args.get("with_")):
        query.set("with_", with_)
    plain = see_through(query)
    found = {}
    for name in _columns(plain, schema):
        root = sqlglot_lineage.lineage(name, plain.copy(), schema=dict(schema or {}), dialect=READ)
        found[name] = tuple(sorted(set(_sources(root))))
    return found


def _columns(query: exp.Query, schema: Mapping | None) -> list[str]:
    from sqlglot.optimizer.qualify import qualify

    qualified = qualify(query.copy(), schema=dict(schema or {}), dialect=READ, validate_qualify_columns=False, identify=False)
    return [name for name in qualified.named_selects if name != "*"]


def _sources(root: sqlglot_lineage.Node) -> Iterator[str]:
    for node in root.walk():
        if isinstance(node.expression, exp.Table) and not node.downstream:
            yield f"{exp.table_name(node.expression)}.{node.name.rpartition('.')[2]}"
