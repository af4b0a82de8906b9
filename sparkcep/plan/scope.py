"""Name resolution inside the clause, and the row expressions that Spark computes.

The splitters of conditions and measures share both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from sparkcep.clause.expressions import NAMED_FUNCTIONS, TO_QUOTE, Expr, render, render_values
from sparkcep.clause.tokens import Span, quote
from sparkcep.clause.tree import Preference
from sparkcep.errors import SEMANTIC, ClauseError, error_at, offered
from sparkcep.plan.constants import Parameters, number
from sparkcep.plan.limits import MAX_OFFSET, MAX_OFFSET_IN_DEFINE
from sparkcep.plan.records import ALL_ROWS, Computed

NAVIGATIONS = frozenset(["PREV", "NEXT", "FIRST", "LAST"])
# functions of Spark's whose value belongs to a row, though they name none of its columns
OF_ROWS = frozenset(["IDENTIFIER", "INPUT_FILE_BLOCK_LENGTH", "INPUT_FILE_BLOCK_START", "INPUT_FILE_NAME", "MONOTONICALLY_INCREASING_ID"])
ENDINGS = {"MATCH_COUNT": "cnt", "MATCH_GRAPH": "graph"}  # measures over all matches that end at a row, and their leaves
APPROXIMATE = {
    "MATCH_ERRORS": "errors", "MISSING": "missing", "ERROR_KIND": "kind",
    "BUNDLE_START": "bundle_start", "BUNDLE_END": "bundle_end", "BUNDLE_SIZE": "bundle_size",
    "COMPLETE": "complete", "CHECKS_LEFT_OUT": "left_out", "CHECKS_ALLOWED": "allowed", "COVERAGE": "coverage",
}  # measures of approximate matches, and their leaves
_OPPOSITE = {"PREV": "NEXT", "NEXT": "PREV"}
MAX_DIGITS = 38  # digits of a Spark DECIMAL
AGGREGATES = frozenset(
    """ANY ANY_VALUE APPROX_COUNT_DISTINCT APPROX_PERCENTILE APPROX_TOP_K APPROX_TOP_K_ACCUMULATE APPROX_TOP_K_COMBINE ARRAY_AGG AVG
    BIT_AND BIT_OR BIT_XOR BITMAP_AND_AGG BITMAP_OR_AGG BOOL_AND BOOL_OR COLLECT_LIST COLLECT_SET COLLECT_UNION CORR COUNT COUNT_IF
    COUNT_MIN_SKETCH COVAR_POP COVAR_SAMP EVERY FIRST_VALUE HISTOGRAM_NUMERIC HLL_UNION_AGG KLL_MERGE_AGG_BIGINT KLL_MERGE_AGG_DOUBLE
    KLL_MERGE_AGG_FLOAT KLL_SKETCH_AGG_BIGINT KLL_SKETCH_AGG_DOUBLE KLL_SKETCH_AGG_FLOAT KURTOSIS
    LAST_VALUE LISTAGG MAX MAX_BY MEAN MEDIAN MIN MIN_BY MODE PERCENTILE PERCENTILE_APPROX PERCENTILE_CONT
    PERCENTILE_DISC REGR_AVGX REGR_AVGY REGR_COUNT REGR_INTERCEPT REGR_R2 REGR_SLOPE REGR_SXX REGR_SXY REGR_SYY
    SKEWNESS SOME STD STDDEV STDDEV_POP STDDEV_SAMP STRING_AGG SUM TRY_AVG TRY_SUM VARIANCE VAR_POP VAR_SAMP
    BITMAP_CONSTRUCT_AGG HLL_SKETCH_AGG THETA_INTERSECTION_AGG THETA_SKETCH_AGG THETA_UNION_AGG TUPLE_INTERSECTION_AGG_DOUBLE
    TUPLE_INTERSECTION_AGG_INTEGER TUPLE_SKETCH_AGG_DOUBLE TUPLE_SKETCH_AGG_INTEGER TUPLE_UNION_AGG_DOUBLE TUPLE_UNION_AGG_INTEGER""".split()
)
# Spark functions that no expression of the clause may call, because they change the number of input rows; with the reason for
# each kind.
_OVER = "is a window function and needs OVER. Use PREV or NEXT, or compute it in a subquery below the clause"
_SPREADS = "turns one row into several. Use it in a subquery below the clause"
_GROUPS = "belongs to GROUP BY. Compute it in a subquery below the clause"
NOT_OF_A_ROW = {
    "LAG": "is a window function and needs OVER. Use PREV for the row before, as in PREV(price)",
    "LEAD": "is a window function and needs OVER. Use NEXT for the row after, as in NEXT(price)",
    "ROW_NUMBER": "is a window function and needs OVER. Use RUNNING count(*) for the number of a row in its match",
    **dict.fromkeys("COUNTER_DIFF CUME_DIST DENSE_RANK NTH_VALUE NTILE PERCENT_RANK RANK".split(), _OVER),
    **dict.fromkeys("EXPLODE EXPLODE_OUTER INLINE INLINE_OUTER JSON_TUPLE POSEXPLODE POSEXPLODE_OUTER STACK".split(), _SPREADS),
    **dict.fromkeys("GROUPING GROUPING_ID MEASURE".split(), _GROUPS),
}
RANDOM = frozenset(
    "RAND RANDOM RANDN RANDSTR UNIFORM UUID SHUFFLE MONOTONICALLY_INCREASING_ID SPARK_PARTITION_ID INPUT_FILE_NAME".split()
)  # nondeterministic Spark functions
RANDOM_CALL = re.compile(rf"\b(?:{'|'.join(sorted(RANDOM))})`?\s*\(", re.IGNORECASE)
PRIOR, SCORE_CALL = "PRIOR", "MATCH_SCORE"
RANK, SCORE = "__rank", "__score"  # columns of the ranking
RANKED = {"MATCH_SCORE": SCORE, "MATCH_RANK": RANK}
SLIDING = {"WINDOW_START": "window_start", "WINDOW_END": "window_end"}  # measures of sliding windows, and their leaves
# columns of a change of the list of TOP k: CHANGE(), and the window of the change
CHANGE = "__change"
NEXT_START, NEXT_END = "__next_start", "__next_end"
BEFORE, AFTER = "__window_before", "__window_after"  # columns that compare the lists of windows
LIST_CHANGE = {"CHANGE": CHANGE, "WINDOW_START": "__change_start", "WINDOW_END": "__change_end"}
LIFETIMES = {"MATCH_FROM": "match_from", "MATCH_TO": "match_to"}  # measures of an automaton's matches, and their leaves
# measures of REPORT CHANGES without argument, and their leaves
CHANGED = {"CHANGE": "change", "CHANGE_NUMBER": "change_number", "CHANGED_BY": "changed_by", "PUNCTUATION": "punctuation", "MATCH_ID": "match_id"}
STATUSES = {"MATCH_STATUS": "status", "MATCH_ENDED_AT": "ended", "MATCH_EXPECTED": "expected"}  # measures of unfinished matches, and their leaves
OF_MATCHES = frozenset([*STATUSES, *ENDINGS, *APPROXIMATE, *RANKED, *SLIDING, *LIFETIMES])  # measures of whole matches, without arguments
MATCH_FUNCTIONS = NAVIGATIONS | AGGREGATES | OF_MATCHES | {PRIOR, "CLASSIFIER", "MATCH_NUMBER"}


_FIRST_WORD = re.compile(r"[A-Za-z_]+(?![A-Za-z0-9_])")
_QUOTED = re.compile(r"`([A-Za-z_][A-Za-z0-9_]*)`")
_NO_COLUMNS = frozenset("TRUE FALSE NULL CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER SESSION_USER USER CURRENT_PATH".split())  # values if they are not quoted


COLUMN_OVERLOOKED = "COLUMN_OR_WORD"


def without_table(name: tuple[str, ...], tables: frozenset[str]) -> tuple[str, ...]:
    """The parts of a column's name after the table that qualifies it, if one does. ``tables``: see :class:`Scope`."""
    qualifying = (n for n in range(len(name) - 1, 0, -1) if ".".join(name[:n]).lower() in tables)
    return name[next(qualifying, 0) :]


def is_of_row(expr: Expr) -> bool:
    """Whether ``expr`` is a call that reads its row like a bare column."""
    return expr.op == "call" and expr.value in OF_ROWS


def overlooked(name: str, of: str = "") -> tuple[str, str]:
    """The error class and the message for a word that was not read as a column although the table has a column of this name.

    ``of``: the sequence whose objective has the name, "" for any other word.
    """
    if of:
        return "SEQUENCE", f"{name} is a column of the input, so {of}.{name} would be two things. Call the objective otherwise"
    instead = f"Write `{name}` for the column" + (f", or {name.lower()}() for the function" if name.upper() in NAMED_FUNCTIONS else "")
    return COLUMN_OVERLOOKED, f"the table has a column {name}, but this {name} was not read as that column. {instead}"


def _unquoted(text: str) -> str:
    """The text of a row expression, without needless quotes around a column name, so that both spellings share a column."""
    name = _QUOTED.fullmatch(text)
    return text if name is None or name[1].upper() in _NO_COLUMNS else name[1]


def _with_quotes(text: str) -> str:
    """A column reference, quoted if Spark might read its name as a keyword or a value."""
    first = _FIRST_WORD.match(text)
    return f"`{first[0]}`{text[first.end():]}" if first is not None and first[0].upper() in TO_QUOTE else text


class Inputs:
    """Row expressions, each computed once: SQL text to column name, in order of first use."""

    def __init__(self) -> None:
        self._by_text: dict[str, str] = {}
        self._named: list[Computed] = []
        self._columns = 0

    def key(self, name: str, text: str) -> str:
        """Adds a partition or order key. A key always gets its own name, and later uses share it."""
        self._named.append(Computed(name, text))
        self._by_text.setdefault(_unquoted(text), name)
        return name

    def column(self, text: str) -> str:
        """The column that holds the row expression ``text``."""
        if text.startswith("(") and text.endswith(")") and text[1:-1].replace("_", "").replace("`", "").isalnum():
            text = text[1:-1]
        same = _unquoted(text)
        if same not in self._by_text:
            name = f"__c{self._columns}"
            self._columns += 1
            self._by_text[same] = name
            self._named.append(Computed(name, text))
        return self._by_text[same]

    @property
    def order(self) -> str:
        """The column of the first ORDER BY expression, "" without ORDER BY."""
        return next((column.name for column in self._named if column.name == "__o0"), "")

    def columns(self) -> tuple[Computed, ...]:
        return tuple(self._named)

    def mark(self) -> tuple[dict[str, str], int]:
        """The columns collected so far, for :meth:`back_to`."""
        return dict(self._by_text), len(self._named)

    def back_to(self, mark: tuple[dict[str, str], int]) -> None:
        """Forgets the columns that were added after the mark."""
        self._by_text, named = dict(mark[0]), mark[1]
        del self._named[named:]


@dataclass(frozen=True)
class Row:
    """The row that a reference reads.

    Attributes:
        which: ``cur`` (the candidate row), ``F`` or ``L`` (FIRST or LAST of ``mask``).
        mask: the variables.
        logical: the logical offset.
        physical: the signed physical offset.
        final: whether the semantics are FINAL.
    """

    which: str
    mask: int = ALL_ROWS
    logical: int = 0
    physical: int = 0
    final: bool = False


@dataclass(frozen=True)
class NamedSequence:
    """A SEQUENCE of the clause.

    Attributes:
        name: its name.
        mask: its variables.
        pref: its preference, if it has one.
        optional: whether a match may lack it.
        absent: for each objective, the masks of branches inside the sequence: it is left out in matches without a row of them.
    """

    name: str
    mask: int
    pref: Preference | None
    optional: bool
    absent: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Scope:
    """The names of one clause.

    Attributes:
        text: the clause's text.
        ids: number of each variable, by lower-case name.
        subsets: mask of each subset, by lower-case name.
        variables: names of the variables as written.
        tables: lower-case names that may qualify the input's columns, with dots between the parts of one name.
        parameters: values of the statement's parameters.
        sequences: the sequences by lower-case name.
        whole: the rows of a reference without a variable: those of the match, or of a sequence in its preference.
        exact: whether names of columns are case-sensitive.
    """

    text: str
    ids: dict[str, int]
    subsets: dict[str, int]
    variables: tuple[str, ...]
    tables: frozenset[str] = frozenset()
    parameters: Parameters = field(default_factory=dict)
    sequences: Mapping[str, NamedSequence] = field(default_factory=dict)
    whole: int = ALL_ROWS
    exact: bool = False

    def key(self, name: str) -> str:
        """The name of a register or parameter, as it is compared. Columns of the table may differ from it in case alone."""
        return name if self.exact else name.lower()

    def objective(self, node: Expr) -> tuple[NamedSequence, int] | None:
        """The sequence and the number of the objective that a column reference ``s.name`` names, None for any other node."""
        if node.op != "col" or len(node.value) != 2:
            return None
        sequence = self.sequences.get(node.value[0].lower())
        names = [name and name.lower() for name in sequence.pref.names] if sequence is not None and sequence.pref is not None else []
        return (sequence, names.index(node.value[1].lower())) if sequence is not None and node.value[1].lower() in names else None

    def scored(self, call: Expr) -> NamedSequence | None:
        """The sequence of a call ``MATCH_SCORE(s)``, None for any other node."""
        if call.op != "call" or call.value != SCORE_CALL or len(call.args) != 1 or call.flags:
            return None
        name = call.args[0].bare()
        sequence = self.sequences.get(name.value[0].lower()) if name.op == "col" and len(name.value) == 1 else None
        return sequence if sequence is not None and sequence.pref is not None else None

    def within(self, sequence: NamedSequence) -> Scope:
        """The scope of a sequence's objectives."""
        return replace(self, whole=sequence.mask)

    def mask_of(self, name: str) -> int | None:
        """The mask of a variable or subset, None if no variable or subset has this name."""
        low = name.lower()
        if low in self.ids:
            return 1 << self.ids[low]
        return self.subsets.get(low)

    def offered(self, name: str) -> str:
        """The end of a message about an unknown variable: suggests a similar name if there is one."""
        return offered(name, (*self.variables, *self.subsets))

    def error(self, expr: Expr, error_class: str, message: str, sqlstate: str = SEMANTIC) -> ClauseError:
        return error_at(self.text, expr.span.start, expr.span.end, error_class, message, sqlstate)

    def qualifier(self, node: Expr) -> int | None:
        """The mask of the variable that qualifies a column reference, None for a bare column."""
        if node.op == "col" and len(node.value) > 1:
            return self.mask_of(node.value[0])
        if node.op == "star" and len(node.value) == 1:
            return self.mask_of(node.value[0])
        return None

    def check_semantics(self, expr: Expr) -> None:
        """Rejects RUNNING and FINAL except before FIRST, LAST and aggregates.

        Also rejects window functions, generators and overlong numbers.
        """
        offsets = {a.bare().span for n in expr.walk() if n.op == "call" and n.value in NAVIGATIONS for a in n.args[1:]}
        for node in expr.walk():
            digits = str(node.value).lstrip("0") if node.op == "lit" and node.span not in offsets else ""
            if digits.isdigit() and len(digits) > MAX_DIGITS:
                raise self.error(node, "DATATYPE_MISMATCH", f"a whole number has at most {MAX_DIGITS} digits. Write a DOUBLE with a D at the end")
            if node.op == "call" and node.value in NOT_OF_A_ROW:
                raise self.error(node, "NOT_A_ROW_EXPRESSION", f"{node.value} {NOT_OF_A_ROW[node.value]}")
            if node.op == "call" and node.flags & {"running", "final"} and node.value not in ("FIRST", "LAST", *AGGREGATES):
                word = "FINAL" if "final" in node.flags else "RUNNING"
                message = f"{word} goes before FIRST, LAST and aggregates, not before {node.value}. Write {self._with_final(node, word)}"
                raise self.error(node, "SEMANTICS", message)

    def _with_final(self, call: Expr, word: str) -> str:
        """The text of a call with RUNNING or FINAL, the ``word``, before what takes it."""
        text = self._without_final(call, call.span.of(self.text), word)
        inner = [node for arg in call.args for node in self.match_functions(arg)]
        if call.value in ("FIRST", "LAST", *AGGREGATES):
            return f"{word} {text}"
        if call.value == "MATCH_NUMBER":  # the same in each row of a match
            return text
        if call.value in ("PREV", "NEXT") and not inner and call.args:
            swaps = {call.args[0].span: f"{word} LAST({call.args[0].span.of(self.text)})"}
        elif not inner:
            return f"{word} LAST({text})"
        else:
            swaps = {node.span: self._with_final(node, word) for node in inner}
        return self._without_final(call, render(self.text, call, swaps), word)

    def _without_final(self, call: Expr, text: str, word: str) -> str:
        return text[len(word) :].strip() if word.lower() in call.flags else text

    def columns(self, expr: Expr, bound: frozenset[str] = frozenset()) -> Iterator[Expr]:
        """Free column references, stars and calls of :func:`is_of_row` below ``expr``. Lambda parameters do not count."""
        if expr.op == "lambda":
            bound = bound | frozenset(expr.value)
        if expr.op == "col" and expr.value[0].lower() in bound:
            return
        if expr.op in ("col", "star") or is_of_row(expr):
            yield expr
            return
        for arg in expr.args:
            yield from self.columns(arg, bound)

    def columns_outside(self, expr: Expr, spans: Iterable[Span]) -> list[Expr]:
        """The columns that lie in none of the spans."""
        return [node for node in self.columns(expr) if not any(span.holds(node.span) for span in spans)]

    def match_functions(self, expr: Expr) -> Iterator[Expr]:
        """The outermost calls of navigations, aggregates, CLASSIFIER and MATCH_NUMBER in ``expr``."""
        if expr.op == "call" and (expr.value in MATCH_FUNCTIONS or (expr.value in CHANGED and not expr.args)):
            yield expr
            return
        for arg in expr.args:
            yield from self.match_functions(arg)

    def row_text(self, expr: Expr, wrap=None, fixed: Mapping[Span, str] = MappingProxyType({})) -> str:
        """``expr``'s text over one row, without variable qualifiers.

        Args:
            expr: the expression.
            wrap: maps each column's text, if given.
            fixed: text of the calls whose value is known.
        """
        swaps: dict[Span, str] = {s: text for s, text in fixed.items() if expr.span.holds(s)}
        for node in self.columns_outside(expr, fixed):
            if node.op == "star" and self.qualifier(node) is not None:
                swaps[node.span] = " EXCEPT ".join(["*", *(names.span.of(self.text) for names in node.args)])
            if node.op != "col":
                continue
            text = node.span.of(self.text)
            if self.qualifier(node) is not None:
                rest = text.partition(".")[2].strip() if "." not in node.value[0] else ""
                text = rest or ".".join(quote(p) for p in node.value[1:])
            text = _with_quotes(text)
            if wrap:
                text = wrap(text)
            if text != node.span.of(self.text):
                swaps[node.span] = text
        return (render_values if wrap else render)(self.text, expr, swaps)

    def plain_text(self, expr: Expr, where: str) -> str:
        """The text of an expression that must not read the match. ``where``: the part of the clause, for the error."""
        self.check_semantics(expr)
        for node in self.match_functions(expr):
            message = f"{node.value} cannot be used in {where}, whose expressions read one row each"
            raise self.error(node, "NOT_A_ROW_EXPRESSION", message)
        quoted = {node.span: _with_quotes(node.span.of(self.text)) for node in self.columns(expr) if node.op == "col"}
        return render(self.text, expr, {span: text for span, text in quoted.items() if text != span.of(self.text)})

    def one_variable(self, expr: Expr, what: Expr) -> int:
        """The common mask of all column references and CLASSIFIER arguments in ``expr``, ALL_ROWS if there are none.

        Raises ClauseError at ``what`` if they name several variables.
        """
        masks = self._masks(expr)
        if len(masks) > 1:
            for node in self.columns(expr):
                if node.op == "col" and len(node.value) > 1 and self.mask_of(node.value[0]) is None and without_table(node.value, self.tables) == node.value:
                    advice, named = self._of_one(what), node.span.of(self.text)
                    raise self.error(
                        node, "MIXED_VARIABLES",
                        f"{node.value[0]} is not a row pattern variable, and {what.value}() cannot mix its columns with those of a variable. "
                        + (f"{advice} if {named} is a field of a column, or a variable of SQL. " if advice else "")
                        + "The clause cannot use a column of an outer query",
                    )
            message = f"one {what.value}() call names one row pattern variable. {self._of_one(what) or 'Give each variable its own call'}"
            raise self.error(what, "MIXED_VARIABLES", message)
        return next(iter(masks), self.whole)

    def _of_one(self, what: Expr) -> str:
        """A call with the one variable that it names on columns without one, "" if a missing variable is not the mistake."""
        named = {node.value[0] for node in self.columns(what) if self.qualifier(node) is not None}
        inside = {a.span for n in what.walk() if n.op == "call" and n.value == "CLASSIFIER" for a in n.args}
        bare = [node for node in self.columns(what) if node.op == "col" and self.qualifier(node) is None and node.span not in inside]
        labels = [n for n in what.walk() if n.op == "call" and n.value == "CLASSIFIER" and not n.args]
        if len(named) != 1 or not (bare or labels):
            return ""
        variable = named.pop()
        swaps = {node.span: f"{variable}.{node.span.of(self.text)}" for node in bare} | {n.span: f"CLASSIFIER({variable})" for n in labels}
        condition = what.args[-1] if "filter" in what.flags else None
        if condition is not None and all(condition.span.holds(span) for span in swaps):
            return f"Write FILTER (WHERE {render(self.text, condition, swaps)})"
        return f"Write {render(self.text, what, swaps)}"

    def _masks(self, expr: Expr) -> dict[int, Expr]:
        # the argument of CLASSIFIER(A) parses as a column but is not a column reference
        inside = {a.span for n in expr.walk() if n.op == "call" and n.value == "CLASSIFIER" for a in n.args}
        kept = {}
        for node in self.columns(expr):
            if node.span not in inside and not is_of_row(node):  # beside columns of a variable it is of their row
                mask = self.qualifier(node)
                kept[self.whole if mask is None else mask] = node
        for node in expr.walk():
            if node.op == "call" and node.value == "CLASSIFIER":
                kept[self.classifier_mask(node)] = node
        return kept

    def classifier_mask(self, node: Expr) -> int:
        """The mask of CLASSIFIER's argument, ALL_ROWS without one."""
        if not node.args:
            return self.whole
        arg = node.args[0]
        if len(node.args) > 1 or arg.op != "col" or len(arg.value) != 1:
            raise self.error(node, "CLASSIFIER", "CLASSIFIER takes at most one argument, a row pattern variable")
        mask = self.mask_of(arg.value[0])
        if mask is None:
            message = f"CLASSIFIER({arg.value[0]}): no row pattern variable or subset has this name{self.offered(arg.value[0])}"
            raise self.error(arg, "UNKNOWN_VARIABLE", message)
        return mask

    def navigation(self, node: Expr, in_define: bool) -> tuple[Row, Expr]:
        """The row that a navigation call reads, and the expression that it evaluates there.

        PREV and NEXT may wrap FIRST and LAST directly. Nothing else nests (LANGUAGE section 9).
        """
        physical = 0
        call = node
        if node.value in ("PREV", "NEXT"):
            offset = self._offset(node, 1)
            physical = -offset if node.value == "PREV" else offset
            inner = node.args[0].bare()
            if inner.op == "call" and inner.value in ("FIRST", "LAST"):
                call = inner
        final = "final" in call.flags
        if final and in_define:
            raise self.error(call, "FINAL_IN_DEFINE", "FINAL cannot be used in DEFINE, where the match is not complete. Leave FINAL out")
        for one in (node, call):
            self._no_extras(one)
        if call.value in ("FIRST", "LAST"):
            which, logical = call.value[0], self._offset(call, 0)
            if in_define and logical > MAX_OFFSET_IN_DEFINE:
                message = f"the offset of {call.value} in DEFINE must be at most {MAX_OFFSET_IN_DEFINE}"
                raise self.error(call, "NAVIGATION_OFFSET", message)
        else:
            which, logical = "L", 0
        body = call.args[0]
        for below in self.match_functions(body):
            if below.value == "CLASSIFIER":
                continue
            kind = "an aggregate" if below.value in AGGREGATES else f"{below.value}()"
            message = f"{kind} cannot be nested in {call.value}(). Only PREV and NEXT can directly wrap FIRST and LAST"
            raise self.error(below, "NESTED_NAVIGATION", message)
        return Row(which, self.one_variable(body, call), logical, physical, final), body

    def _no_extras(self, node: Expr) -> None:
        extras = node.flags & {"distinct", "filter", "ordered", "named"}
        if extras:
            raise self.error(node, "NAVIGATION", f"{node.value} takes only an expression and an offset")

    def _offset(self, node: Expr, default: int) -> int:
        if not node.args or len(node.args) > 2:
            raise self.error(node, "NAVIGATION", f"{node.value} takes an expression and an optional offset")
        if node.args[0].op == "star":
            raise self.error(node, "NAVIGATION", f"{node.value} takes an expression of one row, not *")
        if len(node.args) == 1:
            return default
        arg = node.args[1]
        offset = number(arg, self.text, self.parameters)
        if offset is None or offset < 0 or offset.denominator != 1:
            message = f"the offset of {node.value} must be a whole number, 0 or more"
            if offset is not None and offset < 0 and offset.denominator == 1:
                message += f". Write {_OPPOSITE.get(node.value, node.value)}({node.args[0].span.of(self.text)}, {-offset})"
            raise self.error(arg, "NAVIGATION_OFFSET", message)
        if offset > MAX_OFFSET:
            raise self.error(arg, "NAVIGATION_OFFSET", f"the offset of {node.value} must be at most {MAX_OFFSET}")
        return int(offset)
