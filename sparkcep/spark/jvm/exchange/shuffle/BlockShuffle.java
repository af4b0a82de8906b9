package org.sparkcep.exchange.shuffle;

import org.apache.spark.ShuffleDependency;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.exchange.ShuffleOrigin;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;

/**
 * Spark's exchange, of blocks, without checksums.
 *
 * <p>After the loss of an executor Spark compares the checksums of a task's first and second run, and ends the query if they
 * differ. They do not depend on the order of rows. But a task whose rows come in another order makes other blocks of them.
 */
public final class BlockShuffle extends ShuffleExchangeExec {
  private static final long serialVersionUID = 1L;
  private static final String CHECKSUMS = "spark.sql.shuffle.orderIndependentChecksum.";

  /** As in Spark 4.1 and 4.2, which copies an operator by a constructor with as many parameters as it has members. */
  public BlockShuffle(Partitioning by, SparkPlan blocks, ShuffleOrigin origin, Option<Object> advisory) {
    super(by, blocks, origin, advisory);
  }

  /** As in Spark 4.3. */
  public BlockShuffle(Partitioning by, SparkPlan blocks, ShuffleOrigin origin, Option<Object> advisory, boolean pipelined) {
    super(by, blocks, origin, advisory, pipelined);
  }

  /** Returns an exchange like Spark's own; that itself where Spark's has other members than these. */
  public static ShuffleExchangeExec of(ShuffleExchangeExec own) {
    return over(own, own.child());
  }

  private static ShuffleExchangeExec over(ShuffleExchangeExec own, SparkPlan blocks) {
    return switch (own.productArity()) {
      case 4 -> new BlockShuffle(own.outputPartitioning(), blocks, own.shuffleOrigin(), own.advisoryPartitionSize());
      case 5 -> new BlockShuffle(own.outputPartitioning(), blocks, own.shuffleOrigin(), own.advisoryPartitionSize(), (Boolean) own.productElement(4));
      default -> own;
    };
  }

  @Override
  public ShuffleDependency<Object, InternalRow, InternalRow> shuffleDependency() {
    inputRDD(); // plans what is below by the session's settings
    SQLConf conf = conf().clone();
    for (String use : new String[] {"enabled", "enableFullRetryOnMismatch", "enableQueryLevelRollbackOnMismatch"}) {
      conf.setConfString(CHECKSUMS + use, "false");
    }
    return SQLConf.withExistingConf(conf, () -> super.shuffleDependency());
  }

  @Override
  public ShuffleExchangeExec withNewChildInternal(SparkPlan blocks) {
    return over(this, blocks);
  }
}
