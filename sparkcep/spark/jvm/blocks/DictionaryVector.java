package org.sparkcep.blocks;

import java.util.Arrays;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Strings of a vector that has a dictionary, as Spark reads them from Parquet. Spark decodes a string in each row, and copies it;
 * here an entry of the dictionary is decoded once.
 */
public final class DictionaryVector extends ColumnVector {
  private static final int FIRST = 256;

  private final DictionaryEntries entries;
  private int changes = -1; // of the dictionary
  private UTF8String[] texts = {};

  /** {@code entries} has read the vector whose strings this vector has. */
  public DictionaryVector(DictionaryEntries entries) {
    super(DataTypes.StringType);
    this.entries = entries;
  }

  @Override
  public UTF8String getUTF8String(int row) {
    ColumnVector vector = entries.vector();
    if (vector.isNullAt(row)) {
      return null;
    }
    int entry = entries.entry(row);
    if (entry >= DictionaryEntries.MOST) {
      return vector.getUTF8String(row);
    }
    if (changes != entries.changes()) {
      changes = entries.changes();
      texts = new UTF8String[FIRST];
    }
    if (entry >= texts.length) {
      texts = Arrays.copyOf(texts, Math.max(entry + 1, 2 * texts.length));
    }
    UTF8String text = texts[entry];
    if (text == null) {
      text = vector.getUTF8String(row).copy();
      texts[entry] = text;
    }
    return text;
  }

  @Override
  public boolean hasNull() {
    return entries.vector().hasNull();
  }

  @Override
  public int numNulls() {
    return entries.vector().numNulls();
  }

  @Override
  public boolean isNullAt(int row) {
    return entries.vector().isNullAt(row);
  }

  /** The batch that has the vector closes it. */
  @Override
  public void close() {}

  @Override
  public boolean getBoolean(int row) {
    throw others();
  }

  @Override
  public byte getByte(int row) {
    throw others();
  }

  @Override
  public short getShort(int row) {
    throw others();
  }

  @Override
  public int getInt(int row) {
    throw others();
  }

  @Override
  public long getLong(int row) {
    throw others();
  }

  @Override
  public float getFloat(int row) {
    throw others();
  }

  @Override
  public double getDouble(int row) {
    throw others();
  }

  @Override
  public ColumnarArray getArray(int row) {
    throw others();
  }

  @Override
  public ColumnarMap getMap(int row) {
    throw others();
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    throw others();
  }

  @Override
  public byte[] getBinary(int row) {
    throw others();
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    throw others();
  }

  private static UnsupportedOperationException others() {
    return new UnsupportedOperationException("a vector of strings");
  }
}
