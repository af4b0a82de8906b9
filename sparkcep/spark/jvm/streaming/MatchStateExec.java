package org.sparkcep;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.TaskContext;
import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.physical.Distribution;
import org.apache.spark.sql.catalyst.plans.physical.UnspecifiedDistribution$;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorCustomMetric;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorCustomSumMetric;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorPartitioning;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateVariableInfo;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.RangeKeyScanStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.StateSchemaValidationResult;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStoreColFamilySchema;
import org.apache.spark.sql.execution.streaming.state.StateStoreIterator;
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Enumeration;
import scala.Option;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.collection.immutable.Map$;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction2;

/**
 * A clause over a stream: hands the rows of a task's keys, with what is kept of each, to one Python call as ordinary Arrow batches,
 * and keeps what comes back. A task with no row and no key that is due calls no Python.
 *
 * <p>Spark gives stateful operators their state by the names of its own classes, hence the class that it extends.
 *
 * <p>To Python go the key's number in the task, its state (beside its first row), the watermark (beside the first of all), then the
 * columns of the rows. A key that is due, of which no row came, has the number -1 - k. Back come rows of matches, whose {@code __k}
 * is NULL, and then for each key its number, its state or NULL, and the watermark at which it is due or NULL.
 */
public final class MatchStateExec extends TransformWithStateInPySparkExec {
  private static final long serialVersionUID = 1L;
  private static final String STATE = "match";
  private static final String TIMERS = "timers";
  private static final int FORMAT = 1; // of the values in the state store
  private static final int HEAD = 3; // columns before those of a row
  private static final String UNTIMED = "rowsWithoutTime";
  private static final String KEYS = "keysSearched";

  public MatchStateExec(
      Expression function, Seq<Attribute> grouping, Seq<Attribute> out, OutputMode mode, TimeMode time, Option<StatefulOperatorStateInfo> info,
      Option<Object> batchTime, Option<Object> beforeTime, Option<Object> late, Option<Object> eviction, Enumeration.Value facing, SparkPlan child,
      boolean streaming, boolean hasInitial, SparkPlan initial, Seq<Attribute> initialGrouping, StructType initialSchema) {
    super(
        function, grouping, out, mode, time, info, batchTime, beforeTime, late, eviction, facing, child, streaming, hasInitial, initial, initialGrouping,
        initialSchema);
  }

  /** Spark sets what the operator needs of a micro-batch through this method of its own class. */
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
    return MatchStrategy.seq(List.of(keys, UnspecifiedDistribution$.MODULE$));
  }

  @Override
  public Seq<Seq<SortOrder>> requiredChildOrdering() {
    return MatchStrategy.seq(List.of(MatchStrategy.seq(List.<SortOrder>of()), MatchStrategy.seq(List.<SortOrder>of())));
  }

  @Override
  public Seq<StatefulOperatorCustomMetric> customStatefulOperatorMetrics() {
    return MatchStrategy.seq(List.of(
        new StatefulOperatorCustomSumMetric(UNTIMED, "rows whose time is NULL, which are dropped"),
        new StatefulOperatorCustomSumMetric(KEYS, "keys that were searched")));
  }

  // -- the state store

  StructType keySchema() {
    return DataTypeUtils.fromAttributes(groupingAttributes());
  }

  static StructType valueSchema() {
    return new StructType().add("format", DataTypes.IntegerType).add("due", DataTypes.LongType).add("state", DataTypes.BinaryType);
  }

  StructType timerSchema() {
    StructType schema = new StructType().add("due", DataTypes.LongType, false);
    for (StructField field : keySchema().fields()) {
      schema = schema.add(field);
    }
    return schema;
  }

  static StructType nothingSchema() {
    return new StructType().add("value", DataTypes.BinaryType);
  }

  private NoPrefixKeyStateEncoderSpec keyEncoder() {
    return new NoPrefixKeyStateEncoderSpec(keySchema());
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  private RangeKeyScanStateEncoderSpec timerEncoder() {
    return new RangeKeyScanStateEncoderSpec(timerSchema(), (Seq) MatchStrategy.seq(List.<Object>of(0)));
  }

  @Override
  public scala.collection.immutable.Map<String, StateStoreColFamilySchema> getColFamilySchemas(boolean nullable) {
    scala.collection.immutable.Map<String, StateStoreColFamilySchema> families = Map$.MODULE$.<String, StateStoreColFamilySchema>empty();
    short first = 0;
    families = families.updated(
        STATE, new StateStoreColFamilySchema(STATE, first, keySchema(), first, valueSchema(), Option.apply(keyEncoder()), Option.empty()));
    return families.updated(
        TIMERS, new StateStoreColFamilySchema(TIMERS, first, timerSchema(), first, nothingSchema(), Option.apply(timerEncoder()), Option.empty()));
  }

  @Override
  public scala.collection.immutable.Map<String, TransformWithStateVariableInfo> getStateVariableInfos() {
    return Map$.MODULE$.<String, TransformWithStateVariableInfo>empty();
  }

  /** Spark asks this before the first micro-batch of a run. */
  @Override
  public scala.collection.immutable.List<StateSchemaValidationResult> validateAndMaybeEvolveStateSchema(Configuration conf, long batchId, int version) {
    StatementFile.check(getStateInfo(), output().last().metadata().getString(Streams.STATEMENT), batchId, conf);
    return validateAndWriteStateSchema(
        conf, batchId, version, getStateInfo(), stateSchemaDirPath(Option.empty()), session(), operatorStateMetadataVersion(), "unsaferow", false);
  }

  @Override
  public boolean supportsSchemaEvolution() {
    return false;
  }

  // -- a micro-batch

  @Override
  public RDD<InternalRow> doExecute() {
    metrics();
    ClassTag<InternalRow> tag = ClassTag$.MODULE$.apply(InternalRow.class);
    var rows = org.apache.spark.sql.execution.streaming.state.package$.MODULE$.StateStoreOps(left().execute(), tag);
    org.apache.spark.sql.classic.SparkSession session = session();
    return rows.mapPartitionsWithStateStore(
        getStateInfo(), keySchema(), valueSchema(), keyEncoder(), session.sessionState(), Option.apply(session.streams().stateStoreCoordinator()), true,
        Map$.MODULE$.<String, String>empty(), false, new Task(this, evaluators()), tag);
  }

  private MapInBatchEvaluatorFactory evaluators() {
    PythonUDF function = (PythonUDF) functionExpr();
    List<scala.Tuple2<ChainedPythonFunctions, Object>> chained = new ArrayList<>();
    chained.add(new scala.Tuple2<>(new ChainedPythonFunctions(MatchStrategy.seq(List.of(function.func()))), (Object) function.resultId().id()));
    StructType sent = new StructType().add("__k", DataTypes.IntegerType).add("__state", DataTypes.BinaryType).add("__watermark", DataTypes.LongType);
    List<Attribute> columns = columns();
    for (Attribute column : columns.subList(0, columns.size() - groupingAttributes().size())) {
      sent = sent.add("c" + sent.length(), column.dataType(), true); // a user's column may have any name; Python knows them by their places
    }
    return new MapInBatchEvaluatorFactory(
        output(), MatchStrategy.seq(chained), sent, function.dataType(), conf().arrowMaxRecordsPerBatch(), function.evalType(), conf().sessionLocalTimeZone(),
        conf().arrowUseLargeVarTypes(), ArrowPythonRunner.getPythonRunnerConfMap(conf()), pythonMetrics(), Option.empty(), Option.empty());
  }

  /** The columns of a row: those that go to Python, of which the last are of ORDER BY, then the keys. */
  private List<Attribute> columns() {
    return scala.jdk.javaapi.CollectionConverters.asJava(left().output());
  }

  /** The place of the time in a row. */
  private int time() {
    List<Attribute> columns = columns();
    for (int i = 0; i < columns.size(); i++) {
      if (columns.get(i).exprId().equals(timeColumn().exprId())) {
        return i;
      }
    }
    throw new IllegalStateException("a stream's rows have no time");
  }

  /** The first column of ORDER BY: the last of that name, as a user's own columns stand before it. */
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

    Task(MatchStateExec operator, MapInBatchEvaluatorFactory factory) {
      this.operator = operator;
      this.factory = factory;
    }

    @Override
    public Iterator<InternalRow> apply(StateStore store, Iterator<InternalRow> rows) {
      long began = System.nanoTime();
      store.createColFamilyIfAbsent(STATE, operator.keySchema(), valueSchema(), operator.keyEncoder(), false, false);
      store.createColFamilyIfAbsent(TIMERS, operator.timerSchema(), nothingSchema(), operator.timerEncoder(), false, false);
      Input input = new Input(operator, store, rows);
      if (!input.hasNext()) {
        finish(store, began);
        return scala.collection.Iterator$.MODULE$.<InternalRow>empty();
      }
      List<Iterator<InternalRow>> inputs = new ArrayList<>();
      inputs.add(input);
      @SuppressWarnings({"unchecked", "rawtypes"})
      Iterator<InternalRow> out = factory.createEvaluator().eval(TaskContext.getPartitionId(), (Seq) MatchStrategy.seq(inputs));
      return new Output(this, store, input, out, began);
    }

    void finish(StateStore store, long began) {
      long searched = System.nanoTime();
      operator.longMetric("allUpdatesTimeMs").add((searched - began) / 1_000_000);
      store.commit();
      operator.longMetric("commitTimeMs").add((System.nanoTime() - searched) / 1_000_000);
      operator.setStoreMetrics(store, true);
      operator.setOperatorMetrics(1);
    }
  }

  /** A row without the keys at its end, which do not go to Python. */
  private static final class Sent extends JoinedRow {
    private static final long serialVersionUID = 1L;

    private final int fields;

    Sent(int fields) {
      this.fields = fields;
    }

    @Override
    public int numFields() {
      return fields;
    }
  }

  /**
   * The rows that are not late, with the number of their key, and then the keys that are due. All are read before the first row
   * comes back.
   */
  private static final class Input extends AbstractIterator<InternalRow> {
    final List<UnsafeRow> keys = new ArrayList<>();
    final List<Long> dues = new ArrayList<>(); // of each key, as its state says; null where it is not due
    private final Map<UnsafeRow, Integer> numbers = new HashMap<>();
    private final StateStore store;
    private final Iterator<InternalRow> rows;
    private final UnsafeProjection keyOf;
    private final UnsafeProjection keyOfTimer;
    private final GenericInternalRow head = new GenericInternalRow(HEAD);
    private final GenericInternalRow nothing;
    private final Sent joined;
    private final int time;
    private final boolean keepsUntimed;
    private final long late;
    private final long watermark;
    private final SQLMetric dropped;
    private final SQLMetric untimed;
    private final SQLMetric searched;
    private StateStoreIterator<UnsafeRowPair> timers;
    private InternalRow row;
    private UnsafeRow due;
    private boolean first = true;
    private boolean done;

    Input(MatchStateExec operator, StateStore store, Iterator<InternalRow> rows) {
      this.store = store;
      this.rows = rows;
      @SuppressWarnings({"unchecked", "rawtypes"})
      UnsafeProjection projection = UnsafeProjection.create((Seq) operator.groupingAttributes(), operator.left().output());
      keyOf = projection;
      List<Expression> fields = new ArrayList<>();
      StructField[] all = operator.keySchema().fields();
      for (int i = 0; i < all.length; i++) {
        fields.add(new BoundReference(i + 1, all[i].dataType(), all[i].nullable()));
      }
      keyOfTimer = UnsafeProjection.create(MatchStrategy.seq(fields));
      nothing = new GenericInternalRow(operator.left().output().size());
      joined = new Sent(HEAD + nothing.numFields() - operator.groupingAttributes().size());
      time = operator.time();
      keepsUntimed = operator.output().last().metadata().getString(Streams.STATEMENT).contains("\\\"rows\\\":\\\"unmatched\\\"");
      late = micros(operator.eventTimeWatermarkForLateEvents());
      watermark = micros(operator.eventTimeWatermarkForEviction());
      dropped = operator.longMetric("numRowsDroppedByWatermark");
      untimed = operator.longMetric(UNTIMED);
      searched = operator.longMetric(KEYS);
    }

    private static long micros(Option<Object> millis) {
      return millis.isDefined() ? Math.multiplyExact((Long) millis.get(), 1000L) : Long.MIN_VALUE;
    }

    @Override
    public boolean hasNext() {
      while (row == null && rows.hasNext()) {
        InternalRow next = rows.next();
        if (next.isNullAt(time)) {
          untimed.add(1);
          row = keepsUntimed ? next : null;
        } else if (next.getLong(time) <= late) {
          dropped.add(1);
        } else {
          row = next;
        }
      }
      if (row != null || due != null) {
        return true;
      }
      if (done) {
        return false;
      }
      if (timers == null) {
        timers = store.iterator(TIMERS);
      }
      while (timers.hasNext()) {
        UnsafeRow timer = timers.next().key();
        if (timer.getLong(0) > watermark) {
          break;
        }
        UnsafeRow key = keyOfTimer.apply(timer);
        if (!numbers.containsKey(key)) {
          due = key.copy();
          return true;
        }
      }
      timers.close();
      done = true;
      return false;
    }

    @Override
    public InternalRow next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      boolean came = row != null;
      InternalRow given = came ? row : nothing;
      UnsafeRow key = came ? keyOf.apply(row) : due;
      row = null;
      due = came ? due : null;
      Integer number = numbers.get(key);
      Object state = null;
      if (number == null) {
        UnsafeRow own = key.copy();
        number = keys.size();
        keys.add(own);
        numbers.put(own, number);
        searched.add(1);
        UnsafeRow value = store.get(own, STATE);
        if (value != null && value.getInt(0) != FORMAT) {
          throw new IllegalStateException("the state of a key is of format " + value.getInt(0) + ", and this version of sparkcep reads format " + FORMAT);
        }
        dues.add(value == null || value.isNullAt(1) ? null : value.getLong(1));
        state = value == null ? null : value.getBinary(2);
      }
      head.update(0, came ? number : -1 - number);
      head.update(1, state);
      head.update(2, first ? (Object) watermark : null);
      first = false;
      return joined.apply(head, given);
    }
  }

  /** Rows of matches; the states among them are kept, and with the last row committed. */
  private static final class Output extends AbstractIterator<InternalRow> {
    private final Task task;
    private final StateStore store;
    private final Input input;
    private final Iterator<InternalRow> rows;
    private final long began;
    private final int at; // of the first of the last three columns
    private final UnsafeProjection valueOf = UnsafeProjection.create(new DataType[] {DataTypes.IntegerType, DataTypes.LongType, DataTypes.BinaryType});
    private final UnsafeProjection timerOf;
    private final UnsafeRow none;
    private final SQLMetric updated;
    private final SQLMetric removed;
    private final SQLMetric given;
    private final GenericInternalRow value = new GenericInternalRow(3);
    private final GenericInternalRow expiry = new GenericInternalRow(1);
    private final JoinedRow joined = new JoinedRow();
    private InternalRow ready;
    private boolean done;

    Output(Task task, StateStore store, Input input, Iterator<InternalRow> rows, long began) {
      this.task = task;
      this.store = store;
      this.input = input;
      this.rows = rows;
      this.began = began;
      at = task.operator.output().size() - 3;
      StructField[] fields = task.operator.timerSchema().fields();
      DataType[] types = new DataType[fields.length];
      for (int i = 0; i < fields.length; i++) {
        types[i] = fields[i].dataType();
      }
      timerOf = UnsafeProjection.create(types);
      none = UnsafeProjection.create(new DataType[] {DataTypes.BinaryType}).apply(new GenericInternalRow(new Object[] {new byte[0]})).copy();
      updated = task.operator.longMetric("numUpdatedStateRows");
      removed = task.operator.longMetric("numRemovedStateRows");
      given = task.operator.longMetric("numOutputRows");
    }

    @Override
    public boolean hasNext() {
      while (ready == null && !done) {
        if (!rows.hasNext()) {
          done = true;
          task.finish(store, began);
          break;
        }
        InternalRow row = rows.next();
        if (row.isNullAt(at)) {
          ready = row;
          given.add(1);
        } else {
          keep(row);
        }
      }
      return ready != null;
    }

    private void keep(InternalRow row) {
      UnsafeRow key = input.keys.get(row.getInt(at));
      Long before = input.dues.get(row.getInt(at));
      Long due = row.isNullAt(at + 2) ? null : row.getLong(at + 2);
      if (row.isNullAt(at + 1)) {
        store.remove(key, STATE);
        removed.add(1);
      } else {
        value.update(0, FORMAT);
        value.update(1, due);
        value.update(2, row.getBinary(at + 1));
        store.put(key, valueOf.apply(value), STATE);
        updated.add(1);
      }
      if (before != null && !before.equals(due)) {
        store.remove(timer(before, key), TIMERS);
      }
      if (due != null && !due.equals(before)) {
        store.put(timer(due, key), none, TIMERS);
      }
    }

    private UnsafeRow timer(long due, UnsafeRow key) {
      expiry.update(0, due);
      return timerOf.apply(joined.apply(expiry, key));
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
}
