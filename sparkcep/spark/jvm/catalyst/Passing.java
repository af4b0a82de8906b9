package org.sparkcep.catalyst;

import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.immutable.Seq;

/** An operator whose child's rows pass unchanged. It exists only on the driver. */
public abstract class Passing extends SparkPlan implements Members {
  private static final long serialVersionUID = 1L;
  protected final SparkPlan child;

  protected Passing(SparkPlan child) {
    this.child = child;
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return child.execute();
  }

  @Override
  public Seq<Attribute> output() {
    return child.output();
  }

  @Override
  public Partitioning outputPartitioning() {
    return child.outputPartitioning();
  }

  @Override
  public Seq<SortOrder> outputOrdering() {
    return child.outputOrdering();
  }

  @Override
  public Seq<SparkPlan> children() {
    return Scala.seq(List.of(child));
  }

  /** EXPLAIN shows nothing beside the name. */
  @Override
  public scala.collection.Iterator<Object> stringArgs() {
    return Scala.<Object>seq(List.of()).iterator();
  }

  /** Stages of a query store canonical plans and are shipped with them. */
  @Override
  public SparkPlan doCanonicalize() {
    return (SparkPlan) child.canonicalized();
  }

  /**
   * Serializes as its child, because executors lack these classes. An adaptive plan keeps its initial plan. If a scalar subquery is
   * a key of GROUP BY, or expressions are interpreted, that plan travels with the expression.
   */
  protected Object writeReplace() {
    return child;
  }
}
