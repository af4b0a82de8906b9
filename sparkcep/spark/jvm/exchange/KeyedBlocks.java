package org.sparkcep.exchange;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import org.apache.spark.sql.catalyst.plans.physical.CoalescedHashPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.Distribution;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.SparkPlan;
import org.sparkcep.catalyst.Clustered;
import org.sparkcep.catalyst.Passing;
import org.sparkcep.catalyst.Reflection;
import org.sparkcep.catalyst.Scala;
import scala.Option;
import scala.PartialFunction;
import scala.Some;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * Tells Spark that exchanged blocks are distributed by the keys of their rows ({@link BlocksExec}). So a join or an aggregate by
 * these keys above the clause is not exchanged again.
 */
public final class KeyedBlocks extends Passing {
  private static final long serialVersionUID = 1L;
  private final Seq<Expression> keys;

  public KeyedBlocks(Seq<Expression> keys, SparkPlan child) {
    super(child);
    this.keys = keys;
  }

  @Override
  public Partitioning outputPartitioning() {
    Partitioning blocks = child.outputPartitioning();
    if (blocks instanceof HashPartitioning hashed) {
      return hashed.copy(keys, hashed.numPartitions());
    }
    if (blocks instanceof CoalescedHashPartitioning coalesced) {
      HashPartitioning from = coalesced.from();
      return coalesced.copy(from.copy(keys, from.numPartitions()), coalesced.partitions());
    }
    return blocks;
  }

  /** Requires that adaptive execution does not split a partition. A hint such as REBALANCE(k) below the clause allows it to. */
  @Override
  public Seq<Distribution> requiredChildDistribution() {
    return Scala.seq(List.of(Clustered.by(Scala.seq(List.<Expression>of(child.output().head())))));
  }

  /**
   * Gives the statistics of blocks without their number. An adaptive query takes the first statistics below the clause for the
   * clause's own. It would leave out a LIMIT of more rows than there are blocks, and DISTINCT and ORDER BY of one block.
   */
  @Override
  @SuppressWarnings("unchecked")
  public <B> Option<B> collectFirst(PartialFunction<SparkPlan, B> wanted) {
    return super.collectFirst(wanted).map(found -> found instanceof Some<?> some && some.value() instanceof Statistics statistics ? (B) uncounted(statistics) : found);
  }

  private static Option<Object> uncounted(Statistics blocks) {
    return Option.apply(Reflection.construct(Statistics.class.getName(), blocks.sizeInBytes(), Option.empty(), blocks.attributeStats(), blocks.isRuntime()));
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new KeyedBlocks(keys, children.apply(0));
  }

  @Override
  public scala.collection.Iterator<Object> stringArgs() {
    return Scala.<Object>seq(List.of(keys)).iterator();
  }

  @Override
  public Object[] members() {
    return new Object[] {keys, child};
  }
}
