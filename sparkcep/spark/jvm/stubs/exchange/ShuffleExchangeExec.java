package org.apache.spark.sql.execution.exchange;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.SparkPlan;
import scala.Option;
import scala.collection.immutable.*;
/**
 * Signatures of Spark 4.1 to 4.3, for compilation only: javac refuses to extend the Scala class, but the JVM allows it. Each
 * Spark has one of the two constructors. The class is not in the jar.
 */
public abstract class ShuffleExchangeExec extends SparkPlan {
  public ShuffleExchangeExec(Partitioning p, SparkPlan c, ShuffleOrigin o, Option<Object> a) {}
  public ShuffleExchangeExec(Partitioning p, SparkPlan c, ShuffleOrigin o, Option<Object> a, boolean pipelined) {}
  public SparkPlan child() { return null; }
  public ShuffleOrigin shuffleOrigin() { return null; }
  public Option<Object> advisoryPartitionSize() { return null; }
  public RDD<InternalRow> inputRDD() { return null; }
  public ShuffleDependency<Object, InternalRow, InternalRow> shuffleDependency() { return null; }
  public ShuffleExchangeExec withNewChildInternal(SparkPlan c) { return null; }
  public RDD<InternalRow> doExecute() { return null; }
  public Seq<Attribute> output() { return null; }
  public Seq<SparkPlan> children() { return null; }
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> c) { return null; }
  public int productArity() { return 0; }
  public Object productElement(int i) { return null; }
  public boolean canEqual(Object o) { return false; }
}
