package org.sparkcep.versions;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.sparkcep.catalyst.Scala;
import scala.collection.Iterator;

/** Calls of classes of Spark 4.1, and of later versions without a class of their own here. */
public final class SparkVersion {
  /** The number of parameters of the constructor of Spark's operator. */
  public static final int PARAMETERS = 16;

  private SparkVersion() {}

  /** Returns the values of many keys; null for those that the store lacks. */
  public static Iterator<UnsafeRow> values(StateStore store, UnsafeRow[] keys, String family) {
    List<UnsafeRow> found = new ArrayList<>();
    for (UnsafeRow key : keys) {
      UnsafeRow value = store.get(key, family);
      found.add(value == null ? null : value.copy()); // the next call may overwrite it
    }
    return Scala.seq(found).iterator();
  }
}
