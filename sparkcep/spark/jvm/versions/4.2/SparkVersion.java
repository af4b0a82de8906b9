package org.sparkcep;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.ReadStateStore;
import org.apache.spark.sql.execution.streaming.state.StateSchemaValidationResult;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

/**
 * What differs between versions of Spark in the classes that the operator for streams uses: this is of Spark 4.2. It is compiled
 * against that Spark alone, without the stub.
 */
final class SparkVersion {
  /** How many parameters the constructor of Spark's operator has. */
  static final int PARAMETERS = 17;

  private SparkVersion() {}

  /** What hands batches of rows to a Python function, and rows of its batches back. */
  static MapInBatchEvaluatorFactory evaluators(TransformWithStateInPySparkExec operator, Seq<Tuple2<ChainedPythonFunctions, Object>> chained, StructType sent) {
    PythonUDF function = (PythonUDF) operator.functionExpr();
    var conf = operator.conf();
    return new MapInBatchEvaluatorFactory(
        operator.output(), chained, sent, function.dataType(), conf.arrowMaxRecordsPerBatch(), function.evalType(), conf.sessionLocalTimeZone(),
        conf.arrowUseLargeVarTypes(), ArrowPythonRunner.getPythonRunnerConfMap(conf), operator.pythonMetrics(), Option.empty(), Option.empty());
  }

  /** The values of many keys, null for those that the store does not have. */
  static Iterator<UnsafeRow> values(StateStore store, UnsafeRow[] keys, String family) {
    return store.multiGet(keys, family);
  }

  /** Writes the types of keys and values beside the state, or compares them with those that are there. */
  static scala.collection.immutable.List<StateSchemaValidationResult> written(
      TransformWithStateInPySparkExec operator, Configuration conf, long batchId, int version) {
    return operator.validateAndWriteStateSchema(
        conf, batchId, version, operator.getStateInfo(), operator.stateSchemaDirPath(Option.empty()), operator.session(), operator.operatorStateMetadataVersion(),
        "unsaferow");
  }

  /** A store beside those that Spark looks after, from which a family of columns is read. */
  static ReadStateStore opened(
      StateStoreProvider provider, long version, String family, StructType keys, StructType values, NoPrefixKeyStateEncoderSpec encoder) {
    StateStore store = provider.getStore(version, Option.empty(), false, false); // one that only reads knows no families
    store.createColFamilyIfAbsent(family, keys, values, encoder, false, false);
    return store;
  }
}
