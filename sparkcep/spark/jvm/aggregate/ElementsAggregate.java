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
import scala.jdk.javaapi.CollectionConverters;

/**
 * Applies a Spark aggregate function to the elements of an array, in the array's row. The result is that of the function over the
 * rows that {@code LATERAL VIEW OUTER posexplode(elements)} makes of the row. It needs no state in a streaming query.
 *
 * <p>The function and its filter refer to an element and its position as variables, as a lambda's body does, and to any column of
 * the row. The function is a child, so that Spark's rules rewrite its arguments. Only {@link ElementsFold} treats it as an
 * aggregate.
 */
public final class ElementsAggregate extends Expression implements Members, CodegenFallback, Serializable {
  private static final long serialVersionUID = 1L;

  private final Expression elements;
  private final NamedLambdaVariable position;
  private final NamedLambdaVariable element;
  private final Expression function;
  private final Expression filter; // null if all elements count
  private final boolean distinct;
  private transient ElementsFold fold;

  ElementsAggregate(
      Expression elements, NamedLambdaVariable position, NamedLambdaVariable element, Expression function, Expression filter, boolean distinct) {
    this.elements = elements;
    this.position = position;
    this.element = element;
    this.function = function;
    this.filter = filter;
    this.distinct = distinct;
  }

  NamedLambdaVariable position() {
    return position;
  }

  NamedLambdaVariable element() {
    return element;
  }

  AggregateFunction function() {
    return (AggregateFunction) function;
  }

  Expression filter() {
    return filter;
  }

  boolean distinct() {
    return distinct;
  }

  @Override
  public Object eval(InternalRow row) {
    if (fold == null) {
      fold = new ElementsFold(this);
    }
    return fold.over((ArrayData) elements.eval(row), row);
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

  /** Spark considers functions that depend on the row order non-deterministic, but elements have a fixed order. */
  @Override
  public boolean deterministic() {
    return CollectionConverters.asJava(function.children()).stream().allMatch(Expression::deterministic) && elements.deterministic()
        && (filter == null || filter.deterministic());
  }

  /** Variables count as references, and these two are bound here. */
  @Override
  public AttributeSet references() {
    return super.references().$minus$minus(Scala.seq(List.<NamedExpression>of(position, element)));
  }

  @Override
  public boolean nullable() {
    return function.nullable();
  }

  @Override
  public DataType dataType() {
    return function.dataType();
  }

  @Override
  public Seq<Expression> children() {
    List<Expression> all = new ArrayList<>(List.of(elements, function));
    if (filter != null) {
      all.add(filter);
    }
    return Scala.seq(all);
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
    return new ElementsAggregate(children.apply(0), position, element, children.apply(1), filter == null ? null : children.apply(2), distinct);
  }

  @Override
  public String toString() {
    return function().toAggString(distinct) + (filter == null ? "" : " FILTER (WHERE " + filter + ")") + " OVER ELEMENTS OF " + elements;
  }

  @Override
  public Object[] members() {
    return new Object[] {elements, position, element, function, filter, distinct};
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof ElementsAggregate that && elements.equals(that.elements) && position.equals(that.position) && element.equals(that.element)
        && function.equals(that.function) && Objects.equals(filter, that.filter) && distinct == that.distinct;
  }

  @Override
  public int hashCode() {
    return Objects.hash(elements, function, filter, distinct);
  }
}
