"""REPORT CHANGES beside sliding TOP k over a stream: its changes, compared with the lists of all windows over a table."""

from __future__ import annotations

import collections
import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import sqlglot

from sparkcep.compiler.strategy import strategy_of
from sparkcep.plan.plan import Plan
from sparkcep.plan.reach import Reach
from sparkcep.sql.rewrite.rewrite import subquery
from tests.cases.in_process import Database, calls_of
from tests.property.stream.streams import batch, micro_batches, planned, rows_of, timed
from tests.property.stream.top_k import micros, random_late, ranked_rows

MEASURES = "CHANGE() AS change, FIRST(id) AS a, LAST(id) AS z, count(*) AS c, WINDOW_START() AS s, WINDOW_END() AS e"
CHANGES = ("a", "z", "c", "s", "e", "rank")  # columns of a change, as far as the clause has them


def with_changes(text: str, ranks: bool) -> str:
    """The statement with REPORT CHANGES and measures of its own. ``text``: a statement of :mod:`tests.property.stream.top_k`."""
    head, rest = text.split(" MEASURES ", 1)
    clause = next(rest[at:] for word in ("EVENT SELECTION", "SEQUENCE", "PATTERN") if (at := rest.find(word)) >= 0)
    clause, *defines = clause.split(" DEFINE ")
    return " ".join([head, "MEASURES", MEASURES + ", MATCH_RANK() AS rank" * ranks, clause, "REPORT CHANGES", *(f"DEFINE {text}" for text in defines)])


def random_changes(rng: random.Random, make: Callable[[random.Random], str] = random_late) -> str:
    """A statement of :mod:`tests.property.stream.top_k` with REPORT CHANGES."""
    return with_changes(make(rng).replace(" OVERALL", ""), rng.random() < 0.5)


class Emitted:
    """The rows and changes that the SQL around the engine makes of the engine's rows, in DuckDB."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.database = plan, Database()
        text, (call,) = calls_of(f"SELECT * FROM {subquery(plan, 't')}")
        self.name, self.query = call.name, self.database.translated(sqlglot.parse_one(text, read="databricks"), [])

    def of(self, leaves: pa.Table) -> list[tuple]:
        """The changes (partition, insert or retract, then the columns of CHANGES)."""
        found = self.rows(leaves)
        partition = next((name for name in ("p", "__p0") if any(name in row for row in found)), "")
        return [(row[partition], row["change"], *(shown(row[name]) for name in CHANGES if name in row)) for row in found]

    def rows(self, leaves: pa.Table) -> list[dict]:
        """The rows of the statement that the SQL around the engine makes of the engine's rows."""
        self.database.connection.register(self.name, leaves)
        return self.database.connection.sql(self.query).to_arrow_table().to_pylist()


def shown(value):
    """A value as a number."""
    return value if isinstance(value, int) else micros(value.replace(tzinfo=None))


def expected(plan: Plan, table: pa.Table) -> dict[tuple[int, int], list[tuple]]:
    """The changes at each window that holds a row of a partition, by partition and end of the window, from the lists of a table."""
    whole = ranked_rows(plan, batch(plan, table, np.ones(table.num_rows, dtype=bool)))
    outputs, start = dict(plan.outputs), next(leaf.name for leaf in plan.leaves if leaf.spec.kind == "window_start")
    names = [name for name in ("a", "z", "c") if name in outputs]
    lists = collections.defaultdict(dict)
    for (_, _), rows in whole.items():
        for rank, row in enumerate(rows, 1):
            key = (tuple(row[plan.ranking.changes.identity]), *([rank] if "rank" in outputs else []))
            lists[row["__p0"], micros(row[start])][key] = tuple(shown(row[outputs[name]]) for name in names), rank
    found = {}
    for partition in np.unique(np.asarray(table.column("__p0"))).tolist():
        before: dict = {}
        for begin in windows_with_rows(plan, table, partition):
            now, end = lists.get((partition, begin), {}), begin + int(plan.windows[0].size)
            gone, come = ({key: of[key] for key in of if key not in other} for of, other in ((before, now), (now, before)))
            found[partition, end] = [
                (partition, change, *values, begin, end, *([rank] if "rank" in outputs else []))
                for change, some in (("retract", gone), ("insert", come)) for values, rank in some.values()
            ]
            before = now
    return found


def windows_with_rows(plan: Plan, table: pa.Table, partition: int) -> list[int]:
    """The begins of the windows that hold a row of a partition."""
    size, step = int(plan.windows[0].size), int(plan.slide.step)
    own = np.asarray(table.column("__p0")) == partition
    places = sorted(np.asarray(table.column("__s0").cast(pa.int64()))[own].tolist())
    if plan.windows[0].kind == "rows":
        places = range(len(places))
    return sorted({begin for place in places for begin in range(place // step * step, place - size, -step) if begin >= 0 or plan.windows[0].kind != "rows"})


def compared_changes(text: str, rng: random.Random) -> int:
    """Compares the changes of micro-batches with those over a table, at each window once. Returns their number."""
    plan = planned(text)
    table = timed(plan, rows_of(rng, 5, 14))
    if not table.num_rows:
        return 0
    emitted, whole, told, end = Emitted(plan), expected(plan, table), collections.defaultdict(list), 2 + CHANGES.index("e")
    for watermark, released, tables in micro_batches(plan, table, rng, rng.choice([0, 2, 5])):
        for change in emitted.of(pa.concat_tables(tables)) if tables else ():
            told[change[0], change[end]].append(change)
        for (partition, until), changes in whole.items():
            found = told.get((partition, until), [])
            assert sorted(found) == sorted(changes) if found else not changes or not is_due(plan, table, released, watermark, partition, until), (text, watermark, partition, until)
    emitted.database.close()
    assert set(told) <= {key for key, changes in whole.items() if changes}, text
    return sum(map(len, told.values()))


def is_due(plan: Plan, table: pa.Table, released: np.ndarray, watermark: int, partition: int, end: int) -> bool:
    """Whether a window of a partition must be emitted: it and the windows of its rows have ended, and NEXT finds its rows."""
    window, rows = plan.windows[0], Reach.of(plan).ahead
    after = int(window.size) if strategy_of(plan).emission.late else 0
    own = released & (np.asarray(table.column("__p0")) == partition)
    if window.kind == "rows":
        return end + after + rows <= own.sum()
    time = np.asarray(table.column("__s0").cast(pa.int64()))
    return end + after <= watermark + 1 and (not rows or int((own & (time >= end + after)).sum()) >= rows)
