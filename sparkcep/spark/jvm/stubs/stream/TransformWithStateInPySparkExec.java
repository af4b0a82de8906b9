package org.apache.spark.sql.execution.python.streaming;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.physical.Distribution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorCustomMetric;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateVariableInfo;
import org.apache.spark.sql.execution.streaming.state.*;
import org.apache.spark.sql.streaming.*;
import org.apache.spark.sql.types.StructType;
import scala.*;
import scala.collection.Iterator;
import scala.collection.immutable.*;
/**
 * Signatures of Spark 4.1 to 4.3, for compilation only: javac refuses to extend the Scala class (a final bridge with an erased
 * type), but the JVM allows it. Each Spark has one of the two constructors and copies. The class is not in the jar.
 */
public abstract class TransformWithStateInPySparkExec extends SparkPlan {
  public TransformWithStateInPySparkExec(Expression f, Seq<Attribute> g, Seq<Attribute> o, OutputMode m, TimeMode t, Option<StatefulOperatorStateInfo> i, Option<Object> a, Option<Object> b, Option<Object> c, Option<Object> d, Enumeration.Value e, SparkPlan ch, boolean s, boolean h, SparkPlan init, Seq<Attribute> ig, StructType is) {}
  public TransformWithStateInPySparkExec(Expression f, Seq<Attribute> g, Seq<Attribute> o, OutputMode m, TimeMode t, Option<StatefulOperatorStateInfo> i, Option<Object> a, Option<Object> c, Option<Object> d, Enumeration.Value e, SparkPlan ch, boolean s, boolean h, SparkPlan init, Seq<Attribute> ig, StructType is) {}
  public TransformWithStateInPySparkExec copy(Expression f, Seq<Attribute> g, Seq<Attribute> o, OutputMode m, TimeMode t, Option<StatefulOperatorStateInfo> i, Option<Object> a, Option<Object> b, Option<Object> c, Option<Object> d, Enumeration.Value e, SparkPlan ch, boolean s, boolean h, SparkPlan init, Seq<Attribute> ig, StructType is) { return null; }
  public TransformWithStateInPySparkExec copy(Expression f, Seq<Attribute> g, Seq<Attribute> o, OutputMode m, TimeMode t, Option<StatefulOperatorStateInfo> i, Option<Object> a, Option<Object> c, Option<Object> d, Enumeration.Value e, SparkPlan ch, boolean s, boolean h, SparkPlan init, Seq<Attribute> ig, StructType is) { return null; }
  public Expression functionExpr() { return null; }
  public Seq<Attribute> groupingAttributes() { return null; }
  public Seq<Attribute> output() { return null; }
  public SparkPlan left() { return null; }
  public String shortName() { return null; }
  public StatefulOperatorStateInfo getStateInfo() { return null; }
  public Option<Object> eventTimeWatermarkForEviction() { return null; }
  public Option<Object> eventTimeWatermarkForLateEvents() { return null; }
  public Option<Object> produceOutputWatermark(long w) { return null; }
  public OutputMode outputMode() { return null; }
  public TimeMode timeMode() { return null; }
  public Seq<StatefulOperatorCustomMetric> customStatefulOperatorMetrics() { return null; }
  public Option<BasePredicate> watermarkPredicateForDataForLateEvents() { return null; }
  public Iterator<InternalRow> applyRemovingRowsOlderThanWatermark(Iterator<InternalRow> i, BasePredicate p) { return null; }
  public void setStoreMetrics(StateStore s, boolean b) {}
  public void setOperatorMetrics(int n) {}
  public Map<String, SQLMetric> pythonMetrics() { return null; }
  public Map<String, StateStoreColFamilySchema> getColFamilySchemas(boolean b) { return null; }
  public Map<String, TransformWithStateVariableInfo> getStateVariableInfos() { return null; }
  public List<StateSchemaValidationResult> validateAndMaybeEvolveStateSchema(Configuration c, long b, int v) { return null; }
  public org.apache.hadoop.fs.Path stateSchemaDirPath(Option<String> o) { return null; }
  public int operatorStateMetadataVersion() { return 0; }
  public boolean supportsSchemaEvolution() { return false; }
  public RDD<InternalRow> doExecute() { return null; }
  public Seq<SparkPlan> children() { return null; }
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> c) { return null; }
  public TransformWithStateInPySparkExec withNewChildrenInternal(SparkPlan l, SparkPlan r) { return null; }
  public int productArity() { return 0; }
  public Object productElement(int i) { return null; }
  public boolean canEqual(Object o) { return false; }
}
