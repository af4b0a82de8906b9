package org.sparkcep.exchange;

import java.io.Serializable;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.sparkcep.blocks.BlockPage;
import org.sparkcep.blocks.DictionaryVector;
import org.sparkcep.blocks.EntryValues;
import scala.collection.immutable.Seq;

/** Batches of columns, whose values become those of blocks. Spark's operators reuse a batch for the next rows. */
final class BatchInput implements BlockRows.Input {
  /**
   * What is read.
   *
   * @param vectors of each column of blocks, the vector of a batch; -1 for a computed value
   * @param computed the computed values in order, and last the target partition
   * @param condition that rows fulfil; null if there is none
   * @param batch the columns of a batch
   * @param source the only column of a batch that computed values depend on; -1 if there are several, or none
   */
  record Columns(int[] vectors, Seq<Expression> computed, Expression condition, Seq<Attribute> batch, int source)
      implements Serializable {}

  private static final int TEXT_ROWS = 256; // that are added before memory is asked for: a batch may have few strings, many times

  private final Iterator<ColumnarBatch> batches;
  private final int[] vectors;
  private final UnsafeProjection computed;
  private final BasePredicate condition;
  private final DictionaryVector[] texts; // of each column of a batch; null if it has no strings
  private final int source;
  private final EntryValues ofEntries; // of the source
  private ColumnarBatch batch;
  private int[] rows = {}; // of the batch, that fulfil the condition
  private int count; // of rows
  private int next; // in rows

  BatchInput(Iterator<ColumnarBatch> batches, Columns columns, int partition) {
    this.batches = batches;
    vectors = columns.vectors();
    computed = UnsafeProjection.create(columns.computed(), columns.batch());
    computed.initialize(partition);
    condition = columns.condition() == null ? null : Predicate$.MODULE$.create(columns.condition(), columns.batch());
    if (condition != null) {
      condition.initialize(partition);
    }
    source = columns.source();
    ofEntries = new EntryValues(computed, columns.computed().length());
    texts = new DictionaryVector[columns.batch().length()];
    for (int i = 0; i < texts.length; i++) {
      texts[i] = columns.batch().apply(i).dataType().equals(DataTypes.StringType) ? new DictionaryVector() : null;
    }
  }

  @Override
  public boolean hasNext() {
    while (next == count) {
      if (!batches.hasNext()) {
        return false;
      }
      batch = decoded(batches.next());
      select();
    }
    return true;
  }

  /** Returns a batch whose strings are decoded once if they have a dictionary. */
  private ColumnarBatch decoded(ColumnarBatch given) {
    ColumnVector[] columns = new ColumnVector[given.numCols()];
    for (int i = 0; i < columns.length; i++) {
      columns[i] = given.column(i);
      if (texts[i] != null && texts[i].read(columns[i])) {
        columns[i] = texts[i];
      }
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
    int some = Math.min(Math.min(count - next, page.space()), page.hasTexts() ? TEXT_ROWS : Integer.MAX_VALUE);
    int first = page.rows();
    for (int i = 0; i < vectors.length; i++) {
      if (vectors[i] >= 0) {
        page.column(i).add(batch.column(vectors[i]), rows, next, some, first);
      }
    }
    if (source >= 0 && batch.column(source) == texts[source] && ofEntries.read(texts[source], batch, rows, next, some)) {
      addEntries(page, some);
    } else {
      addComputed(page, some);
    }
    next += some;
  }

  /** Adds computed values column by column. */
  private void addEntries(BlockPage page, int some) {
    int value = 0;
    for (int c = 0; c < vectors.length; c++) {
      if (vectors[c] < 0) {
        page.column(c).add(ofEntries, value++, some, page.rows());
      }
    }
    page.added(ofEntries, value, some);
  }

  /** Adds computed values row by row. */
  private void addComputed(BlockPage page, int some) {
    for (int i = 0; i < some; i++) {
      UnsafeRow row = computed.apply(batch.getRow(rows[next + i]));
      int value = 0;
      for (int c = 0; c < vectors.length; c++) {
        if (vectors[c] < 0) {
          page.column(c).add(row, value++, page.rows());
        }
      }
      page.added(row.getInt(value));
    }
  }
}
