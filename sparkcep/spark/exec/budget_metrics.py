"""Totals of BUDGET checks for a whole query: from the workers to Spark's metrics, and from there to Python.

The package exports ``budget_totals``, and reports use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.accumulators import AccumulatorParam, _deserialize_accumulator

from sparkcep.engine.core.effort import MILLIONTHS, Totals
from sparkcep.spark.connection import is_connect
from sparkcep.spark.exec.physical_plan import nodes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ID = -7101  # the accumulator's id in a worker, as in jvm/budget/BudgetTotals.java
METRICS = ("checks", "checksLeftOut", "rowsWithChecksLeftOut", "matches", "completeMatches", "coverageLost", "blocks", "lateBlocks", "refills", "leastChecks", "greatestChecks")  # in Totals' order


class BudgetTotals(NamedTuple):
    """Totals of the checks of a clause with BUDGET.

    Attributes:
        checks: the checks that were done.
        left_out: the checks that the budget did not allow.
        rows: the rows where checks were left out.
        matches: the matches that were reported.
        complete: the complete matches among them.
        coverage: the mean coverage of ``rows``; 1 if the clause does not ask for COVERAGE().
        blocks: under BUDGET INTERVAL, the finished blocks of 64 matching rows.
        late_blocks: the blocks that took longer than the interval allows although each row had one check.
        refills: how often a partition replaced its history (REFILL).
        least, greatest: the least and the greatest number of checks that a block could use, 0 without a block.
        clock: the clock of BUDGET INTERVAL, "" without an interval.
    """

    checks: int
    left_out: int
    rows: int
    matches: int
    complete: int
    coverage: float
    blocks: int = 0
    late_blocks: int = 0
    refills: int = 0
    least: int = 0
    greatest: int = 0
    clock: str = ""


def budget_totals(frame: DataFrame) -> list[BudgetTotals]:
    """Returns the totals of each clause with BUDGET in a query that ran, in the order of Spark's plan.

    The frame itself must have run: through ``collect`` or ``toPandas``, from Spark's cache, or as an INSERT. ``count`` and
    ``write`` run a query of their own.

    Args:
        frame: a DataFrame of a classic session.

    Returns:
        A :class:`BudgetTotals` for each such clause. All its numbers except ``coverage`` are 0 if the frame did not run.

    Raises:
        TypeError: the session is a Spark Connect session, which gives no access to its plans.

    Example:
        >>> ticks = spark.createDataFrame([(1, "a"), (2, "b"), (3, "b")], "day int, kind string")
        >>> found = sparkcep.match_recognize(
        ...     ticks, order_by="day", pattern="A B", define={"A": "kind = 'a'", "B": "kind = 'b'"}, measures={"n": "COVERAGE()"},
        ...     options="APPROX 0 BUDGET 9 CHECKS EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES WINDOW 3",
        ... )
        >>> rows = found.collect()
        >>> sparkcep.budget_totals(found)[0].left_out
        0
    """
    if is_connect(frame.sparkSession):
        raise TypeError("budget_totals reads the executed plan, which is not available over Spark Connect")
    return totals_of(frame._jdf.queryExecution().executedPlan())


def totals_of(plan: Any) -> list[BudgetTotals]:
    """Returns the totals of each clause with BUDGET in a Java plan that ran."""
    budgets = [(node.metrics(), node.clock()) for _, node in nodes(plan) if node.getClass().getSimpleName() == "MatchBudget"]
    return [_record(Totals(*(found.apply(name).value() for name in METRICS)), clock) for found, clock in budgets]


def _record(totals: Totals, clock: str) -> BudgetTotals:
    coverage = 1 - totals.lost / MILLIONTHS / totals.short if totals.short else 1.0
    return BudgetTotals(
        totals.checks, totals.left_out, totals.short, totals.matches, totals.complete, coverage, totals.blocks, totals.late_blocks, totals.refills, totals.least, totals.greatest, clock,
    )  # fmt: skip


def report(totals: Totals) -> None:
    """Sends the totals of a worker's task to the driver when the task ends."""
    values = totals.values()
    _deserialize_accumulator(_ID, [0] * len(values), _Sums()).add(values)


class _Sums(AccumulatorParam):
    def zero(self, value: list[int]) -> list[int]:
        return [0] * len(value)

    def addInPlace(self, value1: list[int], value2: list[int]) -> list[int]:
        return [a + b for a, b in zip(value1, value2, strict=True)]
