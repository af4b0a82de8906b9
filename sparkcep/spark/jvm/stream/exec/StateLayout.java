package org.sparkcep.stream.exec;

import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStoreColFamilySchema;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.sparkcep.stream.StreamStatement;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;

/** The layout of the operator's state: column families, and the types of keys and values. */
final class StateLayout {
  static final String STATE = "match";
  static final String TIMERS = "timers";
  static final String COUNTS = "counts";
  static final int FORMAT = StreamStatement.STATE_FORMAT;

  private StateLayout() {}

  /** Returns the type of the value of a key: the format, the timer or NULL, and the state. */
  static StructType valueSchema() {
    return new StructType().add("format", DataTypes.IntegerType).add("due", DataTypes.LongType).add("state", DataTypes.BinaryType);
  }

  /** A timer: its time as {@link Timer} writes it, and the bytes of the key. */
  private static StructType timerSchema() {
    return new StructType().add("due", DataTypes.LongType, false).add("key", DataTypes.BinaryType, false);
  }

  private static StructType nothingSchema() {
    return new StructType().add("value", DataTypes.BinaryType);
  }

  private static StructType countedSchema() {
    return new StructType().add("of", DataTypes.IntegerType, false);
  }

  static NoPrefixKeyStateEncoderSpec encoder(StructType key) {
    return new NoPrefixKeyStateEncoderSpec(key);
  }

  /** Creates the column families in a store that lacks them. {@code keys}: the type of keys. */
  static void create(StateStore store, StructType keys) {
    store.createColFamilyIfAbsent(STATE, keys, valueSchema(), encoder(keys), false, false);
    store.createColFamilyIfAbsent(TIMERS, timerSchema(), nothingSchema(), encoder(timerSchema()), false, false);
    store.createColFamilyIfAbsent(COUNTS, countedSchema(), Counts.schema(), encoder(countedSchema()), false, false);
  }

  /** Returns the schemas that Spark stores next to the state, by column family. */
  static Map<String, StateStoreColFamilySchema> families(StructType keys) {
    Map<String, StateStoreColFamilySchema> families = Map$.MODULE$.<String, StateStoreColFamilySchema>empty();
    families = families.updated(STATE, family(STATE, keys, valueSchema()));
    families = families.updated(TIMERS, family(TIMERS, timerSchema(), nothingSchema()));
    return families.updated(COUNTS, family(COUNTS, countedSchema(), Counts.schema()));
  }

  private static StateStoreColFamilySchema family(String name, StructType key, StructType value) {
    short first = 0;
    return new StateStoreColFamilySchema(name, first, key, first, value, Option.apply(encoder(key)), Option.empty());
  }

  /** Writes timers in bytes that sort by time: the highest byte first, with its sign flipped. */
  static final class Timer {
    private final UnsafeRowWriter writer = new UnsafeRowWriter(2, 64);

    /** Returns the timer of a key. The next call overwrites it. */
    UnsafeRow of(long due, UnsafeRow key) {
      writer.reset();
      writer.zeroOutNullBytes();
      writer.write(0, Long.reverseBytes(due ^ Long.MIN_VALUE));
      writer.write(1, key.getBytes());
      return writer.getRow();
    }

    /** Returns the time of a timer. */
    static long due(UnsafeRow timer) {
      return Long.reverseBytes(timer.getLong(0)) ^ Long.MIN_VALUE;
    }
  }
}
