"""Records of a plan: named tuples for its parts, plus the trees of patterns, conditions and scores.

A record is a ``NamedTuple``. :mod:`sparkcep.plan.json` writes records as JSON objects with the same names and reads them back by
the types of their fields. If a member may hold several kinds of records, these begin with ``kind``.

A tree is a tuple. Its first part is its kind, and its other parts are alike, as in ``("call", "+", left, right)`` and ``("cat",
first, second)``. A tree whose parts have different meanings is a record. The trees of a pattern are

* ``("var", variable)`` for a variable's row, and ``("not", variable)`` for a negation: no row of the variable, or no match of a
  group (:class:`Without`);
* ``("empty",)``, ``("start",)`` and ``("end",)``, which are ``()``, ``^`` and ``$``;
* ``("cat", tree, ...)``, ``("alt", tree, ...)``, ``("and", tree, ...)``, ``("permute", tree, ...)`` and ``("exclude", tree)``;
* :class:`Repeat` and :class:`Within`.

``PATTERN (A B+)`` is ``("cat", ("var", 0), Repeat("repeat", ("var", 1), 1, None, True))``.

The trees of a condition are ``("mno",)``, which is MATCH_NUMBER(), ``("call", name, tree, ...)``, an operator or function that the
engine computes itself, and the records of :data:`ConditionTree`. Their member ``absent`` names a column with the expression's value
over NULLs, for expressions that are not NULL for an absent row (``None``: they are NULL). A ``mask`` is a set of variables as bits,
or :data:`ALL_ROWS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, NamedTuple

from sparkcep.clause.printer import order_text
from sparkcep.plan.limits import (
    MAX_BOUND,
    MAX_BUDGET_NANOS,
    MAX_BUNDLES,
    MAX_CELLS,
    MAX_CHECKS,
    MAX_COST,
    MAX_INTERVALS,
    MAX_OFFSET,
    MAX_OFFSET_IN_DEFINE,
    MAX_TOP,
    MAX_VARIABLES,
    MAX_WORD,
    SIZE,
    STEP,
    Column,
    Range,
    Tree,
)
from sparkcep.settings import MAX_COUNTED

ALL_ROWS = -1  # the mask of the universal row pattern variable
LIKE, SUM, MEAN = OF_COLUMN = ("like", "sum", "mean")  # types of registers that follow from a column
WAY = "way"  # type of the register that identifies the rows a computation took and their labels, as a number from the kernel

CLASSIFIER_COLUMN = "cls"  # used as a column: the name of a row's variable


# -- fields -----------------------------------------------------------------------------------------------------------


PatternTree = Annotated[tuple, Tree("pattern")]
ConditionPart = Annotated[tuple, Tree("condition")]
Line = Annotated[int, Range(0, 1 << 31)]  # a line or a column of a statement
Variable = Annotated[int, Range(0, "variables")]
Mask = Annotated[int, Range(ALL_ROWS, "sets")]
Logical = Annotated[int, Range(0, MAX_OFFSET_IN_DEFINE + 1)]
Offset = Annotated[int, Range(-MAX_OFFSET, MAX_OFFSET + 1)]
Cost = Annotated[int, Range(0, MAX_COST + 1)]
Weighed = Annotated[int, Range(1, MAX_COST + 1)]
State = Annotated[int, Range(0, "states")]
Input = Annotated[str, Column()]
PerhapsInput = Annotated[str, Column(also=("",))]
Labelled = Annotated[str, Column(also=(CLASSIFIER_COLUMN,))]
Filter = Annotated[str, Column("boolean")]
Whole = Annotated[str, Column("whole")]


# -- columns and places -----------------------------------------------------------------------------------------------


class Computed(NamedTuple):
    """A column and the SQL text that computes it."""

    name: str
    text: str


class Key(NamedTuple):
    """An expression of PARTITION BY.

    Attributes:
        name: its output column.
        column: its input column.
        plain: whether it is a column of the input under its own name.
    """

    name: str
    column: Input
    plain: bool


class Order(NamedTuple):
    """An expression of ORDER BY.

    Attributes:
        name: its output column.
        column: its input column.
        descending: whether DESC is written.
        nulls_first: whether NULLs come first, None for Spark's default.
        plain: whether it is a column of the input under its own name.
    """

    name: str
    column: str
    descending: bool
    nulls_first: bool | None
    plain: bool

    def over(self, text: str) -> str:
        """The item of ORDER BY over an expression."""
        return order_text(text, self.descending, self.nulls_first)


class EqualKey(NamedTuple):
    """An input column that is equal in all rows of a match, and the tests of the conditions that imply it."""

    column: Input
    tests: tuple[str, ...]


class Place(NamedTuple):
    """The place of a part of the clause in the statement, and the beginning of its text."""

    line: Line
    column: Line
    text: str


class Word(NamedTuple):
    """A word of the clause that must not be a column of the input, and its place.

    It was not read as a column, or it is the name of an objective of the sequence ``of``.
    """

    name: str
    line: Line
    column: Line
    of: str = ""


class LeafPlace(NamedTuple):
    """The place of an expression, by the column with its value.

    The expression is a leaf of MEASURES that may exceed its type, or in ORDER BY. The name of ``$`` is ``$``, and that of the
    clause's beginning is empty.
    """

    name: str
    line: Line
    column: Line
    text: str


class ConditionPlace(NamedTuple):
    """The place of a variable's condition in the statement. For a conjunction, the places of its operands follow."""

    variable: Variable
    line: Line
    column: Line
    text: str


# -- options ----------------------------------------------------------------------------------------------------------


class Skip(NamedTuple):
    """AFTER MATCH SKIP.

    Attributes:
        mode: a mode of :mod:`sparkcep.clause.tree`.
        targets: for TO FIRST and TO LAST, the mask of the named variables.
        place: for TO FIRST and TO LAST, the place of the name.
    """

    mode: Literal["past_last", "next_row", "first", "last"]
    targets: Annotated[int, Range(0, "sets")]
    place: Place | None = None


class Unfinished(NamedTuple):
    """SHOW UNFINISHED MATCHES and SHOW TIMEOUT MATCHES.

    Attributes:
        report: which unfinished matches are reported beside the matches.
        order: the input column of the first ORDER BY expression, "" without ORDER BY.
        clock: the input column with the time up to which the input is known, "" if no window is measured in time. Rows of a stream
            lack it, because the watermark says that.
        dated: whether AS OF says that time.
        line, column, text: its place.
    """

    report: Literal["UNFINISHED", "TIMEOUT"]
    order: PerhapsInput
    clock: Annotated[str, Column("clock", ("",))]
    dated: bool
    line: Line
    column: Line
    text: str


class Selection(NamedTuple):
    """EVENT SELECTION: ``strategy`` is STRICT, NEXT or ANY, ``report`` FIRST or ALL."""

    strategy: Literal["STRICT", "NEXT", "ANY"]
    report: Literal["FIRST", "ALL"]


class Window(NamedTuple):
    """The size of a WINDOW or WITHIN.

    Attributes:
        kind: one of the kinds of :mod:`sparkcep.plan.options`.
        size: the size as decimal text.
        order: the order column that it measures, "" for rows.
        line, column, text: its place.
    """

    kind: Literal["none", "rows", "micros", "number"]
    size: Annotated[str, SIZE]
    order: PerhapsInput
    line: Line
    column: Line
    text: str


class Slide(NamedTuple):
    """SLIDE: the step of sliding windows as decimal text, in the kind of their WINDOW."""

    kind: Literal["rows", "micros", "number"]
    step: Annotated[str, SIZE]


class Moving(NamedTuple):
    """UPDATE of a sequence: its own window, which moves with the windows of the clause.

    Attributes:
        mask: the sequence's variables.
        kind: the kind of the clause's WINDOW.
        size: the size of the sequence's window as decimal text.
        step: the step of its moves.
        line, column, text: the place of its size.
    """

    mask: Annotated[int, Range(0, "sets")]
    kind: Literal["rows", "micros", "number"]
    size: Annotated[str, SIZE]
    step: Annotated[str, SIZE]
    line: Line
    column: Line
    text: str


class Bound(NamedTuple):
    """A bound from the settings that differs from the default."""

    name: Literal["max_state_bytes", "max_steps", "max_matches"]
    value: Annotated[int, Range(1, MAX_WORD + 1)]


class Part(NamedTuple):
    """The name of a part of a clause, and a digest of its words."""

    name: str
    digest: str


class History(NamedTuple):
    """The identity of a match history.

    Attributes:
        runs: which runs it counts.
        intervals: the number of intervals that it divides the window into, if it was recorded.
        parts: the parts of the clause that it depends on.
    """

    runs: Literal["PROXY", "ALL"]
    intervals: Annotated[int, Range(1, MAX_INTERVALS + 1)]
    parts: tuple[Part, ...]


class Pace(NamedTuple):
    """BUDGET INTERVAL: limits the time of matching rows.

    Attributes:
        nanos: the interval in nanoseconds.
        per: what the interval is for: each row on average, all rows of a partition, or all rows of a task's micro-batch.
        clock: the thread's processor time, the wall clock, or a clock that counts.
        row, check: by how many nanoseconds the counting clock advances for a matching row and for a check.
    """

    nanos: Annotated[int, Range(1, MAX_BUDGET_NANOS + 1)]
    per: Literal["ROW", "PARTITION", "BATCH"]
    clock: Literal["thread", "wall", "counted"]
    row: Annotated[int, Range(0, MAX_COUNTED + 1)]
    check: Annotated[int, Range(0, MAX_COUNTED + 1)]


class Budget(NamedTuple):
    """BUDGET: limits the candidates that are tried at each row.

    Attributes:
        checks: candidates that are tried at each row, 0 if time limits them.
        pace: the limit by time.
        refill: the bundles after which a partition replaces the history by what it has recorded, 0 for as many as the history has,
            None for never.
        history: the input column that holds a history, or "".
        published: whether candidates are tried in the published order instead of our own.
        sketch: depth and width, or the number of cells, or () for no sketch.
        explore: whether agents follow candidates that the history would not choose.
        line, column, text: its place.
    """

    checks: Annotated[int, Range(0, MAX_CHECKS + 1)]
    pace: Pace | None
    refill: Annotated[int, Range(0, MAX_BUNDLES + 1)] | None
    history: Annotated[str, Column("history", ("",))]
    published: bool
    sketch: tuple[Annotated[int, Range(1, MAX_CELLS + 1)], ...]
    explore: bool
    line: Line
    column: Line
    text: str


class Approx(NamedTuple):
    """APPROX: the costs of errors, in units of 1/``scale``.

    Attributes:
        report: which matches are reported.
        scale: the units in one error.
        bound: most cost of a match.
        missing: for each variable, the cost if it lacks a row, or has a substitute row.
        extra: the cost of an extra row.
        violation: for each negated variable, the cost of a row of it, 0 if such a row is not allowed.
        budget: limits the candidates that are tried.
        history: the history that is recorded or read.
    """

    report: Literal["PROXY", "PER ERROR", "ALL", "BUNDLES", "HISTORY"]
    scale: Weighed
    bound: Cost
    missing: tuple[Weighed, ...]
    extra: Weighed
    violation: tuple[Cost, ...]
    budget: Budget | None = None
    history: History | None = None

    def errors(self, cost: int) -> int | float:
        """A cost as MATCH_ERRORS() shows it."""
        return cost // self.scale if self.whole else cost / self.scale

    @property
    def whole(self) -> bool:
        """Whether every cost is a whole number. MATCH_ERRORS() is then a BIGINT, otherwise a DOUBLE."""
        return all(cost % self.scale == 0 for cost in (*self.missing, self.extra, *self.violation))


class Without(NamedTuple):
    """A negated group ``~(p)``.

    Attributes:
        variable: the first variable in the group, which represents it in the pattern around it: ``("not", variable)``.
        pattern: the tree of the pattern that must not match.
        text: the group as written.
    """

    variable: Variable
    pattern: PatternTree
    text: str


class Term(NamedTuple):
    """The contribution of each row of some variables to a score.

    Attributes:
        mask: the variables.
        column: the column that is added, "" for a ``count``, which adds 1.
        sign: 1 or -1.
        kind: with ``row`` and ``branch`` a NULL makes the score NULL, with ``sum`` it adds nothing. A match may lack rows of a
            ``branch``.
    """

    mask: Mask
    column: Annotated[str, Column("number", ("",))]
    sign: Literal[-1, 1]
    kind: Literal["row", "branch", "sum", "count"]


class Weight(NamedTuple):
    """The number in the single row of a variable."""

    variable: Variable
    column: Annotated[str, Column("number")]


class Monotone(NamedTuple):
    """A score that is monotone in each of its leaves.

    Attributes:
        leaves: one number for each variable.
        tree: the score, as computed by :mod:`sparkcep.engine.topk.branch_and_bound`. ``("leaf", i)`` is leaf number i.
        positive: numbers of the leaves that must not be below 0.
        strict: whether the score is NULL if any leaf is NULL.
    """

    leaves: tuple[Weight, ...]
    tree: Annotated[tuple, Tree("score", "leaves")]
    positive: tuple[Annotated[int, Range(0, "leaves")], ...]
    strict: bool


class Conjoined(NamedTuple):
    """The score of a conjunction, by its sides.

    Attributes:
        sides: the terms of each side. Their sum over the side's rows is a leaf of ``tree``.
        tree: the score.
        positive: numbers of the sides whose sum must not be below 0.
        whole: whether the score is one sum over rows of several sides. Only whole numbers give the same sum in any order.
        across: whether a term is over rows of several sides and counts a shared row once.
    """

    sides: tuple[tuple[Term, ...], ...]
    tree: Annotated[tuple, Tree("score", "sides")]
    positive: tuple[Annotated[int, Range(0, "sides")], ...]
    whole: bool
    across: bool


class Scored(NamedTuple):
    """A score for comparing listed matches: ``tree`` over ``leaves``, each a sum over the match's rows.

    ``strict``: the score is NULL if any leaf is NULL.
    """

    leaves: tuple[Term, ...]
    tree: Annotated[tuple, Tree("score", "leaves")]
    strict: bool


class ListChanges(NamedTuple):
    """REPORT CHANGES beside TOP k of sliding windows: leaves that compare the lists of windows.

    Attributes:
        identity: the leaf with the (row, variable) sequence of a match.
        emitted: the leaf that says whether an earlier micro-batch of a stream emitted the match's window.
        start, next_start: the leaves with the begin of the match's window, and of the partition's next window that holds a row.
        end, next_end: the leaves with the ends of these windows, "" if no measure reads them.
    """

    identity: str
    emitted: str
    start: str
    next_start: str
    end: str = ""
    next_end: str = ""


class Ranking(NamedTuple):
    """PREF and TOP.

    Attributes:
        objectives: SQL texts over leaves, which become the columns ``__g0``, ``__g1`` and so on.
        score: SQL text over those columns.
        top: how many matches TOP keeps, 0 for all.
        overall: whether TOP is over all partitions together.
        order: SQL ORDER BY items over leaves and the score, best match first.
        vector: the leaf with the positions of a match's rows.
        place: the place of the preference.
        terms: the terms of a score that is a sum.
        by_engine: whether the engine computes the ranks.
        monotone: the score of single rows, if it is monotone.
        by_sides: the score of a conjunction, by its sides.
        scored: the score, if it is arithmetic that the engine computes. Beside ``terms`` it says how they are added, and is None if
            they are added from left to right.
        moving: the windows of sequences with UPDATE.
        sequences: the variables of each sequence.
        by_sequences: the score by one sum over the rows of each sequence.
        changes: what REPORT CHANGES compares, None without it.
    """

    objectives: tuple[str, ...]
    score: str
    top: Annotated[int, Range(0, MAX_TOP + 1)]
    overall: bool
    order: tuple[str, ...]
    vector: str
    place: Place | None
    terms: tuple[Term, ...]
    by_engine: bool = False
    monotone: Monotone | None = None
    by_sides: Conjoined | None = None
    scored: Scored | None = None
    moving: tuple[Moving, ...] = ()
    sequences: tuple[Annotated[int, Range(1, "sets")], ...] = ()
    by_sequences: Conjoined | None = None
    changes: ListChanges | None = None

    @property
    def by_spark(self) -> bool:
        """Whether Spark computes the ranks."""
        return self.top > 0 and not self.by_engine


# -- conditions -------------------------------------------------------------------------------------------------------


class Letter(NamedTuple):
    """The row-local part of a variable's condition, which Spark computes as a bit of one integer."""

    variable: Variable
    bit: Annotated[int, Range(0, MAX_VARIABLES)]
    text: str


class Candidate(NamedTuple):
    """An SQL condition that at least one row of every match satisfies: one of the row-local conditions of ``variables``."""

    variables: tuple[Variable, ...]
    text: str


class Here(NamedTuple):
    """The value of an input column at the candidate row."""

    kind: Literal["col"]
    column: Annotated[str, Column(own=True)]


class Near(NamedTuple):
    """The value of an input column at the physical neighbour ``physical`` rows away."""

    kind: Literal["off"]
    column: Input
    physical: Offset
    absent: Input | None


class At(NamedTuple):
    """The value of an input column ``physical`` rows away from the FIRST or LAST row of a mask.

    ``which`` is F or L, and ``logical`` is the offset of FIRST or LAST.
    """

    kind: Literal["nav"]
    which: Literal["F", "L"]
    mask: Mask
    logical: Logical
    physical: Offset
    column: Input
    absent: Input | None


class Label(NamedTuple):
    """CLASSIFIER of a row as in :class:`At`. ``which`` may also be ``cur``, the candidate row."""

    kind: Literal["cls"]
    which: Literal["F", "L", "cur"]
    mask: Mask
    logical: Logical
    physical: Offset


class Running(NamedTuple):
    """A running aggregate over the mask's rows, including the candidate.

    ``column`` is None for ``*``; ``keep`` is the column of its filter.
    """

    kind: Literal["agg"]
    function: Literal["count", "sum", "avg", "min", "max", "bool_and", "bool_or", "stddev_samp", "stddev_pop", "var_samp", "var_pop"]
    mask: Mask
    column: Input | None
    keep: Filter | None
    distinct: bool


class Extreme(NamedTuple):
    """MIN_BY or MAX_BY: the value of ``column`` in the last of the mask's rows with the least or greatest ``key``.

    ``column`` is None for the label.
    """

    kind: Literal["by"]
    which: Literal["min", "max"]
    mask: Mask
    column: Input | None
    key: Input
    keep: Filter | None


class RowAt(NamedTuple):
    """A row of the match, as in :class:`At`."""

    which: Literal["F", "L"]
    mask: Mask
    logical: Logical
    physical: Offset


class Pair(NamedTuple):
    """A Spark function over several rows, computed by Spark for all combinations of rows, as an array column.

    Attributes:
        column: the array column.
        number: the column of the row number.
        rows: the one or two rows that are read.
    """

    kind: Literal["pair"]
    column: Annotated[str, Column("list")]
    number: Whole
    rows: tuple[RowAt, ...]


class Prior(NamedTuple):
    """The value of a tree as of the match's previous row, NULL on the first row of ``mask``.

    A column of the candidate row is a constant.
    """

    kind: Literal["prior"]
    mask: Mask
    tree: ConditionPart


class IsFirst(NamedTuple):
    """Whether the row is the first one of ``mask``."""

    kind: Literal["isfirst"]
    mask: Mask


class Failing(NamedTuple):
    """The place of an expression that Spark may fail to compute for a row, and Spark's error class if there is only one."""

    error_class: Literal["ARITHMETIC_OVERFLOW", "CAST_INVALID_INPUT", "DIVIDE_BY_ZERO", "EXPRESSION_FAILED", "INVALID_ARRAY_INDEX"]
    line: Line
    column: Line
    text: str


class Checked(NamedTuple):
    """The value of a tree that Spark may have failed to compute for some rows.

    Attributes:
        tree: the value. It is read only if ``failed`` is neither true nor above 0.
        failed: the mark of failure.
        number: number of the expression in the plan's ``failing``.
    """

    kind: Literal["checked"]
    tree: ConditionPart
    failed: ConditionPart
    number: Annotated[int, Range(0, "failing")]


TOTAL = "total"  # the operator of a tree that adds a value to the register of a sum
SUMS = "sums"  # the function of a tree that adds sums of one type and leaves out those that are NULL


class Lit(NamedTuple):
    """A number, string, boolean, null, type name, or interval of whole days."""

    kind: Literal["lit"]
    type: Literal["null", "bool", "int", "long", "decimal", "double", "date", "days", "string", "type"]
    text: str


ConditionTree = Here | Near | At | Label | Running | Extreme | Pair | Prior | IsFirst | Checked | Lit


class Condition(NamedTuple):
    """The conjuncts of a variable's condition that read other rows, as trees."""

    variable: Variable
    trees: tuple[ConditionPart, ...]


# -- pattern ----------------------------------------------------------------------------------------------------------


class Repeat(NamedTuple):
    """A quantifier: ``low`` to ``high`` iterations (None: unbounded)."""

    kind: Literal["repeat"]
    item: PatternTree
    low: Annotated[int, Range(0, MAX_BOUND + 1)]
    high: Annotated[int, Range(0, MAX_BOUND + 1)] | None
    greedy: bool


class Within(NamedTuple):
    """A group with a window of its own. ``window``: number of the window in the plan's ``windows``."""

    kind: Literal["within"]
    item: PatternTree
    window: Annotated[int, Range(1, "windows")]


# -- automaton --------------------------------------------------------------------------------------------------------


class Register(NamedTuple):
    """A register of an automaton. In trees it is the column :func:`register_column` of its number.

    Attributes:
        name: its name.
        type: its SQL type, or one of :data:`OF_COLUMN`: the type of the column ``like``, of its sum, or of the sum for its average.
        initial: the tree of its first value, over constants that Spark computes.
        line, column, text: the place of its declaration.
        like: the input column that determines its type, or "".
    """

    name: str
    type: str
    initial: ConditionPart
    line: Line
    column: Line
    text: str
    like: PerhapsInput = ""


class Parameter(NamedTuple):
    """A parameter of an arc: name, SQL type, and place of its declaration.

    In trees it is the column :func:`parameter_column` of its number.
    """

    name: str
    type: str
    line: Line
    column: Line
    text: str


class Assignment(NamedTuple):
    """An arc's assignment of a tree's value to a register."""

    register: Annotated[int, Range(0, "registers")]
    tree: ConditionPart


class Arc(NamedTuple):
    """An arc of an automaton.

    Attributes:
        source, target: numbers of its states.
        on: what it takes: a row, nothing, or the end of a lifetime.
        letter: the bit with the row-local part of its fence, -1 if none.
        fence: the trees of the fence's other conjuncts.
        sets: its assignments.
        emits: the tree of each EMIT column, ``("lit", ...)`` NULL for columns that it does not name. Empty without EMIT.
        label: number of the variable that CLASSIFIER() names.
        line, column, text: its place.
        template: the name that rows of ARCS FROM use to make it present, "" if it is always present.
        parameters: the range of its parameters: first, and one past the last.
        limits: which values of PUNCTUATE BY its rows may have: the bit that marks such rows, the number of values, and 1 for texts
            or 0 for whole numbers. Empty if any value is allowed.
    """

    source: State
    target: State
    on: Literal["row", "empty", "expiry"]
    letter: Annotated[int, Range(-1, MAX_VARIABLES)]
    fence: tuple[ConditionPart, ...]
    sets: tuple[Assignment, ...]
    emits: tuple[ConditionPart, ...]
    label: Annotated[int, Range(0, MAX_VARIABLES + 1)]
    line: Line
    column: Line
    text: str
    template: str
    parameters: tuple[Annotated[int, Range(0, MAX_VARIABLES + 1)], ...]
    limits: tuple[Annotated[int, Range(0, MAX_WORD + 1)], ...] = ()

    @property
    def is_text(self) -> bool:
        """Whether a row of ARCS FROM brought the arc as text, so that it is not in the clause."""
        return self.line == 0

    @property
    def is_static(self) -> bool:
        """Whether the arc is present without any row of ARCS FROM."""
        return not self.template and not self.is_text


class Automaton(NamedTuple):
    """AUTOMATON.

    Attributes:
        registers: its registers. A last one of type WAY is not declared in the clause.
        states: names of the states, by number.
        start: the start state.
        final: the final states.
        arcs: its arcs, in order.
        emits: names of EMIT's columns.
        time: the input column with the rows' times.
        lifetime: the input column with the ends of the rows' lifetimes, "" without LIFETIME TO.
        parameters: the parameters of all arcs.
    """

    registers: tuple[Register, ...]
    states: tuple[str, ...]
    start: State
    final: tuple[State, ...]
    arcs: tuple[Arc, ...]
    emits: tuple[str, ...]
    time: Input
    lifetime: PerhapsInput
    parameters: tuple[Parameter, ...]

    @property
    def declared(self) -> tuple[Register, ...]:
        """The registers that the clause declares."""
        return self.registers[:-1] if self.by_ways else self.registers

    @property
    def expires(self) -> bool:
        """Whether an arc is taken when a lifetime ends."""
        return any(arc.on == "expiry" for arc in self.arcs)

    @property
    def by_ways(self) -> bool:
        """Whether matches differ by the rows that labelled arcs took, and by these labels.

        A label is the number of a variable plus one. True for a PATTERN and for AUTOMATON BY ROWS.
        """
        return bool(self.registers) and self.registers[-1].type == WAY


class Arcs(NamedTuple):
    """ARCS FROM: a table whose rows insert and delete arcs.

    Attributes:
        table: the table as SQL.
        arrival: the texts of its ARRIVAL BY.
        came: the input columns with the ARRIVAL BY values of the rows, () without ARRIVAL BY.
        keys: names of the columns that may hold the partition's keys.
        columns: all input columns that only such rows have (:mod:`sparkcep.plan.extend.arcs`).
        texts: whether arcs may come as text, which can use the columns of the rows.
        line, column, text: its place.
    """

    table: str
    arrival: tuple[str, ...]
    came: tuple[str, ...]
    keys: tuple[str, ...]
    columns: tuple[Input, ...]
    texts: bool
    line: Line
    column: Line
    text: str


TIME = "__o0"  # the input column of the rows' times: the first one of ORDER BY


class Changes(NamedTuple):
    """CHANGES IN and its options. ``column``, ``same``, ``arrival``, ``consecutive``, ``punctuate`` and ``time`` are input columns.

    Attributes:
        column: says what a row does (insert, retract, ...).
        same: a number that is equal in rows of a partition that a retraction cannot distinguish.
        arrival: numbers the rows of a partition by arrival, "" if they are a bag.
        consecutive: the number of CONSECUTIVE BY, or "".
        punctuate: the value of PUNCTUATE BY, or "".
        report: NET or CHANGES.
        speculate: ALL, NONE or SIZE.
        size: the size of SPECULATE, None without one.
        came: the columns of ARRIVAL BY, if punctuations of one partition may be for all.
        line, column_at, text: its place.
        time: the rows' time t.
    """

    column: Input
    same: Input
    arrival: Annotated[str, Column("whole", ("",))]
    consecutive: Annotated[str, Column("whole", ("",))]
    punctuate: PerhapsInput
    report: Literal["NET", "CHANGES"]
    speculate: Literal["ALL", "NONE", "SIZE"]
    size: Window | None
    came: tuple[Input, ...]
    line: Line
    column_at: Line
    text: str
    time: Input


def register_column(register: int) -> str:
    """The column that represents a register in trees."""
    return f"__r{register}"


def letter_column(bit: int) -> str:
    """The column that represents a letter in trees: whether Spark's part of a condition is true."""
    return f"__b{bit}"


def parameter_column(parameter: int) -> str:
    """The column that represents an arc's parameter in trees and holds its values in the rows of ARCS FROM."""
    return f"__k{parameter}"


# -- leaves -----------------------------------------------------------------------------------------------------------


class Plain(NamedTuple):
    """A measure without parameters.

    These are MATCH_NUMBER(), MATCH_COUNT(), MATCH_GRAPH(), MISSING(), ERROR_KIND(), BUNDLE_SIZE(), MATCH_RANK() if the engine
    ranks, COMPLETE(), CHECKS_LEFT_OUT(), CHECKS_ALLOWED() and COVERAGE(). ``vector``: the positions of the match's rows. ``pairs``:
    these positions with the labels of the rows.
    """

    kind: Literal["mno", "cnt", "graph", "missing", "kind", "bundle_size", "rank", "vector", "pairs", "emitted", "complete", "left_out", "allowed", "coverage"]


class OfRun(NamedTuple):
    """MATCH_STATUS() and MATCH_EXPECTED()."""

    kind: Literal["status", "expected"]


class EndedAt(NamedTuple):
    """MATCH_ENDED_AT(). Its type is that of the first ORDER BY expression, which is in ``column``."""

    kind: Literal["ended"]
    column: Input


class Value(NamedTuple):
    """The value of an input column at a row as in :class:`At`, with FINAL or RUNNING semantics."""

    kind: Literal["nav"]
    which: Literal["F", "L"]
    mask: Mask
    logical: Annotated[int, Range(0, MAX_OFFSET + 1)]
    physical: Offset
    column: Input
    final: bool


class Classifier(NamedTuple):
    """CLASSIFIER of a row as in :class:`Value`."""

    kind: Literal["cls"]
    which: Literal["F", "L"]
    mask: Mask
    logical: Annotated[int, Range(0, MAX_OFFSET + 1)]
    physical: Offset
    final: bool


class Errors(NamedTuple):
    """MATCH_ERRORS(): a BIGINT if ``whole``, else a DOUBLE."""

    kind: Literal["errors"]
    whole: bool


class BundleEdge(NamedTuple):
    """BUNDLE_START() or BUNDLE_END(): a value of ``column``, or a position if ``column`` is ""."""

    kind: Literal["bundle_start", "bundle_end"]
    column: PerhapsInput


class OfHistory(NamedTuple):
    """A column of MATCH HISTORY, one value for each feature vector of a partition.

    ``history_starts``: the starts of bundles, as values of ``column``, or as positions if ``column`` is "".
    """

    kind: Literal["history_place", "history_so_far", "history_remaining", "history_idle", "history_visits", "history_points", "history_starts"]
    column: PerhapsInput


class WindowEdge(NamedTuple):
    """WINDOW_START() or WINDOW_END() of windows that slide by ``step`` over ``column``, or over positions if ``column`` is "".

    ``next_start`` and ``next_end``: those of the partition's next window that holds a row. The last window is its own next one.
    """

    kind: Literal["window_start", "window_end", "next_start", "next_end"]
    column: PerhapsInput
    step: Annotated[str, STEP]


class Score(NamedTuple):
    """A floating-point sum over the match's rows, divided by ``parts``."""

    kind: Literal["score"]
    parts: Annotated[int, Range(1, MAX_OFFSET + 1)]
    terms: tuple[Term, ...]


class Aggregate(NamedTuple):
    """The count, sum, avg, min, max or list of the mask's rows.

    ``column`` is None for ``*`` and ``cls`` for CLASSIFIER; ``keep`` is the column of its filter.
    """

    kind: Literal["agg"]
    function: Literal["count", "sum", "avg", "min", "max", "list"]
    mask: Mask
    column: Labelled | None
    keep: Filter | None
    final: bool


class Rows(NamedTuple):
    """The mask's rows as an array of structs (a0, a1, ...) of the columns."""

    kind: Literal["rows"]
    mask: Mask
    columns: tuple[Labelled, ...]
    final: bool


class OfChange(NamedTuple):
    """CHANGE() and CHANGE_NUMBER()."""

    kind: Literal["change", "change_number"]


class MatchId(NamedTuple):
    """MATCH_ID(), which is computed from the rows' values in ``column``."""

    kind: Literal["match_id"]
    column: Input


class ChangedBy(NamedTuple):
    """CHANGED_BY(). Its type is that of the first ARRIVAL BY expression, which is in ``column``."""

    kind: Literal["changed_by"]
    column: Input


class OfComputation(NamedTuple):
    """A final value of an automaton's computation: the register, or the column of EMIT, with this number."""

    kind: Literal["register", "emit"]
    number: Annotated[int, Range(0, MAX_VARIABLES)]


class LifetimeEdge(NamedTuple):
    """MATCH_FROM() or MATCH_TO(). Its type is that of the rows' times, which are in ``column``."""

    kind: Literal["match_from", "match_to"]
    column: Input


class PunctuationTime(NamedTuple):
    """PUNCTUATION(): the time of a punctuation among the output rows. Its type is that of the rows' times, which are in ``column``.

    Only a clause with REPORT CHANGES WITH PUNCTUATIONS has it, and such a clause always has it.
    """

    kind: Literal["punctuation"]
    column: Input


LeafSpec = Plain | OfRun | EndedAt | Value | Classifier | Errors | BundleEdge | OfHistory | WindowEdge | Score | Aggregate | Rows | OfComputation | LifetimeEdge | OfChange | MatchId | ChangedBy | PunctuationTime


class Leaf(NamedTuple):
    """A column that the engine returns for MEASURES, and its content."""

    name: str
    spec: LeafSpec


def places_of(condition: Condition, places: Iterable[ConditionPlace]) -> list[ConditionPlace | None]:
    """The places of a condition and of its operands, in order. An operand without a known place gets the condition's place."""
    own = [place for place in places if place.variable == condition.variable]
    whole = own[0] if own else None
    operands = own[1:] if len(own) == len(condition.trees) + 1 else [whole] * len(condition.trees)
    return [whole, *operands]


def arc_columns(arc: Arc) -> set[str]:
    """The columns that the trees of an arc read, including registers."""
    return {part.column for tree in (*arc.fence, *(item.tree for item in arc.sets), *arc.emits) for part in walk(tree) if part[0] == "col"}


# -- trees ------------------------------------------------------------------------------------------------------------


def walk(tree: tuple) -> Iterator[tuple]:
    """The tree and all trees below it, in preorder."""
    todo = [tree]
    while todo:
        top = todo.pop()
        yield top
        if top[0] != "pair":
            todo.extend(part for part in reversed(top) if isinstance(part, tuple))


def looks_away(trees: Iterable[tuple]) -> list[int]:
    """The physical offsets in trees: negative backward, positive forward."""
    return [part.physical for tree in trees for part in walk(tree) if part[0] in ("off", "nav", "cls")]


def masks_of(tree: tuple) -> Iterator[int]:
    """The masks in a tree, with those of the rows that a Spark function reads."""
    for part in walk(tree):
        yield from (row.mask for row in (part.rows if isinstance(part, Pair) else (part,)) if hasattr(row, "mask"))


def has(tree: tuple, *kinds: str) -> bool:
    """Whether a tree contains a tree of one of these kinds."""
    return any(part[0] in kinds for part in walk(tree))
