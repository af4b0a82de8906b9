package org.sparkcep.blocks;

import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;

/**
 * Copies values of at most eight bytes from a vector into an array of bytes. The slot of a NULL gets zeros.
 *
 * @param vector the values
 * @param rows the values' rows in the vector, ascending, from {@code from} on
 * @param values gets the values, from the value {@code at} on
 * @param nulls which values are NULL, by their places in {@code values}; null if none is
 */
record FixedWidths(ColumnVector vector, int[] rows, int from, int count, byte[] values, int at, boolean[] nulls) {
  private static final long BYTES = Platform.BYTE_ARRAY_OFFSET;

  /** Copies values of a type with this width. */
  void copy(DataType type, int width) {
    long out = BYTES + (long) width * at;
    switch (width) {
      case 8 -> copyLongs(type, out);
      case 4 -> copyInts(type, out);
      case 2 -> {
        for (int i = 0; i < count; i++, out += 2) {
          Platform.putShort(values, out, isNull(i) ? (short) 0 : vector.getShort(rows[from + i]));
        }
      }
      default -> {
        boolean isBoolean = type instanceof BooleanType;
        for (int i = 0; i < count; i++) {
          int row = rows[from + i];
          values[at + i] = isNull(i) ? 0 : isBoolean ? (byte) (vector.getBoolean(row) ? 1 : 0) : vector.getByte(row);
        }
      }
    }
  }

  private void copyLongs(DataType type, long out) {
    if (type instanceof DecimalType decimal) {
      for (int i = 0; i < count; i++, out += 8) {
        Platform.putLong(values, out, isNull(i) ? 0 : vector.getDecimal(rows[from + i], decimal.precision(), decimal.scale()).toUnscaledLong());
      }
    } else if (type instanceof DoubleType) {
      if (areAtOnce()) {
        Platform.copyMemory(vector.getDoubles(rows[from], count), Platform.DOUBLE_ARRAY_OFFSET, values, out, 8L * count);
        return;
      }
      for (int i = 0; i < count; i++, out += 8) {
        Platform.putDouble(values, out, isNull(i) ? 0 : vector.getDouble(rows[from + i]));
      }
    } else if (areAtOnce()) {
      Platform.copyMemory(vector.getLongs(rows[from], count), Platform.LONG_ARRAY_OFFSET, values, out, 8L * count);
    } else {
      for (int i = 0; i < count; i++, out += 8) {
        Platform.putLong(values, out, isNull(i) ? 0 : vector.getLong(rows[from + i]));
      }
    }
  }

  private void copyInts(DataType type, long out) {
    if (type instanceof FloatType) {
      if (areAtOnce()) {
        Platform.copyMemory(vector.getFloats(rows[from], count), Platform.FLOAT_ARRAY_OFFSET, values, out, 4L * count);
        return;
      }
      for (int i = 0; i < count; i++, out += 4) {
        Platform.putFloat(values, out, isNull(i) ? 0 : vector.getFloat(rows[from + i]));
      }
    } else if (areAtOnce()) {
      Platform.copyMemory(vector.getInts(rows[from], count), Platform.INT_ARRAY_OFFSET, values, out, 4L * count);
    } else {
      for (int i = 0; i < count; i++, out += 4) {
        Platform.putInt(values, out, isNull(i) ? 0 : vector.getInt(rows[from + i]));
      }
    }
  }

  /** Writes values of up to 16 bytes into a block, from the place {@code out} on. {@code rows} lists them. */
  static void write(byte[] values, int width, int[] rows, int from, int to, byte[] block, long out) {
    switch (width) {
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
      default -> {
        for (int i = from; i < to; i++, out += width) {
          Platform.copyMemory(values, BYTES + (long) width * rows[i], block, out, width);
        }
      }
    }
  }

  /** Whether the rows lie beside each other and none is NULL, so that their values are copied at once. */
  private boolean areAtOnce() {
    return count > 0 && rows[from + count - 1] - rows[from] == count - 1 && !vector.hasNull();
  }

  private boolean isNull(int i) {
    return nulls != null && nulls[at + i];
  }
}
