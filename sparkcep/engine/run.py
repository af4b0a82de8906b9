"""The engine behind the table function: sorted batches in, rows of matches out, memory bounded by the live match.

Rows of a partition that spans batches are kept only from the row the search has reached (less what PREV may look
back); where an attempt needs rows that have not come yet, it is tried again once the buffer has doubled, so that the total
work stays linear.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.automaton import strategy as strategies
from sparkcep.automaton.net import ACCEPT, E_TARGET, E_VAR, Net
from sparkcep.automaton.program import CHAR, JUMP, LOOP, MATCH, NEXT, PERM, R_VAR, RUN, SPLIT, Program
from sparkcep.automaton.steps import too_complex
from sparkcep.automaton.strategy import EVERY, GRAPH, Strategy, strategy_of
from sparkcep.columns.arrays import boundaries, decimal_words, flat, null_marks, ranges, ranks, words
from sparkcep.columns.bytecode import OP, SLOT, Conditions, compile_conditions
from sparkcep.columns.types import AS_DOUBLE, HIGH, WORD, type_of
from sparkcep.engine import gather
from sparkcep.engine.outputs import Rows, end_rows, leaf_column, leaf_type, match_positions, output_bytes
from sparkcep.engine.weights import scores
from sparkcep.engine.windows import WINDOW_BYTES, check_slide, check_window, sliding_windows
from sparkcep.errors import SEMANTIC, ClauseError, MatchRuntimeError, TooMuchStateError
from sparkcep.plan.plan import LETTERS, Plan
from sparkcep.plan.records import Ranking
from sparkcep.search import adjacent as kernels
from sparkcep.search import machine as interpreter

CHUNK_ROWS = 131_072
MOST_LABELS, STATE_SHARE = 1 << 20, 64  # of the matches told together, and the share of the state that each may take
CHUNK_BYTES = 1 << 26  # of a buffer's rows, where they are fewer
OUTPUT_BYTES = 1 << 25  # about, of one output table
PAIRED_CHUNK_ROWS = 8_192  # where each row carries an array as long as its partition
NARROWER = "a smaller WINDOW or a larger step of SLIDE"
MEMO_BYTES, MEMO_BYTES_A_ROW = 1 << 23, 256  # of the hashed memo, unless one start row needs more
MAX_MEMO_BITS = 4096  # of the bitmap memo, a row
_ROW_MODES = {"one": gather.ONE, "show": gather.SHOW, "omit": gather.OMIT, "unmatched": gather.UNMATCHED}
SKIPS = {
    "past_last": kernels.SKIP_PAST_LAST,
    "next_row": kernels.SKIP_NEXT_ROW,
    "first": kernels.SKIP_FIRST,
    "last": kernels.SKIP_LAST,
}
_COMPARISONS = {OP[n]: i for i, n in enumerate(("EQI", "NEI", "LTI", "LEI", "GTI", "GEI"))} | {
    OP[n]: i for i, n in enumerate(("EQF", "NEF", "LTF", "LEF", "GTF", "GEF"))
}


@dataclass(frozen=True)
class Prepared:
    """A plan compiled for an input schema: what the table function's ``analyze`` hands to its workers."""

    strategy: Strategy
    input_schema: pa.Schema
    conditions: Conditions
    output_schema: pa.Schema
    memo: int
    state_live: np.ndarray

    @property
    def plan(self) -> Plan:
        return self.strategy.plan

    @property
    def program(self) -> Program:
        return self.strategy.program

    @property
    def selection(self) -> Net | None:
        return self.strategy.selection

    @property
    def conjunction(self) -> Net | None:
        return self.strategy.conjunction

    @property
    def approximate(self) -> Net | None:
        return self.strategy.approximate

    def arrived(self, schema: pa.Schema) -> Prepared:
        """The same for batches as they came: their timestamps carry the session's time zone."""
        schema = pa.schema([schema.field(f.name) for f in self.input_schema])
        return replace(self, input_schema=schema, output_schema=output_schema(self.plan, schema))


def prepare(plan: Plan, schema: pa.Schema) -> Prepared:
    """Compiles ``plan`` for input columns ``schema``. Raises ClauseError for conditions that make no sense in types, and patterns that
    are too complex."""
    try:
        return _prepare(plan, schema)
    except ClauseError as error:
        if error.line or error.error_class != "SPARKCEP.PATTERN_TOO_COMPLEX":
            raise
        line, column, text = plan.place
        raise too_complex(error.message, line, column, text) from None


def _prepare(plan: Plan, schema: pa.Schema) -> Prepared:
    strategy = strategy_of(plan)
    plan = strategy.plan
    conditions = compile_conditions(
        plan.conditions, plan.variables, schema, plan.ansi, plan.places, adjacent=plan.adjacent
    )
    out = output_schema(plan, schema)
    if plan.ranking:
        _check_objectives(plan.ranking, schema, out)
    if plan.selection:
        for window in plan.windows:
            check_window(window, schema)
        if plan.slide:
            check_slide(plan.windows[0], plan.slide, schema)
    memo, live = kernels.NO_MEMO, np.zeros((1, 1), dtype=np.uint8)
    if strategy.selection is not None:
        memo, live = 0, selection_live(strategy.selection, conditions)
    elif strategy.conjunction is None:
        memo, live = _memo(strategy, conditions)
    return Prepared(strategy, schema, conditions, out, memo, live)


def _check_objectives(ranking: Ranking, schema: pa.Schema, out: pa.Schema) -> None:
    types = [out.field(name).type for name in ranking.objectives if name in out.names]
    for t in map(type_of, [*types, *(schema.field(term.column).type for term in ranking.terms if term.column)]):
        if not (t.is_number or t.kind == "null"):
            line, column, text = ranking.place
            raise ClauseError("PREF", f"PREF needs a number, not {t}; rank by a number made of it", sqlstate=SEMANTIC, line=line, column=column, fragment=text)


def engine_for(prepared: Prepared, chunk_rows: int | None = None, limits: Limits | None = None) -> MatchEngine:
    """The engine that the plan asks for."""
    from sparkcep.engine.approximate import ApproximateEngine, ListedProxyEngine
    from sparkcep.engine.conjoined import ConjoinedEngine
    from sparkcep.engine.conjunction import ConjunctionEngine
    from sparkcep.engine.joined import JoinedEngine
    from sparkcep.engine.last_rows import ConjunctionEndingEngine
    from sparkcep.engine.merged import MergedEngine
    from sparkcep.engine.proxies import ProxyEngine
    from sparkcep.engine.proxy_classes import ClassProxyEngine
    from sparkcep.engine.ranked import RankedEngine
    from sparkcep.engine.selection import SelectionEngine

    strategy = prepared.strategy
    counted = strategy.question in (strategies.COUNTED, GRAPH)
    walk: type[MatchEngine] = MergedEngine if counted else SelectionEngine
    if strategy.approximate is not None:
        walk = ApproximateEngine if strategy.question == EVERY else ListedProxyEngine
    chosen: dict[str, type[MatchEngine]] = {
        strategies.ADJACENT: MatchEngine,
        strategies.WALK: walk,
        strategies.CONJUNCTION: ConjunctionEndingEngine if counted else ConjunctionEngine,
        strategies.NUMBERS: MergedEngine,
        strategies.FRONT: MergedEngine,
        strategies.PROXIES: ProxyEngine,
        strategies.CLASSES: ClassProxyEngine,
        strategies.PATHS: RankedEngine,
        strategies.SEQUENCES: JoinedEngine,
        strategies.SIDES: ConjoinedEngine,
    }
    return chosen[strategy.search](prepared, chunk_rows, limits)


def selection_live(automaton: Net, conditions: Conditions) -> np.ndarray:
    """uint8 (nodes, slots): the slots whose value at each node a condition reachable from there may read: the paper's masks (SASE+ 5.2.2)."""
    live = np.zeros((automaton.nodes, len(conditions.slots)), dtype=np.uint8)
    before = [_read_before(v, conditions) for v in range(len(conditions.entry))]
    changed = True
    while changed:
        changed = False
        for node in range(automaton.nodes - 1, -1, -1):
            known = live[node].copy()
            for edge in automaton.edges[automaton.first[node] : automaton.first[node + 1]]:
                if edge[E_VAR] != ACCEPT:
                    after = conditions.live[edge[E_VAR]] | live[edge[E_TARGET]]
                    live[node] |= before[edge[E_VAR]][after != 0].any(axis=0)
            changed |= bool((live[node] != known).any())
    return live


def _read_before(variable: int, conditions: Conditions) -> np.ndarray:
    """bool (slots, slots): of which slots the value before a row of the variable is needed for the value of each slot after it."""
    slots = conditions.slots
    needed = np.eye(len(slots), dtype=bool)
    for k, (kind, mask, _, _, _, helper) in enumerate(slots.tolist()):
        taken = mask == -1 or mask >> variable & 1
        if kind in (SLOT["LAST"], SLOT["LABELLAST"]) and taken and not conditions.reads_prior[variable]:
            needed[k] = False  # this row's, or that of the row before
        if helper >= 0 and taken and kind not in (SLOT["SUMI"], SLOT["SUMF"]):
            needed[k, helper] = True
    return needed


def _memo(strategy: Strategy, conditions: Conditions) -> tuple[int, np.ndarray]:
    """How failed states are remembered, and which slots decide the future of each memoised state."""
    program, slots = strategy.program, len(conditions.slots)
    live = np.zeros((max(program.states, 1), max(slots, 1)), dtype=np.uint8)
    if strategy.forgets is not None:
        return kernels.NO_MEMO, live
    if not slots and not conditions.number_read and program.states << program.register_bits <= MAX_MEMO_BITS:
        return kernels.BITMAP, live
    code = program.code
    for pc_, row in enumerate(code):
        if slots and row[0] in (SPLIT, LOOP, PERM, RUN):
            for target in _reachable(program, pc_):
                op, a = int(code[target, 0]), int(code[target, 1])
                if op in (CHAR, RUN):
                    live[row[3]] |= conditions.live[a if op == CHAR else program.runs[a, R_VAR]]
    return kernels.HASHED, live


def _reachable(program: Program, start: int) -> set[int]:
    seen, todo = set(), [start]
    while todo:
        at = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        op, a, b, _ = program.code[at].tolist()
        if op == MATCH:
            continue
        if op == SPLIT:
            todo += [a, b]
        elif op == JUMP:
            todo.append(a)
        elif op == LOOP:
            todo += [at + 1, b]
        elif op == NEXT:
            todo += [b, int(program.code[b, 2])]
        elif op == PERM:
            _, count, first, _ = program.perms[a].tolist()
            todo += [*program.targets[first : first + count].tolist(), b]
        else:
            todo.append(at + 1)
    return seen


def output_schema(plan: Plan, schema: pa.Schema) -> pa.Schema:
    """Columns of the table function: keys, leaves, and for ALL ROWS the user's input columns. Spark reads them by their places, so where the
    plan names them, they are just these."""
    fields = []
    if plan.rows == "one":
        fields += [pa.field(key.column, schema.field(key.column).type) for key in plan.partition]
    else:
        fields += [pa.field(f.name, f.type) for f in schema if f.name not in _internal(plan)]
        fields += [pa.field(c, schema.field(c).type) for c in _kept_keys(plan)]
        if plan.rows == "unmatched":
            fields.append(pa.field("__matched", pa.bool_()))
    fields += [pa.field(leaf.name, leaf_type(leaf.spec, schema)) for leaf in plan.leaves]
    if plan.given:
        named = {f.name: f for f in fields}
        fields = [named[name] for name in plan.given]
    return pa.schema(fields)


def _internal(plan: Plan) -> set[str]:
    return {LETTERS, *(column.name for column in (*plan.inputs, *plan.ordered_inputs))}


def _kept_keys(plan: Plan) -> list[str]:
    """Key columns that ALL ROWS needs beside the user's columns."""
    return [key.column for key in (*plan.partition, *plan.order) if not key.plain]


def _max_ahead(prepared: Prepared) -> tuple[int, int]:
    """(rows back, rows ahead) that navigation may leave the match by."""
    back, ahead = prepared.conditions.max_back, prepared.conditions.max_ahead
    for _, spec in prepared.plan.leaves:
        if spec.kind == "nav":
            back, ahead = max(back, -spec.physical), max(ahead, spec.physical)
    return back, ahead


_NO_MARKS = np.zeros(0, dtype=np.uint8)


@dataclass(frozen=True)
class Limits:
    """Bounds on the effort; ``patience``: steps beyond four a row before failed states of conditions that look at the
    match are remembered; ``merging``: whether event selection prunes by completion ends and remembers failures, and
    runs side by side are merged (off to measure what that gains)."""

    max_state_bytes: int = 1 << 30
    max_steps: int = 2_000_000_000
    max_matches: int = 1_000_000_000
    patience: int = 256
    merging: bool = True


class MatchEngine:
    """Takes sorted batches of one task, gives tables of output rows. One use."""

    state_size = kernels.STATE_SIZE
    event_width = 5
    scattering = False  # whether rows of a match may have others between them

    def __init__(self, prepared: Prepared, chunk_rows: int | None = None, limits: Limits | None = None) -> None:
        chunk_rows = chunk_rows or (PAIRED_CHUNK_ROWS if prepared.conditions.pairs else CHUNK_ROWS)
        self.p = prepared
        self.plan = prepared.plan
        self.chunk_rows = chunk_rows
        self.back, self.ahead = _max_ahead(prepared)
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        self._wanted = chunk_rows
        self._wanted_bytes = CHUNK_BYTES
        self._carry = _Carry()
        c = prepared.conditions
        self._stack = max(c.stack, 8)
        self._paired = _distinct_variables(c)
        self.limits = limits or Limits(**dict(self.plan.bounds))
        self._words = max(1, ((prepared.program.states << prepared.program.register_bits) + 63) // 64)
        self._depth = 4096
        self._entries = 1024
        self._empty_slots = np.empty((0, 6), dtype=np.int64)

    def push(self, batch: pa.RecordBatch) -> Iterator[pa.Table]:
        """Takes a batch; yields output tables as partitions are decided."""
        if batch.num_rows == 0:
            return
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= self._wanted or self._bytes >= self._wanted_bytes:
            yield from self._process(last=False)

    def finish(self) -> Iterator[pa.Table]:
        """No more rows will come."""
        if self._rows:
            yield from self._process(last=True)

    # -- one buffer -----------------------------------------------------------------------------------------

    def _buffer(self) -> tuple[pa.Table, dict[str, pa.Array], np.ndarray]:
        """The rows held: as a table, as columns by name, and the offsets of their partitions."""
        table = pa.Table.from_batches(self._batches).combine_chunks()
        columns = {name: flat(table.column(name)) for name in self.p.input_schema.names}
        return table, columns, boundaries([columns[c] for c in self.plan.keys], table.num_rows)

    def _hold(self, batches: list[pa.RecordBatch], rows: int) -> None:
        """Keeps ``batches`` for the next buffer, and waits until there are ``rows`` rows, or twice the bytes held."""
        self._batches, self._rows = batches, sum(batch.num_rows for batch in batches)
        self._bytes = sum(batch.nbytes for batch in batches)
        self._wanted, self._wanted_bytes = rows, max(CHUNK_BYTES, 2 * self._bytes)

    def _process(self, last: bool) -> Iterator[pa.Table]:
        table, columns, offsets = self._buffer()
        data = self._kernel_data(columns, offsets, table.num_rows)
        carry = self._carry
        state = np.zeros(self.state_size, dtype=np.int64)
        state[kernels.S_START], state[kernels.S_NUMBER], state[kernels.S_COVERED] = carry.start, carry.number, carry.covered
        events = np.empty((max(1024, table.num_rows // 8), self.event_width), dtype=np.int64)
        labels = np.empty(max(table.num_rows, 1024), dtype=np.uint8)
        scattered = np.empty(len(labels) if self.scattering else 0, dtype=np.int64)
        scratch = self._scratch(table.num_rows, len(offsets))
        while True:
            outcome = self._match(data, scratch, not last, state, events, labels, scattered)
            if outcome == kernels.GROW:
                scratch = self._grown(scratch, state, columns)
                continue
            if outcome not in (kernels.DONE, kernels.SUSPENDED, kernels.FULL):
                raise self._runtime_error(outcome, state, columns)
            if outcome == kernels.FULL and self._keeps_events(state):
                events, labels, scattered = (doubled(a) for a in (events, labels, scattered))
                if events.nbytes + labels.nbytes + scattered.nbytes > self.limits.max_state_bytes:
                    raise self._state_limit(state, columns)
                continue
            count, used = int(state[kernels.S_EVENTS]), int(state[kernels.S_LABELS])
            if count:
                yield from self._emit(columns, events[:count], labels[:used], scattered[:used], offsets)
            state[kernels.S_EVENTS] = state[kernels.S_LABELS] = 0
            if outcome != kernels.FULL:
                break
            # the first matches come at once, more of very many together
            size = min(2 * len(labels), self.limits.max_state_bytes // STATE_SHARE, MOST_LABELS)
            if max(size, 2 * int(state[kernels.S_DETAIL])) > len(labels):
                labels = np.empty(max(size, 2 * int(state[kernels.S_DETAIL])), dtype=np.uint8)
                scattered = np.empty(len(labels) if self.scattering else 0, dtype=np.int64)
                events = np.empty((max(len(events), len(labels) // 16), self.event_width), dtype=np.int64)
        self._keep(table, state, offsets, last, outcome)

    def _keep(self, table: pa.Table, state: np.ndarray, offsets: np.ndarray, last: bool, outcome: int) -> None:
        """Drops the rows no later attempt can need."""
        if last:
            self._hold([], self.chunk_rows)
            return
        open_low = int(offsets[-2])
        start = max(int(state[kernels.S_START]), open_low) if outcome == kernels.SUSPENDED else len(table)
        cut = min(max(open_low, self._first_needed(start)), len(table) - 1)
        was_cut = self._carry.cut and len(offsets) == 2
        keep = table.slice(cut)
        in_last = outcome == kernels.SUSPENDED
        self._carry = _Carry(
            start=start - cut,
            number=int(state[kernels.S_NUMBER]) if in_last else 0,
            covered=max(0, int(state[kernels.S_COVERED]) - cut) if in_last else 0,
            cut=bool(cut > open_low or was_cut),
            dropped=cut - open_low + (self._carry.dropped if len(offsets) == 2 else 0),
            taken=self._taken_from(cut),
        )
        # copy, so that the dropped rows' buffers are freed
        kept = [pa.record_batch([_copied(c) for c in keep.columns], schema=keep.schema)] if keep.num_rows else []
        self._hold(kept, max(self.chunk_rows, 2 * keep.num_rows))

    def _keeps_events(self, state: np.ndarray) -> bool:
        """Whether full output must be enlarged: the search still compares with what it reported."""
        return False

    def _first_needed(self, start: int) -> int:
        """The first row that attempts from row ``start`` on may look at."""
        return start - self.back

    def _taken_from(self, row: int) -> np.ndarray:
        """Marks of the kept rows that are in a reported match already."""
        return _NO_MARKS

    def _kernel_data(self, columns: dict[str, pa.Array], offsets: np.ndarray, rows: int) -> Data:
        plan, c = self.plan, self.p.conditions
        letters = np.zeros(rows, dtype=np.int64)
        conditioned = 0
        packed = words(columns[LETTERS]) if plan.letters else None
        for variable, bit, _ in plan.letters:
            conditioned |= 1 << variable
            letters |= ((packed >> bit) & 1) << variable
        for variable in range(len(plan.variables)):
            if not conditioned >> variable & 1:
                letters |= np.int64(1 << variable)
        ints, inull, arrays, codes, bytecode = self._int_columns(columns, rows)
        flts = np.empty((len(c.float_columns), rows), dtype=np.float64)
        fnull = np.empty((len(c.float_columns), rows), dtype=np.uint8)
        for i, (name, part) in enumerate(c.float_columns):
            values = columns[name].cast(pa.float64()) if part == AS_DOUBLE else columns[name]
            flts[i], fnull[i] = words(values), null_marks(values)
        data = Data(kernels.RowArrays(letters, offsets, ints, flts, inull, fnull, *arrays), codes, bytecode)
        for variable in range(len(plan.variables)):
            if c.shift_entry[variable] >= 0:
                self._mark(variable, data)
        if self.p.approximate is not None:
            # a copy takes the rows that do not fulfil the row-local part of another's condition
            for copy, of in self.p.approximate.copies.complements:
                letters &= ~(((letters >> of) & 1) << copy)
        return data

    def _int_columns(self, columns: dict[str, pa.Array], rows: int):
        """Integer words, NULL marks, arrays of paired functions, label ranks, and the bytecode with this buffer's string
        ranks patched in."""
        c = self.p.conditions
        ints = np.empty((len(c.int_columns), rows), dtype=np.int64)
        inull = np.empty((len(c.int_columns), rows), dtype=np.uint8)
        ranked = dict(c.ranked)
        for i, (name, part) in enumerate(c.int_columns):
            inull[i] = null_marks(columns[name])
            if part != WORD or name not in ranked:
                ints[i] = _part(columns[name], part)
        paired = {name: columns[name].flatten() for name, _ in c.pairs}
        elements = {(name, part): _part(paired[name], part) for name, part in c.pairs if name not in ranked}
        codes = np.zeros(len(self.plan.variables), dtype=np.int64)
        bytecode = c.code
        domains = sorted(set(ranked.values()) | ({"string"} if c.strings or c.classifier_read else set()))
        for domain in domains:
            names = [n for n, d in c.ranked if d == domain]
            constants = (*c.strings, *self.plan.variables) if domain == "string" else ()
            found, fixed = ranks([paired[n] if n in paired else columns[n] for n in names], constants)
            for name, values in zip(names, found):
                if name in paired:
                    elements[name, WORD] = values
                else:
                    ints[c.int_columns.index((name, WORD))] = values
            if domain == "string":
                bytecode = c.code.copy()
                for at, which in c.string_patches:
                    bytecode[at, 1] = fixed[which]
                codes = fixed[len(c.strings) :].copy()
        arrays = _ragged([columns[n] for n, _ in c.pairs], [paired[n] for n, _ in c.pairs], [elements[pair] for pair in c.pairs], rows)
        return ints, inull, arrays, codes, bytecode

    def _mark(self, variable: int, data: Data) -> None:
        """Folds a condition over physical neighbours into the variable's letter."""
        c, rows = self.p.conditions, data.rows
        entry = int(c.shift_entry[variable])
        simple = _comparison(c, entry)
        if simple is not None:
            left, compare, right = simple
            values, nulls = (rows.ints, rows.inull) if left[0] == OP["LOADI"] else (rows.flts, rows.fnull)
            if values is rows.ints or not (np.isnan(values[left[1]]).any() or np.isnan(values[right[1]]).any()):
                interpreter.mark_comparison(
                    rows.letters, variable, _COMPARISONS[compare], values[left[1]], nulls[left[1]], left[2],
                    values[right[1]], nulls[right[1]], right[2], rows.offsets,
                )
                return
        scratch = self._scratch(0, 0)
        none = np.int64(0)
        for low, high in zip(rows.offsets.tolist(), rows.offsets[1:].tolist()):
            _, bad = interpreter.scan(
                interpreter.CLEAR, np.int64(variable), none, entry, np.int64(high - low), low, low - 1, low, high, high, low, none, rows.letters,
                data.bytecode, c.floats, self._empty_slots, scratch.hi, scratch.hf, scratch.labels, data.codes,
                rows.ints, rows.flts, rows.inull, rows.fnull, rows.pair_starts, rows.pair_ints, rows.pair_flts,
                rows.pair_null, scratch.si, scratch.sf, scratch.sn,
            )
            if bad < 0:
                break
        if bad < 0:
            raise _condition_error(bad)

    def _memo_kind(self, rows: int) -> int:
        """The memo for a buffer: a bitmap that would be too large is replaced by the hashed memo."""
        if self.p.memo == kernels.BITMAP and rows * self._words * 8 > self.limits.max_state_bytes:
            return kernels.HASHED
        return self.p.memo

    def _scratch(self, rows: int, offsets: int) -> kernels.Scratch:
        """Working memory for a buffer; the memo is empty."""
        c = self.p.conditions
        slots = len(c.slots) if c.has_history else 0
        hf = np.empty((rows if slots else 1, max(slots, 1)), dtype=np.float64)
        memo = self._memo_kind(rows)
        hashed = memo == kernels.HASHED
        words_ = self._words if memo == kernels.BITMAP else 0
        return kernels.Scratch(
            labels=np.empty(rows + 1, dtype=np.uint8),
            hi=np.empty(hf.shape, dtype=np.int64),
            hf=hf,
            hbits=hf.view(np.int64),
            si=np.zeros(2 * self._stack, dtype=np.int64),
            sf=np.zeros(self._stack, dtype=np.float64),
            sn=np.zeros(self._stack, dtype=np.uint8),
            stack=np.empty((self._depth, 5), dtype=np.int64),
            trail=np.empty(self._depth, dtype=np.int64),
            bits=np.zeros((rows + offsets) * words_ if words_ else 1, dtype=np.uint64),
            entries=np.empty((self._entries if hashed else 1, 3 + 2 * slots), dtype=np.int64),
            alive=np.empty(self._entries if hashed else 1, dtype=np.uint8),
            table=np.zeros(4 * self._entries if hashed else 1, dtype=np.int64),
            key=np.empty(3 + 2 * slots, dtype=np.int64),
        )

    def _most_entries(self, rows: int) -> int:
        """Of the hashed memo of a buffer with so many rows before a start row: it grows linearly with the rows whatever start rows fill it, beyond that only
        for one."""
        slots, most = len(self.p.conditions.slots), self.limits.max_state_bytes // 4
        if slots:
            most = min(most, max(MEMO_BYTES, MEMO_BYTES_A_ROW * rows))
        return self._entries if self._entries * (32 + 8 * (3 + 2 * slots)) < most else self._entries // 2

    def _grown(self, scratch: kernels.Scratch, state: np.ndarray, columns: dict[str, pa.Array]) -> kernels.Scratch:
        """Larger stack, trail and hashed memo, up to the bound."""
        if 0 < len(scratch.entries) <= state[kernels.S_ENTRIES]:
            self._entries *= 2
        else:
            self._depth *= 2
        state[kernels.S_ENTRIES] = 0
        fresh = self._scratch(len(scratch.labels) - 1, 0)
        size = sum(a.nbytes for a in (fresh.stack, fresh.trail, fresh.entries, fresh.alive, fresh.table))
        if size > self.limits.max_state_bytes:
            raise self._state_limit(state, columns)
        keep = {n: getattr(scratch, n) for n in ("labels", "hi", "hf", "hbits", "bits")}
        return fresh._replace(**keep)

    def _state_limit(self, state: np.ndarray, columns: dict[str, pa.Array], instead: str = "tighter quantifiers") -> MatchRuntimeError:
        return MatchRuntimeError(
            "STATE_LIMIT",
            f"matching{self._where(state, columns)} needs more than sparkcep.maxStateBytes = {self.limits.max_state_bytes} bytes of "
            f"state; use {instead} or raise the bound",
            sqlstate="54000",
        )

    def _match(self, data: Data, scratch: kernels.Scratch, open_end: bool, state, events, labels, scattered) -> int:
        p, c = self.p.program, self.p.conditions
        slots = c.slots if c.has_history else self._empty_slots
        return kernels.match_partitions(
            kernels.ProgramArrays(p.code, p.loops, p.perms, p.targets, p.runs, self.p.state_live),
            p.nullable, np.int64(p.first), self._memo_kind(len(data.rows.letters)), self._words, p.register_bits,
            kernels.ConditionArrays(data.bytecode, c.entry, c.floats, slots, data.codes),
            data.rows, scratch, self._carry.cut, open_end, self.ahead, self.plan.rows == "unmatched",
            SKIPS[self.plan.skip.mode], np.int64(self.plan.skip.targets), c.number_read, self.limits.patience, self._most_entries(len(data.rows.letters)),
            self.limits.max_steps, self._paired, state, events, labels,
        )

    def _emit(
        self, columns: dict[str, pa.Array], events: np.ndarray, labels: np.ndarray, scattered: np.ndarray, offsets: np.ndarray,
        by_event: dict[str, pa.Array] | None = None,
    ) -> Iterator[pa.Table]:
        """Output rows of matches. ``by_event``: for kinds of leaves that say something of a whole match, the value of each event."""
        plan = self.plan
        by_event = dict(by_event or {})
        if plan.slide:
            events, by_event = self._in_windows(columns, events, labels, scattered, offsets, by_event)
        score = next((leaf.spec for leaf in plan.leaves if leaf.spec.kind == "score"), None)
        if score is not None:
            by_event["score"] = scores(score, columns, events, labels, scattered, len(plan.variables))
        if any(leaf.spec.kind == "vector" for leaf in plan.leaves):
            by_event["vector"] = match_positions(events, scattered, self._partition_positions(offsets))
        out_event, out_pos, out_upto = gather.output_rows(events, len(events), labels, scattered, _ROW_MODES[plan.rows])
        if len(out_event) == 0:
            return
        rows = Rows(events, labels, scattered, offsets, out_event, out_upto, plan.variables, by_event, plan.ansi)
        for piece in self._pieces(rows, out_pos, columns):
            part = rows if len(out_pos) == piece.stop - piece.start else replace(rows, out_event=out_event[piece], out_upto=out_upto[piece])
            yield self._table(part, out_pos[piece], columns)

    def _pieces(self, rows: Rows, out_pos: np.ndarray, columns: dict[str, pa.Array]) -> Iterator[slice]:
        """The output rows in pieces of about OUTPUT_BYTES: with arrays of all rows so far, those of one match may take more than there is memory."""
        leaves = dict(self.plan.leaves)
        kept = [f.name for f in self.p.output_schema if f.name != "__matched" and f.name not in leaves]
        sizes = output_bytes(self.plan.leaves, kept, rows, out_pos, columns, OUTPUT_BYTES)
        if sizes is None:
            yield slice(0, len(out_pos))
            return
        if sizes.max() > self.limits.max_state_bytes:
            state = np.zeros(self.state_size, dtype=np.int64)
            state[kernels.S_START] = out_pos[np.argmax(sizes)]
            raise self._state_limit(state, columns, "measures of fewer rows than whole arrays of them")
        ends = np.cumsum(sizes)
        begin = 0
        while begin < len(sizes):
            before = int(ends[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, before + OUTPUT_BYTES, side="right")))
            yield slice(begin, end)
            begin = end

    def _table(self, rows: Rows, out_pos: np.ndarray, columns: dict[str, pa.Array]) -> pa.Table:
        leaves = dict(self.plan.leaves)
        arrays = []
        taken = pa.array(out_pos)
        for f in self.p.output_schema:
            if f.name == "__matched":
                arrays.append(pa.array(rows.events[rows.out_event, kernels.E_ROWS] >= 0))
            elif f.name in leaves:
                values = leaf_column(leaves[f.name], rows, columns)
                # a struct that is NULL has NULL in fields that are never NULL themselves, which a cast refuses even to the same type
                arrays.append(values if values.type.equals(f.type) else values.cast(f.type))
            else:
                arrays.append(columns[f.name].take(taken))
        return pa.table(arrays, schema=self.p.output_schema)

    def _in_windows(
        self, columns: dict[str, pa.Array], events: np.ndarray, labels: np.ndarray, scattered: np.ndarray, offsets: np.ndarray,
        by_event: dict[str, pa.Array],
    ) -> tuple[np.ndarray, dict[str, pa.Array]]:
        """Each match once for each sliding window that holds all its rows."""
        column = self.plan.windows[0].order
        kept = np.flatnonzero(events[:, kernels.E_ROWS] > 0)
        first, last = end_rows(events[kept], scattered)
        positions = self._partition_positions(offsets)
        try:
            which, starts, ends = sliding_windows(
                self.plan.windows[0], self.plan.slide, columns.get(column), positions, first, last, self._most_windows
            )
        except TooMuchStateError:
            state = np.zeros(self.state_size, dtype=np.int64)
            state[kernels.S_START] = events[kept[0], kernels.E_START]
            raise self._state_limit(state, columns, NARROWER) from None
        which = kept[which]
        chosen = {name: values if name == "kind" else values.take(pa.array(which)) for name, values in by_event.items()}
        return events[which], chosen | {"window_start": starts, "window_end": ends}

    @property
    def _most_windows(self) -> int:
        """How many sliding windows are told at a time."""
        return self.limits.max_state_bytes // WINDOW_BYTES

    def _partition_positions(self, offsets: np.ndarray) -> np.ndarray:
        """int64: the number of each row of the buffer in its partition."""
        out = ranges(0, np.diff(offsets))
        out[: int(offsets[1])] += self._carry.dropped
        return out

    def _where(self, state: np.ndarray, columns: dict[str, pa.Array]) -> str:
        at = int(state[kernels.S_START])
        keys = ", ".join(f"{key.name} = {columns[key.column][at].as_py()!r}" for key in self.plan.partition)
        return f" in the partition {keys}" if keys else ""

    def _runtime_error(self, outcome: int, state: np.ndarray, columns: dict[str, pa.Array]) -> MatchRuntimeError:
        where = self._where(state, columns)
        if outcome == kernels.EFFORT:
            return MatchRuntimeError(
                "EFFORT_LIMIT",
                f"one search{where} took more than sparkcep.maxSteps = {self.limits.max_steps} steps; use tighter quantifiers, "
                "or conditions that do not read CLASSIFIER() of neighbours or DISTINCT aggregates",
                sqlstate="54000",
            )
        if outcome == kernels.TOO_MANY:
            return MatchRuntimeError(
                "MATCH_LIMIT",
                f"there are more than sparkcep.maxMatchesPerPartition = {self.limits.max_matches} matches{where}; use a smaller WINDOW, FIRST "
                "MATCH, or MATCH_COUNT() where their number is enough",
                sqlstate="54000",
            )
        if outcome == kernels.ERROR:
            return _condition_error(int(state[kernels.S_DETAIL]), where)
        names = ", ".join(v for i, v in enumerate(self.plan.variables) if self.plan.skip.targets >> i & 1)
        number = int(state[kernels.S_DETAIL])
        if outcome == kernels.SKIP_TO_FIRST:
            return MatchRuntimeError(
                "SKIP_TO_FIRST_ROW",
                f"AFTER MATCH SKIP TO {names} would go to the first row of match {number}{where}, which would match again for ever; "
                "skip to another variable or TO NEXT ROW",
            )
        return MatchRuntimeError(
            "SKIP_TO_ABSENT_VARIABLE",
            f"AFTER MATCH SKIP TO {names}: no row of match {number}{where} is mapped to it; make the variable mandatory or skip elsewhere",
        )


@dataclass(frozen=True)
class _Carry:
    """Where the search stands in the partition that the kept rows belong to; ``dropped``: rows of it that are gone."""

    start: int = 0
    number: int = 0
    covered: int = 0
    cut: bool = False
    dropped: int = 0
    taken: np.ndarray = field(default_factory=lambda: _NO_MARKS)


@dataclass(frozen=True)
class Data:
    """One buffer for the kernels: its rows, the ranks of the variables' names, the bytecode with this buffer's ranks."""

    rows: kernels.RowArrays
    codes: np.ndarray
    bytecode: np.ndarray


def _part(column: pa.Array, part: str) -> np.ndarray:
    """What the kernels see of a column: its values, or one of the two words of its decimals."""
    return words(column) if part == WORD else decimal_words(column)[part == HIGH]


def _ragged(lists: list[pa.Array], values: list[pa.Array], elements: list[np.ndarray], rows: int) -> tuple[np.ndarray, ...]:
    """List columns one behind the other: starts int64 (columns, rows + 1), int64 and float64 values, NULL marks."""
    starts = np.zeros((len(lists), rows + 1), dtype=np.int64)
    begin = 0
    for i, column in enumerate(lists):
        offsets = np.asarray(column.offsets, dtype=np.int64)
        starts[i] = offsets - offsets[0] + begin
        begin += len(values[i])
    whole = np.zeros(begin, dtype=np.int64)
    parts = np.zeros(begin, dtype=np.float64)
    nulls = np.zeros(begin, dtype=np.uint8)
    for i, found in enumerate(elements):
        at = slice(int(starts[i, 0]), int(starts[i, -1]))
        (parts if found.dtype == np.float64 else whole)[at] = found
        nulls[at] = null_marks(values[i])
    return starts, whole, parts, nulls


def doubled(array: np.ndarray) -> np.ndarray:
    return np.concatenate([array, np.zeros_like(array)])


def _copied(column: pa.ChunkedArray) -> pa.Array:
    return pc.take(flat(column), pa.array(np.arange(len(column))))


def _distinct_variables(c: Conditions) -> np.ndarray:
    """uint8 (variables): 1 where the condition has a DISTINCT aggregate, which compares all pairs of the match's rows."""
    ops = c.code[:, 0].tolist()
    found = np.zeros(len(c.entry), dtype=np.uint8)
    for variable, at in enumerate(c.entry.tolist()):
        while at >= 0 and ops[at] != OP["RETURN"]:
            found[variable] |= ops[at] == OP["DISTINCT"]
            at += 1
    return found


def _comparison(c: Conditions, entry: int) -> tuple[list[int], int, list[int]] | None:
    """A condition that is one comparison of two loads, as (left, opcode, right); None otherwise."""
    code = c.code[entry : entry + 4].tolist()
    loads = (OP["LOADI"], OP["LOADF"])
    if len(code) < 4 or code[0][0] not in loads or code[1][0] != code[0][0] or code[3][0] != OP["RETURN"]:
        return None
    if code[2][0] not in _COMPARISONS or code[0][3] >= 0 or code[1][3] >= 0:
        return None
    return code[0], code[2][0], code[1]


def _condition_error(code: int, where: str = "") -> MatchRuntimeError:
    if code == interpreter.DIVIDE_BY_ZERO:
        return MatchRuntimeError(
            "DIVIDE_BY_ZERO", f"division by zero in a DEFINE condition{where}; use NULLIF on the divisor", sqlstate="22012"
        )
    if code == interpreter.OVERFLOW:
        return MatchRuntimeError(
            "ARITHMETIC_OVERFLOW", f"overflow of a number in a DEFINE condition{where}; cast to a wider type", sqlstate="22003"
        )
    raise ValueError(f"a condition failed with the unknown code {code}")


def match_table(plan: Plan, table: pa.Table, chunk_rows: int | None = None) -> pa.Table:
    """All output rows for a table of the plan's input columns, sorted by partition and order."""
    prepared = prepare(plan, table.schema)
    engine = engine_for(prepared, chunk_rows)
    return pa.concat_tables([prepared.output_schema.empty_table(), *match_batches(engine, table.to_batches())])


def match_batches(engine: MatchEngine, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Feeds all batches and finishes."""
    for batch in batches:
        yield from engine.push(batch)
    yield from engine.finish()


__all__ = ["MatchEngine", "Prepared", "engine_for", "match_batches", "match_table", "prepare"]
