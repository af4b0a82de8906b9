package org.sparkcep.exchange;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.sparkcep.blocks.BlockPage;
import org.sparkcep.blocks.DictionaryEntries;
import org.sparkcep.blocks.EntryValues;
import org.sparkcep.catalyst.Scala;
import scala.collection.immutable.Seq;

/**
 * Computed values of blocks that depend on the same column of a batch. They are computed once for each entry of the column's
 * dictionary if it has one, and otherwise row by row.
 */
final class ComputedValues {
  static final int TARGET = -1;
  private static final int SEVERAL = -1;

  /**
   * What is computed.
   *
   * @param values deterministic expressions over the columns of a batch
   * @param columns of blocks that get the values; {@link #TARGET} for the target partition
   * @param source the only column of a batch that the values depend on; negative if there are several, or none
   */
  record Group(Seq<Expression> values, int[] columns, int source) implements Serializable {
    /**
     * Groups values by the columns of a batch that they depend on.
     *
     * @param values by the column of blocks that gets them
     */
    static List<Group> of(Map<Integer, Expression> values, List<Attribute> batch) {
      Map<Integer, List<Integer>> bySource = new LinkedHashMap<>();
      values.forEach((column, value) -> bySource.computeIfAbsent(source(value, batch), source -> new ArrayList<>()).add(column));
      List<Group> groups = new ArrayList<>();
      bySource.forEach((source, columns) -> groups.add(
          new Group(Scala.seq(columns.stream().map(values::get).toList()), columns.stream().mapToInt(column -> column).toArray(), source)));
      return groups;
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
  private final int place; // of the source in a batch
  private final EntryValues ofEntries;

  /** {@code entries}: of each column of a batch; null if no group depends on it alone. */
  ComputedValues(Group group, Seq<Attribute> batch, DictionaryEntries[] entries, int partition) {
    projection = UnsafeProjection.create(group.values(), batch);
    projection.initialize(partition);
    columns = group.columns();
    place = group.source();
    source = place < 0 ? null : entries[place];
    ofEntries = new EntryValues(projection, columns.length);
  }

  /**
   * Adds the values of {@code some} rows of a batch as those of the next rows of a page. {@code rows} lists these rows, from {@code
   * from} on. {@code isEncoded}: of each column of the batch, whether it has a dictionary.
   */
  void add(BlockPage page, ColumnarBatch batch, boolean[] isEncoded, int[] rows, int from, int some) {
    if (source != null && isEncoded[place] && ofEntries.read(source, batch, rows, from, some)) {
      for (int value = 0; value < columns.length; value++) {
        if (columns[value] == TARGET) {
          page.targets(ofEntries, value, some);
        } else {
          page.column(columns[value]).add(ofEntries, value, some, page.rows());
        }
      }
      return;
    }
    for (int i = 0; i < some; i++) {
      UnsafeRow row = projection.apply(batch.getRow(rows[from + i]));
      for (int value = 0; value < columns.length; value++) {
        if (columns[value] == TARGET) {
          page.target(row.getInt(value), page.rows() + i);
        } else {
          page.column(columns[value]).add(row, value, page.rows() + i);
        }
      }
    }
  }
}
