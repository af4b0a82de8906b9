package org.sparkcep.versions;

import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.ReadStateStore;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/** Opens a Spark 4.1 state store for reading while the query runs. */
public final class ReadStore {
  private ReadStore() {}

  /** Opens a store that Spark does not manage, to read a column family. */
  public static ReadStateStore opened(
      StateStoreProvider provider, long version, String family, StructType keys, StructType values, NoPrefixKeyStateEncoderSpec encoder) {
    StateStore store = provider.getStore(version, Option.empty()); // a read-only store does not know column families
    store.createColFamilyIfAbsent(family, keys, values, encoder, false, false);
    return store;
  }
}
