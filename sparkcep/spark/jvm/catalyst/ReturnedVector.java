package org.sparkcep.catalyst;

import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.DateDayVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.Float8Vector;
import org.apache.arrow.vector.IntVector;
import org.apache.arrow.vector.TimeStampMicroTZVector;
import org.apache.arrow.vector.TimeStampMicroVector;
import org.apache.arrow.vector.ValueVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column that the engine returned. Arrow checks the bounds of each value three times, unless a property of the JVM says
 * otherwise; here the sizes of the buffers are checked once for all rows.
 */
final class ReturnedVector extends ArrowColumnVector {
  private static final int OFFSET = Integer.BYTES; // of a string, in bytes

  private final int count; // of NULLs
  private final long valid; // the address of a bit a row, 0 for NULL
  private final long values; // the address of the values, or of the offsets of strings
  private final long bytes; // the address of the bytes of strings

  private ReturnedVector(FieldVector vector) {
    super(vector);
    count = vector.getNullCount();
    valid = vector.getValidityBuffer().memoryAddress();
    values = vector instanceof VarCharVector ? vector.getOffsetBuffer().memoryAddress() : vector.getDataBuffer().memoryAddress();
    bytes = vector.getDataBuffer().memoryAddress();
  }

  /**
   * Returns the values of {@code rows} rows of a column. {@code type}: as which Spark reads them. Where Arrow's differs, such as in
   * the precision of a time, Spark's own vector reads them.
   */
  static ColumnVector of(ArrowColumnVector arrow, DataType type, int rows) {
    ValueVector vector = arrow.getValueVector();
    if (rows == 0 || !arrow.dataType().equals(type)) {
      return arrow;
    }
    if (vector instanceof BigIntVector || vector instanceof Float8Vector || vector instanceof IntVector || vector instanceof DateDayVector
        || vector instanceof TimeStampMicroVector || vector instanceof TimeStampMicroTZVector) {
      BaseFixedWidthVector fixed = (BaseFixedWidthVector) vector;
      check(fixed.getDataBuffer(), (long) rows * fixed.getTypeWidth());
      return checked(fixed, rows);
    }
    if (vector instanceof VarCharVector texts) {
      ArrowBuf offsets = texts.getOffsetBuffer();
      check(offsets, (rows + 1L) * OFFSET);
      int before = 0;
      for (int i = 0; i <= rows; i++) {
        int offset = offsets.getInt((long) i * OFFSET);
        if (offset < before) {
          throw new IllegalStateException("the engine returned a string of less than no bytes");
        }
        before = offset;
      }
      check(texts.getDataBuffer(), before);
      return checked(texts, rows);
    }
    return arrow;
  }

  private static ColumnVector checked(FieldVector vector, int rows) {
    if (vector.getNullCount() > 0) {
      check(vector.getValidityBuffer(), (rows + 7L) / 8);
    }
    return new ReturnedVector(vector);
  }

  private static void check(ArrowBuf buffer, long bytes) {
    if (buffer.capacity() < bytes) {
      throw new IllegalStateException("the engine returned a buffer of " + buffer.capacity() + " bytes, and " + bytes + " are needed");
    }
  }

  @Override
  public boolean hasNull() {
    return count > 0;
  }

  @Override
  public int numNulls() {
    return count;
  }

  @Override
  public boolean isNullAt(int row) {
    return count > 0 && (Platform.getByte(null, valid + (row >> 3)) >> (row & 7) & 1) == 0;
  }

  @Override
  public int getInt(int row) {
    return Platform.getInt(null, values + 4L * row);
  }

  @Override
  public long getLong(int row) {
    return Platform.getLong(null, values + 8L * row);
  }

  @Override
  public double getDouble(int row) {
    return Platform.getDouble(null, values + 8L * row);
  }

  @Override
  public UTF8String getUTF8String(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int from = Platform.getInt(null, values + (long) OFFSET * row);
    int to = Platform.getInt(null, values + (long) OFFSET * (row + 1));
    return UTF8String.fromAddress(null, bytes + from, to - from);
  }
}
