package org.sparkcep.versions;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.types.StructType;
import org.sparkcep.catalyst.Scala;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

/** Calls of classes of Spark 4.1, and of later versions without a class of their own here. */
public final class SparkVersion {
  /** The number of parameters of the constructor of Spark's operator. */
  public static final int PARAMETERS = 16;

  private SparkVersion() {}

  /** Returns the evaluators that pass batches of rows to a Python function and return the rows of its batches. */
  public static MapInBatchEvaluatorFactory evaluators(TransformWithStateInPySparkExec operator, Seq<Tuple2<ChainedPythonFunctions, Object>> chained, StructType sent) {
    PythonUDF function = (PythonUDF) operator.functionExpr();
    var conf = operator.conf();
    return new MapInBatchEvaluatorFactory(
        operator.output(), chained, sent, function.dataType(), conf.arrowMaxRecordsPerBatch(), function.evalType(), conf.sessionLocalTimeZone(),
        conf.arrowUseLargeVarTypes(), ArrowPythonRunner.getPythonRunnerConfMap(conf), operator.pythonMetrics(), Option.empty(), Option.empty(), Option.empty());
  }

  /** Returns the values of many keys; null for those that the store lacks. */
  public static Iterator<UnsafeRow> values(StateStore store, UnsafeRow[] keys, String family) {
    List<UnsafeRow> found = new ArrayList<>();
    for (UnsafeRow key : keys) {
      UnsafeRow value = store.get(key, family);
      found.add(value == null ? null : value.copy()); // the next call may overwrite it
    }
    return Scala.seq(found).iterator();
  }
}
