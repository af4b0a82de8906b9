package org.sparkcep.catalyst;

import java.io.Serializable;
import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.JobArtifactSet;
import org.apache.spark.JobArtifactState;
import org.apache.spark.TaskContext;
import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.jdk.javaapi.OptionConverters;

/** Spark's way of passing batches of rows to a Python function. */
public final class PythonBatches {
  private static final long LARGE = 64L << 20; // bytes of a passed batch, which takes no more rows then

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
    return made(
        MapInBatchEvaluatorFactory.class, output, chained(function), sent, function.dataType(), conf.arrowMaxRecordsPerBatch(), function.evalType(),
        conf.sessionLocalTimeZone(), conf.arrowUseLargeVarTypes(), ArrowPythonRunner.getPythonRunnerConfMap(conf), metrics, job);
  }

  private static Seq<Tuple2<ChainedPythonFunctions, Object>> chained(PythonUDF function) {
    return Scala.seq(List.of(new Tuple2<>(new ChainedPythonFunctions(Scala.seq(List.of(function.func()))), (Object) function.resultId().id())));
  }

  private static <T> T made(Class<T> type, Object... arguments) {
    List<Object> given = new ArrayList<>(List.of(arguments));
    try {
      Constructor<?> constructor = type.getConstructors()[0];
      while (given.size() < constructor.getParameterCount()) {
        given.add(Option.empty()); // Spark's versions differ in the number of options here
      }
      return type.cast(constructor.newInstance(given.toArray()));
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("this Spark passes batches to Python in a way that sparkcep does not know", e);
    }
  }

  /**
   * A Python function over batches that returns batches of columns. Spark's own operator makes rows of these, and the one above it
   * makes rows of those.
   *
   * @param sent the type of the rows that are passed
   * @param returned the type of the rows of returned batches
   * @param few how many rows a passed batch has at most; it has fewer if they are large
   * @param job the artifacts of the job, see {@link #job}
   */
  public record Columns(Seq<Tuple2<ChainedPythonFunctions, Object>> functions, int kind, StructType sent, StructType returned, int few, String zone, boolean large,
      Map<String, String> settings, Map<String, SQLMetric> metrics, Option<String> job) implements Serializable {
    public static Columns of(PythonUDF function, StructType sent, int few, SQLConf conf, Map<String, SQLMetric> metrics, Option<String> job) {
      return new Columns(
          chained(function), function.evalType(), sent, (StructType) function.dataType(), few, conf.sessionLocalTimeZone(), conf.arrowUseLargeVarTypes(),
          ArrowPythonRunner.getPythonRunnerConfMap(conf), metrics, job);
    }

    /**
     * Passes a task's rows, and returns the function's batches. A batch is valid until the next one is asked for. The reader of
     * batches closes their vectors, and reads the next batch into them.
     */
    public Iterator<ColumnarBatch> of(Iterator<InternalRow> rows) {
      StructType input = new StructType().add("struct", sent, false);
      ArrowPythonRunner runner = made(ArrowPythonRunner.class, functions, kind, new int[][] {{0}}, input, zone, large, settings, metrics, job);
      TaskContext task = TaskContext.get();
      var found = runner.compute(CollectionConverters.asScala(new Batches(rows, few)), task.partitionId(), task);
      return CollectionConverters.asJava(found.map(this::fields));
    }

    /** Returns the fields of a batch's struct as columns. */
    private ColumnarBatch fields(ColumnarBatch batch) {
      ArrowColumnVector struct = (ArrowColumnVector) batch.column(0);
      ColumnVector[] columns = new ColumnVector[returned.length()];
      for (int i = 0; i < columns.length; i++) {
        columns[i] = ReturnedVector.of(struct.getChild(i), returned.apply(i).dataType(), batch.numRows());
      }
      return new ColumnarBatch(columns, batch.numRows()) {
        @Override
        public void close() {}

        @Override
        public void closeIfFreeable() {}
      };
    }
  }

  /** Rows in batches of a few, and of one if it is large. Each has one column: a struct with the columns that are passed. */
  private record Batches(Iterator<InternalRow> rows, int few) implements Iterator<scala.collection.Iterator<InternalRow>> {
    @Override
    public boolean hasNext() {
      return rows.hasNext();
    }

    @Override
    public scala.collection.Iterator<InternalRow> next() {
      return CollectionConverters.asScala(new Iterator<InternalRow>() {
        private int left = few;
        private long bytes;

        @Override
        public boolean hasNext() {
          return left > 0 && bytes < LARGE && rows.hasNext();
        }

        @Override
        public InternalRow next() {
          InternalRow row = rows.next();
          left--;
          bytes += row instanceof UnsafeRow unsafe ? unsafe.getSizeInBytes() : 0;
          return new GenericInternalRow(new Object[] {row});
        }
      });
    }
  }

  /** Returns the name of the artifacts of the running job; none unless Spark Connect has some. */
  public static Option<String> job() {
    return OptionConverters.toScala(OptionConverters.toJava(JobArtifactSet.getCurrentJobArtifactState()).map(JobArtifactState::uuid));
  }
}
