"""TOP k over a stream without the JVM extension: ranks the matches of sliding windows with Spark's public API.

``spark/stream/frames/program`` uses it. One micro-batch emits a whole window, for all keys. So the matches of a micro-batch that
share a window, and thus their keys, are all matches to rank. Ranking needs no state: the rows of a group go to Python together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from sparkcep.columns.arrays import dense_ranks, flat, null_marks, value_ranks
from sparkcep.columns.comparable import in_utc, with_leaves
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import ListChanges
from sparkcep.plan.scope import AFTER, BEFORE, RANK
from sparkcep.sql.rewrite.rewrite import list_identity, ranked_by, scored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ORDER = "__r"  # with a number: a ranking column


def best(rows: pa.Table, top: int, descending: tuple[bool, ...]) -> pa.Table:
    """Returns the rows of the ``top`` best matches of a window, with their rank appended.

    The last columns are the ranking columns. ``descending`` says of each whether it descends: then NULL is last, otherwise first.
    """
    count = len(descending)
    by = []
    for i, down in enumerate(descending):
        column = flat(rows.column(rows.num_columns - count + i))
        found = value_ranks([column])  # 0 for NULL
        by += [null_marks(column), -found] if down else [found]
    rank = dense_ranks(by) + 1
    kept = np.flatnonzero(rank <= top)
    given = _in_utc(rows.select(range(rows.num_columns - count)).take(pa.array(kept)))
    return given.append_column(RANK, pa.array(rank[kept], pa.int32()))


def _in_utc(rows: pa.Table) -> pa.Table:
    """Returns the rows with their times in UTC. Spark sends them in the session's zone, but does not take them back in it."""
    return rows.cast(pa.schema([field.with_type(with_leaves(field.type, in_utc)) for field in rows.schema]))


def ranked(plan: Plan, rows: str, ask: Callable[[str], DataFrame]) -> DataFrame:
    """Returns the rows of the best matches of each window, with score and rank.

    ``rows``: the name of the engine's output DataFrame; ``ask`` runs a query over it.
    """
    ranking = plan.ranking
    assert ranking is not None
    groups, order = ranked_by(plan, ranking)
    columns = [f"{text} AS {_ORDER}{i}" for i, (text, _) in enumerate(order)]
    found = ask(f"SELECT *, {', '.join(columns)} FROM ({scored(ranking, rows)})")
    names = found.columns
    plain = T.StructType([T.StructField(f"c{i}", field.dataType, True, field.metadata or None) for i, field in enumerate(found.schema.fields[: -len(order)])])
    # Positional names, because Spark would resolve the user's names, which may be anything.
    grouped = found.toDF(*(f"c{i}" for i in range(len(names)))).groupBy(*(f"c{names.index(name)}" for name in groups))

    def match_recognize_ranks(rows: pa.Table) -> pa.Table:
        return best(rows, top, descending)

    top, descending = ranking.top, tuple(down for _, down in order)
    found = grouped.applyInArrow(match_recognize_ranks, plain.add(RANK, T.IntegerType())).toDF(*names[: -len(order)], RANK)
    return found if ranking.changes is None else _compared(plan, ranking.changes, found)


def neighbours(rows: pa.Table, start: int, next_start: int) -> pa.Table:
    """Returns the rows of one match in the lists of windows, with columns of the lists before and after.

    ``start`` and ``next_start`` are the numbers of columns. The row before gives its ``next_start``, the row after its ``start``.
    """
    rows = _in_utc(rows.take(pc.sort_indices(rows.column(start))))
    missing = pa.nulls(1, rows.schema.field(start).type)
    before = pa.concat_arrays([missing, *rows.column(next_start).slice(0, rows.num_rows - 1).chunks])
    after = pa.concat_arrays([*rows.column(start).slice(1).chunks, missing])
    return rows.append_column(BEFORE, before).append_column(AFTER, after)


def _compared(plan: Plan, changes: ListChanges, found: DataFrame) -> DataFrame:
    """Returns the ranked matches with the columns that decide whether a match comes into the list or goes from it."""
    names = found.columns
    plain = T.StructType([T.StructField(f"c{i}", field.dataType, True, field.metadata or None) for i, field in enumerate(found.schema.fields)])
    grouped = found.toDF(*plain.names).groupBy(*(f"c{names.index(name)}" for name in list_identity(plan, changes)))
    start, next_start = names.index(changes.start), names.index(changes.next_start)

    def match_recognize_lists(rows: pa.Table) -> pa.Table:
        return neighbours(rows, start, next_start)

    time = plain.fields[start].dataType
    return grouped.applyInArrow(match_recognize_lists, plain.add(BEFORE, time).add(AFTER, time)).toDF(*names, BEFORE, AFTER)
