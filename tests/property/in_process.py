"""Runs a clause over Python rows without Spark: sqlite stands in for the SQL around the engine."""

from __future__ import annotations

import functools
import random
import re
import sqlite3
from bisect import bisect_left
from collections.abc import Generator
from itertools import accumulate

import numpy as np
import pyarrow as pa

from sparkcep.clause.parser import parse_clause
from sparkcep.columns.arrays import boundaries, flat
from sparkcep.compiler.registers.register_code import register_type
from sparkcep.engine.factory import OpenPartitions, engine_for, match_batches, match_table, prepare
from sparkcep.plan.build import make_plan
from sparkcep.plan.extend.arcs import (
    ARRIVED,
    IS,
    NAME,
    NOW,
    NUMBER,
    OP,
    ROW,
    came_column,
    key_column,
    moment_column,
    own_columns,
    written_column,
)
from sparkcep.plan.plan import LETTERS
from sparkcep.plan.records import parameter_column
from sparkcep.plan.split.conditions import ORDER
from sparkcep.settings import DEFAULT, Settings
from sparkcep.sql.prefilter.second_read import Filter
from sparkcep.sql.prefilter.slices import AWAY, OWN, SLICE, Slices, cut
from tests.support.caught import without_catching

COLUMNS = ("p", "id", "v", "w", "s")
CHANGING = ("op", "n", "at")  # of rows that come and go: what they do, their number, and when, where ARRIVAL BY reads it

# In the generated expressions nothing but these makes a value boolean, and no boolean sits inside a number.
_BOOLEAN = re.compile(r"[=<>]|\bIS\b|\bIN\b|\bBETWEEN\b|\bNOT\b|\bTRUE\b|\bFALSE\b", re.I)
_CHOICE = re.compile(r"CASE WHEN .*? THEN (?=.* ELSE )")  # a number by a condition
_GUARD = re.compile(r"^(\(*CASE WHEN .* THEN )(.*)( END\)*)$")
_ALL = re.compile(r"struct\(0 AS __all, \* EXCEPT \((.*?)\)\)")  # all columns but these
_NULLED = re.compile(r"IF\(false, (.*?), NULL\)")


def run(
    text: str,
    partitions: dict[int, list[dict]],
    chunk_rows: int | None = None,
    settings: Settings = DEFAULT,
    chosen: Filter | None = None,
    slices: Slices | None = None,
    cuts: random.Random | None = None,
    arcs: list[dict] | None = None,
) -> dict[int, list[dict]]:
    """Output rows of the clause by partition, each {measure: value} (ALL ROWS: and the id), in the engine's order.

    With `cuts` the rows of each partition come little by little, and what is known of it is bytes between them. With `chunk_rows`
    the rows come in batches of that size and the engine holds as few as it can; with `chosen` only those that the second read
    keeps; with `slices` cut into those, by a measure of whole numbers. ``arcs``: the rows of ARCS FROM.
    """
    plan = without_catching(make_plan(parse_clause(text), settings=settings))
    database = _database()
    try:
        table = _inputs(plan, partitions, database, chosen, down=bool(plan.order and plan.order[0].descending))
        if arcs is not None:
            table = _with_arcs(plan, table, arcs)
        if slices is not None:
            table, plan = in_slices(plan, table, slices), cut(plan, slices)
        if cuts is not None:
            leaves = little_by_little(plan, table, cuts)
        elif chunk_rows is None:
            leaves = match_table(plan, table)
        else:
            engine = engine_for(prepare(plan, table.schema), chunk_rows)
            pieces = list(match_batches(engine, table.to_batches(max_chunksize=chunk_rows)))
            leaves = pa.concat_tables([engine.prepared.output_schema.empty_table(), *pieces])
        return _outputs(plan, leaves, database)
    finally:
        database.close()


def _with_arcs(plan, table: pa.Table, arcs: list[dict]) -> pa.Table:
    """What Spark makes of sorted rows and of the rows of ARCS FROM, which are for all partitions or for that of their ``p``."""
    names, rows = [parameter.name for parameter in plan.automaton.parameters], table.to_pylist()
    own = own_columns(plan.arcs.texts)
    turns = (("insert", "delete", "retract", "punctuate"), ("insert", "retract", "punctuate"))
    came = plan.arcs.came[0] if plan.arcs.came else None
    timed = sorted((row[came], row["__o0"]) for row in rows if row["__o0"] is not None) if came else []
    moments, largest = [at for at, _ in timed], list(accumulate((time for _, time in timed), max))

    def whole(row: dict, arc: dict | None, number: int) -> dict:
        found = {IS: arc is not None, NUMBER: number}
        of = arc or {}
        found |= {column: of.get(name) for name, column in own.items()} | {key_column(0): of.get("p")}
        found |= {column(i): of.get(name) for i, name in enumerate(names) for column in (parameter_column, written_column)}
        if came is not None:
            at, op = (row[came], row[plan.changes.column]) if arc is None else (arc["at"], arc["op"])
            found |= {moment_column(0): at, came_column(0): None, ARRIVED: 10 * at + turns[arc is None].index((op or "insert").lower()) - (4 if arc else 0)}
            before = 0 if arc is None else bisect_left(moments, at)
            found[NOW] = largest[before - 1] if before else None
        return row | found

    out, before = [], object()
    for row in rows:
        if row["__p0"] != before:
            out += [whole(row, arc, number) for number, arc in enumerate(arcs) if arc.get("p") in (None, row["__p0"])]
            before = row["__p0"]
        out.append(whole(row, None, -1))
    # a column of which Spark knows a type has one here, too, whatever its values are
    types = {field.name: field.type for field in table.schema} | {IS: pa.bool_(), NAME: pa.string(), OP: pa.string()}
    types |= {parameter_column(i): register_type(parameter) for i, parameter in enumerate(plan.automaton.parameters)}
    types |= {own[name]: pa.null() for name in own if name not in ("arc", "op") and arcs and not any(name in arc for arc in arcs)}
    texts = {own[name]: pa.string() for name in ("from_state", "to_state", "when", "set") if name in own} | ({own["final"]: pa.bool_()} if plan.arcs.texts else {})
    types = texts | types
    columns = [name for name in (list(out[0]) if out else [*table.column_names, *plan.arcs.columns]) if name != ROW]
    found = pa.table({name: pa.array([row[name] for row in out], types.get(name, pa.int64())) for name in columns})
    if not plan.arcs.texts:
        return found
    # the columns of the rows, by their names
    fields = {name: pa.array([row[f"r_{name}"] for row in out], pa.string() if name == "s" else pa.int64()) for name in ("id", "v", "w", "s")}
    return found.drop_columns([f"r_{name}" for name in fields]).append_column(ROW, pa.StructArray.from_arrays(list(fields.values()), names=list(fields)))


def _extreme(chosen_of, *values):
    return chosen_of((v for v in values if v is not None), default=None)


def drained(advance: Generator[pa.Table, None, list[bytes]]) -> tuple[list[pa.Table], list[bytes]]:
    """What a call yields, and what it returns."""
    found = []
    while True:
        try:
            found.append(next(advance))
        except StopIteration as done:
            return found, done.value


def little_by_little(plan, table: pa.Table, rng: random.Random) -> pa.Table:
    """The output for sorted rows of which some of each of some partitions come at a time, as rng has it."""
    prepared = prepare(plan, table.schema)
    engine = OpenPartitions(prepared, table.schema)
    offsets = boundaries([flat(table[key]) for key in plan.keys], table.num_rows)
    at, until, states = offsets[:-1].copy(), offsets[1:], [b""] * (len(offsets) - 1)
    ended, found = np.zeros(len(states), dtype=bool), [prepared.output_schema.empty_table()]
    while not ended.all():
        some = np.array([p for p in np.flatnonzero(~ended) if rng.random() < 0.7], dtype=np.int64)
        sizes = np.minimum([rng.choice([0, 0, 1, 1, 2, 3, 5, 20]) for _ in some], (until - at)[some]).astype(np.int64)
        # a partition whose rows are all there may be told so at once, or with no further row
        going = np.array([at[p] + n < until[p] or rng.random() < 0.5 for p, n in zip(some, sizes, strict=True)], dtype=bool)
        came = pa.concat_tables([table.slice(0, 0), *(table.slice(at[p], n) for p, n in zip(some, sizes, strict=True))])
        tables, left = drained(engine.advance(came, sizes, [states[p] for p in some], going))
        found += tables
        for p, state in zip(some, left, strict=True):
            states[p] = state
        at[some] += sizes
        ended[some] = ~going
    return pa.concat_tables(found)


def in_slices(plan, table: pa.Table, slices: Slices) -> pa.Table:
    """What Spark makes of sorted rows by `slices`: each in its own slice and, less than a window behind its begin, in the one
    before."""
    keys = list(zip(*(table[k].to_pylist() for k in plan.keys), strict=True)) if plan.keys else [()] * table.num_rows
    copies = []
    for at, place in enumerate(table["__o0"].to_pylist()):
        if place is None:
            continue
        place = -1 - place if plan.order[0].descending else place
        own = place // slices.size
        copies.append((own, 0, at))
        if place - own * slices.size < slices.reach:
            copies.append((own - 1, 1, at))
    first = {key: i for i, key in reversed(list(enumerate(keys)))}
    copies.sort(key=lambda copy: (first[keys[copy[2]]], copy[0], copy[2]))
    taken = table.take(pa.array([at for *_, at in copies], pa.int64()))
    own, away = ([copy[i] for copy in copies] for i in range(2))
    return taken.append_column(SLICE, pa.array(own, pa.int64())).append_column(AWAY, pa.array(away, pa.int32()))


def _database() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    for name, chosen_of in (("least", min), ("greatest", max)):
        database.create_function(name, -1, functools.partial(_extreme, chosen_of))
    return database


def inputs(plan, partitions: dict[int, list[dict]], chosen: Filter | None = None, arcs: list[dict] | None = None) -> pa.Table:
    """The columns a plan wants of these rows, by rising id; ``arcs``: the rows of ARCS FROM."""
    database = _database()
    try:
        table = _inputs(plan, partitions, database, chosen)
        return table if arcs is None else _with_arcs(plan, table, arcs)
    finally:
        database.close()


def _outputs(plan, leaves, database) -> dict[int, list[dict]]:
    # sqlite has no lists: those of rows that failed
    leaves = leaves.select([f.name for f in leaves.schema if not pa.types.is_list(f.type) or any(f.name in sql for _, sql in plan.outputs)])
    names = leaves.column_names
    # sqlite knows no decimals; MATCH_COUNT of a few rows fits an integer
    leaves = leaves.cast(pa.schema([pa.field(f.name, pa.int64() if pa.types.is_decimal(f.type) else f.type) for f in leaves.schema]))
    database.execute(f"CREATE TABLE leaves ({', '.join(names)})")
    database.executemany(
        f"INSERT INTO leaves VALUES ({', '.join('?' * len(names))})", zip(*leaves.to_pydict().values(), strict=True)
    )
    # What the rewriter adds: the measures of a row of no match are NULL.
    guard = "(CASE WHEN __matched THEN {} END)" if plan.rows == "unmatched" else "{}"
    selected = {name: guard.format(sql) for name, sql in plan.outputs}
    if plan.rows != "one":
        selected["id"] = "id"
    partition = "__p0" if "__p0" in names else "p"
    found: dict[int, list[dict]] = {}
    owned = f"WHERE {OWN} = 0" if plan.slice else ""
    query = f"SELECT {partition}, {', '.join(selected.values())} FROM leaves {owned} ORDER BY rowid"
    for p, *values in database.execute(query):
        found.setdefault(p, []).append(dict(zip(selected, values, strict=True)))
    return found


def _inputs(plan, partitions, database, chosen: Filter | None = None, down: bool = False) -> pa.Table:
    columns = COLUMNS + (CHANGING[: 2 + bool(plan.changes.arrival)] if plan.changes else ())
    database.execute(f"CREATE TABLE t ({', '.join(columns)})")
    rows = [(p, *(row[c] for c in columns[1:])) for p, some in partitions.items() for row in some]
    database.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(columns))})", rows)
    wanted = {}
    for name, sql in plan.inputs:
        listed = _ALL.sub(lambda found: ", ".join(c for c in columns if c not in re.split(r"\W+", found[1])), sql)
        wanted[name] = f"json_array({listed})" if _ALL.fullmatch(sql) else listed
    for name, sql in plan.ordered_inputs:
        wanted[name] = sql.replace(ORDER, "PARTITION BY p ORDER BY id")
    if plan.rows != "one":
        wanted.update({c: c for c in columns})
    if plan.arcs is not None and plan.arcs.texts:
        wanted.update({f"r_{name}": name for name in ("id", "v", "w", "s")})
    types = {name: pa.bool_() if _is_boolean(unguarded(sql)) else None for name, sql in wanted.items()}
    if plan.letters:
        bits = [f"(CASE WHEN {sql} THEN {1 << bit} ELSE 0 END)" for _, bit, sql in plan.letters]
        wanted[LETTERS] = " + ".join(bits)
        types[LETTERS] = pa.int64()
    selected = ", ".join(f"{_portable(sql)} AS {name}" for name, sql in wanted.items())
    needed = " OR ".join(f"({_portable(text)})" for text in plan.prefilter) or "true"
    if chosen:
        needed = f"({needed}) AND {_kept(plan, chosen)}"
    arrival = () if plan.changes is None else (plan.changes.arrival,) if plan.arcs is None else plan.arcs.came
    order = ", ".join(["p", *(name for name, _ in plan.equal_keys), "id DESC" if down else "id", *filter(None, arrival)])
    values = list(zip(*database.execute(f"SELECT {selected} FROM t WHERE {needed} ORDER BY {order}"), strict=True))
    values = values or [()] * len(wanted)
    return pa.table({name: _array(column, types[name]) for name, column in zip(wanted, values, strict=True)})


def _kept(plan, chosen: Filter) -> str:
    """The semi join of sql.semijoin.kept_keys as a condition of sqlite's."""
    keys = [f"{_portable(dict(plan.inputs)[key])} AS k{i}" for i, key in enumerate(plan.keys)]
    met = [f"k{i} IS {_portable(dict(plan.inputs)[key])}" for i, key in enumerate(plan.keys)]
    if chosen.near:
        keys.append(f"id / {chosen.near.width} AS bucket")
        met.append(f"abs(bucket - id / {chosen.near.width}) <= 1")
    rare = f"SELECT {', '.join(keys)} FROM t WHERE {_portable(plan.candidates[chosen.candidate][1])}"
    return f"EXISTS (SELECT 1 FROM ({rare}) WHERE {' AND '.join(met)})"


def unguarded(sql: str) -> str:
    """The expression of a column that only rows of a variable have."""
    return _GUARD.sub(r"\2", sql)


def guarded(sql: str, inner: str) -> str:
    """``inner`` for the same rows."""
    return _GUARD.sub(lambda found: f"{found[1]}{inner}{found[3]}", sql) if _GUARD.match(sql) else inner


def _is_boolean(sql) -> bool:
    return bool(_BOOLEAN.search(_CHOICE.sub("", _NULLED.sub(r"\1", sql))))


def _portable(sql) -> str:
    return _NULLED.sub("NULL", sql).replace("<=>", "IS")


def _array(values, kind) -> pa.Array:
    if kind == pa.bool_() and all(v in (None, 0, 1) for v in values):
        return pa.array([None if v is None else bool(v) for v in values], kind)
    if kind in (None, pa.bool_()):
        kind = pa.string() if any(isinstance(v, str) for v in values) else pa.int64()
    return pa.array(values, kind)
