package org.sparkcep.exchange;

import java.math.BigInteger;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The values of one column in the order in which rows came. {@link #write} copies those of chosen rows into a block.
 *
 * <p>A column of a block is, each part on a multiple of eight bytes: one byte a row that is 1 for NULL, if the column has NULLs;
 * then the values, or for values of their own lengths the ends of the values (int32) and the bytes of all of them. The slot of a
 * NULL has zeros, or no bytes.
 */
final class ColumnBuffer {
  private static final long BYTES = Platform.BYTE_ARRAY_OFFSET;

  private final DataType type;
  private final ColumnType written;
  private byte[] values; // width bytes a row, or the bytes of all rows
  private int used; // of values, if these have their own lengths
  private int[] ends; // of each row in values; null if the width is fixed
  private boolean[] nulls; // null as long as there is none
  private int size;

  ColumnBuffer(DataType type, ColumnType written, int rows) {
    this.type = type;
    this.written = written;
    values = new byte[Math.max(8, written.width()) * rows];
    ends = written.width() == 0 ? new int[rows] : null;
    size = rows;
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

  /** Adds a value as that of the row {@code at}. */
  void add(InternalRow row, int column, int at) {
    boolean isNull = row.isNullAt(column);
    if (isNull) {
      if (nulls == null) {
        nulls = new boolean[size];
      }
      nulls[at] = true;
    }
    switch (written.width()) {
      case 8 -> Platform.putLong(values, BYTES + 8L * at, isNull ? 0 : written.reader().read(row, column));
      case 4 -> Platform.putInt(values, BYTES + 4L * at, isNull ? 0 : (int) written.reader().read(row, column));
      case 2 -> Platform.putShort(values, BYTES + 2L * at, isNull ? 0 : (short) written.reader().read(row, column));
      case 1 -> values[at] = isNull ? 0 : (byte) written.reader().read(row, column);
      case 16 -> addWide(isNull ? BigInteger.ZERO : ColumnType.unscaled(row, column, type), at);
      default -> addBytes(row, column, at, isNull);
    }
  }

  private void addWide(BigInteger value, int at) {
    Platform.putLong(values, BYTES + 16L * at, value.longValue());
    Platform.putLong(values, BYTES + 16L * at + 8, value.shiftRight(64).longValue());
  }

  private void addBytes(InternalRow row, int column, int at, boolean isNull) {
    if (isNull) {
      ends[at] = used;
      return;
    }
    if (type instanceof BinaryType) {
      byte[] value = row.getBinary(column);
      room(value.length);
      System.arraycopy(value, 0, values, used, value.length);
      used += value.length;
    } else {
      UTF8String value = row.getUTF8String(column);
      room(value.numBytes());
      value.writeToMemory(values, BYTES + used);
      used += value.numBytes();
    }
    ends[at] = used;
  }

  private void room(int more) {
    if (used + (long) more > values.length) {
      values = Arrays.copyOf(values, (int) Math.min(Integer.MAX_VALUE - 8L, Math.max(2L * values.length, used + (long) more)));
    }
  }

  /** Whether any of these rows has NULL. {@code rows[from]} to {@code rows[to - 1]} are the rows. */
  boolean hasNull(int[] rows, int from, int to) {
    for (int i = from; nulls != null && i < to; i++) {
      if (nulls[rows[i]]) {
        return true;
      }
    }
    return false;
  }

  /** Returns the number of bytes of these rows' values, if these have their own lengths; else 0. */
  long lengths(int[] rows, int from, int to) {
    long sum = 0;
    for (int i = from; ends != null && i < to; i++) {
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
  long written(int count, boolean withNulls, long lengths) {
    long nullBytes = withNulls ? padded(count) : 0;
    return nullBytes + (ends == null ? padded((long) written.width() * count) : padded(4L * count) + padded(lengths));
  }

  static long padded(long bytes) {
    return (bytes + 7) & ~7L;
  }

  /** Writes the values of these rows into {@code block} from the byte {@code at} on. Returns the byte after them. */
  long write(int[] rows, int from, int to, boolean withNulls, byte[] block, long at) {
    int count = to - from;
    if (withNulls) {
      for (int i = from; i < to; i++) {
        block[(int) at + i - from] = (byte) (nulls[rows[i]] ? 1 : 0);
      }
      at += padded(count);
    }
    long out = BYTES + at;
    switch (written.width()) {
      case 8 -> {
        for (int i = from; i < to; i++, out += 8) {
          Platform.putLong(block, out, Platform.getLong(values, BYTES + 8L * rows[i]));
        }
      }
      case 4 -> {
        for (int i = from; i < to; i++, out += 4) {
          Platform.putInt(block, out, Platform.getInt(values, BYTES + 4L * rows[i]));
        }
      }
      case 0 -> {
        return writeBytes(rows, from, to, block, at);
      }
      default -> {
        int width = written.width();
        for (int i = from; i < to; i++, out += width) {
          Platform.copyMemory(values, BYTES + (long) width * rows[i], block, out, width);
        }
      }
    }
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
