package org.sparkcep.stream;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Predicate;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.ScalarSubquery;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.execution.SparkPlan;
import org.sparkcep.catalyst.Expressions;
import org.sparkcep.catalyst.Scala;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The tables that a clause over a stream reads at each micro-batch, in addition to its rows. Over a table the rewriter joins them
 * with the rows. Here they are removed from that form, and each becomes a child of the mark ({@link StreamInput}) under its own
 * name.
 *
 * <p>The function still sees the tables' columns, with types but without values. So all checks of a table's columns work as over a
 * table.
 *
 * @param rows the rows alone, with such columns
 * @param names the tables' names in the engine
 */
public record StreamTables(LogicalPlan rows, List<String> names, List<LogicalPlan> tables) {
  public static final String ARCS = "arcs"; // as in spark/stream/start_checks.py
  public static final String HISTORY = "history"; // as in spark/stream/start_checks.py
  private static final String HISTORY_COLUMN = "__history"; // as in plan/extend/budget.py: the rows of USING HISTORY, as one value
  private static final String CLOCK_COLUMN = "__clock"; // as in plan/extend/unfinished.py: the latest time of a table; of a stream the watermark says it
  private static final String ARC = "__a_is"; // as in plan/extend/arcs.py: whether a row is of ARCS FROM
  private static final String NUMBER = "__a_no"; // as in plan/extend/arcs.py: the number of such a row
  private static final String OWN_ROW = "__a_row"; // as in plan/extend/arcs.py: the columns of a row, which it carries itself

  /** Returns the rows below distribution and order, without the tables that the rewriter joined with them. */
  static StreamTables of(LogicalPlan rows) {
    Join join = join(rows);
    if (join == null) {
      return new StreamTables(rows, List.of(), List.of());
    }
    LogicalPlan array = unnamed(join.right());
    LogicalPlan numbered = join.left();
    while (!(numbered instanceof Window) && !numbered.children().isEmpty()) {
      numbered = numbered.children().head();
    }
    if (!(array instanceof Aggregate aggregate) || !(numbered instanceof Window window)) {
      throw new IllegalStateException("the arcs of a stream are not joined as the rewriter joins them");
    }
    return new StreamTables(without(rows, window.child()), List.of(ARCS), List.of(unnumbered(aggregate.child())));
  }

  /** Returns these tables and, if the columns of a call read it, the table of USING HISTORY. */
  StreamTables with(Project columns) {
    LogicalPlan history = history(columns);
    if (history == null) {
      return this;
    }
    List<String> more = new ArrayList<>(names);
    more.add(HISTORY);
    List<LogicalPlan> all = new ArrayList<>(tables);
    all.add(history);
    return new StreamTables(rows, more, all);
  }

  /** Returns the table of USING HISTORY, with all rows as one value; null if the columns of a call do not read it. */
  private static LogicalPlan history(Project columns) {
    List<LogicalPlan> found = new ArrayList<>();
    for (NamedExpression column : CollectionConverters.asJava(columns.projectList())) {
      if (isHistory(column)) {
        collect((Expression) column, found);
      }
    }
    return found.isEmpty() ? null : found.get(0);
  }

  private static void collect(Expression expression, List<LogicalPlan> found) {
    if (expression instanceof ScalarSubquery subquery) {
      found.add((LogicalPlan) subquery.plan());
    }
    CollectionConverters.asJava(expression.children()).forEach(child -> collect(child, found));
  }

  private static boolean isHistory(NamedExpression column) {
    return column instanceof Alias alias && alias.name().equals(HISTORY_COLUMN);
  }

  /** Returns the columns of a call, with the column of USING HISTORY without a value. */
  static Project withoutHistory(Project columns, LogicalPlan child) {
    List<NamedExpression> out = valueless(CollectionConverters.asJava(columns.projectList()), StreamTables::isHistory);
    return new Project(Scala.seq(out), child);
  }

  /** Returns the rewriter's columns without the latest time of the input, which a stream does not have. */
  static List<NamedExpression> withoutClock(List<NamedExpression> columns) {
    return valueless(columns, column -> column.name().equals(CLOCK_COLUMN));
  }

  /** Returns a table without row numbers, which Spark refuses with a stream. The engine numbers the rows itself. */
  private static LogicalPlan unnumbered(LogicalPlan table) {
    if (table instanceof SubqueryAlias alias) {
      return unnumbered(alias.child());
    }
    if (!(table instanceof Project project) || CollectionConverters.asJava(project.projectList()).stream().noneMatch(StreamTables::isNumber)) {
      return table;
    }
    List<NamedExpression> others = CollectionConverters.asJava(project.projectList()).stream().filter(column -> !isNumber(column)).toList();
    return new Project(Scala.seq(others), unnumbered(project.child()));
  }

  private static boolean isNumber(NamedExpression column) {
    return column.name().equals(NUMBER);
  }

  /** Returns the join with rows of ARCS FROM; null without one. */
  private static Join join(LogicalPlan rows) {
    for (LogicalPlan node = rows; node instanceof Project || node instanceof SubqueryAlias || node instanceof Generate; node = node.children().head()) {
      if (node instanceof Project project && isFlat(project)) {
        LogicalPlan below = project.child();
        while (below instanceof Project || below instanceof SubqueryAlias || below instanceof Generate) {
          below = below.children().head();
        }
        if (below instanceof Join join) {
          return join;
        }
        throw new IllegalStateException("the arcs of a stream are not joined as the rewriter joins them");
      }
    }
    return null;
  }

  /** Whether this projection makes the columns of rows of ARCS FROM. */
  private static boolean isFlat(Project project) {
    return CollectionConverters.asJava(project.projectList()).stream().anyMatch(column -> column instanceof Alias alias && alias.name().equals(ARC));
  }

  /** Whether this expression of the order puts rows of tables before others. */
  static boolean isBefore(Expression order) {
    return order instanceof Attribute attribute && attribute.name().equals(ARC);
  }

  private static LogicalPlan unnamed(LogicalPlan plan) {
    return plan instanceof SubqueryAlias alias ? unnamed(alias.child()) : plan;
  }

  /** Returns {@code rows} with columns from tables without values; below these is {@code own}, the original rows. */
  private static LogicalPlan without(LogicalPlan rows, LogicalPlan own) {
    if (rows instanceof SubqueryAlias alias) {
      return new SubqueryAlias(alias.identifier(), without(alias.child(), own));
    }
    Project project = (Project) rows;
    if (!isFlat(project)) {
      return new Project(project.projectList(), without(project.child(), own));
    }
    return new Project(Scala.seq(valueless(CollectionConverters.asJava(project.projectList()), column -> true)), own);
  }

  /** Returns columns with those expressions that are {@code unread} without a value. */
  private static List<NamedExpression> valueless(List<NamedExpression> columns, Predicate<NamedExpression> unread) {
    return columns.stream().map(column -> column instanceof Alias alias && unread.test(alias) ? valueless(alias) : column).toList();
  }

  private static NamedExpression valueless(Alias alias) {
    Expression nothing = new Literal(null, alias.child().dataType());
    return Expressions.alias(nothing, alias.name(), alias.exprId());
  }

  /** Returns the input columns of a clause's plan that come from tables, or with the watermark, and not with rows. */
  static Set<String> columns(JsonNode plan) {
    Set<String> names = new HashSet<>();
    plan.path("arcs").path("columns").forEach(column -> names.add(column.asText()));
    names.remove(OWN_ROW);
    if (!plan.path("approximate").path("budget").path("history").asText().isEmpty()) {
      names.add(HISTORY_COLUMN);
    }
    if (!plan.path("unfinished").path("clock").asText().isEmpty()) {
      names.add(CLOCK_COLUMN);
    }
    return names;
  }

  /** Returns the names and types of each table's columns, which reveal a changed table. */
  static ObjectNode described(StreamInput input) {
    ObjectNode found = JsonNodeFactory.instance.objectNode();
    for (int i = 0; i < input.names().size(); i++) {
      ArrayNode columns = found.putArray(input.names().apply(i));
      for (Attribute column : CollectionConverters.asJava(input.tables().apply(i).output())) {
        columns.addArray().add(column.name()).add(column.dataType().catalogString());
      }
    }
    return found;
  }

  /**
   * Returns the operators that read the tables. Spark's cached file lists are invalidated first, so that new files are read. The
   * plan is rebuilt for each micro-batch.
   */
  public static SparkPlan read(StreamInput input, Function<LogicalPlan, SparkPlan> planned) {
    List<SparkPlan> found = new ArrayList<>();
    for (LogicalPlan table : CollectionConverters.asJava(input.tables())) {
      table.refresh();
      found.add(planned.apply(table));
    }
    return new ReadTables(input.names(), Scala.seq(found));
  }
}
