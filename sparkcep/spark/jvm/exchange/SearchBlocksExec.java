package org.sparkcep.exchange;

import java.util.Iterator;
import java.util.List;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.python.MapInArrowExec;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.sparkcep.catalyst.Members;
import org.sparkcep.catalyst.PythonBatches;
import org.sparkcep.catalyst.Scala;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/**
 * Passes blocks to the engine, a few at a time, as Spark's operator of {@code mapInArrow} passes rows. Spark's own would put
 * thousands of blocks into one batch.
 *
 * <p>It returns batches of columns that are valid until the next one is asked for, so only {@link ColumnarToRowExec} may read
 * them: Spark's operator of Python functions keeps columns of Arrow. Therefore Spark's rules see an operator of rows, and {@link
 * BlockExchange#overBatches} puts {@link #overColumns} in its place after them.
 */
public final class SearchBlocksExec extends SparkPlan implements Members {
  private static final long serialVersionUID = 1L;
  private static final int BLOCKS = 4; // of a batch at most

  private final MapInArrowExec like;
  private final SparkPlan child;
  private final boolean returnsColumns;

  /** {@code like}: Spark's own operator over the child. */
  public SearchBlocksExec(MapInArrowExec like, SparkPlan child) {
    this(like, child, false);
  }

  private SearchBlocksExec(MapInArrowExec like, SparkPlan child, boolean returnsColumns) {
    this.like = like;
    this.child = child;
    this.returnsColumns = returnsColumns;
  }

  /** Returns the operator that returns columns, below the one that makes rows of them. */
  SparkPlan overColumns() {
    SparkPlan columns = new SearchBlocksExec(like, child, true);
    columns.copyTagsFrom(this);
    return new ColumnarToRowExec(columns);
  }

  /** Returns the Python function. */
  public Expression func() {
    return like.func();
  }

  @Override
  public Seq<Attribute> output() {
    return like.output();
  }

  @Override
  public org.apache.spark.sql.catalyst.expressions.AttributeSet producedAttributes() {
    return like.producedAttributes();
  }

  @Override
  public Partitioning outputPartitioning() {
    return child.outputPartitioning();
  }

  @Override
  public Map<String, SQLMetric> metrics() {
    return like.metrics();
  }

  @Override
  public boolean supportsColumnar() {
    return returnsColumns;
  }

  @Override
  public RDD<InternalRow> doExecute() {
    throw new UnsupportedOperationException("the rules after the planning of columns did not run");
  }

  @Override
  public RDD<ColumnarBatch> doExecuteColumnar() {
    PythonBatches.Columns engine = PythonBatches.Columns.of(
        (PythonUDF) func(), DataTypeUtils.fromAttributes(child.output()), BLOCKS, conf(), like.pythonMetrics(), PythonBatches.job());
    return child.execute().toJavaRDD().mapPartitions((FlatMapFunction<Iterator<InternalRow>, ColumnarBatch>) engine::of).rdd();
  }

  @Override
  public String nodeName() {
    return like.nodeName();
  }

  @Override
  public scala.collection.Iterator<Object> stringArgs() {
    return Scala.<Object>seq(List.of(func(), output())).iterator();
  }

  @Override
  public Seq<SparkPlan> children() {
    return Scala.seq(List.of(child));
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new SearchBlocksExec(like, children.apply(0), returnsColumns);
  }

  /** The replaced operator over these blocks is canonical: nothing else tells two of these operators apart. */
  @Override
  public SparkPlan doCanonicalize() {
    return (SparkPlan) ((SparkPlan) like.withNewChildren(Scala.seq(List.of(child)))).canonicalized();
  }

  @Override
  public Object[] members() {
    return new Object[] {like, child, returnsColumns};
  }
}
