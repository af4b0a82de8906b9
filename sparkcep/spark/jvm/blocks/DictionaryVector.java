package org.sparkcep.blocks;

import java.lang.reflect.Field;
import java.util.Arrays;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
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
  /** Entries that are kept. Parquet writes fewer into a dictionary, unless a setting says otherwise. */
  static final int MOST = 1 << 17;

  private static final int FIRST = 256;

  private WritableColumnVector vector;
  private WritableColumnVector entries;
  private Object dictionary;
  private int changes;
  private UTF8String[] texts = new UTF8String[FIRST];

  public DictionaryVector() {
    super(DataTypes.StringType);
  }

  /** Reads a vector of strings from now on. Returns false if it has no dictionary; then it cannot be read here. */
  public boolean read(ColumnVector next) {
    if (!(next instanceof WritableColumnVector given && given.hasDictionary())) {
      return false;
    }
    vector = given;
    entries = given.getDictionaryIds();
    Object found = Dictionaries.of(given);
    if (found != dictionary || found == null) {
      dictionary = found;
      changes++;
      texts = new UTF8String[FIRST];
    }
    return true;
  }

  /** Returns a number that changes when the dictionary does. */
  int changes() {
    return changes;
  }

  /** Returns the entry of a row that is not NULL: a number from 0 on. */
  int entry(int row) {
    return entries.getDictId(row);
  }

  @Override
  public UTF8String getUTF8String(int row) {
    if (vector.isNullAt(row)) {
      return null;
    }
    int entry = entries.getDictId(row);
    if (entry >= MOST) {
      return vector.getUTF8String(row);
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
    return vector.hasNull();
  }

  @Override
  public int numNulls() {
    return vector.numNulls();
  }

  @Override
  public boolean isNullAt(int row) {
    return vector.isNullAt(row);
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

  /** Tells dictionaries apart. Spark makes an object for each batch; the dictionary in it is that of a column chunk in the file. */
  private static final class Dictionaries {
    private static final Field OF_VECTOR = field(WritableColumnVector.class.getName());
    private static final Field OF_CHUNK = field("org.apache.spark.sql.execution.datasources.parquet.ParquetDictionary");

    /** Returns the dictionary of a vector; null if it cannot be told, so that its entries are decoded again in each batch. */
    static Object of(WritableColumnVector vector) {
      try {
        Object spark = OF_VECTOR == null ? null : OF_VECTOR.get(vector);
        return OF_CHUNK == null || !OF_CHUNK.getDeclaringClass().isInstance(spark) ? spark : OF_CHUNK.get(spark);
      } catch (IllegalAccessException e) {
        return null;
      }
    }

    private static Field field(String owner) {
      try {
        Field field = Class.forName(owner).getDeclaredField("dictionary");
        field.setAccessible(true);
        return field;
      } catch (ReflectiveOperationException e) {
        return null; // another version of Spark
      }
    }
  }
}
