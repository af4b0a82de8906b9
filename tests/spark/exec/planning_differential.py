"""Reads statements in many forms under many settings, and tells where rows differ from those of the whole statement.

``python -m tests.spark.exec.planning_differential [GROUP...]`` reads all statements, or those of some groups
(``values/types``, ``examples``), in every form.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pyspark.errors import PySparkException

from sparkcep.errors import ClauseError
from sparkcep.settings import Settings
from tests.spark.compared import rewritten
from tests.spark.configured import configured
from tests.spark.exec.planning_forms import Column, Form, Rows, all_forms, columns_of, few_forms, keys, picked
from tests.spark.exec.planning_statements import PINNED, Group, Statement, groups, whole
from tests.support.views import drop_views, temporary_views

VIEW = "planning_form"
BRANCHES = 24  # of one query: Spark's time for a plan grows faster than the plan
FAILURES = 3  # forms that raise an error, of one statement under one setting, before the others are left out
PLAIN = "plain"
NAN = "= CAST('nan' AS"
CACHED = "cached"
OPERATOR = "Spark's operator"
CACHED_INPUT, CHECKPOINTED = "cached input", "checkpointed input"  # of the views of the group
TEXT = "as text"  # the statement itself stands in the query, and no union is around it
# setting by setting, beside what every Spark session has
SETTINGS: dict[str, dict[str, str]] = {
    PLAIN: {},
    TEXT: {},
    CACHED: {},
    CACHED_INPUT: {},
    CHECKPOINTED: {},
    OPERATOR: {"sparkcep.mapInArrow": "false"},
    "no prefilter": {"sparkcep.prefilter": "false"},
    "second read": {"sparkcep.prefilter": "always"},
    "slices": {"sparkcep.slices": "always"},
    "interpreted": {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
    "not adaptive": {"spark.sql.adaptive.enabled": "false"},
    "rows one by one": {"sparkcep.exchange": "rows"},
    "small blocks": {"sparkcep.exchange": "columns", "sparkcep.exchange.taskBytes": "1", "sparkcep.exchange.workerBytes": "1"},
    "1 partition": {"spark.sql.shuffle.partitions": "1"},
    "200 partitions": {"spark.sql.shuffle.partitions": "200"},
}
JAVA = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m"}  # code of so many plans is hardly run twice
# settings that change nothing where the rewritten text stays as it is
REWRITTEN = {"second read": {"prefilter": "always"}, "slices": {"slices": "always"}}

# The reference: Spark's own operator runs the engine over all columns, and nothing is dropped or cut.
REFERENCE = {"sparkcep.mapInArrow": "false", "sparkcep.prefilter": "false", "sparkcep.slices": "false"}

# Rows that tie in ORDER BY come in arbitrary order, so these statements have several right answers.
UNSTEADY: dict[str, str] = {}


@dataclass
class Report:
    """How many (statement, form, setting) were compared, and what is told of them."""

    compared: int = 0
    statements: int = 0
    differences: list[str] = field(default_factory=list)
    unsteady: list[str] = field(default_factory=list)
    refused: int = 0  # statements that Spark's own operator cannot run
    unchanged: Counter = field(default_factory=Counter)  # statements by setting whose text stays as it is
    fewer: int = 0  # columns that were read with less output of the engine than all of them
    alone: int = 0  # columns that were read by themselves in a query without a union

    def add(self, other: Report) -> None:
        self.compared += other.compared
        self.statements += other.statements
        self.differences += other.differences
        self.unsteady += other.unsteady
        self.refused += other.refused
        self.unchanged += other.unchanged
        self.fewer += other.fewer
        self.alone += other.alone

    def __str__(self) -> str:
        unchanged = ", ".join(f"{n} under {name!r}" for name, n in sorted(self.unchanged.items()))
        return (
            f"{self.statements} statements, {self.compared} forms under some setting, {len(self.differences)} differences; "
            f"{len(self.unsteady)} statements without one answer; text stays as it is: {unchanged or 'none'}; "
            f"{self.refused} that Spark's own operator cannot run; "
            f"{self.fewer} of {self.alone} columns alone came with less output of the engine"
        )


@contextmanager
def stored(spark, setting: str) -> Iterator[list[str]]:
    """The views of a group, cached (lazily) or checkpointed if ``setting`` says so, and then as they were. Yields their names."""
    views = temporary_views(spark) if setting in (CACHED_INPUT, CHECKPOINTED) else []
    before = {name: spark.table(name) for name in views}
    for name, frame in before.items():
        if setting == CACHED_INPUT:
            spark.catalog.cacheTable(name)
        else:
            frame.localCheckpoint().createOrReplaceTempView(name)
    try:
        yield views
    finally:
        for name, frame in before.items():
            if setting == CACHED_INPUT:
                spark.catalog.uncacheTable(name)
            else:
                frame.createOrReplaceTempView(name)


def prepare(spark, group: Group) -> None:
    """The views of a group, and no others."""
    drop_views(spark)
    group.load(spark)


def check(spark, statement: Statement, settings: Sequence[str], forms: Callable[..., Iterator[Form]] = all_forms) -> Report:
    """Reads a statement of a prepared group under some of SETTINGS: in ``forms`` under the plain ones, in few under the others, and
    by itself."""
    with configured(spark, statement.settings):
        for before in statement.before:
            spark.sql(before)
        return _Check(spark, statement).run(settings, forms)


class _Check:
    def __init__(self, spark, statement: Statement) -> None:
        self.spark = spark
        self.statement = statement
        self.report = Report(statements=1)
        self.apart = False  # whether only the extension's operator runs it
        self.failed: Counter = Counter()  # forms that raised an error, by setting

    def run(self, settings: Sequence[str], forms: Callable[..., Iterator[Form]]) -> Report:
        try:
            columns = columns_of(self._frame().schema)
            self._choose_reference()
            reference, *others = (self._reference(columns, partitions) for partitions in ("2", "1", "5"))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told, and fails the test
            self._differs("reference", "SELECT *", error)
            return self.report
        if any(Counter(keys(other)) != Counter(keys(reference)) for other in others):
            self.report.unsteady.append(self.statement.name)
            return self.report
        for name in settings:
            if name in REWRITTEN and self._text(**REWRITTEN[name]) == self._text():
                self.report.unchanged[name] += 1
                continue
            if name == OPERATOR and self.apart:
                self.report.refused += 1
                continue
            number = self.statement.number + 7 * list(SETTINGS).index(name)
            chosen = list((forms if name == PLAIN else few_forms)(columns, reference, number))
            if name in (CACHED, CACHED_INPUT):  # of any cached table Spark passes over what has NaN, whose statistics have no greatest value
                chosen = [form for form in chosen if NAN not in form.query]
            with configured(self.spark, SETTINGS[name]), stored(self.spark, name) as views:
                if name in (CACHED_INPUT, CHECKPOINTED) and not views:
                    self.report.unchanged[name] += 1
                elif name == TEXT:
                    self._as_text(columns, reference, number)
                else:
                    self._in_unions(name, columns, reference, chosen)
        return self.report

    def _choose_reference(self) -> None:
        """Spark's operator cannot send two columns of one name, which the extension's can."""
        try:
            with configured(self.spark, REFERENCE):
                self._frame()
        except (ClauseError, PySparkException) as error:  # the same error, with or without its place in the statement
            if "[SPARKCEP.COLUMN_NAME]" not in str(error):
                raise
            self.apart = True

    def _frame(self):
        """The statement, its columns named c0, c1 and so on: names may repeat."""
        frame = self.spark.sql(self.statement.text, *self.statement.arguments)
        return frame.toDF(*[f"c{i}" for i in range(len(frame.columns))])

    def _reference(self, columns: list[Column], partitions: str) -> Rows:
        """The rows of the statement as Python has them."""
        chosen = {k: v for k, v in REFERENCE.items() if not (self.apart and k == "sparkcep.mapInArrow")}
        with configured(self.spark, {**chosen, "spark.sql.shuffle.partitions": partitions}):
            return [tuple(row) for row in self._frame().selectExpr(*[c.shown for c in columns]).collect()]

    def _text(self, **changed: str) -> str:
        """The statement as Spark sees it, under the session's settings but for the changed ones."""
        settings = replace(Settings.read(lambda key: self.spark.conf.get(key, None)), **changed)
        return rewritten(self.spark, self.statement.text, settings)

    def _in_unions(self, name: str, columns: list[Column], reference: Rows, forms: list[Form]) -> None:
        """Many forms in one query: rows of each carry its number; columns that it does not give are NULL."""
        try:
            self._frame().createOrReplaceTempView(VIEW)
            if name == CACHED:
                self.spark.catalog.cacheTable(VIEW)
            for start in range(0, len(forms), BRANCHES):
                self._compare(name, columns, reference, forms[start : start + BRANCHES])
        except Exception as error:  # noqa: BLE001 - told
            self._differs(name, "the view", error)
        finally:
            if name == CACHED:
                self.spark.catalog.uncacheTable(VIEW)
            self.spark.catalog.dropTempView(VIEW)

    def _compare(self, name: str, columns: list[Column], reference: Rows, forms: list[Form]) -> None:
        """Compares forms in one query; where it fails, the failing ones are sought among them, up to some."""
        query = " UNION ALL ".join(_branch(i, form, columns, VIEW) for i, form in enumerate(forms))
        try:
            rows = self.spark.sql(query).collect()
        except Exception as error:  # noqa: BLE001 - told, of the form that it is of
            if len(forms) == 1:
                self.failed[name] += 1
                self.report.compared += 1
                self._differs(name, forms[0].name, error)
                return
            middle = 1 if len(forms) < 4 else len(forms) // 2
            for part in (forms[:middle], forms[middle:]):
                if self.failed[name] < FAILURES:
                    self._compare(name, columns, reference, part)
                else:
                    self._differs(name, f"{len(part)} further forms were not tried")
            return
        found: dict[int, list] = {i: [] for i in range(len(forms))}
        for row in rows:
            found[row[0]].append((row[1], tuple(row[2 + i] for i in forms[row[0]].columns)))
        for i, form in enumerate(forms):
            self.report.compared += 1
            if told := form.differs(reference, found[i]):
                self._differs(name, told)

    def _as_text(self, columns: list[Column], reference: Rows, number: int) -> None:
        """One column in a query of its own, in which the statement is a subquery."""
        form = picked(f"{columns[number % len(columns)].name} in a query of its own", [columns[number % len(columns)]])
        table = f"(\n{self.statement.text}\n) AS form({', '.join(c.name for c in columns)})"
        shown = ", ".join(columns[i].shown for i in form.columns)
        self.report.compared += 1
        try:
            frame = self.spark.sql(f"SELECT {shown} FROM ({form.query.replace('{t}', table)})", *self.statement.arguments)
            rows = [(None, tuple(row)) for row in frame.collect()]
        except Exception as error:  # noqa: BLE001 - told
            self._differs(TEXT, form.name, error)
            return
        if told := form.differs(reference, rows):
            self._differs(TEXT, told)
        if len(columns) > 1:
            self.report.alone += 1
            self.report.fewer += engine_outputs(frame) < engine_outputs(self._frame())

    def _differs(self, setting: str, told: str, error: Exception | None = None) -> None:
        if error is not None:
            told += f": {type(error).__name__}: {_first_lines(error)}"
        self.report.differences.append(f"{self.statement.name} [{setting}] {told}")


def _first_lines(error: Exception) -> str:
    """An error in one line, with what the worker or Java says it comes from."""
    lines = [line.strip()[:300] for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines[1:] if line.startswith("Caused by") or line.split(":")[0].endswith("Error")]
    return " ... ".join([*lines[:1], *(causes or lines[1:])[:1]])


def _branch(number: int, form: Form, columns: list[Column], table: str) -> str:
    given = {i: columns[i].shown for i in form.columns}
    values = [f"{given[c.index]} AS c{c.index}" if c.index in given else f"NULL AS c{c.index}" for c in columns]
    count = "n" if form.counted else "CAST(NULL AS BIGINT) AS n"
    return f"SELECT {number} AS form, {count}, {', '.join(values)} FROM ({form.query.replace('{t}', table)})"


def engine_outputs(frame) -> int:
    """How many columns the engine's operators give in a query's plan."""
    todo, found = [frame._jdf.queryExecution().executedPlan()], 0
    while todo:
        node = todo.pop()
        name = node.getClass().getSimpleName()
        if name == "AdaptiveSparkPlanExec":
            todo.append(node.inputPlan())
        else:
            if name in ("MapInArrowExec", "SearchBlocksExec", "ArrowEvalPythonUDTFExec"):
                found += node.output().size()
            todo += [node.children().apply(i) for i in range(node.children().size())]
    return found


def sampled(part: int = 400) -> list[tuple[Group, list[Statement]]]:
    """One statement in so many, and all that are pinned, in pieces of at most two; the same ones in each run."""
    chosen = ((g, [whole(s) for s in g.written if g.name == PINNED or s.number % part == 0]) for g in groups())
    return [(g, some[i : i + 2]) for g, some in chosen for i in range(0, len(some), 2)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all; the exit code is 1 where rows differ."""
    from sparkcep.spark.session.local import start_spark

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    parser.add_argument("--part", type=int, default=1, help="one statement in so many")
    options = parser.parse_args(arguments)
    settings = {"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF", **JAVA}
    spark, total, began = start_spark("planning", settings), Report(), time.perf_counter()
    for group in groups():
        if options.groups and group.name not in options.groups:
            continue
        some = [s for s in group.statements if s.number % options.part == 0]
        if some:
            prepare(spark, group)
        for statement in some:
            report = check(spark, statement, list(SETTINGS))
            for line in [*report.differences, *(f"{name}: no one answer" for name in report.unsteady)]:
                print(line, flush=True)
            total.add(report)
        print(f"{time.perf_counter() - began:7.0f} s  {group.name}: {total}", flush=True)
    spark.stop()
    return 1 if total.differences else 0


if __name__ == "__main__":
    sys.exit(main())
