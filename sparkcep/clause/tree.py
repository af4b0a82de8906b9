"""The clause as the user wrote it: frozen, with spans, nothing resolved (LANGUAGE section 1)."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkcep.clause.expression import Expr
from sparkcep.clause.lexer import Span, quote
from sparkcep.clause.nodes import Node, to_text, variable_text

ONE_ROW, SHOW_EMPTY, OMIT_EMPTY, WITH_UNMATCHED = "one", "show", "omit", "unmatched"
PAST_LAST, NEXT_ROW, TO_FIRST, TO_LAST = "past_last", "next_row", "first", "last"

_ROWS_TEXT = {
    ONE_ROW: "ONE ROW PER MATCH",
    SHOW_EMPTY: "ALL ROWS PER MATCH SHOW EMPTY MATCHES",
    OMIT_EMPTY: "ALL ROWS PER MATCH OMIT EMPTY MATCHES",
    WITH_UNMATCHED: "ALL ROWS PER MATCH WITH UNMATCHED ROWS",
}


def _span() -> Span:
    return field(default=Span(0, 0), compare=False)


@dataclass(frozen=True)
class SortItem:
    expr: Expr
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True)
class Measure:
    expr: Expr
    name: str
    name_span: Span = _span()


@dataclass(frozen=True)
class Skip:
    """``mode``: one of PAST_LAST, NEXT_ROW, TO_FIRST, TO_LAST; ``target`` for the last two."""

    mode: str
    target: str | None = None
    span: Span = _span()


@dataclass(frozen=True)
class EventSelection:
    strategy: str  # STRICT, NEXT, ANY
    report: str | None = None  # FIRST, ALL
    span: Span = _span()


@dataclass(frozen=True)
class Window:
    size: Expr
    rows: bool = False
    slide: Expr | None = None
    slide_rows: bool = False
    span: Span = _span()


@dataclass(frozen=True)
class Approx:
    k: Expr
    weights: tuple[tuple[str, Expr], ...] = ()
    report: str | None = None  # PROXY, ALL, BUNDLES
    span: Span = _span()


@dataclass(frozen=True)
class Preference:
    objectives: tuple[tuple[str, Expr], ...]  # (MAX | MIN, expression)
    combine: str | None = None
    span: Span = _span()


@dataclass(frozen=True)
class Top:
    k: Expr
    scope: str | None = None  # PARTITION, OVERALL
    span: Span = _span()


@dataclass(frozen=True)
class Subset:
    name: str
    members: tuple[tuple[str, Span], ...] = field(compare=False)
    member_names: tuple[str, ...] = ()
    span: Span = _span()


@dataclass(frozen=True)
class Define:
    variable: str
    condition: Expr
    span: Span = _span()


@dataclass(frozen=True)
class MatchClause:
    """What stands between the parentheses of MATCH_RECOGNIZE. ``text`` is the statement all spans point into."""

    pattern: Node
    partition_by: tuple[Expr, ...] = ()
    order_by: tuple[SortItem, ...] = ()
    measures: tuple[Measure, ...] = ()
    rows: str = ONE_ROW
    skip: Skip | None = None
    selection: EventSelection | None = None
    window: Window | None = None
    approx: Approx | None = None
    pref: Preference | None = None
    top: Top | None = None
    subsets: tuple[Subset, ...] = ()
    defines: tuple[Define, ...] = ()
    text: str = field(default="", compare=False, repr=False)
    span: Span = _span()


def to_sql(clause: MatchClause) -> str:
    """The clause's text in canonical layout; expressions stand as the user wrote them."""
    text = clause.text

    def cut(e: Expr) -> str:
        return e.span.of(text)

    lines = []
    if clause.partition_by:
        lines.append("PARTITION BY " + ", ".join(map(cut, clause.partition_by)))
    if clause.order_by:
        lines.append("ORDER BY " + ", ".join(_sort_text(s, text) for s in clause.order_by))
    if clause.measures:
        lines.append("MEASURES " + ", ".join(f"{cut(m.expr)} AS {quote(m.name)}" for m in clause.measures))
    lines.append(_ROWS_TEXT[clause.rows])
    if clause.skip:
        lines.append("AFTER MATCH SKIP " + _skip_text(clause.skip))
    if clause.selection:
        words = {"STRICT": "STRICT CONTIGUITY", "NEXT": "SKIP TILL NEXT MATCH", "ANY": "SKIP TILL ANY MATCH"}
        report = {None: "", "FIRST": " FIRST MATCH", "ALL": " ALL MATCHES"}
        lines.append(f"EVENT SELECTION {words[clause.selection.strategy]}{report[clause.selection.report]}")
    lines.append(f"PATTERN ({to_text(clause.pattern, text)})")
    if clause.window:
        w = clause.window
        line = f"WINDOW {cut(w.size)}" + (" ROWS" if w.rows else "")
        if w.slide is not None:
            line += f" SLIDE {cut(w.slide)}" + (" ROWS" if w.slide_rows else "")
        lines.append(line)
    if clause.approx:
        a = clause.approx
        line = f"APPROX {cut(a.k)}"
        if a.weights:
            line += " WEIGHTS (" + ", ".join(f"{_weight_name(v)} {cut(e)}" for v, e in a.weights) + ")"
        line += {None: "", "PROXY": " PROXY MATCHES", "ALL": " ALL MATCHES", "BUNDLES": " MATCH BUNDLES"}[a.report]
        lines.append(line)
    if clause.pref:
        line = "PREF " + " AND ".join(f"{d} ({cut(e)})" for d, e in clause.pref.objectives)
        lines.append(line + (f" COMBINE BY {clause.pref.combine}" if clause.pref.combine else ""))
    if clause.top:
        scope = {None: "", "PARTITION": " PER PARTITION", "OVERALL": " OVERALL"}[clause.top.scope]
        lines.append(f"TOP {cut(clause.top.k)}{scope}")
    if clause.subsets:
        lines.append(
            "SUBSET "
            + ", ".join(
                f"{variable_text(s.name)} = ({', '.join(variable_text(m) for m in s.member_names)})" for s in clause.subsets
            )
        )
    if clause.defines:
        lines.append("DEFINE " + ", ".join(f"{variable_text(d.variable)} AS {cut(d.condition)}" for d in clause.defines))
    return "\n".join(lines)


def _weight_name(name: str) -> str:
    return "~" + variable_text(name[1:]) if name.startswith("~") else variable_text(name)


def _sort_text(item: SortItem, text: str) -> str:
    out = item.expr.span.of(text) + (" DESC" if item.descending else "")
    if item.nulls_first is not None:
        out += " NULLS FIRST" if item.nulls_first else " NULLS LAST"
    return out


def _skip_text(skip: Skip) -> str:
    if skip.mode == PAST_LAST:
        return "PAST LAST ROW"
    if skip.mode == NEXT_ROW:
        return "TO NEXT ROW"
    return f"TO {'FIRST' if skip.mode == TO_FIRST else 'LAST'} {variable_text(skip.target or '')}"
