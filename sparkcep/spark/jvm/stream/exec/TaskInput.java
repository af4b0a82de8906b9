package org.sparkcep.stream.exec;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.stream.IntStream;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStoreIterator;
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair;
import org.apache.spark.unsafe.types.UTF8String;
import org.sparkcep.stream.StreamOperator;
import org.sparkcep.versions.SparkVersion;
import scala.Option;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/**
 * Yields the rows that are not late, with the number of their key, and then the states of their keys and of due keys. Python reads
 * all of them before it returns its first row.
 */
final class TaskInput extends AbstractIterator<InternalRow> {
  private static final int HEAD = 2; // columns before those of a row
  private static final int NO_KEY = Integer.MIN_VALUE; // the number of a row without a key
  private static final int TOGETHER = 1024; // the number of states that are read at once

  /**
   * The additional input of tasks: the content of each table, null without tables; and whether all keys with timers are searched.
   */
  record Beside(Broadcast<byte[][]> tables, boolean again) implements Serializable {
    static final Beside NOTHING = new Beside(null, false);

    int count() {
      return tables == null ? 0 : tables.value().length;
    }
  }

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
  private int yielded; // how many rows without a key were passed
  private int arrived = -1; // how many keys have rows, known after the rows have passed
  private int examined; // how many keys have been examined after the rows

  TaskInput(MatchStateExec operator, StateStore store, Iterator<InternalRow> rows, Beside beside) {
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
    untimed = operator.longMetric(MatchStateExec.UNTIMED);
    searched = operator.longMetric(MatchStateExec.KEYS);
  }

  /** Returns a watermark in microseconds; the least number without one. */
  static long micros(Option<Object> millis) {
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
    while (row == null && arrived < 0 && rows.hasNext()) {
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
    if (arrived < 0) {
      arrived = keys.size();
      addDue();
      readStates();
      searched.add(keys.size());
    }
    while (examined < arrived && values.get(examined) == null) {
      examined++;
    }
    return examined < keys.size();
  }

  private void addDue() {
    try (StateStoreIterator<UnsafeRowPair> timers = store.iterator(StateLayout.TIMERS)) {
      while (timers.hasNext()) {
        UnsafeRow timer = timers.next().key();
        if (StateLayout.Timer.due(timer) > watermark && !beside.again()) {
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
      Iterator<UnsafeRow> found = SparkVersion.values(store, some, StateLayout.STATE);
      for (int i = from; found.hasNext(); i++) {
        UnsafeRow value = found.next();
        if (value != null && value.getInt(0) != StateLayout.FORMAT) {
          throw new IllegalStateException("the state of a key is of format " + value.getInt(0) + ", and this version of sparkcep reads format " + StateLayout.FORMAT);
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
    if (yielded <= beside.count()) {
      byte[] content = yielded == 0 ? ByteBuffer.allocate(Long.BYTES + checkpoint.length).putLong(watermark).put(checkpoint).array() : beside.tables().value()[yielded - 1];
      yielded++;
      return joined.of(NO_KEY, content, nothing);
    }
    if (row == null) {
      UnsafeRow value = values.get(examined);
      return joined.of(-1 - examined++, value == null ? null : value.getBinary(2), nothing);
    }
    InternalRow given = row;
    row = null;
    return joined.of(keys.of(given), null, given);
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
}
