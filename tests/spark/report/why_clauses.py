"""Random clauses that sparkcep.why answers over Spark's own columns, against brute force, and changes that Spark makes itself.

    python -m tests.spark.report.why_clauses --cases 20000 --seed 1
    python -m tests.spark.report.why_clauses --changes 300 --culprits 100 --seed 1

The first compares matches, farthest runs, conditions, sides, changes and decisions as tests/property/tracing/why_cases.py does.
Spark computes the columns of many clauses in one job. The second writes a change that an answer names into the statement: CASE
WHEN for one row, TRUE or FALSE for all rows. Spark runs the statement, which must give the stated match, or the stated number of
matches.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.clause.tokens import Span
from sparkcep.errors import MatchRuntimeError
from sparkcep.settings import DEFAULT
from sparkcep.spark.why.partition import row_columns
from sparkcep.tracing.answers.change import one_change
from sparkcep.tracing.answers.hints import Totals
from sparkcep.tracing.answers.overall import overall
from sparkcep.tracing.conditions.question import ROW
from sparkcep.tracing.rows.frozen import FrozenRows
from sparkcep.tracing.search.trace import Effort, SkipTarget, Trace
from tests.oracle import cases, expr
from tests.property.tracing.why_cases import WINDOWS, Case

BATCH = 100  # clauses of one job
STATEMENTS = 40  # of one job
TABLE = "why_rows"


def random_cases(rng: random.Random, count: int, counts: Counter) -> list[Case]:
    """Random clauses, each with rows of its own."""
    found = []
    for number in range(count):
        rows = [row | {"p": number} for row in expr.random_rows(rng, rng.choice([1, 3, 5, 7, 9]))]
        found.append(Case(cases.random_clause(rng), rows, rng.choice(WINDOWS), counts, by_sqlite=False))
    return found


def freeze(spark, found: Sequence[Case]) -> None:
    """Gives each case the columns of its question, computed by one Spark job over the rows of all cases."""
    rows = [[row[name] for name in ("p", "id", "v", "w", "s")] for case in found for row in case.rows]
    spark.createDataFrame(rows, "p int, id int, v int, w int, s string").createOrReplaceTempView(TABLE)
    wanted = [dict(reversed(text.rsplit(" AS ", 1)) for text in row_columns(case.question, TABLE)) for case in found]
    texts = {text: f"u{i}" for i, text in enumerate(dict.fromkeys(text for columns in wanted for text in columns.values()))}
    table = spark.sql(f"SELECT p AS __case, {', '.join(f'{text} AS {name}' for text, name in texts.items())} FROM {TABLE}").toArrow()
    for number, (case, columns) in enumerate(zip(found, wanted, strict=True)):
        own = table.filter(pc.equal(table["__case"], number)).select([texts[text] for text in columns.values()]).rename_columns(list(columns))
        own = own.take(pc.sort_indices(own[ROW])).combine_chunks()
        case.freeze(FrozenRows(case.question, own.set_column(own.column_names.index(ROW), ROW, own[ROW].cast(pa.int64()))))


def compared(spark, seed: int, count: int) -> Counter:
    """Checks that many random clauses. Returns what was compared."""
    rng, counts = random.Random(seed), Counter()
    for first in range(0, count, BATCH):
        found = random_cases(rng, min(BATCH, count - first), counts)
        freeze(spark, found)
        for case in found:
            counts["clauses"] += 1
            try:
                counts["too large"] += not case.check()
            except Effort:
                counts["too large"] += 1
            except AssertionError as error:
                raise AssertionError(f"{case.text}\n{case.rows}\n{error}") from error
    return counts


# -- changes that Spark makes -----------------------------------------------------------------------------------------------


def changed_statements(case: Case, number: int) -> Iterator[tuple[str, str, object]]:
    """Statements with a change that an answer names: "change" or "culprit", the query, and what it must return."""
    question, rows = case.question, case.frozen
    if question.numbered:  # in the changed statement matches have other numbers
        return
    try:
        trace = Trace(case.pattern, rows)
        totals = Totals(rows.count, 1)
        culprits = overall([rows], totals, DEFAULT, words={}).culprits if len(case.rows) > 3 else ()
        for search in trace.searches.values():
            ended = search.farthest() if search.match is None else None
            change = one_change(rows, case.pattern, search, ended) if ended is not None else None
            if change is not None and change.match.variables:
                assert change.verified
                comparison = question.comparisons[change.comparison]
                at = f"CASE WHEN id = {case.rows[change.row]['id']} THEN {change.truth} ELSE ({comparison.text}) END"
                labels = "-".join(case.named(change.match.variables))
                yield "change", statement(case, number, comparison.expr.span, at, change.match.start), labels
                break
    except (SkipTarget, MatchRuntimeError, Effort):
        return
    for text, _, matches in culprits[:1]:
        (comparison, *others) = [one for one in question.comparisons if one.text == text]
        if not others:
            wanted = next((truth for truth in (True, False) if len(matches_if(case, comparison.number, truth)) == matches), None)
            assert wanted is not None
            yield "culprit", statement(case, number, comparison.expr.span, str(wanted), None), matches


def matches_if(case: Case, number: int, truth: bool) -> list:
    """The matches if a comparison always has a truth; none if AFTER MATCH SKIP cannot resume."""
    try:
        return Trace(case.pattern, case.frozen, {(number, None): truth}).matches
    except SkipTarget:
        return []


def statement(case: Case, number: int, span: Span, text: str, start: int | None) -> str:
    """The query with a comparison replaced. It returns the number of matches, or the variables of one match."""
    clause = case.text[: span.start] + text + case.text[span.end :]
    measures = clause.partition("MEASURES ")[2].partition("\n")[0]
    clause = clause.replace(measures, "FIRST(id) AS f, array_join(array_agg(CLASSIFIER()), '-') AS labels", 1)
    clause = "\n".join("ONE ROW PER MATCH" if "PER MATCH" in line else line for line in clause.split("\n"))
    if start is None:
        return f"SELECT CAST(count(*) AS STRING) AS found FROM (SELECT * FROM {TABLE} WHERE p = {number}) MATCH_RECOGNIZE ({clause})"
    clause = "\n".join("AFTER MATCH SKIP TO NEXT ROW" if line.startswith("AFTER MATCH") else line for line in clause.split("\n"))
    return f"SELECT max(labels) AS found FROM (SELECT * FROM {TABLE} WHERE p = {number}) MATCH_RECOGNIZE ({clause}) WHERE f = {case.rows[start]['id']}"


def run_by_spark(spark, seed: int, wanted: dict[str, int]) -> Counter:
    """Runs statements with changes until that many of each kind ran. Returns how many; raises AssertionError if one differs."""
    rng, counts = random.Random(seed), Counter()
    while any(counts[kind] < count for kind, count in wanted.items()):
        found = random_cases(rng, BATCH, Counter())
        freeze(spark, found)
        asked = []
        for number, case in enumerate(found):
            for kind, query, answer in changed_statements(case, number):
                if counts[kind] < wanted.get(kind, 0):
                    counts[kind] += 1
                    asked.append((query, str(answer)))
        for first in range(0, len(asked), STATEMENTS):
            some = asked[first : first + STATEMENTS]
            union = " UNION ALL ".join(f"SELECT {i} AS n, found FROM ({query})" for i, (query, _) in enumerate(some))
            answers = {row.n: row.found for row in spark.sql(union).collect()}
            for i, (query, answer) in enumerate(some):
                assert answers[i] == answer, (query, answer, answers[i])
    return counts


def main() -> None:
    from pyspark.sql import SparkSession

    import sparkcep

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("cases", 0), ("changes", 0), ("culprits", 0), ("seed", 1), ("seconds", 10**6)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1")
    spark = sparkcep.enable(builder.getOrCreate(), warm=False)
    begin, totals, seed = time.monotonic(), Counter(), given.seed
    try:
        while totals["clauses"] < given.cases and time.monotonic() - begin < given.seconds:
            totals += compared(spark, seed, min(BATCH, given.cases - totals["clauses"]))
            seed += 1
            shown = ", ".join(f"{count:,} {what}" for what, count in totals.items())
            print(f"seeds {given.seed} to {seed - 1}, {time.monotonic() - begin:.0f} s: {shown}; 0 differ", flush=True)
        wanted, ran = {"change": given.changes, "culprit": given.culprits}, Counter()
        while any(ran[kind] < count for kind, count in wanted.items()) and time.monotonic() - begin < given.seconds:
            part = {kind: min(count - ran[kind], STATEMENTS // 2) for kind, count in wanted.items()}
            ran += run_by_spark(spark, seed, part)
            seed += 1
            print(f"seeds {given.seed} to {seed - 1}, {time.monotonic() - begin:.0f} s: {dict(ran)}; all as stated", flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
