"""sparkcep.why over random clauses with SHOW UNFINISHED MATCHES: the oracle's rows, and the farthest runs of the trace."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
import sqlglot

from sparkcep.clause.parser import parse_clause
from sparkcep.settings import DEFAULT
from sparkcep.spark.why.partition import row_columns
from sparkcep.tracing.answers.explain import IN_FULL, Asked, explain
from sparkcep.tracing.conditions.question import ROW, Question, question_of
from sparkcep.tracing.rows.frozen import FrozenRows
from sparkcep.tracing.rows.unfinished import unfinished_matches
from sparkcep.tracing.rows.verify import compared
from sparkcep.tracing.search.trace import Trace
from tests.cases.in_process import Database
from tests.oracle import measures, pattern
from tests.property.random_cases import COLUMNS
from tests.property.unfinished.unfinished_cases import random_case
from tests.selection import first
from tests.support.caught import plainly

CASES = 12
SETTINGS = replace(DEFAULT, prefilter=False, slices=False)  # as sparkcep.why has them


def frozen(question: Question, rows: list[dict]) -> FrozenRows:
    """The rows of a partition. DuckDB computes what Spark would compute."""
    database = Database()
    try:
        names = [column.split()[0] for column in COLUMNS.split(", ")]
        database.insert("t", COLUMNS, [{name: row.get(name, 0) for name in names} for row in rows])
        query = plainly(f"SELECT {', '.join(row_columns(question, 't'))} FROM t ORDER BY {ROW}")
        table = database.connection.sql(database.translated(sqlglot.parse_one(query, read="databricks"), [])).to_arrow_table().combine_chunks()
    finally:
        database.close()
    return FrozenRows(question, table.set_column(table.column_names.index(ROW), ROW, table[ROW].cast(pa.int64())))


@pytest.mark.parametrize("seed", first(range(120), 1, wider=2))
def test_runs_are_those_of_the_oracle_and_of_the_trace(seed):
    counts: Counter = Counter()
    for i in range(CASES):
        case = random_case(random.Random(f"why unfinished {seed} {i}"), partitions=1, mode=measures.ONE_ROW)
        rows = case.partitions.get(0)
        if not rows or case.failing:
            continue
        of = frozen(question_of(parse_clause(case.text), SETTINGS), rows)
        found, trace = unfinished_matches(of), Trace(of.pattern(), of)
        assert compared(trace, of.matches()) == [], case.text
        reported = sorted((run.start, run.status, run.ended_at, len(run.rows), list(run.expected)) for run in found.values() if run.reported)
        wanted = sorted((row["m_first"], row["st"], row["ended"], row["m_count"], list(row["missing"])) for row in case.expected[0] if row["st"] != "MATCHED")
        assert reported == wanted, f"{case.text}\n{rows}"
        counts["reported"] += len(reported)
        negated = pattern.contains(case.query.pattern, ("neg",))
        for start, search in trace.searches.items():
            run, ended = found.get(start), search.farthest() if search.match is None and not search.effort else None
            if ended is None or run is None:
                assert ended is None or not ended.rows or negated or of.question.numbered, f"{case.text}\n{rows}\n{start}"
                continue
            equal = (run.rows, run.variables) == (ended.rows, ended.variables)
            assert equal or negated or run.status == "OPEN", f"{case.text}\n{rows}\n{run} {ended}"
            counts["equal" if equal else "other"] += 1
        why = explain(of, Asked(tuple(range(min(IN_FULL, len(rows))))))
        assert why.verified, f"{case.text}\n{rows}\n{why}"
    assert counts["reported"] > CASES // 3 and counts["equal"] > CASES // 3, counts
