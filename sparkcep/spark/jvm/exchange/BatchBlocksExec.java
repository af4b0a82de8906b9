package org.sparkcep.exchange;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.sparkcep.catalyst.Expressions;
import org.sparkcep.catalyst.Scala;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Turns batches of columns, such as Spark reads from Parquet, into blocks of columns. Columns of the table are copied without
 * becoming rows; only other expressions are evaluated row by row ({@link BatchInput}).
 */
public final class BatchBlocksExec extends BlocksExec {
  private static final long serialVersionUID = 1L;
  private static final int REPEATED = 4; // how often parts of expressions may be computed, on average,
  private static final int FEW_PARTS = 5000; // unless they are so few

  private final Seq<Expression> values;
  private final Seq<Expression> conditions;
  private final BlocksExec rows;

  /**
   * @param values the columns of blocks, and last the target partition, over the columns of batches
   * @param conditions that the rows fulfil
   * @param rows the operator over rows
   * @param child gives batches
   */
  private BatchBlocksExec(Seq<Expression> values, Seq<Expression> conditions, BlocksExec rows, SparkPlan child) {
    super(rows.partitions, rows.description, rows.budget, rows.blocks, child);
    this.values = values;
    this.conditions = conditions;
    this.rows = rows;
  }

  /** Returns the operator over the batches below an operator over rows; the latter if there are none. */
  static BlocksExec of(BlocksExec rows) {
    List<Expression> values = new ArrayList<>(CollectionConverters.asJava(rows.child.output()));
    List<Expression> conditions = new ArrayList<>();
    SparkPlan plan = rows.child;
    int parts = parts(values); // of all expressions, as Spark planned them
    while (!(plan instanceof ColumnarToRowExec)) {
      if (plan instanceof ProjectExec projection) {
        Map<ExprId, Expression> known = new HashMap<>();
        for (NamedExpression column : CollectionConverters.asJava(projection.projectList())) {
          Expression value = column instanceof Alias alias ? alias.child() : (Expression) column;
          if (!value.deterministic()) {
            return rows;
          }
          known.put(column.exprId(), value);
        }
        parts += parts(known.values());
        values.replaceAll(value -> Expressions.replaced(value, known));
        conditions.replaceAll(condition -> Expressions.replaced(condition, known));
        if (parts(values) + parts(conditions) > Math.max(FEW_PARTS, REPEATED * parts)) {
          return rows; // Spark keeps projections apart if columns are used several times, in each of many steps
        }
        plan = projection.child();
      } else if (plan instanceof FilterExec filter && filter.condition().deterministic()) {
        parts += parts(List.of(filter.condition()));
        conditions.addAll(0, Expressions.conjuncts(filter.condition(), new ArrayList<>())); // evaluated before those above it
        plan = filter.child();
      } else {
        return rows;
      }
    }
    if (Stream.concat(values.stream(), conditions.stream()).anyMatch(e -> e.containsPattern(TreePattern.PLAN_EXPRESSION()))) {
      return rows; // results of subqueries are in the driver
    }
    BatchBlocksExec made = new BatchBlocksExec(Scala.seq(values), Scala.seq(conditions), rows, ((ColumnarToRowExec) plan).child());
    made.copyTagsFrom(rows);
    return made;
  }

  private static int parts(Collection<Expression> values) {
    return values.stream().mapToInt(value -> 1 + parts(CollectionConverters.asJava(value.children()))).sum();
  }

  @Override
  public RDD<InternalRow> doExecute() {
    Task task = task(rows.child.output());
    List<Expression> all = CollectionConverters.asJava(values);
    List<Attribute> columns = CollectionConverters.asJava(child.output());
    int[] vectors = new int[all.size() - 1];
    Map<Integer, Expression> computed = new TreeMap<>(); // by the column of blocks
    for (int i = 0; i < vectors.length; i++) {
      vectors[i] = place(all.get(i), columns);
      if (vectors[i] < 0) {
        computed.put(i, all.get(i));
      }
    }
    computed.put(ComputedValues.TARGET, all.get(vectors.length));
    // As in Spark's filter, nothing is evaluated after a condition that is NULL.
    Expression condition = CollectionConverters.asJava(conditions).stream()
        .map(c -> c.nullable() ? new EqualNullSafe(c, new Literal(true, DataTypes.BooleanType)) : c)
        .reduce(And::new).orElse(null);
    BatchInput.Columns read = new BatchInput.Columns(vectors, ComputedValues.Group.of(computed, columns, partitions), condition, child.output());
    FlatMapFunction<Iterator<ColumnarBatch>, InternalRow> function =
        batches -> task.blocks(new BatchInput(batches, read, TaskContext.getPartitionId()));
    return child.executeColumnar().toJavaRDD().mapPartitions(function).rdd();
  }

  private static int place(Expression value, List<Attribute> columns) {
    for (int i = 0; i < columns.size(); i++) {
      if (value instanceof Attribute attribute && attribute.exprId().equals(columns.get(i).exprId())) {
        return i;
      }
    }
    return -1;
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new BatchBlocksExec(values, conditions, rows, children.apply(0));
  }

  /** Two of these operators give the same blocks if those over rows do. */
  @Override
  public SparkPlan doCanonicalize() {
    return (SparkPlan) rows.canonicalized();
  }

  @Override
  public Object[] members() {
    return new Object[] {values, conditions, rows, child};
  }

  @Override
  public scala.collection.Iterator<Object> stringArgs() {
    return Scala.<Object>seq(List.of(partitions, conditions)).iterator();
  }
}
