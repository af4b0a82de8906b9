package org.sparkcep.blocks;

import java.lang.reflect.Field;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;

/** The dictionary of a column, as Parquet has one for few different values: each row has the number of its entry. */
public final class DictionaryEntries {
  /** Entries that are kept. Parquet writes fewer into a dictionary, unless a setting says otherwise. */
  static final int MOST = 1 << 17;

  private ColumnVector vector;
  private WritableColumnVector numbers; // null without a dictionary
  private Object dictionary;
  private int changes;

  /** Reads a vector from now on. */
  public void read(ColumnVector next) {
    vector = next;
    numbers = null;
    if (next instanceof WritableColumnVector given && given.hasDictionary()) {
      numbers = given.getDictionaryIds();
      Object found = Dictionaries.of(given);
      if (found != dictionary || found == null) {
        dictionary = found;
        changes++;
      }
    }
  }

  /** Whether the vector has a dictionary. Otherwise its rows have no entries. */
  public boolean hasDictionary() {
    return numbers != null;
  }

  /** Returns the vector that was read last. */
  public ColumnVector vector() {
    return vector;
  }

  /** Returns a number that changes when the dictionary does. */
  int changes() {
    return changes;
  }

  /** Returns the entry of a row that is not NULL: a number from 0 on. */
  int entry(int row) {
    return numbers.getDictId(row);
  }

  /** Tells dictionaries apart. Spark makes an object for each batch; the dictionary in it is that of a column chunk in the file. */
  private static final class Dictionaries {
    private static final Field OF_VECTOR = field(WritableColumnVector.class.getName());
    private static final Field OF_CHUNK = field("org.apache.spark.sql.execution.datasources.parquet.ParquetDictionary");

    /** Returns the dictionary of a vector; null if that is unknown, so that its entries are decoded again in each batch. */
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
