package org.sparkcep;

import java.util.List;
import java.util.Map;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The rows of the matches, of which it tells that they lie where the rows of their partition lay. */
public final class KeyedMatches extends SparkPlan {
  private static final long serialVersionUID = 1L;
  private final Map<ExprId, Expression> keys; // of an input column: the output column that repeats it
  private final SparkPlan child;

  public KeyedMatches(Map<ExprId, Expression> keys, SparkPlan child) {
    this.keys = keys;
    this.child = child;
  }

  @Override
  public Partitioning outputPartitioning() {
    SparkPlan input = child.children().head();
    if (input.outputPartitioning() instanceof HashPartitioning hashed) {
      List<Attribute> read = CollectionConverters.asJava(hashed.references().toSeq());
      if (read.stream().allMatch(a -> keys.containsKey(a.exprId()))) {
        return (Partitioning) MatchPruning.replaced(hashed, keys);
      }
    }
    return new UnknownPartitioning(input.outputPartitioning().numPartitions());
  }

  /** Stages of a query keep canonical plans, and are shipped with them. */
  @Override
  public SparkPlan doCanonicalize() {
    return (SparkPlan) child.canonicalized();
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
  public Seq<SparkPlan> children() {
    return MatchStrategy.seq(List.of(child));
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new KeyedMatches(keys, children.apply(0));
  }

  @Override
  public int productArity() {
    return 2;
  }

  @Override
  public Object productElement(int i) {
    return new Object[] {keys, child}[i];
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof KeyedMatches;
  }
}
