package org.sparkcep.aggregate;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.InterpretedOrdering;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.MutableProjection;
import org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.SpecificInternalRow;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate;
import org.apache.spark.sql.catalyst.expressions.aggregate.ImperativeAggregate;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.sparkcep.catalyst.Expressions;
import org.sparkcep.catalyst.Scala;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Folds an aggregate function over the elements of arrays, as Spark's aggregation does over rows: initial values, an update for
 * each element that counts, and the final value.
 *
 * <p>The inputs of the function and its filter form one row: position, element, and then the columns of the array's row. Their
 * references are bound to that row.
 */
final class ElementsFold {
  private final GenericInternalRow own = new GenericInternalRow(2); // position and element
  private final JoinedRow joined = new JoinedRow();
  private final DataType type; // of elements
  private final DataType rowType; // of the rows that elements are made of
  private final BasePredicate filter; // null if all elements count
  private final List<Expression> arguments; // elements with equal arguments count once; null if all count
  private final InterpretedOrdering order; // of the arguments
  private final Steps steps;
  private final GenericInternalRow given = new GenericInternalRow(1); // the new rows
  private final Expression elements; // makes elements of the new rows; null if the rows are the elements
  private final InterpretedOrdering values; // of elements, if equal elements count once
  private TreeSet<InternalRow> seen; // arguments seen so far
  private TreeSet<InternalRow> had; // elements seen so far
  private int count;

  ElementsFold(ElementsAggregate aggregate) {
    this(aggregate.position(), aggregate.element(), aggregate.function(), aggregate.filter(), aggregate.distinct(), null, null, false);
  }

  /**
   * {@code elements} makes an array of the new rows, which a variable represents. {@code once}: whether equal elements count once.
   */
  ElementsFold(Expression elements, RunningAggregate.Variables variables, AggregateFunction function, Expression filter, boolean distinct, boolean once) {
    this(
        variables.position(), variables.element(), function, filter, distinct,
        elements instanceof NamedLambdaVariable rows && rows.exprId().equals(variables.rows().exprId()) ? null : Expressions.replaced(elements, place(1, variables.rows())),
        ((ArrayType) variables.rows().dataType()).elementType(), once);
  }

  private ElementsFold(
      NamedLambdaVariable position, NamedLambdaVariable element, AggregateFunction called, Expression filter, boolean distinct,
      Expression elements, DataType rowType, boolean once) {
    this.rowType = rowType;
    UnaryOperator<Expression> place = place(own.numFields(), position, element);
    type = element.dataType();
    this.filter = filter == null ? null : Expressions.predicate(Expressions.replaced(filter, place), Scala.seq(List.of()));
    AggregateFunction function = (AggregateFunction) Expressions.replaced(called, place);
    arguments = distinct ? CollectionConverters.asJava(function.children()) : null;
    order = arguments == null ? null : InterpretedOrdering.forSchema(Scala.seq(arguments.stream().map(Expression::dataType).toList()));
    this.elements = elements;
    values = once ? InterpretedOrdering.forSchema(Scala.seq(List.of(type))) : null;
    Steps running = function instanceof ImperativeAggregate imperative ? RunningSteps.of(imperative) : null;
    steps = running != null ? running : function instanceof DeclarativeAggregate declarative ? new Declared(declarative) : new Called((ImperativeAggregate) function);
  }

  /** Returns the change that binds variables to the first columns of a row and, after these, the columns of the array's row. */
  private static UnaryOperator<Expression> place(int before, NamedLambdaVariable... variables) {
    return expression -> {
      if (expression instanceof BoundReference column) {
        return new BoundReference(before + column.ordinal(), column.dataType(), column.nullable());
      }
      if (expression instanceof NamedLambdaVariable variable) {
        for (int i = 0; i < variables.length; i++) {
          if (variable.exprId().equals(variables[i].exprId())) {
            return new BoundReference(i, variable.dataType(), true);
          }
        }
      }
      return expression;
    };
  }

  /** Returns the function's value for the elements of a row's array. */
  Object over(ArrayData elements, InternalRow row) {
    begin();
    if (elements == null || elements.numElements() == 0) {
      joined.apply(own, row);
      take(null, null); // as OUTER does
      return steps.end();
    }
    return with(elements, 0, row);
  }

  /** Starts over, without elements. */
  void begin() {
    seen = arguments == null ? null : new TreeSet<>(order);
    had = values == null ? null : new TreeSet<>(values);
    count = 0;
    steps.begin();
  }

  /**
   * Returns the function's value for the elements so far and those of {@code rows} from {@code begin} on. {@code row} has the other
   * columns.
   */
  Object with(ArrayData rows, int begin, InternalRow row) {
    ArrayData more = rows;
    int at = begin;
    if (elements != null) {
      given.update(0, begin == 0 ? rows : from(rows, begin));
      more = (ArrayData) elements.eval(joined.apply(given, row));
      at = 0;
    }
    joined.apply(own, row);
    for (int i = at; i < more.numElements(); i++) {
      Object element = more.isNullAt(i) ? null : more.get(i, type);
      if (had == null || had.add(new GenericInternalRow(new Object[] {InternalRow.copyValue(element)}))) {
        take(count++, element);
      }
    }
    return steps.end();
  }

  private ArrayData from(ArrayData rows, int begin) {
    Object[] rest = new Object[rows.numElements() - begin];
    for (int i = 0; i < rest.length; i++) {
      rest[i] = rows.get(begin + i, rowType);
    }
    return new GenericArrayData(rest);
  }

  private void take(Integer position, Object element) {
    own.update(0, position);
    own.update(1, element);
    if ((filter == null || filter.eval(joined)) && (seen == null || seen.add(values()))) {
      steps.take(joined);
    }
  }

  private InternalRow values() {
    return new GenericInternalRow(arguments.stream().map(argument -> InternalRow.copyValue(argument.eval(joined))).toArray());
  }

  private static SpecificInternalRow buffer(AggregateFunction function) {
    return new SpecificInternalRow(Scala.seq(CollectionConverters.asJava(function.aggBufferAttributes()).stream().map(Attribute::dataType).toList()));
  }

  /** A function during its aggregation. */
  interface Steps {
    void begin();

    void take(InternalRow row);

    Object end();
  }

  /** A function that is code over a buffer. */
  private static final class Called implements Steps {
    private final ImperativeAggregate function;
    private final SpecificInternalRow buffer;

    Called(ImperativeAggregate function) {
      this.function = function.withNewMutableAggBufferOffset(0);
      this.buffer = buffer(function);
    }

    @Override
    public void begin() {
      function.initialize(buffer);
    }

    @Override
    public void take(InternalRow row) {
      function.update(buffer, row);
    }

    @Override
    public Object end() {
      return function.eval(buffer);
    }
  }

  /** A function that is expressions over a buffer, which Spark compiles. */
  private static final class Declared implements Steps {
    private final SpecificInternalRow buffer;
    private final SpecificInternalRow result;
    private final JoinedRow joined = new JoinedRow();
    private final MutableProjection initial;
    private final MutableProjection update;
    private final MutableProjection value;
    private final DataType type;

    Declared(DeclarativeAggregate function) {
      List<? extends Attribute> attributes = CollectionConverters.asJava(function.aggBufferAttributes());
      Map<ExprId, Integer> places = new HashMap<>();
      attributes.forEach(attribute -> places.put(attribute.exprId(), places.size()));
      UnaryOperator<Expression> place = expression -> {
        if (expression instanceof Attribute attribute) {
          return new BoundReference(places.get(attribute.exprId()), attribute.dataType(), attribute.nullable());
        }
        return expression instanceof BoundReference column ? new BoundReference(places.size() + column.ordinal(), column.dataType(), column.nullable()) : expression;
      };
      type = function.dataType();
      buffer = buffer(function);
      result = new SpecificInternalRow(Scala.seq(List.of(type)));
      initial = projection(CollectionConverters.asJava(function.initialValues()), place, buffer);
      update = projection(CollectionConverters.asJava(function.updateExpressions()), place, buffer);
      value = projection(List.of(function.evaluateExpression()), place, result);
    }

    private static MutableProjection projection(List<? extends Expression> expressions, UnaryOperator<Expression> place, InternalRow to) {
      List<Expression> placed = new ArrayList<>();
      expressions.forEach(expression -> placed.add(Expressions.replaced(expression, place)));
      return MutableProjection.create(Scala.seq(placed)).target(to);
    }

    @Override
    public void begin() {
      initial.apply(InternalRow.empty());
    }

    @Override
    public void take(InternalRow row) {
      update.apply(joined.apply(buffer, row));
    }

    @Override
    public Object end() {
      value.apply(buffer);
      return result.isNullAt(0) ? null : result.get(0, type);
    }
  }
}
