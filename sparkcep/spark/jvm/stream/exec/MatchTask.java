package org.sparkcep.stream.exec;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.sparkcep.catalyst.Scala;
import scala.Function2;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

/** One task of a micro-batch: searches the rows of its keys, and stores their states. */
record MatchTask(MatchStateExec operator, MapInBatchEvaluatorFactory factory, TaskInput.Beside beside)
    implements Function2<StateStore, Iterator<InternalRow>, Iterator<InternalRow>>, Serializable {
  @Override
  public Iterator<InternalRow> apply(StateStore store, Iterator<InternalRow> rows) {
    long began = System.nanoTime();
    StateLayout.create(store, operator.keySchema());
    Counts counts = Counts.read(store, StateLayout.COUNTS);
    TaskInput input = new TaskInput(operator, store, rows, beside);
    if (!input.hasNext()) {
      finish(store, counts, began);
      return scala.collection.Iterator$.MODULE$.<InternalRow>empty();
    }
    List<Iterator<InternalRow>> inputs = new ArrayList<>();
    inputs.add(input);
    @SuppressWarnings({"unchecked", "rawtypes"})
    Iterator<InternalRow> out = factory.createEvaluator().eval(TaskContext.getPartitionId(), (Seq) Scala.seq(inputs));
    return new TaskOutput(this, store, counts, input, out, began);
  }

  /** Commits the store, after the last row was read, and sets the metrics. */
  void finish(StateStore store, Counts counts, long began) {
    counts.write(store, StateLayout.COUNTS);
    long searched = System.nanoTime();
    operator.longMetric("allUpdatesTimeMs").add((searched - began) / 1_000_000);
    store.commit();
    operator.longMetric("commitTimeMs").add((System.nanoTime() - searched) / 1_000_000);
    operator.setStoreMetrics(store, true);
    operator.longMetric("numTotalStateRows").add(counts.open()); // Spark does not count them, which would cost a read per write
    counts.each((name, number) -> operator.longMetric(name).add(number));
    operator.setOperatorMetrics(1);
  }
}
