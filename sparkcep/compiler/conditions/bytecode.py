"""Condition compiler: bytecode for conditions that read other rows, for a small typed stack machine inside the matching kernels.

The machine is :mod:`sparkcep.kernels.vm.vm`. One instruction is one row of ``code`` (int64, n x 5): opcode and operands a, b, c, d.
Values are int64 or float64 with a NULL mark (SQL's three-valued logic). Decimals of more than 18 digits have a second word (opcodes
that end in H or W).

A thread keeps its memory of the match in numbered slots, updated row by row (``slots``, see :class:`_Slot`). Two threads with equal
slots have equal futures. ``A AS v >= FIRST(A.v, 1)`` becomes four instructions and two slots::

    0  LOADI   0, 0, -1       column 0 (v) of the current row
    1  NAVI    1, 0, 0, -1    column 0 of the row in slot 1
    2  GEI
    3  RETURN

    slot 0: FIRST of {A} k=0    position of the first row of A
    slot 1: FIRST of {A} k=1    position of the second row of A; slot 0 is its helper
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sparkcep.columns.types import (
    AS_DOUBLE,
    BIGINT,
    BOOLEAN,
    DOUBLE,
    HIGH,
    INT,
    INT_BITS,
    LOW,
    MAX_DIGITS,
    MAX_WORD_DIGITS,
    NULL,
    STRING,
    WORD,
    Type,
    adjusted,
    bounded,
    decimal_of,
    type_of,
    wider,
)
from sparkcep.compiler.conditions.time_zones import DAY, transitions
from sparkcep.errors import LIMIT, SEMANTIC, ClauseError
from sparkcep.plan.constants import UNIT_MICROS
from sparkcep.plan.limits import MAX_OFFSET_IN_DEFINE
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import (
    ALL_ROWS,
    SUMS,
    TOTAL,
    At,
    Checked,
    Condition,
    Extreme,
    Label,
    Lit,
    Pair,
    Prior,
    Running,
    places_of,
    walk,
)
from sparkcep.plan.split.conditions import MATH_CALLS, looks_at_match

_OPS = """RETURN LOADI LOADF NAVI NAVF SLOTI SLOTF STD CONSTI CONSTF NULL MNO CLS
ADDI SUBI MULI DIVI MODI NEGI ABSI SIGNI ADDF SUBF MULF DIVF MODF NEGF ABSF SIGNF
CLSSLOT I2F SCALE EQI NEI LTI LEI GTI GEI NSI EQF NEF LTF LEF GTF GEF NSF
AND OR NOT ISNULL ISTRUE ISFALSE ISNAN JNOT JUMP JFALSE JTRUE JSOME POP MAXI MINI MAXF MINF
SQRT EXP LN LOG10 POW FLOOR CEIL ROUND32 DISTINCT
MATH ATAN2 HYPOT PMODI PMODF ROUNDF ROUNDI RESCALE F2I NARROW ROWAT PAIRI PAIRF
PRIOR CURRENT ISFIRST LOADH NAVH SLOTH PAIRH FITS JNULL FAIL SWAP
WIDEN FITW ADDW SUBW MULW DIVW MODW PMODW CMPW EXTREMEW NEGW ABSW W2F W2I
LOCAL INSTANT DAYOF SECONDS ADDTIME ADDMONTHS""".split()
OP = {name: i for i, name in enumerate(_OPS)}
OP_NAMES = tuple(_OPS)

_SLOT_KINDS = (
    "LAST FIRST LABELLAST BYLABEL LABELFIRST COUNT SUMI SUMF MINI MAXI MINF MAXF MEAN M2 SUMLOW SUMHIGH EXTREME BYI BYF BYSOME SUMTOP SUMOVER".split()
)
SLOT = {name: i for i, name in enumerate(_SLOT_KINDS)}
# The first kind of DISTINCT that is a variance. That of a sample is 2 more, and a square root is 1 more.
VARIANCE = 16
FLOAT_COLUMN = 1 << 20  # added to the number of a column of floats, if a number may also be that of a column of integers

_LIMITS = {k: (1 << (b - 1)) - 1 for k, b in INT_BITS.items()} | {"months": (1 << 31) - 1}
_MOST = (1 << 63) - 1
MAX_INSTRUCTIONS = 200_000
_PART = "map_entries(m), element_at(m, 'key')"
_PARTS = {"variant": "variant_get(v, '$.x', 'int')", "geometry": "ST_AsBinary(g)", "geography": "ST_AsBinary(g)"}
_DATE, _STAMPS = Type("date"), ("timestamp", "timestamp_ntz")
_COMPARE = {"=": "EQ", "!=": "NE", "<": "LT", "<=": "LE", ">": "GT", ">=": "GE", "<=>": "NS"}
_FLOAT_CALLS = {"sqrt": "SQRT", "exp": "EXP", "ln": "LN", "log10": "LOG10", "pow": "POW", "atan2": "ATAN2", "hypot": "HYPOT"}
# calls that fail for some values under ANSI; _EXACT are those that fail for exact numbers only
_EXACT = frozenset(["+", "-", "*", "neg", "abs", TOTAL, SUMS])
_DIVISIONS = frozenset(["/", "%", "div", "pmod"])
_NULL_OPERATORS = frozenset(["=", "!=", "<", "<=", ">", ">=", "+", "-", "*", "datediff", TOTAL]) | _DIVISIONS  # NULL if an operand is NULL
_FAILING = _EXACT | _DIVISIONS | {"cast", "round", "floor", "ceil", "datediff"}
KNOWN = "rows known"  # used as a column's name: how many rows after each row are known
_TYPE_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float"}


@dataclass(frozen=True)
class Conditions:
    """The compiled conditions of all variables.

    Attributes:
        code: int64 (n, 5); ``instructions`` rows, then the time zone's table if an instruction reads it.
        entry: int64 (variables); first instruction of the part that looks at the match, or -1.
        shift_entry: int64 (variables); first instruction of the part that reads physical neighbours only, or -1.
        floats: float64 constants.
        slots: int64 (m, 6); kind, mask, k, column, filter column, helper slot.
        live: uint8 (variables, m); 1 if a variable's condition reads the slot.
        int_columns, float_columns: input columns by kernel index, each with the view that kernels get
            (:mod:`sparkcep.columns.types`).
        pairs: array columns with the values of functions over several rows.
        ranked: integer columns that hold ranks, with the kind of their type.
        strings: constants of the string rank domain. The engine adds the labels of CLASSIFIER() after them.
        string_patches: (instruction, number of the constant) for each instruction whose operand becomes a rank.
        stack: the stack depth needed.
        classifier_read: whether CLASSIFIER() is read.
        labels_read: whether labels are read beyond those that slots hold.
        distinct_read: whether an aggregate over distinct values is read.
        number_read: whether MATCH_NUMBER() is read.
        max_back, max_ahead: the farthest physical offsets, backward and forward.
        reads_prior: for each variable, whether its condition reads slots as of the previous row.
        instructions: number of instructions in ``code``.
    """

    code: np.ndarray
    entry: np.ndarray
    shift_entry: np.ndarray
    floats: np.ndarray
    slots: np.ndarray
    live: np.ndarray
    int_columns: tuple[tuple[str, str], ...]
    float_columns: tuple[tuple[str, str], ...]
    pairs: tuple[tuple[str, str], ...]
    ranked: tuple[tuple[str, str], ...]
    strings: tuple[str, ...]
    string_patches: tuple[tuple[int, int], ...]
    stack: int
    classifier_read: bool
    labels_read: bool
    distinct_read: bool
    number_read: bool
    max_back: int
    max_ahead: int
    reads_prior: tuple[bool, ...]
    instructions: int

    @property
    def has_history(self) -> bool:
        """Whether any condition reads more than its row and that row's physical neighbours."""
        return bool((self.entry >= 0).any())

    def dump(self, variables: tuple[str, ...]) -> str:
        """A numbered listing with the entry points of each variable."""
        starts: dict[int, str] = {}
        for i, name in enumerate(variables):
            if self.shift_entry[i] >= 0:
                starts[int(self.shift_entry[i])] = f"{name}, physical neighbours only:"
            if self.entry[i] >= 0:
                starts[int(self.entry[i])] = f"{name}, looks at the match:"
        lines = []
        for pc, (op, *operands) in enumerate(self.code[: self.instructions].tolist()):
            if pc in starts:
                lines.append(starts[pc])
            while operands and operands[-1] == 0:
                operands.pop()
            lines.append(f"{pc:4d}  {OP_NAMES[op]:<8}{', '.join(map(str, operands))}".rstrip())
        for i, (kind, mask, k, column, keep, _) in enumerate(self.slots.tolist()):
            lines.append(f"slot {i}: {_SLOT_KINDS[kind]} of {_mask_text(mask, variables)} k={k} column={column} filter={keep}")
        if len(self.code) > self.instructions:
            lines.append(f"from {self.instructions} on: the offsets of the time zone")
        return "\n".join(lines)


def _mask_text(mask: int, variables: tuple[str, ...]) -> str:
    if mask == -1:
        return "all rows"
    return "{" + ", ".join(v for i, v in enumerate(variables) if mask >> i & 1) + "}"


def compile_conditions(plan: Plan, schema: pa.Schema, looks: tuple[int, ...], deferred: bool = False) -> Conditions:
    """Compiles the condition trees of a plan over the columns of ``schema``.

    Args:
        plan: the plan.
        schema: the input columns.
        looks: for each variable, how many rows after the candidate row its condition may read.
        deferred: whether conditions on physical neighbours are evaluated only for candidates, like conditions that look at the
            match, and not for every row ahead.

    Raises:
        ClauseError: for type errors, at the condition's place.
    """

    def compiled(chosen: tuple[Condition, ...]) -> Conditions:
        return ConditionCompiler(plan.variables, schema, plan.ansi, plan.adjacent, plan.zone, plan.months, looks, plan.precision_loss).run(chosen, deferred)

    try:
        return compiled(plan.conditions)
    except ClauseError:
        for condition in plan.conditions:
            whole, *operands = places_of(condition, plan.places)
            for part, at in [*(((tree,), at) for tree, at in zip(condition.trees, operands)), (condition.trees, whole)]:
                try:
                    compiled((condition._replace(trees=part),))
                except ClauseError as error:
                    if at is None:
                        raise
                    raise error.moved(at.line, at.column, at.text.split("\n")[0]) from None
        raise


def _error(message: str) -> ClauseError:
    return ClauseError("DATATYPE_MISMATCH", message, sqlstate=SEMANTIC)


class _Slot(NamedTuple):
    """A row of ``slots``: a value over the rows of the variables in ``mask``.

    Attributes:
        kind: the kind of value, a number from SLOT.
        mask: mask of the variables, -1 for all rows.
        k: a parameter of the kind, such as the number of rows to step over.
        column: the column of the value, -1 if none.
        keep: a Boolean column; only rows where it is true count. -1 for no filter.
        helper: the slot that the value is computed from, -1 if none.
    """

    kind: int
    mask: int
    k: int
    column: int
    keep: int
    helper: int


@dataclass
class ConditionCompiler:
    variables: tuple[str, ...]
    schema: pa.Schema
    ansi: bool
    adjacent: bool
    zone: str = "UTC"
    months: tuple[str, ...] = ()
    looks: tuple[int, ...] = ()
    precision_loss: bool = True
    code: list[list[int]] = field(default_factory=list)
    floats: list[float] = field(default_factory=list)
    slots: dict[_Slot, int] = field(default_factory=dict)
    ints: list[tuple[str, str]] = field(default_factory=list)
    flts: list[tuple[str, str]] = field(default_factory=list)
    pairs: list[tuple[str, str]] = field(default_factory=list)
    ranked: dict[str, str] = field(default_factory=dict)
    strings: list[str] = field(default_factory=list)
    patches: list[tuple[int, int]] = field(default_factory=list)
    zoned: list[int] = field(default_factory=list)  # instructions that read the time zone's table
    skips: list[int] = field(default_factory=list)  # jumps to the end of the call that is being emitted
    used: set[int] = field(default_factory=set)
    types: dict[tuple, Type] = field(default_factory=dict)
    back: int = 0
    ahead: int = 0

    def run(self, conditions: tuple[Condition, ...], deferred: bool = False) -> Conditions:
        count = len(self.variables)
        entry = np.full(count, -1, dtype=np.int64)
        shift_entry = np.full(count, -1, dtype=np.int64)
        reads: list[set[int]] = [set() for _ in range(count)]
        prior = [False] * count
        for variable, conjuncts in conditions:
            for target, wanted in ((shift_entry, False), (entry, True)):
                chosen = [c for c in conjuncts if (deferred or looks_at_match(c)) == wanted]
                if not chosen:
                    continue
                target[variable] = len(self.code)
                self.used = set()
                skips = self._known(self.looks[variable]) if wanted else ()
                tree = chosen[0] if len(chosen) == 1 else ("call", "and", *chosen)
                got = self.emit(tree)
                if got.kind not in ("boolean", "null"):
                    raise _error(f"the condition of {self.variables[variable]} is of type {got}, not BOOLEAN. Write a comparison")
                self._land(*skips)
                self.op("RETURN")
                if wanted:
                    reads[variable] = set(self.used)
                    prior[variable] = any(row[0] == OP["PRIOR"] for row in self.code[target[variable] :])
        names = {OP_NAMES[row[0]] for row in self.code}
        instructions = len(self.code)
        self.add_zone()
        live = np.zeros((count, len(self.slots)), dtype=np.uint8)
        for v in range(count):
            for s in self._closure(reads[v]):
                live[v, s] = 1
        return Conditions(
            code=np.array(self.code, dtype=np.int64).reshape(-1, 5),
            entry=entry,
            shift_entry=shift_entry,
            floats=np.array(self.floats or [0.0], dtype=np.float64),
            slots=np.array(list(self.slots), dtype=np.int64).reshape(-1, 6),
            live=live,
            int_columns=tuple(self.ints),
            float_columns=tuple(self.flts),
            pairs=tuple(self.pairs),
            ranked=tuple(self.ranked.items()),
            strings=tuple(self.strings),
            classifier_read=bool(names & {"CLS", "CLSSLOT"}),
            string_patches=tuple(self.patches),
            stack=instructions + 4 if instructions < 60 else 64 + max((_depth(c) for _, cs in conditions for c in cs), default=0),
            labels_read=any(row[0] == OP["CLS"] and (row[1] >= 0 or row[2] != 0) for row in self.code[:instructions]),
            distinct_read="DISTINCT" in names,
            number_read="MNO" in names,
            max_back=self.back,
            max_ahead=self.ahead,
            reads_prior=tuple(prior),
            instructions=instructions,
        )

    def _known(self, look: int) -> tuple[int, ...]:
        """Emits a test that makes the condition true as long as rows that it may read have not arrived.

        Returns the jump to the condition's end, () if the condition reads no rows ahead. A search that resumes at such a row
        completes no match before these rows have arrived.
        """
        if not look:
            return ()
        self.op("LOADI", _index(self.ints, (KNOWN, WORD)), 0, -1)
        self.op("CONSTI", look)
        self.op("LTI")
        at = self.op("JTRUE")
        self.op("POP")
        return (at,)

    def _closure(self, reads: set[int]) -> set[int]:
        """The slots that determine the future values of ``reads``, including helper slots."""
        keys = list(self.slots)
        todo, out = list(reads), set()
        while todo:
            s = todo.pop()
            if s in out:
                continue
            out.add(s)
            if keys[s].helper >= 0 and keys[s].kind not in (SLOT["SUMI"], SLOT["SUMF"]):
                todo.append(keys[s].helper)
        return out

    def op(self, name: str, a: int = 0, b: int = 0, c: int = 0, d: int = 0) -> int:
        if len(self.code) >= MAX_INSTRUCTIONS:
            message = f"the conditions need more than {MAX_INSTRUCTIONS} instructions; compute parts of them in a subquery below the clause"
            raise ClauseError("EXPRESSION_TOO_DEEP", message, sqlstate=LIMIT)
        self.code.append([OP[name], a, b, c, d])
        return len(self.code) - 1

    def _land(self, *jumps: int) -> None:
        """Makes jumps lead to the next instruction."""
        for at in jumps:
            self.code[at][1] = len(self.code)

    def add_zone(self) -> None:
        """Appends the time zone's table to the instructions if one of them reads it."""
        if not self.zoned:
            return
        table = transitions(self.zone)
        for at in self.zoned:
            self.code[at][1:3] = [len(self.code), len(table)]
        self.code += [[instant, offset, 0, 0, 0] for instant, offset in table.tolist()]

    def _zoned(self, name: str, starts_day: int = 0) -> None:
        """Emits an instruction that reads the time zone's table."""
        self.zoned.append(self.op(name, 0, 0, starts_day))

    # -- columns and slots ----------------------------------------------------------------------------------

    def column(self, name: str) -> tuple[Type, int]:
        t = Type("months") if name in self.months else type_of(self.schema.field(name).type)
        if t.is_float:
            return t, _index(self.flts, (name, WORD))
        self._rank(name, t)
        return t, self._words(self.ints, name, t)

    def _rank(self, name: str, t: Type) -> None:
        """Records a column that holds ranks, itself or in its elements."""
        if t.is_ranked:
            self.ranked[name] = str(t) if t.kind == "nested" else t.kind

    def _words(self, items: list[tuple[str, str]], name: str, t: Type) -> int:
        """The index of the first word of a column's values."""
        return _index(items, (name, LOW), (name, HIGH)) if t.is_wide else _index(items, (name, WORD))

    def slot(self, kind: str, mask: int, k: int = 0, column: int = -1, keep: int = -1, helper: int = -1) -> int:
        key = _Slot(SLOT[kind], mask, k, column, keep, helper)
        index = self.slots.setdefault(key, len(self.slots))
        self.used.add(index)
        return index

    def row_slot(self, kind: str, which: str, mask: int, k: int) -> int:
        """The slot for the position (``kind`` "") or the label (``kind`` LABEL) of a mask's first or last row but k.

        The slots that it depends on are created, too.
        """
        slot = -1
        for before in range(k + 1):
            slot = self.slot(kind + {"L": "LAST", "F": "FIRST"}[which], mask, before, helper=slot)
        return slot

    # -- trees ----------------------------------------------------------------------------------------------

    def emit(self, tree: tuple) -> Type:
        """Appends code that leaves the tree's value on the stack. Returns the value's type."""
        kind = tree[0]
        if kind == "col":
            return self._load(tree.column, 0, None)
        if kind == "off":
            return self._load(tree.column, tree.physical, tree.absent)
        for own, emitted in (
            ("nav", self._nav), ("cls", self._classifier), ("agg", self._aggregate), ("by", self._by), ("lit", self._literal),
            ("pair", self._paired), ("prior", self._prior), ("checked", self._checked),
        ):  # fmt: skip
            if kind == own:
                return emitted(tree)
        if kind == "mno":
            self.op("MNO")
            return BIGINT
        if kind == "isfirst":
            self.op("ISFIRST", self.slot("COUNT", tree.mask))
            return BOOLEAN
        return self._call(tree[1], tree[2:])

    def _reach(self, physical: int) -> None:
        self.back = max(self.back, -physical)
        self.ahead = max(self.ahead, physical)

    def _absent(self, absent: str | None, t: Type) -> int:
        if absent is None:
            return -1
        absent_type, index = self.column(absent)
        return index if (absent_type.is_float, absent_type.is_wide) == (t.is_float, t.is_wide) else -1

    def _high(self, t: Type, name: str, *operands: int) -> None:
        """Loads the second word of the value just loaded, if it has one."""
        if t.is_wide:
            self.op(name, *operands)

    def _load(self, name: str, physical: int, absent: str | None) -> Type:
        t, index = self.column(name)
        self._reach(physical)
        other = self._absent(absent, t)
        self.op("LOADF" if t.is_float else "LOADI", index, physical, other)
        self._high(t, "LOADH", index + 1, physical, other + (other >= 0))
        return t

    def _nav(self, tree: At) -> Type:
        t, index = self.column(tree.column)
        self._reach(tree.physical)
        slot = self.row_slot("", tree.which, tree.mask, tree.logical)
        other = self._absent(tree.absent, t)
        self.op("NAVF" if t.is_float else "NAVI", slot, tree.physical, index, other)
        self._high(t, "NAVH", slot, tree.physical, index + 1, other + (other >= 0))
        return t

    def _prior(self, tree: Prior) -> Type:
        at = self.op("PRIOR", self.slot("COUNT", tree.mask))
        t = self.emit(tree.tree)
        self.op("CURRENT")
        self.code[at][3] = len(self.code)
        return t

    def _checked(self, tree: Checked) -> Type:
        """Emits the value, and an error for rows where Spark failed to compute it."""
        t = self.emit(tree.tree)
        self.emit(tree.failed)
        self.op("FAIL", tree.number)
        return t

    def _paired(self, tree: Pair) -> Type:
        """Picks the element of an array column that belongs to the numbers of the rows read."""
        name = tree.column
        t = type_of(self.schema.field(name).type.value_type)
        self._rank(name, t)
        _, column = self.column(tree.number)
        for row in tree.rows:
            self._reach(row.physical)
            self.op("ROWAT", self.row_slot("", row.which, row.mask, row.logical), row.physical, column)
        index = self._words(self.pairs, name, t)
        self.op("PAIRF" if t.is_float else "PAIRI", index, len(tree.rows))
        self._high(t, "PAIRH", index + 1, index)
        return t

    def _classifier(self, tree: Label) -> Type:
        _, which, mask, logical, physical = tree
        if which == "cur" and physical > 0:
            self.op("NULL")  # no later row has a variable yet
            return STRING
        if which == "cur" and physical < 0 and self.adjacent:
            # Rows of a match are adjacent, so the neighbour is an earlier row of the match or lies outside it.
            which, mask, logical, physical = "L", ALL_ROWS, -physical, 0
            if logical > MAX_OFFSET_IN_DEFINE:
                raise ClauseError("NAVIGATION_OFFSET", f"the offset of PREV around CLASSIFIER() in DEFINE must be at most {MAX_OFFSET_IN_DEFINE}", sqlstate=SEMANTIC)
        self._reach(physical)
        if which == "cur":
            self.op("CLS", -1, physical)
        elif physical == 0:
            self.op("CLSSLOT", self.row_slot("LABEL", which, mask, logical))
        else:
            self.op("CLS", self.row_slot("", which, mask, logical), physical)
        return STRING

    def _literal(self, tree: Lit) -> Type:
        kind, text = tree.type, tree.text
        if kind == "null":
            self.op("NULL")
            return NULL
        if kind == "bool":
            self.op("CONSTI", int(text == "TRUE"))
            return BOOLEAN
        if kind == "string":
            at = self.op("CONSTI")
            self.patches.append((at, _index(self.strings, text)))
            return STRING
        if kind == "double":
            self.floats.append(float(text))
            self.op("CONSTF", len(self.floats) - 1)
            return DOUBLE
        if kind == "date":
            self.op("CONSTI", int(text))
            return Type("date")
        if kind == "days":
            self.op("CONSTI", int(text) * DAY)
            return Type("interval")
        if kind == "decimal":
            digits = text.lstrip("-")
            whole, _, fraction = digits.partition(".")
            self.op("CONSTI", int(("-" if text[0] == "-" else "") + whole + fraction))
            return Type("decimal", max(len((whole + fraction).lstrip("0")), len(fraction), 1), len(fraction))
        self.op("CONSTI", int(text))
        return INT if kind == "int" else BIGINT

    # -- calls ----------------------------------------------------------------------------------------------

    def _call(self, name: str, args: tuple) -> Type:
        first, *others = args[::-1] if name in _DIVISIONS else args
        if name in _NULL_OPERATORS and first[0] != "lit" and any(map(self._may_fail, others)):
            self.tree_type(first)  # numbers its slots: their order is that of stored states of streams
        around, self.skips = self.skips, []
        t = self._called(name, args)
        self._land(*self.skips)
        self.skips = around
        return t

    def _in_order(self, left: tuple, right: tuple, *, divides: bool = False) -> Iterator[tuple[int, tuple]]:
        """Yields the number (0 or 1) and the tree of each operand of a call that is NULL if one of them is.

        The caller emits each operand when it gets it, so the operands are computed in Spark's order: a divisor (``divides``) comes
        first. If the first one is NULL, Spark does not compute the other, which then cannot fail. So a jump skips the rest of the
        call, and the NULL on the stack is its value.
        """
        if divides and right[0] != "lit" and self._may_fail(left):
            yield 1, right
            self.skips.append(self.op("JNULL"))
            yield 0, left
            self.op("SWAP")
            return
        yield 0, left
        if not divides and left[0] != "lit" and self._may_fail(right):
            self.skips.append(self.op("JNULL"))
        yield 1, right

    def _may_fail(self, tree: tuple) -> bool:
        """Whether computing a tree may raise an error."""
        for part in walk(tree):
            if part[0] == "checked":
                return True
            if self.ansi and part[0] == "call" and part[1] in _FAILING and (part[1] not in _EXACT or not self.tree_type(part).is_float):
                return True
        return False

    def _called(self, name: str, args: tuple) -> Type:
        if name in ("and", "or"):
            return self._logic(name, args)
        if name in _COMPARE:
            return self._compare(_COMPARE[name], *args)
        if name == "in":
            return self._in(*args)
        if name in ("+", "-", "*", "/", "%", "div"):
            return self._arithmetic(name, *args)
        if name == TOTAL:
            return self._total(*args)
        if name == SUMS:
            return self._sums(args)
        if name in ("not", "isnull", "istrue", "isfalse"):
            t = self.emit(args[0])
            if name != "isnull" and t.kind not in ("boolean", "null"):
                raise _error(f"{name.upper()} needs a BOOLEAN, not {t}")
            self.op({"not": "NOT", "isnull": "ISNULL", "istrue": "ISTRUE", "isfalse": "ISFALSE"}[name], int(t.is_float))
            return BOOLEAN
        if name == "exact":
            return self._exact(args[0])
        if name == "if":
            return self._if(args)
        if name == "coalesce":
            return self._coalesce(args)
        if name in ("greatest", "least"):
            return self._extreme(name, args)
        return self._function(name, args)

    def _logic(self, name: str, args: tuple) -> Type:
        jump = "JFALSE" if name == "and" else "JTRUE"
        self._boolean(args[0], name)
        jumps = []
        for arg in args[1:]:
            jumps.append(self.op(jump))
            self._boolean(arg, name)
            self.op(name.upper())
        self._land(*jumps)
        return BOOLEAN

    def _boolean(self, tree: tuple, name: str) -> None:
        t = self.emit(tree)
        if t.kind not in ("boolean", "null"):
            raise _error(f"{name.upper()} needs BOOLEAN operands, not {t}")

    def _convert(self, at_top: Type, target: Type) -> None:
        """Converts the value on top of the stack between number types, or between types of dates and times."""
        if at_top.kind == "null" or target.kind == "null" or at_top == target:
            return
        if target.is_time:
            self._convert_time(at_top.kind, target.kind)
        elif target.kind == "float" and at_top.is_integer:
            self.op("I2F", 0, 1)
        elif target.is_float and not at_top.is_float:
            if at_top.kind == "decimal" and at_top.precision > 15:  # beyond what a DOUBLE holds exactly
                self._widen(at_top)
                self.op("W2F", at_top.scale)
            else:
                self.op("I2F", at_top.scale)
        elif target.kind == "decimal":
            grow = target.scale - at_top.scale
            if target.is_wide:
                self._widen(at_top)
                if grow:
                    self.op("FITW", grow, 0, target.precision, int(self.ansi))
            elif grow:
                self.op("SCALE", grow)

    def _convert_time(self, found: str, target: str) -> None:
        if found == "date":
            self.op("CONSTI", DAY)
            self.op("MULI", _MOST, 1)
            if target == "timestamp":
                self._zoned("INSTANT", 1)
        elif target == "date":
            if found == "timestamp":
                self._zoned("LOCAL")
            self.op("DAYOF")
        elif found != target:
            self._zoned("INSTANT" if target == "timestamp" else "LOCAL")

    def common(self, left: Type, right: Type, what: str) -> Type:
        """The common type of two types, by Spark's rules for comparisons and for branches."""
        if left == right or right.kind == "null":
            return left
        if left.kind == "null":
            return right
        if left.is_time and right.is_time:
            return left if right.kind == "date" or left.kind == "timestamp" else right
        if left.is_number and right.is_number:
            if left.is_float or right.is_float:
                if "double" in (left.kind, right.kind):
                    return DOUBLE
                # Under ANSI an integer beside a FLOAT becomes a DOUBLE, because a FLOAT's digits do not hold it.
                return Type("float") if left.kind == right.kind or (not self.ansi and "decimal" not in (left.kind, right.kind)) else DOUBLE
            if left.is_integer and right.is_integer:
                return left if INT_BITS[left.kind] >= INT_BITS[right.kind] else right
            return wider(decimal_of(left), decimal_of(right))
        if "string" in (left.kind, right.kind):
            other = right if left.kind == "string" else left
            to = "BIGINT" if other.is_integer else "DOUBLE" if other.is_number else str(other).upper()
            raise _error(f"{what} compares {left} with {right}; write CAST(x AS {to}) around the string, as Spark does over one row")
        raise _error(f"{what} compares {left} with {right}; cast one of them")

    def _common_of(self, trees: Iterable[tuple], what: str) -> Type:
        """The common type of trees."""
        return functools.reduce(lambda t, tree: self.common(t, self.tree_type(tree), what), trees, NULL)

    def _pair(self, left: tuple, right: tuple, what: str, *, divides: bool = False, strict: bool = True) -> Type:
        """Emits both operands, converted to their common type.

        An integer literal beside a decimal gets the smallest decimal type. ``divides``: the right operand is a divisor. ``strict``:
        the result is NULL if an operand is.
        """
        a, b = self.tree_type(left), self.tree_type(right)
        if a.kind == "decimal":
            b = _literal_type(right, b)
        elif b.kind == "decimal":
            a = _literal_type(left, a)
        target = self.common(a, b, what)
        for _, side in self._in_order(left, right, divides=divides) if strict else enumerate((left, right)):
            self._convert(self.emit(side), target)
        return target

    def tree_type(self, tree: tuple) -> Type:
        """The type of a tree. Its code is discarded."""
        if tree in self.types:
            return self.types[tree]
        emitted = (self.code, self.floats, self.patches, self.zoned)
        lengths = [len(items) for items in emitted]
        t = self.emit(tree)
        for items, length in zip(emitted, lengths):
            del items[length:]
        self.types[tree] = t
        return t

    def _compare(self, op: str, left: tuple, right: tuple) -> Type:
        self._compared(op, self._pair(left, right, "a condition", strict=op != "NS"))
        return BOOLEAN

    def _in(self, value: tuple, *items: tuple) -> Type:
        """Emits IN. As in Spark, the value and all items are converted to one type before they are compared."""
        target = self._common_of((value, *items), "a condition")
        found = []
        for i, item in enumerate(items):
            if i:
                found.append(self.op("JTRUE"))
            self._convert(self.emit(value), target)
            if not i and any(map(self._may_fail, items)):
                self.skips.append(self.op("JNULL"))  # as in Spark, the items beside NULL are not computed
            self._convert(self.emit(item), target)
            self._compared("EQ", target)
            if i:
                self.op("OR")
        self._land(*found)
        return BOOLEAN

    def _compared(self, op: str, t: Type) -> None:
        """Compares the two values of one type on top of the stack."""
        self._comparable(t, "a condition")
        if t.is_wide:
            self.op("CMPW", list(_COMPARE.values()).index(op))
        else:
            self.op(op + ("F" if t.is_float else "I"))

    def _comparable(self, t: Type, what: str) -> None:
        if t.kind == "opaque":
            raise _error(f"{what} compares values of type {t}, which Spark does not compare. Compare parts of them, such as {_PARTS.get(t.detail, _PART)}")

    def _arithmetic(self, op: str, left: tuple, right: tuple) -> Type:
        a, b = self.tree_type(left), self.tree_type(right)
        if a.kind == "null" or b.kind == "null":
            self.op("NULL")
            return b if a.kind == "null" else a
        if (temporal := self._temporal(op, left, right, a, b)) is not None:
            return temporal
        if op == "-" and a == b == Type("nested", detail="time"):
            raise _error("TIME - TIME is not computed in DEFINE. Write time_diff('SECOND', earlier, later), or compare with earlier + INTERVAL '1' HOUR")
        if op in "+-" and {a.kind, b.kind} == {"date", "interval"}:
            raise _error(f"DATE {op} an interval is a DATE or a TIMESTAMP by the units of the interval, which the engine does not know. Write whole days as a number, as in d {op} 30")
        if not (a.is_number and b.is_number):
            raise _error(f"{op} is not defined for {a} and {b}; cast them, or compute it in a subquery below the clause")
        if a.is_float or b.is_float:
            return self._float_arithmetic(op, left, right, a, b)
        if op == "div" and a.is_integer and b.is_integer:
            self._both(left, right, divides=True)
            self.op("DIVI", 0, int(self.ansi))
            return BIGINT
        if a.is_integer and b.is_integer:
            if op == "/":
                return self._float_arithmetic(op, left, right, a, b)
            t = self.common(a, b, op)
            self._both(left, right, divides=op == "%")
            self.op({"+": "ADDI", "-": "SUBI", "*": "MULI", "%": "MODI"}[op], _LIMITS[t.kind], int(self.ansi))
            return t
        return self._decimal_arithmetic(op, left, right, decimal_of(_literal_type(left, a)), decimal_of(_literal_type(right, b)))

    def _both(self, left: tuple, right: tuple, *, divides: bool = False) -> None:
        """Emits both operands of a call as they are."""
        for _, side in self._in_order(left, right, divides=divides):
            self.emit(side)

    def _temporal(self, op: str, left: tuple, right: tuple, a: Type, b: Type) -> Type | None:
        """Emits arithmetic of dates, timestamps and intervals as Spark computes it. None for other types."""
        if op == "-" and a.is_time and b.is_time:
            # Spark subtracts local clock times
            if a.kind == b.kind == "date":
                self._both(left, right)
                self.op("SUBI", _MOST, 1)
                self.op("CONSTI", DAY)
                self.op("MULI", _MOST, 1)
            else:
                for _, side in self._in_order(left, right):
                    t = self.emit(side)
                    if t.kind == "date" and "timestamp" in (a.kind, b.kind):
                        # a day's first moment, which is not always midnight
                        self._convert_time("date", "timestamp")
                        self._zoned("LOCAL")
                    else:
                        self._convert_time(t.kind, "timestamp_ntz")
                self.op("SUBI", _MOST, 1)
            return Type("interval")
        if op in "+-" and a.kind == b.kind and a.is_interval:
            self._both(left, right)
            self.op("ADDI" if op == "+" else "SUBI", _LIMITS.get(a.kind, _MOST), 1)
            return a
        if op == "div" and a.kind == b.kind and a.is_interval:
            self._both(left, right, divides=True)
            self.op("DIVI", 0, int(self.ansi))
            return BIGINT
        if op == "+" and a.kind in ("interval", "months", "tinyint", "smallint", "int") and b.is_time:
            left, right, a, b = right, left, b, a
        if op in "+-" and a.kind == "date" and right[:2] == ("lit", "days"):
            right, b = Lit("lit", "int", right.text), INT  # other intervals beside a DATE give a TIMESTAMP
        if op in "+-" and a.kind in _STAMPS and b.kind == "interval":
            self._both(left, right)
            if op == "-":
                self.op("NEGI", _MOST, 1)
            if a.kind == "timestamp":
                self._zoned("ADDTIME")
            else:
                self.op("ADDI", _MOST, 1)
            return a
        if op in "+-" and a.is_time and b.kind == "months":
            self._both(left, right)
            if op == "-":
                self.op("NEGI", _LIMITS["months"], 1)
            self._zoned("ADDMONTHS", ["date", "timestamp_ntz", "timestamp"].index(a.kind))
            return a
        if op in "+-" and a.kind == "date" and b.kind in ("tinyint", "smallint", "int"):
            self._both(left, right)
            self.op("ADDI" if op == "+" else "SUBI", _LIMITS["int"], 0)
            return a
        if op == "*" and a.is_number and b.is_interval:
            left, right, a, b = right, left, b, a
        if op in "*/" and a.is_interval and b.is_number:
            return self._scaled_interval(op, left, right, a, _literal_type(right, b) if b.kind == "decimal" else b)
        return None

    def _scaled_interval(self, op: str, left: tuple, right: tuple, a: Type, b: Type) -> Type:
        """Emits an interval times or over a number, rounded half up. Overflow is an error, even with ANSI off."""
        limit = _LIMITS.get(a.kind, _MOST)
        of_integer = op == "*" and b.is_integer
        for number, side in self._in_order(left, right):
            t = self.emit(side)
            if b.is_float and number == 0:
                self.op("I2F", 0)
            elif not b.is_float and not of_integer:
                self._widen(t)
        if of_integer:
            self.op("MULI", limit, 1)
        elif b.is_float:
            self.op("MULF" if op == "*" else "DIVF", 0, 1)
            self.op("ROUNDF", 0)
            self.op("F2I", limit, 1)
        else:
            self.op(*("MULW", 0, 0, b.scale) if op == "*" else ("DIVW", b.scale, 0, 0), 2 * MAX_DIGITS + 1)
            self.op("W2I", limit, 1)
        return a

    def _float_arithmetic(self, op: str, left: tuple, right: tuple, a: Type, b: Type) -> Type:
        t = DOUBLE if op == "/" else self.common(a, b, op)
        for _, side in self._in_order(left, right, divides=op in _DIVISIONS):
            self._convert(self.emit(side), t)
        if op == "div":
            raise _error("DIV needs integers; use / for DOUBLE")
        self.op({"+": "ADDF", "-": "SUBF", "*": "MULF", "/": "DIVF", "%": "MODF"}[op], 0, int(self.ansi))
        if t.kind == "float":
            self.op("ROUND32")
        return t

    def _decimal_arithmetic(self, op: str, left: tuple, right: tuple, a: Type, b: Type) -> Type:
        """Emits decimal arithmetic as Spark computes it: exact, rounded half up to the type's scale.

        Overflow is NULL, or an error under ANSI.
        """
        scale = max(a.scale, b.scale)
        whole = [x.precision - x.scale for x in (a, b)]
        t = BIGINT if op == "div" else self._decimal_type(op, a, b)
        grow = [0, 0] if op in "*/" else [scale - x.scale for x in (a, b)]
        if op in "+-*%" and not t.is_wide and max(whole) + scale <= MAX_WORD_DIGITS and not (a.is_wide or b.is_wide):
            for number, side in self._in_order(left, right, divides=op == "%"):
                self.emit(side)
                if grow[number]:
                    self.op("SCALE", grow[number])
            self.op({"+": "ADDI", "-": "SUBI", "*": "MULI", "%": "MODI"}[op], (1 << 63) - 1, int(self.ansi))
            return t
        for _, side in self._in_order(left, right, divides=op in _DIVISIONS):
            self._widen(self.emit(side))
        fitting = 2 * t.precision + int(self.ansi)
        if op in "+-":
            self.op("ADDW" if op == "+" else "SUBW", *grow, scale - t.scale, fitting)
        elif op == "*":
            self.op("MULW", 0, 0, a.scale + b.scale - t.scale, fitting)
        elif op == "/":
            self.op("DIVW", t.scale + b.scale - a.scale, 0, 0, fitting)
        elif op in ("%", "pmod"):
            self.op("MODW" if op == "%" else "PMODW", *grow, 0, fitting)
        else:
            # The quotient has at most 38 digits, and a BIGINT takes its low 64 bits, also under ANSI.
            digits = min(MAX_DIGITS, max(1, whole[0] + b.scale))
            self.op("DIVW", b.scale - a.scale, -1, 0, 2 * digits + int(self.ansi))
            self.op("W2I", _MOST, 0)
        return t

    def _decimal_type(self, op: str, a: Type, b: Type) -> Type:
        """The type of a sum, difference, product, quotient or remainder of two decimals in Spark."""
        scale = max(a.scale, b.scale)
        whole = [x.precision - x.scale for x in (a, b)]
        if op == "/":
            before, after = whole[0] + b.scale, max(6, a.scale + b.precision + 1)
            if self.precision_loss:
                return adjusted(before + after, after)
            before, after = min(MAX_DIGITS, before), min(MAX_DIGITS, after)
            beyond = before + after - MAX_DIGITS
            return Type("decimal", before + after, after) if beyond <= 0 else Type("decimal", MAX_DIGITS, after - beyond // 2 - 1)
        fitted = adjusted if self.precision_loss else bounded
        if op == "*":
            return fitted(a.precision + b.precision + 1, a.scale + b.scale)
        return fitted(min(whole) + scale if op in ("%", "pmod") else max(whole) + scale + 1, scale)

    def _exact(self, tree: tuple) -> Type:
        """Emits a sum over rows of a value with MATCH_NUMBER().

        It is computed from the sum of the rows' values, or from the number of rows. That is Spark's result only if Spark rounds no
        row's value.
        """
        sides = tree[2:] if tree[0] == "call" and tree[1] in ("+", "-", "*") else ()
        types = [self.tree_type(side) for side in sides]
        kinds = {t.kind for t in types}
        if "decimal" in kinds and all(t.kind == "decimal" or t.is_integer for t in types):
            return self._exact_decimal(tree[1], *sides)
        t = self.emit(tree)
        if t.is_float or any(side.is_float for side in types) or (t.is_interval and "decimal" in kinds):
            raise _error(f"a sum of {t} values and MATCH_NUMBER() is not computed, because it would be rounded differently. Cast to DECIMAL")
        return t

    def _exact_decimal(self, op: str, left: tuple, right: tuple) -> Type:
        """Emits the sum or the product of two sums of decimals, or the product of a decimal and a number of rows."""
        a, b = (decimal_of(self.tree_type(side)) for side in (left, right))
        scale = a.scale + b.scale if op == "*" else max(a.scale, b.scale)
        added = [self._added(side) for side in (left, right)]
        types = [self._decimal_type(op, x, y) for x in added[0] for y in added[1]] or [*added[0], *added[1]]
        if any(t.scale < scale for t in types):
            message = f"a sum of {types[0]} values and MATCH_NUMBER() is not computed, because it would be rounded differently"
            raise _error(f"{message}. Write CAST(MATCH_NUMBER() AS INT), or cast the other value to fewer digits")
        t = bounded(max(t.precision for t in types) + 10, scale)
        for _, side in self._in_order(left, right):
            self._widen(self.emit(side))
        grow = (0, 0) if op == "*" else (scale - a.scale, scale - b.scale)
        self.op({"+": "ADDW", "-": "SUBW", "*": "MULW"}[op], *grow, 0, 2 * t.precision + int(self.ansi))
        return t

    def _added(self, tree: tuple) -> list[Type]:
        """The types of what each row adds to a sum, as decimals. Empty for a number of rows."""
        aggregates = [part for part in walk(tree) if part[0] == "agg"]
        summed = [self.column(part.column)[0] for part in aggregates if part.function == "sum"]
        if tree[:2] == ("call", "exact") and tree[2][:2] == ("call", "*"):
            summed = [self.tree_type(tree[2][2])]
        elif not aggregates:
            summed = [self.tree_type(tree)]
        return [decimal_of(t) for t in summed]

    def _total(self, held: tuple, value: tuple) -> Type:
        """Emits the sum of a register and a value.

        Its type is that of the register, because + would cut decimal places of 38 digits. A sum of more digits is an error, also
        without ANSI, because NULL means a sum without values.
        """
        a, b = self.tree_type(held), self.tree_type(value)
        if not a.is_wide or b.kind == "null":
            return self._arithmetic("+", held, value)
        for _, side in self._in_order(held, value):
            self._widen(self.emit(side))
        self.op("ADDW", 0, a.scale - b.scale, 0, 2 * a.precision + 1)
        return a

    def _sums(self, args: tuple) -> Type:
        """Emits the total of sums, NULL if all of them are. Its type is theirs: + would cut decimal places of 38 digits."""
        target = self._common_of(args, "SUM")
        self._convert(self.emit(args[0]), target)
        for arg in args[1:]:
            first = self.op("JNULL")
            self._convert(self.emit(arg), target)
            none = self.op("JNULL")
            if target.is_float:
                self.op("ADDF")
            elif target.is_wide:
                self.op("ADDW", 0, 0, 0, 2 * target.precision + int(self.ansi))
            else:
                self.op("ADDI", _LIMITS.get(target.kind, _MOST), int(self.ansi or target.is_interval))
            ends = [self.op("JUMP")]
            self._land(first)
            self.op("POP")
            self._convert(self.emit(arg), target)
            ends.append(self.op("JUMP"))
            self._land(none)
            self.op("POP")
            self._land(*ends)
        return target

    def _widen(self, t: Type) -> None:
        """Makes a two-word number of the number on top of the stack."""
        if not t.is_wide:
            self.op("WIDEN")

    def _if(self, args: tuple) -> Type:
        """Emits IF or CASE: conditions and values alternate, and the last argument is the value if no condition holds."""
        target = self.tree_type(args[-1])
        for value in args[-2::-2]:
            target = self.common(self.tree_type(value), target, "IF or CASE")
        ends = []
        for condition, value in zip(args[:-1:2], args[1::2]):
            self._boolean(condition, "if")
            skip = self.op("JNOT")
            self._convert(self.emit(value), target)
            ends.append(self.op("JUMP"))
            self._land(skip)
        self._convert(self.emit(args[-1]), target)
        self._land(*ends)
        return target

    def _coalesce(self, args: tuple) -> Type:
        target = self._common_of(args, "COALESCE")
        jumps = []
        for i, arg in enumerate(args):
            if i:
                self.op("POP")
            self._convert(self.emit(arg), target)
            jumps.append(self.op("JSOME"))
        self._land(*jumps)
        return target

    def _extreme(self, name: str, args: tuple) -> Type:
        target = self._common_of(args, name.upper())
        self._comparable(target, name.upper())
        for i, arg in enumerate(args):
            self._convert(self.emit(arg), target)
            if i and target.is_wide:
                self.op("EXTREMEW", int(name == "greatest"))
            elif i:
                self.op(("MAX" if name == "greatest" else "MIN") + ("F" if target.is_float else "I"))
        return target

    def _function(self, name: str, args: tuple) -> Type:
        if name == "datediff":
            for _, arg in self._in_order(*args):
                t = self.emit(arg)
                if not t.is_time and t.kind != "null":
                    raise _error(f"DATEDIFF needs dates, not {t}; cast with CAST(x AS DATE)")
                self._convert(t, _DATE)
            self.op("SUBI", (1 << 31) - 1, 0)
            return INT
        if name == "timestampdiff":
            return self._time_between(*args)
        if name in _FLOAT_CALLS:
            for _, arg in self._in_order(*args) if len(args) == 2 else enumerate(args):
                self._double(self.emit(arg), name)
            self.op(_FLOAT_CALLS[name])
            return DOUBLE
        if name in ("cast", "try_cast"):
            return self._cast(args[0], args[1].text, name == "try_cast")
        if name == "pmod":
            return self._pmod(*args)
        t = self.emit(args[0])
        if name in MATH_CALLS:
            self._double(t, name)
            self.op("MATH", MATH_CALLS.index(name))
            return DOUBLE
        if name == "round":
            return self._round(t, int(args[1].text) if len(args) > 1 else 0)
        if name == "isnan":
            self._double(t, name)
            self.op("ISNAN")
            return BOOLEAN
        if not t.is_interval or name not in ("abs", "neg", "sign"):
            self._number(t, name)
        if name in ("neg", "abs"):
            limit = t.precision if t.is_wide else _LIMITS.get(t.kind, _MOST)
            self.op(name.upper() + ("F" if t.is_float else "W" if t.is_wide else "I"), limit, int(self.ansi or t.is_interval))
            return t
        if name == "sign":
            if t.is_interval:
                self.op("I2F", 0)
            else:
                self._double(t, name)
            self.op("SIGNF")
            return DOUBLE
        if name in ("floor", "ceil"):
            if t.is_integer:
                return BIGINT
            if t.kind == "decimal":
                return self._cut(t, adjusted(t.precision - t.scale + (1 if t.scale else 0), 0), {"floor": -1, "ceil": 1}[name])
            self.op(name.upper(), int(self.ansi))
            return BIGINT
        raise ValueError(name)

    def _time_between(self, unit: Lit, start: tuple, end: tuple) -> Type:
        """Emits the number of whole units between two times. As in Spark, it is that of the session's clock times."""
        for _, side in self._in_order(start, end):
            t = self.emit(side)
            if not t.is_time and t.kind != "null":
                raise _error(f"TIMESTAMPDIFF needs timestamps, not {t}; cast with CAST(x AS TIMESTAMP)")
            self._convert(t, Type("timestamp"))
            self._zoned("LOCAL")
        self.op("SUBI", _MOST, 1)
        self.op("CONSTI", UNIT_MICROS[unit.text.upper()])
        self.op("DIVI", 0, 1)
        self.op("NEGI", _MOST, 1)
        return BIGINT

    def _round(self, t: Type, digits: int) -> Type:
        self._number(t, "round")
        if t.is_integer or t.kind == "null":
            return t
        if t.is_float:
            self.op("ROUNDF", digits)
            if t.kind == "float":
                self.op("ROUND32")
            return t
        return self._cut(t, Type("decimal", min(38, t.precision - t.scale + 1 + min(digits, t.scale)), min(digits, t.scale)), 0)

    def _cut(self, t: Type, target: Type, mode: int) -> Type:
        """Drops digits after the decimal point of the decimal on top of the stack: floor (-1), half up (0) or ceiling (1)."""
        if t.is_wide or target.is_wide:
            self._widen(t)
            self.op("FITW", target.scale - t.scale, mode, target.precision, int(self.ansi))
        elif target.scale < t.scale:
            self.op("RESCALE", t.scale - target.scale, mode)
        return target

    def _pmod(self, left: tuple, right: tuple) -> Type:
        a, b = self.tree_type(left), self.tree_type(right)
        self._number(a, "pmod")
        self._number(b, "pmod")
        if "decimal" in (a.kind, b.kind) and not (a.is_float or b.is_float):
            return self._arithmetic("pmod", left, right)
        t = self._pair(left, right, "PMOD", divides=True)
        if t.is_float:
            self.op("PMODF", int(t.kind == "float"), int(self.ansi))
        else:
            self.op("PMODI", _LIMITS["int"] if t.kind == "int" else _MOST, int(self.ansi))
        return t

    def _cast(self, tree: tuple, text: str, trying: bool) -> Type:
        """Emits CAST between numbers to a type given as in SQL.

        Overflow is an error (ANSI), NULL (TRY_CAST) or wraps (ANSI off).
        """
        found = self.emit(tree)
        if text == "int" and isinstance(tree, Running) and tree.function == "count":
            return INT  # a match has fewer than 2**31 rows, and analyses of counts look for a count beside a constant
        return self.cast_top(found, text, trying)

    def cast_top(self, t: Type, text: str, trying: bool = False) -> Type:
        """Casts the value on top of the stack, of type ``t``, like CAST or (``trying``) TRY_CAST."""
        name, _, inside = text.replace(" ", "").partition("(")
        if t.kind == "boolean":
            t = INT
        if t.kind == "timestamp" and (name in INT_BITS or name in _TYPE_NAMES or name == "double"):
            # seconds since 1970; with ANSI off, seconds that the type cannot hold are NULL
            trying = trying or not self.ansi
            if _TYPE_NAMES.get(name, name) in ("float", "double"):
                self.op("I2F", 6)
                t = DOUBLE
            else:
                self.op("SECONDS")
                t = BIGINT
        self._number(t, f"CAST to {text}")
        name = _TYPE_NAMES.get(name, name)
        if name in ("float", "double"):
            if name == "float" and t.kind == "decimal":
                self._widen(t)
                self.op("W2F", t.scale, 1)  # rounded once, as in Java
            elif name == "float" and t.is_integer:
                self._convert(t, Type("float"))
            else:
                self._convert(t, DOUBLE)
                if name == "float" and t.kind != "float":
                    self.op("ROUND32")
            return Type(name)
        mode = 2 if trying else int(self.ansi)
        if name in INT_BITS:
            if t.is_float:
                self.op("F2I", _LIMITS[name], mode)
            elif t.is_wide:
                self.op("FITW", -t.scale, 2, MAX_DIGITS, 0)
                self.op("W2I", _LIMITS[name], mode)
            elif t.kind == "decimal":
                self.op("RESCALE", t.scale, 2)
                self.op("NARROW", _LIMITS[name], mode, -_LIMITS[name] - 1)
            elif t.is_integer and INT_BITS[t.kind] > INT_BITS[name]:
                self.op("NARROW", _LIMITS[name], mode, -_LIMITS[name] - 1)
            return Type(name)
        precision, _, scale = inside.rstrip(")").partition(",")
        if max(len(precision), len(scale)) > 2 or int(precision or 10) > 38 or int(scale or 0) > int(precision or 10):
            raise _error("a DECIMAL has at most 38 digits, and its scale cannot exceed its precision")
        target = Type("decimal", int(precision or 10), int(scale or 0))
        if t.is_float:
            raise _error(f"CAST of {t} to {target} across rows is not computed; cast the columns before")
        self._widen(t)
        self.op("FITW", target.scale - t.scale, 0, target.precision, mode)
        return target

    def _double(self, t: Type, name: str) -> None:
        """Makes a DOUBLE of the number on top of the stack."""
        self._number(t, name)
        self._convert(t, DOUBLE)

    def _number(self, t: Type, name: str) -> None:
        if not t.is_number and t.kind != "null":
            raise _error(f"{name.upper()} needs a number, not {t}")

    # -- aggregates -----------------------------------------------------------------------------------------

    def _aggregate(self, tree: Running) -> Type:
        fn, mask, name = tree.function, tree.mask, tree.column
        keep = -1 if tree.keep is None else self.column(tree.keep)[1]
        if name is None:
            self.op("SLOTI", self.slot("COUNT", mask, 0, -1, keep), -1)
            return BIGINT
        t, index = self.column(name)
        where = index + (1 << 20) if t.is_float else index  # float columns are marked by an offset
        count = self.slot("COUNT", mask, 0, where, keep)
        if fn == "count" and not tree.distinct:
            self.op("SLOTI", count, -1)
            return BIGINT
        if tree.distinct and fn in ("count", "sum", "avg"):
            return self._distinct(fn, mask, t, where, keep)
        if fn in ("bool_and", "bool_or"):
            if t.kind != "boolean":
                raise _error(f"{fn.upper()} needs a BOOLEAN, not {t}")
            self.op("SLOTI", self.slot("MINI" if fn == "bool_and" else "MAXI", mask, 0, where, keep, count), count)
            return BOOLEAN
        if fn in ("min", "max"):
            self._comparable(t, fn.upper())
            kind = fn.upper() + ("F" if t.is_float else "I")
            if t.is_wide:
                self._two_slots([("EXTREME", 2 * (fn == "max") + high, count) for high in (0, 1)], mask, where, keep, count)
            else:
                self.op("SLOTF" if t.is_float else "SLOTI", self.slot(kind, mask, 0, where, keep, count), count)
            return t
        if fn in ("sum", "avg") and t.is_interval:
            return self._sum(fn, mask, t, where, keep, count)
        self._number(t, fn)
        if fn in ("sum", "avg"):
            return self._sum(fn, mask, t, where, keep, count)
        sample, root = int(fn.endswith("samp")), int(fn.startswith("stddev"))
        # beyond 15 digits a DOUBLE does not hold a decimal exactly, and Spark compares the DOUBLEs for DISTINCT
        if t.kind == "decimal" and (tree.distinct or t.precision > 15):
            where, t = _index(self.flts, (name, AS_DOUBLE)) + (1 << 20), DOUBLE
        if tree.distinct:
            self.op("DISTINCT", VARIANCE + 2 * sample + root, mask, where, keep)
            return DOUBLE
        mean = self.slot("MEAN", mask, t.scale, where, keep, count)
        m2 = self.slot("M2", mask, t.scale, where, keep, mean)
        self.used.update((mean, m2))
        self.op("STD", m2, count, sample, root)
        return DOUBLE

    def _by(self, tree: Extreme) -> Type:
        mask, name, key = tree.mask, tree.column, tree.key
        keep = -1 if tree.keep is None else self.column(tree.keep)[1]
        by, where = self.column(key)
        self._comparable(by, f"{tree.which.upper()}_BY")
        if by.is_wide:
            self.ranked[key] = str(by)
            where = _index(self.ints, (key, WORD))
        kind = tree.which.upper() + ("F" if by.is_float else "I")
        where += by.is_float << 20
        extreme = self.slot(kind, mask, 0, where, keep, self.slot("COUNT", mask, 0, where, keep))
        if name is None:
            self.op("CLSSLOT", self.slot("BYLABEL", mask, 0, where, keep, extreme))
            return STRING
        t, index = self.column(name)
        some = self.slot("BYSOME", mask, index + (t.is_float << 20), where, keep, extreme)
        if t.is_wide:
            self._two_slots([("BYI", at, extreme) for at in (index, index + 1)], mask, where, keep, some)
        elif t.is_float:
            self.op("SLOTF", self.slot("BYF", mask, index + (1 << 20), where, keep, extreme), some)
        else:
            self.op("SLOTI", self.slot("BYI", mask, index, where, keep, extreme), some)
        return t

    def _sum(self, fn: str, mask: int, t: Type, where: int, keep: int, count: int) -> Type:
        if t.is_float or (fn == "avg" and t.is_integer):
            total = self.slot("SUMF", mask, 0, where, keep, count)
            self.op("SLOTF", total, count)
            if fn == "avg":
                self.op("SLOTI", count, -1)
                self.op("I2F", 0)
                self.op("DIVF", 0, 0)
            return DOUBLE
        summed = Type("decimal", min(MAX_DIGITS, t.precision + 10), t.scale) if t.kind == "decimal" else t
        if summed.is_wide:
            wide = int(t.is_wide)
            low = self.slot("SUMLOW", mask, 0, where, keep, count)
            high = self.slot("SUMHIGH", mask, wide, where, keep, low)
            top = self.slot("SUMTOP", mask, wide, where, keep, high)
            assert (high, top) == (low + 1, low + 2)
            self._load_words(low, high, count, int(self.ansi))
        else:
            total = self.slot("SUMI", mask, 0, where, keep, count)
            self.op("SLOTI", total, count)
            # without ANSI a sum of BIGINT wraps, as in Spark; 2**31 values of other types do not overflow
            if t.kind == "interval" or (t.kind == "bigint" and self.ansi):
                self.op("FITS", self.slot("SUMOVER", mask, 0, where, keep, total))
        if fn == "avg":
            # intervals, too, are divided and rounded half up
            result = bounded(t.precision + 4, t.scale + 4) if t.kind == "decimal" else t
            self._widen(summed)
            self.op("SLOTI", count, -1)
            self.op("WIDEN")
            digits = result.scale - t.scale
            self.op("DIVW", digits, 0, 0, 2 * (result.precision or MAX_DIGITS) + int(self.ansi))
            return result
        if t.kind == "months":
            self.op("NARROW", _LIMITS["months"], 1, -_LIMITS["months"] - 1)
        return summed if t.kind == "decimal" or t.is_interval else BIGINT

    def _two_slots(self, kinds: list[tuple[str, int, int]], mask: int, where: int, keep: int, count: int) -> None:
        """Loads a two-word value from two consecutive slots."""
        low, high = (self.slot(kind, mask, k, where, keep, helper) for kind, k, helper in kinds)
        assert high == low + 1
        self._load_words(low, high, count, -1)

    def _load_words(self, low: int, high: int, count: int, overflow: int) -> None:
        """Loads a two-word value.

        ``overflow``: for a sum, whose third word is in the next slot, 1 if overflow is an error and 0 if it is NULL; -1 for other
        values.
        """
        self.op("SLOTI", low, count)
        self.op("SLOTH", high, overflow)

    def _distinct(self, fn: str, mask: int, t: Type, where: int, keep: int) -> Type:
        """Emits an aggregate over distinct values, which is recomputed from the match's rows."""
        self._comparable(t, f"{fn.upper()}(DISTINCT)")
        if fn != "count":
            self._number(t, fn)
            if t.kind == "decimal":
                raise _error(f"{fn.upper()}(DISTINCT) of decimals in DEFINE is not computed; cast to DOUBLE")
        as_float = fn == "avg" or (fn == "sum" and t.is_float)
        if t.is_wide:
            self.op("DISTINCT", 8, mask, where, keep)
            return BIGINT
        kind = {"count": 0, "sum": 1 if self.ansi else 5, "avg": 2}[fn]
        self.op("DISTINCT", 4 if as_float and fn == "sum" else kind, mask, where, keep)
        return BIGINT if fn == "count" or not as_float else DOUBLE


def _literal_type(tree: tuple, t: Type) -> Type:
    """The type of an operand beside a decimal: Spark gives an integer literal the smallest decimal type that holds it."""
    if tree[0] == "lit" and tree.type in ("int", "long"):
        return Type("decimal", max(1, len(tree.text.lstrip("-"))), 0)
    return t


def _index(items: list, item, *behind) -> int:
    """The index of an item. A missing item is appended first, followed by ``behind``."""
    if item not in items:
        items += [item, *behind]
    return items.index(item)


def _depth(tree: tuple) -> int:
    if tree[0] == "prior":
        return 1 + _depth(tree.tree)
    if tree[0] == "checked":
        return 1 + max(_depth(tree.tree), 1 + _depth(tree.failed))
    if tree[0] != "call":
        return 2
    if tree[1] == "if":  # each condition and value is popped before the next
        return 1 + max(_depth(t) for t in tree[2:])
    return 1 + max(i + _depth(t) for i, t in enumerate(tree[2:]))
