"""A clause's tree as text again: what is printed and parsed must be what was parsed."""

from __future__ import annotations

from sparkcep.clause.expression import Expr
from sparkcep.clause.lexer import quote
from sparkcep.clause.nodes import to_text, variable_text
from sparkcep.clause.tree import (
    NEXT_ROW,
    OMIT_EMPTY,
    ONE_ROW,
    PAST_LAST,
    SHOW_EMPTY,
    TO_FIRST,
    WITH_UNMATCHED,
    MatchClause,
    Skip,
    SortItem,
)

_ROWS_TEXT = {
    ONE_ROW: "ONE ROW PER MATCH",
    SHOW_EMPTY: "ALL ROWS PER MATCH SHOW EMPTY MATCHES",
    OMIT_EMPTY: "ALL ROWS PER MATCH OMIT EMPTY MATCHES",
    WITH_UNMATCHED: "ALL ROWS PER MATCH WITH UNMATCHED ROWS",
}


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
