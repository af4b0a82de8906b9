"""The records of a plan: what its members hold, each part under its name.

A record is a ``NamedTuple``. :mod:`sparkcep.plan.json` writes records as JSON objects under the same names and reads them back
by the types of their fields. Records of which a member holds several sorts begin with ``kind``, which says the sort.

A tree is a tuple: its first part is its kind, its other parts are alike, as in ``("call", "+", left, right)`` and
``("cat", first, second)``. Where the parts of a tree mean different things it is a record. The trees of a pattern are

* ``("var", variable)`` and ``("not", variable)``, a variable's row and a row that must not be there, or a match of a group
  (:class:`Without`);
* ``("empty",)``, ``("start",)`` and ``("end",)``, which are ``()``, ``^`` and ``$``;
* ``("cat", tree, ...)``, ``("alt", tree, ...)``, ``("and", tree, ...)``, ``("permute", tree, ...)`` and ``("exclude", tree)``;
* :class:`Repeat` and :class:`Within`.

The trees of a condition are ``("mno",)``, which is MATCH_NUMBER(), ``("call", name, tree, ...)``, an operator or function that the
engine computes itself, and the records of :data:`ConditionTree`. ``absent`` names there a column that holds the expression's value
over NULLs, for expressions that do not give NULL for an absent row (``None``: they do). A ``mask`` is a set of variables as bits,
or :data:`ALL_ROWS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, NamedTuple

from sparkcep.plan.limits import (
    MAX_BOUND,
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

ALL_ROWS = -1  # the mask of the universal row pattern variable
LIKE, SUM, MEAN = OF_COLUMN = ("like", "sum", "mean")  # types of registers that a column gives
WAY = "way"  # the type of the register that tells by which rows, under which labels, a computation came: a number that the kernel gives each such way

CLASSIFIER_COLUMN = "cls"  # instead of a column: the name of a row's variable


# -- fields -----------------------------------------------------------------------------------------------------------


PatternTree = Annotated[tuple, Tree("pattern")]
ConditionPart = Annotated[tuple, Tree("condition")]
Line = Annotated[int, Range(0, 1 << 31)]  # a line of a statement, or a place in it
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
    """An expression of PARTITION BY: ``name`` is its output column, ``column`` its input column; it is ``plain`` where it is a
    column of the input under its own name."""

    name: str
    column: Input
    plain: bool


class Order(NamedTuple):
    """An expression of ORDER BY, likewise. Spark's default decides about NULLs where ``nulls_first`` is None."""

    name: str
    column: str
    descending: bool
    nulls_first: bool | None
    plain: bool


class EqualKey(NamedTuple):
    """An input column in which all rows of a match agree, and the tests of the conditions that say so."""

    column: Input
    tests: tuple[str, ...]


class Place(NamedTuple):
    """Where a part of the clause stands in the statement, and how it begins."""

    line: Line
    column: Line
    text: str


class Word(NamedTuple):
    """A word of the clause that was counted as something other than a column, and where it is."""

    name: str
    line: Line
    column: Line


class LeafPlace(NamedTuple):
    """Where an expression is, by the column that has its value: one for MEASURES, which may be beyond its type, or one of ORDER BY.
    ``$`` is named by itself, and the beginning of the clause by no name."""

    name: str
    line: Line
    column: Line
    text: str


class ConditionPlace(NamedTuple):
    """The place of a variable's condition in the statement. If the condition is a conjunction, those of its operands follow."""

    variable: Variable
    line: Line
    column: Line
    text: str


# -- options ----------------------------------------------------------------------------------------------------------


class Skip(NamedTuple):
    """AFTER MATCH SKIP: one of the modes of :mod:`sparkcep.clause.tree`; of TO FIRST and TO LAST also the mask of the variables
    that they name, and the place of that name."""

    mode: Literal["past_last", "next_row", "first", "last"]
    targets: Annotated[int, Range(0, "sets")]
    place: Place | None = None


class Selection(NamedTuple):
    """EVENT SELECTION: ``strategy`` is STRICT, NEXT or ANY, ``report`` FIRST or ALL."""

    strategy: Literal["STRICT", "NEXT", "ANY"]
    report: Literal["FIRST", "ALL"]


class Window(NamedTuple):
    """The size of a WINDOW or WITHIN as a decimal text, the order column that it measures ("" for rows) and its place. ``kind`` is
    one of those of :mod:`sparkcep.plan.options`."""

    kind: Literal["none", "rows", "micros", "number"]
    size: Annotated[str, SIZE]
    order: PerhapsInput
    line: Line
    column: Line
    text: str


class Slide(NamedTuple):
    """The step of windows that SLIDE, in the kind of their WINDOW, as a decimal text."""

    kind: Literal["rows", "micros", "number"]
    step: Annotated[str, SIZE]


class Bound(NamedTuple):
    """A bound of the settings that is not the default one."""

    name: Literal["max_state_bytes", "max_steps", "max_matches"]
    value: Annotated[int, Range(1, MAX_WORD + 1)]


class Part(NamedTuple):
    """A part of a clause by its name, and a digest of its words."""

    name: str
    digest: str


class History(NamedTuple):
    """What a history of matches is of: of which ``runs``, in how many ``intervals`` of the window (as far as it is recorded), and
    of which parts of a clause."""

    runs: Literal["PROXY", "ALL"]
    intervals: Annotated[int, Range(1, MAX_INTERVALS + 1)]
    parts: tuple[Part, ...]


class Budget(NamedTuple):
    """BUDGET: so many ``checks`` at each row. ``history`` is the input column that holds a history, "" without one; candidates are
    tried in the order that is ``published``, or in our own; ``sketch`` has a depth and a width, or a number of cells, or nothing;
    ``explore``: agents follow what the history would not choose."""

    checks: Annotated[int, Range(1, MAX_CHECKS + 1)]
    history: Annotated[str, Column("history", ("",))]
    published: bool
    sketch: tuple[Annotated[int, Range(1, MAX_CELLS + 1)], ...]
    explore: bool
    line: Line
    column: Line
    text: str


class Approx(NamedTuple):
    """APPROX: costs in units of 1/``scale``. A match costs at most ``bound``; ``missing`` has the cost of each variable without a
    row, or with a row that stands for it, ``violation`` that of a row of each negated variable (0 where none may be); an extra row
    costs ``extra``. ``budget`` bounds the candidates that are tried; ``history`` is what is recorded, or read."""

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
        """Whether every cost is a whole number: MATCH_ERRORS() is a BIGINT then, else a DOUBLE."""
        return all(cost % self.scale == 0 for cost in (*self.missing, self.extra, *self.violation))


class Without(NamedTuple):
    """A negated group ``~(p)``: ``pattern`` is the tree of what must not match, ``text`` the group as it is written. ``variable``,
    the one that comes first in it, stands for the group in the pattern around it: ``("not", variable)``."""

    variable: Variable
    pattern: PatternTree
    text: str


class Term(NamedTuple):
    """What each row of the variables in ``mask`` adds to a score: its ``column`` (1 for a ``count``), with a ``sign``. A NULL makes
    the score NULL where ``kind`` is ``row``, and ``branch``, whose rows not each match has, and adds nothing where it is
    ``sum``."""

    mask: Mask
    column: Annotated[str, Column("number", ("",))]
    sign: Literal[-1, 1]
    kind: Literal["row", "branch", "sum", "count"]


class Weight(NamedTuple):
    """The number that the one row of a variable has."""

    variable: Variable
    column: Annotated[str, Column("number")]


class Monotone(NamedTuple):
    """A score that rises or falls with each of ``leaves``. ``tree`` is computed as :mod:`sparkcep.engine.topk.branch_and_bound`
    says, ``("leaf", i)`` being a leaf by its place. The leaves at the places ``positive`` must not be below 0; the score is NULL
    where any leaf is if it is ``strict``."""

    leaves: tuple[Weight, ...]
    tree: Annotated[tuple, Tree("score", "leaves")]
    positive: tuple[Annotated[int, Range(0, "leaves")], ...]
    strict: bool


class Conjoined(NamedTuple):
    """The score of a conjunction by its sides. ``sides`` has the terms of each side, whose sum over the side's rows is a leaf of
    ``tree``; the rows of the sides ``positive`` must not add less than 0. The score is ``whole`` where it is one sum over rows of
    several sides, which only whole numbers give in any order. Terms go ``across`` where one is of rows of several sides, each of
    which it counts once."""

    sides: tuple[tuple[Term, ...], ...]
    tree: Annotated[tuple, Tree("score", "sides")]
    positive: tuple[Annotated[int, Range(0, "sides")], ...]
    whole: bool
    across: bool


class Scored(NamedTuple):
    """A score by which listed matches are compared: a ``tree`` as above over ``leaves``, each a sum over the match's rows. It is
    NULL where any leaf is if it is ``strict``."""

    leaves: tuple[Term, ...]
    tree: Annotated[tuple, Tree("score", "leaves")]
    strict: bool


class Ranking(NamedTuple):
    """PREF and TOP. ``objectives`` are SQL texts over leaves, which become the columns ``__g0`` and so on; ``score`` is an SQL text
    over those. TOP keeps ``top`` matches (0: all), of all partitions together where it is ``overall``. ``order`` has SQL ORDER BY
    items over leaves and the score, the best match first; ``vector`` is the leaf with the positions of a match's rows; ``place`` is
    that of the preference. A score that is a sum has ``terms``; others may be ``monotone``, those of conjunctions ``by_sides``, and
    ``scored`` where it is arithmetic that the engine knows. The engine tells the ranks where they are ``by_engine``."""

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

    @property
    def by_spark(self) -> bool:
        """Whether Spark tells the ranks."""
        return self.top > 0 and not self.by_engine


# -- conditions -------------------------------------------------------------------------------------------------------


class Letter(NamedTuple):
    """The row-local part of a variable's condition, which Spark computes as a bit of one integer."""

    variable: Variable
    bit: Annotated[int, Range(0, MAX_VARIABLES)]
    text: str


class Candidate(NamedTuple):
    """An SQL condition that some row of every match fulfils: one of the row-local conditions of ``variables``."""

    variables: tuple[Variable, ...]
    text: str


class Here(NamedTuple):
    """The value of an input column at the candidate row."""

    kind: Literal["col"]
    column: Annotated[str, Column(own=True)]


class Near(NamedTuple):
    """The value of an input column at the physical neighbour so many rows away."""

    kind: Literal["off"]
    column: Input
    physical: Offset
    absent: Input | None


class At(NamedTuple):
    """The value of an input column ``physical`` rows away from the FIRST or LAST (F or L, by the offset ``logical``) of the mask's
    rows."""

    kind: Literal["nav"]
    which: Literal["F", "L"]
    mask: Mask
    logical: Logical
    physical: Offset
    column: Input
    absent: Input | None


class Label(NamedTuple):
    """CLASSIFIER there; ``which`` is also ``cur``, the candidate row."""

    kind: Literal["cls"]
    which: Literal["F", "L", "cur"]
    mask: Mask
    logical: Logical
    physical: Offset


class Running(NamedTuple):
    """A running aggregate of the mask's rows, the candidate included. No ``column`` stands for ``*``; ``keep`` is the column of its
    filter."""

    kind: Literal["agg"]
    function: Literal["count", "sum", "avg", "min", "max", "bool_and", "bool_or", "stddev_samp", "stddev_pop", "var_samp", "var_pop"]
    mask: Mask
    column: Input | None
    keep: Filter | None
    distinct: bool


class Extreme(NamedTuple):
    """What the last of the mask's rows with the min or max ``key`` has in ``column`` (None: its label)."""

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
    """A Spark function over several rows, computed by Spark for every choice of them: an array column. ``number`` is the column of
    the row number; ``rows`` are the one or two rows that are looked at."""

    kind: Literal["pair"]
    column: Annotated[str, Column("list")]
    number: Whole
    rows: tuple[RowAt, ...]


class Prior(NamedTuple):
    """The tree as of the match's row before; NULL on the first row of ``mask``. A column of the candidate row is a constant in
    it."""

    kind: Literal["prior"]
    mask: Mask
    tree: ConditionPart


class IsFirst(NamedTuple):
    """Whether the row is the first one of ``mask``."""

    kind: Literal["isfirst"]
    mask: Mask


class Failing(NamedTuple):
    """The place of an expression that Spark may fail to compute for a row, and Spark's class of the error, if there is only
    one."""

    error_class: Literal["ARITHMETIC_OVERFLOW", "CAST_INVALID_INPUT", "DIVIDE_BY_ZERO", "EXPRESSION_FAILED", "INVALID_ARRAY_INDEX"]
    line: Line
    column: Line
    text: str


class Checked(NamedTuple):
    """The value of ``tree``, whose rows Spark may have failed to compute: it is asked for only where ``failed`` is not true and not
    above 0. ``number`` is that of the expression among the plan's ``failing``."""

    kind: Literal["checked"]
    tree: ConditionPart
    failed: ConditionPart
    number: Annotated[int, Range(0, "failing")]


class Lit(NamedTuple):
    """A number, string, boolean, null or type name."""

    kind: Literal["lit"]
    type: Literal["null", "bool", "int", "long", "decimal", "double", "date", "string", "type"]
    text: str


ConditionTree = Here | Near | At | Label | Running | Extreme | Pair | Prior | IsFirst | Checked | Lit


class Condition(NamedTuple):
    """The conjuncts of a variable's condition that look at other rows, as trees."""

    variable: Variable
    trees: tuple[ConditionPart, ...]


# -- pattern ----------------------------------------------------------------------------------------------------------


class Repeat(NamedTuple):
    """A quantifier: ``low`` to ``high`` iterations (None: no bound)."""

    kind: Literal["repeat"]
    item: PatternTree
    low: Annotated[int, Range(0, MAX_BOUND + 1)]
    high: Annotated[int, Range(0, MAX_BOUND + 1)] | None
    greedy: bool


class Within(NamedTuple):
    """A group with a window of its own, which is that of the plan's ``windows`` with this number."""

    kind: Literal["within"]
    item: PatternTree
    window: Annotated[int, Range(1, "windows")]


# -- automaton --------------------------------------------------------------------------------------------------------


class Register(NamedTuple):
    """A register by its name and SQL type, the tree of its first value (over constants that Spark computes) and the place of its
    declaration. In trees it is the column :func:`register_column` of its number. Its type may be that of the input column ``like``
    (``type`` is then one of :data:`OF_COLUMN`): the column's own, that of its sum, or that of the sum of which its average is
    made."""

    name: str
    type: str
    initial: ConditionPart
    line: Line
    column: Line
    text: str
    like: PerhapsInput = ""


class Parameter(NamedTuple):
    """A parameter of an arc by its name and SQL type, and the place of its declaration. In trees it is the column
    :func:`parameter_column` of its number."""

    name: str
    type: str
    line: Line
    column: Line
    text: str


class Assignment(NamedTuple):
    """The tree whose value an arc gives to a register."""

    register: Annotated[int, Range(0, "registers")]
    tree: ConditionPart


class Arc(NamedTuple):
    """An arc of an automaton: ``on`` says what it takes, ``letter`` the bit of the row-local part of its fence (-1: none),
    ``fence`` the trees of the rest. ``limits``: which values of PUNCTUATE BY a row has that it takes: the bit that is set of such a
    row, how many values there are, and 1 where they are texts, 0 of whole numbers; none where any value will do. ``emits``: the
    tree of each EMIT column, ``("lit", ...)`` NULL where the arc does not name it; none where it has no EMIT. ``label`` is the
    variable that CLASSIFIER() names. ``template``: the name by which rows of ARCS FROM make it present, "" of an arc that always
    is; ``parameters``: the first of its parameters and that behind the last."""

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
        """Whether a row of ARCS FROM brought it as text: it stands nowhere in the clause."""
        return self.line == 0

    @property
    def is_static(self) -> bool:
        """Whether it is there without any row of ARCS FROM."""
        return not self.template and not self.is_text


class Automaton(NamedTuple):
    """AUTOMATON: states by their numbers, arcs in their order, the names of EMIT's columns, the input columns of the rows' times
    and of the ends of their lifetimes ("" without LIFETIME TO), and the parameters of all arcs."""

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
        """The registers that have a name in the clause."""
        return self.registers[:-1] if self.by_ways else self.registers

    @property
    def expires(self) -> bool:
        """Whether an arc is taken where a lifetime ends."""
        return any(arc.on == "expiry" for arc in self.arcs)

    @property
    def by_ways(self) -> bool:
        """Whether matches are told apart by the rows that arcs with a label took, and by these labels, less one the numbers of
        variables: a PATTERN's, and those of AUTOMATON BY ROWS."""
        return bool(self.registers) and self.registers[-1].type == WAY


class Arcs(NamedTuple):
    """ARCS FROM: the ``table`` as SQL, the texts of its ARRIVAL BY, and the input columns that hold that of the rows (``came``, ()
    without ARRIVAL BY). ``keys``:
    names of the columns that may hold the partition's keys; ``columns``: all input columns that such a row has of its own
    (:mod:`sparkcep.plan.extend.arcs`). ``texts``: whether arcs may come as text, which sees the columns of the rows."""

    table: str
    arrival: tuple[str, ...]
    came: tuple[str, ...]
    keys: tuple[str, ...]
    columns: tuple[Input, ...]
    texts: bool
    line: Line
    column: Line
    text: str


class Changes(NamedTuple):
    """CHANGES IN and what goes with it. Input columns: ``time`` is the rows' t; ``column`` says what a row does; ``same``, a number
    that rows of a partition have in common that are equal in all that a retraction must be equal in; ``arrival``, a number by which
    rows of a partition arrive ("": they are a bag); ``consecutive``, the number of CONSECUTIVE BY, or "". ``report`` is NET or
    CHANGES, and ``speculate`` ALL, NONE or SIZE, whose ``size`` is. ``punctuate``, the value of PUNCTUATE BY, or "". ``came``: the
    columns of ARRIVAL BY where punctuations of one partition may be for all."""

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
    """The column that stands for a register in trees."""
    return f"__r{register}"


def letter_column(bit: int) -> str:
    """The column that stands for a letter in trees: whether Spark's part of a condition is true."""
    return f"__b{bit}"


def parameter_column(parameter: int) -> str:
    """The column that stands for an arc's parameter in trees, and holds its values in the rows of ARCS FROM."""
    return f"__k{parameter}"


# -- leaves -----------------------------------------------------------------------------------------------------------


class Plain(NamedTuple):
    """MATCH_NUMBER(), MATCH_COUNT(), MATCH_GRAPH(), MISSING(), ERROR_KIND(), BUNDLE_SIZE(), MATCH_RANK() where the engine ranks,
    COMPLETE(), CHECKS_LEFT_OUT(), COVERAGE(), or (``vector``) the positions of the match's rows."""

    kind: Literal["mno", "cnt", "graph", "missing", "kind", "bundle_size", "rank", "vector", "complete", "left_out", "coverage"]


class Value(NamedTuple):
    """The value of an input column, at the row as in :class:`At`, by FINAL or RUNNING semantics."""

    kind: Literal["nav"]
    which: Literal["F", "L"]
    mask: Mask
    logical: Annotated[int, Range(0, MAX_OFFSET + 1)]
    physical: Offset
    column: Input
    final: bool


class Classifier(NamedTuple):
    """CLASSIFIER there."""

    kind: Literal["cls"]
    which: Literal["F", "L"]
    mask: Mask
    logical: Annotated[int, Range(0, MAX_OFFSET + 1)]
    physical: Offset
    final: bool


class Errors(NamedTuple):
    """MATCH_ERRORS(), a BIGINT where it is ``whole``, else a DOUBLE."""

    kind: Literal["errors"]
    whole: bool


class BundleEdge(NamedTuple):
    """BUNDLE_START() or BUNDLE_END(): the column's value, or a position where ``column`` is ""."""

    kind: Literal["bundle_start", "bundle_end"]
    column: PerhapsInput


class OfHistory(NamedTuple):
    """A column of MATCH HISTORY for each vector of a partition. The ``starts`` are those of bundles, by their values in ``column``,
    or positions."""

    kind: Literal["history_place", "history_so_far", "history_remaining", "history_idle", "history_visits", "history_points", "history_starts"]
    column: PerhapsInput


class WindowEdge(NamedTuple):
    """WINDOW_START() or WINDOW_END() of windows that slide by ``step`` over the column, or over positions where ``column`` is
    ""."""

    kind: Literal["window_start", "window_end"]
    column: PerhapsInput
    step: Annotated[str, STEP]


class Score(NamedTuple):
    """A floating sum over the match's rows, divided by ``parts``."""

    kind: Literal["score"]
    parts: Annotated[int, Range(1, MAX_OFFSET + 1)]
    terms: tuple[Term, ...]


class Aggregate(NamedTuple):
    """The count, sum, avg, min, max or list of the mask's rows. No ``column`` stands for ``*``, and ``cls`` for CLASSIFIER;
    ``keep`` is the column of its filter."""

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
    """MATCH_ID(), which is made of the rows' values in ``column``."""

    kind: Literal["match_id"]
    column: Input


class ChangedBy(NamedTuple):
    """CHANGED_BY(), in the type of the first expression of ARRIVAL BY, which is in ``column``."""

    kind: Literal["changed_by"]
    column: Input


class OfComputation(NamedTuple):
    """What an automaton's computation ends with: the value of the register, or EMIT's column, of this number."""

    kind: Literal["register", "emit"]
    number: Annotated[int, Range(0, MAX_VARIABLES)]


class LifetimeEdge(NamedTuple):
    """MATCH_FROM() or MATCH_TO(), in the type of the rows' times, which are in ``column``."""

    kind: Literal["match_from", "match_to"]
    column: Input


LeafSpec = Plain | Value | Classifier | Errors | BundleEdge | OfHistory | WindowEdge | Score | Aggregate | Rows | OfComputation | LifetimeEdge | OfChange | MatchId | ChangedBy


class Leaf(NamedTuple):
    """A column that the engine returns for MEASURES, and what it holds."""

    name: str
    spec: LeafSpec


def places_of(condition: Condition, places: Iterable[ConditionPlace]) -> list[ConditionPlace | None]:
    """The places of a condition and of its operands, in order. An operand whose place is not known has that of the condition."""
    own = [place for place in places if place.variable == condition.variable]
    whole = own[0] if own else None
    operands = own[1:] if len(own) == len(condition.trees) + 1 else [whole] * len(condition.trees)
    return [whole, *operands]


def arc_columns(arc: Arc) -> set[str]:
    """The columns that the trees of an arc read, registers among them."""
    return {part.column for tree in (*arc.fence, *(item.tree for item in arc.sets), *arc.emits) for part in walk(tree) if part[0] == "col"}


# -- trees ------------------------------------------------------------------------------------------------------------


def walk(tree: tuple) -> Iterator[tuple]:
    """The tree and all trees below it, from left to right."""
    todo = [tree]
    while todo:
        top = todo.pop()
        yield top
        if top[0] != "pair":
            todo.extend(part for part in reversed(top) if isinstance(part, tuple))


def looks_away(trees: Iterable[tuple]) -> list[int]:
    """By how many rows the trees look away from the rows that they name: back where below 0, else ahead."""
    return [part.physical for tree in trees for part in walk(tree) if part[0] in ("off", "nav", "cls")]


def has(tree: tuple, *kinds: str) -> bool:
    """Whether a tree of one of these kinds is there."""
    return any(part[0] in kinds for part in walk(tree))
