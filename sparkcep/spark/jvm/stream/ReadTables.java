package org.sparkcep.stream;

import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.execution.SparkPlan;
import org.sparkcep.catalyst.Members;
import org.sparkcep.catalyst.Scala;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * The tables that a clause over a stream reads at each micro-batch, by name. It is the second child of the clause's operator, which
 * collects each table before a micro-batch begins. It returns no rows itself.
 */
public final class ReadTables extends SparkPlan implements Members {
  private static final long serialVersionUID = 1L;
  private final Seq<String> names;
  private final Seq<SparkPlan> tables;

  public ReadTables(Seq<String> names, Seq<SparkPlan> tables) {
    this.names = names;
    this.tables = tables;
  }

  public Seq<String> names() {
    return names;
  }

  @Override
  public Seq<SparkPlan> children() {
    return tables;
  }

  @Override
  public Seq<Attribute> output() {
    return Scala.seq(List.<Attribute>of());
  }

  @Override
  public RDD<InternalRow> doExecute() {
    throw new IllegalStateException("the tables beside a stream are collected one by one");
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new ReadTables(names, children);
  }

  /** Executors receive the operator with this child, and read no table. */
  private Object writeReplace() {
    return tables.isEmpty() ? this : new ReadTables(names, Scala.seq(List.<SparkPlan>of()));
  }

  @Override
  public Object[] members() {
    return new Object[] {names, tables};
  }
}
