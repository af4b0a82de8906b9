"""The corpus of wrong statements, tests/cases/errors, with the whole message that the writer of each gets: and the page that shows
it, docs/errors.md.

    python -m tests.cases.error_messages --write     asks for all messages again, and writes them into the cases and the page

Look at the difference before it is committed: each message is a promise. ``test_sql_cases.py`` holds the cases,
``test_error_messages.py`` the page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sparkcep
from sparkcep.errors import ClauseError
from sparkcep.spark.errors.exceptions import shown
from tests.cases.sql_case_files import Case, CaseFile, read_case_file

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "tests" / "cases" / "errors").glob("*.test"))
PAGE = ROOT / "docs" / "errors.md"
_HEAD = """---
search:
  exclude: true
---

# Wrong statements and their messages

{count} statements that are wrong, each with the whole message that its writer gets: in `spark.sql`, data frames, the command line and cells alike. The spark-sql shell and JDBC say the same of all that is
found before a statement runs; what the data make wrong comes there in Spark's own form, with the same class and place.
The page is made from the tests (`python -m tests.cases.error_messages --write`), so the messages are those of this version. All error classes are in the [reference](reference_settings.md#errors).
A statement that is right and returns too little is explained by [why](no_match.md).
"""


def message(spark: Any, case: Case) -> str:
    """What is said of the case's statement: before a job, or by the job. ``spark`` is asked only where the clause's own reader
    finds nothing."""
    statement = case.statements[-1]
    if not case.settings and case.params is None:
        try:
            sparkcep.rewrite(statement)
        except ClauseError as error:
            return error.over(statement)
    try:
        frame = spark.sql(statement, *([] if case.params is None else [case.params]))
    except Exception as error:
        return plain(str(error))
    try:
        frame.collect()
    except Exception as error:
        return plain(shown(error, statement))
    raise AssertionError(f"nothing is wrong with {case.name}: {statement}")


def plain(text: str) -> str:
    """A message without what is of this run only."""
    return "\n".join(line.rstrip() for line in text.strip().split("\n"))


def page(files: list[CaseFile]) -> str:
    """The page of the documentation."""
    count = sum(len(wrong(file)) for file in files)
    parts = [_HEAD.format(count=count)]
    for file in files:
        heading, *about = _comments(file.path)
        parts.append(f"## {heading}\n" + "".join(f"\n{line}" for line in about) + ("\n" if about else ""))
        parts += [f"### {case.name.replace('_', ' ').capitalize()}\n\n```sql\n{case.statements[-1]}\n```\n\n```text\n{case.error.whole}\n```\n" for case in wrong(file)]
    return "\n".join(parts)


def wrong(file: CaseFile) -> list[Case]:
    """The cases of a file that have a whole message."""
    return [case for case in file.cases if case.error is not None and case.error.whole is not None]


def _comments(path: Path) -> list[str]:
    """The comment that a file begins with, its first line without the full stop."""
    lines = [line[1:].strip() for line in re.match(r"(?:#.*\n)+", path.read_text(encoding="utf-8"))[0].splitlines()]
    return [lines[0].rstrip("."), *lines[1:]]


def written(path: Path, spark: Any) -> Iterator[str]:
    """The lines of a file of cases, with the messages that its statements get now."""
    file = read_case_file(path)
    for stream in file.streams:
        stream.define(spark)
    for view in file.views:
        spark.sql(view)
    cases = {case.line: case for case in file.cases}
    case: Case | None = None
    skipping = False
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        case = cases.get(number, case)
        if skipping and line.strip():
            continue
        skipping = False
        yield line
        if line.rstrip() == "----" and case is not None and case.error is not None:
            skipping = True
            yield from _expected(spark, case)


def _expected(spark: Any, case: Case) -> Iterator[str]:
    assert case.error is not None
    before = {key: spark.conf.get(key, None) for key in case.settings}
    for key, value in case.settings.items():
        spark.conf.set(key, value)
    try:
        yield "error" if case.error.error_class is not None else "runtime error"
        yield from (f"> {line}".rstrip() for line in message(spark, case).split("\n"))
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def _main() -> None:
    from pyspark.sql import SparkSession

    if sys.argv[1:] != ["--write"]:
        print(__doc__)
        return
    spark = sparkcep.enable(SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2").getOrCreate())
    spark.sparkContext.setLogLevel("OFF")
    for path in FILES:
        path.write_text("\n".join(written(path, spark)), encoding="utf-8")
    PAGE.write_text(page([read_case_file(path) for path in FILES]), encoding="utf-8")


if __name__ == "__main__":
    _main()
