"""The worked examples of unfinished matches, for clients of Spark Connect."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cases.sql_case_files import Case, read_case_file

_FILE = read_case_file(Path(__file__).resolve().parents[2] / "cases" / "selection" / "unfinished_examples.test")
UNFINISHED = [case for case in _FILE.cases if case.asks_for_rows()]


def worked(spark: Any, cases: Sequence[Case]) -> dict[str, list[str]]:
    """The rows of cases as a session returns them, sorted."""
    for view in _FILE.views:
        spark.sql(view)
    found = {}
    for case in cases:
        frame = spark.sql(case.statements[0])
        frame = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
        rows = frame.selectExpr(*(f"CAST({name} AS STRING)" for name in frame.columns)).collect()
        found[case.name] = sorted(str(tuple(row)) for row in rows)
    return found


def of_file(cases: Sequence[Case]) -> dict[str, list[str]]:
    """The rows of cases as the file has them, sorted."""
    return {case.name: sorted(str(tuple(row)) for row in case.rows) for case in cases}
