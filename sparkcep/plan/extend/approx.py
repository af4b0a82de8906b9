"""APPROX k: costs and report of approximate matches (LANGUAGE section 5; ACEP, VLDB 2016, Definition 1).

``plan/build`` calls it.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm

from sparkcep.clause import nodes
from sparkcep.clause.expressions import Expr
from sparkcep.clause.tokens import Span
from sparkcep.clause.tree import NEXT_ROW, MatchClause
from sparkcep.errors import UNSUPPORTED, ClauseError, offered
from sparkcep.plan.constants import number
from sparkcep.plan.facts import least, tree_of, trees_of, variables_in
from sparkcep.plan.limits import MAX_COST
from sparkcep.plan.records import Approx

PROXY, PER_ERROR, ALL, BUNDLES = "PROXY", "PER ERROR", "ALL", "BUNDLES"
EXTRA = "EXTRA"
_REPORTS = {PER_ERROR: "PROXY MATCHES PER ERROR", BUNDLES: "MATCH BUNDLES", "HISTORY": "MATCH HISTORY"}
BUNDLE_LEAVES = ("bundle_start", "bundle_end", "bundle_size")
BUDGET_LEAVES = ("complete", "left_out", "allowed", "coverage")


def check_approx(clause: MatchClause) -> None:
    """Raises ClauseError for an APPROX that cannot apply, at its place."""
    approx = clause.approx
    assert approx is not None
    if (k := _number(clause, approx.k)) is None or k < 0:
        raise _fail(clause, approx.k.span, f"APPROX takes a number of errors, 0 or more, not {approx.k.span.of(clause.text)}")
    selection = clause.selection
    if selection is not None and (selection.report == "FIRST" or (selection.report == "ALL" and approx.report in (PROXY, PER_ERROR, BUNDLES))):
        raise _fail(
            clause, selection.span,
            "with APPROX, the report follows APPROX k: PROXY MATCHES [PER ERROR], ALL MATCHES or MATCH BUNDLES. Take the report out of EVENT SELECTION",
        )
    if nodes.contains(clause.pattern, nodes.Conjunct):
        _check_conjunction(clause)
    if clause.skip is not None and clause.skip.mode != NEXT_ROW:
        raise _fail(clause, clause.skip.span, "with APPROX, AFTER MATCH SKIP can only be TO NEXT ROW. Leave it out")
    if report(clause) == BUNDLES and clause.window is None:
        raise _fail(clause, approx.span, "MATCH BUNDLES groups match points at most a window apart. Add WINDOW")
    weights = _weights(clause)
    names, pattern = tree_of(clause.pattern)
    cheapest = least(pattern, lambda variable: weights.get(names[variable].lower(), Fraction(1)), sum)
    if cheapest == 0:
        raise _fail(clause, approx.span, "APPROX needs a pattern that does not match the empty sequence")
    if k >= cheapest:
        raise _fail(
            clause, approx.k.span,
            f"with {_text(k)} errors allowed, all rows may be missing: a missing shortest match costs only {_text(cheapest)}. Allow fewer errors than that",
        )
    unit = _scale(k, weights)
    if max(k, *weights.values(), Fraction(1)) * unit > MAX_COST:
        raise _fail(clause, approx.span, "the costs of APPROX have too many digits. Use rounder numbers")


def _check_conjunction(clause: MatchClause) -> None:
    """Raises ClauseError for a part of a pattern or an option that APPROX with ``&`` does not have."""
    approx = clause.approx
    assert approx is not None

    def unsupported(span: Span, message: str) -> ClauseError:
        return clause.error(span, "APPROX", message, UNSUPPORTED)

    for node in nodes.walk(clause.pattern):
        if isinstance(node, nodes.Conjunct) and node is not clause.pattern:
            message = "with APPROX, a conjunction & must be the whole pattern, as in PATTERN (A B & C). Write the other parts into its sides"
            raise unsupported(node.span, message)
    if clause.selection is not None and clause.selection.strategy == "NEXT":
        message = "APPROX with a conjunction & needs SKIP TILL ANY MATCH. Write that, or leave EVENT SELECTION out"
        raise unsupported(clause.selection.span, message)
    if clause.top is not None:
        raise unsupported(approx.span, "APPROX with a conjunction & cannot be ranked by TOP. Report ALL MATCHES and order these in a query above")
    if approx.budget is not None:
        raise unsupported(approx.budget.span, "APPROX with a conjunction & cannot have a BUDGET. Leave BUDGET out")
    if approx.report not in (None, PROXY, ALL):
        message = f"APPROX with a conjunction & reports PROXY MATCHES or ALL MATCHES, not {_REPORTS[approx.report]}"
        raise unsupported(approx.span, message)


def report(clause: MatchClause) -> str:
    """The report of a clause: PROXY, PER ERROR (a variant of it), ALL or BUNDLES."""
    asked = clause.approx.report if clause.approx else None
    written = clause.selection.report if clause.selection else None
    return asked or (ALL if written == "ALL" or clause.top else PROXY)


def approx_of(clause: MatchClause, names: tuple[str, ...]) -> Approx:
    """The costs of a checked clause, for these variables."""
    assert clause.approx is not None
    weights = _weights(clause)
    k = _number(clause, clause.approx.k)
    assert k is not None
    unit = _scale(k, weights)

    def cost(name: str, default: int) -> int:
        return int(weights.get(name, Fraction(default)) * unit)

    return Approx(
        report(clause), unit, int(k * unit), tuple(cost(v.lower(), 1) for v in names), cost(EXTRA, 1),
        tuple(cost(f"~{v.lower()}", 0) for v in names),
    )


def _number(clause: MatchClause, expr: Expr) -> Fraction | None:
    return number(expr, clause.text, clause.parameters)


def _scale(k: Fraction, weights: dict[str, Fraction]) -> int:
    return lcm(k.denominator, *(w.denominator for w in weights.values()))


def _name_of(clause: MatchClause, name: str, weight: Expr) -> Span:
    """The place of a weight's name, directly before the weight."""
    name = name.removeprefix("~")
    start = clause.text.rfind(name, 0, weight.span.start)
    return weight.span if start < 0 else Span(start, start + len(name))


def _weights(clause: MatchClause) -> dict[str, Fraction]:
    """The written weights, by lower-case variable, ``~`` and negated variable, or EXTRA. Raises ClauseError."""
    approx = clause.approx
    assert approx is not None
    names, pattern, groups = trees_of(clause.pattern)
    negated, taken = ({v.lower() for i, v in enumerate(names) if variables_in(pattern, kind) >> i & 1} for kind in ("not", "var"))
    negated -= {names[group.variable].lower() for group in groups}  # a negated group forbids a match, not a row
    strict = clause.selection is not None and clause.selection.strategy == "STRICT"
    found: dict[str, Fraction] = {}
    for name, weight in approx.weights:
        value = _number(clause, weight)
        if value is None or value <= 0:
            raise _fail(clause, weight.span, f"the weight of {name} must be a number above 0, not {weight.span.of(clause.text)}")
        key = name.lower()
        if name.startswith("~"):
            if key[1:] not in negated:
                raise _fail(clause, _name_of(clause, name, weight), f"{name} is not in PATTERN, so it cannot have a weight{offered(name[1:], names)}")
        elif key in taken:
            pass
        elif name.upper() == EXTRA:
            key = EXTRA
            if not strict:
                raise _fail(
                    clause, weight.span,
                    "EXTRA is the cost of a row that no variable takes, which only STRICT CONTIGUITY counts. "
                    "Add EVENT SELECTION STRICT CONTIGUITY, or leave EXTRA out",
                )
        else:
            if key in negated:
                hint = f"Write ~{name} for the cost of a row that it forbids"
            else:
                hint = f"Give the weight to a variable of PATTERN, or to EXTRA{offered(name, names)}"
            raise _fail(clause, _name_of(clause, name, weight), f"{name} is not in PATTERN where a row could be missing. {hint}")
        if key in found:
            raise _fail(clause, weight.span, f"{name} has two weights")
        found[key] = value
    return found


def _text(number: Fraction | int) -> str:
    return str(number.numerator) if number.denominator == 1 else f"{float(number):g}"


def _fail(clause: MatchClause, span: Span, message: str) -> ClauseError:
    return clause.error(span, "APPROX", message)
