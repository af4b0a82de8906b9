package org.sparkcep.budget;

import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.DeterministicLevel;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import scala.Enumeration;
import scala.collection.Iterator;
import scala.reflect.ClassTag$;

/**
 * The rows of a clause whose second run may return others (BUDGET INTERVAL by a real clock).
 *
 * <p>Without this mark Spark would run a lost task once more after other tasks have read its output, and rows would be lost or
 * occur twice. With it Spark runs all tasks of the stage and of the stages after it once more, or fails the query.
 */
final class UnrepeatableRows extends RDD<InternalRow> {
  private static final long serialVersionUID = 1L;
  private final transient RDD<InternalRow> rows;

  UnrepeatableRows(RDD<InternalRow> rows) {
    super(rows, ClassTag$.MODULE$.apply(InternalRow.class));
    this.rows = rows;
  }

  /** Whether {@code clock}, the clock of BUDGET INTERVAL or "", measures time. */
  static boolean isReal(String clock) {
    return !clock.isEmpty() && !clock.startsWith("counted");
  }

  @Override
  public Partition[] getPartitions() {
    return rows.partitions();
  }

  @Override
  public Iterator<InternalRow> compute(Partition part, TaskContext context) {
    return rows.iterator(part, context);
  }

  @Override
  public Enumeration.Value getOutputDeterministicLevel() {
    return DeterministicLevel.INDETERMINATE();
  }

  /** Serializes as the rows themselves, because executors lack this class and do not need the mark. */
  private Object writeReplace() {
    return rows;
  }
}
