"""The plan: variables resolved, options checked, every expression split into who computes what.

A :class:`Plan` is plain data (``to_json``/``from_json``): the argument of the table function. It holds

* ``inputs``: row expressions Spark computes, as (column name, SQL text over the input table);
* ``letters``: for each variable the row-local part of its condition, packed by Spark into bits of one integer;
* ``conditions``: for each variable the conjuncts that look at other rows, as small trees (see ``conditions.py``);
* ``leaves``: what the engine returns for MEASURES; ``outputs``: Spark SQL text over those leaves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType

from sparkcep.clause import nodes
from sparkcep.clause.lexer import Span, quote
from sparkcep.clause.tree import (
    NEXT_ROW,
    ONE_ROW,
    PAST_LAST,
    WITH_UNMATCHED,
    MatchClause,
)
from sparkcep.errors import LIMIT, SEMANTIC, UNSUPPORTED, ClauseError, error_at, position
from sparkcep.plan import checked
from sparkcep.plan.checked import MAX_PERMUTE, MAX_VARIABLES
from sparkcep.plan.costs import Approx, approx_of
from sparkcep.plan.define import ConditionSplitter, looks_at_match, reads_labels
from sparkcep.plan.equivalence import equal_columns, implied_tests
from sparkcep.plan.measures import MeasureSplitter
from sparkcep.plan.necessary import bounded_by_window, candidates
from sparkcep.plan.options import check_options, selection, windows
from sparkcep.plan.prefilter import ignorable, prefilter
from sparkcep.plan.scope import ALL_ROWS, ENDINGS, PRIOR, Inputs, Scope
from sparkcep.plan.score import Ranking, ranking_of, slide_of, with_join
from sparkcep.plan.window import common_unit
from sparkcep.settings import DEFAULT, Settings

LETTERS = "__letters"


_NAMED = re.compile(r"[\w.]{1,60}|`[^`]{1,60}`")
PLAN_HEAD = '{"variables":'  # how a plan's JSON begins


@dataclass(frozen=True)
class Plan:
    """See the module's docstring. All members are tuples, strings and numbers."""

    variables: tuple[str, ...]
    pattern: tuple
    rows: str
    skip: tuple  # (mode, bit mask of target variables)
    partition: tuple  # (output name, input column, whether it is a plain column of the input)
    order: tuple  # (output name, input column, descending, nulls first or None, whether plain)
    inputs: tuple  # (input column, SQL text)
    letters: tuple  # (variable id, bit, SQL text) of the row-local conditions
    conditions: tuple  # (variable id, (conjunct tree, ...))
    leaves: tuple  # (column, spec)
    outputs: tuple  # (name, SQL text over leaf columns and aggregates)
    places: tuple = ()  # (variable id, line, column, text) of its condition, for errors that need types
    ordered_inputs: tuple = ()  # (input column, SQL text with lag/lead over the clause's order)
    arrays: tuple = ()  # (column, SQL text over leaf columns) of the arrays whose elements Spark aggregates
    aggregates: tuple = ()  # (column, SQL text over one element of those arrays)
    ansi: bool = True
    case_sensitive: bool = False
    selection: tuple = ()  # (STRICT | NEXT | ANY, FIRST | ALL); empty: the exact engine's adjacent rows
    windows: tuple = ()  # (kind, size, order column, place) of WINDOW ("none" without one), then of each group's WITHIN
    prefilter: tuple = ()  # SQL conditions of which a row must fulfil one to reach the engine; empty: every row does
    bounds: tuple = ()  # (name, value) of the settings' bounds that are not the default
    place: tuple = ()  # (line, column, text) of PATTERN's row pattern, for errors that its size makes
    approx: tuple = ()  # members of pattern.approx.Approx
    slide: tuple = ()  # (kind, step) of the sliding windows whose matches are ranked
    rank: tuple = ()  # members of pattern.ranking.Ranking
    equal_keys: tuple = ()  # (input column, tests that say so) in which all rows of a match agree, beside those of ``partition``
    candidates: tuple = ()  # (variables, SQL condition) that a row of every match fulfils; empty where that may not part rows
    near: bool = False  # whether rows farther than WINDOW from all that fulfil a candidate may be dropped
    slice: str = ""  # the input column by which partitions are cut into slices of time (sql.slices); empty: they are whole
    format: int = checked.FORMAT
    made_by: str = checked.MADE_BY
    given: tuple = ()  # names of the output columns that something above the engine reads, in their order; empty: all of them

    @property
    def keys(self) -> tuple[str, ...]:
        """The input columns that cut partitions."""
        cut = [self.slice] if self.slice else []
        return (*(column for _, column, _ in self.partition), *(column for column, _ in self.equal_keys), *cut)

    @property
    def approximate(self) -> Approx | None:
        """The costs of approximate matches, where they are asked for."""
        return Approx(*self.approx) if self.approx else None

    @property
    def ranking(self) -> Ranking | None:
        """How matches are scored and ranked, where that is asked for."""
        return Ranking(*self.rank) if self.rank else None

    def moved(self, to: Callable[[int, int], tuple[int, int]]) -> Plan:
        """The same with its places, lines and columns, as ``to`` gives them."""
        places = tuple((variable, *to(line, column), text) for variable, line, column, text in self.places)
        windows = tuple((*window[:3], *to(*window[3:5]), window[5]) if window[3] else window for window in self.windows)
        ranking = self.ranking
        if ranking is not None and ranking.place:
            ranking = ranking._replace(place=(*to(*ranking.place[:2]), ranking.place[2]))
        return replace(self, place=(*to(*self.place[:2]), self.place[2]), places=places, windows=windows, rank=tuple(ranking or ()))

    def ranked_by_engine(self) -> Plan:
        """The same with ranks from the engine: what Spark would rank by is left out."""
        assert self.ranking is not None
        leaves = tuple((name, spec) for name, spec in self.leaves if spec not in (("vector",), ("mno",)))
        rank = (f"__l{len(self.leaves)}", ("rank",))
        return replace(self, leaves=(*leaves, rank), rank=tuple(self.ranking._replace(order=(), vector="", by_engine=True)))

    @property
    def counting(self) -> bool:
        """MATCH_COUNT(): the matches that end at a row are one output row."""
        return ("cnt",) in (spec for _, spec in self.leaves)

    @property
    def graphing(self) -> bool:
        """MATCH_GRAPH(): likewise, with the graph of those matches."""
        return ("graph",) in (spec for _, spec in self.leaves)

    @property
    def non_overlapping(self) -> bool:
        """ALL MATCHES in SASE+'s non-overlapping format: of each partition's matches the one that completes first."""
        return self.selection[1:] == ("ALL",) and self.skip[0] == PAST_LAST

    def to_json(self) -> str:
        """Compact JSON without the quotes, backticks and dollar signs SQL text could trip over."""
        text = json.dumps(asdict(self), separators=(",", ":"))
        return text.replace("'", "\\u0027").replace("`", "\\u0060").replace("$", "\\u0024")

    @staticmethod
    def from_json(text: str) -> Plan:
        """Raises ClauseError where ``text`` is no plan, or another version's."""
        try:
            members = json.loads(text)
        except (ValueError, RecursionError):
            raise checked.wrong("it cannot be read") from None
        checked.check_version(members, set(Plan.__dataclass_fields__))
        plan = Plan(**{k: _freeze(v) for k, v in members.items()})
        checked.check(plan)
        return plan

    def without_sql(self) -> Plan:
        """What the table function needs: the plan less the texts that Spark computes outside it."""
        return Plan(
            **{
                **{k: getattr(self, k) for k in self.__dataclass_fields__},
                "inputs": tuple((name, text if _NAMED.fullmatch(text) else "") for name, text in self.inputs),  # names are for errors
                "letters": tuple((v, b, "") for v, b, _ in self.letters),
                "ordered_inputs": tuple((name, "") for name, _ in self.ordered_inputs),
                "outputs": (),
                "prefilter": (),
                "candidates": (),
                "near": False,
                "equal_keys": tuple((name, ()) for name, _ in self.equal_keys),
                "arrays": (),
                "aggregates": (),
                # the objectives that are leaves, whose types the engine knows
                "rank": self.rank and (tuple(t for t in self.rank[0] if t in dict(self.leaves)), "", *self.rank[2:4], (), *self.rank[5:]),
            }
        )


def _freeze(value):
    return tuple(_freeze(v) for v in value) if isinstance(value, list) else value


def make_plan(
    clause: MatchClause, *, settings: Settings = DEFAULT, qualifiers: frozenset[str] = frozenset()
) -> Plan:
    """Checks the clause and splits its expressions. Raises ClauseError with the position of what is wrong.

    ``qualifiers``: lower-case names that may qualify the input's own columns (its table name or alias).
    """
    check_options(clause)
    variables, ids = _variables(clause)
    scope = Scope(clause.text, ids, _subsets(clause, ids), tuple(variables), qualifiers)
    _check_pattern(clause, clause.pattern)
    inputs = Inputs()
    partition = _keys(clause, inputs, scope, qualifiers)
    order = _order(clause, inputs, scope, qualifiers)
    splitter = ConditionSplitter(scope, inputs, bool(clause.order_by), _finished(clause.pattern, ids))
    letters, conditions = _defines(clause, ids, splitter)
    _check_conjoined(clause, ids, conditions)
    selected, bounded = selection(clause), windows(clause)
    approx = approx_of(clause, tuple(variables))
    slide = slide_of(clause)
    measures = MeasureSplitter(
        scope, inputs, one_row=clause.rows == ONE_ROW, approx=approx, timed=bounded[0][2] if bounded else "", step=common_unit(slide[1], bounded[0][1]) if slide[1] else "",
        ranked=(*(("MATCH_SCORE",) if clause.pref or clause.top else ()), *(("MATCH_RANK",) if clause.top else ())),
    )
    outputs = _measures(clause, measures, settings.case_sensitive)
    local = {v: text for v, _, text in letters}
    ranking = ranking_of(clause, measures, bounded[0] if bounded else (), key_texts(partition, clause.rows), local)
    if clause.rows == ONE_ROW and outputs and not partition:
        measures.ensure_leaf()  # constants alone: the table function still has to return a row for each match
    if clause.rows == ONE_ROW and not outputs and not partition:
        raise error_at(
            clause.text,
            clause.span.start,
            clause.span.start + 20,
            "NO_OUTPUT_COLUMN",
            "ONE ROW PER MATCH without PARTITION BY and MEASURES has no output column; add MEASURES or ALL ROWS PER MATCH",
            SEMANTIC,
        )
    _check_counting(clause, measures.leaves())
    skip = _skip(clause, scope)
    tree = _tree(clause.pattern, ids, [n for n in nodes.walk(clause.pattern) if isinstance(n, nodes.Within)])
    # positions that are compared across partitions count every row
    overall = clause.top is not None and clause.top.scope == "OVERALL"
    sparing = settings.prefilter and not overall and ignorable(
        tree, selected, bounded, clause.rows, conditions, measures.leaves(), splitter.ordered_inputs()
    )
    agreeing = equal_columns(clause, splitter, skip[0], settings.case_sensitive, approx) if sparing else []
    equal_keys = _equal_keys(agreeing, partition, inputs)
    if agreeing:
        implied = implied_tests(clause, splitter, [text for text, _ in agreeing], settings.case_sensitive, approx)
        letters, conditions = _defines(clause, ids, splitter, implied)
    if ranking and selected == ("ANY", "ALL") and not any(looks_at_match(c) for _, conjuncts in conditions for c in conjuncts):
        ranking = with_join(ranking, clause, measures, local)
    rare = candidates(tree, letters, clause.rows, approx is not None) if settings.prefilter else ()
    return Plan(
        variables=tuple(variables),
        pattern=tree,
        rows=clause.rows,
        skip=skip,
        partition=partition,
        order=order,
        inputs=inputs.columns(),
        letters=letters,
        conditions=conditions,
        leaves=measures.leaves(),
        outputs=outputs,
        places=tuple(
            (ids[d.variable.lower()], *position(clause.text, d.condition.span.start), d.condition.span.of(clause.text)[:40])
            for d in clause.defines
            if any(v == ids[d.variable.lower()] for v, _ in conditions)
        ),
        ordered_inputs=splitter.ordered_inputs(),
        arrays=measures.arrays(),
        aggregates=measures.aggregates(),
        ansi=settings.ansi,
        case_sensitive=settings.case_sensitive,
        selection=selected,
        windows=bounded,
        prefilter=prefilter(tuple(variables), letters) if sparing else (),
        bounds=settings.bounds(),
        equal_keys=equal_keys,
        candidates=rare,
        near=bool(rare) and bounded_by_window(
            tree, bounded, conditions, measures.leaves(), splitter.ordered_inputs(), overall or bool(slide[0])
        ),
        place=(*position(clause.text, clause.pattern.span.start), clause.pattern.span.of(clause.text).split("\n")[0][:40]),
        approx=tuple(approx or ()),
        slide=slide if slide[0] else (),
        rank=tuple(ranking or ()),
    )


def _fail(clause: MatchClause, span: Span, error_class: str, message: str, sqlstate: str = SEMANTIC) -> ClauseError:
    return error_at(clause.text, span.start, span.end, error_class, message, sqlstate)


def _variables(clause: MatchClause) -> tuple[list[str], dict[str, int]]:
    variables: list[str] = []
    ids: dict[str, int] = {}
    for node in nodes.walk(clause.pattern):
        if isinstance(node, nodes.Var) and node.name.lower() not in ids:
            ids[node.name.lower()] = len(variables)
            variables.append(node.name)
            if len(variables) > MAX_VARIABLES:
                raise _fail(
                    clause,
                    node.span,
                    "TOO_MANY_VARIABLES",
                    f"the pattern has more than {MAX_VARIABLES} row pattern variables",
                    LIMIT,
                )
    return variables, ids


def _finished(pattern: nodes.Node, ids: dict[str, int]) -> int:
    """Mask of the variables whose conditions may see the finished match: negated ones and those in a side of ``&``."""
    mask = 0
    for node in nodes.walk(pattern):
        if isinstance(node, (nodes.Not, nodes.Conjunct)):
            for inner in nodes.walk(node):
                if isinstance(inner, nodes.Var):
                    mask |= 1 << ids[inner.name.lower()]
    return mask


def _subsets(clause: MatchClause, ids: dict[str, int]) -> dict[str, int]:
    out: dict[str, int] = {}
    for subset in clause.subsets:
        name = subset.name.lower()
        if name in ids:
            raise _fail(
                clause, subset.span, "SUBSET_NAME", f"{subset.name} is a row pattern variable; give the subset another name"
            )
        if name in out:
            raise _fail(clause, subset.span, "SUBSET_NAME", f"the subset {subset.name} is defined twice")
        mask = 0
        for member, span in subset.members:
            if member.lower() not in ids:
                raise _fail(
                    clause,
                    span,
                    "UNKNOWN_VARIABLE",
                    f"{member} is no variable of PATTERN; a subset lists variables of the pattern",
                )
            mask |= 1 << ids[member.lower()]
        out[name] = mask
    return out


def _check_pattern(clause: MatchClause, root: nodes.Node) -> None:
    for node in nodes.walk(root):
        if isinstance(node, nodes.Permute) and len(node.items) > MAX_PERMUTE:
            raise _fail(
                clause, node.span, "PERMUTE_TOO_LARGE", f"PERMUTE takes at most {MAX_PERMUTE} patterns", LIMIT
            )
        if isinstance(node, nodes.Exclude) and clause.rows == WITH_UNMATCHED:
            raise _fail(
                clause,
                node.span,
                "EXCLUSION",
                "an exclusion {- -} cannot be used with WITH UNMATCHED ROWS; use SHOW EMPTY MATCHES or OMIT EMPTY MATCHES",
            )


def _tree(node: nodes.Node, ids: dict[str, int], groups: list[nodes.Node]) -> tuple:
    match node:
        case nodes.Not(item):
            return ("not", ids[item.name.lower()])
        case nodes.Within(item, _):
            return ("within", _tree(item, ids, groups), 1 + next(i for i, g in enumerate(groups) if g is node))
        case nodes.Var(name):
            return ("var", ids[name.lower()])
        case nodes.Empty():
            return ("empty",)
        case nodes.Start():
            return ("start",)
        case nodes.End():
            return ("end",)
        case nodes.Concat(items):
            return ("cat", *(_tree(i, ids, groups) for i in items))
        case nodes.Alternate(items):
            return ("alt", *(_tree(i, ids, groups) for i in items))
        case nodes.Conjunct(items):
            return ("and", *(_tree(i, ids, groups) for i in items))
        case nodes.Permute(items):
            return ("permute", *(_tree(i, ids, groups) for i in items))
        case nodes.Exclude(item):
            return ("exclude", _tree(item, ids, groups))
        case nodes.Repeat(item, low, high, greedy):
            return ("repeat", _tree(item, ids, groups), low, high, greedy)
    raise TypeError(node)


def _output_name(expr, text: str) -> str:
    node = expr.bare()
    if node.op == "col":
        return node.value[-1]
    if node.op == "field":
        return node.value
    return expr.span.of(text)


def _is_plain(expr, qualifiers: frozenset[str]) -> bool:
    """Whether a key is a column of the input under its own name (not a field of a struct, not an expression)."""
    node = expr.bare()
    return node.op == "col" and (len(node.value) == 1 or (len(node.value) == 2 and node.value[0].lower() in qualifiers))


def _keys(clause: MatchClause, inputs: Inputs, scope: Scope, qualifiers: frozenset[str]) -> tuple:
    return tuple(
        (
            _output_name(e, clause.text),
            inputs.key(f"__p{i}", scope.plain_text(e, "PARTITION BY")),
            _is_plain(e, qualifiers),
        )
        for i, e in enumerate(clause.partition_by)
    )


def key_texts(partition: tuple, rows: str) -> tuple[str, ...]:
    """The keys as SQL texts over the table function's output."""
    return tuple(column if rows == ONE_ROW or not plain else quote(name) for name, column, plain in partition)


def _equal_keys(columns: list[tuple], partition: tuple, inputs: Inputs) -> tuple:
    """The columns in which all rows of a match agree, as inputs; those of PARTITION BY are keys already."""
    keys = [(inputs.column(text), tests) for text, tests in columns]
    return tuple(key for key in keys if key[0] not in {column for _, column, _ in partition})


def _order(clause: MatchClause, inputs: Inputs, scope: Scope, qualifiers: frozenset[str]) -> tuple:
    return tuple(
        (
            _output_name(s.expr, clause.text),
            inputs.key(f"__o{i}", scope.plain_text(s.expr, "ORDER BY")),
            s.descending,
            s.nulls_first,
            _is_plain(s.expr, qualifiers),
        )
        for i, s in enumerate(clause.order_by)
    )


def _defines(
    clause: MatchClause, ids: dict[str, int], splitter: ConditionSplitter, implied: Mapping[Span, str] = MappingProxyType({})
) -> tuple[tuple, tuple]:
    seen: set[str] = set()
    letters, conditions = [], []
    for define in clause.defines:
        name = define.variable.lower()
        if name not in ids:
            hint = (
                "a subset takes no condition of its own"
                if any(s.name.lower() == name for s in clause.subsets)
                else "take it out of DEFINE or add it to PATTERN"
            )
            raise _fail(
                clause, define.span, "UNKNOWN_VARIABLE", f"{define.variable} is defined but is no variable of PATTERN; {hint}"
            )
        if name in seen:
            raise _fail(clause, define.span, "DUPLICATE_DEFINE", f"{define.variable} is defined twice; join the conditions with AND")
        seen.add(name)
        row_text, others = splitter.split(define.condition, ids[name], implied)
        if row_text:
            letters.append((ids[name], len(letters), row_text))
        if others:
            conditions.append((ids[name], tuple(others)))
    return tuple(letters), tuple(conditions)


def _check_conjoined(clause: MatchClause, ids: dict[str, int], conditions: tuple) -> None:
    """Beside ``&`` a row may carry two labels, so conditions that look its label up cannot be evaluated."""
    if not nodes.contains(clause.pattern, nodes.Conjunct):
        return
    unclear = {v for v, trees in conditions if any(map(reads_labels, trees))}
    for define in clause.defines:
        if ids[define.variable.lower()] in unclear:
            raise _fail(
                clause, define.condition.span, "CONJUNCTION",
                "beside a conjunction & a condition cannot use DISTINCT aggregates, or CLASSIFIER() of a neighbouring row; "
                "compare the variables' values instead",
                UNSUPPORTED,
            )


def _measures(clause: MatchClause, splitter: MeasureSplitter, case_sensitive: bool) -> tuple:
    seen: set[str] = set()
    out = []
    for measure in clause.measures:
        key = measure.name if case_sensitive else measure.name.lower()
        if key in seen:
            raise _fail(clause, measure.name_span, "DUPLICATE_MEASURE", f"the measure {measure.name} is defined twice")
        seen.add(key)
        for node in measure.expr.walk():
            if node.op == "call" and node.value == PRIOR:
                raise _fail(clause, node.span, "PRIOR", "PRIOR stands in DEFINE only; a measure sees the finished match")
        out.append((measure.name, splitter.split(measure.expr)))
    return tuple(out)


def _check_counting(clause: MatchClause, leaves: tuple) -> None:
    """MATCH_COUNT() and MATCH_GRAPH() stand for all matches that end at a row, so nothing else may tell them apart."""
    specs = [spec for _, spec in leaves]
    own = [(kind,) for kind in ENDINGS.values()]
    if not any(spec in own for spec in specs):
        return
    at = next(n for m in clause.measures for n in m.expr.walk() if n.op == "call" and n.value in ENDINGS)
    name = at.value
    if clause.approx or clause.pref or clause.top:
        raise _fail(clause, at.span, name, f"{name}() stands for all matches that end at a row; leave APPROX, PREF and TOP out")
    if selection(clause)[1:] != ("ALL",) or (clause.skip is not None and clause.skip.mode != NEXT_ROW):
        raise _fail(clause, at.span, name, f"{name}() is of ALL MATCHES, with AFTER MATCH SKIP TO NEXT ROW; ask for them")
    if clause.rows != ONE_ROW:
        raise _fail(clause, at.span, name, f"{name}() gives one row for each last row, so it needs ONE ROW PER MATCH")
    if not all(spec in own or (spec[0] == "nav" and spec[1:4] == ("L", ALL_ROWS, 0)) for spec in specs):
        raise _fail(
            clause, at.span, name,
            f"beside {name}() only values of the last row can stand, such as LAST(ts): the matches it stands for differ in all others",
        )


def _skip(clause: MatchClause, scope: Scope) -> tuple:
    skip = clause.skip
    if skip is None:
        return (NEXT_ROW if selection(clause)[1:] == ("ALL",) else PAST_LAST, 0)
    if skip.mode in (PAST_LAST, NEXT_ROW):
        return (skip.mode, 0)
    mask = scope.mask_of(skip.target or "")
    if mask is None:
        raise _fail(
            clause,
            skip.span,
            "UNKNOWN_VARIABLE",
            f"AFTER MATCH SKIP TO {skip.target}: no row pattern variable or subset has this name",
        )
    return (skip.mode, mask)


__all__ = ["LETTERS", "Plan", "make_plan", "quote"]
