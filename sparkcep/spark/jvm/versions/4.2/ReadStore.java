package org.sparkcep;

import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.ReadStateStore;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/** A state of Spark 4.2's that is read beside a query. */
final class ReadStore {
  private ReadStore() {}

  /** A store beside those that Spark looks after, from which a family of columns is read. */
  static ReadStateStore opened(
      StateStoreProvider provider, long version, String family, StructType keys, StructType values, NoPrefixKeyStateEncoderSpec encoder) {
    StateStore store = provider.getStore(version, Option.empty(), false, false); // one that only reads knows no families
    store.createColFamilyIfAbsent(family, keys, values, encoder, false, false);
    return store;
  }
}
