package org.sparkcep.stream;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.DenseRank;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Lag;
import org.apache.spark.sql.catalyst.expressions.Lead;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.WindowExpression;
import org.apache.spark.sql.catalyst.expressions.WindowFunction;
import org.apache.spark.sql.catalyst.expressions.WindowSpecDefinition;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.sparkcep.catalyst.Expressions;
import org.sparkcep.catalyst.Members;
import org.sparkcep.catalyst.Scala;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Computes the window functions of TOP k over a stream, instead of Spark's own node, which Spark refuses over a stream. All matches
 * of a sliding window come in one micro-batch, so ranks among the micro-batch's rows are ranks among all. With REPORT CHANGES the
 * list before comes again, so a match has all its neighbours among the micro-batch's rows.
 */
public final class StreamWindow extends LogicalPlan implements Members {
  private static final long serialVersionUID = 1L;

  /** A window function: dense_rank(), lag(value) or lead(value). */
  public enum Function {
    RANK,
    LAG,
    LEAD
  }

  /** A column of a window function; Spark only lets its own nodes hold the function itself. */
  public record Column(Function function, String name, ExprId id) {}

  private final List<Column> columns;
  private final Seq<Expression> values; // of lag and lead, else any expression, for each column
  private final Seq<Expression> groups;
  private final Seq<SortOrder> order;
  private final LogicalPlan child;

  public StreamWindow(List<Column> columns, Seq<Expression> values, Seq<Expression> groups, Seq<SortOrder> order, LogicalPlan child) {
    this.columns = columns;
    this.values = values;
    this.groups = groups;
    this.order = order;
    this.child = child;
  }

  /** Returns the columns, as functions OVER (PARTITION BY the groups ORDER BY the order). */
  public Seq<NamedExpression> functions() {
    List<Expression> by = new ArrayList<>();
    CollectionConverters.asJava(order).forEach(item -> by.add(item.child()));
    List<NamedExpression> found = new ArrayList<>();
    for (int i = 0; i < columns.size(); i++) {
      Column column = columns.get(i);
      WindowFunction function = switch (column.function()) {
        case RANK -> new DenseRank(Scala.seq(by));
        case LAG -> new Lag(values.apply(i));
        case LEAD -> new Lead(values.apply(i));
      };
      WindowExpression over = new WindowExpression((Expression) function, new WindowSpecDefinition(groups, order, function.frame()));
      found.add(Expressions.alias(over, column.name(), column.id()));
    }
    return Scala.seq(found);
  }

  public Seq<Expression> groups() {
    return groups;
  }

  public Seq<SortOrder> order() {
    return order;
  }

  public LogicalPlan child() {
    return child;
  }

  @Override
  public Seq<Attribute> output() {
    List<Attribute> all = new ArrayList<>(CollectionConverters.asJava(child.output()));
    CollectionConverters.asJava(functions()).forEach(column -> all.add(column.toAttribute()));
    return Scala.seq(all);
  }

  @Override
  public Seq<LogicalPlan> children() {
    return Scala.seq(List.of(child));
  }

  @Override
  public LogicalPlan withNewChildrenInternal(IndexedSeq<LogicalPlan> children) {
    return new StreamWindow(columns, values, groups, order, children.apply(0));
  }

  @Override
  public Object[] members() {
    return new Object[] {columns, values, groups, order, child};
  }
}
