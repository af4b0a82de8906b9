"""Splits a DEFINE condition into a part that Spark computes for each row and a part that reads other rows.

The planner calls it for every condition. The trees of the second part are those of :mod:`sparkcep.plan.records`. A subtree whose
references all read one row becomes one input column, which Spark computes.

In ``B AS b > 2 AND price < PREV(price)``, Spark computes ``b > 2`` as a letter. The other conjunct becomes the tree ``("call", "<",
Here("col", "__c0"), Near("off", "__c0", -1, None))`` over the input column ``__c0 = price``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from types import MappingProxyType

from sparkcep.clause.expressions import Expr, render_values
from sparkcep.clause.tokens import QUOTED, WORD, Span, name_of, tokenize
from sparkcep.errors import SYNTAX, UNSUPPORTED, ClauseError, position
from sparkcep.plan import records
from sparkcep.plan.constants import UNIT_MICROS
from sparkcep.plan.facts import Distance
from sparkcep.plan.limits import MAX_OFFSET_IN_DEFINE
from sparkcep.plan.records import ALL_ROWS, Lit, has, walk
from sparkcep.plan.scope import AGGREGATES, MAX_DIGITS, NAVIGATIONS, OF_MATCHES, PRIOR, STATUSES, Inputs, Row, Scope, is_of_row
from sparkcep.plan.split import fallible

# functions of one DOUBLE that the engine computes like the C library
MATH_CALLS = (
    "cbrt", "log2", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "degrees", "radians", "rint",
)
NUMBER_TYPES = frozenset("tinyint byte smallint short int integer bigint long float real double decimal dec numeric".split())
# operators and functions that the engine computes over values of several rows
_COMPARISONS = {"=", "!=", "<", "<=", ">", ">=", "<=>"}
_BINARY = {"+", "-", "*", "/", "%", "DIV", "=", "!=", "<", "<=", ">", ">=", "<=>"}
_FUNCTIONS = {
    "ABS": (1, 1), "SIGN": (1, 1), "SIGNUM": (1, 1), "SQRT": (1, 1), "EXP": (1, 1), "LN": (1, 1), "LOG10": (1, 1),
    "POW": (2, 2), "POWER": (2, 2), "FLOOR": (1, 1), "CEIL": (1, 1), "CEILING": (1, 1), "MOD": (2, 2),
    "NEGATIVE": (1, 1), "POSITIVE": (1, 1), "GREATEST": (2, 99), "LEAST": (2, 99),
    "COALESCE": (1, 99), "NVL": (2, 2), "IFNULL": (2, 2), "NULLIF": (2, 2), "NVL2": (3, 3), "IF": (3, 3), "IFF": (3, 3),
    "ISNULL": (1, 1), "ISNOTNULL": (1, 1), "DATEDIFF": (2, 2), "DATE_DIFF": (2, 2), "ISNAN": (1, 1), "NOT": (1, 1),
    "ROUND": (1, 2), "PMOD": (2, 2), "LOG": (1, 1), **dict.fromkeys(map(str.upper, MATH_CALLS), (1, 1)), "ATAN2": (2, 2),
    "HYPOT": (2, 2),
}
_NULL, _ZERO, _ONE = Lit("lit", "null", "NULL"), Lit("lit", "int", "0"), Lit("lit", "int", "1")
_AGGREGATES = {
    "COUNT", "SUM", "AVG", "MEAN", "MIN", "MAX", "BOOL_AND", "EVERY", "BOOL_OR", "ANY", "SOME", "COUNT_IF",
    "STDDEV", "STD", "STDDEV_SAMP", "STDDEV_POP", "VARIANCE", "VAR_SAMP", "VAR_POP",
    "ANY_VALUE", "FIRST_VALUE", "LAST_VALUE", "MAX_BY", "MIN_BY",
}
_ENDS = {"ANY_VALUE": "F", "FIRST_VALUE": "F", "LAST_VALUE": "L"}
_LISTS = frozenset(["ARRAY_AGG", "COLLECT_LIST", "COLLECT_SET"])
_OF_LISTS = {"SIZE": "COUNT", "CARDINALITY": "COUNT", "ARRAY_SIZE": "COUNT", "ARRAY_MAX": "MAX", "ARRAY_MIN": "MIN"}
_DIFFERENCES = frozenset(["TIMESTAMPDIFF", "TIMEDIFF", "DATEDIFF", "DATE_DIFF"])  # with a unit as the first argument
_AS_TIME = {"DATE": "CAST(date_add({}, 0) AS DATE)", "TIMESTAMP": "timestampadd(MICROSECOND, 0, {})"}  # accept the types that the differences cast
_ALIASES = {
    "MEAN": "AVG", "EVERY": "BOOL_AND", "ANY": "BOOL_OR", "SOME": "BOOL_OR", "STD": "STDDEV_SAMP",
    "STDDEV": "STDDEV_SAMP", "VARIANCE": "VAR_SAMP", "POWER": "POW", "CEILING": "CEIL", "NVL": "COALESCE",
    "IFNULL": "COALESCE", "SIGNUM": "SIGN", "IFF": "IF", "LOG": "LN", "DATE_DIFF": "DATEDIFF", "MOD": "%",
}
_NAMED = re.compile(r"\(*(?:\w+|`(?:[^`]|``)+`)(?:\.(?:\w+|`(?:[^`]|``)+`))*\)*")  # a column, or a field of a column
ORDER = "{sparkcep:order}"  # placeholder in the text of an ordered input for the clause's PARTITION BY and ORDER BY
ROW_NUMBER = f"row_number() OVER ({ORDER})"
MAX_SPLITS = 1000  # ways to split a text into names of variables
_MOST_LABELS = MAX_OFFSET_IN_DEFINE + 1  # that are compared one by one
MAX_LABELLED = 64  # ways to choose variables for the CLASSIFIERs in one Spark function
MAX_PAIRED = 2  # most other rows that a Spark function in DEFINE may read; the array's size is the number of rows to this power
# functions that are NULL if any argument is NULL; other functions get an explicit value for an absent row
_STRICT_CALLS = frozenset(
    """ABS ACOS ASIN ATAN BROUND CBRT CEIL CEILING CHAR_LENGTH CHARACTER_LENGTH COS DATE DATEDIFF DATE_ADD DATE_DIFF
    DATE_FORMAT DATE_SUB DATE_TRUNC DAY DAYOFMONTH DAYOFWEEK DAYOFYEAR EXP EXTRACT FLOOR FROM_UNIXTIME HOUR INITCAP
    INSTR LCASE LEFT LENGTH LEVENSHTEIN LN LOG LOG10 LOG2 LOWER LPAD LTRIM MD5 MINUTE MOD MONTH NEGATIVE PMOD
    POSITION POW POWER QUARTER REGEXP_EXTRACT REGEXP_REPLACE REPEAT REPLACE REVERSE RIGHT ROUND RPAD RTRIM SECOND
    SHA1 SIGN SIGNUM SIN SQRT SUBSTR SUBSTRING TAN TO_DATE TO_TIMESTAMP TRANSLATE TRIM TRUNC UCASE UNIX_TIMESTAMP
    UPPER WEEKDAY WEEKOFYEAR YEAR""".split()
)


class ConditionSplitter:
    """Splits the conditions of one clause. Row expressions go to ``inputs``."""

    def __init__(
        self, scope: Scope, inputs: Inputs, ordered: bool, finished: int = 0, ansi: bool = True, distances: Mapping[tuple[int, int], Distance] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        self.scope = scope
        self.inputs = inputs
        self.ordered = ordered
        self.ansi = ansi
        self._failing: dict[Span, records.Failing] = {}  # expressions that may fail, in the order of their numbers
        self.distances = distances  # distances between variables that are equal in every match
        self.finished = finished  # mask of the variables whose conditions read the finished match: under ~, in a side of &
        self._ordered: dict[str, str] = {}
        self._in_prior = False
        self._labels: dict[Span, str | None] = {}  # calls of CLASSIFIER, and navigations to one, whose variable is known, with its name
        self._by_labels = 0  # how many functions of CLASSIFIER became choices by variable

    def ordered_inputs(self) -> tuple[records.Computed, ...]:
        """Input columns that Spark computes by windows over the clause's order.

        :data:`ORDER` is the placeholder for the window's specification.
        """
        return tuple(records.Computed(name, text) for text, name in self._ordered.items())

    def failing(self) -> tuple[records.Failing, ...]:
        """The expressions whose numbers :class:`sparkcep.plan.records.Checked` holds."""
        return tuple(self._failing.values())

    def _checked(self, expr: Expr, text: str, read: Callable[[str], tuple]) -> tuple:
        """The tree that ``read`` makes of the input column for the row expression ``text``.

        A fallible expression is checked against its mark.
        """
        if not fallible.may_fail(expr, self.ansi):
            return read(self.inputs.column(text))
        catcher = self._catcher(expr)
        return self._marked(expr, read(self.inputs.column(catcher.value(text))), read(self.inputs.column(catcher.failure(text))))

    def _marked(self, expr: Expr, tree: tuple, failed: tuple) -> records.Checked:
        text, span = self.scope.text, expr.span
        if span not in self._failing:
            self._failing[span] = records.Failing(fallible.error_class(expr, self.ansi), *position(text, span.start), span.of(text).split("\n")[0][:40])
        return records.Checked("checked", tree, failed, list(self._failing).index(span))

    def _catcher(self, *parts: Expr) -> failing.Catcher:
        return fallible.catcher(parts, self.ansi, self.scope.row_text)

    def _over_order(self, text: str, expr: Expr) -> str:
        if not self.ordered:
            raise self._dependent(expr, "a Spark function over several rows needs an order. Add ORDER BY to the clause")
        return self._ordered.setdefault(text, f"__w{len(self._ordered)}")

    def _dependent(self, expr: Expr, message: str) -> ClauseError:
        return self.scope.error(expr, "MATCH_DEPENDENT_EXPRESSION", message, UNSUPPORTED)

    def split(self, condition: Expr, variable: int, implied: Mapping[Span, str] = MappingProxyType({})) -> tuple[list[fallible.RowPart], list, list[Span]]:
        """Splits the condition of a variable.

        Args:
            condition: the condition.
            variable: number of the variable.
            implied: conjuncts that hold whenever a column is not NULL, with the column as text.

        Returns:
            The row-local top-level conjuncts, the trees of the other ones, and the places of these other ones.
        """
        self.scope.check_semantics(condition)
        self._check_boolean(condition.bare(), variable)
        rows: list[fallible.RowPart] = []
        others, spans = [], []
        for conjunct in conjuncts(condition):
            if conjunct.span in implied:
                rows.append(fallible.RowPart(f"({implied[conjunct.span]} IS NOT NULL)"))
                continue
            refs = self._rows(conjunct, variable)
            if all(r == Row("cur") for r in refs) and not any(True for _ in self._special(conjunct)):
                text = f"({self._cur_text(conjunct, variable)})"
                if others and fallible.computes(conjunct, self.ansi):
                    # earlier conjuncts, which Spark does not compute, may exclude the rows on which this one fails
                    catcher = self._catcher(conjunct)
                    rows.append(fallible.RowPart(f"COALESCE({catcher.value(text)}, {catcher.failure(text)})"))
                    others.append(self._checked(conjunct, text, lambda column: records.Here("col", column)))
                    spans.append(conjunct.span)
                else:
                    rows.append(fallible.RowPart(text, conjunct))
            else:
                others.append(self._with_first_iteration(conjunct, variable))
                spans.append(conjunct.span)
        return rows, others, spans

    def over_rows(self, expr: Expr, variable: int) -> str | None:
        """The text of an expression over a row and its physical neighbours. None if it reads other rows of the match.

        Neighbours are read by lag and lead over :data:`ORDER`.
        """
        rows = self._rows(expr, variable)
        if any(row.which != "cur" or (row.physical and not self.ordered) for row in rows) or any(True for _ in self._special(expr)):
            return None
        return self._lagged(expr, variable)

    def tree(self, expr: Expr, variable: int, *, conjunct: bool = False) -> tuple:
        """The tree of an expression in the condition of a variable. ``conjunct``: it is an operand of the condition's top AND."""
        return self._with_first_iteration(expr, variable) if conjunct else self._lower(expr, variable)

    def _check_boolean(self, condition: Expr, variable: int) -> None:
        if condition.op == "lit" and (condition.value == "NULL" or str(condition.value)[0] in ".0123456789"):
            of = self.scope.variables[variable]
            message = f"the condition of {of} is {condition.value}, not BOOLEAN. Write a comparison, TRUE or FALSE"
            raise self.scope.error(condition, "DATATYPE_MISMATCH", message)

    # -- references -----------------------------------------------------------------------------------------

    def _with_first_iteration(self, conjunct: Expr, variable: int):
        """The conjunct's tree.

        A conjunct with PRIOR that is NULL on the first iteration counts as true there: the paper's "i > 1".
        """
        tree, bare = self._lower(conjunct, variable), conjunct.bare()
        if not _holds_prior(bare):
            return tree
        # for a comparison, test an operand for NULL, because <=> is never NULL
        compared = (bare.op == "bin" and bare.value in _COMPARISONS) or (bare.op == "is" and bare.value == "DISTINCT")
        asked = [self._lower(arg, variable) for arg in bare.args if _holds_prior(arg)] if compared else [tree]
        # the conjunct comes first, because it decides alone if it is true
        first, absent = records.IsFirst("isfirst", 1 << variable), [("call", "isnull", one) for one in asked]
        return ("call", "or", tree, ("call", "and", first, _chain("or", absent)))

    def _row_of(self, mask: int | None, variable: int) -> Row:
        """The row that a reference outside navigation reads."""
        if self._in_prior:
            return Row("L", ALL_ROWS if mask is None else mask)
        if mask is None or mask == 1 << variable:
            return Row("cur")
        if (mask == ALL_ROWS or mask >> variable & 1) and not self.finished >> variable & 1:
            return Row("cur")
        return self._fixed(Row("L", mask), variable)

    def _fixed(self, row: Row, variable: int) -> Row:
        """The row as a physical neighbour of the candidate row, if their distance is fixed. Otherwise the row itself."""
        if row.mask == ALL_ROWS and row.which == "F":
            found = self.distances.get((ALL_ROWS, variable))
            return row if found is None or row.logical > found.rows else Row("cur", physical=row.physical + row.logical - found.rows)
        if row.logical or row.mask <= 0 or row.mask & row.mask - 1:
            return row
        found = self.distances.get((row.mask.bit_length() - 1, variable))
        if found is None or (row.which == "F" and not found.only):
            return row
        return Row("cur", physical=row.physical - found.rows)

    def row(self, reference: Expr, variable: int) -> Row:
        """The row that a column reference, or FIRST or LAST of one, reads in the variable's condition."""
        return next(iter(self._rows(reference, variable)))

    def _nav_row(self, node: Expr, variable: int) -> tuple[Row, Expr]:
        row, body = self.scope.navigation(node, in_define=True)
        mapped = row.mask == ALL_ROWS or row.mask >> variable & 1
        if self.finished >> variable & 1:
            # The match continues after the variable's own row. PREV(x) of a bare column reads that row's neighbour.
            bare = node.value != "LAST" and node.args[0].bare().value != "LAST" and row.mask == ALL_ROWS
            mapped = bare or row.mask == 1 << variable
        if row.which == "L" and row.logical == 0 and mapped and not self._in_prior:
            row = Row("cur", physical=row.physical)
        elif not self._in_prior and not self.finished >> variable & 1:
            row = self._fixed(row, variable)
        return row, body

    def _rows(self, expr: Expr, variable: int, *, around: bool = True) -> set[Row]:
        """Every row that ``expr`` reads. ``around``: with the row that a subquery may read."""
        scope = self.scope
        out: set[Row] = set()
        inner = list(self._match_functions(expr))
        spans = {m.span for m in inner} | self._labels.keys()
        for m in inner:
            if m.value in NAVIGATIONS:
                row, body = self._nav_row(m, variable)
                if any(f.value == "CLASSIFIER" for f in self._match_functions(body)):
                    out.add(Row("special"))
                out.add(row)
            elif m.value in AGGREGATES or m.value in ("CLASSIFIER", "MATCH_NUMBER", PRIOR, *OF_MATCHES):
                out.add(Row("special"))
        # a subquery may read columns of the row around it, which is that of the condition
        within = {Row("cur") for node in self._subqueries(expr, variable) if around and not any(span.holds(node.span) for span in spans)}
        return out | within | {self._row_of(scope.qualifier(node), variable) for node in scope.columns_outside(expr, spans)}

    def _subqueries(self, expr: Expr, variable: int) -> Iterator[Expr]:
        """The subqueries in ``expr``, without those of an IN over rows of the match."""
        if expr.op == "in" and expr.value == "query" and any(row.which != "cur" for row in self._rows(expr.args[0], variable)):
            return
        if expr.op == "subquery":
            yield expr
        for arg in expr.args:
            yield from self._subqueries(arg, variable)

    def _names_outside(self, expr: Expr) -> bool:
        """Whether a subquery in ``expr`` reads ``t.c`` and does not name a table ``t``."""
        for node in expr.walk():
            if node.op == "subquery":
                tokens = tokenize(node.span.of(self.scope.text))
                words = [(before, name_of(word).lower(), behind) for before, word, behind in zip(tokens, tokens[1:], tokens[2:]) if word.kind in (WORD, QUOTED)]
                own = {name for before, name, behind in words if behind.text != "."}
                # a name with a dot after FROM is that of a table
                qualified = {name for before, name, behind in words if behind.text == "." and before.text not in (".", ",") and before.upper not in ("FROM", "JOIN")}
                if qualified - own:
                    return True
        return False

    def _match_functions(self, expr: Expr) -> Iterator[Expr]:
        """The scope's match functions in ``expr``, without calls whose value is known."""
        return (m for m in self.scope.match_functions(expr) if m.span not in self._labels)

    def _row_text(self, expr: Expr) -> str:
        return self.scope.row_text(expr, None, {span: _label_text(label) for span, label in self._labels.items()})

    def _special(self, expr: Expr):
        for m in self.scope.match_functions(expr):
            if m.value not in NAVIGATIONS:
                yield m
            elif any(f.value == "CLASSIFIER" for f in self.scope.match_functions(m.args[0])):
                yield m

    def _cur_text(self, expr: Expr, variable: int, wrap=None) -> str:
        """Text over the row that is read: navigations are replaced by their bodies, and qualifiers are dropped."""
        swaps = self._known(expr)
        for m in self._match_functions(expr):
            _, body = self._nav_row(m, variable)
            inner = "(" + self._row_text(body) + ")"
            swaps[m.span] = wrap(inner) if wrap else inner
        swaps |= {node.span: self.scope.row_text(node, wrap) for node in self.scope.columns_outside(expr, swaps)}
        return render_values(self.scope.text, expr, swaps)

    def _known(self, expr: Expr) -> dict[Span, str]:
        """The texts of the outermost calls in ``expr`` whose value is known."""
        return {m.span: _label_text(self._labels[m.span]) for m in self.scope.match_functions(expr) if m.span in self._labels}

    # -- lowering -------------------------------------------------------------------------------------------

    def _lower(self, expr: Expr, variable: int):
        expr = expr.bare()
        if expr.span in self._labels:
            label = self._labels[expr.span]
            return _NULL if label is None else Lit("lit", "string", label)
        rows = self._rows(expr, variable)
        special = Row("special") in rows
        if not special and len(rows) <= 1:
            row = next(iter(rows), Row("cur"))
            if row == Row("cur") and (literal := literal_tree(expr)) is not None:
                return literal
            if row == Row("cur") or self._strict(expr):
                return self._checked(expr, self._cur_text(expr, variable), lambda column: self._at(row, column, None))
        before, chosen = (dict(self._ordered), self.inputs.mark(), dict(self._failing)), self._by_labels
        native = self._native(expr, variable)
        # If Spark computes part of an expression over one other row, it computes the whole expression, at that row.
        whole = not special and len(rows) == 1 and (native is None or self._computed_in_part(native))
        if native is not None and not whole:
            by_label = special and self._by_labels > chosen and _compares(expr) and self._labelled(expr, variable)
            if not by_label and (special or not self._compares_for_spark(expr, native, rows)):
                return native
        self._ordered, self._failing = before[0], before[2]
        self.inputs.back_to(before[1])
        has_query = any(n.op == "subquery" for n in expr.walk())
        if not special and has_query:
            moved = self._rows(expr, variable, around=False)
            if len(moved) == 1 and next(iter(moved)).which != "cur":
                # names without a table are taken for those of the subquery's own tables
                whole, rows = not self._names_outside(expr), moved
        if whole:
            row = next(iter(rows))
            absent = self._cur_text(expr, variable, lambda text: f"IF(false, {text}, NULL)")
            if not fallible.may_fail(expr, self.ansi):
                return self._at(row, self.inputs.column(self._cur_text(expr, variable)), self.inputs.column(absent))
            text, catcher = self._cur_text(expr, variable), self._catcher(expr)
            columns = [(self.inputs.column(of(text)), self.inputs.column(of(absent))) for of in (catcher.value, catcher.failure)]
            return self._marked(expr, *(self._at(row, *pair) for pair in columns))
        if not special and all(r.which == "cur" for r in rows):
            text, catcher = self._lagged(expr, variable), self._catcher(expr)
            if not fallible.may_fail(expr, self.ansi):
                return records.Here("col", self._over_order(text, expr))
            return self._marked(expr, *(records.Here("col", self._over_order(of(text), expr)) for of in (catcher.value, catcher.failure)))
        others = [r for r in rows if r.which != "cur"]
        if not special and len(others) <= MAX_PAIRED and not has_query:
            return self._paired(expr, variable, others)
        if special and (labelled := self._labelled(expr, variable)):
            return self._by_label(expr, variable, *labelled)
        what = f"{expr.value}()" if expr.op == "call" else f"this {_spoken(expr)}"
        if has_query:
            beside = "combines a subquery with values of the match, which DEFINE does not compute"
            raise self._dependent(expr, f"{what} {beside}. Join the table below the clause instead")
        most = MAX_PAIRED + 1
        instead = f"Apply it to at most {most} rows of the match, or to CLASSIFIER() of few of them"
        if any(f.value in AGGREGATES or f.value == "MATCH_NUMBER" for f in self._match_functions(expr)):
            instead = "Compare the value itself with =, <, IN or CASE, compute with + - * / and number functions, or use the function in MEASURES"
        raise self._dependent(expr, f"{what} reads an aggregate, MATCH_NUMBER() or more than {most} rows of the match at once, which DEFINE does not compute. {instead}")

    def _labelled(self, expr: Expr, variable: int) -> tuple[records.Label, tuple[Span, ...], list[str | None]] | None:
        """The first CLASSIFIER in an expression that reads only columns and CLASSIFIERs.

        Returns its tree, the calls that evaluate it, and its possible values. None for any other expression, or if there are too
        many ways.
        """
        found: dict[records.Label, list[Span]] = {}
        for m in self._match_functions(expr):
            if m.value == "CLASSIFIER":
                row, spans = self._row_of(self.scope.classifier_mask(m), variable), [m.span]
            elif m.value in NAVIGATIONS:
                row, body = self._nav_row(m, variable)
                spans = [f.span for f in self._match_functions(body)]
                if body.bare().span in spans:
                    spans = [m.span]
            else:
                return None
            if spans:
                found.setdefault(records.Label("cls", row.which, row.mask, row.logical, row.physical), []).extend(spans)
        ways = 1
        for tree in found:
            ways *= len(self._may_be(tree, variable))
        if not found or ways > MAX_LABELLED:
            return None
        tree, spans = next(iter(found.items()))
        return tree, tuple(spans), self._may_be(tree, variable)

    def _may_be(self, tree: records.Label, variable: int) -> list[str | None]:
        """The possible values of a CLASSIFIER: names of variables, and None for NULL."""
        if tree.which == "cur" and not tree.physical:
            return [self.scope.variables[variable]]
        return [name for v, name in enumerate(self.scope.variables) if tree.physical or tree.mask >> v & 1] + [None]

    def _by_label(self, expr: Expr, variable: int, tree: records.Label, spans: tuple[Span, ...], labels: list[str | None]) -> tuple:
        """A Spark function of CLASSIFIER: a choice, by variable, between values that Spark computes for each variable."""
        self._by_labels += 1
        chosen = None
        for label in reversed(labels):
            self._labels.update(dict.fromkeys(spans, label))
            value = self._lower(expr, variable)
            chosen = value if chosen is None else ("call", "if", ("call", "=", tree, Lit("lit", "string", label)), value, chosen)
        for span in spans:
            del self._labels[span]
        assert chosen is not None
        return chosen

    def _computed_in_part(self, tree: tuple) -> bool:
        """Whether a tree holds values of another row that are not plain columns of the input, or a CAST, perhaps of a string."""
        texts = dict(self.inputs.columns())
        nodes = list(walk(tree))
        return any(n[0] in ("off", "nav") and not _NAMED.fullmatch(texts[n.column]) or n[:2] in (("call", "cast"), ("call", "try_cast")) for n in nodes)

    def _compares_for_spark(self, expr: Expr, tree: tuple, rows: set[Row]) -> bool:
        """Whether Spark should compute a whole comparison, because Spark computes one of its operands at the same rows.

        Spark then compares by its own types and collations, and ships only a BOOLEAN.
        """
        if not _compares(expr) or any(n.op == "subquery" for n in expr.walk()):
            return False
        leaves = list(_operands(tree))
        others = {(r.which, r.mask, r.logical, r.physical) for r in rows if r.which != "cur"}
        return not any(leaf[0] == "call" for leaf in leaves) and any(
            set(leaf.rows) == others if leaf[0] == "pair" else not others and leaf[0] == "col" and leaf.column in self._ordered.values()
            for leaf in leaves
        )

    def _at(self, row: Row, column: str, absent: str | None) -> records.Here | records.Near | records.At:
        if row == Row("cur"):
            return records.Here("col", column)
        if row.which == "cur":
            return records.Near("off", column, row.physical, absent)
        return records.At("nav", row.which, row.mask, row.logical, row.physical, column, absent)

    def _strict(self, expr: Expr) -> bool:
        """Whether ``expr`` is certainly NULL if its row is absent: every path to a column propagates NULL."""
        expr = expr.bare()
        if expr.op == "col":
            return True
        if expr.op == "call" and expr.value in NAVIGATIONS:
            return True
        if expr.op == "bin" and expr.value != "<=>":
            return any(self._strict(a) for a in expr.args)
        if expr.op in ("un", "field", "cast", "like", "index"):
            return self._strict(expr.args[0])
        if expr.op in ("between", "in") and expr.value is None and any(_text(item) is not None for item in expr.args[1:]):
            return self._strict(expr.args[0])  # only Spark converts a string to a date, and knows collations
        if expr.op == "call" and expr.value in _STRICT_CALLS and not expr.flags:
            return any(self._strict(a) for a in expr.args)
        return False

    def _lagged(self, expr: Expr, variable: int, fields: dict[Row, str] | None = None, bodies: dict[str, str] | None = None) -> str:
        """Text of a function over physical neighbours, with lag and lead.

        ``fields`` maps rows to variables of a lambda: navigations to these rows read the variable's fields. The fields are
        collected in ``bodies`` (row expression to field name).
        """
        swaps = self._known(expr)

        def at(row: Row, text: str) -> str:
            if fields and row in fields:
                return f"{fields[row]}.{bodies.setdefault(text, f'a{len(bodies)}')}"
            if row.physical:
                name = "lag" if row.physical < 0 else "lead"
                text = f"{name}({text}, {abs(row.physical)}) OVER ({ORDER})"
            return f"({text})"

        for m in self._match_functions(expr):
            row, body = self._nav_row(m, variable)
            if fallible.may_fail(body, self.ansi):
                # computed only where its value is read, from the columns at that row
                parts = {part.span: at(row, self._row_text(part)) for part in fallible.pieces(body, self.ansi)}
                swaps[m.span] = f"IF({at(row, 'true')}, {render_values(self.scope.text, body, parts)}, NULL)"
            else:
                swaps[m.span] = at(row, self._row_text(body))
        for node in self.scope.columns_outside(expr, swaps):
            row = self._row_of(self.scope.qualifier(node), variable)
            if node.op != "star" or row != Row("cur"):  # no parentheses around a star
                swaps[node.span] = at(row, self.scope.row_text(node))
        return render_values(self.scope.text, expr, swaps)

    def _paired(self, expr: Expr, variable: int, others: list[Row]):
        """A Spark function over the current row and one or two other rows of the match.

        Spark computes it for every row that may be read, as an array whose last element is for no row (for two rows: row-major).
        These are the rows so far, or all rows of the partition if the condition reads the finished match. The cost is quadratic in
        the partition's rows, but any function means what it means everywhere in Spark. The kernel picks the element.
        """
        others.sort(key=lambda r: (r.which, r.mask, r.logical, r.physical))
        names = [f"__e{i}" for i in range(len(others))]
        bodies: dict[str, str] = {}
        text = self._lagged(expr, variable, dict(zip(others, names)), bodies)
        ahead = max(0, *(r.physical for r in others))
        last = "UNBOUNDED FOLLOWING" if self.finished >> variable & 1 else f"{ahead} FOLLOWING" if ahead else "CURRENT ROW"
        frame = f"ROWS BETWEEN UNBOUNDED PRECEDING AND {last}"
        struct = ", ".join(f"'{name}', {body}" for body, name in bodies.items())
        rows = f"array_append(collect_list(named_struct({struct})) OVER ({ORDER} {frame}), NULL)"
        number = self._over_order(ROW_NUMBER, expr)
        places = tuple(records.RowAt(r.which, r.mask, r.logical, r.physical) for r in others)

        def paired(text: str) -> records.Pair:
            for name in reversed(names):
                text = f"transform({rows}, {name} -> {text})"
            if len(names) > 1:
                text = f"flatten({text})"
            return records.Pair("pair", self._over_order(text, expr), number, places)

        if fallible.may_fail(expr, self.ansi):
            catcher = fallible.Catcher()  # Spark computes no part of a lambda ahead
            return self._marked(expr, paired(catcher.value(text)), paired(catcher.failure(text)))
        return paired(text)

    def _native(self, expr: Expr, variable: int):
        """The tree of an operator that the engine computes itself. None for any other expression."""

        def low(e: Expr):
            return self._lower(e, variable)

        op, args = expr.op, expr.args
        if op in ("and", "or"):
            decides = "FALSE" if op == "and" else "TRUE"
            if any(a.bare().op == "lit" and a.bare().value == decides for a in args):
                return Lit("lit", "bool", decides)  # Spark's optimizer does not compute the rest either
            return ("call", op, *map(low, args))
        if op == "un":
            if expr.value == "NOT":
                return ("call", "not", low(args[0]))
            if expr.value in "+-":
                return low(args[0]) if expr.value == "+" else ("call", "neg", low(args[0]))
            return None
        if op == "bin" and expr.value in ("=", "!=") and (labels := self._label_sequence(expr)) is not None:
            return labels if expr.value == "=" else ("call", "not", labels)
        if op == "bin" and expr.value in _BINARY:
            return ("call", expr.value.lower(), low(args[0]), low(args[1]))
        if op == "between":
            return _negate(expr, ("call", "and", self._bounded(expr, ">=", args[1], variable), self._bounded(expr, "<=", args[2], variable)))
        if op == "in" and expr.value is None:
            return _negate(expr, _in(low(args[0]), [low(a) for a in args[1:]]))
        if op == "is":
            if expr.value == "DISTINCT":
                same = ("call", "<=>", low(args[0]), low(args[1]))
                return same if "not" in expr.flags else ("call", "not", same)
            name = {"NULL": "isnull", "UNKNOWN": "isnull", "TRUE": "istrue", "FALSE": "isfalse"}[expr.value]
            return _negate(expr, ("call", name, low(args[0])))
        if op == "case":
            return self._case(expr, low)
        if op == "cast" and expr.value.lower().partition("(")[0].strip() in NUMBER_TYPES:
            return ("call", "try_cast" if "try" in expr.flags else "cast", low(args[0]), Lit("lit", "type", expr.value.lower()))
        if op == "call":
            return self._call(expr, variable, low)
        return None

    def _bounded(self, between: Expr, operator: str, bound: Expr, variable: int):
        """A comparison of BETWEEN with a bound. Only Spark converts a string or a parameter to the type of the other side."""
        value = between.args[0]
        test = replace(between, op="bin", value=operator, args=(value, bound), flags=frozenset())
        rows = self._rows(test, variable)
        row = next(iter(rows), Row("cur"))
        if len(rows) == 1 and row != Row("special") and (row == Row("cur") or self._strict(test)) and any(_is_given(side) for side in test.args):
            text = f"({self._cur_text(value, variable)}) {operator} ({self._cur_text(bound, variable)})"
            return self._checked(test, text, lambda column: self._at(row, column, None))
        return ("call", operator, self._lower(value, variable), self._lower(bound, variable))

    def _case(self, expr: Expr, low):
        args = list(expr.args)
        subject = low(args.pop(0)) if expr.value.startswith("o") else None
        default = low(args.pop()) if expr.value.endswith("e") else _NULL
        branches = []
        for when, then in zip(args[::2], args[1::2]):
            branches += [low(when) if subject is None else ("call", "=", subject, low(when)), low(then)]
        return ("call", "if", *branches, default)

    def _call(self, expr: Expr, variable: int, low):
        name, scope = expr.value, self.scope
        if name == "MATCH_NUMBER":
            if expr.args:
                raise scope.error(expr, "MATCH_NUMBER", "MATCH_NUMBER takes no argument")
            return ("mno",)
        if name == "CLASSIFIER":
            mask = scope.classifier_mask(expr)
            row = self._row_of(mask, variable)
            return records.Label("cls", row.which, row.mask if row.physical else mask, 0, row.physical)
        if name in NAVIGATIONS:
            row, body = self._nav_row(expr, variable)
            inner = body.bare()
            if inner.op == "call" and inner.value == "CLASSIFIER":
                scope.classifier_mask(inner)
                return records.Label("cls", row.which, row.mask, row.logical, row.physical)
            return None
        if name in STATUSES:
            raise scope.error(expr, "UNFINISHED", f"{name}() can be used only in MEASURES, with SHOW UNFINISHED MATCHES. Leave it out of DEFINE", SYNTAX)
        if name in OF_MATCHES:
            raise scope.error(expr, name, f"{name}() can be used only in MEASURES")
        if name == PRIOR:
            return self._prior(expr, variable)
        if name in AGGREGATES:
            return self._aggregate(expr)
        if name in _OF_LISTS:
            return self._of_array(expr, low) or self._of_list(expr)
        if name in _DIFFERENCES and len(expr.args) == 3 and expr.args[0].value in UNIT_MICROS and not expr.flags:
            unit, *times = expr.args
            if not all(self._of_one_row(time, variable) or Row("special") in self._rows(time, variable) for time in times):
                return None
            return ("call", "timestampdiff", Lit("lit", "type", str(unit.value).lower()), *(self._as_time(time, "TIMESTAMP", variable) for time in times))
        bounds = _FUNCTIONS.get(name)
        if bounds is None or expr.flags or not bounds[0] <= len(expr.args) <= bounds[1]:
            return None
        name = _ALIASES.get(name, name)
        if name == "IF" and expr.args[0].bare().op == "lit" and expr.args[0].bare().value in ("TRUE", "FALSE"):
            return low(expr.args[1 if expr.args[0].bare().value == "TRUE" else 2])
        if name == "POSITIVE":
            return low(expr.args[0])
        if name == "NVL2":
            x, a, b = map(low, expr.args)
            return ("call", "if", ("call", "isnull", x), b, a)
        if name == "NULLIF":
            x, y = map(low, expr.args)
            return ("call", "if", ("call", "=", x, y), _NULL, x)
        if name == "ISNOTNULL":
            return ("call", "not", ("call", "isnull", low(expr.args[0])))
        if name == "NEGATIVE":
            return ("call", "neg", low(expr.args[0]))
        if name == "ROUND" and len(expr.args) == 2 and not str(expr.args[1].bare().value).isdigit():
            return None
        if name == "DATEDIFF":
            return ("call", "datediff", *(self._as_time(a, "DATE", variable) for a in expr.args))
        return ("call", name.lower(), *map(low, expr.args))

    def _of_one_row(self, expr: Expr, variable: int) -> bool:
        """Whether Spark can compute ``expr`` for the row that it reads, and its value for an absent row is NULL."""
        rows = self._rows(expr, variable)
        return len(rows) == 1 and Row("special") not in rows and self._strict(expr)

    def _as_time(self, expr: Expr, kind: str, variable: int):
        """``expr`` as a DATE or TIMESTAMP. Spark casts the row that is read, in the session's time zone."""
        if self._of_one_row(expr, variable):
            row = next(iter(self._rows(expr, variable)))
            time = replace(expr, op="cast", value=kind, args=(expr,), flags=frozenset())
            text = _AS_TIME[kind].format(self._cur_text(expr, variable))
            return self._checked(time, text, lambda column: self._at(row, column, None))
        return self._lower(expr, variable)

    def _prior(self, expr: Expr, variable: int):
        if len(expr.args) != 1 or expr.flags:
            raise self.scope.error(expr, "PRIOR", "PRIOR takes one expression, such as PRIOR(AVG(A.price))")
        if self._in_prior:
            raise self.scope.error(expr, "PRIOR", "PRIOR cannot be nested in PRIOR")
        self._in_prior = True
        try:
            return records.Prior("prior", 1 << variable, self._lower(expr.args[0], variable))
        finally:
            self._in_prior = False

    def _of_array(self, expr: Expr, low):
        """The tree for array_max or array_min over an ARRAY call, as greatest or least of its elements. None for any other call."""
        inner = expr.args[0].bare() if len(expr.args) == 1 else None
        if inner is None or inner.op != "call" or inner.value != "ARRAY" or not inner.args or expr.value not in ("ARRAY_MAX", "ARRAY_MIN"):
            return None
        values = [low(a) for a in inner.args]
        return values[0] if len(values) == 1 else ("call", "greatest" if expr.value == "ARRAY_MAX" else "least", *values)

    def _of_list(self, expr: Expr):
        """A function of array_agg, collect_list or collect_set as an equivalent aggregate. None for any other call."""
        distinct = False
        inner = expr.args[0].bare() if len(expr.args) == 1 else None
        if inner is not None and inner.value == "ARRAY_DISTINCT" and len(inner.args) == 1:
            distinct, inner = True, inner.args[0].bare()
        if inner is None or inner.op != "call" or inner.value not in _LISTS:
            return None
        name, flags = _OF_LISTS[expr.value], inner.flags
        if name == "COUNT" and (distinct or inner.value == "COLLECT_SET"):
            flags = flags | {"distinct"}
        found = self._aggregate(replace(inner, value=name, flags=flags))
        return ("call", "cast", found, Lit("lit", "type", "int")) if name == "COUNT" else found  # a size is an INT

    def _over_labels(self, expr: Expr, name: str, mask: int, arguments: tuple[Expr, ...], conditions: tuple[Expr, ...]) -> tuple:
        """An aggregate whose argument or filter contains CLASSIFIER.

        It combines one aggregate per variable, for which CLASSIFIER is a constant.
        """
        parts = (*arguments, *conditions)
        labels = [f for part in parts for f in self._match_functions(part) if f.value == "CLASSIFIER"]
        bare = len(arguments) == 1 and arguments[0].bare().span in {f.span for f in labels}
        distinct = "distinct" in expr.flags and name not in ("MIN", "MAX", "BOOL_AND", "BOOL_OR")
        if name not in ("COUNT", "COUNT_IF", "SUM", "MIN", "MAX", "BOOL_AND", "BOOL_OR") or (distinct and not (name == "COUNT" and bare)):
            taken = "count, count_if, sum, min, max, bool_and, bool_or and count(DISTINCT CLASSIFIER())"
            raise self._no_aggregate(expr, f"over CLASSIFIER(), DEFINE takes {taken}, not this {expr.value}")
        whole = name == "COUNT" and not distinct and bare and not any(f.span.start >= c.span.start for f in labels for c in conditions)
        if whole:  # every row has a label
            return self._of_rows("COUNT", mask, (), conditions, False)
        chosen = []
        for v, label in enumerate(self.scope.variables):
            if mask >> v & 1:
                self._labels.update({f.span: label for f in labels})
                found = ("call", ">", self._of_rows("COUNT", 1 << v, (), conditions, False), _ZERO) if bare else None
                if distinct:
                    chosen.append(("call", "if", found, _ONE, _ZERO))
                elif bare:
                    chosen.append(("call", "if", found, Lit("lit", "string", label), _NULL))
                else:
                    chosen.append(self._of_rows(name, 1 << v, arguments, conditions, False))
        for f in labels:
            self._labels.pop(f.span, None)
        if len(chosen) == 1:
            return chosen[0]
        if name in ("COUNT", "COUNT_IF"):
            return _chain("+", chosen)
        if name == "SUM":
            return ("call", records.SUMS, *chosen)
        return ("call", "least" if name in ("MIN", "BOOL_AND") else "greatest", *chosen)

    def _over_number(self, expr: Expr, name: str, mask: int, arguments: tuple[Expr, ...], conditions: tuple[Expr, ...]) -> tuple:
        """An aggregate whose argument or filter contains MATCH_NUMBER(), which is constant while a match is tried."""
        of_number = [c for condition in conditions for c in conjuncts(condition) if self._numbered(c)]
        rest = tuple(c for condition in conditions for c in conjuncts(condition) if not self._numbered(c))
        distinct = "distinct" in expr.flags
        apart = next((a for a in (*arguments[1:], *filter(self._reads_rows, of_number)) if self._numbered(a)), None)
        if apart is not None:
            raise self._beside_number(expr, apart)
        if arguments and self._numbered(arguments[0]):
            tree = self._of_number(expr, name, mask, arguments, rest, distinct)
        else:
            tree = self._aggregate_of(expr, name, mask, arguments, rest)
        if not of_number:
            return tree
        kept = _chain("and", (self._lower(c, -1) for c in of_number))
        return ("call", "if", kept, tree, _ZERO if name in ("COUNT", "COUNT_IF") else _NULL)

    def _of_number(self, expr: Expr, name: str, mask: int, arguments: tuple[Expr, ...], rest: tuple[Expr, ...], distinct: bool) -> tuple:
        """An aggregate whose argument contains MATCH_NUMBER(): constant, or a constant added to (or times) a row's value."""
        argument = arguments[0].bare()
        if not self._reads_rows(argument):
            value, rows = self._lower(argument, -1), self._of_rows("COUNT", mask, (), rest, False)
            some = ("call", ">", rows, _ZERO)
            counted = _once(rows) if distinct else rows
            if name in ("MAX_BY", "MIN_BY") and len(arguments) == 2:
                keyed = ("call", ">", self._aggregate_of(expr, "COUNT", mask, arguments[1:], rest), _ZERO)
                return ("call", "if", keyed, value, _NULL)
            if name == "COUNT":
                return ("call", "if", ("call", "isnull", value), _ZERO, counted)
            if name == "COUNT_IF":
                return ("call", "if", value, counted, _ZERO)
            if name in ("MIN", "MAX", "BOOL_AND", "BOOL_OR", "ANY_VALUE", "FIRST_VALUE", "LAST_VALUE") or (name == "SUM" and distinct):
                return ("call", "if", some, value, _NULL)
            if name in ("SUM", "AVG"):
                total = ("call", "exact", ("call", "*", value, rows))
                return ("call", "if", some, total if name == "SUM" else ("call", "/", total, rows), _NULL)
        elif argument.op == "bin" and not distinct and (found := self._constant_beside(argument)) is not None:
            constant, of_row, swapped = found
            n = self._lower(constant, -1)
            if name in ("MIN", "MAX") and argument.value in ("+", "-"):
                if swapped and argument.value == "-":
                    name = "MAX" if name == "MIN" else "MIN"
                rows = self._aggregate_of(expr, name, mask, (of_row,), rest)
                return ("call", argument.value, n, rows) if swapped else ("call", argument.value, rows, n)
            if name == "SUM" and argument.value in ("+", "-", "*"):
                rows = self._aggregate_of(expr, "SUM", mask, (of_row,), rest)
                if argument.value != "*":
                    n = ("call", "exact", ("call", "*", n, self._aggregate_of(expr, "COUNT", mask, (of_row,), rest)))
                return ("call", "exact", ("call", argument.value, *((n, rows) if swapped else (rows, n))))
        raise self._beside_number(expr, argument)

    def _constant_beside(self, argument: Expr) -> tuple[Expr, Expr, bool] | None:
        """The operand with MATCH_NUMBER(), the operand that reads the row, and whether the first of them is the left one."""
        for constant, of_row in (argument.args, argument.args[::-1]):
            if self._numbered(constant) and not self._reads_rows(constant) and not self._numbered(of_row):
                return constant, of_row, constant is argument.args[0]
        return None

    def _beside_number(self, expr: Expr, part: Expr):
        taken = "sum, min and max take x + n and x - n, and sum takes x * n. Compute with MATCH_NUMBER() outside of the aggregate"
        return self._no_aggregate(part, f"in DEFINE, {expr.value} does not take this of MATCH_NUMBER() and a row together, but {taken}")

    def _no_aggregate(self, expr: Expr, message: str) -> ClauseError:
        return self.scope.error(expr, "AGGREGATE_IN_DEFINE", message, UNSUPPORTED)

    def _numbered(self, expr: Expr) -> bool:
        return any(f.value == "MATCH_NUMBER" for f in self._match_functions(expr))

    def _reads_rows(self, expr: Expr) -> bool:
        """Whether an expression reads a column or a label."""
        return any(True for _ in self.scope.columns(expr)) or any(f.value == "CLASSIFIER" for f in self._match_functions(expr))

    def _label_sequence(self, expr: Expr):
        """The tree for ``array_agg(CLASSIFIER(U)) = array('A', 'B')`` or ``array_join(array_agg(CLASSIFIER(U)), ',') = 'A,B'``.

        It tests the number of rows and each row's label. None for any other expression.
        """
        sides = [a.bare() for a in expr.args]
        for found, other in (sides, sides[::-1]):
            joint = None
            if found.op == "call" and found.value == "ARRAY_JOIN" and len(found.args) == 2:
                found, joint = found.args[0].bare(), _text(found.args[1])
                if joint is None:
                    continue
            mask = self._label_list(found)
            if mask is None:
                continue
            if joint is None:
                wanted = [_text(a) for a in other.args] if other.op == "call" and other.value == "ARRAY" else [None]
                return None if None in wanted or len(wanted) > _MOST_LABELS else self._labels_are(mask, wanted)
            whole = _text(other)
            if whole is None:
                continue
            names = [v for i, v in enumerate(self.scope.variables) if mask >> i & 1]
            ways = _splits(whole, joint, names)
            if ways is None:
                return None
            trees = [self._labels_are(mask, way) for way in ways]
            return ("call", "or", *trees) if len(trees) > 1 else trees[0] if trees else Lit("lit", "bool", "FALSE")
        return None

    def _label_list(self, expr: Expr) -> int | None:
        """The mask of ``array_agg(CLASSIFIER(U))``. None for any other expression."""
        if expr.op != "call" or expr.value not in ("ARRAY_AGG", "COLLECT_LIST") or len(expr.args) != 1 or expr.flags:
            return None
        inner = expr.args[0].bare()
        return self.scope.classifier_mask(inner) if inner.op == "call" and inner.value == "CLASSIFIER" else None

    def _labels_are(self, mask: int, labels: Sequence[str]) -> tuple:
        count = ("call", "=", records.Running("agg", "count", mask, None, None, False), Lit("lit", "int", str(len(labels))))
        each = [("call", "=", records.Label("cls", "F", mask, i, 0), Lit("lit", "string", label)) for i, label in enumerate(labels)]
        return ("call", "and", count, *each) if each else count

    def _aggregate(self, expr: Expr):
        scope, name = self.scope, _ALIASES.get(expr.value, expr.value)
        nulls = name in _ENDS and expr.args and any(words_behind(scope.text, expr.args, (), expr, word, "NULLS") for word in ("IGNORE", "RESPECT"))
        if expr.value in _AGGREGATES and "ordered" in expr.flags and not nulls:
            raise self._no_aggregate(expr, f"{expr.value} takes no ORDER BY, IGNORE NULLS or WITHIN GROUP in DEFINE. Leave it out")
        if expr.value not in _AGGREGATES:
            known = ", ".join(sorted(_AGGREGATES))
            raise self._no_aggregate(expr, f"DEFINE does not have the aggregate {expr.value}, only {known}")
        if "final" in expr.flags:
            raise scope.error(expr, "FINAL_IN_DEFINE", "FINAL cannot be used in DEFINE, where the match is not complete. Leave FINAL out")
        mask, argument, keep = aggregate_parts(scope, expr, inside=("CLASSIFIER", "MATCH_NUMBER"))
        arguments = () if argument is None else expr.args[: len(expr.args) - (keep is not None)]
        return self._aggregate_of(expr, name, mask, arguments, () if keep is None else (keep,))

    def _aggregate_of(self, expr: Expr, name: str, mask: int, arguments: tuple[Expr, ...], conditions: tuple[Expr, ...]) -> tuple:
        if len(arguments) > 1 and name not in ("COUNT", "MAX_BY", "MIN_BY", *_ENDS):
            raise self.scope.error(expr, "AGGREGATE", f"{expr.value} takes one argument")
        if any(map(self._numbered, (*arguments, *conditions))):
            return self._over_number(expr, name, mask, arguments, conditions)
        if name in _ENDS:
            return self._end(expr, _ENDS[name], mask, arguments, conditions)
        if name in ("MAX_BY", "MIN_BY"):
            return self._by(expr, name[:3].lower(), mask, arguments, conditions)
        if any(f.value == "CLASSIFIER" for part in (*arguments, *conditions) for f in self._match_functions(part)):
            return self._over_labels(expr, name, mask, arguments, conditions)
        return self._of_rows(name, mask, arguments, conditions, "distinct" in expr.flags)

    def _of_rows(self, name: str, mask: int, arguments: tuple[Expr, ...], conditions: tuple[Expr, ...], distinct: bool) -> tuple:
        """An aggregate over values of the rows. ``arguments`` is empty for ``*``."""
        if name == "COUNT_IF" and distinct:
            return _once(self._of_rows(name, mask, arguments, conditions, False))
        if name == "COUNT_IF":
            name, arguments, conditions = "COUNT", (), (*arguments, *conditions)
        text = self._row_text(arguments[0]) if arguments else None
        if len(arguments) > 1:
            # a row counts if none of the values is NULL
            texts = [f"({self._row_text(a)})" for a in arguments]
            missing = " OR ".join(f"{t} IS NULL" for t in texts)
            text = f"IF({missing}, NULL, `struct`({', '.join(texts)}))" if distinct else f"IF({missing}, NULL, true)"
        columns, keep, failed = self._taken(mask, arguments, conditions, [] if text is None else [text])
        return self._unless(failed, records.Running("agg", name.lower(), mask, next(iter(columns), None), keep, distinct))

    def _taken(
        self, mask: int, arguments: tuple[Expr, ...], conditions: tuple[Expr, ...], texts: list[str], also: str = "",
    ) -> tuple[list[str], str | None, tuple[Expr, tuple] | None]:
        """The input columns of an aggregate.

        Args:
            mask: the variables.
            arguments: the arguments.
            conditions: the filters.
            texts: the arguments as SQL.
            also: another filter as SQL, or "".

        Returns:
            The columns of the arguments, and the column of the filter (None for all rows). For a fallible aggregate also the
            expression that may fail and a tree that counts the rows on which it does, else None.
        """
        filters = [f"({self._row_text(c)})" for c in conditions] + ([also] if also else [])
        kept = f"COALESCE({' AND '.join(filters)}, false)" if filters else ""
        fails = [part for part in (*conditions, *arguments) if fallible.may_fail(part, self.ansi)]
        if not fails:
            return [self.inputs.column(text) for text in texts], self.inputs.column(kept) if kept else None, None
        catcher = self._catcher(*fails)
        guarded = [f"CASE WHEN {kept} THEN {text} END" if kept else text for text in texts]
        columns = [self.inputs.column(catcher.value(text)) for text in guarded]
        keep = self.inputs.column(f"COALESCE({catcher.value(kept)}, false)") if kept else None
        whole = f"`struct`({', '.join(guarded or [kept])})"
        count = records.Running("agg", "count", mask, self.inputs.column(catcher.failure(whole)), None, False)
        return columns, keep, (fails[0], count)

    def _unless(self, failed: tuple[Expr, tuple] | None, tree: tuple) -> tuple:
        """The tree of an aggregate, with a check if it may fail."""
        return tree if failed is None else self._marked(failed[0], tree, failed[1])

    def _end(self, expr: Expr, which: str, mask: int, arguments: tuple[Expr, ...], conditions: tuple[Expr, ...]) -> tuple:
        """The value at the first or last row, or at the first or last one that a filter or IGNORE NULLS keeps."""
        if any(True for part in (*arguments, *conditions) for _ in self._match_functions(part)):
            if arguments[0].bare().value == "CLASSIFIER" and not conditions:
                return records.Label("cls", which, mask, 0, 0)
            raise self._no_aggregate(expr, f"{expr.value} in DEFINE takes CLASSIFIER() or values of the row. Write FIRST or LAST of it")
        ignoring = skips_nulls(self.scope.text, arguments, conditions, expr)
        text = self._row_text(arguments[0])
        if not conditions and not ignoring:
            return self._checked(arguments[0], text, lambda column: records.At("nav", which, mask, 0, 0, column, None))
        number = self._over_order(ROW_NUMBER, expr)
        columns, kept, failed = self._taken(mask, arguments[:1], conditions, [text], f"({text}) IS NOT NULL" if ignoring else "")
        return self._unless(failed, records.Extreme("by", "min" if which == "F" else "max", mask, columns[0], number, kept))

    def _by(self, expr: Expr, which: str, mask: int, arguments: tuple[Expr, ...], conditions: tuple[Expr, ...]) -> tuple:
        """MAX_BY and MIN_BY: the value in the last row with the extreme key."""
        if len(arguments) != 2:
            raise self.scope.error(expr, "AGGREGATE", f"{expr.value} takes a value and the expression to order by")
        key = arguments[1].bare()
        if key.op == "call" and key.value == "CLASSIFIER" and not conditions and not any(True for _ in self._match_functions(arguments[0])):
            # the value of the last row of the variable with the greatest or least name
            text, chosen = self._row_text(arguments[0]), _NULL
            names = [(name.encode(), v) for v, name in enumerate(self.scope.variables) if mask >> v & 1]
            for _, v in sorted(names, reverse=which == "min"):
                some = ("call", ">", records.Running("agg", "count", 1 << v, None, None, False), _ZERO)
                value = self._checked(arguments[0], text, lambda column, v=v: records.At("nav", "L", 1 << v, 0, 0, column, None))
                chosen = ("call", "if", some, value, chosen)
            return chosen
        labelled = arguments[0].bare().value == "CLASSIFIER"
        if any(True for part in (*arguments[labelled:], *conditions) for _ in self._match_functions(part)):
            raise self._no_aggregate(expr, f"{expr.value} in DEFINE takes values of the row, and CLASSIFIER() as one of its arguments")
        texts = [self._row_text(argument) for argument in arguments[labelled:]]
        columns, kept, failed = self._taken(mask, arguments[labelled:], conditions, texts)
        return self._unless(failed, records.Extreme("by", which, mask, None if labelled else columns[0], columns[-1], kept))


def skips_nulls(text: str, arguments: tuple[Expr, ...], conditions: tuple[Expr, ...], call: Expr) -> bool:
    """Whether first_value, last_value or any_value has a second argument true, or IGNORE NULLS."""
    if len(arguments) > 1:
        return arguments[1].span.of(text).upper() == "TRUE"
    return words_behind(text, arguments, conditions, call, "IGNORE", "NULLS")


def words_behind(text: str, arguments: tuple[Expr, ...], conditions: tuple[Expr, ...], call: Expr, *words: str) -> bool:
    """Whether the words come after an aggregate's first argument, and not in its FILTER."""
    behind = text[arguments[0].span.end : call.span.end]
    if conditions:
        behind = text[arguments[0].span.end : conditions[0].span.start] + text[conditions[-1].span.end : call.span.end]
    found = [token.upper for token in tokenize(behind)]
    return any(tuple(found[i : i + len(words)]) == words for i in range(len(found)))


def _instead(scope: Scope, call: Expr, below: Expr) -> str:
    """The end of a message: a replacement for an aggregate with ``below`` inside."""
    name = call.span.of(scope.text).partition("(")[0].strip()
    if below.value in ("FIRST", "LAST") and len(below.args) == 1:
        inner = below.args[0].span.of(scope.text)
        return f". Write {name}({inner}) for all rows of the match, or {below.span.of(scope.text)} for one of them"
    if below.value in ("PREV", "NEXT"):
        over = "lag" if below.value == "PREV" else "lead"
        return f". Compute {over}(...) OVER (...) in a subquery below the clause, and aggregate that column"
    return ". Compute one of the two outside of the clause"


def aggregate_parts(scope: Scope, expr: Expr, inside: tuple[str, ...] = ("CLASSIFIER",)) -> tuple[int, Expr | None, Expr | None]:
    """The mask, the first argument (None for ``*``) and the filter (or None) of an aggregate call. Checks its variables.

    ``inside``: the match functions that may occur in it.
    """
    args = list(expr.args)
    keep = args.pop() if "filter" in expr.flags else None
    for part in [*args, *([keep] if keep is not None else [])]:
        for below in scope.match_functions(part):
            if below.value not in inside:
                kind = "an aggregate" if below.value in AGGREGATES else f"{below.value}()"
                raise scope.error(below, "NESTED_NAVIGATION", f"{kind} cannot be nested in the aggregate {expr.value}(){_instead(scope, expr, below)}")
    if not args:
        raise scope.error(expr, "AGGREGATE", f"{expr.value} needs an argument, such as {expr.value.lower()}(A.x) or count(*)")
    if args[0].op == "star":
        if expr.value != "COUNT" or len(args) > 1 or len(args[0].value) > 1 or args[0].args:
            raise scope.error(expr, "AGGREGATE", f"{expr.value} needs an expression. Only count takes *, as in count(*) or count(A.*)")
        if args[0].value and scope.qualifier(args[0]) is None:
            raise scope.error(args[0], "UNKNOWN_VARIABLE", f"{args[0].value[0]}.*: no row pattern variable or subset has this name{scope.offered(args[0].value[0])}")
        if "distinct" in expr.flags:
            raise scope.error(expr, "AGGREGATE", "count(DISTINCT *) is not defined over a match. Name the columns")
        mask = scope.qualifier(args[0])
        star_mask = scope.whole if mask is None else mask
        if keep is not None:
            keep_mask = scope.one_variable(keep, expr)
            if any(not is_of_row(node) for node in scope.columns(keep)) and keep_mask != star_mask:
                raise scope.error(expr, "MIXED_VARIABLES", "the FILTER names a different row pattern variable than the aggregate. Use one variable in both")
        return star_mask, None, keep
    whole = Expr("call", expr.value, (*args, *([keep] if keep is not None else [])), frozenset(), expr.span)
    return scope.one_variable(whole, expr), args[0], keep


def conjuncts(expr: Expr) -> list[Expr]:
    """The operands of the AND at the top of a condition."""
    bare = expr.bare()
    if bare.op == "and":
        return [c for a in bare.args for c in conjuncts(a)]
    return [expr]


def _holds_prior(expr: Expr) -> bool:
    return any(n.op == "call" and n.value == PRIOR for n in expr.walk())


def _text(expr: Expr) -> str | None:
    """The value of a plain string literal."""
    literal = literal_tree(expr.bare())
    return literal.text if literal is not None and literal.type == "string" else None


def _is_given(expr: Expr) -> bool:
    """Whether an expression is a string literal, or a parameter of the statement."""
    expr = expr.bare()
    return expr.op == "lit" and str(expr.value)[0] in "'\":?rR"  # r begins a raw string


def _splits(whole: str, joint: str, names: list[str]) -> list[tuple[str, ...]] | None:
    """All lists of names whose join is ``whole``. None if they are too many, or if one is too long."""
    if whole == "":
        return [()]
    starts = {0}  # where a name may begin
    for at in range(len(whole)):
        if at in starts:
            starts |= {at + len(name + joint) for name in names if whole.startswith(name + joint, at)}
    ways: dict[int, list[tuple[str, ...]]] = {}  # the lists from such a place on
    for at in sorted(starts - {len(whole)}, reverse=True):
        ways[at] = [(name,) for name in names if at + len(name) == len(whole) and whole.endswith(name)]
        for name in names:
            if whole.startswith(name + joint, at):
                ways[at] += [(name, *rest) for rest in ways.get(at + len(name + joint), [])]
        if len(ways[at]) > MAX_SPLITS or any(len(way) > _MOST_LABELS for way in ways[at]):
            return None
    return ways[0]


def _operands(tree: tuple) -> Iterator[tuple]:
    """The operands of the comparisons at the top of a tree."""
    if tree[0] == "call" and tree[1] in (*_COMPARISONS, "and", "or", "not", "in"):
        for part in tree[2:]:
            yield from _operands(part)
    else:
        yield tree.tree if tree[0] == "checked" else tree


def _compares(expr: Expr) -> bool:
    """Whether an expression is a comparison."""
    return expr.op in ("between", "in", "is") or (expr.op == "bin" and expr.value in _COMPARISONS)


def _label_text(label: str | None) -> str:
    """A variable's name as a Spark literal."""
    return "CAST(NULL AS STRING)" if label is None else "'" + label.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _spoken(expr: Expr) -> str:
    """The kind of an expression, in the user's words."""
    named = {"index": "subscript", "field": "field", "lambda": "lambda", "special": "expression", "cast": "CAST"}
    return str(expr.value) if expr.op in ("bin", "un", "like") else named.get(expr.op, expr.op.upper())


def _chain(operator: str, trees: Iterable[tuple]) -> tuple:
    """The trees (at least one), joined by an operator."""
    return reduce(lambda left, right: ("call", operator, left, right), trees)


def _once(rows: tuple) -> tuple:
    """1 if a count is above 0, else 0: the count of the distinct values among equal ones."""
    return ("call", "cast", ("call", "if", ("call", ">", rows, _ZERO), _ONE, _ZERO), Lit("lit", "type", "bigint"))


def _in(value: tuple, items: list[tuple]) -> tuple:
    """Whether a value is one of the items.

    Spark converts all of them to one type. If the items are literals of one type, each comparison alone has that type, too.
    """
    if len(items) == 1:
        return ("call", "=", value, items[0])
    alike = {item.type if item[0] == "lit" else "" for item in items}
    if len(alike) == 1 and not alike & {"", "decimal"}:
        return ("call", "or", *(("call", "=", value, item) for item in items))
    return ("call", "in", value, *items)


def _negate(expr: Expr, tree):
    return ("call", "not", tree) if "not" in expr.flags else tree


def literal_tree(expr: Expr) -> Lit | None:
    """A tree for a plain literal. None for an expression that Spark should evaluate."""
    sign = ""
    if expr.op == "un" and expr.value == "-":
        sign, expr = "-", expr.args[0].bare()
    if expr.op != "lit":
        return None
    text = str(expr.value)
    if text == "NULL":
        return None if sign else _NULL
    if text in ("TRUE", "FALSE"):
        return None if sign else Lit("lit", "bool", text)
    if text.isdigit() and len(text) > MAX_DIGITS:
        return None
    if text.isdigit():
        value = int(sign + text)
        if -(2**31) <= value < 2**31:
            return Lit("lit", "int", str(value))
        if -(2**63) <= value < 2**63:
            return Lit("lit", "long", str(value))
        return None
    if text.replace(".", "", 1).isdigit() and len(text) <= 18:
        return Lit("lit", "decimal", sign + text)
    if not sign and text == "''":
        return Lit("lit", "string", "")
    if not sign and len(text) >= 2 and text[0] == text[-1] == "'" and "\\" not in text and "''" not in text and text.count("'") == 2:
        return Lit("lit", "string", text[1:-1])
    return None


def looks_at_match(tree: tuple) -> bool:
    """Whether a condition tree reads the match so far, and not only physical neighbours."""
    return has(tree, "nav", "cls", "mno", "agg", "by", "pair", "prior", "isfirst")


def reads_labels(tree: tuple, adjacent: bool = False) -> bool:
    """Whether a condition tree looks up rows' labels: by a DISTINCT aggregate, or by CLASSIFIER() of a neighbouring row.

    ``adjacent``: rows of a match are adjacent, so that PREV(CLASSIFIER()) is the label of an earlier row of the match.
    """
    return any(
        (part[0] == "agg" and part.distinct)
        or (part[0] == "cls" and part.physical != 0 and not (adjacent and part.which == "cur" and part.physical < 0))
        for part in walk(tree)
    )
