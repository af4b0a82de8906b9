package org.sparkcep.budget;

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
import org.sparkcep.catalyst.Scala;
import scala.Option;
import scala.Tuple2;

/**
 * Adds the totals of the checks of a clause with BUDGET, as its tasks report them, to the driver's metrics.
 *
 * <p>A Python worker sends the values of its accumulators when its task ends. Executors lack this class, so a task takes along one
 * of Spark's own, which keeps the values as bytes. They are read here when Spark merges the values of successful tasks. Values of
 * other accumulators go to their usual place.
 */
public final class BudgetTotals extends CollectionAccumulator<byte[]> {
  private static final long serialVersionUID = 1L;
  private static final long ID = -7101; // the accumulator's id in a worker, as in spark/exec/budget_metrics.py
  // names of the values in the order of engine/core/effort.py, with their labels in Spark's UI
  public static final String[][] VALUES = {
    {"checks", "checks"},
    {"checksLeftOut", "checks left out"},
    {"rowsWithChecksLeftOut", "rows with checks left out"},
    {"matches", "matches"},
    {"completeMatches", "complete matches"},
    {"coverageLost", "coverage lost at rows, in millionths"},
    {"blocks", "blocks of rows whose checks an interval set"},
    {"lateBlocks", "blocks later than the interval"},
    {"refills", "histories replaced"},
  };
  // the values after these: least and greatest, of which 0 is none
  private static final String LEAST = "leastChecks";
  private static final String GREATEST = "greatestChecks";

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
    metrics.put(LEAST, SQLMetrics.createMetric(context, "least checks of a block"));
    metrics.put(GREATEST, SQLMetrics.createMetric(context, "greatest checks of a block"));
  }

  /** Returns new totals, which Spark knows. {@code others} takes the values of other accumulators; it may be null. */
  public static BudgetTotals registered(SparkContext context, CollectionAccumulator<byte[]> others) {
    BudgetTotals made = new BudgetTotals(context, others);
    made.register(context, Option.empty(), false);
    return made;
  }

  Map<String, SQLMetric> metrics() {
    return metrics;
  }

  /** From now on new values are reported to Spark's UI for this execution; null: they are not reported. */
  void runsIn(String execution) {
    this.execution = execution;
  }

  /** Returns the accumulator that a task takes along. */
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
      for (Map.Entry<String, SQLMetric> named : metrics.entrySet()) {
        SQLMetric metric = named.getValue();
        long more = added[at++];
        switch (named.getKey()) {
          case LEAST -> {
            long known = metric.value();
            more = more == 0 ? 0 : known == 0 ? more : Math.min(known, more) - known;
          }
          case GREATEST -> more = Math.max(more - metric.value(), 0);
          default -> { }
        }
        metric.set(metric.value() + more);
        changed.add(new Tuple2<>(metric.id(), more)); // Spark's UI adds up what it is sent
      }
      if (execution != null) {
        SQLMetrics.postDriverMetricsUpdatedByValue(context, execution, Scala.seq(changed));
      }
    }
    if (others != null && !rest.isEmpty()) {
      CollectionAccumulator<byte[]> passed = new CollectionAccumulator<>();
      rest.forEach(passed::add);
      others.merge(passed);
    }
  }

  /** Returns the values in an update; null for another accumulator's update. */
  private static long[] added(byte[] update) {
    try {
      Object[] pair = (Object[]) new Unpickler().loads(update);
      if (((Number) pair[0]).longValue() != ID) {
        return null;
      }
      return ((List<?>) pair[1]).stream().mapToLong(value -> ((Number) value).longValue()).toArray();
    } catch (IOException | RuntimeException e) {
      // other accumulators may send values of any class
      return null;
    }
  }

  /** Plans that differ only in this accumulator are equal, so that Spark computes them once. */
  @Override
  public boolean equals(Object other) {
    return other instanceof BudgetTotals totals && totals.others == others;
  }

  @Override
  public int hashCode() {
    return System.identityHashCode(others);
  }
}
