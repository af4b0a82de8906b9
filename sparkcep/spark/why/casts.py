"""Finds the comparisons whose sides have different types, so that Spark casts one of them.

Spark analyses each of these comparisons over one row of the clause's input. Its analysed plan has the casts. No job runs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sparkcep.clause.expressions import Expr
from sparkcep.plan.scope import NAVIGATIONS
from sparkcep.spark.why.partition import Run
from sparkcep.spark.why.statement import Input
from sparkcep.tracing.answers.hints import Cast
from sparkcep.tracing.conditions.collector import sides_of
from sparkcep.tracing.conditions.question import Question

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST = 5  # comparisons that are analysed
_ID = re.compile(r"#\d+L?")
_COMPARED = ("bin", "between", "in", "is")
_SHAPED = re.compile(r"^Project \[(?P<whole>.*) AS __a(?P<sides>(?:, .* AS __b\d+)+)\]$", re.DOTALL | re.MULTILINE)
_SIDE = re.compile(r", (.*?) AS __b\d+", re.DOTALL)


def casts(run: Run, asked: Input, question: Question) -> dict[int, Cast]:
    """The casts that Spark adds: for the number of a comparison, the first side that Spark casts."""
    listed = []
    for comparison in question.comparisons:
        if question.clause.automaton is not None and not question.values[comparison.truth].column:
            continue  # it reads a register
        expr = comparison.expr.bare()
        sides = [text for side in sides_of(expr) if (text := _over_a_row(question, side)) is not None]
        whole = _over_a_row(question, expr)
        if expr.op in _COMPARED and whole is not None and len(sides) == len(sides_of(expr)) > 1:
            listed.append((comparison.number, whole, sides))
    if not listed:
        return {}
    texts = list(dict.fromkeys(side for _, _, sides in listed for side in sides))
    fields = run(
        f"{asked.names}SELECT {', '.join(f'({text}) AS __b{i}' for i, text in enumerate(texts))} FROM {asked.source}"
    ).schema.fields
    types = {text: field.dataType.simpleString() for text, field in zip(texts, fields, strict=True)}
    found: dict[int, Cast] = {}
    differing = [(*one, sides) for *one, sides in listed if len({_kind(types[side]) for side in sides} - {"void"}) > 1]
    for number, whole, sides in differing[:MOST]:
        given = ", ".join(f"({side}) AS __b{i}" for i, side in enumerate(sides))
        cast = _added(run(f"{asked.names}SELECT ({whole}) AS __a, {given} FROM {asked.source}"), [types[side] for side in sides])
        if cast is not None:
            place, to = cast
            side = sides_of(question.comparisons[number].expr.bare())[place]
            found[number] = Cast(" ".join(side.span.of(question.clause.text).split()), types[sides[place]].upper(), to.upper())
    return found


def _over_a_row(question: Question, expr: Expr) -> str | None:
    """The text of an expression with each navigation replaced by the expression that it reads.

    None if it has another function over the match.
    """
    scope, fixed = question.scope, {}
    for call in scope.match_functions(expr):
        if call.value not in NAVIGATIONS:
            return None
        fixed[call.span] = f"({scope.row_text(scope.navigation(call, in_define=True)[1])})"
    return scope.row_text(expr, fixed=fixed)


def _kind(of: str) -> str:
    """A type without its size: numbers are one kind."""
    word = of.partition("(")[0].partition("<")[0].partition(" ")[0]
    return "number" if word in ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal") else word


def _added(frame: DataFrame, types: list[str]) -> tuple[int, str] | None:
    """The first side that the analysed comparison casts to another kind of type, with this type."""
    found = _SHAPED.search(_ID.sub("", _analysed(frame)))
    if found is None:
        return None
    for place, (side, of) in enumerate(zip(_SIDE.findall(found["sides"]), types, strict=True)):
        for to in re.findall(rf"cast\({re.escape(side)} as ([a-z_]+(?:\([\d,]+\))?)\)", found["whole"]):
            if _kind(to) != _kind(of) and (_kind(of) == "string" or (of, to) == ("date", "timestamp")):
                return place, to
    return None


def _analysed(frame: DataFrame) -> str:
    """The analysed plan of a frame as text."""
    if hasattr(frame, "_jdf"):
        return frame._jdf.queryExecution().analyzed().toString()
    return (
        frame._explain_string(mode="extended")
        .partition("== Analyzed Logical Plan ==")[2]
        .partition("== Optimized Logical Plan ==")[0]
    )
