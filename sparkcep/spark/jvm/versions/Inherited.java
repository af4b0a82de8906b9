package org.sparkcep.versions;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec;
import org.apache.spark.sql.execution.streaming.state.StateStore;

/**
 * Calls of the members that the operator for streams inherits or overrides. They are compiled against Spark's own class, so that a
 * Spark without one of these methods is detected when the jar is built. The operator itself is compiled against the stub, which may
 * be wrong. Nobody calls these methods.
 */
abstract class Inherited {
  static Object[] all(TransformWithStateInPySparkExec exec, Configuration conf, StateStore store) {
    exec.setStoreMetrics(store, true);
    exec.setOperatorMetrics(1);
    SparkPlan left = exec.left();
    org.apache.spark.rdd.RDD<InternalRow> rows = exec.doExecute();
    return new Object[] {
      left, rows, exec.functionExpr(), exec.groupingAttributes(), exec.output(), exec.shortName(), exec.nodeName(), exec.getStateInfo(), exec.eventTimeWatermarkForEviction(),
      exec.eventTimeWatermarkForLateEvents(), exec.produceOutputWatermark(1L), exec.timeMode(), exec.customStatefulOperatorMetrics(), exec.pythonMetrics(),
      exec.getColFamilySchemas(true), exec.getStateVariableInfos(), exec.validateAndMaybeEvolveStateSchema(conf, 1L, 1), exec.operatorStateMetadataVersion(),
      exec.stateSchemaDirPath(scala.Option.empty()), exec.supportsSchemaEvolution(), exec.requiredChildDistribution(), exec.requiredChildOrdering(), exec.session(),
      exec.conf(), exec.longMetric("numOutputRows"), exec.withNewChildrenInternal(left, left), exec.productArity(), exec.productElement(1)
    };
  }
}
