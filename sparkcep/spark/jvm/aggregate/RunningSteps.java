package org.sparkcep.aggregate;

import java.util.Comparator;
import java.util.SplittableRandom;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.aggregate.ImperativeAggregate;
import org.apache.spark.sql.catalyst.expressions.aggregate.Mode;
import org.apache.spark.sql.catalyst.expressions.aggregate.PercentileBase;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.TypeUtils;
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils;
import org.apache.spark.util.collection.OpenHashMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Running aggregate functions whose value Spark computes from all values in the buffer. Here each output row takes logarithmic
 * time. A window function of Spark's reads all values in each row, so it is quadratic.
 *
 * <p>Spark's own function computes the value, from a small buffer that gives an equal result.
 */
final class RunningSteps {
  private RunningSteps() {}

  /** Returns the steps of such a function; null for any other function. */
  static ElementsFold.Steps of(ImperativeAggregate function) {
    if (function instanceof PercentileBase percentile) {
      return new Percentiles(percentile);
    }
    return function instanceof Mode mode && UnsafeRowUtils.isBinaryStable(mode.child().dataType()) ? new Modes(mode) : null;
  }

  /**
   * {@code percentile}, {@code median}, {@code percentile_cont}, {@code percentile_disc}. The value depends on few ranks, so the
   * small buffer has only the values at these ranks, each as often as needed to be at its rank. The first value of a match is
   * Spark's own, from the whole buffer: 0.0 and -0.0 have equal ranks, and Spark takes either.
   */
  private static final class Percentiles implements ElementsFold.Steps {
    private final PercentileBase function;
    private final Comparator<Object> order;
    private final double[] percentages;
    private OpenHashMap<Object, Object> counts; // before the first value of a match
    private boolean fresh; // no value has been requested
    private Ranks ranks; // after the first value

    Percentiles(PercentileBase function) {
      Object asked = function.percentageExpression().eval(InternalRow.empty());
      this.percentages = asked instanceof ArrayData several ? several.toDoubleArray() : new double[] {(Double) asked};
      this.function = function;
      this.order = TypeUtils.getInterpretedOrdering(function.child().dataType());
    }

    @Override
    public void begin() {
      counts = function.createAggregationBuffer();
      fresh = true;
    }

    @Override
    public void take(InternalRow row) {
      if (fresh) {
        counts = function.update(counts, row);
        return;
      }
      if (counts != null) {
        ranks = new Ranks(order);
        rank(counts);
        counts = null;
      }
      rank(function.update(function.createAggregationBuffer(), row));
    }

    private void rank(OpenHashMap<Object, Object> some) {
      CollectionConverters.asJava(some).forEach(pair -> ranks.add(pair._1(), (Long) pair._2()));
    }

    @Override
    public Object end() {
      if (counts != null) {
        fresh = false;
        return function.eval(counts);
      }
      OpenHashMap<Object, Object> few = function.createAggregationBuffer();
      long before = 0;
      Object value = null;
      for (long rank : read(ranks.size())) {
        value = ranks.at(rank);
        add(few, value, rank - before);
        before = rank;
      }
      if (before < ranks.size()) {
        add(few, value, ranks.size() - before);
      }
      return function.eval(few);
    }

    /**
     * Returns the ranks that Spark reads, and their neighbours, because it rounds. Ranks are counted from 1, in either direction.
     */
    private TreeSet<Long> read(long size) {
      TreeSet<Long> read = new TreeSet<>();
      for (double percentage : size == 0 ? new double[0] : percentages) {
        for (double part : new double[] {percentage, 1 - percentage}) {
          for (double place : new double[] {(size - 1) * part + 1, size * part}) {
            for (long rank = (long) Math.floor(place) - 1; rank <= Math.ceil(place) + 1; rank++) {
              read.add(Math.min(Math.max(rank, 1), size));
            }
          }
        }
      }
      return read;
    }

    private static void add(OpenHashMap<Object, Object> counts, Object value, long count) {
      counts.update(value, counts.contains(value) ? (Long) counts.apply(value) + count : count);
    }
  }

  /** Values with their counts in order, as a treap. */
  private static final class Ranks {
    private final Comparator<Object> order;
    private final SplittableRandom random = new SplittableRandom(1);
    private Node root;

    private static final class Node {
      final Object value;
      final int priority;
      long count;
      long total; // with the nodes below
      Node left;
      Node right;

      Node(Object value, long count, int priority) {
        this.value = value;
        this.count = count;
        this.total = count;
        this.priority = priority;
      }

      Node summed() {
        total = count + (left == null ? 0 : left.total) + (right == null ? 0 : right.total);
        return this;
      }
    }

    Ranks(Comparator<Object> order) {
      this.order = order;
    }

    long size() {
      return root == null ? 0 : root.total;
    }

    void add(Object value, long count) {
      root = added(root, value, count);
    }

    private Node added(Node node, Object value, long count) {
      if (node == null) {
        return new Node(value, count, random.nextInt());
      }
      int compared = order.compare(value, node.value);
      if (compared == 0) {
        node.count += count;
        return node.summed();
      }
      if (compared < 0) {
        node.left = added(node.left, value, count);
        if (node.left.priority > node.priority) {
          Node top = node.left;
          node.left = top.right;
          top.right = node.summed();
          return top.summed();
        }
      } else {
        node.right = added(node.right, value, count);
        if (node.right.priority > node.priority) {
          Node top = node.right;
          node.right = top.left;
          top.left = node.summed();
          return top.summed();
        }
      }
      return node.summed();
    }

    /** Returns the value at a rank, counted from 1. */
    Object at(long rank) {
      Node node = root;
      while (true) {
        long below = node.left == null ? 0 : node.left.total;
        if (rank <= below) {
          node = node.left;
        } else if (rank <= below + node.count) {
          return node.value;
        } else {
          rank -= below + node.count;
          node = node.right;
        }
      }
    }
  }

  /**
   * {@code mode}. Of equally frequent values Spark takes any, unless the call orders them. Here the first output row of a match has
   * Spark's choice, and later rows keep the value of the row before.
   */
  private static final class Modes implements ElementsFold.Steps {
    private final Mode function;
    private OpenHashMap<Object, Object> counts;
    private boolean fresh; // no value has been requested
    private Object most;
    private long count;

    Modes(Mode function) {
      this.function = function;
    }

    @Override
    public void begin() {
      counts = function.createAggregationBuffer();
      fresh = true;
      most = null;
      count = 0;
    }

    @Override
    public void take(InternalRow row) {
      Object value = function.child().eval(row);
      function.update(counts, row);
      if (value == null || fresh) {
        return;
      }
      long now = (Long) counts.apply(value);
      if (now > count) {
        most = InternalRow.copyValue(value);
        count = now;
      } else if (now == count && function.reverseOpt().isDefined()) {
        OpenHashMap<Object, Object> both = function.createAggregationBuffer();
        both.update(most, now);
        both.update(InternalRow.copyValue(value), now);
        most = function.eval(both);
      }
    }

    @Override
    public Object end() {
      if (fresh) {
        most = function.eval(counts);
        count = most == null ? 0 : (Long) counts.apply(most);
        fresh = most == null;
      }
      return most;
    }
  }
}
