package org.sparkcep.stream;

import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.DenseRank;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.WindowExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.Function1;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/** Lets the ranks of TOP k over a stream pass Spark's checks of the analysed plan: see {@link StreamRanks}. */
public final class StreamRanking extends Rule<LogicalPlan> {
  private static final String RANK = "__rank"; // the rewriter's column

  public static final class Builder extends AbstractFunction1<SparkSession, Rule<LogicalPlan>> {
    @Override
    public Rule<LogicalPlan> apply(SparkSession session) {
      return new StreamRanking();
    }
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return !plan.isStreaming() ? plan : (LogicalPlan) plan.transformUp(new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
      @Override
      public boolean isDefinedAt(LogicalPlan node) {
        return node instanceof Window window && window.resolved() && StreamMark.isBelow(window) && isRank(window);
      }

      @Override
      @SuppressWarnings("unchecked")
      public <A extends LogicalPlan, B> B applyOrElse(A node, Function1<A, B> otherwise) {
        if (!isDefinedAt(node)) {
          return otherwise.apply(node);
        }
        Window window = (Window) (LogicalPlan) node;
        Alias rank = (Alias) window.windowExpressions().head();
        return (B) new StreamRanks(rank.name(), rank.exprId(), window.partitionSpec(), window.orderSpec(), window.child());
      }
    });
  }

  private static boolean isRank(Window window) {
    List<NamedExpression> named = CollectionConverters.asJava(window.windowExpressions());
    return named.size() == 1 && named.get(0) instanceof Alias rank && rank.name().equals(RANK) && rank.child() instanceof WindowExpression function
        && function.windowFunction() instanceof DenseRank;
  }
}
