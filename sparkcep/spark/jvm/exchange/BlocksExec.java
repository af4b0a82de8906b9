package org.sparkcep.exchange;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;
import org.sparkcep.blocks.BlockPage;
import org.sparkcep.catalyst.Members;
import org.sparkcep.catalyst.Scala;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * Turns the rows of each task into blocks of columns. The last column of its input is the partition to which Spark's own exchange
 * would send a row; a block has rows of one such partition.
 *
 * <p>An output row is a number, the bytes of a block ({@link BlockPage}), and perhaps a NULL. Spark's hash partitioning sends the
 * number to the block's partition.
 */
public class BlocksExec extends SparkPlan implements Members {
  private static final long serialVersionUID = 1L;
  private static final int SEED = 42; // of Spark's hash partitioning

  protected final int partitions;
  protected final String description;
  protected final long budget;
  protected final Seq<Attribute> blocks;
  protected final SparkPlan child;
  private transient Map<String, SQLMetric> counted;

  public BlocksExec(int partitions, String description, long budget, Seq<Attribute> blocks, SparkPlan child) {
    this.partitions = partitions;
    this.description = description;
    this.budget = budget;
    this.blocks = blocks;
    this.child = child;
  }

  @Override
  public Seq<Attribute> output() {
    return blocks;
  }

  @Override
  public Seq<SparkPlan> children() {
    return Scala.seq(List.of(child));
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new BlocksExec(partitions, description, budget, blocks, children.apply(0));
  }

  @Override
  public Object[] members() {
    return new Object[] {partitions, description, budget, blocks, child};
  }

  /** Spark runs an exchange once if canonical operators are equal. {@link #members} is also what Spark hashes. */
  @Override
  public boolean equals(Object other) {
    return other == this || other != null && other.getClass() == getClass() && Arrays.equals(((BlocksExec) other).members(), members());
  }

  @Override
  public scala.collection.Iterator<Object> stringArgs() {
    return Scala.<Object>seq(List.of(partitions)).iterator();
  }

  @Override
  public String nodeName() {
    return "MatchBlocks";
  }

  @Override
  public scala.collection.immutable.Map<String, SQLMetric> metrics() {
    return Scala.map(counted());
  }

  private Map<String, SQLMetric> counted() {
    if (counted == null) {
      counted = new LinkedHashMap<>();
      counted.put("rowsInBlocks", SQLMetrics.createMetric(sparkContext(), "rows in blocks"));
      counted.put("blocks", SQLMetrics.createMetric(sparkContext(), "blocks"));
      counted.put("bytes", SQLMetrics.createSizeMetric(sparkContext(), "bytes of blocks", -1L));
      counted.put("nanos", SQLMetrics.createNanoTimingMetric(sparkContext(), "time to build blocks", -1L));
    }
    return counted;
  }

  @Override
  public RDD<InternalRow> doExecute() {
    Task task = task(child.output());
    return child.execute().toJavaRDD().mapPartitions((FlatMapFunction<Iterator<InternalRow>, InternalRow>) rows -> task.blocks(new RowInput(rows))).rdd();
  }

  /** Returns what a task does with rows of these columns. */
  protected final Task task(Seq<Attribute> columns) {
    Map<String, SQLMetric> found = counted();
    BlockRows.Counts counts = new BlockRows.Counts(found.get("rowsInBlocks"), found.get("blocks"), found.get("bytes"), found.get("nanos"));
    return new Task(DataTypeUtils.fromAttributes(columns), partitions, description, blocks.size(), budget, counts);
  }

  /** Returns for each of {@code partitions} an int that Spark's hash partitioning sends to it. */
  static int[] numbers(int partitions) {
    int[] numbers = new int[partitions];
    boolean[] found = new boolean[partitions];
    for (int number = 0, left = partitions; left > 0; number++) {
      int partition = Math.floorMod(Murmur3_x86_32.hashInt(number, SEED), partitions);
      if (!found[partition]) {
        found[partition] = true;
        numbers[partition] = number;
        left--;
      }
    }
    return numbers;
  }

  /** What a task of the operator does. {@code input}: the columns of blocks, and last the target partition. */
  protected record Task(StructType input, int partitions, String description, int fields, long budget, BlockRows.Counts counts)
      implements Serializable {
    Iterator<InternalRow> blocks(BlockRows.Input rows) {
      BlockPage page = new BlockPage(input, partitions, description.getBytes(StandardCharsets.UTF_8), fields);
      return new BlockRows(rows, page, numbers(partitions), budget, counts);
    }
  }

  /** Rows, which come one by one. */
  private record RowInput(Iterator<InternalRow> rows) implements BlockRows.Input {
    @Override
    public boolean hasNext() {
      return rows.hasNext();
    }

    @Override
    public void add(BlockPage page) {
      page.add((UnsafeRow) rows.next());
    }
  }
}
