package org.sparkcep.stream;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.DenseRank;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.WindowExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.sparkcep.catalyst.Replacement;
import scala.jdk.javaapi.CollectionConverters;

/** Lets the ranks of TOP k over a stream pass Spark's checks of the analysed plan: see {@link StreamRanks}. */
public final class StreamRanking extends Rule<LogicalPlan> {
  private static final String RANK = "__rank"; // the rewriter's column

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return !plan.isStreaming() ? plan : (LogicalPlan) plan.transformUp(Replacement.of(
        node -> node instanceof Window window && window.resolved() && StreamMark.isBelow(window) && isRank(window), node -> ranked((Window) node)));
  }

  private static LogicalPlan ranked(Window window) {
    Alias rank = (Alias) window.windowExpressions().head();
    return new StreamRanks(rank.name(), rank.exprId(), window.partitionSpec(), window.orderSpec(), window.child());
  }

  private static boolean isRank(Window window) {
    List<NamedExpression> named = CollectionConverters.asJava(window.windowExpressions());
    return named.size() == 1 && named.get(0) instanceof Alias rank && rank.name().equals(RANK) && rank.child() instanceof WindowExpression function
        && function.windowFunction() instanceof DenseRank;
  }
}
