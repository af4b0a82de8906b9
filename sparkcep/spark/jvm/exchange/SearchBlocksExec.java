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
 * Passes blocks to the engine, a few at a time, as Spark's operator of {@code mapInArrow} passes rows, and returns its batches of
 * columns. Spark's own would put thousands of blocks into one batch.
 */
public final class SearchBlocksExec extends SparkPlan implements Members {
  private static final long serialVersionUID = 1L;
  private static final int BLOCKS = 4; // of a batch; each has a few megabytes at most

  private final MapInArrowExec like;
  private final SparkPlan child;

  /** {@code like}: Spark's own operator over the child. */
  public SearchBlocksExec(MapInArrowExec like, SparkPlan child) {
    this.like = like;
    this.child = child;
  }

  SparkPlan child() {
    return child;
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
    return true;
  }

  @Override
  public RDD<InternalRow> doExecute() {
    throw new UnsupportedOperationException("it returns columns"); // Spark plans what makes rows of them
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
    return new SearchBlocksExec(like, children.apply(0));
  }

  /** The replaced operator over these blocks is canonical: nothing else tells two of these operators apart. */
  @Override
  public SparkPlan doCanonicalize() {
    return (SparkPlan) ((SparkPlan) like.withNewChildren(Scala.seq(List.of(child)))).canonicalized();
  }

  @Override
  public Object[] members() {
    return new Object[] {like, child};
  }
}
