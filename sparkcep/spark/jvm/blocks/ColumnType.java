package org.sparkcep.blocks;

import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.TimeType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/**
 * How a column of a type is written into a block: its name in the block's header, which columns/blocks.py reads, and the width of a
 * value in bytes. A width of 0 means that values have their own lengths.
 */
public record ColumnType(String name, int width) {
  /** Returns how a type is written; null if blocks cannot hold it. */
  public static ColumnType of(DataType type) {
    if (type instanceof LongType) {
      return new ColumnType("int64", 8);
    } else if (type instanceof IntegerType) {
      return new ColumnType("int32", 4);
    } else if (type instanceof ShortType) {
      return new ColumnType("int16", 2);
    } else if (type instanceof ByteType) {
      return new ColumnType("int8", 1);
    } else if (type instanceof BooleanType) {
      return new ColumnType("bool", 1);
    } else if (type instanceof DoubleType) {
      return new ColumnType("double", 8);
    } else if (type instanceof FloatType) {
      return new ColumnType("float", 4);
    } else if (type instanceof DateType) {
      return new ColumnType("date", 4);
    } else if (type instanceof TimestampType) {
      return new ColumnType("timestamp", 8);
    } else if (type instanceof TimestampNTZType) {
      return new ColumnType("timestamp_ntz", 8);
    } else if (type instanceof DayTimeIntervalType) {
      return new ColumnType("duration", 8);
    } else if (type instanceof TimeType) {
      return new ColumnType("time", 8);
    } else if (type instanceof DecimalType decimal) {
      return decimal(decimal.precision(), decimal.scale());
    } else if (type.equals(DataTypes.StringType)) { // a string of another collation is not equal to it
      return new ColumnType("string", 0);
    } else if (type instanceof BinaryType) {
      return new ColumnType("binary", 0);
    }
    return null;
  }

  private static ColumnType decimal(int precision, int scale) {
    String name = "decimal " + precision + " " + scale;
    if (precision > 18) { // Decimal.MAX_LONG_DIGITS()
      return new ColumnType(name, 16);
    }
    return new ColumnType(name, 8);
  }
}
