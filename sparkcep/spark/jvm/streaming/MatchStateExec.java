package org.sparkcep;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.stream.IntStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.TaskContext;
import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.catalyst.plans.physical.Distribution;
import org.apache.spark.sql.catalyst.plans.physical.UnspecifiedDistribution$;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorCustomMetric;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorCustomSumMetric;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorPartitioning;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateVariableInfo;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.StateSchemaValidationResult;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStoreColFamilySchema;
import org.apache.spark.sql.execution.streaming.state.StateStoreIterator;
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Enumeration;
import scala.Option;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction2;

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
  static final String STATE = "match";
  private static final String TIMERS = "timers";
  private static final String COUNTS = "counts";
  private static final int FORMAT = StreamStatement.STATE_FORMAT;
  private static final int HEAD = 2; // columns before those of a row
  private static final int SAID = Integer.MIN_VALUE; // the number of a row without a key
  private static final String UNTIMED = "rowsWithoutTime";
  private static final String KEYS = "keysSearched";
  private static final String ENGINE = "engineTimeMs";
  private static final String TRACKED = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows";
  private static final String CHANGES = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled";
  private static final int CHILD = SparkVersion.PARAMETERS - 6; // among the constructor's parameters
  private static final int TABLES = SparkVersion.PARAMETERS - 3;
  private static final int TOGETHER = 1024; // the number of states that are read at once

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
    var said = output().last().metadata();
    return said.contains(StreamOperator.BEHIND) ? Option.apply((Object) (watermark - said.getLong(StreamOperator.BEHIND))) : Option.empty();
  }

  @Override
  public Seq<StatefulOperatorCustomMetric> customStatefulOperatorMetrics() {
    List<StatefulOperatorCustomMetric> metrics = new ArrayList<>(List.of(
        new StatefulOperatorCustomSumMetric(UNTIMED, "rows whose time is NULL, which are dropped"),
        new StatefulOperatorCustomSumMetric(KEYS, "keys that were searched"),
        new StatefulOperatorCustomSumMetric(Counts.OPEN, "keys of which something is kept"),
        new StatefulOperatorCustomSumMetric(Counts.KEPT, "rows kept that the watermark has released"),
        new StatefulOperatorCustomSumMetric(Counts.PENDING, "rows kept that wait for the watermark"),
        new StatefulOperatorCustomSumMetric(Counts.BYTES, "bytes of the states"),
        new StatefulOperatorCustomSumMetric(Counts.MATCHES, "matches told"),
        new StatefulOperatorCustomSumMetric(ENGINE, "milliseconds of the engine")));
    if (output().last().metadata().contains(StreamOperator.BUDGETED)) {
      Counts.checks((name, about) -> metrics.add(new StatefulOperatorCustomSumMetric(name, about)));
    }
    return Scala.seq(metrics);
  }

  StructType keySchema() {
    return DataTypeUtils.fromAttributes(groupingAttributes());
  }

  static StructType valueSchema() {
    return new StructType().add("format", DataTypes.IntegerType).add("due", DataTypes.LongType).add("state", DataTypes.BinaryType);
  }

  /** A timer: its time as {@link Timer} writes it, and the bytes of the key. */
  static StructType timerSchema() {
    return new StructType().add("due", DataTypes.LongType, false).add("key", DataTypes.BinaryType, false);
  }

  static StructType nothingSchema() {
    return new StructType().add("value", DataTypes.BinaryType);
  }

  static StructType countedSchema() {
    return new StructType().add("of", DataTypes.IntegerType, false);
  }

  private NoPrefixKeyStateEncoderSpec keyEncoder() {
    return new NoPrefixKeyStateEncoderSpec(keySchema());
  }

  @Override
  public scala.collection.immutable.Map<String, StateStoreColFamilySchema> getColFamilySchemas(boolean nullable) {
    scala.collection.immutable.Map<String, StateStoreColFamilySchema> families = Map$.MODULE$.<String, StateStoreColFamilySchema>empty();
    families = families.updated(STATE, family(STATE, keySchema(), valueSchema()));
    families = families.updated(TIMERS, family(TIMERS, timerSchema(), nothingSchema()));
    return families.updated(COUNTS, family(COUNTS, countedSchema(), Counts.schema()));
  }

  private static StateStoreColFamilySchema family(String name, StructType key, StructType value) {
    short first = 0;
    return new StateStoreColFamilySchema(name, first, key, first, value, Option.apply(new NoPrefixKeyStateEncoderSpec(key)), Option.empty());
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

  /** A report reads these states while the query runs: see {@link KeptStates}. */
  public long keptVersion() throws java.io.IOException {
    return KeptStates.committed(this);
  }

  public org.apache.spark.sql.Dataset<org.apache.spark.sql.Row> keptStates(long version) {
    return KeptStates.read(this, version);
  }

  public String[] keptReader() {
    return KeptStates.reader(this);
  }

  @Override
  public RDD<InternalRow> doExecute() {
    metrics();
    appendLate();
    ClassTag<InternalRow> tag = ClassTag$.MODULE$.apply(InternalRow.class);
    RDD<InternalRow> came = left().execute();
    var rows = org.apache.spark.sql.execution.streaming.state.package$.MODULE$.StateStoreOps(came, tag);
    org.apache.spark.sql.classic.SparkSession session = session(); // a query's own
    session.sessionState().conf().setConfString(TRACKED, "false"); // it would cost a read per write, and Counts counts already
    if (!session.sessionState().conf().contains(CHANGES)) { // a commit then writes the changes, not the whole store
      session.sessionState().conf().setConfString(CHANGES, "true");
    }
    return rows.mapPartitionsWithStateStore(
        getStateInfo(), keySchema(), valueSchema(), keyEncoder(), session.sessionState(), Option.apply(session.streams().stateStoreCoordinator()), true,
        Map$.MODULE$.<String, String>empty(), false, new Task(this, evaluators(), beside(came)), tag);
  }

  /** Returns the tables that are read in addition to the rows. Tasks receive their contents as of the start of the micro-batch. */
  private ReadTables tables() {
    return (ReadTables) children().apply(1);
  }

  private Beside beside(RDD<InternalRow> came) {
    if (tables().names().isEmpty()) {
      return Beside.NOTHING;
    }
    TableReads reads = new TableReads(session(), tables(), getStateInfo(), output().last().metadata().getString(StreamOperator.READING));
    TableLog.Entry read = reads.read(came, time(), Input.micros(eventTimeWatermarkForLateEvents()), Input.micros(eventTimeWatermarkForEviction()));
    ClassTag<byte[][]> tag = ClassTag$.MODULE$.apply(byte[][].class);
    return new Beside(session().sparkContext().broadcast(read.given().toArray(new byte[0][]), tag), read.again());
  }

  /**
   * The additional input of tasks: the content of each table, null without tables; and whether all keys with timers are searched.
   */
  private record Beside(Broadcast<byte[][]> tables, boolean again) implements Serializable {
    static final Beside NOTHING = new Beside(null, false);

    int count() {
      return tables == null ? 0 : tables.value().length;
    }
  }

  private MapInBatchEvaluatorFactory evaluators() {
    PythonUDF function = (PythonUDF) functionExpr();
    List<scala.Tuple2<ChainedPythonFunctions, Object>> chained = new ArrayList<>();
    chained.add(new scala.Tuple2<>(new ChainedPythonFunctions(Scala.seq(List.of(function.func()))), (Object) function.resultId().id()));
    StructType sent = new StructType().add("__k", DataTypes.IntegerType).add("__state", DataTypes.BinaryType);
    for (StructField field : sent().fields()) {
      sent = sent.add("c" + sent.length(), field.dataType(), true); // a user's column may have any name; Python uses indexes
    }
    return SparkVersion.evaluators(this, Scala.seq(chained), sent);
  }

  /** Appends late rows to their table, if there is one. */
  private void appendLate() {
    if (lateTable() == null || eventTimeWatermarkForLateEvents().isEmpty()) {
      return;
    }
    int place = columns().size() - 1;
    LateTable.append(
        session(), lateTable(), left().execute(), time(), place, (StructType) columns().get(place).dataType(), Input.micros(eventTimeWatermarkForLateEvents()), getStateInfo(),
        session().sessionState().newHadoopConf());
  }

  /** Returns the table of late rows; null without one. */
  private String lateTable() {
    var said = output().last().metadata();
    return said.contains(StreamOperator.LATE) ? said.getString(StreamOperator.LATE) : null;
  }

  /** Returns the number of a row's columns that go to Python. */
  private int count() {
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

  /** Returns the index of the time in a row. */
  private int time() {
    List<Attribute> columns = columns();
    for (int i = 0; i < columns.size(); i++) {
      if (columns.get(i).exprId().equals(timeColumn().exprId())) {
        return i;
      }
    }
    throw new IllegalStateException("a stream's rows have no time");
  }

  /** Returns the first column of ORDER BY. It is the last column of that name, because a user's own columns come before it. */
  private Attribute timeColumn() {
    Attribute found = null;
    for (Attribute column : columns()) {
      found = column.name().equals("__s0") ? column : found;
    }
    return found;
  }

  /** One task. */
  private static final class Task extends AbstractFunction2<StateStore, Iterator<InternalRow>, Iterator<InternalRow>> implements Serializable {
    private static final long serialVersionUID = 1L;

    final MatchStateExec operator;
    final MapInBatchEvaluatorFactory factory;
    private final Beside beside;

    Task(MatchStateExec operator, MapInBatchEvaluatorFactory factory, Beside beside) {
      this.operator = operator;
      this.factory = factory;
      this.beside = beside;
    }

    @Override
    public Iterator<InternalRow> apply(StateStore store, Iterator<InternalRow> rows) {
      long began = System.nanoTime();
      store.createColFamilyIfAbsent(STATE, operator.keySchema(), valueSchema(), operator.keyEncoder(), false, false);
      store.createColFamilyIfAbsent(TIMERS, timerSchema(), nothingSchema(), new NoPrefixKeyStateEncoderSpec(timerSchema()), false, false);
      store.createColFamilyIfAbsent(COUNTS, countedSchema(), Counts.schema(), new NoPrefixKeyStateEncoderSpec(countedSchema()), false, false);
      Counts counts = Counts.read(store, COUNTS);
      Input input = new Input(operator, store, rows, beside);
      if (!input.hasNext()) {
        finish(store, counts, began);
        return scala.collection.Iterator$.MODULE$.<InternalRow>empty();
      }
      List<Iterator<InternalRow>> inputs = new ArrayList<>();
      inputs.add(input);
      @SuppressWarnings({"unchecked", "rawtypes"})
      Iterator<InternalRow> out = factory.createEvaluator().eval(TaskContext.getPartitionId(), (Seq) Scala.seq(inputs));
      return new Output(this, store, counts, input, out, began);
    }

    void finish(StateStore store, Counts counts, long began) {
      counts.write(store, COUNTS);
      long searched = System.nanoTime();
      operator.longMetric("allUpdatesTimeMs").add((searched - began) / 1_000_000);
      store.commit();
      operator.longMetric("commitTimeMs").add((System.nanoTime() - searched) / 1_000_000);
      operator.setStoreMetrics(store, true);
      operator.longMetric("numTotalStateRows").add(counts.open()); // Spark does not count them, which would cost a read per write
      counts.each((name, number) -> operator.longMetric(name).add(number));
      operator.setOperatorMetrics(1);
    }
  }

  /**
   * A row for Python: the number of a key, a state, and the columns of a row, without the last ones that stay in the JVM. Columns
   * of most types are read directly: a joined row asks its first part for its size each time.
   */
  private static final class Sent extends JoinedRow {
    private static final long serialVersionUID = 1L;

    private final GenericInternalRow head = new GenericInternalRow(HEAD);
    private final int fields;
    private int number;
    private byte[] state;
    private InternalRow row;

    Sent(int fields) {
      this.fields = fields;
    }

    Sent of(int number, byte[] state, InternalRow row) {
      this.number = number;
      this.state = state;
      this.row = row;
      apply(head, row);
      return this;
    }

    @Override
    public int numFields() {
      return fields;
    }

    @Override
    public boolean isNullAt(int i) {
      return i < HEAD ? i > 0 && state == null : row.isNullAt(i - HEAD);
    }

    @Override
    public int getInt(int i) {
      return i < HEAD ? number : row.getInt(i - HEAD);
    }

    @Override
    public byte[] getBinary(int i) {
      return i < HEAD ? state : row.getBinary(i - HEAD);
    }

    @Override
    public long getLong(int i) {
      return row.getLong(i - HEAD);
    }

    @Override
    public double getDouble(int i) {
      return row.getDouble(i - HEAD);
    }

    @Override
    public UTF8String getUTF8String(int i) {
      return row.getUTF8String(i - HEAD);
    }
  }

  /**
   * Yields the rows that are not late, with the number of their key, and then the states of their keys and of due keys. All are
   * read before the first row returns.
   */
  private static final class Input extends AbstractIterator<InternalRow> {
    final KeyNumbers keys;
    private final List<UnsafeRow> values = new ArrayList<>(); // for each key the value in the store; null without one
    private final StateStore store;
    private final Iterator<InternalRow> rows;
    private final Beside beside;
    private final GenericInternalRow nothing;
    private final Sent joined;
    private final int time;
    private final boolean keepsUntimed;
    private final long late;
    private final long watermark;
    private final byte[] checkpoint;
    private final SQLMetric dropped;
    private final SQLMetric untimed;
    private final SQLMetric searched;
    private InternalRow row;
    private int said; // how many rows without a key were passed
    private int came = -1; // how many keys have rows, known after the rows have passed
    private int told; // how many keys have been examined after the rows

    Input(MatchStateExec operator, StateStore store, Iterator<InternalRow> rows, Beside beside) {
      this.store = store;
      this.rows = rows;
      this.beside = beside;
      keys = new KeyNumbers(operator.groupingAttributes(), operator.left().output());
      nothing = new GenericInternalRow(operator.left().output().size());
      joined = new Sent(HEAD + operator.count());
      time = operator.time();
      keepsUntimed = operator.output().last().metadata().getString(StreamOperator.STATEMENT).contains("\\\"rows\\\":\\\"unmatched\\\"");
      late = micros(operator.eventTimeWatermarkForLateEvents());
      watermark = micros(operator.eventTimeWatermarkForEviction());
      checkpoint = operator.getStateInfo().checkpointLocation().getBytes(StandardCharsets.UTF_8);
      dropped = operator.longMetric("numRowsDroppedByWatermark");
      untimed = operator.longMetric(UNTIMED);
      searched = operator.longMetric(KEYS);
    }

    private static long micros(Option<Object> millis) {
      return millis.isDefined() ? Math.multiplyExact((Long) millis.get(), 1000L) : Long.MIN_VALUE;
    }

    /** Returns the stored value of a key; null without one. */
    UnsafeRow value(int key) {
      return values.get(key);
    }

    /** Returns the timer of a key; null without one. */
    Long due(int key) {
      UnsafeRow value = values.get(key);
      return value == null || value.isNullAt(1) ? null : value.getLong(1);
    }

    @Override
    public boolean hasNext() {
      while (row == null && came < 0 && rows.hasNext()) {
        InternalRow next = rows.next();
        if (next.isNullAt(time)) {
          untimed.add(1);
          row = keepsUntimed ? next : null;
        } else if (LateTable.isLate(next, time, late)) {
          dropped.add(1);
        } else {
          row = next;
        }
      }
      if (row != null) {
        return true;
      }
      if (came < 0) {
        came = keys.size();
        addDue();
        readStates();
        searched.add(keys.size());
      }
      while (told < came && values.get(told) == null) {
        told++;
      }
      return told < keys.size();
    }

    private void addDue() {
      try (StateStoreIterator<UnsafeRowPair> timers = store.iterator(TIMERS)) {
        while (timers.hasNext()) {
          UnsafeRow timer = timers.next().key();
          if (Timer.due(timer) > watermark && !beside.again()) {
            break;
          }
          keys.add(timer.getBinary(1));
        }
      }
    }

    /** Reads many states at a time, in the order of the store, which then reads a block of neighbours once. */
    private void readStates() {
      byte[][] bytes = keys.bytes();
      Integer[] order = IntStream.range(0, bytes.length).boxed().toArray(Integer[]::new);
      Arrays.sort(order, (one, other) -> Arrays.compareUnsigned(bytes[one], bytes[other]));
      UnsafeRow[] read = new UnsafeRow[order.length];
      for (int from = 0; from < order.length; from += TOGETHER) {
        UnsafeRow[] some = new UnsafeRow[Math.min(TOGETHER, order.length - from)];
        for (int i = 0; i < some.length; i++) {
          some[i] = keys.get(order[from + i]);
        }
        Iterator<UnsafeRow> found = SparkVersion.values(store, some, STATE);
        for (int i = from; found.hasNext(); i++) {
          UnsafeRow value = found.next();
          if (value != null && value.getInt(0) != FORMAT) {
            throw new IllegalStateException("the state of a key is of format " + value.getInt(0) + ", and this version of sparkcep reads format " + FORMAT);
          }
          read[order[i]] = value == null ? null : value.copy();
        }
      }
      values.addAll(Arrays.asList(read));
    }

    @Override
    public InternalRow next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      if (said <= beside.count()) {
        byte[] told = said == 0 ? ByteBuffer.allocate(Long.BYTES + checkpoint.length).putLong(watermark).put(checkpoint).array() : beside.tables().value()[said - 1];
        said++;
        return joined.of(SAID, told, nothing);
      }
      if (row == null) {
        UnsafeRow value = values.get(told);
        return joined.of(-1 - told++, value == null ? null : value.getBinary(2), nothing);
      }
      InternalRow given = row;
      row = null;
      return joined.of(keys.of(given), null, given);
    }
  }

  /** Yields rows of matches. It stores the states that come with them, and commits after the last row. */
  private static final class Output extends AbstractIterator<InternalRow> {
    private final Task task;
    private final StateStore store;
    private final Counts counts;
    private final Input input;
    private final Iterator<InternalRow> rows;
    private final long began;
    private final int at; // the index of the first of the last three columns
    private final UnsafeRowWriter value = new UnsafeRowWriter(3, 1024);
    private final UnsafeRow none;
    private final SQLMetric updated;
    private final SQLMetric removed;
    private final SQLMetric given;
    private final Timer timer = new Timer();
    private InternalRow ready;
    private boolean done;

    Output(Task task, StateStore store, Counts counts, Input input, Iterator<InternalRow> rows, long began) {
      this.task = task;
      this.store = store;
      this.counts = counts;
      this.input = input;
      this.rows = rows;
      this.began = began;
      at = task.operator.output().size() - 3;
      UnsafeRowWriter nothing = new UnsafeRowWriter(1, 8);
      nothing.zeroOutNullBytes();
      nothing.write(0, new byte[0]);
      none = nothing.getRow();
      updated = task.operator.longMetric("numUpdatedStateRows");
      removed = task.operator.longMetric("numRemovedStateRows");
      given = task.operator.longMetric("numOutputRows");
    }

    @Override
    public boolean hasNext() {
      while (ready == null && !done) {
        if (!rows.hasNext()) {
          done = true;
          task.finish(store, counts, began);
          break;
        }
        InternalRow row = rows.next();
        if (row.isNullAt(at)) {
          ready = row;
          given.add(1);
        } else if (row.getInt(at) < 0) {
          task.operator.longMetric(ENGINE).add(counts.told(row.getBinary(at + 1)));
        } else {
          keep(row);
        }
      }
      return ready != null;
    }

    private void keep(InternalRow row) {
      int number = row.getInt(at);
      UnsafeRow key = input.keys.get(number);
      UnsafeRow old = input.value(number);
      Long before = input.due(number);
      Long due = row.isNullAt(at + 2) ? null : row.getLong(at + 2);
      counts.forget(old == null ? null : old.getBinary(2));
      if (!row.isNullAt(at + 1)) {
        byte[] state = row.getBinary(at + 1);
        counts.keep(state);
        value.reset();
        value.zeroOutNullBytes();
        value.write(0, FORMAT);
        if (due == null) {
          value.setNullAt(1);
        } else {
          value.write(1, due.longValue());
        }
        value.write(2, state);
        store.put(key, value.getRow(), STATE);
        updated.add(1);
      } else if (old != null) {
        store.remove(key, STATE);
        removed.add(1);
      }
      if (before != null && !before.equals(due)) {
        store.remove(timer.of(before, key), TIMERS);
      }
      if (due != null && !due.equals(before)) {
        store.put(timer.of(due, key), none, TIMERS);
      }
    }

    @Override
    public InternalRow next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      InternalRow row = ready;
      ready = null;
      return row;
    }
  }

  /** Writes timers in bytes that sort by time: the highest byte first, with its sign flipped. */
  private static final class Timer {
    private final UnsafeRowWriter writer = new UnsafeRowWriter(2, 64);

    UnsafeRow of(long due, UnsafeRow key) {
      writer.reset();
      writer.zeroOutNullBytes();
      writer.write(0, Long.reverseBytes(due ^ Long.MIN_VALUE));
      writer.write(1, key.getBytes());
      return writer.getRow();
    }

    static long due(UnsafeRow timer) {
      return Long.reverseBytes(timer.getLong(0)) ^ Long.MIN_VALUE;
    }
  }
}
