package org.sparkcep.stream.exec;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.function.BiConsumer;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.sparkcep.budget.BudgetTotals;

/**
 * Counts the contents of one partition of the state. The counts are updated in each micro-batch and stored in a row of the state
 * itself; otherwise counting would read the whole state.
 */
final class Counts {
  static final String OPEN = "openKeys";
  static final String KEPT = "keptRows";
  static final String PENDING = "pendingRows";
  static final String BYTES = "stateBytes";
  static final String MATCHES = "matches";
  private static final int FIELDS = 4;
  private static final UnsafeRow ALL = row(new Object[] {0}, DataTypes.IntegerType);

  private final long[] counted = new long[FIELDS];
  private final long[] before;
  private final long[] checked = new long[BudgetTotals.VALUES.length];
  private boolean budgeted;
  private long matches;

  private Counts(long[] before) {
    this.before = before;
    System.arraycopy(before, 0, counted, 0, FIELDS);
  }

  static StructType schema() {
    StructType schema = new StructType();
    for (String name : new String[] {OPEN, KEPT, PENDING, BYTES}) {
      schema = schema.add(name, DataTypes.LongType, false);
    }
    return schema;
  }

  static Counts read(StateStore store, String family) {
    UnsafeRow known = store.get(ALL, family);
    long[] before = new long[FIELDS];
    for (int i = 0; known != null && i < FIELDS; i++) {
      before[i] = known.getLong(i);
    }
    return new Counts(before);
  }

  void write(StateStore store, String family) {
    if (!java.util.Arrays.equals(before, counted)) {
      store.put(
          ALL, row(new Object[] {counted[0], counted[1], counted[2], counted[3]}, DataTypes.LongType, DataTypes.LongType, DataTypes.LongType, DataTypes.LongType),
          family);
    }
  }

  private static UnsafeRow row(Object[] values, DataType... types) {
    return UnsafeProjection.create(types).apply(new GenericInternalRow(values)).copy();
  }

  long open() {
    return counted[0];
  }

  /** Removes a key's old state from the counts; null if it had none. */
  void forget(byte[] state) {
    counted[0] -= state == null ? 0 : 1;
    counted[3] -= state == null ? 0 : state.length;
  }

  void keep(byte[] state) {
    counted[0]++;
    counted[3] += state.length;
  }

  /**
   * Adds Python's counts: how many more rows are kept and pending than before, matches, microseconds, and with BUDGET the totals of
   * its checks. Returns milliseconds.
   */
  long add(byte[] numbers) {
    ByteBuffer read = ByteBuffer.wrap(numbers).order(ByteOrder.LITTLE_ENDIAN);
    counted[1] += read.getLong();
    counted[2] += read.getLong();
    matches += read.getLong();
    long micros = read.getLong();
    budgeted |= read.hasRemaining();
    for (int i = 0; read.hasRemaining(); i++) {
      checked[i] += read.getLong();
    }
    return Math.round(micros / 1000.0);
  }

  /** Passes the metrics of a clause with BUDGET to {@code metric}: name and description. */
  static void checks(BiConsumer<String, String> metric) {
    for (String[] value : BudgetTotals.VALUES) {
      if (!value[0].equals(MATCHES)) { // every clause has this one
        metric.accept(value[0], value[1]);
      }
    }
  }

  void each(BiConsumer<String, Long> metric) {
    metric.accept(OPEN, counted[0]);
    metric.accept(KEPT, counted[1]);
    metric.accept(PENDING, counted[2]);
    metric.accept(BYTES, counted[3]);
    metric.accept(MATCHES, matches);
    for (int i = 0; budgeted && i < checked.length; i++) {
      if (!BudgetTotals.VALUES[i][0].equals(MATCHES)) {
        metric.accept(BudgetTotals.VALUES[i][0], checked[i]);
      }
    }
  }
}
