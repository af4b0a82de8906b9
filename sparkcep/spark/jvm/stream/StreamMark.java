package org.sparkcep.stream;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.FunctionTableSubqueryArgumentExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.sparkcep.catalyst.Expressions;
import org.sparkcep.catalyst.Scala;
import org.sparkcep.functions.Call;
import org.sparkcep.rewriter.Rewriter;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Marks the rows of a stream that a clause searches: puts a {@link StreamInput} into the analysed plan instead of distribution and
 * order, and finds it again.
 */
public final class StreamMark {
  private static final String REPORTED = "\"report\":\"CHANGES\""; // in a plan
  private static final String PER_BATCH = "\"per\":\"BATCH\""; // in a plan
  static final String NEEDED = "__needed"; // whether a variable accepts a row

  private StreamMark() {}

  /**
   * Returns the arguments of a call; a table that is a stream is marked instead of sorted. Raises the errors of a clause over a
   * stream.
   */
  public static Seq<Expression> marked(Seq<Expression> arguments) {
    if (arguments.isEmpty() || !(arguments.head() instanceof FunctionTableSubqueryArgumentExpression table) || !table.plan().resolved()
        || table.plan().output().isEmpty()) {
      return arguments;
    }
    String plan = table.plan().output().last().name();
    if (!plan.startsWith(Call.PLAN_HEAD)) {
      return arguments;
    }
    if (!table.plan().isStreaming()) {
      if (plan.contains(REPORTED) || plan.contains(PER_BATCH)) { // a feature that only streams have is an error before any job
        Rewriter.granted(JsonNodeFactory.instance.objectNode().put("kind", "table").put("plan", plan));
      }
      return arguments;
    }
    LogicalPlan marked = marked(table.plan(), plan, null);
    if (marked == null) {
      return arguments;
    }
    List<Expression> out = new ArrayList<>(CollectionConverters.asJava(arguments));
    out.set(0, table.withNewPlan(marked));
    return Scala.seq(out);
  }

  /**
   * Returns {@code table} with a mark instead of distribution and order, below the columns {@code above}; null if they are not the
   * rewriter's.
   */
  private static LogicalPlan marked(LogicalPlan table, String plan, Project above) {
    if (table instanceof Project project) {
      LogicalPlan child = marked(project.child(), plan, above == null ? project : above);
      return child == null ? null : StreamTables.withoutHistory(project, child);
    }
    if (table instanceof SubqueryAlias alias) {
      LogicalPlan child = marked(alias.child(), plan, above);
      return child == null ? null : new SubqueryAlias(alias.identifier(), child);
    }
    if (!(table instanceof Sort sort) || sort.global() || !(sort.child() instanceof RepartitionByExpression asked)) {
      return null;
    }
    // The keys come before the order. Without keys the rewriter distributes by a constant.
    long keys = CollectionConverters.asJava(asked.partitionExpressions()).stream().filter(key -> key instanceof Attribute).count();
    Seq<SortOrder> order = Scala.seq(
        CollectionConverters.asJava(sort.order()).stream().skip(keys).filter(by -> !StreamTables.isBefore(by.child())).toList());
    StreamTables beside = StreamTables.of(asked.child());
    beside = above == null ? beside : beside.with(above);
    StreamChecks.check(plan, order, beside);
    List<Attribute> condition = new ArrayList<>();
    List<Attribute> late = new ArrayList<>();
    boolean keepsLate = keepsLate(beside.rows());
    LogicalPlan rows = unfiltered(beside.rows(), condition, keepsLate ? late : null);
    if (keepsLate && late.isEmpty()) {
      throw new IllegalStateException("the rows of a stream are not those that the rewriter computes");
    }
    LogicalPlan input = new StreamInput(
        asked.partitionExpressions(), order, StreamStatement.texts(rows, StreamTables.columns(Call.plan(plan))).toString(), Scala.seq(late), 0, Scala.seq(beside.names()),
        Scala.seq(beside.tables()), rows);
    // The plan must remain the last column of the table, although the mark has columns after the rewriter's.
    LogicalPlan kept = condition.isEmpty() ? input : new Filter(condition.get(0), input);
    List<NamedExpression> before = new ArrayList<>(CollectionConverters.asJava(sort.output()));
    return condition.isEmpty() && late.isEmpty() ? input : new Project(Scala.seq(before), kept);
  }

  /**
   * Returns the rows without the rewriter's own WHERE, whose condition becomes a column. Below the mark Spark would move the
   * condition to the source, and rows that no variable accepts would not advance the watermark. {@code late} receives the column
   * for the table of late rows; it is null without such a table.
   */
  private static LogicalPlan unfiltered(LogicalPlan rows, List<Attribute> condition, List<Attribute> late) {
    if (rows instanceof SubqueryAlias alias) {
      return new SubqueryAlias(alias.identifier(), unfiltered(alias.child(), condition, late));
    }
    if (!(rows instanceof Project project)) {
      return rows;
    }
    List<NamedExpression> columns = new ArrayList<>(CollectionConverters.asJava(project.projectList()));
    if (!isComputed(project)) {
      LogicalPlan child = unfiltered(project.child(), condition, late);
      columns.addAll(condition);
      columns.addAll(late == null ? List.of() : late);
      return new Project(Scala.seq(columns), child);
    }
    columns = new ArrayList<>(StreamTables.withoutClock(columns));
    LogicalPlan source = project.child();
    if (source instanceof Filter filter) {
      NamedExpression needed = Expressions.plain(filter.condition(), NEEDED);
      columns.add(needed);
      condition.add(needed.toAttribute());
      source = filter.child();
    }
    if (late != null) {
      NamedExpression carried = LateRows.column(LateRows.rows(source));
      columns.add(carried);
      late.add(carried.toAttribute());
    }
    return new Project(Scala.seq(columns), source);
  }

  /** Whether late rows of a clause over these rows go to a table. The output of another clause is never late. */
  static boolean keepsLate(LogicalPlan rows) {
    return !LateRows.table().isEmpty() && hasSource(rows);
  }

  private static boolean hasSource(LogicalPlan node) {
    List<LogicalPlan> children = CollectionConverters.asJava(node.children());
    return node.isStreaming() && !(node instanceof StreamInput) && (children.isEmpty() || children.stream().anyMatch(StreamMark::hasSource));
  }

  /** Returns the plans (names of columns) of the clauses over streams in an analysed plan, without those below another clause. */
  public static List<String> plans(LogicalPlan node) {
    List<Attribute> columns = CollectionConverters.asJava(node.output());
    if (isBelow(node) && !columns.isEmpty() && columns.get(columns.size() - 1).name().startsWith(Call.PLAN_HEAD)) {
      return List.of(columns.get(columns.size() - 1).name());
    }
    return CollectionConverters.asJava(node.children()).stream().flatMap(child -> plans(child).stream()).toList();
  }

  /** Whether this projection computes the rewriter's columns. */
  private static boolean isComputed(Project project) {
    return CollectionConverters.asJava(project.projectList()).stream().anyMatch(column -> column instanceof Alias alias && alias.name().equals("__o0"));
  }

  /** Returns the rows below the rewriter's columns; null if no column is a time, because ORDER BY is missing. */
  static LogicalPlan source(LogicalPlan rows) {
    if (rows.children().isEmpty()) {
      return null;
    }
    boolean computed = rows instanceof Project project && isComputed(project);
    LogicalPlan child = rows.children().head();
    return !computed ? source(child) : child instanceof Filter filter ? filter.child() : child;
  }

  /**
   * Returns the plan with a unique number for each mark. Otherwise Spark would run one exchange for two equal clauses, and its
   * stateful operators would lose rows.
   */
  public static LogicalPlan numbered(LogicalPlan plan) {
    return isBelow(plan) ? numbered(plan, new int[1]) : plan;
  }

  private static LogicalPlan numbered(LogicalPlan node, int[] count) {
    List<LogicalPlan> before = CollectionConverters.asJava(node.children());
    List<LogicalPlan> children = new ArrayList<>();
    before.forEach(child -> children.add(isBelow(child) ? numbered(child, count) : child));
    LogicalPlan same = children.equals(before) ? node : (LogicalPlan) node.withNewChildren(CollectionConverters.asScala(children).toIndexedSeq());
    return same instanceof StreamInput input ? input.withNumber(count[0]++) : same;
  }

  /** Whether a plan has a clause over a stream. */
  public static boolean isBelow(LogicalPlan plan) {
    return plan.isStreaming() && (plan instanceof StreamInput || CollectionConverters.asJava(plan.children()).stream().anyMatch(StreamMark::isBelow));
  }

  /** Returns the mark below a call's table; null without one. */
  public static StreamInput input(LogicalPlan table) {
    if (table instanceof StreamInput input) {
      return input;
    }
    return table instanceof Project || table instanceof Filter ? input(table.children().head()) : null;
  }
}
