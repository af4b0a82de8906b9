package org.sparkcep.catalyst;

import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.JobArtifactSet;
import org.apache.spark.JobArtifactState;
import org.apache.spark.PartitionEvaluator;
import org.apache.spark.PartitionEvaluatorFactory;
import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import scala.Function0;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.OptionConverters;
import scala.runtime.AbstractFunction0;

/** Spark's way of passing batches of rows to a Python function. */
public final class PythonBatches {
  private PythonBatches() {}

  /**
   * Returns the evaluators that pass batches of rows to a Python function and return the rows of its batches.
   *
   * @param output the columns of the returned rows
   * @param sent the type of the rows that are passed
   * @param job the artifacts of the job, see {@link #job}
   */
  public static MapInBatchEvaluatorFactory evaluators(
      PythonUDF function, Seq<Attribute> output, StructType sent, SQLConf conf, Map<String, SQLMetric> metrics, Option<String> job) {
    Tuple2<ChainedPythonFunctions, Object> chained =
        new Tuple2<>(new ChainedPythonFunctions(Scala.seq(List.of(function.func()))), (Object) function.resultId().id());
    List<Object> given = new ArrayList<>(List.of(
        output, Scala.seq(List.of(chained)), sent, function.dataType(), conf.arrowMaxRecordsPerBatch(), function.evalType(), conf.sessionLocalTimeZone(), conf.arrowUseLargeVarTypes(),
        ArrowPythonRunner.getPythonRunnerConfMap(conf), metrics, job));
    try {
      Constructor<?> constructor = MapInBatchEvaluatorFactory.class.getConstructors()[0];
      while (given.size() < constructor.getParameterCount()) {
        given.add(Option.empty()); // Spark's versions differ in the number of options here
      }
      return (MapInBatchEvaluatorFactory) constructor.newInstance(given.toArray());
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("this Spark passes batches to Python in a way that sparkcep does not know", e);
    }
  }

  /**
   * Returns the same evaluators with batches of at most {@code rows} rows. Spark takes the number from the session's setting,
   * and not from its operator.
   */
  public static PartitionEvaluatorFactory<InternalRow, InternalRow> bounded(MapInBatchEvaluatorFactory evaluators, int rows) {
    return new Bounded(evaluators, rows);
  }

  private record Bounded(MapInBatchEvaluatorFactory spark, int rows) implements PartitionEvaluatorFactory<InternalRow, InternalRow> {
    @Override
    public PartitionEvaluator<InternalRow, InternalRow> createEvaluator() {
      PartitionEvaluator<InternalRow, InternalRow> evaluator = spark.createEvaluator();
      return (partition, inputs) -> {
        SQLConf conf = new SQLConf();
        conf.settings().putAll(SQLConf.get().settings());
        conf.settings().put(SQLConf.ARROW_EXECUTION_MAX_RECORDS_PER_BATCH().key(), String.valueOf(rows));
        Function0<Iterator<InternalRow>> eval = new AbstractFunction0<>() {
          @Override
          public Iterator<InternalRow> apply() {
            return evaluator.eval(partition, inputs);
          }
        };
        return SQLConf.withExistingConf(conf, eval);
      };
    }
  }

  /** Returns the name of the artifacts of the running job; none unless Spark Connect has some. */
  public static Option<String> job() {
    return OptionConverters.toScala(OptionConverters.toJava(JobArtifactSet.getCurrentJobArtifactState()).map(JobArtifactState::uuid));
  }
}
