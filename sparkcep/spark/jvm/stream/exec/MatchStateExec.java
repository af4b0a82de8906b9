package org.sparkcep.stream.exec;

import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.physical.Distribution;
import org.apache.spark.sql.catalyst.plans.physical.UnspecifiedDistribution$;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorCustomMetric;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorCustomSumMetric;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorPartitioning;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateVariableInfo;
import org.apache.spark.sql.execution.streaming.state.StateSchemaValidationResult;
import org.apache.spark.sql.execution.streaming.state.StateStoreColFamilySchema;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.sparkcep.catalyst.PythonBatches;
import org.sparkcep.catalyst.Reflection;
import org.sparkcep.catalyst.Scala;
import org.sparkcep.stream.ReadTables;
import org.sparkcep.stream.StreamOperator;
import org.sparkcep.versions.SparkVersion;
import org.sparkcep.versions.StateSchema;
import scala.Enumeration;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * The stateful operator of a clause over a stream. It passes the rows of a task's keys, with the state of each key, to one Python
 * call as ordinary Arrow batches, and stores the returned states. A task without rows and due keys does not call Python.
 *
 * <p>Spark recognises stateful operators by the names of its own classes, so this class extends one of them.
 *
 * <p>Python first receives a row with the watermark, as eight bytes, followed by the path of the checkpoint. Then comes one row per
 * table with its content. Then come the rows: number of the key in the task, NULL, and the row's columns. Last comes, for each key
 * that has a state or is due, its number as -1 - k and the state.
 *
 * <p>Python returns rows of matches, whose {@code __k} is NULL. Then it returns for each key its number, its state or NULL, and its
 * timer (a watermark) or NULL. Last come -1 and the counts ({@link Counts}).
 */
public final class MatchStateExec extends TransformWithStateInPySparkExec {
  private static final long serialVersionUID = 1L;
  static final String UNTIMED = "rowsWithoutTime";
  static final String KEYS = "keysSearched";
  static final String ENGINE = "engineTimeMs";
  private static final String TRACKED = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows";
  private static final String CHANGES = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled";
  private static final int CHILD = SparkVersion.PARAMETERS - 6; // among the constructor's parameters
  private static final int TABLES = SparkVersion.PARAMETERS - 3;

  public MatchStateExec(
      Expression function, Seq<Attribute> grouping, Seq<Attribute> out, OutputMode mode, TimeMode time, Option<StatefulOperatorStateInfo> info,
      Option<Object> batchTime, Option<Object> beforeTime, Option<Object> late, Option<Object> eviction, Enumeration.Value facing, SparkPlan child,
      boolean streaming, boolean hasInitial, SparkPlan initial, Seq<Attribute> initialGrouping, StructType initialSchema) {
    super( // its timers are its own: Spark would generate code for some of each of a plan's many copies
        function, grouping, out, mode, TimeMode.None(), info, batchTime, beforeTime, late, eviction, facing, child, streaming, hasInitial, initial, initialGrouping,
        initialSchema);
  }

  /** For Spark 4.1, which lacks the time of the micro-batch before. */
  public MatchStateExec(
      Expression function, Seq<Attribute> grouping, Seq<Attribute> out, OutputMode mode, TimeMode time, Option<StatefulOperatorStateInfo> info,
      Option<Object> batchTime, Option<Object> late, Option<Object> eviction, Enumeration.Value facing, SparkPlan child,
      boolean streaming, boolean hasInitial, SparkPlan initial, Seq<Attribute> initialGrouping, StructType initialSchema) {
    super(
        function, grouping, out, mode, TimeMode.None(), info, batchTime, late, eviction, facing, child, streaming, hasInitial, initial, initialGrouping, initialSchema);
  }

  /** Spark sets the operator's parameters of a micro-batch through this method of its own class. */
  @Override
  public TransformWithStateInPySparkExec copy(
      Expression function, Seq<Attribute> grouping, Seq<Attribute> out, OutputMode mode, TimeMode time, Option<StatefulOperatorStateInfo> info,
      Option<Object> batchTime, Option<Object> beforeTime, Option<Object> late, Option<Object> eviction, Enumeration.Value facing, SparkPlan child,
      boolean streaming, boolean hasInitial, SparkPlan initial, Seq<Attribute> initialGrouping, StructType initialSchema) {
    return new MatchStateExec(
        function, grouping, out, mode, time, info, batchTime, beforeTime, late, eviction, facing, child, streaming, hasInitial, initial, initialGrouping,
        initialSchema);
  }

  @Override
  public TransformWithStateInPySparkExec copy(
      Expression function, Seq<Attribute> grouping, Seq<Attribute> out, OutputMode mode, TimeMode time, Option<StatefulOperatorStateInfo> info,
      Option<Object> batchTime, Option<Object> late, Option<Object> eviction, Enumeration.Value facing, SparkPlan child,
      boolean streaming, boolean hasInitial, SparkPlan initial, Seq<Attribute> initialGrouping, StructType initialSchema) {
    return new MatchStateExec(
        function, grouping, out, mode, time, info, batchTime, late, eviction, facing, child, streaming, hasInitial, initial, initialGrouping, initialSchema);
  }

  /** Replaces both children. Spark's own class keeps the second child if it is not an initial state. */
  @Override
  public TransformWithStateInPySparkExec withNewChildrenInternal(SparkPlan rows, SparkPlan tables) {
    Object[] own = new Object[productArity()]; // in the order of the constructor
    for (int i = 0; i < own.length; i++) {
      own[i] = productElement(i);
    }
    own[CHILD] = rows;
    own[TABLES] = tables;
    return (TransformWithStateInPySparkExec) Reflection.construct(StreamOperator.OPERATOR, own);
  }

  /** Spark stores this next to the state, and uses it to decide whether a micro-batch without rows is needed. */
  @Override
  public TimeMode timeMode() {
    return TimeMode.EventTime();
  }

  @Override
  public String nodeName() {
    return "MatchRecognize";
  }

  @Override
  public String shortName() {
    return "matchRecognize";
  }

  @Override
  public Seq<Distribution> requiredChildDistribution() {
    @SuppressWarnings({"unchecked", "rawtypes"})
    Distribution keys = StatefulOperatorPartitioning.getCompatibleDistribution((Seq) groupingAttributes(), getStateInfo(), conf());
    return Scala.seq(List.of(keys, UnspecifiedDistribution$.MODULE$));
  }

  @Override
  public Seq<Seq<SortOrder>> requiredChildOrdering() {
    return Scala.seq(List.of(Scala.seq(List.<SortOrder>of()), Scala.seq(List.<SortOrder>of())));
  }

  /** Returns the watermark of the output in milliseconds; none if matches may have any time. */
  @Override
  public Option<Object> produceOutputWatermark(long watermark) {
    var metadata = output().last().metadata();
    return metadata.contains(StreamOperator.BEHIND) ? Option.apply((Object) (watermark - metadata.getLong(StreamOperator.BEHIND))) : Option.empty();
  }

  @Override
  public Seq<StatefulOperatorCustomMetric> customStatefulOperatorMetrics() {
    List<StatefulOperatorCustomMetric> metrics = new ArrayList<>(List.of(
        new StatefulOperatorCustomSumMetric(UNTIMED, "rows whose time is NULL, which are dropped"),
        new StatefulOperatorCustomSumMetric(KEYS, "searched keys"),
        new StatefulOperatorCustomSumMetric(Counts.OPEN, "keys with saved state"),
        new StatefulOperatorCustomSumMetric(Counts.KEPT, "retained rows that the watermark has passed"),
        new StatefulOperatorCustomSumMetric(Counts.PENDING, "rows waiting for the watermark"),
        new StatefulOperatorCustomSumMetric(Counts.BYTES, "bytes of the states"),
        new StatefulOperatorCustomSumMetric(Counts.MATCHES, "matches emitted"),
        new StatefulOperatorCustomSumMetric(ENGINE, "milliseconds of the engine")));
    if (output().last().metadata().contains(StreamOperator.BUDGETED)) {
      Counts.checks((name, about) -> metrics.add(new StatefulOperatorCustomSumMetric(name, about)));
    }
    return Scala.seq(metrics);
  }

  StructType keySchema() {
    return DataTypeUtils.fromAttributes(groupingAttributes());
  }

  @Override
  public scala.collection.immutable.Map<String, StateStoreColFamilySchema> getColFamilySchemas(boolean nullable) {
    return StateLayout.families(keySchema());
  }

  @Override
  public scala.collection.immutable.Map<String, TransformWithStateVariableInfo> getStateVariableInfos() {
    return Map$.MODULE$.<String, TransformWithStateVariableInfo>empty();
  }

  /** Spark calls this before the first micro-batch of a run. */
  @Override
  public scala.collection.immutable.List<StateSchemaValidationResult> validateAndMaybeEvolveStateSchema(Configuration conf, long batchId, int version) {
    StatementFile.check(getStateInfo(), output().last().metadata().getString(StreamOperator.STATEMENT), batchId, conf);
    return StateSchema.written(this, conf, batchId, version);
  }

  @Override
  public boolean supportsSchemaEvolution() {
    return false;
  }

  // Reports and sparkcep.why read states while the query runs, by these three methods.

  /** Returns the last committed version of the states, see {@link KeptStates#committed}. */
  public long keptVersion() throws java.io.IOException {
    return KeptStates.committed(this);
  }

  /** Returns the keys and states of a version. */
  public org.apache.spark.sql.Dataset<org.apache.spark.sql.Row> keptStates(long version) {
    return KeptStates.read(this, version);
  }

  /** Returns the inputs of the reader of states in Python. */
  public String[] keptReader() {
    return KeptStates.reader(this);
  }

  @Override
  public RDD<InternalRow> doExecute() {
    metrics();
    appendLate();
    ClassTag<InternalRow> tag = ClassTag$.MODULE$.apply(InternalRow.class);
    RDD<InternalRow> input = left().execute();
    var rows = org.apache.spark.sql.execution.streaming.state.package$.MODULE$.StateStoreOps(input, tag);
    org.apache.spark.sql.classic.SparkSession session = session(); // a query's own
    session.sessionState().conf().setConfString(TRACKED, "false"); // it would cost a read per write, and Counts counts already
    if (!session.sessionState().conf().contains(CHANGES)) { // a commit then writes the changes, not the whole store
      session.sessionState().conf().setConfString(CHANGES, "true");
    }
    return rows.mapPartitionsWithStateStore(
        getStateInfo(), keySchema(), StateLayout.valueSchema(), StateLayout.encoder(keySchema()), session.sessionState(), Option.apply(session.streams().stateStoreCoordinator()), true,
        Map$.MODULE$.<String, String>empty(), false, new MatchTask(this, evaluators(), beside(input)), tag);
  }

  /** Returns the tables that are read in addition to the rows. Tasks receive their contents as of the start of the micro-batch. */
  private ReadTables tables() {
    return (ReadTables) children().apply(1);
  }

  private TaskInput.Beside beside(RDD<InternalRow> input) {
    if (tables().names().isEmpty()) {
      return TaskInput.Beside.NOTHING;
    }
    TableReads reads = new TableReads(session(), tables(), getStateInfo(), output().last().metadata().getString(StreamOperator.READING));
    TableLog.Entry read = reads.read(input, time(), TaskInput.micros(eventTimeWatermarkForLateEvents()), TaskInput.micros(eventTimeWatermarkForEviction()));
    ClassTag<byte[][]> tag = ClassTag$.MODULE$.apply(byte[][].class);
    return new TaskInput.Beside(session().sparkContext().broadcast(read.given().toArray(new byte[0][]), tag), read.again());
  }

  private MapInBatchEvaluatorFactory evaluators() {
    StructType sent = new StructType().add("__k", DataTypes.IntegerType).add("__state", DataTypes.BinaryType);
    for (StructField field : sent().fields()) {
      sent = sent.add("c" + sent.length(), field.dataType(), true); // a user's column may have any name; Python uses indexes
    }
    return PythonBatches.evaluators((PythonUDF) functionExpr(), output(), sent, conf(), pythonMetrics(), Option.empty());
  }

  /** Appends late rows to their table, if there is one. */
  private void appendLate() {
    if (lateTable() == null || eventTimeWatermarkForLateEvents().isEmpty()) {
      return;
    }
    int place = columns().size() - 1;
    LateTable.append(
        session(), lateTable(), left().execute(), time(), place, (StructType) columns().get(place).dataType(), TaskInput.micros(eventTimeWatermarkForLateEvents()), getStateInfo(),
        session().sessionState().newHadoopConf());
  }

  /** Returns the table of late rows; null without one. */
  private String lateTable() {
    var metadata = output().last().metadata();
    return metadata.contains(StreamOperator.LATE) ? metadata.getString(StreamOperator.LATE) : null;
  }

  /** Returns the number of a row's columns that go to Python. */
  int count() {
    return columns().size() - groupingAttributes().size() - (lateTable() == null ? 0 : 1);
  }

  /** Returns the type of the rows that go to Python. */
  StructType sent() {
    StructType sent = new StructType();
    List<Attribute> columns = columns();
    for (Attribute column : columns.subList(0, count())) {
      sent = sent.add("c" + sent.length(), column.dataType(), true);
    }
    return sent;
  }

  /**
   * Returns the columns of a row: those that go to Python, the last of these from ORDER BY, then the keys, and the column for the
   * table of late rows.
   */
  private List<Attribute> columns() {
    return scala.jdk.javaapi.CollectionConverters.asJava(left().output());
  }

  /**
   * Returns the index of the time in a row: the first column of ORDER BY. It is the last column of that name, because a user's own
   * columns come before it.
   */
  int time() {
    int place = columns().stream().map(Attribute::name).toList().lastIndexOf("__s0");
    if (place < 0) {
      throw new IllegalStateException("a stream's rows have no time");
    }
    return place;
  }
}
