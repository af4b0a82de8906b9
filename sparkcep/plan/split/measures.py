"""Splits MEASURES: the engine returns leaves, and Spark computes the expressions around them.

An aggregate that the engine does not compute becomes a function of an array if Spark has one (``count(DISTINCT x)`` is the size of
``array_distinct``). For any other aggregate the splitter names arrays and the aggregates over their elements;
``sql/rewrite/rewrite`` puts these into the statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from sparkcep.clause.expressions import Expr, render, render_values
from sparkcep.clause.tokens import WORD, Span, Token, tokenize
from sparkcep.errors import UNSUPPORTED, position
from sparkcep.plan import records
from sparkcep.plan.extend.approx import BUDGET_LEAVES, BUNDLE_LEAVES, BUNDLES
from sparkcep.plan.extend.budget import history_leaves
from sparkcep.plan.extend.changes import Reported
from sparkcep.plan.options import MICROS, elapsed_micros
from sparkcep.plan.records import ALL_ROWS, CLASSIFIER_COLUMN
from sparkcep.plan.scope import (
    AGGREGATES,
    APPROXIMATE,
    CHANGED,
    ENDINGS,
    LIFETIMES,
    LIST_CHANGE,
    NAVIGATIONS,
    OF_MATCHES,
    RANDOM,
    RANKED,
    SCORE_CALL,
    SLIDING,
    STATUSES,
    Inputs,
    NamedSequence,
    Row,
    Scope,
)
from sparkcep.plan.split import fallible
from sparkcep.plan.split.combined import combined
from sparkcep.plan.split.conditions import aggregate_parts, skips_nulls, words_behind

ELEMENT, POSITION = "__e", "__pos"  # an array's element and its position, in the aggregates of the rewriter

_NATIVE = {
    "COUNT": "count", "SUM": "sum", "AVG": "avg", "MEAN": "avg", "MIN": "min", "MAX": "max",
    "ARRAY_AGG": "list", "COLLECT_LIST": "list",
    "BOOL_AND": "min", "EVERY": "min", "BOOL_OR": "max", "SOME": "max", "ANY": "max",
}
_BOOLEAN = frozenset(["BOOL_AND", "EVERY", "BOOL_OR", "SOME", "ANY"])
_ENDS = {"FIRST_VALUE": "F", "ANY_VALUE": "F", "LAST_VALUE": "L"}
_OVER_ARRAY = {
    "ARRAY_AGG": "{}", "COLLECT_LIST": "{}", "COLLECT_SET": "array_distinct({})", "COUNT": "CAST(size({}) AS BIGINT)",
    "MIN": "array_min({})", "MAX": "array_max({})",
}
_SAME_IF_DISTINCT = frozenset(["MIN", "MAX", "COLLECT_SET", *_BOOLEAN, *_ENDS])


@dataclass(frozen=True)
class _Aggregate:
    """An aggregate call. Only rows count for which all ``conditions`` are true. ``arguments`` is empty for ``*``."""

    call: Expr
    name: str
    mask: int
    arguments: tuple[Expr, ...]
    conditions: tuple[Expr, ...]
    distinct: bool
    final: bool

    @property
    def plain(self) -> bool:
        return not self.call.flags & {"ordered", "named"}


class MeasureSplitter:
    """Collects the leaves of one clause's measures.

    Args:
        scope: the names of the clause.
        inputs: collects the input columns.
        one_row: whether every leaf is FINAL.
        approx: the costs of approximate matches, if any.
        window: the window of the whole match, if any.
        step: the unit of SLIDE, "" without one.
        ranked: which of MATCH_SCORE, MATCH_RANK and CHANGE the clause's PREF and TOP provide.
        changes: REPORT CHANGES, if any.
        identity: with CHANGES IN, the SQL text that identifies a row for MATCH_ID().
        ansi: whether ANSI is on.
    """

    def __init__(
        self, scope: Scope, inputs: Inputs, *, one_row: bool, approx: records.Approx | None = None, window: records.Window | None = None, step: str = "",
        ranked: tuple[str, ...] = (), changes: Reported | None = None, identity: str = "", ansi: bool = True,
    ) -> None:
        self.scope = scope
        self.ansi = ansi
        self.inputs = inputs
        self.one_row = one_row
        self.approx = approx
        self.timed, self.of_times = (window.order, window.kind == MICROS) if window else ("", False)
        self.step = step
        self.ranked = ranked
        self.changes, self.identity = changes, identity
        self._of_list_change: set[str] = set()
        self._leaves: dict[records.LeafSpec, str] = {}
        self._totals: dict[str, Span] = {}  # calls of sums, averages, match counts, and aggregates over several output rows
        self._arrays: dict[str, str] = {}
        self._aggregates: dict[str, str] = {}
        self._over_arrays: dict[str, str] = {}

    def arrays(self) -> tuple[records.Computed, ...]:
        """The arrays that Spark aggregates, with their SQL text over leaves."""
        return tuple(records.Computed(name, text) for text, name in self._arrays.items())

    def aggregates(self) -> tuple[records.Computed, ...]:
        """The aggregates, with their SQL text over elements of the arrays."""
        return tuple(records.Computed(name, text) for text, name in self._aggregates.items())

    def over_arrays(self) -> tuple[records.Computed, ...]:
        """The functions of whole arrays for matches with several output rows, with their SQL text over leaves."""
        return tuple(records.Computed(name, text) for text, name in self._over_arrays.items())

    def leaves(self) -> tuple[records.Leaf, ...]:
        return tuple(records.Leaf(name, spec) for spec, name in self._leaves.items())

    def leaf_places(self) -> tuple[records.LeafPlace, ...]:
        """The places of sums, averages, match counts, and aggregates over several output rows."""
        text = self.scope.text
        return tuple(records.LeafPlace(name, *position(text, span.start), span.of(text).split("\n")[0][:40]) for name, span in self._totals.items())

    def ensure_leaf(self) -> None:
        """Makes the engine return a column even if no measure needs one."""
        if not self._leaves:
            self.match_number()

    def split_final(self, expr: Expr) -> str:
        """Like :meth:`split`, with every leaf FINAL: one value for the whole match."""
        one_row, self.one_row = self.one_row, True
        try:
            return self.split(expr)
        finally:
            self.one_row = one_row

    def match_number(self) -> str:
        return self._leaf(records.Plain("mno"))

    def vector(self) -> str:
        """The column with the positions of the match's rows."""
        return self._leaf(records.Plain("vector"))

    def history(self) -> list[str]:
        """The leaves of MATCH HISTORY."""
        return [self._leaf(spec) for spec in history_leaves(self.timed)]

    def approximate_errors(self) -> str:
        assert self.approx is not None
        return self._leaf(records.Errors("errors", self.approx.whole))

    def score(self, parts: int, terms: tuple[records.Term, ...]) -> str:
        """The column with the floating-point sum of an additive preference, NULL for other types."""
        return self._leaf(records.Score("score", parts, terms))

    def rows_of(self, mask: int) -> str:
        """The column with the number of the match's rows that some variables took."""
        return self._leaf(records.Aggregate("agg", "count", mask, None, None, True))

    def window_start(self) -> None:
        """Adds the column that distinguishes the matches of sliding windows."""
        self._leaf(records.WindowEdge(SLIDING["WINDOW_START"], self.timed, self.step))

    def list_changes(self) -> records.ListChanges | None:
        """Adds the columns that compare the lists of TOP k. Returns None without REPORT CHANGES."""
        if "CHANGE" not in self.ranked:
            return None
        start, until, end, next_end = (
            self._leaf(records.WindowEdge(kind, self.timed, self.step)) if kind[-5:] == "start" or "WINDOW_END" in self._of_list_change else ""
            for kind in ("window_start", "next_start", "window_end", "next_end")
        )
        return records.ListChanges(self._leaf(records.Plain("pairs")), self._leaf(records.Plain("emitted")), start, until, end, next_end)

    def duration(self) -> str:
        """SQL for the distance from the first row to the last, in the window's measure, or in rows without one."""
        if not self.timed:
            return f"element_at({self.vector()}, -1) - {self.vector()}[0]"
        ends = [self._leaf(records.Value("nav", which, ALL_ROWS, 0, 0, self.timed, True)) for which in "LF"]
        last, first = map(elapsed_micros, ends) if self.of_times else ends
        return f"abs({last} - {first})"

    def of_changes(self) -> list[tuple[str, str]]:
        """The default first measures of REPORT CHANGES as (name, leaf). Empty without REPORT CHANGES."""
        if self.changes is None:
            return []
        found = [(kind, self._leaf(records.OfChange(kind))) for kind in ("change", "change_number")]
        return [*found, ("punctuation", self._punctuation())] if self.changes.punctuated else found

    def split(self, expr: Expr) -> str:
        """The measure as SQL text over leaf columns."""
        scope = self.scope
        scope.check_semantics(expr)
        swaps: dict[Span, str] = {}
        for call in scope.match_functions(expr):
            for node in call.walk() if scope.sequences else ():
                if scope.objective(node) is not None:
                    name = node.span.of(scope.text)
                    raise scope.error(call, "SEQUENCE", f"{name} is one value for the whole match, so {call.value} does not apply to it. Write {name} alone")
            swaps[call.span] = self._call(call)
        for node in scope.columns_outside(expr, swaps):
            if node.op == "star":
                raise scope.error(node, "AGGREGATE", "* can be used only in count(*)")
            swaps[node.span] = self._column(node)
        return render_values(scope.text, expr, swaps)

    def _column(self, node: Expr) -> str:
        """The leaf for a column outside of all calls."""
        objective = self.scope.objective(node)
        if objective is not None:
            return f"({self.objective(*objective)})"
        mask = self.scope.qualifier(node)
        return self._value(Row("L", self.scope.whole if mask is None else mask), self.scope.row_text(node))

    def objective(self, sequence: NamedSequence, number: int) -> str:
        """SQL for an objective of a sequence, NULL if the sequence takes no part in the match."""
        assert sequence.pref is not None
        scope, self.scope = self.scope, self.scope.within(sequence)
        try:
            text = self.split_final(sequence.pref.objectives[number][1])
        finally:
            self.scope = scope
        return f"IF({self.rows_of(sequence.mask)} = 0, NULL, {text})" if sequence.optional else text

    def sequence_score(self, sequence: NamedSequence) -> str:
        """SQL for the score of a sequence, NULL if the sequence takes no part in the match."""
        assert sequence.pref is not None
        pref = sequence.pref
        absent = self.absent(sequence.absent) if len(pref.objectives) > 1 else [""]
        texts = [f"({self.objective(sequence, number)})" for number in range(len(pref.objectives))]
        return combined([goal for goal, _ in pref.objectives], texts, pref.combine, absent)

    def absent(self, owners: Iterable[Iterable[int]]) -> list[str]:
        """For each objective, SQL for when it is left out, "" for never. ``owners``: masks of the branches it belongs to."""
        return [" OR ".join(f"{self.rows_of(mask)} = 0" for mask in of) for of in owners]

    def _leaf(self, spec: records.LeafSpec) -> str:
        return self._leaves.setdefault(spec, f"__l{len(self._leaves)}")

    def _value(self, row: Row, text: str) -> str:
        column = self.inputs.column(text)
        return self._leaf(records.Value("nav", row.which, row.mask, row.logical, row.physical, column, row.final or self.one_row))

    def _punctuation(self) -> str:
        return self._leaf(records.PunctuationTime("punctuation", records.TIME))

    def _classifier(self, row: Row) -> str:
        return self._leaf(records.Classifier("cls", row.which, row.mask, row.logical, row.physical, row.final or self.one_row))

    def _call(self, call: Expr) -> str:
        scope, name = self.scope, call.value
        if name == "MATCH_ID" and self.identity:
            return self._leaf(records.MatchId(CHANGED[name], self.inputs.column(self.identity)))
        if name in CHANGED and self.changes is not None:
            kind = CHANGED[name]
            if kind == "punctuation":
                return self._punctuation()
            if kind != "changed_by":
                return self._leaf(records.OfChange(kind))
            return self._leaf(records.ChangedBy(kind, self.changes.arrived or self.inputs.column(scope.row_text(self.changes.arrival))))
        if "CHANGE" in self.ranked and name in LIST_CHANGE and not call.args:
            self._of_list_change.add(name)
            return LIST_CHANGE[name]
        if name == "MATCH_NUMBER":
            if call.args:
                raise scope.error(call, "MATCH_NUMBER", "MATCH_NUMBER takes no argument")
            # TOP numbers matches by rank
            return RANKED["MATCH_RANK"] if "MATCH_RANK" in self.ranked else self.match_number()
        if name == SCORE_CALL and call.args and scope.sequences:
            sequence = scope.scored(call)
            if sequence is None:
                known = ", ".join(s.name for s in scope.sequences.values() if s.pref is not None)
                raise scope.error(call, name, f"MATCH_SCORE takes no argument, or the name of a sequence with a PREF{': ' + known if known else ''}")
            return f"({self.sequence_score(sequence)})"
        if name in OF_MATCHES and (call.args or call.flags):
            raise scope.error(call, name, f"{name} takes no argument")
        if name in STATUSES:
            return self._leaf(self._of_run(call))
        if name in ENDINGS:
            leaf = self._leaf(records.Plain(ENDINGS[name]))
            self._totals.setdefault(leaf, call.span)
            return leaf
        if name in APPROXIMATE:
            return self._leaf(self._approximate(call))
        if name in LIFETIMES:
            raise scope.error(call, name, f"{name}() is a measure of an AUTOMATON. Write AUTOMATON instead of PATTERN")
        if name in CHANGED:
            if name == "MATCH_ID":
                raise scope.error(call, name, "MATCH_ID() is a measure of matches over inserted and retracted rows. Add CHANGES IN c, or write MATCH_NUMBER() for the number of a match")
            report = "REPORT CHANGES WITH PUNCTUATIONS" if name == "PUNCTUATION" else "REPORT CHANGES"
            where = "TOP k" if name in LIST_CHANGE and "MATCH_RANK" in self.ranked else "CHANGES IN c ARRIVAL BY a"
            raise scope.error(call, name, f"{name}() is a measure of the changes of matches. Add {report} after {where}")
        if name in RANKED:
            if name not in self.ranked:
                hint = "TOP k" if name == "MATCH_RANK" else "PREF (or TOP k and APPROX)"
                raise scope.error(call, name, f"{name}() is a measure of ranked matches. Add {hint}")
            return RANKED[name]
        if name in SLIDING:
            if not self.step:
                raise scope.error(call, name, f"{name}() is a measure of sliding windows. Write WINDOW ... SLIDE ... TOP k")
            return self._leaf(records.WindowEdge(SLIDING[name], self.timed, self.step))
        if name == "CLASSIFIER":
            return self._classifier(Row("L", scope.classifier_mask(call)))
        if name in NAVIGATIONS:
            return self._navigation(call)
        return self._aggregate(call)

    def _of_run(self, call: Expr) -> records.LeafSpec:
        kind = STATUSES[call.value]
        if kind != "ended":
            return records.OfRun(kind)
        if not self.inputs.order:
            raise self.scope.error(call, "UNFINISHED", "MATCH_ENDED_AT() is a value of the first ORDER BY expression. Add ORDER BY")
        return records.EndedAt(kind, self.inputs.order)

    def _approximate(self, call: Expr) -> records.LeafSpec:
        scope, name = self.scope, call.value
        if self.approx is None:
            raise scope.error(call, "APPROX", f"{name}() is a measure of approximate matches. Add APPROX k")
        leaf = APPROXIMATE[name]
        if leaf == "errors":
            return records.Errors(leaf, self.approx.whole)
        if leaf == "kind" and self.one_row:
            raise scope.error(call, "APPROX", "ERROR_KIND() describes single rows of a match. Write ALL ROWS PER MATCH")
        if leaf in BUDGET_LEAVES and self.approx.budget is None:
            raise scope.error(call, "BUDGET", f"{name}() measures what a budget {'allowed' if leaf == 'allowed' else 'left out'}. Add BUDGET n CHECKS after APPROX k")
        if leaf in BUNDLE_LEAVES and self.approx.report != BUNDLES:
            raise scope.error(call, "APPROX", f"{name}() is a measure of bundles. Write APPROX k MATCH BUNDLES")
        return records.BundleEdge(leaf, self.timed) if leaf in ("bundle_start", "bundle_end") else records.Plain(leaf)

    def _navigation(self, call: Expr) -> str:
        scope = self.scope
        row, body = scope.navigation(call, in_define=False)
        labels = list(scope.match_functions(body))
        if not labels:
            return self._of_row(row, body)
        swaps = {label.span: self._classifier(row) for label in labels}
        if body.bare() in labels:
            return swaps[body.bare().span]
        for node in scope.columns_outside(body, swaps):
            swaps[node.span] = self._value(row, scope.row_text(node))
        return self._if_any(row, body, swaps)

    def _of_row(self, row: Row, body: Expr) -> str:
        """SQL for an expression over one row.

        If it may fail, Spark computes it above the engine, only for the rows that are read.
        """
        if not fallible.may_fail(body, self.ansi):
            return self._value(row, self.scope.row_text(body))
        return self._if_any(row, body, {part.span: self._value(row, self.scope.row_text(part)) for part in fallible.pieces(body, self.ansi)})

    def _if_any(self, row: Row, body: Expr, swaps: dict[Span, str]) -> str:
        """SQL for an expression over columns of a row, NULL without the row."""
        return f"IF({self._value(row, 'true')}, {render_values(self.scope.text, body, swaps)}, NULL)"

    # -- aggregates -----------------------------------------------------------------------------------------

    def _aggregate(self, call: Expr) -> str:
        value = self._value_of(self._parts(call))
        if not self.one_row and (value.startswith(("__a", "__u")) or (value.startswith("__l") and _NATIVE.get(call.value) == "list")):
            self._totals.setdefault(value, call.span)  # EXPLAIN shows the place
        if self.changes is None or not self.changes.punctuated or value in self._leaves.values():
            return value
        return f"IF({self._punctuation()} IS NULL, {value}, NULL)"  # some of Spark's aggregates are not NULL without rows

    def _value_of(self, agg: _Aggregate) -> str:
        by_row = not any(self._looks_at_match(e) for e in (*agg.arguments, *agg.conditions))
        single = agg.plain and len(agg.arguments) <= 1
        if agg.name in _ENDS and single and by_row and not agg.conditions:
            row, argument = Row(_ENDS[agg.name], agg.mask, final=agg.final), agg.arguments[0]
            drawn = any(node.op == "call" and node.value in RANDOM for node in argument.walk())  # all output rows have the number of one row
            return self._value(row, self.scope.row_text(argument)) if drawn else self._of_row(row, argument)
        if agg.name in _NATIVE and single and not agg.distinct and (by_row or self._is_of_labels(agg)) and not self._is_repeated(agg):
            return self._native(agg, _NATIVE[agg.name])
        if agg.name in _OVER_ARRAY and agg.plain and (single or agg.name == "COUNT"):
            of_rows = single and by_row and agg.arguments and self.one_row
            values = self._native(agg, "list") if of_rows else self._values(agg)
            text = _OVER_ARRAY[agg.name].format(f"array_distinct({values})" if agg.distinct else values)
            return text if self.one_row else self._over_arrays.setdefault(text, f"__u{len(self._over_arrays)}")
        return self._by_spark(agg)

    def _parts(self, call: Expr) -> _Aggregate:
        mask, argument, keep = aggregate_parts(self.scope, call, inside=("CLASSIFIER", "MATCH_NUMBER"))
        name = call.value
        arguments = () if argument is None else call.args[: len(call.args) - (keep is not None)]
        conditions = () if keep is None else (keep,)
        distinct = "distinct" in call.flags and name not in _SAME_IF_DISTINCT
        if name == "COUNT_IF" and len(arguments) == 1 and not distinct:
            name, arguments, conditions = "COUNT", (), (*arguments, *conditions)
        return _Aggregate(call, name, mask, arguments, conditions, distinct, "final" in call.flags or self.one_row)

    def _is_repeated(self, agg: _Aggregate) -> bool:
        """Whether each output row of a match has the same array. Spark makes it once. The engine would send it with each row."""
        in_order = self.approx is None and not self.step and not self.ranked and self.changes is None
        return _NATIVE[agg.name] == "list" and agg.final and not self.one_row and in_order

    def _looks_at_match(self, expr: Expr) -> bool:
        return any(True for _ in self.scope.match_functions(expr))

    def _is_of_labels(self, agg: _Aggregate) -> bool:
        """Whether the argument is just CLASSIFIER, and no condition looks at the match."""
        return (
            len(agg.arguments) == 1
            and agg.arguments[0].bare().op == "call"
            and agg.arguments[0].bare().value == "CLASSIFIER"
            and agg.name not in _BOOLEAN
            and not any(self._looks_at_match(c) for c in agg.conditions)
        )

    def _native(self, agg: _Aggregate, function: str) -> str:
        column = keep = None
        of_labels = bool(agg.arguments) and self._is_of_labels(agg)
        parts = (*agg.conditions, *(() if of_labels else agg.arguments))
        fails = [part for part in parts if fallible.may_fail(part, self.ansi)]
        catcher = fallible.catcher(fails, self.ansi, self.scope.row_text)

        def computed(text: str) -> str:
            return catcher.value(text) if fails else text

        if of_labels:
            column = CLASSIFIER_COLUMN
        elif agg.arguments:
            text = self._kept(agg, self.scope.row_text) if fails else self.scope.row_text(agg.arguments[0])
            # AND makes Spark reject other types than BOOLEAN, because the engine's minimum takes any type
            column = self.inputs.column(computed(f"({text}) AND true" if agg.name in _BOOLEAN else text))
        if agg.conditions:
            keep = self.inputs.column(f"COALESCE({computed(self._all(agg.conditions, self.scope.row_text))}, false)")
        leaf = self._leaf(records.Aggregate("agg", function, agg.mask, column, keep, agg.final))
        if function in ("sum", "avg"):
            self._totals.setdefault(leaf, agg.call.span)
        return self._unless_failed(agg, leaf, parts, catcher) if fails else leaf

    def _kept(self, agg: _Aggregate, text_of: Callable[[Expr], str]) -> str:
        """The text of an aggregate's argument for the rows that its filter keeps. Without an argument, the text of the filter."""
        kept = self._all(agg.conditions, text_of)
        value = text_of(agg.arguments[0]) if agg.arguments and not self._is_of_labels(agg) else ""
        return f"CASE WHEN {kept} THEN {value} END" if kept and value else value or kept

    def _unless_failed(self, agg: _Aggregate, leaf: str, parts: tuple[Expr, ...], catcher: fallible.Catcher) -> str:
        """SQL for the aggregate's value. If Spark failed to compute one of its rows, the SQL raises Spark's error again."""
        read = [piece for part in parts for piece in fallible.pieces(part, self.ansi)]
        fields = ", ".join(f"'a{i}', {self.scope.row_text(piece)}" for i, piece in enumerate(read))
        column = self.inputs.column(catcher.failure(self._kept(agg, self.scope.row_text), f"named_struct({fields or repr('a0') + ', true'})"))
        failed = self._leaf(records.Aggregate("agg", "list", agg.mask, column, None, agg.final))
        swaps = {piece.span: f"get({failed}, 0).a{i}" for i, piece in enumerate(read)}
        again = fallible.forced(self._kept(agg, lambda part: render_values(self.scope.text, part, swaps)))
        # Spark may compute both operands of AND, but it computes a later condition of CASE only if the earlier ones are false
        return f"CASE WHEN size({failed}) = 0 THEN {leaf} WHEN {again} THEN NULL END"

    def _all(self, conditions: tuple[Expr, ...], text_of) -> str:
        return " AND ".join(f"({text_of(c)})" for c in conditions)

    def _values(self, agg: _Aggregate) -> str:
        """SQL for the array of the aggregate's values without NULLs, or of its rows for ``*``."""
        array, over = self._rows(agg)
        values = [over(a, "__r") for a in agg.arguments]
        conditions = [f"({over(c, '__r')})" for c in agg.conditions] + [f"({v}) IS NOT NULL" for v in values]
        if conditions:
            array = f"filter({array}, __r -> {' AND '.join(conditions)})"
        if values:
            value = values[0] if len(values) == 1 else f"`struct`({', '.join(values)})"
            array = f"transform({array}, __r -> {value})"
        return array

    def _rows(self, agg: _Aggregate) -> tuple[str, Callable[[Expr, str], str]]:
        """The leaf that collects the aggregate's rows, and a function that returns an expression's text over one of them."""
        scope = self.scope
        fields: list[str] = []
        places: dict[Span, str | int] = {}

        def place(node: Expr, column: str) -> None:
            if column not in fields:
                fields.append(column)
            places[node.span] = fields.index(column)

        for expr in (*agg.arguments, *agg.conditions):
            calls = list(scope.match_functions(expr))
            if not calls and not self._is_constant(expr):
                for piece in fallible.pieces(expr, self.ansi) if fallible.may_fail(expr, self.ansi) else [expr]:
                    place(piece, self.inputs.column(scope.row_text(piece)))
                continue
            for call in calls:
                if call.value == "CLASSIFIER":
                    place(call, CLASSIFIER_COLUMN)
                else:
                    places[call.span] = self._call(call)
            whole = list(self._with_subqueries(expr))
            for node in whole:
                place(node, self.inputs.column(scope.row_text(node)))
            for node in scope.columns_outside(expr, [part.span for part in (*calls, *whole)]):
                place(node, self.inputs.column(scope.row_text(node)))

        def over(expr: Expr, row: str) -> str:
            swaps = {span: f"{row}.a{to}" if isinstance(to, int) else to for span, to in places.items()}
            return render_values(scope.text, expr, swaps)

        return self._leaf(records.Rows("rows", agg.mask, tuple(fields) or (CLASSIFIER_COLUMN,), agg.final)), over

    def _with_subqueries(self, expr: Expr) -> Iterator[Expr]:
        """The parts of a row expression that contain subqueries.

        They become input columns, because Spark allows no subquery over an array's elements.
        """
        if fallible.is_subquery(expr):
            if self._looks_at_match(expr):
                raise self.scope.error(
                    expr, "AGGREGATE", "a subquery in an aggregate's argument cannot test CLASSIFIER() or MATCH_NUMBER(). Test the result of the aggregate",
                    UNSUPPORTED,
                )
            yield expr
            return
        for arg in expr.args:
            yield from self._with_subqueries(arg)

    def _is_constant(self, expr: Expr) -> bool:
        return not self._looks_at_match(expr) and not any(True for _ in self.scope.columns(expr))

    def _by_spark(self, agg: _Aggregate) -> str:
        """Any other aggregate, computed by Spark over the elements of an array, one for each row that counts."""
        if agg.name in _OVER_ARRAY and agg.arguments and words_behind(self.scope.text, agg.arguments, agg.conditions, agg.call, "ORDER", "BY"):
            message = f"Spark's {agg.name} takes no ORDER BY. Sort the array, as in array_sort(array_agg(x))"
            raise self.scope.error(agg.call, "AGGREGATE", message, UNSUPPORTED)
        varying = [a for a in agg.arguments if not self._is_constant(a)]
        distinct = agg.distinct and len({self.scope.row_text(a) for a in varying}) == 1
        if distinct:
            # Spark's own DISTINCT would expand the rows and lose their order
            values = self._values(replace(agg, arguments=tuple(varying[:1])))
            element = self._element(f"array_distinct({values})")
            swaps = {a.span: element for a in varying}
            conditions = [f"{element} IS NOT NULL"]
        else:
            leaf, over = self._rows(agg)
            element = self._element(leaf)
            swaps = {a.span: over(a, element) for a in varying}
            conditions = [f"{element} IS NOT NULL", *(f"({over(c, element)})" for c in agg.conditions)]
        body, option = self._body(agg, swaps)
        if distinct:
            at = _places(body, "DISTINCT")[0]
            body = body[:at] + body[at + len("DISTINCT") :]
        if agg.name in _ENDS:
            value = swaps.get(agg.arguments[0].span, agg.arguments[0].span.of(self.scope.text))
            if skips_nulls(self.scope.text, agg.arguments, agg.conditions, agg.call):
                conditions.append(f"({value}) IS NOT NULL")
            body, option = f"{'max_by' if agg.name == 'LAST_VALUE' else 'min_by'}({value}, {POSITION})", ""
        elif agg.name in ("LISTAGG", "STRING_AGG") and agg.plain:
            body += f" WITHIN GROUP (ORDER BY {POSITION})"
        text = f"{body} FILTER (WHERE {' AND '.join(conditions)}){option}"
        return self._aggregates.setdefault(text, f"__a{len(self._aggregates)}")

    def _element(self, array: str) -> str:
        return f"{ELEMENT}.{self._arrays.setdefault(array, f'__d{len(self._arrays)}')}"

    def _body(self, agg: _Aggregate, swaps: dict[Span, str]) -> tuple[str, str]:
        """The call's text up to its FILTER, without RUNNING and FINAL, and its option IGNORE NULLS or RESPECT NULLS."""
        text, span = self.scope.text, agg.call.span
        tokens = head = tokenize(span.of(text))[:-1]
        if "filter" in agg.call.flags:
            condition = agg.call.args[-1].span.start - span.start
            head = tokens[: max(i for i, token in enumerate(tokens) if token.upper == "FILTER" and token.start < condition)]
        option = _nulls_option(head) or _nulls_option(tokens)
        end = span.start + head[-3 if _nulls_option(head) else -1].end
        body = render(text, replace(agg.call, span=Span(span.start, end)), swaps)
        for word in agg.call.flags & {"running", "final"}:
            body = body[len(word) :].lstrip()
        return body, option


def _nulls_option(tokens: list[Token]) -> str:
    """IGNORE NULLS or RESPECT NULLS at the end of a call's tokens, after a blank; "" without either."""
    words = [token.upper for token in tokens[-2:]]
    return "".join(f" {token.text}" for token in tokens[-2:]) if words in (["IGNORE", "NULLS"], ["RESPECT", "NULLS"]) else ""


def _places(text: str, word: str) -> list[int]:
    """Where ``text`` has a word, outside of comments, strings and quoted names."""
    return [token.start for token in tokenize(text) if token.kind == WORD and token.upper == word]


__all__ = ["AGGREGATES", "CLASSIFIER_COLUMN", "ELEMENT", "POSITION", "MeasureSplitter"]
