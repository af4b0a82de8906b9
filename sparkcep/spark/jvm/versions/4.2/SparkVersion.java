package org.sparkcep.versions;

import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import scala.collection.Iterator;

/** Calls of classes of Spark 4.2, and of later versions without a class of their own here. */
public final class SparkVersion {
  /** The number of parameters of the constructor of Spark's operator. */
  public static final int PARAMETERS = 17;

  private SparkVersion() {}

  /** Returns the values of many keys; null for those that the store lacks. */
  public static Iterator<UnsafeRow> values(StateStore store, UnsafeRow[] keys, String family) {
    return store.multiGet(keys, family);
  }
}
