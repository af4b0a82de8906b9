package org.sparkcep.blocks;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/**
 * Rows of a task, column by column, until they become blocks: rows of one target partition each, in the order in which they came.
 *
 * <p>A block is little-endian, and each part begins on a multiple of eight bytes: the format's mark, rows, bytes of the description
 * and bytes of the block (int32 each); the description; for each column a byte that says which rows are NULL ({@link
 * ColumnBuffer.Nulls}); the columns ({@link ColumnBuffer}). columns/blocks.py reads it.
 */
public final class BlockPage {
  static final int MARK = 0x33626373; // "scb3"
  static final int FIRST_ROWS = 256;
  private static final int BLOCK_ROWS = 1 << 16;
  private static final long BLOCK_BYTES = 8L << 20;
  private static final int TEXT_BYTES = 1 << 20; // of a column, that are added before memory is asked for
  private static final int HEAD = 16;
  private static final long BYTES = Platform.BYTE_ARRAY_OFFSET;

  private final byte[] description;
  private final int fields;
  private final ColumnBuffer[] columns;
  private final ColumnBuffer[] texts; // columns with values of their own lengths
  private final int partitions;
  private int[] targets; // the target partition of each row
  private int rows;

  private int[] order; // rows by target partition; null while rows are added
  private int[] bounds; // of each target partition in order
  private int partition;
  private int next; // in order
  private byte[] bytes = {}; // of the row that was taken last

  /**
   * @param input the columns of blocks, and last the target partition
   * @param fields the fields of an output row: number, block, and then NULLs
   */
  public BlockPage(StructType input, int partitions, byte[] description, int fields) {
    this.description = description;
    this.fields = fields;
    this.partitions = partitions;
    columns = new ColumnBuffer[input.length() - 1];
    for (int i = 0; i < columns.length; i++) {
      StructField field = input.apply(i);
      columns[i] = new ColumnBuffer(field.dataType(), ColumnType.of(field.dataType()), FIRST_ROWS);
    }
    texts = Arrays.stream(columns).filter(ColumnBuffer::hasLengths).toArray(ColumnBuffer[]::new);
    targets = new int[FIRST_ROWS];
  }

  public int rows() {
    return rows;
  }

  /** Doubles the room for rows. */
  public void grow() {
    int room = 2 * targets.length;
    targets = Arrays.copyOf(targets, room);
    for (ColumnBuffer column : columns) {
      column.grow(room);
    }
  }

  /** Returns the bytes of all arrays, with those that {@link #take} will need. */
  public long bytes() {
    long sum = 8L * targets.length;
    for (ColumnBuffer column : columns) {
      sum += column.bytes();
    }
    return sum;
  }

  /** Returns how many bytes a block has at most, but for single long values, if all arrays have {@code all} bytes. */
  public long blockBytes(long all) {
    return Math.min(all, Math.max(BLOCK_BYTES, bytes() * BLOCK_ROWS / targets.length));
  }

  /** Whether there are rows for a large block of each target partition. More of them at once only need more memory. */
  public boolean isComplete() {
    return rows >= (long) partitions * BLOCK_ROWS / 4 * 3; // a partition with more than its share has no small second block
  }

  /** Returns how many rows can be added before the page must grow. */
  public int space() {
    return targets.length - rows;
  }

  /** Begins to add rows of a batch. Their values of their own lengths end early if they are long ({@link ColumnBuffer#isLong}). */
  public void begin() {
    for (ColumnBuffer text : texts) {
      text.begin(TEXT_BYTES);
    }
  }

  /** Whether values of their own lengths needed more room since the last call. */
  public boolean hasGrown() {
    boolean found = false;
    for (ColumnBuffer text : texts) {
      found |= text.hasGrown();
    }
    return found;
  }

  /** Returns the values of a column, which are added before the page's rows are ({@link #added}). */
  public ColumnBuffer column(int i) {
    return columns[i];
  }

  /** Adds a row: the values of the columns, and last the target partition. */
  public void add(UnsafeRow row) {
    for (int i = 0; i < columns.length; i++) {
      columns[i].add(row, i, rows);
    }
    target(row.getInt(columns.length), rows);
    rows++;
  }

  /** Sets the target partition of the row {@code at}, which is not yet added. */
  public void target(int target, int at) {
    targets[at] = target;
  }

  /** Sets the target partitions of the next rows, which are a computed value. */
  public void targets(EntryValues entries, int value, int count) {
    entries.copy(value, count, targets, rows);
  }

  /** Adds {@code count} rows whose values and target partitions were set. Rows of which only some were set come next. */
  public void added(int count) {
    rows += count;
    for (ColumnBuffer text : texts) {
      text.forget(rows);
    }
  }

  /** Ends adding: blocks can be taken. Rows of a target partition keep their order (counting sort). */
  public void close() {
    bounds = new int[partitions + 1];
    for (int i = 0; i < rows; i++) {
      bounds[targets[i] + 1]++;
    }
    for (int p = 0; p < partitions; p++) {
      bounds[p + 1] += bounds[p];
    }
    int[] at = Arrays.copyOf(bounds, partitions);
    order = new int[rows];
    for (int i = 0; i < rows; i++) {
      order[at[targets[i]]++] = i;
    }
    partition = 0;
    next = 0;
  }

  /**
   * Returns the next block as a row: the number in {@code numbers} of its target partition, and its bytes. The row is valid until
   * the next one is taken. Returns null after the last one; then rows can be added again.
   */
  public UnsafeRow take(int[] numbers) {
    if (next == rows) {
      order = null;
      rows = 0;
      for (ColumnBuffer column : columns) {
        column.clear();
      }
      return null;
    }
    while (bounds[partition + 1] == next) {
      partition++;
    }
    int end = end(next, bounds[partition + 1]);
    UnsafeRow row = block(next, end, numbers[partition]);
    next = end;
    return row;
  }

  /** Returns where the block that begins at {@code from} ends. A block has at least one row, however long its values are. */
  private int end(int from, int to) {
    int parts = (to - from + BLOCK_ROWS - 1) / BLOCK_ROWS; // of equal size
    int end = from + (to - from + parts - 1) / parts;
    if (Arrays.stream(texts).noneMatch(ColumnBuffer::isUsed)) { // mostly the rests of keys, which are NULL
      return end;
    }
    long bytes = 0;
    for (int i = from; i < end; i++) {
      for (ColumnBuffer text : texts) {
        bytes += text.lengths(order, i, i + 1);
      }
      if (bytes > BLOCK_BYTES) {
        return Math.max(i, from + 1);
      }
    }
    return end;
  }

  static long padded(long bytes) {
    return (bytes + 7) & ~7L;
  }

  private UnsafeRow block(int from, int to, int number) {
    ColumnBuffer.Nulls[] nulls = new ColumnBuffer.Nulls[columns.length];
    long size = HEAD + padded(description.length) + padded(columns.length);
    for (int i = 0; i < columns.length; i++) {
      nulls[i] = columns[i].nulls(order, from, to);
      size += columns[i].written(to - from, nulls[i], columns[i].lengths(order, from, to));
    }
    int before = 8 + 8 * fields; // of an UnsafeRow: marks of NULLs, then the number, place and size of the bytes
    int length = Math.toIntExact(before + size);
    if (bytes.length < length) {
      bytes = new byte[length];
    }
    Arrays.fill(bytes, 0, length, (byte) 0); // bytes between the parts of a block
    Platform.putLong(bytes, BYTES, (1L << fields) - 4); // fields after the first two are NULL
    Platform.putInt(bytes, BYTES + 8, number);
    Platform.putLong(bytes, BYTES + 16, (long) before << 32 | size);
    int[] head = {MARK, to - from, description.length, (int) size};
    for (int i = 0; i < head.length; i++) {
      Platform.putInt(bytes, BYTES + before + 4L * i, head[i]);
    }
    System.arraycopy(description, 0, bytes, before + HEAD, description.length);
    long at = before + HEAD + padded(description.length);
    for (int i = 0; i < columns.length; i++) {
      bytes[(int) at + i] = (byte) nulls[i].ordinal();
    }
    at += padded(columns.length);
    for (int i = 0; i < columns.length; i++) {
      at = columns[i].write(order, from, to, nulls[i], bytes, at);
    }
    UnsafeRow row = new UnsafeRow(fields);
    row.pointTo(bytes, length);
    return row;
  }
}
