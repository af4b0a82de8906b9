package org.sparkcep.stream;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.sparkcep.catalyst.Members;
import org.sparkcep.catalyst.Scala;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The rows of a stream that a clause searches, by keys and order. It replaces distribution and sorting, which Spark refuses over a
 * stream.
 *
 * <p>{@code texts}: the rewriter's row expressions, as JSON, which reveal a changed statement. {@code late}: the column for the
 * table of late rows, if any. {@code number}: the mark's number in its plan. {@code tables}: the tables that the clause reads at
 * each micro-batch in addition to its rows, by {@code names} ({@link StreamTables}).
 */
public final class StreamInput extends LogicalPlan implements Members {
  private static final long serialVersionUID = 1L;

  private final Seq<Expression> keys;
  private final Seq<SortOrder> order;
  private final String texts;
  private final Seq<Attribute> late;
  private final int number;
  private final Seq<String> names;
  private final Seq<LogicalPlan> tables;
  private final LogicalPlan child;

  public StreamInput(
      Seq<Expression> keys, Seq<SortOrder> order, String texts, Seq<Attribute> late, int number, Seq<String> names, Seq<LogicalPlan> tables, LogicalPlan child) {
    this.keys = keys;
    this.order = order;
    this.texts = texts;
    this.late = late;
    this.number = number;
    this.names = names;
    this.tables = tables;
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
    return other == number ? this : new StreamInput(keys, order, texts, late, other, names, tables, child);
  }

  Seq<String> names() {
    return names;
  }

  Seq<LogicalPlan> tables() {
    return tables;
  }

  LogicalPlan child() {
    return child;
  }

  @Override
  public Seq<Attribute> output() {
    return child.output();
  }

  /** Declares all columns of the tables as read; otherwise Spark would prune them. */
  @Override
  public AttributeSet references() {
    AttributeSet all = super.references();
    for (LogicalPlan table : CollectionConverters.asJava(tables)) {
      all = all.$plus$plus(table.outputSet());
    }
    return all;
  }

  @Override
  public Seq<LogicalPlan> children() {
    List<LogicalPlan> all = new ArrayList<>(List.of(child));
    all.addAll(CollectionConverters.asJava(tables));
    return Scala.seq(all);
  }

  @Override
  public LogicalPlan withNewChildrenInternal(IndexedSeq<LogicalPlan> children) {
    List<LogicalPlan> all = CollectionConverters.asJava(children);
    return new StreamInput(keys, order, texts, late, number, names, Scala.seq(all.subList(1, all.size())), all.get(0));
  }

  @Override
  public Object[] members() {
    return new Object[] {keys, order, texts, late, number, names, tables, child};
  }
}
