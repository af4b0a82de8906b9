package org.sparkcep;

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
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Aggregate functions whose value Spark computes from all the values in the buffer, here in a logarithm of their number: a window
 * function of Spark's does that in each row, so that it is quadratic.
 *
 * <p>Spark's own function makes the value, of a buffer of few values that gives the same one.
 */
final class RunningSteps {
  private RunningSteps() {}

  /** The steps of such a function; null for any other. */
  static ElementsFold.Steps of(ImperativeAggregate function) {
    if (function instanceof PercentileBase percentile) {
      return new Percentiles(percentile);
    }
    return function instanceof Mode mode && UnsafeRowUtils.isBinaryStable(mode.child().dataType()) ? new Modes(mode) : null;
  }

  /**
   * {@code percentile}, {@code median}, {@code percentile_cont}, {@code percentile_disc}. The value depends on few ranks, so
   * the buffer has these values alone, each as often as it takes to be at its rank. The first value of a match is Spark's own,
   * of the whole buffer, since 0.0 and -0.0 are equal ranks of which Spark takes either.
   */
  private static final class Percentiles implements ElementsFold.Steps {
    private final PercentileBase function;
    private final Comparator<Object> order;
    private final double[] percentages;
    private OpenHashMap<Object, Object> counts; // up to the first value of a match
    private boolean fresh; // no value has been asked for
    private Ranks ranks; // afterwards

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

    /** The ranks that Spark reads, and their neighbours, since it rounds: from 1, in either direction. */
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

  /** Values with their counts in their order, as a treap. */
  private static final class Ranks {
    private final Comparator<Object> order;
    private final SplittableRandom random = new SplittableRandom(1);
    private Node root;

    private static final class Node {
      final Object value;
      final int priority;
      long count;
      long total; // with those below
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

    /** The value at a rank, from 1. */
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
   * {@code mode}. Of values that are equally frequent Spark takes any, unless the call orders them: in the first output row of a
   * match its choice, later the one that was there before.
   */
  private static final class Modes implements ElementsFold.Steps {
    private final Mode function;
    private OpenHashMap<Object, Object> counts;
    private boolean fresh; // no value has been asked for
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
