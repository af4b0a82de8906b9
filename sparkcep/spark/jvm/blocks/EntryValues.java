package org.sparkcep.blocks;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;

/**
 * Computed values that depend on one column with a dictionary. They are computed once for each entry, and once for NULL.
 *
 * <p>Example: rows with the entries 3, 3, 0 and the value {@code hash(symbol)} have the slots 4, 4, 1, and two hashes are computed.
 * Slot 0 is for NULL.
 */
public final class EntryValues {
  private static final int FIRST = 256;
  private static final int MOST_MISSING = 1024; // before the share of rows with an entry of their own is looked at

  /** How the values of an entry are computed. */
  public interface Computation {
    /**
     * Computes the values of a row.
     *
     * @param fixed gets the bytes of each value that has at most eight
     * @param nulls gets whether each value is NULL
     * @return the row of values, of which those of at most eight bytes are not read
     */
    UnsafeRow compute(ColumnarBatch batch, int row, long[] fixed, boolean[] nulls);
  }

  private final Computation computed;
  private final int count; // of computed values
  private final long[] bytes; // of the values that were computed last
  private final boolean[] areNull;
  private UnsafeRow[] rows; // the computed values by slot; null where they are missing
  private long[][] fixed; // of each computed value the bytes by slot, if it has at most eight
  private boolean[][] nulls; // of each computed value, whether it is NULL, by slot
  private final int[] nullEntries; // of each computed value, how many entries have NULL
  private int[] slots = {}; // of the rows that were read
  private int changes = -1; // of the dictionary
  private long read; // rows since the dictionary changed
  private int missing; // entries whose values were computed since then

  public EntryValues(Computation computed, int count) {
    this.computed = computed;
    this.count = count;
    nullEntries = new int[count];
    bytes = new long[count];
    areNull = new boolean[count];
  }

  /**
   * Computes the values of these rows that are missing. Returns false if most rows have an entry of their own, or if an entry has a
   * number that is too large to be kept; then the rows were not read.
   *
   * @param entries of the column in the batch
   * @param from the first of the {@code some} rows in {@code of}
   */
  public boolean read(DictionaryEntries entries, ColumnarBatch batch, int[] of, int from, int some) {
    if (changes != entries.changes()) {
      changes = entries.changes();
      rows = new UnsafeRow[FIRST];
      fixed = new long[count][FIRST];
      nulls = new boolean[count][FIRST];
      Arrays.fill(nullEntries, 0);
      read = 0;
      missing = 0;
    }
    read += some; // of a row that is not looked at, too: entries may repeat later
    if (missing > MOST_MISSING && 2L * missing > read) {
      return false;
    }
    if (slots.length < some) {
      slots = new int[some];
    }
    boolean hasNull = entries.vector().hasNull();
    for (int i = 0; i < some; i++) {
      int row = of[from + i];
      int slot = hasNull && entries.vector().isNullAt(row) ? 0 : entries.entry(row) + 1;
      if (slot > DictionaryEntries.MOST) {
        return false;
      }
      if (slot >= rows.length || rows[slot] == null) {
        compute(slot, batch, row);
      }
      slots[i] = slot;
    }
    return true;
  }

  private void compute(int slot, ColumnarBatch batch, int row) {
    if (slot >= rows.length) {
      int room = Math.max(slot + 1, 2 * rows.length);
      rows = Arrays.copyOf(rows, room);
      for (int i = 0; i < count; i++) {
        fixed[i] = Arrays.copyOf(fixed[i], room);
        nulls[i] = Arrays.copyOf(nulls[i], room);
      }
    }
    rows[slot] = computed.compute(batch, row, bytes, areNull);
    missing++;
    for (int i = 0; i < count; i++) {
      nulls[i][slot] = areNull[i];
      nullEntries[i] += areNull[i] ? 1 : 0;
      fixed[i][slot] = bytes[i];
    }
  }

  /** Returns the computed values of the {@code i}-th row that was read. */
  UnsafeRow row(int i) {
    return rows[slots[i]];
  }

  /** Whether a computed value is NULL for some entry. */
  boolean hasNull(int value) {
    return nullEntries[value] > 0;
  }

  /** Whether a computed value is NULL for all entries. */
  boolean isNull(int value) {
    return nullEntries[value] == missing;
  }

  /** Whether a computed value of the {@code i}-th row that was read is NULL. */
  boolean isNull(int value, int i) {
    return nulls[value][slots[i]];
  }

  /** Copies a computed value of the first rows that were read into an array of bytes. {@code width}: bytes of a value, 1 to 8. */
  void copy(int value, int width, int some, byte[] out, long at) {
    long[] found = fixed[value];
    switch (width) {
      case 8 -> {
        for (int i = 0; i < some; i++, at += 8) {
          Platform.putLong(out, at, found[slots[i]]);
        }
      }
      case 4 -> {
        for (int i = 0; i < some; i++, at += 4) {
          Platform.putInt(out, at, (int) found[slots[i]]);
        }
      }
      case 2 -> {
        for (int i = 0; i < some; i++, at += 2) {
          Platform.putShort(out, at, (short) found[slots[i]]);
        }
      }
      default -> {
        for (int i = 0; i < some; i++, at++) {
          Platform.putByte(out, at, (byte) found[slots[i]]);
        }
      }
    }
  }

  /** Copies an integer of the first rows that were read, from the place {@code at} on. */
  void copy(int value, int some, int[] out, int at) {
    long[] found = fixed[value];
    for (int i = 0; i < some; i++) {
      out[at + i] = (int) found[slots[i]];
    }
  }
}
