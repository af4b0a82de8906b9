package org.sparkcep.stream;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.DenseRank;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Lag;
import org.apache.spark.sql.catalyst.expressions.Lead;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.WindowExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.sparkcep.catalyst.Replacement;
import org.sparkcep.catalyst.Scala;
import org.sparkcep.stream.StreamWindow.Column;
import org.sparkcep.stream.StreamWindow.Function;
import scala.jdk.javaapi.CollectionConverters;

/** Lets the window functions of TOP k over a stream pass Spark's checks of the analysed plan: see {@link StreamWindow}. */
public final class StreamWindows extends Rule<LogicalPlan> {
  // the rewriter's columns
  private static final String RANK = "__rank";
  private static final String BEFORE = "__window_before";
  private static final String AFTER = "__window_after";

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return !plan.isStreaming() ? plan : (LogicalPlan) plan.transformUp(Replacement.of(
        node -> node instanceof Window window && window.resolved() && StreamMark.isBelow(window) && isOurs(window), node -> replaced((Window) node)));
  }

  private static LogicalPlan replaced(Window window) {
    List<Column> columns = new ArrayList<>();
    List<Expression> values = new ArrayList<>();
    for (NamedExpression named : CollectionConverters.asJava(window.windowExpressions())) {
      columns.add(new Column(function(named), named.name(), named.exprId()));
      values.add(value(named));
    }
    return new StreamWindow(columns, Scala.seq(values), window.partitionSpec(), window.orderSpec(), window.child());
  }

  private static boolean isOurs(Window window) {
    return CollectionConverters.asJava(window.windowExpressions()).stream().allMatch(named -> function(named) != null);
  }

  /** Returns the function of a column of the rewriter's, null for any other column. */
  private static Function function(NamedExpression named) {
    if (!(named instanceof Alias column && column.child() instanceof WindowExpression over)) {
      return null;
    }
    Expression function = over.windowFunction();
    return switch (column.name()) {
      case RANK -> function instanceof DenseRank ? Function.RANK : null;
      case BEFORE -> function instanceof Lag ? Function.LAG : null;
      case AFTER -> function instanceof Lead ? Function.LEAD : null;
      default -> null;
    };
  }

  /** Returns what lag and lead read, and the ordering expression of the rank. */
  private static Expression value(NamedExpression named) {
    return ((WindowExpression) ((Alias) named).child()).windowFunction().children().head();
  }
}
