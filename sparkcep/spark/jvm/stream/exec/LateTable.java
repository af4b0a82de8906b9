package org.sparkcep.stream.exec;

import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.reflect.ClassTag$;

/**
 * Appends the late rows of a micro-batch to a table, before its other rows are searched. A retried micro-batch has the same late
 * rows, so a note in the checkpoint records that they have been appended. If the driver dies between append and note, they are
 * appended twice.
 */
final class LateTable {
  private LateTable() {}

  /** Whether a row is late by its time. */
  static boolean isLate(InternalRow row, int time, long watermark) {
    return !row.isNullAt(time) && row.getLong(time) <= watermark;
  }

  /** {@code rows} have their time at index {@code time}, and the table's columns, of type {@code schema}, at index {@code late}. */
  static void append(
      SparkSession session, String table, RDD<InternalRow> rows, int time, int late, StructType schema, long watermark, StatefulOperatorStateInfo info,
      Configuration conf) {
    Path notes = new Path(info.checkpointLocation() + "/" + info.operatorId() + "/_sparkcep/late");
    Path note = new Path(notes, Long.toString(info.storeVersion()));
    try {
      FileSystem files = notes.getFileSystem(conf);
      if (files.exists(note)) {
        return;
      }
      RDD<InternalRow> found = rows.filter(new IsLate(time, watermark)).map(new Part(late, schema.length()), ClassTag$.MODULE$.apply(InternalRow.class));
      if (found.count() == 0) {
        return;
      }
      session.internalCreateDataFrame(found, schema, false).write().mode("append").insertInto(table);
      FileStatus[] older = files.exists(notes) ? files.listStatus(notes) : new FileStatus[0];
      files.mkdirs(notes);
      files.create(note, true).close();
      for (FileStatus other : older) {
        files.delete(other.getPath(), false);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private record IsLate(int time, long watermark) implements Function1<InternalRow, Object>, Serializable {
    @Override
    public Object apply(InternalRow row) {
      return isLate(row, time, watermark);
    }
  }

  private record Part(int place, int fields) implements Function1<InternalRow, InternalRow>, Serializable {
    @Override
    public InternalRow apply(InternalRow row) {
      return row.getStruct(place, fields).copy();
    }
  }
}
