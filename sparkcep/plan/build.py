"""Planner: turns a clause into a plan by a list of passes, each with one task.

The rewriter calls :func:`make_plan`. A pass maps a :class:`Draft` to the next one and says when it is needed, so a clause never
meets the passes of options that it lacks. Every error that needs no types is raised here, with its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sparkcep.clause import nodes
from sparkcep.clause.expressions import Expr
from sparkcep.clause.tokens import Span, unquoted
from sparkcep.clause.tree import NEXT_ROW, ONE_ROW, PAST_LAST, WITH_UNMATCHED, MatchClause
from sparkcep.errors import LIMIT, SEMANTIC, SYNTAX, UNSUPPORTED, ClauseError, offered, position
from sparkcep.plan.constants import MARKER
from sparkcep.plan.extend.approx import ALL, approx_of, check_approx
from sparkcep.plan.extend.arcs import arcs_of, moment_column
from sparkcep.plan.extend.automaton import AutomatonMeasures, automaton_of, check_beside
from sparkcep.plan.extend.budget import (
    COLUMNS,
    HISTORY,
    HISTORY_COLUMN,
    budget_of,
    check_budget,
    fingerprint,
    history_of,
    history_text,
)
from sparkcep.plan.extend.changes import (
    changes_of,
    check_pattern_changes,
    compared_values,
    reported,
    reports_changes,
    reports_lists,
)
from sparkcep.plan.extend.score import check_ranking, ranking_of, with_branches, with_join
from sparkcep.plan.extend.sequences import check_objectives, check_updates, named, replaced
from sparkcep.plan.extend.unfinished import (
    check_unfinished,
    clock_columns,
    clock_matters,
    later_rows,
    unfinished_of,
    unread_clock_columns,
)
from sparkcep.plan.facts import distances, finished_in, trees_of, variables_in
from sparkcep.plan.limits import MAX_PERMUTE, MAX_VARIABLES
from sparkcep.plan.options import check_options, common_unit, selection, slide_of, windows
from sparkcep.plan.plan import Plan
from sparkcep.plan.prune import pruning
from sparkcep.plan.records import (
    ALL_ROWS,
    Bound,
    Computed,
    Condition,
    ConditionPlace,
    EqualKey,
    Key,
    LeafPlace,
    Letter,
    Order,
    Place,
    Skip,
    Word,
    has,
    masks_of,
)
from sparkcep.plan.scope import ENDINGS, PRIOR, STATUSES, Inputs, Scope, without_table
from sparkcep.plan.split.conditions import ConditionSplitter, looks_at_match, reads_labels
from sparkcep.plan.split.fallible import shielded
from sparkcep.plan.split.measures import MeasureSplitter
from sparkcep.settings import DEFAULT, Settings


@dataclass(frozen=True)
class Draft:
    """The state that passes hand on.

    Attributes:
        clause: the parsed clause.
        settings: the session's settings.
        qualifiers: lower-case names that may qualify the input's own columns: see ``tables`` of :class:`Scope`.
        plan: the plan so far.
        scope: the names of the clause.
        inputs: collects the input columns as expressions are split.
        splitter: splits conditions. The pass ``names`` creates it.
        measures: splits measures. The pass ``measures`` creates it.
    """

    clause: MatchClause
    settings: Settings
    qualifiers: frozenset[str]
    plan: Plan
    scope: Scope
    inputs: Inputs
    splitter: ConditionSplitter = field(default=None)
    measures: MeasureSplitter = field(default=None)

    def with_(self, **members) -> Draft:
        """A copy with these members of its plan replaced."""
        return replace(self, plan=replace(self.plan, **members))

    def error(self, span: Span, error_class: str, message: str, sqlstate: str = SEMANTIC) -> ClauseError:
        """An error at a place of the clause."""
        return self.clause.error(span, error_class, message, sqlstate)


class Pass(NamedTuple):
    """A step from a clause to its plan, and whether a draft needs it."""

    run: Callable[[Draft], Draft]
    wanted: Callable[[Draft], object] = lambda draft: True


def make_plan(clause: MatchClause, *, settings: Settings = DEFAULT, qualifiers: frozenset[str] = frozenset()) -> Plan:
    """Checks the clause and splits its expressions. Raises ClauseError at the place of a mistake.

    ``qualifiers``: lower-case names that may qualify the input's own columns: see ``tables`` of :class:`Scope`.
    """
    return drafted(clause, settings=settings, qualifiers=qualifiers).plan


def drafted(clause: MatchClause, *, settings: Settings = DEFAULT, qualifiers: frozenset[str] = frozenset()) -> Draft:
    """The finished draft of :func:`make_plan`: its plan, and the splitters, which can split further expressions."""
    draft = begun(clause, settings, qualifiers)
    for step in PASSES if clause.automaton is None else AUTOMATON_PASSES:
        if step.wanted(draft):
            draft = step.run(draft)
    return draft


def begun(clause: MatchClause, settings: Settings = DEFAULT, qualifiers: frozenset[str] = frozenset()) -> Draft:
    """The first draft: it has the pattern, and nothing is checked yet."""
    if clause.sequences or (clause.pref is not None and clause.pref.sequences):
        clause = replaced(clause)
    names, pattern, without = trees_of(clause.pattern, clause.text)
    ids = {name.lower(): i for i, name in enumerate(names)}
    plan = Plan(
        variables=names,
        pattern=pattern,
        without=without,
        rows=clause.rows,
        ansi=settings.ansi,
        zone=settings.zone,
        case_sensitive=settings.case_sensitive,
        precision_loss=settings.precision_loss,
        bounds=tuple(Bound(*bound) for bound in settings.bounds()),
        words=tuple(Word(unquoted(span.of(clause.text)), *position(clause.text, span.start), of) for span, of in clause.no_columns()),
        idle=settings.idle,
        place=Place(*position(clause.text, clause.pattern.span.start), clause.pattern.span.of(clause.text).split("\n")[0][:40]),
    )
    return Draft(clause, settings, qualifiers, plan, Scope(clause.text, ids, {}, names, qualifiers, clause.parameters, exact=settings.case_sensitive), Inputs())


# Pattern operators of other languages, and the replacement for each. Such a word is a variable only if it has a condition.
NO_VARIABLES = {
    "AND": "Write A & B for both in any order, or A B for one after the other",
    "OR": "Write A | B",
    "NOT": "Write ~B for no row of B, or a variable with the negated condition",
    "AS": "Name several variables in SUBSET, as in SUBSET S = (A, B)",
    "EVERY": "Leave it out: every match is reported, and AFTER MATCH SKIP TO NEXT ROW reports overlapping ones",
    "THEN": "Write A B for one row directly after the other",
    "PERMUTE": "Write PERMUTE(A, B)",
    "FOLLOWED": "Write A B, and EVENT SELECTION SKIP TILL NEXT MATCH if other rows may lie between them",
}


# -- names and keys ---------------------------------------------------------------------------------------------------


def options(draft: Draft) -> Draft:
    """Rejects options that cannot be combined."""
    clause = draft.clause
    if clause.unfinished is not None:
        check_unfinished(clause, clause.unfinished)
    check_options(clause)
    if clause.lifetime is not None:
        raise draft.error(clause.lifetime.span, "AUTOMATON", "LIFETIME TO needs an AUTOMATON. With PATTERN write WINDOW")
    if clause.changes is not None or clause.report is not None or clause.speculate is not None:
        check_pattern_changes(clause)
    if clause.approx is not None:
        check_approx(clause)
        if clause.approx.budget is not None or clause.approx.report == HISTORY:
            check_budget(clause)
    if clause.pref or clause.top or (clause.window and clause.window.slide):
        check_ranking(clause)
    if clause.sequences:
        check_updates(clause)
    return draft


def names(draft: Draft) -> Draft:
    """Rejects too many variables and wrong subsets. Resolves the subsets."""
    clause, ids = draft.clause, draft.scope.ids
    if len(ids) > MAX_VARIABLES:
        last = next(n for n in nodes.walk(clause.pattern) if isinstance(n, nodes.Var) and ids[n.name.lower()] == MAX_VARIABLES)
        raise draft.error(last.span, "TOO_MANY_VARIABLES", f"the pattern has more than {MAX_VARIABLES} row pattern variables", LIMIT)
    scope = replace(draft.scope, subsets=_subsets(draft, ids, "variable of PATTERN. A subset lists variables of the pattern"))
    if clause.sequences:
        sequences = named(clause, draft.plan, scope)
        scope = replace(scope, subsets=scope.subsets | {name: sequence.mask for name, sequence in sequences.items()}, sequences=sequences)
        check_objectives(clause, scope)
        scope = with_branches(clause, draft.plan, scope)
    finished = finished_in(draft.plan.pattern, draft.plan.without)
    standard = not (clause.selection or clause.window or clause.approx or clause.pref or clause.changes)
    fixed = distances(draft.plan.pattern) if standard and clause.order_by else {}
    return replace(draft, scope=scope, splitter=ConditionSplitter(scope, draft.inputs, bool(clause.order_by), finished, draft.settings.ansi, fixed))


def _subsets(draft: Draft, ids: Mapping[str, int], members: str) -> dict[str, int]:
    """The subsets as masks. ``members``: the kind of name that a subset may contain, for the error message."""
    clause = draft.clause
    subsets: dict[str, int] = {}
    for subset in clause.subsets:
        name = subset.name.lower()
        if name in ids:
            raise draft.error(subset.span, "SUBSET_NAME", f"{subset.name} is a row pattern variable. Give the subset another name")
        if name in subsets:
            raise draft.error(subset.span, "SUBSET_NAME", f"the subset {subset.name} is defined twice")
        mask = 0
        for member in subset.members:
            if member.name.lower() not in ids:
                raise draft.error(member.span, "UNKNOWN_VARIABLE", f"{member.name} is not a {members}{offered(member.name, draft.scope.variables)}")
            mask |= 1 << ids[member.name.lower()]
        subsets[name] = mask
    return subsets


def pattern(draft: Draft) -> Draft:
    """Rejects bad patterns.

    These are a PERMUTE that is too large, an exclusion that the clause's rows do not allow, and an operator of another language,
    which would be a variable that takes any row.
    """
    defined = {define.variable.upper() for define in draft.clause.defines}
    for node in nodes.walk(draft.clause.pattern):
        if isinstance(node, nodes.Concat) and "AS" not in defined:
            _check_named_groups(draft, node)
        if isinstance(node, nodes.Var) and (word := node.name.upper()) in NO_VARIABLES and word not in defined and node.span.of(draft.clause.text)[0] != "`":
            message = f"{node.name} is not an operator of row patterns, and DEFINE does not name a variable {node.name}. {NO_VARIABLES[word]}"
            raise draft.error(node.span, "PATTERN_WORD", message)
        if isinstance(node, nodes.Permute) and len(node.items) > MAX_PERMUTE:
            raise draft.error(node.span, "PERMUTE_TOO_LARGE", f"PERMUTE takes at most {MAX_PERMUTE} patterns", LIMIT)
        if isinstance(node, nodes.Exclude) and draft.clause.rows == WITH_UNMATCHED:
            raise draft.error(
                node.span, "EXCLUSION",
                "an exclusion {- -} cannot be used with WITH UNMATCHED ROWS. Use SHOW EMPTY MATCHES or OMIT EMPTY MATCHES",
            )
    return draft


def _check_named_groups(draft: Draft, node: nodes.Concat) -> None:
    """Rejects ``(A B) AS S1`` in a pattern: a group gets its name in SEQUENCE."""
    for group, word, name in zip(node.items, node.items[1:], node.items[2:]):
        if isinstance(word, nodes.Var) and isinstance(name, nodes.Var) and word.name.upper() == "AS" and word.span.of(draft.clause.text)[0] != "`":
            inner, name_of_group = group.span.of(draft.clause.text), name.span.of(draft.clause.text)
            message = f"AS does not name a group inside PATTERN. Write SEQUENCE {name_of_group} AS ({inner}) before PATTERN, and {name_of_group} here"
            raise draft.error(Span(group.span.start, name.span.end), "PATTERN_WORD", message)


def keys(draft: Draft) -> Draft:
    """Creates the input columns of PARTITION BY and ORDER BY."""
    clause = draft.clause

    def parts(expr: Expr, column: str, where: str) -> tuple[str, str, bool]:
        node = expr.bare()
        if node.op == "star":
            raise draft.error(expr.span, "NOT_A_ROW_EXPRESSION", f"{where} takes expressions, but {expr.span.of(clause.text)} means all columns. List the columns")
        name = node.value[-1] if node.op == "col" else node.value if node.op == "field" else MARKER.sub("?", expr.span.of(clause.text))
        # a column of the input under its own name, not a field of a struct, not an expression
        plain = node.op == "col" and len(without_table(node.value, draft.qualifiers)) == 1
        return name, draft.inputs.key(column, draft.scope.plain_text(expr, where)), plain

    partition = tuple(Key(*parts(e, f"__p{i}", "PARTITION BY")) for i, e in enumerate(clause.partition_by))
    order = []
    for i, item in enumerate(clause.order_by):
        name, column, plain = parts(item.expr, f"__o{i}", "ORDER BY")
        order.append(Order(name, column, item.descending, item.nulls_first, plain))
    return draft.with_(partition=partition, order=tuple(order), leaf_places=tuple(_stream_places(clause, order)))


def _stream_places(clause: MatchClause, order: list[Order]) -> Iterator[LeafPlace]:
    """Places for errors of streams: expressions of ORDER BY by their columns, ``$`` by its name, the clause's beginning by ""."""
    spans = [(item.column, asked.expr.span) for item, asked in zip(order, clause.order_by, strict=True)]
    spans += [("$", node.span) for node in nodes.walk(clause.pattern) if isinstance(node, nodes.End)][:1]
    begins = [*(expr.span for expr in clause.partition_by), *(item.expr.span for item in clause.order_by), clause.pattern.span]
    spans.append(("", min(begins, key=lambda span: span.start)))
    return (LeafPlace(name, *position(clause.text, span.start), span.of(clause.text).split("\n")[0][:40]) for name, span in spans)


# -- conditions and options -------------------------------------------------------------------------------------------


def conditions(draft: Draft) -> Draft:
    """Splits DEFINE into parts that Spark computes for each row and parts that read other rows."""
    return _split(draft, {})


def _split(draft: Draft, implied: Mapping[Span, str]) -> Draft:
    clause, ids = draft.clause, draft.scope.ids
    seen: set[str] = set()
    rows, found, places = {}, [], []
    for define in clause.defines:
        name = define.variable.lower()
        if name not in ids:
            subset = name in draft.scope.subsets
            hint = "A subset cannot have a condition" if subset else "Remove it from DEFINE, or add it to PATTERN"
            near = "" if subset else offered(define.variable, draft.scope.variables)
            raise draft.error(define.span, "UNKNOWN_VARIABLE", f"{define.variable} is defined but is not a variable of PATTERN. {hint}{near}")
        if name in seen:
            raise draft.error(define.span, "DUPLICATE_DEFINE", f"{define.variable} is defined twice. Join the conditions with AND")
        seen.add(name)
        local, others, spans = draft.splitter.split(define.condition, ids[name], implied)
        if local:
            rows[ids[name]] = local
        if others:
            found.append(Condition(ids[name], tuple(others)))
            for span in dict.fromkeys([define.condition.span, *spans]):
                places.append(ConditionPlace(ids[name], *position(clause.text, span.start), span.of(clause.text)[:40]))
    ordered = draft.splitter.ordered_inputs()
    texts = shielded(list(rows.values()), draft.settings.ansi, draft.scope.row_text)
    letters = tuple(Letter(variable, bit, text) for bit, (variable, text) in enumerate(zip(rows, texts)))
    return draft.with_(letters=letters, conditions=tuple(found), places=tuple(places), ordered_inputs=ordered, failing=draft.splitter.failing())


def conjunction(draft: Draft) -> Draft:
    """Rejects conditions that look up a row's label beside ``&``, because a row may have two labels there."""
    unclear = {condition.variable for condition in draft.plan.conditions if any(map(reads_labels, condition.trees))}
    for define in draft.clause.defines:
        if draft.scope.ids[define.variable.lower()] in unclear:
            raise draft.error(
                define.condition.span, "CONJUNCTION",
                "with a conjunction & a condition cannot use DISTINCT aggregates, or CLASSIFIER() of a neighbouring row. "
                "Compare the variables' values instead",
                UNSUPPORTED,
            )
    return draft


def event_selection(draft: Draft) -> Draft:
    """Sets which events may be skipped, which matches are reported, and the windows of their rows."""
    draft = draft.with_(selection=selection(draft.clause), windows=windows(draft.clause), slide=slide_of(draft.clause))
    if draft.clause.unfinished is None:
        return draft
    return draft.with_(unfinished=unfinished_of(draft.clause, draft.plan))


def costs(draft: Draft) -> Draft:
    """Sets the costs of missing and extra rows, and the number of candidates to try."""
    _check_apart(draft)
    approx = approx_of(draft.clause, draft.plan.variables)
    return draft.with_(approximate=approx._replace(budget=budget_of(draft.clause, draft.settings), history=history_of(draft.clause)))


def _check_apart(draft: Draft) -> None:
    """Rejects conditions of negated groups that name variables outside the group. APPROX may leave those variables out."""
    taken, ids = variables_in(draft.plan.pattern, "var"), draft.scope.ids
    for group in draft.plan.without:
        inside = variables_in(group.pattern)
        for define in draft.clause.defines:
            trees = next((c.trees for c in draft.plan.conditions if c.variable == ids[define.variable.lower()]), ())
            named = [mask for tree in trees for mask in masks_of(tree) if mask != ALL_ROWS]
            if inside >> ids[define.variable.lower()] & 1 and any(mask & taken for mask in named):
                message = f"with APPROX the condition of {define.variable} cannot name variables outside of {group.text}, which may be missing. Compare with constants, or leave APPROX out"
                raise draft.error(define.condition.span, "NEGATION", message, UNSUPPORTED)


# -- measures ---------------------------------------------------------------------------------------------------------


def measures(draft: Draft) -> Draft:
    """Splits MEASURES into leaves that the engine returns and expressions over them that Spark computes."""
    clause, plan = draft.clause, draft.plan
    splitter = MeasureSplitter(
        draft.scope, draft.inputs, one_row=clause.rows == ONE_ROW, approx=plan.approximate,
        window=plan.windows[0] if plan.windows else None,
        step=common_unit(plan.slide.step, plan.windows[0].size) if plan.slide else "",
        ranked=_ranked(clause), changes=reported(clause) if clause.changes is not None else None, identity=_identity(draft), ansi=draft.settings.ansi,
    )
    outputs = _outputs(draft, splitter) if clause.measures or not reports_changes(clause) else tuple(Computed(*output) for output in splitter.of_changes())
    if plan.approximate is not None and plan.approximate.report == HISTORY:
        outputs = tuple(map(Computed, COLUMNS, [f"'{fingerprint(plan.approximate.history)}'", *splitter.history()]))
    return replace(draft, measures=splitter).with_(outputs=outputs)


def _identity(draft: Draft) -> str:
    """The SQL text that identifies a row for MATCH_ID(), "" without CHANGES IN."""
    return compared_values(draft.clause, draft.scope, draft.plan.case_sensitive) if draft.clause.changes is not None else ""


def _ranked(clause: MatchClause) -> tuple[str, ...]:
    """The measures that PREF and TOP add."""
    of_lists = ("CHANGE",) if clause.top and reports_lists(clause) else ()
    return (*(("MATCH_SCORE",) if clause.pref or clause.top else ()), *(("MATCH_RANK",) if clause.top else ()), *of_lists)


def _outputs(draft: Draft, splitter: MeasureSplitter) -> tuple[Computed, ...]:
    clause, plan = draft.clause, draft.plan
    seen: set[str] = set()
    outputs = []
    for measure in clause.measures:
        key = measure.name if plan.case_sensitive else measure.name.lower()
        if key in seen:
            raise draft.error(measure.name_span, "DUPLICATE_MEASURE", f"the measure {measure.name} is defined twice")
        seen.add(key)
        for node in measure.expr.walk():
            if node.op == "call" and node.value == PRIOR:
                raise draft.error(node.span, "PRIOR", "PRIOR can be used only in DEFINE. A measure reads the finished match")
            if node.op == "call" and node.value in STATUSES and clause.unfinished is None:
                message = f"{node.value}() is a measure of unfinished matches. Add SHOW UNFINISHED MATCHES after ONE ROW PER MATCH or ALL ROWS PER MATCH"
                raise draft.error(node.span, "UNFINISHED", message, SYNTAX)
        outputs.append(Computed(measure.name, splitter.split(measure.expr)))
    return tuple(outputs)


def ranking(draft: Draft) -> Draft:
    """Sets how matches are scored and ranked."""
    return draft.with_(ranking=ranking_of(draft.clause, draft.plan, draft.measures))


def one_column(draft: Draft) -> Draft:
    """Rejects an output without columns. If all measures are constants, makes the engine return a column anyway."""
    if not draft.plan.outputs:
        start = draft.clause.span.start
        raise draft.error(
            Span(start, start + 20), "NO_OUTPUT_COLUMN",
            "ONE ROW PER MATCH without PARTITION BY and MEASURES would not return any column. Add MEASURES or ALL ROWS PER MATCH",
        )
    draft.measures.ensure_leaf()
    return draft


def leaves(draft: Draft) -> Draft:
    """Collects the leaves that MEASURES and the ranking need."""
    return draft.with_(leaves=draft.measures.leaves(), leaf_places=(*draft.plan.leaf_places, *draft.measures.leaf_places()), arrays=draft.measures.arrays(), aggregates=draft.measures.aggregates(), over_arrays=draft.measures.over_arrays())


def counting(draft: Draft) -> Draft:
    """Rejects measures that differ among the matches that MATCH_COUNT() or MATCH_GRAPH() puts into one output row."""
    clause, plan = draft.clause, draft.plan
    objectives = clause.pref.objectives if clause.pref else ()
    calls = [n for e in (*(m.expr for m in clause.measures), *(e for _, e in objectives)) for n in e.walk() if n.op == "call" and n.value in ENDINGS]
    at = next((n for n in calls if n.value == "MATCH_GRAPH"), calls[0])
    name = at.value
    if plan.sizing and not plan.graphing:
        return _sizing(draft, calls)
    if clause.approx or clause.pref or clause.top:
        raise draft.error(at.span, name, f"{name}() summarizes all matches that end at a row. Leave out APPROX, PREF and TOP")
    if not plan.reports_all or (clause.skip is not None and clause.skip.mode != NEXT_ROW):
        raise draft.error(at.span, name, f"{name}() needs ALL MATCHES with AFTER MATCH SKIP TO NEXT ROW. Add both")
    if clause.rows != ONE_ROW:
        raise draft.error(at.span, name, f"{name}() returns one row for each last row, so it needs ONE ROW PER MATCH")
    for _, spec in plan.leaves:
        of_last = spec.kind == "nav" and (spec.which, spec.mask, spec.logical) == ("L", ALL_ROWS, 0)
        if spec.kind not in ENDINGS.values() and not of_last:
            raise draft.error(
                at.span, name,
                f"{name}() can be combined only with values of the last row, such as LAST(ts), because its matches differ in all other rows",
            )
    return draft


def _sizing(draft: Draft, calls: list[Expr]) -> Draft:
    """Checks MATCH_COUNT() under APPROX, where it counts the match points that a match represents."""
    clause, at = draft.clause, calls[0]
    if clause.top or draft.plan.approximate.report == ALL:
        message = "MATCH_COUNT() with APPROX counts the matches that a proxy or a bundle represents. Write PROXY MATCHES or MATCH BUNDLES, without TOP"
        raise draft.error(at.span, at.value, message)
    if clause.pref and any(n.op == "call" and n.value == at.value for _, e in clause.pref.objectives for n in e.walk()):
        raise draft.error(calls[-1].span, at.value, "MATCH_COUNT() is not a value of one match, so PREF cannot use it. Take it out of PREF")
    return draft


_TO_A_ROW = ". Write PAST LAST ROW to resume after the match, TO NEXT ROW for its second row, or TO FIRST or TO LAST and a variable"
_INSTEAD = {"NEXT": ". Write TO NEXT ROW"} | dict.fromkeys(("ROW", "FIRST", "LAST", "END", "MATCH"), _TO_A_ROW)  # as other engines write it


def skip(draft: Draft) -> Draft:
    """Sets where the search resumes after a match."""
    written = draft.clause.skip
    if written is None:
        return draft.with_(skip=Skip(NEXT_ROW if draft.plan.reports_all else PAST_LAST, 0))
    if written.mode in (PAST_LAST, NEXT_ROW):
        return draft.with_(skip=Skip(written.mode, 0))
    mask = draft.scope.mask_of(written.target or "")
    if mask is None:
        raise draft.error(
            written.span, "UNKNOWN_VARIABLE",
            f"AFTER MATCH SKIP TO {written.target}: no row pattern variable or subset has this name{_INSTEAD.get(written.target.upper()) or draft.scope.offered(written.target)}",
        )
    return draft.with_(skip=Skip(written.mode, mask, Place(*position(draft.clause.text, written.span.start), written.span.of(draft.clause.text)[:40])))


# -- pruning by Spark, and ranking by the engine ----------------------------------------------------------------------


def ignored_rows(draft: Draft) -> Draft:
    """Lets Spark drop rows that no variable takes, and partition by columns that are equal in all rows of a match."""
    plan = draft.plan
    # an unfinished match ends with the last row of its partition, so its partitions stay whole
    agreeing = pruning.equal_columns(draft.clause, draft.splitter, plan) if plan.unfinished is None else []
    if agreeing:
        of_partition = {key.column for key in plan.partition}  # PARTITION BY has these keys already
        found = [EqualKey(draft.inputs.column(text), tests) for text, tests in agreeing]
        draft = draft.with_(equal_keys=tuple(key for key in found if key.column not in of_partition))
        draft = _split(draft, pruning.implied_tests(draft.clause, draft.splitter, plan, [text for text, _ in agreeing]))
    found = pruning.prefilter(draft.plan)
    return draft.with_(prefilter=(*found, *later_rows(draft.clause, draft.plan, draft.inputs.columns(), draft.scope)) if found else ())


def joins(draft: Draft) -> Draft:
    """Sets how a score that is not a sum may be ranked by a join."""
    return draft.with_(ranking=with_join(draft.clause, draft.plan, draft.measures))


def candidates(draft: Draft) -> Draft:
    """Lets Spark drop partitions that cannot hold a match, and rows far from all candidates."""
    found = pruning.candidates(draft.plan)
    return draft.with_(candidates=found, near=bool(found) and pruning.bounded_by_window(draft.plan))


def inputs(draft: Draft) -> Draft:
    """Collects the columns that Spark computes for each row."""
    columns, approx = draft.inputs.columns(), draft.clause.approx
    if approx is not None and approx.budget is not None and approx.budget.history is not None:
        used = approx.budget.history
        columns = (*columns, Computed(HISTORY_COLUMN, history_text(used.table.of(draft.clause.text), used.published)))
    if (shown := draft.plan.unfinished) is not None:
        read = shown.dated or clock_matters(draft.plan)
        columns = (*columns, *(clock_columns(draft.clause, draft.plan, draft.scope) if read else unread_clock_columns(draft.plan, columns)))
    return draft.with_(inputs=columns)


# -- automata ---------------------------------------------------------------------------------------------------------


def beside_automaton(draft: Draft) -> Draft:
    """Rejects options of a PATTERN, and sets WINDOW."""
    if draft.clause.unfinished is not None:
        check_unfinished(draft.clause, draft.clause.unfinished)
    check_beside(draft.clause)
    if draft.clause.pref or draft.clause.top:
        check_ranking(draft.clause)
    return draft.with_(windows=windows(draft.clause))


def automaton(draft: Draft) -> Draft:
    """Numbers states and registers, and splits the arcs' expressions."""
    found, letters, names, failing = automaton_of(draft.clause, draft.scope, draft.inputs, draft.settings.ansi)
    scope = replace(draft.scope, variables=names)
    if found.by_ways:  # arcs have names, like variables
        ids = {name.lower(): i for i, name in enumerate(names)}
        scope = replace(scope, ids=ids, subsets=_subsets(replace(draft, scope=scope), ids, "name of an arc. A subset lists names of arcs"))
    return replace(draft, scope=scope).with_(automaton=found, letters=letters, variables=names, failing=failing)


def arcs(draft: Draft) -> Draft:
    """Sets where arcs come from that are not written in the clause."""
    return draft.with_(arcs=arcs_of(draft.clause, draft.scope, draft.inputs, draft.plan.automaton, tuple(key.name for key in draft.plan.partition)))


def changes(draft: Draft) -> Draft:
    """Lets Spark number rows by arrival and by equality."""
    arrive = draft.plan.arcs is not None and bool(draft.plan.arcs.came)
    return draft.with_(changes=changes_of(draft.clause, draft.scope, draft.inputs, draft.plan.case_sensitive, arcs_arrive=arrive))


def automaton_measures(draft: Draft) -> Draft:
    """Splits MEASURES. Without MEASURES the columns of EMIT or the registers are the output."""
    clause = draft.clause
    arrived = moment_column(0) if draft.plan.arcs is not None and draft.plan.arcs.came else ""
    splitter = AutomatonMeasures(
        draft.scope, draft.inputs, draft.plan.automaton, one_row=clause.rows == ONE_ROW, changes=reported(clause, arrived), ranked=_ranked(clause),
        identity=_identity(draft), ansi=draft.settings.ansi,
    )
    outputs = _outputs(draft, splitter) if clause.measures else tuple(Computed(*output) for output in splitter.defaults())
    return replace(draft, measures=splitter).with_(outputs=outputs)


def _ignorable(draft: Draft) -> bool:
    return draft.settings.prefilter and not draft.plan.adjacent and pruning.ignorable(draft.plan)


def _joinable(draft: Draft) -> bool:
    plan = draft.plan
    if plan.ranking is None or not plan.ranking.top or plan.ranking.terms or plan.selection != ("ANY", "ALL"):
        return False
    looking = [tree for condition in plan.conditions for tree in condition.trees if looks_at_match(tree)]
    return all(tree[:2] == ("call", "=") for tree in looking)


PASSES = (
    Pass(options),
    Pass(names),
    Pass(pattern),
    Pass(keys),
    Pass(conditions, lambda draft: draft.clause.defines),
    Pass(conjunction, lambda draft: has(draft.plan.pattern, "and")),
    Pass(event_selection, lambda draft: selection(draft.clause) is not None),
    Pass(costs, lambda draft: draft.clause.approx),
    Pass(changes, lambda draft: draft.clause.changes),
    Pass(measures),
    Pass(ranking, lambda draft: draft.clause.pref or draft.clause.top),
    Pass(one_column, lambda draft: draft.clause.rows == ONE_ROW and not draft.plan.partition),
    Pass(leaves),
    Pass(counting, lambda draft: draft.plan.counting or draft.plan.sizing or draft.plan.graphing),
    Pass(skip),
    Pass(ignored_rows, _ignorable),
    Pass(joins, _joinable),
    Pass(candidates, lambda draft: draft.settings.prefilter and draft.plan.letters and draft.plan.changes is draft.plan.unfinished is None),
    Pass(inputs),
)
AUTOMATON_PASSES = (
    Pass(beside_automaton),
    Pass(keys),
    Pass(automaton),
    Pass(arcs),
    Pass(changes, lambda draft: draft.clause.changes),
    Pass(automaton_measures),
    Pass(ranking, lambda draft: draft.clause.pref or draft.clause.top),
    Pass(one_column, lambda draft: draft.clause.rows == ONE_ROW and not draft.plan.partition),
    Pass(leaves),
    Pass(inputs),
)
