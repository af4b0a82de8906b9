package org.sparkcep.blocks;

import static org.sparkcep.blocks.BlockPage.padded;

import java.math.BigInteger;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The values of one column in the order in which rows came. {@link #write} copies those of chosen rows into a block.
 *
 * <p>A column of a block is, each part on a multiple of eight bytes: one byte a row that is 1 for NULL, if some values are NULL;
 * then the values, or for values of their own lengths the ends of the values (int32) and the bytes of all of them. The slot of a
 * NULL has zeros, or no bytes. Nothing is written of a column whose values are all NULL.
 */
public final class ColumnBuffer {
  /** Which values of a block's column are NULL. The number of each is part of the format. */
  enum Nulls { NONE, SOME, ALL }

  private static final long BYTES = Platform.BYTE_ARRAY_OFFSET;
  private static final long MOST = Integer.MAX_VALUE - 8L; // bytes of an array

  private final DataType type;
  private final ColumnType written;
  private byte[] values; // width bytes a row, or the bytes of all rows
  private int used; // of values, if these have their own lengths
  private long most; // of used, after which no further value of a batch is added
  private int[] ends; // of each row in values; null if the width is fixed
  private boolean[] nulls; // null as long as there is none
  private final boolean isBinary;
  private int size;
  private boolean grown;

  ColumnBuffer(DataType type, ColumnType written, int rows) {
    this.type = type;
    this.written = written;
    values = new byte[Math.max(8, written.width()) * rows];
    ends = written.width() == 0 ? new int[rows] : null;
    size = rows;
    isBinary = type instanceof BinaryType;
  }

  /** Returns the number of bytes that the arrays have. */
  long bytes() {
    return values.length + (ends == null ? 0 : 4L * ends.length) + (nulls == null ? 0 : nulls.length);
  }

  /** Makes room for this many rows. */
  void grow(int rows) {
    if (ends == null) {
      values = Arrays.copyOf(values, written.width() * rows);
    } else {
      ends = Arrays.copyOf(ends, rows);
    }
    nulls = nulls == null ? null : Arrays.copyOf(nulls, rows);
    size = rows;
  }

  /** Forgets the values of all rows. */
  void clear() {
    used = 0;
    nulls = null;
  }

  /** Whether values have their own lengths. */
  boolean hasLengths() {
    return ends != null;
  }

  /** Whether a value has bytes of its own length. */
  boolean isUsed() {
    return used > 0;
  }

  /** Lets the values of a batch have about {@code bytes} more bytes. */
  void begin(int bytes) {
    most = used + (long) bytes;
  }

  /** Whether the values of a batch have so many bytes. */
  public boolean isLong() {
    return used > most;
  }

  /** Forgets the bytes of the values from the row {@code from} on. Which of them are NULL stays: the same rows come next. */
  void forget(int from) {
    used = start(from);
  }

  /** Whether the bytes of values needed more room since the last call. */
  boolean hasGrown() {
    boolean found = grown;
    grown = false;
    return found;
  }

  /** Adds a value of a row as that of the row {@code at}. */
  public void add(UnsafeRow row, int column, int at) {
    boolean isNull = row.isNullAt(column);
    if (isNull) {
      markNull(at);
    }
    switch (written.width()) { // a field of a row has eight bytes, and a shorter value has the first of them
      case 8 -> Platform.putLong(values, BYTES + 8L * at, isNull ? 0 : row.getLong(column));
      case 4 -> Platform.putInt(values, BYTES + 4L * at, isNull ? 0 : row.getInt(column));
      case 2 -> Platform.putShort(values, BYTES + 2L * at, isNull ? (short) 0 : row.getShort(column));
      case 1 -> values[at] = isNull ? 0 : row.getByte(column);
      case 16 -> addWide(isNull ? null : row.getDecimal(column, decimal().precision(), decimal().scale()), at);
      default -> {
        if (isBinary) {
          addBytes(isNull ? null : row.getBinary(column), at);
        } else {
          addBytes(isNull ? null : row.getUTF8String(column), at);
        }
      }
    }
  }

  /** Adds a value of eight bytes as that of the row {@code at}. */
  public void add(long value, int at) {
    Platform.putLong(values, BYTES + 8L * at, value);
  }

  /** Adds a string as that of the row {@code at}. {@code value} may be null. */
  public void add(UTF8String value, int at) {
    if (value == null) {
      markNull(at);
    }
    addBytes(value, at);
  }

  /**
   * Adds values of a vector as those of the rows from {@code at} on. {@code rows} lists the values' rows, from {@code from} on.
   * Returns how many of {@code count} values were added: fewer if they are long.
   */
  public int add(ColumnVector vector, int[] rows, int from, int count, int at) {
    if (vector.hasNull()) {
      for (int i = 0; i < count; i++) {
        if (vector.isNullAt(rows[from + i])) {
          markNull(at + i);
        }
      }
    }
    switch (written.width()) {
      case 8, 4, 2, 1 -> new FixedWidths(vector, rows, from, count, values, at, nulls).copy(type, written.width());
      case 16 -> {
        for (int i = 0; i < count; i++) {
          addWide(isNull(at + i) ? null : vector.getDecimal(rows[from + i], decimal().precision(), decimal().scale()), at + i);
        }
      }
      default -> {
        for (int i = 0; i < count; i++) {
          if (isBinary) {
            addBytes(isNull(at + i) ? null : vector.getBinary(rows[from + i]), at + i);
          } else {
            addBytes(isNull(at + i) ? null : vector.getUTF8String(rows[from + i]), at + i);
          }
          if (isLong()) {
            return i + 1;
          }
        }
      }
    }
    return count;
  }

  /**
   * Adds a computed value of the rows that {@code entries} has read as those of the rows from {@code at} on. Returns for how many
   * of {@code count} rows it was added: fewer if the values are long.
   */
  public int add(EntryValues entries, int value, int count, int at) {
    int width = written.width();
    if (width == 0 && entries.isNull(value)) { // mostly the rest of a key
      markNull(at);
      Arrays.fill(nulls, at, at + count, true);
      Arrays.fill(ends, at, at + count, used);
      return count;
    }
    if (width == 0 || width > 8) {
      for (int i = 0; i < count; i++) {
        add(entries.row(i), value, at + i);
        if (isLong()) {
          return i + 1;
        }
      }
      return count;
    }
    for (int i = 0; i < count && entries.hasNull(value); i++) {
      if (entries.isNull(value, i)) {
        markNull(at + i);
      }
    }
    entries.copy(value, width, count, values, BYTES + (long) width * at);
    return count;
  }

  private void markNull(int at) {
    if (nulls == null) {
      nulls = new boolean[size];
    }
    nulls[at] = true;
  }

  private boolean isNull(int at) {
    return nulls != null && nulls[at];
  }

  private DecimalType decimal() {
    return (DecimalType) type;
  }

  private void addWide(Decimal value, int at) {
    BigInteger unscaled = value == null ? BigInteger.ZERO : value.toJavaBigDecimal().unscaledValue();
    Platform.putLong(values, BYTES + 16L * at, unscaled.longValue());
    Platform.putLong(values, BYTES + 16L * at + 8, unscaled.shiftRight(64).longValue());
  }

  private void addBytes(byte[] value, int at) {
    if (value != null) {
      room(value.length);
      System.arraycopy(value, 0, values, used, value.length);
      used += value.length;
    }
    ends[at] = used;
  }

  private void addBytes(UTF8String value, int at) {
    if (value != null) {
      room(value.numBytes());
      value.writeToMemory(values, BYTES + used);
      used += value.numBytes();
    }
    ends[at] = used;
  }

  private void room(int more) {
    long needed = used + (long) more;
    if (needed > MOST) { // bytes are written without a check of bounds
      throw new IllegalStateException("the values of a column need " + needed + " bytes in a task's memory, but at most " + MOST
          + " are possible: SET sparkcep.exchange.taskBytes to less, or SET sparkcep.exchange = rows");
    }
    if (needed > values.length) {
      values = Arrays.copyOf(values, (int) Math.min(MOST, Math.max(2L * values.length, needed)));
      grown = true;
    }
  }

  /** Returns which of these rows have NULL. {@code rows[from]} to {@code rows[to - 1]} are the rows. */
  Nulls nulls(int[] rows, int from, int to) {
    int found = 0;
    for (int i = from; nulls != null && i < to; i++) {
      found += nulls[rows[i]] ? 1 : 0;
    }
    return found == 0 ? Nulls.NONE : found < to - from ? Nulls.SOME : Nulls.ALL;
  }

  /** Returns the number of bytes of these rows' values, if these have their own lengths; else 0. */
  long lengths(int[] rows, int from, int to) {
    long sum = 0;
    for (int i = from; used > 0 && i < to; i++) {
      sum += length(rows[i]);
    }
    return sum;
  }

  private int length(int row) {
    return ends[row] - start(row);
  }

  private int start(int row) {
    return row == 0 ? 0 : ends[row - 1];
  }

  /** Returns how many bytes the column of a block has that is written for {@code count} rows. */
  long written(int count, Nulls some, long lengths) {
    if (some == Nulls.ALL) {
      return 0;
    }
    long nullBytes = some == Nulls.SOME ? padded(count) : 0;
    return nullBytes + (ends == null ? padded((long) written.width() * count) : padded(4L * count) + padded(lengths));
  }

  /** Writes the values of these rows into {@code block} from the byte {@code at} on. Returns the byte after them. */
  long write(int[] rows, int from, int to, Nulls some, byte[] block, long at) {
    if (some == Nulls.ALL) {
      return at;
    }
    int count = to - from;
    if (some == Nulls.SOME) {
      for (int i = from; i < to; i++) {
        block[(int) at + i - from] = (byte) (nulls[rows[i]] ? 1 : 0);
      }
      at += padded(count);
    }
    if (ends != null) {
      return writeBytes(rows, from, to, block, at);
    }
    FixedWidths.write(values, written.width(), rows, from, to, block, BYTES + at);
    return at + padded((long) written.width() * count);
  }

  private long writeBytes(int[] rows, int from, int to, byte[] block, long at) {
    int end = 0;
    int out = (int) (at + padded(4L * (to - from)));
    for (int i = from; i < to; i++) {
      int length = length(rows[i]);
      System.arraycopy(values, start(rows[i]), block, out + end, length);
      end += length;
      Platform.putInt(block, BYTES + at + 4L * (i - from), end);
    }
    return out + padded(end);
  }
}
