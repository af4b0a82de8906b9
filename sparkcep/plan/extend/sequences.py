"""SEQUENCE: named parts of a pattern with windows and preferences of their own (CPR, 2011, sections 1 and 3.1).

``plan/build`` calls it. The matches of a clause with sequences are those of the pattern with each name replaced by the sequence's
pattern. So the rest of the planner sees a pattern without sequences, and the names as sets of variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from sparkcep.clause import nodes
from sparkcep.clause.expressions import Expr
from sparkcep.clause.tokens import Span
from sparkcep.clause.tree import MatchClause, Preference, Sequence, Subset
from sparkcep.errors import SEMANTIC, ClauseError, offered, position
from sparkcep.plan import options
from sparkcep.plan.constants import number
from sparkcep.plan.facts import branches, nullable, tree_of, variables_in
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Moving, walk
from sparkcep.plan.scope import ENDINGS, SCORE_CALL, NamedSequence, Scope

_NOT_AROUND = {nodes.Not: "~{0}", nodes.Permute: "PERMUTE({0}, ...)", nodes.Exclude: "{{- {0} -}}"}


class _Use(NamedTuple):
    """A place of a sequence's name in PATTERN, with the nodes around it, outermost first."""

    node: nodes.Var
    around: tuple[nodes.Node, ...]


def replaced(clause: MatchClause) -> MatchClause:
    """The clause with each sequence's name in PATTERN replaced by its pattern.

    Without a PREF of the clause, the PREF of sequences becomes ``PREF SEQUENCES``. Raises ClauseError for a wrong sequence.
    """
    if not clause.sequences:
        if clause.pref is not None and clause.pref.sequences:
            raise _fail(clause, clause.pref.span, "PREF SEQUENCES combines the scores of sequences. Write SEQUENCE s AS (...) PREF ... before PATTERN", "PREF")
        return clause
    _check_beside(clause)
    _check_names(clause)
    known = {sequence.name.lower(): sequence for sequence in clause.sequences}
    for sequence in clause.sequences:
        _check_uses(clause, sequence, [use for use in _uses(clause.pattern) if use.node.name.lower() == sequence.name.lower()])
    for define in clause.defines:
        if define.variable.lower() in known:
            raise _fail(clause, define.span, f"{define.variable} is a sequence, and only variables have conditions. Write conditions for the variables of {define.variable}")
    pref = clause.pref
    if pref is None and any(sequence.pref for sequence in clause.sequences):
        pref = Preference((), None, sequences=True, span=next(s.pref.span for s in clause.sequences if s.pref))
    return replace(clause, pattern=_with_patterns(clause.pattern, known), pref=pref)


def without_sequences(clause: MatchClause) -> MatchClause:
    """The clause with the patterns of its sequences in PATTERN, and the sequences as subsets, without their preferences."""
    members = [{node.name.lower(): node for node in nodes.walk(sequence.pattern) if isinstance(node, nodes.Var)} for sequence in clause.sequences]
    subsets = [Subset(sequence.name, tuple(of.values()), sequence.span) for sequence, of in zip(clause.sequences, members)]
    return replace(replaced(clause), sequences=(), subsets=(*clause.subsets, *subsets))


def _with_patterns(node: nodes.Node, known: dict[str, Sequence]) -> nodes.Node:
    if isinstance(node, nodes.Var):
        sequence = known.get(node.name.lower())
        if sequence is None:
            return node
        spanned = sequence.size is not None and sequence.step is None
        return nodes.Within(sequence.pattern, sequence.size, sequence.rows, span=sequence.span) if spanned else sequence.pattern
    if hasattr(node, "items"):
        return replace(node, items=tuple(_with_patterns(item, known) for item in node.items))
    return replace(node, item=_with_patterns(node.item, known)) if hasattr(node, "item") else node


def _uses(node: nodes.Node, around: tuple[nodes.Node, ...] = ()) -> Iterator[_Use]:
    if isinstance(node, nodes.Var):
        yield _Use(node, around)
    for child in node.children():
        yield from _uses(child, (*around, node))


# -- checks -----------------------------------------------------------------------------------------------------------


def _fail(clause: MatchClause, span: Span, message: str, error_class: str = "SEQUENCE") -> ClauseError:
    return clause.error(span, error_class, message, SEMANTIC)


def _check_beside(clause: MatchClause) -> None:
    """Raises ClauseError for an option that cannot be combined with SEQUENCE."""
    span = clause.sequences[0].span
    for words, found, instead in (
        ("AUTOMATON", clause.automaton, "Write PATTERN"),
        ("CHANGES IN", clause.changes, "Leave out one of them"),
        ("APPROX", clause.approx, "A row that is missing cannot be scored. Leave out APPROX"),
    ):
        if found is not None:
            raise _fail(clause, span, f"SEQUENCE cannot be combined with {words}. {instead}")
    for measure in clause.measures:
        for node in measure.expr.walk():
            if node.op == "call" and node.value in ENDINGS:
                raise _fail(clause, node.span, f"{node.value}() summarizes many matches, so it cannot be combined with SEQUENCE. Write the patterns of the sequences in PATTERN")


def _check_names(clause: MatchClause) -> None:
    """Raises ClauseError for names that mean two things."""
    known: dict[str, Sequence] = {}
    taken: dict[str, Sequence] = {}
    subsets = {subset.name.lower() for subset in clause.subsets}
    for sequence in clause.sequences:
        if sequence.name.lower() in known:
            raise _fail(clause, sequence.name_span, f"the sequence {sequence.name} is written twice. Give one of them another name")
        if sequence.name.lower() in subsets:
            raise _fail(clause, sequence.name_span, f"{sequence.name} is a SUBSET, too. Give the sequence another name")
        known[sequence.name.lower()] = sequence
    outside = {node.name.lower() for node in nodes.walk(clause.pattern) if isinstance(node, nodes.Var)} - known.keys()
    for sequence in clause.sequences:
        for node in nodes.walk(sequence.pattern):
            if not isinstance(node, nodes.Var):
                continue
            name = node.name.lower()
            if name in known:
                if name == sequence.name.lower():
                    raise _fail(clause, node.span, f"{node.name} is a sequence and a variable. Give the sequence another name")
                raise _fail(clause, node.span, f"the sequence {node.name} is inside the sequence {sequence.name}. Put names together in PATTERN")
            other = taken.setdefault(name, sequence)
            if other is not sequence:
                raise _fail(clause, node.span, f"variable {node.name} is in {other.name} and in {sequence.name}. Give one of them another name")
            if name in outside:
                raise _fail(clause, node.span, f"variable {node.name} is in {sequence.name} and elsewhere in PATTERN. Give one of them another name")
        if nullable(tree_of(sequence.pattern)[1]):
            raise _fail(clause, sequence.pattern.span, f"{sequence.name} may be empty, but a sequence takes a row at least. Write {sequence.name}? in PATTERN")
        _check_objective_names(clause, sequence)


def _check_objective_names(clause: MatchClause, sequence: Sequence) -> None:
    seen: set[str] = set()
    for name, span in zip(sequence.pref.names, sequence.pref.name_spans) if sequence.pref else ():
        if name is not None and name.lower() in seen:
            raise _fail(clause, span, f"two objectives of {sequence.name} are called {name}. Give one of them another name")
        seen |= {name.lower()} if name is not None else set()


def _check_uses(clause: MatchClause, sequence: Sequence, uses: list[_Use]) -> None:
    """Raises ClauseError unless a sequence is in PATTERN exactly once, where it takes part at most once."""
    name = sequence.name
    if not uses:
        raise _fail(clause, sequence.name_span, f"sequence {name} is not in PATTERN. Put {name} there, or take the SEQUENCE out")
    if len(uses) > 1:
        raise _fail(clause, uses[1].node.span, f"sequence {name} is twice in PATTERN. Write a second SEQUENCE with other variables")
    for node in reversed(uses[0].around):
        if isinstance(node, nodes.Repeat) and node.max != 1:
            quantifier = nodes.quantifier(node.min, node.max)
            raise _fail(clause, node.span, f"{name}{quantifier} repeats a sequence, and its scores would be several. Write the quantifier inside SEQUENCE {name} AS (...)")
        if type(node) in _NOT_AROUND:
            raise _fail(clause, node.span, f"{_NOT_AROUND[type(node)].format(name)}: a sequence must take part as a whole. Write its pattern there")


def check_objectives(clause: MatchClause, scope: Scope) -> None:
    """Raises ClauseError for an objective of a sequence that names other variables, and for an objective in DEFINE.

    Also checks WEIGHTS, and a product of the sequences' scores.
    """
    for sequence in scope.sequences.values():
        for _, expr in sequence.pref.objectives if sequence.pref is not None else ():
            _check_own(clause, scope, sequence, expr)
    for define in clause.defines:
        for node in define.condition.walk():
            if scope.objective(node) is not None:
                raise _fail(clause, node.span, f"{node.span.of(clause.text)} is an objective, which only a finished match has, so DEFINE cannot use it. Use values of rows")
    pref = clause.pref
    if pref is not None and pref.sequences:
        scored = [sequence for sequence in scope.sequences.values() if sequence.pref is not None]
        if not scored:
            raise _fail(clause, pref.span, "PREF SEQUENCES combines the preferences of sequences, and none has one. Write SEQUENCE s AS (...) PREF MAX (...)", "PREF")
        if pref.combine == "PRODUCT" and any(goal == "MIN" for s in scored for goal, _ in s.pref.objectives):
            raise _fail(clause, pref.span, "COMBINE BY PRODUCT cannot be used with a MIN objective. Combine by SUM", "PREF")
        _check_weights(clause, scope, pref)


def _check_own(clause: MatchClause, scope: Scope, sequence: NamedSequence, expr: Expr) -> None:
    for node in expr.walk():
        named = scope.qualifier(node) if node.op in ("col", "star") else None
        label = node.args[0] if node.op == "call" and node.value in ("CLASSIFIER", SCORE_CALL) and node.args else None
        if label is not None and label.op == "col":
            named = scope.mask_of(label.value[0])
        if named is not None and named & ~sequence.mask:
            name = (label or node).value[0]
            raise _fail(clause, (label or node).span, f"PREF of {sequence.name} names {name}, which is not in {sequence.name}. Write the objective in the PREF of the clause, which does not directly follow a SEQUENCE", "PREF")
        if scope.objective(node) is not None or (node.op == "call" and node.value == SCORE_CALL):
            raise _fail(clause, node.span, f"PREF of {sequence.name} cannot use objectives and scores. Write the expression again, or move it to the PREF of the clause", "PREF")


def _check_weights(clause: MatchClause, scope: Scope, pref: Preference) -> None:
    seen: set[str] = set()
    for (name, weight), span in zip(pref.weights, pref.name_spans):
        sequence = scope.sequences.get(name.lower())
        if sequence is None:
            raise _fail(clause, span, f"WEIGHTS names {name}, which is not a sequence{offered(name, tuple(s.name for s in scope.sequences.values()))}", "PREF")
        if sequence.pref is None:
            raise _fail(clause, span, f"the weight of {name} has an effect only with a preference. Write PREF in SEQUENCE {name}, or take the weight out", "PREF")
        if name.lower() in seen:
            raise _fail(clause, span, f"WEIGHTS names {name} twice", "PREF")
        seen.add(name.lower())
        value = number(weight, clause.text, clause.parameters)
        if value is None or value <= 0:
            raise _fail(clause, weight.span, f"a weight is a constant number above 0, not {weight.span.of(clause.text)}", "PREF")
        if pref.combine == "PRODUCT":
            raise _fail(clause, span, "WEIGHTS only multiply a product by a constant. Leave WEIGHTS out, or combine by SUM", "PREF")


# -- names and windows ------------------------------------------------------------------------------------------------


def named(clause: MatchClause, plan: Plan, scope: Scope) -> dict[str, NamedSequence]:
    """The sequences by lower-case name, in the order of the clause."""
    required = _required(plan.pattern)
    found = {}
    for sequence in clause.sequences:
        variables = {node.name.lower() for node in nodes.walk(sequence.pattern) if isinstance(node, nodes.Var)}
        mask = sum(1 << scope.ids[name] for name in variables) & variables_in(plan.pattern, "var")
        found[sequence.name.lower()] = NamedSequence(sequence.name, mask, sequence.pref, not mask & required)
    return found


def _required(pattern: tuple) -> int:
    """The mask of the variables in parts of a pattern that every match passes."""
    if pattern[0] == "alt" or (pattern[0] == "repeat" and pattern.low == 0):
        return 0
    if pattern[0] == "var":
        return 1 << pattern[1]
    found = 0
    for part in pattern:
        found |= _required(part) if isinstance(part, tuple) else 0
    return found


def part_of(pattern: tuple, mask: int) -> tuple:
    """The part of a pattern that has exactly these variables."""
    found = next((part for part in walk(pattern) if variables_in(part, "var") == mask), pattern)
    while found[0] in ("repeat", "within"):
        found = found.item
    return found


def branches_within(pattern: tuple, sequence: NamedSequence) -> list:
    """The branches inside a sequence."""
    return branches(part_of(pattern, sequence.mask))


def check_updates(clause: MatchClause) -> None:
    """Raises ClauseError for an UPDATE that cannot apply."""
    for sequence in clause.sequences:
        step, size = sequence.step, sequence.size
        if step is None or size is None:
            continue
        window = clause.window
        if window is None or window.slide is None:
            raise _fail(clause, step.span, f"UPDATE moves the window of {sequence.name} with the windows of the clause. Add SLIDE after WINDOW")
        report = (options.selection(clause) or ("STRICT", "FIRST"))[1]
        if report == "FIRST":
            raise _fail(clause, step.span, "UPDATE cannot be combined with FIRST MATCH, because the first match would depend on the window. Write ALL MATCHES")
        kind = options.window_size(clause, window.size, window.rows)[0]
        for word, expr, rows in (("WITHIN", size, sequence.rows), ("UPDATE", step, sequence.step_rows)):
            if options.window_size(clause, expr, rows)[0] != kind:
                raise _fail(clause, expr.span, f"{word} of {sequence.name} must have the same unit as WINDOW, {window.size.span.of(clause.text)}{' ROWS' if window.rows else ''}")


def moving_of(clause: MatchClause, scope: Scope) -> tuple[Moving, ...]:
    """The windows that sequences move by UPDATE."""
    found = []
    for sequence in clause.sequences:
        if sequence.step is not None and sequence.size is not None:
            kind, size = options.window_size(clause, sequence.size, sequence.rows)
            step = options.window_size(clause, sequence.step, sequence.step_rows)[1]
            place = position(clause.text, sequence.size.span.start)
            found.append(Moving(scope.sequences[sequence.name.lower()].mask, kind, size, step, *place, sequence.size.span.of(clause.text)[:40]))
    return tuple(found)
