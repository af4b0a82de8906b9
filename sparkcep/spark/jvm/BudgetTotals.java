package org.sparkcep;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import net.razorvine.pickle.Unpickler;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import org.apache.spark.util.AccumulatorV2;
import org.apache.spark.util.CollectionAccumulator;
import scala.Option;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Adds what the tasks of a clause with BUDGET tell of their checks to metrics of the driver's.
 *
 * <p>A Python worker sends the values of its accumulators when its task ends. Executors do not have this class: a task takes along
 * one of Spark's own, which keeps the values as bytes, and they are read here when Spark merges those of tasks that succeeded.
 * Values of other accumulators go where they went without this.
 */
final class BudgetTotals extends CollectionAccumulator<byte[]> {
  private static final long serialVersionUID = 1L;
  private static final long ID = -7101; // of the accumulator in a worker, as in spark/exec/budget_metrics.py
  // names of the values in their order, as in engine/core/effort.py, with what Spark's UI says
  static final String[][] VALUES = {
    {"checks", "checks"},
    {"checksLeftOut", "checks left out"},
    {"rowsWithChecksLeftOut", "rows with checks left out"},
    {"matches", "matches"},
    {"completeMatches", "complete matches"},
    {"coverageLost", "coverage lost at rows, in millionths"},
  };

  private final transient SparkContext context;
  private final transient CollectionAccumulator<byte[]> others;
  private final transient Map<String, SQLMetric> metrics = new LinkedHashMap<>();
  private transient volatile String execution;

  /** {@code others} takes the values of other accumulators; it may be null. */
  private BudgetTotals(SparkContext context, CollectionAccumulator<byte[]> others) {
    this.context = context;
    this.others = others;
    for (String[] value : VALUES) {
      metrics.put(value[0], SQLMetrics.createMetric(context, value[1]));
    }
  }

  static BudgetTotals registered(SparkContext context, CollectionAccumulator<byte[]> others) {
    BudgetTotals made = new BudgetTotals(context, others);
    made.register(context, Option.empty(), false);
    return made;
  }

  Map<String, SQLMetric> metrics() {
    return metrics;
  }

  /** From now on Spark's UI is told of new values as those of this execution; null: it is told of none. */
  void runsIn(String execution) {
    this.execution = execution;
  }

  /** What a task takes along. */
  @Override
  public CollectionAccumulator<byte[]> copyAndReset() {
    return new CollectionAccumulator<>();
  }

  @Override
  public synchronized void merge(AccumulatorV2<byte[], List<byte[]>> task) {
    List<byte[]> rest = new ArrayList<>();
    for (byte[] update : task.value()) {
      long[] added = added(update);
      if (added == null) {
        rest.add(update);
        continue;
      }
      List<Tuple2<Object, Object>> changed = new ArrayList<>();
      int at = 0;
      for (SQLMetric metric : metrics.values()) {
        metric.add(added[at]);
        changed.add(new Tuple2<>(metric.id(), added[at++]));
      }
      if (execution != null) {
        SQLMetrics.postDriverMetricsUpdatedByValue(context, execution, MatchStrategy.seq(changed));
      }
    }
    if (others != null && !rest.isEmpty()) {
      CollectionAccumulator<byte[]> passed = new CollectionAccumulator<>();
      rest.forEach(passed::add);
      others.merge(passed);
    }
  }

  /** The values in an update; null for one of another accumulator. */
  private static long[] added(byte[] update) {
    try {
      Object[] pair = (Object[]) new Unpickler().loads(update);
      if (((Number) pair[0]).longValue() != ID) {
        return null;
      }
      return ((List<?>) pair[1]).stream().mapToLong(value -> ((Number) value).longValue()).toArray();
    } catch (IOException | RuntimeException e) {
      // values of any class may stand in an update of others
      return null;
    }
  }

  /** Plans that differ in nothing else are the same, so that Spark computes them once. */
  @Override
  public boolean equals(Object other) {
    return other instanceof BudgetTotals totals && totals.others == others;
  }

  @Override
  public int hashCode() {
    return System.identityHashCode(others);
  }

  /** The metrics as Spark's plans have them. */
  static scala.collection.immutable.Map<String, SQLMetric> immutable(Map<String, SQLMetric> metrics) {
    return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(metrics));
  }
}
