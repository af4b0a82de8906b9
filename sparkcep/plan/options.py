"""The extended options: what they amount to, and which cannot stand together (LANGUAGE sections 3, 4 and 9)."""

from __future__ import annotations

from sparkcep.clause import nodes
from sparkcep.clause.expression import Expr
from sparkcep.clause.lexer import Span
from sparkcep.clause.tree import TO_FIRST, TO_LAST, MatchClause
from sparkcep.errors import SEMANTIC, ClauseError, error_at, position
from sparkcep.plan.costs import check_approx
from sparkcep.plan.score import check_ranking, ranks_all
from sparkcep.plan.window import MICROS, NUMBER, window_size

NO_WINDOW = "none"


def selection(clause: MatchClause) -> tuple[str, ...]:
    """(STRICT, NEXT or ANY; FIRST or ALL), or () where the standard's own matching is asked for."""
    chosen = clause.selection
    if clause.approx is not None:
        return (chosen.strategy if chosen else "ANY", "ALL")
    strategy = chosen.strategy if chosen else "STRICT"
    conjunction = nodes.contains(clause.pattern, nodes.Conjunct)
    report = (chosen.report if chosen else None) or ("ALL" if strategy == "ANY" or conjunction or ranks_all(clause) else "FIRST")
    extended = nodes.contains(clause.pattern, nodes.Within, nodes.Not)
    if (strategy, report) == ("STRICT", "FIRST") and clause.window is None and not extended:
        return ()
    return (strategy, report)


def windows(clause: MatchClause) -> tuple[tuple, ...]:
    """(kind, size, order column, line, column, text) of the WINDOW, or (NO_WINDOW, ...), then of each group's WITHIN."""
    if not selection(clause):
        return ()
    found: list[tuple] = [(NO_WINDOW, "", "", 0, 0, "")]
    if clause.window is not None:
        found = [_window(clause, clause.window.size, clause.window.rows)]
    found += [_window(clause, n.size, False) for n in nodes.walk(clause.pattern) if isinstance(n, nodes.Within)]
    return tuple(found)


def _window(clause: MatchClause, size: Expr, rows: bool) -> tuple:
    kind, amount = window_size(size, clause.text, rows)
    place = position(clause.text, size.span.start)
    return (kind, amount, "__o0" if kind in (MICROS, NUMBER) else "", *place, size.span.of(clause.text)[:40])


def check_options(clause: MatchClause) -> None:
    """Raises ClauseError for an option that cannot apply, at its place."""
    strategy, report = selection(clause) or ("STRICT", "FIRST")
    if clause.window is not None:
        if not clause.order_by:
            raise _fail(clause, clause.window.span, "WINDOW_WITHOUT_ORDER", "WINDOW needs the clause's ORDER BY, which it measures")
    if report == "ALL" and clause.skip is not None and clause.skip.mode in (TO_FIRST, TO_LAST):
        raise _fail(
            clause, clause.skip.span, "SKIP_WITH_ALL_MATCHES",
            "with ALL MATCHES, AFTER MATCH SKIP is TO NEXT ROW (all of them) or PAST LAST ROW (non-overlapping ones)",
        )
    _check_pattern(clause, strategy, report)
    check_approx(clause)
    check_ranking(clause)


def _check_pattern(clause: MatchClause, strategy: str, report: str) -> None:
    for node in nodes.walk(clause.pattern):
        if isinstance(node, nodes.Within) and not clause.order_by:
            raise _fail(clause, node.span, "WINDOW_WITHOUT_ORDER", "WITHIN needs the clause's ORDER BY, which it measures")
        if isinstance(node, nodes.Conjunct) and strategy == "STRICT":
            raise _fail(
                clause, node.span, "CONJUNCTION",
                "under STRICT CONTIGUITY rows are adjacent, so & means nothing; add EVENT SELECTION SKIP TILL ANY MATCH",
            )
        if isinstance(node, nodes.Conjunct) and report == "FIRST":
            raise _fail(clause, node.span, "CONJUNCTION", "a conjunction & reports ALL MATCHES; FIRST MATCH cannot be asked for")
        if isinstance(node, nodes.Repeat) and nodes.contains(node.item, nodes.Not):
            raise _fail(clause, node.span, "NEGATION", "~ cannot stand under a quantifier; negate one variable between others")
        if isinstance(node, nodes.Not):
            if not isinstance(node.item, nodes.Var):
                raise _fail(clause, node.span, "NEGATION", "~ takes one row pattern variable, not a group; give it a condition of its own")
            if strategy == "STRICT":
                raise _fail(
                    clause, node.span, "NEGATION",
                    "under STRICT CONTIGUITY no row lies between, so ~ means nothing; add EVENT SELECTION SKIP TILL NEXT MATCH",
                )
    if clause.window is None:
        for edge, where in ((_leading, "start"), (_trailing, "end")):
            for node in edge(clause.pattern):
                raise _fail(
                    clause, node.span, "NEGATION", f"~ at the {where} of the pattern looks at the window, so the clause needs WINDOW"
                )


def nullable(node: nodes.Node) -> bool:
    """Whether the pattern may match no row at all."""
    match node:
        case nodes.Var():
            return False
        case nodes.Concat(items) | nodes.Permute(items) | nodes.Conjunct(items):
            return all(map(nullable, items))
        case nodes.Alternate(items):
            return any(map(nullable, items))
        case nodes.Repeat(item, low, _, _):
            return low == 0 or nullable(item)
        case nodes.Exclude(item) | nodes.Within(item, _):
            return nullable(item)
    return True


def _leading(node: nodes.Node, backward: bool = False) -> list[nodes.Node]:
    """Negations that may have no row of the match before them (``backward``: behind them)."""
    if isinstance(node, nodes.Not):
        return [node]
    if isinstance(node, nodes.Concat):
        out = []
        for item in reversed(node.items) if backward else node.items:
            out += _leading(item, backward)
            if not nullable(item):
                break
        return out
    return [n for child in node.children() for n in _leading(child, backward)]


def _trailing(node: nodes.Node) -> list[nodes.Node]:
    return _leading(node, backward=True)


def _fail(clause: MatchClause, span: Span, error_class: str, message: str) -> ClauseError:
    return error_at(clause.text, span.start, span.end, error_class, message, SEMANTIC)
