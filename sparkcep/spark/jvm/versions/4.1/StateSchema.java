package org.sparkcep.versions;

import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec;
import org.apache.spark.sql.execution.streaming.state.StateSchemaValidationResult;
import scala.Option;

/** The types of a state that Spark 4.1 stores. */
public final class StateSchema {
  private StateSchema() {}

  /** Writes the types of keys and values next to the state, or compares them with the stored types. */
  public static scala.collection.immutable.List<StateSchemaValidationResult> written(
      TransformWithStateInPySparkExec operator, Configuration conf, long batchId, int version) {
    return operator.validateAndWriteStateSchema(
        conf, batchId, version, operator.getStateInfo(), operator.stateSchemaDirPath(Option.empty()), operator.session(), operator.operatorStateMetadataVersion(),
        "unsaferow");
  }
}
