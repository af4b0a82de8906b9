"""Prints a clause's tree as text. Parsing the printed text gives the same tree.

EXPLAIN, the translation of dialects, the command line and the DataFrame API use it.
"""

from __future__ import annotations

from collections.abc import Callable

from sparkcep.clause.automaton import ROW, ArcTable, Automaton, Register, State
from sparkcep.clause.expressions import UNITS, Expr
from sparkcep.clause.nodes import (
    Alternate,
    Concat,
    Conjunct,
    Empty,
    End,
    Exclude,
    Node,
    Not,
    Permute,
    Repeat,
    Start,
    Var,
    Within,
    quantifier,
)
from sparkcep.clause.tokens import quote
from sparkcep.clause.tree import (
    NEXT_ROW,
    OMIT_EMPTY,
    ONE_ROW,
    PAST_LAST,
    SHOW_EMPTY,
    TO_FIRST,
    TO_LAST,
    WITH_UNMATCHED,
    MatchClause,
    Preference,
    Sequence,
)

ROWS_TEXT = {
    ONE_ROW: "ONE ROW PER MATCH",
    SHOW_EMPTY: "ALL ROWS PER MATCH SHOW EMPTY MATCHES",
    OMIT_EMPTY: "ALL ROWS PER MATCH OMIT EMPTY MATCHES",
    WITH_UNMATCHED: "ALL ROWS PER MATCH WITH UNMATCHED ROWS",
}
STRATEGIES = {"STRICT": "STRICT CONTIGUITY", "NEXT": "SKIP TILL NEXT MATCH", "ANY": "SKIP TILL ANY MATCH"}


Cut = Callable[[Expr], str]  # returns the text of an expression
Named = Callable[[str], str]  # returns a name as text


def to_sql(clause: MatchClause, cut: Cut | None = None, named: Named | None = None, column: Named = quote) -> str:
    """The clause's text in canonical layout. Expressions keep the user's text, or get that of ``cut``.

    ``named`` and ``column`` return the text of a variable and of an output column.
    """
    named = named or variable_text
    cut = cut or (lambda e: e.span.of(clause.text))
    lines = []
    if clause.partition_by:
        lines.append("PARTITION BY " + ", ".join(map(cut, clause.partition_by)))
    if clause.order_by:
        lines.append("ORDER BY " + ", ".join(order_text(cut(item.expr), item.descending, item.nulls_first) for item in clause.order_by))
    if clause.measures:
        lines.append("MEASURES " + ", ".join(f"{cut(m.expr)} AS {column(m.name)}" for m in clause.measures))
    lines.append(ROWS_TEXT[clause.rows] + _unfinished_text(clause, cut))
    if clause.skip:
        lines.append("AFTER MATCH SKIP " + skip_text(clause.skip.mode, named(clause.skip.target) if clause.skip.target else ""))
    if clause.selection:
        report = {None: "", "FIRST": " FIRST MATCH", "ALL": " ALL MATCHES"}
        lines.append(f"EVENT SELECTION {STRATEGIES[clause.selection.strategy]}{report[clause.selection.report]}")
    lines += [_sequence_text(sequence, cut, named) for sequence in clause.sequences]
    lines.append(f"PATTERN ({_print(clause.pattern, cut, named, 0)})" if clause.automaton is None else f"AUTOMATON {'BY ROWS ' if clause.automaton.by_rows else ''}({_items(clause.automaton, cut)})")
    if clause.lifetime:
        lines.append(f"LIFETIME TO {cut(clause.lifetime.end)}")
    if clause.changes:
        arrival = " ARRIVAL BY " + ", ".join(map(cut, clause.changes.arrival)) if clause.changes.arrival else ""
        consecutive = f" CONSECUTIVE BY {cut(clause.changes.consecutive)}" if clause.changes.consecutive else ""
        punctuate = f" PUNCTUATE BY {cut(clause.changes.punctuate)}" if clause.changes.punctuate else ""
        lines.append(f"CHANGES IN {cut(clause.changes.column)}{arrival}{consecutive}{punctuate}")
    if clause.report:
        lines.append(f"REPORT {clause.report.what}{' WITH PUNCTUATIONS' if clause.report.punctuations else ''}")
    if clause.speculate:
        lines.append("SPECULATE " + (cut(clause.speculate.size) if clause.speculate.size else clause.speculate.what))
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
        reports = {"PROXY": "PROXY MATCHES", "PER ERROR": "PROXY MATCHES PER ERROR", "ALL": "ALL MATCHES", "BUNDLES": "MATCH BUNDLES", "HISTORY": "MATCH HISTORY"}
        line += f" {reports[a.report]}" if a.report else ""
        line += f" OF {a.runs} MATCHES" if a.runs else ""
        line += f" INTERVALS {cut(a.intervals)}" if a.intervals is not None else ""
        if a.budget is not None:
            line += f" BUDGET {cut(a.budget.amount)} " + (f"PER {a.budget.per}" if a.budget.per else "CHECKS")
            used = a.budget.history
            if used is not None:
                line += f" USING HISTORY {used.text}" + (" REFILL" if used.refill else "") + (f" {cut(used.bundles)} BUNDLES" if used.bundles is not None else "")
                line += " AS PUBLISHED" if used.published else ""
                sizes = [cut(size) for size in used.sketch]
                line += {0: "", 1: f" SKETCH AUTO {sizes[0] if sizes else ''}", 2: f" SKETCH ({', '.join(sizes)})"}[len(sizes)]
                line += " EXPLORE" if a.budget.explore else ""
        lines.append(line)
    if clause.pref:
        lines.append(_preference_text(clause.pref, cut, named))
    if clause.top:
        scope = {None: "", "PARTITION": " PER PARTITION", "OVERALL": " OVERALL"}[clause.top.scope]
        lines.append(f"TOP {cut(clause.top.k)}{scope}")
    if clause.subsets:
        lines.append(
            "SUBSET "
            + ", ".join(
                f"{named(s.name)} = ({', '.join(named(m.name) for m in s.members)})" for s in clause.subsets
            )
        )
    if clause.defines:
        lines.append("DEFINE " + ", ".join(f"{named(d.variable)} AS {cut(d.condition)}" for d in clause.defines))
    return "\n".join(lines)


def _sequence_text(sequence: Sequence, cut: Cut, named: Named) -> str:
    line = f"SEQUENCE {named(sequence.name)} AS ({_print(sequence.pattern, cut, named, 0)})"
    if sequence.size is not None:
        line += f" WITHIN {cut(sequence.size)}" + (" ROWS" if sequence.rows else "")
    if sequence.step is not None:
        line += f" UPDATE {cut(sequence.step)}" + (" ROWS" if sequence.step_rows else "")
    return line + (" " + _preference_text(sequence.pref, cut, named) if sequence.pref else "")


def _preference_text(pref: Preference, cut: Cut, named: Named) -> str:
    names = [f" AS {named(name)}" if name is not None else "" for name in pref.names] or [""] * len(pref.objectives)
    line = "PREF " + " AND ".join(f"{goal} ({cut(expr)}){name}" for (goal, expr), name in zip(pref.objectives, names))
    if pref.sequences:
        line = "PREF SEQUENCES"
        line += f" WEIGHTS ({', '.join(f'{named(name)} {cut(weight)}' for name, weight in pref.weights)})" if pref.weights else ""
    return line + (f" COMBINE BY {pref.combine}" if pref.combine else "")


def _items(automaton: Automaton, cut: Cut) -> str:
    out = []
    for item in automaton.items:
        if isinstance(item, Register):
            typed = item.type if item.like is None else f"LIKE ({cut(item.like)})"
            out.append(f"REGISTER {quote(item.name)} {typed}" + (f" = {cut(item.initial)}" if item.initial is not None else ""))
        elif isinstance(item, State):
            marks = (" START" if item.start else "") + (" FINAL" if item.final else "")
            out.append(f"STATE {quote(item.name)}{marks}" + (f" IGNORE WHEN {cut(item.ignore)}" if item.ignore is not None else ""))
        elif isinstance(item, ArcTable):
            out.append(f"ARCS FROM {item.text}" + (" ARRIVAL BY " + ", ".join(map(cut, item.arrival)) if item.arrival else ""))
        else:
            declared = "" if item.parameters is None else f"({', '.join(f'{quote(p.name)} {p.type}' for p in item.parameters)})"
            line = f"ARC {quote(item.name) + declared + ' ' if item.name is not None else ''}FROM {quote(item.ends[0])} TO {quote(item.ends[1])}"
            line += "" if item.on == ROW else f" ON {item.on}"
            line += f" WHEN {cut(item.when)}" if item.when is not None else ""
            line += " SET " + ", ".join(f"{quote(s.register)} = {cut(s.value)}" for s in item.sets) if item.sets else ""
            line += " EMIT (" + ", ".join(f"{cut(e.value)} AS {quote(e.name)}" for e in item.emits) + ")" if item.emits else ""
            out.append(line)
    return "\n".join(out)


def _weight_name(name: str) -> str:
    return "~" + variable_text(name[1:]) if name.startswith("~") else variable_text(name)


def order_text(text: str, descending: bool, nulls_first: bool | None) -> str:
    """An item of ORDER BY over the expression ``text``."""
    nulls = {None: "", True: " NULLS FIRST", False: " NULLS LAST"}[nulls_first]
    return f"{text}{' DESC' if descending else ''}{nulls}"


def _unfinished_text(clause: MatchClause, cut: Cut) -> str:
    shown = clause.unfinished
    if shown is None:
        return ""
    return f" SHOW {shown.what} MATCHES" + (f" AS OF {cut(shown.as_of)}" if shown.as_of is not None else "")


def skip_text(mode: str, target: str) -> str:
    """The text after AFTER MATCH SKIP. ``target``: the variable of TO FIRST and TO LAST."""
    return {PAST_LAST: "PAST LAST ROW", NEXT_ROW: "TO NEXT ROW", TO_FIRST: f"TO FIRST {target}", TO_LAST: f"TO LAST {target}"}[mode]


def variable_text(name: str, quoted: Named = quote) -> str:
    """A variable as printed: quoted if it is not a plain word."""
    plain = name.isascii() and name.isidentifier()
    return name if plain and name.upper() not in _QUOTED else quoted(name)


# words that would begin something else in the place of a variable
_QUOTED = UNITS | set("PERMUTE WITHIN ROWS TO PATTERN AUTOMATON EVENT WINDOW LIFETIME CHANGES REPORT SPECULATE APPROX PREF TOP AND OR NOT AS EVERY THEN FOLLOWED".split())


def to_text(node: Node, text: str) -> str:
    """Pattern text that parses to the same node. ``text``: the statement, which contains the sizes of windows."""
    return _print(node, lambda e: e.span.of(text), variable_text, 0)


# binding strength: alternation 0, conjunction 1, concatenation 2, negation 3, quantifier 4
def _print(node: Node, cut: Cut, named: Named, level: int) -> str:
    match node:
        case Var(name):
            return named(name)
        case Empty():
            return "()"
        case Start():
            return "^"
        case End():
            return "$"
        case Alternate(items):
            return _group(" | ".join(_print(i, cut, named, 1) for i in items), level > 0)
        case Conjunct(items):
            return _group(" & ".join(_print(i, cut, named, 2) for i in items), level > 1)
        case Concat(items):
            return _group(" ".join(_print(i, cut, named, 3) for i in items), level > 2)
        case Not(item):
            return _group("~" + _print(item, cut, named, 5), level > 3)
        case Permute(items):
            return "PERMUTE(" + ", ".join(_print(i, cut, named, 0) for i in items) + ")"
        case Exclude(item):
            return "{- " + _print(item, cut, named, 0) + " -}"
        case Within(item, size, rows):
            return f"({_print(item, cut, named, 0)}) WITHIN {cut(size)}{' ROWS' if rows else ''}"
        case Repeat(item, low, high, greedy):
            body = _print(item, cut, named, 5)
            return _group(body + quantifier(low, high) + ("" if greedy else "?"), level > 4)
    raise TypeError(node)


def _group(body: str, needed: bool) -> str:
    return f"({body})" if needed else body
