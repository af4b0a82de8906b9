package org.sparkcep.budget;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.sparkcep.catalyst.Passing;
import org.sparkcep.catalyst.Scala;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Map;

/** Is above the operator of a clause with BUDGET and has the totals of its checks as metrics. Rows pass unchanged. */
public final class MatchBudget extends Passing {
  private static final long serialVersionUID = 1L;
  private final transient BudgetTotals totals;
  private final String clock;

  /** {@code clock} is the clock of BUDGET INTERVAL, or "". */
  public MatchBudget(BudgetTotals totals, String clock, SparkPlan child) {
    super(child);
    this.totals = totals;
    this.clock = clock;
  }

  public String clock() {
    return clock;
  }

  @Override
  public Map<String, SQLMetric> metrics() {
    return Scala.map(totals.metrics());
  }

  /**
   * Spark calls this first in each execution. For a second execution of the same plan it does not call {@link #doExecute} again.
   */
  @Override
  public void resetMetrics() {
    totals.runsIn(execution());
    super.resetMetrics();
  }

  @Override
  public RDD<InternalRow> doExecute() {
    totals.runsIn(execution());
    RDD<InternalRow> rows = super.doExecute();
    return UnrepeatableRows.isReal(clock) ? new UnrepeatableRows(rows) : rows;
  }

  private String execution() {
    return sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new MatchBudget(totals, clock, children.apply(0));
  }

  @Override
  public Object[] members() {
    return new Object[] {totals, clock, child};
  }
}
