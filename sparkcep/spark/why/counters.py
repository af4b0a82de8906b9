"""Counts over a clause's whole input, and a sample of its partitions.

One job counts. Under SHOW UNFINISHED MATCHES another one counts the matches that the engine
returns. One fetches the sample: whole partitions, those with the smallest hash of their keys.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.clause.printer import ROWS_TEXT, to_sql
from sparkcep.clause.tree import ONE_ROW
from sparkcep.plan.split.conditions import ORDER
from sparkcep.spark.why.casts import casts
from sparkcep.spark.why.partition import Run, joined, row_columns
from sparkcep.spark.why.statement import Input
from sparkcep.sql.rewrite.rewrite import text_of, window_of
from sparkcep.tracing.answers.hints import Totals
from sparkcep.tracing.answers.overall import MOST_COMPARISONS
from sparkcep.tracing.conditions.question import ROW, Question
from sparkcep.tracing.rows.frozen import FrozenRows

MOST_SAMPLED = 100_000  # rows
_SIZE, _HASH = "__size", "__hash"


def count(run: Run, asked: Input, question: Question) -> Totals:
    """Counts the rows and the truths of comparisons, by one job. Finds casts, without a job."""
    plan, window = question.plan, window_of(question.plan, [key.column for key in question.plan.partition])
    texts = {column.name: column.text.replace(ORDER, window) for column in question.columns}
    counted = {c.number: question.values[c.truth].column for c in question.comparisons[:MOST_COMPARISONS] if question.values[c.truth].column}
    keys = {f"__k{i}": text_of(plan, key.column) for i, key in enumerate(plan.partition)}
    order = ", ".join(text_of(plan, item.column) for item in plan.order)
    inner = [f"{text} AS {name}" for name, text in keys.items()] + [f"{texts[name]} AS {name}" for name in dict.fromkeys(counted.values())]
    inner.append(f"{f'lag(`struct`({order}), 1) OVER ({window}) <=> `struct`({order})' if order else 'false'} AS __tied")  # in the window that PREV needs
    each = [f"count(*) AS {_SIZE}", "count_if(__tied) AS __ties"]
    nulls = " OR ".join(f"{name} IS NULL" for name in keys) or "false"
    each.append(f"count_if({nulls}) AS __nulls")
    whole = [f"sum({_SIZE}) AS n", "count(*) AS partitions", "sum(__ties) AS ties", f"count_if({_SIZE} = 1) AS single", "sum(__nulls) AS nulls"]
    for number, column in counted.items():
        each += [f"count_if({column}) AS __t{number}", f"count_if(NOT {column}) AS __f{number}"]
        whole += [f"sum(__t{number}) AS t{number}", f"sum(__f{number}) AS f{number}"]
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    found = run(f"{asked.names}SELECT {', '.join(whole)} FROM (SELECT {', '.join(each)} FROM (SELECT {', '.join(inner)} FROM {asked.source}){group}) WHERE {_SIZE} > 0").collect()[0]
    rows = int(found["n"] or 0)
    truths = {number: (int(found[f"t{number}"] or 0), int(found[f"f{number}"] or 0)) for number in counted}
    return Totals(
        rows, int(found["partitions"] or 0), {number: (true, false, rows - true - false) for number, (true, false) in truths.items()},
        ties=int(found["ties"] or 0), single=int(found["single"] or 0), null_keys=int(found["nulls"] or 0),
        casts=casts(run, asked, question), unfinished=_unfinished(run, asked),
    )


def _unfinished(run: Run, asked: Input) -> tuple[tuple[str, str, int], ...]:
    """How many matches have a MATCH_STATUS() and a variable of the last row, by one job. () without SHOW UNFINISHED MATCHES."""
    if asked.clause.unfinished is None:
        return ()
    lines = to_sql(replace(asked.clause, measures=(), rows=ONE_ROW)).split("\n")
    at = next(i for i, line in enumerate(lines) if line.startswith(f"{ROWS_TEXT[ONE_ROW]} SHOW"))
    measures = "MEASURES MATCH_STATUS() AS __status, coalesce(CLASSIFIER(), '') AS __step"
    clause = "\n".join([*lines[:at], measures, *lines[at:]])
    query = f"SELECT __status, __step, count(*) AS __count FROM {asked.source} MATCH_RECOGNIZE ({clause}) GROUP BY __status, __step"
    return tuple((row["__status"], row["__step"], int(row["__count"])) for row in run(asked.names + query).collect())


def sample(run: Run, asked: Input, question: Question, partitions: int, rows: int) -> tuple[FrozenRows, ...]:
    """Fetches whole partitions, by one job: those with the smallest hash of their keys.

    Args:
        run: runs a statement.
        asked: the clause and its input.
        question: the clause taken apart.
        partitions: the most partitions.
        rows: the most rows of each; of a longer partition, its first rows. One more is fetched, which shows that there are more.
    """
    plan = question.plan
    keys = [text_of(plan, key.column) for key in plan.partition]
    hashed = f"xxhash64({', '.join(keys)})" if keys else "0L"
    computed = [*row_columns(question, asked.source), f"{hashed} AS {_HASH}"]
    source = asked.source
    if keys:
        source = joined(source, keys, f"GROUP BY {', '.join(keys)} ORDER BY {hashed} LIMIT {partitions}")
    order = ", ".join([_HASH, *(key.column for key in plan.partition), ROW])
    inner = f"SELECT {', '.join(computed)} FROM {source}"
    found = run(f"{asked.names}SELECT * FROM ({inner}) WHERE {ROW} <= {rows} ORDER BY {order} LIMIT {MOST_SAMPLED}").toArrow().combine_chunks()
    table = found.drop_columns([_HASH])
    table = table.set_column(table.column_names.index(ROW), ROW, table[ROW].cast(pa.int64()))
    starts = pc.indices_nonzero(pc.equal(table[ROW], 0)).to_pylist()
    sizes = [end - start for start, end in zip(starts, [*starts[1:], table.num_rows], strict=True)]
    if table.num_rows == MOST_SAMPLED:
        sizes[-1] += 1  # the last partition may have more rows
    return tuple(FrozenRows(question, table.slice(start, min(size, rows)), size=size) for start, size in zip(starts, sizes, strict=True))
