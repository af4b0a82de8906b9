package org.sparkcep.exchange;

import java.io.Serializable;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.sparkcep.blocks.BlockPage;
import org.sparkcep.blocks.DictionaryEntries;
import org.sparkcep.blocks.DictionaryVector;
import org.sparkcep.catalyst.Expressions;
import scala.collection.immutable.Seq;

/** Batches of columns, whose values become those of blocks. Spark's operators reuse a batch for the next rows. */
final class BatchInput implements BlockRows.Input {
  /**
   * What is read.
   *
   * @param vectors of each column of blocks, the vector of a batch; -1 for a computed value
   * @param computed the computed values, and the target partition
   * @param condition that rows fulfil; null if there is none
   * @param batch the columns of a batch
   */
  record Columns(int[] vectors, List<ComputedValues.Group> computed, Expression condition, Seq<Attribute> batch)
      implements Serializable {}

  private final Iterator<ColumnarBatch> batches;
  private final int[] vectors;
  private final ComputedValues[] computed;
  private final BasePredicate condition;
  private final DictionaryEntries[] entries; // of each column of a batch
  private final DictionaryVector[] texts; // of each column of a batch; null if it has no strings
  private ColumnarBatch given; // by the operator below
  private ColumnarBatch batch;
  private int[] rows = {}; // of the batch, that fulfil the condition
  private int count; // of rows
  private int next; // in rows

  BatchInput(Iterator<ColumnarBatch> batches, Columns columns, int partition) {
    this.batches = batches;
    vectors = columns.vectors();
    condition = columns.condition() == null ? null : Expressions.predicate(columns.condition(), columns.batch());
    if (condition != null) {
      condition.initialize(partition);
    }
    int all = columns.batch().length();
    entries = new DictionaryEntries[all];
    texts = new DictionaryVector[all];
    for (int i = 0; i < all; i++) {
      entries[i] = new DictionaryEntries();
      texts[i] = columns.batch().apply(i).dataType().equals(DataTypes.StringType) ? new DictionaryVector(entries[i]) : null;
    }
    computed = columns.computed().stream()
        .map(group -> new ComputedValues(group, columns.batch(), entries, partition)).toArray(ComputedValues[]::new);
  }

  @Override
  public boolean hasNext() {
    while (next == count) {
      if (given != null) {
        given.closeIfFreeable();
        given = null;
      }
      if (!batches.hasNext()) {
        return false;
      }
      given = batches.next();
      batch = decoded();
      select();
    }
    return true;
  }

  /** Returns a batch whose strings are decoded once if they have a dictionary. */
  private ColumnarBatch decoded() {
    ColumnVector[] columns = new ColumnVector[entries.length]; // a source may have further columns
    for (int i = 0; i < columns.length; i++) {
      entries[i].read(given.column(i));
      columns[i] = texts[i] != null && entries[i].hasDictionary() ? texts[i] : given.column(i);
    }
    return new ColumnarBatch(columns, given.numRows());
  }

  private void select() {
    int all = batch.numRows();
    if (rows.length < all) {
      rows = new int[all];
    }
    next = 0;
    count = 0;
    for (int row = 0; row < all; row++) {
      rows[count] = row;
      if (condition == null || condition.eval(batch.getRow(row))) {
        count++;
      }
    }
  }

  @Override
  public void add(BlockPage page) {
    int some = Math.min(count - next, page.space());
    page.begin();
    for (int i = 0; i < vectors.length; i++) {
      if (vectors[i] >= 0) {
        some = page.column(i).add(batch.column(vectors[i]), rows, next, some, page.rows());
      }
    }
    for (ComputedValues values : computed) {
      some = values.add(page, batch, rows, next, some);
    }
    page.added(some);
    next += some;
  }
}
