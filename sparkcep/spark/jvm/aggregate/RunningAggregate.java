package org.sparkcep.aggregate;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataType;
import org.sparkcep.catalyst.Members;
import org.sparkcep.catalyst.Scala;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * A running Spark aggregate over the rows of a match, evaluated in each output row of the match. It processes each row of the match
 * once: the function's buffer persists from one output row to the next and takes the new rows.
 *
 * <p>The engine marks new rows by NULLs at the beginning of {@code leaf}, the array that it returns (engine/output/gather.py,
 * {@code collect}): two in the first output row of a match, one in the others. An array without them has all rows that count, as
 * under a plan that is not stepwise. {@code elements} makes the function's elements of the new rows, which the variable {@code
 * rows} represents. With {@code once} equal elements count once, at their first occurrence.
 *
 * <p>Example with the rows r1, r2, r3: the output rows have the arrays [NULL, NULL, r1], [NULL, r2], [NULL, r3], and a sum is r1,
 * r1 + r2, r1 + r2 + r3.
 *
 * <p>The value depends on earlier rows, so Spark must evaluate the expression for each of the engine's rows, in order. Therefore
 * the expression is non-deterministic and stays in the projection where {@link MatchAggregates} put it.
 */
public final class RunningAggregate extends Expression implements Members, CodegenFallback, Serializable {
  private static final long serialVersionUID = 1L;

  private final Expression leaf;
  private final Expression elements;
  private final Expression function;
  private final Expression filter;
  private final Variables variables;
  private final boolean distinct;
  private final boolean once;
  private transient ElementsFold fold;
  private transient boolean begun;
  private transient Object value; // in the previous output row

  /** The variables for the new rows, and for an element and its position among those of the match. */
  record Variables(NamedLambdaVariable rows, NamedLambdaVariable position, NamedLambdaVariable element) implements Serializable {}

  RunningAggregate(Expression leaf, Expression elements, Expression function, Expression filter, Variables variables, boolean distinct, boolean once) {
    this.leaf = leaf;
    this.elements = elements;
    this.function = function;
    this.filter = filter;
    this.variables = variables;
    this.distinct = distinct;
    this.once = once;
  }

  Expression leaf() {
    return leaf;
  }

  @Override
  public Object eval(InternalRow row) {
    if (fold == null) {
      fold = new ElementsFold(elements, variables, (AggregateFunction) function, filter, distinct, once);
    }
    ArrayData given = (ArrayData) leaf.eval(row);
    if (given == null) { // a punctuation has no measures
      return null;
    }
    int count = given.numElements();
    int marks = 0;
    while (marks < Math.min(2, count) && given.isNullAt(marks)) {
      marks++;
    }
    boolean first = marks != 1 || !begun;
    if (first) {
      fold.begin();
      begun = true;
    }
    if (first || marks < count) {
      value = fold.with(given, marks, row);
    }
    return value;
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    return CodegenFallback.super.doGenCode(context, code);
  }

  /** It has a buffer. */
  @Override
  public boolean stateful() {
    return true;
  }

  @Override
  public boolean deterministic() {
    return false;
  }

  /** Variables count as references, and these are bound here. */
  @Override
  public AttributeSet references() {
    List<NamedExpression> own = List.of(variables.rows(), variables.position(), variables.element());
    return super.references().$minus$minus(Scala.seq(own));
  }

  @Override
  public boolean nullable() {
    return true;
  }

  @Override
  public DataType dataType() {
    return function.dataType();
  }

  @Override
  public Seq<Expression> children() {
    List<Expression> all = new ArrayList<>(List.of(leaf, elements, function));
    if (filter != null) {
      all.add(filter);
    }
    return Scala.seq(all);
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
    Expression kept = filter == null ? null : children.apply(3);
    return new RunningAggregate(children.apply(0), children.apply(1), children.apply(2), kept, variables, distinct, once);
  }

  @Override
  public String toString() {
    return ((AggregateFunction) function).toAggString(distinct || once) + (filter == null ? "" : " FILTER (WHERE " + filter + ")") + " OVER ROWS IN " + leaf;
  }

  @Override
  public Object[] members() {
    return new Object[] {leaf, elements, function, filter, variables, distinct, once};
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof RunningAggregate that && leaf.equals(that.leaf) && elements.equals(that.elements) && function.equals(that.function)
        && Objects.equals(filter, that.filter) && variables.equals(that.variables) && distinct == that.distinct && once == that.once;
  }

  @Override
  public int hashCode() {
    return Objects.hash(leaf, elements, function, filter, distinct, once);
  }
}
