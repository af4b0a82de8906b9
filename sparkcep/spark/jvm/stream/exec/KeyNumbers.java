package org.sparkcep.stream.exec;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Numbers the keys of a task in the order of their arrival. A key is identified by the bytes of its row. If the key is a single
 * column whose equal values have equal bytes, it is looked up by value, and its bytes are written only once.
 */
final class KeyNumbers {
  private final List<UnsafeRow> keys = new ArrayList<>();
  private final Map<UnsafeRow, Integer> numbers = new HashMap<>();
  private final Map<Object, Integer> byValue = new HashMap<>();
  private final Seq<Attribute> grouping;
  private final Seq<Attribute> columns;
  private final int place; // the index of the single column; -1 for other keys
  private final DataType type;
  private final UnsafeRowWriter writer = new UnsafeRowWriter(1, 64);
  private UnsafeProjection projection; // created for the first row that needs it

  /** {@code grouping}: the key's attributes among the {@code columns} of rows. */
  KeyNumbers(Seq<Attribute> grouping, Seq<Attribute> columns) {
    this.grouping = grouping;
    this.columns = columns;
    type = grouping.size() == 1 ? grouping.head().dataType() : null;
    boolean alone = type instanceof StringType || type instanceof LongType || type instanceof IntegerType;
    List<Attribute> all = CollectionConverters.asJava(columns);
    int found = -1;
    for (int i = 0; alone && i < all.size(); i++) {
      found = all.get(i).exprId().equals(grouping.head().exprId()) ? i : found;
    }
    place = found;
  }

  int size() {
    return keys.size();
  }

  UnsafeRow get(int number) {
    return keys.get(number);
  }

  /** Returns the bytes of each key. */
  byte[][] bytes() {
    return keys.stream().map(UnsafeRow::getBytes).toArray(byte[][]::new);
  }

  /** Adds the key with these bytes, if it is missing. */
  void add(byte[] bytes) {
    UnsafeRow key = new UnsafeRow(grouping.size());
    key.pointTo(bytes, bytes.length);
    if (numbers.putIfAbsent(key, keys.size()) == null) {
      keys.add(key);
    }
  }

  /** Returns the number of a row's key. */
  int of(InternalRow row) {
    if (place < 0 || row.isNullAt(place)) {
      return number(projected(row));
    }
    Object value = row.get(place, type);
    Integer known = byValue.get(value);
    if (known != null) {
      return known;
    }
    int number = number(written(value));
    byValue.put(value instanceof UTF8String text ? text.copy() : value, number); // the text is part of the row's memory
    return number;
  }

  private int number(UnsafeRow key) {
    Integer known = numbers.get(key);
    if (known != null) {
      return known;
    }
    UnsafeRow own = key.copy();
    numbers.put(own, keys.size());
    keys.add(own);
    return keys.size() - 1;
  }

  private UnsafeRow projected(InternalRow row) {
    if (projection == null) {
      @SuppressWarnings({"unchecked", "rawtypes"})
      UnsafeProjection made = UnsafeProjection.create((Seq) grouping, columns);
      projection = made;
    }
    return projection.apply(row);
  }

  /** Returns a key of one column in the form that a projection writes. */
  private UnsafeRow written(Object value) {
    writer.reset();
    writer.zeroOutNullBytes();
    if (value instanceof UTF8String text) {
      writer.write(0, text);
    } else if (value instanceof Long number) {
      writer.write(0, number.longValue());
    } else {
      writer.write(0, ((Integer) value).intValue());
    }
    return writer.getRow();
  }
}
