package org.sparkcep.exchange;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Chr;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;
import org.apache.spark.unsafe.types.UTF8String;
import org.sparkcep.blocks.BlockPage;
import org.sparkcep.blocks.DictionaryEntries;
import org.sparkcep.blocks.EntryValues;
import org.sparkcep.catalyst.Expressions;
import org.sparkcep.catalyst.Scala;
import org.sparkcep.functions.Shipment;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Computed values of blocks that depend on the same column of a batch. They are computed once for each entry of the column's
 * dictionary if it has one, and otherwise row by row. The parts of a string key are then computed without Spark's projection, which
 * would read the string for each of them.
 */
final class ComputedValues {
  static final int TARGET = -1;
  private static final int SEVERAL = -1;
  private static final int SEED = 42; // of Spark's hash partitioning

  /** What is computed of a string key: the number of its first bytes, its rest ({@link Shipment}), and the target partition. */
  enum Part { PREFIX, REST, TARGET }

  /**
   * What is computed.
   *
   * @param values deterministic expressions over the columns of a batch
   * @param columns of blocks that get the values; {@link #TARGET} for the target partition
   * @param source the only column of a batch that the values depend on; negative if there are several, or none
   * @param parts what each value is of the string key {@code source}; null if a value is something else
   * @param partitions how many target partitions there are
   */
  record Group(Seq<Expression> values, int[] columns, int source, Part[] parts, int partitions) implements Serializable {
    /**
     * Groups values by the columns of a batch that they depend on.
     *
     * @param values by the column of blocks that gets them
     */
    static List<Group> of(Map<Integer, Expression> values, List<Attribute> batch, int partitions) {
      Map<Integer, List<Integer>> bySource = new LinkedHashMap<>();
      values.forEach((column, value) -> bySource.computeIfAbsent(source(value, batch), source -> new ArrayList<>()).add(column));
      List<Group> groups = new ArrayList<>();
      bySource.forEach((source, columns) -> {
        List<Expression> chosen = columns.stream().map(values::get).toList();
        Part[] parts = source < 0 ? null : parts(chosen, batch.get(source), partitions);
        groups.add(new Group(Scala.seq(chosen), columns.stream().mapToInt(column -> column).toArray(), source, parts, partitions));
      });
      return groups;
    }

    private static Part[] parts(List<Expression> values, Attribute key, int partitions) {
      if (!key.dataType().equals(DataTypes.StringType)) { // a string of another collation is not equal to it
        return null;
      }
      Map<Part, Expression> known = Map.of(
          Part.PREFIX, Shipment.prefix(key), Part.REST, Shipment.rest(key),
          Part.TARGET, new HashPartitioning(Scala.seq(List.<Expression>of(key)), partitions).partitionIdExpression());
      Part[] parts = new Part[values.size()];
      for (int i = 0; i < parts.length; i++) {
        for (Map.Entry<Part, Expression> one : known.entrySet()) {
          parts[i] = values.get(i).semanticEquals(one.getValue()) ? one.getKey() : parts[i];
        }
        if (parts[i] == null) {
          return null;
        }
      }
      return parts;
    }

    private static int source(Expression value, List<Attribute> batch) {
      int found = SEVERAL;
      for (int i = 0; i < batch.size(); i++) {
        if (value.references().contains(batch.get(i))) {
          if (found >= 0) {
            return SEVERAL;
          }
          found = i;
        }
      }
      return found;
    }
  }

  private final UnsafeProjection projection;
  private final int[] columns;
  private final DictionaryEntries source; // null if there are several
  private final EntryValues ofEntries;
  private final Part[] parts;
  private final int partitions;
  private final UnsafeRow nothing; // the values of a key whose rest is NULL

  /** {@code entries}: of each column of a batch. */
  ComputedValues(Group group, Seq<Attribute> batch, DictionaryEntries[] entries, int partition) {
    Seq<Expression> values = Scala.seq(CollectionConverters.asJava(group.values()).stream().map(ComputedValues::folded).toList());
    projection = UnsafeProjection.create(values, batch);
    projection.initialize(partition);
    columns = group.columns();
    source = group.source() < 0 ? null : entries[group.source()];
    ofEntries = new EntryValues(this::compute, columns.length);
    parts = group.parts();
    partitions = group.partitions();
    nothing = UnsafeRow.createFromByteArray(UnsafeRow.calculateBitSetWidthInBytes(columns.length) + 8 * columns.length, columns.length);
    for (int i = 0; i < columns.length; i++) {
      nothing.setNullAt(i);
    }
  }

  /**
   * Adds the values of rows of a batch as those of the next rows of a page, until strings need many bytes. {@code rows} lists these
   * rows, {@code most} of them from {@code from} on.
   *
   * @return of how many rows the values were added
   */
  int add(BlockPage page, ColumnarBatch batch, int[] rows, int from, int most) {
    int some = most;
    if (source != null && source.hasDictionary() && ofEntries.read(source, batch, rows, from, some)) {
      for (int value = 0; value < columns.length; value++) {
        if (columns[value] == TARGET) {
          page.targets(ofEntries, value, some);
        } else {
          some = page.column(columns[value]).add(ofEntries, value, some, page.rows());
        }
      }
      return some;
    }
    for (int i = 0; i < some; i++) {
      if (parts != null && !source.vector().isNullAt(rows[from + i])) {
        addParts(page, source.vector().getUTF8String(rows[from + i]), page.rows() + i);
      } else {
        addRow(page, batch, rows[from + i], page.rows() + i);
      }
      if (isLong(page)) {
        return i + 1;
      }
    }
    return some;
  }

  /** Whether these values need many bytes. Strings of other columns, which were added before, may. */
  private boolean isLong(BlockPage page) {
    boolean found = false;
    for (int column : columns) {
      found |= column != TARGET && page.column(column).isLong();
    }
    return found;
  }

  private void addRow(BlockPage page, ColumnarBatch batch, int of, int at) {
    UnsafeRow row = projection.apply(batch.getRow(of));
    for (int value = 0; value < columns.length; value++) {
      if (columns[value] == TARGET) {
        page.target(row.getInt(value), at);
      } else {
        page.column(columns[value]).add(row, value, at);
      }
    }
  }

  private void addParts(BlockPage page, UTF8String key, int at) {
    for (int value = 0; value < columns.length; value++) {
      switch (parts[value]) {
        case PREFIX -> page.column(columns[value]).add(key.getPrefix(), at);
        case REST -> page.column(columns[value]).add(Shipment.isInPrefix(key) ? null : key, at);
        case TARGET -> page.target(target(key), at);
      }
    }
  }

  private int target(UTF8String key) {
    return Math.floorMod(Murmur3_x86_32.hashUnsafeBytes(key.getBaseObject(), key.getBaseOffset(), key.numBytes(), SEED), partitions);
  }

  /** Computes the values of an entry ({@link EntryValues.Computation}). */
  private UnsafeRow compute(ColumnarBatch batch, int row, long[] fixed, boolean[] nulls) {
    UTF8String key = parts == null || source.vector().isNullAt(row) ? null : source.vector().getUTF8String(row);
    if (key != null && Shipment.isInPrefix(key)) {
      for (int value = 0; value < columns.length; value++) {
        nulls[value] = parts[value] == Part.REST;
        fixed[value] = parts[value] == Part.PREFIX ? key.getPrefix() : parts[value] == Part.TARGET ? target(key) : 0;
      }
      return nothing;
    }
    UnsafeRow found = projection.apply(batch.getRow(row)).copy();
    for (int value = 0; value < columns.length; value++) {
      nulls[value] = found.isNullAt(value);
      fixed[value] = nulls[value] ? 0 : found.getLong(value);
    }
    return found;
  }

  /** Returns a value with the character of {@code chr(0)}, which Shipment writes: Spark would make it for each row. */
  static Expression folded(Expression value) {
    return Expressions.replaced(
        value, part -> part instanceof Chr chr && chr.foldable() ? new Literal(chr.eval(null), chr.dataType()) : part);
  }
}
