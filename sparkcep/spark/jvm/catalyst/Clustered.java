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
public final class Clustered extends Passing {
  private static final long serialVersionUID = 1L;
  private final Seq<Expression> keys;
  private final Seq<SortOrder> order;
  private final String reason; // why rows are exchanged one by one; "" if it is not known yet

  public Clustered(Seq<Expression> keys, Seq<SortOrder> order, SparkPlan child) {
    this(keys, order, "", child);
  }

  private Clustered(Seq<Expression> keys, Seq<SortOrder> order, String reason, SparkPlan child) {
    super(child);
    this.keys = keys;
    this.order = order;
    this.reason = reason;
  }

  /** Returns the operator with the reason, shown by EXPLAIN, why rows come to it one by one. */
  public Clustered because(String why) {
    Clustered made = new Clustered(keys, order, why, child);
    made.copyTagsFrom(this);
    return made;
  }

  /**
   * Returns the keys by which {@code table} is distributed and sorted, as the rewriter writes it, without those that are constant;
   * none for another table.
   */
  public static List<Expression> asked(LogicalPlan table) {
    if (!(table instanceof Sort sort && !sort.global() && sort.child() instanceof RepartitionByExpression repartition && repartition.optNumPartitions().isEmpty())) {
      return List.of();
    }
    List<Expression> keys = CollectionConverters.asJava(repartition.partitionExpressions()).stream().filter(key -> !key.foldable()).toList();
    return keys.stream().allMatch(key -> key instanceof Attribute) ? keys : List.of();
  }

  @Override
  public Seq<Distribution> requiredChildDistribution() {
    return Scala.seq(List.of(by(keys)));
  }

  /** Returns the requirement that rows with equal keys are in one partition. */
  public static Distribution by(Seq<Expression> keys) {
    return (Distribution) Reflection.construct("org.apache.spark.sql.catalyst.plans.physical.ClusteredDistribution", keys);
  }

  @Override
  public Seq<Seq<SortOrder>> requiredChildOrdering() {
    return Scala.seq(List.of(order));
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new Clustered(keys, order, reason, children.apply(0));
  }

  @Override
  public scala.collection.Iterator<Object> stringArgs() {
    return Scala.<Object>seq(reason.isEmpty() ? List.of(keys, order) : List.of(keys, order, "rows one by one: " + reason)).iterator();
  }

  @Override
  public Object[] members() {
    return new Object[] {keys, order, child};
  }
}
