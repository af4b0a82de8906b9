package org.sparkcep.aggregate;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.MonotonicallyIncreasingID;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.PosExplode;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate;
import org.apache.spark.sql.catalyst.expressions.aggregate.ImperativeAggregate;
import org.apache.spark.sql.catalyst.optimizer.DecimalAggregates$;
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers$;
import org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.types.DataTypes;
import org.sparkcep.catalyst.Expressions;
import org.sparkcep.catalyst.Replacement;
import org.sparkcep.catalyst.Scala;
import org.sparkcep.rewriter.Rewriter;
import org.sparkcep.stream.StreamMark;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Computes Spark's aggregates over a match's rows, over a stream, in the row of the match. The rewriter spreads arrays and groups
 * their elements by a row number. Over a stream this would be a stateful operator of Spark's without a watermark.
 *
 * <p>{@code Aggregate(Generate(posexplode(elements), rows))} becomes a projection of {@link ElementsAggregate} over the rows.
 */
public final class StreamAggregates extends Rule<LogicalPlan> {
  private static final String ROW = "__row_id"; // the rewriter's number of a row
  static final String KEPT = "__t"; // the rewriter's column with the other values of the row

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return !plan.isStreaming() ? plan : (LogicalPlan) plan.transformUp(Replacement.of(node -> node instanceof Aggregate aggregate && aggregate.resolved() && isOverElements(aggregate) && StreamMark.isBelow(aggregate), node -> inRows((Aggregate) node)));
  }

  static boolean isOverElements(Aggregate aggregate) {
    return aggregate.groupingExpressions().size() == 1 && aggregate.groupingExpressions().head() instanceof Attribute key && key.name().equals(ROW)
        && aggregate.aggregateExpressions().head().name().equals(KEPT);
  }

  /** The variables that replace an element and its position, and the array. */
  private record Spread(Attribute elements, NamedLambdaVariable position, NamedLambdaVariable element, Map<ExprId, Expression> variables) {
    static Spread of(Attribute elements, Seq<Attribute> columns) {
      NamedLambdaVariable position = MatchAggregates.variable(columns.apply(0).name(), columns.apply(0).dataType());
      NamedLambdaVariable element = MatchAggregates.variable(columns.apply(1).name(), columns.apply(1).dataType());
      return new Spread(elements, position, element, Map.of(columns.apply(0).exprId(), position, columns.apply(1).exprId(), element));
    }
  }

  private static LogicalPlan inRows(Aggregate aggregate) {
    Generate generate = (Generate) aggregate.child();
    LogicalPlan rows = unnumbered(generate.child());
    NamedExpression elements = Expressions.plain(((PosExplode) generate.generator()).child(), "__z");
    List<NamedExpression> below = new ArrayList<>(CollectionConverters.asJava(rows.output()));
    below.add(elements);
    Spread spread = Spread.of(elements.toAttribute(), generate.generatorOutput());
    List<NamedExpression> columns = new ArrayList<>();
    for (NamedExpression column : CollectionConverters.asJava(rewritten(aggregate).aggregateExpressions())) {
      Expression value = ((Alias) column).child();
      boolean kept = column.name().equals(KEPT); // any_value of a single value per row
      value = kept ? ((AggregateExpression) value).aggregateFunction().children().head() : inRow(value, aggregate, spread);
      columns.add(Expressions.alias(value, column.name(), column.exprId()));
    }
    return new Project(Scala.seq(columns), new Project(Scala.seq(below), rows));
  }

  /** Returns the aggregates as Spark's optimizer rewrites them before planning, so that the values are Spark's. */
  static Aggregate rewritten(Aggregate aggregate) {
    LogicalPlan alone = (LogicalPlan) aggregate.withNewChildren(Scala.seq(List.<LogicalPlan>of(new OneRowRelation())).toIndexedSeq());
    return (Aggregate) DecimalAggregates$.MODULE$.apply(ReplaceExpressions$.MODULE$.apply(alone));
  }

  /**
   * Returns the rows with a constant instead of their number, which nothing reads now. Spark refuses to number rows of a stream.
   */
  static LogicalPlan unnumbered(LogicalPlan rows) {
    if (rows instanceof SubqueryAlias alias) {
      return new SubqueryAlias(alias.identifier(), unnumbered(alias.child()));
    }
    List<NamedExpression> columns = new ArrayList<>();
    for (NamedExpression column : CollectionConverters.asJava(((Project) rows).projectList())) {
      boolean number = column instanceof Alias alias && alias.child() instanceof MonotonicallyIncreasingID;
      columns.add(number ? Expressions.alias(new Literal((Object) 0L, DataTypes.LongType), column.name(), column.exprId()) : column);
    }
    return new Project(Scala.seq(columns), ((Project) rows).child());
  }

  /** Returns {@code value} with each aggregate computed over the elements of the row. */
  private static Expression inRow(Expression value, Aggregate aggregate, Spread spread) {
    return (Expression) value.transformUp(Replacement.of(part -> part instanceof AggregateExpression, part -> inRow((AggregateExpression) part, aggregate, spread)));
  }

  private static Expression inRow(AggregateExpression call, Aggregate aggregate, Spread spread) {
    AggregateFunction function = call.aggregateFunction();
    if (!(function instanceof DeclarativeAggregate) && !(function instanceof ImperativeAggregate)) {
      throw refused(aggregate, function.prettyName());
    }
    Expression over = Expressions.replaced(call.isDistinct() ? normalized(function) : function, spread.variables());
    Expression filter = call.filter().isEmpty() ? null : Expressions.replaced(call.filter().get(), spread.variables());
    ElementsAggregate inRow = new ElementsAggregate(spread.elements(), spread.position(), spread.element(), over, filter, call.isDistinct());
    if (!inRow.deterministic()) {
      throw refused(aggregate, "");
    }
    return inRow;
  }

  /** For DISTINCT, Spark treats 0.0 and -0.0 as one value and passes on the first. */
  static Expression normalized(AggregateFunction function) {
    List<Expression> arguments = new ArrayList<>();
    CollectionConverters.asJava(function.children()).forEach(argument ->
        arguments.add(argument.foldable() ? argument : NormalizeFloatingNumbers$.MODULE$.normalize(argument)));
    return (Expression) function.withNewChildren(Scala.seq(arguments).toIndexedSeq());
  }

  /** Raises the error of an aggregate that cannot be computed in a row. {@code function}: "" if an argument is the cause. */
  private static RuntimeException refused(Aggregate aggregate, String function) {
    String plan = StreamMark.plans(aggregate).get(0);
    Rewriter.granted(JsonNodeFactory.instance.objectNode().put("kind", "aggregated").put("plan", plan).put("function", function));
    return new IllegalStateException("the rewriter's process has an error for " + function);
  }
}
