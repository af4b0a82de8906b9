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
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column that the engine returned. Arrow checks the bounds of each value three times, unless a property of the JVM says
 * otherwise; here the sizes of the buffers are checked once for all rows.
 */
final class ReturnedVector extends ColumnVector {
  private static final int OFFSET = Integer.BYTES; // of a string, in bytes

  private final ArrowColumnVector arrow;
  private final int count; // of NULLs
  private final long valid; // the address of a bit a row, 0 for NULL
  private final long values; // the address of the values, or of the offsets of strings
  private final long bytes; // the address of the bytes of strings

  private ReturnedVector(ArrowColumnVector arrow, FieldVector vector) {
    super(arrow.dataType());
    this.arrow = arrow;
    count = vector.getNullCount();
    valid = vector.getValidityBuffer().memoryAddress();
    values = vector instanceof VarCharVector ? vector.getOffsetBuffer().memoryAddress() : vector.getDataBuffer().memoryAddress();
    bytes = vector.getDataBuffer().memoryAddress();
  }

  /** Returns the values of {@code rows} rows of a column. */
  static ColumnVector of(ArrowColumnVector arrow, int rows) {
    ValueVector vector = arrow.getValueVector();
    if (vector instanceof BigIntVector || vector instanceof Float8Vector || vector instanceof IntVector || vector instanceof DateDayVector
        || vector instanceof TimeStampMicroVector || vector instanceof TimeStampMicroTZVector) {
      BaseFixedWidthVector fixed = (BaseFixedWidthVector) vector;
      check(fixed.getDataBuffer(), (long) rows * fixed.getTypeWidth());
      return checked(arrow, fixed, rows);
    }
    if (vector instanceof VarCharVector texts && rows > 0) {
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
      return checked(arrow, texts, rows);
    }
    return arrow;
  }

  private static ColumnVector checked(ArrowColumnVector arrow, FieldVector vector, int rows) {
    if (vector.getNullCount() > 0) {
      check(vector.getValidityBuffer(), (rows + 7L) / 8);
    }
    return new ReturnedVector(arrow, vector);
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

  /** The batch of the reader, which has the vector, is closed by it. */
  @Override
  public void close() {}

  @Override
  public boolean getBoolean(int row) {
    return arrow.getBoolean(row);
  }

  @Override
  public byte getByte(int row) {
    return arrow.getByte(row);
  }

  @Override
  public short getShort(int row) {
    return arrow.getShort(row);
  }

  @Override
  public float getFloat(int row) {
    return arrow.getFloat(row);
  }

  @Override
  public ColumnarArray getArray(int row) {
    return arrow.getArray(row);
  }

  @Override
  public ColumnarMap getMap(int row) {
    return arrow.getMap(row);
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    return arrow.getDecimal(row, precision, scale);
  }

  @Override
  public byte[] getBinary(int row) {
    return arrow.getBinary(row);
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return arrow.getChild(ordinal);
  }
}
