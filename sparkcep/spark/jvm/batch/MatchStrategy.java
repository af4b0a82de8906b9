package org.sparkcep.batch;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.ArrowEvalPythonUDTF;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.window.WindowExec;
import org.apache.spark.sql.types.DataTypes;
import org.sparkcep.budget.BudgetTotals;
import org.sparkcep.budget.MatchBudget;
import org.sparkcep.budget.MatchUnrepeatable;
import org.sparkcep.catalyst.Clustered;
import org.sparkcep.catalyst.Expressions;
import org.sparkcep.catalyst.Reflection;
import org.sparkcep.catalyst.Scala;
import org.sparkcep.functions.Call;
import org.sparkcep.functions.FunctionCode;
import org.sparkcep.functions.Shipment;
import org.sparkcep.rewriter.Configured;
import org.sparkcep.stream.StreamInput;
import org.sparkcep.stream.StreamMark;
import org.sparkcep.stream.StreamOperator;
import org.sparkcep.stream.StreamPlanning;
import org.sparkcep.stream.StreamWindow;
import org.sparkcep.stream.StreamTables;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Runs the table function with Spark's operator of {@code mapInArrow} if the rewriter wrote the call.
 *
 * <p>The operator for table functions copies each input row and queues it, in memory and then on disk, to join it with the
 * function's output. The rewriter's form never needs this join, so copying and queueing are left out. The Python engine and its
 * batches are unchanged.
 */
public final class MatchStrategy extends SparkStrategy {
  private static final String OPERATOR = "org.apache.spark.sql.execution.python.MapInArrowExec";

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    List<SparkPlan> planned = new ArrayList<>();
    LogicalPlan alone = plan instanceof ArrowEvalPythonUDTF call && Configured.mapsInArrow() ? StreamPlanning.alone(call) : plan;
    if (alone != plan) {
      planned.add(planLater(alone));
    } else if (plan instanceof ArrowEvalPythonUDTF node && node.requiredChildOutput().isEmpty() && Configured.mapsInArrow()) {
      Call columns = Call.of(node.udtf(), node.child());
      Call call = columns != null ? columns : Call.ofConstants(node.udtf(), node.child());
      if (call != null) {
        planned.add(planned(call, node.resultAttrs()));
      }
    }
    if (plan instanceof StreamWindow windows) {
      planned.add(new WindowExec(windows.functions(), windows.groups(), windows.order(), planLater(windows.child())));
    }
    return Scala.seq(planned);
  }

  private SparkPlan planned(Call call, Seq<Attribute> output) {
    StreamInput stream = StreamMark.input(call.table());
    if (stream != null) {
      return streaming(call, stream, output);
    }
    int carried = Math.max(1, call.size() - 1); // the last column only carries the plan, but rows without a column would be lost
    Shipment shipment = Shipment.of(call, carried, Set.of());
    List<Expression> lines = lines(call);
    BudgetTotals totals = totals(call);
    Expression function = FunctionCode.mapping(call, FunctionCode.mapper(call.given(), shipment), totals, call.function().elementSchema(), lines);
    SparkPlan input = projected(shipment.columns(), table(call));
    // A key passes through as the input's own attribute, so Spark sees that output rows are distributed like input rows.
    Map<ExprId, Expression> keys = KeyFilters.keys(call, output);
    Set<ExprId> passed = new HashSet<>();
    List<Attribute> given = new ArrayList<>();
    List<NamedExpression> renamed = new ArrayList<>();
    for (Attribute attribute : CollectionConverters.asJava(output)) {
      boolean key = keys.get(attribute.exprId()) instanceof Attribute column && passed.add(column.exprId());
      given.add(key ? (Attribute) keys.get(attribute.exprId()) : attribute);
      renamed.add(key ? Expressions.alias(keys.get(attribute.exprId()), attribute.name(), attribute.exprId()) : attribute);
    }
    SparkPlan operator = (SparkPlan) Reflection.construct(OPERATOR, function, Scala.seq(given), input, false, Option.empty());
    operator = totals == null ? operator : new MatchBudget(totals, call.clock(), operator);
    return passed.isEmpty() ? operator : new ProjectExec(Scala.seq(renamed), operator);
  }

  /** Plans the operator of a clause over a stream, which has a state for each key. */
  private SparkPlan streaming(Call call, StreamInput input, Seq<Attribute> output) {
    StreamPlanning.keepApart(input);
    StreamPlanning.Parts parts = StreamPlanning.parts(call, input, Math.max(1, call.size() - 1));
    SparkPlan rows = new ProjectExec(Scala.seq(parts.columns()), planLater(parts.rows()));
    SparkPlan operator = StreamOperator.operator(call, input, parts, output, lines(call), call.given(), rows, StreamTables.read(input, this::planLater));
    SparkPlan marked = MatchUnrepeatable.over(operator, call.clock());
    return new ProjectExec(Scala.seq(new ArrayList<NamedExpression>(CollectionConverters.asJava(output))), marked);
  }

  /** Returns the lines for EXPLAIN. */
  private static List<Expression> lines(Call call) {
    List<Expression> lines = new ArrayList<>();
    for (Expression argument : CollectionConverters.asJava(call.function().children())) {
      if (argument.foldable() && argument.dataType().equals(DataTypes.StringType)) {
        lines.add(argument);
      }
    }
    return lines;
  }

  /** Returns the receiver of the totals of a clause with BUDGET; null for another clause. */
  private static BudgetTotals totals(Call call) {
    return call.isBudgeted() ? BudgetTotals.registered(SparkSession.active().sparkContext(), call.function().func().accumulator()) : null;
  }

  /** Plans the operator of a call's input. */
  private SparkPlan table(Call call) {
    // A table that is clustered by its keys would leave all slices of a key in one task.
    boolean whole = call.plan().path("slice").asText().isEmpty();
    return whole && Marks.areTakenOut() ? required(call.table()) : planLater(call.table());
  }

  /**
   * Requires distribution and order where the text commands them. It plans only nodes of the logical plan, never new ones. An
   * adaptive query replaces the node of a finished stage (an exchange, a cached table). If the plan lacks the node, the stage is
   * planned again, indefinitely.
   */
  private SparkPlan required(LogicalPlan table) {
    if (table instanceof Project project) {
      return projected(CollectionConverters.asJava(project.projectList()), required(project.child()));
    }
    List<Expression> keys = Clustered.asked(table);
    return keys.isEmpty() ? planLater(table) : new Clustered(Scala.seq(keys), ((Sort) table).order(), planLater(table.children().head().children().head()));
  }

  /** Returns {@code child} with these columns, without copying rows if the columns are its own. */
  private static SparkPlan projected(List<NamedExpression> columns, SparkPlan child) {
    List<Attribute> output = CollectionConverters.asJava(child.output());
    boolean own = output.size() == columns.size();
    for (int i = 0; own && i < output.size(); i++) {
      own = columns.get(i) instanceof Attribute && columns.get(i).exprId().equals(output.get(i).exprId())
          && columns.get(i).name().equals(output.get(i).name());
    }
    return own ? child : new ProjectExec(Scala.seq(columns), child);
  }
}
