package org.sparkcep.budget;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.SparkPlan;
import org.sparkcep.catalyst.Passing;
import scala.collection.immutable.IndexedSeq;

/** Is above the operator of a clause with BUDGET INTERVAL over a stream, and marks its rows as not repeatable. */
public final class MatchUnrepeatable extends Passing {
  private static final long serialVersionUID = 1L;

  public MatchUnrepeatable(SparkPlan child) {
    super(child);
  }

  /** Returns the operator, below the mark if {@code clock}, the clock of BUDGET INTERVAL or "", is a real clock. */
  public static SparkPlan over(SparkPlan operator, String clock) {
    return UnrepeatableRows.isReal(clock) ? new MatchUnrepeatable(operator) : operator;
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return new UnrepeatableRows(super.doExecute());
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new MatchUnrepeatable(children.apply(0));
  }

  @Override
  public Object[] members() {
    return new Object[] {child};
  }
}
