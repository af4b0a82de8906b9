package org.sparkcep.stream.exec;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
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
import org.sparkcep.functions.Call;
import org.sparkcep.rewriter.Rewriter;
import org.sparkcep.stream.ReadTables;
import org.sparkcep.stream.StreamTables;
import scala.Function2;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/**
 * Reads a stream's tables before the rows of a micro-batch are searched, once per micro-batch. The content is written to the {@link
 * TableLog} first, and a retried micro-batch takes it from there. A table that the engine refuses is an error before it is written.
 *
 * @param asked the request to Python when a table changes, see {@code StreamOperator}
 */
record TableReads(SparkSession session, ReadTables tables, StatefulOperatorStateInfo info, String asked) {
  /**
   * Returns the content that the current micro-batch reads. {@code rows} are its rows, with their time at index {@code time}.
   * {@code late} and {@code watermark}, in microseconds, are the watermarks of the previous and of this micro-batch.
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
        throw new IllegalStateException("the checkpoint lacks the rows of " + names() + " that micro-batch " + (batch - 1) + " read. Begin with a new checkpoint");
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

  /** Returns the tables' content, and the engine's part of it; those of the micro-batch {@code before} if nothing has changed. */
  private TableLog.Entry changed(long batch, TableLog.Entry before, long late, long watermark) {
    List<byte[]> read = new ArrayList<>();
    CollectionConverters.asJava(tables.children()).forEach(table -> read.add(collected(table)));
    boolean same = before != null;
    for (int i = 0; same && i < read.size(); i++) {
      same = Arrays.equals(read.get(i), before.read().get(i));
    }
    if (same) {
      return new TableLog.Entry(before.since(), TableLog.NONE, false, before.read(), before.given());
    }
    int history = CollectionConverters.asJava(tables.names()).indexOf(StreamTables.HISTORY);
    if (history >= 0) {
      Rewriter.granted(((ObjectNode) Call.plan(asked)).put("kind", "history").put("read", read.get(history)));
    }
    int arcs = CollectionConverters.asJava(tables.names()).indexOf(StreamTables.ARCS);
    return arcs < 0 ? new TableLog.Entry(batch, TableLog.NONE, false, read, read) : arrived(batch, arcs, read, before, late, watermark);
  }

  /**
   * Returns the changed content if table {@code arcs} has arcs. The engine gets all arcs that still matter, which Python
   * determines.
   */
  private TableLog.Entry arrived(long batch, int arcs, List<byte[]> read, TableLog.Entry before, long late, long watermark) {
    ObjectNode request = (ObjectNode) Call.plan(asked);
    request.put("read", read.get(arcs)).put("before", before == null ? null : before.read().get(arcs)).put("journal", before == null ? null : before.given().get(arcs));
    request.put("largest", before == null || before.largest() == TableLog.NONE ? null : (Long) before.largest()).put("late", late).put("watermark", watermark);
    JsonNode answer = Rewriter.granted(request);
    if (answer.get("journal").isNull()) { // only the order of its rows has changed
      return new TableLog.Entry(before.since(), TableLog.NONE, false, before.read(), before.given());
    }
    List<byte[]> given = new ArrayList<>(read);
    try {
      given.set(arcs, answer.get("journal").binaryValue());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return new TableLog.Entry(batch, TableLog.NONE, answer.get("again").asBoolean(), read, given);
  }

  /** Returns the rows of a table as an Arrow stream. */
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

  /** Returns the largest time of all rows that were not late, including those {@code before}. Only arcs need it. */
  private long largest(RDD<InternalRow> rows, int time, long late, long before) {
    if (!CollectionConverters.asJava(tables.names()).contains(StreamTables.ARCS)) {
      return TableLog.NONE;
    }
    return (Long) rows.aggregate((Object) before, new Later(time, late), new Largest(), ClassTag$.MODULE$.apply(Object.class));
  }

  private record Later(int time, long late) implements Function2<Object, InternalRow, Object>, Serializable {
    @Override
    public Object apply(Object before, InternalRow row) {
      return row.isNullAt(time) || LateTable.isLate(row, time, late) ? before : (Object) Math.max((Long) before, row.getLong(time));
    }
  }

  private record Largest() implements Function2<Object, Object, Object>, Serializable {
    @Override
    public Object apply(Object one, Object other) {
      return Math.max((Long) one, (Long) other);
    }
  }
}
