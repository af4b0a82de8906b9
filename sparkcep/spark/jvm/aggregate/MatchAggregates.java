package org.sparkcep.aggregate;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.ArrayDistinct;
import org.apache.spark.sql.catalyst.expressions.ArrayMax;
import org.apache.spark.sql.catalyst.expressions.ArrayMin;
import org.apache.spark.sql.catalyst.expressions.ArraysZip;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.LateralSubquery;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.PosExplode;
import org.apache.spark.sql.catalyst.expressions.Size;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.CollectList;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate;
import org.apache.spark.sql.catalyst.expressions.aggregate.ImperativeAggregate;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LateralJoin;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.sparkcep.catalyst.Expressions;
import org.sparkcep.catalyst.ExtensionJar;
import org.sparkcep.catalyst.Replacement;
import org.sparkcep.catalyst.Scala;
import org.sparkcep.functions.Call;
import org.sparkcep.rewriter.Configured;
import org.sparkcep.stream.StreamMark;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Computes Spark's aggregates over a match's rows by {@link RunningAggregate}, in a table, and over a stream if a match has several
 * output rows. The rewriter spreads an array of the match's rows for each output row, so under ALL ROWS PER MATCH the cost is
 * quadratic in the rows of a match.
 *
 * <p>{@code Aggregate(Generate(posexplode(elements), rows))} becomes a projection over the rows. {@link #asStepwise} then makes the
 * engine return only the new rows in each output row, instead of arrays of all rows.
 */
public final class MatchAggregates extends Rule<LogicalPlan> {
  private static final Set<String> SEARCHES = Set.of("approximate", "slide", "ranking", "automaton", "changes"); // their output rows may have another order
  private static final String VALUE = "__u[0-9]+"; // as in plan/split/measures.py

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return !Configured.mapsInArrow() ? plan : (LogicalPlan) plan.transformUp(Replacement.of(
        MatchAggregates::isWanted, node -> node instanceof Aggregate aggregate ? inRows(aggregate) : running((Project) node)));
  }

  private static boolean isWanted(LogicalPlan node) {
    boolean wanted = node instanceof Aggregate aggregate && StreamAggregates.isOverElements(aggregate) || node instanceof Project project && hasValues(project);
    return wanted && node.resolved() && (!node.isStreaming() || hasSteps(node));
  }

  /** Whether a clause over a stream emits several rows per match, and each match as a unit. */
  private static boolean hasSteps(LogicalPlan node) {
    List<String> plans = StreamMark.isBelow(node) ? StreamMark.plans(node) : List.of();
    return plans.size() == 1 && hasSteps(Call.plan(plans.get(0)));
  }

  private static boolean hasSteps(JsonNode plan) {
    return !plan.get("rows").asText().equals("one") && SEARCHES.stream().allMatch(member -> plan.path(member).isNull());
  }

  /** An array of elements: the leaf with their rows, and an expression that makes elements of new rows. */
  private record Elements(Attribute leaf, Expression made, RunningAggregate.Variables variables, boolean once) {}

  private static LogicalPlan inRows(Aggregate aggregate) {
    Generate generate = (Generate) aggregate.child();
    Project numbered = (Project) (generate.child() instanceof SubqueryAlias alias ? alias.child() : generate.child());
    Set<ExprId> leaves = leaves(numbered);
    Map<Integer, Elements> arrays = new HashMap<>();
    List<Expression> zipped = CollectionConverters.asJava(((ArraysZip) ((PosExplode) generate.generator()).child()).children());
    for (int i = 0; i < zipped.size(); i++) {
      Elements found = elements(zipped.get(i), numbered, leaves);
      if (found == null) {
        return aggregate;
      }
      arrays.put(i, found);
    }
    List<NamedExpression> columns = new ArrayList<>();
    for (NamedExpression column : CollectionConverters.asJava(StreamAggregates.rewritten(aggregate).aggregateExpressions())) {
      Expression value = ((Alias) column).child();
      boolean kept = column.name().equals(StreamAggregates.KEPT); // any_value of a single value per row
      value = kept ? ((AggregateExpression) value).aggregateFunction().children().head() : inRow(value, generate, arrays);
      if (value == null) {
        return aggregate;
      }
      columns.add(Expressions.alias(value, column.name(), column.exprId()));
    }
    ExtensionJar.ship();
    return new Project(Scala.seq(columns), StreamAggregates.unnumbered(generate.child()));
  }

  /** Returns the arrays of rows among the output columns of the table function below. */
  private static Set<ExprId> leaves(LogicalPlan node) {
    Set<ExprId> found = new HashSet<>();
    if (node instanceof Project || node instanceof Filter || node instanceof SubqueryAlias) {
      return leaves(node.children().head());
    }
    if (node instanceof LateralJoin join) {
      LogicalPlan rows = ((LateralSubquery) join.right()).plan();
      while (rows instanceof SubqueryAlias || rows instanceof Project) {
        rows = rows.children().head();
      }
      if (rows instanceof Generate generate) {
        CollectionConverters.asJava(generate.generatorOutput()).forEach(column -> found.add(column.exprId()));
      }
    }
    return found;
  }

  private static Elements elements(Expression array, Project numbered, Set<ExprId> leaves) {
    Expression text = array;
    for (NamedExpression column : numbered == null ? List.<NamedExpression>of() : CollectionConverters.asJava(numbered.projectList())) {
      if (array instanceof Attribute name && column instanceof Alias alias && alias.exprId().equals(name.exprId())) {
        text = alias.child();
      }
    }
    boolean once = text instanceof ArrayDistinct;
    Expression made = once ? ((ArrayDistinct) text).child() : text;
    List<Attribute> read = new ArrayList<>();
    for (Attribute column : CollectionConverters.asJava(made.references().toSeq())) {
      if (leaves.contains(column.exprId()) && column.name().startsWith("__l") && column.dataType() instanceof ArrayType) {
        read.add(column);
      }
    }
    if (read.size() != 1) {
      return null;
    }
    Attribute leaf = read.get(0);
    NamedLambdaVariable rows = variable("rows", leaf.dataType());
    NamedLambdaVariable element = variable("element", ((ArrayType) array.dataType()).elementType());
    RunningAggregate.Variables variables = new RunningAggregate.Variables(rows, variable("position", DataTypes.IntegerType), element);
    return new Elements(leaf, Expressions.replaced(made, Map.of(leaf.exprId(), rows)), variables, once);
  }

  static NamedLambdaVariable variable(String name, DataType type) {
    return new NamedLambdaVariable(name, type, true, NamedExpression.newExprId(), new AtomicReference<>());
  }

  /** Returns {@code value} with each aggregate computed over the rows of a leaf; null if that is impossible for any of them. */
  private static Expression inRow(Expression value, Generate generate, Map<Integer, Elements> arrays) {
    boolean[] refused = new boolean[1];
    Expression made = Expressions.replaced(value, part -> {
      if (!(part instanceof AggregateExpression call)) {
        return part;
      }
      RunningAggregate running = running(call, generate, arrays);
      refused[0] |= running == null;
      return running == null ? part : running;
    });
    return refused[0] ? null : made;
  }

  private static RunningAggregate running(AggregateExpression call, Generate generate, Map<Integer, Elements> arrays) {
    AggregateFunction function = call.aggregateFunction();
    boolean known = function instanceof DeclarativeAggregate || function instanceof ImperativeAggregate;
    List<Expression> arguments = CollectionConverters.asJava(function.children());
    if (!known || call.filter().isEmpty() || !arguments.stream().allMatch(Expression::deterministic) || !call.filter().get().deterministic()) {
      return null;
    }
    Attribute position = generate.generatorOutput().apply(0);
    Attribute element = generate.generatorOutput().apply(1);
    Expression over = call.isDistinct() ? StreamAggregates.normalized(function) : function;
    Set<Integer> read = new HashSet<>();
    for (Expression part : List.of(over, call.filter().get())) {
      visit(part, node -> {
        if (node instanceof GetStructField field && field.child() instanceof Attribute of && of.exprId().equals(element.exprId())) {
          read.add(field.ordinal());
        }
      });
    }
    if (read.size() != 1) {
      return null;
    }
    Elements of = arrays.get(read.iterator().next());
    UnaryOperator<Expression> placed = node -> {
      if (node instanceof GetStructField field && field.child() instanceof Attribute array && array.exprId().equals(element.exprId())) {
        return of.variables().element();
      }
      return node instanceof Attribute at && at.exprId().equals(position.exprId()) ? of.variables().position() : node;
    };
    Expression filter = Expressions.replaced(call.filter().get(), placed);
    return new RunningAggregate(of.leaf(), of.made(), Expressions.replaced(over, placed), filter, of.variables(), call.isDistinct(), of.once());
  }

  private static void visit(Expression expression, Consumer<Expression> visitor) {
    visitor.accept(expression);
    CollectionConverters.asJava(expression.children()).forEach(child -> visit(child, visitor));
  }

  /** Whether the projection has columns of the rewriter that are functions of whole arrays. */
  private static boolean hasValues(Project project) {
    return CollectionConverters.asJava(project.projectList()).stream().anyMatch(MatchAggregates::isValue);
  }

  private static boolean isValue(NamedExpression column) {
    // Spark analyses a plan again when it becomes part of another
    return column instanceof Alias alias && column.name().matches(VALUE) && !(alias.child() instanceof RunningAggregate);
  }

  private static LogicalPlan running(Project project) {
    Set<ExprId> leaves = leaves(project);
    List<NamedExpression> columns = new ArrayList<>();
    boolean changed = false;
    for (NamedExpression column : CollectionConverters.asJava(project.projectList())) {
      Expression value = isValue(column) ? running(((Alias) column).child(), leaves) : null;
      changed |= value != null;
      columns.add(value == null ? column : Expressions.alias(value, column.name(), column.exprId()));
    }
    if (!changed) {
      return project;
    }
    ExtensionJar.ship();
    return new Project(Scala.seq(columns), project.child());
  }

  /** Returns the aggregate that computes a function of a whole array; null for another function, or another array. */
  private static Expression running(Expression value, Set<ExprId> leaves) {
    if (value instanceof Cast cast && cast.child() instanceof Size size) {
      return running(size.child(), leaves, element -> new Count(Scala.seq(List.of(element))));
    }
    if (value instanceof ArrayMin least) {
      return running(least.child(), leaves, Min::new);
    }
    return value instanceof ArrayMax most ? running(most.child(), leaves, Max::new) : running(value, leaves, CollectList::new);
  }

  private static Expression running(Expression array, Set<ExprId> leaves, Function<Expression, AggregateFunction> function) {
    Elements of = elements(array, null, leaves);
    return of == null ? null
        : new RunningAggregate(of.leaf(), of.made(), function.apply(of.variables().element()), null, of.variables(), false, of.once());
  }

  /** Returns the stepwise plan of a call if only running aggregates read its arrays of rows, else null. */
  public static ObjectNode asStepwise(Call call, Generate generate, List<Expression> above) {
    JsonNode plan = call.plan();
    if (plan.path("stepwise").asBoolean() || !hasSteps(plan)) {
      return null;
    }
    Set<String> names = new HashSet<>();
    plan.get("leaves").forEach(leaf -> {
      if (leaf.get("spec").get("kind").asText().equals("rows")) {
        names.add(leaf.get("name").asText());
      }
    });
    Set<ExprId> leaves = new HashSet<>();
    for (Attribute column : CollectionConverters.asJava(generate.generatorOutput())) {
      if (names.contains(column.name())) {
        leaves.add(column.exprId());
      }
    }
    int[] reads = new int[2]; // by running aggregates, and in total
    for (Expression expression : above) {
      visit(expression, node -> {
        reads[0] += node instanceof RunningAggregate running && running.leaf() instanceof Attribute leaf && leaves.contains(leaf.exprId()) ? 1 : 0;
        reads[1] += node instanceof Attribute column && leaves.contains(column.exprId()) ? 1 : 0;
      });
    }
    return reads[0] == 0 || reads[0] != reads[1] ? null : call.plan().deepCopy().put("stepwise", true);
  }
}
