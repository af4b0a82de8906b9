"""MATCH_ID() with a number, for matches that would share an id. Equal input rows make such matches.

If all matches are known at once, they are numbered in the order of their output. In a changelog of a table an inserted match gets
the least free number. A retracted match returns the number of its equal, so a retraction has the id of an insertion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import MatchBatch
from sparkcep.engine.core.task import Task
from sparkcep.engine.output.columns_out import OF_CHANGES
from sparkcep.engine.output.keyed_rows import MATCH, PART, MatchTables
from sparkcep.engine.output.match_id import MATCH_ID, equal_keys, id_leaf, match_ids, plain_values
from sparkcep.kernels.common import layout
from sparkcep.plan.plan import Plan

Ids = dict[tuple[int, str], dict[object, list[int]]]  # by partition and id, then by output, the numbers of current matches


def apart(plan: Plan, matches: pa.Table) -> pa.Table:
    """Makes the ids of all matches distinct. ``matches`` has their output rows from :class:`MatchTables`."""
    name = id_leaf(plan)
    if name is None or not matches.num_rows:
        return matches
    ids = matches.column(name).to_pylist()
    of = list(zip(matches.column(PART).to_pylist(), ids, strict=True))
    number = matches.column(MATCH).to_pylist()
    rows: dict[tuple, dict[int, list[int]]] = {}
    for i, (key, match) in enumerate(zip(of, number, strict=True)):
        rows.setdefault(key, {}).setdefault(match, []).append(i)
    for alike in rows.values():
        if len(alike) > 1:
            emitted = {match: repr(tuple(plain_values(matches.take(pa.array(some)).drop_columns([MATCH]).to_struct_array()))) for match, some in alike.items()}
            for nth, match in enumerate(sorted(alike, key=emitted.__getitem__), 1):
                for i in alike[match]:
                    ids[i] = _numbered(ids[i], nth)
    place = matches.column_names.index(name)
    return matches.set_column(place, matches.schema.field(place), pa.array(ids, pa.string()))


def identified(task: Task, chunk: Chunk, rounds: Iterable[MatchBatch]) -> Iterator[MatchBatch]:
    """Yields all matches of whole partitions, with MATCH_ID() if a measure asks for it.

    Only matches that would share an id need their output rows twice.
    """
    plan = task.plan
    name = id_leaf(plan)
    if name is None:
        yield from rounds
        return
    pieces = list(rounds)
    ids = [match_ids(plan, chunk, found)[MATCH_ID].to_pylist() for found in pieces]
    of = [list(zip(found.events[:, layout.E_PART].tolist(), own, strict=True)) for found, own in zip(pieces, ids, strict=True)]
    counts = Counter(key for some in of for key in some)
    if len(counts) < sum(map(len, ids)):
        tables, where = MatchTables(replace(task)), []  # a copy of the task, since these rows are not emitted
        emitted = []
        for i, (found, some) in enumerate(zip(pieces, of, strict=True)):
            alike = [j for j, key in enumerate(some) if counts[key] > 1]
            where += [(i, j) for j in alike]
            emitted += tables.of(chunk, found.chosen(np.array(alike, dtype=np.int64)))
        matches = apart(plan, pa.concat_tables(emitted))
        for match, id in zip(matches.column(MATCH).to_pylist(), matches.column(name).to_pylist(), strict=True):
            i, j = where[match]
            ids[i][j] = id
    for found, own in zip(pieces, ids, strict=True):
        yield replace(found, by_event=found.by_event | {MATCH_ID: pa.array(own, pa.string())})


def logged(task: Task, chunk: Chunk, found: MatchBatch, held: Ids) -> MatchBatch:
    """Adds MATCH_ID() to changes of matches in their order, if a measure asks for it.

    ``held`` has the current matches, and is updated.
    """
    if id_leaf(task.plan) is None or not len(found.events):
        return found
    names = [leaf.name for leaf in task.plan.leaves if leaf.spec.kind not in (*OF_CHANGES, MATCH_ID)]
    names += [name for name in task.prepared.output_schema.names if name not in dict(task.plan.leaves)]
    found = replace(found, by_event=found.by_event | match_ids(task.plan, chunk, found))
    table = pa.concat_tables(MatchTables(replace(task)).of(chunk, found))  # a copy of the task, since these rows are not emitted
    emitted: list[list[object]] = [[] for _ in range(len(found.events))]
    for match, *row in zip(table.column(MATCH).to_pylist(), *map(equal_keys, table.select(names).columns), strict=True):
        emitted[match].append(tuple(row))
    parts, ids, changes = found.events[:, layout.E_PART].tolist(), found.by_event[MATCH_ID].to_pylist(), found.by_event["change"].to_pylist()
    numbers = [changed(held, (part, id), tuple(of), change) for part, id, of, change in zip(parts, ids, emitted, changes, strict=True)]
    return replace(found, by_event=found.by_event | {MATCH_ID: pa.array(map(_numbered, ids, numbers), pa.string())})


def changed(held: Ids, key: tuple[int, str], emitted: object, change: str) -> int:
    """Returns the number of the match that is inserted or retracted, and updates ``held``.

    Args:
        held: the current matches.
        key: partition and id.
        emitted: the output of the match.
        change: ``insert``, or another text for a retraction.
    """
    there = held.setdefault(key, {})
    own = there.setdefault(emitted, [])
    if change == "insert":
        taken = {number for numbers in there.values() for number in numbers}
        own.append(next(number for number in range(1, len(taken) + 2) if number not in taken))
        return own[-1]
    number = own.pop()
    if not own:
        del there[emitted]
        if not there:
            del held[key]
    return number


def _numbered(id: str, number: int) -> str:
    return id if number == 1 else f"{id}-{number}"
