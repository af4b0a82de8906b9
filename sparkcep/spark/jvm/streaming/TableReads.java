package org.sparkcep;

import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction2;

/**
 * Reads the tables beside a stream before the rows of a micro-batch are searched, once for each micro-batch: what was read is
 * written to the {@link TableLog} first, and a micro-batch that is tried again takes it from there.
 */
final class TableReads {
  private final SparkSession session;
  private final ReadTables tables;
  private final StatefulOperatorStateInfo info;
  private final String plan;

  /** {@code plan}: that of the clause, as JSON. */
  TableReads(SparkSession session, ReadTables tables, StatefulOperatorStateInfo info, String plan) {
    this.session = session;
    this.tables = tables;
    this.info = info;
    this.plan = plan;
  }

  /**
   * What the micro-batch at hand reads. {@code rows} are those that come, with their time at place {@code time}; {@code late} and
   * {@code watermark}, in microseconds, are those of the micro-batch before and of this one.
   */
  TableLog.Entry read(RDD<InternalRow> rows, int time, long late, long watermark) {
    long batch = info.storeVersion();
    try {
      TableLog log = new TableLog(info, session.sessionState().newHadoopConf());
      TableLog.Entry known = log.read(batch);
      if (known != null) {
        return known;
      }
      TableLog.Entry before = batch == 0 ? null : log.read(batch - 1);
      if (batch > 0 && before == null) {
        throw new IllegalStateException("what was read of " + names() + " in micro-batch " + (batch - 1) + " is missing in the checkpoint; begin with a new one");
      }
      TableLog.Entry now = changed(batch, before, late, watermark);
      now = new TableLog.Entry(now.since(), largest(rows, time, late, before == null ? TableLog.NONE : before.largest()), now.again(), now.read(), now.given());
      log.write(batch, now);
      log.purge(batch - session.sessionState().conf().minBatchesToRetain());
      return now;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private String names() {
    return String.join(", ", CollectionConverters.asJava(tables.names()));
  }

  /** What the tables hold now, and what the engine gets of it; that of the micro-batch {@code before} where it is the same. */
  private TableLog.Entry changed(long batch, TableLog.Entry before, long late, long watermark) {
    List<byte[]> read = new ArrayList<>();
    CollectionConverters.asJava(tables.children()).forEach(table -> read.add(collected(table)));
    boolean same = before != null;
    for (int i = 0; same && i < read.size(); i++) {
      same = Arrays.equals(read.get(i), before.read().get(i));
    }
    return same ? new TableLog.Entry(before.since(), before.largest(), false, before.read(), before.given()) : new TableLog.Entry(batch, TableLog.NONE, false, read, read);
  }

  /** The rows of a table as a stream of Arrow's. */
  private byte[] collected(SparkPlan table) {
    SQLConf conf = session.sessionState().conf();
    StructType schema = DataTypeUtils.fromAttributes(table.output());
    Iterator<InternalRow> rows = CollectionConverters.asScala(Arrays.asList(table.executeCollect()).iterator());
    if (!rows.hasNext()) {
      return ArrowConverters$.MODULE$.createEmptyArrowBatch(schema, conf.sessionLocalTimeZone(), true, conf.arrowUseLargeVarTypes());
    }
    var batches = ArrowConverters$.MODULE$.toBatchWithSchemaIterator(rows, schema, 0, 0, conf.sessionLocalTimeZone(), true, conf.arrowUseLargeVarTypes());
    try {
      return (byte[]) batches.next();
    } finally {
      batches.close();
    }
  }

  /** The largest time of all rows that were not late, with that of those {@code before}. Of all tables only arcs ask for it. */
  private long largest(RDD<InternalRow> rows, int time, long late, long before) {
    if (!CollectionConverters.asJava(tables.names()).contains(StreamTables.ARCS)) {
      return TableLog.NONE;
    }
    return (Long) rows.aggregate((Object) before, new Later(time, late), new Largest(), ClassTag$.MODULE$.apply(Object.class));
  }

  private static final class Later extends AbstractFunction2<Object, InternalRow, Object> implements Serializable {
    private static final long serialVersionUID = 1L;
    private final int time;
    private final long late;

    Later(int time, long late) {
      this.time = time;
      this.late = late;
    }

    @Override
    public Object apply(Object before, InternalRow row) {
      return row.isNullAt(time) || LateTable.isLate(row, time, late) ? before : (Object) Math.max((Long) before, row.getLong(time));
    }
  }

  private static final class Largest extends AbstractFunction2<Object, Object, Object> implements Serializable {
    private static final long serialVersionUID = 1L;

    @Override
    public Object apply(Object one, Object other) {
      return Math.max((Long) one, (Long) other);
    }
  }
}
