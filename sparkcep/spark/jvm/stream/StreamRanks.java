package org.sparkcep.stream;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.DenseRank;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.WindowExpression;
import org.apache.spark.sql.catalyst.expressions.WindowSpecDefinition;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.sparkcep.catalyst.Expressions;
import org.sparkcep.catalyst.Members;
import org.sparkcep.catalyst.Scala;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Ranks the matches in the sliding windows of a stream, instead of Spark's own window function, which Spark refuses over a stream.
 * All matches of a window come in one micro-batch, so ranks among the micro-batch's rows are ranks among all.
 */
public final class StreamRanks extends LogicalPlan implements Members {
  private static final long serialVersionUID = 1L;

  private final String name; // the rank's column; Spark only lets its own nodes hold a window function
  private final ExprId id;
  private final Seq<Expression> groups;
  private final Seq<SortOrder> order;
  private final LogicalPlan child;

  public StreamRanks(String name, ExprId id, Seq<Expression> groups, Seq<SortOrder> order, LogicalPlan child) {
    this.name = name;
    this.id = id;
    this.groups = groups;
    this.order = order;
    this.child = child;
  }

  /** Returns dense_rank() OVER (PARTITION BY the groups ORDER BY the order). */
  public Alias rank() {
    List<Expression> by = new ArrayList<>();
    CollectionConverters.asJava(order).forEach(item -> by.add(item.child()));
    DenseRank function = new DenseRank(Scala.seq(by));
    return Expressions.alias(new WindowExpression(function, new WindowSpecDefinition(groups, order, function.frame())), name, id);
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
    all.add(rank().toAttribute());
    return Scala.seq(all);
  }

  @Override
  public Seq<LogicalPlan> children() {
    return Scala.seq(List.of(child));
  }

  @Override
  public LogicalPlan withNewChildrenInternal(IndexedSeq<LogicalPlan> children) {
    return new StreamRanks(name, id, groups, order, children.apply(0));
  }

  @Override
  public Object[] members() {
    return new Object[] {name, id, groups, order, child};
  }
}
