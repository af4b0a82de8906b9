package org.sparkcep.catalyst;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.physical.Distribution;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Requires DISTRIBUTE BY keys SORT BY keys, order instead of commanding it. So a table that is bucketed, or that is the output of a
 * clause with the same keys, is not exchanged again.
 *
 * <p>Rows pass unchanged. Spark puts an exchange and a sort below this operator if they are needed.
 */
public final class Clustered extends Passing implements Members {
  private static final long serialVersionUID = 1L;
  private final Seq<Expression> keys;
  private final Seq<SortOrder> order;

  public Clustered(Seq<Expression> keys, Seq<SortOrder> order, SparkPlan child) {
    super(child);
    this.keys = keys;
    this.order = order;
  }

  /** Whether {@code table} is distributed and sorted as the rewriter writes it. */
  public static boolean isAsked(LogicalPlan table) {
    return table instanceof Sort sort
        && !sort.global()
        && sort.child() instanceof RepartitionByExpression repartition
        && repartition.optNumPartitions().isEmpty()
        && CollectionConverters.asJava(repartition.partitionExpressions()).stream().allMatch(e -> e instanceof Attribute);
  }

  @Override
  public Seq<Distribution> requiredChildDistribution() {
    Distribution clustered =
        (Distribution) Reflection.construct("org.apache.spark.sql.catalyst.plans.physical.ClusteredDistribution", keys);
    return Scala.seq(List.of(clustered));
  }

  @Override
  public Seq<Seq<SortOrder>> requiredChildOrdering() {
    return Scala.seq(List.of(order));
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new Clustered(keys, order, children.apply(0));
  }

  @Override
  public Object[] members() {
    return new Object[] {keys, order, child};
  }
}
