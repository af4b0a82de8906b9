package org.sparkcep;

import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * The rows of a stream that a clause searches, by keys and order: it stands where a table is distributed and sorted, which Spark
 * refuses over a stream.
 *
 * <p>{@code texts}: what the rewriter had computed of each row, as JSON, by which a changed statement is known; {@code late}: the
 * column with what goes to the table of late rows, if there is one; {@code number}: that of the mark in its plan.
 */
public final class StreamInput extends LogicalPlan {
  private static final long serialVersionUID = 1L;

  private final Seq<Expression> keys;
  private final Seq<SortOrder> order;
  private final String texts;
  private final Seq<Attribute> late;
  private final int number;
  private final LogicalPlan child;

  public StreamInput(Seq<Expression> keys, Seq<SortOrder> order, String texts, Seq<Attribute> late, int number, LogicalPlan child) {
    this.keys = keys;
    this.order = order;
    this.texts = texts;
    this.late = late;
    this.number = number;
    this.child = child;
  }

  Seq<Expression> keys() {
    return keys;
  }

  Seq<SortOrder> order() {
    return order;
  }

  String texts() {
    return texts;
  }

  Seq<Attribute> late() {
    return late;
  }

  int number() {
    return number;
  }

  StreamInput withNumber(int other) {
    return other == number ? this : new StreamInput(keys, order, texts, late, other, child);
  }

  LogicalPlan child() {
    return child;
  }

  @Override
  public Seq<Attribute> output() {
    return child.output();
  }

  @Override
  public Seq<LogicalPlan> children() {
    return MatchStrategy.seq(java.util.List.of(child));
  }

  @Override
  public LogicalPlan withNewChildrenInternal(IndexedSeq<LogicalPlan> children) {
    return new StreamInput(keys, order, texts, late, number, children.apply(0));
  }

  @Override
  public int productArity() {
    return 6;
  }

  @Override
  public Object productElement(int i) {
    return new Object[] {keys, order, texts, late, number, child}[i];
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof StreamInput;
  }
}
