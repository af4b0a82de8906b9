"""Random clauses with SEQUENCE and sliding TOP k over random streams: the list of each window, once, as over a table."""

from __future__ import annotations

import collections
import random
import re

import numpy as np
import pyarrow as pa

from sparkcep.plan.plan import Plan
from tests.property.stream.list_changes import Emitted, is_due, shown
from tests.property.stream.streams import batch, in_time, micro_batches, planned, timed
from tests.property.topk.named_sequence_cases import random_partition, random_query

KEYS = 4


def compared(rng: random.Random) -> tuple[str, int]:
    """Compares a random clause over a random stream. How many output rows it has."""
    while True:
        query = random_query(rng, descending=False, top=rng.choice([1, 2, 4]))
        if query is not None and query.slide is not None and not query.changes:
            break
    text = in_time(re.sub(r"\bt\b", "id", query.to_sql().replace("ORDER BY t, id", "ORDER BY id")))
    plan = planned(text)
    rows = {p: [row | {"id": row["t"] + 4} for row in random_partition(rng, query) if row["t"] is not None] for p in range(KEYS)}
    table = timed(plan, rows)
    if not table.num_rows:
        return text, 0
    emitted, told, count = Emitted(plan), {}, 0
    whole = lists_of(plan, emitted, [batch(plan, table, np.ones(table.num_rows, dtype=bool))])
    for watermark, released, tables in micro_batches(plan, table, rng, rng.choice([0, 2, 5])):
        now = lists_of(plan, emitted, tables)
        assert not now.keys() & told.keys(), (text, rows, watermark)
        told |= now
        for key, some in now.items():
            assert some == whole.get(key), (text, rows, watermark, key)
            count += len(some)
        for key, begin in whole.keys() - told.keys():
            assert not is_due(plan, table, released, watermark, key, begin + int(plan.windows[0].size)), (text, rows, watermark, key, begin)
    emitted.database.close()
    return text, count


def lists_of(plan: Plan, emitted: Emitted, tables: list[pa.Table]) -> dict[tuple, list[str]]:
    """The lists by partition (None of all together) and begin of the window, in any order."""
    found = collections.defaultdict(list)
    for row in emitted.rows(pa.concat_tables(tables)) if tables else ():
        found[None if plan.ranking.overall else row["p"], shown(row["begins"])].append(str(row))
    return {key: sorted(rows) for key, rows in found.items()}
