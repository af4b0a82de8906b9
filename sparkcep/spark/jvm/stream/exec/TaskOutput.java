package org.sparkcep.stream.exec;

import java.util.NoSuchElementException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/** Yields rows of matches. It stores the states that come with them, and commits after the last row. */
final class TaskOutput extends AbstractIterator<InternalRow> {
  private final MatchTask task;
  private final StateStore store;
  private final Counts counts;
  private final TaskInput input;
  private final Iterator<InternalRow> rows;
  private final long began;
  private final int at; // the index of the first of the last three columns
  private final UnsafeRowWriter value = new UnsafeRowWriter(3, 1024);
  private final UnsafeRow none;
  private final SQLMetric updated;
  private final SQLMetric removed;
  private final SQLMetric given;
  private final StateLayout.Timer timer = new StateLayout.Timer();
  private InternalRow ready;
  private boolean done;

  TaskOutput(MatchTask task, StateStore store, Counts counts, TaskInput input, Iterator<InternalRow> rows, long began) {
    this.task = task;
    this.store = store;
    this.counts = counts;
    this.input = input;
    this.rows = rows;
    this.began = began;
    at = task.operator().output().size() - 3;
    UnsafeRowWriter nothing = new UnsafeRowWriter(1, 8);
    nothing.zeroOutNullBytes();
    nothing.write(0, new byte[0]);
    none = nothing.getRow();
    updated = task.operator().longMetric("numUpdatedStateRows");
    removed = task.operator().longMetric("numRemovedStateRows");
    given = task.operator().longMetric("numOutputRows");
  }

  @Override
  public boolean hasNext() {
    while (ready == null && !done) {
      if (!rows.hasNext()) {
        done = true;
        task.finish(store, counts, began);
        break;
      }
      InternalRow row = rows.next();
      if (row.isNullAt(at)) {
        ready = row;
        given.add(1);
      } else if (row.getInt(at) < 0) {
        task.operator().longMetric(MatchStateExec.ENGINE).add(counts.add(row.getBinary(at + 1)));
      } else {
        keep(row);
      }
    }
    return ready != null;
  }

  private void keep(InternalRow row) {
    int number = row.getInt(at);
    UnsafeRow key = input.keys.get(number);
    UnsafeRow old = input.value(number);
    Long before = input.due(number);
    Long due = row.isNullAt(at + 2) ? null : row.getLong(at + 2);
    counts.forget(old == null ? null : old.getBinary(2));
    if (!row.isNullAt(at + 1)) {
      byte[] state = row.getBinary(at + 1);
      counts.keep(state);
      value.reset();
      value.zeroOutNullBytes();
      value.write(0, StateLayout.FORMAT);
      if (due == null) {
        value.setNullAt(1);
      } else {
        value.write(1, due.longValue());
      }
      value.write(2, state);
      store.put(key, value.getRow(), StateLayout.STATE);
      updated.add(1);
    } else if (old != null) {
      store.remove(key, StateLayout.STATE);
      removed.add(1);
    }
    if (before != null && !before.equals(due)) {
      store.remove(timer.of(before, key), StateLayout.TIMERS);
    }
    if (due != null && !due.equals(before)) {
      store.put(timer.of(due, key), none, StateLayout.TIMERS);
    }
  }

  @Override
  public InternalRow next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    InternalRow row = ready;
    ready = null;
    return row;
  }
}
