"""Golden states: the bytes that each kind of search saves of a stream, under ``tests/golden/state/<kind>/<name>.txt``.

A file begins with its clause, up to a blank line; comments above the clause are options. The sections below it are made from the
rows in ``rows.csv``. They list the output of the first two micro-batches, then the state of each key as hexadecimal bytes, then the
output of two further micro-batches. ``test_saved_states.py`` runs the clause again and compares everything. It also resumes from
the stored bytes.

Options are ``idleTimeout`` (microseconds), ``histories`` (a name in ``histories.json``), ``manyRows`` (as if keys had many rows, so
many searches in a WINDOW), ``buckets`` (as without the JVM extension) and ``partitions`` (that end, without a watermark).

To add a clause, write a file with the clause alone. After a deliberate change, renew the files by

    python -m tests.golden.saved_states --write

and read the difference before it is committed. Other bytes mean that a stream cannot resume from its checkpoint, unless the state
has a new format and the old one is still read.
"""

from __future__ import annotations

import base64
import csv
import datetime
import functools
import json
import re
import sys
import textwrap
import zlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.registers.register_code import register_type
from sparkcep.compiler.stream_rules import check_stream
from sparkcep.engine.automaton.arc_history import JournalArcs, Moment, arrived, with_table
from sparkcep.engine.core.effort import Totals
from sparkcep.engine.core.task import Prepared
from sparkcep.engine.factory import OpenPartitions, prepare
from sparkcep.engine.match import early_emission
from sparkcep.engine.stream.key_buckets import Bucket, CountedKeys, Layout, output, pieces, read
from sparkcep.engine.stream.key_buckets import advance as advance_bucket
from sparkcep.engine.stream.keyed_stream import NOTHING_DUE, KeyedStream
from sparkcep.plan.build import make_plan
from sparkcep.plan.extend.arcs import ROW, key_column, own_columns, written_column
from sparkcep.plan.extend.budget import HISTORY_COLUMN
from sparkcep.plan.extend.unfinished import CLOCK
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import parameter_column
from sparkcep.settings import Settings
from tests.golden.golden_files import renew
from tests.property.in_process import drained
from tests.property.stream.test_stream_changes import Event, table_of
from tests.support.caught import without_catching

FOLDER = Path(__file__).resolve().parent / "state"
MARKS = (8, 18, 28, 2000)  # the watermark of each micro-batch, in microseconds; no row comes in the last one
SAVED = 2  # micro-batches before the state that is stored
ORDER = ("__s0", "__s1")  # the columns of ORDER BY in the rows of a stream
BUCKETS = 2
EMITTED, STATE, LATER = "emitted", "state", "emitted later"  # sections
_WIDTH = 128
_OPTION = re.compile(r"^-- (\w+)(?: (.*))?\n", re.MULTILINE)


def files() -> list[Path]:
    """The golden files, by name."""
    return sorted(FOLDER.glob("*/*.txt"))


def head_of(text: str) -> str:
    """The clause at the head of a file, with its options."""
    return text.partition("\n\n")[0].strip()


def sections_of(text: str) -> dict[str, str]:
    """The sections below the clause, by their names."""
    parts = re.split(r"^== (.*) ==\n", text, flags=re.MULTILINE)
    return {name: section.strip("\n") for name, section in zip(parts[1::2], parts[2::2], strict=True)}


def whole(head: str) -> str:
    """The file of a clause."""
    runner = runner_of(head)
    sections = {EMITTED: emitted(runner, range(SAVED)), STATE: runner.saved(), LATER: later(runner)}
    return head + "\n\n" + "\n\n".join(f"== {name} ==\n{section}" for name, section in sections.items()) + "\n"


def resumed(text: str) -> str:
    """Runs a clause from the state that its file stores, and lists what it emits."""
    runner = runner_of(head_of(text))
    runner.resume(sections_of(text)[STATE])
    return later(runner)


def later(runner: Runner) -> str:
    """Lists what the micro-batches after the saved state emit, and counts what is saved after each."""
    return "\n".join([emitted(runner, [SAVED]), runner.summary(), emitted(runner, range(SAVED + 1, len(MARKS))), runner.summary()])


def emitted(runner: Runner, numbers: Iterable[int]) -> str:
    """Lists the rows that micro-batches emit, each after the number of its micro-batch, below the names of the columns."""
    tables = [(number, table) for number in numbers for table in runner.step(number) if table.num_rows]
    if not tables:
        return "no rows"
    names = {column: name for name, column in runner.plan.outputs}
    rows = [f"{number}: {' '.join(_text(value) for value in row.values())}" for number, table in tables for row in table.to_pylist()]
    return "\n".join([f"columns: {' '.join(names.get(column, column) for column in tables[0][1].column_names)}", *rows])


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime.datetime) else str(value)


# -- rows -------------------------------------------------------------------------------------------------------------


@functools.cache
def stored_rows() -> list[Event]:
    """The rows of ``rows.csv``. Those that are not inserted are for clauses with CHANGES IN."""
    with (FOLDER / "rows.csv").open(encoding="utf-8", newline="") as file:
        return [_event(row) for row in csv.DictReader(file)]


def _event(row: dict[str, str]) -> Event:
    values: dict[str, Any] = {name: int(row[name]) if row[name] else None for name in ("id", "v", "w", "n")}
    op = row["op"]
    return Event(int(row["p"]), int(row["micro_batch"]), 0 if op == "retract" else -1, values | {"s": row["s"] or None, "op": op})


def rows_of(plan: Plan) -> list[Event]:
    """The rows that a plan reads."""
    changes = plan.changes
    ops = {"insert"} | ({"retract"} if changes is not None else set()) | ({"punctuate"} if changes is not None and changes.punctuate else set())
    return [event for event in stored_rows() if event.row["op"] in ops]


# -- clauses ----------------------------------------------------------------------------------------------------------


def planned(clause: str, options: dict[str, str]) -> Plan:
    """The plan of a clause over a stream."""
    plan = without_catching(make_plan(parse_clause(clause), settings=Settings(prefilter=False, budget_clock=("counted", 200, 400))))
    plan = replace(plan, idle=int(options.get("idleTimeout", 0)))
    if "partitions" not in options:
        check_stream(plan)
    return plan


def runner_of(head: str) -> Runner:
    """Runs the clause of a file, which says by its options how."""
    options = dict(_OPTION.findall(head))
    plan = planned(_OPTION.sub("", head), options)
    kind = ArcRunner if plan.arcs is not None else next((kind for option, kind in _RUNNERS.items() if option in options), Runner)
    return kind(plan, options)


def _ordered(prepared: Prepared) -> Prepared:
    """The same for rows whose second expression of ORDER BY is their number."""
    order = (*prepared.plan.order[:1], prepared.plan.order[0]._replace(name="n"))
    return replace(prepared, strategy=replace(prepared.strategy, plan=replace(prepared.plan, order=order)))


class Runner:
    """A clause over the stored rows, micro-batch by micro-batch. ``states`` and ``due`` by key."""

    def __init__(self, plan: Plan, options: dict[str, str]) -> None:
        self.plan, self.options, self.events = plan, options, rows_of(plan)
        own = tuple(column for column in plan.inputs if column.name not in (HISTORY_COLUMN, CLOCK))  # a stream reads the history beside the rows, and the watermark is the clock
        rows = self.typed(table_of(replace(plan, inputs=own), self.events))
        self.own = rows.schema
        self.rows = rows.append_column(ORDER[0], rows.column("__o0")).append_column(ORDER[1], pa.array(np.arange(len(self.events))))
        self.states: dict[int, bytes] = {}
        self.due: dict[int, int] = {}
        self.kept = self.pending = 0
        self.counted: list[int] = []  # the matches of the last micro-batch, and what a BUDGET came to

    def typed(self, rows: pa.Table) -> pa.Table:
        """The rows with the columns that the plan reads beside those of expressions."""
        return rows

    @functools.cached_property
    def prepared(self) -> Prepared:
        return _ordered(prepare(self.plan, self.own))

    def stream(self) -> KeyedStream:
        """Another worker, which knows the bytes alone."""
        return KeyedStream(self.prepared, self.rows.schema, ORDER)

    def step(self, number: int) -> list[pa.Table]:
        """Returns the output of a micro-batch."""
        stream = self.stream()
        if "histories" in self.options:
            stream.use(histories()[self.options["histories"]][number])
        if "manyRows" in self.options:  # as a key with many rows, whose rows are searched a few times in a WINDOW
            with mock.patch.multiple(early_emission, MANY_ROWS=0, SHARE=int(self.options["manyRows"])):
                return self.advanced(stream, number)
        return self.advanced(stream, number)

    def advanced(self, stream: KeyedStream, number: int, again: bool = False) -> list[pa.Table]:
        """Advances a stream by the rows of a micro-batch. ``again``: also advances all keys that have a timer."""
        watermark = MARKS[number]
        came = [i for i, event in enumerate(self.events) if event.batch == number]
        touched = sorted({self.events[i].key for i in came} | {key for key, when in self.due.items() if when <= watermark or (again and when < NOTHING_DUE)})
        of = np.array([touched.index(self.events[i].key) for i in came], dtype=np.int64)
        tables, left = drained(stream.advance(self.rows.take(pa.array(came, pa.int64())), of, [self.states.get(key, b"") for key in touched], watermark))
        for key, state, when in zip(touched, left.states, left.due.tolist(), strict=True):
            self.states[key], self.due[key] = state, when
        self.kept, self.pending = self.kept + left.more[0], self.pending + left.more[1]
        self.counted = counted(stream.engine)
        return tables

    def summary(self) -> str:
        """Counts what is saved of keys, in one line."""
        due = ", ".join(f"{key} {_time(when)}" for key, when in sorted(self.due.items()) if self.states[key])
        return f"saved: {self.kept} rows, {self.pending} pending; due: {due or 'never'}; counted: {self.counted}"

    def saved(self) -> str:
        """The section of the state."""
        lines = [self.summary()]
        for key, state in sorted(self.states.items()):
            lines += [f"key {key}, due {_time(self.due[key])}", *_wrapped(digits(state))]
        return "\n".join(lines)

    def resume(self, section: str) -> None:
        """Takes the state of a section for that of the keys."""
        summary, _, keys = section.partition("\n")
        self.kept, self.pending = map(int, re.match(r"saved: (-?\d+) rows, (-?\d+) pending", summary).groups())
        for key, when, state in re.findall(r"^key (\d+), due (\w+)\n((?:  .*\n?)*)", keys, re.MULTILINE):
            self.states[int(key)], self.due[int(key)] = undigits(state), NOTHING_DUE if when == "never" else int(when)


def counted(engine: OpenPartitions) -> list[int]:
    """How many matches an engine has emitted, and the totals of its checks under a BUDGET."""
    task = engine.task
    return [task.matches, *(task.totals.values()[: Totals.names().index("blocks")] if task.plan.budgeted else [])]


def _time(due: int) -> str:
    return "never" if due == NOTHING_DUE else str(due)


def digits(data: bytes) -> str:
    """Encodes bytes as hexadecimal digits. ``(n)`` is a run of n zero bytes."""
    return "".join(f"({len(part)})" if i % 2 else part.hex() for i, part in enumerate(re.split(rb"(\0{3,})", data)))


def undigits(text: str) -> bytes:
    """The bytes of digits."""
    return bytes.fromhex(re.sub(r"\((\d+)\)", lambda zeros: "00" * int(zeros[1]), "".join(text.split())))


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")


@functools.cache
def histories() -> dict[str, list[list[dict]]]:
    """The rows of tables of USING HISTORY, of each by micro-batch."""
    return json.loads((FOLDER / "histories.json").read_text("utf-8"))


# -- partitions that end ----------------------------------------------------------------------------------------------


class PartitionRunner(Runner):
    """A clause over partitions that grow and end, without watermarks. In each micro-batch some rows of each partition come, in the
    clause's order, and in the last one every partition ends."""

    def __init__(self, plan: Plan, options: dict[str, str]) -> None:
        super().__init__(plan, options)
        self.events = sorted((event for event in self.events if event.row["id"] is not None), key=lambda event: (event.key, event.row["id"]))
        self.sorted = self.typed(table_of(plan, self.events))

    def step(self, number: int) -> list[pa.Table]:
        partitions = sorted({event.key for event in self.events})
        upto = MARKS[number - 1] if number else 0, MARKS[number]
        came = [i for i, event in enumerate(self.events) if upto[0] < event.row["id"] <= upto[1]]
        sizes = np.array([sum(self.events[i].key == key for i in came) for key in partitions], dtype=np.int64)
        going = np.full(len(partitions), number < len(MARKS) - 1)
        engine = OpenPartitions(self.prepared, self.own)
        states = [self.states.get(key, b"") for key in partitions]
        tables, left = drained(engine.advance(self.sorted.take(pa.array(came, pa.int64())), sizes, states, going))
        for key, state in zip(partitions, left, strict=True):
            self.states[key], self.due[key] = state, NOTHING_DUE
        self.counted = counted(engine)
        return tables


# -- buckets ----------------------------------------------------------------------------------------------------------


class BucketRunner(Runner):
    """A clause over buckets of keys, as it runs without the JVM extension."""

    def __init__(self, plan: Plan, options: dict[str, str]) -> None:
        super().__init__(plan, options)
        names = self.own.names
        self.layout = Layout(tuple(names), tuple(map(names.index, plan.keys)), len(ORDER), BUCKETS)
        needed = pa.array([True] * self.rows.num_rows)
        self.wanted = self.rows.select(names).append_column("needed", needed)
        for name in ORDER:
            self.wanted = self.wanted.append_column(name, self.rows.column(name))
        self.buckets = [Bucket.new(b'{"plan": "of a test"}') for _ in range(BUCKETS)]
        self.counts = [CountedKeys()] * BUCKETS

    def step(self, number: int) -> list[pa.Table]:
        came = pa.array([i for i, event in enumerate(self.events) if event.batch == number], pa.int64())
        (parts,) = pieces(self.wanted.take(came).combine_chunks().to_batches(), self.layout)
        stream = KeyedStream(self.prepared, self.layout.piece_schema(self.wanted.schema), self.layout.order)
        found, out = [], self.prepared.output_schema
        for i, part in enumerate(parts):
            before = Bucket.read(self.buckets[i].written())
            tables, (self.buckets[i], self.counts[i]) = drained(advance_bucket(stream, [] if part is None else [part], before, MARKS[number]))
            found += [pa.Table.from_batches(read(piece, out), out) for piece in output(tables)]
        return found

    def summary(self) -> str:
        found = (f"bucket {i}, watermark {b.watermark}, {b.keys.num_rows} keys, {b.kept} rows, {b.pending} pending" for i, b in enumerate(self.buckets))
        return f"saved: {'; '.join(found)}; counted: {[list(counts[: counts._fields.index('blocks')]) for counts in self.counts]}"

    def saved(self) -> str:
        lines = [self.summary()]
        for i, bucket in enumerate(self.buckets):
            for row in bucket.keys.to_pylist():
                lines += [f"bucket {i}, key {row['key'].decode()}, due {_time(row['due'])}", *_wrapped(digits(row["state"]))]
            lines += [f"bytes of bucket {i}, by {made_with()}", *_wrapped(base64.b64encode(bucket.written()).decode())]
        return "\n".join(lines)

    def resume(self, section: str) -> None:
        found = re.findall(r"^bytes of bucket \d+, by .*\n((?:  .*\n?)*)", section, re.MULTILINE)
        self.buckets = [Bucket.read(base64.b64decode(data)) for data in found]


def made_with() -> str:
    """The libraries that write Arrow's streams: other versions may write other bytes for the same table."""
    return f"pyarrow {pa.__version__}, zlib {zlib.ZLIB_RUNTIME_VERSION}"


def comparable(text: str, other: str) -> str:
    """A file's text, without the bytes of Arrow's streams where ``other`` has those of other libraries."""
    made = [set(re.findall(r"^bytes of .*, by (.*)$", one, re.MULTILINE)) for one in (text, other)]
    return text if made[0] == made[1] else re.sub(r"^bytes of .*\n(?:  .*\n)*", "", text, flags=re.MULTILINE)


# -- arcs beside the rows ---------------------------------------------------------------------------------------------


class ArcRunner(Runner):
    """A clause with ARCS FROM a table. ``arcs.json`` has the rows that each micro-batch reads."""

    journal: pa.Table | None = None
    before: pa.Table | None = None

    def typed(self, rows: pa.Table) -> pa.Table:
        fields = [name for name in rows.column_names if name.startswith("r_")]  # the columns that arcs as text see
        if not fields:
            return rows
        columns = [rows.column(name).combine_chunks() for name in fields]
        return rows.drop_columns(fields).append_column(ROW, pa.StructArray.from_arrays(columns, names=[name[2:] for name in fields]))

    def step(self, number: int) -> list[pa.Table]:
        read = arcs_of(self.plan, number)
        largest = max((event.row["id"] for event in self.events if event.batch < number and event.row["id"] is not None), default=None)
        moment = Moment(largest, MARKS[number - 1] if number else 0, MARKS[number])
        found = arrived(prepare(self.plan, with_table(self.plan, self.own, read.schema)), self.journal, self.before, read, moment)
        if found is not None:
            self.journal, self.before = found[0], read
        return self.advanced(self.stream(), number, again=found is not None and found[1] and self.plan.changes is not None)

    def stream(self) -> KeyedStream:
        standing = JournalArcs.of(prepare(self.plan, with_table(self.plan, self.own, self.journal.schema)), self.journal)
        prepared = replace(_ordered(standing.prepared), input_schema=self.own)
        return KeyedStream(prepared, self.rows.schema, ORDER, arcs=standing)

    def saved(self) -> str:
        rows = [f"arc {' '.join(f'{name}={value}' for name, value in row.items() if value is not None)}" for row in self.journal.to_pylist()]
        return "\n".join([super().saved(), *rows, f"bytes of the journal, by {made_with()}", *_wrapped(base64.b64encode(_written(self.journal)).decode())])

    def resume(self, section: str) -> None:
        super().resume(section)
        (data,) = re.findall(r"^bytes of the journal, by .*\n((?:  .*\n?)*)", section, re.MULTILINE)
        self.journal, self.before = pa.ipc.open_stream(base64.b64decode(data)).read_all(), arcs_of(self.plan, SAVED - 1)


def arcs_of(plan: Plan, number: int) -> pa.Table:
    """The table of arcs as a micro-batch reads it. Arcs as text are in it if the clause can have these."""
    rows = [row for row in json.loads((FOLDER / "arcs.json").read_text("utf-8"))[number] if plan.arcs.texts or "from_state" not in row]
    kinds = {"valid_from": pa.timestamp("us"), "valid_to": pa.timestamp("us"), "final": pa.bool_()}
    rows = [row | {name: _moment(row.get(name)) for name in ("valid_from", "valid_to")} for row in rows]
    own = own_columns(plan.arcs.texts)
    arrays = {column: pa.array([row.get(name) for row in rows], kinds.get(name, pa.string())) for name, column in own.items()}
    if not plan.arcs.texts:
        arrays[own["from_state"]] = pa.nulls(len(rows))
    for i, parameter in enumerate(plan.automaton.parameters):
        for column, kind in ((parameter_column(i), register_type(parameter)), (written_column(i), pa.int64())):
            arrays[column] = pa.array([row.get(parameter.name) for row in rows], kind)
    return pa.table(arrays | {key_column(0): pa.array([row.get("p") for row in rows], pa.int64())})


def _moment(text: str | None) -> datetime.datetime | None:
    return None if text is None else datetime.datetime.fromisoformat(text)


def _written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    return sink.getvalue().to_pybytes()


_RUNNERS = {"buckets": BucketRunner, "partitions": PartitionRunner}


if __name__ == "__main__":
    sys.exit(renew(files(), FOLDER, lambda text: whole(head_of(text)), "states", "--write" in sys.argv[1:], lambda one, other: comparable(one, other) == comparable(other, one)))
